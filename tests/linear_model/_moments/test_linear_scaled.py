"""Moments of scaled columns: the scaling, and the regression on scaled moments."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_fits import NUMBER_BITS, Design, Task
from inner_moments import RowScaler, ScaledMoments, row_scaler
from sklearn.linear_model import LinearRegression
from spent import mu

from skdp import Domain, DPLinearRegression
from skdp.mechanisms import GaussianNoise, MatrixGaussianNoise
from skdp.rows import MemoryRows
from skdp.trusted.losses import gaussian_log_delta

MIXED = Domain({"a": (-1, 1), "b": list("uvw"), "c": (-1, 1)}, target=(-1, 1))


def table(n, seed, spread=0.1):
    """Records close together: two numbers, one column of levels, a target."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal([-0.6, 0.3], spread, (n, 2)), -1, 1)
    level = rng.integers(3, size=n)
    y = 0.5 * x[:, 0] - 0.4 * x[:, 1] + 0.05 * level + rng.normal(0, 0.02, n)
    X = np.empty((n, 3), dtype=object)
    X[:, 0], X[:, 1], X[:, 2] = x[:, 0], np.array(list("uvw"))[level], x[:, 1]
    return X, np.clip(y, -1, 1)


def plan_of(domain, epsilon=1.0, neighbors="replace_one", n=1000, delta=0.0):
    public = n if neighbors == "replace_one" else None
    task = Task(Design(domain, True), public, epsilon, delta, neighbors, n_public=n)
    return ScaledMoments.plan(task, n * epsilon / 10)


def some_scaler(plan, rng):
    width = plan.layout.n_rows
    centre, scale = np.zeros(width), np.ones(width)
    variables = plan.layout.variables
    centre[variables] = rng.uniform(-1, 1, len(variables))
    scale[variables] = rng.uniform(0.03, 1, len(variables))
    return RowScaler(centre, scale, plan.factor)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1))
def test_rows_have_length_at_most_one_and_near_ones_are_kept(seed):
    """However far a record is from the centre; those within the bound are not touched."""
    rng = np.random.default_rng(seed)
    plan = plan_of(MIXED)
    scaler = some_scaler(plan, rng)
    rows = np.column_stack([np.ones(50), rng.choice([-1.0, 0.0, 1.0], (50, 5))])
    z = scaler.factor * (rows - scaler.centre) / scaler.scale
    placed = rows.copy()
    scaler.place(placed)
    length = np.linalg.norm(z, axis=1)
    assert np.linalg.norm(placed, axis=1).max() <= 1 + 1e-14
    np.testing.assert_allclose(placed, z / np.maximum(length, 1)[:, None], atol=1e-13)
    alone = np.vstack([rows[k : k + 1].copy() for k in range(50)])
    for k in range(50):
        scaler.place(alone[k : k + 1])
    np.testing.assert_array_equal(alone, placed)  # each row by itself


def test_the_scaling_depends_on_the_release_alone():
    """Equal noisy sums give equal scalings; other noise gives another scaling."""
    X, y = table(4000, 1)
    plan = plan_of(MIXED, n=4000)
    sums = plan.sums(MemoryRows(MIXED, X, y))
    rngs = [np.random.default_rng(k) for k in (0, 0, 1)]
    scaling = plan.releases[0]
    found = [row_scaler(plan, plan.first.release(scaling, sums, rng)) for rng in rngs]
    np.testing.assert_array_equal(found[0].centre, found[1].centre)
    variables = plan.layout.variables
    assert np.all(found[0].centre[variables] != found[2].centre[variables])
    assert np.all(found[0].scale[plan.layout.block_columns[0]] == 1)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_without_noise_it_is_least_squares(neighbors):
    """At an epsilon of 10^9, where no row is shrunk, coefficients are those of least squares."""
    X, y = table(3000, 2)
    domain = MIXED
    model = DPLinearRegression(epsilon=1e9, domain=domain, neighbors=neighbors, random_state=0)
    design = LinearRegression().fit(domain.encode(X), y)
    plan = plan_of(domain, 1e9, neighbors, 3000)
    model._plan = lambda *_: plan
    model.fit(X, y)
    assert model.moments_.names == ("1", "a", "b_v", "b_w", "c", "target")
    rows = np.column_stack([np.ones(len(y)), domain.encode(X), y])
    np.testing.assert_allclose(model.coef_, design.coef_, atol=2e-4)
    assert abs(model.intercept_ - design.intercept_) < 2e-4
    np.testing.assert_allclose(model.moments_.mean(), rows[:, 1:].mean(axis=0), atol=1e-5)


def test_other_regressions_come_from_the_same_scaling():
    X, y = table(50_000, 7)
    model = DPLinearRegression(epsilon=20.0, domain=MIXED, random_state=0).fit(X, y)
    other = model.from_moments(["c"], target="a")
    x = MIXED.encode(X)
    wanted = LinearRegression().fit(x[:, [3]], x[:, 0])
    np.testing.assert_allclose(other.coef_, wanted.coef_, atol=0.1)
    assert abs(other.intercept_ - wanted.intercept_) < 0.05
    assert other.guarantee_ is model.guarantee_


CASES = [(3000, 0.0, "replace_one"), (20000, 1e-6, "add_remove")]


@pytest.mark.parametrize(("n", "delta", "relation"), CASES)
def test_stated_deviations_contain_the_noise_of_the_start(n, delta, relation):
    """100 seeds: a deviation has a relative error of 7 %. Without the start's it is 1.5 times."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2)) @ [[1, 0.7], [0, 0.7]]
    y = X @ [2.0, -1.0] + rng.normal(size=n)
    domain = Domain({"a": (-6, 6), "b": (-6, 6)}, target=(-12, 12))
    found, stated = [], []
    for seed in range(100):
        facts = {"delta": delta, "neighbors": relation, "random_state": seed}
        model = DPLinearRegression(domain=domain, **facts).fit(X, y)
        found.append([model.intercept_, *model.coef_])
        stated.append([model.intercept_std_, *model.coef_std_])
    ratio = np.std(found, axis=0, ddof=1) / np.sqrt(np.mean(np.square(stated), axis=0))
    assert np.all((ratio > 0.65) & (ratio < 1.4)), ratio


def test_stated_deviations_contain_the_noise_that_levels_share():
    """60 seeds, 12 levels, the first one rare. With independent noises they are 1.3 times."""
    rng, n = np.random.default_rng(0), 50_000
    levels = rng.choice(12, n, p=[0.02] + [0.98 / 11] * 11)
    y = 0.1 * levels / 12 + 0.05 * rng.choice([-1, 1], n)
    domain = Domain({"c": [str(k) for k in range(12)]}, target=(-1, 1))
    found, stated = [], []
    for seed in range(60):
        model = DPLinearRegression(domain=domain, random_state=seed)
        model.fit(levels.astype(str)[:, None].astype(object), y)
        found.append([model.intercept_, *model.coef_])
        stated.append([model.intercept_std_, *model.coef_std_])
    ratio = np.std(found, axis=0, ddof=1) / np.sqrt(np.mean(np.square(stated), axis=0))
    assert np.all((ratio > 0.8) & (ratio < 1.2)), ratio


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-9), (1.0, 1e-6), (4.0, 1e-2)])
def test_gaussian_noise_on_scaled_moments_has_its_claimed_delta(neighbors, epsilon, delta):
    """By the exact profile for rows as far apart as can be; 5 % less noise would exceed it."""
    domain = Domain.unit_box(40, target=(-1, 1))
    plan = plan_of(domain, epsilon, neighbors, 1000, delta)
    assert isinstance(plan.noise, MatrixGaussianNoise)
    assert isinstance(plan.first.noise, GaussianNoise)
    assert isinstance(plan.cross, GaussianNoise)
    records = 2 if neighbors == "replace_one" else 1
    longest = (1 + math.sqrt(plan.layout.n_rows) * 2.0 ** -(NUMBER_BITS + 1)) ** 2
    second = math.sqrt(records) * longest / plan.noise.deviation
    first, cross = map(mu, plan.releases[::2])  # of which another test has attacks
    shift = math.hypot(first, cross, second)
    assert gaussian_log_delta(shift, epsilon) <= math.log(delta)
    assert gaussian_log_delta(shift / 0.95, epsilon) > math.log(delta)
    assert mu(plan.releases[1]) == pytest.approx(second, rel=2e-3)
