"""Arrays of records, exact sums over blocks, and rounding to the safe side.

An upper bound is 0, and a lower bound 1, only if the truth is.

In sums of privacy losses each float is read as its shortest decimal. So 0.1 stands for a tenth, as
the user wrote it, and ten tenths make 1. Every release still keeps the guarantee of its decimal: a
float differs from its shortest decimal by at most half a unit in the last place, about one part in
10^16, and calibrations leave a margin thousands of times as wide. A sum that is not the decimal of
a float is rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Array: TypeAlias = NDArray[Any]  # of numbers of any type, or of labels

# Number of cells of a wide row: numpy's operations on short rows cost more time for each cell.
_WIDE = 1024
# Number of columns that are summed by one call. Beyond 8192 numpy may cut the sum where a block of
# memory ends, which depends on the position of the row.
_STRIP = 4096


def wide_rows(block: FloatArray) -> Iterator[FloatArray]:
    """Yield views of all rows of a block, (n, d), with several rows side by side.

    A view with w columns is combined with the first w entries of `repeated` numbers per column.
    """
    n, d = block.shape
    if not (d and block.flags.c_contiguous):
        yield block
        return
    repeats = max(1, _WIDE // d)
    whole = n - n % repeats
    yield block[:whole].reshape(-1, repeats * d)
    yield block[whole:].reshape(1, -1)


def repeated(values: FloatArray) -> FloatArray:
    """Return one number per column, (d,), as often as in a wide row."""
    return np.tile(values, max(1, _WIDE // max(1, len(values))))


def squared_lengths(rows: FloatArray) -> FloatArray:
    """Return |row|_2^2 of each row, (n,), in the order of `row_products`."""
    strips = (rows[:, at : at + _STRIP] for at in range(0, rows.shape[1], _STRIP))
    total = np.zeros(len(rows))
    for strip in strips:
        total += np.einsum("ij,ij->i", strip, strip)
    return total


def row_products(rows: FloatArray, coef: FloatArray) -> FloatArray:
    """Return ``rows @ coef.T``, (n, models), each row in an order that depends only on its length.

    BLAS and `numpy.matmul` choose the order of summation by the number of rows and their position.
    So the last bits would depend on which rows are together. numpy's own loops over rows that are
    not longer than a buffer do not.
    """
    rows, out = np.ascontiguousarray(rows), np.zeros((len(rows), len(coef)))
    for at in range(0, rows.shape[1], _STRIP):
        for model, own in enumerate(coef[:, at : at + _STRIP]):
            out[:, model] += np.einsum("ij,j", rows[:, at : at + _STRIP], own)
    return out


def size_of_arrays(holder: object) -> int:
    """Return the bytes of the arrays that are attributes of an object.

    It is the ``__sizeof__`` of large objects: the scheduler of a cluster asks for it before it
    sends them to another worker.
    """
    return sum(own.nbytes for own in vars(holder).values() if isinstance(own, np.ndarray))


# Sums over blocks

Statistic: TypeAlias = Any  # arrays and numbers, or tuples and lists of them

# Sums of so many integers of at most 2^55 stay below 2^63.
FOLD = 2**7


def summed(values: Iterable[Statistic]) -> Statistic:
    """Return the sum of statistics: arrays and numbers, or tuples and lists of them; or None.

    Arrays of int64 with entries of at most 2^55 are added exactly; their sum is an array of Python
    integers. Lists are joined.
    """
    whole = part = None
    for count, value in enumerate(values, 1):
        part = _copied(value) if part is None else _increased(part, value)
        if count % FOLD == 0:
            whole, part = _folded(whole, part), None
    return whole if part is None else _folded(whole, part)


def _folded(whole: Statistic, part: Statistic) -> Statistic:
    part = _widened(part)
    return part if whole is None else _increased(whole, part)


def level_sums(codes: Array, values: FloatArray, count: int) -> FloatArray:
    """Return the sum of the values of the rows with each of ``count`` codes, (count,)."""
    # Without rows numpy returns integers, to which no floats can be added in place.
    return np.asarray(np.bincount(codes, values, count), dtype=float)


def joined(one: Statistic, other: Statistic) -> Statistic:
    """Return the sum of two statistics, without a change of either."""
    if isinstance(one, tuple):
        return tuple(map(joined, one, other))
    return one + other


def _increased(one: Statistic, other: Statistic) -> Statistic:
    """Return the sum of two statistics; arrays and lists of the first are changed in place."""
    if isinstance(one, tuple):
        return tuple(map(_increased, one, other))
    one += other
    return one


def _copied(value: Statistic) -> Statistic:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _widened(value: Statistic) -> Statistic:
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    if isinstance(value, np.ndarray) and value.dtype == np.int64:
        return value.astype(object)
    return value


# Gauges are computed in floats; a bound on one is raised by more than their error.
ROUND_UP = 1 + 1e-12
# The least logarithm of a positive number that is used.
LEAST_LOG = -float(np.finfo(float).max)
# A few roundings, as a relative error.
_ROUNDINGS = 16 * float(np.finfo(float).eps)
# Sums of floats, each from 5e-324 to 1.8e308, have fewer digits; otherwise Inexact is raised.
_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation])


def exp_up(log_value: float) -> float:
    """Return e^log_value, rounded up, and at most 1; 0 only for -inf."""
    if log_value == -math.inf:
        return 0.0
    return min(1.0, math.nextafter(math.exp(min(log_value, 0.0)), math.inf))


def at_least_tiny(value: float, *sources: float) -> float:
    """Return the next float above ``value``, or ``value`` if all sources are 0."""
    return math.nextafter(value, math.inf) if any(sources) else value


def tested(epsilon: float, delta: float, alpha: FloatArray) -> FloatArray:
    """Return max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)), rounded down."""
    log_alpha = np.log(np.where(alpha > 0, alpha, 1.0))
    with np.errstate(over="ignore"):
        grown = np.exp(epsilon + log_alpha + _ROUNDINGS * (1 + epsilon - log_alpha))
    grown = np.where(alpha > 0, grown, 0.0)
    flat = np.exp(-epsilon * (1 + _ROUNDINGS) - _ROUNDINGS) * _one_less(delta, alpha)
    least = np.maximum(_one_less(delta, grown), np.nextafter(flat, -np.inf) if epsilon else flat)
    return np.asarray(np.maximum(0.0, least))


def _one_less(delta: float, lost: FloatArray) -> FloatArray:
    """Return 1 - delta - lost, rounded down unless both are 0."""
    found = 1 - (delta + lost) * (1 + _ROUNDINGS)
    return np.where((delta > 0) | (lost > 0), np.nextafter(found, -np.inf), 1.0)


# Exact sums


def as_decimal(x: float) -> Decimal:
    """Return the shortest decimal that reads as the float ``x``."""
    return Decimal(repr(x))


def add(values: Iterable[float], start: Decimal = Decimal(0)) -> Decimal:
    """Return the exact sum of the decimals, and of an earlier sum."""
    return reduce(_EXACT.add, map(as_decimal, values), start)


def add_multiples(pairs: Iterable[tuple[float, int]]) -> Decimal:
    """Return the exact sum of the decimals, each times its count."""
    return reduce(_EXACT.add, (_EXACT.multiply(as_decimal(x), n) for x, n in pairs), Decimal(0))


def subtract(x: float, amount: Decimal) -> Decimal:
    """Return the exact difference."""
    return _EXACT.subtract(as_decimal(x), amount)


def float_above(x: Decimal) -> float:
    """Return the least float whose decimal is at least ``x`` >= 0; inf beyond all floats."""
    nearest = float(x)
    return nearest if as_decimal(nearest) >= x else math.nextafter(nearest, math.inf)


def float_below(x: Decimal) -> float:
    """Return the greatest float whose decimal is at most ``x`` >= 0."""
    nearest = float(x)
    return nearest if as_decimal(nearest) <= x else math.nextafter(nearest, 0.0)
