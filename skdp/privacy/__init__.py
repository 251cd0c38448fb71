"""What a guarantee is, how guarantees add up, and where they are recorded."""

from skdp.privacy.guarantee import Guarantee, compose
from skdp.privacy.leak import PrivacyLeakWarning
from skdp.privacy.ledger import BudgetExceeded, Ledger, LedgerLost

__all__ = [
    "BudgetExceeded",
    "Guarantee",
    "Ledger",
    "LedgerLost",
    "PrivacyLeakWarning",
    "compose",
]
