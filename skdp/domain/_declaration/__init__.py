"""Checks of declarations, how they are printed and exported, and rows drawn from them."""
