"""Curves in the place of the linear effects of numbers, on knots between estimated bounds.

The numbers of a row are first clipped to bounds that may be privately estimated, and scaled to
[-1, 1]. Here they become positions of B-splines on equally spaced knots between these bounds. The
number of knots and the degree are chosen before, and so is the noise: the set of rows is the same
for all bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain import Domain
from skdp.domain.columns import Number
from skdp.domain.splines import STEPS
from skdp.linear_model._shared.design import Design
from skdp.linear_model._solver.design_rows import Coordinates, DesignRows


@dataclass(frozen=True)
class Curves:
    """The curves of all numbers of a design; public information only.

    Attributes
    ----------
    origin : Design
        The design with numbers.
    knots, degree : int >= 1
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

    def check_room(self, share: float) -> None:
        """Raise an error unless there is room for knots in this share of the declared bounds."""
        own = self.origin.domain
        for column, read, _ in own._layout.placed:
            if isinstance(column, Number):
                step = (column.upper / 2 - column.lower / 2) * share / (self.knots + 1)
                if step < 64 * math.ulp(max(abs(column.lower), abs(column.upper))):
                    name, rule = own._labels[read.start], "be farther apart to have a curve"
                    remedy = "Subtract a constant from the column, or give additive=None."
                    raise fail(f"bounds of {name}", rule, (column.lower, column.upper), remedy)

    def domain(self, bounds: FloatArray) -> Domain:
        """Return the domain of curves on knots between bounds in units, (numbers, 2)."""
        own = self.origin.domain
        columns = [own._labels[r.start] for c, r, _ in own._layout.placed if isinstance(c, Number)]
        pairs = dict(zip(columns, map(tuple, bounds.tolist()), strict=True))
        found: Domain = own.additive(knots=self.knots, degree=self.degree, bounds=pairs)
        return found

    def __call__(self, rows: DesignRows) -> DesignRows:
        """Return rows of the design with curves; numbers are multiples of 2^-20 in [-1, 1]."""
        levels = np.empty((len(self._places), len(rows)), self._kind)
        for own, (number, level) in zip(levels, self._places, strict=True):
            if number is None:
                own[:] = rows.levels[level]
                continue
            # The nearest of the equally spaced nodes; x + 1 is rounded, in a public way.
            steps = (self.knots + 1) * STEPS
            np.rint((rows.numbers[number] + 1) * np.float32(steps / 2), out=own, casting="unsafe")
            if level is not None:  # the position of a missing number is the last
                own[rows.levels[level] > 0] = steps + 1
        return replace(rows, numbers=np.empty((0, len(rows)), np.float32), levels=levels)

    @cached_property
    def _kind(self) -> np.dtype[Any]:
        """Smallest unsigned integer type of all positions."""
        return np.min_scalar_type(max(Coordinates(self.design).positions))

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
