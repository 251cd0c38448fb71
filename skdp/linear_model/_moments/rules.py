"""Automatic choices of the moment release, from public information only.

The origin of the constants: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdp.geometry import NormBall
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._moments.moments import (
    MOST_CROSS_NOISE,
    MomentPlan,
    ScaledMoments,
    columns_of,
    cross_noise,
)
from skdp.linear_model._moments.theorem import layout_of, mean_ball, moment_ball
from skdp.linear_model._shared.task import Task
from skdp.mechanisms import Sensitivity, calibrate
from skdp.mechanisms.calibrate import LAWS, Noise
from skdp.mechanisms.gaussian import EllipticGaussian
from skdp.mechanisms.knorm import EllipticKNorm, knorm_is_less
from skdp.mechanisms.matrix import MatrixLaplace
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_choice, fail
from skdp.trusted.identity import remembered
from skdp.trusted.noise import variances

# The effect of an error in x_i x_j on the normal equations, relative to one in x_i y: the squared
# length of the coefficients that can be distinguished from noise. It is SIGNAL if
# n epsilon / q^(3/2) is SIGNAL_AT, grows with the square root of that, and is kept in these bounds.
SIGNAL, SIGNAL_AT = 0.15, 150.0
LEAST_SIGNAL, MOST_SIGNAL = 0.05, 0.6
# The effect of an error in the mean of x_i, which centring multiplies.
CENTRE = 0.05
# The weight of a moment that is released but not used by the regression.
UNUSED = 1e-3
# With more noise than this in the mean of x_i x_j, in the units of the domain, a regression
# predicts worse than the mean of y.
MOST_NOISE = 0.13
# Columns are scaled unless one release in the units of the domain has at most this noise. Scaling
# takes time: if more than MUCH_WORK products are summed, unless it has more noise than WORTH_WORK.
LEAST_NOISE = 1e-5
MUCH_WORK, WORTH_WORK = 2e9, 2e-4
# The assumed n / q^(3/2) if no number of records is public.
USUAL_STRENGTH = 300.0

NAMES = ("auto", "l1", "l2", "linf", "hull", "matrix", "gaussian", "elliptic", *LAWS)


def check_mechanism(mechanism: Any) -> None:
    """Raise an error unless ``mechanism`` is a known name or can be calibrated."""
    if isinstance(mechanism, str):
        check_choice("mechanism", mechanism, NAMES)
    elif isinstance(mechanism, type) or not (
        isinstance(mechanism, NormBall) or hasattr(mechanism, "calibrate")
    ):
        remedy = "Or a norm ball, or an object with calibrate(sensitivity, *, epsilon, delta)."
        raise fail("mechanism", f"be one of {sorted(NAMES)}", mechanism, remedy)


def plan_moments(task: Task, mechanism: Any) -> MomentPlan:
    """Choose the moments, and calibrate their noise."""
    domain, intercept, n, known = task.design.domain, task.design.intercept, task.n, task.known
    # Other noises need a number of records for a choice, and a domain that is not a ball.
    free = isinstance(mechanism, str) and mechanism == "auto" and not domain.is_ball
    if free and intercept and domain.n_encoded and not _is_enough(task):
        return _scaled(task)
    ball = moment_ball(domain, task.neighbors)
    # Features of rows in a ball are small: their coefficients are large.
    signal = MOST_SIGNAL if domain.is_ball else usual_signal(ball.layout, known, task.epsilon)
    plan = MomentPlan(ball.layout, _noise(ball, mechanism, signal, task), n, _sensitivity(ball))
    if not free or known is None or feature_noise(plan) <= MOST_NOISE * known:
        return plan
    return _mean_alone(task)


def _is_enough(task: Task) -> bool:
    """Return whether one release in the units of the domain has hardly any noise.

    Then a second reading of the data gains nothing. With much data it is not worth its time.
    """
    if task.known is None:
        return False
    ball = moment_ball(task.design.domain, task.neighbors)
    noise = _noise(ball, "matrix", SIGNAL, task)
    plan = MomentPlan(ball.layout, noise, task.n, _sensitivity(ball))
    work = task.known * plan.layout.n_rows**2
    return feature_noise(plan) <= task.known * (WORTH_WORK if work > MUCH_WORK else LEAST_NOISE)


def _scaled(task: Task) -> MomentPlan:
    """Return the plan of moments of scaled columns, or of the mean alone with few records."""
    layout = replace(layout_of(task.design.domain), neighbors=task.neighbors)
    if task.known is None:
        return ScaledMoments.plan(task, USUAL_STRENGTH * task.epsilon)
    if cross_noise(task) > MOST_CROSS_NOISE:
        return _mean_alone(task)
    found = strength(layout, task.known, task.epsilon)
    return ScaledMoments.plan(task, found)


def _mean_alone(task: Task) -> MomentPlan:
    """Return the release of the mean of the target."""
    mean = mean_ball(task.neighbors)
    noise = calibrate("hull", _sensitivity(mean), epsilon=task.epsilon, delta=task.delta)
    return MomentPlan(mean.layout, noise, task.n, _sensitivity(mean))


def strength(layout: MomentLayout, n: float, epsilon: float) -> float:
    """Return n epsilon / q^(3/2). q is the number of columns that can differ from 0 at once."""
    return float(n * epsilon / columns_of(layout) ** 1.5 * (2 if layout.adds else 1))


def usual_signal(layout: MomentLayout, n: int | None, epsilon: float) -> float:
    """Return a public guess of |theta|^2, for coefficients that are distinguishable from noise."""
    if n is None:
        return SIGNAL
    usual = SIGNAL * math.sqrt(strength(layout, n, epsilon) / SIGNAL_AT)
    return min(max(usual, LEAST_SIGNAL), MOST_SIGNAL)


def importance(layout: MomentLayout, signal: float = SIGNAL, intercept: bool = True) -> FloatArray:
    """Return the weight of the squared error of each moment in a regression, (dim,)."""
    q = max(1, layout.n_encoded)
    kinds, (i, j) = layout.kinds, layout.pairs.T
    own = (i == j) & (i == layout.n_rows - 1)
    conditions = [own, kinds == "target", kinds == "product", kinds == "square"]
    # Each product is in two of the normal equations. Squares are released times 2.
    weights = np.select(conditions, [UNUSED, 1.0, 2 * signal / q, signal / (4 * q)], CENTRE)
    if not intercept:
        weights[i == 0] = UNUSED
    return weights


def feature_noise(plan: MomentPlan) -> float:
    """Return the standard deviation of the noise in a sum of x_i x_j, in the root mean square."""
    layout = plan.layout
    second = np.isin(layout.kinds, ("product", "square"))
    features = second & (layout.pairs[:, 1] < layout.n_rows - 1)
    if not features.any():
        features = layout.kinds == "linear"
    return float(np.sqrt(np.mean((variances(plan.noise) / layout.scale**2)[features])))


def _sensitivity(ball: Any) -> Sensitivity:
    return Sensitivity(ball, neighbors=ball.layout.neighbors)


def _noise(ball: Any, mechanism: Any, signal: float, task: Task) -> Noise:
    budget = {"epsilon": task.epsilon, "delta": task.delta}
    if isinstance(mechanism, str):
        return _named_noise(ball, mechanism, signal, task.design.intercept, **budget)
    noise: Noise = calibrate(mechanism, _sensitivity(ball), **budget)
    return noise


@remembered(maxsize=32)
def _named_noise(
    ball: Any, mechanism: str, signal: float, intercept: bool, epsilon: float, delta: float
) -> Noise:
    """Return the noise of a mechanism; for "auto" that of least expected error."""
    weights, sensitivity = importance(ball.layout, signal, intercept), _sensitivity(ball)
    named: dict[str, Any] = {
        "matrix": MatrixLaplace(weights),
        "elliptic": EllipticGaussian(weights),
    }
    candidates = [named.get(mechanism, mechanism)]
    if mechanism == "auto":
        candidates = [named["matrix"]]
        if delta > 0:
            # Both use the same ellipsoid: which one has less variance is known before calibration.
            less = knorm_is_less(ball.dim, epsilon, delta)
            candidates.append(EllipticKNorm(weights) if less else named["elliptic"])
    noises: list[Noise] = [
        calibrate(c, sensitivity, epsilon=epsilon, delta=delta) for c in candidates
    ]
    if len(noises) == 1:
        return noises[0]
    return min(noises, key=lambda noise: float(weights @ variances(noise)))
