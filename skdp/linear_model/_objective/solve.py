"""Objective perturbation: the released coefficients minimise a randomly perturbed objective.

First a share of epsilon may be spent on means and mean squares of the numbers and of a regression's
target. Bounds are computed from them. Numbers are clipped to their bounds and scaled to [-1, 1]. A
target is scaled and not clipped, because the slope of the loss is bounded for every target
(``docs/proofs/objective_perturbation.md``, Theorem 5). The origin of the constants:
``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._compiled import kernels, load_kernels
from skdp.domain import Domain
from skdp.domain.layout import number_units
from skdp.geometry import NormBall
from skdp.linear_model._objective.advice import (
    DEGREE,
    Family,
    GaussianFamily,
    KNormFamily,
    ModelTask,
    Reference,
    calibrated,
    choose,
    leverage_apart,
    residual_moments,
    usual_knots,
)
from skdp.linear_model._objective.certificate import attainable_tolerance
from skdp.linear_model._objective.problem import (
    STEP,
    Curves,
    DesignRows,
    Terms,
    joined,
    row_builder,
    sample_of,
    terms_of,
)
from skdp.linear_model._objective.profiles import corners
from skdp.linear_model._objective.theorem import NoisyMinimiser, output_epsilon
from skdp.linear_model._shared.base import (
    PrivateLinearModel,
    PrivateRegressor,
    Solution,
    with_parameters,
)
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import (
    ROUNDER,
    ColumnSums,
    in_units,
    of_shares,
    release_exact,
    shared,
    sums_of,
)
from skdp.linear_model._shared.scaling import (
    CLIPPING,
    Scaler,
    check_share,
    sums_deviation,
    sums_noise,
    usual_share,
)
from skdp.linear_model._shared.task import Records, Task
from skdp.linear_model.losses import (
    AnyLoss,
    Loss,
    Softmax,
    greatest_curvature,
    require_loss,
    size_of_slopes,
)
from skdp.linear_model.validation import is_auto
from skdp.mechanisms import KNorm, KNormNoise, Sensitivity, calibrate
from skdp.mechanisms.calibrate import GAUSSIANS, LAWS, Noise
from skdp.mechanisms.knorm import NAMES
from skdp.rows import Kept, KeptBlocks
from skdp.rows.memory import most_blocks
from skdp.trusted.arrays import FloatArray, repeated, wide_rows
from skdp.trusted.certify import NoisySum, Release
from skdp.trusted.checks import check_choice, check_count, check_interval, fail
from skdp.trusted.noise import variances

# The most noise of the means. Numbers that are MAINLY of the coefficients may have the same bounds,
# with the noise MOST_POOLED in the average of their means: many lie at one end of their bounds.
MOST_NOISE, MOST_POOLED, MAINLY = 0.2, 0.4, 0.6
# Without a share of the user only the target of a regression is scaled: clipped numbers would bias
# its coefficients. The share of epsilon, the greatest noise of the mean, and the distance of the
# bounds from the centre in standard deviations.
TARGET_SHARE, TARGET_NOISE, TARGET_ALONE = 0.05, 0.1, 3.0
# Distance of the bounds from the centre in standard deviations, for numbers and for a target that
# is scaled with them. With more than FARTHER_FROM records per dimension and unit of 1 / epsilon it
# increases with the power FARTHER: clipping reduces the noise, and little noise needs less.
RADIUS, TARGET_RADIUS, FARTHER_FROM, FARTHER = 1.3, 2.0, 100.0, 0.2
# Counts and costs are summed on the scale log(1 + LOG_STEEPNESS y / Y) for a bound of Y. The cap of
# their mean is COUNT_RADIUS standard deviations above the centre on this scale, whose mean gets the
# noise COUNT_NOISE.
LOG_STEEPNESS, COUNT_RADIUS, COUNT_NOISE = 20.0, 3.0, 0.01
# The distance of the outermost knots of curves, for which wide bounds cost no noise. Few distant
# numbers determine the R^2 of a regression: with many records, and so many knots, it increases with
# the power CURVE_FARTHER of the increase of the others. The share of epsilon is at most
# CURVE_SHARE, and there is no release if the noise of a mean would exceed CURVE_NOISE.
CURVE_RADIUS, CURVE_FARTHER, CURVE_SHARE, CURVE_NOISE = 3.0, 1.5, 0.1, 0.1
# Estimated bounds are at least so far apart, as a share of the distance of the declared ones.
LEAST_WIDTH = 0.01


@dataclass(frozen=True, eq=False)
class ClippingBounds:
    """Bounds within [-1, 1] to which encoded numbers and the encoded target are clipped.

    ``columns`` are the encoded columns of the numbers; ``lower`` and ``upper`` have its shape.
    """

    columns: NDArray[np.intp]
    lower: FloatArray
    upper: FloatArray
    target: tuple[float, float] = (-1.0, 1.0)

    @classmethod
    def whole(cls, design: Design) -> ClippingBounds:
        columns = design.domain.number_index
        return cls(columns, np.full(len(columns), -1.0), np.ones(len(columns)))

    @cached_property
    def is_whole(self) -> bool:
        return bool((self.lower == -1).all() and (self.upper == 1).all())

    @cached_property
    def _wide(self) -> tuple[FloatArray, FloatArray]:
        return repeated(self.lower), repeated(self.upper)

    def scaler(self, n_encoded: int) -> Scaler:
        lower, upper = np.append(self.lower, self.target[0]), np.append(self.upper, self.target[1])
        columns = [*self.columns.tolist(), n_encoded]
        return Scaler.of(n_encoded, columns, (lower + upper) / 2, (upper - lower) / 2)

    def clip(self, numbers: FloatArray) -> None:
        if not self.is_whole:
            for rows in wide_rows(numbers):
                lower, upper = (bound[: rows.shape[1]] for bound in self._wide)
                # np.clip takes twice as long with arrays of bounds.
                np.maximum(rows, lower, out=rows)
                np.minimum(rows, upper, out=rows)

    def scale_target(self, target: NDArray[Any]) -> NDArray[Any]:
        """Return a target in units of its bounds; labels are not changed.

        It is not clipped: the slope of the loss is bounded for every target.
        """
        if self.target == (-1.0, 1.0):
            return target
        lower, upper = self.target
        return np.asarray((target - (lower + upper) / 2) / ((upper - lower) / 2))

    def in_units(self, domain: Domain) -> FloatArray:
        """Return the bounds in the user's units, (numbers, 2); for a ball those of its box."""
        half, centre = number_units(domain)
        return np.column_stack([self.lower * half + centre, self.upper * half + centre])

    def target_in_units(self, domain: Domain) -> tuple[float, float]:
        lower, upper = domain.decode_target(np.array(self.target)).tolist()
        return lower, upper


@dataclass(frozen=True, eq=False)
class ClippingStage:
    """The release from which clipping bounds are computed; public information only.

    ``epsilon`` is that of the stage, ``radius`` a factor on RADIUS and TARGET_RADIUS. If > 0,
    ``curve_radius`` is the distance of the bounds of numbers with curves in standard deviations. If
    ``is_count``, the target is summed on a logarithmic scale, and its lower bound is not estimated.
    """

    sums: ColumnSums
    noise: KNormNoise
    design: Design
    epsilon: float
    radius: float
    with_target: bool
    curve_radius: float = 0.0
    is_count: bool = False

    @cached_property
    def noisy_sum(self) -> NoisySum:
        change = self.sums.change("add_remove" if self.sums.is_counted else "replace_one")
        return NoisySum("scaling", change, self.noise, "objective_perturbation.md, Theorem 5")

    @property
    def part(self) -> Callable[[DesignRows], Any]:
        """The function whose sums over rows of a design are released."""
        target = (on_log_scale if self.is_count else np.copy) if self.with_target else None
        return shared(partial(_column_sums, target=target, with_numbers=self._with_numbers))

    @property
    def _with_numbers(self) -> bool:
        return len(self.sums.columns) > self.with_target

    def exact(self, found: Any) -> NDArray[Any]:
        """Return the sums of `part` in the order of the release, (dim,)."""
        *sums, count = of_shares(found)
        placed = np.zeros((2, self.design.domain.n_encoded + 1), dtype=object)
        placed[:, list(self.sums.columns)] = sums
        return self.sums.exact(placed[0], placed[1], count[0])

    def bounds(self, exact: NDArray[Any], rng: Generator) -> ClippingBounds:
        seen = self.sums.estimates(release_exact(self.noisy_sum, exact, rng))
        # The standard deviations of the noise in the means.
        first = int(self.sums.is_counted)
        noise = np.sqrt(variances(self.noise))[first : first + len(seen.mean)] / seen.n
        # Without an intercept the centres must be 0.
        means, squares = seen.mean, seen.square
        if noise[0] > MOST_NOISE and not self.with_target:
            # All numbers as one column: its mean and its mean square have less noise.
            noise = noise / math.sqrt(len(means))
            means, squares = (np.full(len(means), values.mean()) for values in (means, squares))
        mean = means.clip(-1, 1) if self.design.intercept else np.zeros_like(means)
        variance = CLIPPING.variance(squares.clip(0, 1) - mean**2, noise)
        radius = np.full(len(mean), self.curve_radius or self.radius * RADIUS)
        if self.with_target:
            usual = TARGET_RADIUS if self._with_numbers else TARGET_ALONE
            radius[-1] = self.radius * (COUNT_RADIUS if self.is_count else usual)
        half, centre = radius * np.sqrt(variance), CLIPPING.centre(mean, noise)
        lower, upper = np.maximum(centre - half, -1.0), np.minimum(centre + half, 1.0)
        whole, ends = ClippingBounds.whole(self.design), (-1.0, 1.0)
        if self.with_target:
            ends, lower, upper = (float(lower[-1]), float(upper[-1])), lower[:-1], upper[:-1]
            if self.is_count:
                ends = -1.0, min(_from_log_scale(ends[1]), 1.0)
        if not self._with_numbers:
            return replace(whole, target=ends)
        return ClippingBounds(whole.columns, lower, upper, ends)


def plan_clipping(
    task: Task,
    size: float,
    share: float | None,
    with_target: bool = False,
    curves: str | None = None,
    is_count: bool = False,
) -> ClippingStage | None:
    """Return a calibrated stage, or None if its means would be too noisy or there is no number.

    ``size`` is the number of records or a public guess of it, and ``share`` the share of epsilon.
    If ``share`` is None, the rules choose it. ``curves`` is "chosen" or "given" if numbers have
    curves with a number of knots that the rules or the user chose. ``is_count`` is the stage's.
    """
    design, epsilon = task.design, task.epsilon
    domain = design.domain
    if domain.is_ball and share is not None:
        rule = 'be "auto" or 0 where the domain bounds the length of rows'
        remedy = "Or declare a bound for each column: Domain.box."
        raise fail("scaling_share", rule, share, remedy)
    numbers = tuple(map(int, domain.number_index))
    columns = (*numbers, *(domain.n_encoded,) * with_target)
    if domain.is_ball or not columns:
        return None

    def noise_of(columns: tuple[int, ...]) -> float:
        """Return the noise of the means if all of epsilon is spent on them."""
        sums = ColumnSums(columns, task.n, columns)
        return sums_deviation(sums, task.records_changed) / (epsilon * size)

    apart = 0.0
    if share is None:
        own = target = 0.0
        if numbers and (curves or not with_target):
            own = min(usual_share(noise := noise_of(numbers)), CURVE_SHARE if curves else 1.0)
            pooled = MOST_POOLED * math.sqrt(len(numbers)) * (len(numbers) >= MAINLY * design.dim)
            own *= noise <= own * (CURVE_NOISE if curves else max(MOST_NOISE, pooled))
        if with_target:
            noise = noise_of(columns[-1:])
            target = usual_share(noise, COUNT_NOISE) if is_count else TARGET_SHARE
            target *= noise <= TARGET_NOISE * target
        share, apart = own + target, target if own else 0.0
        if not share:
            return None
        columns = columns if own and target else numbers if own else columns[-1:]
        apart, with_target = apart / share, target > 0
    sums, spent = ColumnSums(columns, task.n, columns), share * epsilon
    law = sums_noise(sums, task.records_changed, task.neighbors, spent, apart)
    weight = size * (epsilon - spent) / design.dim
    radius = max(1.0, weight / FARTHER_FROM) ** FARTHER
    is_farther = with_target and curves == "chosen"
    curve_radius = CURVE_RADIUS * (radius**CURVE_FARTHER if is_farther else 1.0) if curves else 0.0
    facts = radius, with_target, curve_radius, is_count
    return ClippingStage(sums, law, design, spent, *facts)


def on_log_scale(target: FloatArray) -> FloatArray:
    """Return log(1 + LOG_STEEPNESS y / Y) of an encoded target 2 y / Y - 1, scaled to [-1, 1]."""
    found = np.log1p(LOG_STEEPNESS / 2 * (target + 1)) * (2 / math.log1p(LOG_STEEPNESS)) - 1
    return np.asarray(np.clip(found, -1.0, 1.0, out=found))


def _from_log_scale(found: float) -> float:
    """Return the encoded target: the inverse of `on_log_scale`."""
    return math.expm1((found + 1) / 2 * math.log1p(LOG_STEEPNESS)) * 2 / LOG_STEEPNESS - 1


def _column_sums(
    rows: DesignRows,
    target: Callable[[FloatArray], FloatArray] | None,
    with_numbers: bool = True,
) -> tuple[NDArray[np.int64], ...]:
    """Return the sums of the columns and of their squares, and the number of rows.

    ``target`` returns a new array of encoded targets in [-1, 1]; None if they are not summed.
    """
    compiled, count = kernels(), np.array([len(rows)])
    numbers = rows.numbers if with_numbers else rows.numbers[:0]
    if compiled is None:
        found = sums_of(numbers.T.astype(np.float64))
    else:
        sums = np.empty((2, len(numbers)))
        compiled.sums_of_columns(numbers, ROUNDER, sums)
        found = in_units(sums[0]), in_units(sums[1])
    if target is None:
        return *found, count
    own = sums_of(target(rows.target)[:, None])
    return *(np.append(*pair) for pair in zip(found, own, strict=True)), count


def finisher(
    bounds: ClippingBounds,
    weigh: Callable[[DesignRows], DesignRows] | None,
    in_place: bool = False,
    curves: Curves | None = None,
) -> Callable[[DesignRows], DesignRows]:
    """Return the map that clips rows to bounds, scales them to [-1, 1], rounds and weighs them.

    With ``curves`` scaled numbers become positions. ``weigh`` returns rows with weights; None if
    every row has weight 1. If ``in_place``, the scaled numbers replace those of the rows in their
    array.
    """
    # 0 and 1 for the bounds of the domain.
    centre = ((bounds.lower + bounds.upper) / 2).astype(np.float32)
    factor = (1 / ((bounds.upper - bounds.lower) / 2)).astype(np.float32)
    # Adding and subtracting this rounds to multiples of the step.
    rounder = np.float32(1.5 * 2.0**23 * STEP)

    def finished(rows: DesignRows) -> DesignRows:
        numbers, compiled = rows.numbers if in_place else rows.numbers.copy(), kernels()
        if compiled is not None:
            compiled.scale_singles(numbers, centre, factor, rounder)
        else:
            numbers -= centre[:, None]
            numbers *= factor[:, None]
            np.clip(numbers, -1.0, 1.0, out=numbers)
            numbers += rounder
            numbers -= rounder
        # Rows of persons have weights already, which are kept.
        scaled = replace(rows, numbers=numbers, target=bounds.scale_target(rows.target))
        if curves:
            scaled = curves(scaled)
        return scaled if weigh is None else weigh(scaled)

    return finished


# If no order of magnitude is public, the solver's tolerance is set for so many records, otherwise
# for a multiple of the public number.
ASSUMED_RECORDS = 2**22
HEADROOM = 16
# The solver's tolerance divided by the ridge bounds the distance from the exact minimiser.
LEAST_RIDGE = 1e-3
# Ridges are raised until the standard deviation of the output noise is QUIET in each coefficient of
# encoded columns, but not above this multiple of the number of records.
QUIET, MOST_QUIET = 1e-3, 2e-5
# Share of epsilon for the noise of a mechanism that has its own calibration.
APART_Q = 0.8
_NAMES = ("auto", *sorted({*NAMES, *GAUSSIANS, *LAWS}))
# Names of losses that are joint for more than two classes.
JOINT = ("auto", "logistic")
# The other laws are pure DP.
_NEED_DELTA = {*GAUSSIANS, *LAWS} - {"laplace", "logistic"}


class Correction(Protocol):
    """A release after the coefficients, from which the intercept of each model is corrected."""

    @property
    def epsilon(self) -> float:
        """What the release spends."""

    @property
    def noisy(self) -> Release:
        """The release; one for all models."""

    def shift(
        self, loss: Any, terms: Terms, rows: Kept, ends: tuple[float, float], rng: Generator
    ) -> float:
        """Release, and return what is added to an intercept, in units of the scaled target.

        ``terms`` are those of the released predictor, and ``ends`` the bounds of predictions.
        """


@dataclass(frozen=True, eq=False)
class ObjectivePlan:
    """Perturbed objectives, with the scaling stage before and the correction after them."""

    minimisers: tuple[NoisyMinimiser, ...]
    noise: Any  # of the minimiser; a tuple for several
    releases: tuple[Release, ...]  # in their order
    clipping: ClippingStage | None
    curves: Curves | None
    correction: Correction | None


Losses = tuple[Callable[[ModelTask], tuple[Loss, ...]], ...]
# Loss, share q, ridge, leverage and noise of a `NoisyMinimiser`.
Calibrated = tuple[AnyLoss, float, FloatArray, float, Noise]


@dataclass(frozen=True, eq=False)
class ObjectivePerturbation:
    """Objective perturbation with the parameters ``params`` of an estimator.

    ``reference`` has the assumptions of the automatic choices. ``losses`` has a function for each
    objective, which returns the candidate losses of a `ModelTask`; several objectives have equal
    parts of the budget. ``scales_target`` says whether bounds of the target are estimated too; with
    the automatic share only these. ``correct`` plans a correction of the intercepts, if it returns
    one for a task, the number of records and whether the scale of the target is estimated.
    """

    reference: Reference
    losses: Losses
    params: Any
    scales_target: bool = False
    correct: Callable[[Task, float, bool], Correction | None] | None = None

    def check(self, delta: float) -> None:
        params, mechanism, remedy = self.params, self.params.mechanism, 'Or give "auto".'
        if not is_auto(params.regularization):
            given = params.regularization
            check_interval("regularization", given, 0.0, math.inf, "left", remedy)
        if not (params.additive is None or is_auto(params.additive)):
            check_count("additive", params.additive, remedy=remedy)
        check_share("scaling_share", params.scaling_share, "0 uses the bounds of the domain.")
        if not isinstance(params.loss, str):
            require_loss(params.loss, self.reference.target)
        if isinstance(mechanism, str):
            check_choice("mechanism", mechanism, _NAMES)
            if mechanism in _NEED_DELTA and delta == 0:
                rule = f"be > 0 for mechanism={mechanism!r}, which is not pure DP"
                raise fail("delta", rule, delta, 'Pass 1e-6 or mechanism="auto".')
        elif isinstance(mechanism, type) or not (self._has_calibration or self._has_ball):
            rule = "be a known name, a norm ball, a KNorm or an object with calibrate()"
            remedy = f"The names are {_NAMES}. See docs/development/add_a_mechanism.md for objects."
            raise fail("mechanism", rule, mechanism, remedy)

    def plan(self, task: Task) -> ObjectivePlan:
        knots, domain, curves = self.params.additive, task.design.domain, None
        if knots is not None and domain.n_numbers:
            if domain.is_ball:
                rule = "be None where the domain bounds the length of rows"
                raise fail("additive", rule, knots, "Declare a bound for each column: Domain.box.")
            if is_auto(knots):
                knots = usual_knots(self._model_task(task, task.epsilon))
            if knots:
                curves = Curves(task.design, int(knots), DEGREE)
                curves.check_room(LEAST_WIDTH)
        clipping, share = None, self.params.scaling_share
        has_bounds = self.scales_target or self.reference.target == "labels"
        if share != 0 and (not is_auto(share) or (is_auto(self.params.mechanism) and has_bounds)):
            size = self._model_task(task, task.epsilon).size
            given = None if is_auto(share) else float(share)
            chosen = "chosen" if is_auto(self.params.additive) else "given"
            whose = chosen if curves else None
            is_count = self.reference.target == "count"
            clipping = plan_clipping(task, size, given, self.scales_target, whose, is_count)
        if curves:
            task = replace(task, design=curves.design)
        correction = None
        if self.correct is not None and task.design.intercept:
            size = self._model_task(task, task.epsilon).size
            correction = self.correct(task, size, self.scales_target and clipping is not None)
        rest = task.epsilon - sum(own.epsilon for own in (clipping, correction) if own)
        if rest <= 0:
            raise fail("scaling_share", "leave epsilon to the coefficients", share)
        # The factor keeps the sum of all parts from rounding up.
        count = len(self.losses)
        rest *= 1 - 1e-15 * (count > 1 or correction is not None)
        parts = [replace(self, losses=(own,)) for own in self.losses]
        facts = task, rest, clipping is not None, self.losses
        minimisers = tuple(own._plan_objective(*facts) for own in parts)
        releases: list[Release] = [clipping.noisy_sum] if clipping else []
        releases += [*minimisers, *([correction.noisy] if correction else [])]
        noise = minimisers[0].noise if count == 1 else tuple(own.noise for own in minimisers)
        return ObjectivePlan(minimisers, noise, tuple(releases), clipping, curves, correction)

    def sums(self, plan: ObjectivePlan, records: Records) -> Any:
        """Return the records, rows of the design matrix, and the sums of a scaling stage."""
        rows, domain = records.rows, records.design.domain
        # A compiled function reads its rows once; arrays should fit in the cache.
        is_compiled = load_kernels(rows.n * domain.n_columns) is not None
        blocks = most_blocks(domain) if is_compiled else 1
        # Rows of a ball are rounded towards 0, by `Build`.
        dtype = None if domain.is_ball else np.float32
        kept = rows.keep(row_builder(records.design, records.label_weights), blocks, dtype=dtype)
        # Without a scaling stage the rows are read once, so that errors in them are found here.
        part, sample = plan.clipping.part if plan.clipping else len, None
        if kept.is_read_again:
            choose_rows = sample_of(rows.n, records.design.dim)
            found, sample = kept.sum(lambda own: (part(own), choose_rows(own)))
        else:
            found = kept.sum(part)
        return records, kept, sample, plan.clipping and plan.clipping.exact(found)

    def release(self, plan: ObjectivePlan, sums: Any, rng: Generator) -> Solution:
        """Release the clipping bounds, and a joint model or one for each label."""
        (records, kept, sample, exact), (minimiser, *others) = sums, plan.minimisers
        origin, curves, clipping = records.design, plan.curves, plan.clipping
        design = curves.design if curves else origin
        bounds = clipping.bounds(exact, rng) if clipping else ClippingBounds.whole(origin)
        ends = bounds.scale_target(np.array([-1.0, 1.0])).tolist()
        labels = (None,) if minimiser.n_classes > 1 else records.models
        models: list[FloatArray] = []
        for own in plan.minimisers:
            finish = finisher(bounds, own.weigh(), kept.may_change and not others, curves)
            chosen = joined(sample).map(finish) if sample else None
            # The next objective weighs the same rows anew.
            again = KeptBlocks([*kept.states]) if others and isinstance(kept, KeptBlocks) else kept
            finished = again.map(finish)
            found = [own.release(finished, chosen, records.rows.n, one, rng) for one in labels]
            if plan.correction:
                (theta,) = found  # a regression
                terms = terms_of(design, theta)
                theta[0] += plan.correction.shift(own.loss, terms, finished, ends, rng)
            models += found
        theta = models[0] if minimiser.n_classes > 1 else np.array(models)
        coef, intercept = design.coefficients(theta)
        domain = origin.domain
        if curves:
            domain = curves.domain(bounds.in_units(domain))
            bounds = replace(ClippingBounds.whole(design), target=bounds.target)
        attributes: dict[str, Any] = {
            "bounds_": bounds.in_units(domain),
            "loss_": minimiser.loss,
            "q_": minimiser.q,
            "ridge_": minimiser.ridge.copy(),
        }
        if others:
            attributes["loss_"] = tuple(own.loss for own in plan.minimisers)
            attributes["ridge_"] = np.array([own.ridge for own in plan.minimisers])
        if isinstance(minimiser.loss, Softmax):
            attributes["normalizer_"] = minimiser.loss.normalizer
        if self.reference.target != "labels":
            attributes["target_bounds_"] = bounds.target_in_units(domain)
        # The predictor of counts is not in units of the target.
        is_count = self.reference.target == "count"
        scaler = (replace(bounds, target=(-1.0, 1.0)) if is_count else bounds).scaler(
            domain.n_encoded
        )
        is_estimated = curves is not None and clipping is not None
        undone = scaler.undo(coef, intercept)
        return Solution(*undone, attributes, bounds, domain, is_estimated)

    def _plan_objective(
        self, task: Task, epsilon: float, is_part: bool, losses: Losses
    ) -> NoisyMinimiser:
        """Return the minimiser of one of the losses, which share epsilon and delta."""
        n_classes = self._joint_classes(task)
        own_models = 1 if n_classes > 1 else task.n_models
        n_models = own_models * len(losses)
        task = replace(task, n_models=n_models)
        # The models share epsilon; the factor keeps the sum from rounding up.
        epsilon = epsilon / n_models * (1 - 1e-15 * (n_models > 1 or is_part))
        hidden = output_epsilon(epsilon, own_models)
        # Hiding the solver's inexactness spends epsilon and multiplies delta (Theorem 4).
        delta = task.delta * math.exp(-n_models * hidden / 2) * (1 - 1e-12)
        share = {"hidden": hidden, "delta": delta, "scaled": is_part, "n_classes": n_classes}
        model = self._model_task(task, epsilon - hidden, **share)
        if len(losses) > 1:
            model = replace(model, together=tuple(own(model)[0] for own in losses))
        calibrate_all = self._apart if self._has_calibration else self._jointly
        loss, q, ridge, leverage, noise = calibrate_all(model)
        facts = _records_bound(task), task.design, own_models
        return NoisyMinimiser(loss, epsilon, q, ridge, leverage, noise, *facts)

    def _joint_classes(self, task: Task) -> int:
        """Return the number of classes of a joint model; 1 for separate models."""
        loss = self.params.loss
        if isinstance(loss, Softmax):
            if self._has_calibration:
                rule, name = "be a name or a norm ball for a Softmax", type(self.params.mechanism)
                raise fail("mechanism", rule, name, 'Or give loss="sharp".')
            if task.n_models == 1 or task.n_models != loss.n_classes:
                rule = "be for the number of labels, if it is a Softmax, and for more than two"
                raise fail("loss", rule, loss, 'Or give loss="auto".')
            return loss.n_classes
        is_joint = isinstance(loss, str) and loss in JOINT and not self._has_calibration
        return task.n_models if is_joint else 1

    def _model_task(self, task: Task, epsilon: float, **share: Any) -> ModelTask:
        """Return the task of one model, with its ``share`` of epsilon and all of delta."""
        # Without a public number: a medium one, 100 records per dimension and unit of 1 / epsilon.
        known = task.n_assumed or 100 * task.design.dim * max(1.0, 1 / epsilon)
        facts = {"size": float(known), "reference": self.reference, "epsilon": epsilon}
        return ModelTask(**vars(task) | {"delta": 0.0} | facts | share)

    def _jointly(self, task: ModelTask) -> Calibrated:
        """Calibrate gradient and curvature jointly, with the noise that the rules choose."""
        choice = choose(task, self.losses[0](task), self._families(task))
        if not is_auto(self.params.regularization):
            ridge = self._least_ridge(task, choice.family.leverage(task, choice))
            choice = choice._replace(ridge=ridge, leverage=math.inf)
        else:
            # The ridge above which the noise that hides the solver is QUIET in a coefficient.
            design, loss, dim = task.design, choice.loss, task.design.dim
            facts = _records_bound(task), design.row_norm, dim, size_of_slopes(loss)
            bound = greatest_curvature(loss)
            tolerance = attainable_tolerance(*facts, bound, stiffest=design.stiffest)
            quiet = 3 * math.sqrt(dim * task.n_classes) * tolerance / (task.hidden * QUIET)
            ridge = np.maximum(choice.ridge, min(quiet, MOST_QUIET * task.size))
            choice = choice._replace(ridge=ridge)
        return choice.loss, choice.q, choice.ridge, *calibrated(task, choice)

    def _families(self, task: ModelTask) -> Sequence[Family]:
        mechanism, (knorm_q, gaussian_q) = self.params.mechanism, self.reference.usual_q
        if is_auto(mechanism):
            families: list[Family] = [KNormFamily(usual_q=knorm_q)]
            return [*families, GaussianFamily(usual_q=gaussian_q)] if task.delta > 0 else families
        if isinstance(mechanism, str) and mechanism in GAUSSIANS:
            return [GaussianFamily(mechanism == "elliptic", gaussian_q)]
        if mechanism == "laplace":  # calibrated with the curvature as K-norm noise, which it is
            mechanism = "l1"
        if not isinstance(mechanism, NormBall | str):  # a mapped ball has a member ``ball``, too
            mechanism = mechanism.ball
        design = task.design
        ball = KNorm(mechanism).for_dim(design.hull)
        if ball.dim != design.dim:
            rule = f"have a ball of {design.dim} dimensions, one for each coefficient"
            raise fail("mechanism", rule, ball.dim, "The intercept is the first, if fitted.")
        return [KNormFamily(ball, knorm_q)]

    def _apart(self, task: ModelTask) -> Calibrated:
        """Spend q epsilon on the mechanism's own noise, and the rest on the curvature."""
        loss, mechanism = self.losses[0](task)[0], self.params.mechanism
        if task.are_persons and task.delta > 0:
            rule = "be a name or a norm ball where persons have several rows and delta > 0"
            remedy = "Pass delta=0, or mechanism='gaussian'."
            raise fail("mechanism", rule, type(mechanism), remedy)
        leverage = leverage_apart(task.of_record(loss), APART_Q, task.epsilon)
        ridge = self._least_ridge(task, leverage)
        sensitivity = Sensitivity(
            task.design.hull, task.records_changed * loss.slope_bound, task.neighbors
        )
        delta = task.delta / task.n_models / corners(loss, task.neighbors) * (1 - 1e-12)
        name = mechanism if isinstance(mechanism, str) else type(mechanism).__name__
        params = {"epsilon": APART_Q * task.epsilon} | ({"delta": delta} if delta > 0 else {})
        try:
            noise = calibrate(mechanism, sensitivity, **params)
        except ValueError as error:
            rule = f"be able to calibrate noise for {params}"
            raise fail("mechanism", rule, name, f"Its error is: {error}") from None
        if noise.guarantee.delta > 0 and not getattr(noise, "log_concave", False):
            remedy = "If it is log-concave, set log_concave = True in its class. Or give delta=0."
            raise fail("mechanism", "make log-concave noise where delta > 0", name, remedy)
        return loss, APART_Q, ridge, leverage, noise

    @property
    def _has_ball(self) -> bool:
        # By type: another class with a member ``ball`` may have its own calibration.
        return isinstance(self.params.mechanism, NormBall) or type(self.params.mechanism) is KNorm

    @property
    def _has_calibration(self) -> bool:
        mechanism = self.params.mechanism
        if isinstance(mechanism, str):
            return mechanism in LAWS and mechanism != "laplace"
        is_part = isinstance(mechanism, type) or self._has_ball
        return not is_part and callable(getattr(mechanism, "calibrate", None))

    def _least_ridge(self, task: ModelTask, leverage: float) -> FloatArray:
        """Return the least ridge with which every row has weight 1, plus the user's."""
        extra = 0.0 if is_auto(self.params.regularization) else float(self.params.regularization)
        least = max(task.design.row_norm**2 / leverage + extra, LEAST_RIDGE)
        return np.full(task.design.dim, least)


def _records_bound(task: Task) -> int:
    if task.n is not None:
        return task.n
    return ASSUMED_RECORDS if task.n_public is None else HEADROOM * task.n_public


@with_parameters
class ObjectiveEstimator(PrivateLinearModel):
    """The parameters of all estimators of objective perturbation.

    Parameters
    ----------
    delta : float in [0, 1), default=0.0
        The delta of the budget. If K-norm noise has a smaller expected error than Gaussian
        noise, it is used, and the guarantee has delta = 0.
    additive : None, "auto" or int >= 1, default=None
        Whether numeric columns have curves instead of linear effects: the model is then a sum of
        smooth functions of one column each. An int is the number of knots between the bounds of
        each column, which may be estimated privately (see ``scaling_share``). "auto" chooses a
        number of knots, or no curves, from the number of records, epsilon and the number of
        coefficients; with "add_remove", pass ``n_public``. Plot the curves with
        :class:`~skdp.inspection.ShapeDisplay`. To choose the knots, declare a
        :class:`~skdp.domain.Spline` in the domain.

    Other Parameters
    ----------------
    mechanism : str, NormBall, KNorm or object, default="auto"
        The noise that hides a record. "auto" chooses the noise with the least expected error of the
        coefficients. "l1", "l2", "linf", "hull" and norm balls stand for K-norm noise in that norm;
        "hull" is the convex hull of all possible rows. "gaussian" and "elliptic" need delta > 0 and
        stand for normal noise, with one variance or with one for each group of columns. The name of
        a law of `skdp.noise`, or an object with ``calibrate(sensitivity, *, epsilon, delta)``, is
        also accepted and is calibrated with 0.8 epsilon; if delta > 0, its noise must be
        log-concave. See docs/mathematics/which_noise_when.md.
    regularization : float >= 0 or "auto", default="auto"
        Strength of the ridge penalty: ``regularization / 2`` times the squared length of the
        encoded coefficients is added to the loss, which is summed over the records, in addition to
        the ridge that the privacy proof requires. It corresponds to 1 / C of
        :class:`sklearn.linear_model.LogisticRegression` for numbers scaled to [-1, 1]. "auto"
        chooses a ridge for each group of columns, and gives rows of high leverage less weight.

    Attributes
    ----------
    bounds_ : ndarray of shape (n_numbers, 2)
        Clipping bounds of the numeric columns without curves, in the units of the columns:
        privately estimated, or those of the domain. The guarantee covers them.
    domain_ : Domain
        The domain of the coefficients. If ``additive`` adds curves, their columns are
        :class:`~skdp.domain.Spline` objects, with knots between bounds that the guarantee covers.
        Otherwise it is ``domain``.
    q_ : float
        The share of epsilon that was spent on the noise of the linear term.
    ridge_ : ndarray of shape (n_encoded + 1,), or (n_encoded,) without an intercept
        The ridge of each coordinate, the intercept first, for numbers whose clipping bounds are
        scaled to [-1, 1]. All models have the same.
    loss_ : Loss or Softmax
        The loss that was used.
    noise_ : KNormNoise, GaussianNoise or the noise of the given mechanism
        The law of the random linear term, without its draw.
    n_iter_ : int
        Always 1: the number of steps of the solver is not released.
    converged_ : bool
        Always True: if the solution cannot be certified, ``fit`` raises an error.
    """

    additive: Any = None
    regularization: Any = "auto"
    scaling_share: Any = "auto"
    bounds_: FloatArray = field(init=False)
    q_: float = field(init=False)
    ridge_: FloatArray = field(init=False)
    loss_: AnyLoss = field(init=False)


@with_parameters
class ObjectiveRegressor(PrivateRegressor, ObjectiveEstimator):
    """What all regressors of objective perturbation have.

    Attributes
    ----------
    target_bounds_ : pair of floats, units of the target
        Bounds that scale the target to [-1, 1] in the loss: privately estimated, or those of the
        domain. The target is not clipped to them. The guarantee covers them.
    """

    # The curvature costs little, so nearly all of epsilon is spent on the gradient; with Gaussian
    # noise less of it.
    _reference: ClassVar = Reference(
        "number",
        residual_moments,
        signal=0.01,
        level_signal=0.01,
        intercept=0.2,
        least_ridge=True,
        usual_q=(0.965, 0.65),
    )

    target_bounds_: tuple[float, float] = field(init=False)
