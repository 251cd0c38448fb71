"""Slopes and curvatures of losses, and their sums over rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from skdp._kernels.options import ANY_ORDER, COMPILED

# Rows whose predictors are computed before their numbers are added: both stay in the cache.
_TILE = 512

# Kinds of losses.
LOGISTIC, SHARP_LOGISTIC, PSEUDO_HUBER = range(3)

# For exponentials: 1 / log(2); log(2) in two parts, the first of which has 11 zeros at its end;
# a number whose sums with small numbers are whole; and 1 / k! from k = 13 to 0.
_BINARY_LOGARITHM = 1 / math.log(2)
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_WHOLE = 1.5 * 2.0**52
_SERIES = tuple(1 / math.factorial(k) for k in range(13, -1, -1))


@njit(**COMPILED)
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


@njit(**COMPILED)
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


@njit(**COMPILED)
def _write_curvatures(
    formula: tuple[int, float, float], y: Any, z: Any, work: Any, out: Any
) -> None:
    """Write the curvatures of a loss, as `_write_slopes` writes its slopes."""
    kind, a, b = formula
    if kind == PSEUDO_HUBER:
        for i in range(len(y)):
            r = (z[i] - y[i]) / a
            root = 1.0 / np.sqrt(1.0 + r * r)
            out[i] = root * root * root
        return
    e = work[1]
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


@njit(**ANY_ORDER)
def _add_products(numbers: Any, start: int, slopes: Any, z: Any, n: int) -> None:
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
def _add_sums(numbers: Any, start: int, v: Any, n: int, out: Any) -> None:
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
def _add_tables(levels: Any, tables: Any, starts: Any, has_rest: bool, z: Any) -> None:
    """Add the entries of the tables at the levels of rows to z, (2, n)."""
    for c in range(levels.shape[0]):
        for i in range(levels.shape[1]):
            at = starts[c] + levels[c, i]
            z[0, i] += tables[0, at]
            if has_rest:
                z[1, i] += tables[1, at]


@njit(**COMPILED)
def _write_predictors(rows: Any, start: int, n: int, parts: Any, has_rest: bool, z: Any) -> None:
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
def _add_counts(levels: Any, v: Any, starts: Any, has_rest: bool, counts: Any) -> None:
    """Add v, (2, n), to the sums of the levels of rows."""
    for c in range(levels.shape[0]):
        for i in range(levels.shape[1]):
            at = starts[c] + levels[c, i]
            counts[0, at] += v[0, i]
            if has_rest:
                counts[1, at] += v[1, i]


@njit(**COMPILED)
def _weigh(w: Any, v: Any, n: int, grid: float) -> None:
    """Multiply v[0] by n weights; divide it into multiples of the grid and rests, v[1]."""
    shift = 1.5 * 2.0**52 * grid
    for i in range(n):
        value = w[i] * v[0, i]
        v[0, i] = (value + shift) - shift if grid > 0 else value
        v[1, i] = value - v[0, i]


@njit(**ANY_ORDER)
def _add_totals(w: Any, z: Any, v: Any, n: int, totals: Any, counts: Any) -> None:
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
    rows: Any,
    target: Any,
    weight: Any,
    formula: tuple[int, float, float],
    parts: Any,
    grid: float,
) -> Any:
    """Return sums of weighted slopes over rows: times the numbers, and by level.

    Parameters
    ----------
    rows : tuple of arrays
        Numbers, float32 of shape (p, n), and levels, unsigned integers of shape (columns, n).
    target : ndarray of float64, shape (n,)
    weight : ndarray of float64, shape (n,), or (0,) if every weight is 1
    formula : tuple of an int and two floats
        The kind of the loss and its parameters.
    parts : tuple of arrays
        Slopes and tables, (2, p) and (2, 1 + levels): leading parts and rests. ``tables`` has the
        constant, then the tables of all columns. Then, as uint64 of shape (columns,), the position
        of each column's first level in ``tables``.
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
    (numbers, levels), starts = rows, parts[2]
    sums, counts = np.zeros((2, len(numbers))), np.zeros_like(parts[1])
    z, v, work = np.empty((2, _TILE)), np.empty((2, _TILE)), np.empty((3, _TILE))
    ones = np.ones(_TILE)
    totals = np.zeros(2)
    has_rest = grid > 0
    for start in range(0, len(target), _TILE):
        stop = min(len(target), start + _TILE)
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
    rows: Any, target: Any, weight: Any, formula: tuple[int, float, float], parts: Any
) -> Any:
    """Return the weighted curvatures of rows, (n,); the arguments are those of `slope_sums`."""
    z, work, found = np.empty((2, _TILE)), np.empty((3, _TILE)), np.empty(len(target))
    for start in range(0, len(target), _TILE):
        stop = min(len(target), start + _TILE)
        own = found[start:stop]
        _write_predictors(rows, start, stop - start, parts, False, z)
        _write_curvatures(formula, target[start:stop], z[0], work, own)
        if len(weight):
            own *= weight[start:stop]
    return found
