"""Guarantees that know their privacy losses: profiles, equivalents, composition, the card."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from skdp.noise import Laplace, Logistic, Subbotin
from skdp.privacy import Guarantee, compose
from skdp.privacy.conversions import gaussian_epsilon, gaussian_mu, mu_of_pure, rho_of_pure
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss
from skdp.trusted.radial import RadialLoss

MU = gaussian_mu(1.0, 1e-6)
GAUSSIAN = Guarantee(1.0, 1e-6, mechanism="gaussian", losses=((GaussianLoss(MU), 1),))
LAPLACE = Guarantee(0.5, mechanism="laplace", losses=((ShiftLoss(Laplace(2.0), 1.0), 1),))


def words(guarantee):
    return " ".join(str(guarantee).split())


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
def test_a_gaussian_profile_is_exact(epsilon):
    """exp(log_delta) of the loss; it is far below what (epsilon, delta) alone says."""
    exact = math.exp(float(GaussianLoss(MU).log_delta(epsilon)))
    assert GAUSSIAN.delta_at(epsilon) == pytest.approx(exact, rel=1e-11)
    assert GAUSSIAN.delta_at(epsilon) <= Guarantee(1.0, 1e-6).delta_at(epsilon)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_a_gaussian_epsilon_is_known_at_every_delta(delta):
    """Also below the guarantee's own delta, where the pair of numbers promises nothing."""
    exact = gaussian_epsilon(MU, delta)
    assert GAUSSIAN.epsilon_at(delta) == pytest.approx(exact, rel=1e-9)
    assert GAUSSIAN.epsilon_at(0.0) == math.inf


def test_the_lesser_of_two_statements_is_taken():
    """Losses that promise less than epsilon and delta do not spoil these."""
    loose = Guarantee(0.1, losses=((GaussianLoss(3.0), 1),))
    assert loose.delta_at(0.1) == 0.0
    assert loose.delta_at(0.05) == Guarantee(0.1).delta_at(0.05)
    assert loose.epsilon_at(0.0) == 0.1
    assert loose.epsilon_at(1e-3) == Guarantee(0.1).epsilon_at(1e-3)
    np.testing.assert_array_equal(loose.tradeoff([0.1, 0.5]), Guarantee(0.1).tradeoff([0.1, 0.5]))


def test_a_bounded_loss_says_epsilon_at_delta_zero():
    """Though the guarantee was stated with a delta."""
    stated = Guarantee(0.4, 1e-2, losses=((ShiftLoss(Laplace(2.0), 1.0), 1),))
    assert stated.epsilon_at(0.0) == pytest.approx(0.5, rel=1e-9)
    assert stated.epsilon_at(0.0) >= 0.5
    assert Guarantee(0.4, 1e-2).epsilon_at(0.0) == math.inf


def test_a_gaussian_tradeoff_is_exact():
    alpha = np.array([0.0, 1e-6, 0.05, 0.5, 1.0])
    exact = norm.cdf(norm.isf(alpha) - MU)
    np.testing.assert_allclose(GAUSSIAN.tradeoff(alpha), exact, atol=1e-13)


@pytest.mark.parametrize(
    "wrong",
    [None, GaussianLoss(1.0), (GaussianLoss(1.0),), ((1.0, 1),), ((GaussianLoss(1.0), 1.5),)],
    ids=repr,
)
def test_what_is_no_losses_is_refused(wrong):
    with pytest.raises(ValueError, match="losses must"):
        Guarantee(1.0, losses=wrong)


def test_equivalents_of_gaussian_noise_are_its_own():
    parts = ((GaussianLoss(0.3), 4), (GaussianLoss(0.8), 1))
    several = Guarantee(5.0, 1e-6, losses=parts)
    assert several.mu == pytest.approx(1.0, rel=1e-10)
    assert several.rho == pytest.approx(0.5, rel=1e-10)
    assert several.mu >= 1.0


def test_equivalents_of_epsilon_alone_are_the_conversions():
    assert Guarantee(0.7).mu == pytest.approx(mu_of_pure(0.7), rel=1e-10)
    assert Guarantee(0.7).rho == pytest.approx(rho_of_pure(0.7), rel=1e-10)
    many = compose(*[LAPLACE] * 100)
    # The noise itself has less than pure DP alone.
    assert many.mu == pytest.approx(20 * norm.isf(math.exp(-0.25) / 2), rel=1e-9)
    assert many.mu < 10 * mu_of_pure(0.5)
    assert many.rho == pytest.approx(100 * rho_of_pure(0.5), rel=1e-9)
    for law in (Logistic(2.0), Subbotin(1.0, 2.0)):
        bounded = Guarantee(9.0, 0.1, losses=((ShiftLoss(law, 1.0), 1),))
        assert bounded.mu == pytest.approx(mu_of_pure(0.5), rel=1e-9)
    answer = FiniteLoss.between([0.25, 0.75], [0.75, 0.25])
    assert Guarantee(2.0, 0.1, losses=((answer, 1),)).mu == pytest.approx(mu_of_pure(math.log(3)))


@pytest.mark.parametrize(
    "unknown",
    [
        Guarantee(1.0, 1e-6),
        Guarantee(1.0, 1e-6, losses=((PairLoss(1.0, 1e-6), 1),)),
        Guarantee(1.0, 1e-6, losses=((ProfileLoss(GaussianLoss(0.1).log_delta), 1),)),
        Guarantee(1.0, 1e-6, losses=((ShiftLoss(Subbotin(1.0001), 1.0), 1),)),
        Guarantee(1.0, 1.0),
    ],
    ids=["pair", "pair loss", "profile", "loss that grows slowly", "nothing"],
)
def test_no_equivalent_is_made_up_where_none_is_known(unknown):
    assert (unknown.mu, unknown.rho) == (math.inf, math.inf)
    assert "also" not in words(unknown)


@pytest.mark.parametrize(("dim", "shift"), [(2, 1.0), (5, 8.0), (100, 3.0), (1000, 0.5)])
def test_the_mu_of_radial_noise_dominates_its_profile(dim, shift):
    """On a finer grid than the one that certified it; 2 % less does not, so it is near the least.

    In many dimensions it tends to shift / sqrt(dim), far below what the greatest loss says.
    """
    loss = RadialLoss(dim, shift)
    mu = Guarantee(shift, losses=((loss, 1),)).mu
    grid = np.linspace(0.0, shift, 9973)[:-1]
    exact = loss.log_delta(grid)
    assert (exact <= GaussianLoss(mu).log_delta(grid)).all()
    assert not (exact <= GaussianLoss(0.98 * mu).log_delta(grid)).all()
    assert mu < 0.7 * mu_of_pure(shift)


def test_ten_thousand_gaussian_releases_compose_to_the_closed_form():
    """sigma = 100 for a difference of 1; the sum of the epsilons is some 375."""
    step = Guarantee(gaussian_epsilon(0.01, 1e-6), 1e-6, losses=((GaussianLoss(0.01), 1),))
    total = compose(*[step] * 10_000, delta=1e-6)
    assert total.epsilon == pytest.approx(4.88655, abs=1e-5)
    assert total.epsilon >= gaussian_epsilon(1.0, 1e-6) * (1 - 1e-11)
    assert total.losses == ((GaussianLoss(0.01), 10_000),)
    assert total.delta == 1e-6
    assert compose(*[step] * 10_000).epsilon < compose(step, delta=1e-6).epsilon * 100


def exact_delta_of_answers(epsilon, count, asked):
    """Binomial sum at fifty digits: yes-no answers with odds e^epsilon."""
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        total = mpmath.mpf(0)
        for yes in range(count + 1):
            loss = (2 * yes - count) * mpmath.mpf(epsilon)
            if loss > asked:
                chance = mpmath.binomial(count, yes) * p**yes * (1 - p) ** (count - yes)
                total += chance * (1 - mpmath.exp(asked - loss))
        return total


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(0.1, 100, 1e-6), (0.5, 40, 1e-3)])
def test_pure_parts_compose_to_the_optimum(epsilon, count, delta):
    """Kairouz, Oh & Viswanath 2015: that of the answers; much less than the sum, and tight."""
    total = compose(*[Guarantee(epsilon)] * count, delta=delta)
    assert total.epsilon < 0.9 * epsilon * count
    assert exact_delta_of_answers(epsilon, count, total.epsilon) <= delta
    assert exact_delta_of_answers(epsilon, count, total.epsilon * (1 - 1e-3)) > delta


def test_parts_without_losses_count_as_the_worst_with_their_numbers():
    parts = [Guarantee(0.2, 1e-7)] * 20 + [LAPLACE]
    total = compose(*parts)
    assert set(total.losses) == {(PairLoss(0.2, 1e-7), 20), LAPLACE.losses[0]}
    assert total.delta == 20e-7
    exact = compose(*[Guarantee(0.2, 1e-7)] * 20, delta=2e-6).epsilon
    assert exact <= total.epsilon <= 4.5


def test_what_is_revealed_with_a_probability_is_counted_exactly():
    """Ten times 1e-7, not quite their sum; nothing else is released."""
    total = compose(*[Guarantee(0.0, 1e-7)] * 10, delta=1e-5)
    assert total.epsilon == 0.0
    assert total.delta_at(0.0) == pytest.approx(-math.expm1(10 * math.log1p(-1e-7)), rel=1e-11)
    assert total.epsilon_at(9e-7) == math.inf
    beside = compose(GAUSSIAN, Guarantee(0.0, 1e-3), delta=2e-3)
    assert beside.epsilon == pytest.approx(gaussian_epsilon(MU, 1e-3 / 0.999), rel=1e-6)
    assert beside.tradeoff(0.0) <= 0.999
    assert beside.tradeoff(0.2) > Guarantee(1.0, 1.001e-3).tradeoff(0.2) + 0.1
    certain = compose(*[Guarantee(0.1, 0.9, losses=((PairLoss(0.1, 0.9), 1),))] * 99)
    assert (certain.delta, certain.delta_at(5.0), certain.epsilon_at(0.5)) == (1.0, 1.0, math.inf)


def test_sums_are_as_ever_without_losses_or_without_delta():
    assert compose(Guarantee(0.1, 1e-6), Guarantee(0.2, 2e-6)).epsilon == 0.3
    assert compose(Guarantee(0.1, 1e-6), Guarantee(0.2, 2e-6)).losses == ()
    pure = compose(LAPLACE, LAPLACE)
    assert (pure.epsilon, pure.delta) == (1.0, 0.0)
    assert pure.delta_at(0.5) < Guarantee(1.0).delta_at(0.5)
    assert compose(GAUSSIAN) is GAUSSIAN


def test_the_whole_says_that_its_parts_were_planned():
    """Where that matters: not for sums, nor for one part."""
    planned = "the guarantee of each part was fixed before the first"
    assert planned in words(compose(GAUSSIAN, LAPLACE))
    assert planned not in words(compose(Guarantee(0.1), Guarantee(0.2)))
    assert planned not in words(compose(GAUSSIAN, delta=1e-9))


def test_a_delta_at_which_nothing_is_known_is_refused():
    with pytest.raises(ValueError, match=r"delta must be large enough.*got 0.0.*add up to 2e-06"):
        compose(GAUSSIAN, GAUSSIAN, delta=0.0)
    with pytest.raises(ValueError, match="delta must be large enough"):
        compose(Guarantee(0.1, 1e-6), Guarantee(0.1), delta=1e-7)
    with pytest.raises(ValueError, match=r"delta must be a number in \[0, 1\)"):
        compose(GAUSSIAN, delta=1.0)
    assert compose(LAPLACE, LAPLACE, delta=0.0).epsilon == 1.0


def test_the_card_says_more_where_more_is_known():
    card = words(GAUSSIAN)
    profile = card.split("profile epsilon ")[1].split(" neighbours")[0]
    for text in profile.split(", "):
        epsilon, delta = map(float, text.split(" at "))
        assert 1 <= epsilon / gaussian_epsilon(MU, delta) < 1.01
    assert profile.count(" at ") == 3
    assert "Gaussian DP with mu = 0.237" in card
    assert "(zCDP) with rho = 0.0281" in card
    assert "mu = 0.01: " in words(Guarantee(0.1, 1e-6, losses=((GaussianLoss(0.01), 1),)))
    assert "profile" not in words(Guarantee(1.0, 1e-6))
    void = words(replace(GAUSSIAN, void_because=("The noise was seeded.",)))
    assert not {"profile", "also"} & set(void.split())
    lines = str(compose(GAUSSIAN, LAPLACE)).split("\n")
    assert max(map(len, lines)) <= 78


@pytest.mark.parametrize("guarantee", [GAUSSIAN, LAPLACE, Guarantee(0.3)], ids=["g", "l", "pair"])
def test_equivalents_on_the_card_are_rounded_up(guarantee):
    card = words(guarantee)
    least = 1 - Fraction(1, 10**10)
    assert Fraction(card.split("mu = ")[1].split(":")[0]) >= Fraction(guarantee.mu) * least
    assert Fraction(card.split("rho = ")[1].rstrip(".")) >= Fraction(guarantee.rho) * least
