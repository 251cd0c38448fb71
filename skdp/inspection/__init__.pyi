from skdp.inspection._drawing import COLORS as COLORS
from skdp.inspection.models import CoefficientDisplay as CoefficientDisplay
from skdp.inspection.models import EpsilonCurveDisplay as EpsilonCurveDisplay
from skdp.inspection.privacy import NormBallDisplay as NormBallDisplay
from skdp.inspection.privacy import PrivacyProfileDisplay as PrivacyProfileDisplay
from skdp.inspection.shapes import ShapeDisplay as ShapeDisplay
