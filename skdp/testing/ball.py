"""Checks of norm balls: `check_ball` and its parts.

False alarms. Every p-value has the threshold ALARM = 1e-10. A ball has fewer than 40 of them, and
fifty balls fewer than 2000: 2e-7. A mean of at least 40,000 draws may be off by SIGMAS = 8 of its
standard errors: the rate is 1.3e-15 for a normal mean, and below 1e-12 for a skewness of up to 10,
as of squares of exponential-like coordinates. A hundred dimensions have 5051 such means: 5e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial import ConvexHull
from scipy.stats import binomtest, gamma, ks_2samp, kstest

from skdp.testing._require import agree, members_of, pickled, require
from skdp.trusted.ball import NormBall, known
from skdp.trusted.randomness import RandomStateLike, as_generator

Array = NDArray[np.float64]
Check = Callable[[NormBall, Generator], None]
MEMBERS = ("dim", "exact", "gauge", "sample")
ALARM = 1e-10
SIGMAS = 8.0
# Tolerance for extents, which may be computed by a solver.
_CLOSE = 1e-6


def check_ball(ball: NormBall, *, random_state: RandomStateLike = 0) -> None:
    """Raise AssertionError unless an object is a norm ball that mechanisms can use.

    It must have the members of `skdp.geometry.NormBall`; optional members are checked if they
    exist. Its gauge must be a norm. If the sampler is stated to be exact, it must draw uniformly:
    the privacy of the K-norm mechanism depends on it.

    Parameters
    ----------
    ball : object
        Any norm ball, of this package or a third-party one.
    random_state : None, int, Generator or RandomState, default=0
        Source of draws and test points.

    Raises
    ------
    AssertionError
        If a rule is broken; the message gives the member and the rule.

    Notes
    -----
    Finitely many points are tested, so that a fault in a small region can be missed. In more than
    four dimensions draws are compared with those of a random walk that preserves the uniform law.
    This shows that the law is stationary, not that it is uniform in every direction.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.testing import check_ball
    >>> check_ball(LpBall(2, p=1))
    >>> check_ball([1.0, 2.0])
    Traceback (most recent call last):
        ...
    AssertionError: list must have the members ['dim', 'exact', 'gauge', 'sample'], got ...
    """
    members_of(ball, MEMBERS)
    rng = as_generator(random_state)
    for check in BATTERY:
        if ball.exact or check not in _ABOUT_DRAWS:
            check(ball, rng)


def check_protocol(ball: NormBall, rng: Generator) -> None:
    """Check shapes, pickles, and that equal seeds give equal draws."""
    name = type(ball).__name__
    require(isinstance(ball.dim, int | np.integer) and ball.dim >= 1, f"{name}.dim", "be >= 1")
    require(isinstance(ball.exact, bool), f"{name}.exact", "be True or False")
    v = rng.normal(size=(2, 3, ball.dim))
    single = np.array([[ball.gauge(x) for x in row] for row in v])
    rule = "give for a table of points, (..., dim), what it gives for each of them"
    agree(ball.gauge(v), single, 1e-12, f"{name}.gauge", rule)
    found = np.shape(ball.sample(0, rng))
    require(found == (0, ball.dim), f"{name}.sample", f"give the shape (n, {ball.dim})", found)
    copies = [pickled(ball, name) for _ in "ab"]
    one, two = (np.asarray(copy.sample(4, np.random.default_rng(1))) for copy in copies)
    found = one.shape
    require(found == (4, ball.dim), f"{name}.sample", f"give the shape (n, {ball.dim})", found)
    agree(one, two, 0.0, f"{name}.sample", "draw from the bits of rng alone")


def check_norm(ball: NormBall, rng: Generator) -> None:
    """Check that the gauge is positive, symmetric, homogeneous and subadditive."""
    name = f"{type(ball).__name__}.gauge"
    # Of many sizes, sparse, nearly parallel or opposite.
    pairs = rng.normal(size=(60, 2, ball.dim)) * np.exp(rng.uniform(-7, 7, (60, 2, 1)))
    pairs[10:30] *= rng.integers(0, 2, (20, 2, ball.dim))
    pairs[30:40, 1] = pairs[30:40, 0] * rng.uniform(-2, 2, (10, 1))
    pairs[40:50, 1] = -pairs[40:50, 0] + rng.normal(size=(10, ball.dim)) * 1e-3
    for pair in pairs:
        check_norm_at(ball, pair, float(np.exp(rng.uniform(-7, 7))))
    signs = rng.integers(-1, 2, (200, ball.dim))
    positive = ball.gauge(signs[signs.any(axis=1)].astype(float)) > 0
    require(positive, name, "be > 0 except at 0")
    require(ball.gauge(np.zeros(ball.dim)) == 0, name, "be 0 at 0")


def check_norm_at(ball: NormBall, pair: Array, factor: float) -> None:
    """Check the axioms of a norm for two points, (2, dim), and a factor > 0."""
    name = f"{type(ball).__name__}.gauge"
    g, h, both = ball.gauge(np.vstack([pair, pair.sum(axis=0)]))
    agree(ball.gauge(-pair), [g, h], 1e-9, name, "be symmetric: |-v| = |v|", 1e-100)
    found = ball.gauge(factor * pair[0])
    agree(found, factor * g, 1e-9, name, "be homogeneous: |t v| = t |v|", 1e-100)
    rule = "satisfy the triangle inequality: |u + v| <= |u| + |v|"
    require(both <= (g + h) * (1 + 1e-9) + 1e-12, name, rule, (g, h, both))
    require(g > 0 or not (np.abs(pair[0]) > 1e-100).any(), name, "be > 0 except at 0", g)


def check_extent(ball: NormBall, rng: Generator) -> None:
    """Check that the boundary is inside the box, the support, and the hulls that are stated."""
    v = rng.normal(size=(200, ball.dim)) * np.exp(rng.uniform(-3, 3, (200, ball.dim)))
    v = np.concatenate([v, np.eye(ball.dim)[:200], rng.choice([-1.0, 1.0], (60, ball.dim))])
    edge, w = v / ball.gauge(v)[:, None], rng.normal(size=(60, ball.dim))
    name, extent = type(ball).__name__, (edge @ w.T).max(axis=0) * (1 - _CLOSE)
    if hasattr(ball, "support"):
        held = ball.support(w) >= extent
        require(held, f"{name}.support", "be at least <w, u> for every u in the ball")
    if (points := corners(ball)) is not None:
        held = np.abs(points @ w.T).max(axis=0) >= extent
        require(held, f"{name}.extreme_points", "have the ball in their hull")
    if (box := known(ball, "bounding_box")) is not None:
        held = box >= np.abs(edge).max(axis=0) * (1 - _CLOSE)
        require(held, f"{name}.bounding_box", "contain the ball")
    if (normals := known(ball, "facets")) is not None:
        heights = np.abs(edge @ normals.T).max(axis=1)
        agree(heights, np.ones(len(edge)), _CLOSE, f"{name}.facets", "agree with the gauge")


def check_support(ball: NormBall, rng: Generator) -> None:
    """Check that draws are within the support function, and that it is dual to the gauge."""
    if not hasattr(ball, "support"):
        return
    name = f"{type(ball).__name__}.support"
    u, w = ball.sample(500, rng), rng.normal(size=(60, ball.dim))
    top = ball.support(w)
    require(np.shape(top) == (60,), name, "give one number for each of (..., dim)", np.shape(top))
    require(u @ w.T <= top * (1 + 1e-12), name, "be at least <w, u> for every u in the ball")
    for at in w[:3]:
        point = gradient(ball.support, at)
        agree(at @ point, ball.support(at), 1e-5, name, "be attained at its own gradient")
        agree(ball.gauge(point), 1.0, 1e-4, name, "be attained at a point of gauge 1")
    for at in u[:3]:
        # |v| = max <w, v> over w with support(w) <= 1.
        normal = gradient(ball.gauge, at)
        agree(at @ normal, ball.gauge(at), 1e-5, name, "be dual to the gauge")
        agree(ball.support(normal), 1.0, 1e-4, name, "be dual to the gauge")


def check_box(ball: NormBall, rng: Generator) -> None:
    """Check that the bounding box is the support along the axes, and contains the draws."""
    if not hasattr(ball, "bounding_box"):
        return
    name = f"{type(ball).__name__}.bounding_box"
    box = ball.bounding_box()
    require(np.shape(box) == (ball.dim,), name, f"be {ball.dim} half-widths", np.shape(box))
    inside = np.abs(ball.sample(500, rng)) <= box * (1 + 1e-12)
    require(inside, name, "contain every draw")
    if hasattr(ball, "support"):
        agree(ball.support(np.eye(ball.dim)), box, 1e-9, name, "be support() along the axes")


def check_polytope(ball: NormBall, rng: Generator) -> None:
    """Check gauge, support, volume and covariance by the extreme points, if they can be listed."""
    points = corners(ball)
    if points is None or ball.dim < 2:
        return
    name = f"{type(ball).__name__}.extreme_points"
    agree(ball.gauge(points), np.ones(len(points)), 1e-9, name, "lie on the boundary")
    mirrored = sorted(map(tuple, 0.0 - points))
    agree(sorted(map(tuple, points + 0.0)), mirrored, 1e-7, name, "come in pairs u, -u")
    w = rng.normal(size=(20, ball.dim))
    if hasattr(ball, "support"):
        rule = "be the greatest <w, u> over the extreme points"
        expected = (w @ points.T).max(axis=1)
        agree(ball.support(w), expected, 1e-9, f"{type(ball).__name__}.support", rule)
    rule = "be that of the hull of the extreme points"
    if len(points) <= 300:
        for v in rng.normal(size=(6, ball.dim)) * rng.integers(0, 2, (6, ball.dim)):
            found = ball.gauge(v)
            agree(found, lp_gauge(points, v), 1e-7, f"{type(ball).__name__}.gauge", rule, 1e-9)
    if len(points) <= 40:
        for i, point in enumerate(points):
            outside = lp_gauge(np.delete(points, i, axis=0), point) > 1 + 1e-7
            single = "list no point that lies in the hull of the others"
            require(outside, name, single, point.tolist())
    if ball.dim <= 5 and hasattr(ball, "log_volume") and hasattr(ball, "covariance"):
        volume, covariance = polytope_moments(points)
        name = type(ball).__name__
        agree(ball.log_volume(), math.log(volume), 0.0, f"{name}.log_volume", rule, 1e-9)
        agree(ball.covariance(), covariance, 1e-9, f"{name}.covariance", rule, 1e-12)


def check_radius(ball: NormBall, rng: Generator, draws: int = 20_000) -> None:
    """Check that draws lie in the ball, with |U|^dim uniform and a Gamma(dim) K-norm law."""
    name = f"{type(ball).__name__}.sample"
    u = np.asarray(ball.sample(draws, rng), dtype=float)
    held = u.shape == (draws, ball.dim) and np.isfinite(u).all()
    require(held, name, f"draw finite points of the shape (n, {ball.dim})", u.shape)
    g = ball.gauge(u)
    require(g.max() <= 1 + 1e-12, name, "draw points of the ball, of gauge <= 1", g.max())
    p = kstest(g**ball.dim, "uniform").pvalue
    rule = "draw from the whole ball: |U|^dim is uniform on [0, 1]"
    require(p > ALARM, name, rule, f"p = {p:.2g}")
    r = rng.standard_gamma(ball.dim + 1, len(g))
    p = kstest(r * g, gamma(ball.dim).cdf).pvalue
    require(p > ALARM, name, "make K-norm noise with a Gamma(dim) gauge", f"p = {p:.2g}")


def check_stationary(ball: NormBall, rng: Generator) -> None:
    """Check that a hit-and-run walk, which preserves only the uniform law, changes nothing."""
    walked = hit_and_run(ball, ball.sample(4_000, rng), 10, rng)
    rule = "draw uniformly: a walk that preserves the uniform law must not change the draws"
    same_law(walked, ball.sample(20_000, rng), rng, f"{type(ball).__name__}.sample", rule)


def check_rejection(ball: NormBall, rng: Generator) -> None:
    """Check draws and volume by rejection from the bounding box, up to dimension 4."""
    if ball.dim > 4 or not hasattr(ball, "bounding_box"):
        return
    name, box = type(ball).__name__, ball.bounding_box()
    tried = rng.uniform(-box, box, (100_000, ball.dim))
    kept = tried[ball.gauge(tried) <= 1]
    rule = "draw uniformly, like rejection from the bounding box"
    same_law(kept, ball.sample(20_000, rng), rng, f"{name}.sample", rule)
    if hasattr(ball, "log_volume"):
        share = min(1.0, math.exp(ball.log_volume()) / float(np.prod(2 * box)))
        p = binomtest(len(kept), len(tried), share).pvalue
        rule = "agree with the share of the bounding box where the gauge is <= 1"
        require(p > ALARM, f"{name}.log_volume", rule, f"p = {p:.2g}")


def check_covariance(ball: NormBall, rng: Generator) -> None:
    """Check the covariance by draws, for each entry and for the Mahalanobis length."""
    if not hasattr(ball, "covariance"):
        return
    n = max(40_000, min(150_000, 1_000_000 // ball.dim))
    covariance, u = ball.covariance(), ball.sample(n, rng)
    name = f"{type(ball).__name__}.covariance"
    agree(covariance, covariance.T, 1e-7, name, "be symmetric", 1e-14)
    if hasattr(ball, "variance"):
        rule = "be the diagonal of the covariance"
        agree(ball.variance(), np.diag(covariance), 1e-9, f"{type(ball).__name__}.variance", rule)
    near(u.T @ u / n, (u**2).T @ u**2 / n, covariance, n, name)
    length = (u * np.linalg.solve(covariance, u.T).T).sum(axis=1)
    near(length.mean(), (length**2).mean(), ball.dim, n, name)


def near(
    mean: Array, mean_square: Array, truth: Array | int, n: int, name: str = "covariance"
) -> None:
    """Require means of n draws to be within SIGMAS standard errors of the true values."""
    error = np.sqrt(np.maximum(mean_square - mean**2, 0) / n)
    require(np.abs(mean - truth) <= SIGMAS * error + 1e-12, name, "be that of the draws")


def same_law(x: Array, y: Array, rng: Generator, name: str, rule: str) -> None:
    """Require two samples to have the same law, by six projections and sizes of coordinates."""
    scale = y.std(axis=0)
    ways = rng.normal(size=(x.shape[1], 6)) / scale[:, None]

    def statistics(draws: Array) -> list[Array]:
        size = np.abs(draws / scale).T
        return [*(draws @ ways).T, size.max(0), size.min(0), size.sum(0), (draws > 0).sum(axis=1)]

    for a, b in zip(statistics(x), statistics(y), strict=True):
        p = ks_2samp(a, b).pvalue
        require(p > ALARM, name, rule, f"p = {p:.2g}")


def hit_and_run(ball: NormBall, x: Array, steps: int, rng: Generator) -> Array:
    """Move every row to a uniform point of a chord through it, in random directions."""
    scale = x.std(axis=0)
    for _ in range(steps):
        way = rng.normal(size=x.shape) * scale
        # The chord is within 2 / |way|; shrinking towards 0 after a miss keeps the uniform law.
        high = 2 / ball.gauge(way)
        low, t = -high, rng.uniform(-high, high)
        while (out := ball.gauge(x + t[:, None] * way) > 1).any():
            low, high = np.where(out & (t < 0), t, low), np.where(out & (t > 0), t, high)
            t = np.where(out, rng.uniform(low, high), t)
        x = x + t[:, None] * way
    return x


_ABOUT_DRAWS: tuple[Check, ...]
_ABOUT_DRAWS = check_radius, check_stationary, check_rejection, check_covariance
BATTERY: tuple[Check, ...]
BATTERY = (
    check_protocol,
    check_norm,
    check_extent,
    *_ABOUT_DRAWS,
    check_support,
    check_box,
    check_polytope,
)


def gradient(f: Callable[[Array], Array], at: Array) -> Array:
    """Return the gradient of a function of points by central differences."""
    step = 1e-6 * np.abs(at).max() * np.eye(len(at))
    return np.asarray((f(at + step) - f(at - step)) / (2e-6 * np.abs(at).max()))


def corners(ball: object) -> Array | None:
    """Return the extreme points, or None if the ball has none or too many."""
    try:
        return np.asarray(ball.extreme_points(), dtype=np.float64)  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return None


def lp_gauge(points: Array, v: Array) -> float:
    """Return the least sum of weights >= 0 such that the weighted points add to v, or inf."""
    found = linprog(np.ones(len(points)), A_eq=points.T, b_eq=v)
    return math.inf if found.fun is None else float(found.fun)


def polytope_moments(points: Array) -> tuple[float, Array]:
    """Return volume and covariance of the hull, from its simplices with the vertex 0."""
    d = points.shape[1]
    facets = points[ConvexHull(points).simplices]
    volumes = np.abs(np.linalg.det(facets)) / math.factorial(d)
    middle = facets.sum(axis=1)
    square = np.einsum("fki,fkj->fij", facets, facets) + middle[:, :, None] * middle[:, None, :]
    second = (volumes[:, None, None] * square).sum(axis=0) / ((d + 1) * (d + 2))
    return float(volumes.sum()), np.asarray(second / volumes.sum())
