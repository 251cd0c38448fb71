"""Subbotin's law, also called exponential power law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.special import gammaincc

from skdp._arrays import FloatArray
from skdp._checks import check_interval, check_positive
from skdp._draws import gammas, uniforms
from skdp.noise._even import EvenLaw, with_random_sign
from skdp.noise.law import Size

# z = |x / scale|^r / r. The series has sixteen digits for z <= _NEAR, and the continued fraction
# for z >= _FAR, where scipy's incomplete gamma function begins to underflow.
_NEAR, _FAR = 0.5, 100.0
_TINY = 1e-300
_TERMS, _LEVELS, _STEPS = 16, 8, 5


@dataclass(frozen=True)
class Subbotin(EvenLaw):
    """Density proportional to exp(-|x / scale|^r / r).

    Laplace(scale) for r = 1, Gaussian(scale) for r = 2; for great r nearly uniform on
    [-scale, scale].

    Parameters
    ----------
    r : float in [1, inf)
    scale : float in (0, inf), units of the released value

    Examples
    --------
    >>> round(Subbotin(r=1.0).var(), 12), round(Subbotin(r=2.0).var(), 12)
    (2.0, 1.0)
    >>> round(float(Subbotin(r=6.0).isf(1e-300)), 6)
    4.000253
    """

    r: float = 2.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        remedy = "For r < 1 the density is not log-concave."
        r = check_interval("r", self.r, 1.0, math.inf, "left", remedy)
        object.__setattr__(self, "r", r)
        object.__setattr__(self, "scale", check_positive("scale", self.scale))

    @cached_property
    def _log_half(self) -> float:
        """Return the log of the integral of exp(-t^r / r) over t > 0."""
        return math.log(self.r) / self.r + math.lgamma(1 + 1 / self.r)

    @property
    def _log_peak(self) -> float:
        return -math.log(2) - self._log_half - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        return np.asarray((x / self.scale) ** self.r / self.r)

    def _hazard(self, x: FloatArray) -> FloatArray:
        z = self._potential(x)
        within = self._within(np.asarray(x / self.scale), z)
        # For great r almost all mass lies within z < _NEAR, and 1 - within loses its digits.
        near = (z < _NEAR) & ((within < 0.9) | (z < _TINY))
        return np.where(near, -np.log1p(-within), self._tail_hazard(z))

    def _within(self, t: FloatArray, z: FloatArray) -> FloatArray:
        """Return P(|X| <= t) for z <= 1/2, by Kummer's series: all terms are positive."""
        a, z = 1 / self.r, np.minimum(z, _NEAR)
        total = term = np.ones_like(z)
        for k in range(1, _TERMS):
            term = term * z / (a + k)
            total = total + term
        return t * np.exp(-z - self._log_half) * total

    def _tail_hazard(self, z: FloatArray) -> FloatArray:
        """Return -log Q(1 / r, z), Q the regularised upper incomplete gamma function."""
        a, z = 1 / self.r, np.maximum(z, _TINY)
        return np.where(z < _FAR, -np.log(gammaincc(a, np.minimum(z, _FAR))), _far_hazard(a, z))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        turn = float(self._tail_hazard(np.asarray(_NEAR)))
        near = self._near_inverse(np.minimum(level, turn))
        far = (self.r * self._far_inverse(np.maximum(level, turn))) ** (1 / self.r)
        return self.scale * np.where(level < turn, near, far)

    def _near_inverse(self, level: FloatArray) -> FloatArray:
        """Return t by Newton's method from the left: P(|X| <= t) is concave in t."""
        half = math.exp(self._log_half)
        within = -np.expm1(-level)
        t = within * half
        for _ in range(_STEPS):
            z = t**self.r / self.r
            t = t + (within - self._within(t, z)) * np.exp(z) * half
        return t

    def _far_inverse(self, level: FloatArray) -> FloatArray:
        """Return z by Newton's method from the left: the hazard is concave in z."""
        a, z = 1 / self.r, np.full_like(level, _NEAR)
        for _ in range(_STEPS):
            hazard = self._tail_hazard(z)
            log_rate = (a - 1) * np.log(z) - z - math.lgamma(a) + hazard
            z = z + (level - hazard) * np.exp(-log_rate)
        return z

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        # far^r - near^r is r (far - near) far^(r - 1) times a mean of (s / far)^(r - 1).
        part = apart / far
        mean = np.where(part > 0, np.expm1(self.r * np.log1p(-part)) / (-self.r * part), 1.0)
        return (apart / self.scale) * (far / self.scale) ** (self.r - 1) * mean

    def rvs(self, size: Size, rng: Generator) -> FloatArray:
        """Return independent draws of shape ``size``, or one number if it is None."""
        # |X| is uniform below a power of a Gamma(1 + 1 / r) variable. |X| itself is a power of a
        # Gamma(1 / r) variable, which underflows for great r.
        edge = (self.r * gammas(1 + 1 / self.r, () if size is None else size, rng)) ** (1 / self.r)
        return with_random_sign(np.asarray(self.scale * edge * uniforms(size, rng)), rng)

    def _unit_variance(self) -> float:
        a = 1 / self.r
        gammas = math.gamma(1 + 3 * a) / math.gamma(1 + a)
        return math.pow(self.r, 2 * a) * gammas / 3

    def _unit_information(self) -> float:
        a = 1 / self.r
        return math.pow(self.r, 1 - 2 * a) * math.gamma(2 - a) / math.gamma(1 + a)

    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""
        return 1 / self.r - self._log_peak


def _far_hazard(a: float, z: FloatArray) -> FloatArray:
    """Return -log Q(a, z) for z >= _FAR by Legendre's continued fraction."""
    z = np.maximum(z, _FAR)
    rest = z + 2 * _LEVELS + 1 - a
    for k in range(_LEVELS, 0, -1):
        rest = z + 2 * k - 1 - a - k * (k - a) / rest
    hazard = z - a * np.log(z) + math.lgamma(a) + np.log(rest)
    return np.where(np.isinf(z), np.inf, hazard)
