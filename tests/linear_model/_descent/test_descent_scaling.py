"""The first stage: its sums are exact, one record moves them as declared, every scaling is safe."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import inner_descent
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_descent import Blocks, Gradients, RowBound, Scaling, keep_scaled, plain_scaling, residual
from inner_fits import GRAM_BITS, NUMBER_BITS, Design, Task, exact_sums

from skdp import Domain, DPCoordinateDescentRegressor, Ledger
from skdp.rows import MemoryRows

UNIT = 2**GRAM_BITS
COLUMNS = {"a": (0.0, 1.0), "b": (-2.0, 2.0), "c": ["x", "y", "z"], "d": ["p", "q"]}
DOMAIN = Domain(COLUMNS, target=(-1.0, 1.0))
BLOCKS = Blocks(DOMAIN, True, all_levels=True)
SIZES = st.floats(-1e12, 1e12)


def table(records):
    """Columns and targets of records (a, b, c, d, y)."""
    people = pd.DataFrame([record[:-1] for record in records], columns=list(COLUMNS))
    return people, np.array([float(record[-1]) for record in records])


def stage_of(blocks, with_target, n, gaussian=False):
    return inner_descent.independent(inner_descent.stage_sums(blocks, with_target, n), gaussian)


def exact_of(stage, records):
    """Return the sums of records."""
    rows = MemoryRows(DOMAIN, *table(records))
    return stage.sums.exact(*exact_sums(rows)).astype(float) / UNIT


def scaling_from(stage, blocks, released, deviation, rows):
    """The scaling after a stage whose sums of numbers have noise of this deviation."""
    facts = {"stage": stage, "rows": rows, "stage_deviation": deviation}
    return inner_descent.scaling_of(SimpleNamespace(blocks=blocks, **facts), released)


def box(blocks=BLOCKS):
    return RowBound(np.ones(len(blocks)))


def short(blocks=BLOCKS):
    return RowBound(np.full(len(blocks), 2.0), 5.0)


def test_sums_are_those_of_the_definition():
    """Against fractions, number by number, on the grid that encoded numbers are rounded to."""
    records = [(0.1, 1.3, "x", "q", 0.3), (7.0, -9.0, "z", "p", -1.0), (0.9, 0.0, "x", "p", 0.7)]
    X, y = table(records)
    grid = 2**NUMBER_BITS
    encoded = np.column_stack([DOMAIN.encode(X)[:, :2], y])
    exact = [[Fraction(round(v * grid), grid) for v in row] for row in encoded]
    first = [sum(column) for column in zip(*exact, strict=True)]
    second = [sum(v * v for v in column) for column in zip(*exact, strict=True)]
    for n, counts in ((3, []), (None, [3])):
        found = stage_of(BLOCKS, True, n).sums.exact(*exact_sums(MemoryRows(DOMAIN, X, y)))
        if n is None:  # 3 x^2 - 2 for each of three records
            second = [3 * square - 6 for square in second]
        expected = [*counts, *first, *second, 2, 0, 1, 2, 1]
        assert [Fraction(int(v), UNIT) for v in found] == expected


CORNERS = list(product((-1.0, 0.5, 3.0), (-2.0, 0.0, 2.0), "xyz", "pq", (-1.0, 0.0, 1.0)))


@pytest.mark.parametrize("with_target", [False, True])
@pytest.mark.parametrize("n", [None, 1])
@pytest.mark.parametrize("gaussian", [False, True])
def test_the_worst_record_moves_the_sums_by_what_is_declared(with_target, n, gaussian):
    """Over all pairs of corner records: squares, or the sums of the greatest, and as much."""
    stage = stage_of(BLOCKS, with_target, n, gaussian)
    rows = np.array([exact_of(stage, [r]) for r in CORNERS]) / stage.units
    dim = stage.sums.dim
    moved = np.abs(rows if n is None else (rows[:, None] - rows).reshape(-1, dim))
    declared = sorted((s for s, count in stage.shifts for _ in range(count)), reverse=True)
    assert len(declared) <= dim
    if gaussian:
        found = (moved**2).sum(axis=1).max() / np.square(declared).sum()
    else:
        falling = -np.sort(-moved, axis=1)
        bounds = np.cumsum(declared + [0.0] * (dim - len(declared)))
        found = (falling.cumsum(axis=1) / bounds).max()
    assert 0.999 < found <= 1 + 1e-12


@pytest.mark.parametrize("with_target", [False, True])
@pytest.mark.parametrize("n", [None, 1])
def test_the_ball_of_a_pure_stage_holds_every_change(with_target, n):
    """Over all pairs of corner records; with 5 % less noise some cost more than epsilon."""
    epsilon, neighbors = 0.7, "add_remove" if n is None else "replace_one"
    task = Task(Design(DOMAIN, True), n, 1.0, neighbors=neighbors)
    stage = inner_descent.plan_descent(
        task, BLOCKS, inner_descent.stage_sums(BLOCKS, with_target, n), share=epsilon
    ).stage
    noise = stage.norm
    rows = np.array([exact_of(stage, [r]) for r in CORNERS])
    changes = rows if n is None else (rows[:, None] - rows).reshape(-1, stage.sums.dim)
    cost = noise.ball.gauge(changes).max() / noise.scale
    assert epsilon * (1 - 1e-9) < cost <= epsilon
    assert cost / 0.95 > epsilon
    exact = noise.variance() / noise.variance()[int(n is None)]
    np.testing.assert_allclose(stage.units**2, exact, rtol=1e-9)


def check_safe(scaling: Scaling, blocks: Blocks) -> None:
    """Finite and positive, and records in it are on the grid."""
    finite = scaling.centre, scaling.scale, scaling.square, scaling.target_deviation, scaling.n
    assert all(np.isfinite(values).all() for values in finite)
    assert (np.abs(scaling.centre) <= 1).all()
    assert abs(scaling.target_centre) <= 1
    # Two levels, -1 and 1, are encoded as 0 and 1.
    assert (scaling.scale >= np.array([0.01, 0.01, 0.005]) * scaling.rows.radius).all()
    assert (scaling.square > 0).all()
    assert scaling.n >= 1
    assert 0 < scaling.target_deviation <= 1
    X, _ = table([(0.0, -2.0, "x", "p", 0), (1.0, 2.0, "z", "q", 0)])
    (kept,) = keep_scaled(MemoryRows(blocks.domain, X, np.zeros(2)), blocks, scaling).states
    weight = kept.weight
    assert ((weight > 0) & (weight <= 1)).all()


@settings(max_examples=60, deadline=None)
@given(
    seen=st.lists(SIZES, min_size=12, max_size=12),
    deviation=st.floats(1e-9, 1e9),
    intercept=st.booleans(),
    with_target=st.booleans(),
    counted=st.booleans(),
    bounded=st.booleans(),
)
def test_scalings_are_safe_whatever_the_noise(
    seen, deviation, intercept, with_target, counted, bounded
):
    blocks = Blocks(DOMAIN, intercept, all_levels=intercept)
    stage = stage_of(blocks, with_target, None if counted else 3)
    rows = short(blocks) if bounded else box(blocks)
    scaling = scaling_from(stage, blocks, np.array(seen[: stage.sums.dim]), deviation, rows)
    check_safe(scaling, blocks)
    assert scaling.is_estimated
    if not intercept:
        assert not scaling.centre.any()


def test_a_negative_count_is_taken_for_the_noise():
    stage = stage_of(BLOCKS, False, None)
    seen = np.array([-500.0] + [0.0] * (stage.sums.dim - 1))
    scaling = scaling_from(stage, BLOCKS, seen, 40.0, box())
    assert scaling.n == 40.0


def test_without_noise_the_scaling_is_the_columns_own():
    """Means, deviations and level shares, to the rounding of the grid."""
    rng = np.random.default_rng(0)
    n = 4000
    X = pd.DataFrame(
        {
            "a": rng.uniform(0.2, 0.6, n),
            "b": rng.normal(0.5, 0.3, n).clip(-2, 2),
            "c": rng.choice(list("xyz"), n, p=[0.5, 0.3, 0.2]),
            "d": rng.choice(list("pq"), n),
        }
    )
    y = rng.normal(0.1, 0.2, n).clip(-1, 1)
    stage = stage_of(BLOCKS, True, n)
    exact = stage.sums.exact(*exact_sums(MemoryRows(DOMAIN, X, y))).astype(float) / UNIT
    scaling = scaling_from(stage, BLOCKS, exact, 1e-9, short())
    encoded = DOMAIN.encode(X)[:, [0, 1, 4]]  # two levels are a number
    np.testing.assert_allclose(scaling.centre, encoded.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(scaling.scale, 3 * encoded.std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(scaling.square[1:4], 1 / 9, rtol=1e-5)
    shares = X["c"].value_counts(normalize=True)[list("xyz")]
    np.testing.assert_allclose(scaling.square[4:7], shares, rtol=1e-5)
    assert scaling.target_centre == pytest.approx(y.mean(), abs=1e-6)
    assert scaling.target_deviation == pytest.approx(y.std(), rel=1e-5)


def test_the_scaling_of_the_domain_bounds_every_square():
    """Nothing was estimated: squares are bounds, and rows of a ball fit."""
    plain = plain_scaling(BLOCKS, 10.0, box())
    assert (plain.square == 1).all()
    assert plain.centre.tolist() == [0, 0, 0.5]
    assert plain.scale.tolist() == [1, 1, 0.5]
    assert not plain.is_estimated
    ball = Blocks(Domain.l2_ball(5, radius=3.0), True)
    assert plain_scaling(ball, 10.0, box(ball)).scale[0] == 0.75
    assert (inner_descent.usual_square(ball) <= 0.06).all()


def test_what_would_make_a_share_infinite_or_nan_is_refused():
    """Theorem 4 (i): one NaN in a sum of integers would show which records it came from."""
    source = MemoryRows(DOMAIN, *table([(0.1, 1.3, "x", "q", 0.3)]))
    fine = plain_scaling(BLOCKS, 10, box())
    for wrong in (0.0, -1.0, 1e-7, np.nan):
        with pytest.raises(ValueError, match="scaling must have centres and scales"):
            keep_scaled(source, BLOCKS, replace(fine, scale=np.array([1.0, wrong, 0.5])))
    kept = keep_scaled(source, BLOCKS, fine)
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="clips must be finite and > 0"):
            Gradients(kept, BLOCKS, None, residual, np.append(np.ones(BLOCKS.dim - 1), wrong))
    gradients = Gradients(kept, BLOCKS, None, residual, np.ones(BLOCKS.dim))
    for wrong in (np.nan, np.inf, -(2.0**21 + 1)):
        with pytest.raises(ValueError, match="a change must be at most"):
            gradients.move(1, np.array([wrong]))


@pytest.mark.parametrize(("clip", "half_width"), [(1e30, 1e-123), (1e-30, 1e300)])
def test_a_clip_without_a_unit_is_refused_before_anything_is_spent(clip, half_width):
    """Its square, or its inverse, would not be a float."""
    domain = Domain({"u": ["a", "b"]}, target=(-half_width, half_width))
    model = DPCoordinateDescentRegressor(domain=domain, delta=1e-6, clip=clip, ledger=Ledger(1.0))
    with pytest.raises(ValueError, match=r"clip must be 1e-60 to 1e\+60 times half the width"):
        model.fit(pd.DataFrame({"u": ["a", "b"]}), [0.0, 0.0])
    assert not model.ledger.entries
