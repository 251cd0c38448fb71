"""The API as a user calls it, for type checkers: `make types` runs mypy and pyright on this file.

Its functions are not called. A wrong or missing type makes a checker fail.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import skdp
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Guarantee,
    Ledger,
    estimate_domain,
    load_model,
)
from skdp.datasets import Dataset, fetch_adult, load_breast_cancer
from skdp.geometry import Hull, LpBall
from skdp.inspection import (
    CoefficientDisplay,
    EpsilonCurveDisplay,
    NormBallDisplay,
    PrivacyProfileDisplay,
    ShapeDisplay,
)
from skdp.linear_model import CoefficientTable, Inference, WaldTest
from skdp.mechanisms import Sensitivity, calibrate
from skdp.model_selection import EpsilonCurve, PrivateSearchCV, epsilon_curve
from skdp.noise import Laplace, Law
from skdp.privacy import compose
from skdp.trusted import Public
from skdp.trusted.certify import Listed

Floats = NDArray[np.float64]

assert_type(skdp.__version__, str)


def declare(path: str) -> tuple[Domain, Ledger]:
    domain = Domain({"age": (17, 90), "job": ["clerk", "craft"]}, target=["no", "yes"])
    assert_type(domain, Domain)
    assert_type(domain.additive(knots=4), Domain)
    assert_type(Domain.from_dict(domain.to_dict()), Domain)
    assert_type(Domain.from_json(domain.to_json()), Domain)
    assert_type(Domain.box([0, 0], [1, 1], target=(0, 1)), Domain)
    assert_type(domain.encode([[20, "clerk"]]), Floats)
    ledger = Ledger(epsilon=2.0, delta=1e-6, path=path)
    assert_type(ledger.remaining.epsilon, float)
    assert_type(ledger.spend(Guarantee(0.5), note="one release"), None)
    return domain, ledger


def classify(X: Floats, y: NDArray[Any], domain: Domain, ledger: Ledger) -> None:
    model = DPLogisticRegression(epsilon=1.0, delta=0.0, domain=domain, ledger=ledger)
    fitted = model.fit(X, y)
    assert_type(fitted, DPLogisticRegression)
    assert_type(fitted.fit(X, target="income", groups="person"), DPLogisticRegression)
    assert_type(fitted.coef_, Floats)
    assert_type(fitted.intercept_, Floats)
    assert_type(fitted.classes_, NDArray[Any])
    assert_type(fitted.guarantee_, Guarantee)
    assert_type(fitted.releases_, tuple[Listed, ...])
    assert_type(fitted.public_, Public)
    assert_type(fitted.domain_, Domain)
    assert_type(fitted.n_features_in_, int)
    assert_type(fitted.q_, float)
    assert_type(fitted.bounds_, Floats)
    # Of a table an array; of files and collections an iterator or a dask array.
    labels: NDArray[Any] = fitted.predict(X)
    shares: Floats = fitted.predict_proba(X)
    odds: Floats = fitted.decision_function(X)
    assert_type(fitted.score(X, labels), float)
    assert_type(fitted.to_dict(), dict[str, Any])
    assert_type(fitted.to_json(), str)
    print(labels, shares, odds)

    steps = DPCoordinateDescentClassifier(epsilon=1.0, delta=1e-6, domain=domain, n_passes=3)
    assert_type(steps.fit(X, y), DPCoordinateDescentClassifier)
    assert_type(steps.history_[0].n_passes, int)
    assert_type(steps.converged_, bool)


def infer(X: Floats, y: NDArray[Any], model: DPLogisticRegression, ledger: Ledger) -> None:
    table = model.infer(X, y, groups=None, epsilon=0.8, delta=0.0, ledger=ledger, random_state=None)
    assert_type(table, Inference)
    assert_type(model.infer("rows.csv", target="income", epsilon=0.8), Inference)
    assert_type(table.coef, Floats)
    assert_type(table.std_error, Floats)
    assert_type(table.p_values, Floats)
    assert_type(table.conf_int(level=0.9), Floats)
    assert_type(table.summary(), CoefficientTable)
    assert_type(table.wald_test(["age"]), WaldTest)
    assert_type(table.guarantee, Guarantee | None)
    assert_type(table.to_dict(), dict[str, Any])
    assert_type(table.to_json(), str)
    assert_type(CoefficientDisplay.from_estimator(model, inference=table), CoefficientDisplay)
    assert_type(ShapeDisplay.from_estimator(model, inference=table), ShapeDisplay)


def regress(X: Floats, y: Floats, domain: Domain) -> None:
    robust = DPHuberRegressor(domain=domain).fit(X, y)
    assert_type(robust, DPHuberRegressor)
    assert_type(robust.intercept_, float)
    assert_type(robust.threshold_, float)
    moments = DPLinearRegression(domain=domain).fit(X, y)
    assert_type(moments, DPLinearRegression)
    assert_type(moments.from_moments(["x0"], target="x1"), DPLinearRegression)
    assert_type(moments.coef_std_, Floats)
    lasso = DPCoordinateDescentRegressor(delta=1e-6, penalty="l1", domain=domain).fit(X, y)
    assert_type(lasso, DPCoordinateDescentRegressor)
    assert_type(lasso.score(X, y), float)
    predictions: Floats = lasso.predict(X)
    print(predictions)


def search(X: Floats, y: NDArray[Any], domain: Domain) -> None:
    model = DPLogisticRegression(domain=domain)
    found = PrivateSearchCV(model, {"regularization": [0.0, 1.0]}, epsilon=1.0).fit(X, y)
    assert_type(found, PrivateSearchCV)
    assert_type(found.guarantee_, Guarantee)
    assert_type(found.best_params_, dict[str, Any])
    curve = epsilon_curve(model, X, y, [0.5, 1.0])
    assert_type(curve, EpsilonCurve)
    assert_type(curve.scores, Floats)
    assert_type(EpsilonCurveDisplay.from_curve(curve), EpsilonCurveDisplay)


def release(ledger: Ledger) -> None:
    noise = calibrate("laplace", Sensitivity(LpBall(2)), epsilon=1.0)
    assert_type(noise.guarantee, Guarantee)
    assert_type(noise.release([1.0, 2.0]), Floats)
    daily = noise.guarantee
    assert_type(compose(daily, daily), Guarantee)
    assert_type(daily.delta_at(0.5), float)
    assert_type(daily.to_dict(), dict[str, Any])
    assert_type(Guarantee.from_dict(daily.to_dict()), Guarantee)
    law: Law = Laplace(2.0)
    assert_type(LpBall(2, p=1).gauge([1.0, 1.0]), Floats)
    assert_type(Hull.from_points([[1.0, 0.0], [0.0, 1.0]]), Hull)
    ledger.spend(daily)
    print(law)


def keep(model: DPLogisticRegression) -> None:
    again = load_model(model.to_dict())
    print(again.predict([[20, "clerk"]]))


def look(model: DPLogisticRegression) -> None:
    assert_type(CoefficientDisplay.from_estimator(model), CoefficientDisplay)
    assert_type(ShapeDisplay.from_estimator(model), ShapeDisplay)
    assert_type(PrivacyProfileDisplay.from_guarantee(model.guarantee_), PrivacyProfileDisplay)
    assert_type(NormBallDisplay.from_balls({"l1": LpBall(2, p=1)}), NormBallDisplay)


def data() -> None:
    cancer = load_breast_cancer(as_frame=False)
    assert_type(cancer, Dataset)
    assert_type(cancer.domain, Domain)
    assert_type(fetch_adult(folder="data"), Dataset)
    found = estimate_domain(cancer.X, epsilon=0.1)
    assert_type(found, Domain)
