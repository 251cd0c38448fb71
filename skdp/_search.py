"""Searches for the place where an increasing function passes 0 or a condition changes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from skdp.trusted.checks import fail

_LEAST = 1e-290
# Brent's method needs finite numbers; far from the root their size does not matter.
_FLAT = 50.0


def narrowed(
    is_high: Callable[[float], bool], low: float, high: float, rtol: float = 0.0
) -> tuple[float, float]:
    """Return the ends of a bracket of width at most ``rtol * high``.

    ``is_high`` has been false at the first and true at the second. The bracket is wider than that
    if no float lies inside it.
    """
    while high - low > rtol * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if is_high(middle) else (middle, high)
    return low, high


def halved(
    is_high: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    width: float,
) -> NDArray[np.float64]:
    """Return the lower ends of many brackets after halving them to a width."""
    while (high - low).max(initial=0.0) > width:
        middle = (low + high) / 2
        above = is_high(middle)
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return low


def passing_below_root(
    excess: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float,
    back: float = 0.0,
    floor: float = -math.inf,
) -> float:
    """Return an x with excess(x) <= 0 just below the root of an increasing excess.

    ``low`` has passed: excess(low) <= 0 < excess(high). The first step back from the root is
    ``back``; further steps double until a point passes. Values below ``floor`` are replaced by it:
    Brent's method needs finite numbers.
    """
    root = brentq(lambda x: max(excess(x), floor), low, high, xtol=xtol, rtol=1e-15)
    point, step = float(root) - back, 2 * back or xtol
    while point > low and excess(point) > 0:
        point, step = point - step, 2 * step
    return max(point, low)


def last_passing(
    excess: Callable[[float], float],
    start: float,
    *,
    tolerance: float = 1e-14,
    factor: float = 1.25,
) -> float:
    """Return the greatest x > 0 with excess(x) <= 0 for an increasing excess, up to ``tolerance``.

    The excess may be -inf or inf. It has returned a number <= 0 for the result. ``factor`` is the
    first guess of the ratio of the result and the start. Brent's method in log x ends with two
    points that it has evaluated, one on either side of the root and as close as the tolerance. The
    result is the one that has passed. It is an error if no x >= 1e-290 passes.
    """
    low = high = start
    at_low = at_high = excess(start)
    while not at_low <= 0:  # also if it is NaN
        high, at_high = low, at_low
        low, factor = low / factor, _wider(factor)
        if low < _LEAST:
            raise fail("delta", "be so great that the noise is a finite number")
        at_low = excess(low)
    while at_high <= 0:
        low, at_low = high, at_high
        high, factor = high * factor, _wider(factor)
        at_high = excess(high)
    width, step = math.log(high / low), max(tolerance, 3e-16)
    seen = {0.0: at_low, width: at_high}

    def bounded(t: float) -> float:
        if t not in seen:
            seen[t] = excess(low * math.exp(t))
        return min(max(seen[t], -_FLAT), _FLAT) if seen[t] <= _FLAT else _FLAT

    if width > step:
        brentq(bounded, 0.0, width, xtol=step, rtol=1e-15)
    return low * math.exp(max(t for t, value in seen.items() if value <= 0))


def _wider(factor: float) -> float:
    """Return the next factor, which grows fast if a close guess was wrong."""
    return min(factor ** (2 if factor > 1.01 else 16), 1e100)
