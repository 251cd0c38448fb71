"""Encoding of targets, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from skdp._checks import fail
from skdp.domain import Domain
from skdp.domain.tables import as_table
from skdp.rows.block import Run
from skdp.rows.persons import Groups


class Coder(Protocol):
    """Encodes a target: each entry by itself."""

    def encode(self, y: Any, again: bool = False) -> NDArray[Any]:
        """Return encoded numbers in [-1, 1], or positions of labels.

        Errors are raised at the first reading. If the target is read ``again``, an entry that is
        not valid any more is replaced by a public value.
        """


def columns_to_read(
    domain: Domain, names: list[str] | None, target: str | None, groups: Groups | None = None
) -> list[str] | None:
    """Return the columns of the domain, the target and the identifiers; None for all columns.

    All are read if the domain or the table has no names.
    """
    if domain.names is None or names is None:
        return None
    further = [target, None if groups is None else groups.column]
    return [*domain.names, *(name for name in further if name is not None)]


def encoded_runs(
    domain: Domain,
    batch: Any,
    target: str | None,
    coder: Coder,
    again: bool,
    groups: Groups | None = None,
    number: int = 0,
) -> Iterator[Run]:
    """Yield the rows of a batch with their encoded targets, those of equal shares together.

    Parameters
    ----------
    batch : DataFrame or tuple
        With the target as a column, or a pair of a table and a target.
    target : str or None
        The column; None for a pair.
    groups : Groups or None
        The column of identifiers, and the shares of rows in their persons.
    number : int
        The number of the batch.
    """
    if target is not None:
        batch = batch.drop(columns=[target]), batch[target]
    elif not isinstance(batch, tuple):
        rule = "be the name of a column, unless X returns pairs of a table and a target"
        raise fail("target", rule, remedy='Use fit(X, target="name").')
    X, y = batch
    members = None
    if groups is not None:
        members, X = groups.members(X[groups.column], number), X.drop(columns=[groups.column])
    table = as_table(X, domain.names, domain.n_columns)
    encoded = coder.encode(y, again)
    if len(encoded) != table.n_rows:
        raise fail("y", "have as many entries as X has rows, in each batch or partition")
    yield from Run.all_of(replace(table, again=again), encoded, members)
