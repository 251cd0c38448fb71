"""The coordinates of a descent in blocks, their privately estimated scales, and bounds on rows.

A block is the intercept, one number, or all levels of one column. A record has one level of a
column, so that it contributes to one coordinate of the gradient of the block. All levels together
have the privacy cost of one number. So have all B-splines of one column: the sizes of a record's
contributions to their coordinates add up to at most 1.

A share of the budget is spent on the sums and squares of the numbers, on the number of records
with each level and, for a regression, on the sum and the square of the target. The centres and
scales that are computed from them are public. Statement and proof:
``docs/proofs/coordinate_descent.md``, Theorem 2. The origin of the constants:
``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.linear_model._shared.design import RowLayout
from skdp.linear_model._shared.gram import exact_sums, row_unit
from skdp.linear_model._standardize.scaler import DESCENT, Scaler
from skdp.linear_model._standardize.stage import ColumnSums, StageSums, independent, sums_noise
from skdp.mechanisms import KNormNoise
from skdp.rows import Rows


@dataclass(frozen=True)
class Blocks(RowLayout):
    """The coordinates of a model in blocks: the intercept, the numbers, the columns of levels.

    Parameters
    ----------
    all_levels : bool
        Whether the first level of a column has a coefficient too. The set of models is the same,
        and a penalty then treats all levels alike.
    """

    all_levels: bool = False

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of coordinates of each block, including first levels that are not free."""
        ones = (1,) * (int(self.intercept) + len(self.numbers))
        return ones + tuple(b.stop - b.start + 1 for b in self.level_columns)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        stops = np.cumsum(self.sizes)
        return tuple(slice(int(e) - s, int(e)) for e, s in zip(stops, self.sizes, strict=True))

    @cached_property
    def whole_tables(self) -> tuple[FloatArray | None, ...]:
        """For each column of levels or B-splines its table with the first one; None for levels."""
        return tuple(
            None if table is None else np.column_stack([1 - table.sum(axis=1), table])
            for table in self.tables
        )

    @cached_property
    def differences(self) -> dict[int, FloatArray]:
        """For each block of a spline the penalty on differences of coefficients, (size, size).

        It is that of the domain for coefficients minus the first one.
        """
        found = {}
        for block, penalty in enumerate(self.penalties, start=self.first_levels):
            size = 0 if penalty is None else len(penalty)
            if penalty is not None and (penalty != np.eye(size)).any():
                moved = np.eye(size, size + 1, k=1)
                moved[:, 0] = -1.0
                found[block] = moved.T @ (penalty - np.eye(size)) @ moved
        return found

    @property
    def first_levels(self) -> int:
        return int(self.intercept) + len(self.numbers)

    @property
    def dim(self) -> int:
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def number_places(self) -> slice:
        return slice(int(self.intercept), self.first_levels)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Which coordinates may move. First levels do if ``all_levels``."""
        free = np.ones(self.dim, dtype=np.bool_)
        if not self.all_levels:
            free[[place.start for place in self.places[self.first_levels :]]] = False
        return free

    def of_columns(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of the encoded columns and the intercept.

        The last axis of all are the classes of a joint model.
        """
        coef = np.zeros((self.domain.n_encoded, *theta.shape[1:]))
        coef[list(self.numbers)] = theta[self.number_places]
        intercept = np.array(theta[0]) if self.intercept else np.zeros(theta.shape[1:])
        for block, place in zip(self.level_columns, self.places[self.first_levels :], strict=True):
            first, *others = theta[place]
            coef[block] = np.array(others) - first
            intercept = intercept + first
        return coef, intercept

    def of_model(self, coef: FloatArray, intercept: FloatArray) -> FloatArray:
        """Return the coordinates of a model; first levels have 0."""
        theta = np.zeros((self.dim, *coef.shape[1:]))
        if self.intercept:
            theta[0] = intercept
        theta[self.number_places] = coef[list(self.numbers)]
        for block, place in zip(self.level_columns, self.places[self.first_levels :], strict=True):
            theta[place.start + 1 : place.stop] = coef[block]
        return theta


# Standard deviations of a number that are scaled to 1. Records beyond have smaller weights.
RADIUS = 3.0
# The assumed variance of an encoded target, without a scaling stage.
USUAL_TARGET = 0.2
# Mean squares and shares of levels are increased by this many deviations of their noise: steps that
# are too long diverge, and shorter steps lose little.
CAUTION = 1.5


@dataclass(frozen=True, eq=False)
class RowBound:
    """A public bound on the length of scaled rows, fixed before the scaling stage.

    Attributes
    ----------
    precision : ndarray of shape (blocks,)
        The factors a. The noise of a block is divided by its factor.
    bound : float or None
        Records are weighted such that sum_g |a_g z_g|^power <= bound, with scaled rows z. With
        None each block spends its own budget.
    radius : float
        Standard deviations of a number that are scaled to 1 after a scaling stage.
    power : {1, 2}
        2 for Gaussian noise, whose squared shifts add up. 1 for delta = 0, whose shifts add up.
    """

    precision: FloatArray
    bound: float | None = None
    radius: float = RADIUS
    power: int = 2


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public information on the columns at the start of the descent.

    Attributes
    ----------
    n : float
        The number of records, a public guess of it, or a noisy count.
    centre, scale : ndarray of shape (numbers,)
        A number x becomes (x - centre) / scale.
    square : ndarray of shape (dim,)
        Mean square of each scaled coordinate: an estimate on the high side, or a bound without a
        scaling stage.
    is_estimated : bool
        Whether there was a scaling stage.
    """

    n: float
    centre: FloatArray
    scale: FloatArray
    square: FloatArray
    target_centre: float
    target_deviation: float
    is_estimated: bool
    rows: RowBound

    def scaler(self, blocks: Blocks) -> Scaler:
        """Return the map of the columns; the target is not scaled."""
        return Scaler.of(blocks.domain.n_encoded, list(blocks.numbers), self.centre, self.scale)


def usual_square(blocks: Blocks) -> float:
    # The squared numbers of a ball have a sum of at most 1.
    usual = DESCENT.usual
    return min(usual, 0.3 / len(blocks.numbers)) if blocks.domain.is_ball else usual


def plain_scaling(blocks: Blocks, n: float, rows: RowBound) -> Scaling:
    """Return the centres and scales of the domain, for a descent without a scaling stage."""
    zeros = np.zeros(len(blocks.numbers))
    # Rows of a ball were divided by a power of two.
    scale = np.full(len(zeros), float(blocks.domain.radius or 1.0) / row_unit(blocks.domain))
    ones = np.ones(blocks.dim)
    return Scaling(n, zeros, scale, ones, 0.0, math.sqrt(USUAL_TARGET), False, rows)


@dataclass(frozen=True)
class DescentStage:
    """The sums that are released before the descent.

    Parameters
    ----------
    blocks : Blocks
    with_target : bool
        Whether the target is scaled too.
    n : int or None
        The number of records. None if it is private; then a noisy count is released.
    gaussian : bool
        Whether the noise is Gaussian. Then only the length of a change matters.
    norm : KNormNoise or None
        The noise of the sums, if the stage has an epsilon of its own.
    """

    blocks: Blocks
    with_target: bool
    n: int | None
    gaussian: bool = False
    norm: KNormNoise | None = None

    def with_norm(self, epsilon: float, moved: float, neighbors: str) -> DescentStage:
        """Return the stage with K-norm noise, or this one for rows in a ball or without numbers."""
        if self.blocks.domain.is_ball or not self._columns.columns:
            return self
        return replace(self, norm=sums_noise(self._columns, moved, neighbors, epsilon))

    @property
    def spent(self) -> float:
        """The epsilon of the stage's own noise, or 0 if it has the noise of the steps."""
        return 0.0 if self.norm is None else float(self.norm.guarantee.epsilon)

    @cached_property
    def planned(self) -> StageSums:
        """The sums in their order, with the factors of their noise and their changes."""
        if self.norm is not None:
            spread = np.sqrt(self.norm.variance())
            return StageSums(self._columns, spread / spread[int(self._columns.is_counted)], ())
        in_ball = self.blocks.domain.is_ball * len(self.blocks.numbers)
        return independent(self._columns, self.gaussian, in_ball)

    @cached_property
    def _columns(self) -> ColumnSums:
        columns = (*self.blocks.numbers, *(self.blocks.domain.n_encoded,) * self.with_target)
        squares = tuple((j,) for j in columns)
        return ColumnSums(columns, self.n, squares, blocks=self.blocks.level_columns)

    @property
    def sums(self) -> ColumnSums:
        return self.planned.sums

    @property
    def dim(self) -> int:
        return self.sums.dim

    @property
    def shifts(self) -> tuple[tuple[float, int], ...]:
        """Sizes and counts that bound the changes by one record, in units of the noise."""
        return self.planned.shifts

    def exact(self, rows: Rows) -> NDArray[Any]:
        """Return the exact sums in units of 2^-40, (dim,)."""
        return self.sums.exact(*exact_sums(rows))

    def scaling(self, released: FloatArray, deviation: float, rows: RowBound) -> Scaling:
        """Return the scaling from sums; ``deviation`` is that of the noise of a number's sum."""
        blocks, q = self.blocks, len(self.blocks.numbers)
        # A count is at least one standard deviation of its noise.
        own = deviation * self.planned.units[0] if self.sums.is_counted else 1.0
        seen = self.sums.estimates(released, least=max(1.0, own))
        mean, square, noise = seen.mean.clip(-1, 1), seen.square.clip(0, 1), deviation / seen.n
        shifted = np.ones(len(mean), dtype=np.bool_)
        shifted[:q] = blocks.intercept  # without an intercept numbers are not centred
        centre = np.where(shifted, DESCENT.centre(mean, noise), 0.0)
        variance = DESCENT.variance(square - np.where(shifted, mean, 0.0) ** 2, noise)
        # High estimates of the mean squares about the centres.
        about = square - 2 * centre * mean + centre**2 + CAUTION * noise
        most = np.maximum(variance, np.minimum(about, (1 + np.abs(centre)) ** 2))
        squares = np.ones(blocks.dim)
        squares[blocks.number_places] = (most / variance)[:q] / rows.radius**2
        levels = seen.levels.clip(0) + CAUTION * noise
        squares[blocks.first_levels :] = levels.clip(1 / seen.n, 1.0)
        deviations = np.sqrt(variance)
        middle, spread = (centre[-1], deviations[-1]) if self.with_target else (0.0, 1.0)
        scale = rows.radius * deviations[:q]
        target = float(middle), float(spread)
        return Scaling(seen.n, centre[:q], scale, squares, *target, True, rows)
