"""Survey weights in the wage equation of the Current Population Survey, with and without privacy.

The table is fitted with the weights of the survey, trimmed at a public round number, and without
them. "least squares" are the slopes without privacy, with robust standard errors (HC1); the others
are medians over repetitions of the noise: of the private slopes of ``infer``, of their distance
from least squares with the same weights, in standard errors, and of the lengths of the intervals
over those without privacy. Epsilon is that of fit and ``infer`` together. Needs SKDP_DATA.

    SKDP_DATA=path/to/datasets python -m examples.benchmarks.intervals.weights --repeats 50
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from examples.benchmarks.intervals.inference import LEVEL, NORMAL, SHARE
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import read
from examples.benchmarks.shared.report import FloatArray, Row
from skdp import DPLinearRegression

SET, EPSILONS, DELTA = "cps_asec_2024_wages", [1.0, 4.0], 1e-6
# The file has hundredths of persons; most workers stand for less than 5,000.
COLUMN, UNIT, MOST = "A_FNLWGT", 100.0, 5000.0


def survey() -> tuple[Any, FloatArray, FloatArray]:
    """Return the columns, the target and the weights, in persons."""
    data = read(SET)
    path = Path(os.environ["SKDP_DATA"]) / f"{SET}.csv.gz"
    return data.X, data.y, pd.read_csv(path, usecols=[COLUMN])[COLUMN].to_numpy() / UNIT


def least_squares(X: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[Any, Any]:
    """Return the slopes of weighted least squares and their robust standard errors."""
    rows = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv((rows * weights[:, None]).T @ rows)
    theta = inverse @ (rows.T @ (weights * y))
    scores = rows * (weights * (y - rows @ theta))[:, None]
    factor = len(rows) / (len(rows) - len(theta))
    error = np.sqrt(factor * np.diag(inverse @ (scores.T @ scores) @ inverse))
    return theta[1:], error[1:]


def repetition(epsilon: float, is_weighted: bool, seed: int, r: int) -> dict[str, FloatArray]:
    """Return the slopes and the intervals of one table."""
    X, y, weights = survey()
    given = {"sample_weight": weights} if is_weighted else {}
    rng = np.random.default_rng(report.noise_seed(seed, r))
    model = DPLinearRegression(
        epsilon=(1 - SHARE) * epsilon,
        delta=DELTA / 2,
        domain=read(SET).domain,
        max_weight=MOST if is_weighted else None,
        random_state=rng,
    ).fit(X, y, **given)
    facts = {"epsilon": SHARE * epsilon, "delta": DELTA - model.guarantee_.delta}
    table = model.infer(X, y, **facts, **given, random_state=rng)
    return {"coef": table.coef[1:], "ends": table.conf_int(level=LEVEL)[1:]}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=50)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    arguments = parser.parse_args()
    X, y, weights = survey()
    rows: list[Row] = []
    for is_weighted in (False, True):
        own = np.minimum(weights, MOST) if is_weighted else np.ones(len(y))
        truth, error = least_squares(X.to_numpy(), y, own)
        for epsilon in arguments.epsilons:
            calls = [(epsilon, is_weighted, arguments.seed, r) for r in range(arguments.repeats)]
            name = f"epsilon {epsilon:g}"
            found = report.stacked(report.run(repetition, calls, arguments.jobs, name))
            lengths = np.diff(found["ends"], axis=2)[..., 0] / (2 * NORMAL * error)
            away = np.abs(found["coef"] - truth) / error
            for j, column in enumerate(X.columns):
                rows.append(
                    {
                        "weights": "yes" if is_weighted else "no",
                        "epsilon": epsilon,
                        "column": column,
                        "least squares": float(truth[j]),
                        "private": float(np.median(found["coef"][:, j])),
                        "distance": float(np.median(away[:, j])),
                        "length": float(np.median(lengths[:, j])),
                    }
                )
    report.publish("weights", rows, arguments)


if __name__ == "__main__":
    main()
