"""How the constants behind DPLinearRegression's automatic choices do on simulated regressions.

Each problem draws where the features lie in [-1, 1], how they spread and correlate, the
coefficients and the share of variance they explain. There is no sampling error: what is measured
is the noise alone, as the loss of R^2 against the best linear predictor, at most 1.5, averaged.
``--shrink`` compares the level below which directions are shrunk, ``--signal`` how much an error
in a product of features is taken to matter, ``--recipes`` the ways of post-processing. "mean"
predicts the mean of the target alone, released with the whole budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp import Domain
from skdp.linear_model._moments import advice as rules
from skdp.linear_model._moments import solve as post
from skdp.linear_model._moments.advice import MomentPlan
from skdp.linear_model._moments.solve import Moments
from skdp.linear_model._shared.gram import GRAM_BITS, exact_statistic, release_exact
from skdp.mechanisms import Sensitivity

FloatArray = NDArray[np.float64]
MOST_LOSS = 1.5
SHRINKS = (0.2, 0.35, 0.5, 0.7, 1.0)
SIGNALS = (0.05, 0.15, 0.3, 0.6, 1.2)


@dataclass(frozen=True)
class Problem:
    """A population: the means of (1, x, y)(1, x, y)', and what they say."""

    means: FloatArray

    @classmethod
    def draw(cls, p: int, rng: Generator) -> Problem:
        """Draw one."""
        centre = rng.uniform(-0.9, 0.5, p)
        spread = np.exp(rng.uniform(np.log(0.05), np.log(0.4), p))
        spread = np.minimum(spread, 1.02 - 0.9 * np.abs(centre))
        loadings = rng.normal(size=(p, 3)) * rng.choice([0.3, 1.0, 2.0])
        correlation = loadings @ loadings.T + np.eye(p)
        size = spread / np.sqrt(np.diag(correlation))
        covariance = correlation * np.outer(size, size)
        theta = (rng.normal(size=p) * (rng.random(p) < 0.6) + 1e-3) / spread
        variance = np.exp(2 * rng.uniform(np.log(0.1), np.log(0.4)))
        explained = rng.uniform(0.2, 0.9) * variance
        theta *= np.sqrt(explained / (theta @ covariance @ theta))
        mean = np.concatenate([[1.0], centre, [rng.uniform(-0.6, 0.6)]])
        means = np.outer(mean, mean)
        means[1:-1, 1:-1] += covariance
        means[1:-1, -1] += covariance @ theta
        means[-1, 1:-1] = means[1:-1, -1]
        means[-1, -1] += variance
        return cls(means)

    def loss(self, theta: FloatArray) -> float:
        """Return how much R^2 loses against the best linear predictor; at most 1.5."""
        m = self.means
        best = np.linalg.solve(m[:-1, :-1], m[:-1, -1])
        off = theta - best
        return float(min(off @ m[:-1, :-1] @ off / (m[-1, -1] - m[0, -1] ** 2), MOST_LOSS))


def exact(problem: Problem, n: int) -> NDArray[np.object_]:
    """Return the Gram matrix of n records in units of 2^-40."""
    scaled = problem.means * n * 2.0**GRAM_BITS
    return np.array([[int(v) for v in row] for row in scaled], dtype=object)


def plans(p: int, n: int, signals: tuple[float, ...]) -> Iterator[MomentPlan]:
    """Yield a plan for epsilon = 1 for each signal."""
    ball = rules.moment_ball(Domain.unit_box(p, target=(-1, 1)), "replace_one")
    for signal in signals:
        noise = rules.named_noise(ball, "matrix", signal, True, 1.0, 0.0)
        yield MomentPlan(ball.layout, noise, n, Sensitivity(ball))


def losses(
    p: int,
    n: int,
    repeats: int,
    seed: int,
    plan: MomentPlan,
    solve: Callable[..., tuple[FloatArray, ...]],
) -> float:
    """Return the mean loss over problems."""
    names = ("1", *map(str, range(p)), "y")
    found = []
    for k in range(repeats):
        problem = Problem.draw(p, np.random.default_rng([seed, p, k]))
        sums = exact_statistic(plan.layout, exact(problem, n))
        released = release_exact(plan.releases[0], sums, np.random.default_rng([seed, p, n, k]))
        found.append(problem.loss(solve(Moments.of(plan, released, names).noisy(True))[0]))
    return float(np.mean(found))


def mean_only(p: int, n: int, repeats: int, seed: int) -> float:
    """Return the mean loss of the target's mean with Laplace noise of the whole budget."""
    found = []
    for k in range(repeats):
        m = Problem.draw(p, np.random.default_rng([seed, p, k])).means
        explained = m[1:-1, -1] - m[0, 1:-1] * m[0, -1]
        covariance = m[1:-1, 1:-1] - np.outer(m[0, 1:-1], m[0, 1:-1])
        lost = explained @ np.linalg.solve(covariance, explained) + 8 / n**2
        found.append(min(lost / (m[-1, -1] - m[0, -1] ** 2), MOST_LOSS))
    return float(np.mean(found))


def row(p: int, n: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Return the losses of one size of problem."""
    size = (p, n, arguments.repeats, arguments.seed)
    usual = next(plans(p, n, (rules.SIGNAL,)))
    if arguments.signal:
        pairs = zip(SIGNALS, plans(p, n, SIGNALS), strict=True)
        return {f"{s:g}": losses(*size, plan, lambda m: post.solve("auto", m)) for s, plan in pairs}
    if arguments.recipes:
        return {
            name: losses(*size, usual, lambda m, name=name: post.solve(name, m))
            for name in post.RECIPES
        }
    found = {
        f"{shrink:g}": losses(
            *size, usual, lambda m, shrink=shrink: post.solve("auto", replace(m, shrink=shrink))
        )
        for shrink in SHRINKS
    }
    noise = rules.feature_noise(usual) / n
    return found | {"mean": mean_only(*size), "noise": noise}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signal", action="store_true", help="compare weights of the products")
    parser.add_argument("--recipes", action="store_true", help="compare ways of post-processing")
    parser.add_argument("--columns", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[400, 1600, 6400, 25600, 102400],
        help="n times epsilon",
    )
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for p in arguments.columns:
        for n in arguments.sizes:
            cells = "  ".join(f"{k}: {v:.3f}" for k, v in row(p, n, arguments).items())
            print(f"p = {p:3d}  n eps = {n:6d}   {cells}", flush=True)


if __name__ == "__main__":
    main()
