"""Noisy proximal coordinate descent: models from many noisy gradients.

Each step releases the gradient of one block with noise and moves its coordinates. All other
computations use only released numbers. Statement and proof: ``docs/proofs/coordinate_descent.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.linear_model._descent.gradients import (
    Blocks,
    DescentStage,
    Gradients,
    Scaling,
    clipped_residual,
    keep_scaled,
    logistic_slope,
    residual,
)
from skdp.linear_model._descent.plan import (
    WHOLE_RANGE,
    DescentPlan,
    DescentTask,
    Kind,
    curvatures,
    joint_kind,
    may_be_joint,
    penalties,
    plan_descent,
    residual_bound,
    roughness,
    scaling_of,
)
from skdp.linear_model._shared.base import Solution
from skdp.linear_model._shared.gram import SUM_BITS, in_sum_units, row_unit
from skdp.linear_model._shared.task import Progress, Records, Task
from skdp.linear_model._standardize.stage import check_scaling_share
from skdp.linear_model.validation import is_auto
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_choice, check_count, check_flag, check_interval, fail
from skdp.trusted.draws import gumbels
from skdp.trusted.noise import Publication
from skdp.trusted.publish import ahead, publish

# Called with the number of completed passes and the coordinates. Returns whether to stop.
Watch = Callable[[int, FloatArray], bool]

# Coordinates are clipped to this, so that coefficients are finite for any step size.
FARTHEST = 2.0**20
# Outside of these, units of gradients and their squares could be 0 or infinite.
_LEAST_UNIT, _MOST_UNIT = 1e-60, 1e60
# Targets of steps with a penalty Q are clipped to this: sums of infinite ones are not defined.
_MOST_TARGET = 1e100
# About how many numbers are drawn at once.
_DRAWN = 2**10
# Additional bits of the noise of a choice, relative to the sums.
_MORE_BITS = 34


@dataclass(frozen=True, eq=False)
class Descent:
    """The parameters of the descent of one model; public or already released.

    Attributes
    ----------
    unit, step : ndarray of shape (dim,)
        The unit of the gradient of each coordinate, and the step per unit of the summed gradient; 0
        for coordinates that do not move.
    clips : ndarray of shape (dim,) or None
        As for `Gradients`.
    noise_factor : ndarray of shape (blocks,)
        Factors on the noise of each block.
    l1, ridge : ndarray of shape (dim,)
        The penalty sum_j l1_j |t_j| + ridge_j t_j^2 / 2 on the summed loss.
    order : {"cyclic", "random", "greedy"}
        A greedy pass is one step, which uses all gradients.
    average : bool
        Whether to average over the second half of the passes.
    together : bool
        Whether one change bounds those of all blocks of a pass: rows have a bounded length.
    choice : float or None
        Scale of the Gumbel noise by which greedy coordinates are chosen.
    classes : tuple of int
        The number of classes of a joint model, which are the last axis of coordinates and
        gradients, or nothing. Then arrays of shape (dim,) have the shape (dim, 1).
    rough : dict of int to ndarray
        For some blocks, whose l1 is 0, a matrix Q of shape (size, size) of the further penalty
        t'Q t / 2.
    """

    blocks: Blocks
    unit: FloatArray
    clips: FloatArray | None
    noise_factor: FloatArray
    step: FloatArray
    l1: FloatArray
    ridge: FloatArray
    n_passes: int
    order: str
    average: bool
    published: Publication
    together: bool = False
    choice: float | None = None
    classes: tuple[int, ...] = ()
    rough: dict[int, FloatArray] = field(default_factory=dict)

    def run(
        self,
        gradients: Gradients,
        start: FloatArray,
        releases: dict[str, Any],
        rng: Generator,
        watch: Watch,
    ) -> FloatArray:
        """Return the coordinates after all passes, (dim, *classes)."""
        theta = start.clip(-FARTHEST, FARTHEST)
        for block, place in enumerate(self.blocks.places):
            gradients.move(block, theta[place])
        tail: list[FloatArray] = []
        release = _Release(self, releases["gradients"], rng)
        count = len(self.blocks)
        for done in range(1, self.n_passes + 1):
            if self.order == "greedy":
                self._greedy_step(theta, gradients, release, releases["choices"], rng)
            else:
                release.renew()  # once per pass, in which each block occurs once
                is_random = self.order == "random"
                for block in rng.permutation(count).tolist() if is_random else range(count):
                    place = self.blocks.places[block]
                    gradient = release(place, gradients.of_block(block))
                    gradients.move(block, self._move(theta, block, place, gradient))
            if 2 * done > self.n_passes:
                tail.append(theta.copy())
            if watch(done, theta.copy()):
                break
        if not (self.average and tail):
            return theta
        # The mean, or 0 if most values are 0, as with an l1 penalty.
        stacked = np.array(tail)
        mostly = np.mean(stacked == 0, axis=0) > 0.5
        return np.where(mostly, 0.0, stacked.mean(axis=0))

    def _greedy_step(
        self,
        theta: FloatArray,
        gradients: Gradients,
        release: _Release,
        choice: Any,
        rng: Generator,
    ) -> None:
        """Move the coordinate with the largest noisy gradient."""
        exact = gradients.of_all()
        j = self._steepest(theta, exact, choice, rng)
        place = slice(j, j + 1)
        release.renew()
        gradient = release(place, exact[place])
        block = int(np.searchsorted([p.stop for p in self.blocks.places], j, side="right"))
        change = np.zeros(self.blocks.sizes[block])
        moved = self._move(theta, block, place, gradient)
        change[j - self.blocks.places[block].start] = moved[0]
        gradients.move(block, change)

    def _steepest(
        self, theta: FloatArray, exact: NDArray[Any], release: Any, rng: Generator
    ) -> int:
        """Draw a coordinate by the exponential mechanism; the score is the least subgradient."""
        scale = self.choice
        assert scale is not None
        known = np.where(theta != 0, np.sign(theta) * self.l1 + self.ridge * theta, 0.0)
        for block, rough in self.rough.items():
            known[self.blocks.places[block]] += rough @ theta[self.blocks.places[block]]
        slack = np.where(theta == 0, self.l1, 0.0)
        known, slack = known / self.unit, slack / self.unit
        # Integers: rounding errors would depend on the sums. The noise has additional bits.
        sums = zip(in_sum_units(exact).tolist(), known.tolist(), slack.tolist(), strict=True)
        scores = [max(abs(own + _fixed(k)) - _fixed(s), 0) for own, k, s in sums]
        free = np.flatnonzero(self.blocks.free).tolist()

        def draw(generator: Generator) -> int:
            noise = np.ldexp(scale * gumbels(len(theta), generator), SUM_BITS + _MORE_BITS)
            # The first of the greatest ones.
            return max(free, key=lambda j: (scores[j] << _MORE_BITS) + math.floor(noise[j]))

        facts = {"unit": -SUM_BITS, "scale": scale, "among": free}
        return publish(release, scores, draw, rng, **facts)

    @np.errstate(all="ignore")  # infinite coordinates are clipped to the box
    def _move(
        self, theta: FloatArray, block: int, place: slice, gradient: FloatArray
    ) -> FloatArray:
        if self.classes:
            # A common move of all classes would change no prediction.
            gradient = gradient - gradient.mean(axis=-1, keepdims=True)
        step, old = self.step[place], theta[place].copy()
        target = old - step * self.unit[place] * gradient
        shrunk = np.sign(target) * np.maximum(np.abs(target) - step * self.l1[place], 0)
        kept = 1 + step * self.ridge[place]
        if block in self.rough:
            moved = self._smooth(theta, block, place, shrunk, kept)
        else:
            moved = shrunk / kept
        theta[place] = moved.clip(-FARTHEST, FARTHEST)
        return np.asarray(theta[place] - old)

    def _smooth(
        self, theta: FloatArray, block: int, place: slice, target: FloatArray, kept: FloatArray
    ) -> FloatArray:
        """Return the coordinates that minimise the model of a step with the penalty Q."""
        whole, step = self.blocks.places[block], self.step[place]
        own = slice(place.start - whole.start, place.stop - whole.start)
        rough = self.rough[block][own]
        others = rough @ theta[whole] - rough[:, own] @ theta[place]
        matrix = np.diag(kept.ravel()) + step.reshape(-1, 1) * rough[:, own]
        return np.linalg.solve(matrix, (target - step * others).clip(-_MOST_TARGET, _MOST_TARGET))


class _Release:
    """Releases of the gradients of one model; the noise of some passes is drawn at once."""

    def __init__(self, descent: Descent, named: Any, rng: Generator) -> None:
        self._named, self._rng, self._n_passes = named, rng, descent.n_passes
        self._noise, self._parts = named.noise, len(descent.blocks) if descent.together else 1
        self._width = math.prod(descent.classes)
        factors = np.repeat(descent.noise_factor, descent.blocks.sizes).repeat(self._width)
        self._lattice, stretch = descent.published
        self._scale = stretch * factors
        self._add = self._lattice.adder(-SUM_BITS)
        self._passes = self._drawn()

    def renew(self) -> None:
        self._grains, self._ahead = next(self._passes)

    def _drawn(self) -> Iterator[tuple[list[int], Any]]:
        """Yield the noise of each pass, and where it is from; that of some is drawn at once."""
        dim, left = len(self._scale), self._n_passes
        while left > 0:
            count = min(left, max(1, _DRAWN // dim))
            left -= count
            stream = ahead(self._rng)
            draws = self._scale * self._noise.rvs(self._rng, (count, dim))
            grains = self._lattice.repeated(count).grains(-SUM_BITS, draws.ravel(), self._rng)
            for at in range(0, len(grains), dim):
                yield grains[at : at + dim], (stream, count, at)

    def __call__(self, place: slice, exact: NDArray[Any]) -> FloatArray:
        """Return exact sums, in units of 2^-40, plus their noise."""
        own = slice(place.start * self._width, place.stop * self._width)
        sums = in_sum_units(exact.ravel()).tolist()

        def draw(_: Generator) -> FloatArray:
            return self._add(own, sums, self._grains[own])

        facts = {"unit": -SUM_BITS, "scale": self._scale[own], "parts": self._parts}
        facts |= {"ahead": (*self._ahead, own, self._scale), "lattice": self._lattice}
        return publish(self._named, sums, draw, self._rng, **facts).reshape(exact.shape)


def _fixed(value: float) -> int:
    """Return a public number in units of 2^-70."""
    return round(math.ldexp(value, SUM_BITS))


Model = tuple[FloatArray, FloatArray]

PENALTIES = ("auto", "l1", "l2", "elasticnet", "none")
ORDERS = ("cyclic", "random", "greedy")
# Each pass keeps a model in history_, and has its share of the budget.
_MOST_PASSES = 10**6
_AUTO = 'Or give "auto".'
# Range of parameters whose products stay within the range of floats.
_MOST, _LEAST = 1e30, 1e-30


class FittedDescent:
    """Attributes that coordinate descent adds."""

    history_: list[Progress]


@dataclass(frozen=True, eq=False)
class CoordinateDescent:
    """Noisy coordinate descent of a kind of loss with the parameters ``asked`` of an estimator."""

    kind: Kind
    asked: Any

    def check(self, delta: float) -> None:
        asked, limits = self.asked, (_LEAST, _MOST, "both")
        if asked.penalty is not None:
            check_choice("penalty", asked.penalty, PENALTIES, "None stands for no penalty.")
        _check_unless_auto(asked.alpha, check_interval, "alpha", 0.0, _MOST, "both", _AUTO)
        check_interval("l1_ratio", asked.l1_ratio, 0.0, 1.0)
        _check_unless_auto(asked.n_passes, check_count, "n_passes", 1, _AUTO, _MOST_PASSES)
        _check_unless_auto(asked.step_size, check_interval, "step_size", *limits, _AUTO)
        if asked.clip is not None:
            remedy = "None clips least. " + _AUTO
            _check_unless_auto(asked.clip, check_interval, "clip", *limits, remedy)
        check_choice("order", asked.order, ORDERS)
        check_scaling_share(asked.scaling_share)
        check_flag("average", asked.average)
        if not isinstance(asked.verbose, bool):
            check_count("verbose", asked.verbose, 0)
        if asked.callback is not None and not callable(asked.callback):
            raise fail("callback", "be None or a function of a Progress", type(asked.callback))

    def plan(self, task: Task) -> DescentPlan:
        """Choose the releases and calibrate their noise, from public information only."""
        asked = self.asked
        # Other penalties are defined on the encoded columns, which leave out first levels.
        all_levels = is_auto(asked.penalty) and task.design.intercept
        blocks = Blocks(task.design.domain, task.design.intercept, all_levels)
        if isinstance(asked.clip, Real) and any(table is not None for table in blocks.tables):
            rule = 'be "auto" or None for a domain with splines'
            raise fail("clip", rule, asked.clip, "A record changes several of their coefficients.")
        if isinstance(asked.clip, Real) and not _LEAST_UNIT <= self._clip(blocks) <= _MOST_UNIT:
            rule = f"be {_LEAST_UNIT:g} to {_MOST_UNIT:g} times half the width of the target"
            raise fail("clip", rule, asked.clip, "It is in units of the target. " + _AUTO)
        stage = None
        if asked.scaling_share != 0:
            stage = DescentStage(blocks, self.kind.is_regression, task.n)
        descent = DescentTask(
            **vars(task),
            blocks=blocks,
            mechanism=asked.mechanism,
            share=None if is_auto(asked.scaling_share) else float(asked.scaling_share),
            n_passes=None if is_auto(asked.n_passes) else int(asked.n_passes),
            order=asked.order,
            clips=not is_auto(asked.clip),
        )
        is_joint = may_be_joint(asked.order, asked.mechanism, task.delta)
        if task.n_models > 1 and is_joint and not isinstance(asked.clip, Real):
            descent = replace(descent, n_models=1, n_classes=task.n_models)
        if asked.start is not None:
            self._starts(descent)  # raises an error before anything is spent
        plan = plan_descent(descent, stage)
        # These raise an error if 53-bit floats cannot keep the guarantee.
        plan.published()
        if plan.stage is not None:
            plan.stage_published()
        return plan

    def sums(self, plan: DescentPlan, records: Records) -> Any:
        """Return the records, the sums of a scaling stage or None, and scaled rows or None."""
        if plan.stage is not None:
            return records, plan.stage.exact(records.rows), None
        return records, None, keep_scaled(records.rows, plan.task.blocks, scaling_of(plan, None))

    def release(self, plan: DescentPlan, sums: Any, rng: Generator) -> Solution:
        """Release the scaling stage, and the gradients of every model."""
        records, exact, kept = sums
        seen = None if exact is None else plan.release_stage(exact, rng)
        scaling = scaling_of(plan, seen)
        if kept is None:
            kept = keep_scaled(records.rows, plan.task.blocks, scaling)
        descent, slope = self._descent(plan, scaling)
        releases = {own.name: own for own in plan.releases}
        models: list[Model] = []
        history: list[Progress] = []
        for k, label in enumerate((None,) if plan.task.joint else records.models):
            watch = self._watch(plan, scaling, k, history)
            facts = label, slope, descent.clips, records.label_weights, descent.classes
            gradients = Gradients(kept, plan.task.blocks, *facts)
            start = self._start(plan, scaling, k)
            theta = descent.run(gradients, start, releases, rng, watch)
            models.append(_encoded_model(plan.task.blocks, scaling, theta))
        passes = [progress.n_pass for progress in history]
        attributes: dict[str, Any] = {
            "history_": history,
            "n_iter_": max(passes),
            # Only a callback can end a descent before all planned passes.
            "converged_": sum(n == plan.task.passes for n in passes) == plan.task.n_models,
        }
        if plan.task.joint:
            attributes["normalizer_"] = plan.task.joint.normalizer
        coef, intercept = (np.concatenate(part) for part in zip(*models, strict=True))
        return Solution(coef, intercept, attributes)

    # The descent, from public and released information

    @np.errstate(all="ignore")  # penalties and steps may overflow
    def _descent(self, plan: DescentPlan, scaling: Scaling) -> tuple[Descent, Any]:
        """Return the descent, and the derivative of the loss in units of its bound."""
        blocks, joint, asked = plan.task.blocks, plan.task.joint, self.asked
        kind = joint_kind(joint) if joint else self.kind
        curvature = curvatures(blocks, scaling, kind)
        as_in_source = isinstance(asked.clip, Real)
        bound, slope = self._slope(plan, scaling)
        if as_in_source:
            # Muthukrishnan & Kalyani 2023, appendix D: C_j = C sqrt(M_j / sum M).
            unit = bound * np.sqrt(curvature / curvature[blocks.free].sum())
        else:
            unit = np.full(blocks.dim, bound)
        alpha = None if is_auto(asked.alpha) else float(asked.alpha)
        penalty, l1_ratio = asked.penalty or "none", float(asked.l1_ratio)
        l1, ridge = penalties(plan, scaling, kind, unit, penalty, alpha, l1_ratio)
        rough = roughness(blocks, scaling, ridge) if penalty == "auto" else {}
        for block in rough:
            ridge[blocks.places[block]] = 0.0
        size = kind.step if is_auto(asked.step_size) else float(asked.step_size)
        step = np.where(blocks.free, size / curvature, 0.0)
        shape = (blocks.dim, *(1 for _ in plan.task.classes))
        descent = Descent(
            blocks=blocks,
            unit=unit.reshape(shape),
            clips=unit if as_in_source else None,
            noise_factor=1 / plan.rows.precision,
            step=step.reshape(shape),
            l1=l1.reshape(shape),
            ridge=ridge.reshape(shape),
            n_passes=plan.task.passes,
            order=plan.task.order,
            average=bool(asked.average),
            published=plan.published(),
            together=plan.rows.bound is not None,
            choice=plan.choice,
            classes=plan.task.classes,
            rough=rough,
        )
        return descent, slope

    def _clip(self, blocks: Blocks) -> float:
        """Return the number ``clip`` in units of the gradients, for targets in [-1, 1]."""
        clip = float(self.asked.clip)
        if not self.kind.is_regression:
            return clip
        low, high = blocks.domain.decode_target([-1.0, 1.0]).tolist()
        return clip / float(high / 2 - low / 2)

    def _slope(self, plan: DescentPlan, scaling: Scaling) -> tuple[float, Any]:
        """Return the unit of the derivative of the loss, and the derivative.

        The unit is a bound on the derivative unless ``clip`` is a number.
        """
        clip = self.asked.clip
        if plan.task.joint:
            return 1.0, plan.task.joint
        if not self.kind.is_regression:
            unit = self._clip(plan.task.blocks) if isinstance(clip, Real) else 1.0
            return unit, logistic_slope
        if isinstance(clip, Real):
            return self._clip(plan.task.blocks), residual
        bound = residual_bound(plan, scaling) if is_auto(clip) else WHOLE_RANGE
        return bound, clipped_residual(bound)

    def _watch(
        self, plan: DescentPlan, scaling: Scaling, model: int, history: list[Progress]
    ) -> Watch:
        task, n_passes, callback = plan.task, plan.task.passes, self.asked.callback

        def watch(done: int, theta: FloatArray) -> bool:
            encoded = _encoded_model(task.blocks, scaling, theta)
            coef, intercept = self._decoded(task.blocks.domain, *encoded)
            own = (coef, intercept) if task.joint else (coef[0], float(intercept[0]))
            progress = Progress(model, task.n_models, done, n_passes, *own)
            history.append(progress)
            if self.asked.verbose:
                progress.show()
            try:
                return callback is not None and bool(callback(progress))
            except BaseException as error:
                note = "The callback had seen the coefficients after every pass up to this one."
                error.add_note(note)
                raise

        return watch

    # The start

    def _start(self, plan: DescentPlan, scaling: Scaling, model: int) -> FloatArray:
        blocks = plan.task.blocks
        shape = (blocks.dim, *plan.task.classes)
        if self.asked.start is None:
            theta = np.zeros(shape)
            theta[: blocks.intercept] = scaling.target_centre
            return theta
        coef, intercept = self._starts(plan.task)[model]
        coef[:, list(blocks.numbers)] *= row_unit(blocks.domain)
        coef, intercept = scaling.scaler(blocks).apply(coef, intercept)
        return blocks.of_model(coef.T, intercept).reshape(shape)

    def _starts(self, task: DescentTask) -> list[Model]:
        domain, each = task.blocks.domain, (task.n_models, task.n_classes)
        rule = (
            "be None or a pair of coefficients and intercept of coef_'s shape, at most 2^20 in"
            " the units of numbers and targets scaled to [-1, 1]"
        )
        remedy = "Give one row per model or class, such as (coef_, intercept_) of a public model."
        try:
            coef, intercept = (np.asarray(part, dtype=float) for part in self.asked.start)
            coef = coef.reshape(*each, domain.n_encoded)
            intercept = intercept.reshape(each)
        except (TypeError, ValueError):
            raise fail("start", rule, None, remedy) from None
        with np.errstate(all="ignore"):
            pairs = zip(coef, intercept, strict=True)
            models = [self._encoded(domain, *pair) for pair in pairs]
        # The comparison also rejects NaN.
        if not all(np.abs(np.append(*model)).max() <= FARTHEST for model in models):
            raise fail("start", rule, None, remedy)
        return models

    def _decoded(self, domain: Domain, coef: FloatArray, intercept: FloatArray) -> Model:
        return domain.decode_coef(coef, intercept, regression=self.kind.is_regression)

    def _encoded(self, domain: Domain, coef: FloatArray, intercept: FloatArray) -> Model:
        """Return models in the user's units as models of encoded columns: invert the affine map."""
        zeros, none, one = np.zeros_like(coef), np.zeros(len(coef)), np.ones(len(coef))
        zero, constant = self._decoded(domain, zeros, none)
        slopes, _ = self._decoded(domain, zeros + 1, none)
        _, unit = self._decoded(domain, zeros, one)
        coef = (coef - zero) / (slopes - zero)
        rest = intercept - self._decoded(domain, coef, none)[1]
        return coef, rest / (unit - constant)


def _encoded_model(blocks: Blocks, scaling: Scaling, theta: FloatArray) -> Model:
    """Return coefficients (classes, n_encoded) and intercepts (classes,) of the encoded columns."""
    coef, intercept = blocks.of_columns(theta)
    models = np.atleast_2d(coef.T), np.atleast_1d(intercept)
    encoded, rest = scaling.scaler(blocks).undo(*models)
    encoded[:, list(blocks.numbers)] /= row_unit(blocks.domain)
    return encoded, rest


def _check_unless_auto(value: Any, check: Any, name: str, *rules: Any) -> None:
    if not is_auto(value):
        check(name, value, *rules)
