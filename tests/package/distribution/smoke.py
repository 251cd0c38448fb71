"""A use of an installed skdp: `make dist` runs a copy of this script far from the repository."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import skdp
from skdp import (
    BudgetExceeded,
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Ledger,
    from_json,
)
from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate

CLASSIFIERS = (DPLogisticRegression, DPCoordinateDescentClassifier)
REGRESSORS = (DPHuberRegressor, DPLinearRegression, DPCoordinateDescentRegressor)


def main() -> None:
    """Fit all estimators under one ledger, in a file, and release a number."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, size=(4000, 2))
    path = Path(tempfile.mkdtemp()) / "budget.ledger"
    for estimators, y, target in (
        (CLASSIFIERS, np.where(X[:, 0] > X[:, 1], "yes", "no"), ["no", "yes"]),
        (REGRESSORS, 3 * X[:, 0] - X[:, 1], (-10, 30)),
    ):
        domain = Domain.box([0, 0], [10, 10], target=target)
        for estimator in estimators:
            ledger = Ledger(epsilon=5.0, delta=1e-5, path=path)  # continues the file
            model = estimator(epsilon=1.0, delta=1e-6, domain=domain, ledger=ledger).fit(X, y)
            score = model.score(X, y)
            assert score > 0.8, (estimator, score)
            same = from_json(model.to_json()).predict(X[:5])
            np.testing.assert_array_equal(same, model.predict(X[:5]))
    assert len(Ledger(epsilon=5.0, delta=1e-5, path=path).entries) == 5
    try:
        model.set_params(epsilon=5.0).fit(X, y)
    except BudgetExceeded:
        pass
    else:
        raise AssertionError("the ledger permits more than its budget")
    noise = calibrate("laplace", Sensitivity(LpBall(1)), epsilon=1.0)
    assert abs(noise.release([123.0])[0] - 123.0) < 100
    print(f"skdp {skdp.__version__} works: {Path(skdp.__file__).parent}, Python {sys.version[:6]}")


if __name__ == "__main__":
    main()
