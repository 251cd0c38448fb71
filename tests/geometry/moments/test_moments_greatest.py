"""The greatest weighted square of a change: never below what a search finds, and close to it.

Seeds are fixed and nothing here is a test of chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from moment_records import LAYOUTS, Array, greatest

from skdp.geometry import LpBall
from skdp.geometry import moment_layout as greatest_module
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.mechanisms import Sensitivity

BLOCKS: dict[str, tuple[Any, ...]] = {
    "blocks alone": (7, (), ((0, 1), (2, 3, 4), (5,), (6,))),
    "blocks and numbers": (9, (0, 1), ((2, 3), (4, 5, 6), (7,), (8,)), True, True),
    "three blocks and a number": (7, (6,), ((0, 1), (2, 3), (4, 5)), False),
}
NUMBERS = {f"{p} numbers": (p, range(p)) for p in (4, 5, 7)}
ALL: dict[str, tuple[Any, ...]] = {**LAYOUTS, **NUMBERS}
# How far above the best change found; more where blocks and numbers are bounded in parts.
SLACK = {"mixed": 1.05, "mixed, twin blocks": 1.05, **dict.fromkeys(NUMBERS, 1.05)}


def weighted(weights: Array) -> Callable[[Array], Array]:
    return lambda u: np.asarray((weights * u**2).sum(axis=1))


def weights_of(layout: MomentLayout, rng: np.random.Generator) -> list[Array]:
    """Return equal weights, spread ones, and very unequal ones, some of them 0."""
    orbits, size = layout.orbits, layout.dim
    spread, wild = rng.random(size), rng.exponential(size=size) ** 3 * rng.integers(0, 2, size)
    return [np.ones(size), spread[orbits], wild[orbits], np.where(layout.kinds == "square", 1, 0.1)]


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", ALL)
def test_bound_is_above_every_change_and_close(name: str, relation: str) -> None:
    layout, rng = MomentLayout(*ALL[name], neighbors=relation), np.random.default_rng(110)
    for weights in weights_of(layout, rng):
        found = greatest(layout, weighted(weights), rng, 40, 5)
        bound = MomentBall(layout, 0).greatest_square(weights)
        assert bound >= found * (1 - 1e-12)
        assert bound <= found * SLACK.get(name, 1.02) + 1e-12


def test_bound_in_parts_is_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many choices of what changes: a greater bound, at most twice."""
    rng = np.random.default_rng(113)
    mixed = MomentLayout(4, (1,), ((0, 2), (3,)))
    blocks = MomentLayout(7, (), ((0, 1), (2, 3, 4), (5,), (6,)), target=False)
    pairs = [(layout, weights) for layout in (mixed, blocks) for weights in weights_of(layout, rng)]
    for layout, weights in pairs:
        sharp = MomentBall(layout, 0).greatest_square(weights)
        with monkeypatch.context() as patch:
            patch.setattr(greatest_module, "MOST_CHOICES", 0)
            assert sharp <= MomentBall(replace(layout), 0).greatest_square(weights) <= 2 * sharp


def test_a_bound_from_corners_alone_is_caught() -> None:
    """The twin: with great weights on the squares the greatest change is not at a corner."""
    layout, rng = MomentLayout(2, (0, 1)), np.random.default_rng(112)
    weights = np.where(layout.kinds == "square", 1.0, 0.1)
    corners = MomentBall(layout, 0).greatest_square(np.where(weights < 1, 0.1, 0.0))
    assert greatest(layout, weighted(weights), rng, 40, 5) > corners


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("numbers", [0, 2, 6])
def test_rows_of_weights_have_the_bounds_of_each_row(numbers, neighbors):
    """Also where weights are 0, and where more choices of blocks are made than fit at once."""
    blocks, q = [], numbers
    for size in (1, 1, 2, 3, 3, 4, 5, 6):
        blocks, q = [*blocks, tuple(range(q, q + size))], q + size
    layout = MomentLayout(q, range(numbers), blocks, True, True, neighbors)
    ball = MomentBall(layout, level=1)
    count = len(layout.first_of_orbit)
    rows = np.random.default_rng(0).exponential(size=(5, count))
    rows[1] = np.eye(count)[0]
    rows[2, ::2] = 0
    found = ball.greatest_squares_of_orbits(rows)
    one_by_one = [ball.greatest_square_of_orbits(row) for row in rows]
    np.testing.assert_allclose(found, one_by_one, rtol=1e-13)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", [*ALL, *BLOCKS])
def test_the_greatest_sum_is_above_every_change_and_attained(name: str, relation: str) -> None:
    """The search comes within half a percent: a bound 5 % lower is exceeded."""
    layout, rng = (
        MomentLayout(*{**ALL, **BLOCKS}[name], neighbors=relation),
        np.random.default_rng(5),
    )
    found = greatest(layout, lambda u: np.asarray(np.abs(u).sum(axis=1)), rng, 60, 6)
    ball = MomentBall(layout, 0)
    bound = ball.greatest_sum()
    assert 0.995 * bound <= found <= bound
    radius = Sensitivity(ball, neighbors=relation).radius_in(LpBall(layout.dim, p=1))
    assert bound <= radius <= bound * (1 + 1e-11)


def test_too_many_choices_have_no_greatest_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The radius is then that of the box, or follows from the squares."""
    ball = MomentBall(MomentLayout(4, (1,), ((0, 2), (3,))), 0)
    sharp = Sensitivity(ball).radius_in(LpBall(ball.dim, p=1))
    monkeypatch.setattr(greatest_module, "_MOST_SUMS", 0)
    assert ball.greatest_sum() == math.inf
    assert sharp < Sensitivity(ball).radius_in(LpBall(ball.dim, p=1)) < 2 * sharp
