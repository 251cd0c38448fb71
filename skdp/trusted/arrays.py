"""Arrays of the records of a block: operations on all rows, and exact sums over blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Array: TypeAlias = NDArray[Any]  # of numbers of any type, or of labels

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


# Sums over blocks

# Sums of so many integers of at most 2^55 stay below 2^63.
FOLD = 2**7


class Total:
    """The sum of statistics: arrays and numbers, or tuples and lists of them.

    Arrays of int64 with entries of at most 2^55 are added exactly; their sum is an array of Python
    integers. Lists are joined.
    """

    def __init__(self) -> None:
        self._whole: Any = None
        self._part: Any = None
        self._count = 0

    def add(self, value: Any) -> None:
        """Add the statistics of one block."""
        self._part = _copied(value) if self._part is None else _increased(self._part, value)
        self._count += 1
        if self._count == FOLD:
            self._fold()

    def result(self) -> Any:
        """Return the sum of all statistics; None if there are none."""
        if self._part is not None:
            self._fold()
        return self._whole

    def _fold(self) -> None:
        part = _widened(self._part)
        self._whole = part if self._whole is None else _increased(self._whole, part)
        self._part, self._count = None, 0


def summed(values: Iterable[Any]) -> Any:
    """Return the sum of statistics; None if there are none."""
    total = Total()
    for value in values:
        total.add(value)
    return total.result()


def joined(one: Any, other: Any) -> Any:
    """Return the sum of two statistics, without a change of either."""
    if isinstance(one, tuple):
        return tuple(map(joined, one, other))
    return one + other


def _increased(one: Any, other: Any) -> Any:
    """Return the sum of two statistics; arrays and lists of the first are changed in place."""
    if isinstance(one, tuple):
        return tuple(map(_increased, one, other))
    one += other
    return one


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _widened(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    if isinstance(value, np.ndarray) and value.dtype == np.int64:
        return value.astype(object)
    return value
