"""Each step of the certificate's proof in exact fractions: no part of its bound is too small."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from exact_gradient import FloatArray, Problem, distance, exact_gradient, problem
from scipy.special import softmax

from skdp import Spline
from skdp.domain.splines import Interaction
from skdp.linear_model._solver import certificate as _certificate
from skdp.linear_model._solver.certificate import certified_gradient
from skdp.linear_model.losses import Logistic, PseudoHuber, Softmax
from skdp.rows import KeptBlocks
from skdp.rows.block import MOST_ROWS

U = Fraction(1, 2**53)
CUBIC = Spline(0, 1, knots=3, degree=3)
COLUMNS = {"no curve": (), "a curve": (CUBIC,), "an interaction": (Interaction(CUBIC, CUBIC),)}


def gamma(k: int) -> Fraction:
    return k * U / (1 - k * U)


def cancelling(columns: str, ridge: float) -> tuple[Problem, FloatArray]:
    """Return predictors of order 1, the differences of coefficients and a number of order 1e9.

    The penalty and the linear term cancel as well.
    """
    splines = COLUMNS[columns]
    made = problem(40, 2, PseudoHuber(4.0), seed=1, splines=splines, ridge=ridge)
    rng = np.random.default_rng(2)
    theta = rng.normal(size=made.dim)
    for spline, block in zip(splines, made.coordinates.design.blocks, strict=True):
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
    made, theta = cancelling(columns, ridge)
    blocks, n, norm = made.coordinates.design.blocks, made.n, Fraction(made.row_norm)
    c, curvature = Fraction(4), 1
    size = sum(abs(Fraction(t)) for t in theta[made.coordinates.numbers].tolist())
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
    made = problem(300, 4, Logistic(), splines=splines, intercept=intercept)
    theta = np.full(made.dim, 0.52 * 2**30 // 1 + 0.499)  # the grid is 1

    def is_bounded() -> bool:
        split = _certificate._SplitTerms.of(made.coordinates, theta)
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
class Line(Logistic):
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
    loss, made = Softmax(classes, 0.5), problem(40, 3, Logistic(), seed=4)
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
@pytest.mark.parametrize("loss", [Logistic(), PseudoHuber(0.3)], ids=repr)
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
