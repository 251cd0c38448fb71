"""What a K-norm law has by its ball: entropy, depth, tightness, variances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from compared_balls import CURVED, PLANE, SHEAR, Shy, brute, example
from scipy.integrate import dblquad
from scipy.stats import binomtest, gamma, kstest

from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, ScaledBall, SimplexBall
from skdp.geometry.order import (
    concentration_set,
    conditional_variance,
    depth,
    entropy,
    is_tighter,
    knorm_covariance,
)
from skdp.geometry.order.containment import contains

INF = math.inf


LAWS = [
    LpBall(1, radius=3.0),
    LpBall(2, p=1, weights=(1.0, 4.0)),
    LpBall(3, p=2, radius=0.5),
    LpBall(4, p=INF),
    MappedBall(LpBall(2, p=INF), SHEAR),
    SimplexBall(3),
    EncodedRowsBall(1, (2, 3)),
    CURVED,
    example.RECTANGLE,
    example.DIAMOND,
]


def draw(ball: Any, n: int, rng: Any) -> Any:
    return rng.standard_gamma(ball.dim + 1, n)[:, None] * ball.sample(n, rng)


def test_entropy_of_laws_with_independent_coordinates() -> None:
    """The l_1 law is d Laplace laws, 1 + log(2 b) each; a linear map adds log |det|."""
    scales = np.array([0.5, 2.0, 7.0])
    laplace = LpBall(3, p=1, weights=tuple(1 / scales))
    assert entropy(laplace) == pytest.approx(3 + np.log(2 * scales).sum())
    turned = MappedBall(LpBall(2, p=1), SHEAR)
    assert entropy(turned) == pytest.approx(2 + 2 * math.log(2) + np.log(np.linalg.det(SHEAR)))
    with pytest.raises(AttributeError, match="Shy must have log_volume"):
        entropy(Shy(LpBall(2)))


@pytest.mark.parametrize("ball", LAWS, ids=repr)
def test_entropy_is_the_mean_of_minus_log_density(ball: Any) -> None:
    """|V|_B has variance d: the mean of 100,000 is within 8 standard errors, 1e-14 by chance."""
    n = 100_000
    v = draw(ball, n, np.random.default_rng(3))
    log_density = -ball.gauge(v) - math.lgamma(ball.dim + 1) - ball.log_volume()
    assert abs(entropy(ball) + log_density.mean()) < 8 * math.sqrt(ball.dim / n)


@pytest.mark.parametrize("ball", LAWS, ids=repr)
def test_depth_is_uniform_under_its_own_law(ball: Any) -> None:
    """As 1 minus a distribution function is; with one dimension more or less it is not."""
    v = draw(ball, 20_000, np.random.default_rng(4))
    assert kstest(depth(ball, v), "uniform").pvalue > 1e-8  # ten balls: 1e-7
    for wrong in (ball.dim + 1, ball.dim + 0.2):
        assert kstest(gamma(wrong).sf(ball.gauge(v)), "uniform").pvalue < 1e-8


def test_the_four_axioms_of_depth() -> None:
    """Definition 3.8: affine invariance, greatest at 0, falling outwards, vanishing."""
    ball, v = LpBall(2, p=3), np.random.default_rng(5).normal(size=(50, 2))
    np.testing.assert_allclose(depth(MappedBall(ball, SHEAR), v @ SHEAR.T), depth(ball, v))
    assert depth(ball, [0.0, 0.0]) == 1
    falling = depth(ball, np.linspace(0, 30, 40)[:, None, None] * v)
    assert (np.diff(falling, axis=0) <= 0).all()
    assert (depth(ball, 1e6 * v) == 0).all()


@pytest.mark.parametrize("mass", [0.05, 0.5, 0.99])
def test_concentration_sets_have_their_mass_and_are_the_deepest_points(mass: float) -> None:
    ball = MappedBall(LpBall(3, p=1), np.diag([1.0, 2.0, 3.0]))
    region, n = concentration_set(ball, mass), 50_000
    v = draw(ball, n, np.random.default_rng(6))
    inside = region.gauge(v) <= 1
    assert binomtest(int(inside.sum()), n, mass).pvalue > 1e-8
    np.testing.assert_array_equal(inside, depth(ball, v) >= 1 - mass)


@pytest.mark.parametrize("mass", [0.0, 1.0, math.nan])
def test_concentration_sets_of_no_mass(mass: float) -> None:
    with pytest.raises(ValueError, match="mass must be a number in"):
        concentration_set(LpBall(2), mass)


def test_tightness_is_containment() -> None:
    """Theorem 3.6, both ways: sets of equal mass lie in each other as the balls do."""
    for first in PLANE:
        for second in PLANE:
            sets = [
                contains(concentration_set(second, m), concentration_set(first, m))
                for m in (0.1, 0.9)
            ]
            assert sets == [is_tighter(first, second)] * 2


@pytest.mark.parametrize("turn", [0.0, 0.4])
@pytest.mark.parametrize("ball", [CURVED, LpBall(2, p=INF), MappedBall(LpBall(2), SHEAR)], ids=repr)
def test_conditional_variance_by_integration(ball: Any, turn: float) -> None:
    """Over a narrow double cone and over a narrow strip around the line: two answers.

    The density is exp(-gauge); at a width of 1e-3 both limits are reached to 1e-3, on one side
    of the line and so, by symmetry, on both.
    """
    e, width, far = np.array([math.cos(turn), math.sin(turn)]), 1e-3, 60.0
    across = np.array([-e[1], e[0]])

    def moment(power: int, cone: bool) -> float:
        def f(s: float, x: float) -> float:
            point = x * (e + s * across) if cone else x * e + s * across
            return float(math.exp(-ball.gauge(point)) * x**power * (x if cone else 1.0))

        return float(dblquad(f, 0, far, 0, width, epsrel=1e-7)[0])

    for given, cone in (("direction", True), ("line", False)):
        expected = conditional_variance(ball, 5 * e, given=given)
        assert moment(2, cone) / moment(0, cone) == pytest.approx(expected, rel=5e-3)
    # The paper's number is the variance of the length, given the direction.
    mean = moment(1, True) / moment(0, True)
    length = moment(2, True) / moment(0, True) - mean**2
    assert length == pytest.approx(conditional_variance(ball, e) / 3, rel=5e-3)
    assert length == pytest.approx(2 / ball.gauge(e) ** 2, rel=5e-3)


def test_conditional_variance_orders_as_containment_does() -> None:
    """Theorem 3.17 and its converse, over 720 directions of all pairs in the plane."""
    turns = np.linspace(0, np.pi, 720)
    e = np.column_stack([np.cos(turns), np.sin(turns)])
    for first in PLANE:
        for second in PLANE:
            less = conditional_variance(first, e) <= conditional_variance(second, e) * (1 + 1e-9)
            if is_tighter(first, second):
                assert less.all()
            elif brute(second, first) > 1.01:
                assert not less.all()


def test_conditional_variance_refuses() -> None:
    with pytest.raises(ValueError, match="direction must be finite and not 0"):
        conditional_variance(LpBall(2), [0.0, 0.0])
    with pytest.raises(ValueError, match="given must be one of"):
        conditional_variance(LpBall(2), [0.0, 1.0], given="cone")
    assert conditional_variance(LpBall(3), np.eye(3)).shape == (3,)


@pytest.mark.parametrize("ball", LAWS, ids=repr)
def test_variance_lies_between_cone_and_cylinder(ball: Any) -> None:
    """2 h^2 <= Var <V, e> <= (d + 1)(d + 2) h^2 / 3, h the support: reached by l_1 and by a box."""
    d = ball.dim
    e = np.concatenate([np.eye(d), np.random.default_rng(7).normal(size=(50, d))])
    variance = np.einsum("ki,ij,kj->k", e, knorm_covariance(ball), e)
    share = variance / ball.support(e) ** 2
    assert (share >= 2 * (1 - 1e-9)).all()
    assert (share <= (d + 1) * (d + 2) / 3 * (1 + 1e-9)).all()
    if isinstance(ball, LpBall) and ball.p in (1, INF):
        bound = 2 if ball.p == 1 else (d + 1) * (d + 2) / 3
        np.testing.assert_allclose(share[:d], bound)


def test_a_ball_inside_another_can_have_twice_the_variance_but_not_more() -> None:
    """The factor (d + 1)(d + 2) / 6 is approached by ever flatter cones around one box."""
    box = LpBall(2, p=INF)
    for height, ratio in ((11.0, 1.6), (1e4, 1.999)):
        cone = LpBall(2, p=1, weights=(1 - 1 / height, 1 / height))
        assert contains(cone, box) is True
        variances = knorm_covariance(box)[0, 0], knorm_covariance(cone)[0, 0]
        assert ratio < variances[0] / variances[1] <= 2


@pytest.mark.parametrize("outer", [example.DIAMOND, ScaledBall(LpBall(2), 110.0)], ids=repr)
def test_in_the_gauge_of_either_ball_the_inner_law_is_smaller(outer: Any) -> None:
    """|V_K|_H is dominated by |V_H|_H, a Gamma(d) like |V_K|_K, and that by |V_H|_K."""
    inner, rng, n = example.RECTANGLE, np.random.default_rng(8), 50_000
    assert contains(outer, inner) is True
    quantiles = [0.1, 0.5, 0.9]
    at = gamma(2).ppf(quantiles)
    small, large = outer.gauge(draw(inner, n, rng)), inner.gauge(draw(outer, n, rng))
    # Shares of 50,000 draws have standard errors below .0023; the gaps are ten times as large.
    for share, t in zip(quantiles, at, strict=True):
        assert np.mean(small <= t) > share + 0.005
        assert np.mean(large <= t) < share - 0.02
