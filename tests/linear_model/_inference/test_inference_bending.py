"""The error of one step of Newton's method for labels is part of the variance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from inner_inference import NoisyEquations, estimate, with_bending
from scipy.special import expit

from skdp import (
    Domain,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    from_json,
)
from skdp.linear_model import check_proof
from skdp.model_selection import PrivateSearchCV

N = 20_000


def step(Z, truth, start):
    """Return the estimate of a step without noise, and the mean curvature.

    The targets are probabilities, so that the error of the step is all that is left.
    """
    p = expit(Z @ start)
    h, score = 4 * p * (1 - p), expit(Z @ truth) - p
    k = Z.shape[1]
    matrix = np.zeros((k + 1, k + 1))
    matrix[:k, :k] = Z.T @ (h[:, None] * Z) / len(Z)
    matrix[:k, k] = matrix[k, :k] = 4 * Z.T @ score / len(Z)
    facts = np.zeros_like(matrix), np.zeros(k + 1, bool), float(len(Z))
    return estimate(NoisyEquations(matrix, *facts)), float(h.mean())


def added(found, curvature):
    """Return the standard deviations that the error of the step adds."""
    more = with_bending(found, curvature).sampling - found.sampling
    return np.sqrt(np.diag(more))


DESIGNS = {
    "normal": lambda rng: rng.standard_normal((N, 2)),
    "uniform": lambda rng: rng.uniform(-2, 2, (N, 2)),
}


@pytest.mark.parametrize(
    "truth", [(0.0, 1.0, -1.0), (-4.0, 0.8, 0.0), (0.0, 2.0, 0.0), (3.0, 1.0, 0.0)]
)
@pytest.mark.parametrize("design", DESIGNS)
def test_the_error_of_a_step_is_within_its_bound(design, truth):
    """For models that are shrunk by a share, as those that a step starts from.

    The bound is no more than about three times the error.
    """
    rng = np.random.default_rng(0)
    Z = np.column_stack([np.ones(N), DESIGNS[design](rng)])
    errors = []
    for share in (0.9, 0.8):
        found, curvature = step(Z, np.array(truth), share * np.array(truth))
        error = np.abs(found.theta - (1 - share) * np.array(truth))
        assert np.all(error <= added(found, curvature) + 1e-12), (share, error)
        errors.append(float(error.max()))
    assert errors[-1] > 0.3 * added(found, curvature).max()  # there is an error to be covered


def test_a_short_step_adds_hardly_anything():
    Z = np.column_stack([np.ones(N), np.random.default_rng(0).standard_normal((N, 2))])
    truth = np.array([0.0, 1.0, -1.0])
    found, curvature = step(Z, truth, truth + 0.02)
    usual = np.sqrt(4 / N * np.diag(found.inverse))
    assert np.all(added(found, curvature) < 0.1 * usual)


def test_a_model_at_one_half_adds_nothing():
    """There p'' is 0, and a curvature of 1 is the greatest."""
    found, _ = step(np.ones((N, 1)), np.array([0.1]), np.array([0.0]))
    np.testing.assert_array_equal(with_bending(found, 1.0).sampling, found.sampling)


def test_intervals_of_rare_labels_hold_the_truth():
    """A first model of a small budget is far from the truth; without the bound .8 would."""
    domain = Domain({"x": (-4, 4), "z": (-4, 4)}, target=[0, 1])
    truth, covered = np.array([0.8, 0.0]), []
    for r in range(60):
        rng = np.random.default_rng(r)
        X = rng.standard_normal((4000, 2)).clip(-4, 4)
        y = (rng.random(4000) < expit(X @ truth - 4.2)).astype(int)
        rows = pd.DataFrame(X, columns=["x", "z"])
        model = DPLogisticRegression(epsilon=0.8, domain=domain, random_state=r).fit(rows, y)
        low, high = model.infer(rows, y, epsilon=3.2, random_state=100 + r).conf_int()[1:].T
        covered.append((low <= truth) & (truth <= high))
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize("origin", [2000.0, -3e6])
@pytest.mark.parametrize("kind", [DPHuberRegressor, DPLogisticRegression])
def test_intervals_of_predictions_do_not_depend_on_the_origin_of_a_column(kind, origin):
    """The intercept is then far from the records, and all combinations with it cancel."""
    rng, found = np.random.default_rng(0), []
    x = rng.normal(20, 5, 5000).clip(0, 40)
    errors = rng.standard_normal(5000) * np.exp((x - 20) / 10)  # ratios differ
    y = errors + x / 10 > 2 if kind is DPLogisticRegression else errors
    for zero in (0.0, origin):
        target = [False, True] if kind is DPLogisticRegression else (-20, 20)
        domain = Domain({"x": (zero, zero + 40)}, target=target)
        X = pd.DataFrame({"x": zero + x})
        model = kind(epsilon=0.8, domain=domain, random_state=0).fit(X, y)
        inference = model.infer(X, y, epsilon=3.2, random_state=1)
        value, ends = inference.combine([[1.0, zero + 20.0]])
        whole = inference.wald_test([[1.0, zero + 20.0], [0.0, 1.0]], [0.0, 0.01]).p_value
        found.append([*value, *ends[0], whole])
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)


def test_the_inference_of_a_model_that_a_search_chose():
    """From records it has a guarantee of its own; from released moments it has that of the search.

    The file of the latter proves one fit, and says so.
    """
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame({"a": rng.uniform(-1, 1, 2000)}), rng.uniform(-1, 1, 2000)
    model = DPLinearRegression(domain=Domain({"a": (-1, 1)}, target=(-1, 1)), mechanism="matrix")
    grid = {"postprocess": ["psd", "ridge"]}
    search = PrivateSearchCV(model, grid, epsilon=8.0, random_state=0).fit(X, y)
    best = search.best_estimator_
    found, free = best.infer(X, y, epsilon=2.0), best.infer()
    assert found.guarantee.epsilon == 2.0
    assert free.guarantee == best.guarantee_ == search.guarantee_
    assert free.public.epsilon < 8.0
    chosen = "A private search chose the model"
    for own in (found, free):
        proof = check_proof(from_json(own.to_json()))
        assert any(text.startswith(chosen) for text in proof.assumptions) is (own is free)


def test_the_number_of_persons_is_shown_where_it_is_public():
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame({"a": rng.uniform(-1, 1, 90)}), rng.uniform(-1, 1, 90)
    domain, groups = Domain({"a": (-1, 1)}, target=(-1, 1)), np.arange(90) // 3
    cases = [({}, 30), ({"neighbors": "add_remove"}, None), ({"rows_per_person": 2}, None)]
    for facts, shown in cases:
        model = DPHuberRegressor(domain=domain, **facts).fit(X, y, groups=groups)
        assert model.infer(X, y, groups=groups, epsilon=1.0).n_records == shown


def test_the_estimates_of_a_sparse_model_are_not_sparse():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 4))
    domain = Domain.box([-1] * 4, [1] * 4, target=(-4, 4))
    y = 2 * X[:, 0] + 0.1 * rng.standard_normal(2000)
    model = DPCoordinateDescentRegressor(
        epsilon=50, domain=domain, penalty="l1", alpha=0.05, random_state=0
    ).fit(X, y)
    assert np.count_nonzero(model.coef_) < 4
    assert np.all(model.infer(X, y, epsilon=50.0).coef != 0)
