"""From a sensitivity and a guarantee to noise."""

from skdp.mechanisms.auto import Auto
from skdp.mechanisms.calibrate import calibrate
from skdp.mechanisms.elliptic import EllipticGaussian
from skdp.mechanisms.elliptic_knorm import EllipticKNorm
from skdp.mechanisms.gaussian import GaussianNoise, IsotropicGaussian
from skdp.mechanisms.independent import Independent, IndependentNoise
from skdp.mechanisms.knorm import KNorm, KNormNoise
from skdp.mechanisms.law_map import LawMap, law_map
from skdp.mechanisms.matrix_laplace import MatrixLaplace, MatrixLaplaceNoise
from skdp.mechanisms.matrix_noise import MatrixGaussianNoise
from skdp.mechanisms.noise import release
from skdp.mechanisms.repeated import Releases, RepeatedNoise, calibrate_releases
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
