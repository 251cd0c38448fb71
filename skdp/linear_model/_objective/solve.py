"""Minimise a perturbed objective and prove a bound on its gradient where the search stopped.

The search climbs a ladder of row samples, each STRIDE times the one before. On each rung L-BFGS
runs with the factored Hessian of the rung below in place of a multiple of the identity. Where
another Hessian costs less than the steps it would save, it is taken: small and hard problems are
solved by Newton's method. Plain arithmetic serves until the gradient should be small enough; then
:func:`certified_gradient` decides.

Why it arrives from anywhere: a step theta + alpha p along a descent direction is taken if
-0.9 <= phi'(alpha) / |phi'(0)| <= 0.9, phi' being the directional derivative (function values
have too few digits near the minimum). After PATIENCE steps the upper bound is 0. Then J falls by
at least |change of the gradient|^2 / (2 L), since gradients of convex L-smooth functions are
co-coercive, and the change is at least 0.1 |phi'(0)| / |p|: Zoutendijk's condition, by which the
gradient goes to zero.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from skdp._arrays import FloatArray
from skdp._checks import check_positive
from skdp.linear_model._objective.certificate import UNIT, attainable_tolerance, certified_gradient
from skdp.linear_model._objective.problem import Objective, euclidean

__all__ = ["NotCertified", "Objective", "Solution", "attainable_tolerance", "minimise"]

STRIDE = 16
MEMORY = 10
PATIENCE = 50  # steps until the step rule turns strict
NOISE_PATIENCE = 30  # steps without progress where the gradient may be rounding noise
MAX_STEPS, MAX_TRIALS, MAX_POLISH = 1000, 100, 30


class NotCertified(RuntimeError):
    """No point was found whose gradient is proven to be within the tolerance."""


@dataclass(frozen=True)
class Solution:
    """A point (d,), a proven bound on |grad J|_2 there, and the number of steps on all rows."""

    theta: FloatArray
    gradient_norm: float
    n_iter: int


def minimise(objective: Objective, tolerance: float) -> Solution:
    """Return a point where |grad J|_2 is proven to be at most ``tolerance``.

    Parameters
    ----------
    objective : Objective
    tolerance : float in (0, inf)
        Fixed before the data are seen; see :func:`attainable_tolerance`.

    Raises
    ------
    NotCertified
        If there is no such point within reach. Nothing may be released then.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model.losses import Logistic
    >>> design, target = np.ones((4, 1)), np.array([0.0, 1.0, 1.0, 1.0])
    >>> ridge, linear_term = np.array([1e-9]), np.array([0.0])
    >>> J = Objective(Logistic(), design, target, ridge, linear_term, row_norm=1.0)
    >>> minimise(J, tolerance=1e-12).theta.round(6)  # log 3
    array([1.098612])
    """
    tolerance = check_positive("tolerance", tolerance)
    # Trial points may be absurd and are refused by their gradient.
    with np.errstate(all="ignore"):
        theta, metric = _start(objective)
        theta, steps = _descend(objective, theta, metric, tolerance / 2)
        return _polish(objective, theta, metric, tolerance, steps)


def _start(objective: Objective) -> tuple[FloatArray, _Metric]:
    """Return the minimiser over a sample of rows, to the sample's own precision, and a metric."""
    n, d = objective.design.shape
    if n // STRIDE < max(20 * d, 256):
        return np.zeros(d), _Metric(objective, np.zeros(d))
    sample = objective.subsample(STRIDE)
    theta, metric = _start(sample)
    noise = 0.03 * objective.loss.slope_bound * objective.row_norm * math.sqrt(n / STRIDE)
    theta, _ = _descend(sample, theta, metric, noise)
    metric.refresh(sample, theta)
    metric.unit = 1.0 / STRIDE
    return theta, metric


class _Metric:
    """The inverse Hessian as L-BFGS knows it: a Cholesky factor and the steps taken since."""

    def __init__(self, objective: Objective, theta: FloatArray) -> None:
        self.pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)
        self.refresh(objective, theta)

    def refresh(self, objective: Objective, theta: FloatArray) -> None:
        """Take the Hessian at theta and forget the steps."""
        self.pairs.clear()
        self.unit = 1.0
        hessian = objective.hessian(theta)
        # With a unit diagonal, ridges of 1e-6 and of 1e12 live together.
        self.scale = 1 / np.sqrt(hessian.diagonal())
        hessian *= np.outer(self.scale, self.scale)
        self.factor = _factor(hessian)

    def learn(self, step: FloatArray, change: FloatArray) -> None:
        """Remember what a step did to the gradient."""
        curvature = float(step @ change)
        if curvature > 0:
            self.pairs.append((step, change, curvature))

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Return about H^-1 gradient, by the two loops of L-BFGS."""
        q, parts = gradient, []
        for step, change, curvature in reversed(self.pairs):
            part = step @ q / curvature
            q = q - part * change
            parts.append(part)
        q = self.scale * self.unit * cho_solve(self.factor, self.scale * q, check_finite=False)
        for (step, change, curvature), part in zip(self.pairs, reversed(parts), strict=True):
            q = q + (part - change @ q / curvature) * step
        return np.asarray(q)


def _factor(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return the Cholesky factor of a matrix with unit diagonal, made definite if it is not."""
    for excess in (0.0, 1e-14, 1e-11, 1e-8):
        matrix[np.diag_indices_from(matrix)] = 1 + excess * len(matrix)
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            continue
    return np.eye(len(matrix)), True


def _descend(
    objective: Objective, theta: FloatArray, metric: _Metric, target: float
) -> tuple[FloatArray, int]:
    """Step until the gradient, in plain arithmetic, is or is about to be at most ``target``."""
    gradient, fresh = objective.gradient(theta), False
    size, before, best, best_step = euclidean(gradient), 0.0, math.inf, 0
    for steps in range(MAX_STEPS):
        patience = NOISE_PATIENCE if size < objective.noise(theta) else MAX_STEPS
        if not size > target or steps - best_step > patience:
            return theta, steps
        direction = -metric.solve(gradient)
        # Convergence is faster than linear: a step this good leaves the check to the caller.
        if size * size < before * target:
            return theta + direction, steps + 1
        found = _search(objective, theta, gradient, direction, 0.9 if steps < PATIENCE else 0.0)
        if found is None and fresh:
            return theta, steps
        if found is not None:
            metric.learn(found[0] - theta, found[1] - gradient)
            theta, gradient = found
        size, before = euclidean(gradient), size
        if size < 0.5 * best:
            best, best_step = size, steps
        # Steps left at this pace, against a Hessian (which costs about d / 16 steps) and three.
        left, pace = np.log(np.divide([size, before], [target, size]))
        fresh = not left < pace * (3 + len(theta) / 16)
        if fresh:
            metric.refresh(objective, theta)
    return theta, MAX_STEPS


def _search(
    objective: Objective,
    theta: FloatArray,
    gradient: FloatArray,
    direction: FloatArray,
    upper: float,
) -> tuple[FloatArray, FloatArray] | None:
    """Return a point on the ray, and its gradient, where the slope is within its bounds."""
    start = -float(gradient @ direction)
    if not start > 0:
        return None
    low, low_slope, high, high_slope = 0.0, -1.0, math.inf, math.inf
    alpha, run = 1.0, 0
    for trial in range(MAX_TRIALS):
        point = theta + alpha * direction
        there = objective.gradient(point)
        slope = float(there @ direction) / start
        if -0.9 <= slope <= upper:
            return point, there
        # Each further miss on one side is answered by a bolder move to the other.
        if slope < 0:
            low, low_slope, run = alpha, slope, max(run, 0) + 1
        else:  # beyond every bound if not a number
            high, high_slope, run = alpha, slope if slope < math.inf else math.inf, min(run, 0) - 1
        if high == math.inf:
            alpha *= 4.0**run
            continue
        # Every other point halves: between two bends the slope may jump.
        share = 0.5 if trial % 2 else low_slope / (low_slope - high_slope)
        share = min(0.9, max(0.1, share))  # in this order: what is not a number becomes 0.1
        bold = 0.5 ** abs(run)
        share = max(share, 1 - bold) if run > 1 else min(share, bold) if run < -1 else share
        alpha = low + (high - low) * share
    return None


def _polish(
    objective: Objective, theta: FloatArray, metric: _Metric, tolerance: float, steps: int
) -> Solution:
    """Certify theta, after Newton steps on the certified gradient if need be."""
    best, at, value, alpha, local = math.inf, theta, theta, 1.0, False
    for trial in range(MAX_POLISH):
        found = certified_gradient(objective, theta, local=local)
        if found.norm <= tolerance:
            return Solution(theta, found.norm, steps + trial)
        size = euclidean(found.value)
        if found.error > tolerance + 2 * UNIT * size or size <= tolerance / 2:  # the bound's fault
            if local:
                break
            local = True
            continue
        better = size < best
        if not size < 0.5 * best:
            metric.refresh(objective, theta if better else at)
        if better:
            at, value, best, alpha = theta, found.value, size, 1.0
        theta = at - alpha * metric.solve(value)
        alpha *= 0.25
    raise NotCertified(
        f"No point was found with a gradient certified to be at most {tolerance:g}. "
        "The noise was drawn, and nothing was released. Declare a larger tolerance or ridge."
    )
