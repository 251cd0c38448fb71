"""Public data sets with their public domain: bounds and levels, and the reason for each.

``load_`` functions return data sets that are part of scikit-learn. ``fetch_`` functions read a
folder or ask OpenML. The domains are declared in ``declared.toml`` and do not depend on where the
data come from. Bounds that were chosen with the data in view are marked "informed": for private
data they would disclose something about the records.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from http.client import HTTPException
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets

from skdp.domain import Domain
from skdp.domain.tables import Frame
from skdp.trusted.arrays import Array
from skdp.trusted.checks import check_choice, fail, optional_module

TASKS = ("classification", "regression")


@dataclass(frozen=True)
class Reason:
    """The reason for the bounds or levels of a column.

    Attributes
    ----------
    basis : {"documented", "by definition", "convention", "informed"}
        "documented": stated by the source. "by definition": the quantity has no other values.
        "convention": a round number that does not come from the data. "informed": the scale was
        read from the data or from published ranges of them, and is not public knowledge.
    why : str
        Unit and reason.

    Examples
    --------
    >>> from skdp.datasets import load_breast_cancer
    >>> reason = load_breast_cancer().reasons["mean radius"]
    >>> reason.basis
    'informed'
    >>> print(reason)
    a round number above the range that scikit-learn documents (informed)
    """

    basis: str
    why: str

    def __str__(self) -> str:
        return f"{self.why} ({self.basis})"


@dataclass(frozen=True)
class Column:
    """A declared column: bounds ``(lower, upper)`` or a list of levels, and the reason."""

    name: str
    values: tuple[float, float] | list[str]
    reason: Reason

    @property
    def is_number(self) -> bool:
        """Whether the column holds bounded numbers and not levels."""
        return isinstance(self.values, tuple)


@dataclass(frozen=True)
class OpenMLSource:
    """Differences between OpenML's copy of a data set and the declaration.

    By declared columns: OpenML's names, the declared levels by those of OpenML, the ratios of its
    numbers to the declared units; columns that it lacks, and the level of missing values.
    """

    id: int
    name: str
    names: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    lacks: Sequence[str] = ()
    missing: str | None = None


@dataclass(frozen=True, eq=False)  # tables have no single truth value to compare by
class Dataset:
    """Real data with its public domain.

    It unpacks into three: ``X, y, domain = load_diabetes()``.

    Attributes
    ----------
    X : DataFrame or ndarray of shape (n, n_columns)
        Numbers as floats, levels as the domain declares them.
    y : ndarray of shape (n,)
        Floats (regression) or labels (classification).
    domain : Domain
        Bounds and levels of the columns, in their order, and of the target.
    name, title, task : str
        ``task`` is "classification" or "regression".
    description : str
        Source of the data, and cautions for its use.
    reasons : dict of str to Reason
        Reason for the bounds or levels of each column and of the target, by name.
    target_name : str

    Examples
    --------
    >>> from skdp.datasets import load_diabetes
    >>> data = load_diabetes()
    >>> data
    Dataset('diabetes': regression of 'progression', 442 rows, 10 columns)
    >>> print(data.reasons["bmi"])
    kg per square metre (convention)
    >>> X, y, domain = data
    """

    X: Frame
    y: Array
    domain: Domain
    name: str
    title: str
    task: str
    description: str
    reasons: Mapping[str, Reason]
    target_name: str

    @property
    def informed(self) -> tuple[str, ...]:
        """Names of columns, or the target, whose bounds were chosen with the data in view.

        On private data such bounds would not be available, and results may be worse.
        """
        return tuple(name for name, why in self.reasons.items() if why.basis == "informed")

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.domain))

    def __repr__(self) -> str:
        size = f"{len(self.y)} rows, {self.domain.n_columns} columns"
        return f"Dataset({self.name!r}: {self.task} of {self.target_name!r}, {size})"


@dataclass(frozen=True)
class Declaration:
    """Public facts about a data set; those with a file are fetched."""

    name: str
    title: str
    task: str
    rows: int
    source: str
    target: Column
    columns: tuple[Column, ...]
    caution: str = ""
    file: str | None = None
    sha256: str | None = None
    openml: OpenMLSource | None = None

    @property
    def domain(self) -> Domain:
        columns = {column.name: column.values for column in self.columns}
        return Domain(columns, target=self.target.values)

    def without(self, names: Sequence[str]) -> Declaration:
        left = tuple(column for column in self.columns if column.name not in names)
        return replace(self, columns=left)

    def with_data(self, X: object, y: object) -> Dataset:
        """Return a table and a target with these facts."""
        reasons = {column.name: column.reason for column in (*self.columns, self.target)}
        parts = [f"{self.title}.", f"Source: {self.source}."]
        if self.caution:
            parts.append(self.caution)
        if weak := sum(reason.basis == "informed" for reason in reasons.values()):
            count = f"{weak} of {len(reasons)} columns, the target included,"
            parts.append(f"The domain of {count} was chosen with the data in view.")
        facts = self.domain, self.name, self.title, self.task, " ".join(parts), reasons
        return Dataset(X, np.asarray(y), *facts, self.target.name)


def names(task: str | None = None) -> list[str]:
    """Return the names of all declared data sets, or of those for one task.

    Parameters
    ----------
    task : {"classification", "regression"} or None, default=None

    Returns
    -------
    list of str

    Examples
    --------
    >>> from skdp.datasets import names
    >>> "adult" in names("classification"), "adult" in names("regression")
    (True, False)
    """
    if task is not None:
        check_choice("task", task, TASKS)
    return [name for name, facts in _table().items() if task in (None, facts["task"])]


def domain_of(name: str) -> Domain:
    """Return the public domain of a data set; no data is read.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Domain

    Examples
    --------
    >>> from skdp.datasets import domain_of
    >>> domain_of("iris")
    Domain({'sepal length (cm)': (0, 10), ...}, target=['setosa', 'versicolor', 'virginica'])
    """
    return declaration(name).domain


@cache
def declaration(name: str) -> Declaration:
    if name not in _table():
        raise fail("name", f"be one of {sorted(_table())}", name)
    facts = _table()[name]
    target = facts["target"] | {"names": [facts["target"]["name"]]}
    # The columns of an entry share their values and reason.
    (target_column, *columns) = [
        Column(
            one,
            tuple(entry["bounds"]) if "bounds" in entry else entry["levels"],
            Reason(entry["basis"], entry["why"]),
        )
        for entry in [target, *facts["columns"]]
        for one in entry["names"]
    ]
    parts = {"target": target_column, "columns": tuple(columns)}
    if "openml" in facts:
        parts["openml"] = OpenMLSource(**facts["openml"])
    return Declaration(name=name, **facts | parts)


@cache
def _table() -> dict[str, Any]:
    text = files("skdp.datasets").joinpath("declared.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


VARIABLE = "SKDP_DATA"
Get = Callable[..., Dataset]


class DataNotFound(ValueError):
    """Error for a data set that is neither in a folder nor at OpenML.

    Examples
    --------
    >>> from skdp.datasets import DataNotFound
    >>> issubclass(DataNotFound, ValueError)
    True
    """


def fetch(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    data_home: str | os.PathLike[str] | None = None,
    as_frame: bool = True,
) -> Dataset:
    """Return a data set by its name, from a folder or from OpenML; this needs pandas.

    Parameters
    ----------
    name : str
        One of `names`. Data sets that are part of scikit-learn have a ``load_`` function instead.
    folder : path, default=None
        Folder with the CSV files. None takes the environment variable
        SKDP_DATA. If that is not set, or the folder lacks the file, the data come from OpenML.
    data_home : path, default=None
        Folder for scikit-learn's downloads; None is its usual one.
    as_frame : bool, default=True
        Whether X is a DataFrame and not an array.

    Returns
    -------
    Dataset

    Raises
    ------
    DataNotFound
        If neither the folder nor OpenML has the data.
    ValueError
        If the name is unknown, a file does not have the declared checksum, or OpenML's data differ
        from the declaration.

    Examples
    --------
    >>> from skdp.datasets import domain_of, fetch
    >>> X, y, domain = fetch("adult")  # doctest: +SKIP
    >>> domain_of("adult").target  # the declaration needs no data
    ['<=50K', '>50K']
    """
    declared, place = declaration(name), os.environ.get(VARIABLE) if folder is None else folder
    if declared.file is None:
        raise fail("name", "be a set that is fetched", name, f"Call load_{name}().")
    if place and not Path(place).is_dir():
        remedy = "Pass the folder of the CSV files, or leave it out to use OpenML."
        raise fail(
            VARIABLE if folder is None else "folder", "name a folder that exists", place, remedy
        )
    if place and (path := Path(place, declared.file)).is_file():
        if hashlib.sha256(path.read_bytes()).hexdigest() != declared.sha256:
            rule = f"have the SHA-256 checksum {declared.sha256}"
            remedy = "Copy the file again: results on other data are not comparable."
            raise fail(str(path), rule, remedy=remedy)
        columns = (*declared.columns, declared.target)
        kinds = {column.name: float if column.is_number else str for column in columns}
        # "NA" and "None" are levels like any other: no cell of these files is empty.
        table = _pandas().read_csv(path, dtype=kinds, keep_default_na=False)
    elif declared.openml is not None:
        table = _from_openml(declared, declared.openml, data_home)
        declared = declared.without(declared.openml.lacks)
    else:
        raise _not_found(declared, "OpenML has no copy of it")
    X = table[[column.name for column in declared.columns]]
    if not as_frame:
        X = X.to_numpy(float if all(column.is_number for column in declared.columns) else object)
    y = table[declared.target.name].to_numpy(float if declared.target.is_number else str)
    return declared.with_data(X, y)


def _not_found(declared: Declaration, why: str) -> DataNotFound:
    return DataNotFound(
        f"The data set {declared.name!r} is in no folder, and {why}. Put {declared.file} into a"
        f" folder and name it by the environment variable {VARIABLE} or by folder=...."
    )


def _pandas() -> Any:
    return optional_module("pandas", "for a table", "pandas")


def _from_openml(
    declared: Declaration, source: OpenMLSource, data_home: str | os.PathLike[str] | None
) -> Frame:
    """Return the table of OpenML, converted to the declared names, levels and units."""
    pandas = _pandas()
    try:
        theirs = sklearn.datasets.fetch_openml(
            data_id=source.id, data_home=data_home, as_frame=True, parser="auto"
        ).frame
    except (OSError, HTTPException, ValueError) as error:
        why = f"OpenML did not give it ({error}). Connect to the network and try again"
        raise _not_found(declared, why) from None
    where = f"OpenML's data set {source.id} ({source.name})"
    remedy = f"OpenML's data differ from the declaration: read a folder ({VARIABLE}) instead."
    columns = (*declared.without(source.lacks).columns, declared.target)
    wanted = [source.names.get(column.name, column.name) for column in columns]
    if not set(wanted) <= set(theirs.columns) or len(theirs) != declared.rows:
        rule = f"have {declared.rows} rows and the columns {wanted}"
        raise fail(where, rule, [len(theirs), list(theirs.columns)], remedy)
    found = {}
    for column, name in zip(columns, wanted, strict=True):
        if column.is_number:
            found[column.name] = theirs[name].astype(float) / source.factors.get(column.name, 1.0)
            continue
        words = source.levels.get(column.name, {})
        cells = theirs[name].astype(object)
        texts = cells.map(_text).where(cells.notna(), source.missing)
        found[column.name] = texts.map(lambda text, words=words: words.get(text, text))
        if strange := set(found[column.name].unique()) - set(column.values):
            rule = f"contain only declared levels in column {column.name!r}"
            raise fail(where, rule, sorted(map(str, strange)), remedy)
    return pandas.DataFrame(found)


def _text(value: object) -> str:
    """Return a level as text: 2.0 as "2", and without the quotes that some files have."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip(" '\"")


def _named(function: Callable[..., Dataset], public: str, name: str, note: str) -> Get:
    """Return a function under its public name, with its documentation."""
    declared = declaration(name)
    size = f"{declared.rows} rows, {len(declared.columns)} columns"
    notes = [note, declared.caution]
    parameters = "as_frame : bool or None\n    None makes X a DataFrame if pandas is installed."
    skip = ""
    if declared.file is not None:
        parameters, skip = "**options\n    As in `fetch`.", "  # doctest: +SKIP"
        notes.append("" if declared.openml else "It is read from a folder only.")
    function.__name__ = function.__qualname__ = public
    function.__doc__ = (
        f'Return the {declared.task} data set "{declared.title}" ({size}).\n\n'
        f"{' '.join(filter(None, notes))}\n\nParameters\n----------\n{parameters}\n\n"
        "Returns\n-------\nDataset\n\nExamples\n--------\n"
        f">>> from skdp.datasets import {public}\n>>> X, y, domain = {public}(){skip}"
    )
    return function


def _loader(name: str, note: str = "", **options: object) -> Get:
    """Return the function ``load_<name>``; scikit-learn's function is called with the options."""

    def function(*, as_frame: bool | None = None) -> Dataset:
        declared, bunch = declaration(name), getattr(sklearn.datasets, f"load_{name}")(**options)
        names = [column.name for column in declared.columns]
        if list(bunch.feature_names) != names:
            where, rule = f"scikit-learn's {name}", f"have columns {names}"
            remedy = "Use a version of scikit-learn that this package supports."
            raise fail(where, rule, bunch.feature_names, remedy)
        X, y = bunch.data, bunch.target
        if as_frame or (as_frame is None and find_spec("pandas") is not None):
            X = _pandas().DataFrame(X, columns=names)
        return declared.with_data(X, y if declared.target.is_number else bunch.target_names[y])

    return _named(function, f"load_{name}", name, note)


def _fetcher(short: str, name: str, note: str = "") -> Get:
    """Return the function ``fetch_<short>``, which fetches the data set ``name``."""

    def function(**options: Any) -> Dataset:
        return fetch(name, **options)

    return _named(function, f"fetch_{short}", name, note)


load_breast_cancer = _loader("breast_cancer", 'Labels are "benign" and "malignant".')
load_diabetes = _loader("diabetes", scaled=False)
load_digits = _loader("digits")
load_iris = _loader("iris")
load_wine = _loader("wine")

fetch_adult = _fetcher("adult", "adult", 'A missing answer is a level, "?".')
fetch_airfoil = _fetcher("airfoil", "airfoil_self_noise")
fetch_bank_marketing = _fetcher(
    "bank_marketing",
    "bank_marketing_full",
    'A later extract with indicators of the economy is fetch("bank_marketing_additional").',
)
fetch_bike_sharing = _fetcher("bike_sharing", "bike_sharing_hour")
fetch_california_housing = _fetcher("california_housing", "california_housing")
fetch_concrete = _fetcher("concrete", "concrete_strength")
fetch_cps_wages = _fetcher("cps_wages", "cps_asec_2024_wages")
fetch_credit_default = _fetcher("credit_default", "credit_default_taiwan")
fetch_electricity = _fetcher("electricity", "electricity")
fetch_german_credit = _fetcher(
    "german_credit", "german_credit", "Levels are UCI's codes, such as A11."
)
fetch_heart = _fetcher("heart", "heart_statlog")
fetch_ionosphere = _fetcher("ionosphere", "ionosphere")
fetch_king_county = _fetcher("king_county", "king_county_house_sales")
fetch_magic = _fetcher("magic", "magic_gamma_telescope")
fetch_mushroom = _fetcher("mushroom", "mushroom")
fetch_nyc_flights = _fetcher("nyc_flights", "nyc_flights_2013")
fetch_pima = _fetcher("pima", "pima_diabetes")
fetch_protein = _fetcher("protein", "protein_casp")
fetch_pumpkin_seeds = _fetcher("pumpkin_seeds", "pumpkin_seeds")
fetch_spambase = _fetcher("spambase", "spambase")
fetch_wine_quality = _fetcher(
    "wine_quality", "wine_quality_red", 'White wine is fetch("wine_quality_white").'
)

__all__ = ["DataNotFound", "Dataset", "Reason", "domain_of", "names"]
__all__ += [own for own in globals() if own.startswith(("fetch", "load_"))]
