from __future__ import annotations

import math
import re
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from exact_gradient import (
    LOSSES,
    SHAPES,
    FloatArray,
    Problem,
    dense_hessian,
    distance,
    exact_gradient,
    in_ball,
    on_grid,
    problem,
)
from inner_objective import (
    SAMPLE_CELLS,
    DesignRows,
    NotCertified,
    attainable_tolerance,
    certified_gradient,
    minimise,
    sample_of,
)
from inner_objective import minimise_module as _minimise
from scipy.optimize import approx_fprime

from skdp.linear_model.losses import LogisticLoss, PseudoHuber, SharpLogistic
from skdp.rows import KeptBlocks


def tolerance_of(made: Problem, *, radius: float = 100.0) -> float:
    loss, n, d = made.loss, made.n, made.dim
    steepest = float(loss.curvature_bound(0.0, loss.slope_bound))
    size = float(np.linalg.norm(made.linear_term))
    return attainable_tolerance(
        n, made.row_norm, d, loss.slope_bound, steepest, radius=radius, linear_term=size
    )


def value(made: Problem, theta: FloatArray) -> float:
    loss = made.loss.value(made.matrix() @ theta, made.target)
    weighted = loss if made.weight is None else made.weight * loss
    return float(weighted.sum() + made.ridge @ theta**2 / 2 + made.linear_term @ theta)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_positions_of_labels_are_targets_of_0_and_1(label: int) -> None:
    """Gradient, Hessian, certificate and minimum are those of the indicators of the label."""
    made = problem(300, 4, LogisticLoss(), weighted=True, intercept=True, sizes=(3,))
    labels = np.random.default_rng(3).integers(0, 3, 300)
    numbers = replace(made, target=(labels == label).astype(float)).objective((7,))
    positions = replace(made, target=labels.astype(np.uint8)).objective((7,))
    positions = replace(positions, label=label)
    theta = np.random.default_rng(4).normal(size=made.dim)
    assert np.array_equal(positions.gradient(theta), numbers.gradient(theta))
    pair = [dense_hessian(own, theta) for own in (positions, numbers)]
    assert np.array_equal(*pair)
    gradients = [certified_gradient(own, theta) for own in (positions, numbers)]
    assert np.array_equal(gradients[0].value, gradients[1].value)
    assert gradients[0].error == gradients[1].error
    tolerance = tolerance_of(made)
    found = [minimise(own, tolerance).theta for own in (positions, numbers)]
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradient_and_hessian_are_derivatives(loss: Any, shape: str) -> None:
    intercept, sizes = SHAPES[shape]
    made = problem(60, 4, loss, weighted=True, intercept=intercept, sizes=sizes)
    theta = np.random.default_rng(1).normal(size=made.dim)
    slope = approx_fprime(theta, partial(value, made), 1e-6)
    for cuts in ((), (1, 17)):
        objective = made.objective(cuts)
        assert objective.gradient(theta) == pytest.approx(slope, rel=1e-4, abs=1e-4)
        curvature = approx_fprime(theta, objective.gradient, 1e-7)
        assert dense_hessian(objective, theta) == pytest.approx(curvature, rel=1e-4, abs=1e-4)


def test_columns_of_many_levels_have_a_diagonal(monkeypatch: Any) -> None:
    """The matrix of the other coordinates and the diagonal are those of the whole matrix."""
    made = problem(300, 2, LogisticLoss(), weighted=True, intercept=True, sizes=(3, 40, 5))
    objective, theta = made.objective((70,)), np.random.default_rng(5).normal(size=made.dim)
    whole = dense_hessian(objective, theta)
    monkeypatch.setattr("skdp.linear_model._objective.problem.MOST_CORE", 20)
    (core,), (matrix,), diagonal = objective.hessian(theta)
    assert len(core) == made.dim - 39
    np.testing.assert_allclose(matrix, whole[np.ix_(core, core)], rtol=1e-12)
    np.testing.assert_allclose(diagonal, whole.diagonal(), rtol=1e-12)
    found = minimise(objective, tolerance_of(made))
    assert float(distance(exact_gradient(made, found.theta))) <= found.gradient_norm


@pytest.mark.parametrize("radius", [1e-40, 3.0, 1e30])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_rows_of_a_ball_have_the_unit_of_its_radius(
    loss: Any, intercept: bool, radius: float
) -> None:
    """Predictor, gradient, Hessian, certificate and minimum are those of the exact rows."""
    made = in_ball(problem(120, 4, loss, weighted=True, intercept=intercept), radius)
    objective = made.objective((7,))
    theta = np.random.default_rng(4).normal(size=made.dim) / np.sqrt(made.ridge)
    exact = exact_gradient(made, theta)
    found = certified_gradient(objective, theta)
    assert found.error < 1e-9 * float(distance(exact))
    assert distance(exact, found.value) <= found.error
    plain = [float(g) for g in exact]
    assert objective.gradient(theta) == pytest.approx(plain, rel=1e-9)
    step = 1e-6 / np.sqrt(made.ridge)
    hessian, rows = dense_hessian(objective, theta), np.diag(step)
    for k, own in enumerate(rows):
        moved = objective.gradient(theta + own) - objective.gradient(theta - own)
        expected = moved / (2 * step[k]) / np.sqrt(made.ridge * made.ridge[k])
        of_column = hessian[k] / np.sqrt(made.ridge * made.ridge[k])
        assert of_column == pytest.approx(expected, rel=1e-3, abs=1e-3)
    minimum = minimise(objective, tolerance_of(made) * max(1.0, radius))
    assert distance(exact_gradient(made, minimum.theta)) <= minimum.gradient_norm


def separable(n: int, d: int, loss: Any, ridge: float) -> Problem:
    made = problem(n, d, loss, ridge=ridge, linear_term=ridge)
    return replace(made, target=(made.design[:, -1] > 0).astype(float))


def mixed(loss: Any, linear_term: float) -> Problem:
    return problem(120, 10, loss, ridge=10.0 ** np.linspace(-6, 12, 10), linear_term=linear_term)


def separated(made: Problem) -> Problem:
    assert made.codes is not None
    return replace(made, target=made.codes[:, 0].astype(float))


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
        design=np.ones((80, 4)) * on_grid(np.linspace(-1, 1, 80))[:, None],
    ),
    "levels that nobody has": lambda loss: replace(
        problem(60, 2, loss, ridge=1e-3, linear_term=0.01, intercept=True, sizes=(4, 9)),
        codes=np.zeros((60, 2), dtype=int),
    ),
    "one record, many levels": lambda loss: problem(
        1, 1, loss, ridge=1e-3, linear_term=0.01, intercept=True, sizes=(50,)
    ),
    "levels as separate as the target": lambda loss: separated(
        problem(200, 1, loss, ridge=1e-6, linear_term=1e-6, sizes=(2, 3))
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
    made = HARD[case](loss)
    # Where ridge is tiny against the linear term, predictors are as large as they must be.
    moderate = float(np.abs(made.linear_term / made.ridge).sum())
    tolerance = tolerance_of(made, radius=max(100.0, moderate))
    found = minimise(made.objective(range(3, made.n, 11)), tolerance)
    assert found.gradient_norm <= tolerance
    assert distance(exact_gradient(made, found.theta)) <= found.gradient_norm


class Streamed(KeptBlocks):
    """Rows of which each sum counts as a reading of their source."""

    is_read_again = True
    readings = 0

    def sum(self, part: Any) -> Any:
        self.readings += 1
        return super().sum(part)


@pytest.mark.parametrize("ridge", [1e-5, 1e-3])
@pytest.mark.parametrize("constant", ["one column", "all columns"])
def test_streams_with_constant_columns_need_few_readings(constant: str, ridge: float) -> None:
    """With little ridge for each row, errors of single precision in the Hessian exceed it."""
    made = problem(
        20_000, 3, LogisticLoss(), ridge=ridge, linear_term=math.sqrt(ridge), intercept=True
    )
    design = made.design.copy()
    columns = slice(0, 1) if constant == "one column" else slice(None)
    design[:, columns] = on_grid(np.array([0.9, -0.7, 0.3]))[columns]
    made = replace(made, design=design)
    objective = made.objective(range(4096, 20_000, 4096))
    rows = Streamed(objective.rows.states)
    minimise(replace(objective, rows=rows), tolerance_of(made, radius=1000.0))
    assert rows.readings <= 15


@pytest.mark.parametrize("loss", [LogisticLoss(), SharpLogistic(), PseudoHuber(0.3)], ids=repr)
@pytest.mark.parametrize("order", ["as drawn", "sorted", "few weights", "levels", "small blocks"])
def test_samples_of_rows_lead_to_the_minimum_of_all(loss: Any, order: str) -> None:
    """20,000 rows are solved by way of 1,250; the answer is the one of a start without samples."""
    sizes = (3, 2) if order == "levels" else ()
    made = problem(20_000, 6, loss, linear_term=20.0, intercept=bool(sizes), sizes=sizes)
    if order == "sorted":
        rows = np.argsort(made.target, kind="stable")
        made = replace(made, design=made.design[rows], target=made.target[rows])
    if order == "few weights":
        made = replace(made, weight=(np.arange(20_000) % 500 == 0).astype(float))
    tolerance = tolerance_of(made)
    objective = made.objective(range(7, 20_000, 53) if order == "small blocks" else None)
    found = minimise(objective, tolerance)
    assert found.gradient_norm <= tolerance
    start = np.zeros(made.dim)
    alone = _minimise._descend(objective, start, _minimise._Metric(objective, start), 1e-7)
    assert np.linalg.norm(found.theta - alone) <= 2e-7


def test_a_sample_of_small_blocks_is_a_share_of_them() -> None:
    """Else a stream of batches of a row each would be kept as a whole."""
    rng, stride, n = np.random.default_rng(0), 400, 20_000
    choose = sample_of(stride * SAMPLE_CELLS, 1)
    levels, found = np.zeros((0, 1), np.uint8), 0
    for x in rng.uniform(-1, 1, n).astype(np.float32):
        found += sum(map(len, choose(DesignRows(np.array([[x]]), levels, np.zeros(1)))))
    assert n / stride / 2 <= found <= 2 * n / stride


def test_a_sample_is_a_share_of_the_rows_with_their_weights_and_levels() -> None:
    """About one of each 16; each of them is a row of the whole, and none is drawn twice."""
    made = problem(5000, 2, LogisticLoss(), weighted=True, intercept=True, sizes=(3,))
    made = replace(made, target=np.arange(5000.0))
    for cuts in (None, range(500, 5000, 500)):
        objective = made.objective(cuts)
        sample = objective.subsample(16)
        (rows,) = sample.rows.states  # type: ignore[attr-defined]
        own = rows.target.astype(int)
        assert sample.n == len(own) == pytest.approx(5000 / 16, rel=0.05)
        assert (np.diff(own) > 0).all()
        assert made.weight is not None
        assert made.codes is not None
        assert np.array_equal(rows.weight, made.weight[own])
        assert np.array_equal(rows.levels[0], made.codes[own, 0])
        assert np.array_equal(rows.numbers.T, made.design[own].astype(np.float32))
        assert sample.ridge == pytest.approx(made.ridge * sample.n / 5000)
        assert sample.linear_term == pytest.approx(made.linear_term * sample.n / 5000)


def test_random_problems_reach_the_attainable_tolerance() -> None:
    """100 problems of many shapes; none of them fails, and a tolerance 10^4 times less does."""
    rng = np.random.default_rng(2)
    failed = 0
    for seed in range(100):
        n, d = int(rng.choice([1, 3, 30, 400])), int(rng.choice([1, 4, 25]))
        sizes = ((), (3,), (2, 4))[seed % 5 % 3]
        made = problem(
            n, d, LOSSES[seed % 4], seed=seed, weighted=seed % 3 == 0, intercept=seed % 2 == 0,
            sizes=sizes,
        )  # fmt: skip
        tolerance = tolerance_of(made)
        assert minimise(made.objective(), tolerance).gradient_norm <= tolerance
        try:
            minimise(made.objective(), tolerance * 1e-4)
        except NotCertified:
            failed += 1
    assert failed == 100


def test_an_impossible_tolerance_is_refused_and_nothing_private_is_said() -> None:
    with pytest.raises(NotCertified) as caught:
        minimise(problem(123, 3, LogisticLoss()).objective(), 1e-300)
    assert re.findall(r"\d+", str(caught.value)) == ["1", "300"]
    assert "noise was drawn" in str(caught.value)
    assert "nothing was released" in str(caught.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_data_that_are_not_finite_are_refused(bad: float) -> None:
    made = problem(30, 3, LogisticLoss())
    for part in ("design", "target"):
        values = getattr(made, part).copy()
        values[-1] = bad
        with pytest.raises(NotCertified):
            minimise(replace(made, **{part: values}).objective((11,)), 1e-6)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.nan, math.inf])
def test_a_tolerance_is_positive_and_finite(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance must"):
        minimise(problem(5, 2, LogisticLoss()).objective(), tolerance)


def test_memory_stays_below_half_of_the_design() -> None:
    made = problem(60_000, 40, LogisticLoss())
    objective, tolerance = made.objective(), tolerance_of(made)
    minimise(objective, tolerance)  # loads compiled functions
    tracemalloc.start()
    minimise(objective, tolerance)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block of float64 has 2.6 MB. The sample has a sixteenth of the rows.
    assert peak <= 0.5 * made.design.nbytes
