"""Where columns go: which are read together, what is done to them, what comes out where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.domain.columns import Column, Levels, Number
from skdp.domain.projections import Ball, Box, keep_largest_indicator
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
            # Narrow columns of a wider array are slow to walk along: one pass over them, not five.
            work = cells if cells.flags.c_contiguous else np.empty(cells.shape)
            read_numbers(table, rows, self.read, work, label)
            self.step(work)
            if work is not cells:
                cells[...] = work

    def keep(self, table: Table, rows: slice, out: FloatArray, label: Callable[[int], str]) -> None:
        """Write the cells themselves into ``out``: finite numbers, or positions of levels."""
        if isinstance(self.step, Levels):
            column = self.read.start
            out[:, column] = read_levels(table, rows, column, self.step, label)
        else:
            read_numbers(table, rows, self.read, out[:, self.read], label)


@dataclass(frozen=True)
class Layout:
    """The encoded columns of declared ones, in the same order."""

    columns: tuple[Column, ...]

    @cached_property
    def places(self) -> list[slice]:
        """Encoded columns of each declared column."""
        return slices([column.n_out for column in self.columns])

    @cached_property
    def n_encoded(self) -> int:
        """Number of encoded columns."""
        return sum(column.n_out for column in self.columns)

    @cached_property
    def numbers(self) -> list[tuple[int, Number]]:
        """The columns of numbers, each with the position of its encoded column."""
        placed = zip(self.places, self.columns, strict=True)
        return [(place.start, column) for place, column in placed if isinstance(column, Number)]

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Places of the blocks of indicators."""
        placed = zip(self.places, self.columns, strict=True)
        return tuple(place for place, column in placed if not isinstance(column, Number))

    def units(self) -> tuple[FloatArray, FloatArray]:
        """Return half and centre, (n_encoded,) each: encoded = (raw - centre) / half."""
        half, centre = np.ones(self.n_encoded), np.zeros(self.n_encoded)
        for position, number in self.numbers:
            half[position], centre[position] = number.half_range, number.centre
        return half, centre

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns."""
        reads = slices([column.n_in for column in self.columns])
        named = zip(self.columns, reads, strict=True)
        return [name for column, read in named for name in column.names_out(names[read])]


def pieces_of(columns: Sequence[Column], radius: float | None) -> Iterator[Piece]:
    """Cut the columns into pieces: runs of numbers, single sets of levels, single blocks."""
    start_in = start_out = 0
    for _, group in groupby(enumerate(columns), key=_run_key):
        run = [column for _, column in group]
        read = slice(start_in, start_in := start_in + sum(c.n_in for c in run))
        write = slice(start_out, start_out := start_out + sum(c.n_out for c in run))
        if write.start < write.stop:  # a single level leaves nothing to write
            yield Piece(read, write, _step(run, radius))


def read_once(domain: Any, X: Any) -> Table:
    """Return a table to read several times, of which only the first reading can raise.

    Numbers of an array are left where they are, which may be a file larger than the memory. All
    other cells are read here: code of their own need not say the same twice.

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


def slices(widths: Sequence[int]) -> list[slice]:
    """Lay neighbours of the given widths side by side."""
    stops = accumulate(widths)
    return [slice(stop - width, stop) for stop, width in zip(stops, widths, strict=True)]


def _run_key(numbered: tuple[int, Column]) -> object:
    # Unit columns are kept apart: they are only clipped, or encoding twice would round twice.
    position, column = numbered
    return ("unit" if column.is_unit else "box") if isinstance(column, Number) else position


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
