"""scikit-learn's tags of estimators are true: data of each kind are fitted, or refused clearly."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from public_estimators import COUNTS, all_estimators
from scipy.sparse import csr_array
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.utils import get_tags

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Ledger, Spline
from skdp.domain import DomainEncoder
from skdp.model_selection import PrivateSearchCV

N, TARGET = 300, [0, 1]
NUMBER, LEVELS = {"x": (0, 1)}, {"k": ["a", "b"]}
MISSING = Domain(NUMBER | LEVELS, TARGET, missing="indicator")
# The domain, and whether it accepts strings, has columns of levels, and accepts missing cells.
DOMAINS = {
    "numbers": (Domain(NUMBER, TARGET), False, False, False),
    "levels": (Domain(LEVELS, TARGET), True, True, True),
    "levels that are numbers": (Domain({"k": [0, 1]}, TARGET), False, True, True),
    "both": (Domain(NUMBER | LEVELS, TARGET), True, True, False),
    "a rule": (MISSING, True, True, True),
    "a rule for one of two": (
        Domain({"x": (0, 1), "z": (0, 1)}, TARGET, missing={"x": "middle"}),
        *(False, False, False),
    ),
    "a curve": (Domain({"x": Spline(0, 1)}, TARGET), False, False, False),
    "a curve with a rule": (
        Domain({"x": Spline(0, 1, missing="middle")}, TARGET),
        *(False, False, True),
    ),
    "encoded": (MISSING.encoded, False, False, False),
    "encoded curve": (Domain({"x": Spline(0, 1)}, TARGET).encoded, False, False, False),
    "unit box": (Domain.unit_box(2, TARGET), False, False, False),
    "ball": (Domain.l2_ball(2, 1.0, TARGET), False, False, False),
}
CASES = pytest.mark.parametrize("name", DOMAINS)


def fits(domain):
    """Estimators of a domain, each with a function that fits a table."""
    for model in estimators(domain):
        is_encoder = isinstance(model, DomainEncoder)
        yield model, model.transform if is_encoder else partial(model.fit, y=np.arange(N) % 2)


def estimators(domain):
    """The encoder, a model and a search."""
    model = DPLogisticRegression(domain=domain, ledger=Ledger(100.0))
    return domain.encoder(), model, PrivateSearchCV(model, {"regularization": [1.0]}, epsilon=5.0)


def refused(fit, X, model, match=""):
    """Whether a table is refused, with a text and without a charge."""
    ledger = getattr(getattr(model, "estimator", model), "ledger", None)
    with pytest.raises((TypeError, ValueError), match=match):
        fit(X)
    assert ledger is None or ledger.entries == ()


@CASES
def test_tags_follow_the_domain(name):
    domain, *truth = DOMAINS[name]
    for estimator in estimators(domain):
        tags = get_tags(estimator).input_tags
        assert [tags.string, tags.categorical, tags.allow_nan] == truth
        assert not any([tags.sparse, tags.positive_only, tags.pairwise, tags.one_d_array])


@CASES
def test_strings_are_taken_as_the_tag_says(name):
    domain, strings, *_ = DOMAINS[name]
    X = domain.sample(N, random_state=0)
    assert strings == any(pd.api.types.is_string_dtype(kind) for kind in pd.DataFrame(X).dtypes)
    words = pd.DataFrame(X).astype(str).replace(".*", "word", regex=True).astype("string")
    for model, fit in fits(domain):
        if get_tags(model).input_tags.string:
            fit(X)
        else:
            refused(fit, words, model, "column")


@CASES
def test_missing_cells_are_taken_as_the_tag_says(name):
    domain, *_, missing = DOMAINS[name]
    X = pd.DataFrame(domain.sample(N, random_state=0))
    for column in X.columns:
        holed = X.astype({column: object})
        holed.loc[3, column] = None
        for model, fit in fits(domain):
            if missing:
                fit(holed)
            elif name not in ("both", "a rule for one of two"):  # some of their columns accept them
                refused(fit, holed, model, r"missing|finite")
    if not missing:
        X = X.astype(object)
        X.loc[3] = None
        for model, fit in fits(domain):
            refused(fit, X, model, r"missing|finite")


@CASES
def test_sparse_tables_are_refused(name):
    domain = DOMAINS[name][0]
    for model, fit in fits(domain):
        refused(fit, csr_array(np.zeros((N, domain.n_columns))), model, "toarray")


def test_only_numbers_are_taken_without_a_domain():
    for kind in set(all_estimators().values()) - {DomainEncoder, PrivateSearchCV}:
        tags = get_tags(kind()).input_tags
        assert not any([tags.string, tags.categorical, tags.allow_nan])


def test_tags_of_targets():
    """One target, which is required; numbers of both signs, but for counts."""
    X, y = np.zeros((N, 1)), np.linspace(-1, 1, N)
    for name, kind in all_estimators().items():
        if kind is DomainEncoder:
            assert not get_tags(Domain.unit_box(1).encoder()).target_tags.required
            continue
        model = PrivateSearchCV(DPHuberRegressor(), {}) if kind is PrivateSearchCV else kind()
        tags = get_tags(model).target_tags
        assert [tags.required, tags.single_output] == [True, True]
        assert not any([tags.multi_output, tags.one_d_labels])
        assert tags.positive_only == (kind in COUNTS)
        is_classifier = "Classifier" in name or "Logistic" in name
        target = (y > 0).astype(int) if is_classifier else y
        if is_classifier:
            model.set_params(classes=[0, 1])
        with pytest.raises(ValueError, match="requires y to be passed"):
            model.fit(X)
        with pytest.raises(ValueError, match="1d array"):
            model.fit(X, np.column_stack([target, target]))


@pytest.mark.parametrize(
    ("settings", "multi_class"),
    [
        ({}, True),
        ({"classes": ["a", "b", "c"]}, True),
        ({"classes": ["a", "b"]}, False),
        ({"domain": Domain.unit_box(1, ["a", "b", "c"])}, True),
        ({"domain": Domain.unit_box(1, ["a", "b"])}, False),
        ({"classes": ["a", "b", "c"], "domain": Domain.unit_box(1, ["a", "b"])}, True),
    ],
)
def test_more_than_two_labels_are_taken_as_the_tag_says(settings, multi_class):
    X, y = np.zeros((N, 1)), np.array(["a", "b", "c"])[np.arange(N) % 3]
    model = DPLogisticRegression(**settings)
    assert get_tags(model).classifier_tags.multi_class == multi_class
    assert get_tags(PrivateSearchCV(model, {})).classifier_tags.multi_class == multi_class
    assert not get_tags(model).classifier_tags.multi_label
    if multi_class:
        assert len(model.fit(X, y).classes_) == 3
    else:
        with pytest.raises(ValueError, match="only declared labels"):
            model.fit(X, y)


def test_meta_estimators_read_that_missing_cells_are_accepted():
    domain = DOMAINS["a rule"][0]
    model = DPLogisticRegression(domain=domain)
    for meta in (BaggingClassifier(model, bootstrap=False), VotingClassifier([("a", model)])):
        assert get_tags(meta).input_tags.allow_nan
        X = domain.sample(N, random_state=0)
        X.loc[3, "x"] = np.nan
        assert len(meta.fit(X, np.arange(N) % 2).predict(X)) == N
