"""Bounds and levels of columns from a part of the privacy budget."""

from skdp.bounds.estimate import estimate_domain

__all__ = ["estimate_domain"]
