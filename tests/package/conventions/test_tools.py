"""Tools of scikit-learn around private models: displays, importances, curves, thresholds, searches.

They run on tables with names, bounds and levels. What the guarantee does not cover is in the user
guide: all of them but the fits look at the records.
"""

import numpy as np
import pytest
from programs import output_of
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import (
    DecisionBoundaryDisplay,
    PartialDependenceDisplay,
    partial_dependence,
    permutation_importance,
)
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    learning_curve,
    validation_curve,
)

from skdp import Domain, DPLogisticRegression, Ledger

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


def test_curves(model, people, answers):
    """Every point is a fit that is charged."""
    model = clone(model).set_params(ledger=Ledger(1000.0))
    sizes, *_ = learning_curve(model, people, answers, train_sizes=[0.5, 1.0], cv=FOLDS)
    assert len(sizes) == 2
    assert len(model.ledger.entries) == 6
    validation_curve(model, people, answers, param_name="epsilon", param_range=[0.5, 2.0], cv=FOLDS)
    assert sorted(entry.epsilon for entry in model.ledger.entries[6:]) == [0.5] * 3 + [2.0] * 3


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


def test_searches(model, people, answers):
    """With a scorer of one's own, and by halving the records."""
    scorer = make_scorer(recall_score, pos_label="yes")
    grid, cv = {"mechanism": ["l1", "l2"]}, FOLDS
    found = GridSearchCV(model, grid, scoring=scorer, cv=cv).fit(people, answers)
    assert found.best_estimator_.guarantee_.epsilon == 4.0
    halved = HalvingGridSearchCV(
        model, {"regularization": [0.0, 1.0, 10.0]}, min_resources=100, cv=cv
    )
    assert halved.fit(people, answers).n_resources_ == [100, 300]


ARRAYS = """
import os
os.environ["SCIPY_ARRAY_API"] = "1"
import numpy as np, sklearn
from sklearn.model_selection import KFold, cross_val_score
from skdp import Domain, DPLogisticRegression
from skdp.model_selection import PrivateSearchCV

X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
y = (X[:, 0] > 0).astype(int)
try:
    import array_api_strict as xp
except ImportError:
    xp = np
domain = Domain.unit_box(2, [0, 1])
model = DPLogisticRegression(domain=domain, epsilon=8.0, random_state=0)
expected = model.fit(X, y).predict_proba(X)
try:
    sklearn.set_config(array_api_dispatch=True)
except ImportError:  # older versions of scikit-learn need array_api_compat
    xp = np
for lib in (np, xp):
    A, b = lib.asarray(X), lib.asarray(y)
    shares = model.fit(A, b).predict_proba(A)
    assert type(shares) is np.ndarray and (shares == expected).all()
    assert type(model.coef_) is np.ndarray
    assert type(domain.encoder().fit_transform(A)) is np.ndarray
    search = PrivateSearchCV(model, {"regularization": [1.0]}, epsilon=5.0)
    assert type(search.fit(A, b).predict(A)) is np.ndarray
    assert isinstance(model.score(A, b), float)
    assert np.isfinite(cross_val_score(model, A, b, cv=KFold(2))).all()
print("done")
"""


def test_array_dispatch_changes_nothing():
    assert not DPLogisticRegression().__sklearn_tags__().array_api_support
    assert output_of(ARRAYS) == "done\n"
