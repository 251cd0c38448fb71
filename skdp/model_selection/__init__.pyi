from skdp.model_selection._scores import RecordScore as RecordScore
from skdp.model_selection.curve import EpsilonCurve as EpsilonCurve
from skdp.model_selection.curve import epsilon_curve as epsilon_curve
from skdp.model_selection.score import PrivateScore as PrivateScore
from skdp.model_selection.score import private_score as private_score
from skdp.model_selection.search import PrivateSearchCV as PrivateSearchCV
