"""Canonical noise in several dimensions: what a move of length 1 tells, and draws."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import kstest

from skdp.geometry import LpBall
from skdp.noise.laws import Gaussian, Laplace, Logistic
from skdp.noise.multivariate import (
    IndependentCanonical,
    LInfLaplace,
    UniformBall,
    multivariate_canonical,
)
from skdp.noise.steps import Uniform
from skdp.privacy import tradeoff

ASKED = {
    "laplace l1": (tradeoff.laplace(1.2), 3, "l1"),
    "logistic l1": (tradeoff.from_law(Logistic(), 2.0), 2, "l1"),
    "approximate": (tradeoff.approximate(0.8, 0.1), 3, "linf"),
    "box l1": (tradeoff.total_variation(0.3), 2, "l1"),
    "box linf": (tradeoff.total_variation(0.4), 2, "linf"),
    "round l2": (tradeoff.total_variation(0.3), 3, "l2"),
    "gaussian l1": (tradeoff.gaussian(0.7), 3, "l1"),
    "gaussian l2": (tradeoff.gaussian(0.7), 3, "l2"),
    "gaussian linf": (tradeoff.gaussian(0.7), 3, "linf"),
    "laplace linf": (tradeoff.laplace(1.2), 3, "linf"),
}
NOISES = {name: multivariate_canonical(*asked) for name, asked in ASKED.items()}
P = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
DRAWS = 100_000
every = pytest.mark.parametrize("name", list(NOISES))


def log_ratio(noise, x, shift):
    """log g(x) - log g(x - shift), inf where only the first is positive."""
    with np.errstate(invalid="ignore"):
        return noise.logpdf(x) - noise.logpdf(x - shift)


def mean_gain(noise, x, shift, epsilon):
    """Mean of (1 - e^epsilon g(x - shift) / g(x))_+ over draws x from g, and its error."""
    gain = np.maximum(-np.expm1(epsilon - log_ratio(noise, x, shift)), 0.0)
    return gain.mean(), gain.std() / math.sqrt(len(x))


def worst(name):
    """One coordinate, or a corner of the cube."""
    noise = NOISES[name]
    return np.ones(noise.dim) if noise.norm == "linf" else np.eye(noise.dim)[0]


@every
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_the_worst_move_is_told_apart_as_it_says(name, epsilon):
    """delta within seven standard errors: a false alarm once in 10^11; 5 % less noise is seen.

    The twin is that much smaller or, what is the same, moved by 1 / .95.
    """
    noise, (f, *asked) = NOISES[name], ASKED[name]
    assert [noise.dim, noise.norm] == asked
    assert noise.tradeoff(0.1) == pytest.approx(f(0.1), rel=1e-12)
    x = noise.rvs(DRAWS, np.random.default_rng(3))
    found, error = mean_gain(noise, x, worst(name), epsilon)
    assert abs(found - f.delta_at(epsilon)) < 7 * error + 1e-12
    twin, error = mean_gain(noise, x, worst(name) / 0.95, epsilon)
    assert twin - f.delta_at(epsilon) > 3 * error


@pytest.mark.rest_is_slow(3)
@every
def test_no_move_in_the_ball_is_told_apart_better(name):
    """Forty moves from the ball's sphere, two epsilons: seven standard errors, 1e-9 altogether."""
    noise, rng = NOISES[name], np.random.default_rng(4)
    x = noise.rvs(DRAWS // 5, rng)
    ball = LpBall(noise.dim, p=P[noise.norm])
    moves = ball.sample(40, rng)
    for move in moves / ball.gauge(moves)[:, None]:
        for epsilon in (0.0, 0.5):
            found, error = mean_gain(noise, x, move, epsilon)
            assert found <= noise.tradeoff.delta_at(epsilon) + 7 * error + 1e-12


@every
def test_draws_have_the_stated_density(name):
    """The covariance to seven standard errors: at most 9 entries, 1e-10; shape of the draws."""
    noise = NOISES[name]
    x = noise.rvs(DRAWS, np.random.default_rng(6))
    assert x.shape == (DRAWS, noise.dim)
    products = x[:, :, None] * x[:, None, :]
    error = products.std(axis=0) / math.sqrt(DRAWS)
    assert (np.abs(products.mean(axis=0) - noise.covariance()) < 7 * error).all()
    assert (np.abs(products.mean(axis=0) / 0.9025 - noise.covariance()) > 7 * error).any()
    assert noise.logpdf(-x[:9]) == pytest.approx(noise.logpdf(x[:9]))


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("scale", [1.0, 0.95])
def test_the_midpoint_of_linf_noise_is_a_laplace_variable(dim, scale):
    """The heart of Proposition 4.7; false alarm 1e-7, the 5 % twin is caught."""
    x = scale * LInfLaplace(1.5, dim).rvs(300_000, np.random.default_rng(8))
    middle = (x.max(axis=1) + x.min(axis=1)) / 2
    assert (kstest(middle, Laplace(1 / 1.5).cdf).pvalue > 1e-7) == (scale == 1)


def test_the_laws_are_those_of_the_paper():
    assert multivariate_canonical(tradeoff.laplace(2.0), 2).laws == (Laplace(0.5),) * 2
    assert multivariate_canonical(tradeoff.gaussian(2.0), 3).laws == (Gaussian(0.5),) * 3
    box = multivariate_canonical(tradeoff.total_variation(0.19), 2, "linf")
    assert [law.width for law in box.laws] == pytest.approx([10.0, 10.0])
    assert isinstance(box, IndependentCanonical)
    assert multivariate_canonical(tradeoff.total_variation(1.0), 2, "linf").laws[0] == Uniform(1.0)


@pytest.mark.parametrize("dim", [1, 2, 10])
@pytest.mark.parametrize("delta", [1e-8, 0.01, 0.9])
def test_two_uniform_balls_at_distance_one_share_the_rest(dim, delta):
    """delta is the share of a ball outside of the other, by mpmath; the radius is rounded up.

    In one dimension that is the interval of length 1 / delta.
    """
    radius = mp.mpf(UniformBall(delta, dim).ball.radius)
    with mp.workdps(30):
        own = mp.betainc(0.5, mp.mpf(dim + 1) / 2, 0, 1 / (4 * radius**2), regularized=True)
        assert delta * (1 - 1e-11) <= own <= delta
    if dim == 1:
        assert radius == pytest.approx(1 / (2 * delta), rel=1e-11)


PURE = tradeoff.approximate(1.0)
BAD = [
    (lambda: multivariate_canonical(PURE, 2), "Theorem 4.8.*Take delta > 0"),
    (lambda: multivariate_canonical(PURE, 2, "linf"), "Theorem 4.8"),
    (lambda: multivariate_canonical(tradeoff.approximate(0.0), 2, "linf"), "Take delta > 0"),
    (lambda: multivariate_canonical(tradeoff.approximate(1.0, 0.1), 2), "known canonical noise"),
    (lambda: multivariate_canonical(tradeoff.laplace(1.0), 2, "l2"), "known canonical noise"),
    (lambda: multivariate_canonical(tradeoff.laplace(1.0), 2, "l3"), "norm must be one of"),
    (lambda: multivariate_canonical(PURE, 1), "dim must be an integer >= 2"),
    (lambda: LInfLaplace(0.0, 2), "epsilon must be a finite number > 0"),
    (lambda: LInfLaplace(1.0, 0), "dim must be an integer >= 1"),
    (lambda: LInfLaplace(1.0, 2).logpdf([1.0]), "x must have 2 numbers on its last axis"),
]


@pytest.mark.parametrize(("make", "text"), BAD, ids=[text for _, text in BAD])
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=text):
        make()
