"""Trade-off functions (f-DP): the least type II error for each type I error."""

from skdp.privacy.tradeoff import (
    TradeOff,
    approximate,
    from_law,
    from_profile,
    gaussian,
    laplace,
    total_variation,
)

__all__ = [
    "TradeOff",
    "approximate",
    "from_law",
    "from_profile",
    "gaussian",
    "laplace",
    "total_variation",
]
