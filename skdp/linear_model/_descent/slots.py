"""The slots of a coordinate descent: what is moved together, and what one record can change.

A slot is the intercept, one number, or all levels of one column. Of a column's levels a record
has one, so that its share of the slot's gradient lies in one coordinate: levels are moved
together, at the price in privacy of one number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain import Domain


@dataclass(frozen=True)
class Slots:
    """The coordinates of a model, in slots: the intercept, the numbers, the columns of levels.

    Parameters
    ----------
    domain : Domain
    intercept : bool
    all_levels : bool
        Whether the first level of a column has a coefficient too. The model is the same; a
        penalty then treats all levels alike.
    """

    domain: Domain
    intercept: bool
    all_levels: bool = False

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Encoded columns that hold numbers."""
        if self.domain.is_ball:
            return tuple(range(self.domain.n_encoded))
        return tuple(int(j) for j in self.domain.number_index)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Encoded columns of each column of levels, its first level left out."""
        return tuple(b for b in self.domain.blocks if b.stop > b.start)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many coordinates each slot has: all levels of a column, whether free or not."""
        ones = (1,) * (int(self.intercept) + len(self.numbers))
        return ones + tuple(b.stop - b.start + 1 for b in self.blocks)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """The coordinates of each slot."""
        stops = np.cumsum(self.sizes)
        return tuple(slice(int(e) - s, int(e)) for e, s in zip(stops, self.sizes, strict=True))

    @property
    def first_block(self) -> int:
        """The first slot of levels."""
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
        return slice(int(self.intercept), self.first_block)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Which coordinates may move: first levels only if all levels do."""
        free = np.ones(self.dim, dtype=np.bool_)
        if not self.all_levels:
            free[[place.start for place in self.places[self.first_block :]]] = False
        return free

    def of_columns(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """Return the coefficients of the encoded columns and the intercept."""
        coef = np.zeros(self.domain.n_encoded)
        coef[list(self.numbers)] = theta[self.number_places]
        intercept = float(theta[0]) if self.intercept else 0.0
        for block, place in zip(self.blocks, self.places[self.first_block :], strict=True):
            first, *others = theta[place]
            coef[block] = np.array(others) - first
            intercept += float(first)
        return coef, intercept

    def of_model(self, coef: FloatArray, intercept: float) -> FloatArray:
        """Return the coordinates of a model; first levels have 0."""
        theta = np.zeros(self.dim)
        if self.intercept:
            theta[0] = intercept
        theta[self.number_places] = coef[list(self.numbers)]
        for block, place in zip(self.blocks, self.places[self.first_block :], strict=True):
            theta[place.start + 1 : place.stop] = coef[block]
        return theta
