"""Sets written with all sorts of cvxpy atoms: the hull is right, or the set is refused in words.

Nothing here is a test of chance.
"""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from skdp.geometry import LpBall, MappedBall, greatest_gauge_over
from skdp.geometry.hull import Hull

V = cp.Variable(2)
ROW, COLUMN = cp.reshape(V, (1, 2), order="F"), cp.reshape(V, (2, 1), order="F")
BOX, ONES = [V <= 2, V >= -2], np.ones(2)
SETS: dict[str, list[Any]] = {
    "min": [cp.min(V) >= -1, V <= 1],
    "max": [cp.max(V) <= 1, cp.min(V) >= -1],
    "sum of smallest": [cp.sum_smallest(V, 1) >= -1, cp.sum_largest(V, 1) <= 1],
    "l2 below a vector": [cp.norm(V, 2) <= np.array([1.0, 2.0])],
    "l2 below an affine vector": [cp.norm(V, 2) <= 1 + 0.1 * V, cp.norm(V, 2) <= 1 - 0.1 * V],
    "squares below a vector": [cp.sum_squares(V) <= ONES],
    "abs below a matrix": [cp.abs(ROW) <= np.ones((3, 2))],
    "concave above a constant": [1 - cp.norm(V, 2) >= 0],
    "inside NonNeg": [cp.constraints.NonNeg(1 - cp.abs(V))],
    "eigenvalues": [cp.lambda_max(cp.diag(V)) <= 1, cp.lambda_min(cp.diag(V)) >= -1],
    "root": [cp.sqrt(V + 2) >= 1, cp.sqrt(2 - V) >= 1],
    "norm along an axis": [cp.norm(ROW, 2, axis=1) <= 1],
    "huber": [cp.sum(cp.huber(V)) <= 1],
    "nuclear": [cp.normNuc(cp.diag(V)) <= 1],
    "total variation": [cp.tv(V) <= 1, *BOX],
    "cones along an axis": [cp.SOC(ONES, ROW)],
    "variance": [cp.var(V) <= 1, *BOX],
}
REFUSED: dict[str, list[Any]] = {
    "finite": [cp.constraints.FiniteSet(V[0], [-1, 0, 1]), *BOX],
    "empty": [cp.Constant(2) <= 1, *BOX],
    "logarithm": [cp.log(1 + V) >= -1, cp.log(1 - V) >= -1],
    "fails in cvxpy": [cp.cvar(V, 0.5) <= 1, *BOX],
}


@pytest.mark.rest_is_slow(6)
@pytest.mark.parametrize("name", SETS)
def test_the_gauge_is_where_the_constraints_end(name: str) -> None:
    """Points just inside the boundary keep every constraint, and those just outside do not."""
    hull = Hull.from_constraints(V, SETS[name])
    rng = np.random.default_rng(0)
    for x in rng.normal(size=(4, 2)):
        x /= hull.gauge(x)
        inside = [holds(SETS[name], side * x * (1 - 1e-5)) for side in (1, -1)]
        outside = [holds(SETS[name], side * x * (1 + 1e-5)) for side in (1, -1)]
        assert all(inside)
        assert not all(outside)
        # A body's support is at least what its points reach.
        assert hull.support(x) >= float(x @ x) * (1 - 1e-5)
    assert (hull.gauge(hull.sample(20, rng)) <= 1 + 1e-9).all()


def holds(constraints: list[Any], v: np.ndarray) -> bool:
    V.save_value(v)
    return all(np.max(c.violation()) <= 1e-9 for c in constraints)


@pytest.mark.parametrize("name", REFUSED)
def test_other_sets_are_refused_in_words(name: str) -> None:
    with pytest.raises(ValueError, match=r"must .*\."):
        Hull.from_constraints(V, REFUSED[name])


def test_how_a_gauge_is_bounded_does_not_depend_on_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a machine where every look at the clock takes a second the bounds are the same."""
    a = np.random.default_rng(3).normal(size=(3, 3))
    before = greatest_gauge_over(LpBall(3, p=3), MappedBall(LpBall(3), a))
    ticks = count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    assert greatest_gauge_over(LpBall(3, p=3), MappedBall(LpBall(3), a)) == before
    assert before.exact
