"""Checks of declarations, and how they are printed and exported."""
