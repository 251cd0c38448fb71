"""The ball of moments: what it must hold, its draws, how the levels lie in each other.

False alarms. The battery is held against ALARM = 1e-10 with fewer than 40 p-values a ball: 8
balls, 4e-8. Chi-square tests use 1e-9, shares and means eight standard errors (1e-15).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ball_battery
import numpy as np
import pytest
from ball_battery import BATTERY, Twin, check_box, check_norm, check_radius, lp_gauge
from moment_records import LAYOUTS, Array, changes, draw_rows, greatest, moments
from scipy.stats import chisquare

from skdp import Domain
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout, NumbersBall

NEIGHBORS = ("replace_one", "add_remove")
EVERY = [(name, relation) for name in LAYOUTS for relation in NEIGHBORS]
MIXED = MomentLayout(6, (0, 3), ((1, 2), (4, 5)))


def layout_of(name: str, relation: str = "replace_one") -> MomentLayout:
    return MomentLayout(*LAYOUTS[name], neighbors=relation)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(("name", "relation"), EVERY)
def test_every_change_is_held_and_some_lie_on_the_boundary(
    name: str, relation: str, level: int
) -> None:
    """A local search over the records finds gauge 1 at every level, and never more."""
    layout, rng = layout_of(name, relation), np.random.default_rng(80)
    top = greatest(layout, MomentBall(layout, level).gauge, rng, starts=30, rounds=4)
    assert 1 - 1e-9 <= top <= 1 + 1e-12


def printed_gauge(u: Array) -> Array:
    """K_2 as Awan & Slavkovic's section 5.1 would have it with Example 7.1's 1 for its 2."""
    a, b = np.abs(u[:, 0]), np.abs(u[:, 1])
    return np.where(b <= np.where(a > 1, 2 - 2 * (a - 1), 2), np.maximum(a, b) / 2, 2.0)


def test_a_body_that_cuts_off_records_is_caught() -> None:
    """The twin: the curved side of K_2 replaced by its chord, and the box a little too small."""
    layout, rng = layout_of("one number alone"), np.random.default_rng(81)
    assert greatest(layout, printed_gauge, rng) > 1
    small = LpBall(2, p=np.inf, radius=2 * (1 - 1e-9))
    assert greatest(layout, small.gauge, rng) > 1


def test_level_one_of_many_numbers_is_the_box() -> None:
    """Up to 13 numbers, the target among them; a draw of a greater body would take too long."""
    small, large = (MomentBall(MomentLayout(p, range(p))) for p in (12, 13))
    assert not hasattr(small, "support")
    np.testing.assert_array_equal(large.support(np.eye(large.dim)), large.bounding_box())
    assert small.sample(20, np.random.default_rng(0)).shape == (20, small.dim)


@pytest.mark.parametrize("check", [ball_battery.check_protocol, check_norm, check_radius])
def test_parts_are_put_together_in_their_places(check: Callable[[Any, Any], None]) -> None:
    """Numbers, blocks and their products; the body of the numbers is tested apart."""
    check(MomentBall(MIXED, 1), np.random.default_rng(83))


@pytest.mark.parametrize(("name", "relation"), EVERY)
def test_bounding_box_is_the_least_one(name: str, relation: str) -> None:
    """Each entry alone can change by all of its half-width."""
    layout, rng = layout_of(name, relation), np.random.default_rng(85)
    u = changes(layout, draw_rows(layout, 4000, rng), draw_rows(layout, 4000, rng))
    box = MomentBall(layout).bounding_box()
    assert (np.abs(u).max(axis=0) > 0.9 * box).all()
    assert (np.abs(u).max(axis=0) <= box * (1 + 1e-12)).all()


def test_orbits_are_kept_by_permuting_numbers_levels_and_twin_blocks() -> None:
    rng = np.random.default_rng(86)
    rows = draw_rows(MIXED, 300, rng)
    labels, was = MomentBall(MIXED).orbits(), moments(MIXED, rows)
    for columns in ([0, 4, 2, 3, 1, 5, 6, 7], [0, 1, 3, 2, 4, 5, 6, 7], [0, 1, 5, 6, 4, 3, 2, 7]):
        now = moments(MIXED, rows[:, columns])
        source = [np.flatnonzero((was == column[:, None]).all(axis=0)) for column in now.T]
        assert all(
            (labels[found] == label).any() for found, label in zip(source, labels, strict=True)
        )
    kinds = {(int(label), str(kind)) for label, kind in zip(labels, MIXED.kinds, strict=True)}
    assert len(kinds) == len({label for label, _ in kinds})
    # x, e, y; x^2; x x', x e, e e'; x y, e y.
    assert len(set(labels.tolist())) == 9


@pytest.mark.parametrize("relation", NEIGHBORS)
@pytest.mark.parametrize("level", [0, 1])
def test_mean_squares_are_those_of_the_draws(relation: str, level: int) -> None:
    """Entry by entry, within eight standard errors and 5 %; no two entries are correlated."""
    ball, rng = MomentBall(layout_of("mixed", relation), level), np.random.default_rng(89)
    u = ball.sample(4_000, rng)
    products = u[:, :, None] * u[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(u))
    found = np.diag(ball.mean_squares())
    assert (np.abs(products.mean(axis=0) - found) <= 8 * error + 0.05 * found).all()
    np.testing.assert_array_equal(ball.first_covariance(), found[0])


def test_order_of_the_entries() -> None:
    layout = MomentLayout(4, (1,), ((0, 2), (3,)), target_square=True, neighbors="add_remove")
    linear = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    squares, target = [(2, 2), (5, 5)], [(1, 5), (2, 5), (3, 5), (4, 5)]
    products = [(1, 2), (1, 4), (2, 3), (2, 4), (3, 4)]  # columns 1 and 3 are one block
    assert list(map(tuple, layout.pairs)) == linear + squares + products + target
    assert layout.kinds.tolist() == (
        ["count", *["linear"] * 4, "target", *["square"] * 2, *["product"] * 5, *["target"] * 4]
    )
    assert (layout.scale == np.where(layout.kinds == "square", 2, 1)).all()
    assert (layout.shift == (layout.kinds == "square")).all()
    assert not MomentLayout(2, (0, 1)).shift.any()


@pytest.mark.parametrize(("name", "relation"), EVERY)
def test_gram_matrix_comes_back(name: str, relation: str) -> None:
    """From the statistic, with the count where it is public, but for the target's square."""
    layout = layout_of(name, relation)
    rows = draw_rows(layout, 30, np.random.default_rng(87))
    gram = rows.T @ rows
    back = layout.gram(layout.statistic(gram), None if layout.adds else len(rows))
    known = ~np.isnan(back)
    np.testing.assert_allclose(back[known], gram[known], atol=1e-12)
    assert (~known).sum() == int(layout.target and not layout.target_square)
    both = layout.gram(layout.statistic(np.stack([gram, 2 * gram])), None if layout.adds else 30)
    assert both.shape == (2, *gram.shape)


def test_layout_of_a_domain() -> None:
    domain = Domain({"age": (17, 90), "sex": ["f", "m"], "hours": (0, 99), "one": ["only"]})
    layout = MomentLayout.of(domain, target=False)
    assert layout == MomentLayout(3, (0, 2), ((1,),), target=False)
    with pytest.raises(ValueError, match="domain must bound every column"):
        MomentLayout.of(Domain.l2_ball(3, 1.0))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: MomentLayout(2, (0,)), "index and blocks must contain each of 0, ..., 1 once"),
        (lambda: MomentLayout(1, (0,), ((0,),)), "must contain each of 0, ..., 0 once"),
        (lambda: MomentLayout(0, (), target=False), "n_encoded must be > 0"),
        (lambda: MomentLayout(1, (0,), neighbors="swap"), "neighbors must be one of"),
        (lambda: MomentLayout(1, (0,), (), False, True), "target_square must be False"),
        (lambda: MIXED.statistic(np.eye(3)), r"gram must have shape \(..., 8, 8\), got \(3, 3\)"),
        (lambda: MIXED.gram(np.zeros(MIXED.dim)), "n must be given under replace_one"),
        (lambda: MIXED.gram([0.0], 1), "statistic must have 28 numbers on its last axis"),
        (lambda: MomentBall(MIXED, 2), "level must be 0 or 1, got 2"),
        (lambda: MomentBall(MIXED, True), "level must be 0 or 1, got True"),
        (lambda: MomentBall(MIXED).gauge([1.0]), "v must have 28 numbers on its last axis"),
        (lambda: MomentBall(MIXED).greatest_square(-np.ones(28)), "weights must be finite"),
        (lambda: MomentBall(MIXED).greatest_square(np.arange(28)), "weights must be equal on"),
        (lambda: NumbersBall(0, 0), "n_squares and n_plain must be 1 to 13 together, got 0"),
        (lambda: NumbersBall(13, 1), "n_squares and n_plain must be 1 to 13 together, got 14"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


# The body of the numbers


@pytest.mark.rest_is_slow(1)
@pytest.mark.parametrize(
    "ball", [NumbersBall(1, 1), NumbersBall(0, 1), NumbersBall(4, 1)], ids=repr
)
def test_numbers_balls(ball: Any) -> None:
    """All but the least box, which needs a support."""
    for check in BATTERY:
        if check is not check_box:
            check(ball, np.random.default_rng(90))


def differences(points: Array) -> Array:
    return (points[:, None] - points[None]).reshape(-1, points.shape[1])


def near_from_below(gauge: Array, truth: list[float], slack: float) -> None:
    """The hull of a grid's points lies within K, so its gauge is the greater one."""
    assert (gauge <= np.array(truth) * (1 + 1e-9)).all()
    np.testing.assert_allclose(gauge, truth, rtol=max(slack, 1e-9))


CURVE = np.stack([np.linspace(-1, 1, 61), 2 * np.linspace(-1, 1, 61) ** 2], axis=1)
TETRAHEDRON = np.array([[x, y, x * y] for x in (-1.0, 1.0) for y in (-1.0, 1.0)])


@pytest.mark.parametrize(
    ("ball", "points", "slack"),
    [(NumbersBall(1, 0), CURVE, 2e-3), (NumbersBall(0, 2), TETRAHEDRON, 1e-9)],
    ids=["K_2", "K_3"],
)
def test_one_number_with_its_square_and_two_with_their_product_have_their_hull(
    ball: NumbersBall, points: Array, slack: float
) -> None:
    """Linear programs over the differences themselves; every sign, and zeros."""
    rng = np.random.default_rng(93)
    v = rng.normal(size=(40, ball.dim)) * rng.integers(0, 3, (40, ball.dim))
    near_from_below(ball.gauge(v), [lp_gauge(differences(points), x) for x in v], slack)


def test_the_chord_in_place_of_the_curve_is_caught() -> None:
    """The twin: K_2 with a straight side is the gauge of no such hull."""
    v = np.array([[1.5, 1.4]])
    chord = np.maximum(np.abs(v).max(axis=1) / 2, (np.abs(v).sum(axis=1) + 1) / 4)
    truth = [lp_gauge(differences(CURVE), x) for x in v]
    with pytest.raises(AssertionError):
        near_from_below(chord, truth, 2e-3)


def test_the_gauge_of_many_numbers_is_the_greatest_of_pairs() -> None:
    """Each number with its square, and each two with their product, one by one."""
    ball, rng = NumbersBall(3, 1), np.random.default_rng(94)
    v = rng.normal(size=(50, ball.dim))
    linear, squares, products = np.split(v, [4, 7], axis=1)
    pairs = itertools.combinations(range(4), 2)
    gauges = [NumbersBall(1, 0).gauge(np.stack([linear[:, k], squares[:, k]], 1)) for k in range(3)]
    for k, (i, j) in enumerate(pairs):
        gauges.append(NumbersBall(0, 2).gauge(np.c_[linear[:, i], linear[:, j], products[:, k]]))
    np.testing.assert_allclose(ball.gauge(v), np.max(gauges, axis=0), rtol=1e-15)


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


def check_three(u: Array) -> None:
    """Draws of (two with squares, one without) fall into the cells as often as they should."""
    bins, w = 4, 1 - np.abs(u[:, :3]) / 2
    cell = np.minimum((bins * w).astype(int), bins - 1)
    found = np.bincount(cell @ [bins**2, bins, 1], minlength=bins**3)
    assert chisquare(found, cells_of_three(bins) * len(w)).pvalue > 1e-9


def without(parts: int) -> Callable[[NumbersBall, int, np.random.Generator], Array]:
    """Return a sampler that keeps draws as if the last parts had all of their box."""

    def sample(ball: NumbersBall, n: int, rng: np.random.Generator) -> Array:
        w = rng.random((8 * n, ball.n_variables))
        rooms = ball._rooms(w)
        shares = rooms[:, : rooms.shape[1] - parts].prod(axis=1)
        chosen = np.flatnonzero(rng.random(len(w)) < shares)[:n]
        sizes = np.concatenate([1 - w, rooms * rng.random(rooms.shape)], axis=1)[chosen]
        return np.asarray(sizes * rng.choice([-2.0, 2.0], sizes.shape))

    return sample


def test_linear_entries_have_their_density() -> None:
    """The integration error of a cell, 1e-4 of it, adds 0.005 to a chi-square of mean 63."""
    check_three(NumbersBall(2, 1).sample(500_000, np.random.default_rng(101)))


def test_draws_without_the_acceptance_step_are_caught() -> None:
    """The twins: for one of three products by cells, for all of it by rejection from the box."""
    with pytest.raises(AssertionError):
        check_three(without(1)(NumbersBall(2, 1), 500_000, np.random.default_rng(102)))
    twin = Twin(NumbersBall(1, 1), {"sample": without(2)})
    with pytest.raises(AssertionError):
        ball_battery.check_rejection(twin, np.random.default_rng(103))
