"""Linear predictors that depend only on their row and the coefficients, bit for bit."""

from __future__ import annotations

import numpy as np

from skdp._arrays import FloatArray

# Number of cells that are multiplied at once; they fit in the cache.
_CELLS = 2**17


def row_products(rows: FloatArray, coef: FloatArray) -> FloatArray:
    """Return ``rows @ coef.T``, (n, models), with each row summed by itself.

    The last bits of a matrix product depend on the number of rows and on the position of a row.
    Here they do not: numpy sums the last axis of a C-contiguous array row by row, in an order that
    depends only on the length of the axis.

    Parameters
    ----------
    rows : ndarray of shape (n, dim)
    coef : ndarray of shape (models, dim)
    """
    (n, dim), out = rows.shape, np.empty((len(rows), len(coef)))
    step = max(1, _CELLS // max(1, dim))
    products = np.empty((min(n, step), dim))
    for start in range(0, n, step):
        block = rows[start : start + step]
        some = products[: len(block)]
        for model, slopes in enumerate(coef):
            np.multiply(block, slopes, out=some)
            out[start : start + step, model] = some.sum(axis=1)
    return out
