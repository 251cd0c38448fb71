"""Pinball losses and coverage of private quantile regression, on simulated and on real tables.

The figure is the test pinball loss over that of scikit-learn's QuantileRegressor on the same split,
without privacy and without a penalty, for the levels .1, .5 and .9; and the share of test targets
between the first and the last quantile of a model of [.1, .9]. The peer is gradient descent on the
same smoothed loss with full batches: clipped gradients, Gaussian noise, delta = 1e-6, and the
noise of exact composition. Medians over repetitions. Reads the folder that SKDP_DATA names.

    python -m examples.benchmarks.accuracy.quantiles --repeats 10
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import DataSet, read
from skdp import Domain, DPQuantileRegressor
from skdp.linear_model.losses import SmoothedQuantile
from skdp.mechanisms.knorm import gaussian_scale

LEVELS, EPSILONS, DELTA = (0.1, 0.5, 0.9), [0.5, 1, 4], 1e-6
SIMULATED = {"normal": 0, "skewed": 1, "heavy tails": 2, "heteroscedastic": 3}
REAL = ["california_housing", "king_county_house_sales", "wine_quality_white", "concrete_strength"]
MOST, N, DIM = 4_000, 25_000, 10
STEPS, RATE, CLIP = 100, 1.0, 1.0


def table(name: str, seed: int) -> tuple[NDArray[Any], NDArray[Any], Domain]:
    """Return encoded rows, targets and the domain of the encoded rows."""
    if name not in SIMULATED:
        data: DataSet = read(name, numeric_only=True)
        return data.encoded, data.y, data.domain.encoded
    rng, kind = np.random.default_rng(seed), SIMULATED[name]
    X = np.clip(rng.normal(0, 0.4, (N, DIM)), -1, 1)
    noise = [rng.normal(size=N), rng.gamma(2, 0.7, N), rng.standard_t(3, N), rng.normal(size=N)]
    scale = 1 + 0.6 * X[:, 0] * (kind == 3)
    y = X @ np.linspace(-1.5, 1.5, DIM) + scale * noise[kind]
    return X, y, Domain.box([-1] * DIM, [1] * DIM, target=(-15, 15))


def descent(X: Any, y: Any, level: float, epsilon: float, domain: Domain, seed: int) -> Any:
    """Return a function that predicts by the last iterates' mean of private gradient descent."""
    rng, (low, high) = np.random.default_rng(seed), domain.target_bounds
    design, half = np.column_stack([np.ones(len(X)), X]), (high - low) / 2
    loss, target = SmoothedQuantile(level, 0.03), (y - low) / half - 1
    # All steps are one Gaussian release whose sensitivity, for a replaced record, is 2 CLIP.
    scale = 2 * CLIP * np.sqrt(STEPS) * gaussian_scale(epsilon, DELTA)
    theta, kept = np.zeros(design.shape[1]), []
    for _ in range(STEPS):
        slopes = loss.slope(design @ theta, target)
        lengths = np.abs(slopes) * np.linalg.norm(design, axis=1)
        slopes = slopes * np.minimum(1, CLIP / np.maximum(lengths, 1e-12))
        total = design.T @ slopes + rng.normal(0, scale, len(theta))
        theta = theta - RATE * total / len(X)
        kept.append(theta)
    mean = np.mean(kept[STEPS // 2 :], axis=0)
    return lambda rows: low + half * (1 + np.column_stack([np.ones(len(rows)), rows]) @ mean)


def scores(name: str, epsilons: list[float], seed: int, repetition: int) -> dict[str, Any]:
    """Return ratios of pinball losses by epsilon and level, for the model and the peer."""
    X, y, domain = table(name, seed + repetition)
    train, test = report.split(len(y), seed, repetition)
    few, own = train[:MOST], report.noise_seed(seed, repetition)
    low, high = domain.target_bounds
    plain = [
        QuantileRegressor(quantile=level, alpha=0, solver="highs").fit(X[few], y[few])
        for level in LEVELS
    ]
    found: dict[str, list[Any]] = {"private": [], "peer": [], "coverage": []}
    for epsilon in epsilons:
        facts = {"epsilon": epsilon, "domain": domain, "random_state": own}
        ratios: list[list[float]] = [[], []]
        for level, best in zip(LEVELS, plain, strict=True):
            model = DPQuantileRegressor(quantile=level, **facts).fit(X[train], y[train])
            peer = descent(X[train], y[train], level, epsilon, domain, own)
            least = mean_pinball_loss(y[test], best.predict(X[test]).clip(low, high), alpha=level)
            for k, predict in enumerate((model.predict, peer)):
                p = predict(X[test]).clip(low, high)
                ratios[k].append(mean_pinball_loss(y[test], p, alpha=level) / least)
        found["private"].append(ratios[0])
        found["peer"].append(ratios[1])
        both = DPQuantileRegressor(quantile=[0.1, 0.9], **facts).fit(X[train], y[train])
        p = both.predict(X[test])
        found["coverage"].append(np.mean((p[:, 0] <= y[test]) & (y[test] <= p[:, 1])))
    return {key: np.array(values) for key, values in found.items()}


def figures(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    found = report.measure(scores, name, arguments.epsilons, arguments)
    rows = []
    for k, epsilon in enumerate(arguments.epsilons):
        ratio, peer = (np.median(found[key][:, k], axis=0) for key in ("private", "peer"))
        row = {"set": name, "epsilon": epsilon}
        row |= {f"pinball {level:g}": float(r) for level, r in zip(LEVELS, ratio, strict=True)}
        row |= {f"peer {level:g}": float(r) for level, r in zip(LEVELS, peer, strict=True)}
        rows.append(row | {"coverage": float(np.median(found["coverage"][:, k]))})
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=10)
    parser.add_argument("--sets", nargs="+", default=[*SIMULATED, *REAL])
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    arguments = parser.parse_args()
    rows = [row for name in arguments.sets for row in figures(name, arguments)]
    report.publish("quantiles", rows, arguments)


if __name__ == "__main__":
    main()
