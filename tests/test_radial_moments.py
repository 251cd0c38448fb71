"""The ball around moments of rows that are bounded in length."""

import itertools

import numpy as np
import pytest
from ball_battery import check_box, check_covariance, check_norm, check_protocol, check_radius

from skdp.geometry.moments import MomentLayout
from skdp.geometry.moments.radial import RadialMomentBall, _least

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
def test_it_holds_every_change_and_is_not_much_too_large(ball):
    """The best of 20,000 changes has a gauge above 0.7."""
    gauges = ball.gauge(changes(ball, 20_000, np.random.default_rng(1)))
    assert 0.7 < gauges.max() <= 1


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


def test_the_greatest_square_is_reached_where_rows_can_be_turned():
    """With Frobenius' own weights the search comes within 1 %: no bound is better than this."""
    ball = ball_of(2, 1.0)
    natural = np.where(ball.layout.kinds == "product", 2.0, 1 / ball.layout.scale**2)
    natural[ball.layout.kinds == "target"] = 2.0
    natural[ball.layout.kinds == "linear"] = 2.0
    found = (changes(ball, 200_000, np.random.default_rng(3)) ** 2 @ natural).max()
    assert found == pytest.approx(ball.greatest_square(natural), rel=0.01)


def test_the_least_of_the_quadratic_is_that_of_a_grid():
    """1000 quadratics, convex and not, with missing terms; twins that look at corners only fail."""
    rng = np.random.default_rng(4)
    s, t = np.meshgrid(np.linspace(-1, 1, 201), np.linspace(-1, 1, 201))
    corners_miss = 0
    for _ in range(1000):
        a, b, c, d, e = rng.exponential(size=5) * rng.integers(0, 2, 5)
        square = rng.choice([0.1, 1.0, 6.0])
        u = square * s
        values = a * u + b * t + c * u**2 + d * u * t + e * t**2
        found = _least((a, b, c, d, e), square)
        width = (a + d + 2 * c * square) * square + b + d * square + 2 * e
        assert found <= values.min() + 1e-12 * width
        assert found >= values.min() - 0.01 * width
        corners_miss += values[::200, ::200].min() > values.min() + 0.02 * width
    assert corners_miss > 50


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


def test_no_rotation_of_the_rows_changes_the_gauge_of_second_moments():
    ball, rng = ball_of(3, 1.0), np.random.default_rng(6)
    second = np.isin(ball.layout.kinds, ("square", "product"))
    for _ in range(20):
        turn = np.eye(5)
        turn[1:4, 1:4] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        M = np.zeros((5, 5))
        half = rng.normal(size=(3, 3))
        M[1:4, 1:4] = half + half.T
        gauges = [ball.gauge(ball.layout.statistic(m) * second) for m in (M, turn @ M @ turn.T)]
        assert gauges[0] == pytest.approx(gauges[1], rel=1e-12)


@pytest.mark.parametrize(
    ("layout", "radius", "text"),
    [
        (MomentLayout(2, (0,), ((1,),)), 1.0, "be of numbers and a target"),
        (MomentLayout(2, (0, 1), target=False), 1.0, "be of numbers and a target"),
        (MomentLayout(1, (0,)), 0.0, "radius must be"),
        (MomentLayout(1, (0,)), float("inf"), "radius must be"),
    ],
)
def test_what_has_no_such_ball_is_refused(layout, radius, text):
    with pytest.raises(ValueError, match=text):
        RadialMomentBall(layout, radius)
