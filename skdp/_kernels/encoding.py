"""Numbers scaled to [-1, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from skdp._kernels.options import COMPILED

# Rows, or numbers of them, that are scaled before they are written to all columns: they stay in
# the cache.
_LEAST_ROWS, _CELLS = 64, 6400


@njit(**COMPILED)
def _scaled(cell: float, lower: float, factor: float, is_unit: bool, fill: float) -> float:
    """Return (cell - lower) * factor - 1, or the cell if ``is_unit``, clipped to [-1, 1].

    NaN is replaced by ``fill``.
    """
    x = cell if is_unit else (cell - lower) * factor - 1.0
    x = -1.0 if x < -1.0 else 1.0 if x > 1.0 else x
    return fill if x != x else x


@njit(**COMPILED)
def scale_rows(cells: Any, lower: Any, factor: Any, is_unit: bool, fill: Any, out: Any) -> bool:
    """Write (cells - lower) * factor - 1, clipped to [-1, 1]; return whether cells are valid.

    If ``is_unit``, cells are clipped only. Each operation is rounded as in
    `skdp.domain.layout.BoxProjection`. Infinite cells are not valid, nor is NaN without a ``fill``.

    Parameters
    ----------
    cells, out : ndarrays of shape (n, p)
    lower, factor : ndarrays of shape (p,)
    fill : ndarray of shape (p,)
        Written in place of NaN; NaN for columns without any.
    """
    is_bad = False
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            cell = np.float64(cells[i, j])
            x = _scaled(cell, lower[j], factor[j], is_unit, fill[j])
            is_bad |= (abs(cell) == np.inf) | (x != x)
            out[i, j] = x
    return not is_bad


@njit(**COMPILED)
def scale_to_columns(
    cells: Any, lower: Any, factor: Any, is_unit: bool, fill: Any, out: Any
) -> bool:
    """Write what `scale_rows` writes to an array of columns, (p, n)."""
    is_valid = True
    rows = max(_LEAST_ROWS, _CELLS // max(1, cells.shape[1]))
    tile = np.empty((rows, cells.shape[1]), out.dtype)
    for start in range(0, cells.shape[0], rows):
        own = cells[start : start + rows]
        is_valid &= scale_rows(own, lower, factor, is_unit, fill, tile)
        for j in range(cells.shape[1]):
            column = out[j, start : start + rows]
            for i in range(len(column)):
                column[i] = tile[i, j]
    return is_valid


@njit(**COMPILED)
def scale_column(
    cells: Any, lower: float, factor: float, is_unit: bool, fill: float, out: Any
) -> bool:
    """Write what `scale_rows` writes, for one column."""
    is_bad, has_fill = False, fill == fill
    for i in range(cells.shape[0]):
        cell = np.float64(cells[i])
        out[i] = _scaled(cell, lower, factor, is_unit, fill)
        is_bad |= abs(cell) == np.inf if has_fill else not abs(cell) < np.inf
    return not is_bad


@njit(**COMPILED)
def scale_singles(numbers: Any, centre: Any, factor: Any, rounder: Any) -> None:
    """Replace columns of numbers by (numbers - centre) * factor, clipped to [-1, 1] and rounded.

    Adding and subtracting ``rounder`` rounds. Results have no array of their own: a loop that may
    read what it writes is compiled for one entry at a time.

    Parameters
    ----------
    numbers : ndarray of float32, shape (p, n)
    centre, factor : ndarrays of float32, shape (p,)
    rounder : float32
    """
    one = np.float32(1.0)
    for j in range(numbers.shape[0]):
        column, c, f = numbers[j], centre[j], factor[j]
        for i in range(numbers.shape[1]):
            x = (column[i] - c) * f
            x = -one if x < -one else x
            x = one if x > one else x
            column[i] = (x + rounder) - rounder
