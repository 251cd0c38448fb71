"""Plans of moment releases, and the released moments.

Of scaled columns there are a scaling stage, then products with the target and all moments.

Bounds that hold for all records are wide, and most records lie close together. A scaling stage
spends a part of epsilon on means and mean squares. Centres and scales are computed from it, and
two releases follow. The *cross* release has the sums of the target and of its products with the
features. Each number is clipped to a box around its centre. The *moments* release has all moments
of the rows z = (1, (x - centre) / scale). A row with z'Lz > bound is shrunk to z'Lz = bound. Each
record is mapped by itself, so that one record changes both by a bounded amount.

The share of the cross release is a continuous function of n epsilon: with few records nearly all,
as the noise in all moments hides the data, and with many records about a third. Statement and
proof: ``docs/proofs/moment_release.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.domain.columns import listed
from skdp.geometry import LpBall, NormBall, ProductBall, SquaresBall, SumBall
from skdp.geometry.moment_layout import IntArray
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._moments.postprocess import SHRINK, NoisyMoments
from skdp.linear_model._moments.theorem import (
    FirstChange,
    cross_change,
    cross_parts,
    greatest_square,
    layout_of,
)
from skdp.linear_model._shared.gram import (
    exact_both,
    exact_gram,
    exact_statistic,
    exact_sums,
    release_exact,
)
from skdp.linear_model._shared.task import Task
from skdp.linear_model._standardize.stage import (
    MOMENTS,
    REPLACED_WEIGHT,
    RowScaler,
    Scaler,
    ScalingStage,
    rest_of,
)
from skdp.linear_model._standardize.theorem import ColumnSums, Estimates
from skdp.mechanisms import GaussianNoise, KNormNoise, MatrixLaplaceNoise, Sensitivity, calibrate
from skdp.mechanisms.gaussian import gaussian_scale
from skdp.noise.matrix import MatrixGaussianNoise, MatrixNoise, RowsWithin
from skdp.rows import Rows
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import fail
from skdp.trusted.noise import first_covariance, variances
from skdp.trusted.releases import NoisySum
from skdp.trusted.rounding import ROUND_UP


@dataclass(frozen=True, eq=False)
class MomentPlan:
    """A release of moments in one stage; public information only.

    The ``layout`` has no features if only the target's mean is released. The number ``n`` of
    records is None if it is private. One record changes the moments by an element of ``change``.
    """

    layout: MomentLayout
    noise: Any
    n: int | None
    change: Any

    @cached_property
    def releases(self) -> tuple[NoisySum, ...]:
        """Return the release of all moments."""
        return (NoisySum("moments", self.change, self.noise, "moment_release.md, Theorem 1"),)

    def sums(self, rows: Rows) -> NDArray[Any]:
        """Return the exact sums of the first reading of the records, in units of 2^-40."""
        # A layout of two columns has only the target's mean.
        return exact_statistic(self.layout, exact_gram(rows, features=self.layout.n_rows > 2))

    def release(self, exact: NDArray[Any], rows: Rows, rng: Generator) -> Moments:
        """Release the moments."""
        names = names_of(rows.domain) if self.layout.n_rows > 2 else ("1", "target")
        return Moments.of(self, release_exact(self.releases[0], exact, rng), names)


def names_of(domain: Domain) -> tuple[str, ...]:
    """Return the names of the columns of (1, x, y)."""
    return ("1", *domain.encoded_names(), "target")


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Released sums of products of the columns of (1, x, y), with their noise.

    All entries were released. Computations from them cost no further privacy. The columns are
    those of z = (column - centre) / scale. Without a scaling stage the centre is 0 and the scale
    is 1: numbers and the target are in [-1, 1], as the domain encodes them, and indicators are 0
    or 1. Rows in a ball are divided by the least power of two that is not below the radius. After
    a scaling stage rows far from the centre have a weight below 1.

    Attributes
    ----------
    names : tuple of str
        The columns: "1", the encoded features, the target.
    gram : ndarray of shape (q + 2, q + 2)
        Noisy sums of products of z. The first entry is the number of records, or a noisy count.
    deviation : ndarray of shape (q + 2, q + 2)
        Standard deviation of the noise in each entry.
    own_square : ndarray of bool, shape (q + 2,)
        Which columns are indicators. An indicator is its own square, so that its sum and its sum
        of squares are one number with one noise. None after a scaling stage, which scales them.
    centre, scale : ndarray of shape (q + 2,)
        In the units of the encoded columns; 0 and 1 for the column of ones.
    layout : MomentLayout
    noise : Noise
    is_scaled : bool
        Whether there was a scaling stage, so that mean squares are near 1.
    released : ndarray of shape (layout.dim,) or None
        After a scaling stage, the moments as they were published. ``gram`` combines them with the
        other releases.
    """

    names: tuple[str, ...]
    gram: FloatArray
    deviation: FloatArray
    own_square: NDArray[np.bool_]
    centre: FloatArray
    scale: FloatArray
    layout: MomentLayout
    noise: Any
    is_scaled: bool = False
    released: FloatArray | None = None

    @classmethod
    def of(
        cls,
        plan: MomentPlan,
        released: FloatArray,
        names: tuple[str, ...],
        scaler: RowScaler | None = None,
    ) -> Moments:
        """Return the moments that the release of a plan estimates."""
        layout, width = plan.layout, plan.layout.n_rows
        if scaler is None:
            scaler = RowScaler(Scaler(np.zeros(width - 1), np.ones(width - 1)), np.ones(width))
        gram = layout.gram(released, None if layout.adds else plan.n)
        deviation, unit = _deviations(plan), np.outer(scaler.factor, scaler.factor)
        gram, deviation = gram / unit, deviation / unit
        own = layout.indicators
        own_square = np.zeros(width, dtype=np.bool_)
        own_square[own] = True
        # The square of an indicator is not released: it is the indicator.
        gram[own, own], deviation[own, own] = gram[0, own], deviation[0, own]
        facts = own_square, scaler.centre, scaler.scale, layout, plan.noise
        return cls(names, gram, deviation, *facts)

    def __repr__(self) -> str:
        return f"Moments({listed(self.names[1:])}; {type(self.noise).__name__})"

    @property
    def n_records(self) -> float:
        """The number of records: public, or noisy and at least 1."""
        return max(1.0, float(self.gram[0, 0]))

    def mean(self) -> FloatArray:
        """Return the noisy means of the features and the target, (q + 1,)."""
        return np.asarray(self.centre[1:] + self.scale[1:] * self._mean)

    def covariance(self) -> FloatArray:
        """Return the noisy covariance of the features and the target, (q + 1, q + 1)."""
        own = self.gram[1:, 1:] / self.n_records - np.outer(self._mean, self._mean)
        return np.asarray(own * np.outer(self.scale[1:], self.scale[1:]))

    @property
    def _mean(self) -> FloatArray:
        return np.asarray(self.gram[0, 1:] / self.n_records)

    def to_encoded(self, theta: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (intercept, coefficients) of the encoded columns, and their covariance."""
        scaler = Scaler(self.centre[1:], self.scale[1:])
        coef, intercept = scaler.undo(theta[None, 1:], theta[:1])
        return np.concatenate([intercept, coef[0]]), scaler.undo_covariance(spread)

    def subset(self, features: list[int], target: int) -> Moments:
        """Return the moments of some columns, given by their positions in ``names``."""
        chosen = [0, *features, target]
        if len(set(chosen)) != len(chosen) or min(chosen[1:], default=1) < 1:
            raise fail("columns", "be distinct and not the target", None)
        grid = np.ix_(chosen, chosen)
        names = tuple(self.names[j] for j in chosen)
        return replace(
            self,
            names=names,
            gram=self.gram[grid],
            deviation=self.deviation[grid],
            own_square=self.own_square[chosen],
            centre=self.centre[chosen],
            scale=self.scale[chosen],
        )

    def noisy(self, intercept: bool, shrink: float = SHRINK) -> NoisyMoments:
        """Return the noisy means, and the size of their noise, for post-processing."""
        d, matrix = self.deviation / self.n_records, self.gram / self.n_records
        matrix[0, 0] = 1.0
        x = slice(1, -1)
        # Deviations are about sigma / (r_i r_j). The r of the features are 1 on average.
        inner = d[x, x]
        # Products within a block are 0, and are not released. A single column has only its square.
        off = inner[~np.eye(len(inner), dtype=bool) & (inner > 0)]
        off = off if off.size else np.diag(inner)
        sigma = _root_mean_square(off, _root_mean_square(d[0, 1:], 1e-300))
        r = np.ones(len(d))
        r[0] = sigma / max(_root_mean_square(d[0, x], sigma), 1e-300)
        r[-1] = sigma / max(_root_mean_square(d[x, -1], sigma), 1e-300)
        r[1:-1] = _row_sizes(inner, sigma)
        if np.isnan(matrix[-1, -1]):
            matrix[-1, -1] = 1.0  # not released: its upper bound
        scaled = d if self.is_scaled and intercept else None
        return NoisyMoments(matrix, sigma, r, intercept, shrink, scaled)


def _deviations(plan: MomentPlan) -> FloatArray:
    """Return the standard deviation of the noise in each entry of the Gram matrix."""
    layout, noise = plan.layout, plan.noise
    moved = variance = variances(noise)
    if layout.shift.any():
        # Entries that were released minus the count get the noisy count added.
        shared = 2 * layout.shift * first_covariance(noise)
        moved = variance + shared + layout.shift**2 * variance[0]
    out = np.zeros((layout.n_rows, layout.n_rows))
    i, j = layout.pairs.T
    out[i, j] = out[j, i] = np.sqrt(moved / layout.scale**2)
    return out


def _root_mean_square(values: FloatArray, otherwise: float) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else otherwise


def _row_sizes(d: FloatArray, sigma: float) -> FloatArray:
    """Return r with d_ij about sigma / (r_i r_j) off the diagonal."""
    r = np.ones(len(d))
    off = np.where(np.eye(len(d), dtype=bool), 0.0, d)
    for _ in range(20 * (len(d) > 1)):
        weight = off > 0
        fit = (weight * (sigma / np.where(weight, off, 1.0)) / r).sum(axis=1)
        r = np.sqrt(r * np.where(weight.any(axis=1), fit / np.maximum(weight.sum(axis=1), 1), r))
    return r


# Moments of scaled columns

# The scaling stage has the share of epsilon for which its means have noise of GOOD_NOISE, in these
# limits. Each number has a mean square of its own if the noise is then at most SINGLE_NOISE.
LEAST_SHARE, MOST_SHARE, GOOD_NOISE, SINGLE_NOISE = 0.05, 0.35, 0.03, 0.05
# The effect of an error in a moment of two features relative to one in a product with the target:
# the squared length of coefficients that can be distinguished from noise. It is SIGNAL if
# n epsilon / columns^(3/2) is SIGNAL_AT, grows with the power SIGNAL_POWER of it, and is at most
# MOST_SIGNAL. NOISES is the ratio of the variances of both noises at equal budgets.
SIGNAL, SIGNAL_AT, SIGNAL_POWER, MOST_SIGNAL, NOISES = 0.15, 60.0, 5.0, 3.0, 9.0
# With more noise than MOST_CROSS_NOISE in the mean of a product with the target, with all of
# epsilon, only the target's mean is released. With as much noise as that, the cross release has at
# least the share FIRST_CROSS of what is left, and with less noise less in proportion.
FIRST_CROSS, MOST_CROSS_NOISE = 0.7, 0.056
# Weights of errors in the sums of the target and in the means of levels in the scaling stage. The
# target has a share of its own beside so many numbers.
TARGET_COST, LEAST_APART, LEVEL_MEANS = 20.0, 4, 0.05
# Numbers and the target are clipped at so many scales, and rows are shrunk at so many scales in
# the root mean square. All grow with the power RADIUS_POWER of n epsilon / columns^(3/2) beyond
# RADIUS_FROM: with less noise, clipping gains less.
RADIUS, ROW_RADIUS, TARGET_RADIUS = 1.4, 1.3, 2.5
RADIUS_FROM, RADIUS_POWER = 100.0, 0.25


@dataclass(frozen=True)
class EpsilonShares:
    """The shares of epsilon of the scaling stage and of the cross release in what is left."""

    first: float
    cross: float

    @classmethod
    def at(cls, strength: float, needed: float, noise: float) -> EpsilonShares:
        """Return the shares that are best in expectation.

        ``needed`` and ``noise`` are the noise in the means of the scaling stage and of the cross
        release with all of epsilon. With the share s, squared errors are C / s^2 in products with
        the target and tau P / (1 - s)^2 in the moments. The sum is least where s / (1 - s) is the
        cube root of C / (tau P).
        """
        signal = usual_signal(strength)
        odds = (NOISES * max(signal, 1e-9)) ** (-1 / 3)
        first = min(max(needed / GOOD_NOISE, LEAST_SHARE), MOST_SHARE)
        least = FIRST_CROSS * min(1.0, noise / MOST_CROSS_NOISE)
        return cls(first, max(odds / (1 + odds), least))

    @property
    def shifts(self) -> tuple[float, float, float]:
        """Shares of the shift of Gaussian noise of the three releases. Their squares add up."""
        # Squares add up, so that a share .6 of the shift leaves .8.
        first = math.sqrt(1 - (1 - 2 / 3 * self.first) ** 2)
        odds = (self.cross / (1 - self.cross)) ** 1.5
        rest, cross = rest_of(first), math.sqrt(odds / (1 + odds))
        return first, rest * cross, rest * rest_of(cross)


def usual_signal(strength: float) -> float:
    """Return the assumed squared length of coefficients that can be distinguished from noise."""
    return float(min(MOST_SIGNAL, SIGNAL * (strength / SIGNAL_AT) ** SIGNAL_POWER))


def columns_of(layout: MomentLayout) -> float:
    """Return the number of feature columns that can differ from 0 at once."""
    return max(1.0, layout.row_square(np.ones(layout.n_rows)) - 2)


Noises = tuple[ScalingStage, KNormNoise | GaussianNoise, MatrixNoise]


def _sums(layout: MomentLayout, task: Task, known: float) -> tuple[ColumnSums, float]:
    """Return the sums of the scaling stage, and the noise in their means with all of epsilon."""
    columns, numbers = tuple(range(layout.n_encoded + 1)), layout.number_index
    target = (layout.n_encoded,)
    single = tuple((j,) for j in numbers)
    for squares in ((target, *single), (target, numbers) if numbers else (target,)):
        sums = ColumnSums(columns, task.n, squares)
        needed = task.moved * _box_deviation(sums.dim) / (task.epsilon * known)
        if needed / MOST_SHARE <= SINGLE_NOISE:
            break
    return sums, needed


def _pure(layout: MomentLayout, sums: ColumnSums, task: Task, shares: EpsilonShares) -> Noises:
    """Return noises whose epsilons add up."""
    first = shares.first * task.epsilon
    cross = shares.cross * (task.epsilon - first)
    balls = (
        (_first_ball(layout, sums, task.moved), first),
        (_split(_cross_parts(layout)), cross),
    )
    one, other = (
        calibrate("hull", Sensitivity(ball, task.moved, task.neighbors), epsilon=part)
        for ball, part in balls
    )
    assert isinstance(one, KNormNoise)
    assert isinstance(other, KNormNoise)
    rest = task.epsilon - first - cross
    # The quotient and the product of a proof round.
    spent = task.moved * greatest_square(layout) * ROUND_UP
    precision = np.full(layout.n_rows, rest / spent)
    return ScalingStage(sums, one), other, MatrixLaplaceNoise(layout, precision)


def _first_ball(layout: MomentLayout, sums: ColumnSums, moved: float) -> NormBall:
    """Return a ball that holds the contribution of one record; ``moved`` of it holds changes."""
    numbers, groups = len(layout.number_index), len(sums.squares) - 1
    head = int(sums.is_counted)
    target = (head + layout.n_encoded, head + layout.n_encoded + 1)
    # The count, the numbers, and their squares (2 x^2, or 2 x^2 - 1 beside a count).
    means = [*range(head), *(layout.numbers + head - 1).tolist()]
    squares = list(range(target[1] + 1, sums.dim))
    parts: list[Part] = []
    if numbers < LEAST_APART:
        means, squares = [*means, target[0]], [*squares, target[1]]
    else:
        pair: NormBall = LpBall(2, p=math.inf) if sums.is_counted else SquaresBall(1)
        parts.append((pair, target, TARGET_COST * _box_cost(2)))
    ball: NormBall = SquaresBall(len(means) - head, sums.is_counted)
    if groups != numbers:
        large = LpBall(groups, p=math.inf, radius=numbers / groups)
        rest = [LpBall(1)] * (len(squares) - groups)
        ball = ProductBall((LpBall(len(means), p=math.inf), large, *rest))
    parts.append((ball, (*means, *squares), _box_cost(len(means) + len(squares))))
    for columns in layout.block_columns:
        # One indicator is 0 or 1, and changes by 1 if a record is replaced. Others change by 2.
        radius = 1 / moved if len(columns) == 1 else 1.0
        places = tuple((columns + head - 1).tolist())
        ball = LpBall(len(columns), p=1, radius=radius)
        parts.append((ball, places, LEVEL_MEANS * _block_cost(len(columns))))
    return _split(parts)


Part = tuple[NormBall, tuple[int, ...], float]


def _cross_parts(layout: MomentLayout) -> list[Part]:
    """Return the balls of the products with the target, with costs."""
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


def _gaussian(layout: MomentLayout, sums: ColumnSums, task: Task, shares: EpsilonShares) -> Noises:
    """Return Gaussian noises whose squared shifts add up to that of the whole release."""
    mu = 1 / gaussian_scale(task.epsilon, task.delta)
    first, cross, rest = (mu * share for share in shares.shifts)
    length, cross_length = lengths(layout, sums)
    units = first_units(layout, sums)
    stage = ScalingStage(sums, GaussianNoise(sums.dim, length / first * ROUND_UP * units))
    products = GaussianNoise(layout.n_rows - 1, cross_length / cross * ROUND_UP)
    # |zz' - z'z'| of two rows of length at most 1 is at most sqrt(2).
    distance = math.sqrt(task.moved) * greatest_square(layout)
    return stage, products, MatrixGaussianNoise(layout, distance / rest * ROUND_UP)


def first_units(layout: MomentLayout, sums: ColumnSums) -> FloatArray:
    """Return the units of the scaling stage's sums in which changes are bounded, (dim,)."""
    numbers, groups = len(layout.number_index), len(sums.squares) - 1
    units = np.ones(sums.dim)
    if not sums.is_counted:
        units[sums.dim - groups - 1 :] = 2 / REPLACED_WEIGHT
    if groups:  # a sum of the squares of several numbers
        own = numbers / groups
        units[sums.dim - groups :] *= own if sums.is_counted else math.sqrt(own)
    return units


def cross_noise(task: Task) -> float:
    """Return the noise in the mean of a product with the target, with all of the budget."""
    layout = layout_of(task.design.domain)
    known, parts = float(task.known or 1), _cross_parts(layout)
    costs = np.array([cost for *_, cost in parts])
    # Of the best shares, in the root mean square of what is divided by its usual size.
    total = float(np.cbrt(costs).sum()) ** 3 / RADIUS**2 / layout.n_encoded
    noise = task.moved * math.sqrt(total) / (task.epsilon * known)
    if task.delta > 0:
        scale = 1 / gaussian_scale(task.epsilon, task.delta)
        length = math.sqrt(1 + len(layout.number_index) + len(layout.block_columns))
        noise = min(noise, task.moved * length / (scale * known))
    return noise


def lengths(layout: MomentLayout, sums: ColumnSums) -> tuple[float, float]:
    """Return the greatest lengths of the changes by one record in the sums and in the products."""
    numbers, blocks = len(layout.number_index), len(layout.block_columns)
    single = len(sums.squares) == 1 + numbers
    second = 1 + numbers + blocks
    if sums.is_counted:
        # x^2 + (2 x^2 - 1)^2 is at most 2.
        own = 2 * numbers if single else numbers + 1
        first = float(1 + own + blocks + 2)
        return math.sqrt(first) * ROUND_UP, math.sqrt(second) * ROUND_UP
    # With this weight of a square the bound is 4 for each number and for the target. Two levels
    # of a block are sqrt(2) apart.
    first = 4.0 * (numbers + 1) + 2 * blocks
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


# Upper bound on the square of a scale.
MOST_VARIANCE = 0.5
# Of the mean weight of a row: the usual square of its distance from 1, and a lower limit.
WEIGHT_VARIANCE, LEAST_WEIGHT = 0.01, 0.2


@dataclass(frozen=True, eq=False)
class ScaledMoments(MomentPlan):
    """A plan of the three releases; public information only.

    ``layout`` has the moments of rows (1, z) of length at most 1. The weight of a row is private.
    Hence the sum of the weights is an entry, as the count under "add_remove". ``noise`` is that of
    the moments, ``cross`` that of the cross release. The cross release bounds values by ``radius``
    scales. With the ``factor`` on z, (q + 2,), rows that are not shrunk have length at most 1.
    """

    first: ScalingStage
    cross: Any
    radius: float
    factor: FloatArray

    @classmethod
    def plan(cls, task: Task, strength: float) -> ScaledMoments:
        """Calibrate all noises, of the kind with the smaller expected error if delta > 0.

        ``strength`` is n epsilon / columns^(3/2), the usual one if n is not known.
        """
        layout = layout_of(task.design.domain)
        known = task.known or strength * columns_of(layout) ** 1.5 / task.epsilon
        sums, needed = _sums(layout, task, float(known))
        noise = cross_noise(replace(task, n_public=round(known) if task.n is None else None))
        shares, radii = EpsilonShares.at(strength, needed, noise), _radii(layout, strength)

        def of(first: ScalingStage, cross: Any, moments: MatrixNoise) -> ScaledMoments:
            rows = RowsWithin(layout, greatest_square(layout), task.neighbors)
            return cls(layout, moments, task.n, rows, first, cross, *radii)

        found = of(*_pure(layout, sums, task, shares))
        if task.delta > 0:
            gaussian = of(*_gaussian(layout, sums, task, shares))
            signal = usual_signal(strength)
            found = min(found, gaussian, key=lambda own: own.error(signal))
        return found

    def error(self, signal: float) -> float:
        """Return about the squared error of a normal equation, for coefficients of length signal.

        It is that of a product with the target, and of the moments of two features times the
        squared coefficients.
        """
        layout, factor = self.layout, self.factor
        (i, j), own = layout.pairs.T, np.isin(layout.kinds, ("product", "square"))
        own &= j < layout.n_rows - 1
        moments = variances(self.noise) / (layout.scale * factor[i] * factor[j]) ** 2
        cross = variances(self.cross)[1:] * (self.radius * self.radius) ** 2
        return float(cross.mean() + signal * (moments[own].mean() if own.any() else 0.0))

    @cached_property
    def releases(self) -> tuple[NoisySum, ...]:
        """Return the releases of the scaling stage, of the products and of the moments."""
        page, neighbors = "moment_release.md, Theorem 2", self.change.neighbors
        first = FirstChange(self.layout, self.first.sums, neighbors)
        return (
            NoisySum("scaling", first, self.first.noise, page),
            NoisySum("cross", cross_change(self.layout, neighbors), self.cross, page),
            NoisySum("moments", self.change, self.noise, page),
        )

    def sums(self, rows: Rows) -> NDArray[Any]:
        """Return the exact sums of the scaling stage, in units of 2^-40."""
        return self.first.sums.exact(*exact_sums(rows))

    def release(self, exact: NDArray[Any], rows: Rows, rng: Generator) -> Moments:
        """Release all stages."""
        scaling, products, moments = self.releases
        seen = self.first.release(scaling, exact, rng)
        box, scaler = self.scalers(seen)
        cross, statistic = exact_both(rows, box.place, self.layout, scaler.place)
        crossed = release_exact(products, cross, rng)
        released = release_exact(moments, statistic, rng)
        return self.moments(seen, box, scaler, crossed, released, names_of(rows.domain))

    def first_deviations(self, n: float) -> tuple[FloatArray, FloatArray]:
        """Return the standard deviations of the scaling stage: of means and of mean squares.

        The means are those of (1, x, y), and the first mean square is that of y.
        """
        sizes, adds = self.first.deviations(n), int(self.first.sums.is_counted)
        width = self.layout.n_rows
        count = sizes[0] if adds else 0.0
        means = np.append(count, sizes[adds : adds + width - 1])
        # Under add/remove the count was subtracted from the squares. The noisy count is added.
        return means, np.hypot(sizes[adds + width - 1 :], count) / 2

    def scalers(self, seen: Estimates) -> tuple[RowScaler, RowScaler]:
        """Return the box of the cross release, and the map of the rows whose moments follow."""
        numbers, last = self.layout.numbers, self.layout.n_rows - 1
        columns = np.append(numbers, last)
        centre = seen.mean[columns - 1].clip(-1, 1)
        squares = centre**2
        if len(numbers) and len(seen.square) == 2:  # one mean square of all numbers
            squares[:-1] = squares[:-1].mean()
        variance = np.append(np.broadcast_to(seen.square[1:], len(numbers)), seen.square[0])
        noise = self.first_deviations(seen.n)[0][columns]
        scale = np.sqrt(MOMENTS.variance(variance - squares, noise).clip(max=MOST_VARIANCE))
        scaler = Scaler.of(self.layout.n_encoded, columns - 1, centre, scale)
        factor = np.ones(self.layout.n_rows)
        # No column is further from its centre than the bounds of the domain.
        factor[columns] = 1 / np.minimum(self.radius, (1 + np.abs(centre)) / scale)
        return RowScaler(scaler, factor, clips=True), RowScaler(scaler, self.factor)

    def moments(
        self,
        seen: Estimates,
        box: RowScaler,
        scaler: RowScaler,
        crossed: FloatArray,
        released: FloatArray,
        names: tuple[str, ...],
    ) -> Moments:
        """Return the moments that all releases estimate, weighted by their precisions."""
        own, last = Moments.of(self, released, names, scaler), self.layout.n_rows - 1
        # Indicators have the units of equally frequent levels, other columns those of the release.
        centre, scale = own.centre.copy(), own.scale.copy()
        for columns in self.layout.block_columns:
            share = 1 / (len(columns) + 1)
            centre[columns], scale[columns] = share, math.sqrt(share * (1 - share))
        # The means of products of the third release.
        weight, moved = seen.n * _mean_weight(own, seen.n), own.scale != scale
        step = np.diag(np.where(moved, 1 / scale, 1.0))
        step[moved, 0] = -centre[moved] / scale[moved]
        variance = step**2 @ (own.deviation / weight) ** 2 @ step.T**2
        pooled = _Pooled(step @ (own.gram / weight) @ step.T, variance)
        # The means, and the mean square of the target, of the scaling stage.
        deviation, squares = self.first_deviations(seen.n)
        mean = (np.append(1.0, seen.mean) - centre) / scale
        noise = (deviation / scale) ** 2 + (centre * deviation[0] / scale) ** 2
        pooled.add(0, np.arange(1, last + 1), mean[1:], noise[1:])
        middle = centre[-1]
        square = (seen.square[0] - 2 * middle * seen.mean[-1] + middle**2) / scale[-1] ** 2
        noise = np.hypot(squares[:1], 2 * middle * deviation[-1]) / scale[-1] ** 2
        pooled.add(last, np.array([last]), square, noise**2)
        pooled.matrix[0, 0], pooled.variance[0, 0] = 1.0, deviation[0] ** 2
        # The means of the target and of its products with the features, of the cross release.
        far = np.where(box.scale != scale, centre, 0.0)[:-1]
        unit = seen.n * box.factor[-1] * box.factor[:-1] * scale[:-1] / box.scale[:-1]
        noise, shared = variances(self.cross), first_covariance(self.cross) * far
        variance = (noise - 2 * shared + far**2 * noise[0]) / unit**2
        pooled.add(last, np.arange(last), (crossed - far * crossed[0]) / unit, variance)
        return replace(
            own,
            gram=seen.n * pooled.matrix,
            deviation=seen.n * np.sqrt(pooled.variance),
            own_square=np.zeros_like(own.own_square),
            centre=centre,
            scale=scale,
            is_scaled=True,
            released=released,
        )


def _mean_weight(own: Moments, n: float) -> float:
    """Return the mean weight of a row, with a noisy one shrunk towards 1."""
    variance = (float(own.deviation[0, 0]) / n) ** 2
    kept = WEIGHT_VARIANCE / (WEIGHT_VARIANCE + variance)
    return min(1.0, max(LEAST_WEIGHT, 1 + kept * (float(own.gram[0, 0]) / n - 1)))


@dataclass(frozen=True, eq=False)
class _Pooled:
    """Estimates of a symmetric matrix, and their variances, to which further ones are added."""

    matrix: FloatArray
    variance: FloatArray

    def add(self, i: int, j: IntArray, values: FloatArray, variances: FloatArray) -> None:
        """Add independent estimates of entries (i, j), j without repetition."""
        own = self.variance[i, j]
        total = own + variances
        kept = np.divide(variances, total, out=np.ones(len(j)), where=total > 0)
        self.matrix[i, j] = self.matrix[j, i] = kept * self.matrix[i, j] + (1 - kept) * values
        self.variance[i, j] = self.variance[j, i] = own * kept
