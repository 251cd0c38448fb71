"""Canonical noise in several dimensions.

A law that is symmetric about 0 is canonical for f and a norm if shifts of length at most 1 are
f-private, and if some shift of length 1 has trade-off function f and a likelihood ratio that grows
along the shift (Awan & Dong 2022, Definition 4.1). Proofs: docs/proofs/canonical_noise.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from skdp.noise.canonical import CanonicalNoise, log_concave_canonical
from skdp.noise.law import EvenLaw, Law
from skdp.noise.laws import Gaussian
from skdp.noise.steps import Uniform
from skdp.privacy.curves import Approximate, NormalShift, Shifted, StandardLaplace
from skdp.privacy.tradeoff import TradeOff, approximate, laplace, total_variation
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import LpBall, as_points
from skdp.trusted.checks import check_choice, check_count, check_interval, check_positive, fail
from skdp.trusted.randomness import Lattice, RandomStateLike, as_generator, gammas


class _Publishing(ABC):
    def rvs(self, size: int | None = None, rng: RandomStateLike = None) -> FloatArray:
        """Return draws, (size, dim), or one, (dim,), for simulations; ``release`` publishes."""
        drawn: FloatArray = self._draws(1 if size is None else size, as_generator(rng))
        return drawn[0] if size is None else drawn

    @abstractmethod
    def _draws(self, size: int, rng: Generator) -> FloatArray: ...

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return the covariance, (dim, dim)."""

    @abstractmethod
    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the log-density at x, (..., dim) to (...)."""

    def release(self, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
        """Return a point, (dim,), plus noise on a public lattice: the only way to publish.

        Each number costs at most 2^-34 more in epsilon than the law itself
        (docs/proofs/lattice_release.md, Theorem 1).
        """
        lattice = Lattice.of(np.sqrt(np.diag(self.covariance())))
        return lattice.publish(value, lambda generator: self.rvs(None, generator), rng, self)


@dataclass(frozen=True)
class IndependentCanonical(_Publishing):
    """Independent coordinates, one law for each.

    Parameters
    ----------
    laws : tuple of Law, (dim,)
    tradeoff : TradeOff
        The function for which the noise is canonical.
    norm : {"l1", "l2", "linf"}
        The norm in which the released value changes by at most 1.

    Examples
    --------
    >>> from skdp.noise import multivariate_canonical
    >>> from skdp.privacy import tradeoff
    >>> multivariate_canonical(tradeoff.gaussian(1.0), dim=2, norm="linf").laws[0]
    Gaussian(scale=1.4142135623730951)
    """

    laws: tuple[Law, ...]
    tradeoff: TradeOff
    norm: str

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.laws)

    def logpdf(self, x: ArrayLike) -> FloatArray:
        x = as_points(x, self.dim, "x")
        return np.asarray(sum(law.logpdf(x[..., j]) for j, law in enumerate(self.laws)))

    def _draws(self, size: int, rng: Generator) -> FloatArray:
        return np.stack([law.rvs(size, rng) for law in self.laws], axis=-1)

    def covariance(self) -> FloatArray:
        return np.diag([law.var() for law in self.laws])


@dataclass(frozen=True)
class LInfLaplace(_Publishing):
    """Density proportional to exp(-epsilon |x|_inf), canonical for laplace(epsilon) in l_inf.

    The mean of the greatest and the least coordinate is a Laplace variable, independent of all
    functions that a shift of all coordinates does not change (Awan & Dong 2022, Proposition 4.7).

    Parameters
    ----------
    epsilon : float in (0, inf)
    dim : int, >= 1

    Examples
    --------
    >>> from skdp.noise import LInfLaplace
    >>> LInfLaplace(1.0, dim=2).covariance().round(9).tolist()
    [[4.0, 0.0], [0.0, 4.0]]
    """

    epsilon: float
    dim: int
    norm: ClassVar[str] = "linf"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))
        object.__setattr__(self, "dim", check_count("dim", self.dim))

    @property
    def tradeoff(self) -> TradeOff:
        """The function for which the noise is canonical."""
        return laplace(self.epsilon)

    def logpdf(self, x: ArrayLike) -> FloatArray:
        log_volume = math.lgamma(self.dim + 1) + self.dim * math.log(2 / self.epsilon)
        return np.asarray(
            -self.epsilon * np.abs(as_points(x, self.dim, "x")).max(axis=-1) - log_volume
        )

    def _draws(self, size: int, rng: Generator) -> FloatArray:
        # The direction is uniform in the cube, not on its boundary: hence dim + 1 and not dim.
        radius = gammas(self.dim + 1, size, rng) / self.epsilon
        return np.asarray(radius[:, None] * rng.uniform(-1, 1, (size, self.dim)))

    def covariance(self) -> FloatArray:
        return np.eye(self.dim) * (self.dim + 1) * (self.dim + 2) / (3 * self.epsilon**2)


@dataclass(frozen=True)
class UniformBall(_Publishing):
    """Uniform law in a Euclidean ball, canonical for (0, delta) in l_2.

    Of two such balls at distance 1 a share 1 - delta is common. All shifts of length 1 are worst
    (docs/proofs/canonical_noise.md).

    Parameters
    ----------
    delta : float in (0, 1]
    dim : int, >= 1

    Examples
    --------
    >>> from skdp.noise import UniformBall
    >>> round(UniformBall(0.1, dim=1).ball.radius, 6)  # an interval of length 1 / delta
    5.0
    """

    delta: float
    dim: int
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_interval("delta", self.delta, 0, 1, "right"))
        object.__setattr__(self, "dim", check_count("dim", self.dim))

    @property
    def tradeoff(self) -> TradeOff:
        """The function for which the noise is canonical."""
        return total_variation(self.delta)

    @cached_property
    def ball(self) -> LpBall:
        """The ball."""
        square = betaincinv(0.5, (self.dim + 1) / 2, self.delta)
        # The factor covers the relative error of the inverse of an incomplete beta function.
        return LpBall(self.dim, p=2.0, radius=(1 + 1e-12) / (2 * math.sqrt(square)))

    def logpdf(self, x: ArrayLike) -> FloatArray:
        inside = self.ball.gauge(as_points(x, self.dim, "x")) <= 1
        return np.where(inside, -self.ball.log_volume(), -np.inf)

    def _draws(self, size: int, rng: Generator) -> FloatArray:
        return self.ball.sample(size, rng)

    def covariance(self) -> FloatArray:
        return self.ball.covariance()


def multivariate_canonical(
    tradeoff: TradeOff, dim: int, norm: str = "l1"
) -> IndependentCanonical | LInfLaplace | UniformBall:
    """Return canonical noise for a trade-off function in ``dim`` dimensions and a norm.

    Parameters
    ----------
    tradeoff : TradeOff
    dim : int, >= 2
    norm : {"l1", "l2", "linf"}

    Returns
    -------
    IndependentCanonical, LInfLaplace or UniformBall

    Raises
    ------
    ValueError
        If there is none, as for (epsilon, 0) (Awan & Dong 2022, Theorem 4.8), or none is known.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.noise import multivariate_canonical
    >>> from skdp.privacy import tradeoff
    >>> noise = multivariate_canonical(tradeoff.gaussian(1.0), dim=2, norm="l1")
    >>> noise.rvs(3, np.random.default_rng(0)).shape
    (3, 2)
    """
    dim, norm = check_count("dim", dim, least=2), check_choice("norm", norm, ("l1", "l2", "linf"))
    if isinstance(tradeoff, Approximate):
        if tradeoff.delta == 0:
            why = "(epsilon, 0) has no multivariate canonical noise (Awan & Dong 2022, Theorem 4.8)"
            remedy = "Take delta > 0, or a Laplace or Gaussian trade-off function."
            raise fail("delta", f"be > 0 in two or more dimensions: {why}", 0.0, remedy)
        if norm == "linf":
            # Tulap noise in the first coordinate, if epsilon > 0, and uniform noise in the others:
            # 1 - delta is the product of their 1 - delta_j (Awan & Dong 2022, Section 4.4).
            first = [CanonicalNoise(approximate(tradeoff.epsilon))] if tradeoff.epsilon > 0 else []
            count = dim - len(first)
            laws: tuple[EvenLaw, ...] = (*first, *(Uniform(_width(tradeoff.delta, count)),) * count)
            return IndependentCanonical(laws, tradeoff, norm)
        if norm == "l2" and tradeoff.epsilon == 0:
            return UniformBall(tradeoff.delta, dim)
    elif isinstance(tradeoff, NormalShift):
        # |v|_2 <= 1 in l_1 and l_2, and <= sqrt(dim) in l_inf, each reached.
        length = math.sqrt(dim) if norm == "linf" else 1.0
        return IndependentCanonical((Gaussian(length / tradeoff.mu),) * dim, tradeoff, norm)
    elif (
        norm == "linf"
        and isinstance(tradeoff, Shifted)
        and isinstance(tradeoff.law, StandardLaplace)
    ):
        return LInfLaplace(tradeoff.shift, dim)
    if norm == "l1" and not (isinstance(tradeoff, Approximate) and tradeoff.epsilon > 0):
        # Theorem 4.3.
        return IndependentCanonical((log_concave_canonical(tradeoff),) * dim, tradeoff, norm)
    known = "be Gaussian or (0, delta), or with l_1 that of a log-concave law, or with l_inf"
    rule = f"be a pair with known canonical noise ({known} Laplace or approximate)"
    raise fail("tradeoff, norm", rule, (tradeoff, norm))


def _width(delta: float, dim: int) -> float:
    """Return the width with which uniform noise in ``dim`` coordinates is (0, delta) in l_inf."""
    # The factor covers a few roundings.
    return 1.0 if delta == 1 else (1 + 1e-14) / -math.expm1(math.log1p(-delta) / dim)
