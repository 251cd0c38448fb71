from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exact_gradient import (
    LOSSES,
    STEP,
    FloatArray,
    Problem,
    distance,
    exact_gradient,
    on_grid,
    problem,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_objective import (
    CertifiedGradient,
    attainable_tolerance,
    certified_gradient,
    constants_of,
    is_compiled,
    row_builder,
    terms_of,
)
from inner_objective import certificate_module as _certificate
from scipy.special import softmax

from skdp import Spline
from skdp.domain.splines import Interaction
from skdp.linear_model.losses import LogisticLoss, PseudoHuber, SharpLogistic, Softmax
from skdp.rows import KeptBlocks, MemoryRows
from skdp.rows.memory import MOST_ROWS

Cuts = Sequence[int] | None


def certified(
    problem: Problem,
    theta: FloatArray,
    *,
    local: bool = False,
    cuts: Cuts = None,
    compiled: bool = False,
) -> CertifiedGradient:
    objective = problem.objective(cuts)
    vars(objective)["is_compiled"] = compiled
    return certified_gradient(objective, theta, local=local)


def holds(problem: Problem, theta: FloatArray, *, local: bool = False, cuts: Cuts = None) -> bool:
    """Say whether the certified gradient is as near the exact one as it claims.

    It must be both by arrays and by compiled functions, which know the package's losses.
    """
    exact = exact_gradient(problem, theta)
    ways = {False, is_compiled(problem.loss, math.inf)}
    found = [certified(problem, theta, local=local, cuts=cuts, compiled=way) for way in ways]
    errors = [(own.error, distance(exact, own.value)) for own in found]
    return all(distance(exact) <= own.norm for own in found) and all(
        error >= away for error, away in errors
    )


def cancelling(loss: Any, seed: int = 1) -> tuple[Problem, FloatArray]:
    """Return predictors of order 1 that are differences of terms of order 1e8.

    Rows are (a, b, (a + b) / 2, a', b', (a' + b') / 2), and theta is (T, T, -2 T, T', T', -2 T')
    with changes of order 1.
    """
    rng = np.random.default_rng(seed)
    parts = on_grid(rng.uniform(-1, 1, (12, 2, 2)) / 2) * 2
    design = np.concatenate([parts, parts.mean(axis=2, keepdims=True)], axis=2).reshape(12, 6)
    sizes = 1e8 * rng.normal(size=2)
    theta = np.concatenate([size * np.array([1.0, 1.0, -2.0]) for size in sizes])
    theta = theta + rng.normal(size=6)
    made = replace(problem(12, 6, loss, seed=seed), design=design)
    assert np.abs(design @ theta).max() < 10
    assert np.array_equal(on_grid(design), design)
    return replace(made, linear_term=-made.ridge * theta), theta


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_bound_survives_cancellation_within_the_predictor(loss: Any) -> None:
    objective, theta = cancelling(loss)
    assert holds(objective, theta)
    assert holds(objective, theta, local=True)
    # Plain arithmetic could only promise 1e-6 or so.
    assert certified(objective, theta).error < 1e-10


numbers = st.floats(-1, 1, allow_subnormal=False)
entries = st.integers(-(2**20), 2**20).map(lambda k: k * STEP)
exponents = st.integers(-30, 30)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_the_bound_holds_for_whatever_is_thrown_at_it(data: Any) -> None:
    n, d = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    loss, intercept = data.draw(st.sampled_from(LOSSES)), data.draw(st.booleans())
    sizes = tuple(data.draw(st.lists(st.integers(2, 4), max_size=2)))
    dim = d + intercept + sum(sizes) - len(sizes)

    def draw(*shape: int, of: Any = numbers) -> FloatArray:
        size = math.prod(shape)
        return np.array(data.draw(st.lists(of, min_size=size, max_size=size))).reshape(shape)

    def scaled(size: int) -> FloatArray:
        return np.asarray(draw(size) * 2.0 ** draw(size, of=exponents))

    made = Problem(
        loss,
        draw(n, d, of=entries).astype(float),
        (draw(n) > 0).astype(float),
        np.abs(scaled(dim)) + 2.0**-30,
        scaled(dim),
        np.abs(draw(n)) if data.draw(st.booleans()) else None,
        intercept,
        sizes,
        np.column_stack([draw(n, of=st.integers(0, m - 1)) for m in sizes]) if sizes else None,
    )
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    assert holds(made, scaled(dim), local=data.draw(st.booleans()), cuts=cuts)


SHAPES = {
    "numbers": (False, ()),
    "intercept": (True, ()),
    "centred levels": (True, (2, 5)),
    "levels": (False, (2, 5)),
    "one column of levels": (True, (3,)),
    "seventy levels": (True, (70,)),
}


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("size", [0.0, 1e-250, 1.0, 1e4, 1e12])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_bound_holds_with_intercepts_and_levels(shape: str, size: float, local: bool) -> None:
    """However the rows are cut into blocks, with weights and without."""
    intercept, sizes = SHAPES[shape]
    for loss, weighted, cuts in (
        (LogisticLoss(), False, ()),
        (SharpLogistic(), True, (1, 2, 11)),
        (SharpLogistic(0.95), False, (7,)),
        (PseudoHuber(0.3), True, range(1, 20)),
    ):
        made = problem(
            20, 3, loss, seed=13, weighted=weighted, linear_term=1e6, intercept=intercept,
            sizes=sizes,
        )  # fmt: skip
        theta = size * np.random.default_rng(14).normal(size=made.dim)
        assert holds(made, theta, local=local, cuts=cuts)


def large_constants(shape: str) -> tuple[Problem, FloatArray]:
    """Return an intercept of 1e8 and levels of 1e7 that a column of ones takes back."""
    intercept, sizes = SHAPES[shape]
    rng = np.random.default_rng(17)
    made = problem(30, 3, PseudoHuber(1e3), seed=17, intercept=intercept, sizes=sizes)
    design = made.design.copy()
    design[:, 0] = 1.0
    if sizes:
        assert made.codes is not None
        made = replace(made, codes=np.maximum(made.codes, 1))
    theta, taken = rng.normal(size=made.dim), 0.0
    if intercept:
        theta[0] += (taken := 1e8)
    for k, block in enumerate(made.layout.blocks):
        size = 1e7 * (k + 1)
        theta[block] += size
        taken += size / made.sizes[k] if intercept else size
    theta[int(intercept)] -= taken
    made = replace(made, design=design, linear_term=-made.ridge * theta)
    assert np.abs(made.matrix() @ theta).max() < 20
    return made, theta


@pytest.mark.parametrize("shape", SHAPES)
def test_the_bound_survives_cancellation_of_constants_and_levels(shape: str) -> None:
    made, theta = large_constants(shape)
    for local in (False, True):
        assert holds(made, theta, local=local, cuts=(3, 17))
    shifts = math.fsum(map(abs, constants_of(made.layout, theta)))
    found = certified(made, theta).error
    assert found <= made.n * made.row_norm * (5 * 2.0**-53 * shifts + 1e-11)


@pytest.mark.parametrize("local", [False, True])
def test_a_bound_without_the_rounding_of_constants_is_caught(monkeypatch: Any, local: bool) -> None:
    made, theta = large_constants("centred levels")
    assert holds(made, theta, local=local)
    split = _certificate._split_terms

    def without(layout: Any, point: FloatArray) -> Any:
        found, parts = split(layout, point), constants_of(layout, point)
        own = 4 * _certificate.UNIT * math.fsum(map(abs, parts))
        return found._replace(error=found.error - own)

    monkeypatch.setattr(_certificate, "_split_terms", without)
    assert not holds(made, theta, local=local)


def test_the_exact_rows_are_those_of_a_table() -> None:
    """The second truth describes the rows that a design makes of numbers and levels."""
    for intercept, sizes in SHAPES.values():
        made = problem(40, 3, LogisticLoss(), seed=18, intercept=intercept, sizes=sizes)
        design = made.layout
        names = design.domain.names or []
        cells = {f"x{j}": column for j, column in enumerate(made.design.T)}
        for k in range(len(sizes)):
            assert made.codes is not None
            cells[f"c{k}"] = [f"l{code}" for code in made.codes[:, k]]
        table = pd.DataFrame({name: cells[name] for name in names})
        np.testing.assert_allclose(design.matrix(table, 40), made.matrix(), atol=1e-15)
        (built,) = MemoryRows(design.domain, table, made.target).keep(row_builder(design)).states
        (state,) = made.states()
        np.testing.assert_array_equal(built.numbers, state.numbers)
        for own, codes in zip(built.levels, state.levels, strict=True):
            np.testing.assert_array_equal(own, codes)


@dataclass(frozen=True)
class Sloppy(LogisticLoss):
    """A logistic loss that makes use of the error it is allowed."""

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return super().slope(z, y) + 15 * math.ulp(1.0)


def one_signed(loss: Any) -> tuple[Problem, FloatArray]:
    """Return rows whose errors all push one way."""
    n = 40
    ones, zeros = np.ones((n, 1)), np.zeros(n)
    return Problem(loss, ones, zeros, np.ones(1), np.zeros(1)), np.array([0.7])


def large_targets() -> tuple[Problem, FloatArray]:
    """Return small residuals of large predictors: each rounding of z moves its slope."""
    rng = np.random.default_rng(8)
    design, theta = on_grid(rng.uniform(0.5, 1, (30, 2))), np.array([1e6 / 3, 1e6 / 7])
    return Problem(PseudoHuber(1.0), design, design @ theta, np.ones(2), theta), theta


def test_a_bound_without_the_slope_s_own_error_is_caught(monkeypatch: Any) -> None:
    objective, theta = one_signed(Sloppy())
    found = certified(objective, theta)
    # The exact slope is the plain logistic one.
    exact = exact_gradient(replace(objective, loss=LogisticLoss()), theta)
    assert distance(exact, found.value) <= found.error
    monkeypatch.setattr(_certificate, "SLOPE_ULPS", 1)
    assert distance(exact, found.value) > certified(objective, theta).error


@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_compiled_functions_bound_the_same_errors(loss: Any, size: float) -> None:
    """Each part of the bound: the slopes' own errors, the predictors' sizes, and the weights."""
    if not is_compiled(loss, math.inf):
        pytest.skip("needs numba")
    for (intercept, sizes), weighted in product(SHAPES.values(), (False, True)):
        made = problem(700, 3, loss, seed=20, weighted=weighted, intercept=intercept, sizes=sizes)
        theta = size * np.random.default_rng(21).normal(size=made.dim)
        # The rounding of the total plays no part.
        made = replace(made, linear_term=-theta)
        one, other = (certified(made, theta, cuts=(3, 600), compiled=way) for way in (False, True))
        assert other.error == pytest.approx(one.error, rel=1e-9, abs=0)


@pytest.mark.parametrize("local", [False, True])
def test_a_bound_without_the_predictor_s_rounding_is_caught(monkeypatch: Any, local: bool) -> None:
    objective, theta = large_targets()
    assert holds(objective, theta, local=local)
    own = _certificate.SLOPE_ULPS * math.ulp(1.0)
    monkeypatch.setattr(_certificate, "_own_error", lambda loss: own)
    monkeypatch.setattr(_certificate, "_moved_slopes", lambda *facts: 0.0 * facts[3])
    assert not holds(objective, theta, local=local)


def test_a_product_that_is_not_split_is_caught(monkeypatch: Any) -> None:
    objective, theta = cancelling(PseudoHuber(1e3))
    assert holds(objective, theta)
    split = _certificate._split
    monkeypatch.setattr(_certificate, "_split", lambda a, *_: (a, np.zeros_like(a)))
    assert not holds(objective, theta)
    # Also where the predictor alone is not split.
    monkeypatch.setattr(_certificate, "_split", split)
    of = _certificate._split_terms

    def unsplit(layout: Any, point: FloatArray) -> Any:
        found, whole = of(layout, point), terms_of(layout, point)
        none = _certificate.Terms(0 * whole.slopes, 0.0, tuple(0 * own for own in whole.tables))
        return found._replace(high=whole, low=none)

    monkeypatch.setattr(_certificate, "_split_terms", unsplit)
    assert not holds(objective, theta)


def test_a_sum_over_rows_that_is_not_split_is_caught(monkeypatch: Any) -> None:
    """The twin: sums of slopes are rounded to the grid, and the rests are lost."""
    made, theta = problem(300, 4, LogisticLoss(), seed=19, intercept=True, sizes=(3,)), np.ones(7)
    assert holds(made, theta)
    split = _certificate._split

    def rounded(a: FloatArray, grid: float) -> tuple[FloatArray, FloatArray]:
        high, low = split(a, grid)
        return high, low if len(a) != 300 else 0 * low

    monkeypatch.setattr(_certificate, "_split", rounded)
    assert not holds(made, theta)


def test_splitting_is_exact_and_leaves_few_bits() -> None:
    a = np.random.default_rng(9).uniform(-1, 1, 1000) * 2.0 ** np.arange(-999, 1)
    high, low = _certificate._split(a, 2.0**-24)
    assert np.array_equal(high + low, a)
    assert np.array_equal(np.rint(high * 2.0**24), high * 2.0**24)
    assert np.abs(low).max() <= 2.0**-25


def test_leading_products_are_exact_at_the_edge_of_their_claim() -> None:
    """A full block of the greatest entries and slopes, summed in two orders, gives one number."""
    n = MOST_ROWS
    x, v = np.full((n, 3), 1.0), np.full(n, 1 - 2.0**-16)
    x[::3] *= -1
    x[::2, 1] = 1 - 2.0**-20
    high, _ = _certificate._split(v, 2.0 * 2.0**-20)
    order = np.random.default_rng(10).permutation(n)
    assert np.array_equal(high @ x, high[order] @ x[order])
    for column, found in zip(x.T, high @ x, strict=True):
        assert found == math.fsum((high * column).tolist())
    # All of one sign: the sum is 2^53 units of the grid, less the rest of the slopes.
    assert n * 2.0 <= 2**53 * 2.0**-20 * 2.0**-20 * 2.0
    ones = np.ones((n, 1))
    assert (high @ ones)[0] == math.fsum(high.tolist())


def test_the_greatest_sums_of_many_blocks_are_exact() -> None:
    """Slopes of 1 - 2^-53 of 2^13 rows of ones: the certified sum is the exact one, rounded."""
    ones = np.ones(3 * MOST_ROWS + 5)
    made = Problem(LogisticLoss(), ones[:, None], ones, np.array([2.0**-30]), np.zeros(1))
    found = certified(made, np.array([-40.0]))
    slope = float(LogisticLoss().slope(np.array([-40.0]), np.ones(1))[0])
    exact = made.n * Fraction(slope) - 40 * Fraction(1, 2**30)
    assert found.value[0] == float(exact)


def test_saturated_predictors_are_bounded_by_the_bracket() -> None:
    """Predictors of 1e13 are rounded by 1e-3; the slopes are 0 and 1 all the same."""
    theta = 1e13 * np.random.default_rng(12).normal(size=4)
    objective = replace(problem(50, 4, LogisticLoss(), seed=11), linear_term=-theta)
    assert certified(objective, theta).error > 1e-4
    assert certified(objective, theta, local=True).error < 1e-11
    assert holds(objective, theta, local=True)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_is_certified_about_what_is_not_finite(bad: float) -> None:
    made = problem(5, 2, LogisticLoss())
    with np.errstate(all="ignore"):
        for part in ("design", "target", "linear_term"):
            values = getattr(made, part).copy()
            values[0] = bad
            broken = replace(made, **{part: values})
            for cuts in ((), (1, 3)):
                assert not certified(broken, np.ones(2), cuts=cuts).norm < math.inf
        assert not certified(made, np.array([bad, 1.0])).norm < math.inf
        levels = problem(5, 2, LogisticLoss(), intercept=True, sizes=(3,))
        for k in range(levels.dim):
            theta = np.ones(levels.dim)
            theta[k] = bad
            assert not certified(levels, theta).norm < math.inf


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 50), (300, 7), (6000, 3)])
def test_the_attainable_tolerance_is_twice_the_bound_at_the_edge_of_its_reach(
    n: int, d: int, loss: Any
) -> None:
    c = loss.slope_bound
    for intercept, sizes in ((False, ()), (True, ()), (True, (2, 5)), (False, (4,))):
        made = problem(n, d, loss, intercept=intercept, sizes=sizes)
        theta = np.full(made.dim, 100.0 / made.dim)
        made = replace(made, linear_term=-theta)
        tolerance = attainable_tolerance(
            n, made.row_norm, made.dim, c, float(loss.curvature_bound(0.0, c))
        )
        assert 2 * certified(made, theta).error <= tolerance


# Each step of the proof in exact fractions: no part of the bound is too small

U = Fraction(1, 2**53)
CUBIC = Spline(0, 1, knots=3, degree=3)
COLUMNS = {"no curve": (), "a curve": (CUBIC,), "an interaction": (Interaction(CUBIC, CUBIC),)}


def gamma(k: int) -> Fraction:
    return k * U / (1 - k * U)


def cancelling_columns(columns: str, ridge: float) -> tuple[Problem, FloatArray]:
    """Return predictors of order 1, the differences of coefficients and a number of order 1e9.

    The penalty and the linear term cancel as well.
    """
    splines = COLUMNS[columns]
    made = problem(40, 2, PseudoHuber(4.0), seed=1, splines=splines, ridge=ridge)
    rng = np.random.default_rng(2)
    theta = rng.normal(size=made.dim)
    for spline, block in zip(splines, made.layout.blocks, strict=True):
        # Where the B-spline that is left out is 0, the others add up to 1.
        places = np.flatnonzero(spline.table.sum(axis=1) == 1)
        made = replace(made, codes=rng.choice(places, (made.n, 1)))
        theta[block] += 1e9
        theta[0] -= 1e9
    return replace(made, linear_term=-made.objective().penalty(theta)), theta


@pytest.mark.parametrize("ridge", [2.0**-80, 2.0**80], ids=["small ridge", "large ridge"])
@pytest.mark.parametrize("columns", COLUMNS)
def test_the_bound_is_the_sum_of_the_parts_that_the_proof_names(columns: str, ridge: float) -> None:
    """All steps, where c is a power of two: the bound is not less, and hardly more."""
    made, theta = cancelling_columns(columns, ridge)
    blocks, n, norm = made.layout.blocks, made.n, Fraction(made.row_norm)
    c, curvature = Fraction(4), 1
    size = sum(abs(Fraction(t)) for t in theta[made.layout.number_coordinates].tolist())
    size += sum(Fraction(np.abs(theta[block]).max()) for block in blocks)
    count = made.design.shape[1] + 17 * len(blocks) + 2
    shared = gamma(count) * count * size / 2**32
    expected = norm * 2 * n * U * c
    expected += 3 * n * norm * 2 * c / 2**21 * gamma(MOST_ROWS + MOST_ROWS + 1 + 2)
    point = [Fraction(t) for t in theta.tolist()]
    for row in made.fractions():
        z = sum(x * t for x, t in zip(row, point, strict=True))
        expected += norm * (16 * 2 * U * c + curvature * (U * abs(z) + shared))
    expected += U * Fraction(float(distance(exact_gradient(made, theta))))
    expected += 2 * U**2 * Fraction(float(np.linalg.norm(made.linear_term)))
    found = Fraction(certified_gradient(made.objective(), theta).error)
    assert expected <= found <= expected * (1 + Fraction(1, 10**5))


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("intercept", [False, True])
def test_the_rests_of_a_predictor_are_bounded_as_a_sum_of_all_their_products(
    columns: str, intercept: bool, monkeypatch: Any
) -> None:
    """Step 1: gamma_k times the sum of the k products, for rests that are as great as can be."""
    splines = COLUMNS[columns]
    made = problem(300, 4, LogisticLoss(), splines=splines, intercept=intercept)
    theta = np.full(made.dim, 0.52 * 2**30 // 1 + 0.499)  # the grid is 1

    def is_bounded() -> bool:
        split = _certificate._split_terms(made.layout, theta)
        assert np.allclose(split.low.slopes, 0.499)
        rests = [*split.low.slopes.tolist(), *[split.low.constant] * intercept]
        count, total = len(rests), sum(abs(Fraction(rest)) for rest in rests)
        for spline in splines:
            count += int((spline.table != 0).sum(axis=1).max())
            total += Fraction(split.low.slopes[0]) * Fraction(spline.table.sum(axis=1).max())
        return split.error >= gamma(count) * total

    assert is_bounded()
    if columns == "an interaction":  # the twin: its 16 products count as one term
        of = _certificate._rest_of_predictor
        monkeypatch.setattr(_certificate, "_rest_of_predictor", lambda k, size: of(k - 16, size))
        assert not is_bounded()


@pytest.mark.parametrize("blocks", [1, 1000])
@pytest.mark.parametrize("n", [1, 10**6])
def test_the_rests_of_sums_have_the_error_of_their_number(n: int, blocks: int) -> None:
    """Step 3 for R c = 5 / 4: 3 n rests of at most 2^-20 of it; rows, positions, blocks count."""
    expected = 3 * n * Fraction(5, 4) / 2**20 * gamma(MOST_ROWS + MOST_ROWS + blocks + 2)
    found = Fraction(_certificate._rest_of_sum(n, 1.25, blocks))
    assert abs(found / expected - 1) <= 8 * U


@dataclass(frozen=True)
class Line(LogisticLoss):
    """A loss with the same slope everywhere, which has no error."""

    slope_bound: float = 1 + 2.0**-7  # type: ignore[misc]

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return np.full_like(z, self.slope_bound)

    def curvature_bound(self, low: Any, high: Any) -> FloatArray:
        return np.zeros(np.broadcast(low, high).shape)


def test_products_and_quotients_may_both_have_nearly_their_greatest_errors(
    monkeypatch: Any,
) -> None:
    """Step 4: equal rows whose weights are rounded alike, and centred sums that are so, too."""
    monkeypatch.setattr(_certificate, "SLOPE_ULPS", 0)
    loss, n, levels, columns = Line(), 65, 101, 4
    c = loss.slope_bound
    drawn = 1 - 2.0**-7 * np.random.default_rng(3).uniform(0, 1, 4000)
    lost = [Fraction(w) * Fraction(c) - Fraction(w * c) for w in drawn.tolist()]
    chosen, others = np.split(drawn[np.argsort(lost)[::-1]][:500], [n - 1])
    # The last weight decides how the sum times 100 / 101 is rounded.
    units = np.rint(chosen * c * 2.0**19).sum() + np.rint(others * c * 2.0**19)
    cut = [Fraction(int(k) * 100, 101) - Fraction(int(k) * 100 / 101) for k in units]
    weight = np.append(chosen, others[np.argmax(cut)])
    theta = np.zeros(2 + columns * (levels - 1))
    codes = np.ones((n, columns), dtype=int)
    ones, sizes = np.ones((n, 1)), (levels,) * columns
    made = Problem(loss, ones, ones[:, 0], theta + 1, theta, weight, True, sizes, codes)
    total = sum(Fraction(w) * Fraction(c) for w in weight.tolist())
    gradient = [total * x for x in next(made.fractions())]
    made = replace(made, linear_term=-np.array([float(g) for g in gradient]))
    found = certified_gradient(made.objective(), theta)
    parts = zip(gradient, made.linear_term.tolist(), found.value.tolist(), strict=True)
    away = np.linalg.norm([float(g + Fraction(v) - Fraction(own)) for g, v, own in parts])
    # The bound without one of the two errors is hardly more than half of it.
    assert 0.75 * found.error < away <= found.error


@pytest.mark.parametrize("far", [0.0, 1e10])
@pytest.mark.parametrize("classes", [2, 5])
def test_the_bound_of_a_softmax_adds_the_errors_of_its_classes(classes: int, far: float) -> None:
    """K slopes with errors of (4 K + 32) u in all, and K sums of products and of rests."""
    loss, made = Softmax(classes, 0.5), problem(40, 3, LogisticLoss(), seed=4)
    made.design[:, 1] = 1.0
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(classes, 3))
    theta[:, :2] += far * np.outer(np.arange(classes), [1.0, -1.0])
    target = rng.integers(0, classes, made.n)
    states = KeptBlocks([replace(rows, target=target) for rows in made.states()])
    tiny, zeros = np.full(theta.size, 2.0**-80), np.zeros(theta.size)
    plain = made.objective()
    joint = replace(plain, loss=loss, rows=states, ridge=tiny, linear_term=zeros)
    found = certified_gradient(joint, theta.ravel())
    z = made.design @ theta.T
    p, u, n, c = softmax(z, axis=1), float(U), made.n, loss.slope_bound * classes
    size = np.abs(theta).sum(axis=1).max()
    dz = u * np.abs(z).max(axis=1) + float(gamma(5)) * 5 * size / 2**32
    error = (4 * classes + 32) * u + 0.5 * 2 * dz * (p * (1 - p)).sum(axis=1)
    expected = error.sum() + 2 * n * u * c + 3 * n * 2 * c / 2**21 * float(gamma(2 * MOST_ROWS + 3))
    expected = made.row_norm * expected + u * np.linalg.norm(found.value)
    assert found.error == pytest.approx(expected, rel=1e-5, abs=0)


@pytest.mark.parametrize("dz", [1e-6, 0.05, 0.099, 0.1, 3.0])
def test_shares_move_less_than_their_bound(dz: float) -> None:
    """Step 2 of a softmax: by 2 dz sum_k p_k (1 - p_k) somewhere between, which is below 2 dz."""
    rng = np.random.default_rng(6)
    for classes in (2, 3, 7):
        z = rng.normal(size=(classes, 300)) * rng.uniform(0, 8, 300)
        p, bound = softmax(z, axis=0), _certificate._moved_shares(z, np.full(300, dz))
        greatest = np.zeros(300)
        for signs in product([-1, 1], repeat=classes):
            other = softmax(z + dz * np.array(signs)[:, None], axis=0)
            greatest = np.maximum(greatest, np.abs(other - p).sum(axis=0))
        assert (greatest <= bound + 1e-15).all()
        stretch = (p * (1 - p)).sum(axis=0) * math.exp(4 * dz) if dz < 0.1 else 1.0
        np.testing.assert_allclose(bound, 2 * dz * stretch, rtol=1e-6, atol=dz * 1e-13)
        if classes == 2 and dz < 1e-3:  # the two shares move by as much
            assert (greatest >= bound * (1 - 5 * dz) - 1e-13 * dz - 1e-15).all()


@pytest.mark.parametrize("dz", [1e-3, 0.4, 3.0])
@pytest.mark.parametrize("loss", [LogisticLoss(), PseudoHuber(0.3)], ids=repr)
def test_a_slope_moves_less_than_its_local_bound(loss: Any, dz: float) -> None:
    """Step 2, with the change between z and z -+ 3 dz, which holds that to z -+ dz."""
    z, y = np.linspace(-9, 9, 37), np.zeros(37)
    smoothness = float(loss.curvature_bound(0.0, loss.slope_bound))
    middle = loss.slope(z, y)
    errors = 2.0**-53 * np.abs(z) + dz
    found = _certificate._moved_slopes(loss, smoothness, z[None], y, errors, middle)
    for width, compare in ((dz, np.greater), (3 * dz, np.isclose)):
        changes = loss.slope(z + width, y) - middle, middle - loss.slope(z - width, y)
        moved = np.minimum(smoothness * dz, np.maximum(*changes))
        assert compare(found, moved).all()
