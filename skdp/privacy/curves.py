"""Trade-off functions in logs.

f(a) is the least type II error at type I error a. Two increasing maps represent f with all digits
of both tails: s -> f(1 - s), the mass to which a tail of mass s shrinks when the law is moved away
from it; and a -> 1 - f(a), the power of the best test of level a. For a symmetric f they are
inverse to each other. Group privacy iterates these maps. docs/proofs/tradeoff.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp, roots_legendre

from skdp._search import narrowed
from skdp.privacy.composition import Composition
from skdp.privacy.shift import ShiftedLaw, ShiftLoss
from skdp.trusted.arrays import LEAST_LOG, FloatArray, exp_up
from skdp.trusted.checks import check_count, check_interval, check_positive, fail
from skdp.trusted.fold import moved_log_delta
from skdp.trusted.losses import (
    LOG_HALF,
    GaussianLoss,
    Losses,
    PairLoss,
    PrivacyLoss,
    Profile,
    ProfileLoss,
    error_of_arguments,
    gaussian_log_delta,
    log1mexp,
)

_NODES, _LENGTHS = roots_legendre(24)
# For greater epsilon e^epsilon overflows; profiles are not evaluated there.
_FARTHEST = 700.0
_GOLDEN = (5**0.5 - 1) / 2
_STEPS = 75
# Least delta and number of points of the table of a composed profile.
_LEAST_DELTA, _POINTS = 1e-12, 32
_ROUND_UP = 1e-14
# Levels in both tails, for the comparison of functions without a common closed form.
_LEVELS = -np.geomspace(1e-12, 690.0, 1000)
_TOLERANCE = 1e-10
_ROUNDING = 4 * float(np.finfo(float).eps)
# No float is positive below e^-745.
_LEAST = -745.0
_HALVINGS = 70
# Bound on the relative error of a power: the log maps have a few rounding errors.
_SLACK = 1e-14


class TradeOff:
    """A trade-off function; the functions of `skdp.privacy.tradeoff` make one.

    A call with a type I error in [0, 1], a number or an array, returns the least type II error.
    ``f <= g`` if f is at most g at every level, so that f is the weaker guarantee.

    Examples
    --------
    >>> from skdp.privacy import tradeoff
    >>> f = tradeoff.gaussian(1.0)
    >>> round(float(f(0.05)), 4)
    0.7405
    >>> f.group(2) == tradeoff.gaussian(2.0)
    True
    >>> round(f.delta_at(1.0), 6)
    0.126937
    """

    # Each takes a log and, if the function is closed, a number of steps k, a number or an array.
    _miss: Callable[..., FloatArray]
    _power: Callable[..., FloatArray]
    _slope: Callable[..., FloatArray]

    def __call__(self, alpha: ArrayLike) -> FloatArray:
        """Return the least type II error at type I error ``alpha``, of the same shape."""
        alpha = np.asarray(alpha, dtype=float)
        if not ((alpha >= 0) & (alpha <= 1)).all():
            raise fail("alpha", "lie in [0, 1]")
        with np.errstate(divide="ignore"):
            return np.exp(self.log_miss(np.log1p(-alpha)))

    def log_miss(self, log_confidence: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log f(1 - s), from log s; s -> f(1 - s) is applied ``k`` times.

        It is the mass of a tail of mass s after one shift away from it.
        """
        return self._steps(self._miss, log_confidence, k)

    def log_power(self, log_alpha: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log(1 - f(alpha)), from log alpha; alpha -> 1 - f is applied ``k`` times."""
        return self._steps(self._power, log_alpha, k)

    def log_slope(self, log_confidence: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return the log of the derivative of s -> f(1 - s), applied ``k`` times."""
        if self.closed:
            return self._slope(log_confidence, k)
        s, k = np.broadcast_arrays(np.asarray(log_confidence, dtype=float), np.asarray(k))
        total = np.zeros(s.shape)
        for i in range(int(k.max(initial=0))):
            s = self._miss(s) if i else s
            total = total + np.where(k > i, self._slope(s), 0.0)
        return total

    def _steps(self, step: Callable[..., FloatArray], log_x: ArrayLike, k: ArrayLike) -> FloatArray:
        if self.closed:
            return step(log_x, k)
        x, k = np.broadcast_arrays(np.asarray(log_x, dtype=float), np.asarray(k))
        for i in range(int(k.max(initial=0))):
            x = np.where(k > i, step(x), x)
        return x

    @property
    def closed(self) -> bool:
        """Whether any number of steps costs one evaluation."""
        return False

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse."""
        return self.inverse() == self

    @cached_property
    def log_fixed_point(self) -> float:
        """Log of the c with f(c) = c."""
        # log f(c) - log c decreases in c.
        return narrowed(lambda x: not self.log_miss(log1mexp(x)) > x, _LEAST, LOG_HALF)[1]

    @property
    def fixed_point(self) -> float:
        """The c with f(c) = c; 1/2 only for the trivial f(alpha) = 1 - alpha."""
        return math.exp(self.log_fixed_point)

    @cached_property
    def central_mass(self) -> float:
        """1 - 2 c, the total variation distance of a symmetric pair; 0 for the trivial f."""
        return -math.expm1(math.log(2) + self.log_fixed_point)

    def inverse(self) -> TradeOff:
        """Return the trade-off function of the two laws in the other order."""
        return self

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of an upper bound on the least delta, for epsilon of any sign.

        The least delta is the supremum of 1 - f(alpha) - e^epsilon alpha over alpha. If it has no
        closed form, the upper end of a bracket is returned.
        """
        return _upper_log_delta(self, epsilon)

    def delta_at(self, epsilon: float) -> float:
        """Return the least known delta such that f implies (epsilon, delta), rounded up."""
        epsilon = check_interval("epsilon", epsilon, 0, math.inf)
        log_delta = float(self.log_delta(epsilon))
        # A bracketed value may underflow although it is not 0.
        if type(self).log_delta is TradeOff.log_delta and epsilon < math.inf:
            log_delta = max(log_delta, LEAST_LOG)
        if log_delta == -math.inf:
            return 0.0
        # An error in the last digit of a log is a relative error of delta of the size of the log.
        return exp_up(log_delta + _ROUNDING * (1 + abs(log_delta)))

    def loss(self) -> Profile:
        """Return the privacy loss of a pair with this trade-off function, or an upper bound."""
        if self.symmetric:
            return ProfileLoss(self.log_delta)
        return ProfileLoss(self.log_delta, self.inverse().log_delta)

    def chain(self, *others: TradeOff) -> TradeOff:
        """Return f(1 - g(alpha)), g the next one: the functional composition.

        It bounds one release for data sets several steps apart: if data sets A, B are g-private
        and B, C are f-private, then A, C are so. Several releases are combined by `tensor`.
        """
        parts: list[TradeOff] = [self]
        for other in _checked(others):
            joined = parts[-1]._chained(other)
            parts[-1:] = [joined] if joined is not None else [parts[-1], other]
        return parts[0] if len(parts) == 1 else Chained(tuple(parts))

    def group(self, k: int) -> TradeOff:
        """Return the trade-off function for data sets ``k`` steps apart: f chained k times."""
        k = check_count("k", k)
        return self if k == 1 else self._times(k) or Repeated(self, k)

    def tensor(self, *others: TradeOff) -> TradeOff:
        """Return the trade-off function of several independent releases together.

        Gaussian functions have a closed form, and so do (epsilon, delta) functions if all but one
        have epsilon = 0. For others it is a lower bound, through points of the composed profile.
        """
        joined: list[TradeOff] = [self]
        for other in _checked(others):
            products = ((i, c) for i, part in enumerate(joined) if (c := part._product(other)))
            at, product = next(products, (len(joined), other))
            joined[at : at + 1] = [product]
        if len(joined) == 1:
            return joined[0]
        # A lower bound, in which (0, delta) functions are infinity mass.
        free = [c for c in joined if isinstance(c, Approximate) and c.epsilon == 0]
        masses = [c.delta for c in free]
        masses += [c.infinity_mass for c in joined if isinstance(c, Tensor)]
        infinity_mass = -math.expm1(sum(map(log_rest, masses)))
        rest = [c for c in joined if c not in free]
        if len(rest) == 1 and not isinstance(rest[0], Tensor):
            return AlongProfile(rest[0].log_delta, infinity_mass)
        parts: list[tuple[Profile, int]] = []
        for part in rest:
            parts += part.parts if isinstance(part, Tensor) else [(part.loss(), 1)]
        return Tensor(tuple(parts), infinity_mass)

    def maximum(self, *others: TradeOff) -> TradeOff:
        """Return the pointwise maximum, for a release that is private by all functions."""
        return Greatest((self, *_checked(others)))

    def envelope(self, *others: TradeOff) -> TradeOff:
        """Return the greatest trade-off function below all, for a release private by one."""
        parts = (self, *others)
        if not all(part.symmetric for part in parts):
            raise fail("tradeoff", "be symmetric for an envelope", parts)
        return AlongProfile(_GreatestProfile(parts))

    def dominates(self, other: TradeOff) -> bool:
        """Return whether self <= other at every level, so that self is the weaker guarantee.

        Equal functions are compared by their parameters, others at 2,000 levels down to 1e-300 in
        both tails, up to 1e-10.
        """
        if self == other:
            return True
        low, high = self.log_miss(_LEVELS), other.log_miss(_LEVELS)
        left, right = self.log_power(_LEVELS), other.log_power(_LEVELS)
        return bool((low <= high + _TOLERANCE).all() and (left >= right - _TOLERANCE).all())

    def __le__(self, other: TradeOff) -> bool:
        return self.dominates(other)

    def __ge__(self, other: TradeOff) -> bool:
        return other.dominates(self)

    # Closed forms, where there is one

    def _times(self, k: int) -> TradeOff | None:
        return None

    def _chained(self, other: TradeOff) -> TradeOff | None:
        return None

    def _product(self, other: TradeOff) -> TradeOff | None:
        return None


def _checked(others: tuple[TradeOff, ...]) -> tuple[TradeOff, ...]:
    for other in others:
        if not isinstance(other, TradeOff):
            raise fail("others", "be trade-off functions", type(other))
    return others


def _upper_log_delta(f: TradeOff, epsilon: ArrayLike) -> FloatArray:
    """Return the log of an upper bound of max over a of 1 - f(a) - e^epsilon a.

    The function is concave in a, so its derivative gives the side of the maximum. Between the
    ends a < b of the last bracket it is at most 1 - f(b) - e^epsilon a.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    backwards = f.inverse()
    low, high = np.full(epsilon.shape, -np.inf), np.zeros(epsilon.shape)
    for _ in range(_HALVINGS):
        middle = (np.maximum(low, _LEAST) + high) / 2
        power = f.log_power(middle)
        # The power's derivative is that of an inverse function: one over the derivative.
        rises = (power < 0) & (-backwards.log_slope(power) > epsilon)
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    gain = f.log_power(high) + _SLACK
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(low), -np.inf, epsilon + low - gain)
    return np.minimum(gain + log1mexp(np.minimum(share, 0.0)), 0.0)


@dataclass(frozen=True)
class NormalShift(TradeOff):
    """T(N(0, 1), N(mu, 1))."""

    mu: float
    closed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_positive("mu", self.mu))

    def _miss(self, log_s: ArrayLike, k: ArrayLike) -> FloatArray:
        return np.asarray(log_ndtr(_normal_quantile(log_s) - np.asarray(k) * self.mu))

    def _power(self, log_a: ArrayLike, k: ArrayLike) -> FloatArray:
        return np.asarray(log_ndtr(_normal_quantile(log_a) + np.asarray(k) * self.mu))

    def _slope(self, log_s: ArrayLike, k: ArrayLike) -> FloatArray:
        step = self.mu * np.asarray(k, dtype=float)
        return np.asarray(step * (_normal_quantile(log_s) - step / 2))

    @property
    def log_fixed_point(self) -> float:
        """Log of Phi(-mu / 2)."""
        return float(log_ndtr(-self.mu / 2))

    @property
    def central_mass(self) -> float:
        return math.erf(self.mu / math.sqrt(8))

    def _times(self, k: int) -> NormalShift:
        return NormalShift(self.mu * k)

    def _chained(self, other: TradeOff) -> TradeOff | None:
        return NormalShift(self.mu + other.mu) if isinstance(other, NormalShift) else None

    def _product(self, other: TradeOff) -> TradeOff | None:
        return NormalShift(math.hypot(self.mu, other.mu)) if type(other) is NormalShift else None

    def loss(self) -> PrivacyLoss:
        return GaussianLoss(self.mu)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        return gaussian_log_delta(self.mu, epsilon) + error_of_arguments(self.mu, epsilon)


@dataclass(frozen=True)
class Shifted(TradeOff):
    """T(X, X + shift), X even and log-concave: f(a) = F(isf(a) - shift)."""

    law: ShiftedLaw
    shift: float
    closed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("logpdf", "logsf", "isf"):
            if not callable(getattr(self.law, name, None)):
                raise fail("law", f"have a method {name}", type(self.law))
        object.__setattr__(self, "shift", check_positive("shift", self.shift))

    def _miss(self, log_s: ArrayLike, k: ArrayLike) -> FloatArray:
        return self._moved(log_s, self.shift * np.asarray(k))

    def _power(self, log_a: ArrayLike, k: ArrayLike) -> FloatArray:
        return self._moved(log_a, -self.shift * np.asarray(k))

    def _slope(self, log_s: ArrayLike, k: ArrayLike) -> FloatArray:
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

    def _times(self, k: int) -> Shifted:
        return Shifted(self.law, self.shift * k)

    def _chained(self, other: TradeOff) -> TradeOff | None:
        if isinstance(other, Shifted) and other.law == self.law:
            return Shifted(self.law, self.shift + other.shift)
        return None

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
    closed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        epsilon = check_interval("epsilon", self.epsilon, 0, math.inf, closed="left")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", check_interval("delta", self.delta, 0, 1))

    @property
    def log_fixed_point(self) -> float:
        """Log of (1 - delta) / (1 + e^epsilon)."""
        return log_rest(self.delta) - float(np.logaddexp(0.0, self.epsilon))

    def _miss(self, log_s: ArrayLike, k: ArrayLike) -> FloatArray:
        """Return log f(1 - s): a = 1 - s grows by e^epsilon, beyond the centre s shrinks by it."""
        log_s, k = np.broadcast_arrays(np.asarray(log_s, dtype=float), np.asarray(k, dtype=float))
        log_a = log1mexp(log_s)
        first = np.minimum(self._steps_to_centre(log_a), k)
        start = np.where(first > 0, log1mexp(np.minimum(self._grown(log_a, first), 0.0)), log_s)
        return self._shrunk(start, k - first)

    def _power(self, log_a: ArrayLike, k: ArrayLike) -> FloatArray:
        """Return log(1 - f(a)): a grows by e^epsilon, beyond the centre 1 - a shrinks by it."""
        log_a, k = np.broadcast_arrays(np.asarray(log_a, dtype=float), np.asarray(k, dtype=float))
        first = np.minimum(self._steps_to_centre(log_a), k)
        grown = np.minimum(self._grown(log_a, first), 0.0)
        rest = k - first
        return np.where(rest > 0, log1mexp(self._shrunk(log1mexp(grown), rest)), grown)

    def _slope(self, log_s: ArrayLike, k: ArrayLike) -> FloatArray:
        log_s, k = np.broadcast_arrays(np.asarray(log_s, dtype=float), np.asarray(k, dtype=float))
        first = np.minimum(self._steps_to_centre(log1mexp(log_s)), k)
        inside = np.isfinite(self._miss(log_s, k))
        return np.where(inside, self.epsilon * (2 * first - k), -math.inf)

    @property
    def central_mass(self) -> float:
        pure = math.tanh(self.epsilon / 2)
        return pure + self.delta * (1 - pure)

    def _times(self, k: int) -> TradeOff | None:
        return None if self.epsilon > 0 else Approximate(0.0, min(1.0, self.delta * k))

    def _chained(self, other: TradeOff) -> TradeOff | None:
        if not isinstance(other, Approximate) or max(self.epsilon, other.epsilon) > 0:
            return None
        return Approximate(0.0, min(1.0, self.delta + other.delta))

    def _product(self, other: TradeOff) -> TradeOff | None:
        if not isinstance(other, Approximate) or min(self.epsilon, other.epsilon) > 0:
            return None
        delta = -math.expm1(log_rest(self.delta) + log_rest(other.delta))
        return Approximate(max(self.epsilon, other.epsilon), delta)

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


# Functions built from others, from points of a profile, or from a whole profile


@dataclass(frozen=True)
class _GreatestProfile:
    """The greatest of several profiles; hashable."""

    parts: tuple[TradeOff, ...]

    def __call__(self, epsilon: ArrayLike) -> FloatArray:
        return np.asarray(reduce(np.maximum, (part.log_delta(epsilon) for part in self.parts)))


@dataclass(frozen=True)
class Repeated(TradeOff):
    """A trade-off function chained k times, for groups of k."""

    curve: TradeOff
    k: int

    @property
    def closed(self) -> bool:
        return self.curve.closed

    def _miss(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self.curve.log_miss(log_s, self.k * np.asarray(k))

    def _power(self, log_a: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self.curve.log_power(log_a, self.k * np.asarray(k))

    def _slope(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self.curve.log_slope(log_s, self.k * np.asarray(k))

    def inverse(self) -> Repeated:
        return Repeated(self.curve.inverse(), self.k)

    def _times(self, k: int) -> Repeated:
        return Repeated(self.curve, self.k * k)


@dataclass(frozen=True)
class Chained(TradeOff):
    """Several trade-off functions chained: f(1 - g(...)), the last part innermost."""

    parts: tuple[TradeOff, ...]

    def _miss(self, log_s: ArrayLike) -> FloatArray:
        for part in reversed(self.parts):
            log_s = part.log_miss(log_s)
        return np.asarray(log_s)

    def _power(self, log_a: ArrayLike) -> FloatArray:
        for part in reversed(self.parts):
            log_a = part.log_power(log_a)
        return np.asarray(log_a)

    def _slope(self, log_s: ArrayLike) -> FloatArray:
        total = np.zeros(np.shape(log_s))
        for part in reversed(self.parts):
            total, log_s = total + part.log_slope(log_s), part.log_miss(log_s)
        return total

    def inverse(self) -> Chained:
        return Chained(tuple(part.inverse() for part in reversed(self.parts)))


@dataclass(frozen=True)
class Greatest(TradeOff):
    """The pointwise maximum, which holds if every part holds."""

    parts: tuple[TradeOff, ...]

    @property
    def symmetric(self) -> bool:
        """Whether the inverses are the same functions, in any order."""
        return all(part.inverse() in self.parts for part in self.parts)

    def _miss(self, log_s: ArrayLike) -> FloatArray:
        return np.asarray(np.max([part.log_miss(log_s) for part in self.parts], axis=0))

    def _power(self, log_a: ArrayLike) -> FloatArray:
        return np.asarray(np.min([part.log_power(log_a) for part in self.parts], axis=0))

    def _slope(self, log_s: ArrayLike) -> FloatArray:
        active = np.argmax([part.log_miss(log_s) for part in self.parts], axis=0)
        slopes = np.array([part.log_slope(log_s) for part in self.parts])
        return np.asarray(np.take_along_axis(slopes, active[None], axis=0)[0])

    def inverse(self) -> Greatest:
        return Greatest(tuple(part.inverse() for part in self.parts))


@dataclass(frozen=True)
class Points(TradeOff):
    """The greatest of the (epsilon, delta) functions at finitely many points."""

    epsilons: tuple[float, ...]
    log_deltas: tuple[float, ...]

    def _miss(self, log_s: ArrayLike) -> FloatArray:
        return self._lines(log_s)[0]

    def _power(self, log_a: ArrayLike) -> FloatArray:
        epsilon, log_delta = np.array(self.epsilons), np.array(self.log_deltas)
        a = np.asarray(log_a, dtype=float)[..., None]
        steep = np.logaddexp(log_delta, a + epsilon)
        with np.errstate(divide="ignore"):
            flat = np.logaddexp(np.log(-np.expm1(-epsilon)), np.logaddexp(log_delta, a) - epsilon)
        return np.asarray(np.minimum(np.minimum(steep, flat).min(axis=-1), 0.0))

    def _slope(self, log_s: ArrayLike) -> FloatArray:
        return self._lines(log_s)[1]

    def _lines(self, log_s: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the greatest line at 1 - s and its log-slope."""
        epsilon, log_delta = np.array(self.epsilons), np.array(self.log_deltas)
        s = np.asarray(log_s, dtype=float)[..., None]
        steep = _steep(np.logaddexp(log_delta, epsilon + log1mexp(s)), s)
        lines = np.concatenate([steep, _flat(s, epsilon, log_delta)], axis=-1)
        slopes = np.concatenate([epsilon, -epsilon])
        best = lines.argmax(axis=-1)
        top = np.take_along_axis(lines, best[..., None], -1)[..., 0]
        return top, np.where(np.isneginf(top), -np.inf, slopes[best])


@dataclass(frozen=True)
class AlongProfile(TradeOff):
    """The supremum of the (epsilon, delta) functions along a profile, epsilon >= 0.

    The supremum is found by golden section search. Every value belongs to a valid (epsilon,
    delta) function, so an inexact search errs towards less privacy. ``infinity_mass`` is that of
    a further (0, infinity_mass) release.
    """

    log_profile: Callable[[FloatArray], ArrayLike]
    infinity_mass: float = field(default=0.0, repr=False)

    def _miss(self, log_s: ArrayLike) -> FloatArray:
        return self._best(log_s)[0]

    def _power(self, log_a: ArrayLike) -> FloatArray:
        a = np.asarray(log_a, dtype=float)

        def rest(epsilon: FloatArray) -> FloatArray:
            tail = np.logaddexp(self._log_delta(epsilon), a) - epsilon
            # If 1 - e^-epsilon were rounded to 1, the search would find no slope.
            return np.asarray(-np.logaddexp(log1mexp(-epsilon), tail))

        greatest = np.maximum(self._least_lost(a)[0], _peak(rest, a.shape)[0])
        return np.minimum(-greatest, 0.0)

    def _slope(self, log_s: ArrayLike) -> FloatArray:
        return self._best(log_s)[1]

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the profile, for epsilon < 0 by the identity of symmetric pairs."""
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        log_delta = self._log_delta(size)
        # delta(-e) = 1 - e^-e (1 - delta(e)).
        mirrored = np.logaddexp(np.log(-np.expm1(-np.maximum(size, 1e-300))), log_delta - size)
        return np.where(epsilon < 0, np.minimum(mirrored, 0.0), log_delta)

    def _best(self, log_s: ArrayLike) -> tuple[FloatArray, FloatArray]:
        s = np.asarray(log_s, dtype=float)
        minus_lost, epsilon = self._least_lost(log1mexp(s))
        steep = _steep(-minus_lost, s)
        flat, other = _peak(lambda e: _flat(s, e, self._log_delta(e)), s.shape)
        top = np.maximum(steep, flat)
        slope = np.where(steep > flat, epsilon, -other)
        return top, np.where(np.isneginf(top), -np.inf, slope)

    def _least_lost(self, log_a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the maximum of -log(delta + e^epsilon a), and its epsilon."""
        return _peak(lambda e: -np.logaddexp(self._log_delta(e), e + log_a), log_a.shape)

    def _log_delta(self, epsilon: FloatArray) -> FloatArray:
        logs = np.asarray(self.log_profile(epsilon), dtype=float)
        if self.infinity_mass > 0:
            rest = log_rest(self.infinity_mass) + logs
            logs = np.logaddexp(math.log(self.infinity_mass), rest) + _ROUND_UP
        return np.asarray(np.minimum(logs, 0.0))


@dataclass(frozen=True)
class Tensor(TradeOff):
    """Several releases together: a lower bound through points of their composed profile.

    ``infinity_mass`` is that of a further (0, infinity_mass) release.
    """

    parts: Losses
    infinity_mass: float

    @cached_property
    def points(self) -> Points:
        """The points, computed at first use."""
        whole = Composition(self.parts)
        epsilons = np.linspace(0.0, whole.epsilon_above(_LEAST_DELTA), _POINTS)
        deltas = np.array([whole.delta_above(float(e)) for e in epsilons])
        # A delta that underflows is not 0; the sum and its logarithm are rounded up.
        deltas = np.maximum(self.infinity_mass + (1 - self.infinity_mass) * deltas, 5e-324)
        log_deltas = np.minimum(np.log(deltas) + _ROUND_UP, 0.0)
        return Points(tuple(epsilons.tolist()), tuple(log_deltas.tolist()))

    def _miss(self, log_s: ArrayLike) -> FloatArray:
        return self.points.log_miss(log_s)

    def _power(self, log_a: ArrayLike) -> FloatArray:
        return self.points.log_power(log_a)

    def _slope(self, log_s: ArrayLike) -> FloatArray:
        return self.points.log_slope(log_s)


def _steep(lost: FloatArray, log_s: FloatArray) -> FloatArray:
    """Return log(1 - delta - e^epsilon (1 - s)) from the log of the sum that is subtracted.

    For s up to 1/2 the other line is the greater one, and this returns -inf.
    """
    return np.where(log_s > LOG_HALF, log1mexp(np.minimum(lost, 0.0)), -np.inf)


def _flat(log_s: FloatArray, epsilon: FloatArray, log_delta: FloatArray) -> FloatArray:
    """Return log(e^-epsilon (s - delta)), or -inf if s < delta."""
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(log_s), 0.0, log_delta - log_s)
    return log_s + log1mexp(np.minimum(share, 0.0)) - epsilon


def _peak(
    height: Callable[[FloatArray], FloatArray], shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return the maximum over [0, 700] of a function with one peak, and its place.

    The function may be -inf to the left of some point.
    """
    low, high = np.zeros(shape), np.full(shape, _FARTHEST)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = height(left), height(right)
    best, where = _greater((height(low), low), (at_left, left), (at_right, right))
    for _ in range(_STEPS - 1):
        rises = (at_right > at_left) | np.isneginf(at_left)
        low, high = np.where(rises, left, low), np.where(rises, high, right)
        # One of the two points lies at the golden section of the rest already.
        kept, at_kept = np.where(rises, right, left), np.where(rises, at_right, at_left)
        new = np.where(rises, low + _GOLDEN * (high - low), high - _GOLDEN * (high - low))
        at_new = height(new)
        left, right = np.where(rises, kept, new), np.where(rises, new, kept)
        at_left, at_right = np.where(rises, at_kept, at_new), np.where(rises, at_new, at_kept)
        best, where = _greater((best, where), (at_new, new))
    return best, where


def _greater(*found: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the greatest of several values and its place; the first one if they are equal."""
    best, where = found[0]
    for value, place in found[1:]:
        better = value > best
        best, where = np.where(better, value, best), np.where(better, place, where)
    return best, where
