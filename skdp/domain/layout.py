"""Positions of declared and encoded columns, and the encoding of blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.domain._projections import Ball, Box, keep_largest_indicator
from skdp.domain.columns import Column, Levels, Number
from skdp.domain.tables import KeptTable, Table, as_table, read_levels, read_numbers


@dataclass(frozen=True)
class Piece:
    """Neighbouring columns that are encoded by one call per block of rows."""

    read: slice
    write: slice
    step: Levels | Callable[[FloatArray], None]

    def encode(
        self, table: Table, rows: slice, out: FloatArray, label: Callable[[int], str]
    ) -> None:
        """Write the encoded cells of ``rows`` into ``out``, a view of the same rows."""
        cells = out[:, self.write]
        if isinstance(self.step, Levels):
            positions = read_levels(table, rows, self.read.start, self.step, label)
            self.step.encode(positions, cells)
        else:
            # Access to a few columns of a wider array is slow: it is done once and not five times.
            work = cells if cells.flags.c_contiguous else np.empty(cells.shape)
            read_numbers(table, rows, self.read, work, label)
            self.step(work)
            if work is not cells:
                cells[...] = work

    def keep(self, table: Table, rows: slice, out: FloatArray, label: Callable[[int], str]) -> None:
        """Write finite numbers and positions of levels into ``out``, without encoding."""
        if isinstance(self.step, Levels):
            column = self.read.start
            out[:, column] = read_levels(table, rows, column, self.step, label)
        else:
            read_numbers(table, rows, self.read, out[:, self.read], label)


@dataclass(frozen=True)
class Layout:
    """Positions of declared columns and of their encoded columns, in the same order."""

    columns: tuple[Column, ...]

    @cached_property
    def placed(self) -> list[tuple[Column, slice, slice]]:
        """Each declared column with the columns that it reads and those that it is encoded as."""
        reads = _slices([column.n_in for column in self.columns])
        writes = _slices([column.n_out for column in self.columns])
        return list(zip(self.columns, reads, writes, strict=True))

    @cached_property
    def n_encoded(self) -> int:
        """Number of encoded columns."""
        return sum(column.n_out for column in self.columns)

    @cached_property
    def numbers(self) -> list[tuple[int, Number]]:
        """Columns of numbers, each with the position of its encoded column."""
        return [(write.start, c) for c, _, write in self.placed if isinstance(c, Number)]

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Encoded columns of each block of indicators."""
        return tuple(write for c, _, write in self.placed if not isinstance(c, Number))

    def units(self) -> tuple[FloatArray, FloatArray]:
        """Return half and centre of shape (n_encoded,): encoded = (raw - centre) / half."""
        half, centre = np.ones(self.n_encoded), np.zeros(self.n_encoded)
        for position, number in self.numbers:
            half[position], centre[position] = number.half_range, number.centre
        return half, centre

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns."""
        found: list[str] = []
        for column, read, _ in self.placed:
            own = names[read]
            found += column.names_out(own[0]) if isinstance(column, Levels) else own
        return found

    def pieces(self, radius: float | None) -> Iterator[Piece]:
        """Yield pieces: runs of numbers, single columns of levels, single blocks of indicators."""
        for _, group in groupby(self.placed, key=_run_key):
            columns, reads, writes = zip(*group, strict=True)
            read = slice(reads[0].start, reads[-1].stop)
            write = slice(writes[0].start, writes[-1].stop)
            if write.start < write.stop:  # a single level leaves nothing to write
                yield Piece(read, write, _step(columns, radius))


def read_once(domain: Any, X: Any) -> Table:
    """Return a table that can be read several times; only the first reading can raise.

    Numbers of an array stay in place, which may be a file larger than the memory. All other cells
    are read here, because their own code may return other values the next time.

    Raises
    ------
    ValueError
        As `Domain.encode` does.
    """
    table = as_table(X, domain.names, domain.n_columns)
    if table.is_plain:
        return table
    cells = np.zeros((table.n_rows, domain.n_columns))
    with np.errstate(all="ignore"):  # a warning would be about the data
        for start in range(0, table.n_rows, table.block):
            rows = slice(start, start + table.block)
            for piece in domain._pieces:
                piece.keep(table, rows, cells[rows], domain._label_at)
    return KeptTable(cells)


def _slices(widths: Sequence[int]) -> list[slice]:
    """Return adjacent slices of the given widths, from 0."""
    stops = accumulate(widths)
    return [slice(stop - width, stop) for stop, width in zip(stops, widths, strict=True)]


def _run_key(placed: tuple[Column, slice, slice]) -> object:
    # Unit columns are separate: they are only clipped, so that encoding twice rounds once.
    column, read, _ = placed
    return ("unit" if column.is_unit else "box") if isinstance(column, Number) else read.start


def _step(run: Sequence[Column], radius: float | None) -> Levels | Callable[[FloatArray], None]:
    if radius is not None:
        return Ball(radius)
    if isinstance(run[0], Levels):
        return run[0]
    numbers = [column for column in run if isinstance(column, Number)]
    if not numbers:
        return keep_largest_indicator
    lower, upper = np.array([(c.lower, c.upper) for c in numbers]).T
    return Box(lower, upper, is_unit=numbers[0].is_unit)
