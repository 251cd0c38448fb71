"""Rows in memory, or in an array that is mapped to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from skdp._compiled import load_kernels
from skdp.domain import Domain
from skdp.domain.layout import read_once
from skdp.domain.tables import as_table
from skdp.rows.block import Block, Run, block_slices
from skdp.rows.persons import Members
from skdp.rows.threads import Runner, T, compiled_in_order, in_order
from skdp.trusted.arrays import Array, summed


class KeptBlocks:
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
        """Return the sum of ``part(state)`` over the blocks."""
        total: T = summed(compiled_in_order(part, self.states))
        return total

    def map(self, function: Callable[[Any], object]) -> KeptBlocks:
        """Return ``function(state)`` of every block, kept in place of the states."""
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
        The person and the share of each row.

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
        total: T = summed(self._blocks(part, in_order))
        return total

    def keep(
        self,
        build: Callable[[Block], object],
        blocks: int = 1,
        caches: bool = False,
        dtype: type | None = None,
    ) -> KeptBlocks:
        """Keep the states ``build(block)``, each of the rows of so many ``blocks``."""
        return KeptBlocks(list(self._blocks(build, compiled_in_order, blocks, dtype)))

    def _blocks(
        self,
        function: Callable[[Block], T],
        run: Runner,
        blocks: int = 1,
        dtype: type | None = None,
    ) -> Iterator[T]:
        """Yield ``function(block)`` for all blocks, in their order."""
        load_kernels(self.n * self.domain.n_columns)
        domain = self.domain
        # A table of an earlier reading is returned as it is.
        self._runs = [replace(own, table=read_once(domain, own.table)) for own in self._runs]

        def applied(part: tuple[Run, slice]) -> T:
            own, rows = part
            (block,) = own.blocks(domain, [rows], dtype)
            return function(block)

        parts = [
            (own, rows)
            for own in self._runs
            for rows in block_slices(domain, len(own.target), blocks)
        ]
        yield from run(applied, parts)
