"""Sums of statistics over blocks, and work on blocks by as many threads as BLAS uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import cache
from itertools import chain, islice
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from skdp._compiled import kernels

T = TypeVar("T")
Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

# Sums of so many integers of at most 2^55 stay below 2^63.
FOLD = 2**7
# So many blocks for each thread wait for work: results do not pile up.
_AHEAD = 4


class _SharedThreads:
    """The limit of one BLAS thread, which is shared by all fits that run at the same time."""

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limit: Any = None
        self.count = 1

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                pools = [pool for pool in _controller().info() if pool["user_api"] == "blas"]
                self.count = max((pool["num_threads"] for pool in pools), default=1)
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()
                self.count = 1


_SHARED = _SharedThreads()


def shared_threads() -> AbstractContextManager[None]:
    """Let `in_order` use the threads of BLAS, and BLAS one in each of them.

    The results of BLAS then do not depend on the number of threads.
    """
    return _SHARED


def one_by_one(function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
    """Yield ``function(item)`` of each item, without warnings of numpy.

    This is faster than threads for functions of many short steps, which would wait for each other.
    """
    return (quietly(function, item) for item in items)


def compiled_in_order(function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
    """Yield ``function(item)`` of each item, by threads if they use compiled functions."""
    return (one_by_one if kernels() is None else in_order)(function, items)


def in_order(function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
    """Yield ``function(item)`` of each item, in their order.

    Within `shared_threads` the items are shared among threads. numpy does not warn of underflow
    and the like: whether it does would depend on the data.
    """
    threads = _SHARED.count
    items = iter(items)
    first = list(islice(items, 2))
    if threads == 1 or len(first) < 2:
        yield from one_by_one(function, chain(first, items))
        return
    with ThreadPoolExecutor(threads) as pool:
        calls = (
            pool.submit(copy_context().run, quietly, function, item) for item in chain(first, items)
        )
        waiting = deque(islice(calls, threads * _AHEAD))
        try:
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(islice(calls, 1))
        finally:  # an error cancels the calls that wait
            for call in waiting:
                call.cancel()


def quietly(function: Callable[[Any], T], item: Any) -> T:
    """Return ``function(item)`` without warnings of numpy."""
    with np.errstate(all="ignore"):
        return function(item)


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its BLAS is limited, too)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


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
