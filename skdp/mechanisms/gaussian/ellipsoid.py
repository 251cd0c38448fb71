"""Ellipsoids around a norm ball: greatest weighted squares, and covers of least weighted trace.

A cover is given by a factor A, of shape (dim,) for a diagonal or (dim, dim): the ellipsoid is
{A z : |z|_2 <= 1}, its matrix S = A A'. It covers the ball if |A^-1 u|_2 <= 1 for all u. Privacy
depends on this, so every factor is raised by the amount that a check finds missing, and by the
rounding of the check. Proofs are in docs/proofs/gaussian.md.

A ball may have further optional members. ``greatest_square(w)`` is an upper bound on the
greatest sum_i w_i u_i^2 over the differences u, convex, positively homogeneous and nondecreasing
in w >= 0. ``orbits()`` returns a label for each coordinate, (dim,); coordinates with one label
are exchangeable, so w may be taken equal on them. With labels 0, 1, ... a ball may also have
``greatest_square_of_orbits(w)``, which takes one w per label, and ``greatest_squares_of_orbits``,
which takes rows of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._identity import is_ours, remembered
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
from skdp.mechanisms.gaussian._least_trace import cover_points, cover_sums
from skdp.mechanisms.sensitivity.base import ROUND_UP

# Factors whose relative rounding error may be greater than this are not used.
_MOST_ROUNDING = 1e-3


def greatest_square(ball: NormBall, weights: FloatArray) -> float:
    """Return an upper bound on the greatest sum_i weights_i u_i^2.

    It is exact for l_p balls, hulls of encoded or centred rows, balls with listable extreme
    points, and products, sums and multiples of them. It is not exact for full maps of balls with
    too many extreme points.

    Parameters
    ----------
    ball : NormBall
    weights : array of shape (dim,), entries > 0

    Raises
    ------
    ValueError
        If the ball has none of ``greatest_square``, ``extreme_points`` and ``bounding_box``.
    """
    if hasattr(ball, "greatest_square"):
        return _positive(float(ball.greatest_square(_equal_on_orbits(ball, weights))))
    if not is_ours(ball):  # a subclass may have another gauge
        return _greatest_listed_square(ball, weights)
    match ball:
        case LpBall():
            return _norm(weights * ball.bounding_box() ** 2, _dual_exponent(ball.p)) * ROUND_UP
        case EncodedRowsBall():
            # A row has at most one indicator of a block.
            return float(_greatest_of_each(_orbits_of_rows(ball), weights).sum()) * ROUND_UP
        case ShearedBall(ball=EncodedRowsBall() as rows) if is_ours(rows) and _leads(rows):
            return _greatest_square_of_sheared_rows(rows, ball.shift, weights) * ROUND_UP
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


def _leads(ball: EncodedRowsBall) -> bool:
    """Return whether the intercept is the first coordinate."""
    return ball.intercept and (ball.index is None or ball.index[0] == 0)


def _greatest_square_of_sheared_rows(
    ball: EncodedRowsBall, shift: FloatArray, weights: FloatArray
) -> float:
    """Maximise over rows (1, z, e) + shift, in which each number and each block is free."""
    orbit, numbers = _orbits_of_rows(ball), 1 + ball.n_numbers
    # What a number at the better end, or an indicator, adds to the square of the shift.
    gain = weights * (1 + 2 * np.where(orbit < numbers, np.abs(shift), shift))
    return float(weights @ shift**2 + _greatest_of_each(orbit, gain).sum())


def _greatest_listed_square(ball: NormBall, weights: FloatArray) -> float:
    points = known(ball, "extreme_points")
    if points is not None:
        return float((points**2 @ weights).max()) * ROUND_UP
    is_image = type(ball) in (MappedBall, ShearedBall)
    image = _cover_image(ball, weights) if is_image else None  # type: ignore[arg-type]
    if image is not None:
        # |W^(1/2) u| <= |W^(1/2) A| for u = A z, |z| <= 1.
        root = np.sqrt(weights)[:, None] * (np.diag(image) if image.ndim == 1 else image)
        return float(np.linalg.norm(root, 2)) ** 2 * ROUND_UP
    return float(weights @ (half_widths(ball) * ROUND_UP) ** 2) * ROUND_UP


def least_cover(ball: NormBall, weights: FloatArray) -> FloatArray:
    """Return a factor A, (dim,) or (dim, dim), that covers the ball with little tr(W A A').

    Parameters
    ----------
    ball : NormBall
    weights : array of shape (dim,), entries > 0, or (dim, dim), positive definite
        W. If the cover is diagonal by construction, only the diagonal of W is used.
    """
    if hasattr(ball, "greatest_square") and hasattr(ball, "orbits"):
        return _cover_orbits(ball, _orbits_of(ball), _diagonal(weights))
    if weights.ndim == 2 or not _has_least_cover_by_its_form(ball):
        points = known(ball, "extreme_points")
        factor = None if points is None else _cover_listed(points, weights)
        if factor is not None:
            return factor
    if not is_ours(ball):
        return _cover_lp(half_widths(ball) * ROUND_UP, math.inf, _diagonal(weights))
    match ball:
        case LpBall():
            return _cover_lp(ball.bounding_box(), ball.p, _diagonal(weights))
        case EncodedRowsBall():
            return _cover_orbits(ball, _orbits_of_rows(ball), _diagonal(weights))
        case ScaledBall():
            return np.asarray(ball.factor * least_cover(ball.ball, weights) * ROUND_UP)
        case ProductBall() | SumBall():
            return _cover_parts(ball, weights)
        case MappedBall() | ShearedBall() if (image := _cover_image(ball, weights)) is not None:
            return image
    return _cover_lp(half_widths(ball) * ROUND_UP, math.inf, _diagonal(weights))


def _has_least_cover_by_its_form(ball: NormBall) -> bool:
    """Return whether no list of points is needed for a diagonal W."""
    diagonal_map = type(ball) is MappedBall and np.ndim(ball.matrix) == 1
    return diagonal_map or type(ball) in (LpBall, ScaledBall, ProductBall, SumBall)


def _cover_listed(points: FloatArray, weights: FloatArray) -> FloatArray | None:
    """Return a cover of the points, or None if it is too badly conditioned."""
    try:
        return raised_to_cover(_points_factor(points, weights), points)
    except np.linalg.LinAlgError:
        return None


def raised_to_cover(factor: FloatArray, points: FloatArray) -> FloatArray:
    """Return a multiple of the lower triangular ``factor`` that is certain to cover the points.

    Raises
    ------
    LinAlgError
        If the factor is too badly conditioned.
    """
    d = len(factor)
    rows = factor / np.linalg.norm(factor, axis=1)[:, None]
    # Substitution solves a system in which every entry has an error of at most d roundings.
    rounding = 4 * d**1.5 * np.finfo(float).eps * float(np.linalg.cond(rows))
    if not rounding < _MOST_ROUNDING:
        raise np.linalg.LinAlgError("a factor is nearly singular")
    inside = solve_triangular(factor, points.T, lower=True)
    greatest = float(np.sqrt((inside**2).sum(axis=0).max()))
    return np.asarray(factor * (greatest * (1 + rounding) * ROUND_UP))


def _points_factor(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Return a lower triangular factor that nearly covers the points with the least trace."""
    root = np.linalg.cholesky(weights) if weights.ndim == 2 else np.diag(np.sqrt(weights))
    # tr(W S) is the trace of the ellipsoid around the points C'u, W = C C'.
    cover = cover_points(_one_of_each_pair(points) @ root)
    back = np.linalg.solve(root.T, cover)
    # A A' = R'R for the triangle R of A', with no square taken.
    return np.asarray(np.linalg.qr(back.T)[1].T)


def _one_of_each_pair(points: FloatArray) -> FloatArray:
    """Return one of u and -u."""
    first = np.take_along_axis(points, (points != 0).argmax(axis=1)[:, None], axis=1)
    return points[first[:, 0] > 0]


def _cover_lp(widths: FloatArray, p: float, weights: FloatArray) -> FloatArray:
    """Minimise sum weights / w over greatest_square(w) <= 1, in closed form."""
    r = _dual_exponent(p)
    if math.isinf(r):
        return widths * ROUND_UP
    # x = w widths^2 has |x|_r = 1, and minimises sum_i cost_i / x_i: x^(r + 1) ~ cost.
    cost = weights * widths**2
    x = (cost / cost.max()) ** (1 / (r + 1))
    return np.asarray(widths * np.sqrt(_norm(x, r) / x) * ROUND_UP)


def _dual_exponent(p: float) -> float:
    """Return r such that the greatest sum c_i t_i^2 over |t|_p <= 1 is |c|_r."""
    return math.inf if p <= 2 else 1.0 if math.isinf(p) else p / (p - 2)


def _norm(x: FloatArray, r: float) -> float:
    top = float(x.max())
    return top if math.isinf(r) else top * float(((x / top) ** r).sum()) ** (1 / r)


def _cover_orbits(ball: NormBall, orbit: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    sums = np.asarray(np.bincount(orbit, weights), dtype=float)
    if hasattr(ball, "greatest_square_of_orbits"):
        return _cover_of_sums(ball, tuple(sums.tolist()))[orbit]
    return _raised(lambda w: greatest_square(ball, w[orbit]), sums)[orbit]


@remembered(maxsize=64)
def _cover_of_sums(ball: Any, sums: tuple[float, ...]) -> FloatArray:
    """Return the cover of each orbit, (orbits,), for the sums of the weights of orbits."""

    def greatest(w: FloatArray) -> float:
        return _positive(float(ball.greatest_square_of_orbits(w)))

    return _raised(greatest, np.array(sums), getattr(ball, "greatest_squares_of_orbits", None))


def _raised(
    greatest: Callable[[FloatArray], float],
    sums: FloatArray,
    rows: Callable[[FloatArray], FloatArray] | None = None,
) -> FloatArray:
    w = cover_sums(greatest, sums) if rows is None else cover_sums(greatest, sums, rows)
    return np.asarray(np.sqrt(greatest(w) / w) * ROUND_UP)


def _orbits_of(ball: NormBall) -> NDArray[np.intp]:
    """Return 0, 1, ... in place of the labels of the ball's orbits, (dim,)."""
    labels = np.asarray(ball.orbits())  # type: ignore[attr-defined]
    if labels.shape != (ball.dim,):
        raise fail("orbits", f"have one label for each of {ball.dim} coordinates", labels.shape)
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def _equal_on_orbits(ball: NormBall, weights: FloatArray) -> FloatArray:
    """Raise each weight to the greatest of its orbit: the bound can only grow."""
    if not hasattr(ball, "orbits"):
        return weights
    orbit = _orbits_of(ball)
    return _greatest_of_each(orbit, weights)[orbit]


def _greatest_of_each(orbit: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    greatest = np.zeros(orbit.max() + 1)
    np.maximum.at(greatest, orbit, weights)
    return greatest


def _orbits_of_rows(ball: EncodedRowsBall) -> NDArray[np.intp]:
    """Return labels: each block has one, and the intercept and every number one of its own."""
    before = int(ball.intercept) + ball.n_numbers
    blocks = np.repeat(np.arange(len(ball.block_sizes)), ball.block_sizes)
    labels = np.concatenate([np.arange(before), before + blocks]).astype(np.intp)
    out = np.empty_like(labels)
    out[slice(None) if ball.index is None else list(ball.index)] = labels
    return out


def _cover_parts(ball: ProductBall | SumBall, weights: FloatArray) -> FloatArray:
    """Put the covers of the parts side by side; in a product they grow so that squares add to 1."""
    places = ball.places
    covers = [least_cover(b, _part(weights, at)) for b, at in zip(ball.balls, places, strict=True)]
    if isinstance(ball, SumBall):
        sizes = np.array([1 / weight for weight in ball.weights])
    else:
        roots = np.sqrt(
            [trace(c, _part(weights, at)) for c, at in zip(covers, places, strict=True)]
        )
        sizes = np.sqrt(roots.sum() / roots)
    grown = [np.asarray(c * s * ROUND_UP) for c, s in zip(covers, sizes, strict=True)]
    return _side_by_side(grown, places)


def _cover_image(ball: MappedBall | ShearedBall, weights: FloatArray) -> FloatArray | None:
    """Return the image of a cover, or None if the product is too badly conditioned."""
    matrix = np.asarray(ball.matrix)
    if matrix.ndim == 1 and weights.ndim == 1:
        inner = least_cover(ball.ball, weights * matrix**2)
        size = np.abs(matrix) if inner.ndim == 1 else matrix[:, None]
        return np.asarray(size * inner * ROUND_UP)
    full = np.diag(matrix) if matrix.ndim == 1 else matrix
    pulled = full.T @ (weights @ full if weights.ndim == 2 else weights[:, None] * full)
    inner = least_cover(ball.ball, (pulled + pulled.T) / 2)
    inner = np.diag(inner) if inner.ndim == 1 else inner
    # Every entry of the product has an error of d roundings of the entries of its factors.
    condition = float(np.linalg.cond(full) * np.linalg.cond(inner))
    rounding = 4 * ball.dim**2 * np.finfo(float).eps * condition
    return full @ inner * (1 + rounding) if rounding < _MOST_ROUNDING else None


def trace(factor: FloatArray, weights: FloatArray) -> float:
    """Return tr(W A A'), the weighted mean squared error of A Z."""
    if factor.ndim == 1:
        return float((_diagonal(weights) * factor**2).sum())
    weighted = weights @ factor if weights.ndim == 2 else weights[:, None] * factor
    return float((factor * weighted).sum())


def _diagonal(weights: FloatArray) -> FloatArray:
    return np.asarray(np.diagonal(weights) if weights.ndim == 2 else weights)


def _part(weights: FloatArray, at: NDArray[np.intp]) -> FloatArray:
    return np.asarray(weights[np.ix_(at, at)] if weights.ndim == 2 else weights[at])


def _squares_of_parts(ball: ProductBall | SumBall, weights: FloatArray) -> list[float]:
    pairs = zip(ball.balls, ball.places, strict=True)
    return [greatest_square(part, weights[at]) for part, at in pairs]


def _side_by_side(factors: list[FloatArray], places: list[NDArray[np.intp]]) -> FloatArray:
    d, diagonal = sum(map(len, places)), all(f.ndim == 1 for f in factors)
    out = np.zeros(d if diagonal else (d, d))
    for factor, at in zip(factors, places, strict=True):
        if diagonal:
            out[at] = factor
        else:
            out[np.ix_(at, at)] = np.diag(factor) if factor.ndim == 1 else factor
    return out


def _positive(square: float) -> float:
    if not 0 < square < math.inf:
        raise fail("greatest_square", "return a finite number > 0 for positive weights", square)
    return square
