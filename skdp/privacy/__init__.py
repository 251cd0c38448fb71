"""Privacy guarantees, their composition, and the ledger that records them."""

from typing import TYPE_CHECKING

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.privacy import conversions, tradeoff
    from skdp.privacy.composition import Bounds, Composition
    from skdp.privacy.guarantee import (
        Guarantee,
        PrivacyLeakWarning,
        UndeclaredDomainWarning,
        compose,
        guarantee_of,
    )
    from skdp.privacy.ledger import BudgetExceeded, Ledger, LedgerLost
    from skdp.privacy.shift import ShiftLoss
    from skdp.trusted.losses import (
        FiniteLoss,
        GaussianLoss,
        PairLoss,
        PrivacyLoss,
        ProfileLoss,
        SelectionLoss,
    )
    from skdp.trusted.radial import RadialLoss
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "composition": "Bounds Composition",
            "guarantee": "Guarantee PrivacyLeakWarning UndeclaredDomainWarning compose"
            " guarantee_of",
            "ledger": "BudgetExceeded Ledger LedgerLost",
            "shift": "ShiftLoss",
            "skdp.trusted.losses": "FiniteLoss GaussianLoss PairLoss PrivacyLoss ProfileLoss"
            " SelectionLoss",
            "skdp.trusted.radial": "RadialLoss",
        },
        submodules="conversions tradeoff",
    )

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
    "guarantee_of",
    "tradeoff",
]
