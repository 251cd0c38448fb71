"""The wage equation of the Current Population Survey: private intervals beside least squares.

One effect for each of the four columns, and the whole table, at each epsilon, which is that of the
fit and of ``infer`` together. The records are the same in all repetitions, and only the noise
differs. So an interval of 95 % around an estimate without noise would always contain the slope of
least squares: "held" is the share that do. Lengths are medians, over those of least squares with
robust errors (HC1); "bias" and "noise" are the mean and the standard deviation of the differences
from least squares, in its standard errors. "error" is their standard deviation in privacy errors,
which is 1 if these are right. "published" is what dp-statsmodels (Ghenis 2024) states for its own
standard errors over those of least squares on these records. Needs SKDP_DATA.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from examples.benchmarks.intervals.inference import (
    ESTIMATORS,
    LEVEL,
    NORMAL,
    SHARE,
    inferred,
    least_squares,
)
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import read
from examples.benchmarks.shared.report import FloatArray, Row

SET, EPSILONS = "cps_asec_2024_wages", [0.5, 1.0, 4.0]
# By epsilon, with delta = 1e-5 and bounds of its own; ours has delta = 0.
PUBLISHED = {10.0: 300.0, 50.0: 70.0}


def questions() -> list[list[str] | None]:
    """Return the effects of one table each; None stands for all of them."""
    return [*([name] for name in read(SET).X.columns), None]


def repetition(estimator: str, epsilon: float, seed: int, r: int) -> dict[str, FloatArray]:
    """Return intervals, estimates and errors of each question, (questions, columns)."""
    data = read(SET)
    model = ESTIMATORS[estimator](epsilon=epsilon, domain=data.domain)
    noise = report.noise_seed(seed, r)
    tables = inferred(model, SHARE, noise, data.X, data.y, effects=questions())
    names, found = list(data.X.columns), np.full((4, len(tables), len(data.X.columns)), np.nan)
    for own, table in zip(np.moveaxis(found, 1, 0), tables, strict=True):
        at = [names.index(name) for name in table.names if name in names]
        kept = [k for k, name in enumerate(table.names) if name in names]
        values = *table.conf_int(level=LEVEL).T, table.coef, table.privacy_error
        own[:, at] = np.array(values)[:, kept]
    return dict(zip(("low", "high", "coef", "privacy"), found, strict=True))


def rows_of(epsilon: float, arguments: argparse.Namespace) -> list[Row]:
    """Return a row for each question and column."""
    data = read(SET)
    truth, error = least_squares(data.X.to_numpy(), data.y)
    calls = [(arguments.estimator, epsilon, arguments.seed, r) for r in range(arguments.repeats)]
    found = report.stacked(report.run(repetition, calls, arguments.jobs, f"epsilon {epsilon:g}"))
    rows: list[Row] = []
    for q, question in enumerate(questions()):
        for j, name in enumerate(data.X.columns):
            if question is not None and name not in question:
                continue
            low, high, coef, privacy = (own[:, q, j] for own in found.values())
            away = coef - truth[j]
            facts: dict[str, Any] = {"epsilon": epsilon, "column": name}
            facts["effects"] = "all" if question is None else "one"
            if epsilon in PUBLISHED:
                facts["published"] = PUBLISHED[epsilon]
            rows.append(
                facts
                | {
                    "held": float(((low <= truth[j]) & (truth[j] <= high)).mean()),
                    "length": float(np.median(high - low) / (2 * NORMAL * error[j])),
                    "unbounded": float(np.isinf(high - low).mean()),
                    "bias": float(away.mean() / error[j]),
                    "noise": float(away.std() / error[j]),
                    "error": float((away / privacy).std()),
                }
            )
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=100)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--estimator", choices=["linear", "huber"], default="linear")
    arguments = parser.parse_args()
    rows = [row for epsilon in arguments.epsilons for row in rows_of(epsilon, arguments)]
    report.publish("wages", rows, arguments)


if __name__ == "__main__":
    main()
