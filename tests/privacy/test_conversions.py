"""Conversions between statements of privacy hold, are as sharp as said, and are never below."""

import math

import exact_profile
import mpmath
import numpy as np
import pytest
from scipy.special import ndtri_exp

from skdp.noise import Laplace, OffsetGaussian
from skdp.privacy import Guarantee
from skdp.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    mixed_delta,
    mixed_epsilon,
    mu_of_pure,
    pure_of_mu,
    rho_of_pure,
)
from skdp.privacy.shift import ShiftLoss

EPSILONS = [1e-8, 1e-3, 0.1, 0.99, 1.01, 3.0, 30.0, 300.0]
MUS = [1e-6, 1e-3, 0.1, 0.9, 1.1, 5.0, 30.0]
DELTAS = [1e-30, 1e-12, 1e-6, 1e-2, 0.3]


def exact_gaussian_delta(mu, epsilon):
    """The closed form at sixty digits."""
    with mpmath.workdps(80):
        return exact_profile.gaussian_delta(mu, epsilon)


def exact_mu_of_pure(epsilon):
    with mpmath.workdps(400):
        q = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        # erfinv of 1 - 2q, and 1 - 2q = tanh(epsilon / 2).
        return 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * q)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 1.0, 5.0])
def test_gaussian_delta_is_the_closed_form_rounded_up(mu, epsilon):
    exact = exact_gaussian_delta(mu, epsilon)
    found = gaussian_delta(mu, epsilon)
    assert exact <= found <= float(exact) * (1 + 1e-9) + 5e-324


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", MUS)
def test_gaussian_epsilon_holds_and_is_the_least(mu, delta):
    found = gaussian_epsilon(mu, delta)
    assert exact_gaussian_delta(mu, found) <= delta
    assert found == 0 or exact_gaussian_delta(mu, found * (1 - 1e-9)) > delta


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 30.0])
def test_gaussian_mu_holds_and_is_the_greatest(epsilon, delta):
    found = gaussian_mu(epsilon, delta)
    assert exact_gaussian_delta(found, epsilon) <= delta
    assert exact_gaussian_delta(found * (1 + 1e-9), epsilon) > delta


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mu_of_pure_is_the_least_and_never_below(epsilon):
    """Against the formula at 400 digits."""
    exact = exact_mu_of_pure(epsilon)
    assert exact <= mu_of_pure(epsilon) <= exact * (1 + mpmath.mpf("1e-11"))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_the_gaussian_tradeoff_lies_below_that_of_epsilon_and_touches_it(epsilon):
    """It touches at the corner; a mu that is 1e-6 less passes above it there."""
    mu = mu_of_pure(epsilon)
    corner = 1 / (1 + math.exp(epsilon))
    levels = np.append(np.linspace(0, 1, 2001), corner)
    with mpmath.workdps(40):
        for alpha in levels[:: 50 if epsilon == 1.0 else 400].tolist() + [corner]:
            pure = max(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha), 0)
            assert miss(mu, alpha) <= pure + 1e-15
        assert miss(mu * (1 - 1e-6), corner) > corner


@pytest.mark.parametrize("shift", [1e-4, 0.3, 3.0])
@pytest.mark.parametrize(
    "law", [Laplace(), *[OffsetGaussian(offset) for offset in (0.0, 0.1, 2.0, 20.0)]]
)
def test_the_mu_of_noise_with_a_peak_is_the_least(law, shift):
    """Against the errors of thresholds; 5 % less is not enough at the centre."""
    if isinstance(law, OffsetGaussian):
        shift = shift * min(1.0, 1 / law.offset) if law.offset else shift
    mu = Guarantee(1.0, 0.9, losses=((ShiftLoss(law, shift), 1),)).mu
    x = np.concatenate([np.linspace(-1, 1, 401) * 12 * law.std(), [-shift / 2]])
    needed = ndtri_exp(law.logsf(x)) - ndtri_exp(law.logsf(x + shift))
    assert (needed <= mu + 1e-12).all()
    assert needed[-1] == pytest.approx(mu, rel=1e-9)


def test_noise_of_a_user_has_no_such_mu():
    class Mine(OffsetGaussian):
        pass

    assert Guarantee(1.0, 0.9, losses=((ShiftLoss(Mine(), 0.3), 1),)).mu == math.inf


def miss(mu, alpha):
    """Type II error of the best test between two normal laws."""
    if alpha in (0, 1):
        return 1 - alpha
    point = -mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(alpha) - 1)
    return mpmath.ncdf(point - mpmath.mpf(mu))


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.5, 0.999, 1.001, 4.0, 20.0])
def test_pure_of_mu_inverts_mu_of_pure(mu):
    epsilon = pure_of_mu(mu)
    assert mu_of_pure(epsilon) <= mu
    assert mu_of_pure(epsilon * (1 + 1e-10)) > mu


def renyi_of_answer(epsilon, order):
    """The Rényi divergence of a yes-no question answered truthfully with odds e^epsilon."""
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        a = mpmath.mpf(order)
        return mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 5.0, 50.0])
def test_rho_of_pure_bounds_every_order_and_is_met_at_order_one(epsilon):
    """So a rho that is 1 % less fails; epsilon^2 / 2 is never less."""
    rho = rho_of_pure(epsilon)
    orders = [1 + 1e-6, 1.01, 1.5, 2, 10, 1000]
    assert all(renyi_of_answer(epsilon, a) <= rho * a for a in orders)
    assert renyi_of_answer(epsilon, orders[0]) > 0.99 * rho * orders[0]
    assert rho <= epsilon**2 / 2 * (1 + 1e-11)


@pytest.mark.parametrize("mu", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("pure", [0.0, 0.3, 2.0])
def test_mixed_delta_is_that_of_the_product(mu, pure):
    """The outcomes of the yes-no answer summed, the Gaussian part at sixty digits."""
    with mpmath.workdps(60):
        yes = 1 / (1 + mpmath.exp(-mpmath.mpf(pure)))
        for epsilon in (0.0, 0.2, 1.0, 2.5):
            plus = yes * exact_gaussian_delta(mu, epsilon - pure)
            exact = plus + (1 - yes) * exact_gaussian_delta(mu, epsilon + pure)
            found = mixed_delta(mu, pure, epsilon)
            assert exact <= found <= float(exact) * (1 + 1e-9) + 5e-324
        assert mixed_delta(mu, pure, mixed_epsilon(mu, pure, 1e-5)) <= 1e-5 * (1 + 1e-12)


def test_mixed_epsilon_is_less_than_the_sum_and_tends_to_it():
    assert mixed_epsilon(0.2, 1.0, 1e-6) < 1.0 + gaussian_epsilon(0.2, 1e-6)
    assert mixed_epsilon(0.2, 0.0, 1e-6) == pytest.approx(gaussian_epsilon(0.2, 1e-6), rel=1e-9)
    assert mixed_epsilon(0.0, 1.0, 0.0) == pytest.approx(1.0, rel=1e-12)


def test_ends_of_the_ranges():
    assert gaussian_delta(0.0, 1.0) < 1e-300
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(1.0, 1.0) == 0.0
    assert gaussian_mu(1.0, 0.0) == 0.0
    assert gaussian_mu(1.0, 1.0) == math.inf
    assert mu_of_pure(0.0) == pure_of_mu(0.0) == rho_of_pure(0.0) == 0.0
    assert mu_of_pure(1e300) < math.inf
    # Laplace noise of a great scale is like a yes-no answer: its mu cannot be much less.
    assert ShiftLoss(Laplace(1.0), 0.01).log_delta(0.0) <= math.log(gaussian_delta(0.0126, 0.0))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gaussian_delta(-1.0, 1.0), r"mu must be a number in \[0, inf\)"),
        (lambda: gaussian_delta(math.nan, 1.0), "mu must"),
        (lambda: gaussian_delta(1.0, -1.0), "epsilon must"),
        (lambda: gaussian_epsilon(1.0, 2.0), r"delta must be a number in \[0, 1\]"),
        (lambda: mu_of_pure(math.inf), "epsilon must"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(call, text):
    with pytest.raises(ValueError, match=text):
        call()
