"""Records one at a time: what a model says of one cannot depend on the others.

The last bits of a product of matrices depend on how many rows there are, and may decide which
label is predicted. Models of this package treat each row by itself (``row_products``), and are
asked about all rows at once. Any other model is asked about tables of one row.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skdp import linear_model
from skdp.domain import Domain
from skdp.domain.encoder import DomainEncoder

_MODELS = (
    linear_model.DPCoordinateDescentClassifier,
    linear_model.DPCoordinateDescentRegressor,
    linear_model.DPHuberRegressor,
    linear_model.DPLinearRegression,
    linear_model.DPLogisticRegression,
)


def is_rowwise(model: Any) -> bool:
    """Return whether a model predicts each row by itself, to the last bit.

    It does if it is of this package, and not of a class derived from one of its, or a pipeline of
    one behind encoders of this package.
    """
    *before, last = model.steps if type(model) is Pipeline else [("", model)]
    encoders = [step for _, step in before if step not in (None, "passthrough")]
    if not all(type(step) is DomainEncoder for step in encoders):
        return False
    domains = [getattr(step, "domain", None) for step in (*encoders, last[1])]
    known = all(domain is None or type(domain) is Domain for domain in domains)
    return known and type(last[1]) in _MODELS


def one_by_one(model: Any, X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each record as a table of one row, with a model to ask about it.

    The model is the one given, or one that says the same without computing it again.
    """
    if not is_rowwise(model):
        yield from ((model, row) for row in _rows(X))
        return
    before, last = _parts(model)
    predictors, asked = last._predictor(before(X)), copy.copy(last)
    for k, row in enumerate(_rows(X)):

        def predictor(X: Any, k: int = k, row: Any = row) -> Any:
            return predictors[k : k + 1] if X is row else last._predictor(before(X))

        asked._predictor = predictor
        yield _behind(model, asked), row


def _rows(X: Any) -> Iterator[Any]:
    """Yield tables of one row; those of arrays are copies, which all lie alike in memory."""
    for k in range(len(X)):
        row = slice(k, k + 1)
        yield X.iloc[row] if hasattr(X, "iloc") else np.array(X[row], order="C")


def _parts(model: Any) -> tuple[Callable[[Any], Any], Any]:
    """Return what is done before a model of this package sees the rows, and the model."""
    if type(model) is not Pipeline:
        return (lambda X: X), model
    before = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]

    def transform(X: Any) -> Any:
        for step in before:
            X = step.transform(X)
        return X

    return transform, model.steps[-1][1]


def _behind(model: Any, last: Any) -> Any:
    """Return a model of the same steps that does nothing before the last one."""
    if type(model) is not Pipeline:
        return last
    names = [name for name, _ in model.steps]
    return Pipeline([*((name, "passthrough") for name in names[:-1]), (names[-1], last)])
