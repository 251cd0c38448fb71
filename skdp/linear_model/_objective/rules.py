"""Rules for the automatic choices of objective perturbation: noise, q, ridge and loss.

The rules use public information only: the number of records if it is public, the budget, the
neighbouring relation and the design. They compare candidates by their expected error on a reference
population, which is a convention:

- a number in [-1, 1] has the variance ``SPREAD`` (a uniform number would have 1/3; real columns
  use less of their range);
- coefficients are independent; each number adds ``signal`` to the variance of the linear
  predictor, all numbers together at most the limit of ``most_signal``, and the levels of a column
  ``level_signal``;
- all levels of a column are equally frequent.

Let H be the curvature of the loss summed over the records, J the variance of its gradient, C the
variance of the privacy noise, P the variance of a coefficient and r its ridge. The estimate of a
coefficient t is (H t + noise) / (H + r), and its mean squared error is
(C + J + r^2 P) / (H + r)^2. The error of the linear predictor is the sum of these, each times the
second moment of its column. The rules affect accuracy only: the privacy proof holds for every
choice made before the data are seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from skdp.linear_model._objective.families import (
    Candidate,
    Family,
    ModelTask,
    Population,
    per_coordinate,
    per_group,
)
from skdp.linear_model.losses import AnyLoss, Loss, Softmax
from skdp.trusted.arrays import FloatArray
from skdp.trusted.identity import remembered

# The normalizer of a softmax rises by NORMALIZER_RISE with each doubling of the number of records
# per dimension, times epsilon, from 0 at NORMALIZER_FROM doublings of 1 on.
NORMALIZER_FROM, NORMALIZER_RISE, LEAST_NORMALIZER = 2.2, 0.14, 0.3
# Data are scarce below this number of records per dimension and unit of 1 / epsilon.
SCARCE = 36.0
# Ridges and noise determine each other and are computed in turn so many times.
_ROUNDS = 3
# The ridge of the intercept is at least this multiple of the least of the other ridges.
HELD = 1.0
# The degree of the curves, and the limits of their number of inner knots. Numbers may have curves
# from CURVED_FROM records per coefficient and unit of 1 / epsilon on, with the least number of
# knots. From MORE_KNOTS on their number increases with the square root of the number of records.
DEGREE, LEAST_KNOTS, MOST_KNOTS = 3, 6, 24
CURVED_FROM, MORE_KNOTS = 40.0, 100.0


def choose(
    task: ModelTask,
    losses: Sequence[Loss],
    families: Sequence[Family],
    *,
    q: float | None = None,
) -> Candidate:
    """Return the candidate of least reference error; ``q`` is the share given by the user."""

    def best_of(family: Family) -> Candidate:
        share = family.usual_q if q is None else q
        grid, moment = family.grid if share is None else np.array([share]), task.population.moment
        choice = _best(task, losses, family, grid, 1 / moment)
        if not family.is_shaped:
            return choice
        # The cost of a unit of noise in a coordinate of a group is less if its ridge is large.
        h = task.size * task.reference.moments(choice.loss)[0] * moment
        ridge = per_group(task.design, choice.ridge) * task.population.stiffness
        return _best(task, losses, family, grid, np.asarray(moment / (h + ridge) ** 2))

    chosen = map(best_of, families)
    return min(chosen, key=lambda choice: choice.risk * choice.family.handicap(task))


def _best(
    task: ModelTask,
    losses: Sequence[Loss],
    family: Family,
    grid: FloatArray,
    importance: FloatArray,
) -> Candidate:
    """Return the best choice within a family, for given costs of noise, (groups,)."""
    shape, unit_noise = family.shaped(task, importance)
    population = task.population
    pairs = [(loss, float(q)) for loss in losses for q in grid]
    # From here on rows are pairs and columns are groups.
    mean = np.repeat([task.reference.moments(loss) for loss in losses], len(grid), axis=0)
    curvature, score = task.size * mean.T[:, :, None]
    scales = [family.scales(task, loss, grid) for loss in losses]
    scale, leverage = (np.concatenate(column) for column in zip(*scales, strict=True))
    noise = np.square(scale)[:, None] * unit_noise
    per_ridge = 1 / (curvature * population.moment * population.prior)
    # The best ridge is the sum of a part for sampling errors and a part for the noise.
    floor = score * population.moment * per_ridge
    ridge, enforced, noise = _settled(task, family, shape, noise, floor, per_ridge, leverage)
    risk = population.risk(ridge, noise, curvature, score)
    at = int(np.argmin(risk))
    if family.is_rough and len(grid) > 1:  # only the best candidate is calibrated exactly
        loss, share = pairs[at]
        return _best(task, [loss], family, np.array([share]), importance)
    ridges = per_coordinate(task.design, ridge[at])
    return Candidate(*pairs[at], ridges, family, shape, float(enforced[at]), float(risk[at]))


def _settled(
    task: ModelTask,
    family: Family,
    shape: Any,
    unit_noise: FloatArray,
    floor: FloatArray,
    per_ridge: FloatArray,
    leverage: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ridges, the leverages that weights enforce, and the variances of the noise.

    The best ridge depends on the noise, the noise on the greatest length of a weighted row, and
    this length on the ratios of the ridges.
    """
    population = task.reached if family.counts_weights else task.population
    noise, enforced = 0.0 * unit_noise, np.full(len(leverage), np.inf)
    for _ in range(_ROUNDS):
        ridge = _ridges(task, population, floor + noise * per_ridge, floor, leverage)
        if family.counts_weights:
            enforced = np.minimum(leverage, np.sum(population.square / ridge, axis=-1))
        reach = family.reach(task.design, shape, ridge, enforced)
        noise = unit_noise * np.square(reach)[:, None]
    return ridge, enforced, noise


def _ridges(
    task: ModelTask,
    population: Population,
    wanted: FloatArray,
    floor: FloatArray,
    leverage: FloatArray,
) -> FloatArray:
    """Return the ridge of each group, (..., groups), that is best among the allowed ones."""
    groups = task.design.groups
    if not task.reference.least_ridge:
        if len(groups) > 1 and groups[0].kind == "intercept":
            # Otherwise large ridges on the slopes would give every record the same label.
            wanted = wanted.copy()
            wanted[..., 0] = np.maximum(wanted[..., 0], HELD * wanted[..., 1:].min(axis=-1))
        return _raise_to(wanted, population.shape, population.square, leverage)
    # With few records the intercept gets a greater ridge than the other groups.
    share = float(np.clip(SCARCE / task.weight, 1.0, 10.0))
    shape = np.array([share if g.kind == "intercept" else 1.0 for g in groups])
    # A coefficient of a curve where there are few records would otherwise be mostly noise.
    curves = np.array([g.roughness is not None for g in groups])
    return _raise_to(np.where(curves, wanted, floor), shape, population.square, leverage)


def _raise_to(
    wanted: FloatArray, shape: FloatArray, square: FloatArray, leverage: FloatArray
) -> FloatArray:
    """Return max(t shape, wanted) with the least t >= 0 that satisfies the leverage."""
    # A ridge is raised if t is above its threshold, and t grows as the leverage falls.
    order = np.argsort(wanted / shape, axis=-1)
    with np.errstate(divide="ignore"):  # a wanted ridge of 0 is always raised
        threshold, raised, kept = (
            np.take_along_axis(own, order, axis=-1)
            for own in np.broadcast_arrays(wanted / shape, square / shape, square / wanted)
        )
        sums, rest = np.cumsum(raised, axis=-1), np.zeros_like(kept)
        rest[..., :-1] = np.cumsum(kept[..., :0:-1], axis=-1)[..., ::-1]
        is_raised = sums / threshold + rest > leverage[..., None]
    count = np.sum(is_raised, axis=-1, keepdims=True)
    last = np.maximum(count - 1, 0)
    t = np.take_along_axis(sums, last, axis=-1)
    t /= leverage[..., None] - np.take_along_axis(rest, last, axis=-1)
    return np.maximum(np.where(count > 0, t, 0.0) * shape, wanted)


def usual_knots(task: ModelTask) -> int:
    """Return the number of knots of each curve; 0 for a linear model."""
    dim = task.design.dim + task.design.domain.n_numbers * (LEAST_KNOTS + DEGREE - 1)
    weight = task.size * task.epsilon / dim
    if weight < CURVED_FROM:
        return 0
    growth = max(1.0, weight / MORE_KNOTS) ** 0.5
    return min(int(LEAST_KNOTS * growth), MOST_KNOTS)


def usual_normalizer(task: ModelTask) -> float:
    found = NORMALIZER_RISE * (math.log2(task.weight) - NORMALIZER_FROM)
    return min(max(found, LEAST_NORMALIZER), 1.0)


@remembered(maxsize=256)
def logistic_moments(loss: AnyLoss, spread: float = 1.5) -> tuple[float, float]:
    """Return mean curvature and squared slope for predictors of standard deviation ``spread``."""
    if isinstance(loss, Softmax):
        k, a = loss.n_classes, loss.normalizer
        return a * (1 - 1 / k) / k, (1 - 1 / k) / k
    z = np.linspace(-6, 6, 241) * spread
    p, ones, zeros = expit(z), np.ones_like(z), np.zeros_like(z)
    curvature = p * loss.curvature(z, ones) + (1 - p) * loss.curvature(z, zeros)
    score = p * loss.slope(z, ones) ** 2 + (1 - p) * loss.slope(z, zeros) ** 2
    return _normal_mean(curvature, z, spread), _normal_mean(score, z, spread)


@remembered(maxsize=256)
def residual_moments(loss: Loss, spread: float = 0.2) -> tuple[float, float]:
    """Return mean curvature and squared slope for residuals of standard deviation ``spread``."""
    r = np.linspace(-6, 6, 481) * spread
    zeros = np.zeros_like(r)
    curvature, score = loss.curvature(r, zeros), loss.slope(r, zeros) ** 2
    return _normal_mean(curvature, r, spread), _normal_mean(score, r, spread)


def _normal_mean(values: FloatArray, z: FloatArray, spread: float) -> float:
    return float(np.average(values, weights=np.exp(-0.5 * (z / spread) ** 2)))
