"""Linear predictors that depend only on their row and the coefficients, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.domain.layout import compact_blocks

# Number of cells that are multiplied at once; they fit in the cache.
_CELLS = 2**17
# numpy divides longer rows at positions that depend on other rows.
_LONGEST = 4096


def predictors(
    domain: Domain, X: Any, coef: FloatArray, intercept: FloatArray, clipping: Any = None
) -> FloatArray:
    """Return the linear predictors of the encoded rows of a table, (n, models).

    Rows are encoded and multiplied in blocks. The terms of a row are added in a fixed order: the
    numbers, then each column of levels, then the intercept.

    Parameters
    ----------
    domain : Domain
    X : DataFrame or array
    coef : ndarray of shape (models, n_encoded)
    intercept : ndarray of shape (models,)
    clipping : ClippingBounds or None
        Its method ``clip`` clips encoded numbers in place.
    """
    slopes = coef[:, domain.number_index]
    # For each column of levels, the terms of all models by the position of the level.
    pairs = zip(domain.blocks, domain.block_tables, strict=True)
    terms = [_terms(coef[:, block], table) for block, table in pairs if block.stop > block.start]
    out = np.empty((len(X), len(coef)))
    for rows, encoded in compact_blocks(domain, X):
        if clipping is not None:
            clipping.clip(encoded.numbers)
        found = row_products(encoded.numbers, slopes)
        for term, positions in zip(terms, encoded.levels, strict=True):
            found += term[positions]
        np.add(found, intercept, out=out[rows])
    return out


def _terms(coef: FloatArray, table: FloatArray | None) -> FloatArray:
    """Return the terms of each position of a block, (positions, models)."""
    if table is not None:
        return row_products(table, coef)
    return np.vstack([np.zeros(len(coef)), coef.T])


def row_products(rows: FloatArray, coef: FloatArray) -> FloatArray:
    """Return ``rows @ coef.T``, (n, models), with each row summed by itself.

    The last bits of a matrix product depend on the number of rows and on the position of a row.
    Here they do not: numpy's own loops sum each row of a C-contiguous array in an order that
    depends only on its length, if it is not longer than a buffer.

    Parameters
    ----------
    rows : ndarray of shape (n, dim)
    coef : ndarray of shape (models, dim)
    """
    (n, dim), out = rows.shape, np.zeros((len(rows), len(coef)))
    step = max(1, _CELLS // max(1, dim))
    for start in range(0, n, step):
        block = np.ascontiguousarray(rows[start : start + step])
        for first in range(0, dim, _LONGEST):
            columns = slice(first, first + _LONGEST)
            for model, slopes in enumerate(coef[:, columns]):
                out[start : start + step, model] += np.einsum("ij,j", block[:, columns], slopes)
    return out
