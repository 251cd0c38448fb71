"""Curves in the place of the linear effects of numbers, on knots between estimated bounds.

The numbers of a row are first clipped to bounds that may be privately estimated, and scaled to
[-1, 1]. Here they become positions of B-splines on equally spaced knots between these bounds. The
number of knots and the degree are chosen before, and so is the noise: the set of rows is the same
for all bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.domain.columns import Number
from skdp.domain.splines import Spline
from skdp.linear_model._shared.design import Design
from skdp.linear_model._solver.design_rows import DesignRows


@dataclass(frozen=True)
class Curves:
    """The curves of all numbers of a design; public information only.

    Attributes
    ----------
    origin : Design
        The design with numbers.
    knots, degree : int
        Of each curve.
    """

    origin: Design
    knots: int
    degree: int

    @cached_property
    def design(self) -> Design:
        """The design with curves."""
        domain = self.origin.domain.additive(knots=self.knots, degree=self.degree)
        return Design(domain, self.origin.intercept)

    def domain(self, bounds: FloatArray) -> Domain:
        """Return the domain of curves on knots between bounds in units, (numbers, 2)."""
        own = self.origin.domain
        columns = [own._labels[r.start] for c, r, _ in own._layout.placed if isinstance(c, Number)]
        pairs = dict(zip(columns, map(tuple, bounds.tolist()), strict=True))
        found: Domain = own.additive(knots=self.knots, degree=self.degree, bounds=pairs)
        return found

    def __call__(self, rows: DesignRows) -> DesignRows:
        """Return rows of the design with curves; numbers are multiples of 2^-20 in [-1, 1]."""
        levels = [self._positions(rows, *place) for place in self._places]
        numbers = np.empty((0, len(rows)), np.float32)
        return replace(rows, numbers=numbers, levels=np.array(levels))

    def _positions(self, rows: DesignRows, number: int | None, level: int | None) -> NDArray[Any]:
        """Return the positions of a column of levels, or of a number, (n,)."""
        if number is None:
            return np.asarray(rows.levels[level])
        found = self._unit.positions(rows.numbers[number].astype(np.float64))
        if level is None:
            return found
        # The position of a missing number is the last.
        return np.where(rows.levels[level] > 0, len(self._unit.table), found)

    @cached_property
    def _unit(self) -> Spline:
        return Spline(-1.0, 1.0, self.knots, self.degree)

    @cached_property
    def _places(self) -> list[tuple[int | None, int | None]]:
        """For each column of positions, the number and the column of levels it is made of."""
        found: list[tuple[int | None, int | None]] = []
        numbers, levels = count(), count()
        for column, _, write in self.origin.domain._layout.placed:
            width = write.stop - write.start
            if not isinstance(column, Number):
                found += [(None, next(levels))] * (width > 0)
            else:  # one more encoded column indicates missing cells
                found.append((next(numbers), next(levels) if width > 1 else None))
        return found
