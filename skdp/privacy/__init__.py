"""Privacy guarantees, their composition, and the ledger that records them."""

from skdp.privacy import conversions, tradeoff
from skdp.privacy.composition import Bounds, Composition
from skdp.privacy.guarantee import Guarantee, compose
from skdp.privacy.ledger import BudgetExceeded, Ledger, LedgerLost
from skdp.privacy.losses import (
    FiniteLoss,
    GaussianLoss,
    PairLoss,
    PrivacyLoss,
    ProfileLoss,
    ShiftLoss,
)
from skdp.privacy.radial import RadialLoss
from skdp.privacy.losses import SelectionLoss
from skdp.privacy.guarantee import PrivacyLeakWarning, UndeclaredDomainWarning

__all__ = [
    "Bounds",
    "BudgetExceeded",
    "Composition",
    "FiniteLoss",
    "GaussianLoss",
    "Guarantee",
    "Ledger",
    "LedgerLost",
    "PairLoss",
    "PrivacyLeakWarning",
    "PrivacyLoss",
    "ProfileLoss",
    "RadialLoss",
    "SelectionLoss",
    "ShiftLoss",
    "UndeclaredDomainWarning",
    "compose",
    "conversions",
    "tradeoff",
]
