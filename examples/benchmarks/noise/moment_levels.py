"""What each body of moments, and the matrix noise, do to the coefficients of a regression.

Features and coefficients as in Algorithm 4 of Awan & Slavkovic (2020), section 5.2, but for the
number of columns. For each noise: mean squared error of the coefficients against least squares
on the same data, by the pseudo-inverse and by the automatic post-processing, as medians over
repetitions of the mean over coefficients; and both against level 0, the box. Needs no files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.benchmarks.shared import report
from skdp import DPLinearRegression
from skdp.geometry import MomentBall, MomentLayout
from skdp.mechanisms import KNorm

FloatArray = NDArray[np.float64]
COLUMNS = (1, 2, 5, 8)


def mechanisms(p: int) -> dict[str, Any]:
    """Return the noises by name."""
    layout = MomentLayout(p, tuple(range(p)), target_square=True)
    balls = {f"level {k}": KNorm(MomentBall(layout, k)) for k in (0, 1, 2)}
    return {**balls, "matrix": "matrix", "auto": "auto"}


def table(p: int, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return features and a target within [-1, 1]."""
    X = rng.uniform(-1, 1, (n, p))
    theta = 0.5 * rng.dirichlet(np.ones(p))
    return X, np.clip(X @ theta + rng.normal(0, 0.15, n), -1, 1)


def errors(p: int, n: int, epsilon: float, repeats: int, seed: int) -> list[report.Row]:
    """Return a row for each noise."""
    ways, found = ("pinv", "auto"), {name: [] for name in mechanisms(p)}
    for k in range(repeats):
        X, y = table(p, n, np.random.default_rng([seed, p, k]))
        best = np.linalg.lstsq(np.column_stack([X, np.ones(n)]), y)[0][:-1]
        for name, mechanism in mechanisms(p).items():
            model = DPLinearRegression(epsilon=epsilon, mechanism=mechanism, random_state=k)
            fitted = [model.set_params(postprocess=way).fit(X, y).coef_ for way in ways]
            found[name].append([np.mean((coef - best) ** 2) for coef in fitted])
    medians = {name: np.median(values, axis=0) for name, values in found.items()}
    box = medians["level 0"]
    return [
        {"columns": p, "n": n, "epsilon": epsilon, "noise": name}
        | {way: float(v) for way, v in zip(ways, median, strict=True)}
        | {f"{way} / box": float(v) for way, v in zip(ways, median / box, strict=True)}
        for name, median in medians.items()
    ]


def main() -> None:
    parser = report.parser_for(__doc__, repeats=100)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    arguments = parser.parse_args()
    size = (arguments.records, arguments.epsilon, arguments.repeats, arguments.seed)
    rows = [row for p in COLUMNS for row in errors(p, *size)]
    report.publish("moment_levels", rows, arguments)


if __name__ == "__main__":
    main()
