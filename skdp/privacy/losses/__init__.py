"""Privacy losses of one release, as laws of a log-ratio."""
