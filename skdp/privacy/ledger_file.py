"""The file of a ledger: how it is made, checked, opened and locked, its tables, and its text.

Spends have numbers that increase by random steps, so a number also identifies a spend: after a
backup was restored, no new spend gets the number of one that was lost.

Privacy losses are kept as JSON of names and numbers, never code. A loss without such a form, for
instance one that is given by its profile only, is replaced by a loss of finitely many values that
dominates it.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path

import numpy as np

from skdp._codec import VERSION, document, encode
from skdp._codec import from_text as content_of
from skdp.privacy.ledger_rules import Budget, Entry, RecordGroup
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_count, fail
from skdp.trusted.fold import multiples, upper
from skdp.trusted.losses import FiniteLoss, Losses, Profile, ProfileLoss

BUSY_SECONDS = 60.0
# How long a ledger that somebody else is making may stay empty.
MAKING_SECONDS = 5.0
# Where Linux has files in memory, in place of /tmp.
_MEMORY, _DEFAULT = "/dev/shm", "/tmp"
_MOUNTS = Path("/proc/self/mountinfo")
_DENIED = sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY

# Held in each transaction, and while the process forks: the child of a fork inside a transaction
# would inherit SQLite's mutexes and its record of locks, and nobody would release them there.
LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
    )

_SCHEMA = (
    # REAL holds a float bit by bit.
    "CREATE TABLE ceiling (epsilon REAL NOT NULL, delta REAL NOT NULL, composition TEXT NOT NULL,"
    " token TEXT NOT NULL)",
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,"
    " neighbors TEXT NOT NULL, mechanism TEXT NOT NULL, note TEXT NOT NULL,"
    " holds INTEGER NOT NULL, unit TEXT NOT NULL, losses TEXT NOT NULL,"
    " groups TEXT NOT NULL, levels TEXT NOT NULL, level TEXT NOT NULL, author TEXT NOT NULL,"
    " date TEXT NOT NULL, source TEXT NOT NULL, part TEXT NOT NULL)",
    "CREATE TABLE part (name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL)"
    " WITHOUT ROWID",
    *(
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}"
        " BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        for table in ("ceiling", "entry", "part")
        for verb in ("UPDATE", "DELETE")
    ),
)
_STEP, _MOST = 2**40, 2**62

# Number of points of a curve on either side of 0. The last one is the first of _EPSILONS at which
# the profile is below e^_FAR or stops decreasing.
_POINTS = 64
_EPSILONS, _FAR = np.geomspace(1e-9, 700.0, 512), -80.0
# Amounts added to a profile: far more than rounding errors, and negligible.
_RAISED, _NUDGED = 1e-10, 1e-12


class LedgerLost(ValueError):
    """The ledger's file is missing, another one, or has lost spends: what is left is unknown.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from skdp.privacy import Ledger
    >>> path = Path(mkdtemp()) / "people.ledger"
    >>> ledger = Ledger(epsilon=1.0, path=path)
    >>> path.unlink()
    >>> ledger.remaining
    Traceback (most recent call last):
        ...
    skdp.privacy.LedgerLost: ...
    """


# Tracebacks name the module from which users import it.
LedgerLost.__module__ = "skdp.privacy"


def checked(path: str | os.PathLike[str]) -> str:
    """Return a user's path as an absolute one without symbolic links."""
    try:
        name = os.fspath(path)
        usable = isinstance(name, str) and b"\0" not in os.fsencode(name)
    except (TypeError, UnicodeError):
        usable = False
    if not usable:
        rule = "be a string without NUL characters or a pathlib.Path"
        raise fail("path", rule, path, "Pass for example path='people.ledger'.")
    return os.path.realpath(name)


def create(path: str, ceiling: Budget, composition: str, mode: int = 0o666) -> None:
    """Make a new ledger at ``path``, unless a file is there; the umask applies to the mode.

    The file stays empty until all tables are in it, and only its maker writes to an empty file.
    SQLite removes a journal that was left beside an empty file; it would apply it to any other.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    except FileExistsError:
        return
    except PermissionError as error:
        raise _denied(path) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise fail("path", "lie in a folder that exists", path) from error
    except OSError as error:
        rule = f"be a path where a file can be made ({error.strerror})"
        raise fail("path", rule, path, "Pass a path in another folder.") from error
    with transaction(path, "BEGIN IMMEDIATE") as database:
        create_tables(database, ceiling, composition)


def wait_until_made(path: str) -> None:
    """Wait while a file is empty, for some seconds: another process may be making it."""
    deadline = time.monotonic() + MAKING_SECONDS
    with suppress(OSError):  # the next transaction says what is wrong
        while os.path.getsize(path) == 0 and time.monotonic() < deadline:
            time.sleep(0.01)


def temporary_path() -> str:
    """Return a path in a new folder that only its owner can use, in memory if possible.

    In memory a transaction waits for no disk. A restart of the machine removes the file, but it
    never removes the last spends only. If the user chose a place for temporary files, it is used.
    """
    memory = tempfile.gettempdir() == _DEFAULT and os.access(_MEMORY, os.W_OK | os.X_OK)
    # A separate folder, so that nobody else can put a journal beside the ledger's file.
    folder = tempfile.mkdtemp(prefix="skdp-ledger-", dir=_MEMORY if memory else None)
    # Unlike `atexit`, this also works in children that multiprocessing forked. It does nothing in
    # a process that inherited it.
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=0)
    return os.path.join(os.path.realpath(folder), "ledger.sqlite3")


@contextmanager
def transaction(path: str, begin: str) -> Iterator[sqlite3.Connection]:
    """Open a connection for one transaction, so that none is shared by threads or forks."""
    with LOCK:
        try:
            # rw, not rwc: a missing ledger must not be made anew.
            address = f"{Path(path).as_uri()}?mode=rw"
        except ValueError as error:
            raise lost(path, "is of another operating system") from error
        _check_names(path)
        try:
            with closing(
                sqlite3.connect(address, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
            ) as database:
                database.execute(begin)
                with database:  # commits, or rolls back on any error
                    yield database
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_BUSY:
                raise TimeoutError(
                    f"The ledger {path!r} stayed busy for {BUSY_SECONDS:g} seconds; nothing was "
                    "recorded. Try again."
                ) from error
            if code in _DENIED and not (
                os.access(path, os.R_OK | os.W_OK)
                and os.access(os.path.dirname(path), os.W_OK | os.X_OK)
            ):
                raise _denied(path) from error
            raise lost(path, f"cannot be used ({error})") from error


def lost(path: str, what: str) -> LedgerLost:
    """Return the error for a file that is missing, or that no longer holds what it held."""
    return LedgerLost(
        f"The ledger's file {path!r} {what}, so the remaining budget is unknown. A ledger without "
        "a path ends with the process that made it, and a ledger cannot move to another machine. "
        "Give the model a new one by set_params(ledger=Ledger(...)), with a ceiling lowered by the "
        "amount spent before; use Ledger(..., path=...) for one that persists."
    )


def _denied(path: str) -> PermissionError:
    return PermissionError(
        f"The ledger {path!r} must be readable and writable, and its folder writable, by the user "
        "who spends; nothing was recorded. Ask the owner for the missing right. A new ledger would "
        "be a second budget."
    )


def _check_names(path: str) -> None:
    """Raise an error unless this is the only name of a file.

    SQLite keeps the journal of an unfinished transaction beside the name. If the file had a second
    name, spends could be recorded under it meanwhile, and the journal would later undo them.
    """
    try:
        found = os.stat(path)
    except PermissionError as error:
        raise _denied(path) from error
    except OSError as error:
        raise lost(path, f"cannot be used ({error.strerror})") from error
    if not stat.S_ISREG(found.st_mode):
        raise lost(path, "cannot be used (not a regular file)")
    if found.st_nlink > 1 or _is_mounted(path, found.st_dev, found.st_ino):
        raise fail(
            "path",
            "be the only name of the ledger's file",
            path,
            "Remove other hard links to the file. In a container mount the folder of the ledger, "
            "not its file.",
        )


@lru_cache(maxsize=1024)
def _is_mounted(path: str, device: int, inode: int) -> bool:
    """Return whether a file is itself a mount point; False where the system does not say."""
    name = os.fsencode(path)
    for byte in b"\\ \t\n":  # the kernel escapes these; the backslash comes first
        name = name.replace(bytes([byte]), b"\\%03o" % byte)
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return False
    return any(line.split(b" ")[4] == name for line in mounts)


# The tables


def create_tables(database: sqlite3.Connection, ceiling: Budget, composition: str) -> None:
    for statement in _SCHEMA:
        database.execute(statement)
    terms = ceiling.epsilon, ceiling.delta, composition, secrets.token_hex(16)
    database.execute("INSERT INTO ceiling VALUES (?, ?, ?, ?)", terms)


def terms_of(path: str, database: sqlite3.Connection) -> tuple[Budget, str, str]:
    """Return ceiling, composition and a random token that identifies the ledger.

    An error if the file lacks them or holds other tables.
    """
    # As SQLite keeps them. A view, a virtual table or a trigger of somebody else could run for
    # ever.
    found = {sql for (sql,) in database.execute("SELECT sql FROM sqlite_master")}
    query, row = "SELECT epsilon, delta, composition, token FROM ceiling", None
    if set(_SCHEMA[:3]) <= found <= set(_SCHEMA):
        row = database.execute(query).fetchone()
    if row is None:
        raise lost(path, "states no ceiling, or has other tables")
    epsilon, delta, composition, token = row
    return Budget(epsilon, delta), composition, token


def check_holds(database: sqlite3.Connection, number: int) -> None:
    """Raise an error unless the spend with this number is in the file; 0 stands for none."""
    query = "SELECT 1 FROM entry WHERE number = ?"
    if number and database.execute(query, (number,)).fetchone() is None:
        raise sqlite3.DatabaseError("recorded spends are gone, as if a backup had been restored")


def limit_of(database: sqlite3.Connection, part: str) -> Budget | None:
    """Return the ceiling of a part of the ledger, or None if it has no such part."""
    row = database.execute("SELECT epsilon, delta FROM part WHERE name = ?", (part,)).fetchone()
    return row and Budget(*row)


def enter_part(database: sqlite3.Connection, part: str, ceiling: Budget) -> Budget | None:
    """Enter a part unless there is one of this name, and return the ceiling of that one."""
    row = part, ceiling.epsilon, ceiling.delta
    database.execute("INSERT OR IGNORE INTO part VALUES (?, ?, ?)", row)
    return limit_of(database, part)


def entries_after(database: sqlite3.Connection, number: int) -> tuple[list[Entry], int]:
    """Return the spends with greater numbers, in order, and the last number."""
    query = "SELECT * FROM entry WHERE number > ? ORDER BY number"
    rows = database.execute(query, (number,)).fetchall()
    entries = []
    for number, epsilon, delta, neighbors, mechanism, note, holds, unit, text, *others in rows:
        # SQLite keeps any value in any column.
        amounts = isinstance(epsilon, float) and isinstance(delta, float) and number < _MOST
        column, levels, level, *facts = others
        texts = neighbors, mechanism, note, unit, text, *others
        is_text = all(isinstance(own, str) for own in texts)
        if not (amounts and is_text and 0 <= epsilon < math.inf and 0 <= delta <= 1):
            raise sqlite3.DatabaseError("a row is not a spend")
        losses = from_text(text) if text else ()
        group = RecordGroup(column, levels, unit, level) if column else None
        guarantee = epsilon, delta, neighbors, mechanism, note, bool(holds), losses, unit
        entries.append(Entry(*guarantee, group, *facts))
    return entries, number


def append(database: sqlite3.Connection, entry: Entry, last: int) -> int:
    """Record a spend, with its losses if they can be kept, and return its number."""
    number = last + 1 + secrets.randbelow(_STEP)
    # Names of users and of files may have bytes that are no text.
    facts = entry.author, entry.date, entry.table, entry.part
    row = (
        *(number, entry.epsilon, entry.delta, entry.neighbors, entry.mechanism, entry.note),
        *(int(entry.holds), entry.unit, to_text(entry.losses) if entry.losses else ""),
        *((own.column, own.levels, own.level) if (own := entry.group) else ("",) * 3),
        *(text.encode("utf-8", "replace").decode() for text in facts),
    )
    database.execute(f"INSERT INTO entry VALUES ({', '.join('?' * len(row))})", row)
    return number


# Privacy losses as text


def kept(losses: Losses) -> Losses:
    """Return the losses as a file can hold them, or an empty tuple if it cannot.

    A loss that does not read back is replaced by one that dominates it, through points of its
    profile.
    """
    found = []
    for loss, count in losses:
        readable = loss if to_text(((loss, 1),)) else _by_points(loss)
        if readable is None:
            return ()
        found.append((readable, count))
    return tuple(found)


def to_text(losses: Losses) -> str:
    """Return the losses as text, which is empty if a file cannot hold them."""
    try:
        parts = encode("losses", losses)
    except ValueError:
        return ""
    return json.dumps({"kind": "losses", "version": VERSION, "losses": parts}, allow_nan=False)


@lru_cache(maxsize=4096)
def from_text(text: str) -> Losses:
    """Return the losses, or none if the text is of a later version or has an unknown name."""
    try:
        content = content_of("losses", text)
        found: Losses = document("losses", {"losses": Losses}, content, ("losses",))["losses"]
        return tuple((loss, check_count("a count", count)) for loss, count in found)
    except ValueError:
        return ()


def _by_points(loss: Profile) -> FiniteLoss | None:
    """Return a loss of finitely many values that dominates the loss, or None."""
    both = loss, loss.reversed()
    # Beyond the end of a profile it is negligible or constant.
    logs_at = [one.log_delta(_EPSILONS) for one in both]
    ends = [_EPSILONS[np.argmax(logs <= max(logs[-1] + _RAISED, _FAR))] for logs in logs_at]
    step = float(max(ends)) / _POINTS
    curves = _table(both[0], step), _table(both[1], step)
    pairs = ProfileLoss(*curves), ProfileLoss(*curves[::-1])
    # Each order of the pair by itself: in the other its far tail is a difference of numbers near 1.
    (x, log_p, p_mass), (y, log_q, q_mass) = (_tail(pair, step) for pair in pairs)
    logs = np.concatenate([(log_q - y)[::-1], log_p])
    values = np.concatenate([-y[::-1], x])
    if (rest := 1 - math.fsum(np.exp([*logs, p_mass]))) > 0:
        values, logs = np.insert(values, len(y), 0.0), np.insert(logs, len(y), math.log(rest))
    try:
        bound = FiniteLoss(tuple(values), tuple(logs + _RAISED), p_mass, q_mass)
    except ValueError:  # the two curves are no profiles of a pair
        return None
    # Whether both profiles lie above the curves at their corners, despite rounding.
    above = (bound.log_delta(x) >= curves[0](x)).all()
    above &= (bound.reversed().log_delta(y) >= curves[1](y)).all()
    return bound if above else None


def _table(loss: Profile, step: float) -> Callable[[FloatArray], FloatArray]:
    """Return a curve above the profile, for multiples of a step."""
    points = multiples(step, 0, _POINTS + 1)
    # Evaluated once: a bound may differ when it is evaluated again.
    log_delta = np.minimum(loss.log_delta(points * (1 - _NUDGED)) + _RAISED, 0.0)
    return lambda epsilon: np.asarray(log_delta[np.rint(epsilon / step).astype(int)])


def _tail(loss: Profile, step: float) -> tuple[FloatArray, FloatArray, float]:
    """Return the positive values of the least loss through points, with logs of P-masses."""
    masses = upper(loss, step, -_POINTS, _POINTS)
    some = (masses.masses > 0) & (masses.losses > 0)
    with np.errstate(divide="ignore"):
        infinite = float(np.log(masses.infinity_mass))
    return masses.losses[some], np.log(masses.masses[some]), infinite
