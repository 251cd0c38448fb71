"""Bodies of two and three moments, for replaced and for added or removed records."""

from __future__ import annotations

import numpy as np

from skdp._arrays import FloatArray

_TINY = np.finfo(float).tiny


def square_gauge(u: FloatArray, square: FloatArray) -> FloatArray:
    """Return the gauge of the hull of {(z - z', 2 z^2 - 2 z'^2) : z, z' in [-1, 1]}, elementwise.

    The hull K_2 is |u| <= 2, |s| <= 2, and |s| <= 2 - 2 (|u| - 1)^2 where |u| > 1.
    """
    a, b = np.abs(u), np.abs(square)
    # On the curved part b / t = 4 a / t - 2 (a / t)^2. It applies only if b < 2 a.
    share = np.divide(b, a, out=np.full(np.broadcast(a, b).shape, 2.0), where=b < 2 * a)
    return np.maximum(b / 2, np.where(share < 2, 2 * a / (4 - share), 0.0))


def product_gauge(u: FloatArray, v: FloatArray, product: FloatArray) -> FloatArray:
    """Return the gauge of the hull of the differences of (x, y, x y), x, y in [-1, 1].

    The hull K_3 is |u|, |v|, |p| <= 2 and |u| + |v| + |p| <= 4.
    """
    a, b, c = np.abs(u), np.abs(v), np.abs(product)
    return np.asarray(np.maximum(np.maximum(np.maximum(a, b), c) / 2, (a + b + c) / 4))


def counted_square_gauge(count: FloatArray, u: FloatArray, square: FloatArray) -> FloatArray:
    """Return the gauge of the hull of {+-(1, z, 2 z^2 - 1) : z in [-1, 1]}, elementwise."""
    flat = np.maximum(np.maximum(np.abs(count), np.abs(u)), np.abs(square))
    upper = _curved(count, np.abs(u), square, flat)
    return np.maximum(upper, _curved(-count, np.abs(u), -square, flat))


def _curved(count: FloatArray, u: FloatArray, square: FloatArray, flat: FloatArray) -> FloatArray:
    """Return the least t >= flat with (t - s)(t - c) >= (2 u - c - t)_+^2."""
    short = np.maximum(2 * u - count - flat, 0.0)
    above, beyond = flat - square, flat - count
    active = above * beyond < short**2
    # With t = flat + r the squares of r drop out: r (above + beyond + 2 short) is the difference of
    # both sides at flat. Solved for t itself the equation would cancel near a corner of the hull.
    slope = np.where(active, above + beyond + 2 * short, 1.0)
    return np.where(active, flat + (short / slope * short - above / slope * beyond), flat)


def counted_square_ends(count: FloatArray, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of s for which (count, size, s) is in the hull of `counted_square_gauge`."""
    low, high = (
        2 * np.maximum(size - (1 - c) / 2, 0.0) ** 2 / np.maximum((1 + c) / 2, _TINY)
        for c in (count, -count)
    )
    return -1 + low, 1 - high


def counted_product_gauge(
    count: FloatArray, u: FloatArray, v: FloatArray, product: FloatArray
) -> FloatArray:
    """Return the gauge of the hull of {+-(1, x, y, x y) : x, y in [-1, 1]}, elementwise."""
    # The corners are the rows of a Hadamard matrix and their negatives: a rotated cross.
    plus, minus = count + product, count - product
    same, other = u + v, u - v
    sums = np.abs(plus + same) + np.abs(plus - same) + np.abs(minus + other) + np.abs(minus - other)
    return np.asarray(sums / 4)
