"""The greatest gauge over a body, and containment, against searches and known cases."""

from __future__ import annotations

import math
import time
from itertools import count
from typing import Any

import numpy as np
import pytest
from ball_battery import Shy
from compared_balls import PLANE, brute

from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, ProductBall
from skdp.geometry.containment import TOUCH, GaugeBounds, contains, greatest_gauge_over

INF = math.inf


@pytest.mark.parametrize("over", PLANE, ids=repr)
def test_the_greatest_gauge_in_the_plane(over: Any) -> None:
    """Against a search over all angles: closed forms, corners, faces, parts, and cones."""
    for ball in PLANE:
        bounds = greatest_gauge_over(ball, over)
        truth = brute(ball, over)
        assert bounds.lower <= bounds.upper
        assert bounds.upper >= truth * (1 - 1e-13)
        if hasattr(over, "support"):
            assert bounds.exact, ball
            assert bounds.upper <= truth * (1 + 1e-9)
        else:
            assert bounds.lower == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("p", [1, 1.5, 2, 5, INF])
@pytest.mark.parametrize("r", [1, 1.5, 2, 5, INF])
def test_lp_in_lp_is_attained(p: float, r: float) -> None:
    """Hoelder's bound is reached at its own equality case, and never passed by draws."""
    weights = np.array([1.0, 0.2, 3.0, 2.0, 0.7])
    ball, over = LpBall(5, p=r, weights=weights), LpBall(5, p=p, radius=2.0)
    found = greatest_gauge_over(ball, over)
    if p <= r:
        best = np.eye(5)[weights.argmax()]
    else:
        # |w u|_r at |u|_p = 1 is greatest where u^p is proportional to w^s, 1/s = 1/r - 1/p.
        share = 1 / r - 1 / p
        best = weights ** (1 / (share * p)) if p < INF else np.ones(5)
    assert found.exact
    assert ball.gauge(best) / over.gauge(best) == pytest.approx(found.upper, rel=1e-11)
    u = over.sample(2000, np.random.default_rng(0))
    assert (ball.gauge(u) <= found.upper * (1 + 1e-12)).all()


def test_the_norm_of_a_matrix() -> None:
    """Between Euclidean balls the upper bound is the greatest singular value."""
    a = np.random.default_rng(1).normal(size=(30, 30))
    found = greatest_gauge_over(LpBall(30, radius=2.0), MappedBall(LpBall(30, radius=4.0), a))
    assert found.lower <= 2 * np.linalg.svd(a)[1][0]
    assert found.upper == pytest.approx(2 * np.linalg.svd(a)[1][0])


@pytest.mark.parametrize("d", [3, 4])
def test_cones_close_in_on_a_curved_norm(d: int) -> None:
    """A Euclidean ball mapped by A in an l_3 norm, against an ascent from many points."""
    a = np.random.default_rng(d).normal(size=(d, d))
    found = greatest_gauge_over(LpBall(d, p=3), MappedBall(LpBall(d), a))
    u = np.random.default_rng(0).normal(size=(200, d))
    for _ in range(300):  # the power method: maximise <f, A u>, f the slope of |A u|_3
        v = u @ a.T
        u = (np.sign(v) * v**2) @ a
        u /= np.linalg.norm(u, axis=1, keepdims=True)
    truth = LpBall(d, p=3).gauge(u @ a.T).max()
    assert found.exact
    assert found.lower <= truth * (1 + 1e-12)
    assert truth <= found.upper
    assert found.upper <= truth * (1 + 1e-8)


def test_what_is_not_known_is_said_by_the_bounds() -> None:
    """Far too many corners and dimensions: the truth, 1 + 20 + 3, lies between the bounds."""
    rows = EncodedRowsBall(20, (5, 3, 20))
    found = greatest_gauge_over(LpBall(rows.dim, p=1), rows)
    assert 10 < found.lower <= 24 * (1 + 1e-12)
    assert 24 <= found.upper < 50
    assert not found.exact
    assert contains(LpBall(rows.dim, p=1, radius=found.upper), rows) is True
    assert contains(LpBall(rows.dim, p=1, radius=10.0), rows) is False
    assert contains(LpBall(rows.dim, p=1, radius=24.5), rows) is None
    # Of a body that knows nothing of itself only a "no" can be certain.
    shy = Shy(LpBall(3))
    assert greatest_gauge_over(LpBall(3, p=1), shy).upper == INF
    assert contains(LpBall(3, p=INF), shy) is None
    assert contains(LpBall(3, radius=0.9), shy) is False
    # A whole with such a part has the members, and they fail.
    half = ProductBall((Shy(LpBall(2)), LpBall(1)))
    assert greatest_gauge_over(LpBall(3, p=1), half).upper == INF
    assert contains(LpBall(3, p=INF), half) is None
    assert contains(half, LpBall(3, p=2)) is None
    assert contains(MappedBall(half, [0.9] * 3), LpBall(3)) is False


@pytest.mark.parametrize("inner", PLANE, ids=repr)
def test_containment_turns_at_the_touching_size(inner: Any) -> None:
    """A ball that touches holds; one smaller by 1 % does not."""
    if not hasattr(inner, "support"):
        return
    for outer in PLANE:
        size = brute(outer, inner)
        bounds = greatest_gauge_over(outer, inner)
        assert bounds.lower < size * (1 + 1e-7)
        assert bounds.upper > size * (1 - 1e-7)
        assert contains(MappedBall(outer, [size * 1.01] * 2), inner) is True
        assert contains(MappedBall(outer, [size * 0.99] * 2), inner) is False
    assert contains(inner, inner) is True


def test_how_a_gauge_is_bounded_does_not_depend_on_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a machine where every look at the clock takes a second the bounds are the same."""
    a = np.random.default_rng(3).normal(size=(3, 3))
    before = greatest_gauge_over(LpBall(3, p=3), MappedBall(LpBall(3), a))
    ticks = count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    assert greatest_gauge_over(LpBall(3, p=3), MappedBall(LpBall(3), a)) == before
    assert before.exact


def test_bounds() -> None:
    assert GaugeBounds(1.0, 1.0 + TOUCH / 2).exact
    assert not GaugeBounds(1.0, 1.0 + 2 * TOUCH).exact
    assert not GaugeBounds(0.0, INF).exact
    with pytest.raises(ValueError, match="have dimension 3"):
        greatest_gauge_over(LpBall(2), LpBall(3))
