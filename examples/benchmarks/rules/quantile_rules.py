"""Pinball losses of quantile regression on simulated populations, for several bandwidths and q.

A problem draws a population (residuals normal, skewed, heavy-tailed or heteroscedastic, a share of
the target explained by d numbers), n epsilon / d and a level. The table has the mean of the excess
over the pinball loss of the true quantile, in percent, by n epsilon / d: a row for each bandwidth
(in half-ranges of the scaled target) and q, and for the automatic choice.

    python -m examples.benchmarks.rules.quantile_rules --problems 200
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import gamma, norm, t
from sklearn.metrics import mean_pinball_loss

from skdp import Domain, DPQuantileRegressor
from skdp.linear_model.losses import SmoothedQuantile

LAWS: list[Any] = [norm(), gamma(2), t(3), norm()]
BINS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
N_TEST = 10_000


class Fixed(DPQuantileRegressor):  # type: ignore[misc]
    """A regressor with a fixed bandwidth in half-ranges of the scaled target, and a fixed q."""

    chosen: tuple[float, float] | None = None

    def _losses(self, level: float, task: Any) -> Any:
        if self.chosen is None:
            return super()._losses(level, task)
        return (SmoothedQuantile(level, self.chosen[0]),)


def problem(seed: int, pairs: list[Any]) -> tuple[float, float, list[float]]:
    """Return n epsilon / d, the level, and the excess pinball loss for each pair."""
    rng = np.random.default_rng(seed)
    law, d = LAWS[seed % 4], int(rng.choice([1, 3, 10, 30]))
    weight, epsilon = 10 ** rng.uniform(1, 4), float(rng.choice([0.5, 1, 2]))
    n = int(min(max(weight * (d + 1) / epsilon, 100), 60_000))
    level = float(rng.choice([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]))
    coef, share = rng.normal(size=d), rng.uniform(0.1, 0.8)
    width, spread, slope = rng.uniform(0.15, 0.5), rng.uniform(0.02, 0.3), 0.6 * (seed % 4 == 3)
    coef *= np.sqrt(share / ((coef**2).sum() * width**2))
    scale = np.sqrt((1 - share) / min(law.var(), 4))

    def drawn(n: int) -> tuple[Any, Any, Any]:
        X = np.clip(rng.normal(0, width, (n, d)), -1, 1)
        around = scale * (1 + slope * X[:, 0])
        y = X @ coef + around * (law.rvs(n, random_state=rng) - law.mean())
        return X, y, X @ coef + around * (law.ppf(level) - law.mean())

    X, y, _ = drawn(n)
    domain = Domain.box([-1] * d, [1] * d, target=(-1 / spread, 1 / spread))
    X_test, y_test, best = drawn(N_TEST)
    least, found = mean_pinball_loss(y_test, best, alpha=level), []
    for pair in pairs:
        model = Fixed(quantile=level, epsilon=epsilon, domain=domain, random_state=seed)
        if pair is not None:
            model.chosen = pair
            Fixed._reference = DPQuantileRegressor._reference.__class__(
                **vars(DPQuantileRegressor._reference) | {"usual_q": (pair[1], pair[1])}
            )
        else:
            Fixed._reference = DPQuantileRegressor._reference
        p = model.fit(X, y).predict(X_test)
        found.append(100 * (mean_pinball_loss(y_test, p, alpha=level) / least - 1))
    return n * epsilon / (d + 1), level, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--bandwidths", type=float, nargs="*", default=[])
    parser.add_argument("--q", type=float, nargs="*", default=[0.8])
    asked = parser.parse_args()
    pairs = [None, *((b, q) for b in asked.bandwidths for q in asked.q)]
    found = [problem(seed, pairs) for seed in range(asked.problems)]
    weights, levels = np.array([(w, level) for w, level, _ in found]).T
    excess = np.minimum([losses for _, _, losses in found], 100.0)
    for outer in (False, True):
        print(
            "outer levels" if outer else "levels from .25 to .75", *(f"{b:8g}" for b in BINS[:-1])
        )
        for k, pair in enumerate(pairs):
            own = (np.abs(levels - 0.5) > 0.3) == outer
            bins = [own & (a <= weights) & (weights < b) for a, b in pairwise(BINS)]
            means = [excess[at, k].mean() if at.any() else np.nan for at in bins]
            print(f"{'auto' if pair is None else pair!s:22}", *(f"{m:8.2f}" for m in means))


if __name__ == "__main__":
    main()
