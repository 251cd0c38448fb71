"""Rules that compute centres and variances from noisy means and mean squares.

They use only released and public numbers. The privacy proof does not depend on them. The origin of
the constants: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray


@dataclass(frozen=True)
class SpreadRule:
    """Lower limits of variances and shrinkage of means, for columns in [-1, 1].

    Variances are at least ``per_noise`` standard deviations of the noise of a mean, but this limit
    is kept between ``least`` and ``usual``. A mean that is mostly noise, compared with its
    ``prior`` variance, is shrunk towards 0.
    """

    least: float
    per_noise: float
    usual: float
    prior: float = math.inf

    def centre(self, mean: FloatArray, noise: FloatArray | float) -> FloatArray:
        """Return shrunk means (James & Stein's shrinkage)."""
        own = np.square(noise)
        return mean if math.isinf(self.prior) else mean * (self.prior / (self.prior + own))

    def variance(self, variance: FloatArray, noise: FloatArray | float) -> FloatArray:
        """Return noisy variances within the limits of the rule."""
        least = np.clip(self.per_noise * np.asarray(noise), self.least, self.usual)
        return np.asarray(np.clip(variance, least, 1.0))


# In this order: clipping bounds of objective perturbation; coordinate descent, where greater
# variances give shorter steps; moments of scaled columns.
CLIPPING = SpreadRule(least=1e-4, per_noise=0.5, usual=0.04, prior=0.25)
DESCENT = SpreadRule(least=1e-4, per_noise=1.0, usual=0.04, prior=0.25)
MOMENTS = SpreadRule(least=0.03**2, per_noise=0.35, usual=0.3**2)
