"""Trusted. What one record can change in the sums of a regression table.

Statement and proof: ``docs/proofs/inference.md``, Theorem 1.
"""

from __future__ import annotations

import math

import numpy as np

from skdp.domain import Domain
from skdp.domain.layout import number_units
from skdp.geometry import LpBall, MomentLayout
from skdp.linear_model._shared.gram import NUMBER_BITS
from skdp.mechanisms import Sensitivity
from skdp.noise.matrix import RowsWithin
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.statement import records_changed


def curvature_layout(domain: Domain) -> MomentLayout:
    """Return the layout of the curvatures; the sum of the weighted curvatures is an entry."""
    facts = {"neighbors": "add_remove", "shifted": False}
    if domain.is_ball:
        return whole_layout(domain)
    return MomentLayout.of(domain, target=False, with_curves=True, **facts)  # type: ignore[arg-type]


def whole_layout(domain: Domain) -> MomentLayout:
    """Return the layout of all products of the coordinates of rows."""
    q = domain.n_encoded
    return MomentLayout(q, tuple(range(q)), target=False, neighbors="add_remove", shifted=False)


def longest_row(m: int) -> float:
    """Return the greatest length of a row of m numbers that was rounded to the grid."""
    return (1 + math.sqrt(m) * 2.0**-NUMBER_BITS) * ROUND_UP


def changes(
    layout: MomentLayout, m: int, neighbors: str
) -> tuple[Sensitivity, RowsWithin, Sensitivity]:
    """Return the changes by one record in the scores, the curvatures and m squares."""
    k, moved, longest = layout.n_rows, records_changed(neighbors), longest_row(layout.n_rows)
    rows = RowsWithin(layout, longest**2 * ROUND_UP, neighbors)
    squares = Sensitivity(LpBall(m, p=1), moved * longest_row(m) ** 2 * ROUND_UP, neighbors)
    return Sensitivity(LpBall(k), moved * longest, neighbors), rows, squares


def bounded_sums(m: int, neighbors: str) -> Sensitivity:
    """Return the change by one record in sums of m numbers, a vector of length at most 1."""
    return Sensitivity(LpBall(m), records_changed(neighbors) * longest_row(m), neighbors)


def squares_of_gaussian(m: int, neighbors: str) -> Sensitivity:
    """Return the change of m squares by its length, which alone counts for Gaussian noise.

    Two vectors of squares have entries >= 0 whose sums are bounded.
    """
    length = math.sqrt(records_changed(neighbors)) * longest_row(m) ** 2 * ROUND_UP
    return Sensitivity(LpBall(m), length, neighbors)


NUMBERS, TARGET = "a number at or beyond a bound of its column", "a target at or beyond a bound"


def counted_ends(domain: Domain, is_regression: bool) -> dict[str, FloatArray]:
    """Return the encoded values at and beyond which values are counted, (2, columns) by kind.

    A bound of 0, and bounds of 0 and 1, are not counted, and no kind without another bound is.
    """
    kinds = {}
    # Rows of a ball are bounded in length, not in each column.
    if domain.n_numbers and not domain.is_ball:
        half, centre = number_units(domain)
        kinds[NUMBERS] = centre - half, centre + half
    if is_regression:
        bounds = np.array(domain.target_bounds or (-1.0, 1.0))
        kinds[TARGET] = bounds[:1], bounds[1:]
    ends = {}
    for what, (low, high) in kinds.items():
        natural = [low == 0, (low == 0) & (high == 1)]
        ends[what] = np.where(natural, [[-math.inf], [math.inf]], [[-1.0], [1.0]])
    return {what: own for what, own in ends.items() if np.isfinite(own).any()}


# Values are counted by size in so many cells, each half an octave.
CELLS = 32


def size_counts(m: int, neighbors: str) -> Sensitivity:
    """Return the change by one record in the numbers of sizes of m values in `CELLS` cells each."""
    return Sensitivity(LpBall(m * CELLS, p=1), m * records_changed(neighbors), neighbors)
