"""Blocks of coordinates, and slopes that are the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_descent import Blocks, residual
from summed_records import SLOPES

from skdp import Domain, Spline

MIXED = Domain(
    {"a": (0, 1), "b": list("uvw"), "c": (-5, 5), "d": ["only"], "e": ["x", "y"]}, target=(-1, 1)
)
DOMAINS = {
    "numbers and levels": MIXED,
    "numbers": Domain.unit_box(3),
    "a ball": Domain.l2_ball(4, 2.0),
    "levels": Domain({"a": list("uvw"), "b": ["x", "y"]}),
    "encoded": MIXED.encoded,
}
EVERY = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
INTERCEPT = pytest.mark.parametrize("intercept", [True, False])
FREE = pytest.mark.parametrize("all_levels", [True, False])


def one_hot(domain, rows):
    """Encoded rows in the order of the coordinates; three levels or more have all indicators."""
    blocks = Blocks(domain, True)
    columns = [np.ones(len(rows)), *(rows[:, j] for j in blocks.scaled)]
    for block in blocks.wide:
        levels = rows[:, block]
        columns += [1 - levels.sum(axis=1), *levels.T]
    return np.array(columns).T


def some_rows(domain, rng, n=30):
    """Encoded rows: numbers in [-1, 1], one level of each column."""
    rows = rng.uniform(-1, 1, (n, domain.n_encoded))
    for block in Blocks(domain, True).level_columns:
        size = block.stop - block.start
        rows[:, block] = np.eye(size + 1)[rng.integers(0, size + 1, n), 1:]
    return rows


@EVERY
@INTERCEPT
@FREE
def test_blocks_cover_all_coordinates_once(domain, intercept, all_levels):
    """In order: the intercept, numbers, two levels, levels; every encoded column is in one."""
    blocks = Blocks(domain, intercept, all_levels)
    at = np.concatenate([np.arange(place.start, place.stop) for place in blocks.places])
    np.testing.assert_array_equal(at, np.arange(blocks.dim))
    assert len(blocks) == len(blocks.places) == len(blocks.sizes)
    assert [place.stop - place.start for place in blocks.places] == list(blocks.sizes)
    in_blocks = [j for block in blocks.wide for j in range(block.start, block.stop)]
    assert sorted([*blocks.scaled, *in_blocks]) == list(range(domain.n_encoded))
    assert blocks.first_levels == intercept + len(blocks.scaled)
    assert blocks.sizes[: blocks.first_levels] == (1,) * blocks.first_levels
    first = [place.start for place in blocks.places[blocks.first_levels :]]
    assert [j for j in range(blocks.dim) if not blocks.free[j]] == ([] if all_levels else first)


def test_blocks_of_a_domain_by_hand():
    """One level has no coefficient and no block; two levels are a number and come after these."""
    blocks = Blocks(MIXED, True)
    assert blocks.numbers == (0, 3)
    assert blocks.level_columns == (slice(1, 3), slice(4, 5))
    assert blocks.scaled == (0, 3, 4)
    assert blocks.wide == (slice(1, 3),)
    assert blocks.sizes == (1, 1, 1, 1, 3)
    assert blocks.dim == 7
    assert blocks.number_places == slice(1, 4)
    assert blocks.free.tolist() == [True, True, True, True, False, True, True]


def test_two_levels_leave_other_columns_their_tables_and_penalties():
    """B-splines are levels, also two of them; what a column has is what it has alone."""
    others = {"s": Spline(0, 1, knots=1, degree=0), "c": list("uvw"), "t": Spline(0, 1, knots=4)}
    alone, blocks = (Blocks(Domain(own), True) for own in (others, {"b": ["x", "y"]} | others))
    assert blocks.is_flag == (True, False, False, False)
    assert blocks.sizes == (1, 1, 2, 3, *alone.sizes[3:])
    for one, other in zip(blocks.whole_tables, alone.whole_tables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert alone.differences
    assert [block - 1 for block in blocks.differences] == [*alone.differences]
    for one, other in zip(blocks.differences.values(), alone.differences.values(), strict=True):
        np.testing.assert_array_equal(one, other)


@EVERY
@INTERCEPT
@FREE
def test_a_model_comes_back_from_its_coordinates(domain, intercept, all_levels):
    """To the last bit: first levels have 0, whether they are free or not."""
    rng = np.random.default_rng(0)
    blocks = Blocks(domain, intercept, all_levels)
    coef, constant = rng.normal(size=domain.n_encoded), 0.7 if intercept else 0.0
    back = blocks.of_columns(blocks.of_model(coef, constant))
    np.testing.assert_array_equal(back[0], coef)
    assert back[1] == constant


@EVERY
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_the_model_of_coordinates_predicts_what_they_do(domain, seed, size):
    """All levels or all but the first: predictions are those of one indicator per level."""
    rng = np.random.default_rng(seed)
    blocks = Blocks(domain, True, all_levels=True)
    theta, rows = size * rng.normal(size=blocks.dim), some_rows(domain, rng)
    coef, intercept = blocks.of_columns(theta)
    wanted = one_hot(domain, rows) @ theta
    np.testing.assert_allclose(rows @ coef + intercept, wanted, atol=1e-12 * size * blocks.dim)


# Slopes


@pytest.mark.parametrize("slope", [*SLOPES.values(), residual], ids=[*SLOPES, "unbounded"])
def test_a_slope_is_the_same_at_every_place_and_length(slope):
    rng = np.random.default_rng(5)
    u, y = rng.normal(0, 5, 200), rng.integers(0, 2, 200).astype(float)
    whole = slope(u, y)
    for start in range(17):
        for stop in range(start + 1, 200, 7):
            assert np.array_equal(slope(u[start:stop], y[start:stop]), whole[start:stop])
            assert np.array_equal(slope(u[stop::-1], y[stop::-1]), whole[stop::-1])
