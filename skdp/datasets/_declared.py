"""Declarations of data sets: columns, their domain, and the reasons for it.

They are in ``declared.toml``. Bounds that were chosen with the data in view are marked
"informed": for private data they would disclose something about the records.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from skdp.domain import Domain
from skdp.domain.tables import Frame
from skdp.trusted.arrays import Array
from skdp.trusted.checks import check_choice, fail

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

    Attributes
    ----------
    id : int
        Identifier at OpenML; ``name`` is the name of the data set there.
    names : dict
        OpenML's name of a column, by the declared name, if they differ.
    levels : dict of dict
        For a column, the declared level by OpenML's level, if they differ.
    factors : dict
        For a column, the ratio of OpenML's numbers to the declared unit.
    lacks : list of str
        Declared columns that OpenML does not have.
    missing : str or None
        Level that replaces a missing value.
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
        """Domain of the columns and the target."""
        columns = {column.name: column.values for column in self.columns}
        return Domain(columns, target=self.target.values)

    def without(self, names: Sequence[str]) -> Declaration:
        """Return the declaration without some columns."""
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
    """Return the declaration of a data set."""
    if name not in _table():
        raise fail("name", f"be one of {sorted(_table())}", name)
    facts = _table()[name]
    target = facts["target"] | {"names": [facts["target"]["name"]]}
    # The columns of an entry share their values and reason.
    (target_column, *columns) = [
        Column(one, _values(entry), Reason(entry["basis"], entry["why"]))
        for entry in [target, *facts["columns"]]
        for one in entry["names"]
    ]
    parts = {"target": target_column, "columns": tuple(columns)}
    if "openml" in facts:
        parts["openml"] = OpenMLSource(**facts["openml"])
    return Declaration(name=name, **facts | parts)


def _values(entry: dict[str, Any]) -> tuple[float, float] | list[str]:
    return tuple(entry["bounds"]) if "bounds" in entry else entry["levels"]


@cache
def _table() -> dict[str, Any]:
    text = files("skdp.datasets").joinpath("declared.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
