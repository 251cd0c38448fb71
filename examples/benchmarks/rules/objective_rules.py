"""Objective perturbation on broad simulated populations: AUROC, log-loss and R^2.

A problem draws a population, the number of records (100 to 10^5, log-uniform), epsilon (.1 to 4,
log-uniform), and delta (0 or 1 / n^2). Populations have 1 to 40 numbers, skewed or not, wide or
narrow in their bounds, up to 6 columns of levels, weak and strong signals, rare labels, and targets
with heavy tails. The tables have means by n epsilon / d. ``lost`` is relative to the best linear
model without privacy: in AUROC, in accuracy, in R^2 (at most 1.5), and in log-loss (as a share of
what the best model is ahead of the shares of the labels, at most 1.5).

``--curves`` prints what ``additive="auto"`` gains over lines, in AUROC and in R^2, with standard
errors: on populations of linear effects, and on those with waves, steps, bumps and hinges, each
with a share of a line.

    python -m examples.benchmarks.rules.objective_rules --curves

    cd path/to/old; python -m examples.benchmarks.rules.objective_rules --save /tmp/old.json
    cd path/to/new; python -m examples.benchmarks.rules.objective_rules --against /tmp/old.json

The last command adds the mean gains against the first one on the same problems, with
their standard errors and the number of problems that lose more than .005 in the first measure.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score

from examples.benchmarks.rules.descent_rules import (
    MOST_LOSS,
    N_BEST,
    N_TEST,
    Population,
    likelihood,
)
from examples.benchmarks.shared import report
from skdp import DPHuberRegressor, DPLogisticRegression

FloatArray = report.FloatArray
MODELS: dict[str, Any] = {"classification": DPLogisticRegression, "regression": DPHuberRegressor}
MEASURES = {"classification": ("AUROC", "accuracy", "log-loss"), "regression": ("R2",)}
NUMBERS = (1, 2, 3, 5, 8, 12, 20, 30, 40)
# Ends of the bins of n epsilon / d.
BINS = (0.0, 2.0, 5.0, 12.0, 30.0, 80.0, 250.0, 1000.0, math.inf)
# The same for the gains of curves; delta of these.
CURVE_BINS, CURVE_DELTA = (30.0, 150.0, 600.0, 5000.0), 1e-6
# At least this many test records have each label, or AUROC would be too noisy.
FEWEST = 40


def population(task: str, seed: int) -> Population:
    """Return a population; broader than those of the rules of coordinate descent."""
    drawn, rng = Population.draw(task, seed, NUMBERS), np.random.default_rng([seed, 8])
    facts = {
        "signal": np.exp(rng.uniform(np.log(0.3), np.log(5))),
        "intercept": rng.normal() * rng.choice([0.5, 2.0]),
        "explained": rng.uniform(0.1, 0.95),
        "deviation": np.exp(rng.uniform(np.log(0.05), np.log(0.8))),
        "mean": rng.uniform(-0.9, 0.5),
        "residuals": rng.choice([0, 1, 2, 3, 4]),
        "skew": rng.choice([0.8, 1.4]),
    }
    return replace(drawn, facts=drawn.facts | facts)


@dataclass(frozen=True)
class Curved(Population):
    """A population with curves in the place of the linear effects of numbers."""

    def _rows(self, n: int, rng: Any) -> tuple[FloatArray, list[Any], FloatArray]:
        X, levels, u = super()._rows(n, rng)
        z = (X - self.centre) / self.spread
        draws = np.random.default_rng([int(self.facts["seed"]), 10])
        share = draws.choice([0.0, 0.3, 0.7, 1.0])
        for j, slope in enumerate(self.beta):
            kind, place, width = draws.integers(4), draws.normal(), draws.uniform(0.3, 1.5)
            moved = (z[:, j] - place) / width
            curve = [np.sin(moved), 1.0 * (moved > 0), np.exp(-(moved**2)), moved.clip(0, 3)][kind]
            u += slope * share * (2 * curve - z[:, j])
        return X, levels, u


def settings(seed: int) -> tuple[int, dict[str, Any]]:
    """Return the number of records and the parameters of a problem."""
    rng = np.random.default_rng([seed, 9])
    n = int(np.exp(rng.uniform(np.log(100), np.log(1e5))))
    epsilon = float(np.exp(rng.uniform(np.log(0.1), np.log(4))))
    delta = float(rng.choice([0.0, 1 / n**2]))
    return n, {"epsilon": epsilon, "delta": delta, "random_state": seed}


def scores(task: str, u: FloatArray, target: FloatArray) -> list[float]:
    """Return the scores of log-odds or predictions; the log-loss with a minus."""
    if task == "regression":
        return [1 - float(np.mean((target - u) ** 2) / target.var())]
    right = float(np.mean((u > 0) == target))
    return [float(roc_auc_score(target, u)), right, likelihood(u.clip(-30, 30), target)]


def best_of(drawn: Population, seed: int, X: Any, y: Any) -> tuple[list[float], list[float]]:
    """Return the scores of the best linear model and of the trivial one on test records."""
    rows, target = drawn.sample(N_BEST, np.random.default_rng([seed, 0]))
    encode = drawn.domain.encode
    if drawn.task == "regression":
        plain = LinearRegression().fit(encode(rows), target)
        return scores(drawn.task, plain.predict(encode(X)), y), [0.0]
    model = LogisticRegression(C=1e4, max_iter=1000).fit(encode(rows), target)
    null = np.full(len(y), np.log(y.mean() / (1 - y.mean())))
    return [scores(drawn.task, u, y) for u in (model.decision_function(encode(X)), null)]


def weight_of(task: str, seed: int) -> float:
    """Return n epsilon / d of a problem."""
    n, known = settings(seed)
    return float(n * known["epsilon"] / (population(task, seed).domain.n_encoded + 1))


def problem(
    task: str, seed: int, parameters: list[dict[str, Any]], curved: bool = False
) -> dict[str, Any] | None:
    """Return n epsilon / d and the losses for each dictionary of parameters.

    None if a label is too rare to test.
    """
    drawn, (n, known) = population(task, seed), settings(seed)
    if curved:
        facts = vars(drawn) | {"facts": drawn.facts | {"shift": 0.0, "seed": seed}}
        drawn = Curved(**facts)
    drawn = drawn.standardised()
    X, y = drawn.sample(N_TEST, np.random.default_rng([seed, 1]))
    rows, target = drawn.sample(n, np.random.default_rng([seed, 2]))
    if task == "classification" and not FEWEST <= y.sum() <= len(y) - FEWEST:
        return None
    best, null = best_of(drawn, seed, X, y)
    kept = []
    for own in parameters:
        model = MODELS[task](domain=drawn.domain, **(known | own)).fit(rows, target)
        u = model.predict(X) if task == "regression" else model.decision_function(X)
        lost = np.array(best) - scores(task, u, y)
        if task == "classification":
            lost[2] /= max(best[2] - null[2], 0.01)
        kept.append(lost.clip(max=[*(1.0,) * (len(lost) - 1), MOST_LOSS]).tolist())
    return {"seed": seed, "weight": weight_of(task, seed), "lost": kept}


# Curves


def curve_rows(arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each bin: the mean gains of curves over lines, with standard errors."""
    pair = [{"delta": CURVE_DELTA}, {"delta": CURVE_DELTA, "additive": "auto"}]
    rows: list[dict[str, Any]] = [
        {"records": f"{low:g} to {high:g}"} for low, high in pairwise(CURVE_BINS)
    ]
    for task in arguments.tasks:
        seeds = range(arguments.seed, arguments.seed + arguments.repeats)
        bins = np.digitize([weight_of(task, seed) for seed in seeds], CURVE_BINS)
        used = [s for s, k in zip(seeds, bins, strict=True) if 0 < k < len(CURVE_BINS)]
        for kind in ("curved", "linear"):
            calls = [(task, seed, pair, kind == "curved") for seed in used]
            found = [f for f in report.run(problem, calls, arguments.jobs, task) if f]
            gains = np.array([f["lost"][0][0] - f["lost"][1][0] for f in found])
            place = np.digitize([f["weight"] for f in found], CURVE_BINS) - 1
            name = f"{MEASURES[task][0]}, {kind}"
            for k, row in enumerate(rows):
                own = gains[place == k]
                row |= {f"problems, {name}": len(own), name: float(own.mean())}
                row[f"error, {name}"] = float(own.std(ddof=1) / math.sqrt(len(own)))
    return list(rows)


# Versions


def tables(task: str, found: list[Any], older: dict[int, Any]) -> list[report.Row]:
    """Return a row for each bin: mean losses, and gains against older ones."""
    rows: list[report.Row] = []
    for low, high in [*pairwise(BINS), (0.0, math.inf)]:
        own = [f for f in found if low <= f["weight"] < high]
        if not own:
            continue
        lost = np.array([f["lost"] for f in own])
        row: dict[str, Any] = {"task": task, "n epsilon / d": f"{low:g} to {high:g}"}
        row["problems"] = len(own)
        both = [f["seed"] in older for f in own]
        before = np.array([older[f["seed"]]["lost"] for f in own if f["seed"] in older])
        for k, name in enumerate(MEASURES[task]):
            row[f"lost {name}"] = f"{lost[:, k].mean():.4f}"
            if len(before) > 1:
                gain = before[:, k] - lost[both, k]
                error = gain.std() / math.sqrt(len(gain))
                row[f"gain {name}"] = f"{gain.mean():+.4f} ({error:.4f})"
                if k == 0:
                    row["worse"] = int((gain < -0.005).sum())
        rows.append(row)
    return rows


def main() -> None:
    """Run the problems and print the tables."""
    parser = report.parser_for(__doc__, repeats=300)
    parser.add_argument("--tasks", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--parameters", type=json.loads, default={}, help="of the models, as JSON")
    parser.add_argument("--curves", action="store_true", help="what automatic curves gain")
    parser.add_argument("--save", type=Path, help="where the losses are written")
    parser.add_argument("--against", type=Path, help="losses that an earlier call saved")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.curves:
        report.publish("objective_rules_curves", curve_rows(arguments), arguments)
        return
    older = json.loads(arguments.against.read_text()) if arguments.against else {}
    made, rows = {}, []
    for task in arguments.tasks:
        seeds = range(arguments.seed, arguments.seed + arguments.repeats)
        calls = [(task, seed, [arguments.parameters]) for seed in seeds]
        found = [f for f in report.run(problem, calls, arguments.jobs, task) if f]
        made[task] = [f | {"lost": f["lost"][0]} for f in found]
        before = {f["seed"]: f for f in older.get(task, [])}
        rows += tables(task, made[task], before)
        print(report.table([row for row in rows if row["task"] == task]) + "\n", flush=True)
    if arguments.save:
        arguments.save.write_text(json.dumps(made))


if __name__ == "__main__":
    main()
