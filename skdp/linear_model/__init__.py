"""Private linear models for scikit-learn."""

from skdp.linear_model.huber import DPHuberRegressor
from skdp.linear_model.linear import DPLinearRegression
from skdp.linear_model.logistic import DPLogisticRegression

__all__ = ["DPHuberRegressor", "DPLinearRegression", "DPLogisticRegression"]
