"""Whether predictions keep the mean of the target, on real and on simulated data.

``bias`` is the mean prediction less the mean of the target, over the records of the fit: its root
mean square over repetitions, as a percentage of the target's declared range. ``--simulated`` has
DPHuberRegressor with and without ``mean_share``, on five laws of the residuals; there ``bias`` is
in standard deviations of the target, and R^2 is that of the records of the fit. ``--linear`` has
DPLinearRegression there, with and without its constant SKEWED. Reads the folder that SKDP_DATA
names.

    python -m examples.benchmarks.accuracy.means --repeats 20
    python -m examples.benchmarks.accuracy.means --repeats 20 --simulated
    python -m examples.benchmarks.accuracy.means --repeats 20 --simulated --linear
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import check_names, names_of, read
from skdp import Domain, DPCoordinateDescentRegressor, DPHuberRegressor, DPLinearRegression
from skdp.linear_model._moments import solve as _moments

FloatArray = NDArray[np.float64]
REGRESSORS = (DPHuberRegressor, DPLinearRegression, DPCoordinateDescentRegressor)
COLUMNS = 8
# Laws of the residuals, and declared bounds of the target.
LAWS = {
    "normal": (-2, 4),
    "gamma": (-4.5, 9),
    "lognormal": (-7.5, 15),
    "Pareto": (-15, 30),
    "visits": (0, 80),
}
SIZES = ((2000, 1.0), (6000, 1.0), (20_000, 0.5), (20_000, 1.0), (20_000, 4.0), (100_000, 1.0))


def real(name: str, epsilon: float, seed: int, repetition: int) -> dict[str, FloatArray]:
    """Return the bias and the test R^2 of each estimator on one split."""
    data = read(name, numeric_only=True)
    train, test = report.split(len(data.y), seed, repetition)
    lower, upper = data.domain.target_bounds
    X, y, facts = data.encoded, data.y, {"epsilon": epsilon, "domain": data.domain.encoded}
    facts["random_state"] = report.noise_seed(seed, repetition)
    models = [kind(**facts).fit(X[train], y[train]) for kind in REGRESSORS]
    bias = [100 * (m.predict(X[train]) - y[train]).mean() / (upper - lower) for m in models]
    return {"bias": np.array(bias), "R2": r2_of(models, X[test], y[test])}


def simulated(
    law: str, n: int, epsilon: float, seed: int, repetition: int, linear: bool = False
) -> dict[str, Any]:
    """Return the bias and R^2 with and without the correction on one simulated table."""
    rng = np.random.default_rng([seed, repetition])
    X, low, high = rng.uniform(-0.6, 0.6, (n, COLUMNS)), *LAWS[law]
    signal = X @ rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    if law == "visits":
        y = rng.negative_binomial(1, 1 / (1 + np.exp(1 + signal))).astype(float)
    else:
        residuals = {
            "normal": lambda: 0.8 * rng.normal(size=n),
            "gamma": lambda: rng.gamma(1, 1, n) - 1,
            "lognormal": lambda: (rng.lognormal(0, 1, n) - np.exp(0.5)) / 2,
            "Pareto": lambda: 0.6 * (rng.pareto(2.5, n) - 1 / 1.5),
        }
        y = signal + residuals[law]()
    y = np.clip(y, low, high)
    domain = Domain.unit_box(COLUMNS, target=(low, high))
    facts = {
        "epsilon": epsilon,
        "domain": domain,
        "random_state": report.noise_seed(seed, repetition),
    }
    if linear:
        models = []
        for skewed in (_moments.SKEWED, 0.0):
            with patch.object(_moments, "SKEWED", skewed):
                models.append(DPLinearRegression(**facts).fit(X, y))
    else:
        models = [DPHuberRegressor(mean_share=share, **facts).fit(X, y) for share in ("auto", 0)]
    bias = [(m.predict(X) - y).mean() / y.std() for m in models]
    return {"bias": np.array(bias), "R2": r2_of(models, X, y)}


def r2_of(models: list[Any], X: FloatArray, y: FloatArray) -> FloatArray:
    return np.array([r2_score(y, m.predict(X)) for m in models])


def rows_of(arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each estimator and set, or for each law and size."""
    rows: list[report.Row] = []
    function: Any
    facts: tuple[str, ...]
    cells: list[tuple[Any, ...]]
    if arguments.simulated:
        function, names = simulated, ("corrected", "robust centre")
        if arguments.linear:
            function, names = partial(simulated, linear=True), ("SKEWED", "SKEWED = 0")
        facts, cells = ("law", "n", "epsilon"), [(law, *size) for size in SIZES for law in LAWS]
    else:
        function, names = real, tuple(kind.__name__ for kind in REGRESSORS)
        sets = check_names(arguments.sets or names_of("regression", np.inf), "regression")
        facts, cells = ("set", "epsilon"), [(name, arguments.epsilon) for name in sets]
    for cell in cells:
        calls = [(*cell, arguments.seed, k) for k in range(arguments.repeats)]
        found = report.stacked(report.run(function, calls, arguments.jobs, str(cell[0])))
        bias, r2 = np.sqrt(np.mean(found["bias"] ** 2, axis=0)), np.median(found["R2"], axis=0)
        known = dict(zip(facts, cell, strict=True))
        for model, own, score in zip(names, bias, r2, strict=True):
            rows.append(known | {"model": model, "bias": own, "R2": score})
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--sets", nargs="+", help="data sets; all regressions if left out")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--simulated", action="store_true", help="with and without the correction")
    parser.add_argument("--linear", action="store_true", help="DPLinearRegression, simulated")
    arguments = parser.parse_args()
    name = "means_simulated" if arguments.simulated else "means"
    name += "_linear" * arguments.linear
    report.publish(name, rows_of(arguments), arguments)


if __name__ == "__main__":
    main()
