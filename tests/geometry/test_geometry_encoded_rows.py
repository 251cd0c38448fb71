from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from ball_battery import ALARM, BATTERY, Check, lp_gauge
from scipy.integrate import cumulative_simpson
from scipy.stats import kstest

from skdp.geometry import EncodedRowsBall, LpBall, ProductBall, encoded_rows, rows_ball
from skdp.geometry.encoded_rows import block_moments

ADULT = (6, (8, 15, 6, 14, 5, 4, 1, 40))
BALLS = [
    EncodedRowsBall(0), EncodedRowsBall(2), EncodedRowsBall(1, (1,)), EncodedRowsBall(0, (3,)),
    EncodedRowsBall(1, (2,), index=(2, 0, 3, 1)), EncodedRowsBall(0, (2, 2)),
    EncodedRowsBall(1, (2, 1, 3)), EncodedRowsBall(2, (5, 1, 9)), EncodedRowsBall(*ADULT),
    EncodedRowsBall(2, (), intercept=False), EncodedRowsBall(0, (3,), intercept=False),
    EncodedRowsBall(1, (1,), intercept=False),
    EncodedRowsBall(0, (2, 2), intercept=False, index=(3, 1, 0, 2)),
    EncodedRowsBall(1, (1, 2), intercept=False), EncodedRowsBall(0, (2, 1, 2), intercept=False),
    EncodedRowsBall(2, (5, 1, 9), intercept=False), EncodedRowsBall(*ADULT, intercept=False),
]  # fmt: skip
SMALL = [ball for ball in BALLS if ball.dim <= 7]


@pytest.mark.parametrize("check", BATTERY)
@pytest.mark.parametrize("ball", [*BALLS[1::2], BALLS[4], BALLS[8]], ids=repr)
def test_encoded_rows_ball(ball: EncodedRowsBall, check: Check) -> None:
    check(ball, np.random.default_rng(40))


def rows(ball: EncodedRowsBall) -> Any:
    """Write down every row with its numbers at -1 or 1, one by one, in the ball's own order."""
    indicators = [[(0.0,) * m, *map(tuple, np.eye(m))] for m in ball.block_sizes]
    parts = [[(1.0,)] * ball.intercept, *[[(-1.0,), (1.0,)]] * ball.n_numbers, *indicators]
    found = [sum(choice, ()) for choice in itertools.product(*filter(None, parts))]
    order = range(ball.dim) if ball.index is None else ball.index
    out = np.empty((len(found), ball.dim))
    out[:, list(order)] = found
    return out


@pytest.mark.parametrize("ball", SMALL, ids=repr)
def test_gauge_is_the_least_weight_on_rows(ball: EncodedRowsBall) -> None:
    """The definition itself, by linear programs over all signed rows; a wrong gauge is seen."""
    signed = np.concatenate([rows(ball), -rows(ball)])
    rng = np.random.default_rng(41)
    v = rng.normal(size=(40, ball.dim)) * rng.integers(0, 2, (40, ball.dim))
    truth = [lp_gauge(signed, x) for x in v]
    np.testing.assert_allclose(ball.gauge(v), truth, rtol=1e-7, atol=1e-9)
    if len(ball.block_sizes) > 1:
        # One maximum over blocks of both sums at once would be too small.
        joint = EncodedRowsBall(
            ball.n_numbers, (sum(ball.block_sizes),), ball.intercept, ball.index
        )
        assert (joint.gauge(v) > np.array(truth) + 1e-6).any()


@pytest.mark.parametrize("ball", SMALL, ids=repr)
def test_support_is_the_greatest_over_rows(ball: EncodedRowsBall) -> None:
    w = np.random.default_rng(42).normal(size=(50, ball.dim))
    truth = np.abs(w @ rows(ball).T).max(axis=1)
    np.testing.assert_allclose(ball.support(w), truth, rtol=1e-12)


def test_every_row_of_a_wide_table_has_gauge_at_most_one() -> None:
    """And every difference of two rows at most two, the sensitivity that is built on it."""
    ball, rng = EncodedRowsBall(*ADULT), np.random.default_rng(43)

    def draw() -> Any:
        blocks = [np.eye(m + 1)[rng.integers(0, m + 1, 500)][:, 1:] for m in ball.block_sizes]
        return np.hstack([np.ones((500, 1)), rng.uniform(-1, 1, (500, 6)), *blocks])

    x, y = draw(), draw()
    np.testing.assert_allclose(ball.gauge(x), 1)
    assert (ball.gauge(x - y) <= 2).all()


@pytest.mark.parametrize("intercept", [True, False])
def test_log_volume_of_a_hundred_columns_against_whole_numbers(intercept: bool) -> None:
    """The same sum in exact fractions."""
    n_numbers, sizes = ADULT
    terms, total = [1], sum(sizes)
    for m in sizes:
        block = [math.comb(m, k) ** 2 for k in range(m + 1)]
        product = [0] * (len(terms) + m)
        for (i, s), (j, t) in itertools.product(enumerate(terms), enumerate(block)):
            product[i + j] += s * t
        terms = product
    # The integral of a^k b^(M - k) is 1 / ((M + 1) C(M, k)).
    mass = sum(Fraction(c, (total + 1) * math.comb(total, k)) for k, c in enumerate(terms))
    exact = mass * 2**n_numbers * (2 if intercept else total + 1)
    exact /= math.prod(math.factorial(m) for m in sizes)
    truth = float(mpmath.log(exact.numerator) - mpmath.log(exact.denominator))
    ball = EncodedRowsBall(*ADULT, intercept)
    assert ball.log_volume() == pytest.approx(truth, abs=1e-10)


def intercept_law(sizes: tuple[int, ...], u: Any) -> Any:
    """Return the CDF of u_0 on a fine grid, from its density as one writes it down first."""
    a, b = (1 + u) / 2, (1 - u) / 2
    density = np.ones_like(u)
    for m in sizes:
        terms = [math.comb(m, k) ** 2 * a**k * b ** (m - k) for k in range(m + 1)]
        density = density * sum(terms) / max(sum(terms))
    cdf = cumulative_simpson(density, x=u, initial=0)
    return cdf / cdf[-1]


def test_intercept_coordinate_of_a_wide_table_has_its_density() -> None:
    """False alarm 1e-10; a table without its greatest block is told apart."""
    grid = np.linspace(-1, 1, 20_001)
    cdf = intercept_law(ADULT[1], grid)
    rng = np.random.default_rng(44)
    right = EncodedRowsBall(*ADULT).sample(20_000, rng)[:, 0]
    fewer = EncodedRowsBall(6, ADULT[1][:-1]).sample(20_000, rng)[:, 0]
    assert kstest(right, lambda t: np.interp(t, grid, cdf)).pvalue > ALARM
    assert kstest(fewer, lambda t: np.interp(t, grid, cdf)).pvalue < ALARM
    variance = np.sum((1 - cdf) * np.clip(grid, 0, None)) * 4 * (grid[1] - grid[0])
    assert EncodedRowsBall(*ADULT).covariance()[0, 0] == pytest.approx(variance, rel=1e-4)


@dataclass
class Table:
    """A stand-in for a domain: two numbers and two blocks, in the order of a user's columns."""

    n_encoded: int = 6
    number_index: Any = (2, 5)
    blocks: Any = (slice(0, 2), np.array([3, 4]))
    is_ball: bool = False
    radius: float = 3.0


def test_of_a_domain_keeps_the_order_of_its_columns() -> None:
    ball = EncodedRowsBall.of(Table())
    assert ball == EncodedRowsBall(2, (2, 2), index=(0, 3, 6, 1, 2, 4, 5))
    assert ball.gauge([1, 0, 1, -1.0, 1, 0, 0.2]) == 1
    assert ball.gauge([0, 0, 0, 5.0, 0, 0, 0]) == 5
    assert ball.gauge([0, 1, 1, 0, 0, 0, 0]) == 4  # two levels at once
    without = EncodedRowsBall.of(Table(), intercept=False)
    assert without.gauge([1, 1, 0, -1, 0, 0]) == 3
    assert EncodedRowsBall.of(Table(3, (0,), (slice(1, 3),))) == EncodedRowsBall(1, (2,))


def test_rows_ball_of_each_kind_of_domain() -> None:
    numbers = Table(2, (0, 1), ())
    assert rows_ball(Table()) == EncodedRowsBall.of(Table())
    assert rows_ball(numbers) == LpBall(3, p=math.inf)
    assert rows_ball(numbers, intercept=False) == LpBall(2, p=math.inf)
    one_level = Table(2, (0, 1), (slice(2, 2), np.array([])))
    assert rows_ball(one_level) == LpBall(3, p=math.inf)
    disc = Table(2, (0, 1), (), is_ball=True)
    assert rows_ball(disc) == ProductBall((LpBall(1), LpBall(2, radius=3.0)))
    assert rows_ball(disc, intercept=False) == LpBall(2, radius=3.0)


def test_rows_of_a_ball_domain_fill_its_hull() -> None:
    """The support of the cylinder is that of the rows (1, x), |x|_2 <= R, and their negatives."""
    ball: Any = rows_ball(Table(2, (0, 1), (), is_ball=True))
    rng = np.random.default_rng(48)
    w = rng.normal(size=(50, 3))
    turn = np.linspace(0, 2 * math.pi, 100_001)
    x = np.column_stack([np.ones_like(turn), 3 * np.cos(turn), 3 * np.sin(turn)])
    np.testing.assert_allclose(ball.support(w), np.abs(w @ x.T).max(axis=1), rtol=1e-8)


def test_thousands_of_levels_stay_finite() -> None:
    ball = EncodedRowsBall(1, (1000, 300))
    u = ball.sample(50, np.random.default_rng(50))
    assert np.isfinite(u).all()
    assert (ball.gauge(u) <= 1 + 1e-12).all()
    assert math.isfinite(ball.log_volume())
    assert np.linalg.eigvalsh(ball.covariance()).min() > 0


@pytest.mark.parametrize("intercept", [True, False])
def test_few_nodes_are_enough_where_the_density_is(intercept: bool, monkeypatch: Any) -> None:
    """In parts of few entries; the second truth has a node for every two degrees."""
    ball = EncodedRowsBall(0, (300, 240), intercept)
    monkeypatch.setattr(encoded_rows, "_MOST_NODES", 400)
    exact, sizes = replace(ball).variance(), []

    def counted(m: int, a: Any, b: Any) -> Any:
        sizes.append(m * len(a))
        return block_moments(m, a, b)

    monkeypatch.setattr(encoded_rows, "block_moments", counted)
    monkeypatch.setattr(encoded_rows, "_MOST_NODES", 48)
    monkeypatch.setattr(encoded_rows, "_MOST_ENTRIES", 5000)
    np.testing.assert_allclose(ball.variance(), exact, rtol=1e-11)
    assert sum(sizes) == 48 * 540
    assert max(sizes) <= 5000 + 300
