"""Errors of simulated curves with and without the declaration that they rise.

The effect of a number in [0, 1] rises: as a root, as an S, or as a line. A second number has no
effect. The error is the root of the mean square of the difference of the fitted and the true curve,
each less its mean, over that of the true curve; medians of the repetitions. The ratio is that of
the mean squares of both fits, whose noise is the same.

    python -m examples.benchmarks.accuracy.monotone --repeats 60
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPHuberRegressor, DPLinearRegression, DPLogisticRegression, Spline

EPSILON, GRID = 0.5, np.linspace(0, 1, 201)
CURVES: dict[str, Any] = {
    "root": lambda x: np.sqrt(x),
    "S": lambda x: expit(16 * (x - 0.5)),
    "line": lambda x: x,
}
ESTIMATORS = [DPLogisticRegression, DPHuberRegressor, DPLinearRegression]


def repetition(kind: Any, curve: str, n: int, seed: int, r: int) -> FloatArray:
    """Return mean squares of the errors of the curves, over that of the true one."""
    rng = np.random.default_rng([seed, r])
    X, is_classifier = rng.random((n, 2)), kind is DPLogisticRegression
    signal = CURVES[curve](X[:, 0]) - 0.5
    y: Any = (rng.random(n) < expit(3 * signal)).astype(int)
    if not is_classifier:
        y = signal + rng.normal(0, 0.3, n)
    truth = (3 if is_classifier else 1) * (CURVES[curve](GRID) - 0.5)
    truth -= truth.mean()
    found = []
    for monotone in ("increasing", None):
        spline = Spline(0, 1, knots=8, degree=3, monotone=monotone)
        target: Any = [0, 1] if is_classifier else (-1.5, 1.5)
        domain = Domain({"x": spline, "z": (0, 1)}, target=target)
        model = kind(epsilon=EPSILON, domain=domain, random_state=report.noise_seed(seed, r))
        model.fit(X, y)
        rows = np.column_stack([GRID, np.zeros(len(GRID))])
        own = model.decision_function(rows) if is_classifier else model.predict(rows)
        found.append(np.square(own - own.mean() - truth).mean() / np.square(truth).mean())
    return np.array(found)


def main() -> None:
    parser = report.parser_for(__doc__, repeats=60)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000])
    arguments = parser.parse_args()
    rows = []
    for kind in ESTIMATORS:
        for n in arguments.sizes:
            for curve in CURVES:
                calls = [(kind, curve, n, arguments.seed, r) for r in range(arguments.repeats)]
                runs: Any = np.array(report.run(repetition, calls, arguments.jobs, curve))
                ordered, free = np.median(np.sqrt(runs), axis=0)
                found = free, ordered, float(np.divide(*runs.mean(axis=0)))
                cells = dict(zip(("free", "monotone", "ratio"), found, strict=True))
                row = {"estimator": kind.__name__, "records": n, "effect": curve}
                rows.append(row | {name: f"{own:.3f}" for name, own in cells.items()})
    print(report.table(rows))


if __name__ == "__main__":
    main()
