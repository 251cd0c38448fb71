"""Canonical noise for a trade-off function, in one dimension and in several."""
