"""Levels of columns of strings: those whose noisy count is above a threshold.

Statements and proofs: ``docs/proofs/estimated_bounds.md``, Theorem 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from skdp.bounds._asked import NOTHING
from skdp.bounds._noise import CHANGED
from skdp.geometry import LpBall
from skdp.mechanisms import KNorm, KNormNoise, Sensitivity
from skdp.mechanisms.noise import publication
from skdp.noise import Laplace
from skdp.privacy import Guarantee


@dataclass(frozen=True)
class LevelCounts:
    """A release of the frequent strings of some columns.

    Parameters
    ----------
    epsilon : float > 0
    delta : float in (0, 1)
    neighbors : {"replace_one", "add_remove"}
    columns : int >= 1
        Number of columns.
    """

    epsilon: float
    delta: float
    neighbors: str
    columns: int

    @property
    def noise(self) -> KNormNoise:
        """Laplace noise of the counts that one record changes."""
        changed = CHANGED[self.neighbors] * self.columns
        moved = Sensitivity(LpBall(changed, p=1), float(changed), self.neighbors)
        return KNorm("l1").calibrate(moved, epsilon=self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the release, without assumptions."""
        return Guarantee(self.epsilon, self.delta, self.neighbors)

    @property
    def threshold(self) -> float:
        """Least noisy count of a released level."""
        # The greatest probability of a count of 0 above the threshold.
        log_most = math.log(self.delta / self.columns) - float(np.logaddexp(0.0, self.epsilon))
        scale = self.noise.scale * publication(self.noise).stretch
        return scale * (math.log(2) - log_most)

    def release(self, found: Sequence[Counter[str]], rng: Generator) -> list[list[str]]:
        """Return the levels of each column, the most frequent first."""
        noise, least = self.noise, self.threshold
        return [self._column(counted, noise, least, rng) for counted in found]

    def _column(
        self, counted: Counter[str], noise: KNormNoise, least: float, rng: Generator
    ) -> list[str]:
        names = sorted(counted)
        times = max(1, -(-len(names) // noise.dim))
        exact = [counted[name] for name in names] + [0] * (times * noise.dim - len(names))
        lattice, stretch = publication(noise)
        draws = stretch * Laplace(noise.scale).rvs(len(exact), rng)
        noisy = lattice.repeated(times).release(exact, 0, draws, rng)
        # The last counts stand for no string.
        pairs = zip(noisy.tolist(), names, strict=False)
        kept = sorted((-count, name) for count, name in pairs if count > least)
        return [name for _, name in kept] or [NOTHING]
