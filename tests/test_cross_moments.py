"""Cross moments: what one record changes in each, what both cost, and what comes of them."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from skdp import Domain, DPLinearRegression, Ledger
from skdp.linear_model._moments import rules as rules
from skdp.linear_model._moments.cross import (
    CrossMoments,
    _gaussian_stages,
    first_units,
    lengths,
)
from skdp.linear_model._moments.moments import MomentPlan
from skdp.linear_model._moments.two_stages import TwoStages
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import exact_cross
from skdp.linear_model._shared.task import Task
from skdp.linear_model._standardize.column_sums import ColumnSums, Estimates
from skdp.linear_model._standardize.scaler import RowScaler, Scaler
from skdp.mechanisms import GaussianNoise, KNormNoise
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.rows import MemoryRows

RELATIONS = ["replace_one", "add_remove"]
LEVELS = {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1), "sex": ["f", "m"]}
DOMAINS = {
    "one number": Domain.unit_box(1, target=(-1.0, 1.0)).encoded,
    "numbers": Domain.unit_box(4, target=(-1.0, 1.0)).encoded,
    "levels": Domain(LEVELS, target=(-2.0, 5.0)).encoded,
    "levels alone": Domain({"c": list("uvw"), "d": list("xyz")}, target=(0.0, 1.0)).encoded,
}
TEN = Domain.unit_box(10, target=(-1.0, 1.0))
ROOM = 1 - 1e-9  # for sums of squares in floats


def plan_of(domain, neighbors, epsilon=1.0, delta=0.0, n=50):
    return CrossMoments.plan(task_of(domain, neighbors, epsilon, delta, n))


def task_of(domain, neighbors, epsilon, delta, n):
    public = n if neighbors == "replace_one" else None
    return Task(Design(domain, True), public, epsilon, delta, neighbors)


def record(domain, rng):
    """One encoded row, in the corners as a rule, and a target."""
    x = rng.choice([-1.0, -1.0, 1.0, 1.0, 0.0, rng.uniform(-1, 1)], domain.n_encoded)
    for block in domain.blocks:
        x[block] = 0.0
        if rng.random() < 0.8:
            x[rng.integers(block.start, block.stop)] = 1.0
    return x, rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])


def box_of(plan, rng):
    """A box as a scaling stage may give it, at its ends as a rule."""
    width, numbers = plan.layout.n_rows, [*plan.layout.numbers, plan.layout.n_rows - 1]
    centre, scale, factor = np.zeros(width), np.ones(width), np.ones(width)
    centre[numbers] = rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1, 1)], len(numbers))
    scale[numbers] = rng.choice([0.03, 0.5**0.5, rng.uniform(0.03, 0.7)], len(numbers))
    factor[numbers] = 1 / 1.5
    return RowScaler(Scaler(centre[1:], scale[1:]), factor, clips=True)


def seen_in(plan, domain, records, box=None):
    """What records add to the scaling stage, or in a box to the second."""
    X, y = np.array([x for x, _ in records]), np.array([t for _, t in records])
    if box is None:
        return plan.sums(MemoryRows(domain, X, y))
    return exact_cross(MemoryRows(domain, X, y), box.place)


def changes(plan, domain, rng, draws=250):
    """What one record can change in the scaling stage, and in the second: two arrays."""
    firsts, seconds = [], []
    for _ in range(draws):
        box, pair = box_of(plan, rng), [record(domain, rng), record(domain, rng)]
        if rng.random() < 0.5:  # all of one sign: as far as they go
            (first, _), (second, _) = pair
            pair = [(np.where(x == -1, 1.0, x), t) for x, t in ((first, 1.0), (second, -1.0))]
        if rng.random() < 0.5:  # the same levels
            for block in domain.blocks:
                pair[1][0][block] = pair[0][0][block]
        for found, where in ((firsts, None), (seconds, box)):
            one, other = (seen_in(plan, domain, [r], where).astype(float) / 2**40 for r in pair)
            found.append(one if plan.layout.adds else one - other)
    return np.array(firsts), np.array(seconds)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_both_balls_hold_what_a_record_changes_and_5_percent_less_noise_would_not(name, neighbors):
    """In the noise's own scale: no change costs more than the stage's epsilon, and some all of it.

    So with 5 % less noise, the twin, some change costs more.
    """
    domain, rng, epsilon = DOMAINS[name], np.random.default_rng(0), 0.7
    plan = plan_of(domain, neighbors, epsilon)
    parts = (0.35 * epsilon, 0.65 * epsilon)
    moved = changes(plan, domain, rng)
    for noise, change, part in zip((plan.first.noise, plan.noise), moved, parts, strict=True):
        cost = noise.ball.gauge(change).max() / noise.scale
        assert noise.guarantee.epsilon == pytest.approx(part, rel=1e-12)
        assert part * (1 - 1e-9) < cost <= part
        twin = replace(noise, scale=0.95 * noise.scale)
        assert noise.ball.gauge(change).max() / twin.scale > part


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_gaussian_stages_hide_what_their_losses_say(name, neighbors):
    """No change is longer than the shift that is stated, some nearly as long; squares add up."""
    domain, rng = DOMAINS[name], np.random.default_rng(1)
    plan = plan_of(domain, neighbors)
    task = task_of(domain, neighbors, 1.0, 1e-6, 50)
    first, second = _gaussian_stages(plan.layout, plan.first.sums, plan.noise.dim, task)
    stages = first.noise, second
    moved = changes(plan, domain, rng)
    if not plan.layout.adds:
        moved[0][0] = longest_first_change(plan, domain)
    total = Fraction(0)
    for noise, change in zip(stages, moved, strict=True):
        ((loss, count),) = noise.guarantee.losses
        shift = np.linalg.norm(change / noise.factor, axis=1).max()
        assert count == 1
        assert 0.955 * loss.mu < shift <= loss.mu  # the twin: 5 % less noise would not hide it
        assert noise.guarantee.neighbors == neighbors
        total += Fraction(loss.mu) ** 2
    whole = Fraction(1 / gaussian_scale(1.0, 1e-6))
    assert abs(total / whole**2 - 1) < Fraction(1, 10**14)


def longest_first_change(plan, domain):
    """Where the bounds on the parts of the target, the numbers and the levels are reached."""
    numbers, y = list(domain.number_index), (1.0, -1.0)
    rows = np.zeros((2, domain.n_encoded))
    rows[:, numbers] = np.array([[1.0], [-1.0]])
    for block in domain.blocks:
        rows[0, block.start] = 1.0
        if block.stop - block.start > 1:
            rows[1, block.start + 1] = 1.0
    one, other = (seen_in(plan, domain, [(x, t)]) for x, t in zip(rows, y, strict=True))
    return (one - other).astype(float) / 2**40


@pytest.mark.parametrize("numbers", [1, 2, 3, 7])
def test_the_numbers_part_of_a_change_is_as_short_as_the_proof_says(numbers):
    """Corners, and numbers of which any are anywhere: 4 for each; with the target 4 more."""
    rng = np.random.default_rng(numbers)
    x, other = rng.uniform(-1, 1, (2, 100_000, numbers))
    x[::2] = np.sign(x[::2])
    other[::4] = np.sign(other[::4])
    other[1::4] *= -np.sign(other[1::4] * x[1::4])  # far from each other
    layout = plan_of(Domain.unit_box(numbers, target=(-1.0, 1.0)), "replace_one").layout
    unit = first_units(layout, ColumnSums((), 1, ((0,), (1,))))[-1]
    square = 2 * (x**2 - other**2).sum(axis=1) / unit
    longest = (((x - other) ** 2).sum(axis=1) + square**2).max()
    assert 0.98 * 4 * numbers < longest <= 4 * numbers * (1 + 1e-12)
    assert lengths(layout)[0] ** 2 * ROOM <= 4 * numbers + 4 <= lengths(layout)[0] ** 2


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_both_stages_together_cost_epsilon_and_no_more(name, neighbors):
    """In fractions: a change has gauge at most 2 where a record is replaced, else 1."""
    records = 2 if neighbors == "replace_one" else 1
    for epsilon in (1e-3, 0.1, 1 / 3, 1.0, 7.0):
        plan = plan_of(DOMAINS[name], neighbors, epsilon)
        spent = sum(
            Fraction(records) / Fraction(noise.scale) for noise in (plan.first.noise, plan.noise)
        )
        assert Fraction(epsilon) * (1 - Fraction(1, 10**11)) < spent <= Fraction(epsilon)


@pytest.mark.parametrize("name", DOMAINS)
def test_a_row_in_the_box_does_not_depend_on_other_rows(name):
    """Alone or in any order the sums are the same to the bit, in both stages."""
    rng, domain = np.random.default_rng(2), DOMAINS[name]
    plan = plan_of(domain, "replace_one")
    rows = [record(domain, rng) for _ in range(60)]
    mixed = [rows[k] for k in rng.permutation(60)]
    for box in (None, *(box_of(plan, rng) for _ in range(6))):
        alone = sum(seen_in(plan, domain, [row], box) for row in rows)
        assert seen_in(plan, domain, mixed, box).tolist() == alone.tolist()


def test_ones_and_levels_stay_what_they_are_in_the_box():
    """And numbers, as far as they stick out, are on the box's surface: not beyond it."""
    domain, rng = DOMAINS["levels"], np.random.default_rng(3)
    plan = plan_of(domain, "replace_one")
    rows = np.array([[1.0, *x, t] for x, t in (record(domain, rng) for _ in range(200))])
    placed = rows.copy()
    box_of(plan, rng).place(placed)
    kept = [0, *np.concatenate(plan.layout.block_columns)]
    np.testing.assert_array_equal(placed[:, kept], rows[:, kept])
    assert np.abs(placed).max() == 1


def table(n, p=10, seed=0):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(0.2, 0.4, (n, p)), -1, 1)
    y = 0.25 * X[:, :3].sum(axis=1) + 0.05 * rng.normal(size=n) - 0.1
    return X, np.clip(y, -1, 1)


def plan_for(n=600, **changed):
    design = Design(TEN, changed.pop("intercept", True))
    return rules.plan_moments(Task(design, n, **{"epsilon": 1.0, **changed}), "auto")


def test_cross_moments_stand_only_where_the_mean_alone_was_released(monkeypatch):
    """By public things; with more records two stages, with fewer the mean."""
    sizes = (100, 600, 100_000)
    assert [type(plan_for(n)) for n in sizes] == [MomentPlan, CrossMoments, TwoStages]
    assert type(plan_for(intercept=False)) is MomentPlan
    assert type(plan_for(None, neighbors="add_remove")) is MomentPlan
    assert type(plan_for(None, neighbors="add_remove", n_public=300)) is CrossMoments
    monkeypatch.setattr(rules, "MOST_CROSS_NOISE", 0.0)
    for n in range(400, 1000, 100):
        alone = plan_for(n).layout.n_rows == 2
        monkeypatch.undo()
        assert alone or not isinstance(plan_for(n), CrossMoments)
        monkeypatch.setattr(rules, "MOST_CROSS_NOISE", 0.0)


def test_delta_is_spent_only_on_gaussian_noise():
    few = plan_of(DOMAINS["numbers"], "replace_one", delta=1e-6)
    many = plan_of(Domain.unit_box(60, target=(-1.0, 1.0)), "replace_one", delta=1e-6)
    assert isinstance(few.noise, KNormNoise)
    assert few.noise.guarantee.delta == 0
    assert isinstance(many.first.noise, GaussianNoise)
    assert many.noise.guarantee.delta == 1e-6
    assert sum(loss.mu**2 * count for loss, count in many.losses) ** -0.5 == pytest.approx(
        gaussian_scale(1.0, 1e-6), rel=1e-12
    )
    assert len(few.losses) == 2


def fitted(n=600, **parameters):
    parameters = {"random_state": 0, "domain": TEN} | parameters
    return DPLinearRegression(**parameters).fit(*table(n))


def test_the_ledger_is_charged_once():
    ledger = Ledger(5.0)
    model = fitted(ledger=ledger)
    assert [entry.epsilon for entry in ledger.entries] == [1.0]
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 0.0)
    assert "products with the target" in model.guarantee_.mechanism


def test_other_regressions_of_the_same_target_cost_nothing_and_other_targets_are_refused():
    model = fitted()
    some = model.from_moments(["x0", "x4"])
    assert some.coef_.shape == (2,)
    assert np.isfinite([*some.coef_, some.intercept_, *some.coef_std_]).all()
    assert some.guarantee_ is model.guarantee_
    assert some.predict(np.zeros((3, 2))).shape == (3,)
    with pytest.raises(ValueError, match="keep the target: products of features were not") as told:
        model.from_moments(["x0"], target="x1")
    assert "a mechanism by name" in str(told.value)
    assert "more epsilon" in str(told.value)


@pytest.mark.parametrize("postprocess", ["auto", "pinv", "psd", "ridge"])
def test_moments_say_what_was_not_released(postprocess):
    moments, products = fitted(postprocess=postprocess).moments_, np.s_[1:-1, 1:-1]
    assert np.isnan(moments.gram[products]).all()
    assert np.isinf(moments.deviation[products]).all()
    assert np.isnan(moments.covariance()[:-1, :-1]).all()
    told = np.ones(moments.gram.shape, dtype=bool)
    told[products] = False
    assert np.isfinite(moments.gram[told]).all()
    assert np.isfinite(moments.deviation[told]).all()
    assert moments.mean().shape == (11,)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_without_noise_the_moments_are_those_of_the_clipped_rows(neighbors):
    """At an epsilon of 10^9: means, and products with the target in the box; levels too."""
    domain, rng = DOMAINS["levels"], np.random.default_rng(4)
    rows = [record(domain, rng) for _ in range(400)]
    X, y = (np.array(column) for column in zip(*((0.4 * x, 0.4 * t) for x, t in rows), strict=True))
    for block in domain.blocks:
        X[:, block] = np.round(X[:, block] / 0.4)
    plan = plan_of(domain, neighbors, 1e9, n=400)
    model = DPLinearRegression(epsilon=1e9, domain=domain, neighbors=neighbors, random_state=0)
    model._plan = lambda *_: plan
    moments = model.fit(X, domain.decode_target(y)).moments_
    table = np.column_stack([np.ones(400), X, y])
    z = (table - moments.centre) / moments.scale
    assert np.abs(z[:, [*plan.layout.variables]]).max() < 1.5  # so that nothing was clipped
    np.testing.assert_allclose(moments.mean(), table[:, 1:].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(moments.gram[1:, -1] / 400, (z.T @ z)[1:, -1] / 400, atol=1e-4)


def test_deviations_are_those_of_the_noise():
    """Of 300 releases from one box: each of 5 within 30 %.

    K-norm noise in so many dimensions has a kurtosis of at most 3.1, so that the standard
    deviation of 300 has a standard error of at most sqrt(2.1 / 300) / 2 = 4.2 %: 30 % are seven
    of these, less than 1e-10.
    """
    domain, n = DOMAINS["levels"], 400
    rng = np.random.default_rng(5)
    X, y = (np.array(v) for v in zip(*(record(domain, rng) for _ in range(n)), strict=True))
    plan = plan_of(domain, "replace_one", 5.0, n=n)
    first = plan.first.release(plan.sums(MemoryRows(domain, X, y)), rng)
    box = plan.scaler(first)
    exact = exact_cross(MemoryRows(domain, X, y), box.place).astype(float) / 2**40
    names = ("1", *map(str, range(domain.n_encoded)), "y")
    found = [plan.moments(first, box, exact + plan.noise.rvs(rng), names) for _ in range(300)]
    spread = np.std([m.gram[1:-1, -1] for m in found], axis=0)
    ratio = spread / found[0].deviation[1:-1, -1]
    assert ratio.min() > 0.7
    assert ratio.max() < 1.3


def test_with_few_records_it_predicts_better_than_the_mean():
    """600 records, 10 columns, epsilon 1, 60 fits: on average R^2 is above .3, the mean's below 0.

    It is .53 with a deviation of .12, so that the average of 60 has one of .016: .3 is fourteen
    of these off, and would be seven were the deviation .25.
    """
    X, y = table(5000, seed=1)
    scores = [fitted(random_state=k).score(X, y) for k in range(60)]
    assert np.mean(scores) > 0.3
    alone = DPLinearRegression(epsilon=1.0, domain=TEN, random_state=0)
    plan = plan_for(100)
    alone._plan = lambda *_: plan
    assert alone.fit(*table(600)).score(X, y) < 0.01


def public_side(model):
    """All that does not come from the release."""
    return (
        model.moments_.names, repr(model), str(model.guarantee_), repr(model.noise_.guarantee),
        model.noise_.covariance().tolist(), model.n_features_in_, model.n_iter_,
        sorted(vars(model)), np.isfinite(model.moments_.deviation).tolist(),
    )  # fmt: skip


def test_nothing_but_the_release_depends_on_the_data_where_n_is_private():
    """1, 2 or 4000 records look alike; the twin: the moments themselves do not."""
    models = [
        DPLinearRegression(domain=TEN, neighbors="add_remove", n_public=300, random_state=0).fit(
            *table(n, seed=n)
        )
        for n in (1, 2, 4000)
    ]
    assert all(isinstance(m._plan(m._design, 1, 1), CrossMoments) for m in models)
    sides = [public_side(model) for model in models]
    assert sides[0] == sides[1] == sides[2]
    assert models[0].moments_.gram[0, 0] != models[2].moments_.gram[0, 0]
    assert all(math.isfinite(model.intercept_) for model in models)


@pytest.mark.parametrize("own", [[0.0, 0.0, 0.0, 0.0], [0.4, -0.2, 0.1, 0.0]])
def test_without_noise_the_scale_is_the_mean_deviation_of_the_numbers(own, monkeypatch):
    """One for all numbers: the mean of their squares less that of their means' squares."""
    plan = plan_of(DOMAINS["numbers"], "add_remove")
    monkeypatch.setattr(CrossMoments, "mean_deviations", lambda *_: np.zeros(6))
    seen = Estimates(50.0, np.array([*own, 0.25]), np.array([0.3, 0.2]), np.array([]))
    box = plan.scaler(seen)
    expected = math.sqrt(0.2 - np.mean(np.square(own)))
    np.testing.assert_allclose(box.scale[plan.layout.numbers], expected, rtol=1e-12)
    assert box.scale[-1] == pytest.approx(math.sqrt(0.3 - 0.0625), rel=1e-12)
