"""The data sets that are part of scikit-learn: no network is needed."""

from __future__ import annotations

from typing import Any

import sklearn.datasets

from skdp._checks import fail
from skdp.datasets._dataset import Dataset, dataset, has_pandas, pandas
from skdp.datasets._declared import declaration


def load(name: str, as_frame: bool | None, **options: Any) -> Dataset:
    """Return a data set from scikit-learn's ``load_<name>``, called with the options."""
    declared, bunch = declaration(name), getattr(sklearn.datasets, f"load_{name}")(**options)
    names = [column.name for column in declared.columns]
    if list(bunch.feature_names) != names:
        remedy = "Use a version of scikit-learn that this package supports."
        raise fail(f"scikit-learn's {name}", f"have columns {names}", bunch.feature_names, remedy)
    frame = has_pandas() if as_frame is None else as_frame
    X = pandas().DataFrame(bunch.data, columns=names) if frame else bunch.data
    labels = declared.task == "classification"
    return dataset(declared, X, bunch.target_names[bunch.target] if labels else bunch.target)
