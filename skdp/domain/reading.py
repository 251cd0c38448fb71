"""Reading of numbers and levels from tables, with errors that disclose no cell.

Error messages contain names, types and counts of columns, which are public, but no value, row or
count of rows. Errors are raised outside ``except`` clauses: otherwise the error of numpy or of a
cell, which may quote a value, would be attached as ``__context__``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain.cells import as_cells, kind_of_dtype
from skdp.domain.columns import Levels
from skdp.domain.tables import ArrayTable, RawTable


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
        if not _read(table, rows, slice(column, column + 1), out[:, k : k + 1], own):
            raise _not_numbers(table, column, label, own)


def read_target(y: Any, label: str, again: bool = False) -> FloatArray:
    """Return a new float array of the entries of ``y``, of shape (n,) or (n, 1)."""
    cells = as_cells(y, "y")
    if cells.ndim == 1:
        cells = cells[:, None]
    if cells.ndim != 2 or cells.shape[1] != 1:
        raise fail("y", "have one dimension", cells.ndim, "One target is fitted at a time.")
    out = np.empty(cells.shape)
    with np.errstate(all="ignore"):  # a warning would be about the data
        read_numbers(ArrayTable(cells, again), slice(None), slice(0, 1), out, label=lambda _: label)
    return out[:, 0]


def room_for(n_rows: int, n_encoded: int, out: FloatArray | None) -> FloatArray:
    """Return ``out`` if it has the right type and shape, or a new array if it is None."""
    shape = (n_rows, n_encoded)
    if out is None:
        return np.empty(shape)
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.shape != shape:
        raise fail("out", f"be a float64 array of {n_encoded} columns and as many rows as X")
    return out


_DROP = "Drop or fill the others by a public rule before this step"
_REMEDIES = {
    "strings": f"{_DROP}, or declare its levels: Domain({{'name': ['a', 'b']}}).",
    "datetimes": "Give days since a public date: (x - pandas.Timestamp('2000-01-01')).dt.days.",
    "dates": "Give days since a public date: (x - datetime.date(2000, 1, 1)).days of each date x.",
    "durations": "Give a number of seconds: x.dt.total_seconds().",
}


def _not_numbers(
    table: RawTable,
    column: int,
    label: Callable[[int], str],
    ruled: NDArray[np.bool_] | None,
) -> NotNumbers:
    """Return the error for a cell that is not a finite number."""
    name, kinds = _label(table, column, label), "finite numbers only: no NaN, no inf"
    remedy = _REMEDIES.get(kind_of_dtype(table.dtype(column)) or "")
    if ruled is not None and ruled.all():
        kinds = "finite numbers and missing cells only: no inf"
    elif ruled is not None and remedy is None:
        rule = f'missing={{{label(column).removeprefix("column ")}: "indicator"}}'
        missing = f"For missing cells declare {rule} in the domain, or a number within the bounds."
        remedy = f"{missing} {_DROP}."
    argument = "every argument must be a real number or a string that spells a number"
    rule = f"hold {kinds}, and {argument}"
    error = fail(name, rule, remedy=remedy or f"{_DROP}.")
    found = NotNumbers(*error.args)
    found.__dict__.update(error.__dict__)
    return found


def _label(table: RawTable, column: int, label: Callable[[int], str]) -> str:
    """Return the text for a column, by its name in the table if it has one."""
    name = table.name(column)
    return label(column) if name is None else f"column {name!r}"


def read_levels(
    table: RawTable, rows: slice, column: int, levels: Levels, label: Callable[[int], str]
) -> NDArray[Any]:
    """Return the position of each cell's level, or raise an error that names the column."""
    _check_kind(table, column, levels, label)
    found = None
    with suppress(Exception):
        found = table.positions(rows, column, levels)
    if found is None and table.again:
        cells = range(*rows.indices(table.n_rows))
        found = np.concatenate([_level_again(table, row, column, levels) for row in cells])
    if found is None:
        rule = "hold cells that can be hashed and compared without an error"
        name = _label(table, column, label)
        raise fail(name, rule, remedy="Replace the others by a public rule before.")
    return found


def _check_kind(table: RawTable, column: int, levels: Levels, label: Callable[[int], str]) -> None:
    """Raise if no cell of a column can be a level, by its type: all would be read as `other`."""
    dtype, declared = table.dtype(column), levels.kind
    found = kind_of_dtype(dtype)
    if table.again or None in (declared, found) or declared == found:
        return
    rule = f"hold {declared}, as its declared levels do"
    remedy = f"Convert the column to {declared} by a public rule, or declare levels as {found}."
    raise fail(_label(table, column, label), rule, str(dtype), remedy)


def _level_again(table: RawTable, row: int, column: int, levels: Levels) -> NDArray[Any]:
    """Return the position of one cell's level; that of `other` if it cannot be read any more."""
    with suppress(Exception):
        return table.positions(slice(row, row + 1), column, levels)
    return levels.positions([levels.other])


def _read(
    table: RawTable,
    rows: slice,
    columns: slice,
    out: FloatArray,
    ruled: NDArray[np.bool_] | None,
) -> bool:
    missing = ruled is not None and bool(ruled.any())
    try:
        table.copy_numbers(rows, columns, out, missing)
    except Exception:  # a cell's own code may raise anything
        if not table.again:
            return False
        _read_again(table, rows, columns, out, missing)
    # The sum is finite unless an entry is not, or large entries overflow: one pass, no temporary.
    if np.isfinite(out.sum()):
        return True
    valid = np.isfinite(out)
    if missing:
        valid |= np.isnan(out) & ruled
    if table.again:
        out[~valid] = 0.0
    return table.again or bool(valid.all())


def _read_again(
    table: RawTable, rows: slice, columns: slice, out: FloatArray, missing: bool
) -> None:
    """Copy cells one by one; those that are not numbers any more are NaN."""
    for k, row in enumerate(range(*rows.indices(table.n_rows))):
        for j, column in enumerate(range(columns.start, columns.stop)):
            out[k, j] = np.nan
            with suppress(Exception):
                cell = slice(row, row + 1), slice(column, column + 1)
                table.copy_numbers(*cell, out[k : k + 1, j : j + 1], missing)
