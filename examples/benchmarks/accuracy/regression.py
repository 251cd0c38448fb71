"""Test R^2 of private robust regression on real data, numeric columns, delta = 0 or 1 / n^2.

The figure is how far R^2 lies below that of least squares without privacy on the same split,
both predicting within the target's public bounds; the median over splits. ``--cliff`` looks for
a rise of the error along a fine grid of epsilon on the small sets; ``--sweep`` compares the
automatic threshold and q with fixed pairs. Reads the folder that SKDP_DATA names.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import DataSet, check_names, names_of, read
from examples.benchmarks.shared.report import Settings
from skdp import DPHuberRegressor

EPSILONS = [0.1, 0.5, 1, 4]
# Greatest distance below least squares at each epsilon; the goal is half of it.
DISTANCES = {
    "king_county_house_sales": (0.12, 0.04, 0.025, 0.01),
    "california_housing": (0.09, 0.02, 0.012, 0.006),
    "protein_casp": (0.06, 0.015, 0.01, 0.006),
    "wine_quality_white": (0.18, 0.065, 0.04, 0.02),
    "wine_quality_red": (0.42, 0.16, 0.10, 0.03),
    "concrete_strength": (0.38, 0.12, 0.06, 0.015),
    "airfoil_self_noise": (0.40, 0.10, 0.045, 0.012),
    "diabetes": (0.42, 0.19, 0.10, 0.03),
}
# No median R^2 lies below this, on any set, from this epsilon on.
FLOOR, FLOOR_EPSILON = -0.05, 0.1
# The automatic pair loses no more than this against the best fixed one.
MOST_LOST = 0.01


def scores(name: str, settings: list[Settings], seed: int, repetition: int) -> dict[str, Any]:
    """Return the test R^2 on one split: of every setting, and of least squares."""
    data = read(name, numeric_only=True)
    train, test = report.split(len(data.y), seed, repetition)
    X, y = data.encoded, data.y
    noise = report.noise_seed(seed, repetition)
    domain = data.domain.encoded
    facts = {"domain": domain, "random_state": noise}
    private = [report.estimator_of(DPHuberRegressor, **facts, **s) for s in settings]
    found = [r2_score(y[test], m.fit(X[train], y[train]).predict(X[test])) for m in private]
    return {"private": np.array(found), "least squares": least_squares(data, train, test)}


def least_squares(data: DataSet, train: NDArray[np.intp], test: NDArray[np.intp]) -> float:
    """Return the test R^2 of least squares, its predictions clipped to the public bounds."""
    design = np.column_stack([np.ones(len(data.y)), data.encoded])
    coef = np.linalg.lstsq(design[train], data.y[train])[0]
    predicted = np.clip(design[test] @ coef, *data.domain.target_bounds)
    return float(r2_score(data.y[test], predicted))


def measure(name: str, asked: list[Settings], arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure settings that at least tell epsilon."""
    facts = len(read(name, numeric_only=True).y), arguments.neighbors, arguments.approximate
    settings = [report.facts_of_fit(facts[0], s["epsilon"], *facts[1:]) | s for s in asked]
    return report.measure(scores, name, settings, arguments)


def figures(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each epsilon: R^2, the distance, target and whether it is reached."""
    epsilons = arguments.epsilons
    found = measure(name, [{"epsilon": epsilon} for epsilon in epsilons], arguments)
    distances = found["least squares"][:, None] - found["private"]
    rows = []
    for k, epsilon in enumerate(epsilons):
        low, median, high = report.quartiles(found["private"][:, k])
        distance = float(np.median(distances[:, k]))
        rows.append(
            {
                "set": name,
                "neighbors": report.kind_of(arguments),
                "epsilon": epsilon,
                "R2": median,
                "lower quartile": low,
                "upper quartile": high,
                "least squares": float(np.median(found["least squares"])),
                "distance": distance,
                **report.judged(
                    distance, bounds(name, epsilon, report.kind_of(arguments)), higher=False
                ),
                "floor": floor(median, epsilon),
            }
        )
    return rows


def bounds(name: str, epsilon: float, kind: str) -> tuple[float, float] | None:
    if name not in DISTANCES or epsilon not in EPSILONS or kind != "replace_one":
        return None
    most = DISTANCES[name][EPSILONS.index(epsilon)]
    return most, most / 2


def floor(r2: float, epsilon: float) -> str:
    if epsilon < FLOOR_EPSILON:
        return ""
    return "kept" if r2 >= FLOOR else "missed"


def cliff(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return one row: how far the median of 1 - R^2 rises as epsilon grows."""
    found = measure(name, [{"epsilon": epsilon} for epsilon in report.FINE], arguments)
    return [report.cliff_row(name, found["private"])]


def sweep(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each epsilon: what the automatic pair loses against the best fixed one."""
    lower, upper = read(name, numeric_only=True).domain.target_bounds
    pairs = list(product(arguments.thresholds, arguments.q))
    choices = [{"threshold": share, "q": q} for share, q in pairs]
    fixed = [{"threshold": share * (upper - lower) / 2, "q": q} for share, q in pairs]
    rows = []
    for epsilon in arguments.epsilons:
        asked = [{"epsilon": epsilon, **choice} for choice in [{}, *fixed]]
        found = measure(name, asked, arguments)
        facts = {"set": name, "epsilon": epsilon}
        rows.append(report.sweep_row(facts, found["private"], choices, MOST_LOST))
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=40)
    report.add_sets(parser, EPSILONS)
    shares, help_shares = [0.05, 0.1, 0.2, 0.35, 0.5, 1, 2], "in units of half the target's range"
    parser.add_argument("--thresholds", nargs="+", type=float, default=shares, help=help_shares)
    parser.add_argument("--q", nargs="+", type=float, default=[0.5, 0.7, 0.85, 0.9, 0.95, 0.98])
    arguments = parser.parse_args()
    mode = report.mode_of(arguments)
    most_rows = report.SMALL if mode == "cliff" else np.inf
    sets = arguments.sets or names_of("regression", most_rows)
    function = {"figures": figures, "cliff": cliff, "sweep": sweep}[mode]
    rows = [row for name in check_names(sets, "regression") for row in function(name, arguments)]
    kind = report.kind_of(arguments).replace(", ", "_")
    report.publish(f"regression_{mode}_{kind}", rows, arguments)


if __name__ == "__main__":
    main()
