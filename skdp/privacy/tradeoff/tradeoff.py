"""Trade-off functions: how hard it is to tell two neighbouring data sets apart.

The trade-off function of two laws P and Q is f(alpha), the least type II error (Q is taken for
P) of any test whose type I error (P is taken for Q) is at most alpha. A release is f-private if
f is a lower bound for all neighbours (Dong, Roth & Su 2022). What is claimed here is proved in
docs/proofs/tradeoff.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_interval, check_positive, fail
from skdp.privacy._rounding import LEAST_LOG, exp_up
from skdp.privacy.losses import losses
from skdp.privacy.tradeoff.built_curves import (
    Chained,
    Greatest,
    LeakedProfile,
    Points,
    Profile,
    Repeated,
    Tensor,
)
from skdp.privacy.tradeoff.conjugate import fixed_point, upper_log_delta
from skdp.privacy.tradeoff.curves import (
    Approximate,
    Curve,
    Gaussian,
    Shifted,
    ShiftLaw,
    StandardLaplace,
    powered,
    powered_slope,
)

# Levels in both tails, at which two functions without a common closed form are compared.
_LEVELS = -np.geomspace(1e-12, 690.0, 1000)
_TOLERANCE = 1e-10
_ROUNDING = 4 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class TradeOff:
    """A trade-off function; make one with the functions of this module.

    Call it with a type I error in [0, 1], a number or an array, for the least type II error.
    ``f <= g`` says that f is the weaker promise at every level.

    Parameters
    ----------
    curve : Curve
        Its two log maps.

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

        It is the tail that is left when a tail of mass s is moved away by one shift.
        """
        return powered(self.curve, "log_miss", log_confidence, k)

    def log_power(self, log_alpha: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return log(1 - f(alpha)), from log alpha; alpha -> 1 - f is applied ``k`` times."""
        return powered(self.curve, "log_power", log_alpha, k)

    def log_slope(self, log_confidence: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        """Return the log of the derivative of s -> f(1 - s), ``k`` times applied."""
        return powered_slope(self.curve, log_confidence, k)

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse."""
        return self.curve.symmetric

    @property
    def closed(self) -> bool:
        """Whether any number of repetitions costs one evaluation."""
        return self.curve.closed

    @cached_property
    def log_fixed_point(self) -> float:
        """Log of the c with f(c) = c."""
        closed = getattr(self.curve, "log_fixed", None)
        return fixed_point(self.curve) if closed is None else float(closed)

    @property
    def fixed_point(self) -> float:
        """The c with f(c) = c; 1/2 only for the trivial f(alpha) = 1 - alpha."""
        return math.exp(self.log_fixed_point)

    @cached_property
    def central_mass(self) -> float:
        """1 - 2 c, the total variation distance of a symmetric pair; 0 for the trivial f."""
        closed = getattr(self.curve, "central_mass", None)
        return -math.expm1(math.log(2) + self.log_fixed_point) if closed is None else float(closed)

    def inverse(self) -> TradeOff:
        """Return the trade-off function of the two laws in the other order."""
        return TradeOff(self.curve.inverse())

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of an upper bound on the least delta, for epsilon of any sign.

        It is the supremum of 1 - f(alpha) - e^epsilon alpha over alpha. Where no closed form
        is known it is bracketed, and what is returned lies above it.
        """
        for found in ("log_delta", "loss"):
            known = getattr(self.curve, found, None)
            if known is not None:
                log_delta = known if found == "log_delta" else known().log_delta
                return np.asarray(log_delta(epsilon))
        return upper_log_delta(self.curve, epsilon)

    def delta_at(self, epsilon: float) -> float:
        """Return a delta with which this f gives (epsilon, delta), rounded up."""
        epsilon = check_interval("epsilon", epsilon, 0, math.inf)
        log_delta = float(self.log_delta(epsilon))
        closed = any(hasattr(self.curve, known) for known in ("log_delta", "loss"))
        # What is bracketed may leave the floats before it is 0.
        if not closed and epsilon < math.inf:
            log_delta = max(log_delta, LEAST_LOG)
        if log_delta == -math.inf:
            return 0.0
        # A log that is off by its last digit is a delta off by as much as the log is great.
        return exp_up(log_delta + _ROUNDING * (1 + abs(log_delta)))

    def loss(self) -> losses.Profile:
        """Return the privacy loss of a pair of laws with this trade-off function, or a bound."""
        known = getattr(self.curve, "loss", None)
        if known is not None:
            loss: losses.Profile = known()
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
            joined = _closed(parts[-1], "chained", other)
            parts[-1:] = [joined] if joined is not None else [parts[-1], other]
        return TradeOff(parts[0] if len(parts) == 1 else Chained(tuple(parts)))

    def group(self, k: int) -> TradeOff:
        """Return the trade-off function for data sets ``k`` steps apart: f chained k times."""
        k = check_count("k", k)
        known = _closed(self.curve, "times", k)
        return self if k == 1 else TradeOff(known or Repeated(self.curve, k))

    def tensor(self, *others: TradeOff) -> TradeOff:
        """Return the trade-off function of several independent releases together.

        Gaussian functions, and (epsilon, delta) ones of which all but one have epsilon = 0, have
        closed forms. For others it is a lower bound, through points of a certified profile.
        """
        joined: list[Curve] = [self.curve]
        for other in _curves(others):
            products = [_closed(curve, "tensor", other) for curve in joined]
            at = next((i for i, found in enumerate(products) if found is not None), None)
            if at is None:
                joined.append(other)
            else:
                joined[at] = products[at]
        return TradeOff(joined[0] if len(joined) == 1 else _tensor(joined))

    def maximum(self, *others: TradeOff) -> TradeOff:
        """Return the pointwise maximum: what holds of a release that keeps every promise."""
        return TradeOff(Greatest((self.curve, *_curves(others))))

    def envelope(self, *others: TradeOff) -> TradeOff:
        """Return the greatest trade-off function below all: what holds if one of them does."""
        parts = (self, *others)
        if not all(part.symmetric for part in parts):
            raise fail("tradeoff", "be symmetric for an envelope", parts)
        return TradeOff(Profile(_GreatestProfile(parts)))

    def dominates(self, other: TradeOff) -> bool:
        """Return whether the laws behind self are at least as easy to tell apart.

        That is self <= other at every level. Functions of one family are compared by their
        parameters, others at 2,000 levels down to 1e-300 in both tails, up to 1e-10.
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
    """The greatest of several profiles, hashable as its parts are."""

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
    """Return max(0, 1 - delta - alpha), which is (0, delta).

    Parameters
    ----------
    delta : float in [0, 1]
    """
    return approximate(0.0, delta)


def gaussian(mu: float) -> TradeOff:
    """Return the trade-off function of N(0, 1) and N(mu, 1).

    Parameters
    ----------
    mu : float in (0, inf)
    """
    return TradeOff(Gaussian(mu))


def laplace(epsilon: float) -> TradeOff:
    """Return the trade-off function of a Laplace variable of scale 1 / epsilon and shift 1.

    Parameters
    ----------
    epsilon : float in (0, inf)
    """
    return TradeOff(Shifted(StandardLaplace(), check_positive("epsilon", epsilon)))


def from_law(law: ShiftLaw, shift: float = 1.0) -> TradeOff:
    """Return F(isf(alpha) - shift): X against X + shift, X even and log-concave.

    Parameters
    ----------
    law : even, log-concave law with ``logpdf``, ``logsf`` and ``isf``
    shift : float in (0, inf), units of the law
    """
    return TradeOff(Shifted(law, shift))


def from_profile(
    profile: Callable[[FloatArray], ArrayLike] | Iterable[tuple[float, float]],
) -> TradeOff:
    """Return the greatest of the (epsilon, delta) functions along a privacy profile.

    Parameters
    ----------
    profile : callable, or pairs (epsilon, delta)
        From an array of epsilon >= 0 to log delta, of the same shape; or points of the profile.
        Points are a promise in themselves; of a callable it is taken that delta falls and is
        convex in e^epsilon, as every profile is.

    Examples
    --------
    >>> f = from_profile([(1.0, 1e-6), (0.0, 0.4)])
    >>> round(float(f(0.5)), 6)
    0.183939
    """
    if callable(profile):
        return TradeOff(Profile(profile))
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


def _closed(curve: Curve, member: str, argument: Any) -> Any:
    """Return what the curve has in closed form, or None."""
    known = getattr(curve, member, None)
    return None if known is None else known(argument)


def _tensor(curves: list[Curve]) -> Curve:
    """Return a lower bound for several releases, those of (0, delta) apart."""
    free = [c for c in curves if isinstance(c, Approximate) and c.epsilon == 0]
    leaks = [c.delta for c in free] + [c.leak for c in curves if isinstance(c, Tensor)]
    leak = -math.expm1(sum(math.log1p(-delta) for delta in leaks))
    rest = [c for c in curves if c not in free]
    if len(rest) == 1 and not isinstance(rest[0], Tensor):
        return Profile(LeakedProfile(TradeOff(rest[0]).log_delta, leak))
    parts: list[tuple[losses.Profile, int]] = []
    for curve in rest:
        parts += curve.parts if isinstance(curve, Tensor) else [(TradeOff(curve).loss(), 1)]
    return Tensor(tuple(parts), leak)
