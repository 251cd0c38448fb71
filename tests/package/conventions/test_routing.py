"""Identifiers of persons reach the fits through scikit-learn's meta-estimators, or do not.

scikit-learn calls them ``groups`` too where it cuts tables into folds. Without metadata routing its
searches give ``groups`` to the folds only, and then the fits protect rows.
"""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, VotingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from skdp import DPLogisticRegression, Ledger
from skdp.model_selection import PrivateSearchCV

GRID = {"mechanism": ["l1"]}
N, PERSONS = 400, 80


@pytest.fixture
def rows(people, domain):
    """The columns in the domain's order: some meta-estimators make an array of them."""
    return people[list(domain.names)]


@pytest.fixture
def ids():
    return np.arange(N) % PERSONS


@pytest.fixture
def model(domain):
    """A model that does not ask for identifiers."""
    return DPLogisticRegression(domain=domain)


def search(model):
    return GridSearchCV(model, GRID, cv=GroupKFold(3))


# A meta-estimator around a model, and the fitted models in it.
METAS = {
    "GridSearchCV": (search, lambda meta: [meta.best_estimator_]),
    "BaggingClassifier": (
        lambda model: BaggingClassifier(model, n_estimators=2, bootstrap=False),
        lambda meta: meta.estimators_,
    ),
    "VotingClassifier": (
        lambda model: VotingClassifier([("a", model)]),
        lambda meta: meta.estimators_,
    ),
    "OneVsRestClassifier": (
        lambda model: OneVsRestClassifier(model.set_params(classes=[0, 1])),
        lambda meta: meta.estimators_,
    ),
    "CalibratedClassifierCV": (
        CalibratedClassifierCV,
        lambda meta: [one.estimator for one in meta.calibrated_classifiers_],
    ),
    "TunedThresholdClassifierCV": (TunedThresholdClassifierCV, lambda meta: [meta.estimator_]),
}
# They take `groups` for folds or for fits without routing; the others raise an error.
WITHOUT_ROUTING = {"GridSearchCV": "row", "CalibratedClassifierCV": "person"}


@pytest.mark.parametrize("name", METAS)
def test_meta_estimators_route_identifiers(name, model, rows, answers, ids):
    make, fitted = METAS[name]
    with sklearn.config_context(enable_metadata_routing=True):
        meta = make(clone(model).set_fit_request(groups=True))
        meta.fit(rows, answers, groups=ids)
    assert {one.guarantee_.unit for one in fitted(meta)} == {"person"}


@pytest.mark.parametrize("name", METAS)
def test_a_model_that_was_not_asked_is_an_error(name, model, rows, answers, ids):
    ledger = Ledger(100.0)
    with sklearn.config_context(enable_metadata_routing=True):
        meta = METAS[name][0](clone(model).set_params(ledger=ledger))
        with pytest.raises(UnsetMetadataPassedError, match="set_fit_request"):
            meta.fit(rows, answers, groups=ids)
    assert ledger.entries == ()


@pytest.mark.parametrize("name", METAS)
def test_without_routing_identifiers_are_refused_or_do_not_reach_a_fit(
    name, model, rows, answers, ids
):
    """The trap of the user guide: a search takes them for its folds, and protects rows."""
    make, fitted = METAS[name]
    meta, unit = make(model), WITHOUT_ROUTING.get(name)
    if unit is None:
        with pytest.raises(ValueError, match="enable_metadata_routing=True"):
            meta.fit(rows, answers, groups=ids)
    else:
        meta.fit(rows, answers, groups=ids)
        assert {one.guarantee_.unit for one in fitted(meta)} == {unit}


def test_cross_validation_without_routing(model, rows, answers, ids):
    """``groups`` is for the folds, ``params`` for the fits."""
    given = {"cv": GroupKFold(2), "return_estimator": True}
    folds = cross_validate(model, rows, answers, groups=ids, **given)
    both = cross_validate(model, rows, answers, groups=ids, params={"groups": ids}, **given)
    assert [one.guarantee_.unit for one in folds["estimator"]] == ["row", "row"]
    assert [one.guarantee_.unit for one in both["estimator"]] == ["person", "person"]


def test_cross_validation_with_routing_refuses_the_array_of_folds(model, rows, answers, ids):
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(model).set_fit_request(groups=True)
        with pytest.raises(ValueError, match="metadata routing"):
            cross_validate(asked, rows, answers, groups=ids, cv=GroupKFold(2))


def test_parameters_of_persons_make_a_fit_without_identifiers_fail(model, rows, answers, ids):
    """A remedy for the trap: such a model fits persons, or nothing."""
    ledger = Ledger(100.0)
    model.set_params(rows_per_person=2, ledger=ledger)
    with pytest.raises(ValueError, match="Pass the identifiers of persons"):
        search(model).set_params(error_score="raise").fit(rows, answers, groups=ids)
    assert ledger.entries == ()


def test_pipelines_and_column_transformers(domain, rows, answers, ids):
    step = DPLogisticRegression(domain=domain.encoded)
    columns = ColumnTransformer([("public", domain.encoder(), list(domain.names))])
    plain = make_pipeline(columns, step)
    with pytest.raises(ValueError, match="does not accept the groups parameter"):
        plain.fit(rows, answers, groups=ids)
    by_step = plain.fit(rows, answers, dplogisticregression__groups=ids)
    assert by_step[-1].guarantee_.unit == "person"
    with sklearn.config_context(enable_metadata_routing=True):
        step.set_fit_request(groups=True)
        assert plain.fit(rows, answers, groups=ids)[-1].guarantee_.unit == "person"


def test_the_private_search_asks_for_itself(model, rows, answers, ids):
    """It gives identifiers to its fits, whatever these ask for; others give them to the search."""
    private = PrivateSearchCV(model, GRID, epsilon=3.0)
    assert private.fit(rows, answers, groups=ids).guarantee_.unit == "person"
    given = {"params": {"groups": ids}, "cv": KFold(2), "return_estimator": True}
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="PrivateSearchCV"):
            cross_validate(private, rows, answers, **given)
        private.set_fit_request(groups=True)
        found = cross_validate(private, rows, answers, **given)
    assert {one.guarantee_.unit for one in found["estimator"]} == {"person"}


# Weights


def test_weights_are_routed_to_models_and_searches(model, rows, answers):
    weights = np.full(len(rows), 0.5)
    given = {"params": {"sample_weight": weights}, "cv": KFold(2), "return_estimator": True}
    weighted = clone(model).set_params(max_weight=1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        for one in (weighted, PrivateSearchCV(weighted, GRID, epsilon=3.0)):
            with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
                cross_validate(one, rows, answers, **given)
            one.set_fit_request(sample_weight=True)
            if one is weighted:
                one.set_score_request(sample_weight=False)
            for found in cross_validate(one, rows, answers, **given)["estimator"]:
                assert any("max_weight" in text for text in found.guarantee_.assumptions)


def test_no_meta_estimator_passes_weights_of_its_own(model, rows, answers):
    """They would depend on all rows, which no guarantee covers."""
    assert not has_fit_parameter(model, "sample_weight")
    with pytest.raises(ValueError, match="doesn't support sample_weight"):
        AdaBoostClassifier(model, n_estimators=1).fit(rows, answers)
    with pytest.raises(ValueError, match="max_weight must be given with sample_weight"):
        model.fit(rows, answers, sample_weight=np.ones(len(rows)))


# Folds: which splitters move other records if one record changes


LABELS = np.random.default_rng(0).integers(0, 2, 50)
CHANGED = np.where(np.arange(50) == 1, 1 - LABELS, LABELS)


def moved(splitter):
    """The greatest number of records in one only of two training sets; the changed one left out."""
    pairs = zip(splitter.split(LABELS, LABELS), splitter.split(CHANGED, CHANGED), strict=True)
    return max(len((set(one) ^ set(other)) - {1}) for (one, _), (other, _) in pairs)


def test_folds_of_positions_keep_the_other_records_and_those_of_labels_do_not():
    """More than one record of a training set changes then, which its guarantee does not cover."""
    assert moved(KFold(5)) == 0
    assert moved(KFold(5, shuffle=True, random_state=0)) == 0
    assert moved(StratifiedKFold(5)) > 0


def test_folds_of_persons_move_other_persons():
    """The fold of a person depends on the numbers of rows of all; a declared fold does not."""
    before = np.repeat(np.arange(12), [2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 3, 4])
    after = np.repeat(np.arange(12), [9, 3, 4, 2, 3, 4, 2, 3, 4, 2, 3, 4])

    def folds(make):
        found = []
        for ids in (before, after):
            parts = [set(ids[test]) for _, test in make(ids).split(ids, groups=ids)]
            found.append([part - {0} for part in parts])
        return found

    by_size, by_size_then = folds(lambda ids: GroupKFold(3))
    assert by_size != by_size_then
    declared, declared_then = folds(lambda ids: PredefinedSplit(ids % 3))
    assert declared == declared_then
