"""What is declared, what is to be estimated, and the cells that the estimates need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_interval, fail
from skdp.bounds._cells import IntArray
from skdp.domain import Domain
from skdp.domain.tables import (
    NotNumbers,
    as_table,
    in_memory,
    kind_of_dtype,
    read_numbers,
    read_target,
)
from skdp.rows.persons import WHOLE, Persons, Shares

LIMIT = 1e6
TARGET = "target"
# The one level of a column in which no level is frequent enough.
NOTHING = "other"
# No levels under a rule for missing cells: an empty text is missing, and "missing" has this name.
_NO_LEVELS = ("", "missing")


@dataclass(frozen=True, eq=False)
class Data:
    """What is read of a table.

    Attributes
    ----------
    n : int
        Number of records, or of persons; it may be private.
    shares : ndarray of int64, shape (n_rows,)
        Share of each row in its record or person, in parts of `WHOLE`.
    numbers : list of ndarray of shape (n_rows,)
        Columns of numbers that are estimated, the target last. Missing numbers are NaN.
    strings : list of Counter
        Number of records or persons with each string, for the columns of levels that are
        estimated. A person has the string of most of its rows, and of several the last in order.
    """

    n: int
    shares: IntArray
    numbers: list[FloatArray]
    strings: list[Counter[str]]


@dataclass(frozen=True, eq=False)
class Asked:
    """Declared columns, and those to be estimated; public information only.

    Attributes
    ----------
    names : tuple of str or None
        Names of the columns, or None if they are identified by position.
    columns : tuple
        For each column, declared bounds or levels, or "bounds" or "levels".
    target, other, missing : object
        As in `Domain`; the target may be "bounds".
    limits : tuple of float
        For each column, and for the target.
    """

    names: tuple[str, ...] | None
    columns: tuple[Any, ...]
    target: Any
    other: dict[str, Any]
    missing: Any
    limits: tuple[float, ...]

    @classmethod
    def of(cls, X: Any, columns: Any, target: Any, other: Any, missing: Any, limit: Any) -> Asked:
        """Return what is asked of a table; raise an error if a declaration is not valid."""
        if columns is None:
            names = tuple(X.columns) if hasattr(X, "columns") else None
            asked: tuple[Any, ...] = ("bounds",) * X.shape[1]
        elif isinstance(columns, Mapping) and columns:
            names, asked = tuple(columns), tuple(map(_asked, columns.values()))
        else:
            remedy = 'Write columns={"age": (17, 90), "income": "bounds"}.'
            raise fail("columns", "be a dict with at least one column, or None", columns, remedy)
        limits = _limits(limit, names, len(asked))
        found = cls(names, asked, target, dict(other or {}), missing, limits)
        for name in found.other:
            if name in map(found._key, found.places("levels")):
                raise fail("other", "name only columns with declared levels", name)
        for place in found.places("bounds"):
            found._check_rule(place)
        found.domain([(-1.0, 1.0)] * len(found.counted), [[NOTHING]] * len(found.places("levels")))
        return found

    def places(self, what: str) -> list[int]:
        """Return the positions of the columns whose bounds, or levels, are estimated."""
        return [k for k, asked in enumerate(self.columns) if _is(asked, what)]

    @property
    def counted(self) -> list[int]:
        """Positions of the columns of numbers that are estimated; -1 is the target, the last."""
        return self.places("bounds") + [-1] * self.has_target

    @property
    def has_target(self) -> bool:
        """Whether bounds of the target are estimated."""
        return _is(self.target, "bounds")

    def domain(self, bounds: list[tuple[float, float]], levels: list[list[str]]) -> Domain:
        """Return the domain with estimates in the order of `counted` and of `places`."""
        target = bounds[-1] if self.has_target else self.target
        columns = list(self.columns)
        for place, pair in zip(self.places("bounds"), bounds, strict=False):
            columns[place] = pair
        if self.names is None:
            lower, upper = zip(*columns, strict=True)
            return Domain.box(lower, upper, target, missing=self.missing)
        for place in self.places("levels"):
            columns[place] = [NOTHING]
        kept = dict(zip(self.names, columns, strict=True))
        for place, found in zip(self.places("levels"), levels, strict=True):
            name = self.names[place]
            taken = set(Domain(kept, missing=self.missing).encoded_names())
            first, *others = found
            kept[name] = [first, *(level for level in others if f"{name}_{level}" not in taken)]
        return Domain(kept, target, self.other, self.missing)

    def is_ruled(self, place: int) -> bool:
        """Return whether a column has a rule for missing cells; the target has none."""
        if place < 0 or self.missing is None:
            return False
        if isinstance(self.missing, Mapping):
            return self._key(place) in self.missing
        return not _is(self.columns[place], "levels") or _is(self.missing, "indicator")

    def read(self, X: Any, y: Any, groups: Any) -> Data:
        """Return what is read of a table and of a target. Errors in the data are raised here."""
        table = as_table(X, self.names, len(self.columns))
        n = n_rows = len(X)
        shares: IntArray = np.full(n, WHOLE)
        persons: Sequence[int] | None = None
        if groups is not None:
            known = Persons.of_table(groups, n_rows)
            codes, shares = Shares(known, 1).members(groups)
            n, persons = len(known), codes.tolist()
        numbers = [self._number(table, place, n_rows) for place in self.places("bounds")]
        if self.has_target:
            numbers.append(_target(y, n_rows))
        strings = [self._strings(X, place, persons) for place in self.places("levels")]
        return Data(n, shares, numbers, strings)

    def _key(self, place: int) -> Hashable:
        return place if self.names is None else self.names[place]

    def _label(self, place: int) -> str:
        return f"column {self._key(place)!r}"

    def _check_rule(self, place: int) -> None:
        """Raise an error for a number in place of missing ones: it may be out of the bounds."""
        rule, name, key = self.missing, "missing", self._key(place)
        if isinstance(rule, Mapping):
            rule, name = rule.get(key), f"missing[{key!r}]"
        if not (rule is None or _is(rule, "indicator") or _is(rule, "middle")):
            words = 'be "indicator" or "middle" for a column of estimated bounds'
            raise fail(name, words, rule, "Or declare the bounds.")

    def _number(self, table: Any, place: int, n: int) -> FloatArray:
        out, own = np.empty((n, 1)), slice(place, place + 1)
        ruled = np.array([True]) if self.is_ruled(place) else None
        error = None
        try:
            read_numbers(table, slice(0, n), own, out, self._label, ruled)
        except NotNumbers as found:
            error = found
        if error is not None:
            raise NotNumbers(" ".join([str(error), *self._remedies(table, place)]))
        return out[:, 0]

    def _remedies(self, table: Any, place: int) -> list[str]:
        """Return remedies for a column that has other cells than numbers, from its type alone."""
        kind, key = kind_of_dtype(table.dtype(place)), self._key(place)
        name = repr(key) if isinstance(key, str) else '"name"'
        remedies = []
        if kind in (None, "strings"):
            asked = f'columns={{{name}: "levels"}}'
            remedies += [f"If it holds strings, declare levels, or give {asked} with delta > 0."]
        if kind in (None, "numbers") and not self.is_ruled(place):
            remedies += [f'For missing cells give missing={{{key!r}: "indicator"}} or "middle".']
        return remedies

    def _strings(self, X: Any, place: int, persons: Sequence[int] | None) -> Counter[str]:
        """Return the number of records or persons with each string; other cells are no levels."""
        own = X.loc[:, self.names[place]] if hasattr(X, "columns") else X[:, place]  # type: ignore[index]
        cells, omitted = own.tolist(), _NO_LEVELS if self.is_ruled(place) else ()
        kept = [type(cell) in (str, np.str_) and cell not in omitted for cell in cells]
        texts = map(str, compress(cells, kept))
        if persons is None:
            return Counter(texts)
        return _most_frequent(zip(compress(persons, kept), texts, strict=True))


def table_of(X: Any) -> Any:
    """Return a table in memory as a DataFrame or an array of two dimensions, not empty."""
    X = in_memory(X)
    if 0 in X.shape:
        raise fail("X", "have records and columns")
    return X


def _most_frequent(cells: Iterable[tuple[int, str]]) -> Counter[str]:
    """Return for each string how many persons have it most often: one string a person."""
    best: dict[int, tuple[int, str]] = {}
    for (person, cell), times in Counter(cells).items():
        best[person] = max(best.get(person, (0, "")), (times, cell))
    return Counter(cell for _, cell in best.values())


def _target(y: Any, n: int) -> FloatArray:
    if y is None:
        raise fail("y", 'be given if target="bounds"', None, "Or declare target=(lower, upper).")
    found = read_target(y, "the target")
    if len(found) != n:
        raise fail("y", "have as many entries as X has rows")
    return found


def _is(asked: Any, what: str) -> bool:
    return isinstance(asked, str) and asked == what


def _asked(declared: Any) -> Any:
    """Return what is asked of a column: None stands for "bounds"."""
    if declared is None:
        return "bounds"
    if isinstance(declared, str) and declared not in ("bounds", "levels"):
        rule = 'be a tuple of bounds, a list of levels, "bounds" or "levels"'
        raise fail("a column", rule, declared)
    return declared


def _limits(limit: Any, names: tuple[str, ...] | None, n: int) -> tuple[float, ...]:
    """Return the limit of each column and of the target."""
    keys = [*(names or ()), TARGET]
    if not isinstance(limit, Mapping):
        return (_limit("limit", limit),) * (n + 1)
    for key in limit:
        if key not in keys:
            raise fail("limit", f"have keys among {keys}", key)
    found = {key: _limit(f"limit[{key!r}]", value) for key, value in limit.items()}
    columns = names if names is not None else [""] * n
    return tuple(found.get(key, LIMIT) for key in [*columns, TARGET])


def _limit(name: str, value: Any) -> float:
    return check_interval(name, value, 1e-100, 1e100)
