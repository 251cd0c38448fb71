"""Displays that draw privacy guarantees, costs and noise. They need matplotlib."""

from skdp.inspection._drawing import COLORS
from skdp.inspection.models import CalibrationDisplay, CoefficientDisplay, EpsilonCurveDisplay
from skdp.inspection.privacy import NormBallDisplay, PrivacyProfileDisplay
from skdp.inspection.shapes import ShapeDisplay

__all__ = [
    "COLORS",
    "CalibrationDisplay",
    "CoefficientDisplay",
    "EpsilonCurveDisplay",
    "NormBallDisplay",
    "PrivacyProfileDisplay",
    "ShapeDisplay",
]
