"""Trusted. Bounds on epsilon and delta of several releases, from their privacy losses.

The losses of independent releases add. The product of the pairs that dominate each release
dominates all of them, also if each mechanism depends on earlier outputs (Zhu, Dong & Wang 2022,
Theorem 10). The pairs, and the number of each, must be fixed before the first output is seen. A
release whose scale or existence depends on earlier outputs is not covered
(docs/proofs/loss_distributions.md, Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from skdp._checks import check_count, check_entries, check_interval, fail
from skdp._identity import remembered, require_comparable
from skdp._search import passing_below_root
from skdp.privacy.fold import SPARE_STEPS, Folded, Spread, fold, tilt
from skdp.privacy.grid import (
    ACCURACY,
    Masses,
    extent,
    log_infinity_mass,
    lower,
    moved_log_delta,
    upper,
)
from skdp.privacy.losses import FiniteLoss, GaussianLoss, Losses, PairLoss, Profile, counted
from skdp.privacy.rounding import LEAST_LOG, add_multiples, exp_up, float_above

# Greater epsilons count as infinite.
_FARTHEST = 1e9
_ROUGH_CELLS = 1024
_MOST_CELLS, _MOST_WINDOW = 2**20, 2**21
_CHEAP = 2**14
# Profiles of the coarse estimate end where delta is below e^ this.
_FAR = -700.0
# A delta below e^ this needs no higher relative precision than a greater one.
_LEAST = -80.0
# A grid leaves out what is this far below the requested delta, in logs.
_SPARE = 32.0
# Target for the gap between the bounds: this share of epsilon, for epsilon up to 1 or beyond 4.
_GAP = 4e-5
_LONGEST_STEP = 500.0
# A tilt may multiply what atoms lose on the grid by e^ this.
_STEEPEST = 20.0
Rough = Sequence[tuple[Masses, int]]
Extent = tuple[float, float, float]


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


# Kinds of bounds.
Kinds = Sequence[str]
_BOTH: Kinds = ("lower", "upper")


@dataclass(frozen=True)
class Composition:
    """Exact composition of several releases about the same records.

    Parameters
    ----------
    parts : sequence of (loss, count)
        Privacy losses (`skdp.privacy.losses`), each with its number of releases, an
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
                raise fail("parts", "hold pairs of a privacy loss and a count", part)
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

        Raises
        ------
        ValueError
            If ``epsilon`` is out of range.
        """
        epsilon = check_interval("epsilon", epsilon, 0.0, math.inf, closed="left")
        parts = _gaussians_merged(self.parts)
        low, high = log_delta_bounds(parts, epsilon)
        return Bounds(min(1.0, math.exp(low)), delta_of(parts, high))

    def delta_above(self, epsilon: float, gap: float | None = None) -> float:
        """Return the upper bound of `delta_at` alone, in less time.

        With a ``gap`` the bound may be wider by about it in epsilon, and takes less time.
        """
        epsilon = check_interval("epsilon", epsilon, 0.0, math.inf, closed="left")
        parts = _gaussians_merged(self.parts)
        found = [_log_delta_of(side, epsilon, ("upper",), gap) for side in sides(parts)]
        return delta_of(parts, max(bounds[0] for bounds in found))

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

        Raises
        ------
        ValueError
            If ``delta`` is out of range.
        """
        delta = check_interval("delta", delta, 0.0, 1.0)
        return epsilon_bounds(_gaussians_merged(self.parts), delta)

    def epsilon_above(self, delta: float) -> float:
        """Return the upper bound of `epsilon_at` alone, in less time."""
        delta = check_interval("delta", delta, 0.0, 1.0)
        parts = _gaussians_merged(self.parts)
        return max(_epsilon_of(side, delta, ("upper",))[0] for side in sides(parts))


def _gaussians_merged(parts: Losses) -> Losses:
    """Return the parts with all Gaussian ones merged: their product is Gaussian."""
    gaussian = [(loss.mu, n) for loss, n in parts if type(loss) is GaussianLoss]
    if sum(n for _, n in gaussian) < 2:
        return parts
    top = max(mu for mu, _ in gaussian)  # squares of ratios to it do not all underflow
    mu = top * math.sqrt(math.fsum(n * (mu / top) ** 2 for mu, n in gaussian))
    rest = tuple((loss, n) for loss, n in parts if type(loss) is not GaussianLoss)
    return ((GaussianLoss(mu), 1), *rest)


def delta_of(parts: Losses, log_delta: float) -> float:
    """Return an upper bound on delta, rounded up, from one on its log."""
    # If no upper bound of a loss is known, the truth is not 0, but below every positive float.
    if log_delta == -math.inf and any(
        math.isinf(_greatest(((loss, 1),)).upper) for loss, _ in parts
    ):
        log_delta = LEAST_LOG
    return exp_up(log_delta)


def log_delta_bounds(parts: Losses, epsilon: float) -> Bounds:
    """Return bounds on the log of the least delta, without merging Gaussian parts."""
    found = [_log_delta_of(side, epsilon) for side in sides(parts)]
    return Bounds(max(low for low, _ in found), max(high for _, high in found))


def epsilon_bounds(parts: Losses, delta: float) -> Bounds:
    """Return bounds on the least epsilon, without merging Gaussian parts."""
    found = [_epsilon_of(side, delta) for side in sides(parts)]
    return Bounds(max(low for low, _ in found), max(high for _, high in found))


def outlines(parts: Losses, epsilon: float) -> list[tuple[Losses, GridPlan]] | None:
    """Return the plans by which delta at epsilon is bounded, for each order of the pair.

    None if a closed form is used.
    """
    found = [side for side in sides(_gaussians_merged(parts)) if side]
    closed = any(len(side) == side[0][1] == 1 or epsilon >= _end(side) for side in found)
    if closed or not found:
        return None
    return [(side, plan(side, epsilon=epsilon)) for side in found]


def sides(parts: Losses) -> list[Losses]:
    """Return the parts, and those of (Q, P) if they differ, without parts with zero loss."""
    telling = tuple((loss, n) for loss, n in parts if _tells(loss))
    if all(loss.symmetric for loss, _ in telling):
        return [telling]
    return [telling, tuple((loss.reversed(), n) for loss, n in telling)]


@remembered(maxsize=1024)
def _tells(loss: Profile) -> bool:
    """Return whether a loss is not 0."""
    return bool(loss.log_delta(0.0) > -np.inf)


def _log_delta_of(
    parts: Losses, epsilon: float, bounds: Kinds = _BOTH, gap: float | None = None
) -> list[float]:
    """Return the bounds of the given kinds on log delta."""
    if epsilon >= _end(parts):
        return [getattr(_log_infinite(parts), kind) for kind in bounds]
    curves = _curves(parts, bounds, epsilon=epsilon, gap=gap)
    return [min(curve.at(epsilon), 0.0) for curve in curves]


def _epsilon_of(parts: Losses, delta: float, bounds: Kinds = _BOTH) -> list[float]:
    """Return the bounds of the given kinds on epsilon."""
    if not parts or delta == 1:
        return [0.0 for _ in bounds]
    if delta == 0:
        return [getattr(_greatest(parts), kind) for kind in bounds]
    target = math.log(delta)
    curves = _curves(parts, bounds, log_delta=target)
    most = _end(parts) if _log_infinite(parts).upper <= target else math.inf
    return [
        min(_crossing(curve, target, above=True), most)
        if kind == "upper"
        else _crossing(curve, target, above=False)
        for kind, curve in zip(bounds, curves, strict=True)
    ]


class BoundCurve(NamedTuple):
    """A bound on log delta as a function of epsilon, with a start and a step for searches."""

    at: Callable[[float], float]
    start: float = 0.0
    step: float = 1.0


_NOTHING = BoundCurve(lambda epsilon: -math.inf)


def _curves(
    parts: Losses,
    bounds: Kinds,
    *,
    epsilon: float | None = None,
    log_delta: float = 0.0,
    gap: float | None = None,
) -> list[BoundCurve]:
    """Return bounds of the given kinds, close near the given epsilon or log delta."""
    if len(parts) == 1 and parts[0][1] == 1:
        loss = parts[0][0]
        return [
            BoundCurve(lambda epsilon: float(moved_log_delta(loss, epsilon, 1)))
            if kind == "upper"
            else BoundCurve(lambda epsilon: float(moved_log_delta(loss, epsilon, -1)))
            if hasattr(loss, "log_tails")
            else _NOTHING
            for kind in bounds
        ]
    outline = plan(parts, epsilon=epsilon, log_delta=log_delta, gap=gap)
    return [_curve(parts, outline, kind) for kind in bounds]


def _curve(parts: Losses, outline: GridPlan, kind: str) -> BoundCurve:
    """Return the curve of the sum of the losses as discretised for a kind of bound."""
    if kind == "upper":
        total = folded(parts, outline).sum()
        return BoundCurve(total.log_upper, min(outline.epsilon, total.greatest), 1 / outline.theta)
    pairs = zip(parts, outline.ends, strict=True)
    found = [(lower(loss, outline.step, *ends), n) for (loss, n), ends in pairs]
    known = [(masses, n) for masses, n in found if masses is not None]
    if not known:
        return _NOTHING
    total = fold(known, outline.theta, outline.size)
    return BoundCurve(total.log_lower, min(outline.epsilon, total.greatest), 1 / outline.theta)


def folded(parts: Losses, outline: GridPlan) -> Folded:
    """Return the sum of losses that dominate the parts, on the grid of a plan."""
    pairs = zip(parts, outline.ends, strict=True)
    found = [(upper(loss, outline.step, *ends), n) for (loss, n), ends in pairs]
    return Folded.of(found, outline.theta, outline.size)


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


def _greatest(parts: Losses) -> Bounds:
    """Return bounds on epsilon at delta = 0, which is the sum of the greatest losses."""
    ends = [extent(loss, -700.0, -700.0)[1] * (1 + ACCURACY) for loss, _ in parts]
    ended = all(
        loss.log_delta(end) == -math.inf for end, (loss, _) in zip(ends, parts, strict=True)
    )
    if _log_infinite(parts).upper > -math.inf:
        return Bounds(math.inf, math.inf)
    counted = [(n * end, loss) for end, (loss, n) in zip(ends, parts, strict=True)]
    least = sum(end for end, loss in counted if hasattr(loss, "log_tails"))
    most = sum(end for end, _ in counted)
    return Bounds(least * (1 - 4 * ACCURACY), min(most if ended else math.inf, _end(parts)))


def _end(parts: Losses) -> float:
    """Return the sum of the epsilons of pair losses, as in basic composition; inf for others."""
    pairs = [(loss.epsilon, n) for loss, n in parts if type(loss) is PairLoss]
    return float_above(add_multiples(pairs)) if len(pairs) == len(parts) else math.inf


def _log_infinite(parts: Losses) -> Bounds:
    """Return bounds on the log of the probability that a loss is infinite."""
    masses = [(math.exp(log_infinity_mass(loss)), n) for loss, n in parts]
    spared = math.fsum(n * math.log1p(-mass) if mass < 1 else -math.inf for mass, n in masses)
    found = math.log(-math.expm1(spared)) if spared else -math.inf
    return Bounds(found - ACCURACY, min(found + ACCURACY, 0.0))


# The tilt, step and window of a composition, from a coarse estimate of it. Bounds hold for every
# choice. The choice determines how close they are and how long they take.


@dataclass(frozen=True)
class GridPlan:
    """Epsilon, tilt, step, window and the ends of each loss's grid."""

    epsilon: float
    theta: float
    step: float
    size: int
    ends: tuple[tuple[int, int], ...]


def plan(
    parts: Losses,
    *,
    epsilon: float | None = None,
    log_delta: float = 0.0,
    gap: float | None = None,
) -> GridPlan:
    """Return a plan for bounds near the given epsilon or, without one, near the log delta.

    The bounds are about ``gap`` apart in epsilon, relative to an epsilon of 1 to 4.
    """
    rough = [(_rough(loss, _log_share(parts)), count) for loss, count in parts]
    theta = _tilt(rough, epsilon, log_delta)
    if epsilon is None:
        epsilon = (_log_bound(rough, theta) - log_delta) / theta
    else:
        log_delta = _log_bound(rough, theta) - theta * epsilon
    width = _width(rough, theta)
    target = max(_lowered(max(log_delta + _log_share(parts), _FAR)), _FAR)
    extents = [_extent(loss, target, _log_share(parts)) for loss, _ in parts]
    count, order = sum(n for _, n in parts), max(epsilon, width / 16)
    # A bound on the best tilt, except near the greatest loss.
    usual = 2 * (1 - max(log_delta, _LEAST)) / order
    # A cell of width h changes the log of a factor by at most h^2 t (1 + t) / 8, t the tilt.
    apart = (gap or _GAP) * max(min(order, 1.0), order / 4)
    coarse, fine = (math.sqrt(8 * apart / (count * (1 + t))) for t in (min(theta, usual), theta))
    # The finer step is taken if it is cheap. The exponential of a step must be finite.
    step = min(_step(parts, extents, (coarse, coarse if gap else fine), width), _LONGEST_STEP)
    ends = tuple((-_cells(low, step), _cells(high, step)) for low, high, _ in extents)
    # Near the greatest sum the best tilt has no bound, but it magnifies rounding to the grid.
    lost = sum(
        n * ((1e-9 * step - atom) % step)
        for (_, _, atom), (_, n) in zip(extents, parts, strict=True)
    )
    steepest = max(_STEEPEST / max(step, lost), usual)
    if theta > steepest:
        theta = _STEEPEST / max(step, lost)
        width = _width(rough, theta)
    size = 1 << math.ceil(math.log2(width / step + SPARE_STEPS))
    return GridPlan(epsilon, theta, step, size, ends)


def _width(rough: Rough, theta: float) -> float:
    """Return the length of an interval that holds all but e^-36 of the tilted sum."""
    return sum(Spread.of([(tilt(masses, theta), n) for masses, n in rough]).widths(-36.0))


@remembered(maxsize=8192)
def _extent(loss: Profile, log_target: float, log_share: float) -> Extent:
    """Return the extent of a loss, and the place of its atom."""
    below, above, ends = extent(loss, _FAR, log_share)
    # If the profile is above the target just before the last atom, the farther grid ends there too.
    if not (ends and loss.log_delta(above * (1 - ACCURACY)) > log_target):
        below, above, ends = extent(loss, log_target, log_share)
    return below, above, above if ends else 0.0


def _log_bound(rough: Rough, theta: float) -> float:
    """Return log delta + theta epsilon of Chernoff's bound, sharpened for delta."""
    # (1 - e^-x)_+ <= theta^theta / (1 + theta)^(1 + theta) e^(theta x), with equality at one x.
    share = float(xlogy(theta, theta) - xlogy(1 + theta, 1 + theta))
    return sum((n * tilt(masses, theta).log_scale for masses, n in rough), share)


def _tilt(rough: Rough, epsilon: float | None, log_delta: float) -> float:
    """Return about the tilt with the least bound on delta, or on epsilon; every tilt is valid."""

    def cost(x: float) -> float:
        theta = math.exp(x)
        bound = _log_bound(rough, theta)
        return (bound - log_delta) / theta if epsilon is None else bound - theta * epsilon

    extents = [float(np.abs(masses.losses).max()) for masses, _ in rough]
    total = sum(n * far for (_, n), far in zip(rough, extents, strict=True))
    # A loss with a tiny extent beside the others is infinite or negligible.
    span = math.log(1e-3 / total), math.log(1e6 / max(min(extents), 1e-9 * total))
    found = minimize_scalar(cost, bounds=span, method="bounded", options={"xatol": 1e-3})
    return math.exp(float(found.x))


def _cells(distance: float, step: float) -> int:
    # One cell more than needed, so that no atom lies at the end.
    return math.floor(distance / step + 1e-6) + 1


def ends_on(loss: Profile, step: float, count: int) -> tuple[int, int]:
    """Return the ends of a grid of a given step for one of ``count`` losses."""
    below, above, _ = extent(loss, _FAR, _share_of_each(count))
    return -_cells(below, step), _cells(above, step)


def _log_share(parts: Losses) -> float:
    return _share_of_each(sum(count for _, count in parts))


def _share_of_each(count: int) -> float:
    return _lowered(-_SPARE - math.log(count))


def _lowered(log: float) -> float:
    """Return a multiple of 8 below, so that similar plans have grids of the same extent."""
    return 8.0 * math.floor(log / 8)


@remembered(maxsize=1024)
def _rough(loss: Profile, log_share: float) -> Masses:
    below, above, ends = extent(loss, _FAR, log_share)
    step = (below + above) / _ROUGH_CELLS
    step = above / math.ceil(above / step) if ends and above > step else step
    return upper(loss, step, -_cells(below, step), _cells(above, step))


def _step(
    parts: Losses, extents: Sequence[Extent], wanted: tuple[float, float], window: float
) -> float:
    longest = max(below + above for below, above, _ in extents)
    least = max(window / (_MOST_WINDOW - SPARE_STEPS), longest / _MOST_CELLS) * (1 + 1e-9)
    coarse, fine = wanted
    step = max(min(coarse, max(fine, max(window, longest) / _CHEAP)), least)
    finite = [loss.finite for loss, _ in parts if hasattr(loss, "finite")]
    exact = _lattice(finite, step) if len(finite) == len(parts) else None
    atoms = [(atom, n) for (_, _, atom), (_, n) in zip(extents, parts, strict=True) if atom]
    return exact or _aligned(atoms, step, least)


def _lattice(losses: Sequence[FiniteLoss], wanted: float) -> float | None:
    """Return the greatest step of which all values are whole multiples, or None."""
    values = np.abs(np.asarray([value for loss in losses for value in loss.losses]))
    values = values[values > 0]
    if not len(values):
        return None
    steps = values.min() / np.arange(1, min(2 + values.min() / wanted, 4096))
    ratios = np.multiply.outer(1 / steps, values)
    fits = (np.abs(ratios - np.round(ratios)) <= 1e-13 * ratios).all(axis=1)
    return float(steps[np.argmax(fits)]) if fits.any() else None


def _aligned(atoms: Sequence[tuple[float, int]], wanted: float, least: float) -> float:
    """Return a step near ``wanted`` whose multiples are the atoms of the losses, or near them."""
    if not atoms:
        return wanted
    ends, counts = np.asarray([end for end, _ in atoms]), np.asarray([n for _, n in atoms])
    main = float(ends[np.argmax(counts)])
    fewest = math.ceil(main / wanted)
    steps = main / np.arange(fewest, min(2 * fewest, fewest + 4096) + 1)
    steps = steps[steps >= least] if (steps >= least).any() else np.asarray([wanted])
    ratios = np.multiply.outer(1 / steps, ends)
    lost = (ratios - np.floor(ratios + 1e-9)).clip(0.0) @ counts * steps
    return float(steps[np.argmin(lost.round(12))])


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
        """Return the composition with further losses."""
        count = self.count + sum(n for _, n in parts)
        return Running(self.epsilon, count, self._extended(parts, count))

    def bounds(self, parts: Callable[[], Losses]) -> Iterator[float]:
        """Yield upper bounds on delta, the last one from a new plan and as close as is known."""
        if self._sides is not None:
            yield self._bound(self._sides, parts)
        whole = parts()
        planned = outlines(whole, self.epsilon)
        if planned is None:
            yield Composition(whole).delta_above(self.epsilon) if whole else 0.0
        else:
            # Kept for the losses that follow; the bounds stay valid.
            self._sides = sides = [folded(side, outline) for side, outline in planned]
            yield self._bound(sides, parts)

    def _bound(self, sides: Sequence[Folded], parts: Callable[[], Losses]) -> float:
        log = min(max(side.sum().log_upper(self.epsilon) for side in sides), 0.0)
        return delta_of(parts() if math.isinf(log) else (), log)

    def _extended(self, parts: Losses, count: int) -> Sequence[Folded] | None:
        """Return the sums with further losses, or None without a sum or if its grid is too fine."""
        if self._sides is None:
            return None
        further = sides(parts)
        if len(further) > len(self._sides):
            return None
        found = []
        for k, side in enumerate(self._sides):
            for loss, n in further[min(k, len(further) - 1)]:
                first, last = ends_on(loss, side.step, count)
                if last - first > side.spectrum.size:
                    return None
                side = side.plus(upper(loss, side.step, first, last), n)
            found.append(side)
        return found
