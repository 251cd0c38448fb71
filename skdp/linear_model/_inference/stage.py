"""A private algorithm that is followed by the inference stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import check_interval, fail
from skdp.linear_model._inference.estimate import user_units
from skdp.linear_model._inference.inference import Inference
from skdp.linear_model._inference.plan import InferencePlan, plan_inference
from skdp.linear_model._inference.release import InferenceRelease
from skdp.linear_model._inference.scores import Scores
from skdp.linear_model._shared.base import Algorithm, Solution
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import row_unit
from skdp.linear_model._shared.records import Records
from skdp.linear_model._shared.task import Stage, Task, losses_of_all

_NOTES = (
    "Method: one step of Newton's method from the released model, with sums of scores and of"
    " curvatures; coef_ of the model is shrunk, the coefficients of this table are not.",
    "Standard errors are robust: they assume neither equal variances of the errors nor independent"
    " rows of a person. Records are independent.",
)
_LABEL_NOTES = (
    *_NOTES,
    "The coefficients are those of the logistic likelihood, for records clipped to the bounds of"
    " the domain. Rows far from the centre have smaller weights. Sampling errors contain a bound on"
    " the error of the one step, which is large if the released model is far from the estimate.",
)
_NUMBER_NOTES = (
    *_NOTES,
    "The coefficients are those of least squares with residuals clipped at 4 standard deviations,"
    " for records clipped to the bounds of the domain. Rows far from the centre have smaller"
    " weights. If errors are skewed, the intercept is not that of the mean.",
)
_REMEDIES = {
    "class_weight": "Weights of labels change the coefficients that are estimated.",
    "additive": "Declare the curves: Domain.additive.",
}
# Penalties that make coefficients 0, which would move from there.
_SPARSE = ("l1", "elasticnet")
# Covers the rounding of shares that add up to the budget.
ROUNDING = 1 - 1e-12


@dataclass(frozen=True, eq=False)
class InferredPlan:
    """The plan of a model, and of the inference stage."""

    model: Any
    inference: InferencePlan
    task: Task

    @property
    def noise(self) -> Any:
        """The noise of the model."""
        return self.model.noise

    @property
    def delta(self) -> float:
        """The delta that both spend."""
        return float(self.model.delta + self.inference.delta)

    @property
    def mechanism(self) -> str:
        """The sentence of a guarantee."""
        return f"{self.model.mechanism}, then {self.inference.mechanism}"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the fit. Parts of the budget are known for all of them, or for none."""
        every = (*self.model.stages, *self.inference.stages)
        if all(own.epsilon is not None for own in every):
            return every
        return tuple(replace(own, epsilon=None, delta=None) for own in every)

    @property
    def losses(self) -> tuple[Any, ...]:
        """Privacy losses with counts; empty if those of one part are unknown."""
        return losses_of_all((self.model.losses, self.inference.losses))

    def check_published(self) -> None:
        """Raise an error if 53-bit floats cannot keep the guarantee."""
        self.model.check_published()
        self.inference.check_published()


def with_inference(algorithm: Algorithm, asked: Any, is_regression: bool) -> Algorithm:
    """Return the algorithm, followed by the inference stage if it is asked for."""
    if asked.inference_share is None:
        return algorithm
    return Inferred(algorithm, asked, is_regression)


@dataclass(frozen=True, eq=False)
class Inferred:
    """An algorithm that spends a share of its budget on standard errors.

    Parameters
    ----------
    algorithm : Algorithm
        Of one model.
    asked : namespace
        The parameters of the estimator.
    is_regression : bool
    """

    algorithm: Any
    asked: Any
    is_regression: bool

    def check(self, delta: float) -> None:
        """Raise an error unless the parameters are valid."""
        check_interval("inference_share", self.asked.inference_share, 0.0, 1.0, "neither")
        for name in ("class_weight", "additive"):
            given = getattr(self.asked, name, None)
            if given is not None:
                rule = f"be None where {name} is given"
                raise fail("inference_share", rule, self.asked.inference_share, _REMEDIES[name])
        self.algorithm.check(delta)

    def plan(self, task: Task) -> InferredPlan:
        """Return both plans, whose budgets add up to that of the task."""
        if task.n_models > 1:
            rule = "be None for more than two labels"
            remedy = "Fit one model for each pair of labels."
            raise fail("inference_share", rule, self.asked.inference_share, remedy)
        own = float(self.asked.inference_share) * task.epsilon * ROUNDING
        first = replace(task, epsilon=(task.epsilon - own) * ROUNDING, delta=task.delta / 2)
        model = self.algorithm.plan(first)
        # Noise without a delta leaves all of it.
        left = (task.delta - model.delta) * ROUNDING if task.delta > 0 else 0.0
        stage = replace(task, epsilon=own, delta=left)
        return InferredPlan(model, plan_inference(stage, self.is_regression), task)

    def sums(self, plan: InferredPlan, records: Records) -> Any:
        """Return the statistics of the model, and the records."""
        return self.algorithm.sums(plan.model, records), records

    def release(self, plan: InferredPlan, sums: Any, rng: Generator) -> Any:
        """Release the model, and then what its standard errors need."""
        own, records = sums
        solution = self.algorithm.release(plan.model, own, rng)
        design = records.design
        scores = Scores(
            design.domain,
            solution.coef[0] * row_unit(design.domain),
            float(solution.intercept[0]),
            records.models[0],
        )
        stage = InferenceRelease(
            plan.inference,
            records.rows,
            design.intercept,
            scores,
            plan.task.known,
            # Only persons may have a cap. One row of a person then has a share below 1.
            plan.task.unit_rows != 1 or self.asked.rows_per_person != 1,
        )
        found, change, units, limits = stage.release(rng)
        rows, constants = user_units(design.domain, design.intercept, not records.labels)
        model = np.append(scores.constant, scores.slopes)[int(not design.intercept) :]
        notes = (*(_LABEL_NOTES if records.labels else _NUMBER_NOTES), *limits)
        facts = units, constants + rows @ model, design.domain, notes
        inference = Inference.of(found, *facts, n_records=plan.task.n)
        if getattr(self.asked, "penalty", None) in _SPARSE:
            change = np.zeros_like(change)
        moved = _moved(solution, design, change, inference)
        return replace(moved, attributes=moved.attributes | {"_inference": inference})


def _moved(
    solution: Solution, design: Design, change: FloatArray, inference: Inference
) -> Solution:
    """Return models whose coefficients are changed; then numbers are not clipped further."""
    if not change.any():
        return solution
    domain, attributes = design.domain, dict(solution.attributes)
    slopes = change[-domain.n_encoded :] / row_unit(domain)
    constant = change[0] if design.intercept else 0.0
    clipping = solution.clipping
    if clipping is not None:  # to the bounds of the domain only
        ends = np.ones_like(clipping.upper)
        clipping = replace(clipping, lower=-ends, upper=ends)
        attributes["bounds_"] = clipping.in_units(domain)
    if "coef_std_" in attributes:
        errors, q = inference.privacy_error, domain.n_encoded
        rows = inference.rows[-q:] / errors[-q:, None]
        attributes["coef_std_"] = errors[-q:]
        attributes["coef_corr_"] = rows @ inference.estimate.privacy @ rows.T
        attributes["intercept_std_"] = float(errors[0]) if len(errors) > q else 0.0
    coef, intercept = solution.coef + slopes, solution.intercept + constant
    facts = {"attributes": attributes, "clipping": clipping}
    return replace(solution, coef=coef, intercept=intercept, **facts)
