"""What is publicly known about a data set: its columns, their domain, and where that is from.

One file for each set lies in ``domains``. Bounds that were chosen with the data in view are
marked "informed": for private data they would be a leak.
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
    """Why a column has the bounds or levels that it has.

    Attributes
    ----------
    basis : {"documented", "by definition", "convention", "informed"}
        "documented": its source says so. "by definition": the quantity has no other values.
        "convention": a round number that one would guess. "informed": the scale was read off
        the data or its published ranges, which is no public knowledge.
    why : str
        Unit and reason.
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
        """Whether it holds bounded numbers, and not levels."""
        return isinstance(self.values, tuple)


@dataclass(frozen=True)
class Source:
    """How OpenML's copy of a set differs from ours.

    Attributes
    ----------
    id : int
        Of the data set at OpenML; ``name`` is what it is called there.
    names : dict
        Their name of a column by ours, where it differs.
    levels : dict of dict
        For a column, our level by theirs, where they differ.
    factors : dict
        For a column, by how much their numbers are larger than ours.
    lacks : list of str
        Columns that are not there.
    missing : str or None
        The level that stands for a missing one.
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
    """All that is publicly known about a data set."""

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
        """Return what is left without some columns."""
        left = tuple(column for column in self.columns if column.name not in names)
        return Declaration(**{**vars(self), "columns": left})

    @property
    def reasons(self) -> dict[str, Reason]:
        """The reason for each column and the target, by name."""
        return {column.name: column.reason for column in (*self.columns, self.target)}


def names(task: str | None = None) -> list[str]:
    """Return the names of all declared data sets, or of those of a task.

    Parameters
    ----------
    task : {"classification", "regression"} or None

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

    Examples
    --------
    >>> from skdp.datasets import domain_of
    >>> domain_of("iris")
    Domain({'sepal length (cm)': (0, 10), ...}, target=['setosa', 'versicolor', 'virginica'])
    """
    return declaration(name).domain


@cache
def declaration(name: str) -> Declaration:
    """Return what is declared of a data set."""
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
    """Yield the columns of groups of which each shares its values and its reason."""
    for group in groups:
        values = tuple(group["bounds"]) if "bounds" in group else group["levels"]
        for name in group["names"]:
            yield Column(name, values, Reason(group["basis"], group["why"]))


def _source(facts: dict[str, Any]) -> Source:
    return Source(**facts | {"lacks": tuple(facts.get("lacks", ()))})


def _folder() -> Any:
    return files("skdp.datasets") / "domains"
