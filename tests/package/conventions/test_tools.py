"""Tools of scikit-learn around private models: displays, importances, curves, thresholds, searches.

They run on tables with names, bounds and levels. What the guarantee does not cover is in the user
guide: all of them but the fits look at the records.
"""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import (
    DecisionBoundaryDisplay,
    PartialDependenceDisplay,
    partial_dependence,
    permutation_importance,
)
from sklearn.model_selection import (
    FixedThresholdClassifier,
    KFold,
    TunedThresholdClassifierCV,
)

from skdp import Domain, DPLogisticRegression

FOLDS = KFold(3)


@pytest.fixture(scope="module")
def model(domain, people, answers):
    return DPLogisticRegression(domain=domain, epsilon=4.0).fit(people, answers)


def test_importances_and_dependences(model, people, answers):
    """Levels are columns like any other."""
    found = permutation_importance(model, people, answers, n_repeats=2, random_state=0)
    assert found.importances_mean.shape == (4,)
    assert model.feature_names_in_[0] == "age"
    for column, n in (("age", 5), ("job", 3)):
        levels = ["job"] if column == "job" else None
        shown = partial_dependence(
            model, people, [column], categorical_features=levels, grid_resolution=5
        )
        assert shown["average"].shape == (1, n)


def test_displays(model, people, answers):
    """Decision boundaries need two columns of numbers."""
    pytest.importorskip("matplotlib").use("agg")
    PartialDependenceDisplay.from_estimator(
        model, people, ["age", "job"], categorical_features=["job"]
    )
    shown = CalibrationDisplay.from_estimator(model, people, answers, pos_label="yes")
    assert shown.estimator_name == "DPLogisticRegression"
    domain = Domain({"age": (17, 90), "hours": (0, 80)}, target=["no", "yes"])
    numbers = people[["age", "hours"]]
    two = DPLogisticRegression(domain=domain).fit(numbers, answers)
    assert DecisionBoundaryDisplay.from_estimator(two, numbers).response.shape == (100, 100)


def test_thresholds(model, people, answers):
    fixed = FixedThresholdClassifier(FrozenEstimator(model), threshold=0.0, pos_label="yes")
    assert set(fixed.fit(people, answers).predict(people)) == {"yes"}
    tuned = TunedThresholdClassifierCV(model, cv=FOLDS).fit(people, answers)
    assert 0 <= tuned.best_threshold_ <= 1


def test_a_frozen_model_is_calibrated_without_another_fit(model, people, answers):
    """FrozenEstimator keeps the model, its columns and its tags."""
    frozen = FrozenEstimator(model)
    assert frozen.__sklearn_tags__().input_tags.string
    calibrated = CalibratedClassifierCV(frozen).fit(people, answers)
    assert {id(one.estimator.estimator) for one in calibrated.calibrated_classifiers_} == {
        id(model)
    }
    np.testing.assert_array_equal(frozen.predict(people), model.predict(people))
    assert frozen.n_features_in_ == 4
