"""scikit-learn's own checks of every public estimator, for several settings."""

import pytest
import sklearn
from public_estimators import all_estimators
from sklearn.base import is_regressor
from sklearn.utils.estimator_checks import (
    check_class_weight_classifiers,
    check_classifiers_train,
    check_dataframe_column_names_consistency,
    check_estimator,
    check_global_output_transform_pandas,
    check_global_set_output_transform_polars,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    parametrize_with_checks,
)

import skdp
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPHuberRegressor,
    DPLogisticRegression,
    DPQuantileRegressor,
)
from skdp.model_selection import PrivateSearchCV

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdp.PrivacyLeakWarning",
    "ignore::skdp.UndeclaredDomainWarning",
    "ignore::sklearn.exceptions.SkipTestWarning",
)

VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))
MODELS = [
    DPLogisticRegression(),
    DPLogisticRegression(neighbors="add_remove", n_public=1000),
    DPHuberRegressor(),
    DPQuantileRegressor(),
    skdp.DPPoissonRegressor(
        neighbors="add_remove", n_public=1000, delta=1e-6, mechanism="gaussian"
    ),
    skdp.DPGammaRegressor(threshold=1.0, fit_intercept=False, regularization=0.0),
    skdp.DPLinearRegression(),
    skdp.DPLinearRegression(neighbors="add_remove", mechanism="matrix"),
    DPCoordinateDescentClassifier(delta=1e-6, neighbors="add_remove"),
    skdp.DPCoordinateDescentRegressor(),
    skdp.DPCoordinateDescentRegressor(delta=1e-6, mechanism="gaussian", order="greedy", n_passes=5),
]
SEARCHES = [
    PrivateSearchCV(DPLogisticRegression(), {"regularization": [0.0, 1.0]}, epsilon=5.0),
    PrivateSearchCV(DPHuberRegressor(), {"regularization": [1.0]}, epsilon=5.0),
]
RARER = [
    DPLogisticRegression(delta=1e-6, mechanism="gaussian"),
    DPLogisticRegression(delta=1e-6, additive=3),
    DPLogisticRegression(additive="auto"),
    DPHuberRegressor(additive=2, delta=1e-6),
    skdp.DPLinearRegression(mechanism="gaussian", delta=1e-6),
    *(
        PrivateSearchCV(kind(), {"fit_intercept": [True, False]}, epsilon=5.0)
        for kind in (DPQuantileRegressor, skdp.DPLinearRegression, DPCoordinateDescentClassifier)
    ),
]
# Models of two labels. Reasons why scikit-learn's checks fail, by their names.
OTHER_LABELS = "the check fits labels that are not declared, which is an error"
FOR_TWO = {
    # Ten records of one label are fitted: with a usual epsilon the noise decides.
    DPLogisticRegression(classes=[0, 1], epsilon=1000.0): {
        "check_estimators_dtypes": OTHER_LABELS,
        "check_classifier_data_not_an_array": OTHER_LABELS,
        "check_classifiers_classes": OTHER_LABELS,
        "check_classifiers_regression_target": OTHER_LABELS,
        "check_classifier_not_supporting_multiclass": OTHER_LABELS,
        "check_fit2d_1feature": OTHER_LABELS,
    }
}
PRIVATE = {
    "check_estimators_empty_data_messages": "whether there are records is private, as their number"
}
# The numbers of columns of the tables in scikit-learn's checks; a domain declares one.
WIDTHS = (1, 2, 3, 4, 5, 10, 20)
READS_NO_CELL = "fit checks the columns only; transform raises the error"
OF_THE_ENCODER = {
    "check_dtype_object": READS_NO_CELL,
    "check_estimators_nan_inf": READS_NO_CELL,
    "check_estimators_empty_data_messages": "an empty table is encoded as an empty table",
    "check_n_features_in": "the domain declares the number of columns, before any fit",
    "check_n_features_in_after_fitting": "the error names the domain's number of columns",
}


def test_no_estimator_is_left_out():
    """A new public class must be added to the settings above."""
    settings = [*MODELS, *SEARCHES, Domain.unit_box(1).encoder()]
    assert {type(one) for one in settings} == set(all_estimators().values())


def expected(estimator):
    """Return the one check that fails if the number of records is private."""
    is_private = getattr(estimator, "neighbors", "") == "add_remove" and is_regressor(estimator)
    return PRIVATE if is_private else {}


@parametrize_with_checks([*MODELS, *SEARCHES], expected_failed_checks=expected)
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


@pytest.mark.slow("all of scikit-learn's checks for rarer settings")
@parametrize_with_checks(RARER)
def test_scikit_learn_agrees_on_rarer_settings(estimator, check):
    check(estimator)


@pytest.mark.skipif(VERSION < (1, 8), reason="older checks fit other labels to such models")
@parametrize_with_checks(list(FOR_TWO), expected_failed_checks=FOR_TWO.get)
def test_only_listed_checks_of_models_of_two_labels_fail(estimator, check):
    """Failures are strict: a listed check that passes is an error too."""
    check(estimator)


def test_only_listed_checks_of_the_encoder_fail():
    """The others pass for the domain that has the number of columns of the check's table."""
    names, passed = set(), set()
    for width in WIDTHS:
        encoder = Domain.unit_box(width).encoder()
        results = check_estimator(encoder, on_fail=None, on_skip=None)
        failed = {one["check_name"] for one in results if one["status"] == "failed"}
        names |= {one["check_name"] for one in results}
        passed |= {one["check_name"] for one in results} - failed
    assert len(names) > 35
    assert names - passed == set(OF_THE_ENCODER)


def test_the_encoder_gives_the_tables_that_are_asked_for():
    """scikit-learn runs these checks for its own transformers only."""
    for check in (
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_set_output_transform_polars,
        check_global_output_transform_pandas,
        check_global_set_output_transform_polars,
    ):
        check("DomainEncoder", Domain.unit_box(5).encoder())


@pytest.mark.parametrize("estimator", [*MODELS[::4], *SEARCHES])
def test_names_of_columns_are_consistent(estimator):
    """scikit-learn runs this check for its own estimators only."""
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)


class Scored:
    """Without the tag of a poor score, so that scikit-learn's checks look at the score."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = False
        return tags


class ScoredLogistic(Scored, DPLogisticRegression):
    pass


class ScoredDescent(Scored, DPCoordinateDescentClassifier):
    pass


@pytest.mark.parametrize("estimator", MODELS[:2])
def test_objective_perturbation_reaches_the_accuracy_that_scikit_learn_requires(estimator):
    check_classifiers_train("Scored", ScoredLogistic(**estimator.get_params()))


@pytest.mark.parametrize("kind", [ScoredLogistic, ScoredDescent])
def test_weights_of_labels_have_the_effect_that_scikit_learn_requires(kind):
    """With little noise: there are 50 records."""
    check_class_weight_classifiers("Scored", kind(epsilon=1000.0))
