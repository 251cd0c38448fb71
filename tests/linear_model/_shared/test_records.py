"""What one record adds to a gradient: on the grid, bounded, and nobody else's business."""

from __future__ import annotations

import math
import pickle
import warnings
from fractions import Fraction
from itertools import repeat

import inner_descent
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_descent import SLOPE_BLOCKS, Blocks, Gradients, Moves, logistic_slope, residual
from inner_fits import NUMBER_BITS
from summed_records import (
    MIXED,
    ONE,
    SLOPES,
    STEP,
    gradients,
    kept,
    moved,
    on_grid,
    scaled,
    sums,
    sums_along,
    table,
)

from skdp import Domain
from skdp.rows.memory import MOST_ROWS
from skdp.trusted.arrays import FOLD, summed

LARGEST_MOVE = 2.0**21
# Rows of the state of a descent with few columns.
SLOPE_ROWS = SLOPE_BLOCKS * MOST_ROWS

# One record after the other, in Python's own floats and fractions


def slope_of_one(u, y):
    """The logistic slope as documented, operation by operation."""
    u = min(max(u, -16.0), 16.0)
    odds = 1.0 - u / ((u * (1 / 384) + 0.5) * u + 32.0)
    for _ in range(5):
        odds = odds * odds
    return 1.0 / (odds + 1.0) - y


def shares_of_one(blocks, scaling, row, y, moves):
    """What one record adds to every sum in the order of `sums`: fractions."""
    encoded = blocks.domain.encode(row)[0].tolist()
    pairs = zip(blocks.scaled, scaling.centre.tolist(), scaling.scale.tolist(), strict=True)
    numbers = [float(np.float32(on_grid((on_grid(encoded[j]) - c) / s))) for j, c, s in pairs]
    greatest = max([1.0, *map(abs, numbers)])
    weight = math.floor(Fraction(2**NUMBER_BITS) / Fraction(greatest)) * STEP
    columns = [[1.0]] * blocks.intercept + [[x] for x in numbers]
    for block in blocks.wide:
        indicators = encoded[block]
        columns.append([1.0 - sum(indicators), *indicators])
    value, found = 0.0, []

    def add(parts):
        slope = on_grid(slope_of_one(value, y) * weight)
        found.extend(Fraction(slope) * Fraction(x) for part in parts for x in part)

    add(columns)
    for block, change in moves:
        value += sum(x * c for x, c in zip(columns[block], change.tolist(), strict=True))
        add([columns[block]])
    add(columns)
    return found


@pytest.mark.parametrize(("centre", "scale"), [(0.0, 1.0), (0.3, 0.21), (-1.0, 0.03), (0.7, 9.0)])
def test_sums_are_those_of_fractions_to_the_last_bit(centre, scale):
    """A second truth: no array, no order, no position; the same slope in Python's floats."""
    blocks = Blocks(MIXED, intercept=True)
    scaling, moves = scaled(blocks, centre, scale), moved(blocks, 1, 3.0)
    X, y = table(203)
    expected = np.sum(
        [shares_of_one(blocks, scaling, X[[i]], y[i], moves) for i in range(len(y))], axis=0
    )
    found = sums(blocks, scaling, X, y, logistic_slope, moves)
    assert [Fraction(int(m), ONE) for m in found] == list(expected)


# Properties of every record in every scaling

finite = st.floats(-2, 2, width=64)
scales = st.sampled_from([2.0**-18, 1e-4, 0.03, 0.3, 1.0, 5.0])
bounds = st.sampled_from([None, 1e-9, 0.7, 4.0])
scalings = st.tuples(st.floats(-1, 1), scales, bounds)
sizes = st.sampled_from([0.0, 1e-9, 1.0, 40.0, 2.0**12, LARGEST_MOVE])
cases = {
    "rows": st.lists(
        st.tuples(finite, st.sampled_from("fm?"), finite, st.sampled_from("xyz?")),
        min_size=3,
        max_size=6,
    ),
    "scaling": scalings,
    "seed": st.integers(0, 99),
    "size": sizes,
    "kind": st.sampled_from([*SLOPES, "clipped"]),
}


def one_case(rows, scaling, seed, size, kind):
    """Arguments of `sums`, with targets from the seed."""
    blocks = Blocks(MIXED, intercept=seed % 2 == 0)
    rng = np.random.default_rng(seed)
    X = np.array([*rows], dtype=object)
    y = rng.integers(0, 2, len(X)).astype(float)
    clips = 10.0 ** rng.uniform(-9, 3, blocks.dim) if kind == "clipped" else None
    facts = {
        "slope": SLOPES.get(kind, residual),
        "moves": moved(blocks, seed, size),
        "clips": clips,
    }
    return blocks, scaled(blocks, *scaling), X, y, facts


@settings(max_examples=150, deadline=None)
@given(**cases)
def test_every_share_is_at_most_1_and_shares_add_up(rows, scaling, seed, size, kind):
    """Whoever else is there, before or after: a record adds what it adds alone."""
    blocks, scaling, X, y, facts = one_case(rows, scaling, seed, size, kind)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")  # an overflow would tell something of the data
        alone = [sums(blocks, scaling, X[[i]], y[[i]], **facts) for i in range(len(y))]
        together = sums(blocks, scaling, X, y, **facts)
    assert all(isinstance(m, int) and abs(m) <= ONE for share in alone for m in share)
    assert together.tolist() == np.sum(alone, axis=0).tolist()


@settings(max_examples=120, deadline=None)
@given(**cases)
def test_one_record_moves_a_block_as_declared(rows, scaling, seed, size, kind):
    """Replaced: 2 in one coordinate, or 1 in each of two; added: 1 in one coordinate."""
    blocks, scaling, X, y, facts = one_case(rows, scaling, seed, size, kind)
    before, after, without = (
        sums(blocks, scaling, X[some], y[some], **facts)[: blocks.dim]
        for some in (slice(1, None), slice(0, -1), slice(1, -1))
    )
    for place in blocks.places:
        replaced = np.abs(after - before)[place]
        added = np.abs(before - without)[place]
        assert sum(replaced) <= 2 * ONE
        assert sum(replaced > 0) <= (1 if max(replaced) > ONE else 2)
        assert sum(added) <= ONE
        assert sum(added > 0) <= 1


def change_of(blocks, rows, targets, slope, move, clips=None):
    """How far the sums move, in units of 1, when the first row is replaced by the second."""
    moves = [(0, np.array([move]))]
    tables = np.array([[row] for row in rows], dtype=object)
    first, second = (
        sums(blocks, scaled(blocks), X, np.array([y]), slope, moves, clips)
        for X, y in zip(tables, targets, strict=True)
    )
    return (np.abs(first - second)[-blocks.dim :] / ONE).tolist()


def test_the_bounds_are_reached():
    """So that nothing smaller than 2, or than 1 in each of two levels, could be declared."""
    blocks = Blocks(MIXED, intercept=True)
    rows = [(1.0, "m", 0.5, "x"), (-1.0, "m", 0.5, "z")]
    assert change_of(blocks, rows, [0.0, 0.0], logistic_slope, 99.0) == [0, 2, 0, 0, 1, 0, 1]
    same = [(1.0, "m", 0.5, "x"), (-1.0, "m", 0.5, "x")]
    clips = np.full(blocks.dim, 0.25)
    assert change_of(blocks, same, [1.0, -1.0], residual, 0.0, clips) == [2, 0, 2, 2, 2, 0, 0]


# Where a record stands


@pytest.mark.parametrize("slope", SLOPES.values(), ids=SLOPES)
def test_sums_do_not_depend_on_the_order_or_on_padding(slope):
    """Across blocks and slices of odd lengths, where vector instructions end."""
    blocks = Blocks(Domain.unit_box(2), intercept=True)
    scaling, moves = scaled(blocks, 0.1, 0.2), moved(blocks, 3, 2.0)
    rng = np.random.default_rng(4)
    n = SLOPE_ROWS + MOST_ROWS + 13
    X, y = rng.uniform(-1, 1, (n, 2)), rng.integers(0, 2, n).astype(float)
    whole = sums(blocks, scaling, X, y, slope, moves)
    order = rng.permutation(n)
    assert whole.tolist() == sums(blocks, scaling, X[order], y[order], slope, moves).tolist()
    for cut in (1, 2, 3, 5, 7, 63, MOST_ROWS - 1, MOST_ROWS + 1, SLOPE_ROWS + 1):
        parts = [
            sums(blocks, scaling, X[s], y[s], slope, moves) for s in np.split(np.arange(n), [cut])
        ]
        assert whole.tolist() == (parts[0] + parts[1]).tolist()


def test_a_slope_that_depends_on_its_neighbours_is_caught():
    """The twin: one record's slope depends in the last bits on who stands before it."""
    blocks = Blocks(Domain.unit_box(1), intercept=True)
    rng = np.random.default_rng(6)
    X, y = rng.uniform(-1, 1, (50, 1)), rng.integers(0, 2, 50).astype(float)

    def leaning(predictor, target):
        return logistic_slope(predictor, target) * (1 - 4 * STEP * (np.arange(len(target)) % 2))

    found = [
        sums(blocks, scaled(blocks), X[o], y[o], leaning) for o in (..., slice(None, None, -1))
    ]
    assert found[0].tolist() != found[1].tolist()


def test_without_the_grid_shares_would_not_add_up(monkeypatch):
    """The twin: shares of all bits, whose sums are rounded."""
    monkeypatch.setattr(inner_descent.gradients_module, "on_grid", lambda numbers: None)
    blocks = Blocks(Domain.unit_box(1), intercept=True)
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1, 1, (50, 1)), rng.integers(0, 2, 50).astype(float)
    moves = [(0, np.array([0.3]))]
    whole, first, rest = (
        sums(blocks, scaled(blocks), X[some], y[some], logistic_slope, moves)
        for some in (slice(None), slice(0, 20), slice(20, None))
    )
    assert whole.tolist() != (first + rest).tolist()


def test_sums_of_a_hundred_million_records_do_not_overflow():
    """All at the bound: 2^67 units of 2^-40, beyond any integer of 64 bits."""
    assert SLOPE_ROWS * ONE == 2**55
    part, k = np.array([2**55, -(2**55), 1]), 10**8 // SLOPE_ROWS
    assert summed(repeat(part, k)).tolist() == [k * 2**55, -k * 2**55, k]
    assert k * 2**55 > 2**63 > FOLD * 2**55
    assert part.tolist() == [2**55, -(2**55), 1]


def test_records_that_count_more_than_they_may_are_caught():
    """The twin: one unit of the grid more than the greatest weight."""
    blocks = Blocks(Domain.unit_box(1), intercept=False)
    model = gradients(
        blocks, scaled(blocks, 0.0, 0.3), np.ones((1, 1)), np.zeros(1), logistic_slope
    )
    model.move(0, np.array([50.0]))
    assert ONE - 4 * 2**NUMBER_BITS < model.of_block(0)[0] <= ONE
    (state,) = model.kept.states
    state.weight += np.float32(STEP)
    assert model.of_block(0)[0] > ONE


@pytest.mark.parametrize("clips", [None, np.full(7, 0.25)], ids=["weighted", "clipped"])
def test_positions_of_labels_are_targets_of_0_and_1(clips):
    """For each of three labels: the sums are those of its indicator."""
    blocks = Blocks(MIXED, intercept=True)
    scaling, moves = scaled(blocks, 0.1, 0.3), moved(blocks, 5, 2.0)
    X, _ = table(400)
    labels = np.random.default_rng(8).integers(0, 3, 400).astype(np.uint8)
    same = kept(blocks, scaling, X, labels)
    for label in range(3):
        model = Gradients(same, blocks, label, logistic_slope, clips)
        y = (labels == label).astype(float)
        expected = sums(blocks, scaling, X, y, logistic_slope, moves, clips)
        assert sums_along(model, moves).tolist() == expected.tolist()


@pytest.mark.parametrize("classes", [(), (3,)])
def test_moves_are_sent_as_they_are(classes) -> None:
    rng = np.random.default_rng(0)
    for sizes in ([], [(0, 1)], [(2, 3), (0, 2)]):
        changes = [(block, rng.normal(size=(size, *classes))) for block, size in sizes]
        sent = pickle.loads(pickle.dumps(Moves(7, changes, classes)))
        assert (sent.model, sent.classes) == (7, classes)
        assert [block for block, _ in sent.changes] == [block for block, _ in changes]
        for (_, one), (_, other) in zip(sent.changes, changes, strict=True):
            np.testing.assert_array_equal(one, other)
