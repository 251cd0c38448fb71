"""Coefficients as quotients of noisy sums: their laws, intervals and tests, without records.

And those of the moments of ``mechanism="matrix"``, which need no further budget.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from inner_inference import (
    NoisyCurvatures,
    NoisyEquations,
    NoisyEstimate,
    estimate_of,
    noise_covariance,
)
from scipy.stats import f, laplace, norm, t
from sklearn.base import clone

from skdp import Domain, DPLinearRegression
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.linear_model import from_json
from skdp.mechanisms import KNormNoise, MatrixLaplace, Sensitivity, calibrate

K = 4
ROWS = np.eye(K)


def random_estimate(seed, size, k=K, **facts):
    """Quotients with errors of ``size`` times their denominators, about."""
    rng = np.random.default_rng(seed)
    parts = [own @ own.T * size**2 for own in rng.normal(size=(2, k, k))]
    spread = size**2 * rng.uniform(0.2, 2, k)
    shared = rng.uniform(-0.9, 0.9, k) * np.sqrt(spread * np.diag(parts[1]))
    own = NoisyEstimate(
        rng.normal(size=k), rng.normal(size=k), rng.uniform(0.5, 2, k), *parts, spread, shared,
        np.full(k, 1.2),
    )  # fmt: skip
    return replace(own, **facts)


# Intervals and tests of quotients


def test_one_coefficient_has_the_interval_of_fieller():
    """The ends satisfy (a - b x)^2 = z^2 (s + p - 2 c x + v x^2), beside the start."""
    found = random_estimate(0, 0.2, excess=np.zeros(K))
    square = norm.isf(0.025) ** 2
    for j, (low, high) in enumerate(found.intervals(ROWS)):
        a, b = found.numerator[j], found.denominator[j]
        v, c = found.spread[j], found.shared[j]
        whole = found.sampling[j, j] + found.privacy[j, j]
        ends = np.roots([b**2 - square * v, -2 * (a * b - square * c), a**2 - square * whole])
        np.testing.assert_allclose([low, high], np.sort(ends) + found.start[j], rtol=1e-6)


@pytest.mark.parametrize("freedom", [4.0, 300.0, np.inf])
@pytest.mark.parametrize("size", [0.02, 0.2, 0.6])
@pytest.mark.parametrize("single", [True, False])
def test_an_interval_holds_the_values_that_the_test_does_not_reject(size, freedom, single):
    """Of a coefficient and of combinations; the greatest noise leaves some unbounded."""
    rng, unbounded = np.random.default_rng(1), 0
    for seed in range(30):
        found = random_estimate(seed, size, freedom=freedom)
        row = 3 * ROWS[:1] if single else rng.normal(size=(1, K))
        others = row @ found.theta + rng.standard_cauchy(20) * 3
        # Combinations of hidden coefficients are hidden at all levels.
        for level in (0.5, 0.95, 0.999) if single else (0.95,):
            low, high = found.intervals(row, level)[0]
            unbounded += np.isinf(high)
            edges = [low, high] if high < np.inf else []
            near = [edge + s * 1e-6 * (high - low) for edge in edges for s in (-1, 1)]
            for value in (*others, *near):
                p = found.test(row, np.atleast_1d(value))[1]
                assert (low <= value <= high) == (p >= 1 - level), (seed, level, value)
    assert (unbounded > 0) == (size > 0.1) or size == 0.2


@pytest.mark.parametrize("denominator", [0.39, 0.0, -3.0])
def test_a_hidden_denominator_hides_its_own_coefficient_only(denominator):
    """0.39 is 1.95 standard deviations, and the others have the intervals that they had."""
    whole = random_estimate(3, 0.1, excess=np.zeros(K))
    spread, sums = whole.spread.copy(), whole.denominator.copy()
    spread[1], sums[1] = 0.04, denominator
    found, others = replace(whole, spread=spread, denominator=sums), [0, 2, 3]
    ends = found.intervals(ROWS)
    assert ends[1].tolist() == [-np.inf, np.inf]
    np.testing.assert_array_equal(ends[others], whole.intervals(ROWS)[others])
    assert np.isfinite(ends[others]).all()
    assert found.is_hidden(0.025).tolist() == [False, True, False, False]
    assert found.standard_errors(ROWS)[1] == np.inf
    for value in (-1e9, 0.0, 1e9):
        assert found.test(ROWS[1:2], np.array([value]))[1] > 0.05
    assert found.test(ROWS[:2], np.array([1e6, 0.0])) == (0.0, 1.0)
    assert found.intervals(np.array([[1.0, -1, 0, 0]])).tolist() == [[-np.inf, np.inf]]
    bounded = found.test(ROWS[[0, 2]], found.theta[[0, 2]])
    assert bounded == pytest.approx((0.0, 1.0), abs=1e-12)


def test_values_far_away_are_as_likely_as_the_noise_allows():
    """The statistic has a limit, also for values whose squares overflow."""
    found = random_estimate(2, 0.2)
    far = [found.test(ROWS[:1], np.array([value]))[0] for value in (1e6, -1e6, 1e200, -1e300)]
    np.testing.assert_allclose(far, found.denominator[0] ** 2 / found.spread[0], rtol=1e-4)
    assert found.test(ROWS[:1], found.theta[:1])[1] == pytest.approx(1)
    assert found.test(ROWS, np.array([1e100, 0, 0, -1e120]))[1] == 0.0


def test_the_size_of_a_test_is_right_where_the_noise_dominates():
    """2000 quotients whose denominators are 6 deviations of their noise; 1 in a million fails."""
    rng, x, n = np.random.default_rng(0), 2.5, 2000
    law = np.array([[0.3, 0.15], [0.15, 1.0]])
    numerator, denominator = (np.array([6 * x, 6.0])[:, None]) + (
        np.linalg.cholesky(law) @ rng.normal(size=(2, n))
    )
    zero = np.zeros((n, n))
    found = NoisyEstimate(
        np.zeros(n), numerator, denominator, zero, np.diag(np.full(n, 0.3)), np.ones(n),
        np.full(n, 0.15), np.zeros(n),
    )  # fmt: skip
    tests = [found.test(row[None], np.array([x]))[1] for row in np.eye(n)]
    assert np.mean(np.array(tests) < 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.mean(np.array(tests) < 0.5) == pytest.approx(0.5, abs=0.06)


def test_the_test_is_that_of_student_if_the_sampling_part_is_estimated():
    """Without noise: the ratio of a distance and its standard error, with these freedoms."""
    none = np.zeros(K)
    found = random_estimate(1, 0.1, privacy=np.zeros((K, K)), spread=none, shared=none, freedom=7.0)
    row = np.array([[0.0, 1.0, 2.0, 0.0]])
    error = float(np.sqrt(row[0] @ found.covariance @ row[0]))
    statistic, p = found.test(row, row @ found.theta + 2.3 * error)
    assert statistic == pytest.approx(2.3**2)
    assert p == pytest.approx(2 * t.sf(2.3, 7))
    low, high = found.intervals(row, 0.9)[0]
    assert high - low == pytest.approx(2 * t.isf(0.05, 7) * error)
    # Several rows: F, in any combinations.
    R, turn = np.vstack([row, ROWS[:1]]), np.array([[2.0, 1.0], [-1.0, 3.0]])
    r = R @ found.theta + [0.1, -0.05]
    away = R @ found.theta - r
    square = away @ np.linalg.solve(R @ found.covariance @ R.T, away)
    assert found.test(R, r) == pytest.approx((square, f.sf(square / 2, 2, 7)))
    assert found.test(turn @ R, turn @ r)[0] == pytest.approx(square)


@pytest.mark.parametrize(("dim", "excess"), [(1, 3.0), (3, 1.5), (9, 0.6)])
def test_quantiles_are_those_of_the_noise(dim, excess):
    """Of K-norm noise on a ball, by draws; in one dimension it is Laplace's law."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(400_000, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    draws = rng.gamma(dim, size=400_000) * directions[:, 0]
    variance = np.full((1, 1), float(KNormNoise(LpBall(dim), 1.0).variance()[0]))
    none = np.zeros((1, 1))
    found = NoisyEstimate(
        none[0], none[0], np.ones(1), none, variance, none[0], none[0], np.array([excess])
    )
    high = found.intervals(np.eye(1))[0, 1]
    assert np.mean(np.abs(draws) <= high) == pytest.approx(0.95, abs=0.003)
    if dim == 1:
        assert high == pytest.approx(laplace.isf(0.025) * np.sqrt(variance[0, 0] / 2), rel=2e-3)
    np.testing.assert_allclose(found.test(np.eye(1), [high])[1], 0.05, rtol=1e-6)
    # Satterthwaite: with a share s of the variance from sampling, freedom / s^2.
    found = replace(found, sampling=variance, excess=none[0], freedom=5.0)
    assert found.test(np.eye(1), [0.1])[1] == pytest.approx(
        2 * t.sf(0.1 / np.sqrt(2 * variance[0, 0]), 5 * 4), rel=1e-6
    )


# Curvatures


def curvatures(seed=0, size=0.05, k=K, scale=1.0):
    """A matrix, deviations of its noise, and a map from its coordinates."""
    rng = np.random.default_rng(seed)
    root = np.eye(k) + rng.normal(size=(k, k)) / 4
    deviation = size * np.exp(rng.normal(size=(k, k)) / 4)
    back = (np.eye(k) + rng.normal(size=(k, k)) / 3) * np.broadcast_to(scale, k)[:, None]
    return root @ root.T, (deviation + deviation.T) / 2, back


def test_the_law_of_quotients_is_that_of_the_noise():
    """Against draws of another generator and the exact inverse, of all parts of the law.

    The draws of the code are 1000: means are off by .03 deviations, and variances by 5 %.
    """
    matrix, deviation, back = curvatures()
    rough, at, rng = NoisyCurvatures.of(matrix, deviation, back), np.array([0, 2]), np.random
    w, rest = rough.directions(at), back @ np.array([1.0, -2.0, 0.5, 1.0])
    noise = 0.05 * rng.default_rng(5).normal(size=(1000, K))
    law = rough.law(w, at, rest, noise, np.zeros((1000, 2)))
    draws = rng.default_rng(6).normal(size=(40_000, K, K)) * deviation
    draws = back @ (np.triu(draws) + np.swapaxes(np.triu(draws, 1), 1, 2)) @ back.T
    H = rough.matrix - draws
    rests = rest + 0.05 * rng.default_rng(7).normal(size=(len(H), K))
    theta = np.linalg.solve(H, rests[:, :, None])[..., 0]
    terms = np.einsum("km,nkl->nml", w, H) * theta[:, None]
    terms[:, [0, 1], at] = 0.0
    T, own = terms.sum(axis=2), np.einsum("km,nkm->nm", w, draws[:, :, at])
    size = T.std(axis=0)
    np.testing.assert_allclose(law.mean / size, T.mean(axis=0) / size, atol=0.15)
    np.testing.assert_allclose(law.privacy / np.outer(size, size), np.corrcoef(T.T), atol=0.2)
    np.testing.assert_allclose(law.spread, own.var(axis=0), rtol=0.2)
    both = np.mean(own * (T - T.mean(axis=0)), axis=0) / (size * own.std(axis=0))
    np.testing.assert_allclose(law.shared / size / np.sqrt(law.spread), both, atol=0.15)
    assert np.abs(both).max() > 0.3
    # One direction has no others: its quotient has no term of second order.
    single = NoisyCurvatures.of(matrix[:1, :1], deviation[:1, :1], np.eye(1))
    ones = np.ones((1000, 1))
    alone = single.law(np.eye(1), np.zeros(1, int), np.ones(1), ones, 0 * ones)
    np.testing.assert_allclose([alone.mean, alone.shared], 0, atol=1e-4)  # of third order


def test_directions_are_columns_of_the_inverse_and_of_no_unit():
    """With little noise w_j'H e_k is about 0, and in other units of z they are the same."""
    matrix, deviation, back = curvatures(size=1e-6)
    rough = NoisyCurvatures.of(matrix, deviation, back)
    w = rough.directions(np.arange(K))
    np.testing.assert_allclose(np.diag(w), 1.0)
    sums = w.T @ rough.matrix
    assert np.abs(sums - np.diag(np.diag(sums))).max() < 1e-4
    units = np.array([1.0, 1e6, 1e-3, 7.0])
    other = NoisyCurvatures.of(matrix, deviation, units[:, None] * back)
    np.testing.assert_allclose(
        other.directions(np.arange(K)), w * units / units[:, None], rtol=1e-5, atol=1e-12
    )
    assert other.ridge == rough.ridge


@pytest.mark.parametrize("least", [1e-3, -2.0])
def test_where_the_noise_hides_the_matrix_a_ridge_bounds_the_inverse(least):
    deviation = curvatures(size=0.1)[1]
    matrix = np.diag([1.0, 2.0, 1.5, least])
    rough = NoisyCurvatures.of(matrix, deviation, np.eye(K))
    assert 0.02 < rough.ridge < 0.5
    assert np.linalg.eigvalsh(rough.raised)[0] >= rough.ridge * (1 - 1e-9)
    assert np.linalg.eigvalsh(rough.inverse)[-1] <= (1 + 1e-9) / rough.ridge


def whole_of(seed=0, size=1e-7, units=1.0):
    """Equations with coefficients ``truth``, and the estimate of all of them."""
    matrix, deviation, back = curvatures(seed, size, scale=units)
    rng = np.random.default_rng(seed)
    truth, start = rng.normal(size=(2, K)) / np.broadcast_to(units, K)
    rough = NoisyCurvatures.of(matrix, deviation, back)
    w = rough.directions(np.arange(K))
    H = rough.matrix
    own = NoisyEquations(
        matrix, deviation, back, start, w.T @ H @ (truth - start), np.diag(w.T @ H @ w) * size**2
    )
    sampling = w.T @ H @ w * 0.01
    facts = np.diag(w.T @ H), sampling, np.diag(own.direct), *np.zeros((3, K)), 50.0
    whole = NoisyEstimate(start, own.numerator, *facts)
    return own, whole, H, truth


RESTRICTIONS = {
    "without the second": (ROWS[:, [0, 2, 3]], np.zeros(K)),
    "the first two are one": (np.eye(3)[[0, 0, 1, 2]], np.zeros(K)),
    "one is given": (ROWS[:, [1, 2, 3]], np.array([0.7, 0, 0, 0])),
    "only one": (ROWS[:, :1], np.zeros(K)),
}


@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.parametrize("units", [1.0, np.array([1.0, 1e5, 1e-4, 3.0])])
def test_restricted_coefficients_are_those_of_restricted_least_squares(name, units):
    """Without noise, with their covariance: H is that of least squares with variance 0.01.

    And with that of the columns that are left out.
    """
    (R, constant), (own, whole, H, truth) = RESTRICTIONS[name], whole_of(units=units)
    found = own.restricted(R, constant, whole)
    inner = R.T @ H @ R
    gamma = np.linalg.solve(inner, R.T @ H @ (truth - constant))
    gap = truth - constant - R @ gamma  # a part of the errors, whose mean square is added
    left_out = gap @ H @ gap / H[0, 0]
    errors = np.sqrt(np.diag(np.linalg.inv(inner)) * (0.01 + left_out))
    assert left_out > 0.01
    np.testing.assert_allclose((found.theta - gamma) / errors, 0, atol=1e-3)
    np.testing.assert_allclose(found.standard_errors(np.eye(len(gamma))), errors, rtol=1e-3)
    assert found.freedom == 50.0
    assert not found.is_hidden(0.025).any()


# Moments of the fit


def table(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    return X, 0.3 + X @ np.linspace(-1, 1, p) + rng.normal(size=n)


@pytest.mark.parametrize("own", [(), (1,), (1, 2)])
def test_covariance_of_the_noise_equals_that_of_its_entries(own):
    """Every entry is a coordinate of independent noise: the covariance is an explicit sum."""
    rng, k = np.random.default_rng(1), 4
    deviation = rng.uniform(0.5, 1.5, (k, k))
    deviation = np.triu(deviation) + np.triu(deviation, 1).T
    for j in own:
        deviation[j, j] = deviation[0, j]
    u, v = rng.normal(size=(2, k))
    cross = np.zeros((k, k))
    for i in range(k):
        for j in range(i, k):
            if i == j and i in own:
                continue
            E = np.zeros((k, k))
            E[i, j] = E[j, i] = deviation[i, j]
            if i == 0 and j in own:
                E[j, j] = deviation[i, j]
            cross += np.outer(E @ u, E @ v)
    found = noise_covariance(deviation**2, np.isin(np.arange(k), own), u, v)
    np.testing.assert_allclose(found, cross[:-1, :-1], rtol=1e-12)


def test_moments_that_are_not_positive_definite_hide_everything():
    matrix = np.array([[-0.3, 0.0, 0.1], [0.0, 1.0, 0.4], [0.1, 0.4, 1.0]])
    found = estimate_of(matrix, np.full((3, 3), 0.04), np.zeros(3, bool), 100.0, 1.5)
    assert found.test(np.eye(2), np.array([1e6, 0.0])) == (0.0, 1.0)
    assert found.test(np.eye(2)[:1], np.array([1e6])) == (0.0, 1.0)
    assert np.isinf(found.intervals(np.eye(2))).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_with_large_epsilon_intervals_are_those_of_least_squares(fit_intercept, neighbors):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(2, 6, 400), rng.uniform(0, 1, 400)])
    y = X @ [1.0, -2.0] + rng.normal(size=400)
    domain = Domain.box([2, 0], [6, 1], target=(-8, 12))
    model = DPLinearRegression(
        epsilon=1e9, domain=domain, mechanism="matrix", fit_intercept=fit_intercept,
        neighbors=neighbors, n_public=400 if neighbors == "add_remove" else None, random_state=0,
    ).fit(X, y)  # fmt: skip
    # Without an intercept the encoded model is homogeneous around the middle of the bounds.
    Z = np.column_stack([np.ones(400), X]) if fit_intercept else X - [4, 0.5]
    target = y if fit_intercept else y - 2
    theta = np.linalg.lstsq(Z, target, rcond=None)[0]
    scale = np.sum((target - Z @ theta) ** 2) / (400 - Z.shape[1])
    errors = np.sqrt(scale * np.diag(np.linalg.inv(Z.T @ Z)))[-2:]
    found = model.infer()
    np.testing.assert_allclose(found.std_error[-2:], errors, rtol=1e-4)
    half = norm.isf(0.05) * errors
    ends = np.column_stack([theta[-2:] - half, theta[-2:] + half])
    np.testing.assert_allclose(found.conf_int(level=0.9)[-2:], ends, rtol=1e-4)


def test_moments_that_give_no_standard_errors_are_refused():
    """Scaled columns are clipped by unknown amounts, and rows of a person are not independent."""
    X, y = table(2000, 2)
    domain = Domain.unit_box(2, target=(-5, 5))
    model = DPLinearRegression(domain=domain, random_state=0).fit(X, y)
    assert model.moments_.is_scaled
    hull = clone(model).set_params(mechanism="hull").fit(X, y)
    matrix = clone(model).set_params(mechanism="matrix").fit(X, y)
    persons = clone(matrix).fit(X, y, groups=np.arange(2000) // 2)
    refused = [(model, 'mechanism="matrix"'), (hull, "uncorrelated noise"), (persons, "persons")]
    for own, message in [*refused, (from_json(matrix.to_json()), "uncorrelated noise")]:
        with pytest.raises(ValueError, match=rf"{message}.*") as error:
            own.infer()
        assert "Pass the records: infer(X, y, epsilon=1.0)." in str(error.value)
        assert error.value.__notes__ == ["No budget was spent and no noise was drawn."]
    with pytest.raises(ValueError, match="X must be given where another argument is"):
        matrix.infer(epsilon=1.0)


def test_the_bound_on_the_excess_kurtosis_of_the_noise():
    """10 000 draws with 3 columns: the excess is off by about .2, and 6 / 4 is the bound."""
    layout = MomentLayout(1, (0,), target_square=True)
    noise = calibrate(MatrixLaplace(), Sensitivity(MomentBall(layout)), epsilon=1.0)
    rng = np.random.default_rng(0)
    draws = layout.gram([noise.rvs(rng) for _ in range(10_000)], 0.0)
    for weight, u in (([0, 1, 0], [0, 0, 1]), ([0, 1, 0], [0.3, -0.5, 1]), ([0, 1, 0], [0, 1, 0])):
        values = draws @ np.array(u) @ np.array(weight)
        excess = np.mean(values**4) / np.mean(values**2) ** 2 - 3
        assert 0.4 < excess < 1.5 + 0.6
