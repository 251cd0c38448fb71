"""The file of a ledger: how it is made, checked, opened and locked."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path

from skdp._checks import fail
from skdp.privacy import ledger_file as _rows
from skdp.privacy.ledger_rules import Budget
from skdp.privacy.ledger_file import LedgerLost

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


def checked(path: str | os.PathLike[str]) -> str:
    """Return a user's path as an absolute one without symbolic links."""
    try:
        name = os.fspath(path)
        usable = isinstance(name, str) and b"\0" not in os.fsencode(name)
    except (TypeError, UnicodeError):
        usable = False
    if not usable:
        rule = "be a string without NUL characters or a pathlib.Path"
        raise fail("path", rule, path, "Give for example path='people.ledger'.")
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
        raise fail("path", rule, path, "Give a path in another folder.") from error
    with transaction(path, "BEGIN IMMEDIATE") as database:
        _rows.create(database, ceiling, composition)


def wait_until_made(path: str) -> None:
    """Wait while a file is empty, for some seconds: somebody may be making it."""
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
        address = _address(path)
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


def _address(path: str) -> str:
    try:
        # rw, not rwc: a missing ledger must not be made anew.
        return f"{Path(path).as_uri()}?mode=rw"
    except ValueError as error:
        raise lost(path, "is of another operating system") from error


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
