"""Time and memory of a private linear fit against the two matrix products that it needs.

A fit and "X.T @ X, X.T @ y" on the same array by turns, with the same number of threads; also on
an array in a file. ``mechanism="matrix"`` makes one release, and the default has a scaling stage.
The memory of a fit is what it adds to the peak of a process of its own that holds the data. Needs
no data files.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from examples.benchmarks.speed.speed import forget_peak, in_a_child, peak_memory, seconds
from skdp import Domain
from skdp._compiled import load_kernels
from skdp.linear_model.linear import DPLinearRegression

SIZES = [(1_000_000, 100)]
MEMORY_SIZES = [(100_000, 100), (1_000_000, 100)]
MOST_TIME = 1.3  # in units of the two products


def draw_data(n: int, d: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return rows uniform on [-1, 1]^d and a target in [-1, 1] from a linear model."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.random((n, d))
    # In place: a temporary would raise the peak of memory that a fit is measured from.
    X *= 2
    X -= 1
    y = X @ rng.normal(size=d)
    y += rng.standard_normal(n)
    return X, np.clip(y / (3 * np.sqrt(d)), -1, 1)


def estimator(d: int, seed: int, mechanism: str = "auto") -> Any:
    domain = Domain.unit_box(d, target=(-1, 1))
    return DPLinearRegression(domain=domain, mechanism=mechanism, random_state=seed)


def products(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    return X.T @ X, X.T @ y


def times(model: Any, X: FloatArray, y: FloatArray, repeats: int) -> dict[str, FloatArray]:
    """Return the seconds of fits and of products, taken by turns after one of each."""
    model.fit(X[:1000], y[:1000])
    products(X[:1000], y[:1000])
    found: dict[str, list[float]] = {"fit": [], "products": []}
    for repetition in range(repeats):
        found["fit"].append(seconds(lambda: model.fit(X, y)))
        found["products"].append(seconds(lambda: products(X, y)))
        print(f"\r{repetition + 1}/{repeats}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {name: np.array(values) for name, values in found.items()}


def time_row(
    where: str, mechanism: str, X: FloatArray, y: FloatArray, arguments: argparse.Namespace
) -> report.Row:
    model = estimator(X.shape[1], arguments.seed, mechanism)
    found = times(model, X, y, arguments.repeats)
    low, ratio, high = report.quartiles(found["fit"] / found["products"])
    return {
        "what": f"seconds, n={len(X)}, d={X.shape[1]}, {where}, {mechanism}",
        **{name: float(np.median(values)) for name, values in found.items()},
        "ratio": ratio,
        "lower quartile": low,
        "upper quartile": high,
        **report.judged(ratio, (MOST_TIME,), higher=False),
    }


def time_rows(n: int, d: int, arguments: argparse.Namespace) -> list[report.Row]:
    """Return the times of an array in memory and of the same array in a file."""
    X, y = draw_data(n, d, arguments.seed)
    with threadpool_limits(arguments.threads), tempfile.TemporaryDirectory() as folder:
        kept = [time_row("in memory", name, X, y, arguments) for name in ("matrix", "auto")]
        path = Path(folder) / "X.npy"
        np.save(path, X)
        del X
        return [*kept, time_row("memmap", "matrix", np.load(path, mmap_mode="r"), y, arguments)]


def extra_memory(n: int, d: int, seed: int, threads: int) -> float:
    """Return how far a fit raises the peak of this process's memory, in megabytes."""
    X, y = draw_data(n, d, seed)
    model = estimator(d, seed)
    with threadpool_limits(threads):
        # Imports are not the fit's memory.
        load_kernels(math.inf)
        model.fit(X[:1000], y[:1000])
        forget_peak()
        before = peak_memory()
        model.fit(X, y)
    return (peak_memory() - before) / 1e6


def memory_row(n: int, d: int, arguments: argparse.Namespace) -> report.Row:
    extra = in_a_child(extra_memory, n, d, arguments.seed, arguments.threads)
    return {"what": f"megabytes, n={n}, d={d}", "fit": extra, "ratio": extra / (8e-6 * n * d)}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=7)
    parser.add_argument("--threads", type=int, default=1, help="of BLAS and OpenMP, for both")
    sizes = ["x".join(map(str, size)) for size in SIZES]
    parser.add_argument("--sizes", nargs="+", default=sizes, help="rows x columns")
    arguments = parser.parse_args()
    rows: list[report.Row] = []
    for size in arguments.sizes:
        n, d = map(int, size.split("x"))
        rows += time_rows(n, d, arguments)
    rows += [memory_row(n, d, arguments) for n, d in MEMORY_SIZES]
    report.publish("linear_speed", rows, arguments)


if __name__ == "__main__":
    main()
