"""The ledger: a record of spends with a ceiling, shared by copies, threads and processes.

The ledger is a small append-only database file, and Python objects are handles on it. If copying
an object copied the budget, the budget could be spent twice.
"""

from __future__ import annotations

import math
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from skdp._checks import check_choice, check_interval, check_positive, fail
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.ledger import _rows as _ledger_rows
from skdp.privacy.ledger._accounting import RULES, Account
from skdp.privacy.ledger._entries import Budget, Entry
from skdp.privacy.ledger._errors import BudgetExceeded, LedgerLost
from skdp.privacy.ledger._rows import Identity
from skdp.privacy.ledger._seen import Seen
from skdp.privacy.ledger._temporary import temporary_folder
from skdp.privacy.ledger._text import kept

__all__ = ["Budget", "BudgetExceeded", "Entry", "Ledger", "LedgerLost"]

_BUSY_SECONDS = 60.0
_MOST_FITS = 10_000


class Ledger:
    """A record of spends that refuses a spend beyond its ceiling.

    Copying a ledger (also by scikit-learn's ``clone``) or pickling it to another process of
    this machine gives the same ledger, never a second budget. Any number of threads and
    processes may spend at once. Ledgers that compare equal are the same ledger. A copy of the
    file at ``path`` is a second budget, since it cannot be told from the original.

    The guarantee of a spend may depend on everything that was released before. The composition
    is fixed when the ledger is made, because a rule that is chosen in view of an output can cost
    twice the delta (docs/proofs/adaptive_spending.md).

    A float is read as its shortest decimal, and sums are exact: ten spends of 0.1 fill 1.0.
    All spends must be about the same records. Folds that look at labels, scikit-learn's default
    for classifiers, move other records if one label changes: give ``cv=KFold(5)`` to its searches.

    A pickle outlives a temporary ledger. Its model can still be loaded and can predict, but
    `spend`, `spent`, `remaining` and `entries` then raise `LedgerLost`.

    Parameters
    ----------
    epsilon : float in (0, inf]
        Ceiling on epsilon for all spends together. With inf the ledger records spends and
        refuses none, whatever their delta.
    delta : float in [0, 1]
        Ceiling on delta for all spends together.
    path : path, optional
        File of the ledger. It is made if it does not exist, and continued if it has the same
        ceiling. Without a path the ledger is a temporary file, in memory if the system has such
        files, that only its owner can read, and that is removed when its process exits.
    composition : {"adaptive", "sums", "fixed"}
        "sums" is basic composition: epsilons add, deltas add.

        "adaptive" is basic composition up to the first spend of Gaussian noise (see
        `Guarantee.losses`) that leaves room for more. Later spends must all fit one of two rules.
        One is basic composition with all the epsilon, but a quarter of the delta, that was left.
        The other is Gaussian-DP composition, where mu^2 adds: ten thousand small spends need the
        epsilon of a hundred. Spends without Gaussian noise count by the mu of their epsilon, or
        their epsilons add in a reserved part. If they have delta > 0 and no known mu, their
        infinity mass is split off: delta, or a tenth of it if the losses give an epsilon there.
        Infinity masses may add up to a twentieth of the delta that was left.

        "fixed" is exact composition: the losses of all spends are composed as tightly as is
        known. It is valid only if the guarantees of all spends were fixed before the first
        output was seen.

    Raises
    ------
    ValueError
        If a ceiling is out of range, or ``path`` is not a ledger with this ceiling and
        composition.

    Examples
    --------
    >>> from skdp.privacy import Guarantee, Ledger
    >>> ledger = Ledger(epsilon=1.0)
    >>> ledger.spend(Guarantee(0.3, mechanism="laplace"), note="histogram")
    >>> ledger
    Ledger(epsilon=1.0, delta=0.0; spent epsilon=0.3)
    >>> ledger.remaining
    Budget(epsilon=0.7, delta=0.0)
    >>> ledger.spend(Guarantee(0.8))
    Traceback (most recent call last):
        ...
    skdp.privacy.BudgetExceeded: The release does not fit ...
    """

    __slots__ = ("_ceiling", "_composition", "_path", "_seen", "_token")

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        path: str | os.PathLike[str] | None = None,
        composition: str = "adaptive",
    ) -> None:
        self._ceiling = Budget(
            check_interval("epsilon", epsilon, 0, math.inf, closed="right"),
            check_interval("delta", delta, 0, 1),
        )
        self._composition = check_choice("composition", composition, RULES)
        self._seen = Seen(RULES[composition](self._ceiling))
        if path is None:
            self._path = _new_file(temporary_folder(), self._ceiling, composition)
        else:
            self._path = os.path.realpath(path)
            if not os.path.exists(self._path):
                _create(self._path, self._ceiling, composition)
        self._token = self._read_token()

    @property
    def epsilon(self) -> float:
        """Ceiling on epsilon for all spends together."""
        return self._ceiling.epsilon

    @property
    def delta(self) -> float:
        """Ceiling on delta for all spends together."""
        return self._ceiling.delta

    @property
    def composition(self) -> str:
        """How spends are composed."""
        return self._composition

    @property
    def path(self) -> str:
        """Path of the ledger's file."""
        return self._path

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends, in the order in which they were recorded."""
        with self._transaction("BEGIN") as database:
            self._seen = seen = self._read(database).flat()
            return seen.entries

    @property
    def spent(self) -> Budget:
        """The amount spent: the sums of the entries, rounded up to floats, or less.

        It is less if the composition gives a lesser epsilon at the ceiling's delta. All spends
        together, including later ones, have the ceiling as their guarantee.
        """
        return self._account.spent()

    @property
    def remaining(self) -> Budget:
        """The amount left, rounded down: a spend of exactly this amount fits."""
        return self._account.remaining()

    def fits_left(self, epsilon: float, delta: float = 0.0) -> int:
        """Return how many further releases of one guarantee fit, or a lower number.

        ``GridSearchCV`` makes ``len(grid) * folds + 1`` fits, the last one with ``refit=True``.

        Parameters
        ----------
        epsilon : float in (0, inf)
        delta : float in [0, 1], default=0.0
            Gaussian noise may compose better than this number says.

        Returns
        -------
        int
            At most 10,000: more are not counted.

        Examples
        --------
        >>> from skdp.privacy import Ledger
        >>> Ledger(epsilon=0.3).fits_left(0.1)
        3
        """
        epsilon, delta = check_positive("epsilon", epsilon), check_interval("delta", delta, 0, 1)
        entry = Entry(epsilon, delta, "", "", "", True)
        return self._account.repeats(entry, _MOST_FITS)

    def spend(self, guarantee: Guarantee, note: str = "") -> None:
        """Record a spend before the release is made, or refuse it.

        A guarantee that does not hold (seeded noise) is charged like any other.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee of the release.
        note : str
            A note for the reader of `entries`. It must not contain private values.

        Raises
        ------
        BudgetExceeded
            If the spend does not fit. Nothing is recorded.
        LedgerLost
            If the ledger's file is missing. Nothing is recorded.
        ValueError
            If the neighbouring relation or the unit is not that of the first entry.
        """
        if not isinstance(guarantee, Guarantee):
            raise fail("guarantee", "be a Guarantee", type(guarantee))
        if not isinstance(note, str):
            raise fail("note", "be a string", type(note))
        entry = Entry(
            guarantee.epsilon,
            guarantee.delta,
            guarantee.neighbors,
            guarantee.mechanism,
            note,
            guarantee.holds,
            kept(guarantee.losses),  # the check uses the losses that a reader of the file gets
            guarantee.unit,
        )
        # IMMEDIATE takes the write lock before reading, so no other spend comes in between.
        with self._transaction("BEGIN IMMEDIATE") as database:
            self._check_fits(entry, self._read(database))
            _ledger_rows.append(database, entry)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Ledger) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._path, self._ceiling, self._token, self._composition)

    def __repr__(self) -> str:
        try:
            spent = self.spent
        except (LedgerLost, TimeoutError):  # a repr must not raise
            return f"Ledger({self._ceiling}; cannot be read)"
        delta = f", delta={spent.delta!r}" if spent.delta else ""
        return f"Ledger({self._ceiling}; spent epsilon={spent.epsilon!r}{delta})"

    @property
    def _account(self) -> Account:
        with self._transaction("BEGIN") as database:
            return self._read(database).account

    @property
    def _key(self) -> tuple[str, str]:
        # By path only, a lost ledger would equal the one that replaced it.
        return self._path, self._token

    def _check_fits(self, entry: Entry, seen: Seen) -> None:
        if seen.relation not in (None, entry.relation):
            neighbors, _, unit = str(seen.relation).partition(" ")
            rule, found = f"be under neighbors={neighbors!r}", entry.neighbors
            remedy = "Fit with the same `neighbors`, or keep a second ledger."
            if neighbors == entry.neighbors:
                rule, found = f"have the unit {unit or 'row'!r}", entry.unit
                remedy = "Fit with `groups` or without, as before, or keep a second ledger."
                if neighbors == "add_remove":
                    remedy += " See also Guarantee.group(k, unit='person')."
            raise fail("guarantee", f"{rule} like the ledger's first entry", found, remedy)
        account = seen.account
        if not account.takes(entry):
            error = BudgetExceeded(
                "The release does not fit in the ledger: it asks for "
                f"{Budget(entry.epsilon, entry.delta)}; "
                f"spent so far {account.spent()}; left {account.remaining()} of "
                f"{self._ceiling}. Ask for at most what is left, or open a ledger with a "
                "higher ceiling if the guarantee you gave for this data allows it."
                f"{account.why_not(entry)}"
            )
            error.asked = entry
            raise error

    def _read(self, database: sqlite3.Connection) -> Seen:
        """Return all spends; only new ones are read."""
        self._seen = seen = self._seen.read(database)
        return seen  # not self._seen, which another thread may set to an earlier state

    def _read_token(self) -> str:
        try:
            with _connection(self._path, "BEGIN") as database:
                ceiling, composition, token = _identity(database, self._path)
        except LedgerLost as error:
            raise fail("path", "be a ledger's file or be free", self._path) from error
        if ceiling != self._ceiling:
            raise fail(
                "epsilon, delta",
                f"be the ceiling of the ledger at {self._path!r} ({ceiling})",
                str(self._ceiling),
                "A ceiling is fixed when the ledger is made; give the same, or a new path.",
            )
        if composition != self._composition:
            raise fail(
                "composition",
                f"be that of the ledger at {self._path!r} ({composition!r})",
                self._composition,
                "It is fixed when the ledger is made; give the same, or a new path.",
            )
        return token

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with _connection(self._path, begin) as database:
            terms = self._ceiling, self._composition, self._token
            if _identity(database, self._path) != terms:
                raise _lost(self._path, "holds another ledger")
            yield database


def _reopen(path: str, ceiling: Budget, token: str, composition: str = "adaptive") -> Ledger:
    """Return an unpickled handle, which opens the file only when it is used.

    A model must load without its ledger, since predictions cost nothing.
    """
    ledger = object.__new__(Ledger)
    ledger._path, ledger._ceiling, ledger._token = path, ceiling, token
    ledger._composition, ledger._seen = composition, Seen(RULES[composition](ceiling))
    return ledger


@contextmanager
def _connection(path: str, begin: str) -> Iterator[sqlite3.Connection]:
    """Open a connection for one transaction, so that none is shared by threads or forks."""
    address = _address(path)
    try:
        with closing(
            sqlite3.connect(address, timeout=_BUSY_SECONDS, isolation_level=None, uri=True)
        ) as database:
            database.execute(begin)
            with database:  # commits, or rolls back on any error
                yield database
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            raise TimeoutError(
                f"The ledger {path!r} stayed busy for {_BUSY_SECONDS:g} seconds; nothing was "
                "recorded. Try again."
            ) from error
        raise _lost(path, f"cannot be used ({error})") from error


def _address(path: str) -> str:
    try:
        # rw, not rwc: a missing ledger must not be made anew.
        return f"{Path(path).as_uri()}?mode=rw"
    except ValueError as error:
        raise _lost(path, "is of another operating system") from error


def _lost(path: str, what: str) -> LedgerLost:
    return LedgerLost(
        f"The ledger's file {path!r} {what}, so the remaining budget is unknown. A ledger without "
        "a path ends with the process that made it, and a ledger cannot move to another machine. "
        "Give the model a new one by set_params(ledger=Ledger(...)), with a ceiling lowered by the "
        "amount spent before; use Ledger(..., path=...) for one that persists."
    )


def _create(path: str, ceiling: Budget, composition: str) -> None:
    """Make a new ledger at ``path`` unless another process has just made one there."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise fail("path", "lie in a folder that exists", path)
    # Written elsewhere and then linked, so that no incomplete ledger is ever at the path.
    draft = _new_file(folder, ceiling, composition)
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def _new_file(folder: str, ceiling: Budget, composition: str) -> str:
    handle, path = tempfile.mkstemp(prefix="ledger-", suffix=".sqlite3", dir=folder)  # mode 0600
    os.close(handle)
    with _connection(path, "BEGIN IMMEDIATE") as database:
        _ledger_rows.create(database, ceiling, composition)
    return path


def _identity(database: sqlite3.Connection, path: str) -> Identity:
    found = _ledger_rows.identity(database)
    if found is None:
        raise _lost(path, "states no ceiling or no rule")
    return found
