"""Work on blocks by as many threads as BLAS uses."""

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

S = TypeVar("S")
T = TypeVar("T")
Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

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


def one_by_one(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Yield ``function(item)`` of each item, without warnings of numpy.

    This is faster than threads for functions of many short steps, which would wait for each other.
    """
    return (quietly(function, item) for item in items)


def compiled_in_order(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Yield ``function(item)`` of each item, by threads if they use compiled functions."""
    return (one_by_one if kernels() is None else in_order)(function, items)


def in_order(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
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


def quietly(function: Callable[[S], T], item: S) -> T:
    """Return ``function(item)`` without warnings of numpy."""
    with np.errstate(all="ignore"):
        return function(item)


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its BLAS is limited, too)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
