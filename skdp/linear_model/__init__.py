"""Private linear models for scikit-learn."""

from skdp.linear_model._shared.progress import Progress
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.linear_model.huber import DPHuberRegressor
from skdp.linear_model.linear import DPLinearRegression
from skdp.linear_model.logistic import DPLogisticRegression

__all__ = [
    "DPCoordinateDescentClassifier",
    "DPCoordinateDescentRegressor",
    "DPHuberRegressor",
    "DPLinearRegression",
    "DPLogisticRegression",
    "Progress",
]
