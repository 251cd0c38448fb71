"""One-dimensional noise: even laws with their tails in logs; canonical noise in any dimension."""

from typing import TYPE_CHECKING

from skdp._lazy import lazily

if TYPE_CHECKING:
    from skdp.noise.canonical import CanonicalNoise, Tulap, log_concave_canonical
    from skdp.noise.law import Law
    from skdp.noise.laws import (
        FlippedHuber,
        Gaussian,
        Laplace,
        Logistic,
        OffsetGaussian,
        Subbotin,
        TruncatedLaplace,
    )
    from skdp.noise.multivariate import (
        IndependentCanonical,
        LInfLaplace,
        UniformBall,
        multivariate_canonical,
    )
    from skdp.noise.steps import Staircase, Uniform
else:
    # No fit imports canonical noise.
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "canonical": "CanonicalNoise Tulap log_concave_canonical",
            "law": "Law",
            "laws": "FlippedHuber Gaussian Laplace Logistic OffsetGaussian Subbotin"
            " TruncatedLaplace",
            "multivariate": "IndependentCanonical LInfLaplace UniformBall multivariate_canonical",
            "steps": "Staircase Uniform",
        },
    )

# Files of ledgers hold these names.
__all__ = [
    "CanonicalNoise",
    "FlippedHuber",
    "Gaussian",
    "IndependentCanonical",
    "LInfLaplace",
    "Laplace",
    "Law",
    "Logistic",
    "OffsetGaussian",
    "Staircase",
    "Subbotin",
    "TruncatedLaplace",
    "Tulap",
    "Uniform",
    "UniformBall",
    "log_concave_canonical",
    "multivariate_canonical",
]
