"""From a sensitivity and a guarantee to noise."""

from skdp.mechanisms.calibrate import Auto, calibrate
from skdp.mechanisms.gaussian import EllipticGaussian, GaussianNoise, IsotropicGaussian
from skdp.mechanisms.independent import (
    Independent,
    IndependentNoise,
    Releases,
    RepeatedNoise,
    calibrate_releases,
)
from skdp.mechanisms.knorm import EllipticKNorm, KNorm, KNormNoise
from skdp.mechanisms.law_map import LawMap, law_map
from skdp.mechanisms.matrix import MatrixGaussianNoise, MatrixLaplace, MatrixLaplaceNoise
from skdp.mechanisms.noise import release
from skdp.mechanisms.sensitivity import Sensitivity

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
