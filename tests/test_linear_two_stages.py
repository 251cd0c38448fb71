"""Two stages: what one record can change in each, and that both together cost epsilon."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from moment_records import longest_change
from sklearn.linear_model import LinearRegression

from skdp import Domain, DPLinearRegression, Ledger
from skdp.linear_model._moments.two_stages import (
    TwoStages,
    _gaussian_stages,
    _greatest_square,
)
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import exact_gram
from skdp.linear_model._shared.task import Task
from skdp.linear_model._standardize.independent import ADDED_WEIGHT, REPLACED_WEIGHT
from skdp.linear_model._standardize.scaler import RowScaler, Scaler
from skdp.mechanisms import MatrixKNormNoise
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.matrix.knorm import least_beside
from skdp.privacy.composition.composition import Composition
from skdp.privacy.losses.radial import RadialLoss
from skdp.rows import MemoryRows

RELATIONS = ["replace_one", "add_remove"]
LEVELS = {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1), "sex": ["f", "m"]}
DOMAINS = {
    "numbers": Domain.unit_box(3, target=(-1.0, 1.0)),
    "levels": Domain(LEVELS, target=(-2.0, 5.0)),
    "many numbers": Domain.unit_box(40, target=(-1.0, 1.0)),
    "a ball": Domain.l2_ball(4, 2.5, target=(-1.0, 1.0)),
    "no features": Domain({"a": ["x"]}, target=(0.0, 1.0)),
}


def plan_of(name, neighbors, epsilon=1.0, n=50):
    return TwoStages.plan(task_of(name, neighbors, epsilon, n))


def task_of(name, neighbors, epsilon, n, delta=0.0):
    public = n if neighbors == "replace_one" else None
    return Task(Design(DOMAINS[name], True), public, epsilon, delta, neighbors)


def record(domain, rng):
    """One row in the encoded columns, in the corners as a rule, and a target."""
    x = rng.choice([-1.0, -1.0, 1.0, 1.0, 0.0, rng.uniform(-1, 1)], domain.n_encoded)
    for block in domain.blocks:
        x[block] = 0.0
        if block.stop > block.start and rng.random() < 0.8:
            x[rng.integers(block.start, block.stop)] = 1.0
    if domain.is_ball:
        x *= domain.radius / max(np.linalg.norm(x), 1e-300)
    return x, rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])


def scalers(plan, rng, n=10):
    """Centres and scales as a scaling stage can give them, and at their ends."""
    width, variables = plan.layout.n_rows, plan.layout.variables
    for k in range(n):
        centre, scale = np.zeros(width), np.ones(width)
        centre[variables] = rng.choice([-1.0, 0.0, 1.0], len(variables))
        scale[variables] = 0.03 if k % 2 else rng.uniform(0.03, 1, len(variables))
        yield RowScaler(Scaler(centre[1:], scale[1:]), plan.factor)


def gram_of(domain, pair, place):
    inside = domain if domain.is_ball else domain.encoded
    return exact_gram(MemoryRows(inside, pair[0][None], np.array([pair[1]])), place)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_both_stages_together_cost_epsilon_and_no_more(name, neighbors):
    """In fractions: |z|^2 of the longest row there is, and the box of the scaling stage."""
    rng, domain = np.random.default_rng(0), DOMAINS[name]
    records = 2 if neighbors == "replace_one" else 1
    for epsilon in (0.1, 1 / 3, 1.0, 7.0):
        plan = plan_of(name, neighbors, epsilon)
        first, second = plan.first.noise.guarantee.epsilon, plan.noise.guarantee.epsilon
        assert first + second == pytest.approx(epsilon, rel=1e-12)
        spent = Fraction(records) / Fraction(plan.first.noise.scale)
        longest = Fraction(0)
        for scaler in scalers(plan, rng):
            for _ in range(20):
                gram = gram_of(domain, record(domain, rng), scaler.place)
                longest = max(longest, Fraction(sum(np.diag(gram).tolist()), 2**40))
        precision = Fraction(float(plan.noise.precision.max()))
        assert longest > Fraction(9, 10)
        assert spent + records * longest * precision <= Fraction(epsilon)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_the_ball_of_the_scaling_stage_holds_every_change(name, neighbors):
    """Over random corners: never outside, and the surface is reached."""
    rng, domain, greatest = np.random.default_rng(1), DOMAINS[name], 0.0
    inside = domain if domain.is_ball else domain.encoded
    plan = plan_of(name, neighbors)
    for _ in range(200):
        seen = []
        for x, y in (record(domain, rng), record(domain, rng)):
            seen.append(plan.sums(MemoryRows(inside, x[None], np.array([y]))).astype(float) / 2**40)
        change = seen[0] if neighbors == "add_remove" else seen[0] - seen[1]
        greatest = max(greatest, float(plan.first.noise.ball.gauge(change)))
    assert greatest == (1.0 if neighbors == "add_remove" else 2.0)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_gaussian_stages_hide_what_their_losses_say(name, neighbors):
    """In fractions: deviations times the stated shifts are no less than what one record moves."""
    plan, records = plan_of(name, neighbors), 2 if neighbors == "replace_one" else 1
    layout, x = plan.layout, np.linspace(-1, 1, 201)
    for epsilon in (0.1, 1 / 3, 1.0, 7.0):
        task = replace(task_of(name, neighbors, epsilon, 50, 1e-6), n_public=50)
        stage, second = _gaussian_stages(layout, plan.first.sums, task)
        first = stage.noise
        shifts = [Fraction(noise.guarantee.losses[0][0].mu) for noise in (first, second)]
        assert longest_change(stage, x, records) <= first.guarantee.losses[0][0].mu
        assert longest_change(stage, x, records) > 0.999 * first.guarantee.losses[0][0].mu
        moments = (Fraction(second.deviation) * shifts[1]) ** 2
        assert moments >= records * Fraction(_greatest_square(layout)) ** 2
        both = math.sqrt(sum(shift**2 for shift in shifts))
        assert 1 - 1e-11 < both * gaussian_scale(epsilon, 1e-6) < 1 + 1e-14


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_knorm_noise_in_the_second_stage_hides_what_its_loss_says(name, neighbors):
    """The scale times the stated shift, in fractions, and the delta of both losses together.

    5 % less noise in the second stage exceeds delta.
    """
    plan, records, taken = plan_of(name, neighbors), 2 if neighbors == "replace_one" else 1, 0
    for epsilon in (0.1, 1.0, 7.0):
        task = replace(task_of(name, neighbors, epsilon, 50, 1e-6), n_public=50)
        stage, gaussian = _gaussian_stages(plan.layout, plan.first.sums, task)
        second = least_beside(gaussian, stage.noise.guarantee)
        if isinstance(second, MatrixKNormNoise):
            taken += 1
            ((loss, _),) = second.guarantee.losses
            moved = (Fraction(second.scale) * Fraction(loss.shift)) ** 2
            assert moved >= records * Fraction(_greatest_square(plan.layout)) ** 2
            first = stage.noise.guarantee.losses
            assert Composition([*first, (loss, 1)]).delta_at(epsilon).upper <= 1e-6
            weak = RadialLoss(loss.dim, loss.shift / 0.95)
            assert Composition([*first, (weak, 1)]).delta_at(epsilon).lower > 1e-6
    assert (taken > 0) == (name != "many numbers")


def test_the_length_of_a_change_of_a_number_and_its_square():
    """4 is attained at the ends; up to the weight (11 + 5 sqrt 5) / 8 nothing is longer."""
    x = np.linspace(-1, 1, 2001)
    first, second = (x[:, None] - x) ** 2, (x[:, None] ** 2 - x**2) ** 2
    most = (11 + 5 * math.sqrt(5)) / 8
    assert most >= REPLACED_WEIGHT**2
    assert (first + REPLACED_WEIGHT**2 * second).max() == pytest.approx(4, rel=1e-12)
    assert (first + most * second).max() == pytest.approx(4, rel=1e-5)
    assert (first + 1.05 * most * second).max() > 4.05
    added = x**2 + ADDED_WEIGHT**2 * (x**2 - 2 / 3) ** 2
    assert added.max() == pytest.approx(4 / 3, rel=1e-12)


@pytest.mark.parametrize("name", ["numbers", "levels", "a ball"])
def test_a_row_scaled_does_not_depend_on_other_rows(name):
    rng, domain = np.random.default_rng(2), DOMAINS[name]
    inside = domain if domain.is_ball else domain.encoded
    plan = plan_of(name, "replace_one")
    rows = [record(domain, rng) for _ in range(60)]
    X, y = np.array([x for x, _ in rows]), np.array([t for _, t in rows])
    for scaler in scalers(plan, rng, 4):
        alone = sum(gram_of(domain, row, scaler.place) for row in rows)
        order = rng.permutation(60)
        found = exact_gram(MemoryRows(inside, X[order], y[order]), scaler.place)
        assert found.tolist() == alone.tolist()


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_model_of_two_stages_charges_once_and_learns(neighbors):
    """Records close together in a wide domain; coefficients and means come back in user units."""
    rng = np.random.default_rng(3)
    X = rng.normal([20.0, -3.0], [2.0, 0.5], (20_000, 2))
    y = 3 * X[:, 0] - 4 * X[:, 1] + rng.normal(size=20_000)
    domain = Domain.box([0, -10], [100, 10], target=(-100, 300))
    ledger = Ledger(100.0)
    model = DPLinearRegression(
        domain=domain, ledger=ledger, random_state=0, neighbors=neighbors, epsilon=1.0,
        n_public=20_000,
    )  # fmt: skip
    model.fit(X, y)
    if not isinstance(model._plan(model._design, len(X), 1), TwoStages):
        pytest.skip("one stage is enough here")
    assert [entry.epsilon for entry in ledger.entries] == [1.0]
    truth = LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, truth.coef_, atol=2.0)
    mean = domain.encode(X).mean(axis=0)
    np.testing.assert_allclose(model.moments_.mean()[:2], mean, atol=0.02)
    assert "estimated " in model.guarantee_.mechanism
    assert replace(model.guarantee_, mechanism="").epsilon == 1.0
    assert model.from_moments(["x0"], target="x1").coef_.shape == (1,)
