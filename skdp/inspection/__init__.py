"""Displays that draw privacy guarantees, costs and noise. They need matplotlib."""

from skdp.inspection._drawing import COLORS
from skdp.inspection.coefficients import CoefficientDisplay
from skdp.inspection.epsilon_curve import EpsilonCurveDisplay
from skdp.inspection.law_map import LawMapDisplay
from skdp.inspection.norm_balls import NormBallDisplay
from skdp.inspection.privacy_profile import PrivacyProfileDisplay
from skdp.inspection.shapes import ShapeDisplay

__all__ = [
    "COLORS",
    "CoefficientDisplay",
    "EpsilonCurveDisplay",
    "LawMapDisplay",
    "NormBallDisplay",
    "PrivacyProfileDisplay",
    "ShapeDisplay",
]
