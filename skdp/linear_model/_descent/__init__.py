"""Private coordinate descent."""
