"""K-norm noise in the Frobenius norm: its draws, its privacy alone and after a Gaussian release."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import gamma, kstest, norm

from skdp.geometry.moments import MomentLayout
from skdp.mechanisms import MatrixGaussianNoise, MatrixKNormNoise
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.knorm.radial import shift_in_round_norm
from skdp.mechanisms.matrix.knorm import least_beside, shift_beside_gaussian
from skdp.privacy import Guarantee
from skdp.privacy.losses.losses import GaussianLoss
from skdp.privacy.losses.radial import RadialLoss

LAYOUT = MomentLayout(2, (0, 1), target_square=True, neighbors="add_remove", shifted=False)
FULL = LAYOUT.n_rows * (LAYOUT.n_rows + 1) // 2


def frobenius(entries):
    """The Frobenius norm of the matrix of entries (n, dim): every entry of it is released."""
    return np.linalg.norm(LAYOUT.gram(entries), axis=(1, 2))


def draws(noise, n, seed):
    rng = np.random.default_rng(seed)
    return np.array([noise.rvs(rng) for _ in range(n)])


def test_the_norm_of_a_draw_has_the_gamma_law_and_the_direction_is_uniform():
    """5000 draws: a false alarm of each test is below 1e-6. A twin of one dimension less fails.

    The first coordinate of a uniform direction in d dimensions has the square beta(1/2, (d-1)/2).
    """
    assert LAYOUT.dim == FULL
    v = draws(MatrixKNormNoise(LAYOUT, 3.0, Guarantee(1.0)), 5000, 0)
    size = frobenius(v)
    assert kstest(size / 3, gamma(FULL).cdf).pvalue > 1e-6
    assert kstest(size / 3, gamma(FULL - 1).cdf).pvalue < 1e-6
    rng = np.random.default_rng(1)
    for _ in range(4):
        axis = rng.normal(size=(LAYOUT.n_rows, LAYOUT.n_rows))
        axis = (axis + axis.T) / np.linalg.norm(axis + axis.T)
        share = np.einsum("nij,ij->n", LAYOUT.gram(v), axis) / size
        angle = np.random.default_rng(2).normal(size=(5000, FULL))
        uniform = angle[:, 0] / np.linalg.norm(angle, axis=1)
        assert kstest(share, uniform).pvalue > 1e-6
        assert abs(np.corrcoef(share**2, size)[0, 1]) < 0.07  # five standard errors


def test_draws_have_the_stated_covariance():
    """20,000 draws, at 6.5 standard errors for 100 products: below 1e-8."""
    noise = MatrixKNormNoise(LAYOUT, 2.0, Guarantee(1.0))
    v = draws(noise, 20_000, 3) / np.sqrt(noise.variance())
    scaled = noise.covariance() / np.sqrt(np.outer(noise.variance(), noise.variance()))
    products = v[:, :, None] * v[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(v))
    assert np.all(np.abs(products.mean(axis=0) - scaled) < 6.5 * error)


def test_no_two_rows_are_farther_apart_than_the_root_of_two():
    """Unit rows, in every pair of a fine circle, and 20,000 random pairs of shorter rows."""
    angle = np.linspace(0, np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    squares = circle[:, :, None] * circle[:, None, :]
    apart = np.linalg.norm(squares[:, None] - squares, axis=(2, 3))
    assert apart.max() == pytest.approx(math.sqrt(2), rel=1e-12)
    v, u = np.random.default_rng(4).normal(size=(2, 20_000, 4))
    v, u = (x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None] for x in (v, u))
    change = v[:, :, None] * v[:, None, :] - u[:, :, None] * u[:, None, :]
    assert np.linalg.norm(change, axis=(1, 2)).max() <= math.sqrt(2)


def composed_delta(dim, shift, first, epsilon):
    """The delta of both releases: 20,001 points, the trapezoidal rule. A second way to add up."""
    z = np.linspace(-12, 12, 20_001)
    deltas = np.exp(RadialLoss(dim, shift).log_delta(epsilon - first * (z + first / 2)))
    return float(np.trapezoid(norm.pdf(z) * deltas, z))


@pytest.mark.parametrize("dim", [3, 10, 55])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 0.05), (8.0, 1e-9)])
def test_both_releases_have_delta_and_less_noise_has_more(dim, epsilon, delta):
    """Five percent less noise in the matrix alone: more than delta."""
    for share in (0.2, 0.6):
        first = share / gaussian_scale(epsilon, delta)
        shift = shift_beside_gaussian(dim, first, epsilon, delta)
        assert 0.7 * delta < composed_delta(dim, shift, first, epsilon) <= delta
        assert composed_delta(dim, shift / 0.95, first, epsilon) > 1.02 * delta
        assert shift < shift_in_round_norm(dim, epsilon, delta)


def test_a_matrix_and_a_number_by_their_densities():
    """Draws of the losses themselves: a number with Gaussian noise, then a matrix, at delta = .05.

    The matrices differ by v v' - u u' for orthogonal v and u. 400,000 draws and five standard
    errors; the twin has 5 % too little noise in both.
    """
    epsilon, delta, n, rng = 0.5, 0.05, 400_000, np.random.default_rng(5)
    first = 0.5 / gaussian_scale(epsilon, delta)
    shift = shift_beside_gaussian(FULL, first, epsilon, delta)
    difference = np.zeros(FULL)
    difference[:2] = 1 / math.sqrt(2), -1 / math.sqrt(2)
    direction = rng.normal(size=(n, FULL))
    x = direction * (rng.gamma(FULL, size=n) / np.linalg.norm(direction, axis=1))[:, None]
    z = rng.normal(size=n)
    for factor, caught in ((1.0, False), (1 / 0.95, True)):
        moved = np.linalg.norm(x + factor * shift * difference, axis=1)
        loss = moved - np.linalg.norm(x, axis=1)
        loss += factor * first * (z + factor * first / 2)
        gains = -np.expm1(np.minimum(epsilon - loss, 0))
        found, error = gains.mean(), gains.std() / math.sqrt(n)
        assert (found - 5 * error > delta) == caught
        assert found + 5 * error > 0.97 * delta


def gaussian(rows, epsilon, delta, share, records):
    layout = MomentLayout(
        rows - 2, range(rows - 2), target_square=True, neighbors="add_remove", shifted=False
    )
    shift = 1 / gaussian_scale(epsilon, delta)

    def said(mu):
        losses = ((GaussianLoss(mu), 1),)
        return Guarantee(epsilon, delta, mechanism="Gaussian noise on a matrix", losses=losses)

    rest = math.sqrt(1 - share**2) * shift
    noise = MatrixGaussianNoise(layout, math.sqrt(records) / rest, said(rest))
    return noise, said(share * shift)


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-9), (20.0, 1e-6)])
def test_the_lesser_noise_is_taken(records, epsilon, delta):
    """Small matrices get K-norm noise, and its guarantee states the loss of its own shift."""
    for rows, share in itertools.product((3, 8, 12), (0.2, 0.6)):
        before, other = gaussian(rows, epsilon, delta, share, records)
        after, distance = least_beside(before, other), math.sqrt(records)
        assert np.all(after.variance() <= before.variance())
        if isinstance(after, MatrixKNormNoise):
            ((loss, count),) = after.guarantee.losses
            assert (loss.dim, count) == (rows * (rows + 1) // 2, 1)
            assert distance / after.scale <= loss.shift <= distance / after.scale * (1 + 1e-11)
            assert (after.guarantee.epsilon, after.guarantee.delta) == (epsilon, delta)
            assert after.guarantee.mechanism == "K-norm noise on a matrix"
    assert isinstance(least_beside(*gaussian(8, epsilon, delta, 0.2, records)), MatrixKNormNoise)


@pytest.mark.parametrize(
    ("rows", "epsilon", "delta"), [(40, 1.0, 1e-6), (5, 2e3, 1e-6), (5, 1.0, 1e-250)]
)
def test_gaussian_noise_stays_where_nothing_is_gained_or_computed(rows, epsilon, delta):
    before, other = gaussian(rows, epsilon, delta, 0.2, 2)
    assert least_beside(before, other) is before


def test_the_parts_of_the_sum_keep_small_probabilities():
    """delta = 1e-40: the result passes in logarithms, added up independently."""
    epsilon, delta, dim = 1.0, 1e-40, 15
    first = 0.3 / gaussian_scale(epsilon, delta)
    shift = shift_beside_gaussian(dim, first, epsilon, delta)
    z = np.linspace(-20, 20, 40_001)
    ends = np.logaddexp(log_ndtr(z[:-1]), -np.inf)
    cells = np.where(z[1:] > 0, log_ndtr(-z[:-1]), log_ndtr(z[1:]))
    low = np.where(z[1:] > 0, log_ndtr(-z[1:]), ends)
    masses = cells + np.log(-np.expm1(low - cells))
    deltas = RadialLoss(dim, shift).log_delta(epsilon - first * (z[:-1] + first / 2))
    assert np.logaddexp.reduce(masses + deltas) < math.log(delta)
