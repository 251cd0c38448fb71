"""Positions of declared and encoded columns, and the encoding of blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._compiled import NARROW, kernels
from skdp.domain._declaration.declare import Pairs
from skdp.domain._projections import Ball, Box, largest_indicators, write_indicators
from skdp.domain.cells import missing_in
from skdp.domain.columns import Column, Levels, Number
from skdp.domain.interactions import Interaction
from skdp.domain.reading import read_levels, read_numbers, room_for
from skdp.domain.splines import Spline, SplineBlock
from skdp.domain.tables import ArrayTable, EncodedRows, RawTable, Table, as_table

# Rows of which compiled functions write whole columns.
_COLUMN_ROWS = 2**13
Coded: TypeAlias = Levels | Spline | SplineBlock | Interaction


@dataclass(frozen=True)
class Piece:
    """Neighbouring columns that are encoded by one call per block of rows.

    Attributes
    ----------
    read : slice
        Columns of the table; those of an interaction may be apart.
    write : slice
        Encoded columns. Between numbers with an indicator for missing cells lie the indicators.
    step : Levels, Spline, SplineBlock, Interaction, Number or callable
        The levels or the splines, or a projection of numbers in place. A number for the indicator
        of its missing cells; None for a block of indicators.
    place : slice or int
        Columns among the numbers, or the position among the columns of levels.
    """

    read: slice
    write: slice
    step: Coded | Number | Callable[[FloatArray], None] | None
    place: slice | int

    def write_numbers(
        self, table: Table, rows: slice, cells: FloatArray, label: Callable[[int], str]
    ) -> None:
        """Write the numbers of ``rows`` into ``cells``, a view of their encoded columns."""
        if isinstance(table, EncodedRows):
            cells[...] = table.numbers[rows, self.place]
            return
        if isinstance(self.step, Box) and self._write_floats(self.step, table, rows, cells):
            return
        # Access to a few columns of a wider array is slow: it is done once and not five times.
        is_ready = cells.flags.c_contiguous and cells.dtype == np.float64
        work = cells if is_ready else np.empty(cells.shape)
        read_numbers(table, rows, self.read, work, label, self._ruled)
        self.step(work)  # type: ignore[operator, misc]
        if work is not cells:
            cells[...] = work

    @property
    def _ruled(self) -> NDArray[np.bool_] | None:
        """Columns of numbers with a rule for missing cells; None where there are no rules."""
        if isinstance(self.step, Number):
            return np.array([True])
        if isinstance(self.step, Spline):
            return np.array([self.step.missing is not None])
        if not isinstance(self.step, Box):
            return None
        fills = self.step.fills
        return np.zeros(len(self.step.lower), bool) if fills is None else ~np.isnan(fills)

    def _write_floats(
        self, box: Box, table: RawTable, rows: slice, cells: FloatArray
    ) -> bool | None:
        """Write the numbers as `write_numbers` does, if compiled functions can read the table."""
        if isinstance(table, ArrayTable):
            return box.write(table.cells[rows, self.read], cells)
        columns = table.plain_columns(rows, self.read)
        return None if columns is None else box.write_columns(columns, cells)

    def positions(self, table: Table, rows: slice, label: Callable[[int], str]) -> NDArray[Any]:
        """Return the position of the level of each of ``rows``."""
        if isinstance(table, EncodedRows):
            return table.levels[self.place][rows]  # type: ignore[return-value]
        if isinstance(self.step, Levels):
            return read_levels(table, rows, self.read.start, self.step, label)
        if isinstance(self.step, Interaction):
            places = self.read.start, self.read.stop - 1
            parts = zip(places, (self.step.first, self.step.second), strict=True)
            pieces = [replace(self, read=slice(at, at + 1), step=step) for at, step in parts]
            return self.step.joined(*(own.positions(table, rows, label) for own in pieces))
        is_number = isinstance(self.step, Number)
        if is_number and (found := self._missing_floats(table, rows)) is not None:
            return found
        work = np.empty((rows.stop - rows.start, self.read.stop - self.read.start))
        read_numbers(table, rows, self.read, work, label, self._ruled)
        if is_number:
            return np.isnan(work[:, 0])
        if isinstance(self.step, Spline):
            return self.step.positions(work[:, 0])
        return (
            self.step.positions(work)
            if isinstance(self.step, SplineBlock)
            else largest_indicators(work)
        )

    def write_positions(self, positions: NDArray[Any], cells: FloatArray) -> None:
        """Write the encoded columns of positions into zeros."""
        if (values := getattr(self.step, "table", None)) is not None:
            cells[...] = values[positions]
        else:
            write_indicators(positions, cells)

    def _missing_floats(self, table: RawTable, rows: slice) -> NDArray[np.bool_] | None:
        """Return which cells of a column are NaN; None if it is no array of floats."""
        if isinstance(table, ArrayTable):
            return missing_in(table.cells[rows, self.read.start])
        columns = table.plain_columns(rows, self.read)
        return None if columns is None else missing_in(columns[0])

    def encode(
        self, table: Table, rows: slice, out: FloatArray, label: Callable[[int], str]
    ) -> None:
        """Write the encoded cells of ``rows`` into ``out``, zeros of the same rows."""
        cells = out[:, self.write]
        if isinstance(self.place, slice):
            self.write_numbers(table, rows, cells, label)
        else:
            self.write_positions(self.positions(table, rows, label), cells)


@dataclass(frozen=True)
class Layout:
    """Positions of declared columns and of their encoded columns, in the same order.

    Pairs of columns with an interaction are given by their positions in the table, a < b. The
    interaction has the place of the first one.
    """

    columns: tuple[Column, ...]
    pairs: Pairs = ()

    @cached_property
    def placed(self) -> list[tuple[Column | Interaction, slice, slice]]:
        """Each declared column with the columns that it reads and those that it is encoded as."""
        joined = {place for pair in self.pairs for place in pair}
        own: dict[int, Any] = {r.start: column for column, r in self.declared if column.n_in == 1}
        found: list[tuple[Column | Interaction, slice]] = []
        for column, read in self.declared:
            if column.n_in != 1 or read.start not in joined:
                found.append((column, read))
                continue
            seconds = [b for a, b in self.pairs if a == read.start]
            found += [
                (Interaction(own[read.start], own[b]), slice(read.start, b + 1, b - read.start))
                for b in seconds
            ]
        writes = _slices([column.n_out for column, _ in found])
        return [(*parts, write) for parts, write in zip(found, writes, strict=True)]

    @property
    def declared(self) -> list[tuple[Column, slice]]:
        """Each declared column with the columns of the table that it reads."""
        reads = _slices([column.n_in for column in self.columns])
        return list(zip(self.columns, reads, strict=True))

    @cached_property
    def n_encoded(self) -> int:
        """Number of encoded columns."""
        return sum(column.n_out for column, *_ in self.placed)

    @cached_property
    def numbers(self) -> list[tuple[int, Number]]:
        """Columns of numbers, each with the position of its encoded column."""
        return [(write.start, c) for c, _, write in self.placed if isinstance(c, Number)]

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Encoded columns of each block of indicators or of B-splines."""
        return tuple(
            slice(write.start + isinstance(column, Number), write.stop)
            for column, _, write in self._of_blocks
        )

    @cached_property
    def tables(self) -> tuple[FloatArray | None, ...]:
        """The encoded values of the positions of each block of B-splines; None for indicators."""
        return tuple(getattr(column, "table", None) for column, *_ in self._of_blocks)

    @cached_property
    def penalties(self) -> tuple[FloatArray | None, ...]:
        """The matrix of the penalty on each block of B-splines; None for indicators."""
        return tuple(getattr(column, "penalty", None) for column, *_ in self._of_blocks)

    @property
    def _of_blocks(self) -> list[tuple[Column | Interaction, slice, slice]]:
        return [own for own in self.placed if not isinstance(own[0], Number) or own[0].n_out > 1]

    def units(self) -> tuple[FloatArray, FloatArray]:
        """Return half and centre of shape (n_encoded,): encoded = (raw - centre) / half."""
        half, centre = np.ones(self.n_encoded), np.zeros(self.n_encoded)
        for position, number in self.numbers:
            half[position], centre[position] = number.half_range, number.centre
        return half, centre

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns."""
        return [name for c, read, _ in self.placed for name in c.names_out(names[read])]

    def pieces(self, radius: float | None) -> Iterator[Piece]:
        """Yield pieces: runs of numbers, single columns of levels, single blocks of indicators.

        The indicators for missing cells come after the run of their numbers.
        """
        numbers = levels = 0
        for _, group in groupby(enumerate(self.placed), key=_run_key):
            columns, reads, writes = zip(*(own for _, own in group), strict=True)
            read = slice(reads[0].start, reads[-1].stop)
            write = slice(writes[0].start, writes[-1].stop)
            if write.start == write.stop:  # a single level leaves nothing to write
                continue
            step = _step(columns, radius)
            if not isinstance(columns[0], Number):
                yield Piece(read, write, step, levels)
                levels += 1
                continue
            place = slice(numbers, numbers + len(columns))
            numbers = place.stop
            yield Piece(read, slice(write.start, write.stop, columns[0].n_out), step, place)
            for column, own, out in zip(columns, reads, writes, strict=True):
                if column.n_out > 1:
                    yield Piece(own, slice(out.start + 1, out.stop), column, levels)
                    levels += 1


def encode(domain: Any, X: Any, out: FloatArray | None) -> FloatArray:
    """Return the encoded rows of a table or an array-like; see `Domain.encode`."""
    table = as_table(X, domain.names, domain.n_columns)
    encoded = room_for(table.n_rows, domain.n_encoded, out)
    with np.errstate(all="ignore"):  # a warning would be about the data
        for rows in _blocks(table):
            if domain.blocks:
                encoded[rows] = 0.0  # indicators, of which only ones are written
            for piece in domain._pieces:
                piece.encode(table, rows, encoded[rows], domain._label_at)
    return encoded


def encode_compactly(
    domain: Any, X: Any, dtype: Any = None, room: EncodedRows | None = None
) -> EncodedRows:
    """Return the encoded rows of a table or an array-like, without dense indicators.

    If a ``dtype`` is given, encoded numbers are rounded to it, and the entries of each column lie
    next to each other in a new array. For compiled functions so do those of DataFrames and of
    arrays with few columns. The arrays of ``room``, which the same call returned for other rows
    that nobody needs any more, are used again if they have the same length.

    Raises
    ------
    ValueError
        As `Domain.encode` does.
    """
    table = as_table(X, domain.names, domain.n_columns)
    if isinstance(table, EncodedRows):
        if dtype is None:
            return table
        return replace(table, numbers=np.array(table.numbers, dtype=dtype, order="F"))
    is_wide_array = isinstance(table, ArrayTable) and domain.n_numbers > NARROW
    by_columns = dtype is not None or not (kernels() is None or is_wide_array)
    encoded = room
    if encoded is None or encoded.n_rows != table.n_rows:
        encoded = _room(domain, table.n_rows, dtype or np.float64, "F" if by_columns else "C")
    # Compiled functions write columns that lie next to each other, which those of a part do not.
    for rows in _blocks(table, _COLUMN_ROWS if by_columns else 0):
        _write(domain, table, rows, encoded.part(rows.start, rows.stop))
    return encoded


def compact_blocks(domain: Any, X: Any) -> Iterator[tuple[slice, EncodedRows]]:
    """Yield all rows in blocks, encoded compactly. All blocks use the same memory."""
    table = as_table(X, domain.names, domain.n_columns)
    room = _room(domain, min(table.n_rows, table.block))
    for rows in _blocks(table):
        encoded = room.part(0, rows.stop - rows.start)
        _write(domain, table, rows, encoded)
        yield rows, encoded


def _room(domain: Any, n_rows: int, dtype: Any = np.float64, order: Any = "C") -> EncodedRows:
    types = [np.min_scalar_type(count - 1) for count in domain.block_positions if count > 1]
    levels = tuple(np.empty(n_rows, dtype) for dtype in types)
    return EncodedRows(np.empty((n_rows, domain.n_numbers), dtype, order), levels)


def _write(domain: Any, table: Table, rows: slice, out: EncodedRows) -> None:
    """Encode ``rows`` of a table into ``out``."""
    with np.errstate(all="ignore"):
        for piece in domain._pieces:
            if isinstance(piece.place, slice):
                piece.write_numbers(table, rows, out.numbers[:, piece.place], domain._label_at)
            else:
                out.levels[piece.place][:] = piece.positions(table, rows, domain._label_at)


def write_rows(domain: Any, rows: Any, out: FloatArray) -> None:
    """Write compactly encoded rows with indicators into ``out`` of shape (n, n_encoded)."""
    for piece in domain._pieces:
        if isinstance(piece.place, slice):
            out[:, piece.write] = rows.numbers[:, piece.place]
        else:
            out[:, piece.write] = 0.0
            piece.write_positions(rows.levels[piece.place], out[:, piece.write])


def number_units(domain: Any) -> tuple[FloatArray, FloatArray]:
    """Return half of the range of each number's bounds, and their centre: each (n_numbers,)."""
    half, centre = domain._layout.units()
    return half[domain.number_index], centre[domain.number_index]


def levels_by_name(domain: Any) -> dict[str, tuple[Hashable, ...]]:
    """Return the levels of each column of levels, by its name."""
    pairs = ((domain._labels[read.start], column) for column, read in domain._layout.declared)
    return {name: column.levels for name, column in pairs if isinstance(column, Levels)}


def read_once(domain: Any, X: Any) -> Table:
    """Return a table that can be read several times; only the first reading can raise.

    Cells of a type that is read without foreign code stay in place, which may be a file larger
    than the memory. Other tables are encoded here, because a cell's own code may return other
    values the next time.

    Raises
    ------
    ValueError
        As `Domain.encode` does.
    """
    table = as_table(X, domain.names, domain.n_columns)
    if isinstance(table, EncodedRows) or table.is_plain:
        return table
    return encode_compactly(domain, table)


def _blocks(table: Table, least: int = 0) -> Iterator[slice]:
    step = max(table.block, least)
    for start in range(0, table.n_rows, step):
        yield slice(start, min(start + step, table.n_rows))


def _slices(widths: Sequence[int]) -> list[slice]:
    """Return adjacent slices of the given widths, from 0."""
    stops = accumulate(widths)
    return [slice(stop - width, stop) for stop, width in zip(stops, widths, strict=True)]


def _run_key(counted: tuple[int, tuple[Column | Interaction, slice, slice]]) -> object:
    # Unit columns are separate: they are only clipped, so that encoding twice rounds once.
    count, (column, read, _) = counted
    if not isinstance(column, Number):
        return read.start, read.stop
    # The columns of a run are neighbours in the table.
    return read.start - count, column.is_unit, column.missing == "indicator"


def _step(
    run: Sequence[Column | Interaction], radius: float | None
) -> Coded | Callable[[FloatArray], None] | None:
    if radius is not None:
        return Ball(radius)
    if isinstance(run[0], Coded):
        return run[0]
    numbers = [column for column in run if isinstance(column, Number)]
    if not numbers:
        return None
    lower, upper = np.array([(c.lower, c.upper) for c in numbers]).T
    box = Box(lower, upper, is_unit=numbers[0].is_unit)
    rules = [number.missing for number in numbers]
    if not any(rule is not None for rule in rules):
        return box
    fills = np.array([rule if isinstance(rule, float) else np.nan for rule in rules])
    box(fills[None, :])
    # The middle is 0 without rounding.
    fills[[isinstance(rule, str) for rule in rules]] = 0.0
    return replace(box, fills=fills)
