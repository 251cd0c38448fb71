"""The ball of moments: what it must hold, how the levels lie in each other, what it refuses.

False alarms: those of the battery (below 1e-6 for all balls together) for one more ball; what
else is random here can fail only where the code is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ball_battery import check_norm, check_protocol, check_radius, lp_gauge
from moment_records import LAYOUTS, Array, changes, draw_rows, greatest, moments

from skdp import Domain
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout, NumbersBall

NEIGHBORS = ("replace_one", "add_remove")
EVERY = [(name, relation) for name in LAYOUTS for relation in NEIGHBORS]
MIXED = MomentLayout(6, (0, 3), ((1, 2), (4, 5)))


def layout_of(name: str, relation: str = "replace_one") -> MomentLayout:
    return MomentLayout(neighbors=relation, **LAYOUTS[name])


def balls(layout: MomentLayout) -> list[MomentBall]:
    """Return the levels that the layout has, the greatest ball first."""
    found = []
    for level in (0, 1, 2, "exact"):
        try:
            found.append(MomentBall(layout, level))
        except ValueError:
            continue
    return found


@pytest.mark.parametrize(("name", "relation"), EVERY)
def test_every_change_is_held_and_some_lie_on_the_boundary(name: str, relation: str) -> None:
    """A local search over the records finds gauge 1 at every level, and never more."""
    layout, rng = layout_of(name, relation), np.random.default_rng(80)
    for ball in balls(layout):
        if ball.level == "exact":
            top = greatest(layout, ball.gauge, rng, starts=12, rounds=4)
        else:
            top = greatest(layout, ball.gauge, rng, starts=30, rounds=4)
        assert 1 - 1e-9 <= top <= 1 + 1e-12


def printed_gauge(u: Array) -> Array:
    """K_2 as Awan & Slavkovic's section 5.1 would have it with Example 7.1's 1 for its 2."""
    a, b = np.abs(u[:, 0]), np.abs(u[:, 1])
    return np.where(b <= np.where(a > 1, 2 - 2 * (a - 1), 2), np.maximum(a, b) / 2, 2.0)


def test_two_columns_of_two_levels_have_their_hull() -> None:
    """(e, f, e f): linear programs over the differences, and the volume of a mapped K_3."""
    ball = MomentBall(MomentLayout(2, (), ((0,), (1,)), target=False), 1)
    e, f = np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 0, 1])
    points = np.stack([e, f, e * f], axis=1)
    differences = (points[:, None] - points).reshape(-1, 3)
    v = np.random.default_rng(79).normal(size=(30, 3))
    np.testing.assert_allclose(ball.gauge(v), [lp_gauge(differences, x) for x in v], rtol=1e-9)
    value, error = ball.estimate_log_volume(100_000, np.random.default_rng(78))
    # Of the box of K_3, 4^3, each of 8 corners loses a sixth of 2^3; the map divides by 2 2 4.
    assert abs(value - np.log((64 - 8 * 8 / 6) / 16)) < 8 * error


def test_every_change_is_held_where_not_all_triples_are() -> None:
    layout, rng = MomentLayout(14, tuple(range(14))), np.random.default_rng(88)
    ball = MomentBall(layout, 2)
    assert 1 - 1e-9 <= greatest(layout, ball.gauge, rng, starts=6, rounds=1) <= 1 + 1e-12


def test_a_body_that_cuts_off_records_is_caught() -> None:
    """The twin: the curved side of K_2 replaced by its chord, and the box a little too small."""
    layout, rng = layout_of("one number alone"), np.random.default_rng(81)
    assert greatest(layout, printed_gauge, rng) > 1
    small = LpBall(2, p=np.inf, radius=2 * (1 - 1e-9))
    assert greatest(layout, small.gauge, rng) > 1


@pytest.mark.parametrize(("name", "relation"), EVERY)
def test_each_level_lies_in_the_one_before(name: str, relation: str) -> None:
    """Gauges rise with the level, at random points and at sums of changes."""
    layout, rng = layout_of(name, relation), np.random.default_rng(82)
    u = changes(layout, draw_rows(layout, 400, rng), draw_rows(layout, 400, rng))
    v = np.concatenate([rng.normal(size=(200, layout.dim)), u[:200] + u[200:]])
    gauges = [ball.gauge(v) for ball in balls(layout)]
    for outer, inner in itertools.pairwise(gauges):
        assert (outer <= inner * (1 + 1e-12)).all()
    assert (gauges[0] < gauges[-1] * (1 - 1e-3)).any() or layout.dim < 3


def test_automatic_level_is_the_smallest_that_is_fast() -> None:
    assert MomentBall(layout_of("one number")).level == "exact"
    assert MomentBall(layout_of("mixed")).level == 2
    assert MomentBall(layout_of("mixed", "add_remove")).level == 1
    assert MomentBall(MomentLayout(50, tuple(range(50)))).level == 2
    assert MomentBall(MomentLayout(100, tuple(range(100)))).level == 1


@pytest.mark.parametrize("check", [check_protocol, check_norm, check_radius])
@pytest.mark.parametrize("ball", [MomentBall(MIXED, 1), MomentBall(MIXED, 2)], ids=["1", "2"])
def test_parts_are_put_together_in_their_places(
    ball: MomentBall, check: Callable[[Any, Any], None]
) -> None:
    """Numbers, blocks and their products; the parts themselves are tested apart."""
    check(ball, np.random.default_rng(83))
    assert ball.exact


@pytest.mark.parametrize("relation", NEIGHBORS)
def test_parts_with_add_remove(relation: str) -> None:
    ball = MomentBall(layout_of("mixed", relation), 1)
    check_radius(ball, np.random.default_rng(84))
    assert (np.abs(ball.sample(1000, np.random.default_rng(84))) <= ball.bounding_box()).all()


@pytest.mark.parametrize(("name", "relation"), EVERY)
def test_bounding_box_is_the_least_one(name: str, relation: str) -> None:
    """Each entry alone can change by all of its half-width."""
    layout, rng = layout_of(name, relation), np.random.default_rng(85)
    u = changes(layout, draw_rows(layout, 4000, rng), draw_rows(layout, 4000, rng))
    box = MomentBall(layout).bounding_box()
    assert (np.abs(u).max(axis=0) > 0.9 * box).all()
    assert (np.abs(u).max(axis=0) <= box * (1 + 1e-12)).all()


def test_optional_members_are_there_where_the_parts_have_them() -> None:
    box, paper = MomentBall(MIXED, 0), MomentBall(MIXED, 1)
    assert box.log_volume() == pytest.approx(float(np.log(2 * box.bounding_box()).sum()))
    np.testing.assert_allclose(box.support(np.eye(box.dim)), box.bounding_box())
    assert np.allclose(np.diag(box.covariance()), box.bounding_box() ** 2 / 3)
    for member in ("log_volume", "support", "covariance"):
        assert not hasattr(paper, member)
    blocks = MomentBall(layout_of("one block alone"), 1)
    assert blocks.log_volume() == pytest.approx(np.log(3))  # C(4, 2) / 2!
    assert blocks.estimate_log_volume(10, np.random.default_rng(1)) == (blocks.log_volume(), 0.0)


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
@pytest.mark.parametrize("level", [1, 2])
def test_estimated_covariance_is_that_of_the_draws(relation: str, level: int) -> None:
    """Entry by entry: two means of 4,000 draws or more, eight standard errors of both apart."""
    if (relation, level) == ("add_remove", 2):
        level = 0
    ball, rng = MomentBall(layout_of("mixed", relation), level), np.random.default_rng(89)
    u = ball.sample(4_000, rng)
    products = u[:, :, None] * u[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(u))
    estimate = ball.estimate_covariance(4_000, rng)
    assert (np.abs(products.mean(axis=0) - estimate) <= 8 * np.sqrt(2) * error + 1e-12).all()
    np.testing.assert_allclose(estimate, estimate.T, atol=1e-12)
    # A percent or two for orbits of many entries, more for those of one: no more than a fifth.
    np.testing.assert_allclose(ball.mean_squares(), np.diag(estimate), rtol=0.2)


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
        (lambda: MomentLayout(2, (0,)), "number_index and blocks must hold each of 0, ..., 1 once"),
        (lambda: MomentLayout(1, (0,), ((0,),)), "must hold each of 0, ..., 0 once"),
        (lambda: MomentLayout(0, (), target=False), "n_encoded must be > 0"),
        (lambda: MomentLayout(1, (0,), neighbors="swap"), "neighbors must be one of"),
        (lambda: MomentLayout(1, (0,), (), False, True), "target_square must be False"),
        (lambda: MIXED.statistic(np.eye(3)), r"gram must have shape \(..., 8, 8\), got \(3, 3\)"),
        (lambda: MIXED.gram(np.zeros(MIXED.dim)), "n must be given under replace_one"),
        (lambda: MIXED.gram([0.0], 1), "statistic must have 28 numbers on its last axis"),
        (lambda: MomentBall(MIXED, 3), "level must be 'auto', 0, 1, 2 or 'exact', got 3"),
        (lambda: MomentBall(MIXED, True), "level must be 'auto', 0, 1, 2 or 'exact', got True"),
        (lambda: MomentBall(MIXED, "exact"), "level must be 0, 1 or 2 unless there is one number"),
        (lambda: MomentBall(MIXED).gauge([1.0]), "v must have 28 numbers on its last axis"),
        (lambda: MomentBall(MIXED).greatest_square(-np.ones(28)), "weights must be finite"),
        (lambda: MomentBall(MIXED).greatest_square(np.arange(28)), "weights must be equal on"),
        (lambda: MomentBall(layout_of("mixed", "add_remove"), 2), "level must be 0 or 1 under"),
        (lambda: MomentBall(MomentLayout(100, tuple(range(100))), 2), "level must be 1 for more"),
        (lambda: NumbersBall(0, 0), "n_squares must be > 0"),
        (lambda: NumbersBall(1, 1, 3), "level must be 1 or 2, got 3"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()
