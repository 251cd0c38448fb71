"""From a sensitivity and a guarantee to noise."""

from skdp.mechanisms.calibrate import Auto, calibrate
from skdp.mechanisms.independent import Independent, calibrate_releases
from skdp.mechanisms.knorm import EllipticGaussian, EllipticKNorm, IsotropicGaussian, KNorm
from skdp.mechanisms.matrix import MatrixLaplace
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.noise.independent import IndependentNoise, Releases, RepeatedNoise
from skdp.noise.matrix import MatrixGaussianNoise, MatrixLaplaceNoise
from skdp.trusted.noise import GaussianNoise, KNormNoise, release

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
    "MatrixGaussianNoise",
    "MatrixLaplace",
    "MatrixLaplaceNoise",
    "Releases",
    "RepeatedNoise",
    "Sensitivity",
    "calibrate",
    "calibrate_releases",
    "release",
]
