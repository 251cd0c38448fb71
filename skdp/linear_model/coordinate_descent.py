"""Private linear models by coordinate descent."""

from __future__ import annotations

from typing import Any, ClassVar

from skdp.linear_model._descent.algorithm import CoordinateDescent, FittedDescent
from skdp.linear_model._descent.plan import LOGISTIC, SQUARED
from skdp.linear_model._shared.base import (
    Algorithm,
    PrivateClassifier,
    PrivateLinearModel,
    PrivateRegressor,
    with_parameters,
)


@with_parameters
class _DescentEstimator(PrivateLinearModel, FittedDescent):
    """The parameters of both estimators.

    Parameters
    ----------
    delta : float in [0, 1), default=0.0
        The delta of the budget. Many noisy steps cost much less with a small delta, such as 1e-6,
        than with delta = 0.
    penalty : {"auto", "l1", "l2", "elasticnet", None}, default="auto"
        The penalty on the coefficients of the encoded columns: numbers scaled to [-1, 1], and
        indicators of all levels but the first. "auto" shrinks each coefficient, and the intercept,
        according to the size of the noise, and neighbouring coefficients of a spline towards each
        other. With other values the intercept has no penalty.
    alpha : float in [0, 1e30] or "auto", default="auto"
        The penalty on the mean loss is ``alpha * (l1_ratio |w|_1 + (1 - l1_ratio) |w|_2^2 / 2)``:
        ``C = 1 / (n alpha)`` in scikit-learn's logistic regression, and ``alpha`` of its
        ElasticNet, for encoded columns and the target scaled to [-1, 1]. "auto" chooses it by the
        size of the noise.
    l1_ratio : float in [0, 1], default=0.5
        The share of the l1 penalty if penalty="elasticnet".

    Other Parameters
    ----------------
    mechanism : str or Law, default="auto"
        The noise of a step: "gaussian", "laplace", "logistic", "flipped_huber", "offset_gaussian",
        "subbotin", "truncated_laplace", a law of :mod:`skdp.noise` or your own law. Its scale is
        calibrated. "auto" is "gaussian", or with delta = 0 "laplace"; where each block has its own
        budget, it is the better of both. With delta = 0 only laws that are pure DP are accepted,
        such as "laplace" and "logistic".
    n_passes : int in [1, 1e6] or "auto", default="auto"
        Number of passes over all coordinates. With order="greedy" it is the number of steps.
    step_size : float in [1e-30, 1e30] or "auto", default="auto"
        Length of a step, in units of the inverse curvature of its coordinate. The curvature is
        bounded by the domain, or estimated privately. "auto" is 1, for a joint model of K classes
        the lesser of K / 2 and 1.8. Values of 2 or more may diverge; coefficients stay bounded.
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
    history_ : list of Progress
        The models after each pass. The guarantee covers all of them.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether all planned passes were made. False only if ``callback`` ended a descent early.
    noise_ : RepeatedNoise
        The law of the noise of a step, on the sum over the records. With ``delta = 0`` its
        guarantee may leave out the scaling stage; ``guarantee_`` is that of the fit.
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

    def _algorithm(self) -> Algorithm:
        return CoordinateDescent(self._kind, self._asked())


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

    Other Parameters
    ----------------
    clip : "auto", None or float > 0, default="auto"
        A number C clips the contribution of each record to the gradient of coordinate j at
        ``C sqrt(M_j / sum M)``, where M_j is the curvature of the coordinate, as in the source.
        The logistic loss needs no clipping. With Gaussian noise, and with delta = 0, "auto" gives
        smaller weights to records of large norm. With None only records that have a number far
        from its mean have a smaller weight, and none if ``scaling_share`` is 0.

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
    >>> [(release.name, release.times) for release in model.releases_]
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

    Other Parameters
    ----------------
    clip : "auto", None or float > 0, default="auto", units of the target
        "auto" clips residuals, which gives Huber's loss. With more noise they are clipped at fewer
        standard deviations of the target. None clips them at the whole range of the target. A
        number C clips the contribution of each record to the gradient of coordinate j at
        ``C sqrt(M_j / sum M)``, where M_j is the curvature of the coordinate, as in the source.

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
