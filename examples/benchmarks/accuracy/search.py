"""What a private search loses: its test accuracy against that of the best fixed choice.

The search has a total budget of 2 (or --total), of which the choice takes its part; the fixed
choices have a budget of 1 (or --fixed) each and nothing to choose. Rows are the grids, each with
the medians over splits and the loss against the candidate that is best in the median. Reads the
folder that SKDP_DATA names.

With --simulated: searches with a delta over simulated regressions, whose fits have Gaussian noise,
and the R^2 of the chosen model. Needs no data files.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import numpy as np

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import check_names, read
from skdp import Domain, DPCoordinateDescentRegressor, DPLogisticRegression
from skdp.model_selection import PrivateSearchCV

GRIDS: dict[str, Any] = {
    # Shapes of the noise and of the loss, which matter more the scarcer the data are.
    "mechanism": {
        "mechanism": ["auto", "l1", "l2", "linf", "hull"],
        "loss": ["logistic", "sharp"],
    },
    # A ridge on the summed loss is right for one number of records and one budget.
    "ridge": {"regularization": [0.0, 10.0, 100.0, 1e3, 1e4, 1e5]},
    "both": {"mechanism": ["l2", "hull", "auto"], "regularization": ["auto", 10.0, 1e3, 1e5]},
}
# The search at a total of 2 loses less than this against the best fixed choice at 1.
MOST_LOST = 0.01


def candidates_of(grid: str) -> list[dict[str, Any]]:
    from sklearn.model_selection import ParameterGrid

    return list(ParameterGrid(GRIDS[grid]))


def accuracies(
    name: str, settings: list[dict[str, Any]], seed: int, repetition: int
) -> dict[str, Any]:
    """Return the accuracies on one split: of every candidate, and of the search."""
    (asked,) = settings
    data = read(name)
    train, test = report.split(len(data.y), seed, repetition)
    X, y = data.encoded, data.y
    noise = report.noise_seed(seed, repetition)
    common = {"domain": data.domain.encoded, "random_state": noise}
    common |= {"neighbors": asked["neighbors"], "n_public": asked["n_public"]}

    def accuracy(model: Any) -> float:
        return float(model.fit(X[train], y[train]).score(X[test], y[test]))

    fixed = [
        accuracy(DPLogisticRegression(epsilon=asked["fixed"], **common, **choice))
        for choice in candidates_of(asked["grid"])
    ]
    search = PrivateSearchCV(
        DPLogisticRegression(**common),
        GRIDS[asked["grid"]],
        epsilon=asked["total"],
        random_state=noise,
    )
    return {"fixed": np.array(fixed), "search": accuracy(search), "index": search.best_index_}


def figures(name: str, grid: str, arguments: argparse.Namespace) -> report.Row:
    """Return the row of a grid."""
    facts = report.facts_of_fit(len(read(name).y), arguments.fixed, arguments.neighbors)
    asked = {key: vars(arguments)[key] for key in ("fixed", "total")}
    asked |= {"grid": grid, "neighbors": arguments.neighbors, "n_public": facts.get("n_public")}
    found = report.measure(accuracies, name, [asked], arguments)
    medians = np.median(found["fixed"], axis=0)
    candidates, best = candidates_of(grid), int(np.argmax(medians))
    low, median, high = report.quartiles(found["search"])
    picked = Counter(found["index"].tolist())
    lost = float(medians[best]) - median
    return {
        "set": name,
        "grid": grid,
        "candidates": len(candidates),
        "accuracy": median,
        "lower quartile": low,
        "upper quartile": high,
        f"best fixed at {arguments.fixed:g}": float(medians[best]),
        "worst fixed": float(medians.min()),
        "loss": lost,
        **report.judged(lost, (MOST_LOST,), higher=False),
        "chosen most": str(candidates[picked.most_common(1)[0][0]]),
        "best": str(candidates[best]),
    }


def simulated_row(n: int, epsilon: float, repeats: int, seed: int) -> report.Row:
    """Return the median R^2 of the chosen model, over populations with 6 numbers."""
    found, mu = [], 0.0
    for repetition in range(repeats):
        rng = np.random.default_rng([seed, n, repetition])
        domain = Domain.unit_box(6, target=(-1.0, 1.0))
        centre, spread = rng.uniform(-0.4, 0.4, 6), rng.uniform(0.05, 0.4, 6)
        X = np.clip(rng.normal(centre, spread, (n + 2000, 6)), -1, 1)
        signal = (X - centre) / spread @ rng.normal(size=6)
        y = np.clip(0.1 * signal + rng.normal(0, rng.uniform(0.05, 0.3), len(X)), -1, 1)
        model = DPCoordinateDescentRegressor(domain=domain, average=True)
        search = PrivateSearchCV(
            model,
            {"alpha": ["auto", 1e-3, 1e-2, 1e-1]},
            epsilon=epsilon,
            delta=1e-6,
            random_state=repetition,
        ).fit(X[:n], y[:n])
        found.append(float(search.score(X[n:], y[n:])))
        mu = search.guarantee_.mu
    low, median, high = report.quartiles(np.array(found))
    row = {"n": n, "epsilon": epsilon, "delta": 1e-6, "mu": mu, "R2": median}
    return row | {"lower quartile": low, "upper quartile": high, "mean": float(np.mean(found))}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--sets", nargs="+", default=["adult"], help="data sets")
    parser.add_argument("--grids", nargs="+", default=list(GRIDS), choices=list(GRIDS))
    parser.add_argument("--total", type=float, default=2.0, help="epsilon of the search")
    parser.add_argument("--fixed", type=float, default=1.0, help="epsilon of a fixed choice")
    parser.add_argument("--neighbors", choices=["replace_one", "add_remove"], default="replace_one")
    parser.add_argument("--simulated", action="store_true", help="regressions with a delta")
    arguments = parser.parse_args()
    if arguments.simulated:
        rows = [
            simulated_row(n, epsilon, arguments.repeats, arguments.seed)
            for n in (1000, 4000, 16_000)
            for epsilon in (0.5, 1.0)
        ]
        report.publish("search_simulated", rows, arguments)
        return
    rows = [
        figures(name, grid, arguments)
        for name in check_names(arguments.sets, "classification")
        for grid in arguments.grids
    ]
    report.publish(f"search_{arguments.neighbors}", rows, arguments)


if __name__ == "__main__":
    main()
