"""Sums of statistics over blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

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
