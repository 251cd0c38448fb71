"""The type of arrays of floats, and operations on all rows of a block with numbers per column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Number of cells of a wide row: numpy's operations on short rows cost more time for each cell.
_WIDE = 1024
# Number of columns whose squares are summed by one call.
_STRIP = 4096


def wide_rows(block: FloatArray) -> Iterator[FloatArray]:
    """Yield views of all rows of a block, (n, d), with several rows side by side.

    A view with w columns is combined with the first w entries of `repeated` numbers per column.
    """
    n, d = block.shape
    if not (d and block.flags.c_contiguous):
        yield block
        return
    repeats = max(1, _WIDE // d)
    whole = n - n % repeats
    yield block[:whole].reshape(-1, repeats * d)
    yield block[whole:].reshape(1, -1)


def repeated(values: FloatArray) -> FloatArray:
    """Return one number per column, (d,), as often as in a wide row."""
    return np.tile(values, max(1, _WIDE // max(1, len(values))))


def squared_lengths(rows: FloatArray) -> FloatArray:
    """Return |row|_2^2 of each row, (n,), in an order of summation that depends on its length only.

    Beyond 8192 columns numpy may cut the sum where a block of memory ends, which depends on the
    position of the row.
    """
    strips = (rows[:, at : at + _STRIP] for at in range(0, rows.shape[1], _STRIP))
    total = np.zeros(len(rows))
    for strip in strips:
        total += np.einsum("ij,ij->i", strip, strip)
    return total


def size_of_arrays(holder: object) -> int:
    """Return the bytes of the arrays that are attributes of an object.

    It is the ``__sizeof__`` of large objects: the scheduler of a cluster asks for it before it
    sends them to another worker.
    """
    return sum(own.nbytes for own in vars(holder).values() if isinstance(own, np.ndarray))
