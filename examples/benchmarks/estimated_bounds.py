"""Accuracy with estimated bounds against declared bounds, at one total epsilon.

No column of numbers has a bound beyond --limit; levels and labels stay declared. A share of
epsilon is spent on bounds, the rest on the model. The declared domain has all of epsilon for the
model. Splits and noise are the same for both. The share was chosen on simulated populations. Reads
the folder that SKDP_DATA names.

Prices of houses in King County are up to 7.7 million, so that a limit of 1e6 clips the target, with
declared bounds as well: ``--sets king_county_house_sales --target-limit 1e7`` does not.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import report
from data import check_names, names_of, read
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, estimate_domain

FEWEST_ROWS = 10_000
# Greatest loss against declared bounds.
MOST_LOST = {"classification": 0.02, "regression": 0.04}
MODELS: dict[str, Any] = {
    "classification": DPLogisticRegression,
    "regression": DPHuberRegressor,
}


def asked(domain: Domain, task: str) -> dict[str, Any]:
    """Return what is asked of the estimate: bounds of all numbers, declared levels."""
    columns = {
        name: "bounds" if hasattr(column, "lower") else list(column.levels)
        for name, column in zip(domain.names or (), domain._columns, strict=True)
    }
    return {"columns": columns, "target": "bounds" if task == "regression" else domain.target}


def score(model: Any, X: Any, y: NDArray[Any], test: tuple[Any, NDArray[Any]], task: str) -> float:
    predicted = model.fit(X, y).predict(test[0])
    right = float(np.mean(predicted == test[1])) if task == "classification" else 0.0
    return right if task == "classification" else float(r2_score(test[1], predicted))


def compared(name: str, settings: list[report.Settings], seed: int, repetition: int) -> Any:
    """Return the scores on one split with the declared and with estimated domains."""
    data = read(name)
    train, test = report.split(len(data.y), seed, repetition)
    X, y, held = data.X.iloc[train], data.y[train], (data.X.iloc[test], data.y[test])
    noise, make = report.noise_seed(seed, repetition), MODELS[data.task]
    found = []
    for own in settings:
        domain, epsilon = data.domain, own["epsilon"]
        if own["share"] > 0:
            wanted = asked(data.domain, data.task)
            limit = dict.fromkeys(wanted["columns"], own["limit"]) | {"target": own["target"]}
            facts = {"epsilon": epsilon * own["share"], "limit": limit}
            domain = estimate_domain(X, y, random_state=noise + 1, **facts, **wanted)
            epsilon *= 1 - own["share"]
        model = make(epsilon=epsilon, domain=domain, random_state=noise)
        found.append(score(model, X, y, held, data.task))
    return {"scores": np.array(found)}


def figures(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each share: medians, and the loss against declared bounds."""
    data, shares = read(name), arguments.shares
    target = arguments.target_limit or arguments.limit
    facts = {"epsilon": arguments.epsilon, "limit": arguments.limit, "target": target}
    settings = [{"share": share, **facts} for share in (0.0, *shares)]
    found = report.measure(compared, name, settings, arguments)["scores"]
    medians = np.median(found, axis=0)
    numbers = list(asked(data.domain, data.task)["columns"].values()).count("bounds")
    rows: list[report.Row] = []
    for k, share in enumerate(shares, start=1):
        lost = float(medians[0] - medians[k])
        rows.append(
            {
                "set": name,
                "rows": len(data.y),
                "numbers": numbers,
                "share": share,
                "declared": float(medians[0]),
                "estimated": float(medians[k]),
                "lost": lost,
                **report.judged(lost, (MOST_LOST[data.task],), higher=False),
            }
        )
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--sets", nargs="+", help="data sets; all with 10,000 rows if left out")
    parser.add_argument("--epsilon", type=float, default=1.0, help="bounds and model together")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3], help="spent on bounds")
    parser.add_argument("--limit", type=float, default=1e6, help="of every column of numbers")
    parser.add_argument("--target-limit", type=float, help="--limit if left out")
    arguments = parser.parse_args()
    rows: list[report.Row] = []
    for task in MODELS:
        large = [name for name in names_of(task) if len(read(name).y) >= FEWEST_ROWS]
        sets = [name for name in arguments.sets or large if name in names_of(task)]
        rows += [row for name in check_names(sets, task) for row in figures(name, arguments)]
    report.publish("estimated_bounds", rows, arguments)


if __name__ == "__main__":
    main()
