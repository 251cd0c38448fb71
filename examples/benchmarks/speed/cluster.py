"""Fits on two local worker processes of dask against fits in one process on the same cores.

The table is a dask array, which the workers hold. A round of coordinate descent is one sum over all
rows: its overhead is the difference of the times of a fit, divided by the number of rounds, for a
table so small that the sums take no time. A folder of Parquet files is read by the workers, and by
one process. Needs dask, distributed and pyarrow.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster, wait
from threadpoolctl import threadpool_limits

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from examples.benchmarks.speed.speed import seconds
from skdp import (
    Domain,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)

COLUMNS, PASSES, SMALL, WORKERS = 20, 10, 20_000, 2
MOST_RATIO, MOST_ROUND = 1.2, 0.015


def draw_data(n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return uniform numbers, a number that depends on them, and a label."""
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-1, 1, (n, COLUMNS))
    z = X @ rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    return X, np.clip(z / 2, -1, 1), (z + rng.logistic(size=n) / 3 > 0).astype(np.int64)


def on_workers(client: Client, *arrays: FloatArray) -> list[Any]:
    """Return dask arrays of eight partitions that the workers hold."""
    n = -(-len(arrays[0]) // 8)
    found = [client.persist(da.from_array(a, chunks=(n, *a.shape[1:]))) for a in arrays]
    wait(found)
    return found


def models(seed: int) -> dict[str, Any]:
    domain = Domain.unit_box(COLUMNS, target=(-1, 1))
    logistic = DPLogisticRegression(
        domain=Domain.unit_box(COLUMNS), classes=[0, 1], random_state=seed
    )
    return {
        "DPLinearRegression": DPLinearRegression(domain=domain, random_state=seed),
        "DPHuberRegressor": DPHuberRegressor(domain=domain, random_state=seed),
        "DPLogisticRegression": logistic,
    }


def medians(model: Any, pairs: dict[str, tuple[Any, Any]], repeats: int) -> dict[str, float]:
    """Return the median seconds of fits of several tables, taken by turns after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in pairs}
    for _ in range(repeats + 1):
        for name, pair in pairs.items():
            times[name].append(seconds(partial(model.fit, *pair)))
    return {name: float(np.median(values[1:])) for name, values in times.items()}


def compared(client: Client, arguments: argparse.Namespace) -> list[report.Row]:
    """Return the times of fits of a large table."""
    n = int(arguments.rows)
    X, number, label = draw_data(n, arguments.seed)
    dask_X, dask_number, dask_label = on_workers(client, X, number, label)
    found = []
    for name, model in models(arguments.seed).items():
        is_label = name == "DPLogisticRegression"
        y, dask_y = (label, dask_label) if is_label else (number, dask_number)
        own = medians(model, {"dask": (dask_X, dask_y), "memory": (X, y)}, arguments.repeats)
        ratio = own["dask"] / own["memory"]
        judged = report.judged(ratio, (MOST_RATIO,), higher=False)
        found.append({"what": name, "rows": n, **own, "ratio": ratio, **judged})
        print(found[-1], flush=True)
    return found


def from_files(arguments: argparse.Namespace) -> list[report.Row]:
    """Return the times of fits of one table in eight Parquet files, and in memory."""
    n, found = int(arguments.rows), []
    X, number, label = draw_data(n, arguments.seed)
    names = [f"x{j}" for j in range(COLUMNS)]
    whole = pd.DataFrame(X, columns=names).assign(number=number, label=label)
    with TemporaryDirectory() as folder:
        for k, rows in enumerate(np.array_split(np.arange(n), 8)):
            whole.iloc[rows].to_parquet(Path(folder) / f"{k}.parquet", row_group_size=2**17)
        sources = {"dask": dd.read_parquet(folder), "parquet": folder, "memory": whole}
        for name, model in models(arguments.seed).items():
            target = "label" if name == "DPLogisticRegression" else "number"
            bounds = None if target == "label" else (-1, 1)
            model.set_params(domain=Domain(dict.fromkeys(names, (-1.0, 1.0)), target=bounds))
            fit = partial(model.fit, target=target)
            times: dict[str, list[float]] = {source: [] for source in sources}
            for _ in range(arguments.repeats + 1):
                for source, table in sources.items():
                    X = table[[*names, target]] if source != "parquet" else table
                    times[source].append(seconds(partial(fit, X)))
            own = {source: float(np.median(values[1:])) for source, values in times.items()}
            speeds = {f"{source} rows a second": n / own[source] for source in own}
            ratio = own["dask"] / own["parquet"]
            found.append({"what": f"{name}; Parquet", "rows": n, **own, **speeds, "ratio": ratio})
            print(found[-1], flush=True)
    return found


def round_overhead(client: Client, arguments: argparse.Namespace) -> report.Row:
    """Return the additional seconds of each round of a coordinate descent on the workers."""
    X, y, _ = draw_data(SMALL, arguments.seed)
    model = DPCoordinateDescentRegressor(
        domain=Domain.unit_box(COLUMNS, target=(-1, 1)),
        n_passes=PASSES,
        random_state=arguments.seed,
    )
    pairs = {"dask": tuple(on_workers(client, X, y)), "memory": (X, y)}
    own = medians(model, pairs, arguments.repeats)
    overhead = (own["dask"] - own["memory"]) / (PASSES * COLUMNS)
    what = f"overhead of a round, {PASSES} passes over {COLUMNS} columns"
    judged = report.judged(overhead, (MOST_ROUND,), higher=False)
    return {"what": what, "rows": SMALL, **own, "ratio": overhead, **judged}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=3)
    parser.add_argument("--rows", type=float, default=1e7)
    arguments = parser.parse_args()
    with (
        threadpool_limits(WORKERS),  # of the fits in memory
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        rows = [round_overhead(client, arguments), *compared(client, arguments)]
        rows += from_files(arguments)
    report.publish("cluster", rows, arguments)


if __name__ == "__main__":
    main()
