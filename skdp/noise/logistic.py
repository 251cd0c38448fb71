"""The logistic law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.noise._even import ScaleLaw


@dataclass(frozen=True)
class Logistic(ScaleLaw):
    """Density 1 / (4 scale cosh(x / (2 scale))^2).

    Variance (pi scale)^2 / 3, entropy 2 + log(scale), Fisher information 1 / (3 scale^2).

    Parameters
    ----------
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> round(Logistic().var(), 6)
    3.289868
    >>> round(float(Logistic().isf(1e-300)), 6)
    690.775528
    """

    @property
    def _log_peak(self) -> float:
        return -math.log(4) - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        near = np.log1p(np.sinh(np.minimum(t, 1) / 2) ** 2)  # 2 log cosh(t / 2)
        far = t + 2 * np.log1p(np.exp(-t)) - math.log(4)
        return np.asarray(np.where(t < 1, near, far))

    def _hazard(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        near = np.log1p(np.expm1(np.minimum(t, 1)) / 2)  # log((1 + e^t) / 2)
        return np.where(t < 1, near, t + np.log1p(np.exp(-t)) - math.log(2))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        near = np.log1p(2 * np.expm1(np.minimum(level, 1)))
        far = level + math.log(2) + np.log1p(-np.exp(-level) / 2)
        return self.scale * np.where(level < 1, near, far)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        near, far, apart = near / self.scale, far / self.scale, apart / self.scale
        # cosh(a + b) / cosh(a - b) = (1 + t) / (1 - t) with t = tanh(a) tanh(b).
        t = np.tanh(near / 4 + far / 4) * np.tanh(apart / 4)
        in_tails = apart + 2 * (np.log1p(np.exp(-far)) - np.log1p(np.exp(-near)))
        return np.asarray(np.where(t < 0.5, 4 * np.arctanh(t), in_tails))

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        v = shift / self.scale
        # exp(m) = sinh((v + level) / 4) / sinh((v - level) / 4).
        left = -np.expm1((level - v) / 2)
        near = np.log1p(np.expm1(level / 2) * (1 + math.exp(-v / 2)) / left)
        far = level / 2 + np.log(-np.expm1(-(v + level) / 2) / left)
        return np.where(level < v, np.where(level < 1, near, far) * self.scale, np.inf)

    def _unit_variance(self) -> float:
        return math.pi**2 / 3

    def _unit_information(self) -> float:
        return 1 / 3

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        return 2 + math.log(self.scale)
