"""The mean stage: it keeps the mean of predictions, and spends what it states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from inner_fits import Design, Task
from inner_objective import mean_module, terms_of
from test_clipping_stage import state_of

from skdp import Domain, DPHuberRegressor, from_json
from skdp.linear_model import check_proof
from skdp.rows import KeptBlocks
from skdp.testing import replay
from skdp.trusted import certify
from skdp.trusted.statement import NotPrivate

RELATIONS = ["replace_one", "add_remove"]
DESIGN = Design(Domain({"a": (0, 3), "job": ["x", "y"], "b": (-1, 1)}, target=(-2.0, 5.0)), True)


def skewed(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.minimum(X[:, 0] + rng.gamma(0.5, 2, n), 20)


def model_of(**given):
    return DPHuberRegressor(domain=Domain.unit_box(3, target=(-1, 20)), **given)


def test_the_mean_of_skewed_targets_is_kept():
    """Of 20 fits to 20,000 records; the robust centre is too low by .06 deviations."""
    X, y = skewed(20_000)
    error = {}
    for share in ("auto", 0):
        fits = [model_of(random_state=seed, mean_share=share).fit(X, y) for seed in range(20)]
        error[share] = np.array([fit.predict(X).mean() - y.mean() for fit in fits]) / y.std()
    assert error[0].max() < -0.04
    # Noise of .017 deviations.
    assert np.sqrt(np.mean(error["auto"] ** 2)) < 0.03


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_sums_are_exact_and_do_not_depend_on_other_records(neighbors):
    """Against fractions of single records, in any order and in any blocks."""
    rng = np.random.default_rng(0)
    rows, target = rng.uniform(-1, 1, (40, DESIGN.dim)), rng.uniform(-3, 3, 40)
    stage = mean_module.plan_mean(
        0.5, Task(DESIGN, 40 if neighbors == "replace_one" else None, 1.0, 0.0, neighbors), 40, True
    )
    terms, found = terms_of(DESIGN, rng.normal(size=DESIGN.dim)), []
    for order in (np.arange(40), rng.permutation(40)):
        for cuts in ((), (1, 2, 30)):
            parts = np.split(order, list(cuts))
            states = [state_of(DESIGN, rows[own], target[own]) for own in parts]
            drawn = np.random.default_rng(1)
            shift = stage.shift(None, terms, KeptBlocks(states), (-1.0, 1.0), drawn)
            found.append(shift)
    assert len(set(found)) == 1


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_five_percent_less_noise_and_the_other_relation_are_refused(neighbors):
    model = model_of(mean_share=0.4, neighbors=neighbors, n_public=100).fit(*skewed(100))
    *others, mean = model.releases_
    assert certify(model.releases_, model.public_).epsilon <= 1.0
    twin = replace(mean, noise=replace(mean.noise, scale=0.95 * mean.noise.scale))
    with pytest.raises(NotPrivate, match="stated"):
        certify([*others, twin], model.public_)
    other = replace(model.public_, neighbors=RELATIONS[neighbors == RELATIONS[0]])
    with pytest.raises(NotPrivate, match="its change is one under"):
        certify([mean], other)


def test_the_greatest_change_of_the_sums_reaches_epsilon():
    """A record with the residual 1 is removed; nothing else is released."""
    stage = mean_module.plan_mean(0.5, Task(DESIGN, None, 2.0, 0.0, "add_remove"), 40, True)
    one = stage.sums.exact(np.array([2**40]), np.array([2**40]), 1).astype(float) / 2**40
    assert stage.noise.ball.gauge(one) == 1.0
    assert 1 / stage.noise.scale == pytest.approx(stage.epsilon) == 1.0


def test_few_records_and_own_losses_have_no_correction():
    X, y = skewed(8000)
    names = {
        name: [own.name for own in model_of(**given).fit(X[:n], y[:n]).releases_]
        for name, n, given in (
            ("many", 8000, {}),
            ("few", 2000, {}),
            ("threshold", 8000, {"threshold": 1.0}),
            ("no intercept", 8000, {"fit_intercept": False}),
            ("asked for", 2000, {"mean_share": 0.1}),
        )
    }
    assert names["many"] == names["asked for"] == ["scaling", "objective", "mean"]
    assert names["few"] == names["no intercept"] == ["scaling", "objective"]
    assert names["threshold"] == ["objective"]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_fit_with_a_correction_is_replayed(neighbors):
    """The neighbour has a record with the greatest residual; nothing else differs."""
    X, y = skewed(60)
    given = {"mean_share": 0.3, "neighbors": neighbors, "n_public": 60}
    far = np.append(X, [[1.0, 1.0, 1.0]], axis=0), np.append(y, 20.0)
    near = (X, y) if neighbors == "add_remove" else (np.append(X, X[:1], axis=0), np.append(y, -1))
    found = replay(model_of(**given), far, near).check()
    assert found.loss <= found.epsilon == 1.0


def test_a_share_too_large_is_refused_before_anything_is_spent():
    X, y = skewed(100)
    with pytest.raises(ValueError, match="scaling_share must leave epsilon to the coefficients"):
        model_of(mean_share=0.5, scaling_share=0.5).fit(X, y)
    with pytest.raises(ValueError, match="mean_share must be 0 or 'auto' without an intercept"):
        model_of(mean_share=0.1, fit_intercept=False).fit(X, y)
    for wrong in (-0.1, 1.0, "some"):
        with pytest.raises(ValueError, match="mean_share must be"):
            model_of(mean_share=wrong).fit(X, y)


def test_files_have_the_correction_and_its_proof():
    X, y = skewed(6000)
    model = model_of().fit(X, y)
    other = from_json(model.to_json())
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert [line.name for line in check_proof(other).lines] == ["scaling", "objective", "mean"]
