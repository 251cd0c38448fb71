"""Tables and targets of other libraries: the same numbers, bit for bit, as those of pandas."""

from __future__ import annotations

import datetime as dt
import warnings
from functools import cache

import numpy as np
import pandas as pd
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

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Ledger,
)
from skdp.domain.cells import arrow_frame, in_memory
from skdp.model_selection import PrivateSearchCV, epsilon_curve

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 600
DOMAIN = Domain(
    {"age": (0, 100), "big": [2**60 + 1, 2**60, 5], "job": ["a", "b", "c"], "own": [False, True]},
    target=["no", "yes"],
    other={"job": "c", "big": 5},
)
rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": rng.uniform(-5, 105, N),
        "big": rng.choice([2**60 + 1, 2**60, 5, 7], N),
        "job": rng.choice(["a", "b", "c", "unknown"], N),
        "own": rng.random(N) < 0.5,
    }
)
Y = np.where(FRAME.age + 30 * FRAME.own > 70, "yes", "no")
ARROW = pa.Table.from_pandas(FRAME, preserve_index=False)
POLARS = pl.from_arrow(ARROW)
CODED = POLARS.with_columns(pl.col("job").cast(pl.Enum(["unknown", "c", "b", "a"])))
TABLES = {
    "polars": POLARS,
    "polars, lazy": POLARS.lazy(),
    "polars, rechunked": pl.concat([POLARS[:100], POLARS[100:]], rechunk=False),
    "polars, categorical": POLARS.with_columns(pl.col("job").cast(pl.Categorical)),
    "polars, enum": CODED,
    "polars, other order": POLARS[["own", "job", "big", "age"]],
    "arrow": ARROW,
    "arrow, chunks": pa.concat_tables([ARROW[:100], ARROW[100:]]),
    "arrow, batch": ARROW.combine_chunks().to_batches()[0],
    "arrow, dictionary": ARROW.set_column(2, "job", ARROW["job"].dictionary_encode()),
    "arrow, metadata": pa.Table.from_pandas(FRAME, preserve_index=False),
    "dict of arrays": {name: FRAME[name].to_numpy() for name in FRAME},
    "dict of lists": {name: FRAME[name].tolist() for name in FRAME},
    "dict of series": {name: FRAME[name][::-1][::-1] for name in FRAME},
    "dict of polars": {name: POLARS[name] for name in POLARS.columns},
    "dict of arrow": {name: ARROW[name] for name in ARROW.column_names},
    "pandas, nullable": FRAME.convert_dtypes(),
    "pandas, arrow types": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, objects": FRAME.astype(object),
    "pandas, category": FRAME.astype({"job": "category", "big": "category"}),
    "pandas, string": FRAME.astype({"job": "string"}),
    "pandas, python strings": FRAME.astype({"job": pd.StringDtype("python")}),
    "list of rows": FRAME.astype(object).to_numpy().tolist(),
    "array of objects": FRAME.to_numpy(object),
}
TARGETS = {
    "list": Y.tolist(),
    "polars": pl.Series(Y.tolist()),
    "polars, categorical": pl.Series(Y.tolist(), dtype=pl.Categorical),
    "polars, enum": pl.Series(Y.tolist(), dtype=pl.Enum(["yes", "no"])),
    "arrow": pa.array(Y.tolist()),
    "arrow, chunks": pa.chunked_array([Y[:99].tolist(), Y[99:].tolist()]),
    "arrow, dictionary": pa.array(Y.tolist()).dictionary_encode(),
    "pandas, string": pd.Series(Y, dtype="string"),
    "pandas, category": pd.Series(Y, dtype="category"),
}
if int(pa.__version__.partition(".")[0]) < 23:
    # pyarrow does not convert levels of polars, whose positions have no sign.
    for name in ("polars, categorical", "polars, enum"):
        del TABLES[name], TARGETS[name]
BY_TABLE = pytest.mark.parametrize("name", TABLES)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@cache
def fitted():
    return DPLogisticRegression(domain=DOMAIN, random_state=0).fit(FRAME, Y)


# Tables


@BY_TABLE
def test_encoded_numbers_are_those_of_pandas(name):
    expected = DOMAIN.encode(FRAME)
    np.testing.assert_array_equal(DOMAIN.encode(TABLES[name]), expected)
    np.testing.assert_array_equal(DOMAIN.encoder().fit_transform(TABLES[name]), expected)


@BY_TABLE
def test_fits_and_predictions_are_those_of_pandas(name):
    """A model may be fitted to one kind of table and predict another one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        model = DPLogisticRegression(domain=DOMAIN, random_state=0).fit(TABLES[name], Y)
        found = fitted().predict_proba(TABLES[name])
    np.testing.assert_array_equal(model.coef_, fitted().coef_)
    np.testing.assert_array_equal(found, fitted().predict_proba(FRAME))
    if "rows" not in name and "array of" not in name:
        assert model.feature_names_in_.tolist() == fitted().feature_names_in_.tolist()
        np.testing.assert_array_equal(model.predict(POLARS), fitted().predict(FRAME))


@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_those_of_numpy(name):
    y = TARGETS[name]
    model = DPLogisticRegression(domain=DOMAIN, random_state=0).fit(FRAME, y)
    np.testing.assert_array_equal(model.coef_, fitted().coef_)
    assert model.score(POLARS, y) == fitted().score(FRAME, Y)


@pytest.mark.parametrize("kind", ["polars", "lazy", "arrow", "batch", "dict"])
def test_the_target_may_be_a_column(kind):
    whole = POLARS.with_columns(y=pl.Series(Y.tolist()))
    table = {
        "polars": whole,
        "lazy": whole.lazy(),
        "arrow": whole.to_arrow(),
        "batch": whole.to_arrow().combine_chunks().to_batches()[0],
        "dict": whole.to_dict(),
    }[kind]
    model = DPLogisticRegression(domain=DOMAIN, random_state=0).fit(table, target="y")
    np.testing.assert_array_equal(model.coef_, fitted().coef_)


@pytest.mark.parametrize("kind", ["polars", "arrow", "dict"])
def test_searches_and_curves_take_them(kind):
    table = {"polars": POLARS, "arrow": ARROW, "dict": FRAME.to_dict("list")}[kind]
    model = DPLogisticRegression(domain=DOMAIN)

    def found(X, y):
        search = PrivateSearchCV(model, {"q": [0.4, 0.6]}, random_state=0)
        curve = epsilon_curve(model, X, y, [1.0], repeats=1, cv=2, random_state=0)
        return search.fit(X, y).best_estimator_.coef_, curve.scores

    for ours, theirs in zip(found(table, TARGETS["polars"]), found(FRAME, Y), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_batches_of_a_function_may_be_of_any_kind():
    whole = POLARS.with_columns(y=pl.Series(Y.tolist()))
    model = DPCoordinateDescentClassifier(domain=DOMAIN, delta=1e-6, random_state=0)
    parts = lambda: iter([whole[:200], whole[200:].to_arrow()])  # noqa: E731
    ours = model.fit(parts, target="y").coef_
    np.testing.assert_array_equal(ours, model.fit(FRAME, Y).coef_)


def test_regressors_take_them():
    domain = Domain({"age": (0, 100), "job": ["a", "b", "c"]}, target=(0, 10))
    y = np.linspace(0, 10, N)
    model = DPLinearRegression(domain=domain, random_state=0)
    expected = model.fit(FRAME[["age", "job"]], y).coef_
    for target in (pl.Series(y), pa.array(y), y.tolist(), pd.Series(y, dtype="Float64")):
        found = model.fit(POLARS[["age", "job"]], target).coef_
        np.testing.assert_array_equal(found, expected)


# Null cells

NULLS = {
    "big": ([2**60 + 1, None, 2**60], [[0, 0], [0, 1], [1, 0]]),
    "job": (["a", None, "b"], [[0, 0], [0, 1], [1, 0]]),
    "own": ([True, None, False], [[1], [0], [0]]),
}


@pytest.mark.parametrize("column", NULLS)
@pytest.mark.parametrize("kind", ["polars", "arrow", "dictionary", "pandas", "dict"])
def test_a_null_level_is_the_other_one_and_changes_no_neighbour(column, kind):
    """As floats, the integers 2^60 + 1 and 2^60 would be one."""
    cells, expected = NULLS[column]
    table = {
        "polars": lambda: pl.DataFrame({column: cells}),
        "arrow": lambda: pa.table({column: cells}),
        "dictionary": lambda: pa.table({column: pa.array(cells).dictionary_encode()}),
        "pandas": lambda: pd.DataFrame({column: pd.Series(cells, dtype=object)}),
        "dict": lambda: {column: pl.Series(cells)},
    }[kind]()
    others = {name: DOMAIN._columns[k].other for k, name in enumerate(DOMAIN.names) if k}
    levels = {name: list(DOMAIN._columns[k].levels) for k, name in enumerate(DOMAIN.names) if k}
    domain = Domain({column: levels[column]}, other={column: others[column]})
    np.testing.assert_array_equal(domain.encode(table), expected)


@pytest.mark.parametrize("cells", [[1.0, None], [1, None], [True, None]], ids=str)
@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table, dict])
def test_a_null_number_is_an_error_that_names_the_column(cells, kind):
    domain = Domain({"x": (0, 9)})
    with pytest.raises(ValueError, match="column 'x' must hold finite numbers") as caught:
        domain.encode(kind({"x": cells}))
    assert caught.value.__context__ is None


LABELS = ["pa dictionary", "pa chunks", "pa", "pl"]


@pytest.mark.parametrize("name", LABELS + ["pl categorical"] * ("polars, enum" in TABLES))
def test_a_null_label_is_an_error(name):
    """As an array of numpy, a null of a chunked dictionary of pyarrow would be the last label."""
    cells = [*Y[:-1].tolist(), None]
    y = {
        "pa dictionary": lambda: pa.array(cells).dictionary_encode(),
        "pa chunks": lambda: pa.chunked_array([pa.array(cells).dictionary_encode()]),
        "pa": lambda: pa.array(cells),
        "pl": lambda: pl.Series(cells),
        "pl categorical": lambda: pl.Series(cells, dtype=pl.Categorical),
    }[name]()
    ledger = Ledger(1.0)
    with pytest.raises(ValueError, match="y must hold declared labels only"):
        DPLogisticRegression(domain=DOMAIN, ledger=ledger).fit(FRAME, y)
    assert not ledger.entries


def test_kinds_of_columns_do_not_depend_on_nulls():
    """Else one record would decide whether a table is refused."""
    columns = {"i": [1, 2], "u": [1, 2], "b": [True, False], "d": [dt.date(2000, 1, 1)] * 2}
    types = {"i": pa.int16(), "u": pa.uint64(), "b": pa.bool_(), "d": pa.date32()}
    for last in (False, True):
        for name, cells in columns.items():
            own = [*cells[:1], None] if last else cells
            table = pa.table({name: pa.array(own, types[name])})
            with pytest.raises(ValueError, match=f"'{name}' must hold strings, as its declared"):
                Domain({name: ["x", "y"]}).encode(table)


def test_columns_without_nulls_are_not_copied():
    cells = np.arange(5.0)
    found = in_memory(pa.table({"x": cells}))["x"].to_numpy()
    assert np.shares_memory(found, cells)
    assert arrow_frame(pa.table({"x": cells}))["x"].dtype == np.float64


def test_series_of_a_dict_are_read_by_position():
    """Not by their indices, as a DataFrame of pandas would align them."""
    domain = Domain({"a": (0, 1), "b": (0, 1)})
    columns = {"a": pd.Series([0.0, 1.0], [0, 1]), "b": pd.Series([0.0, 1.0], [1, 0])}
    np.testing.assert_array_equal(domain.encode(columns), [[-1, -1], [1, 1]])


def test_types_of_a_list_are_not_inferred_from_its_cells():
    domain = Domain({"x": [1, "1", 2.5]})
    for cells in ([1, "1", 2.5], [1, "1", 1]):
        expected = [[1.0 * (cell == "1"), 1.0 * (cell == 2.5)] for cell in cells]
        np.testing.assert_array_equal(domain.encode({"x": cells}), expected)
    # Nor strings: one cell of another type would decide whether the table is refused.
    for cells in (["0", "1"], ["0", 1]):
        expected = [[1.0 * (cell == 1)] for cell in cells]
        np.testing.assert_array_equal(Domain({"x": [0, 1]}).encode({"x": cells}), expected)


class Broken:
    """A table whose reading fails with an error that quotes a cell."""

    columns = ("a",)

    def __arrow_c_stream__(self, requested_schema=None):
        raise ValueError("Zanzibar")


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (Broken(), "X must be a table or a column that pyarrow can read"),
        ({"age": [1, 2], "big": [1]}, "X must have columns of one length"),
        ({"age": [[1, 2]], "big": [1]}, "column 'age' must have one dimension"),
        ({"age": [1, 2], "big": [1, 2]}, "missing from X"),
        ([{"age": 1}, {"age": 2}], "X must be a table and not a list of dicts. Give pandas"),
        ({}, "X must have records"),
    ],
    ids=lambda case: str(case)[:20],
)
def test_bad_tables_are_refused_before_a_charge(X, match):
    ledger = Ledger(1.0)
    with pytest.raises(ValueError, match=match) as caught:
        DPLogisticRegression(domain=DOMAIN, ledger=ledger).fit(X, Y[:2])
    assert "Zanzibar" not in repr(caught.value)
    assert caught.value.__context__ is None
    assert not ledger.entries


# Meta-estimators of scikit-learn, which fit to positions of labels

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
    "grid": lambda d: GridSearchCV(model(d), {"q": [0.4, 0.6]}, cv=2),
}


@pytest.mark.parametrize("domain", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", META)
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
    search = PrivateSearchCV(model(TWO, q=0.5), {"q": [0.4]}, epsilon=50.0)
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
    with pytest.raises(ValueError, match="declared labels only"):
        model(THREE).fit(X[:3], np.array(y))


def test_positions_are_read_by_type_and_not_by_value():
    """Objects and numbers that are declared as labels stay what they are."""
    X, _ = records(TWO)
    with pytest.raises(ValueError, match="declared labels only"):
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
