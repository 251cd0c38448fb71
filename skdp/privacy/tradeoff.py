"""Trade-off functions of two laws (f-DP).

The trade-off function of two laws P and Q is f(alpha), the least type II error (Q is taken for
P) of any test whose type I error (P is taken for Q) is at most alpha. A release is f-private if
f is a lower bound for all neighbours (Dong, Roth & Su 2022). Proofs: docs/proofs/tradeoff.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import ArrayLike

from skdp._search import narrowed
from skdp.privacy.curves import (
    AlongProfile,
    Approximate,
    Chained,
    Curve,
    Greatest,
    NormalShift,
    Points,
    Repeated,
    Shifted,
    StandardLaplace,
    Tensor,
    log_rest,
)
from skdp.privacy.shift import ShiftedLaw
from skdp.trusted import losses
from skdp.trusted.arrays import LEAST_LOG, FloatArray, exp_up
from skdp.trusted.checks import check_count, check_interval, check_positive, fail
from skdp.trusted.losses import LOG_HALF, log1mexp

# Levels in both tails, for the comparison of functions without a common closed form.
_LEVELS = -np.geomspace(1e-12, 690.0, 1000)
_TOLERANCE = 1e-10
_ROUNDING = 4 * float(np.finfo(float).eps)
# No float is positive below e^-745.
_LEAST = -745.0
_HALVINGS = 70
# Bound on the relative error of a power: the log maps have a few rounding errors.
_SLACK = 1e-14


@dataclass(frozen=True)
class TradeOff:
    """A trade-off function; the functions of this module make one.

    A call with a type I error in [0, 1], a number or an array, returns the least type II error.
    ``f <= g`` if f is at most g at every level, so that f is the weaker guarantee.

    Parameters
    ----------
    curve : Curve
        Its representation in logs.

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

    curve: Curve

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
        return self.curve.log_miss(log_confidence, k)

    def log_power(self, log_alpha: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log(1 - f(alpha)), from log alpha; alpha -> 1 - f is applied ``k`` times."""
        return self.curve.log_power(log_alpha, k)

    def log_slope(self, log_confidence: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return the log of the derivative of s -> f(1 - s), applied ``k`` times."""
        return self.curve.log_slope(log_confidence, k)

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse."""
        return self.curve.symmetric

    @property
    def closed(self) -> bool:
        """Whether any number of steps costs one evaluation."""
        return self.curve.closed

    @cached_property
    def log_fixed_point(self) -> float:
        """Log of the c with f(c) = c."""
        if hasattr(self.curve, "log_fixed"):
            return float(self.curve.log_fixed)
        # log f(c) - log c decreases in c.
        return narrowed(lambda x: not self.log_miss(log1mexp(x)) > x, _LEAST, LOG_HALF)[1]

    @property
    def fixed_point(self) -> float:
        """The c with f(c) = c; 1/2 only for the trivial f(alpha) = 1 - alpha."""
        return math.exp(self.log_fixed_point)

    @cached_property
    def central_mass(self) -> float:
        """1 - 2 c, the total variation distance of a symmetric pair; 0 for the trivial f."""
        if hasattr(self.curve, "central_mass"):
            return float(self.curve.central_mass)
        return -math.expm1(math.log(2) + self.log_fixed_point)

    def inverse(self) -> TradeOff:
        """Return the trade-off function of the two laws in the other order."""
        return TradeOff(self.curve.inverse())

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of an upper bound on the least delta, for epsilon of any sign.

        The least delta is the supremum of 1 - f(alpha) - e^epsilon alpha over alpha. If it has no
        closed form, the upper end of a bracket is returned.
        """
        if hasattr(self.curve, "log_delta"):
            return np.asarray(self.curve.log_delta(epsilon))
        if hasattr(self.curve, "loss"):
            return np.asarray(self.curve.loss().log_delta(epsilon))
        return _upper_log_delta(self.curve, epsilon)

    def delta_at(self, epsilon: float) -> float:
        """Return the least known delta such that f implies (epsilon, delta), rounded up."""
        epsilon = check_interval("epsilon", epsilon, 0, math.inf)
        log_delta = float(self.log_delta(epsilon))
        # A bracketed value may underflow although it is not 0.
        if not (hasattr(self.curve, "log_delta") or hasattr(self.curve, "loss")):
            log_delta = max(log_delta, LEAST_LOG) if epsilon < math.inf else log_delta
        if log_delta == -math.inf:
            return 0.0
        # An error in the last digit of a log is a relative error of delta of the size of the log.
        return exp_up(log_delta + _ROUNDING * (1 + abs(log_delta)))

    def loss(self) -> losses.Profile:
        """Return the privacy loss of a pair with this trade-off function, or an upper bound."""
        if hasattr(self.curve, "loss"):
            loss: losses.Profile = self.curve.loss()
            return loss
        if self.symmetric:
            return losses.ProfileLoss(self.log_delta)
        return losses.ProfileLoss(self.log_delta, self.inverse().log_delta)

    def chain(self, *others: TradeOff) -> TradeOff:
        """Return f(1 - g(alpha)), g the next one: the functional composition.

        It bounds one release for data sets several steps apart: if data sets A, B are g-private
        and B, C are f-private, then A, C are so. Several releases are combined by `tensor`.
        """
        parts: list[Curve] = [self.curve]
        for other in _curves(others):
            joined = parts[-1].chained(other)
            parts[-1:] = [joined] if joined is not None else [parts[-1], other]
        return TradeOff(parts[0] if len(parts) == 1 else Chained(tuple(parts)))

    def group(self, k: int) -> TradeOff:
        """Return the trade-off function for data sets ``k`` steps apart: f chained k times."""
        k = check_count("k", k)
        return self if k == 1 else TradeOff(self.curve.times(k) or Repeated(self.curve, k))

    def tensor(self, *others: TradeOff) -> TradeOff:
        """Return the trade-off function of several independent releases together.

        Gaussian functions have a closed form, and so do (epsilon, delta) functions if all but one
        have epsilon = 0. For others it is a lower bound, through points of the composed profile.
        """
        joined: list[Curve] = [self.curve]
        for other in _curves(others):
            products = ((i, c) for i, curve in enumerate(joined) if (c := curve.tensor(other)))
            at, product = next(products, (len(joined), other))
            joined[at : at + 1] = [product]
        if len(joined) == 1:
            return TradeOff(joined[0])
        # A lower bound, in which (0, delta) functions are infinity mass.
        free = [c for c in joined if isinstance(c, Approximate) and c.epsilon == 0]
        masses = [c.delta for c in free]
        masses += [c.infinity_mass for c in joined if isinstance(c, Tensor)]
        infinity_mass = -math.expm1(sum(map(log_rest, masses)))
        rest = [c for c in joined if c not in free]
        if len(rest) == 1 and not isinstance(rest[0], Tensor):
            return TradeOff(AlongProfile(TradeOff(rest[0]).log_delta, infinity_mass))
        parts: list[tuple[losses.Profile, int]] = []
        for curve in rest:
            parts += curve.parts if isinstance(curve, Tensor) else [(TradeOff(curve).loss(), 1)]
        return TradeOff(Tensor(tuple(parts), infinity_mass))

    def maximum(self, *others: TradeOff) -> TradeOff:
        """Return the pointwise maximum, for a release that is private by all functions."""
        return TradeOff(Greatest((self.curve, *_curves(others))))

    def envelope(self, *others: TradeOff) -> TradeOff:
        """Return the greatest trade-off function below all, for a release private by one."""
        parts = (self, *others)
        if not all(part.symmetric for part in parts):
            raise fail("tradeoff", "be symmetric for an envelope", parts)
        return TradeOff(AlongProfile(_GreatestProfile(parts)))

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


@dataclass(frozen=True)
class _GreatestProfile:
    """The greatest of several profiles; hashable."""

    parts: tuple[TradeOff, ...]

    def __call__(self, epsilon: ArrayLike) -> FloatArray:
        return np.asarray(reduce(np.maximum, (part.log_delta(epsilon) for part in self.parts)))


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
    return TradeOff(Approximate(epsilon, delta))


def total_variation(delta: float) -> TradeOff:
    """Return max(0, 1 - delta - alpha), the trade-off function of (0, delta).

    Parameters
    ----------
    delta : float in [0, 1]

    Examples
    --------
    >>> float(total_variation(0.25)(0.5))
    0.25
    """
    return approximate(0.0, delta)


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
    return TradeOff(NormalShift(mu))


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
    return TradeOff(Shifted(StandardLaplace(), check_positive("epsilon", epsilon)))


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
    return TradeOff(Shifted(law, shift))


def from_profile(
    profile: Callable[[FloatArray], ArrayLike] | Iterable[tuple[float, float]],
) -> TradeOff:
    """Return the greatest of the (epsilon, delta) functions along a privacy profile.

    Parameters
    ----------
    profile : callable, or pairs (epsilon, delta)
        A function of an array of epsilon >= 0 that returns log delta of the same shape, or points
        of the profile. Points may be any valid pairs. A callable must return a delta that is
        decreasing and convex in e^epsilon, as every profile is.

    Examples
    --------
    >>> f = from_profile([(1.0, 1e-6), (0.0, 0.4)])
    >>> round(float(f(0.5)), 6)
    0.183939
    """
    if callable(profile):
        return TradeOff(AlongProfile(profile))
    points = [(check_interval("epsilon", e, 0, math.inf, closed="left"), d) for e, d in profile]
    if not points:
        raise fail("profile", "have at least one point")
    deltas = [check_interval("delta", d, 0, 1) for _, d in points]
    logs = tuple(math.log(d) if d > 0 else -math.inf for d in deltas)
    return TradeOff(Points(tuple(e for e, _ in points), logs))


def _curves(others: Iterable[TradeOff]) -> list[Curve]:
    for other in others:
        if not isinstance(other, TradeOff):
            raise fail("others", "be trade-off functions", type(other))
    return [other.curve for other in others]


def _upper_log_delta(curve: Curve, epsilon: ArrayLike) -> FloatArray:
    """Return the log of an upper bound of max over a of 1 - f(a) - e^epsilon a.

    The function is concave in a, so its derivative gives the side of the maximum. Between the
    ends a < b of the last bracket it is at most 1 - f(b) - e^epsilon a.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    backwards = curve.inverse()
    low, high = np.full(epsilon.shape, -np.inf), np.zeros(epsilon.shape)
    for _ in range(_HALVINGS):
        middle = (np.maximum(low, _LEAST) + high) / 2
        power = curve.log_power(middle)
        # The power's derivative is that of an inverse function: one over the derivative.
        rises = (power < 0) & (-backwards.log_slope(power) > epsilon)
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    gain = curve.log_power(high) + _SLACK
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(low), -np.inf, epsilon + low - gain)
    return np.minimum(gain + log1mexp(np.minimum(share, 0.0)), 0.0)
