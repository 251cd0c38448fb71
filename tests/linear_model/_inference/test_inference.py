"""Standard errors and intervals of coefficients from noisy moments."""

import pickle
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from inner_inference import NoisyEquations, estimate, narrowed, widened
from inner_package import FloatArray, decode, encode
from scipy.stats import chi2, f, kstest, norm, t
from sklearn.base import clone

from skdp import Domain, DPLinearRegression
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.linear_model import check_proof, from_json, load_model
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
    low, high = other.infer().conf_int()[1]
    assert low < 0.25 < high
    assert 0 < high - low < 0.2


def test_intervals_cover_as_often_as_they_state():
    """400 fits with two slopes: the share of intervals is off by .011; .90 to .985 are allowed."""
    domain, hits = Domain.unit_box(2, target=(-5, 5)), []
    for seed in range(400):
        X, y = table(2000, 2, seed)
        model = DPLinearRegression(
            epsilon=2.0, domain=domain, mechanism="matrix", random_state=seed
        )
        low, high = model.fit(X, y).infer().conf_int()[1:].T
        hits.append((low <= [-1, 1]) & (high >= [-1, 1]))
    assert 0.90 < np.mean(hits) < 0.985


def random_equations(seed, k=3, size=0.05, n=500.0):
    """Moments of a random table with noise of independent entries; the noise may hide them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, k + 1))
    rows[:, -1] += rows[:, :-1] @ rng.normal(size=k)
    deviation = size * rng.uniform(0.5, 1.5, (k + 1, k + 1))
    noise = rng.normal(size=(k + 1, k + 1)) * deviation
    upper, square = np.triu(noise), np.triu(deviation**2)
    matrix = rows.T @ rows / 40 + upper + np.triu(upper, 1).T
    variance = square + np.triu(square, 1).T
    return NoisyEquations(matrix, variance, np.zeros(k + 1, bool), n, 1.5)


@pytest.mark.parametrize("freedom", [4.0, 300.0, np.inf])
@pytest.mark.parametrize("size", [0.02, 0.2, 0.6])
def test_an_interval_holds_the_values_that_the_test_does_not_reject(size, freedom):
    """The greatest noise leaves some intervals unbounded and some equations not usable."""
    rng, unbounded = np.random.default_rng(1), 0
    for seed in range(30):
        found = replace(estimate(random_equations(seed, size=size)), freedom=freedom)
        row = rng.normal(size=(1, 3))
        others = row @ found.theta + rng.standard_cauchy(20) * 3
        p_of = {value: found.test(row, np.atleast_1d(value))[1] for value in others}
        for level in (0.5, 0.95, 0.999):
            low, high = found.intervals(row, level)[0]
            unbounded += np.isinf(high)
            edges = [low, high] if high < np.inf else []
            near = [edge * (1 + s * 1e-6) for edge in edges for s in (-1, 1)]
            p_near = {value: found.test(row, np.atleast_1d(value))[1] for value in near}
            for value, p in (p_of | p_near).items():
                inside = low <= value <= high
                assert inside == (p >= 1 - level), (seed, level, value)
    assert (unbounded > 0) == (size > 0.1)


def test_the_test_is_that_of_student_if_the_sampling_part_is_estimated():
    """Without noise: the ratio of a distance and its standard error, with these freedoms."""
    X, y = table(60, 3)
    found = replace(estimate(equations(gram_of(X, y), 60)), freedom=7.0)
    row = np.array([[0.0, 1.0, 2.0, 0.0]])
    error = float(np.sqrt(row[0] @ found.covariance @ row[0]))
    value = row @ found.theta + 2.3 * error
    statistic, p = found.test(row, value)
    assert statistic == pytest.approx(2.3**2)
    assert p == pytest.approx(2 * t.sf(2.3, 7))
    low, high = found.intervals(row, 0.9)[0]
    assert high - low == pytest.approx(2 * t.isf(0.05, 7) * error)


def test_a_known_privacy_part_adds_degrees_of_freedom():
    """Satterthwaite: with a share s of the variance from sampling, freedom / s^2."""
    found = replace(estimate(random_equations(3, size=0.02)), freedom=5.0)
    found = replace(found, equations=replace(found.equations, excess=0.0))
    row = np.array([[1.0, 0.0, 0.0]])
    share = found.sampling[0, 0] / found.covariance[0, 0]
    assert 0.05 < share < 0.95
    statistic, p = found.test(row, found.theta[:1] + 0.1)
    assert p == pytest.approx(2 * t.sf(np.sqrt(statistic), 5 / share**2))


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("excess", [1e-14, 1e-6, 0.3, 2.0])
def test_the_expansion_of_the_quantile_is_inverted(excess, m):
    for root in (0.0, 0.1, 1.7, 1.8, 2.5, 5.0, 40.0):
        assert narrowed(widened(root, excess, m), excess, m) == pytest.approx(root, rel=1e-9)


@pytest.mark.parametrize("m", [1, 3])
def test_the_expansion_is_that_of_a_mixture_of_normal_laws(m):
    """The share beyond the quantile, for variances 1 - s and 1 + s with a small s."""
    s, root = 0.1, np.sqrt(chi2.isf(0.01, m))
    wide = widened(root, 3 * s**2, m) ** 2
    assert np.mean(chi2.sf(wide / np.array([1 - s, 1 + s]), m)) == pytest.approx(0.01, rel=5e-3)
    assert np.mean(chi2.sf(root**2 / np.array([1 - s, 1 + s]), m)) > 0.0103


def test_the_joint_test_without_noise_is_the_f_test_of_least_squares():
    X, y = table(60, 3)
    Z = np.column_stack([np.ones(60), X])
    found = replace(estimate(equations(gram_of(X, y), 60)), freedom=56.0)
    R, r = np.array([[0, 1.0, 0, 0], [0, 0, 1, -1]]), np.array([-0.5, 0.2])
    # The residual sum of squares with R theta = r against that without.
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    inverse = np.linalg.inv(Z.T @ Z)
    bound = theta - inverse @ R.T @ np.linalg.solve(R @ inverse @ R.T, R @ theta - r)
    rest, more = (float(np.sum((y - Z @ c) ** 2)) for c in (theta, bound))
    ratio = (more - rest) / 2 / (rest / 56)
    statistic, p = found.test(R, r)
    assert statistic == pytest.approx(2 * ratio, rel=1e-6)
    assert p == pytest.approx(f.sf(ratio, 2, 56), rel=1e-5)


def test_the_joint_test_uses_the_noise_under_the_null():
    """D'V^-1 D with V of the coefficients that satisfy the null, by the definition."""
    own = replace(random_equations(7, size=0.1), excess=0.0)
    found = estimate(own)
    R, r = np.array([[1.0, 0, 1], [0, 1, 0]]), np.array([0.3, -0.2])
    move = found.covariance @ R.T @ np.linalg.solve(R @ found.covariance @ R.T, r - R @ found.theta)
    u = np.append(-(found.theta + move), 1.0)
    D = R @ found.inverse @ (own.matrix[:-1] @ u)
    np.testing.assert_allclose(D, R @ found.theta - r, rtol=1e-9)
    noise = found.inverse @ own.noise_covariance(u, u) @ found.inverse
    V = R @ (found.sampling + noise) @ R.T
    statistic, p = found.test(R, r)
    assert statistic == pytest.approx(float(D @ np.linalg.solve(V, D)))
    assert p == pytest.approx(f.sf(statistic / 2, 2, 1e9), rel=1e-5)
    # The same null in other combinations.
    turn = np.array([[2.0, 1.0], [-1.0, 3.0]])
    assert found.test(turn @ R, turn @ r)[0] == pytest.approx(statistic)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_p_values_under_the_null_are_uniform_where_the_noise_dominates(m):
    """1000 releases with normal noise; the size is right if the noise is large in H too.

    A test at level 0.05 rejects .05 (1 +- .14) of the time; fails once in a million if it is .087.
    """
    rng, k, sigma = np.random.default_rng(0), 4, 0.05
    root = rng.normal(size=(k, k)) / 3 + np.eye(k)
    H, theta = root @ root.T / 2, np.array([0.5, -1, 0, 2])
    whole = np.block([[H, (H @ theta)[:, None]], [H @ theta, theta @ H @ theta + 0.2]])
    variance, R, found = np.full((k + 1, k + 1), sigma**2), np.eye(k)[:m], []
    for _ in range(1000):
        upper = np.triu(rng.normal(size=(k + 1, k + 1)) * sigma)
        noisy = whole + upper + np.triu(upper, 1).T
        own = NoisyEquations(noisy, variance, np.zeros(k + 1, bool), 1e9)
        found.append(estimate(own).test(R, theta[:m])[1])
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.087
    assert np.mean(np.array(found) < 0.5) < 0.58
    assert kstest(found, "uniform").statistic < 0.15


def test_tests_of_equations_that_are_not_usable_reject_nothing():
    matrix = np.array([[-0.3, 0.0, 0.1], [0.0, 1.0, 0.4], [0.1, 0.4, 1.0]])
    found = estimate(NoisyEquations(matrix, np.full((3, 3), 0.04), np.zeros(3, bool), 100.0))
    assert found.test(np.eye(2), np.array([1e6, 0.0])) == (0.0, 1.0)


def test_values_far_away_are_as_likely_as_the_noise_allows():
    """The statistic has a limit, also for values whose squares overflow."""
    found = estimate(random_equations(2, size=0.2))
    row = np.eye(3)[:1]
    far = [found.test(row, np.array([value])) for value in (1e6, -1e6, 1e200, -1e300)]
    np.testing.assert_allclose([own[0] for own in far], far[0][0], rtol=1e-4)
    assert found.test(row, found.theta[:1]) == (0.0, 1.0)
    joint = found.test(np.eye(3), np.array([1e200, 0, -1e250]))
    assert np.isfinite(joint).all()


def test_equations_without_any_error_have_intervals_of_length_0():
    X = np.column_stack([np.ones(30), np.arange(30.0)])
    found = estimate(equations(gram_of(X[:, 1:], X @ [1.0, 2.0]), 30))
    assert np.isfinite(found.intervals(np.eye(2))).all()
    np.testing.assert_allclose(found.intervals(np.zeros((1, 2))), [[0.0, 0.0]])


@cache
def fitted(neighbors="replace_one", epsilon=20.0, **parameters):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(20, 60, 4000), rng.integers(3, size=4000)]).astype(object)
    X[:, 1] = np.array(["clerk", "craft", "sales"])[X[:, 1].astype(int)]
    y = 0.1 * X[:, 0].astype(float) + (X[:, 1] == "sales") + rng.normal(size=4000)
    domain = Domain({"age": (20, 60), "job": ["clerk", "craft", "sales"]}, target=(-2, 12))
    model = DPLinearRegression(
        epsilon=epsilon, domain=domain, mechanism="matrix", neighbors=neighbors, random_state=0,
        **parameters,
    )  # fmt: skip
    return model.fit(X, y)


def test_the_inference_has_names_estimates_and_both_parts_of_the_errors():
    model = fitted()
    found = model.infer()
    assert found.names == ("intercept", "age", "job_craft", "job_sales")
    assert found.columns == ("", "age", "job", "job")
    np.testing.assert_allclose(found.coef, [0, 0.1, 0, 1], atol=0.5)
    whole = np.hypot(found.sampling_error, found.privacy_error)
    np.testing.assert_allclose(found.std_error, whole, rtol=1e-9)
    assert (found.privacy_error > 0).all()
    assert found.guarantee is model.guarantee_
    assert found.n_records == 4000
    assert fitted("add_remove", n_public=4000).infer().n_records is None
    # It costs nothing: it is of the releases of the fit.
    assert (found.releases, found.public) == (model.releases_, model.public_)
    assert check_proof(found).lines == check_proof(model).lines
    assert found.model == "DPLinearRegression"


def test_p_values_and_intervals_of_a_model_agree():
    """At the level 1 - p the interval ends at 0."""
    found = fitted(epsilon=4.0).infer()
    shown = [j for j, p in enumerate(found.p_values) if p > 1e-9]
    assert len(shown) >= 2
    for j in shown:
        p = found.p_values[j]
        low, high = found.conf_int(level=1 - p)[j]
        assert min(abs(low), abs(high)) < 1e-6 * (high - low)
    small = found.z_values[2]
    assert abs(small - found.coef[2] / found.std_error[2]) < 0.2


def test_combinations_have_the_intervals_of_their_differences():
    found = fitted().infer()
    values, ends = found.combine(np.eye(4), level=0.9)
    np.testing.assert_allclose(values, found.coef)
    np.testing.assert_allclose(ends, found.conf_int(level=0.9))
    difference, (inner,) = found.combine([[0, 0, -1, 1]])
    assert inner[0] < difference[0] < inner[1]
    np.testing.assert_allclose(inner[0] < 1 < inner[1], True)
    for weights in ([[1, 2]], [["a"] * 4], [[np.nan, 0, 0, 0]], np.zeros((0, 4)), [[[1, 0, 0, 0]]]):
        with pytest.raises(ValueError, match="matrix of finite numbers with 4 columns"):
            found.combine(weights)


def test_a_column_of_levels_is_tested_as_a_whole():
    found = fitted().infer()
    both = found.wald_test("job")
    assert both == found.wald_test(["job_craft", "job_sales"])
    assert both == found.wald_test(np.eye(4)[2:])
    assert both.n_restrictions == 2
    assert both.p_value < 1e-3
    single = found.wald_test(["job_craft"])
    assert single.p_value == pytest.approx(found.p_values[2])
    assert found.wald_test("job", found.coef[2:]).p_value > 0.999
    with pytest.raises(ValueError, match="names of coefficients or columns"):
        found.wald_test(["jobs"])
    with pytest.raises(ValueError, match="linearly independent"):
        found.wald_test(np.eye(4)[[1, 1]])
    with pytest.raises(ValueError, match="linearly independent"):
        found.wald_test(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="value must be a finite number, or 2"):
        found.wald_test("job", [0.0, np.nan])


def test_a_constant_intercept_is_no_coefficient():
    """Without an intercept and with bounds around 0, in the user's units too."""
    X, y = table(500, 2)
    model = DPLinearRegression(
        domain=Domain.unit_box(2, target=(-4, 4)), mechanism="matrix", fit_intercept=False,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    assert model.infer().names == ("x0", "x1")
    moved = model.set_params(domain=Domain.box([0, 0], [1, 2], target=(-4, 4))).fit(X, y)
    assert moved.infer().names == ("intercept", "x0", "x1")
    assert moved.infer().std_error[0] > 0


def test_a_level_is_given_by_its_name():
    """``conf_int(0.05)`` is an interval of 95 % in statsmodels, and would be one of 5 % here."""
    found = fitted().infer()
    for call in (found.conf_int, found.summary, partial(found.combine, np.eye(4))):
        with pytest.raises(TypeError, match="positional argument"):
            call(0.05)
        with pytest.raises(ValueError, match="level must"):
            call(level=1.0)


@pytest.mark.parametrize("parameters", [{}, {"fit_intercept": False}, {"neighbors": "add_remove"}])
def test_a_file_keeps_the_inference(parameters):
    """Tables, intervals and tests are the same, and it proves its guarantee."""
    found = fitted(**parameters).infer()
    text = found.to_json()
    again = from_json(text)
    assert again.to_json() == text
    for own in (again, pickle.loads(pickle.dumps(again))):
        assert str(own.summary()) == str(found.summary())
        np.testing.assert_array_equal(own.conf_int(level=0.9), found.conf_int(level=0.9))
        assert own.wald_test("job") == found.wald_test("job")
        assert check_proof(own).lines == check_proof(found).lines


def test_a_file_keeps_degrees_of_freedom_and_equations_that_are_not_usable():
    found = fitted().infer()
    own = replace(found.estimate.equations, matrix=np.diag([-1.0, 1, 1, 1, 1]))
    bad = replace(found, estimate=replace(estimate(own), freedom=7.5), notes=("A.",))
    again = from_json(bad.to_json())
    assert (again.estimate.freedom, again.is_usable, again.notes) == (7.5, False, ("A.",))
    endless = replace(found, estimate=replace(found.estimate, freedom=np.inf))
    assert from_json(endless.to_json()).estimate.freedom == np.inf
    for name in ("rows", "constants"):
        with pytest.raises(ValueError, match="the inference must contain only finite numbers"):
            replace(found, **{name: np.nan * getattr(found, name)}).to_json()


def entries_of(change):
    """A change of an array in a file."""
    return lambda old: encode("an array", change(decode("an array", FloatArray, old)))


EQUATIONS = {
    "matrix": entries_of(lambda old: old + np.triu(np.ones((5, 5)))),
    "variance": entries_of(np.negative),
    "own_square": lambda old: old | {"entries": [0] * 5},
    "n": lambda old: 0.0,
    "excess": lambda old: 9.0,
}
EDITS = {
    "sampling": entries_of(np.negative),
    "freedom": lambda old: 0.0,
    "rows": entries_of(lambda old: old[1:]),
    "constants": entries_of(lambda old: old[2:]),
    "notes": lambda old: "no list",
    "n_records": lambda old: 1.5,
    "kind": lambda old: "os.system",
    "version": lambda old: 2,
    "skdp": lambda old: None,
    "model": lambda old: 3,
    "domain": lambda old: Domain({"age": (20, 60)}).to_dict(),
    "guarantee": lambda old: old | {"epsilon": -1.0},
    "fit": lambda old: 1.0,
    "public": lambda old: old | {"unit": "table"},
    "releases": lambda old: [],
    "records": lambda old: [],
}


@pytest.mark.parametrize("name", [*EQUATIONS, *EDITS])
def test_an_edited_inference_is_refused(name):
    content = fitted().infer().to_dict()
    assert {*content} == {*EDITS, "equations"}
    part, change = (content["equations"], EQUATIONS) if name in EQUATIONS else (content, EDITS)
    part[name] = change[name](part[name])
    with pytest.raises(ValueError, match="must"):
        load_model(content)
    part.pop(name)
    with pytest.raises(ValueError, match="must"):
        load_model(content)


@pytest.mark.parametrize(
    "change", [lambda old: old[1:], lambda old: old[:, 1:], np.ravel, lambda old: old + np.inf]
)
@pytest.mark.parametrize("name", ["matrix", "variance", "sampling"])
def test_matrices_of_other_shapes_or_with_infinite_entries_are_refused(name, change):
    content = fitted().infer().to_dict()
    part = content["equations"] if name in EQUATIONS else content
    part[name] = entries_of(change)(part[name])
    with pytest.raises(ValueError, match=r"(matrix|variance|sampling).* must"):
        load_model(content)
