"""The flipped Huber law: exponential at the centre, Gaussian in the tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import erf, erfinv, gammainc, ndtri_exp

from skdp._arrays import FloatArray
from skdp.noise._even import CrossingLaw, check_offset
from skdp.noise._exponential import fallen, inverse_hazard
from skdp.privacy.normal import mills_ratio

_ROOT_2 = math.sqrt(2)


@dataclass(frozen=True)
class FlippedHuber(CrossingLaw):
    """Density proportional to exp(-rho(x) / gamma^2) (Muthukrishnan & Kalyani 2023).

    rho(x) = alpha |x| for |x| <= alpha, and (x^2 + alpha^2) / 2 beyond. With alpha = 0 this is
    Gaussian(gamma); for great alpha / gamma it tends to Laplace(gamma^2 / alpha).

    Parameters
    ----------
    alpha : float in [0, inf), units of the released value
        Half-width of the exponential centre, at most 1e150 gamma.
    gamma : float in (0, inf), units of the released value
        Standard deviation of the Gaussian tails.

    Examples
    --------
    >>> FlippedHuber(0.0, 2.0).var()
    4.0
    >>> round(FlippedHuber(1.0, 1.0).var(), 6)
    0.88133
    """

    alpha: float = 1.0
    gamma: float = 1.0
    _lengths: ClassVar[tuple[str, ...]] = ("alpha", "gamma")

    def __post_init__(self) -> None:
        check_offset(self, "alpha", "gamma")

    # In units of gamma the potential is b t + max(t - b, 0)^2 / 2, b the knot.

    @cached_property
    def _knot(self) -> float:
        return self.alpha / self.gamma

    @cached_property
    def _mills(self) -> float:
        return float(mills_ratio(np.asarray(self._knot)))

    @cached_property
    def _inner_mass(self) -> float:
        """Return the integral of exp(-potential) over 0 < t < b."""
        return float(fallen(self._knot, self._knot))

    @cached_property
    def _half_mass(self) -> float:
        """Return the integral of exp(-potential) over t > 0."""
        return self._inner_mass + math.exp(-self._knot * self._knot) * self._mills

    @cached_property
    def _level_at_knot(self) -> float:
        return float(self._hazard(np.asarray(self.alpha)))

    def _potential(self, x: FloatArray) -> FloatArray:
        t = x / self.gamma
        # The minimum avoids 0 times inf; where it differs from t the square is infinite.
        return self._knot * np.minimum(t, 1e300) + np.maximum(t - self._knot, 0) ** 2 / 2

    def _hazard(self, x: FloatArray) -> FloatArray:
        t = x / self.gamma
        within = self._mass_within(t) / self._half_mass
        near = -np.log1p(-np.minimum(within, 0.5))
        far = self._potential(x) - np.log(self._relative_tail(t) / self._half_mass)
        return np.where(within < 0.5, near, far)

    def _mass_within(self, t: FloatArray) -> FloatArray:
        """Return the integral of exp(-potential) from 0 to t."""
        b = self._knot
        outer = erf(np.maximum(t, b) / _ROOT_2) - math.erf(b / _ROOT_2)
        return fallen(b, np.minimum(t, b)) + _gaussian_mass(b) * outer

    def _relative_tail(self, t: FloatArray) -> FloatArray:
        """Return the integral of exp(-potential) from t on, divided by its value at t."""
        b = self._knot
        left = np.maximum(b - t, 0)
        centre = fallen(b, left) + np.exp(-b * left) * self._mills
        return np.where(t < b, centre, mills_ratio(np.maximum(t, b)))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        inner = self._inner_inverse(level) if self._knot > 0 else np.zeros_like(level)
        outer = np.maximum(self._outer_inverse(level), self._knot)
        return self.gamma * np.where(level <= self._level_at_knot, inner, outer)

    def _inner_inverse(self, level: FloatArray) -> FloatArray:
        b = self._knot
        rest = 1 - b * self._mills  # if it rounds to 0, its log has no effect
        log_rest = -b * b + math.log(rest) if rest > 0 else -math.inf
        return inverse_hazard(level, b * self._half_mass, log_rest) / b

    def _outer_inverse(self, level: FloatArray) -> FloatArray:
        b = self._knot
        log_tail = math.log(self._half_mass) + b * b / 2 - math.log(2 * math.pi) / 2 - level
        far = -ndtri_exp(np.minimum(log_tail, -math.log(2)))
        if self._level_at_knot >= 0.5:
            return far
        total = _gaussian_mass(b)
        # The mass of the centre beyond that of a Gaussian's, of order b^3.
        surplus = self._inner_mass / total - math.erf(b / _ROOT_2)
        within = -np.expm1(-level) * self._half_mass / total - surplus
        return np.where(level < 0.5, _ROOT_2 * erfinv(np.clip(within, 0, 1)), far)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        near, far, apart = near / self.gamma, far / self.gamma, apart / self.gamma
        b = self._knot
        p, q = np.maximum(far - b, 0), np.maximum(near - b, 0)
        return b * apart + np.where(near >= b, apart, p) * (p / 2 + q / 2)

    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        b, h = self._knot, shift / (2 * self.gamma)
        ends = [
            2 * max(b, h) * min(h, abs(b - h)),
            2 * b * h + max(2 * h - b, 0.0) ** 2 / 2,
            2 * h * (h + b),
        ]
        y = level / (2 * h)
        outer = np.sqrt(2 * np.maximum(level - 2 * b * h, 0)) + b - h
        y = np.where(level < ends[2], outer, y)
        y = np.where(level < ends[1], np.sqrt(2 * level + 4 * b * h) - b - h, y)
        y = np.where(level < ends[0], level / (2 * max(b, h)), y)
        return np.asarray(self.gamma * y)

    def _unit_variance(self) -> float:
        b = self._knot
        # Below 1e-9 the centre's share, of order b^3, is negligible and would underflow.
        inner = 2 * float(gammainc(3, b * b)) / b / b / b if b > 1e-9 else 0.0
        return (inner + self._outer_square()) / self._half_mass

    def _unit_information(self) -> float:
        b = self._knot
        return (b * b * self._inner_mass + self._outer_square()) / self._half_mass

    def _outer_square(self) -> float:
        """Return the integral of t^2 exp(-potential) over t > b."""
        return math.exp(-self._knot * self._knot) * (self._knot + self._mills)

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        b = self._knot
        inner = float(gammainc(2, b * b)) / b if b > 1e-9 else 0.0
        outer = (self._outer_square() + b * b * math.exp(-b * b) * self._mills) / 2
        return (inner + outer) / self._half_mass - self._log_peak


def _gaussian_mass(knot: float) -> float:
    """Return the integral over t > 0 of the Gaussian that equals the density beyond the knot."""
    return math.exp(-knot * knot / 2) * math.sqrt(math.pi / 2)
