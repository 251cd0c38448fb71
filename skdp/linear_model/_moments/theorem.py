"""Trusted. What one record can change in the releases of scaled moments.

The first release has sums of the columns of the encoded (x, y), and of the squares of numbers and
of the target. Its indicators of levels are at most one per column.
Statements and proofs: docs/proofs/moment_release.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skdp._compiled import kernels
from skdp.domain import Domain
from skdp.geometry import LpBall, NormBall, ProductBall, SquaresBall
from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.linear_model._shared.gram import NUMBER_BITS, ColumnSums, number_square, row_unit
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.trusted.arrays import ROUND_UP, FloatArray, row_products, squared_lengths
from skdp.trusted.statement import records_changed


@dataclass(frozen=True, eq=False)
class FirstChange:
    """The changes of the sums of the first release by one record."""

    layout: MomentLayout
    sums: ColumnSums
    neighbors: str

    def parts(self) -> list[tuple[NormBall, tuple[int, ...]]]:
        """Return balls around the contributions of one record, with their coordinates.

        For replaced records they hold half of the changes. The last ones are those of levels.
        """
        self.sums.require(self.neighbors)
        layout, sums, head = self.layout, self.sums, int(self.sums.is_counted)
        target = head + layout.n_encoded
        means = [*range(head), *(layout.numbers + head - 1).tolist(), target]
        ball: NormBall = SquaresBall(len(sums.squares), sums.is_counted)
        parts = [(ball, (*means, *range(target + 2, sums.dim), target + 1))]
        for columns in layout.block_columns:
            # One indicator is 0 or 1, and changes by 1 if a record is replaced. Of several ones
            # one falls and one rises.
            radius = 1 / records_changed(self.neighbors) if len(columns) == 1 else 1.0
            places = tuple((columns + head - 1).tolist())
            parts.append((LpBall(len(columns), p=1, radius=radius), places))
        return parts

    def radius_in(self, ball: NormBall) -> float:
        balls, index = zip(*self.parts(), strict=True)
        body = Sensitivity(ProductBall(balls, index), records_changed(self.neighbors))
        return body.radius_in(ball)

    def length_in(self, factor: ArrayLike) -> float:
        """Return a bound on the length of any change in units of independent Gaussian noise."""
        self.sums.require(self.neighbors)
        layout, sums, added = self.layout, self.sums, self.sums.is_counted
        rate = np.broadcast_to(1 / np.asarray(factor, dtype=float), (sums.dim,))
        of_columns = rate[added : added + layout.n_encoded + 1]
        of_squares = 2 * rate[added + layout.n_encoded + 1 :]
        pairs = zip(of_columns[list(sums.squares)], of_squares, strict=True)
        square = math.fsum(number_square(float(a), float(b), added / 2, added) for a, b in pairs)
        for columns in layout.block_columns:
            # Two of several indicators change if a record is replaced.
            greatest = np.sort(of_columns[columns - 1] ** 2)[-records_changed(self.neighbors) :]
            square += float(greatest.sum())
        if added:
            square += float(rate[0]) ** 2
        return math.sqrt(square) * ROUND_UP


def first_sums(layout: MomentLayout, n: int | None) -> ColumnSums:
    """Return the sums of the first release; ``n`` is None if the number of records is private."""
    target = layout.n_encoded
    return ColumnSums(tuple(range(target + 1)), n, (target, *layout.number_index))


def cross_parts(layout: MomentLayout) -> list[tuple[NormBall, tuple[int, ...]]]:
    """Return balls around the contributions to the products with the residuals.

    A box holds those of the residual itself and of numbers, all of them clipped to [-1, 1], and an
    l1 ball those of a column of levels, which has one indicator.
    """
    numbers = (0, *layout.numbers.tolist())
    blocks = [(LpBall(len(at), p=1), tuple(at.tolist())) for at in layout.block_columns]
    return [(LpBall(len(numbers), p=math.inf), numbers), *blocks]


def cross_change(layout: MomentLayout, neighbors: str) -> Sensitivity:
    """Return the changes of the products with the residuals by one record."""
    balls, index = zip(*cross_parts(layout), strict=True)
    return Sensitivity(ProductBall(balls, index), records_changed(neighbors), neighbors)


def layout_of(domain: Domain) -> MomentLayout:
    """Return the layout of the moments, whose sum of weights is private."""
    return MomentLayout.of(
        domain, target_square=True, neighbors="add_remove", shifted=False, with_curves=True
    )


@dataclass(frozen=True, eq=False)
class RowScaler:
    """A map that scales and bounds rows (1, x, y), each row by itself."""

    centre: FloatArray  # (n_encoded + 2,) as the others; 0 for columns that are not scaled
    scale: FloatArray  # 1 for columns that are not scaled
    factor: FloatArray  # scaled rows are multiplied by it, and then bounded
    clips: bool = False  # entries to [-1, 1]; otherwise rows are shrunk to length 1
    plane: FloatArray | None = None  # (q + 1,); its value at (1, x) is first subtracted from y

    def place(self, rows: FloatArray) -> None:
        """Scale and bound rows (1, x, y), in place."""
        if self.plane is not None:
            rows[:, -1] -= row_products(rows[:, :-1], self.plane[None])[:, 0]
        factor, centre = self.factor / self.scale, self.factor * self.centre / self.scale
        compiled, most = kernels(), 1.0 if self.clips else math.inf
        if compiled is not None:
            compiled.place_rows(rows, factor, centre, most)
        else:
            rows *= factor
            rows -= centre
            np.clip(rows, -most, most, out=rows)
        if self.clips:
            return
        length = np.sqrt(squared_lengths(rows))
        outside = np.flatnonzero(length > 1)
        rows[outside] /= length[outside, None]


def greatest_square(layout: MomentLayout) -> float:
    """Return the greatest |z|^2 of a scaled row that was rounded to the grid."""
    return (1 + math.sqrt(layout.n_rows) * 2.0**-NUMBER_BITS) ** 2 * ROUND_UP


def mean_ball(neighbors: str) -> MomentBall:
    """Return the ball of the mean of the target, without features."""
    return MomentBall(MomentLayout(0, (), (), neighbors=neighbors))


def moment_ball(domain: Domain, neighbors: str) -> MomentBall | RadialMomentBall:
    """Return a ball that holds the changes of the moments by one record."""
    if not domain.is_ball:
        layout = MomentLayout.of(domain, target_square=True, neighbors=neighbors)
        return MomentBall(layout)
    q = domain.n_encoded
    columns = tuple(range(q))
    layout = MomentLayout(q, columns, target_square=True, neighbors=neighbors, shifted=False)
    # Rounding to the grid may move a row out of the domain by up to this.
    rounding = math.sqrt(q) * 2.0 ** -(NUMBER_BITS + 1)
    return RadialMomentBall(layout, float(domain.radius or 0.0) / row_unit(domain) + rounding)
