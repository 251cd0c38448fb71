"""Comparing the K-norm mechanisms of norm balls."""

from skdp.geometry.order._laws import (
    concentration_set,
    conditional_variance,
    covariance_or_estimate,
    depth,
    entropy,
    is_tighter,
    knorm_covariance,
)
from skdp.geometry.order.comparison import Comparison, compare
from skdp.geometry.order.containment import contains, greatest_gauge_over

__all__ = [
    "Comparison",
    "compare",
    "concentration_set",
    "conditional_variance",
    "contains",
    "covariance_or_estimate",
    "depth",
    "entropy",
    "greatest_gauge_over",
    "is_tighter",
    "knorm_covariance",
]
