"""Upper bounds on delta of several releases, from their privacy losses.

The losses of independent releases add. The product of the pairs that dominate each release
dominates all of them, also if each mechanism depends on earlier outputs (Zhu, Dong & Wang 2022,
Theorem 10). The pairs, and the number of each, must be fixed before the first output is seen. A
release whose scale or existence depends on earlier outputs is not covered
(docs/proofs/loss_distributions.md, Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from skdp.trusted.arrays import LEAST_LOG, add_multiples, exp_up, float_above
from skdp.trusted.checks import remembered
from skdp.trusted.fold import (
    ACCURACY,
    SPARE_STEPS,
    Folded,
    Masses,
    Spread,
    extent,
    log_infinity_mass,
    moved_log_delta,
    tilt,
    upper,
)
from skdp.trusted.losses import FiniteLoss, GaussianLoss, Losses, PairLoss, Profile, counted

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
# More than the relative rounding error of sums.
_ROUND_UP = 1 + 1e-12
Rough = Sequence[tuple[Masses, int]]
Extent = tuple[float, float, float]


def composed_delta(losses: Losses, epsilon: float) -> float:
    """Return an upper bound on the least delta at epsilon in [0, inf) of all losses together.

    A pair loss with delta > 0 is infinite with probability delta, and otherwise the pair loss of
    the same epsilon. The sum of losses is infinite if one of them is.
    """
    rest = finite_parts(losses)
    return with_infinity(infinity_mass(losses), delta_above(rest, epsilon) if rest else 0.0)


def infinity_mass(losses: Losses) -> float:
    """Return the probability that one of the pair losses is infinite, rounded up."""
    masses = (-math.log1p(-loss.delta) * n for loss, n in losses if type(loss) is PairLoss)
    return min(-math.expm1(-math.fsum(masses)) * _ROUND_UP, 1.0)


def with_infinity(mass: float, delta: float) -> float:
    """Return the delta of losses that are infinite with a probability, and else have a delta."""
    if mass == 0:
        return delta
    return min(1.0, math.nextafter((mass + (1 - mass) * delta) * _ROUND_UP, math.inf))


def finite_parts(losses: Losses) -> Losses:
    """Return the losses without the infinity masses of pair losses, and without zero losses."""
    rest = counted((finite_part(loss), n) for loss, n in losses)
    return tuple((loss, n) for loss, n in rest if loss != PairLoss(0.0))


def finite_part(loss: Profile) -> Profile:
    """Return a pair loss without its infinity mass, and any other loss as it is."""
    return PairLoss(loss.epsilon) if type(loss) is PairLoss else loss


def delta_above(parts: Losses, epsilon: float, gap: float | None = None) -> float:
    """Return an upper bound on the least delta at epsilon in [0, inf).

    With a ``gap`` the bound may be wider by about it in epsilon, and takes less time.
    """
    merged = gaussians_merged(counted(parts))
    logs = [log_delta_above(side, epsilon, gap) for side in sides(merged)]
    return delta_of(merged, float(np.max(logs)))  # also if one is NaN, which is no bound


def log_delta_above(parts: Losses, epsilon: float, gap: float | None = None) -> float:
    """Return an upper bound on log delta at epsilon, for one order of the pair."""
    if epsilon >= end(parts):
        return min(log_infinite(parts) + ACCURACY, 0.0)
    if len(parts) == 1 and parts[0][1] == 1:
        return min(float(moved_log_delta(parts[0][0], epsilon, 1)), 0.0)
    return min(folded(parts, plan(parts, epsilon=epsilon, gap=gap)).sum().log_upper(epsilon), 0.0)


def gaussians_merged(parts: Losses) -> Losses:
    """Return the parts with all Gaussian ones merged: their product is Gaussian."""
    gaussian = [(loss.mu, n) for loss, n in parts if type(loss) is GaussianLoss]
    if sum(n for _, n in gaussian) < 2:
        return parts
    top = max(mu for mu, _ in gaussian)  # squares of ratios to it do not all underflow
    # The quotients, squares, sum, root and product round by less than 2^-50 together.
    mu = top * math.sqrt(math.fsum(n * (mu / top) ** 2 for mu, n in gaussian)) * (1 + 2**-50)
    rest = tuple((loss, n) for loss, n in parts if type(loss) is not GaussianLoss)
    return ((GaussianLoss(mu), 1), *rest)


def delta_of(parts: Losses, log_delta: float) -> float:
    """Return an upper bound on delta, rounded up, from one on its log."""
    # If no upper bound of a loss is known, the truth is not 0, but below every positive float.
    if log_delta == -math.inf and any(
        math.isinf(greatest_above(((loss, 1),))) for loss, _ in parts
    ):
        log_delta = LEAST_LOG
    return exp_up(log_delta)


def sides(parts: Losses) -> list[Losses]:
    """Return the parts, and those of (Q, P) if they differ, without parts with zero loss."""
    telling = tuple((loss, n) for loss, n in parts if _tells(loss))
    if all(loss.symmetric for loss, _ in telling):
        return [telling]
    return [telling, tuple((loss.reversed(), n) for loss, n in telling)]


@remembered(maxsize=1024)
def _tells(loss: Profile) -> bool:
    """Return whether a loss is not 0; one that is no number counts as a loss."""
    return bool(loss.log_delta(0.0) != -np.inf)


def folded(parts: Losses, outline: GridPlan) -> Folded:
    """Return the sum of losses that dominate the parts, on the grid of a plan."""
    pairs = zip(parts, outline.ends, strict=True)
    found = [(upper(loss, outline.step, *ends), n) for (loss, n), ends in pairs]
    return Folded.of(found, outline.theta, outline.size)


def end(parts: Losses) -> float:
    """Return the sum of the epsilons of pair losses, as in basic composition; inf for others."""
    pairs = [(loss.epsilon, n) for loss, n in parts if type(loss) is PairLoss]
    return float_above(add_multiples(pairs)) if len(pairs) == len(parts) else math.inf


def log_infinite(parts: Losses) -> float:
    """Return the log of the probability that a loss is infinite, up to `ACCURACY`."""
    masses = [(math.exp(log_infinity_mass(loss)), n) for loss, n in parts]
    spared = math.fsum(n * math.log1p(-mass) if mass < 1 else -math.inf for mass, n in masses)
    return math.log(-math.expm1(spared)) if spared else -math.inf


def greatest_above(parts: Losses) -> float:
    """Return an upper bound on epsilon at delta = 0, which is the sum of the greatest losses."""
    if log_infinite(parts) + ACCURACY > -math.inf:
        return math.inf
    ends = [extent(loss, -700.0, -700.0)[1] * (1 + ACCURACY) for loss, _ in parts]
    ended = all(
        loss.log_delta(last) == -math.inf for last, (loss, _) in zip(ends, parts, strict=True)
    )
    most = sum(n * last for last, (_, n) in zip(ends, parts, strict=True))
    return min(most if ended else math.inf, end(parts))


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
    parts: Losses, *, epsilon: float | None = None, log_delta: float = 0.0, gap: float | None = None
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
