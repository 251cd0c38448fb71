"""Bounds for records of several rows or with a loss of several classes.

The rows of a person enter an objective with weights that add up to at most 1. Let u be the size of
a row's slope as a share of its bound c, tau the weighted mean of u over the rows of a person, and k
the concave envelope of the curvature as a function of u. By Jensen's inequality the weighted mean
of the curvatures is at most k(tau), and a person whose rows span r dimensions changes the log of a
determinant by at most h(tau) = r log(1 + k(tau) L / r), with the leverage L. For a softmax
u = 1 - p_y, k bounds the trace of the second derivative, and a row counts K - 1 times in r.
Statements and proofs: docs/proofs/persons.md and docs/proofs/softmax.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._identity import remembered
from skdp.linear_model.losses import Bounded, Loss, Softmax, is_one_sided
from skdp.privacy.losses.mills import fall_of_mills_ratio, mills_ratio
from skdp.privacy.losses.normal_profile import log_delta

# Slopes at which envelopes are computed: evenly spaced ones, and some that are denser near full
# slope, which determines the noise.
_KNOTS = np.unique(np.concatenate([np.linspace(0, 1, 8001), 1 - np.geomspace(1e-3, 1e-9, 200)]))
# Number of lines above h among which the profile takes the best.
_LINES = 48
# For several classes, of which a profile takes longer, every so many of these lines.
_EACH = 6
_LOWEST = -30.0
# Covers rounding errors.
_SLACK = 1 + 1e-10
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
    is_row : bool
        Whether a record is one row. Then the directions of its gradients do not depend on how its
        rows are combined.
    """

    loss: Loss | Softmax
    rank: int
    is_row: bool = False

    @property
    def slope_bound(self) -> float:
        """The bound c."""
        return self.loss.slope_bound

    @property
    def one_sided(self) -> bool:
        """Whether the slope of each row has a constant sign."""
        return is_one_sided(self.loss)

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return the greatest value of the concave envelope between two slopes."""
        knots, heights = _envelope(self.loss)
        peak = knots[np.argmax(heights)]
        c = self.slope_bound
        at = np.clip(peak, np.asarray(low) / c, np.asarray(high) / c)
        return np.asarray(np.interp(at, knots, heights) * _SLACK)


def rank_of(loss: Bounded) -> int:
    """Return the greatest rank of the second derivative of the loss of one record."""
    return loss.rank if isinstance(loss, RecordLoss) else 1


def least_share(loss: Bounded) -> float:
    """Return the size of a record's slopes at tau = 0, as a share of the greatest size."""
    own = loss.loss if isinstance(loss, RecordLoss) else loss
    if not isinstance(own, Softmax):
        return 0.0
    return (1 - own.normalizer) / (1 + own.normalizer)


def rough_excess(loss: Bounded) -> float:
    """Return about the noise of several classes over that of one class with the same bounds."""
    own = loss.loss if isinstance(loss, RecordLoss) else loss
    if not isinstance(own, Softmax):
        return 1.0
    return math.hypot(1, own.normalizer) * (1 + 0.08 * own.normalizer * math.log(own.n_classes))


def size_of_slopes(loss: Loss | Softmax) -> float:
    """Return the greatest sum of the absolute slopes of a row."""
    return 1 + loss.normalizer if isinstance(loss, Softmax) else loss.slope_bound


@remembered(maxsize=64)
def _envelope(loss: Loss | Softmax) -> tuple[FloatArray, FloatArray]:
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
def _lines(loss: RecordLoss, leverage: float) -> tuple[FloatArray, FloatArray]:
    """Return slopes and heights at 0 of lines above h on [0, 1], (lines,) each."""
    u, c, r = _KNOTS, loss.slope_bound, loss.rank
    h = r * np.log1p(loss.curvature_bound(c * u[:-1], c * u[1:]) * leverage / r)
    # Any slope gives a line; those of h are best.
    ends = np.linspace(0, len(h) - 1, _LINES).astype(int)
    slopes = np.unique(np.append(np.gradient(h, (u[:-1] + u[1:]) / 2)[ends], 0.0))
    nearest = np.where(slopes[:, None] > 0, u[:-1], u[1:])
    return slopes, (h - slopes[:, None] * nearest).max(axis=1)


def removed(loss: RecordLoss, shift: float, leverage: float, epsilon: FloatArray) -> FloatArray:
    """Return an upper bound on log delta for a removed person, of the shape of ``epsilon``.

    The data set with the person is compared with that without (Theorem 3).
    """
    epsilon = np.asarray(epsilon, dtype=float)
    # One line for each entry of the first axis.
    shape = (-1, *np.ones(epsilon.ndim, dtype=int))
    slopes, heights = _lines(loss, leverage)
    if isinstance(loss.loss, Softmax):
        rising = np.flatnonzero(slopes >= 0)[::_EACH]  # with the flat line first
        pairs = zip(slopes[rising].tolist(), heights[rising].tolist(), strict=True)
        lines = [_log_delta_of_softmax(loss, *line, shift, epsilon) for line in pairs]
        return np.asarray(np.min(lines, axis=0))
    slopes, heights = (own.reshape(shape) for own in (slopes, heights))
    found = _log_delta(slopes, heights, shift, epsilon, 1 if loss.one_sided else 2)
    return np.asarray(np.minimum(found.min(axis=0), 0.0))


def added(loss: RecordLoss, shift: float, epsilon: FloatArray) -> FloatArray:
    """Return an upper bound on log delta for an added person, of the shape of ``epsilon``."""
    if isinstance(loss.loss, Softmax):
        return _log_delta_of_softmax(loss, 0.0, 0.0, shift, epsilon)
    found = _log_delta(0.0, 0.0, shift, epsilon, 1 if loss.one_sided else 2)
    return np.asarray(np.minimum(found, 0.0))


def _log_delta_of_softmax(
    loss: RecordLoss, slope: float, height: float, shift: float, epsilon: FloatArray
) -> FloatArray:
    """Return the log of Delta of Theorems 3 and 4 of docs/proofs/softmax.md. At most 0."""
    epsilon, own = np.asarray(epsilon, dtype=float), loss.loss
    assert isinstance(own, Softmax)
    at, log_mass = _greatest_normal(own.n_classes)
    moved = shift * own.normalizer
    if loss.is_row:  # Theorem 4
        moved_by = slope + moved * at + moved**2 / 2
        left = epsilon[..., None] - height
        parts = np.where(left < 0, 0.0, log_delta(shift, left - moved_by))
        rest = log_ndtr(-at[-1])
    else:
        # Given M a mean may be above 1: only that over M is at most 1.
        parts = _log_delta(slope + moved * at, height, shift, epsilon[..., None], 1)
        # Beyond the last point: e^(height + l) <= e^height (1 + e^(slope + shift Z + moved M)).
        rest = slope + (shift**2 + moved**2) / 2 + log_ndtr(moved - at[-1])
        rest = height + np.logaddexp(rest, log_ndtr(-at[-1]))
    found = np.logaddexp.reduce(parts + log_mass, axis=-1)
    found = np.logaddexp(found, rest + math.log(own.n_classes)) + math.log(_SLACK)
    return np.asarray(np.minimum(found, 0.0))


@remembered(maxsize=64)
def _greatest_normal(n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return points, and log probabilities that M of Theorem 3 is in the cells that end there."""
    # The far points matter for epsilons of a million, where e^epsilon multiplies the tail.
    at = np.concatenate([np.linspace(0, 8, 65), 8 * 1.5 ** np.arange(1, 30)])
    # Above = 1 - P(M <= t) is computed without cancellation.
    above = -np.expm1((n_classes - 1) * log_ndtr(at))
    below = math.exp((n_classes - 1) * math.log(0.5))
    with np.errstate(divide="ignore"):
        return at, np.log(np.concatenate([[below], (above[:-1] - above[1:]) * _SLACK]))


def _log_delta(
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
        found = np.logaddexp(tail, excess) + math.log(sides * _SLACK)
        whole = height + np.logaddexp(0.0, slope + shift**2 / 2) + math.log(sides)
    return np.asarray(np.where(np.isnan(found) | (z <= _LOWEST), whole, found))
