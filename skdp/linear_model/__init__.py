"""Private linear models for scikit-learn."""

from typing import TYPE_CHECKING

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.linear_model._inference.outlook import Plan
    from skdp.linear_model._inference.table import CoefficientTable, Inference, WaldTest
    from skdp.linear_model._shared.task import Progress
    from skdp.linear_model.coordinate_descent import (
        DPCoordinateDescentClassifier,
        DPCoordinateDescentRegressor,
    )
    from skdp.linear_model.huber import DPHuberRegressor
    from skdp.linear_model.linear import DPLinearRegression
    from skdp.linear_model.load import SKOPS_TYPES, from_json, load_model
    from skdp.linear_model.logistic import DPLogisticRegression
    from skdp.linear_model.proof import Proof, check_proof
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "_inference.outlook": "Plan",
            "_inference.table": "CoefficientTable Inference WaldTest",
            "_shared.task": "Progress",
            "coordinate_descent": "DPCoordinateDescentClassifier DPCoordinateDescentRegressor",
            "huber": "DPHuberRegressor",
            "linear": "DPLinearRegression",
            "load": "SKOPS_TYPES from_json load_model",
            "logistic": "DPLogisticRegression",
            "proof": "Proof check_proof",
        },
        submodules="coordinate_descent huber linear logistic losses validation",
    )

__all__ = [
    "SKOPS_TYPES",
    "CoefficientTable",
    "DPCoordinateDescentClassifier",
    "DPCoordinateDescentRegressor",
    "DPHuberRegressor",
    "DPLinearRegression",
    "DPLogisticRegression",
    "Inference",
    "Plan",
    "Progress",
    "Proof",
    "WaldTest",
    "check_proof",
    "from_json",
    "load_model",
]
