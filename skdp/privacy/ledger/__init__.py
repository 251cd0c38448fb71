"""What was spent: the ledger, its accounting and its database."""

from skdp.privacy.ledger.ledger import Budget, BudgetExceeded, Entry, Ledger, LedgerLost

__all__ = ["Budget", "BudgetExceeded", "Entry", "Ledger", "LedgerLost"]
