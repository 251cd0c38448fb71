"""Tilted losses, and Chernoff's bounds for their sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp._arrays import FloatArray
from skdp.privacy.grid import Masses, multiples

# The arguments are chosen for shares of the mass down to e^-DEEP.
DEEP = 90.0
# Exponentials of numbers up to this are floats.
_LARGE = 600.0
# Arguments of Chernoff's bound for the mass beyond the window, as shares of the greatest.
_TRIES = np.geomspace(0.005, 1.0, 16)


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

    def log_moments(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logs of the means of e^(s (loss - mean)), and of e^-(s (loss - mean))."""
        exponents = np.multiply.outer(s, self.losses - self.mean)
        if max(exponents.max(), -exponents.min()) < _LARGE:
            powers = np.exp(exponents)
            return np.log(powers @ self.chances), np.log((1 / powers) @ self.chances)
        return self._log_moment(exponents), self._log_moment(-exponents)

    def _log_moment(self, exponents: FloatArray) -> FloatArray:
        exponents = exponents + self.logs
        top = exponents.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))


def tilt(masses: Masses, theta: float) -> Tilted:
    """Return the normalised masses times e^(theta loss)."""
    logs = masses.logs + theta * masses.losses
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
    def start(cls, parts: Sequence[tuple[Tilted, int]]) -> Spread:
        """Return the bounds for no loss, at values of s that suit the sum of the parts."""
        variance = sum(n * float(q.chances @ (q.losses - q.mean) ** 2) for q, n in parts)
        # At most 4 per step: a window has at least half of SPARE_STEPS beyond the mean.
        most = 4 / min(q.step for q, _ in parts)
        s = min(3 * math.sqrt(2 * DEEP / max(variance, 1e-300)), most) * _TRIES
        return cls(s, np.zeros(len(s)), np.zeros(len(s)))

    @classmethod
    def of(cls, parts: Sequence[tuple[Tilted, int]]) -> Spread:
        """Return the bounds for ``count`` losses of each kind."""
        found = cls.start(parts)
        for q, n in parts:
            found = found.plus(q, n)
        return found

    def plus(self, q: Tilted, n: int) -> Spread:
        """Return the bounds with ``n`` more losses of one kind."""
        ahead, behind = q.log_moments(self.s)
        return Spread(self.s, self.ahead + n * ahead, self.behind + n * behind)

    def widths(self, log_share: float) -> tuple[float, float]:
        """Return distances below and above the mean that hold all but a share of e^log_share."""
        below, above = (((tail - log_share) / self.s).min() for tail in (self.behind, self.ahead))
        return float(below), float(above)

    def beyond(self, below: float, above: float) -> float:
        """Return a bound on the share outside the two distances from the mean."""
        exponents = (self.behind - self.s * below).min(), (self.ahead - self.s * above).min()
        return float(np.exp(np.minimum(exponents, 0.0)).sum())
