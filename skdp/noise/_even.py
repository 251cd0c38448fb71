"""scipy's names for an even log-concave law, out of a few facts about |X|.

Everything is told through the cumulative hazard H(x) = -log P(|X| > x), x >= 0. It is convex,
it keeps relative precision at the centre, where it is 0, as in the tail, and |X| is distributed
as the inverse of H at a standard exponential variable (docs/proofs/noise_laws.md, Theorem 1).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_positive
from skdp._draws import exponentials, signed
from skdp.noise.law import Size
from skdp.randomness import GRANULARITY, Lattice, RandomStateLike, granularity_of


class EvenLaw(ABC):
    """What all laws of this package share; x, near and far >= 0 in the private members."""

    # A draw differs from one of the exact law by at most so many standard deviations.
    granularity: ClassVar[float] = GRANULARITY

    @property
    @abstractmethod
    def _unit(self) -> float:
        """Return the length in which the unit variance and information are given."""

    @property
    @abstractmethod
    def _log_peak(self) -> float:
        """Return log f(0)."""

    @abstractmethod
    def _potential(self, x: FloatArray) -> FloatArray:
        """Return log f(0) - log f(x)."""

    @abstractmethod
    def _hazard(self, x: FloatArray) -> FloatArray:
        """Return -log P(|X| > x)."""

    @abstractmethod
    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        """Return the x with -log P(|X| > x) = level, for level in [0, inf)."""

    @abstractmethod
    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        """Return the potential at far less that at near; apart is far - near, not cancelled."""

    @abstractmethod
    def _unit_variance(self) -> float: ...

    @abstractmethod
    def _unit_information(self) -> float: ...

    @abstractmethod
    def entropy(self) -> float:
        """Return the differential entropy E[-log f(X)], in nats."""

    def var(self) -> float:
        """Return the variance."""
        return self._unit * self._unit * self._unit_variance()

    def std(self) -> float:
        """Return the standard deviation."""
        return self._unit * math.sqrt(self._unit_variance())

    def fisher_information(self) -> float:
        """Return the Fisher information of the location, E[((log f)'(X))^2]."""
        return self._unit_information() / self._unit / self._unit

    def support(self) -> float:
        """Return the half-width of the interval on which the density is positive."""
        return math.inf

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the natural log of the density at x."""
        with np.errstate(all="ignore"):
            return plain(self._log_peak - self._potential(np.abs(floats(x))))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the density at x."""
        with np.errstate(all="ignore"):
            return plain(np.exp(self.logpdf(x)))

    def logsf(self, x: ArrayLike) -> FloatArray:
        """Return log P(X > x)."""
        x = floats(x)
        with np.errstate(all="ignore"):
            log_tail = -math.log(2) - self._hazard(np.abs(x))
            return plain(np.where(x >= 0, log_tail, np.log1p(-np.exp(log_tail))))

    def sf(self, x: ArrayLike) -> FloatArray:
        """Return P(X > x)."""
        x = floats(x)
        with np.errstate(all="ignore"):
            tail = np.exp(-self._hazard(np.abs(x))) / 2
            return plain(np.where(x >= 0, tail, 1 - tail))

    def logcdf(self, x: ArrayLike) -> FloatArray:
        """Return log P(X <= x)."""
        return self.logsf(-floats(x))

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Return P(X <= x)."""
        return self.sf(-floats(x))

    def isf(self, q: ArrayLike) -> FloatArray:
        """Return the x with P(X > x) = q; NaN for q outside [0, 1]."""
        q = floats(q)
        with np.errstate(all="ignore"):
            # Both are exact, and so is 2 tail: digits of q - 1/2 are digits of x.
            tail = np.where(q <= 0.5, q, 1 - q)
            level = np.maximum(-np.log(2 * tail), 0.0)
            x = np.where(tail > 0, self._inverse_hazard(level), self.support())
            x = np.where((q >= 0) & (q <= 1), x, np.nan)
            return plain(np.where(q <= 0.5, x, -x))

    def ppf(self, q: ArrayLike) -> FloatArray:
        """Return the x with P(X <= x) = q; NaN for q outside [0, 1]."""
        return plain(-self.isf(q))

    def rvs(self, size: Size, rng: Generator) -> FloatArray:
        """Return independent draws of shape ``size``, one number if it is None.

        For simulations; to publish a number take ``release``.
        """
        with np.errstate(all="ignore"):
            x = self._inverse_hazard(exponentials(size, rng))
        return with_random_sign(x, rng)

    def release(self, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
        """Publish numbers, each with a draw of its own: the only way to publish with a law.

        The results lie on a lattice that does not depend on the value. Each number costs at most
        2^-34 more in epsilon than the law itself, and a delta is 1 + 2^-35 times as great
        (docs/proofs/lattice_release.md, Theorem 1). That is not proved for the staircase law, nor
        for canonical noise but Gaussian, Laplace and uniform noise, and Tulap's with delta = 0.

        Parameters
        ----------
        value : array-like of shape (k,), finite
        rng : None, int, numpy.random.Generator or numpy.random.RandomState
            None draws from ChaCha20 under a fresh key. All else is for tests.

        Returns
        -------
        ndarray of shape (k,)
        """
        count = np.size(value)
        lattice = Lattice.of(np.full(count, self.std()), granularity_of(self))
        return lattice.publish(value, lambda generator: self.rvs(count, generator), rng)

    def log_ratio(self, x: ArrayLike, shift: ArrayLike) -> FloatArray:
        """Return ``logpdf(x) - logpdf(x + shift)`` without loss of digits.

        Where both densities are 0 it continues as a monotone function of x.
        """
        x, shift = np.broadcast_arrays(floats(x), floats(shift))
        twice_middle, end = 2 * x + shift, x + shift
        near, far = np.minimum(abs(x), abs(end)), np.maximum(abs(x), abs(end))
        apart = np.minimum(abs(twice_middle), abs(shift))
        with np.errstate(all="ignore"):
            climb = np.sign(twice_middle) * np.sign(shift) * self._climb(near, far, apart)
        return plain(np.where(apart == 0, 0.0, climb))


@dataclass(frozen=True)
class ScaleLaw(EvenLaw):
    """A law that its scale says all about."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive("scale", self.scale))

    @property
    def _unit(self) -> float:
        return self.scale

    def scaled(self, s: float) -> Self:
        """Return the law of s X, for s in (0, inf)."""
        return type(self)(check_positive("s", s) * self.scale)


def floats(x: ArrayLike) -> FloatArray:
    """Return x as an array of floats."""
    return np.asarray(x, dtype=float)


def plain(x: FloatArray) -> FloatArray:
    """Return a number where a number came in, as numpy's functions do."""
    return np.asarray(x, dtype=float)[()]


def with_random_sign(x: FloatArray, rng: Generator) -> FloatArray:
    """Return x >= 0 with a sign from one more draw for each number."""
    return plain(signed(x, rng))


def crossing_at(
    reach: Callable[[FloatArray], FloatArray], shift: float, epsilon: ArrayLike
) -> FloatArray:
    """Return sup {x : log_ratio(x, shift) <= epsilon} for shift > 0.

    The ratio is odd about -shift / 2; ``reach(level)`` is how far from there it stays
    <= level, for level in [0, inf), and inf where it never exceeds level.
    """
    epsilon = floats(epsilon)
    # To the left it is the first point with a ratio >= -epsilon that counts, and not the last:
    # on a level stretch these differ, and a level one rounding lower has the first.
    level = np.where(epsilon < 0, np.nextafter(-epsilon, 0.0), epsilon)
    with np.errstate(all="ignore"):
        distance = np.where(np.isfinite(epsilon), reach(level), np.abs(epsilon))
    return plain(np.copysign(distance, epsilon) - shift / 2)
