"""Trade-off functions built from others, from points of a profile, or from a whole profile."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp.privacy.composition import Composition
from skdp.privacy.losses import Profile as LossProfile
from skdp.privacy.curves import LOG_HALF, Curve, log1mexp

# For greater epsilon e^epsilon overflows; profiles are not evaluated there.
_FARTHEST = 700.0
_GOLDEN = (5**0.5 - 1) / 2
_STEPS = 75
# Least delta and number of points of the table of a composed profile.
_LEAST_DELTA, _POINTS = 1e-12, 32
_ROUND_UP = 1e-14


@dataclass(frozen=True)
class Repeated(Curve):
    """A trade-off function chained k times, for groups of k."""

    curve: Curve
    k: int

    @property
    def closed(self) -> bool:
        """Whether the repeated function is closed."""
        return self.curve.closed

    @property
    def symmetric(self) -> bool:
        """Whether the repeated function is symmetric."""
        return self.curve.symmetric

    def _miss(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self.curve.log_miss(log_s, self.k * np.asarray(k))

    def _power(self, log_a: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self.curve.log_power(log_a, self.k * np.asarray(k))

    def _slope(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return self.curve.log_slope(log_s, self.k * np.asarray(k))

    def inverse(self) -> Repeated:
        """Return the inverse, chained k times."""
        return Repeated(self.curve.inverse(), self.k)

    def times(self, k: int) -> Repeated:
        """Return the function for k such groups."""
        return Repeated(self.curve, self.k * k)


@dataclass(frozen=True)
class Chained(Curve):
    """Several trade-off functions chained: f(1 - g(...)), the last part innermost."""

    parts: tuple[Curve, ...]

    @property
    def symmetric(self) -> bool:
        """Whether the reversed chain of inverses is the same chain."""
        return self.inverse() == self

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
        """Return the reversed chain of inverses."""
        return Chained(tuple(part.inverse() for part in reversed(self.parts)))


@dataclass(frozen=True)
class Greatest(Curve):
    """The pointwise maximum, which holds if every part holds."""

    parts: tuple[Curve, ...]

    @property
    def symmetric(self) -> bool:
        """Whether all parts are symmetric."""
        return all(part.symmetric for part in self.parts)

    def _miss(self, log_s: ArrayLike) -> FloatArray:
        return np.asarray(np.max([part.log_miss(log_s) for part in self.parts], axis=0))

    def _power(self, log_a: ArrayLike) -> FloatArray:
        return np.asarray(np.min([part.log_power(log_a) for part in self.parts], axis=0))

    def _slope(self, log_s: ArrayLike) -> FloatArray:
        active = np.argmax([part.log_miss(log_s) for part in self.parts], axis=0)
        slopes = np.array([part.log_slope(log_s) for part in self.parts])
        return np.asarray(np.take_along_axis(slopes, active[None], axis=0)[0])

    def inverse(self) -> Greatest:
        """Return the maximum of the inverses."""
        return Greatest(tuple(part.inverse() for part in self.parts))


@dataclass(frozen=True)
class Points(Curve):
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
class Profile(Curve):
    """The supremum of the (epsilon, delta) functions along a profile, epsilon >= 0.

    The supremum is found by golden section search. Every value belongs to a valid (epsilon,
    delta) function, so an inexact search errs towards less privacy.
    """

    log_profile: Callable[[FloatArray], ArrayLike]

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
        return np.asarray(np.minimum(np.asarray(self.log_profile(epsilon), dtype=float), 0.0))


@dataclass(frozen=True)
class Tensor(Curve):
    """Several releases together: a lower bound through points of their composed profile.

    ``infinity_mass`` is that of a further (0, infinity_mass) release.
    """

    parts: tuple[tuple[LossProfile, int], ...]
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


@dataclass(frozen=True)
class ProfileWithInfinityMass:
    """The profile of a release together with a (0, infinity_mass) release."""

    log_profile: Callable[[ArrayLike], ArrayLike]
    infinity_mass: float

    def __call__(self, epsilon: ArrayLike) -> FloatArray:
        """Return log delta at epsilon."""
        mass = self.infinity_mass
        rest = math.log1p(-mass) if mass < 1 else -math.inf
        logs = np.logaddexp(math.log(mass), rest + np.asarray(self.log_profile(epsilon)))
        return np.asarray(np.minimum(logs + _ROUND_UP, 0.0))


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
