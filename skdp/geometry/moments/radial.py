"""The ball of the changes that one record can make if rows are bounded in length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_positive, fail
from skdp.geometry.ball import MappedBall, as_points
from skdp.geometry.lp import LpBall
from skdp.geometry.moments.layout import IntArray, MomentLayout

# Optional members that the ellipsoid provides.
OPTIONAL = ("log_volume", "support", "bounding_box", "covariance", "variance")


@dataclass(frozen=True)
class RadialMomentBall:
    """An ellipsoid around the moments' differences for rows |x|_2 <= radius and |y| <= 1.

    In the moments of order two it is a ball of the Frobenius norm, which is invariant under
    rotations of the rows, as the domain is (``docs/proofs/matrix_laplace.md``, Lemma 3).

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
    exact: ClassVar[bool] = True

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
        """Return an upper bound on the sum of weights times squares over all differences.

        In |t(v) - t(v')|^2 = |t(v)|^2 + |t(v')|^2 - 2 <t(v), t(v')> the first two terms are
        greatest on the boundary, and the last depends on <x, x'> and y y' only.
        """
        tops = np.zeros(len(self.layout.first_of_orbit))
        np.maximum.at(tops, self.layout.orbits, as_points(weights, self.dim, "weights"))
        return self.greatest_square_of_orbits(tops)

    def greatest_square_of_orbits(self, weights: ArrayLike) -> float:
        """Return ``greatest_square`` for one weight per label in ``orbits()``, in their order."""
        a, b, c, d, e, counted = self._coefficients(np.asarray(weights, dtype=float))
        square = self.radius**2
        whole = counted + a * square + b + c * square**2 + d * square + e
        if self.layout.adds:
            return whole
        return 2 * whole - 2 * min(0.0, _least((a, b, c, d, e), square))

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
    def _shifts(self) -> FloatArray:
        """Sums of the squared shifts over each orbit."""
        return np.asarray(np.bincount(self.layout.orbits, self.layout.shift**2), dtype=float)

    @cached_property
    def _ellipsoid(self) -> MappedBall:
        natural = np.where(self.layout.kinds == "product", 2.0, 1 / self.layout.scale**2)
        bound = math.sqrt(self.greatest_square(natural)) * (1 + 1e-12)
        return MappedBall(LpBall(self.dim, p=2.0), bound / np.sqrt(natural))


def _least(coefficients: tuple[float, ...], square: float) -> float:
    """Return the least a s + b t + c s^2 + d s t + e t^2 over |s| <= square, |t| <= 1."""
    a, b, c, d, e = coefficients
    points = [(_vertex(a + d * t, c, square), t) for t in (-1.0, 1.0)]
    points += [(s, _vertex(b + d * s, e, 1.0)) for s in (-square, square)]
    determinant = 4 * c * e - d * d
    if determinant != 0:
        s, t = (d * b - 2 * e * a) / determinant, (d * a - 2 * c * b) / determinant
        points.append((min(max(s, -square), square), min(max(t, -1.0), 1.0)))
    # The minimum of a quadratic on a box is a stationary point, inside or along an edge.
    return min(a * s + b * t + c * s * s + d * s * t + e * t * t for s, t in points)


def _vertex(slope: float, square: float, most: float) -> float:
    """Return the s with |s| <= most at which square s^2 + slope s is least, square >= 0."""
    if square == 0:
        return -math.copysign(most, slope)
    return min(max(-slope / (2 * square), -most), most)
