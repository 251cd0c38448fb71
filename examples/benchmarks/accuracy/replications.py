"""BinAgg's figures at mu = 1 (Lin, Slavkovic & Bhoomireddy 2026), and ours in the same settings.

Air Quality: 9357 hours, carbon monoxide on the 12 other columns. As in the publication -200 stays
the code of missing values, the bounds are the least and the greatest values, so that no figure is
private as a whole, and the relative MSE is |predictions - y|^2 / |y|^2 on the same hours. It is the
mean over the repetitions. Least squares have no intercept there; ours have one, and predict within
the bounds of the target, as do least squares "in bounds".

Intervals of 95 %: of the slopes of least squares of Air Quality, whose records are the same in all
repetitions, and of the true slopes of the replication's simulation, 2000 rows of three columns
uniform on [0, 10] with normal errors. "length" is the median over the length of least squares with
robust errors, and "width" the mean length. "mu" is that of all releases of a method together. Needs
SKDP_DATA.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from examples.benchmarks.intervals.inference import LEVEL, NORMAL, SHARE, inferred, least_squares
from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray, Row
from skdp import Domain, DPHuberRegressor, DPLinearRegression
from skdp.privacy.conversions import gaussian_epsilon, pure_of_mu

MU, DELTA = 1.0, 1e-6
# Table 2 of the publication, and a replication of it with the authors' package
# (gghatano/tpdp2026-binagg).
PUBLISHED = {"BinAgg": 0.463, "BinAgg replicated": 0.450}
PUBLISHED |= {"AdaSSP": 0.682, "DP-GD": 0.852}
# Coverage and width of BinAgg on the replication's simulation.
COVERED, WIDTH = 0.931, 0.291
GAUSSIAN = {"epsilon": gaussian_epsilon(MU, DELTA), "delta": DELTA, "mechanism": "gaussian"}
# The epsilon of a fit and a table that are MU-GDP together: see the column "mu".
WHOLE = 4.4
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "DPLinearRegression with Gaussian noise": (DPLinearRegression, GAUSSIAN),
    "DPLinearRegression with delta = 0": (DPLinearRegression, {"epsilon": pure_of_mu(MU)}),
    "DPHuberRegressor with delta = 0": (DPHuberRegressor, {"epsilon": pure_of_mu(MU)}),
}
SLOPES, ROWS = np.array([1.5, -2.0, 0.5]), 2000


@report.remembered
def air_quality() -> tuple[pd.DataFrame, FloatArray, Domain]:
    """Return the columns, the carbon monoxide, and the bounds of the publication."""
    X = pd.read_csv(Path(os.environ["SKDP_DATA"]) / "air_quality_uci.csv.gz")
    bounds = {str(name): (float(own.min()), float(own.max())) for name, own in X.items()}
    y, target = X.pop("co").to_numpy(), bounds.pop("co")
    return X, y, Domain(bounds, target=target)


def simulation(rng: np.random.Generator) -> tuple[FloatArray, FloatArray, Domain]:
    """Return a table of the replication."""
    X = rng.uniform(0, 10, (ROWS, len(SLOPES)))
    y = X @ SLOPES + rng.standard_normal(ROWS)
    return X, y, Domain.box([0] * len(SLOPES), [10] * len(SLOPES), target=(-30, 30))


def model_of(method: str, domain: Domain, n: int) -> Any:
    """Return an estimator; the size of the table is public to its first digit."""
    kind, settings = METHODS[method]
    n_public = int(float(f"{n:.0e}"))
    return kind(domain=domain, neighbors="add_remove", n_public=n_public, **settings)


def relative(predicted: FloatArray, y: FloatArray) -> float:
    """Return the relative MSE."""
    return float(((predicted - y) ** 2).sum() / (y**2).sum())


def repetition(method: str, seed: int, r: int) -> dict[str, Any]:
    """Return the relative MSE and the mu of a fit, and facts of intervals on both tables."""
    noise = report.noise_seed(seed, r)
    X, y, domain = air_quality()
    model = model_of(method, domain, len(y)).set_params(random_state=noise).fit(X, y)
    found = {"mse": relative(model.predict(X), y), "mu": model.guarantee_.mu}
    truth, error = least_squares(X.to_numpy(), y)
    found |= facts_of(model_of(method, domain, len(y)), noise, X, y, truth, error, "air")
    X, y, domain = simulation(np.random.default_rng([seed, r]))
    error = least_squares(X, y)[1]
    found |= facts_of(model_of(method, domain, len(y)), noise, X, y, SLOPES, error, "simulated")
    return found


def facts_of(
    model: Any, noise: int, X: Any, y: FloatArray, truth: FloatArray, error: FloatArray, name: str
) -> dict[str, Any]:
    """Return hits and relative lengths of the intervals of slopes, and the mu of fit and table."""
    if model.delta:
        model.set_params(epsilon=WHOLE)
    (table,) = inferred(model, SHARE, noise, X, y)
    low, high = table.conf_int(level=LEVEL)[-len(truth) :].T
    return {
        f"{name} held": (low <= truth) & (truth <= high),
        f"{name} length": (high - low) / (2 * NORMAL * error),
        f"{name} width": high - low,
        f"{name} mu": math.hypot(model.guarantee_.mu, table.guarantee.mu),
    }


def references() -> list[Row]:
    """Return the rows of least squares and of the publication."""
    X, y, domain = air_quality()
    rows, (lower, upper) = X.to_numpy(), domain.target_bounds
    design = np.column_stack([rows, np.ones(len(y))])
    plain, full = (own @ np.linalg.lstsq(own, y)[0] for own in (rows, design))
    found = {"least squares": relative(plain, y)}
    found["least squares in bounds"] = relative(full.clip(lower, upper), y)
    return [{"method": name, "relative MSE": own} for name, own in (found | PUBLISHED).items()]


def main() -> None:
    arguments = report.parser_for(__doc__, repeats=100).parse_args()
    errors = references()
    intervals = [
        {"table": "simulated", "method": "BinAgg replicated", "held": COVERED, "width": WIDTH}
    ]
    for method in METHODS:
        calls = [(method, arguments.seed, r) for r in range(arguments.repeats)]
        found = report.stacked(report.run(repetition, calls, arguments.jobs, method))
        facts = {"method": method, "relative MSE": float(found["mse"].mean())}
        errors.append(facts | {"deviation": float(found["mse"].std()), "mu": found["mu"].max()})
        for name in ("air", "simulated"):
            held, length = found[f"{name} held"], found[f"{name} length"]
            facts = {"table": name, "method": method, "held": float(held.mean())}
            facts |= {"least": float(held.mean(axis=0).min()), "length": float(np.median(length))}
            if name == "simulated":
                facts["width"] = float(found["simulated width"].mean())
            intervals.append(facts | {"mu": found[f"{name} mu"].max()})
    report.publish("replications", errors, arguments)
    report.publish("replications_intervals", intervals, arguments)


if __name__ == "__main__":
    main()
