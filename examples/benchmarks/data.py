"""Real data with its public domain, read from the folder that SKDP_DATA names.

The folder holds the CSV files, ``domains.json`` (per set: file, task, target, and for every
column its bounds or its categories) and ``SHA256SUMS``, against which what is read is checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp import Domain

REMEDY = "Set SKDP_DATA to the folder that holds the CSV files, domains.json and SHA256SUMS."


@dataclass(frozen=True, eq=False)  # tables have no single truth value to compare by
class DataSet:
    """A table, its target, and what is publicly known about both.

    ``X`` holds numbers as floats and categories as strings, whatever the file codes them by;
    ``y`` holds floats (regression) or strings (classification), and ``domain`` the target too.
    """

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
    facts = _facts_of(name)
    columns, target = dict(facts["columns"]), facts["target"]
    label = columns.pop(target)
    if numeric_only:
        columns = {k: v for k, v in columns.items() if v["type"] == "numeric"}
    table = _table(facts["file"], columns | {target: label})
    domain = Domain({k: _declared(v) for k, v in columns.items()}, target=_declared(label))
    y = table[target].to_numpy(dtype=float if label["type"] == "numeric" else str)
    return DataSet(name, facts["task"], table[list(columns)], y, domain)


def names_of(task: str, most_rows: float = np.inf) -> list[str]:
    """Return the names of the sets of a task, smallest first."""
    sets = _domains()
    of_task = [name for name in sets if sets[name]["task"] == task]
    few = [name for name in of_task if sets[name]["n_rows"] <= most_rows]
    return sorted(few, key=lambda name: sets[name]["n_rows"])


def check_names(names: Iterable[str], task: str) -> list[str]:
    """Return the names if each is a set of the task, or stop and say which there are."""
    names, known = list(names), names_of(task)
    for name in names:
        if name not in known:
            raise SystemExit(f"{name!r} must be one of the {task} sets: {', '.join(known)}.")
    return names


def _facts_of(name: str) -> dict[str, Any]:
    if name not in _domains():
        raise SystemExit(f"The data set must be one of {sorted(_domains())}, got {name!r}.")
    facts: dict[str, Any] = _domains()[name]
    return facts


def _table(file: str, columns: dict[str, Any]) -> pd.DataFrame:
    kinds = {k: float if v["type"] == "numeric" else str for k, v in columns.items()}
    # "NA" and "None" are categories like any other: no cell of these files is empty.
    return pd.read_csv(_checked(file), usecols=list(kinds), dtype=kinds, keep_default_na=False)


def _declared(column: dict[str, Any]) -> tuple[float, float] | list[str]:
    if column["type"] == "numeric":
        return column["lower"], column["upper"]
    return [str(level) for level in column["categories"]]


@cache
def _domains() -> dict[str, Any]:
    everything = json.loads(_checked("domains.json").read_text(encoding="utf-8"))
    return {name: facts for name, facts in everything.items() if not name.startswith("_")}


def _folder() -> Path:
    folder = os.environ.get("SKDP_DATA")
    if not folder:
        raise SystemExit(f"SKDP_DATA must name the folder of the data sets. {REMEDY}")
    if not Path(folder).is_dir():
        raise SystemExit(f"SKDP_DATA must name a folder that exists, got {folder!r}. {REMEDY}")
    return Path(folder)


@cache
def _sums() -> dict[str, str]:
    path = _folder() / "SHA256SUMS"
    if not path.is_file():
        raise SystemExit(f"{path} is missing. {REMEDY}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return {file.lstrip("*"): digest for digest, file in (line.split(maxsplit=1) for line in lines)}


def _checked(file: str) -> Path:
    path = _folder() / file
    if not path.is_file():
        raise SystemExit(f"{path} is missing. {REMEDY}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != _sums().get(file):
        raise SystemExit(
            f"{path} must have the checksum that SHA256SUMS lists. "
            "Copy the file anew: figures from other data cannot be compared."
        )
    return path
