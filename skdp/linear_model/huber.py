"""Private robust regression by objective perturbation."""

from __future__ import annotations

from typing import Any, ClassVar

from skdp._checks import check_positive, fail
from skdp.linear_model._inference.release import with_inference
from skdp.linear_model._objective.algorithm import ObjectivePerturbation
from skdp.linear_model._objective.families import FittedHuber, ModelTask, Reference
from skdp.linear_model._objective.rules import residual_moments
from skdp.linear_model._shared.base import Algorithm, PrivateRegressor, Solution, with_parameters
from skdp.linear_model._shared.design import Design
from skdp.linear_model.losses import PseudoHuber
from skdp.linear_model.validation import is_auto

# The threshold, in half-ranges of the target: LEAST if n epsilon / d is at most SMALL, otherwise
# increasing with its power POWER up to the whole range, at which the loss is least squares. With
# more than MANY records it also increases with the power MANY_POWER of their number.
LEAST, SMALL, POWER, GREATEST = 0.118, 15.0, 0.25, 2.0
MANY, MANY_POWER = 4000.0, 0.25


@with_parameters
class DPHuberRegressor(PrivateRegressor, FittedHuber):
    """Private robust linear regression. Use it when you need predictions.

    The method is objective perturbation of the pseudo-Huber loss. The slope of this loss is
    bounded, so one record changes the gradient of the objective by a bounded amount, and the
    noise has as many dimensions as the model has coefficients. Statements and proofs:
    ``docs/proofs/objective_perturbation.md`` and, for delta > 0,
    ``docs/proofs/gaussian_objective.md``.

    All bounds come from the public ``domain``; narrower bounds are estimated privately where
    ``scaling_share`` says so. Predictions are clipped to the domain's bounds of the target.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``.
    delta : float in [0, 1), default=0.0
        The delta of the budget. If K-norm noise has a smaller expected error than Gaussian
        noise, it is used, and the guarantee has delta = 0.
    neighbors : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation. "replace_one": one record is replaced, and the number of records
        is public. "add_remove": one record is added or removed, and the number of records is
        private. With ``fit(..., groups=ids)`` a record is a person with all its rows, and the
        number of rows is private under both relations.
    n_public : int, default=None
        A public order of magnitude of the number of records (of persons, with ``groups``), for the
        automatic choices under "add_remove". None assumes a medium number.
    domain : Domain, default=None
        Public bounds and levels of the columns, and bounds of the target,
        ``target=(lower, upper)``. With None the columns and the target are clipped to [-1, 1], and
        an :class:`~skdp.privacy.UndeclaredDomainWarning` says so.
    mechanism : str, NormBall, KNorm or object, default="auto"
        The noise. "l1", "l2", "linf", "hull" and norm balls give K-norm noise in that norm, where
        "hull" is the convex hull of all possible rows. "gaussian" and "elliptic" need delta > 0;
        they give normal noise with one variance, or with one variance per group of columns. "auto"
        chooses the noise with the least expected error by public information: K-norm noise on a
        weighted combination of the hull's parts, or elliptic noise. The name of a law of
        `skdp.noise`, or an object with ``calibrate(sensitivity, *, epsilon, delta)``, is calibrated
        with q epsilon, and the rest is spent on the curvature. With delta > 0 its noise must be
        log-concave.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The guarantee covers it like the coefficients.
    random_state : None, int or Generator, default=None
        With None the noise comes from a cryptographic generator, seeded by the operating system.
        Anything else is for tests, and the guarantee says that it does not hold.
    ledger : Ledger, default=None
        A ledger that is charged before any noise is drawn.
    rows_per_person : int in [1, 1e9], default=1
        Only with ``fit(..., groups=ids)``. Each row of a person with m rows has the weight
        ``1 / max(m, rows_per_person)``. With 1 every person has the same weight. With a larger
        value persons with more rows have more weight, up to this number of rows. Then the sum of
        the weights is private, and "replace_one" is planned as a removal and an addition with half
        of epsilon each.
    inference_share : float in (0, 1), default=None
        Share of epsilon for standard errors, confidence intervals and tests of the coefficients:
        see :meth:`summary`. The rest is spent on a first model, with at most half of delta. Then
        sums of the scores and of the curvatures at this model are released, from which an estimate
        without shrinkage follows. ``coef_`` is the first model moved towards this estimate as far
        as the change exceeds its noise. Give 0.8 for a table of coefficients, and None for
        predictions only. It needs ``additive=None``. Proof: ``docs/proofs/inference.md``.
    q : float in (0, 1) or "auto", default="auto"
        Share of epsilon spent on the noise; the rest is spent on the curvature of the loss.
    regularization : float >= 0 or "auto", default="auto"
        Ridge added to the least ridge that privacy needs, on the scale of the summed loss. "auto"
        chooses one ridge for each group of columns, and gives rows of high leverage smaller
        weights. For normal noise and "l2" these weights reduce the noise.
    loss : "pseudo_huber" or Loss, default="pseudo_huber"
        A Loss must have ``target = "number"`` and accept targets scaled to [-1, 1].
    threshold : float > 0 or "auto", default="auto", units of the target
        The residual at which the loss turns from quadratic to linear. "auto" takes a share of the
        target's range. The share increases with the number of records and with epsilon, and
        decreases with the number of coefficients.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated bounds. "auto" spends a twentieth on the scale
        of the target, and nothing with few records, or if ``threshold``, ``loss`` or ``mechanism``
        is given. The target is scaled and not clipped: the slope of the loss is bounded for every
        target. With a number, clipping bounds of the columns are estimated too, as in
        :class:`DPLogisticRegression`. This helps if the declared bounds are wide, but clipped tails
        bias the coefficients. 0 uses the bounds of the domain.
    additive : None, "auto" or int >= 1, default=None
        Whether numbers have curves instead of linear effects, as in :class:`DPLogisticRegression`.
        Then ``scaling_share="auto"`` spends up to a tenth more on the bounds of their knots.

    Attributes
    ----------
    coef_ : ndarray of shape (n_encoded,), units of the target per unit of the column
    intercept_ : float, units of the target
    bounds_ : ndarray of shape (n_numbers, 2)
        Clipping bounds of the numbers without curves, as in :class:`DPLogisticRegression`.
    domain_ : Domain
        The domain of the coefficients, as in :class:`DPLogisticRegression`.
    target_bounds_ : pair of floats, units of the target
        Bounds in units of which the loss is computed: privately estimated, or those of the domain.
        The target is not clipped to them. The guarantee covers them.
    threshold_ : float, units of the target
        The threshold that was used. Absent if ``loss`` is a Loss.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Present only if X had column names.
    guarantee_ : Guarantee
    inference_ : :class:`~skdp.linear_model.Inference`
        Present only with ``inference_share``: estimates without shrinkage, their standard errors,
        intervals and tests. The next three attributes are parts of it.
    coef_std_error_ : ndarray of shape (n_encoded,)
        Standard errors of the estimated coefficients.
    intercept_std_error_ : float
        Standard error of the estimated intercept.
    p_values : ndarray of shape (n_encoded,)
        P-values of the tests that coefficients are 0.
    stages_ : tuple of :class:`~skdp.linear_model.Stage`
        What was released, with which noise and which part of the budget.
    q_ : float
        The share of epsilon that was spent on the noise.
    ridge_ : ndarray of shape (n_encoded + 1,), or (n_encoded,) without an intercept
        The ridge of each coordinate, the intercept first, for numbers whose clipping bounds are
        scaled to [-1, 1].
    loss_ : Loss
        The loss that was used.
    noise_ : KNormNoise, GaussianNoise or the noise of the given mechanism
        The law of the random linear term, without its draw.
    n_iter_ : int
        Always 1: the number of steps of the solver is not released.
    converged_ : bool
        Always True: if the solution cannot be certified, ``fit`` raises an error.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPHuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=5000)
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 30))
    >>> model = DPHuberRegressor(epsilon=1.0, domain=domain).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.q_, bool(0 < model.threshold_ < 20)
    (0.965, True)
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

    q: Any = "auto"
    regularization: Any = "auto"
    loss: Any = "pseudo_huber"
    threshold: Any = "auto"
    scaling_share: Any = "auto"
    additive: Any = None

    def _algorithm(self) -> Algorithm:
        asked = self._asked()
        # A threshold or a loss of the user is in units of the domain.
        scales_target = isinstance(self.loss, str) and is_auto(self.threshold)
        own = ObjectivePerturbation(self._reference, self._losses, asked, scales_target)
        return with_inference(own, asked, is_regression=True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_auto(self.threshold):
            check_positive("threshold", self.threshold, 'Or give "auto".')

    def _store(
        self, plan: Any, solution: Solution, attributes: dict[str, Any], design: Design
    ) -> None:
        super()._store(plan, solution, attributes, design)
        if isinstance(self.loss, str):
            lower, upper = self.target_bounds_
            loss: Any = self.loss_
            self.threshold_: float = loss.threshold * (upper / 2 - lower / 2)

    def _losses(self, task: ModelTask) -> tuple[Any, ...]:
        if not isinstance(self.loss, str):
            return (self.loss,)
        if self.loss != "pseudo_huber":
            raise fail("loss", "be 'pseudo_huber' or a Loss", self.loss)
        if is_auto(self.threshold):
            return (PseudoHuber(_usual_threshold(task.size, task.weight)),)
        bounds = task.design.domain.target_bounds
        assert bounds is not None  # the domain of a regressor
        return (PseudoHuber(float(self.threshold) / (bounds[1] / 2 - bounds[0] / 2)),)


def _usual_threshold(n: float, weight: float) -> float:
    """Return the threshold in half-ranges of the target; see the comment on LEAST."""
    growth = max(1.0, weight / SMALL) ** POWER * max(1.0, n / MANY) ** MANY_POWER
    return float(min(GREATEST, LEAST * growth))
