"""Columns, parameters and texts of estimators, as in scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from public_estimators import all_estimators
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPLogisticRegression
from skdp.model_selection import PrivateSearchCV

MODELS = sorted(set(all_estimators()) - {"DomainEncoder", "PrivateSearchCV"})


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
