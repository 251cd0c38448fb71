from skdp.linear_model._inference.outlook import Plan as Plan
from skdp.linear_model._inference.table import CoefficientTable as CoefficientTable
from skdp.linear_model._inference.table import Inference as Inference
from skdp.linear_model._inference.table import WaldTest as WaldTest
from skdp.linear_model._shared.task import Progress as Progress
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier as DPCoordinateDescentClassifier,
)
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentRegressor as DPCoordinateDescentRegressor,
)
from skdp.linear_model.huber import DPHuberRegressor as DPHuberRegressor
from skdp.linear_model.linear import DPLinearRegression as DPLinearRegression
from skdp.linear_model.load import SKOPS_TYPES as SKOPS_TYPES
from skdp.linear_model.load import from_json as from_json
from skdp.linear_model.load import load_model as load_model
from skdp.linear_model.logistic import DPLogisticRegression as DPLogisticRegression
from skdp.linear_model.poisson import DPGammaRegressor as DPGammaRegressor
from skdp.linear_model.poisson import DPPoissonRegressor as DPPoissonRegressor
from skdp.linear_model.proof import Proof as Proof
from skdp.linear_model.proof import check_proof as check_proof
from skdp.linear_model.quantile import DPQuantileRegressor as DPQuantileRegressor
