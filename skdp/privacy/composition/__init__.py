"""Sums of independent privacy losses, with certified bounds on every error."""
