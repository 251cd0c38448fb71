"""Mills' ratio R(t) = P(Z > t) / phi(t) of the normal law, and its differences."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, roots_legendre

from skdp._arrays import FloatArray

# The short rule has sixteen digits for widths up to .5, the long one for all others.
_SHORT, _LONG = roots_legendre(8), roots_legendre(24)
# For greater t the series of 1 - t R(t) has sixteen digits, and the difference loses four.
_FAR = 100.0
# For fewer points the number of calls determines the time: all nodes are taken at once.
_FEW = 2048


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
