"""The ledger: a record of spends with a ceiling, shared by copies, threads and processes.

The ledger is a small append-only database file, and Python objects are handles on it. If copying
an object copied the budget, the budget could be spent twice.
"""

from __future__ import annotations

import getpass
import math
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skdp.privacy import ledger_file, ledger_rules
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.ledger_file import LedgerLost
from skdp.privacy.ledger_rules import RULES, Account, Accounts, Budget, Entry, RecordGroup
from skdp.trusted.checks import check_choice, check_interval, check_positive, fail, optional_module
from skdp.trusted.statement import UNITS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Budget", "BudgetExceeded", "Entry", "Ledger", "LedgerLost"]


class BudgetExceeded(ValueError):
    """Error for a release that needs more than the remaining budget; nothing was recorded.

    Attributes
    ----------
    asked : Entry or None
        The refused charge, if a ledger refused it.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> from skdp.privacy import BudgetExceeded, Ledger
    >>> ledger = Ledger(epsilon=1.0)
    >>> noise = calibrate("l1", Sensitivity(LpBall(1)), epsilon=2.0)
    >>> try:
    ...     ledger.spend(noise.guarantee)
    ... except BudgetExceeded as refused:
    ...     print(refused.asked.epsilon, ledger.remaining.epsilon)
    2.0 1.0
    """

    asked: Entry | None = None


# Tracebacks name the module from which users import it.
BudgetExceeded.__module__ = "skdp.privacy"

_NEIGHBORS = "Fit with the same `neighbors`, or keep a second ledger."
_TWO = "A replaced record, or a person with rows in two groups, would change both."
_PAIRS = "For groups by two columns, write pairs of levels as the levels of one column."


@dataclass(frozen=True)
class Seen:
    """The spends that were read up to a row. Rows never change, so none is read again."""

    # Of the ledger and of each part around the handle: of its groups with spends; that of None is
    # for all others.
    accounts: tuple[Accounts, ...]
    entries: tuple[Entry, ...] = ()
    last: int = 0  # number of the last row
    known: int = 0  # number of a row that must be in the file, at or after the last one; 0 for none

    def of(self, group: RecordGroup | None, first: int = 0) -> list[Account]:
        """Return the accounts that a spend of some records changes."""
        parts = self.accounts[first:]
        if group is None:
            return [account for every in parts for account in every.values()]
        return [every.get(group, every[None]) for every in parts]


@dataclass(frozen=True)
class Scope:
    """Where the charges of a handle count, and what their entries say besides the guarantee."""

    parts: tuple[tuple[str, Budget], ...]  # with their ceilings; the first one, "", is the ledger
    group: RecordGroup | None
    author: str | None  # None: the user of the process that charges
    note: str
    table: str


class Ledger:
    """A record of the budget that releases have spent, with a ceiling.

    A copy of a ledger (also by scikit-learn's ``clone``), or a pickle in another process of this
    machine, is the same ledger and not a second budget. Several threads and processes can charge it
    at the same time. Ledgers that compare equal are the same ledger. A copy of the file at ``path``
    is a second budget, because it cannot be distinguished from the original.

    The guarantee of a charge may depend on everything that was released before. The composition is
    fixed when the ledger is created, because a rule that is chosen after an output was seen can
    cost twice the delta (docs/proofs/adaptive_spending.md).

    A float is read as its shortest decimal, and sums are exact: ten charges of 0.1 add up to 1.0.
    All charges must be about the same records. Stratified folds, scikit-learn's default for
    classifiers, move other records if one label changes: pass ``cv=KFold(5)`` to its searches.

    A pickle may outlive a temporary ledger. A model in it can still be loaded and can predict, but
    `spend`, `spent`, `remaining` and `entries` of the ledger raise `LedgerLost`.

    Parameters
    ----------
    epsilon : float in (0, inf]
        Ceiling on the total epsilon. With inf the ledger records charges and refuses none, whatever
        their delta.
    delta : float in [0, 1]
        Ceiling on delta for all spends together.
    path : path, optional
        File of the ledger. If it does not exist, it is created with permissions that follow from
        the umask; if it has the same ceiling, it is continued. All users need write permission for
        the file and its folder. The file must not have hard links; in a container mount its folder,
        not the file. Without a path, the ledger is a temporary file, in memory if the system
        supports it, that only its owner can read and that is removed when the process exits.
    composition : {"adaptive", "sums", "fixed"}
        "sums" is basic composition: epsilons add, deltas add.

        "adaptive" is basic composition up to the first charge for Gaussian noise (see
        `Guarantee.losses`) that leaves a remainder. All later charges must fit one of two rules.
        The first rule is basic composition with all of the remaining epsilon, but a quarter of the
        remaining delta. The second rule is Gaussian-DP composition, which adds mu^2: ten thousand
        small charges need the epsilon of a hundred. A charge without Gaussian noise counts with the
        mu of its epsilon, or its epsilon is added in a reserved part. If it has delta > 0 and no
        known mu, its infinity mass is split off: delta, or a tenth of it if the losses have an
        epsilon there. Infinity masses may add up to a twentieth of the remaining delta.

        "fixed" is exact composition: the privacy losses of all charges are composed with the best
        known bounds. It is valid only if all guarantees were fixed before the first output was
        seen.
    author, note, table : str, optional
        For the entries of charges through this object: who charges, by default the user of the
        process; a note, which follows the name of the release; and the name of the table, by
        default that of the file that a fit reads. They must not contain private values.

    Raises
    ------
    ValueError
        If a ceiling is out of range, or if ``path`` is not a ledger with this ceiling and
        composition, or is not its only name.
    PermissionError
        If the permission to use the file at ``path`` is missing.

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

    __slots__ = ("_composition", "_path", "_scope", "_seen", "_token")

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        path: str | os.PathLike[str] | None = None,
        composition: str = "adaptive",
        author: str | None = None,
        note: str = "",
        table: str = "",
    ) -> None:
        ceiling = _ceiling(epsilon, delta)
        self._composition = check_choice("composition", composition, RULES)
        _check_texts(author="" if author is None else author, note=note, table=table)
        self._scope = Scope((("", ceiling),), None, author, note, table)
        self._seen = Seen(({None: RULES[composition](ceiling)},))
        if path is None:
            self._path = ledger_file.temporary_path()
            ledger_file.create(self._path, ceiling, composition, mode=0o600)
        else:
            self._path = ledger_file.checked(path)
            ledger_file.create(self._path, ceiling, composition)
        self._token = self._read_token()

    @property
    def epsilon(self) -> float:
        """Ceiling on epsilon for all spends together."""
        return self._own[1].epsilon

    @property
    def delta(self) -> float:
        """Ceiling on delta for all spends together."""
        return self._own[1].delta

    @property
    def group(self) -> RecordGroup | None:
        """The group of records, of a ledger of `parallel`; None for all records."""
        return self._scope.group

    @property
    def _own(self) -> tuple[str, Budget]:
        return self._scope.parts[-1]

    @property
    def composition(self) -> str:
        """The rule by which charges are composed."""
        return self._composition

    @property
    def path(self) -> str:
        """Path of the ledger's file."""
        return self._path

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges of the ledger, or of its part, in the order in which they were recorded."""
        return tuple(own for own in self._now().entries if own.counts_in(self._own[0]))

    @property
    def spent(self) -> Budget:
        """The amount spent: the sums of the entries, rounded up to floats, or less.

        It is less if the composition has a smaller epsilon at the delta of the ceiling. The
        guarantee of all charges together, including later ones, is the ceiling.
        """
        spent = [account.spent() for account in self._now().of(self.group, first=-1)]
        return Budget(max(own.epsilon for own in spent), max(own.delta for own in spent))

    @property
    def remaining(self) -> Budget:
        """The remaining budget, rounded down: a charge of exactly this amount fits."""
        left = [account.remaining() for account in self._now().of(self.group)]
        return Budget(min(own.epsilon for own in left), min(own.delta for own in left))

    def fits_left(self, epsilon: float, delta: float = 0.0) -> int:
        """Return a number of further releases with this guarantee that certainly fit.

        ``GridSearchCV`` needs ``len(grid) * folds + 1`` fits, or one less with ``refit=False``.

        Parameters
        ----------
        epsilon : float in (0, inf)
        delta : float in [0, 1], default=0.0
            Of each release. With Gaussian noise more releases may fit.

        Returns
        -------
        int
            At most 10,000.

        Examples
        --------
        >>> from skdp.privacy import Ledger
        >>> Ledger(epsilon=0.3).fits_left(0.1)
        3
        """
        epsilon, delta = check_positive("epsilon", epsilon), check_interval("delta", delta, 0, 1)
        entry = Entry(epsilon, delta, "", "", "", True)
        return min(account.repeats(entry, 10_000) for account in self._now().of(self.group))

    def spend(self, guarantee: Guarantee, note: str = "", table: str = "") -> None:
        """Charge a release before it is made, or raise an error.

        A void guarantee (of seeded noise) is charged like any other.

        Parameters
        ----------
        guarantee : Guarantee
            The guarantee of the release.
        note : str
            A note for the reader of `entries`. It must not contain private values.
        table : str
            Name of the table, unless the ledger was opened with one.

        Raises
        ------
        BudgetExceeded
            If the budget does not suffice. Nothing is recorded.
        LedgerLost
            If the ledger's file is missing, or lacks charges that this object knows. Nothing is
            recorded.
        PermissionError
            If write permission for the file or its folder is missing.
        TimeoutError
            If other processes use the file for a minute. Nothing is recorded.
        ValueError
            If the neighbouring relation or the unit differs from the first entry, or the release is
            not covered by the theorem about groups; see `parallel`.
        """
        if not isinstance(guarantee, Guarantee):
            raise fail("guarantee", "be a Guarantee", type(guarantee))
        _check_texts(note=note, table=table)
        scope, user = self._scope, ""
        with suppress(OSError, KeyError, ImportError):  # a user without a name
            user = getpass.getuser()
        entry = Entry(
            guarantee.epsilon,
            guarantee.delta,
            guarantee.neighbors,
            guarantee.mechanism,
            ": ".join(filter(None, [note, scope.note])),
            guarantee.holds,
            ledger_file.kept(guarantee.losses),  # as a reader of the file gets them
            guarantee.unit,
            scope.group,
            user if scope.author is None else scope.author,
            datetime.now(UTC).date().isoformat(),
            scope.table or table,
            self._own[0],
        )
        with ledger_file.LOCK:  # until this handle knows of the spend
            # IMMEDIATE takes the write lock before reading, so no other spend comes in between.
            with self._transaction("BEGIN IMMEDIATE") as database:
                seen = self._read(database)
                self._check_fits(entry, seen)
                number = ledger_file.append(database, entry, seen.last)
            self._seen = replace(seen, known=number)

    def parallel(
        self, column: str, levels: list[str] | list[int], *, unit: str = "row"
    ) -> dict[str | int, Ledger]:
        """Return a ledger for each of some disjoint groups of records, in this ledger.

        Together they spend the greatest of their totals and not the sum, with one ceiling. A charge
        to this ledger itself counts for every group. Use ``neighbors="add_remove"``: a replaced
        record could change two groups. Fit all levels, with records or without.

        Theorem 7 of docs/proofs/adaptive_spending.md assumes that a release that is charged to a
        group reads only its records, and that the group of a record follows from this record alone
        and never changes. **A ledger does not see records and cannot check this.** A fit refuses a
        table that still has the column of the groups.

        Parameters
        ----------
        column : str
            Name of the column that states the group. A ledger has the groups of one column.
        levels : list of str or int
            Levels with a ledger, from public knowledge.
        unit : {"row", "person"}
            With "person" all rows of a person must be in one group.

        Returns
        -------
        dict of Ledger
            By level. Each has the `entries` of the entire ledger.

        Examples
        --------
        >>> from skdp.geometry import LpBall
        >>> from skdp.mechanisms import Sensitivity, calibrate
        >>> from skdp.privacy import Ledger
        >>> ledger = Ledger(epsilon=1.0)
        >>> noise = calibrate("laplace", Sensitivity(LpBall(1), 1.0, "add_remove"), epsilon=0.6)
        >>> for region, part in ledger.parallel("region", ["north", "south"]).items():
        ...     part.spend(noise.guarantee, note=region)
        >>> ledger
        Ledger(epsilon=1.0, delta=0.0; spent epsilon=0.6)
        >>> part
        Ledger(epsilon=1.0, delta=0.0; region='south'; spent epsilon=0.6)
        """
        self._check_all_records()
        if not (isinstance(column, str) and column):
            raise fail("column", "be a name", column)
        kinds = {type(level) for level in levels} if isinstance(levels, list | tuple) else {None}
        if not levels or not kinds <= {str, int} or len({*map(str, levels)}) < len(levels):
            rule = "be a list of different strings or integers"
            raise fail("levels", rule, levels, "Write for example ['north', 'south'].")
        own = column, str(sorted(map(str, levels))), check_choice("unit", unit, UNITS)
        return {level: self._with(RecordGroup(*own, str(level))) for level in levels}

    def part(self, name: str, epsilon: float, delta: float = 0.0) -> Ledger:
        """Return a ledger of its own ceiling, whose charges count in this ledger too.

        A charge must fit both. The ceilings of several parts may add up to more than that of this
        ledger, which is the guarantee: Theorem 8 of docs/proofs/adaptive_spending.md. A part can
        have parts, and groups by `parallel`.

        Parameters
        ----------
        name : str
            Such as ``"2026"``, without ``"/"``.
        epsilon : float in (0, inf]
            Ceiling on epsilon. It is fixed when the part is first made.
        delta : float in [0, 1], default=0.0
            Ceiling on delta, like epsilon.

        Examples
        --------
        >>> from skdp.privacy import Guarantee, Ledger
        >>> ledger = Ledger(epsilon=3.0)
        >>> part = ledger.part("2026", epsilon=1.0)
        >>> part.spend(Guarantee(0.75))
        >>> ledger.remaining.epsilon, part.remaining.epsilon
        (2.25, 0.25)
        """
        self._check_all_records()
        if not isinstance(name, str) or not name or "/" in name:
            raise fail("name", "be a text without '/'", name, "Write for example '2026'.")
        name, ceiling = f"{self._own[0]}/{name}".lstrip("/"), _ceiling(epsilon, delta)
        with self._transaction("BEGIN IMMEDIATE") as database:
            first = ledger_file.enter_part(database, name, ceiling)
        if first != ceiling:
            rule = f"be the ceiling of the part {name!r} ({first})"
            raise fail("epsilon, delta", rule, str(ceiling), "Give the same, or a new name.")
        return self._with(None, (name, ceiling))

    def to_frame(self) -> pd.DataFrame:
        """Return the entries as a DataFrame, which notebooks show and ``to_html`` writes.

        Its columns are date, author, table, part, group, note, epsilon and delta.
        """
        pandas = optional_module("pandas", "for this", "pandas")
        names = ["date", "author", "table", "part", "group", "note", "epsilon", "delta"]
        rows = [[getattr(own, name) for name in names] for own in self.entries]
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=names)
        return frame.assign(group=[own.level if own else "" for own in frame["group"]])

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Ledger) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[object, ...]]:
        facts = self._path, self._token, self._composition, self._seen.known
        return _reopen, (*facts, self._scope)

    def __repr__(self) -> str:
        try:
            spent = self.spent
        except (ValueError, OSError):  # a repr must not raise
            return f"Ledger({self._own[1]}; cannot be read)"
        delta = f", delta={spent.delta!r}" if spent.delta else ""
        name, ceiling = self._own
        own = f"part {name!r}; " if name else ""
        own += "" if self.group is None else f"{self.group.column}={self.group.level!r}; "
        return f"Ledger({ceiling}; {own}spent epsilon={spent.epsilon!r}{delta})"

    def _now(self) -> Seen:
        with self._transaction("BEGIN") as database:
            return self._read(database)

    @property
    def _key(self) -> tuple[str, str, RecordGroup | None, str]:
        # By path only, a lost ledger would equal the one that replaced it.
        return self._path, self._token, self.group, self._own[0]

    def _check_all_records(self) -> None:
        if self.group is not None:
            remedy = "Make the groups last: ledger.part(...).parallel(...)."
            raise fail("ledger", "be that of all records", repr(self), remedy)

    def _with(self, group: RecordGroup | None, *part: tuple[str, Budget]) -> Ledger:
        reopen, (*facts, _) = self.__reduce__()
        return reopen(*facts, replace(self._scope, group=group, parts=(*self._scope.parts, *part)))

    def _check_fits(self, entry: Entry, seen: Seen) -> None:
        first, group = next(iter(seen.entries), entry), entry.group
        same = "like the ledger's first entry"
        again = "Fit with `groups` or without, as before, or keep a second ledger."
        if first.neighbors == "add_remove":
            again += " See also Guarantee.group(k, unit='person')."
        rules = [
            (f"be under neighbors={{}} {same}", first.neighbors, entry.neighbors, _NEIGHBORS),
            (f"have the unit {{}} {same}", first.unit, entry.unit, again),
        ]
        if group is not None:  # what the theorem about disjoint groups covers
            one = next((own.group for own in seen.entries if own.group is not None), group)
            rules += [
                ("be under neighbors={} for a group", "add_remove", entry.neighbors, _TWO),
                ("have the unit {} of the ledger's groups", group.unit, entry.unit, _TWO),
                (f"be for groups by {{}} {same}", one.column, group.column, _PAIRS),
                (f"be for the groups {{}} {same}", one.levels, group.levels, _PAIRS),
            ]
        for rule, needed, given, remedy in rules:
            if needed != given:
                raise fail("guarantee", rule.format(repr(needed)), given, remedy)
        for (name, ceiling), own in zip(self._scope.parts, seen.accounts, strict=True):
            account = next((one for one in Seen((own,)).of(group) if not one.takes(entry)), None)
            if account is None:
                continue
            error = BudgetExceeded(
                f"The release does not fit in the {f'part {name!r}' if name else 'ledger'}: it "
                "asks for "
                f"{Budget(entry.epsilon, entry.delta)}; "
                f"spent so far {account.spent()}; left {account.remaining()} of "
                f"{ceiling}. Ask for at most what is left, or open a ledger with a "
                "higher ceiling if the guarantee you gave for this data allows it."
                " Clones of a model share its ledger: before a search ask fits_left(epsilon)."
                f"{account.why_not(entry)}"
            )
            error.asked = entry
            raise error

    def _read(self, database: sqlite3.Connection) -> Seen:
        """Read new spends; an error if some that were seen are gone."""
        seen = self._seen
        ledger_file.check_holds(database, seen.known)
        new, last = ledger_file.entries_after(database, seen.last)
        if new:
            accounts = tuple(
                ledger_rules.accounts_after(own, *(one for one in new if one.counts_in(part)))
                for own, (part, _) in zip(seen.accounts, self._scope.parts, strict=True)
            )
            seen = Seen(accounts, (*seen.entries, *new), last, last)
        self._seen = seen
        return seen

    def _read_token(self) -> str:
        ledger_file.wait_until_made(self._path)
        try:
            with ledger_file.transaction(self._path, "BEGIN") as database:
                ceiling, composition, token = ledger_file.terms_of(self._path, database)
        except LedgerLost as error:
            remedy = "Pass another path. Remove an empty file only if no ledger was there before."
            raise fail("path", "be a ledger's file or be free", self._path, remedy) from error
        remedy = "is fixed when the ledger is made; give the same, or a new path."
        if ceiling != self._own[1]:
            rule = f"be the ceiling of the ledger at {self._path!r} ({ceiling})"
            raise fail("epsilon, delta", rule, str(self._own[1]), f"A ceiling {remedy}")
        if composition != self._composition:
            rule = f"be that of the ledger at {self._path!r} ({composition!r})"
            raise fail("composition", rule, self._composition, f"It {remedy}")
        return token

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with ledger_file.transaction(self._path, begin) as database:
            (_, total), *parts = self._scope.parts
            terms = total, self._composition, self._token
            if ledger_file.terms_of(self._path, database) != terms:
                raise ledger_file.lost(self._path, "holds another ledger")
            for name, ceiling in parts:  # a backup may be older
                if ledger_file.limit_of(database, name) != ceiling:
                    raise ledger_file.lost(self._path, f"lacks the part {name!r}")
            yield database


def _reopen(path: str, token: str, composition: str, known: int, scope: Scope) -> Ledger:
    """Return an unpickled handle, which opens no file: a model loads also without its ledger."""
    ledger = object.__new__(Ledger)
    ledger._path, ledger._token = path, token
    ledger._composition, ledger._scope = composition, scope
    every: Iterator[Accounts] = ({None: RULES[composition](own)} for _, own in scope.parts)
    ledger._seen = Seen((*every,), known=known)
    return ledger


def _ceiling(epsilon: float, delta: float) -> Budget:
    return Budget(
        check_interval("epsilon", epsilon, 0, math.inf, closed="right"),
        check_interval("delta", delta, 0, 1),
    )


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str):
            raise fail(name, "be a string", type(text))
