"""The sums that a scaling stage releases, and the means and squares that they estimate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.linear_model._shared.gram import GRAM_BITS


@dataclass(frozen=True, eq=False)
class Estimates:
    """Noisy means and mean squares of columns of the encoded (x, y).

    Attributes
    ----------
    n : float
        The number of records. If it is private, it is noisy and at least 1.
    mean, square : ndarrays of shape (columns,) and (squares,)
    levels : ndarray of shape (levels,)
        Noisy shares of the levels.
    """

    n: float
    mean: FloatArray
    square: FloatArray
    levels: FloatArray


@dataclass(frozen=True)
class ColumnSums:
    """Sums over the records of columns of the encoded (x, y), of squares and of level indicators.

    The order is: the number of records if it is private; the sum of each column; for each group
    of columns the sum of their squares times ``factor``; the number of records with each level.

    Parameters
    ----------
    columns : tuple of int
        Columns of the encoded (x, y), the target last.
    n : int or None
        The number of records; None if it is private.
    squares : tuple of tuples of int
        Groups of columns.
    factor : {1, 2, 3}
        If the number of records is private, the sum of factor x^2 - (factor - 1) is released
        instead of that of factor x^2: the count has noise of its own.
    blocks : tuple of slices
        The indicator columns of each column of levels whose counts are released. The first level
        has no indicator.
    """

    columns: tuple[int, ...]
    n: int | None
    squares: tuple[tuple[int, ...], ...]
    factor: int = 2
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

    def exact(self, sums: NDArray[Any], squares: NDArray[Any], n: Any) -> NDArray[Any]:
        """Return the sums, (dim,), in units of 2^-40, as Python integers or fractions.

        Parameters
        ----------
        sums, squares : ndarray of int or Fraction, shape (n_encoded + 1,)
            As `skdp.linear_model._shared.gram.exact_sums` returns them.
        n : int or Fraction
        """
        count = n * 2**GRAM_BITS
        own = [
            self.factor * sum(squares[list(group)]) - len(group) * self._shift * count
            for group in self.squares
        ]
        levels: list[Any] = []
        for block in self.blocks:
            levels += [count - sum(sums[block]), *sums[block]]
        head = [count] if self.is_counted else []
        return np.array([*head, *sums[list(self.columns)], *own, *levels], dtype=object)

    def estimates(self, released: FloatArray, least: float = 1.0) -> Estimates:
        """Return the estimates; a noisy number of records is at least ``least``."""
        n = float(self.n) if self.n is not None else max(least, float(released[0]))
        ends = np.cumsum([self.is_counted, len(self.columns), len(self.squares)])
        _, mean, square, levels = np.split(released / n, ends)
        sizes = np.array([len(group) for group in self.squares])
        return Estimates(n, mean, (square / sizes + self._shift) / self.factor, levels)
