"""Real data with its public domain, as the benchmarks read it: from the folder SKDP_DATA.

A thin layer over ``skdp.datasets``: categories are strings here whatever the set codes them by,
and sets that scikit-learn brings along go by their names of old.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp import Domain, datasets
from skdp.datasets import Declaration, declaration

BUNDLED = {
    "breast_cancer_wdbc": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
}
# These stand for other sets, in examples and tests, or are for one question alone: no figure on
# all sets has them.
UNUSED = {"breast_cancer", "cps_asec_2024_wages", "digits", "iris", "wine"}


@dataclass(frozen=True, eq=False)  # tables have no single truth value to compare by
class DataSet:
    """A table, its target, and what is publicly known about both."""

    name: str
    task: str
    X: pd.DataFrame
    y: NDArray[Any]
    domain: Domain

    @cached_property
    def encoded(self) -> NDArray[np.float64]:
        """The rows as the estimators see them; by the domain alone, so the same in any split."""
        return self.domain.encode(self.X)


@cache
def read(name: str, numeric_only: bool = False) -> DataSet:
    """Return a data set by name; ``numeric_only`` leaves its categorical columns out."""
    data = BUNDLED[name]() if name in BUNDLED else _fetched(name)
    X, domain = data.X, data.domain
    if numeric_only:
        declared = _declared(name)
        levels = tuple(column.name for column in declared.columns if not column.is_number)
        X, domain = X.drop(columns=list(levels)), declared.without(levels).domain
    return DataSet(name, data.task, X, data.y, domain)


def names_of(task: str, most_rows: float = np.inf) -> list[str]:
    """Return the names of the sets of a task, smallest first."""
    every = {name: _declared(name) for name in sorted({*datasets.names(), *BUNDLED} - UNUSED)}
    fit = [name for name, facts in every.items() if facts.task == task and facts.rows <= most_rows]
    return sorted(fit, key=lambda name: every[name].rows)


def check_names(names: Iterable[str], task: str) -> list[str]:
    """Return the names if each is a set of the task, or stop and say which there are."""
    names, known = list(names), names_of(task)
    for name in names:
        if name not in known:
            raise SystemExit(f"{name!r} must be one of the {task} sets: {', '.join(known)}.")
    return names


def _fetched(name: str) -> datasets.Dataset:
    """Return a set from the folder alone: figures from other copies cannot be compared."""
    folder = Path(os.environ.get("SKDP_DATA", ""))
    try:
        file = _declared(name).file
        if file is None or not (folder / file).is_file():
            remedy = "Set SKDP_DATA to the folder that holds the CSV files."
            raise SystemExit(f"{folder / (file or name)} is missing. {remedy}")
        return datasets.fetch(name, folder=folder)
    except ValueError as error:
        raise SystemExit(str(error)) from None


def _declared(name: str) -> Declaration:
    return declaration("breast_cancer" if name == "breast_cancer_wdbc" else name)
