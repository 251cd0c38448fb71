"""Reading of tables by blocks of rows: arrays by position, DataFrames by name.

Error messages contain names, types and counts of columns, which are public, but no value, row or
count of rows. Errors are raised outside ``except`` clauses: otherwise the error of numpy or of a
cell, which may quote a value, would be attached as ``__context__``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import sparray, spmatrix

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain.cells import as_cells, copy_reals, kinds_of, silenced
from skdp.domain.columns import Levels

# A quarter of a MiB of floats, so that a block stays in the cache for the next step.
_CACHED_CELLS = 2**15
# Types of arrays of numbers, which are read without running foreign code.
_PLAIN = frozenset("biuf")


class NotNumbers(ValueError, TypeError):
    """Error for a column of numbers with any other cell.

    It is a TypeError too, because scikit-learn expects one for cells such as dicts.
    """


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
        """Whether every cell is a number, and reading runs no foreign code."""
        return self.cells.dtype.kind in _PLAIN

    def part(self, start: int, stop: int) -> ArrayTable:
        """Return some rows."""
        return replace(self, cells=self.cells[start:stop])

    def copy_numbers(self, rows: slice, columns: slice, out: FloatArray) -> None:
        """Copy cells into ``out`` as floats, or raise any error."""
        copy_reals(self.cells[rows, columns], out)

    def positions(self, rows: slice, column: int, levels: Levels) -> NDArray[np.intp]:
        """Return the position of the level of each cell of a column, or raise any error."""
        return positions_of(self.cells[rows, column].tolist(), levels)


@dataclass(frozen=True)
class KeptTable(ArrayTable):
    """Cells after a first reading: finite numbers, and positions of levels, as floats."""

    def positions(self, rows: slice, column: int, levels: Levels) -> NDArray[np.intp]:
        """Return the position of the level of each cell of a column."""
        return self.cells[rows, column].astype(np.intp)


@dataclass(frozen=True)
class _FrameTable:
    """Columns of a DataFrame, in the order of the declared ones."""

    frame: Any
    places: NDArray[np.intp]
    block: int = 8192  # taking rows from a frame costs far more than from an array
    again: bool = False
    is_plain: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows; it may be private."""
        n_rows: int = len(self.frame)
        return n_rows

    def part(self, start: int, stop: int) -> _FrameTable:
        """Return some rows."""
        return replace(self, frame=self.frame.iloc[start:stop])

    def copy_numbers(self, rows: slice, columns: slice, out: FloatArray) -> None:
        """Copy cells into ``out`` as floats, or raise any error."""
        cells = self.frame.iloc[rows, self.places[columns]]
        if all(isinstance(kind, np.dtype) and kind.kind in _PLAIN for kind in cells.dtypes):
            out[...] = cells.to_numpy(np.float64)
            return
        # One by one: together pandas would make numbers of dates.
        for k in range(out.shape[1]):
            copy_reals(np.asarray(cells.iloc[:, k]), out[:, k])

    def positions(self, rows: slice, column: int, levels: Levels) -> NDArray[np.intp]:
        """Return the position of the level of each cell of a column, or raise any error."""
        return positions_of(self.frame.iloc[rows, self.places[column]].tolist(), levels)


Table: TypeAlias = ArrayTable | _FrameTable


def as_table(X: Any, names: tuple[str, ...] | None, n_columns: int) -> Table:
    """Return ``X`` as a table after a check of its columns; a table is returned unchanged."""
    if isinstance(X, ArrayTable | _FrameTable):
        return X
    if is_sparse(X):
        remedy = "Use X.toarray()."
        raise fail("X", "be an array or a pandas DataFrame, not a sparse matrix", remedy=remedy)
    X = plain(X)
    if not isinstance(X, np.ndarray):
        return _FrameTable(X, _places(X.columns, names, n_columns))
    if X.ndim != 2:
        remedy = "Reshape your data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one row."
        raise fail("X", "be of 2 dimensions", X.ndim, remedy)
    _check_count(X.shape[1], n_columns)
    return ArrayTable(X)


def is_sparse(X: Any) -> bool:
    """Return whether ``X`` is a sparse array, from its type and not from its attributes."""
    return issubclass(type(X), (sparray, spmatrix))


def plain(X: Any) -> Any:
    """Return the cells of ``X`` as a DataFrame or an array, not of a subclass.

    A subclass may have its own code for reading cells, and may return other cells the next time.
    """
    pandas = sys.modules.get("pandas")  # if there is a DataFrame, pandas was imported
    found = None
    with suppress(Exception):
        if pandas is not None and isinstance(X, pandas.DataFrame):
            return X if type(X) is pandas.DataFrame else pandas.DataFrame(X)
        found = hasattr(X, "columns")
    if found:
        rule = f"be an array or a pandas DataFrame, not a {type(X).__module__} table"
        raise fail("X", rule, remedy="Use X.to_pandas() or X.compute().")
    return as_cells(X)


def read_numbers(
    table: Table, rows: slice, columns: slice, out: FloatArray, label: Callable[[int], str]
) -> None:
    """Copy finite numbers into ``out``, or raise an error for the first invalid column."""
    if _read(table, rows, columns, out):
        return
    for k, column in enumerate(range(columns.start, columns.stop)):
        if not _read(table, rows, slice(column, column + 1), out[:, k : k + 1]):
            raise _not_numbers(label(column))


def read_target(y: Any, label: str) -> FloatArray:
    """Return a new float array of the entries of ``y``, of shape (n,) or (n, 1)."""
    cells = as_cells(y, "y")
    if cells.ndim == 1:
        cells = cells[:, None]
    if cells.ndim != 2 or cells.shape[1] != 1:
        raise fail("y", "have one dimension", cells.ndim, "One target is fitted at a time.")
    out = np.empty(cells.shape)
    with np.errstate(all="ignore"):  # a warning would be about the data
        read_numbers(ArrayTable(cells), slice(None), slice(0, 1), out, label=lambda _: label)
    return out[:, 0]


def room_for(n_rows: int, n_encoded: int, out: FloatArray | None) -> FloatArray:
    """Return ``out`` if it has the right type and shape, or a new array if it is None."""
    shape = (n_rows, n_encoded)
    if out is None:
        return np.empty(shape)
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.shape != shape:
        raise fail("out", f"be a float64 array of {n_encoded} columns and as many rows as X")
    return out


def _not_numbers(label: str) -> NotNumbers:
    """Return the error for a cell that is not a finite number."""
    error = fail(
        label,
        "hold finite numbers only: no NaN, no inf, and every argument must be "
        "a real number or a string that spells a number",
        remedy="Drop or fill the others by a public rule before this step.",
    )
    return NotNumbers(*error.args)


def read_levels(
    table: Table, rows: slice, column: int, levels: Levels, label: Callable[[int], str]
) -> NDArray[np.intp]:
    """Return the position of each cell's level, or raise an error that names the column."""
    found = None
    with suppress(Exception):
        found = table.positions(rows, column, levels)
    if found is None:
        rule = "hold cells that can be hashed and compared without an error"
        raise fail(label(column), rule, remedy="Replace the others by a public rule before.")
    return found


def positions_of(values: list[Any], levels: Levels) -> NDArray[np.intp]:
    """Return the position of each value's level, without warnings of values, or raise any error."""
    with silenced(kinds_of(values)):
        return levels.positions(values)


def _read(table: Table, rows: slice, columns: slice, out: FloatArray) -> bool:
    try:
        table.copy_numbers(rows, columns, out)
    except Exception:  # a cell's own code may raise anything
        return False
    # The sum is finite unless an entry is not, or large entries overflow: one pass, no temporary.
    if np.isfinite(out.sum()):
        return True
    finite = np.isfinite(out)
    if table.again:
        out[~finite] = 0.0
    return table.again or bool(finite.all())


def _places(columns: Any, names: tuple[str, ...] | None, n_columns: int) -> NDArray[np.intp]:
    if names is None:
        _check_count(len(columns), n_columns)
        return np.arange(n_columns)
    if not columns.is_unique:
        twice = columns[columns.duplicated()][0]
        raise fail("X", "have every column once", twice, "Drop or rename the second one.")
    missing = [name for name in names if name not in columns]
    if missing:
        remedy = f"Columns {missing} are declared but missing from X: add or undeclare them."
        raise fail("X", "have every declared column", remedy=remedy)
    declared = set(names)
    extra = [name for name in columns if name not in declared]
    if extra:
        remedy = f"Drop columns {extra}, for instance by X[list(domain.names)], or declare them."
        raise fail("X", "have declared columns only", remedy=remedy)
    places: NDArray[np.intp] = columns.get_indexer(list(names))
    return places


def _check_count(found: int, declared: int) -> None:
    if found != declared:
        remedy = "The domain declares every column that X must have, in this order."
        raise fail("X", f"have {declared} columns", found, remedy)
