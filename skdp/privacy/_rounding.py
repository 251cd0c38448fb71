"""Rounding to the safe side. An upper bound is 0, and a lower bound 1, only if the truth is."""

from __future__ import annotations

import math

import numpy as np

from skdp._arrays import FloatArray

# The least logarithm of a positive number that is used.
LEAST_LOG = -float(np.finfo(float).max)
# A few roundings, as a relative error.
_ROUNDINGS = 16 * float(np.finfo(float).eps)


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
