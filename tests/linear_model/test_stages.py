"""What a fitted model says of its choices: stages with their noise, q, ridges and losses."""

import numpy as np
import pytest

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)

X = np.random.default_rng(0).uniform(-1, 1, size=(400, 3))
CLASSIFIERS = [DPLogisticRegression, DPCoordinateDescentClassifier]
REGRESSORS = [DPHuberRegressor, DPLinearRegression, DPCoordinateDescentRegressor]


def fitted(estimator, labels=2, **parameters):
    """A model of three numbers."""
    target, y = (-1.0, 1.0), X[:, 0] / 2 + X[:, 1] / 3
    if estimator in CLASSIFIERS:
        target, y = [*range(labels)], np.arange(len(X)) % labels
    return estimator(domain=Domain.unit_box(3, target), random_state=0, **parameters).fit(X, y)


MORE = [
    (DPCoordinateDescentClassifier, {"order": "greedy"}),
    (DPCoordinateDescentRegressor, {"order": "greedy", "scaling_share": 0}),
    (DPCoordinateDescentRegressor, {"mechanism": "logistic", "scaling_share": 0.3}),
    (DPLogisticRegression, {"mechanism": "logistic", "scaling_share": 0.3}),
    (DPLogisticRegression, {"scaling_share": 0.1}),
    (DPHuberRegressor, {"scaling_share": 0.1}),
    (DPLinearRegression, {"mechanism": "l1"}),
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
def test_the_stages_spend_the_budget(estimator, parameters, epsilon, delta, neighbors, labels):
    """Their parts add up to the guarantee; all are known, or none is."""
    asked = {"epsilon": epsilon, "delta": delta, "neighbors": neighbors, "n_public": len(X)}
    model = fitted(estimator, labels, **asked, **parameters)
    stages, guarantee = model.stages_, model.guarantee_
    spent = [stage.epsilon for stage in stages]
    if None in spent:
        assert delta > 0
        assert {(stage.epsilon, stage.delta) for stage in stages} == {(None, None)}
    else:
        assert min(spent) > 0
        assert sum(spent) == pytest.approx(guarantee.epsilon, rel=1e-12)
        assert sum(stage.delta for stage in stages) == pytest.approx(guarantee.delta)
    assert len({stage.name for stage in stages}) == len(stages)
    assert all(stage.releases >= 1 and 0 < stage.deviation < np.inf for stage in stages)


def test_the_stages_have_the_laws_of_the_noise():
    """The last but the output has the noise that ``noise_`` has."""
    model = fitted(DPLinearRegression, mechanism="gaussian", delta=1e-6)
    (stage,) = model.stages_
    assert stage.deviation == pytest.approx(np.sqrt(np.mean(model.noise_.variance())))
    assert stage.law == "GaussianNoise"
    model = fitted(DPCoordinateDescentRegressor, scaling_share=0)
    (stage,) = model.stages_
    assert stage.law == repr(model.noise_.law)
    assert stage.releases == 4 * model.n_iter_
    model = fitted(DPHuberRegressor)
    objective, output = model.stages_
    assert objective.deviation == pytest.approx(np.sqrt(np.mean(model.noise_.variance())))
    assert 0 < output.deviation < objective.deviation


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPHuberRegressor])
def test_what_was_chosen_is_an_attribute(estimator):
    """q, one ridge per coordinate with the intercept first, and the loss; given or chosen."""
    model = fitted(estimator)
    assert 0 < model.q_ < 1
    assert model.ridge_.shape == (4,)
    assert (model.ridge_ > 0).all()
    assert model.loss_.slope_bound > 0
    model = fitted(estimator, q=0.7, fit_intercept=False)
    assert model.q_ == 0.7
    assert model.ridge_.shape == (3,)


@pytest.mark.parametrize("order", ["cyclic", "greedy"])
def test_the_scaling_stage_of_a_descent_spends_its_share(order):
    """With delta = 0: of K-norm noise, or beside greedy choices of Laplace noise."""
    given = {"scaling_share": 0.3, "mechanism": "laplace", "order": order}
    model = fitted(DPCoordinateDescentRegressor, epsilon=2.0, **given)
    scaling = model.stages_[0]
    if order == "cyclic":
        assert scaling.law == "KNormNoise(SquaresBall)"
        assert scaling.epsilon == pytest.approx(0.3 * 2.0)
    else:
        # Three numbers and the target: in units of the noise each adds 8 / 3 with its square.
        cost = 4 * (8 / 3) / (scaling.deviation / np.sqrt(2))
        assert scaling.epsilon == pytest.approx(cost, rel=1e-9)
