"""From a sensitivity and a guarantee to noise."""

from skdp.mechanisms.calibrate import Auto, calibrate
from skdp.mechanisms.gaussian.elliptic import EllipticGaussian
from skdp.mechanisms.gaussian.noise import GaussianNoise, IsotropicGaussian
from skdp.mechanisms.independent.noise import Independent, IndependentNoise
from skdp.mechanisms.independent.repeated import Releases, RepeatedNoise, calibrate_releases
from skdp.mechanisms.knorm.elliptic import EllipticKNorm
from skdp.mechanisms.knorm.noise import KNorm, KNormNoise
from skdp.mechanisms.law_map import LawMap, law_map
from skdp.mechanisms.matrix.laplace import MatrixLaplace, MatrixLaplaceNoise
from skdp.mechanisms.matrix.noise import MatrixGaussianNoise
from skdp.mechanisms.noise import release
from skdp.mechanisms.sensitivity.base import Sensitivity

__all__ = [
    "Auto",
    "EllipticGaussian",
    "EllipticKNorm",
    "GaussianNoise",
    "Independent",
    "IndependentNoise",
    "IsotropicGaussian",
    "KNorm",
    "KNormNoise",
    "LawMap",
    "MatrixGaussianNoise",
    "MatrixLaplace",
    "MatrixLaplaceNoise",
    "Releases",
    "RepeatedNoise",
    "Sensitivity",
    "calibrate",
    "calibrate_releases",
    "law_map",
    "release",
]
