"""Looking at X and y: public facts raise, private ones stay private.

scikit-learn's own validators quote the array in their messages, so that these checks are made
here and name nothing but shapes of columns, declared labels and rules.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skdp._checks import fail
from skdp.domain.tables import as_table
from skdp.privacy import PrivacyLeakWarning

# Records beyond this are not counted on when the solver's tolerance is set.
MOST_RECORDS = 2**31


def check_table(estimator: Any, X: Any, domain: Any, *, reset: bool) -> int:
    """Check the shape and the column names of ``X``; return its number of rows."""
    if sparse.issparse(X):
        raise TypeError("X must be dense: sparse input is not supported. Use X.toarray().")
    # As objects: nothing is converted, and nothing can be quoted in an error of numpy's.
    shape = X.shape if hasattr(X, "shape") else _as_array("X", X, object).shape
    if len(shape) != 2:
        remedy = "Reshape your data: one row for each record, X.reshape(-1, 1) for one column."
        raise fail("X", "have two dimensions", len(shape), remedy)
    if shape[0] == 0:
        raise ValueError("X must have records: found 0 sample(s) while a minimum of 1 is required.")
    if shape[1] == 0:
        raise ValueError(
            "X must have columns: found 0 feature(s) (shape=(, 0)) while a minimum of 1 is"
            " required."
        )
    if shape[0] > MOST_RECORDS:
        raise fail("X", f"have at most {MOST_RECORDS} records")
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError("Complex data not supported: X must hold real numbers and levels.")
    if reset and getattr(domain, "names", None) is not None and hasattr(X, "columns"):
        as_table(X, domain.names, domain.n_columns)  # names what is missing or undeclared
    validate_data(estimator, _header(X, domain), skip_check_array=True, reset=reset)
    return int(shape[0])


def _header(X: Any, domain: Any) -> Any:
    """Return the columns in the domain's order, in which coefficients are, if it has names."""
    names = getattr(domain, "names", None)
    if names is None or not hasattr(X, "iloc") or sorted(map(str, X.columns)) != sorted(names):
        return X
    return X.iloc[:0][list(names)]


def _as_array(name: str, values: Any, dtype: Any = None) -> NDArray[Any]:
    with suppress(ValueError):
        return np.asarray(values, dtype=dtype)
    # Raised here, or numpy's own message would come along and tell the number of records.
    raise fail(name, "have entries of one shape")


def check_target(estimator: Any, y: Any, n: int) -> NDArray[Any]:
    """Return ``y`` as an array of shape (n,)."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if sparse.issparse(y):
        raise TypeError("y must be dense: sparse input is not supported. Use y.toarray().")
    out = _as_array("y", y)
    if out.ndim == 2 and out.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        text = "A column-vector y was passed when a 1d array was expected. Use y.ravel()."
        warnings.warn(text, DataConversionWarning, stacklevel=5)
        out = out[:, 0]
    if out.ndim != 1:
        raise fail("y", "be a 1d array", out.ndim, "y should be a 1d array: one target per row.")
    if len(out) != n:
        raise fail("y", "have as many entries as X has rows")
    if np.iscomplexobj(out):
        raise ValueError("Complex data not supported: y must hold real numbers or labels.")
    return out


def check_labels(y: NDArray[Any], declared: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sorted public labels and, for every entry of ``y``, which of them it is."""
    labels = _inferred(y) if declared is None else _sorted_labels(declared)
    if len(labels) < 2:
        remedy = "Declare all labels: classes=[...], or target=[...] in the Domain."
        raise fail("classes", "hold at least two labels; one class cannot be fitted", None, remedy)
    return labels, _places(y, labels)


def _sorted_labels(declared: Any) -> NDArray[Any]:
    labels = None
    with suppress(TypeError, ValueError):
        array = np.asarray(declared)
        # Of labels of two types numpy makes strings.
        if array.ndim == 1 and array.tolist() == list(declared):
            labels = np.unique(array)
    if labels is None or len(labels) != len(declared):
        raise fail("classes", "be a list of distinct labels of one type", declared)
    return labels


def _inferred(y: NDArray[Any]) -> NDArray[Any]:
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError("y must not contain NaN or inf. Drop those records by a public rule.")
    check_classification_targets(y)
    text = (
        "The labels were read off y, which no guarantee covers. Declare them:"
        " classes=[...], or target=[...] in the Domain."
    )
    warnings.warn(text, PrivacyLeakWarning, stacklevel=6)
    return np.asarray(np.unique(y))


def _places(y: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return positions in ``labels``; an undeclared label raises, without being named."""
    try:
        found = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
        known = bool(np.all(labels[found] == y))
    except TypeError:
        known = False
    if not known:
        remedy = f"Declared are {labels.tolist()}. Map or drop other labels by a public rule."
        raise fail("y", "hold declared labels only", None, remedy)
    return np.asarray(found)
