"""The errors of a ledger."""

from __future__ import annotations

from skdp.privacy.ledger._entries import Entry


class BudgetExceeded(ValueError):
    """A release asked for more than the ledger has left; nothing was recorded.

    Attributes
    ----------
    asked : Entry or None
        The refused spend, if a ledger refused it.
    """

    asked: Entry | None = None


class LedgerLost(ValueError):
    """The ledger's file is missing or another one, so the remaining budget is unknown."""


# Tracebacks name the module from which users import them.
BudgetExceeded.__module__ = LedgerLost.__module__ = "skdp.privacy"
