"""The tilt, step and window of a composition, from a coarse estimate of it.

Bounds hold for every choice. The choice determines how close they are and how long they take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from skdp._identity import remembered
from skdp.privacy.fold import SPARE_STEPS
from skdp.privacy.fold import Spread, tilt
from skdp.privacy.grid import ACCURACY, Masses, extent, upper
from skdp.privacy.losses import FiniteLoss, Profile

Parts = tuple[tuple[Profile, int], ...]
Rough = Sequence[tuple[Masses, int]]
Extent = tuple[float, float, float]

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


@dataclass(frozen=True)
class Plan:
    """Epsilon, tilt, step, window and the ends of each loss's grid."""

    epsilon: float
    theta: float
    step: float
    size: int
    ends: tuple[tuple[int, int], ...]


def plan(
    parts: Parts,
    *,
    epsilon: float | None = None,
    log_delta: float = 0.0,
    gap: float | None = None,
) -> Plan:
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
    coarse, fine = _wanted(gap or _GAP, count, theta, order, log_delta)
    # The finer step is taken if it is cheap. The exponential of a step must be finite.
    step = min(_step(parts, extents, (coarse, coarse if gap else fine), width), _LONGEST_STEP)
    ends = tuple((-_cells(low, step), _cells(high, step)) for low, high, _ in extents)
    # Near the greatest sum the best tilt has no bound, but it magnifies rounding to the grid.
    lost = sum(
        n * ((1e-9 * step - atom) % step)
        for (_, _, atom), (_, n) in zip(extents, parts, strict=True)
    )
    steepest = max(_STEEPEST / max(step, lost), _usual(log_delta, order))
    if theta > steepest:
        theta = _STEEPEST / max(step, lost)
        width = _width(rough, theta)
    size = 1 << math.ceil(math.log2(width / step + SPARE_STEPS))
    return Plan(epsilon, theta, step, size, ends)


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


def _log_share(parts: Parts) -> float:
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


def _wanted(
    gap: float, count: int, theta: float, size: float, log_delta: float
) -> tuple[float, float]:
    """Return two target steps: the coarser one always, the finer one if it is cheap."""
    gap *= max(min(size, 1.0), size / 4)
    usual = min(theta, _usual(log_delta, size))
    # A cell of width h changes the log of a factor by at most h^2 t (1 + t) / 8, t the tilt.
    coarse, fine = (math.sqrt(8 * gap / (count * (1 + t))) for t in (usual, theta))
    return coarse, fine


def _usual(log_delta: float, size: float) -> float:
    """Return a bound on the best tilt, except near the greatest loss."""
    return 2 * (1 - max(log_delta, _LEAST)) / size


def _step(
    parts: Parts, extents: Sequence[Extent], wanted: tuple[float, float], window: float
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
