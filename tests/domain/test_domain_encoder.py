"""The transformer of a domain in scikit-learn's machinery."""

import pickle

import numpy as np
import pytest
from declared import ENCODED_PEOPLE, PEOPLE, people
from programs import output_of
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from skdp.domain import Domain


def test_encoder_learns_nothing_and_needs_no_fit():
    encoder = PEOPLE.encoder()
    check_is_fitted(encoder)
    before = pickle.dumps(vars(encoder))
    np.testing.assert_array_equal(encoder.transform(people()), ENCODED_PEOPLE)
    assert encoder.fit(people()) is encoder
    assert pickle.dumps(vars(encoder)) == before
    assert encoder.n_features_in_ == 4
    assert encoder.feature_names_in_.tolist() == list(PEOPLE.names)
    assert not hasattr(Domain.unit_box(2).encoder(), "feature_names_in_")


def test_encoder_works_in_pipelines_and_column_transformers():
    y = [1.0, 2, 3, 4]
    pipeline = make_pipeline(PEOPLE.encoder(), LinearRegression()).fit(people(), y)
    direct = LinearRegression().fit(ENCODED_PEOPLE, y)
    np.testing.assert_array_equal(pipeline.predict(people()), direct.predict(ENCODED_PEOPLE))
    assert pipeline[:-1].get_feature_names_out().tolist() == list(PEOPLE.encoded_names())

    columns = ColumnTransformer([("public", PEOPLE.encoder(), list(PEOPLE.names))])
    columns.set_output(transform="pandas")
    frame = columns.fit_transform(people(shoe=1))
    np.testing.assert_array_equal(frame, ENCODED_PEOPLE)
    assert frame.columns[0] == "public__age"


def test_the_domain_of_an_encoder_is_checked():
    with pytest.raises(ValueError, match="domain must be a Domain, got 3"):
        clone(PEOPLE.encoder()).set_params(domain=3).fit(people())


def test_pandas_is_never_imported():
    """Neither by the module nor by encoding arrays, levels included."""
    said = output_of("""
        import sys, numpy as np; sys.modules['pandas'] = None
        from skdp.domain import Domain
        d = Domain({'x': (0, 1), 'k': ['a', 'b']})
        print(d.encode(np.array([[0.5, 'b']], dtype=object)).tolist())
    """)
    assert said.strip() == "[[0.0, 1.0]]"
