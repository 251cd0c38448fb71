"""Noisy coordinate descent: models from many noisy gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, check_flag, check_interval, fail
from skdp.domain import Domain
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.descend import FARTHEST, Descent, Watch
from skdp.linear_model._descent.gradients import Gradients, keep_scaled
from skdp.linear_model._descent.joint import may_be_joint
from skdp.linear_model._descent.plan import DescentPlan, DescentTask, plan_descent
from skdp.linear_model._descent.rules import (
    WHOLE_RANGE,
    Kind,
    curvatures,
    joint_kind,
    penalties,
    residual_bound,
    roughness,
    scaling_of,
)
from skdp.linear_model._descent.scaling import DescentStage, Scaling
from skdp.linear_model._descent.slopes import ResidualSlope, logistic_slope, residual
from skdp.linear_model._shared.base import Solution
from skdp.linear_model._shared.gram import row_unit
from skdp.linear_model._shared.task import Progress, Records, Task
from skdp.linear_model._standardize.stage import check_scaling_share
from skdp.linear_model.validation import is_auto

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
    """Noisy coordinate descent with the parameters of an estimator.

    Parameters
    ----------
    kind : Kind
        The loss, and assumptions of the automatic choices about the model.
    asked : namespace
        The parameters of the estimator.
    """

    kind: Kind
    asked: Any

    def check(self, delta: float) -> None:
        """Raise an error unless the parameters are valid."""
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
        return plan_descent(descent, stage)

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
        models: list[Model] = []
        history: list[Progress] = []
        for k, label in enumerate((None,) if plan.task.joint else records.models):
            watch = self._watch(plan, scaling, k, history)
            facts = label, slope, descent.clips, records.label_weights, descent.classes
            gradients = Gradients(kept, plan.task.blocks, *facts)
            start = self._start(plan, scaling, k)
            theta = descent.run(gradients, start, plan.noise, rng, watch)
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
            choice=plan.choice,
            classes=plan.task.classes,
            rough=rough,
        )
        return descent, slope

    def _slope(self, plan: DescentPlan, scaling: Scaling) -> tuple[float, Any]:
        """Return the unit of the derivative of the loss, and the derivative.

        The unit is a bound on the derivative unless ``clip`` is a number.
        """
        clip = self.asked.clip
        if plan.task.joint:
            return 1.0, plan.task.joint
        if not self.kind.is_regression:
            return (float(clip) if isinstance(clip, Real) else 1.0), logistic_slope
        if isinstance(clip, Real):
            # ``clip`` is in the target's units. Gradients are those of targets in [-1, 1].
            ends = plan.task.blocks.domain.decode_target([-1.0, 1.0])
            return float(clip) * 2 / float(ends[1] - ends[0]), residual
        bound = residual_bound(plan, scaling) if is_auto(clip) else WHOLE_RANGE
        return bound, ResidualSlope(bound)

    def _watch(
        self, plan: DescentPlan, scaling: Scaling, model: int, history: list[Progress]
    ) -> Watch:
        """Return the function that is called after every pass of a model."""
        task, n_passes, callback = plan.task, plan.task.passes, self.asked.callback

        def watch(done: int, theta: FloatArray) -> bool:
            encoded = _encoded_model(task.blocks, scaling, theta)
            coef, intercept = self._decoded(task.blocks.domain, *encoded)
            own = (coef, intercept) if task.joint else (coef[0], float(intercept[0]))
            progress = Progress(model, task.n_models, done, n_passes, *own)
            history.append(progress)
            if self.asked.verbose:
                progress.show()
            return callback is not None and _called(callback, progress)

        return watch

    # The start

    def _start(self, plan: DescentPlan, scaling: Scaling, model: int) -> FloatArray:
        """Return the initial coordinates, (dim, *classes)."""
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
        """Return the initial models of the encoded columns."""
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


def _called(callback: Callable[[Progress], Any], progress: Progress) -> bool:
    """Return whether a callback ends the descent. A note on its errors says what it has seen."""
    try:
        return bool(callback(progress))
    except BaseException as error:
        error.add_note("The callback had seen the coefficients after every pass up to this one.")
        raise


def _check_unless_auto(value: Any, check: Any, name: str, *rules: Any) -> None:
    if not is_auto(value):
        check(name, value, *rules)
