"""Attacks on sources of rows: cuts of files, and rows that appear while a table is read."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from examples.benchmarks.attacks.attack_report import Verdict, at_most
from skdp import Domain, DPLinearRegression

WIDTHS = (3, 17, 100)


def attacks() -> Iterator[Verdict]:
    """Compare what is released of the same persons from many sources, and of a growing table."""
    for columns in WIDTHS:
        with tempfile.TemporaryDirectory() as folder:
            table = panel(columns, 900, 30)
            released = {moments(table, data) for data in sources(table, Path(folder), 20_000)}
        yield at_most(f"persons: sources, {columns} columns", len(released), 1, "releases")
    for neighbors in ("replace_one", "add_remove"):
        found = late_rows(neighbors)
        yield at_most(f"persons: 4,000 late rows, {neighbors}", found, 1e-9, "units in a slope")


def panel(columns: int, n_persons: int, most: int) -> Any:
    """Return a table of persons in a random order, with a target y and identifiers who."""
    rng = np.random.default_rng(4)
    who = rng.permutation(np.repeat(np.arange(n_persons), rng.integers(1, most, n_persons)))
    names = [f"x{k}" for k in range(columns)]
    table = pd.DataFrame(rng.uniform(-1, 1, (len(who), columns)), columns=names)
    return table.assign(who=who, y=rng.uniform(-1, 1, len(who)))


def sources(table: Any, folder: Path, most: int) -> Iterator[Any]:
    """Yield the same rows in memory, in files, from functions and in partitions of dask.

    Parts have at most ``most`` rows, and some have about a hundredth of them.
    """
    from dask import dataframe

    few, several = max(1, most // 100), folder / "several"
    yield table
    for name, size in (("few", few), ("most", most)):
        table.to_parquet(folder / f"{name}.parquet", row_group_size=size)
        yield folder / f"{name}.parquet"
        yield in_batches(table, size)
    table.to_feather(folder / "t.feather", chunksize=few)
    yield folder / "t.feather"
    table.to_csv(folder / "t.csv", index=False)
    yield folder / "t.csv"
    several.mkdir()
    for k in range(4):
        part = table[k * len(table) // 4 : (k + 1) * len(table) // 4]
        part.to_parquet(several / f"{k}.parquet", row_group_size=few)
    yield several
    # Of these dask reads the identifiers alone in other partitions than all columns.
    yield dataframe.read_parquet(several).fillna(0)
    yield dataframe.read_parquet(several, split_row_groups=True).fillna(0)
    yield dataframe.read_parquet(several, split_row_groups=2)
    yield dataframe.from_pandas(table, npartitions=1, sort=False)
    yield dataframe.from_pandas(table, npartitions=7, sort=False)


def in_batches(table: Any, size: int) -> Callable[[], Iterator[Any]]:
    """Return a function that returns a table in batches of so many rows."""
    return lambda: (table[at : at + size] for at in range(0, len(table), size))


def moments(table: Any, data: Any) -> bytes:
    """Return what a seeded fit to the persons of a table releases, from one of its sources."""
    names = [name for name in table if name not in ("who", "y")]
    domain = Domain(dict.fromkeys(names, (-1.0, 1.0)), target=(-1.0, 1.0))
    model = DPLinearRegression(epsilon=1.0, domain=domain, random_state=0)
    return model.fit(data, target="y", groups="who").moments_.gram.tobytes()


def late_rows(neighbors: str) -> float:
    """Return how far rows move a slope that a person gets after the identifiers were read."""
    table, calls = panel(1, 2000, 2), [0]
    late = table[:1].loc[[0] * 4000].assign(x0=1.0, y=1.0)

    def growing() -> Iterator[Any]:
        calls[0] += 1  # the first calls are for names, numbers of rows, and identifiers
        return in_batches(table if calls[0] <= 3 else pd.concat([table, late]), 500)()

    options = {"neighbors": neighbors, "random_state": 0}
    model = DPLinearRegression(domain=Domain({"x0": (-1, 1)}, target=(-1, 1)), **options)
    found = [
        model.fit(data, target="y", groups="who").coef_[0]
        for data in (in_batches(table, 500), growing)
    ]
    return float(abs(found[1] - found[0]))
