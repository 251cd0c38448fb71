"""Searches return an argument that has passed."""

import math

import pytest
from inner_package import passing_below_root


@pytest.mark.parametrize("back", [0.0, 1e-9])
@pytest.mark.parametrize("root", [0.1, 1 / 3, 0.7, 1 - 1e-12])
def test_the_result_has_passed_and_is_near_the_root(root, back):
    seen = {}

    def excess(x):
        seen[x] = math.expm1(x - root)
        return seen[x]

    found = passing_below_root(excess, 0.0, 2.0, xtol=1e-13, back=back)
    assert seen[found] <= 0
    assert found == pytest.approx(root, abs=2e-9 if back else 1e-12)


def test_steps_back_double_until_a_point_passes():
    """Brent's method ends at a root of the computed function, beyond which some points fail."""

    def excess(x):
        return 1.0 if 0.49 < x < 0.5 or x > 0.5 else x - 0.5

    found = passing_below_root(excess, 0.0, 1.0, xtol=1e-6)
    assert excess(found) <= 0
    assert 0.47 < found <= 0.5


def test_the_ends_of_a_bracket():
    """Nothing below it is returned; values without a finite log are raised to the floor."""
    assert passing_below_root(lambda x: 1.0 if x > 0 else -1.0, 0.0, 1.0, xtol=1e-3) == 0.0

    def excess(x):
        return -math.inf if x < 0.5 else x - 0.75

    found = passing_below_root(excess, 0.0, 1.0, xtol=1e-12, floor=-50.0)
    assert found == pytest.approx(0.75, abs=1e-11)
