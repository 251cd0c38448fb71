"""The scaling stage of the robust regression: the target is one of the scaled numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from exact_minimiser import greatest_ratio, law_of_numbers, noise_scale
from inner_fits import Design, Task
from inner_objective import ClippingBounds, finisher, greatest_leverage, plan_clipping
from test_clipping_stage import check_changes, exact_of, state_of

from skdp import Domain, DPHuberRegressor
from skdp.linear_model.losses import PseudoHuber
from skdp.trusted import overview

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
    np.testing.assert_allclose(placed, (target - 0.5) / 0.3, atol=1e-12)
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
    """Numbers are clipped and scaled, targets are scaled, row by row and in any blocks."""
    rng = np.random.default_rng(3)
    bounds = ClippingBounds(
        np.array([0, 2]), np.array([-0.5, 0.0]), np.array([0.5, 0.3]), (-0.2, 0.4)
    )
    state = state_of(DESIGN, rng.uniform(-1, 1, (50, DESIGN.dim)), rng.uniform(-1, 1, 50))
    finish = finisher(bounds, None)
    whole = finish(state)
    np.testing.assert_allclose(whole.target, (state.target - 0.1) / 0.3, atol=1e-12)
    assert np.abs(whole.target).max() > 1
    assert (np.abs(whole.numbers) <= 1).all()
    for some in (slice(0, 1), slice(7, 30), slice(49, 50)):
        part = finish(state.chosen(some))
        np.testing.assert_array_equal(part.target, whole.target[some])
        np.testing.assert_array_equal(part.numbers, whole.numbers[:, some])


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


def test_the_automatic_share_scales_the_target_alone():
    """A twentieth of epsilon; nothing with few records, or with a threshold, loss or mechanism."""
    X, y = crowd(5000)
    settings = {"domain": WIDE, "random_state": 0}
    model = DPHuberRegressor(**settings).fit(X, y)
    scaling, objective = overview(model.releases_, model.public_)
    assert (scaling.name, objective.name) == ("scaling", "objective")
    assert scaling.epsilon == pytest.approx(0.05)
    np.testing.assert_allclose(model.bounds_, [[0, 100], [-100, 100]])
    lower, upper = model.target_bounds_
    assert -1000 < lower < 300 < upper < 1000
    others = {"threshold": 40.0}, {"loss": PseudoHuber(0.1)}, {"mechanism": "l2"}
    for other in ({"scaling_share": 0}, *others, {"epsilon": 0.01}):
        plain = DPHuberRegressor(**settings | other).fit(X, y)
        assert plain.target_bounds_ == (-1000.0, 1000.0), other
        assert plain.releases_[0].name == "objective"


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_stage_of_a_target_alone_covers_every_change(neighbors):
    """Sums of y and 2 y^2 only, in the hull of their changes; a share of epsilon for them."""
    public = 5000 if neighbors == "replace_one" else None
    stage = plan_clipping(Task(DESIGN, public, 1.0, 0.0, neighbors), 5000, None, with_target=True)
    assert stage.epsilon == pytest.approx(0.05)
    assert stage.noise.dim == (2 if neighbors == "replace_one" else 3)
    rng, rows = np.random.default_rng(0), np.zeros((2, DESIGN.dim))
    check_changes(stage, [(rows, rng.choice([-1.0, 1.0, 0.3], 2)) for _ in range(100)])


@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_targets_far_outside_their_unit_cost_no_more_than_epsilon(epsilon):
    """The exact density ratio in one dimension; 5 % less noise exceeds epsilon.

    A target that is scaled and not clipped is up to 200 units from the middle of its bounds.
    """
    loss, q, c = PseudoHuber(0.118), 0.99, 0.118
    leverage = greatest_leverage(loss, q, epsilon, "replace_one")
    scale = noise_scale(loss, q, epsilon, "replace_one")
    records = list(product([-1.0, 0.4, 1.0], [-200.0, -1.0, 0.3, 1.0, 200.0]))
    outputs = np.concatenate([-np.geomspace(1e-3, 300, 30), np.geomspace(1e-3, 300, 30)])

    def worst(scale):
        law_of = law_of_numbers(loss, scale=scale, ridge=[1 / leverage])
        return greatest_ratio(law_of, [(0.9, 150.0)], records, outputs, "replace_one")

    assert 2 * c / scale == pytest.approx(q * epsilon)
    assert 0.9 * epsilon < worst(scale) <= epsilon
    assert worst(0.95 * scale) > 1.01 * epsilon


def test_slopes_at_far_targets_are_as_exact_as_the_proof_needs():
    """Within 16 units in the last place of the bound, against extended precision."""
    rng = np.random.default_rng(5)
    loss = PseudoHuber(0.118)
    z, y = rng.normal(0, 50, 5000), rng.uniform(-200, 200, 5000)
    z[:2500] = y[:2500] + rng.normal(0, 0.2, 2500)
    r, c = z.astype(np.longdouble) - y.astype(np.longdouble), np.longdouble(0.118)
    exact = c * r / np.sqrt(c * c + r * r)
    error = np.abs(loss.slope(z, y) - exact)
    assert float(error.max()) <= 16 * np.spacing(0.118)
    assert (np.abs(loss.slope(z, y)) <= loss.slope_bound * (1 + 1e-15)).all()
    assert (loss.curvature(z, y) <= loss.curvature_bound(0.0, loss.slope_bound)).all()
