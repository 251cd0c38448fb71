"""Bounds on weighted sums of squares over the points of a ball (docs/proofs/gaussian.md).

A ball may have further optional members. ``greatest_square(w)`` is an upper bound on the
greatest sum_i w_i u_i^2 over the differences u, convex, positively homogeneous and nondecreasing
in w >= 0. ``orbits()`` returns a label for each coordinate, (dim,); coordinates with one label
are exchangeable, so w may be taken equal on them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._identity import is_ours
from skdp.geometry import (
    EncodedRowsBall,
    LpBall,
    MappedBall,
    NormBall,
    ProductBall,
    ScaledBall,
    ShearedBall,
    SumBall,
)
from skdp.geometry.ball import half_widths, known
from skdp.trusted.change import ROUND_UP


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
