"""Ellipsoids around a norm ball: covers of least weighted trace.

A cover is given by a factor A, of shape (dim,) for a diagonal or (dim, dim): the ellipsoid is
{A z : |z|_2 <= 1}, its matrix S = A A'. It covers the ball if |A^-1 u|_2 <= 1 for all u. Privacy
depends on this, so every factor is raised by the amount that a check finds missing, and by the
rounding of the check. Proofs are in docs/proofs/gaussian.md.

A ball that has the optional members ``greatest_square`` and ``orbits`` of `skdp.trusted.ball`,
with labels 0, 1, ..., may also have ``greatest_square_of_orbits(w)``, which takes one w per label,
and ``greatest_squares_of_orbits``, which takes rows of them.

The least trace is found from its dual. Find S > 0 of least trace with tr(B_j S^-1) <= 1 for given
B_j >= 0: z_j z_j' for points, or diag(q_j). With M(mu) = sum_j mu_j B_j over mu >= 0 the dual
maximises 2 tr M^(1/2) - sum(mu), S is M^(1/2), and the slope in mu_j is r_j - 1, where
r_j = tr(B_j S^-1) is the left-hand side of the constraint. A barrier method is used: if
r_j = 1 - t / mu_j, every constraint holds strictly, and trace and dual differ by t for each of
them. Callers check the cover that they build from S, so only the last digits of optimality depend
on the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, qr, solve_triangular
from scipy.linalg.lapack import dposv

from skdp.geometry import (
    EncodedRowsBall,
    LpBall,
    MappedBall,
    NormBall,
    ProductBall,
    ShearedBall,
    SumBall,
)
from skdp.geometry.encoded_rows import orbits_of_rows
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import (
    dual_exponent,
    greatest_square,
    half_widths,
    known,
    norm_of,
    orbits_of,
    positive_square,
)
from skdp.trusted.checks import is_ours, remembered

COARSE, TOLERANCE = 1e-3, 1e-5  # relative, of the least trace
MOST_ROUNDS = 100
_SHRINK, _MOST_LEVELS = 0.1, 30  # of the barrier
_MOST_STEPS, _LEAST_LENGTH = 60, 1e-10  # of Newton's method
_LEAST_ROOT = 1e-150
_BESIDE, _STEP = 1e-4, 1e-7  # relative: where a tangent is taken, and its differences


class DualValue(NamedTuple):
    """tr S at mu, the r_j, and minus the derivatives of r, (count, count)."""

    trace: float
    ratios: FloatArray
    curvature: FloatArray


Dual = Callable[[FloatArray], DualValue]


def dual_of_sums(cuts: FloatArray, mu: FloatArray) -> DualValue:
    """Return the dual for B_j = diag(cuts[j])."""
    root = np.sqrt(mu @ cuts).clip(_LEAST_ROOT)
    return DualValue(float(root.sum()), cuts @ (1 / root), (cuts / (2 * root**3)) @ cuts.T)


def dual_of_points(z: FloatArray, mu: FloatArray) -> DualValue:
    """Return the dual for B_j = z[j] z[j]'."""
    root, axes = _root_and_axes(z, mu)
    y = z @ axes
    # The derivative of M^(-1/2) along E is -E_ab / (r_a r_b (r_a + r_b)) in M's own axes. Except
    # for powers of r_a and r_b this is a smooth kernel, which has few eigenvalues that matter.
    sizes, vectors = np.linalg.eigh(np.sqrt(np.outer(root, root)) / np.add.outer(root, root))
    curvature = np.zeros((len(z), len(z)))
    for size, vector in zip(sizes, vectors.T, strict=True):
        if size > 1e-10 * sizes[-1]:
            with np.errstate(over="ignore"):
                curvature += size * ((y * (vector / root**1.5)) @ y.T) ** 2
    return DualValue(float(root.sum()), y**2 @ (1 / root), curvature)


def _root_and_axes(z: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues and axes of M^(1/2), from a QR factor: M keeps half of the digits."""
    triangle = np.linalg.qr(np.sqrt(mu)[:, None] * z, mode="r")
    _, root, axes = np.linalg.svd(triangle)
    return root.clip(_LEAST_ROOT), axes.T


def solve_dual(dual: Dual, count: int, gap: float) -> FloatArray:
    """Return mu, (count,), whose S has a trace within ``gap`` of the least, relative."""
    share = np.full(count, 1 / count)
    trace = dual(share).trace
    mu, t = trace**2 * share, trace**2 / count
    for _ in range(_MOST_LEVELS):
        mu = _centre(dual, mu, t)
        if count * t <= gap * mu.sum():
            break
        t *= _SHRINK
    return mu


def _centre(dual: Dual, mu: FloatArray, t: float) -> FloatArray:
    """Maximise the dual + t sum(log mu) by Newton steps, in units of mu itself."""
    here = dual(mu)
    for _ in range(_MOST_STEPS):
        slope = mu * (here.ratios - 1) + t
        matrix = mu[:, None] * here.curvature * mu + t * np.eye(len(slope))
        if not np.isfinite(matrix).all():
            raise LinAlgError("the sum of the B_j is singular: the curvature is infinite")
        _, step, failed = dposv(matrix, slope)
        if failed:
            ridge = 1e-12 * float(np.trace(matrix)) * np.eye(len(slope))
            step = np.linalg.solve(matrix + ridge, slope)
        gain = float(step @ slope)
        if not gain > 1e-3 * t:
            break
        value, length = _height(here, mu, t), min(1.0, 0.95 / max(-step.min(), 1e-300))
        while length > _LEAST_LENGTH:
            there = mu * (1 + length * step)
            seen = dual(there)
            if _height(seen, there, t) >= value + 0.1 * length * gain:
                break
            length /= 2
        else:
            break  # the remaining gain is below the rounding error
        mu, here = there, seen
    return mu


def _height(here: DualValue, mu: FloatArray, t: float) -> float:
    return 2 * here.trace - float(mu.sum()) + t * float(np.log(mu).sum())


def cover_points(z: FloatArray) -> FloatArray:
    """Return A, (dim, dim), with S = A A' of nearly least trace and z' S^-1 z <= 1 for rows z.

    The points span the space. The constraints may be violated by a share of ``TOLERANCE``.
    """
    count, dim = z.shape
    most, gap = 4 * dim, COARSE  # how many points a round may add
    chosen = np.arange(count)
    if count > 2 * most:  # points that span the space, and the longest points
        pivots = qr(z.T, mode="r", pivoting=True)[1][:dim]
        longest = np.argsort((z**2).sum(axis=1))[::-1][: most - dim]
        chosen = np.unique(np.concatenate([pivots, longest]))
    for _ in range(MOST_ROUNDS):
        part = z[chosen]
        mu = solve_dual(partial(dual_of_points, part), len(part), gap / 10)
        root, axes = _root_and_axes(part, mu)
        ratios = ((z @ axes) ** 2) @ (1 / root)
        ratios[chosen] = 0
        worst = np.argsort(ratios)[-most:]
        worst = worst[ratios[worst] > 1 + gap]
        if not len(worst) and gap == TOLERANCE:
            break
        gap = gap if len(worst) else TOLERANCE
        chosen = np.concatenate([chosen, worst])
    return np.asarray(axes * np.sqrt(root))


def cover_sums(
    worst: Callable[[FloatArray], float],
    sums: FloatArray,
    worst_of_rows: Callable[[FloatArray], FloatArray] | None = None,
) -> FloatArray:
    """Return w > 0, (k,), that makes sum(sums / w) nearly least among those with worst(w) <= 1.

    ``worst_of_rows`` computes it for rows of w, (n, k) to (n,), if this is faster. ``worst`` is
    convex, positively homogeneous and nondecreasing, so it lies above its tangents, which serve as
    cuts. A tangent is taken a little beside the current point, where a piecewise linear function
    is linear, and its slope is found by differences.
    """
    # As it is nondecreasing, its value at a single coordinate is a lower bound.
    rows = worst_of_rows or (lambda rows: np.array([worst(row) for row in rows]))
    cuts, upper = np.diag(rows(np.eye(len(sums)))), math.inf
    w = best = 1 / np.sqrt(sums)
    rng, gap = np.random.default_rng(0), COARSE
    for _ in range(MOST_ROUNDS):
        beside = w * (1 + _BESIDE * rng.uniform(-1, 1, len(w)))
        own, *moved = rows(beside * (1 + _STEP * np.eye(len(w) + 1, len(w), k=-1)))
        tangent = np.asarray((moved - own) / (_STEP * beside)).clip(0)
        cuts = np.vstack([cuts, tangent])
        mu = solve_dual(partial(dual_of_sums, cuts * sums), len(cuts), gap)
        root = np.sqrt(mu @ (cuts * sums))
        w = sums / root
        w = w / worst(w)
        if (value := float((sums / w).sum())) < upper:
            best, upper = w, value
        # Every mu gives a lower bound. The dual is solved to a part of the distance from it.
        off = upper / float(2 * root.sum() - mu.sum()) - 1
        if off <= TOLERANCE:
            break
        gap = max(min(gap, off / 10), TOLERANCE / 100)
    return np.asarray(best)


# Factors whose relative rounding error may be greater than this are not used.
_MOST_ROUNDING = 1e-3


def least_cover(ball: NormBall, weights: FloatArray) -> FloatArray:
    """Return a factor A, (dim,) or (dim, dim), that covers the ball with little tr(W A A').

    W is a positive vector or a positive definite matrix. If the cover is diagonal by construction,
    only the diagonal of W is used.
    """
    if hasattr(ball, "greatest_square") and hasattr(ball, "orbits"):
        return _cover_orbits(ball, orbits_of(ball), _diagonal(weights))
    # Some balls need no list of points for a diagonal W.
    stretched = type(ball) is MappedBall and np.ndim(ball.matrix) == 1
    plain = stretched or type(ball) in (LpBall, ProductBall, SumBall)
    points = None if plain and weights.ndim == 1 else known(ball, "extreme_points")
    if points is not None:
        with suppress(LinAlgError):  # a cover that is too badly conditioned
            return raised_to_cover(_points_factor(points, weights), points)
    if not is_ours(ball):
        return _cover_lp(half_widths(ball) * ROUND_UP, math.inf, _diagonal(weights))
    match ball:
        case LpBall():
            return _cover_lp(ball.bounding_box(), ball.p, _diagonal(weights))
        case EncodedRowsBall():
            return _cover_orbits(ball, orbits_of_rows(ball), _diagonal(weights))
        case ProductBall() | SumBall():
            return _cover_parts(ball, weights)
        case MappedBall() | ShearedBall() if (image := _cover_image(ball, weights)) is not None:
            return image
    return _cover_lp(half_widths(ball) * ROUND_UP, math.inf, _diagonal(weights))


def raised_to_cover(factor: FloatArray, points: FloatArray) -> FloatArray:
    """Return a multiple of the lower triangular ``factor`` that is certain to cover the points.

    LinAlgError if the factor is too badly conditioned.
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
    first = np.take_along_axis(points, (points != 0).argmax(axis=1)[:, None], axis=1)
    cover = cover_points(points[first[:, 0] > 0] @ root)  # one of u and -u
    back = np.linalg.solve(root.T, cover)
    # A A' = R'R for the triangle R of A', with no square taken.
    return np.asarray(np.linalg.qr(back.T)[1].T)


def _cover_lp(widths: FloatArray, p: float, weights: FloatArray) -> FloatArray:
    """Minimise sum weights / w over greatest_square(w) <= 1, in closed form."""
    r = dual_exponent(p)
    if math.isinf(r):
        return widths * ROUND_UP
    # x = w widths^2 has |x|_r = 1, and minimises sum_i cost_i / x_i: x^(r + 1) ~ cost.
    cost = weights * widths**2
    x = (cost / cost.max()) ** (1 / (r + 1))
    return np.asarray(widths * np.sqrt(norm_of(x, r) / x) * ROUND_UP)


def _cover_orbits(ball: NormBall, orbit: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    sums = np.asarray(np.bincount(orbit, weights), dtype=float)
    if hasattr(ball, "greatest_square_of_orbits"):
        return _cover_of_sums(ball, tuple(sums.tolist()))[orbit]
    return _raised(lambda w: greatest_square(ball, w[orbit]), sums)[orbit]


@remembered(maxsize=64)
def _cover_of_sums(ball: Any, sums: tuple[float, ...]) -> FloatArray:
    """Return the cover of each orbit, (orbits,), for the sums of the weights of orbits."""
    rows = getattr(ball, "greatest_squares_of_orbits", None)
    one = ball.greatest_square_of_orbits
    return _raised(lambda w: positive_square(float(one(w))), np.array(sums), rows)


def _raised(
    greatest: Callable[[FloatArray], float],
    sums: FloatArray,
    rows: Callable[[FloatArray], FloatArray] | None = None,
) -> FloatArray:
    w = cover_sums(greatest, sums, rows)
    return np.asarray(np.sqrt(greatest(w) / w) * ROUND_UP)


def _cover_parts(ball: ProductBall | SumBall, weights: FloatArray) -> FloatArray:
    """Put the covers of the parts side by side; in a product they grow so that squares add to 1."""
    places = ball.places
    covers = [least_cover(b, _part(weights, at)) for b, at in zip(ball.balls, places, strict=True)]
    if isinstance(ball, SumBall):
        sizes = np.array([1 / weight for weight in ball.weights])
    else:
        traces = [trace(c, _part(weights, at)) for c, at in zip(covers, places, strict=True)]
        sizes = np.sqrt(np.sqrt(traces).sum() / np.sqrt(traces))
    grown = [np.asarray(c * s * ROUND_UP) for c, s in zip(covers, sizes, strict=True)]
    diagonal = all(factor.ndim == 1 for factor in grown)
    out = np.zeros(ball.dim if diagonal else (ball.dim, ball.dim))
    for factor, at in zip(grown, places, strict=True):
        full = np.diag(factor) if factor.ndim == 1 and not diagonal else factor
        out[at if diagonal else np.ix_(at, at)] = full
    return out


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
