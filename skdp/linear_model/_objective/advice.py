"""Advice for objective perturbation: noise, q, ridge and loss. It affects accuracy only.

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
second moment of its column.

K-norm noise is pure DP; Gaussian noise needs delta > 0. ``grid`` of a family has the candidates for
q; ``usual_q``, if not None, is the only candidate. If ``is_rough``, the scales of several q are
approximate, and those of a single q are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from skdp.geometry import NormBall, SumBall
from skdp.linear_model._objective.profiles import (
    greatest_shift,
    least_share_of,
    rank_of,
    record_of,
    rough_shifts,
)
from skdp.linear_model._objective.theorem import (
    counts_weights,
    per_coordinate,
    per_group,
    shift_share,
    weighted_length,
    weighted_radius,
)
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.task import Task
from skdp.linear_model.losses import (
    AnyLoss,
    Bounded,
    CappedPoisson,
    Softmax,
    greatest_curvature,
    is_one_sided,
    size_of_slopes,
)
from skdp.mechanisms import GaussianNoise, KNorm, Sensitivity
from skdp.mechanisms.calibrate import Noise
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import uniform_variance
from skdp.trusted.checks import fail, remembered

# Variance of a number in [-1, 1] in the reference population.
SPREAD = 0.1
# A coefficient of a curve has this multiple of the variance that its number adds to the predictor.
CURVE = 4.0
# Rows get a weight below 1 if their squared numbers sum to more than this share of the maximum.
FILLED = 0.46
# The same for noise that weights reduce, without and with privately estimated clipping bounds, to
# which the numbers are scaled. A smaller share reduces the noise, and the curvature if many rows
# are longer than that.
REACHED, REACHED_SCALED = 0.3, 0.6
# The same shares for several classes. Where few rows are long, larger shares cost little.
FILLED_JOINT, REACHED_JOINT = 0.65, 0.6
# With more records per dimension and unit of 1 / epsilon, the limit `most_signal` increases.
PLENTY = 300.0


@dataclass(frozen=True)
class Reference:
    """Assumptions of the rules about the coefficients; see the text of this file.

    ``target``, "labels", "number" or "count", is what a loss must be for. ``moments`` maps a loss
    to its mean curvature and mean squared slope in the reference population. A number or its curve
    adds the variance ``signal`` to the predictor, the levels of a column ``level_signal``. The p
    numbers together add at most ``most_signal * sqrt(p)``, and if the weight of a task is above
    `PLENTY`, ``sqrt(weight / PLENTY)`` times as much. ``intercept`` is the prior variance of the
    intercept. With ``least_ridge`` the ridge is the least that privacy and sampling errors need,
    whatever the noise. ``usual_q`` is the share q for K-norm and for Gaussian noise; the rules
    choose a None.
    """

    target: str
    moments: Callable[[AnyLoss], tuple[float, float]]
    signal: float
    level_signal: float
    intercept: float
    least_ridge: bool = False
    most_signal: float = math.inf
    usual_q: tuple[float | None, float | None] = (None, None)


class Population(NamedTuple):
    """Reference moments of the groups, arrays of shape (groups,).

    ``moment`` is the second moment of a coordinate, ``prior`` the variance of its coefficient,
    ``size`` the number of coordinates, and ``square`` the contribution of the group to the
    greatest squared length of a row with weight 1. A penalty on differences of coefficients acts
    like a ridge ``stiffness`` times as great; then ``prior`` is the variance that determines the
    ridge, and ``square`` is the group's greatest leverage for a ridge of 1.
    """

    moment: FloatArray
    prior: FloatArray
    size: FloatArray
    square: FloatArray
    stiffness: FloatArray


@dataclass(frozen=True)
class Together:
    """Bounds that hold for each of several losses, in units of its slope bound."""

    losses: tuple[AnyLoss, ...]
    slope_bound: ClassVar[float] = 1.0

    @property
    def one_sided(self) -> bool:
        return all(map(is_one_sided, self.losses))

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        ends = np.array([low, high], dtype=float)
        each = [loss.curvature_bound(*(loss.slope_bound * ends)) for loss in self.losses]
        return np.asarray(np.max(each, axis=0))


@dataclass(frozen=True, kw_only=True)
class ModelTask(Task):
    """The task of one model.

    ``size`` is the number of records or a public guess of it. ``epsilon`` is the share of one
    model without ``hidden``, the part that hides the inexactness of the solver. ``delta`` is
    shared by all models, whose losses are ``together`` if they differ. ``scaled`` says whether
    clipping bounds are estimated first. ``n_classes`` is the number of classes of a joint model,
    or 1.
    """

    size: float
    reference: Reference
    hidden: float = 0.0
    scaled: bool = False
    n_classes: int = 1
    together: tuple[AnyLoss, ...] = ()

    @property
    def weight(self) -> float:
        """Number of records per dimension, times epsilon."""
        return self.size * self.epsilon / self.design.dim

    def of_record(self, loss: AnyLoss) -> Bounded:
        """Return the bounds of the loss of one record, a row or a person."""
        return record_of(loss, self.design.dim, self.are_persons)

    def of_any(self, loss: AnyLoss) -> Bounded:
        """Return bounds for the records of all models that share delta."""
        return self.of_record(cast(AnyLoss, Together(self.together)) if self.together else loss)

    @cached_property
    def population(self) -> Population:
        return self._population(FILLED if self.n_classes == 1 else FILLED_JOINT)

    @cached_property
    def reached(self) -> Population:
        """The reference population for noise that weights reduce."""
        share = REACHED_SCALED if self.scaled else REACHED
        return self._population(share if self.n_classes == 1 else max(share, REACHED_JOINT))

    def _population(self, filled: float) -> Population:
        """Rows have weight 1 up to this share of the greatest sum of their squared numbers."""
        prior, groups = self.reference, self.design.groups
        curves = sum(g.roughness is not None for g in groups)
        count = curves + sum(g.size for g in groups if g.kind in ("numbers", "vector"))
        most = prior.most_signal * math.sqrt(max(1.0, self.weight / PLENTY) / max(count, 1))
        signal, moments = min(prior.signal, most), []
        for group in groups:
            if group.kind == "intercept":
                moments.append((1.0, prior.intercept, 1.0, 1.0, 1.0))
            elif group.kind == "levels":
                of_level = prior.level_signal if group.roughness is None else CURVE * signal
                share = 1 / (group.size + 1)
                moments.append((share, of_level, group.size, group.leverage, group.stiffness))
            else:  # a vector of norm R is treated as numbers whose squares sum to R^2
                moment = SPREAD * group.square / group.size
                moments.append((moment, signal / SPREAD, group.size, filled * group.square, 1.0))
        return Population(*np.array(moments).T)


Q_GRID = np.array([0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99])
# Gaussian noise changes little before the curvature gets nearly all of epsilon.
GAUSSIAN_GRID = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95])


class Candidate(NamedTuple):
    """The choice of a rule.

    ``q`` is the share of epsilon for the linear term. ``shape`` is the ball of K-norm noise, or the
    relative variances of Gaussian noise, (groups,). Weights enforce the bound ``leverage`` on the
    leverages of rows if privacy allows it, otherwise a smaller one. ``risk`` is the mean squared
    error of the linear predictor on the reference population.
    """

    loss: AnyLoss
    q: float
    ridge: FloatArray
    family: Family
    shape: Any
    leverage: float
    risk: float


@dataclass(frozen=True)
class KNormFamily:
    """K-norm noise on a ball. None selects the ball of least weighted noise."""

    ball: NormBall | None = None
    usual_q: float | None = None
    grid: ClassVar[FloatArray] = Q_GRID
    is_rough: ClassVar[bool] = False

    @property
    def is_shaped(self) -> bool:
        """Whether the shape of the noise depends on its cost in each group."""
        return self.ball is None

    def handicap(self, task: ModelTask) -> float:
        """Return the factor on the expected error in comparisons with the other family.

        One random radius scales all coordinates. A large radius moves all coefficients at once,
        which affects predictions more than the mean squared error shows.
        """
        return 1.25 if task.n_classes == 1 else 1.0  # each class has a radius of its own

    @property
    def counts_weights(self) -> bool:
        """Whether smaller weights of long rows reduce the noise."""
        return self.ball is not None and counts_weights(self.ball)

    def shaped(self, task: ModelTask, importance: FloatArray) -> tuple[NormBall, FloatArray]:
        """Return the ball, and the noise variance of each group at unit scale and reach."""
        if self.ball is None:
            return cluster(task.design, importance)
        d, diagonal = self.ball.dim, uniform_variance(self.ball)
        per_group = [np.mean(diagonal[list(g.index)]) for g in task.design.groups]
        return self.ball, (d + 1) * (d + 2) * np.array(per_group)

    def reach(
        self, design: Design, ball: NormBall, ridge: FloatArray, leverage: FloatArray
    ) -> FloatArray:
        """Return the greatest gauge of a weighted row, of the shape of ``leverage``."""
        if self.ball is None:  # the ball of `cluster` contains every row
            return np.ones(leverage.shape)
        return weighted_radius(design, ball, ridge, leverage)

    def scales(
        self, task: ModelTask, loss: AnyLoss, grid: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return 2c / (epsilon q) or c / (epsilon q), and approximate leverages."""
        scale = task.records_changed * size_of_slopes(loss) / (task.epsilon * grid)
        return scale, rough_leverage(task.of_record(loss), grid, task.epsilon, task.neighbors)

    def leverage(self, task: ModelTask, choice: Candidate) -> float:
        """Return the greatest leverage that Theorem 1 allows."""
        record = task.of_record(choice.loss)
        return greatest_leverage(record, choice.q, task.epsilon, task.neighbors)

    def noise(self, task: ModelTask, choice: Candidate, leverage: float, reach: float) -> Noise:
        ball, radius = choice.shape, task.records_changed * size_of_slopes(choice.loss) * reach
        if task.n_classes > 1:  # the norms of the slopes of all classes add up
            ball = SumBall((ball,) * task.n_classes, (1.0,) * task.n_classes)
        return KNorm(ball).noise(Sensitivity(ball, radius, task.neighbors), choice.q * task.epsilon)


@dataclass(frozen=True)
class GaussianFamily:
    """Independent normal noise, with a variance for each group if ``elliptic``, otherwise with one.

    For rows with sum_g square_g / v_g <= 1 and A_g = size_g importance_g, the weighted noise
    sum_g A_g v_g is least, by Cauchy and Schwarz, for v_g proportional to sqrt(square_g / A_g).
    ``square`` is that of the longest rows with weight 1 (`Population`).
    """

    elliptic: bool = True
    usual_q: float | None = None
    grid: ClassVar[FloatArray] = GAUSSIAN_GRID
    is_rough: ClassVar[bool] = True
    counts_weights: ClassVar[bool] = True

    @property
    def is_shaped(self) -> bool:
        return self.elliptic

    def handicap(self, task: ModelTask) -> float:
        # Rows that are longer than those of the reference population lose weight. Without estimated
        # clipping bounds there are more of them.
        if task.n_classes > 1:
            return 1.0
        return 1.25 if task.scaled else 2.0

    def shaped(self, task: ModelTask, importance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the relative variance of each group, twice: as the shape and as the noise."""
        square, size = task.reached.square, task.reached.size
        variance = np.sqrt(square / (size * importance)) if self.elliptic else np.ones(len(square))
        return variance, variance

    def reach(
        self, design: Design, variance: FloatArray, ridge: FloatArray, leverage: FloatArray
    ) -> FloatArray:
        return weighted_length(design, variance, ridge, leverage)

    def scales(
        self, task: ModelTask, loss: AnyLoss, grid: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return c / mu, and the leverages; mu is approximate for more than one q."""
        # The curvature of several models is treated as that of one model: an approximation.
        record, epsilon = task.of_any(loss), task.epsilon * task.n_models
        leverages, budget = leverages_apart(record, grid, epsilon), (epsilon, task.delta)
        if len(leverages) > 1:
            shift = rough_shifts(record, leverages, *budget, task.neighbors)
        else:
            shift = np.array([greatest_shift(record, leverages[0], *budget, task.neighbors)])
        with np.errstate(divide="ignore"):
            scale = loss.slope_bound * math.sqrt(task.n_models) / shift
        return scale, np.array(leverages_apart(record, grid, task.epsilon))

    def leverage(self, task: ModelTask, choice: Candidate) -> float:
        """Return the leverage that leaves the share q of epsilon to the noise."""
        return leverage_apart(task.of_any(choice.loss), choice.q, task.epsilon)

    def noise(self, task: ModelTask, choice: Candidate, leverage: float, reach: float) -> Noise:
        record, budget = task.of_any(choice.loss), (task.epsilon * task.n_models, task.delta)
        shift = float(greatest_shift(record, leverage, *budget, task.neighbors, task.n_models))
        if shift == 0:
            rule = "be large enough that the curvature spends less than epsilon"
            raise fail("q", rule, choice.q, "Pass a q nearer to 1.")
        bound = task.of_record(choice.loss).slope_bound
        deviation = bound * reach * np.sqrt(choice.shape) / shift * ROUND_UP
        deviation = np.tile(per_coordinate(task.design, deviation), task.n_classes)
        return GaussianNoise(len(deviation), deviation)


Family = KNormFamily | GaussianFamily


def calibrated(task: ModelTask, choice: Candidate) -> tuple[float, Noise]:
    """Return the leverage L that privacy allows, and the noise of the random linear term."""
    leverage = min(choice.family.leverage(task, choice), choice.leverage)
    ridge, bound = per_group(task.design, choice.ridge), np.array(leverage)
    reach = float(choice.family.reach(task.design, choice.shape, ridge, bound))
    return leverage, choice.family.noise(task, choice, leverage, reach)


def cluster(design: Design, importance: FloatArray) -> tuple[NormBall, FloatArray]:
    """Return a ball of least weighted noise, and the noise variance of each group, (groups,).

    Within a cluster of groups the gauge is the greatest of the groups' gauges, across clusters it
    is a weighted sum. A cluster of dimension m has the noise variance (m+1)(m+2) Var(U) / w^2.
    With A_c = (m+1)(m+2) sum_g size importance Var(U_g) the best weights are proportional to the
    cube roots of A_c, and the total noise is (sum_c A_c^(1/3))^3. Two clusters at a time are merged
    while this total decreases. ``importance``, (groups,), is the cost of a unit of noise variance
    in a coordinate of each group.
    """
    groups = design.groups
    size = np.array([g.size for g in groups], dtype=float)
    cost = size * importance * np.array([g.variance for g in groups])
    members = [[g] for g in range(len(groups))]
    while len(members) > 1:
        root = _root(size, cost)
        change = _root(size + size[:, None], cost + cost[:, None]) - root - root[:, None]
        np.fill_diagonal(change, np.inf)
        least = float(change.min())
        if least >= 0:
            break
        # The first of nearly equal pairs: last bits would make the noise depend on the machine.
        i, j = np.unravel_index(np.argmax(change <= least * (1 - 1e-9)), change.shape)
        members[i], size[i], cost[i] = members[i] + members[j], size[i] + size[j], cost[i] + cost[j]
        members.pop(j)
        size, cost = np.delete(size, j), np.delete(cost, j)
    weights = _root(size, cost) / np.sum(_root(size, cost))
    noise = np.empty(len(groups))
    for part, m, w in zip(members, size, weights, strict=True):
        for g in part:
            noise[g] = (m + 1) * (m + 2) * groups[g].variance / w**2
    return design.clustered(members, list(weights)), noise


def _root(size: FloatArray, cost: FloatArray) -> FloatArray:
    return np.asarray(np.cbrt((size + 1) * (size + 2) * cost))


def rough_leverage(loss: Bounded, q: FloatArray, epsilon: float, neighbors: str) -> FloatArray:
    """Return the greatest leverage for each q within a few percent; for planning only."""
    slope, curvature = _profile(loss)
    needed = curvature / room(slope, q[:, None], epsilon, neighbors, loss)
    return np.asarray(1 / np.max(needed, axis=1))


@remembered(maxsize=256)
def _profile(loss: Bounded) -> tuple[FloatArray, FloatArray]:
    """Return slopes, as shares of their bound, and bounds on the curvature at these slopes."""
    slope = 1 - np.geomspace(1.0, 1e-6, 200)
    return slope, loss.curvature_bound(loss.slope_bound * slope, loss.slope_bound * slope)


@remembered(maxsize=1024)
def greatest_leverage(loss: Bounded, q: float, epsilon: float, neighbors: str) -> float:
    """Return a leverage for which the privacy condition holds, within 1e-6 of the greatest.

    A branch-and-bound over slopes: on a cell [a, b] the curvature is at most
    ``loss.curvature_bound(a, b)`` and `room` is at least its value at b, so the returned value is
    on the safe side for every loss.

    ``q`` is the share of epsilon that the linear term V spends at full slope. The result bounds
    w(x) x'M^-1 x; it is infinite for a loss without curvature.
    """
    c = loss.slope_bound
    # Cells shrink geometrically towards full slope, where `room` is least.
    low = 1 - np.geomspace(1.0, (1 - q) * 1e-3, 400)
    high = np.append(low[1:], 1.0)
    reached, factor = 0.0, 1 + 1e-6
    while len(low):
        left = room(high, q, epsilon, neighbors, loss)
        reached = max(reached, float(np.max(loss.curvature_bound(c * high, c * high) / left)))
        bound = loss.curvature_bound(c * low, c * high) / left
        if np.isnan(bound).any():  # comparisons would treat it as no curvature
            raise fail("loss", "have a curvature_bound that is never NaN", loss)
        middle = (low + high) / 2
        split = (bound > reached * factor) & (low < middle) & (middle < high)
        # A cell is not split if its bound is within the factor of a value that is reached, or if no
        # float lies between its ends.
        reached = max(reached, float(np.max(bound[~split], initial=0.0)) / factor)
        low, middle, high = low[split], middle[split], high[split]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return math.inf if reached == 0 else (1 - 1e-9) / (reached * factor)


def leverage_apart(loss: Bounded, q: float, epsilon: float) -> float:
    """Return the greatest leverage that leaves q epsilon to any additive noise (Theorem 2)."""
    return leverages_apart(loss, (q,), epsilon)[0]


def leverages_apart(loss: Bounded, shares: Iterable[float], epsilon: float) -> tuple[float, ...]:
    # The bound is looked up once: a loss is compared by all its parameters.
    curvature, r = greatest_curvature(loss), rank_of(loss)
    if not curvature > 0:
        return tuple(math.inf for _ in shares)
    left = (r * math.expm1(min(epsilon * (1 - float(q)) / r, 700.0)) for q in shares)
    return tuple(room / curvature * (1 - 1e-9) for room in left)


def room(
    s: FloatArray, q: FloatArray | float, epsilon: float, neighbors: str, loss: Bounded
) -> FloatArray:
    """Return the greatest kappa L with rank log(1 + kappa L / rank) <= epsilon (1 - q t(s))."""
    rank, share = rank_of(loss), shift_share(s, neighbors, least_share_of(loss))
    exponent = np.minimum(epsilon * (1 - q * share) / rank, 700.0)
    return np.asarray(rank * np.expm1(exponent))


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


def choose(task: ModelTask, losses: Sequence[AnyLoss], families: Sequence[Family]) -> Candidate:
    """Return the candidate of least reference error."""
    moment, candidates = task.population.moment, []
    for family in families:
        grid = family.grid if family.usual_q is None else np.array([family.usual_q])
        scales = [family.scales(task, own, grid) for own in losses]
        choice = _best(task, losses, family, grid, scales, 1 / moment)
        if family.is_shaped:
            # The cost of a unit of noise in a coordinate of a group is less if its ridge is large.
            h = task.size * task.reference.moments(choice.loss)[0] * moment
            ridge = per_group(task.design, choice.ridge) * task.population.stiffness
            cost = np.asarray(moment / (h + ridge) ** 2)
            choice = _best(task, losses, family, grid, scales, cost)
        candidates.append(choice)
    return min(candidates, key=lambda choice: choice.risk * choice.family.handicap(task))


def _best(
    task: ModelTask,
    losses: Sequence[AnyLoss],
    family: Family,
    grid: FloatArray,
    scales: list[tuple[FloatArray, FloatArray]],
    importance: FloatArray,
) -> Candidate:
    """Return the best choice within a family, for given costs of noise, (groups,)."""
    shape: Any
    shape, unit_noise = family.shaped(task, importance)
    moment, prior, size, _, stiffness = task.population
    pairs = [(loss, float(q)) for loss in losses for q in grid]
    # From here on rows are pairs and columns are groups.
    mean = np.repeat([task.reference.moments(loss) for loss in losses], len(grid), axis=0)
    curvature, score = task.size * mean.T[:, :, None]
    scale, leverage = (np.concatenate(column) for column in zip(*scales, strict=True))
    unit_noise = np.square(scale)[:, None] * unit_noise
    per_ridge = 1 / (curvature * moment * prior)
    # The best ridge is the sum of a part for sampling errors and a part for the noise. The noise
    # depends on the greatest length of a weighted row, and this length on the ratios of ridges.
    floor = score * moment * per_ridge
    population = task.reached if family.counts_weights else task.population
    noise, enforced = 0.0 * unit_noise, np.full(len(leverage), np.inf)
    if not family.counts_weights:  # the reach is the same for all ridges
        noise = unit_noise * np.square(family.reach(task.design, shape, floor, enforced))[:, None]
    for _ in range(_ROUNDS if family.counts_weights else 1):
        ridge = _ridges(task, population, floor + noise * per_ridge, floor, leverage)
        if family.counts_weights:
            enforced = np.minimum(leverage, np.sum(population.square / ridge, axis=-1))
            reach = family.reach(task.design, shape, ridge, enforced)
            noise = unit_noise * np.square(reach)[:, None]
    # The mean squared error of the linear predictor.
    h, j, stiff = curvature * moment, score * moment, ridge * stiffness
    error = (noise + j + stiff * stiff * prior) / (h + stiff) ** 2
    risk = (size * moment * error).sum(axis=-1)
    at = int(np.argmin(risk))
    if family.is_rough and len(grid) > 1:  # only the best candidate is calibrated exactly
        loss, exact = pairs[at][0], grid[[at % len(grid)]]
        return _best(task, [loss], family, exact, [family.scales(task, loss, exact)], importance)
    ridges = per_coordinate(task.design, ridge[at])
    return Candidate(*pairs[at], ridges, family, shape, float(enforced[at]), float(risk[at]))


def _ridges(
    task: ModelTask,
    population: Population,
    wanted: FloatArray,
    floor: FloatArray,
    leverage: FloatArray,
) -> FloatArray:
    """Return the ridge of each group, (..., groups), that is best among the allowed ones."""
    groups = task.design.groups
    if task.reference.least_ridge:
        # With few records the intercept gets a greater ridge than the other groups.
        share = float(np.clip(SCARCE / task.weight, 1.0, 10.0))
        shape = np.array([share if g.kind == "intercept" else 1.0 for g in groups])
        # A coefficient of a curve where there are few records would otherwise be mostly noise.
        curves = np.array([g.roughness is not None for g in groups])
        return _raise_to(np.where(curves, wanted, floor), shape, population.square, leverage)
    if len(groups) > 1 and groups[0].kind == "intercept":
        # Otherwise large ridges on the slopes would give every record the same label.
        wanted = wanted.copy()
        wanted[..., 0] = np.maximum(wanted[..., 0], HELD * wanted[..., 1:].min(axis=-1))
    # These relative ridges minimise sum_g size r_g^2 P / H, the bias of small ridges, at fixed
    # sum_g square / r_g, the leverage.
    shape = np.cbrt(population.square / (population.size * population.prior / population.moment))
    return _raise_to(wanted, shape, population.square, leverage)


def _raise_to(
    wanted: FloatArray, shape: FloatArray, square: FloatArray, leverage: FloatArray
) -> FloatArray:
    """Return max(t shape, wanted) with the least t >= 0 that satisfies the leverage."""
    # A ridge is raised if t is above its threshold, and t grows as the leverage falls.
    order = np.argsort(wanted / shape, axis=-1)
    with np.errstate(divide="ignore"):  # a wanted ridge of 0 is always raised
        own = np.array(np.broadcast_arrays(wanted / shape, square / shape, square / wanted))
        threshold, raised, kept = np.take_along_axis(own, order[None], axis=-1)
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
def residual_moments(loss: AnyLoss, spread: float = 0.2) -> tuple[float, float]:
    """Return mean curvature and squared slope for residuals of standard deviation ``spread``."""
    assert not isinstance(loss, Softmax)
    r = np.linspace(-6, 6, 481) * spread
    zeros = np.zeros_like(r)
    curvature, score = loss.curvature(r, zeros), loss.slope(r, zeros) ** 2
    return _normal_mean(curvature, r, spread), _normal_mean(score, r, spread)


@remembered(maxsize=256)
def count_moments(loss: AnyLoss, spread: float = 0.5) -> tuple[float, float]:
    """Return mean curvature and squared slope for predictors of standard deviation ``spread``.

    Targets have an exponential distribution, given their mean.
    """
    assert isinstance(loss, CappedPoisson)
    z, share = np.linspace(-6, 6, 121) * spread, -np.log1p(-(np.arange(32) + 0.5) / 32)
    y = 2 * loss.mean(z)[:, None] * share - 1
    curvature = loss.curvature(z[:, None], y).mean(axis=1)
    score = (loss.slope(z[:, None], y) ** 2).mean(axis=1)
    return _normal_mean(curvature, z, spread), _normal_mean(score, z, spread)


def _normal_mean(values: FloatArray, z: FloatArray, spread: float) -> float:
    return float(np.average(values, weights=np.exp(-0.5 * (z / spread) ** 2)))
