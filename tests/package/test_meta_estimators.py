"""Meta-estimators of scikit-learn, which fit to positions of labels."""

from __future__ import annotations

import warnings
from itertools import cycle

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPHuberRegressor, DPLogisticRegression
from skdp.model_selection import PrivateSearchCV

BOX = {"a": (0, 10), "b": (5, 6)}
TWO, THREE = Domain(BOX, target=["yes", "no"]), Domain(BOX, target=["mid", "lo", "up"])


def records(domain):
    return domain.sample(1500, random_state=0, with_target=True)


def model(domain, **parameters):
    return DPLogisticRegression(epsilon=50.0, domain=domain, random_state=0, **parameters)


META = {
    "voting, hard": lambda d: VotingClassifier([("a", model(d)), ("b", model(d))]),
    "voting, soft": lambda d: VotingClassifier([("a", model(d))], voting="soft"),
    "stacking": lambda d: StackingClassifier([("a", model(d))], LogisticRegression(), cv=2),
    "one versus rest": lambda d: OneVsRestClassifier(model(d, classes=[0, 1])),
    "one versus one": lambda d: OneVsOneClassifier(model(d, classes=[0, 1])),
    "bagging": lambda d: BaggingClassifier(model(d), 2, bootstrap=False),
    "calibrated": lambda d: CalibratedClassifierCV(model(d), cv=2),
    "grid": lambda d: GridSearchCV(model(d), {"regularization": [0.5, 1.0]}, cv=2),
}


@pytest.mark.parametrize(("name", "domain"), zip(META, cycle([THREE, TWO]), strict=False), ids=str)
def test_labels_that_are_strings(name, domain):
    """The predictions are the strings, and about as often right as those of one model."""
    X, y = records(domain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some read X as an array
        found = META[name](domain).fit(X, y)
        assert sorted(found.classes_.tolist()) == sorted(domain.target)
        assert set(found.predict(X)) <= set(domain.target)
        alone = model(domain).fit(X, y).score(X, y)
        assert found.score(X, y) > alone - 0.05


def numbers_assumed(guarantee):
    return [text for text in guarantee.assumptions if "positions among all declared" in text]


@pytest.mark.filterwarnings("ignore")
def test_one_record_may_change_the_numbers_of_all_labels_and_the_guarantee_says_so():
    """The only record of a label makes scikit-learn number the labels after it anew."""
    X, y = records(THREE)
    _, middle, last = sorted(THREE.target)
    y = np.where(y == middle, last, y)
    one = np.where(np.arange(len(y)) == 0, middle, y)
    fits = [VotingClassifier([("a", model(THREE))]).fit(X, own).estimators_[0] for own in (y, one)]
    shares = [fit.predict_proba(X).mean(axis=0) for fit in fits]
    assert shares[0][1] > 0.2 > shares[1][1]
    assert all(numbers_assumed(fit.guarantee_) for fit in fits)


def test_only_numbers_in_the_place_of_strings_are_assumed_to_be_public():
    X, y = records(TWO)
    places = np.searchsorted(sorted(TWO.target), y)
    search = PrivateSearchCV(
        model(TWO, regularization=0.5), {"regularization": [0.4]}, epsilon=50.0
    )
    for own in (model(TWO), search):
        assert not numbers_assumed(own.fit(X, y).guarantee_)
        assert len(numbers_assumed(own.fit(X, places).guarantee_)) == 1
    declared = model(TWO, classes=[0, 1])
    assert not numbers_assumed(declared.fit(X, places).guarantee_)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int32"])
def test_integers_are_positions_among_sorted_strings(dtype):
    X, y = records(THREE)
    places = np.searchsorted(sorted(THREE.target), y)
    ours, theirs = model(THREE).fit(X, places.astype(dtype)), model(THREE).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    assert ours.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(np.sort(THREE.target)[ours.predict(X)], theirs.predict(X))


@pytest.mark.parametrize(
    "y", [[0, 1, 3], [-1, 0, 1], [0.0, 1.0, 2.0], [True, False, True]], ids=str
)
def test_other_numbers_are_no_positions(y):
    X, _ = records(THREE)
    with pytest.raises(ValueError, match="only declared labels"):
        model(THREE).fit(X[:3], np.array(y))


def test_positions_are_read_by_type_and_not_by_value():
    """Objects and numbers that are declared as labels stay what they are."""
    X, _ = records(TWO)
    with pytest.raises(ValueError, match="only declared labels"):
        model(TWO).fit(X[:2], np.array([0, 1], dtype=object))
    numbers = Domain(BOX, target=[5, 7])
    assert model(numbers).fit(X, np.resize([5, 7], len(X))).classes_.tolist() == [5, 7]


@pytest.mark.parametrize("name", ["bagging", "outputs", "transformed"])
def test_regressors_of_scikit_learn(name):
    domain = Domain(BOX, target=(0, 100))
    X, y = domain.sample(3000, random_state=0, with_target=True)
    alone = DPHuberRegressor(epsilon=50.0, domain=domain, random_state=0)
    found, target = {
        "bagging": lambda: (BaggingRegressor(alone, 2, bootstrap=False), y),
        "outputs": lambda: (MultiOutputRegressor(alone), np.column_stack([y, 100 - y])),
        "transformed": lambda: (
            TransformedTargetRegressor(
                DPHuberRegressor(epsilon=50.0, domain=Domain(BOX, target=(0, 10)), random_state=0),
                func=np.sqrt,
                inverse_func=np.square,
            ),
            y,
        ),
    }[name]()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        score = alone.fit(X, y).score(X, y)
        assert found.fit(X, target).score(X, target) > score - 0.05


def test_one_versus_one_behind_an_encoder():
    """It reads X as numbers, so levels are encoded before."""
    domain = Domain(BOX | {"s": ["u", "v"]}, target=["mid", "lo", "up"])
    X, y = records(domain)
    inner = OneVsOneClassifier(model(domain.encoded, classes=[0, 1]))
    found = make_pipeline(domain.encoder(), inner).fit(X, y)
    assert set(found.predict(X)) <= set(domain.target)
