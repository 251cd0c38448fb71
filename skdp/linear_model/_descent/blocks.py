"""The blocks of coordinates that a coordinate descent moves together.

A block is the intercept, one number, or all levels of one column. A record has one level of a
column, so that it contributes to one coordinate of the gradient of the block. All levels together
have the privacy cost of one number. So have all B-splines of one column: the sizes of a record's
contributions to their coordinates add up to at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.linear_model._shared.design import RowLayout


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
        """The coordinates of each block."""
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
        """The first block of levels."""
        return int(self.intercept) + len(self.numbers)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def number_places(self) -> slice:
        """Coordinates of the numbers."""
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
