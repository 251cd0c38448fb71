"""The spends that a handle on a ledger has read, and their totals."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from skdp.privacy import ledger_file as _rows
from skdp.privacy.ledger_rules import Account
from skdp.privacy.ledger_rules import Entry


@dataclass(frozen=True)
class Seen:
    """The spends that were read up to a row. Rows never change, so none is read again.

    Parameters
    ----------
    account : Account
        The totals of the spends.
    rows : list of Entry
        The spends, and maybe further ones: a later state appends to the same list.
    count : int
        Number of the spends.
    last : int
        Number of the last row.
    known : int
        Number of a row that must be in the file, at or after the last one; 0 if there is none.
    """

    account: Account
    rows: list[Entry] = field(default_factory=list)
    count: int = 0
    last: int = 0
    known: int = 0

    def read(self, database: sqlite3.Connection) -> Seen:
        """Return this with the rows that are new; an error if rows that were known are gone."""
        _rows.check_holds(database, self.known)
        new, last = _rows.entries_after(database, self.last)
        if not new:
            return self
        account = self.account.after(*new)
        self.rows[self.count :] = new
        return Seen(account, self.rows, len(self.rows), last, last)

    @property
    def relation(self) -> str | None:
        """The neighbouring relation of the first spend, with its unit."""
        return self.rows[0].relation if self.count else None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The spends, in order."""
        return tuple(self.rows[: self.count])
