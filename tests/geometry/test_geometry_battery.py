"""The battery sees what it is there to see: every twin is a little wrong and is caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ball_battery import (
    Check,
    Twin,
    check_box,
    check_covariance,
    check_norm,
    check_polytope,
    check_radius,
    check_rejection,
    check_stationary,
    check_support,
)
from numpy.random import Generator

from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, ShearedBall, SimplexBall, SumBall

MEMBERS = ("log_volume", "support", "bounding_box", "covariance", "extreme_points")


def scaled(factor: float) -> Callable[..., Any]:
    return lambda ball, n, rng: factor * ball.sample(n, rng)


def on_one_power_more(ball: Any, n: int, rng: Generator) -> Any:
    """Take |U|^(dim + 1) for uniform, as if the direction came from the boundary's law."""
    u = ball.sample(n, rng)
    g = ball.gauge(u)
    return u * (rng.random(n) ** (1 / (ball.dim + 1)) / g)[:, None]


def directions_of(other: Any) -> Callable[..., Any]:
    """Take another ball's draws, moved along their rays until the gauge is right."""

    def sample(ball: Any, n: int, rng: Generator) -> Any:
        u = other.sample(n, rng)
        return u * (other.gauge(u) / ball.gauge(u))[:, None]

    return sample


def one_entry_off(ball: Any) -> Any:
    covariance = ball.covariance()
    covariance[0, 0] *= 1.05
    return covariance


def moved(by: float) -> Callable[..., Any]:
    return lambda ball: ball.log_volume() + by


CUBE, DISC, PAIR = LpBall(3, p=np.inf), LpBall(3), LpBall(2, p=1)
ROWS, WIDE = EncodedRowsBall(0, (2, 2)), EncodedRowsBall(0, (4,))
HULL, MIXED = (EncodedRowsBall(0, (2, 2), False, index) for index in (None, (0, 2, 1, 3)))
PARTS, STRETCHED = (LpBall(1), LpBall(3)), MappedBall(CUBE, (1.05, 1.0, 1.0))
CASES: dict[str, tuple[Check, Any, str, Callable[..., Any]]] = {
    "radius 5 % small": (check_radius, CUBE, "sample", scaled(0.95)),
    "radius 5 % great": (check_radius, ROWS, "sample", scaled(1.05)),
    "one power more": (check_radius, CUBE, "sample", on_one_power_more),
    "one power more, dim 5": (check_radius, ROWS, "sample", on_one_power_more),
    "blocks ignored, walk": (check_stationary, HULL, "sample", directions_of(LpBall(4, p=1))),
    "blocks ignored, box": (check_rejection, HULL, "sample", directions_of(LpBall(4, p=1))),
    "blocks ignored with intercept": (check_stationary, ROWS, "sample", directions_of(WIDE)),
    "blocks in the wrong place": (check_covariance, HULL, "sample", directions_of(MIXED)),
    "one axis stretched by 5 %": (check_covariance, CUBE, "sample", directions_of(STRETCHED)),
    "parts of a sum mixed without their dimensions": (
        *(check_covariance, SumBall(PARTS, (1.0, 1.0)), "sample"),
        directions_of(SumBall(PARTS, (1.1, 1.0))),
    ),
    "volume 5 % great": (check_rejection, PAIR, "log_volume", moved(np.log(1.05))),
    "volume a billionth off, corners known": (check_polytope, ROWS, "log_volume", moved(1e-8)),
    "covariance 5 % off in one entry": (check_covariance, CUBE, "covariance", one_entry_off),
    "variance a billionth off": (
        *(check_covariance, CUBE, "variance"),
        lambda ball: (1 + 1e-8) * ball.variance(),
    ),
    "support 5 % small": (check_support, DISC, "support", lambda b, w: 0.95 * b.support(w)),
    "support of a greater body": (
        *(check_support, DISC, "support"),
        lambda _, w: LpBall(3, p=2.2).support(w),
    ),
    "box too wide": (check_box, PAIR, "bounding_box", lambda b: 1.05 * b.bounding_box()),
    "a corner forgotten": (
        *(check_polytope, ROWS, "extreme_points"),
        lambda b: np.delete(b.extreme_points(), [0, 9], 0),
    ),
    "a corner too many": (
        *(check_polytope, PAIR, "extreme_points"),
        lambda b: np.vstack([b.extreme_points(), np.eye(2) / 2]),
    ),
    "not symmetric": (check_norm, PAIR, "gauge", lambda b, v: b.gauge(np.clip(v, -0.9, None))),
    "not homogeneous": (check_norm, PAIR, "gauge", lambda b, v: b.gauge(v) ** 1.05),
    "no triangle": (
        *(check_norm, PAIR, "gauge"),
        lambda _, v: (np.abs(v) ** 0.9).sum(-1) ** (1 / 0.9),
    ),
    "not positive": (check_norm, PAIR, "gauge", lambda _, v: np.abs(np.sum(v, axis=-1))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_ball_is_caught_and_the_right_one_passes(name: str) -> None:
    """So that what is caught is the fault and nothing else."""
    check, ball, member, wrong = CASES[name]
    with pytest.raises(AssertionError):
        check(Twin(ball, {member: wrong}), np.random.default_rng(60))
    check(Twin(ball), np.random.default_rng(60))


@pytest.mark.parametrize(
    "kind", [LpBall, MappedBall, ShearedBall, SumBall, EncodedRowsBall, SimplexBall]
)
def test_no_check_is_passed_for_want_of_a_member(kind: type) -> None:
    """The battery asks for optional members only where they are; here they all are."""
    assert all(callable(getattr(kind, member, None)) for member in MEMBERS)
