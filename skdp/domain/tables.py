"""Tables in memory, and the reading of their cells.

`in_memory` makes a DataFrame or an array of what the user gives, `as_table` checks its columns, and
`read_numbers`, `read_levels` and `read_target` read its cells by blocks of rows.

Code outside this package runs in one ``try`` around one conversion, and its own error may quote a
cell: it is neither shown nor attached. Messages contain names, types and counts of columns, which
are public, but no cell, row or count of rows. Conversions are such that they do not warn: the
filters of warnings belong to the process.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from itertools import chain
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import sparray, spmatrix

from skdp.domain.columns import MISSING_TYPES, Levels, has_foreign, kind_of, kinds_of
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import converted, fail, optional_module

Frame: TypeAlias = Any  # a table or a column of pandas, polars, pyarrow or dask, or an array

# Dates, durations, complex numbers and records would be cast to floats, some with a warning.
NOT_REAL = frozenset("mMcV")
# Types of cells of an array of objects that are read as numbers. A duration of numpy is a Real.
_REAL_CELLS = (Real, Decimal, np.bool_, str, bytes, type(None))
_LISTS = frozenset({list, tuple})
_STRINGS = frozenset({str, np.str_})
_TEXTS = _STRINGS | {bytes, np.bytes_}
# Half a MiB of floats, so that a block stays in the cache for the next step.
_CACHED_CELLS = 2**16
# Taking rows from some columns of a frame takes a time that does not depend on their number.
_FEWEST_ROWS = 8192
# Bytes of a table that can be read only once.
MOST_BYTES = 2**31


# What the user gives


def in_memory(X: Frame) -> Frame:
    """Return a table in memory as a DataFrame or an array with two dimensions.

    Tables of polars, pyarrow and other Arrow libraries, dicts of columns, and records as one dict
    or a list of dicts, become DataFrames.
    """
    if type(X) is dict and X and not any(map(_is_column, X.values())):
        X = [X]
    if type(X) in _LISTS and kinds_of(X) == {dict}:
        if any(own.keys() != X[0].keys() for own in X):
            raise fail("the records of X", "have the same keys", None, "A missing cell is None.")
        X = {name: [own[name] for own in X] for name in X[0]}
    X = _frame_of(X) if type(X) is dict else from_arrow(X, "X", is_table=True)
    pandas = pandas_module()
    if pandas is not None and isinstance(X, pandas.DataFrame):
        # A subclass may have its own way of taking columns.
        return X if type(X) is pandas.DataFrame else pandas.DataFrame(X)
    # The cells of an array of dask would all be computed here.
    if hasattr(type(X), "columns") or hasattr(type(X), "__dask_graph__"):
        rule = f"be an array or a pandas DataFrame, not a {type(X).__module__} table"
        raise fail("X", rule, remedy="Use X.to_pandas() or X.compute().")
    cells = as_cells(X)
    if cells.ndim != 2:
        # Without a dimension: a path, a function, an iterator or a file, among others.
        remedy = (
            "Reshape your data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one row."
            if cells.ndim
            else f"Pass an array or a DataFrame: a {type(X).__name__} is not a table in memory."
        )
        raise fail("X", "have two dimensions", cells.ndim, remedy)
    return cells


def _is_column(value: object) -> bool:
    """Return whether an entry of a dict is a column, and not the cell of a single record."""
    return hasattr(type(value), "__len__") and not isinstance(value, str | bytes)


def as_cells(X: Frame, name: str = "X", *, one_type: bool = False) -> Array:
    """Return the cells of ``X`` as an array of numpy's own class, without a copy if possible.

    With ``one_type`` numpy may choose the type of a list. Otherwise it becomes an array of objects,
    as does a list of strings and anything else. Sparse and masked tables, complex numbers and
    records are errors. The type decides: whether any entry is masked, or has an imaginary part, is
    private.
    """
    if isinstance(X, sparray | spmatrix):
        raise fail(name, "be dense, not a sparse matrix", None, f"Use {name}.toarray().")
    X = cells = from_arrow(X, name)
    if not isinstance(X, np.ndarray):
        remedy = "Pass a numpy array, a pandas DataFrame or Series, or a list of numbers."
        rule = "have entries of one shape, and be readable"
        cells = converted(lambda: _array(X, one_type), name, rule, remedy)
    # Of a list of masked rows numpy drops the masks; a masked cell has no dimension.
    rows = X if type(X) in _LISTS else ()
    if any(isinstance(own, np.ma.MaskedArray) and own.ndim for own in (cells, *rows)):
        remedy = f"Fill it by a public rule: {name}.filled(value)."
        raise fail(name, "be an array without a mask", "MaskedArray", remedy)
    plain: Array = np.asarray(cells)
    if plain.dtype.kind == "c":
        remedy = "Complex data not supported: give real numbers or levels."
        raise fail(name, "be real", plain.dtype.name, remedy)
    if plain.dtype.kind == "V":
        remedy = "Pass each field as a separate column."
        raise fail(name, "not be a structured array", plain.dtype.name, remedy)
    return plain


def _array(X: Frame, one_type: bool) -> Array:
    if hasattr(X, "__array__"):
        return np.asanyarray(X)  # keeps a mask, which is an error later
    kinds = kinds_of(X) if type(X) in _LISTS else {object}
    # Cells of plain lists are taken as objects. Otherwise numpy would examine each cell for
    # being an array, and convert the numbers of a mixed list to strings.
    if kinds <= _LISTS and len(set(map(len, X))) == 1:
        cells = np.fromiter(chain.from_iterable(X), dtype=object).reshape(len(X), -1)
    elif one_type and type(X) in _LISTS:
        cells = np.fromiter(X, dtype=object)
    else:
        return np.asarray(X, dtype=object)
    kinds = kinds_of(cells.flat)
    if any(issubclass(kind, (list, tuple, np.ndarray)) for kind in kinds):
        cells = np.asarray(X, dtype=object)
    # Among texts, numpy would convert numbers and bytes to texts because of other cells.
    is_mixed = any(kinds & texts and kinds - texts for texts in (_STRINGS, _TEXTS))
    # Of these numpy makes an array of one type; values that are not real keep their type.
    is_one = not is_mixed and not has_foreign(kinds - {*_LISTS, np.datetime64, np.timedelta64})
    return np.asarray(X) if one_type and is_one else cells


def from_arrow(X: Frame, name: str, is_table: bool = False) -> Frame:
    """Return a table or a column of an Arrow library in types of pandas; others unchanged.

    These are polars, pyarrow, DuckDB, narwhals and all others with the Arrow interface. A lazy
    frame is collected. The kind of each column follows from its Arrow type, and no cell changes how
    another one is read: integers with nulls become nullable integers and not floats.
    """
    X = native(X)
    kind, pandas = type(X), pandas_module()
    is_lazy = kind.__module__.startswith("polars.") and hasattr(kind, "collect")
    is_stream = hasattr(kind, "__arrow_c_stream__")
    if not (is_lazy or is_stream or hasattr(kind, "__arrow_c_array__")) or (
        pandas is not None and issubclass(kind, pandas.DataFrame | pandas.Series)
    ):
        return X
    use = f"to read {name} from a table or a column of {kind.__module__.partition('.')[0]}"
    pyarrow = optional_module("pyarrow", use, "arrow")
    optional_module("pandas", use, "arrow")

    def read() -> Frame:
        table = X.collect() if is_lazy else X
        if not (is_table or hasattr(kind, "columns")):
            column = pyarrow.chunked_array(table if is_stream else [table])
            return arrow_frame(pyarrow.table([column], names=[name])).iloc[:, 0]
        is_polars = kind.__module__.startswith("polars.")
        if is_polars or not is_stream or hasattr(kind, "num_rows"):
            return arrow_frame(pyarrow.table(table))
        # The size of a stream is not known before it was read.
        reader, batches, size = pyarrow.RecordBatchReader.from_stream(table), [], 0
        for batch in reader:
            size += batch.nbytes
            if size > MOST_BYTES:
                rule = f"need at most {MOST_BYTES} bytes to be read once"
                remedy = "Write it to a Parquet file, and give the path, or give a function of"
                raise fail("X", rule, None, f"{remedy} batches.")
            batches.append(batch)
        return arrow_frame(pyarrow.Table.from_batches(batches, reader.schema))

    rule = "be a table or a column that pyarrow can read"
    return converted(read, name, rule, "Pass an array.")


def native(X: Frame) -> Frame:
    """Return what a frame or a column of narwhals wraps; anything else is returned unchanged."""
    return X.to_native() if type(X).__module__.startswith("narwhals.") else X


def arrow_frame(table: Frame) -> Frame:
    """Return a table or a batch of pyarrow as a DataFrame. Any error of pyarrow may be raised.

    Columns of numbers without nulls are not copied.
    """
    import pandas as pd
    from pyarrow import types

    with_nulls = {own.type for own in table.columns if own.null_count}

    def mapped(kind: object) -> Any:
        if types.is_date(kind):  # otherwise they would be objects, of an unknown kind
            return pd.ArrowDtype(kind)
        if kind not in with_nulls or not (types.is_integer(kind) or types.is_boolean(kind)):
            return None
        name = str(kind).replace("int", "Int").replace("u", "U")
        return pd.api.types.pandas_dtype("boolean" if name == "bool" else name)

    return table.to_pandas(types_mapper=mapped, ignore_metadata=True, split_blocks=True)


def _frame_of(columns: dict[object, object]) -> Frame:
    """Return a dict of columns as a DataFrame. Lists become columns of objects."""
    pandas = optional_module("pandas", "to read a dict of columns", "pandas")
    found = {}
    for name, given in columns.items():
        cells = from_arrow(given, str(name))
        if isinstance(cells, pandas.Series | pandas.api.extensions.ExtensionArray):
            found[name] = pandas.Series(cells).reset_index(drop=True)
            continue
        array = as_cells(cells, f"column {name!r}")
        if array.ndim != 1:
            raise fail(f"column {name!r}", "have one dimension", array.ndim)
        # Without a type pandas would infer one from the cells.
        found[name] = pandas.Series(array, dtype=object if array.dtype.kind in "OUS" else None)
    if len(set(map(len, found.values()))) > 1:
        raise fail("X", "have columns of the same length")
    return pandas.DataFrame(found)


def pandas_module() -> Any:
    """Return pandas, or None: if there is a DataFrame, it was imported."""
    return sys.modules.get("pandas")


def kind_of_dtype(dtype: object) -> str | None:
    """Return the kind of the cells of an array, from its type alone, or None if unknown."""
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return "dates" if np.datetime_data(dtype)[0] in "YMWD" else "datetimes"
    if (categories := getattr(dtype, "categories", None)) is not None:
        return kind_of_dtype(categories.dtype)
    kind = getattr(dtype, "type", None)
    return kind_of(kind) if isinstance(kind, type) else None


# Tables with the columns that a domain declares


@dataclass(frozen=True)
class ArrayTable:
    """Columns of an array of numpy, (n, n_columns), in the order of the declared ones."""

    cells: Array

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
        """Whether the cells are numbers, which can stay where they are."""
        return self.cells.dtype.kind in "biuf"

    def taken(self, rows: slice | NDArray[np.intp]) -> ArrayTable:
        """Return some rows: a view of a slice, or a copy."""
        return ArrayTable(self.cells[rows])

    def floats(self, rows: slice, columns: slice) -> Array:
        return self.cells[rows, columns]

    def copy_numbers(self, rows: slice, columns: slice, out: FloatArray, missing: bool) -> None:
        """Copy cells into ``out`` as floats, or raise any error; see `copy_reals`."""
        copy_reals(self.cells[rows, columns], out, missing)

    def positions(self, rows: slice, column: int, levels: Levels) -> Array:
        """Return the position of the level of each cell of a column, or raise any error."""
        return levels.positions_in(self.cells[rows, column])

    def dtype(self, column: int) -> object:
        return self.cells.dtype

    def column(self, column: int) -> Array:
        return np.asarray(self.cells[:, column])


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows with the positions of levels in place of indicators.

    There is an array of positions for each column with two levels or more, in which 0 is the first
    one, and for each indicator of missing numbers.
    """

    numbers: FloatArray  # (n, n_numbers)
    levels: tuple[Array, ...]  # of unsigned integers, (n,) each

    @property
    def n_rows(self) -> int:
        return len(self.numbers)

    def taken(self, rows: slice | NDArray[np.intp]) -> EncodedRows:
        return EncodedRows(self.numbers[rows], tuple(own[rows] for own in self.levels))


@dataclass(frozen=True)
class FrameColumn:
    """A column of a DataFrame. Its methods may raise any error."""

    series: Frame

    @cached_property
    def cells(self) -> Array | None:
        """The column, if it is an array of numpy and not of dates."""
        dtype = self.series.dtype
        is_plain = isinstance(dtype, np.dtype) and dtype.kind not in NOT_REAL
        return self.series.to_numpy() if is_plain else None

    @cached_property
    def categories(self) -> list[Hashable] | None:
        array = self.series.array
        is_categorical = type(array) is pandas_module().Categorical
        return array.categories.tolist() if is_categorical else None

    @cached_property
    def words(self) -> Frame:
        """Arrow array of a column of strings."""
        array, arrays = self.series.array, pandas_module().arrays
        if type(array) not in (arrays.ArrowStringArray, arrays.ArrowExtensionArray):
            return None
        found = array.__arrow_array__()
        return found if str(found.type) in ("string", "large_string") else None

    @cached_property
    def _found(self) -> dict[Levels, Array]:
        """Positions of the categories, and of a missing cell."""
        return {}

    def copy_numbers(self, rows: slice, out: FloatArray, missing: bool) -> None:
        """Copy cells into ``out`` as floats; see `copy_reals`."""
        cells = np.asarray(self.series.iloc[rows]) if self.cells is None else self.cells[rows]
        copy_reals(cells, out, missing)

    def positions(self, rows: slice, levels: Levels) -> Array:
        if self.cells is not None:
            return levels.positions_in(self.cells[rows])
        if self.categories is not None:
            if levels not in self._found:
                self._found[levels] = levels.positions([*self.categories, None])
            # The code of a missing cell is -1.
            return np.asarray(self._found[levels][self.series.array.codes[rows]])
        if self.words is not None and levels.is_plain:
            return levels.positions_in_arrow(self.words[rows])
        return levels.positions(self.series.iloc[rows].tolist())


@dataclass(frozen=True)
class FrameTable:
    """Columns of a DataFrame, in the order of the declared ones."""

    frame: Frame
    places: NDArray[np.intp]
    start: int
    stop: int
    # By the positions of declared columns; they are kept, because taking a column is slow.
    columns: dict[int, FrameColumn] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    @property
    def block(self) -> int:
        """Number of rows to encode at a time."""
        return max(_FEWEST_ROWS, _CACHED_CELLS // max(1, len(self.places)))

    @property
    def is_plain(self) -> bool:
        """Whether all columns are arrays of numbers or categories, which can stay where they are.

        Columns of other types take longer to read.
        """
        return all(
            own.categories is not None if own.cells is None else own.cells.dtype.kind in "biuf"
            for own in map(self._column, range(len(self.places)))
        )

    def taken(self, rows: slice | NDArray[np.intp]) -> FrameTable:
        if isinstance(rows, slice):
            rows = self._moved(rows)
            return replace(self, start=rows.start, stop=rows.stop)
        frame = self.frame.iloc[self.start + rows]
        return FrameTable(frame, self.places, 0, len(rows))

    def copy_numbers(self, rows: slice, columns: slice, out: FloatArray, missing: bool) -> None:
        """Copy cells into ``out`` as floats, or raise any error; see `copy_reals`."""
        if self._cells is not None:
            return copy_reals(self._cells[self._moved(rows), columns], out, missing)
        for k, column in enumerate(range(columns.start, columns.stop)):
            self._column(column).copy_numbers(self._moved(rows), out[:, k], missing)

    def floats(self, rows: slice, columns: slice) -> list[Array] | None:
        """Return cells of columns without a copy, or None if one is no array of numpy."""
        cells = [self._column(k).cells for k in range(columns.start, columns.stop)]
        own = self._moved(rows)
        found = [column[own] for column in cells if column is not None]
        return found if len(found) == len(cells) else None

    def positions(self, rows: slice, column: int, levels: Levels) -> Array:
        return self._column(column).positions(self._moved(rows), levels)

    def dtype(self, column: int) -> object:
        return self._column(column).series.dtype

    def column(self, column: int) -> Frame:
        return self._column(column).series

    @cached_property
    def _cells(self) -> Array | None:
        """All columns, if they are the declared ones and pandas has them in one array."""
        row = self.frame.iloc[:1].to_numpy()
        is_known = row.dtype.kind in "biuf" and self.places.tolist() == [*range(row.size)]
        is_one = is_known and np.may_share_memory(row, self.frame.iloc[:, 0].to_numpy())
        return self.frame.to_numpy() if is_one else None

    def _moved(self, rows: slice) -> slice:
        start, stop, _ = rows.indices(self.n_rows)
        return slice(self.start + start, self.start + stop)

    def _column(self, column: int) -> FrameColumn:
        if column not in self.columns:
            self.columns[column] = FrameColumn(self.frame.iloc[:, self.places[column]])
        return self.columns[column]


RawTable: TypeAlias = ArrayTable | FrameTable
Table: TypeAlias = RawTable | EncodedRows


def with_declared(X: Frame, names: Sequence[str] | None) -> Frame:
    """Return a table without its other columns, if it has all those that are named."""
    if names is None or not hasattr(X, "columns") or not {*names} < {*X.columns}:
        return X
    return X.loc[:, [name in names for name in X.columns]]


def as_table(X: Frame, names: tuple[str, ...] | None, n_columns: int) -> Table:
    """Return ``X`` as a table after a check of its columns; a table is returned unchanged."""
    if isinstance(X, Table):
        return X
    X = in_memory(X)
    if isinstance(X, np.ndarray):
        _check_count(X.shape[1], n_columns)
        return ArrayTable(X)
    columns = X.columns
    if names is None:
        _check_count(len(columns), n_columns)
        return FrameTable(X, np.arange(n_columns), 0, len(X))
    # A dict, because pandas changes the filters of warnings where it looks up names.
    place = {name: k for k, name in enumerate(columns)}
    if len(place) < len(columns):
        twice = columns[columns.duplicated()][0]
        raise fail("X", "have each column only once", twice, "Drop or rename the second one.")
    if missing := [name for name in names if name not in place]:
        remedy = f"Columns {missing} are missing from X: add them, or remove them from the domain."
        raise fail("X", "have every declared column", remedy=remedy)
    declared = set(names)
    if extra := [name for name in columns if name not in declared]:
        remedy = f"Drop columns {extra}, for example by X.drop(columns=[...]), or declare them."
        raise fail("X", "have only declared columns", remedy=remedy)
    places = np.array([place[name] for name in names], dtype=np.intp)
    return FrameTable(X, places, 0, len(X))


def _check_count(found: int, declared: int) -> None:
    if found != declared:
        remedy = "The domain declares every column that X must have, in this order."
        raise fail("X", f"have {declared} columns", found, remedy)


# Reading of cells

_DROP = "Drop or fill the other cells by a public rule before this step"
_REMEDIES = {
    "strings": f"{_DROP}, or declare its levels: Domain({{{{{{0}}: ['a', 'b']}}}}).",
    "datetimes": "Use days since a public date: (X[{0}] - pandas.Timestamp('2000-01-01')).dt.days.",
    "dates": "Use days since a public date: (x - datetime.date(2000, 1, 1)).days for x in X[{0}].",
    "durations": "Convert to seconds: X[{0}].dt.total_seconds().",
}


class NotNumbers(ValueError, TypeError):
    """Error for a column of numbers with any other cell.

    It is a TypeError too, because scikit-learn expects one for cells such as dicts.
    """


def read_numbers(
    table: RawTable,
    rows: slice,
    columns: slice,
    out: FloatArray,
    label: Callable[[int], str],
    ruled: NDArray[np.bool_] | None = None,
) -> None:
    """Copy finite numbers into ``out``, or raise an error for the first invalid column.

    ``ruled`` are the columns with a rule for missing cells, which are copied as NaN. None stands
    for columns that cannot have such a rule.
    """
    if _read(table, rows, columns, out, ruled):
        return
    for k, column in enumerate(range(columns.start, columns.stop)):
        own = None if ruled is None else ruled[k : k + 1]
        if _read(table, rows, slice(column, column + 1), out[:, k : k + 1], own):
            continue
        kinds = "only finite numbers: no NaN, no inf"
        name = _label(table, column, label)
        key = name.removeprefix("column ") if name.startswith("column ") else "'name'"
        remedy = _REMEDIES.get(kind_of_dtype(table.dtype(column)) or "", "").format(key)
        if own is not None and own.all():
            kinds = "only finite numbers and missing cells: no inf"
        elif own is not None and not remedy:
            rule = f'missing={{{label(column).removeprefix("column ")}: "indicator"}}'
            missing = f"For missing cells declare {rule} in the domain"
            remedy = f"{missing}, or a number within the bounds. {_DROP}."
        argument = "every argument must be a real number or a string that represents a number"
        error = fail(name, f"contain {kinds}, and {argument}", remedy=remedy or f"{_DROP}.")
        found = NotNumbers(*error.args)
        found.__dict__.update(error.__dict__)
        raise found


def _read(
    table: RawTable, rows: slice, columns: slice, out: FloatArray, ruled: NDArray[np.bool_] | None
) -> bool:
    missing = ruled is not None and bool(ruled.any())
    try:
        table.copy_numbers(rows, columns, out, missing)
    except Exception:  # a cell's own code may raise anything
        return False
    # It is finite unless an entry is not, or squares overflow: one pass, no temporary.
    if math.isfinite(np.vdot(out, out)):
        return True
    valid = np.isfinite(out)
    if missing:
        valid |= np.isnan(out) & ruled
    return bool(valid.all())


def read_levels(
    table: RawTable, rows: slice, column: int, levels: Levels, label: Callable[[int], str]
) -> Array:
    """Return the position of each cell's level, or raise an error that names the column."""
    dtype, declared = table.dtype(column), levels.kind
    found = kind_of_dtype(dtype)
    if None not in (declared, found) and declared != found:  # all would be read as `other`
        rule = f"contain {declared}, as its declared levels do"
        remedy = f"Convert the column to {declared} by a public rule, or declare levels as {found}."
        raise fail(_label(table, column, label), rule, str(dtype), remedy)
    with suppress(Exception):  # a cell's own code may raise anything
        return table.positions(rows, column, levels)
    rule = "contain cells that can be hashed and compared without an error"
    remedy = "Replace the other cells by a public rule first."
    raise fail(_label(table, column, label), rule, remedy=remedy)


def read_target(y: object, label: str) -> FloatArray:
    """Return a new float array of the entries of ``y``, of shape (n,) or (n, 1)."""
    cells = as_column(y)
    out = np.empty((len(cells), 1))
    with np.errstate(all="ignore"):  # a warning would be about the data
        table = ArrayTable(cells[:, None])
        read_numbers(table, slice(None), slice(0, 1), out, label=lambda _: label)
    return out[:, 0]


def as_column(y: object, name: str = "y") -> Array:
    """Return an array-like of shape (n,) or (n, 1) as an array of shape (n,)."""
    cells = as_cells(y, name)
    if cells.ndim == 2 and cells.shape[1] == 1:
        return cells[:, 0]
    if cells.ndim != 1:
        raise fail(name, "be a 1d array", cells.ndim, "Pass one entry for each row.")
    return cells


def copy_reals(cells: Array, out: NDArray[np.float64], missing: bool = False) -> None:
    """Copy cells into ``out`` as floats; raise any error if one is not a real number.

    None is copied as NaN. With ``missing`` so are NA, NaT and empty texts.
    """
    if missing and cells.dtype.kind in "OUST":
        kinds = kinds_of(cells.flat)
        texts, absent = kinds & _TEXTS, {kind for kind in kinds if kind.__name__ in MISSING_TYPES}
        if texts | absent:
            found = [
                math.nan if (kind := type(cell)) in absent or (kind in texts and not cell) else cell
                for cell in cells.flat
            ]
            cells = np.fromiter(found, dtype=object).reshape(cells.shape)
    if cells.dtype.kind in NOT_REAL:
        raise TypeError("not real numbers")
    if cells.dtype.kind == "O":
        refuse_not_real(kinds_of(cells.flat))
    with np.errstate(all="ignore"):  # numbers that are too large become inf, without a warning
        out[...] = cells


def refuse_not_real(kinds: set[type]) -> None:
    """Raise unless all types of cells are of real numbers, texts or None."""
    for kind in kinds:
        if not issubclass(kind, _REAL_CELLS) or issubclass(kind, np.timedelta64):
            raise TypeError("not real numbers")


def _label(table: RawTable, column: int, label: Callable[[int], str]) -> str:
    """Return the text for a column, by its name in the table if that is a string."""
    name = table.frame.columns[table.places[column]] if isinstance(table, FrameTable) else None
    return f"column {str(name)!r}" if isinstance(name, str) else label(column)
