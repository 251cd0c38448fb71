"""Rounding to the safe side, and exact sums of amounts of privacy loss.

An upper bound is 0, and a lower bound 1, only if the truth is.

In sums each float is read as its shortest decimal. So 0.1 stands for a tenth, as the user wrote it,
and ten tenths make 1. Every release still keeps the guarantee of its decimal: a float differs from
its shortest decimal by at most half a unit in the last place, about one part in 10^16, and
calibrations leave a margin thousands of times as wide. A sum that is not the decimal of a float is
rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import reduce

import numpy as np

from skdp.trusted.arrays import FloatArray

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
