"""Functions over the rows of a block, compiled by numba; see `skdp._compiled`.

Each function reads its rows once and does not hold the lock of the interpreter, so that several
threads work at the same time. Numbers are columns of an array, (p, n), so that processors work on
several rows at the same time. Only sums of products may be added in another order
(`options.ANY_ORDER`). All other operations are rounded as they are written. Loops over four columns
are written out in each function: with a shared function for the columns, sums of slopes take up to
a third longer.
"""

from __future__ import annotations

import numpy as np

from skdp._kernels.encoding import scale_column, scale_rows, scale_singles, scale_to_columns
from skdp._kernels.products import add_squares, gram_of_columns, sums_of_columns
from skdp._kernels.slopes import LOGISTIC, PSEUDO_HUBER, SHARP_LOGISTIC, curvatures, slope_sums

__all__ = [
    "LOGISTIC",
    "PSEUDO_HUBER",
    "SHARP_LOGISTIC",
    "add_squares",
    "curvatures",
    "gram_of_columns",
    "scale_column",
    "scale_rows",
    "scale_singles",
    "scale_to_columns",
    "slope_sums",
    "sums_of_columns",
    "try_out",
]


def try_out() -> None:
    """Compile all functions for the usual types, or raise any error of the installation."""
    cells, ones, sums = np.zeros((2, 1)), np.ones(1), np.zeros((2, 1))
    columns, single = np.zeros((1, 2), np.float32), np.ones(1, np.float32)
    scale_rows(cells, ones, ones, False, ones, cells)
    scale_to_columns(cells, ones, ones, False, ones, columns)
    scale_column(cells[:, 0].copy(), 0.0, 1.0, False, 0.0, columns[0])
    scale_column(cells[:, 0].copy(), 0.0, 1.0, False, 0.0, np.zeros(2))
    scale_singles(columns, single, single, np.float32(1.0))
    add_squares(columns, np.zeros(2))
    sums_of_columns(columns, 1.0, sums)
    gram_of_columns(np.zeros((1, 2)), np.zeros(2), np.zeros(0), 1.0)
    gram_of_columns(columns, np.zeros(0), np.zeros(2), 0.0)
    rows, starts = (columns, np.zeros((0, 2), np.uint8)), np.zeros(0, np.uint64)
    known = rows, np.zeros(2), np.ones(2), (LOGISTIC, 0.0, 0.0), (sums, sums, starts)
    slope_sums(*known, 0.0)
    curvatures(*known)
