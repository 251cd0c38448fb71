"""Guarantees as events of dp-accounting, whose accountant finds the same or a greater epsilon."""

import pytest

from skdp import Domain, DPCoordinateDescentClassifier, Guarantee
from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate, calibrate_releases
from skdp.noise import Laplace, Logistic
from skdp.privacy import compose
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import GaussianLoss, PairLoss, SelectionLoss
from skdp.trusted.radial import RadialLoss

dp_accounting = pytest.importorskip("dp_accounting")
from dp_accounting import dp_event, pld  # noqa: E402

DELTA = 1e-5
# The accountant's own grid of losses is 1e-4 wide, and each loss is rounded up to it.
GRID = 1e-4


def epsilon_of(guarantee, delta=DELTA):
    """The epsilon that the accountant finds with its default relation."""
    accountant = pld.PLDAccountant(value_discretization_interval=GRID)
    return accountant.compose(guarantee.to_dp_event()).get_epsilon(delta)


def with_losses(*losses, epsilon=50.0, delta=1e-9):
    return Guarantee(epsilon, delta, losses=losses)


EXACT = [
    with_losses((GaussianLoss(0.7), 1)),
    with_losses((GaussianLoss(0.1), 40)),
    with_losses((ShiftLoss(Laplace(2.0), 1.0), 10)),
    with_losses((ShiftLoss(Laplace(2.0), 1.0), 3), (GaussianLoss(0.7), 2)),
    with_losses((RadialLoss(1, 0.5), 5)),
    with_losses((PairLoss(0.5), 6)),
    Guarantee(0.8),
    compose(*[Guarantee(0.2, losses=((PairLoss(0.2), 1),))] * 5, delta=DELTA),
]


@pytest.mark.parametrize("guarantee", EXACT, ids=lambda own: repr(own.losses or own.epsilon))
def test_the_accountant_agrees_where_the_event_is_exact(guarantee):
    """Within 1e-3: both round up, the accountant on a grid."""
    assert epsilon_of(guarantee) == pytest.approx(guarantee.epsilon_at(DELTA), abs=1e-3)


BOUNDED = [
    with_losses((SelectionLoss(0.5), 1)),
    with_losses((SelectionLoss(0.1), 50)),
    with_losses((RadialLoss(20, 0.8), 1)),
    with_losses((ShiftLoss(Logistic(3.0), 1.0), 4)),
]


@pytest.mark.parametrize("guarantee", BOUNDED, ids=lambda own: repr(own.losses))
def test_the_accountant_is_never_better_than_the_guarantee(guarantee):
    """Other bounded losses are replaced by worse ones, at most 2.5 times the epsilon."""
    known = guarantee.epsilon_at(DELTA)
    assert known <= epsilon_of(guarantee) <= 2.5 * known


def test_the_event_of_a_noise_and_of_a_fit():
    noise = calibrate("gaussian", Sensitivity(LpBall(3)), epsilon=1.0, delta=DELTA)
    assert type(noise.guarantee.to_dp_event()) is dp_event.GaussianDpEvent
    assert epsilon_of(noise.guarantee) == pytest.approx(1.0, abs=1e-3)
    shifts = [(1.0, 10)]
    noise = calibrate_releases("laplace", shifts, neighbors="add_remove", epsilon=1.0, delta=DELTA)
    assert epsilon_of(noise.guarantee) == pytest.approx(1.0, abs=1e-3)
    domain = Domain({"age": (17, 90)}, target=["no", "yes"])
    X, y = domain.sample(500, random_state=0, with_target=True)
    model = DPCoordinateDescentClassifier(epsilon=1.0, delta=DELTA, domain=domain).fit(X, y)
    assert model.guarantee_.epsilon_at(DELTA) - 1e-9 <= epsilon_of(model.guarantee_) <= 1 + 1e-3


def test_what_has_no_event_is_refused_by_accountants():
    accountant = pld.PLDAccountant()
    for guarantee in (Guarantee(1.0, 1e-6), with_losses((PairLoss(0.5, 1e-9), 1))):
        event = guarantee.to_dp_event()
        assert type(event) is dp_event.UnsupportedDpEvent
        assert not accountant.supports(event)
    void = Guarantee(1.0, void_because=("seeded",)).to_dp_event()
    assert type(void) is dp_event.NonPrivateDpEvent
    assert type(Guarantee(1.0, 1.0).to_dp_event()) is dp_event.NonPrivateDpEvent
