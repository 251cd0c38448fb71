"""The automatic choices of a coordinate descent that come after the first look.

Frame, steps, penalties and clips use public things and what the look released. None of them is
part of the privacy proof, which holds for all. Where the constants come from:
``docs/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._descent.first_look import Frame, Rows, plain_frame, usual_square
from skdp.linear_model._descent.plan import DescentPlan, more, plan_descent
from skdp.linear_model._descent.slots import Slots

__all__ = [
    "LOGISTIC",
    "SQUARED",
    "Kind",
    "curvatures",
    "frame_of",
    "penalties",
    "plan_descent",
    "residual_bound",
]


# Residuals are clipped at so many deviations of the target, or more with more information. Where
# nothing was looked at, all passes together can go this way from the middle of the domain.
CLIP, CLIP_POWER, WHOLE_RANGE, FARTHEST_MEAN = 0.45, 0.33, 2.0, 0.5


@dataclass(frozen=True)
class Kind:
    """A loss, with what the rules take for granted about the model.

    Attributes
    ----------
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

    curvature: float
    score: float
    signal: float
    level_signal: float
    intercept: float


LOGISTIC = Kind(curvature=0.25, score=0.6, signal=0.6, level_signal=0.15, intercept=0.5)
SQUARED = Kind(curvature=1.0, score=0.5, signal=0.2, level_signal=0.1, intercept=5.0)


def frame_of(plan: DescentPlan, seen: FloatArray | None) -> Frame:
    """Return the frame that a look's noisy sums give, or without one the domain's."""
    if plan.look is None or seen is None:
        return plain_frame(plan.slots, plan.n, plan.rows)
    return plan.look.frame(seen, plan.ratio * math.sqrt(plan.noise.var()), plan.rows)


def curvatures(slots: Slots, frame: Frame, kind: Kind) -> FloatArray:
    """Return bounds, or after a look estimates, of the summed loss's second derivatives."""
    weight = _mean_weight(slots, frame.rows) if frame.looked else 1.0
    return np.asarray(frame.n * weight * kind.curvature * frame.square)


def _mean_weight(slots: Slots, rows: Rows) -> float:
    """Return about how much a record counts whose numbers all have the variance 1."""
    numbers = max(len(slots.numbers), 1)
    if rows.bound is None:
        return min(1.0, rows.reach / math.sqrt(2 * math.log(2 * numbers + 1)))
    parts = rows.loudness**rows.power
    # The mean of |x| is about .8 deviations.
    parts[slots.number_places] *= (1 if rows.power == 2 else 0.8) / rows.reach**rows.power
    return min(1.0, float((rows.bound / parts.sum()) ** (1 / rows.power)))


def shrinkage(plan: DescentPlan, frame: Frame, kind: Kind, unit: FloatArray) -> FloatArray:
    """Return ridges that weigh noise and sampling errors against the prior of each coefficient."""
    noise, usual = unit * plan.averaged, _usual_curvatures(plan, frame, kind)
    errors = noise**2 + _score(kind, frame) * usual
    return np.asarray(errors / (usual * _prior(plan, frame, kind)))


def _usual_curvatures(plan: DescentPlan, frame: Frame, kind: Kind) -> FloatArray:
    slots = plan.slots
    square = frame.square.copy()
    square[slots.number_places] = 1 / _numbers_prior(slots, frame)
    if not frame.looked:
        sizes = np.array(slots.sizes[slots.first_block :], dtype=int)
        square[slots.number_places.stop :] = np.repeat(1 / sizes, sizes)
    return np.asarray(frame.n * _mean_weight(slots, frame.rows) * kind.curvature * square)


def _numbers_prior(slots: Slots, frame: Frame) -> float:
    """Return the variance of a number's coefficient that adds 1 to that of the predictor."""
    return frame.rows.reach**2 if frame.looked else 1 / usual_square(slots)


def _score(kind: Kind, frame: Frame) -> float:
    return kind.score * _spread(kind, frame)


def _spread(kind: Kind, frame: Frame) -> float:
    return frame.target_deviation**2 if kind is SQUARED else 1.0


def _prior(plan: DescentPlan, frame: Frame, kind: Kind) -> FloatArray:
    """Return the prior variances of the coefficients, (dim,)."""
    slots = plan.slots
    prior = np.full(slots.dim, kind.level_signal / max(1, len(slots.blocks)))
    number = slots.number_places
    prior[number] = kind.signal / max(1, len(slots.numbers)) * _numbers_prior(slots, frame)
    prior[: slots.intercept] = kind.intercept
    return prior * _spread(kind, frame)


def thresholds(plan: DescentPlan, frame: Frame, kind: Kind, unit: FloatArray) -> FloatArray:
    """Return l1 penalties about as large as the errors of a pass, or of the best of many columns.

    Where there is nothing, most passes end at 0, and so does their average.
    """
    sampling = _score(kind, frame) * _usual_curvatures(plan, frame, kind)
    highest = 2 * math.log(plan.slots.dim + 1)
    found = np.sqrt((unit * plan.deviations) ** 2 + highest * sampling)
    found[: plan.slots.intercept] = 0.0
    return np.asarray(found)


def penalties(
    plan: DescentPlan,
    frame: Frame,
    kind: Kind,
    unit: FloatArray,
    penalty: str,
    alpha: float | None,
    l1_ratio: float,
) -> tuple[FloatArray, FloatArray]:
    """Return l1 and ridge of each coordinate, in units of the summed loss; alpha None is auto."""
    share = {"none": 0.0, "auto": 0.0, "l1": 1.0, "l2": 0.0, "elasticnet": l1_ratio}[penalty]
    if penalty == "none":
        return np.zeros(plan.slots.dim), np.zeros(plan.slots.dim)
    if penalty == "auto" or alpha is None:
        l1, ridge = (
            thresholds(plan, frame, kind, unit),
            shrinkage(plan, frame, kind, unit),
        )
        return share * l1, (1 - share) * ridge
    scale = np.ones(plan.slots.dim)
    scale[plan.slots.number_places] = frame.scale
    size = np.full(plan.slots.dim, alpha * frame.n)
    size[: plan.slots.intercept] = 0.0
    return size * share / scale, size * (1 - share) / scale**2


def residual_bound(plan: DescentPlan, frame: Frame) -> float:
    """Return where residuals are clipped, of targets in [-1, 1]."""
    deviations = CLIP * max(0.5, more(plan.information, CLIP_POWER))
    least = 0.0 if frame.looked else FARTHEST_MEAN / plan.n_passes
    return min(WHOLE_RANGE, max(least, deviations * frame.target_deviation))
