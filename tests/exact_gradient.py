"""The gradient of an objective in 120-digit arithmetic: the second truth for the certificate."""

from __future__ import annotations

from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from skdp.linear_model._objective.problem import Objective
from skdp.linear_model.losses import Logistic, Loss, PseudoHuber, SharpLogistic

FloatArray = NDArray[np.float64]
LOSSES: list[Loss] = [Logistic(), SharpLogistic(), SharpLogistic(0.95), PseudoHuber(0.3)]


def exact_slope(loss: Loss, z: Any, y: float) -> Any:
    one = mpmath.mpf(1)
    if isinstance(loss, Logistic):
        return one / (1 + mpmath.exp(-z)) - y
    if isinstance(loss, PseudoHuber):
        c, r = mpmath.mpf(loss.threshold), z - y
        return c * r / mpmath.sqrt(c * c + r * r)
    assert isinstance(loss, SharpLogistic)
    m = mpmath.mpf(loss.middle)
    k, t = m / (2 * (1 - m)), z if y == 0 else -z
    size = (1 - (1 - m) * mpmath.exp(-k * abs(t))) * mpmath.exp(min(t, 0))
    return size if y == 0 else -size


def exact_gradient(objective: Objective, theta: FloatArray) -> list[Any]:
    weight = np.ones(len(objective.target)) if objective.weight is None else objective.weight
    with mpmath.workdps(120):
        point = [mpmath.mpf(t) for t in theta.tolist()]
        regular = zip(objective.ridge.tolist(), point, objective.linear_term.tolist(), strict=True)
        total = [mpmath.mpf(r) * t + mpmath.mpf(v) for r, t, v in regular]
        for x, y, w in zip(
            objective.design.tolist(), objective.target.tolist(), weight.tolist(), strict=True
        ):
            z = mpmath.fdot(x, point)
            slope = mpmath.mpf(w) * exact_slope(objective.loss, z, y)
            total = [g + slope * mpmath.mpf(entry) for g, entry in zip(total, x, strict=True)]
        return total


def distance(exact: list[Any], value: FloatArray | None = None) -> Any:
    """Return |exact - value|_2."""
    values = [0.0] * len(exact) if value is None else value.tolist()
    with mpmath.workdps(120):
        return mpmath.norm([e - mpmath.mpf(v) for e, v in zip(exact, values, strict=True)])


def problem(
    n: int,
    d: int,
    loss: Loss,
    *,
    seed: int = 0,
    ridge: float | FloatArray = 1.0,
    linear_term: float = 1.0,
    weighted: bool = False,
) -> Objective:
    """Return random rows in the unit box with an intercept, and targets that follow them."""
    rng = np.random.default_rng(seed)
    design = rng.uniform(-1, 1, (n, d))
    design[:, 0] = 1.0
    z = design @ rng.normal(size=d)
    target = (rng.uniform(size=n) < 1 / (1 + np.exp(-z))).astype(float)
    if isinstance(loss, PseudoHuber):
        target = np.clip(z + 0.1 * rng.standard_cauchy(n), -5, 5)
    weight = rng.uniform(size=n) if weighted else None
    ridges = np.full(d, ridge) if isinstance(ridge, float) else ridge
    return Objective(
        loss, design, target, ridges, linear_term * rng.normal(size=d), np.sqrt(d), weight
    )
