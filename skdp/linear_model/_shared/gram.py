"""Trusted. The exact Gram matrix of the rows (1, x, y).

Each encoded number is rounded to a multiple of 2^-20, which keeps it within its bounds. Rows of a
ball are first divided by a power of two, so that they lie in [-1, 1]. Products are then multiples
of 2^-40. Sums over a block of at most 2^13 rows are exact in floats in any order, and blocks are
added as integers. So the matrix has no rounding error that depends on other records, and it does
not depend on how the rows are cut into blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._compiled import NARROW, kernels
from skdp.domain import Domain
from skdp.domain.layout import write_rows
from skdp.domain.splines import units_of
from skdp.geometry.moments import MomentLayout
from skdp.rows import Block, Kept, Rows
from skdp.rows.persons import WHOLE, WHOLE_BITS
from skdp.trusted.arrays import FloatArray
from skdp.trusted.noise import release_integers

# Fractional bits of an encoded number, and of a product of two.
NUMBER_BITS = 20
GRAM_BITS = 2 * NUMBER_BITS
# Fractional bits of a sum over rows with shares in persons.
SUM_BITS = GRAM_BITS + WHOLE_BITS
# Adding and subtracting this rounds to a multiple of 2^-20, which is the value of its last bit.
ROUNDER = 1.5 * 2.0 ** (52 - NUMBER_BITS)

_NONE = np.empty(0)

# A function that maps rows (1, x, y) in place, each by itself, to results in [-1, 1].
Place = Callable[[FloatArray], None]


def exact_gram(rows: Rows, place: Place | None = None, features: bool = True) -> NDArray[Any]:
    """Return the Gram matrix of the rows (1, x, y) in units of 2^-40, as `exact_sum` does.

    They have a regression target, and are read once. ``place`` maps them before they are rounded
    to the grid. Without ``features`` the rows are (1, y).
    """
    part = partial(_gram, rows.domain, place) if features else _target_gram
    gram: NDArray[Any] = exact_sum(rows, part)
    return gram


def exact_cross(rows: Rows, place: Place | None = None) -> NDArray[Any]:
    """Return the last column of `exact_gram`, without its last entry."""
    cross: NDArray[Any] = exact_sum(rows, partial(_cross, rows.domain, place))
    return cross


def exact_both(
    rows: Rows, box: Place, layout: MomentLayout, place: Place
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return `exact_cross` in a box, and the entries of a layout, by one reading of the rows."""
    domain = rows.domain

    def both(block: Block) -> tuple[NDArray[np.int64], ...]:
        return _cross(domain, box, block), _gram(domain, place, block)

    cross, gram = exact_sum(rows, both)
    return cross, exact_statistic(layout, gram)


def exact_statistic(layout: MomentLayout, gram: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of an exact Gram matrix that a layout releases, in units of 2^-40."""
    i, j = layout.pairs.T
    # As Python integers: beyond 2^23 rows the sums exceed 63 bits.
    scale, shift = (v.astype(np.int64).astype(object) for v in (layout.scale, layout.shift))
    return np.asarray(scale * gram[i, j] - shift * gram[0, 0])


def exact_sums(
    rows: Rows, change: Callable[[Block], Block] | None = None
) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the sums of the columns of (x, y) and of their squares, in units of 2^-40, and n.

    A function may ``change`` each block before.
    """
    sums, squares, count = exact_sum(rows, partial(_sums, rows.domain, change))
    return sums, squares, count[0]


def exact_sum(source: Rows | Kept, part: Callable[[Any], Any]) -> Any:
    """Return exact sums over rows, each times its share in its person.

    ``part`` maps a block or state, which has the attribute ``share``, to an array of int64 or to
    several. Sums are Python integers if rows have no persons, and otherwise fractions.
    """
    return of_shares(source.sum(shared(part)))


def shared(part: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, int]]:
    """Return ``part`` times the share of the rows, and whether they have a share."""

    def times_share(rows: Any) -> tuple[Any, int]:
        found, share = part(rows), rows.share
        if share is None:
            return found, 0
        return _mapped(lambda own: own.astype(object) * share, found), 1

    return times_share


def of_shares(total: tuple[Any, int]) -> Any:
    """Return the sum of the results of `shared`, in units of whole persons."""
    found, has_shares = total
    return _mapped(lambda own: own * Fraction(1, WHOLE), found) if has_shares else found


def release_exact(release: Any, exact: NDArray[Any], rng: Generator) -> FloatArray:
    """Return exact sums, in units of 2^-40, with the noise of a `NoisySum`."""
    return release_integers(release, in_sum_units(exact).tolist(), -SUM_BITS, rng)


def in_sum_units(exact: NDArray[Any]) -> NDArray[Any]:
    """Return exact sums in units of 2^-40 as Python integers in units of 2^-70."""
    return np.array([int(own * WHOLE) for own in exact.tolist()], dtype=object)


def _mapped(function: Callable[[NDArray[Any]], Any], found: Any) -> Any:
    """Return the results of a function for an array, or for each array of a tuple."""
    return tuple(map(function, found)) if isinstance(found, tuple) else function(found)


def sums_of(numbers: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sums of columns and of their squares in units of 2^-40.

    ``numbers``, at most 2^13 rows with entries in [-1, 1], are first rounded to the grid in place.
    """
    ones = np.ones(len(numbers))
    on_grid(numbers)
    sums = in_units(ones @ numbers)
    np.square(numbers, out=numbers)
    return sums, in_units(ones @ numbers)


def on_grid(rows: FloatArray) -> None:
    """Round numbers to multiples of 2^-20, in place."""
    rows += ROUNDER
    rows -= ROUNDER


def in_units(sums: FloatArray) -> NDArray[np.int64]:
    """Return exact sums in units of 2^-40."""
    return np.ldexp(sums, GRAM_BITS).astype(np.int64)


def narrow_gram(
    columns: NDArray[Any],
    last: FloatArray = _NONE,
    weight: FloatArray = _NONE,
    rounder: float = 0.0,
) -> FloatArray | None:
    """Return the Gram matrix of the rows (1, numbers, last) by a compiled function.

    The arguments are those of `skdp._kernels.gram_of_columns`. None without numba, for arrays of
    rows, and for many columns, which BLAS multiplies faster.
    """
    compiled = kernels()
    if compiled is None or len(columns) > NARROW or not columns.flags.c_contiguous:
        return None
    found: FloatArray = compiled.gram_of_columns(columns, last, weight, rounder)
    return found


def row_unit(domain: Domain) -> float:
    """Return the divisor of encoded rows: the least power of two >= a ball's radius, or 1."""
    if domain.radius is None:
        return 1.0
    share, exponent = math.frexp(domain.radius)
    return math.ldexp(1.0, exponent - (share == 0.5))


def _gram(domain: Domain, place: Place | None, block: Block) -> NDArray[np.int64]:
    if place is None and not block.levels:
        return _gram_of_numbers(domain, block)
    return _added(in_units(rows.T @ rows) for rows in whole_rows(domain, block, place))


def _gram_of_numbers(domain: Domain, block: Block) -> NDArray[np.int64]:
    """Return the Gram matrix of rows without indicators, which need not be put together."""
    width, unit = domain.n_encoded + 2, row_unit(domain)
    if unit == 1.0:
        narrow = narrow_gram(block.numbers.T, block.target, rounder=ROUNDER)
        if narrow is not None:
            return in_units(narrow)
    x = block.numbers + ROUNDER if unit == 1.0 else block.numbers / unit + ROUNDER
    x -= ROUNDER
    ends = np.ones((2, len(block)))  # of each row: 1 and the target
    ends[1] = block.target + ROUNDER - ROUNDER
    gram = np.empty((width, width))
    gram[1:-1, 1:-1] = x.T @ x
    gram[:: width - 1, 1:-1] = ends @ x
    gram[:: width - 1, :: width - 1] = ends @ ends.T
    gram[1:-1, :: width - 1] = gram[:: width - 1, 1:-1].T
    return in_units(gram)


def _target_gram(block: Block) -> NDArray[np.int64]:
    """Return the Gram matrix of the rows (1, y), on the grid."""
    y = block.target + ROUNDER - ROUNDER
    rows = np.column_stack([np.ones(len(y)), y])
    return in_units(rows.T @ rows)


def _cross(domain: Domain, place: Place | None, block: Block) -> NDArray[np.int64]:
    blocks = whole_rows(domain, block, place)
    return _added(in_units(rows[:, -1] @ rows[:, :-1]) for rows in blocks)


def _sums(
    domain: Domain, change: Callable[[Block], Block] | None, block: Block
) -> tuple[NDArray[np.int64], ...]:
    """Return the sums of columns and of their squares, which are equal for indicators."""
    block, one = block if change is None else change(block), 2**GRAM_BITS
    sums, squares = np.zeros((2, domain.n_encoded + 1), dtype=np.int64)
    places = [*domain.number_index.tolist(), domain.n_encoded]
    numbers = np.column_stack([block.numbers / row_unit(domain), block.target])
    sums[places], squares[places] = sums_of(numbers)
    facts = domain.blocks, domain.block_tables, domain.block_positions
    own = [fact for fact in zip(*facts, strict=True) if fact[0].stop > fact[0].start]
    for (columns, table, size), codes in zip(own, block.levels, strict=True):
        counts = np.bincount(codes, minlength=size)
        if table is None:
            sums[columns] = squares[columns] = counts[1:] * one
            continue
        units = units_of(table)
        sums[columns] = counts @ units * (one // 2**NUMBER_BITS)
        squares[columns] = counts @ units**2
    return sums, squares, np.array([len(block)])


def whole_rows(domain: Domain, block: Block, place: Place | None) -> Iterator[FloatArray]:
    """Yield the rows (1, x, y) of a block on the grid, in parts that fit in the cache."""
    unit, width = row_unit(domain), domain.n_encoded + 2
    for part in block.parts(width):
        rows = np.empty((len(part), width))
        rows[:, 0], rows[:, -1] = 1.0, part.target
        write_rows(domain, part, rows[:, 1:-1])
        if unit != 1.0:
            rows[:, 1:-1] /= unit
        if place is not None:
            place(rows)
        on_grid(rows)
        yield rows


def _added(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    first, *others = parts
    for part in others:
        first += part
    return first
