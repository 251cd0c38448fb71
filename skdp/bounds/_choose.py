"""Rules that choose bounds from noisy counts.

They use only released and public numbers, so the privacy proof does not depend on them. The
constants are those of least loss on simulated columns: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from skdp.bounds._counts import OCTAVES, Magnitudes, Steps
from skdp.trusted.arrays import FloatArray

# In standard deviations of the noise of a count: the mean count above which a cell belongs to a
# run of cells; the excess of the greatest run; the excess of other runs.
CELL, GREATEST, OTHER = 1.3, 1.0, 5.0
# A lower bound nearer to zero than this share of the upper bound becomes zero.
NEAR_ZERO = 1 / 8
# Equal steps have this many records each, in standard deviations, if records are spread evenly.
RECORDS, FEWEST, MOST = 2.0, 16, 64
# Records outside the bounds: this share of all, or as many standard deviations if that is less.
# Squared errors are greatest for targets far out, so fewer of them are left out.
OUTSIDE, OUTSIDE_TARGET, UNCLEAR = 0.01, 0.002, 2.0


def outer_bounds(counts: FloatArray, deviation: float, grid: Magnitudes) -> tuple[float, float]:
    """Return bounds between powers of two, from noisy counts by magnitude.

    On each side of zero the run of neighbouring cells with the greatest excess over ``CELL``
    standard deviations a cell is found. The greatest of the two runs and of the cell of zero is
    taken, and the others if their excess is clear. Bounds are the least that hold them.
    They are the limits if no excess is above ``GREATEST`` standard deviations, and (0, 1), or less
    if the limit is less, if all records seem to be zero. ``deviation`` is the standard deviation
    of the noise in each count.
    """
    excess = counts / deviation - CELL
    positive, negative = _run(excess[OCTAVES + 1 :]), _run(excess[OCTAVES - 1 :: -1])
    best = max(positive[0], negative[0], float(excess[OCTAVES]))
    if best <= GREATEST:
        return -grid.limit, grid.limit
    up, down, zero = (
        score == best or score > OTHER for score in (positive[0], negative[0], excess[OCTAVES])
    )
    if not (up or down):
        return 0.0, min(1.0, grid.limit)
    ends = grid.ends
    # Cell k of a side has magnitudes from ends[k] to ends[k + 1].
    upper = ends[positive[2] + 1] if up else 0.0 if zero else -ends[negative[1]]
    lower = -ends[negative[2] + 1] if down else 0.0 if zero else ends[positive[1]]
    if 0 < lower < upper * NEAR_ZERO:
        lower = 0.0
    if 0 > upper > lower * NEAR_ZERO:
        upper = 0.0
    return float(lower), float(upper)


def record_count(
    counts: Sequence[FloatArray],
    deviations: Sequence[float],
    grids: Sequence[Magnitudes],
    bounds: Sequence[tuple[float, float]],
) -> float:
    """Return an estimate of the number of records, at least 1, from counts by magnitude.

    It is the mean of the sums between the bounds of each column, with weights inverse to their
    variances.
    """
    sums, weights = [], []
    for own, deviation, grid, pair in zip(counts, deviations, grids, bounds, strict=True):
        first, last = grid.cells(np.array(pair))
        sums.append(own[first : last + 1].sum())
        weights.append(1 / ((last + 1 - first) * deviation**2))
    return max(1.0, float(np.average(sums, weights=weights)))


def step_count(n: float, deviation: float) -> int:
    """Return the number of equal steps, a power of two, for about ``n`` records."""
    steps = FEWEST
    while 2 * steps <= MOST and n / (2 * steps) >= RECORDS * deviation:
        steps *= 2
    return steps


def inner_bounds(
    counts: FloatArray, deviation: float, grid: Steps, n: float, outside: float
) -> tuple[float, float]:
    """Return narrower bounds, from noisy counts in equal steps.

    They are the ends of the shortest run of steps that seems to hold all but few of the records.
    ``n`` is the number of records with a number in the column, or an estimate, and ``outside`` the
    greatest share of them outside.
    """
    most = min(outside * n, UNCLEAR * deviation)
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    for length in range(1, grid.n):
        within = sums[length:] - sums[:-length]
        first = int(np.argmax(within))
        if n - within[first] <= most:
            return grid.end(first), grid.end(first + length)
    return grid.lower, grid.upper


def _run(excess: FloatArray) -> tuple[float, int, int]:
    """Return the greatest sum of neighbouring entries, and the first and the last of them."""
    best, start, total = (-math.inf, 0, 0), 0, 0.0
    for k, value in enumerate(excess.tolist()):
        if total <= 0:
            start, total = k, 0.0
        total += value
        best = max(best, (total, start, k))
    return best
