"""Rows of dask collections: partitions are encoded, kept and summed by the workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from skdp._compiled import load_kernels
from skdp.domain import Domain
from skdp.rows.memory import (
    Block,
    Build,
    Encode,
    KeptBlocks,
    T,
    block_slices,
    check_weight,
    encoded_runs,
    quietly,
)
from skdp.rows.persons import Groups, Persons
from skdp.rows.tables import Collection, computed
from skdp.trusted.arrays import joined, summed

Task: TypeAlias = Any  # a delayed object, a future or a client of dask
_States: TypeAlias = list[tuple[object, int]]  # with their weights
_Part: TypeAlias = tuple[T, int, list[int]]  # a sum, its weight, the numbers of its tasks
# Partial sums that are added by one task.
_FAN_IN = 16


class ClusterRows:
    """Rows of a collection; see `skdp.rows.Rows`, and `StreamedRows` for the parameters."""

    def __init__(
        self,
        domain: Domain,
        data: Collection,
        encode: Encode,
        weight: int | None,
        groups: Groups | None = None,
    ) -> None:
        self.domain, self._data, self._weight = domain, data, weight
        tables = data.partitions()
        parts: Sequence[Persons | None]
        parts = [None] * len(tables) if groups is None else groups.parts
        self._partitions = [(*pair, part) for pair, part in zip(tables, parts, strict=True)]
        self._encode, self._groups = encode, groups and replace(groups, parts=[])
        self._is_read = groups is not None and groups.are_weighted

    @property
    def n(self) -> int:
        return self._data.n

    def sum(self, part: Callable[[Block], T]) -> T:
        blocks_of = self._blocks_of(at_once=True)

        # Functions that workers run have no text: dask asks each for it, and a part may hold long
        # lists.
        def partition_sum(X: object, y: object, persons: Persons | None) -> tuple[T, int]:
            weights = []

            def values() -> Iterator[T]:
                for block in blocks_of(X, y, persons):
                    weights.append(block.weight)
                    yield quietly(part, block)

            return summed(values()), sum(weights)

        task = _delayed(partition_sum)
        total: T
        total, weight = _reduced([task(*part) for part in self._partitions])
        check_weight(weight, self._weight, self._is_read or not self.n)
        self._is_read = True
        return total

    def keep(
        self, build: Build, blocks: int = 1, caches: bool = False, dtype: type | None = None
    ) -> KeptBlocks | WorkerStates:
        """Keep the states ``build(block)``, each of so many ``blocks``, on the workers.

        Without a distributed client the workers are threads, and states are kept in memory.
        """
        import dask

        blocks_of = self._blocks_of(blocks=blocks, dtype=dtype)

        def built(X: object, y: object, persons: Persons | None) -> _States:
            own = blocks_of(X, y, persons)
            return [(quietly(build, block), block.weight) for block in own]

        task, client = _delayed(built), _client()
        tasks = [task(*part) for part in self._partitions]
        # Errors in the data are raised here.
        if client is None:
            found = computed(lambda: dask.compute(*tasks, optimize_graph=False))
            pairs = [pair for own in found for pair in own]
            weight = sum(weight for _, weight in pairs)
            states: KeptBlocks | WorkerStates = KeptBlocks([state for state, _ in pairs])
        else:
            kept = list(computed(lambda: dask.persist(*tasks, optimize_graph=False)))
            states = WorkerStates.of(client, kept)
            weight = states.weight()
        check_weight(weight, self._weight, self._is_read or not self.n)
        self._is_read = True
        return states

    def _blocks_of(
        self, blocks: int = 1, dtype: type | None = None, at_once: bool = False
    ) -> Callable[[object, object, Persons | None], Iterator[Block]]:
        """Return the function of a partition to its blocks. It does not hold the collection."""
        domain, encode, groups, target = self.domain, self._encode, self._groups, self._data.target
        cells = self.n * domain.n_columns

        def blocks_of(X: object, y: object, part: Persons | None) -> Iterator[Block]:
            load_kernels(cells)
            batch = (X, y) if target is None else X
            shares = None if groups is None else groups.shares(part)
            for run in encoded_runs(domain, batch, target, encode, shares):
                slices = block_slices(domain, len(run.target), blocks)
                yield from run.blocks(domain, slices, dtype, {} if at_once else None)

        return blocks_of


class WorkerStates:
    """States on the workers of a distributed client, one list for each thread of a worker.

    A sum is one task for each list: with one for each partition, a round of a coordinate descent
    would mainly wait for the scheduler, which computes the states of a lost worker again.
    """

    is_read_again = False
    # A worker may compute a state twice from the same one.
    may_change = False

    def __init__(self, client: Task, lists: list[Task], workers: list[str]) -> None:
        self._client, self._lists, self._workers = client, lists, workers
        # Tasks without workers of their own, of which there are many with one name, are shared out
        # wherever their arguments are: the lists would be sent from worker to worker.
        self._where = {"workers": workers, "allow_other_workers": True}

    @classmethod
    def of(cls, client: Task, kept: list[Task]) -> WorkerStates:
        """Return the states of persisted partitions, joined where they are."""
        from distributed import futures_of, wait

        futures = [future for part in kept for future in futures_of(part)]
        wait(futures)
        who = client.who_has(futures)
        places = [min(who.get(future.key) or [""]) for future in futures]
        threads = [worker for worker, k in sorted(client.nthreads().items()) for _ in range(k)]
        threads = threads or [places[0]]
        any_other = {"pure": False, "allow_other_workers": True}
        lists = [
            client.submit(sum, own, [], workers=[worker], **any_other)
            for worker, own in zip(threads, _shared_out(futures, places, threads), strict=True)
            if own
        ]
        return cls(client, lists, sorted(set(threads)))

    def sum(self, part: Callable[[Any], T]) -> T:
        return self._summed(part)[0]

    def weight(self) -> int:
        """Return the number of rows, or the sum of their shares."""
        return self._summed(lambda state: None)[1]

    def _summed(self, part: Callable[[Any], T]) -> tuple[T, int]:
        def state_sum(states: _States, number: int) -> _Part[T]:
            total = summed(quietly(part, state) for state, _ in states)
            return _numbered((total, sum(weight for _, weight in states)), number)

        places = range(len(self._lists))
        calls = self._client.map(state_sum, self._lists, places, pure=False, **self._where)
        found = computed(lambda: self._client.gather(calls))
        return _checked(_added(found), len(places))

    def map(self, function: Callable[[Any], object]) -> WorkerStates:

        def mapped(states: _States) -> _States:
            return [(quietly(function, state), weight) for state, weight in states]

        lists = self._client.map(mapped, self._lists, pure=False, **self._where)
        return WorkerStates(self._client, lists, self._workers)


def _shared_out(items: list[Task], places: list[str], threads: list[str]) -> list[list[Task]]:
    """Return as many items for each thread, of those at its own worker where it is possible.

    ``threads`` are the workers of all threads.
    """
    most = -(-len(items) // len(threads))
    lists: list[list[Task]] = [[] for _ in threads]
    others = []
    for item, place in zip(items, places, strict=True):
        pairs = zip(threads, lists, strict=True)
        near = [own for worker, own in pairs if worker == place and len(own) < most]
        if near:
            min(near, key=len).append(item)
        else:
            others.append(item)
    for item in others:
        min(lists, key=len).append(item)
    return lists


def _client() -> Task:
    """Return the distributed client that dask uses at present, or None."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _delayed(function: Callable[..., object]) -> Callable[..., Task]:
    """Return a function that makes tasks. The function is sent once and not with every task."""
    import dask

    shared = dask.delayed(function, pure=False)
    call = dask.delayed(_called, pure=False)
    return lambda *arguments: call(shared, *arguments)


def _called(function: Callable[..., T], *arguments: object) -> T:
    return function(*arguments)


def _reduced(tasks: Sequence[Task]) -> tuple[Task, int]:
    """Return the sums of the pairs that tasks return, added in a tree of fixed shape.

    Each task adds its number to the pair. So a result that is lost or counted twice is found.
    """
    import dask

    number, add = dask.delayed(_numbered, pure=False), dask.delayed(_added, pure=False)
    level = [number(task, k) for k, task in enumerate(tasks)]
    while len(level) > _FAN_IN:
        level = [add(level[k : k + _FAN_IN]) for k in range(0, len(level), _FAN_IN)]
    (found,) = computed(lambda: dask.compute(add(level), optimize_graph=False))
    return _checked(found, len(tasks))


def _checked(found: _Part[T], tasks: int) -> tuple[T, int]:
    """Return a pair of sums; raise unless each task has been added once."""
    total, weight, numbers = found
    if sorted(numbers) != list(range(tasks)):
        raise RuntimeError("The scheduler lost or repeated a partition. Nothing is released.")
    return total, weight


def _numbered(pair: tuple[T, int], number: int) -> _Part[T]:
    return (*pair, [number])


def _added(parts: Iterable[_Part[T]]) -> _Part[T]:
    total: Any = None
    weight = 0
    numbers: list[int] = []
    for value, rows, own in parts:
        if value is not None:  # where only the weight is wanted
            total = value if total is None else joined(total, value)
        weight, numbers = weight + rows, numbers + own
    return total, weight, numbers
