"""The rules for bins and ridge of the marginals of the benchmark of peers, on simulated tables.

Columns have normal or lognormal values whose deviation is from 1/20 to 1/2 of the half of their
bounds, and a quarter of them are levels. A figure is the mean of the shares of the R^2 of least
squares on new records, of -1 or more, over sizes, epsilons and tables. ``fineness`` multiplies the
number of bins (n / noise)^(1/3), and ``ridge`` the noise of a count. Needs no data files.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from examples.benchmarks.peers.opponents import Marginals
from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray, Row
from skdp import Domain

SIZES, COLUMNS, EPSILONS, DELTA, NEW = (
    (1000, 5000, 20_000),
    (6, 12, 20),
    (0.1, 0.5, 1, 4),
    1e-6,
    2000,
)
FINENESSES, RIDGES = (0.5, 0.7, 1.0, 1.4), (0.1, 0.25, 0.5, 1.0, 2.0)


def draw(n: int, p: int, rng: Generator) -> tuple[FloatArray, FloatArray, Domain]:
    """Return encoded rows, targets in [-1, 1], and the domain."""
    levels, common = p // 4, rng.uniform(0.1, 0.6)
    Z = np.sqrt(common) * rng.standard_normal((n, 1))
    Z = Z + np.sqrt(1 - common) * rng.standard_normal((n, p))
    skewed = np.where(rng.uniform(size=p) < 0.3, np.exp(0.7 * Z) - np.exp(0.245), Z)
    spread = np.exp(rng.uniform(np.log(0.05), np.log(0.5), p))
    X = np.clip(rng.uniform(-0.6, 0.6, p) + spread * skewed, -1, 1)
    X[:, :levels] = Z[:, :levels] > rng.uniform(-1, 1, levels)
    signal = Z @ (rng.standard_normal(p) * (rng.uniform(size=p) < 0.7))
    known = rng.uniform(0.2, 0.9)
    y = np.sqrt(known) * signal / signal.std() + np.sqrt(1 - known) * rng.standard_normal(n)
    size = np.exp(rng.uniform(np.log(0.08), np.log(0.4)))
    names: dict[str, Any] = {f"x{k}": [0, 1] if k < levels else (-1, 1) for k in range(p)}
    domain = Domain(names, target=(-1, 1)).encoded
    return X, np.clip(rng.uniform(-0.4, 0.4) + size * y, -1, 1), domain


def shares(n: int, p: int, epsilon: float, seed: int, repetition: int) -> dict[str, FloatArray]:
    """Return the shares of all rules on one table."""
    X, y, domain = draw(n + NEW, p, np.random.default_rng([seed, repetition, n, p]))
    best = LinearRegression().fit(X[:n], y[:n]).score(X[n:], y[n:])
    found = []
    for fineness, ridge in product(FINENESSES, RIDGES):
        model = Marginals(domain, epsilon, DELTA, "add_remove", repetition)
        model.fineness, model.ridge = fineness, ridge
        predicted = model.fit(X[:n], y[:n]).predict(X[n:])
        found.append(max(-1.0, r2_score(y[n:], predicted) / best))
    return {"shares": np.array(found)}


def main() -> None:
    arguments = report.parser_for(__doc__, repeats=10).parse_args()
    calls = [
        (n, p, epsilon, arguments.seed, r)
        for n, p, epsilon in product(SIZES, COLUMNS, EPSILONS)
        for r in range(arguments.repeats)
    ]
    found = report.stacked(report.run(shares, calls, arguments.jobs, "tables"))["shares"]
    means = found.mean(axis=0).reshape(len(FINENESSES), len(RIDGES))
    rows: list[Row] = [
        {"fineness": fineness, **{f"ridge {r:g}": m for r, m in zip(RIDGES, own, strict=True)}}
        for fineness, own in zip(FINENESSES, means.tolist(), strict=True)
    ]
    report.publish("marginal_rules", rows, arguments)


if __name__ == "__main__":
    main()
