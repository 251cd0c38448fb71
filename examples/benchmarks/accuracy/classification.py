"""Test accuracy of private logistic regression on real data, with delta = 0 or 1 / n^2.

Beside it stand logistic regression without privacy (scikit-learn's default, on the same encoded
columns) and the share of the most common label. ``--cliff`` looks for a rise of the error along
a fine grid of epsilon on the small sets; ``--sweep`` compares the automatic rule with fixed
choices. Reads the folder that SKDP_DATA names.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import check_names, names_of, read
from examples.benchmarks.shared.report import Settings
from skdp import DPLogisticRegression

EPSILONS = [0.1, 0.5, 1, 4]
# (target, goal) of the median accuracy, by neighbours, set and epsilon.
BOUNDS: dict[str, dict[str, dict[float, tuple[float, ...]]]] = {
    "replace_one": {
        "adult": {0.1: (0.795, 0.81), 0.5: (0.83, 0.838), 1: (0.843, 0.848), 4: (0.849, 0.851)},
        "breast_cancer_wdbc": {1: (0.86,), 4: (0.915,)},
        "electricity": {0.5: (0.74,)},
    },
    "add_remove": {"adult": {0.1: (0.815, 0.825)}},
    # With delta = 1 / n^2. Published at .1: .793 (AMP), .804 (DP-SGD), .809 (DP-GD).
    "add_remove, approximate": {"adult": {0.1: (0.82, 0.83), 1: (0.845, 0.849)}},
}
# Never below the majority by more than this, from this epsilon on.
BELOW_MAJORITY = {"german_credit": (0.02, 1.0)}
# The automatic rule loses no more than this against the best fixed choice.
MOST_LOST = 0.005


def accuracies(name: str, settings: list[Settings], seed: int, repetition: int) -> dict[str, Any]:
    """Return the test accuracies on one split: of every setting, and without privacy."""
    data = read(name)
    train, test = report.split(len(data.y), seed, repetition)
    X, y = data.encoded, data.y

    def accuracy(model: Any) -> float:
        return float(model.fit(X[train], y[train]).score(X[test], y[test]))

    noise = report.noise_seed(seed, repetition)
    domain = data.domain.encoded
    facts = {"domain": domain, "random_state": noise}
    private = [report.estimator_of(DPLogisticRegression, **facts, **s) for s in settings]
    return {
        "private": np.array([accuracy(model) for model in private]),
        "without privacy": accuracy(LogisticRegression(max_iter=2000)),
        "majority": accuracy(DummyClassifier()),
    }


def measure(name: str, asked: list[Settings], arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure settings that at least tell epsilon."""
    facts = len(read(name).y), arguments.neighbors, arguments.approximate
    settings = [report.facts_of_fit(facts[0], s["epsilon"], *facts[1:]) | s for s in asked]
    return report.measure(accuracies, name, settings, arguments)


def figures(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each epsilon: quartiles, references, target and whether it is reached."""
    epsilons, kind = arguments.epsilons, report.kind_of(arguments)
    found = measure(name, [{"epsilon": epsilon} for epsilon in epsilons], arguments)
    majority = float(np.median(found["majority"]))
    rows = []
    for k, epsilon in enumerate(epsilons):
        low, median, high = report.quartiles(found["private"][:, k])
        rows.append(
            {
                "set": name,
                "neighbors": kind,
                "epsilon": epsilon,
                "accuracy": median,
                "lower quartile": low,
                "upper quartile": high,
                "without privacy": float(np.median(found["without privacy"])),
                "majority": majority,
                **report.judged(median, bounds(name, kind, epsilon, majority), higher=True),
            }
        )
    return rows


def bounds(name: str, kind: str, epsilon: float, majority: float) -> Sequence[float] | None:
    margin, start = BELOW_MAJORITY.get(name, (0.0, np.inf))
    if epsilon >= start:
        return (majority - margin,)
    return BOUNDS.get(kind, {}).get(name, {}).get(epsilon)


def cliff(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return one row: how far the median error rises as epsilon grows."""
    found = measure(name, [{"epsilon": epsilon} for epsilon in report.FINE], arguments)
    return [report.cliff_row(name, found["private"])]


def sweep(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each epsilon: what the automatic rule loses against fixed choices."""
    keys = ("mechanism", "q", "ridge")
    grid = product(arguments.mechanisms, arguments.q, arguments.ridges)
    choices = [dict(zip(keys, choice, strict=True)) for choice in grid]
    rows = []
    for epsilon in arguments.epsilons:
        fixed = [fixed_settings(name, epsilon, **choice) for choice in choices]
        found = measure(name, [{"epsilon": epsilon}, *fixed], arguments)
        facts = {"set": name, "epsilon": epsilon}
        rows.append(report.sweep_row(facts, found["private"], choices, MOST_LOST))
    return rows


def fixed_settings(name: str, epsilon: float, mechanism: str, q: float, ridge: float) -> Settings:
    """Return the settings of a fixed choice; ``ridge`` is in units of R^2 / epsilon."""
    # R is the greatest norm of a row: the least ridge that privacy needs is of this size.
    square = read(name).domain.row_norm(2, intercept=True) ** 2
    regularization = ridge * square / epsilon
    return {"epsilon": epsilon, "mechanism": mechanism, "q": q, "regularization": regularization}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=40)
    report.add_sets(parser, EPSILONS)
    parser.add_argument("--mechanisms", nargs="+", default=["hull", "linf", "auto"])
    parser.add_argument("--q", nargs="+", type=float, default=[0.5, 0.7, 0.85, 0.9, 0.95, 0.98])
    help_ridges = "beyond the least, in units of (greatest norm of a row)^2 / epsilon"
    parser.add_argument("--ridges", nargs="+", type=float, default=[0, 0.5, 2, 6], help=help_ridges)
    arguments = parser.parse_args()
    mode = report.mode_of(arguments)
    most_rows = report.SMALL if mode == "cliff" else np.inf
    sets = arguments.sets or names_of("classification", most_rows)
    function = {"figures": figures, "cliff": cliff, "sweep": sweep}[mode]
    rows = [
        row for name in check_names(sets, "classification") for row in function(name, arguments)
    ]
    kind = report.kind_of(arguments).replace(", ", "_")
    report.publish(f"classification_{mode}_{kind}", rows, arguments)


if __name__ == "__main__":
    main()
