"""Private search over hyper-parameters, private scores, and curves of a score against epsilon."""

from skdp.model_selection._scores import RecordScore
from skdp.model_selection.curve import EpsilonCurve, epsilon_curve
from skdp.model_selection.score import PrivateScore, private_score
from skdp.model_selection.search import PrivateSearchCV

__all__ = [
    "EpsilonCurve",
    "PrivateScore",
    "PrivateSearchCV",
    "RecordScore",
    "epsilon_curve",
    "private_score",
]
