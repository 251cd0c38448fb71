"""Numbers of records that depend on the record and the model only, to the last bit.

See ``docs/proofs/private_selection.md``, Theorem 3. The last bits of a product of matrices depend
on the number of rows, and may decide which label is predicted. Models of this package predict each
row separately (``row_products``), so they are called once for all rows. Every other model is
called with tables of one row.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from skdp import linear_model
from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain import Domain
from skdp.domain.encoder import DomainEncoder
from skdp.model_selection._scoring.functions import Function, is_built_in

_MODELS = (
    linear_model.DPCoordinateDescentClassifier,
    linear_model.DPCoordinateDescentRegressor,
    linear_model.DPHuberRegressor,
    linear_model.DPLinearRegression,
    linear_model.DPLogisticRegression,
)


def numbers_of(function: Function, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Return the number of each record, which does not depend on the other records."""
    if is_rowwise(estimator) and is_built_in(function):
        return np.asarray(function(estimator, X, y))
    numbers = np.empty(len(y))
    for k, (model, row) in enumerate(one_by_one(estimator, X)):
        number = np.asarray(function(model, row, y[k : k + 1]), dtype=float)
        if number.size != 1:
            raise fail("scoring", "return one number per record")
        numbers[k] = number.item()
    return numbers


def is_rowwise(model: Any) -> bool:
    """Return whether a model predicts each row separately, to the last bit.

    This holds for models of this package, alone or in a pipeline behind its encoders. It need not
    hold for derived classes.
    """
    *before, last = model.steps if type(model) is Pipeline else [("", model)]
    encoders = [step for _, step in before if step not in (None, "passthrough")]
    if not all(type(step) is DomainEncoder for step in encoders):
        return False
    domains = [getattr(step, "domain", None) for step in (*encoders, last[1])]
    known = all(domain is None or type(domain) is Domain for domain in domains)
    return known and type(last[1]) in _MODELS


def one_by_one(model: Any, X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield for each record a model and a table of one row.

    The model is the given one, or a copy that returns the same predictions without computing them
    again.
    """
    if not is_rowwise(model):
        yield from ((model, row) for row in _rows(X))
        return
    steps = model.steps if type(model) is Pipeline else [("", model)]
    (*before, (name, last)) = steps
    encoders = [step for _, step in before if step not in (None, "passthrough")]

    def predictors_of(X: Any) -> FloatArray:
        for encoder in encoders:
            X = encoder.transform(X)
        return np.asarray(last._predictor(X))

    predictors, one = predictors_of(X), copy.copy(last)
    behind = [*((step, "passthrough") for step, _ in before), (name, one)]
    asked = Pipeline(behind) if type(model) is Pipeline else one
    for k, row in enumerate(_rows(X)):

        def predictor(X: Any, k: int = k, row: Any = row) -> FloatArray:
            return predictors[k : k + 1] if X is row else predictors_of(X)

        one._predictor = predictor
        yield asked, row


def _rows(X: Any) -> Iterator[Any]:
    """Yield copies of single rows, whose memory layout does not depend on the number of rows."""
    if not hasattr(X, "iloc"):
        yield from (np.array(X[k : k + 1], order="C") for k in range(len(X)))
        return
    columns = [X.iloc[:, j].array for j in range(X.shape[1])]
    for k in range(len(X)):
        # By position: names may repeat.
        cells = {j: own[k : k + 1] for j, own in enumerate(columns)}
        yield type(X)(cells, index=X.index[k : k + 1]).set_axis(X.columns, axis=1)
