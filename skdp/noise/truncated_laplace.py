"""The Laplace law truncated at a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammainc

from skdp._arrays import FloatArray
from skdp._checks import check_interval, check_positive
from skdp.noise._even import CrossingLaw
from skdp.noise._exponential import inverse_hazard

# With a smaller bound, in scales, the law is uniform in every digit and its moments underflow.
_LEAST = 1e-100


@dataclass(frozen=True)
class TruncatedLaplace(CrossingLaw):
    """Density proportional to exp(-|x| / scale) on [-bound, bound], 0 outside.

    The density jumps at the bound, so the Fisher information is infinite, and every release has
    delta > 0.

    Parameters
    ----------
    bound : float in (0, inf), units of the released value
        At least 1e-100 scales.
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> law = TruncatedLaplace(bound=3.0)
    >>> law.isf(0.0), law.sf(3.0)
    (np.float64(3.0), np.float64(0.0))
    >>> round(law.var(), 6)
    1.214065
    """

    bound: float
    scale: float = 1.0
    _lengths: ClassVar[tuple[str, ...]] = ("bound", "scale")

    def __post_init__(self) -> None:
        scale = check_positive("scale", self.scale)
        bound = check_positive("bound", self.bound)
        if not bound / scale >= _LEAST:
            check_interval("bound / scale", bound / scale, _LEAST, math.inf, "left")
        object.__setattr__(self, "bound", bound)
        object.__setattr__(self, "scale", scale)

    @property
    def _length(self) -> float:
        return self.bound / self.scale

    @property
    def _half_mass(self) -> float:
        """Return the probability of the interval under the Laplace law."""
        return -math.expm1(-self._length)

    def support(self) -> float:
        """Return the half-width of the interval on which the density is positive: the bound."""
        return self.bound

    def _potential(self, x: FloatArray) -> FloatArray:
        return np.where(x > self.bound, np.inf, x / self.scale)

    def _hazard(self, x: FloatArray) -> FloatArray:
        t, left = x / self.scale, np.maximum(self.bound - x, 0) / self.scale
        within = -np.expm1(-t) / self._half_mass
        near = -np.log1p(-np.minimum(within, 0.5))
        return np.where(within < 0.5, near, t - np.log(-np.expm1(-left) / self._half_mass))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        x = self.scale * inverse_hazard(level, self._half_mass, -self._length)
        return np.minimum(x, self.bound)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return np.where(far > self.bound, np.inf, apart / self.scale)

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        edge = max(self.bound - shift / 2, 0.0)
        in_slope = level < shift / self.scale
        return np.where(in_slope, np.minimum(level * self.scale / 2, edge), edge)

    def _unit_variance(self) -> float:
        return 2 * float(gammainc(3, self._length)) / self._half_mass

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        return float(gammainc(2, self._length)) / self._half_mass - self._log_peak
