"""Linear predictors, each a function of its row and of the coefficients alone."""

from __future__ import annotations

import numpy as np

from skdp._arrays import FloatArray

# Products are made of so many cells at once, which stay in the cache.
_CELLS = 2**17


def row_products(rows: FloatArray, coef: FloatArray) -> FloatArray:
    """Return ``rows @ coef.T``, (n, models), with each row added up by itself.

    The last bits of a product of matrices depend on how many rows there are and on where a row
    stands. Here they do not: products are made one by one, and numpy adds up the last axis of
    a C-contiguous array row by row, in an order that depends on its length alone.

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
