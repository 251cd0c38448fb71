"""The changes of a statistic by one record: bounds on their gauges in other norms, and on squares.

A ball may have further optional members. ``greatest_square(w)`` is an upper bound on the
greatest sum_i w_i u_i^2 over the differences u, convex, positively homogeneous and nondecreasing
in w >= 0. ``orbits()`` returns a label for each coordinate, (dim,); coordinates with one label
are exchangeable, so w may be taken equal on them. Proofs: docs/proofs/gaussian.md and
docs/proofs/certify.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import LpBall, NormBall, half_widths, known, member_of, parts_of
from skdp.trusted.checks import check_choice, check_positive, fail
from skdp.trusted.rounding import ROUND_UP
from skdp.trusted.statement import NEIGHBORS

# Beyond this an inverse keeps fewer than four digits.
WORST_CONDITION = 1e12


@dataclass(frozen=True)
class Change:
    """Every difference f(D) - f(D') of neighbours D, D' has gauge at most ``radius``.

    Attributes
    ----------
    ball : NormBall
    radius : float > 0
    neighbors : {"replace_one", "add_remove"}
    """

    ball: NormBall
    radius: float = 1.0
    neighbors: str = "replace_one"

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check_positive("radius", self.radius))
        check_choice("neighbors", self.neighbors, tuple(NEIGHBORS))

    def radius_in(self, ball: NormBall) -> float:
        """Return a bound on the gauge of any difference in another ball's norm.

        It is exact for the ball itself, for l_p balls without weights, for bodies with at most
        65,536 extreme points, and for balls with facets if the support of the body is exact. The
        l_1 gauge of moments of bounded columns is exact too. Otherwise it follows from the box
        around the body or its greatest sum of squares, and may be too great.
        """
        if ball.dim != self.ball.dim:
            raise fail("ball", f"have dimension {self.ball.dim}", ball.dim)
        return self.radius * greatest_gauge(ball, self.ball)


def greatest_gauge(ball: NormBall, over: NormBall) -> float:
    """Return an upper bound on the gauge of ``ball`` over the body ``over``."""
    if ball is over or ball == over:
        return 1.0
    of_class, is_least = math.inf, False
    if (bound := member_of(ball, "gauge_over")) is not None:
        of_class, is_least = bound(over)
        if is_least:
            return float(of_class)
    # The body holds the differences, and may be larger than their hull.
    of_differences = _through_sums(ball, over) if type(ball) is LpBall else math.inf
    try:
        of_body = _over_body(ball, over)
    except ValueError:  # no box is known
        if math.isinf(of_class):
            raise
        of_body = math.inf
    return min(of_differences * ROUND_UP, of_class, of_body) * (1 + gauge_error(ball))


def gauge_error(ball: NormBall) -> float:
    """Return a bound on the relative error of a gauge, beyond that of sums, from linear maps."""
    inner = max(map(gauge_error, parts_of(ball)), default=0.0)
    return (1 + float(getattr(ball, "gauge_error", 0.0))) * (1 + inner) - 1


def projection(body: NormBall, places: list[int]) -> NormBall | None:
    """Return a body that holds the projection to some coordinates, in their order, or None."""
    if places == list(range(body.dim)):
        return body
    project = member_of(body, "projection")
    found: NormBall | None = None if project is None else project(places)
    return found


def _over_body(ball: NormBall, over: NormBall) -> float:
    """Return an upper bound on the gauge over all points of a body."""
    both: Any = ball, over
    if all(type(own) is LpBall and own.weights is None for own in both):
        # |v|_r <= d^(1/r - 1/p) |v|_p for r < p, and |v|_r <= |v|_p otherwise.
        inner, outer = both
        power = max(0.0, 1 / inner.p - 1 / outer.p)
        return float(outer.radius / inner.radius * math.pow(ball.dim, power) * ROUND_UP)
    if type(ball) is LpBall and math.isinf(ball.p):
        return _through_the_box(ball, over)
    greatest_norm = member_of(over, "greatest_norm")
    if type(ball) is LpBall and ball.weights is None and greatest_norm is not None:
        return float(greatest_norm(ball)) * ROUND_UP
    corners = known(over, "extreme_points")
    if corners is not None:
        return float(np.max(ball.gauge(corners))) * ROUND_UP
    normals, support = known(ball, "facets"), member_of(over, "support")
    if normals is not None and support is not None:
        return float(np.max(support(normals))) * ROUND_UP
    return _through_the_box(ball, over)


def _through_the_box(ball: NormBall, over: NormBall) -> float:
    """Bound a convex function over a body by the triangle inequality over its box."""
    widths = half_widths(over)
    if type(ball) is LpBall:
        # Such a norm grows with the size of every coordinate, so a corner is the farthest point.
        return float(ball.gauge(widths)) * ROUND_UP
    return float(np.sum(ball.gauge(np.diag(widths)))) * ROUND_UP


def _through_sums(ball: Any, over: Any) -> float:
    """Bound w |v|_p by the greatest |v|_1, or by Hoelder's inequality through the greatest |v|_2.

    It is inf if neither is known.
    """
    widths = ball.bounding_box()
    if np.ptp(widths) > 0:
        return math.inf
    if ball.p == 1 and (greatest_sum := member_of(over, "greatest_sum")) is not None:
        total = float(greatest_sum()) / widths[0]
        if math.isfinite(total):
            return float(total)
    if member_of(over, "greatest_square") is None:
        return math.inf
    square = greatest_square(over, 1 / widths**2)
    return math.sqrt(square) * math.pow(ball.dim, max(0.0, 1 / ball.p - 1 / 2))


def greatest_square(ball: NormBall, weights: FloatArray) -> float:
    """Return an upper bound on the greatest sum_i weights_i u_i^2, all weights > 0.

    It is exact for l_p balls, hulls of encoded or centred rows, balls with listable extreme
    points, and products, sums and multiples of them. It is not exact for full maps of balls with
    too many extreme points. It is an error if the ball has none of ``greatest_square``,
    ``extreme_points`` and ``bounding_box``.
    """
    own = member_of(ball, "greatest_square")
    if own is not None:
        return positive_square(float(own(_equal_on_orbits(ball, weights))))
    return greatest_listed_square(ball, weights)


def greatest_listed_square(ball: NormBall, weights: FloatArray) -> float:
    """Return `greatest_square` from the extreme points, or through the box and the image."""
    points = known(ball, "extreme_points")
    if points is not None:
        return float((points**2 @ weights).max()) * ROUND_UP
    box = float(weights @ (half_widths(ball) * ROUND_UP) ** 2) * ROUND_UP
    if member_of(ball, "greatest_image") is not None:
        return min(box, greatest_image(np.diag(np.sqrt(weights)), ball) * ROUND_UP)
    return box


def greatest_image(matrix: FloatArray, ball: NormBall) -> float:
    """Return an upper bound on the greatest |R z|_2^2 over the points z of a ball."""
    own = member_of(ball, "greatest_image")
    if own is not None:
        return float(own(matrix))
    points = known(ball, "extreme_points")
    if points is not None:
        return float(np.square(points @ matrix.T).sum(axis=1).max()) * ROUND_UP
    # |R z|^2 <= |R D^(-1/2)|^2 z'D z for any diagonal D > 0.
    sizes = np.square(matrix).sum(axis=0)
    bounds = []
    for d in (np.ones(ball.dim), np.maximum(sizes, sizes.max() * 1e-12)):
        norm = float(np.linalg.norm(matrix / np.sqrt(d), 2)) * (1 + 1e-14 * ball.dim)
        bounds.append(norm**2 * greatest_square(ball, d))
    return float(min(bounds)) * ROUND_UP


def greatest_length(factor: ArrayLike, ball: NormBall) -> float:
    """Return a bound on |A^-1 u|_2 over the points u of a ball; A may be a number or a vector."""
    a, dim = np.asarray(factor), ball.dim
    if a.ndim < 2:
        return math.sqrt(greatest_square(ball, np.broadcast_to(a, (dim,)) ** -2.0))
    # The error of an inverse grows with the condition number, and beyond this it is no inverse.
    condition = float(np.linalg.cond(a))
    if not condition < WORST_CONDITION:
        return math.inf
    error = float(dim**2 * np.finfo(float).eps * condition)
    return math.sqrt(greatest_image(np.linalg.inv(a), ball)) * (1 + error)


def length_in(factor: Any, change: Any) -> float:
    """Return a bound on |A^-1 u|_2 over all changes u, for noise A Z."""
    if not isinstance(change, Change):
        return float(change.length_in(factor))
    return change.radius * greatest_length(factor, change.ball)


def orbits_of(ball: NormBall) -> NDArray[np.intp]:
    """Return 0, 1, ... in place of the labels of the ball's orbits, (dim,)."""
    labels = np.asarray(ball.orbits())  # type: ignore[attr-defined]
    if labels.shape != (ball.dim,):
        raise fail("orbits", f"have one label for each of {ball.dim} coordinates", labels.shape)
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def _equal_on_orbits(ball: NormBall, weights: FloatArray) -> FloatArray:
    """Raise each weight to the greatest of its orbit: the bound can only grow."""
    if not hasattr(ball, "orbits"):
        return weights
    orbit = orbits_of(ball)
    return greatest_of_each(orbit, weights)[orbit]


def greatest_of_each(orbit: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    """Return the greatest weight of each orbit."""
    greatest = np.zeros(orbit.max() + 1)
    np.maximum.at(greatest, orbit, weights)
    return greatest


def positive_square(square: float) -> float:
    """Return a greatest square if it is a finite number > 0."""
    if not 0 < square < math.inf:
        raise fail("greatest_square", "return a finite number > 0 for positive weights", square)
    return square
