"""Draws for simulations: what may be given as ``rng``, and the shape that ``size`` gives."""

import math
from functools import partial

import numpy as np
import pytest

from skdp import mechanisms
from skdp.geometry import LpBall, MomentBall, MomentLayout
from skdp.mechanisms import Independent, MatrixGaussianNoise, MatrixLaplace, Sensitivity, calibrate
from skdp.noise import Gaussian, Laplace, Subbotin, Tulap

BOX = Sensitivity(LpBall(2, p=math.inf, weights=(1.0, 0.5)))
MOMENTS = MomentBall(MomentLayout(2, range(2)), level=0)
LAWS = {
    **{str(law): law for law in (Laplace(2.0), Gaussian(), Subbotin(3.0), Tulap(1.0))},
    "truncated Tulap": Tulap(1.0, 0.1),
}
NOISES = {
    **{name: calibrate(name, BOX, epsilon=1.0, delta=0.01) for name in ("linf", "l2", "gaussian")},
    "elliptic": calibrate("elliptic", BOX, epsilon=1.0, delta=0.01),
    "independent": calibrate(Independent("laplace"), BOX, epsilon=1.0),
    "Wishart": calibrate(MatrixLaplace(), Sensitivity(MOMENTS), epsilon=1.0),
    "symmetric": MatrixGaussianNoise(MOMENTS.layout, 2.0),
    "repeated": mechanisms.calibrate_releases(
        "laplace", [(1.0, 3)], neighbors="add_remove", epsilon=1.0, delta=0.01
    ),
}


@pytest.mark.parametrize("name", [*LAWS, *NOISES])
def test_what_scipy_takes_is_taken(name):
    """An int is a seed, None is a fresh key, and both of numpy's generators are used."""
    drawn, state = partial((LAWS | NOISES)[name].rvs, size=4), np.random.RandomState(3)
    for one, same in (
        *((np.random.default_rng(3), seed) for seed in (3, np.int64(3))),
        (np.random.RandomState(3), np.random.RandomState(3)),
    ):
        np.testing.assert_array_equal(drawn(rng=one), drawn(rng=same))
    for source in (None, state):
        assert (drawn(rng=source) != drawn(rng=source)).all()
    with pytest.raises(ValueError, match="be None, an int, a numpy Generator"):
        drawn(rng="3")


@pytest.mark.parametrize("name", [name for name in NOISES if name != "repeated"])
def test_a_noise_draws_many_vectors(name):
    """Rows, whose covariance is the stated one to seven standard errors; 10 % less is seen."""
    noise, n = NOISES[name], 20_000
    assert noise.rvs(0).shape == (noise.dim,)
    x = noise.rvs(0, n)
    assert x.shape == (n, noise.dim)
    products = x[:, :, None] * x[:, None, :]
    error = 7 * products.std(axis=0) / math.sqrt(n)
    away = np.abs(products.mean(axis=0) - noise.covariance())
    assert (away <= error).all()
    assert (np.abs(0.81 * products.mean(axis=0) - noise.covariance()) > error).any()
    with pytest.raises(ValueError, match="size must be an integer >= 1"):
        noise.rvs(0, 0)


def test_planned_releases_draw_numbers():
    """Each release is one number, so ``size`` is a shape of numbers."""
    assert NOISES["repeated"].rvs(0).shape == (1,)
    assert NOISES["repeated"].rvs(0, (2, 3)).shape == (2, 3)
