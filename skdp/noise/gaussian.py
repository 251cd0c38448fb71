"""The Gaussian law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import erfinv, ndtri_exp

from skdp._arrays import FloatArray
from skdp._draws import normals
from skdp.noise._even import ScaleLaw, plain
from skdp.noise._normal import half_normal_hazard
from skdp.noise.law import Size


@dataclass(frozen=True)
class Gaussian(ScaleLaw):
    """The centred normal law.

    Variance scale^2, entropy log(2 pi e scale^2) / 2, Fisher information 1 / scale^2. No law
    with this variance has less Fisher information.

    Parameters
    ----------
    scale : float in (0, inf), units of the released value
        Standard deviation.

    Examples
    --------
    >>> Gaussian(3.0).var()
    9.0
    >>> round(float(Gaussian().isf(1e-300)), 6)
    37.047096
    """

    @property
    def _log_peak(self) -> float:
        return -math.log(2 * math.pi) / 2 - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        return (x / self.scale) ** 2 / 2

    def _hazard(self, x: FloatArray) -> FloatArray:
        return half_normal_hazard(x / self.scale)

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        near = math.sqrt(2) * erfinv(-np.expm1(-level))
        return self.scale * np.where(level < 0.5, near, -ndtri_exp(-level - math.log(2)))

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return (apart / self.scale) * ((near + far) / (2 * self.scale))

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        return level * (self.scale / shift) * self.scale

    def rvs(self, size: Size, rng: Generator) -> FloatArray:
        """Return independent draws of shape ``size``, or one number if it is None."""
        return plain(self.scale * normals(size, rng))

    def _unit_variance(self) -> float:
        return 1.0

    def _unit_information(self) -> float:
        return 1.0

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        return 0.5 - self._log_peak
