"""Rows in memory: blocks of encoded rows, the threads that work on them, and `Rows`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice, repeat
from threading import Lock, get_ident
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from skdp._compiled import kernels, load_kernels
from skdp.domain import Domain
from skdp.domain.layout import encode_compactly, read_once, rooms_of
from skdp.domain.tables import EncodedRows, Frame, Table, as_table
from skdp.rows.persons import Members, Shares, runs_of
from skdp.trusted.arrays import Array, FloatArray, summed
from skdp.trusted.checks import fail

# Sums over so many multiples of 2^-40 in [-1, 1] are exact in floats, in any order.
MOST_ROWS = 2**13
MOST_ROOM = 2**27  # bytes of rows that are kept in one array: huge pages may run out beyond
# So many floats stay in the processor's cache.
CELLS = 2**18


@dataclass(frozen=True, eq=False)
class Block:
    """Encoded rows that lie next to each other.

    Attributes
    ----------
    numbers : ndarray of shape (n, n_numbers)
        The numbers as the domain encodes them, as floats or in the type that was asked for.
    levels : tuple of unsigned integer arrays of shape (n,)
        Position of each row's level, for each column of levels that has two levels or more, and
        whether a number is missing, where it has an indicator.
    target : ndarray of shape (n,)
        The encoded target in [-1, 1], or the position of each label.
    share : int or None
        The share of each of the rows in its record, in parts of `persons.WHOLE`. None if rows
        have neither persons nor weights.
    person : ndarray of int, shape (n,), or None
        The position of each row's person, if rows have persons; private.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.rows import Block
    >>> sex = np.array([0, 1, 1], dtype=np.uint8)
    >>> block = Block(np.array([[0.5], [-0.5], [0.0]]), (sex,), np.array([1, 0, 1]))
    >>> len(block)
    3
    """

    numbers: FloatArray
    levels: tuple[Array, ...]
    target: Array
    share: int | None = None
    person: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def weight(self) -> int:
        """The number of rows, or the sum of their shares."""
        return weight_of(len(self), self.share)

    def parts(self, width: int) -> Iterator[Block]:
        """Yield parts of the block of which ``width`` floats for each row stay in the cache."""
        step = block_rows(width)
        if step >= len(self):
            yield self
            return
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            levels = tuple(codes[rows] for codes in self.levels)
            person = None if self.person is None else self.person[rows]
            yield Block(self.numbers[rows], levels, self.target[rows], self.share, person)


def block_slices(domain: Domain, n: int, blocks: int = 1) -> Iterator[slice]:
    """Yield the rows of n that belong together, those of so many ``blocks``."""
    step = blocks * block_rows(_width(domain))
    for start in range(0, max(n, 1), step):  # sums over no row are zeros
        yield slice(start, min(start + step, n))


Rooms: TypeAlias = dict[int, EncodedRows] | None  # by thread
Build: TypeAlias = Callable[[Block], object]  # makes what is kept of a block


@dataclass(frozen=True, eq=False)
class Run:
    """Rows of a table with their encoded targets and persons; all have the same share, or None."""

    table: Table
    target: Array
    share: int | None = None
    person: NDArray[np.intp] | None = None

    @classmethod
    def all_of(cls, table: Table, target: Array, members: Members | None) -> Iterator[Run]:
        """Yield runs of all rows of a table that have a share; one without rows if none has."""
        if members is None:
            yield cls(table, target)
            return
        order, runs = runs_of(members.shares)
        table, target = table.taken(order), target[order]
        person = None if members.codes is None else members.codes[order]
        for start, stop, share in runs or [(0, 0, 0)]:
            rows = slice(start, stop)
            own = None if person is None else person[rows]
            yield cls(table.taken(rows), target[rows], share, own)

    @property
    def weight(self) -> int:
        """The number of rows, or the sum of their shares."""
        return weight_of(len(self.target), self.share)

    def blocks(
        self, domain: Domain, rows: Iterable[slice], dtype: type | None = None, rooms: Rooms = None
    ) -> Iterator[Block]:
        """Yield encoded rows with their encoded targets, one block for each slice.

        If a ``dtype`` is given, the numbers are those of `encode_compactly` with it. If each block
        is used at once, and then no more, those of a thread have the same memory, in ``rooms``: new
        memory takes the system as long as it takes to encode the numbers.
        """
        for own in rows:
            room = None if rooms is None else rooms.get(get_ident())
            found = encode_compactly(domain, self.table.taken(own), dtype, room)
            if rooms is not None and not isinstance(self.table, EncodedRows):
                rooms[get_ident()] = found
            person = None if self.person is None else self.person[own]
            yield Block(found.numbers, found.levels, self.target[own], self.share, person)


# Encodes a target, each entry by itself: to numbers in [-1, 1], or to positions of labels.
Encode: TypeAlias = Callable[[object], Array]


def columns_to_read(
    domain: Domain | None, names: list[str] | None, *others: str | None
) -> list[str] | None:
    """Return the columns of the domain and the others, such as the target; None for all columns.

    All are read if the domain or the table has no names.
    """
    if domain is None or domain.names is None or names is None:
        return None
    return [*domain.names, *(name for name in others if name is not None)]


def encoded_runs(
    domain: Domain, batch: Frame, target: str | None, encode: Encode, shares: Shares | None = None
) -> Iterator[Run]:
    """Yield the rows of a batch with their encoded targets, those of equal shares together.

    A batch has the target as a column, or is a pair of a table and a target if ``target`` is None.
    ``shares`` are those of the reading that this batch is a part of.
    """
    if target is not None:
        batch = batch.drop(columns=[target]), batch[target]
    elif not isinstance(batch, tuple):
        rule = "be the name of a column, unless X returns pairs of a table and a target"
        raise fail("target", rule, remedy='Use fit(X, target="name").')
    X, y = batch
    members, X = (None, X) if shares is None else shares.taken(X)
    table = as_table(X, domain.names, domain.n_columns)
    encoded = encode(y)
    if len(encoded) != table.n_rows:
        raise fail("y", "have as many entries as X has rows, in each batch or partition")
    yield from Run.all_of(table, encoded, members)


def weight_of(n: int, share: int | None) -> int:
    """Return the number of n rows, or the sum of their shares, if they have them."""
    return n if share is None else n * share


def check_weight(found: int, weight: int | None, may_be_empty: bool) -> None:
    """Raise an error if a reading has not the weight that is public, or no rows."""
    if weight not in (None, found) or not (found or may_be_empty):
        remedy = "Other code may have changed the source. Nothing of this reading is released."
        raise fail("X", "have the same rows at each reading", remedy=remedy)


def most_blocks(domain: Domain) -> int:
    """Return the greatest number of blocks that have at most MOST_ROWS rows in all."""
    return MOST_ROWS // block_rows(_width(domain))


def _width(domain: Domain) -> int:
    return domain.n_numbers + len(domain.block_sizes) + 1


def block_rows(width: int) -> int:
    """Return the number of rows of a block with ``width`` floats for each row."""
    return min(MOST_ROWS, max(256, CELLS // max(1, width)))


S = TypeVar("S")
T = TypeVar("T")
Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

# So many blocks for each thread wait for work: results do not pile up.
_AHEAD = 4


class _SharedThreads:
    """The limit of one BLAS thread, which is shared by all fits that run at the same time.

    Within it `in_order` uses the threads of BLAS, and BLAS one in each of them. The results of BLAS
    then do not depend on the number of threads.
    """

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limit: Any = None
        self.count = 1

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self.count = max((own["num_threads"] for own in _blas().info()), default=1)
                self._limit = _blas().limit(limits=1)
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()
                self.count = 1


SHARED_THREADS = _SharedThreads()


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

    Within `SHARED_THREADS` the items are shared among threads. numpy does not warn of underflow
    and the like: whether it does would depend on the data.
    """
    threads = SHARED_THREADS.count
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
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  (its BLAS is limited, too)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


class Kept(Protocol):
    """What was kept of blocks of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain
    >>> from skdp.rows import Kept, MemoryRows
    >>> domain = Domain({"age": (20, 100)}, target=(0, 10))
    >>> rows = MemoryRows(domain, [[40], [60]], np.array([0.0, 1.0]))
    >>> kept: Kept = rows.keep(lambda block: block.target.copy())
    >>> kept.sum(lambda target: float(target.sum()))
    1.0
    """

    @property
    def is_read_again(self) -> bool:
        """Whether each sum reads the rows from their source, which may take long."""

    @property
    def may_change(self) -> bool:
        """Whether a function of `map` may change a state: it is called once for each."""

    def sum(self, part: Callable[[Any], T]) -> T:
        """Return the sum of ``part(state)`` over the blocks."""

    def map(self, function: Callable[[Any], object]) -> Kept:
        """Return ``function(state)`` of every block, kept in place of the states."""


class Rows(Protocol):
    """Encoded rows of a domain with their targets, in blocks.

    Statistics are arrays, numbers, or tuples or lists of them. Arrays of int64 are added exactly,
    as integers of any size, if no entry exceeds 2^55. Floats are added in an order that is fixed
    for the same rows, in the same blocks. Lists are joined. Functions must not change their
    argument, and they may run in other threads or processes.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain
    >>> from skdp.rows import MemoryRows, Rows
    >>> domain = Domain({"age": (20, 100)}, target=(0, 10))
    >>> rows: Rows = MemoryRows(domain, [[40], [80]], np.array([0.0, 1.0]))
    >>> rows.sum(lambda block: float(block.numbers.sum()))
    0.0
    """

    @property
    def domain(self) -> Domain:
        """The domain of the rows."""

    @property
    def n(self) -> int:
        """The number of rows; it may be private."""

    def sum(self, part: Callable[[Block], T]) -> T:
        """Return the sum of ``part(block)`` over all rows, in blocks of at most 2^13 rows.

        A result must not keep arrays of its block, whose memory may be used again.
        """

    def keep(
        self, build: Build, blocks: int = 1, caches: bool = False, dtype: type | None = None
    ) -> Kept:
        """Return the states ``build(block)``, each of the rows of so many ``blocks``.

        If a ``dtype`` is given, encoded numbers are rounded to it. Then the entries of each column
        lie next to each other, and states may keep the array.
        The states are kept where the blocks are. Where rows are streamed, states are built anew at
        each sum, unless they have ``caches``: then they are kept in memory.
        """


class KeptBlocks(Kept):
    """States of blocks in memory.

    Parameters
    ----------
    states : list
        It is changed by `map`, which replaces the states one by one and so saves memory.

    Examples
    --------
    >>> from skdp.rows import KeptBlocks
    >>> kept = KeptBlocks([1.0, 2.0])
    >>> kept.map(lambda state: 10 * state).sum(lambda state: state)
    30.0
    """

    is_read_again = False
    may_change = True

    def __init__(self, states: list[Any]) -> None:
        self.states = states

    def sum(self, part: Callable[[Any], T]) -> T:
        total: T = summed(compiled_in_order(part, self.states))
        return total

    def map(self, function: Callable[[Any], object]) -> KeptBlocks:
        for k, state in enumerate(compiled_in_order(function, self.states)):
            self.states[k] = state
        return self


class MemoryRows:
    """Rows of an array or a DataFrame; see `skdp.rows.Rows`.

    Parameters
    ----------
    domain : Domain
    X : DataFrame, array-like or table of `skdp.domain.tables`, with n rows
    target : ndarray of shape (n,)
        Encoded numbers in [-1, 1], or positions of labels.
    members : Members, optional
        The person of each row, if rows have persons, and its share.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain
    >>> from skdp.rows import MemoryRows
    >>> domain = Domain({"age": (20, 100)}, target=(0, 10))
    >>> rows = MemoryRows(domain, [[40], [60]], np.array([0.0, 1.0]))
    >>> rows.n, rows.sum(lambda block: float(block.numbers.sum()))
    (2, -0.5)
    """

    def __init__(
        self, domain: Domain, X: object, target: Array, members: Members | None = None
    ) -> None:
        self.domain = domain
        table = as_table(X, domain.names, domain.n_columns)
        self._runs = list(Run.all_of(table, target, members))

    @property
    def n(self) -> int:
        """The number of rows; it may be private."""
        return sum(len(run.target) for run in self._runs)

    def sum(self, part: Callable[[Block], T]) -> T:
        """Return the sum of ``part(block)`` over all rows."""
        total: T = summed(self._blocks(part, in_order, 1, None, {}))
        return total

    def keep(
        self, build: Build, blocks: int = 1, caches: bool = False, dtype: type | None = None
    ) -> KeptBlocks:
        """Keep the states ``build(block)``, each of the rows of so many ``blocks``."""
        return KeptBlocks(list(self._blocks(build, compiled_in_order, blocks, dtype, None)))

    def _blocks(
        self, use: Callable[[Block], T], run: Runner, blocks: int, dtype: type | None, rooms: Rooms
    ) -> Iterator[T]:
        load_kernels(self.n * self.domain.n_columns)
        domain = self.domain
        # A table of an earlier reading is returned as it is.
        self._runs = [replace(own, table=read_once(domain, own.table)) for own in self._runs]

        def applied(part: tuple[tuple[Run, slice], EncodedRows | None]) -> T:
            (own, rows), room = part
            mine = rooms if room is None else {get_ident(): room}
            (block,) = own.blocks(domain, [rows], dtype, mine)
            return use(block)

        sizes = [(own, len(own.target)) for own in self._runs]
        parts = [(own, rows) for own, n in sizes for rows in block_slices(domain, n, blocks)]
        counts = [rows.stop - rows.start for _, rows in parts]
        size = sum(counts) * domain.n_numbers * np.dtype(dtype).itemsize
        kept = rooms_of(domain, counts, dtype) if dtype and size <= MOST_ROOM else repeat(None)
        yield from run(applied, zip(parts, kept, strict=False))
