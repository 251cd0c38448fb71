"""How a private table fits its domain, for the eyes of those who may see the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._estimators import html_table, text_lines
from skdp.domain import Domain, Spline
from skdp.domain.columns import Levels, Number, is_missing, listed
from skdp.domain.layout import levels_by_name
from skdp.domain.tables import Frame, as_column, as_table, copy_reals, with_declared
from skdp.rows.memory import columns_to_read
from skdp.rows.tables import Collection, CsvStream, FactoryStream, computed, opened, spellings
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import converted, fail, optional_module

_Part = tuple[Frame, Frame]  # of a table, with its target or None
_TITLE = "Not for publication: counts of private cells, which no guarantee covers"
# Unlisted levels that are shown, and that are counted one by one.
_SHOWN, _COUNTED = 5, 10_000


@dataclass(frozen=True, repr=False)
class DomainCheck:
    """What `Domain.check` found; ``rows`` has a dict for each column. It is not for publication."""

    rows: tuple[dict[str, object], ...]

    def to_frame(self) -> Frame:
        return optional_module("pandas", "for a DataFrame", "pandas").DataFrame(list(self.rows))

    def _cells(self) -> list[list[str]]:
        shown = [own | {"share": f"{own['share']:.2%}"} for own in self.rows]
        return [[*self.rows[0]], *([*map(str, own.values())] for own in shown)]

    def __repr__(self) -> str:
        return "\n".join([_TITLE, *text_lines(self._cells(), left=(0, 1, 6))])

    def _repr_html_(self) -> str:
        return f"<b>{_TITLE}</b>{html_table(*self._cells())}"


@dataclass
class _Counts:
    column: Number | Spline | Levels
    cells: int = 0
    missing: int = 0
    outside: int = 0
    # Of unlisted levels, or of the sides of the bounds.
    most: Counter[object] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)  # positions of levels

    def add(self, cells: Frame) -> None:
        column, outside = self.column, Counter[object]()
        if isinstance(column, Levels):
            for cell, count in _counted(cells).items():
                place = column._position.get(cell)
                if is_missing(cell) or place == len(column.levels):
                    self.missing += count
                elif place is None:
                    outside[cell] = count
                else:
                    self.seen.add(place)
        else:
            values, counts = _floats(cells)
            known = np.isfinite(values)
            sides = {"below": known & (values < column.lower)}
            sides |= {"above": known & (values > column.upper), "no number": np.isinf(values)}
            outside.update({side: int(counts[own].sum()) for side, own in sides.items()})
            self.missing += int(counts[np.isnan(values)].sum())
        self.cells += len(cells)
        self.outside += outside.total()
        self.most = Counter(dict((self.most + outside).most_common(_COUNTED)))

    def row(self, name: str) -> dict[str, object]:
        levels = getattr(self.column, "levels", ())
        shown = repr if levels else str
        notes = [f"{shown(cell)} {count}" for cell, count in self.most.most_common(_SHOWN)]
        never = [repr(level) for k, level in enumerate(levels) if k not in self.seen]
        notes += [f"never {listed(never)}"] * bool(never)
        facts = {"column": name, "declared": repr(self.column), "cells": self.cells}
        facts |= {"outside": self.outside, "share": self.outside / max(1, self.cells)}
        return facts | {"missing": self.missing, "notes": ", ".join(notes)}


def _counted(cells: Frame) -> Counter[object]:
    def key(cell: Any) -> Any:
        with suppress(Exception):  # a cell's own code may raise anything
            return (cell, hash(cell))[0]
        return type(cell)

    return Counter(map(key, cells.tolist()))


def _floats(cells: Frame) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return numbers with their counts: NaN for missing cells, and inf for cells of other kinds."""
    out = np.full(len(cells), np.inf)
    with suppress(Exception):  # a cell's own code may raise anything
        copy_reals(np.asarray(cells), out, missing=True)
        return out, np.ones(len(out), np.int64)
    if len(cells) == 1:
        return np.array([np.inf]), np.ones(1, np.int64)
    every = _counted(cells)
    values = [_floats(np.fromiter([cell], dtype=object))[0][0] for cell in every]
    return np.array(values), np.array([*every.values()])


def check(domain: Domain, X: object, y: object, target: str | None) -> DomainCheck:
    """Return what `Domain.check` returns; each row is read once."""
    labels, counts = domain.target_labels, dict[str, _Counts]()
    of_target = domain._target if labels is None else Levels(labels, labels[0])
    for part, entries in _parts(domain, opened(X), y, target):
        table: Frame = as_table(with_declared(part, domain.names), domain.names, domain.n_columns)
        cells = [table.column(k) for k in range(domain.n_columns)]
        found: list[tuple[str, Any, Frame]] = [
            (domain._labels[read.start], column, cells[read.start])
            for column, read in domain._layout.declared
            if isinstance(column, Number | Spline | Levels)  # the others are encoded already
        ]
        if domain.radius is not None:
            values = converted(partial(np.asarray, cells, dtype=float), "X", "have only numbers")
            squares = np.square(values).sum(axis=0)
            found = [("length of a row", Number(0.0, domain.radius), np.sqrt(squares))]
        if entries is not None and of_target is not None:
            found.append(("the target", of_target, as_column(entries)))
        for name, column, own in found:
            counts.setdefault(name, _Counts(column)).add(own)
    return DomainCheck(tuple(own.row(name) for name, own in counts.items()))


def _parts(
    domain: Domain, data: Frame, y: object, target: str | None
) -> Iterator[tuple[Frame, Frame]]:
    """Yield parts of a table, each with its target or None."""
    parts: Frame = [(data, y)]
    if isinstance(data, Collection):
        parts = ((computed(part.compute), None) for part, _ in data.partitions())
    elif hasattr(data, "batches"):
        if isinstance(data, CsvStream):
            levels = levels_by_name(domain) | {str(target): domain.target_labels or ()}
            data.spelled = {name: spellings(own) for name, own in levels.items()}
        names = None if isinstance(data, FactoryStream) else data.names
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
