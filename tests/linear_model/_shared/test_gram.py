"""The Gram matrix of a table, against fractions; and how much memory it takes."""

from fractions import Fraction

import inner_fits
import numpy as np
import pandas as pd
import pytest
from inner_descent import SLOPE_BLOCKS
from inner_fits import GRAM_BITS, NUMBER_BITS, exact_cross, exact_gram, exact_statistic, row_unit

import skdp.rows.memory as memory_module
import skdp.trusted.arrays as arrays_module
from skdp import Domain
from skdp.geometry.moments import MomentLayout
from skdp.rows import MemoryRows

COLUMNS = {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1), "sex": ["f", "m"]}
DOMAIN = Domain(COLUMNS, target=(-2.0, 5.0))


def table(n, seed=0):
    """Rows in the domain and outside of it, and a target."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.uniform(-1, 4, n),
            "job": rng.choice(["x", "y", "z", "?"], n),
            "b": rng.normal(size=n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    return X, DOMAIN.encode_target(rng.normal(1, 3, n))


def on_grid(value):
    """The nearest multiple of 2^-20, of two the even one: a fraction."""
    return Fraction(round(Fraction(value) * 2**NUMBER_BITS), 2**NUMBER_BITS)


def gram_of_fractions(domain, X, target):
    """Sums of products of gridded rows, in units of 2^-40."""
    unit = Fraction(row_unit(domain))
    rows = [
        [Fraction(1), *(on_grid(Fraction(x) / unit) for x in row), on_grid(t)]
        for row, t in zip(domain.encode(X).tolist(), target.tolist(), strict=True)
    ]
    width = range(len(rows[0]))
    sums = [[sum(row[i] * row[j] for row in rows) for j in width] for i in width]
    return [[value * 2**GRAM_BITS for value in line] for line in sums]


def test_it_is_the_gram_matrix_of_the_gridded_rows_to_the_last_bit():
    X, target = table(300)
    expected = gram_of_fractions(DOMAIN, X, target)
    assert exact_gram(MemoryRows(DOMAIN, X, target)).tolist() == expected
    cross = exact_cross(MemoryRows(DOMAIN, X, target)).tolist()
    assert cross == [line[-1] for line in expected[:-1]]


@pytest.mark.parametrize("radius", [1e-150, 1e-5, 0.3, 1.0, 1.5, 64.0, 3e9, 1e150])
def test_rows_in_a_ball_of_any_radius_are_exact_too(radius):
    """They are divided by a power of two of the radius' own size."""
    rng = np.random.default_rng(1)
    domain = Domain.l2_ball(3, radius, target=(-1.0, 1.0))
    X = radius * rng.normal(size=(40, 3))
    target = rng.uniform(-1, 1, 40)
    found = exact_gram(MemoryRows(domain, X, target))
    assert found.tolist() == gram_of_fractions(domain, X, target)
    assert radius <= row_unit(domain) < 2 * radius
    # Half of the rows are at the boundary: numbers have their 20 bits whatever the radius.
    squares = sum(found[j, j] for j in (1, 2, 3)) / 2**GRAM_BITS
    assert 10 * (radius / row_unit(domain)) ** 2 < squares <= 40


def test_values_on_the_grid_and_halfway_are_kept_and_rounded_to_even():
    """-1, 0 and 1 stay; no value leaves [-1, 1]; 1.5 steps become 2, 2.5 steps 2."""
    step = 2.0**-NUMBER_BITS
    values = [-1.0, 0.0, 1.0, -0.0, 1.5 * step, 2.5 * step, 1 - step / 3, -1 + step / 3, 1e-300]
    expected = [-1.0, 0.0, 1.0, 0.0, 2 * step, 2 * step, 1.0, -1.0, 0.0]
    for value, grid in zip(values, expected, strict=True):
        domain = Domain.unit_box(1, target=(-1.0, 1.0))
        found = exact_gram(MemoryRows(domain, np.array([[value]]), np.array([value])))
        assert found[0, 1] == found[0, 2] == grid * 2**GRAM_BITS
        assert found[1, 1] == found[1, 2] == Fraction(grid) ** 2 * 2**GRAM_BITS


def test_neither_the_order_of_rows_nor_the_blocks_change_it(monkeypatch):
    """Sums of floats would: the twin, one product of all rows off the grid, differs."""
    X, target = table(9000, seed=2)
    whole = exact_gram(MemoryRows(DOMAIN, X, target)).tolist()
    order = np.random.default_rng(3).permutation(len(X))
    assert exact_gram(MemoryRows(DOMAIN, X.iloc[order], target[order])).tolist() == whole
    for cells, most, fold in ((1, 2**13, 2**9), (2**20, 2**13, 3), (2**18, 7, 1), (2**18, 997, 2)):
        monkeypatch.setattr(memory_module, "CELLS", cells)
        monkeypatch.setattr(memory_module, "MOST_ROWS", most)
        monkeypatch.setattr(arrays_module, "FOLD", fold)
        assert exact_gram(MemoryRows(DOMAIN, X, target)).tolist() == whole
        cross = exact_cross(MemoryRows(DOMAIN, X, target)).tolist()
        assert cross == [line[-1] for line in whole[:-1]]
        rows = MemoryRows(DOMAIN, X, target)
        sums, squares, n = inner_fits.exact_sums(rows)
        assert n == 9000
        assert sums.tolist() == whole[0][1:]
        assert squares.tolist() == [line[k] for k, line in enumerate(whole)][1:]
    rows = np.column_stack([DOMAIN.encode(X), target])
    shuffled = rows[order]
    assert ((rows.T @ rows) != (shuffled.T @ shuffled)).any()


def shrink(rows):
    """What a record's row becomes, whatever rows are next to it."""
    rows *= 1.7
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.maximum(length, 1.0)[:, None]


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 13, 40])
def test_rows_in_a_ball_and_in_a_frame_do_not_depend_on_their_neighbours(d, monkeypatch):
    """Lengths are sums: alone, in blocks and in any order a row has the same one, to the bit."""
    domain, rng = Domain.l2_ball(d, 1.5, target=(-1.0, 1.0)), np.random.default_rng(d)
    X, target = rng.normal(size=(400, d)), rng.uniform(-1, 1, 400)
    for place in (None, shrink):
        rows = [MemoryRows(domain, X[[k]], target[[k]]) for k in range(400)]
        single = [exact_gram(row, place) for row in rows]
        cross = sum(exact_cross(row, place) for row in rows).tolist()
        order = rng.permutation(400)
        for most in (2**13, 3, 101):
            monkeypatch.setattr(memory_module, "MOST_ROWS", most)
            rows = MemoryRows(domain, X[order], target[order])
            assert exact_gram(rows, place).tolist() == sum(single).tolist()
            assert exact_cross(rows, place).tolist() == cross
        monkeypatch.undo()


def test_the_gram_matrix_of_the_target_alone_is_part_of_the_whole():
    """On the grid as well; the features are not looked at."""
    X, target = table(9000, seed=7)
    whole = exact_gram(MemoryRows(DOMAIN, X, target))
    alone = exact_gram(MemoryRows(DOMAIN, X, target), features=False)
    assert alone.tolist() == whole[np.ix_([0, -1], [0, -1])].tolist()


def test_the_greatest_sums_of_a_block_and_of_a_fold_are_exact(monkeypatch):
    """All entries 1: 2^13 rows are 2^53 units. Folds of states of four such blocks are < 2^63."""
    domain = Domain.unit_box(1, target=(-1.0, 1.0))
    assert memory_module.MOST_ROWS * 2**GRAM_BITS <= 2**53
    assert arrays_module.FOLD * SLOPE_BLOCKS * memory_module.MOST_ROWS * 2**GRAM_BITS < 2**63
    monkeypatch.setattr(arrays_module, "FOLD", 4)
    n = 9 * memory_module.MOST_ROWS + 5
    rows = MemoryRows(domain, np.ones((n, 1)), np.ones(n))
    for found in (exact_gram(rows), exact_gram(rows, features=False), exact_cross(rows)):
        assert (found == n * 2**GRAM_BITS).all()
        assert all(type(value) is int for value in found.ravel())


def test_one_row_and_no_columns():
    """A column of one level leaves the ones and the target."""
    domain = Domain({"a": ["x"]}, target=(0.0, 1.0))
    found = exact_gram(MemoryRows(domain, np.array([["x"]], dtype=object), np.array([0.5])))
    assert found.tolist() == [[2**40, 2**39], [2**39, 2**38]]


@pytest.mark.parametrize("n", [2**23, 2**31])
def test_statistics_of_many_rows_exceed_63_bits(n):
    """All entries of n rows of ones."""
    layout = MomentLayout.of(Domain.unit_box(2), target_square=True, neighbors="replace_one")
    gram = np.full((4, 4), n * 2**GRAM_BITS, dtype=object)
    found = exact_statistic(layout, gram)
    expected = (layout.scale - layout.shift).astype(int) * n
    assert found.tolist() == [int(v) * 2**GRAM_BITS for v in expected]
