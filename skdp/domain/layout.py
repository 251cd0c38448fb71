"""Trusted. The encoding of blocks of rows: projections, and positions of columns.

Each row is projected independently of all others. The results of each projection are within its
bounds in floating point, rounding included. A second projection changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp._compiled import NARROW, kernels
from skdp.domain.columns import Levels, Number, largest_indicators, missing_in
from skdp.domain.splines import Column, Interaction, Spline, SplineBlock, with_nodes
from skdp.domain.tables import (
    ArrayTable,
    EncodedRows,
    RawTable,
    Table,
    as_table,
    read_levels,
    read_numbers,
)
from skdp.trusted.arrays import Array, FloatArray, repeated, squared_lengths, wide_rows
from skdp.trusted.checks import fail

if TYPE_CHECKING:
    from skdp.domain.domain import Domain

# Rows of which compiled functions write whole columns.
_COLUMN_ROWS = 2**13
Coded: TypeAlias = Levels | Spline | SplineBlock | Interaction
# Positions of two columns of the table, the lesser first, for each interaction.
Pairs: TypeAlias = tuple[tuple[int, int], ...]
# Division by a width between this and its inverse cannot overflow.
SMALLEST_WIDTH = 1e-290


@dataclass(frozen=True)
class BoxProjection:
    """Clipping to [lower, upper] and scaling to [-1, 1], for neighbouring columns.

    ``is_unit`` says that all bounds are -1 and 1. ``fills`` are the numbers in [-1, 1] that replace
    NaN, and NaN for columns without any. All arrays have the shape (columns,).
    """

    lower: FloatArray
    upper: FloatArray
    is_unit: bool
    fills: FloatArray | None = None

    def __call__(self, block: FloatArray) -> None:
        """Project the rows of ``block``, of shape (n, columns), in place."""
        if self.write(block, block) is not None:
            return
        if self.is_unit:
            pass
        elif self._wide is not None:
            # Each step is monotone, rounding included.
            lower, per_width = self._wide
            for rows in wide_rows(block):
                rows -= lower[: rows.shape[1]]
                rows *= per_width[: rows.shape[1]]
            block -= 1.0
        else:
            # Halves, because upper - lower and its inverse may overflow.
            np.clip(block, self.lower, self.upper, out=block)
            block *= 0.5
            block -= self.lower / 2
            block /= (self.upper / 2 - self.lower / 2) / 2
            block -= 1.0
        np.clip(block, -1.0, 1.0, out=block)
        if self.fills is not None:
            np.copyto(block, self.fills, where=np.isnan(block))

    def write(self, cells: Array | list[Array], out: FloatArray) -> bool | None:
        """Write projected rows, or columns, into ``out``, by a compiled function.

        Returns whether all cells are finite, or NaN with a fill. Returns None, without a result,
        if there is no such function for the type of the cells.
        """
        compiled, columns = kernels(), cells if isinstance(cells, list) else [cells]
        are_floats = all(own.dtype in (np.float64, np.float32) for own in columns)
        if compiled is None or not are_floats or self._factor is None:
            return None
        if isinstance(cells, list):
            facts = (numbers.tolist() for numbers in (self._lower, self._factor, self._fill))
            return all(
                compiled.scale_column(one, lower, factor, self.is_unit, fill, own)
                for one, lower, factor, fill, own in zip(cells, *facts, out.T, strict=True)
            )
        facts_of_rows = self._lower, self._factor, self.is_unit, self._fill
        if out.flags.f_contiguous and out.shape[1] > 1:
            return bool(compiled.scale_to_columns(cells, *facts_of_rows, out.T))
        return bool(compiled.scale_rows(cells, *facts_of_rows, out))

    @cached_property
    def _lower(self) -> FloatArray:
        # Compiled code is faster for entries that lie next to each other.
        return np.ascontiguousarray(self.lower)

    @cached_property
    def _fill(self) -> FloatArray:
        return np.full(len(self.lower), np.nan) if self.fills is None else self.fills

    @cached_property
    def _wide(self) -> tuple[FloatArray, FloatArray] | None:
        factor = self._factor
        return None if factor is None else (repeated(self.lower), repeated(factor))

    @cached_property
    def _factor(self) -> FloatArray | None:
        """2 / width, rounded up so that upper is mapped to 1 or above; None for extreme widths."""
        with np.errstate(over="ignore"):
            width = self.upper - self.lower
        if width.min() < SMALLEST_WIDTH or width.max() > 1 / SMALLEST_WIDTH:
            return None
        factor = 2 / width
        return np.where(factor * width < 2, np.nextafter(factor, np.inf), factor)


@dataclass(frozen=True)
class BallProjection:
    """Scaling of rows of Euclidean norm above ``radius`` back to the sphere."""

    radius: float

    def __call__(self, block: FloatArray) -> None:
        """Project the rows of ``block`` in place."""
        peak = np.abs(block).max(axis=1)
        peak[peak == 0.0] = 1.0
        unit = block / peak[:, None]  # squares of the raw entries may overflow
        norm = np.sqrt(squared_lengths(unit))
        # A norm of d terms has an error of at most d + 4 units of rounding, in any order of
        # summation. Rows are kept only if no such sum can exceed the radius. Scaled rows end
        # slightly further inside, so that a second projection keeps them.
        rounding = (block.shape[1] + 4) * np.finfo(np.float64).eps
        outside = norm > self.radius * (1 - 2 * rounding) / peak
        scale = self.radius * (1 - 4 * rounding) / norm[outside]
        block[outside] = unit[outside] * scale[:, None]


@dataclass(frozen=True)
class Piece:
    """Neighbouring columns that are encoded by one call per block of rows.

    ``read`` are columns of the table, of which those of an interaction may be apart, and ``write``
    the encoded ones: between numbers with an indicator for missing cells lie the indicators. The
    ``step`` is a projection of numbers in place, a number for the indicator of its missing cells,
    or None for a block of indicators. ``place`` are columns among the numbers, or is the position
    among the columns of levels.
    """

    read: slice
    write: slice
    step: Coded | Number | Callable[[FloatArray], None] | None
    place: slice | int

    def write_numbers(
        self, table: RawTable, rows: slice, cells: FloatArray, label: Callable[[int], str]
    ) -> None:
        """Write the numbers of ``rows`` into ``cells``, a view of their encoded columns."""
        if kernels() is not None and isinstance(self.step, BoxProjection):
            floats = table.floats(rows, self.read)  # where they are
            if floats is not None and self.step.write(floats, cells):
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
        if not isinstance(self.step, BoxProjection):
            return None
        fills = self.step.fills
        return np.zeros(len(self.step.lower), bool) if fills is None else ~np.isnan(fills)

    def positions(self, table: RawTable, rows: slice, label: Callable[[int], str]) -> Array:
        if isinstance(self.step, Levels):
            return read_levels(table, rows, self.read.start, self.step, label)
        if isinstance(self.step, Interaction):
            places = self.read.start, self.read.stop - 1
            parts = zip(places, (self.step.first, self.step.second), strict=True)
            pieces = [replace(self, read=slice(at, at + 1), step=step) for at, step in parts]
            return self.step.joined(*(own.positions(table, rows, label) for own in pieces))
        is_number = isinstance(self.step, Number)
        if is_number and (floats := table.floats(rows, self.read)) is not None:
            cells = floats[0] if isinstance(floats, list) else floats[:, 0]
            if (found := missing_in(cells)) is not None:
                return found
        work = np.empty((rows.stop - rows.start, self.read.stop - self.read.start))
        read_numbers(table, rows, self.read, work, label, self._ruled)
        if is_number:
            return np.isnan(work[:, 0])
        if isinstance(self.step, Spline):
            return self.step.positions(work[:, 0])
        if isinstance(self.step, SplineBlock):
            return self.step.positions(work)
        return largest_indicators(work)

    def write_positions(self, positions: Array, cells: FloatArray) -> None:
        """Write the encoded columns of positions into zeros."""
        if (values := getattr(self.step, "table", None)) is not None:
            cells[...] = values[positions]
        else:
            rows = np.flatnonzero(positions)
            cells[rows, positions[rows].astype(np.intp) - 1] = 1.0


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
        single: dict[int, Any] = {own.start: column for column, own in self.declared}
        found: list[tuple[Column | Interaction, slice]] = []
        for column, read in self.declared:
            if column.n_in != 1 or read.start not in joined:
                found.append((column, read))
            for a, b in self.pairs:
                if a == read.start:
                    pair = with_nodes(single[a]), with_nodes(single[b])
                    found.append((Interaction(*pair), slice(a, b + 1, b - a)))
        writes = _slices([column.n_out for column, _ in found])
        return [(*parts, write) for parts, write in zip(found, writes, strict=True)]

    @property
    def declared(self) -> list[tuple[Column, slice]]:
        """Each declared column with the columns of the table that it reads."""
        reads = _slices([column.n_in for column in self.columns])
        return list(zip(self.columns, reads, strict=True))

    @cached_property
    def with_blocks(self) -> list[tuple[Column | Interaction, slice]]:
        """Columns that are encoded as a block, with their encoded columns."""
        return [(c, own) for c, _, own in self.placed if not isinstance(c, Number) or c.n_out > 1]

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


def encode(domain: Domain, X: object, out: FloatArray | None) -> FloatArray:
    """Return the encoded rows of a table or an array-like; see `Domain.encode`."""
    table = as_table(X, domain.names, domain.n_columns)
    shape = (table.n_rows, domain.n_encoded)
    encoded: object = np.empty(shape) if out is None else out
    if not (isinstance(encoded, np.ndarray) and encoded.dtype == float and encoded.shape == shape):
        raise fail("out", f"be a float64 array of {shape[1]} columns and as many rows as X")
    whole = [(slice(None), table)] if isinstance(table, EncodedRows) else None
    for rows, block in whole or compact_blocks(domain, table):
        write_rows(domain, block, encoded[rows])
    return encoded


def encode_compactly(
    domain: Domain, X: object, dtype: type | None = None, room: EncodedRows | None = None
) -> EncodedRows:
    """Return the encoded rows of a table or an array-like, without dense indicators.

    If a ``dtype`` is given, encoded numbers are rounded to it, and the entries of each column lie
    next to each other. For compiled functions so do those of DataFrames and of arrays with few
    columns. The arrays of ``room`` are used if they have the same length: those of `rooms_of`, or
    what the same call returned for other rows that nobody needs any more.
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
        _write(domain, table, rows, encoded.taken(rows))
    return encoded


def compact_blocks(domain: Domain, X: object) -> Iterator[tuple[slice, EncodedRows]]:
    """Yield all rows in blocks, encoded compactly. All blocks use the same memory."""
    table = as_table(X, domain.names, domain.n_columns)
    assert not isinstance(table, EncodedRows)
    room = _room(domain, min(table.n_rows, table.block))
    for rows in _blocks(table):
        encoded = room.taken(slice(rows.stop - rows.start))
        _write(domain, table, rows, encoded)
        yield rows, encoded


def rooms_of(domain: Domain, sizes: list[int], dtype: type) -> list[EncodedRows]:
    """Return rooms of so many rows each for `encode_compactly`."""
    # The system provides memory for one large array in less time than for several small ones.
    width, stops = domain.n_numbers, np.cumsum(sizes)
    parts = zip(sizes, np.split(np.empty((stops[-1], width), dtype), stops[:-1]), strict=True)
    return [replace(_room(domain, n, dtype), numbers=x.reshape(width, n).T) for n, x in parts]


def _room(domain: Domain, n_rows: int, dtype: type = np.float64, order: Any = "C") -> EncodedRows:
    types = [np.min_scalar_type(count - 1) for count in domain.block_positions if count > 1]
    levels = tuple(np.empty(n_rows, dtype) for dtype in types)
    return EncodedRows(np.empty((n_rows, domain.n_numbers), dtype, order), levels)


def _write(domain: Domain, table: RawTable, rows: slice, out: EncodedRows) -> None:
    with np.errstate(all="ignore"):  # a warning would be about the data
        for piece in domain._pieces:
            if isinstance(piece.place, slice):
                piece.write_numbers(table, rows, out.numbers[:, piece.place], domain._label_at)
            else:
                out.levels[piece.place][:] = piece.positions(table, rows, domain._label_at)


def write_rows(domain: Domain, rows: Any, out: FloatArray) -> None:
    """Write compactly encoded rows with indicators into ``out`` of shape (n, n_encoded)."""
    for piece in domain._pieces:
        if isinstance(piece.place, slice):
            out[:, piece.write] = rows.numbers[:, piece.place]
        else:
            out[:, piece.write] = 0.0
            piece.write_positions(rows.levels[piece.place], out[:, piece.write])


def number_units(domain: Domain) -> tuple[FloatArray, FloatArray]:
    """Return half of the range of each number's bounds, and their centre: each (n_numbers,)."""
    numbers = [column for column, *_ in domain._layout.placed if isinstance(column, Number)]
    half, centre = ([getattr(own, name) for own in numbers] for name in ("half_range", "centre"))
    return np.array(half, dtype=np.float64), np.array(centre, dtype=np.float64)


def levels_by_name(domain: Domain) -> dict[str, tuple[Hashable, ...]]:
    pairs = ((domain._labels[read.start], column) for column, read in domain._layout.declared)
    return {name: column.levels for name, column in pairs if isinstance(column, Levels)}


def read_once(domain: Domain, X: object) -> Table:
    """Return a table that is read fast several times.

    Numbers stay in place, which may be a file larger than the memory. Other tables are encoded.
    """
    table = as_table(X, domain.names, domain.n_columns)
    if isinstance(table, EncodedRows) or table.is_plain:
        return table
    return encode_compactly(domain, table)


def _blocks(table: RawTable, least: int = 0) -> Iterator[slice]:
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
        return BallProjection(radius)
    if isinstance(run[0], Coded):
        return run[0]
    numbers = [column for column in run if isinstance(column, Number)]
    if not numbers:
        return None
    lower, upper = np.array([(c.lower, c.upper) for c in numbers]).T
    box = BoxProjection(lower, upper, is_unit=numbers[0].is_unit)
    rules = [number.missing for number in numbers]
    if not any(rule is not None for rule in rules):
        return box
    fills = np.array([rule if isinstance(rule, float) else np.nan for rule in rules])
    box(fills[None, :])
    # The middle is 0 without rounding.
    fills[[isinstance(rule, str) for rule in rules]] = 0.0
    return replace(box, fills=fills)
