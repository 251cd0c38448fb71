"""Trusted. What one record can change in the sums of a scaling stage with independent noise.

Every sum has noise of one law times a public unit. In these units a number x changes the sum of x
by a |x - x'| and that of its square by b |x^2 - x'^2|, with a and b the inverses of the units. If a
record is added, they change by a |x| and |b x^2 - c|, where c is the multiple of the count that the
released sum leaves out. `sizes_of` returns sizes that weakly majorise all changes together, or for
Gaussian noise sizes whose sum of squares bounds their squared length.

Statement and proof: docs/proofs/coordinate_descent.md, Theorem 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.geometry import LpBall, ProductBall, SquaresBall
from skdp.linear_model._shared.gram import GRAM_BITS
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.trusted.arrays import FloatArray
from skdp.trusted.rounding import ROUND_UP
from skdp.trusted.statement import NotPrivate, records_changed

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

    The order is: the number of records if it is private; the sum of each column; for each group
    of columns the sum of their squares times ``factor``; the number of records with each level.
    If the number of records is private, the sum of factor x^2 - (factor - 1) is released instead
    of that of factor x^2: the count has noise of its own.
    """

    columns: tuple[int, ...]  # of the encoded (x, y), the target last
    n: int | None  # the number of records; None if it is private
    squares: tuple[tuple[int, ...], ...]  # groups of columns
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
        """Number of sums."""
        return self.is_counted + len(self.columns) + len(self.squares) + self.n_levels

    @property
    def n_levels(self) -> int:
        """Number of counts of levels."""
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
        if self.factor != 2 or self.squares != tuple((column,) for column in self.columns):
            raise NotPrivate("the hull of changes is that of each column and twice its square")
        numbers = SquaresBall(len(self.columns), self.is_counted)
        levels = [LpBall(block.stop - block.start + 1, p=1.0) for block in self.blocks]
        ball = ProductBall((numbers, *levels)) if levels else numbers
        return Sensitivity(ball, records_changed(neighbors), neighbors)

    def exact(self, sums: NDArray[Any], squares: NDArray[Any], n: Any) -> NDArray[Any]:
        """Return the sums, (dim,), in units of 2^-40, as Python integers or fractions.

        They are computed from the results of `skdp.linear_model._shared.gram.exact_sums`.
        """
        count = n * 2**GRAM_BITS
        of_groups = [
            self.factor * sum(squares[list(group)]) - len(group) * self._shift * count
            for group in self.squares
        ]
        levels: list[Any] = []
        for block in self.blocks:
            levels += [count - sum(sums[block]), *sums[block]]
        head = [count] if self.is_counted else []
        return np.array([*head, *sums[list(self.columns)], *of_groups, *levels], dtype=object)

    def estimates(self, released: FloatArray, least: float = 1.0) -> Estimates:
        """Return the estimates; a noisy number of records is at least ``least``."""
        n = float(self.n) if self.n is not None else max(least, float(released[0]))
        ends = np.cumsum([self.is_counted, len(self.columns), len(self.squares)])
        _, mean, square, levels = np.split(released / n, ends)
        sizes = np.array([len(group) for group in self.squares])
        return Estimates(n, mean, (square / sizes + self._shift) / self.factor, levels)


# Rows of a ball may be longer than 1 by this for each square root of a number.
_LONGER = 2.0**-20


def sizes_of(sums: ColumnSums, units: FloatArray, gaussian: bool, in_ball: int = 0) -> Shifts:
    """Return sizes and counts that bound the changes by one record, in units of the noise.

    Parameters
    ----------
    sums : ColumnSums
        With one square for each column.
    units : ndarray of shape (dim,), > 0
        The factors on the noise of the sums.
    gaussian : bool
        Whether the noise is Gaussian. Otherwise it may have any even log-concave law.
    in_ball : int
        The rows of the first ``in_ball`` columns have a length of at most 1.
    """
    added, k = sums.is_counted, len(sums.columns)
    head, of_numbers, of_squares, of_levels = np.split(1 / units, [added, added + k, added + 2 * k])
    pairs = list(zip(of_numbers.tolist(), (sums.factor * of_squares).tolist(), strict=True))
    left_out = (sums.factor - 1) / sums.factor if added else 0.0
    if len(sums.squares) != k or (in_ball > 1 and left_out > 0):
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
