"""Private search over hyper-parameters, and curves of a score against epsilon."""

from skdp.model_selection._scores import RecordScore
from skdp.model_selection.curve import EpsilonCurve, epsilon_curve
from skdp.model_selection.search import PrivateSearchCV

__all__ = ["EpsilonCurve", "PrivateSearchCV", "RecordScore", "epsilon_curve"]
