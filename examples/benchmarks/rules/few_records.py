"""Errors of models of few records over those of the trivial model, on artificial tables.

The tables are those of the method ``plan``, with 1, 4 or 12 columns, a third of them levels. A fit
warns if there are fewer than FEWEST / epsilon records for each column and the intercept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.benchmarks.shared import report
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)

COUNTS = (2, 5, 10, 20, 40, 80)  # n epsilon / (columns + 1)
MODELS: dict[Any, Any] = {
    DPLogisticRegression: ["no", "yes"],
    DPCoordinateDescentClassifier: ["no", "yes"],
    DPHuberRegressor: (0, 100),
    DPLinearRegression: (0, 100),
    DPCoordinateDescentRegressor: (0, 100),
}


def ratio(model: Any, columns: int, epsilon: float, count: int, repeats: int) -> dict[str, float]:
    """Return the median error of a model over that of the trivial one."""
    names = {f"x{k}": (0, 10) if k % 3 else ["a", "b", "c"] for k in range(columns)}
    private = model(epsilon=epsilon, domain=Domain(names, target=MODELS[model]))
    n = int(count * (columns + 1) / epsilon)
    error = private.plan(n, inference=0, repeats=repeats).error
    return {"ratio": error["private"] / error["trivial"]}


def main() -> None:
    """Print the median and the least of the ratios for each estimator and count."""
    arguments = report.parser_for(__doc__, repeats=7).parse_args()
    tasks = [
        (model, columns, epsilon, count, arguments.repeats)
        for model in MODELS
        for columns in (1, 4, 12)
        for epsilon in (0.1, 1.0)
        for count in COUNTS
    ]
    found = report.stacked(report.run(ratio, tasks, arguments.jobs, "tables"))["ratio"]
    rows = []
    for model in MODELS:
        own = {count: [] for count in COUNTS}
        for task, value in zip(tasks, found, strict=True):
            if task[0] is model:
                own[task[3]].append(value)
        cells = {str(k): f"{np.median(v):.2f} ({np.min(v):.2f})" for k, v in own.items()}
        rows.append({"median (least)": model.__name__} | cells)
    print(report.table(rows))


if __name__ == "__main__":
    main()
