"""The interface of a one-dimensional noise law.

A law is centred and even, and its density f is log-concave. Its privacy loss for a shift v > 0,
log f(x) - log f(x + v), then grows with x.
"""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray

Size = int | tuple[int, ...] | None


@runtime_checkable
class Law(Protocol):
    """A centred, even, log-concave law on the real line, with scipy's names.

    x and q are numbers or arrays of any shape, and results have that shape. NaN gives NaN. x is
    in units of the released value.

    A law may have further members: ``pdf``, ``cdf``, ``sf``, ``logcdf``, ``ppf``, ``std()``,
    ``entropy()``, ``fisher_information()``; ``support()``, the half-width of the interval on
    which the density is positive; and ``log_ratio(x, shift)``, which is
    ``logpdf(x) - logpdf(x + shift)`` without loss of digits. All laws of this package have them.

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
