"""Canonical noise: the law whose trade-off function for a shift of 1 is a given one.

An even law N is canonical for f if adding it to a number that changes by at most 1 is f-private,
and if for a change of 1 the optimal tests are thresholds with trade-off function f (Awan & Vadhan
2023; Awan & Dong 2022, Definition 2.2). These papers write f for our f(1 - .): the argument of
their f is one minus the type I error. Proofs: docs/proofs/canonical_noise.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from skdp.noise.law import EvenLaw
from skdp.privacy.tradeoff import TradeOff, approximate
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_interval, check_positive, fail

_LOG_2 = math.log(2)
# Gauss-Legendre nodes and weights on 24 panels of the angle of (1 - cos) / 2. The nodes on (0, 1)
# are crowded at both ends, where the tail of a law with c close to 0 is steep.
_X, _LENGTHS = roots_legendre(8)
_ANGLE = ((np.arange(24)[:, None] + (1 + _X) / 2) * (math.pi / 24)).ravel()
_HALF = (1 - np.cos(_ANGLE)) / 2
_WEIGHTS = np.tile(_LENGTHS / 2 * (math.pi / 24), 24) * np.sin(_ANGLE) / 2
_BLOCK, _MANY_CELLS = 64, 2048


class CanonicalLaw(EvenLaw):
    """Base class of canonical noise with parameters ``tradeoff`` and ``scale``.

    The density is constant around the centre. With c = f(c), the upper tail S falls linearly from
    1 - c at -1/2 to c at 1/2, and S(x + 1) = f(1 - S(x)) elsewhere (Awan & Dong 2022,
    Proposition 2.4).
    """

    tradeoff: Any
    scale: float
    log_concave: ClassVar[bool] = False

    @cached_property
    def _central_mass(self) -> float:  # 1 - 2 c, the probability of (-1/2, 1/2)
        return float(self.tradeoff.central_mass)

    @property
    def _log_peak(self) -> float:
        return math.log(self._central_mass) - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        cell, log_s = self._folded(x)
        return np.where(np.isnan(x), np.nan, -self.tradeoff.log_slope(log_s, cell))

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        end, start = self._potential(far), self._potential(near)
        return np.where(np.isposinf(end), np.inf, end - np.where(np.isposinf(start), 0.0, start))

    def _hazard(self, x: FloatArray) -> FloatArray:
        cell, log_s = self._folded(x)
        # In full precision for |X| <= 1/2.
        near, mass = np.minimum(x / self.scale, 0.5), self._central_mass
        left = 2 * self.tradeoff.fixed_point + mass * (1 - 2 * near)
        centre = -np.where(left > 0.5, np.log1p(-2 * mass * near), np.log(left))
        tail = -_LOG_2 - self.tradeoff.log_miss(log_s, cell)
        return np.where(np.isnan(x), np.nan, np.where(cell > 0, tail, centre))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        centre = -np.expm1(-level) / (2 * self._central_mass)
        # The least number of shifts that raise a tail to c, and the log of the result.
        cell, log_s = _raised(self.tradeoff, np.asarray(-_LOG_2 - level, dtype=float))
        with np.errstate(invalid="ignore"):
            above = np.exp(log_s) - self.tradeoff.fixed_point
            x = cell + np.clip(0.5 - above / self._central_mass, -0.5, 0.5)
        shifted = np.where(cell > 0, x, centre)
        return np.asarray(self.scale * np.where(np.isinf(cell), np.inf, shifted))

    def support(self) -> float:
        with np.errstate(all="ignore"):
            return float(self._inverse_hazard(np.asarray(np.inf)))

    def _unit_variance(self) -> float:
        # E X^2 is the integral of 4 x P(X > x), cell by cell, as the tail has kinks where the
        # density jumps.
        with np.errstate(all="ignore"):
            edge = self.support() / self.scale
            last = max(float(np.ceil(edge - 0.5)), 0.0)
            reached = 0.5 if last > 0 else 0.0
            total, log_s = self._panel(0.0, reached), self._folded(self.scale * (0.5 + _HALF))[1]
            for start in range(1, _MANY_CELLS, _BLOCK):
                cells = np.arange(start, min(start + _BLOCK, last))
                if not cells.size:
                    break
                tails = np.exp(self.tradeoff.log_miss(log_s, cells[:, None]))
                new = 4 * (cells[:, None] + _HALF - 0.5) * tails @ _WEIGHTS
                reached, total = float(cells[-1]) + 0.5, total + float(new.sum())
                if new[-1] * cells[-1] <= 1e-16 * total:
                    return total
            while reached < edge:
                # Beyond many cells each cell is narrow, and panels may hold several.
                end = min(edge, reached + max(1.0, reached / 4))
                part = self._panel(reached, end)
                reached, total = end, total + part
                if part <= 1e-17 * total:
                    break
            return total

    def _folded(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the number of shifts from the central cell to x >= 0, and log S at their start."""
        x = np.where(np.isnan(x), 0.0, x / self.scale)
        # A finite number stands for infinity: no tail is left there either.
        x = np.minimum(x, 1e15)
        cell = np.ceil(x - 0.5)
        return cell, np.log(self.tradeoff.fixed_point + self._central_mass * (0.5 - (x - cell)))

    def _panel(self, low: float, high: float) -> float:
        x = low + (high - low) * _HALF
        tails = np.exp(-_LOG_2 - self._hazard(self.scale * x))
        return float(4 * x * tails @ _WEIGHTS) * (high - low)


def _raised(f: TradeOff, log_q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least number of shifts that raise a tail to c, by bisection, and log S there."""

    def short(k: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(f.log_power(log_q, k) < f.log_fixed_point)

    low, high = np.zeros(log_q.shape), np.ones(log_q.shape)
    while (behind := short(high) & (high < 2.0**60)).any():
        low, high = np.where(behind, high, low), np.where(behind, 2 * high, high)
    endless = short(high)
    low = np.where(short(np.zeros(log_q.shape)), low, 0.0)
    high = np.where(endless, low, np.where(short(np.zeros(log_q.shape)), high, 0.0))
    while (open_ := high - low > 1).any():
        middle = np.where(open_, np.floor((low + high) / 2), high)
        behind = short(middle)
        low = np.where(open_ & behind, middle, low)
        high = np.where(open_ & ~behind, middle, high)
    return np.where(endless, np.inf, high), f.log_power(log_q, high)


@dataclass(frozen=True)
class CanonicalNoise(CanonicalLaw):
    """The canonical noise of a trade-off function f that is uniform around its centre.

    Parameters
    ----------
    tradeoff : TradeOff
        f; not the trivial 1 - alpha.
    scale : float in (0, inf), units of the released value
        Greatest change of the value between neighbouring data sets.

    Raises
    ------
    ValueError
        If f is trivial.

    Examples
    --------
    >>> from skdp.privacy import tradeoff
    >>> f = tradeoff.gaussian(1.0)
    >>> noise = CanonicalNoise(f)
    >>> round(float(noise.isf(0.05)), 4)
    1.6376
    >>> bool(abs(f(0.05) - noise.cdf(noise.isf(0.05) - 1)) < 1e-15)
    True
    """

    tradeoff: TradeOff
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.tradeoff, TradeOff):
            raise fail("tradeoff", "be a trade-off function", type(self.tradeoff))
        object.__setattr__(self, "scale", check_positive("scale", self.scale))
        if not self._central_mass > 0:
            raise fail("tradeoff", "be non-trivial (not 1 - alpha)", self.tradeoff)


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
            remedy = "Take epsilon > 0 or delta > 0."
            raise fail("epsilon", "be > 0 if delta is 0", self.epsilon, remedy)

    @cached_property
    def tradeoff(self) -> TradeOff:
        """The trade-off function of (epsilon, delta)."""
        return approximate(self.epsilon, self.delta)

    def _unit_variance(self) -> float:
        # Without delta the geometric variables have variance b / (1 - b)^2 each, b = e^-epsilon.
        if self.delta == 0:
            return 1 / 12 + 0.5 / math.sinh(self.epsilon / 2) ** 2
        return super()._unit_variance()
