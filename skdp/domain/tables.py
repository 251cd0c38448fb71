"""Reading of tables by blocks of rows: arrays by position, DataFrames by name.

Error messages contain names, types and counts of columns, which are public, but no value, row or
count of rows. Errors are raised outside ``except`` clauses: otherwise the error of numpy or of a
cell, which may quote a value, would be attached as ``__context__``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain.cells import (
    copy_reals,
    is_sparse,
    pandas_module,
    plain,
)
from skdp.domain.columns import PLAIN_KINDS, ArrayColumn, FrameColumn, Levels, positions_of

# Half a MiB of floats, so that a block stays in the cache for the next step.
_CACHED_CELLS = 2**16
# Taking rows from some columns of a frame takes a time that does not depend on their number.
_FEWEST_ROWS = 8192


@dataclass(frozen=True)
class ArrayTable:
    """Columns of an array, in the order of the declared ones.

    Attributes
    ----------
    cells : ndarray of shape (n, n_columns), of numpy's own class
    again : bool
        Whether the table was read before without an error. An array in a file, or one that other
        code writes to, may have changed since: an entry that is not a finite number any more is
        read as 0 and clipped like any other number. No error discloses the change. Rows are still
        mapped into the domain one by one by a public rule, so that sensitivities hold for each
        reading.
    """

    cells: NDArray[Any]
    again: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows; it may be private."""
        return len(self.cells)

    @property
    def block(self) -> int:
        """Number of rows to encode at a time, so that they stay in the processor's cache."""
        n_columns: int = self.cells.shape[1]
        return max(1, _CACHED_CELLS // max(1, n_columns))

    @property
    def is_plain(self) -> bool:
        """Whether every cell is a number, so that reading runs no foreign code."""
        return self.cells.dtype.kind in PLAIN_KINDS

    def part(self, start: int, stop: int) -> ArrayTable:
        """Return some rows."""
        return replace(self, cells=self.cells[start:stop])

    def taken(self, rows: NDArray[np.intp]) -> ArrayTable:
        """Return a copy of some rows."""
        return replace(self, cells=self.cells[rows])

    def copy_numbers(self, rows: slice, columns: slice, out: FloatArray, missing: bool) -> None:
        """Copy cells into ``out`` as floats, or raise any error; see `copy_reals`."""
        copy_reals(self.cells[rows, columns], out, missing)

    def positions(self, rows: slice, column: int, levels: Levels) -> NDArray[Any]:
        """Return the position of the level of each cell of a column, or raise any error."""
        return positions_of(self.cells[rows, column], levels)

    def dtype(self, column: int) -> Any:
        """Return the type of a column."""
        return self.cells.dtype

    def name(self, column: int) -> str | None:
        """Return None: the columns have no names."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows with the positions of levels in place of indicators.

    Attributes
    ----------
    numbers : ndarray of shape (n, n_numbers)
    levels : tuple of unsigned integer arrays of shape (n,)
        Position of each row's level, for each column of levels that has two levels or more, and
        whether a number is missing, where it has an indicator. The first level, which has no
        indicator, is 0.
    again : bool
        As in the other tables. Reading encoded rows never raises an error.
    """

    numbers: FloatArray
    levels: tuple[NDArray[Any], ...]
    again: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows; it may be private."""
        return len(self.numbers)

    @property
    def block(self) -> int:
        """Number of rows to read at a time."""
        n_columns: int = self.numbers.shape[1]
        return max(1, _CACHED_CELLS // max(1, n_columns))

    def part(self, start: int, stop: int) -> EncodedRows:
        """Return some rows."""
        return self._chosen(slice(start, stop))

    def taken(self, rows: NDArray[np.intp]) -> EncodedRows:
        """Return a copy of some rows."""
        return self._chosen(rows)

    def _chosen(self, rows: slice | NDArray[np.intp]) -> EncodedRows:
        levels = tuple(positions[rows] for positions in self.levels)
        return replace(self, numbers=self.numbers[rows], levels=levels)


@dataclass(frozen=True)
class Columns:
    """Arrays of numpy as columns of a table, which are read as those of a DataFrame but faster."""

    arrays: dict[str, NDArray[Any]]

    @property
    def columns(self) -> Any:
        """Names of the columns, as those of a DataFrame."""
        return pandas_module().Index(list(self.arrays))

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values()), ()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def drop(self, columns: list[str]) -> Columns:
        """Return the other columns."""
        return Columns({k: own for k, own in self.arrays.items() if k not in columns})


@dataclass(frozen=True)
class _FrameTable:
    """Columns of a DataFrame, in the order of the declared ones."""

    frame: Any
    places: NDArray[np.intp]
    start: int
    stop: int
    again: bool = False
    # By the positions of declared columns; they are kept, because taking a column is slow.
    columns: dict[int, FrameColumn] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows; it may be private."""
        return self.stop - self.start

    @property
    def block(self) -> int:
        """Number of rows to encode at a time."""
        return max(_FEWEST_ROWS, _CACHED_CELLS // max(1, len(self.places)))

    @property
    def is_plain(self) -> bool:
        """Whether reading runs no foreign code."""
        with suppress(Exception):
            return all(self._column(k).is_plain for k in range(len(self.places)))
        return False

    def part(self, start: int, stop: int) -> _FrameTable:
        """Return some rows."""
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        return replace(self, start=self.start + start, stop=self.start + stop)

    def taken(self, rows: NDArray[np.intp]) -> _FrameTable:
        """Return a copy of some rows."""
        frame = self.frame.iloc[self.start + rows]
        return replace(self, frame=frame, start=0, stop=len(rows), columns={})

    def copy_numbers(self, rows: slice, columns: slice, out: FloatArray, missing: bool) -> None:
        """Copy cells into ``out`` as floats, or raise any error; see `copy_reals`."""
        for k, column in enumerate(range(columns.start, columns.stop)):
            self._column(column).copy_numbers(self._moved(rows), out[:, k], missing)

    def plain_columns(self, rows: slice, columns: slice) -> list[NDArray[Any]] | None:
        """Return cells of columns without a copy, or None if one is no array of numpy."""
        with suppress(Exception):
            cells = [self._column(k).cells for k in range(columns.start, columns.stop)]
            return [own[self._moved(rows)] for own in cells]  # type: ignore[index]
        return None

    def positions(self, rows: slice, column: int, levels: Levels) -> NDArray[Any]:
        """Return the position of the level of each cell of a column, or raise any error."""
        return self._column(column).positions(self._moved(rows), levels)

    def dtype(self, column: int) -> Any:
        """Return the type of a column, or None if it cannot be read."""
        with suppress(Exception):
            return self._column(column).series.dtype
        return None

    def name(self, column: int) -> str | None:
        """Return the name of a column, or None if it is no string."""
        name = self.frame.columns[self.places[column]]
        return str(name) if isinstance(name, str) else None

    def _moved(self, rows: slice) -> slice:
        start, stop, _ = rows.indices(self.n_rows)
        return slice(self.start + start, self.start + stop)

    def _column(self, column: int) -> FrameColumn:
        if column not in self.columns:
            self.columns[column] = FrameColumn(self.frame.iloc[:, self.places[column]])
        return self.columns[column]


RawTable: TypeAlias = ArrayTable | _FrameTable
Table: TypeAlias = RawTable | EncodedRows


def as_table(X: Any, names: tuple[str, ...] | None, n_columns: int) -> Table:
    """Return ``X`` as a table after a check of its columns; a table is returned unchanged."""
    if isinstance(X, ArrayTable | EncodedRows | _FrameTable):
        return X
    if is_sparse(X):
        remedy = "Use X.toarray()."
        raise fail("X", "be an array or a pandas DataFrame, not a sparse matrix", remedy=remedy)
    if isinstance(X, Columns):
        places, arrays = _places(X.columns, names, n_columns), list(X.arrays.values())
        own = {k: ArrayColumn(arrays[place]) for k, place in enumerate(places)}
        return _FrameTable(X, places, 0, len(X), columns=dict(own))
    X = plain(X)
    if not isinstance(X, np.ndarray):
        return _FrameTable(X, _places(X.columns, names, n_columns), 0, len(X))
    if X.ndim != 2:
        remedy = "Reshape your data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one row."
        raise fail("X", "be of 2 dimensions", X.ndim, remedy)
    _check_count(X.shape[1], n_columns)
    return ArrayTable(X)


def _places(columns: Any, names: tuple[str, ...] | None, n_columns: int) -> NDArray[np.intp]:
    if names is None:
        _check_count(len(columns), n_columns)
        return np.arange(n_columns)
    # A dict, because pandas changes the filters of warnings where it looks up names.
    place = {name: k for k, name in enumerate(columns)}
    if len(place) < len(columns):
        twice = columns[columns.duplicated()][0]
        raise fail("X", "have every column once", twice, "Drop or rename the second one.")
    missing = [name for name in names if name not in place]
    if missing:
        remedy = f"Columns {missing} are declared but missing from X: add or undeclare them."
        raise fail("X", "have every declared column", remedy=remedy)
    declared = set(names)
    extra = [name for name in columns if name not in declared]
    if extra:
        remedy = f"Drop columns {extra}, for instance by X[list(domain.names)], or declare them."
        raise fail("X", "have declared columns only", remedy=remedy)
    return np.array([place[name] for name in names], dtype=np.intp)


def _check_count(found: int, declared: int) -> None:
    if found != declared:
        remedy = "The domain declares every column that X must have, in this order."
        raise fail("X", f"have {declared} columns", found, remedy)
