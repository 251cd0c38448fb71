"""What numpy is asked to tell of rounding is not told of a fit or a prediction."""

import warnings

import numpy as np
import pytest

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)

CLASSIFIERS = [DPLogisticRegression, DPCoordinateDescentClassifier]
ESTIMATORS = [*CLASSIFIERS, DPHuberRegressor, DPLinearRegression, DPCoordinateDescentRegressor]

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 2))
Y = (X[:, 0] > 0).astype(int)
TINY = X.copy()
TINY[5], TINY[6, 0] = 5e-324, 1e-310


@pytest.mark.parametrize("state", ["raise", "warn"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_cells_that_underflow_show_nowhere(estimator, state):
    domain = Domain.unit_box(2, [0, 1] if estimator in CLASSIFIERS else (-1.0, 1.0))
    quiet = estimator(epsilon=1.0, delta=1e-3, domain=domain, random_state=0).fit(TINY, Y)
    with warnings.catch_warnings(), np.errstate(all=state):
        warnings.simplefilter("error", RuntimeWarning)
        model = estimator(epsilon=1.0, delta=1e-3, domain=domain, random_state=0).fit(TINY, Y)
        told = [
            getattr(model, name)(TINY)
            for name in ("predict", "decision_function", "predict_proba", "predict_log_proba")
            if hasattr(model, name)
        ]
    assert np.array_equal(model.coef_, quiet.coef_)
    assert np.array_equal(told[0], quiet.predict(TINY))
