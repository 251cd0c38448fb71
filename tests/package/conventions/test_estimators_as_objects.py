"""Columns, parameters and texts of estimators, as in scikit-learn."""

import pytest
from public_estimators import all_estimators

from skdp import Domain

MODELS = sorted(set(all_estimators()) - {"DomainEncoder", "PrivateSearchCV"})


@pytest.mark.parametrize("name", MODELS)
def test_only_parameters_that_were_changed_are_printed(name):
    kind = all_estimators()[name]
    assert repr(kind()) == f"{name}()"
    assert repr(kind(epsilon=1.0, delta=1e-6)) == f"{name}(delta=1e-06)"
    printed = repr(kind(domain=Domain({"age": (17, 90)}), random_state=3))
    assert (
        " ".join(printed.split()) == f"{name}(domain=Domain({{'age': (17, 90)}}), random_state=3)"
    )


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
