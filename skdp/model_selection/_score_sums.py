"""Trusted. Sums over held-out records of a position among cells, or of numbers in [-1, 1].

A record adds 1 to one of the cells, or a number to each sum. A person adds the mean of its rows.
What a record adds depends on this record and the model alone. Statement and proof:
``docs/proofs/private_score.md``, Theorem 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.noise import release_integers
from skdp.trusted.statement import records_changed

# A person or a record is 2^30 parts, and numbers are multiples of 2^-20.
WHOLE_BITS, NUMBER_BITS = 30, 20


def change(numbers: bool, dim: int, neighbors: str, p: float) -> Sensitivity:
    """Return the greatest l_p norm of a change of numbers in [-1, 1], or of counts in cells."""
    moved = records_changed(neighbors)
    if numbers:  # a difference of points of a cube
        radius = moved * (1.0 if p == math.inf else dim ** (1 / p))
    else:  # a difference of convex combinations of 0 and unit vectors
        radius = 1.0 if p == math.inf or dim == 1 else moved ** (1 / p)
    return Sensitivity(LpBall(dim, p=p), radius * (ROUND_UP if p == 2 else 1.0), neighbors)


@dataclass(frozen=True, eq=False)
class Units:
    """The records of a table, or its persons: the position and the share of each row, (rows,)."""

    codes: NDArray[np.intp]
    shares: NDArray[np.int64]

    @classmethod
    def of(cls, n: int, codes: NDArray[np.intp] | None) -> Units:
        """Return the units of n rows; the shares of a person add up to at most a whole."""
        codes = np.arange(n) if codes is None else codes
        return cls(codes, 2**WHOLE_BITS // np.bincount(codes, minlength=1)[codes])

    def count(
        self, release: NoisySum, cells: NDArray[np.intp], dim: int, rng: Generator
    ) -> FloatArray:
        """Publish the number of records or persons in each of the cells, (dim,)."""
        exact = np.zeros(dim, np.int64)
        np.add.at(exact, np.clip(cells, 0, dim - 1), self.shares)
        return release_integers(release, exact.tolist(), -WHOLE_BITS, rng)

    def add(self, release: NoisySum, numbers: FloatArray, rng: Generator) -> FloatArray:
        """Publish the sums of numbers, (rows, dim), which are clipped to [-1, 1], (dim,)."""
        # Python's integers do not overflow.
        exact: Any = _on_grid(numbers).astype(object).T @ self.shares.astype(object)
        unit = -WHOLE_BITS - NUMBER_BITS
        return release_integers(release, [int(own) for own in exact], unit, rng)

    def add_squares(self, release: NoisySum, numbers: FloatArray, rng: Generator) -> FloatArray:
        """Publish the sum of the squared means of numbers in [-1, 1], (rows,), as (1,)."""
        means = np.zeros(int(self.codes.max(initial=-1)) + 1, np.int64)
        np.add.at(means, self.codes, _on_grid(numbers) * self.shares)
        share = means * 2.0 ** -(WHOLE_BITS + NUMBER_BITS)
        exact = [int(_on_grid(share * share).sum())]
        return release_integers(release, exact, -NUMBER_BITS, rng)


def _on_grid(numbers: FloatArray) -> NDArray[np.int64]:
    """Return numbers, clipped to [-1, 1], in units of 2^-20; NaN is the greatest."""
    inside = np.clip(np.nan_to_num(numbers, nan=1.0), -1.0, 1.0)
    return np.rint(np.ldexp(inside, NUMBER_BITS)).astype(np.int64)
