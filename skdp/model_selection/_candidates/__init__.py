"""Candidates of a search: how they are built, checked, rehearsed and tried."""
