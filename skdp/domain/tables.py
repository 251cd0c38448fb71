"""Reading a table by blocks of rows: an array by position, a DataFrame by name.

Errors tell names, types and counts of columns, which are public; never a value, a row or a
count of rows. They are raised outside the ``except`` clause, since the error that numpy raises
quotes the value it could not read, and would travel along as ``__context__``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._checks import fail
from skdp.domain.columns import FloatArray

# Dates, durations and complex numbers would be cast to floats without a complaint.
NOT_REAL = frozenset("mMc")

# A quarter of a MiB of floats: what is written once is still in the cache for the next step.
CACHED_CELLS = 2**15


class NotNumbers(ValueError, TypeError):
    """A number column holds something else: one error, whatever it was.

    It is a TypeError too, because scikit-learn expects one for cells such as dicts.
    """


@dataclass(frozen=True)
class ArrayTable:
    """Columns of an array, in the order of the declared ones."""

    cells: NDArray[Any]

    @property
    def n_rows(self) -> int:
        """Number of rows, which may be private."""
        return len(self.cells)

    @property
    def block(self) -> int:
        """Number of rows to encode at a time: as many as stay in the processor's cache."""
        n_columns: int = self.cells.shape[1]
        return max(1, CACHED_CELLS // max(1, n_columns))

    def numbers(self, rows: slice, columns: slice) -> NDArray[Any]:
        """Return cells of a type that floats can be assigned from, or raise."""
        _refuse_kinds([self.cells.dtype])
        return self.cells[rows, columns]

    def values(self, rows: slice, column: int) -> list[Any]:
        """Return the cells of one column as Python objects."""
        values: list[Any] = self.cells[rows, column].tolist()
        return values


@dataclass(frozen=True)
class FrameTable:
    """Columns of a DataFrame, in the order of the declared ones."""

    frame: Any
    positions: NDArray[np.intp]
    block: int = 8192  # taking rows from a frame costs far more than from an array

    @property
    def n_rows(self) -> int:
        """Number of rows, which may be private."""
        n_rows: int = len(self.frame)
        return n_rows

    def numbers(self, rows: slice, columns: slice) -> NDArray[Any]:
        """Return cells of a type that floats can be assigned from, or raise."""
        cells = self.frame.iloc[rows, self.positions[columns]]
        _refuse_kinds(cells.dtypes)
        numbers: NDArray[Any] = cells.to_numpy(np.float64, na_value=np.nan)
        return numbers

    def values(self, rows: slice, column: int) -> list[Any]:
        """Return the cells of one column as Python objects."""
        values: list[Any] = self.frame.iloc[rows, self.positions[column]].tolist()
        return values


Table: TypeAlias = ArrayTable | FrameTable


def as_table(X: object, names: tuple[str, ...] | None, n_columns: int) -> Table:
    """Check the columns of ``X`` against the declared ones; no cell is read."""
    pandas = sys.modules.get("pandas")  # whoever holds a DataFrame has imported pandas
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return FrameTable(X, _positions(X.columns, names, n_columns))
    if issparse(X) or hasattr(X, "columns"):
        kind = "a sparse matrix" if issparse(X) else f"a {type(X).__module__} table"
        remedy = "Use X.toarray()." if issparse(X) else "Use X.to_pandas() or X.compute()."
        raise fail("X", f"be an array or a pandas DataFrame, not {kind}", remedy=remedy)
    cells = as_cells(X)
    if cells.ndim != 2:
        remedy = "Reshape your data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one row."
        raise fail("X", "be of 2 dimensions", cells.ndim, remedy)
    if cells.dtype.kind == "c":
        raise fail("X", "be real", remedy="Complex data not supported.")
    _check_count(cells.shape[1], n_columns)
    return ArrayTable(cells)


def as_cells(X: Any) -> NDArray[Any]:
    """Return an array of the cells of ``X``, without a copy where there is one already."""
    # As objects, or numpy would turn the numbers of a mixed list into strings.
    return np.asarray(X, dtype=None if hasattr(X, "__array__") else object)


def read_numbers(
    table: Table, rows: slice, columns: slice, out: FloatArray, label: Callable[[int], str]
) -> None:
    """Copy finite numbers into ``out``, or raise an error that names the first bad column."""
    if _read(table, rows, columns, out):
        return
    for k, column in enumerate(range(columns.start, columns.stop)):
        if not _read(table, rows, slice(column, column + 1), out[:, k : k + 1]):
            raise not_numbers(label(column))


def read_target(y: Any, label: str) -> FloatArray:
    """Return a new float array of the entries of ``y``, of shape (n,) or (n, 1)."""
    cells = as_cells(y)
    if cells.ndim == 1:
        cells = cells[:, None]
    if cells.ndim != 2 or cells.shape[1] != 1:
        raise fail("y", "have one dimension", cells.ndim, "One target is fitted at a time.")
    out = np.empty(cells.shape)
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


def not_numbers(label: str) -> NotNumbers:
    """Build the error for a cell that is not a finite number."""
    error = fail(
        label,
        "hold finite numbers only: no NaN, no inf, and every argument must be "
        "a real number or a string that spells a number",
        remedy="Drop or fill the others by a public rule before this step.",
    )
    return NotNumbers(*error.args)


def _read(table: Table, rows: slice, columns: slice, out: FloatArray) -> bool:
    try:
        out[...] = table.numbers(rows, columns)
    except (TypeError, ValueError, OverflowError):
        return False
    # The sum is finite unless an entry is not, or large entries overflow: one pass, no temporary.
    return bool(np.isfinite(out.sum()) or np.isfinite(out).all())


def _refuse_kinds(dtypes: Sequence[Any]) -> None:
    if any(getattr(dtype, "kind", "O") in NOT_REAL for dtype in dtypes):
        raise TypeError("not real numbers")


def _positions(columns: Any, names: tuple[str, ...] | None, n_columns: int) -> NDArray[np.intp]:
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
    positions: NDArray[np.intp] = columns.get_indexer(list(names))
    return positions


def _check_count(found: int, declared: int) -> None:
    if found != declared:
        remedy = "The domain declares every column that X must have, in this order."
        raise fail("X", f"have {declared} columns", found, remedy)
