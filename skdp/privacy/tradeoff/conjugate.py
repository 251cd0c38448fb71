"""Numbers read off a trade-off function: its fixed point, and its profile from above."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp.privacy.tradeoff.curves import LOG_HALF, Curve, log1mexp

# No float is positive below e^-745.
_LEAST = -745.0
_HALVINGS = 70
# The log maps are a few roundings off; a power may be off by this share of itself.
_SLACK = 1e-14


def fixed_point(curve: Curve) -> float:
    """Return log c with f(c) = c: log f(c) - log c falls in c."""
    low, high = _LEAST, LOG_HALF
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = float(curve.log_miss(log1mexp(middle))) > middle
        low, high = (middle, high) if above else (low, middle)
    return high


def upper_log_delta(curve: Curve, epsilon: ArrayLike) -> FloatArray:
    """Return log of an upper bound of the greatest 1 - f(a) - e^epsilon a.

    It is concave in a: its derivative tells on which side the greatest value lies. Between the
    ends a < b of the last bracket it is at most 1 - f(b) - e^epsilon a.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    backwards = curve.inverse()
    low, high = np.full(epsilon.shape, -np.inf), np.zeros(epsilon.shape)
    for _ in range(_HALVINGS):
        middle = (np.maximum(low, _LEAST) + high) / 2
        power = curve.log_power(middle)
        # The power's derivative is that of an inverse function: one over the derivative.
        rises = (power < 0) & (-backwards.log_slope(power) > epsilon)
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    gain = curve.log_power(high) + _SLACK
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(low), -np.inf, epsilon + low - gain)
    return np.minimum(gain + log1mexp(np.minimum(share, 0.0)), 0.0)
