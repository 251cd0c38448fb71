"""Private coordinate descent beside private gradient descent with the same exact accounting.

The baseline takes the gradient of all coordinates at once, clips each record's to a norm, adds
Gaussian noise, and returns the average over the second half of its passes. It is favoured: of
many public steps, clips and numbers of passes it has those whose median over the very runs that
are reported is best, and pays nothing for this choice, while coordinate descent follows its
automatic rules. "gradient" works on the columns scaled by their bounds; "looking gradient" first
spends a tenth of the budget on the columns' means and squares, as coordinate descent does, and
works on columns that are centred and scaled by these. The noise of both is Gaussian; all spend
epsilon and delta = 1/n^2, one record replaced.

Populations: ten columns within [-1, 1], all uniform ("balanced"), or with deviations that fall
from the first column's to a thousandth of it ("imbalanced"); each column matters as much as any
other. Real sets: numeric columns. A verdict is on the mean difference over the same runs, with
99 % limits by Student's law; a tie is a difference that these do not tell from 0, or one below
--margin. Reads the folder that SKDP_DATA names for real sets.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import t
from sklearn.linear_model import LinearRegression, LogisticRegression

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import names_of, read
from examples.benchmarks.shared.report import FloatArray, Settings
from skdp import Domain
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.mechanisms.knorm import gaussian_scale

# The estimators are not typed.
CLASSIFIER: Any = DPCoordinateDescentClassifier
REGRESSOR: Any = DPCoordinateDescentRegressor
N, COLUMNS, SMALLEST = 20_000, 10, 1e-3
SYNTHETIC = {
    f"{kind} {task}": (kind, task)
    for kind, task in product(["balanced", "imbalanced"], ["classification", "regression"])
}
REAL = ["california_housing", "electricity"]
# Of the baseline: steps over the domain's bound on the curvature, greatest gradient of a record
# over the domain's bound on it, passes.
STEPS, CLIPS = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0], [0.1, 0.3, 1.0]
PASSES = [20, 100, 500]
STAGE_SHARE, REACH, LEAST_DEVIATION = 0.1, 3.0, 0.01
DESCENTS: dict[str, Settings] = {"descent": {}, "descent, no look": {"scaling_share": 0}}


@dataclass(frozen=True, eq=False)
class Runs:
    """Records to learn from and to test on: columns and targets of a regression in [-1, 1]."""

    task: str
    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray

    def score(self, predictor: FloatArray) -> float:
        """Return the test accuracy, or R^2."""
        if self.task == "classification":
            return float(np.mean((predictor > 0) == self.y_test))
        errors = np.clip(predictor, -1, 1) - self.y_test
        return float(1 - np.mean(errors**2) / self.y_test.var())


def drawn(kind: str, task: str, seed: int, repetition: int) -> Runs:
    """Draw records of a population, and as many to test on."""
    rng = np.random.default_rng([seed, repetition, 2])
    U = rng.uniform(-1, 1, size=(2 * N, COLUMNS))
    scale = np.geomspace(1, SMALLEST, COLUMNS) if kind == "imbalanced" else np.ones(COLUMNS)
    predictor = U @ rng.choice([-1.0, 1.0], COLUMNS)
    if task == "classification":
        y = (predictor + rng.logistic(size=2 * N) > 0).astype(float)
    else:
        y = np.clip((predictor + rng.normal(size=2 * N)) / COLUMNS, -1, 1)
    X = U * scale
    return Runs(task, X[:N], y[:N], X[N:], y[N:])


def split_of(name: str, seed: int, repetition: int) -> Runs:
    """Return a split of a real set."""
    data = read(name, numeric_only=True)
    train, test = report.split(len(data.y), seed, repetition)
    if data.task == "classification":
        y = (data.y == np.unique(data.y)[1]).astype(float)
    else:
        y = data.domain.encode_target(data.y)
    return Runs(data.task, data.encoded[train], y[train], data.encoded[test], y[test])


# The baseline


def look(runs: Runs, noise: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return noisy means and deviations of the columns; a square moves half as far as a number."""
    n, d = runs.X.shape
    means = (runs.X.sum(axis=0) + noise * rng.normal(size=d)) / n
    squares = (2 * (runs.X**2).sum(axis=0) + noise * rng.normal(size=d)) / (2 * n)
    least = max(LEAST_DEVIATION**2, 2 * noise / n)
    return means, np.sqrt(np.clip(squares - means**2, least, 1.0))


def framed(runs: Runs, mu: float, rng: np.random.Generator) -> Runs:
    """Return the runs with columns centred and scaled by a look of privacy ``mu``."""
    # Means and squares of d columns: each record moves 2 d sums by at most 2.
    centre, deviation = look(runs, 2 * np.sqrt(2 * runs.X.shape[1]) / mu, rng)
    scale = REACH * deviation

    def moved(X: FloatArray) -> FloatArray:
        return np.asarray((X - centre) / scale)

    return Runs(runs.task, moved(runs.X), runs.y, moved(runs.X_test), runs.y_test)


def gradient_descent(runs: Runs, mu: float, rng: np.random.Generator) -> FloatArray:
    """Return the test scores of all settings, (passes, clips, steps)."""
    bound = np.sqrt(1 + runs.X.shape[1])
    found = [
        descended(runs, mu, passes, clip * bound, np.array(STEPS) / bound**2, rng)
        for passes, clip in product(PASSES, CLIPS)
    ]
    return np.reshape(found, (len(PASSES), len(CLIPS), len(STEPS)))


def descended(
    runs: Runs, mu: float, passes: int, clip: float, steps: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the test scores for each step, (steps,); all are run at once."""
    n, d = runs.X.shape
    design = np.column_stack([np.ones(n), runs.X])
    length = np.linalg.norm(design, axis=1)[:, None]
    noise = 2 * clip * np.sqrt(passes) / mu
    curvature = 0.25 if runs.task == "classification" else 1.0
    theta, tail = np.zeros((d + 1, len(steps))), np.zeros((d + 1, len(steps)))
    for done in range(1, passes + 1):
        predictor = design @ theta
        slope = special.expit(predictor) if runs.task == "classification" else predictor
        slope -= runs.y[:, None]
        np.clip(slope, -clip / length, clip / length, out=slope)
        gradient = design.T @ slope + noise * rng.normal(size=(d + 1, 1))
        theta -= steps / curvature * gradient / n
        tail += theta * (2 * done > passes)
    average = tail / (passes - passes // 2)
    test = np.column_stack([np.ones(len(runs.X_test)), runs.X_test]) @ average
    return np.array([runs.score(column) for column in test.T])


# Both


def scores(name: str, epsilon: float, seed: int, repetition: int) -> dict[str, Any]:
    """Return the test scores of everything in one run."""
    known = SYNTHETIC.get(name)
    runs = drawn(*known, seed, repetition) if known else split_of(name, seed, repetition)
    delta, noise = 1 / len(runs.y) ** 2, report.noise_seed(seed, repetition)
    mu, rng = 1 / gaussian_scale(epsilon, delta), np.random.default_rng(noise)
    looked = framed(runs, mu * np.sqrt(STAGE_SHARE), rng)
    budget = {"epsilon": epsilon, "delta": delta, "random_state": noise}
    own = {label: descent(runs, **budget, **asked) for label, asked in DESCENTS.items()}
    return own | {
        "gradient": gradient_descent(runs, mu, rng),
        "looking gradient": gradient_descent(looked, mu * np.sqrt(1 - STAGE_SHARE), rng),
        "without privacy": without_privacy(runs),
    }


def descent(runs: Runs, **settings: Any) -> float:
    """Return the test score of coordinate descent."""
    ends = np.ones(runs.X.shape[1])
    if runs.task == "classification":
        domain = Domain.box(-ends, ends, target=[0.0, 1.0])
        model = CLASSIFIER(domain=domain, **settings).fit(runs.X, runs.y)
        return runs.score(model.decision_function(runs.X_test))
    domain = Domain.box(-ends, ends, target=(-1.0, 1.0))
    model = REGRESSOR(domain=domain, **settings).fit(runs.X, runs.y)
    return runs.score(model.predict(runs.X_test))


def without_privacy(runs: Runs) -> float:
    """Return the test score of a model that was fitted without noise."""
    if runs.task == "classification":
        model = LogisticRegression(C=np.inf, max_iter=2000).fit(runs.X, runs.y)
        return runs.score(model.decision_function(runs.X_test))
    return runs.score(LinearRegression().fit(runs.X, runs.y).predict(runs.X_test))


def best_of(found: FloatArray) -> tuple[FloatArray, str]:
    """Return the scores of the setting with the best median, and which one it is."""
    medians = np.median(found, axis=0)
    i, j, k = np.unravel_index(int(medians.argmax()), medians.shape)
    return found[:, i, j, k], f"{PASSES[i]} passes, clip {CLIPS[j]:g}, step {STEPS[k]:g}"


def verdict(own: FloatArray, other: FloatArray, margin: float) -> dict[str, Any]:
    """Return the mean difference with its 99 % limits, and what it says."""
    differences = own - other
    mean = float(differences.mean())
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    limit = float(t.isf(0.005, len(differences) - 1) * error)
    told = "tie" if abs(mean) <= max(limit, margin) else "ahead" if mean > 0 else "behind"
    return {"difference": mean, "99 % limit": limit, "verdict": told}


def rows_of(name: str, epsilon: float, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each baseline."""
    calls = [(name, epsilon, arguments.seed, r) for r in range(arguments.repeats)]
    label = f"{name}, epsilon {epsilon:g}"
    found = report.stacked(report.run(scores, calls, arguments.jobs, label))
    median = partial(np.median, axis=0)
    rows: list[report.Row] = []
    for baseline in ("gradient", "looking gradient"):
        other, setting = best_of(found[baseline])
        rows.append(
            {
                "data": name,
                "epsilon": epsilon,
                **{key: float(median(found[key])) for key in (*DESCENTS, "without privacy")},
                "baseline": baseline,
                "its score": float(median(other)),
                **verdict(found["descent"], other, arguments.margin),
                "its settings": setting,
            }
        )
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument(
        "--sets",
        nargs="+",
        help="populations and data sets; default: all",
        default=[*SYNTHETIC, *REAL],
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0])
    parser.add_argument("--margin", type=float, default=0.002, help="differences below are ties")
    arguments = parser.parse_args()
    known = [*SYNTHETIC, *names_of("regression"), *names_of("classification")]
    if unknown := [name for name in arguments.sets if name not in known]:
        raise SystemExit(f"--sets must be of {', '.join(known)}; got {', '.join(unknown)}.")
    cases = product(arguments.sets, arguments.epsilons)
    rows = [row for case in cases for row in rows_of(*case, arguments)]
    report.publish("descent_baseline", rows, arguments)


if __name__ == "__main__":
    main()
