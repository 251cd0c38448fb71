"""Trusted. What one record can change in the sums of a regression table.

Statement and proof: ``docs/proofs/inference.md``, Theorem 1.
"""

from __future__ import annotations

import math

from skdp.domain import Domain
from skdp.geometry import LpBall, MomentLayout
from skdp.linear_model._shared.gram import NUMBER_BITS
from skdp.mechanisms import Sensitivity
from skdp.noise.matrix import RowsWithin
from skdp.trusted.arrays import ROUND_UP
from skdp.trusted.statement import records_changed


def curvature_layout(domain: Domain) -> MomentLayout:
    """Return the layout of the curvatures; the sum of the weighted curvatures is an entry."""
    facts = {"neighbors": "add_remove", "shifted": False}
    if domain.is_ball:
        columns = range(domain.n_encoded)
        return MomentLayout(domain.n_encoded, tuple(columns), target=False, **facts)  # type: ignore[arg-type]
    return MomentLayout.of(domain, target=False, with_curves=True, **facts)  # type: ignore[arg-type]


def longest_row(layout: MomentLayout) -> float:
    """Return the greatest length of a row that was rounded to the grid."""
    return (1 + math.sqrt(layout.n_rows) * 2.0**-NUMBER_BITS) * ROUND_UP


def changes(layout: MomentLayout, neighbors: str) -> tuple[Sensitivity, RowsWithin, Sensitivity]:
    """Return the changes by one record in the scores, the curvatures and the squares."""
    k, moved, longest = layout.n_rows, records_changed(neighbors), longest_row(layout)
    square = longest**2 * ROUND_UP
    squares = Sensitivity(LpBall(k, p=1), moved * square, neighbors)
    rows = RowsWithin(layout, square, neighbors)
    return Sensitivity(LpBall(k), moved * longest, neighbors), rows, squares


def squares_of_gaussian(rows: RowsWithin, neighbors: str) -> Sensitivity:
    """Return the change of the squares by its length, which alone counts for Gaussian noise.

    Two vectors of squares have entries >= 0 whose sums are bounded.
    """
    length = math.sqrt(records_changed(neighbors)) * rows.square
    return Sensitivity(LpBall(rows.layout.n_rows), length, neighbors)
