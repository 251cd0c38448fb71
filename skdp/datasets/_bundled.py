"""The data that scikit-learn brings along: no network is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sklearn.datasets

from skdp._checks import fail
from skdp.datasets._dataset import Dataset, dataset, has_pandas, pandas
from skdp.datasets._declared import declaration


def load_breast_cancer(*, as_frame: bool | None = None) -> Dataset:
    """Return the Wisconsin breast cancer data (classification, 569 rows, 30 numbers).

    Parameters
    ----------
    as_frame : bool or None, default=None
        Whether X is a DataFrame; None makes it one where pandas is installed.

    Returns
    -------
    Dataset
        Labels are "benign" and "malignant".
    """
    return _load("breast_cancer", sklearn.datasets.load_breast_cancer, as_frame)


def load_diabetes(*, as_frame: bool | None = None) -> Dataset:
    """Return the diabetes data in raw units (regression, 442 rows, 10 columns).

    scikit-learn's own loader standardises the columns by the rows, unless told not to.

    Parameters
    ----------
    as_frame : bool or None, default=None
        As in `load_breast_cancer`.
    """

    def raw() -> Any:
        return sklearn.datasets.load_diabetes(scaled=False)

    return _load("diabetes", raw, as_frame)


def load_iris(*, as_frame: bool | None = None) -> Dataset:
    """Return Fisher's irises (classification, 150 rows, 4 numbers, three species).

    Parameters
    ----------
    as_frame : bool or None, default=None
        As in `load_breast_cancer`.
    """
    return _load("iris", sklearn.datasets.load_iris, as_frame)


def load_wine(*, as_frame: bool | None = None) -> Dataset:
    """Return the wine data (classification, 178 rows, 13 numbers, three growers).

    Parameters
    ----------
    as_frame : bool or None, default=None
        As in `load_breast_cancer`.
    """
    return _load("wine", sklearn.datasets.load_wine, as_frame)


def load_digits(*, as_frame: bool | None = None) -> Dataset:
    """Return handwritten digits (classification, 1797 rows, 64 grey values, ten digits).

    Parameters
    ----------
    as_frame : bool or None, default=None
        As in `load_breast_cancer`.
    """
    return _load("digits", sklearn.datasets.load_digits, as_frame)


def _load(name: str, loader: Callable[[], Any], as_frame: bool | None) -> Dataset:
    declared, bunch = declaration(name), loader()
    names = [column.name for column in declared.columns]
    if list(bunch.feature_names) != names:
        remedy = "Use a version of scikit-learn that this package supports."
        raise fail(f"scikit-learn's {name}", f"have columns {names}", bunch.feature_names, remedy)
    frame = has_pandas() if as_frame is None else as_frame
    X = pandas().DataFrame(bunch.data, columns=names) if frame else bunch.data
    labels = declared.task == "classification"
    return dataset(declared, X, bunch.target_names[bunch.target] if labels else bunch.target)
