"""Fits and predictions from files and from functions that return batches."""

from __future__ import annotations

import math
import traceback
from functools import partial

import numpy as np
import pandas as pd
import pytest
from inner_fits import spell_levels
from pyarrow.parquet import ParquetFile

import skdp
from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression, Ledger
from skdp.domain.layout import encode_compactly
from skdp.model_selection import PrivateSearchCV
from skdp.rows import memory, tables
from skdp.rows.tables import opened, spellings

N, SECRET = 3000, "Zanzibar"
BOUNDS = {"a": (-1.0, 1.0), "b": (0.0, 5.0), "g": ["u", "v", "w"]}
EXACT = [DPLinearRegression, skdp.DPCoordinateDescentClassifier, skdp.DPCoordinateDescentRegressor]
ROUNDED = [DPLogisticRegression, DPHuberRegressor]


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.uniform(0, 5, N)})
    frame["g"] = rng.choice(["u", "v", "w"], N)
    frame["z"] = np.clip(frame.a / 2 + 0.1 * rng.normal(size=N), -1, 1)
    frame["y"] = np.where(frame.a + rng.logistic(size=N) / 4 > 0, "yes", "no")
    frame["unused"] = "private"
    return frame


FRAME = table()


def is_classifier(kind) -> bool:
    return kind in (DPLogisticRegression, skdp.DPCoordinateDescentClassifier)


def target_of(kind) -> str:
    return "y" if is_classifier(kind) else "z"


def made(kind, **parameters):
    target = ["no", "yes"] if is_classifier(kind) else (-1.0, 1.0)
    domain = Domain(BOUNDS, target=target)
    settings = {"domain": domain, "random_state": 3, "ledger": Ledger(5.0)}
    return kind(**(settings | parameters))


def case_of(kind):
    """The name of the target, its table, and the model of the table in memory."""
    target = target_of(kind)
    whole = FRAME[[*BOUNDS, target]]
    return target, whole, made(kind).fit(whole, target=target)


def check_same(model, expected):
    """Bit by bit where sums are exact, otherwise within the certified tolerance."""
    if type(model) in EXACT:
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert np.all(model.intercept_ == expected.intercept_)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-7)
    assert model.guarantee_ == expected.guarantee_


def check_refused(model, message, *given, **named):
    """A fit is refused before anything is spent, and shows no cell; return the error."""
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        model.fit(*given, **named)
    assert "No budget was spent" in "".join(caught.value.__notes__)
    assert not model.ledger.entries
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


def batches(frame: pd.DataFrame, size: int = 700):
    return (frame.iloc[at : at + size] for at in range(0, len(frame), size))


def files(folder):
    parts = folder / "parts"
    parts.mkdir()
    FRAME.to_parquet(folder / "t.parquet", row_group_size=800)
    FRAME.to_csv(folder / "t.csv", index=False)
    FRAME.to_feather(folder / "t.feather")
    FRAME.iloc[:1000].to_parquet(parts / "0.parquet")
    FRAME.iloc[1000:].to_parquet(parts / "1.parquet")
    return {
        "parquet": str(folder / "t.parquet"),
        "csv": folder / "t.csv",
        "feather": folder / "t.feather",
        "folder": parts,
    }


@pytest.mark.parametrize("most_kept", [0, 2**30], ids=["streamed", "kept"])
@pytest.mark.parametrize("kind", [*EXACT, *ROUNDED])
def test_files_give_what_the_table_in_memory_gives(kind, most_kept, tmp_path, monkeypatch):
    """A batch has several blocks, some of one length, which do not share what is kept."""
    monkeypatch.setattr(tables, "MOST_KEPT", most_kept)
    monkeypatch.setattr(memory, "MOST_ROWS", 256)
    target, whole, expected = case_of(kind)
    pairs = lambda: ((part[list(BOUNDS)], part[target]) for part in batches(whole))  # noqa: E731
    sources = {**files(tmp_path), "function": lambda: batches(whole)}
    for source in sources.values():
        model = made(kind).fit(source, target=target)
        check_same(model, expected)
        assert list(model.feature_names_in_) == list(BOUNDS)
    np.testing.assert_allclose(made(kind).fit(pairs).coef_, expected.coef_, atol=1e-7)


def test_predictions_come_in_batches(tmp_path):
    model = made(DPLogisticRegression).fit(FRAME[list(BOUNDS)], FRAME.y)
    rows = FRAME[list(BOUNDS)]
    for source in (*files(tmp_path).values(), lambda: batches(rows)):
        for name in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
            found = list(getattr(model, name)(source))
            np.testing.assert_array_equal(np.concatenate(found), getattr(model, name)(rows))


def test_an_error_when_batches_are_closed_shows_no_cell():
    class Closing:
        def __init__(self):
            self.left = batches(FRAME)

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.left)

        def close(self):
            raise RuntimeError("unread: cell 123-45-6789")

    with pytest.raises(ValueError, match="a function that returns batches") as caught:
        made(DPLinearRegression).fit(Closing, target="z")
    assert "123" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("kind", ROUNDED)
def test_scores_of_batches_are_those_of_the_table_in_memory(kind, tmp_path):
    rows, y, weight = FRAME[list(BOUNDS)], FRAME[target_of(kind)], np.arange(N) % 3
    model = made(kind).fit(rows, y)
    expected = [model.score(rows, y), model.score(rows, y, weight)]
    assert expected[0] != expected[1]
    for source in (*files(tmp_path).values(), lambda: batches(rows)):
        assert [model.score(source, y), model.score(source, y, weight)] == expected
    with pytest.raises(ValueError, match="readable several times"):
        model.score(batches(rows), y)


def test_what_needs_a_table_in_memory_says_so(tmp_path):
    """And does not ask for the shape of a path."""
    FRAME.to_parquet(tmp_path / "t.parquet")
    domain = Domain(BOUNDS, target=(-1.0, 1.0))
    search = PrivateSearchCV(made(DPLinearRegression), {"fit_intercept": [True]})
    sources = (str(tmp_path / "t.parquet"), tmp_path, lambda: batches(FRAME), batches(FRAME))
    for call in (domain.encode, domain.encoder().transform, lambda X: search.fit(X, FRAME.z)):
        for X in sources:
            with pytest.raises(ValueError, match="Pass an array or a DataFrame"):
                call(X)


def test_an_empty_path_is_not_the_working_directory(monkeypatch, tmp_path):
    """The directory has a file that could be read."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": [0.0, 1.0]}).to_csv("rows.csv", index=False)
    with pytest.raises(FileNotFoundError, match="there is none at this path, got ''"):
        opened("")


def test_only_declared_columns_of_a_file_are_read(tmp_path, monkeypatch):
    from skdp.rows.tables import ArrowStream

    FRAME.to_parquet(tmp_path / "t.parquet")
    read = []
    own = ArrowStream.batches
    monkeypatch.setattr(
        ArrowStream, "batches", lambda s, c, *more: read.append(c) or own(s, c, *more)
    )
    made(DPLinearRegression).fit(tmp_path / "t.parquet", target="z")
    assert read
    assert all(columns == ["a", "b", "g", "z"] for columns in read)


ARROW_TYPES = {
    **{kind: np.arange(50) % 7 for kind in ("int8", "uint8", "int32", "int64", "uint64")},
    **{kind: np.linspace(-1, 8, 50) for kind in ("float32", "float64", "float16")},
    "bool": np.arange(50) % 2 == 0,
    "null integers": [None if k == 7 else k % 7 for k in range(50)],
    "null floats": [None if k == 7 else k / 7 for k in range(50)],
    "not a number": [math.nan if k == 7 else k / 7 for k in range(50)],
    "infinite": [math.inf if k == 7 else k / 7 for k in range(50)],
    "texts": [str(k % 7) for k in range(50)],
    "days": np.arange(50).astype("datetime64[D]"),
}


@pytest.mark.parametrize("kind", ARROW_TYPES)
def test_columns_of_every_type_are_read_as_those_of_a_table_in_memory(kind, tmp_path):
    """To the bit, with the same errors."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    own = pa.array(ARROW_TYPES[kind], type=kind if kind[-1].isdigit() else None)
    others = {"b": pa.array(np.linspace(-1, 1, 50)), "z": pa.array(np.linspace(1, -1, 50))}
    table = pa.table({"a": own, **others})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=20)
    domain = Domain({"a": (0, 7), "b": (-1, 1)}, (-1, 1))

    def outcome(source):
        try:
            model = DPLinearRegression(domain=domain, random_state=0)
            return model.fit(source, target="z").coef_.tobytes()
        except ValueError as error:
            return str(error)

    assert outcome(tmp_path / "t.parquet") == outcome(table)


def one_iterator(_):
    once = batches(FRAME)
    return (lambda: once), {"target": "z"}


def pair(X, y, message):
    return lambda p: (lambda: iter([(X, y)]), {}), message


ROWS = FRAME[list(BOUNDS)]
REFUSED = {
    "no such file": (lambda p: (p / "none.parquet", {"target": "z"}), "path of a file"),
    "suffix": (lambda p: (p / "t.txt", {"target": "z"}), "suffix"),
    "empty folder": (lambda p: (p / "none", {"target": "z"}), "suffix"),
    "target": (lambda p: (p / "t.parquet", {"target": "other"}), "be a column of X"),
    "column": (lambda p: (lambda: batches(FRAME[["a", "z"]]), {"target": "z"}), "every declared"),
    "y too": (lambda p: (p / "t.parquet", {"y": FRAME.z}), "read in batches"),
    "iterator": (lambda p: (batches(FRAME), {"target": "z"}), "several times"),
    "no batch": (lambda p: (lambda: iter(()), {"target": "z"}), "at least one batch"),
    "no target": (lambda p: (p / "t.parquet", {}), "target must be the name of a column"),
    "no target of batches": (lambda p: (lambda: batches(FRAME), {}), "target must be the name"),
    "one table": (lambda p: (lambda: FRAME, {"target": "z"}), "an iterable of DataFrames"),
    "no iterable": (lambda p: (lambda: 3, {"target": "z"}), "an iterable of DataFrames"),
    "bad number": (
        lambda p: (lambda: batches(FRAME.assign(a=np.nan)), {"target": "z"}),
        "column 'a' must contain only finite",
    ),
    "bad target": (
        lambda p: (lambda: batches(FRAME.assign(z=np.inf)), {"target": "z"}),
        "target must contain only finite",
    ),
    # The first pass would exhaust it, and the second one would add nothing.
    "one iterator": (one_iterator, "a new iterator for every pass"),
    # All rows after it would be left out in silence.
    "none": (
        lambda p: (lambda: [*batches(FRAME), None, *batches(FRAME)], {"target": "z"}),
        "a NoneType is not a table",
    ),
    "open file": (lambda p: (ParquetFile(p / "t.parquet"), {"target": "z"}), "path of the file"),
    "files of other columns": (
        lambda p: (p / "parts", {"target": "z"}),
        r"every file of X must have the columns \['g'\]",
    ),
    "one row of X, many of y": pair(ROWS[:1], FRAME.z, "as many entries as X has rows"),
    "few of y": pair(ROWS, FRAME.z[:5], "as many entries as X has rows"),
    "two columns of y": pair(ROWS, FRAME[["z", "z"]], "y must be a 1d array"),
    "a list": pair(ROWS.to_numpy().tolist(), FRAME.z[:5], "as many entries as X has rows"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize(
    ("kind", "neighbors"), [(DPLinearRegression, "replace_one"), (DPHuberRegressor, "add_remove")]
)
def test_bad_input_costs_nothing(kind, neighbors, case, tmp_path):
    FRAME.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "parts").mkdir()
    FRAME[:9].to_parquet(tmp_path / "parts" / "0.parquet")
    FRAME[9:].drop(columns=["g"]).to_parquet(tmp_path / "parts" / "1.parquet")
    (tmp_path / "t.txt").write_text("a")
    (tmp_path / "none").mkdir()
    build, message = REFUSED[case]
    source, named = build(tmp_path)
    error = check_refused(made(kind, neighbors=neighbors), message, source, **named)
    assert str(N) not in str(error)


def test_a_file_without_any_declared_column_is_refused_by_their_names(tmp_path):
    """And not as a file without records."""
    FRAME[["z"]].to_parquet(tmp_path / "other.parquet")
    text, path = "have every declared column", tmp_path / "other.parquet"
    check_refused(made(DPLinearRegression), text, path, target="z")


def test_a_file_without_rows_is_refused_where_their_number_is_public(tmp_path):
    FRAME[:0].to_parquet(tmp_path / "empty.parquet")
    empty = tmp_path / "empty.parquet"
    check_refused(made(DPLinearRegression), "must have records", empty, target="z")
    made(DPLinearRegression, neighbors="add_remove").fit(tmp_path / "empty.parquet", target="z")


@pytest.mark.parametrize("column", ["a", "z"])
def test_an_error_of_a_file_quotes_no_cell(column, tmp_path):
    """A word far below the numbers of a column; all cells are read as texts."""
    frame = pd.concat([FRAME[["a", "b", "g", "z"]]] * 20)
    frame = frame.astype({column: object})
    frame.iloc[-5, list(frame.columns).index(column)] = SECRET
    frame.to_csv(tmp_path / "t.csv", index=False)
    model, message = made(DPLinearRegression), "must contain only finite numbers"
    check_refused(model, message, tmp_path / "t.csv", target="z")


def test_one_record_of_a_csv_file_does_not_change_how_others_are_encoded(tmp_path):
    """Inferred types would: a column of 1 and 2 is integers, with one x it is texts."""
    domain = Domain({"g": ["x", "1", "2"], "k": [False, 1, 2.5]}, target=(-1, 1))
    frame = pd.DataFrame({"g": ["1", "2"] * 300, "k": ["1", "2.5"] * 300})
    other = frame.copy()
    other.iloc[0] = ["x", "?"]
    found = []
    for k, table in enumerate((frame, other)):
        table.to_csv(tmp_path / f"{k}.csv", index=False)
        stream = opened(tmp_path / f"{k}.csv")
        spell_levels(stream, domain, None, None)
        (batch,) = stream.batches(["g", "k"])
        found.append(encode_compactly(domain, batch).levels)
    for one, another, expected in zip(*found, [[1, 2] * 300] * 2, strict=True):
        assert one.tolist() == expected
        assert another[1:].tolist() == expected[1:]


def test_datasets_of_texts_are_refused(tmp_path):
    from pyarrow import csv as pa_csv
    from pyarrow import dataset
    from pyarrow import json as pa_json

    FRAME.to_csv(tmp_path / "t.csv", index=False)
    csv = dataset.dataset(tmp_path / "t.csv", format="csv")
    (tmp_path / "t.json").write_text(FRAME.to_json(orient="records", lines=True))
    json = dataset.dataset(tmp_path / "t.json", format="json")
    FRAME.to_parquet(tmp_path / "t.parquet")
    parquet = dataset.dataset(tmp_path / "t.parquet")
    union = dataset.dataset([csv, csv])
    readers = [pa_csv.open_csv(tmp_path / "t.csv")]
    if hasattr(pa_json, "open_json"):  # pyarrow 18
        readers.append(pa_json.open_json(tmp_path / "t.json"))
    for source in (csv, json, union, dataset.dataset([union, union]), *readers):
        with pytest.raises(ValueError, match="whose files state their types"):
            made(DPLinearRegression).fit(source, target="z")
    one = made(DPLinearRegression).fit(parquet, target="z")
    other = made(DPLinearRegression).fit(tmp_path / "t.parquet", target="z")
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_texts_that_spell_levels():
    """A declared text stands for itself, and great integers are not rounded."""
    assert spellings([1, "1", "x"]) == {"1.0": 1}
    assert spellings([2**53, 2**53 + 1])[str(2**53 + 1)] == 2**53 + 1
    assert spellings([0.5, 2.0, 10**400]).keys() >= {"0.5", "2.0", "2", str(10**400)}
    assert spellings([True, "no"]) == dict.fromkeys(["True", "true", "TRUE"], True)


def test_labels_and_levels_of_a_csv_file_may_be_numbers_and_truth_values(tmp_path):
    rng = np.random.default_rng(1)
    domain = Domain({"g": [1, 2, 3], "b": [True, False], "x": (0, 1)}, target=[0, 1])
    frame = pd.DataFrame({"g": rng.choice([1, 2, 3], N), "b": rng.choice([True, False], N)})
    frame["x"] = rng.random(N)
    frame["y"] = (frame.g == 2).astype(int)
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = made(DPLogisticRegression, domain=domain).fit(tmp_path / "t.csv", target="y")
    expected = made(DPLogisticRegression, domain=domain).fit(frame[["g", "b", "x"]], frame.y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    predicted = np.concatenate(list(model.predict(tmp_path / "t.csv")))
    np.testing.assert_array_equal(predicted, expected.predict(frame[["g", "b", "x"]]))


def test_pairs_may_have_a_column_of_targets_and_predictions_take_pairs():
    one = made(DPLogisticRegression).fit(lambda: iter([(ROWS, FRAME[["y"]])]))
    other = made(DPLogisticRegression).fit(lambda: iter([(ROWS, FRAME.y)]))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    (found,) = one.predict(lambda: iter([(ROWS, FRAME.y)]))
    np.testing.assert_array_equal(found, one.predict(ROWS))


def test_errors_of_pyarrow_quote_no_cell(tmp_path):
    (tmp_path / "t.csv").write_text("a,z\n0.1,1\n0.2,Zanzibar,1\n")
    check_refused(made(DPLinearRegression), "pyarrow", tmp_path / "t.csv", target="z")


def test_labels_of_a_file_are_declared_and_not_named():
    model, message = made(DPLogisticRegression, domain=Domain(BOUNDS)), "must be declared if y"
    check_refused(model, message, lambda: batches(FRAME), target="y")
    other = FRAME.replace({"y": {"yes": SECRET}})
    model, message = made(DPLogisticRegression), "only declared labels"
    check_refused(model, message, lambda: batches(other), target="y")


class Changing:
    """Batches that are good at the first readings only."""

    def __init__(self, later: pd.DataFrame, good: int) -> None:
        self.later, self.good, self.readings = later, good, 0

    def next_reading(self) -> int:
        self.readings += 1
        return self.readings

    def __call__(self):
        return batches(FRAME if self.next_reading() <= self.good else self.later)


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPHuberRegressor, DPLinearRegression])
def test_a_source_that_turned_bad_is_an_error_without_a_cell(kind, monkeypatch):
    """The columns are read for their names and their number, then once before the charge."""
    monkeypatch.setattr(tables, "MOST_KEPT", 0)
    bad = FRAME.assign(a=[SECRET] * N)
    with pytest.raises(ValueError, match="column 'a' must contain only finite numbers") as caught:
        made(kind).fit(Changing(bad, good=3), target=target_of(kind))
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "The budget was spent" in caught.value.__notes__[0]


@pytest.mark.parametrize("kind", [DPHuberRegressor, DPLogisticRegression])
def test_another_number_of_rows_is_found_if_it_is_public(kind, monkeypatch):
    monkeypatch.setattr(tables, "MOST_KEPT", 0)
    source = partial(Changing, FRAME.iloc[:-1], 3)
    target = target_of(kind)
    with pytest.raises(ValueError, match="same rows at each reading") as caught:
        made(kind).fit(source(), target=target)
    assert "29" not in str(caught.value)
    model = made(kind, neighbors="add_remove", n_public=N).fit(source(), target=target)
    assert np.isfinite(model.coef_).all()


def test_a_target_column_of_a_frame_in_memory():
    whole = FRAME[[*BOUNDS, "z"]]
    one = made(DPLinearRegression).fit(whole, target="z")
    other = made(DPLinearRegression).fit(whole[list(BOUNDS)], whole.z)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    with pytest.raises(ValueError, match="Drop y or target"):
        made(DPLinearRegression).fit(whole, whole.z, target="z")
    with pytest.raises(ValueError, match="be a column of X"):
        made(DPLinearRegression).fit(whole, target="other")
    with pytest.raises(ValueError, match="be a name only if X has named columns"):
        made(DPLinearRegression).fit(whole.to_numpy(), target="z")


@pytest.mark.parametrize("kind", [DPHuberRegressor, DPLogisticRegression, DPLinearRegression])
@pytest.mark.parametrize("good", [3, 4])
def test_a_later_reading_without_rows_is_one_of_no_records(kind, good, monkeypatch):
    """Under add_remove no error depends on the number of rows."""
    monkeypatch.setattr(tables, "MOST_KEPT", 0)
    model = made(kind, neighbors="add_remove", n_public=N)
    model.fit(Changing(FRAME[:0], good), target=target_of(kind))
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kind", [DPHuberRegressor, DPLinearRegression])
def test_batches_that_are_used_up_are_found_before_anything_is_spent(kind, neighbors):
    """The function looks new at each call, and the source behind it can be read only once."""
    once, model = batches(FRAME), made(kind, neighbors=neighbors, n_public=N)
    source = lambda: map(pd.DataFrame, once)  # noqa: E731
    check_refused(model, "X must have", source, target=target_of(kind))
