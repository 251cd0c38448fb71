"""Slopes of losses: close to the truth, within [-1, 1], the same wherever a record stands."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from summed_records import SLOPES, on_grid

from skdp.linear_model._descent.gradients import logistic_slope, residual


def test_the_logistic_slope_is_the_logistic_slope():
    u = np.concatenate([np.linspace(-40, 40, 100_001), [0.0, 1e-300, 1e300, -1e300]])
    for y in (0.0, 1.0):
        found = logistic_slope(u, np.full_like(u, y))
        assert np.abs(found - (expit(u) - y)).max() < 2.0**-23
        assert np.abs(found).max() <= 1


def test_far_log_odds_are_certain_on_the_grid():
    slopes = logistic_slope(np.array([-16.0, 16.0]), np.zeros(2))
    assert [on_grid(s) for s in slopes] == [0.0, 1.0]


@pytest.mark.parametrize("slope", [*SLOPES.values(), residual], ids=[*SLOPES, "unbounded"])
def test_a_slope_is_the_same_at_every_place_and_length(slope):
    rng = np.random.default_rng(5)
    u, y = rng.normal(0, 5, 200), rng.integers(0, 2, 200).astype(float)
    whole = slope(u, y)
    for start in range(17):
        for stop in range(start + 1, 200, 7):
            assert np.array_equal(slope(u[start:stop], y[start:stop]), whole[start:stop])
            assert np.array_equal(slope(u[stop::-1], y[stop::-1]), whole[stop::-1])
