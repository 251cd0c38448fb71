"""Where to look: tilt, step and window for a composition, from a rough look at it.

Nothing here bears on the truth of a bound, only on how close it is and how long it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from skdp._identity import remembered
from skdp.privacy.composition.fold import SPARE_STEPS, Spread, tilt
from skdp.privacy.composition.grid import Masses, reach, upper
from skdp.privacy.losses.losses import FiniteLoss, Profile

Parts = tuple[tuple[Profile, int], ...]
Rough = Sequence[tuple[Masses, int]]
Reach = tuple[float, float, float]

_ROUGH_CELLS = 1024
_MOST_CELLS, _MOST_WINDOW = 2**20, 2**21
_CHEAP = 2**14
# The rough look's profiles end where delta is below e^ this.
_FAR = -700.0
# A delta below e^ this need not be met more closely than one that is not.
_LEAST = -80.0
# How far below the delta asked for, in logs, is what a grid leaves out.
_SPARE = 32.0
# The gap between the bounds that is aimed at: this share of epsilon, up to 1 or beyond 4.
_GAP = 4e-5
_LONGEST_STEP = 500.0


@dataclass(frozen=True)
class Look:
    """What is known, about, of a composition before its plan is made.

    Attributes
    ----------
    epsilon, log_delta : float
        A point of its profile.
    theta : float
        The tilt with the least Chernoff bound there.
    width : float
        Length of an interval that holds the tilted sum but for a share of e^-36.
    reaches : sequence of (float, float, float)
        For each loss how far it goes below 0 and above 0, and where it has an atom; 0 for none.
    """

    epsilon: float
    log_delta: float
    theta: float
    width: float
    reaches: Sequence[Reach]


@dataclass(frozen=True)
class Plan:
    """Where to look, tilt, step, window and the ends of each loss's grid."""

    epsilon: float
    theta: float
    step: float
    size: int
    ends: tuple[tuple[int, int], ...]


def plan(parts: Parts, *, epsilon: float | None = None, log_delta: float = 0.0) -> Plan:
    """Plan for bounds around the given epsilon, or, without one, around the given log delta."""
    rough = [(_rough(loss, _log_share(parts)), count) for loss, count in parts]
    theta = _tilt(rough, epsilon, log_delta)
    if epsilon is None:
        epsilon = (_log_bound(rough, theta) - log_delta) / theta
    else:
        log_delta = _log_bound(rough, theta) - theta * epsilon
    width = sum(Spread.of([(tilt(masses, theta), n) for masses, n in rough]).widths(-36.0))
    target = max(log_delta - _SPARE - math.log(sum(n for _, n in parts)), _FAR)
    reaches = [_with_atom(*reach(loss, target, _log_share(parts))) for loss, _ in parts]
    return planned(parts, Look(epsilon, log_delta, theta, width, reaches))


def planned(parts: Parts, look: Look) -> Plan:
    """Return the plan that follows from a look."""
    width, theta = look.width, look.theta
    count, order = sum(n for _, n in parts), max(look.epsilon, width / 16)
    wanted = _wanted(count, theta, order, look.log_delta)
    # A step has a finite exponential.
    step = min(_step(parts, look.reaches, wanted, width), _LONGEST_STEP)
    size = 2 ** math.ceil(math.log2(width / step + SPARE_STEPS))
    ends = tuple((-_cells(low, step), _cells(high, step)) for low, high, _ in look.reaches)
    return Plan(look.epsilon, theta, step, size, ends)


def _with_atom(below: float, above: float, ends: bool) -> Reach:
    return below, above, above if ends else 0.0


def _log_bound(rough: Rough, theta: float) -> float:
    """Return log delta + theta epsilon of Chernoff's bound, sharpened for delta."""
    # (1 - e^-x)_+ <= theta^theta / (1 + theta)^(1 + theta) e^(theta x), with equality at one x.
    share = float(xlogy(theta, theta) - xlogy(1 + theta, 1 + theta))
    return sum((n * tilt(masses, theta).log_scale for masses, n in rough), share)


def _tilt(rough: Rough, epsilon: float | None, log_delta: float) -> float:
    """Return about the tilt with the least bound for delta, or for epsilon; any is allowed."""

    def cost(x: float) -> float:
        theta = math.exp(x)
        bound = _log_bound(rough, theta)
        return (bound - log_delta) / theta if epsilon is None else bound - theta * epsilon

    reaches = [float(np.abs(masses.losses).max()) for masses, _ in rough]
    total = sum(n * far for (_, n), far in zip(rough, reaches, strict=True))
    # What reaches next to nowhere beside the others is infinite, or next to nothing.
    span = math.log(1e-3 / total), math.log(1e6 / max(min(reaches), 1e-9 * total))
    found = minimize_scalar(cost, bounds=span, method="bounded", options={"xatol": 1e-3})
    return math.exp(float(found.x))


def _cells(distance: float, step: float) -> int:
    # One more cell than needed, so that no atom lies at the end.
    return math.floor(distance / step + 1e-6) + 1


def _log_share(parts: Parts) -> float:
    return -_SPARE - math.log(sum(count for _, count in parts))


@remembered(maxsize=256)
def _rough(loss: Profile, log_share: float) -> Masses:
    below, above, ends = reach(loss, _FAR, log_share)
    step = (below + above) / _ROUGH_CELLS
    step = above / math.ceil(above / step) if ends and above > step else step
    return upper(loss, step, -_cells(below, step), _cells(above, step))


def _wanted(count: int, theta: float, size: float, log_delta: float) -> tuple[float, float]:
    """Return two steps to aim at: the coarser one always, the finer one where it is cheap."""
    gap = _GAP * max(min(size, 1.0), size / 4)
    # Next to the greatest loss of all the best tilt has no bound; elsewhere it is below this.
    usual = min(theta, 2 * (1 - max(log_delta, _LEAST)) / size)
    # A cell of width h moves the log of a factor by at most h^2 t (1 + t) / 8, t the tilt.
    coarse, fine = (math.sqrt(8 * gap / (count * (1 + t))) for t in (usual, theta))
    return coarse, fine


def _step(
    parts: Parts,
    reaches: Sequence[Reach],
    wanted: tuple[float, float],
    window: float,
) -> float:
    longest = max(below + above for below, above, _ in reaches)
    least = max(window / (_MOST_WINDOW - SPARE_STEPS), longest / _MOST_CELLS) * (1 + 1e-9)
    coarse, fine = wanted
    step = max(min(coarse, max(fine, max(window, longest) / _CHEAP)), least)
    finite = [loss.finite for loss, _ in parts if hasattr(loss, "finite")]
    exact = _lattice(finite, step) if len(finite) == len(parts) else None
    atoms = [(atom, n) for (_, _, atom), (_, n) in zip(reaches, parts, strict=True) if atom]
    return exact or _aligned(atoms, step, least)


def _lattice(losses: Sequence[FiniteLoss], wanted: float) -> float | None:
    """Return the greatest step of which all values are whole multiples, if there is one."""
    values = np.abs(np.asarray([value for loss in losses for value in loss.losses]))
    values = values[values > 0]
    if not len(values):
        return None
    steps = values.min() / np.arange(1, min(2 + values.min() / wanted, 4096))
    ratios = np.multiply.outer(1 / steps, values)
    fits = (np.abs(ratios - np.round(ratios)) <= 1e-13 * ratios).all(axis=1)
    return float(steps[np.argmax(fits)]) if fits.any() else None


def _aligned(atoms: Sequence[tuple[float, int]], wanted: float, least: float) -> float:
    """Return a step near ``wanted`` whose multiples are the losses' atoms, as nearly as can be."""
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
