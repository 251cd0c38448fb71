"""The errors of a ledger."""

from __future__ import annotations

from skdp.privacy.ledger_rules import Entry


class BudgetExceeded(ValueError):
    """A release asked for more than the ledger has left; nothing was recorded.

    Attributes
    ----------
    asked : Entry or None
        The refused spend, if a ledger refused it.

    Examples
    --------
    >>> from skdp.privacy import BudgetExceeded, Guarantee, Ledger
    >>> ledger = Ledger(epsilon=1.0)
    >>> try:
    ...     ledger.spend(Guarantee(2.0))
    ... except BudgetExceeded as refused:
    ...     print(refused.asked.epsilon, ledger.remaining.epsilon)
    2.0 1.0
    """

    asked: Entry | None = None


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


# Tracebacks name the module from which users import them.
BudgetExceeded.__module__ = LedgerLost.__module__ = "skdp.privacy"
