"""A privacy loss on a grid: two pairs, one that dominates it and one that it dominates.

Everything is said of H(gamma) = E_Q (Lambda - gamma)_+, the profile at epsilon = log gamma, a
convex function. A convex polygon with its corners at the grid's points gamma_i is the H of a
pair whose losses lie on the grid, with P-masses gamma_i (slope change at gamma_i). Chords of H
are above it, and pieces of lines that support it are below it (docs/proofs/loss_distributions.md,
Theorems 2 and 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp._identity import remembered
from skdp.privacy.losses.losses import PrivacyLoss, Profile

_UNIT = np.finfo(float).eps
# A profile's delta and tails may be off by this share of themselves, and at an epsilon off by
# this share of the greatest of the grid, times 1 - the log of delta (losses.Profile, `_depth`).
ACCURACY, SHAKE = 1e-12, 16 * _UNIT
# How far from a grid point, as a share of the greatest loss, an atom is looked for that lies on
# it. Far more than rounding of the point or the atom, and far less than a step.
_NUDGE = 100 * _UNIT
# By how much a profile's log falls at an atom, and not in a thousandth of the way elsewhere.
_DROP = 3.0
# The log of a number that is rounded to 0.
_LEAST_LOG = -746.0
# A loss beyond this is infinite.
_GREATEST = 1e300


def moved_log_delta(loss: Profile, epsilon: ArrayLike, sign: int) -> FloatArray:
    """Return a bound for a loss's log delta, the upper one for sign = 1 and the lower for -1.

    It may be off by `ACCURACY`, and be that of an epsilon off by `SHAKE` of itself, more by as
    much as the logs of tails are great. Of a loss of finitely many values it is not: the
    differences of these from epsilon are exact.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    found = np.asarray(loss.log_delta(epsilon))
    if not hasattr(loss, "finite"):
        share = np.minimum(SHAKE * (1 - np.minimum(found, 0.0)), 0.5)
        moved = np.asarray(loss.log_delta(epsilon - sign * share * np.abs(epsilon)))
        found = np.where(np.isneginf(found) | np.isinf(epsilon), found, moved)
    return np.asarray(np.minimum(found + sign * ACCURACY, 0.0))


def multiples(step: float, first: int, count: int) -> FloatArray:
    """Return ``count`` multiples of a step from the first on."""
    return np.asarray(step * np.arange(first, first + count, dtype=np.float64))


def _middles(step: float, first: int, count: int) -> FloatArray:
    return np.asarray(multiples(step, first, count) + step / 2)


@dataclass(frozen=True, eq=False)
class Masses:
    """A law of losses on a grid, under P; not normalised.

    Attributes
    ----------
    step : float
        The grid's points are its whole multiples.
    first : int
        The multiple at which ``masses`` begins.
    masses : array of shape (n,)
        P-masses, nonnegative.
    alone : float
        P-mass at L = inf.
    margin : float
        Times 1 + this, or divided by it, the profile is above, or below, the truth, ...
    nudge : float
        ... for losses that are less, or greater, by this.
    """

    step: float
    first: int
    masses: FloatArray
    alone: float
    margin: float
    nudge: float

    @property
    def losses(self) -> FloatArray:
        """The grid's points, of the shape of ``masses``."""
        return multiples(self.step, self.first, len(self.masses))

    @property
    def last(self) -> int:
        """The greatest multiple that has mass."""
        return self.first + int(np.flatnonzero(self.masses)[-1])


@remembered(maxsize=16)
def upper(loss: Profile, step: float, first: int, last: int) -> Masses:
    """Return a law that dominates: chords of H between the points first..last of the grid."""
    forward, behind = map(np.exp, _logs(loss, step, first, last))
    excess = np.concatenate([(behind * np.exp(-multiples(step, 1, -first)))[::-1], forward])
    nudge = SHAKE * _depth(loss, step, first, last) * step * max(last, -first)
    return _polygon(step, first, excess, _margin(first, last), nudge)


@remembered(maxsize=16)
def lower(loss: Profile, step: float, first: int, last: int) -> Masses | None:
    """Return a law that is dominated, or None where only an upper bound is known."""
    if not hasattr(loss, "log_tails"):
        return None
    known = cast(PrivacyLoss, loss)
    nudge = max(_NUDGE, SHAKE * _depth(loss, step, first, last)) * step * max(last, -first)
    ends = np.concatenate(
        [_lines_below(known, step, first, nudge), _lines_above(known, step, last, nudge)], axis=1
    )
    # Before the first corner H - (1 - gamma) is at least a line, after the last one constant.
    start = math.exp(log_alone(known.reversed()) + step * first)
    alone = math.exp(log_alone(known))
    inner = np.minimum(ends[1, :-1], ends[0, 1:])
    excess = np.concatenate([[min(start, ends[0, 0])], inner, [min(alone, ends[1, -1])]])
    margin = _margin(first, last) + (last - first) * _NUDGE
    return _polygon(step, first, excess, margin, 2 * nudge)


def _margin(first: int, last: int) -> float:
    """Return what rounding may do to a profile, relative to its size."""
    return 4 * ACCURACY + 32 * (last - first + 2) * _UNIT


@remembered(maxsize=16)
def _logs(loss: Profile, step: float, first: int, last: int) -> tuple[FloatArray, FloatArray]:
    """Return log delta at the multiples 0..last, and that of the reversed loss at 1..-first."""
    forward = np.minimum(loss.log_delta(multiples(step, 0, last + 1)), 0.0)
    if loss.symmetric and -first <= last:
        return forward, forward[1 : 1 - first]
    return forward, np.minimum(loss.reversed().log_delta(multiples(step, 1, -first)), 0.0)


def _depth(loss: Profile, step: float, first: int, last: int) -> float:
    """Return by how much more an epsilon may be off where the logs of tails are great."""
    logs = np.concatenate(_logs(loss, step, first, last))
    # What is less than every float adds nothing.
    return 1.0 - float(np.min(logs, where=logs > _LEAST_LOG, initial=0.0))


def _delta(loss: Profile, epsilon: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.minimum(loss.log_delta(epsilon), 0.0)))


def _lines_above(loss: PrivacyLoss, step: float, last: int, nudge: float) -> FloatArray:
    """Return the values at both ends of lines that support H in the cells above 0, (2, last)."""

    def at(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return H, and gamma times its slope downwards."""
        return _delta(loss, points), np.exp(loss.log_tails(points)[1] + points)

    value, slope = at(_middles(step, 0, last))
    left, right = -math.expm1(-step / 2), -math.expm1(step / 2)
    ends = np.stack([value + slope * left, value + slope * right])
    # Where much is cancelled, the line through the cell's far corner has no difference in it.
    steep = np.flatnonzero(ends[1] < value / 2)
    value, slope = at(multiples(step, 1, last)[steep] - nudge)
    ends[:, steep] = value - slope * math.expm1(-step), value
    return ends


def _lines_below(loss: PrivacyLoss, step: float, first: int, nudge: float) -> FloatArray:
    """Return the same for H - (1 - gamma) in the cells below 0, (2, -first)."""
    back = loss.reversed()

    def at(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return H - (1 - gamma), and gamma times its slope upwards."""
        value = _delta(back, -points) * np.exp(points)
        return value, np.exp(loss.log_tails(points)[3] + points)

    value, slope = at(_middles(step, first, -first))
    left, right = math.expm1(-step / 2), math.expm1(step / 2)
    ends = np.stack([value + slope * left, value + slope * right])
    steep = np.flatnonzero(ends[0] < value / 2)
    value, slope = at(multiples(step, first, -first)[steep] + nudge)
    ends[:, steep] = value, value + slope * math.expm1(step)
    return ends


def _polygon(step: float, first: int, excess: FloatArray, margin: float, nudge: float) -> Masses:
    """Return the masses of the greatest convex polygon below the given corners.

    ``excess`` is H - (1 - gamma)_+ at the corners. A corner on the chord of its neighbours or
    above it is none of the hull's, whatever else is: all such are dropped at once, until none
    is left.
    """
    count, place = len(excess), np.arange(len(excess))
    corners = multiples(step, first, count)
    while not ((masses := _slope_changes(corners[place], excess)) > 0).all():
        kept = masses > 0
        # All of the mass may be alone; the last corner then says so.
        kept[-1] |= not kept.any()
        if kept.all():
            break
        place, excess = place[kept], excess[kept]
    spread = np.zeros(count)
    spread[place] = np.maximum(masses, 0.0)
    if not spread.any():  # all is alone, to which this adds nothing
        spread[-1] = np.finfo(float).tiny
    # What is left of the last corner: H itself, which below 0 is 1 - gamma more.
    alone = float(excess[-1] - np.expm1(min(corners[place[-1]], 0.0)))
    return Masses(step, first, spread, alone, margin, nudge)


def _slope_changes(losses: FloatArray, excess: FloatArray) -> FloatArray:
    """Return gamma_i times the change of slope at each corner; the corner before is (0, 1)."""
    gap, low = np.diff(losses), np.minimum(losses, 0.0)
    # In this form no exponential of a wide gap is asked for.
    fall = -np.exp(low[1:]) * np.expm1(-np.diff(low)) - np.diff(excess)
    with np.errstate(over="ignore"):
        before = np.concatenate([[np.exp(low[0]) - excess[0]], fall / -np.expm1(-gap)])
        after = np.concatenate([fall / np.expm1(gap), [0.0]])
    return np.asarray(before - after)


@remembered(maxsize=256)
def reach(loss: Profile, log_target: float, log_share: float) -> tuple[float, float, bool]:
    """Return how far a grid must go: below 0, above 0, and whether there is an atom.

    Above the second the profile is at most e^log_target, or all mass is where Q has none; it is
    said whether it drops there. Stopping at minus the first raises it by less than e^log_share
    of itself.
    """
    back = loss.reversed()
    alone, back_alone = log_alone(loss) + ACCURACY, log_alone(back) + ACCURACY

    def is_below(x: FloatArray) -> NDArray[np.bool_]:
        found = back.log_delta(x)
        with np.errstate(divide="ignore"):
            share = found - x - np.log(-np.expm1(-x))
        return np.asarray((share <= log_share) | (found <= back_alone))

    def is_above(x: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(loss.log_delta(x) <= max(log_target, alone))

    dropped = max(log_target - _DROP, alone)
    below, above = _first(is_below, 2), _first(is_above, 2)
    if not loss.log_delta(above) <= dropped:
        return below, above, False
    # An atom is to be put on the grid: its place is wanted in full.
    above = _first(is_above, 10)
    return below, above, bool(loss.log_delta(above * (1 + ACCURACY)) <= dropped)


def log_alone(loss: Profile) -> float:
    """Return the log of the mass at L = inf: -inf if all that is known is a bound."""
    if not hasattr(loss, "log_tails"):
        return -math.inf
    return float(loss.log_delta(_GREATEST))


def _first(holds: Callable[[FloatArray], NDArray[np.bool_]], rounds: int) -> float:
    """Return the least x > 0 from which on a condition holds, from above, to 32^-rounds."""
    powers = np.ldexp(1.0, np.arange(-64, 24))
    high = int(np.argmax(holds(powers)))
    low, high = powers[max(high - 1, 0)], powers[high]
    for _ in range(rounds):
        points = np.linspace(low, high, 33)
        place = max(int(np.argmax(holds(points))), 1)
        low, high = points[place - 1], points[place]
    return float(high)
