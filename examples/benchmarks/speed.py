"""Time and memory of a fit against scikit-learn's.

Both estimators fit the same rows in the same process by turns, with the same number of threads.
The memory of a fit is what it adds to the peak of a process of its own that holds the data.
Needs no data files.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import report
from report import FloatArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from skdp import Domain, DPLogisticRegression

SIZES = [(1_000_000, 100), (100_000, 10)]
OURS, THEIRS = "skdp", "scikit-learn"
STATUS = Path("/proc/self/status")
MOST_MEMORY = 2.0  # in units of the data


def draw_data(n: int, d: int, seed: int) -> tuple[FloatArray, Any]:
    """Return rows uniform on [-1, 1]^d and labels 0 or 1 from a logistic model."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.random((n, d))
    # In place: a temporary would raise the peak of memory that a fit is measured from.
    X *= 2
    X -= 1
    coef = rng.normal(size=d) / np.sqrt(d)
    return X, (rng.random(n) < expit(3 * (X @ coef))).astype(int)


def estimator(name: str, d: int, seed: int) -> Any:
    if name == THEIRS:
        return LogisticRegression()
    return DPLogisticRegression(domain=Domain.unit_box(d), classes=[0, 1], random_state=seed)


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def fit_times(n: int, d: int, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Return the seconds of the fits, taken by turns after one of each to warm up."""
    X, y = draw_data(n, d, arguments.seed)
    times: dict[str, list[float]] = {OURS: [], THEIRS: []}
    with threadpool_limits(arguments.threads):
        for name in times:
            estimator(name, d, arguments.seed).fit(X[:1000], y[:1000])
        for repetition in range(arguments.repeats):
            for name, found in times.items():
                model = estimator(name, d, arguments.seed + repetition)
                found.append(seconds(lambda model=model: model.fit(X, y)))
            print(f"\rn={n}, d={d}: {repetition + 1}/{arguments.repeats}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return times


def extra_memory(name: str, n: int, d: int, seed: int, threads: int) -> float:
    """Return how far a fit raises the peak of this process's memory, in units of X."""
    X, y = draw_data(n, d, seed)
    with threadpool_limits(threads):
        estimator(name, d, seed).fit(X[:1000], y[:1000])  # imports are not the fit's memory
        forget_peak()
        before = peak_memory()
        estimator(name, d, seed).fit(X, y)
    return (peak_memory() - before) / X.nbytes


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


def fit_rows(n: int, d: int, arguments: argparse.Namespace) -> list[report.Row]:
    times = {name: np.median(t) for name, t in fit_times(n, d, arguments).items()}
    setting = (n, d, arguments.seed, arguments.threads)
    memory = {name: in_a_child(extra_memory, name, *setting) for name in times}
    what = f"n={n}, d={d}"
    lines = [("seconds", times, float(times[THEIRS])), ("extra memory / X", memory, MOST_MEMORY)]
    return [
        {
            "what": f"{what}: {unit}",
            **{name: float(value) for name, value in values.items()},
            **report.judged(float(values[OURS]), (most,), higher=False),
        }
        for unit, values, most in lines
    ]


def main() -> None:
    parser = report.parser_for(__doc__, repeats=5)
    parser.add_argument("--threads", type=int, default=1, help="of BLAS and OpenMP, for both")
    sizes = ["x".join(map(str, size)) for size in SIZES]
    parser.add_argument("--sizes", nargs="+", default=sizes, help="rows x columns")
    arguments = parser.parse_args()
    rows = []
    for size in arguments.sizes:
        n, d = map(int, size.split("x"))
        rows += fit_rows(n, d, arguments)
    report.publish("speed", rows, arguments)


if __name__ == "__main__":
    main()
