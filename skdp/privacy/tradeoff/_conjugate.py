"""The fixed point of a trade-off function, and an upper bound of its privacy profile."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._search import narrowed
from skdp.privacy.curves import LOG_HALF, Curve, log1mexp

# No float is positive below e^-745.
_LEAST = -745.0
_HALVINGS = 70
# Bound on the relative error of a power: the log maps have a few rounding errors.
_SLACK = 1e-14


def fixed_point(curve: Curve) -> float:
    """Return log c with f(c) = c: log f(c) - log c decreases in c."""
    return narrowed(lambda x: not curve.log_miss(log1mexp(x)) > x, _LEAST, LOG_HALF)[1]


def upper_log_delta(curve: Curve, epsilon: ArrayLike) -> FloatArray:
    """Return the log of an upper bound of max over a of 1 - f(a) - e^epsilon a.

    The function is concave in a, so its derivative gives the side of the maximum. Between the
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
