"""Candidates of a search: how they are built, checked, and tried without noise."""
