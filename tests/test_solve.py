from __future__ import annotations

import math
import re
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from exact_gradient import LOSSES, FloatArray, distance, exact_gradient, problem
from scipy.optimize import approx_fprime, minimize

from skdp.linear_model._objective import solve as _solve
from skdp.linear_model._objective.certificate import attainable_tolerance
from skdp.linear_model._objective.problem import Objective
from skdp.linear_model._objective.solve import NotCertified, minimise
from skdp.linear_model.losses import Logistic, PseudoHuber, SharpLogistic


def tolerance_of(objective: Objective, *, reach: float = 100.0) -> float:
    loss, (n, d) = objective.loss, objective.design.shape
    steepest = float(loss.curvature_bound(0.0, loss.slope_bound))
    size = float(np.linalg.norm(objective.linear_term))
    return attainable_tolerance(
        n, objective.row_norm, d, loss.slope_bound, steepest, radius=reach, linear_term=size
    )


def value(objective: Objective, theta: FloatArray) -> float:
    loss = objective.loss.value(objective.design @ theta, objective.target)
    weighted = loss if objective.weight is None else objective.weight * loss
    return float(weighted.sum() + objective.ridge @ theta**2 / 2 + objective.linear_term @ theta)


def test_one_column_of_ones_is_solved_by_the_log_odds() -> None:
    """With k of n positive and slope n p - k + v = 0, theta is the log odds of (k - v)/n."""
    target = np.array([1.0] * 7 + [0.0] * 3)
    objective = Objective(
        Logistic(), np.ones((10, 1)), target, np.array([1e-13]), np.array([2.0]), 1.0
    )
    found = minimise(objective, 1e-12)
    assert found.theta[0] == pytest.approx(math.log(5 / 5), abs=1e-12)
    shifted = minimise(replace(objective, linear_term=np.array([-2.0])), 1e-12)
    assert shifted.theta[0] == pytest.approx(math.log(9 / 1), rel=1e-11)


def test_a_wide_pseudo_huber_loss_gives_ridge_regression() -> None:
    """At c = 1e7 the slope is the residual to 1e-13 of it, and the minimum linear algebra."""
    objective = problem(200, 6, PseudoHuber(1e7), weighted=True)
    x, w = objective.design, objective.weight
    assert w is not None
    normal = x.T @ (w[:, None] * x) + np.diag(objective.ridge)
    expected = np.linalg.solve(normal, x.T @ (w * objective.target) - objective.linear_term)
    theta = minimise(objective, tolerance_of(objective)).theta
    assert theta == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_scipy_finds_no_lower_point_and_the_same_one(loss: Any, weighted: bool) -> None:
    objective = problem(300, 5, loss, weighted=weighted, linear_term=3.0)
    found = minimise(objective, tolerance_of(objective))
    other: Any = minimize(
        partial(value, objective),
        np.zeros(5),
        jac=objective.gradient,
        hess=objective.hessian,
        method="trust-exact",
        options={"gtol": 1e-9},
    )
    assert value(objective, found.theta) <= other.fun + 1e-10
    # Strong convexity: |theta - minimiser| <= |gradient| / ridge at both points.
    apart = (np.linalg.norm(objective.gradient(other.x)) + found.gradient_norm) / 1.0
    assert np.linalg.norm(found.theta - other.x) <= apart + 1e-12


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradient_and_hessian_are_derivatives(loss: Any) -> None:
    objective = problem(60, 4, loss, weighted=True)
    theta = np.random.default_rng(1).normal(size=4)
    slope = approx_fprime(theta, partial(value, objective), 1e-6)
    assert objective.gradient(theta) == pytest.approx(slope, rel=1e-4, abs=1e-4)
    curvature = approx_fprime(theta, objective.gradient, 1e-7)
    assert objective.hessian(theta) == pytest.approx(curvature, rel=1e-4, abs=1e-4)


def separable(n: int, d: int, loss: Any, ridge: float) -> Objective:
    objective = problem(n, d, loss, ridge=ridge, linear_term=ridge)
    return replace(objective, target=(objective.design[:, -1] > 0).astype(float))


def mixed(loss: Any, linear_term: float) -> Objective:
    return problem(120, 10, loss, ridge=10.0 ** np.linspace(-6, 12, 10), linear_term=linear_term)


HARD = {
    "one record": lambda loss: problem(1, 1, loss),
    "one record, many columns": lambda loss: problem(1, 60, loss, ridge=1e-3, linear_term=0.01),
    "more columns than records": lambda loss: problem(15, 60, loss, ridge=0.1),
    "separable": lambda loss: separable(200, 4, loss, 1e-6),
    "ridges of 1e-6 to 1e12": lambda loss: mixed(loss, 1.0),
    "the same with a linear term of 1e8": lambda loss: mixed(loss, 1e8),
    "linear term of 1e8": lambda loss: problem(100, 5, loss, linear_term=1e8),
    "no weight": lambda loss: replace(problem(50, 4, loss), weight=np.zeros(50)),
    "collinear": lambda loss: replace(
        problem(80, 4, loss, ridge=1e-3, linear_term=0.01),
        design=np.ones((80, 4)) * np.linspace(-1, 1, 80)[:, None],
    ),
    "far outliers": lambda loss: (
        replace(problem(80, 4, loss), target=np.full(80, 1e6))
        if isinstance(loss, PseudoHuber)
        else problem(80, 4, loss)
    ),
    "no slope at the start": lambda loss: replace(
        problem(3, 2, loss), design=np.zeros((3, 2)), linear_term=np.zeros(2)
    ),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_hard_problems_are_solved_and_the_certificate_is_true(loss: Any, case: str) -> None:
    objective = HARD[case](loss)
    # Where ridge is tiny against the linear term, predictors are as large as they must be.
    moderate = float(np.abs(objective.linear_term / objective.ridge).sum())
    tolerance = tolerance_of(objective, reach=max(100.0, moderate))
    found = minimise(objective, tolerance)
    assert found.gradient_norm <= tolerance
    assert distance(exact_gradient(objective, found.theta)) <= found.gradient_norm


@pytest.mark.parametrize("loss", [Logistic(), SharpLogistic(), PseudoHuber(0.3)], ids=repr)
@pytest.mark.parametrize("order", ["as drawn", "sorted", "few weights"])
def test_samples_of_rows_lead_to_the_minimum_of_all(loss: Any, order: str) -> None:
    """20,000 rows are solved by way of 1,250; the answer is the one of a start without samples."""
    objective = problem(20_000, 6, loss, linear_term=20.0)
    if order == "sorted":
        rows = np.argsort(objective.target, kind="stable")
        objective = replace(objective, design=objective.design[rows], target=objective.target[rows])
    if order == "few weights":
        objective = replace(objective, weight=(np.arange(20_000) % 500 == 0).astype(float))
    tolerance = tolerance_of(objective)
    found = minimise(objective, tolerance)
    assert found.gradient_norm <= tolerance
    start = np.zeros(6)
    alone = _solve._descend(objective, start, _solve._Metric(objective, start), 1e-7)
    assert np.linalg.norm(found.theta - alone) <= 2e-7


def test_random_problems_reach_the_attainable_tolerance() -> None:
    """300 problems of many shapes; none of them fails, and a tolerance 10^4 times less does."""
    rng = np.random.default_rng(2)
    failed = 0
    for seed in range(300):
        n, d = int(rng.choice([1, 3, 30, 400])), int(rng.choice([1, 4, 25]))
        objective = problem(n, d, LOSSES[seed % 4], seed=seed, weighted=seed % 3 == 0)
        tolerance = tolerance_of(objective)
        assert minimise(objective, tolerance).gradient_norm <= tolerance
        try:
            minimise(objective, tolerance * 1e-4)
        except NotCertified:
            failed += 1
    assert failed == 300


def test_the_same_problem_has_the_same_answer() -> None:
    objective = problem(20_000, 5, Logistic())
    first, second = (minimise(objective, tolerance_of(objective)) for _ in range(2))
    assert np.array_equal(first.theta, second.theta)


def test_an_impossible_tolerance_is_refused_and_nothing_private_is_said() -> None:
    with pytest.raises(NotCertified) as caught:
        minimise(problem(123, 3, Logistic()), 1e-300)
    assert re.findall(r"\d+", str(caught.value)) == ["1", "300"]
    assert "noise was drawn" in str(caught.value)
    assert "nothing was released" in str(caught.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_data_that_are_not_finite_are_refused(bad: float) -> None:
    objective = problem(30, 3, Logistic())
    for part in ("design", "target"):
        values = getattr(objective, part).copy()
        values[-1] = bad
        with pytest.raises(NotCertified):
            minimise(replace(objective, **{part: values}), 1e-6)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.nan, math.inf])
def test_a_tolerance_is_positive_and_finite(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance must"):
        minimise(problem(5, 2, Logistic()), tolerance)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("design", np.ones((7, 2), order="F")),
        ("design", np.ones((7, 2), dtype=np.float32)),
        ("design", np.ones(7)),
        ("target", np.ones(6)),
        ("target", np.ones(7, dtype=int)),
        ("weight", np.ones(8)),
        ("ridge", np.array([1.0, 0.0])),
        ("ridge", np.array([1.0, math.nan])),
        ("linear_term", np.ones(3)),
        ("row_norm", 0.0),
    ],
)
def test_a_malformed_problem_is_refused_without_its_number_of_rows(part: str, value: Any) -> None:
    good = problem(7, 2, Logistic())
    with pytest.raises(ValueError, match=f"{part} must") as caught:
        replace(good, **{part: value})
    assert "7" not in str(caught.value)


def test_memory_stays_below_half_of_the_design() -> None:
    objective = problem(60_000, 40, Logistic())
    tracemalloc.start()
    minimise(objective, tolerance_of(objective))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One block of the design is 2 MB, of which the certificate holds two.
    assert peak <= 0.5 * objective.design.nbytes
