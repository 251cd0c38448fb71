"""Hazards and moments of the normal law, through Mills' ratio R(t) = P(Z > t) / phi(t), t >= 0.

1 / R is the normal law's hazard rate (docs/proofs/noise_laws.md, section 2).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf, erfcx, roots_legendre

from skdp._arrays import FloatArray
from skdp.privacy.normal import mills_ratio

_SHORT = 0.5
# Of a unit interval; 8 nodes have sixteen digits of 1 / R on one of length _SHORT.
_NODES, _LENGTHS = roots_legendre(8)
_RULE = tuple(zip((1 + _NODES) / 2, _LENGTHS / 2, strict=True))


def half_normal_hazard(t: FloatArray) -> FloatArray:
    """Return -log P(|Z| > t)."""
    near = -np.log1p(-erf(np.minimum(t, _SHORT) / math.sqrt(2)))
    return np.where(t < _SHORT, near, t * t / 2 - np.log(erfcx(t / math.sqrt(2))))


def hazard_between(start: float, length: FloatArray) -> FloatArray:
    """Return log P(Z > start) - log P(Z > start + length), in full precision."""
    short = np.minimum(length, _SHORT)
    rates = (w / mills_ratio(start + short * y) for y, w in _RULE)
    near = short * sum(rates, start=np.zeros(()))
    fall = np.log(mills_ratio(np.asarray(start)) / mills_ratio(start + length))
    return np.where(length <= _SHORT, near, length * (start + length / 2) + fall)


def excess_moments(t: float) -> tuple[float, float]:
    """Return E[Z - t | Z > t] and E[(Z - t)^2 | Z > t], in full precision.

    With I_n the integral of x^n exp(-t x - x^2 / 2) over x > 0, I_(n+1) = n I_(n-1) - t I_n.
    The upward recurrence cancels. The downward one is the continued fraction
    I_n / I_(n-1) = n / (t + I_(n+1) / I_n).
    """
    if t < 2:
        first = 1 / float(mills_ratio(np.asarray(t))) - t
        return first, 1 - t * first
    ratio = 0.0
    for n in range(150, 1, -1):
        ratio = n / (t + ratio)
    first = 1 / (t + ratio)
    return first, first * ratio
