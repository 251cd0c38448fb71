"""Time and memory of a fit against scikit-learn's.

Both estimators fit the same rows in the same process by turns, with the same number of threads.
A linear regression is compared with the products X'X and X'y alone. Mixed tables have 8 numbers and
6 columns of 5 to 40 levels; scikit-learn gets the sparse indicators ready made. The memory of a fit
is what it adds to the peak of a process of its own that holds the data. In the case "curves" a
model with 10 knots for each number is compared with the linear one. The cases "predict" and
"frame" are predictions for an array and for a DataFrame. Needs no data files.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack
from scipy.special import expit
from sklearn.linear_model import HuberRegressor, LogisticRegression
from threadpoolctl import threadpool_limits

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression
from skdp._compiled import load_kernels

CASES = ["logistic:1000000x100", "logistic:100000x100", "mixed:1000000x14", "huber:100000x20"]
CASES += ["linear:1000000x100", "scaled:1000000x100", "logistic:569x30", "curves:1000000x50"]
CASES += ["predict:100000x10", "frame:100000x10"]
PREDICTIONS = ("predict", "frame")
LEVELS = (5, 8, 12, 20, 30, 40)
FITS = {
    "logistic": "DPLogisticRegression",
    "mixed": "DPLogisticRegression; levels",
    "huber": "DPHuberRegressor",
    "linear": 'DPLinearRegression(mechanism="matrix")',
    "scaled": "DPLinearRegression",
    "curves": "DPLogisticRegression(additive=10)",
    "predict": "predictions for an array",
    "frame": "predictions for a DataFrame",
}
# Greatest ratios of times.
MOST = {"logistic": 0.5, "mixed": 0.5, "huber": 0.5, "linear": 1.1, "scaled": 2.2, "curves": 3.0}
MOST |= dict.fromkeys(PREDICTIONS, 1.5)
OURS, THEIRS = "skdp", "scikit-learn"
STATUS = Path("/proc/self/status")
MOST_MEMORY = 1.5  # in units of the data


class Products:
    """The products of a linear regression, by BLAS alone."""

    def fit(self, X: FloatArray, y: FloatArray) -> Products:
        """Multiply the table by itself and by the target."""
        self.gram, self.cross = X.T @ X, X.T @ y
        return self


def draw_data(model: str, n: int, d: int, seed: int) -> tuple[Any, Any, Any]:
    """Return a table, the same table for scikit-learn, and a target.

    Numbers are uniform on [-1, 1]; the target depends on a linear predictor.
    """
    rng = np.random.default_rng([seed, n, d])
    p = d - len(LEVELS) if model == "mixed" else d
    X = rng.random((n, p))
    # In place: a temporary would raise the peak of memory that a fit is measured from.
    X *= 2
    X -= 1
    z = 3 * (X @ (rng.normal(size=p) / np.sqrt(p)))
    if model == "frame":
        X = pd.DataFrame(X, columns=[f"x{k}" for k in range(p)])
    table, theirs = X, X
    if model == "mixed":
        codes = [rng.integers(0, m, n) for m in LEVELS]
        z += sum(rng.normal(size=m)[own] / 2 for m, own in zip(LEVELS, codes, strict=True))
        ones, stops = np.ones(n), np.arange(n + 1)
        theirs = hstack([csr_array(X), *(csr_array((ones, own, stops)) for own in codes)]).tocsr()
        table = pd.DataFrame(X, columns=[f"x{k}" for k in range(p)])
        for k, (m, own) in enumerate(zip(LEVELS, codes, strict=True)):
            table[f"c{k}"] = pd.Categorical.from_codes(own, [f"level {j}" for j in range(m)])
    if model in ("logistic", "mixed", "curves", *PREDICTIONS):
        return table, theirs, (rng.random(n) < expit(z)).astype(int)
    return table, theirs, np.clip(z / 4 + rng.normal(size=n) / 10, -1, 1)


def estimator(name: str, model: str, d: int, seed: int) -> Any:
    if name == THEIRS and model != "curves":
        by_model: dict[str, Any] = {"huber": HuberRegressor, "linear": Products}
        by_model["scaled"] = Products
        return by_model.get(model, LogisticRegression)()
    if model in ("logistic", "mixed", "curves", *PREDICTIONS):
        domain = Domain.unit_box(d)
        if model == "frame":
            domain = Domain({f"x{k}": (-1, 1) for k in range(d)})
        if model == "mixed":
            columns: dict[str, Any] = {f"x{k}": (-1, 1) for k in range(d - len(LEVELS))}
            for k, m in enumerate(LEVELS):
                columns[f"c{k}"] = [f"level {j}" for j in range(m)]
            domain = Domain(columns)
        knots = 10 if model == "curves" and name == OURS else None
        facts: dict[str, Any] = {"classes": [0, 1], "random_state": seed, "additive": knots}
        return DPLogisticRegression(domain=domain, **facts)
    domain = Domain.unit_box(d, target=(-1, 1))
    if model == "huber":
        return DPHuberRegressor(domain=domain, random_state=seed)
    mechanism = "matrix" if model == "linear" else "auto"
    return DPLinearRegression(domain=domain, mechanism=mechanism, random_state=seed)


def prepared(name: str, model: str, d: int, seed: int, X: Any, y: Any) -> Callable[[], Any]:
    """Return what is measured: a fit, or the prediction of a model that is fitted before."""
    made = estimator(name, model, d, seed)
    return partial(made.fit(X, y).predict, X) if model in PREDICTIONS else partial(made.fit, X, y)


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def fit_times(
    model: str, n: int, d: int, threads: int, arguments: argparse.Namespace
) -> dict[str, float]:
    """Return the median seconds of the fits, taken by turns after one of each to warm up."""
    X, theirs, y = draw_data(model, n, d, arguments.seed)
    times: dict[str, list[float]] = {OURS: [], THEIRS: []}
    with threadpool_limits(threads):
        for name in times:
            own = X if name == OURS else theirs
            prepared(name, model, d, arguments.seed, own, y)()
        for repetition in range(arguments.repeats):
            for name, found in times.items():
                own = X if name == OURS else theirs
                found.append(seconds(prepared(name, model, d, arguments.seed + repetition, own, y)))
            print(
                f"\r{model}, n={n}, d={d}: {repetition + 1}/{arguments.repeats}",
                end="",
                file=sys.stderr,
            )
    print(file=sys.stderr)
    return {name: float(np.median(found)) for name, found in times.items()}


def extra_memory(name: str, model: str, n: int, d: int, seed: int, threads: int) -> float:
    """Return how far a fit raises the peak of this process's memory, in units of X."""
    X, theirs, y = draw_data(model, n, d, seed)
    own = X if name == OURS else theirs
    with threadpool_limits(threads):
        # Imports are not the fit's memory.
        load_kernels(math.inf)
        estimator(name, model, d, seed).fit(own[:1000], y[:1000])
        measured = prepared(name, model, d, seed, own, y)
        forget_peak()
        before = peak_memory()
        measured()
    size = X.nbytes if isinstance(X, np.ndarray) else int(X.memory_usage(index=False).sum())
    return (peak_memory() - before) / size


def forget_peak() -> None:
    """Let the peak start anew from what is held now, where the system (Linux) can do that."""
    if STATUS.exists():
        (STATUS.parent / "clear_refs").write_text("5")


def peak_memory() -> int:
    """Return the greatest memory of this process so far, in bytes."""
    if STATUS.exists():
        # Not ru_maxrss, which on Linux a new process inherits from the one that started it.
        lines = STATUS.read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_a_child(function: Callable[..., float], *args: Any) -> float:
    """Return ``function(*args)`` from a fresh process, whose peak starts low."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, args)


def fit_row(case: str, arguments: argparse.Namespace) -> report.Row:
    """Return times and memory with the first number of threads; the ratio of times with others."""
    model, size = case.split(":")
    n, d = map(int, size.split("x"))
    threads, *others = (count or os.cpu_count() or 1 for count in arguments.threads)
    times = fit_times(model, n, d, threads, arguments)
    ratio = times[OURS] / times[THEIRS]
    setting = (model, n, d, arguments.seed, threads)
    memory = {name: in_a_child(extra_memory, name, *setting) for name in times}
    row = {
        "fit": FITS[model],
        "rows": n,
        "columns": d,
        **times,
        "ratio": ratio,
        **report.judged(ratio, (MOST[model],), higher=False),
        **{f"memory of {name}": value for name, value in memory.items()},
        "memory reached": report.verdict(memory[OURS], MOST_MEMORY, None, higher=False),
    }
    for count in others:
        times = fit_times(model, n, d, count, arguments)
        row[f"ratio, threads: {count}"] = times[OURS] / times[THEIRS]
    return row


def main() -> None:
    parser = report.parser_for(__doc__, repeats=5)
    threads = "of BLAS, for both; 0: all cores; after the first: ratios alone"
    parser.add_argument("--threads", nargs="+", type=int, default=[0], help=threads)
    parser.add_argument("--cases", nargs="+", default=CASES, help="model:rows x columns")
    arguments = parser.parse_args()
    rows = []
    for case in arguments.cases:
        rows.append(fit_row(case, arguments))
        print(rows[-1], flush=True)
    report.publish("speed", rows, arguments)


if __name__ == "__main__":
    main()
