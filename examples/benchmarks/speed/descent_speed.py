"""Time and memory of private coordinate descent against what its steps cannot do without.

A step along one column needs a pass over it and, for the logistic loss, the probability of every
record: here one ``scipy.special.expit`` and one product of a column with a vector, per step. A
fit and this yardstick are timed by turns in the same process. Then the time per record, column
and pass over a range of each; columns of levels; and how far a fit raises the peak of memory of a
process of its own that holds the data. Needs no data files.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from examples.benchmarks.speed.speed import draw_data, forget_peak, in_a_child, peak_memory
from skdp import Domain
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)

SIZE = (100_000, 50, 30)  # records, columns, passes
RANGES = {
    "n": [(10_000, 20, 5), (100_000, 20, 5), (1_000_000, 20, 5)],
    "d": [(100_000, 10, 10), (100_000, 30, 10), (100_000, 100, 10)],
    "passes": [(100_000, 20, 5), (100_000, 20, 20), (100_000, 20, 80)],
}
# The columns of the Adult data: six numbers, and levels of eight columns.
NUMBERS, LEVELS = 6, (9, 16, 7, 15, 6, 5, 2, 42)
MEMORY_SIZE = (1_000_000, 20, 2)
# In units of the yardstick, and in numbers of 8 bytes per record beside the encoded columns.
MOST_TIME, MOST_MEMORY = 1.5, 4.0
CLASSIFIER, REGRESSOR = "classifier", "regressor"
NUMBER_BYTES = 4


def estimator(kind: str, domain: Domain, passes: int, seed: int) -> Any:
    """Return an estimator; its noise is calibrated once and remembered."""
    made = DPCoordinateDescentClassifier if kind == CLASSIFIER else DPCoordinateDescentRegressor
    classes = {"classes": [0, 1]} if kind == CLASSIFIER else {}
    settings = {"epsilon": 1.0, "delta": 1e-10, "n_passes": passes, "mechanism": "gaussian"}
    return made(domain=domain, random_state=seed, **settings, **classes)


def domain_of(kind: str, d: int) -> Domain:
    return Domain.unit_box(d, target=None if kind == CLASSIFIER else (0, 1))


def seconds(function: Callable[[], Any]) -> float:
    """Return processor time: on one thread that of an idle machine, also on a busy one."""
    start = time.process_time()
    function()
    return time.process_time() - start


def yardstick(kind: str, column: FloatArray, log_odds: FloatArray) -> None:
    """Do what one step cannot do without."""
    if kind == CLASSIFIER:
        expit(log_odds)
    column @ log_odds


def ratios(kind: str, model: Any, X: Any, y: Any, steps: int, repeats: int) -> FloatArray:
    """Return pairs: seconds of a fit, and of the yardstick times the number of steps."""
    rng = np.random.default_rng(0)
    column, log_odds = rng.uniform(-1, 1, len(y)), rng.standard_normal(len(y))
    model.fit(X[:1000], y[:1000])  # calibrates
    found = []
    for repetition in range(repeats):
        fit = seconds(lambda: model.fit(X, y))
        one = [seconds(lambda: yardstick(kind, column, log_odds)) for _ in range(30)]
        found.append((fit, steps * float(np.median(one))))
        print(f"\r{kind}: {repetition + 1}/{repeats}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return np.array(found)


def row(what: str, found: FloatArray, most: float | None) -> report.Row:
    low, ratio, high = report.quartiles(found[:, 0] / found[:, 1])
    fit, needed = np.median(found, axis=0)
    return {
        "what": what,
        "fit": float(fit),
        "steps' least": float(needed),
        "ratio": ratio,
        "lower quartile": low,
        "upper quartile": high,
        **report.judged(ratio, None if most is None else (most,), higher=False),
    }


def time_row(kind: str, size: tuple[int, int, int], arguments: argparse.Namespace) -> report.Row:
    """Return the time of fits to numbers in units of the yardstick."""
    n, d, passes = size
    X, _, y = draw_data("logistic", n, d, arguments.seed)
    model = estimator(kind, domain_of(kind, d), passes, arguments.seed)
    found = ratios(kind, model, X, y, passes * d, arguments.repeats)
    most = MOST_TIME if (kind, size) == (CLASSIFIER, SIZE) else None
    return row(f"{kind}, n={n}, d={d}, passes={passes}", found, most)


def levels_row(n: int, passes: int, arguments: argparse.Namespace) -> report.Row:
    """Return the time of fits to encoded rows as in the Adult data."""
    rng = np.random.default_rng(arguments.seed)
    names = {f"c{k}": [f"l{i}" for i in range(size)] for k, size in enumerate(LEVELS)}
    domain = Domain({f"x{k}": (-1, 1) for k in range(NUMBERS)} | names).encoded
    parts = [rng.uniform(-1, 1, (n, NUMBERS))]
    parts += [np.eye(size)[rng.integers(0, size, n)][:, 1:] for size in LEVELS]
    X, y = np.hstack(parts), rng.integers(0, 2, n)
    model = estimator(CLASSIFIER, domain, passes, arguments.seed)
    steps = passes * (1 + NUMBERS + len(LEVELS))
    found = ratios(CLASSIFIER, model, X, y, steps, arguments.repeats)
    return row(f"{NUMBERS} numbers, {len(LEVELS)} columns of levels, n={n}", found, None)


def line_row(name: str, size: tuple[int, int, int], arguments: argparse.Namespace) -> report.Row:
    """Return the nanoseconds per record, column and pass."""
    n, d, passes = size
    X, _, y = draw_data("logistic", n, d, arguments.seed)
    model = estimator(CLASSIFIER, domain_of(CLASSIFIER, d), passes, arguments.seed)
    model.fit(X[:1000], y[:1000])
    fit = float(np.median([seconds(lambda: model.fit(X, y)) for _ in range(arguments.repeats)]))
    what = f"time along {name}: n={n}, d={d}, passes={passes}"
    return {"what": what, "fit": fit, "ns each": 1e9 * fit / (n * d * passes)}


def extra_memory(kind: str, n: int, d: int, passes: int, seed: int) -> float:
    """Return how far a fit raises the peak of this process's memory, in bytes."""
    X, _, y = draw_data("logistic", n, d, seed)
    model = estimator(kind, domain_of(kind, d), passes, seed)
    model.fit(X[:1000], y[:1000])  # imports are not the fit's memory
    forget_peak()
    before = peak_memory()
    model.fit(X, y)
    return float(peak_memory() - before)


def memory_row(kind: str, arguments: argparse.Namespace) -> report.Row:
    n, d, passes = MEMORY_SIZE
    extra = in_a_child(extra_memory, kind, n, d, passes, arguments.seed)
    doubles = (extra - NUMBER_BYTES * n * d) / (8 * n)
    return {
        "what": f"{kind}, numbers of 8 bytes per record beside the columns, n={n}, d={d}",
        "ratio": doubles,
        "of X": extra / (8 * n * d),
        **report.judged(doubles, (MOST_MEMORY,), higher=False),
    }


def main() -> None:
    arguments = report.parser_for(__doc__, repeats=7).parse_args()
    with threadpool_limits(1):
        rows = [time_row(kind, SIZE, arguments) for kind in (CLASSIFIER, REGRESSOR)]
        rows.append(levels_row(100_000, 30, arguments))
        rows += [line_row(name, size, arguments) for name in RANGES for size in RANGES[name]]
    rows += [memory_row(kind, arguments) for kind in (CLASSIFIER, REGRESSOR)]
    report.publish("descent_speed", rows, arguments)


if __name__ == "__main__":
    main()
