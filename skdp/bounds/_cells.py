"""Public cells of numbers, and the counts of records in them.

A number is in exactly one cell of a grid, whatever its value is and whatever other records are. So
one record adds 1 to one count of each column, or nothing where it has no number. A person with
several rows adds the mean of what its rows add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray

IntArray = NDArray[np.int64]
# Numbers below limit * 2^-OCTAVES count as zero.
OCTAVES = 40


class Grid(Protocol):
    """A public partition of the real line into ``n`` cells."""

    @property
    def n(self) -> int:
        """Number of cells."""

    def cells(self, values: FloatArray) -> NDArray[np.intp]:
        """Return the position of the cell of each number, (n_values,)."""


@dataclass(frozen=True)
class Magnitudes:
    """A cell around zero, and on each side cells between powers of two up to a limit.

    The cells of positive numbers are open at the lower and closed at the upper end, and those of
    negative numbers are their mirror images. The outermost cells have all numbers beyond.

    Parameters
    ----------
    limit : float > 0, units of the column
    """

    limit: float

    @property
    def n(self) -> int:
        """Number of cells; the cell of zero is in the middle."""
        return 2 * OCTAVES + 1

    @cached_property
    def ends(self) -> FloatArray:
        """Greatest magnitude of zero and of the cells of each side, (OCTAVES + 1,), increasing."""
        top = math.ceil(math.log2(self.limit))
        return np.append(np.ldexp(1.0, np.arange(top - OCTAVES, top)), self.limit)

    def cells(self, values: FloatArray) -> NDArray[np.intp]:
        """Return the position of the cell of each number."""
        octave = np.minimum(np.searchsorted(self.ends, np.abs(values)), OCTAVES)
        return np.asarray(np.where(values < 0, -octave, octave) + OCTAVES)


@dataclass(frozen=True)
class Steps:
    """Cells of equal width between two bounds; the outer ones have all numbers beyond.

    Parameters
    ----------
    lower, upper : float, units of the column
    n : int
        Number of cells.
    """

    lower: float
    upper: float
    n: int

    def end(self, k: int) -> float:
        """Return the end of the first ``k`` cells, from ``lower`` to ``upper``."""
        return self.upper if k == self.n else self.lower + k * ((self.upper - self.lower) / self.n)

    def cells(self, values: FloatArray) -> NDArray[np.intp]:
        """Return the position of the cell of each number."""
        return np.searchsorted([self.end(k) for k in range(1, self.n)], values)


def counts(grid: Grid, values: FloatArray, shares: IntArray) -> IntArray:
    """Return the exact sum of shares in each cell, (n,); NaN, a missing number, is in none."""
    found = np.zeros(grid.n, np.int64)
    np.add.at(found, grid.cells(values), np.where(np.isnan(values), 0, shares))
    return found
