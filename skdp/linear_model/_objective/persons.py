"""Bounds for records of several rows.

The rows of a person enter an objective with weights that add up to at most 1. Let u be the size of
a row's slope as a share of its bound c, tau the weighted mean of u over the rows of a person, and k
the concave envelope of the curvature as a function of u. By Jensen's inequality the weighted mean
of the curvatures is at most k(tau), and a person whose rows span r dimensions changes the log of a
determinant by at most h(tau) = r log(1 + k(tau) L / r), with the leverage L. Statements and proofs:
docs/proofs/persons.md. `softmax` has the bounds for a loss of several classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._identity import remembered
from skdp.linear_model.losses import AnyLoss, Bounded, is_one_sided
from skdp.privacy.normal import fall_of_mills_ratio, mills_ratio

# Slopes at which envelopes are computed: evenly spaced ones, and some that are denser near full
# slope, which determines the noise.
_KNOTS = np.unique(np.concatenate([np.linspace(0, 1, 8001), 1 - np.geomspace(1e-3, 1e-9, 200)]))
# Number of lines above h among which the profile takes the best.
_LINES = 48
_LOWEST = -30.0
# Covers rounding errors.
ROUNDING = 1 + 1e-10
_LOG_ROOT = math.log(2 * math.pi) / 2


@dataclass(frozen=True)
class RecordLoss:
    """The bounds of the weighted losses of a record's rows: their joint slope is c tau.

    Parameters
    ----------
    loss : Loss or Softmax
        The loss of one row.
    rank : int >= 1
        Greatest rank of the second derivative of a record's loss.
    """

    loss: AnyLoss
    rank: int

    @property
    def slope_bound(self) -> float:
        """The bound c."""
        return self.loss.slope_bound

    @property
    def one_sided(self) -> bool:
        """Whether the slope of each row has a constant sign."""
        return is_one_sided(self.loss)

    @property
    def least_share(self) -> float:
        """The size of a row's slopes for u = 0, as a share of the greatest size."""
        return 0.0

    @property
    def rough_excess(self) -> float:
        """About the Gaussian noise over that of a row with the same bounds."""
        return 1.0

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return the greatest value of the concave envelope between two slopes."""
        knots, heights = _envelope(self.loss)
        peak = knots[np.argmax(heights)]
        c = self.slope_bound
        at = np.clip(peak, np.asarray(low) / c, np.asarray(high) / c)
        return np.asarray(np.interp(at, knots, heights) * ROUNDING)

    def removed(self, shift: float, leverage: float, epsilon: FloatArray) -> FloatArray:
        """Return an upper bound on log delta for a removed person, of the shape of ``epsilon``.

        The data set with the person is compared with that without (Theorem 3).
        """
        # One line for each entry of the first axis.
        shape = (-1, *np.ones(epsilon.ndim, dtype=int))
        slopes, heights = (own.reshape(shape) for own in lines_above(self, leverage))
        found = log_delta_of_line(slopes, heights, shift, epsilon, self._sides).min(axis=0)
        return np.asarray(np.minimum(found, 0.0))

    def added(self, shift: float, epsilon: FloatArray) -> FloatArray:
        """Return an upper bound on log delta for an added person, of the shape of ``epsilon``."""
        found = log_delta_of_line(0.0, 0.0, shift, epsilon, self._sides)
        return np.asarray(np.minimum(found, 0.0))

    @property
    def _sides(self) -> int:
        return 1 if self.one_sided else 2


def rank_of(loss: Bounded) -> int:
    """Return the greatest rank of the second derivative of the loss of one record."""
    return loss.rank if isinstance(loss, RecordLoss) else 1


def least_share_of(loss: Bounded) -> float:
    """Return the size of a record's slopes for u = 0, as a share of the greatest size."""
    return loss.least_share if isinstance(loss, RecordLoss) else 0.0


@remembered(maxsize=64)
def _envelope(loss: AnyLoss) -> tuple[FloatArray, FloatArray]:
    """Return knots in [0, 1] and heights of a concave function above the curvature.

    It is linear between knots. At a knot a bound for both adjacent cells is at most its height, so
    the function is above the curvature everywhere.
    """
    knots, c = _KNOTS, loss.slope_bound
    cells = np.asarray(loss.curvature_bound(c * knots[:-1], c * knots[1:]), dtype=float)
    if not np.all(cells >= 0):  # also catches NaN
        raise fail("loss", "have a curvature_bound that is >= 0 and never NaN", loss)
    heights = np.maximum(np.append(cells[0], cells), np.append(cells, cells[-1]))
    kept: list[int] = []
    for k in range(len(knots)):
        while len(kept) > 1 and _is_below(knots, heights, kept[-2], kept[-1], k):
            kept.pop()
        kept.append(k)
    return knots[kept], heights[kept]


def _is_below(x: FloatArray, y: FloatArray, a: int, b: int, k: int) -> bool:
    """Return whether point b is not above the line through the points a and k."""
    return bool((y[b] - y[a]) * (x[k] - x[a]) <= (y[k] - y[a]) * (x[b] - x[a]))


@remembered(maxsize=256)
def lines_above(loss: RecordLoss, leverage: float) -> tuple[FloatArray, FloatArray]:
    """Return slopes and heights at 0 of lines above h on [0, 1], (lines,) each."""
    u, c, r = _KNOTS, loss.slope_bound, loss.rank
    h = r * np.log1p(loss.curvature_bound(c * u[:-1], c * u[1:]) * leverage / r)
    # Any slope gives a line; those of h are best.
    ends = np.linspace(0, len(h) - 1, _LINES).astype(int)
    slopes = np.unique(np.append(np.gradient(h, (u[:-1] + u[1:]) / 2)[ends], 0.0))
    nearest = np.where(slopes[:, None] > 0, u[:-1], u[1:])
    return slopes, (h - slopes[:, None] * nearest).max(axis=1)


def log_delta_of_line(
    slope: FloatArray | float,
    height: FloatArray | float,
    shift: float,
    epsilon: FloatArray,
    sides: int,
) -> FloatArray:
    """Return log E (exp(l(Z)) - e^epsilon)_+, l(z) = height + (shift z + slope)_+.

    Z is standard normal; for two sides |Z| takes its place. Where the formula fails, it is the log
    of E exp(l(Z)).
    """
    least = -math.inf if sides == 1 else 0.0
    corner = np.maximum(least, -np.asarray(slope) / shift)  # beyond it l rises
    z = np.maximum(np.maximum(corner, _LOWEST), (epsilon - height - slope) / shift)
    above = np.maximum(height + slope + shift * z - epsilon, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        rise = fall_of_mills_ratio(z - shift, np.full_like(z, shift))
        rise = rise + np.expm1(above) * mills_ratio(z - shift)
        tail = epsilon - z * z / 2 - _LOG_ROOT + np.log(rise)
        flat = ndtr(corner) - ndtr(least)
        # Where l is flat above epsilon.
        excess = height + np.log(-np.expm1(np.minimum(epsilon - height, 0.0)) * flat)
        found = np.logaddexp(tail, excess) + math.log(sides * ROUNDING)
        whole = height + np.logaddexp(0.0, slope + shift**2 / 2) + math.log(sides)
    return np.asarray(np.where(np.isnan(found) | (z <= _LOWEST), whole, found))
