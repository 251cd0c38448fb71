"""Differentially private linear models for scikit-learn, with a guarantee that is true."""

from typing import TYPE_CHECKING

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.bounds import estimate_domain
    from skdp.domain import Domain, Spline
    from skdp.linear_model import (
        DPCoordinateDescentClassifier,
        DPCoordinateDescentRegressor,
        DPHuberRegressor,
        DPLinearRegression,
        DPLogisticRegression,
        from_json,
        load_model,
    )
    from skdp.model_selection import PrivateSearchCV
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
            "domain": "Domain Spline",
            "linear_model": "DPCoordinateDescentClassifier DPCoordinateDescentRegressor"
            " DPHuberRegressor DPLinearRegression DPLogisticRegression"
            " from_json load_model",
            "model_selection": "PrivateSearchCV",
            "privacy": "BudgetExceeded Guarantee Ledger PrivacyLeakWarning UndeclaredDomainWarning",
        },
        submodules="bounds datasets domain geometry inspection linear_model mechanisms"
        " model_selection noise privacy testing trusted",
    )

    def __getattr__(name: str) -> object:
        if name != "__version__":
            return _find(name)
        from skdp._codec import package_version

        return package_version()


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
    "PrivateSearchCV",
    "Spline",
    "UndeclaredDomainWarning",
    "estimate_domain",
    "from_json",
    "load_model",
]
