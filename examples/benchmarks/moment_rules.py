"""How the constants behind DPLinearRegression's automatic choices do on simulated regressions.

Each problem draws where the features lie in [-1, 1], how they spread and correlate, the
coefficients and the share of variance they explain. There is no sampling error: what is measured
is the noise alone, as the loss of R^2 against the best linear predictor, at most 1.5, averaged.
``--shrink`` compares the level below which directions are shrunk, ``--signal`` how much an error
in a product of features is taken to matter, ``--recipes`` the ways of post-processing. "mean"
predicts the mean of the target alone, released with the whole budget.

``--small`` compares methods for few records: DPLinearRegression as it is, without its cross moments
(in whose place it released the target's mean alone), and AdaSSP, on records drawn from
populations of numbers, half of them skewed, and levels; R^2 on 4000 further records.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from contenders import ADASSP_KINDS, AdaSSP
from numpy.random import Generator
from numpy.typing import NDArray

from skdp import Domain, DPLinearRegression
from skdp.linear_model._moments import postprocess as post
from skdp.linear_model._moments import rules as rules
from skdp.linear_model._moments.cross import CrossMoments
from skdp.linear_model._moments.moments import MomentPlan, Moments
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import GRAM_BITS, exact_statistic
from skdp.linear_model._shared.task import Task

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
        noise = rules._named_noise(ball, "matrix", signal, True, 1.0, 0.0)
        yield MomentPlan(ball.layout, noise, n)


def losses(
    p: int,
    n: int,
    repeats: int,
    seed: int,
    plan: MomentPlan,
    solve: Callable[..., post.Coefficients],
) -> float:
    """Return the mean loss over problems."""
    names = ("1", *map(str, range(p)), "y")
    found = []
    for k in range(repeats):
        problem = Problem.draw(p, np.random.default_rng([seed, p, k]))
        sums = exact_statistic(plan.layout, exact(problem, n))
        released = plan.release_moments(sums, np.random.default_rng([seed, p, n, k]))
        found.append(problem.loss(solve(Moments.of(plan, released, names).noisy(True)).theta))
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


# Few records

# Numbers and columns of levels, and the numbers of records times epsilon.
SMALL = {
    (2, 2): (250,),
    (3, 0): (195,),
    (4, 0): (220,),
    (5, 0): (250, 300),
    (5, 3): (400, 500),
    (10, 0): (450, 600),
    (8, 4): (700, 900),
    (20, 0): (1100, 1400),
    (15, 6): (1600,),
}
LEVELS, TESTS, LEAST_R2 = "abcdef", 4000, -1.0


def small_domain(numbers: int, columns: int) -> Domain:
    """Return numbers in [-1, 1], and columns of 2 to 6 levels in turn, as they are encoded."""
    bounds = {f"x{j}": (-1.0, 1.0) for j in range(numbers)}
    levels = {f"c{j}": list(LEVELS[: 2 + j % 5]) for j in range(columns)}
    return Domain({**bounds, **levels}, target=(-1.0, 1.0)).encoded


def small_records(domain: Domain, n: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """Draw a population, and records of it: encoded rows and targets."""
    p = len(domain.number_index)
    loadings = rng.normal(size=(p, 2)) * rng.choice([0.0, 0.5, 1.5])
    z = rng.normal(size=(n, 2)) @ loadings.T + rng.normal(size=(n, p))
    z /= np.sqrt((loadings**2).sum(axis=1) + 1)
    skewed = rng.random(p) < 0.5
    z[:, skewed] = np.exp(z[:, skewed]) / 2 - 0.8
    X = np.zeros((n, domain.n_encoded))
    centre, spread = rng.uniform(-0.6, 0.4, p), np.exp(rng.uniform(np.log(0.08), np.log(0.5), p))
    X[:, domain.number_index] = np.clip(centre + spread * z, -1, 1)
    for block in domain.blocks:
        size = block.stop - block.start
        level = rng.choice(size + 1, n, p=rng.dirichlet(np.full(size + 1, 2.0)))
        X[:, block] = np.eye(size + 1)[level, 1:]
    wanted = rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < 0.7) + 1e-3
    signal = ((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)) @ wanted
    share = rng.uniform(0.2, 0.9)
    y = np.sqrt(share) * signal / signal.std() + np.sqrt(1 - share) * rng.normal(size=n)
    size = np.exp(rng.uniform(np.log(0.12), np.log(0.45)))
    return X, np.clip(rng.uniform(-0.5, 0.5) + size * y, -1, 1)


def small_plans(domain: Domain, n: int, epsilon: float, delta: float) -> tuple[Any, Any]:
    """Return the plan, and the one without cross moments: the same where there are none."""
    task = Task(Design(domain, True), n, epsilon, delta)
    plan = rules.plan_moments(task, "auto")
    limit, rules.MOST_CROSS_NOISE = rules.MOST_CROSS_NOISE, 0.0
    try:
        before = rules.plan_moments(task, "auto")
    finally:
        rules.MOST_CROSS_NOISE = limit
    return plan, before


def small_row(
    domain: Domain, n: int, epsilon: float, delta: float, repeats: int, seed: int
) -> dict[str, float] | None:
    """Return mean R^2, and how sure the gain is; None where no cross moments are released."""
    plans = small_plans(domain, n, epsilon, delta)
    if not isinstance(plans[0], CrossMoments):
        return None
    found: dict[str, list[float]] = {}
    for k in range(repeats):
        X, y = small_records(domain, n + TESTS, np.random.default_rng([seed, n, k]))
        models = {}
        for name, plan in zip(("after", "before"), plans, strict=True):
            model = DPLinearRegression(epsilon=epsilon, delta=delta, domain=domain, random_state=k)
            model._plan = lambda *_, plan=plan: plan
            models[name] = model
        if delta > 0:
            extra = min(ADASSP_KINDS.values())  # two releases: the better kind
            models["AdaSSP"] = AdaSSP(domain, epsilon, delta, extra, k)
        for name, model in models.items():
            off = y[n:] - np.clip(model.fit(X[:n], y[:n]).predict(X[n:]), -1, 1)
            found.setdefault(name, []).append(max(LEAST_R2, 1 - np.mean(off**2) / y[n:].var()))
    gain = np.subtract(found["after"], found["before"])
    means = {name: float(np.mean(values)) for name, values in found.items()}
    deviation = float(gain.std() / np.sqrt(repeats))
    return means | {"deviation of the gain": deviation, "worse": float((gain < 0).mean())}


def small(repeats: int, seed: int) -> None:
    """Print the rows of all sizes."""
    for (numbers, columns), sizes in SMALL.items():
        domain = small_domain(numbers, columns)
        for epsilon in (0.3, 1.0):
            for size in sizes:
                n = round(size / epsilon)
                for delta in (0.0, 1 / n**2):
                    row = small_row(domain, n, epsilon, delta, repeats, seed)
                    cells = "  ".join(f"{k}: {v:.3f}" for k, v in (row or {}).items())
                    what = f"{numbers:2d} + {columns}  n eps = {size:4d}  eps = {epsilon}"
                    print(f"{what}  delta = {delta:.0e}  {cells or 'no cross moments'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signal", action="store_true", help="compare weights of the products")
    parser.add_argument("--recipes", action="store_true", help="compare ways of post-processing")
    parser.add_argument("--small", action="store_true", help="compare what few records tell")
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
    if arguments.small:
        small(arguments.repeats, arguments.seed)
        return
    for p in arguments.columns:
        for n in arguments.sizes:
            cells = "  ".join(f"{k}: {v:.3f}" for k, v in row(p, n, arguments).items())
            print(f"p = {p:3d}  n eps = {n:6d}   {cells}", flush=True)


if __name__ == "__main__":
    main()
