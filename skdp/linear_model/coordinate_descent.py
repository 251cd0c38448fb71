"""Private linear models by coordinate descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from skdp.domain import Domain
from skdp.linear_model._descent.advice import DescentPlan, may_be_joint, plan_descent, stage_sums
from skdp.linear_model._descent.gradients import (
    Blocks,
    Gradients,
    Scaling,
    Slope,
    clipped_residual,
    keep_scaled,
    logistic_slope,
    residual,
)
from skdp.linear_model._descent.solve import (
    DAMPING,
    FARTHEST,
    LOGISTIC,
    MOST_DAMPING,
    SQUARED,
    WHOLE_RANGE,
    Descent,
    Kind,
    curvatures,
    joint_kind,
    penalties,
    release_stage,
    residual_bound,
    roughness,
    scaling_of,
)
from skdp.linear_model._shared.base import (
    Algorithm,
    PrivateClassifier,
    PrivateLinearModel,
    PrivateRegressor,
    Solution,
    with_parameters,
)
from skdp.linear_model._shared.gram import exact_sums, row_unit
from skdp.linear_model._shared.scaling import check_share
from skdp.linear_model._shared.task import Progress, Records, Task
from skdp.linear_model.validation import is_auto
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_choice, check_count, check_flag, check_interval, fail

Model = tuple[FloatArray, FloatArray]  # coefficients and intercepts

PENALTIES = ("auto", "l1", "l2", "elasticnet", "none")
ORDERS = ("cyclic", "random", "greedy")
# Each pass keeps a model in history_, and has its share of the budget.
_MOST_PASSES = 10**6
_AUTO = 'Or give "auto".'
# Range of parameters whose products stay within the range of floats.
_MOST, _LEAST = 1e30, 1e-30
# Outside of these, units of gradients and their squares could be 0 or infinite.
_LEAST_UNIT, _MOST_UNIT = 1e-60, 1e60


@dataclass(frozen=True, eq=False)
class CoordinateDescent:
    """Noisy coordinate descent of a kind of loss with the parameters of an estimator."""

    kind: Kind
    params: Any

    def check(self, delta: float) -> None:
        params, limits = self.params, (_LEAST, _MOST, "both")

        def check_unless_auto(check: Callable[..., object], name: str, *rules: Any) -> None:
            if not is_auto(getattr(params, name)):
                check(name, getattr(params, name), *rules)

        if params.penalty is not None:
            check_choice("penalty", params.penalty, PENALTIES, "None stands for no penalty.")
        check_unless_auto(check_interval, "alpha", 0.0, _MOST, "both", _AUTO)
        check_interval("l1_ratio", params.l1_ratio, 0.0, 1.0)
        check_unless_auto(check_count, "n_passes", 1, _AUTO, _MOST_PASSES)
        check_unless_auto(check_interval, "step_size", *limits, _AUTO)
        if params.clip is not None:
            check_unless_auto(check_interval, "clip", *limits, "None clips least. " + _AUTO)
        check_choice("order", params.order, ORDERS)
        check_share("scaling_share", params.scaling_share, "0 uses the bounds of the domain.")
        check_flag("average", params.average)
        if not isinstance(params.verbose, bool):
            check_count("verbose", params.verbose, 0)
        if params.callback is not None and not callable(params.callback):
            raise fail("callback", "be None or a function of a Progress", type(params.callback))

    def plan(self, task: Task) -> DescentPlan:
        """Choose the releases and their noise, from public information only."""
        params, clip, share = self.params, self.params.clip, self.params.scaling_share
        # Other penalties are defined on the encoded columns, which leave out first levels.
        all_levels = is_auto(params.penalty) and task.design.intercept
        blocks = Blocks(task.design.domain, task.design.intercept, all_levels)
        if isinstance(clip, Real) and any(table is not None for table in blocks.tables):
            rule = 'be "auto" or None for a domain with splines'
            raise fail("clip", rule, clip, "A record changes several of their coefficients.")
        if isinstance(clip, Real) and not _LEAST_UNIT <= self._clip(blocks.domain) <= _MOST_UNIT:
            rule = f"be {_LEAST_UNIT:g} to {_MOST_UNIT:g} times half the width of the target"
            raise fail("clip", rule, clip, "It is in units of the target. " + _AUTO)
        if params.start is not None:
            self._starts(blocks.domain, task.n_models)  # raises an error before anything is spent
        is_joint = may_be_joint(params.order, params.mechanism, task.delta)
        plan = plan_descent(
            task,
            blocks,
            None if share == 0 else stage_sums(blocks, self.kind.is_regression, task.n),
            mechanism=params.mechanism,
            share=None if is_auto(share) else float(share),
            n_passes=None if is_auto(params.n_passes) else int(params.n_passes),
            order=params.order,
            clips=not is_auto(clip),
            is_joint=is_joint and task.n_models > 1 and not isinstance(clip, Real),
        )
        # These raise an error if 53-bit floats cannot keep the guarantee.
        plan.published(plan.factors)
        if plan.stage is not None and plan.stage.norm is None:
            plan.published(plan.ratio * plan.stage.units)
        return plan

    def sums(self, plan: DescentPlan, records: Records) -> Any:
        """Return the records, the sums of a scaling stage or None, and scaled rows or None."""
        if plan.stage is not None:
            return records, plan.stage.sums.exact(*exact_sums(records.rows)), None
        return records, None, keep_scaled(records.rows, plan.blocks, scaling_of(plan, None))

    def release(self, plan: DescentPlan, sums: Any, rng: Generator) -> Solution:
        (records, exact, kept), joint, blocks = sums, plan.joint, plan.blocks
        n_models, domain = plan.task.n_models, blocks.domain
        scaling = scaling_of(plan, None if exact is None else release_stage(plan, exact, rng))
        if kept is None:
            kept = keep_scaled(records.rows, blocks, scaling)
        descent, slope = self._descent(plan, scaling)
        clips = descent.unit if isinstance(self.params.clip, Real) else None
        models: list[Model] = []
        history: list[Progress] = []

        def watch(model: int, done: int, theta: FloatArray) -> bool:
            """Add a pass to the history; return whether the callback ends the descent."""
            coef, intercept = self._decoded(domain, *_encoded_model(blocks, scaling, theta))
            one = (coef, intercept) if joint else (coef[0], float(intercept[0]))
            history.append(Progress(model, n_models, done, plan.passes, *one))
            if self.params.verbose:
                history[-1].show()
            callback = self.params.callback
            try:
                return callback is not None and bool(callback(history[-1]))
            except BaseException as error:
                note = "The callback had seen the coefficients after every pass up to this one."
                error.add_note(note)
                raise

        for k, label in enumerate((None,) if joint else records.models):
            facts = label, slope, clips, records.label_weights, plan.classes
            gradients, start = Gradients(kept, blocks, *facts), self._start(plan, scaling, k)
            theta = descent.run(gradients, start, rng, partial(watch, k))
            models.append(_encoded_model(blocks, scaling, theta))
        passes = [progress.n_pass for progress in history]
        attributes: dict[str, Any] = {
            "history_": history,
            "n_iter_": max(passes),
            # Only a callback can end a descent before all planned passes.
            "converged_": passes.count(plan.passes) == n_models,
        }
        if joint:
            attributes["normalizer_"] = joint.normalizer
        coef, intercept = (np.concatenate(part) for part in zip(*models, strict=True))
        return Solution(coef, intercept, attributes)

    @np.errstate(all="ignore")  # penalties and steps may overflow
    def _descent(self, plan: DescentPlan, scaling: Scaling) -> tuple[Descent, Slope]:
        """Return the descent, and the derivative of the loss in units of its bound."""
        blocks, joint, params = plan.blocks, plan.joint, self.params
        kind = joint_kind(joint) if joint else self.kind
        curvature = curvatures(blocks, scaling, kind)
        unit: FloatArray = np.ones(blocks.dim)
        slope: Slope = joint or logistic_slope
        if isinstance(params.clip, Real):
            # Muthukrishnan & Kalyani 2023, appendix D: C_j = C sqrt(M_j / sum M).
            clip = self._clip(blocks.domain)
            unit = clip * np.sqrt(curvature / curvature[blocks.free].sum())
            slope = residual if kind.is_regression else slope
        elif kind.is_regression:
            bound = residual_bound(plan, scaling) if is_auto(params.clip) else WHOLE_RANGE
            unit, slope = np.full(blocks.dim, bound), clipped_residual(bound)
        alpha = None if is_auto(params.alpha) else float(params.alpha)
        penalty, l1_ratio = params.penalty or "none", float(params.l1_ratio)
        l1, ridge = penalties(plan, scaling, kind, unit, penalty, alpha, l1_ratio)
        is_damped = is_auto(params.step_size) and (penalty == "auto" or alpha is None)
        damping = min(DAMPING * plan.passes, MOST_DAMPING) * ridge if is_damped else 0.0
        rough = roughness(blocks, scaling, ridge) if penalty == "auto" else {}
        for block in rough:
            ridge[blocks.places[block]] = 0.0
        size = kind.step if is_auto(params.step_size) else float(params.step_size)
        step = np.where(blocks.free, size / (curvature + damping), 0.0)
        shape = (blocks.dim, *(1 for _ in plan.classes))
        unit, step, l1, ridge = (part.reshape(shape) for part in (unit, step, l1, ridge))
        return Descent(plan, unit, step, l1, ridge, bool(params.average), rough), slope

    def _clip(self, domain: Domain) -> float:
        """Return the number ``clip`` in units of the gradients, for targets in [-1, 1]."""
        clip = float(self.params.clip)
        if not self.kind.is_regression:
            return clip
        low, high = domain.decode_target([-1.0, 1.0]).tolist()
        return clip / float(high / 2 - low / 2)

    def _start(self, plan: DescentPlan, scaling: Scaling, model: int) -> FloatArray:
        blocks = plan.blocks
        shape = (blocks.dim, *plan.classes)
        if self.params.start is None:
            theta = np.zeros(shape)
            theta[: blocks.intercept] = scaling.target_centre
            return theta
        count = plan.joint.n_classes if plan.joint else plan.task.n_models
        own = slice(None) if plan.joint else slice(model, model + 1)
        coef, intercept = (part[own] for part in self._starts(blocks.domain, count))
        coef[:, list(blocks.numbers)] *= row_unit(blocks.domain)
        coef, intercept = scaling.scaler(blocks).apply(coef, intercept)
        return blocks.of_model(coef.T, intercept).reshape(shape)

    def _starts(self, domain: Domain, n_models: int) -> Model:
        """Return the user's ``start`` as models of the encoded columns."""
        rule = (
            "be None or a pair of coefficients and intercept of coef_'s shape, at most 2^20 in"
            " the units of numbers and targets scaled to [-1, 1]"
        )
        remedy = "Pass one row per model or class, such as (coef_, intercept_) of a public model."
        try:
            coef, intercept = (np.asarray(part, dtype=float) for part in self.params.start)
            coef = coef.reshape(n_models, domain.n_encoded)
            intercept = intercept.reshape(n_models)
        except (TypeError, ValueError):
            raise fail("start", rule, None, remedy) from None
        with np.errstate(all="ignore"):
            # `_decoded` is affine.
            zero, one = np.zeros_like(coef), np.ones_like(coef)
            coef = coef / self._decoded(domain, one, intercept)[0]
            ends = [self._decoded(domain, *pair)[1] for pair in ((zero, 0.0), (zero, 1.0))]
            intercept = intercept - self._decoded(domain, coef, 0.0)[1]
            intercept = intercept / (ends[1] - ends[0])
        # The comparison also rejects NaN.
        if not np.abs(np.column_stack([coef, intercept])).max() <= FARTHEST:
            raise fail("start", rule, None, remedy)
        return coef, intercept

    def _decoded(self, domain: Domain, coef: FloatArray, intercept: FloatArray | float) -> Model:
        return domain.decode_coef(coef, intercept, regression=self.kind.is_regression)


def _encoded_model(blocks: Blocks, scaling: Scaling, theta: FloatArray) -> Model:
    """Return coefficients (classes, n_encoded) and intercepts (classes,) of the encoded columns."""
    coef, intercept = blocks.of_columns(theta)
    models = np.atleast_2d(coef.T), np.atleast_1d(intercept)
    encoded, rest = scaling.scaler(blocks).undo(*models)
    encoded[:, list(blocks.numbers)] /= row_unit(blocks.domain)
    return encoded, rest


@with_parameters
class _DescentEstimator(PrivateLinearModel):
    """The parameters of both estimators.

    Parameters
    ----------
    delta : float in [0, 1), default=0.0
        The delta of the budget. Many noisy steps cost much less with a small delta, such as 1e-6,
        than with delta = 0.
    penalty : {"auto", "l1", "l2", "elasticnet", None}, default="auto"
        The penalty on the coefficients of the encoded columns: numbers scaled to [-1, 1], and
        indicators of all levels but the first. "auto" shrinks each coefficient, including the
        intercept, according to the size of the noise, and shrinks neighbouring coefficients of a
        spline towards each other. Other values do not penalise the intercept.
    alpha : float in [0, 1e30] or "auto", default="auto"
        Strength of the penalty ``alpha * (l1_ratio |w|_1 + (1 - l1_ratio) |w|_2^2 / 2)``, which is
        added to the mean loss. It corresponds to ``C = 1 / (n alpha)`` of scikit-learn's
        LogisticRegression and to ``alpha`` of its ElasticNet, for encoded columns and a target
        scaled to [-1, 1]. "auto" chooses it by the size of the noise.

    Other Parameters
    ----------------
    mechanism : str or Law, default="auto"
        The law of the noise of a step: "gaussian", "laplace", "logistic", "flipped_huber",
        "offset_gaussian", "subbotin", "truncated_laplace", a law of :mod:`skdp.noise` or a law that
        you define. Its scale is calibrated. "auto" is "laplace" if delta = 0, and otherwise
        "gaussian", or the better of both if each block has a separate budget. If delta = 0, the law
        must be pure DP, such as "laplace" or "logistic".
    l1_ratio : float in [0, 1], default=0.5
        The share of the l1 penalty if penalty="elasticnet".
    n_passes : int in [1, 1e6] or "auto", default="auto"
        Number of passes over all coordinates. With order="greedy" it is the number of steps.
    step_size : float in [1e-30, 1e30] or "auto", default="auto"
        Length of a step, in units of the inverse curvature of its coordinate. The curvature is
        bounded by the domain, or estimated privately. "auto" is 1.5 for numbers, 1 for two labels,
        and min(K / 2, 1.8) for a joint model of K classes, with up to three times an automatic
        ridge added to the curvature. Values of 2 or more may diverge; coefficients stay bounded.
    order : {"cyclic", "random", "greedy"}, default="cyclic"
        The order of the coordinates. "greedy" privately chooses the coordinate with the largest
        gradient. Use it for data with many columns of which few are relevant.
    average : bool, default=True
        Whether the model is the average over the passes after the first quarter, or the last one.
    start : None or pair of arrays, default=None
        Initial coefficients and intercepts, for example ``(model.coef_, model.intercept_)`` of a
        public model. They must not have been learned from these records without a guarantee.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of the budget spent on private estimates of means, squares and counts of levels, which
        are used to centre and scale numbers and to choose step sizes. 0 uses the bounds of the
        domain.
    verbose : int, default=0
        1 shows a progress bar on standard error.
    callback : None or callable, default=None
        Called after every pass with a :class:`~skdp.linear_model.Progress`. If it returns True, the
        descent of the model ends. The total budget is spent in any case. For a joint model it
        receives the coefficients of all classes.

    Attributes
    ----------
    history_ : list of Progress
        The models after each pass. The guarantee covers all of them.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether all planned passes were completed. False only if ``callback`` ended a descent early.
    noise_ : RepeatedNoise
        The law of the noise of a step, which is added to a sum over the records. If ``delta = 0``,
        its guarantee may omit the scaling stage; ``guarantee_`` covers the entire fit.
    """

    penalty: Any = "auto"
    alpha: Any = "auto"
    l1_ratio: float = 0.5
    n_passes: Any = "auto"
    step_size: Any = "auto"
    clip: Any = "auto"
    order: str = "cyclic"
    average: bool = True
    start: Any = None
    scaling_share: Any = "auto"
    verbose: int = 0
    callback: Any = None
    history_: list[Progress] = field(init=False)

    def _algorithm(self) -> Algorithm:
        return CoordinateDescent(self._kind, self._params())


@with_parameters
class DPCoordinateDescentClassifier(PrivateClassifier, _DescentEstimator):
    """Classifier for sparse models or all intermediate models: private coordinate descent.

    Each step releases one coordinate of the gradient with noise, and then moves this coordinate.
    The noise of all steps has one scale, which is calibrated by the exact composition of their
    privacy losses (Muthukrishnan & Kalyani 2023, appendix D, after Mangold, Bellet, Salmon &
    Tommasi 2022; here the bounds come from the domain rather than from the data). Statement and
    proof: ``docs/proofs/coordinate_descent.md``, Theorems 1 to 6 and 8. Records outside the public
    ``domain`` are clipped to its bounds.

    For K > 2 labels, one joint model with the loss `skdp.linear_model.losses.Softmax` is fitted if
    delta = 0 or the noise is Gaussian. Other noise with delta > 0, ``order="greedy"`` or a numeric
    ``clip`` lead to K one-versus-rest models, which share the budget and need more noise.

    Other Parameters
    ----------------
    clip : "auto", None or float > 0, default="auto"
        A number C clips the contribution of each record to the gradient of coordinate j at
        ``C sqrt(M_j / sum M)``, where M_j is the curvature of the coordinate, as in the source. The
        logistic loss needs no clipping. If the noise is Gaussian or delta = 0, "auto" gives smaller
        weights to records of large norm. None gives smaller weights only to records with a number
        far from its mean, or to no record if ``scaling_share`` is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPCoordinateDescentClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> domain = Domain.box([0, 0], [10, 10], target=["no", "yes"])
    >>> model = DPCoordinateDescentClassifier(epsilon=1.0, delta=1e-6, domain=domain)
    >>> model = model.fit(X, y)
    >>> print(round(model.score(X, y), 1))
    1.0
    >>> model.guarantee_.delta
    1e-06
    >>> [(release.name, release.times) for release in model.releases_]
    [('scaling', 1), ('gradients', 99)]
    """

    _kind: ClassVar = LOGISTIC


@with_parameters
class DPCoordinateDescentRegressor(PrivateRegressor, _DescentEstimator):
    """Regressor for Lasso, ridge and elastic net: private coordinate descent.

    Each step releases the gradient of one coordinate with noise and moves the coordinate; see
    :class:`DPCoordinateDescentClassifier`. Residuals are clipped, which bounds the effect of one
    record. Predictions are clipped to the bounds of the target. Statement and proof:
    ``docs/proofs/coordinate_descent.md``, Theorems 1 to 6.

    Other Parameters
    ----------------
    clip : "auto", None or float > 0, default="auto", units of the target
        "auto" clips residuals, which is equivalent to the Huber loss. The more noise, the narrower
        is the clipping, in standard deviations of the target. None clips residuals at the full
        range of the target. A number C clips the contribution of each record to the gradient of
        coordinate j at ``C sqrt(M_j / sum M)``, where M_j is the curvature of the coordinate, as in
        the source.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPCoordinateDescentRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=5000)
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 30))
    >>> model = DPCoordinateDescentRegressor(epsilon=1.0, delta=1e-6, domain=domain)
    >>> model = model.fit(X, y)
    >>> print(round(model.score(X, y), 1))
    1.0
    """

    _kind: ClassVar = SQUARED
