"""The hull of one centred categorical column and its negative.

False alarms: those of the battery (below 1e-6 for all balls together); one more comparison of
two samples here has ten p-values held against ALARM = 1e-10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ball_battery import (
    BATTERY,
    Check,
    Twin,
    check_covariance,
    check_polytope,
    check_stationary,
    lp_gauge,
    polytope_moments,
)
from test_geometry_battery import directions_of

from skdp.geometry import LpBall, MappedBall, ProductBall, SimplexBall, SumBall

DIMS = (1, 2, 3, 4, 7, 40)
COLUMNS = [SimplexBall(m) for m in (8, 15, 6, 14, 5, 4, 1, 40, 3, 2, 7, 9, 11)]
TABLE = SumBall((ProductBall((LpBall(1), SimplexBall(2))), SimplexBall(3)), (1.0, 2.0))


@pytest.mark.parametrize("check", BATTERY)
@pytest.mark.parametrize("ball", [*map(SimplexBall, DIMS), TABLE], ids=repr)
def test_simplex_ball(ball: Any, check: Check) -> None:
    check(ball, np.random.default_rng(70))


def check_shadow(ball: Any, _: np.random.Generator) -> None:
    """The volume is that of {|x|_1 <= 1} in dim + 1 dimensions, seen along (1, ..., 1).

    A facet with signs s counts with |sum(s)|, and each point of the shadow is covered twice.
    """
    m = ball.dim
    shadow = sum(math.comb(m + 1, k) * abs(2 * k - m - 1) for k in range(m + 2))
    truth = math.log(shadow) - math.log(2 * (m + 1)) - math.log(math.factorial(m))
    assert ball.log_volume() == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("dim", [*DIMS, 1000])
def test_volume_in_any_dimension(dim: int) -> None:
    check_shadow(SimplexBall(dim), np.random.default_rng(70))


def with_signs(signs: Callable[..., Any]) -> Callable[..., Any]:
    """Draw as the ball does, from other signs, and put the gauge right along the ray."""

    def sample(ball: Any, n: int, rng: np.random.Generator) -> Any:
        lam = rng.permuted(
            signs(n, ball.dim, rng) * rng.exponential(size=(n, ball.dim + 1)), axis=1
        )
        u = lam[:, 1:] - lam.mean(axis=1, keepdims=True)
        return u * (rng.random(n) ** (1 / ball.dim) / ball.gauge(u))[:, None]

    return sample


def coins(n: int, m: int, rng: np.random.Generator) -> Any:
    return np.column_stack([np.zeros(n), rng.choice([-1.0, 1.0], (n, m))])


def one_too_many(n: int, m: int, rng: np.random.Generator) -> Any:
    half = m // 2 + 1  # for odd m this would be the other triangulation, as good as the first
    return np.tile(np.repeat([0.0, 1.0, -1.0], [1, half, m - half]), (n, 1))


def no_zero(n: int, m: int, rng: np.random.Generator) -> Any:
    return np.tile(np.repeat([1.0, -1.0], [m // 2, m + 1 - m // 2]), (n, 1))


def first_level_at_zero(_: Any, v: Any) -> Any:
    """The gauge with lam = (0, v): the column not centred."""
    lam = np.concatenate([np.zeros((*np.shape(v)[:-1], 1)), v], axis=-1)
    return np.abs(lam - np.median(lam, axis=-1, keepdims=True)).sum(axis=-1)


WRONG: dict[str, tuple[Check, int, dict[str, Callable[..., Any]]]] = {
    "signs by coins": (check_covariance, 4, {"sample": with_signs(coins)}),
    "one sign + too many": (check_covariance, 4, {"sample": with_signs(one_too_many)}),
    "no weight at zero": (check_stationary, 3, {"sample": with_signs(no_zero)}),
    "cross": (check_stationary, 4, {"sample": directions_of(LpBall(4, p=1))}),
    "one axis stretched by 5 %": (
        check_covariance,
        3,
        {"sample": directions_of(MappedBall(SimplexBall(3), (1.05, 1.0, 1.0)))},
    ),
    "first level at zero": (check_polytope, 3, {"gauge": first_level_at_zero}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_simplex_ball_is_caught(name: str) -> None:
    """Draws of the right gauge and the wrong direction, and a column that is not centred."""
    check, dim, other = WRONG[name]
    with pytest.raises(AssertionError):
        check(Twin(SimplexBall(dim), other), np.random.default_rng(72))


def rows(m: int) -> Any:
    """Write down the m + 1 rows of the column, less their mean."""
    indicators = np.vstack([np.zeros(m), np.eye(m)])
    return indicators - indicators.mean(axis=0)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6, 7])
def test_volume_and_covariance_are_those_of_the_triangulated_hull(m: int) -> None:
    volume, covariance = polytope_moments(np.vstack([rows(m), -rows(m)]))
    assert SimplexBall(m).log_volume() == pytest.approx(math.log(volume), abs=1e-9)
    np.testing.assert_allclose(SimplexBall(m).covariance(), covariance, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("m", [1, 2, 3, 6, 40])
def test_gauge_is_the_least_weight_on_rows(m: int) -> None:
    """The definition itself, by linear programs over all signed rows."""
    signed, rng = np.vstack([rows(m), -rows(m)]), np.random.default_rng(73)
    v = rng.normal(size=(20, m)) * rng.integers(0, 2, (20, m))
    truth = [lp_gauge(signed, x) for x in v]
    np.testing.assert_allclose(SimplexBall(m).gauge(v), truth, rtol=1e-7, atol=1e-9)


def test_rows_have_gauge_one_and_their_differences_two() -> None:
    """The sensitivity that is built on it."""
    for m in (1, 2, 3, 40):
        x = rows(m)
        differences = (x[:, None] - x)[~np.eye(m + 1, dtype=bool)]
        np.testing.assert_allclose(SimplexBall(m).gauge(x), 1)
        np.testing.assert_allclose(SimplexBall(m).gauge(differences), 2)


def exact_gauge(v: Any) -> Fraction:
    numbers = [Fraction(x) for x in v.tolist()]
    lam = [-sum(numbers, Fraction(0)), *numbers]
    return min(sum((abs(x - t) for x in lam), Fraction(0)) for t in lam)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1.0, 1e300])
def test_gauge_and_support_keep_their_digits_at_every_scale(scale: float) -> None:
    """Against fractions, for even and odd dimensions."""
    for m in (1, 2, 3, 4, 7):
        v = scale * np.round(3 * np.random.default_rng(m).normal(size=(20, m)))
        truth = [float(exact_gauge(x)) for x in v]
        np.testing.assert_allclose(SimplexBall(m).gauge(v), truth, rtol=1e-13, atol=5e-324)
        if scale > 5e-324:
            expected = scale * np.abs((v / scale) @ rows(m).T).max(axis=1)
            np.testing.assert_allclose(SimplexBall(m).support(v), expected, rtol=1e-13)


def test_great_entries_do_not_overflow_on_the_way() -> None:
    """Only the sum of these entries is beyond the floats, not the gauge, not the support."""
    v = np.full(4, 1e308)
    v[3] = 0.5e308
    # lam = (-3.5, 1, 1, 1, 0.5) e308 has gauge 5e308: inf is the right answer for v itself.
    assert SimplexBall(4).gauge(v) == math.inf
    assert float(SimplexBall(4).gauge(0.3 * v)) == pytest.approx(1.5e308, rel=1e-13)
    assert float(SimplexBall(4).support(v)) == pytest.approx(0.7e308, rel=1e-13)


def test_gauge_of_the_infinite_and_the_undefined() -> None:
    with np.errstate(all="raise"):
        for m in (1, 2, 3):
            assert SimplexBall(m).gauge([math.inf] + [1.0] * (m - 1)) == math.inf
            assert np.isnan(SimplexBall(m).gauge([math.nan] + [1.0] * (m - 1)))
            assert SimplexBall(m).gauge(np.zeros(m)) == 0
        assert SimplexBall(2).gauge([math.inf, -math.inf]) == math.inf


def test_two_levels_are_an_interval() -> None:
    ball, interval = SimplexBall(1), LpBall(1, radius=0.5)
    np.testing.assert_allclose(ball.gauge([[3.0], [-0.2]]), interval.gauge([[3.0], [-0.2]]))
    np.testing.assert_allclose(ball.covariance(), [[1 / 12]], rtol=1e-14)
    np.testing.assert_array_equal(ball.extreme_points(), [[-0.5], [0.5]])
    assert ball.log_volume() == pytest.approx(0.0, abs=1e-15)
