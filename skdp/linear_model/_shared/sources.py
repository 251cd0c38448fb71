"""The rows of a fit, from what the user gives: tables in memory, files, functions, collections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.domain.layout import levels_by_name
from skdp.linear_model.validation import label_positions, without_column
from skdp.rows.persons import Groups, Persons
from skdp.rows.tables import Collection, CsvStream, Stream, spellings
from skdp.trusted.checks import fail


@dataclass(frozen=True, eq=False)
class LabelCoder:
    """Encodes labels as their positions among the declared ones."""

    labels: NDArray[Any]

    def encode(self, y: Any) -> NDArray[Any]:
        return label_positions(y, self.labels)


@dataclass(frozen=True, eq=False)
class NumberCoder:
    """Encodes the numbers of a regression by the bounds of a domain."""

    domain: Domain

    def encode(self, y: Any) -> NDArray[Any]:
        return self.domain.encode_target(y)


def check_places(y: Any, target: Any) -> None:
    """Raise an error if the name of a column is given as y, or a column as its name."""
    if issubclass(type(y), str):  # by type: a foreign object may raise in __class__
        raise fail("y", "be an array of targets", y, f"For a column of X write target={y!r}.")
    if target is not None and not issubclass(type(target), str):
        raise fail(
            "target", "be the name of a column of X", type(target), "Pass other targets as y."
        )


def split_frame(X: Any, y: Any, target: str | None, groups: Any) -> tuple[Any, Any, Any]:
    """Return features, target and identifiers of a table in memory.

    The target and the identifiers may be columns of the table.
    """
    if target is not None:
        if y is not None:
            raise fail("y", "be None if a target column is named", None, "Drop y or target.")
        X, y = without_column(X, "target", target, "Pass y.")
    if isinstance(groups, str):
        X, groups = without_column(X, "groups", groups, "Pass an array of identifiers.")
    return X, y, groups


def groups_of(data: Stream | Collection, column: Any, cap: int) -> Groups | None:
    """Return the persons of rows that are not in memory, by one reading of identifiers."""
    if column is None:
        return None
    if isinstance(data, Collection):
        whole, parts = Persons.of_parts(data.entries(column))
        return Groups(column, cap, len(whole), parts)
    batches = data.batches([column])
    tables = (batch[0] if isinstance(batch, tuple) else batch for batch in batches)
    persons = Persons.of(table[column] for table in tables)
    return Groups(column, cap, len(persons), [persons])


def header_of(
    stream: Stream | Collection, domain: Domain | None, target: str | None, groups: Any = None
) -> Any:
    """Return a table of one row with the columns that are neither target nor identifiers."""
    names = stream.names
    if groups is not None and not isinstance(groups, str):
        rule = "be the name of a column where X is not in memory"
        raise fail("groups", rule, type(groups), 'Pass groups="name".')
    if groups is not None and (names is None or groups not in names):
        raise fail("groups", f"be a column of X, which has {names}", groups)
    if groups is not None and groups == target:
        raise fail("groups", "be another column than the target", groups)
    if names is None:
        return np.empty((1, stream.n_columns))
    if target is not None and target not in names:
        raise fail("target", f"be a column of X, which has {names}", target)
    features = [name for name in names if name not in (target, groups)]
    if domain is not None and domain.names is not None:
        # Other columns of a file are not read.
        features = [name for name in features if name in set(domain.names)]
    import pandas as pd

    # Objects may be numbers or levels of any kind.
    return pd.DataFrame({name: [0.0] for name in features}, dtype=object)


def spell_levels(stream: CsvStream, domain: Domain | None, target: str | None, labels: Any) -> None:
    """Tell a stream of texts which levels and labels are no texts."""
    columns = {} if domain is None else levels_by_name(domain)
    if target is not None and labels is not None:
        columns[target] = tuple(np.asarray(labels).tolist())
    stream.spelled = {name: spellings(levels) for name, levels in columns.items()}
