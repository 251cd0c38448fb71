"""Persons: groups of rows with one identifier, and the share that each row has in its person.

A share is an integer number of `WHOLE` parts. The shares of a person's rows add up to exactly
`WHOLE` or, if a cap allows more than one full row, to at most that. So the contribution of a person
to a sum over rows is exactly a convex combination of the contributions of single rows, or of these
and 0 (docs/proofs/persons.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp._checks import fail
from skdp.domain.cells import as_cells, is_missing

# The parts of a whole person.
WHOLE_BITS = 30
WHOLE = 2**WHOLE_BITS

# Different identifiers, and their numbers of rows.
_Counts = tuple[NDArray[np.int64] | list[Any], NDArray[np.int64]]

_MISSING = "Drop rows without a person, or give each of them an identifier of its own."
_MIXED = "Convert all of them to strings by a public rule before they are read."


class Members(NamedTuple):
    """The position of the person of each row, and the share of each row in it, (rows,) each."""

    codes: NDArray[np.intp]
    shares: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Persons:
    """The persons of a table, with their numbers of rows.

    Attributes
    ----------
    counts : ndarray of int64, shape (n_persons,)
        Numbers of rows; private.
    first : ndarray of int64, shape (n_persons,)
        The number of the batch with a person's first row.
    places : ndarray of int64, sorted, or dict
        The identifiers: sorted integers, or a dict from identifiers to positions.
    """

    counts: NDArray[np.int64]
    first: NDArray[np.int64]
    places: NDArray[np.int64] | dict[Any, int]

    @classmethod
    def of(cls, batches: Iterable[Any]) -> Persons:
        """Return the persons of batches of identifiers.

        Parameters
        ----------
        batches : iterable of array-like of shape (rows,)
            Hashable identifiers. Those that are equal are of one person.

        Raises
        ------
        ValueError
            If an identifier is missing or cannot be hashed, or if some are numbers and others are
            strings that spell numbers. The message does not name it.
        """
        found = [_counted(_checked(batch)) for batch in batches]
        if all(isinstance(ids, np.ndarray) for ids, _ in found):
            every = np.concatenate([ids for ids, _ in found] or [np.empty(0, np.int64)])
            places, codes = np.unique(every, return_inverse=True)
            return cls._of_codes(codes, found, places)
        known: dict[Any, int] = {}
        each = [known.setdefault(own, len(known)) for ids, _ in found for own in ids]
        if _are_spelled_twice(known):
            raise fail("groups", "not hold both numbers and strings of numbers", remedy=_MIXED)
        return cls._of_codes(np.array(each, dtype=np.intp), found, known)

    @classmethod
    def of_table(cls, groups: Any, n: int) -> Persons:
        """Return the persons of a table of n rows."""
        if len(_checked(groups)) != n:
            raise fail("groups", "have as many entries as X has rows")
        return cls.of([groups])

    @classmethod
    def _of_codes(cls, codes: NDArray[np.intp], found: list[_Counts], places: Any) -> Persons:
        """Return persons from the codes of the identifiers of all batches, one after another."""
        counts, first = np.zeros(len(places), np.int64), np.full(len(places), len(found))
        np.add.at(counts, codes, np.concatenate([own for _, own in found]))
        np.minimum.at(first, codes, np.repeat(range(len(found)), [len(own) for _, own in found]))
        return cls(counts, first, places)

    def __len__(self) -> int:
        return len(self.counts)

    def codes(self, groups: Any) -> NDArray[np.intp]:
        """Return the position of each identifier, (rows,); -1 for one that is not known."""
        ids = _checked(groups)
        if isinstance(self.places, dict):
            get = self.places.get
            return np.fromiter((get(own, -1) for own in ids.tolist()), np.intp, len(ids))
        if ids.dtype.kind != "i":
            return np.full(len(ids), -1)
        found = np.minimum(np.searchsorted(self.places, ids), len(self.places) - 1)
        return np.where(self.places[found] == ids, found, -1)

    def members(
        self, groups: Any, cap: int, number: int = 0, max_rows: int | None = None
    ) -> Members:
        """Return the person of each row of a batch, and its share as `shares` does."""
        return Members(self.codes(groups), self.shares(groups, cap, number, max_rows))

    def shares(
        self, groups: Any, cap: int, number: int = 0, max_rows: int | None = None
    ) -> NDArray[np.int64]:
        """Return the share of each row of a batch, (rows,), in parts of `WHOLE`.

        Parameters
        ----------
        groups : array-like of shape (rows,)
        cap : int >= 1
            A person with m rows gives each of them the share 1 / max(m, cap).
        number : int
            The number of the batch.
        max_rows : int, optional
            Rows of a person after its first ``max_rows`` have no share. Of one batch only.
        """
        codes = self.codes(groups)
        counts = self.counts if max_rows is None else np.minimum(self.counts, max_rows)
        each = WHOLE // np.maximum(counts, cap)
        rest = np.where(counts >= cap, WHOLE - each * counts, 0)
        shares: NDArray[np.int64] = each[codes]
        if max_rows is not None:
            shares[_ranks(codes) >= max_rows] = 0
        own, at = np.unique(codes, return_index=True)
        is_first = self.first[own] == number
        shares[at[is_first]] += rest[own[is_first]]
        shares[codes < 0] = 0  # not there at the first reading
        return shares


@dataclass(frozen=True, eq=False)
class Groups:
    """Persons of rows that are read in batches: a column of identifiers, and their shares."""

    column: str
    persons: Persons
    cap: int

    def members(self, ids: Any, number: int) -> Members:
        """Return the person and the share of each row of a batch."""
        return self.persons.members(ids, self.cap, number)


def runs_of(shares: NDArray[np.int64]) -> tuple[NDArray[np.intp], list[tuple[int, int, int]]]:
    """Return the rows with a share in the order of their shares, and runs of equal ones.

    Returns
    -------
    order : ndarray of int
        Positions of rows; rows without a share are left out.
    runs : list of (start, stop, share)
        Within the order.
    """
    order = np.argsort(shares, kind="stable")
    order = order[np.searchsorted(shares[order], 1) :]
    values, starts = np.unique(shares[order], return_index=True)
    stops = [*starts[1:].tolist(), len(order)]
    return order, list(zip(starts.tolist(), stops, values.tolist(), strict=True))


def _ranks(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many earlier rows each row's person has, (rows,)."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    lengths = np.diff(np.append(starts, len(codes)))
    ranks = np.empty(len(codes), np.intp)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return ranks


def _checked(groups: Any) -> NDArray[Any]:
    """Return identifiers as an array; raise if one is missing, without naming it."""
    # Of one type numpy would make the number 1 and the string "1" equal because of another row.
    ids = as_cells(groups, "groups")
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.ndim != 1:
        raise fail("groups", "be a 1d array of identifiers", ids.ndim, "Give one for each row.")
    found = True
    with suppress(Exception):
        found = _has_missing(ids)
    if found:
        raise fail("groups", "have an identifier in every row", remedy=_MISSING)
    # Batches may have times of different units, which would be different objects.
    return ids.astype(f"{ids.dtype.kind}8[us]") if ids.dtype.kind in "mM" else ids


def _has_missing(ids: NDArray[Any]) -> bool:
    if ids.dtype.kind in "fmM":
        return bool((ids != ids).any())
    # A decimal NaN is no float, but it is not equal to itself either.
    cells = ids.tolist() if ids.dtype.kind == "O" else []
    return any(is_missing(own) or bool(own != own) for own in cells)


def _are_spelled_twice(ids: Iterable[Any]) -> bool:
    """Return whether some identifiers are numbers and others are strings that spell numbers.

    A reader of files may infer the types of a part of the rows. Then one row with the text "A1"
    makes strings of all identifiers of this part, and splits persons with rows in other parts.
    """
    return any(issubclass(type(own), Number) for own in ids) and any(map(_spells_number, ids))


def _spells_number(own: Any) -> bool:
    if issubclass(type(own), str):
        with suppress(Exception):  # a derived class may raise any error
            return not math.isnan(float(own))
    return False


def _counted(ids: NDArray[Any]) -> _Counts:
    """Return the different identifiers with their numbers of rows."""
    if ids.dtype.kind == "i":
        return np.unique(ids.astype(np.int64), return_counts=True)
    found = None
    with suppress(Exception):  # the code of an identifier's class may raise any error
        found = Counter(ids.tolist())
    if found is None:
        raise fail("groups", "hold identifiers that can be hashed", remedy="Use strings.")
    return list(found), np.array(list(found.values()), dtype=np.int64)
