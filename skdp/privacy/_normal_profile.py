"""The privacy profile of two normal laws: log delta at many epsilons, no digits lost.

N(mu, 1) against N(0, 1) at epsilon has delta = Phi(-a) - e^epsilon Phi(-b), a = epsilon / mu -
mu / 2, b = a + mu (Balle & Wang 2018, Theorem 8; docs/proofs/gaussian.md, Theorem 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, roots_legendre

FloatArray = NDArray[np.float64]

# Widths up to .5 are met by the short rule to sixteen digits, all others by the long one.
_SHORT, _LONG = roots_legendre(8), roots_legendre(24)
# Beyond this the series of 1 - t R(t) has sixteen digits, and the difference loses four.
_FAR = 100.0


def log_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """Return the log of the least delta of N(mu, 1) against N(0, 1), any real epsilons."""
    a = np.asarray(epsilon / mu - mu / 2)
    found = np.empty(a.shape)
    # Next to 1 the digits of delta are in its distance to 1.
    high = a < -2
    spared = np.logaddexp(log_ndtr(a[high]), epsilon[high] + log_ndtr(-a[high] - mu))
    found[high] = np.log1p(-np.exp(np.minimum(spared, 0.0)))
    # e^epsilon phi(b) = phi(a): delta = phi(a) (R(a) - R(b)), R = Phi(-t) / phi(t).
    low = a[~high]
    with np.errstate(divide="ignore", over="ignore"):
        drop = np.log(_drop_of_mills_ratio(low, mu))
        found[~high] = -low * low / 2 - math.log(2 * math.pi) / 2 + drop
    return found


def _drop_of_mills_ratio(a: FloatArray, width: float) -> FloatArray:
    """Return R(a) - R(a + width) for a >= -2."""
    drop = np.zeros(a.shape)
    wide, near = width > np.maximum(1.0, a / 2), a <= 1e100
    drop[wide] = _mills_ratio(a[wide]) - _mills_ratio(a[wide] + width)
    # Close values cancel; -R' does not: 1 - t R(t) is positive and smooth.
    nodes, lengths = _SHORT if width <= 0.5 else _LONG
    rest = a[~wide & near]
    drop[~wide & near] = width / 2 * _weighted(rest, width / 2 * (1 + nodes), lengths)
    return drop


def _weighted(a: FloatArray, steps: FloatArray, lengths: FloatArray) -> FloatArray:
    total = np.zeros(a.shape)
    for step, length in zip(steps, lengths, strict=True):
        total += length * _slope_of_mills_ratio(a + step)
    return total


def _mills_ratio(t: FloatArray) -> FloatArray:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2)))


def _slope_of_mills_ratio(t: FloatArray) -> FloatArray:
    """Return 1 - t R(t), which is -R'(t)."""
    slope = 1 - t * _mills_ratio(t)
    far = t > _FAR
    if far.any():
        s = t[far] ** -2.0
        slope[far] = s * (1 - s * (3 - s * (15 - s * (105 - s * 945))))
    return slope
