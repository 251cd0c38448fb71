"""The hull of the changes that one record can make in sums of numbers and of their squares.

For one number z in [-1, 1], with x = z and s = 2 z^2 - 1:

* Half of a difference of two records is (x, s) with |x| <= 1, |s| <= 1, and
  |s| <= 1 - (2 |x| - 1)^2 where |x| > 1/2. Several numbers vary independently, so the hull is a
  product.
* With the count, u = (c, x_1, ..., s_1, ...) is in the hull of {+-(1, z, 2 z^2 - 1)} if and only
  if |c| <= 1 and, with a = (1 + c) / 2 and b = (1 - c) / 2, for each number |x| <= 1 and
  -1 + 2 (|x| - b)_+^2 / a <= s <= 1 - 2 (|x| - a)_+^2 / b. At a given c this has the area
  A(c) = 10/3 - 2 c^2 / 3. So c has a density in proportion to A^k, and given c the numbers are
  independent.

Statement and proof: ``docs/proofs/moment_balls.md``, Theorem 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import roots_legendre

from skdp._arrays import FloatArray
from skdp._checks import check_count
from skdp._draws import signed, uniforms
from skdp.geometry.ball import as_points

# Mean squares of x and s without a count.
_SQUARE_OF_X, _SQUARE_OF_S = 49 / 200, 51 / 175
_NODES = 256
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class SquaresBall:
    """The hull of the changes of one record in sums of numbers and of their squares.

    Parameters
    ----------
    n_numbers : int, >= 1
        Numbers z in [-1, 1].
    counted : bool, default=False
        Coordinates: z_1, ..., z_k, 2 z_1^2, ..., 2 z_k^2, of which the ball holds half of the
        difference of any two records. If True: 1, z_1, ..., z_k, 2 z_1^2 - 1, ..., 2 z_k^2 - 1, and
        the ball holds plus or minus any record.

    Examples
    --------
    >>> from skdp.geometry import SquaresBall
    >>> float(SquaresBall(1).gauge([2.0, 0.0])), float(SquaresBall(1).gauge([1.0, 2.0]))
    (2.0, 2.0)
    >>> float(SquaresBall(1, counted=True).gauge([1.0, 0.5, -0.5]))
    1.0
    """

    n_numbers: int
    counted: bool = False
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_numbers", check_count("n_numbers", self.n_numbers))
        object.__setattr__(self, "counted", bool(self.counted))

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return 2 * self.n_numbers + self.counted

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v = as_points(v, self.dim)
        count, x, s = np.split(v, [self.counted, self.counted + self.n_numbers], axis=-1)
        own = counted_square_gauge(count, x, s) if self.counted else 2 * square_gauge(x, s)
        return np.asarray(own.max(axis=-1))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        count = self._counts(n, rng)
        x, s = np.empty((2, n, self.n_numbers))
        row, column = np.indices(x.shape).reshape(2, -1)
        while len(row):
            size, height = uniforms(len(row), rng), 2 * uniforms(len(row), rng) - 1
            low, high = self._ends(size, count[row])
            kept = (low <= height) & (height <= high)
            at = row[kept], column[kept]
            x[at], s[at] = signed(size[kept], rng), height[kept]
            row, column = row[~kept], column[~kept]
        return np.hstack([count[:, None]] * self.counted + [x, s])

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        if not self.counted:
            return np.repeat([_SQUARE_OF_X, _SQUARE_OF_S], self.n_numbers)
        count, x, s = self._moments
        return np.concatenate([[count], np.repeat([x, s], self.n_numbers)])

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,): ones."""
        return np.ones(self.dim)

    def _counts(self, n: int, rng: Generator) -> FloatArray:
        """Return draws of the count, (n,); zeros without one."""
        count = np.zeros(n)
        missing = np.arange(n if self.counted else 0)
        while len(missing):
            tried = uniforms(len(missing), rng)
            kept = rng.random(len(missing)) < (1 - tried**2 / 5) ** self.n_numbers
            count[missing[kept]] = signed(tried[kept], rng)
            missing = missing[~kept]
        return count

    def _ends(self, size: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the greatest s at |x| = size."""
        if not self.counted:
            high = 1 - np.maximum(2 * size - 1, 0.0) ** 2
            return -high, high
        return counted_square_ends(count, size)

    @cached_property
    def _moments(self) -> tuple[float, float, float]:
        """Mean squares of the count, of x and of s."""
        nodes, weights = roots_legendre(_NODES)
        # The density of c is below e^-40 of its maximum beyond this distance.
        c = min(1.0, math.sqrt(200 / self.n_numbers)) * nodes
        a, b, area = (1 + c) / 2, (1 - c) / 2, 10 / 3 - 2 * c**2 / 3
        weights = weights * (1 - c**2 / 5) ** self.n_numbers
        x = 4 / 3 - _lost_of_x(a, b) - _lost_of_x(b, a)
        s = _cubes(a, b) + _cubes(b, a)
        means = [weights @ m / weights.sum() for m in (c**2, x / area, s / area)]
        return float(means[0]), float(means[1]), float(means[2])


def _lost_of_x(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the integral of x^2 2 (|x| - a)_+^2 / b over [-1, 1], b = 1 - a."""
    return np.asarray(4 * (b**4 / 5 + a * b**3 / 2 + a**2 * b**2 / 3))


def _cubes(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the integral of (1 - 2 (|x| - a)_+^2 / b)^3 / 3 over [-1, 1], b = 1 - a."""
    return np.asarray(2 / 3 * (a + b * (1 - 2 * b + 12 * b**2 / 5 - 8 * b**3 / 7)))


# Gauges of one number and its square


def square_gauge(u: FloatArray, square: FloatArray) -> FloatArray:
    """Return the gauge of the hull of {(z - z', 2 z^2 - 2 z'^2) : z, z' in [-1, 1]}, elementwise.

    The hull K_2 is |u| <= 2, |s| <= 2, and |s| <= 2 - 2 (|u| - 1)^2 where |u| > 1.
    """
    a, b = np.abs(u), np.abs(square)
    # On the curved part b / t = 4 a / t - 2 (a / t)^2. It applies only if b < 2 a.
    share = np.divide(b, a, out=np.full(np.broadcast(a, b).shape, 2.0), where=b < 2 * a)
    return np.maximum(b / 2, np.where(share < 2, 2 * a / (4 - share), 0.0))


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
