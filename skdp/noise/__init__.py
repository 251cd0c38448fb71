"""One-dimensional noise: even laws with their tails in logs; canonical noise in any dimension."""

from skdp.noise.canonical import CanonicalNoise, log_concave_canonical
from skdp.noise.flipped_huber import FlippedHuber
from skdp.noise.gaussian import Gaussian
from skdp.noise.laplace import Laplace
from skdp.noise.law import Law
from skdp.noise.logistic import Logistic
from skdp.noise.multivariate import multivariate_canonical
from skdp.noise.offset_gaussian import OffsetGaussian
from skdp.noise.staircase import Staircase
from skdp.noise.subbotin import Subbotin
from skdp.noise.truncated_laplace import TruncatedLaplace
from skdp.noise.tulap import Tulap
from skdp.noise.uniform import Uniform

__all__ = [
    "CanonicalNoise",
    "FlippedHuber",
    "Gaussian",
    "Laplace",
    "Law",
    "Logistic",
    "OffsetGaussian",
    "Staircase",
    "Subbotin",
    "TruncatedLaplace",
    "Tulap",
    "Uniform",
    "log_concave_canonical",
    "multivariate_canonical",
]
