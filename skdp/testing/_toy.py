"""Small data sets for checks of estimators: neighbours, different data sets, invalid data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier

from skdp.domain import Domain

Data = tuple[NDArray[Any], NDArray[Any]]
COLUMNS = 2
# Values that no message of a fit may contain.
NUMBER, WORD = 12345.678, "SECRET"


def domain_for(estimator: BaseEstimator, columns: int = COLUMNS) -> Domain:
    """Return the domain of the test data: numbers in [-1, 1], and a target."""
    return Domain.unit_box(columns, target=["a", "b"] if is_classifier(estimator) else (-1.0, 1.0))


def prepared(estimator: BaseEstimator, columns: int = COLUMNS, **parameters: Any) -> Any:
    """Return a clone for the test data, with those of the parameters that the estimator has."""
    known = estimator.get_params(deep=False)
    given = {"domain": domain_for(estimator, columns), "ledger": None, **parameters}
    return clone(estimator).set_params(**{k: v for k, v in given.items() if k in known})


def neighbours(estimator: BaseEstimator, n: int = 50) -> tuple[Data, Data]:
    """Return two data sets that differ in one influential record.

    All other records are 0 in the first column and have the opposite target, which makes the
    influence of the record greatest. It is replaced by its mirror image, or removed.
    """
    low, high = ("a", "b") if is_classifier(estimator) else (-1.0, 1.0)
    X = np.zeros((n, COLUMNS))
    X[0, 0] = 1.0
    y = np.array([high] + [low] * (n - 1))
    if getattr(estimator, "neighbors", "replace_one") == "add_remove":
        return (X, y), (X[1:], y[1:])
    other = X.copy()
    other[0, 0] = -1.0
    return (X, y), (other, y)


def unlike(estimator: BaseEstimator, n: int = 40) -> list[Data]:
    """Return different data sets with the same public facts."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, COLUMNS))
    if is_classifier(estimator):
        targets = [np.where(X[:, 0] > 0, "a", "b"), np.full(n, "a"), np.full(n, "b")]
    else:
        targets = [X @ [0.5, -0.5], np.full(n, -1.0), np.full(n, 1e6)]
    tables = [X, np.zeros((n, COLUMNS)), 1e9 * X]
    found = list(zip(tables, targets, strict=True))
    if getattr(estimator, "neighbors", "replace_one") == "add_remove":
        found.append((X[: n - 9], targets[0][: n - 9]))  # then the number of records is private too
    return found


def spoilt(estimator: BaseEstimator, n: int = 37) -> list[Data]:
    """Return invalid data sets that contain NUMBER or WORD."""
    X = np.full((n, COLUMNS), 0.25)
    X[1, 0] = NUMBER
    y = np.array((["a", "b"] * n)[:n]) if is_classifier(estimator) else np.full(n, NUMBER)
    missing, word = X.copy(), X.astype(object)
    missing[3, 1], word[3, 1] = np.nan, WORD
    strange = np.append(y[1:].astype(object), WORD)
    return [(missing, y), (word, y), (X, strange), (X, y[1:])]
