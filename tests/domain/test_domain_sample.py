"""Rows drawn from a domain: inside it, and as uniform as they are said to be."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from skdp import Domain, DPHuberRegressor, DPLogisticRegression

COLUMNS = {"age": (17, 90), "sex": ["f", "m"], "job": ["none", "clerk", "smith"], "grade": [1, 2]}
MIXED = Domain(COLUMNS, target=["no", "yes"])
# A test at this level fails by chance once in ten million runs; seeds are fixed all the same.
ALARM = 1e-7


def test_a_frame_holds_what_the_domain_declares():
    """Names, bounds and levels; numbers are uniform, and a slightly narrower law is told apart."""
    X = MIXED.sample(20_000, random_state=0)
    assert list(X.columns) == list(MIXED.names)
    unit = (X["age"].to_numpy() - 17) / 73
    assert kstest(unit, "uniform").pvalue > ALARM
    assert kstest(0.95 * unit, "uniform").pvalue < ALARM
    for name, levels in list(COLUMNS.items())[1:]:
        share = X[name].value_counts(normalize=True)
        # Six standard deviations of a count of 20 000: 6e-9 for each level.
        np.testing.assert_allclose(share[list(levels)], 1 / len(levels), atol=3 / np.sqrt(20_000))
    assert X["grade"].dtype.kind == "i"


def test_encoding_changes_nothing_of_encoded_rows():
    """A block of indicators has one 1 or none, each as likely as another."""
    rows = MIXED.encoded.sample(5000, random_state=1)
    np.testing.assert_array_equal(MIXED.encoded.encode(rows), rows.to_numpy())
    jobs = rows[["job_clerk", "job_smith"]]
    assert set(jobs.sum(axis=1)) == {0.0, 1.0}
    np.testing.assert_allclose(jobs.mean(), 1 / 3, atol=3 / np.sqrt(5000))


def test_without_pandas_or_names_there_are_arrays(monkeypatch):
    box = Domain.box([0, -5], [1, 5]).sample(100, random_state=2)
    assert box.dtype == float
    assert (box.min(axis=0) >= [0, -5]).all()
    assert (box.max(axis=0) <= [1, 5]).all()
    monkeypatch.setitem(sys.modules, "pandas", None)
    mixed = MIXED.sample(100, random_state=2)
    assert isinstance(mixed, np.ndarray)
    assert mixed.dtype == object
    assert MIXED.encode(mixed).shape == (100, MIXED.n_encoded)


def test_a_ball_is_filled_evenly():
    """The d-th power of the norm is uniform, and directions have mean zero."""
    rows = Domain.l2_ball(3, 2.0).sample(20_000, random_state=3)
    share = (np.linalg.norm(rows, axis=1) / 2) ** 3
    assert kstest(share, "uniform").pvalue > ALARM
    assert kstest(share ** (2 / 3), "uniform").pvalue < ALARM
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=6 * 0.9 / np.sqrt(20_000))


def test_a_target_depends_on_the_row():
    X, y = MIXED.sample(4000, random_state=4, with_target=True)
    assert isinstance(X, pd.DataFrame)
    assert set(y) == {"no", "yes"}
    model = DPLogisticRegression(epsilon=10.0, domain=MIXED, random_state=0).fit(X, y)
    assert model.score(X, y) > max(np.mean(y == "yes"), np.mean(y == "no")) + 0.1
    pay = Domain(COLUMNS, target=(0, 1000))
    X, y = pay.sample(4000, random_state=4, with_target=True)
    assert 0 <= y.min() < y.max() <= 1000
    model = DPHuberRegressor(epsilon=10.0, domain=pay, random_state=0).fit(X, y)
    assert 0.6 < model.score(X, y) < 0.95


def test_errors_name_the_rule():
    with pytest.raises(ValueError, match="n must be an integer >= 1"):
        MIXED.sample(0)
    with pytest.raises(ValueError, match="target must be declared"):
        Domain.unit_box(2).sample(3, with_target=True)
