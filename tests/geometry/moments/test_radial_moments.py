"""The ball around moments of rows that are bounded in length."""

import itertools

import numpy as np
import pytest
from ball_battery import check_box, check_covariance, check_norm, check_protocol, check_radius

from skdp.geometry.moments import MomentLayout, RadialMomentBall, _greatest_of_rows

RELATIONS = ["replace_one", "add_remove"]


def ball_of(q, radius, neighbors="replace_one", target_square=True):
    layout = MomentLayout(q, tuple(range(q)), target_square=target_square, neighbors=neighbors)
    return RadialMomentBall(layout, radius)


BALLS = [
    ball_of(q, radius, neighbors, square)
    for q, radius, neighbors, square in itertools.product(
        (1, 2, 4), (0.3, 1.0, 2.5), RELATIONS, (True, False)
    )
]


def rows(ball, n, rng):
    """Rows (1, x, y): lengths and targets at the bounds, at 0 and between."""
    q = ball.layout.n_encoded
    x = rng.normal(size=(n, q))
    x /= np.linalg.norm(x, axis=1)[:, None]
    lengths = rng.choice([0.0, 0.5, 1.0, 1.0, 1.0], n) ** rng.choice([0.5, 1.0], n)
    y = np.where(rng.random(n) < 0.7, rng.choice([-1.0, 1.0], n), rng.uniform(-1, 1, n))
    return np.column_stack([np.ones(n), ball.radius * lengths[:, None] * x, y])


def changes(ball, n, rng):
    """Of random rows, and of rows turned against each other."""
    first, second = rows(ball, n, rng), rows(ball, n, rng)
    near = first * rng.choice([-1.0, 1.0, 0.3], (n, 1)) + 0.1 * rng.normal(size=first.shape)
    near[:, 0] = 1.0
    length = np.linalg.norm(near[:, 1:-1], axis=1)
    near[:, 1:-1] *= np.minimum(1, ball.radius / length)[:, None]
    near[:, -1] = near[:, -1].clip(-1, 1)
    second = np.where(rng.random((n, 1)) < 0.5, second, near)
    moments = [ball.layout.statistic(v[:, :, None] * v[:, None, :]) for v in (first, second)]
    return moments[0] if ball.layout.adds else moments[0] - moments[1]


@pytest.mark.parametrize("ball", BALLS[::5], ids=repr)
@pytest.mark.parametrize(
    "check", [check_protocol, check_norm, check_radius, check_covariance, check_box]
)
def test_it_passes_the_battery_of_all_balls(ball, check):
    """An image of a Euclidean ball, whose law has tests of its own."""
    check(ball, np.random.default_rng(0))


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_it_holds_every_change_and_the_best_change_is_on_its_boundary(ball):
    """The best of 20,000 changes: a ball 1 % smaller misses it. Shifted squares have a bound."""
    gauges = ball.gauge(changes(ball, 20_000, np.random.default_rng(1)))
    assert (0.7 if ball.layout.shift.any() else 0.99) < gauges.max() <= 1


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_the_greatest_square_bounds_every_weighted_square(ball):
    """For weights equal on orbits, for any others, and for those of a single kind."""
    rng = np.random.default_rng(2)
    squares = changes(ball, 5_000, rng) ** 2
    orbits, kinds = ball.orbits(), ball.layout.kinds
    alike = [rng.exponential(size=orbits.max() + 1)[orbits] ** 2 for _ in range(10)]
    single = [(kinds == kind).astype(float) for kind in set(kinds.tolist())]
    for weights in [*alike, *single, rng.exponential(size=ball.dim), np.ones(ball.dim)]:
        assert (squares @ weights).max() <= ball.greatest_square(weights) * (1 + 1e-12)


def value(coefficients, square, s, t):
    """F of Lemma 3 from five scalars: rows of full length, y = 1 and y' = t."""
    a, b, c, d, e = coefficients
    target, products = b * (1 - t) ** 2 + e * (1 - t**2) ** 2, square**2 - s**2
    mixed = square + square * t**2 - 2 * s * t
    return 2 * a * (square - s) + target + 2 * c * products + d * mixed


def coefficients_of(rng, n):
    """Weights over many orders of magnitude, some of them 0."""
    for _ in range(n):
        sizes = rng.exponential(size=5) ** rng.choice([1, 4])
        yield tuple((sizes * rng.integers(0, 2, 5)).tolist()), rng.choice([0.01, 0.1, 1.0, 6.0])


def test_the_greatest_value_is_that_of_a_grid():
    """2000 sums, with missing terms; a twin that looks at the corners only fails."""
    rng = np.random.default_rng(4)
    t, corners_miss = np.linspace(-1, 1, 1001), 0
    for (a, b, c, d, e), square in coefficients_of(rng, 2000):
        inside = np.clip(-(a + d * t) / (2 * c), -square, square) if c else square + 0 * t
        s = np.stack([-square + 0 * t, square + 0 * t, inside])
        values = value((a, b, c, d, e), square, s, t)
        found = _greatest_of_rows((a, b, c, d, e), square)
        assert values.max() * (1 - 1e-15) <= found <= values.max() * (1 + 1e-5) + 1e-300
        corners_miss += values[:2, ::1000].max() < 0.98 * found
    assert corners_miss > 100


@pytest.mark.parametrize("ball", BALLS[:6], ids=repr)
def test_row_square_is_the_maximum_over_rows(ball):
    """Never exceeded, and reached by a row along the axis of greatest weight."""
    rng = np.random.default_rng(5)
    v = rows(ball, 2000, rng)
    for _ in range(5):
        weights = rng.exponential(size=ball.layout.n_rows)
        best = np.concatenate([[1.0], np.zeros(ball.layout.n_encoded), [1.0]])
        best[1 + np.argmax(weights[1:-1])] = ball.radius
        assert (v**2 @ weights).max() <= ball.row_square(weights) * (1 + 1e-12)
        assert best**2 @ weights == pytest.approx(ball.row_square(weights), rel=1e-12)
