"""Hazards, survival curves and bands of simulated durations, with and without privacy.

The persons have two numbers, with the log-odds .8 and .6 of the hazard, which is 12 % in each of
eight periods for a person in the middle. Durations are uniform within their period. Censoring is
uniform in time, so about 30 % of the durations are censored within the periods. ``plain`` is a fit
without privacy to the same rows. The others are DPLogisticRegression with a fifth of epsilon, and
its table of coefficients with the rest. "a" and "b" are means of the coefficients of the model;
"curve" is the mean absolute error of survival curves of the model for persons of the same law.
"held" is the share of the true values at eight periods that are in their 95 % interval, and "width"
is the median width of these.

    python -m examples.benchmarks.intervals.durations --repeats 60
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPLogisticRegression
from skdp.durations import PersonPeriods

K, SLOPES, START, SHARE = 8, np.array([0.8, 0.6]), -2.0, 0.2
PERIODS = PersonPeriods(Domain({"a": (-1, 1), "b": (-1, 1)}), tuple(range(K + 1)))
CASES = [
    ("plain", 0.0, "none", 0),
    *(
        (f"rows_per_person={cap}", epsilon, neighbors, cap)
        for neighbors in ("replace_one", "add_remove")
        for epsilon in (1.0, 4.0)
        for cap in (1, K)
    ),
]


def people(n: int, seed: int) -> tuple[pd.DataFrame, FloatArray, Any]:
    """Return columns, durations and whether they end with the event."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 2)), columns=["a", "b"])
    occurs = rng.random((n, K)) < expit(START + X.to_numpy() @ SLOPES)[:, None]
    period = np.where(occurs.any(axis=1), occurs.argmax(axis=1), K)
    time, end = period + rng.random(n), rng.uniform(0.5, 2 * K, n)
    return X, np.minimum(time, end), time <= end


def repetition(case: int, n: int, seed: int, r: int) -> FloatArray:
    """Return coefficients, the error of curves, the share that is held, and the width."""
    warnings.filterwarnings("ignore", "Expect unbounded intervals")
    _, epsilon, neighbors, cap = CASES[case]
    rows, y, groups = PERIODS.encode(*people(n, report.noise_seed(seed, r)))
    new = people(200, seed)[0]
    truth = (1 - expit(START + new.to_numpy() @ SLOPES))[:, None] ** np.arange(1, K + 1)
    if not epsilon:
        encoder = PERIODS.domain.encoder()
        plain = make_pipeline(encoder, LogisticRegression(C=np.inf)).fit(rows, y)
        error = np.abs(PERIODS.survival(plain, new) - truth).mean()
        return np.array([*plain[-1].coef_[0, :2], error, np.nan, np.nan])
    model = DPLogisticRegression(
        epsilon=SHARE * epsilon,
        domain=PERIODS.domain,
        neighbors=neighbors,
        n_public=n if neighbors == "add_remove" else None,
        rows_per_person=cap,
        random_state=report.noise_seed(seed, r),
    ).fit(rows, y, groups=groups)
    error = np.abs(PERIODS.survival(model, new) - truth).mean()
    rest = {"epsilon": (1 - SHARE) * epsilon, "random_state": report.noise_seed(seed + 1, r)}
    inference = model.infer(rows, y, groups=groups, **rest)
    _, band = PERIODS.survival_band(inference, new[:20])
    held = (band[..., 0] <= truth[:20]) & (truth[:20] <= band[..., 1])
    return np.array([*model.coef_[0, :2], error, held.mean(), np.median(np.ptp(band, axis=2))])


def main() -> None:
    parser = report.parser_for(__doc__, repeats=60)
    parser.add_argument("--sizes", nargs="+", type=int, default=[20_000])
    arguments: argparse.Namespace = parser.parse_args()
    names, rows = ("a", "b", "curve", "held", "width"), []
    for n in arguments.sizes:
        for k, (name, epsilon, neighbors, _) in enumerate(CASES):
            calls = [(k, n, arguments.seed, r) for r in range(arguments.repeats)]
            found: Any = report.run(repetition, calls, arguments.jobs, name)
            means = [f"{own:.3f}" for own in np.mean(np.array(found), axis=0)]
            row = {"records": n, "relation": neighbors, "epsilon": f"{epsilon:g}", "fit": name}
            rows.append(row | dict(zip(names, means if epsilon else means[:3], strict=False)))
    print(report.table(rows))


if __name__ == "__main__":
    main()
