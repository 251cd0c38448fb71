"""From a sensitivity to noise: radii against brute force, densities against epsilon."""

import math
from contextlib import suppress

import numpy as np
import pytest
from scipy.stats import gamma, kstest

from skdp import DPLogisticRegression
from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, ProductBall, SimplexBall, SumBall
from skdp.mechanisms import KNorm, KNormNoise, Sensitivity, calibrate
from skdp.noise import Laplace
from skdp.privacy import Guarantee

P = [1.0, 1.5, 2.0, 3.0, math.inf]
HULL = EncodedRowsBall(1, (2,))
BALLS = [
    *(LpBall(3, p=p) for p in P), LpBall(3, p=1.0, weights=(1.0, 0.5, 4.0)),
    LpBall(3, p=3.0, radius=2.0, weights=(1.0, 0.5, 4.0)),
    MappedBall(LpBall(3), [[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.5]]),
    SumBall((LpBall(1), SimplexBall(2)), (0.3, 0.7)), ProductBall((LpBall(2, p=1.0), LpBall(1))),
]  # fmt: skip


def greatest_by_search(ball, over, rng):
    """The greatest gauge over a body, from its draws, its corners and points near the best."""
    points = over.sample(20_000, rng)
    with suppress(ValueError, AttributeError):  # a round body has no corners
        points = np.vstack([points, over.extreme_points()])
    for width in (0.3, 0.1, 0.03, 0.01, 0.003):
        points = points / over.gauge(points)[:, None]
        best = points[np.argsort(ball.gauge(points))[-20:]]
        around = best[:, None, :] + width * rng.normal(size=(20, 200, over.dim))
        points = np.vstack([best, around.reshape(-1, over.dim)])
    points = points / over.gauge(points)[:, None]
    return float(ball.gauge(points).max())


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("over_p", P)
def test_the_radius_of_an_lp_ball_in_another_is_exact(p, over_p):
    """The search finds a point that attains it, to four digits, and none beyond."""
    ball, over = LpBall(3, p=p, radius=0.7), LpBall(3, p=over_p, radius=2.0)
    claimed = Sensitivity(over, radius=1.5).radius_in(ball)
    found = 1.5 * greatest_by_search(ball, over, np.random.default_rng(0))
    assert found <= claimed
    assert claimed == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("ball", BALLS, ids=repr)
@pytest.mark.parametrize("over", BALLS, ids=repr)
def test_the_radius_is_never_too_small(ball, over):
    """And exact where the body's corners can be listed."""
    claimed = Sensitivity(over).radius_in(ball)
    found = greatest_by_search(ball, over, np.random.default_rng(1))
    assert found <= claimed * (1 + 1e-12)
    try:
        over.extreme_points()
    except (AttributeError, ValueError):
        assert claimed <= 3 * found * (1 + 1e-6)  # the box around a body in three dimensions
    else:
        assert claimed == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("p", P)
def test_the_hull_of_rows_in_lp_balls(p):
    """A row has an intercept, a number and an indicator: |x|_p = 3^(1/p) at most."""
    assert Sensitivity(HULL).radius_in(LpBall(4, p=p)) == pytest.approx(3 ** (1 / p), rel=1e-9)


def test_the_ball_itself_has_radius_one():
    """No rounding and no corner: the same ball, or an equal one."""
    for ball, same in ((HULL, EncodedRowsBall(1, (2,))), (BALLS[6], BALLS[6])):
        assert Sensitivity(ball, radius=0.3).radius_in(same) == 0.3


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_the_scale_is_the_radius_over_epsilon_rounded_up(ball):
    for epsilon, radius in ((0.1, 3.0), (7.0, 1e-3), (1 / 3, 0.1)):
        noise = KNorm(ball).calibrate(Sensitivity(ball, radius), epsilon=epsilon)
        assert radius / epsilon <= noise.scale <= radius / epsilon * (1 + 1e-11)
        assert noise.guarantee.epsilon == epsilon
        assert noise.dim == ball.dim


def log_density(noise, v):
    return -noise.ball.gauge(v) / noise.scale


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
def test_the_log_ratio_reaches_epsilon_and_never_exceeds_it(epsilon, neighbors):
    """Over a grid of outputs, for all corners of the differences, in every pair of shapes."""
    axis = np.linspace(-6, 6, 41)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    for p in P:
        for over_p in (1.0, math.inf):
            sensitivity = Sensitivity(LpBall(2, p=over_p), 1.5, neighbors)
            noise = calibrate(LpBall(2, p=p), sensitivity, epsilon=epsilon)
            shifts = 1.5 * LpBall(2, p=over_p).extreme_points()
            grids = [grid, *(k * shifts for k in range(1, 5))]
            outputs = np.vstack(grids)
            base = log_density(noise, outputs)
            loss = max(np.abs(log_density(noise, outputs - s) - base).max() for s in shifts)
            assert loss <= epsilon
            assert loss == pytest.approx(epsilon, rel=1e-9)
            kind = noise.guarantee.mechanism
            assert noise.guarantee == Guarantee(
                epsilon, neighbors=neighbors, mechanism=kind, losses=noise.guarantee.losses
            )
            weak = KNormNoise(noise.ball, 0.95 * noise.scale, noise.guarantee)
            loss = np.abs(log_density(weak, outputs - shifts[0]) - log_density(weak, outputs)).max()
            assert loss > 1.05 * epsilon


@pytest.mark.rest_is_slow(4)
@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_draws_have_the_stated_law(ball):
    """|V|_K / scale is Gamma(3), and the covariance is that of the draws.

    Ten balls, two p-values at 1e-8 each, 100 means of 8,000 draws at 7 standard errors (3e-12
    each; below 1e-9 with their heavier tails): a false alarm less than once in a million runs.
    The mean of |V|_K has a relative spread of 1 / sqrt(3 n) = 0.65 %, and that of the squared
    length 1.4 %: twins of 5 % and of 10 % (20 % in the squares) are caught.
    """
    rng = np.random.default_rng(3)
    n, noise = 8_000, calibrate(ball, Sensitivity(ball, 2.0), epsilon=0.5)
    v = np.array([noise.rvs(rng) for _ in range(n)])
    size = ball.gauge(v) / noise.scale
    assert kstest(size, gamma(3).cdf).pvalue > 1e-8
    for factor, alarm in ((1.0, False), (0.95, True)):
        share = gamma(3 * n).cdf(factor * size.sum())
        assert (2 * min(share, 1 - share) < 1e-8) == alarm
    covariance = noise.covariance()
    assert np.all(off(v[:, :, None] * v[:, None, :], covariance) < 7)
    length = np.einsum("ni,ij,nj->n", v, np.linalg.inv(covariance), v)
    assert off(length, 3.0) < 7
    assert off(0.9**2 * length, 3.0) > 7


def off(values, truth):
    """By how many of its standard errors a mean is off."""
    error = values.std(axis=0) / math.sqrt(len(values))
    return np.abs(values.mean(axis=0) - truth) / error


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_the_mean_gauge_is_that_of_draws(ball):
    """Exact in the noise's own ball; elsewhere from 4096 draws of its own, seven errors wide."""
    noise = calibrate(ball, Sensitivity(ball, 2.0), epsilon=0.5)
    assert noise.expected_norm(ball) == 3 * noise.scale
    rng = np.random.default_rng(4)
    seen = LpBall(3, p=1.0).gauge(4 * noise.scale * ball.sample(20_000, rng))
    error = seen.std() * math.sqrt(1 / 20_000 + 1 / 4096)
    other = LpBall(3, p=1.0, weights=(1.0, 1.0, 1.0))
    assert abs(noise.expected_norm(other) - seen.mean()) < 7 * error


class Diamond:
    """A third party's ball: the least that the protocol asks for, and no base class."""

    exact = True

    def __init__(self, dim):
        self.dim = dim

    def gauge(self, v):
        return np.abs(np.asarray(v, dtype=float)).sum(axis=-1)

    def sample(self, n, rng):
        return LpBall(self.dim, p=1.0).sample(n, rng)


def test_a_mapped_ball_is_not_mistaken_for_what_it_maps():
    """It has a ball of its own, as a K-norm mechanism has."""
    X, y = np.zeros((5, 1)), [0, 1, 0, 1, 0]
    ball = MappedBall(LpBall(2), [3.0, 1.0])
    model = DPLogisticRegression(classes=[0, 1], mechanism=ball, random_state=0).fit(X, y)
    assert model.noise_.ball is ball


def test_names_stand_for_balls_of_the_sensitivitys_dimension():
    sensitivity = Sensitivity(HULL)
    for name, p in (("l1", 1.0), ("l2", 2.0), ("linf", math.inf)):
        assert calibrate(name, sensitivity, epsilon=1.0).ball == LpBall(4, p=p)
    assert calibrate("hull", sensitivity, epsilon=1.0).ball is HULL
    assert calibrate(KNorm(), sensitivity, epsilon=1.0).ball is HULL
    assert calibrate("l2", sensitivity, epsilon=1.0, delta=1e-6).guarantee.delta == 1e-6


class Rough(LpBall):
    """A ball whose sampler is not exact."""

    exact = False


UNIT = Sensitivity(LpBall(2))
BAD = [
    (lambda: calibrate("gauss", UNIT, epsilon=1.0), "'elliptic', .*'gaussian', 'hull', 'l1', 'l2'"),
    (lambda: calibrate(3, UNIT, epsilon=1.0), "norm ball.*calibrate"),
    (lambda: calibrate("l2", UNIT, epsilon=0.0), "epsilon must be a finite number > 0, got 0.0"),
    (lambda: calibrate("l2", UNIT, epsilon=math.nan), "epsilon must"),
    (lambda: calibrate("l2", UNIT, epsilon=math.inf), "epsilon must"),
    (lambda: calibrate("l2", UNIT, epsilon=1.0, delta=1.0), r"delta must be .* \[0, 1\)"),
    (lambda: calibrate(LpBall(3), UNIT, epsilon=1.0), "dimension 2, got 3"),
    (lambda: calibrate(Rough(2), UNIT, epsilon=1.0), "sampled exactly"),
    (lambda: calibrate("gaussian", 1.0, epsilon=1.0, delta=1e-6), "be a Sensitivity, got 1.0"),
    (lambda: calibrate(Laplace(), UNIT, epsilon=1.0), "A law is given as Independent"),
    (lambda: KNorm("l3"), "ball must be one of"),
    (lambda: KNorm(3.0), "have dim, exact, gauge and sample"),
    (lambda: Sensitivity("l2"), "have dim, exact, gauge and sample"),
    (lambda: Sensitivity(LpBall(2), radius=0.0), "radius must be a finite number > 0"),
    (lambda: Sensitivity(LpBall(2), neighbors="swap"), "neighbors must be one of"),
    (lambda: Sensitivity(Diamond(2)).radius_in(LpBall(2)), "extreme_points.*bounding_box"),
]


@pytest.mark.parametrize(("make", "text"), BAD, ids=[text for _, text in BAD])
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=f"(?s){text}"):
        make()
