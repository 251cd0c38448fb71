"""Rows that are read in batches, with the memory of a few batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from skdp._compiled import load_kernels
from skdp.domain import Domain
from skdp.domain.tables import as_table
from skdp.rows.block import (
    Block,
    Coder,
    Run,
    block_slices,
    check_weight,
    columns_to_read,
    encoded_runs,
)
from skdp.rows.memory import KeptBlocks
from skdp.rows.persons import Groups
from skdp.rows.tables import Stream
from skdp.rows.threads import T, one_by_one
from skdp.trusted.arrays import summed

# Rows that need at most so many bytes are kept in memory.
MOST_KEPT = 3 * 2**27


class StreamedRows:
    """Rows of a stream; see `skdp.rows.Rows`.

    Parameters
    ----------
    domain : Domain
    stream : Stream
    target : str or None
        Name of the column of the target. None if the batches are pairs of a table and a target.
    coder : Coder
        Encodes the target.
    weight : int or None
        The number of rows, or the sum of their shares, if it is public. Then an error is raised if
        a reading has another one.
    groups : Groups or None
        The column of identifiers, and the shares of rows in their persons.
    """

    def __init__(
        self,
        domain: Domain,
        stream: Stream,
        target: str | None,
        coder: Coder,
        weight: int | None,
        groups: Groups | None = None,
    ) -> None:
        self.domain, self.stream, self.target = domain, stream, target
        self.coder, self.weight, self.groups = coder, weight, groups
        self._is_read = False

    @property
    def n(self) -> int:
        """The number of rows; it may be private."""
        return self.stream.n

    def sum(self, part: Callable[[Block], T], blocks: int = 1, dtype: type | None = None) -> T:
        """Return the sum of ``part(block)`` over all rows."""
        total: T = summed(self._blocks(part, blocks, dtype, at_once=True))
        self._is_read = True
        return total

    def keep(
        self,
        build: Callable[[Block], object],
        blocks: int = 1,
        caches: bool = False,
        dtype: type | None = None,
    ) -> StreamedStates | KeptBlocks:
        """Return the states, built anew at each sum unless they are small or have caches."""
        # About the memory of a row of states.
        row_bytes = 4 * self.domain.n_numbers + 2 * len(self.domain.block_sizes) + 16
        if caches or self.n * row_bytes <= MOST_KEPT:
            kept = KeptBlocks(list(self._blocks(build, blocks, dtype)))
            self._is_read = True
            return kept
        return StreamedStates(self, build, blocks, dtype)

    def _blocks(
        self, function: Callable[[Block], T], blocks: int, dtype: type | None, at_once: bool = False
    ) -> Iterator[T]:
        """Yield ``function(block)`` for all blocks, in their order."""
        load_kernels(self.n * self.domain.n_columns)
        domain = self.domain

        def encoded() -> Iterator[Block]:
            has_rows = False
            for run in self._runs():
                has_rows = True
                slices = block_slices(domain, len(run.target), blocks)
                yield from run.blocks(domain, slices, dtype, at_once)
            if not has_rows:  # sums over no row are zeros
                table = as_table(np.empty((0, domain.n_columns)), domain.names, domain.n_columns)
                run = Run(table, self.coder.encode(np.empty(0, object)))
                yield from run.blocks(domain, [slice(0, 0)], dtype)

        # The threads of the reader work at the same time.
        return one_by_one(function, encoded())

    def _runs(self) -> Iterator[Run]:
        """Yield the rows of batches with their encoded targets."""
        domain, weight, groups = self.domain, 0, self.groups
        # A pair has no column that is a target.
        names = None if self.target is None else self.stream.names
        column = None if groups is None else groups.column
        columns = columns_to_read(domain, names, self.target, column)
        shares = None if groups is None else groups.shares(groups.parts[0])
        for batch in self.stream.batches(columns):
            for run in encoded_runs(domain, batch, self.target, self.coder, shares):
                weight += run.weight
                yield run
        check_weight(weight, self.weight, self._is_read or not self.n)


@dataclass(frozen=True, eq=False)
class StreamedStates:
    """States that are built anew at each sum; see `skdp.rows.Kept`."""

    rows: StreamedRows
    build: Callable[[Block], object]
    blocks: int
    dtype: type | None
    is_read_again: ClassVar[bool] = True
    may_change: ClassVar[bool] = True

    def sum(self, part: Callable[[Any], T]) -> T:
        """Return the sum of ``part(state)`` over the blocks."""
        build = self.build
        return self.rows.sum(lambda block: part(build(block)), self.blocks, self.dtype)

    def map(self, function: Callable[[Any], object]) -> StreamedStates:
        """Return the states that ``function`` makes of these."""
        build = self.build
        return replace(self, build=lambda block: function(build(block)))
