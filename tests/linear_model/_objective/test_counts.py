"""Regression of counts: the link, the cap of the mean, the scale of coefficients, and refusals."""

from itertools import product

import mpmath
import numpy as np
import pytest
from exact_gradient import exact_slope
from exact_minimiser import greatest_ratio, law_of_numbers, noise_scale
from inner_fits import Design, Task
from inner_objective import greatest_leverage, plan_clipping
from sklearn.metrics import d2_tweedie_score
from test_clipping_stage import check_changes

from skdp import Domain, DPGammaRegressor, DPHuberRegressor, DPPoissonRegressor, Ledger, from_json
from skdp.inspection import CoefficientDisplay, ShapeDisplay
from skdp.linear_model.losses import CappedPoisson

KINDS = [DPPoissonRegressor, DPGammaRegressor]
DOMAIN = Domain({"age": (20, 80), "ill": ["no", "yes"]}, target=(0, 100))


def visits(n, seed=0):
    X = DOMAIN.sample(n, random_state=seed)
    mean = np.exp(0.02 * X["age"]) * np.where(X["ill"] == "yes", 2, 1)
    return X, np.random.default_rng(seed).poisson(mean).astype(float)


@pytest.mark.parametrize("loss", [CappedPoisson(0.25, 0.125), CappedPoisson(0.01, 2.0)], ids=repr)
def test_slopes_are_as_exact_as_the_proof_needs(loss):
    """Within 16 units in the last place of the bound, for targets of 0 to 500 caps."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(0, 4, 600), 2 * rng.choice([0.0, 0.3, 1.0, 500.0], 600) - 1
    z[:200] = np.log(0.5 / loss.start) + rng.normal(0, 1e-9, 200)  # where the parts of h meet
    with mpmath.workdps(40):
        exact = [exact_slope(loss, mpmath.mpf(a), b) for a, b in zip(z, y, strict=True)]
        error = [abs(a - b) for a, b in zip(loss.slope(z, y).tolist(), exact, strict=True)]
    assert float(max(error)) <= 16 * np.spacing(loss.threshold)
    assert float(max(error)) > 0  # the reference has more digits


def test_without_noise_and_ridge_the_equation_keeps_the_mean():
    """For a large threshold the slope is h - t: the score of the Poisson likelihood."""
    loss, z = CappedPoisson(0.2, 1e6), np.linspace(-6, 6, 101)
    y = np.full_like(z, -0.5)  # a quarter of the cap
    np.testing.assert_allclose(loss.slope(z, y), loss.mean(z) - 0.25, atol=1e-9)
    low = z < np.log(0.5 / 0.2)
    np.testing.assert_allclose(loss.mean(z)[low], 0.2 * np.exp(z[low]), rtol=1e-14)
    assert (np.diff(loss.mean(z)) > 0).all()
    assert loss.mean(np.array([800.0, -800.0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_counts_above_the_cap_cost_no_more_than_epsilon(epsilon):
    """The exact density ratio in one dimension; 5 % less noise exceeds epsilon."""
    loss, q = CappedPoisson(0.25, 0.3), 0.99
    leverage = greatest_leverage(loss, q, epsilon, "replace_one")
    scale = noise_scale(loss, q, epsilon, "replace_one")
    records = list(product([-1.0, 0.4, 1.0], [-1.0, 0.1, 1.0, 400.0]))
    outputs = np.concatenate([-np.geomspace(1e-3, 300, 30), np.geomspace(1e-3, 300, 30)])

    def worst(scale):
        law_of = law_of_numbers(loss, scale=scale, ridge=[1 / leverage])
        return greatest_ratio(law_of, [(0.9, 150.0)], records, outputs, "replace_one")

    assert 0.9 * epsilon < worst(scale) <= epsilon
    assert worst(0.95 * scale) > 1.01 * epsilon


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_stage_covers_every_change_of_a_count(neighbors):
    """Sums of the transformed count and twice its square stay in the hull, which 0 and Y reach."""
    design, public = Design(DOMAIN, True), 5000 if neighbors == "replace_one" else None
    task = Task(design, public, 1.0, 0.0, neighbors)
    stage = plan_clipping(task, 5000, None, with_target=True, is_count=True)
    rng, rows = np.random.default_rng(0), np.zeros((2, design.dim))
    check_changes(stage, [(rows, rng.choice([-1.0, 1.0, -0.99, 0.3], 2)) for _ in range(200)])


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_means_below_a_cap(kind):
    X, y = visits(20_000)
    model = kind(domain=DOMAIN, random_state=0).fit(X, y)
    (lower, cap), found = model.target_bounds_, model.predict(X)
    assert lower == 0
    assert found.max() < cap < 100
    assert found.mean() == pytest.approx(y.mean(), rel=0.02)
    np.testing.assert_allclose(model.coef_, [0.02, np.log(2)], rtol=0.05)
    # Below half of the cap the logarithm is linear in the user's units.
    log_mean = model.intercept_ + model.coef_[0] * X["age"] + model.coef_[1] * (X["ill"] == "yes")
    assert found.max() < cap / 2
    np.testing.assert_allclose(np.log(found), log_mean, rtol=1e-9)
    np.testing.assert_array_equal(from_json(model.to_json()).predict(X), found)
    weight = np.arange(len(y)) % 3
    power = {DPPoissonRegressor: 1, DPGammaRegressor: 2}[kind]
    y = np.maximum(y, 0.5)
    expected = d2_tweedie_score(y, found, sample_weight=weight, power=power)
    assert model.score(X, y, weight) == expected
    least = {1: "numbers from 0 on, one for", 2: "numbers above 0, one for"}[power]
    with pytest.raises(ValueError, match=f"y must be {least}"):
        model.score(X, y - y.min() - (power == 1))


def test_refusals_come_before_a_charge():
    X, y = visits(100)
    ledger = Ledger(1.0)
    shifted = Domain({"age": (20, 80), "ill": ["no", "yes"]}, target=(1, 100))
    for given, match in (
        ({"domain": shifted}, "start at 0"),
        ({"domain": DOMAIN, "threshold": 0.1}, "threshold"),
    ):
        with pytest.raises(ValueError, match=match):
            DPPoissonRegressor(ledger=ledger, **given).fit(X, y)
    with pytest.raises(ValueError, match='be for target = "number"'):
        DPHuberRegressor(loss=CappedPoisson(), ledger=ledger).fit(X[["age"]], y)
    assert ledger.spent.epsilon == 0


def test_displays_name_the_scale():
    X, y = visits(2000)
    model = DPPoissonRegressor(domain=DOMAIN, random_state=0).fit(X, y)
    assert ShapeDisplay.from_estimator(model).unit == "effect (log of the mean)"
    coefficients = CoefficientDisplay.from_estimator(model)
    assert coefficients.unit == "coefficient (log of the mean), for one unit"


def test_curves_and_persons_are_inherited():
    """Curves follow a bend that a line does not; rows of a person have one weight together."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40_000, 1))
    y = rng.poisson(3 * np.exp(np.cos(5 * X[:, 0]))).astype(float)
    settings = {"domain": Domain.unit_box(1, target=(0, 60)), "random_state": 0}
    line = DPPoissonRegressor(**settings).fit(X, y)
    curve = DPPoissonRegressor(**settings, additive="auto").fit(X, y, groups=np.arange(len(y)) // 2)
    assert line.score(X, y) < 0.1 < 0.5 < curve.score(X, y)
    assert curve.guarantee_.unit == "person"
