"""Trusted. Compositions of several releases: bounds on epsilon and delta, above and below.

The upper bounds are those of `skdp.trusted.composition`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from skdp._search import passing_below_root
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import (
    check_count,
    check_entries,
    check_interval,
    fail,
    remembered,
    require_comparable,
)
from skdp.trusted.composition import (
    GridPlan,
    delta_above,
    delta_of,
    end,
    ends_on,
    folded,
    gaussians_merged,
    greatest_above,
    log_delta_above,
    log_infinite,
    plan,
    sides,
)
from skdp.trusted.fold import (
    ACCURACY,
    SHAKE,
    Folded,
    Masses,
    depth_of,
    extent,
    log_infinity_mass,
    margin_of,
    moved_log_delta,
    multiples,
    polygon,
    profile_logs,
    upper,
)
from skdp.trusted.losses import Losses, PrivacyLoss, Profile, counted

# Greater epsilons count as infinite.
_FARTHEST = 1e9


class Bounds(NamedTuple):
    """Two numbers with the truth between them.

    Attributes
    ----------
    lower, upper : float

    Examples
    --------
    >>> from skdp.privacy import Composition, GaussianLoss
    >>> lower, upper = Composition([(GaussianLoss(0.1), 10)]).delta_at(1.0)
    >>> lower <= upper
    True
    """

    lower: float
    upper: float


@dataclass(frozen=True)
class Composition:
    """Exact composition of several releases about the same records.

    Parameters
    ----------
    parts : sequence of (loss, count)
        Privacy losses (`skdp.trusted.losses`), each with its number of releases, an
        int >= 1.

    Raises
    ------
    ValueError
        If a part is not such a pair, or a count is out of range.

    Examples
    --------
    >>> from skdp.noise import Laplace
    >>> from skdp.privacy import PairLoss, ShiftLoss
    >>> both = Composition([(ShiftLoss(Laplace(10.0), 1.0), 100), (PairLoss(0.5), 2)])
    >>> bounds = both.epsilon_at(1e-6)
    >>> round(bounds.upper, 2), bounds.upper - bounds.lower < 1e-3
    (5.51, True)
    """

    parts: Losses

    def __init__(self, parts: Sequence[tuple[Profile, int]]) -> None:
        parts = check_entries("parts", parts)
        for part in parts:
            pair = isinstance(part, tuple | list) and len(part) == 2
            if not (pair and hasattr(part[0], "log_delta")):
                raise fail("parts", "contain pairs of a privacy loss and a count", part)
            require_comparable(part[0], "a privacy loss")
        merged = counted((loss, check_count("count", n)) for loss, n in parts)
        object.__setattr__(self, "parts", merged)

    def delta_at(self, epsilon: float) -> Bounds:
        """Return the least delta at ``epsilon``, between two bounds.

        Parameters
        ----------
        epsilon : float in [0, inf)

        Returns
        -------
        Bounds
        """
        epsilon = check_interval("epsilon", epsilon, 0.0, math.inf, closed="left")
        merged = gaussians_merged(self.parts)
        low, high = log_delta_bounds(merged, epsilon)
        return Bounds(min(1.0, math.exp(low)), delta_of(merged, high))

    def delta_above(self, epsilon: float, gap: float | None = None) -> float:
        """Return the upper bound of `delta_at` alone, in less time.

        With a ``gap`` the bound may be wider by about it in epsilon, and takes less time.
        """
        epsilon = check_interval("epsilon", epsilon, 0.0, math.inf, closed="left")
        return delta_above(self.parts, epsilon, gap)

    def epsilon_at(self, delta: float) -> Bounds:
        """Return the least epsilon at ``delta``, between two bounds.

        Parameters
        ----------
        delta : float in [0, 1]

        Returns
        -------
        Bounds
            inf if no epsilon has this delta. For several releases without a closed form the
            upper bound is also inf for delta < 1e-300.
        """
        delta = check_interval("delta", delta, 0.0, 1.0)
        return epsilon_bounds(gaussians_merged(self.parts), delta)

    def epsilon_above(self, delta: float) -> float:
        """Return the upper bound of `epsilon_at` alone, in less time."""
        delta = check_interval("delta", delta, 0.0, 1.0)
        parts = gaussians_merged(self.parts)
        return max(_epsilon_above(side, delta) for side in sides(parts))


def log_delta_bounds(parts: Losses, epsilon: float) -> Bounds:
    """Return bounds on the log of the least delta, without merging Gaussian parts."""

    def below(side: Losses) -> float:
        if epsilon >= end(side):
            return log_infinite(side) - ACCURACY
        return min(_curve_below(side, epsilon=epsilon).at(epsilon), 0.0)

    found = sides(parts)
    return Bounds(max(map(below, found)), max(log_delta_above(side, epsilon) for side in found))


def epsilon_bounds(parts: Losses, delta: float) -> Bounds:
    """Return bounds on the least epsilon, without merging Gaussian parts."""
    found = sides(parts)
    low = max(_epsilon_below(side, delta) for side in found)
    return Bounds(low, max(_epsilon_above(side, delta) for side in found))


def _epsilon_above(parts: Losses, delta: float) -> float:
    """Return an upper bound for one order of the pair."""
    if not parts or delta == 1:
        return 0.0
    if delta == 0:
        return greatest_above(parts)
    target = math.log(delta)
    most = end(parts) if log_infinite(parts) + ACCURACY <= target else math.inf
    if len(parts) == 1 and parts[0][1] == 1:
        curve = BoundCurve(lambda epsilon: float(moved_log_delta(parts[0][0], epsilon, 1)))
    else:
        outline = plan(parts, log_delta=target)
        total = folded(parts, outline).sum()
        start = min(outline.epsilon, total.greatest)
        curve = BoundCurve(total.log_upper, start, 1 / outline.theta)
    return min(_crossing(curve, target, above=True), most)


def _epsilon_below(parts: Losses, delta: float) -> float:
    """Return a lower bound for one order of the pair."""
    if not parts or delta == 1:
        return 0.0
    if delta == 0:
        if log_infinite(parts) + ACCURACY > -math.inf:
            return math.inf
        known = ((loss, n) for loss, n in parts if hasattr(loss, "log_tails"))
        ends = (n * extent(loss, -700.0, -700.0)[1] * (1 + ACCURACY) for loss, n in known)
        return sum(ends) * (1 - 4 * ACCURACY)
    target = math.log(delta)
    return _crossing(_curve_below(parts, log_delta=target), target, above=False)


def outlines(parts: Losses, epsilon: float) -> list[tuple[Losses, GridPlan]] | None:
    """Return the plans by which delta at epsilon is bounded, for each order of the pair.

    None if a closed form is used.
    """
    found = [side for side in sides(gaussians_merged(parts)) if side]
    closed = any(len(side) == side[0][1] == 1 or epsilon >= end(side) for side in found)
    if closed or not found:
        return None
    return [(side, plan(side, epsilon=epsilon)) for side in found]


class BoundCurve(NamedTuple):
    """A bound on log delta as a function of epsilon, with a start and a step for searches."""

    at: Callable[[float], float]
    start: float = 0.0
    step: float = 1.0


def _curve_below(
    parts: Losses, *, epsilon: float | None = None, log_delta: float = 0.0
) -> BoundCurve:
    """Return a lower bound that is close near an epsilon or, without one, near a log delta."""
    known = tuple((loss, n) for loss, n in parts if hasattr(loss, "log_tails"))
    if not known:
        return BoundCurve(lambda epsilon: -math.inf)
    if len(parts) == 1 and parts[0][1] == 1:
        return BoundCurve(lambda epsilon: float(moved_log_delta(parts[0][0], epsilon, -1)))
    outline = plan(parts, epsilon=epsilon, log_delta=log_delta)
    pairs = zip(parts, outline.ends, strict=True)
    grids = ((lower(loss, outline.step, *at), n) for (loss, n), at in pairs)
    dominated = [(own, n) for own, n in grids if own is not None]
    total = Folded.of(dominated, outline.theta, outline.size).sum()
    return BoundCurve(total.log_lower, min(outline.epsilon, total.greatest), 1 / outline.theta)


def _crossing(curve: BoundCurve, target: float, *, above: bool) -> float:
    """Return an epsilon close to where a curve falls to the target, on one side of this point.

    It is 0 if the curve is never above the target, and inf if it always is.
    """
    high, width = max(curve.start, 0.0), curve.step
    while curve.at(high) > target:
        high, width = high + width, 1.5 * width
        if high > _FARTHEST:
            return math.inf
    low, width = high, curve.step
    while curve.at(low) <= target:
        if low == 0:
            return 0.0
        low, width = max(low - width, 0.0), 1.5 * width

    # Far below the target the value does not matter, and the search needs finite numbers.
    def excess(epsilon: float) -> float:
        return max(curve.at(epsilon) - target, -50.0)

    if above:
        return -passing_below_root(lambda x: excess(-x), -high, -low, xtol=1e-14)
    return passing_below_root(lambda x: -excess(x), low, high, xtol=1e-14)


class Running:
    """Upper bounds on delta at one epsilon, for a growing list of losses.

    A further loss is discretised on the grid of an earlier plan, and its transform is multiplied by
    that of the others. Every plan gives valid bounds, but an old one gives less close ones.
    ``sides`` are the sums of the ``count`` losses, for each order of the pair, on such grids.
    """

    def __init__(
        self, epsilon: float, count: int = 0, sides: Sequence[Folded] | None = None
    ) -> None:
        self.epsilon, self.count, self._sides = epsilon, count, sides

    def after(self, parts: Losses) -> Running:
        """Return the composition with further losses, without sums if their grid is too fine."""
        count = self.count + sum(n for _, n in parts)
        if self._sides is None or len(further := sides(parts)) > len(self._sides):
            return Running(self.epsilon, count)
        found = []
        for k, side in enumerate(self._sides):
            for loss, n in further[min(k, len(further) - 1)]:
                first, last = ends_on(loss, side.step, count)
                if last - first > side.spectrum.size:
                    return Running(self.epsilon, count)
                side = side.plus(upper(loss, side.step, first, last), n)
            found.append(side)
        return Running(self.epsilon, count, found)

    def bounds(self, parts: Callable[[], Losses]) -> Iterator[float]:
        """Yield upper bounds on delta, the last one from a new plan and as close as is known."""
        if self._sides is not None:
            yield self._bound(self._sides, parts)
        whole = parts()
        planned = outlines(whole, self.epsilon)
        if planned is None:
            yield delta_above(whole, self.epsilon) if whole else 0.0
        else:
            # Kept for the losses that follow; the bounds stay valid.
            self._sides = sides = [folded(side, outline) for side, outline in planned]
            yield self._bound(sides, parts)

    def _bound(self, sides: Sequence[Folded], parts: Callable[[], Losses]) -> float:
        log = min(max(side.sum().log_upper(self.epsilon) for side in sides), 0.0)
        return delta_of(parts() if math.isinf(log) else (), log)


# Lower bounds: a law that a loss dominates

# An atom within this distance of a grid point, relative to the greatest loss, lies on it. This is
# far more than the rounding of the point or the atom, and far less than a step.
_NUDGE = 100 * np.finfo(float).eps


@remembered(maxsize=16)
def lower(loss: Profile, step: float, first: int, last: int) -> Masses | None:
    """Return a law that the loss dominates, or None if only an upper bound is known."""
    if not hasattr(loss, "log_tails"):
        return None
    known = cast("PrivacyLoss", loss)
    depth = depth_of(*profile_logs(loss, step, first, last))
    nudge = max(_NUDGE, SHAKE * depth) * step * max(last, -first)
    ends = np.concatenate(
        [_lines_below(known, step, first, nudge), _lines_above(known, step, last, nudge)], axis=1
    )
    # Before the first corner H - (1 - gamma) is at least a line; after the last it is constant.
    start = math.exp(log_infinity_mass(known.reversed()) + step * first)
    infinite = math.exp(log_infinity_mass(known))
    inner = np.minimum(ends[1, :-1], ends[0, 1:])
    excess = np.concatenate([[min(start, ends[0, 0])], inner, [min(infinite, ends[1, -1])]])
    margin = margin_of(first, last) + (last - first) * _NUDGE
    return polygon(step, first, excess, margin, 2 * nudge)


def _delta(loss: PrivacyLoss, epsilon: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.minimum(loss.log_delta(epsilon), 0.0)))


def _lines_above(loss: PrivacyLoss, step: float, last: int, nudge: float) -> FloatArray:
    """Return the values at both ends of lines that support H in the cells above 0, (2, last)."""

    # H, and gamma times its slope downwards.
    def at(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _delta(loss, points), np.exp(loss.log_tails(points)[1] + points)

    value, slope = at(multiples(step, 0, last) + step / 2)
    left, right = -math.expm1(-step / 2), -math.expm1(step / 2)
    ends = np.stack([value + slope * left, value + slope * right])
    # If much cancels, the line through the far corner of the cell avoids the difference.
    steep = np.flatnonzero(ends[1] < value / 2)
    value, slope = at(multiples(step, 1, last)[steep] - nudge)
    ends[:, steep] = value - slope * math.expm1(-step), value
    return ends


def _lines_below(loss: PrivacyLoss, step: float, first: int, nudge: float) -> FloatArray:
    """Return the values for H - (1 - gamma) in the cells below 0, (2, -first)."""
    back = loss.reversed()

    # H - (1 - gamma), and gamma times its slope upwards.
    def at(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        value = _delta(back, -points) * np.exp(points)
        return value, np.exp(loss.log_tails(points)[3] + points)

    value, slope = at(multiples(step, first, -first) + step / 2)
    left, right = math.expm1(-step / 2), math.expm1(step / 2)
    ends = np.stack([value + slope * left, value + slope * right])
    steep = np.flatnonzero(ends[0] < value / 2)
    value, slope = at(multiples(step, first, -first)[steep] + nudge)
    ends[:, steep] = value, value + slope * math.expm1(step)
    return ends
