"""How a ledger counts: valid when spends are chosen in view of outputs, and as little as may be."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_worst import DELTA, EPSILON, NOISE, after_a_gaussian, entry_of, fits, gaussian, joint

from skdp.noise import Laplace
from skdp.privacy import Guarantee, Ledger, compose
from skdp.privacy.conversions import gaussian_delta, gaussian_epsilon, gaussian_mu, mu_of_pure
from skdp.privacy.ledger_rules import Budget, Exact, GaussianDP
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import PairLoss


def test_choosing_among_planned_accounts_in_view_of_an_output_costs_nearly_twice_delta():
    """Why "fixed" is no default. Both plans keep 1e-5; the choice between them has 1.9 of it."""
    mu = math.sqrt(0.5) * gaussian_mu(EPSILON, DELTA)
    second = math.sqrt(gaussian_mu(EPSILON, DELTA) ** 2 - mu**2) * (1 - 1e-9)
    leak = DELTA - 2 * gaussian_delta(mu, EPSILON)
    plans = [gaussian(second, 1e-6), Guarantee(0.0, leak)]
    for plan in plans:
        assert fits(Ledger(EPSILON, DELTA, composition="fixed"), gaussian(mu), plan)
        assert not fits(
            Ledger(0.99 * EPSILON, 0.9 * DELTA, composition="fixed"), gaussian(mu), plan
        )
    values = joint(second, 0.0), joint(0.0, 0.0, leak)
    for one in values:
        assert after_a_gaussian(mu, [one]) <= DELTA * (1 + 1e-5)
    assert 1.9 * DELTA < after_a_gaussian(mu, values) < 2 * DELTA
    # The default counts for the choice, and refuses one of the two.
    plans[0] = gaussian(0.95 * second, 1e-6)
    taken = [fits(Ledger(EPSILON, DELTA), gaussian(mu), plan) for plan in plans]
    assert taken == [True, False]


def test_sums_or_gaussian_dp_whichever_fits_would_cost_more_than_delta():
    """Why a ledger is divided: each rule alone keeps delta; the choice of the rule does not."""
    whole = gaussian_mu(EPSILON, DELTA)
    mu = math.sqrt(0.5) * whole
    first = gaussian(mu, 1e-6)
    by_sums = joint(0.0, EPSILON - first.epsilon, DELTA - first.delta)
    by_gaussian = joint(math.sqrt(whole**2 - mu**2), 0.0)
    assert after_a_gaussian(mu, [by_sums]) <= DELTA
    assert after_a_gaussian(mu, [by_gaussian]) == pytest.approx(DELTA, rel=1e-4)
    assert after_a_gaussian(mu, [by_sums, by_gaussian]) > 1.8 * DELTA


def test_ten_thousand_gaussian_spends_fit_where_theory_says():
    """mu = .01 each; by sums it would be some hundred."""
    step = entry_of(gaussian(0.01))
    most = int((gaussian_mu(4.97, NOISE * 1e-6) / 0.01) ** 2)
    assert most > 10_000
    rule = GaussianDP(Budget(4.97, 1e-6))
    assert rule.after(*[step] * most).fits()
    assert not rule.after(*[step] * (most + 1)).fits()
    spent = rule.after(*[step] * 10_000).spent()
    assert 4.88655 <= spent.epsilon < 4.97
    assert spent.delta == 1e-6


def test_sums_stay_as_they_are_until_gaussian_noise_is_spent():
    """Also for spends with delta, and for those with losses that are not Gaussian."""
    laplace = Guarantee(0.5, losses=((ShiftLoss(Laplace(2.0), 1.0), 1),))
    ledger = Ledger(EPSILON, DELTA)
    for part in (Guarantee(0.2, 4e-6), laplace):
        ledger.spend(part)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (0.7, 4e-6)
    assert (ledger.remaining.epsilon, ledger.remaining.delta) == (0.3, 6e-6)


def test_what_is_left_at_the_first_gaussian_spend_is_what_is_divided():
    ledger = Ledger(EPSILON, DELTA)
    ledger.spend(Guarantee(0.4, 2e-6))
    step = gaussian(0.002)
    for _ in range(30):
        ledger.spend(step)
    rest = gaussian_epsilon(0.002 * math.sqrt(30), NOISE * 8e-6)
    assert ledger.spent.epsilon == pytest.approx(0.4 + rest, rel=1e-9)
    assert not fits(ledger, gaussian(gaussian_mu(0.6, 8e-6)))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_gaussian_spend_too_large_to_divide_is_a_sum(share):
    """A release that takes the whole ceiling fits, as it always did."""
    ledger = Ledger(EPSILON, DELTA)
    large = gaussian(gaussian_mu(EPSILON, DELTA), DELTA)
    assert large.epsilon <= EPSILON
    ledger.spend(large)
    assert ledger.remaining.delta == 0.0
    assert not fits(ledger, gaussian(1e-4))


def test_many_small_pure_spends_add_up_in_squares_beside_gaussian_noise():
    """Their sum is 2; each mu is 1.25 epsilon."""
    ledger = Ledger(EPSILON, DELTA)
    ledger.spend(gaussian(0.02))
    small = compose(*[Guarantee(0.01, losses=((PairLoss(0.01), 1),))] * 100)
    assert small.mu == pytest.approx(10 * mu_of_pure(0.01), rel=1e-9)
    ledger.spend(small)
    ledger.spend(small)
    assert ledger.spent.epsilon < EPSILON


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["adaptive", "fixed", "sums"]),
    st.lists(st.sampled_from([0.002, 0.02, 0.05, 0.1, -0.01, -0.2, -0.5]), max_size=5),
)
def test_what_remains_fits_exactly(composition, sizes):
    """Positive sizes are a mu, negative ones an epsilon."""
    ledger = Ledger(EPSILON, DELTA, composition=composition)
    for size in sizes:
        fits(ledger, gaussian(size, 1e-7) if size > 0 else Guarantee(-size))
    assert ledger.spent.epsilon <= EPSILON
    left = ledger.remaining
    ledger.spend(Guarantee(left.epsilon, left.delta))


def test_sums_never_take_more_than_the_sums():
    ledger = Ledger(EPSILON, DELTA, composition="sums")
    step = gaussian(0.02)
    while fits(ledger, step):
        pass
    count = len(ledger.entries)
    assert count == min(math.floor(EPSILON / step.epsilon), 10)
    assert fits(Ledger(EPSILON, DELTA), *[step] * (2 * count))


def test_fixed_counts_mixed_spends_by_their_losses():
    """As `compose` does, and then not one more."""
    laplace = Guarantee(0.05, losses=((ShiftLoss(Laplace(20.0), 1.0), 1),))
    plan = [gaussian(0.01)] * 20 + [laplace] * 60 + [Guarantee(0.01, 1e-8)]
    least = compose(*plan, delta=DELTA)
    rule = Exact(Budget(least.epsilon * (1 + 1e-5), DELTA))
    entries = [entry_of(part) for part in plan]
    account = rule.after(*entries)
    assert account.fits()
    assert account.spent().epsilon == pytest.approx(least.epsilon, rel=1e-4)
    assert account.spent().delta == DELTA
    assert not Exact(Budget(least.epsilon * (1 - 1e-2), DELTA)).after(*entries).fits()
    assert account.remaining().epsilon < 1e-3
    everything = Exact(Budget(9.0, DELTA)).after(*entries, entry_of(Guarantee(0.0, 1.0)))
    assert not everything.fits()


def test_a_kept_account_is_read_once():
    """Another thread may replace it between two reads, and its spends would be lost."""

    class Shared(Exact):
        def __init__(self, *facts):
            self.reads = []
            super().__init__(*facts)

        @property
        def _next(self):
            return self.reads.pop(0)

        @_next.setter
        def _next(self, kept):
            self.reads = [kept, ((), self)]  # the second one is that of another thread

    spend = entry_of(Guarantee(0.9))
    account = Shared(Budget(1.0, DELTA))
    account.reads.insert(0, None)
    found = account.after(spend)
    assert account.after(spend) is found
    assert found.spent().epsilon == pytest.approx(0.9, rel=1e-3)


@pytest.mark.parametrize("composition", ["adaptive", "fixed", "sums"])
def test_without_delta_epsilons_add(composition):
    ledger = Ledger(1.0, composition=composition)
    for _ in range(10):
        ledger.spend(Guarantee(0.1))
    assert (ledger.spent.epsilon, ledger.remaining.epsilon) == (1.0, 0.0)
    assert not fits(ledger, Guarantee(1e-300))
    assert not fits(Ledger(1.0, composition=composition), gaussian(1e-3))


@pytest.mark.parametrize("composition", ["adaptive", "fixed", "sums"])
def test_an_endless_ledger_records_everything(composition):
    ledger = Ledger(math.inf, 1e-6, composition=composition)
    for _ in range(2):
        ledger.spend(gaussian(5.0))
    assert ledger.remaining == Budget(math.inf, 1.0)
    assert ledger.spent.epsilon == pytest.approx(2 * gaussian_epsilon(5.0, 1e-6))


def test_an_unknown_composition_is_refused():
    with pytest.raises(
        ValueError, match=r"composition must be one of \['adaptive', 'fixed', 'sums'"
    ):
        Ledger(1.0, composition="advanced")
