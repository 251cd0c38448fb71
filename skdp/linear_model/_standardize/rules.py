"""Rules that turn noisy means and mean squares into centres and variances.

They use released and public numbers only, and are no part of the privacy proof. The origin of the
constants: ``docs/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray


@dataclass(frozen=True)
class SpreadRule:
    """How noise is taken account of in centres and variances of columns in [-1, 1].

    Attributes
    ----------
    least : float
        No variance is taken to be less.
    per_noise : float
        Nor less than this many standard deviations of the noise of a mean ...
    usual : float
        ... up to this variance.
    prior : float
        Prior variance of a mean: a mean that is mostly noise is drawn towards 0.
    """

    least: float
    per_noise: float
    usual: float
    prior: float = math.inf

    def centre(self, mean: FloatArray, noise: float) -> FloatArray:
        """Return the centres of noisy means (James & Stein's shrinkage)."""
        kept = 1.0 if math.isinf(self.prior) else self.prior / (self.prior + noise**2)
        return mean * kept

    def variance(self, variance: FloatArray, noise: float) -> FloatArray:
        """Return noisy variances within the limits of the rule."""
        least = min(self.usual, max(self.least, self.per_noise * noise))
        return np.asarray(np.clip(variance, least, 1.0))


# Clipping bounds of objective perturbation; centres and scales of coordinate descent, where
# greater variances make shorter steps; of moments in two stages; of moments with the target only.
CLIPPING = SpreadRule(least=1e-4, per_noise=0.5, usual=0.04, prior=0.25)
DESCENT = SpreadRule(least=1e-4, per_noise=1.0, usual=0.04, prior=0.25)
MOMENTS = SpreadRule(least=0.03**2, per_noise=2.0, usual=1.0)
CROSS = SpreadRule(least=0.03**2, per_noise=0.7, usual=0.3**2)
