"""The parts of the moment ball: gauges against linear programs, draws against second truths.

False alarms. The battery is held against ALARM = 1e-10 with fewer than 40 p-values a ball: 10
balls, 4e-8. Chi-square tests here use 1e-9, shares of draws eight standard errors (1e-15).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ball_battery import (
    ALARM,
    BATTERY,
    Array,
    Check,
    Twin,
    check_box,
    check_radius,
    check_rejection,
    check_stationary,
    hit_and_run,
    lp_gauge,
    same_law,
)
from scipy.stats import chisquare, kstest

from skdp.geometry import SumBall
from skdp.geometry._gauges import (
    counted_product_gauge,
    counted_square_gauge,
    product_gauge,
    square_gauge,
)
from skdp.geometry.moments import (
    AddedBall,
    DifferenceBall,
    NumbersBall,
    PairHull,
    _linear_law,
    _triangle_law,
)
from skdp.geometry.moments._linear_law import LinearLaw
from skdp.geometry.moments._triangle_law import TriangleLaw

FINE = np.linspace(-1, 1, 61)
WITHOUT_SUPPORT = [check for check in BATTERY if check is not check_box]
NUMBERS = [
    NumbersBall(1, 1),
    NumbersBall(4, 1),
    NumbersBall(1, 1, 2),
    NumbersBall(2, 1, 2),
    AddedBall(1, 1, (2, 3)),
    AddedBall(0, 0, (2,)),
]


@pytest.mark.rest_is_slow(2)
@pytest.mark.parametrize("ball", NUMBERS, ids=repr)
def test_numbers_balls(ball: Any) -> None:
    for check in WITHOUT_SUPPORT:
        check(ball, np.random.default_rng(90))


@pytest.mark.parametrize("check", BATTERY)
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_difference_ball(dim: int, check: Check) -> None:
    check(DifferenceBall(dim), np.random.default_rng(91))


@pytest.mark.parametrize("check", [check for check in BATTERY if check is not check_stationary])
def test_pair_hull(check: Check) -> None:
    """Its gauge halves intervals, which makes a walk slow; rejection from the box sees as much."""
    check(PairHull(), np.random.default_rng(92))


def differences(points: Array) -> Array:
    return (points[:, None] - points[None]).reshape(-1, points.shape[1])


def grid(*axes: Array) -> list[Array]:
    return [axis.ravel() for axis in np.meshgrid(*axes)]


SIGNS = np.array([-1.0, 1.0])
X, Y = grid(SIGNS, SIGNS)
CORNERS = np.stack([X, Y, X * Y], axis=1)
CURVE = np.stack([FINE, 2 * FINE**2], axis=1)
ONES = np.ones(len(FINE))
COUNTED_CORNERS = np.column_stack([np.ones(4), CORNERS])
COUNTED_CURVE = np.stack([ONES, FINE, 2 * FINE**2 - 1], axis=1)
# (formula, points whose hull it is the gauge of, how much the grid's hull is too small)
GAUGES: dict[str, tuple[Callable[..., Array], Array, float]] = {
    "K_3": (product_gauge, differences(CORNERS), 1e-9),
    "K_2": (square_gauge, differences(CURVE), 2e-3),
    "K_3 with a count": (
        counted_product_gauge,
        np.vstack([COUNTED_CORNERS, -COUNTED_CORNERS]),
        1e-9,
    ),
    "K_2 with a count": (counted_square_gauge, np.vstack([COUNTED_CURVE, -COUNTED_CURVE]), 2e-3),
}


def near_from_below(gauge: Array, truth: list[float], slack: float) -> None:
    """The hull of a grid's points lies within K, so its gauge is the greater one."""
    assert (gauge <= np.array(truth) * (1 + 1e-9)).all()
    np.testing.assert_allclose(gauge, truth, rtol=max(slack, 1e-9))


@pytest.mark.parametrize("name", GAUGES)
def test_gauges_are_those_of_the_hulls(name: str) -> None:
    """Linear programs over the differences themselves; every sign, and zeros."""
    formula, points, slack = GAUGES[name]
    rng = np.random.default_rng(93)
    v = rng.normal(size=(40, points.shape[1])) * rng.integers(0, 3, (40, points.shape[1]))
    near_from_below(formula(*v.T), [lp_gauge(points, x) for x in v], slack)


def test_the_chord_in_place_of_the_curve_is_caught() -> None:
    """The twin: K_2 with a straight side is the gauge of no such hull."""
    v = np.array([[1.5, 1.4]])
    chord = np.maximum(np.abs(v).max(axis=1) / 2, (np.abs(v).sum(axis=1) + 1) / 4)
    truth = [lp_gauge(differences(CURVE), x) for x in v]
    with pytest.raises(AssertionError):
        near_from_below(chord, truth, 2e-3)


def test_pair_hull_is_the_hull() -> None:
    """Linear programs over x on a grid and y = -1, 1, also where level 2 is not enough."""
    x, y = grid(np.linspace(-1, 1, 25), SIGNS)
    points = differences(np.stack([x, y, 2 * x**2, x * y], axis=1))
    rng = np.random.default_rng(94)
    v = np.vstack([rng.normal(size=(25, 4)), NumbersBall(1, 1, 2).sample(15, rng)])
    gauge = PairHull().gauge(v)
    near_from_below(gauge, [lp_gauge(points, u) for u in v], 3e-3)
    u = np.array([1.5, -1.0, 0.5, 1.5])  # the corner where a share of y = 1 must be 0
    assert PairHull().gauge(u) > NumbersBall(1, 1, 2).gauge(u) + 0.05


def test_shares_of_the_paper_s_body() -> None:
    """Section 5.1's K_T is no hull: for one number the hull has 0.807 of its volume."""
    rng, n = np.random.default_rng(95), 100_000
    u = NumbersBall(1, 1).sample(n, rng)
    for ball, share in ((NumbersBall(1, 1, 2), 0.877), (PairHull(), 0.807)):
        found = float((ball.gauge(u) <= 1).mean())
        assert abs(found - share) < 8 * 0.4 / math.sqrt(n) + 0.001


def test_volume_of_the_paper_s_body() -> None:
    """For one number 256 (117 / 160), by integrating h(w) (1 - (1 - w)^2 / 2) over [0, 1]."""
    value, error = NumbersBall(1, 1).estimate_log_volume(200_000, np.random.default_rng(96))
    assert error < 1e-3
    assert abs(value - math.log(256 * 117 / 160)) < 8 * error
    box = np.random.default_rng(97).uniform(-2, 2, (200_000, 8))
    value, error = NumbersBall(2, 1).estimate_log_volume(100_000, np.random.default_rng(98))
    share = float((NumbersBall(2, 1).gauge(box) <= 1).mean())
    other = math.sqrt((1 - share) / share / len(box))
    assert abs(value - math.log(4**8 * share)) < 8 * math.hypot(error, other)


def test_volume_with_a_count() -> None:
    """Against the share of a box: (1, x, y, x y) has the volume of a cross of radius 2."""
    value, error = AddedBall(0, 2).estimate_log_volume(200_000, np.random.default_rng(99))
    assert abs(value - math.log(16 * 16 / math.factorial(4))) < 8 * error  # radius 2 in 4 dims
    ball, rng = AddedBall(1, 1, (2,)), np.random.default_rng(100)
    value, error = ball.estimate_log_volume(100_000, rng)
    share = float((ball.gauge(rng.uniform(-1, 1, (400_000, 7))) <= 1).mean())
    other = math.sqrt(1 / share / 400_000)
    assert abs(value - math.log(2**7 * share)) < 8 * math.hypot(error, other)


def cells_of_three(bins: int) -> Array:
    """Return the probabilities of a bins^3 grid under the linear law of three variables."""
    fine = 32
    w = (np.arange(bins * fine) + 0.5) / (bins * fine)
    low = np.minimum(w, 0.5)
    h = 4 * low * (1 - low)
    pair = np.minimum(1.0, w[:, None] + w)
    density = h[:, None, None] * h[:, None] * pair[:, :, None] * pair[:, None, :] * pair
    cells = density.reshape(bins, fine, bins, fine, bins, fine).sum(axis=(1, 3, 5))
    return np.asarray((cells / cells.sum()).ravel())


def check_three(w: Array) -> None:
    """Draws of (two with squares, one without) fall into the cells as often as they should."""
    bins = 4
    cell = np.minimum((bins * w).astype(int), bins - 1)
    found = np.bincount(cell @ [bins**2, bins, 1], minlength=bins**3)
    assert chisquare(found, cells_of_three(bins) * len(w)).pvalue > 1e-9


def test_linear_law_of_three() -> None:
    """The integration error of a cell, 1e-4 of it, adds 0.005 to a chi-square of mean 63."""
    check_three(LinearLaw(2, 1).sample(500_000, np.random.default_rng(101)))


def test_proposals_without_the_acceptance_step_are_caught() -> None:
    """The twin, though it is wrong for only one proposal in forty."""
    law, rng = LinearLaw(2, 1), np.random.default_rng(102)
    proposals, share = law.propose(500_000, rng)
    assert 0.97 < share.mean() < 0.985
    with pytest.raises(AssertionError):
        check_three(law._fill(proposals, rng))


@pytest.mark.parametrize(("p", "least"), [(1, 0.98), (5, 0.9), (12, 0.85), (50, 0.65)])
def test_share_of_accepted_proposals(p: int, least: float) -> None:
    """It never exceeds 1, the bound's own proof, and stays high up to fifty numbers."""
    law = LinearLaw(p, 1)
    _, share = law.propose(400 if p < 50 else 100, np.random.default_rng(103))
    assert share.max() <= 1 + 1e-12
    assert share.mean() > least


def test_mean_product_by_a_fine_grid() -> None:
    rng = np.random.default_rng(104)
    d = -np.sort(-rng.uniform(0, 0.5, (6, 5)), axis=1)
    d[0, 3:] = 0
    e = (np.arange(100_000) + 0.5) / 200_000
    truth = [np.minimum(1, 1 - row[:, None] + e).prod(axis=0).mean() for row in d]
    np.testing.assert_allclose(_linear_law._mean_product(d), truth, rtol=1e-9)


def test_triangle_law_is_what_of_level_one_is_in_level_two() -> None:
    """Exact draws one way against rejection the other way, for three numbers and a target."""
    inner, rng = NumbersBall(3, 1, 2), np.random.default_rng(105)
    tried = NumbersBall(3, 1).sample(20_000, rng)
    kept = tried[inner.gauge(tried) <= 1]
    assert len(kept) > 1000
    same_law(kept, inner.sample(3_000, rng), rng)


def stopped_early(ball: NumbersBall, n: int, rng: np.random.Generator) -> Array:
    """A chain stopped at a fixed time: from no change at all, one sweep."""
    law = TriangleLaw(ball.n_squares, ball.n_plain)
    low, high, state = law._whole(n, 0.0), law._whole(n, 1.0), law._whole(n, 1.0)
    law._sweep(low, high, state, rng)
    i, j = np.triu_indices(ball.n_variables, 1)
    sizes = 1 - np.concatenate(
        [state.edges[:, 0, 1:], state.squares, state.edges[:, i + 1, j + 1]], axis=1
    )
    return np.asarray(2 * sizes * rng.choice([-1, 1], sizes.shape))


def at_the_hit(ball: NumbersBall, n: int, rng: np.random.Generator) -> Array:
    """A run forward, taken where all states have met: the well-known wrong way."""
    law = TriangleLaw(ball.n_squares, ball.n_plain)
    low, high, state = law._whole(n, 0.0), law._whole(n, 1.0), law._whole(n, 1.0)
    out = np.full((n, ball.dim), np.nan)
    i, j = np.triu_indices(ball.n_variables, 1)
    while np.isnan(out).any():
        law._sweep(low, high, state, rng)
        met = (low.edges == high.edges).all(axis=(1, 2)) & (low.squares == high.squares).all(axis=1)
        sizes = 1 - np.concatenate(
            [state.edges[:, 0, 1:], state.squares, state.edges[:, i + 1, j + 1]], axis=1
        )
        first = met & np.isnan(out[:, 0])
        out[first] = sizes[first]
    return np.asarray(2 * out * rng.choice([-1, 1], out.shape))


@pytest.mark.parametrize("wrong", [stopped_early, at_the_hit])
def test_a_chain_that_is_not_exact_is_caught(wrong: Callable[..., Array]) -> None:
    ball = NumbersBall(2, 1, 2)
    with pytest.raises(AssertionError):
        check_radius(Twin(ball, {"sample": wrong}), np.random.default_rng(106))


def test_draws_of_a_sequence_are_uniform_above_every_end() -> None:
    """The coupling: uniform on [L, 1] for L at both bounds and between, and in order."""
    rng, n = np.random.default_rng(107), 200_000
    least, own, greatest = np.full(n, 0.1), np.full(n, 0.35), np.full(n, 0.6)
    low, high, value = _triangle_law._draw(least, greatest, own, rng)
    assert ((low <= value) & (value <= high) & (value >= own) & (high >= greatest)).all()
    for draws, end in ((low, 0.1), (value, 0.35), (high, 0.6)):
        counts = np.histogram(draws, bins=20, range=(end, 1))[0]
        assert chisquare(counts).pvalue > 1e-9


def without_acceptance(ball: AddedBall, n: int, rng: np.random.Generator) -> Array:
    rows, (low, high), _ = ball._propose(n, rng)
    return np.concatenate([rows, low + (high - low) * rng.random(low.shape)], axis=1)


@pytest.mark.parametrize("check", [check_radius, check_rejection])
def test_added_proposals_without_the_acceptance_step_are_caught(check: Check) -> None:
    with pytest.raises(AssertionError):
        check(Twin(AddedBall(0, 2), {"sample": without_acceptance}), np.random.default_rng(108))


@pytest.fixture
def part_of_the_triples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take a part of the triples from three variables on, instead of from thirteen on."""
    caches = (_triangle_law.third_nodes, _triangle_law.squares_held)
    monkeypatch.setattr(_triangle_law, "MOST_WITH_ALL", 2)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("part_of_the_triples")
def test_law_with_a_part_of_the_triples() -> None:
    """Radii and a walk see the body of the gauge; with all triples it is a smaller one."""
    ball, rng = NumbersBall(5, 1, 2), np.random.default_rng(120)
    u = ball.sample(1_500, rng)
    assert kstest(ball.gauge(u) ** ball.dim, "uniform").pvalue > ALARM
    same_law(hit_and_run(ball, u, 6, rng), ball.sample(1_000, rng), rng)
    assert (NumbersBall(5, 1).gauge(u) > 1).any()


@pytest.mark.parametrize("n_variables", [13, 14, 20, 51, 100])
def test_chosen_triples(n_variables: int) -> None:
    """Each is there from all three sides, none twice; an entry is in at most five."""
    third = _triangle_law.third_nodes(n_variables, 2)
    i, j, slot = np.nonzero(third != np.arange(n_variables + 1)[:, None, None])
    found = set(map(frozenset, np.stack([i, j, third[i, j, slot]], axis=1).tolist()))
    assert all(len(t) == 3 for t in found)
    assert len(i) == 6 * len(found)  # no triple twice, none from one side only
    assert third.shape[2] == _triangle_law.TRIPLES
    assert len(i) / (n_variables * (n_variables + 1)) > 3
    held = _triangle_law.squares_held(n_variables, 2)
    assert held[:, 0].all()
    assert (held[1:].sum(axis=1) <= _triangle_law.PAIRS).all()


def test_parts_work_within_other_balls() -> None:
    """A sum of them passes what asks for no support."""
    ball = SumBall((DifferenceBall(3), NumbersBall(1, 1)), (1.0, 2.0))
    check_radius(ball, np.random.default_rng(109))


def counted_square_gauge_of(count: float, x: float, square: float) -> Fraction:
    """The gauge of the hull of {+-(1, z, 2 z^2 - 1)} in fractions, from its inequalities."""
    c, u, s = Fraction(count), abs(Fraction(x)), Fraction(square)
    least = max(abs(c), u, abs(s))
    found = [least]
    for a, b in ((c, s), (-c, -s)):
        width = 2 * u - a
        if width > least and (least - b) * (least - a) < (width - least) ** 2:
            found.append((width**2 - a * b) / (2 * width - a - b))
    return max(found)


@pytest.mark.parametrize("near", [0, 10, 25, 40, 50])
def test_the_gauge_with_a_count_keeps_its_digits_near_a_corner(near: int) -> None:
    """Draws of sums of balls are divided by it, and their error is part of the lattice's proof."""
    rng = np.random.default_rng(99)
    corner = np.array([1.0, 1.0, 1.0]) * rng.choice([-1, 1], (4000, 1))
    v = corner + rng.normal(size=(4000, 3)) * 2.0**-near
    v[:, 1] *= rng.choice([-1, 1], 4000)
    found = counted_square_gauge(*v.T)
    truth = [counted_square_gauge_of(*map(float, x)) for x in v]
    errors = [abs(Fraction(float(one)) / t - 1) for one, t in zip(found, truth, strict=True)]
    assert max(errors) < Fraction(1, 2**49)
