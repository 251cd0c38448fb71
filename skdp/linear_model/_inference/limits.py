"""The numbers of records with a value at a bound of the domain.

A value beyond a bound is clipped to it. Then coefficients are those of clipped values, and no
interval contains the difference. So the stage releases how many records have a number, and how many
have a target, at a bound after the encoding. It sees encoded rows only, in which a value beyond a
bound and one that is the bound are the same. A lower bound of 0 is not counted: values such as
counts and amounts often are 0, and are not changed by this bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.domain.layout import number_units
from skdp.geometry import LpBall
from skdp.linear_model._shared.gram import GRAM_BITS, exact_sum, release_exact
from skdp.linear_model._shared.task import Task
from skdp.mechanisms import KNorm, KNormNoise, Sensitivity
from skdp.mechanisms.noise import variances
from skdp.rows import Block, Rows

NUMBERS, TARGET = "a number at or beyond a bound of its column", "a target at or beyond a bound"
# By kind, the encoded values at and below which a row is counted; all are counted from 1 on.
Ends = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Limits:
    """The release of the counts; public information only.

    Attributes
    ----------
    noise : KNormNoise
    ends : dict
        For `NUMBERS`, `TARGET` or both, the lower ends that are counted.
    """

    noise: KNormNoise
    ends: Ends

    @classmethod
    def plan(cls, task: Task, is_regression: bool, epsilon: float) -> Limits | None:
        """Return the calibrated release, or None if there is nothing to count."""
        domain, ends = task.design.domain, {}
        # Rows of a ball are bounded in length, not in each column.
        if domain.n_numbers and not domain.is_ball:
            half, centre = number_units(domain)
            ends[NUMBERS] = np.where(centre == half, -math.inf, -1.0)
        if is_regression:
            low = (domain.target_bounds or (-1.0, 1.0))[0]
            ends[TARGET] = np.array([-math.inf if low == 0 else -1.0])
        if not ends:
            return None
        # A replaced record changes each count by at most 1, too.
        moved = Sensitivity(LpBall(len(ends), p=math.inf), 1.0, task.neighbors)
        return cls(KNorm().calibrate(moved, epsilon=epsilon), ends)

    def release(self, rows: Rows, n: float, rng: Generator) -> str:
        """Release the counts, and return a sentence on their shares of n records."""
        found = release_exact(self.noise, exact_sum(rows, AtBounds(self.ends)), rng)
        error = 2 * math.sqrt(float(variances(self.noise)[0]))
        ends = 100 * np.clip([(found - error) / n, (found + error) / n], 0.0, 1.0)
        facts = zip(*ends, self.ends, strict=True)
        parts = [f"{low:.1f} to {high:.1f} % have {what}" for low, high, what in facts]
        return (
            f"Of the records, {' and '.join(parts)} (two standard deviations of the noise;"
            " a lower bound of 0 is not counted)."
            " Values beyond a bound were clipped to it. If they are many, the coefficients are"
            " others than those without bounds, and the intervals do not contain the difference."
        )


@dataclass(frozen=True, eq=False)
class AtBounds:
    """The numbers of rows with a value at a bound, in units of 2^-40."""

    ends: Ends

    def __call__(self, block: Block) -> NDArray[Any]:
        """Return the counts of a block."""
        values = {NUMBERS: block.numbers, TARGET: block.target[:, None]}
        found = [
            ((values[what] <= low) | (values[what] >= 1.0)).any(axis=1).sum()
            for what, low in self.ends.items()
        ]
        return np.asarray(np.array(found, dtype=np.int64) * 2**GRAM_BITS)
