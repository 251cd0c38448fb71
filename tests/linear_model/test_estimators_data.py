"""Data at the edge: every data set inside a declared domain is fitted, however poor it is."""

import numpy as np
import pytest
from poor_tables import TABLES, both, fit_quietly

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPHuberRegressor,
    DPLogisticRegression,
    PrivacyLeakWarning,
)
from skdp.geometry import LpBall

RELATIONS = ["replace_one", "add_remove"]
OBJECTIVES = DPLogisticRegression, DPHuberRegressor
MECHANISMS = ["auto", "l1", "l2", "linf", "hull"]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_poor_data_are_fitted(name, neighbors):
    """With an intercept and without, under every named mechanism; no warning comes."""
    domain, rows = TABLES[name]
    X = np.array(rows, dtype=object)
    for k, mechanism in enumerate(MECHANISMS):
        intercept = k % 2 == RELATIONS.index(neighbors)
        parameters = {"neighbors": neighbors, "mechanism": mechanism, "random_state": 0}
        for model, ends in both(*OBJECTIVES, domain, fit_intercept=intercept, **parameters):
            fit_quietly(model, X, np.resize(ends, len(X)))
            assert model.noise_.dim == domain.n_encoded + intercept
            assert set(model.predict(X)) <= set(ends) or isinstance(model, DPHuberRegressor)


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPCoordinateDescentClassifier])
@pytest.mark.parametrize("label", ["no", "yes"])
def test_one_class_in_the_data_is_fitted_when_two_are_declared(label, estimator):
    X = np.linspace(-1, 1, 2000)[:, None]
    domain = Domain.unit_box(1)
    model = estimator(classes=["no", "yes"], domain=domain, random_state=0)
    fit_quietly(model, X, np.full(len(X), label))
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) == {label}


def test_a_single_inferred_label_is_refused():
    with pytest.warns(PrivacyLeakWarning), pytest.raises(ValueError, match="at least two labels"):
        DPLogisticRegression().fit(np.zeros((3, 1)), ["a", "a", "a"])


def test_without_an_intercept_there_must_be_a_column_that_can_differ():
    """A column of one level alone leaves nothing to fit; with an intercept it is a constant."""
    domain = Domain({"a": ["x"]}, target=["no", "yes"])
    X, y = np.array([["x"]] * 4, dtype=object), ["yes"] * 4
    assert fit_quietly(DPLogisticRegression(domain=domain), X, y).coef_.shape == (1, 0)
    with pytest.raises(ValueError, match="something to fit"):
        DPLogisticRegression(domain=domain, fit_intercept=False).fit(X, y)


def test_without_a_domain_columns_and_targets_are_clipped_to_the_unit_box():
    """No bound is read off data: the model is that of the clipped data."""
    rng = np.random.default_rng(0)
    X, y = 3 * rng.normal(size=(100, 2)), 2 * rng.normal(size=100)
    clipped = np.clip(X, -1, 1)
    for model, ends in (
        (DPLogisticRegression(classes=[False, True], random_state=0), y > 0),
        (DPHuberRegressor(random_state=0), y),
    ):
        again = ends if ends.dtype == bool else np.clip(ends, -1, 1)
        found = model.fit(X, ends).coef_
        np.testing.assert_array_equal(found, model.fit(clipped, again).coef_)
    assert np.abs(model.predict(100 * X)).max() <= 1


@pytest.mark.parametrize(
    ("n", "epsilon"),
    [(300, 1e-4), (300, 0.01), (300, 1.0), (300, 1e3), (300, 1e6), (10, 1e-3), (1, 0.1), (1, 1e-3)],
)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_every_epsilon_is_fitted(n, epsilon, neighbors):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, 3))
    y = np.where(X @ [2.0, -1.0, 0.5] > 0, 5.0, -5.0)
    for seed in range(2):
        parameters = {"epsilon": epsilon, "neighbors": neighbors, "random_state": seed}
        for model, ends in both(*OBJECTIVES, Domain.unit_box(3), **parameters):
            fit_quietly(model, X, y if ends[0] != "no" else np.where(y > 0, "yes", "no"))


def test_a_custom_ball_on_a_wide_table_is_affordable():
    """Twenty numbers have a million corners, which are not listed."""
    X, y = np.zeros((4, 20)), [0, 1, 0, 1]
    ball = LpBall(21, p=3.0, weights=np.linspace(1, 2, 21))
    model = DPLogisticRegression(classes=[0, 1], domain=Domain.unit_box(20), mechanism=ball)
    fit_quietly(model, X, y)


def test_column_targets_are_flattened_with_a_warning():
    from sklearn.exceptions import DataConversionWarning

    X, y = np.linspace(-1, 1, 20)[:, None], np.linspace(-1, 1, 20)
    plain = DPHuberRegressor(random_state=0).fit(X, y).coef_
    with pytest.warns(DataConversionWarning) as caught:
        column = DPHuberRegressor(random_state=0).fit(X, y[:, None]).coef_
    np.testing.assert_array_equal(plain, column)
    assert caught[0].filename == __file__  # it points at the user's own line
