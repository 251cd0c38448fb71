from __future__ import annotations

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from ball_battery import BATTERY, Check

from skdp.geometry import LpBall

BALLS = [
    LpBall(1, p=3, radius=0.5, weights=(4.0,)), LpBall(3, p=1.3), LpBall(60, p=1),
    LpBall(4, p=1, radius=3.0, weights=(1.0, 2.0, 0.5, 1.0)), LpBall(4, p=5, radius=1e-3),
    LpBall(3, p=2, weights=(1.0, 10.0, 0.1)), LpBall(4, p=math.inf, weights=(1.0, 2.0, 3.0, 4.0)),
]  # fmt: skip


@pytest.mark.parametrize("check", BATTERY)
@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_lp_ball(ball: LpBall, check: Check) -> None:
    check(ball, np.random.default_rng(20))


@pytest.mark.parametrize("p", [1, 1 + 1e-6, 1.5, 2, 7, 1e3, 1e6, math.inf])
def test_gauge_and_support_keep_their_digits_at_every_scale(p: float) -> None:
    """Entries of 1e300 and of 1e-300 give the 50-digit value, for p and for its dual exponent."""
    v = np.array([3.0, -4.0, 4.0 * (1 - 1e-7), 0.0])
    dual = math.inf if p == 1 else 1.0 if math.isinf(p) else mpmath.mpf(p) / (mpmath.mpf(p) - 1)
    ball = LpBall(4, p=p)
    for scale in (1e-300, 1.0, 1e300):
        assert float(ball.gauge(scale * v)) == pytest.approx(scale * precise(v, p), rel=1e-13)
        expected = scale * precise(v, dual)
        # 1 / (1 - 1 / p) loses digits of p - 1, nothing more.
        assert float(ball.support(scale * v)) == pytest.approx(expected, rel=1e-9)


def precise(v: np.ndarray[Any, np.dtype[np.float64]], p: Any) -> float:
    if p == math.inf:
        return float(np.abs(v).max())
    with mpmath.workdps(50):
        return float(sum(mpmath.mpf(abs(x)) ** p for x in v) ** (1 / mpmath.mpf(p)))


def test_gauge_of_the_infinite_and_the_undefined() -> None:
    ball = LpBall(2, p=3)
    assert ball.gauge([math.inf, 1.0]) == math.inf
    assert np.isnan(ball.gauge([math.nan, 1.0]))


def test_volumes_known_since_school() -> None:
    box = LpBall(3, p=math.inf, weights=(1.0, 2.0, 4.0))
    for ball, volume in [
        (LpBall(2), math.pi), (LpBall(3, radius=2.0), 32 * math.pi / 3),
        (LpBall(5, p=1), 2**5 / 120), (box, 1.0),
    ]:  # fmt: skip
        assert ball.log_volume() == pytest.approx(math.log(volume), abs=1e-13)


def test_equal_balls_are_equal_and_can_be_keys() -> None:
    assert LpBall(2, weights=np.array([1.0, 2.0])) == LpBall(2, weights=[1, 2])
    assert len({LpBall(2), LpBall(2.0), LpBall(3)}) == 2  # type: ignore[arg-type]
