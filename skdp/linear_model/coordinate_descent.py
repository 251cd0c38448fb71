"""Private linear models by coordinate descent."""

from __future__ import annotations

from typing import Any, ClassVar

from skdp.linear_model._descent.algorithm import CoordinateDescent, FittedDescent
from skdp.linear_model._descent.plan import LOGISTIC, SQUARED
from skdp.linear_model._inference.release import with_inference
from skdp.linear_model._shared.base import (
    Algorithm,
    PrivateClassifier,
    PrivateLinearModel,
    PrivateRegressor,
    with_parameters,
)


@with_parameters
class _DescentEstimator(PrivateLinearModel, FittedDescent):
    """The parameters of both estimators."""

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

    def _algorithm(self) -> Algorithm:
        asked = self._asked()
        own = CoordinateDescent(self._kind, asked)
        return with_inference(own, asked, is_regression=self._kind is SQUARED)


@with_parameters
class DPCoordinateDescentClassifier(PrivateClassifier, _DescentEstimator):
    """Classifier for sparse models or all intermediate models: private coordinate descent.

    Each step releases the gradient of one coordinate with noise and moves the coordinate. All
    steps have noise of one scale, which is calibrated by the exact composition of their privacy
    losses (Muthukrishnan & Kalyani 2023, appendix D, after Mangold, Bellet, Salmon & Tommasi
    2022; here the bounds come from the domain and not from the data). Statement and proof:
    ``docs/proofs/coordinate_descent.md``, Theorems 1 to 6 and 8. Records outside the public
    ``domain`` are clipped to it.

    For K > 2 labels there is one joint model with the loss `skdp.linear_model.losses.Softmax`, for
    any noise with delta = 0 and for Gaussian noise. Other noise with a delta, order="greedy" and a
    number for ``clip`` have K one-versus-rest models, which share the budget and need more noise.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``.
    delta : float in [0, 1), default=0.0
        The delta of the budget. Many noisy steps cost much less with a small delta, such as 1e-6,
        than with delta = 0.
    neighbors : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation. "replace_one": one record is replaced, and the number of records
        is public. "add_remove": one record is added or removed, and the number of records is
        private. With ``fit(..., groups=ids)`` a record is a person with all its rows, and the
        number of rows is private under both relations.
    n_public : int, default=None
        A public order of magnitude of the number of records (of persons, with ``groups``), for the
        automatic choices under "add_remove". None assumes a medium number.
    domain : Domain, default=None
        Public bounds and levels of the columns. With None every column is clipped to [-1, 1], and
        an :class:`~skdp.privacy.UndeclaredDomainWarning` says so.
    fit_intercept : bool, default=True
        Whether to fit an intercept. The guarantee covers it like the coefficients.
    classes : list of labels, default=None
        The public labels. None uses the labels of ``domain.target``; if there are none, the labels
        are read from ``y`` with a :class:`~skdp.privacy.PrivacyLeakWarning`. With more than two
        labels one joint model is fitted, which has coefficients for each label.
    class_weight : dict, default=None
        Public weights of the losses of rows, from labels to finite numbers > 0. Other labels have
        weight 1. They must be chosen without the data, so there is no "balanced": for publicly
        known shares of the labels give ``{label: 1 / (n_labels * share)}``. They are divided by the
        greatest weight, so a record counts at most as without weights, and the noise is the same.
        Steps do not depend on them: if frequent labels have small weights, a greater ``step_size``
        may be better.
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
        as the change exceeds its noise; sparse models of coordinate descent are not moved. Give 0.8
        for a table of coefficients, and None for predictions only. It needs two labels and no
        ``class_weight``. Proof: ``docs/proofs/inference.md``.
    mechanism : str or Law, default="auto"
        The noise of a step: "gaussian", "laplace", "logistic", "flipped_huber", "offset_gaussian",
        "subbotin", "truncated_laplace", a law of :mod:`skdp.noise` or your own law. Its scale is
        calibrated. "auto" is "gaussian", or with delta = 0 "laplace"; where each block has its own
        budget, it is the better of both. With delta = 0 only laws that are pure DP are accepted,
        such as "laplace" and "logistic".
    penalty : {"auto", "l1", "l2", "elasticnet", None}, default="auto"
        The penalty on the coefficients of the encoded columns: numbers scaled to [-1, 1], and
        indicators of all levels but the first. "auto" shrinks each coefficient, and the intercept,
        according to the size of the noise, and neighbouring coefficients of a spline towards each
        other. With other values the intercept has no penalty.
    alpha : float in [0, 1e30] or "auto", default="auto"
        The penalty on the mean loss is ``alpha * (l1_ratio |w|_1 + (1 - l1_ratio) |w|_2^2 / 2)``:
        ``C = 1 / (n alpha)`` in scikit-learn's logistic regression. "auto" chooses it by the size
        of the noise.
    l1_ratio : float in [0, 1], default=0.5
        The share of the l1 penalty if penalty="elasticnet".
    n_passes : int in [1, 1e6] or "auto", default="auto"
        Number of passes over all coordinates. With order="greedy" it is the number of steps.
    step_size : float in [1e-30, 1e30] or "auto", default="auto"
        Length of a step, in units of the inverse curvature of its coordinate. The curvature is
        bounded by the domain, or estimated privately. "auto" is 1, for a joint model of K classes
        the lesser of K / 2 and 1.8. Values of 2 or more may diverge; coefficients stay bounded.
    clip : "auto", None or float > 0, default="auto"
        A number C clips the contribution of each record to the gradient of coordinate j at
        ``C sqrt(M_j / sum M)``, where M_j is the curvature of the coordinate, as in the source.
        The logistic loss needs no clipping. With Gaussian noise, and with delta = 0, "auto" gives
        smaller weights to records of large norm. With None only records that have a number far
        from its mean have a smaller weight, and none if ``scaling_share`` is 0.
    order : {"cyclic", "random", "greedy"}, default="cyclic"
        The order of the coordinates. "greedy" privately chooses the coordinate with the largest
        gradient. Use it for many coordinates of which few are relevant.
    average : bool, default=True
        Whether to return the average of the models of the second half of the passes. Otherwise
        the last model is returned.
    start : None or pair of arrays, default=None
        Initial coefficients and intercepts, such as ``(model.coef_, model.intercept_)`` of a public
        model. They must not have been learned from these records without a guarantee.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of the budget spent on privately estimated means, squares and level counts. Numbers
        are centred and scaled by them, and step sizes are chosen by them. 0 uses the domain's
        bounds.
    verbose : int, default=0
        With 1 a progress bar is shown on standard error.
    callback : None or callable, default=None
        Called after every pass with a :class:`~skdp.linear_model.Progress`. If it returns True, the
        descent of the model ends. The whole budget is spent in any case. Of a joint model it sees
        the coefficients of all classes.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_encoded) or (n_classes, n_encoded)
        Coefficients of the bounded numbers in the user's units and of the indicators of all
        levels but the first.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    normalizer_ : float
        The weight of the normalizing term of a joint model's loss, chosen from public information.
        Absent for other models.
    history_ : list of Progress
        The models after each pass. The guarantee covers all of them.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether all planned passes were made. False only if ``callback`` ended a descent early.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Present only if X had column names.
    guarantee_ : Guarantee
    inference_ : :class:`~skdp.linear_model.Inference`
        Present only with ``inference_share``: estimates without shrinkage, their standard errors,
        intervals and tests. The next three attributes are parts of it.
    coef_std_error_ : ndarray of shape (1, n_encoded)
        Standard errors of the estimated coefficients.
    intercept_std_error_ : ndarray of shape (1,)
        Standard error of the estimated intercept.
    p_values : ndarray of shape (1, n_encoded)
        P-values of the tests that coefficients are 0.
    stages_ : tuple of :class:`~skdp.linear_model.Stage`
        What was released, with which noise and which part of the budget.
    noise_ : RepeatedNoise
        The law of the noise of a step, on the sum over the records. With ``delta = 0`` its
        guarantee may leave out the scaling stage; ``guarantee_`` is that of the fit.

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
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.guarantee_.delta
    1e-06
    >>> [(stage.name, stage.releases) for stage in model.stages_]
    [('scaling', 1), ('gradients', 99)]
    """

    _kind: ClassVar = LOGISTIC


@with_parameters
class DPCoordinateDescentRegressor(PrivateRegressor, _DescentEstimator):
    """Regressor for Lasso, ridge and elastic net: private coordinate descent.

    Each step releases the gradient of one coordinate with noise and moves the coordinate; see
    :class:`DPCoordinateDescentClassifier`. Residuals are clipped, which bounds the change that
    one record can cause. Predictions are clipped to the bounds of the target. Statement and proof:
    ``docs/proofs/coordinate_descent.md``, Theorems 1 to 6.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        The privacy budget of one call of ``fit``.
    delta : float in [0, 1), default=0.0
        The delta of the budget. Many noisy steps cost much less with a small delta, such as 1e-6,
        than with delta = 0.
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
    mechanism : str or Law, default="auto"
        The noise of a step: "gaussian", "laplace", "logistic", "flipped_huber", "offset_gaussian",
        "subbotin", "truncated_laplace", a law of :mod:`skdp.noise` or your own law. Its scale is
        calibrated. "auto" is "gaussian", or with delta = 0 "laplace"; where each block has its own
        budget, it is the better of both. With delta = 0 only laws that are pure DP are accepted,
        such as "laplace" and "logistic".
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
        as the change exceeds its noise; sparse models of coordinate descent are not moved. Give 0.8
        for a table of coefficients, and None for predictions only. Proof:
        ``docs/proofs/inference.md``.
    penalty : {"auto", "l1", "l2", "elasticnet", None}, default="auto"
        The penalty on the coefficients of the encoded columns: numbers scaled to [-1, 1], and
        indicators of all levels but the first. "auto" shrinks each coefficient, and the intercept,
        according to the size of the noise, and neighbouring coefficients of a spline towards each
        other. With other values the intercept has no penalty.
    alpha : float in [0, 1e30] or "auto", default="auto"
        The penalty is ``alpha * (l1_ratio |w|_1 + (1 - l1_ratio) |w|_2^2 / 2)``. The objective is
        that of scikit-learn's ElasticNet, for encoded columns and the target scaled to [-1, 1].
        "auto" chooses it by the size of the noise.
    l1_ratio : float in [0, 1], default=0.5
        The share of the l1 penalty if penalty="elasticnet".
    n_passes : int in [1, 1e6] or "auto", default="auto"
        Number of passes over all coordinates. With order="greedy" it is the number of steps.
    step_size : float in [1e-30, 1e30] or "auto", default="auto"
        Length of a step, in units of the inverse curvature of its coordinate. The curvature is
        bounded by the domain, or estimated privately. "auto" is 1. Values of 2 or more may diverge;
        coefficients stay bounded.
    clip : "auto", None or float > 0, default="auto", units of the target
        "auto" clips residuals, which gives Huber's loss. With more noise they are clipped at fewer
        standard deviations of the target. None clips them at the whole range of the target. A
        number C clips the contribution of each record to the gradient of coordinate j at
        ``C sqrt(M_j / sum M)``, where M_j is the curvature of the coordinate, as in the source.
    order : {"cyclic", "random", "greedy"}, default="cyclic"
        The order of the coordinates. "greedy" privately chooses the coordinate with the largest
        gradient. Use it for many coordinates of which few are relevant.
    average : bool, default=True
        Whether to return the average of the models of the second half of the passes. Otherwise
        the last model is returned.
    start : None or pair of arrays, default=None
        Initial coefficients and intercept, such as ``(model.coef_, model.intercept_)`` of a public
        model. They must not have been learned from these records without a guarantee.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of the budget spent on privately estimated means, squares and level counts. Numbers
        are centred and scaled by them, and step sizes are chosen by them. 0 uses the domain's
        bounds.
    verbose : int, default=0
        With 1 a progress bar is shown on standard error.
    callback : None or callable, default=None
        Called after every pass with a :class:`~skdp.linear_model.Progress`. If it returns True, the
        descent of the model ends. The whole budget is spent in any case.

    Attributes
    ----------
    coef_ : ndarray of shape (n_encoded,), units of the target per unit of the column
    intercept_ : float, units of the target
    history_ : list of Progress
        The models after each pass. The guarantee covers all of them.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether all planned passes were made. False only if ``callback`` ended a descent early.
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
    noise_ : RepeatedNoise
        The law of the noise of a step, on the sum over the records. With ``delta = 0`` its
        guarantee may leave out the scaling stage; ``guarantee_`` is that of the fit.

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
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _kind: ClassVar = SQUARED
