"""Reading cells: what is of another kind is refused by its type, and no foreign error passes.

A cell may be an object of anybody's, and code of its own may raise or warn in words that quote
it. So whatever reads cells is told that it failed, and builds a sentence of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._checks import fail

# Dates, durations, complex numbers and records would be cast to floats, some with a warning.
NOT_REAL = frozenset("mMcV")
# The same in cells of an array of objects, and arrays in a cell, whose mask would be lost.
_NOT_REAL_CELLS = (
    complex,
    np.complexfloating,
    np.datetime64,
    np.timedelta64,
    np.void,
    np.ndarray,
)
# Reading one of these runs no code of anybody else's.
_OWN = frozenset(
    {type(None), bool, int, float, str, bytes, np.bool_, np.str_, np.bytes_}
    | {np.dtype(code).type for code in "bhilqBHILQefdg"}
)
_LISTS = frozenset({list, tuple})
# Of lists of these numpy makes an array of one type: what is not real keeps its own.
_ONE_TYPE = _OWN | _LISTS | {np.datetime64, np.timedelta64}


def as_cells(X: Any, name: str = "X", *, one_type: bool = False) -> NDArray[Any]:
    """Return an array of numpy's own class with the cells of ``X``, without a copy if it has one.

    Parameters
    ----------
    X : array-like
    name : str
        What an error calls it.
    one_type : bool, default=False
        Whether numpy may choose a type for a list. A list with cells of two types then becomes
        one of strings, say; otherwise it becomes an array of objects.

    Raises
    ------
    ValueError
        If it is a masked array or an array of complex numbers or records, or cannot be read. The
        type decides: whether any entry is masked, or has an imaginary part, is private.
    """
    cells: Any = X if issubclass(type(X), np.ndarray) else None
    if cells is None:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells = _array(X, one_type)
    if cells is None:  # raised here, or what reading raised would travel along
        remedy = "Give a numpy array, a pandas DataFrame or Series, or a list of numbers."
        raise fail(name, "have entries of one shape, and be readable", None, remedy)
    if issubclass(type(cells), np.ma.MaskedArray) or _has_masked_rows(X):
        remedy = f"Fill it by a public rule: {name}.filled(value)."
        raise fail(name, "be an array without a mask", "MaskedArray", remedy)
    # A view: the shape of an array can be set in place, also by whoever else holds it.
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
        return np.asanyarray(X)  # a mask is to be seen
    kinds = kinds_of(X) if type(X) in _LISTS else {object}
    # Numpy would ask each cell whether it is an array itself: cells of plain lists are taken as
    # they are. As objects, or numpy would turn the numbers of a mixed list into strings.
    if kinds <= _LISTS and len(set(map(len, X))) == 1:
        cells = np.fromiter(chain.from_iterable(X), dtype=object).reshape(len(X), -1)
    elif one_type and type(X) in _LISTS:
        cells = np.fromiter(X, dtype=object)
    else:
        return np.asarray(X, dtype=object)
    kinds = kinds_of(cells.flat)
    if any(issubclass(kind, (list, tuple, np.ndarray)) for kind in kinds):
        cells = np.asarray(X, dtype=object)
    return np.asarray(X) if one_type and kinds <= _ONE_TYPE else cells


def _has_masked_rows(X: Any) -> bool:
    """Say whether a list holds masked arrays, of which numpy drops the mask."""
    if type(X) not in _LISTS:
        return False
    masked = [row for row in X if issubclass(type(row), np.ma.MaskedArray)]
    return any(np.ndarray.ndim.__get__(row) for row in masked)  # others are cells


def kinds_of(cells: Iterable[Any]) -> set[type]:
    """Return the types of some cells."""
    return set(map(type, cells))


def has_foreign(kinds: set[type]) -> bool:
    """Say whether reading a cell of one of these types runs code of anybody else's."""
    return not kinds <= _OWN


def refuse_not_real(kinds: set[type]) -> None:
    """Raise for types of cells that floats would be made of, but not of all that they are."""
    if any(issubclass(kind, _NOT_REAL_CELLS) for kind in kinds):
        raise TypeError("not real numbers")


def copy_reals(cells: NDArray[Any], out: NDArray[np.float64]) -> None:
    """Copy cells into ``out`` as floats, or raise whatever: the caller drops it."""
    if cells.dtype.kind in NOT_REAL:
        raise TypeError("not real numbers")
    kinds = kinds_of(cells.flat) if cells.dtype.kind == "O" else set()
    refuse_not_real(kinds)
    if has_foreign(kinds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out[...] = cells
    else:
        out[...] = cells
