"""The Laplace law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._arrays import FloatArray
from skdp.noise._even import ScaleLaw


@dataclass(frozen=True)
class Laplace(ScaleLaw):
    """Density exp(-|x| / scale) / (2 scale).

    Variance 2 scale^2, entropy 1 + log(2 scale), Fisher information 1 / scale^2.

    Parameters
    ----------
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> Laplace(2.0).var()
    8.0
    >>> round(float(Laplace().isf(1e-300)), 6)
    690.082381
    """

    # docs/proofs/conversions.md, 8.
    peaked: ClassVar[bool] = True

    def _potential(self, x: FloatArray) -> FloatArray:
        return x / self.scale

    def _hazard(self, x: FloatArray) -> FloatArray:
        return x / self.scale

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        return self.scale * level

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return apart / self.scale

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        return np.where(level < shift / self.scale, level * self.scale / 2, np.inf)

    def _unit_variance(self) -> float:
        return 2.0

    def _unit_information(self) -> float:
        return 1.0

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        return 1 - self._log_peak
