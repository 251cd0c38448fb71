"""How a private table fits its domain, for the eyes of those who may see the table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdp._estimators import html_table, text_lines
from skdp.domain import Domain, Spline
from skdp.domain.columns import Levels, Number, is_missing, listed
from skdp.domain.layout import levels_by_name
from skdp.domain.tables import FrameTable, as_column, as_table, copy_reals, with_declared
from skdp.rows.memory import columns_to_read
from skdp.rows.tables import ArrowStream, Collection, CsvStream, Stream, computed, opened, spellings
from skdp.trusted.checks import fail, optional_module

_TITLE = "Not for publication: counts of private cells, which no guarantee covers"
# Unlisted levels that are shown, and that are counted one by one.
_SHOWN, _COUNTED = 5, 10_000


@dataclass(frozen=True, repr=False)
class DomainCheck:
    """What `Domain.check` found; ``rows`` has a dict for each column. It is not for publication."""

    rows: tuple[dict[str, Any], ...]

    def to_frame(self) -> Any:
        """Return the rows as a ``pandas.DataFrame``; needs pandas."""
        return optional_module("pandas", "for a DataFrame", "pandas").DataFrame(list(self.rows))

    def _cells(self) -> list[list[str]]:
        shown = [{**own, "share": f"{own['share']:.2%}"} for own in self.rows]
        return [[*self.rows[0]], *([*map(str, own.values())] for own in shown)]

    def __repr__(self) -> str:
        return "\n".join([_TITLE, *text_lines(self._cells(), left=(0, 1, 6))])

    def _repr_html_(self) -> str:
        return f"<b>{_TITLE}</b>{html_table(*self._cells())}"


@dataclass
class _Counts:
    column: Number | Spline | Levels
    is_target: bool
    n: int = 0
    missing: int = 0
    invalid: int = 0  # no finite numbers
    outside: int = 0
    places: Counter[Any] = field(default_factory=Counter)  # unlisted levels, or sides of the bounds
    seen: set[int] = field(default_factory=set)  # positions of levels

    def add(self, cells: Any) -> None:
        self.n += len(cells)
        found: Counter[Any] = Counter()
        if isinstance(self.column, Levels):
            for cell, count in _counted(cells).items():
                place = self.column._position.get(cell)
                if is_missing(cell) or place == len(self.column.levels):
                    self.missing += count
                elif place is not None:
                    self.seen.add(place)
                else:
                    found[cell] = count
        else:
            values, counts = np.empty(len(cells)), np.ones(len(cells), np.int64)
            try:
                copy_reals(np.asarray(cells), values, missing=True)
            except Exception:  # a cell's own code may raise anything
                every = _counted(cells)
                values, counts = np.array([*map(_number, every)]), np.array([*every.values()])
            self.missing += int(counts[np.isnan(values)].sum())
            self.invalid += int(counts[np.isinf(values)].sum())
            lower, upper = (np.isfinite(values) * counts)[None] * [
                values < self.column.lower,
                values > self.column.upper,
            ]
            found = Counter(below=int(lower.sum()), above=int(upper.sum()))
        self.outside += found.total()
        self.places = Counter(dict((self.places + found).most_common(_COUNTED)))

    def row(self, name: str) -> dict[str, Any]:
        column, shown, stops = self.column, repr, (self.outside + self.missing) * self.is_target
        never: list[str] = []
        if isinstance(column, Levels):
            never = [repr(own) for k, own in enumerate(column.levels) if k not in self.seen]
        else:
            shown, stops = str, self.invalid + self.missing * (column.missing is None)
        notes = [", ".join(f"{shown(cell)} {k}" for cell, k in self.places.most_common(_SHOWN))]
        notes += [f"never: {listed(never)}"] * bool(never) + [f"a fit stops at {stops}"] * bool(
            stops
        )
        facts = {"column": name, "declared": repr(column), "cells": self.n, "outside": self.outside}
        facts |= {"share": self.outside / max(1, self.n), "missing": self.missing}
        return facts | {"notes": "; ".join(filter(None, notes))}


def _counted(cells: Any) -> Counter[Any]:
    """Return how often each cell occurs; of those without a hash the type counts."""
    entries = cells.tolist()
    try:
        return Counter(entries)
    except TypeError:
        return Counter(own if isinstance(own, Hashable) else type(own) for own in entries)


def _number(cell: object) -> float:
    """Return a cell as a float, NaN if it is missing, and inf if it is not a number."""
    out = np.empty(1)
    with suppress(Exception):  # a cell's own code may raise anything
        copy_reals(np.fromiter([cell], dtype=object), out, missing=True)
        return float(out[0])
    return math.inf


def check(domain: Domain, X: Any, y: Any, target: str | None) -> DomainCheck:
    """Return what `Domain.check` returns; each row is read once."""
    kept: dict[str, _Counts] = {}
    own, labels = domain._target, domain.target_labels
    column = own if labels is None else Levels(labels, labels[0])
    for table, entries in _parts(domain, opened(X), y, target):
        for name, declared, cells in _columns(domain, table):
            kept.setdefault(name, _Counts(declared, False)).add(cells)
        if entries is not None and column is not None:
            kept.setdefault("the target", _Counts(column, True)).add(as_column(entries))
    return DomainCheck(tuple(own.row(name) for name, own in kept.items()))


def _columns(domain: Domain, X: Any) -> Iterator[tuple[str, Number | Spline | Levels, Any]]:
    table: Any = as_table(with_declared(X, domain.names), domain.names, domain.n_columns)
    cells = [
        table.frame.iloc[:, table.places[k]] if isinstance(table, FrameTable) else table.cells[:, k]
        for k in range(domain.n_columns)
    ]
    if domain.radius is not None:
        squares = sum(np.square(np.asarray(own, dtype=float)) for own in cells)
        yield "length of a row", Number(0.0, domain.radius), np.sqrt(squares)
        return
    for column, read in domain._layout.declared:
        if isinstance(column, Number | Spline | Levels):  # the others are encoded already
            yield domain._labels[read.start], column, cells[read.start]


def _parts(domain: Domain, data: Any, y: Any, target: str | None) -> Iterator[tuple[Any, Any]]:
    """Yield parts of a table, each with its target or None."""
    parts: Any = [(data, y)]
    if isinstance(data, Collection):
        parts = ((computed(part.compute), None) for part, _ in data.partitions())
    elif isinstance(data, Stream):
        if isinstance(data, CsvStream):
            levels = levels_by_name(domain) | {str(target): domain.target_labels or ()}
            data.spelled = {name: spellings(own) for name, own in levels.items()}
        names = data.names if isinstance(data, ArrowStream) else None
        batches = data.batches(columns_to_read(domain, names, target))
        parts = (own if isinstance(own, tuple) else (own, None) for own in batches)
    if y is not None and (target is not None or not isinstance(parts, list)):
        raise fail("y", "be None where a target column is named, or X is not in memory")
    for table, entries in parts:
        if target is None:
            yield table, entries
        elif target in getattr(table, "columns", ()):
            yield table.drop(columns=[target]), table[target]
        else:
            raise fail("target", "be a column of X", target)
