"""Private regression of counts and costs by objective perturbation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar

from sklearn.metrics import d2_tweedie_score

from skdp.domain import Domain
from skdp.linear_model._objective.advice import ModelTask, Reference, count_moments
from skdp.linear_model._objective.solve import ObjectivePerturbation, ObjectiveRegressor
from skdp.linear_model._shared.base import Algorithm, Solution, with_parameters
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.predict import for_any_rows, score_by
from skdp.linear_model.losses import CappedPoisson
from skdp.linear_model.validation import is_auto
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_interval, fail

# The mean at a predictor of 0 is the share START of the cap; it is smaller in proportion to the
# square root of n epsilon / d if that is below SMALL. The threshold, as a share of the cap, is
# LEAST and increases with the power POWER of n epsilon / d above SMALL, up to GREATEST.
START, LEAST, SMALL, POWER, GREATEST = 0.25, 0.2, 100.0, 0.3, 2.0


@with_parameters
class DPPoissonRegressor(ObjectiveRegressor):
    """Private regression of counts. Use it if the target is at least 0 and effects multiply.

    The logarithm of the mean is a linear function of the columns. The method is objective
    perturbation of the score of the Poisson likelihood, with a bounded link and bounded residuals
    (:class:`~skdp.linear_model.losses.CappedPoisson`). The target need not have a Poisson
    distribution. Means are at most a cap, which is estimated privately: skewed targets need noise
    in proportion to their cap and not to their declared bound. Statements and proofs:
    ``docs/proofs/objective_perturbation.md``, "Counts".

    Parameters
    ----------
    domain : Domain, default=None
        Public bounds and levels of the columns, and bounds of the target, ``target=(0, upper)``.
        If None, the columns are clipped to [-1, 1] and the target to [0, 1], with an
        :class:`~skdp.privacy.UndeclaredDomainWarning`.

    Other Parameters
    ----------------
    threshold : float in [1/8, 1e6] or "auto", default="auto", in units of the cap
        The residual at which the loss turns from quadratic to linear. A small threshold needs less
        noise, and makes the predictions for skewed targets too small. "auto" chooses it from the
        number of records, epsilon and the number of coefficients.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated bounds. "auto" spends a twentieth to a fifth
        on the cap of the mean, or nothing if there are few records or if ``mechanism`` is given.
        A number > 0 also estimates clipping bounds of the columns. With 0 the cap is the upper
        bound of the target. If ``additive`` is given, "auto" spends up to another tenth on the
        bounds of the knots.

    Attributes
    ----------
    coef_ : ndarray of shape (n_encoded,), log of the mean per unit of the column
    intercept_ : float, log of the mean
    target_bounds_ : pair of floats, units of the target
        0 and the cap of the mean. The target is not clipped to it. The guarantee covers it.
    threshold_ : float, units of the target
        The threshold of the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPPoissonRegressor
    >>> domain = Domain({"age": (20, 80), "smoker": ["no", "yes"]}, target=(0, 100))
    >>> X = domain.sample(20_000, random_state=0)  # in place of your table
    >>> visits = np.random.default_rng(0).poisson(np.exp(X["age"] / 60) * (1 + (X.smoker == "yes")))
    >>> model = DPPoissonRegressor(domain=domain, random_state=0).fit(X, visits)
    >>> print(model.predict({"age": [30, 60], "smoker": ["no", "yes"]}).round())
    [2. 5.]
    """

    _reference: ClassVar = Reference(
        "count", count_moments, signal=0.05, level_signal=0.05, intercept=1.0, usual_q=(0.965, 0.65)
    )
    _scale: ClassVar[str] = "log of the mean"
    _is_log: ClassVar[bool] = True

    threshold: Any = "auto"
    threshold_: float = field(init=False)

    def _algorithm(self) -> Algorithm:
        params = self._params()
        params.loss = "poisson"
        return ObjectivePerturbation(self._reference, (self._losses,), params, scales_target=True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_auto(self.threshold):
            check_interval("threshold", self.threshold, 0.125, 1e6, remedy='Or give "auto".')

    def _losses(self, task: ModelTask) -> tuple[CappedPoisson]:
        share = task.weight / SMALL
        usual = min(LEAST * max(1.0, share) ** POWER, GREATEST)
        threshold = usual if is_auto(self.threshold) else float(self.threshold)
        return (CappedPoisson(START * math.sqrt(min(1.0, share)), threshold),)

    def _public_domain(self, n_columns: int) -> Domain:
        if self.domain is None:
            return Domain.unit_box(n_columns, target=(0.0, 1.0))
        domain = super()._public_domain(n_columns)
        if domain.target_bounds is not None and domain.target_bounds[0] != 0:
            remedy = "Write target=(0, upper). DPHuberRegressor has targets below 0."
            raise fail("the domain's target", "start at 0", domain.target_bounds, remedy)
        return domain

    def _store(
        self, plan: Any, solution: Solution, attributes: dict[str, Any], design: Design
    ) -> None:
        loss, cap = plan.minimisers[0].loss, solution.attributes["target_bounds_"][1]
        # The predictor is then the logarithm of a mean in the user's units.
        intercept = solution.intercept + math.log(loss.start) + math.log(cap)
        super()._store(plan, replace(solution, intercept=intercept), attributes, design)
        self.threshold_ = loss.threshold * cap

    def _set_coefficients(self) -> None:
        encoded = self._encoded_coef, self._encoded_intercept
        coef, intercept = self._design.domain.decode_coef(*encoded)
        self.coef_, self.intercept_ = coef[0], float(intercept[0])

    def _mean(self, predictor: FloatArray) -> FloatArray:
        """Return the mean for a predictor: its exponential, up to half of the cap."""
        cap, link = self.target_bounds_[1], CappedPoisson(start=0.5)
        return cap * link.mean(predictor - math.log(cap / 2))

    @for_any_rows
    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the target, in its units, between 0 and the cap, (n,)."""
        return self._mean(self._predictor(X)[:, 0])

    score: ClassVar[Callable[..., float]] = score_by(
        partial(d2_tweedie_score, power=1), "D^2 with the Poisson deviance", "numbers from 0 on"
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@with_parameters
class DPGammaRegressor(DPPoissonRegressor):
    """Private regression of costs. Use it if the target is at least 0 and its spread is relative.

    The fit is that of :class:`DPPoissonRegressor`: its equation estimates the mean of every target
    that is at least 0. The score of the gamma likelihood is not used, because it has no bound.
    Only ``score`` differs: it uses the gamma deviance, and its targets must be above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPGammaRegressor
    >>> domain = Domain({"age": (20, 80)}, target=(0, 50_000))
    >>> X = domain.sample(20_000, random_state=0)  # in place of your table
    >>> cost = np.random.default_rng(0).gamma(2, 500 * np.exp(X["age"] / 60))
    >>> model = DPGammaRegressor(domain=domain, random_state=0).fit(X, cost)
    >>> print(model.predict({"age": [30, 60]}).round(-2))
    [1700. 2700.]
    """

    score: ClassVar[Callable[..., float]] = score_by(
        partial(d2_tweedie_score, power=2),
        "D^2 with the gamma deviance",
        "numbers above 0",
        "Targets of 0 have no gamma deviance: leave them out, or use DPPoissonRegressor.",
    )
