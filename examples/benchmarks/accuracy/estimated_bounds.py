"""Accuracy with estimated bounds against declared bounds, at one total epsilon.

No column of numbers has a bound beyond --limit; levels and labels stay declared. A share of
epsilon is spent on bounds, the rest on the model. The declared domain has all of epsilon for the
model. Splits and noise are the same for both. Reads the folder that SKDP_DATA names. ``--simulate``
compares shares on simulated populations, by which the default of --shares was chosen.

Prices of houses in King County are up to 7.7 million, so that a limit of 1e6 clips the target, with
declared bounds as well: ``--sets king_county_house_sales --target-limit 1e7`` does not.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import check_names, names_of, read
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


# Simulated populations


def column(kind: str, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return a column; its scale may vary by orders of magnitude."""
    return {
        "normal": lambda: rng.normal(0, 10 ** rng.uniform(-2, 3), n),
        "years": lambda: np.floor(rng.uniform(1990, 2021, n)),
        "lognormal": lambda: np.exp(rng.normal(rng.uniform(-2, 8), 1, n)),
        "heavy": lambda: rng.standard_t(2, n) * 10 ** rng.uniform(-1, 2),
        "rare": lambda: (rng.random(n) < 0.03).astype(float),
        "whole": lambda: rng.binomial(10, 0.3, n).astype(float),
        "uniform": lambda: rng.uniform(0, 100, n),
        "thousandths": lambda: rng.gamma(2, 1e-3, n),
        "offset": lambda: rng.normal(60, 5, n),
        "many zeros": lambda: (rng.random(n) < 0.2) * np.exp(rng.normal(7, 1, n)),
        "incomes": lambda: np.exp(rng.normal(10, 0.8, n)),
    }[kind]()


KINDS = ("normal", "years", "lognormal", "heavy", "rare", "whole", "uniform", "thousandths",
         "offset", "many zeros", "incomes")  # fmt: skip
# Records, columns, and the standard deviation of the linear predictor.
SIZES = [(1000, 3, 2), (5000, 5, 1), (10_000, 10, 3), (10_000, 20, 2), (20_000, 6, 0.7),
         (20_000, 40, 3), (40_000, 11, 2)]  # fmt: skip
TESTED = 5000


def declared(values: NDArray[Any]) -> tuple[float, float]:
    """Return the bounds of a careful declaration: a tenth wider than most of the values."""
    low, high = np.quantile(values, [0.002, 0.998])
    spare = 0.1 * max(high - low, 1e-9)
    return float(low - spare), float(high + spare)


def population(size: tuple[int, int, float], task: str, seed: int) -> tuple[Any, Any, Domain]:
    """Return a table, a target that is linear in the winsorised columns, and a declaration."""
    n, d, signal = size[0] + TESTED, size[1], size[2]
    rng = np.random.default_rng([seed, n, d])
    X = np.column_stack([column(KINDS[(3 * seed + j) % len(KINDS)], n, rng) for j in range(d)])
    Z = np.clip(X, *np.quantile(X, [0.001, 0.999], axis=0))
    Z = (Z - Z.mean(axis=0)) / np.maximum(Z.std(axis=0), 1e-12)
    weights = rng.normal(size=d)
    f = Z @ weights * (signal / np.linalg.norm(weights))
    noisy = f + (rng.logistic(size=n) if task == "classification" else rng.normal(size=n))
    y = noisy > 0 if task == "classification" else 1000 + 50 * noisy
    if task == "regression" and seed % 2:
        y = np.exp(11 + 0.25 * noisy)
    target: Any = [False, True] if task == "classification" else declared(y)
    return X, y, Domain.box(*np.transpose([declared(own) for own in X.T]), target)


def simulated(size: tuple[int, int, float], task: str, shares: list[float], seed: int) -> Any:
    """Return the losses of the shares against declared bounds, at epsilon = 1."""
    X, y, domain = population(size, task, seed)
    train, held = slice(0, size[0]), (X[size[0] :], y[size[0] :])
    found = [score(MODELS[task](domain=domain, random_state=0), X[train], y[train], held, task)]
    target = "bounds" if task == "regression" else [False, True]
    for share in shares:
        facts: dict[str, Any] = {"epsilon": share, "target": target, "random_state": 1}
        model = MODELS[task](
            domain=estimate_domain(X[train], y[train], **facts), epsilon=1 - share, random_state=0
        )
        found.append(max(-0.2, score(model, X[train], y[train], held, task)))
    return {"lost": found[0] - np.array(found[1:])}


def simulation(arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each size and task, and one for the sizes with many records together."""
    rows: list[report.Row] = []
    for task in MODELS:
        seeds = range(arguments.seed, arguments.seed + arguments.repeats)
        lost = {}
        for size in SIZES:
            calls = [(size, task, arguments.shares, seed) for seed in seeds]
            found = report.run(simulated, calls, arguments.jobs, task)
            lost[size] = report.stacked(found)["lost"]
            facts = {"task": task, "records": size[0], "columns": size[1]}
            rows.append(facts | means(lost[size], arguments.shares))
        many = np.concatenate([own for size, own in lost.items() if size[0] >= FEWEST_ROWS])
        facts = {"task": task, "records": f"{FEWEST_ROWS} and more", "columns": ""}
        rows.append(facts | means(many, arguments.shares))
    return rows


def means(lost: NDArray[Any], shares: list[float]) -> dict[str, float]:
    """Return the mean loss of each share and its standard error."""
    errors = lost.std(axis=0, ddof=1) / len(lost) ** 0.5
    found = {f"share {s:g}": float(m) for s, m in zip(shares, lost.mean(axis=0), strict=True)}
    return found | {f"error {s:g}": float(e) for s, e in zip(shares, errors, strict=True)}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--sets", nargs="+", help="data sets; all with 10,000 rows if left out")
    parser.add_argument("--epsilon", type=float, default=1.0, help="bounds and model together")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3], help="spent on bounds")
    parser.add_argument("--limit", type=float, default=1e6, help="of every column of numbers")
    parser.add_argument("--target-limit", type=float, help="--limit if left out")
    parser.add_argument("--simulate", action="store_true", help="on simulated populations")
    arguments = parser.parse_args()
    if arguments.simulate:
        report.publish("estimated_bounds_simulated", simulation(arguments), arguments)
        return
    rows: list[report.Row] = []
    for task in MODELS:
        large = [name for name in names_of(task) if len(read(name).y) >= FEWEST_ROWS]
        sets = [name for name in arguments.sets or large if name in names_of(task)]
        rows += [row for name in check_names(sets, task) for row in figures(name, arguments)]
    report.publish("estimated_bounds", rows, arguments)


if __name__ == "__main__":
    main()
