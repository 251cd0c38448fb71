"""Quantile regression: its loss, its budget, and predictions that do not cross."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.metrics import d2_pinball_score

from skdp import Domain, DPQuantileRegressor, from_json
from skdp.linear_model import check_proof
from skdp.linear_model.load import load_model
from skdp.linear_model.losses import SmoothedQuantile
from skdp.linear_model.quantile import MOVES
from skdp.privacy.guarantee import guarantee_of
from skdp.testing import replay
from skdp.trusted import certify
from skdp.trusted.statement import NotPrivate

DOMAIN = Domain.box([-1, -1], [1, 1], target=(-4, 8))
LEVELS = [0.1, 0.5, 0.9]


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, X[:, 0] + (1 + 0.5 * X[:, 1]) * rng.gamma(2, 0.5, n)


@pytest.mark.parametrize("level", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("bandwidth", [0.01, 1.0])
def test_the_curvature_bound_is_the_greatest_curvature_of_a_fine_grid(level, bandwidth):
    """It is neither below the grid nor above it by more than the grid's resolution."""
    loss = SmoothedQuantile(level, bandwidth)
    r = bandwidth * np.linspace(-40, 40, 400_001)
    s, kappa = np.abs(loss.slope(r, 0 * r)), loss.curvature(r, 0 * r)
    assert s.max() <= loss.slope_bound
    ends = np.linspace(0, loss.slope_bound, 23)
    for low, high in pairwise(ends):
        greatest = kappa[(low <= s) & (s <= high)].max()
        bound = float(loss.curvature_bound(low, high))
        assert greatest <= bound * (1 + 1e-12) <= greatest + 1e-3 / bandwidth
    assert (kappa <= loss.curvature_bound(s, s) * (1 + 1e-12)).all()


def test_the_loss_is_the_check_loss_convolved_with_a_logistic_law():
    loss, b = SmoothedQuantile(0.8, 0.2), 0.2
    for r in (-1.0, 0.1, 0.7):
        density = lambda u: 1 / (4 * b * math.cosh(u / (2 * b)) ** 2)  # noqa: E731
        check = lambda u: (max(r + u, 0) - 0.8 * (r + u)) * density(u)  # noqa: E731, B023
        expected, _ = quad(check, -8, 8, points=[-r, 0], limit=200)
        assert float(loss.value(np.array(r), np.array(0.0))) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("additive", [None, 3])
def test_quantiles_never_cross(epsilon, delta, additive):
    facts = {"epsilon": epsilon, "delta": delta, "additive": additive}
    model = DPQuantileRegressor(quantile=LEVELS, domain=DOMAIN, random_state=0, **facts)
    found = model.fit(*records(300)).predict(records(500, 1)[0])
    assert found.shape == (500, 3)
    assert model.coef_.shape[0] == len(model.intercept_) == 3
    assert (np.diff(found, axis=1) >= 0).all()


@pytest.mark.parametrize("quantile", [*LEVELS, LEVELS])
def test_shares_below_predictions_are_the_levels(quantile):
    """With 50,000 records a share is off by .002 in the standard deviation, and by .01 at most."""
    X, y = records(50_000)
    model = DPQuantileRegressor(quantile=quantile, domain=DOMAIN, random_state=0).fit(X, y)
    X, y = records(50_000, 1)
    shares = (y[:, None] <= model.predict(X).reshape(len(X), -1)).mean(axis=0)
    assert shares == pytest.approx(np.ravel(quantile), abs=0.01)


@pytest.mark.parametrize("quantile", [0.5, [0.1, 0.9]])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_releases_prove_the_guarantee_and_a_twin_with_less_noise_is_refused(
    quantile, delta, neighbors
):
    facts = {"quantile": quantile, "delta": delta, "neighbors": neighbors, "scaling_share": 0}
    model = DPQuantileRegressor(domain=DOMAIN, mechanism="gaussian" if delta else "auto", **facts)
    model = model.fit(*records(1000))
    assert check_proof(model).guarantee.epsilon == 1.0
    *objectives, choices = model.releases_
    assert len(objectives) == choices.times == np.size(quantile)
    for at, own in enumerate(model.releases_):
        if own is choices:
            less = replace(own, width=own.width * (1.05 if delta == 0 else 6))
        elif delta:
            less = replace(own, noise=replace(own.noise, factor=own.noise.factor * 0.4))
        else:
            less = replace(own, noise=replace(own.noise, scale=own.noise.scale * 0.95))
        twin = [*model.releases_[:at], less, *model.releases_[at + 1 :]]
        with pytest.raises(NotPrivate):
            guarantee_of(twin, model.public_)


@pytest.mark.parametrize("quantile", [0.9, (0.1, 0.5), np.array(LEVELS)])
def test_a_file_predicts_the_same_numbers(quantile):
    X, y = records(500)
    model = DPQuantileRegressor(quantile=quantile, domain=DOMAIN).fit(X, y)
    again = from_json(model.to_json())
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.ridge_, model.ridge_)
    assert again.score(X, y) == model.score(X, y)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("seed", range(5))
def test_no_realised_loss_exceeds_epsilon(neighbors, seed):
    X, y = records(60, seed)
    other = X.copy(), y.copy()
    other[0][0], other[1][0] = -X[0], 8.0 if y[0] < 1 else -4.0
    if neighbors == "add_remove":
        other = X[1:], y[1:]
    facts = {"quantile": [0.2, 0.7], "domain": DOMAIN, "neighbors": neighbors}
    found = replay(DPQuantileRegressor(random_state=seed, **facts), (X, y), other).check()
    assert found.loss <= 1.0


def test_the_correction_is_the_candidate_nearest_to_the_level():
    """Without noise worth mentioning the share of the fitted records is the level."""
    X, y = records(2000)
    model = DPQuantileRegressor(quantile=0.3, epsilon=1e5, domain=DOMAIN, random_state=0).fit(X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(0.3, abs=0.01)
    assert (np.diff(MOVES) > 0).all()
    assert abs(MOVES[len(MOVES) // 2]) < 1e-15


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_gaussian_noise_of_several_quantiles_is_that_of_exact_composition(neighbors):
    """Without other releases; 2 % less noise is refused, and equal parts of delta need more."""
    levels, given = [0.1, 0.5, 0.9], {"mechanism": "gaussian", "neighbors": neighbors}
    given |= {"domain": Domain.unit_box(4, target=(-1, 1)), "fit_intercept": False, "n_public": 900}
    X, y = given["domain"].sample(900, 0, with_target=True)

    def fit(quantile, **budget):
        model = DPQuantileRegressor(quantile=quantile, scaling_share=0, **given, **budget)
        return model.fit(X, y)

    model = fit(levels, epsilon=1.5, delta=1e-6)
    certify(model.releases_, model.public_)
    less = [
        replace(own, noise=replace(own.noise, factor=0.98 * own.noise.factor))
        for own in model.releases_
    ]
    if neighbors == "add_remove":
        with pytest.raises(NotPrivate, match="is stated"):
            certify(less, model.public_)
    alone = fit(0.1, epsilon=0.5, delta=1e-6 / 3).noise_.factor
    assert (alone > 1.4 * model.noise_[0].factor).all()


def test_the_score_is_the_mean_d2_of_the_levels():
    X, y = records(1000)
    model = DPQuantileRegressor(quantile=[0.2, 0.6], domain=DOMAIN, random_state=0).fit(X, y)
    pairs = zip((0.2, 0.6), model.predict(X).T, strict=True)
    expected = np.mean([d2_pinball_score(y, own, alpha=level) for level, own in pairs])
    assert model.score(X, y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "quantile", [0, 1, 1.5, "a", None, [], [0.5], [0.5, 0.5], [0.9, 0.1], [0.1, 2], [[0.1, 0.2]]]
)
def test_wrong_quantiles_are_refused_before_the_budget_is_spent(quantile):
    with pytest.raises(ValueError, match="quantile must") as error:
        DPQuantileRegressor(quantile=quantile, domain=DOMAIN).fit(*records(20))
    assert any("spent" in note for note in error.value.__notes__)


def test_a_bandwidth_is_refused_before_it_is_too_small_for_the_solver():
    """With a hundredth of the least one, a few fits failed after their budget was spent."""
    X, y = records(1)
    facts = {"domain": DOMAIN, "neighbors": "add_remove", "scaling_share": 0}
    for seed in range(5):
        model = DPQuantileRegressor(bandwidth=7e-4, epsilon=1e6, random_state=seed, **facts)
        assert np.isfinite(model.fit(X, y).predict(X)).all()
    with pytest.raises(ValueError, match="half-ranges of the target") as error:
        model.set_params(bandwidth=1e-4).fit(X, y)
    assert any("No budget was spent" in note for note in error.value.__notes__)


def test_infer_is_refused():
    X, y = records(200)
    model = DPQuantileRegressor(domain=DOMAIN).fit(X, y)
    with pytest.raises(ValueError, match="quantiles have no table"):
        model.infer(X, y, epsilon=1.0)


def test_a_file_without_the_choices_of_its_intercepts_is_refused():
    document = DPQuantileRegressor(quantile=LEVELS, domain=DOMAIN).fit(*records(500)).to_dict()
    check_proof(load_model(document))
    *others, choices = document["releases"]
    for releases in (others, [*others, choices | {"times": 2}]):
        with pytest.raises(NotPrivate, match="intercepts has fewer choices"):
            check_proof(load_model(document | {"releases": releases}))
