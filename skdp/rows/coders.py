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
from skdp.rows.persons import Shares


class Coder(Protocol):
    """Encodes a target: each entry by itself."""

    def encode(self, y: Any, again: bool = False) -> NDArray[Any]:
        """Return encoded numbers in [-1, 1], or positions of labels.

        Errors are raised at the first reading. If the target is read ``again``, an entry that is
        not valid any more is replaced by a public value.
        """


def columns_to_read(
    domain: Domain | None, names: list[str] | None, target: str | None, groups: str | None = None
) -> list[str] | None:
    """Return the columns of the domain, the target and the identifiers; None for all columns.

    All are read if the domain or the table has no names.
    """
    if domain is None or domain.names is None or names is None:
        return None
    return [*domain.names, *(name for name in (target, groups) if name is not None)]


def encoded_runs(
    domain: Domain,
    batch: Any,
    target: str | None,
    coder: Coder,
    again: bool,
    shares: Shares | None = None,
) -> Iterator[Run]:
    """Yield the rows of a batch with their encoded targets, those of equal shares together.

    Parameters
    ----------
    batch : DataFrame or tuple
        With the target as a column, or a pair of a table and a target.
    target : str or None
        The column; None for a pair.
    shares : Shares or None
        The shares of rows in their persons, for the reading that this batch is a part of.
    """
    if target is not None:
        batch = batch.drop(columns=[target]), batch[target]
    elif not isinstance(batch, tuple):
        rule = "be the name of a column, unless X returns pairs of a table and a target"
        raise fail("target", rule, remedy='Use fit(X, target="name").')
    X, y = batch
    members = None
    if shares is not None:
        members, X = shares.members(X[shares.column]), X.drop(columns=[shares.column])
    table = as_table(X, domain.names, domain.n_columns)
    encoded = coder.encode(y, again)
    if len(encoded) != table.n_rows:
        raise fail("y", "have as many entries as X has rows, in each batch or partition")
    yield from Run.all_of(replace(table, again=again), encoded, members)
