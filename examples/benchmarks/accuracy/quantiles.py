"""Pinball losses and coverage of private quantile regression, on simulated and on real tables.

The figure is the test pinball loss over that of the model without privacy on the same split, for
the levels .1, .5 and .9; and the share of test targets between the quantiles of a model of
[.1, .9]. The model without privacy minimises the check loss, smoothed over a thousandth of the
half-range. The peer is gradient descent on the loss of the private model with full batches: clipped
gradients, Gaussian noise, delta = 1e-6, and the noise of exact composition. Its number of steps and
its rate are the best of a grid for each cell. Medians over repetitions. Reads the folder that
SKDP_DATA names. With ``--several`` one model of the three levels has delta = 1e-6, with the noise
that is chosen automatically and with Gaussian noise.

    python -m examples.benchmarks.accuracy.quantiles --repeats 10
    python -m examples.benchmarks.accuracy.quantiles --several --sets normal skewed
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.metrics import mean_pinball_loss

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import DataSet, read
from skdp import Domain, DPQuantileRegressor
from skdp.linear_model.losses import SmoothedQuantile
from skdp.mechanisms.knorm import gaussian_scale

LEVELS, EPSILONS, DELTA = (0.1, 0.5, 0.9), [0.5, 1, 4], 1e-6
SIMULATED = {"normal": 0, "skewed": 1, "heavy tails": 2, "heteroscedastic": 3}
REAL = ["california_housing", "king_county_house_sales", "wine_quality_white", "concrete_strength"]
N, DIM = 25_000, 10
# Steps and rates of the peer, and its clipping bound.
GRID, CLIP = ((30, 0.3), (30, 1.0), (100, 0.1), (100, 0.3), (100, 1.0), (300, 0.1)), 1.0


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


def without_privacy(design: Any, target: Any, level: float) -> Any:
    """Return the coefficients of the model without privacy, for a target in [-1, 1]."""
    loss = SmoothedQuantile(level, 1e-3)

    def objective(theta: Any) -> tuple[float, Any]:
        z = design @ theta
        return loss.value(z, target).mean(), design.T @ loss.slope(z, target) / len(design)

    start = np.linalg.lstsq(design, target)[0]
    return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x


def descent(
    design: Any, target: Any, level: float, epsilon: float, grid: tuple[int, float], seed: int
) -> Any:
    """Return the mean of the last iterates of private gradient descent."""
    rng, (steps, rate) = np.random.default_rng(seed), grid
    loss = SmoothedQuantile(level, 0.03)
    # All steps are one Gaussian release whose sensitivity, for a replaced record, is 2 CLIP.
    scale = 2 * CLIP * np.sqrt(steps) * gaussian_scale(epsilon, DELTA)
    theta, kept = np.zeros(design.shape[1]), []
    for _ in range(steps):
        slopes = loss.slope(design @ theta, target)
        lengths = np.abs(slopes) * np.linalg.norm(design, axis=1)
        slopes = slopes * np.minimum(1, CLIP / np.maximum(lengths, 1e-12))
        total = design.T @ slopes + rng.normal(0, scale, len(theta))
        theta = theta - rate * total / len(design)
        kept.append(theta)
    return np.mean(kept[steps // 2 :], axis=0)


def scores(
    name: str, epsilons: list[float], seed: int, repetition: int, several: bool = False
) -> dict[str, Any]:
    """Return ratios of pinball losses by epsilon and level, for the model and the peer.

    For a model of several levels: the mean ratio, by epsilon and noise.
    """
    X, y, domain = table(name, seed + repetition)
    train, test = report.split(len(y), seed, repetition)
    own, (low, high) = report.noise_seed(seed, repetition), domain.target_bounds
    half, design = (high - low) / 2, np.column_stack([np.ones(len(X)), X])
    target = (y - low) / half - 1

    def loss_of(theta: Any, level: float) -> float:
        predicted = (low + half * (1 + design[test] @ theta)).clip(low, high)
        return float(mean_pinball_loss(y[test], predicted, alpha=level))

    plain = [loss_of(without_privacy(design[train], target[train], a), a) for a in LEVELS]
    found: dict[str, list[Any]] = {"private": [], "peer": [], "coverage": []}
    for epsilon in epsilons:
        facts = {"epsilon": epsilon, "domain": domain, "random_state": own}
        if several:
            found["private"].append([])
            for mechanism in ("auto", "gaussian"):
                model = DPQuantileRegressor(
                    quantile=[*LEVELS], delta=DELTA, mechanism=mechanism, **facts
                ).fit(X[train], y[train])
                columns = zip(LEVELS, model.predict(X[test]).T, plain, strict=True)
                ratios = [mean_pinball_loss(y[test], z, alpha=a) / b for a, z, b in columns]
                found["private"][-1].append(np.mean(ratios))
            continue
        private, peer = [], []
        for level, least in zip(LEVELS, plain, strict=True):
            model = DPQuantileRegressor(quantile=level, **facts).fit(X[train], y[train])
            private.append(mean_pinball_loss(y[test], model.predict(X[test]), alpha=level) / least)
            given = design[train], target[train], level, epsilon
            peer.append([loss_of(descent(*given, one, own), level) / least for one in GRID])
        found["private"].append(private)
        found["peer"].append(peer)
        both = DPQuantileRegressor(quantile=[0.1, 0.9], **facts).fit(X[train], y[train])
        p = both.predict(X[test])
        found["coverage"].append(np.mean((p[:, 0] <= y[test]) & (y[test] <= p[:, 1])))
    return {key: np.array(values) for key, values in found.items()}


def figures(name: str, arguments: argparse.Namespace) -> list[report.Row]:
    several = partial(scores, several=arguments.several)
    found = report.measure(several, name, arguments.epsilons, arguments)
    rows = []
    if arguments.several:
        means = np.mean(found["private"], axis=0)
        facts = zip(arguments.epsilons, means.tolist(), strict=True)
        return [{"set": name, "epsilon": e, "auto": a, "gaussian": g} for e, (a, g) in facts]
    for k, epsilon in enumerate(arguments.epsilons):
        ratio, peer = (np.median(found[key][:, k], axis=0) for key in ("private", "peer"))
        peer = peer.min(axis=1)
        row = {"set": name, "epsilon": epsilon}
        row |= {f"pinball {level:g}": float(r) for level, r in zip(LEVELS, ratio, strict=True)}
        row |= {f"peer {level:g}": float(r) for level, r in zip(LEVELS, peer, strict=True)}
        rows.append(row | {"coverage": float(np.median(found["coverage"][:, k]))})
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=10)
    parser.add_argument("--sets", nargs="+", default=[*SIMULATED, *REAL])
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--several", action="store_true", help="one model of all levels")
    arguments = parser.parse_args()
    rows = [row for name in arguments.sets for row in figures(name, arguments)]
    report.publish("quantiles", rows, arguments)


if __name__ == "__main__":
    main()
