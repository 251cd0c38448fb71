"""Private regression of counts and costs by objective perturbation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, Never

import numpy as np
from sklearn.metrics import d2_tweedie_score

from skdp.domain import Domain
from skdp.linear_model._objective.advice import ModelTask, Reference, count_moments
from skdp.linear_model._objective.solve import ObjectiveEstimator, ObjectivePerturbation
from skdp.linear_model._shared.base import Algorithm, PrivateRegressor, Solution, with_parameters
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.predict import for_any_rows, score_by
from skdp.linear_model.losses import CappedPoisson
from skdp.linear_model.validation import is_auto
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_positive, fail

# The mean of the prior, and the threshold, as shares of the cap of the mean.
START, THRESHOLD = 0.2, 0.5


@with_parameters
class DPPoissonRegressor(PrivateRegressor, ObjectiveEstimator):
    """Private regression of counts and costs. Use it when the target is at least 0.

    Examples
    --------
    >>> from skdp import Domain, DPPoissonRegressor
    """

    _reference: ClassVar = Reference(
        "count",
        count_moments,
        signal=0.03,
        level_signal=0.03,
        intercept=1.0,
        least_ridge=True,
        usual_q=(0.965, 0.65),
    )

    threshold: Any = "auto"
    target_bounds_: tuple[float, float] = field(init=False)
    threshold_: float = field(init=False)

    def _algorithm(self) -> Algorithm:
        params = self._params()
        params.loss = "poisson"
        return ObjectivePerturbation(self._reference, self._losses, params, True)

    def _losses(self, task: ModelTask) -> tuple[CappedPoisson]:
        return (CappedPoisson(START, THRESHOLD),)

    def _public_domain(self, n_columns: int) -> Domain:
        if self.domain is None:
            return Domain.unit_box(n_columns, target=(0.0, 1.0))
        domain = super()._public_domain(n_columns)
        lower, upper = domain.target_bounds or (-1.0, 1.0)
        if lower != 0:
            raise fail("the domain's target", "have the lower bound 0", (lower, upper))
        return domain

    def _store(
        self, plan: Any, solution: Solution, attributes: dict[str, Any], design: Design
    ) -> None:
        loss, cap = plan.minimiser.loss, solution.attributes["target_bounds_"][1]
        # The encoded intercept is the logarithm of a mean in the user's units.
        intercept = solution.intercept + math.log(loss.start) + math.log(cap)
        super()._store(plan, replace(solution, intercept=intercept), attributes, design)
        self.threshold_ = loss.threshold * cap

    def _set_coefficients(self) -> None:
        encoded = self._encoded_coef, self._encoded_intercept
        coef, intercept = self._design.domain.decode_coef(*encoded)
        self.coef_, self.intercept_ = coef[0], float(intercept[0])

    @for_any_rows
    def predict(self, X: Any) -> FloatArray:
        """Return the means, in the target's units and at most the cap, (n,)."""
        cap = self.target_bounds_[1]
        link = CappedPoisson(0.5)
        return cap * link.mean(self._predictor(X)[:, 0] - math.log(cap / 2))

    score: ClassVar[Callable[..., float]] = score_by(partial(d2_tweedie_score, power=1), "D^2")


@with_parameters
class DPGammaRegressor(DPPoissonRegressor):
    """Private regression of costs."""

    score: ClassVar[Callable[..., float]] = score_by(partial(d2_tweedie_score, power=2), "D^2")
