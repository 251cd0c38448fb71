"""Parameters of few bits, or fractions, are used as the floats that they are."""

from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from inner_package import check_interval, check_positive

import skdp
from skdp import Domain, DPCoordinateDescentClassifier, DPHuberRegressor, DPLogisticRegression
from skdp.geometry import LpBall
from skdp.linear_model.losses import PseudoHuber, SharpLogistic
from skdp.mechanisms import Sensitivity

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (400, 3))
Y = (X[:, 0] > 0).astype(int)
KINDS = [np.float16, np.float32, Fraction]

SHARES = {"epsilon": 0.7, "delta": 1e-3}
OBJECTIVE = {**SHARES, "regularization": 3.3, "scaling_share": 0.1}
DESCENT = {**SHARES, "alpha": 0.01, "l1_ratio": 0.3, "clip": 0.7, "step_size": 0.9}
DESCENT |= {"scaling_share": 0.1, "penalty": "elasticnet"}
ESTIMATORS = [
    (DPLogisticRegression, OBJECTIVE),
    (DPLogisticRegression, {**OBJECTIVE, "mechanism": "gaussian"}),
    (DPHuberRegressor, {**OBJECTIVE, "threshold": 0.3}),
    (skdp.DPLinearRegression, SHARES),
    (DPCoordinateDescentClassifier, DESCENT),
    (skdp.DPCoordinateDescentRegressor, DESCENT),
]


def of_few_bits(kind, value):
    """The value as a number of that kind, and the float that it is."""
    if isinstance(value, str):
        return value, value
    few = Fraction(value).limit_denominator(1000) if kind is Fraction else kind(value)
    return few, float(few)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "make", [SharpLogistic, PseudoHuber, lambda x: Sensitivity(LpBall(2), x)], ids=["m", "c", "r"]
)
def test_parts_keep_parameters_as_floats(make, kind):
    few, exact = of_few_bits(kind, 0.7)
    part, other = make(few), make(exact)
    assert repr(part) == repr(other)
    assert part == other
    for field in fields(part):
        assert type(getattr(part, field.name)) is type(getattr(other, field.name))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("estimator", "parameters"), ESTIMATORS)
def test_estimators_fit_with_the_floats_that_parameters_are(estimator, parameters, kind):
    few = {name: of_few_bits(kind, value)[0] for name, value in parameters.items()}
    exact = {name: of_few_bits(kind, value)[1] for name, value in parameters.items()}
    labelled = hasattr(estimator, "predict_proba")
    domain = Domain.unit_box(3, [0, 1] if labelled else (-1.0, 1.0))
    found, expected = (
        estimator(**given, domain=domain, random_state=0).fit(X, Y) for given in (few, exact)
    )
    assert found.coef_.tobytes() == expected.coef_.tobytes()
    assert found.guarantee_.epsilon == expected.guarantee_.epsilon
    assert found.guarantee_.delta == expected.guarantee_.delta
    assert repr(found.noise_) == repr(expected.noise_)


def test_what_is_checked_is_the_float_that_is_used():
    for tiny in (Fraction(1, 10**400), np.longdouble("1e-4000")):
        with pytest.raises(ValueError, match="> 0"):
            check_positive("x", tiny)
    with pytest.raises(ValueError, match="finite"):
        check_positive("x", 10**400)
    almost = 1 - Fraction(1, 10**40)
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        check_interval("x", almost, 0.0, 1.0, closed="left")
    assert type(check_interval("x", np.float16(0.5), 0.0, 1e300)) is float
