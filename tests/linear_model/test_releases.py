"""What a fitted model says of its choices: releases with their noise, q, ridges and losses."""

import re
from pathlib import Path

import numpy as np
import pytest

import skdp
from skdp import Domain, DPCoordinateDescentRegressor, DPHuberRegressor, DPLogisticRegression
from skdp.trusted import overview

PROOFS = Path(skdp.__file__).parents[1] / "docs" / "proofs"
X = np.random.default_rng(0).uniform(-1, 1, size=(400, 3))
CLASSIFIERS = [DPLogisticRegression, skdp.DPCoordinateDescentClassifier]
REGRESSORS = [DPHuberRegressor, skdp.DPLinearRegression, DPCoordinateDescentRegressor]


def fitted(estimator, labels=2, **parameters):
    """A model of three numbers."""
    target, y = (-1.0, 1.0), X[:, 0] / 2 + X[:, 1] / 3
    if estimator in CLASSIFIERS:
        target, y = [*range(labels)], np.arange(len(X)) % labels
    return estimator(domain=Domain.unit_box(3, target), random_state=0, **parameters).fit(X, y)


MORE = [
    (skdp.DPCoordinateDescentClassifier, {"order": "greedy"}),
    (DPCoordinateDescentRegressor, {"order": "greedy", "scaling_share": 0}),
    (DPCoordinateDescentRegressor, {"mechanism": "logistic", "scaling_share": 0.3}),
    (DPLogisticRegression, {"mechanism": "logistic", "scaling_share": 0.3}),
    (DPLogisticRegression, {"scaling_share": 0.1}),
    (DPHuberRegressor, {"scaling_share": 0.1}),
    (skdp.DPLinearRegression, {"mechanism": "l1"}),
]


@pytest.mark.parametrize(
    ("epsilon", "delta", "neighbors", "labels"),
    [
        (0.1, 0.0, "replace_one", 2),
        (3.0, 0.0, "add_remove", 3),
        (3.0, 1e-6, "replace_one", 2),
        (50.0, 1e-6, "add_remove", 2),
    ],
)
@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [*((estimator, {}) for estimator in [*CLASSIFIERS, *REGRESSORS]), *MORE],
)
def test_the_releases_spend_the_budget(estimator, parameters, epsilon, delta, neighbors, labels):
    """Their parts add up to the guarantee, unless some are composed at a delta."""
    asked = {"epsilon": epsilon, "delta": delta, "neighbors": neighbors, "n_public": len(X)}
    model = fitted(estimator, labels, **asked, **parameters)
    lines = overview(model.releases_, model.public_)
    spent = [line.epsilon for line in lines]
    if None in spent:
        assert delta > 0
    elif model.guarantee_.delta == 0:
        assert min(spent) > 0
        assert sum(spent) == pytest.approx(epsilon, rel=1e-9)
    assert len({line.name for line in lines}) == len(lines)
    assert all(line.times >= 1 and 0 < line.deviation < np.inf for line in lines)
    for line in lines:
        page, number = re.match(r"(\w+\.md), Theorems? (\d)", line.theorem).groups()
        assert re.search(rf"Theorem {number}\b", (PROOFS / page).read_text(encoding="utf-8"))


def test_the_releases_have_the_laws_of_the_noise():
    """The last one has the noise that ``noise_`` has."""
    model = fitted(skdp.DPLinearRegression, mechanism="gaussian", delta=1e-6)
    (release,) = model.releases_
    assert release.deviation == pytest.approx(np.sqrt(np.mean(model.noise_.variance())))
    assert release.law == "GaussianNoise"
    assert repr(release) == "NoisySum('moments', GaussianNoise, 'moment_release.md, Theorem 1')"
    model = fitted(DPCoordinateDescentRegressor, scaling_share=0)
    (release,) = model.releases_
    assert release.law == repr(model.noise_.law)
    assert release.times == 4 * model.n_iter_  # a step for each coordinate
    assert f", {release.times} times, " in repr(release)
    model = fitted(DPHuberRegressor)
    (objective,) = model.releases_
    assert objective.deviation == pytest.approx(np.sqrt(np.mean(model.noise_.variance())))


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPHuberRegressor])
def test_what_was_chosen_is_an_attribute(estimator):
    """q, one ridge per coordinate with the intercept first, and the loss."""
    model = fitted(estimator)
    assert 0 < model.q_ < 1
    assert model.ridge_.shape == (4,)
    assert (model.ridge_ > 0).all()
    assert model.loss_.slope_bound > 0
    assert fitted(estimator, fit_intercept=False).ridge_.shape == (3,)


@pytest.mark.parametrize("order", ["cyclic", "greedy"])
def test_the_scaling_stage_of_a_descent_spends_its_share(order):
    """With delta = 0: of K-norm noise, or beside greedy choices of Laplace noise."""
    given = {"scaling_share": 0.3, "mechanism": "laplace", "order": order}
    model = fitted(DPCoordinateDescentRegressor, epsilon=2.0, **given)
    scaling, release = overview(model.releases_, model.public_)[0], model.releases_[0]
    if order == "cyclic":
        assert scaling.law == "KNormNoise(SquaresBall)"
        assert scaling.epsilon == pytest.approx(0.3 * 2.0)
    else:
        # Losses of Laplace noise add up.
        units = sum(size * count for size, count in release.change.shifts)
        cost = units / (scaling.deviation / np.sqrt(2))
        assert scaling.epsilon == pytest.approx(cost, rel=1e-9)
