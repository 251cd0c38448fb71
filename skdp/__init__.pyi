from skdp.bounds import estimate_domain as estimate_domain
from skdp.domain import Domain as Domain
from skdp.domain import Spline as Spline
from skdp.linear_model import DPCoordinateDescentClassifier as DPCoordinateDescentClassifier
from skdp.linear_model import DPCoordinateDescentRegressor as DPCoordinateDescentRegressor
from skdp.linear_model import DPGammaRegressor as DPGammaRegressor
from skdp.linear_model import DPHuberRegressor as DPHuberRegressor
from skdp.linear_model import DPLinearRegression as DPLinearRegression
from skdp.linear_model import DPLogisticRegression as DPLogisticRegression
from skdp.linear_model import DPPoissonRegressor as DPPoissonRegressor
from skdp.linear_model import DPQuantileRegressor as DPQuantileRegressor
from skdp.linear_model import from_json as from_json
from skdp.linear_model import load_model as load_model
from skdp.model_selection import PrivateSearchCV as PrivateSearchCV
from skdp.privacy import BudgetExceeded as BudgetExceeded
from skdp.privacy import Guarantee as Guarantee
from skdp.privacy import Ledger as Ledger
from skdp.privacy import PrivacyLeakWarning as PrivacyLeakWarning
from skdp.privacy import UndeclaredDomainWarning as UndeclaredDomainWarning

__version__: str
