"""Sums of columns and of their products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from skdp._kernels.options import ANY_ORDER, COMPILED

# Rows whose columns are read several times: they stay in the cache.
_TILE = 256


@njit(**ANY_ORDER)
def add_squares(numbers: Any, out: Any) -> None:
    """Add the squares of each row of columns (p, n) to out, (n,). Every sum is exact."""
    p = numbers.shape[0]
    whole = p - p % 4
    for start in range(0, numbers.shape[1], _TILE):
        own = out[start : start + _TILE]
        stop = start + len(own)
        for j in range(0, whole, 4):
            x0, x1 = numbers[j, start:stop], numbers[j + 1, start:stop]
            x2, x3 = numbers[j + 2, start:stop], numbers[j + 3, start:stop]
            for i in range(len(own)):
                a, b = np.float64(x0[i]), np.float64(x1[i])
                c, d = np.float64(x2[i]), np.float64(x3[i])
                own[i] += (a * a + b * b) + (c * c + d * d)
        for j in range(whole, p):
            x0 = numbers[j, start:stop]
            for i in range(len(own)):
                a = np.float64(x0[i])
                own[i] += a * a


@njit(**COMPILED)
def _round(x: Any, rounder: float, out: Any) -> None:
    """Write x rounded by adding and subtracting ``rounder``."""
    for i in range(len(x)):
        out[i] = (x[i] + rounder) - rounder


@njit(**ANY_ORDER)
def _sums(x: Any, n: int) -> tuple[float, float]:
    """Return the sum of n entries and that of their squares."""
    a = b = 0.0
    for i in range(n):
        a += x[i]
        b += x[i] * x[i]
    return a, b


@njit(**COMPILED)
def sums_of_columns(numbers: Any, rounder: float, out: Any) -> None:
    """Write the sums of columns (p, n) and of their squares, (2, p), rounded by ``rounder``.

    Rounded entries are such that every sum is exact.
    """
    out[:] = 0.0
    rounded = np.empty(_TILE)
    for j in range(numbers.shape[0]):
        for start in range(0, numbers.shape[1], _TILE):
            x = numbers[j, start : start + _TILE]
            _round(x, rounder, rounded)
            found = _sums(rounded, len(x))
            out[0, j] += found[0]
            out[1, j] += found[1]


@njit(**ANY_ORDER)
def _add_gram(left: Any, right: Any, n: int, out: Any) -> None:
    """Add the products of n columns' entries, left[j] @ right[k] for k <= j, to out."""
    for j in range(left.shape[0]):
        x = left[j]
        whole = (j + 1) - (j + 1) % 4
        for k in range(0, whole, 4):
            y0, y1, y2, y3 = right[k], right[k + 1], right[k + 2], right[k + 3]
            a = b = c = d = 0.0
            for i in range(n):
                a += x[i] * y0[i]
                b += x[i] * y1[i]
                c += x[i] * y2[i]
                d += x[i] * y3[i]
            out[j, k] += a
            out[j, k + 1] += b
            out[j, k + 2] += c
            out[j, k + 3] += d
        for k in range(whole, j + 1):
            y0 = right[k]
            a = 0.0
            for i in range(n):
                a += x[i] * y0[i]
            out[j, k] += a


@njit(**COMPILED)
def gram_of_columns(numbers: Any, last: Any, weight: Any, rounder: float) -> Any:
    """Return the Gram matrix of the rows (1, numbers, last).

    Parameters
    ----------
    numbers : ndarray of shape (p, n)
    last : ndarray of float64, shape (n,), or (0,) if the rows are (1, numbers)
    weight : ndarray of float64, shape (n,), or (0,) if every weight is 1
    rounder : float
        Entries are rounded by adding and subtracting it; not rounded if it is 0.

    Returns
    -------
    ndarray of shape (q, q)
        q is the length of the rows. If entries are rounded, they are such that sums are exact.
    """
    p, n = numbers.shape
    q = 1 + p + (len(last) > 0)
    rows, weighted = np.ones((q, _TILE)), np.empty((q, _TILE))
    gram = np.zeros((q, q))
    for start in range(0, n, _TILE):
        m = min(_TILE, n - start)
        for j in range(p):
            _round(numbers[j, start : start + m], rounder, rows[1 + j])
        if len(last):
            _round(last[start : start + m], rounder, rows[q - 1])
        if len(weight):
            w = weight[start : start + m]
            for j in range(q):
                for i in range(m):
                    weighted[j, i] = w[i] * rows[j, i]
        _add_gram(weighted if len(weight) else rows, rows, m, gram)
    for j in range(q):
        for k in range(j):
            gram[k, j] = gram[j, k]
    return gram
