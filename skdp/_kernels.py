"""Functions over the rows of a block, compiled by numba; see `skdp._compiled`.

Each function reads its rows once and does not hold the lock of the interpreter, so that several
threads work at the same time. Numbers are columns of an array, (p, n), so that processors work on
several rows at the same time. Only sums of products may be added in another order
(`ANY_ORDER`). All other operations are rounded as they are written. Loops over four columns
are written out in each function: with a shared function for the columns, sums of slopes take up to
a third longer.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numba import config, njit
from numpy.typing import NDArray

if config.DISABLE_JIT:
    raise ImportError("numba does not compile in this process, and loops of Python are slow")

Array: TypeAlias = NDArray[Any]
_Rows: TypeAlias = tuple[Array, Array]  # numbers and levels
_Formula: TypeAlias = tuple[int, float, float]
_Parts: TypeAlias = tuple[Array, Array, Array]
COMPILED: dict[str, bool | str] = {"nogil": True, "cache": True, "error_model": "numpy"}
# For functions of sums of products, which may be added in another order.
ANY_ORDER: dict[str, bool | str | set[str]] = {**COMPILED, "fastmath": {"reassoc", "contract"}}

# Numbers scaled to [-1, 1]

# Rows that are scaled before they are written to all columns: they stay in the cache.
_ROWS = 128


@njit(**COMPILED)
def _scaled(cell: float, lower: float, factor: float, is_unit: bool, fill: float) -> float:
    """Return (cell - lower) * factor - 1, or the cell if ``is_unit``, clipped to [-1, 1].

    NaN is replaced by ``fill``.
    """
    x = cell if is_unit else (cell - lower) * factor - 1.0
    x = -1.0 if x < -1.0 else 1.0 if x > 1.0 else x
    return fill if x != x else x


@njit(**COMPILED)
def scale_rows(
    cells: Array, lower: Array, factor: Array, is_unit: bool, fill: Array, out: Array
) -> bool:
    """Write (cells - lower) * factor - 1, clipped to [-1, 1]; return whether cells are valid.

    ``cells`` and ``out`` have the shape (n, p), the others (p,). If ``is_unit``, cells are clipped
    only. Each operation is rounded as in `skdp.domain.layout.BoxProjection`. Infinite cells are not
    valid. A ``fill`` is written in place of NaN, which is not valid if the fill is NaN.
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
    cells: Array, lower: Array, factor: Array, is_unit: bool, fill: Array, out: Array
) -> bool:
    """Write what `scale_rows` writes to an array of columns, (p, n)."""
    is_valid = True
    tile = np.empty((_ROWS, cells.shape[1]), out.dtype)
    for start in range(0, cells.shape[0], _ROWS):
        is_valid &= scale_rows(cells[start : start + _ROWS], lower, factor, is_unit, fill, tile)
        for j in range(cells.shape[1]):
            column = out[j, start : start + _ROWS]
            for i in range(len(column)):
                column[i] = tile[i, j]
    return is_valid


@njit(**COMPILED)
def scale_column(
    cells: Array, lower: float, factor: float, is_unit: bool, fill: float, out: Array
) -> bool:
    """Write what `scale_rows` writes, for one column."""
    is_bad, has_fill = False, fill == fill
    for i in range(cells.shape[0]):
        cell = np.float64(cells[i])
        out[i] = _scaled(cell, lower, factor, is_unit, fill)
        is_bad |= abs(cell) == np.inf if has_fill else not abs(cell) < np.inf
    return not is_bad


@njit(**COMPILED)
def place_rows(rows: Array, factor: Array, centre: Array, most: float) -> None:
    """Replace rows (n, p) by rows * factor - centre, clipped to [-most, most]."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[i, j] * factor[j] - centre[j]
            rows[i, j] = -most if x < -most else most if x > most else x


@njit(**COMPILED)
def scale_singles(numbers: Array, centre: Array, factor: Array, rounder: np.float32) -> None:
    """Replace columns (p, n) by (numbers - centre) * factor, clipped to [-1, 1] and rounded.

    All are float32. Adding and subtracting ``rounder`` rounds. Results have no array of their own:
    a loop that may read what it writes is compiled for one entry at a time.
    """
    one = np.float32(1.0)
    for j in range(numbers.shape[0]):
        column, c, f = numbers[j], centre[j], factor[j]
        for i in range(numbers.shape[1]):
            x = (column[i] - c) * f
            x = -one if x < -one else x
            x = one if x > one else x
            column[i] = (x + rounder) - rounder


# Sums of columns and of their products

# Rows whose columns are read several times: they stay in the cache.
_TILE = 256


@njit(**ANY_ORDER)
def add_squares(numbers: Array, out: Array) -> None:
    """Add the squares of each row of columns (p, n) to out, (n,). Every sum is exact."""
    for start in range(0, numbers.shape[1], _TILE):
        own = out[start : start + _TILE]
        for j in range(numbers.shape[0]):
            x = numbers[j, start : start + _TILE]
            for i in range(len(own)):
                a = np.float64(x[i])
                own[i] += a * a


@njit(**COMPILED)
def _round(x: Array, rounder: float, out: Array) -> None:
    """Write x rounded by adding and subtracting ``rounder``."""
    for i in range(len(x)):
        out[i] = (x[i] + rounder) - rounder


@njit(**ANY_ORDER)
def _sums(x: Array, n: int) -> tuple[float, float]:
    a = b = 0.0
    for i in range(n):
        a += x[i]
        b += x[i] * x[i]
    return a, b


@njit(**COMPILED)
def sums_of_columns(numbers: Array, rounder: float, out: Array) -> None:
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


@njit(**COMPILED)
def sums_of_rows(numbers: Array, unit: float, rounder: float) -> Array:
    """Return what `sums_of_columns` writes, for rows (n, p) over a unit."""
    out = np.zeros((2, numbers.shape[1]))
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            x = (numbers[i, j] / unit + rounder) - rounder
            out[0, j] += x
            out[1, j] += x * x
    return out


@njit(**ANY_ORDER)
def _add_gram(left: Array, right: Array, n: int, out: Array) -> None:
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
def gram_of_columns(numbers: Array, last: Array, weight: Array, rounder: float) -> Array:
    """Return the Gram matrix of the rows (1, numbers, last), for numbers of shape (p, n).

    ``last`` and ``weight`` are float64 of shape (n,), or (0,) if the rows are (1, numbers) or every
    weight is 1. Entries are rounded by adding and subtracting ``rounder``, such that sums are
    exact; they are not rounded if it is 0.
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


# Slopes and curvatures of losses, and their sums over rows

# Rows whose predictors are computed before their numbers are added: both stay in the cache.
_SLOPE_TILE = 512

# Kinds of losses.
LOGISTIC, SHARP_LOGISTIC, PSEUDO_HUBER, QUANTILE, COUNT = range(5)

# For exponentials: 1 / log(2); log(2) in two parts, the first of which has 11 zeros at its end;
# a number whose sums with small numbers are whole; and 1 / k! from k = 13 to 0.
_BINARY_LOGARITHM = 1 / math.log(2)
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_WHOLE = 1.5 * 2.0**52
_SERIES = tuple(1 / math.factorial(k) for k in range(13, -1, -1))


@njit(**COMPILED)
def _write_exponentials(t: Array, n: int, work: Array, out: Array) -> None:
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


@njit(**COMPILED)
def _write_slopes(formula: _Formula, y: Array, z: Array, work: Array, out: Array) -> None:
    """Write the slopes of a loss, of a kind and two parameters, at predictors z for targets y.

    ``work`` has the shape (3, n).
    """
    kind, a, b = formula
    if kind == PSEUDO_HUBER:
        for i in range(len(y)):
            # Its square is finite; from 1e16 on, the slope is a.
            r = (z[i] - y[i]) / a
            r = -1e100 if r < -1e100 else 1e100 if r > 1e100 else r
            out[i] = a * (r / np.sqrt(1.0 + r * r))
        return
    e = work[1]
    if kind == COUNT:
        _write_residuals(formula, y, z, work, out)
        for i in range(len(y)):
            out[i] = a * (out[i] / np.sqrt(1.0 + out[i] * out[i]))
        return
    if kind == QUANTILE:
        _write_heights(formula, (z[: len(y)] - y) / a, len(y), work, out)
        for i in range(len(y)):
            out[i] = out[i] * (e[i] if z[i] < y[i] else 1.0) - b
        return
    _write_heights(formula, z, len(y), work, out)
    for i in range(len(y)):
        sign = 1.0 - 2.0 * y[i]
        out[i] *= sign * (e[i] if sign * z[i] < 0 else 1.0)


@njit(**COMPILED)
def _write_curvatures(formula: _Formula, y: Array, z: Array, work: Array, out: Array) -> None:
    """Write the curvatures of a loss, as `_write_slopes` writes its slopes."""
    kind, a, b = formula
    if kind == PSEUDO_HUBER:
        for i in range(len(y)):
            r = (z[i] - y[i]) / a
            root = 1.0 / np.sqrt(1.0 + r * r)
            out[i] = root * root * root
        return
    e = work[1]
    if kind == COUNT:
        _write_residuals(formula, y, z, work, out)
        for i in range(len(y)):
            root = 1.0 / np.sqrt(1.0 + out[i] * out[i])
            out[i] = root * root * root * 0.5 * e[i]
        return
    if kind == QUANTILE:
        _write_heights(formula, (z[: len(y)] - y) / a, len(y), work, out)
        for i in range(len(y)):
            out[i] *= e[i] * out[i] / a
        return
    _write_heights(formula, z, len(y), work, out)
    for i in range(len(y)):
        if kind == LOGISTIC:
            out[i] *= e[i] * out[i]
        else:
            # out = 1 - f, and the curvature is e (1 - (1 + b) f) or b f.
            f = 1.0 - out[i]
            is_small = (1.0 - 2.0 * y[i]) * z[i] < 0
            out[i] = e[i] * (1.0 - (1.0 + b) * f) if is_small else b * f


@njit(**COMPILED)
def _write_residuals(formula: _Formula, y: Array, z: Array, work: Array, out: Array) -> None:
    """Write the residuals of means of counts, over the threshold, and twice the rise to work[1]."""
    _, a, b = formula
    t, e = work[0], work[1]
    for i in range(len(y)):
        t[i] = -abs(z[i] + b)
    _write_exponentials(t, len(y), out, e)
    for i in range(len(y)):
        mean = 0.5 * e[i] if z[i] + b <= 0 else 1.0 - 0.5 * e[i]
        out[i] = (mean - 0.5 * (y[i] + 1.0)) / a


@njit(**COMPILED)
def _write_heights(formula: _Formula, z: Array, n: int, work: Array, out: Array) -> None:
    """Write the absolute slopes of a loss of labels at |z|, and e^-|z| to work[1]."""
    kind, a, b = formula
    t, e, power = work[0], work[1], work[2]
    for i in range(n):
        t[i] = -abs(z[i])
    _write_exponentials(t, n, out, e)
    if kind in (LOGISTIC, QUANTILE):
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


@njit(**ANY_ORDER)
def _add_products(numbers: Array, start: int, slopes: Array, z: Array, n: int) -> None:
    """Add the products of slopes with n rows of columns, from ``start`` on, to z."""
    p = numbers.shape[0]
    whole, stop = p - p % 4, start + n
    for j in range(0, whole, 4):
        x0, x1 = numbers[j, start:stop], numbers[j + 1, start:stop]
        x2, x3 = numbers[j + 2, start:stop], numbers[j + 3, start:stop]
        a, b, c, d = slopes[j], slopes[j + 1], slopes[j + 2], slopes[j + 3]
        for i in range(n):
            z[i] += (x0[i] * a + x1[i] * b) + (x2[i] * c + x3[i] * d)
    for j in range(whole, p):
        x0, a = numbers[j, start:stop], slopes[j]
        for i in range(n):
            z[i] += x0[i] * a


@njit(**ANY_ORDER)
def _add_sums(numbers: Array, start: int, v: Array, n: int, out: Array) -> None:
    """Add the products of n rows of columns, from ``start`` on, with v to out."""
    p = numbers.shape[0]
    whole, stop = p - p % 4, start + n
    for j in range(0, whole, 4):
        x0, x1 = numbers[j, start:stop], numbers[j + 1, start:stop]
        x2, x3 = numbers[j + 2, start:stop], numbers[j + 3, start:stop]
        a = b = c = d = 0.0
        for i in range(n):
            value = v[i]
            a += x0[i] * value
            b += x1[i] * value
            c += x2[i] * value
            d += x3[i] * value
        out[j] += a
        out[j + 1] += b
        out[j + 2] += c
        out[j + 3] += d
    for j in range(whole, p):
        x0, a = numbers[j, start:stop], 0.0
        for i in range(n):
            a += x0[i] * v[i]
        out[j] += a


@njit(**COMPILED)
def _add_tables(levels: Array, tables: Array, starts: Array, has_rest: bool, z: Array) -> None:
    """Add the entries of the tables at the levels of rows to z, (2, n)."""
    for c in range(levels.shape[0]):
        for i in range(levels.shape[1]):
            at = starts[c] + levels[c, i]
            z[0, i] += tables[0, at]
            if has_rest:
                z[1, i] += tables[1, at]


@njit(**COMPILED)
def _write_predictors(
    rows: _Rows, start: int, n: int, parts: _Parts, has_rest: bool, z: Array
) -> None:
    """Write the predictors of n rows, from ``start`` on, to z[0], and their rests to z[1]."""
    (numbers, levels), (slopes, tables, starts) = rows, parts
    z[0], z[1] = tables[0, 0], tables[1, 0]
    _add_tables(levels[:, start : start + n], tables, starts, has_rest, z)
    _add_products(numbers, start, slopes[0], z[0], n)
    if has_rest:
        _add_products(numbers, start, slopes[1], z[1], n)
        for i in range(n):
            z[0, i] += z[1, i]


@njit(**COMPILED)
def _add_counts(levels: Array, v: Array, starts: Array, has_rest: bool, counts: Array) -> None:
    """Add v, (2, n), to the sums of the levels of rows."""
    for c in range(levels.shape[0]):
        for i in range(levels.shape[1]):
            at = starts[c] + levels[c, i]
            counts[0, at] += v[0, i]
            if has_rest:
                counts[1, at] += v[1, i]


@njit(**COMPILED)
def _weigh(w: Array, v: Array, n: int, grid: float) -> None:
    """Multiply v[0] by n weights; divide it into multiples of the grid and rests, v[1]."""
    shift = 1.5 * 2.0**52 * grid
    for i in range(n):
        value = w[i] * v[0, i]
        v[0, i] = (value + shift) - shift if grid > 0 else value
        v[1, i] = value - v[0, i]


@njit(**ANY_ORDER)
def _add_totals(w: Array, z: Array, v: Array, n: int, totals: Array, counts: Array) -> None:
    """Add the sums of n entries of w and of w |z| to totals, and those of v to counts[:, 0]."""
    weights = sizes = high = low = 0.0
    for i in range(n):
        weights += w[i]
        sizes += w[i] * abs(z[i])
        high += v[0, i]
        low += v[1, i]
    totals[0] += weights
    totals[1] += sizes
    counts[0, 0] += high
    counts[1, 0] += low


@njit(**COMPILED)
def slope_sums(
    rows: _Rows, target: Array, weight: Array, formula: _Formula, parts: _Parts, grid: float
) -> tuple[Array, Array, float, float]:
    """Return sums of weighted slopes over rows: times the numbers, and by level.

    The result is (sums, counts, weights, sizes): (2, p) sums times the numbers; (2, 1 + levels)
    sums over all rows, then over those of each level; and the sums of the weights, and of the
    weights times the absolute predictors.

    Parameters
    ----------
    rows : tuple of arrays
        Numbers, float32 of shape (p, n), and levels, unsigned integers of shape (columns, n).
    weight : ndarray of float64, shape (n,), or (0,) if every weight is 1
    formula : tuple of an int and two floats
        The kind of the loss and its parameters.
    parts : tuple of arrays
        Slopes and tables, (2, p) and (2, 1 + levels): leading parts and rests. ``tables`` has the
        constant, then the tables of all columns. Then, as uint64 of shape (columns,), the position
        of each column's first level in ``tables``.
    grid : float
        Weighted slopes are divided into multiples of it and rests. If it is 0, there are no rests.
    """
    (numbers, levels), starts = rows, parts[2]
    sums, counts = np.zeros((2, len(numbers))), np.zeros_like(parts[1])
    z, v, work = np.empty((2, _SLOPE_TILE)), np.empty((2, _SLOPE_TILE)), np.empty((3, _SLOPE_TILE))
    ones = np.ones(_SLOPE_TILE)
    totals = np.zeros(2)
    has_rest = grid > 0
    for start in range(0, len(target), _SLOPE_TILE):
        stop = min(len(target), start + _SLOPE_TILE)
        n, w = stop - start, weight[start:stop] if len(weight) else ones
        _write_predictors(rows, start, n, parts, has_rest, z)
        _write_slopes(formula, target[start:stop], z[0], work, v[0])
        _weigh(w, v, n, grid)
        _add_totals(w, z[0], v, n, totals, counts)
        _add_counts(levels[:, start:stop], v, starts, has_rest, counts)
        _add_sums(numbers, start, v[0], n, sums[0])
        if has_rest:
            _add_sums(numbers, start, v[1], n, sums[1])
    return sums, counts, totals[0], totals[1]


@njit(**COMPILED)
def curvatures(
    rows: _Rows, target: Array, weight: Array, formula: _Formula, parts: _Parts
) -> Array:
    """Return the weighted curvatures of rows, (n,); the arguments are those of `slope_sums`."""
    z, work, found = np.empty((2, _SLOPE_TILE)), np.empty((3, _SLOPE_TILE)), np.empty(len(target))
    for start in range(0, len(target), _SLOPE_TILE):
        stop = min(len(target), start + _SLOPE_TILE)
        own = found[start:stop]
        _write_predictors(rows, start, stop - start, parts, False, z)
        _write_curvatures(formula, target[start:stop], z[0], work, own)
        if len(weight):
            own *= weight[start:stop]
    return found


def try_out() -> None:
    """Compile all functions for the usual types, or raise any error of the installation."""
    cells, ones, sums = np.zeros((2, 1)), np.ones(1), np.zeros((2, 1))
    columns, single = np.zeros((1, 2), np.float32), np.ones(1, np.float32)
    scale_rows(cells, ones, ones, False, ones, cells)
    scale_to_columns(cells, ones, ones, False, ones, columns)
    scale_column(cells[:, 0].copy(), 0.0, 1.0, False, 0.0, columns[0])
    scale_column(cells[:, 0].copy(), 0.0, 1.0, False, 0.0, np.zeros(2))
    place_rows(cells, ones, ones, 1.0)
    scale_singles(columns, single, single, np.float32(1.0))
    add_squares(columns, np.zeros(2))
    sums_of_columns(columns, 1.0, sums)
    sums_of_rows(cells, 1.0, 1.0)
    gram_of_columns(np.zeros((1, 2)), np.zeros(2), np.zeros(0), 1.0)
    gram_of_columns(columns, np.zeros(0), np.zeros(2), 0.0)
    rows, starts = (columns, np.zeros((0, 2), np.uint8)), np.zeros(0, np.uint64)
    known = rows, np.zeros(2), np.ones(2), (LOGISTIC, 0.0, 0.0), (sums, sums, starts)
    slope_sums(*known, 0.0)
    curvatures(*known)
