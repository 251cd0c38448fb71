"""The privacy profile of two normal laws: log delta at many epsilons, in full precision.

N(mu, 1) against N(0, 1) at epsilon has delta = Phi(-a) - e^epsilon Phi(-b), a = epsilon / mu -
mu / 2, b = a + mu (Balle & Wang 2018, Theorem 8; docs/proofs/gaussian.md, Theorem 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, roots_legendre

from skdp.trusted.arrays import FloatArray
from skdp.trusted.rounding import LEAST_LOG

# The short rule has sixteen digits for widths up to .5, the long one for all others.
_SHORT, _LONG = roots_legendre(8), roots_legendre(24)
# For greater t the series of 1 - t R(t) has sixteen digits, and the difference loses four.
_FAR = 100.0
# For fewer points the number of calls determines the time: all nodes are taken at once.
_FEW = 2048


def log_delta(mu: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return the log of the least delta of N(mu, 1) against N(0, 1), in full precision.

    mu > 0 and epsilon, any real numbers, are broadcast.

    Examples
    --------
    >>> round(math.exp(log_delta(1.0, 1.0)), 6)
    0.126937
    """
    mu, epsilon = np.broadcast_arrays(*(np.asarray(own, dtype=float) for own in (mu, epsilon)))
    a = np.asarray(epsilon / mu - mu / 2)
    found = np.empty(a.shape)
    # A delta near 1 is computed from its distance to 1.
    high = a < -2
    if high.any():
        found[high] = np.log1p(-np.exp(log_spared(mu[high], epsilon[high])))
    # e^epsilon phi(b) = phi(a): delta = phi(a) (R(a) - R(b)), R = Phi(-t) / phi(t).
    low = a[~high]
    with np.errstate(divide="ignore", over="ignore"):
        drop = np.log(fall_of_mills_ratio(low, mu[~high]))
        found[~high] = -low * low / 2 - math.log(2 * math.pi) / 2 + drop
    # delta is never 0, even if a square or a difference is beyond the floats.
    return np.where(epsilon < np.inf, np.maximum(found, LEAST_LOG), found)


def error_of_arguments(mu: float, epsilon: ArrayLike) -> FloatArray:
    """Return a bound on the error of log delta from rounded arguments of the normal tails.

    An error of u in an argument changes log delta by u times the argument.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        a = np.abs(epsilon / mu - mu / 2)
        error = 4e-16 * (np.abs(epsilon) / mu + mu / 2) * (1 + a)
    return np.where(np.abs(epsilon) < np.inf, error, 0.0)


def log_spared(mu: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return the log of one minus the least delta: Phi(a) + e^epsilon Phi(-b)."""
    mu, epsilon = np.asarray(mu, dtype=float), np.asarray(epsilon, dtype=float)
    a = epsilon / mu - mu / 2
    spared = np.logaddexp(log_ndtr(a), epsilon + log_ndtr(-a - mu))
    return np.asarray(np.minimum(spared, 0.0))


# Mills' ratio R(t) = P(Z > t) / phi(t), and its differences


def mills_ratio(t: FloatArray | float) -> FloatArray:
    """Return R(t) for t > -38, of the shape of t."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(np.asarray(t) / math.sqrt(2)))


def fall_of_mills_ratio(t: FloatArray | float, width: FloatArray | float) -> FloatArray:
    """Return R(t) - R(t + width) for t > -38 and width >= 0, broadcast, in full precision."""
    t, width = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(width, dtype=float))
    fall = np.zeros(t.shape)
    wide = width > np.maximum(1.0, t / 2)
    if wide.any():
        fall[wide] = mills_ratio(t[wide]) - mills_ratio(t[wide] + width[wide])
    # Close values cancel, but -R' = 1 - t R(t) is positive and smooth.
    near = ~wide & (t <= 1e100)
    fall[near] = _integral_of_slope(t[near], width[near] / 2)
    return fall


def _integral_of_slope(t: FloatArray, half: FloatArray) -> FloatArray:
    nodes, lengths = _SHORT if half.max(initial=0.0) <= 0.25 else _LONG
    total, at_once = np.zeros(t.shape), len(nodes) if t.size <= _FEW else 1
    for start in range(0, len(nodes), at_once):
        some = slice(start, start + at_once)
        slopes = _slope(t + half * (1 + nodes[some, None]))
        for slope, length in zip(slopes, lengths[some], strict=True):
            total += length * slope
    return half * total


def _slope(t: FloatArray) -> FloatArray:
    """Return 1 - t R(t), which is -R'(t)."""
    slope = 1 - t * mills_ratio(t)
    far = t > _FAR
    if far.any():
        s = t[far] ** -2.0
        slope[far] = s * (1 - s * (3 - s * (15 - s * (105 - s * 945))))
    return slope
