"""Private linear regression from noisy moments: the functional mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdp._checks import fail
from skdp.domain.domain import subset
from skdp.linear_model._inference.inference import Inference
from skdp.linear_model._inference.stage import with_inference
from skdp.linear_model._moments.algorithm import FittedMoments, FunctionalMechanism
from skdp.linear_model._moments.inference import inference_of
from skdp.linear_model._shared.base import Algorithm, Solution, with_parameters
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.regression import PrivateRegressor


@with_parameters
class DPLinearRegression(PrivateRegressor, FittedMoments):
    """Regressor for several analyses of one release: least squares from private moments.

    The method is the functional mechanism. ``fit`` releases noisy sums of products of all columns
    once. This regression, regressions of any column on others (:meth:`from_moments`), means and
    covariances (``moments_``) are computed from them and need no further budget. If you only need
    predictions, :class:`DPHuberRegressor` is more accurate for the same epsilon: the dimension of
    its noise is the number of coefficients, and not its square. Statement and proof:
    ``docs/proofs/moment_release.md``, ``docs/proofs/matrix_laplace.md`` and
    ``docs/proofs/moment_balls.md``.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``.
    delta : float in [0, 1), default=0.0
        The delta of the budget. Noise that is pure DP does not use it, and the guarantee then has
        delta = 0.
    neighbors : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation. "replace_one": one record is replaced, and the number of records
        is public. "add_remove": one record is added or removed, and the number of records is
        private. With ``fit(..., groups=ids)`` a record is a person with all its rows, and the
        number of rows is private under both relations. Under "add_remove" the number of records is
        released with noise too.
    n_public : int, default=None
        A public order of magnitude of the number of records (of persons, with ``groups``), for the
        automatic choices under "add_remove". None assumes a medium number.
    domain : Domain, default=None
        Public bounds and levels of the columns, and bounds of the target,
        ``target=(lower, upper)``. With None the columns and the target are clipped to [-1, 1], and
        an :class:`~skdp.privacy.UndeclaredDomainWarning` says so.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The guarantee covers it like the coefficients.
    mechanism : {"auto", "matrix", "hull", "laplace", "l1", "l2", "linf", "gaussian", \
            "elliptic", "logistic", "subbotin", "flipped_huber", "truncated_laplace", \
            "offset_gaussian"}, norm ball or object with ``calibrate``, default="auto"
        The noise. "matrix" is the difference of two Wishart matrices. "hull" is the K-norm
        mechanism on a :class:`~skdp.geometry.MomentBall`. "gaussian" and
        "elliptic" need ``delta`` > 0. The last five names are independent noise of that law on
        every moment. Their calibration composes all moments and takes seconds. All but "logistic"
        need ``delta`` > 0. They seldom have less noise than the others.

        "auto" chooses the least expected error of predictions, from public facts
        (docs/mathematics/automatic_choices.md). With an intercept it scales the columns: a share
        of epsilon estimates means and scales. The rest is divided between the products with the
        target and all moments in these units, with smaller weights for records far from the
        centre. The fewer the records, the greater is the share of the products with the target.
        With very few records it releases only the mean of the target, for any ``fit_intercept``.
    random_state : None, int, Generator or RandomState, default=None
        With None the noise comes from a cryptographic generator. Anything else voids the guarantee.
    ledger : Ledger, default=None
        A ledger that is charged before any noise is drawn.
    rows_per_person : int in [1, 1e9], default=1
        Only with ``fit(..., groups=ids)``. Each row of a person with m rows has the weight
        ``1 / max(m, rows_per_person)``. With 1 every person has the same weight. With a larger
        value persons with more rows have more weight, up to this number of rows. Then the sum of
        the weights is private, and "replace_one" is planned as a removal and an addition with half
        of epsilon each.
    max_rows : int >= 1, default=None
        Only with ``groups``, for tables in memory. Rows of a person after the first ``max_rows``
        are left out, which does not reduce the noise of this estimator. None uses all rows.
    inference_share : float in (0, 1), default=None
        Share of epsilon for standard errors, confidence intervals and tests of the coefficients:
        see :meth:`summary`. The rest is spent on a first model, with at most half of delta. Then
        sums of the scores and of the curvatures at this model are released, from which an estimate
        without shrinkage follows. ``coef_`` is the first model moved towards this estimate as far
        as the change exceeds its noise. Give 0.8 for a table of coefficients, and None for
        predictions only. Proof: ``docs/proofs/inference.md``.
    postprocess : {"auto", "pinv", "ridge", "psd"} or callable, default="auto"
        The method that computes coefficients from the moments. "auto" is a posterior mean after a
        release of scaled columns. Otherwise it projects the moments on the set of possible moments
        and shrinks directions in which the noise dominates. "psd" only
        projects. "ridge" adds a ridge of the size of the noise. "pinv" uses the pseudo-inverse
        (Awan & Slavkovic 2020, Equation 4).

    Attributes
    ----------
    coef_ : ndarray of shape (n_encoded,), units of the target per unit of the column
    intercept_ : float, units of the target
    coef_std_ : ndarray of shape (n_encoded,)
        Standard deviation of each coefficient that is due to the noise, to first order. The
        sampling error is not in it: see :meth:`conf_int`.
    coef_corr_ : ndarray of shape (n_encoded, n_encoded)
        Correlations of the noise in the coefficients, to first order.
    intercept_std_ : float
    moments_ : Moments
        The released moments.
    inference_ : Inference
        Standard errors, intervals and tests; also :meth:`conf_int`, :meth:`summary`,
        :meth:`wald_test` and the next three attributes. Without ``inference_share`` they need
        ``mechanism="matrix"``, unless "auto" chose it, and rows that are not grouped: scaled
        columns are clipped by unknown amounts, and other noise is correlated.
    coef_std_error_ : ndarray of shape (n_encoded,)
        Standard errors of the estimated coefficients.
    intercept_std_error_ : float
        Standard error of the estimated intercept.
    p_values : ndarray of shape (n_encoded,)
        P-values of the tests that coefficients are 0.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Present only if X had column names.
    guarantee_ : Guarantee
    stages_ : tuple of :class:`~skdp.linear_model.Stage`
        What was released, with which noise and which part of the budget.
    noise_ : noise of the mechanism
        The law of the noise of the moments, without its draw.
    n_iter_ : int
        Always 1.
    converged_ : bool
        Always True.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=5000)
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 30))
    >>> model = DPLinearRegression(epsilon=1.0, domain=domain).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> [(stage.name, round(stage.epsilon, 2)) for stage in model.stages_]
    [('scaling', 0.06), ('cross', 0.24), ('moments', 0.71)]
    >>> other = model.from_moments(["x0"], target="x1")  # costs nothing
    >>> other.guarantee_ is model.guarantee_
    True
    """

    postprocess: Any = "auto"

    def _algorithm(self) -> Algorithm:
        asked = self._asked()
        return with_inference(FunctionalMechanism(asked), asked, is_regression=True)

    def _store(
        self, plan: Any, solution: Solution, attributes: dict[str, Any], design: Design
    ) -> None:
        super()._store(plan, solution, attributes, design)
        self.moments_ = replace(solution.attributes["moments_"], noise=self.noise_)

    def _found_inference(self) -> Inference:
        found: Inference | None = vars(self).get("_inference")
        if found is not None:
            return found
        return inference_of(getattr(self, "moments_", None), self._design, self.guarantee_)

    def from_moments(
        self, columns: Sequence[str] | None = None, target: str | None = None
    ) -> DPLinearRegression:
        """Return the regression of one column on others from the same release, at no cost.

        Parameters
        ----------
        columns : list of str, or None for all features but ``target``
            Declared columns; indicators of one column only all together. Columns without names
            are x0, x1, ...
        target : str, or None for the target of the fit
            A column of numbers.

        Returns
        -------
        DPLinearRegression
            A fitted regressor of these columns in the user's units.
        """
        check_is_fitted(self)
        if not hasattr(self, "moments_"):
            remedy = "Call it before the model is exported, or keep the model with pickle."
            rule = "find the released moments: the file of a model holds none"
            raise fail("from_moments", rule, remedy=remedy)
        whole = self._design.domain
        domain, places, place = subset(whole, columns, target)
        if len(self.moments_.names) != whole.n_encoded + 2:
            remedy = "Their noise would be too large: give more epsilon, or a mechanism by name."
            rule = "find moments of the features: none were released"
            raise fail("from_moments", rule, remedy=remedy)
        last = whole.n_encoded + 1
        chosen = [p + 1 for p in places]
        model: DPLinearRegression = clone(self).set_params(domain=domain, ledger=None)
        for name in ("guarantee_", "noise_", "stages_", "n_iter_", "converged_"):
            setattr(model, name, getattr(self, name))
        model.n_features_in_ = domain.n_columns
        if domain.names is not None:
            model.feature_names_in_ = np.array(domain.names, dtype=object)
        moments = self.moments_.subset(chosen, last if place is None else place + 1)
        design = Design(domain, bool(self.fit_intercept))
        solution = FunctionalMechanism(model._asked()).solve(design, moments)
        model._store(None, solution, {}, design)
        return model
