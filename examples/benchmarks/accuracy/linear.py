"""Test R^2 of private least squares on real data, numeric columns, public bounds.

The figure is the median over splits; beside it stand least squares without privacy on the same
splits, the target, and the goal: half of the way from the target to least squares. ``--choices``
compares mechanisms and kinds of post-processing on the same splits. Reads the folder that SKDP_DATA
names.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from examples.benchmarks.accuracy.regression import EPSILONS, floor, least_squares
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import check_names, names_of, read
from examples.benchmarks.shared.report import Settings
from skdp.linear_model.linear import DPLinearRegression

# Least R^2 at each epsilon, replace_one, delta = 0.
TARGETS = {
    "california_housing": (0.30, 0.56, 0.61, 0.642),
    "airfoil_self_noise": (-0.05, 0.20, 0.29, 0.49),
    "king_county_house_sales": (-0.02, 0.20, 0.40, 0.62),
    "protein_casp": (0.10, 0.23, 0.257, 0.284),
    "wine_quality_white": (-0.05, -0.02, 0.05, 0.14),
}


def scores(name: str, settings: list[Settings], seed: int, repetition: int) -> dict[str, Any]:
    """Return the test R^2 on one split: of every setting, and of least squares."""
    data = read(name, numeric_only=True)
    train, test = report.split(len(data.y), seed, repetition)
    X, y, noise = data.encoded, data.y, report.noise_seed(seed, repetition)
    domain = data.domain.encoded
    private = [DPLinearRegression(domain=domain, random_state=noise, **s) for s in settings]
    found = [r2_score(y[test], m.fit(X[train], y[train]).predict(X[test])) for m in private]
    return {"private": np.array(found), "least squares": least_squares(data, train, test)}


def figures(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each epsilon and choice: R^2, its quartiles, and what it reaches."""
    n_rows = len(read(name, numeric_only=True).y)
    cases = list(product(arguments.epsilons, arguments.choices))
    asked = (arguments.neighbors, arguments.approximate)
    settings = [report.facts_of_fit(n_rows, e, *asked) | of_choice(c) for e, c in cases]
    found = report.measure(scores, name, settings, arguments)
    plain = float(np.median(found["least squares"]))
    rows: list[report.Row] = []
    for k, (epsilon, choice) in enumerate(cases):
        low, median, high = report.quartiles(found["private"][:, k])
        rows.append(
            {
                "set": name,
                "rows": n_rows,
                "epsilon": epsilon,
                "choice": choice,
                "R2": median,
                "lower quartile": low,
                "upper quartile": high,
                "least squares": plain,
                **report.judged(median, bounds(name, epsilon, plain, arguments), higher=True),
                "floor": floor(median, epsilon),
            }
        )
    return rows


def of_choice(choice: str) -> Settings:
    """Return the options of the estimator that a choice such as "hull/auto" names."""
    return dict(zip(("mechanism", "postprocess"), choice.split("/"), strict=True))


def bounds(
    name: str, epsilon: float, plain: float, arguments: argparse.Namespace
) -> tuple[float, float] | None:
    """Return target and goal, where there are any."""
    if name not in TARGETS or epsilon not in EPSILONS or report.kind_of(arguments) != "replace_one":
        return None
    target = TARGETS[name][EPSILONS.index(epsilon)]
    return target, (target + plain) / 2


def main() -> None:
    parser = report.parser_for(__doc__, repeats=100)
    parser.add_argument("--sets", nargs="+", help="data sets; all if left out")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--approximate", action="store_true", help="delta = 1/n^2 in place of 0")
    parser.add_argument("--neighbors", choices=["replace_one", "add_remove"], default="replace_one")
    choices = ["auto/auto"]
    parser.add_argument("--choices", nargs="+", default=choices, help="mechanism/postprocess")
    arguments = parser.parse_args()
    sets = check_names(arguments.sets or names_of("regression"), "regression")
    rows = [row for name in sets for row in figures(name, arguments)]
    kind = report.kind_of(arguments).replace(", ", "_")
    report.publish(f"linear_{kind}", rows, arguments)


if __name__ == "__main__":
    main()
