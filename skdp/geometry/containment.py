"""The greatest gauge of a ball over a body, and containment of balls.

The greatest gauge of K over a body L is max {|u|_K : u in L}, the least t with L inside t K:
the sensitivity of a statistic whose differences fill L. It is the norm of a linear map between
two normed spaces, which has no closed form in general. It is computed from a closed form, corners
or faces if they are known, and else in few dimensions by subdivision of the directions into cones
until the bounds meet. Proofs: docs/proofs/orders.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.geometry.combined import MappedBall, ProductBall, ScaledBall, ShearedBall, SumBall
from skdp.geometry.programs import STEPS
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import LpBall, NormBall, ask, known, parts_of, sign_patterns
from skdp.trusted.checks import fail, is_ours

# Bodies that exceed each other by a smaller share than this count as touching.
TOUCH = 1e-9
# GaugeBounds are widened by this share, which is more than the rounding of gauges.
ROUND = 1e-12
# Fewer if a solver is run for each point, which takes a thousand times as long.
_MOST_CONES, _MOST_SLOW_CONES = 2**18, 2**7
STARTS = 32
# Relative difference of the bounds at which subdivision stops.
GAP = 2.5e-10

Gauge = Callable[[FloatArray], FloatArray]


class GaugeBounds(NamedTuple):
    """Bounds on a number; ``upper`` is inf if nothing is known."""

    lower: float
    upper: float

    @property
    def exact(self) -> bool:
        """Whether the two agree to a share of 1e-9."""
        return self.upper <= self.lower * (1 + TOUCH)


def greatest_gauge_over(ball: NormBall, over: NormBall) -> GaugeBounds:
    """Return bounds on the greatest gauge of ``ball`` over the body ``over``.

    Parameters
    ----------
    ball : NormBall
        K, the unit ball of the norm.
    over : NormBall
        L, of the same dimension.

    Returns
    -------
    GaugeBounds
        Bounds on max {|u|_K : u in L}. They agree (``exact``) for two l_p balls with any weights;
        if L has listable ``extreme_points()``; if K is a box, a small cross-polytope or has
        ``facets()`` (rows F with K = {v : |F v| <= 1}) and L has ``support(w)``; for products
        K and sums L of such parts; and for linear images of all these, but of two l_p balls
        only diagonal ones, or both p = 2. In up to five dimensions, if L has ``support(w)``,
        directions are subdivided until the bounds agree, which fails only if very many
        directions tie in more than two. Otherwise the bounds may be far apart. Fewer directions
        are tried if a gauge or a support needs a solver, or a class is not of this package.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> found = greatest_gauge_over(LpBall(4, p=1), LpBall(4, p=2))
    >>> round(found.upper, 9), found.exact
    (2.0, True)
    """
    return _bounds(ball, over, enough=0.0)


def contains(outer: NormBall, inner: NormBall) -> bool | None:
    """Return whether ``outer`` contains ``inner``.

    Parameters
    ----------
    outer, inner : NormBall
        Of the same dimension; a :class:`ScaledBall` compares a ball at another size.

    Returns
    -------
    bool or None
        True or False to a relative tolerance of 1e-9; balls that touch from inside are contained.
        None if the bounds of :func:`greatest_gauge_over` do not decide, so test with ``is True``
        or ``is False``.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> contains(LpBall(2, p=1, radius=2.0), LpBall(2, p=2)), contains(LpBall(2, p=1), LpBall(2))
    (True, False)
    """
    bounds = _bounds(outer, inner, enough=1.0)
    if bounds.upper <= 1 + TOUCH:
        return True
    return False if bounds.lower > 1 + TOUCH else None


def _bounds(ball: NormBall, over: NormBall, enough: float) -> GaugeBounds:
    """Return bounds; below ``enough``, the upper one need not be sharp."""
    if ball.dim != over.dim:
        raise fail("ball", f"have dimension {over.dim} as the other ball has", ball.dim)
    return _of_map(ball, over, np.eye(ball.dim), enough)


def _of_map(ball: NormBall, over: NormBall, matrix: FloatArray, enough: float) -> GaugeBounds:
    """Bound |A u|_K over u in L; images, products and sums are taken apart."""
    if isinstance(ball, ScaledBall):
        return _of_map(ball.ball, over, matrix / ball.factor, enough)
    if isinstance(ball, MappedBall | ShearedBall):
        unmapped = np.asarray(np.linalg.solve(_full(ball), matrix), dtype=float)
        return _of_map(ball.ball, over, unmapped, enough)
    if isinstance(over, ScaledBall):
        return _of_map(ball, over.ball, matrix * over.factor, enough)
    if isinstance(over, MappedBall | ShearedBall):
        return _of_map(ball, over.ball, matrix @ _full(over), enough)
    same = _of_itself(ball, over, matrix)
    if same is not None:
        return same
    if isinstance(ball, ProductBall):
        # Its gauge is the greatest of its parts'.
        rows = zip(ball.balls, ball.places, strict=True)
        return _greatest([_of_map(part, over, matrix[at], enough) for part, at in rows])
    if isinstance(over, SumBall):
        # It is the hull of its parts.
        parts = zip(over.balls, over.weights, over.places, strict=True)
        return _greatest([_of_map(ball, part, matrix[:, at] / w, enough) for part, w, at in parts])
    return _of_whole(ball, over, matrix, enough)


def _full(ball: MappedBall | ShearedBall) -> FloatArray:
    matrix = np.asarray(ball.matrix, dtype=float)
    return np.diag(matrix) if matrix.ndim == 1 else matrix


def _greatest(bounds: list[GaugeBounds]) -> GaugeBounds:
    return GaugeBounds(*np.max(bounds, axis=0).tolist())


def _of_whole(ball: NormBall, over: NormBall, matrix: FloatArray, enough: float) -> GaugeBounds:
    exact = _known(ball, over, matrix)
    if exact is not None:
        return GaugeBounds(exact * (1 - ROUND), exact * (1 + ROUND))
    quick = _is_quick(ball, ball.gauge) and _is_quick(over, over.gauge)
    upper = _through_the_box(ball, over, matrix)
    support = _support(over)
    if over.dim <= 5 and support:
        quick = quick and _is_quick(over, support)
        most = _MOST_CONES if quick else _MOST_SLOW_CONES
        lower, bound = by_cones(lambda u: ball.gauge(u @ matrix.T), over, support, enough, most)
        upper = min(upper, bound)
    else:
        lower = _climbed(ball, over, matrix, steps=8 if quick else 0)
    return GaugeBounds(lower * (1 - ROUND), upper * (1 + ROUND))


def _support(body: NormBall) -> Gauge | None:
    """Return the support function, or None if the body or one of its parts has none."""
    try:
        ask(body, "support", np.eye(body.dim)[:1])
    except AttributeError:
        return None
    return partial(ask, body, "support")


def _is_quick(body: NormBall, member: Gauge) -> bool:
    """Return whether a body is of this package and its member needs no solver for each vector.

    Solver calls are counted and not timed, so that results do not depend on the machine's load.
    """
    if not _is_ours(body):
        return False
    before = STEPS.count
    member(np.random.default_rng(0).standard_normal((2, body.dim)))
    return STEPS.count == before


def _is_ours(body: NormBall) -> bool:
    return is_ours(body) and all(map(_is_ours, parts_of(body)))


def _of_itself(ball: NormBall, over: NormBall, matrix: FloatArray) -> GaugeBounds | None:
    """Bound |A u|_K over K itself if A is nearly a multiple of the identity."""
    if not (ball is over or (type(ball) is type(over) and bool(ball == over))):
        return None
    if matrix.shape[0] != matrix.shape[1]:
        return None
    size = float(np.median(np.diag(matrix)))
    rest = matrix - size * np.eye(len(matrix))
    slack = _through_the_box(ball, over, rest) if rest.any() else 0.0
    return GaugeBounds(abs(size) - slack, abs(size) + slack) if slack <= ROUND * abs(size) else None


def _known(ball: NormBall, over: NormBall, matrix: FloatArray) -> float | None:
    """Return the greatest |A u|_K over u in L if it has a closed form."""
    if isinstance(ball, LpBall) and isinstance(over, LpBall):
        scaled = matrix * over.bounding_box() / ball.bounding_box()[:, None]
        used = scaled != 0
        if used.sum(axis=0).max() == used.sum(axis=1).max() == 1:
            # Hoelder's inequality, sharp: |D u|_r <= |D|_s |u|_p with 1/s = (1/r - 1/p)^+.
            share = max(0.0, 1 / ball.p - 1 / over.p)
            p = 1 / share if share else math.inf
            return float(LpBall(int(used.sum()), p=p).gauge(scaled[used]))
        if ball.p == over.p == 2:
            return float(np.linalg.norm(scaled, 2))
    faces, support = _faces(ball), _support(over)
    if faces is not None and support is not None:
        return float(np.max(support(faces @ matrix)))
    points = known(over, "extreme_points")
    return None if points is None else float(np.max(ball.gauge(points @ matrix.T)))


def _faces(ball: NormBall) -> FloatArray | None:
    """Return F with K = {v : |F v| <= 1}, or None; one row of each pair is enough."""
    if isinstance(ball, LpBall):
        if math.isinf(ball.p) or ball.dim == 1:
            return np.diag(1 / ball.bounding_box())
        if ball.p > 1 or ball.dim > 12:
            return None
        return half_of_signs(ball.dim) / ball.bounding_box()
    return known(ball, "facets")


def _through_the_box(ball: NormBall, over: NormBall, matrix: FloatArray) -> float:
    """Bound the greatest |A u|_K over L through the box around L, or around A L."""
    try:
        box = ask(over, "bounding_box")
    except AttributeError:
        return math.inf
    bound = float(np.sum(ball.gauge(np.diag(box) @ matrix.T)))
    if isinstance(ball, LpBall):
        # An l_p norm grows with the size of each coordinate.
        support = _support(over)
        sides = np.abs(matrix) @ box if support is None else support(matrix)
        bound = min(bound, float(ball.gauge(sides)))
    return bound


def _climbed(ball: NormBall, over: NormBall, matrix: FloatArray, steps: int) -> float:
    """Return |A u|_K at the best u in L that some ascent steps find."""

    def gauge(u: FloatArray) -> FloatArray:
        return ball.gauge(u @ matrix.T)

    rng = np.random.default_rng(0)
    u = _on_boundary(np.concatenate([np.eye(over.dim), over.sample(STARTS, rng)]), over)
    best = float(gauge(u).max())
    support = _support(over)
    if support is None:
        return best
    for _ in range(steps):
        # The norm is convex, so the farthest point of the body along its slope is no lower. The
        # slope is perturbed in case several points are equally far.
        slope = _slope(gauge, u[-STARTS:])
        slope += 1e-3 * np.abs(slope).max(axis=1)[:, None] * rng.standard_normal(slope.shape)
        u = _on_boundary(_slope(support, slope), over)
        best = max(best, float(gauge(u).max(initial=0.0)))
    return best


def _on_boundary(u: FloatArray, body: NormBall) -> FloatArray:
    size = body.gauge(u)
    usable = (size > 0) & np.isfinite(size)
    return np.asarray(u[usable] / size[usable, None])


def _slope(f: Gauge, at: FloatArray) -> FloatArray:
    """Return central differences of f at each row, (count, dim)."""
    sizes = 1e-6 * np.abs(at).max(axis=1) + np.finfo(float).tiny
    steps = sizes[:, None, None] * np.eye(at.shape[1])
    middle = at[:, None, :]
    return np.asarray((f(middle + steps) - f(middle - steps)) / (2 * sizes[:, None]))


# The greatest norm over a convex body, by subdivision of the directions into cones.
#
# In a cone of directions spanned by points r_1, ..., r_d of the body, u = sum_i c_i r_i with c >= 0
# has |u| <= sum_i c_i |r_i|, and sum_i c_i <w, r_i> = <w, u> is at most the body's support in w.
# So the norm is at most support(w) max_i |r_i| / <w, r_i> there, whatever w is.


def half_of_signs(dim: int) -> FloatArray:
    """Return all vectors of +1 and -1 that begin with 1, (2**(dim - 1), dim)."""
    return np.column_stack([np.ones(2 ** (dim - 1)), sign_patterns(dim - 1)])


def by_cones(
    gauge: Gauge, body: NormBall, support: Gauge, enough: float, most: int
) -> tuple[float, float]:
    """Return bounds on the greatest norm over a body; cones with a high bound are subdivided.

    At most about ``most`` cones are tried. The upper bound need not be less than ``enough``, nor
    the lower one greater by more than a share of 1e-8.
    """
    # Half of the orthants, (2**(dim - 1), dim, dim): the rows are points of the body.
    axes = np.eye(body.dim)
    cones = half_of_signs(body.dim)[:, :, None] * (axes / body.gauge(axes)[:, None])
    at_rays, scale = gauge(cones), np.linalg.norm(cones[0], axis=0)
    seen, lower = 0, float(at_rays.max())
    while True:
        # The w of each cone is the one that is 1 at every ray.
        ones = np.ones((*cones.shape[:2], 1))
        normals = np.asarray(np.linalg.solve(cones, ones)[..., 0], dtype=float)
        products = np.einsum("nij,nj->ni", cones, normals)
        upper = np.asarray(support(normals) * (at_rays / products).max(axis=1))
        goal = max(lower, enough) * (1 + GAP)
        seen += len(cones)
        if seen > most or 0 < enough * (1 + 1e-8) < lower:
            return lower, max(goal, float(upper.max()))
        wide = upper > goal
        if not wide.any():
            return lower, goal
        cones, at_rays = cones[wide], at_rays[wide]
        # Each cone is cut in two through the middle of its longest edge, in units of ``scale``.
        first, second = np.triu_indices(cones.shape[1], 1)
        lengths = np.linalg.norm((cones[:, first] - cones[:, second]) / scale, axis=2)
        longest, rows = lengths.argmax(axis=1), np.arange(len(cones))
        first, second = first[longest], second[longest]
        middle = cones[rows, first] + cones[rows, second]
        middle /= body.gauge(middle)[:, None]
        cones, at_rays = np.repeat(cones[None], 2, axis=0), np.repeat(at_rays[None], 2, axis=0)
        at_middle = gauge(middle)
        for half, replaced in enumerate((first, second)):
            cones[half, rows, replaced], at_rays[half, rows, replaced] = middle, at_middle
        cones, at_rays = np.concatenate(cones), np.concatenate(at_rays)
        lower = max(lower, float(at_rays.max()))
