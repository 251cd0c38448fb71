"""The Tulap law: truncated uniform-Laplace noise, canonical for (epsilon, delta)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.special import gammainc

from skdp._arrays import FloatArray
from skdp._checks import check_interval, check_positive, fail
from skdp._draws import exponentials
from skdp.noise.canonical.canonical import CanonicalLaw
from skdp.noise.law import Size
from skdp.privacy.tradeoff import TradeOff, approximate

_MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Tulap(CanonicalLaw):
    """U + G - H for delta = 0, truncated symmetrically for delta > 0.

    U is uniform on (-1/2, 1/2), G and H are geometric with ratio e^-epsilon (Awan & Slavkovic
    2018). It is the only canonical noise for (epsilon, 0) (Awan & Dong 2022, Proposition 3.1).
    For (epsilon, delta) it is the law that `CanonicalNoise` gives.

    Parameters
    ----------
    epsilon : float in [0, inf)
        0 is allowed if delta > 0. It gives the uniform law on (-1 / (2 delta), 1 / (2 delta)).
    delta : float in [0, 1]
    scale : float in (0, inf), units of the released value
        Greatest change of the value between neighbouring data sets.

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
                "epsilon", "be > 0 if delta is 0", self.epsilon, "Take epsilon > 0 or delta > 0."
            )

    @cached_property
    def tradeoff(self) -> TradeOff:
        """The trade-off function of (epsilon, delta)."""
        return approximate(self.epsilon, self.delta)

    def rvs(self, size: Size, rng: Generator) -> FloatArray:
        """Return independent draws of shape ``size``, or one number if it is None."""
        if self.delta > 0:
            return super().rvs(size, rng)
        # P(floor(E / epsilon) >= j) = e^-(j epsilon): geometric.
        up, down = (np.floor(exponentials(size, rng) / self.epsilon) for _ in range(2))
        return np.asarray(self.scale * (up - down + rng.random(size) - 0.5))[()]

    def _unit_variance(self) -> float:
        if self.delta == 0:
            # Geometric variables have variance b / (1 - b)^2 each, b = e^-epsilon.
            return 1 / 12 + 0.5 / math.sinh(self.epsilon / 2) ** 2
        peak = math.exp(self._log_peak) * self.scale
        return 2 * peak * self._half_square(self.support() / self.scale)

    def _half_square(self, edge: float) -> float:
        """Return the integral of x^2 times the density over its peak, from 0 to the edge."""
        last = math.ceil(edge - 0.5)
        if last > _MOST_CELLS:
            # The steps follow e^(-epsilon x) up to one part in the square of the number of cells.
            return _smooth_square(self.epsilon, edge)
        cells = np.arange(1.0, last)
        whole = np.exp(-self.epsilon * cells) @ (cells**2 + 1 / 12) + 1 / 24
        start = last - 0.5
        rest = (edge - start) * (edge**2 + edge * start + start**2) / 3
        return float(whole + math.exp(-self.epsilon * last) * rest) if last else edge**3 / 3


def _smooth_square(epsilon: float, edge: float) -> float:
    """Return the integral of x^2 e^(-epsilon x) over [0, edge]."""
    end = epsilon * edge
    if end < 1e-3:
        return edge**3 * (1 / 3 - end / 4 + end**2 / 10)
    return float(2 * gammainc(3, end)) / epsilon**3
