"""One battery for every norm ball: `check(ball, rng)` raises AssertionError where it is wrong.

False alarms. Every p-value is held against ALARM = 1e-10; a ball meets fewer than 40 of them,
fifty balls fewer than 2000: 2e-7. A mean of 40,000 draws or more is held against SIGMAS = 8 of
its standard errors: 1.3e-15 for a normal mean, below 1e-12 with the skewness of up to 10 that
squares of exponential-like coordinates have. A hundred dimensions have 5051 such means: 5e-9.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.random import Generator
from scipy.optimize import linprog
from scipy.spatial import ConvexHull
from scipy.stats import binomtest, gamma, ks_2samp, kstest

from skdp.geometry import NormBall

ALARM = 1e-10
SIGMAS = 8.0
QUICK = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, report_multiple_bugs=False
)
Array = np.ndarray[Any, np.dtype[np.float64]]
Check = Callable[[Any, Generator], None]


def check_protocol(ball: Any, rng: Generator) -> None:
    """It is a NormBall, keeps shapes, draws the same from the same seed, and can be pickled."""
    assert isinstance(ball, NormBall)
    v = rng.normal(size=(2, 3, ball.dim))
    single = np.array([[ball.gauge(x) for x in row] for row in v])
    np.testing.assert_allclose(ball.gauge(v), single, rtol=1e-12)
    assert ball.sample(0, rng).shape == (0, ball.dim)
    twice = [pickle.loads(pickle.dumps(ball)).sample(4, np.random.default_rng(1)) for _ in "ab"]
    assert twice[0].shape == (4, ball.dim)
    np.testing.assert_array_equal(*twice)


def check_norm(ball: Any, rng: Generator) -> None:
    """The gauge is a norm: positive, symmetric, homogeneous, and it keeps the triangle."""
    numbers = st.floats(-1e3, 1e3, allow_subnormal=False)
    pairs = arrays(np.float64, (2, ball.dim), elements=numbers)

    @settings(QUICK)
    @given(pairs, st.floats(1e-3, 1e3))
    def holds(pair: Array, factor: float) -> None:
        g, h, both = ball.gauge(np.vstack([pair, pair.sum(axis=0)]))
        np.testing.assert_allclose(ball.gauge(-pair), [g, h], rtol=1e-9, atol=1e-100)
        np.testing.assert_allclose(ball.gauge(factor * pair[0]), factor * g, rtol=1e-9, atol=1e-100)
        assert both <= (g + h) * (1 + 1e-9) + 1e-12
        assert g > 0 or not (np.abs(pair[0]) > 1e-100).any()

    holds()
    signs = rng.integers(-1, 2, (200, ball.dim))
    assert (ball.gauge(signs[signs.any(axis=1)]) > 0).all()
    assert ball.gauge(np.zeros(ball.dim)) == 0


def check_radius(ball: Any, rng: Generator) -> None:
    """Draws lie in the ball, |U|^dim is uniform, and the K-norm law has a Gamma(dim) gauge."""
    g = ball.gauge(ball.sample(20_000, rng))
    assert g.max() <= 1 + 1e-12
    assert kstest(g**ball.dim, "uniform").pvalue > ALARM
    r = rng.standard_gamma(ball.dim + 1, len(g))
    assert kstest(r * g, gamma(ball.dim).cdf).pvalue > ALARM


def check_stationary(ball: Any, rng: Generator) -> None:
    """A hit-and-run walk, which leaves only the uniform law alone, does not change the draws."""
    walked = hit_and_run(ball, ball.sample(4_000, rng), 10, rng)
    same_law(walked, ball.sample(20_000, rng), rng)


def check_rejection(ball: Any, rng: Generator) -> None:
    """Up to dim 4: draws agree with what of the bounding box is in the ball; so does the volume."""
    if ball.dim > 4 or not hasattr(ball, "bounding_box"):
        return
    box = ball.bounding_box()
    tried = rng.uniform(-box, box, (100_000, ball.dim))
    kept = tried[ball.gauge(tried) <= 1]
    same_law(kept, ball.sample(20_000, rng), rng)
    if hasattr(ball, "log_volume"):
        share = min(1.0, math.exp(ball.log_volume()) / np.prod(2 * box))
        assert binomtest(len(kept), len(tried), share).pvalue > ALARM


def check_covariance(ball: Any, rng: Generator) -> None:
    """The covariance is that of the draws, entry by entry and as a whole."""
    if not hasattr(ball, "covariance"):
        return
    n = max(40_000, min(150_000, 1_000_000 // ball.dim))
    covariance, u = ball.covariance(), ball.sample(n, rng)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-14)
    near(u.T @ u / n, (u**2).T @ u**2 / n, covariance, n)
    length = (u * np.linalg.solve(covariance, u.T).T).sum(axis=1)
    near(length.mean(), (length**2).mean(), ball.dim, n)


def check_support(ball: Any, rng: Generator) -> None:
    """No draw is beyond the support, its gradient is a point of K that attains it, and back."""
    if not hasattr(ball, "support"):
        return
    u, w = ball.sample(500, rng), rng.normal(size=(60, ball.dim))
    top = ball.support(w)
    assert top.shape == (60,)
    assert (u @ w.T <= top * (1 + 1e-12)).all()
    for at in w[:3]:
        point = gradient(ball.support, at)
        np.testing.assert_allclose(at @ point, ball.support(at), rtol=1e-5)
        np.testing.assert_allclose(ball.gauge(point), 1, rtol=1e-4)
    for at in u[:3]:
        # |v| = max <w, v> over w with support(w) <= 1: nothing outside K is let in.
        normal = gradient(ball.gauge, at)
        np.testing.assert_allclose(at @ normal, ball.gauge(at), rtol=1e-5)
        np.testing.assert_allclose(ball.support(normal), 1, rtol=1e-4)


def check_box(ball: Any, rng: Generator) -> None:
    """The bounding box is what the support says along the axes, and holds the draws."""
    if not hasattr(ball, "bounding_box"):
        return
    box = ball.bounding_box()
    assert box.shape == (ball.dim,)
    assert (np.abs(ball.sample(500, rng)) <= box * (1 + 1e-12)).all()
    np.testing.assert_allclose(ball.support(np.eye(ball.dim)), box, rtol=1e-9)


def check_polytope(ball: Any, rng: Generator) -> None:
    """Where corners can be listed: gauge, support, volume and covariance follow from them."""
    points = corners(ball)
    if points is None or ball.dim < 2:
        return
    np.testing.assert_allclose(ball.gauge(points), 1, rtol=1e-9)
    np.testing.assert_allclose(sorted(map(tuple, points + 0.0)), sorted(map(tuple, 0.0 - points)))
    w = rng.normal(size=(20, ball.dim))
    np.testing.assert_allclose(ball.support(w), (w @ points.T).max(axis=1), rtol=1e-9)
    if len(points) <= 300:
        for v in rng.normal(size=(6, ball.dim)) * rng.integers(0, 2, (6, ball.dim)):
            np.testing.assert_allclose(ball.gauge(v), lp_gauge(points, v), rtol=1e-7, atol=1e-9)
    if len(points) <= 40:
        for i in range(len(points)):
            assert lp_gauge(np.delete(points, i, axis=0), points[i]) > 1 + 1e-7
    if ball.dim <= 5:
        volume, covariance = polytope_moments(points)
        np.testing.assert_allclose(ball.log_volume(), math.log(volume), rtol=0, atol=1e-9)
        np.testing.assert_allclose(ball.covariance(), covariance, rtol=1e-9, atol=1e-12)


BATTERY: tuple[Check, ...] = (
    check_protocol,
    check_norm,
    check_radius,
    check_stationary,
    check_rejection,
    check_covariance,
    check_support,
    check_box,
    check_polytope,
)


def near(mean: Any, mean_square: Any, truth: Any, n: int) -> None:
    """Means of n draws are within SIGMAS of their own standard errors of the truth."""
    error = np.sqrt(np.maximum(mean_square - mean**2, 0) / n)
    assert (np.abs(mean - truth) <= SIGMAS * error + 1e-12).all()


def same_law(x: Array, y: Array, rng: Generator) -> None:
    """Two samples have one law, seen from ten sides."""
    scale = y.std(axis=0)
    looks = rng.normal(size=(x.shape[1], 6)) / scale[:, None]
    for a, b in zip(views(x, looks, scale).T, views(y, looks, scale).T, strict=True):
        assert ks_2samp(a, b).pvalue > ALARM


def views(x: Array, looks: Array, scale: Array) -> Array:
    size = np.abs(x / scale)
    others = [size.max(axis=1), size.min(axis=1), size.sum(axis=1), (x > 0).sum(axis=1)]
    return np.column_stack([x @ looks, *others])


def hit_and_run(ball: Any, x: Array, steps: int, rng: Generator) -> Array:
    """Move every row to a uniform point of the chord through it, in random directions."""
    scale = x.std(axis=0)
    for _ in range(steps):
        way = rng.normal(size=x.shape) * scale
        # The chord lies within 2 / |way|; shrinking a miss towards 0 keeps the uniform law.
        high = 2 / ball.gauge(way)
        low, t = -high, rng.uniform(-high, high)
        while (out := ball.gauge(x + t[:, None] * way) > 1).any():
            low, high = np.where(out & (t < 0), t, low), np.where(out & (t > 0), t, high)
            t = np.where(out, rng.uniform(low, high), t)
        x = x + t[:, None] * way
    return x


def gradient(f: Callable[[Array], Array], at: Array) -> Array:
    step = 1e-6 * np.abs(at).max() * np.eye(len(at))
    slope: Array = (f(at + step) - f(at - step)) / (2e-6 * np.abs(at).max())
    return slope


def corners(ball: Any) -> Array | None:
    """Return the extreme points, or None where the ball has none or too many to list."""
    try:
        points: Array = ball.extreme_points()
    except (AttributeError, ValueError):
        return None
    return points


def lp_gauge(points: Array, v: Array) -> float:
    """Return the least sum of weights >= 0 with which the points add to v; inf if none do."""
    found = linprog(np.ones(len(points)), A_eq=points.T, b_eq=v)
    return math.inf if found.fun is None else float(found.fun)


def polytope_moments(points: Array) -> tuple[float, Array]:
    """Return volume and covariance, from the simplices that 0 makes with the triangulated hull."""
    d = points.shape[1]
    facets = points[ConvexHull(points).simplices]
    volumes = np.abs(np.linalg.det(facets)) / math.factorial(d)
    middle = facets.sum(axis=1)
    square = np.einsum("fki,fkj->fij", facets, facets) + middle[:, :, None] * middle[:, None, :]
    second = (volumes[:, None, None] * square).sum(axis=0) / ((d + 1) * (d + 2))
    return float(volumes.sum()), second / volumes.sum()
