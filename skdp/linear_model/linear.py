"""Private linear regression from noisy moments: the functional mechanism."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdp._checks import fail
from skdp.domain.subset import subset
from skdp.linear_model._inference.stage import with_inference
from skdp.linear_model._moments.algorithm import FunctionalMechanism
from skdp.linear_model._moments.inference import inference_of
from skdp.linear_model._shared.base import with_parameters
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.regression import PrivateRegressor


@with_parameters
class DPLinearRegression(PrivateRegressor):
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
    epsilon, delta, neighbors, n_public, domain, fit_intercept
        As in :class:`DPLogisticRegression`. The domain declares the target's bounds; without a
        domain features and target are clipped to [-1, 1]. Under ``"add_remove"`` the number of
        records is released with noise too.
    mechanism : {"auto", "matrix", "hull", "laplace", "l1", "l2", "linf", "gaussian", \
            "elliptic", "logistic", "subbotin", "flipped_huber", "truncated_laplace", \
            "offset_gaussian"}, norm ball or object with ``calibrate``, default="auto"
        The noise. "matrix" is the difference of two Wishart matrices. "hull" is the K-norm
        mechanism on the smallest known ball that holds the changes of the moments. "gaussian" and
        "elliptic" need ``delta`` > 0. The last five names are independent noise of that law on
        every moment. Their calibration composes all moments and takes seconds. All but "logistic"
        need ``delta`` > 0. They seldom have less noise than the others.

        "auto" chooses the least expected error from public information only
        (docs/automatic_choices.md). With an intercept it scales the columns: a share of epsilon
        estimates means and scales. The rest is divided between the products with the target and
        all moments in these units, with smaller weights for records far from the centre. The
        fewer the records, the greater is the share of the products with the target. With very
        few records it releases only the mean of the target, for any ``fit_intercept``.
    random_state : None, int, Generator or RandomState, default=None
        With None the noise comes from a cryptographic generator. Anything else voids the guarantee.
    ledger, rows_per_person, max_rows, inference_share
        As in :class:`DPLogisticRegression`. Leaving out rows by ``max_rows`` does not reduce the
        noise of this estimator.
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
        :meth:`wald_test`, ``coef_std_error_``, ``intercept_std_error_`` and ``p_values``. Without
        ``inference_share`` they need ``mechanism="matrix"``, unless "auto" chose it, and rows that
        are not grouped: scaled columns are clipped by unknown amounts, and other noise is
        correlated.
    n_features_in_, feature_names_in_, guarantee_, stages_, noise_, n_iter_, converged_
        As in :class:`DPLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=5000)
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 30))
    >>> model = DPLinearRegression(epsilon=1.0, domain=domain, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> [(stage.name, round(stage.epsilon, 2)) for stage in model.stages_]
    [('scaling', 0.06), ('cross', 0.24), ('moments', 0.71)]
    >>> other = model.from_moments(["x0"], target="x1")  # costs nothing
    >>> other.guarantee_ is model.guarantee_
    True
    """

    postprocess: Any = "auto"

    def _algorithm(self):
        asked = self._asked()
        return with_inference(FunctionalMechanism(asked), asked, is_regression=True)

    def _store(self, plan, solution, attributes, design):
        super()._store(plan, solution, attributes, design)
        self.moments_ = replace(solution.attributes["moments_"], noise=self.noise_)

    def _found_inference(self):
        if "_inference" in vars(self):
            return self._inference
        return inference_of(getattr(self, "moments_", None), self._design, self.guarantee_)

    def from_moments(self, columns=None, target=None):
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
        model = clone(self).set_params(domain=domain, ledger=None)
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
