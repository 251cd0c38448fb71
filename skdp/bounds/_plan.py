"""The releases of an estimate: their shares of the budget, their guarantee, their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.bounds._asked import Asked, Data
from skdp.bounds._cells import Grid, IntArray, Magnitudes, Steps, counts
from skdp.bounds._choose import (
    MOST,
    OUTSIDE,
    OUTSIDE_TARGET,
    inner_bounds,
    outer_bounds,
    record_count,
    step_count,
)
from skdp.bounds._levels import LevelCounts
from skdp.bounds._noise import CountNoise
from skdp.privacy import Guarantee

_ASSUMED = (
    "declared bounds, levels and limits and all parameters were chosen without the data",
    "one record is one row of X with its target",
    "running time, memory and errors are not observed",
)
_SEEDED = "the noise came from random_state and not from the operating system"


@dataclass(frozen=True)
class Plan:
    """Noise for the counts of numbers and of strings; None where there are none.

    Attributes
    ----------
    limits : tuple of float
        Of the columns of numbers that are estimated.
    numbers : CountNoise or None
    strings : LevelCounts or None
    is_counted : bool
        Whether the number of records is private.
    has_target : bool
        Whether the last of the columns of numbers is the target.
    """

    limits: tuple[float, ...]
    numbers: CountNoise | None
    strings: LevelCounts | None
    is_counted: bool
    has_target: bool

    @classmethod
    def of(cls, asked: Asked, epsilon: float, delta: float, neighbors: str) -> Plan:
        """Return the plan; the budget is divided by the numbers of columns."""
        counted, levels = asked.counted, len(asked.places("levels"))
        if levels and delta == 0:
            remedy = "Give delta > 0, such as 1e-6, or list the levels."
            raise fail("delta", 'be > 0 for columns of "levels"', delta, remedy)
        weights = _weights(len(counted), asked.has_target)
        share = levels / (levels + sum(weights)) if levels else 0.0
        spent = epsilon * share
        halved = delta / 2 if counted and levels else delta
        numbers = CountNoise(epsilon - spent, halved, neighbors, weights) if counted else None
        strings = LevelCounts(spent, delta - halved or delta, neighbors, levels) if levels else None
        limits = tuple(asked.limits[k] for k in counted)
        is_counted = neighbors == "add_remove"
        plan = cls(limits, numbers, strings, is_counted, asked.has_target)
        plan.check_published()
        return plan

    def check_published(self) -> None:
        """Raise an error if 53-bit floats cannot keep the guarantee."""
        if self.numbers is not None:
            self.numbers.check_published((Magnitudes(1.0).n, MOST))
        if self.strings is not None:
            self.strings.threshold  # noqa: B018

    def guarantee(self, epsilon: float, seeded: bool) -> Guarantee | None:
        """Return the guarantee of all releases together, or None if there are none."""
        parts = [part.guarantee for part in (self.numbers, self.strings) if part is not None]
        if not parts:
            return None
        # Parts of a divided budget add up to it but for a rounding, which the noise is raised by.
        return Guarantee(
            epsilon,
            sum(part.delta for part in parts),
            neighbors=parts[0].neighbors,
            mechanism=self._description,
            assumptions=_ASSUMED,
            void_because=(_SEEDED,) if seeded else (),
            losses=parts[0].losses if len(parts) == 1 else (),
        )

    @property
    def _description(self) -> str:
        words = []
        if self.numbers is not None:
            size = len(self.limits)
            words.append(f"bounds of {size} columns from counts with {self.numbers.name} noise")
        if self.strings is not None:
            size = self.strings.columns
            words.append(f"levels of {size} columns from Laplace counts above a threshold")
        return " and ".join(words)

    def release(
        self, data: Data, rng: Generator
    ) -> tuple[list[tuple[float, float]], list[list[str]]]:
        """Draw noise and return the bounds and the levels."""
        bounds = [] if self.numbers is None else self._bounds(self.numbers, data, rng)
        levels = [] if self.strings is None else self.strings.release(data.strings, rng)
        return bounds, levels

    def _bounds(self, noise: CountNoise, data: Data, rng: Generator) -> list[tuple[float, float]]:
        limits = [Magnitudes(limit) for limit in self.limits]
        noisy, deviations = noise.release(0, _table(limits, data.numbers), rng)
        facts = zip(noisy, deviations, limits, strict=True)
        outer = [outer_bounds(*fact) for fact in facts]
        n = float(data.n)
        if self.is_counted:
            n = record_count(noisy, deviations, limits, outer)
        cells = step_count(n, noise.deviation(1))
        steps = [Steps(lower, upper, cells) for lower, upper in outer]
        noisy, deviations = noise.release(1, _table(steps, data.numbers), rng)
        outside = [OUTSIDE] * len(steps)
        if self.has_target:
            outside[-1] = OUTSIDE_TARGET
        inner = zip(noisy, deviations, steps, outside, strict=True)
        return [inner_bounds(own, spread, grid, n, most) for own, spread, grid, most in inner]


def _table(grids: Sequence[Grid], numbers: list[FloatArray]) -> IntArray:
    """Return the counts of all columns, (columns, cells)."""
    return np.array([counts(grid, own) for grid, own in zip(grids, numbers, strict=True)])


def _weights(columns: int, has_target: bool) -> tuple[int, ...]:
    """Return the weights of the columns; a target counts for several of d columns, sqrt(d)."""
    if not has_target:
        return (1,) * columns
    return (*(1,) * (columns - 1), max(1, round(math.sqrt(columns - 1))))
