"""The radius of other balls around the moments' differences is never too small."""

import math
from itertools import product

import numpy as np
import pytest

from skdp.geometry import LpBall, MomentBall, MomentLayout, RadialMomentBall
from skdp.mechanisms import Sensitivity

LAYOUT = MomentLayout(3, range(3), target_square=True)


def differences(layout, rows):
    """All differences of the moments of two of the rows (x, y)."""
    full = np.column_stack([np.ones(len(rows)), rows])
    moments = np.array([layout.statistic(np.outer(row, row)) for row in full])
    return (moments[:, None] - moments).reshape(-1, layout.dim)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_l_p_balls_around_the_moments_of_numbers(p):
    """Against every corner and middle of the box; for l_2 and l_inf the bound is near the truth."""
    changes = differences(LAYOUT, np.array(list(product((-1.0, 0.0, 1.0), repeat=4))))
    for ball in (LpBall(LAYOUT.dim, p=p), LpBall(LAYOUT.dim, p=p, radius=0.3)):
        truth = ball.gauge(changes).max()
        bound = Sensitivity(MomentBall(LAYOUT)).radius_in(ball)
        assert truth <= bound
        if p in (2.0, math.inf):
            assert bound < 1.2 * truth


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_l_p_balls_around_the_moments_of_rows_in_a_ball(p):
    """Against 300 rows of full length and their mirror images.

    The bound treats a square as a product of equal weight, and is loose where they differ.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    x *= 0.7 / np.linalg.norm(x, axis=1)[:, None]
    rows = np.column_stack([np.vstack([x, -x]), np.tile([1.0, -1.0], 300)])
    changes = differences(LAYOUT, rows)
    ball = LpBall(LAYOUT.dim, p=p)
    bound = Sensitivity(RadialMomentBall(LAYOUT, 0.7)).radius_in(ball)
    assert ball.gauge(changes).max() <= bound
    if p == 2:
        assert bound < 1.5 * ball.gauge(changes).max()


def test_bodies_of_the_same_moments_hold_each_others_differences_and_no_others():
    """Levels of one layout have radius 1 in each other; a body of other moments has not."""
    for level in (0, 1):
        assert Sensitivity(MomentBall(LAYOUT)).radius_in(MomentBall(LAYOUT, level)) == 1.0
    two = MomentLayout(2, (0, 1), target=False)
    other = MomentBall(MomentLayout(1, (0,), neighbors="add_remove"))
    grid = np.linspace(-1, 1, 9)
    truth = other.gauge(differences(two, np.array(list(product(grid, grid))))).max()
    assert truth > 1.9
    assert Sensitivity(MomentBall(two)).radius_in(other) >= truth
