"""How a ledger counts: valid when spends are chosen in view of outputs, and as little as may be."""

import math
import os
import pickle
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.stats import norm

from skdp.noise import FlippedHuber, Laplace
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, LedgerLost, compose
from skdp.privacy._accounting import Adaptive, Budget, Divided, Entry, Fixed
from skdp.privacy._loss_text import from_text, to_text
from skdp.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    mixed_delta,
    mu_of_pure,
)
from skdp.privacy.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss, ShiftLoss
from skdp.privacy.radial import RadialLoss

EPSILON, DELTA = 1.0, 1e-5


def gaussian(mu, delta=1e-6):
    return Guarantee(gaussian_epsilon(mu, delta), delta, losses=((GaussianLoss(mu), 1),))


def entry_of(guarantee):
    return Entry(guarantee.epsilon, guarantee.delta, "", "", "", True, guarantee.losses)


def fits(ledger, *guarantees):
    try:
        for guarantee in guarantees:
            ledger.spend(guarantee)
    except BudgetExceeded:
        return False
    return True


def hockey_stick(mu, epsilon):
    """The Gaussian profile at an array of real epsilons."""
    certain = np.maximum(-np.expm1(epsilon), 0.0)
    return np.maximum(np.exp(GaussianLoss(mu).log_delta(epsilon)), certain) if mu else certain


def joint(mu, pure, leak=0.0):
    """The profile of Gaussian noise together with the worst (pure, leak)-private release."""
    yes = 1 / (1 + math.exp(-pure))
    return lambda epsilon: (
        leak
        + (1 - leak)
        * (yes * hockey_stick(mu, epsilon - pure) + (1 - yes) * hockey_stick(mu, epsilon + pure))
    )


def after_a_gaussian(mu, continuations):
    """The delta at EPSILON of an analyst who sees a Gaussian release, then takes the worst of
    the continuations for the loss that came out: E max_k V_k(EPSILON - L), L ~ N(mu^2/2, mu^2).

    By the trapezoidal rule, whose error here is below 1e-6 of the value.
    """
    z = np.linspace(-9, 9, 36_001)
    left = EPSILON - mu * mu / 2 - mu * z
    worst = np.max([value(left) for value in continuations], axis=0)
    return trapezoid(norm.pdf(z) * worst, z)


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
    plans[0] = gaussian(0.98 * second, 1e-6)
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


def greatest(passes, high):
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7])
def test_the_worst_choice_after_a_gaussian_release_keeps_delta(share):
    """All that the divided ledger allows next, spent at once, chosen by the loss that came out."""
    mu = math.sqrt(share) * gaussian_mu(EPSILON, DELTA)
    first = entry_of(gaussian(mu))
    rule = Divided(Budget(EPSILON, DELTA))
    assert rule.fits([first])

    def allowed(pure, square):
        return rule.fits([first, _planned(pure, square)])

    values = []
    for pure in (0.0, 0.25, 0.5, 0.75):
        most = greatest(lambda square, pure=pure: allowed(pure * (1 - 1e-9), square), 0.1)
        if most > 0:
            values.append(joint(math.sqrt(most), pure))
    alone = greatest(lambda pure: allowed(pure, 0.0), 1.0)
    values.append(joint(0.0, alone))
    assert len(values) > 1
    assert 0.5 * DELTA < after_a_gaussian(mu, values) <= DELTA


def _planned(pure, square):
    parts = [(PairLoss(pure), 1)] if pure else []
    parts += [(GaussianLoss(math.sqrt(square)), 1)] if square else []
    return Entry(2.0, 0.5, "", "", "", True, tuple(parts))


def test_ten_thousand_gaussian_spends_fit_where_theory_says():
    """mu = .01 each; by sums it would be some hundred. 31/32 of delta is the rule's share."""
    step = entry_of(gaussian(0.01))
    most = int((gaussian_mu(4.9, 31 / 32 * 1e-6) / 0.01) ** 2)
    assert most > 10_000
    rule = Adaptive(Budget(4.9, 1e-6))
    assert rule.fits([step] * most)
    assert not rule.fits([step] * (most + 1))
    spent = rule.spent([step] * 10_000)
    assert 4.88655 <= spent.epsilon < 4.9
    assert spent.delta == 1e-6


def test_ten_thousand_in_one_spend_and_more_one_by_one():
    ledger = Ledger(4.9, 1e-6)
    step = gaussian(0.01)
    ledger.spend(step)
    ledger.spend(compose(*[step] * 9_990, delta=1e-6))
    for _ in range(9):
        ledger.spend(step)
    assert ledger.spent.epsilon < 4.9
    assert not fits(ledger, compose(*[step] * 100, delta=1e-6))
    assert len(ledger.entries) == 11


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
    rest = gaussian_epsilon(0.002 * math.sqrt(30), 31 / 32 * 8e-6)
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


@pytest.mark.parametrize("gaussians", [1, 3])
def test_epsilon_alone_goes_on_beside_gaussian_noise(gaussians):
    """In a part set aside: three quarters of epsilon while little noise was spent."""
    ledger = Ledger(EPSILON, DELTA)
    for _ in range(gaussians):
        ledger.spend(gaussian(0.02))
    ledger.spend(Guarantee(0.3))
    ledger.spend(Guarantee(0.4))
    assert not fits(ledger, Guarantee(0.1))
    assert ledger.spent.epsilon < EPSILON


def test_many_small_pure_spends_add_up_in_squares_beside_gaussian_noise():
    """Their sum is 2; each mu is 1.25 epsilon."""
    ledger = Ledger(EPSILON, DELTA)
    ledger.spend(gaussian(0.02))
    small = compose(*[Guarantee(0.01, losses=((PairLoss(0.01), 1),))] * 100)
    assert small.mu == pytest.approx(10 * mu_of_pure(0.01), rel=1e-9)
    ledger.spend(small)
    ledger.spend(small)
    assert ledger.spent.epsilon < EPSILON


def test_nearly_gaussian_noise_is_counted_in_gaussian_dp():
    """K-norm noise on a ball in a hundred dimensions; its epsilons would add up to far more."""
    loss = RadialLoss(100, 0.3)
    release = Guarantee(0.09, 1e-6, losses=((loss, 1),))
    assert release.mu < 0.031
    ledger = Ledger(EPSILON, DELTA)
    for _ in range(40):
        ledger.spend(release)
    assert ledger.spent.epsilon < EPSILON


def test_what_has_a_delta_and_no_mu_is_refused_beside_gaussian_noise_with_a_reason():
    ledger = Ledger(EPSILON, DELTA)
    ledger.spend(gaussian(0.02))
    with pytest.raises(BudgetExceeded, match=r"a delta and no known mu.*composition='sums'"):
        ledger.spend(Guarantee(0.01, 1e-7))
    with pytest.raises(BudgetExceeded, match=r"has mu=0.3\b"):
        ledger.spend(gaussian(0.3))
    sums = Ledger(EPSILON, DELTA, composition="sums")
    assert fits(sums, gaussian(0.02), Guarantee(0.01, 1e-7))


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
    rule = Fixed(Budget(least.epsilon * (1 + 1e-5), DELTA))
    entries = [entry_of(part) for part in plan]
    assert rule.fits(entries)
    assert rule.spent(entries).epsilon == pytest.approx(least.epsilon, rel=1e-4)
    assert rule.spent(entries).delta == DELTA
    assert not Fixed(Budget(least.epsilon * (1 - 1e-2), DELTA)).fits(entries)
    assert rule.remaining(entries).epsilon < 1e-3
    assert not Fixed(Budget(9.0, DELTA)).fits([*entries, entry_of(Guarantee(0.0, 1.0))])


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


def test_the_composition_of_a_file_is_fixed(tmp_path):
    ledger = Ledger(1.0, 1e-6, path=tmp_path / "ledger", composition="fixed")
    again = Ledger(1.0, 1e-6, path=tmp_path / "ledger", composition="fixed")
    assert again == ledger
    assert pickle.loads(pickle.dumps(ledger)).composition == "fixed"
    with pytest.raises(ValueError, match=r"composition must be that of the ledger.*'fixed'"):
        Ledger(1.0, 1e-6, path=tmp_path / "ledger")


KEPT = [
    GaussianLoss(0.1),
    PairLoss(0.1, 1e-7),
    RadialLoss(7, 0.25),
    ShiftLoss(Laplace(3.0), 0.1),
    ShiftLoss(FlippedHuber(0.5, 3.0), 1 / 3),
    FiniteLoss.between([0.2, 0.3, 0.5, 0.0], [0.5, 0.3, 0.1, 0.1]),
]


def test_losses_are_kept_in_the_file(tmp_path):
    """Every kind, to the last bit, read by another process."""
    path = tmp_path / "ledger"
    losses = tuple((loss, count) for count, loss in enumerate(KEPT, start=1))
    Ledger(math.inf, path=path).spend(Guarantee(1.0, 1e-6, losses=losses))
    program = f"""
        import pickle
        from skdp.privacy import Ledger
        entry, = Ledger(float("inf"), path={str(path)!r}).entries
        print(pickle.dumps(entry.losses).hex())
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=True)
    assert pickle.loads(bytes.fromhex(done.stdout)) == losses


class OwnLaw(Laplace):
    """A law that the package does not know."""


def test_a_loss_that_cannot_be_kept_counts_as_the_worst_release_with_its_numbers():
    for loss in (ProfileLoss(GaussianLoss(0.1).log_delta), ShiftLoss(OwnLaw(2.0), 1.0)):
        assert to_text(((loss, 1),)) is None
        ledger = Ledger(2.0, 1e-5)
        ledger.spend(Guarantee(0.5, 1e-6, losses=((loss, 1),)))
        assert ledger.entries[0].losses == ()
        assert ledger.spent == Budget(0.5, 1e-6)
    # Nor is such a spend taken in view of what would be lost: a hundred would fit by mu.
    parts = (GaussianLoss(0.001), 1), (ProfileLoss(PairLoss(0.0).log_delta), 1)
    ledger = Ledger(EPSILON, DELTA)
    while fits(ledger, Guarantee(0.3, 1e-6, losses=parts)):
        pass
    assert len(ledger.entries) == 3


def test_a_file_whose_losses_are_not_known_any_more_takes_nothing_more(monkeypatch):
    """Spends that fitted by their losses count by their epsilons then."""
    ledger = Ledger(EPSILON, DELTA)
    for _ in range(8):
        ledger.spend(gaussian(0.05))
    assert ledger.spent.epsilon < EPSILON
    later = pickle.loads(pickle.dumps(ledger))
    monkeypatch.setattr("skdp.privacy._ledger_rows.from_text", lambda text: None)
    assert later.spent.epsilon > EPSILON
    assert later.remaining.epsilon == 0.0
    assert not fits(later, gaussian(0.05))


EVAL = '{"kind": "shift", "shift": 1, "of": {"law": "eval"}, "count": 1}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        f'{{"version": 1, "losses": [{EVAL}]}}',
        '{"version": 2, "losses": []}',
        '{"version": 1, "losses": [{"kind": "pickle", "count": 1}]}',
        '{"version": 1, "losses": [{"kind": "gaussian", "mu": -1.0, "count": 1}]}',
        '{"version": 1, "losses": [{"kind": "gaussian", "code": 1.0, "count": 1}]}',
        '{"version": 1, "losses": [{"kind": "shift", "shift": 1, "of": 3, "count": 1}]}',
    ],
)
def test_text_that_is_not_ours_says_nothing(text):
    """It names no code, and what is not known is not made up."""
    assert from_text(text) is None


OLD = (
    "CREATE TABLE ceiling (epsilon REAL NOT NULL, delta REAL NOT NULL, token TEXT NOT NULL)",
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,"
    " neighbors TEXT NOT NULL, mechanism TEXT NOT NULL, note TEXT NOT NULL,"
    " holds INTEGER NOT NULL)",
    "INSERT INTO ceiling VALUES (1.0, 1e-5, 'token')",
    "INSERT INTO entry VALUES (NULL, 0.25, 1e-6, 'replace_one', 'gaussian', 'old', 1)",
)


def test_a_file_of_the_first_layout_opens_and_goes_on(tmp_path):
    """Its spends count as they did; new ones keep their losses."""
    path = tmp_path / "ledger"
    database = sqlite3.connect(path)
    for statement in OLD:
        database.execute(statement)
    database.commit()
    database.close()
    ledger = Ledger(1.0, 1e-5, path=path)
    assert ledger.composition == "adaptive"
    assert ledger.spent == Budget(0.25, 1e-6)
    assert not fits(ledger, Guarantee(0.8))
    ledger.spend(gaussian(0.01))
    assert [len(entry.losses) for entry in ledger.entries] == [0, 1]
    assert Ledger(1.0, 1e-5, path=path).entries == ledger.entries
    with pytest.raises(ValueError, match="composition must be that of the ledger"):
        Ledger(1.0, 1e-5, path=path, composition="fixed")


@pytest.mark.parametrize("table", ["loss", "rule"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET rowid = 7"])
def test_losses_and_rule_are_append_only(table, statement):
    ledger = Ledger(1.0, 1e-5)
    ledger.spend(gaussian(0.01))
    database = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute(statement.format(table))
    database.close()


def test_a_handle_sees_what_others_spent_and_reads_nothing_twice(monkeypatch):
    """What a handle has seen does not change: only what is new is read."""
    ledger = Ledger(1.0, 1e-5)
    other = pickle.loads(pickle.dumps(ledger))
    for place in range(4):
        (ledger, other)[place % 2].spend(gaussian(0.01), note=str(place))
    assert [entry.note for entry in ledger.entries] == ["0", "1", "2", "3"]
    assert ledger.entries == other.entries
    assert ledger.entries[0] is ledger.entries[0]
    os.unlink(ledger.path)
    with pytest.raises(LedgerLost):
        ledger.entries  # noqa: B018


def test_mixed_delta_is_below_that_of_the_epsilons_added():
    """What a part set aside costs, against the sum that it replaces."""
    assert mixed_delta(0.1, 0.5, EPSILON) < gaussian_delta(0.1, EPSILON - 0.5)
