"""Objective perturbation, calibrated for gradient and curvature jointly.

The released parameter minimises

    J(theta) = sum_i w(x_i) phi(x_i'theta, y_i) + 1/2 theta'M theta + V'theta,

with V of density proportional to exp(-|v|_K / scale), weights 0 <= w(x) <= min(1, leverage / l(x)),
and l(x) = x'M^-1 x. M is diagonal with the ridges, times the matrix of the smoothness penalty for
columns of B-splines. Let w(x) |x|_K <= B over the domain, c the slope bound of phi, and
kappa(s) a bound on its curvature where the slope is at most c and at least s. With
scale = 2 c B / (epsilon q) under replace-one, c B / (epsilon q) under add/remove, and
t(s) = (1 + s/c) / 2 or s/c, the minimiser is epsilon-private if for every s in [0, c]

    epsilon q t(s) + log(1 + kappa(s) leverage) <= epsilon.

Statement and proof: docs/proofs/objective_perturbation.md, Theorem 1; it sharpens Awan &
Slavkovic (2020), Theorem 4.1, which bounds the two terms apart. Theorem 4 of that page covers the
inexactness of the solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp.geometry import LpBall, NormBall
from skdp.linear_model._objective.profiles import least_share_of, rank_of
from skdp.linear_model._shared.design import Design
from skdp.linear_model._solver.certificate import attainable_tolerance
from skdp.linear_model._solver.problem import Coordinates, DesignRows, Objective, weigher
from skdp.linear_model._solver.solve import minimise
from skdp.linear_model.losses import AnyLoss, Bounded, Softmax, count_predictors, greatest_curvature
from skdp.mechanisms.calibrate import Noise
from skdp.rows import Kept, KeptBlocks
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_count, check_interval, check_positive, fail
from skdp.trusted.draws import MOST_SCALE
from skdp.trusted.identity import remembered
from skdp.trusted.noise import variances
from skdp.trusted.publish import publish
from skdp.trusted.randomness import granularity_of, publish_near
from skdp.trusted.rounding import ROUND_UP

# Share of epsilon spent on hiding the solver's inexactness and the rounding to a lattice, and the
# most that all models together spend on it: it divides the delta of the noise by exp of its half.
OUTPUT_SHARE = 1e-3
MOST_OUTPUT = 1.0
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


class OutputNoise(NamedTuple):
    """Discrete Laplace noise of ``scale`` steps of a lattice with spacing 2^exponent."""

    exponent: int
    scale: int
    steps: int

    @property
    def epsilon(self) -> float:
        """What it spends: the minimiser moves by at most ``steps`` under either data set."""
        return 2 * self.steps / self.scale


@dataclass(frozen=True)
class Perturbation:
    """A calibrated objective; it depends on public information only.

    ``epsilon`` is that of one model, with the part that hides the solver's inexactness. ``ridge``,
    of the coordinates of a row, is the same for all classes of a joint model, which counts as one
    of the ``models``. ``leverage`` is the bound that the weights enforce (`greatest_leverage`),
    ``noise`` the law of V, and ``row_norm`` the greatest Euclidean norm of a row. The solver's
    tolerance is set for the public number ``n_bound`` of records. ``stiffest`` is the greatest
    absolute sum of a row of the penalty's matrix, in ridges.
    """

    loss: AnyLoss
    epsilon: float
    q: float
    ridge: FloatArray
    leverage: float
    noise: Noise
    row_norm: float
    n_bound: int
    models: int = 1
    stiffest: float = 1.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "row_norm", "stiffest"):
            check_positive(name, getattr(self, name))
        check_interval("q", self.q, 0.0, 1.0)
        for name in ("n_bound", "models"):
            check_count(name, getattr(self, name))
        if not (self.leverage > 0 and (np.isfinite(self.ridge) & (self.ridge > 0)).all()):
            raise fail("leverage and ridge", "be numbers > 0")

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

    def weigh(self, coordinates: Coordinates) -> Callable[[DesignRows], DesignRows] | None:
        """Return the weights of rows; None if every row of the domain has weight 1."""
        if not self.row_norm**2 / np.min(self.ridge) > self.leverage:
            return None
        return weigher(coordinates, self.ridge, self.leverage)

    @cached_property
    def _spread(self) -> float:
        """Square root of E |V|_2^2."""
        return math.sqrt(float(variances(self.noise).sum()))

    @cached_property
    def tolerance(self) -> float:
        """Greatest |grad J| at which the solver may stop."""
        c, dim, curvature = self.loss.slope_bound, len(self.ridges), greatest_curvature(self.loss)
        if isinstance(self.loss, Softmax):
            # Bounds on the sums over the classes, for the errors of all slopes together.
            c, curvature = c * self.n_classes, 2 * self.loss.normalizer
        # A greater |V|_2 has a negligible probability. The fit may then end in an error.
        radius = self._spread * (1 + 40 / math.sqrt(dim)) * math.sqrt(dim)
        facts = self.n_bound, self.row_norm, dim, c, curvature
        attainable = attainable_tolerance(*facts, linear_term=radius, stiffest=self.stiffest)
        # The output noise is then at most a tenth of the effect of V on any coefficient, for every
        # curvature of the objective. ``spread`` is the standard deviation of a coordinate of the
        # output noise, per unit of tolerance.
        moved = np.sqrt(variances(self.noise)) / (self.n_bound * curvature + self.ridges)
        spread = 3 * math.sqrt(dim) / self.output_epsilon
        return max(attainable, float(0.1 * np.min(moved) / spread * np.min(self.ridge)))

    def release(
        self,
        release: Any,
        rows: Kept,
        sample: KeptBlocks | None,
        coordinates: Coordinates,
        n: int,
        label: int | None,
        rng: Generator,
    ) -> FloatArray:
        """Draw V, minimise, add the output noise, and return a point of the lattice.

        Its shape is (dim,), or (n_classes, dim) for a joint model. ``release`` is the
        `NoisyMinimiser`, and the other arguments are those of `Objective`.
        """
        facts = self.row_norm, n, label, sample
        whole = Objective(
            self.loss, rows, coordinates, self.ridges, np.zeros_like(self.ridges), *facts
        )

        def draw(generator: Generator) -> FloatArray:
            objective = replace(whole, linear_term=self.linear_term(generator))
            found = minimise(objective, self.tolerance)
            return publish_near(found.theta, self.hidden.exponent, self.hidden.scale, generator)

        near = publish(release, whole, draw, rng)
        return near.reshape(self.n_classes, -1) if self.n_classes > 1 else near

    def linear_term(self, rng: Generator) -> FloatArray:
        """Return a draw of V; that of a joint model has the mean 0 over the classes."""
        drawn = self.noise.rvs(rng)
        if self.n_classes == 1:
            return drawn
        by_class = drawn.reshape(self.n_classes, -1)
        return np.asarray((by_class - by_class.mean(axis=0)).ravel())

    @cached_property
    def hidden(self) -> OutputNoise:
        """Output noise that covers the distance from the exact minimiser.

        The solver and the sampler of V each change the gradient by a bounded amount. The sum of
        the bounds, divided by the least ridge, bounds the distance
        (``docs/proofs/objective_perturbation.md``, Theorem 4).
        """
        dim, epsilon = len(self.ridges), self.output_epsilon
        sampled = granularity_of(self.noise) * self._spread
        if self.n_classes > 1:  # subtracting the mean of the classes rounds
            sampled += (self.n_classes + 1) * 2.0**-44 * self._spread
        distance = (self.tolerance + sampled) / float(np.min(self.ridge)) * (1 + 1e-9)
        farthest = math.sqrt(dim) * distance  # in the l1 norm
        exponent = math.frexp(farthest / (dim * GRID_STEPS))[1] - 1
        # Rounding down may add a step in each coordinate.
        steps = math.ceil(math.ldexp(farthest, -exponent) * (1 + 1e-9)) + dim
        # The minimiser moves by at most ``steps`` under either data set: half of epsilon for each.
        scale = 2 * steps / epsilon * (1 + 1e-9)
        if not scale <= MOST_SCALE:
            rule = f"be large enough to hide the solver's inexactness in {dim} dimensions"
            raise fail("epsilon", rule, self.epsilon, "Use fewer columns or a larger epsilon.")
        return OutputNoise(exponent, math.ceil(scale), steps)


# Relative error of one addition of floats, with a margin.
_ROUNDING = 4 * float(np.finfo(float).eps)


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
    return np.asarray(found * (ROUND_UP + _ROUNDING * len(least)))


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
    """Return a bound on w(x) times the gauge of x over all rows x, of the shape of ``leverage``.

    In dim dimensions |x|_p <= dim^(1/p - 1/2) |x|_2 for p <= 2.
    """
    whole = design.radius_in(ball)
    if not (isinstance(ball, LpBall) and counts_weights(ball)):
        return np.full(np.shape(leverage), whole)
    length = weighted_length(design, np.ones(len(design.groups)), ridge, leverage)
    factor = ball.dim ** (1 / ball.p - 0.5) / ball.radius * ROUND_UP
    return np.asarray(np.minimum(whole, length * factor))
