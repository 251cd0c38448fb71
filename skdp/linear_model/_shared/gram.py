"""The exact Gram matrix of the rows (1, x, y).

Each encoded number is rounded to a multiple of 2^-20, which keeps it within its bounds. Rows of a
ball are first divided by a power of two, so that they lie in [-1, 1]. Products are then multiples
of 2^-40. Sums over a block of at most 2^13 rows are exact in floats in any order, and blocks are
added as integers. So the matrix has no rounding error that depends on other records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.domain.tables import as_table
from skdp.geometry.moments import MomentLayout

# Fractional bits of an encoded number, and of a product of two.
NUMBER_BITS = 20
GRAM_BITS = 2 * NUMBER_BITS
# Up to 2^40 * 2^13 floats hold all sums exactly.
MOST_ROWS = 2**13
# Adding and subtracting this rounds to a multiple of 2^-20, which is the value of its last bit.
ROUNDER = 1.5 * 2.0 ** (52 - NUMBER_BITS)
# A block and its matrix fit in the cache. Sums of FOLD blocks stay below 2^63.
CELLS = 2**18
FOLD = 2**9


def exact_gram(
    domain: Domain, X: Any, target: FloatArray, place: Callable[[FloatArray], None] | None = None
) -> NDArray[Any]:
    """Return the Gram matrix of the rows (1, x, y) in units of 2^-40, as Python integers.

    Parameters
    ----------
    X : DataFrame, array-like or table of `skdp.domain.tables`, with n rows
        Read once, in blocks of rows: an array in a file may be larger than the memory.
    target : ndarray of shape (n,), entries in [-1, 1]
    place : callable or None
        A function that maps blocks of rows (1, x, y) in place, before they are rounded to the
        grid. It maps each row by itself, and its results are in [-1, 1].

    Returns
    -------
    ndarray of shape (n_encoded + 2, n_encoded + 2) of int
    """
    width = domain.n_encoded + 2
    total: NDArray[Any] = np.zeros((width, width), dtype=object)
    part = np.zeros((width, width), dtype=np.int64)
    for k, rows in enumerate(blocks_of(domain, X, target, place), start=1):
        part += np.asarray(np.ldexp(rows.T @ rows, GRAM_BITS), dtype=np.int64)
        if k % FOLD == 0:
            total, part = total + part, np.zeros_like(part)
    folded: NDArray[Any] = total + part
    return folded


def exact_statistic(layout: MomentLayout, gram: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of an exact Gram matrix that a layout releases, in units of 2^-40."""
    i, j = layout.pairs.T
    scale, shift = (v.astype(np.int64) for v in (layout.scale, layout.shift))
    return np.asarray(scale * gram[i, j] - shift * gram[0, 0])


def exact_sums(
    domain: Domain, X: Any, target: FloatArray
) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Return the sums of the columns of (x, y) and of their squares, in units of 2^-40, and n."""
    rows = (rows[:, 1:] for rows in blocks_of(domain, X, target))
    return *sums_of(rows, domain.n_encoded + 1), len(target)


def sums_of(blocks: Iterable[FloatArray], width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sums of columns and of their squares in units of 2^-40, as Python integers.

    Parameters
    ----------
    blocks : iterable of ndarray of shape (up to 2^13, width), entries in [-1, 1]
        Entries are first rounded to the grid.
    width : int
    """
    sums: NDArray[Any] = np.zeros(width, dtype=object)
    squares = sums.copy()
    for rows in blocks:
        seen, ones = rows + ROUNDER, np.ones(len(rows))
        seen -= ROUNDER
        sums += np.asarray(np.ldexp(ones @ seen, GRAM_BITS), dtype=np.int64)
        np.square(seen, out=seen)
        squares += np.asarray(np.ldexp(ones @ seen, GRAM_BITS), dtype=np.int64)
    return sums, squares


def row_unit(domain: Domain) -> float:
    """Return the divisor of encoded rows: the least power of two >= a ball's radius, or 1."""
    if domain.radius is None:
        return 1.0
    share, exponent = math.frexp(domain.radius)
    return math.ldexp(1.0, exponent - (share == 0.5))


def block_rows(width: int) -> int:
    """Return the number of rows of a block, whose sums are exact, and which fits in the cache."""
    return min(MOST_ROWS, max(256, CELLS // width))


def blocks_of(
    domain: Domain, X: Any, target: FloatArray, place: Callable[[FloatArray], None] | None = None
) -> Iterator[FloatArray]:
    """Yield blocks of rows (1, x, y) on the grid. All blocks use the same memory."""
    table = as_table(X, domain.names, domain.n_columns)
    q, n, unit = domain.n_encoded, len(target), row_unit(domain)
    step = block_rows(q + 2)
    buffer = np.empty((min(step, n), q + 2))
    for start in range(0, n, step):
        stop = min(n, start + step)
        rows = buffer[: stop - start]
        domain.encode(table.part(start, stop), out=rows[:, 1:-1])
        if unit != 1.0:
            rows[:, 1:-1] /= unit
        rows[:, 0], rows[:, -1] = 1.0, target[start:stop]
        if place is not None:
            place(rows)
        rows += ROUNDER
        rows -= ROUNDER
        yield rows
