"""Functions over the rows of a block, compiled by numba; see `skdp._compiled`.

Each function reads its rows once and does not hold the lock of the interpreter, so that several
threads work at the same time. Only sums of products may be added in another order
(``_ANY_ORDER``). All other operations are rounded as they are written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import config, njit

if config.DISABLE_JIT:
    raise ImportError("numba does not compile in this process, and loops of Python are slow")

# Rows whose predictors are computed before their numbers are added: both stay in the cache.
_TILE = 64
_COMPILED = {"nogil": True, "cache": True, "error_model": "numpy"}
_ANY_ORDER = {"fastmath": {"reassoc", "contract"}}

# Kinds of losses.
LOGISTIC, SHARP_LOGISTIC, PSEUDO_HUBER = range(3)

# For exponentials: 1 / log(2); log(2) in two parts, the first of which has 11 zeros at its end;
# a number whose sums with small numbers are whole; and 1 / k! from k = 13 to 0.
_BINARY_LOGARITHM = 1 / math.log(2)
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_WHOLE = 1.5 * 2.0**52
_SERIES = tuple(1 / math.factorial(k) for k in range(13, -1, -1))


@njit(**_COMPILED)
def _scaled(cell: float, lower: float, factor: float, is_unit: bool) -> float:
    """Return (cell - lower) * factor - 1, or the cell if ``is_unit``, clipped to [-1, 1]."""
    x = cell if is_unit else (cell - lower) * factor - 1.0
    return -1.0 if x < -1.0 else 1.0 if x > 1.0 else x


@njit(**_COMPILED)
def scale_to_box(cells: Any, lower: Any, factor: Any, is_unit: bool, out: Any) -> bool:
    """Write (cells - lower) * factor - 1, clipped to [-1, 1]; return whether cells are finite.

    If ``is_unit``, cells are clipped only. Each operation is rounded as in
    `skdp.domain._projections.Box`.
    """
    is_bad = False
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            cell = np.float64(cells[i, j])
            is_bad |= not abs(cell) < np.inf
            out[i, j] = _scaled(cell, lower[j], factor[j], is_unit)
    return not is_bad


@njit(**_COMPILED)
def scale_column(cells: Any, lower: float, factor: float, is_unit: bool, out: Any) -> bool:
    """Write what `scale_to_box` writes, for one column."""
    is_bad = False
    for i in range(cells.shape[0]):
        cell = np.float64(cells[i])
        is_bad |= not abs(cell) < np.inf
        out[i] = _scaled(cell, lower, factor, is_unit)
    return not is_bad


@njit(**_COMPILED)
def scale_singles(numbers: Any, centre: Any, factor: Any, rounder: Any) -> None:
    """Replace numbers by (numbers - centre) * factor, clipped to [-1, 1], rounded by ``rounder``.

    Results have no array of their own: a loop that may read what it writes is compiled for one
    entry at a time.
    """
    one = np.float32(1.0)
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            x = (numbers[i, j] - centre[j]) * factor[j]
            x = -one if x < -one else x
            x = one if x > one else x
            numbers[i, j] = (x + rounder) - rounder


@njit(**_COMPILED | _ANY_ORDER)
def squares_of_rows(numbers: Any, out: Any) -> None:
    """Write the sum of the squares of each row. The entries are such that every sum is exact."""
    for i in range(numbers.shape[0]):
        a = 0.0
        for j in range(numbers.shape[1]):
            x = np.float64(numbers[i, j])
            a += x * x
        out[i] = a


@njit(**_COMPILED)
def sums_of_columns(numbers: Any, rounder: float, out: Any) -> None:
    """Write the sums of columns and of their squares, rounded by ``rounder``: they are exact."""
    out[:] = 0.0
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            x = (np.float64(numbers[i, j]) + rounder) - rounder
            out[0, j] += x
            out[1, j] += x * x


@njit(**_COMPILED)
def _write_exponentials(t: Any, n: int, work: Any, out: Any) -> None:
    """Write e^t for n entries t <= 0, with an error of 2 units in the last place.

    e^t = 2^k e^r with an integer k and |r| <= log(2) / 2. The series of e^r ends after r^13 / 13!,
    with an error of 4e-18. Below -708 the result is that of -708, 3e-308. Processors work on
    several entries at the same time, because the loops have no branches.
    """
    for i in range(n):
        x = -708.0 if t[i] < -708.0 else t[i]
        # The sum ends with the digits of k.
        work[i] = x * _BINARY_LOGARITHM + _WHOLE
        k = work[i] - _WHOLE
        r = (x - k * _LOG_2) - k * _LOG_2_REST
        power = _SERIES[0]
        for c in _SERIES[1:]:
            power = power * r + c
        out[i] = power
    digits = work.view(np.int64)
    for i in range(n):
        digits[i] = (digits[i] << 52) + (1023 << 52)
    for i in range(n):
        out[i] *= work[i]


@njit(**_COMPILED)
def _write_slopes(formula: tuple[int, float, float], y: Any, z: Any, work: Any, out: Any) -> None:
    """Write the slopes of a loss, of a kind and two parameters, at predictors z for targets y.

    ``work`` has the shape (3, n).
    """
    kind, a, _ = formula
    if kind == PSEUDO_HUBER:
        for i in range(len(y)):
            # Its square is finite; from 1e16 on, the slope is a.
            r = (z[i] - y[i]) / a
            r = -1e100 if r < -1e100 else 1e100 if r > 1e100 else r
            out[i] = a * (r / np.sqrt(1.0 + r * r))
        return
    e = work[1]
    _write_heights(formula, z, len(y), work, out)
    for i in range(len(y)):
        sign = 1.0 - 2.0 * y[i]
        out[i] *= sign * (e[i] if sign * z[i] < 0 else 1.0)


@njit(**_COMPILED)
def _write_heights(formula: tuple[int, float, float], z: Any, n: int, work: Any, out: Any) -> None:
    """Write the absolute slopes of a loss of labels at |z|, and e^-|z| to work[1]."""
    kind, a, b = formula
    t, e, power = work[0], work[1], work[2]
    for i in range(n):
        t[i] = -abs(z[i])
    _write_exponentials(t, n, out, e)
    if kind == LOGISTIC:
        for i in range(n):
            out[i] = 1.0 / (1.0 + e[i])
    elif b == 1.5:
        for i in range(n):
            out[i] = 1.0 - (1.0 - a) * (e[i] * np.sqrt(e[i]))
    else:
        for i in range(n):
            t[i] *= b
        _write_exponentials(t, n, out, power)
        for i in range(n):
            out[i] = 1.0 - (1.0 - a) * power[i]


@njit(**_COMPILED | _ANY_ORDER)
def _add_products(x: Any, slopes: Any, has_rest: bool, z: Any) -> None:
    """Add the products of rows with both rows of slopes to z, (2, n)."""
    for i in range(x.shape[0]):
        a = b = 0.0
        if has_rest:
            for j in range(x.shape[1]):
                a += x[i, j] * slopes[0, j]
                b += x[i, j] * slopes[1, j]
        else:
            for j in range(x.shape[1]):
                a += x[i, j] * slopes[0, j]
        z[0, i] += a
        z[1, i] += b


@njit(**_COMPILED | _ANY_ORDER)
def _add_sums(x: Any, v: Any, out: Any) -> None:
    """Add v @ x to out."""
    n, p = x.shape
    whole = n - n % 4
    for i in range(0, whole, 4):
        for j in range(p):
            out[j] += (x[i, j] * v[i] + x[i + 1, j] * v[i + 1]) + (
                x[i + 2, j] * v[i + 2] + x[i + 3, j] * v[i + 3]
            )
    for i in range(whole, n):
        for j in range(p):
            out[j] += x[i, j] * v[i]


@njit(**_COMPILED)
def _add_tables(levels: Any, tables: Any, starts: Any, has_rest: bool, z: Any) -> None:
    """Add the entries of the tables at the levels of rows to z, (2, n)."""
    for c in range(levels.shape[0]):
        for i in range(levels.shape[1]):
            at = starts[c] + levels[c, i]
            z[0, i] += tables[0, at]
            if has_rest:
                z[1, i] += tables[1, at]


@njit(**_COMPILED)
def _write_predictors(
    x: Any, levels: Any, slopes: Any, tables: Any, starts: Any, has_rest: bool, z: Any
) -> None:
    """Write the predictors of rows to z[0], and their rests to z[1]."""
    z[0], z[1] = tables[0, 0], tables[1, 0]
    _add_tables(levels, tables, starts, has_rest, z)
    _add_products(x, slopes, has_rest, z)
    if has_rest:
        for i in range(x.shape[0]):
            z[0, i] += z[1, i]


@njit(**_COMPILED)
def _add_counts(levels: Any, v: Any, starts: Any, has_rest: bool, counts: Any) -> None:
    """Add v, (2, n), to the sums of the levels of rows."""
    for c in range(levels.shape[0]):
        for i in range(levels.shape[1]):
            at = starts[c] + levels[c, i]
            counts[0, at] += v[0, i]
            if has_rest:
                counts[1, at] += v[1, i]


@njit(**_COMPILED)
def _weigh(w: Any, v: Any, n: int, grid: float) -> None:
    """Multiply v[0] by n weights; divide it into multiples of the grid and rests, v[1]."""
    shift = 1.5 * 2.0**52 * grid
    for i in range(n):
        value = w[i] * v[0, i]
        v[0, i] = (value + shift) - shift if grid > 0 else value
        v[1, i] = value - v[0, i]


@njit(**_COMPILED | _ANY_ORDER)
def _totals(w: Any, z: Any, v: Any, n: int) -> tuple[float, float, float, float]:
    """Return the sums of n entries of w, of w |z|, of v[0], and of v[1]."""
    weights = sizes = high = low = 0.0
    for i in range(n):
        weights += w[i]
        sizes += w[i] * abs(z[i])
        high += v[0, i]
        low += v[1, i]
    return weights, sizes, high, low


@njit(**_COMPILED)
def slope_sums(
    numbers: Any,
    levels: Any,
    target: Any,
    weight: Any,
    formula: tuple[int, float, float],
    slopes: Any,
    tables: Any,
    starts: Any,
    grid: float,
) -> Any:
    """Return sums of weighted slopes over rows: times the numbers, and by level.

    Parameters
    ----------
    numbers : ndarray of float32, shape (n, p)
    levels : ndarray of unsigned integers, shape (columns, n)
    target : ndarray of float64, shape (n,)
    weight : ndarray of float64, shape (n,), or (0,) if every weight is 1
    formula : tuple of an int and two floats
        The kind of the loss and its parameters.
    slopes, tables : ndarrays of shape (2, p) and (2, 1 + levels)
        Leading parts and rests. ``tables`` has the constant, then the tables of all columns.
    starts : ndarray of uint64, shape (columns,)
        Position of each column's first level in ``tables``.
    grid : float
        Weighted slopes are divided into multiples of it and rests. If it is 0, there are no rests.

    Returns
    -------
    sums : ndarray of shape (2, p)
    counts : ndarray of shape (2, 1 + levels)
        The sums over all rows, then over those of each level.
    weights, sizes : float
        The sums of the weights, and of the weights times the absolute predictors.
    """
    n, p = numbers.shape
    sums, counts = np.zeros((2, p)), np.zeros_like(tables)
    z, v, work = np.empty((2, _TILE)), np.empty((2, _TILE)), np.empty((3, _TILE))
    ones = np.ones(_TILE)
    weights = sizes = 0.0
    has_rest = grid > 0
    for start in range(0, n, _TILE):
        rows = slice(start, min(n, start + _TILE))
        x, own, w = numbers[rows], levels[:, rows], weight[rows] if len(weight) else ones
        _write_predictors(x, own, slopes, tables, starts, has_rest, z)
        _write_slopes(formula, target[rows], z[0], work, v[0])
        _weigh(w, v, len(x), grid)
        found = _totals(w, z[0], v, len(x))
        weights += found[0]
        sizes += found[1]
        counts[0, 0] += found[2]
        counts[1, 0] += found[3]
        _add_counts(own, v, starts, has_rest, counts)
        _add_sums(x, v[0], sums[0])
        if has_rest:
            _add_sums(x, v[1], sums[1])
    return sums, counts, weights, sizes


def try_out() -> None:
    """Compile all functions for the usual types, or raise any error of the installation."""
    cells, numbers = np.zeros((2, 1)), np.zeros((2, 1), np.float32)
    ones, single, sums = np.ones(1), np.ones(1, np.float32), np.zeros((2, 1))
    scale_to_box(cells, ones, ones, False, cells)
    scale_column(np.zeros(2), 0.0, 1.0, False, np.zeros((2, 2))[:, 0])
    scale_singles(numbers, single, single, np.float32(1.0))
    squares_of_rows(numbers, np.zeros(2))
    sums_of_columns(numbers, 1.0, sums)
    levels, starts = np.zeros((0, 2), np.uint8), np.zeros(0, np.uint64)
    rows = numbers, levels, np.zeros(2), np.ones(2)
    slope_sums(*rows, (LOGISTIC, 0.0, 0.0), sums, sums, starts, 0.0)
