"""The ledger of privacy spends, its rules and its database."""

from skdp.privacy.ledger import Budget, BudgetExceeded, Entry, Ledger, LedgerLost

__all__ = ["Budget", "BudgetExceeded", "Entry", "Ledger", "LedgerLost"]
