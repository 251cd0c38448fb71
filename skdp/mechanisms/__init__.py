"""From a sensitivity and a guarantee to noise."""

from skdp.mechanisms.calibrate import calibrate
from skdp.mechanisms.knorm import KNorm, KNormNoise
from skdp.mechanisms.sensitivity import Sensitivity

__all__ = ["KNorm", "KNormNoise", "Sensitivity", "calibrate"]
