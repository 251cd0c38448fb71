"""Kinds of tables and targets: what is read alike, and what is refused before a charge.

A refusal names a column or a type, shows no cell, and has no error of other code in its chain.
"""

import datetime as dt
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from public_estimators import CLASSIFIERS, COUNTS, ESTIMATORS

import skdp
from skdp import Domain, DPLinearRegression, DPLogisticRegression, Ledger, estimate_domain
from skdp.domain import tables as tables_module
from skdp.domain.layout import read_once
from skdp.domain.tables import EncodedRows
from skdp.model_selection import PrivateSearchCV, epsilon_curve

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
nw = pytest.importorskip("narwhals")

SECRET = "Zanzibar"
N = 600


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Expect a model")  # of few persons
        yield


# What is read alike

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
WORDS = np.where(FRAME.age + 30 * FRAME.own > 70, "yes", "no")
ARROW = pa.Table.from_pandas(FRAME, preserve_index=False)
POLARS = pl.from_arrow(ARROW)


class Capsule:
    """A table of a library that is not known, with the Arrow interface alone."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def duck(table):
    return pytest.importorskip("duckdb").from_arrow(table)


# Functions, because some can be read only once.
TABLES = {
    "polars": lambda: POLARS,
    "polars, lazy": POLARS.lazy,
    "polars, rechunked": lambda: pl.concat([POLARS[:100], POLARS[100:]], rechunk=False),
    "polars, categorical": lambda: POLARS.with_columns(pl.col("job").cast(pl.Categorical)),
    "polars, enum": lambda: POLARS.with_columns(
        pl.col("job").cast(pl.Enum(["unknown", "c", "b", "a"]))
    ),
    "polars, other order": lambda: POLARS[["own", "job", "big", "age"]],
    "arrow": lambda: ARROW,
    "arrow, chunks": lambda: pa.concat_tables([ARROW[:100], ARROW[100:]]),
    "arrow, batch": lambda: ARROW.combine_chunks().to_batches()[0],
    "arrow, reader": lambda: ARROW.to_reader(max_chunksize=100),
    "arrow, dictionary": lambda: ARROW.set_column(2, "job", ARROW["job"].dictionary_encode()),
    "arrow, capsule": lambda: Capsule(ARROW),
    "duckdb": lambda: duck(ARROW),
    "narwhals of polars": lambda: nw.from_native(POLARS),
    "narwhals of pandas": lambda: nw.from_native(FRAME),
    "narwhals of arrow": lambda: nw.from_native(ARROW),
    "narwhals, lazy": lambda: nw.from_native(POLARS.lazy()),
    "dict of arrays": lambda: {name: FRAME[name].to_numpy() for name in FRAME},
    "dict of lists": lambda: FRAME.to_dict("list"),
    "dict of series": lambda: {name: FRAME[name][::-1][::-1] for name in FRAME},
    "dict of polars": lambda: {name: POLARS[name] for name in POLARS.columns},
    "dict of arrow": lambda: {name: ARROW[name] for name in ARROW.column_names},
    "pandas, nullable": FRAME.convert_dtypes,
    "pandas, arrow types": lambda: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, objects": lambda: FRAME.astype(object),
    "pandas, category": lambda: FRAME.astype({"job": "category", "big": "category"}),
    "pandas, string": lambda: FRAME.astype({"job": "string"}),
    "pandas, python strings": lambda: FRAME.astype({"job": pd.StringDtype("python")}),
    "rows of a list": lambda: FRAME.astype(object).to_numpy().tolist(),
    "rows of objects": lambda: FRAME.to_numpy(object),
}
COLUMNS = {
    "list": lambda y: y.tolist(),
    "polars": lambda y: pl.Series(y.tolist()),
    "polars, categorical": lambda y: pl.Series(y.tolist(), dtype=pl.Categorical),
    "polars, enum": lambda y: pl.Series(y.tolist(), dtype=pl.Enum(["yes", "no"])),
    "narwhals": lambda y: nw.from_native(pl.Series(y.tolist()), series_only=True),
    "arrow": lambda y: pa.array(y.tolist()),
    "arrow, chunks": lambda y: pa.chunked_array([y[:99].tolist(), y[99:].tolist()]),
    "arrow, dictionary": lambda y: pa.array(y.tolist()).dictionary_encode(),
    "arrow, capsule": lambda y: Capsule(pa.chunked_array([y.tolist()])),
    "pandas, string": lambda y: pd.Series(y, dtype="string"),
    "pandas, category": lambda y: pd.Series(y, dtype="category"),
}
if int(pa.__version__.partition(".")[0]) < 23:
    # pyarrow does not convert levels of polars, whose positions have no sign.
    for own in ("polars, categorical", "polars, enum"):
        del TABLES[own], COLUMNS[own]


def logistic(**parameters):
    return DPLogisticRegression(**{"domain": DOMAIN, "random_state": 0} | parameters)


@cache
def reference():
    return logistic().fit(FRAME, WORDS)


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_every_kind_are_those_of_pandas(name):
    """Encoded, fitted and predicted, to the last bit."""
    made, expected = TABLES[name], DOMAIN.encode(FRAME)
    np.testing.assert_array_equal(DOMAIN.encode(made()), expected)
    np.testing.assert_array_equal(DOMAIN.encoder().fit_transform(FRAME), expected)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        model = logistic().fit(made(), WORDS)
        found = reference().predict_proba(made())
    np.testing.assert_array_equal(model.coef_, reference().coef_)
    np.testing.assert_array_equal(found, reference().predict_proba(FRAME))
    if "rows" not in name:
        assert model.feature_names_in_.tolist() == FRAME.columns.tolist()


class Shuffled:
    """Identifiers that come in another order at each reading, as a database may return them."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __arrow_c_stream__(self, requested_schema=None):
        ids = self.rng.permutation(np.repeat(np.arange(20), N // 20))
        return pa.chunked_array([ids]).__arrow_c_stream__(requested_schema)


def test_identifiers_are_read_once():
    """Else rows would have the shares of other persons: some would have a share above 1."""
    once = Shuffled()
    model = logistic().fit(FRAME, WORDS, groups=once)
    first = np.random.default_rng(0).permutation(np.repeat(np.arange(20), N // 20))
    np.testing.assert_array_equal(logistic().fit(FRAME, WORDS, groups=first).coef_, model.coef_)


@pytest.mark.parametrize("name", COLUMNS)
def test_targets_and_identifiers_of_every_kind_are_those_of_numpy(name):
    y, groups = COLUMNS[name](WORDS), np.repeat(["yes", "no"], N // 2)
    np.testing.assert_array_equal(logistic().fit(FRAME, y).coef_, reference().coef_)
    assert reference().score(POLARS, y) == reference().score(FRAME, WORDS)
    ours, theirs = (
        logistic().fit(FRAME, WORDS, groups=own) for own in (COLUMNS[name](groups), groups)
    )
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)


def test_other_doors_take_them():
    bounds = {"age": (0, 100), "big": [5], "job": "levels", "own": [False, True]}

    def found(X, y):
        search = PrivateSearchCV(logistic(), {"regularization": [0.5, 1.0]}, random_state=0)
        curve = epsilon_curve(logistic(), X, y, [1.0], repeats=1, cv=2, random_state=0)
        domain = estimate_domain(X, columns=bounds, epsilon=1.0, delta=1e-6, random_state=0)
        return search.fit(X, y).best_estimator_.coef_, curve.scores, domain.encoded_names()

    theirs = found(FRAME, WORDS)
    for table in (POLARS, ARROW, FRAME.to_dict("list"), nw.from_native(POLARS)):
        for own, expected in zip(found(table, COLUMNS["polars"](WORDS)), theirs, strict=True):
            np.testing.assert_array_equal(own, expected)
    whole = POLARS.with_columns(y=pl.Series(WORDS.tolist()))
    model = skdp.DPCoordinateDescentClassifier(domain=DOMAIN, delta=1e-6, random_state=0)
    expected = model.fit(FRAME, WORDS).coef_
    for parts in (
        lambda: iter([whole[:200], whole[200:].to_arrow()]),
        lambda: whole.to_arrow().to_reader(max_chunksize=99),
    ):
        np.testing.assert_array_equal(model.fit(parts, target="y").coef_, expected)


def test_a_relation_of_duckdb_may_be_read_in_batches():
    """Its result is closed before the next reading; the first one reads a batch for its names."""
    relation = duck(POLARS.with_columns(y=pl.Series(WORDS.tolist())).to_arrow())
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    found = logistic().fit(lambda: read(64), target="y").coef_
    np.testing.assert_allclose(found, reference().coef_, atol=1e-6)


def test_a_stream_of_arrow_that_is_too_large_is_refused(monkeypatch):
    """It can be read only once; a table that is in memory already is taken."""
    monkeypatch.setattr(tables_module, "MOST_BYTES", ARROW.nbytes // 2)
    for make in (ARROW.to_reader, lambda: Capsule(ARROW), lambda: duck(ARROW)):
        ledger = Ledger(1.0)
        pattern = "X must need at most .* bytes to be read once. Write it to a Parquet file"
        refusal(lambda m=make, own=ledger: logistic(ledger=own).fit(m(), WORDS), pattern, ledger)
    np.testing.assert_array_equal(DOMAIN.encode(ARROW), DOMAIN.encode(FRAME))


def test_cells_of_a_dict_are_read_by_position_and_their_types_are_not_inferred():
    """Neither by the index of a Series, nor by the other cells of a list."""
    domain = Domain({"a": (0, 1), "b": (0, 1)})
    columns = {"a": pd.Series([0.0, 1.0], [0, 1]), "b": pd.Series([0.0, 1.0], [1, 0])}
    np.testing.assert_array_equal(domain.encode(columns), [[-1, -1], [1, 1]])
    domain = Domain({"x": [1, "1", 2.5]})
    for cells in ([1, "1", 2.5], [1, "1", 1]):
        expected = [[1.0 * (cell == "1"), 1.0 * (cell == 2.5)] for cell in cells]
        np.testing.assert_array_equal(domain.encode({"x": cells}), expected)
    for cells in (["0", "1"], ["0", 1]):
        expected = [[1.0 * (cell == 1)] for cell in cells]
        np.testing.assert_array_equal(Domain({"x": [0, 1]}).encode({"x": cells}), expected)


def test_numbers_stay_where_they_are_and_other_cells_are_encoded_once():
    table = pd.DataFrame({"a": [7.0, -7.0, 0.0, 0.5], "b": ["w", None, 3, "v"]}, dtype=object)
    domain = Domain({"a": (-1, 1), "b": ["u", "v"]})
    for rows in (table, table.to_numpy(object), table.to_numpy(object).tolist(), table[["b", "a"]]):
        kept = read_once(domain, rows)
        assert isinstance(kept, EncodedRows)
        np.testing.assert_array_equal(domain.encode(kept), domain.encode(table))
        part = domain.encode(kept.taken(slice(1, 3)))
        np.testing.assert_array_equal(part, domain.encode(table)[1:3])
    numbers = np.zeros((5, 2))
    assert np.shares_memory(read_once(BOUNDED, numbers).cells, numbers)


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
    own = dict(zip(DOMAIN.names, DOMAIN._columns, strict=True))[column]
    domain = Domain({column: list(own.levels)}, other={column: own.other})
    np.testing.assert_array_equal(domain.encode(table), expected)


@pytest.mark.parametrize("cells", [[1.0, None], [1, None], [True, None]], ids=str)
@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table, dict])
def test_a_null_number_is_an_error_that_names_the_column(cells, kind):
    call = lambda: Domain({"x": (0, 9)}).encode(kind({"x": cells}))  # noqa: E731
    refusal(call, "column 'x' must contain only finite numbers")


@pytest.mark.parametrize("name", [own for own in COLUMNS if "pandas" not in own and own != "list"])
def test_a_null_label_is_an_error(name):
    """As an array of numpy, a null of a chunked dictionary of pyarrow would be the last label."""
    y, ledger = np.array([*WORDS[:-1], None], dtype=object), Ledger(1.0)
    call = lambda: logistic(ledger=ledger).fit(FRAME, COLUMNS[name](y))  # noqa: E731
    refusal(call, "y must contain only declared labels", ledger)


def test_kinds_of_columns_do_not_depend_on_nulls():
    """Else one record would decide whether a table is refused."""
    columns = {"i": [1, 2], "u": [1, 2], "b": [True, False], "d": [dt.date(2000, 1, 1)] * 2}
    types = {"i": pa.int16(), "u": pa.uint64(), "b": pa.bool_(), "d": pa.date32()}
    for last in (False, True):
        for name, cells in columns.items():
            own = [*cells[:1], None] if last else cells
            table = pa.table({name: pa.array(own, types[name])})
            call = lambda t=table, n=name: Domain({n: ["x", "y"]}).encode(t)  # noqa: E731
            refusal(call, f"'{name}' must contain strings, as its declared")


# What is refused, by every estimator and every other door

X = rng.uniform(-1, 1, (N, 2))
Y = (X[:, 0] > 0).astype(int)
BOUNDED, LABELLED = Domain.unit_box(2, (-1.0, 1.0)), Domain.unit_box(2, [0, 1])


def refusal(call, pattern, ledger=None):
    """The error of a call that must fail with no foreign word or warning, and without a charge."""
    with pytest.raises(ValueError, match=pattern) as caught:
        call()
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.args == (str(error),)
    assert ledger is None or ledger.entries == ()


def made(estimator, **parameters):
    domain = LABELLED if estimator in CLASSIFIERS else BOUNDED
    if estimator in COUNTS:
        domain = Domain.unit_box(2, (0.0, 1.0))
    return estimator(**{"domain": domain, "random_state": 0, "ledger": Ledger(10.0)} | parameters)


@cache
def fitted(estimator):
    return made(estimator, ledger=None).fit(X, Y)


def doors(table, estimators=ESTIMATORS):
    """Every call that reads a table, with the ledger that it may charge."""
    for kind in estimators:
        model = made(kind)
        yield (lambda m=model: m.fit(table, Y[: len(table)])), model.ledger
        yield (lambda k=kind: fitted(k).predict(table)), None
    yield (lambda: BOUNDED.encode(table)), None
    yield (lambda: BOUNDED.encoder().transform(table)), None
    model = made(DPLogisticRegression)
    search = PrivateSearchCV(model, {"regularization": [0.5, 1.0]}, random_state=0)
    yield (lambda: search.fit(table, Y[: len(table)])), model.ledger
    curve = lambda: epsilon_curve(model, table, Y[: len(table)], [1.0], repeats=1)  # noqa: E731
    yield curve, model.ledger
    named = table.add_prefix("x") if isinstance(table, pd.DataFrame) else table
    yield (lambda: estimate_domain(named, epsilon=1.0)), None


def doors_of_targets(target, estimators):
    for kind in estimators:
        model = made(kind)
        yield (lambda m=model: m.fit(X, target)), model.ledger
    yield (lambda: BOUNDED.encode_target(target)), None
    search = PrivateSearchCV(
        made(skdp.DPHuberRegressor), {"regularization": [0.5, 1.0]}, random_state=0
    )
    yield (lambda: search.fit(X, target)), search.estimator.ledger


RECORDS = np.zeros((N, 2), dtype=[("a", float), ("b", float)])
REFUSED = {
    "masked": (np.ma.masked_greater(X, 0.9), "X must be an array without a mask.*filled"),
    "masked nowhere": (np.ma.array(X), "X must be an array without a mask.*filled"),
    "masked rows": ([np.ma.array(row) for row in X], "X must be an array without a mask"),
    "records": (RECORDS, "X must not be a structured array"),
    "durations": (np.zeros((N, 2), "m8[s]"), "column 0 must contain only finite numbers"),
    "frame, complex": (pd.DataFrame(X + 0j, columns=[0, 1]), "'?x?0'? must contain only finite"),
    "frame, categories of dates": (
        pd.DataFrame({0: X[:, 0], 1: pd.Categorical(pd.to_datetime(["1986-01-01"] * N))}),
        "column '?x?1'? must contain only finite",
    ),
    "frame, durations": (
        pd.DataFrame({0: X[:, 0], 1: pd.to_timedelta([5] * N)}),
        "column '?x?1'? must contain only finite",
    ),
}
TARGETS = {
    "masked": (np.ma.masked_equal(Y, 1), "y must be an array without a mask.*y.filled"),
    "records in a column": (RECORDS[:, :1], "y must not be a structured array"),
    "dates": (Y.astype("M8[s]"), "only declared labels|target must contain only finite"),
    "durations": (Y.astype("m8[s]"), "only declared labels|target must contain only finite"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tables_are_refused_by_their_type(name):
    table, pattern = REFUSED[name]
    for call, ledger in doors(table):
        refusal(call, pattern, ledger)


@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_refused_by_their_type(name):
    target, pattern = TARGETS[name]
    for call, ledger in doors_of_targets(target, ESTIMATORS):
        refusal(call, pattern, ledger)


class Odd:
    """A cell whose own code raises an error that quotes it."""

    def _raise(self, *args, **kwargs):
        error = RuntimeError(SECRET)
        error.add_note(SECRET)
        raise error

    __float__ = __int__ = __index__ = __bool__ = __len__ = __iter__ = __eq__ = __hash__ = _raise
    __str__ = __repr__ = __array__ = __getitem__ = __array_ufunc__ = __array_function__ = _raise


class Spelled:
    """No number, but with a conversion to one."""

    def __float__(self):
        return 0.5


CELLS = {
    "complex": 1j,
    "date": np.datetime64("1986-01-01"),
    "duration": np.timedelta64(1, "s"),
    "masked": np.ma.masked,
    "array": np.array([0.5]),
    "array without dimension": np.array(0.5),
    "masked number": np.ma.array(0.5, mask=True),
    "record": RECORDS[0, 0],
    "pandas date": pd.Timestamp("1986-01-01"),
    "pandas duration": pd.Timedelta(5, "s"),
    "no date": pd.NaT,
    "huge integer": 10**400,
    "far decimal": Decimal("1e400"),
    "long float": np.longdouble("1e4000"),
    "word": SECRET,
    "object with a number": Spelled(),
    "code of its own": Odd(),
}


def spoiled(cell):
    cells = X.astype(object)
    cells[4, 1] = cell
    return cells


def framed(cell):
    column = pd.Series([0.5] * N, dtype=object)
    column[4] = cell
    return pd.DataFrame({0: X[:, 0], 1: column})


@pytest.mark.parametrize("name", CELLS)
def test_cells_that_are_no_numbers(name):
    """One sentence for all, in an array, a list or a frame."""
    cells, kinds = spoiled(CELLS[name]), [DPLogisticRegression, DPLinearRegression]
    for table in (cells, cells.tolist(), framed(CELLS[name])):
        for call, ledger in doors(table, kinds):
            refusal(call, "column '?x?1'? must contain only finite numbers", ledger)


@pytest.mark.parametrize("name", CELLS)
def test_entries_of_a_target_that_are_no_numbers(name):
    """A classifier says that the label is not declared, a regressor that it is no number."""
    cells = Y.astype(object)
    cells[4] = CELLS[name]
    for target in (cells, cells.tolist(), pd.Series(cells)):
        for call, ledger in doors_of_targets(target, [DPLinearRegression]):
            refusal(call, "target must contain only finite numbers|y must have entries", ledger)
        model = made(DPLogisticRegression)
        pattern = "y must contain only declared labels"
        refusal(lambda m=model, y=target: m.fit(X, y), pattern, model.ledger)
        curve = lambda m=model, y=target: epsilon_curve(m, X, y, [1.0], repeats=1)  # noqa: E731
        refusal(curve, "y must", model.ledger)


def test_cells_of_levels_and_identifiers_with_code_of_their_own():
    """What cannot be hashed is no level; what raises an error is refused by its column."""
    domain = Domain({"a": (-1, 1), "b": ["u", "v"]}, target=[0, 1])
    cells = np.array([[0.5, "u"]] * N, dtype=object)
    cells[4, 1] = ["a list"]
    assert domain.encode(cells)[4, 1] == 0
    cells[4, 1] = Odd()
    pattern = "column 'b' must contain cells that can be hashed"
    for rows in (cells, pd.DataFrame(cells, columns=["a", "b"])):
        for kind in CLASSIFIERS:
            model = made(kind, domain=domain)
            refusal(lambda t=rows, m=model: m.fit(t, Y), pattern, model.ledger)
        refusal(lambda t=rows: domain.encode(t), pattern)
    model, groups = made(DPLogisticRegression), np.arange(N).astype(object)
    groups[0] = Odd()
    refusal(lambda: model.fit(X, Y, groups=groups), "groups must", model.ledger)


@pytest.mark.parametrize("cell", [Decimal("0.5"), Fraction(1, 2), np.float16(0.5), "0.5", b"0.5"])
def test_numbers_of_python_and_numpy_are_read(cell):
    for rows in (spoiled(cell), spoiled(cell).tolist(), framed(cell)):
        assert BOUNDED.encode(rows)[4, 1] == 0.5
    assert BOUNDED.encode_target([cell])[0] == 0.5


class Broken:
    """A table whose reading fails with an error that quotes a cell."""

    columns = ("a",)

    def __arrow_c_stream__(self, requested_schema=None):
        raise ValueError(SECRET)


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        (Broken(), "X must be a table or a column that pyarrow can read"),
        ({"age": [1, 2], "big": [1]}, "X must have columns of the same length"),
        ({"age": [[1, 2]], "big": [1]}, "column 'age' must have one dimension"),
        ({"age": [1, 2], "big": [1, 2]}, "missing from X"),
        ([{"age": 1}, {"age": 2}], "missing from X"),
        ([{"age": 1}, {SECRET: 2}], "the records of X must have the same keys. A missing"),
        ({}, "X must have records"),
        (pl.Series([1.0, 2.0]), "X must be a table or a column that pyarrow can read"),
    ],
    ids=lambda case: str(case)[:20],
)
def test_bad_tables_are_refused_before_a_charge(table, pattern):
    ledger = Ledger(1.0)
    refusal(lambda: logistic(ledger=ledger).fit(table, WORDS[:2]), pattern, ledger)


class Stopping(float):
    """A cell at which somebody stops the program."""

    def __float__(self):
        raise KeyboardInterrupt

    __hash__ = __float__


def test_whoever_stops_a_fit_is_heard():
    model = made(DPLogisticRegression)
    for table, target in ((spoiled(Stopping()), Y), (X, [Stopping(), *Y[1:]])):
        with pytest.raises(KeyboardInterrupt):
            model.fit(table, np.array(target, dtype=object))
    assert model.ledger.entries == ()


@pytest.mark.parametrize("kind", ["d", "g", "O"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_number_is_too_far_for_silence(estimator, kind):
    """Sums of such numbers, and their squares, would overflow or underflow with a warning."""
    rows = np.resize([1e308, -1e308, 5e-324, 0.0, -0.0, 1e-300, 2.0], (N, 2)).astype(kind)
    target = Y if estimator in CLASSIFIERS else np.resize([1e308, -1e308, 5e-324], N).astype(kind)
    domain = Domain.box([-1e300, 0], [1e300, 1e-200], target=made(estimator).domain.target)
    warnings.simplefilter("ignore", skdp.UndeclaredDomainWarning)
    for own in (None, domain, Domain.l2_ball(2, 100.0, target=domain.target)):
        parameters = {"classes": [0, 1]} if estimator in CLASSIFIERS else {}
        model = estimator(domain=own, random_state=0, **parameters)
        with np.errstate(all="raise"):
            assert np.isfinite(model.fit(rows, target).predict(rows)).all()
            for name in ("decision_function", "predict_proba", "predict_log_proba"):
                getattr(model, name, np.asarray)(rows)
