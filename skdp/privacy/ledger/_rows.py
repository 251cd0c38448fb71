"""The tables of a ledger's file: the ceiling, the rule, the spends, and their losses.

Files of the first layout have neither rule nor losses. Their rule is "adaptive", and a spend
without losses counts as the worst release with its epsilon and delta. The neighbouring relation
of a spend for persons is written with its unit: an earlier version then refuses to add rows to it.

Numbers of spends increase by random steps, so a number also identifies a spend: after a backup was
restored, no new spend gets the number of one that was lost. The first layout counted from 1.
"""

from __future__ import annotations

import math
import secrets
import sqlite3
from dataclasses import astuple
from typing import Any, NamedTuple

from skdp.privacy.ledger_rules import Budget, Entry
from skdp.privacy.ledger_file import from_text, to_text


class Identity(NamedTuple):
    """The terms of a ledger, and a random token that identifies it."""

    ceiling: Budget
    composition: str
    token: str


def _append_only(table: str) -> list[str]:
    return [
        f"CREATE TRIGGER IF NOT EXISTS {table}_{verb} BEFORE {verb} ON {table}"
        " BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    ]


_LOSS = (
    "CREATE TABLE IF NOT EXISTS loss (number INTEGER PRIMARY KEY, losses TEXT NOT NULL)",
    *_append_only("loss"),
)
_SCHEMA = (
    # REAL holds a float bit by bit.
    "CREATE TABLE ceiling (epsilon REAL NOT NULL, delta REAL NOT NULL, token TEXT NOT NULL)",
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,"
    " neighbors TEXT NOT NULL, mechanism TEXT NOT NULL, note TEXT NOT NULL,"
    " holds INTEGER NOT NULL)",
    "CREATE TABLE rule (composition TEXT NOT NULL)",
    *(line for table in ("ceiling", "entry", "rule") for line in _append_only(table)),
    *_LOSS,
)
_COLUMNS = "epsilon, delta, neighbors, mechanism, note, holds, entry.number"
# As SQLite keeps them. A view, a virtual table or a trigger of somebody else could run for ever.
_KNOWN = {statement.replace("IF NOT EXISTS ", "") for statement in _SCHEMA}
_REQUIRED, _RULE = set(_SCHEMA[:2]), _SCHEMA[2]
_STEP, _MOST = 2**40, 2**62


def create(database: sqlite3.Connection, ceiling: Budget, composition: str) -> None:
    """Create the tables of a new ledger."""
    for statement in _SCHEMA:
        database.execute(statement)
    identity = (*astuple(ceiling), secrets.token_hex(16))
    database.execute("INSERT INTO ceiling VALUES (?, ?, ?)", identity)
    database.execute("INSERT INTO rule VALUES (?)", (composition,))


def identity(database: sqlite3.Connection) -> Identity | None:
    """Return the identity of the ledger, or None if the file lacks it or holds other tables."""
    found = {sql for (sql,) in database.execute("SELECT sql FROM sqlite_master")}
    if not _REQUIRED <= found <= _KNOWN:
        return None
    row = database.execute("SELECT epsilon, delta, token FROM ceiling").fetchone()
    if row is None:
        return None
    composition = "adaptive"
    if _RULE in found:
        rule = database.execute("SELECT composition FROM rule").fetchone()
        if rule is None:
            return None
        composition = rule[0]
    epsilon, delta, token = row
    return Identity(Budget(epsilon, delta), composition, token)


def check_holds(database: sqlite3.Connection, number: int) -> None:
    """Raise an error unless the spend with this number is in the file; 0 stands for none."""
    query = "SELECT 1 FROM entry WHERE number = ?"
    if number and database.execute(query, (number,)).fetchone() is None:
        raise sqlite3.DatabaseError("recorded spends are gone, as if a backup had been restored")


def entries_after(database: sqlite3.Connection, number: int) -> tuple[list[Entry], int]:
    """Return the spends with greater numbers, in order, and the last number."""
    losses, source = "NULL", "entry"
    if _has_losses(database):
        losses, source = "losses", "entry LEFT JOIN loss ON loss.number = entry.number"
    query = f"SELECT {_COLUMNS}, {losses} FROM {source} WHERE entry.number > ? ORDER BY 7"
    rows = database.execute(query, (number,)).fetchall()
    return [_entry(row) for row in rows], rows[-1][6] if rows else number


def _entry(row: tuple[Any, ...]) -> Entry:
    epsilon, delta, relation, mechanism, note, holds, number, text = row
    # SQLite keeps any value in any column.
    amounts = isinstance(epsilon, float) and isinstance(delta, float) and number < _MOST
    texts = all(isinstance(part, str) for part in (relation, mechanism, note, text or ""))
    if not (amounts and texts and 0 <= epsilon < math.inf and 0 <= delta <= 1):
        raise sqlite3.DatabaseError("a row is not a spend")
    losses = (from_text(text) if text else None) or ()
    neighbors, _, unit = relation.partition(" ")
    return Entry(epsilon, delta, neighbors, mechanism, note, bool(holds), losses, unit or "row")


def append(database: sqlite3.Connection, entry: Entry, last: int) -> int:
    """Record a spend, with its losses if they can be kept, and return its number."""
    number = last + 1 + secrets.randbelow(_STEP)
    row = (
        *(number, entry.epsilon, entry.delta, entry.relation, entry.mechanism, entry.note),
        int(entry.holds),
    )
    database.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    text = to_text(entry.losses) if entry.losses else None
    if text is not None:
        for statement in () if _has_losses(database) else _LOSS:
            database.execute(statement)
        database.execute("INSERT INTO loss VALUES (?, ?)", (number, text))
    return number


def _has_losses(database: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'loss'"
    return database.execute(query).fetchone() is not None
