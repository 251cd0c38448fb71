"""The estimators' API: parameters, tables, units, labels, and what a model says about itself."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import is_classifier
from sklearn.pipeline import make_pipeline

import skdp
from skdp import Domain, DPCoordinateDescentRegressor, DPHuberRegressor, DPLogisticRegression
from skdp.geometry import LpBall
from skdp.mechanisms import KNorm

OBJECTIVES = [DPLogisticRegression, DPHuberRegressor]
DESCENTS = [skdp.DPCoordinateDescentClassifier, DPCoordinateDescentRegressor]
ESTIMATORS = [*OBJECTIVES, *DESCENTS, skdp.DPLinearRegression]


@pytest.fixture(params=ESTIMATORS)
def case(request, people, domain, answers, pay_domain, pay):
    if is_classifier(request.param()):
        return request.param, domain, people, answers
    return request.param, pay_domain, people, pay


def test_the_same_seed_gives_the_same_model_and_none_a_new_one(case):
    estimator, domain, X, y = case
    models = [estimator(domain=domain, random_state=s).fit(X, y) for s in (1, 1, 2, None, None)]
    coefs = [model.coef_ for model in models]
    np.testing.assert_array_equal(coefs[0], coefs[1])
    assert all((coefs[i] != coefs[j]).all() for i, j in [(0, 2), (0, 3), (3, 4)])


def test_a_generator_moves_on_from_fit_to_fit(case):
    estimator, domain, X, y = case
    model = estimator(domain=domain, random_state=np.random.default_rng(1))
    first = model.fit(X, y).coef_
    assert (model.fit(X, y).coef_ != first).all()


def test_a_pipeline_with_the_encoder_is_the_same_model(case):
    """Same seed, same predictions, and coefficients that differ by the units alone."""
    estimator, domain, X, y = case
    whole = estimator(domain=domain, random_state=4).fit(X, y)
    encoded = estimator(domain=domain.encoded, random_state=4)
    encoder = domain.encoder().set_output(transform="pandas")
    piped = make_pipeline(encoder, encoded).fit(X, y)
    np.testing.assert_allclose(piped.predict(X) == whole.predict(X), True)
    np.testing.assert_allclose(encoded._encoded_coef, whole._encoded_coef, rtol=1e-12)
    np.testing.assert_allclose(encoded._encoded_intercept, whole._encoded_intercept, rtol=1e-12)
    assert encoded.guarantee_ == whole.guarantee_
    assert encoded.feature_names_in_.tolist() == list(encoder.get_feature_names_out())


def indicators(X, domain):
    """Numbers in the user's units next to indicators: what coef_ multiplies."""
    rows = domain.encode(X)
    for name, at in (("age", 0), ("hours", 4)):
        rows[:, at] = X[name]
    return rows


def test_coefficients_are_in_the_users_units(case):
    """For rows inside the domain, plain algebra reproduces the predictions."""
    estimator, domain, X, y = case
    model = estimator(domain=domain, epsilon=50.0, random_state=0).fit(X, y)
    by_hand = indicators(X, domain) @ model.coef_.T + model.intercept_
    if is_classifier(model):
        assert model.coef_.shape == (1, 5)
        np.testing.assert_allclose(model.decision_function(X), by_hand[:, 0], rtol=1e-9)
    else:
        assert model.coef_.shape == (5,)
        assert isinstance(model.intercept_, float)
        lower, upper = domain.target_bounds
        np.testing.assert_allclose(model.predict(X), np.clip(by_hand, lower, upper), rtol=1e-9)
        assert model.score(X, y) > 0.9


def test_predict_clips_rows_to_the_domain(case):
    """Numbers beyond the bounds count as the bounds, unknown levels as the first one."""
    estimator, domain, X, y = case
    model = estimator(domain=domain, random_state=0).fit(X, y)
    far, near = X.head(3).copy(), X.head(3).copy()
    far["age"], near["age"] = [1e300, -5.0, 90.1], [90.0, 17.0, 90.0]
    far["job"], near["job"] = "astronaut", "none"
    np.testing.assert_array_equal(model.predict(far), model.predict(near))


@pytest.mark.parametrize(
    "estimator", [DPHuberRegressor, skdp.DPLinearRegression, DPCoordinateDescentRegressor]
)
@pytest.mark.parametrize("bounds", [(0.1, 0.7), (-1e-3, 1e9), (-3.0, -2.9)])
def test_regression_predictions_keep_the_targets_bounds(bounds, estimator):
    """The prediction of the farthest rows is within the bounds to the last bit."""
    domain = Domain.box([-1.0], [1.0], target=bounds)
    X = np.linspace(-1, 1, 2000)[:, None]
    for sign in (1, -1):
        y = np.where(sign * X[:, 0] > 0, *bounds)
        model = estimator(domain=domain, epsilon=1e3, random_state=0).fit(X, y)
        model._encoded_coef = 100 * model._encoded_coef  # far beyond both bounds
        found = model.predict(X)
        assert bounds[0] <= found.min() < found.max() <= bounds[1]


def test_without_an_intercept_zero_predicts_zero(case):
    """Numbers in the middle of their bounds and first levels have a predictor of 0."""
    estimator, domain, X, y = case
    model = estimator(domain=domain, fit_intercept=False, random_state=0).fit(X, y)
    middle = X.head(1).assign(age=53.5, hours=40.0, sex="f", job="none")
    assert (model._predictor(middle) == 0.0).all()
    assert (model._encoded_intercept == 0.0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_extreme_predictors_give_finite_probabilities(n_classes):
    """Log-odds of 800 underflow no logarithm and overflow no exponential."""
    X, y = np.array([[1.0], [-1.0]] * 3), np.array([0, 1] * 3)
    model = DPLogisticRegression(classes=range(n_classes), loss="logistic", random_state=0)
    model.fit(X, y)
    sizes = np.array([[800.0]]) if n_classes == 2 else np.array([[800.0], [-800.0], [-790.0]])
    model._encoded_coef, model._encoded_intercept = sizes, np.zeros(len(sizes))
    p, log_p = model.predict_proba(X), model.predict_log_proba(X)
    assert np.isfinite(log_p).all()
    assert log_p.min() < -700
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(logsumexp(log_p, axis=1), 0, atol=1e-12)


def test_classes_go_before_the_domains_labels(people, domain, answers):
    """Two label sets: the parameter's wins, and a label outside it is refused."""
    renamed = np.where(answers == "yes", "ja", "nein")
    model = DPLogisticRegression(domain=domain, classes=["ja", "nein"], random_state=0)
    assert model.fit(people, renamed).classes_.tolist() == ["ja", "nein"]
    with pytest.raises(ValueError, match="only declared labels"):
        model.fit(people, answers)


def test_separate_models_share_the_budget_and_have_noise_of_their_own():
    """Each of K models is calibrated for epsilon / K; equal data get unequal coefficients."""
    X, y = np.zeros((30, 4)), np.zeros(30)
    settings = {"random_state": 0, "scaling_share": 0, "loss": "sharp"}
    one = DPLogisticRegression(epsilon=0.5, classes=[0, 1], **settings).fit(X, y)
    model = DPLogisticRegression(epsilon=1.5, classes=[0, 1, 2], **settings).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert model.guarantee_.epsilon == 1.5
    assert model.noise_.scale == pytest.approx(one.noise_.scale, rel=1e-9)
    # Labels 1 and 2 both never occur: their two objectives differ by the noise alone.
    assert (model.coef_[1] != model.coef_[2]).all()


def test_mechanisms_are_names_balls_or_k_norms(people, domain, answers):
    """A name, its ball and the K-norm of it are one choice; so are the two hulls."""
    groups = [
        ["linf", KNorm("linf"), LpBall(6, p=np.inf), KNorm(LpBall(6, p=np.inf))],
        ["hull", KNorm("hull"), KNorm()],
        ["auto"],
    ]
    scales = []
    for group in groups:
        models = [
            DPLogisticRegression(domain=domain, mechanism=m, random_state=0).fit(people, answers)
            for m in group
        ]
        for model in models:
            np.testing.assert_array_equal(model.coef_, models[0].coef_)
        scales.append(models[0].noise_.covariance().trace())
    assert len(set(scales)) == 3
