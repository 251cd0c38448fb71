"""Declared columns: bounded numbers, levels, and blocks of indicators; and kinds of cells.

`skdp.domain.declaration` builds columns from the user's declaration and checks it. Each kind has
the number of columns that it reads (``n_in``) and is encoded as (``n_out``), and the kinds of the
encoded columns (``encoded``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import repeat
from numbers import Number as AnyNumber
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import fail

# Arrays of these types are compared without running foreign code: signed and unsigned integers,
# floats and strings. Other arrays of numbers are converted to one of them without a change.
_STRINGS = ("U", "S")
_COMMON = ("i8", "u8", "f8", *_STRINGS)
_Search: TypeAlias = Callable[[Array], Array]
# Integer levels are looked up in a table if it is not larger than this.
_DENSE = 2**16
# Types of objects of which none is missing but None.
_NEVER_MISSING = frozenset({type(None), bool, int, str, bytes})
# Reading a cell of these types runs no foreign code.
_OWN = frozenset(
    {type(None), bool, int, float, str, bytes, np.bool_, np.str_, np.bytes_}
    | {np.dtype(code).type for code in "bhilqBHILQefdg"}
)
# pandas' NA and NaT are recognised by the names of their types: pandas may not be installed.
MISSING_TYPES = frozenset({"NAType", "NaTType"})
# Durations of numpy are integers to Python, and datetimes are dates: the first match counts.
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "strings"),
    (bytes, "bytes"),
    ((timedelta, np.timedelta64), "durations"),
    ((datetime, np.datetime64), "datetimes"),
    (date, "dates"),
    ((AnyNumber, np.bool_), "numbers"),
)


def kinds_of(cells: Iterable[object]) -> set[type]:
    return set(map(type, cells))


def kind_of(kind: type) -> str | None:
    """Return "strings", "numbers" or another kind of the cells of a type, or None if unknown."""
    return next((name for base, name in _KINDS if issubclass(kind, base)), None)


def has_foreign(kinds: set[type]) -> bool:
    """Return whether reading a cell of one of these types runs foreign code."""
    return not kinds <= _OWN


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, NA or NaT."""
    kind = type(cell)
    if issubclass(kind, (float, np.floating)):
        return math.isnan(cell)
    if issubclass(kind, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(cell))
    return cell is None or kind.__name__ in MISSING_TYPES


def missing_in(cells: Array) -> NDArray[np.bool_] | None:
    """Return which cells are NaN or NaT; None for arrays of other types."""
    kind = cells.dtype.kind
    return np.isnan(cells) if kind == "f" else np.isnat(cells) if kind in "mM" else None


def listed(items: Iterable[str]) -> str:
    """Join with commas; of more than 8 items, some are replaced by their number."""
    shown = list(items)
    if len(shown) > 8:
        shown = [*shown[:4], f"... {len(shown) - 5} more ...", shown[-1]]
    return ", ".join(shown)


@dataclass(frozen=True)
class Number:
    """A number in [lower, upper], encoded as a number in [-1, 1].

    A missing cell is read as the number ``missing``, or as the middle of the bounds. In the case of
    "indicator" it is the middle with an indicator of its own. None makes it an error.
    """

    lower: float
    upper: float
    missing: float | Literal["middle", "indicator"] | None = None
    n_in = 1

    @property
    def n_out(self) -> int:
        return 1 + (self.missing == "indicator")

    @property
    def half_range(self) -> float:
        # The difference itself overflows for bounds of opposite sign near the largest float.
        return self.upper / 2 - self.lower / 2

    @property
    def centre(self) -> float:
        """Middle of the bounds, which is encoded as 0."""
        return self.upper / 2 + self.lower / 2

    @property
    def is_unit(self) -> bool:
        """Whether the bounds are -1 and 1, as those of an encoded number."""
        return (self.lower, self.upper) == (-1.0, 1.0)

    @property
    def encoded(self) -> tuple[Number | Indicators, ...]:
        return (UNIT, Indicators(1)) if self.missing == "indicator" else (UNIT,)

    def names_out(self, names: Sequence[str]) -> list[str]:
        return [*names, *(f"{name}_missing" for name in names if self.missing == "indicator")]

    def __repr__(self) -> str:
        lower, upper = (repr(bound).removesuffix(".0") for bound in (self.lower, self.upper))
        return f"({lower}, {upper})"


UNIT = Number(-1.0, 1.0)


@dataclass(frozen=True)
class Levels:
    """One of finitely many levels, encoded as an indicator of each level but the first.

    Levels are compared by ``==`` and ``hash``, like keys of a dict: 1, 1.0 and True are the same
    level, 1 and "1" are two. A missing cell is read as ``other``; with ``missing="indicator"`` as
    a level of its own, after the declared ones.
    """

    levels: tuple[Hashable, ...]
    other: Hashable
    missing: Literal["indicator"] | None = None
    n_in = 1

    @property
    def n_out(self) -> int:
        return len(self.levels) - (self.missing is None)

    @property
    def encoded(self) -> tuple[Indicators, ...]:
        return (Indicators(self.n_out),)

    def names_out(self, names: Sequence[str]) -> list[str]:
        return self.corners(names[0])[1:]

    def corners(self, name: str) -> list[str]:
        """Return the names of all levels, the first one included, and of a missing cell."""
        return [f"{name}_{level}" for level in [*self.levels, "missing"][: self.n_out + 1]]

    @cached_property
    def _position(self) -> dict[Hashable, int]:
        found = {level: position for position, level in enumerate(self.levels)}
        if self.missing is None:
            return found
        # Empty texts are missing cells unless they are declared.
        return dict.fromkeys((None, "", b""), len(found)) | found

    @property
    def _other(self) -> int:
        return self._position[self.other]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Smallest unsigned integer type of positions."""
        return np.min_scalar_type(self.n_out)

    @cached_property
    def kind(self) -> str | None:
        """Kind of all levels, such as "strings", or None if they differ or it is unknown."""
        kinds = {kind_of(kind) for kind in kinds_of(self.levels)}
        return kinds.pop() if len(kinds) == 1 else None

    @cached_property
    def is_plain(self) -> bool:
        """Whether comparing cells with the levels runs no foreign code."""
        return not has_foreign(kinds_of(self.levels))

    def positions(self, values: list[object]) -> Array:
        if self.missing is not None and not kinds_of(values) <= _NEVER_MISSING:
            values = [None if is_missing(value) else value for value in values]
        # A dict is as fast as pandas' hash tables here, and has one definition of "equal".
        other = self._other

        def position_or_other(value: object) -> int:
            with suppress(TypeError):  # a cell without a hash is not a level
                return self._position.get(value, other)
            return other

        try:
            found = map(self._position.get, values, repeat(other))
            return np.fromiter(found, dtype=self.dtype, count=len(values))
        except TypeError:
            return np.array([position_or_other(value) for value in values], self.dtype)

    def positions_in(self, cells: Array) -> Array:
        kind = cells.dtype.kind
        if not self.is_plain or kind not in "USbiuf" or (kind == "f" and cells.itemsize > 8):
            found = self.positions(cells.tolist())
        elif kind in _STRINGS:
            found = self._searches[kind](cells)
        else:
            common = {"u": "u8", "f": "f8"}.get(kind, "i8")
            found = self._searches[common](cells.astype(common, copy=False))
        if self.missing is not None and (absent := missing_in(cells)) is not None:
            found[absent] = self.n_out
        return found

    def positions_in_arrow(self, words: Any) -> Array:
        import pyarrow.compute

        known, found = self._texts
        places = pyarrow.compute.index_in(words, pyarrow.array(known, words.type))
        places = places.fill_null(len(known))
        if self.missing is not None:
            places = pyarrow.compute.if_else(words.is_null(), len(known) + 1, places)
        return np.asarray(found[places.to_numpy()])

    @cached_property
    def _texts(self) -> tuple[list[str], Array]:
        """Levels that are texts, and the positions of these, of `other` and of a missing cell."""
        texts = [level for level in self._position if isinstance(level, str)]
        # Arrow has no texts with halves of surrogate pairs.
        known = [own for own in texts if not any("\ud800" <= c <= "\udfff" for c in own)]
        return known, self.positions([*known, self.other, None])

    @cached_property
    def _searches(self) -> dict[str | None, _Search]:
        """For each common type, a function that returns the positions of an array of this type.

        All are prepared at once: what is kept in a domain does not depend on data.
        """
        longest = max([1, *(len(level) for level in self.levels if isinstance(level, str | bytes))])
        types = {common: common + str(longest) * (common in _STRINGS) for common in _COMMON}
        return {common: self._search(np.dtype(dtype)) for common, dtype in types.items()}

    def _search(self, dtype: np.dtype[np.generic]) -> _Search:
        places = {}
        for level, position in self._position.items():
            # A level that is no cell of this type is changed by the conversion, or is an error.
            with suppress(TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
                key = np.array(level, dtype).item()
                if key == level:
                    places[key] = position
        if not places:
            return lambda cells: np.full(len(cells), self._other, self.dtype)
        keys = np.array(sorted(places), dtype)
        found = np.array([places[key] for key in keys.tolist()], self.dtype)
        if dtype.kind in "iu" and int(keys[-1]) - int(keys[0]) < _DENSE:
            least, unknown = int(keys[0]), int(keys[-1]) - int(keys[0]) + 1
            table = np.full(unknown + 1, self._other, self.dtype)
            table[[key - least for key in keys.tolist()]] = found

            def dense_search(cells: Array) -> Array:
                # Modulo 2^64, integers below the least key are large.
                offset = (cells - keys[0]).view(np.uint64)
                np.minimum(offset, unknown, out=offset)
                return np.asarray(table[offset.view(np.int64)])

            return dense_search

        def sorted_search(cells: Array) -> Array:
            at = np.minimum(np.searchsorted(keys, cells), len(keys) - 1)
            return np.where(keys[at] == cells, found[at], self.dtype.type(self._other))

        return sorted_search

    def __reduce__(self) -> tuple[object, ...]:
        return (Levels, (self.levels, self.other, self.missing))  # without the cached lookup

    def __repr__(self) -> str:
        return f"[{listed(map(repr, self.levels))}]"


class EncodedBlock:
    """Columns that are encoded already: each is encoded as itself."""

    n_in: int

    @property
    def n_out(self) -> int:
        return self.n_in

    @property
    def encoded(self) -> tuple[EncodedBlock]:
        return (self,)

    def names_out(self, names: Sequence[str]) -> list[str]:
        return list(names)


@dataclass(frozen=True)
class Indicators(EncodedBlock):
    """A block of columns of zeros with at most one 1: encoded levels."""

    n_in: int

    def __repr__(self) -> str:
        return "indicator"


def largest_indicators(block: FloatArray) -> NDArray[np.intp]:
    """Return 1 + the position of the largest entry of each row if above 1/2, otherwise 0.

    Of ties, the first entry counts.
    """
    if not block.shape[1]:
        return np.zeros(len(block), dtype=np.intp)
    return np.where(block.max(axis=1) > 0.5, block.argmax(axis=1) + 1, 0)


def refuse_repeated(what: str, names: Iterable[str], remedy: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise fail(what, "differ from each other", name, remedy)
        seen.add(name)
