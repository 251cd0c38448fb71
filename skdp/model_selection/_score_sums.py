"""Trusted. Sums over held-out records of positions among cells, or of numbers and their squares.

A person adds the mean of its rows, each times its weight, which is at most 1. What a record or
person adds depends on its rows and the model alone. Statement and proof:
``docs/proofs/private_score.md``, Theorem 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.geometry import LpBall
from skdp.linear_model.validation import GRID, Weights
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


def shares_of(persons: NDArray[np.intp], weights: Weights = None) -> NDArray[np.int64]:
    """Return the parts of a person that its rows have, times their weights, (rows,)."""
    shares: NDArray[np.int64] = 2**WHOLE_BITS // np.bincount(persons, minlength=1)[persons]
    if weights is None:
        return shares
    return np.asarray(shares * np.clip(weights, 0, GRID) // GRID)


def totals(persons: NDArray[np.intp], weights: Weights) -> NDArray[np.int64]:
    """Return the sum of the shares of each person."""
    found = np.zeros(len(np.bincount(persons)), np.int64)
    np.add.at(found, persons, shares_of(persons, weights))
    return found


def means(numbers: FloatArray, persons: NDArray[np.intp], weights: Weights = None) -> FloatArray:
    """Return the means of numbers in [-1, 1], (rows, k), of each person; NaN counts as -1."""
    inside = np.clip(np.nan_to_num(numbers, nan=-1.0), -1.0, 1.0)
    own = np.ones(len(persons)) if weights is None else weights
    # Sums of a person are in the order of its rows, whatever other rows there are.
    sums, whole = [np.bincount(persons, x * own) for x in inside.T], np.bincount(persons, own)
    return np.column_stack(sums) / np.where(whole > 0, whole, 1.0)[:, None]


def count(
    release: NoisySum,
    cells: NDArray[np.intp],
    persons: NDArray[np.intp],
    rng: Generator,
    weights: Weights = None,
) -> FloatArray:
    """Publish the number of persons in each cell, to which a row adds its share, (size,)."""
    exact = np.zeros(release.noise.dim, np.int64)
    np.add.at(exact, np.clip(cells, 0, len(exact) - 1), shares_of(persons, weights))
    return release_integers(release, exact.tolist(), -WHOLE_BITS, rng)


def add(
    release: NoisySum,
    numbers: FloatArray,
    squares: FloatArray,
    rng: Generator,
    total: NDArray[np.int64] | None = None,
) -> FloatArray:
    """Publish the sums of x and of (s - 1) / 2 over persons, (2 size,), first n if it is private.

    The numbers x, (persons, size), are in [-1, 1], and the squares s, or means of squares, are in
    [x^2, 1]. Others are clipped. With a ``total`` of shares each person counts as so much of one.
    """
    x = np.clip(np.rint(numbers * 2.0**BITS).astype(np.int64), -(2**BITS), 2**BITS)
    s = np.clip(np.rint(squares * 4.0**BITS).astype(np.int64), x * x, 4**BITS) - 4**BITS
    # As Python integers, which do not overflow.
    own = np.ones((len(x), 1), np.int64).astype(object)
    if total is not None:
        own[:, 0] = np.clip(total, 0, 2**WHOLE_BITS)
    unit = -2 * BITS - 1 - (0 if total is None else WHOLE_BITS)
    exact = [own.sum() << 2 * BITS + 1] if release.change.neighbors == "add_remove" else []
    exact += [number << BITS + 1 for number in (own * x).sum(axis=0).tolist()]
    exact += (own * s).sum(axis=0).tolist()
    return release_integers(release, exact, unit, rng)
