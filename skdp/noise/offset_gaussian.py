"""The Gaussian law without its middle: offset-symmetric Gaussian tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_interval, check_positive
from skdp.noise._even import EvenLaw, crossing_at
from skdp.noise._normal import excess_moments, hazard_between
from skdp.privacy.losses.mills import mills_ratio

_STEPS = 4
_FAR = 1e150


@dataclass(frozen=True)
class OffsetGaussian(EvenLaw):
    """Density proportional to exp(-(|x| + offset)^2 / (2 scale^2)) (Sadeghi & Korki 2022).

    |X| is what a normal variable exceeds the offset by, given that it does. With offset 0 this
    is Gaussian(scale); for great offset / scale it tends to Laplace(scale^2 / offset).

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

    def __post_init__(self) -> None:
        scale = check_positive("scale", self.scale)
        offset = check_interval("offset", self.offset, 0.0, math.inf, "left")
        if not offset / scale <= _FAR:
            remedy = "Take Laplace(scale**2 / offset), which it is in every digit."
            check_interval("offset / scale", offset / scale, 0.0, _FAR, remedy=remedy)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "scale", scale)

    @property
    def _unit(self) -> float:
        return self.scale

    @property
    def _start(self) -> float:
        return self.offset / self.scale

    @cached_property
    def _mills(self) -> float:
        return float(mills_ratio(np.asarray(self._start)))

    @property
    def _log_peak(self) -> float:
        return -math.log(2) - math.log(self._mills) - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.scale
        return t * (self._start + t / 2)

    def _hazard(self, x: FloatArray) -> FloatArray:
        return hazard_between(self._start, x / self.scale)

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        # The hazard rate h = 1 / R is convex and h' = h (h - t). Its tangent at the start gives
        # a point beyond the root; from there Newton's method falls to it, as H is convex.
        rate = 1 / self._mills
        slope = rate * excess_moments(self._start)[0]
        t = 2 * level / (rate + np.sqrt(rate * rate + 2 * slope * level))
        for _ in range(_STEPS):
            t = t + (level - hazard_between(self._start, t)) * mills_ratio(self._start + t)
        return self.scale * t

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return (apart / self.scale) * (self._start + (near + far) / (2 * self.scale))

    def crossing(self, shift: float, epsilon: ArrayLike) -> FloatArray:
        """Return sup {x : log_ratio(x, shift) <= epsilon} for shift > 0."""
        half = shift / (2 * self.scale)

        def reach(level: FloatArray) -> FloatArray:
            inner = level / (2 * (self._start + half))
            outer = level / (2 * half) - self._start
            return self.scale * np.where(inner <= half, inner, outer)

        return crossing_at(reach, shift, epsilon)

    def _unit_variance(self) -> float:
        return excess_moments(self._start)[1]

    def _unit_information(self) -> float:
        return 1 + self._start / self._mills

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        first, second = excess_moments(self._start)
        return self._start * first + second / 2 - self._log_peak

    def scaled(self, s: float) -> Self:
        """Return the law of s X, for s in (0, inf)."""
        s = check_positive("s", s)
        return type(self)(s * self.offset, s * self.scale)
