"""What has a delta and no mu, beside Gaussian noise: as sums, or charged for what it leaks."""

import math
from fractions import Fraction

import numpy as np
import pytest
from ledger_worst import (
    DELTA,
    EPSILON,
    LEAKS,
    NOISE,
    SUMS,
    after_a_gaussian,
    all_at_once,
    beside_sums,
    best,
    by_sums,
    dear_gaussian,
    entry_of,
    fits,
    gaussian,
    joint,
    pair,
    then,
)

from skdp import Domain, DPLinearRegression, DPLogisticRegression
from skdp.noise import FlippedHuber
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, compose, ledger_rules
from skdp.privacy.conversions import gaussian_mu, mu_of_pure
from skdp.privacy.ledger_rules import Budget, Counted, CountedSums, Divided, GaussianDP
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import GaussianLoss, PairLoss


def worst_of_two(share, ways=all_at_once):
    """After Gaussian noise all that is allowed next, chosen by the loss that came out."""
    mu = math.sqrt(share) * gaussian_mu(EPSILON, DELTA)
    first, rule = entry_of(dear_gaussian(mu)), Divided(Budget(EPSILON, DELTA))
    assert rule.after(first).fits()
    values = ways(rule, [first])
    assert values
    return after_a_gaussian(mu, values)


def worst_of_three(share, ways=all_at_once):
    """Between the two, also in view of the loss: nothing, a leak, or a leaking epsilon."""
    mu = math.sqrt(share) * gaussian_mu(EPSILON, DELTA)
    first, rule = entry_of(dear_gaussian(mu)), Divided(Budget(EPSILON, DELTA))
    plans = []
    for pure, leak in ((0.0, 0.0), (0.0, 0.5), (0.1, 0.0), (0.1, 0.3), (0.24, 1.0), (0.0, 4.0)):
        spends = [first, pair(pure, leak * LEAKS * DELTA)]
        rest = ways(rule, spends)
        if rule.after(*spends).fits() and rest:
            plans.append(then(pure, leak * LEAKS * DELTA, best(*rest)))
    assert len(plans) > 1
    return after_a_gaussian(mu, plans)


@pytest.mark.rest_is_slow(2)
@pytest.mark.parametrize(("share", "least"), [(0.01, 0.74), (0.3, 0.87), (0.6, 0.92), (0.7, 0.9)])
@pytest.mark.parametrize("worst", [worst_of_two, worst_of_three])
def test_the_worst_choices_after_a_gaussian_release_keep_delta(share, least, worst):
    """Computed, with leaks and without.

    Less than all of delta, the sums being one more way out of the same few outputs: whoever leaks
    leaves by the sums or by the rest, not by both, and where the loss is middling either gives up
    some of what the other had.
    """
    assert least * DELTA < worst(share) <= DELTA


@pytest.mark.rest_is_slow(2)
@pytest.mark.parametrize("share", [0.01, 0.3, 0.7])
@pytest.mark.parametrize("worst", [worst_of_two, worst_of_three])
def test_the_parts_beside_the_sums_use_up_their_three_quarters(share, worst):
    """And so do the sums their quarter: no share could be less."""
    rest = (1 - SUMS) * DELTA
    assert 0.99 * rest < worst(share, beside_sums) <= rest
    assert worst_of_two(share, by_sums) == pytest.approx(SUMS * DELTA, rel=1e-6)


@pytest.mark.parametrize("name", ["_BASIC_SHARE", "_GAUSSIAN_SHARE"])
def test_shares_that_add_up_to_more_do_not_keep_delta(name, monkeypatch):
    """Twins of the rule: one share a tenth of delta greater."""
    monkeypatch.setattr(ledger_rules, name, getattr(ledger_rules, name) + 0.1)
    assert worst_of_two(0.5) > DELTA


@pytest.mark.parametrize("name", ["_INFINITY_SHARE", "_GAUSSIAN_SHARE"])
def test_shares_beside_the_sums_that_add_up_to_more_do_not_keep_theirs(name, monkeypatch):
    """Twins of Theorem 4. Beside the sums the first does no harm: their quarter has the leaks."""
    monkeypatch.setattr(ledger_rules, name, getattr(ledger_rules, name) + 0.1)
    assert worst_of_two(0.3, beside_sums) > 1.1 * (1 - SUMS) * DELTA


def test_a_leak_charged_in_one_rule_only_would_cost_more_than_delta():
    """Why all rules count leaks: where the loss is low the analyst would take all of delta."""
    mu = math.sqrt(0.3) * gaussian_mu(EPSILON, DELTA)
    rule = Divided(Budget(EPSILON, DELTA))
    values = [*all_at_once(rule, [entry_of(gaussian(mu))]), joint(0.0, 0.0, DELTA)]
    assert after_a_gaussian(mu, values) > 1.5 * DELTA


def test_shares_add_up_to_one():
    asides = len(ledger_rules._ASIDE) * ledger_rules._ASIDE_SHARE
    assert SUMS + LEAKS + NOISE + asides == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (3.0, 1e-5), (1.0, 1e-6), (8.0, 1e-6)])
def test_gaussian_noise_alone_keeps_ninety_five_spends_in_a_hundred(epsilon, delta):
    """Against a ledger that gives it all of delta; a bit more than two are lost at least."""
    step = entry_of(gaussian(gaussian_mu(epsilon, delta) / 32))
    rule, square = GaussianDP(Budget(epsilon, delta)), step.counted.square
    most = int(gaussian_mu(epsilon, delta) ** 2 / square)
    assert most > 1000
    assert rule.after(*[step] * int(0.95 * most)).fits()
    assert not rule.after(*[step] * int(0.98 * most)).fits()


def test_what_has_a_delta_and_no_mu_goes_on_beside_gaussian_noise():
    """Its epsilons in a part set aside, its deltas in a twentieth of delta, to the last bit.

    The deltas of the Gaussian releases are too many for sums.
    """
    ledger = Ledger(EPSILON, DELTA)
    assert fits(ledger, *[gaussian(0.02)] * 3)
    assert ledger.remaining.delta == 5e-7
    for _ in range(4):
        ledger.spend(Guarantee(0.18, 1e-7))
    assert ledger.remaining.delta == 1e-7
    assert not fits(ledger, Guarantee(0.0, 1.0000000000000002e-7))
    ledger.spend(Guarantee(0.0, 1e-7))
    assert ledger.remaining.delta == 0.0
    assert ledger.spent.epsilon < EPSILON
    assert fits(ledger, gaussian(0.02))
    assert not fits(ledger, Guarantee(0.04))


def test_a_refusal_beside_gaussian_noise_gives_its_reason():
    ledger = Ledger(EPSILON, DELTA)
    ledger.spend(gaussian(0.02))
    said = r"an infinity mass of 2e-06;.*a twentieth.*5e-7 of this is left.*composition='sums'"
    with pytest.raises(BudgetExceeded, match=said):
        ledger.spend(Guarantee(0.01, 2e-6))
    with pytest.raises(BudgetExceeded, match=r"has mu=0.3\. A ledger"):
        ledger.spend(gaussian(0.3))
    sums = Ledger(EPSILON, DELTA, composition="sums")
    assert fits(sums, gaussian(0.02), Guarantee(0.01, 2e-6))


def test_a_spend_is_counted_piece_by_piece():
    """Gaussian noise stays that, a pair leaks its delta, and what is not known leaks a tenth."""
    heavy = ShiftLoss(FlippedHuber(1.0, 5.0), 0.5)
    alone = compose(Guarantee(1.0, 1e-6, losses=((heavy, 3),)), delta=1e-7)
    parts = (GaussianLoss(0.1), 4), (PairLoss(0.05, 1e-8), 2), (PairLoss(0.2), 1), (heavy, 3)
    pure, gaussian_part, square, leak = entry_of(Guarantee(2.0, 1.02e-6, losses=parts)).counted
    assert gaussian_part == pytest.approx(4 * 0.1**2)
    assert leak == pytest.approx(1.2e-7, rel=1e-12)
    assert pure == pytest.approx(0.3 + alone.epsilon, rel=1e-4)
    epsilons = [0.05, 0.05, 0.2, alone.epsilon]
    assert square == pytest.approx(gaussian_part + sum(mu_of_pure(e) ** 2 for e in epsilons), 1e-4)


def test_what_is_summed_is_never_less_than_the_sum():
    """In fractions, for one spend and for many, of like and of very unlike sizes; nor much more."""
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 50):
        for spread in (0.0, 30.0):
            rows = np.exp(rng.normal(size=(count, 3)) * spread)
            sums = CountedSums().after(Counted(*row, 0.0) for row in rows.tolist())
            exact = [sum(map(Fraction, column)) for column in rows.T.tolist()]
            for found, total in zip(sums.above(), exact, strict=True):
                assert total <= Fraction(found) <= total * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize(
    "losses",
    [
        (),
        ((PairLoss(9.0, 1e-6), 1),),
        ((PairLoss(0.1, 1e-3), 3), (ShiftLoss(FlippedHuber(1.0, 5.0), 0.5), 1)),
        ((PairLoss(0.1, 1e-6), 1), (ShiftLoss(FlippedHuber(1.0, 0.5), 0.5), 9)),
    ],
)
def test_what_its_losses_say_less_of_is_counted_by_epsilon_and_delta(losses):
    counted = entry_of(Guarantee(0.5, 1e-6, losses=losses)).counted
    assert counted == (0.5, 0.0, mu_of_pure(0.5) ** 2, 1e-6)


def test_a_jump_of_the_curve_leaks_all_of_it():
    """Truncated noise is told from its neighbour with a probability; a tenth is never enough."""
    jump = PairLoss(0.3, 1e-6).finite
    counted = entry_of(Guarantee(0.31, 1.1e-6, losses=((jump, 1),))).counted
    assert counted.infinity_mass == 1.1e-6
    assert counted.pure == pytest.approx(0.3, rel=1e-5)
    assert counted.gaussian == 0


def test_a_leaking_spend_divides_nothing():
    """Ten of a tenth of delta go by sums; divided, a leak of half each would leave two."""
    release = Guarantee(0.02, 1e-6, losses=((GaussianLoss(0.003), 1), (PairLoss(0.005, 5e-7), 1)))
    ledger = Ledger(EPSILON, DELTA)
    assert fits(ledger, *[release] * 10)
    assert ledger.spent == Budget(0.2, DELTA)


def fit_linear(ledger, epsilon):
    x = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    domain = Domain.box([-1, -1], [1, 1], target=(-2, 2))
    model = DPLinearRegression(
        epsilon=epsilon, delta=1e-6, mechanism="gaussian", domain=domain, ledger=ledger
    )
    return model.fit(x, x.sum(axis=1))


def fit_logistic(ledger, epsilon):
    x = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    domain = Domain.box([-1, -1], [1, 1], target=[0, 1])
    model = DPLogisticRegression(
        epsilon=epsilon,
        delta=1e-6,
        mechanism="elliptic",
        domain=domain,
        ledger=ledger,
        loss="logistic",  # chosen, which saves seconds of comparing
    )
    return model.fit(x, (x[:, 0] > 0).astype(int))


def test_linear_then_logistic_on_one_ledger(tmp_path):
    """Gaussian noise divides; objective perturbation leaks a tenth of its delta, thrice."""
    ledger = Ledger(3.0, 1e-5, path=tmp_path / "ledger")
    assert fit_linear(ledger, 1.0).guarantee_.mu < math.inf
    for epsilon in (0.7, 0.3, 0.3):
        assert fit_logistic(ledger, epsilon).guarantee_.mu == math.inf
    assert ledger.remaining.delta == 2e-7
    for entry in ledger.entries[1:]:
        assert entry.epsilon < entry.counted.pure < 1.15 * entry.epsilon
    with pytest.raises(BudgetExceeded):
        fit_logistic(ledger, 0.2)
    assert Ledger(3.0, 1e-5, path=tmp_path / "ledger").remaining == ledger.remaining


@pytest.mark.parametrize("order", [[fit_linear, fit_logistic], [fit_logistic, fit_linear]])
def test_two_fits_that_fill_epsilon_fit_as_sums(order):
    """Of usual deltas."""
    ledger = Ledger(2.0, 1e-5)
    for fit in order:
        fit(ledger, 1.0)
    spent = Budget(2.0, 2e-6)
    if order[0] is fit_logistic:  # beside Gaussian noise alone a lesser epsilon is known
        spent = Budget(ledger.spent.epsilon, 1e-5)
        assert spent.epsilon < 2.0
    assert ledger.spent == spent
    assert len(ledger.entries) == 2


def test_sums_beside_gaussian_noise_go_to_all_of_epsilon_and_a_quarter_of_delta():
    """To the last bit of either."""
    noise = Guarantee(1.0, 1e-6, losses=((GaussianLoss(gaussian_mu(1.0, 1e-6)), 1),))
    assert fits(Ledger(2.0, 1e-5), noise, Guarantee(1.0, 1.5e-6))
    for epsilon, delta in ((1.0, 1.5000000000000002e-6), (1.0000000000000002, 1.5e-6)):
        ledger = Ledger(2.0, 1e-5)
        assert not fits(ledger, noise, Guarantee(epsilon, delta))
        assert len(ledger.entries) == 1


def test_what_remains_is_the_greater_of_what_sums_and_the_rest_leave():
    """First by sums; when their epsilon is nearly used up, by the part set aside."""
    ledger, step = Ledger(EPSILON, DELTA), gaussian(0.02, 1e-7)
    ledger.spend(step)
    assert ledger.remaining == Budget(pytest.approx(1 - step.epsilon), 2.4e-6)
    assert fits(ledger, *[step] * 3)
    assert ledger.remaining == Budget(pytest.approx(0.75), 5e-7)


def test_a_spend_that_would_fit_as_a_sum_alone_divides_nothing():
    """Gaussian noise beside too great an epsilon: a quarter of delta would be left for nothing."""
    losses = (GaussianLoss(0.005), 1), (PairLoss(0.85), 1)
    ledger = Ledger(EPSILON, DELTA)
    ledger.spend(Guarantee(0.9, 1e-6, losses=losses))
    ledger.spend(Guarantee(0.1, 9e-6))
    assert ledger.remaining == Budget(0.0, 0.0)


def test_without_their_share_sums_beside_gaussian_noise_are_refused(monkeypatch):
    """The twin: what the other parts alone would say."""
    noise = Guarantee(1.0, 1e-6, losses=((GaussianLoss(gaussian_mu(1.0, 1e-6)), 1),))
    second = Guarantee(1.0, 1e-6)
    assert fits(Ledger(2.0, 1e-5), noise, second)
    assert fits(Ledger(2.0, 1e-5), second, noise)
    monkeypatch.setattr(ledger_rules, "_BASIC_SHARE", 0.0)
    assert not fits(Ledger(2.0, 1e-5), noise, second)
    assert fits(Ledger(2.0, 1e-5), second, noise)  # nothing was divided before the second
