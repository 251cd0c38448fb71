"""The greatest gauge of a ball over a body, and containment of balls.

The greatest gauge of K over a body L is max {|u|_K : u in L}, the least t with L inside t K:
the sensitivity of a statistic whose differences fill L. It is the norm of a linear map between
two normed spaces, which has no closed form in general. It is computed from a closed form, corners
or faces if they are known, and else in few dimensions by subdivision of the directions into cones
until the bounds meet. Proofs: docs/proofs/orders.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skdp.geometry.combined import MappedBall, ShearedBall
from skdp.trusted.ball import LpBall, NormBall, ask, greatest_gauge, known, parts_of, sign_patterns
from skdp.trusted.checks import fail, is_ours

# Bodies that exceed each other by a smaller share than this count as touching.
TOUCH = 1e-9
# GaugeBounds are widened by this share, which is more than the rounding of gauges.
ROUND = 1e-12
# Fewer if a solver is run for each point, which takes a thousand times as long.
_MOST_CONES, _MOST_SLOW_CONES = 2**18, 2**7
# Draws from the body, for a lower bound.
_STARTS = 32
# Relative difference of the bounds at which subdivision stops.
GAP = 2.5e-10


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
        Bounds on max {|u|_K : u in L}. They agree (``exact``) for two l_p balls; if L has listable
        ``extreme_points()``; and if K has ``facets()`` (rows F with K = {v : |F v| <= 1}) and L
        has ``support(w)``. In up to five dimensions, if L has ``support(w)``, directions are
        subdivided until the bounds agree, which fails only if very many directions tie in more
        than two. Otherwise the bounds may be far apart. Fewer directions are tried if a gauge
        needs a solver, or a class is not of this package.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> found = greatest_gauge_over(LpBall(4, p=1), LpBall(4, p=2))
    >>> round(found.upper, 9), found.exact
    (2.0, True)
    """
    if ball.dim != over.dim:
        raise fail("ball", f"have dimension {over.dim} as the other ball has", ball.dim)
    while isinstance(over, MappedBall | ShearedBall):
        # |A u|_K is a norm of u.
        matrix = np.asarray(over.matrix)
        inverse = 1 / matrix if matrix.ndim == 1 else np.linalg.inv(matrix)
        ball, over = MappedBall(ball, inverse), over.ball
    if ball is over or ball == over:
        return GaugeBounds(1.0, 1.0)
    if (exact := _known(ball, over)) is not None:
        return GaugeBounds(exact * (1 - ROUND), exact * (1 + ROUND))
    try:
        upper = greatest_gauge(ball, over)
    except ValueError:  # not even a box is known
        upper = math.inf
    points = np.eye(over.dim)
    if over.exact:
        points = np.concatenate([points, over.sample(_STARTS, np.random.default_rng(0))])
    sizes = over.gauge(points)
    at = sizes > 0
    lower = float(ball.gauge(points[at] / sizes[at, None]).max())
    if over.dim <= 5 and _supports(over):
        most = _MOST_CONES if _is_quick(ball) and _is_quick(over) else _MOST_SLOW_CONES
        found, bound = _by_cones(ball, over, most)
        lower, upper = max(lower, found), min(upper, bound)
    return GaugeBounds(lower * (1 - ROUND), upper * (1 + ROUND))


def contains(outer: NormBall, inner: NormBall) -> bool | None:
    """Return whether ``outer`` contains ``inner``.

    Parameters
    ----------
    outer, inner : NormBall
        Of the same dimension.

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
    bounds = greatest_gauge_over(outer, inner)
    if bounds.upper <= 1 + TOUCH:
        return True
    return False if bounds.lower > 1 + TOUCH else None


def _known(ball: NormBall, over: NormBall) -> float | None:
    """Return the greatest gauge if it has a closed form."""
    if isinstance(ball, LpBall) and isinstance(over, LpBall):
        # Hoelder's inequality, sharp: |D u|_r <= |D|_s |u|_p with 1/s = (1/r - 1/p)^+.
        share = max(0.0, 1 / ball.p - 1 / over.p)
        scales = over.bounding_box() / ball.bounding_box()
        return float(LpBall(ball.dim, p=1 / share if share else math.inf).gauge(scales))
    points, faces = known(over, "extreme_points"), known(ball, "facets")
    if points is not None:
        return float(np.max(ball.gauge(points)))
    if isinstance(ball, LpBall) and math.isinf(ball.p):
        faces = np.diag(1 / ball.bounding_box())
    if faces is None or not _supports(over):
        return None
    return float(np.max(ask(over, "support", faces)))


def _supports(body: NormBall) -> bool:
    """Return whether a body and its parts have a support function."""
    return hasattr(body, "support") and all(map(_supports, parts_of(body)))


def _is_quick(body: NormBall) -> bool:
    """Return whether a body is of this package, and no gauge needs a solver."""
    return is_ours(body) and getattr(body, "decided", True) and all(map(_is_quick, parts_of(body)))


# The greatest norm over a convex body, by subdivision of the directions into cones.
#
# In a cone of directions spanned by points r_1, ..., r_d of the body, u = sum_i c_i r_i with c >= 0
# has |u| <= sum_i c_i |r_i|, and sum_i c_i <w, r_i> = <w, u> is at most the body's support in w.
# So the norm is at most support(w) max_i |r_i| / <w, r_i> there, whatever w is.


def _by_cones(ball: NormBall, body: NormBall, most: int) -> tuple[float, float]:
    """Return bounds on the greatest gauge over a body; cones with a high bound are subdivided.

    At most about ``most`` cones are tried.
    """
    # Half of the orthants, (2**(dim - 1), dim, dim): the rows are points of the body.
    axes = np.eye(body.dim)
    signs = np.column_stack([np.ones(2 ** (body.dim - 1)), sign_patterns(body.dim - 1)])
    cones = signs[:, :, None] * (axes / body.gauge(axes)[:, None])
    at_rays, scale = ball.gauge(cones), np.linalg.norm(cones[0], axis=0)
    seen, lower = 0, float(at_rays.max())
    while True:
        # The w of each cone is the one that is 1 at every ray.
        ones = np.ones((*cones.shape[:2], 1))
        normals = np.asarray(np.linalg.solve(cones, ones)[..., 0], dtype=float)
        products = np.einsum("nij,nj->ni", cones, normals)
        upper = np.asarray(ask(body, "support", normals) * (at_rays / products).max(axis=1))
        goal = lower * (1 + GAP)
        seen += len(cones)
        if seen > most:
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
        at_middle = ball.gauge(middle)
        for half, replaced in enumerate((first, second)):
            cones[half, rows, replaced], at_rays[half, rows, replaced] = middle, at_middle
        cones, at_rays = np.concatenate(cones), np.concatenate(at_rays)
        lower = max(lower, float(at_rays.max()))
