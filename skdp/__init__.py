"""Differentially private linear models for scikit-learn, with a guarantee that is true."""

from typing import TYPE_CHECKING, Any

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.bounds import estimate_domain
    from skdp.domain import Domain
    from skdp.linear_model import (
        DPCoordinateDescentClassifier,
        DPCoordinateDescentRegressor,
        DPHuberRegressor,
        DPLinearRegression,
        DPLogisticRegression,
    )
    from skdp.privacy import (
        BudgetExceeded,
        Guarantee,
        Ledger,
        PrivacyLeakWarning,
        UndeclaredDomainWarning,
    )

    __version__: str
else:
    _find, __dir__ = lazily(
        __name__,
        {
            "bounds": "estimate_domain",
            "domain": "Domain",
            "linear_model": "DPCoordinateDescentClassifier DPCoordinateDescentRegressor"
            " DPHuberRegressor DPLinearRegression DPLogisticRegression",
            "privacy": "BudgetExceeded Guarantee Ledger PrivacyLeakWarning UndeclaredDomainWarning",
        },
        submodules="bounds datasets domain geometry inspection linear_model mechanisms"
        " model_selection noise privacy randomness testing",
    )

    def __getattr__(name: str) -> Any:
        return _version() if name == "__version__" else _find(name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("skdp")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


__all__ = [
    "BudgetExceeded",
    "DPCoordinateDescentClassifier",
    "DPCoordinateDescentRegressor",
    "DPHuberRegressor",
    "DPLinearRegression",
    "DPLogisticRegression",
    "Domain",
    "Guarantee",
    "Ledger",
    "PrivacyLeakWarning",
    "UndeclaredDomainWarning",
    "estimate_domain",
]
