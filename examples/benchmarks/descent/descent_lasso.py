"""A sparse Lasso with as many columns as records: how far private coordinate descent gets.

After the synthetic Lasso of Mangold et al. (2022; 2023 for greedy steps): n = p = 1000, ten
coefficients that are not zero, columns of mean 0 and variance 1 that are normal or log-normal,
epsilon = 10, delta = 1/n^2, one record replaced. The figure is the relative gap (f(w) - f*) / f*
of f(w) = |y - Xw|^2 / 2n + alpha |w|_1 on the columns as they are, by the number of passes, each
number a run of its own; a greedy pass is one step. The penalty and the law of the coefficients,
uniform in [0, 1], are our choice, and two penalties are shown. Beside it stand the gap of w = 0
and that of the best w for columns clipped to their public bounds, which no noise explains.

The bounds, clips and steps are public: they are of the population. ``--sweep`` compares clips on
other draws of the population than the figures are of.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.linear_model import Lasso

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray, Settings
from skdp import Domain
from skdp.linear_model.coordinate_descent import DPCoordinateDescentRegressor

# The estimators are not typed.
REGRESSOR: Any = DPCoordinateDescentRegressor
N, P, NONZERO, NOISE = 1000, 1000, 10, 0.1
FEATURES = ["normal", "log-normal"]
ALPHAS = [0.1, 0.3]
ORDERS = ["cyclic", "random", "greedy"]
PASSES = {"cyclic": [1, 2, 5, 10], "random": [1, 2, 5, 10], "greedy": [5, 10, 20, 40, 80]}
# Public bounds of a column of variance 1, and of the target, whose variance is about 10/3.
BOUND, TARGET = {"normal": 3.0, "log-normal": 12.0}, 6.0
# Where a record's share of a gradient is clipped, in units of a column's deviation times that of
# a coefficient of 1, and steps over 1 / variance: the best by --sweep, for steps of all columns
# and for greedy ones.
SETTINGS: dict[tuple[str, float], dict[str, tuple[float, float]]] = {
    ("normal", 0.1): {"all": (1.0, 1.0), "greedy": (2.0, 1.0)},
    ("normal", 0.3): {"all": (2.0, 1.0), "greedy": (6.0, 1.0)},
    ("log-normal", 0.1): {"all": (1.0, 2.0), "greedy": (4.0, 2.0)},
    ("log-normal", 0.3): {"all": (2.0, 2.0), "greedy": (10.0, 2.0)},
}
SHARES, STEPS = [1.0, 2.0, 3.0, 4.0, 6.0, 10.0], [0.5, 1.0, 2.0]


def problem(features: str, seed: int, repetition: int) -> tuple[FloatArray, FloatArray]:
    """Return columns (N, P) and a target (N,)."""
    rng = np.random.default_rng([seed, repetition])
    X = rng.normal(size=(N, P))
    if features == "log-normal":
        X = (np.exp(X) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)
    w = np.zeros(P)
    w[rng.choice(P, NONZERO, replace=False)] = rng.uniform(0, 1, NONZERO)
    return X, X @ w + NOISE * rng.normal(size=N)


def objective(X: FloatArray, y: FloatArray, w: FloatArray, alpha: float) -> float:
    """Return f(w)."""
    return float(np.mean((y - X @ w) ** 2) / 2 + alpha * np.abs(w).sum())


def exact(X: FloatArray, y: FloatArray, alpha: float) -> FloatArray:
    """Return the Lasso's coefficients."""
    model = Lasso(alpha, fit_intercept=False, tol=1e-6, max_iter=10_000)
    return np.asarray(model.fit(X, y).coef_)


def private(
    X: FloatArray, y: FloatArray, features: str, alpha: float, noise: int, settings: Settings
) -> FloatArray:
    """Return private coefficients; ``share`` and ``step`` are in units of deviations."""
    own = dict(settings)
    bound, share, step = BOUND[features], own.pop("share"), own.pop("step")
    model: Any = REGRESSOR(
        delta=1 / N**2,
        domain=Domain.box(-np.full(P, bound), np.full(P, bound), target=(-TARGET, TARGET)),
        fit_intercept=False,
        random_state=noise,
        penalty="l1",
        # Of columns and of a target that are scaled to [-1, 1].
        alpha=alpha / (bound * TARGET),
        scaling_share=0,
        # All columns are clipped alike: at C / sqrt(P), in units of the target.
        clip=share / bound * math.sqrt(P),
        # The domain's bound on the curvature is bound^2 times the variance.
        step_size=step * bound**2,
        **own,
    )
    return np.asarray(model.fit(X, y).coef_)


def gaps(
    features: str, alpha: float, settings: list[Settings], seed: int, repetition: int
) -> dict[str, Any]:
    """Return the relative gaps of all settings on one draw of the population."""
    X, y = problem(features, seed, repetition)
    least = objective(X, y, exact(X, y, alpha), alpha)

    def gap(w: FloatArray) -> float:
        return objective(X, y, w, alpha) / least - 1

    noise = report.noise_seed(seed, repetition)
    found = [private(X, y, features, alpha, noise, asked) for asked in settings]
    clipped = np.clip(X, -BOUND[features], BOUND[features])
    return {
        "gap": np.array([gap(w) for w in found]),
        "nonzero": np.array([np.count_nonzero(w) for w in found]),
        "w = 0": gap(np.zeros(P)),
        "clipped columns": gap(exact(clipped, y, alpha)),
    }


def usual(features: str, alpha: float, order: str) -> Settings:
    """Return the public settings of a population."""
    share, step = SETTINGS[features, alpha]["greedy" if order == "greedy" else "all"]
    return {"share": share, "step": step}


def settings_of(features: str, alpha: float, arguments: argparse.Namespace) -> list[Settings]:
    """Return what is to be fitted."""
    middle = slice(1, 4) if arguments.sweep else slice(None)
    pairs = [(order, n) for order in arguments.orders for n in PASSES[order][middle]]
    fits = [
        {
            "epsilon": arguments.epsilon,
            "order": order,
            "n_passes": n,
            "average": order != "greedy",
            **usual(features, alpha, order),
        }
        for order, n in pairs
    ]
    if not arguments.sweep:
        return fits
    tried = product(fits, arguments.shares, arguments.steps)
    return [fit | {"share": share, "step": step} for fit, share, step in tried]


def rows_of(features: str, alpha: float, arguments: argparse.Namespace) -> list[report.Row]:
    """Return a row for each setting."""
    settings = settings_of(features, alpha, arguments)
    # Settings are chosen on other draws than the figures are of.
    seed = arguments.seed + (1 if arguments.sweep else 0)
    calls = [(features, alpha, settings, seed, r) for r in range(arguments.repeats)]
    label = f"{features}, alpha {alpha:g}"
    found = report.stacked(report.run(gaps, calls, arguments.jobs, label))
    rows: list[report.Row] = []
    for k, asked in enumerate(settings):
        low, median, high = report.quartiles(found["gap"][:, k])
        rows.append(
            {
                "features": features,
                "alpha": alpha,
                **{key: asked[key] for key in ("order", "n_passes", "share", "step")},
                "gap": median,
                "lower quartile": low,
                "upper quartile": high,
                "nonzero": float(np.median(found["nonzero"][:, k])),
                "w = 0": float(np.median(found["w = 0"])),
                "clipped columns": float(np.median(found["clipped columns"])),
                **report.judged(median, (0.05,), higher=False),
            }
        )
    return rows


def best(rows: Sequence[report.Row]) -> list[report.Row]:
    """Return a row for each population: each order's least gap, and its number of passes."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["gap"], reverse=True):
        own = {key: row[key] for key in ("features", "alpha", "w = 0")}
        own |= {row["order"]: row["gap"], f"{row['order']} passes": row["n_passes"]}
        found.setdefault((row["features"], row["alpha"]), {}).update(own)
    return list(found.values())


def main() -> None:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=FEATURES)
    parser.add_argument("--alphas", nargs="+", type=float, choices=ALPHAS, default=ALPHAS)
    parser.add_argument("--epsilon", type=float, default=10.0, help="1e6: hardly any noise")
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=ORDERS)
    parser.add_argument("--sweep", action="store_true", help="clips and steps on other draws")
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="for --sweep")
    parser.add_argument("--steps", nargs="+", type=float, default=STEPS, help="for --sweep")
    arguments = parser.parse_args()
    cases = product(arguments.features, arguments.alphas)
    rows = [row for case in cases for row in rows_of(*case, arguments)]
    kind = "_sweep" if arguments.sweep else ""
    report.publish(f"descent_lasso{kind}_{arguments.epsilon:g}", rows, arguments)
    report.publish(f"descent_lasso{kind}_best_{arguments.epsilon:g}", best(rows), arguments)


if __name__ == "__main__":
    main()
