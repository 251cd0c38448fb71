"""Reading of cells: unsupported kinds are rejected by type, and foreign errors do not pass.

An error of a conversion may quote a cell. Callers learn only that reading failed, and raise an
error with a message of their own. Conversions are such that they do not warn: the filters of
warnings belong to the process and are not changed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from numbers import Number, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import sparray, spmatrix

from skdp._checks import converted, fail, optional_module

# Dates, durations, complex numbers and records would be cast to floats, some with a warning.
NOT_REAL = frozenset("mMcV")
# Types of cells of an array of objects that are read as numbers. A duration of numpy is a Real.
_REAL_CELLS = (Real, Decimal, np.bool_, str, bytes, type(None))
# Reading a cell of these types runs no foreign code.
_OWN = frozenset(
    {type(None), bool, int, float, str, bytes, np.bool_, np.str_, np.bytes_}
    | {np.dtype(code).type for code in "bhilqBHILQefdg"}
)
_LISTS = frozenset({list, tuple})
_STRINGS = frozenset({str, np.str_})
_TEXTS = _STRINGS | {bytes, np.bytes_}
# pandas' NA and NaT are recognised by the names of their types: pandas may not be installed.
_MISSING = frozenset({"NAType", "NaTType"})
# Numpy makes an array of one type of lists of these; values that are not real keep their type.
_ONE_TYPE = _OWN | _LISTS | {np.datetime64, np.timedelta64}

# Durations of numpy are integers to Python, and datetimes are dates: the first match counts.
_KINDS: tuple[tuple[Any, str], ...] = (
    (str, "strings"),
    (bytes, "bytes"),
    ((timedelta, np.timedelta64), "durations"),
    ((datetime, np.datetime64), "datetimes"),
    (date, "dates"),
    ((Number, np.bool_), "numbers"),
)


def as_cells(X: Any, name: str = "X", *, one_type: bool = False) -> NDArray[Any]:
    """Return the cells of ``X`` as an array of numpy's own class, without a copy if possible.

    Parameters
    ----------
    X : array-like
    name : str
        Name in error messages.
    one_type : bool, default=False
        Whether numpy may choose the type of a list. Otherwise it becomes an array of objects, as
        does a list of strings and anything else.

    Raises
    ------
    ValueError
        If ``X`` cannot be read, or is a masked array or an array of complex numbers or records.
        The type decides: whether any entry is masked, or has an imaginary part, is private.
    """
    X = cells = from_arrow(X, name)
    if not issubclass(type(X), np.ndarray):
        remedy = "Give a numpy array, a pandas DataFrame or Series, or a list of numbers."
        rule = "have entries of one shape, and be readable"
        cells = converted(lambda: _array(X, one_type), name, rule, remedy)
    if issubclass(type(cells), np.ma.MaskedArray) or _has_masked_rows(X):
        remedy = f"Fill it by a public rule: {name}.filled(value)."
        raise fail(name, "be an array without a mask", "MaskedArray", remedy)
    # A view, because other code may set the shape of the array in place.
    plain: NDArray[Any] = np.asarray(cells).view()
    if plain.dtype.kind == "c":
        remedy = "Complex data not supported: give real numbers or levels."
        raise fail(name, "be real", plain.dtype.name, remedy)
    if plain.dtype.kind == "V":
        remedy = "Give each field as a column of its own."
        raise fail(name, "not be a structured array", plain.dtype.name, remedy)
    return plain


def _array(X: Any, one_type: bool) -> Any:
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
    return np.asarray(X) if one_type and kinds <= _ONE_TYPE and not is_mixed else cells


def _has_masked_rows(X: Any) -> bool:
    """Return whether a list holds masked arrays, whose mask numpy drops."""
    if type(X) not in _LISTS:
        return False
    masked = [row for row in X if issubclass(type(row), np.ma.MaskedArray)]
    return any(np.ndarray.ndim.__get__(row) for row in masked)  # others are cells


def kinds_of(cells: Iterable[Any]) -> set[type]:
    """Return the types of cells."""
    return set(map(type, cells))


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, NA or NaT."""
    kind = type(cell)
    if issubclass(kind, (float, np.floating)):
        return math.isnan(cell)
    if issubclass(kind, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(cell))
    return cell is None or kind.__name__ in _MISSING


def missing_in(cells: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return which cells are NaN or NaT; None for arrays of other types."""
    kind = cells.dtype.kind
    return np.isnan(cells) if kind == "f" else np.isnat(cells) if kind in "mM" else None


def has_foreign(kinds: set[type]) -> bool:
    """Return whether reading a cell of one of these types runs foreign code."""
    return not kinds <= _OWN


def refuse_not_real(kinds: set[type]) -> None:
    """Raise unless all types of cells are of real numbers, texts or None."""
    for kind in kinds:
        if not issubclass(kind, _REAL_CELLS) or issubclass(kind, np.timedelta64):
            raise TypeError("not real numbers")


def copy_reals(cells: NDArray[Any], out: NDArray[np.float64], missing: bool = False) -> None:
    """Copy cells into ``out`` as floats; raise any error if one is not a real number.

    None is copied as NaN. With ``missing`` so are NA, NaT and empty texts.
    """
    if missing and cells.dtype.kind in "OUST":
        cells = _with_nan(cells)
    if cells.dtype.kind in NOT_REAL:
        raise TypeError("not real numbers")
    if cells.dtype.kind == "O":
        refuse_not_real(kinds_of(cells.flat))
    with np.errstate(all="ignore"):  # numbers that are too large become inf, without a warning
        out[...] = cells


def _with_nan(cells: NDArray[Any]) -> NDArray[Any]:
    """Return objects or texts with NaN in place of missing cells and empty texts."""
    kinds = kinds_of(cells.flat)
    texts, missing = kinds & _TEXTS, {kind for kind in kinds if kind.__name__ in _MISSING}
    if not texts | missing:
        return cells
    found = [
        math.nan if (kind := type(cell)) in missing or (kind in texts and not cell) else cell
        for cell in cells.flat
    ]
    return np.fromiter(found, dtype=object).reshape(cells.shape)


def is_sparse(X: Any) -> bool:
    """Return whether ``X`` is a sparse array, from its type and not from its attributes."""
    return issubclass(type(X), (sparray, spmatrix))


def plain(X: Any) -> Any:
    """Return the cells of ``X`` as a DataFrame or an array, not of a subclass.

    A subclass may have its own code for reading cells, and may return other cells the next time.
    Tables of polars and pyarrow and dicts of columns become DataFrames.
    """
    X = in_memory(X)
    pandas, found = pandas_module(), None
    with suppress(Exception):
        if pandas is not None and isinstance(X, pandas.DataFrame):
            return X if type(X) is pandas.DataFrame else pandas.DataFrame(X)
        # The cells of an array of dask would all be computed here.
        found = hasattr(X, "columns") or hasattr(type(X), "__dask_graph__")
    if found:
        rule = f"be an array or a pandas DataFrame, not a {type(X).__module__} table"
        raise fail("X", rule, remedy="Use X.to_pandas() or X.compute().")
    if type(X) in _LISTS and dict in kinds_of(X):
        remedy = "Give pandas.DataFrame(X), with a dtype for each column."
        raise fail("X", "be a table and not a list of dicts", None, remedy)
    cells = as_cells(X)
    if cells.ndim == 0:  # a path, a function, an iterator or a file, among others
        remedy = f"Give an array or a DataFrame: a {type(X).__name__} is no table in memory."
        raise fail("X", "have two dimensions", 0, remedy)
    return cells


def in_memory(X: Any) -> Any:
    """Return tables of polars and pyarrow and dicts of columns as DataFrames, others unchanged."""
    return _frame_of(X) if type(X) is dict else from_arrow(X, "X")


def from_arrow(X: Any, name: str) -> Any:
    """Return a table or a column of polars, pyarrow or another Arrow library in types of pandas.

    A lazy frame is collected. Anything else is returned unchanged. The kind of each column follows
    from its Arrow type, and no cell changes how another one is read: integers with nulls become
    nullable integers and not floats.
    """
    kind, pandas = type(X), pandas_module()
    is_lazy = kind.__module__.startswith("polars.") and hasattr(kind, "collect")
    is_arrow = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")
    if not (is_lazy or is_arrow) or (
        pandas is not None and issubclass(kind, pandas.DataFrame | pandas.Series | pandas.Index)
    ):
        return X
    use = f"to read {name} from a table or a column of {kind.__module__.partition('.')[0]}"
    pyarrow = optional_module("pyarrow", use, "arrow")
    optional_module("pandas", use, "arrow")

    def read() -> Any:
        table = X.collect() if is_lazy else X
        if hasattr(kind, "columns"):
            return arrow_frame(pyarrow.table(table))
        column = pyarrow.chunked_array(table if hasattr(kind, "__arrow_c_stream__") else [table])
        return arrow_frame(pyarrow.table([column], names=[name])).iloc[:, 0]

    rule = "be a table or a column that pyarrow can read"
    return converted(read, name, rule, "Give an array.")


def arrow_frame(table: Any) -> Any:
    """Return a table or a batch of pyarrow as a DataFrame. Any error of pyarrow may be raised.

    Columns of numbers without nulls are not copied.
    """
    import pandas as pd
    from pyarrow import types

    with_nulls = {own.type for own in table.columns if own.null_count}

    def mapped(kind: Any) -> Any:
        if types.is_date(kind):  # otherwise they would be objects, of an unknown kind
            return pd.ArrowDtype(kind)
        if kind not in with_nulls or not (types.is_integer(kind) or types.is_boolean(kind)):
            return None
        name = str(kind).replace("int", "Int").replace("u", "U")
        return pd.api.types.pandas_dtype("boolean" if name == "bool" else name)

    return table.to_pandas(types_mapper=mapped, ignore_metadata=True, split_blocks=True)


def _frame_of(columns: dict[Any, Any]) -> Any:
    """Return a dict of columns as a DataFrame. Lists become columns of objects."""
    pandas = optional_module("pandas", "to read a dict of columns", "pandas")
    found = {name: _column_of(name, own, pandas) for name, own in columns.items()}
    if len(set(map(len, found.values()))) > 1:
        raise fail("X", "have columns of one length")
    return pandas.DataFrame(found)


def _column_of(name: Any, cells: Any, pandas: Any) -> Any:
    cells = from_arrow(cells, str(name))
    if isinstance(cells, pandas.Series | pandas.api.extensions.ExtensionArray):
        return pandas.Series(cells).reset_index(drop=True)
    array = as_cells(cells, f"column {name!r}")
    if array.ndim != 1:
        raise fail(f"column {name!r}", "have one dimension", array.ndim)
    # Without a type pandas would infer one from the cells.
    return pandas.Series(array, dtype=object if array.dtype.kind in "OUS" else array.dtype)


def kind_of(kind: type) -> str | None:
    """Return "strings", "numbers" or another kind of the cells of a type, or None if unknown."""
    return next((name for base, name in _KINDS if issubclass(kind, base)), None)


def kind_of_dtype(dtype: Any) -> str | None:
    """Return the kind of the cells of an array, from its type alone, or None if unknown."""
    with suppress(Exception):  # the type of an extension array may be foreign code
        if isinstance(dtype, np.dtype) and dtype.kind == "M":
            return "dates" if np.datetime_data(dtype)[0] in "YMWD" else "datetimes"
        if (categories := getattr(dtype, "categories", None)) is not None:
            return kind_of_dtype(categories.dtype)
        return kind_of(dtype.type)
    return None


def pandas_module() -> Any:
    """Return pandas, or None: if there is a DataFrame, it was imported."""
    return sys.modules.get("pandas")
