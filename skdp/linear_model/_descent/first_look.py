"""Where the records are: a first look at the columns, and the frame that it gives.

Bounds that hold for everybody are wide, and most records lie close together. A declared share of
the budget goes to the sums and squares of the numbers, to how many records have each level and,
for a regression, to the target's sum and square. What is made of them, a centre and a scale for
each number, is public by then. Statement and proof: ``docs/proofs/coordinate_descent.md``,
Theorem 2; where the constants come from: ``docs/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.linear_model._descent.slots import Slots
from skdp.linear_model._shared.gram import GRAM_BITS, exact_sums, row_unit

# Deviations of a number that are 1 in a frame; records farther out are weighted down.
REACH = 3.0
# A number's variance in units of the domain's, where nothing was looked at; and a target's.
USUAL_SQUARE, USUAL_TARGET = 0.04, 0.2
# No deviation is taken to be less than this.
LEAST_DEVIATION = 0.01
# Prior variance of a centre; by how many deviations of its noise a mean square is taken for more,
# and a level's share: steps that are too long diverge, others lose little.
CENTRE, CAUTION = 0.25, 1.5


@dataclass(frozen=True, eq=False)
class Rows:
    """How far records may stick out: public, and known before the first look.

    Attributes
    ----------
    loudness : ndarray of shape (slots,)
        a: the noise of a slot is divided by it.
    bound : float or None
        Records are weighted down to sum_g |a_g z_g|^power <= bound, z of a frame; None where each
        slot is paid for by itself.
    reach : float
        Deviations of a number that are 1 in the frame of a first look.
    power : {1, 2}
        2 for Gaussian noise, whose squared shifts add up; 1 where delta is 0 and shifts do.
    """

    loudness: FloatArray
    bound: float | None = None
    reach: float = REACH
    power: int = 2


@dataclass(frozen=True, eq=False)
class Frame:
    """What is publicly known of the columns when the descent begins.

    Attributes
    ----------
    n : float
        The number of records, or what is known of it.
    centre, scale : ndarray of shape (numbers,)
        A number x becomes (x - centre) / scale.
    square : ndarray of shape (dim,)
        Mean square of each coordinate in the frame: an estimate, rather too large than too small,
        or a bound where nothing was looked at.
    target_centre, target_deviation : float
    looked : bool
        Whether the data was looked at.
    rows : Rows
        How long rows may be.
    """

    n: float
    centre: FloatArray
    scale: FloatArray
    square: FloatArray
    target_centre: float
    target_deviation: float
    looked: bool
    rows: Rows


def usual_square(slots: Slots) -> float:
    """Return a number's usual variance in the frame of the domain itself."""
    # The squares of a ball's numbers together are at most 1 there.
    return min(USUAL_SQUARE, 0.3 / len(slots.numbers)) if slots.domain.is_ball else USUAL_SQUARE


def plain_frame(slots: Slots, n: float, rows: Rows) -> Frame:
    """Return the frame of the domain itself: no data was looked at."""
    zeros = np.zeros(len(slots.numbers))
    # Rows of a ball were divided by a power of two.
    scale = np.full(len(zeros), float(slots.domain.radius or 1.0) / row_unit(slots.domain))
    return Frame(n, zeros, scale, np.ones(slots.dim), 0.0, math.sqrt(USUAL_TARGET), False, rows)


@dataclass(frozen=True)
class FirstLook:
    """The sums that are looked at, before the descent.

    Parameters
    ----------
    slots : Slots
    with_target : bool
        Whether to look at the target too.
    neighbors : str
    n : int or None
        The number of records; None where it is private, and counted too.
    """

    slots: Slots
    with_target: bool
    neighbors: str
    n: int | None

    @property
    def _numbers(self) -> NDArray[np.intp]:
        """Columns of (x, y) that are looked at."""
        q = self.slots.domain.n_encoded
        return np.array([*self.slots.numbers, *([q] if self.with_target else [])], dtype=np.intp)

    @property
    def shifts(self) -> tuple[tuple[float, int], ...]:
        """By how much one record moves the sums, and how many sums it moves so far."""
        k, blocks = len(self._numbers), len(self.slots.blocks)
        if self.neighbors == "replace_one":  # another level: one count falls, one rises
            found = [(2.0, k), (1.0, k + 2 * blocks)]
        else:
            found = [(1.0, 1 + 2 * k + blocks)]
        return tuple((size, count) for size, count in found if count)

    @property
    def dim(self) -> int:
        """How many sums there are."""
        return (self.n is None) + 2 * len(self._numbers) + sum(self._block_sizes)

    @property
    def _block_sizes(self) -> tuple[int, ...]:
        return self.slots.sizes[self.slots.first_block :]

    def sums(self, X: Any, target: FloatArray) -> NDArray[Any]:
        """Return the sums without noise: integers in units of 2^-40, (dim,)."""
        sums, squares, n = exact_sums(self.slots.domain, X, target)
        unit = 2**GRAM_BITS
        count = [] if self.n is not None else [n * unit]
        levels: list[Any] = []
        for block in self.slots.blocks:
            levels += [n * unit - sum(sums[block]), *sums[block]]
        numbers = self._numbers
        return np.array([*count, *sums[numbers], *squares[numbers], *levels], dtype=object)

    def frame(self, seen: FloatArray, deviation: float, rows: Rows) -> Frame:
        """Return what the noisy sums tell, with noise of that standard deviation."""
        slots, k, q = self.slots, len(self._numbers), len(self.slots.numbers)
        # Where a count is mostly noise, it is taken for as many records as the noise hides.
        n = float(self.n) if self.n is not None else max(1.0, deviation, float(seen[0]))
        noise = deviation / n
        means = seen[len(seen) - self.dim + (self.n is None) :] / n
        mean, square, levels = np.split(means, [k, 2 * k])
        shifted = np.ones(k, dtype=np.bool_)
        shifted[:q] = slots.intercept  # a number that is shifted needs one
        centre, variance, most = _spread(mean.clip(-1, 1), square.clip(0, 1), noise, shifted)
        squares = np.ones(slots.dim)
        squares[slots.number_places] = (most / variance)[:q] / rows.reach**2
        squares[slots.first_block :] = (levels.clip(0) + CAUTION * noise).clip(1 / n, 1.0)
        deviations = np.sqrt(variance)
        target = (centre[-1], deviations[-1]) if self.with_target else (0.0, 1.0)
        scale = rows.reach * deviations[:q]
        return Frame(
            n,
            centre[:q],
            scale,
            squares,
            float(target[0]),
            float(target[1]),
            True,
            rows,
        )


def _spread(
    mean: FloatArray, square: FloatArray, noise: float, shifted: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return centres, variances, and what the mean squares about the centres hardly exceed."""
    # James & Stein: what is mostly noise is no better a centre than the middle.
    centre = np.where(shifted, mean * (CENTRE / (CENTRE + noise**2)), 0.0)
    least = min(USUAL_SQUARE, max(LEAST_DEVIATION**2, noise))
    variance = (square - np.where(shifted, mean, 0.0) ** 2).clip(least, 1.0)
    about = square - 2 * centre * mean + centre**2 + CAUTION * noise
    return (
        centre,
        variance,
        np.maximum(variance, np.minimum(about, (1 + np.abs(centre)) ** 2)),
    )
