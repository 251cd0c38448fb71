"""The privacy loss of matrix Laplace noise: that of Laplace, and less for replaced records."""

import functools
import math

import numpy as np
import pytest
from inner_package import wishart
from scipy.stats import kstest
from test_matrix_laplace import OWN, log_density

from skdp.mechanisms.matrix import MatrixLaplace
from skdp.noise.laws import Laplace
from skdp.noise.matrix import LEAST_NORM, MOST_NORM, distance_of_three, losses_of_trace
from skdp.privacy.composition import Composition
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.radial import RadialLoss


@functools.cache
def differences():
    """10,000 draws of the noise for two rows, (10,000, 2, 2)."""
    rng = np.random.default_rng(14)
    return np.array([wishart(2, 3, rng) - wishart(2, 3, rng) for _ in range(10_000)]) / 2


@functools.cache
def draws_with_density(n):
    """The first n of them, and their log-densities."""
    return differences()[:n], log_density(differences()[:n])


def deltas_of(D, shares, n=4000):
    """The delta of the shift D at each epsilon, from draws, and their standard errors."""
    M, density = draws_with_density(n)
    loss = density - log_density(M + D)
    gains = -np.expm1(np.minimum(shares - loss[:, None], 0))
    return gains.mean(axis=0), gains.std(axis=0) / math.sqrt(n)


@pytest.mark.parametrize("values", [(1.0, 0.0), (0.5, -0.5), (0.8, -0.2), (0.5, 0.5)])
@pytest.mark.parametrize("norm", [1.0, 4.0])
def test_no_difference_is_told_apart_better_than_laplaces(values, norm):
    """Corollary 2 for two rows, by 4000 draws, for ranks one and two; turned at random.

    At six standard errors a false alarm is below 1e-7. Half of the shift, the twin, is exceeded
    by a difference of rank one.
    """
    rng = np.random.default_rng(11)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    epsilons = norm * np.array([0.0, 0.3, 0.6, 0.9])
    found, error = deltas_of(norm * turn @ np.diag(values) @ turn.T, epsilons)
    laplace = ShiftLoss(Laplace(), norm)
    assert np.all(found - 6 * error <= np.exp(laplace.log_delta(epsilons)))
    if values == (1.0, 0.0):
        half = ShiftLoss(Laplace(), norm / 2)
        assert np.all(found - 6 * error > np.exp(half.log_delta(epsilons)))


@pytest.mark.parametrize("norm", [0.5, 2.0])
def test_a_replaced_record_is_told_apart_no_better_than_its_loss_says(norm):
    """Theorem 5 for two rows: 2000 draws, eigenvalues up to half of the norm, turned at random.

    At six standard errors a false alarm is below 1e-7. The twin claims 0.7 of the norm.
    """
    rng, rho = np.random.default_rng(13), norm / 2
    epsilons = norm * np.array([0.0, 0.1, 0.2, 0.5, 0.8, 0.95])
    ((loss, _),), ((weak, _),) = losses_of_trace(norm, 2), losses_of_trace(0.7 * norm, 2)
    exceeded = 0
    for a, b in ((rho, rho), (rho, 0.0), (rho, 0.6 * rho), (0.5 * rho, 0.5 * rho)):
        turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
        found, error = deltas_of(turn @ np.diag([a, -b]) @ turn.T, epsilons, 2000)
        assert np.all(found - 6 * error <= np.exp(loss.log_delta(epsilons)))
        assert np.all(found - 6 * error <= np.exp(loss.reversed().log_delta(epsilons)))
        exceeded += bool(np.any(found - 6 * error > np.exp(weak.log_delta(epsilons))))
    assert exceeded


def test_the_distance_for_two_rows_is_that_of_three_laplace_variables():
    """x = (N_11 - N_22) / 2 is half of their sum; two of them, the twin, are told apart.

    10,000 draws, Kolmogorov's test at 1e-6.
    """
    rng, N = np.random.default_rng(16), differences()
    x = np.abs(N[:, 0, 0] - N[:, 1, 1])
    assert kstest(x, np.vectorize(distance_of_three)).pvalue > 1e-6
    two = np.abs(rng.laplace(size=(2, 10_000)).sum(axis=0))
    assert kstest(two, np.vectorize(distance_of_three)).pvalue < 1e-6
    for rho in (1e-9, 1e-3, 0.5, 1.0, 10.0):
        z = np.linspace(0, rho, 2001)
        exact = np.trapezoid((z**2 + 3 * z + 3) * np.exp(-z) / 8, z)
        assert distance_of_three(rho) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("norm", np.geomspace(LEAST_NORM, MOST_NORM, 7))
def test_the_loss_of_a_replaced_record_is_above_both_of_its_bounds(norm):
    """Rank one and the line, and by little; the bound of Corollary 2 is above the line."""
    ((loss, _),), rho = losses_of_trace(norm, 2), norm / 2
    epsilon = norm * np.append(np.linspace(0, 1, 200)[:-1], 1 - 1e-6)
    single = -np.expm1(np.minimum(epsilon - rho, 0) / 2)
    left = np.expm1(norm - epsilon) * np.exp(epsilon) / np.expm1(norm)
    line = distance_of_three(rho) * left
    found = np.exp(loss.log_delta(epsilon))
    assert np.all(found >= np.maximum(single, line))
    assert np.all(found <= 1.01 * np.maximum(single, line))
    assert np.all(line <= -np.expm1((epsilon - norm) / 2))
    assert loss.log_delta(norm) == -math.inf
    assert np.exp(loss.log_p).sum() == pytest.approx(1.0, abs=1e-12)


def test_other_norms_and_an_added_record_have_laplaces_loss():
    for norm, records in ((1.0, 1), (LEAST_NORM / 2, 2), (2 * MOST_NORM, 2)):
        assert losses_of_trace(norm, records) == ((RadialLoss(1, norm), 1),)


def test_the_lattice_is_paid_for_by_a_distance_that_a_pair_has():
    """Not by that of the bound, which is greater; and many releases cost less than before."""
    noise = MatrixLaplace().calibrate(OWN, epsilon=1.0)
    claimed = math.exp(noise.guarantee.losses[0][0].log_delta(0.0))
    distance = noise.distance(noise.guarantee.losses)
    assert distance == pytest.approx(distance_of_three(0.5), rel=1e-9)
    assert distance < claimed
    assert noise.publication.stretch > 1 + 1e-9
    small = MatrixLaplace().calibrate(OWN, epsilon=0.1).guarantee.losses[0][0]
    thirty = [Composition([(loss, 30)]).epsilon_at(1e-6).upper for loss in (small, LAPLACE)]
    assert thirty[0] < 0.65 * thirty[1]


LAPLACE = ShiftLoss(Laplace(), 0.1)
