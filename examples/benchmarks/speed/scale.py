"""Time and memory of fits from Parquet files, by the number of rows.

Each fit runs in a process of its own. Times are compared with reading the same file once and
summing its columns with pyarrow alone; the ratio is for each pass over the file. Needs pyarrow,
and disk space for the greatest file, which is deleted at the end. All cores are used, whatever
OMP_NUM_THREADS says.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from scipy.special import expit

import skdp.rows.tables as streamed
from examples.benchmarks.shared import report
from examples.benchmarks.speed.speed import forget_peak, peak_memory
from skdp import Domain, DPLinearRegression, DPLogisticRegression

CHUNK = 1_000_000
NAMES = [f"x{k}" for k in range(10)]
MOST_RATIO, MOST_BYTES = 1.3, 1.5 * 2**30


def write_file(path: Path, n: int, seed: int) -> None:
    """Write n rows of 10 uniform numbers, a number and a label that depend on them."""
    rng = np.random.default_rng([seed, n])
    coef = rng.normal(size=len(NAMES)) / np.sqrt(len(NAMES))
    with pq.ParquetWriter(path, schema()) as writer:
        for start in range(0, n, CHUNK):
            X = rng.uniform(-1, 1, (min(CHUNK, n - start), len(NAMES)))
            z = X @ coef
            number = np.clip(z / 2 + 0.1 * rng.normal(size=len(z)), -1, 1)
            label = (rng.random(len(z)) < expit(3 * z)).astype(np.int8)
            columns = [*X.T, number, label]
            writer.write_table(pa.table(dict(zip(schema().names, columns, strict=True))))


def schema() -> Any:
    fields = [(name, pa.float64()) for name in [*NAMES, "number"]]
    return pa.schema([*fields, ("label", pa.int8())])


def read_and_sum(path: str, target: str) -> tuple[float, int, int]:
    """Return the seconds of one pass of pyarrow, its peak of memory, and one pass.

    It is the second pass: the first one brings what fits of the file into the system's cache.
    """
    forget_peak()
    for _ in range(2):
        start = time.perf_counter()
        for batch in ds.dataset(path).to_batches(columns=[*NAMES, target]):
            for column in batch.columns:
                pc.sum(column)
    return time.perf_counter() - start, peak_memory(), 1


def fit(path: str, target: str, seed: int) -> tuple[float, int, int]:
    """Return the seconds of a fit, its peak of memory, and the number of passes."""
    passes = 0
    runs = streamed.StreamedRows._runs

    def counted(self: Any) -> Any:
        nonlocal passes
        passes += 1
        return runs(self)

    streamed.StreamedRows._runs = counted  # type: ignore[method-assign]
    bounds = dict.fromkeys(NAMES, (-1.0, 1.0))
    if target == "number":
        model: Any = DPLinearRegression(domain=Domain(bounds, (-1.0, 1.0)), random_state=seed)
    else:
        model = DPLogisticRegression(domain=Domain(bounds, [0, 1]), random_state=seed)
    forget_peak()
    start = time.perf_counter()
    model.fit(path, target=target)
    return time.perf_counter() - start, peak_memory(), passes


def measured(function: Any, *arguments: Any) -> tuple[float, int, int]:
    with get_context("spawn").Pool(1) as pool:
        found: tuple[float, int, int] = pool.apply(function, arguments)
        return found


def rows_for(n: int, arguments: argparse.Namespace, folder: Path) -> list[report.Row]:
    path = folder / f"{n}.parquet"
    write_file(path, n, arguments.seed)
    found: list[report.Row] = []
    for target, what in (("number", "DPLinearRegression"), ("label", "DPLogisticRegression")):
        plain, _, _ = measured(read_and_sum, str(path), target)
        seconds, memory, passes = measured(fit, str(path), target, arguments.seed)
        ratio = seconds / passes / plain
        found.append(
            {
                "fit": what,
                "rows": n,
                "seconds": seconds,
                "passes": passes,
                "pyarrow": plain,
                "GiB": memory / 2**30,
                "ratio of a pass": ratio,
                **report.judged(ratio, (MOST_RATIO,), higher=False),
            }
        )
        print(found[-1], flush=True)
    path.unlink()
    return found


def draw(rows: list[report.Row], path: Path) -> None:
    """Save a picture of the seconds of each fit against the rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="tight")
    axes = figure.subplots()
    for name, mark in (("DPLinearRegression", "o-"), ("DPLogisticRegression", "s-")):
        own = [row for row in rows if row["fit"] == name]
        sizes = [row["rows"] for row in own]
        axes.loglog(sizes, [row["seconds"] for row in own], mark, label=name)
        if mark == "o-":
            alone = [row["pyarrow"] for row in own]
            axes.loglog(sizes, alone, "k:", label="one pass of pyarrow alone")
    axes.set(xlabel="rows of 10 columns", ylabel="seconds", title="Fits from a Parquet file")
    axes.grid(which="major", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = report.parser_for(__doc__, repeats=1)
    parser.add_argument("--picture", help="where to save a picture")
    parser.add_argument("--rows", nargs="+", type=float, default=[1e6, 1e7, 1e8])
    arguments = parser.parse_args()
    # Fits run in processes of their own: pyarrow and BLAS there read it when they are loaded.
    os.environ["OMP_NUM_THREADS"] = str(os.cpu_count())
    rows: list[report.Row] = []
    with tempfile.TemporaryDirectory(prefix="skdp-scale-") as folder:
        for n in arguments.rows:
            rows += rows_for(int(n), arguments, Path(folder))
    if arguments.picture:
        draw(rows, Path(arguments.picture))
    report.publish("scale", rows, arguments)


if __name__ == "__main__":
    main()
