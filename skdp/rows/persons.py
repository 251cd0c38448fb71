"""Persons: groups of rows with one identifier, and the share that each row has in its person.

A share is an integer number of `WHOLE` parts. The shares of a person's rows add up to exactly
`WHOLE` or, if a cap allows more than one full row, to at most that. So the contribution of a person
to a sum over rows is exactly a convex combination of the contributions of single rows, or of these
and 0 (docs/proofs/persons.md). The weight of a row multiplies its share; a row without a person is
a record of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain.columns import is_missing
from skdp.domain.tables import Frame, as_column, read_target
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import converted, fail

# The parts of a whole person.
WHOLE_BITS = 30
WHOLE = 2**WHOLE_BITS
# Rows of equal share are summed together, so there are few different shares. Weights, in units of
# the greatest one, are rounded to multiples of 1 / GRID: all fractions with denominators up to 8,
# and numbers between them at distances of 6 %.
GRID = 840
_FRACTIONS = [GRID * j // m for m in range(1, 9) for j in range(m + 1)]
STEPS = np.unique([*_FRACTIONS, *np.rint(GRID * 0.94 ** np.arange(110)).astype(int)])
# Leading bits of the product of a weight and the share in a person, for the same reason.
_BITS = 6

# Different identifiers, and their numbers of rows.
_Counts = tuple[NDArray[np.int64] | list[Hashable], NDArray[np.int64]]

_MISSING = "Drop rows without a person, or give each of them an identifier of its own."
_WEIGHTS = "Drop rows with other weights, or weigh them by a public rule."
_MIXED = "Convert all of them to strings by a public rule before they are read."


class Members(NamedTuple):
    """The position of the person of each row, and the share of each row in it, (rows,) each.

    There are no positions if rows have weights only.
    """

    codes: NDArray[np.intp] | None
    shares: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Persons:
    """The persons of a table or of a part of it, with their numbers of rows.

    ``places`` are the identifiers: sorted integers, or a dict to positions. The other arrays have
    the shape (n_persons,): ``counts`` of rows in the whole table, which are private; ``start`` and
    ``stop`` of the rows that lie in this part, in the order of each person's rows; and ``numbers``,
    the position of each person among those of the whole table.
    """

    places: NDArray[np.int64] | dict[Hashable, int]
    counts: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    numbers: NDArray[np.intp]

    @classmethod
    def of(cls, batches: Iterable[object]) -> Persons:
        """Return the persons of batches of hashable identifiers; equal ones are of one person.

        It is an error if an identifier is missing or cannot be hashed, or if some are numbers and
        others are strings that spell numbers. The message does not name it.
        """
        found = [_counted(_checked(batch)) for batch in batches]
        sizes = np.concatenate([own for _, own in found] or [np.empty(0, np.int64)])
        places: NDArray[np.int64] | dict[Hashable, int]
        if all(isinstance(ids, np.ndarray) for ids, _ in found):
            every = np.concatenate([ids for ids, _ in found] or [np.empty(0, np.int64)])
            places, codes = np.unique(every, return_inverse=True)
        else:
            places = {}
            codes = np.array(
                [places.setdefault(own, len(places)) for ids, _ in found for own in ids], np.intp
            )
            # A reader of files may infer the types of a part of the rows. One row with the text
            # "A1" makes strings of all identifiers of this part, and splits persons with rows in
            # other parts.
            if any(isinstance(own, Number) for own in places) and any(map(_spells_number, places)):
                raise fail("groups", "not mix numbers and strings of numbers", remedy=_MIXED)
        counts = np.zeros(len(places), np.int64)
        np.add.at(counts, codes, sizes)
        return cls(places, counts, np.zeros_like(counts), counts, np.arange(len(counts)))

    @classmethod
    def of_table(cls, groups: object, n: int) -> Persons:
        """Return the persons of a table of n rows."""
        if len(_checked(groups)) != n:
            raise fail("groups", "have as many entries as X has rows")
        return cls.of([groups])

    @classmethod
    def of_parts(cls, parts: list[object]) -> tuple[Persons, list[Persons]]:
        """Return the persons of all parts of a table, and those of each part."""
        whole = cls.of(parts)
        are_numbers = isinstance(whole.places, np.ndarray)
        ids: Any = whole.places if are_numbers else list(whole.places)
        read, each = np.zeros_like(whole.counts), []
        for part in parts:
            own, counts = np.unique(whole.codes(part), return_counts=True)
            start, stop = read[own], read[own] + counts
            read[own] = stop
            places = ids[own] if are_numbers else {ids[code]: k for k, code in enumerate(own)}
            each.append(cls(places, whole.counts[own], start, stop, own))
        return whole, each

    def __len__(self) -> int:
        return len(self.counts)

    def codes(self, groups: object) -> NDArray[np.intp]:
        """Return the position of each identifier, (rows,), or -1 if it is not there."""
        ids = _checked(groups)
        if isinstance(self.places, dict):
            get = self.places.get
            return np.fromiter((get(own, -1) for own in ids.tolist()), np.intp, len(ids))
        if ids.dtype.kind != "i" or not len(self):
            return np.full(len(ids), -1)
        found = np.minimum(np.searchsorted(self.places, ids), len(self.places) - 1)
        return np.where(self.places[found] == ids, found, -1)


class Shares:
    """The shares of rows in their persons, for one reading of the rows of `persons`.

    The share of a row depends on its rank among the rows of its person, and not on the batches in
    which they are read. The first row has the remainder. Rows beyond those of ``persons``, and
    rows of persons that are not known, have no share: they have appeared since the identifiers
    were read. So the shares of a person add up to at most `WHOLE`, whatever is read. A person with
    m rows gives each of them the share 1 / max(m, cap). Without persons the share of a row is
    `WHOLE`. Weights, in units of ``most``, the greatest, multiply the shares. ``columns`` has the
    names of the columns with the identifiers and the weights, or None for each.
    """

    def __init__(
        self,
        persons: Persons | None,
        cap: int = 1,
        most: float = 1.0,
        columns: tuple[str | None, str | None] = (None, None),
    ) -> None:
        self._persons, self._most, self._columns = persons, most, columns
        if persons is None:
            return
        counts = persons.counts
        self._each = WHOLE // np.maximum(counts, cap)
        self._rest = np.where(counts >= cap, WHOLE - self._each * counts, 0)
        self._next = persons.start.copy()

    def taken(self, X: Frame) -> tuple[Members, Any]:
        """Return `members` of the next batch, and its table without the columns that tell them."""
        given = [None if name is None else X[name] for name in self._columns]
        return self.members(*given), X.drop(columns=[own for own in self._columns if own])

    def members(self, groups: object, weights: object = None, n: int | None = None) -> Members:
        """Return the person of each row of the next batch, and its share in parts of `WHOLE`.

        It is an error if there are not n weights, where n is given.
        """
        if weights is None:
            return self._members(groups)
        steps = weight_steps(weights, self._most, n)
        if self._persons is None:
            return Members(None, WHOLE * steps // GRID)
        codes, shares = self._members(groups)
        shares = shares * steps // GRID
        bits = np.maximum(np.frexp(shares.astype(float))[1] - _BITS, 0)
        return Members(codes, shares >> bits << bits)

    def _members(self, groups: object) -> Members:
        assert self._persons is not None
        codes = self._persons.codes(groups)
        shares = np.zeros(len(codes), np.int64)
        rows = np.flatnonzero(codes >= 0)
        person = codes[rows]
        ranks = self._next[person] + _ranks(person)
        shares[rows] = self._each[person] + np.where(ranks == 0, self._rest[person], 0)
        shares[rows[ranks >= self._persons.stop[person]]] = 0
        self._next += np.bincount(person, minlength=len(self._next))
        codes[rows] = self._persons.numbers[person]
        return Members(codes, shares)


@dataclass(frozen=True, eq=False)
class Groups:
    """The n persons or weighted rows that are not in memory, with the arguments of `Shares`.

    There is one of the ``parts`` for each partition. For rows that are read in batches it has the
    persons of the whole table. A part is None if rows have weights only.
    """

    n: int
    parts: Sequence[Persons | None]
    cap: int
    most: float
    columns: tuple[str | None, str | None]

    @property
    def are_weighted(self) -> bool:
        return self.columns[1] is not None

    def shares(self, part: Persons | None) -> Shares:
        """Return the shares for one reading of a part."""
        return Shares(part, self.cap, self.most, self.columns)


def weight_steps(weights: object, most: float, n: int | None = None) -> NDArray[np.int64]:
    """Return the nearest `STEPS` of weights, (rows,), in units of ``most`` / `GRID`.

    Greater weights than ``most`` are trimmed to it. It is an error if there are not n, where n is
    given.
    """
    found: FloatArray = read_target(as_column(weights, "sample_weight"), "sample_weight")
    if n not in (None, len(found)):
        raise fail("sample_weight", "have as many entries as X has rows")
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise fail("sample_weight", "contain only finite numbers >= 0", remedy=_WEIGHTS)
    middles = (STEPS[1:] + STEPS[:-1]) / 2
    return STEPS[np.searchsorted(middles, np.minimum(found / most, 1.0) * GRID)]


def runs_of(shares: NDArray[np.int64]) -> tuple[NDArray[np.intp], list[tuple[int, int, int]]]:
    """Return the rows with a share in the order of their shares, and runs of equal ones.

    A run is (start, stop, share), within the order.
    """
    order = np.argsort(shares, kind="stable")
    order = order[np.searchsorted(shares[order], 1) :]
    values, starts = np.unique(shares[order], return_index=True)
    edges = [*starts.tolist(), len(order)]
    return order, list(zip(edges[:-1], edges[1:], values.tolist(), strict=True))


def _ranks(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many earlier rows of these each row's person has, (rows,)."""
    if not len(codes):
        return codes
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    lengths = np.diff(np.append(starts, len(codes)))
    ranks = np.empty(len(codes), np.intp)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return ranks


def _checked(groups: object) -> Array:
    """Return identifiers as an array; raise if one is missing, without naming it."""
    # Of one type numpy would make the number 1 and the string "1" equal because of another row.
    ids, rule = as_column(groups, "groups"), "have an identifier in every row"

    def has_missing() -> bool:
        if ids.dtype.kind in "fmM":
            return bool((ids != ids).any())
        # A decimal NaN is no float, but it is not equal to itself either.
        cells = ids.tolist() if ids.dtype.kind == "O" else []
        return any(is_missing(own) or bool(own != own) for own in cells)

    if converted(has_missing, "groups", rule, _MISSING):
        raise fail("groups", rule, remedy=_MISSING)
    if ids.dtype.kind not in "mM":
        return ids
    # Batches may have times of different units, which would be different objects.
    times = ids.astype(f"{ids.dtype.kind}8[us]")
    if not np.array_equal(times.astype(ids.dtype), ids):  # rounded, or too far
        raise fail("groups", "be times of whole microseconds", remedy="Convert them to strings.")
    return times


def _spells_number(own: object) -> bool:
    try:
        return isinstance(own, str) and not math.isnan(float(own))
    except ValueError:
        return False


def _counted(ids: Array) -> _Counts:
    if ids.dtype.kind == "i":
        return np.unique(ids.astype(np.int64), return_counts=True)
    rule = "contain identifiers that can be hashed"
    found = converted(lambda: Counter(ids.tolist()), "groups", rule, "Use strings.")
    return list(found), np.array(list(found.values()), dtype=np.int64)
