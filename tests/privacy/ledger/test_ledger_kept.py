"""What a ledger's file keeps: its rule, and the losses or others that dominate them."""

import math
import pickle

import numpy as np
import pytest
from ledger_worst import DELTA, EPSILON, fits, gaussian

from skdp.noise import (
    FlippedHuber,
    Gaussian,
    Laplace,
    Logistic,
    OffsetGaussian,
    Subbotin,
    TruncatedLaplace,
)
from skdp.privacy import Guarantee, Ledger
from skdp.privacy.conversions import gaussian_epsilon
from skdp.privacy.ledger_file import from_text, kept, to_text
from skdp.privacy.ledger_rules import Budget
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss, SelectionLoss
from skdp.trusted.radial import RadialLoss


def test_the_composition_of_a_file_is_fixed(tmp_path):
    ledger = Ledger(1.0, 1e-6, path=tmp_path / "ledger", composition="fixed")
    again = Ledger(1.0, 1e-6, path=tmp_path / "ledger", composition="fixed")
    assert again == ledger
    assert pickle.loads(pickle.dumps(ledger)).composition == "fixed"
    with pytest.raises(ValueError, match=r"composition must be that of the ledger.*'fixed'"):
        Ledger(1.0, 1e-6, path=tmp_path / "ledger")


def test_every_loss_and_law_of_a_file_is_read_as_it_was():
    laws = [Laplace(2.0), Gaussian(2.0), Logistic(2.0), Subbotin(3.0, 2.0), FlippedHuber(1.0, 2.0)]
    laws += [TruncatedLaplace(3.0, 0.5), OffsetGaussian(1.0, 2.0)]
    finite = FiniteLoss((0.0, 0.5), (-0.5, -1.25), -2.2352578692748204, -1.5155132518505716)
    others = [finite, PairLoss(0.1, 1e-7), SelectionLoss(0.5), RadialLoss(7, 0.25)]
    losses = tuple((loss, 3) for loss in [*(ShiftLoss(law, 0.1) for law in laws), *others])
    text = to_text(losses)
    assert from_text(text) == losses
    assert from_text(text.replace('"Laplace"', '"Uniform"')) == ()


class OwnLaw(Laplace):
    """A law that the package does not know."""


def curve(loss):
    """All that is known of the loss: its profile, in both orders."""
    return ProfileLoss(loss.log_delta, loss.reversed().log_delta)


THREE = FiniteLoss.between([0.2, 0.3, 0.45, 0.05], [0.5, 0.3, 0.2, 0.0])
KNOWN = [
    *[GaussianLoss(mu) for mu in (1e-4, 0.1, 1.0, 6.0)],
    *[PairLoss(0.3), PairLoss(0.3, 1e-7), PairLoss(0.0, 0.5), PairLoss(40.0)],
    *[RadialLoss(7, 0.25), ShiftLoss(FlippedHuber(0.5, 3.0), 1.0), THREE, THREE.reversed()],
]


def dominates(kept_loss, loss):
    """At points of both orders, far tails and between the points that are kept."""
    span = np.concatenate([np.geomspace(1e-6, 100.0, 300), np.linspace(0.0, 2.0, 301)])
    epsilon = np.concatenate([-span, span])
    return all(
        (one.log_delta(epsilon) >= other.log_delta(epsilon)).all()
        for one, other in ((kept_loss, loss), (kept_loss.reversed(), loss.reversed()))
    )


@pytest.mark.parametrize("loss", KNOWN, ids=str)
def test_a_curve_is_kept_as_points_that_dominate_it(loss):
    ((found, count),) = kept(((curve(loss), 3),))
    assert count == 3
    assert from_text(to_text(((found, 3),))) == ((found, 3),)
    assert dominates(found, loss)


@pytest.mark.parametrize("loss", KNOWN[:4], ids=str)
def test_points_of_a_curve_of_a_thousandth_less_do_not_dominate(loss):
    """The twin of what is tested above."""
    ((found, _),) = kept(((curve(GaussianLoss(0.999 * loss.mu)), 1),))
    assert not dominates(found, loss)


@pytest.mark.parametrize("loss", KNOWN[:4], ids=str)
def test_points_cost_a_percent_of_epsilon_at_most(loss):
    ((found, _),) = kept(((curve(loss), 1),))
    for delta in (1e-3, 1e-7, 1e-12):
        known, exact = (
            Guarantee(1.0, 0.5, losses=((one, 1),)).epsilon_at(delta) for one in (found, loss)
        )
        assert exact <= known <= 1.012 * exact


def test_a_curve_that_is_another_each_time_is_kept_as_one_that_dominates():
    """An upper bound may depend on what else is asked; what lies below all of them still does."""
    rng, loss = np.random.default_rng(0), GaussianLoss(0.3)
    rough = ProfileLoss(lambda e: loss.log_delta(e) + rng.uniform(0, 0.3, np.shape(e)))
    ((found, _),) = kept(((rough, 1),))
    assert dominates(found, loss)


def test_a_law_of_somebody_else_is_kept_as_points():
    loss = ShiftLoss(OwnLaw(2.0), 1.0)
    assert to_text(((loss, 1),)) == ""
    ((found, _),) = kept(((loss, 1),))
    assert dominates(found, loss)
    assert max(found.losses) < 0.53


def test_what_belongs_to_no_pair_is_not_kept_and_counts_as_the_worst_with_its_numbers():
    """Two curves that contradict each other at epsilon = 0."""
    loss = ProfileLoss(GaussianLoss(0.2).log_delta, GaussianLoss(0.1).log_delta)
    assert kept(((GaussianLoss(0.1), 1), (loss, 1))) == ()
    ledger = Ledger(2.0, 1e-5)
    ledger.spend(Guarantee(0.5, 1e-6, losses=((loss, 1),)))
    assert ledger.entries[0].losses == ()
    assert ledger.spent == Budget(0.5, 1e-6)
    # Nor is such a spend taken in view of what would be lost: a hundred would fit by mu.
    parts = (GaussianLoss(0.001), 1), (loss, 1)
    ledger = Ledger(EPSILON, DELTA)
    while fits(ledger, Guarantee(0.3, 1e-6, losses=parts)):
        pass
    assert len(ledger.entries) == 3


def test_what_is_checked_is_what_is_kept():
    """And it is what is read again; by sums the third would not fit."""
    ledger = Ledger(EPSILON, DELTA, composition="fixed")
    for _ in range(3):
        ledger.spend(Guarantee(0.5, 1e-6, losses=((curve(GaussianLoss(0.1)), 1),)))
    again = pickle.loads(pickle.dumps(ledger))
    assert again.entries == ledger.entries
    assert again.spent == ledger.spent
    exact = gaussian_epsilon(0.1 * math.sqrt(3), DELTA)
    assert exact < ledger.spent.epsilon < 1.01 * exact


def test_a_file_whose_losses_are_not_known_any_more_takes_nothing_more(monkeypatch):
    """Spends that fitted by their losses count by their epsilons then."""
    ledger = Ledger(EPSILON, DELTA)
    for _ in range(8):
        ledger.spend(gaussian(0.05))
    assert ledger.spent.epsilon < EPSILON
    later = pickle.loads(pickle.dumps(ledger))
    monkeypatch.setattr("skdp.privacy.ledger_file.from_text", lambda text: ())
    assert later.spent.epsilon > EPSILON
    assert later.remaining.epsilon == 0.0
    assert not fits(later, gaussian(0.05))


GOOD = to_text(((ShiftLoss(Laplace(3.0), 0.1), 1), (GaussianLoss(0.5), 2)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        GOOD.replace('"Laplace"', '"eval"'),
        GOOD.replace('"Laplace"', '"GaussianLoss"'),
        GOOD.replace('"version": 1', '"version": 2'),
        GOOD.replace('"GaussianLoss"', '"pickle"'),
        GOOD.replace('"GaussianLoss"', '"Laplace"'),
        GOOD.replace('"mu": 0.5', '"mu": -0.5'),
        GOOD.replace('"mu"', '"code"'),
        GOOD.replace("2]", "true]"),
    ],
)
def test_text_that_is_not_ours_says_nothing(text):
    """It names no code, and what is not known is not made up."""
    assert from_text(GOOD)
    assert text != GOOD
    assert from_text(text) == ()
