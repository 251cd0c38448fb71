"""The spends that a handle on a ledger has read, and their totals."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from skdp.privacy.ledger import _rows
from skdp.privacy.ledger._accounting import Account
from skdp.privacy.ledger._entries import Entry


@dataclass(frozen=True)
class Seen:
    """The spends that were read up to a row. Rows never change, so none is read again.

    Parameters
    ----------
    account : Account
        The totals of the spends.
    relation : str, optional
        The neighbouring relation of the first spend, with its unit.
    last : int
        Number of the last row.
    blocks : nested tuples
        The earlier blocks of entries and the last one; a new block copies no earlier entry.
    known : int
        Number of a row that must be in the file, at or after the last one; 0 if there is none.
    """

    account: Account
    relation: str | None = None
    last: int = 0
    blocks: tuple[Any, ...] = ()
    known: int = 0

    def read(self, database: sqlite3.Connection) -> Seen:
        """Return this with the rows that are new; an error if rows that were known are gone."""
        _rows.check_holds(database, self.known)
        new, last = _rows.entries_after(database, self.last)
        if not new:
            return self
        relation = new[0].relation if self.relation is None else self.relation
        return Seen(self.account.after(*new), relation, last, (self.blocks, new), last)

    def flat(self) -> Seen:
        """Return this with all entries in one block."""
        found, rest = [], self.blocks
        while rest:
            rest, block = rest
            found.append(block)
        entries = tuple(chain.from_iterable(reversed(found)))
        return replace(self, blocks=((), entries))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, in order; flat instances only."""
        entries: tuple[Entry, ...] = self.blocks[1]
        return entries
