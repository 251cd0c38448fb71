"""Trusted. Sums over held-out records of positions among cells, or of numbers and their squares.

A person adds the mean of its rows. What a record or person adds depends on its rows and the model
alone. Statement and proof: ``docs/proofs/private_score.md``, Theorem 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.noise import release_integers
from skdp.trusted.statement import records_changed

# A person is 2^30 parts in cells. Numbers are multiples of 2^-20, and their squares of 2^-40.
WHOLE_BITS, BITS = 30, 20


def change(columns: bool, size: int, neighbors: str) -> Sensitivity:
    """Return the greatest change of ``size`` cells, or of the sums of ``size`` columns, in a norm.

    The sums of columns are those of `add`: under "add_remove" the number of records is one of them.
    """
    moved = records_changed(neighbors)
    if columns:
        ball = LpBall(2 * size + 2 - moved, p=1)
        return Sensitivity(ball, moved * size + 2.0 - moved, neighbors)
    if (size, moved) == (2, 2):  # one cell gets what the other one loses
        return Sensitivity(LpBall(2, p=math.inf), 1.0, neighbors)
    return Sensitivity(LpBall(size, p=1), float(moved), neighbors)


def means(numbers: FloatArray, persons: NDArray[np.intp]) -> FloatArray:
    """Return the means of numbers in [-1, 1], (rows, k), of each person; NaN counts as -1."""
    inside = np.clip(np.nan_to_num(numbers, nan=-1.0), -1.0, 1.0)
    # Sums of a person are in the order of its rows, whatever other rows there are.
    sums = [np.bincount(persons, column) for column in inside.T]
    return np.column_stack(sums) / np.bincount(persons)[:, None]


def count(
    release: NoisySum, cells: NDArray[np.intp], persons: NDArray[np.intp], rng: Generator
) -> FloatArray:
    """Publish the number of persons in each cell, to which a row adds an equal part, (size,)."""
    exact = np.zeros(release.noise.dim, np.int64)
    shares = 2**WHOLE_BITS // np.bincount(persons, minlength=1)[persons]
    np.add.at(exact, np.clip(cells, 0, len(exact) - 1), shares)
    return release_integers(release, exact.tolist(), -WHOLE_BITS, rng)


def add(release: NoisySum, numbers: FloatArray, squares: FloatArray, rng: Generator) -> FloatArray:
    """Publish the sums of x and of (s - 1) / 2 over persons, (2 size,), first n if it is private.

    The numbers x, (persons, size), are in [-1, 1], and the squares s, or means of squares, are in
    [x^2, 1]. Others are clipped.
    """
    x = np.clip(np.rint(numbers * 2.0**BITS).astype(np.int64), -(2**BITS), 2**BITS)
    s = np.clip(np.rint(squares * 4.0**BITS).astype(np.int64), x * x, 4**BITS) - 4**BITS
    exact = [len(x) << 2 * BITS + 1] if release.change.neighbors == "add_remove" else []
    # As Python integers, which do not overflow.
    exact += [number << BITS + 1 for number in x.astype(object).sum(axis=0).tolist()]
    exact += s.astype(object).sum(axis=0).tolist()
    return release_integers(release, exact, -2 * BITS - 1, rng)
