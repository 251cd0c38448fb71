from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from exact_gradient import LOSSES, FloatArray, distance, exact_gradient, problem
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.linear_model._objective import certificate as _certificate
from skdp.linear_model._objective.certificate import attainable_tolerance, certified_gradient
from skdp.linear_model._objective.problem import Objective
from skdp.linear_model.losses import Logistic, PseudoHuber


def holds(objective: Objective, theta: FloatArray, *, local: bool = False) -> bool:
    """Say whether the certified gradient is as near the exact one as it claims."""
    found = certified_gradient(objective, theta, local=local)
    exact = exact_gradient(objective, theta)
    return bool(distance(exact, found.value) <= found.error and distance(exact) <= found.norm)


def cancelling(loss: Any, seed: int = 1) -> tuple[Objective, FloatArray]:
    """Return predictors of order 1 that are differences of terms of order 1e8."""
    rng = np.random.default_rng(seed)
    objective = problem(12, 6, loss, seed=seed)
    theta = rng.normal(size=6) * 1e8
    design = objective.design.copy()
    design[:, 0] = (rng.normal(size=12) - design[:, 1:] @ theta[1:]) / theta[0]
    scale = 1 / np.abs(design).max()
    return replace(objective, design=design * scale, linear_term=-objective.ridge * theta), theta


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("size", [0.0, 1e-250, 1.0, 1e4, 1e12])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_exact_gradient_is_within_the_bound(loss: Any, size: float, local: bool) -> None:
    for weighted in (False, True):
        objective = problem(20, 5, loss, seed=3, weighted=weighted, linear_term=1e6)
        theta = size * np.random.default_rng(4).normal(size=5)
        assert holds(objective, theta, local=local)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_bound_survives_cancellation_within_the_predictor(loss: Any) -> None:
    objective, theta = cancelling(loss)
    assert holds(objective, theta)
    assert holds(objective, theta, local=True)
    # Plain arithmetic could only promise 1e-6 or so.
    assert certified_gradient(objective, theta).error < 1e-10


numbers = st.floats(-1, 1, allow_subnormal=False)
exponents = st.integers(-30, 30)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_the_bound_holds_for_whatever_is_thrown_at_it(data: Any) -> None:
    n, d = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    loss = data.draw(st.sampled_from(LOSSES))

    def draw(*shape: int) -> FloatArray:
        size = math.prod(shape)
        entries = data.draw(st.lists(numbers, min_size=size, max_size=size))
        return np.array(entries, dtype=float).reshape(shape)

    def scaled(size: int) -> FloatArray:
        powers = data.draw(st.lists(exponents, min_size=size, max_size=size))
        return np.asarray(draw(size) * 2.0 ** np.array(powers))

    objective = Objective(
        loss,
        draw(n, d),
        (draw(n) > 0).astype(float),
        np.abs(scaled(d)) + 2.0**-30,
        scaled(d),
        math.sqrt(d),
        np.abs(draw(n)) if data.draw(st.booleans()) else None,
    )
    assert holds(objective, scaled(d), local=data.draw(st.booleans()))


def test_the_order_of_rows_and_columns_plays_no_part() -> None:
    """Over several row blocks, two orders give values that differ by less than their bounds."""
    objective = problem(10_000, 40, Logistic(), seed=5, weighted=True)
    rng = np.random.default_rng(6)
    theta = rng.normal(size=40)
    first = certified_gradient(objective, theta)
    rows, columns = rng.permutation(10_000), rng.permutation(40)
    assert objective.weight is not None
    shuffled = replace(
        objective,
        design=np.ascontiguousarray(objective.design[rows][:, columns]),
        target=objective.target[rows],
        weight=objective.weight[rows],
        ridge=objective.ridge[columns],
        linear_term=objective.linear_term[columns],
    )
    second = certified_gradient(shuffled, theta[columns])
    apart = np.linalg.norm(first.value[columns] - second.value)
    assert apart <= first.error + second.error
    assert first.error == pytest.approx(second.error, rel=1e-6)


def test_the_bound_holds_over_several_blocks() -> None:
    objective = problem(9000, 3, Logistic(), seed=7)
    assert holds(objective, np.array([0.3, -2.0, 11.0]))


@dataclass(frozen=True)
class Sloppy(Logistic):
    """A logistic loss that makes use of the error it is allowed."""

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return super().slope(z, y) + 15 * math.ulp(1.0)


def one_signed(loss: Any) -> tuple[Objective, FloatArray]:
    """Return rows whose errors all push one way."""
    n = 40
    ones, zeros = np.ones((n, 1)), np.zeros(n)
    return Objective(loss, ones, zeros, np.ones(1), np.zeros(1), 1.0), np.array([0.7])


def large_targets() -> tuple[Objective, FloatArray]:
    """Return small residuals of large predictors: each rounding of z moves its slope."""
    rng = np.random.default_rng(8)
    design, theta = rng.uniform(0.5, 1, (30, 2)), np.array([1e6 / 3, 1e6 / 7])
    objective = Objective(PseudoHuber(1.0), design, design @ theta, np.ones(2), theta, 1.5)
    return objective, theta


def test_a_bound_without_the_slope_s_own_error_is_caught(monkeypatch: Any) -> None:
    objective, theta = one_signed(Sloppy())
    found = certified_gradient(objective, theta)
    # The exact slope is the plain logistic one.
    exact = exact_gradient(replace(objective, loss=Logistic()), theta)
    assert distance(exact, found.value) <= found.error
    monkeypatch.setattr(_certificate, "SLOPE_ULPS", 1)
    assert distance(exact, found.value) > certified_gradient(objective, theta).error


@pytest.mark.parametrize("local", [False, True])
def test_a_bound_without_the_predictor_s_rounding_is_caught(monkeypatch: Any, local: bool) -> None:
    objective, theta = large_targets()
    assert holds(objective, theta, local=local)
    own = _certificate.SLOPE_ULPS * math.ulp(1.0)
    monkeypatch.setattr(_certificate, "_slope_error", lambda loss, z, *_: np.full_like(z, own))
    assert not holds(objective, theta, local=local)


def test_a_product_that_is_not_split_is_caught(monkeypatch: Any) -> None:
    objective, theta = cancelling(PseudoHuber(1e3))
    assert holds(objective, theta)
    monkeypatch.setattr(_certificate, "_split", lambda a, *_: (a, np.zeros_like(a)))
    assert not holds(objective, theta)


def test_splitting_is_exact_and_leaves_few_bits() -> None:
    a = np.random.default_rng(9).uniform(-1, 1, 1000) * 2.0 ** np.arange(-999, 1)
    high, low = _certificate._split(a, 2.0**-24)
    assert np.array_equal(high + low, a)
    assert np.array_equal(np.rint(high * 2.0**24), high * 2.0**24)
    assert np.abs(low).max() <= 2.0**-25


def test_leading_products_are_exact_at_the_edge_of_their_claim() -> None:
    """A full block of the greatest entries and slopes, summed in two orders, gives one number."""
    x, v = np.full((4096, 3), 1 - 2.0**-24), np.full(4096, 1 - 2.0**-16)
    x[::3] *= -1
    x_high, _ = _certificate._split(x, 2.0 * 2.0**-24)
    v_high, _ = _certificate._split(v, 2.0 * 2.0**-16)
    order = np.random.default_rng(10).permutation(4096)
    assert np.array_equal(v_high @ x_high, v_high[order] @ x_high[order])
    assert (v_high @ x_high)[0] == math.fsum((v_high * x_high[:, 0]).tolist())


def test_saturated_predictors_are_bounded_by_the_bracket() -> None:
    """Predictors of 1e13 are rounded by 1e-3; the slopes are 0 and 1 all the same."""
    theta = 1e13 * np.random.default_rng(12).normal(size=4)
    objective = replace(problem(50, 4, Logistic(), seed=11), linear_term=-theta)
    assert certified_gradient(objective, theta).error > 1e-4
    assert certified_gradient(objective, theta, local=True).error < 1e-11
    assert holds(objective, theta, local=True)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_is_certified_about_what_is_not_finite(bad: float) -> None:
    objective = problem(5, 2, Logistic())
    with np.errstate(all="ignore"):
        for part in ("design", "target", "linear_term"):
            values = getattr(objective, part).copy()
            values[0] = bad
            broken = replace(objective, **{part: values})
            assert not certified_gradient(broken, np.ones(2)).norm < math.inf
        assert not certified_gradient(objective, np.array([bad, 1.0])).norm < math.inf


def test_the_attainable_tolerance_grows_with_each_public_number() -> None:
    base = {"n": 1000, "row_norm": 2.0, "dim": 4, "slope_bound": 1.0, "curvature_bound": 0.25}
    least = attainable_tolerance(**base)  # type: ignore[arg-type]
    for name, value in base.items():
        assert attainable_tolerance(**{**base, name: 3 * value}) > least  # type: ignore[arg-type]
    assert attainable_tolerance(**base, radius=1e4) > least  # type: ignore[arg-type]
    assert attainable_tolerance(**base, linear_term=1e9) > least  # type: ignore[arg-type]


@pytest.mark.parametrize("dim", [1, 1000])
def test_the_attainable_tolerance_grows_at_least_as_fast_as_the_number_of_rows(dim: int) -> None:
    """Each row adds its error; with many rows their sum's own rounding comes on top of that."""
    rows = 10 ** np.arange(1, 13)
    found = np.array([attainable_tolerance(int(n), 2.0, dim, 1.0, 0.25) for n in rows])
    assert (np.diff(found / rows) >= -1e-12 * found[0] / rows[0]).all()
    assert found[-1] / rows[-1] > 2 * found[0] / rows[0]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 50), (300, 7), (6000, 3)])
def test_the_attainable_tolerance_is_twice_the_bound_at_the_edge_of_its_reach(
    n: int, d: int, loss: Any
) -> None:
    theta = np.full(d, 100.0 / d)
    objective = replace(problem(n, d, loss), linear_term=-theta)
    c = loss.slope_bound
    tolerance = attainable_tolerance(
        n, objective.row_norm, d, c, float(loss.curvature_bound(0.0, c))
    )
    assert 2 * certified_gradient(objective, theta).error <= tolerance
