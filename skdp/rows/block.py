"""Blocks of encoded rows, and the runs of rows of a table that they are cut from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.domain.layout import encode_compactly
from skdp.domain.tables import EncodedRows, Frame, Table, as_table
from skdp.rows.persons import Members, Shares, runs_of
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import fail

# Sums over so many multiples of 2^-40 in [-1, 1] are exact in floats, in any order.
MOST_ROWS = 2**13
# So many floats stay in the processor's cache.
CELLS = 2**18


@dataclass(frozen=True, eq=False)
class Block:
    """Encoded rows that lie next to each other.

    Attributes
    ----------
    numbers : ndarray of shape (n, n_numbers)
        The numbers as the domain encodes them, as floats or in the type that was asked for.
    levels : tuple of unsigned integer arrays of shape (n,)
        Position of each row's level, for each column of levels that has two levels or more, and
        whether a number is missing, where it has an indicator.
    target : ndarray of shape (n,)
        The encoded target in [-1, 1], or the position of each label.
    share : int or None
        The share of each of the rows in its person, in parts of `persons.WHOLE`. None if rows
        have no persons.
    person : ndarray of int, shape (n,), or None
        The position of each row's person; private.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.rows import Block
    >>> sex = np.array([0, 1, 1], dtype=np.uint8)
    >>> block = Block(np.array([[0.5], [-0.5], [0.0]]), (sex,), np.array([1, 0, 1]))
    >>> len(block)
    3
    """

    numbers: FloatArray
    levels: tuple[Array, ...]
    target: Array
    share: int | None = None
    person: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def weight(self) -> int:
        """The number of rows, or the sum of their shares."""
        return weight_of(len(self), self.share)

    def parts(self, width: int) -> Iterator[Block]:
        """Yield parts of the block of which ``width`` floats for each row stay in the cache."""
        step = block_rows(width)
        if step >= len(self):
            yield self
            return
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            levels = tuple(codes[rows] for codes in self.levels)
            person = None if self.person is None else self.person[rows]
            yield Block(self.numbers[rows], levels, self.target[rows], self.share, person)


def block_slices(domain: Domain, n: int, blocks: int = 1) -> Iterator[slice]:
    """Yield the rows of n that belong together, those of so many ``blocks``."""
    step = blocks * block_rows(_width(domain))
    for start in range(0, max(n, 1), step):  # sums over no row are zeros
        yield slice(start, min(start + step, n))


@dataclass(frozen=True, eq=False)
class Run:
    """Rows of a table with their encoded targets and persons; all have the same share, or None."""

    table: Table
    target: Array
    share: int | None = None
    person: NDArray[np.intp] | None = None

    @classmethod
    def all_of(cls, table: Table, target: Array, members: Members | None) -> Iterator[Run]:
        """Yield runs of all rows of a table that have a share; one without rows if none has."""
        if members is None:
            yield cls(table, target)
            return
        order, runs = runs_of(members.shares)
        table, target, person = table.taken(order), target[order], members.codes[order]
        for start, stop, share in runs or [(0, 0, 0)]:
            yield cls(
                table.taken(slice(start, stop)), target[start:stop], share, person[start:stop]
            )

    @property
    def weight(self) -> int:
        """The number of rows, or the sum of their shares."""
        return weight_of(len(self.target), self.share)

    def blocks(
        self,
        domain: Domain,
        rows: Iterable[slice],
        dtype: type | None = None,
        at_once: bool = False,
    ) -> Iterator[Block]:
        """Yield encoded rows with their encoded targets, one block for each slice.

        If a ``dtype`` is given, the numbers are those of `encode_compactly` with it. If each block
        is used ``at_once``, and then no more, all have the same memory: new memory takes the system
        as long as it takes to encode the numbers.
        """
        room = None
        for own in rows:
            found = encode_compactly(domain, self.table.taken(own), dtype, room)
            if at_once and not isinstance(self.table, EncodedRows):
                room = found
            person = None if self.person is None else self.person[own]
            yield Block(found.numbers, found.levels, self.target[own], self.share, person)


class Coder(Protocol):
    """Encodes a target: each entry by itself."""

    def encode(self, y: object) -> Array:
        """Return encoded numbers in [-1, 1], or positions of labels."""


def columns_to_read(
    domain: Domain | None, names: list[str] | None, target: str | None, groups: str | None = None
) -> list[str] | None:
    """Return the columns of the domain, the target and the identifiers; None for all columns.

    All are read if the domain or the table has no names.
    """
    if domain is None or domain.names is None or names is None:
        return None
    return [*domain.names, *(name for name in (target, groups) if name is not None)]


def encoded_runs(
    domain: Domain, batch: Frame, target: str | None, coder: Coder, shares: Shares | None = None
) -> Iterator[Run]:
    """Yield the rows of a batch with their encoded targets, those of equal shares together.

    A batch has the target as a column, or is a pair of a table and a target if ``target`` is None.
    ``shares`` are those of the reading that this batch is a part of.
    """
    if target is not None:
        batch = batch.drop(columns=[target]), batch[target]
    elif not isinstance(batch, tuple):
        rule = "be the name of a column, unless X returns pairs of a table and a target"
        raise fail("target", rule, remedy='Use fit(X, target="name").')
    X, y = batch
    members = None
    if shares is not None:
        members, X = shares.members(X[shares.column]), X.drop(columns=[shares.column])
    table = as_table(X, domain.names, domain.n_columns)
    encoded = coder.encode(y)
    if len(encoded) != table.n_rows:
        raise fail("y", "have as many entries as X has rows, in each batch or partition")
    yield from Run.all_of(table, encoded, members)


def weight_of(n: int, share: int | None) -> int:
    """Return the number of n rows, or the sum of their shares if they have persons."""
    return n if share is None else n * share


def check_weight(found: int, weight: int | None, may_be_empty: bool) -> None:
    """Raise an error if a reading has not the weight that is public, or no rows."""
    if weight not in (None, found) or not (found or may_be_empty):
        remedy = "Other code may have changed the source. Nothing of this reading is released."
        raise fail("X", "have the same rows at each reading", remedy=remedy)


def most_blocks(domain: Domain) -> int:
    """Return the greatest number of blocks that have at most MOST_ROWS rows in all."""
    return MOST_ROWS // block_rows(_width(domain))


def _width(domain: Domain) -> int:
    return domain.n_numbers + len(domain.block_sizes) + 1


def block_rows(width: int) -> int:
    """Return the number of rows of a block with ``width`` floats for each row."""
    return min(MOST_ROWS, max(256, CELLS // max(1, width)))
