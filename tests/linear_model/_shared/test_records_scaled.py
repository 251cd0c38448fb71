"""Records in a scaling: their numbers, weights and levels; predictors that follow; memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import summed_records
from inner_descent import Blocks, Gradients, RowBound, clipped_residual, logistic_slope, residual
from summed_records import MIXED, ONE, STEP, gradients, kept, moved, one_state, scaled, sums, table

from skdp import Domain
from skdp.rows.memory import MOST_ROWS

# Numbers, weights, levels


@pytest.mark.parametrize("scale", [2.0**-18, 1e-4, 0.03, 0.3, 1.0])
def test_numbers_are_on_the_grid_and_weights_the_greatest_there(scale):
    blocks = Blocks(Domain.unit_box(3), intercept=True)
    X = np.random.default_rng(8).uniform(-1, 1, (500, 3))
    X[0], X[1] = 1.0, 0.0
    found = one_state(blocks, scaled(blocks, 0.25 * scale, scale), X)
    numbers = found.numbers.astype(float)
    assert np.array_equal(np.rint(numbers / STEP), numbers / STEP)
    assert np.abs(numbers - (X.T - 0.25 * scale) / scale).max() <= STEP * (1 / scale + 1)
    greatest = np.abs(numbers).max(axis=0)
    weight = found.weight.astype(float)
    assert np.array_equal(np.rint(weight / STEP), weight / STEP)
    exact = [Fraction(w) * Fraction(g) for w, g in zip(weight, greatest, strict=True)]
    more = [Fraction(w + STEP) * Fraction(g) for w, g in zip(weight, greatest, strict=True)]
    assert max(exact) <= 1
    assert all(m > 1 or w == 1 for m, w in zip(more, weight, strict=True))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("bound", [1e-3, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_row_is_longer_than_its_bound_and_none_is_shortened_without_need(
    bound, intercept, power
):
    """sum_g |a_g w z_g|^power <= bound, in fractions: a column of levels counts as one 1."""
    blocks = Blocks(MIXED, intercept=intercept)
    X, _ = table(300)
    precision = np.random.default_rng(15).uniform(0.1, 2, len(blocks))
    scaling = replace(scaled(blocks, 0.1, 0.4), rows=RowBound(precision, bound, power=power))
    found = one_state(blocks, scaling, X)
    ones = np.ones((1, 300))
    columns = np.vstack([ones[: int(intercept)], found.numbers, ones]).T.tolist()
    for row, w in zip(columns, found.weight.tolist(), strict=True):
        sizes = (abs(Fraction(a) * Fraction(z)) for a, z in zip(precision, row, strict=True))
        total = sum(size**power for size in sizes)
        greatest = max(map(abs, row))
        assert Fraction(w) ** power * total <= bound
        more = Fraction(w + 2 * STEP)
        assert w == 1 or more**power * total > bound or more * Fraction(greatest) > 1


@pytest.mark.parametrize(("size", "dtype"), [(2, "u1"), (256, "u1"), (257, "u2")])
def test_levels_are_kept_in_the_smallest_integers(size, dtype):
    names = [f"l{k}" for k in range(size)]
    blocks = Blocks(Domain({"c": names, "x": (-1, 1)}), intercept=True)
    X = np.array([[name, 0.5] for name in names], dtype=object)
    (levels,) = one_state(blocks, scaled(blocks), X).levels
    assert levels.dtype == np.dtype(dtype)
    assert levels.tolist() == list(range(size))


def test_rows_of_a_ball_are_exact_too():
    blocks = Blocks(Domain.l2_ball(3, 0.7), intercept=False)
    X, y = np.random.default_rng(9).normal(size=(40, 3)), np.ones(40)
    scaling = summed_records.plain(blocks)
    moves = moved(blocks, 10, 5.0)
    alone = [sums(blocks, scaling, X[[i]], y[[i]], logistic_slope, moves) for i in range(40)]
    assert max(abs(m) for share in alone for m in share) <= ONE
    assert (
        np.sum(alone, axis=0).tolist()
        == sums(blocks, scaling, X, y, logistic_slope, moves).tolist()
    )


# Predictors


@pytest.mark.parametrize("clips", [None, np.full(7, 0.5)], ids=["weighted", "clipped"])
def test_predictors_follow_moves_at_the_next_gradient(clips):
    blocks = Blocks(MIXED, intercept=True)
    X, y = table(300)
    seen = []

    def slope(predictor, target):
        seen.append(predictor.copy())
        return clipped_residual(2.0)(predictor, target)

    model = gradients(blocks, scaled(blocks, 0.1, 0.5), X, y, slope, clips)
    moves = moved(blocks, 11) + moved(blocks, 12)
    model.of_block(0)
    for block, change in moves:
        model.move(block, change)
    assert len(seen) == 1
    assert not seen[0].any()
    model.of_block(0)
    theta = np.zeros(blocks.dim)
    for block, change in moves:
        theta[blocks.places[block]] += change
    coef, intercept = blocks.of_columns(theta)
    encoded = MIXED.encode(X)
    encoded[:, blocks.scaled] = (encoded[:, blocks.scaled] - 0.1) / 0.5
    np.testing.assert_allclose(seen[1], encoded @ coef + intercept, atol=1e-5)
    model.of_block(1)
    model.of_all()
    assert np.array_equal(seen[1], seen[2])
    assert np.array_equal(seen[1], seen[3])


@pytest.mark.parametrize("clips", [None, np.full(7, 0.5)], ids=["weighted", "clipped"])
def test_predictors_that_are_lost_are_computed_again_to_the_last_bit(clips):
    """Models that share rows take turns: each turn loses the predictors of the other."""
    blocks = Blocks(MIXED, intercept=True)
    X, y = table(300)
    rows = kept(blocks, scaled(blocks, 0.1, 0.5), X, y)
    slope, moves = clipped_residual(2.0), [moved(blocks, seed) for seed in (11, 12)]
    alone = [
        summed_records.sums_along(
            gradients(blocks, scaled(blocks, 0.1, 0.5), X, y, slope, clips), own
        )
        for own in moves
    ]
    models = [Gradients(rows, blocks, None, slope, clips) for _ in moves]
    found = [[model.of_all()] for model in models]
    for k in range(len(moves[0])):
        for model, own, parts in zip(models, moves, found, strict=True):
            model.move(*own[k])
            parts.append(model.of_block(own[k][0]))
    for model, parts, expected in zip(models, found, alone, strict=True):
        assert np.concatenate([*parts, model.of_all()]).tolist() == expected.tolist()


@pytest.mark.parametrize("clips", [None, np.geomspace(1e-3, 10, 7)], ids=["weighted", "clipped"])
def test_all_gradients_at_once_are_those_of_the_blocks(clips):
    blocks = Blocks(MIXED, intercept=True)
    X, y = table(MOST_ROWS + 100)
    slope = logistic_slope if clips is None else residual
    model = gradients(blocks, scaled(blocks, 0, 0.3), X, y, slope, clips)
    one_by_one = np.concatenate([model.of_block(k) for k in range(len(blocks))])
    assert model.of_all().tolist() == one_by_one.tolist()


ONLY = [((-1, 1), [0.5, -1.0], [0.75]), ([*"xy"], "xy", [-0.5]), ([*"xyz"], "xy", [0.5, -0.5, 0.0])]


@pytest.mark.parametrize(("column", "cells", "shares"), ONLY, ids=["number", "two", "three"])
@pytest.mark.parametrize("intercept", [True, False])
def test_one_kind_of_block_is_enough(column, cells, shares, intercept):
    blocks = Blocks(Domain({"c": column}), intercept=intercept)
    X = np.array([[cell] for cell in cells], dtype=object)
    found = sums(blocks, scaled(blocks), X, np.array([0.0, 1.0]), logistic_slope)[: blocks.dim]
    assert (found / ONE).tolist() == [0] * intercept + shares


# Memory


def test_a_fit_holds_the_columns_and_little_more():
    """Numbers as float32, levels as bytes, beyond that less than 2 doubles per record."""
    rng = np.random.default_rng(14)
    n, d = 400_000, 4
    blocks = Blocks(Domain.unit_box(d), intercept=True)
    X, y = rng.uniform(-1, 1, (n, d)), rng.integers(0, 2, n).astype(float)
    # Twice: what is compiled or imported at first use is not the memory of a fit.
    for _ in range(2):
        tracemalloc.start()
        model = gradients(blocks, scaled(blocks), X, y, logistic_slope)
        model.move(1, np.ones(1))
        model.of_block(2)
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert held < 4 * n * d + 1.6 * 8 * n
    assert peak < 4 * n * d + 2 * 8 * n + 2**22  # and blocks of fixed size
