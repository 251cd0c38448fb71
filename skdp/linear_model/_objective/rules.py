"""The automatic choices: ball, q, ridge and loss, from public things alone.

A rule may look at the number of records (where it is public), epsilon, the neighbouring relation
and the design's public side, and at nothing else. It weighs the candidates by the error that
they would have on a reference population, a convention of this module:

- a number of [-1, 1] has the variance ``SPREAD`` (1/3 would be uniform on the whole range; real
  columns use less of theirs);
- coefficients are independent, with variances such that every number adds ``signal`` to the
  variance of the linear predictor, all of them no more than ``most_signal`` says, and the levels
  of a column ``level_signal``;
- all levels of a column are equally frequent.

With H the curvature of the loss summed over the records, J the variance of its gradient, C the
variance of the privacy noise, P the variance of a coefficient, and a ridge r, the estimate of a
coefficient t is (H t + noise) / (H + r), with mean squared error (C + J + r^2 P) / (H + r)^2;
times the second moment of its column and summed, that is the error of the linear predictor.
None of this is part of the privacy proof, which holds for every choice made before the data is
seen; it only decides how good the model is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from skdp._arrays import FloatArray
from skdp._identity import remembered
from skdp.linear_model._objective.task import Choice, Family, ModelTask, Population
from skdp.linear_model._shared.design import Design
from skdp.linear_model.losses import Loss

# Below this many records per dimension and unit of epsilon, data are scarce.
SCARCE = 36.0
# The intercept is held down at least so much as the least held of the others.
HELD = 1.0


def choose(
    task: ModelTask,
    losses: Sequence[Loss],
    families: Sequence[Family],
    *,
    q: float | None = None,
) -> Choice:
    """Return the candidate of least reference error.

    Parameters
    ----------
    task : ModelTask
    losses, families : sequences of Loss and of Family
        Candidates.
    q : float or None
        What the user fixed.
    """
    chosen = [_best_of_family(task, losses, family, q) for family in families]
    return min(chosen, key=lambda choice: choice.risk * choice.family.handicap)


def _best_of_family(
    task: ModelTask,
    losses: Sequence[Loss],
    family: Family,
    q: float | None,
) -> Choice:
    grid = np.asarray(family.grid) if q is None else np.array([q])
    importance = 1 / task.population.moment
    choice = None
    for _ in range(2 if family.is_shaped else 1):
        shape, unit_noise = family.shaped(task.design, importance)
        choice = _best(task, losses, family, grid, shape, unit_noise)
        # A group's noise counts for less where its ridge holds it down.
        importance = _importance(task, choice)
    assert choice is not None
    return choice


def _best(
    task: ModelTask,
    losses: Sequence[Loss],
    family: Family,
    grid: FloatArray,
    shape: Any,
    unit_noise: FloatArray,
) -> Choice:
    population = task.population
    pairs = [(loss, float(q)) for loss in losses for q in grid]
    # One row for each pair from here on; the columns are groups.
    mean = np.repeat([task.reference.moments(loss) for loss in losses], len(grid), axis=0)
    curvature, score = task.size * mean.T[:, :, None]
    prices = [family.prices(task, loss, grid) for loss in losses]
    scale, leverage = (np.concatenate(column) for column in zip(*prices, strict=True))
    noise = np.square(scale)[:, None] * unit_noise
    per_ridge = 1 / (curvature * population.moment * population.prior)
    # What sampling errors alone ask for, and what the noise asks for on top of it.
    floor = score * population.moment * per_ridge
    ridge = _ridges(task, population, floor + noise * per_ridge, floor, leverage)
    risk = population.risk(ridge, noise, curvature, score)
    at = int(np.argmin(risk))
    ridges = _spread(task.design, ridge[at])
    return Choice(*pairs[at], ridges, family, shape, float(risk[at]))


def _ridges(
    task: ModelTask,
    population: Population,
    wanted: FloatArray,
    floor: FloatArray,
    leverage: FloatArray,
) -> FloatArray:
    """Return the ridge of each group, (..., groups): the best one, or the least allowed."""
    if not task.reference.least_ridge:
        wanted = _held_intercept(task.design, wanted)
        return _raise_to(wanted, population.shape, population.square, leverage)
    # The fewer the records, the more the ridge should fall on the intercept, which can bear it.
    share = float(np.clip(SCARCE / task.weight, 1.0, 10.0))
    shape = np.array([share if g.kind == "intercept" else 1.0 for g in task.design.groups])
    return _raise_to(floor, shape, population.square, leverage)


def _held_intercept(design: Design, wanted: FloatArray) -> FloatArray:
    """Raise the intercept's ridge to the least of the others.

    Where slopes are held down and the intercept is not, every record gets the same label.
    """
    if len(design.groups) == 1 or design.groups[0].kind != "intercept":
        return wanted
    held = wanted.copy()
    held[..., 0] = np.maximum(wanted[..., 0], HELD * wanted[..., 1:].min(axis=-1))
    return held


def _raise_to(
    wanted: FloatArray, shape: FloatArray, square: FloatArray, leverage: FloatArray
) -> FloatArray:
    """Return max(t shape, wanted) with the least t >= 0 that keeps the leverage."""
    high = np.sum(square / shape) / leverage
    low = np.zeros_like(high)
    for _ in range(40):
        t = (low + high) / 2
        kept = np.sum(square / np.maximum(t[:, None] * shape, wanted), axis=1) <= leverage
        low, high = np.where(kept, low, t), np.where(kept, t, high)
    return np.maximum(high[:, None] * shape, wanted)


def _spread(design: Design, per_group: FloatArray) -> FloatArray:
    out = np.empty(design.dim)
    for group, value in zip(design.groups, per_group, strict=True):
        out[list(group.index)] = value
    return out


def _importance(task: ModelTask, choice: Choice) -> FloatArray:
    population = task.population
    h = task.size * task.reference.moments(choice.loss)[0] * population.moment
    ridge = np.array([choice.ridge[g.index[0]] for g in task.design.groups])
    return np.asarray(population.moment / (h + ridge) ** 2)


@remembered(maxsize=256)
def logistic_moments(loss: Loss, spread: float = 1.5) -> tuple[float, float]:
    """Return mean curvature and squared slope for predictors of standard deviation ``spread``."""
    z = np.linspace(-6, 6, 241) * spread
    weight = np.exp(-0.5 * (z / spread) ** 2)
    p = expit(z)
    ones, zeros = np.ones_like(z), np.zeros_like(z)
    curvature = p * loss.curvature(z, ones) + (1 - p) * loss.curvature(z, zeros)
    score = p * loss.slope(z, ones) ** 2 + (1 - p) * loss.slope(z, zeros) ** 2
    return float(np.average(curvature, weights=weight)), float(np.average(score, weights=weight))


@remembered(maxsize=256)
def residual_moments(loss: Loss, spread: float = 0.2) -> tuple[float, float]:
    """Return mean curvature and squared slope for residuals of standard deviation ``spread``."""
    r = np.linspace(-6, 6, 481) * spread
    weight = np.exp(-0.5 * (r / spread) ** 2)
    zeros = np.zeros_like(r)
    curvature, score = loss.curvature(r, zeros), loss.slope(r, zeros) ** 2
    return float(np.average(curvature, weights=weight)), float(np.average(score, weights=weight))
