"""Columns, parameters and texts of estimators, as in scikit-learn."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from public_estimators import all_estimators
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from skdp import Domain, DPHuberRegressor, DPLogisticRegression
from skdp.model_selection import PrivateSearchCV

MODELS = sorted(set(all_estimators()) - {"DomainEncoder", "PrivateSearchCV"})


def made(name, domain, pay_domain):
    if name == "PrivateSearchCV":
        return PrivateSearchCV(
            DPLogisticRegression(domain=domain), {"regularization": [1.0]}, epsilon=5.0
        )
    is_classifier = name.endswith(("Classifier", "LogisticRegression"))
    if name in ("DPPoissonRegressor", "DPGammaRegressor"):
        target = {"kind": "Number", "lower": 0.0, "upper": 50.0, "missing": None}
        pay_domain = Domain.from_dict(pay_domain.to_dict() | {"target": target})
    return all_estimators()[name](domain=domain if is_classifier else pay_domain)


@pytest.fixture(params=[*MODELS, "PrivateSearchCV"])
def case(request, domain, pay_domain, answers, pay):
    model = made(request.param, domain, pay_domain)
    return model, answers if model.__sklearn_tags__().estimator_type == "classifier" else pay


def test_columns_are_found_by_name(case, people, domain):
    model, y = case
    model.fit(people, y)
    assert model.n_features_in_ == domain.n_columns
    assert model.feature_names_in_.tolist() == list(domain.names)
    assert model.feature_names_in_.dtype == object
    expected = model.predict(people)
    np.testing.assert_array_equal(model.predict(people[people.columns[::-1]]), expected)
    np.testing.assert_array_equal(model.predict(people[list(domain.names)].to_numpy()), expected)
    with pytest.raises(ValueError, match="now missing:\n- age"):
        model.predict(people.drop(columns="age"))
    np.testing.assert_array_equal(model.predict(people.assign(shoe=1)), expected)
    with pytest.raises(ValueError, match="unseen at fit time:\n- shoe"):
        model.predict(people.assign(shoe=1).drop(columns="age"))
    with pytest.raises(ValueError, match=r"3 features, but .* is expecting 4 features"):
        model.predict(people.drop(columns="age").to_numpy())


def test_a_failed_fit_is_no_fit(case, people):
    model, y = case
    with pytest.raises(ValueError, match="y must"):
        model.fit(people, y[:-1])
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict(people)


def test_a_failed_fit_leaves_the_columns_of_the_earlier_one():
    """Without a domain a fit takes tables of any width."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 3)), np.arange(300) % 2
    for model in (
        DPLogisticRegression(classes=[0, 1]),
        PrivateSearchCV(
            DPLogisticRegression(classes=[0, 1]), {"regularization": [1.0]}, epsilon=5.0
        ),
    ):
        before = model.fit(X, y).predict(X)
        for other in (X[:, :2], pd.DataFrame(X[:, :2], columns=["a", "b"])):
            with pytest.raises(ValueError, match="only declared labels"):
                model.fit(other, y + 7)
            np.testing.assert_array_equal(model.predict(X), before)
            assert model.n_features_in_ == 3
            assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("name", MODELS)
def test_only_parameters_that_were_changed_are_printed(name):
    kind = all_estimators()[name]
    assert repr(kind()) == f"{name}()"
    assert repr(kind(epsilon=1.0, delta=1e-6)) == f"{name}(delta=1e-06)"
    printed = repr(kind(domain=Domain({"age": (17, 90)}), random_state=3))
    assert (
        " ".join(printed.split()) == f"{name}(domain=Domain({{'age': (17, 90)}}), random_state=3)"
    )


def test_nested_parameters(domain):
    model = DPLogisticRegression(domain=domain.encoded)
    pipeline = make_pipeline(domain.encoder(), model)
    search = PrivateSearchCV(pipeline, {"dplogisticregression__regularization": [1.0]})
    search.set_params(estimator__dplogisticregression__epsilon=3.0, epsilon=2.0)
    assert (model.epsilon, search.epsilon) == (3.0, 2.0)
    assert search.get_params()["estimator__domainencoder__domain"] is domain
    search.set_params(estimator__domainencoder__domain=domain.encoded)
    assert pipeline[0].domain == domain.encoded
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        model.set_params(nonsense=1)
    with pytest.raises(TypeError, match="nonsense"):
        DPLogisticRegression(nonsense=1)


# The encoder


def test_names_of_encoded_columns(domain):
    encoder = domain.encoder()
    assert encoder.get_feature_names_out().tolist() == list(domain.encoded_names())
    assert encoder.get_feature_names_out(domain.names).tolist() == list(domain.encoded_names())
    with pytest.raises(ValueError, match="be the domain's names"):
        encoder.get_feature_names_out(domain.names[::-1])
    nameless = Domain.unit_box(2).encoder()
    assert nameless.get_feature_names_out(["a", "b"]).tolist() == ["x0", "x1"]
    with pytest.raises(ValueError, match="input_features must have 2 names, got 3"):
        nameless.get_feature_names_out(["a", "b", "c"])


@pytest.mark.parametrize("given", ["pandas", "polars", "dict", "array"])
@pytest.mark.parametrize("asked", ["pandas", "polars"])
def test_set_output(given, asked, people, domain):
    tables = {
        "pandas": people,
        "polars": pl.from_pandas(people),
        "dict": {name: people[name].tolist() for name in people},
        "array": people[list(domain.names)].to_numpy(),
    }
    table = domain.encoder().set_output(transform=asked).fit_transform(tables[given])
    assert isinstance(table, {"pandas": pd.DataFrame, "polars": pl.DataFrame}[asked])
    assert list(table.columns) == list(domain.encoded_names())
    np.testing.assert_array_equal(table.to_numpy(), domain.encode(people))
    model = DPHuberRegressor(domain=Domain.unit_box(table.shape[1], (-1, 1)))
    assert model.fit(table, np.zeros(len(people))).feature_names_in_.tolist() == list(table.columns)
