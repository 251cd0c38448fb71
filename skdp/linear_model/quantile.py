"""Private quantile regression by objective perturbation."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import d2_pinball_score

from skdp.linear_model._objective.advice import ModelTask, Reference, residual_moments
from skdp.linear_model._objective.solve import ObjectiveEstimator, ObjectivePerturbation
from skdp.linear_model._shared.base import Algorithm, PrivateRegressor, with_parameters
from skdp.linear_model._shared.predict import score_by
from skdp.linear_model.losses import SmoothedQuantile
from skdp.linear_model.validation import is_auto
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_interval, check_positive, fail

# The bandwidth, in half-ranges of the scaled target.
GREATEST, LEAST, PLENTY, POWER = 0.3, 0.03, 30.0, 0.4


@with_parameters
class DPQuantileRegressor(PrivateRegressor, ObjectiveEstimator):
    """Private linear quantile regression. Use it for the median, or for prediction intervals.

    The method is objective perturbation of the check loss, smoothed over a bandwidth. Several
    quantiles have one model each, with equal parts of the budget; their predictions are sorted, so
    that they do not cross. Statements and proofs: ``docs/proofs/objective_perturbation.md`` and,
    for delta > 0, ``docs/proofs/gaussian_objective.md``.

    Predictions are clipped to the domain's bounds of the target.

    Parameters
    ----------
    quantile : float in (0, 1), or increasing list of two or more, default=0.5
        The share of targets below the prediction. Two quantiles are the ends of a prediction
        interval: ``[0.1, 0.9]`` contains about 80 % of the targets.

    Other Parameters
    ----------------
    bandwidth : float > 0 or "auto", default="auto", units of the target
        The scale of the logistic law over which the check loss is smoothed. A larger bandwidth
        needs less noise, and moves outer quantiles away from the centre. "auto" uses a fraction of
        the target's range, which decreases with the number of records and with epsilon.
    scaling_share : "auto" or float in [0, 1), default="auto"
        Share of epsilon spent on privately estimated bounds, as in :class:`DPHuberRegressor`. "auto"
        spends a twentieth on the scale of the target, or nothing if there are few records or if
        ``bandwidth`` or ``mechanism`` is given. The target is scaled but not clipped.

    Attributes
    ----------
    coef_ : ndarray of shape (n_encoded,), or (n_quantiles, n_encoded) for a list of quantiles
        In units of the target per unit of the column.
    intercept_ : float, or ndarray of shape (n_quantiles,), units of the target
    target_bounds_ : pair of floats, units of the target
        Bounds that scale the target to [-1, 1] in the loss: privately estimated, or those of the
        domain. The target is not clipped to them. The guarantee covers them.
    loss_ : SmoothedQuantile
        The loss that was used, with a bandwidth in half-ranges of ``target_bounds_``. For several
        quantiles ``loss_`` and ``noise_`` are tuples, and ``ridge_`` has a row for each.

    Examples
    --------
    >>> from skdp import Domain, DPQuantileRegressor
    >>> from skdp.datasets import load_diabetes
    >>> X, y, _ = load_diabetes()
    >>> columns = {"age": (18, 80), "bmi": (15, 45), "bp": (60, 140)}
    >>> domain = Domain(columns, target=(0, 350))  # progression of the disease after a year
    >>> model = DPQuantileRegressor(quantile=[0.1, 0.9], epsilon=4.0, domain=domain)
    >>> print(model.fit(X[list(columns)], y).predict({"age": [50], "bmi": [30], "bp": [90]}).shape)
    (1, 2)
    """

    _reference: ClassVar = Reference(
        "number",
        residual_moments,
        signal=0.01,
        level_signal=0.01,
        intercept=0.2,
        least_ridge=True,
        usual_q=(None, None),
    )

    quantile: Any = 0.5
    bandwidth: Any = "auto"
    target_bounds_: tuple[float, float] = field(init=False)

    def _levels(self) -> list[float]:
        several = np.ndim(self.quantile) == 1 and len(self.quantile) > 1
        given = [*self.quantile] if several else [self.quantile]
        remedy = "Several increasing quantiles may be in a list."
        found = [check_interval("quantile", one, 0.0, 1.0, "neither", remedy) for one in given]
        if any(one >= other for one, other in pairwise(found)):
            raise fail("quantile", "be increasing", found)
        return found

    def _algorithm(self) -> Algorithm:
        params = self._params()
        params.loss = "quantile"
        losses = tuple(partial(self._losses, level) for level in self._levels())
        # A bandwidth of the user is in units of the domain.
        return ObjectivePerturbation(self._reference, losses, params, is_auto(self.bandwidth))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._levels()
        if not is_auto(self.bandwidth):
            check_positive("bandwidth", self.bandwidth, 'Or give "auto".')

    def _check_inference(self, groups: Any) -> None:
        remedy = "Use the table of DPLinearRegression or DPHuberRegressor for means."
        raise fail("infer", "be called for means: quantiles have no table", remedy=remedy)

    def _losses(self, level: float, task: ModelTask) -> tuple[SmoothedQuantile]:
        if is_auto(self.bandwidth):
            shrunk = GREATEST * min(1.0, (PLENTY / task.weight) ** POWER)
            return (SmoothedQuantile(level, max(LEAST, shrunk)),)
        bounds = task.design.domain.target_bounds
        assert bounds is not None  # the domain of a regressor
        return (SmoothedQuantile(level, float(self.bandwidth) / (bounds[1] / 2 - bounds[0] / 2)),)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean D^2 of the quantiles, by their pinball losses. It is not private.

        Parameters
        ----------
        X : DataFrame, array-like, collection, path or callable
            As in :meth:`predict`. The predictions of all rows are kept in memory.
        y : array-like or dask collection of shape (n,)
            The target, in the order of the rows.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        float
        """
        levels = self._levels()

        def mean_d2(y: Any, found: FloatArray, sample_weight: Any) -> float:
            each = zip(levels, found.reshape(len(found), -1).T, strict=True)
            facts = {"sample_weight": sample_weight}
            return float(np.mean([d2_pinball_score(y, one, alpha=a, **facts) for a, one in each]))

        return float(score_by(mean_d2, "D^2")(self, X, y, sample_weight))
