"""Privacy losses: profiles and tails against fifty digits, and against each other."""

import math
import pickle

import mpmath
import numpy as np
import pytest
from exact_profile import gaussian_delta

from skdp.noise import FlippedHuber, Gaussian, Laplace, Logistic, TruncatedLaplace
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss, SelectionLoss
from skdp.trusted.radial import RadialLoss

LOSSES = [
    GaussianLoss(0.01),
    GaussianLoss(1.0),
    GaussianLoss(8.0),
    ShiftLoss(Laplace(1.0), 1.0),
    ShiftLoss(Gaussian(2.0), 1.0),
    ShiftLoss(Logistic(1.0), 2.0),
    ShiftLoss(FlippedHuber(1.0, 0.7), 1.0),
    ShiftLoss(TruncatedLaplace(5.0, 1.0), 1.0),
    PairLoss(1.0),
    PairLoss(0.3, 1e-5),
    PairLoss(0.0, 0.01),
    FiniteLoss.between([0.5, 0.3, 0.2, 0.0], [0.1, 0.4, 0.45, 0.05]),
    SelectionLoss(5.0),
    RadialLoss(7, 3.0),
]
EPSILONS = np.concatenate([-np.geomspace(20, 1e-3, 12), [0.0], np.geomspace(1e-3, 20, 12)])


def gaussian_oracle(mu, epsilon):
    with mpmath.workdps(60):
        return float(mpmath.log(gaussian_delta(mu, epsilon)))


@pytest.mark.parametrize("mu", [1e-3, 0.01, 0.3, 0.5, 0.6, 1.0, 4.0, 30.0])
def test_the_gaussian_profile_keeps_its_digits(mu):
    """Twelve digits of delta, for negative epsilons too; the argument's rounding is allowed for."""
    epsilons = mu * np.linspace(-6, 12, 37) + mu * mu / 2
    exact = np.array([gaussian_oracle(mu, e) for e in epsilons])
    slack = 1e-13 + 1e-15 * (epsilons / mu + mu) ** 2
    assert (np.abs(GaussianLoss(mu).log_delta(epsilons) - exact) <= slack).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_tails_are_those_of_the_profile(loss):
    """delta(epsilon) = P(L > epsilon) - e^epsilon Q(L > epsilon), and tails add up to 1."""
    above_p, above_q, below_p, below_q = (np.exp(tail) for tail in loss.log_tails(EPSILONS))
    delta = np.exp(loss.log_delta(EPSILONS))
    rounding = 1e-13 * (above_p + np.exp(EPSILONS) * above_q)
    assert (np.abs(delta - above_p + np.exp(EPSILONS) * above_q) <= 1e-12 * delta + rounding).all()
    assert np.allclose(above_p + below_p, 1, rtol=1e-12)
    assert np.allclose(above_q + below_q, 1, rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_reversed_exchanges_the_two(loss):
    """delta of (Q, P) at -epsilon is that of (P, Q) at epsilon, mirrored."""
    back = loss.reversed()
    mirrored = 1 - np.exp(EPSILONS) + np.exp(EPSILONS + back.log_delta(-EPSILONS))
    delta = np.exp(loss.log_delta(EPSILONS))
    assert np.allclose(delta, mirrored, rtol=1e-12, atol=1e-14 * np.exp(20))
    assert (back == loss) == loss.symmetric or not loss.symmetric
    assert back.reversed().log_delta(0.7) == pytest.approx(float(loss.log_delta(0.7)), rel=1e-14)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_are_values(loss):
    """Equal ones are one part, and they can be sent to another process."""
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    assert hash(again) == hash(loss)


def test_a_finite_loss_of_outcomes():
    """Outcomes of one likelihood ratio are one value; those of one side only stand alone."""
    loss = FiniteLoss.between([0.2, 0.2, 0.6, 0.0], [0.1, 0.1, 0.0, 0.8])
    assert loss.losses == pytest.approx((math.log(2),))
    assert np.exp(
        [*loss.log_p, loss.log_p_infinity_mass, loss.log_q_infinity_mass]
    ) == pytest.approx([0.4, 0.6, 0.8])
    assert np.exp(loss.log_delta([0.0, 1.0])) == pytest.approx([0.8, 0.6])
    assert not loss.symmetric
    assert FiniteLoss.between([0.1, 0.2, 0.7], [0.7, 0.2, 0.1]).symmetric


def test_a_finite_loss_has_no_infinite_one_unless_it_is_given():
    losses, log_p = (-math.log(3), math.log(3)), (math.log(0.25), math.log(0.75))
    found, known = FiniteLoss(losses, log_p), FiniteLoss.between([0.75, 0.25], [0.25, 0.75])
    assert found.log_p_infinity_mass == found.log_q_infinity_mass == -math.inf
    for epsilon in (-0.5, 0.0, 0.5, 2.0):
        assert found.log_delta(epsilon) == pytest.approx(known.log_delta(epsilon), abs=1e-14)


def test_a_profile_of_two_functions():
    """On the negative side the bound is the other one's, mirrored."""
    loss = FiniteLoss.between([0.5, 0.3, 0.2], [0.1, 0.4, 0.5])
    bound = ProfileLoss(loss.log_delta, loss.reversed().log_delta)
    assert not bound.symmetric
    assert np.allclose(bound.log_delta(EPSILONS), loss.log_delta(EPSILONS), rtol=1e-10, atol=1e-12)
    assert bound.reversed().log_delta(0.1) == loss.reversed().log_delta(0.1)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: GaussianLoss(0.0), "mu"),
        (lambda: GaussianLoss(math.nan), "mu"),
        (lambda: ShiftLoss(Laplace(1.0), -1.0), "shift"),
        (lambda: PairLoss(-1.0), "epsilon"),
        (lambda: PairLoss(1.0, 1.0), "delta"),
        (lambda: FiniteLoss((1.0, 0.0), (-1.0, -1.0)), "losses"),
        (lambda: FiniteLoss((0.0,), (-1.0, -1.0)), "log_p"),
        (lambda: FiniteLoss((0.0, 1.0), (-1.0, -1.0)), "log_p"),
        (lambda: FiniteLoss((1.0,), (0.0,)), "log_p"),
        (lambda: FiniteLoss.between([0.5, 0.6], [0.5]), "p, q"),
        (lambda: ProfileLoss(1.0), "profile"),
        (lambda: ProfileLoss(abs, 1.0), "reverse"),
    ],
)
def test_what_is_no_loss_is_refused(make, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        make()
