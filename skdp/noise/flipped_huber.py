"""The flipped Huber law: Laplace at the centre, Gaussian in the tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfinv, gammainc, ndtri_exp

from skdp._arrays import FloatArray
from skdp._checks import check_interval, check_positive
from skdp.noise._even import EvenLaw, crossing_at
from skdp.noise._exponential import fallen, inverse_hazard
from skdp.privacy.losses.mills import mills_ratio

_FAR = 1e150
_ROOT_2 = math.sqrt(2)


@dataclass(frozen=True)
class FlippedHuber(EvenLaw):
    """Density proportional to exp(-rho(x) / gamma^2) (Muthukrishnan & Kalyani 2023).

    rho(x) = alpha |x| for |x| <= alpha, and (x^2 + alpha^2) / 2 beyond. With alpha = 0 this is
    Gaussian(gamma); for great alpha / gamma it tends to Laplace(gamma^2 / alpha).

    Parameters
    ----------
    alpha : float in [0, inf), units of the released value
        Where the exponential centre ends; at most 1e150 gamma.
    gamma : float in (0, inf), units of the released value
        Standard deviation of the Gaussian whose tails these are.

    Examples
    --------
    >>> FlippedHuber(0.0, 2.0).var()
    4.0
    >>> round(FlippedHuber(1.0, 1.0).var(), 6)
    0.88133
    """

    alpha: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        gamma = check_positive("gamma", self.gamma)
        alpha = check_interval("alpha", self.alpha, 0.0, math.inf, "left")
        if not alpha / gamma <= _FAR:
            remedy = "Take Laplace(gamma**2 / alpha), which it is in every digit."
            check_interval("alpha / gamma", alpha / gamma, 0.0, _FAR, remedy=remedy)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "gamma", gamma)

    # In units of gamma the potential is b t + max(t - b, 0)^2 / 2, b the bend.

    @property
    def _unit(self) -> float:
        return self.gamma

    @cached_property
    def _bend(self) -> float:
        return self.alpha / self.gamma

    @cached_property
    def _mills(self) -> float:
        return float(mills_ratio(np.asarray(self._bend)))

    @cached_property
    def _inner_mass(self) -> float:
        """Return the integral of exp(-potential) over 0 < t < b."""
        return float(fallen(self._bend, self._bend))

    @cached_property
    def _half_mass(self) -> float:
        """Return the integral of exp(-potential) over t > 0."""
        return self._inner_mass + math.exp(-self._bend * self._bend) * self._mills

    @cached_property
    def _level_at_bend(self) -> float:
        return float(self._hazard(np.asarray(self.alpha)))

    @property
    def _log_peak(self) -> float:
        return -math.log(2) - math.log(self._half_mass) - math.log(self.gamma)

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.gamma
        # The minimum is for 0 times inf; where it is taken the square is infinite.
        return self._bend * np.minimum(t, 1e300) + np.maximum(t - self._bend, 0) ** 2 / 2

    def _hazard(self, x: FloatArray) -> FloatArray:
        t = x / self.gamma
        within = self._mass_within(t) / self._half_mass
        near = -np.log1p(-np.minimum(within, 0.5))
        far = self._potential(x) - np.log(self._relative_tail(t) / self._half_mass)
        return np.where(within < 0.5, near, far)

    def _mass_within(self, t: FloatArray) -> FloatArray:
        """Return the integral of exp(-potential) from 0 to t."""
        b = self._bend
        outer = erf(np.maximum(t, b) / _ROOT_2) - math.erf(b / _ROOT_2)
        return fallen(b, np.minimum(t, b)) + _gaussian_mass(b) * outer

    def _relative_tail(self, t: FloatArray) -> FloatArray:
        """Return the integral of exp(-potential) from t on, divided by its value at t."""
        b = self._bend
        left = np.maximum(b - t, 0)
        centre = fallen(b, left) + np.exp(-b * left) * self._mills
        return np.where(t < b, centre, mills_ratio(np.maximum(t, b)))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        inner = self._inner_inverse(level) if self._bend > 0 else np.zeros_like(level)
        outer = np.maximum(self._outer_inverse(level), self._bend)
        return self.gamma * np.where(level <= self._level_at_bend, inner, outer)

    def _inner_inverse(self, level: FloatArray) -> FloatArray:
        b = self._bend
        rest = 1 - b * self._mills  # rounds to 0 only where it no longer matters
        log_rest = -b * b + math.log(rest) if rest > 0 else -math.inf
        return inverse_hazard(level, b * self._half_mass, log_rest) / b

    def _outer_inverse(self, level: FloatArray) -> FloatArray:
        b = self._bend
        log_tail = math.log(self._half_mass) + b * b / 2 - math.log(2 * math.pi) / 2 - level
        far = -ndtri_exp(np.minimum(log_tail, -math.log(2)))
        if self._level_at_bend >= 0.5:
            return far
        total = _gaussian_mass(b)
        # What the sharp centre has more than a Gaussian's, of order b^3.
        surplus = self._inner_mass / total - math.erf(b / _ROOT_2)
        within = -np.expm1(-level) * self._half_mass / total - surplus
        return np.where(level < 0.5, _ROOT_2 * erfinv(np.clip(within, 0, 1)), far)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        near, far, apart = near / self.gamma, far / self.gamma, apart / self.gamma
        b = self._bend
        p, q = np.maximum(far - b, 0), np.maximum(near - b, 0)
        return b * apart + np.where(near >= b, apart, p) * (p / 2 + q / 2)

    def crossing(self, shift: float, epsilon: ArrayLike) -> FloatArray:
        """Return sup {x : log_ratio(x, shift) <= epsilon} for shift > 0."""
        b, h = self._bend, shift / (2 * self.gamma)
        ends = [
            2 * max(b, h) * min(h, abs(b - h)),
            2 * b * h + max(2 * h - b, 0.0) ** 2 / 2,
            2 * h * (h + b),
        ]

        def reach(level: FloatArray) -> FloatArray:
            y = level / (2 * h)
            outer = np.sqrt(2 * np.maximum(level - 2 * b * h, 0)) + b - h
            y = np.where(level < ends[2], outer, y)
            y = np.where(level < ends[1], np.sqrt(2 * level + 4 * b * h) - b - h, y)
            y = np.where(level < ends[0], level / (2 * max(b, h)), y)
            return np.asarray(self.gamma * y)

        return crossing_at(reach, shift, epsilon)

    def _unit_variance(self) -> float:
        b = self._bend
        # Below 1e-9 the centre's share, of order b^3, is no digit, and would underflow.
        inner = 2 * float(gammainc(3, b * b)) / b / b / b if b > 1e-9 else 0.0
        return (inner + self._outer_square()) / self._half_mass

    def _unit_information(self) -> float:
        b = self._bend
        return (b * b * self._inner_mass + self._outer_square()) / self._half_mass

    def _outer_square(self) -> float:
        """Return the integral of t^2 exp(-potential) over t > b."""
        return math.exp(-self._bend * self._bend) * (self._bend + self._mills)

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        b = self._bend
        inner = float(gammainc(2, b * b)) / b if b > 1e-9 else 0.0
        outer = (self._outer_square() + b * b * math.exp(-b * b) * self._mills) / 2
        return (inner + outer) / self._half_mass - self._log_peak

    def scaled(self, s: float) -> Self:
        """Return the law of s X, for s in (0, inf)."""
        s = check_positive("s", s)
        return type(self)(s * self.alpha, s * self.gamma)


def _gaussian_mass(bend: float) -> float:
    """Return the integral over t > 0 of the Gaussian that the density is beyond the bend."""
    return math.exp(-bend * bend / 2) * math.sqrt(math.pi / 2)
