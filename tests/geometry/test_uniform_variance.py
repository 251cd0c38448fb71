"""Variances of the uniform law of a ball, without its covariance."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from ball_battery import Shy

from skdp import geometry
from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, ProductBall, ShearedBall, SimplexBall
from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.trusted.ball import uniform_covariance, uniform_first_covariance, uniform_variance

FULL = np.random.default_rng(0).normal(size=(4, 4))


class WithCovariance(Shy):
    def covariance(self) -> Any:
        return self.ball.covariance()


BALLS = [
    LpBall(4, p=3, radius=2.0, weights=(1.0, 2.0, 3.0, 4.0)), SimplexBall(3), SimplexBall(4),
    EncodedRowsBall(2, (3, 4, 1)), EncodedRowsBall(2, (3, 4, 1), intercept=False),
    EncodedRowsBall(2, (), intercept=False), EncodedRowsBall(1, (3,), True, (3, 0, 1, 2, 4)),
    EncodedRowsBall(0, (600,)), geometry.MappedBall(SimplexBall(3), [3.0] * 3),
    MappedBall(EncodedRowsBall(1, (2,)), FULL), MappedBall(EncodedRowsBall(1, (2,)), np.diag(FULL)),
    ShearedBall(EncodedRowsBall(1, (2,)), [0.0, 3.0, -0.4, 0.7]),
    ShearedBall(WithCovariance(SimplexBall(3)), [0.0, 3.0, -0.4]),
    EncodedRowsBall(0, (2, 1), True, (2, 0, 1, 3)),
    ProductBall((WithCovariance(LpBall(2)), LpBall(1)), ((2, 0), (1,))),
    geometry.SumBall((WithCovariance(LpBall(2)), SimplexBall(3)), (1.0, 3.0), ((2, 0), (1, 3, 4))),
    RadialMomentBall(MomentLayout(3, range(3)), radius=2.0),
    MomentBall(MomentLayout(2, (0, 1)), level=0), WithCovariance(SimplexBall(3)),
]  # fmt: skip


@pytest.mark.parametrize("ball", BALLS, ids=lambda ball: type(ball).__name__)
def test_variances_are_the_diagonal_of_the_covariance_and_there_is_its_first_row(ball: Any) -> None:
    whole = ball.covariance()
    np.testing.assert_allclose(uniform_variance(ball), np.diag(whole), rtol=1e-12)
    np.testing.assert_allclose(uniform_first_covariance(ball), whole[0], rtol=1e-12, atol=1e-15)


def test_a_ball_without_variances_is_drawn_from() -> None:
    """The same draws as for the covariance; 4,096 of them are within a tenth."""
    ball = Shy(LpBall(3))
    estimate = uniform_variance(ball)
    np.testing.assert_allclose(estimate, np.diag(uniform_covariance(ball)[0]), rtol=1e-12)
    np.testing.assert_allclose(estimate, LpBall(3).variance(), rtol=0.1)
    moments = MomentBall(MomentLayout(2, (0, 1)), level=1)
    np.testing.assert_array_equal(uniform_variance(moments), moments.mean_squares())


@pytest.mark.rest_is_slow(2)
@pytest.mark.parametrize(
    "ball",
    [
        MappedBall(LpBall(20_000), np.ones(20_000)),
        EncodedRowsBall(3, (9_999,)),
        ShearedBall(EncodedRowsBall(3, (9_999,)), np.r_[0.0, np.full(10_002, -1e-4)]),
        EncodedRowsBall(0, tuple(range(1, 101)), intercept=False),
        RadialMomentBall(MomentLayout(150, range(150)), radius=1.0),
        Shy(LpBall(40_000)),
    ],
    ids=lambda ball: type(ball).__name__,
)
def test_variances_take_no_room_for_a_matrix(ball: Any) -> None:
    """Dense matrices would take 0.2 to 13 GB: 300 MB is the most that draws take."""
    tracemalloc.start()
    found = uniform_variance(ball)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (ball.dim,)
    assert peak < 3e8
