"""Gaussian noise: its calibration against sixty digits, its law against draws."""

import math

import mpmath
import numpy as np
import pytest

from skdp import geometry
from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, ProductBall, ShearedBall, SimplexBall
from skdp.mechanisms import IndependentNoise, Sensitivity, calibrate
from skdp.mechanisms.knorm import IsotropicGaussian, gaussian_scale
from skdp.privacy import Guarantee
from skdp.trusted.losses import gaussian_log_delta, log_spared
from skdp.trusted.noise import GaussianNoise

EPSILONS = [1e-8, 1e-4, 0.01, 0.3, 1.0, 5.0, 30.0, 100.0, 1e4]
DELTAS = [1e-300, 1e-100, 1e-30, 1e-12, 1e-5, 0.01, 0.3, 0.5, 0.51, 0.9, 0.999, 1 - 1e-12]
BALLS = [
    LpBall(3, p=1.5, radius=0.7, weights=(1.0, 0.5, 4.0)),
    LpBall(3, p=math.inf, weights=(1.0, 0.5, 4.0)), EncodedRowsBall(1, (2,)),
    MappedBall(SimplexBall(3), [[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.5]]),
    ProductBall((LpBall(1), LpBall(2, radius=3.0)), ((1,), (0, 2))),
    geometry.SumBall((LpBall(1), SimplexBall(2)), (0.3, 0.7)),
    ShearedBall(EncodedRowsBall(1, (2,)), (0.0, 0.2, -1 / 3, -1 / 3)),
]  # fmt: skip


def oracle_delta(shift, epsilon, digits=60):
    """The least delta of two normal laws ``shift`` standard deviations apart, and 1 minus it."""
    with mpmath.workdps(digits):
        mu, e = mpmath.mpf(shift), mpmath.mpf(epsilon)
        upper = mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
        return mpmath.ncdf(mu / 2 - e / mu) - upper, mpmath.ncdf(e / mu - mu / 2) + upper


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_scale_is_private_and_the_least(epsilon, delta):
    """At sixty digits: never too small, and a scale 1e-11 smaller is; near delta = 1 a little more.

    The search has a margin of 1e-12 in delta, which is large beside 1 - delta near 1.
    """
    scale = gaussian_scale(epsilon, delta)
    with mpmath.workdps(60):
        spared = 1 - mpmath.mpf(delta)
        room = 1e-11 if delta <= 0.9 else 1e-11 / (1 - delta)
        for factor, private in ((1, True), *([(1 - room, False)] if room < 0.1 else [])):
            found = oracle_delta(1 / (mpmath.mpf(scale) * factor), epsilon)
            held = found[0] <= delta if delta <= 0.5 else found[1] >= spared
            assert held == private


@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
def test_log_delta_keeps_its_digits(epsilon):
    """Also where delta is a difference of two nearly equal tails, or next to 1.

    The argument epsilon / mu - mu / 2 is rounded, which moves log delta by its size squared
    times 1e-16; twelve digits of delta are left everywhere.
    """
    for shift in np.geomspace(1e-3, 1e3, 25) * math.sqrt(epsilon or 1):
        exact, spared = (float(mpmath.log(x)) for x in oracle_delta(shift, epsilon))
        argument = epsilon / shift + shift
        slack = 1e-12 + 1e-15 * argument**2
        assert gaussian_log_delta(shift, epsilon) == pytest.approx(exact, rel=1e-12, abs=slack)
        assert log_spared(shift, epsilon) == pytest.approx(spared, rel=1e-12, abs=slack)


FAR = [(1e-300, 1e-300), (1e-15, 1e-300), (1e-9, 5e-324), (1e-300, 0.9), (1e8, 1e-5)]


@pytest.mark.parametrize(("epsilon", "delta"), FAR)
def test_the_scale_is_private_far_outside(epsilon, delta):
    """With as many digits as it takes, and within 1e-9 of the least."""
    scale = gaussian_scale(epsilon, delta)
    for factor, private in ((1, True), (1 - 1e-9, False)):
        found = oracle_delta(1 / (mpmath.mpf(scale) * factor), epsilon, digits=700)
        assert (found[0] <= delta) == private


def test_the_scale_of_an_endless_epsilon_tends_to_one_over_its_root():
    """With epsilon so great that delta no longer matters the scale is 1 / sqrt(2 epsilon)."""
    assert gaussian_scale(1e300, 1e-5) == pytest.approx(1 / math.sqrt(2e300), rel=1e-11)


@pytest.mark.parametrize("ball", BALLS, ids=repr)
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_isotropic_noise_is_as_private_as_it_says(ball, neighbors):
    """Exactly: delta for the longest difference; a twin with 5 % less noise exceeds it."""
    sensitivity = Sensitivity(ball, 2.5, neighbors)
    noise = calibrate("gaussian", sensitivity, epsilon=0.8, delta=1e-6)
    said = noise.guarantee
    assert (said.epsilon, said.delta, said.neighbors) == (0.8, 1e-6, neighbors)
    ((loss, count),) = said.losses
    assert (loss.mu, count) == (pytest.approx(1 / gaussian_scale(0.8, 1e-6), rel=1e-11), 1)
    draws = ball.sample(20_000, np.random.default_rng(0))
    lengths = np.linalg.norm(draws / ball.gauge(draws)[:, None], axis=1)
    longest = 2.5 * max(lengths.max(), np.linalg.norm(corners(ball), axis=1).max(initial=0.0))
    assert oracle_delta(longest / noise.factor, 0.8)[0] <= 1e-6
    assert oracle_delta(longest / (0.95 * noise.factor), 0.8)[0] > 1e-6
    assert noise.covariance() == pytest.approx(noise.factor**2 * np.eye(ball.dim))


def corners(ball):
    try:
        return ball.extreme_points()
    except (AttributeError, ValueError):
        return np.zeros((0, ball.dim))


FACTORS = [3.0, np.array([1.0, 2.0, 0.1]), np.array([[1.0, 0, 0], [-2.0, 3.0, 0], [0.5, 0.2, 1.0]])]


@pytest.mark.parametrize("factor", FACTORS, ids=["number", "diagonal", "full"])
def test_the_mean_gauge_is_near_the_known_one(factor):
    """E |v|_1 = sqrt(2 / pi) sum sd, from 4096 fixed draws: within 7 standard errors."""
    noise = GaussianNoise(3, factor, Guarantee(1.0, 1e-6))
    deviations = np.sqrt(np.diag(noise.covariance()))
    exact = math.sqrt(2 / math.pi) * deviations.sum()
    assert noise.expected_norm(LpBall(3, p=1.0)) == pytest.approx(
        exact, abs=7 * deviations.sum() / 64
    )
    assert noise.expected_norm(LpBall(3, p=1.0, radius=2.0)) == pytest.approx(
        noise.expected_norm(LpBall(3, p=1.0)) / 2
    )


UNIT = Sensitivity(LpBall(2))
BAD = [
    (lambda: IsotropicGaussian().calibrate(UNIT, epsilon=1.0), "delta must be > 0 .*got 0.0.*1e-6"),
    (lambda: calibrate("gaussian", UNIT, epsilon=1.0, delta=0.0), "delta must be > 0 for Gaussian"),
    (lambda: gaussian_scale(1.0, 1.0), r"delta must be a number in \[0, 1\)"),
    (lambda: gaussian_scale(1.0, -1e-9), r"delta must be a number in \[0, 1\)"),
    (lambda: gaussian_scale(0.0, 0.1), "epsilon must be a finite number > 0"),
    (lambda: gaussian_scale(1e-320, 5e-324), "delta must be so great"),
    (
        lambda: GaussianNoise(3, np.ones(2), Guarantee(1.0, 0.1)),
        "factor must be a number or have 3",
    ),
    (lambda: GaussianNoise(1, math.inf, Guarantee(1.0, 0.1)), "factor must contain finite numbers"),
]


@pytest.mark.parametrize(("make", "text"), BAD, ids=[text for _, text in BAD])
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize("name", ["laplace", "logistic", "flipped_huber", "offset_gaussian"])
def test_the_name_of_a_law_is_independent_noise_of_that_law(name):
    found = calibrate(name, UNIT, epsilon=1.0, delta=0.01)
    assert isinstance(found, IndependentNoise)
    assert type(found.law).__name__.lower() == name.replace("_", "")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("ball", [LpBall(1), LpBall(5, p=1, weights=(1.0, 2.0, 3.0, 1.0, 1.0))])
def test_laplace_noise_for_one_moved_coordinate_is_pure(ball, delta):
    """It is the law of the K-norm noise of this ball; a small delta would gain nothing."""
    noise = calibrate("laplace", Sensitivity(ball, radius=3.0), epsilon=1.5, delta=delta)
    expected = calibrate("hull", Sensitivity(ball, radius=3.0), epsilon=1.5)
    assert noise.guarantee.delta == 0
    assert noise.variance() == pytest.approx(expected.variance(), rel=1e-9)
    # Where a delta is worth more than a thousandth it is spent.
    assert calibrate("laplace", UNIT, epsilon=1.5, delta=0.1).guarantee.delta == 0.1
