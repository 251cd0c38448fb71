"""The promises of a domain: what it accepts, what comes out encoded, and what it never tells."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pandas as pd
from declared import ENCODED_PEOPLE, LARGEST, PEOPLE, domains, finite, people
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.domain import Domain

# Strategies: any domain of named columns, with tables that need not fit it.


def cells(column, may_be_missing):
    if isinstance(column, list):
        return st.sampled_from([*column, "unknown", None, float("nan"), 17, (1, 2)])
    lower, upper = column
    found = finite | st.sampled_from(column) | st.floats(lower, upper)
    return found | st.just(float("nan")) if may_be_missing else found


@st.composite
def domains_and_frames(draw):
    domain, columns = draw(domains())
    n = draw(st.integers(0, 5))
    data = {
        name: draw(st.lists(cells(column, own.missing is not None), min_size=n, max_size=n))
        for (name, column), own in zip(columns.items(), domain._columns, strict=True)
    }
    series = {
        name: pd.Series(values, dtype=object if isinstance(columns[name], list) else float)
        for name, values in data.items()
    }
    return domain, pd.DataFrame(series)


@st.composite
def balls_and_rows(draw):
    d = draw(st.integers(1, 12))
    radius = draw(st.floats(1e-150, 1e150) | st.sampled_from([1.0, 0.1, 3.0]))
    near = st.floats(-2 * radius, 2 * radius)
    rows = draw(st.lists(st.lists(finite | near, min_size=d, max_size=d), min_size=1, max_size=4))
    return Domain.l2_ball(d, radius), np.array(rows)


# Encoding


def test_encoding_by_hand():
    np.testing.assert_array_equal(PEOPLE.encode(people()), ENCODED_PEOPLE)
    assert PEOPLE.encoded_names() == ("age", "sex_Male", "hours", "job_b", "job_c")


@settings(max_examples=150, deadline=None)
@given(domains_and_frames())
def test_encoded_rows_keep_the_promise(case):
    """Numbers lie in [-1, 1], blocks are of zeros with at most one 1: exactly, in floats."""
    domain, frame = case
    rows = domain.encode(frame)
    assert rows.shape == (len(frame), domain.n_encoded)
    assert (np.abs(rows[:, domain.number_index]) <= 1).all()
    for block in domain.blocks:
        assert np.isin(rows[:, block], [0.0, 1.0]).all()
        assert (rows[:, block].sum(axis=1) <= 1).all()
    for p in (1, 2, math.inf):
        assert (np.linalg.norm(rows, p, axis=1) <= domain.row_norm(p)).all()
    names = domain.encoded_names()
    for k in domain.number_index.tolist():
        if (missing := f"{names[k]}_missing") in names:
            assert not rows[rows[:, names.index(missing)] == 1, k].any()


@settings(max_examples=100, deadline=None)
@given(domains_and_frames())
def test_encoding_twice_changes_nothing(case):
    domain, frame = case
    rows = domain.encode(frame)
    np.testing.assert_array_equal(domain.encoded.encode(rows), rows)
    named = pd.DataFrame(rows, columns=list(domain.encoded.names))
    np.testing.assert_array_equal(domain.encoded.encode(named), rows)
    assert domain.encoded.encoded == domain.encoded


@settings(max_examples=300, deadline=None)
@given(balls_and_rows())
def test_ball_is_kept_exactly(case):
    """In whatever way the norm is computed, exactly too, it is at most the radius."""
    domain, rows = case
    encoded = domain.encode(rows)
    for row in encoded:
        assert np.linalg.norm(row) <= domain.radius
        assert math.hypot(*row) <= domain.radius
        assert sum(Fraction(float(x)) ** 2 for x in row) <= Fraction(domain.radius) ** 2
    np.testing.assert_array_equal(domain.encode(encoded), encoded)


@settings(max_examples=100, deadline=None)
@given(balls_and_rows())
def test_ball_scales_rows_outside_and_keeps_those_inside(case):
    domain, rows = case
    for row, encoded in zip(rows, domain.encode(rows), strict=True):
        peak = float(np.abs(row).max())
        norm = math.hypot(*(row / peak)) if peak else 0.0
        if peak * norm <= 0.999 * domain.radius:
            np.testing.assert_array_equal(encoded, row)
        elif peak * norm > 1.001 * domain.radius:
            sphere = row / peak * (domain.radius / norm)
            np.testing.assert_allclose(encoded, sphere, rtol=1e-12, atol=1e-14 * domain.radius)


def test_bounds_are_encoded_exactly():
    """The bounds become -1 and 1, their middle 0; outside is like the nearest bound."""
    for lower, upper in [(0, 1), (-3, 7.7), (1e16, 1e16 + 2), (-LARGEST, LARGEST), (0, 1e-300)]:
        middle = upper / 2 + lower / 2
        column = np.array([[lower], [upper], [-LARGEST], [LARGEST]])
        domain = Domain.box([lower], [upper])
        assert domain.encode(column)[:, 0].tolist() == [-1, 1, -1, 1]
        assert abs(domain.encode([[middle]])[0, 0]) <= 1e-15 or upper == 1e16 + 2


def test_out_is_written_in_place_and_x_is_left_alone():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    before = rows.copy()
    wide = np.ones((50, 3))
    domain = Domain.box([-1, 0], [2, 1])
    result = domain.encode(rows, out=wide[:, 1:])
    assert np.shares_memory(result, wide)
    np.testing.assert_array_equal(wide[:, 1:], domain.encode(rows))
    np.testing.assert_array_equal(wide[:, 0], 1)
    np.testing.assert_array_equal(rows, before)


def test_one_new_array_is_all_the_memory():
    rows = np.random.default_rng(0).normal(size=(100_000, 20))
    domain = Domain.box([-1] * 20, [2] * 20)
    tracemalloc.start()
    domain.encode(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * rows.nbytes


def test_a_single_level_leaves_no_column():
    domain = Domain({"x": (0, 1), "constant": ["only"], "y": (0, 1)})
    assert (domain.n_encoded, domain.block_sizes, domain.n_columns) == (2, (0,), 3)
    np.testing.assert_array_equal(
        domain.encode([[0, "only", 1], [1, "odd", 0]]), [[-1, 1], [1, -1]]
    )
    assert domain.encoded.encoded == domain.encoded


def test_indicators_are_projected_row_by_row():
    """The largest entry above 1/2 becomes 1, the first of ties; all others become 0."""
    domain = Domain({"x": ["a", "b", "c", "d"]}).encoded
    rows = [[0, 0, 1], [0.5, 0.5, 0.5], [0.6, 0.7, 0.1], [1, 1, 1], [-5, 9, 3], [-1, -1, -1]]
    expected = [[0, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(domain.encode(rows), expected)
