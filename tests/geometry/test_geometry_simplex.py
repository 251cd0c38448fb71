"""The hull of one centred categorical column and its negative.

False alarms: those of the battery, below 1e-6 for all balls together.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ball_battery import BATTERY, Check, lp_gauge

from skdp.geometry import LpBall, ProductBall, SimplexBall, SumBall

DIMS = (1, 2, 3, 4, 7, 40)
TABLE = SumBall((ProductBall((LpBall(1), SimplexBall(2))), SimplexBall(3)), (1.0, 2.0))


@pytest.mark.parametrize("check", BATTERY)
@pytest.mark.parametrize("ball", [*map(SimplexBall, DIMS), TABLE], ids=repr)
def test_simplex_ball(ball: Any, check: Check) -> None:
    check(ball, np.random.default_rng(70))


@pytest.mark.parametrize("m", [*DIMS, 1000])
def test_volume_in_any_dimension(m: int) -> None:
    """The volume is that of {|x|_1 <= 1} in dim + 1 dimensions, seen along (1, ..., 1).

    A facet with signs s counts with |sum(s)|, and each point of the shadow is covered twice.
    """
    shadow = sum(math.comb(m + 1, k) * abs(2 * k - m - 1) for k in range(m + 2))
    truth = math.log(shadow) - math.log(2 * (m + 1)) - math.log(math.factorial(m))
    assert SimplexBall(m).log_volume() == pytest.approx(truth, abs=1e-9)


def rows(m: int) -> Any:
    """Write down the m + 1 rows of the column, less their mean."""
    indicators = np.vstack([np.zeros(m), np.eye(m)])
    return indicators - indicators.mean(axis=0)


@pytest.mark.parametrize("m", [1, 2, 3, 6, 40])
def test_gauge_is_the_least_weight_on_rows(m: int) -> None:
    """The definition itself, by linear programs over all signed rows."""
    signed, rng = np.vstack([rows(m), -rows(m)]), np.random.default_rng(73)
    v = rng.normal(size=(20, m)) * rng.integers(0, 2, (20, m))
    truth = [lp_gauge(signed, x) for x in v]
    np.testing.assert_allclose(SimplexBall(m).gauge(v), truth, rtol=1e-7, atol=1e-9)


def exact_gauge(v: Any) -> Fraction:
    numbers = [Fraction(x) for x in v.tolist()]
    lam = [-sum(numbers, Fraction(0)), *numbers]
    return min(sum((abs(x - t) for x in lam), Fraction(0)) for t in lam)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1.0, 1e300])
def test_gauge_and_support_keep_their_digits_at_every_scale(scale: float) -> None:
    """Against fractions, for even and odd dimensions."""
    for m in (1, 2, 3, 4, 7):
        v = scale * np.round(3 * np.random.default_rng(m).normal(size=(20, m)))
        truth = [float(exact_gauge(x)) for x in v]
        np.testing.assert_allclose(SimplexBall(m).gauge(v), truth, rtol=1e-13, atol=5e-324)
        if scale > 5e-324:
            expected = scale * np.abs((v / scale) @ rows(m).T).max(axis=1)
            np.testing.assert_allclose(SimplexBall(m).support(v), expected, rtol=1e-13)


def test_great_entries_do_not_overflow_on_the_way() -> None:
    """Only the sum of these entries is beyond the floats, not the gauge, not the support."""
    v = np.full(4, 1e308)
    v[3] = 0.5e308
    # lam = (-3.5, 1, 1, 1, 0.5) e308 has gauge 5e308: inf is the right answer for v itself.
    assert SimplexBall(4).gauge(v) == math.inf
    assert float(SimplexBall(4).gauge(0.3 * v)) == pytest.approx(1.5e308, rel=1e-13)
    assert float(SimplexBall(4).support(v)) == pytest.approx(0.7e308, rel=1e-13)


def test_gauge_of_the_infinite_and_the_undefined() -> None:
    with np.errstate(all="raise"):
        for m in (1, 2, 3):
            assert SimplexBall(m).gauge([math.inf] + [1.0] * (m - 1)) == math.inf
            assert np.isnan(SimplexBall(m).gauge([math.nan] + [1.0] * (m - 1)))
            assert SimplexBall(m).gauge(np.zeros(m)) == 0
        assert SimplexBall(2).gauge([math.inf, -math.inf]) == math.inf
