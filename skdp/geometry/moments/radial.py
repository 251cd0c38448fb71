"""The ball of the changes that one record can make if rows are bounded in length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_positive, fail
from skdp.geometry.ball import MappedBall, as_points
from skdp.geometry.lp import LpBall
from skdp.geometry.moments._greatest import ROUND_UP, Sorts, greatest_squares, sorts_of
from skdp.geometry.moments.layout import IntArray, MomentLayout

# Optional members that the ellipsoid provides.
OPTIONAL = ("log_volume", "support", "bounding_box", "covariance", "variance")


@dataclass(frozen=True)
class RadialMomentBall:
    """An ellipsoid around the moments' differences for rows |x|_2 <= radius and |y| <= 1.

    In the moments of order two it is a ball of the Frobenius norm, which is invariant under
    rotations of the rows, as the domain is. Lemma 3 of ``docs/proofs/matrix_laplace.md`` gives
    the greatest weighted sum of squares.

    Parameters
    ----------
    layout : MomentLayout
        A layout of numbers only, with a target.
    radius : float > 0
        Bound on |x|_2.

    Examples
    --------
    >>> from skdp.geometry.moments import MomentLayout
    >>> ball = RadialMomentBall(MomentLayout(2, range(2)), radius=1.0)
    >>> x, u = np.array([0.6, 0.8, 1.0]), np.array([-0.6, 0.8, 1.0])
    >>> moments = [np.outer(v, v) for v in (np.append(1, x), np.append(1, u))]
    >>> bool(ball.gauge(ball.layout.statistic(moments[0] - moments[1])) <= 1)
    True
    """

    layout: MomentLayout
    radius: float
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check_positive("radius", self.radius))
        if self.layout.blocks or not self.layout.target:
            raise fail("layout", "be of numbers and a target", self.layout)

    @property
    def dim(self) -> int:
        """Number of entries."""
        return self.layout.dim

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        return self._ellipsoid.gauge(v)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        return self._ellipsoid.sample(n, rng)

    def __getattr__(self, name: str) -> Any:
        if name in OPTIONAL:
            return getattr(self._ellipsoid, name)
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def orbits(self) -> IntArray:
        """Return labels of the entries, (dim,), equal if a symmetry of records swaps them."""
        return self.layout.orbits

    def row_square(self, weights: ArrayLike) -> float:
        """Return the greatest sum of weights times squares over the rows (1, x, y)."""
        w = as_points(weights, self.layout.n_rows, "weights")
        return float(w[0] + self.radius**2 * w[1:-1].max(initial=0.0) + w[-1])

    def greatest_square(self, weights: ArrayLike) -> float:
        """Return an upper bound on the sum of weights times squares over all differences."""
        tops = np.zeros(len(self.layout.first_of_orbit))
        np.maximum.at(tops, self.layout.orbits, as_points(weights, self.dim, "weights"))
        return self.greatest_square_of_orbits(tops)

    def greatest_square_of_orbits(self, weights: ArrayLike) -> float:
        """Return ``greatest_square`` for one weight per label in ``orbits()``, in their order."""
        w, square = np.asarray(weights, dtype=float), self.radius**2
        if self.layout.n_encoded == 1 and not self.layout.adds:
            # The domain is a box: x / radius is a number in [-1, 1].
            sorts, degree = self._as_box
            return float(greatest_squares(sorts, (w * self.radius**degree)[None])[0])
        a, b, c, d, e, counted = self._coefficients(w)
        if self.layout.adds:
            return (counted + a * square + b + c * square**2 + d * square + e) * ROUND_UP
        return _greatest((a, b, c, d, e), square) * ROUND_UP

    def _coefficients(self, w: FloatArray) -> tuple[float, ...]:
        """Return the weights of |x|^2, y^2, |xx'|^2, |xy|^2, y^4 and of the count."""
        first, last = self.layout.first_of_orbit, self.layout.n_rows - 1
        kinds, (i, j) = self.layout.kinds[first], self.layout.pairs[first].T
        own = (kinds == "square") & (i == last)

        def top(where: FloatArray, factor: float = 1.0) -> float:
            return factor * float(w[where].max(initial=0.0))

        # A shifted square 2 z^2 - 1 is in [-1, 1] only if z^2 <= 1; it is bounded with the count.
        squares = (kinds == "square") & ~own
        outer = max(top(squares, 4.0), top(kinds == "product", 0.5))
        linear, target = (kinds == "linear") & (j != last), (kinds == "target") & (i > 0)
        of_target = (i == 0) & (j == last)
        counted = top(kinds == "count") + float(w @ self._shifts)
        return top(linear), top(of_target), outer, top(target), top(own, 4.0), counted

    @cached_property
    def _as_box(self) -> tuple[Sorts, FloatArray]:
        """The parts of the bounds for one number, and its power in the square of each entry."""
        degree = (self.layout.pairs[self.layout.first_of_orbit] == 1).sum(axis=1)
        return sorts_of(self.layout), 2.0 * degree

    @cached_property
    def _shifts(self) -> FloatArray:
        """Sums of the squared shifts over each orbit."""
        return np.asarray(np.bincount(self.layout.orbits, self.layout.shift**2), dtype=float)

    @cached_property
    def _ellipsoid(self) -> MappedBall:
        natural = np.where(self.layout.kinds == "product", 2.0, 1 / self.layout.scale**2)
        bound = math.sqrt(self.greatest_square(natural)) * ROUND_UP
        return MappedBall(LpBall(self.dim, p=2.0), bound / np.sqrt(natural))


def _greatest(coefficients: tuple[float, ...], square: float) -> float:
    """Return the maximum over x, x' with squared length ``square`` and y = 1, y' = t in [-1, 1].

    With s = <x, x'> in [-square, square] the sum is

        2 a (square - s) + 2 c (square^2 - s^2) + b (1 - t)^2
        + d (square (1 + t^2) - 2 s t) + e (1 - t^2)^2.

    It is concave in s, and for the best s it is a polynomial in t, piece by piece.
    """
    a, b, c, d, e = coefficients
    curved = 2 * (b + d * square - 2 * e)
    tops = [_top(e, curved, -2 * (b + d * s)) for s in (-square, square)]
    # The best s, if it is inside, is -(a + d t) / (2 c).
    is_curved = c * square > 1e-14 * d
    if is_curved:
        tops.append(_top(e, curved + d * d / c, a * d / c - 2 * b))
    best = 0.0
    for t in (-1.0, 1.0, *tops):
        inside = min(max(-(a + d * t) / (2 * c), -square), square) if is_curved else square
        fixed = b * (1 - t) ** 2 + d * square * (1 + t**2) + e * (1 - t**2) ** 2
        for s in (-square, square, inside):
            own = 2 * a * (square - s) + 2 * c * (square**2 - s**2) - 2 * d * s * t
            best = max(best, fixed + own)
    return best


def _top(e: float, slope: float, constant: float) -> float:
    """Return the t in [-1, 1] at which 4 e t^3 + slope t + constant falls through 0, or 1.

    A polynomial with this derivative has its only local maximum at t, or none inside.
    """
    if slope >= 0:
        return 1.0
    # The root in the middle of t^3 - linear t + scaled = 0. It is constant / -slope for e = 0.
    t = constant / -slope
    if -slope < 1e8 * e:
        linear = -slope / (4 * e)
        sine = 1.5 * math.sqrt(3 / linear) * t
        t = 2 * math.sqrt(linear / 3) * math.sin(math.asin(min(max(sine, -1.0), 1.0)) / 3)
    return min(max(t, -1.0), 1.0)
