"""Trusted. The exact Gram matrix of the rows (1, x, y), and the sums of a scaling stage.

Each encoded number is rounded to a multiple of 2^-20, which keeps it within its bounds. Rows of a
ball are first divided by a power of two, so that they lie in [-1, 1]. Products are then multiples
of 2^-40. Sums over a block of at most 2^13 rows are exact in floats in any order, and blocks are
added as integers. So the matrix has no rounding error that depends on other records, and it does
not depend on how the rows are cut into blocks.

In a scaling stage with independent noise, every sum has noise of one law times a public unit. In
these units a number x changes the sum of x by a |x - x'| and that of its square by b |x^2 - x'^2|,
with a and b the inverses of the units. If a record is added, they change by a |x| and |b x^2 - c|,
where c is the multiple of the count that the released sum leaves out. `sizes_of` returns sizes that
weakly majorise all changes together, or for Gaussian noise sizes whose sum of squares bounds their
squared length (docs/proofs/coordinate_descent.md, Theorem 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._compiled import NARROW, kernels
from skdp.domain import Domain
from skdp.domain.layout import write_rows
from skdp.domain.splines import units_of
from skdp.geometry import LpBall, ProductBall, SquaresBall
from skdp.geometry.moments import MomentLayout
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.rows import Block, Kept, Rows
from skdp.rows.persons import WHOLE, WHOLE_BITS
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.noise import release_integers
from skdp.trusted.statement import NotPrivate, records_changed

# Fractional bits of an encoded number, and of a product of two.
NUMBER_BITS = 20
GRAM_BITS = 2 * NUMBER_BITS
# Fractional bits of a sum over rows with shares in persons.
SUM_BITS = GRAM_BITS + WHOLE_BITS
# Adding and subtracting this rounds to a multiple of 2^-20, which is the value of its last bit.
ROUNDER = 1.5 * 2.0 ** (52 - NUMBER_BITS)
PARTS = 4  # whole rows fill this part of the cache, because several operations read them

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


def exact_moments(
    rows: Rows, layout: MomentLayout, place: Place | None = None, features: bool = True
) -> NDArray[Any]:
    """Return the entries of `exact_gram` that a layout releases."""
    return exact_statistic(layout, exact_gram(rows, place, features))


def exact_cross(rows: Rows, place: Place | None = None) -> NDArray[Any]:
    """Return the last column of `exact_gram` without its last entry, in a fraction of the time."""
    cross: NDArray[Any] = exact_sum(rows, partial(_cross, rows.domain, place))
    return cross


def exact_both(
    rows: Rows, box: Place, layout: MomentLayout, place: Place
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the products with the target in a box, and the entries of a layout, in one reading.

    The products are the last column of `exact_gram` without its last entry.
    """
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


def exact_sums(rows: Rows) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the sums of the columns of (x, y) and of their squares, in units of 2^-40, and n."""
    sums, squares, count = exact_sum(rows, partial(_sums, rows.domain))
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
    return np.ldexp(sums, GRAM_BITS).astype(np.int64)


def narrow_gram(
    columns: NDArray[Any], last: FloatArray, weight: FloatArray, rounder: float
) -> FloatArray | None:
    """Return the result of `skdp._kernels.gram_of_columns`; None if BLAS is to be used.

    That is without numba, for arrays of rows, for many columns, and without rows.
    """
    compiled, (m, n) = kernels(), columns.shape
    if compiled is None or not n or m > NARROW or not columns.flags.c_contiguous:
        return None
    return np.asarray(compiled.gram_of_columns(columns, last, weight, rounder))


def row_unit(domain: Domain) -> float:
    """Return the divisor of encoded rows: the least power of two >= a ball's radius, or 1."""
    if domain.radius is None:
        return 1.0
    share, exponent = math.frexp(domain.radius)
    return math.ldexp(1.0, exponent - (share == 0.5))


def _gram(domain: Domain, place: Place | None, block: Block) -> NDArray[np.int64]:
    if place is None and not block.levels and row_unit(domain) == 1.0:
        narrow = narrow_gram(block.numbers.T, block.target, np.empty(0), ROUNDER)
        if narrow is not None:
            return in_units(narrow)
    return in_units(reduce(np.add, (rows.T @ rows for rows in whole_rows(domain, block, place))))


def _target_gram(block: Block) -> NDArray[np.int64]:
    y = block.target + ROUNDER - ROUNDER
    rows = np.column_stack([np.ones(len(y)), y])
    return in_units(rows.T @ rows)


def _cross(domain: Domain, place: Place | None, block: Block) -> NDArray[np.int64]:
    parts = (rows[:, -1] @ rows[:, :-1] for rows in whole_rows(domain, block, place))
    return in_units(reduce(np.add, parts))


def _sums(domain: Domain, block: Block) -> tuple[NDArray[np.int64], ...]:
    """Return the sums of columns and of their squares, which are equal for indicators."""
    one, places = 2**GRAM_BITS, [*domain.number_index.tolist(), domain.n_encoded]
    sums, squares = np.zeros((2, domain.n_encoded + 1), dtype=np.int64)
    cells, unit, compiled = block.numbers, row_unit(domain), kernels()
    if compiled is None or not cells.flags.c_contiguous:
        numbers = np.array(sums_of(np.divide(cells, unit, dtype=np.float64)))
    else:
        numbers = in_units(compiled.sums_of_rows(cells, unit, ROUNDER))
    target = sums_of(block.target[:, None].astype(np.float64))
    sums[places], squares[places] = np.hstack([numbers, target])
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
    """Yield rows (1, x, y) of a block on the grid, in parts that share memory in the cache."""
    unit, width = row_unit(domain), domain.n_encoded + 2
    rows = np.empty((0, width))
    for part in block.parts(PARTS * width):  # the first one is the longest
        rows = rows[: len(part)] if len(rows) else np.empty((len(part), width))
        rows[:, 0], rows[:, -1] = 1.0, part.target
        write_rows(domain, part, rows[:, 1:-1])
        if unit != 1.0:
            rows[:, 1:-1] /= unit
        if place is not None:
            place(rows)
        on_grid(rows)
        yield rows


Shifts = tuple[tuple[float, int], ...]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Noisy means and mean squares of columns of the encoded (x, y)."""

    n: float  # the number of records; if it is private, it is noisy and at least 1
    mean: FloatArray  # (columns,)
    square: FloatArray  # (squares,)
    levels: FloatArray  # noisy shares of the levels


@dataclass(frozen=True)
class ColumnSums:
    """Sums over the records of columns of the encoded (x, y), of squares and of level indicators.

    The order is: the number of records if it is private; the sum of each column; the sum of the
    squares of some columns times ``factor``; the number of records with each level.
    If the number of records is private, the sum of factor x^2 - (factor - 1) is released instead
    of that of factor x^2: the count has noise of its own.
    """

    columns: tuple[int, ...]  # of the encoded (x, y), the target last
    n: int | None  # the number of records; None if it is private
    squares: tuple[int, ...]  # columns whose squares are summed
    factor: int = 2  # 1, 2 or 3
    # The indicators of each column of levels that is counted; the first level has none.
    blocks: tuple[slice, ...] = ()

    @property
    def is_counted(self) -> bool:
        """Whether a noisy number of records is released, because it is private."""
        return self.n is None

    @property
    def _shift(self) -> int:
        return int(self.is_counted) * (self.factor - 1)

    @cached_property
    def dim(self) -> int:
        return self.is_counted + len(self.columns) + len(self.squares) + self.n_levels

    @property
    def n_levels(self) -> int:
        return sum(block.stop - block.start + 1 for block in self.blocks)

    def require(self, neighbors: str) -> None:
        """Raise `NotPrivate` unless the count is released if and only if it is private."""
        if self.is_counted != (neighbors == "add_remove"):
            raise NotPrivate("the number of records is released if and only if it is private")

    def change(self, neighbors: str) -> Sensitivity:
        """Return the body of changes by one record, for one square of each column, times 2.

        The columns and their squares have the hull of their changes, and so has the count beside
        them. Of the levels of a column one count rises, and under replace-one another one falls.
        """
        self.require(neighbors)
        if self.factor != 2 or self.squares != self.columns:
            raise NotPrivate("the hull of changes is that of each column and twice its square")
        numbers = SquaresBall(len(self.columns), self.is_counted)
        levels = [LpBall(block.stop - block.start + 1, p=1.0) for block in self.blocks]
        ball = ProductBall((numbers, *levels)) if levels else numbers
        return Sensitivity(ball, records_changed(neighbors), neighbors)

    def exact(self, sums: NDArray[Any], squares: NDArray[Any], n: Any) -> NDArray[Any]:
        """Return the sums, (dim,), in units of 2^-40, from the results of `exact_sums`."""
        count = n * 2**GRAM_BITS
        of_squares = self.factor * squares[list(self.squares)] - self._shift * count
        levels: list[Any] = []
        for block in self.blocks:
            levels += [count - sum(sums[block]), *sums[block]]
        head = [count] if self.is_counted else []
        return np.array([*head, *sums[list(self.columns)], *of_squares, *levels], dtype=object)

    def estimates(self, released: FloatArray, least: float = 1.0) -> Estimates:
        """Return the estimates; a noisy number of records is at least ``least``."""
        n = float(self.n) if self.n is not None else max(least, float(released[0]))
        ends = np.cumsum([self.is_counted, len(self.columns), len(self.squares)])
        _, mean, square, levels = np.split(released / n, ends)
        return Estimates(n, mean, (square + self._shift) / self.factor, levels)


# Rows of a ball may be longer than 1 by this for each square root of a number.
_LONGER = 2.0**-20


def sizes_of(sums: ColumnSums, units: FloatArray, gaussian: bool, in_ball: int = 0) -> Shifts:
    """Return sizes and counts that bound the changes by one record, in units of the noise.

    There is one square for each column, and ``units``, (dim,), are the factors on the noise of the
    sums. If the noise is not Gaussian, it may have any even log-concave law. The rows of the first
    ``in_ball`` columns have a length of at most 1.
    """
    added, k = sums.is_counted, len(sums.columns)
    head, of_numbers, of_squares, of_levels = np.split(1 / units, [added, added + k, added + 2 * k])
    pairs = list(zip(of_numbers.tolist(), (sums.factor * of_squares).tolist(), strict=True))
    left_out = (sums.factor - 1) / sums.factor if added else 0.0
    if sums.squares != sums.columns or (in_ball > 1 and left_out > 0):
        raise NotPrivate("one square of each column is released, and in a ball nothing is left out")
    shifts: list[tuple[float, int]] = []
    if in_ball > 1:
        # The greatest factors bound those of every column.
        a, b = (max(factors) for factors in zip(*pairs[:in_ball], strict=True))
        shifts += _in_ball(in_ball, a, b, added, gaussian)
        pairs = pairs[in_ball:]
    for pair in sorted(set(pairs)):
        sizes = _number(*pair, left_out, added, gaussian)
        shifts += [(size, pairs.count(pair) * count) for size, count in sizes]
    if len(of_levels):  # with another level one count falls and one rises
        shifts.append((float(of_levels.max()), len(sums.blocks) * (1 if added else 2)))
    if added:
        shifts.append((float(head[0]), 1))
    return tuple((size * ROUND_UP, count) for size, count in shifts)


def _number(
    a: float, b: float, left_out: float, added: bool, gaussian: bool
) -> list[tuple[float, int]]:
    """Return the sizes for a number in [-1, 1]."""
    c = b * left_out
    if gaussian:
        return [(math.sqrt(number_square(a, b, left_out, added)), 1)]
    if added:
        greatest = max(a, b - c, c)
        # Below x^2 = c / b the sum is a |x| + c - b x^2, beyond it increases.
        x = min(a / (2 * b), math.sqrt(left_out))
        together = max(a + b - c, a * x + c - b * x**2)
    else:
        greatest = max(2 * a, b)
        x = min(a / (2 * b), 1.0)  # the other number is -x, and this one is 1
        together = a * (1 + x) + b * (1 - x**2)
    return [(greatest, 1), (together - greatest, 1)]


def number_square(a: float, b: float, left_out: float, added: bool) -> float:
    """Return the greatest squared length of the changes of a number in [-1, 1] and its square."""
    if added:  # a convex function of x^2
        c = b * left_out
        return max(c**2, a**2 + (b - c) ** 2)
    # With d = |x - x'| it is at most d^2 (a^2 + b^2 (2 - d)^2), whose only maximum inside is at the
    # lesser root of its derivative, 2 d (a^2 + b^2 (2 - d) (2 - 2 d)).
    d = (3 - math.sqrt(max(0.0, 1 - 2 * (a / b) ** 2))) / 2
    return max(4 * a**2, d**2 * (a**2 + b**2 * (2 - d) ** 2))


def _in_ball(k: int, a: float, b: float, added: bool, gaussian: bool) -> list[tuple[float, int]]:
    """Return the sizes for k numbers whose squares add up to at most 1."""
    longer = (1 + math.sqrt(k) * _LONGER) ** 2
    if gaussian and added:
        return [(math.hypot(a, b) * longer, 1)]
    if gaussian:
        # With U = |x - x'|^2 <= 4 the square is at most a^2 U + b^2 U (4 - U) / 2.
        u = min(4.0, 2 + (a / b) ** 2)
        return [(math.sqrt(u * (a**2 + b**2 * (4 - u) / 2)) * longer, 1)]
    # The m greatest of k changes add up to at most 2 sqrt(m), or sqrt(m). Sizes from one power of
    # two to the next are counted as the first of them.
    greatest = a * longer * (1 if added else 2)
    starts = [2**j for j in range(k.bit_length())]
    shifts = [(greatest * (math.sqrt(m) - math.sqrt(m - 1)), min(2 * m, k + 1) - m) for m in starts]
    return [*shifts, (b * longer, 1 if added else 2)]
