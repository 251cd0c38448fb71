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
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, check_positive, fail
from skdp._identity import check_at_first_use, is_ours, others_in
from skdp.geometry import (
    EncodedRowsBall,
    LpBall,
    MappedBall,
    NormBall,
    ProductBall,
    ScaledBall,
    ShearedBall,
    SquaresBall,
    SumBall,
)
from skdp.geometry.ball import half_widths, known
from skdp.geometry.moments import MomentBall
from skdp.privacy.guarantee import NEIGHBORS

# Gauges are computed in floats; a bound on one is raised by more than their error.
ROUND_UP = 1 + 1e-12


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
        check_ball(self.ball)
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


def check_ball(ball: Any) -> None:
    """Raise ValueError unless an object is a norm ball, and those of others pass their checks."""
    if isinstance(ball, type) or not isinstance(ball, NormBall):
        remedy = "Give a norm ball such as LpBall(dim, p)."
        raise fail("ball", "have dim, exact, gauge and sample", type(ball), remedy)
    check_count("ball's dim", ball.dim)
    for other in others_in(ball):
        if isinstance(other, NormBall):
            check_at_first_use(other, "ball")


def greatest_gauge(ball: NormBall, over: NormBall) -> float:
    """Return an upper bound on the gauge of ``ball`` over the body ``over``."""
    if ball is over or ball == over:
        return 1.0
    if type(ball) is type(over) is MomentBall and ball.layout == over.layout:
        return 1.0  # both hold the same differences
    by_parts = _by_parts(ball, over)
    if by_parts < math.inf and type(over) is ProductBall:
        owners = [set(places.tolist()) for places in ball.places]  # type: ignore[attr-defined]
        parts = [set(places.tolist()) for places in over.places]
        if all(any(part <= owner for owner in owners) for part in parts):
            return by_parts  # which is reached
    # The body holds the differences, and may be larger than their hull.
    of_differences = _through_sums(ball, over) if type(ball) is LpBall else math.inf
    return min(of_differences * ROUND_UP, by_parts, _over_body(ball, over))


def _by_parts(ball: NormBall, over: NormBall) -> float:
    """Return a bound for a ball that is made of balls on separate coordinates, or inf.

    A sum of gauges is at most the sum of their greatest values, and a maximum at most the greatest
    of them. Both are reached if the body is the product of its projections.
    """
    if type(ball) is not SumBall and type(ball) is not ProductBall:
        return math.inf
    inside = [projection(over, places.tolist()) for places in ball.places]
    known_parts = [part for part in inside if part is not None]
    if len(known_parts) < len(inside):
        return math.inf
    gauges = [greatest_gauge(*pair) for pair in zip(ball.balls, known_parts, strict=True)]
    if isinstance(ball, ProductBall):
        return max(gauges)
    # Each product rounds by half a unit in the last place, and so does their sum.
    weighted = math.fsum(w * gauge for w, gauge in zip(ball.weights, gauges, strict=True))
    return weighted * (1 + 2**-50)


def projection(body: NormBall, places: list[int]) -> NormBall | None:
    """Return a body that holds the projection to some coordinates, in their order, or None."""
    if places == list(range(body.dim)):
        return body
    if type(body) is LpBall and body.weights is None:
        return LpBall(len(places), p=body.p, radius=body.radius)
    if type(body) is SquaresBall:
        k, first = body.n_numbers, int(body.counted)
        numbers = [place for place in places if first <= place < first + k]
        # The count and some numbers with their squares, in this order.
        if numbers and places == [*range(first), *numbers, *(place + k for place in numbers)]:
            return SquaresBall(len(numbers), body.counted)
        return LpBall(len(places), p=math.inf)  # every coordinate is in [-1, 1]
    if type(body) is not ProductBall:
        return None
    position = {place: k for k, place in enumerate(places)}
    balls, index = [], []
    for own, at in zip(body.balls, body.places, strict=True):
        kept = [k for k, place in enumerate(at.tolist()) if place in position]
        if not kept:
            continue
        if (part := projection(own, kept)) is None:
            return None
        balls.append(part)
        index.append(tuple(position[int(at[k])] for k in kept))
    if len(balls) == 1 and list(index[0]) == sorted(index[0]):
        return balls[0]
    return ProductBall(tuple(balls), tuple(index))


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
    if type(ball) is LpBall and ball.weights is None and type(over) is ProductBall:
        # The norm is that of the norms of the parts, which are greatest together.
        norms = [greatest_gauge(LpBall(own.dim, ball.p, ball.radius), own) for own in over.balls]
        return float(np.linalg.norm(norms, ord=ball.p)) * ROUND_UP
    corners = known(over, "extreme_points")
    if corners is not None:
        return float(np.max(ball.gauge(corners))) * ROUND_UP
    normals = known(ball, "facets")
    if normals is not None and hasattr(over, "support"):
        return float(np.max(over.support(normals))) * ROUND_UP
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
    if ball.p == 1 and hasattr(over, "greatest_sum"):
        total = float(over.greatest_sum()) / widths[0]
        if math.isfinite(total):
            return float(total)
    if not hasattr(over, "greatest_square"):
        return math.inf
    square = float(over.greatest_square(1 / widths**2))
    return math.sqrt(square) * math.pow(ball.dim, max(0.0, 1 / ball.p - 1 / 2))


def greatest_square(ball: NormBall, weights: FloatArray) -> float:
    """Return an upper bound on the greatest sum_i weights_i u_i^2, all weights > 0.

    It is exact for l_p balls, hulls of encoded or centred rows, balls with listable extreme
    points, and products, sums and multiples of them. It is not exact for full maps of balls with
    too many extreme points. It is an error if the ball has none of ``greatest_square``,
    ``extreme_points`` and ``bounding_box``.
    """
    if hasattr(ball, "greatest_square"):
        return positive_square(float(ball.greatest_square(_equal_on_orbits(ball, weights))))
    if not is_ours(ball):  # a subclass may have another gauge
        return _greatest_listed_square(ball, weights)
    match ball:
        case LpBall():
            return norm_of(weights * ball.bounding_box() ** 2, dual_exponent(ball.p)) * ROUND_UP
        case EncodedRowsBall():
            # A row has at most one indicator of a block.
            return float(_greatest_of_each(orbits_of_rows(ball), weights).sum()) * ROUND_UP
        case ShearedBall(ball=EncodedRowsBall(intercept=True) as rows) if is_ours(rows) and (
            rows.index is None or rows.index[0] == 0
        ):
            # Over rows (1, z, e) + shift, in which each number and each block is free. A number at
            # the better end, or an indicator, adds this to the square of the shift.
            orbit, shift = orbits_of_rows(rows), ball.shift
            sides = np.where(orbit < 1 + rows.n_numbers, np.abs(shift), shift)
            added = _greatest_of_each(orbit, weights * (1 + 2 * sides)).sum()
            return float(weights @ shift**2 + added) * ROUND_UP
        case ScaledBall():
            return ball.factor**2 * greatest_square(ball.ball, weights) * ROUND_UP
        case MappedBall() if np.ndim(ball.matrix) == 1:
            return greatest_square(ball.ball, weights * np.square(ball.matrix)) * ROUND_UP
        case ProductBall():
            return sum(_squares_of_parts(ball, weights)) * ROUND_UP
        case SumBall():
            shares = zip(_squares_of_parts(ball, weights), ball.weights, strict=True)
            return max(square / weight**2 for square, weight in shares) * ROUND_UP
    return _greatest_listed_square(ball, weights)


def _greatest_listed_square(ball: NormBall, weights: FloatArray) -> float:
    points = known(ball, "extreme_points")
    if points is not None:
        return float((points**2 @ weights).max()) * ROUND_UP
    box = float(weights @ (half_widths(ball) * ROUND_UP) ** 2) * ROUND_UP
    if type(ball) in (MappedBall, ShearedBall):
        return min(box, greatest_image(np.diag(np.sqrt(weights)), ball) * ROUND_UP)
    return box


def greatest_image(matrix: FloatArray, ball: Any) -> float:
    """Return an upper bound on the greatest |R z|_2^2 over the points z of a ball."""
    if is_ours(ball):
        match ball:
            case MappedBall() | ShearedBall():
                own = np.asarray(ball.matrix)
                # A product of matrices rounds dim times.
                image = matrix @ own * (1 + 1e-14 * len(own)) if own.ndim == 2 else matrix * own
                return greatest_image(image, ball.ball)
            case SumBall():
                # The ball is the hull of its parts, and a convex function is greatest on one.
                parts = zip(ball.balls, ball.places, ball.weights, strict=True)
                found = (greatest_image(matrix[:, at] / w, part) for part, at, w in parts)
                return float(max(found))
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


def dual_exponent(p: float) -> float:
    """Return r such that the greatest sum c_i t_i^2 over |t|_p <= 1 is |c|_r."""
    return math.inf if p <= 2 else 1.0 if math.isinf(p) else p / (p - 2)


def norm_of(x: FloatArray, r: float) -> float:
    """Return the l_r norm of numbers >= 0."""
    top = float(x.max())
    return top if math.isinf(r) else top * float(((x / top) ** r).sum()) ** (1 / r)


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
    return _greatest_of_each(orbit, weights)[orbit]


def _greatest_of_each(orbit: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    greatest = np.zeros(orbit.max() + 1)
    np.maximum.at(greatest, orbit, weights)
    return greatest


def orbits_of_rows(ball: EncodedRowsBall) -> NDArray[np.intp]:
    """Return labels: each block has one, and the intercept and every number one of its own."""
    before = int(ball.intercept) + ball.n_numbers
    blocks = np.repeat(np.arange(len(ball.block_sizes)), ball.block_sizes)
    labels = np.concatenate([np.arange(before), before + blocks]).astype(np.intp)
    out = np.empty_like(labels)
    out[slice(None) if ball.index is None else list(ball.index)] = labels
    return out


def _squares_of_parts(ball: ProductBall | SumBall, weights: FloatArray) -> list[float]:
    pairs = zip(ball.balls, ball.places, strict=True)
    return [greatest_square(part, weights[at]) for part, at in pairs]


def positive_square(square: float) -> float:
    """Return a greatest square if it is a finite number > 0."""
    if not 0 < square < math.inf:
        raise fail("greatest_square", "return a finite number > 0 for positive weights", square)
    return square
