"""Independent noise for the sums of a scaling stage: units of the sums, and changes in them.

The noise of a sum of squares is 1 / w times that of a sum of numbers. One record cannot change
both by as much as possible, so up to some w its squares cost little or nothing. Statements and
proofs: ``docs/proofs/coordinate_descent.md``, Theorem 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._standardize.column_sums import ColumnSums

Shifts = tuple[tuple[float, int], ...]

# Weights of squares: Gaussian noise if a record is replaced (at most sqrt((11 + 5 sqrt 5) / 8)) and
# with x^2 - 2/3 if it is added, and noise of any law.
REPLACED_WEIGHT, ADDED_WEIGHT, ANY_WEIGHT = math.sqrt(11 / 4), math.sqrt(3), 1.5
# Rows of a ball may be longer than 1 by this for each square root of a number.
_LONGER = 2.0**-20


@dataclass(frozen=True, eq=False)
class StageSums:
    """The sums of a scaling stage, whose noise is that of a step times public factors.

    Attributes
    ----------
    sums : ColumnSums
    units : ndarray of shape (dim,)
        The factors on the noise of the sums.
    shifts : tuple of (float, int)
        Sizes and counts. In these units the changes by one record are weakly majorised by the
        sizes or, for Gaussian noise, have at most their sum of squares. Empty if the noise of the
        sums has a guarantee of its own.
    """

    sums: ColumnSums
    units: FloatArray
    shifts: Shifts


def independent(sums: ColumnSums, gaussian: bool, in_ball: int = 0) -> StageSums:
    """Return the units and changes of sums with one square for each column.

    Parameters
    ----------
    sums : ColumnSums
        Its factor is replaced.
    gaussian : bool
        Whether the noise is Gaussian. Otherwise it may have any even log-concave law.
    in_ball : int
        The rows of the first ``in_ball`` columns have a length of at most 1.
    """
    in_ball = in_ball if in_ball > 1 else 0
    added, k, levels = sums.is_counted, len(sums.columns), len(sums.blocks)
    sums = replace(sums, factor=3 if added and not in_ball else 1)
    weights = np.ones(k)
    shifts: list[tuple[float, int]] = []
    if in_ball:
        weights[:in_ball], shifts = _in_ball(in_ball, added, gaussian)
    if k > in_ball:
        weights[in_ball:], own = _apart(added, gaussian, sums.factor)
        shifts += [(size, (k - in_ball) * count) for size, count in own]
    if levels:  # with another level one count falls and one rises
        shifts.append((1.0, levels if added else 2 * levels))
    units = np.ones(sums.dim)
    units[added + k : added + 2 * k] = sums.factor / weights
    if added:
        # The count corrects every mean and every square.
        precise = math.sqrt(math.sqrt(max(1, k) / 2))
        units[0] = 1 / precise
        shifts.append((precise, 1))
    return StageSums(sums, units, tuple(shifts))


def _apart(added: bool, gaussian: bool, factor: int) -> tuple[float, list[tuple[float, int]]]:
    """Return the weight of the square of a column in [-1, 1], and the sizes of its changes."""
    if added and factor == 1:
        return 1.0, [(math.sqrt(2), 1)] if gaussian else [(1.0, 2)]
    if gaussian:
        return (ADDED_WEIGHT, [(2 / ADDED_WEIGHT, 1)]) if added else (REPLACED_WEIGHT, [(2.0, 1)])
    if added:  # |x| <= 1 and |w x^2 - 1| <= 1, together at most w, as 2/3 w = 1
        return ANY_WEIGHT, [(1.0, 1), (ANY_WEIGHT - 1, 1)]
    return ANY_WEIGHT, [(2.0, 1), ((ANY_WEIGHT - 0.5) ** 2 / ANY_WEIGHT, 1)]


def _in_ball(k: int, added: bool, gaussian: bool) -> tuple[float, list[tuple[float, int]]]:
    """Return the weight of the squares of k columns in a ball, and the sizes of their changes."""
    longer = (1 + math.sqrt(k) * _LONGER) ** 2
    if gaussian:
        weight = k**0.25
        size = math.hypot(1, weight) if added else math.sqrt(2) * (weight + 0.5 / weight)
        return weight, [(size * longer, 1)]
    # The m greatest of k changes add up to at most 2 sqrt(m), or sqrt(m). Sizes from one power of
    # two to the next are counted as the first of them.
    weight, moved = math.sqrt(k), longer if added else 2 * longer
    starts = [2**j for j in range(k.bit_length())]
    shifts = [(moved * (math.sqrt(m) - math.sqrt(m - 1)), min(2 * m, k + 1) - m) for m in starts]
    return weight, [*shifts, (weight * longer, 1 if added else 2)]
