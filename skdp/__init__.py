"""Differentially private linear models for scikit-learn, with a guarantee that is true."""

from importlib.metadata import PackageNotFoundError, version

from skdp.domain import Domain
from skdp.linear_model import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, PrivacyLeakWarning

try:
    __version__ = version("skdp")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

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
]
