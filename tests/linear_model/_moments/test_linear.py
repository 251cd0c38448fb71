"""DPLinearRegression: coefficients, their deviations and other regressions, in user units."""

import pickle

import numpy as np
import pandas as pd
import pytest
from inner_fits import Records
from sklearn.linear_model import LinearRegression

from skdp import Domain, DPLinearRegression, Ledger
from skdp.rows import MemoryRows
from skdp.trusted.noise import KNormNoise

RELATIONS = ["replace_one", "add_remove"]
MUCH = 1e9  # so much epsilon that the noise is below 1e-5
BOX = Domain.box([0.0, -3.0], [10.0, 5.0], target=(-20.0, 40.0))


def data(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform([0, -3], [10, 5], (n, 2))
    return X, 3 * X[:, 0] - X[:, 1] + rng.normal(size=n)


def noiseless(domain, **parameters):
    return DPLinearRegression(epsilon=MUCH, domain=domain, random_state=0, **parameters)


def indicators(domain, X):
    """Numbers in the user's units next to indicators: what coef_ multiplies."""
    rows = domain.encode(X)
    names = domain.encoded_names()
    for name in X.columns:
        if name in names:
            rows[:, names.index(name)] = X[name]
    return rows


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("postprocess", ["auto", "pinv", "psd", "ridge"])
def test_without_noise_it_is_least_squares_in_the_users_units(neighbors, postprocess):
    X, y = data()
    model = noiseless(BOX, neighbors=neighbors, postprocess=postprocess).fit(X, y)
    truth = LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, truth.coef_, rtol=1e-4)
    assert model.intercept_ == pytest.approx(truth.intercept_, abs=1e-3)
    np.testing.assert_allclose(model.predict(X), truth.predict(X), atol=1e-3)
    assert model.moments_.n_records == pytest.approx(len(X), abs=1e-3)
    np.testing.assert_allclose(model.coef_std_ / model.coef_, 0, atol=1e-4)


def test_levels_are_least_squares_on_indicators(people, pay_domain):
    y = 0.1 * people["age"] + 3.0 * (people["job"] == "smith") - (people["sex"] == "m") + 5
    model = noiseless(pay_domain).fit(people, y)
    truth = LinearRegression().fit(indicators(pay_domain, people), y)
    np.testing.assert_allclose(model.coef_, truth.coef_, atol=1e-3)
    assert model.intercept_ == pytest.approx(truth.intercept_, abs=0.05)


def test_without_an_intercept_the_middle_of_the_domain_predicts_the_middle_of_the_target():
    X, y = data()
    model = noiseless(BOX, fit_intercept=False).fit(X, y)
    scaled = (X - [5, 1]) / [5, 4]
    truth = LinearRegression(fit_intercept=False).fit(scaled, (y - 10) / 30)
    np.testing.assert_allclose(model.coef_, truth.coef_ * 30 / [5, 4], rtol=1e-4)
    np.testing.assert_allclose(model.predict([[5.0, 1.0]]), 10.0)


@pytest.mark.parametrize("radius", [1e-100, 1e-5, 0.3, 1.0, 5.0, 1e6, 1e100])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_in_a_ball_of_any_radius(radius, intercept):
    """Coefficients are in units of the raw columns, however small or great these are."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1000, 3))
    X *= (rng.random(1000) ** 0.3 / np.linalg.norm(X, axis=1))[:, None]
    y = X @ [0.3, -0.2, 0.1] + 0.01 * rng.normal(size=1000) + 0.1
    domain = Domain.l2_ball(3, radius, target=(-1.0, 1.0))
    model = noiseless(domain, fit_intercept=intercept).fit(radius * X, y)
    truth = LinearRegression(fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_ * radius, truth.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict(radius * X), truth.predict(X), atol=1e-4)
    usual = DPLinearRegression(domain=domain, epsilon=1.0, random_state=0, mechanism="matrix")
    spread = usual.fit(radius * X, y).coef_std_ * radius
    assert (spread > 0.005).all()
    assert (spread < 5).all()


def refits(model, X, y, seeds):
    """Yield the model after new draws of its noise; the table is read once."""
    plan = model._plan(model._design, len(X), 1)
    target, labels, _ = model._target(y, len(X))
    algorithm = model._algorithm()
    rows = MemoryRows(model._design.domain, X, target)
    sums = algorithm.sums(plan, Records(model._design, rows, labels))
    for seed in seeds:
        solution = algorithm.release(plan, sums, np.random.default_rng(seed))
        model._store(plan, solution, {}, model._design)
        yield model


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("postprocess", ["pinv", "psd"])
def test_stated_deviations_are_those_of_many_fits(neighbors, postprocess, people, pay_domain):
    """100 seeds: a variance has a relative error of 14 % (kurtosis 3), 80 % at 5.6 of these.

    Below, chi-square(99) is under 0.4 times its mean less than once in 1e9 times. 0.4 to 2.2 are
    allowed: half and twice the deviation, a quarter and four times the variance, are caught.
    """
    many = pd.concat([people] * 60, ignore_index=True)
    rng = np.random.default_rng(2)
    y = 20 + 5 * rng.normal(size=len(many)) + 0.2 * many["hours"] + 4 * (many["job"] == "smith")
    model = DPLinearRegression(
        epsilon=8.0, domain=pay_domain, neighbors=neighbors, postprocess=postprocess,
        mechanism="matrix",
    )  # fmt: skip
    found, stated = [], []
    for released in refits(model.fit(many, y), many, y, range(100)):
        found.append([*released.coef_, released.intercept_])
        stated.append([*released.coef_std_, released.intercept_std_])
    ratio = np.var(found, axis=0, ddof=1) / np.mean(np.square(stated), axis=0)
    assert np.all((ratio > 0.4) & (ratio < 2.2)), ratio


def many_draws(noise, n, rng):
    """Draws of a law, K-norms all at once."""
    if isinstance(noise, KNormNoise):
        sizes = noise.scale * rng.gamma(noise.dim + 1, size=n)
        return sizes[:, None] * noise.ball.sample(n, rng)
    return np.array([noise.rvs(rng) for _ in range(n)])


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("mechanism", ["matrix", "hull", "l1", "gaussian"])
def test_stated_deviations_of_the_moments_are_those_of_the_noise(mechanism, neighbors):
    """Levels and numbers; the count is put back on squares. 2500 draws, 20 % at 5 errors or more.

    A variance of these has a relative error of at most 3.5 % (kurtosis 4); the twin, deviations
    that are a third too small, is caught.
    """
    domain = Domain({"a": (0, 1), "job": list("xyz"), "sex": ["f", "m"]}, target=(0.0, 1.0))
    model = DPLinearRegression(
        domain=domain, mechanism=mechanism, neighbors=neighbors, delta=1e-6, random_state=0
    )
    model.fit(pd.DataFrame({"a": [0.0], "job": ["x"], "sex": ["f"]}), [0.5])
    moments, rng = model.moments_, np.random.default_rng(3)
    n = None if moments.layout.adds else 1.0
    draws = moments.layout.gram(many_draws(moments.noise, 2500, rng), n)
    noisy = moments.deviation > 0
    ratio = (np.std(draws, axis=0) / np.where(noisy, moments.deviation, 1))[noisy] ** 2
    assert np.all(np.abs(ratio - 1) < 0.2)
    assert np.all(np.abs(ratio / (2 / 3) ** 2 - 1) > 0.2)
    assert noisy[0, 0] == moments.layout.adds


def test_other_regressions_of_the_same_release_are_those_of_the_data(people, pay_domain):
    """A number on levels and numbers, in its own units; predict takes the chosen columns."""
    y = 0.1 * people["age"] + 5
    ledger = Ledger(2 * MUCH)
    model = noiseless(pay_domain, ledger=ledger).fit(people, y)
    names = ["age", "sex", "job"]
    other = model.from_moments(names, target="hours")
    assert len(ledger.entries) == 1
    domain = Domain(
        {"age": (17, 90), "sex": ["f", "m"], "job": ["none", "clerk", "smith"]}, target=(0, 80)
    )
    own = noiseless(domain).fit(people[names], people["hours"])
    np.testing.assert_allclose(other.coef_, own.coef_, atol=1e-3)
    assert other.intercept_ == pytest.approx(own.intercept_, abs=0.05)
    np.testing.assert_allclose(other.predict(people[names]), own.predict(people[names]), atol=0.05)
    assert other.feature_names_in_.tolist() == names
    assert other.n_features_in_ == 3
    assert other.guarantee_ is model.guarantee_
    assert other.moments_.names == ("1", "age", "sex_m", "job_clerk", "job_smith", "hours")
    copied = pickle.loads(pickle.dumps(model)).from_moments(names, target="hours")
    np.testing.assert_array_equal(copied.coef_, other.coef_)
    again = other.from_moments(["sex"], target="age")
    assert again.coef_.shape == (1,)
    np.testing.assert_allclose(model.from_moments().coef_, model.coef_)


def test_the_moments_are_means_and_covariances():
    X, y = data()
    moments = noiseless(BOX).fit(X, y).moments_
    table = np.column_stack([BOX.encode(X), BOX.encode_target(y)])
    assert moments.names == ("1", "x0", "x1", "target")
    np.testing.assert_allclose(moments.mean(), table.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(moments.covariance(), np.cov(table.T, bias=True), atol=1e-5)


def test_where_noise_drowns_all_the_mean_is_released_alone():
    """It says so where other regressions are asked for; a mechanism by name is obeyed."""
    X, y = data(40)
    model = DPLinearRegression(epsilon=0.5, domain=BOX, random_state=0).fit(X, y)
    assert model.moments_.names == ("1", "target")
    assert (model.coef_ == 0).all()
    assert (model.coef_std_ == 0).all()
    assert model.intercept_std_ == pytest.approx(30 * 8**0.5 / 0.5 / 40, rel=0.1)  # of 256 draws
    assert len(set(model.predict(X))) == 1
    with pytest.raises(ValueError, match=r"none were released\. Their noise would be too large"):
        model.from_moments(["x0"], target="x1")
    model.set_params(mechanism="matrix").fit(X, y)
    assert model.moments_.names == ("1", "x0", "x1", "target")
