"""The automatic choices of a coordinate descent that come after the first stage.

Scaling, steps, penalties and clips use public things and what the stage released. None of them is
part of the privacy proof, which holds for all. Where the constants come from:
``docs/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.plan import DescentPlan, more, plan_descent
from skdp.linear_model._descent.scaling import RowBound, Scaling, plain_scaling, usual_square

__all__ = [
    "LOGISTIC",
    "SQUARED",
    "Kind",
    "curvatures",
    "penalties",
    "plan_descent",
    "residual_bound",
    "scaling_of",
]


# Residuals are clipped at so many deviations of the target, or more with more information. Where
# nothing was estimated, all passes together can go this way from the middle of the domain.
CLIP, CLIP_POWER, WHOLE_RANGE, FARTHEST_MEAN = 0.45, 0.33, 2.0, 0.5


@dataclass(frozen=True)
class Kind:
    """A loss, with what the rules take for granted about the model.

    Attributes
    ----------
    is_regression : bool
        Whether it is the squared loss of a number, or the logistic loss of labels.
    curvature : float
        Greatest second derivative of the loss.
    score : float
        Mean squared slope over the mean curvature; of squared loss in units of the target's
        variance, like the next three.
    signal, level_signal : float
        What all numbers together, and the levels of all columns, add to the predictor's variance.
    intercept : float
        Prior variance of the intercept.
    """

    is_regression: bool
    curvature: float
    score: float
    signal: float
    level_signal: float
    intercept: float


LOGISTIC = Kind(False, curvature=0.25, score=0.6, signal=0.6, level_signal=0.15, intercept=0.5)
SQUARED = Kind(True, curvature=1.0, score=0.5, signal=0.2, level_signal=0.1, intercept=5.0)


def scaling_of(plan: DescentPlan, seen: FloatArray | None) -> Scaling:
    """Return the scaling that a stage's noisy sums give, or without one the domain's."""
    if plan.stage is None or seen is None:
        return plain_scaling(plan.blocks, plan.n, plan.rows)
    return plan.stage.scaling(seen, plan.ratio * math.sqrt(plan.noise.var()), plan.rows)


def curvatures(blocks: Blocks, scaling: Scaling, kind: Kind) -> FloatArray:
    """Return bounds, or after a stage estimates, of the summed loss's second derivatives."""
    weight = _mean_weight(blocks, scaling.rows) if scaling.is_estimated else 1.0
    return np.asarray(scaling.n * weight * kind.curvature * scaling.square)


def _mean_weight(blocks: Blocks, rows: RowBound) -> float:
    """Return about how much a record counts whose numbers all have the variance 1."""
    numbers = max(len(blocks.numbers), 1)
    if rows.bound is None:
        return min(1.0, rows.radius / math.sqrt(2 * math.log(2 * numbers + 1)))
    parts = rows.precision**rows.power
    # The mean of |x| is about .8 deviations.
    parts[blocks.number_places] *= (1 if rows.power == 2 else 0.8) / rows.radius**rows.power
    return min(1.0, float((rows.bound / parts.sum()) ** (1 / rows.power)))


def shrinkage(plan: DescentPlan, scaling: Scaling, kind: Kind, unit: FloatArray) -> FloatArray:
    """Return ridges that weigh noise and sampling errors against the prior of each coefficient."""
    noise, usual = unit * plan.averaged, _usual_curvatures(plan, scaling, kind)
    errors = noise**2 + _score(kind, scaling) * usual
    return np.asarray(errors / (usual * _prior(plan, scaling, kind)))


def _usual_curvatures(plan: DescentPlan, scaling: Scaling, kind: Kind) -> FloatArray:
    blocks = plan.blocks
    square = scaling.square.copy()
    square[blocks.number_places] = 1 / _numbers_prior(blocks, scaling)
    if not scaling.is_estimated:
        sizes = np.array(blocks.sizes[blocks.first_levels :], dtype=int)
        square[blocks.number_places.stop :] = np.repeat(1 / sizes, sizes)
    return np.asarray(scaling.n * _mean_weight(blocks, scaling.rows) * kind.curvature * square)


def _numbers_prior(blocks: Blocks, scaling: Scaling) -> float:
    """Return the variance of a number's coefficient that adds 1 to that of the predictor."""
    return scaling.rows.radius**2 if scaling.is_estimated else 1 / usual_square(blocks)


def _score(kind: Kind, scaling: Scaling) -> float:
    return kind.score * _spread(kind, scaling)


def _spread(kind: Kind, scaling: Scaling) -> float:
    return scaling.target_deviation**2 if kind.is_regression else 1.0


def _prior(plan: DescentPlan, scaling: Scaling, kind: Kind) -> FloatArray:
    """Return the prior variances of the coefficients, (dim,)."""
    blocks = plan.blocks
    prior = np.full(blocks.dim, kind.level_signal / max(1, len(blocks.level_columns)))
    number = blocks.number_places
    prior[number] = kind.signal / max(1, len(blocks.numbers)) * _numbers_prior(blocks, scaling)
    prior[: blocks.intercept] = kind.intercept
    return prior * _spread(kind, scaling)


def thresholds(plan: DescentPlan, scaling: Scaling, kind: Kind, unit: FloatArray) -> FloatArray:
    """Return l1 penalties about as large as the errors of a pass, or of the best of many columns.

    Where there is nothing, most passes end at 0, and so does their average.
    """
    sampling = _score(kind, scaling) * _usual_curvatures(plan, scaling, kind)
    highest = 2 * math.log(plan.blocks.dim + 1)
    found = np.sqrt((unit * plan.deviations) ** 2 + highest * sampling)
    found[: plan.blocks.intercept] = 0.0
    return np.asarray(found)


def penalties(
    plan: DescentPlan,
    scaling: Scaling,
    kind: Kind,
    unit: FloatArray,
    penalty: str,
    alpha: float | None,
    l1_ratio: float,
) -> tuple[FloatArray, FloatArray]:
    """Return l1 and ridge of each coordinate, in units of the summed loss; alpha None is auto."""
    share = {"none": 0.0, "auto": 0.0, "l1": 1.0, "l2": 0.0, "elasticnet": l1_ratio}[penalty]
    if penalty == "none":
        return np.zeros(plan.blocks.dim), np.zeros(plan.blocks.dim)
    if penalty == "auto" or alpha is None:
        l1, ridge = (
            thresholds(plan, scaling, kind, unit),
            shrinkage(plan, scaling, kind, unit),
        )
        return share * l1, (1 - share) * ridge
    scale = np.ones(plan.blocks.dim)
    scale[plan.blocks.number_places] = scaling.scale
    size = np.full(plan.blocks.dim, alpha * scaling.n)
    size[: plan.blocks.intercept] = 0.0
    return size * share / scale, size * (1 - share) / scale**2


def residual_bound(plan: DescentPlan, scaling: Scaling) -> float:
    """Return where residuals are clipped, of targets in [-1, 1]."""
    deviations = CLIP * max(0.5, more(plan.information, CLIP_POWER))
    least = 0.0 if scaling.is_estimated else FARTHEST_MEAN / plan.n_passes
    return min(WHOLE_RANGE, max(least, deviations * scaling.target_deviation))
