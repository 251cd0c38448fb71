"""What is declared, what is to be estimated, and the cells that the estimates need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_interval, fail
from skdp.domain import Domain
from skdp.domain.cells import is_sparse, plain
from skdp.domain.reading import read_numbers, read_target
from skdp.domain.tables import as_table

LIMIT = 1e6
TARGET = "target"
# The one level of a column in which no level is frequent enough.
NOTHING = "other"


@dataclass(frozen=True, eq=False)
class Data:
    """What is read of a table.

    Attributes
    ----------
    n : int
        Number of records; it may be private.
    numbers : list of ndarray of shape (n,)
        Columns of numbers that are estimated, the target last.
    strings : list of Counter
        Number of records with each string, for the columns of levels that are estimated.
    """

    n: int
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
    target, other : object
        As in `Domain`; the target may be "bounds".
    limits : tuple of float
        For each column, and for the target.
    """

    names: tuple[str, ...] | None
    columns: tuple[Any, ...]
    target: Any
    other: dict[str, Any]
    limits: tuple[float, ...]

    @classmethod
    def of(cls, X: Any, columns: Any, target: Any, other: Any, limit: Any) -> Asked:
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
        found = cls(names, asked, target, dict(other or {}), limits)
        for name in found.other:
            if name in found._labelled("levels"):
                raise fail("other", "name only columns with declared levels", name)
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
            return Domain.box(lower, upper, target)
        for place in self.places("levels"):
            columns[place] = [NOTHING]
        kept = dict(zip(self.names, columns, strict=True))
        for place, found in zip(self.places("levels"), levels, strict=True):
            name = self.names[place]
            taken = set(Domain(kept).encoded_names())
            first, *others = found
            kept[name] = [first, *(level for level in others if f"{name}_{level}" not in taken)]
        return Domain(kept, target, self.other)

    def read(self, X: Any, y: Any) -> Data:
        """Return what is read of a table and of a target. Errors in the data are raised here."""
        table = as_table(X, self.names, len(self.columns))
        n = len(X)
        numbers = [self._number(table, place, n) for place in self.places("bounds")]
        if self.has_target:
            numbers.append(_target(y, n))
        return Data(n, numbers, [self._strings(X, place) for place in self.places("levels")])

    def _labelled(self, what: str) -> list[Hashable]:
        return [place if self.names is None else self.names[place] for place in self.places(what)]

    def _label(self, place: int) -> str:
        return f"column {place if self.names is None else self.names[place]!r}"

    def _number(self, table: Any, place: int, n: int) -> FloatArray:
        out, own = np.empty((n, 1)), slice(place, place + 1)
        read_numbers(table, slice(0, n), own, out, self._label)
        return out[:, 0]

    def _strings(self, X: Any, place: int) -> Counter[str]:
        """Return the number of records with each string; other cells are no levels."""
        cells = None
        with suppress(Exception):  # the code of a column may raise anything
            own = X.loc[:, self.names[place]] if hasattr(X, "columns") else X[:, place]  # type: ignore[index]
            cells = Counter(str(cell) for cell in own.tolist() if type(cell) in (str, np.str_))
        if cells is None:
            raise fail(self._label(place), "have cells that can be read")
        return cells


def table_of(X: Any) -> Any:
    """Return a table in memory as a DataFrame or an array of two dimensions, not empty."""
    if is_sparse(X):
        remedy = "Use X.toarray()."
        raise fail("X", "be an array or a pandas DataFrame, not a sparse matrix", remedy=remedy)
    X = plain(X)
    if len(X.shape) != 2:
        remedy = "Reshape your data: one row for each record."
        raise fail("X", "have two dimensions", len(X.shape), remedy)
    if 0 in X.shape:
        raise fail("X", "have records and columns")
    return X


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
