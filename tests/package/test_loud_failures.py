"""Mistakes that would ruin a model in silence are errors, from names, types and declarations."""

from __future__ import annotations

import datetime as dt
import gc
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath

import numpy as np
import pandas as pd
import pytest
from inner_package import fail
from public_estimators import CLASSIFIERS, ESTIMATORS, REGRESSORS
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Ledger
from skdp.domain import domain as domain_module
from skdp.geometry import LpBall
from skdp.mechanisms import Independent, Sensitivity, calibrate
from skdp.model_selection import PrivateSearchCV
from skdp.noise import Laplace
from skdp.privacy import BudgetExceeded, Guarantee

pa = pytest.importorskip("pyarrow")


def refused(call, match, ledger=None):
    """The call raises this error, without the error of other code, and nothing was spent."""
    with pytest.raises(ValueError, match=match) as caught:
        call()
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert ledger is None or not ledger.entries


# Columns whose type is not that of their levels

KINDS = {
    "strings": ["a", "b"],
    "digits": ["0", "1"],
    "numbers": [0, 1],
    "floats": [0.5, 1.5],
    "bools": [False, True],
    "bytes": [b"a", b"b"],
    "dates": [dt.date(2000, 1, 1), dt.date(2001, 1, 1)],
    "datetimes": [dt.datetime(2000, 1, 1), dt.datetime(2001, 1, 1)],
}
NUMBERS = {"numbers", "floats", "bools"}
# Before version 3 pandas has no type for texts: they are objects, which may be anything.
TYPED_TEXTS = pd.Series(["a"], dtype="str").dtype != object
TEXTS = {"strings", "digits"} if TYPED_TEXTS else set(KINDS)
needs_typed_texts = pytest.mark.skipif(not TYPED_TEXTS, reason="texts have no type in pandas 2")
COLUMNS = {
    "int64": (pd.Series([0, 1]), NUMBERS),
    "uint8": (pd.Series([0, 1], dtype="uint8"), NUMBERS),
    "float": (pd.Series([0.5, np.nan]), NUMBERS),
    "bool": (pd.Series([True, False]), NUMBERS),
    "Int64": (pd.Series([0, None], dtype="Int64"), NUMBERS),
    "Float64": (pd.Series([0.5, None], dtype="Float64"), NUMBERS),
    "boolean": (pd.Series([True, None], dtype="boolean"), NUMBERS),
    "int64, arrow": (pd.Series([0, 1], dtype="int64[pyarrow]"), NUMBERS),
    "category of integers": (pd.Series([0, 1], dtype="category"), NUMBERS),
    "str": (pd.Series(["a", "b"], dtype="str"), TEXTS),
    "string": (pd.Series(["a", None], dtype="string"), {"strings", "digits"}),
    "string, python": (pd.Series(["a", "b"], dtype=pd.StringDtype("python")), None),
    "string, arrow": (pd.Series(["a", "b"], dtype="string[pyarrow]"), {"strings", "digits"}),
    "category": (pd.Series(["a", "b"], dtype="str").astype("category"), TEXTS),
    "datetime": (pd.Series(pd.to_datetime(["2000-01-01", None])), {"datetimes"}),
    "datetime, zone": (pd.Series(pd.to_datetime(["2000-01-01"], utc=True)), {"datetimes"}),
    "date, arrow": (pd.Series([dt.date(2000, 1, 1)], dtype="date32[pyarrow]"), {"dates"}),
    "timedelta": (pd.Series(pd.to_timedelta([1, 2])), set()),
    "object": (pd.Series([0, 1], dtype=object), set(KINDS)),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_have_the_kind_of_their_levels(column, kind):
    """A column of another kind would be read as `other` from top to bottom."""
    cells, fitting = COLUMNS[column]
    fitting = {"strings", "digits"} if fitting is None else fitting
    domain, table = Domain({"job": KINDS[kind]}), pd.DataFrame({"job": cells})
    if kind in fitting:
        assert domain.encode(table).shape == (len(cells), 1)
    else:
        name = "numbers" if kind in NUMBERS else "strings" if kind == "digits" else kind
        match = f"column 'job' must contain {name}, as its declared levels do, got .*Convert"
        refused(lambda: domain.encode(table), match)


WRONG_CELLS = [
    ([["0"], ["1"]], [0, 1]), ([[0], [1]], ["0", "1"]), ([[0.5], [1.5]], ["0.5", "1.5"]),
    ([[b"0"], [b"1"]], ["0", "1"]), ([[np.datetime64("2000-01-01")]], ["2000-01-01", "2001-01-01"]),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "levels"), WRONG_CELLS, ids=str)
def test_arrays_have_the_kind_of_their_levels(cells, levels):
    refused(lambda: Domain({"job": levels}).encode(np.array(cells)), "column 'job' must contain")


def test_levels_of_several_kinds_take_every_column():
    domain = Domain({"x": ["0", 0, 1]})
    for cells in (np.array([["0"]]), np.array([[0]]), pd.DataFrame({"x": ["0"]})):
        assert domain.encode(cells).shape == (1, 2)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_and_a_prediction_refuse_them_before_a_charge(estimator):
    target = ["no", "yes"] if estimator in CLASSIFIERS else (0, 1)
    domain = Domain({"age": (0, 1), "sex": ["0", "1"]}, target=target)
    ledger = Ledger(2.0)
    X, y = domain.sample(300, random_state=0, with_target=True)
    model = estimator(domain=domain, ledger=ledger, random_state=0)
    wrong = X.astype({"sex": int})
    refused(lambda: model.fit(wrong, y), "column 'sex' must contain strings", ledger)
    model.fit(X, y)
    refused(lambda: model.predict(wrong), "column 'sex' must contain strings")
    assert len(ledger.entries) == 1


@needs_typed_texts
def test_files_are_refused_by_the_types_that_they_state(tmp_path):
    """But texts of a CSV file spell levels that are numbers."""
    domain = Domain({"age": (0, 1), "sex": [0, 1]}, target=["no", "yes"])
    X, y = domain.sample(300, random_state=0, with_target=True)
    X["y"] = y
    X.astype({"sex": str}).to_parquet(tmp_path / "texts.parquet")
    X.to_csv(tmp_path / "texts.csv", index=False)
    ledger = Ledger(2.0)
    model = DPLogisticRegression(domain=domain, ledger=ledger, random_state=0)
    match = "column 'sex' must contain numbers"
    refused(lambda: model.fit(tmp_path / "texts.parquet", target="y"), match, ledger)
    found = model.fit(tmp_path / "texts.csv", target="y").coef_
    np.testing.assert_allclose(found, model.fit(X, target="y").coef_, atol=1e-6)


def test_a_prediction_of_dask_has_an_example_of_every_kind():
    dd = pytest.importorskip("dask.dataframe")
    domain = Domain({"age": (0, 1), "sex": ["0", "1"], "own": [False, True]}, target=["no", "yes"])
    X, y = domain.sample(300, random_state=0, with_target=True)
    model = DPLogisticRegression(domain=domain, random_state=0).fit(X, y)
    found = model.predict(dd.from_pandas(X, npartitions=2)).compute()
    np.testing.assert_array_equal(found, model.predict(X))


# Numbers that are dates or strings

NO_NUMBERS = {
    "datetime": (pd.to_datetime(["2000-01-01", "2001-01-01"]), r"Timestamp\('2000-01-01'\)\)"),
    "date": (pd.Series([dt.date(2000, 1, 1)] * 2, dtype="date32[pyarrow]"), "datetime.date"),
    "timedelta": (pd.to_timedelta([1, 2]), "total_seconds"),
    "str": (["a", "b"], r"declare its levels: Domain\(\{'seen': \['a', 'b'\]\}\)"),
    "string": (pd.array(["a", "b"], dtype="string"), "declare its levels"),
    "category": (pd.Categorical(["a", "b"]), "declare its levels"),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
@pytest.mark.filterwarnings("ignore:No domain was given")
def test_columns_that_hold_no_numbers_tell_what_to_do(name):
    """With and without a domain the error names the column."""
    cells, remedy = NO_NUMBERS[name]
    if name in ("str", "category") and not TYPED_TEXTS:
        remedy = "For missing cells declare"
    table, ledger = pd.DataFrame({"age": [0.5, 0.5], "seen": cells}), Ledger(1.0)
    for domain in (None, Domain({"age": (0, 1), "seen": (0, 1)}, target=["no", "yes"])):
        model = DPLogisticRegression(domain=domain, classes=["no", "yes"], ledger=ledger)
        match = f"column 'seen' must contain only finite numbers.*{remedy}"
        refused(lambda m=model: m.fit(table, ["no", "yes"]), match, ledger)


# A list where a range was meant

RANGES = [[17, 90], [90, 17], [0, 100.0], np.array([0, 3]), [-5, -1], [0, float("inf")]]
LEVELS = [[0, 1], [1, 2], [-1, 1], [1, 3], [0.5, 1.5], [False, True], ["17", "90"], [17, 18, 90]]


@pytest.mark.parametrize("levels", RANGES, ids=str)
def test_two_distant_numbers_are_no_levels(levels):
    match = "column 'age' must not have two distant numbers as its levels.* round brackets"
    refused(lambda: Domain({"sex": ["f", "m"], "age": levels}), match)


@pytest.mark.parametrize("levels", LEVELS, ids=str)
def test_other_lists_are_levels(levels):
    assert Domain({"age": levels}).n_encoded == len(levels) - 1
    assert Domain.unit_box(1, target=[17, 90]).target == [17, 90]


# Encoded rows for a domain of rows that are not

DOMAINS = {
    "numbers": {"age": (17, 90), "height": (100, 200)},
    "levels": {"age": (17, 90), "sex": ["a", "b", "c"]},
    "one of two": {"sex": ["f", "m"]},
    "as many": {"age": (17, 90), "sex": ["f", "m"]},
}
ENCODED = "X must have the domain's . columns and not the encoded ones. .*domain=domain.encoded"


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("with_names", [True, False])
@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPHuberRegressor])
def test_a_model_behind_an_encoder_needs_the_encoded_domain(name, with_names, estimator):
    """The numbers of another unit would all be clipped to one bound."""
    target = ["no", "yes"] if estimator is DPLogisticRegression else (0, 1)
    domain = Domain(DOMAINS[name], target=target)
    X, y = domain.sample(400, random_state=0, with_target=True)
    if not with_names:
        X = X.to_numpy(object)
    ledger = Ledger(1.0)
    wrong = estimator(domain=domain, ledger=ledger)
    refused(lambda: make_pipeline(domain.encoder(), wrong).fit(X, y), ENCODED, ledger)
    no_target = Domain(DOMAINS[name]).encoder()
    refused(lambda: make_pipeline(no_target, wrong).fit(X, y), ENCODED, ledger)
    right = estimator(domain=domain.encoded, ledger=ledger)
    assert make_pipeline(domain.encoder(), right).fit(X, y).predict(X).shape == (400,)


@pytest.mark.parametrize("name", ["levels", "one of two", "as many"])
def test_a_frame_with_the_names_of_encoded_columns(name):
    domain = Domain(DOMAINS[name], target=["no", "yes"])
    X, y = domain.sample(400, random_state=0, with_target=True)
    for encoder in (domain.encoder(), Domain(DOMAINS[name]).encoder()):  # with and without a target
        encoder.set_output(transform="pandas")
        pipeline = make_pipeline(encoder, DPLogisticRegression(domain=domain))
        refused(lambda pipeline=pipeline: pipeline.fit(X, y), ENCODED)


def test_a_search_refuses_it_before_a_charge():
    domain, ledger = Domain(DOMAINS["numbers"], target=["no", "yes"]), Ledger(1.0)
    X, y = domain.sample(400, random_state=0, with_target=True)
    pipeline = make_pipeline(domain.encoder(), DPLogisticRegression(domain=domain))
    grid = {"dplogisticregression__regularization": [0.0, 1.0]}
    search = PrivateSearchCV(pipeline, grid, ledger=ledger)
    refused(lambda: search.fit(X, y), ENCODED, ledger)


def test_other_domains_take_the_arrays_of_an_encoder():
    """For instance narrower bounds of the encoded numbers, or those of a box."""
    domain = Domain(DOMAINS["numbers"])
    X, y = Domain(DOMAINS["numbers"], target=["no", "yes"]).sample(400, 0, with_target=True)
    rows = domain.encoder().transform(X)
    for own in (
        Domain.unit_box(2, ["no", "yes"]),
        Domain.box([-0.5] * 2, [0.5] * 2, ["no", "yes"]),
    ):
        DPLogisticRegression(domain=own, random_state=0).fit(rows, y)


def test_arrays_of_an_encoder_are_forgotten_with_them():
    gc.collect()
    before = len(domain_module._RETURNED)
    rows = Domain(DOMAINS["numbers"]).encoder().transform([[20, 150]])
    assert len(domain_module._RETURNED) == before + 1
    del rows
    gc.collect()
    assert len(domain_module._RETURNED) == before


# Targets of the other task


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("bounds", [(0, 1), (0, 50_000)])
def test_bounds_are_no_labels(estimator, bounds):
    domain, ledger = Domain({"age": (0, 1)}, target=bounds), Ledger(1.0)
    X, y = np.full((50, 1), 0.5), np.resize([0, 1], 50)
    match = "the domain's target must be a list of labels, got .*target=\\[first, second\\]"
    refused(lambda: estimator(domain=domain, ledger=ledger).fit(X, y), match, ledger)
    # With labels of its own a classifier may share the domain of a regressor.
    found = estimator(domain=domain, classes=[0, 1], delta=1e-6, random_state=0).fit(X, y)
    assert found.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_labels_are_no_bounds(estimator):
    domain, ledger = Domain({"age": (0, 1)}, target=[0, 1]), Ledger(1.0)
    X, y = np.full((50, 1), 0.5), np.resize([0, 1], 50)
    match = r"declare the target's bounds, got \[0, 1\].*target=\(lower, upper\).*classifier"
    refused(lambda: estimator(domain=domain, ledger=ledger).fit(X, y), match, ledger)


# Noise, and the budget of many fits


def test_arguments_of_calibrate_are_named():
    unit = Sensitivity(LpBall(2, p=1))
    refused(lambda: calibrate(Laplace(), unit, epsilon=1.0), "A law is given as Independent")
    refused(lambda: calibrate("gaussian", 1.0, epsilon=1.0, delta=1e-6), "be a Sensitivity")
    assert calibrate(Independent(Laplace()), unit, epsilon=1.0).guarantee.epsilon == 1.0


CEILINGS = [(1.0, 0.0, 0.1, 0.0), (0.3, 0.0, 0.1, 0.0), (1.0, 1e-6, 0.3, 1e-6), (1.0, 0, 2, 0)]


@pytest.mark.parametrize(
    ("composition", "case"),
    [
        *((kind, CEILINGS[k]) for kind, k in (("adaptive", 0), ("sums", 1), ("fixed", 2))),
        *(("after a gaussian", case) for case in CEILINGS[:3]),
        ("adaptive", CEILINGS[3]),
    ],
)
def test_the_number_of_fits_that_are_left(composition, case):
    ceiling, ceiling_delta, epsilon, delta = case
    if composition == "after a gaussian":
        ledger, unit = Ledger(1.0, 1e-5), Sensitivity(LpBall(2, p=2))
        ledger.spend(calibrate("gaussian", unit, epsilon=0.3, delta=1e-6).guarantee)
    else:
        ledger = Ledger(ceiling, ceiling_delta, composition=composition)
    predicted, made = ledger.fits_left(epsilon, delta), 0
    with suppress(BudgetExceeded):
        while True:
            ledger.spend(Guarantee(epsilon, delta))
            made += 1
            assert ledger.fits_left(epsilon, delta) == predicted - made
    assert made == predicted


def test_counting_ends_and_needs_a_number():
    assert Ledger(float("inf")).fits_left(1.0) == Ledger(1.0).fits_left(1e-6) == 10_000
    for bad in (0, -1.0, np.nan, "a"):
        refused(lambda bad=bad: Ledger(1.0).fits_left(bad), "epsilon must be a finite number > 0")


# A column where a parameter, a declaration or a name is expected: errors are read by others

COLUMN = pd.Series(["Zanzibar", "Timbuktu"], name="town")
PUBLIC = Domain({"age": (0, 1)}, target=["no", "yes"])


def epsilon(value):
    return DPLogisticRegression(epsilon=value, domain=PUBLIC).fit([[0], [1]], ["no", "yes"])


ARROW = pa.chunked_array([COLUMN.tolist()])  # its arrays have no shape, unlike those of others


@pytest.mark.parametrize(
    "call",
    [
        *(partial(epsilon, own) for own in (COLUMN, ARROW, ARROW.chunk(0), [ARROW])),
        partial(epsilon, {"a": ARROW[0]}),
        lambda: Domain(COLUMN.to_frame()),
        lambda: Domain({"age": (0, COLUMN)}),
        lambda: Domain({"age": (0, 1)}, missing=COLUMN),
        lambda: Domain({"age": (0, 1)}, other=COLUMN.to_numpy()),
        lambda: DPLogisticRegression(regularization=COLUMN, domain=PUBLIC).fit(
            [[0], [1]], ["no", "yes"]
        ),
        lambda: DPLogisticRegression(domain=PUBLIC).fit([[0], [1]], target=COLUMN),
        lambda: DPLogisticRegression(domain=PUBLIC).fit(lambda: iter(()), target=COLUMN),
        lambda: DPLogisticRegression(domain=PUBLIC).fit([[0], [1]], target=list(COLUMN)),
        lambda: Domain({"age": (0, 1)}, missing=deque([COLUMN])),
        lambda: Domain({"age": (0, 1)}, other=pd.Index(COLUMN)),
        lambda: Domain({"age": (0, 1)}, other=list(COLUMN) * 20),
        lambda: Domain.box([0], [1], names=pd.concat([COLUMN, COLUMN])),
        lambda: Domain({"age": (0, 1)}).additive(columns=COLUMN),
    ],
)
def test_an_error_of_a_column_as_parameter_shows_its_class_and_no_cell(call):
    with pytest.raises(ValueError, match=r"must .*got <class '") as caught:
        call()
    assert not any(cell in str(caught.value) for cell in COLUMN)


def test_distinct_cells_that_are_declared_as_levels_are_not_shown():
    """By an error about another parameter, or about two levels that look like bounds."""
    for call in (
        lambda: Domain({"town": COLUMN}, other={"town": "x"}),
        lambda: Domain({"pay": np.array([31337.0, 42.0])}),
    ):
        with pytest.raises(ValueError, match="levels") as caught:
            call()
        assert not any(cell in str(caught.value) for cell in [*COLUMN, "31337", "42"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (["a", 1.5, None], "['a', 1.5, None]"),
        ({"a": (0, 1)}, "{'a': (0, 1)}"),
        (PurePosixPath("people.csv"), "PurePosixPath('people.csv')"),
        (LpBall(2, p=1), repr(LpBall(2, p=1))),
        (np.str_("a"), "'a'"),
        (np.float64(-1), "-1.0"),
        (object(), "<class 'object'>"),
        ([0] * 21, "<class 'list'>"),
        ({"a": COLUMN}, "<class 'dict'>"),
    ],
)
def test_what_is_written_by_hand_is_shown(value, shown):
    assert str(fail("x", "be y", value)) == f"x must be y, got {shown}."


def test_the_name_of_a_column_as_y_is_an_error_that_tells_of_target():
    table = pd.DataFrame({"age": [0.0, 1.0], "rich": ["no", "yes"]})
    ledger = Ledger(1.0)
    model = DPLogisticRegression(domain=PUBLIC, ledger=ledger)
    refused(lambda: model.fit(table, "rich"), "y must be an array.*write target='rich'", ledger)
