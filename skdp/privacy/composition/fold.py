"""Sums of independent losses: tilted, by the fast Fourier transform, every error in the result.

Under P the masses p of a loss are tilted to q(l) = p(l) e^(theta l) / M(theta). The q's are
convolved; delta at epsilon is then e^(K - theta epsilon) times the mean of
e^(-theta x) (1 - e^-x) over x = l - epsilon > 0, K the sum of the log M. Floating point errors are
relative to that first factor, which is delta but for a factor of moderate size, however small
delta is (docs/proofs/loss_distributions.md, Theorems 4 and 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.privacy.composition.grid import Masses, multiples

Parts = Sequence[tuple[Masses, int]]

_UNIT = np.finfo(float).eps
# A transform of n numbers is off by less than this times log2(n) of its length (Higham 2002,
# Theorem 24.2, has 7 units in the last place for each of the steps).
_TRANSFORM = 4 * _UNIT
# Frequencies of modulus below e^-_DEEP are left out, and counted as errors.
_DEEP = 90.0
# Where Chernoff's bound for the mass beyond the window is tried, as shares of the greatest.
_TRIES = np.geomspace(0.005, 1.0, 16)

# A window has at least so many steps more than the sum's law needs, one half on either side.
SPARE_STEPS = 64


@dataclass(frozen=True, eq=False)
class Sum:
    """The law of a sum of losses, tilted.

    Attributes
    ----------
    theta, log_scale : float
        The tilt, and K.
    step, first : float, int
        The grid's points are ``step`` times first, first + 1, ...
    law : array of shape (n,)
        Tilted masses; those beyond the window are wrapped into it.
    error : float
        Bound for the Euclidean length of what rounding did to ``law``.
    outside : float
        Bound for the mass beyond the window.
    log_alone : float
        Log of the mass at L = inf.
    log_margin : float
        The truth is within e^ this of the exact sum.
    nudge : float
        How far the true losses may be above, or below, these in all.
    greatest : float
        The greatest finite value of the sum.
    """

    theta: float
    log_scale: float
    step: float
    first: int
    law: FloatArray
    error: float
    outside: float
    log_alone: float
    log_margin: float
    nudge: float
    greatest: float

    def log_upper(self, epsilon: float) -> float:
        """Return a value >= log delta at epsilon."""
        return self._log_delta(epsilon - self.nudge, 1)

    def log_lower(self, epsilon: float) -> float:
        """Return a value <= log delta at epsilon."""
        return self._log_delta(epsilon + self.nudge, -1)

    def _log_delta(self, epsilon: float, sign: int) -> float:
        value, error = self._mean(epsilon)
        value += sign * error
        exponent, most = self.log_scale - self.theta * epsilon, abs(self.log_scale)
        finite = exponent + math.log(value) if value > 0 else -math.inf
        finite += sign * 8 * _UNIT * (most + self.theta * abs(epsilon))
        return float(np.logaddexp(self.log_alone, finite)) + sign * self.log_margin

    def _mean(self, epsilon: float) -> tuple[float, float]:
        """Return the mean of e^(-theta x) (1 - e^-x) over x > 0, and a bound for its error."""
        if epsilon >= self.greatest:
            return 0.0, 0.0
        start = max(math.floor(epsilon / self.step) + 1 - self.first, 0)
        if start >= len(self.law):
            return 0.0, self.outside
        x = self.step * (self.first + start) - epsilon
        slow, fast, length = _weights(self.theta, self.step, len(self.law))
        law = self.law[start:]
        whole = math.exp(-self.theta * x) * float(law @ slow[: len(law)])
        taken = math.exp(-(self.theta + 1) * x) * float(law @ fast[: len(law)])
        # An exponent t is off by t units in the last place, and t e^-t < 1.
        rounding = _UNIT * (2 * len(self.law) * (abs(whole) + abs(taken)) + 8)
        return whole - taken, rounding + self.error * length + self.outside


@lru_cache(maxsize=2)
def _weights(theta: float, step: float, size: int) -> tuple[FloatArray, FloatArray, float]:
    """Return e^(-theta x) and e^(-(theta + 1) x) at the multiples of a step, and a length.

    The length is a bound for that of e^(-theta x) (1 - e^-x), x moved by up to one step.
    """
    slow, fast = _powers(theta * step, size), _powers((theta + 1) * step, size)
    return slow, fast, _length(slow - fast * math.exp(-step))


def _powers(rate: float, size: int) -> FloatArray:
    """Return e^(-rate k), k = 0, ..., size - 1, a power of 2, from few exponentials."""
    root = 2 ** (size.bit_length() // 2)
    coarse, fine = np.arange(0, size, root), np.arange(root)
    return np.multiply.outer(np.exp(-rate * coarse), np.exp(-rate * fine)).ravel()


@dataclass(frozen=True, eq=False)
class Tilted:
    """One tilted loss: logs of probabilities at the multiples start, start + 1, ... of a step."""

    step: float
    start: int
    logs: FloatArray
    log_scale: float

    @cached_property
    def chances(self) -> FloatArray:
        """Probabilities, with sum 1."""
        return np.asarray(np.exp(self.logs))

    @property
    def losses(self) -> FloatArray:
        """The points, of the shape of ``chances``."""
        return multiples(self.step, self.start, len(self.logs))

    @cached_property
    def mean(self) -> float:
        """Mean loss."""
        return float(self.chances @ self.losses)

    def log_moment(self, s: FloatArray) -> FloatArray:
        """Return the logs of the means of e^(s (loss - mean)), of the shape of ``s``."""
        exponents = np.multiply.outer(s, self.losses - self.mean) + self.logs
        top = exponents.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))


def tilt(masses: Masses, theta: float) -> Tilted:
    """Return the masses times e^(theta loss), divided by their sum."""
    with np.errstate(divide="ignore"):
        logs = np.log(masses.masses) + theta * masses.losses
    top = float(logs.max())
    log_scale = top + math.log(float(np.exp(logs - top).sum()))
    return Tilted(masses.step, masses.first, logs - log_scale, log_scale)


@dataclass(frozen=True, eq=False)
class Spread:
    """Chernoff's bounds for a sum of tilted losses around its mean, at some s > 0 and -s."""

    s: FloatArray
    ahead: FloatArray
    behind: FloatArray

    @classmethod
    def of(cls, parts: Sequence[tuple[Tilted, int]]) -> Spread:
        """Return the bounds for ``count`` losses of each kind."""
        variance = sum(n * float(q.chances @ (q.losses - q.mean) ** 2) for q, n in parts)
        # No more than 4 a step: a window has half of SPARE_STEPS beyond the mean and more.
        most = 4 / min(q.step for q, _ in parts)
        s = min(3 * math.sqrt(2 * _DEEP / max(variance, 1e-300)), most) * _TRIES
        ahead = sum((n * q.log_moment(s) for q, n in parts), np.zeros(len(s)))
        behind = sum((n * q.log_moment(-s) for q, n in parts), np.zeros(len(s)))
        return cls(s, ahead, behind)

    def widths(self, log_share: float) -> tuple[float, float]:
        """Return how far below and above its mean the sum lies but for a share of e^log_share."""
        below, above = (((tail - log_share) / self.s).min() for tail in (self.behind, self.ahead))
        return float(below), float(above)

    def beyond(self, below: float, above: float) -> float:
        """Return a bound for the share that is not within the two distances of the mean."""
        exponents = (self.behind - self.s * below).min(), (self.ahead - self.s * above).min()
        return float(np.exp(np.minimum(exponents, 0.0)).sum())


def fold(parts: Parts, theta: float, size: int) -> Sum:
    """Return the law of the sum of ``count`` losses of each kind.

    Parameters
    ----------
    parts : sequence of (Masses, int), all of one step
    theta : float in [0, inf)
        Tilt.
    size : int, power of 2
        Length of the window, in steps.
    """
    step, tilted = parts[0][0].step, [(tilt(masses, theta), n) for masses, n in parts]
    spread = Spread.of(tilted)
    # Each loss is moved by a whole number of steps, so that the sum is near 0.
    moves = [round(q.mean / step) for q, _ in tilted]
    law, error = _power(tilted, moves, size)
    moved = sum(n * move for (_, n), move in zip(tilted, moves, strict=True))
    off = sum(n * q.mean for q, n in tilted) - step * moved
    below, above = spread.widths(-_DEEP / 2)
    left = SPARE_STEPS // 2 + round((size - SPARE_STEPS) * below / (below + above) - off / step)
    outside = spread.beyond(step * (left - 1) + off, step * (size - left - 1) - off)
    return Sum(
        theta,
        sum(n * q.log_scale for q, n in tilted),
        step,
        moved - left,
        np.roll(law, left),
        error,
        outside,
        _log_alone(parts),
        sum(n * _log_margin(m, q, theta) for (m, n), (q, _) in zip(parts, tilted, strict=True)),
        sum(n * masses.nudge for masses, n in parts),
        step * sum(n * masses.last for masses, n in parts),
    )


def _power(
    parts: Sequence[tuple[Tilted, int]], moves: Sequence[int], size: int
) -> tuple[FloatArray, float]:
    """Return the circular convolution, and a bound for the length of its error."""
    counts = [n for _, n in parts]
    found = [_transform(q, move, size) for (q, _), move in zip(parts, moves, strict=True)]
    greatest = np.zeros(size // 2 + 1)
    for (values, off), n in zip(found, counts, strict=True):
        greatest += n * np.log(np.abs(values) + off)
    kept = np.flatnonzero(greatest > -_DEEP)
    logs, turns, slack = (
        np.zeros(len(kept), dtype=complex),
        np.zeros(len(kept)),
        np.zeros(len(kept)),
    )
    for (values, off), n in zip(found, counts, strict=True):
        log = np.log(np.where(values[kept] == 0, np.finfo(float).tiny, values[kept]))
        logs += n * log
        turns += n * np.abs(log)
        slack += n * np.log1p(off * np.exp(-log.real))
    spectrum = np.zeros(size // 2 + 1, dtype=complex)
    spectrum[kept] = np.exp(logs)
    modulus = np.exp(logs.real)
    wrong = np.minimum(modulus * np.expm1(np.minimum(slack, 700.0)), np.exp(greatest[kept]))
    wrong += modulus * _UNIT * (8 + 4 * turns)
    law = np.fft.irfft(spectrum, size)
    error = math.sqrt(2 / size) * _length(wrong) + math.exp(-_DEEP)
    return law, error + _TRANSFORM * math.log2(size) * _length(law)


def _transform(tilted: Tilted, move: int, size: int) -> tuple[NDArray[np.complex128], float]:
    """Return the transform of the moved law, wrapped around, and a bound for each entry's error."""
    place = np.arange(tilted.start - move, tilted.start - move + len(tilted.logs)) % size
    wrapped = np.bincount(place, tilted.chances, size).astype(float)
    error = _TRANSFORM * math.log2(size) * math.sqrt(size) * _length(wrapped)
    return np.fft.rfft(wrapped), error


def _length(v: FloatArray) -> float:
    return float(np.linalg.norm(v))


def _log_alone(parts: Parts) -> float:
    """Return the log of the probability that some loss is infinite."""
    spared = sum(n * math.log1p(-min(masses.alone, 1.0)) for masses, n in parts if masses.alone < 1)
    if any(masses.alone >= 1 for masses, _ in parts):
        return 0.0
    return math.log(-math.expm1(spared)) if spared < 0 else -math.inf


def _log_margin(masses: Masses, tilted: Tilted, theta: float) -> float:
    """Return what the grid, and rounding in tilting, may have done to the log of one factor."""
    farthest = theta * max(abs(tilted.losses[0]), abs(tilted.losses[-1]))
    return float(masses.margin + _UNIT * (1024 + 4 * farthest + 4 * abs(tilted.log_scale)))
