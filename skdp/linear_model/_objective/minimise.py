"""Minimise a perturbed objective and prove a bound on its gradient.

The search minimises over nested samples of rows; each sample is STRIDE times as large as the one
before. On each sample L-BFGS starts from the factored Hessian of the previous sample. A new Hessian
is computed if that costs less than the steps it saves, so small and hard problems are solved by
Newton's method. So are rows that each pass reads from files: the pass returns the Hessian, too. The
search uses plain arithmetic until the gradient should be small enough; then
:func:`certified_gradient` bounds it.

Convergence from every start: a step theta + alpha p along a descent direction is taken if
-0.9 <= phi'(alpha) / |phi'(0)| <= 0.9, where phi' is the directional derivative (function values
have too few digits near the minimum). After PATIENCE steps the upper bound is 0. Then J decreases
by at least |change of the gradient|^2 / (2 L), since gradients of convex L-smooth functions are
co-coercive, and the change is at least 0.1 |phi'(0)| / |p|. This is Zoutendijk's condition, by
which the gradient converges to zero.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from skdp.linear_model._objective.certificate import UNIT, certified_gradient
from skdp.linear_model._objective.problem import Hessian, Objective, euclidean, pairs_of
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_positive

STRIDE = 16
MOST_SAMPLE = 2**14  # rows, or a multiple of the columns
THINNING = 5  # the Hessian of the next sample is estimated from one row out of so many
MEMORY = 10
PATIENCE = 50  # steps before the step rule becomes strict
NOISE_PATIENCE = 30  # steps without progress if the gradient may consist of rounding errors
MAX_STEPS, MAX_TRIALS, MAX_POLISH = 1000, 100, 30


class NotCertified(RuntimeError):
    """No point was found whose gradient is proven to be within the tolerance."""


@dataclass(frozen=True)
class CertifiedPoint:
    """A point (d,) and a proven bound on |grad J|_2 there."""

    theta: FloatArray
    gradient_norm: float


def minimise(objective: Objective, tolerance: float) -> CertifiedPoint:
    """Return a point where |grad J|_2 is proven to be at most ``tolerance``.

    The tolerance is chosen before the data are seen; see `certificate.attainable_tolerance`. If no
    such point is found, `NotCertified` is raised, and nothing may be released.
    """
    tolerance = check_positive("tolerance", tolerance)
    # Trial points may overflow; they are rejected by their gradient.
    with np.errstate(all="ignore"):
        theta, metric = _start(objective)
        theta = _descend(objective, theta, metric, tolerance / 2)
        best, at, value, alpha, local = math.inf, theta, theta, 1.0, False
        for _ in range(MAX_POLISH):  # Newton steps on the certified gradient
            gradient = certified_gradient(objective, theta, local=local)
            if gradient.norm <= tolerance:
                return CertifiedPoint(theta, gradient.norm)
            size = euclidean(gradient.value)
            # Whether the bound is too wide.
            if gradient.error > tolerance + 2 * UNIT * size or size <= tolerance / 2:
                if local:
                    break
                local = True
                continue
            better = size < best
            if best < math.inf and size < 0.5 * best:
                metric.learn(theta - at, gradient.value - value)
            elif not size < 0.5 * best:
                metric.use(objective.hessian(theta if better else at))
            if better:
                at, value, best, alpha = theta, gradient.value, size, 1.0
            theta = at - alpha * metric.solve(value)
            alpha *= 0.25
    raise NotCertified(
        f"No point was found with a gradient certified to be at most {tolerance:g}. "
        "The noise was drawn, and nothing was released. Pass a larger tolerance or regularization."
    )


def _start(objective: Objective) -> tuple[FloatArray, _Metric]:
    """Return the minimiser over a sample, to the precision of the sample, and a metric."""
    n, d = objective.n, objective.dim
    stride = max(STRIDE, n // max(MOST_SAMPLE, 100 * d))
    sample = objective.subsample(stride) if n // STRIDE >= max(20 * d, 256) else None
    if sample is None:
        return np.zeros(d), _Metric(objective, np.zeros(d))
    theta, metric = _start(sample)
    noise = 0.03 * objective.loss.slope_bound * objective.design.row_norm * math.sqrt(sample.n)
    theta = _descend(sample, theta, metric, noise)
    again = objective.rows.is_read_again  # then a reading costs more than a better metric saves
    second = sample.hessian(theta) if again else objective.hessian(theta, THINNING)
    metric.use(second, sample.n / n if again else 1 / THINNING)
    return theta, metric


class _Metric:
    """The inverse Hessian of L-BFGS: a Cholesky factor and the steps since it was computed."""

    def __init__(self, objective: Objective, theta: FloatArray) -> None:
        self.pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)
        n_models = objective.n_models
        # Whether products of different classes are part of the Hessian.
        self.is_whole = n_models == 1 or len(pairs_of(objective.design, n_models)) > n_models
        self.use(objective.hessian(theta))

    def use(self, hessian: Hessian, unit: float = 1.0) -> None:
        """Take a new Hessian, divided by its ``unit``, and delete the steps."""
        self.pairs.clear()
        self.unit = unit
        self.core, matrices, self.diagonal = hessian
        # A unit diagonal allows ridges of 1e-6 and of 1e12 in one matrix.
        self.scale = 1 / np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
        matrices *= self.scale[:, :, None] * self.scale[:, None]
        self.factors = [_factor(matrix) for matrix in matrices if len(matrix)]

    def learn(self, step: FloatArray, change: FloatArray) -> None:
        curvature = float(step @ change)
        if curvature > 0:
            self.pairs.append((step, change, curvature))

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Return an approximation of H^-1 gradient, by the two loops of L-BFGS."""
        q, parts = gradient, []
        for step, change, curvature in reversed(self.pairs):
            part = step @ q / curvature
            q = q - part * change
            parts.append(part)
        own = self.scale * q[self.core]
        q = q / self.diagonal
        for k, factor in enumerate(self.factors):
            q[self.core[k]] = self.scale[k] * dpotrs(factor, own[k], lower=1)[0]
        q *= self.unit
        for (step, change, curvature), part in zip(self.pairs, reversed(parts), strict=True):
            q = q + (part - change @ q / curvature) * step
        return np.asarray(q)


def _factor(matrix: FloatArray) -> FloatArray:
    """Return the Cholesky factor of a matrix with unit diagonal, made definite if necessary."""
    for excess in (0.0, 1e-14, 1e-11, 1e-8):
        matrix.flat[:: len(matrix) + 1] = 1 + excess * len(matrix)
        factor, failed = dpotrf(matrix, lower=1, clean=0)
        if not failed:
            return np.asarray(factor)
    return np.eye(len(matrix))


def _descend(objective: Objective, theta: FloatArray, metric: _Metric, target: float) -> FloatArray:
    """Step until the gradient, in plain arithmetic, is expected to be at most ``target``."""
    # Where a pass is slow, each one returns the Hessian, too.
    renewed = objective.rows.is_read_again and metric.is_whole

    def evaluate(theta: FloatArray) -> FloatArray:
        if not renewed:
            return objective.gradient(theta)
        gradient, hessian = objective.derivatives(theta)
        metric.use(hessian)
        return gradient

    gradient, fresh = evaluate(theta), False
    size, before, best, best_step = euclidean(gradient), 0.0, math.inf, 0
    for steps in range(MAX_STEPS):
        is_stuck = steps - best_step > NOISE_PATIENCE and size < objective.noise(theta)
        if not size > target or is_stuck:
            return theta
        direction = -metric.solve(gradient)
        # Convergence is superlinear, and quadratic with the Hessian at each point. After a step
        # that should be the last, the caller checks the gradient.
        ratio = size / before if before else math.inf
        if size * ratio ** (2 if renewed else 1) < target:
            return theta + direction
        found = _search(evaluate, theta, gradient, direction, 0.9 if steps < PATIENCE else 0.0)
        if found is None and (fresh or renewed):
            return theta
        if found is not None:
            metric.learn(found[0] - theta, found[1] - gradient)
            theta, gradient = found
        size, before = euclidean(gradient), size
        if size < 0.5 * best:
            best, best_step = size, steps
        # Compare the steps left at this pace with a Hessian (about d / 16 steps) and five steps.
        # Without products of different classes a new Hessian would not make the steps faster.
        left, pace = np.log(np.divide([size, before], [target, size]))
        is_slow = not left < pace * (5 + len(theta) / 16)
        fresh = not renewed and is_slow and (metric.is_whole or found is None)
        if fresh:
            metric.use(objective.hessian(theta))
    return theta


def _search(
    evaluate: Callable[[FloatArray], FloatArray],
    theta: FloatArray,
    gradient: FloatArray,
    direction: FloatArray,
    upper: float,
) -> tuple[FloatArray, FloatArray] | None:
    """Return a point on the ray at which the slope is within its bounds, and its gradient."""
    start = -float(gradient @ direction)
    if not start > 0:
        return None
    low, low_slope, high, high_slope = 0.0, -1.0, math.inf, math.inf
    alpha, run = 1.0, 0
    for trial in range(MAX_TRIALS):
        point = theta + alpha * direction
        there = evaluate(point)
        slope = float(there @ direction) / start
        if -0.9 <= slope <= upper:
            return point, there
        # Consecutive misses on one side are followed by larger moves to the other.
        if slope < 0:
            low, low_slope, run = alpha, slope, max(run, 0) + 1
        else:  # NaN counts as infinite
            high, high_slope, run = alpha, slope if slope < math.inf else math.inf, min(run, 0) - 1
        if high == math.inf:
            alpha *= 4.0**run
            continue
        # Every other trial bisects, because the slope may jump.
        share = 0.5 if trial % 2 else low_slope / (low_slope - high_slope)
        share = min(0.9, max(0.1, share))  # in this order: NaN becomes 0.1
        bold = 0.5 ** abs(run)
        share = max(share, 1 - bold) if run > 1 else min(share, bold) if run < -1 else share
        alpha = low + (high - low) * share
    return None
