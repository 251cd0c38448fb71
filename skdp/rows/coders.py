"""Encoding of targets, block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from skdp._checks import fail
from skdp.domain import Domain
from skdp.domain.tables import Table, as_table


class Coder(Protocol):
    """Encodes a target: each entry by itself."""

    def encode(self, y: Any, again: bool = False) -> NDArray[Any]:
        """Return encoded numbers in [-1, 1], or positions of labels.

        Errors are raised at the first reading. If the target is read ``again``, an entry that is
        not valid any more is replaced by a public value.
        """


def columns_to_read(
    domain: Domain, names: list[str] | None, target: str | None
) -> list[str] | None:
    """Return the columns of the domain and the target; None for all, if either has no names."""
    if domain.names is None or names is None:
        return None
    return [*domain.names, *([] if target is None else [target])]


def encoded_pair(
    domain: Domain, batch: Any, target: str | None, coder: Coder, again: bool
) -> tuple[Table, NDArray[Any]]:
    """Return the table and the encoded target of a batch.

    Parameters
    ----------
    batch : DataFrame or tuple
        With the target as a column, or a pair of a table and a target.
    target : str or None
        The column; None for a pair.
    """
    if target is not None:
        batch = batch.drop(columns=[target]), batch[target]
    elif not isinstance(batch, tuple):
        rule = "be the name of a column, unless X returns pairs of a table and a target"
        raise fail("target", rule, remedy='Use fit(X, target="name").')
    X, y = batch
    table = as_table(X, domain.names, domain.n_columns)
    encoded = coder.encode(y, again)
    if len(encoded) != table.n_rows:
        raise fail("y", "have as many entries as X has rows, in each batch or partition")
    return replace(table, again=again), encoded
