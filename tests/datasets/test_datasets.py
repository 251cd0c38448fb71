"""Data sets: what is declared of them, and that each way to the data gives what was declared."""

import gzip
import hashlib
import sys
from dataclasses import replace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from inner_package import declaration
from sklearn.utils import Bunch

from skdp import Domain, datasets
from skdp.datasets import DataNotFound, domain_of, fetch, names

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
    for column in filter(lambda column: column.is_number, declaration(name).columns):
        cells, (lower, upper) = X[column.name], column.values
        assert ((cells < lower) | (cells > upper)).sum() <= 2
        if name != "digits":  # some points of the rim are never black
            assert np.ptp(cells) > 0.3 * (upper - lower)


def test_without_pandas_there_are_arrays(monkeypatch):
    """And what needs a table says how to get it."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(datasets.load_iris().X) is np.ndarray
    for call in (lambda: datasets.load_iris(as_frame=True), lambda: fetch("spambase")):
        with pytest.raises(ImportError, match=r"pip install 'skdp\[pandas\]'"):
            call()


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
    declared = declaration(name)
    assert isinstance(declared.domain, Domain)  # which checks bounds and levels
    assert domain_of(name) == declared.domain
    columns = (*declared.columns, declared.target)
    assert len({column.name for column in columns}) == len(columns)
    for column in columns:
        assert column.reason.basis in ("documented", "by definition", "convention", "informed")
        assert len(column.reason.why) >= 5
    assert declared.source
    assert declared.title
    assert declared.task in ("classification", "regression")
    assert bool(declared.file) == bool(declared.sha256) != (name in BUNDLED)


@pytest.mark.parametrize("bad", ["no_such_set", "../adult", "", 3])
def test_an_unknown_name_is_refused(bad):
    with pytest.raises(ValueError, match=r"name must be one of \['adult.*"):
        domain_of(bad)


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
        declared = declared_with(rows=len(frame) if rows is None else rows)
        monkeypatch.setattr(datasets, "declaration", declared)
        asked = []

        def answer(**options):
            asked.append(options)
            return Bunch(frame=frame)

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
        return asked

    monkeypatch.delenv("SKDP_DATA", raising=False)
    return give


def declared_with(**facts):
    return lambda name: replace(declaration(name), **facts)


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


SPOILT = {
    "a column renamed": (
        lambda f: f.rename(columns={"education-num": "edu"}),
        "have 50 rows and the columns",
    ),
    "another target": (lambda f: f.drop(columns="class"), "have 50 rows and the columns"),
    "another number of rows": (lambda f: f[1:], r"have 50 rows .*, got \[49, "),
    "an unknown level": (lambda f: f.assign(sex="male"), "only declared levels in column 'sex'"),
    "a missing level": (lambda f: f.assign(sex=None), "only declared levels in column 'sex'"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_what_was_not_declared_is_refused(case, openml):
    spoil, words = SPOILT[case]
    openml(spoil(theirs(declaration("adult"), 50)[1]), rows=50)
    with pytest.raises(ValueError, match=words) as error:
        datasets.fetch_adult()
    assert "OpenML's data set 1590 (adult)" in str(error.value)
    assert "SKDP_DATA" in str(error.value)


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
    for words in ("in no folder", "SKDP_DATA", "adult.csv.gz", "Connect to the network"):
        assert words in str(caught.value)


# From a folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with 60 rows of Adult, whose checksum is declared."""
    ours, _ = theirs(declaration("adult"), 60)
    path = tmp_path / "adult.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        ours.to_csv(file, index=False)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(datasets, "declaration", declared_with(sha256=digest))
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


def test_a_file_that_changed_is_refused(folder):
    with open(folder / "adult.csv.gz", "ab") as file:
        file.write(b"\n")
    with pytest.raises(ValueError, match=r"have the SHA-256 checksum \w{64}\. Copy"):
        datasets.fetch_adult(folder=folder)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: datasets.fetch_adult(folder="/none"), "folder must name a folder that exists"),
        (lambda: datasets.fetch_adult(), "SKDP_DATA must name a folder that exists"),
    ],
)
def test_variants_and_folders_are_checked(call, words, monkeypatch):
    monkeypatch.setenv("SKDP_DATA", "/none")
    with pytest.raises(ValueError, match=words):
        call()
