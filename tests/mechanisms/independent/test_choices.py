"""Noise beside private choices: both together keep the budget, and only just."""

import math

import pytest

from skdp.mechanisms.independent.choices import calibrate_with_choices, choice_width
from skdp.noise import Laplace
from skdp.privacy import Composition, SelectionLoss, ShiftLoss

BUDGETS = [(1.0, 1e-6, 20), (10.0, 1e-6, 5), (0.1, 1e-9, 100)]


@pytest.mark.rest_is_slow(3)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "flipped_huber"])
@pytest.mark.parametrize(("epsilon", "delta", "count"), BUDGETS)
def test_choices_and_releases_keep_the_budget_together(mechanism, epsilon, delta, count):
    """Certified from above; with 5 % less noise the lower bound breaks it."""
    budget = {"epsilon": epsilon, "delta": delta}
    choices = choice_width(count, **budget), count
    shifts = [(2.0, count), (0.5, 3)]
    noise = calibrate_with_choices(mechanism, shifts, choices, neighbors="replace_one", **budget)
    assert Composition(noise.losses).delta_at(epsilon).upper <= delta
    assert noise.guarantee.delta_at(epsilon) <= delta
    # Computed anew, from the law that is drawn from.
    fixed = (SelectionLoss(choices[0]), count)
    for factor, kept in ((1.0, True), (0.95, False)):
        law = noise.law.scaled(factor)
        parts = [*((ShiftLoss(law, size), n) for size, n in shifts), fixed]
        bounds = Composition(parts).delta_at(epsilon)
        assert bounds.upper <= delta * (1 + 1e-3) if kept else bounds.lower > delta


def test_without_a_delta_greatest_losses_add_up():
    """Half for the choices, half for the releases."""
    width = choice_width(10, epsilon=2.0)
    assert width == pytest.approx(0.1)
    noise = calibrate_with_choices(
        "auto", [(2.0, 10)], (width, 10), neighbors="replace_one", epsilon=2.0
    )
    assert noise.law.scale == pytest.approx(2.0 * 10 / 1.0)
    assert isinstance(noise.law, Laplace)
    total = Composition(noise.losses).epsilon_at(0.0).upper
    assert total == pytest.approx(2.0)
    assert noise.guarantee.epsilon == 2.0


def test_choices_get_about_half_of_what_there_is():
    """Twice as many choices are half as telling in variance; a hopeless width is refused."""
    one, four = (choice_width(n, epsilon=1.0, delta=1e-6) for n in (1, 4))
    assert one / four == pytest.approx(2.0)
    assert 0 < four < one < math.inf
    with pytest.raises(ValueError, match="epsilon"):
        calibrate_with_choices("laplace", [(1.0, 1)], (2.0, 1), neighbors="replace_one", epsilon=1)
