"""Missing cells are encoded by the rule of their column, one by one, in every kind of table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from inner_package import compiled_module as compiled
from public_estimators import CLASSIFIERS
from sklearn.pipeline import make_pipeline

from skdp import Domain, DPCoordinateDescentClassifier, DPHuberRegressor, DPLinearRegression
from skdp.domain.domain import subset
from skdp.domain.layout import encode_compactly, read_once


@pytest.fixture(params=[False, True], ids=["arrays", "compiled"])
def use(request, monkeypatch):
    """Both implementations of the encoding of numbers."""
    kernels = pytest.importorskip("skdp._kernels") if request.param else None
    monkeypatch.setattr(compiled, "_KERNELS", [kernels])


def same_bits(found, expected):
    assert found.tobytes() == np.asarray(expected, dtype=found.dtype).tobytes()


def encoded_alone(domain, table):
    return np.vstack([domain.encode(table[k : k + 1]) for k in range(len(table))])


# Numbers

# Cells of a column with bounds (-2, 10), and what they are encoded as.
CELLS = [-2, 4, None, 10, 7, None, 300, 1]
EXPECTED = np.array([-1.0, 0.0, math.nan, 1.0, 0.5, math.nan, 1.0, -0.5])
RULES = {"middle": 0.0, "indicator": 0.0, 4: 0.0, 7.0: 0.5, -2: -1.0, 10: 1.0}


def numbers(cells=CELLS, missing=math.nan):
    return [missing if cell is None else cell for cell in cells]


def frame(*columns, dtype=None):
    return pd.DataFrame({f"c{k}": pd.Series(own, dtype=dtype) for k, own in enumerate(columns)})


def mixed(*missing):
    kinds = iter(np.resize(np.array(missing, dtype=object), len(CELLS)).tolist())
    return np.array([next(kinds) if cell is None else cell for cell in CELLS], dtype=object)


def texts(missing=""):
    return [missing if cell is None else str(cell) for cell in CELLS]


NUMBERS = {
    "floats": np.array(numbers()),
    "single floats": np.array(numbers(), np.float32),
    "half floats": np.array(numbers(), np.float16),
    "big-endian": np.array(numbers(), ">f8"),
    "long floats": np.array(numbers(), np.longdouble),
    "objects": mixed(None, math.nan),
    "objects of pandas": mixed(pd.NA, pd.NaT),
    "objects and texts": mixed("", b""),
    "texts": np.array(texts()),
    "bytes": np.array(texts()).astype("S"),
    "texts of any length": np.array(texts(), np.dtypes.StringDType()),
    "list": numbers(),
    "list with None": CELLS,
    "list of texts": texts(),
}
FRAMES = {
    "float64": frame(numbers()),
    "float32": frame(numbers(), dtype="float32"),
    "Int64": frame(CELLS, dtype="Int64"),
    "Int16": frame(CELLS, dtype="Int16"),
    "Float64": frame(CELLS, dtype="Float64"),
    "object": frame(mixed(None, pd.NA), dtype=object),
    "object of texts": frame(texts(), dtype=object),
    "object of NaT": frame(mixed(pd.NaT), dtype=object),
    "str": frame(texts(None), dtype="str"),
    "string": frame(texts(pd.NA), dtype="string"),
    "empty texts": frame(texts(), dtype="str"),
    "category": frame(CELLS, dtype="category"),
    "category of texts": frame(texts(None), dtype="category"),
    "int64[pyarrow]": frame(CELLS, dtype="int64[pyarrow]"),
    "double[pyarrow]": frame(CELLS, dtype="double[pyarrow]"),
    "string[pyarrow]": frame(texts(None), dtype="string[pyarrow]"),
}
TABLES = {name: [[cell] for cell in cells] if isinstance(cells, list) else cells[:, None]
          for name, cells in NUMBERS.items()} | FRAMES  # fmt: skip


@pytest.mark.usefixtures("use")
@pytest.mark.parametrize("name", TABLES)
def test_numbers_of_every_kind_of_table(name):
    """In a table of several rows and in one of its own a cell is encoded to the same bits."""
    table = TABLES[name]
    for rule, fill in RULES.items():
        domain = Domain.box([-2], [10], missing=rule)
        expected = np.where(np.isnan(EXPECTED), fill, EXPECTED)[:, None]
        if rule == "indicator":
            expected = np.hstack([expected, np.isnan(EXPECTED)[:, None]])
        same_bits(domain.encode(table), expected)
        same_bits(encoded_alone(domain, table), expected)
        same_bits(domain.encode(read_once(domain, table)), expected)
        compact = encode_compactly(domain, table, np.float32)
        same_bits(compact.numbers[:, 0], expected[:, 0])
        assert [own.tolist() for own in compact.levels] == expected[:, 1:].T.tolist()


@pytest.mark.usefixtures("use")
def test_bounds_near_the_largest_floats():
    """Their difference overflows: another formula scales them."""
    rows = np.array([[-1.5e308, math.nan], [math.nan, 0.5]])
    domain = Domain.box([-1.5e308, 0], [1.5e308, 1], missing={0: 1.5e308, 1: "indicator"})
    same_bits(domain.encode(rows), [[-1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


@pytest.mark.usefixtures("use")
def test_bools_are_numbers_too():
    domain = Domain({"c0": (-1, 1)}, missing="indicator")
    for dtype in ("boolean", "bool[pyarrow]", object):
        found = domain.encode(frame([True, None, False], dtype=dtype))
        same_bits(found, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


@pytest.mark.usefixtures("use")
@pytest.mark.parametrize("kind", ["array", "frame", "objects", "texts"])
def test_columns_with_and_without_rules(kind):
    """Against an encoding of each column by itself; the table has several blocks of rows."""
    rng = np.random.default_rng(0)
    lower, upper = [-1.0, -3.0, 0.0, -1.0, 2.0, 5.0, -1.0], [1.0, 4.0, 0.1, 1.0, 9.0, 7.0, 1.0]
    rules = {1: "indicator", 2: 0.07, 3: "indicator", 4: "indicator", 5: "middle", 6: 0.3}
    n = 400 if kind in ("objects", "texts") else 30_000
    rows = rng.uniform(-4, 10, (n, 7))
    rows[:, list(rules)] = np.where(rng.random((n, 6)) < 0.2, math.nan, rows[:, list(rules)])
    columns = []
    for k in range(7):
        own, absent = Domain.box(lower[k : k + 1], upper[k : k + 1]), np.isnan(rows[:, k])
        rule = rules.get(k)
        filled = np.where(absent, rule if isinstance(rule, float) else 0.0, rows[:, k])
        column = own.encode(filled[:, None])[:, 0]
        columns.append(np.where(absent, 0.0, column) if isinstance(rule, str) else column)
        if rule == "indicator":
            columns.append(absent)
    domain = Domain.box(lower, upper, missing=rules)
    convert = {
        "array": lambda: rows,
        "frame": lambda: pd.DataFrame(rows),
        "objects": lambda: rows.astype(object),
        "texts": lambda: np.where(np.isnan(rows), "", rows.astype(str)),
    }
    table = convert[kind]()
    expected = np.column_stack(columns)
    same_bits(domain.encode(table), expected)
    compact = encode_compactly(domain, table)
    same_bits(np.ascontiguousarray(compact.numbers), expected[:, domain.number_index])
    for positions, block in zip(compact.levels, domain.blocks, strict=True):
        assert positions.tolist() == expected[:, block.start].tolist()
    same_bits(domain.encode(compact), expected)


def test_a_missing_cell_does_not_change_how_others_are_read():
    large = [2**53 + 1, 2**62 + 1, 7]
    domain = Domain.box([0], [2.0**63], missing="middle")
    expected = domain.encode(np.array(large, object)[:, None])
    for dtype in ("Int64", "int64[pyarrow]", object):
        same_bits(domain.encode(frame([*large, None], dtype=dtype))[:3], expected)
    levels = Domain({"c0": large}, missing="indicator")
    for dtype in ("Int64", "int64[pyarrow]", object):
        table = frame([*large, None, 2**53], dtype=dtype)
        assert encode_compactly(levels, table).levels[0].tolist() == [0, 1, 2, 3, 0]


# Levels

WORDS = ["b", None, "a", "other", None, "c"]
LEVEL_TABLES = {
    "objects": np.array(WORDS, object),
    "NaN": np.array(["b", math.nan, "a", "other", np.float32("nan"), "c"], object),
    "pandas": np.array(["b", pd.NA, "a", "other", pd.NaT, "c"], object),
    "dates": np.array(["b", np.datetime64("NaT"), "a", [1], np.timedelta64("NaT"), "c"], object),
    "empty objects": np.array(["b", "", "a", "other", b"", "c"], object),
    "texts": np.array(["b", "", "a", "other", "", "c"]),
    "str": pd.Series(WORDS, dtype="str"),
    "string": pd.Series(WORDS, dtype="string"),
    "python": pd.Series(WORDS, dtype=pd.StringDtype("python")),
    "pyarrow": pd.Series(WORDS, dtype="string[pyarrow]"),
    "empty": pd.Series(["b", "", "a", "other", None, "c"], dtype="str"),
    "category": pd.Series(WORDS, dtype="category"),
    "category of texts": pd.Series(["b", "", "a", "other", None, "c"], dtype="category"),
    "object": pd.Series(["b", pd.NA, "a", "other", math.nan, "c"], dtype=object),
}


def as_column(cells):
    return frame(cells, dtype=cells.dtype) if isinstance(cells, pd.Series) else cells[:, None]


@pytest.mark.parametrize("name", LEVEL_TABLES)
def test_levels_of_every_kind_of_table(name):
    """Unknown levels are still the other one."""
    table = as_column(LEVEL_TABLES[name])
    domain = Domain({"c0": ["a", "b", "c"]}, other={"c0": "c"}, missing="indicator")
    expected = [1, 3, 0, 2, 3, 2]
    assert encode_compactly(domain, table).levels[0].tolist() == expected
    same_bits(domain.encode(table), np.eye(4)[expected][:, 1:])
    same_bits(encoded_alone(domain, table), np.eye(4)[expected][:, 1:])
    without = Domain({"c0": ["a", "b", "c"]}, other={"c0": "c"})
    assert encode_compactly(without, table).levels[0].tolist() == [1, 2, 0, 2, 2, 2]


DAYS = pd.to_datetime(["1986-01-01", None, "1987-01-01"])
TYPED = {
    "floats": ([0.5, 2.0], [2.0, math.nan, math.inf, 0.5], [1, 2, 0, 0]),
    "integers as floats": ([3, 5], [5.0, math.nan, 3.0], [1, 2, 0]),
    "integers": ([3, 5], np.array([5, 0, 3]), [1, 0, 0]),
    "nullable": ([3, 5], pd.Series([5, None, 3], dtype="Int64"), [1, 2, 0]),
    "bools": ([False, True], pd.Series([True, None, False], dtype="boolean"), [1, 2, 0]),
    "days": ([DAYS[2], DAYS[0]], pd.Series(DAYS), [1, 2, 0]),
    "one": (["a"], np.array(["a", None, "b"], object), [0, 1, 0]),
    "declared empty text": (["a", ""], np.array(["", None, "a"], object), [1, 2, 0]),
    "arrow of declared empty": (["a", ""], pd.Series(["", None, "a"], dtype="str"), [1, 2, 0]),
}


@pytest.mark.parametrize("name", TYPED)
def test_levels_of_other_types(name):
    levels, cells, expected = TYPED[name]
    domain = Domain({"c0": levels}, missing={"c0": "indicator"})
    cells = np.array(cells) if isinstance(cells, list) else cells
    for table in (as_column(cells), frame(cells)):
        assert encode_compactly(domain, table).levels[0].tolist() == expected


# Declarations

MIXED = {"age": (17, 90), "sex": ["f", "m"], "bmi": (10, 50.5), "job": ["none", "clerk", "smith"]}
SOME = {"age": 40, "sex": "indicator", "bmi": "middle"}
DECLARED = [
    Domain(MIXED, missing="indicator", target=["no", "yes"]),
    Domain(MIXED, missing="middle", target=(0, 1)),
    Domain(MIXED, missing=SOME),
    Domain(MIXED, missing={"age": "indicator"}, other={"job": "smith"}),
    Domain(MIXED, missing={"age": 41}),
    Domain(MIXED),
    Domain.box([0, -1], [1, 1], missing="indicator"),
    Domain.box([0, -1], [1, 1], missing={1: 0.25}),
    Domain.box([0, -1], [1, 1], missing=0.5),
    Domain.box([-1, -1], [1, 1], missing="middle"),
    Domain.box([-1, -1], [1, 1]),
]


@pytest.mark.parametrize("domain", DECLARED, ids=repr)
def test_rules_are_part_of_the_declaration(domain):
    for twin in (eval(repr(domain)), domain._build(*domain._key())):
        assert (twin, hash(twin), repr(twin)) == (domain, hash(domain), repr(domain))
    assert [other for other in DECLARED if other == domain] == [domain]


def test_encoded_columns():
    domain = DECLARED[0]
    names = ("age", "age_missing", "sex_m", "sex_missing", "bmi", "bmi_missing", "job_clerk")
    names = (*names, "job_smith", "job_missing")
    assert domain.encoded_names() == names
    assert tuple(domain.encoder().get_feature_names_out()) == names
    assert (domain.n_columns, domain.n_encoded, domain.n_numbers) == (4, 9, 2)
    assert domain.block_sizes == (1, 2, 1, 3)
    assert domain.number_index.tolist() == [0, 4]
    assert domain.row_norm(1) == 6
    assert domain.encoded.encoded_names() == domain.encoded.names == names
    assert domain.encoded.encoded == domain.encoded
    assert domain.encoded.block_sizes == domain.block_sizes
    assert DECLARED[2].encoded_names() == ("age", "sex_m", "sex_missing", "bmi", *names[-3:-1])
    assert DECLARED[6].encoded_names() == ("x0", "x0_missing", "x1", "x1_missing")
    assert DECLARED[6].encoded.encoded_names() == DECLARED[6].encoded_names()
    assert DECLARED[7].encoded == Domain.unit_box(2)


INVALID = {
    "fill outside": (lambda: Domain(MIXED, missing={"age": 5}), r"missing\['age'\].*\(17, 90\).*5"),
    "NaN": (lambda: Domain(MIXED, missing={"age": math.nan}), r"missing\['age'\].*nan"),
    "bool": (lambda: Domain({"x": (0, 1)}, missing={"x": True}), "missing.*True"),
    "word": (lambda: Domain(MIXED, missing={"age": "mean"}), r"missing\['age'\].*'mean'"),
    "word for all": (lambda: Domain(MIXED, missing="mean"), "missing.*dict.*'mean'"),
    "array": (lambda: Domain(MIXED, missing=np.zeros(4)), "missing.*dict.*array"),
    "no column": (lambda: Domain(MIXED, missing={"shoe": 5}), "missing.*'age'.*'shoe'"),
    "position": (lambda: Domain.box([0], [1], missing={1: 0.5}), r"missing.*\[0\].*1"),
    "outside of one": (lambda: Domain.box([0, 3], [1, 4], missing=0.5), r"missing\[1\].*\(3, 4\)"),
    "fill of levels": (lambda: Domain(MIXED, missing={"sex": "f"}), r"'sex'.*indicator.*`other`"),
    "middle of levels": (lambda: Domain(MIXED, missing={"sex": "middle"}), r"'sex'.*indicator"),
    "level": (
        lambda: Domain({"x": ["missing", "b"]}, missing="indicator"),
        r"missing\['x'\].*level 'missing'.*Rename the level",
    ),
    "column": (
        lambda: Domain({"x": (0, 1), "x_missing": (0, 1)}, missing={"x": "indicator"}),
        "encoded columns.*'x_missing'.*Rename",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_rules(name):
    declare, pattern = INVALID[name]
    with pytest.raises(ValueError, match=pattern):
        declare()


def test_domains_of_some_columns():
    """Indicators go with their column; a target has no rule."""
    whole = Domain(MIXED, missing={"age": "indicator", "sex": "indicator"})
    domain, places, place = subset(whole, ["age", "job"], "bmi")
    some = Domain({name: MIXED[name] for name in ("age", "job")}, missing={"age": "indicator"})
    assert domain._key()[:2] == some._key()[:2]
    assert (places, place) == ([0, 1, 5, 6], 4)
    with pytest.raises(ValueError, match=r"target must be a column without a rule.*'age'"):
        subset(whole, None, "age")


def test_decoded_coefficients():
    """Missing numbers count as those of their rule: for an indicator, as the middle."""
    domain = Domain(MIXED, missing={"age": "indicator", "bmi": 20}, target=(0, 100))
    rng = np.random.default_rng(0)
    coef, intercept = rng.normal(size=domain.n_encoded), 0.3
    table = pd.DataFrame({"age": [20, None, 80], "sex": "m", "bmi": [30, 40, None], "job": "none"})
    expected = domain.decode_target(domain.encode(table) @ coef + intercept)
    slopes, constant = domain.decode_coef(coef, intercept, regression=True)
    raw = np.array([[20, 0, 1, 30, 0, 0], [53.5, 1, 1, 40, 0, 0], [80, 0, 1, 20, 0, 0]])
    np.testing.assert_allclose(raw @ slopes + constant, expected, rtol=1e-13)


# Errors


@pytest.mark.usefixtures("use")
@pytest.mark.parametrize("bad", [math.inf, -math.inf, "Zanzibar", 1j, "NA", " "])
def test_a_rule_is_for_missing_cells_only(bad):
    rows = np.array([[1.0, 2.0], [math.nan, 3.0], [4.0, bad]], object)
    domain = Domain.box([0, 0], [5, 5], missing="indicator")
    tables = [rows, pd.DataFrame(rows)]
    if isinstance(bad, float):
        tables += [rows.astype(float), pd.DataFrame(rows.astype(float))]
    for table in tables:
        with pytest.raises(ValueError, match="must contain only finite numbers and") as caught:
            domain.encode(table)
        assert "Zanzibar" not in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.usefixtures("use")
def test_the_error_without_a_rule_names_the_remedy():
    """The column is named, and not the first one with a rule."""
    domain = Domain({"a": (0, 5), "b": (0, 5)}, missing={"a": "middle"})
    for table in (np.full((3, 2), math.nan), np.array([[None, ""]] * 3)):
        with pytest.raises(ValueError, match=r"'b'.*declare missing={'b': .indicator.}"):
            domain.encode(table)
    with pytest.raises(ValueError, match=r"column 1.*declare missing={1: .indicator.}"):
        Domain.unit_box(2).encode([[0, math.nan]])
    with pytest.raises(ValueError, match="column 1 must contain") as caught:
        Domain.l2_ball(2, 1.0).encode([[0, math.nan]])
    assert "declare" not in str(caught.value)


# Samples


# Estimators

LABELS = Domain(MIXED, missing={"age": "indicator", "job": "indicator", "bmi": 20}, target=[0, 1])
BOUNDS = Domain(MIXED, missing={"age": "indicator", "job": "indicator", "bmi": 20}, target=(0, 9))
N = 3000
KINDS = [*CLASSIFIERS, DPLinearRegression, DPHuberRegressor]


def rows_of(domain, seed=0):
    X, y = domain.sample(N, random_state=seed, with_target=True)
    X["job"] = X["job"].astype(object)
    return X, y


def made(kind, **parameters):
    domain = LABELS if kind in CLASSIFIERS else BOUNDS
    return kind(**{"domain": domain, "epsilon": 3.0, "random_state": 3} | parameters)


@pytest.mark.parametrize("kind", KINDS)
def test_fits_and_predictions(kind):
    """Those of the encoded rows; a missing cell is predicted as it is fitted."""
    model = made(kind)
    X, y = rows_of(model.domain)
    model.fit(X, y)
    assert model.n_features_in_ == 4
    assert model.coef_.shape[-1] == model.domain.n_encoded == 7
    alone = np.concatenate([model.predict(X[k : k + 1]) for k in range(50)])
    np.testing.assert_array_equal(alone, model.predict(X[:50]))
    filled = X.assign(bmi=X["bmi"].fillna(20.0))
    np.testing.assert_array_equal(model.predict(filled), model.predict(X))
    step = made(kind, domain=model.domain.encoded)
    pipe = make_pipeline(model.domain.encoder(), step).fit(X, y)
    np.testing.assert_allclose(step._encoded_coef, model._encoded_coef, rtol=0, atol=1e-6)
    assert pipe.predict(X).shape == (N,)


# Streams


def streams(whole, folder):
    """The same rows in files, as a function and as a collection, some with null integers."""
    whole.to_csv(folder / "t.csv", index=False)
    whole.to_parquet(folder / "t.parquet", row_group_size=800)
    yield folder / "t.csv"
    yield str(folder / "t.parquet")
    yield lambda: (whole.iloc[at : at + 700] for at in range(0, N, 700))


@pytest.mark.parametrize("kind", [DPLinearRegression, DPCoordinateDescentClassifier])
def test_rows_that_are_not_in_memory(kind, tmp_path):
    """The fit of the table in memory, bit by bit; in CSV files missing cells are empty texts."""
    pytest.importorskip("pyarrow")
    X, y = rows_of(made(kind).domain)
    whole = X.assign(y=y, bmi=X["bmi"].round().astype("Int64"))
    expected = made(kind).fit(whole, target="y")
    predicted = expected.predict(whole.drop(columns="y"))
    for given in streams(whole, tmp_path):
        model = made(kind).fit(given, target="y")
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(np.concatenate(list(model.predict(given))), predicted)
    dask, frames = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    with dask.config.set(scheduler="synchronous"):
        collection = frames.from_pandas(whole, npartitions=4)
        model = made(kind).fit(collection, target="y")
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        found = model.predict(collection.drop(columns="y")).compute()
        np.testing.assert_array_equal(found, predicted)
