"""Trade-off functions of two laws (f-DP), in logs.

The trade-off function of two laws P and Q is f(alpha), the least type II error (Q is taken for
P) of any test whose type I error (P is taken for Q) is at most alpha. A release is f-private if
f is a lower bound for all neighbours (Dong, Roth & Su 2022). The functions here are symmetric.

Two increasing maps represent f with all digits of both tails: s -> f(1 - s), the mass to which a
tail of mass s shrinks when the law is moved away from it; and a -> 1 - f(a), the power of the best
test of level a. They are inverse to each other. Proofs: docs/proofs/tradeoff.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp, roots_legendre

from skdp.privacy.shift import ShiftedLaw, ShiftLoss
from skdp.trusted.arrays import FloatArray, exp_up
from skdp.trusted.checks import check_interval, check_positive, fail
from skdp.trusted.fold import moved_log_delta
from skdp.trusted.losses import (
    LOG_HALF,
    GaussianLoss,
    PairLoss,
    PrivacyLoss,
    error_of_arguments,
    gaussian_log_delta,
    log1mexp,
)

__all__ = ["TradeOff", "approximate", "from_law", "gaussian", "laplace"]

_NODES, _LENGTHS = roots_legendre(24)
_ROUNDING = 4 * float(np.finfo(float).eps)


class TradeOff(ABC):
    """A symmetric trade-off function; `approximate`, `gaussian`, `laplace` and `from_law` make one.

    A call with a type I error in [0, 1], a number or an array, returns the least type II error.

    Examples
    --------
    >>> from skdp.privacy import tradeoff
    >>> f = tradeoff.gaussian(1.0)
    >>> round(float(f(0.05)), 4)
    0.7405
    >>> round(f.delta_at(1.0), 6)
    0.126937
    """

    def __call__(self, alpha: ArrayLike) -> FloatArray:
        """Return the least type II error at type I error ``alpha``, of the same shape."""
        alpha = np.asarray(alpha, dtype=float)
        if not ((alpha >= 0) & (alpha <= 1)).all():
            raise fail("alpha", "lie in [0, 1]")
        with np.errstate(divide="ignore"):
            return np.exp(self.log_miss(np.log1p(-alpha)))

    @abstractmethod
    def log_miss(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log f(1 - s), from log s; s -> f(1 - s) is applied ``k`` times.

        It is the mass of a tail of mass s after k shifts away from it, and so the function for data
        sets k steps apart.
        """

    @abstractmethod
    def log_power(self, log_a: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log(1 - f(alpha)), from log a; a -> 1 - f(a) is applied ``k`` times."""

    @abstractmethod
    def log_slope(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return the log of the derivative of s -> f(1 - s), applied ``k`` times."""

    @property
    @abstractmethod
    def log_fixed_point(self) -> float:
        """Log of the c with f(c) = c."""

    @property
    def fixed_point(self) -> float:
        """The c with f(c) = c; 1/2 only for the trivial f(alpha) = 1 - alpha."""
        return math.exp(self.log_fixed_point)

    @property
    @abstractmethod
    def central_mass(self) -> float:
        """1 - 2 c, the total variation distance of the pair; 0 for the trivial f."""

    @abstractmethod
    def loss(self) -> PrivacyLoss:
        """Return the privacy loss of a pair with this trade-off function."""

    @abstractmethod
    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta, for epsilon of any sign.

        It is the supremum of 1 - f(alpha) - e^epsilon alpha over alpha.
        """

    def delta_at(self, epsilon: float) -> float:
        """Return the least delta such that f implies (epsilon, delta), rounded up."""
        log_delta = float(self.log_delta(check_interval("epsilon", epsilon, 0, math.inf)))
        if log_delta == -math.inf:
            return 0.0
        # An error in the last digit of a log is a relative error of delta of the size of the log.
        return exp_up(log_delta + _ROUNDING * (1 + abs(log_delta)))


@dataclass(frozen=True)
class NormalShift(TradeOff):
    """T(N(0, 1), N(mu, 1))."""

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_positive("mu", self.mu))

    def log_miss(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return np.asarray(log_ndtr(_normal_quantile(log_s) - np.asarray(k) * self.mu))

    def log_power(self, log_a: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return np.asarray(log_ndtr(_normal_quantile(log_a) + np.asarray(k) * self.mu))

    def log_slope(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        step = self.mu * np.asarray(k, dtype=float)
        return np.asarray(step * (_normal_quantile(log_s) - step / 2))

    @property
    def log_fixed_point(self) -> float:
        """Log of Phi(-mu / 2)."""
        return float(log_ndtr(-self.mu / 2))

    @property
    def central_mass(self) -> float:
        return math.erf(self.mu / math.sqrt(8))

    def loss(self) -> PrivacyLoss:
        return GaussianLoss(self.mu)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        return gaussian_log_delta(self.mu, epsilon) + error_of_arguments(self.mu, epsilon)


@dataclass(frozen=True)
class Shifted(TradeOff):
    """T(X, X + shift), X even and log-concave: f(a) = F(isf(a) - shift)."""

    law: ShiftedLaw
    shift: float

    def __post_init__(self) -> None:
        for name in ("logpdf", "logsf", "isf"):
            if not callable(getattr(self.law, name, None)):
                raise fail("law", f"have a method {name}", type(self.law))
        object.__setattr__(self, "shift", check_positive("shift", self.shift))

    def log_miss(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self._moved(log_s, self.shift * np.asarray(k))

    def log_power(self, log_a: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self._moved(log_a, -self.shift * np.asarray(k))

    def log_slope(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        x, step = self._quantile(log_s), self.shift * np.asarray(k)
        log_ratio = getattr(self.law, "log_ratio", None)
        if callable(log_ratio):
            return -np.asarray(log_ratio(x, step))
        return np.asarray(self.law.logpdf(x + step) - self.law.logpdf(x))

    @property
    def log_fixed_point(self) -> float:
        """Log of the tail beyond half the shift."""
        return float(self.law.logsf(self.shift / 2))

    @property
    def central_mass(self) -> float:
        mass = -math.expm1(math.log(2) + self.log_fixed_point)
        if mass > 0.1:
            return mass
        x = self.shift / 4 * (1 + _NODES)
        return float(self.shift / 2 * (_LENGTHS @ np.exp(self.law.logpdf(x))))

    def loss(self) -> PrivacyLoss:
        return ShiftLoss(self.law, self.shift)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        return moved_log_delta(self.loss(), epsilon, 1)

    def _moved(self, log_s: ArrayLike, by: ArrayLike) -> FloatArray:
        return np.asarray(self.law.logsf(self._quantile(log_s) + np.asarray(by)))

    def _quantile(self, log_s: ArrayLike) -> FloatArray:
        """Return the x beyond which the law has mass s, by the symmetry from one tail."""
        log_s = np.asarray(log_s, dtype=float)
        upper = log_s <= LOG_HALF
        tail = np.where(upper, np.exp(log_s), -np.expm1(log_s))
        x: FloatArray = np.asarray(self.law.isf(tail), dtype=float)
        return np.where(upper, x, -x)


@dataclass(frozen=True)
class StandardLaplace:
    """Density exp(-|x|) / 2, with the members that a trade-off function needs."""

    def logpdf(self, x: ArrayLike) -> FloatArray:
        return np.asarray(-np.abs(x) + LOG_HALF)

    def logsf(self, x: ArrayLike) -> FloatArray:
        x = np.asarray(x, dtype=float)
        tail = -np.abs(x) + LOG_HALF
        return np.asarray(np.where(x > 0, tail, np.log1p(-np.exp(tail))))

    def isf(self, q: ArrayLike) -> FloatArray:
        q = np.asarray(q, dtype=float)
        tail = np.minimum(q, 1 - q)
        with np.errstate(divide="ignore", invalid="ignore"):
            # 2 tail - 1 is exact for tail > 1/4.
            x = np.where(tail > 0.25, -np.log1p(2 * tail - 1), -np.log(2 * tail))
        return np.asarray(np.where(q > 0.5, -x, x))

    def log_ratio(self, x: ArrayLike, shift: ArrayLike) -> FloatArray:
        """Return logpdf(x) - logpdf(x + shift) for shift >= 0."""
        x, shift = np.asarray(x, dtype=float), np.asarray(shift, dtype=float)
        return np.asarray(np.clip(shift + 2 * np.minimum(x, 0.0), -shift, shift))


@dataclass(frozen=True)
class Approximate(TradeOff):
    """(epsilon, delta): max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a))."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        epsilon = check_interval("epsilon", self.epsilon, 0, math.inf, closed="left")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", check_interval("delta", self.delta, 0, 1))

    @property
    def log_fixed_point(self) -> float:
        """Log of (1 - delta) / (1 + e^epsilon)."""
        return log_rest(self.delta) - float(np.logaddexp(0.0, self.epsilon))

    def log_miss(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log f(1 - s): a = 1 - s grows by e^epsilon, beyond the centre s shrinks by it."""
        log_s, k = np.broadcast_arrays(np.asarray(log_s, dtype=float), np.asarray(k, dtype=float))
        log_a = log1mexp(log_s)
        first = np.minimum(self._steps_to_centre(log_a), k)
        start = np.where(first > 0, log1mexp(np.minimum(self._grown(log_a, first), 0.0)), log_s)
        return self._shrunk(start, k - first)

    def log_power(self, log_a: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log(1 - f(a)): a grows by e^epsilon, beyond the centre 1 - a shrinks by it."""
        log_a, k = np.broadcast_arrays(np.asarray(log_a, dtype=float), np.asarray(k, dtype=float))
        first = np.minimum(self._steps_to_centre(log_a), k)
        grown = np.minimum(self._grown(log_a, first), 0.0)
        rest = k - first
        return np.where(rest > 0, log1mexp(self._shrunk(log1mexp(grown), rest)), grown)

    def log_slope(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        log_s, k = np.broadcast_arrays(np.asarray(log_s, dtype=float), np.asarray(k, dtype=float))
        first = np.minimum(self._steps_to_centre(log1mexp(log_s)), k)
        inside = np.isfinite(self.log_miss(log_s, k))
        return np.where(inside, self.epsilon * (2 * first - k), -math.inf)

    @property
    def central_mass(self) -> float:
        pure = math.tanh(self.epsilon / 2)
        return pure + self.delta * (1 - pure)

    def loss(self) -> PrivacyLoss:
        return PairLoss(self.epsilon, self.delta)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the profile, which is 1 for delta = 1, where no loss is finite."""
        if self.delta == 1:
            return np.zeros(np.shape(epsilon))
        return np.asarray(self.loss().log_delta(epsilon))

    def _steps_to_centre(self, log_a: FloatArray) -> FloatArray:
        """Return the number of steps from a below the fixed point to it or beyond."""
        if self.epsilon == 0:  # both branches are one
            return np.zeros(log_a.shape)
        log_rate = _log_expm1(self.epsilon)
        log_delta = math.log(self.delta) if self.delta > 0 else -math.inf
        goal = np.logaddexp(self.log_fixed_point + log_rate, log_delta)
        now = np.logaddexp(log_a + log_rate, log_delta)
        with np.errstate(invalid="ignore"):
            steps = np.ceil((goal - now) / self.epsilon)
        return np.where(log_a < self.log_fixed_point, np.maximum(steps, 1.0), 0.0)

    def _log_lost(self, k: FloatArray) -> FloatArray:
        """Return log(delta (1 + e^epsilon + ... + e^((k - 1) epsilon)))."""
        with np.errstate(divide="ignore"):
            log_delta = np.log(self.delta)
            if self.epsilon == 0:
                return np.asarray(log_delta + np.log(k))
            lost = log_delta + _log_expm1(k * self.epsilon) - _log_expm1(self.epsilon)
            return np.asarray(lost)

    def _grown(self, log_a: FloatArray, k: FloatArray) -> FloatArray:
        """Return a -> delta + e^epsilon a, applied k times."""
        raised = log_a + np.where(np.isfinite(k), k, 0.0) * self.epsilon
        return np.where(k > 0, np.logaddexp(raised, self._log_lost(k)), log_a)

    def _shrunk(self, log_s: FloatArray, k: FloatArray) -> FloatArray:
        """Return s -> e^-epsilon (s - delta), applied k times, and 0 instead of negative values."""
        with np.errstate(invalid="ignore"):
            share = self._log_lost(k) - log_s
        left = np.where(np.isneginf(log_s), log_s, log_s + log1mexp(np.minimum(share, 0.0)))
        return np.where(k > 0, left - k * self.epsilon, log_s)


def log_rest(delta: float) -> float:
    """Return log(1 - delta), delta in [0, 1]."""
    return math.log1p(-delta) if delta < 1 else -math.inf


def _normal_quantile(log_p: ArrayLike) -> FloatArray:
    return np.asarray(ndtri_exp(np.asarray(log_p, dtype=float)))


def _log_expm1(x: ArrayLike) -> FloatArray:
    """Return log(e^x - 1) for x >= 0, without overflow."""
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(x + np.log(-np.expm1(-x)))


def approximate(epsilon: float, delta: float = 0.0) -> TradeOff:
    """Return max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)).

    Parameters
    ----------
    epsilon : float in [0, inf)
    delta : float in [0, 1]

    Examples
    --------
    >>> float(approximate(0.0, 0.25)(0.5))
    0.25
    """
    return Approximate(epsilon, delta)


def gaussian(mu: float) -> TradeOff:
    """Return the trade-off function of N(0, 1) and N(mu, 1).

    Parameters
    ----------
    mu : float in (0, inf)

    Examples
    --------
    >>> round(float(gaussian(1.0)(0.05)), 4)  # 5 % of false alarms, 74 % of misses
    0.7405
    """
    return NormalShift(mu)


def laplace(epsilon: float) -> TradeOff:
    """Return the trade-off function of a Laplace variable of scale 1 / epsilon and shift 1.

    Parameters
    ----------
    epsilon : float in (0, inf)

    Examples
    --------
    >>> round(float(laplace(1.0)(0.05)), 4)
    0.8641
    """
    return Shifted(StandardLaplace(), check_positive("epsilon", epsilon))


def from_law(law: ShiftedLaw, shift: float = 1.0) -> TradeOff:
    """Return F(isf(alpha) - shift), the function of X and X + shift, X even and log-concave.

    Parameters
    ----------
    law : even, log-concave law with ``logpdf``, ``logsf`` and ``isf``
    shift : float in (0, inf), units of the law

    Examples
    --------
    >>> from skdp.noise import Gaussian
    >>> round(float(from_law(Gaussian(), shift=1.0)(0.05)), 4)
    0.7405
    """
    return Shifted(law, shift)
