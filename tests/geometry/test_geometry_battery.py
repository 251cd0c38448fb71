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


CUBE, PAIR, ROWS = LpBall(3, p=np.inf), LpBall(2, p=1), EncodedRowsBall(0, (2, 2))
HULL = EncodedRowsBall(0, (2, 2), intercept=False)
CASES: dict[str, tuple[Check, Twin]] = {
    "radius 5 % small": (check_radius, Twin(CUBE, {"sample": scaled(0.95)})),
    "radius 5 % great": (check_radius, Twin(ROWS, {"sample": scaled(1.05)})),
    "one power more": (check_radius, Twin(CUBE, {"sample": on_one_power_more})),
    "one power more, dim 5": (check_radius, Twin(ROWS, {"sample": on_one_power_more})),
    "blocks ignored, walk": (
        check_stationary,
        Twin(HULL, {"sample": directions_of(LpBall(4, p=1))}),
    ),
    "blocks ignored, box": (check_rejection, Twin(HULL, {"sample": directions_of(LpBall(4, p=1))})),
    "blocks ignored with intercept": (
        check_stationary,
        Twin(ROWS, {"sample": directions_of(EncodedRowsBall(0, (4,)))}),
    ),
    "blocks in the wrong place": (
        check_covariance,
        Twin(HULL, {"sample": directions_of(EncodedRowsBall(0, (2, 2), False, (0, 2, 1, 3)))}),
    ),
    "one axis stretched by 5 %": (
        check_covariance,
        Twin(CUBE, {"sample": directions_of(MappedBall(CUBE, (1.05, 1.0, 1.0)))}),
    ),
    "parts of a sum mixed without their dimensions": (
        check_covariance,
        Twin(
            SumBall((LpBall(1), LpBall(3)), (1.0, 1.0)),
            {"sample": directions_of(SumBall((LpBall(1), LpBall(3)), (1.1, 1.0)))},
        ),
    ),
    "volume 5 % great": (
        check_rejection,
        Twin(PAIR, {"log_volume": lambda ball: ball.log_volume() + np.log(1.05)}),
    ),
    "volume a billionth off, corners known": (
        check_polytope,
        Twin(ROWS, {"log_volume": lambda ball: ball.log_volume() + 1e-8}),
    ),
    "covariance 5 % off in one entry": (
        check_covariance,
        Twin(CUBE, {"covariance": one_entry_off}),
    ),
    "variance a billionth off": (
        check_covariance,
        Twin(CUBE, {"variance": lambda ball: (1 + 1e-8) * ball.variance()}),
    ),
    "support 5 % small": (
        check_support,
        Twin(LpBall(3), {"support": lambda ball, w: 0.95 * ball.support(w)}),
    ),
    "support of a greater body": (
        check_support,
        Twin(LpBall(3), {"support": lambda _, w: LpBall(3, p=2.2).support(w)}),
    ),
    "box too wide": (
        check_box,
        Twin(PAIR, {"bounding_box": lambda ball: 1.05 * ball.bounding_box()}),
    ),
    "a corner forgotten": (
        check_polytope,
        Twin(ROWS, {"extreme_points": lambda ball: np.delete(ball.extreme_points(), [0, 9], 0)}),
    ),
    "a corner too many": (
        check_polytope,
        Twin(PAIR, {"extreme_points": lambda b: np.vstack([b.extreme_points(), np.eye(2) / 2])}),
    ),
    "not symmetric": (
        check_norm,
        Twin(PAIR, {"gauge": lambda ball, v: ball.gauge(np.clip(v, -0.9, None))}),
    ),
    "not homogeneous": (check_norm, Twin(PAIR, {"gauge": lambda b, v: b.gauge(v) ** 1.05})),
    "no triangle": (
        check_norm,
        Twin(PAIR, {"gauge": lambda _, v: (np.abs(v) ** 0.9).sum(-1) ** (1 / 0.9)}),
    ),
    "not positive": (check_norm, Twin(PAIR, {"gauge": lambda _, v: np.abs(np.sum(v, axis=-1))})),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_ball_is_caught(name: str) -> None:
    check, twin = CASES[name]
    with pytest.raises(AssertionError):
        check(twin, np.random.default_rng(60))


@pytest.mark.parametrize("name", CASES)
def test_the_right_ball_passes_the_same_check(name: str) -> None:
    """So that what is caught above is the fault and nothing else."""
    check, twin = CASES[name]
    check(Twin(twin.ball), np.random.default_rng(60))


@pytest.mark.parametrize(
    "kind", [LpBall, MappedBall, ShearedBall, SumBall, EncodedRowsBall, SimplexBall]
)
def test_no_check_is_passed_for_want_of_a_member(kind: type) -> None:
    """The battery asks for optional members only where they are; here they all are."""
    assert all(callable(getattr(kind, member, None)) for member in MEMBERS)
