"""Estimates from records: those of least squares and of the likelihood, and what noise hides."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from inner_inference import CELLS, NoisyCurvatures, bending, deviations_of
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from skdp import (
    Domain,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    DPPoissonRegressor,
)

COLUMNS = {"a": (-8, 8), "b": (-3, 3), "job": ["x", "y", "z"]}
TRUTH = np.array([0.5, 0.3, -0.5, 0.4, -0.6])
LARGE = 1e6


def table(n=3000, seed=0, rare=0.03):
    """Rows, their design (1, a, b, y, z), and numbers with errors of unequal variances."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(1, 1, n).clip(-8, 8), rng.uniform(-1, 3, n)
    job = rng.choice(["x", "y", "z"], n, p=[0.6, 0.4 - rare, rare])
    Z = np.column_stack([np.ones(n), a, b, job == "y", job == "z"]).astype(float)
    y = Z @ TRUTH + (0.2 + 0.3 * np.abs(a)) * rng.standard_normal(n)
    return pd.DataFrame({"a": a, "b": b, "job": job}), Z, y


def robust(Z, rows, curvature=1.0, groups=None):
    """Return the standard errors that are robust to unequal variances, and to groups."""
    bread = np.linalg.inv((Z.T * curvature) @ Z)
    if groups is not None:
        rows = np.array([rows[groups == own].sum(axis=0) for own in np.unique(groups)])
    return np.sqrt(np.diag(bread @ rows.T @ rows @ bread))


def fitted(kind, X, y, epsilon=LARGE, columns=COLUMNS, target=(-20, 20), **facts):
    domain = columns if isinstance(columns, Domain) else Domain(columns, target=target)
    groups = {"groups": facts.pop("groups")} if "groups" in facts else {}
    model = kind(epsilon=epsilon, domain=domain, random_state=0, **facts)
    return model.fit(X, y, **groups)


def assert_close(found, theta, errors, skipped=0):
    """The intercept's standard error is of other units than the ratios."""
    np.testing.assert_allclose((found.coef - theta) / errors, 0, atol=1e-3)
    np.testing.assert_allclose(found.std_error[skipped:], errors[skipped:], rtol=1e-3)
    np.testing.assert_allclose(found.privacy_error, 0, atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_with_large_epsilon_the_table_is_that_of_least_squares(neighbors, fit_intercept):
    """With errors that are robust; the number of records may be private, of a public size."""
    X, Z, y = table()
    Z = Z[:, int(not fit_intercept) :]
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    errors = robust(Z, Z * (y - Z @ theta)[:, None])
    facts = {"neighbors": neighbors, "fit_intercept": fit_intercept}
    facts["n_public"] = 3000 if neighbors == "add_remove" else None
    model = fitted(DPLinearRegression, X, y, **facts)
    found = model.infer(X, y, epsilon=LARGE, random_state=0)
    assert_close(found, theta, errors, int(fit_intercept))
    assert found.names == ("intercept", "a", "b", "job_y", "job_z")[int(not fit_intercept) :]
    few = model.infer(X, y, epsilon=LARGE, effects=["job", "a"], random_state=0)
    at = [found.names.index(name) for name in ("a", "job_y", "job_z")]
    assert few.names == ("a", "job_y", "job_z")
    assert_close(few, theta[at], errors[at])
    for kept, names in ([[0, 1, 2], ["job"]], [[0, 1, 3, 4], ["b"]]) if fit_intercept else ():
        less, Zs = found.without(*names), Z[:, kept]
        # Residuals are those of the whole table.
        own = np.linalg.lstsq(Zs, y, rcond=None)[0]
        np.testing.assert_allclose((less.coef - own) / errors[kept], 0, atol=2e-3)


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPPoissonRegressor])
def test_with_large_epsilon_labels_and_counts_have_the_table_of_maximum_likelihood(kind):
    """Counts are overdispersed, and errors are robust."""
    X, Z, _ = table()
    rng, eta = np.random.default_rng(1), Z @ TRUTH
    if kind is DPLogisticRegression:
        y, target = rng.random(len(Z)) < expit(eta), [False, True]
        best = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(Z[:, 1:], y)
    else:
        y, target = rng.poisson(np.exp(eta / 5) * rng.gamma(3, 1, len(Z))), (0, 100)
        best = PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000).fit(Z[:, 1:], y)
    theta = np.append(best.intercept_, best.coef_)
    p = expit(Z @ theta) if kind is DPLogisticRegression else np.exp(Z @ theta)
    slopes = p * (1 - p) if kind is DPLogisticRegression else p
    errors = robust(Z, Z * (y - p)[:, None], slopes)
    model = fitted(kind, X, y, target=target)
    # The fit is shrunk. A step from a model near the maximum has its curvatures, too.
    assert np.abs((np.ravel(model.coef_) - theta[1:]) / errors[1:]).max() > 0.1
    found = model.infer(X, y, epsilon=LARGE, random_state=0)
    np.testing.assert_allclose((found.coef - theta) / errors, 0, atol=2e-2)
    np.testing.assert_allclose(found.std_error, errors, rtol=0.1)
    model._encoded_coef = theta[None, 1:] * [8, 3, 1, 1]
    model._encoded_intercept = theta[:1]
    assert_close(model.infer(X, y, epsilon=LARGE, random_state=0), theta, errors, 1)


def test_with_large_epsilon_persons_have_errors_of_groups():
    """Three rows of a person share a part of their error; each has the weight 1/3."""
    X, Z, y = table()
    groups = np.arange(len(y)) // 3
    y = y + 2 * np.random.default_rng(3).normal(size=len(y) // 3)[groups]
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    rows = Z * (y - Z @ theta)[:, None]
    model = fitted(DPLinearRegression, X, y, groups=groups)
    found = model.infer(X, y, groups=groups, epsilon=LARGE, random_state=0)
    assert_close(found, theta, robust(Z, rows, groups=groups), 1)
    assert robust(Z, rows)[0] < 0.9 * robust(Z, rows, groups=groups)[0]


@pytest.mark.parametrize("given", ["groups", "sample_weight"])
def test_counts_of_persons_and_with_weights_have_robust_errors(given):
    """Three rows of a person are equal, or weights are 1 and 1/2 with the likelihood of both."""
    X, Z, _ = table()
    rng = np.random.default_rng(2)
    y = rng.poisson(np.exp(Z @ TRUTH / 5) * rng.gamma(3, 1, len(Z))).astype(float)
    weight, groups = np.where(np.arange(len(Z)) % 2, 1.0, 0.5), None
    if given == "groups":
        X, Z, y = X.loc[X.index.repeat(3)], np.repeat(Z, 3, axis=0), np.repeat(y, 3)
        weight, groups = np.ones(len(Z)), np.arange(len(Z)) // 3
    best = PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000).fit(Z[:, 1:], y, weight)
    theta = np.append(best.intercept_, best.coef_)
    p = np.exp(Z @ theta)
    errors = robust(Z, Z * (weight * (y - p))[:, None], weight * p, groups)
    facts = {given: groups if given == "groups" else weight}
    limit = {} if given == "groups" else {"max_weight": 1.0}
    domain = Domain(COLUMNS, target=(0, 100))
    model = DPPoissonRegressor(epsilon=LARGE, domain=domain, random_state=0, **limit)
    found = model.fit(X, y, **facts).infer(X, y, epsilon=LARGE, random_state=0, **facts)
    np.testing.assert_allclose((found.coef - theta) / errors, 0, atol=2e-2)
    np.testing.assert_allclose(found.std_error, errors, rtol=0.1)


def test_sampling_errors_are_those_without_noise_for_any_epsilon():
    """Influences are bounded where they are long, and not where a score is small."""
    X, Z, _ = table()
    y = Z @ TRUTH + np.random.default_rng(5).standard_t(5, len(Z))
    errors = robust(Z, Z * (y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0])[:, None])
    model = fitted(DPLinearRegression, X, y, 4.0)
    found = [model.infer(X, y, epsilon=10.0, random_state=seed) for seed in range(20)]
    shares = np.mean([own.sampling_error for own in found], axis=0) / errors
    np.testing.assert_allclose(shares, 1, atol=0.06)


CASES = {
    "a ball": Domain.l2_ball(2, 9.0, target=(-20, 20)),
    "one column": {"a": (-8, 8)},
    "levels": {"job": ["x", "y", "z"]},
    "bounds far away": {"a": (-1e4, 1e4), "b": (-1e3, 1e3)},
}


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", CASES)
def test_other_domains_have_the_coefficients_of_least_squares(name, neighbors):
    """With an epsilon of 20: within 4 standard errors, and these are not much greater.

    Without a public number of records, rows far from the centre have smaller weights.
    """
    X, Z, y = table(20_000)
    domain = CASES[name]
    at = {"levels": [0, 3, 4], "one column": [0, 1]}.get(name, [0, 1, 2])
    X = X[["a", "b"]].to_numpy() if name == "a ball" else X[[*domain]]
    model = fitted(DPLinearRegression, X, y, 5.0, domain, neighbors=neighbors)
    found = model.infer(X, y, epsilon=20.0, random_state=0)
    theta = np.linalg.lstsq(Z[:, at], y, rcond=None)[0]
    errors = robust(Z[:, at], Z[:, at] * (y - Z[:, at] @ theta)[:, None])
    assert not found.is_hidden.any()
    assert np.abs((found.coef - theta) / found.std_error).max() < 4
    assert np.all(found.std_error < (2 if neighbors == "replace_one" else 4) * errors)


@pytest.mark.parametrize("weak", ["equal", "constant"])
def test_a_weak_direction_hides_its_own_coefficients_only(weak):
    """Two columns that are nearly equal, or one that is constant: noise in others grows little."""
    X, _, y = table(20_000)
    rng = np.random.default_rng(1)
    plain = fitted(DPLinearRegression, X, y, 2.0).infer(X, y, epsilon=8.0, random_state=0)
    X["c"] = 0.5 if weak == "constant" else X.a + 1e-4 * rng.normal(size=len(X))
    columns = COLUMNS | {"c": (-8, 8)}
    model = fitted(DPLinearRegression, X, y, 2.0, columns)
    found = model.infer(X, y, epsilon=8.0, random_state=0)
    hidden = {name for name, own in zip(found.names, found.is_hidden, strict=True) if own}
    assert {"c"} <= hidden <= {"c", "a", "intercept"} - ({"a"} if weak == "constant" else set())
    others = [found.names.index(name) for name in ("b", "job_y", "job_z")]
    errors, most = plain.std_error[2:], 3 if weak == "equal" else 8
    assert np.all(found.std_error[others] < most * errors)
    assert np.all(np.abs(found.coef[others] - TRUTH[2:]) < 4 * found.std_error[others])
    assert np.all(found.p_values[found.is_hidden] > 0.05)
    # Without it, nothing is hidden.
    less = found.without("c")
    assert not less.is_hidden.any()
    assert np.all(np.abs(less.coef - TRUTH) < 4 * less.std_error)
    assert np.all(less.std_error[2:] < 2 * errors)


def test_a_level_of_three_records_does_not_lengthen_other_intervals():
    """Nor do columns that are nearly sums of others, but for those that are in the sum."""
    X, _, y = table(20_000)
    plain = fitted(DPLinearRegression, X, y, 0.5).infer(X, y, epsilon=2.0, random_state=0)
    rows = np.arange(len(X))
    X = X.assign(rare=np.where(rows < 3, "q", "p"), day=(rows % 7).astype(str))
    X["free"] = np.where((rows % 7 < 5) ^ (rows % 33 == 0), "no", "yes")
    columns = COLUMNS | {"rare": ["p", "q"], "day": [*"0123456"], "free": ["no", "yes"]}
    found = fitted(DPLinearRegression, X, y, 0.5, columns).infer(X, y, epsilon=2.0, random_state=0)
    at = [found.names.index(name) for name in ("a", "b", "job_y")]
    assert np.all(found.std_error[at] < 6 * plain.std_error[[1, 2, 3]])
    assert np.all(np.abs(found.coef[at] - TRUTH[[1, 2, 3]]) < 4 * found.std_error[at])
    assert found.is_hidden[found.names.index("rare_q")]


def test_intervals_from_a_model_that_is_far_away_are_long_enough():
    """From probabilities of 1/2, two steps do not reach the maximum: errors say so."""
    X, Z, _ = table(20_000)
    y = np.random.default_rng(1).random(len(Z)) < expit(3 * (Z @ TRUTH))
    model = fitted(DPLogisticRegression, X, y, 1.0, target=[False, True], regularization=1e6)
    found = model.infer(X, y, epsilon=8.0, random_state=0)
    assert np.all(np.abs(found.coef - 3 * TRUTH) < 2 * found.std_error)
    assert np.any(np.abs(found.coef - 3 * TRUTH) > 4 * robust(Z, Z * 2, 0.25))


def test_a_rare_level_is_kept():
    """200 of 20 000 rows: its standard error is about twice that without noise."""
    X, Z, y = table(20_000, rare=0.01)
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    errors = robust(Z, Z * (y - Z @ theta)[:, None])
    found = fitted(DPLinearRegression, X, y, 4.0).infer(X, y, epsilon=16.0, random_state=0)
    assert found.std_error[-1] < 2.5 * errors[-1]
    assert abs(found.coef[-1] - TRUTH[-1]) < 4 * found.std_error[-1]


def test_deviations_are_those_of_normal_values_and_of_heavy_tails():
    """Counts by size; with noise of 30 a deviation is off by less than half an octave."""
    rng, values = np.random.default_rng(0), np.random.default_rng(1).standard_normal(20_000)
    tails = np.random.default_rng(2).standard_t(3, 20_000)
    for sample, size in ((values, 1.0), (tails, np.sqrt(3.0))):
        for scale in (0.3, 1e-3):
            cells = np.floor(-2 * np.log2(np.abs(sample) * scale / 2)).clip(0, CELLS - 1)
            counts = np.bincount(cells.astype(int), minlength=CELLS) + 30 * rng.normal(size=CELLS)
            (found,) = deviations_of(counts[None], 30.0)
            assert 2**-0.5 < found / (size * scale) < 2**0.5
    assert deviations_of(30 * rng.normal(size=(3, CELLS)), 30.0).tolist() == [2.0] * 3


@pytest.mark.parametrize("cell", [1e300, -1e300])
def test_cells_beyond_bounds_are_those_at_bounds(cell):
    X, _, y = table(500)
    model, found = fitted(DPHuberRegressor, X, y, 1.0), []
    for value in (cell, 8.0 * np.sign(cell)):
        X.loc[:20, "a"], y[30] = value, 20 * value / 8 if abs(value) < 9 else value
        found.append(model.infer(X, y, epsilon=1.0, random_state=0))
    np.testing.assert_array_equal(found[0].conf_int(), found[1].conf_int())
    assert found[0].notes == found[1].notes


@pytest.mark.parametrize("is_log", [False, True])
def test_the_bound_on_the_error_of_a_step_for_labels_and_counts(is_log):
    """It contains the error of a step from a shrunk model, and vanishes for short steps.

    Targets are means, so that the error of the step is all that is left.
    """
    n, truth = 20_000, np.array([-2.0, 0.8, -0.5])
    Z = np.column_stack([np.ones(n), np.random.default_rng(0).standard_normal((n, 2))])
    mean, unit, added = np.exp if is_log else expit, 1 if is_log else 4, []
    for share in (0.98, 0.85):
        p = mean(Z @ (share * truth))
        h, score = unit * p * (1 if is_log else 1 - p), unit * Z.T @ (mean(Z @ truth) - p)
        H, none = (Z.T * h) @ Z, np.zeros((1, 3, 3))
        step = np.linalg.solve(H, score)
        rough = NoisyCurvatures(H, none, np.eye(3), 1e-9)
        # The error of the step is solved from a draw of what is left over.
        left = H @ ((1 - share) * truth - step)
        facts = left[None], h.sum(), n, is_log
        bound = np.sqrt(bending(rough, step, *facts) * np.diag(np.linalg.inv(H)))
        added.append(bound)
        assert np.all(np.isfinite(bound))
        if is_log:  # of the next step, from where the first one leads, with its curvatures
            p = mean(Z @ (share * truth + step))
            again = np.linalg.solve((Z.T * p) @ Z, Z.T @ (mean(Z @ truth) - p))
            assert np.all(np.abs(share * truth + step + again - truth) < bound)
    assert np.all(added[0] < 0.05 * np.sqrt(4 * np.diag(np.linalg.inv(H))))
    assert np.all(added[0] < added[1])


@pytest.mark.parametrize("origin", [2000.0, -3e6])
@pytest.mark.parametrize("kind", [DPHuberRegressor, DPLogisticRegression])
def test_intervals_of_slopes_do_not_depend_on_the_origin_of_a_column(kind, origin):
    """The intercept is then far from the records."""
    rng, found = np.random.default_rng(0), []
    x = rng.normal(20, 5, 5000).clip(0, 40)
    errors = rng.standard_normal(5000) * np.exp((x - 20) / 10)
    y = errors + x / 10 > 2 if kind is DPLogisticRegression else errors
    target = [False, True] if kind is DPLogisticRegression else (-20, 20)
    for zero in (0.0, origin):
        X = pd.DataFrame({"x": zero + x})
        model = fitted(kind, X, y, 0.8, {"x": (zero, zero + 40)}, target)
        inference = model.infer(X, y, epsilon=3.2, random_state=1)
        value, ends = inference.combine([[1.0, zero + 20.0]])
        found.append([*inference.conf_int()[1], inference.coef[1], *value])
        assert (ends[:, 0] < value).all()
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)


def test_the_estimates_of_a_sparse_model_are_not_sparse():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 4))
    y, domain = 2 * X[:, 0] + 0.1 * rng.standard_normal(2000), Domain.unit_box(4, target=(-4, 4))
    facts = {"penalty": "l1", "alpha": 0.05}
    model = fitted(DPCoordinateDescentRegressor, X, y, 50.0, domain, **facts)
    assert np.count_nonzero(model.coef_) < 4
    assert np.all(model.infer(X, y, epsilon=50.0).coef != 0)
