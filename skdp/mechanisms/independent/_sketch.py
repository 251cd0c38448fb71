"""A sketch of a composition: its delta to three digits, in about a millisecond, without a bound.

Sketches choose the shape of a law, the start of a search and the grid of a certified bound. Only
the certified bound decides about privacy (``docs/proofs/repeated_releases.md``, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp, roots_legendre

from skdp._arrays import FloatArray
from skdp._identity import remembered
from skdp.mechanisms.independent._worst_shift import Shift
from skdp.privacy.composition.plan import Extent
from skdp.privacy.losses.shift import log_ratio

_NODES, _LENGTHS = roots_legendre(8)
# The line is cut at 0, at half a shift, and into this many pieces of one length beyond; the first
# of these is halved repeatedly, as the slope of a log-density may change fast there.
_PIECES, _HALVINGS, _MOST_INNER = 32, 12, 64
# The probability beyond the last node, and outside a grid, is this much less than delta in logs.
_SPARE = 32.0
# Points of the transform, and its half-width in standard deviations.
_SIZE, _DEVIATIONS = 4096, 9.0
_NEGLIGIBLE, _DEEP = 1e-10, -40.0
# Accuracy of log theta; near the best theta the result hardly depends on it.
_NEAR, _MOST_STEPS = 0.03, 30
# Least mass of an atom that the grid should meet, and a loss above epsilon that counts as inf.
_ATOM, _MOST = 0.02, 700.0
_ALL = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class Nodes:
    """The loss of one release as a law on finitely many points, under P.

    Attributes
    ----------
    losses, logs : array of shape (n,)
        Points, and logs of masses.
    infinity_mass : float
    """

    losses: FloatArray
    logs: FloatArray
    infinity_mass: float

    @classmethod
    def of(cls, law: Any, shift: float, log_least: float, most: float) -> Nodes:
        """Return the loss of a law and a shift.

        Tails below e^log_least are left out, and losses above ``most`` count as infinite.
        """
        far, end = _ends(law, log_least)
        u, lengths = _quadrature(shift / 2, far, end)
        x = np.concatenate([-u[::-1], u]) - shift / 2
        with np.errstate(all="ignore"):
            logs = np.asarray(law.logpdf(x)) + np.log(np.concatenate([lengths[::-1], lengths]))
            losses = log_ratio(law, x, shift)
            infinity = math.exp(float(law.logsf(end - shift))) if math.isfinite(end) else 0.0
            beyond = losses >= most
            infinity += float(np.exp(logs[beyond & np.isfinite(logs)]).sum())
        kept = (np.abs(losses) < most) & np.isfinite(logs)
        if infinity > _ALL or not kept.any():  # the laws have almost nothing in common
            return cls(np.zeros(1), np.array([-math.inf]), 1.0)
        # With a count of 10^5 an error of the quadrature in the total would show in delta.
        excess = _log_total(logs[kept]) - math.log1p(-infinity)
        return cls(losses[kept], logs[kept] - excess, infinity)

    def log_moment(self, theta: float) -> float:
        """Return log E e^(theta L) over the finite L."""
        return _log_total(self.logs + theta * self.losses)

    def extent(self, log_least: float) -> Extent:
        """Return the loss, twice, at which its tail falls below e^log_least, and its atom."""
        tails = np.logaddexp.accumulate(self.logs[::-1])[::-1]
        above = float(self.losses[tails > log_least].max(initial=self.losses.min()))
        return above, above, self._atom()

    def _atom(self) -> float:
        """Return the positive loss that several nodes share with the greatest mass, or 0."""
        unit = 1e-13 * float(np.abs(self.losses).max())
        starts = np.flatnonzero(np.diff(self.losses, prepend=-math.inf) > unit)
        masses = np.add.reduceat(np.exp(self.logs), starts)
        masses[(np.diff(starts, append=len(self.losses)) < 2) | (self.losses[starts] <= 0)] = 0
        place = int(np.argmax(masses))
        return float(self.losses[starts[place]]) if masses[place] > _ATOM else 0.0


Tilted = list[tuple[Nodes, float, FloatArray, int]]


@dataclass(frozen=True)
class Sketch:
    """Releases with noise of one law and scale 1 / x, at an epsilon.

    Attributes
    ----------
    law : Law
    shifts : tuple of (float, int)
    x : float
    epsilon, delta : float
        Target; only the magnitude of delta matters.
    """

    law: Any
    shifts: Shift
    x: float
    epsilon: float
    delta: float

    @cached_property
    def log_least(self) -> float:
        """Log of a probability that is negligible next to delta."""
        return math.log(self.delta) - _SPARE - math.log(sum(n for _, n in self.shifts))

    @cached_property
    def nodes(self) -> list[tuple[Nodes, int]]:
        """The loss of each kind of release, and how many there are."""
        most = self.epsilon + _MOST
        return [
            (Nodes.of(self.law, size * self.x, self.log_least, most), n) for size, n in self.shifts
        ]

    @cached_property
    def _farthest(self) -> float:
        return sum(n * float(nodes.losses.max()) for nodes, n in self.nodes)

    @cached_property
    def theta(self) -> float:
        """Chernoff parameter of about the least bound on delta, by Newton's method in its log."""
        log_theta = math.log(self._first_guess())
        if self._farthest <= self.epsilon:  # nothing finite counts
            return math.exp(log_theta)
        low, high = -math.inf, math.inf
        for _ in range(_MOST_STEPS):
            excess, slope = self._excess_of_mean(math.exp(log_theta))
            low, high = (log_theta, high) if excess < 0 else (low, log_theta)
            step = max(min(-excess / slope, 2.0), -2.0)
            found = abs(step) < _NEAR
            if not found and not low < log_theta + step < high:
                step = (low + high) / 2 - log_theta
            log_theta += step
            if found:
                break
        return math.exp(log_theta)

    def _excess_of_mean(self, theta: float) -> tuple[float, float]:
        """Return the derivative of the log of the Chernoff bound, and its slope in log theta."""
        tilted = self._tilted_by(theta)
        mean = sum(n * m for _, m, _, n in tilted)
        excess = mean - self.epsilon + math.log(theta) - math.log1p(theta)
        return excess, theta * self._variance_of(tilted) + 1 / (1 + theta)

    def _first_guess(self) -> float:
        """Return the Chernoff parameter of a normal loss of the same variance."""
        variance = sum(n * float(np.exp(nodes.logs) @ nodes.losses**2) for nodes, n in self.nodes)
        return max(self.epsilon / max(variance, 1e-300) - 0.5, 1 / (1 + math.sqrt(variance)))

    @property
    def is_singular(self) -> bool:
        """Whether the infinity mass of one release is 1, to the accuracy of the sketch."""
        return any(nodes.infinity_mass > _ALL for nodes, _ in self.nodes)

    @cached_property
    def log_delta(self) -> float:
        """About the log of delta."""
        if self.is_singular:
            return 0.0
        infinity = -sum(n * math.log1p(-nodes.infinity_mass) for nodes, n in self.nodes)
        finite = self._mean_excess()
        logs = [math.log(-math.expm1(-infinity)) if infinity > 0 else -math.inf]
        if finite > 0:
            logs.append(self._log_moment(self.theta) - self.theta * self.epsilon + math.log(finite))
        return min(float(np.logaddexp.reduce(logs)), 0.0)

    @property
    def width(self) -> float:
        """Length of an interval outside of which the tilted sum has mass e^-36, by Chernoff."""
        s = np.sqrt(72 / self._variance) * np.geomspace(0.02, 2.0, 12)
        total = np.zeros((2, len(s)))
        for nodes, mean, chances, n in self._tilted:
            rises = np.multiply.outer(np.stack([s, -s]), nodes.losses - mean)
            with np.errstate(divide="ignore"):
                total += n * logsumexp(rises + np.log(chances), axis=-1)
        return float(((total + 36) / s).min(axis=1).sum())

    def extents(self) -> list[Extent]:
        """Return the extent of the loss of each kind of release, and its atom."""
        return [nodes.extent(self.log_least) for nodes, _ in self.nodes]

    def _log_moment(self, theta: float) -> float:
        return sum(n * nodes.log_moment(theta) for nodes, n in self.nodes)

    def _tilted_by(self, theta: float) -> Tilted:
        """Return each loss with its mean and probabilities after tilting by theta."""
        found = []
        for nodes, n in self.nodes:
            logs = nodes.logs + theta * nodes.losses
            chances = np.exp(logs - _log_total(logs))
            found.append((nodes, float(chances @ nodes.losses), chances, n))
        return found

    @cached_property
    def _tilted(self) -> Tilted:
        return self._tilted_by(self.theta)

    @staticmethod
    def _variance_of(tilted: Tilted) -> float:
        found = sum(n * float(q @ (nodes.losses - m) ** 2) for nodes, m, q, n in tilted)
        return max(found, 1e-300)

    @property
    def _variance(self) -> float:
        return self._variance_of(self._tilted)

    def _mean_excess(self) -> float:
        """Return the mean of e^(-theta x) (1 - e^-x) over x = L - epsilon > 0, L tilted."""
        if self._farthest <= self.epsilon:
            return 0.0
        spans = (float(np.ptp(nodes.losses[q > _NEGLIGIBLE])) for nodes, _, q, _ in self._tilted)
        width = 2 * (_DEVIATIONS * math.sqrt(self._variance) + max(spans))
        # All of the tilted mass may be at one point.
        step = max(width / _SIZE, _NEGLIGIBLE * self._farthest)
        moves = [round(mean / step) for _, mean, _, _ in self._tilted]
        moved = sum(n * move for move, (_, n) in zip(moves, self.nodes, strict=True))
        law = _folded(
            [
                (_binned(nodes.losses / step - move, chances), n)
                for move, (nodes, _, chances, n) in zip(moves, self._tilted, strict=True)
            ]
        )
        middle = round(sum(n * mean for _, mean, _, n in self._tilted) / step) - moved
        k = middle + np.arange(-_SIZE // 2, _SIZE // 2)
        x = step * (k + moved) - self.epsilon
        law, x = law[k % _SIZE][x > 0], x[x > 0]
        return float(law @ (np.exp(-self.theta * x) * -np.expm1(-x)))


@remembered(maxsize=64)
def _ends(law: Any, log_least: float) -> tuple[float, float]:
    """Return the quantile at e^log_least, and the end of the law."""
    far, end = (float(law.isf(q)) for q in (math.exp(max(log_least, -690.0)), 0.0))
    return far, end


def _folded(laws: Sequence[tuple[FloatArray, int]]) -> FloatArray:
    """Return the convolution of laws on the circle, each with its count."""
    transforms = [(np.fft.rfft(law), n) for law, n in laws]
    logs = sum(n * np.log(np.maximum(np.abs(values), 1e-300)) for values, n in transforms)
    kept = np.flatnonzero(logs > _DEEP)
    spectrum = np.zeros(_SIZE // 2 + 1, dtype=complex)
    spectrum[kept] = np.prod([values[kept] ** n for values, n in transforms], axis=0)
    return np.asarray(np.fft.irfft(spectrum, _SIZE))


def _log_total(logs: FloatArray) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _quadrature(half: float, far: float, end: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes u > 0 and their weights, as far as both u - half and u + half occur."""
    top = min(far + half, end - half)
    rest = max(top - half, 0.0)
    count = min(max(4, math.ceil(half / max(far / _PIECES, 1e-300))), _MOST_INNER)
    edges = np.linspace(0, min(half, top), count + 1)
    if rest > 0:
        near = np.ldexp(1 / _PIECES, np.arange(-_HALVINGS, 0))
        shares = np.concatenate([near, np.arange(1, _PIECES + 1) / _PIECES])
        edges = np.concatenate([edges, half + rest * shares])
    lengths = np.diff(edges)[:, None]
    return (edges[:-1, None] + lengths * (1 + _NODES) / 2).ravel(), (lengths * _LENGTHS / 2).ravel()


def _binned(places: FloatArray, chances: FloatArray) -> FloatArray:
    """Return the law on a circle of integers; each point is spread over three of them.

    This keeps the variance. Over the two nearest integers it would grow, by far with 10^5 releases.
    """
    nearest = np.rint(places)
    off, at = places - nearest, nearest.astype(int)
    law = np.zeros(_SIZE)
    for k, share in ((-1, (off * off - off) / 2), (0, 1 - off * off), (1, (off * off + off) / 2)):
        law += np.bincount((at + k) % _SIZE, chances * share, _SIZE)
    return law
