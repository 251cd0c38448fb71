"""Plans of a fit in many columns: in little time and without matrices over all moments.

Times have a wide margin, for machines that are slow or busy: examples/benchmarks/speed/plans.py
measures.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from examples.benchmarks.speed.plans import ESTIMATORS, Case
from skdp import Domain, DPLogisticRegression
from skdp.geometry import LpBall, MappedBall
from skdp.mechanisms import GaussianNoise, KNormNoise
from skdp.noise.matrix import MatrixNoise

CASES = [
    # Few records, and a column of three or more levels.
    Case("linear", 3, (10, 10), 100, 1e-6, "replace_one", False),
    Case("linear", 3, (3,), 100, 1e-6, "replace_one", True),
    Case("linear", 100, (), 2000, 1e-6, "replace_one", False),
    Case("linear", 200, (3,), 2000, 1e-6, "add_remove", True),
    Case("linear", 300, (100,), 100, 1e-6, "replace_one", True),
    Case("linear", 20, (10_000,), 2000, 0.0, "replace_one", True),
    Case("linear", 20, (10_000,), 2000, 1e-6, "add_remove", False),
    *(
        Case(name, 300, (10_000,), 2000, 1e-6, "replace_one", True)
        for name in ESTIMATORS
        if name != "linear"
    ),
]


@pytest.mark.rest_is_slow(4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_plan_takes_no_room(case: Case) -> None:
    """At most 400 MB; a matrix of all numbers would take up to 40 GB."""
    tracemalloc.start()
    try:
        case.plan()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e8


@pytest.mark.parametrize("mechanism", ["auto", "hull"])
def test_a_fit_of_many_levels_takes_room_for_rows_and_levels_only(mechanism: str) -> None:
    """A square matrix over the levels takes 800 MB, which is 32 kB for each row and level."""
    n, levels = 15_000, 10_000
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, n), rng.integers(0, levels, n)])
    y = rng.integers(0, 2, n)
    few, declared = (Domain({"x": (-1, 1), "level": range(m)}, target=[0, 1]) for m in (10, levels))
    model = DPLogisticRegression(domain=few, mechanism=mechanism, random_state=0)
    model.fit(X[:100] % 10, y[:100]).predict(X[:100] % 10)  # imports are not what is measured
    model.set_params(domain=declared)
    tracemalloc.start()
    try:
        model.fit(X, y).predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The variances of the hull are integrated over 256 nodes.
    assert peak < (10_000 if mechanism == "hull" else 600) * (n + levels)


@pytest.mark.parametrize("mechanism", ["auto", "gaussian", "elliptic", "laplace", "linf", "matrix"])
def test_a_fit_needs_no_covariance_of_all_moments(mechanism: str, monkeypatch: Any) -> None:
    """The moments with a private count need its covariance with the others only."""

    def refuse(self: Any) -> None:
        raise AssertionError(f"a dense covariance of {type(self).__name__}")

    for kind in (GaussianNoise, KNormNoise, MatrixNoise, LpBall, MappedBall):
        monkeypatch.setattr(kind, "covariance", refuse)
    case = Case("linear", 4, (), 300, 1e-6, "add_remove", True, 10.0)
    model = case.model().set_params(mechanism=mechanism, random_state=0)
    rng = np.random.default_rng(0)
    model.fit(rng.uniform(size=(300, 4)), rng.uniform(size=300))
    assert np.isfinite(model.moments_.deviation[0]).all()
