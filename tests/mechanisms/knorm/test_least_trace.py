"""Covering ellipsoids of least trace: the solver against others, and what makes it safe."""

from functools import partial
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from skdp.geometry import LpBall, MappedBall
from skdp.mechanisms import ellipsoid
from skdp.mechanisms.ellipsoid import (
    cover_points,
    dual_of_points,
    least_cover,
    raised_to_cover,
    solve_dual,
    trace,
)


@pytest.mark.parametrize(("count", "d"), [(3, 2), (12, 2), (40, 4), (80, 6)])
def test_the_dual_certifies_the_cover_of_points(count, d):
    """Any mu >= 0 bounds the least trace from below, whoever found it."""
    rng = np.random.default_rng(count)
    z = rng.normal(size=(count, d)) * 10.0 ** rng.uniform(-2, 2, d)
    factor = cover_points(z)
    inside = np.linalg.solve(factor, z.T)
    ratios = (inside**2).sum(axis=0)
    assert ratios.max() <= 1 + 1e-5
    mu = solve_dual(partial(dual_of_points, z), count, 1e-7)
    moment = np.linalg.svd(np.sqrt(mu)[:, None] * z, compute_uv=False)
    bound = moment.sum() ** 2 / mu.sum()
    assert bound <= np.trace(factor @ factor.T) * ratios.max() * (1 + 1e-12)
    assert bound >= np.trace(factor @ factor.T) * (1 - 2e-5)


def test_scales_far_apart_are_no_trouble():
    """Units of 1e-4 and 1e4 in one set of points: as private, and nearly the least."""
    scales = np.array([1e-4, 1.0, 1e4])
    points = np.random.default_rng(0).normal(size=(30, 3))
    plain = least_cover(as_ball(points), np.ones(3))
    scaled = least_cover(as_ball(points * scales), 1 / scales**2)
    assert trace(scaled, 1 / scales**2) == pytest.approx(trace(plain, np.ones(3)), rel=1e-6)
    for factor in (scaled, least_cover(as_ball(points * scales), np.ones(3))):
        inside = np.linalg.solve(factor, (points * scales).T)
        assert (inside**2).sum(axis=0).max() <= 1


def as_ball(points):
    return SimpleNamespace(
        dim=points.shape[1],
        extreme_points=lambda: np.vstack([points, -points]),
        bounding_box=lambda: np.abs(points).max(axis=0),
    )


@pytest.mark.parametrize("spread", [1.0, 1e5])
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_a_factor_is_raised_by_what_is_missing(d, spread):
    """At fifty digits no point is outside, also where the factor is badly conditioned."""
    rng = np.random.default_rng(5)
    points = rng.normal(size=(200, d))
    rough = np.tril(spread * rng.normal(size=(d, d)), -1) + np.eye(d)
    try:
        factor = raised_to_cover(rough, points)
    except np.linalg.LinAlgError:
        assert spread > 1
        return
    lengths = np.linalg.norm(np.linalg.solve(factor, points.T), axis=0)
    worst = points[np.argsort(lengths)[-5:]]
    with mpmath.workdps(50):
        exact = mpmath.matrix(factor.tolist())
        found = max(mpmath.norm(mpmath.lu_solve(exact, mpmath.matrix(u))) for u in worst)
    assert 1 - 2e-3 < found <= 1


def test_points_in_a_plane_fall_back_to_the_box():
    """A list without interior has no cover of full rank; the box around it has."""
    points = np.array([[1.0, 1.0], [0.5, 0.5]])
    factor = least_cover(as_ball(points), np.ones(2))
    inside = points / factor if factor.ndim == 1 else np.linalg.solve(factor, points.T).T
    assert (inside**2).sum(axis=1).max() <= 1


@pytest.mark.parametrize("p", [2.0, 3.0, 1.0])
def test_a_nearly_singular_map_is_covered_all_the_same(p):
    """Its condition is 4e11: what floats cannot bound is left to the box."""
    ball = MappedBall(LpBall(2, p=p), [[1.0, 1.0], [1.0, 1.0 + 1e-11]])
    draws = ball.sample(2_000, np.random.default_rng(0))
    points = draws / ball.gauge(draws)[:, None]
    for weights in (np.ones(2), np.array([[1.0, -0.9], [-0.9, 1.0]])):
        factor = least_cover(ball, weights)
        inside = points / factor if factor.ndim == 1 else np.linalg.solve(factor, points.T).T
        assert (inside**2).sum(axis=1).max() <= 1 + 1e-9


def test_whatever_the_solver_says_the_points_are_covered(monkeypatch):
    """A wrong answer makes for more noise, never for too little."""
    monkeypatch.setattr(ellipsoid, "cover_points", lambda z: np.array([[0.1, 0.0], [3.0, 0.2]]))
    points = np.random.default_rng(0).normal(size=(50, 2))
    factor = least_cover(as_ball(points), np.ones(2))
    lengths = np.linalg.norm(np.linalg.solve(factor, points.T), axis=0)
    assert lengths.max() == pytest.approx(1, rel=1e-9)
