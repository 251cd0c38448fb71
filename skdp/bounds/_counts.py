"""Trusted. Counts of records in public cells, and their noise: the theorems of estimated bounds.

A number is in exactly one cell of a grid, whatever its value is and whatever other records are. So
one record adds 1 to one count of each column, or nothing where it has no number. A person with
several rows adds the mean of what its rows add. Statements and proofs:
``docs/proofs/estimated_bounds.md``; frequent strings, which become levels: Theorem 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.geometry import LpBall
from skdp.mechanisms import GaussianNoise, KNorm, KNormNoise, Sensitivity
from skdp.mechanisms.knorm import gaussian_scale
from skdp.noise import Laplace
from skdp.rows.persons import WHOLE_BITS
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.losses import PairLoss
from skdp.trusted.noise import Publication, publication, release_integers
from skdp.trusted.randomness import publish
from skdp.trusted.statement import Public, Spent, records_changed, up

IntArray = NDArray[np.int64]
# The one level of a column in which no level is frequent enough.
NOTHING = "other"
# Numbers below limit * 2^-OCTAVES count as zero.
OCTAVES = 40
# Shares of the budget of the first and of the second release.
SHARES = (0.65, 0.35)


@dataclass(frozen=True)
class Magnitudes:
    """A cell around zero, and on each side cells between powers of two up to a limit.

    The cells of positive numbers are open at the lower and closed at the upper end, and those of
    negative numbers are their mirror images. The outermost cells have all numbers beyond.
    """

    limit: float

    @property
    def n(self) -> int:
        return 2 * OCTAVES + 1

    @cached_property
    def ends(self) -> FloatArray:
        """Greatest magnitude of zero and of the cells of each side, (OCTAVES + 1,), increasing."""
        top = math.ceil(math.log2(self.limit))
        return np.append(np.ldexp(1.0, np.arange(top - OCTAVES, top)), self.limit)

    def cells(self, values: FloatArray) -> NDArray[np.intp]:
        octave = np.minimum(np.searchsorted(self.ends, np.abs(values)), OCTAVES)
        return np.asarray(np.where(values < 0, -octave, octave) + OCTAVES)


@dataclass(frozen=True)
class Steps:
    """Cells of equal width between two bounds; the outer ones have all numbers beyond."""

    lower: float
    upper: float
    n: int

    def end(self, k: int) -> float:
        return self.upper if k == self.n else self.lower + k * ((self.upper - self.lower) / self.n)

    def cells(self, values: FloatArray) -> NDArray[np.intp]:
        return np.searchsorted([self.end(k) for k in range(1, self.n)], values)


def counts(grid: Magnitudes | Steps, values: FloatArray, shares: IntArray) -> IntArray:
    """Return the exact sum of shares in each cell, (n,); NaN, a missing number, is in none."""
    found = np.zeros(grid.n, np.int64)
    np.add.at(found, grid.cells(values), np.where(np.isnan(values), 0, shares))
    return found


@dataclass(frozen=True)
class CountNoise:
    """Laplace or Gaussian noise for two releases of counts of weighted columns.

    Epsilon and delta are the budget of both releases together. With delta > 0 the noise of the
    lesser variance is taken. Counts of each column are multiplied by its weight, a whole number,
    before noise is added.
    """

    epsilon: float
    delta: float
    neighbors: str
    weights: tuple[int, ...]

    @property
    def _sum(self) -> float:
        """Greatest l_1 norm of a change of all weighted counts."""
        return records_changed(self.neighbors) * float(sum(self.weights))

    @property
    def _length(self) -> float:
        """Greatest l_2 norm of such a change."""
        return math.sqrt(records_changed(self.neighbors) * sum(w * w for w in self.weights))

    @property
    def is_gaussian(self) -> bool:
        if self.delta == 0:
            return False
        gaussian = self._length * gaussian_scale(self.epsilon, self.delta) * math.hypot(*SHARES)
        return gaussian < math.sqrt(2) * self._sum / self.epsilon

    def releases(self, cells: Sequence[int]) -> tuple[NoisySum, ...]:
        return tuple(self.count_release(stage, own) for stage, own in enumerate(cells))

    def count_release(self, stage: int, cells: int) -> NoisySum:
        name, noise = ("outer counts", "inner counts")[stage], self.noise(stage, cells)
        # A record changes one or two counts of each column by its weight.
        ball, size = (LpBall(noise.dim, p=1), self._sum)
        if self.is_gaussian:
            ball, size = LpBall(noise.dim), self._length
        change = Sensitivity(ball, size, self.neighbors)
        return NoisySum(name, change, noise, "estimated_bounds.md, Theorem 1")

    def deviation(self, stage: int) -> float:
        if self.is_gaussian:
            # The squares of the shifts, in standard deviations, add up to that of the budget.
            whole = 1 / gaussian_scale(self.epsilon, self.delta)
            return self._length / (whole * SHARES[stage] / math.hypot(*SHARES) / ROUND_UP)
        return math.sqrt(2) * self._sum / (SHARES[stage] * self.epsilon)

    def noise(self, stage: int, cells: int) -> KNormNoise | GaussianNoise:
        dim = cells * len(self.weights)
        if self.is_gaussian:
            return GaussianNoise(dim, self.deviation(stage) * ROUND_UP)
        # The shares add up to epsilon but for a rounding, which K-norm noise is raised by.
        moved = Sensitivity(LpBall(dim, p=1), self._sum, self.neighbors)
        return KNorm("l1").calibrate(moved, epsilon=SHARES[stage] * self.epsilon)

    def release(
        self, stage: int, counts: IntArray, rng: Generator
    ) -> tuple[FloatArray, list[float]]:
        """Return noisy counts, (columns, cells), and the standard deviation of each column.

        Exact counts are in parts of a record or a person: 2^WHOLE_BITS is one.
        """
        # Python's integers do not overflow.
        weights = np.array(self.weights, object)[:, None]
        exact = (counts.astype(object) * weights).ravel().tolist()
        release = self.count_release(stage, counts.shape[1])
        released = release_integers(release, exact, -WHOLE_BITS, rng).reshape(counts.shape)
        deviations = [self.deviation(stage) / weight for weight in self.weights]
        return released / weights.astype(float), deviations


@dataclass(frozen=True)
class LevelCounts:
    """A release of the frequent strings of so many columns, with delta > 0."""

    epsilon: float
    delta: float
    neighbors: str
    columns: int
    name: ClassVar[str] = "levels"
    theorem: ClassVar[str] = "estimated_bounds.md, Theorem 2"

    @property
    def description(self) -> str:
        return f"levels of {self.columns} columns from Laplace counts above a threshold"

    @property
    def publication(self) -> Publication:
        return publication(self.noise)

    @property
    def noise(self) -> KNormNoise:
        """Laplace noise of the counts that one record changes."""
        changed = records_changed(self.neighbors) * self.columns
        moved = Sensitivity(LpBall(changed, p=1), float(changed), self.neighbors)
        return KNorm("l1").calibrate(moved, epsilon=self.epsilon)

    @property
    def threshold(self) -> float:
        """Least noisy count of a released level."""
        # The greatest probability of a count of 0 above the threshold.
        log_most = math.log(self.delta / self.columns) - float(np.logaddexp(0.0, self.epsilon))
        scale = self.noise.scale * publication(self.noise).stretch
        return scale * (math.log(2) - log_most) * ROUND_UP

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss: epsilon of the counts, and delta of strings of one record.

        A count of 0 exceeds the threshold T with a probability of at most 2 e^(-T / (s b)) for
        noise of scale b and stretch s. In each column at most one count is 0 for one data set only.
        """
        changed = records_changed(public.relation) * self.columns
        epsilon = up(changed / self.noise.scale)
        reach = self.noise.scale * publication(self.noise).stretch
        delta = up(2 * math.exp(-self.threshold / reach) * self.columns * (1 + math.exp(epsilon)))
        return Spent(math.inf, ((PairLoss(epsilon, min(delta, 1.0)), 1),))

    def release(self, found: Sequence[Counter[str]], rng: Generator) -> list[list[str]]:
        """Return the levels of each column, the most frequent first."""
        return [self._released(counted, rng) for counted in found]

    def _released(self, counted: Counter[str], rng: Generator) -> list[str]:
        noise, least, names = self.noise, self.threshold, sorted(counted)
        times = max(1, -(-len(names) // noise.dim))
        exact = [counted[name] for name in names] + [0] * (times * noise.dim - len(names))
        lattice, stretch = publication(noise)

        def draw(generator: Generator) -> list[tuple[float, str]]:
            draws = stretch * Laplace(noise.scale).rvs(len(exact), generator)
            noisy = lattice.repeated(times).release(exact, 0, draws, generator).tolist()
            pairs = zip(noisy, names, strict=False)  # the last counts stand for no string
            return sorted((-count, name) for count, name in pairs if count > least)

        kept = publish(self, dict(counted), draw, rng, scale=stretch)
        return [name for _, name in kept] or [NOTHING]
