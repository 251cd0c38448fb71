"""From a sensitivity and a guarantee to noise."""

from skdp.mechanisms.calibrate import calibrate
from skdp.mechanisms.elliptic import EllipticGaussian
from skdp.mechanisms.gaussian import GaussianNoise, IsotropicGaussian
from skdp.mechanisms.independent import Independent, IndependentNoise
from skdp.mechanisms.knorm import KNorm, KNormNoise
from skdp.mechanisms.matrix_laplace import MatrixLaplace, MatrixLaplaceNoise
from skdp.mechanisms.matrix_noise import MatrixGaussianNoise
from skdp.mechanisms.sensitivity import Sensitivity

__all__ = [
    "EllipticGaussian",
    "GaussianNoise",
    "Independent",
    "IndependentNoise",
    "IsotropicGaussian",
    "KNorm",
    "KNormNoise",
    "MatrixGaussianNoise",
    "MatrixLaplace",
    "MatrixLaplaceNoise",
    "Sensitivity",
    "calibrate",
]
