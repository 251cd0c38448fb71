"""Columns of two levels as numbers -1 and 1, whose moments are a linear map of the coded ones.

For an indicator e put z = 2 e - 1. Then z x = 2 e x - x for another column x, and
z z' = 4 e e' - 2 e - 2 e' + 1. The moments of z are those of a number, so the bodies of numbers
apply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skdp._arrays import FloatArray
from skdp.geometry.moments.layout import MomentLayout

Terms = dict[int, float]
Factors = tuple[float, ...]


@dataclass(frozen=True)
class SpinMap:
    """The map from the layout's entries to those with z for every column of two levels.

    Products with indicators of larger blocks stay as they are.
    """

    layout: MomentLayout

    @property
    def log_det(self) -> float:
        """Log determinant; pairs with one such indicator have the factor 2, with two 4."""
        return math.log(2) * sum(self._spins_in(i, j) for i, j in self.layout.pairs.tolist())

    def forward(self, v: FloatArray) -> FloatArray:
        """Return the entries with z, of entries v (..., dim) as coded."""
        return _apply(self._matrices[0], v) if len(self.layout.two_level) else v

    def back(self, v: FloatArray) -> FloatArray:
        """Return the entries as coded, of entries v (..., dim) with z."""
        return _apply(self._matrices[1], v) if len(self.layout.two_level) else v

    @cached_property
    def _matrices(self) -> tuple[Any, Any]:
        pairs = self.layout.pairs.tolist()
        forward = [self._terms(i, j, (4, -2, 1), (2, -1)) for i, j in pairs]
        back = [self._terms(i, j, (0.25, 0.25, 0.25), (0.5, 0.5)) for i, j in pairs]
        return _sparse(forward), _sparse(back)

    def _terms(self, i: int, j: int, both: Factors, one: Factors) -> Terms:
        """Return the factors of the entries whose sum is an entry.

        ``both``: of e e', of e and e', and of the count; ``one``: of e x and of x.
        """
        place, n = self.layout.place, self._spins_in(i, j)
        terms = {int(place[i, j]): 1.0}
        if n == 1:
            other = j if i in self.layout.two_level else i
            terms = {int(place[i, j]): one[0], int(place[0, other]): one[1]}
        elif n == 2:
            own, count = int(place[i, j]), int(place[0, 0])
            linear = {int(place[0, k]): both[1] for k in (i, j)}
            terms = {own: both[0], **linear, count: both[2]}
        terms.pop(-1, None)  # under replace_one the count does not change and is no entry
        return terms

    def _spins_in(self, i: int, j: int) -> int:
        """Return the number of columns of two levels that become z in this entry."""
        n = int(i in self.layout.two_level) + int(j in self.layout.two_level)
        return n if n != 1 or not {i, j} & self._coded else 0

    @cached_property
    def _coded(self) -> set[int]:
        """Columns of larger blocks."""
        return {int(j) for block in self.layout.wide_blocks for j in block}


def _sparse(rows: list[Terms]) -> Any:
    data = [value for row in rows for value in row.values()]
    columns = [at for row in rows for at in row]
    starts = np.cumsum([0, *map(len, rows)])
    return csr_array((data, columns, starts), shape=(len(rows), len(rows)))


def _apply(matrix: Any, v: FloatArray) -> FloatArray:
    flat = v.reshape(-1, v.shape[-1])
    return np.asarray((matrix @ flat.T).T, dtype=float).reshape(v.shape)
