"""The uniform law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_positive
from skdp.noise._even import EvenLaw


@dataclass(frozen=True)
class Uniform(EvenLaw):
    """Density 1 / width on (-width / 2, width / 2).

    It is canonical for (0, delta) with delta = shift / width (Awan & Dong 2022, Example 3.7).

    Parameters
    ----------
    width : float in (0, inf), units of the released value

    Examples
    --------
    >>> round(Uniform(6.0).var(), 12)
    3.0
    """

    width: float = 1.0
    _lengths: ClassVar[tuple[str, ...]] = ("width",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", check_positive("width", self.width))

    @property
    def _log_peak(self) -> float:
        return -math.log(self.width)

    def _potential(self, x: FloatArray) -> FloatArray:
        return np.where(x > self.support(), np.inf, 0.0 * x)

    def _hazard(self, x: FloatArray) -> FloatArray:
        return -np.log1p(-np.minimum(x / self.support(), 1.0))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        return -self.support() * np.expm1(-level)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return self._potential(far)

    def support(self) -> float:
        """Return the half-width of the interval on which the density is positive."""
        return self.width / 2

    def _unit_variance(self) -> float:
        return 1 / 12

    def entropy(self) -> float:
        """Return the differential entropy, log(width), in nats."""
        return math.log(self.width)
