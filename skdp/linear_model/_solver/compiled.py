"""Sums of weighted slopes by compiled functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._compiled import load_kernels
from skdp.linear_model._solver.design_rows import Coordinates, DesignRows, Sums, Terms
from skdp.linear_model.losses import Logistic, Loss, PseudoHuber, SharpLogistic


def is_compiled(loss: Loss, entries: int) -> bool:
    """Return whether compiled functions save time for so many entries of rows."""
    is_known = type(loss) in (Logistic, SharpLogistic, PseudoHuber)
    return is_known and load_kernels(entries) is not None


def compiled_sums(
    rows: DesignRows,
    y: FloatArray,
    loss: Loss,
    coordinates: Coordinates,
    high: Terms,
    low: Terms | None = None,
    grid: float = 0.0,
) -> tuple[Sums, Sums, float, float] | None:
    """Return the results of `skdp._kernels.slope_sums`; None without numba in this process.

    ``high`` and ``low`` are the leading parts and the rests of a predictor.
    """
    compiled = load_kernels(math.inf)
    if compiled is None:
        return None
    slopes, tables = np.zeros((2, len(high.slopes))), np.zeros((2, 1 + sum(coordinates.sizes)))
    for k, terms in enumerate((high, low)):
        if terms is not None:
            slopes[k], tables[k] = terms.slopes, np.concatenate([[terms.constant], *terms.tables])
    stops = 1 + np.cumsum([0, *coordinates.sizes])
    weight = np.empty(0) if rows.weight is None else rows.weight
    sums, counts, weights, sizes = compiled.slope_sums(
        rows.numbers,
        rows.levels,
        y,
        weight,
        _formula(compiled, loss),
        slopes,
        tables,
        stops[:-1].astype(np.uint64),
        grid,
    )
    whole, rest = (_sums(*pair, stops) for pair in zip(sums, counts, strict=True))
    return whole, rest, weights, sizes


def _formula(compiled: Any, loss: Loss) -> tuple[int, float, float]:
    """Return the kind of a loss and its parameters."""
    if isinstance(loss, PseudoHuber):
        return compiled.PSEUDO_HUBER, loss.threshold, 0.0
    if isinstance(loss, SharpLogistic):
        return compiled.SHARP_LOGISTIC, loss.middle, loss.rate
    return compiled.LOGISTIC, 0.0, 0.0


def _sums(numbers: FloatArray, counts: FloatArray, stops: Any) -> Sums:
    return Sums(numbers, counts[:1], tuple(np.split(counts, stops)[1:-1]))
