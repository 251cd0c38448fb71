"""Data from OpenML, converted to the declared names, levels and units.

OpenML may change a data set. The declared columns, rows, levels and bounds are checked, and a
mismatch is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

import sklearn.datasets

from skdp._checks import fail
from skdp.datasets._dataset import pandas
from skdp.datasets._declared import Column, Declaration, Source

# If a smaller share of the numbers is within the declared bounds, the unit differs.
LEAST_INSIDE = 0.9


class Unreachable(Exception):
    """Error for data that cannot be downloaded."""


def read(declared: Declaration, data_home: str | os.PathLike[str] | None) -> Any:
    """Return the table of a data set with the columns that OpenML has, the target among them.

    Raises
    ------
    Unreachable
        If the data cannot be downloaded.
    ValueError
        If the data differ from the declaration.
    """
    pandas()
    source = declared.openml
    assert source is not None
    theirs = _frame(source, data_home)
    ours = declared.without(source.lacks)
    columns = (*ours.columns, ours.target)
    _check_shape(theirs, declared, columns)
    return pandas().DataFrame({c.name: _column(theirs, c, source) for c in columns})


def _frame(source: Source, data_home: str | os.PathLike[str] | None) -> Any:
    try:
        bunch = sklearn.datasets.fetch_openml(
            data_id=source.id, data_home=data_home, as_frame=True, parser="auto"
        )
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(str(error)) from error
    return bunch.frame


def _check_shape(theirs: Any, declared: Declaration, columns: tuple[Column, ...]) -> None:
    source = declared.openml
    assert source is not None
    wanted = [source.names.get(column.name, column.name) for column in columns]
    lacking = [name for name in wanted if name not in theirs.columns]
    if lacking:
        raise _mismatch(source, f"have the columns {lacking}", list(theirs.columns))
    if len(theirs) != declared.rows:
        raise _mismatch(source, f"have {declared.rows} rows", len(theirs))


def _column(theirs: Any, column: Column, source: Source) -> Any:
    values = theirs[source.names.get(column.name, column.name)]
    return _numbers(values, column, source) if column.is_number else _levels(values, column, source)


def _numbers(values: Any, column: Column, source: Source) -> Any:
    try:
        numbers = values.astype(float) / source.factors.get(column.name, 1.0)
    except ValueError:
        raise _mismatch(source, f"hold numbers in column {column.name!r}", values.dtype) from None
    inside = float(numbers.between(*column.values).mean())
    if inside < LEAST_INSIDE:
        rule = f"have at least {LEAST_INSIDE:.0%} of {column.name!r} within {column.values}"
        raise _mismatch(source, rule, f"{inside:.0%}")
    return numbers


def _levels(values: Any, column: Column, source: Source) -> Any:
    """Return the declared levels for OpenML's; each one must be declared."""
    words: Mapping[str, str] = source.levels.get(column.name, {})
    known = {value: _text(value) for value in values.dropna().unique()}
    ours = {value: words.get(text, text) for value, text in known.items()}
    strange = sorted(set(ours.values()) - set(column.values))
    if strange:
        raise _mismatch(source, f"hold declared levels only in column {column.name!r}", strange)
    mapped = values.astype(object).map(ours)
    if not mapped.isna().any():
        return mapped
    if source.missing not in column.values:
        raise _mismatch(source, f"have no missing values in column {column.name!r}", "some")
    return mapped.fillna(source.missing)


def _text(value: Any) -> str:
    """Return a level as text: 2.0 as "2", and without the quotes that some files have."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip(" '\"")


def _mismatch(source: Source, rule: str, found: object) -> ValueError:
    name = f"OpenML's data set {source.id} ({source.name})"
    remedy = "OpenML's data differ from the declaration: read a folder (SKDP_DATA) instead."
    return fail(name, rule, found, remedy)
