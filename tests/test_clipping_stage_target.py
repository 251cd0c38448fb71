"""The scaling stage of the robust regression: the target is one of the scaled numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from test_clipping_stage import exact_of, state_of

from skdp import Domain, DPHuberRegressor, Ledger
from skdp.linear_model._objective.clipping import ClippingBounds, Finish, plan_clipping
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.task import Task
from skdp.linear_model._solver.design_rows import Coordinates
from skdp.linear_model.losses import PseudoHuber

RELATIONS = ["replace_one", "add_remove"]
DESIGN = Design(Domain({"a": (0, 3), "job": ["x", "y"], "b": (-1, 1)}, target=(-2.0, 5.0)), True)
WIDE = Domain.box([0.0, -100.0], [100.0, 100.0], target=(-1000.0, 1000.0))


def stage_of(neighbors, n=50):
    public = n if neighbors == "replace_one" else None
    return plan_clipping(Task(DESIGN, public, 1.0, 0.0, neighbors), n, 0.2, with_target=True)


def crowd(n, seed=0):
    """Records that use a small part of wide bounds."""
    rng = np.random.default_rng(seed)
    X = rng.normal([30.0, 5.0], [3.0, 4.0], (n, 2))
    return X, 200 + 4 * X[:, 0] - 3 * X[:, 1] + rng.normal(0, 5, n)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_ball_holds_every_change_of_columns_and_target(neighbors):
    """Over random corners: never outside, and the surface is reached, by the target as well."""
    rng, stage, greatest = np.random.default_rng(0), stage_of(neighbors), np.zeros(3)
    records = 1 if neighbors == "add_remove" else 2
    for _ in range(200):
        rows = rng.choice([-1.0, 1.0, 0.0], (2, DESIGN.dim))
        target = rng.choice([-1.0, 1.0, 0.3], 2)
        seen = [exact_of(stage, rows[[k]], target[[k]]).astype(float) / 2**40 for k in (0, 1)]
        change = seen[0] if neighbors == "add_remove" else seen[0] - seen[1]
        assert stage.noise.ball.gauge(change) <= records
        greatest = np.maximum(greatest, np.abs(change[-6:-3]))
    np.testing.assert_array_equal(greatest, records)
    assert records / Fraction(stage.noise.scale) <= Fraction(stage.epsilon)


def test_targets_are_placed_one_by_one_and_models_come_back():
    rng = np.random.default_rng(1)
    bounds = ClippingBounds(np.array([0]), np.array([-0.5]), np.array([0.5]), (0.2, 0.8))
    target = rng.uniform(-1, 1, 50)
    placed = bounds.scale_target(target)
    np.testing.assert_array_equal(placed[7:8], bounds.scale_target(target[7:8]))
    np.testing.assert_allclose(placed, (target.clip(0.2, 0.8) - 0.5) / 0.3, atol=1e-12)
    assert (np.abs(placed) <= 1).all()
    # y = .5 + .3 (intercept + coef x / .5)
    coef, intercept = bounds.scaler(1).undo(np.array([[2.0]]), np.array([0.1]))
    np.testing.assert_allclose([coef[0, 0], intercept[0]], [1.2, 0.53])
    assert ClippingBounds.whole(DESIGN).scale_target(target) is target


def test_sums_of_the_target_are_exact_and_do_not_change_it():
    """Against fractions, on the grid; however the rows are cut into blocks."""
    rng = np.random.default_rng(2)
    rows, target = rng.uniform(-1, 1, (60, DESIGN.dim)), rng.uniform(-1, 1, 60)
    kept, stage = target.copy(), stage_of("replace_one", 60)
    exact = [Fraction(round(v * 2**20), 2**20) for v in target.tolist()]
    expected = [sum(exact), sum(2 * v * v for v in exact)]
    for cuts in ((), (1, 2, 50)):
        found = exact_of(stage, rows, target, cuts)
        assert [Fraction(int(v), 2**40) for v in (found[2], found[5])] == expected
        np.testing.assert_array_equal(target, kept)


def test_rows_are_finished_with_their_targets():
    """Numbers and targets are clipped, scaled and cut into blocks row by row."""
    rng = np.random.default_rng(3)
    bounds = ClippingBounds(
        np.array([0, 2]), np.array([-0.5, 0.0]), np.array([0.5, 0.3]), (-0.2, 0.4)
    )
    state = state_of(DESIGN, rng.uniform(-1, 1, (50, DESIGN.dim)), rng.uniform(-1, 1, 50))
    finish = Finish(bounds, Coordinates(DESIGN), None)
    whole = finish(state)
    np.testing.assert_allclose(whole.target, (state.target.clip(-0.2, 0.4) - 0.1) / 0.3, atol=1e-12)
    assert (np.abs(whole.target) <= 1).all()
    for some in (slice(0, 1), slice(7, 30), slice(49, 50)):
        part = finish(state.chosen(some))
        np.testing.assert_array_equal(part.target, whole.target[some])
        np.testing.assert_array_equal(part.numbers, whole.numbers[:, some])


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_scaling_stage_finds_the_target_and_charges_once(neighbors):
    """Of targets with a deviation of 17 in bounds of 2000; the model comes back in their units.

    The stage's noise of .01 of half the bounds leaves clipping bounds of about half of them;
    without it noise is that of the whole bounds, and R^2 lower, for each of these seeds.
    """
    X, y = crowd(20_000)
    test, answers = crowd(4000, seed=1)
    settings = {"domain": WIDE, "neighbors": neighbors, "n_public": 20_000, "epsilon": 0.2}
    for seed in range(3):
        ledger = Ledger(10.0)
        model = DPHuberRegressor(**settings, scaling_share="auto", random_state=seed, ledger=ledger)
        lower, upper = model.fit(X, y).target_bounds_
        assert -1000 <= lower < 300 < upper <= 1000
        assert upper - lower < 1200
        assert 0 < model.threshold_ <= upper - lower
        assert [entry.epsilon for entry in ledger.entries] == [0.2]
        assert "estimated " in model.guarantee_.mechanism
        plain = DPHuberRegressor(**settings, random_state=seed).fit(X, y)
        assert plain.target_bounds_ == (-1000.0, 1000.0)
        assert "estimated " not in plain.guarantee_.mechanism
        assert model.score(test, answers) > plain.score(test, answers) + 0.02
        inside = model.bounds_.mean(axis=1)[None]
        expected = float(inside[0] @ model.coef_ + model.intercept_)
        assert model.predict(inside)[0] == pytest.approx(np.clip(expected, -1000, 1000), abs=1e-6)


def test_a_threshold_or_a_loss_keeps_the_domains_units():
    """What was fixed in the target's units is not scaled by what the stage estimates."""
    X, y = crowd(5000)
    settings = {"domain": WIDE, "scaling_share": 0.2, "random_state": 0}
    fixed = DPHuberRegressor(**settings, threshold=40.0).fit(X, y)
    assert fixed.threshold_ == pytest.approx(40.0)
    own = DPHuberRegressor(**settings, loss=PseudoHuber(0.1)).fit(X, y)
    for model in (fixed, own):
        assert model.target_bounds_ == (-1000.0, 1000.0)
        assert (np.ptp(model.bounds_, axis=1) < [100, 200]).all()
