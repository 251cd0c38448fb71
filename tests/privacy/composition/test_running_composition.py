"""Losses added one by one to a composition: the bounds hold, and are close."""

import math

import pytest
from ledger_worst import DELTA, fits

from skdp.noise import Laplace, TruncatedLaplace
from skdp.privacy import Guarantee, Ledger
from skdp.privacy import composition as running
from skdp.privacy.composition import Composition, Running
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss

LAPLACE = [ShiftLoss(Laplace(10.0 + 0.7 * k), 1.0) for k in range(24)]
SKEWED = FiniteLoss.between([0.2, 0.3, 0.5], [0.25, 0.35, 0.4])
MIXED = [
    ShiftLoss(Laplace(10.0), 1.0),
    SKEWED,
    GaussianLoss(0.1),
    PairLoss(0.13),
    SKEWED.reversed(),
    ShiftLoss(TruncatedLaplace(30.0, 5.0), 1.0),
    GaussianLoss(0.02),
    ProfileLoss(GaussianLoss(0.1).log_delta),
    SKEWED,
]


def added(losses, epsilon, start=2):
    """The losses so far, and the running bounds, after each further loss."""
    parts = [(loss, 1) for loss in losses]
    found = Running(epsilon).after(tuple(parts[:start]))
    for count in range(start, len(parts) + 1):
        whole = Composition(parts[:count])
        yield whole, list(found.bounds(lambda whole=whole: whole.parts))
        found = found.after(tuple(parts[count : count + 1]))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("losses", [LAPLACE[:8], MIXED], ids=["laplace", "mixed"])
def test_every_running_bound_is_above_the_truth(losses, epsilon):
    """The first one from an earlier plan; the last one from a new plan, as without earlier ones."""
    for whole, bounds in added(losses, epsilon):
        assert min(bounds) >= whole.delta_at(epsilon).lower
        assert bounds[-1] == pytest.approx(whole.delta_above(epsilon), rel=1e-9)


def test_bounds_on_the_grid_of_an_earlier_plan_are_close(monkeypatch):
    """With twice as many losses, and no new plan: a fifth of delta, of epsilon less than 1 %."""
    epsilon, half = 0.6, len(LAPLACE) // 2
    found = Running(epsilon).after(tuple((loss, 1) for loss in LAPLACE[:half]))
    list(found.bounds(lambda: Composition([(loss, 1) for loss in LAPLACE[:half]]).parts))
    monkeypatch.setattr(running, "outlines", None)
    for loss in LAPLACE[half:]:
        found = found.after(((loss, 1),))
    bound = next(found.bounds(tuple))
    truth = Composition([(loss, 1) for loss in LAPLACE]).delta_at(epsilon)
    assert truth.lower <= bound <= truth.upper * 1.2


def test_five_percent_less_noise_is_seen_by_the_oracle():
    """The twin: losses that are added as if they had more noise fall below the truth."""
    added_as = [ShiftLoss(Laplace(1.05 * loss.law.scale), 1.0) for loss in LAPLACE]
    found = Running(0.3).after(((LAPLACE[0], 1), (LAPLACE[1], 1)))
    list(found.bounds(lambda: ((LAPLACE[0], 1), (LAPLACE[1], 1))))
    found = found.after(tuple((loss, 1) for loss in added_as[2:]))
    truth = Composition([(loss, 1) for loss in LAPLACE]).delta_at(0.3).lower
    assert next(found.bounds(tuple)) < truth


def test_a_loss_too_wide_for_the_grid_gets_a_new_plan():
    """Its grid would need a million cells on an earlier step."""
    small = tuple((ShiftLoss(Laplace(1e4 + k), 1.0), 1) for k in range(3))
    found = Running(1e-4).after(small)
    list(found.bounds(lambda: small))
    wide = (ShiftLoss(Laplace(0.1), 1.0), 1)
    (bound,) = found.after((wide,)).bounds(lambda: (*small, wide))
    assert bound == Composition([*small, wide]).delta_above(1e-4)


def test_a_fixed_ledger_takes_as_many_spends_as_one_composition_allows():
    """Of distinct scales, with a delta of their own in between; then not one more."""
    spends = [
        Guarantee(1 / loss.law.scale, losses=((loss, 1),)) if k % 5 else Guarantee(0.02, 1e-8)
        for k, loss in enumerate(LAPLACE)
    ]
    ledger, taken = Ledger(0.8, DELTA, composition="fixed"), []
    for spend in spends:
        if not fits(ledger, spend):
            break
        taken.append(spend)
    assert math.fsum(spend.epsilon for spend in taken) > 0.82

    def delta(count):
        mass = 1 - (1 - 1e-8) ** len(range(0, count, 5))
        losses = [PairLoss(0.02) if k % 5 == 0 else loss for k, loss in enumerate(LAPLACE[:count])]
        rest = Composition([(loss, 1) for loss in losses])
        return mass + (1 - mass) * rest.delta_at(0.8).upper

    assert delta(len(taken)) <= DELTA * (1 + 1e-4)
    assert len(taken) == len(spends) or delta(len(taken) + 1) > DELTA * (1 - 1e-4)
    assert len(taken) < len(spends)
