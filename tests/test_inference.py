"""Standard errors and intervals of coefficients from noisy moments."""

import numpy as np
import pytest
from scipy.stats import norm

from skdp import Domain, DPLinearRegression
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.linear_model._moments.inference import NoisyEquations, estimate
from skdp.mechanisms import MatrixLaplace, Sensitivity, calibrate


def table(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    return X, 0.3 + X @ np.linspace(-1, 1, p) + rng.normal(size=n)


def equations(gram, n, deviation=0.0, own=()):
    own_square = np.isin(np.arange(len(gram)), own)
    return NoisyEquations(gram / n, np.full(gram.shape, (deviation / n) ** 2), own_square, n)


def gram_of(X, y):
    rows = np.column_stack([np.ones(len(y)), X, y])
    return rows.T @ rows


def test_without_noise_standard_errors_are_those_of_least_squares():
    X, y = table(60, 3)
    Z = np.column_stack([np.ones(60), X])
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    variance = np.sum((y - Z @ theta) ** 2) / (60 - 4) * np.linalg.inv(Z.T @ Z)
    found = estimate(equations(gram_of(X, y), 60))
    np.testing.assert_allclose(found.theta, theta, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, variance, rtol=1e-6, atol=1e-12)
    half = norm.isf(0.025) * np.sqrt(np.diag(variance))
    ends = np.column_stack([theta - half, theta + half])
    np.testing.assert_allclose(found.intervals(np.eye(4)), ends, rtol=1e-6)


def test_one_coefficient_has_the_interval_of_fieller():
    h, b, v, z, n = 2.0, 1.0, 0.04, norm.isf(0.025), 1e12
    matrix = np.array([[h, b], [b, 1.0]])
    found = estimate(NoisyEquations(matrix, np.full((2, 2), v), np.zeros(2, bool), n))
    low, high = found.intervals(np.eye(1))[0]
    # The ends satisfy (b - h t)^2 = z^2 v (1 + t^2).
    ends = np.roots([h**2 - z**2 * v, -2 * h * b, b**2 - z**2 * v])
    np.testing.assert_allclose([low, high], np.sort(ends), rtol=1e-6)


def test_intervals_are_unbounded_where_the_noise_explains_the_moments():
    matrix = np.array([[0.3, 0.1], [0.1, 1.0]])
    for first in (0.3, -0.3):  # 0.3 is 1.5 standard deviations
        matrix[0, 0] = first
        found = estimate(NoisyEquations(matrix, np.full((2, 2), 0.04), np.zeros(2, bool), 100.0))
        assert found.intervals(np.eye(1)).tolist() == [[-np.inf, np.inf]]
    assert found.standard_errors(np.eye(1)).tolist() == [np.inf]


@pytest.mark.parametrize("own", [(), (1,), (1, 2)])
def test_covariance_of_the_noise_equals_that_of_its_entries(own):
    """Every entry is a coordinate of independent noise: the covariance is an explicit sum."""
    rng, k = np.random.default_rng(1), 4
    deviation = rng.uniform(0.5, 1.5, (k, k))
    deviation = np.triu(deviation) + np.triu(deviation, 1).T
    for j in own:
        deviation[j, j] = deviation[0, j]
    u, v = rng.normal(size=(2, k))
    cross, square = np.zeros((k, k)), 0.0
    for i in range(k):
        for j in range(i, k):
            if i == j and i in own:
                continue
            E = np.zeros((k, k))
            E[i, j] = E[j, i] = deviation[i, j]
            if i == 0 and j in own:
                E[j, j] = deviation[i, j]
            cross += np.outer(E @ u, E @ v)
            square += float(u @ E @ u) ** 2
    found = NoisyEquations(np.eye(k), deviation**2, np.isin(np.arange(k), own), 10.0)
    np.testing.assert_allclose(found.noise_covariance(u, v), cross[:-1, :-1], rtol=1e-12)
    assert found.product_variance(u) == pytest.approx(square)


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
    t = y if fit_intercept else y - 2
    theta = np.linalg.lstsq(Z, t, rcond=None)[0]
    scale = np.sum((t - Z @ theta) ** 2) / (400 - Z.shape[1])
    errors = np.sqrt(scale * np.diag(np.linalg.inv(Z.T @ Z)))[-2:]
    np.testing.assert_allclose(model.standard_errors(), errors, rtol=1e-4)
    half = norm.isf(0.05) * errors
    ends = np.column_stack([theta[-2:] - half, theta[-2:] + half])
    np.testing.assert_allclose(model.conf_int(0.9), ends, rtol=1e-4)


def test_models_without_unscaled_moments_are_refused():
    X, y = table(2000, 2)
    domain = Domain.unit_box(2, target=(-5, 5))
    scaled = DPLinearRegression(epsilon=1.0, domain=domain, random_state=0).fit(X, y)
    assert scaled.moments_.is_scaled
    with pytest.raises(ValueError, match='mechanism="matrix"'):
        scaled.conf_int()
    hull = DPLinearRegression(epsilon=1.0, domain=domain, mechanism="hull", random_state=0)
    with pytest.raises(ValueError, match="uncorrelated noise"):
        hull.fit(X, y).standard_errors()
    with pytest.raises(ValueError, match="level"):
        scaled.conf_int(1.0)


def test_the_bound_on_the_excess_kurtosis_of_the_noise():
    """20 000 draws with 3 columns: the excess is off by about .15, and 6 / 4 is the bound."""
    layout = MomentLayout(1, (0,), target_square=True)
    noise = calibrate(MatrixLaplace(), Sensitivity(MomentBall(layout)), epsilon=1.0)
    rng = np.random.default_rng(0)
    draws = layout.gram([noise.rvs(rng) for _ in range(20_000)], 0.0)
    for weight, u in (([0, 1, 0], [0, 0, 1]), ([0, 1, 0], [0.3, -0.5, 1]), ([0, 1, 0], [0, 1, 0])):
        values = draws @ np.array(u) @ np.array(weight)
        excess = np.mean(values**4) / np.mean(values**2) ** 2 - 3
        assert 0.4 < excess < 1.5 + 0.6


def test_a_regression_of_other_columns_has_intervals():
    """Of a column that is a number on an indicator; both have one noise for sum and square."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, 5000), rng.integers(2, size=5000)])
    X[:, 0] += X[:, 1] / 4
    domain = Domain({"a": (-2, 2), "b": [0.0, 1.0]}, target=(-4, 4))
    model = DPLinearRegression(epsilon=50.0, domain=domain, mechanism="matrix", random_state=0)
    other = model.fit(X, X[:, 0] + rng.normal(size=5000)).from_moments(["b"], target="a")
    low, high = other.conf_int()[0]
    assert low < 0.25 < high
    assert 0 < high - low < 0.2


def test_persons_have_no_intervals():
    """Rows of a person are not independent."""
    X, y = table(200, 1)
    domain = Domain.unit_box(1, target=(-5, 5))
    model = DPLinearRegression(domain=domain, mechanism="matrix", random_state=0)
    with pytest.raises(ValueError, match="conf_int must find moments of rows"):
        model.fit(X, y, groups=np.arange(200) // 2).conf_int()


def test_intervals_cover_as_often_as_they_state():
    """400 fits with two slopes: the share of intervals is off by .011; .90 to .985 are allowed."""
    domain, hits = Domain.unit_box(2, target=(-5, 5)), []
    for seed in range(400):
        X, y = table(2000, 2, seed)
        model = DPLinearRegression(
            epsilon=2.0, domain=domain, mechanism="matrix", random_state=seed
        )
        low, high = model.fit(X, y).conf_int().T
        hits.append((low <= [-1, 1]) & (high >= [-1, 1]))
    assert 0.90 < np.mean(hits) < 0.985
