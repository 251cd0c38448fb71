"""Trusted. What one record can change in the sums of a scaling stage with independent noise.

Every sum has noise of one law times a public unit. In these units a number x changes the sum of x
by a |x - x'| and that of its square by b |x^2 - x'^2|, with a and b the inverses of the units. If a
record is added, they change by a |x| and |b x^2 - c|, where c is the multiple of the count that the
released sum leaves out. `sizes_of` returns sizes that weakly majorise all changes together, or for
Gaussian noise sizes whose sum of squares bounds their squared length.

Statement and proof: docs/proofs/coordinate_descent.md, Theorem 2.
"""

from __future__ import annotations

import math

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._standardize.stage import ColumnSums, Shifts
from skdp.mechanisms.sensitivity import ROUND_UP

# Rows of a ball may be longer than 1 by this for each square root of a number.
_LONGER = 2.0**-20


def sizes_of(sums: ColumnSums, units: FloatArray, gaussian: bool, in_ball: int = 0) -> Shifts:
    """Return sizes and counts that bound the changes by one record, in units of the noise.

    Parameters
    ----------
    sums : ColumnSums
        With one square for each column.
    units : ndarray of shape (dim,), > 0
        The factors on the noise of the sums.
    gaussian : bool
        Whether the noise is Gaussian. Otherwise it may have any even log-concave law.
    in_ball : int
        The rows of the first ``in_ball`` columns have a length of at most 1.
    """
    added, k = sums.is_counted, len(sums.columns)
    head, of_numbers, of_squares, of_levels = np.split(1 / units, [added, added + k, added + 2 * k])
    pairs = list(zip(of_numbers.tolist(), (sums.factor * of_squares).tolist(), strict=True))
    shifts: list[tuple[float, int]] = []
    if in_ball > 1:
        # The greatest factors bound those of every column.
        a, b = (max(own) for own in zip(*pairs[:in_ball], strict=True))
        shifts += _in_ball(in_ball, a, b, added, gaussian)
        pairs = pairs[in_ball:]
    left_out = (sums.factor - 1) / sums.factor if added else 0.0
    for pair in sorted(set(pairs)):
        own = _number(*pair, left_out, added, gaussian)
        shifts += [(size, pairs.count(pair) * count) for size, count in own]
    if len(of_levels):  # with another level one count falls and one rises
        shifts.append((float(of_levels.max()), len(sums.blocks) * (1 if added else 2)))
    if added:
        shifts.append((float(head[0]), 1))
    return tuple((size * ROUND_UP, count) for size, count in shifts)


def _number(
    a: float, b: float, left_out: float, added: bool, gaussian: bool
) -> list[tuple[float, int]]:
    """Return the sizes for a number in [-1, 1]."""
    c = b * left_out
    if gaussian and added:  # a convex function of x^2
        return [(math.sqrt(max(c**2, a**2 + (b - c) ** 2)), 1)]
    if gaussian:
        # With d = |x - x'| the square is at most d^2 (a^2 + b^2 (2 - d)^2), whose only maximum
        # inside is at the lesser root of its derivative, 2 d (a^2 + b^2 (2 - d) (2 - 2 d)).
        d = (3 - math.sqrt(max(0.0, 1 - 2 * (a / b) ** 2))) / 2
        return [(math.sqrt(max(4 * a**2, d**2 * (a**2 + b**2 * (2 - d) ** 2))), 1)]
    if added:
        greatest = max(a, b - c, c)
        # Below x^2 = c / b the sum is a |x| + c - b x^2, beyond it increases.
        x = min(a / (2 * b), math.sqrt(left_out))
        together = max(a + b - c, a * x + c - b * x**2)
    else:
        greatest = max(2 * a, b)
        x = min(a / (2 * b), 1.0)  # the other number is -x, and this one is 1
        together = a * (1 + x) + b * (1 - x**2)
    return [(greatest, 1), (together - greatest, 1)]


def _in_ball(
    k: int, a: float, b: float, added: bool, gaussian: bool
) -> list[tuple[float, int]]:
    """Return the sizes for k numbers whose squares add up to at most 1."""
    longer = (1 + math.sqrt(k) * _LONGER) ** 2
    if gaussian and added:
        return [(math.hypot(a, b) * longer, 1)]
    if gaussian:
        # With U = |x - x'|^2 <= 4 the square is at most a^2 U + b^2 U (4 - U) / 2.
        u = min(4.0, 2 + (a / b) ** 2)
        return [(math.sqrt(u * (a**2 + b**2 * (4 - u) / 2)) * longer, 1)]
    # The m greatest of k changes add up to at most 2 sqrt(m), or sqrt(m). Sizes from one power of
    # two to the next are counted as the first of them.
    moved = a * longer * (1 if added else 2)
    starts = [2**j for j in range(k.bit_length())]
    shifts = [(moved * (math.sqrt(m) - math.sqrt(m - 1)), min(2 * m, k + 1) - m) for m in starts]
    return [*shifts, (b * longer, 1 if added else 2)]
