"""A privacy loss on a grid: a pair that dominates it, and one that it dominates.

H(gamma) = E_Q (Lambda - gamma)_+ is the profile at epsilon = log gamma, a convex function. A
convex polygon with corners at the grid points gamma_i is the H of a pair with losses on the grid
and P-masses gamma_i (slope change at gamma_i). Chords of H lie above it, and supporting lines lie
below it (docs/proofs/loss_distributions.md, Theorems 2 and 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.trusted.arrays import FloatArray
from skdp.trusted.identity import remembered
from skdp.trusted.losses import Profile

# Two units in the last place of the proofs, which are of 2^-53.
_UNIT = np.finfo(float).eps
# Bounds on the relative error of a profile's delta and tails, and on the error of its epsilon
# relative to the greatest of the grid, times 1 - the log of delta (losses.Profile, `depth_of`).
ACCURACY, SHAKE = 1e-12, 16 * _UNIT
# A profile's log falls by this much at an atom; elsewhere it takes a thousand times the distance.
_DROP = 3.0
# Numbers with a smaller log round to 0.
_LEAST_LOG = -746.0
# A greater loss counts as infinite.
_GREATEST = 1e300


def moved_log_delta(loss: Profile, epsilon: ArrayLike, sign: int) -> FloatArray:
    """Return a bound for a loss's log delta: the upper one for sign = 1, the lower for -1.

    The value may have an error of `ACCURACY`, and belong to an epsilon with a relative error of
    `SHAKE`, times 1 - the log of delta. A loss of finitely many values has no error in epsilon:
    differences from its values are exact.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    found = np.asarray(loss.log_delta(epsilon))
    if not hasattr(loss, "finite"):
        share = np.minimum(SHAKE * (1 - np.minimum(found, 0.0)), 0.5)
        moved = np.asarray(loss.log_delta(epsilon - sign * share * np.abs(epsilon)))
        found = np.where(np.isneginf(found) | np.isinf(epsilon), found, moved)
    return np.asarray(np.minimum(found + sign * ACCURACY, 0.0))


def multiples(step: float, first: int, count: int) -> FloatArray:
    """Return ``count`` consecutive multiples of a step, beginning with the first."""
    return np.asarray(step * np.arange(first, first + count, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Masses:
    """A law of losses on a grid, under P; not normalised.

    Attributes
    ----------
    step : float
        Distance of the grid points, which are its whole multiples.
    first : int
        The multiple at which ``masses`` begins.
    masses : array of shape (n,)
        P-masses, nonnegative.
    infinity_mass : float
        P-mass at L = inf.
    margin, nudge : float
        The profile times 1 + margin, for losses less by nudge, is an upper bound. Divided by
        1 + margin, for losses greater by nudge, it is a lower bound.
    """

    step: float
    first: int
    masses: FloatArray
    infinity_mass: float
    margin: float
    nudge: float

    @property
    def losses(self) -> FloatArray:
        """The grid points, of the shape of ``masses``."""
        return multiples(self.step, self.first, len(self.masses))

    @cached_property
    def logs(self) -> FloatArray:
        """Logs of the masses, -inf for none."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses))

    @property
    def last(self) -> int:
        """The greatest multiple that has mass."""
        return self.first + int(np.flatnonzero(self.masses)[-1])


@remembered(maxsize=16)
def upper(loss: Profile, step: float, first: int, last: int) -> Masses:
    """Return a law that dominates the loss: chords of H between grid points first..last."""
    logs = profile_logs(loss, step, first, last)
    forward, behind = map(np.exp, logs)
    excess = np.concatenate([(behind * np.exp(-multiples(step, 1, -first)))[::-1], forward])
    nudge = SHAKE * depth_of(*logs) * step * max(last, -first)
    return polygon(step, first, excess, margin_of(first, last), nudge)


def margin_of(first: int, last: int) -> float:
    """Return a bound on the relative rounding error of a profile."""
    return 4 * ACCURACY + 32 * (last - first + 2) * _UNIT


@remembered(maxsize=16)
def profile_logs(
    loss: Profile, step: float, first: int, last: int
) -> tuple[FloatArray, FloatArray]:
    """Return log delta at the multiples 0..last, and that of the reversed loss at 1..-first."""
    forward = np.minimum(loss.log_delta(multiples(step, 0, last + 1)), 0.0)
    if loss.symmetric and -first <= last:
        return forward, forward[1 : 1 - first]
    return forward, np.minimum(loss.reversed().log_delta(multiples(step, 1, -first)), 0.0)


def depth_of(*parts: FloatArray) -> float:
    """Return the factor by which large logs of tails increase the error of epsilon."""
    # Values below the least float add nothing.
    return 1.0 - min(float(np.min(logs, where=logs > _LEAST_LOG, initial=0.0)) for logs in parts)


def polygon(step: float, first: int, excess: FloatArray, margin: float, nudge: float) -> Masses:
    """Return the masses of the greatest convex polygon below the given corners.

    ``excess`` is H - (1 - gamma)_+ at the corners. A corner on or above the chord of its
    neighbours is not a corner of the hull. All such corners are dropped at once, until none is
    left.
    """
    count, place = len(excess), np.arange(len(excess))
    corners = multiples(step, first, count)
    while not ((masses := _slope_changes(corners[place], excess)) > 0).all():
        kept = masses > 0
        # If all of the mass is at infinity, the last corner holds it.
        kept[-1] |= not kept.any()
        if kept.all():
            break
        place, excess = place[kept], excess[kept]
    spread = np.zeros(count)
    spread[place] = np.maximum(masses, 0.0)
    if not spread.any():  # all mass is at infinity; this adds nothing to it
        spread[-1] = np.finfo(float).tiny
    # H at the last corner: the excess, and 1 - gamma if the corner is below 0.
    infinite = float(excess[-1] - np.expm1(min(corners[place[-1]], 0.0)))
    return Masses(step, first, spread, infinite, margin, nudge)


def _slope_changes(losses: FloatArray, excess: FloatArray) -> FloatArray:
    """Return gamma_i times the change of slope at each corner, with (0, 1) before the first."""
    gap, low = np.diff(losses), np.minimum(losses, 0.0)
    # In this form no exponential of a wide gap is needed.
    fall = -np.exp(low[1:]) * np.expm1(-np.diff(low)) - np.diff(excess)
    with np.errstate(over="ignore"):
        before = np.concatenate([[np.exp(low[0]) - excess[0]], fall / -np.expm1(-gap)])
        after = np.concatenate([fall / np.expm1(gap), [0.0]])
    return np.asarray(before - after)


@remembered(maxsize=8192)
def extent(loss: Profile, log_target: float, log_share: float) -> tuple[float, float, bool]:
    """Return the length of a grid below and above 0, and whether an atom ends it.

    Above the second the profile is at most e^log_target, or all mass is at infinity. If it drops
    there, an atom ends the grid. Stopping at minus the first raises the profile by less than the
    share e^log_share.
    """
    back = loss.reversed()
    infinite, back_infinite = (log_infinity_mass(part) + ACCURACY for part in (loss, back))

    def is_below(x: FloatArray) -> NDArray[np.bool_]:
        found = back.log_delta(x)
        with np.errstate(divide="ignore"):
            share = found - x - np.log(-np.expm1(-x))
        return np.asarray((share <= log_share) | (found <= back_infinite))

    def is_above(x: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(loss.log_delta(x) <= max(log_target, infinite))

    dropped = max(log_target - _DROP, infinite)
    (_, below), (least, above) = _first(is_below), _first(is_above)
    if not loss.log_delta(above) <= dropped:
        return below, above, False
    # An atom will lie on the grid: its place is needed in full precision.
    above = _narrowed(is_above, (least, above), 256, 5)[1]
    return below, above, bool(loss.log_delta(above * (1 + ACCURACY)) <= dropped)


def log_infinity_mass(loss: Profile) -> float:
    """Return the log of the infinity mass, or -inf if only a bound of the profile is known."""
    if not hasattr(loss, "log_tails"):
        return -math.inf
    return float(loss.log_delta(_GREATEST))


def _first(holds: Callable[[FloatArray], NDArray[np.bool_]]) -> tuple[float, float]:
    """Return close numbers: beyond the greater one, which is > 0, a condition holds."""
    powers = np.ldexp(1.0, np.arange(-64, 24))
    high = int(np.argmax(holds(powers)))
    return _narrowed(holds, (powers[max(high - 1, 0)], powers[high]), 32, 2)


def _narrowed(
    holds: Callable[[FloatArray], NDArray[np.bool_]],
    ends: tuple[float, float],
    cells: int,
    rounds: int,
) -> tuple[float, float]:
    """Return the ends of the cell in which a condition begins to hold, divided several times."""
    low, high = ends
    for _ in range(rounds):
        points = np.linspace(low, high, cells + 1)
        place = max(int(np.argmax(holds(points))), 1)
        low, high = points[place - 1], points[place]
    return float(low), float(high)
