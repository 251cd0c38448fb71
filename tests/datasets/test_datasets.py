"""Data sets: what is declared of them, and that each way to the data gives what was declared."""

import gzip
import hashlib
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, datasets
from skdp.datasets import DataNotFound, _fetch, domain_of, fetch, names
from skdp.datasets._declared import BASES, declaration

LOADERS = ["load_breast_cancer", "load_diabetes", "load_digits", "load_iris", "load_wine"]
BUNDLED = [name.removeprefix("load_") for name in LOADERS]
FETCHED = [name for name in names() if declaration(name).file]
OPENML = [name for name in FETCHED if declaration(name).openml]


# What scikit-learn brings along


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_data_lies_in_its_domain(name):
    """Rows, columns and labels are those of the declaration; bounds cut next to nothing off."""
    data = getattr(datasets, f"load_{name}")()
    X, y, domain = data
    assert list(X.columns) == list(domain.names) == list(data.reasons)[:-1]
    assert len(X) == len(y) == declaration(name).rows
    if data.task == "classification":
        assert set(y) == set(domain.target_labels)
    else:
        assert domain.target_bounds[0] <= y.min() < y.max() <= domain.target_bounds[1]
    encoded = domain.encode(X)
    assert encoded.shape == (len(X), domain.n_encoded)
    # A bound of another column would cut hundreds of cells off or leave most of its range empty.
    for column, (lower, upper) in numbers_of(domain):
        cells = X[column]
        assert ((cells < lower) | (cells > upper)).sum() <= 2
        if name != "digits":  # some points of the rim are never black
            assert np.ptp(cells) > 0.3 * (upper - lower)


def numbers_of(domain):
    """Names and bounds of the columns of numbers."""
    text = dict(declared_values(domain))
    return [(name, values) for name, values in text.items() if isinstance(values, tuple)]


def declared_values(domain):
    for name in names():
        if declaration(name).domain == domain:
            return [(column.name, column.values) for column in declaration(name).columns]
    raise AssertionError("the domain is none of the declared ones")


@pytest.mark.parametrize("name", BUNDLED)
def test_arrays_hold_the_same_as_frames(name):
    load = getattr(datasets, f"load_{name}")
    frame, array = load(as_frame=True), load(as_frame=False)
    assert isinstance(frame.X, pd.DataFrame)
    assert type(array.X) is np.ndarray
    np.testing.assert_array_equal(array.domain.encode(array.X), frame.domain.encode(frame.X))
    np.testing.assert_array_equal(array.y, frame.y)


def test_without_pandas_there_are_arrays(monkeypatch):
    """And what needs a table says how to get it."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(datasets.load_iris().X) is np.ndarray
    for call in (lambda: datasets.load_iris(as_frame=True), lambda: fetch("spambase")):
        with pytest.raises(ImportError, match=r"pip install 'skdp\[pandas\]'"):
            call()


def test_models_fit_what_is_loaded():
    """The shortest way from nothing to a private model."""
    X, y, domain = datasets.load_breast_cancer()
    assert (
        DPLogisticRegression(domain=domain, epsilon=8.0, random_state=0).fit(X, y).score(X, y) > 0.9
    )
    X, y, domain = datasets.load_diabetes()
    assert DPHuberRegressor(domain=domain, epsilon=8.0, random_state=0).fit(X, y).score(X, y) > 0.3


def test_diabetes_is_in_raw_units():
    """scikit-learn's scaling by the rows' own moments is a leak, and is undone nowhere else."""
    data = datasets.load_diabetes()
    assert data.X["bmi"].max() > 40
    assert np.abs(sklearn.datasets.load_diabetes().data).max() < 1
    assert "would disclose something about the records" in data.description


def test_a_scikit_learn_with_other_columns_is_refused(monkeypatch):
    other = Bunch(feature_names=["a"], data=np.zeros((3, 1)), target=np.zeros(3))
    monkeypatch.setattr(sklearn.datasets, "load_wine", lambda: other)
    with pytest.raises(ValueError, match="scikit-learn's wine must have columns"):
        datasets.load_wine()


# What is declared


@pytest.mark.parametrize("name", names())
def test_every_bound_has_its_reason(name):
    """Every column and the target; levels are repeated nowhere, bounds are in order."""
    declared = declaration(name)
    assert isinstance(declared.domain, Domain)  # which checks bounds and levels
    assert domain_of(name) == declared.domain
    columns = (*declared.columns, declared.target)
    assert len(declared.reasons) == len(columns)
    for column in columns:
        assert column.reason.basis in BASES
        assert len(column.reason.why) >= 5
    assert declared.source
    assert declared.title
    assert bool(declared.file) != (name in BUNDLED)


def test_every_set_has_a_function():
    """But the one that is kept for published figures alone."""
    source = inspect.getsource(datasets._named)
    without = [name for name in FETCHED if f'"{name}"' not in source]
    pairs = {"bank_marketing_full", "bank_marketing_additional"}
    pairs |= {"wine_quality_red", "wine_quality_white"}
    assert set(without) == pairs | {"boston_housing"}
    assert {name for name in datasets.__all__ if name.startswith("load_")} == set(LOADERS)


def test_the_page_lists_all_sets_with_their_sizes():
    """Function, task, rows and columns, as the functions' own texts and the declarations say."""
    page = Path(datasets.__file__).parents[2] / "docs" / "datasets.md"
    text = page.read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| `(fetch_\w+).*?` .*?\| (\w+) \| ([\d, ]+) \| ([\d, ]+) \|$", text, re.M
    )
    assert {row[0] for row in listed} == {n for n in datasets.__all__ if n.startswith("fetch_")}
    sizes = {(f"{d.rows}", f"{len(d.columns)}", d.task) for d in map(declaration, FETCHED)}
    for function, task, rows, columns in listed:
        rows, columns = rows.split(", "), columns.split(", ")
        shown = list(zip(rows, columns * (3 - len(columns)), strict=False))
        assert all((*pair, task) in sizes for pair in shown), function
        doc = getattr(datasets, function).__doc__
        assert all(row in doc for row in rows), function


def test_names_by_task():
    assert sorted(names("classification") + names("regression")) == names()
    assert {"adult", "iris"} <= set(names("classification"))
    with pytest.raises(ValueError, match="task must be one of"):
        names("clustering")


@pytest.mark.parametrize("bad", ["no_such_set", "../adult", "", 3])
def test_an_unknown_name_is_refused(bad):
    with pytest.raises(ValueError, match=r"name must be one of \['adult.*"):
        domain_of(bad)


def test_a_bundled_set_is_not_fetched():
    with pytest.raises(ValueError, match=r"Call load_iris\(\)"):
        fetch("iris")


def test_weak_bounds_are_told():
    """Those that were chosen with the data in view."""
    data = datasets.load_breast_cancer()
    assert len(data.informed) == 30
    assert "30 of 31 columns" in data.description
    assert datasets.load_digits().informed == ()
    assert repr(data).startswith("Dataset('breast_cancer': classification of 'diagnosis', 569 rows")


# From OpenML: their names, levels and units


def theirs(declared, rows, seed=0):
    """Rows in the domain, and what OpenML would give for them."""
    rng, source = np.random.default_rng(seed), declared.openml
    ours, frame = {}, {}
    for column in (*declared.without(source.lacks).columns, declared.target):
        back = {mine: other for other, mine in source.levels.get(column.name, {}).items()}
        name = source.names.get(column.name, column.name)
        if column.is_number:
            ours[column.name] = rng.uniform(*column.values, rows)
            frame[name] = ours[column.name] * source.factors.get(column.name, 1.0)
        else:
            ours[column.name] = rng.choice(column.values, rows)
            other = [back.get(v, v) for v in ours[column.name]]
            frame[name] = pd.Categorical([None if v == source.missing else v for v in other])
    return pd.DataFrame(ours), pd.DataFrame(frame)


@pytest.fixture
def openml(monkeypatch):
    """A network that gives a frame, and declarations of as many rows as it has."""

    def give(frame, rows=None):
        declared = replace_rows(len(frame) if rows is None else rows)
        monkeypatch.setattr(_fetch, "declaration", declared)
        asked = []

        def answer(**options):
            asked.append(options)
            return Bunch(frame=frame)

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
        return asked

    monkeypatch.delenv("SKDP_DATA", raising=False)
    return give


def replace_rows(rows):
    return lambda name: replace(declaration(name), rows=rows)


@pytest.mark.parametrize("name", OPENML)
def test_openml_is_brought_into_our_words_and_units(name, openml):
    """Every column by its own name, level and unit, and the domain holds all of it."""
    ours, frame = theirs(declaration(name), 80)
    asked = openml(frame.assign(more=1.0))
    data = fetch(name, data_home="somewhere")
    assert asked[0]["data_id"] == declaration(name).openml.id
    assert asked[0]["data_home"] == "somewhere"
    assert list(data.X.columns) == list(data.domain.names)
    for column, found in [*data.X.items(), (data.target_name, data.y)]:
        if found.dtype == float:
            np.testing.assert_allclose(found, ours[column], rtol=1e-12)
        else:
            assert found.tolist() == ours[column].tolist()
    data.domain.encode(data.X)


def test_a_copy_that_lacks_a_column_has_a_domain_without_it(openml):
    _, frame = theirs(declaration("bike_sharing_hour"), 30)
    openml(frame)
    X, _, domain = datasets.fetch_bike_sharing()
    assert "day" not in domain.names
    assert "day" in domain_of("bike_sharing_hour").names
    assert X.shape[1] == domain.n_columns == 12


def test_levels_that_are_numbers_or_quoted_are_words(openml):
    """2.0 is the level "2"."""
    _, frame = theirs(declaration("credit_default_taiwan"), 40)
    openml(frame.assign(x2=frame["x2"].astype(float), x3=[f"'{v}'" for v in frame["x3"]]))
    assert set(datasets.fetch_credit_default().X["sex"]) == {"1", "2"}


SPOILT = {
    "a column renamed": (lambda f: f.rename(columns={"education-num": "edu"}), "have the columns"),
    "another target": (lambda f: f.drop(columns="class"), r"have the columns \['class'\]"),
    "an unknown level": (lambda f: f.assign(sex="male"), "declared levels only in column 'sex'"),
    "another unit": (lambda f: f.assign(age=1000 * f["age"]), "least 90% of 'age' within"),
    "words for numbers": (lambda f: f.assign(age="old"), "numbers in column 'age'"),
    "a missing number": (lambda f: f.assign(age=np.nan), "least 90% of 'age' within"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_what_was_not_declared_is_refused(case, openml):
    spoil, words = SPOILT[case]
    openml(spoil(theirs(declaration("adult"), 50)[1]))
    with pytest.raises(ValueError, match=words) as error:
        datasets.fetch_adult()
    assert "OpenML's data set 1590 (adult)" in str(error.value)
    assert "SKDP_DATA" in str(error.value)


def test_another_number_of_rows_is_refused(openml):
    openml(theirs(declaration("adult"), 50)[1], rows=51)
    with pytest.raises(ValueError, match="have 51 rows, got 50"):
        datasets.fetch_adult()


def test_missing_levels_without_a_word_for_them_are_refused(openml):
    frame = theirs(declaration("german_credit"), 50)[1].astype({"job": object})
    frame.loc[3, "job"] = None
    openml(frame)
    with pytest.raises(ValueError, match="no missing values in column 'job'"):
        datasets.fetch_german_credit()


@pytest.mark.parametrize(
    "error", [URLError("no route"), TimeoutError(), ValueError("unknown data set")]
)
def test_without_a_network_both_remedies_are_named(error, monkeypatch):
    def fail(**options):
        raise error

    monkeypatch.delenv("SKDP_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    with pytest.raises(DataNotFound) as caught:
        datasets.fetch_adult()
    for words in ("no folder is named", "SKDP_DATA", "adult.csv.gz", "connect to the network"):
        assert words in str(caught.value)


def test_what_openml_does_not_have_is_not_asked_of_it(monkeypatch):
    monkeypatch.delenv("SKDP_DATA", raising=False)
    with pytest.raises(DataNotFound) as caught:
        datasets.fetch_nyc_flights()
    assert "connect to the network" not in str(caught.value)


# From a folder


@pytest.fixture
def folder(tmp_path):
    """A folder with Adult, 60 rows, and its checksum."""
    ours, _ = theirs(declaration("adult"), 60)
    path = tmp_path / "adult.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        ours.to_csv(file, index=False)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{digest}  adult.csv.gz\n", encoding="utf-8")
    return tmp_path


def test_a_folder_goes_before_the_network(folder, monkeypatch):
    """By argument or by environment; frames and arrays hold the same."""
    monkeypatch.delattr(sklearn.datasets, "fetch_openml")
    given = datasets.fetch_adult(folder=folder)
    monkeypatch.setenv("SKDP_DATA", str(folder))
    X, y, domain = datasets.fetch_adult(as_frame=False)
    assert len(given.y) == 60
    assert X.dtype == object
    np.testing.assert_array_equal(domain.encode(X), given.domain.encode(given.X))
    assert set(y) <= set(domain.target_labels)


def test_a_folder_without_the_file_leads_to_the_network(folder, openml):
    _, frame = theirs(declaration("spambase"), 40)
    openml(frame)
    assert len(datasets.fetch_spambase(folder=folder).y) == 40


def test_a_file_that_changed_is_refused(folder):
    with open(folder / "adult.csv.gz", "ab") as file:
        file.write(b"\n")
    with pytest.raises(ValueError, match=r"have the checksum that SHA256SUMS lists\. Copy"):
        datasets.fetch_adult(folder=folder)


def test_a_folder_without_checksums_is_refused(folder):
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match="sha256sum"):
        datasets.fetch_adult(folder=folder)


def test_a_file_of_other_columns_is_refused(tmp_path):
    (tmp_path / "adult.csv.gz").write_bytes(gzip.compress(b"age,sex\n1,Male\n"))
    digest = hashlib.sha256((tmp_path / "adult.csv.gz").read_bytes()).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{digest} *adult.csv.gz\n", encoding="utf-8")
    with pytest.raises(ValueError, match="have the columns"):
        datasets.fetch_adult(folder=tmp_path)


def test_a_folder_that_is_none_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="folder must name a folder that exists"):
        datasets.fetch_adult(folder=tmp_path / "none")
    monkeypatch.setenv("SKDP_DATA", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="SKDP_DATA must name a folder that exists"):
        datasets.fetch_adult()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: datasets.fetch_wine_quality("rose"), "color must be one of"),
        (lambda: datasets.fetch_bank_marketing("old"), "version must be one of"),
    ],
)
def test_variants_are_checked(call, words):
    with pytest.raises(ValueError, match=words):
        call()
