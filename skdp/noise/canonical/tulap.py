"""The Tulap law: truncated uniform-Laplace noise, canonical for (epsilon, delta)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.random import Generator
from scipy.special import gammainc

from skdp._arrays import FloatArray
from skdp._checks import check_interval, check_positive, fail
from skdp._draws import exponentials
from skdp.noise._even import EvenLaw
from skdp.noise.canonical.canonical import CanonicalNoise
from skdp.noise.law import Size
from skdp.privacy import tradeoff

_MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Tulap(EvenLaw):
    """U + G - H for delta = 0, truncated symmetrically for delta > 0.

    U is uniform on (-1/2, 1/2), G and H are geometric with ratio e^-epsilon (Awan & Slavkovic
    2018). It is the only canonical noise for (epsilon, 0) (Awan & Dong 2022, Proposition 3.1),
    and the one of `CanonicalNoise` for (epsilon, delta).

    Parameters
    ----------
    epsilon : float in [0, inf)
        0 only with delta > 0: the uniform law on (-1 / (2 delta), 1 / (2 delta)).
    delta : float in [0, 1]
    scale : float in (0, inf), units of the released value
        The most by which the value moves between neighbours.

    Examples
    --------
    >>> round(Tulap(1.0).var(), 4)
    1.9247
    >>> round(Tulap(1.0, 1e-3).support(), 4)
    6.7025
    """

    epsilon: float
    delta: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, top, closed in (("epsilon", math.inf, "left"), ("delta", 1, "both")):
            value = check_interval(name, getattr(self, name), 0, top, closed)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "scale", check_positive("scale", self.scale))
        if self.epsilon == self.delta == 0:
            raise fail(
                "epsilon", "be > 0 if delta is 0", self.epsilon, "No noise hides everything."
            )

    @cached_property
    def canonical(self) -> CanonicalNoise:
        """The same law, as canonical noise."""
        return CanonicalNoise(tradeoff.approximate(self.epsilon, self.delta), self.scale)

    @property
    def _unit(self) -> float:
        return self.scale

    @property
    def _log_peak(self) -> float:
        return self.canonical._log_peak

    def _potential(self, x: FloatArray) -> FloatArray:
        return self.canonical._potential(x)

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return self.canonical._climb(near, far, apart)

    def _hazard(self, x: FloatArray) -> FloatArray:
        return self.canonical._hazard(x)

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        return self.canonical._inverse_hazard(level)

    def rvs(self, size: Size, rng: Generator) -> FloatArray:
        """Return independent draws of shape ``size``; one number if it is None."""
        if self.delta > 0:
            return super().rvs(size, rng)
        # P(floor(E / epsilon) >= j) = e^-(j epsilon): geometric.
        up, down = (np.floor(exponentials(size, rng) / self.epsilon) for _ in range(2))
        return np.asarray(self.scale * (up - down + rng.random(size) - 0.5))[()]

    def support(self) -> float:
        """Return the half-width of the interval on which the density is positive."""
        return self.canonical.support()

    def _unit_variance(self) -> float:
        if self.delta == 0:
            # Geometric variables have variance b / (1 - b)^2 each, b = e^-epsilon.
            return 1 / 12 + 0.5 / math.sinh(self.epsilon / 2) ** 2
        peak = math.exp(self.canonical._log_peak) * self.scale
        return 2 * peak * self._half_square(self.support() / self.scale)

    def _half_square(self, edge: float) -> float:
        """Return the integral of x^2 times the density over its peak, from 0 to the edge."""
        last = math.ceil(edge - 0.5)
        if last > _MOST_CELLS:
            # The steps follow e^(-epsilon x), a cell's mass being that times this ratio; what is
            # left of the error is one part in the square of the number of cells.
            return _smooth_square(self.epsilon, edge)
        cells = np.arange(1.0, last)
        whole = np.exp(-self.epsilon * cells) @ (cells**2 + 1 / 12) + 1 / 24
        start = last - 0.5
        rest = (edge - start) * (edge**2 + edge * start + start**2) / 3
        return float(whole + math.exp(-self.epsilon * last) * rest) if last else edge**3 / 3

    def entropy(self) -> float:
        """Return the differential entropy."""
        return self.canonical.entropy()

    def _unit_information(self) -> float:
        return math.inf  # a density that jumps has no finite one

    def scaled(self, s: float) -> Self:
        """Return the law of s X, for s in (0, inf)."""
        return type(self)(self.epsilon, self.delta, check_positive("s", s) * self.scale)


def _smooth_square(epsilon: float, edge: float) -> float:
    """Return the integral of x^2 e^(-epsilon x) over [0, edge]."""
    reach = epsilon * edge
    if reach < 1e-3:
        return edge**3 * (1 / 3 - reach / 4 + reach**2 / 10)
    return float(2 * gammainc(3, reach)) / epsilon**3
