"""Trade-off functions built from others, from points of a profile, or from a whole profile."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp.privacy.composition.composition import Composition
from skdp.privacy.losses.losses import Profile as LossProfile
from skdp.privacy.tradeoff.curves import (
    LOG_HALF,
    Curve,
    log1mexp,
    powered,
    powered_slope,
)

# Beyond this e^epsilon is no float; a profile is looked at no further out.
_FARTHEST = 700.0
_GOLDEN = (5**0.5 - 1) / 2
_STEPS = 75
# How far down the certified profile of several releases is tabulated, and at how many points.
_LEAST_DELTA, _POINTS = 1e-12, 32
_ROUND_UP = 1e-14


@dataclass(frozen=True)
class Repeated:
    """The k-fold functional composition of one trade-off function: a group of k."""

    curve: Curve
    k: int

    @property
    def closed(self) -> bool:
        """Whether any number of repetitions is one evaluation."""
        return self.curve.closed

    @property
    def symmetric(self) -> bool:
        """Whether the repeated one is."""
        return self.curve.symmetric

    def log_miss(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return powered(self.curve, "log_miss", log_s, self.k * np.asarray(k))

    def log_power(self, log_a: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return powered(self.curve, "log_power", log_a, self.k * np.asarray(k))

    def log_slope(self, log_s: ArrayLike, k: ArrayLike = 1) -> FloatArray:
        return powered_slope(self.curve, log_s, self.k * np.asarray(k))

    def inverse(self) -> Repeated:
        return Repeated(self.curve.inverse(), self.k)

    def times(self, k: int) -> Repeated:
        """Return the group of k groups."""
        return Repeated(self.curve, self.k * k)


@dataclass(frozen=True)
class Chained:
    """f(1 - g(...)) of several trade-off functions, the last one first."""

    parts: tuple[Curve, ...]
    closed: ClassVar[bool] = False

    @property
    def symmetric(self) -> bool:
        """Whether it reads the same backwards; others may be symmetric unseen."""
        return self.inverse() == self

    def log_miss(self, log_s: ArrayLike) -> FloatArray:
        for part in reversed(self.parts):
            log_s = part.log_miss(log_s)
        return np.asarray(log_s)

    def log_power(self, log_a: ArrayLike) -> FloatArray:
        for part in reversed(self.parts):
            log_a = part.log_power(log_a)
        return np.asarray(log_a)

    def log_slope(self, log_s: ArrayLike) -> FloatArray:
        total = np.zeros(np.shape(log_s))
        for part in reversed(self.parts):
            total, log_s = total + part.log_slope(log_s), part.log_miss(log_s)
        return total

    def inverse(self) -> Chained:
        return Chained(tuple(part.inverse() for part in reversed(self.parts)))


@dataclass(frozen=True)
class Greatest:
    """The pointwise maximum: what holds if every part does."""

    parts: tuple[Curve, ...]
    closed: ClassVar[bool] = False

    @property
    def symmetric(self) -> bool:
        """Whether all parts are."""
        return all(part.symmetric for part in self.parts)

    def log_miss(self, log_s: ArrayLike) -> FloatArray:
        return np.asarray(np.max([part.log_miss(log_s) for part in self.parts], axis=0))

    def log_power(self, log_a: ArrayLike) -> FloatArray:
        return np.asarray(np.min([part.log_power(log_a) for part in self.parts], axis=0))

    def log_slope(self, log_s: ArrayLike) -> FloatArray:
        active = np.argmax([part.log_miss(log_s) for part in self.parts], axis=0)
        slopes = np.array([part.log_slope(log_s) for part in self.parts])
        return np.asarray(np.take_along_axis(slopes, active[None], axis=0)[0])

    def inverse(self) -> Greatest:
        return Greatest(tuple(part.inverse() for part in self.parts))


@dataclass(frozen=True)
class Points:
    """The greatest of the (epsilon, delta) functions at finitely many points."""

    epsilons: tuple[float, ...]
    log_deltas: tuple[float, ...]
    closed: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True

    def log_miss(self, log_s: ArrayLike) -> FloatArray:
        return self._lines(log_s)[0]

    def log_power(self, log_a: ArrayLike) -> FloatArray:
        epsilon, log_delta = np.array(self.epsilons), np.array(self.log_deltas)
        a = np.asarray(log_a, dtype=float)[..., None]
        steep = np.logaddexp(log_delta, a + epsilon)
        with np.errstate(divide="ignore"):
            flat = np.logaddexp(np.log(-np.expm1(-epsilon)), np.logaddexp(log_delta, a) - epsilon)
        return np.asarray(np.minimum(np.minimum(steep, flat).min(axis=-1), 0.0))

    def log_slope(self, log_s: ArrayLike) -> FloatArray:
        return self._lines(log_s)[1]

    def inverse(self) -> Points:
        return self

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
class Profile:
    """The supremum of the (epsilon, delta) functions along a profile, epsilon >= 0.

    The supremum is looked for by golden sections. Every value that is met is one of a valid
    (epsilon, delta) function, so an inexact search errs towards less privacy.
    """

    log_profile: Callable[[FloatArray], ArrayLike]
    closed: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True

    def log_miss(self, log_s: ArrayLike) -> FloatArray:
        return self._best(log_s)[0]

    def log_power(self, log_a: ArrayLike) -> FloatArray:
        a = np.asarray(log_a, dtype=float)

        def rest(epsilon: FloatArray) -> FloatArray:
            tail = np.logaddexp(self._log_delta(epsilon), a) - epsilon
            # Where 1 - e^-epsilon is rounded to 1 the search would no longer see a slope.
            return np.asarray(-np.logaddexp(log1mexp(-epsilon), tail))

        greatest = np.maximum(self._least_lost(a)[0], _peak(rest, a.shape)[0])
        return np.minimum(-greatest, 0.0)

    def log_slope(self, log_s: ArrayLike) -> FloatArray:
        return self._best(log_s)[1]

    def inverse(self) -> Profile:
        return self

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the profile itself; the identity of symmetric pairs serves epsilon < 0."""
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
        """Return the greatest -log(delta + e^epsilon a), and its epsilon."""
        return _peak(lambda e: -np.logaddexp(self._log_delta(e), e + log_a), log_a.shape)

    def _log_delta(self, epsilon: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(np.asarray(self.log_profile(epsilon), dtype=float), 0.0))


@dataclass(frozen=True)
class Tensor:
    """Several releases together: a lower bound through points of their certified profile.

    With probability ``leak`` everything is told, as by a (0, leak) release.
    """

    parts: tuple[tuple[LossProfile, int], ...]
    leak: float
    closed: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True

    @cached_property
    def points(self) -> Points:
        """The points, found when they are first asked for."""
        whole = Composition(self.parts)
        epsilons = np.linspace(0.0, whole.epsilon_at(_LEAST_DELTA).upper, _POINTS)
        deltas = np.array([whole.delta_at(float(e)).upper for e in epsilons])
        # A delta that underflows is not 0; the sum and its logarithm are rounded up.
        deltas = np.maximum(self.leak + (1 - self.leak) * deltas, 5e-324)
        log_deltas = np.minimum(np.log(deltas) + _ROUND_UP, 0.0)
        return Points(tuple(epsilons.tolist()), tuple(log_deltas.tolist()))

    def log_miss(self, log_s: ArrayLike) -> FloatArray:
        return self.points.log_miss(log_s)

    def log_power(self, log_a: ArrayLike) -> FloatArray:
        return self.points.log_power(log_a)

    def log_slope(self, log_s: ArrayLike) -> FloatArray:
        return self.points.log_slope(log_s)

    def inverse(self) -> Tensor:
        return self


@dataclass(frozen=True)
class LeakedProfile:
    """The profile of a release that, with probability ``leak``, tells everything besides."""

    log_profile: Callable[[ArrayLike], ArrayLike]
    leak: float

    def __call__(self, epsilon: ArrayLike) -> FloatArray:
        kept = math.log1p(-self.leak) if self.leak < 1 else -math.inf
        logs = np.logaddexp(math.log(self.leak), kept + np.asarray(self.log_profile(epsilon)))
        return np.asarray(np.minimum(logs + _ROUND_UP, 0.0))


def _steep(lost: FloatArray, log_s: FloatArray) -> FloatArray:
    """Return log(1 - delta - e^epsilon (1 - s)) from the log of what is subtracted.

    Up to s = 1/2 the other line is the greater one, and its digits are not to be drowned.
    """
    return np.where(log_s > LOG_HALF, log1mexp(np.minimum(lost, 0.0)), -np.inf)


def _flat(log_s: FloatArray, epsilon: FloatArray, log_delta: FloatArray) -> FloatArray:
    """Return log(e^-epsilon (s - delta)), -inf where that is negative."""
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(log_s), 0.0, log_delta - log_s)
    return log_s + log1mexp(np.minimum(share, 0.0)) - epsilon


def _peak(
    height: Callable[[FloatArray], FloatArray], shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return the greatest height over [0, 700] of a function with one peak, and where it is.

    It may be -inf to the left of some point.
    """
    low, high = np.zeros(shape), np.full(shape, _FARTHEST)
    best, where = height(low), low
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = height(left), height(right)
        rises = (at_right > at_left) | np.isneginf(at_left)
        low, high = np.where(rises, left, low), np.where(rises, high, right)
        for found, place in ((at_left, left), (at_right, right)):
            better = found > best
            best, where = np.where(better, found, best), np.where(better, place, where)
    return best, where
