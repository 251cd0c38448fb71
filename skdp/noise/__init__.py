"""One-dimensional noise: even laws with their tails in logs; canonical noise in any dimension."""

from typing import TYPE_CHECKING

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.noise.canonical.canonical import CanonicalNoise, log_concave_canonical
    from skdp.noise.canonical.multivariate import multivariate_canonical
    from skdp.noise.canonical.staircase import Staircase
    from skdp.noise.canonical.tulap import Tulap
    from skdp.noise.canonical.uniform import Uniform
    from skdp.noise.flipped_huber import FlippedHuber
    from skdp.noise.gaussian import Gaussian
    from skdp.noise.laplace import Laplace
    from skdp.noise.law import Law
    from skdp.noise.logistic import Logistic
    from skdp.noise.offset_gaussian import OffsetGaussian
    from skdp.noise.subbotin import Subbotin
    from skdp.noise.truncated_laplace import TruncatedLaplace
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "canonical.canonical": "CanonicalNoise log_concave_canonical",
            "canonical.multivariate": "multivariate_canonical",
            "canonical.staircase": "Staircase",
            "canonical.tulap": "Tulap",
            "canonical.uniform": "Uniform",
            "flipped_huber": "FlippedHuber",
            "gaussian": "Gaussian",
            "laplace": "Laplace",
            "law": "Law",
            "logistic": "Logistic",
            "offset_gaussian": "OffsetGaussian",
            "subbotin": "Subbotin",
            "truncated_laplace": "TruncatedLaplace",
        },
    )

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
