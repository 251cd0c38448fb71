"""Balls built out of balls: scaled, mapped, product and sum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ball_battery import BATTERY, Check, Shy

from skdp import geometry
from skdp.geometry import LpBall, MappedBall, ProductBall, ShearedBall, SumBall
from skdp.trusted.ball import uniform_variance
from skdp.trusted.noise import _granularity, is_round

SKEW = np.array([[2.0, 1.0, 0.0], [0.0, 0.5, -1.0], [1.0, 0.0, 3.0]])
BOX, CROSS = LpBall(2, p=math.inf), LpBall(2, p=1)
BALLS: dict[str, Any] = {
    "scaled disc": MappedBall(LpBall(2), [3.0] * 2),
    "stretched cross": MappedBall(LpBall(4, p=1), (1.0, -2.0, 0.5, 4.0)),
    "skew box": MappedBall(LpBall(3, p=math.inf), SKEW),
    "sheared cross": ShearedBall(LpBall(3, p=1), (0.0, 0.5, -2.0)),
    "centred rows": ShearedBall(
        geometry.EncodedRowsBall(1, (2, 1)), (0.0, 0.0, -1 / 3, -1 / 3, -0.5)
    ),
    "cylinder": ProductBall((LpBall(1), LpBall(2, radius=2.0))),
    "prism, coordinates mixed": ProductBall((CROSS, BOX), ((3, 0), (1, 2))),
    "double cone": SumBall((LpBall(1), LpBall(2)), (2.0, 0.5)),
    "sum, coordinates mixed": SumBall(
        (LpBall(1), BOX, CROSS), (1.0, 2.0, 0.3), ((2,), (4, 0), (1, 3))
    ),
    "three deep": ProductBall(
        (
            SumBall((CROSS, MappedBall(BOX, [2.0] * BOX.dim)), (1.0, 1.0)),
            MappedBall(LpBall(3), SKEW),
        )
    ),
    "forty dimensions": SumBall((LpBall(20), LpBall(20, p=math.inf)), (1.0, 4.0)),
}


@pytest.mark.parametrize("check", BATTERY)
@pytest.mark.parametrize("name", BALLS)
def test_combined_ball(name: str, check: Check) -> None:
    check(BALLS[name], np.random.default_rng(30))


def same_body(first: Any, second: Any, rng: np.random.Generator) -> None:
    """Two balls that are one body agree in everything that can be computed of them."""
    v = rng.normal(size=(100, first.dim))
    np.testing.assert_allclose(first.gauge(v), second.gauge(v), rtol=1e-12)
    np.testing.assert_allclose(first.support(v), second.support(v), rtol=1e-12)
    np.testing.assert_allclose(first.log_volume(), second.log_volume(), rtol=1e-12)
    np.testing.assert_allclose(first.covariance(), second.covariance(), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(first.bounding_box(), second.bounding_box(), rtol=1e-12)


@pytest.mark.parametrize(
    ("combined", "plain"),
    [
        (ProductBall((LpBall(2, p=math.inf), LpBall(3, p=math.inf))), LpBall(5, p=math.inf)),
        (SumBall((LpBall(2, p=1), LpBall(1)), (1.0, 2.0)), LpBall(3, 1, weights=(1, 1, 2))),
        (SumBall((LpBall(1),) * 30, (1.0,) * 30), LpBall(30, p=1)),
        (MappedBall(LpBall(3, p=4), [2.0] * 3), LpBall(3, p=4, radius=2.0)),
        (MappedBall(LpBall(3), (1.0, 0.5, 0.1)), LpBall(3, weights=(1, 2, 10))),
        (MappedBall(LpBall(3), np.diag([1.0, 0.5, 0.1])), LpBall(3, weights=(1, 2, 10))),
        (
            MappedBall(MappedBall(LpBall(3), SKEW), [2.0] * 3),
            MappedBall(LpBall(3, radius=2.0), SKEW),
        ),
    ],
    ids=["box", "cross", "cross of 30", "scaled", "diagonal", "diagonal matrix", "skew"],
)
def test_one_body_built_in_two_ways(combined: Any, plain: Any) -> None:
    same_body(combined, plain, np.random.default_rng(31))


SHEARED = [ball for ball in BALLS.values() if isinstance(ball, ShearedBall)]


@pytest.mark.parametrize("ball", [*SHEARED, ShearedBall(LpBall(3), (0.0, 3.0, 0.1))], ids=repr)
def test_a_sheared_ball_is_a_mapped_one(ball: Any) -> None:
    """In all members, and in what noise is told of it."""
    full = MappedBall(ball.ball, ball.matrix)
    same_body(ball, full, np.random.default_rng(34))
    draws = [b.sample(50, np.random.default_rng(35)) for b in (ball, full)]
    np.testing.assert_allclose(*draws, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(uniform_variance(ball), uniform_variance(full), rtol=1e-12)
    first = ball.first_covariance(), full.first_covariance()
    np.testing.assert_allclose(*first, rtol=1e-12, atol=1e-15)
    if hasattr(ball.ball, "extreme_points") and not is_round(ball):
        points = ball.extreme_points(), full.extreme_points()
        np.testing.assert_allclose(*points, rtol=1e-12, atol=1e-15)
    assert _granularity(ball) == pytest.approx(_granularity(full), rel=1e-12)
    assert is_round(ball) == is_round(full)


def test_the_box_of_a_sheared_ball_is_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, again = (ShearedBall(LpBall(5, p=3), (0.0, 1.0, -2.0, 0.3, 4.0)) for _ in range(2))
    expected = whole.bounding_box()
    monkeypatch.setattr("skdp.geometry.combined._ENTRIES", 10)  # two rows
    np.testing.assert_array_equal(again.bounding_box(), expected)
    again.bounding_box()[:] = 0.0  # the caller's own
    np.testing.assert_array_equal(again.bounding_box(), expected)


def test_a_permutation_is_an_index() -> None:
    ball = ProductBall((LpBall(3, weights=(1, 2, 3)),), ((2, 0, 1),))
    same_body(ball, LpBall(3, weights=(2, 3, 1)), np.random.default_rng(32))


def combinations_of(ball: geometry.NormBall) -> list[Any]:
    one = LpBall(1)
    return [
        MappedBall(ball, [2.0] * ball.dim),
        MappedBall(ball, (1.0, 2.0)),
        ProductBall((ball, one)),
        SumBall((one, ball), (1, 1)),
    ]


def test_combinations_have_what_their_parts_have() -> None:
    """With all members in the parts there are all; without, the error names the part's class."""
    members = ("log_volume", "bounding_box", "covariance", "extreme_points")
    for full, bare in zip(combinations_of(BOX), combinations_of(Shy(BOX)), strict=True):
        assert full.exact
        assert not bare.exact
        assert bare.sample(5, np.random.default_rng(0)).shape == (5, bare.dim)
        for member in members:
            assert np.isfinite(getattr(full, member)()).all()
            with pytest.raises(AttributeError, match=f"Shy must have {member}"):
                getattr(bare, member)()
        with pytest.raises(AttributeError, match="Shy must have support"):
            bare.support(np.ones(bare.dim))


def test_the_map_cannot_be_changed_from_outside() -> None:
    matrix = np.eye(2)
    ball = MappedBall(BOX, matrix)
    matrix[0, 0] = 5.0
    assert ball.gauge([1.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        ball.matrix[0, 0] = 5.0  # type: ignore[index]
