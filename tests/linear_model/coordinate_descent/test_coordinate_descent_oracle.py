"""Without noise the estimators by coordinate descent are scikit-learn's: the same minimisers."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.utils.fixes import parse_version

from skdp import Domain, DPCoordinateDescentClassifier, DPCoordinateDescentRegressor

# Noise of a standard deviation near 1e-5 on sums over 2000 records moves nothing by 1e-4.
N, CLOSE = 2000, 1e-4
NOISELESS = {
    "epsilon": 1e9,
    "random_state": 0,
    "step_size": 1.9,  # below 2, and nearly twice as fast as 1
    "scaling_share": 0,
    "clip": None,
    "average": False,
}
COLUMNS = {"age": (17, 90), "job": ["none", "clerk", "smith"], "hours": (0, 80), "sex": ["f", "m"]}
BOX = Domain.unit_box(4, target=(-1.0, 1.0))
PEOPLE = Domain(COLUMNS, target=(-10.0, 50.0))
REGRESSIONS = {
    "none": ({"penalty": None}, LinearRegression()),
    "l1": ({"penalty": "l1", "alpha": 0.02}, Lasso(0.02, tol=1e-12)),
    "l2": ({"penalty": "l2", "alpha": 0.05}, Ridge(0.05 * N, tol=1e-12)),
    "elastic net": (
        {"penalty": "elasticnet", "alpha": 0.03, "l1_ratio": 0.7},
        ElasticNet(0.03, l1_ratio=0.7, tol=1e-12),
    ),
}
# Greedy steps are of one coordinate each, with a private choice next to free of noise.
STEPS = {"cyclic": 120, "random": 120, "greedy": 400}
PAIRS = [(True, "cyclic"), (True, "random"), (False, "cyclic"), (True, "greedy")]


def each(names):
    """Return a case for each name, with its own choice of an intercept and an order."""
    return [(name, *pair) for name, pair in zip(names, PAIRS, strict=True)]


# Since scikit-learn 1.8 l1_ratio alone says which penalty is meant.
OLDER = parse_version(sklearn.__version__) < parse_version("1.8")


def logistic(alpha, l1_ratio, penalty=None, **parameters):
    """The same objective: scikit-learn's C is over the number of records."""
    if l1_ratio:
        parameters |= {"solver": "saga", "random_state": 0, "tol": 1e-8}
    c = np.inf if alpha == 0 else 1 / (N * alpha)
    common = {"tol": 1e-10, "max_iter": 20_000} | parameters
    if OLDER and l1_ratio:
        common["penalty"] = "elasticnet"
    return LogisticRegression(C=c, l1_ratio=l1_ratio if l1_ratio or not OLDER else None, **common)


CLASSIFICATIONS = {
    "none": {"penalty": None, "alpha": 0.0, "l1_ratio": 0.0},
    "l2": {"penalty": "l2", "alpha": 0.01, "l1_ratio": 0.0},
    "l1": {"penalty": "l1", "alpha": 0.01, "l1_ratio": 1.0},
    "elastic net": {"penalty": "elasticnet", "alpha": 0.01, "l1_ratio": 0.3},
}


def box_data():
    """Correlated numbers within their bounds, one of them of no use."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, 4))
    X[:, 1] = 0.6 * X[:, 0] + 0.4 * X[:, 1]
    return X, 0.1 + X @ [0.3, -0.2, 0.0, 0.1], rng


def people_data():
    """A table with units and levels, its columns in another order than the domain's."""
    rng = np.random.default_rng(1)
    columns = {
        "hours": rng.uniform(0, 80, N),
        "sex": rng.choice(["f", "m"], N),
        "age": rng.uniform(17, 90, N),
        "job": rng.choice(COLUMNS["job"], N, p=[0.5, 0.3, 0.2]),
    }
    X = pd.DataFrame(columns)
    mean = 5 + 0.3 * X["hours"] + 4.0 * (X["job"] == "smith") - 2.0 * (X["sex"] == "m")
    return X, mean.to_numpy(), rng


def regression(domain):
    X, mean, rng = box_data() if domain is BOX else people_data()
    low, high = domain.target_bounds
    return X, np.clip(mean + 0.05 * (high - low) * rng.normal(size=N), low, high)


def classification(domain, n_classes=2):
    """Labels that logistic models fit, none of them separable."""
    X, mean, rng = box_data() if domain is BOX else people_data()
    centred = (mean - mean.mean()) / mean.std()
    cuts = [0.0] if n_classes == 2 else [-0.5, 0.7]
    return X, np.digitize(centred + rng.logistic(size=N), cuts)


def differs(model, coef, intercept):
    """The greatest difference of a model from coefficients and intercepts of encoded columns."""
    return max(
        np.abs(model._encoded_coef - coef).max(),
        np.abs(model._encoded_intercept - intercept).max(),
    )


@pytest.mark.parametrize(("name", "intercept", "order"), each(REGRESSIONS))
def test_least_squares_in_a_box(name, intercept, order):
    """Lasso, ridge, elastic net and plain least squares; the order of steps changes nothing."""
    penalty, reference = REGRESSIONS[name]
    X, y = regression(BOX)
    steps = {"fit_intercept": intercept, "order": order, "n_passes": STEPS[order]}
    model = DPCoordinateDescentRegressor(domain=BOX, **penalty, **steps, **NOISELESS).fit(X, y)
    wanted = clone(reference).set_params(fit_intercept=intercept).fit(X, y)
    assert differs(model, wanted.coef_, wanted.intercept_) < CLOSE
    # In a unit box the user's units are the encoded ones.
    assert np.abs(model.coef_ - wanted.coef_).max() < CLOSE


@pytest.mark.parametrize(("name", "intercept", "order"), each(REGRESSIONS))
def test_least_squares_with_units_and_levels(name, intercept, order):
    """scikit-learn sees the encoded columns; predictions are compared in the target's units."""
    penalty, reference = REGRESSIONS[name]
    X, y = regression(PEOPLE)
    steps = {"fit_intercept": intercept, "order": order, "n_passes": STEPS[order]}
    model = DPCoordinateDescentRegressor(domain=PEOPLE, **penalty, **steps, **NOISELESS).fit(X, y)
    rows = PEOPLE.encode(X)
    wanted = clone(reference).set_params(fit_intercept=intercept).fit(rows, PEOPLE.encode_target(y))
    assert differs(model, wanted.coef_, wanted.intercept_) < CLOSE
    decoded = PEOPLE.decode_coef(wanted.coef_, wanted.intercept_, regression=True)
    np.testing.assert_allclose(model.coef_, decoded[0], atol=30 * CLOSE)
    found = np.clip(PEOPLE.decode_target(wanted.predict(rows)), *PEOPLE.target_bounds)
    np.testing.assert_allclose(model.predict(X), found, atol=60 * CLOSE)


@pytest.mark.parametrize(("name", "intercept", "order"), each(CLASSIFICATIONS))
def test_logistic_regression_in_a_box(name, intercept, order):
    penalty = CLASSIFICATIONS[name]
    X, y = classification(BOX)
    steps = {"fit_intercept": intercept, "order": order, "n_passes": max(200, STEPS[order])}
    model = DPCoordinateDescentClassifier(classes=[0, 1], **penalty, **steps, **NOISELESS)
    model.fit(X, y)
    wanted = logistic(**penalty, fit_intercept=intercept).fit(X, y)
    assert differs(model, wanted.coef_, wanted.intercept_) < CLOSE
    np.testing.assert_allclose(model.predict_proba(X), wanted.predict_proba(X), atol=CLOSE)


@pytest.mark.parametrize(("name", "delta"), zip(CLASSIFICATIONS, [0.0, 1e-6] * 2, strict=True))
def test_a_joint_model_is_the_multinomial_one(name, delta):
    """Where there is so little noise, the normalizer is 1: scikit-learn's softmax of the classes.

    A constant may be added to the intercepts of all classes.
    """
    X, y = classification(PEOPLE, 3)
    settings = NOISELESS | {"delta": delta, "classes": [0, 1, 2], "domain": PEOPLE, "n_passes": 400}
    model = DPCoordinateDescentClassifier(**CLASSIFICATIONS[name], **settings).fit(X, y)
    assert model.normalizer_ == 1
    rows = PEOPLE.encode(X)
    wanted = logistic(**CLASSIFICATIONS[name]).fit(rows, y)
    intercept = wanted.intercept_ - wanted.intercept_.mean() + model._encoded_intercept.mean()
    assert differs(model, wanted.coef_, intercept) < 3 * CLOSE
    np.testing.assert_allclose(model.predict_proba(X), wanted.predict_proba(rows), atol=CLOSE)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("clip", [None, "auto"])
def test_with_hardly_any_gaussian_noise_all_records_count_alike(clip, neighbors):
    """ "auto" weighs long records down for the sake of the noise only, and None never does."""
    X, y = classification(BOX)
    wanted = logistic(0.01, 0.0).fit(X, y)
    settings = NOISELESS | {"delta": 1e-6, "mechanism": "gaussian", "neighbors": neighbors}
    settings |= {"penalty": "l2", "alpha": 0.01, "n_passes": 200, "n_public": N, "clip": clip}
    model = DPCoordinateDescentClassifier(classes=[0, 1], **settings).fit(X, y)
    assert differs(model, wanted.coef_, wanted.intercept_) < CLOSE


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_scaling_stage_changes_the_coordinates_and_not_the_model(kind, neighbors):
    """Scaled numbers, and all levels: without a penalty the minimiser is the same.

    If all records are within the scaling. Of these, uniform, none is 3 deviations out.
    """
    settings = NOISELESS | {"scaling_share": 0.1, "penalty": None, "neighbors": neighbors}
    settings["domain"] = PEOPLE
    if kind == "regressor":
        X, y = regression(PEOPLE)
        model = DPCoordinateDescentRegressor(n_passes=120, **settings).fit(X, y)
        wanted = LinearRegression().fit(PEOPLE.encode(X), PEOPLE.encode_target(y))
    else:
        X, y = classification(PEOPLE)
        model = DPCoordinateDescentClassifier(n_passes=200, classes=[0, 1], **settings).fit(X, y)
        wanted = logistic(0.0, 0.0).fit(PEOPLE.encode(X), y)
    assert differs(model, wanted.coef_, wanted.intercept_) < 5 * CLOSE


@pytest.mark.parametrize(
    "changed",
    [{"alpha": 0.023}, {"penalty": "l2"}, {"fit_intercept": False}, {"clip": 0.5}, {"n_passes": 2}],
    ids=str,
)
def test_a_wrong_setting_is_caught(changed):
    """The twins: another alpha, penalty, clip, no intercept or too few passes differ by more."""
    settings = NOISELESS | {"penalty": "l1", "alpha": 0.02, "n_passes": 120, "domain": BOX}
    X, y = regression(BOX)
    model = DPCoordinateDescentRegressor(**(settings | changed)).fit(X, y)
    wanted = Lasso(0.02, tol=1e-12).fit(X, y)
    assert differs(model, wanted.coef_, wanted.intercept_) > 3 * CLOSE
