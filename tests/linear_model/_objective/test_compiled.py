"""Compiled functions give the results of the functions on arrays that they replace."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import inner_objective
import numpy as np
import pandas as pd
import pytest
from exact_gradient import LOSSES as EVERY_LOSS
from inner_fits import Design, exact_gram, exact_sums
from inner_moments import RowScaler
from inner_objective import CompiledSums, DesignRows, is_compiled, predictor, terms_of, weigher
from inner_objective import solve_module as clipping
from inner_package import compiled_module as compiled

from skdp import Domain
from skdp.domain.layout import encode_compactly
from skdp.linear_model.losses import LogisticLoss, SharpLogistic
from skdp.rows import MemoryRows

kernels = pytest.importorskip("skdp._kernels")

LOSSES = [*EVERY_LOSS, SharpLogistic(0.6)]


@pytest.fixture(params=[False, True], ids=["arrays", "compiled"])
def use(request: Any, monkeypatch: Any) -> Any:
    monkeypatch.setattr(compiled, "_KERNELS", [kernels if request.param else None])
    return request.param


def both_ways(monkeypatch: Any, function: Any) -> tuple[Any, Any]:
    """Return the result without and with compiled functions."""
    monkeypatch.setattr(compiled, "_KERNELS", [None])
    without = function()
    monkeypatch.setattr(compiled, "_KERNELS", [kernels])
    return without, function()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_slopes_are_those_of_the_loss(loss: Any) -> None:
    """Within 4 units in the last place of the bound; the certificate allows 16."""
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal(size=400) * 10.0 ** rng.uniform(-8, 3, 400), [0.0, -0.0]])
    y = (
        rng.integers(0, 2, z.size).astype(float)
        if loss.target == "labels"
        else rng.normal(size=402)
    )
    rows = DesignRows(np.zeros((1, 1), np.float32), np.zeros((0, 1), np.uint8), y)
    design = Design(Domain.box([-1], [1]), False)
    for at, target in zip(z, y, strict=True):
        terms = terms_of(design, np.zeros(1))._replace(constant=float(at))
        found = CompiledSums(loss, design, terms)(rows, np.array([target]))
        assert found is not None
        expected = loss.slope(np.array([at]), np.array([target]))[0]
        assert abs(found[0].total[0] - expected) <= 4 * math.ulp(loss.slope_bound)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 511, 512, 513, 1300])
def test_sums_and_curvatures_are_those_of_arrays(loss: Any, weighted: bool, n: int) -> None:
    rng = np.random.default_rng(n)
    columns = {"a": (-1, 1), "k": ["u", "v", "w"], "b": (-1, 1), "m": ["u", "v"], "c": (-1, 1)}
    design = Design(Domain(columns), True)
    rows = DesignRows(
        rng.uniform(-1, 1, (3, n)).astype(np.float32),
        np.array([rng.integers(0, 3, n), rng.integers(0, 2, n)], dtype=np.uint8),
        rng.integers(0, 2, n),
        rng.uniform(0, 1, n) if weighted else None,
    )
    terms, y = terms_of(design, rng.normal(size=design.dim)), rows.target.astype(float)
    numbers = rows.numbers.astype(float)
    z = predictor(terms, numbers, rows.levels)
    curvatures = CompiledSums(loss, design, terms).curvatures(rows, y)
    np.testing.assert_allclose(
        curvatures, rows.weighted(loss.curvature(z, y)), rtol=1e-13, atol=1e-15
    )
    expected = inner_objective.sums_over(rows, numbers, rows.weighted(loss.slope(z, y)), design)
    weight = np.ones(n) if rows.weight is None else rows.weight
    for grid in (0.0, 2.0**-20):
        found = CompiledSums(loss, design, terms, None, grid)(rows, y)
        assert found is not None
        whole, rest, weights, sizes = found
        np.testing.assert_allclose(whole.numbers + rest.numbers, expected.numbers, atol=1e-11)
        np.testing.assert_allclose(whole.total + rest.total, expected.total, atol=1e-11)
        for own, other, counted in zip(whole.levels, rest.levels, expected.levels, strict=True):
            np.testing.assert_allclose(own + other, counted, atol=1e-11)
        assert weights == pytest.approx(weight.sum())
        assert sizes == pytest.approx(weight @ np.abs(z))
        if grid:  # the leading parts are multiples of the grid, times those of the numbers
            assert (whole.total / grid % 1 == 0).all()
        else:
            assert not rest.numbers.any()


@pytest.mark.parametrize("p", range(8))
@pytest.mark.parametrize("n", [1, 255, 256, 600])
def test_gram_matrices_are_those_of_arrays(p: int, n: int) -> None:
    """On the grid to the bit, with and without a last column; with weights within rounding."""
    rng = np.random.default_rng(p)
    x, y, none = rng.uniform(-1, 1, (p, n)), rng.uniform(-1, 1, n), np.empty(0)
    rounder = 1.5 * 2.0 ** (52 - 20)
    rows = np.rint(np.vstack([np.ones(n), x, y]) * 2**20) / 2**20
    found = kernels.gram_of_columns(x, y, none, rounder)
    assert found.tobytes() == (rows @ rows.T).tobytes()
    assert kernels.gram_of_columns(x, none, none, rounder).tobytes() == found[:-1, :-1].tobytes()
    singles, weight = x.astype(np.float32), rng.uniform(0, 1, n)
    rows = np.vstack([np.ones(n), singles.astype(float)])
    found = kernels.gram_of_columns(singles, none, weight, 0.0)
    np.testing.assert_allclose(found, (rows * weight) @ rows.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["array", "columns", "frame", "objects"])
def test_columns_of_a_type_have_the_same_bits(monkeypatch: Any, kind: str) -> None:
    """Numbers of 64 bits, rounded once, as they are encoded without a type."""
    rng = np.random.default_rng(6)
    for n, p in ((1, 5), (64, 1), (700, 9), (9000, 3)):
        X: Any = rng.normal(size=(n, p)) * 2
        domain = Domain(dict.fromkeys([f"x{k}" for k in range(p)], (-1.5, 0.7)))
        expected = np.clip((X + 1.5) * (2 / 2.2) - 1, -1, 1)
        cells: Any = np.asfortranarray(X) if kind == "columns" else X
        if kind in ("frame", "objects"):
            cells = pd.DataFrame(
                X, columns=domain.names, dtype=object if kind == "objects" else float
            )
        found = both_ways(monkeypatch, lambda a=domain, b=cells: encode_compactly(a, b, np.float32))
        plain = encode_compactly(domain, cells).numbers
        np.testing.assert_allclose(plain, expected, rtol=0, atol=1e-14)
        for own in found:
            assert own.numbers.flags.f_contiguous
            assert own.numbers.tobytes() == plain.astype(np.float32).tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, object])
@pytest.mark.parametrize("order", ["C", "F"])
def test_encoded_rows_have_the_same_bits(monkeypatch: Any, dtype: Any, order: Any) -> None:
    rng = np.random.default_rng(3)
    lower, upper = -(10.0 ** rng.uniform(-3, 3, 6)), 10.0 ** rng.uniform(-3, 3, 6)
    X = rng.normal(size=(700, 6)) * upper * 1.5
    X[:3], X[3:6], X[6], X[7] = lower, upper, -0.0, 1e308
    X = np.asarray((X.clip(-1e6, 1e6) if dtype in (np.int64, np.float32) else X), order=order)
    own = X.astype(dtype)
    # Columns of all types of floats, and of others that arrays read.
    frame = pd.DataFrame(own, columns=list("abcdef"))
    mixed = frame.astype({"c": object})
    mixed["b"] = frame["b"].astype(float).clip(-1e30, 1e30).astype(np.float32)
    mixed["e"] = rng.integers(-3, 3, 700)
    texts = mixed.assign(f=pd.Categorical(mixed["e"]))
    frames = frame, frame[::3], frame[list("edcbaf")], mixed, texts
    for low, high in ((lower, upper), (-np.ones(6), np.ones(6))):
        named = Domain(dict(zip("abcdef", zip(low, high, strict=True), strict=True)))
        tables = [(Domain.box(low, high), cells) for cells in (own, own[::2], own[:, :])]
        for domain, cells in [*tables, *((named, cells) for cells in frames)]:
            pair = both_ways(monkeypatch, lambda a=domain, b=cells: encode_compactly(a, b).numbers)
            assert pair[0].tobytes() == pair[1].tobytes()


@pytest.mark.parametrize("clips", [False, True])
def test_sums_of_rows_have_the_same_bits(monkeypatch: Any, clips: bool) -> None:
    """Of columns, and of products of scaled rows; another centre gives other ones (the twin)."""
    X = np.random.default_rng(4).uniform(-1, 1, (20_000, 5))

    def sums(centre: float) -> list[Any]:
        rows, ones = MemoryRows(Domain.unit_box(5, target=(-1, 1)), X, X[:, 0]), np.ones(7)
        place = RowScaler(centre * ones, 0.3 * ones, 0.4 * ones, clips).place
        return [exact_gram(rows, place).tolist(), *(own.tolist() for own in exact_sums(rows)[:2])]

    without, with_kernels = both_ways(monkeypatch, lambda: sums(0.1))
    assert without == with_kernels != sums(0.2)


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf])
def test_a_cell_that_is_no_number_is_named_as_before(use: bool, cell: float) -> None:
    X = np.zeros((5, 3))
    X[3, 1] = cell
    with pytest.raises(ValueError, match="column 1 must contain only finite numbers"):
        encode_compactly(Domain.box([-1] * 3, [2] * 3), X)
    frame = pd.DataFrame(X, columns=list("abc"))
    with pytest.raises(ValueError, match="'b' must contain only finite numbers"):
        encode_compactly(Domain(dict.fromkeys("abc", (-1, 2))), frame)


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("equal", [False, True])
def test_rows_of_a_design_have_the_same_bits(monkeypatch: Any, is_whole: bool, equal: bool) -> None:
    """Sums of columns, clipped numbers on their grid, and weights."""
    rng = np.random.default_rng(5)
    design = Design(Domain.box([-1] * 9, [1] * 9), True)
    numbers = rng.uniform(-1, 1, (9, 500)).astype(np.float32)
    rows = DesignRows(numbers, np.zeros((0, 500), np.uint8), np.zeros(500))
    bounds = clipping.ClippingBounds.whole(design)
    if not is_whole:
        low, high = rng.uniform(-1, -0.2, 9), rng.uniform(0.2, 1, 9)
        bounds = clipping.ClippingBounds(design.domain.number_index, low, high)
    ridge = np.full(10, 7.0) if equal else rng.uniform(5, 9, 10)
    finish = clipping.finisher(bounds, weigher(design, ridge, 0.3))
    for function in (
        lambda: clipping._column_sums(rows, None),
        lambda: (finish(rows).numbers, finish(rows).weight),
    ):
        for one, other in zip(*both_ways(monkeypatch, function), strict=True):
            assert one.tobytes() == other.tobytes()
    found = finish(rows).numbers
    assert (found == np.rint(found.astype(float) * 2**20) / 2**20).all()


def test_weights_of_very_wide_rows_have_the_same_bits(monkeypatch: Any) -> None:
    """Sums of more than 2^13 squares are rounded: they have one order of summation."""
    width, rng = 20_000, np.random.default_rng(0)
    design = Design(Domain.box([-1] * width, [1] * width), False)
    numbers = (np.rint(rng.uniform(0.5, 1, (width, 16)) * 2**20) / 2**20).astype(np.float32)
    rows = DesignRows(numbers, np.zeros((0, 16), np.uint8), np.zeros(16))
    weigh = weigher(design, np.full(width, 7.0), 0.3)
    one, other = both_ways(monkeypatch, lambda: weigh(rows).weight)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("middle", [0.75 - 2e-14, 0.75, 0.75 + 2e-14, 0.6, 0.8])
def test_slopes_near_usual_rates_are_accurate(middle: float) -> None:
    """Both ways have the error that the certificate relies on, 16 units in the last place."""
    mpmath = pytest.importorskip("mpmath")
    loss = SharpLogistic(middle)
    z = np.linspace(0.01, 3, 50)
    found = loss.slope(z, np.zeros(50))
    own = np.empty(50)
    formula = kernels.SHARP_LOGISTIC, loss.middle, loss.rate
    kernels._write_slopes(formula, np.zeros(50), z, np.empty((3, 50)), own)
    with mpmath.workdps(50):
        m = mpmath.mpf(loss.middle)
        rate = m / (2 * (1 - m))
        exact = [1 - (1 - m) * mpmath.exp(-rate * mpmath.mpf(a)) for a in z.tolist()]
        for slopes in (own, found):
            for slope, truth in zip(slopes.tolist(), exact, strict=True):
                assert abs(slope - truth) <= 16 * math.ulp(1.0)


def test_threads_that_load_at_the_same_time_get_the_same() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from skdp._compiled import load_kernels
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(load_kernels, [float('inf')] * 4))
assert found[0] is not None and all(own is found[0] for own in found)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_that_are_not_compiled_are_not_used() -> None:
    code = "from skdp._compiled import load_kernels; assert load_kernels(float('inf')) is None"
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_other_losses_are_left_to_arrays() -> None:
    class Own(LogisticLoss):
        pass

    assert is_compiled(LogisticLoss(), math.inf)
    assert not is_compiled(Own(), math.inf)
    assert not is_compiled(LogisticLoss(), 1000)


def test_small_fits_do_not_import_the_compiler_and_large_ones_do_without_it() -> None:
    """The limit of few rows is lowered for the large fit."""
    code = """
import sys
import numpy as np
import skdp._compiled
from skdp import Domain, DPLogisticRegression
X = np.random.default_rng(0).uniform(-1, 1, (ROWS, 2))
model = DPLogisticRegression(epsilon=1.0, domain=Domain.box([-1, -1], [1, 1]), classes=[0, 1])
BEFORE
model.fit(X, X[:, 0] > 0)
assert AFTER
"""
    small = code.replace("ROWS", "1000").replace("BEFORE", "")
    without = "sys.modules['numba'] = None; skdp._compiled.MANY = 10_000"
    blocked = code.replace("ROWS", "20_000").replace("BEFORE", without)
    for text, after in (
        (small, "'numba' not in sys.modules"),
        (blocked, "skdp._compiled._KERNELS == [None]"),
    ):
        subprocess.run([sys.executable, "-c", text.replace("AFTER", after)], check=True)


@pytest.mark.slow("compiles in processes of its own")
def test_damaged_code_of_an_earlier_run_is_not_used(tmp_path: Any) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    code = "from skdp._compiled import load_kernels; print(load_kernels(float('inf')))"
    run = [sys.executable, "-c", code]
    assert b"_kernels" in subprocess.run(run, check=True, env=env, capture_output=True).stdout
    indices = list(tmp_path.rglob("*slope_sums*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(b"")
    assert subprocess.run(run, check=True, env=env, capture_output=True).stdout == b"None\n"


def test_exponentials_are_accurate() -> None:
    """Within 2 units in the last place; the worst remainders are near half a logarithm of 2."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    halves = (np.arange(0, 1021) + 0.5) * math.log(2)
    near = np.concatenate([np.nextafter(halves, 0), halves, np.nextafter(halves, 800)])
    t = -np.concatenate([[0.0], 10 ** rng.uniform(-17, 2.85, 2000), near])
    t = t[t >= -708]
    out = np.empty(len(t))
    kernels._write_exponentials(t, len(t), np.empty(len(t)), out)
    for found, at in zip(out.tolist(), t.tolist(), strict=True):
        with mpmath.workdps(40):
            exact = mpmath.exp(mpmath.mpf(at))
            assert abs(found - exact) <= 2 * math.ulp(float(exact))


def test_exponentials_have_limits() -> None:
    out = np.empty(4)
    kernels._write_exponentials(np.array([-709.0, -1e300, -np.inf, np.nan]), 4, np.empty(4), out)
    assert (out[:3] < 1e-307).all()
    assert (out[:3] >= 0).all()
    assert np.isnan(out[3])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("target", [0.0, 1.0])
def test_slopes_at_extreme_predictors(loss: Any, target: float) -> None:
    """The slope at a predictor that is not a number is none, so that no search accepts it."""
    z = np.array([np.inf, -np.inf, 1e308, -1e308, 800.0, -800.0, np.nan])
    design = Design(Domain.box([-1], [1]), False)
    compiled_sums = CompiledSums(loss, design, terms_of(design, np.zeros(1)))
    own = np.empty(7)
    formula = compiled_sums.formula(kernels)
    kernels._write_slopes(formula, np.full(7, target), z, np.empty((3, 7)), own)
    with np.errstate(all="ignore"):
        expected = loss.slope(np.nan_to_num(z[:6]), np.full(6, target))
    np.testing.assert_allclose(own[:6], expected, rtol=0, atol=4 * math.ulp(loss.slope_bound))
    assert np.isnan(own[6])
