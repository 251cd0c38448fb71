"""Predictions: linear predictors that depend only on their row, and rows that are not in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.domain import Domain
from skdp.domain.layout import compact_blocks
from skdp.domain.tables import Frame, from_arrow, with_declared
from skdp.linear_model._shared.task import header_of, spell_levels, split_frame
from skdp.linear_model.validation import check_table
from skdp.rows.tables import (
    Collection,
    CsvStream,
    Stream,
    computed,
    is_collection,
    opened,
    predictions,
)
from skdp.trusted.arrays import FloatArray, row_products
from skdp.trusted.checks import converted


def predictors(
    domain: Domain, X: Frame, coef: FloatArray, intercept: FloatArray, clipping: Any = None
) -> FloatArray:
    """Return the linear predictors of the encoded rows of a table, (n, models).

    Rows are encoded, clipped and multiplied in blocks. The terms of a row are added in a fixed
    order: the numbers, then each column of levels, then the intercept. ``coef`` has the shape
    (models, n_encoded).
    """
    coef = np.ascontiguousarray(coef)  # a product adds in another order for other layouts
    slopes = coef[:, domain.number_index]
    # For each column of levels, the terms of all models by the position of the level.
    pairs = zip(domain.blocks, domain.block_tables, strict=True)
    terms = [_terms(coef[:, block], table) for block, table in pairs if block.stop > block.start]
    out = np.empty((len(X), len(coef)))
    for rows, encoded in compact_blocks(domain, X):
        if clipping is not None:
            clipping.clip(encoded.numbers)
        found = row_products(encoded.numbers, slopes)
        for term, positions in zip(terms, encoded.levels, strict=True):
            found += term[positions]
        np.add(found, intercept, out=out[rows])
    return out


def _terms(coef: FloatArray, table: FloatArray | None) -> FloatArray:
    if table is not None:
        return row_products(table, coef)
    return np.vstack([np.zeros(len(coef)), coef.T])


M = TypeVar("M")
R = TypeVar("R")

_SECTIONS = """

Parameters
----------
X : DataFrame, array-like, dict of columns, collection, path or callable
    A table as in `fit`. If columns have names, further columns such as the target are ignored, and
    so are targets of pairs. A record of its own may be a dict, ``{"age": 30, "sex": "f"}``.

Returns
-------
ndarray, dask array or iterator of ndarray
    An array for a table in memory. For a collection a dask array, which is not computed yet. For
    files and functions an iterator of arrays, one for each batch.
"""


def for_any_rows(method: Callable[[M, Any], R]) -> Callable[[M, Any], R | Any]:
    """Let a method of predictions take collections of dask, files and functions.

    For a collection it returns a dask array, and for rows that are read in batches an iterator of
    arrays, one for each batch. Its docstring, a line, gets sections that say so.
    """

    @wraps(method)
    def called(self: Any, X: Frame) -> Any:
        data = opened(X)
        if isinstance(data, Collection):
            example = _checked_header(self, data)
            return predictions(
                partial(method, self), data, _names(self, data), method(self, example)
            )
        if isinstance(data, Stream):
            _checked_header(self, data)
            if isinstance(data, CsvStream):
                spell_levels(data, self._design.domain, None, None)
            batches = data.batches(_names(self, data))
            tables = (own[0] if isinstance(own, tuple) else own for own in batches)
            return (method(self, table) for table in tables)
        check_is_fitted(self)
        names = self._design.domain.names
        names = getattr(self, "feature_names_in_", None) if names is None else names
        return method(self, with_declared(data, names))

    called.__doc__ = f"{method.__doc__}{_SECTIONS}"
    return called


SCORE = """Return the {name} of :meth:`predict`. It is not private.

Parameters
----------
X : DataFrame, array-like, collection, path or callable
    As in :meth:`predict`. The predictions of all rows are kept in memory.
y : array-like or dask collection of shape (n,), default=None
    The target, in the order of the rows.
sample_weight : array-like of shape (n,), default=None
target : str, default=None
    Name of the column of a table in memory that is the target, in place of ``y``.

Returns
-------
float
"""


def score_by(
    metric: Callable[..., float],
    name: str,
    targets: str = "a target of the kind that the model predicts",
    remedy: str = "",
) -> Any:
    """Return a method that scores the predictions for tables of all kinds.

    Errors say that y must be ``targets``.
    """

    def score(
        self: Any, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None
    ) -> float:
        X, y, *_ = split_frame(X, y, target, None, None)
        found, y = _gathered(self.predict(X)), _gathered(y)
        rule = f"be {targets}, one for each row of X"
        # scikit-learn's errors quote labels and entries that are no numbers.
        return converted(lambda: metric(y, found, sample_weight=sample_weight), "y", rule, remedy)

    score.__doc__ = SCORE.format(name=name)
    score.metric = name  # type: ignore[attr-defined]
    return score


def _gathered(entries: Any) -> Any:
    if is_collection(entries):
        return computed(entries.compute)
    if isinstance(entries, Iterator):
        return np.concatenate(list(entries))
    return from_arrow(entries, "y")


def _checked_header(model: BaseEstimator, data: Stream | Collection) -> Any:
    check_is_fitted(model)
    domain = model._design.domain
    return check_table(model, header_of(data, domain, None), domain, reset=False)


def _names(model: BaseEstimator, data: Stream | Collection) -> list[str] | None:
    names = model._design.domain.names
    return None if names is None or data.names is None else list(names)
