"""Automatic choices of a coordinate descent after the scaling stage.

Scaling, steps, penalties and clip radii depend on public information and on the release of the
stage. The privacy proof holds for all choices. The origin of the constants:
``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.plan import DescentPlan, more
from skdp.linear_model._descent.scaling import RowBound, Scaling, plain_scaling, usual_square
from skdp.linear_model._descent.slopes import SoftmaxSlope

# Residuals are clipped at CLIP deviations of the target; the factor grows with this power of the
# information. Without estimates, all passes together can move a mean by at least FARTHEST_MEAN.
CLIP, CLIP_POWER, WHOLE_RANGE, FARTHEST_MEAN = 0.45, 0.33, 2.0, 0.5
# For a joint model: assumptions of a `Kind`. The curvature is rarely near its bound in all classes,
# so steps are longer; they do not diverge below 2.
SIGNAL, LEVEL_SIGNAL, MOST_STEP = 16.0, 8.0, 1.8

# The penalty on differences of neighbouring coefficients of a spline, in units of the domain's.
SMOOTH = 0.5


@dataclass(frozen=True)
class Kind:
    """A loss, and assumptions of the rules about the model.

    Attributes
    ----------
    is_regression : bool
        Whether the loss is the squared loss of a number, or the logistic loss of labels.
    curvature, usual : float
        Greatest and usual second derivative of the loss.
    score : float
        Mean squared derivative over mean curvature. For the squared loss this and the following
        values are in units of the target's variance.
    signal, level_signal : float
        Contributions of all numbers, and of all levels, to the variance of the predictor.
    intercept : float
        Prior variance of the intercept.
    step : float
        The usual length of steps in units of the inverse curvature.
    """

    is_regression: bool
    curvature: float
    usual: float
    score: float
    signal: float
    level_signal: float
    intercept: float
    step: float = 1.0


LOGISTIC = Kind(False, 0.25, 0.25, score=0.6, signal=0.6, level_signal=0.15, intercept=0.5)
SQUARED = Kind(True, 1.0, 1.0, score=0.5, signal=0.2, level_signal=0.1, intercept=5.0)


def joint_kind(slope: SoftmaxSlope) -> Kind:
    """Return the joint loss of several classes."""
    k, a = slope.n_classes, slope.normalizer
    step = min(k / 2, MOST_STEP)
    return Kind(False, a / 2, a * (1 - 1 / k) / k, 1 / a, SIGNAL, LEVEL_SIGNAL, 0.5, step)


def scaling_of(plan: DescentPlan, seen: FloatArray | None) -> Scaling:
    """Return the scaling from a stage's noisy sums, or that of the domain without a stage."""
    if plan.stage is None or seen is None:
        return plain_scaling(plan.task.blocks, plan.task.size, plan.rows)
    return plan.stage.scaling(seen, plan.stage_deviation, plan.rows)


def curvatures(blocks: Blocks, scaling: Scaling, kind: Kind) -> FloatArray:
    """Return bounds on the second derivatives of the summed loss; estimates after a stage."""
    weight = _mean_weight(blocks, scaling.rows) if scaling.is_estimated else 1.0
    return np.asarray(scaling.n * weight * kind.curvature * scaling.square)


def _mean_weight(blocks: Blocks, rows: RowBound) -> float:
    """Return the approximate mean weight of records whose numbers all have variance 1."""
    numbers = max(len(blocks.numbers), 1)
    if rows.bound is None:
        return min(1.0, rows.radius / math.sqrt(2 * math.log(2 * numbers + 1)))
    parts = rows.precision**rows.power
    # The mean of |x| is about .8 standard deviations.
    parts[blocks.number_places] *= (1 if rows.power == 2 else 0.8) / rows.radius**rows.power
    return min(1.0, float((rows.bound / parts.sum()) ** (1 / rows.power)))


def shrinkage(plan: DescentPlan, scaling: Scaling, kind: Kind, unit: FloatArray) -> FloatArray:
    """Return ridges that balance noise and sampling errors with the prior of each coefficient."""
    noise, usual = unit * plan.averaged, _usual_curvatures(plan, scaling, kind)
    errors = noise**2 + _score(kind, scaling) * usual
    return np.asarray(errors / (usual * _prior(plan, scaling, kind)))


def _usual_curvatures(plan: DescentPlan, scaling: Scaling, kind: Kind) -> FloatArray:
    blocks = plan.task.blocks
    square = scaling.square.copy()
    square[blocks.number_places] = 1 / _numbers_prior(blocks, scaling)
    if not scaling.is_estimated:
        sizes = np.array(blocks.sizes[blocks.first_levels :], dtype=int)
        square[blocks.number_places.stop :] = np.repeat(1 / sizes, sizes)
    return np.asarray(scaling.n * _mean_weight(blocks, scaling.rows) * kind.usual * square)


def _numbers_prior(blocks: Blocks, scaling: Scaling) -> float:
    """Return the variance of a number's coefficient that adds 1 to the predictor's variance."""
    return scaling.rows.radius**2 if scaling.is_estimated else 1 / usual_square(blocks)


def _score(kind: Kind, scaling: Scaling) -> float:
    return kind.score * _spread(kind, scaling)


def _spread(kind: Kind, scaling: Scaling) -> float:
    return scaling.target_deviation**2 if kind.is_regression else 1.0


def _prior(plan: DescentPlan, scaling: Scaling, kind: Kind) -> FloatArray:
    """Return the prior variances of the coefficients, (dim,)."""
    blocks = plan.task.blocks
    prior = np.full(blocks.dim, kind.level_signal / max(1, len(blocks.level_columns)))
    number = blocks.number_places
    prior[number] = kind.signal / max(1, len(blocks.numbers)) * _numbers_prior(blocks, scaling)
    prior[: blocks.intercept] = kind.intercept
    return prior * _spread(kind, scaling)


def thresholds(plan: DescentPlan, scaling: Scaling, kind: Kind, unit: FloatArray) -> FloatArray:
    """Return l1 penalties of about the error of a pass, or of the largest error of many columns.

    If a coefficient is 0, most passes end at 0, and so does their average.
    """
    sampling = _score(kind, scaling) * _usual_curvatures(plan, scaling, kind)
    highest = 2 * math.log(plan.task.blocks.dim + 1)
    found = np.sqrt((unit * plan.deviations) ** 2 + highest * sampling)
    found[: plan.task.blocks.intercept] = 0.0
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
    """Return the l1 and ridge penalties on the summed loss; ``alpha=None`` means "auto"."""
    share = {"none": 0.0, "auto": 0.0, "l1": 1.0, "l2": 0.0, "elasticnet": l1_ratio}[penalty]
    if penalty == "none":
        return np.zeros(plan.task.blocks.dim), np.zeros(plan.task.blocks.dim)
    if penalty == "auto" or alpha is None:
        l1, ridge = thresholds(plan, scaling, kind, unit), shrinkage(plan, scaling, kind, unit)
        return share * l1, (1 - share) * ridge
    scale = np.ones(plan.task.blocks.dim)
    scale[plan.task.blocks.number_places] = scaling.scale
    size = np.full(plan.task.blocks.dim, alpha * scaling.n)
    size[: plan.task.blocks.intercept] = 0.0
    return size * share / scale, size * (1 - share) / scale**2


def roughness(blocks: Blocks, scaling: Scaling, ridge: FloatArray) -> dict[int, FloatArray]:
    """Return matrices of penalties that replace the ridges of blocks of B-splines.

    They also penalise differences of neighbouring coefficients, by the harmonic mean of their
    ridges. A factor keeps the prior variance of the curve, averaged over the records.
    """
    found = {}
    for block, differences in blocks.differences.items():
        own, share = ridge[blocks.places[block]], scaling.square[blocks.places[block]]
        unit = float(own.max())
        inverse = unit / own
        edges = -SMOOTH * differences * 2 / np.add.outer(inverse, inverse)
        np.fill_diagonal(edges, 0.0)
        matrix = np.diag(1 / inverse + edges.sum(axis=1)) - edges
        kept = share @ np.linalg.inv(matrix).diagonal() / (share @ inverse)
        found[block] = unit * kept * matrix
    return found


def residual_bound(plan: DescentPlan, scaling: Scaling) -> float:
    """Return the clip radius of residuals, for targets in [-1, 1]."""
    deviations = CLIP * max(0.5, more(plan.task.information, CLIP_POWER))
    least = 0.0 if scaling.is_estimated else FARTHEST_MEAN / plan.task.passes
    return min(WHOLE_RANGE, max(least, deviations * scaling.target_deviation))
