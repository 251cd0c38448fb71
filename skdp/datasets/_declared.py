"""Declarations of data sets: columns, their domain, and the reasons for it.

The folder ``domains`` has one file for each data set. Bounds that were chosen with the data in
view are marked "informed": for private data they would disclose something about the records.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from skdp._checks import check_choice, fail
from skdp.domain import Domain

BASES = ("documented", "by definition", "convention", "informed")
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

    def __post_init__(self) -> None:
        check_choice("basis", self.basis, BASES)

    def __str__(self) -> str:
        return f"{self.why} ({self.basis})"


@dataclass(frozen=True)
class Column:
    """A declared column: bounds ``(lower, upper)`` or a list of levels, and the reason."""

    name: str
    values: Any
    reason: Reason

    @property
    def is_number(self) -> bool:
        """Whether the column holds bounded numbers and not levels."""
        return isinstance(self.values, tuple)


@dataclass(frozen=True)
class Source:
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
    lacks : tuple of str
        Declared columns that OpenML does not have.
    missing : str or None
        Level that replaces a missing value.
    """

    id: int
    name: str
    names: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    missing: str | None = None


@dataclass(frozen=True)
class Declaration:
    """Public facts about a data set."""

    name: str
    title: str
    task: str
    rows: int
    source: str
    target: Column
    columns: tuple[Column, ...]
    caution: str = ""
    file: str | None = None
    openml: Source | None = None

    def __post_init__(self) -> None:
        check_choice("task", self.task, TASKS)

    @property
    def domain(self) -> Domain:
        """Domain of the columns and the target."""
        columns = {column.name: column.values for column in self.columns}
        return Domain(columns, target=self.target.values)

    def without(self, names: tuple[str, ...]) -> Declaration:
        """Return the declaration without some columns."""
        left = tuple(column for column in self.columns if column.name not in names)
        return Declaration(**{**vars(self), "columns": left})

    @property
    def reasons(self) -> dict[str, Reason]:
        """Reason for each column and the target, by name."""
        return {column.name: column.reason for column in (*self.columns, self.target)}


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
    found = sorted(file.name[:-5] for file in _folder().iterdir() if file.name.endswith(".toml"))
    return [name for name in found if task in (None, declaration(name).task)]


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
    file = _folder() / f"{name}.toml"
    if not (isinstance(name, str) and name.isidentifier() and file.is_file()):
        known = sorted(file.name[:-5] for file in _folder().iterdir())
        raise fail("name", f"be one of {known}", name)
    facts = tomllib.loads(file.read_text(encoding="utf-8"))
    target = next(_columns([facts["target"] | {"names": [facts["target"]["name"]]}]))
    openml = facts.pop("openml", None)
    facts |= {"target": target, "columns": tuple(_columns(facts["columns"]))}
    return Declaration(name=name, openml=openml and _source(openml), **facts)


def _columns(groups: list[dict[str, Any]]) -> Iterator[Column]:
    """Yield the columns of groups; the columns of a group share their values and reason."""
    for group in groups:
        values = tuple(group["bounds"]) if "bounds" in group else group["levels"]
        for name in group["names"]:
            yield Column(name, values, Reason(group["basis"], group["why"]))


def _source(facts: dict[str, Any]) -> Source:
    return Source(**facts | {"lacks": tuple(facts.get("lacks", ()))})


def _folder() -> Any:
    return files("skdp.datasets") / "domains"
