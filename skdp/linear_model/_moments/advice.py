"""Automatic choices of the moment release, from public information only: its plans.

Bounds that hold for all records are wide, and most records lie close together. So there is one
release in the units of the domain only if it has hardly any noise, or if a mechanism is given by
name. Otherwise a *scaling stage* spends a part of epsilon on means and mean squares. Centres and
scales are computed from it, and two releases follow. The *moments* release has all moments of the
rows z = (1, (x - centre) / scale). A row with z'Lz > bound is shrunk to z'Lz = bound. The *cross*
release has the sums of the residuals of a regression on these moments, and of their products with
the features. Each number is clipped to a box around its centre. Each record is mapped by itself, so
that one record changes both by a bounded amount. With very few records only the mean of the target
is released.

Statement and proof: ``docs/proofs/moment_release.md``. The origin of the constants:
``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.geometry import LpBall, NormBall, SquaresBall, SumBall
from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.linear_model._moments.theorem import (
    FirstChange,
    cross_change,
    cross_parts,
    first_sums,
    greatest_square,
    layout_of,
    mean_ball,
    moment_ball,
)
from skdp.linear_model._shared.gram import ColumnSums, exact_moments, exact_sums
from skdp.linear_model._shared.scaling import REPLACED_WEIGHT, ScalingStage
from skdp.linear_model._shared.task import Task
from skdp.mechanisms import (
    GaussianNoise,
    KNorm,
    KNormNoise,
    MatrixLaplaceNoise,
    Sensitivity,
    calibrate,
)
from skdp.mechanisms.calibrate import LAWS, Mechanism, Noise
from skdp.mechanisms.knorm import EllipticGaussian, EllipticKNorm, gaussian_scale, knorm_is_less
from skdp.mechanisms.matrix import MatrixLaplace
from skdp.noise.matrix import MatrixGaussianNoise, MatrixNoise, RowsWithin
from skdp.rows import Rows
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.checks import remembered
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

Ball = MomentBall | RadialMomentBall
NAMES = ("auto", "l1", "l2", "linf", "hull", "matrix", "gaussian", "elliptic", *LAWS)


@dataclass(frozen=True, eq=False)
class MomentPlan:
    """A release of moments in one stage.

    The ``layout`` has no features if only the target's mean is released. The number ``n`` of
    records is None if it is private. One record changes the moments by an element of ``change``.
    """

    layout: MomentLayout
    noise: Noise
    n: int | None
    change: Sensitivity | RowsWithin

    @cached_property
    def releases(self) -> tuple[NoisySum, ...]:
        return (NoisySum("moments", self.change, self.noise, "moment_release.md, Theorem 1"),)

    def sums(self, rows: Rows) -> NDArray[Any]:
        """Return the exact sums of the first reading of the records, in units of 2^-40."""
        # A layout of two columns has only the target's mean.
        return exact_moments(rows, self.layout, features=self.layout.n_rows > 2)


def plan_moments(task: Task, mechanism: str | NormBall | Mechanism[Noise]) -> MomentPlan:
    """Choose the moments, and calibrate their noise."""
    domain, known = task.design.domain, task.n_assumed
    ball = moment_ball(domain, task.neighbors)
    # Other noises need a number of records for a choice, and a domain that is not a ball.
    free = isinstance(mechanism, str) and mechanism == "auto" and not domain.is_ball
    mean = mean_ball(task.neighbors)
    if free and task.design.intercept and domain.n_encoded:
        layout = replace(layout_of(domain), neighbors=task.neighbors)
        if known is None:
            return ScaledMoments.plan(task, USUAL_STRENGTH * task.epsilon)
        # Further readings of the data gain nothing, or with much data are not worth their time.
        work = known * ball.layout.n_rows**2
        little = known * (WORTH_WORK if work > MUCH_WORK else LEAST_NOISE)
        if feature_noise(_in_one_stage(task, ball, "matrix", SIGNAL)) > little:
            if cross_noise(task, layout, known) > MOST_CROSS_NOISE:
                return _in_one_stage(task, mean, "hull", SIGNAL)
            return ScaledMoments.plan(task, strength(layout, known, task.epsilon))
    # Features of rows in a ball are small: their coefficients are large.
    signal = MOST_SIGNAL if domain.is_ball else SIGNAL
    if known is not None and not domain.is_ball:
        usual = SIGNAL * math.sqrt(strength(ball.layout, known, task.epsilon) / SIGNAL_AT)
        signal = min(max(usual, LEAST_SIGNAL), MOST_SIGNAL)
    plan = _in_one_stage(task, ball, mechanism, signal)
    if not free or known is None or feature_noise(plan) <= MOST_NOISE * known:
        return plan
    return _in_one_stage(task, mean, "hull", SIGNAL)


def _in_one_stage(
    task: Task, ball: Ball, mechanism: str | NormBall | Mechanism[Noise], signal: float
) -> MomentPlan:
    change = Sensitivity(ball, neighbors=ball.layout.neighbors)
    if isinstance(mechanism, str):
        facts = signal, task.design.intercept, task.epsilon, task.delta
        return MomentPlan(ball.layout, named_noise(ball, mechanism, *facts), task.n, change)
    noise = calibrate(mechanism, change, epsilon=task.epsilon, delta=task.delta)
    return MomentPlan(ball.layout, noise, task.n, change)


def strength(layout: MomentLayout, n: float, epsilon: float) -> float:
    """Return n epsilon / q^(3/2). q is the number of columns that can differ from 0 at once."""
    return float(n * epsilon / columns_of(layout) ** 1.5 * (2 if layout.adds else 1))


def columns_of(layout: MomentLayout) -> float:
    """Return the number of feature columns that can differ from 0 at once."""
    return max(1.0, layout.row_square(np.ones(layout.n_rows)) - 2)


def importance(layout: MomentLayout, signal: float, intercept: bool = True) -> FloatArray:
    """Return the weight of the squared error of each moment in a regression, (dim,)."""
    q = max(1, layout.n_encoded)
    kinds, (i, j) = layout.kinds, layout.pairs.T
    of_target = (i == j) & (i == layout.n_rows - 1)
    conditions = [of_target, kinds == "target", kinds == "product", kinds == "square"]
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


@remembered(maxsize=32)
def named_noise(
    ball: Ball, mechanism: str, signal: float, intercept: bool, epsilon: float, delta: float
) -> Noise:
    """Return the noise of a mechanism; for "auto" that of least expected error."""
    weights = importance(ball.layout, signal, intercept)
    matrix, elliptic = MatrixLaplace(weights), EllipticGaussian(weights)
    named: dict[str, Mechanism[Noise]] = {"matrix": matrix, "elliptic": elliptic}
    candidates: list[str | Mechanism[Noise]] = [named.get(mechanism, mechanism)]
    if mechanism == "auto":
        candidates = [matrix]
        if delta > 0:
            # Both use the same ellipsoid: which one has less variance is known before calibration.
            less = knorm_is_less(ball.dim, epsilon, delta)
            candidates.append(EllipticKNorm(weights) if less else elliptic)
    change = Sensitivity(ball, neighbors=ball.layout.neighbors)
    noises: list[Noise] = [calibrate(c, change, epsilon=epsilon, delta=delta) for c in candidates]
    if len(noises) == 1:
        return noises[0]
    return min(noises, key=lambda noise: float(weights @ variances(noise)))


# Moments of scaled columns. The share of the cross release is a continuous function of n epsilon:
# with few records nearly all, as the noise in all moments hides the data, and with many .42.

# Limits of the share of epsilon for the scaling stage, and the wanted noise of its means.
LEAST_SHARE, MOST_SHARE, GOOD_NOISE = 0.05, 0.35, 0.03
# SIGNAL for scaled columns, of the coefficients that the moments leave to the cross release:
# SCALED_SIGNAL, times the square of n epsilon / columns^(3/2) over SCALED_AT if that is below 1.
# NOISES is the ratio of the variances of the noise in a moment of two features and in a product
# with the target at equal budgets.
SCALED_SIGNAL, SCALED_AT, NOISES = 0.3, 60.0, 9.0
# With more noise than MOST_CROSS_NOISE in the mean of a product with the target, with all of
# epsilon, only the target's mean is released.
MOST_CROSS_NOISE = 0.08
# Weights of errors in the sums of the target and in the means of levels in the scaling stage. The
# target has a share of its own beside so many numbers.
TARGET_COST, LEAST_APART, LEVEL_MEANS = 20.0, 4, 0.05
# Numbers and the target are clipped at so many scales, and rows are shrunk at so many scales in
# the root mean square. All grow with the power RADIUS_POWER of n epsilon / columns^(3/2) beyond
# RADIUS_FROM: with less noise, clipping gains less.
RADIUS, ROW_RADIUS, TARGET_RADIUS = 1.2, 0.8, 1.5
RADIUS_FROM, RADIUS_POWER = 200.0, 0.25


@dataclass(frozen=True, eq=False)
class ScaledMoments(MomentPlan):
    """A plan of the three releases.

    ``layout`` has the moments of rows (1, z) of length at most 1. The weight of a row is private.
    Hence the sum of the weights is an entry, as the count under "add_remove". ``noise`` is that of
    the moments, ``cross`` that of the cross release. The cross release bounds values by ``radius``
    scales. With the ``factor`` on z, (q + 2,), rows that are not shrunk have length at most 1.
    """

    first: ScalingStage
    cross: KNormNoise | GaussianNoise
    radius: float
    factor: FloatArray

    @classmethod
    def plan(cls, task: Task, strength: float) -> ScaledMoments:
        """Calibrate all noises, of the kind with the smaller expected error if delta > 0.

        ``strength`` is n epsilon / columns^(3/2), the usual one if n is not known.
        """
        layout = layout_of(task.design.domain)
        known = float(task.n_assumed or strength * columns_of(layout) ** 1.5 / task.epsilon)
        sums = first_sums(layout, task.n)
        # The noise in the means of the scaling stage with all of epsilon.
        needed = task.records_changed * _box_deviation(sums.dim) / (task.epsilon * known)
        first = min(max(needed / GOOD_NOISE, LEAST_SHARE), MOST_SHARE)
        # With the share s of the cross release in what is left, squared errors are C / s^2 in
        # products with residuals and tau P / (1 - s)^2 in the moments. The sum is least where
        # s / (1 - s) is the cube root of C / (tau P).
        signal = SCALED_SIGNAL * min(1.0, strength / SCALED_AT) ** 2
        odds = (NOISES * max(signal, 1e-9)) ** (-1 / 3)
        cross = odds / (1 + odds)
        radii = _radii(layout, strength)
        rows = RowsWithin(layout, greatest_square(layout), task.neighbors)

        plans = []
        for noises in (_pure, _gaussian) if task.delta > 0 else (_pure,):
            stage, products, moments = noises(layout, sums, task, first, cross)
            plans.append(cls(layout, moments, task.n, rows, stage, products, *radii))
        return min(plans, key=lambda each: each.error(signal))

    def error(self, signal: float) -> float:
        """Return about the squared error of a normal equation, for coefficients of length signal.

        It is that of a product with the target, and of the moments of two features times the
        squared coefficients.
        """
        layout, factor = self.layout, self.factor
        (i, j), second = layout.pairs.T, np.isin(layout.kinds, ("product", "square"))
        second &= j < layout.n_rows - 1
        moments = variances(self.noise) / (layout.scale * factor[i] * factor[j]) ** 2
        cross = variances(self.cross)[1:] * (self.radius * self.radius) ** 2
        return float(cross.mean() + signal * (moments[second].mean() if second.any() else 0.0))

    @cached_property
    def releases(self) -> tuple[NoisySum, ...]:
        page, neighbors = "moment_release.md, Theorem 2", self.change.neighbors
        first = FirstChange(self.layout, self.first.sums, neighbors)
        return (
            NoisySum("scaling", first, self.first.noise, page),
            NoisySum("moments", self.change, self.noise, page),
            NoisySum("cross", cross_change(self.layout, neighbors), self.cross, page),
        )

    def sums(self, rows: Rows) -> NDArray[Any]:
        return self.first.sums.exact(*exact_sums(rows))


Noises = tuple[ScalingStage, KNormNoise | GaussianNoise, MatrixNoise]


def _pure(layout: MomentLayout, sums: ColumnSums, task: Task, first: float, cross: float) -> Noises:
    """Return noises whose epsilons add up.

    ``first`` and ``cross`` are the shares of the scaling stage and, in the rest, of the cross one.
    """
    first = first * task.epsilon
    cross = cross * (task.epsilon - first)
    balls = _first_ball(layout, sums, task.neighbors), _split(_cross_parts(layout))
    one, other = (
        KNorm().calibrate(Sensitivity(ball, task.records_changed, task.neighbors), epsilon=part)
        for ball, part in zip(balls, (first, cross), strict=True)
    )
    rest = task.epsilon - first - cross
    # The quotient and the product of a proof round.
    spent = task.records_changed * greatest_square(layout) * ROUND_UP
    precision = np.full(layout.n_rows, rest / spent)
    return ScalingStage(sums, one), other, MatrixLaplaceNoise(layout, precision)


Part = tuple[NormBall, tuple[int, ...], float]  # a ball, its coordinates, and a cost


def _first_ball(layout: MomentLayout, sums: ColumnSums, neighbors: str) -> NormBall:
    """Return a ball around the contributions of one record; for replaced ones half of changes."""
    head, target = int(sums.is_counted), int(sums.is_counted) + layout.n_encoded
    # The count, the numbers, and their squares (2 x^2, or 2 x^2 - 1 beside a count).
    means = [*range(head), *(layout.numbers + head - 1).tolist()]
    squares = [*range(target + 2, sums.dim), target + 1]
    parts: list[Part] = []
    if len(layout.number_index) < LEAST_APART:
        means.append(target)
    else:
        pair: NormBall = LpBall(2, p=math.inf) if sums.is_counted else SquaresBall(1)
        parts.append((pair, (target, squares.pop()), TARGET_COST * _box_cost(2)))
    own = SquaresBall(len(squares), sums.is_counted)
    parts.append((own, (*means, *squares), _box_cost(len(means) + len(squares))))
    whole = FirstChange(layout, sums, neighbors).parts()
    for ball, places in whole[len(whole) - len(layout.block_columns) :]:
        parts.append((ball, places, LEVEL_MEANS * _block_cost(len(places))))
    return _split(parts)


def _cross_parts(layout: MomentLayout) -> list[Part]:
    blocks = [_block_cost(len(columns)) for columns in layout.block_columns]
    costs = [RADIUS**2 * _box_cost(1 + len(layout.number_index)), *blocks]
    return [(*part, cost) for part, cost in zip(cross_parts(layout), costs, strict=True)]


def _split(parts: list[Part]) -> NormBall:
    """Return the ball of a weighted sum of gauges: each part has a share of the budget.

    With a share s of the budget a part has the squared error cost / s^2. The sum is least for
    shares in proportion to the cube roots of the costs.
    """
    balls, places, costs = zip(*parts, strict=True)
    roots = np.cbrt(costs)
    return SumBall(balls, tuple((roots / roots.sum()).tolist()), places)


def _box_cost(dim: int) -> float:
    """Return the sum of the variances of K-norm noise on a box."""
    return dim * _box_deviation(dim) ** 2


def _box_deviation(dim: int) -> float:
    """Return the standard deviation of K-norm noise on a box, times epsilon."""
    return math.sqrt((dim + 1) * (dim + 2) / 3)


def _block_cost(levels: int) -> float:
    """Return the sum of the variances of Laplace noise, over those of equally frequent levels."""
    return 2.0 * (levels + 1) ** 2


def _gaussian(
    layout: MomentLayout, sums: ColumnSums, task: Task, first: float, cross: float
) -> Noises:
    """Return Gaussian noises whose squared shifts add up to that of the whole release.

    The shares of epsilon are those of `_pure`.
    """
    # Squares add up, so that a share .6 of the shift leaves .8.
    stage = math.sqrt(1 - (1 - 2 / 3 * first) ** 2)
    rest = math.sqrt(1 - stage**2)
    odds = (cross / (1 - cross)) ** 1.5
    share = math.sqrt(odds / (1 + odds))
    mu = 1 / gaussian_scale(task.epsilon, task.delta)
    length, cross_length = lengths(layout, sums)
    # The units of the scaling stage's sums in which changes are bounded.
    units = np.ones(sums.dim)
    if not sums.is_counted:
        units[-len(sums.squares) :] = 2 / REPLACED_WEIGHT
    # |zz' - z'z'| of two rows of length at most 1 is at most sqrt(2).
    distance = math.sqrt(task.records_changed) * greatest_square(layout)
    left = mu * (rest * math.sqrt(1 - share**2))
    return (
        ScalingStage(sums, GaussianNoise(sums.dim, length / (mu * stage) * ROUND_UP * units)),
        GaussianNoise(layout.n_rows - 1, cross_length / (mu * (rest * share)) * ROUND_UP),
        MatrixGaussianNoise(layout, distance / left * ROUND_UP),
    )


def cross_noise(task: Task, layout: MomentLayout, known: int) -> float:
    """Return the noise in the mean of a product with the target, with all of the budget."""
    size, costs = float(known or 1), np.array([cost for *_, cost in _cross_parts(layout)])
    # Of the best shares, in the root mean square of what is divided by its usual size.
    total = float(np.cbrt(costs).sum()) ** 3 / RADIUS**2 / layout.n_encoded
    noise = task.records_changed * math.sqrt(total) / (task.epsilon * size)
    if task.delta > 0:
        scale = 1 / gaussian_scale(task.epsilon, task.delta)
        length = math.sqrt(1 + len(layout.number_index) + len(layout.block_columns))
        noise = min(noise, task.records_changed * length / (scale * size))
    return noise


def lengths(layout: MomentLayout, sums: ColumnSums) -> tuple[float, float]:
    """Return the greatest lengths of the changes by one record in the sums and in the products."""
    numbers, blocks = len(layout.number_index), len(layout.block_columns)
    second = 1 + numbers + blocks
    if sums.is_counted:
        # x^2 + (2 x^2 - 1)^2 is at most 2.
        first = float(1 + 2 * (numbers + 1) + blocks)
        return math.sqrt(first) * ROUND_UP, math.sqrt(second) * ROUND_UP
    # With this weight of a square the bound is 4 for each number and for the target. Two levels
    # of a block are sqrt(2) apart, and 1 if it has one indicator.
    first = 4.0 * (numbers + 1) + sum(min(2, len(columns)) for columns in layout.block_columns)
    return math.sqrt(first) * ROUND_UP, 2 * math.sqrt(second) * ROUND_UP


def _radii(layout: MomentLayout, strength: float) -> tuple[float, FloatArray]:
    """Return the bound on values in scales, and the factor sqrt(L / bound) on rows.

    With many numbers other columns weigh more.
    """
    wider = max(1.0, strength / RADIUS_FROM) ** RADIUS_POWER
    numbers = len(layout.number_index)
    heavy = max(1.0, math.sqrt(numbers) / 1.5)
    weights = np.full(layout.n_rows, heavy)
    weights[layout.numbers] = 1.0
    for columns in layout.block_columns:
        # Each of many levels is rare. At most one indicator is 1, so that this costs little.
        weights[columns] = heavy * math.sqrt(len(columns))
    blocks = sum(float(weights[columns[0]]) for columns in layout.block_columns)
    bound = heavy + blocks + wider * (heavy * TARGET_RADIUS + ROW_RADIUS * numbers)
    return RADIUS * wider, np.sqrt(weights / bound)
