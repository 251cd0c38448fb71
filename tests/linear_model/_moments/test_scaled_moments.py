"""Moments of scaled columns: what one record changes in each release, and what they cost."""

import functools
import math
from dataclasses import replace
from fractions import Fraction

import inner_moments
import numpy as np
import pytest
from inner_fits import Design, Task, exact_both, exact_cross, exact_gram, exact_statistic
from inner_moments import MomentPlan, RowScaler, ScaledMoments, _gaussian, greatest_square
from spent import mu, part

from skdp import Domain, DPLinearRegression
from skdp.mechanisms import GaussianNoise, KNormNoise
from skdp.mechanisms.knorm import gaussian_scale
from skdp.rows import MemoryRows
from skdp.trusted import Public, certify

RELATIONS = ["replace_one", "add_remove"]
LEVELS = {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1), "sex": ["f", "m"]}
DOMAINS = {
    "one number": Domain.unit_box(1, target=(-1.0, 1.0)).encoded,
    "numbers": Domain.unit_box(4, target=(-1.0, 1.0)).encoded,
    "levels": Domain(LEVELS, target=(-2.0, 5.0)).encoded,
    "levels alone": Domain({"c": list("uvw"), "d": list("xyz")}, target=(0.0, 1.0)).encoded,
}
TEN = Domain.unit_box(10, target=(-1.0, 1.0))
# Few records: one mean square of all numbers. Many: one for each.
STRENGTHS = [3.0, 1e6]


def plan_of(domain, neighbors, epsilon=1.0, delta=0.0, n=50, strength=3.0):
    task = task_of(domain, neighbors, epsilon, delta, n)
    return ScaledMoments.plan(task, strength)


def task_of(domain, neighbors, epsilon, delta, n):
    public = n if neighbors == "replace_one" else None
    return Task(Design(domain, True), public, epsilon, delta, neighbors, n_public=n)


def record(domain, rng):
    """One encoded row, in the corners as a rule, and a target."""
    x = rng.choice([-1.0, -1.0, 1.0, 1.0, 0.0, rng.uniform(-1, 1)], domain.n_encoded)
    for block in domain.blocks:
        x[block] = 0.0
        if rng.random() < 0.8:
            x[rng.integers(block.start, block.stop)] = 1.0
    return x, rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])


def scalers_of(plan, rng):
    """The box and the map of rows as a scaling stage may give them, at their ends as a rule."""
    width, numbers = plan.layout.n_rows, [*plan.layout.numbers, plan.layout.n_rows - 1]
    centre, scale, factor = np.zeros(width), np.ones(width), np.ones(width)
    centre[numbers] = rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1, 1)], len(numbers))
    scale[numbers] = rng.choice([0.03, 0.5**0.5, rng.uniform(0.03, 0.7)], len(numbers))
    factor[numbers] = 1 / 1.5
    plane = rng.normal(size=width - 1) * rng.choice([0.0, 1.0, 30.0])
    box = RowScaler(centre, scale, factor, clips=True, plane=plane)
    return box, RowScaler(centre, scale, plan.factor)


def seen_in(plan, domain, records, box=None):
    """What records add to the scaling stage, or in a box to the cross release."""
    X, y = np.array([x for x, _ in records]), np.array([t for _, t in records])
    if box is None:
        return plan.sums(MemoryRows(domain, X, y))
    return exact_cross(MemoryRows(domain, X, y), box.place)


@functools.cache
def changes(name, neighbors, strength, draws=250):
    """What one record can change in the scaling stage and in the cross release: two arrays."""
    domain, rng, n = DOMAINS[name], np.random.default_rng(0), 50 if strength < 100 else 10**6
    plan = plan_of(domain, neighbors, n=n, strength=strength)
    firsts, seconds = [], []
    adds = plan.first.sums.is_counted
    for _ in range(draws):
        box, _ = scalers_of(plan, rng)
        pair = [record(domain, rng), record(domain, rng)]
        if rng.random() < 0.5:  # all of one sign: as far as they go
            (first, _), (second, _) = pair
            pair = [(np.where(x == -1, 1.0, x), t) for x, t in ((first, 1.0), (second, -1.0))]
        if rng.random() < 0.5:  # the same levels
            for block in domain.blocks:
                pair[1][0][block] = pair[0][0][block]
        for found, where in ((firsts, None), (seconds, box)):
            one, other = (seen_in(plan, domain, [r], where).astype(float) / 2**40 for r in pair)
            found.append(one if adds else one - other)
    return np.array(firsts), np.array(seconds)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_both_balls_hold_what_a_record_changes_and_5_percent_less_noise_would_not(
    name, neighbors, strength
):
    """In the noise's own scale: no change costs more than its release, and some all of it.

    So with 5 % less noise, the twin, some change costs more.
    """
    domain, epsilon = DOMAINS[name], 0.7
    plan = plan_of(domain, neighbors, epsilon, n=50 if strength < 100 else 10**6, strength=strength)
    moved = changes(name, neighbors, strength)
    for release, change in zip(plan.releases[::2], moved, strict=True):
        noise, stated = release.noise, part(release)
        cost = noise.ball.gauge(change).max() / noise.scale
        assert stated * (1 - 1e-9) < cost <= stated
        twin = replace(noise, scale=0.95 * noise.scale)
        assert noise.ball.gauge(change).max() / twin.scale > stated


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("curves", [False, True])
def test_the_box_of_a_fit_hides_a_record_and_no_less_noise_would(curves, neighbors, monkeypatch):
    """The residuals of the plane that the fit found, of records at the target's bounds."""
    domain = Domain(LEVELS, target=(-2.0, 5.0))
    domain = domain.additive(knots=4) if curves else domain
    X, y = domain.sample(200, 0), np.tile([-1.0, 1.0], 100)
    boxes, seen = [], lambda rows, box: boxes.append(box) or exact_cross(rows, box)
    monkeypatch.setattr(inner_moments.linear_module, "exact_cross", seen)
    model = DPLinearRegression(domain=domain, neighbors=neighbors, random_state=0)
    model._plan = lambda *_: plan_of(domain, neighbors, n=200, strength=300.0)
    release = model.fit(X, domain.decode_target(y)).releases_[2]
    alone = (MemoryRows(domain, X[k : k + 1], y[k : k + 1]) for k in range(200))
    added = np.array([exact_cross(rows, boxes[0]).astype(float) / 2**40 for rows in alone])
    if neighbors == "replace_one":
        added = np.concatenate(added - added[:, None])
    cost = release.noise.ball.gauge(added).max() / release.noise.scale
    assert 0.97 * part(release) < cost <= part(release)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_all_releases_together_cost_epsilon_and_no_more(name, neighbors, strength):
    """In fractions: a change has gauge at most 2 where a record is replaced, else 1.

    The moments cost the precision times the greatest squared length of a row.
    """
    records = 2 if neighbors == "replace_one" else 1
    for epsilon in (1e-3, 0.1, 1 / 3, 1.0, 7.0):
        plan = plan_of(DOMAINS[name], neighbors, epsilon, strength=strength)
        noises = (plan.first.noise, plan.cross)
        spent = sum(Fraction(records) / Fraction(noise.scale) for noise in noises)
        longest = Fraction(1 + math.sqrt(plan.layout.n_rows) * 2.0**-20) ** 2
        spent += records * Fraction(float(plan.noise.precision.max())) * longest
        assert Fraction(epsilon) * (1 - Fraction(1, 10**11)) < spent <= Fraction(epsilon)
        assert sum(map(part, plan.releases)) == pytest.approx(epsilon, rel=1e-11)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_rows_are_as_long_as_their_noise_is_calibrated_for(name, neighbors):
    """By brute force over corners and scalings: |z|^2 reaches the bound to 10 %, never more."""
    domain, rng = DOMAINS[name], np.random.default_rng(1)
    plan, longest = plan_of(domain, neighbors), 0.0
    for _ in range(100):
        x, y = record(domain, rng)
        place = scalers_of(plan, rng)[1].place
        gram = exact_gram(MemoryRows(domain, x[None], np.array([y])), place)
        longest = max(longest, sum(np.diag(gram).tolist()) / 2**40)
    assert 0.9 < longest <= greatest_square(plan.layout)
    twin = replace(plan.noise, precision=plan.noise.precision / 0.95)
    records = 2 if neighbors == "replace_one" else 1
    assert records * 0.97 * twin.precision.max() > part(plan.releases[1])


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", DOMAINS)
def test_gaussian_releases_hide_what_their_losses_say(name, neighbors, strength):
    """No change is longer than the shift that is stated, some nearly as long; squares add up."""
    domain, n = DOMAINS[name], 50 if strength < 100 else 10**6
    plan = plan_of(domain, neighbors, n=n, strength=strength)
    task = task_of(domain, neighbors, 1.0, 1e-6, n)
    stage, cross, matrix = _gaussian(plan.layout, plan.first.sums, task, 0.17, 0.4)
    plan = replace(plan, first=stage, cross=cross, noise=matrix)
    first, second = changes(name, neighbors, strength)
    if not plan.first.sums.is_counted:
        first = np.vstack([first, longest_first_change(plan, domain)])
    total = Fraction(0)
    for release, change in zip(plan.releases[::2], (first, second), strict=True):
        stated = mu(release)
        shift = np.linalg.norm(change / release.noise.factor, axis=1).max()
        assert 0.94 * stated < shift <= stated  # the twin: 7 % less noise would not hide it
        total += Fraction(stated) ** 2
    stated = mu(plan.releases[1])
    records = 1 if plan.first.sums.is_counted else 2
    distance = math.sqrt(records) * greatest_square(plan.layout)
    assert distance / matrix.deviation <= stated < 1.0001 * distance / matrix.deviation
    whole = Fraction(1 / gaussian_scale(1.0, 1e-6)) ** 2
    assert (1 - Fraction(1, 10**9)) * whole < total + Fraction(stated) ** 2 <= whole


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


@pytest.mark.parametrize("name", DOMAINS)
def test_a_row_does_not_depend_on_other_rows(name):
    """Alone or in any order the sums are the same to the bit, in all releases."""
    rng, domain = np.random.default_rng(2), DOMAINS[name]
    plan = plan_of(domain, "replace_one")
    rows = [record(domain, rng) for _ in range(60)]
    mixed = [rows[k] for k in rng.permutation(60)]

    def both(records, maps):
        X, y = np.array([x for x, _ in records]), np.array([t for _, t in records])
        box, scaler = maps
        rows = MemoryRows(domain, X, y)
        statistic = exact_statistic(plan.layout, exact_gram(rows, scaler.place))
        return np.concatenate([exact_cross(rows, box.place), statistic])

    alone = sum(seen_in(plan, domain, [row]) for row in rows)
    assert seen_in(plan, domain, mixed).tolist() == alone.tolist()
    for _ in range(6):
        maps = scalers_of(plan, rng)
        alone = sum(both([row], maps) for row in rows)
        assert both(mixed, maps).tolist() == alone.tolist()


def test_one_reading_gives_both_sums():
    """As `infer` needs them: they are those of a reading for each."""
    domain, rng = DOMAINS["levels"], np.random.default_rng(3)
    plan = plan_of(domain, "replace_one")
    box, scaler = scalers_of(plan, rng)
    X, y = (np.array(v) for v in zip(*(record(domain, rng) for _ in range(90)), strict=True))
    rows = MemoryRows(domain, X, y)
    cross, moments = exact_both(rows, box.place, plan.layout, scaler.place)
    assert cross.tolist() == exact_cross(rows, box.place).tolist()
    wanted = exact_statistic(plan.layout, exact_gram(rows, scaler.place))
    assert moments.tolist() == wanted.tolist()


def test_ones_and_levels_stay_what_they_are_in_the_box():
    """And numbers, as far as they stick out, are on the box's surface: not beyond it."""
    domain, rng = DOMAINS["levels"], np.random.default_rng(3)
    plan = plan_of(domain, "replace_one")
    rows = np.array([[1.0, *x, t] for x, t in (record(domain, rng) for _ in range(200))])
    placed = rows.copy()
    scalers_of(plan, rng)[0].place(placed)
    kept = [0, *np.concatenate(plan.layout.block_columns)]
    np.testing.assert_array_equal(placed[:, kept], rows[:, kept])
    assert np.abs(placed).max() == 1


# Which release, and what comes of it


def table(n, p=10, seed=0):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(0.2, 0.4, (n, p)), -1, 1)
    y = 0.25 * X[:, :3].sum(axis=1) + 0.05 * rng.normal(size=n) - 0.1
    return X, np.clip(y, -1, 1)


def plan_for(n=600, **changed):
    design = Design(TEN, changed.pop("intercept", True))
    return inner_moments.plan_moments(Task(design, n, **{"epsilon": 1.0, **changed}), "auto")


def test_the_choice_of_the_release_is_of_public_things():
    """With very few records the mean, with very many one release in the domain's units."""
    kinds = [type(plan_for(n)) for n in (100, 600, 100_000, 10**10)]
    assert kinds == [MomentPlan, ScaledMoments, ScaledMoments, MomentPlan]
    assert [plan_for(n).layout.n_rows for n in (100, 10**10)] == [2, 12]
    assert type(plan_for(intercept=False)) is MomentPlan
    assert type(plan_for(None, neighbors="add_remove")) is ScaledMoments
    assert type(plan_for(None, neighbors="add_remove", n_public=300)) is ScaledMoments


def test_delta_is_spent_only_on_gaussian_noise():
    few = plan_of(DOMAINS["numbers"], "replace_one", delta=1e-6)
    many = plan_of(Domain.unit_box(60, target=(-1.0, 1.0)), "replace_one", delta=1e-6)
    assert isinstance(few.cross, KNormNoise)
    assert certify(few.releases, Public(1.0, 1e-6)).delta == 0
    assert isinstance(many.cross, GaussianNoise)
    assert certify(many.releases, Public(1.0, 1e-6)).delta == 1e-6
    total = sum(mu(release) ** 2 for release in many.releases)
    assert total**-0.5 == pytest.approx(gaussian_scale(1.0, 1e-6), rel=1e-9)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_without_noise_the_moments_are_those_of_the_rows(neighbors):
    """At an epsilon of 10^9, where no row is clipped: means and products; levels too."""
    domain, rng = DOMAINS["levels"], np.random.default_rng(4)
    rows = [record(domain, rng) for _ in range(400)]
    X, y = (np.array(column) for column in zip(*((0.4 * x, 0.4 * t) for x, t in rows), strict=True))
    for block in domain.blocks:
        X[:, block] = np.round(X[:, block] / 0.4)
    plan = plan_of(domain, neighbors, 1e9, n=400, strength=1e9)
    model = DPLinearRegression(epsilon=1e9, domain=domain, neighbors=neighbors, random_state=0)
    model._plan = lambda *_: plan
    moments = model.fit(X, domain.decode_target(y)).moments_
    table = np.column_stack([np.ones(400), X, y])
    z = (table - moments.centre) / moments.scale
    np.testing.assert_allclose(moments.mean(), table[:, 1:].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(moments.gram / 400, z.T @ z / 400, atol=1e-4)
