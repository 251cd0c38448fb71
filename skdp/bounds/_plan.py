"""The releases of an estimate: their shares of the budget, their guarantee, their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

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
from skdp.bounds._noise import CountNoise, LevelCounts
from skdp.linear_model.validation import RECORDS, UNSEEN
from skdp.privacy import Guarantee

_PUBLIC = "declared bounds, levels and limits and all parameters were chosen without the data"
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
        Whether the number of records or persons is private.
    has_target : bool
        Whether the last of the columns of numbers is the target.
    ruled : tuple of bool
        For each column of numbers, whether it may have missing cells. Then the number of its
        other cells is private.
    """

    limits: tuple[float, ...]
    numbers: CountNoise | None
    strings: LevelCounts | None
    is_counted: bool
    has_target: bool
    ruled: tuple[bool, ...]

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
        ruled = tuple(map(asked.is_ruled, counted))
        is_counted = neighbors == "add_remove"
        plan = cls(limits, numbers, strings, is_counted, asked.has_target, ruled)
        plan.check_published()
        return plan

    def check_published(self) -> None:
        """Raise an error if 53-bit floats cannot keep the guarantee."""
        if self.numbers is not None:
            self.numbers.check_published((Magnitudes(1.0).n, MOST))
        if self.strings is not None:
            self.strings.threshold  # noqa: B018

    def guarantee(self, epsilon: float, seeded: bool, unit: str) -> Guarantee | None:
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
            assumptions=(_PUBLIC, RECORDS[unit], UNSEEN),
            void_because=(_SEEDED,) if seeded else (),
            losses=parts[0].losses if len(parts) == 1 else (),
            unit=unit,
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
        noisy, deviations = noise.release(0, _table(limits, data), rng)
        facts = zip(noisy, deviations, limits, strict=True)
        outer = [outer_bounds(*fact) for fact in facts]
        sizes = self._sizes(data.n, [list(noisy), deviations, limits, outer])
        cells = step_count(max(sizes), noise.deviation(1))
        steps = [Steps(lower, upper, cells) for lower, upper in outer]
        noisy, deviations = noise.release(1, _table(steps, data), rng)
        outside = [OUTSIDE] * len(steps)
        if self.has_target:
            outside[-1] = OUTSIDE_TARGET
        inner = zip(noisy, deviations, steps, sizes, outside, strict=True)
        return [inner_bounds(*fact) for fact in inner]

    def _sizes(self, n: int, found: Sequence[Sequence[Any]]) -> list[float]:
        """Return for each column how many records or persons have a number, or an estimate.

        Columns without missing cells have as many, which is public or estimated from all of them.
        The others are estimated one by one. Under replace-one none has more than ``n``.
        """
        sizes = [float(n)] * len(self.ruled)
        alone = [[k] for k, own in enumerate(self.ruled) if own]
        full = [k for k, own in enumerate(self.ruled) if not own]
        for places in [*alone, full] if self.is_counted and full else alone:
            own = record_count(*([facts[k] for k in places] for facts in found))
            for k in places:
                sizes[k] = own if self.is_counted else min(own, n)
        return sizes


def _table(grids: Sequence[Grid], data: Data) -> IntArray:
    """Return the counts of all columns, (columns, cells)."""
    columns = zip(grids, data.numbers, strict=True)
    return np.array([counts(grid, own, data.shares) for grid, own in columns])


def _weights(columns: int, has_target: bool) -> tuple[int, ...]:
    """Return the weights of the columns; a target counts for several of d columns, sqrt(d)."""
    if not has_target:
        return (1,) * columns
    return (*(1,) * (columns - 1), max(1, round(math.sqrt(columns - 1))))
