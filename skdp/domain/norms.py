"""Greatest norms of an encoded row, rounded up: the sensitivities are built on them."""

from __future__ import annotations

import math


def box_norm(n_ones: int, p: float) -> float:
    """Return the greatest l_p norm of rows with at most ``n_ones`` entries in [-1, 1], others 0."""
    return _root_up(n_ones, 1 / p) if n_ones else 0.0


def ball_norm(d: int, radius: float, p: float, intercept: bool) -> float:
    """Return the greatest l_p norm over a Euclidean ball of R^d, maybe next to a column of ones."""
    # The l_p norm is at most d^(1/p - 1/2) times the Euclidean one if p < 2, else at most it.
    widest = radius * _root_up(d, max(0.0, 1 / p - 0.5))
    if not intercept or p == math.inf:
        return max(widest, float(intercept))
    larger, smaller = max(1.0, widest), min(1.0, widest)
    return _up(larger * (1 + (smaller / larger) ** p) ** (1 / p))


def _root_up(count: int, exponent: float) -> float:
    root = float(count**exponent)
    return root if count == 1 or exponent in (0.0, 1.0) else _up(root)


def _up(value: float) -> float:
    # Sixteen units of rounding: more than two roots, a product and the rounding of 1/p can lose.
    return value * (1 + 2.0**-48)
