"""Private robust regression by objective perturbation."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import Any

from skdp.linear_model._objective.advice import ModelTask
from skdp.linear_model._objective.mean import plan_mean
from skdp.linear_model._objective.solve import ObjectivePerturbation, ObjectiveRegressor
from skdp.linear_model._shared.base import Algorithm, Solution, with_parameters
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.scaling import check_share
from skdp.linear_model.losses import PseudoHuber
from skdp.linear_model.validation import is_auto
from skdp.trusted.checks import check_positive, fail

# The threshold, in half-ranges of the target: LEAST if n epsilon / d is at most SMALL, otherwise
# increasing with its power POWER up to the whole range, at which the loss is least squares. With
# more than MANY records it also increases with the power MANY_POWER of their number.
LEAST, SMALL, POWER, GREATEST = 0.118, 15.0, 0.25, 2.0
MANY, MANY_POWER = 4000.0, 0.25


@with_parameters
class DPHuberRegressor(ObjectiveRegressor):
    """Private robust linear regression. Use it when you need predictions.

    The method is objective perturbation of the pseudo-Huber loss. The slope of this loss is
    bounded, so one record changes the gradient of the objective by a bounded amount, and the
    noise has as many dimensions as the model has coefficients. Statements and proofs:
    ``docs/proofs/objective_perturbation.md`` and, for delta > 0,
    ``docs/proofs/gaussian_objective.md``.

    All bounds come from the public ``domain``, or are estimated privately (see ``scaling_share``).
    Predictions are clipped to the domain's bounds of the target.

    Other Parameters
    ----------------
    loss : "pseudo_huber" or Loss, default="pseudo_huber"
        A Loss must have ``target = "number"`` and accept targets scaled to [-1, 1].
    threshold : float > 0 or "auto", default="auto", units of the target
        The residual at which the loss turns from quadratic to linear. "auto" uses a fraction of the
        target's range, which increases with the number of records and with epsilon, and decreases
        with the number of coefficients.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated bounds. "auto" spends a twentieth on the scale
        of the target, or nothing if there are few records or if ``threshold``, ``loss`` or
        ``mechanism`` is given. The target is scaled but not clipped, because the slope of the loss
        is bounded for every target. A number > 0 also estimates clipping bounds of the columns, as
        in :class:`DPLogisticRegression`. This helps if the declared bounds are wide, but clipped
        tails bias the coefficients. 0 uses the bounds of the domain. If ``additive`` is given,
        "auto" spends up to another tenth on the bounds of the knots.

    mean_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on the mean of the residuals, which is added to the intercept. A
        robust loss estimates a centre of the target; if the residuals are skewed, the centre
        differs from the mean. "auto" spends .03 if the noise of the mean is small, and nothing if
        there are few records or if ``threshold`` or ``loss`` is given. 0 keeps the robust centre,
        on which errors in the data have less influence.

    Attributes
    ----------
    threshold_ : float, units of the target
        The threshold of the loss. Absent if ``loss`` is a Loss.

    Examples
    --------
    >>> from skdp import Domain, DPHuberRegressor
    >>> from skdp.datasets import load_diabetes
    >>> X, y, _ = load_diabetes()
    >>> columns = {"age": (18, 80), "bmi": (15, 45), "bp": (60, 140)}
    >>> domain = Domain(columns, target=(0, 350))  # progression of the disease after a year
    >>> model = DPHuberRegressor(epsilon=1.0, domain=domain).fit(X[list(columns)], y)
    >>> import pandas as pd
    >>> print(model.predict(pd.DataFrame({"age": [50], "bmi": [40], "bp": [110]})))
    [2...]
    >>> print(model.target_bounds_, round(model.threshold_, 1))
    (0.0, 350.0) 34.0
    """

    loss: Any = "pseudo_huber"
    threshold: Any = "auto"
    mean_share: Any = "auto"
    threshold_: float = field(init=False)

    def _algorithm(self) -> Algorithm:
        params = self._params()
        # A threshold or a loss of the user is in units of the domain.
        scales_target = isinstance(self.loss, str) and is_auto(self.threshold)
        facts = params, scales_target, partial(plan_mean, self.mean_share)
        return ObjectivePerturbation(self._reference, (self._losses,), *facts)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share("mean_share", self.mean_share, "0 keeps the robust centre.")
        if not (self.fit_intercept or is_auto(self.mean_share) or self.mean_share == 0):
            raise fail("mean_share", "be 0 or 'auto' without an intercept", self.mean_share)
        if not is_auto(self.threshold):
            check_positive("threshold", self.threshold, 'Or give "auto".')

    def _store(
        self, plan: Any, solution: Solution, attributes: dict[str, Any], design: Design
    ) -> None:
        super()._store(plan, solution, attributes, design)
        if isinstance(self.loss, str):
            lower, upper = self.target_bounds_
            loss: Any = self.loss_
            self.threshold_ = loss.threshold * (upper / 2 - lower / 2)

    def _losses(self, task: ModelTask) -> tuple[Any, ...]:
        if not isinstance(self.loss, str):
            return (self.loss,)
        if self.loss != "pseudo_huber":
            raise fail("loss", "be 'pseudo_huber' or a Loss", self.loss)
        if is_auto(self.threshold):
            growth = max(1.0, task.weight / SMALL) ** POWER
            growth *= max(1.0, task.size / MANY) ** MANY_POWER
            return (PseudoHuber(float(min(GREATEST, LEAST * growth))),)
        bounds = task.design.domain.target_bounds
        assert bounds is not None  # the domain of a regressor
        return (PseudoHuber(float(self.threshold) / (bounds[1] / 2 - bounds[0] / 2)),)
