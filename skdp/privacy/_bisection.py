"""Bisection on floats."""

from __future__ import annotations

from collections.abc import Callable


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
