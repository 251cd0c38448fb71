"""Sums of weighted slopes by compiled functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._compiled import load_kernels
from skdp.linear_model._solver.design_rows import Coordinates, DesignRows, Sums, Terms
from skdp.linear_model.losses import AnyLoss, Logistic, PseudoHuber, SharpLogistic


def is_compiled(loss: AnyLoss, entries: float) -> bool:
    """Return whether compiled functions save time for so many entries of rows."""
    is_known = type(loss) in (Logistic, SharpLogistic, PseudoHuber)
    return is_known and load_kernels(entries) is not None


@dataclass(frozen=True, eq=False)
class CompiledSums:
    """The results of `skdp._kernels` for rows and their targets.

    ``high`` and ``low`` are the leading parts and the rests of a predictor.
    """

    loss: AnyLoss
    coordinates: Coordinates
    high: Terms
    low: Terms | None = None
    grid: float = 0.0

    def __call__(self, rows: DesignRows, y: FloatArray) -> tuple[Sums, Sums, float, float] | None:
        """Return the leading and the remaining sums; None without numba in this process."""
        compiled = load_kernels(math.inf)
        if compiled is None:
            return None
        known = self._known(compiled, rows, y)
        sums, counts, weights, sizes = compiled.slope_sums(*known, self.grid)
        return self._sums(sums[0], counts[0]), self._sums(sums[1], counts[1]), weights, sizes

    def curvatures(self, rows: DesignRows, y: FloatArray) -> FloatArray | None:
        """Return the weighted curvatures, (n,); None without numba in this process."""
        compiled = load_kernels(math.inf)
        if compiled is None:
            return None
        found: FloatArray = compiled.curvatures(*self._known(compiled, rows, y))
        return found

    def _known(self, compiled: Any, rows: DesignRows, y: FloatArray) -> tuple[Any, ...]:
        """Return the arguments that compiled functions share."""
        weight = _NONE if rows.weight is None else rows.weight
        parts = *self._tables, self._starts
        return (rows.numbers, rows.levels), y, weight, self._formula(compiled), parts

    def _formula(self, compiled: Any) -> tuple[int, float, float]:
        """Return the kind of the loss and its parameters."""
        loss = self.loss
        if isinstance(loss, PseudoHuber):
            return compiled.PSEUDO_HUBER, loss.threshold, 0.0
        if isinstance(loss, SharpLogistic):
            return compiled.SHARP_LOGISTIC, loss.middle, loss.rate
        return compiled.LOGISTIC, 0.0, 0.0

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray]:
        """Slopes and tables, leading parts and rests."""
        slopes = np.zeros((2, len(self.high.slopes)))
        tables = np.zeros((2, 1 + sum(self.coordinates.positions)))
        for k, terms in enumerate((self.high, self.low)):
            if terms is not None:
                slopes[k] = terms.slopes
                tables[k] = np.concatenate([[terms.constant], *terms.tables])
        return slopes, tables

    @cached_property
    def _places(self) -> list[slice]:
        """The entries of each column of levels in the tables."""
        stops = 1 + np.cumsum([0, *self.coordinates.positions])
        return [slice(a, b) for a, b in pairwise(stops.tolist())]

    @cached_property
    def _starts(self) -> NDArray[np.uint64]:
        return np.array([place.start for place in self._places], dtype=np.uint64)

    def _sums(self, numbers: FloatArray, counts: FloatArray) -> Sums:
        return Sums(numbers, counts[:1], tuple(counts[place] for place in self._places))


_NONE = np.empty(0)
