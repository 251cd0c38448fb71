"""Checks that draws of a ball are uniform; false alarms are derived in `skdp.testing.ball`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import binomtest, gamma, ks_2samp, kstest

from skdp.testing._require import agree, require

Array = NDArray[np.float64]
ALARM = 1e-10
SIGMAS = 8.0


def check_radius(ball: Any, rng: Generator) -> None:
    """Check that draws lie in the ball, with |U|^dim uniform and a Gamma(dim) K-norm law."""
    name = f"{type(ball).__name__}.sample"
    g = ball.gauge(ball.sample(20_000, rng))
    require(g.max() <= 1 + 1e-12, name, "draw points of the ball, of gauge <= 1", g.max())
    p = kstest(g**ball.dim, "uniform").pvalue
    rule = "draw from the whole ball: |U|^dim is uniform on [0, 1]"
    require(p > ALARM, name, rule, f"p = {p:.2g}")
    r = rng.standard_gamma(ball.dim + 1, len(g))
    p = kstest(r * g, gamma(ball.dim).cdf).pvalue
    require(p > ALARM, name, "make K-norm noise with a Gamma(dim) gauge", f"p = {p:.2g}")


def check_stationary(ball: Any, rng: Generator) -> None:
    """Check that a hit-and-run walk, which preserves only the uniform law, changes nothing."""
    walked = hit_and_run(ball, ball.sample(4_000, rng), 10, rng)
    rule = "draw uniformly: a walk that preserves the uniform law must not change the draws"
    same_law(walked, ball.sample(20_000, rng), rng, f"{type(ball).__name__}.sample", rule)


def check_rejection(ball: Any, rng: Generator) -> None:
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


def check_covariance(ball: Any, rng: Generator) -> None:
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


def near(mean: Any, mean_square: Any, truth: Any, n: int, name: str = "covariance") -> None:
    """Require means of n draws to be within SIGMAS standard errors of the true values."""
    error = np.sqrt(np.maximum(mean_square - mean**2, 0) / n)
    require(np.abs(mean - truth) <= SIGMAS * error + 1e-12, name, "be that of the draws")


def same_law(
    x: Array, y: Array, rng: Generator, name: str = "sample", rule: str = "have one law"
) -> None:
    """Require two samples to have the same law, by ten statistics."""
    scale = y.std(axis=0)
    ways = rng.normal(size=(x.shape[1], 6)) / scale[:, None]
    for a, b in zip(statistics(x, ways, scale).T, statistics(y, ways, scale).T, strict=True):
        p = ks_2samp(a, b).pvalue
        require(p > ALARM, name, rule, f"p = {p:.2g}")


def statistics(x: Array, ways: Array, scale: Array) -> Array:
    """Return ten statistics of each draw: projections, and sizes of its coordinates."""
    size = np.abs(x / scale)
    others = [size.max(axis=1), size.min(axis=1), size.sum(axis=1), (x > 0).sum(axis=1)]
    return np.column_stack([x @ ways, *others])


def hit_and_run(ball: Any, x: Array, steps: int, rng: Generator) -> Array:
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
