"""Mistakes of an honest curator: a warning before the charge, or a table that is read as meant."""

from __future__ import annotations

import gc
import math
import re
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler, TargetEncoder

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
    Ledger,
    PrivacyLeakWarning,
    estimate_domain,
)
from skdp.model_selection import PrivateSearchCV

DOMAIN = Domain({"age": (17, 90), "dose": (0, 10)}, target=["no", "yes"])
X, Y = DOMAIN.sample(1500, random_state=0, with_target=True)
UNIT = Domain.unit_box(2, target=["no", "yes"])


def caught(call, *, error=None):
    """The warnings of a call that are about mistakes of the curator, each as often as it comes."""
    with warnings.catch_warnings(record=True, action="always") as seen:
        try:
            call()
        except Exception:
            if error is None:
                raise
    ours = ("fits '", "folds of", "search over", "may be too small", "hardly", "is above")
    return [own for own in seen if any(word in str(own.message) for word in ours)]


def model(domain=UNIT, **parameters):
    return DPLogisticRegression(domain=domain, **parameters)


# Steps before the model

SCALE = StandardScaler
PREPARED = Pipeline([("fill", SimpleImputer()), ("scale", SCALE())])
ROWWISE = FunctionTransformer(np.tanh)
PUBLIC = FrozenEstimator(SCALE().fit(DOMAIN.sample(100, random_state=1)))
LEARNING = {
    "scaler": (lambda m: make_pipeline(SCALE(), m), "'standardscaler' (StandardScaler)"),
    "imputer": (lambda m: make_pipeline(SimpleImputer(), m), "'simpleimputer' (SimpleImputer)"),
    "selection": (lambda m: make_pipeline(SelectKBest(k=2), m), "'selectkbest' (SelectKBest)"),
    "target": (lambda m: make_pipeline(TargetEncoder(), m), "'targetencoder' (TargetEncoder)"),
    "by name": (lambda m: Pipeline([("s", SCALE()), ("m", m)]), "'s' (StandardScaler)"),
    "second": (lambda m: make_pipeline(ROWWISE, SCALE(), m), "'standardscaler' (StandardScaler)"),
    "both": (
        lambda m: make_pipeline(PREPARED, m),
        "'pipeline' (SimpleImputer), 'pipeline' (StandardScaler)",
    ),
    "outer": (lambda m: make_pipeline(SCALE(), make_pipeline(ROWWISE, m)), "'standardscaler'"),
    "inner": (lambda m: make_pipeline(ROWWISE, make_pipeline(SCALE(), m)), "'standardscaler'"),
    "columns": (
        lambda m: make_pipeline(ColumnTransformer([("s", SCALE(), ["age", "dose"])]), m),
        "'columntransformer' (StandardScaler)",
    ),
    "chosen columns": (
        lambda m: make_pipeline(ColumnTransformer([("s", ROWWISE, make_column_selector())]), m),
        "'columntransformer' (make_column_selector)",
    ),
    "union": (
        lambda m: make_pipeline(FeatureUnion([("s", SCALE())]), m),
        "'featureunion' (StandardScaler)",
    ),
    "before a search": (
        lambda m: make_pipeline(
            SCALE(), PrivateSearchCV(m, {"regularization": [0.5, 1.0]}, epsilon=1.0)
        ),
        "'standardscaler'",
    ),
    "before bagging": (
        lambda m: make_pipeline(SCALE(), BaggingClassifier(m, 1, bootstrap=False)),
        "'standardscaler'",
    ),
    "subclass": (
        lambda m: make_pipeline(type("Mine", (Normalizer,), {"fit": Normalizer.fit})(), m),
        "'mine' (Mine)",
    ),
}


@pytest.mark.parametrize("name", LEARNING)
def test_a_step_that_learns_from_the_rows_is_named_before_the_charge(name):
    """Once for the fit; as an error, it stops the fit before anything is spent."""
    made, words = LEARNING[name]
    ledger = Ledger(9.0)
    (seen,) = caught(lambda: made(model(ledger=ledger)).fit(X, Y))
    assert seen.category is PrivacyLeakWarning
    assert words in str(seen.message)
    assert "domain.encoder()" in str(seen.message)
    assert seen.filename == __file__
    fresh = Ledger(9.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning):
            made(model(ledger=fresh)).fit(X, Y)
    assert len(ledger.entries) == 1
    assert not fresh.entries


HARMLESS = {
    "alone": lambda: model(DOMAIN).fit(X, Y),
    "encoder": lambda: make_pipeline(DOMAIN.encoder(), model(DOMAIN.encoded)).fit(X, Y),
    "rows one by one": lambda: make_pipeline(ROWWISE, Normalizer(), model()).fit(X, Y),
    "nothing": lambda: Pipeline([("a", "passthrough"), ("b", None), ("m", model())]).fit(X, Y),
    "public constants": lambda: make_pipeline(PUBLIC, model()).fit(X, Y),
    "search": lambda: PrivateSearchCV(
        make_pipeline(DOMAIN.encoder(), model(DOMAIN.encoded)),
        {"dplogisticregression__regularization": [0.5, 1.0]},
    ).fit(X, Y),
    "folds by position": lambda: cross_val_score(model(DOMAIN), X, Y, cv=KFold(3)),
    "a ledger that suffices": lambda: cross_val_score(
        model(DOMAIN, ledger=Ledger(3.0)), X, Y, cv=KFold(3)
    ),
    "plan": lambda: model(DOMAIN, epsilon=0.1).plan(30, repeats=2, inference=0),
    "a plan for much": lambda: model(DOMAIN, epsilon=50.0).plan(300, repeats=1, inference=0),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_no_warning_without_a_mistake(name):
    assert not caught(HARMLESS[name])


@pytest.mark.parametrize(("transformer", "words"), [
    (SCALE(), "TransformedTargetRegressor fits 'transformer' (StandardScaler)"),
    (FunctionTransformer(np.sqrt, np.square), None), (None, None),
])  # fmt: skip
def test_transformed_targets(transformer, words):
    regressor = DPHuberRegressor(domain=Domain({"age": (17, 90), "dose": (0, 10)}, target=(-5, 5)))
    made = TransformedTargetRegressor(regressor, transformer=transformer, check_inverse=False)
    found = caught(lambda: made.fit(X, X["age"].to_numpy()))
    assert [words in str(own.message) for own in found] == [True] * (words is not None)


def test_the_frames_of_a_failed_look_hold_no_table():
    """The walk keeps no frame: a table is freed after the fit."""
    table = X.copy()
    gone = weakref.ref(table)
    make_pipeline(DOMAIN.encoder(), model(DOMAIN.encoded)).fit(table, Y)
    del table
    gc.collect()
    assert gone() is None


class Caller:
    """Its method fits a model. It has ``steps`` of its own, or reads none."""

    def __init__(self, steps):
        self.steps = steps

    def fit(self, model, table):
        model.fit(table, Y)

    def run(self, model, table):
        """Return whether the table lives on when its only variable is gone."""
        gone = weakref.ref(table)
        model.fit(table, Y)
        del table
        return gone() is not None


class Closed(Caller):
    def __getattribute__(self, name):
        if name == "__dict__":
            raise RuntimeError("no attributes")
        return super().__getattribute__(name)


@pytest.mark.parametrize("steps", [9, np.arange(3), ["a"], {"a": 1}, [("a",)], iter([1])])
@pytest.mark.parametrize("kind", [Caller, Closed])
def test_a_caller_may_have_steps_of_its_own(kind, steps):
    assert caught(lambda: kind(steps).fit(model(), X)) == []


def test_a_step_without_methods_of_its_class_is_named():
    class Delegate:
        def __init__(self, step):
            self.step = step

        def __getattr__(self, name):
            if name in ("fit", "fit_transform", "transform"):
                return getattr(self.step, name)
            raise AttributeError(name)

    made = Pipeline([("own", Delegate(DOMAIN.encoder())), ("model", model(DOMAIN.encoded))])
    assert ["'own' (Delegate)" in str(own.message) for own in caught(lambda: made.fit(X, Y))] == [
        True
    ]


def test_a_method_that_calls_a_fit_frees_its_table():
    """Python keeps the variables of a frame that were read as a dict."""
    is_kept = Caller(None).run(model(), X.copy())
    assert not is_kept


# Searches


def grid(model, values, **options):
    return GridSearchCV(model, {"epsilon": values}, **{"cv": KFold(3), **options})


FOLDS, OVER, SMALL = "folds of StratifiedKFold", "search over epsilon", "may be too small: "
SEARCHES = {
    "over epsilon": (lambda m: grid(m, [0.1, 0.2]).fit(X, Y), 9.0, [OVER]),
    "labels": (lambda m: cross_val_score(m, X, Y), 9.0, [FOLDS]),
    "labels, stated": (lambda m: cross_validate(m, X, Y, cv=StratifiedKFold(2)), 9.0, [FOLDS]),
    "predictions": (lambda m: cross_val_predict(m, X, Y, cv=2), 9.0, [FOLDS]),
    "ledger": (
        lambda m: cross_val_score(m, X, Y, cv=KFold(4)),
        3.5,
        [SMALL + "4 fits need epsilon=4 in total, and only 3 with their mean, epsilon=1,"],
    ),
    "last fit": (
        lambda m: GridSearchCV(m, {"regularization": [0.5, 1.0]}, cv=KFold(2)).fit(X, Y),
        4.0,
        [SMALL + "5 fits need epsilon=5 in total, and only 4"],
    ),
    "no last fit": (
        lambda m: GridSearchCV(m, {"regularization": [1, 2]}, cv=KFold(2), refit=False).fit(X, Y),
        4.0,
        [],
    ),
    "the mean of the budgets": (
        lambda m: grid(m, [0.5, 1.5], refit=False).fit(X, Y),
        5.0,
        [OVER, SMALL + "6 fits need epsilon=6 in total, and only 5"],
    ),
    "random": (
        lambda m: RandomizedSearchCV(
            m, {"regularization": [0.5, 1.0, 2.0]}, n_iter=2, cv=KFold(2), random_state=0
        ).fit(X, Y),
        4.0,
        [SMALL + "5 fits"],
    ),
    "all three": (
        lambda m: grid(m, [0.5, 1.0], cv=5).fit(X, Y), 3.0, [FOLDS, OVER, SMALL + "11 fits"]
    ),
    "given folds": (
        lambda m: cross_val_score(m, X, Y, cv=PredefinedSplit(np.arange(1500) % 3)),
        2.0,
        [SMALL + "3 fits"],
    ),
    "in a pipeline": (
        lambda m: GridSearchCV(
            make_pipeline(ROWWISE, m.set_params(domain=UNIT)),
            {"dplogisticregression__epsilon": [0.5, 1.0]},
            cv=KFold(2),
        ).fit(X, Y),
        9.0,
        [OVER],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_warn_once_and_before_the_first_charge(name):
    """Public numbers of fits decide. If the warning is an error, no fit is charged."""
    call, ceiling, words = SEARCHES[name]
    ledger = Ledger(ceiling)
    found = caught(lambda: call(model(DOMAIN, ledger=ledger)), error=True)
    assert len(found) == len(words)
    assert all(word in str(own.message) for word, own in zip(words, found, strict=True))
    assert all(own.filename == __file__ for own in found)
    fresh = Ledger(ceiling)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for word in words:
            warnings.filterwarnings("error", f".*{re.escape(word[:20])}")
        stops = pytest.raises((ValueError, UserWarning)) if words else warnings.catch_warnings()
        with stops:
            call(model(DOMAIN, ledger=fresh))
    assert bool(fresh.entries) is not bool(words)


def test_no_warning_tells_the_number_of_folds_that_follows_from_the_rows():
    """It may be private: that of records, or of groups."""
    private = model(neighbors="add_remove", ledger=Ledger(3.5))
    search = grid(private, [0.5], cv=LeaveOneOut(), error_score="raise")
    seen = caught(lambda: search.fit(X[:7], Y[:7]), error="the ledger's")
    assert not any("fits need" in str(own.message) for own in seen)


def test_each_search_is_a_new_one():
    for _ in range(2):
        assert len(caught(lambda: cross_val_score(model(DOMAIN), X, Y, cv=2))) == 1


def test_the_error_of_a_ledger_names_the_question_before_a_search():
    with pytest.raises(ValueError, match=r"before a search ask fits_left\(epsilon\)"):
        model(DOMAIN, ledger=Ledger(0.5)).fit(X, Y)


# Budgets

FEW = (
    "hardly better than a trivial one: 30 records are few for 2 columns at epsilon=0.1; a useful"
    " model needs about 3,000"
)
BUDGETS = {
    "few records": ({"epsilon": 0.1}, 30, [FEW]),
    "enough": ({"epsilon": 1.0}, 30, []),
    "few, private number": ({"epsilon": 0.1, "neighbors": "add_remove"}, 30, []),
    "few, by declaration": (
        {"epsilon": 0.1, "neighbors": "add_remove", "n_public": 40}, 1500, ["40 records are few"],
    ),
    "no protection": ({"epsilon": 100.0}, 1500, ["epsilon=100 protects hardly anything"]),
    "the greatest usual": ({"epsilon": 20.0}, 1500, []),
    "delta": ({"delta": 0.01}, 1500, ["delta=0.01 is above 1 / n for n=1500"]),
    "1 / n": ({"delta": 1 / 1500}, 1500, []),
    "small delta": ({"delta": 1e-6}, 1500, []),
    "delta, private number": (
        {"delta": 2e-3, "neighbors": "add_remove"}, 30, ["delta=0.002 is above 0.001"],
    ),
    "less, private number": ({"delta": 9e-4, "neighbors": "add_remove"}, 1500, []),
    "both": ({"delta": 0.5, "epsilon": 30.0}, 1500, ["protects hardly", "is above"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets_that_protect_or_buy_little(name):
    """From public quantities: where the number of records is private, it decides nothing."""
    parameters, n, words = BUDGETS[name]
    estimator = DPCoordinateDescentClassifier if "delta" in parameters else DPLogisticRegression
    found = caught(lambda: estimator(domain=DOMAIN, **parameters).fit(X[:n], Y[:n]))
    assert [own.category for own in found] == [UserWarning] * len(words)
    assert all(word in str(own.message) for word, own in zip(words, found, strict=True))


@pytest.mark.parametrize(("options", "n_seen"), [({"epsilon": 30.0}, 1), ({"epsilon": 2.0}, 0)])
def test_a_search_warns_of_its_own_budget_once(options, n_seen):
    search = PrivateSearchCV(model(DOMAIN), {"regularization": [0.5, 1.0]}, **options)
    assert len(caught(lambda: search.fit(X, Y))) == n_seen


# Tables for predictions

WIDE = X.assign(y=Y, person=np.arange(1500) // 3, weight=1.0, target=0)


@pytest.fixture(scope="module")
def fitted():
    own = WIDE.drop(columns="target")
    made = model(DOMAIN, max_weight=1.0, n_public=1000)
    return made.fit(own, target="y", groups="person", sample_weight="weight")


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba",
                                    "decision_function"])  # fmt: skip
def test_predictions_take_the_table_of_the_fit(fitted, method, tmp_path):
    """In memory and in files, in another order, with columns of any names and types."""
    call, expected = getattr(fitted, method), getattr(fitted, method)(X)
    np.testing.assert_array_equal(call(WIDE), expected)
    np.testing.assert_array_equal(call(WIDE[[*WIDE.columns[::-1]]]), expected)
    np.testing.assert_array_equal(call(WIDE.to_dict("list")), expected)
    WIDE.to_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(np.concatenate([*call(tmp_path / "t.parquet")]), expected)


@pytest.mark.parametrize("record", [
    {"age": 30, "dose": 2.5}, {"dose": 2.5, "age": 30}, {"age": np.int64(30), "dose": "2.5"},
    {"age": 30, "dose": 2.5, "y": "no", "person": None},
])  # fmt: skip
def test_a_record_may_be_a_dict(fitted, record):
    expected = fitted.predict_proba(pd.DataFrame({"age": [30.0], "dose": [2.5]}))
    np.testing.assert_array_equal(fitted.predict_proba(record), expected)
    np.testing.assert_array_equal(fitted.predict_proba([record] * 3), np.tile(expected, (3, 1)))
    assert fitted.predict(record).shape == (1,)
    assert fitted.predict([record, record]).shape == (2,)


def test_records_are_read_as_columns_are():
    records = WIDE[["age", "dose", "y"]].to_dict("records")
    ours = model(DOMAIN, random_state=0).fit(records, target="y")
    np.testing.assert_array_equal(ours.coef_, model(DOMAIN, random_state=0).fit(X, Y).coef_)


REFUSED = {
    "no column": ({"age": 30}, "yet now missing"),
    "keys": ([{"age": 30, "dose": 1}, {"age": 30}], "records of X must have the same keys"),
    "a list among cells": ({"age": [30], "dose": 1}, "column 'dose' must have one dimension"),
    "mixed": ([{"age": 30, "dose": 1}, 7], "two dimensions"),
    "missing": ({"age": None, "dose": 1}, "column 'age' must contain only finite numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_records_that_are_refused(fitted, name):
    table, match = REFUSED[name]
    with pytest.raises(ValueError, match=match):
        fitted.predict(table)


def test_scores_take_the_table_of_the_fit(fitted):
    assert fitted.score(WIDE, target="y") == fitted.score(X, Y) == fitted.score(WIDE, Y)
    with pytest.raises(ValueError, match="target must be a column of X"):
        fitted.score(WIDE, target="z")
    with pytest.raises(ValueError, match="y must be None if a target column is named"):
        fitted.score(WIDE, Y, target="y")


REGRESSORS = DPHuberRegressor, DPLinearRegression, DPPoissonRegressor, DPQuantileRegressor


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_regressors_take_the_table_of_the_fit(estimator):
    domain = Domain({"age": (17, 90)}, target=(0, 20))
    made = estimator(domain=domain).fit(WIDE[["age", "dose"]], target="dose")
    np.testing.assert_array_equal(made.predict(WIDE), made.predict(X[["age"]]))
    assert made.score(WIDE, target="dose") == made.score(X[["age"]], X["dose"])


@pytest.mark.filterwarnings("ignore")
def test_without_a_domain_the_names_of_the_fit_count():
    made = model(None).fit(X.assign(y=Y), target="y")
    np.testing.assert_array_equal(made.predict(WIDE), made.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        made.predict(WIDE[["dose", "age"]])


# Messages


@pytest.mark.parametrize("call", ["fit", "predict"])
def test_a_file_that_does_not_exist(call, fitted):
    with pytest.raises(FileNotFoundError, match=r"none at this path, got 'nope.parquet'"):
        getattr(fitted if call == "predict" else model(DOMAIN), call)("nope.parquet")


UNKNOWN = {
    "bounds": "bounds", "levels": "levels", "None": None, "inf": (0, math.inf), "number": 5,
    "nan": (math.nan, 1), "None in a pair": (0, None), "-inf": (-math.inf, math.inf),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_bounds_lead_to_their_estimate(name):
    """The remedy has the column at hand, and is a call that works."""
    table = pd.DataFrame({"age": np.linspace(0, 90, 5000)})
    with pytest.raises(ValueError, match="estimate_domain") as error:
        Domain({"age": UNKNOWN[name]})
    found = re.search(r"columns=(\{.*?\}), epsilon=0.2", str(error.value))
    assert estimate_domain(table, columns=eval(found[1]), epsilon=0.2).names == ("age",)
    if name != "levels":
        with pytest.raises(ValueError, match=r"estimate_domain\(X, target='bounds', epsilon"):
            Domain({"age": (0, 1)}, target=UNKNOWN[name] if UNKNOWN[name] is not None else "bounds")


def test_all_columns_are_proposed_and_estimated():
    table = pd.DataFrame({"age": np.linspace(0, 90, 5000), "sex": ["f", "m"] * 2500})
    with pytest.raises(ValueError, match="epsilon must be") as error:
        estimate_domain(table)
    assert "columns={'age': 'bounds', 'sex': 'levels'}, epsilon=0.2, delta" in str(error.value)
    found = estimate_domain(table, epsilon=2.0, delta=1e-6)
    assert found.names == ("age", "sex")
    assert {"f", "m"} <= {*found.to_dict()["columns"][1]["levels"]}


@pytest.mark.parametrize(("cells", "words"), [
    (["f", "m"], r"declare its levels: Domain\(\{'sex': \['a', 'b'\]\}\)"),
    (pd.to_datetime(["2000-01-01"] * 2), r"days since a public date: \(X\['sex'\] - pandas"),
    (pd.to_timedelta([1, 2]), r"X\['sex'\].dt.total_seconds\(\)"),
    ([1.0, math.nan], r"missing=\{'sex': \"indicator\"\}"),
])  # fmt: skip
def test_messages_have_the_column_at_hand(cells, words):
    with pytest.raises(ValueError, match=words):
        Domain({"sex": (0, 1)}).encode(pd.DataFrame({"sex": cells}))
