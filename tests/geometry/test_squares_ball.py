"""The hull of the changes in sums of numbers and of their squares, and noise on it."""

from fractions import Fraction

import numpy as np
import pytest
from ball_battery import BATTERY
from inner_moments import ColumnSums, sums_noise
from scipy.optimize import linprog

from skdp.geometry.moments import SquaresBall, counted_square_gauge

BALLS = [SquaresBall(1), SquaresBall(2), SquaresBall(1, True), SquaresBall(3, True)]


@pytest.mark.parametrize("check", BATTERY, ids=lambda check: check.__name__)
@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_battery(ball, check):
    check(ball, np.random.default_rng(5))


def records(counted, values):
    """The statistics of all records with these numbers, (count, dim)."""
    z = np.stack(np.meshgrid(*values), axis=-1).reshape(-1, len(values))
    return np.hstack([np.ones((len(z), 1))] * counted + [z, 2 * z**2 - counted])


def hull_gauge(points, v):
    """The least sum of weights of points and their negatives that give v."""
    both = np.concatenate([points, -points])
    return linprog(np.ones(len(both)), A_eq=both.T, b_eq=v, method="highs").fun


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("counted", [False, True])
def test_the_ball_is_the_hull_of_the_changes(counted, k):
    """By linear programs over records on a fine grid, which lie in the ball and nearly fill it."""
    grid = np.linspace(-1, 1, 81 if k == 1 else 9)
    points = records(counted, [grid] * k)
    if not counted:
        points = (points[:, None] - points[None]).reshape(-1, 2 * k) / 2
        points = np.unique(points.round(12), axis=0)
    ball, rng = SquaresBall(k, counted), np.random.default_rng(k)
    assert ball.gauge(points).max() <= 1 + 1e-12
    for v in rng.standard_normal((8, ball.dim)):
        exact = hull_gauge(points, v)
        assert exact * (1 - (1e-3 if k == 1 else 5e-2)) <= ball.gauge(v) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("k", [1, 4, 300])
def test_variances_are_those_of_draws(counted, k):
    ball = SquaresBall(k, counted)
    draws = ball.sample(20_000 if k < 9 else 400, np.random.default_rng(k))
    found, exact = (draws**2).mean(axis=0), ball.variance()
    places = [slice(0, int(counted)), slice(counted, counted + k), slice(counted + k, None)]
    for place in places[0 if counted else 1 :]:
        assert found[place].mean() == pytest.approx(
            exact[place].mean(), rel=0.09 if k > 9 else 0.03
        )


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_density_ratio_of_neighbours_is_epsilon_and_no_more(neighbors):
    """Of the noise around the sums of neighbours with one number, on a grid of results.

    With 5 % less noise, the twin, the ratio exceeds epsilon.
    """
    epsilon, counted = 0.8, neighbors == "add_remove"
    moved, rng = 1 if counted else 2, np.random.default_rng(0)
    noise = sums_noise(ColumnSums((0,), None if counted else 9, (0,)), moved, neighbors, epsilon)
    rows = records(counted, [np.linspace(-1, 1, 41)])
    changes = rows if counted else (rows[:, None] - rows).reshape(-1, 2)
    at = np.concatenate([changes, rng.normal(0, 4, (300, changes.shape[1]))])
    away = noise.ball.gauge(at[:, None] - changes) - noise.ball.gauge(at)[:, None]
    ratio = np.abs(away).max() / noise.scale
    assert epsilon * (1 - 1e-9) < ratio <= epsilon
    assert ratio / 0.95 > epsilon


def counted_square_gauge_of(count: float, x: float, square: float) -> Fraction:
    """The gauge of the hull of {+-(1, z, 2 z^2 - 1)} in fractions, from its inequalities."""
    c, u, s = Fraction(count), abs(Fraction(x)), Fraction(square)
    least = max(abs(c), u, abs(s))
    found = [least]
    for a, b in ((c, s), (-c, -s)):
        width = 2 * u - a
        if width > least and (least - b) * (least - a) < (width - least) ** 2:
            found.append((width**2 - a * b) / (2 * width - a - b))
    return max(found)


@pytest.mark.parametrize("near", [0, 10, 25, 40, 50])
def test_the_gauge_with_a_count_keeps_its_digits_near_a_corner(near: int) -> None:
    """Draws of sums of balls are divided by it, and their error is part of the lattice's proof."""
    rng = np.random.default_rng(99)
    corner = np.array([1.0, 1.0, 1.0]) * rng.choice([-1, 1], (4000, 1))
    v = corner + rng.normal(size=(4000, 3)) * 2.0**-near
    v[:, 1] *= rng.choice([-1, 1], 4000)
    found = counted_square_gauge(*v.T)
    truth = [counted_square_gauge_of(*map(float, x)) for x in v]
    errors = [abs(Fraction(float(one)) / t - 1) for one, t in zip(found, truth, strict=True)]
    assert max(errors) < Fraction(1, 2**49)
