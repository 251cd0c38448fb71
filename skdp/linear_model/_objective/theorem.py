"""Trusted. Objective perturbation: the noisy minimiser, and what it spends.

The released parameter minimises

    J(theta) = sum_i w(x_i) phi(x_i'theta, y_i) + 1/2 theta'M theta + V'theta,

with V of density proportional to exp(-|v|_K / scale), weights 0 <= w(x) <= min(1, leverage / l(x)),
and l(x) = x'M^-1 x. M is diagonal with the ridges, times the matrix of the smoothness penalty for
columns of B-splines. Let w(x) |x|_K <= B over the domain, c the slope bound of phi, and
kappa(s) a bound on its curvature where the slope is at most c and at least s. With
scale = 2 c B / (epsilon q) under replace-one, c B / (epsilon q) under add/remove, and
t(s) = (1 + s/c) / 2 or s/c, the minimiser is epsilon-private if for every s in [0, c]

    epsilon q t(s) + log(1 + kappa(s) leverage) <= epsilon.

Discrete Laplace noise hides the distance from the exact minimiser. `NoisyMinimiser.spent` evaluates
everything from the parts of the release: the bodies of rows, the noise of V, the ridges, the
leverage that weights enforce, and the scale of the output noise.

Statements and proofs: docs/proofs/objective_perturbation.md (K-norm noise: Theorem 1, which
sharpens Awan & Slavkovic (2020), Theorem 4.1; any noise: Theorem 2; the solver: Theorem 4),
docs/proofs/gaussian_objective.md, docs/proofs/persons.md and docs/proofs/softmax.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp.geometry import LpBall, NormBall, ProductBall, SumBall
from skdp.linear_model._objective.certificate import attainable_tolerance
from skdp.linear_model._objective.minimise import minimise
from skdp.linear_model._objective.problem import DesignRows, Objective, weigher
from skdp.linear_model._objective.profiles import (
    JointProfile,
    corners,
    least_share_of,
    rank_of,
    record_of,
)
from skdp.linear_model._shared.design import Design
from skdp.linear_model.losses import (
    AnyLoss,
    Bounded,
    Softmax,
    count_predictors,
    greatest_curvature,
    size_of_slopes,
)
from skdp.mechanisms import GaussianNoise, KNormNoise, Sensitivity
from skdp.mechanisms.calibrate import Noise
from skdp.rows import Kept, KeptBlocks
from skdp.trusted.arrays import ROUND_UP, FloatArray, add_multiples, float_above
from skdp.trusted.certify import NoisySum, described
from skdp.trusted.checks import check_count, check_interval, check_positive, fail, remembered
from skdp.trusted.composition import composed_delta
from skdp.trusted.losses import PairLoss, ProfileLoss
from skdp.trusted.noise import law_of, variances
from skdp.trusted.randomness import MOST_SCALE, granularity_of, publish, publish_near
from skdp.trusted.statement import NotPrivate, Public, Spent, up

# Relative error of a computed bound on a cell, with a margin.
_ROUNDING = 1 + 1e-14
_MOST_CELLS = 10**6
# Relative error of one addition of floats, with a margin.
_ADDITION = 4 * float(np.finfo(float).eps)


class OutputNoise(NamedTuple):
    """Discrete Laplace noise of ``scale`` steps of a lattice with spacing 2^exponent.

    It spends ``epsilon`` on hiding moves of the minimiser by at most ``steps`` under either data
    set.
    """

    exponent: int
    scale: int
    steps: int
    epsilon: float


@dataclass(frozen=True, repr=False)
class NoisyMinimiser:
    """The minimisers of a perturbed objective, one for each model.

    ``epsilon`` is that of one model, with the part that hides the solver's inexactness; it and
    ``q`` are claims, which `spent` checks. ``ridge``, of the coordinates of a row, is the same for
    all classes of a joint model, which counts as one of the ``models``. ``leverage`` is the bound
    that the weights enforce (`greatest_leverage`), and ``noise`` the law of V. The solver's
    tolerance is set for the public number ``n_bound`` of records. The ``design`` has the bodies of
    the parts of rows.
    """

    loss: AnyLoss
    epsilon: float
    q: float
    ridge: FloatArray
    leverage: float
    noise: Noise
    n_bound: int
    design: Design
    models: int = 1
    name: str = "objective"
    # Not in files: it follows from the domain.
    unwritten: ClassVar = {"design": None}

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_interval("q", self.q, 0.0, 1.0)
        for name in ("n_bound", "models"):
            check_count(name, getattr(self, name))
        if not (self.leverage > 0 and (np.isfinite(self.ridge) & (self.ridge > 0)).all()):
            raise fail("leverage and ridge", "be numbers > 0")

    @property
    def theorem(self) -> str:
        if isinstance(self.noise, GaussianNoise):
            return "gaussian_objective.md, Theorems 1 to 3"
        kind = 1 if isinstance(self.noise, KNormNoise) else 2
        return f"objective_perturbation.md, Theorem {kind}"

    @property
    def description(self) -> str:
        times = f"{self.models} models" if self.models > 1 else "the model"
        return f"{times} by objective perturbation of {self.loss!r} with {law_of(self.noise)}"

    @property
    def law(self) -> str:
        """The law of the linear terms; discrete Laplace noise hides the solver's error."""
        return law_of(self.noise)

    @property
    def times(self) -> int:
        return self.models

    @property
    def deviation(self) -> float:
        """The root mean square of a number of the linear term, in units of encoded records."""
        return math.sqrt(float(variances(self.noise).mean()))

    __repr__ = described

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss of all models; raise `NotPrivate` if a claim does not hold."""
        design = self.design
        of_groups = per_coordinate(design, per_group(design, self.ridge))
        if len(self.ridge) != design.dim or not np.array_equal(of_groups, self.ridge):
            raise NotPrivate(f"{self.name}: the ridge is not the same for all numbers of a column")
        dim = design.dim * self.n_classes
        if getattr(self.noise, "dim", dim) != dim:
            raise NotPrivate(f"{self.name}: the noise has another dimension than the coefficients")
        record = record_of(self.loss, design.dim, public.unit == "person")
        hidden, noise = self.publication.epsilon, self.noise
        # By type: a subclass may draw from another law.
        if type(noise) is KNormNoise:
            # The loss of V at full slope.
            size, scale = size_of_slopes(self.loss), float(noise.scale)
            whole = up(public.records_changed * size * self.reach(noise) / scale)
            left = self.epsilon - hidden
            worst = failing_cost(record, whole, self.leverage, left, public.relation)
            if worst is not None:
                raise NotPrivate(
                    f"{self.name}: e t(s) + log(1 + kappa(s) L) is {worst:.9g} for some slope s,"
                    f" and epsilon = {left:.9g} is stated"
                )
        elif type(noise) is GaussianNoise and (mu := self._mu(noise, record)) is not None:
            profile = JointProfile(record, mu, self.leverage, public.relation, hidden)
            return Spent(math.inf, ((ProfileLoss(profile), self.models),))
        elif (delta := self._delta_apart(record, self.epsilon - hidden, public)) > 0:
            delta = up(delta * math.exp(hidden / 2))
            return Spent(math.inf, ((PairLoss(self.epsilon, delta), self.models),))
        whole = float_above(add_multiples([(self.epsilon, self.models)]))
        return Spent(whole, ((PairLoss(self.epsilon), self.models),))

    def reach(self, noise: KNormNoise) -> float:
        """Return a bound on the gauge of a weighted row in the ball of the noise."""
        ball = noise.ball
        if (classes := self.n_classes) > 1:
            # The gauge of all classes is the sum of theirs.
            sums = isinstance(ball, SumBall) and ball.index is None and set(ball.weights) == {1.0}
            parts = ball.balls if isinstance(ball, SumBall) and sums else ()
            if len(parts) != classes or any(part != parts[0] for part in parts):
                raise NotPrivate(f"{self.name}: the ball is not a sum of one ball for each class")
            ball = parts[0]
        if type(ball) is SumBall or type(ball) is ProductBall:
            groups = self.design.groups
            rows = ProductBall(tuple(g.ball for g in groups), tuple(g.index for g in groups))
            found = Sensitivity(rows).radius_in(ball)
            if found <= 1 + 1e-9:
                return found
        ridge = per_group(self.design, self.ridge)
        return float(weighted_radius(self.design, ball, ridge, self.leverage))

    def _mu(self, noise: GaussianNoise, record: Bounded) -> float | None:
        """Return the greatest length of a record's gradient in units of the noise.

        None if its deviations differ between classes or within a group of coordinates.
        """
        design = self.design
        if np.ndim(noise.factor) > 1:
            return None
        first, *others = np.broadcast_to(noise.factor, noise.dim).reshape(self.n_classes, -1)
        deviations = per_group(design, first)
        same = all(np.array_equal(first, other) for other in others)
        if not same or not np.array_equal(per_coordinate(design, deviations), first):
            return None
        ridge = per_group(design, self.ridge)
        length = weighted_length(design, deviations**2, ridge, self.leverage)
        return up(record.slope_bound * float(length))

    def _delta_apart(self, record: Bounded, epsilon: float, public: Public) -> float:
        """Return delta for noise that is private at the share q of epsilon, for each corner.

        The rest of epsilon must pay for the curvature (Theorems 2 and 4).
        """
        rank = rank_of(record)
        bent = rank * math.log1p(greatest_curvature(record) * self.leverage / rank)
        left = epsilon - bent * _ROUNDING
        size = public.records_changed * record.slope_bound
        change = Sensitivity(self.design.hull, size, public.relation)
        spent = NoisySum(self.name, change, self.noise).spent(
            replace(public, in_two_steps=False, neighbors=public.relation)
        )
        if spent.epsilon <= left:
            return 0.0
        if public.unit == "person":
            raise NotPrivate(f"{self.name}: no theorem covers this noise for persons and a delta")
        if left < 0 or not getattr(self.noise, "log_concave", False):
            raise NotPrivate(
                f"{self.name}: the noise spends {spent.epsilon:.9g} and the curvature {bent:.9g},"
                f" and epsilon = {epsilon:.9g} is stated"
            )
        delta = composed_delta(spent.losses, left)
        return up(corners(record, public.relation) * delta)

    @property
    def output_epsilon(self) -> float:
        return output_epsilon(self.epsilon, self.models)

    @property
    def n_classes(self) -> int:
        return count_predictors(self.loss)

    @cached_property
    def ridges(self) -> FloatArray:
        """The ridge of every released coordinate, those of one class after the other, (dim,)."""
        return np.tile(self.ridge, self.n_classes)

    def weigh(self) -> Callable[[DesignRows], DesignRows] | None:
        """Return the weights of rows; None if every row of the domain has weight 1."""
        if not self.design.row_norm**2 / np.min(self.ridge) > self.leverage:
            return None
        return weigher(self.design, self.ridge, self.leverage)

    @cached_property
    def tolerance(self) -> float:
        """Greatest |grad J| at which the solver may stop."""
        c, dim, curvature = self.loss.slope_bound, len(self.ridges), greatest_curvature(self.loss)
        if isinstance(self.loss, Softmax):
            # Bounds on the sums over the classes, for the errors of all slopes together.
            c, curvature = c * self.n_classes, 2 * self.loss.normalizer
        # A greater |V|_2 has a negligible probability. The fit may then end in an error.
        squares = variances(self.noise)  # their sum is E |V|_2^2
        radius = math.sqrt(float(squares.sum())) * (1 + 40 / math.sqrt(dim)) * math.sqrt(dim)
        facts = self.n_bound, self.design.row_norm, dim, c, curvature
        attainable = attainable_tolerance(*facts, linear_term=radius, stiffest=self.design.stiffest)
        # The output noise is then at most a tenth of the effect of V on any coefficient, for every
        # curvature of the objective. ``hiding`` is the standard deviation of a coordinate of the
        # output noise, per unit of tolerance.
        moved = np.sqrt(squares) / (self.n_bound * curvature + self.ridges)
        hiding = 3 * math.sqrt(dim) / self.output_epsilon
        return max(attainable, float(0.1 * np.min(moved) / hiding * np.min(self.ridge)))

    def release(
        self,
        rows: Kept,
        sample: KeptBlocks | None,
        n: int,
        label: int | None,
        rng: Generator,
    ) -> FloatArray:
        """Draw V, minimise, add the output noise, and return a point of the lattice.

        Its shape is (dim,), or (n_classes, dim) for a joint model. The arguments are those of
        `Objective`.
        """
        zeros, grid = np.zeros_like(self.ridges), self.publication
        whole = Objective(self.loss, rows, self.design, self.ridges, zeros, n, label, sample)

        def draw(generator: Generator) -> FloatArray:
            objective = replace(whole, linear_term=self.linear_term(generator))
            found = minimise(objective, self.tolerance)
            return publish_near(found.theta, grid.exponent, grid.scale, generator)

        near = publish(self, whole, draw, rng)
        return near.reshape(self.n_classes, -1) if self.n_classes > 1 else near

    def linear_term(self, rng: Generator) -> FloatArray:
        """Return a draw of V; that of a joint model has the mean 0 over the classes."""
        drawn = self.noise.rvs(rng)
        if self.n_classes == 1:
            return drawn
        by_class = drawn.reshape(self.n_classes, -1)
        return np.asarray((by_class - by_class.mean(axis=0)).ravel())

    @cached_property
    def publication(self) -> OutputNoise:
        """The lattice, and the noise on it that covers the distance from the exact minimiser.

        The solver and the sampler of V each change the gradient by a bounded amount. The sum of
        the bounds, divided by the least ridge, bounds the distance
        (``docs/proofs/objective_perturbation.md``, Theorem 4).
        """
        dim, epsilon = len(self.ridges), self.output_epsilon
        spread = math.sqrt(float(variances(self.noise).sum()))
        sampled = granularity_of(self.noise) * spread
        if self.n_classes > 1:  # subtracting the mean of the classes rounds
            sampled += (self.n_classes + 1) * 2.0**-44 * spread
        distance = (self.tolerance + sampled) / float(np.min(self.ridge)) * (1 + 1e-9)
        farthest = math.sqrt(dim) * distance  # in the l1 norm
        exponent = math.frexp(farthest / (dim * GRID_STEPS))[1] - 1
        # Rounding down may add a step in each coordinate.
        steps = math.ceil(math.ldexp(farthest, -exponent) * (1 + 1e-9)) + dim
        # The minimiser moves by at most ``steps`` under either data set: half of epsilon for each.
        least = 2 * steps / epsilon * (1 + 1e-9)
        if not least <= MOST_SCALE:
            rule = f"be large enough to hide the solver's inexactness in {dim} dimensions"
            raise fail("epsilon", rule, self.epsilon, "Use fewer columns or a larger epsilon.")
        scale = math.ceil(least)
        return OutputNoise(exponent, scale, steps, 2 * steps / scale)


@remembered(maxsize=512)
def failing_cost(
    record: Bounded, at_full_slope: float, leverage: float, epsilon: float, relation: str
) -> float | None:
    """Return None if e t(s) + rank log(1 + kappa(s) L / rank) <= epsilon for all slopes s.

    Otherwise a value that the left side has, or may have. On a cell [a, b] of slopes the curvature
    is at most ``curvature_bound(a, b)``, and t is greatest at b. Only cells that fail are split.
    """
    rank, least, c = rank_of(record), least_share_of(record), record.slope_bound
    low = 1 - np.geomspace(1.0, 1e-6, 400)
    high = np.append(low[1:], 1.0)

    def cost(a: FloatArray, b: FloatArray) -> FloatArray:
        curvature = np.asarray(record.curvature_bound(c * a, c * b), dtype=float)
        with np.errstate(invalid="ignore"):  # without curvature any leverage is allowed
            bent = np.where(curvature == 0, 0.0, np.log1p(curvature * leverage / rank))
        spent = at_full_slope * shift_share(b, relation, least) + rank * bent
        return np.asarray(np.where(np.isnan(spent), np.inf, spent) * _ROUNDING)

    while len(low):
        reached, bound, middle = cost(high, high), cost(low, high), (low + high) / 2
        fails = bound > epsilon
        no_more = ~((low < middle) & (middle < high))
        if (reached > epsilon).any() or (fails & no_more).any() or fails.sum() > _MOST_CELLS:
            return float(max(reached.max(), bound[no_more].max(initial=0.0)))
        low, middle, high = low[fails], middle[fails], high[fails]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return None


# Share of epsilon spent on hiding the solver's inexactness and the rounding to a lattice, and the
# most that all models together spend on it: it divides the delta of the noise by exp of its half.
OUTPUT_SHARE, MOST_OUTPUT = 1e-3, 1.0
# The greatest distance from the exact minimiser is at least so many steps of the lattice.
GRID_STEPS = 16


def shift_share(s: FloatArray, neighbors: str, least: float = 0.0) -> FloatArray:
    """Return t(s), the share of the sensitivity by which slopes of c and ``s`` c can move V.

    ``least`` is that of an added record at s = 0.
    """
    u = least + (1 - least) * s
    return (1 + u) / 2 if neighbors == "replace_one" else u


def output_epsilon(epsilon: float, models: int = 1) -> float:
    """Return the part of ``epsilon``, that of one model, that is spent on hiding the solver."""
    return min(OUTPUT_SHARE * epsilon, MOST_OUTPUT / models)


def weighted_length(
    design: Design, variance: ArrayLike, ridge: ArrayLike, leverage: ArrayLike
) -> FloatArray:
    """Return a bound on w(x) (sum_j x_j^2 / variance_j)^(1/2) over all rows x, (...).

    ``variance`` and ``ridge``, (..., groups), are those of each coordinate of a group; ``leverage``
    is (...). For columns of B-splines x'M^-1 x >= resistance |x|^2 / ridge takes the place of
    |x|^2 / ridge. The result is the exact supremum, rounded up, if the squared lengths of the
    groups' parts take all values between their bounds. They do for numbers, and for columns of two
    centred levels.

    With t = sum_j x_j^2 / ridge_j the greatest value K(t) of sum_j x_j^2 / variance_j is a
    fractional knapsack: groups are filled in the order of ridge / variance. So K is concave and
    linear between the breakpoints, and min(1, leverage / t)^2 K(t) has its maximum at a breakpoint,
    at t = leverage, or on a piece K = a + b t at t = -2 a / b.
    """
    least = np.array([group.least for group in design.groups])
    most = np.array([group.square for group in design.groups])
    resistance = np.array([group.resistance for group in design.groups])
    variance, ridge = np.broadcast_arrays(variance, np.asarray(ridge) / resistance)
    order = np.argsort(-(ridge / variance), axis=-1)
    shares = (values / by for by in (ridge, variance) for values in (least, most - least))
    low, more, base, gain = (np.take_along_axis(own, order, axis=-1) for own in shares)
    t, k = _sums(low, more), _sums(base, gain)
    rate = np.take_along_axis(ridge / variance, order, axis=-1)
    start, at_start = t[..., :-1], k[..., :-1]
    bound = np.asarray(leverage)[..., None]
    inner = [np.clip(at, start, t[..., 1:]) for at in (bound, 2 * (start - at_start / rate))]
    places = np.concatenate([t, *inner], axis=-1)
    lengths = np.concatenate([k, *(at_start + rate * (at - start) for at in inner)], axis=-1)
    with np.errstate(divide="ignore"):
        weights = np.minimum(1.0, bound / places)
    found = np.sqrt((weights**2 * lengths).max(axis=-1))
    return np.asarray(found * (ROUND_UP + _ADDITION * len(least)))


def _sums(first: FloatArray, steps: FloatArray) -> FloatArray:
    """Return the sum of ``first``, and that with one more of the steps each time."""
    total = first.sum(axis=-1, keepdims=True)
    return np.concatenate([total, total + np.cumsum(steps, axis=-1)], axis=-1)


def counts_weights(ball: NormBall) -> bool:
    """Return whether weights reduce the greatest gauge of a row in this ball.

    In the balls of other norms a row that is short in the Euclidean norm has the greatest gauge.
    """
    return type(ball) is LpBall and ball.weights is None and ball.p <= 2


def weighted_radius(
    design: Design, ball: NormBall, ridge: FloatArray, leverage: ArrayLike
) -> FloatArray:
    """Return a bound on w(x) times the gauge of x over all rows x, of the shape of ``leverage``."""
    whole = design.radius_in(ball)
    if not (isinstance(ball, LpBall) and counts_weights(ball)):
        return np.full(np.shape(leverage), whole)
    length = weighted_length(design, np.ones(len(design.groups)), ridge, leverage)
    # In dim dimensions |x|_p <= dim^(1/p - 1/2) |x|_2 for p <= 2.
    factor = ball.dim ** (1 / ball.p - 0.5) / ball.radius * ROUND_UP
    return np.asarray(np.minimum(whole, length * factor))


def per_coordinate(design: Design, per_group: FloatArray) -> FloatArray:
    """Return values of groups as values of their coordinates, (dim,)."""
    out = np.empty(design.dim)
    for group, value in zip(design.groups, per_group, strict=True):
        out[list(group.index)] = value
    return out


def per_group(design: Design, per_coordinate: FloatArray) -> FloatArray:
    """Return values of coordinates that are equal within groups, (groups,)."""
    return np.array([per_coordinate[group.index[0]] for group in design.groups])
