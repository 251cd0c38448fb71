"""Offset-symmetric Gaussian tails: two Gaussian tails joined at the centre."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from skdp._arrays import FloatArray
from skdp.noise._even import CrossingLaw, check_offset
from skdp.noise._normal import excess_moments, hazard_between
from skdp.privacy.normal import mills_ratio

_STEPS = 4


@dataclass(frozen=True)
class OffsetGaussian(CrossingLaw):
    """Density proportional to exp(-(|x| + offset)^2 / (2 scale^2)) (Sadeghi & Korki 2022).

    |X| is distributed as Z - offset given Z > offset, Z a centred normal variable. With offset 0
    this is Gaussian(scale); for great offset / scale it tends to Laplace(scale^2 / offset).

    Parameters
    ----------
    offset : float in [0, inf), units of the released value
        At most 1e150 scales.
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> OffsetGaussian(0.0, 2.0).var()
    4.0
    >>> round(OffsetGaussian(1.0).var(), 6)
    0.474865
    """

    offset: float = 1.0
    scale: float = 1.0
    _lengths: ClassVar[tuple[str, ...]] = ("offset", "scale")
    # docs/proofs/conversions.md, 8.
    peaked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_offset(self, "offset", "scale")

    @property
    def _start(self) -> float:
        return self.offset / self.scale

    @cached_property
    def _half_mass(self) -> float:
        return float(mills_ratio(np.asarray(self._start)))

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        return t * (self._start + t / 2)

    def _hazard(self, x: FloatArray) -> FloatArray:
        return hazard_between(self._start, x / self.scale)

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        # The hazard rate h = 1 / R is convex and h' = h (h - t). Its tangent at the start gives
        # a point beyond the root; from there Newton's method falls to it, as H is convex.
        rate = 1 / self._half_mass
        slope = rate * excess_moments(self._start)[0]
        t = 2 * level / (rate + np.sqrt(rate * rate + 2 * slope * level))
        for _ in range(_STEPS):
            t = t + (level - hazard_between(self._start, t)) * mills_ratio(self._start + t)
        return self.scale * t

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return (apart / self.scale) * (self._start + (near + far) / (2 * self.scale))

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        half = shift / (2 * self.scale)
        inner = level / (2 * (self._start + half))
        outer = level / (2 * half) - self._start
        return self.scale * np.where(inner <= half, inner, outer)

    def _unit_variance(self) -> float:
        return excess_moments(self._start)[1]

    def _unit_information(self) -> float:
        return 1 + self._start / self._half_mass

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        first, second = excess_moments(self._start)
        return self._start * first + second / 2 - self._log_peak
