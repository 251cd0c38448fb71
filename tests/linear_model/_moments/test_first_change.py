"""The changes of scaled moments that are stated, against the statistics of records."""

import math

import numpy as np
import pytest
from inner_moments import FirstChange, cross_change, first_sums, moments_module

from skdp import Domain
from skdp.geometry import LpBall

DOMAIN = Domain({"a": (-1, 1), "b": (-1, 1), "s": list("xyz"), "t": ["p", "q"]}, target=(-1, 1))
LAYOUT = moments_module.layout_of(DOMAIN)


def records(n, rng):
    """Return encoded records (x, y), many of them at bounds or 0."""
    rows = np.zeros((n, DOMAIN.n_encoded + 1))
    places = [*DOMAIN.number_index.tolist(), DOMAIN.n_encoded]
    rows[:, places] = rng.choice([-1, -0.5, 0, 0.3, 1], (n, len(places)))
    for block in DOMAIN.blocks:
        if (size := block.stop - block.start) > 0:
            rows[:, block] = np.eye(size + 1)[rng.integers(0, size + 1, n)][:, 1:]
    return rows


def statistics(sums, rows):
    """Return the contributions of records to the first release, in floats."""
    shift = sums.is_counted * 1.0
    squares = 2 * rows[:, sums.squares] ** 2 - shift
    return np.column_stack([*[np.ones(len(rows))] * sums.is_counted, rows, squares])


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_no_record_changes_the_sums_by_more_and_some_by_nearly_as_much(neighbors):
    rng = np.random.default_rng(0)
    sums = first_sums(LAYOUT, None if neighbors == "add_remove" else 10)
    found = statistics(sums, records(3000, rng))
    if neighbors == "replace_one":
        found = found - found[rng.permutation(len(found))]
    change = FirstChange(LAYOUT, sums, neighbors)
    for _ in range(20):
        deviation = np.exp(rng.uniform(-1, 1, sums.dim))
        bound = change.length_in(deviation)
        assert 0.7 * bound < np.linalg.norm(found / deviation, axis=1).max() <= bound
    assert np.abs(found).max() == pytest.approx(change.radius_in(LpBall(sums.dim, p=math.inf)))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_products_with_the_target_are_in_their_body(neighbors):
    rng = np.random.default_rng(2)
    rows = records(3000, rng)
    found = rows[:, -1:] * np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    if neighbors == "replace_one":
        found = found - found[rng.permutation(len(found))]
    change = cross_change(LAYOUT, neighbors)
    for p in (1, 2, math.inf):
        ball = LpBall(found.shape[1], p=p)
        bound = change.radius_in(ball)
        assert 0.6 * bound < ball.gauge(found).max() <= bound
