"""Canonical noise: the law whose trade-off function for a shift of 1 is a given one.

An even law N is canonical for f if adding it to a number that changes by at most 1 is f-private,
and if for a change of 1 the optimal tests are thresholds with trade-off function f (Awan & Vadhan
2023; Awan & Dong 2022, Definition 2.2). These papers write f for our f(1 - .): the argument of
their f is one minus the type I error. Proofs: docs/proofs/canonical_noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, roots_legendre

from skdp.noise.law import EvenLaw, Law, Size
from skdp.noise.laws import Gaussian, Laplace
from skdp.noise.steps import Uniform
from skdp.privacy import curves as _curves
from skdp.privacy.tradeoff import TradeOff, approximate
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_interval, check_positive, fail
from skdp.trusted.randomness import RandomStateLike, as_generator, exponentials

_Height = Callable[[FloatArray, FloatArray], FloatArray]
_LOG_2 = math.log(2)
# Gauss-Legendre nodes and weights on 24 panels of the angle of (1 - cos) / 2. The nodes on (0, 1)
# are crowded at both ends, where the tail of a law with c close to 0 is steep.
_X, _LENGTHS = roots_legendre(8)
_ANGLE = ((np.arange(24)[:, None] + (1 + _X) / 2) * (math.pi / 24)).ravel()
_HALF = (1 - np.cos(_ANGLE)) / 2
_WEIGHTS = np.tile(_LENGTHS / 2 * (math.pi / 24), 24) * np.sin(_ANGLE) / 2
_BLOCK, _MANY_CELLS, _MOST_CELLS = 64, 2048, 100_000
# Twice the log of the least float is far above this: such a tail stands for 0.
_NOTHING = -5000.0


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
        search = _search_closed if self.tradeoff.closed else _search_stepwise
        cell, log_s = search(self.tradeoff, np.asarray(-_LOG_2 - level, dtype=float))
        with np.errstate(invalid="ignore"):
            above = np.exp(log_s) - self.tradeoff.fixed_point
            x = cell + np.clip(0.5 - above / self._central_mass, -0.5, 0.5)
        shifted = np.where(cell > 0, x, centre)
        return np.asarray(self.scale * np.where(np.isinf(cell), np.inf, shifted))

    def support(self) -> float:
        with np.errstate(all="ignore"):
            return float(self._inverse_hazard(np.asarray(np.inf)))

    def _unit_variance(self) -> float:
        # E X^2 is the integral of 4 x P(X > x): the tail has kinks where the density jumps.
        with np.errstate(all="ignore"):
            return self._integral("log_miss", lambda x, log_tail: 4 * x * np.exp(log_tail))

    def entropy(self) -> float:
        """Return the differential entropy, in nats; to about three digits if f has kinks."""

        def share(x: FloatArray, log_density: FloatArray) -> FloatArray:
            finite = np.where(np.isfinite(log_density), log_density, 0.0)
            return -finite * np.exp(log_density)

        with np.errstate(all="ignore"):
            mean = 2 * self._central_mass * self._integral("log_slope", share)
        return mean - self._log_peak

    def _folded(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the number of shifts from the central cell to x >= 0, and log S at their start."""
        x = np.where(np.isnan(x), 0.0, x / self.scale)
        # A finite number stands for infinity: no tail is left there either.
        x = np.minimum(x, 1e15)
        cell = np.ceil(x - 0.5)
        return cell, np.log(self.tradeoff.fixed_point + self._central_mass * (0.5 - (x - cell)))

    def _integral(self, member: str, height: _Height) -> float:
        """Return the integral over x > 0, for scale 1, of height(x, value), cell by cell.

        The value is the log of the tail for the member "log_miss", and the log of the density
        over its peak for "log_slope".
        """
        edge = self.support() / self.scale
        last = max(float(np.ceil(edge - 0.5)), 0.0)
        reached, total = 0.0, 0.0
        if last > 0:
            reached, total = 0.5, self._panel(member, height, 0.0, 0.5)
        for cells, values in self._whole_cells(member, last):
            new = height(cells[:, None] + _HALF - 0.5, values) @ _WEIGHTS
            reached, total = float(cells[-1]) + 0.5, total + float(new.sum())
            if new[-1] * cells[-1] <= 1e-16 * total:
                return total
        while reached < edge:
            # Beyond many cells each cell is narrow, and panels may hold several.
            end = min(edge, reached + max(1.0, reached / 4))
            part = self._panel(member, height, reached, end)
            reached, total = end, total + part
            if part <= 1e-17 * total:
                break
        return total

    def _panel(self, member: str, height: _Height, low: float, high: float) -> float:
        x = low + (high - low) * _HALF
        slopes, at = member == "log_slope", self.scale * x
        values = -self._potential(at) if slopes else -_LOG_2 - self._hazard(at)
        return float(height(x, values) @ _WEIGHTS) * (high - low)

    def _whole_cells(self, member: str, last: float) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the cells 1, 2, ... before the last, and the values at their nodes."""
        f, log_s = self.tradeoff, self._folded(self.scale * (0.5 + _HALF))[1]
        size = _BLOCK if f.closed else 1
        slope = np.zeros((1, len(_HALF)))
        for start in count(1, size):
            cells = np.arange(start, min(start + size, last))
            if not cells.size or (f.closed and start > _MANY_CELLS):
                return
            if start > _MOST_CELLS:
                raise fail("tradeoff", "have noise whose moments can be summed", f)
            if f.closed:
                yield cells, getattr(f, member)(log_s, cells[:, None])
                continue
            slope = slope + f.log_slope(log_s) if member == "log_slope" else slope
            log_s = f.log_miss(log_s)
            yield cells, slope if member == "log_slope" else log_s[None]


def _search_closed(f: TradeOff, log_q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least number of shifts by bisection: any number costs one evaluation."""

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


def _search_stepwise(f: TradeOff, log_q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least number of shifts, counted one by one."""
    cell, log_s = np.zeros(log_q.shape), log_q
    while (behind := log_s < f.log_fixed_point).any():
        raised = np.where(behind, f.log_power(log_s), log_s)
        stuck = behind & ((raised <= log_s) | (raised < _NOTHING))
        cell = np.where(stuck, np.inf, cell + behind)
        log_s = np.where(stuck, 0.0, raised)
    return cell, log_s


@dataclass(frozen=True)
class CanonicalNoise(CanonicalLaw):
    """The canonical noise of a trade-off function f that is uniform around its centre.

    Parameters
    ----------
    tradeoff : TradeOff
        f; symmetric, and not the trivial 1 - alpha.
    scale : float in (0, inf), units of the released value
        Greatest change of the value between neighbouring data sets.

    Raises
    ------
    ValueError
        If f is trivial or not symmetric.

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
        if not self.tradeoff.symmetric:
            remedy = "Take the maximum with its inverse."
            raise fail("tradeoff", "be symmetric to have canonical noise", self.tradeoff, remedy)
        if not self._central_mass > 0:
            raise fail("tradeoff", "be non-trivial (not 1 - alpha)", self.tradeoff)

    def _unit_information(self) -> float:
        remedy = "log_concave_canonical gives a smooth law where there is one."
        raise fail("law", "have a differentiable density for a Fisher information", self, remedy)


def log_concave_canonical(tradeoff: TradeOff) -> Law:
    """Return the log-concave canonical noise of a trade-off function.

    It exists if and only if f is infinitely divisible. It is then the limit for n to infinity of
    the canonical noise of the 2^n-th root of f, at scale 2^-n (Awan & Dong 2022, Theorem 3.3):
    Gaussian for Gaussian trade-off functions, Laplace for Laplace ones, uniform for (0, delta),
    and the law itself for the function of an even log-concave law.

    Parameters
    ----------
    tradeoff : TradeOff

    Returns
    -------
    Law

    Raises
    ------
    ValueError
        If there is none, because f has a kink where it is positive, as (epsilon, delta) has for
        epsilon > 0; or if none is known.

    Examples
    --------
    >>> from skdp.privacy import tradeoff
    >>> log_concave_canonical(tradeoff.gaussian(0.5))
    Gaussian(scale=2.0)
    """
    if isinstance(tradeoff, _curves.NormalShift):
        return Gaussian(1 / tradeoff.mu)
    if isinstance(tradeoff, _curves.Shifted):
        standard = isinstance(tradeoff.law, _curves.StandardLaplace)
        law: Law = Laplace() if standard else cast("Law", tradeoff.law)
        return law.scaled(1 / tradeoff.shift)
    if isinstance(tradeoff, _curves.Approximate) and tradeoff.epsilon == 0 and tradeoff.delta > 0:
        return Uniform(1 / tradeoff.delta)
    rule, where = "be infinitely divisible to have log-concave canonical noise", "Proposition 3.6"
    if isinstance(tradeoff, _curves.Approximate) and tradeoff.epsilon > 0:
        where = "Proposition 3.6" if tradeoff.delta == 0 else "Theorem 3.3; it has a kink"
    elif not isinstance(tradeoff, _curves.Points):
        rule = "come from a log-concave law, or be (0, delta), for its divisibility to be known"
        where = "Theorem 3.3"
    remedy = "Take CanonicalNoise, which every symmetric trade-off function has."
    raise fail("tradeoff", f"{rule} (Awan & Dong 2022, {where})", tradeoff, remedy)


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

    def rvs(self, size: Size = None, rng: RandomStateLike = None) -> FloatArray:
        rng = as_generator(rng)
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
        if last > 1_000_000:
            # The steps follow e^(-epsilon x) up to one part in the square of the number of cells.
            end = self.epsilon * edge
            if end < 1e-3:
                return edge**3 * (1 / 3 - end / 4 + end**2 / 10)
            return float(2 * gammainc(3, end)) / self.epsilon**3
        cells = np.arange(1.0, last)
        whole = np.exp(-self.epsilon * cells) @ (cells**2 + 1 / 12) + 1 / 24
        start = last - 0.5
        rest = (edge - start) * (edge**2 + edge * start + start**2) / 3
        return float(whole + math.exp(-self.epsilon * last) * rest) if last else edge**3 / 3
