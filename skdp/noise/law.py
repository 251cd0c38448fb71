"""Trusted. One-dimensional noise laws: their protocol, and base classes with scipy's method names.

A law is centred and even, and its density f is log-concave. Its privacy loss for a shift v > 0,
log f(x) - log f(x + v), then grows with x.

A law of this package is given by its cumulative hazard H(x) = -log P(|X| > x), x >= 0. H is
convex, and it has full relative precision at the centre and in the tail. |X| is distributed as the
inverse of H at a standard exponential variable (docs/proofs/noise_laws.md, Theorem 1).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self, cast, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_interval, check_positive
from skdp.trusted.randomness import (
    GRANULARITY,
    Lattice,
    RandomStateLike,
    as_generator,
    exponentials,
    granularity_of,
    signed,
)

Size = int | tuple[int, ...] | None


@runtime_checkable
class Law(Protocol):
    """A centred, even, log-concave law on the real line, with scipy's names.

    x and q are numbers or arrays of any shape, and results have that shape. NaN gives NaN. x is
    in units of the released value.

    A law may have further members: ``pdf``, ``cdf``, ``sf``, ``ppf``, ``std()``; ``support()``,
    the half-width of the interval on which the density is positive; and ``log_ratio(x, shift)``,
    which is ``logpdf(x) - logpdf(x + shift)`` without loss of digits. All laws of this package
    have them.

    A law must not change, and its ``==`` and ``hash`` must compare all that decides its results,
    because calibrations are cached. A frozen dataclass of numbers is such a class.

    Examples
    --------
    >>> from skdp.noise import Laplace
    >>> from skdp.noise.law import Law
    >>> law: Law = Laplace(scale=2.0)
    >>> float(law.logsf(0.0).round(6))  # half of the mass is above 0
    -0.693147
    >>> float(law.isf(0.25).round(6))
    1.386294
    """

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the natural log of the density at x."""

    def logsf(self, x: ArrayLike) -> FloatArray:
        """Return log P(X > x), with full relative precision in the tail."""

    def isf(self, q: ArrayLike) -> FloatArray:
        """Return the x with P(X > x) = q, for q in [0, 1]."""

    def rvs(self, size: Size, rng: Generator) -> FloatArray:
        """Return independent draws of shape ``size``, from the bits of ``rng`` alone."""

    def var(self) -> float:
        """Return the variance."""

    def scaled(self, s: float) -> Self:
        """Return the law of s X, for s in (0, inf)."""


# The greatest ratio of an offset to a scale.
_FAR = 1e150


class EvenLaw(Law):
    """Base class of the laws of this package: a frozen dataclass of numbers.

    In private members x, near and far are >= 0.
    """

    # Whether the density is log-concave, which calibration and the loss of a shift rely on.
    log_concave: ClassVar[bool] = True
    # Greatest distance of a draw from a draw of the exact law, in standard deviations.
    granularity: ClassVar[float] = GRANULARITY
    # Parameters in units of the released value. The last one is the unit of private members.
    _lengths: ClassVar[tuple[str, ...]] = ("scale",)

    @property
    def _unit(self) -> float:
        return float(getattr(self, self._lengths[-1]))

    @property
    def _half_mass(self) -> float:
        """Return the integral of exp(-potential) over x > 0, in units."""
        return 1.0

    @property
    def _log_peak(self) -> float:
        """Return log f(0)."""
        return -math.log(2) - math.log(self._half_mass) - math.log(self._unit)

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
        """Return the potential at far minus that at near; apart is far - near, without rounding."""

    @abstractmethod
    def _unit_variance(self) -> float: ...

    def var(self) -> float:
        return self._unit * self._unit * self._unit_variance()

    def std(self) -> float:
        """Return the standard deviation."""
        return self._unit * math.sqrt(self._unit_variance())

    def support(self) -> float:
        """Return the half-width of the interval on which the density is positive."""
        return math.inf

    def logpdf(self, x: ArrayLike) -> FloatArray:
        with np.errstate(all="ignore"):
            return plain(self._log_peak - self._potential(np.abs(floats(x))))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the density at x."""
        with np.errstate(all="ignore"):
            return plain(np.exp(self.logpdf(x)))

    def logsf(self, x: ArrayLike) -> FloatArray:
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

    def rvs(self, size: Size = None, rng: RandomStateLike = None) -> FloatArray:
        """Return independent draws of shape ``size``, or one number if it is None.

        Draws are for simulations. Use ``release`` to publish a number.
        """
        rng = as_generator(rng)
        with np.errstate(all="ignore"):
            x = self._inverse_hazard(exponentials(size, rng))
        return plain(signed(x, rng))

    def release(self, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
        """Return numbers plus independent noise, on a public lattice.

        This is the only way to publish numbers with a law. The lattice does not depend on the
        value. Each number costs at most 2^-34 more in epsilon than the law itself, and delta is
        at most 1 + 2^-35 times as great (docs/proofs/lattice_release.md, Theorem 1). This is not
        proved for the staircase law. Of canonical noise it is proved only for Gaussian, Laplace
        and uniform noise, and for the Tulap law with delta = 0.

        Parameters
        ----------
        value : array-like of shape (k,), finite
        rng : None, int, numpy.random.Generator or numpy.random.RandomState
            None draws from ChaCha20 with a fresh key. All other values are for tests.

        Returns
        -------
        ndarray of shape (k,)
        """
        count = np.size(value)
        lattice = Lattice.of(np.full(count, self.std()), granularity_of(self))
        return lattice.publish(value, lambda generator: self.rvs(count, generator), rng, self)

    def scaled(self, s: float) -> Self:
        s = check_positive("s", s)
        lengths = {name: s * getattr(self, name) for name in self._lengths}
        law = cast("Any", self)
        if "__dataclass_fields__" in vars(type(self)):
            return cast("Self", replace(law, **lengths))
        # A subclass may have a constructor of its own for the same numbers.
        return type(self)(*[lengths.get(f.name, getattr(self, f.name)) for f in fields(law)])

    def log_ratio(self, x: ArrayLike, shift: ArrayLike) -> FloatArray:
        """Return ``logpdf(x) - logpdf(x + shift)`` without loss of digits.

        If both densities are 0, the value continues the function monotonically.
        """
        x, shift = np.broadcast_arrays(floats(x), floats(shift))
        twice_middle, end = 2 * x + shift, x + shift
        near, far = np.minimum(abs(x), abs(end)), np.maximum(abs(x), abs(end))
        apart = np.minimum(abs(twice_middle), abs(shift))
        with np.errstate(all="ignore"):
            climb = np.sign(twice_middle) * np.sign(shift) * self._climb(near, far, apart)
        return plain(np.where(apart == 0, 0.0, climb))


class CrossingLaw(EvenLaw):
    """Base class of laws whose log-ratio has an inverse in closed form."""

    @abstractmethod
    def _distance(self, level: FloatArray, shift: float) -> FloatArray:
        """Return the greatest distance from -shift / 2 at which the log-ratio is at most a level.

        Levels are in [0, inf). The distance is inf if the log-ratio never exceeds the level.
        """

    def crossing(self, shift: float, epsilon: ArrayLike) -> FloatArray:
        """Return sup {x : log_ratio(x, shift) <= epsilon} for shift > 0."""
        epsilon = floats(epsilon)
        # The ratio is odd about -shift / 2. On the left the first point with a ratio >= -epsilon
        # is needed, not the last. They differ where the ratio is constant; a level that is one
        # rounding lower gives the first.
        level = np.where(epsilon < 0, np.nextafter(-epsilon, 0.0), epsilon)
        with np.errstate(all="ignore"):
            near = self._distance(level, shift)
            distance = np.where(np.isfinite(epsilon), near, np.abs(epsilon))
        return plain(np.copysign(distance, epsilon) - shift / 2)


@dataclass(frozen=True)
class ScaleLaw(CrossingLaw):
    """Base class of laws whose only parameter is a scale."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive("scale", self.scale))


def floats(x: ArrayLike) -> FloatArray:
    return np.asarray(x, dtype=float)


def plain(x: FloatArray) -> FloatArray:
    """Return an array of no dimension as a number, as numpy's functions do."""
    return np.asarray(x, dtype=float)[()]


def check_offset(law: object, offset: str, scale: str) -> None:
    """Check and set two parameters, an offset >= 0 and a scale > 0, of a law near Laplace's."""
    b = check_positive(scale, getattr(law, scale))
    a = check_interval(offset, getattr(law, offset), 0.0, math.inf, "left")
    if not a / b <= _FAR:
        remedy = f"Take Laplace({scale}**2 / {offset}), which is equal in every digit."
        check_interval(f"{offset} / {scale}", a / b, 0.0, _FAR, remedy=remedy)
    object.__setattr__(law, offset, a)
    object.__setattr__(law, scale, b)
