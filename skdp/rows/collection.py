"""Collections of dask, and predictions for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import converted, fail

# The column that a target becomes, beside those of the user.
_TARGET = "y of fit(X, y)"
_AS_COLUMN = 'Make the target a column of a DataFrame, and use fit(X, target="name").'


class Collection:
    """A table of dask with its target, which is a column or an array with the rows of the table.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or dask.array.Array
    y : dask collection, default=None
        If both are DataFrames or columns of them, y becomes a column of X: dask may read two
        collections in different partitions. None if the target is a column, or if there is none.
    target : str, default=None
        Name of the column of the target.
    """

    def __init__(self, X: Any, y: Any = None, target: str | None = None) -> None:
        # Asked of the type: a delayed object has every attribute, each a delayed object.
        if not hasattr(type(X), "ndim") or X.ndim != 2:
            rule = "be a dask DataFrame or a dask array with two dimensions"
            remedy = "Use X.to_dataframe() for a bag, X.to_frame() or X[:, None] for a column."
            raise fail("X", rule, type(X).__name__, remedy)
        if y is not None and not is_collection(y):
            raise fail("y", "be a dask collection, as X is", type(y).__name__)
        if y is not None and hasattr(type(X), "columns") and hasattr(type(y), "map_partitions"):
            X, y, target = _joined(X, y), None, _TARGET
        self.X, self.y, self.target = X, y, target

    @classmethod
    def with_target(cls, X: Any, y: Any, target: str | None) -> Collection:
        """Return a table with its target, which is given in one of two ways."""
        if (y is None) == (target is None):
            remedy = 'Give y, or the name of a column: fit(X, target="name").'
            raise fail("y", "be given either as a collection or as a column", None, remedy)
        return cls(X, y, target)

    @property
    def names(self) -> list[str] | None:
        """Names of the columns; None for an array."""
        return list(self.X.columns) if hasattr(self.X, "columns") else None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.X.columns) if hasattr(self.X, "columns") else int(self.X.shape[1])

    def only(self, columns: list[str] | None) -> Collection:
        """Return the same rows with some columns, or with all of them for None."""
        return self if columns is None else Collection(self.X[columns], self.y, self.target)

    def partitions(self) -> list[tuple[Any, Any]]:
        """Return pairs of delayed partitions of X, with all columns, and of y or None."""
        tables = delayed_parts(self.X)
        targets = [None] * len(tables) if self.y is None else delayed_parts(self._aligned_y())
        if len(targets) != len(tables):
            raise fail("y", "have as many partitions as X", len(targets), _AS_COLUMN)
        return list(zip(tables, targets, strict=True))

    def entries(self, column: str) -> list[Any]:
        """Return a column, computed, one array for each of `partitions`.

        Of the column alone dask may read other partitions than of all columns.
        """
        import dask

        take = dask.delayed(_column, pure=False)
        parts = [take(part, column) for part, _ in self.partitions()]
        return list(computed(lambda: dask.compute(*parts)))

    def _aligned_y(self) -> Any:
        """Return y in the chunks of X, if both are arrays."""
        if hasattr(self.y, "chunks") and hasattr(self.X, "chunks"):
            return self.y.rechunk((self.X.chunks[0], *self.y.chunks[1:]))
        return self.y

    @cached_property
    def n(self) -> int:
        """The number of rows; it is computed unless the chunks of an array are known."""
        if hasattr(self.X, "chunks") and not np.isnan(self.X.shape[0]):
            return int(self.X.shape[0])
        import dask

        sizes = [dask.delayed(len)(part) for part in delayed_parts(self.X)]
        return int(sum(computed(lambda: dask.compute(*sizes))))


def computed(call: Callable[[], Any]) -> Any:
    """Return what a computation returns. Errors of the user's graph are not shown."""
    remedy = "Its own error is not shown, because it may quote a cell: X.compute() shows it."
    return converted(call, "X", "be a collection that can be computed without an error", remedy)


def _joined(X: Any, y: Any) -> Any:
    """Return X with y as a further column, row by row."""
    from dask import dataframe

    if y.npartitions != X.npartitions:
        raise fail("y", "have the partitions of X", y.npartitions, _AS_COLUMN)
    if y.ndim == 2:
        if len(y.columns) != 1:
            raise fail("y", "have one column", len(y.columns), "One target is fitted at a time.")
        y = y[y.columns[0]]
    meta = _with_target(X._meta, y._meta)
    return dataframe.map_partitions(_with_target, X, y, meta=meta, align_dataframes=False)


def _with_target(table: Any, y: Any) -> Any:
    if len(table) != len(y):
        rule = "have as many entries as X has rows, in each batch or partition"
        raise fail("y", rule, remedy=_AS_COLUMN)
    return table.assign(**{_TARGET: y.array})


def _column(table: Any, name: str) -> Any:
    return table[name]


def predictions(
    predict: Callable[[Any], Any], data: Collection, columns: list[str] | None, example: Any
) -> Any:
    """Return a dask array of the predictions for all rows; ``example`` are those for one row."""
    import dask
    from dask import array

    none = example[:0]

    def predicted(table: Any) -> Any:
        return predict(table) if len(table) else none

    task = dask.delayed(predicted, pure=False)
    known = getattr(data.X, "chunks", None)
    parts = [table for table, _ in data.only(columns).partitions()]
    sizes = known[0] if known else [np.nan] * len(parts)
    arrays = [
        array.from_delayed(task(part), shape=(size, *example.shape[1:]), dtype=example.dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return array.concatenate(arrays, allow_unknown_chunksizes=True)


def is_collection(X: Any) -> bool:
    """Return whether ``X`` is a collection of dask."""
    # Asked of the type: the code of a foreign object may raise any error.
    return "dask" in sys.modules and hasattr(type(X), "__dask_graph__")


def delayed_parts(X: Any) -> list[Any]:
    """Return the delayed partitions of a collection, with all columns each."""
    if hasattr(X, "chunks") and X.ndim == 2:
        X = X.rechunk({1: -1})
    parts = X.to_delayed()
    return list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts)
