"""Accuracy of private regression of counts on simulated tables, beside other private models.

The logarithm of the mean is linear in 10 columns. Counts have the mean 0.3, 3 or 10 and a bound of
20 to 30 times the mean; those of ``visits`` are overdispersed, with the mean 3 and the bound 80.
``share`` is D^2 with the Poisson deviance on test rows, as a share of that of scikit-learn's
PoissonRegressor without privacy: 0 has the model that always predicts the mean, 1 the model
without privacy. ``mean`` is the mean prediction over the mean of the test rows. ``steps`` is
gradient descent with clipped gradients of all rows, Gaussian noise and a logarithmic link, at
delta = 1e-6. Its number of steps and its clipping bound are the best of a grid for each setting.
The descent also knows the mean of the target. Predictions below 1 % of the mean are raised to it.
Figures are medians over tables.

    python -m examples.benchmarks.accuracy.counts --repeats 20
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score

from examples.benchmarks.shared import report
from skdp import Domain, DPHuberRegressor, DPPoissonRegressor

COLUMNS, N_TEST, DELTA = 10, 20_000, 1e-6
SIZES, EPSILONS = (2000, 20_000, 200_000), (0.5, 1.0, 4.0)
# Mean, bound and dispersion: the variance is mean + dispersion mean^2.
KINDS = {
    "mean 0.3": (0.3, 9.0, 0.0),
    "mean 3": (3.0, 60.0, 0.0),
    "mean 10": (10.0, 200.0, 0.0),
    "visits": (3.0, 80.0, 2.0),
}
SPREAD = 0.6  # of the logarithm of the mean
# Steps and clipping bounds of gradients, in units of the mean of the target.
GRID = [*product((10, 30, 100), (1.0, 3.0, 10.0))]
# The least shares at each epsilon for 20,000 rows without overdispersion.
TARGETS = {0.5: 0.9, 1.0: 0.95, 4.0: 0.99}
WAYS = ("poisson", "huber", "steps")


def table(kind: str, n: int, seed: int) -> tuple[Any, Any]:
    """Return rows in [-1, 1] and counts up to their bound."""
    mean, bound, dispersion = KINDS[kind]
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=COLUMNS)
    coef *= SPREAD / math.sqrt(0.1 * (coef**2).sum())
    X = np.clip(rng.normal(rng.uniform(-0.3, 0.3, COLUMNS), 0.32, (n, COLUMNS)), -1, 1)
    mu = np.exp(X @ coef)
    mu *= mean / mu.mean()
    if dispersion:
        mu = mu * rng.gamma(1 / dispersion, dispersion, n)
    return X, np.minimum(rng.poisson(mu), bound).astype(float)


def greatest_mu(epsilon: float) -> float:
    """Return mu of Gaussian DP at epsilon and `DELTA` (Dong, Roth & Su 2022)."""

    def delta(mu: float) -> float:
        a, b = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
        return float(ndtr(a) - math.exp(epsilon) * ndtr(b)) - DELTA

    return float(brentq(delta, 1e-6, 50))


def steps(X: Any, y: Any, mean: float, epsilon: float, count: int, clip: float, seed: int) -> Any:
    """Return coefficients after noisy steps along clipped gradients of h(z) - y.

    It knows the mean of the target, which it predicts at the start. Replacing a row changes a sum
    of clipped gradients by at most twice the bound.
    """
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(len(X)), X])
    theta = np.zeros(design.shape[1])
    noise = 2 * clip * mean * math.sqrt(count) / greatest_mu(epsilon)
    # The curvature at the start is that of the mean times second moments of at most 1 or so.
    moments = np.append(1.0, np.full(COLUMNS, 0.15))
    for _ in range(count):
        slope = mean * np.exp(np.minimum(design @ theta, 3.0)) - y
        length = np.abs(slope) * np.linalg.norm(design, axis=1)
        slope *= np.minimum(1.0, clip * mean / np.maximum(length, 1e-12))
        gradient = design.T @ slope + noise * rng.normal(size=len(theta))
        theta = theta - 0.5 * gradient / (len(y) * mean * moments)
    return theta


def scores(kind: str, n: int, epsilon: float, seed: int, repetition: int) -> dict[str, Any]:
    """Return shares and relative means of the ways, (ways,), and D^2 without privacy."""
    made = table_seed(seed, repetition)
    (X, y), noise = table(kind, n + N_TEST, made), report.noise_seed(seed, repetition)
    mean, bound, _ = KINDS[kind]
    train, test, answers = slice(0, n), slice(n, None), y[n:]

    def d2(predicted: Any) -> float:
        return float(d2_tweedie_score(answers, np.maximum(predicted, 0.01 * mean), power=1))

    whole = d2(PoissonRegressor(alpha=1e-4).fit(X[train], y[train]).predict(X[test]))
    domain = Domain.unit_box(COLUMNS, target=(0.0, bound))
    facts = {"epsilon": epsilon, "domain": domain, "random_state": noise}
    found = [
        kind_of(**facts).fit(X[train], y[train]).predict(X[test])
        for kind_of in (DPPoissonRegressor, DPHuberRegressor)
    ]
    peers = []
    for count, clip in GRID:
        theta = steps(X[train], y[train], mean, epsilon, count, clip, noise)
        peers.append(mean * np.exp(np.minimum(theta[0] + X[test] @ theta[1:], 3.0)))
    return {
        "share": np.array([d2(own) / whole for own in found]),
        "mean": np.array([own.mean() / answers.mean() for own in found]),
        "peer share": np.array([d2(own) / whole for own in peers]),
        "peer mean": np.array([own.mean() / answers.mean() for own in peers]),
        "D2": whole,
    }


def table_seed(seed: int, repetition: int) -> int:
    """Return the seed of a table."""
    return int(np.random.SeedSequence([seed, repetition]).generate_state(1)[0])


def main() -> None:
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    arguments, rows = parser.parse_args(), []
    for kind, n, epsilon in product(KINDS, arguments.sizes, arguments.epsilons):
        calls = [(kind, n, epsilon, arguments.seed, k) for k in range(arguments.repeats)]
        found = report.stacked(report.run(scores, calls, arguments.jobs, f"{kind}, {n}, {epsilon}"))
        share, mean = np.median(found["share"], axis=0), np.median(found["mean"], axis=0)
        peer = np.median(found["peer share"], axis=0)
        best = int(np.argmax(peer))
        row = {"counts": kind, "n": n, "epsilon": epsilon, "D2": float(np.median(found["D2"]))}
        row |= {
            f"share, {way}": float(own) for way, own in zip(WAYS, (*share, peer[best]), strict=True)
        }
        means = (*mean, np.median(found["peer mean"], axis=0)[best])
        row |= {f"mean, {way}": float(own) for way, own in zip(WAYS, means, strict=True)}
        least = TARGETS.get(epsilon) if n == 20_000 and kind != "visits" else None
        row["verdict"] = report.verdict(float(share[0]), least, None, higher=True)
        rows.append(row)
    report.publish("counts", rows, arguments)


if __name__ == "__main__":
    main()
