"""Private coordinate descent on real data: its defaults beside other models, and its noise.

Without a flag: test accuracy or R^2 (regression: numeric columns) of all defaults beside the
other estimators of this library with the same epsilon and delta, and beside no privacy at all.
``--table`` is Table III of Muthukrishnan & Kalyani (2023) anew: laws of noise at equal epsilon
and delta, for a fixed number of passes, penalty and style. The style "rules" is all automatic;
"source" is Algorithm 3 of the paper with bounds from the domain: no scaling stage, shares clipped
one by one, a fixed penalty, the last iterate. ``--few`` shows where flipped Huber noise helps.
Reads the folder that SKDP_DATA names.

Noise in the verdicts: laws are compared on the same splits. A row says LOSS only if the median
of auto's score less that of the law with the best median certainly lies below 0, jointly over
all rows but with a chance of 1 % (order statistics, whatever the law of the scores). The summary
pools rows: the law is picked on one half of the runs and compared on the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain, product
from typing import Any

import numpy as np
from scipy.stats import binom, t
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import DataSet, check_names, names_of, read
from examples.benchmarks.shared.report import FloatArray, Settings
from skdp import Domain, DPHuberRegressor, DPLogisticRegression
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.linear_model.linear import DPLinearRegression
from skdp.mechanisms.independent import calibrate_releases

EPSILONS = [0.1, 0.5, 1, 4]
MODELS: dict[str, dict[str, Any]] = {
    "classification": {
        "descent": DPCoordinateDescentClassifier,
        "logistic": DPLogisticRegression,
    },
    "regression": {
        "descent": DPCoordinateDescentRegressor,
        "huber": DPHuberRegressor,
        "linear": DPLinearRegression,
    },
}
# What is compared by default, each at every epsilon.
ASKED: dict[str, dict[str, Settings]] = {
    "classification": {"descent": {}, "descent, l1": {"penalty": "l1"}, "logistic": {}},
    "regression": {"descent": {}, "descent, l1": {"penalty": "l1"}, "huber": {}, "linear": {}},
}
# (target, goal) at epsilon = 1, replace_one, delta = 1 / n^2.
BOUNDS: dict[tuple[str, str], tuple[float, ...]] = {
    ("electricity", "descent"): (0.735, 0.745),
    ("adult", "descent"): (0.825, 0.84),
    ("california_housing", "descent, l1"): (0.60,),
}
TABLE = {
    "regression": [
        "california_housing",
        "wine_quality_red",
        "wine_quality_white",
        "airfoil_self_noise",
        "boston_housing",
        "diabetes",
    ],
    "classification": ["pumpkin_seeds", "heart_statlog", "electricity", "breast_cancer_wdbc"],
}
LAWS = ["auto", "flipped_huber", "gaussian", "laplace"]
PASSES = [1, 2, 5, 10, 20, 50]
# Of losses of encoded columns and of targets in [-1, 1].
SOURCE_ALPHA, SOURCE_CLIP = 1e-3, 1.0
# Where few numbers are released.
FEW_COLUMNS, FEW_SET = [1, 2, 4, 8], "diabetes"


def scores(name: str, settings: list[Settings], seed: int, repetition: int) -> dict[str, Any]:
    """Return test scores on one split, of every setting and of two references; and the noise."""
    data = data_of(name)
    train, test = report.split(len(data.y), seed, repetition)
    X, y, noise = data.encoded, data.y, report.noise_seed(seed, repetition)
    found, deviations = [], []
    for asked in settings:
        model = model_of(data, asked, noise).fit(X[train], y[train])
        found.append(model.score(X[test], y[test]))
        deviations.append(deviation_of(model))
    plain, trivial = references(data.task)
    return {
        "private": np.array(found),
        "deviation": np.array(deviations),
        "without privacy": plain.fit(X[train], y[train]).score(X[test], y[test]),
        "trivial": trivial.fit(X[train], y[train]).score(X[test], y[test]),
    }


def data_of(name: str) -> DataSet:
    """Return a set as it is used here: of a regression the numeric columns."""
    return read(name, numeric_only=name in names_of("regression"))


def model_of(data: DataSet, settings: Settings, noise: int) -> Any:
    """Return an estimator; the setting "model" says which one."""
    own = dict(settings)
    label = own.pop("model", "descent")
    return MODELS[data.task][label](domain=data.domain.encoded, random_state=noise, **own)


def deviation_of(model: Any) -> float:
    """Return the standard deviation of the noise of a step, of fits in the source's style."""
    # By the rules, blocks have noise of their own, and other models' noise has no one number.
    of_source = isinstance(getattr(model, "clip", None), float)
    return float(np.sqrt(model.noise_.var())) if of_source else np.nan


def references(task: str) -> tuple[Any, Any]:
    """Return models without privacy: a full one, and one that sees no column."""
    if task == "classification":
        return LogisticRegression(max_iter=2000), DummyClassifier()
    return LinearRegression(), DummyRegressor()


def facts_of(name: str, epsilon: float, arguments: argparse.Namespace) -> Settings:
    """Return what is publicly asked of a fit."""
    return report.facts_of_fit(
        len(data_of(name).y), epsilon, arguments.neighbors, not arguments.pure
    )


# Defaults


def figures(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each epsilon and model: quartiles, references, what it reaches."""
    asked = ASKED[data_of(name).task]
    cases = list(product(arguments.epsilons, asked))
    settings = [
        {"model": label.split(",")[0], **asked[label], **facts_of(name, epsilon, arguments)}
        for epsilon, label in cases
    ]
    found = report.measure(scores, name, settings, arguments)
    rows: list[report.Row] = []
    for k, (epsilon, label) in enumerate(cases):
        low, median, high = report.quartiles(found["private"][:, k])
        rows.append(
            {
                "set": name,
                "epsilon": epsilon,
                "model": label,
                "score": median,
                "lower quartile": low,
                "upper quartile": high,
                "without privacy": float(np.median(found["without privacy"])),
                "trivial": float(np.median(found["trivial"])),
                **report.judged(median, bounds(name, label, epsilon, arguments), higher=True),
            }
        )
    return rows


def bounds(
    name: str, label: str, epsilon: float, arguments: argparse.Namespace
) -> tuple[float, ...] | None:
    """Return target and goal, where there are any."""
    asked = epsilon == 1 and arguments.neighbors == "replace_one" and not arguments.pure
    return BOUNDS.get((name, label)) if asked else None


# Table III


def table_settings(name: str, arguments: argparse.Namespace) -> list[Settings]:
    """Return a setting for every row and law, laws last."""
    cases = product(
        arguments.styles, arguments.penalties, arguments.epsilons, arguments.passes, LAWS
    )
    return [
        {
            **facts_of(name, epsilon, arguments),
            "penalty": penalty,
            "n_passes": passes,
            "mechanism": law,
            **(source_style(name) if style == "source" else {}),
        }
        for style, penalty, epsilon, passes, law in cases
    ]


def source_style(name: str) -> Settings:
    """Return what makes a fit one of Algorithm 3; the clip is in units of the target."""
    data = data_of(name)
    half_range = 1.0
    if data.domain.target_bounds:
        lower, upper = data.domain.target_bounds
        half_range = (upper - lower) / 2
    return {
        "scaling_share": 0,
        "average": False,
        "step_size": 1.0,
        "alpha": SOURCE_ALPHA,
        "clip": SOURCE_CLIP * half_range,
    }


def table(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each style, penalty, epsilon and number of passes, with all laws."""
    settings = table_settings(name, arguments)
    found = report.measure(scores, name, settings, arguments)
    rows: list[report.Row] = []
    for first in range(0, len(settings), len(LAWS)):
        of_row = slice(first, first + len(LAWS))
        asked = settings[first]
        rows.append(
            {
                "set": name,
                "style": "source" if "clip" in asked else "rules",
                "penalty": asked["penalty"],
                "epsilon": asked["epsilon"],
                "passes": asked["n_passes"],
                **by_law(found["private"][:, of_row]),
                **deviations(found["deviation"][0, of_row]),
                "runs": found["private"][:, of_row].tolist(),
            }
        )
    return rows


def by_law(found: FloatArray) -> dict[str, Any]:
    """Return median and quartiles of each law."""
    rows: dict[str, Any] = {}
    for law, (low, median, high) in zip(LAWS, map(report.quartiles, found.T), strict=True):
        rows |= {law: median, f"{law} quartiles": f"{low:.3f} to {high:.3f}"}
    return rows


def deviations(found: FloatArray) -> dict[str, float]:
    """Return the certified deviation of each law's noise over that of auto's, where known."""
    over = {f"{law} noise": float(d / found[0]) for law, d in zip(LAWS, found, strict=True)}
    return {} if np.isnan(found[0]) else over


def certain_loss(found: FloatArray, n_rows: int) -> bool:
    """Say whether auto, first column, certainly has less than the best law, jointly over rows."""
    best = 1 + int(np.median(found, axis=0)[1:].argmax())
    differences = np.sort(found[:, 0] - found[:, best])
    # The r-th greatest lies below the median with a chance of P(Bin(runs, 1/2) < r); the picked
    # law may be any of those there are.
    chance = report.FALSE_ALARM / (n_rows * (len(LAWS) - 1))
    rank = int(binom.ppf(chance, len(differences), 0.5))
    return bool(rank >= 1 and differences[-rank] < 0)


def fair_differences(found: FloatArray) -> FloatArray:
    """Return auto's score less that of the law which is best on the other half of the runs."""
    differences = np.empty(len(found))
    halves = slice(0, None, 2), slice(1, None, 2)
    for half, other in (halves, halves[::-1]):
        best = 1 + int(np.median(found[other], axis=0)[1:].argmax())
        differences[half] = found[half, 0] - found[half, best]
    return differences


def summary(rows: Sequence[report.Row], keys: Sequence[str]) -> list[report.Row]:
    """Return, for each group of rows, what auto gains or loses against the best single law."""
    groups = dict.fromkeys(tuple(row[key] for key in keys) for row in rows)
    found: list[report.Row] = []
    for group in groups:
        mine = [row for row in rows if tuple(row[key] for key in keys) == group]
        # Who predicts the mean has R^2 = 0: whether a worse model is at -1 or -3 matters to none.
        runs = [np.maximum(np.array(row["runs"]), 0.0) for row in mine]
        pooled = np.mean([fair_differences(run) for run in runs], axis=0)
        margin = t.isf(0.005, len(pooled) - 1) * pooled.std(ddof=1) / np.sqrt(len(pooled))
        noise = {law: [r[f"{law} noise"] for r in mine if f"{law} noise" in r] for law in LAWS}
        found.append(
            {
                **dict(zip(keys, group, strict=True)),
                "rows": len(mine),
                "LOSS rows": sum(row["verdict"] == "LOSS" for row in mine),
                "auto less best": float(pooled.mean()),
                "99 % margin": float(margin),
                "least noise over auto's": min(chain(*noise.values()), default=None),
                **{f"{law}, at most": max(found, default=None) for law, found in noise.items()},
                "reached": "as good" if pooled.mean() + margin >= 0 else "LOSS",
            }
        )
    return found


def judge(rows: list[dict[str, Any]]) -> None:
    """Write the verdict of each row into it."""
    for row in rows:
        row["verdict"] = "LOSS" if certain_loss(np.array(row["runs"]), len(rows)) else "as good"


# Where flipped Huber helps


def few_errors(columns: int, settings: list[Settings], seed: int, repetition: int) -> Settings:
    """Return how far one noisy pass over a few columns lies from one without noise."""
    data = data_of(FEW_SET)
    train, _ = report.split(len(data.y), seed, repetition)
    X, y = data.encoded[train, :columns], data.domain.encode_target(data.y[train])
    domain = Domain.box(-np.ones(columns), np.ones(columns), target=(-1, 1))
    fixed = {"domain": domain, "random_state": report.noise_seed(seed, repetition)}
    fixed |= {"n_passes": 1, "scaling_share": 0, "fit_intercept": False, "average": False}
    # Every share is clipped at 1, whatever the noise.
    fixed |= {"clip": np.sqrt(columns), "penalty": None, "step_size": 1.0}

    def coefficients(**asked: Any) -> FloatArray:
        model = MODELS["regression"]["descent"](**fixed, **asked)
        return np.asarray(model.fit(X, y).coef_)

    exact = coefficients(epsilon=1e9, mechanism="laplace")
    return {"error": np.array([np.linalg.norm(coefficients(**s) - exact) for s in settings])}


def few(arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each guarantee and number of releases: errors and variances by law.

    Variances are over the least of Gaussian and Laplace.
    """
    rows: list[report.Row] = []
    for delta, epsilon, columns in product([1e-2, 1e-6], [0.3, 1.0], FEW_COLUMNS):
        budget = {"epsilon": epsilon, "delta": delta}
        settings: list[Settings] = [{**budget, "mechanism": law} for law in LAWS]
        calls = [(columns, settings, arguments.seed, r) for r in range(arguments.repeats)]
        label = f"delta {delta:g}, epsilon {epsilon:g}, {columns} columns"
        found = report.stacked(report.run(few_errors, calls, arguments.jobs, label))
        errors = np.median(found["error"], axis=0)
        shifts = [(2.0, columns)]
        huber, *others = (
            calibrate_releases(law, shifts, neighbors="replace_one", **budget).var()
            for law in LAWS[1:]
        )
        row = {"delta": delta, "epsilon": epsilon, "releases": columns}
        row |= {f"error, {law}": float(e) for law, e in zip(LAWS, errors, strict=True)}
        rows.append(row | {"variance": huber / min(others)})
    return rows


def all_sets(arguments: argparse.Namespace) -> list[str]:
    """Return the sets that were named, or those which the mode is for."""
    known = names_of("regression") + names_of("classification")
    if arguments.sets:
        for name in arguments.sets:
            if name not in known:
                check_names([name], "regression")
        return list(arguments.sets)
    return [*chain(*TABLE.values())] if arguments.table else known


def parse() -> argparse.Namespace:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--sets", nargs="+", help="data sets; all that the mode is for if left out")
    parser.add_argument("--epsilons", nargs="+", type=float, help="default: .1 .5 1 4; .1 1 4")
    parser.add_argument("--neighbors", choices=["replace_one", "add_remove"], default="replace_one")
    parser.add_argument("--pure", action="store_true", help="delta = 0 in place of 1/n^2")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--table", action="store_true", help="laws of noise by number of passes")
    modes.add_argument("--few", action="store_true", help="laws of noise for a few releases")
    parser.add_argument("--passes", nargs="+", type=int, default=PASSES)
    parser.add_argument("--penalties", nargs="+", default=["l1", "l2"])
    parser.add_argument(
        "--styles", nargs="+", choices=["rules", "source"], default=["rules", "source"]
    )
    arguments = parser.parse_args()
    arguments.epsilons = arguments.epsilons or ([0.1, 1, 4] if arguments.table else EPSILONS)
    if arguments.table and arguments.pure:
        parser.error("--table compares laws that need a delta: leave out --pure.")
    return arguments


def main() -> None:
    arguments = parse()
    if arguments.few:
        report.publish("descent_few", few(arguments), arguments)
        return
    names = all_sets(arguments)
    kind = arguments.neighbors + ("_pure" if arguments.pure else "")
    if not arguments.table:
        rows = [row for name in names for row in figures(name, arguments)]
        report.publish(f"descent_{kind}", rows, arguments)
        return
    found = [dict(row) for name in names for row in table(name, arguments)]
    judge(found)
    groups = summary(found, ("style", "penalty", "epsilon"))
    shown = [{key: row[key] for key in row if key != "runs"} for row in found]
    kind = "_".join([*arguments.styles, kind])
    report.publish(f"descent_table_{kind}", shown, arguments)
    report.publish(f"descent_summary_{kind}", groups, arguments)


if __name__ == "__main__":
    main()
