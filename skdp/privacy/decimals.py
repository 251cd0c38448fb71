"""Exact sums of amounts of privacy loss, each float read as its shortest decimal.

So 0.1 stands for a tenth, as the user wrote it, and ten tenths make 1. Every release still keeps
the guarantee of its decimal: a float differs from its shortest decimal by at most half a unit in
the last place, about one part in 10^16, and calibrations leave a margin thousands of times as
wide. A sum that is not the decimal of a float is rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import reduce

# Sums of floats, each from 5e-324 to 1.8e308, have fewer digits; otherwise Inexact is raised.
_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation])


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
