"""A density that decreases exponentially on an interval from the centre."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import exprel

from skdp._arrays import FloatArray


def fallen(rate: float, t: FloatArray | float) -> FloatArray:
    """Return the integral of exp(-rate s) over 0 < s < t."""
    t = np.asarray(t, dtype=float)
    return np.asarray(t * exprel(-rate * t))


def inverse_hazard(level: FloatArray, mass: float, log_rest: float) -> FloatArray:
    """Return t >= 0 with exp(-t) = 1 - mass (1 - exp(-level)).

    ``log_rest`` is log(1 - mass), which cannot be computed from a ``mass`` near 1.
    """
    spent = -mass * np.expm1(-level)
    near = -np.log1p(-np.minimum(spent, 0.5))
    return np.where(spent < 0.5, near, -np.logaddexp(math.log(mass) - level, log_rest))
