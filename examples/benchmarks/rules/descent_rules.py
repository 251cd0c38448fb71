"""How the constants of the automatic choices do on simulated populations.

Each population draws how many numbers and columns of levels there are (up to 15 columns, in a third
of the populations all of two levels, as in many real tables), where they lie in their domain, how
they spread, skew and correlate, the coefficients, and how much they explain. What is
measured is the loss against the best linear model, at most 1.5, averaged over populations: of
R^2, or of the likelihood ("0" that of the best model, "1" that of the class shares), of accuracy,
and of AUROC ("0" that of the best model, "1" at .5). "error" is the standard error of
the mean. ``--constant`` names one of the constants and compares multiples of it. The models are
those by coordinate descent; with ``--objective`` those by objective perturbation.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score

from examples.benchmarks.shared import report
from skdp import Domain
from skdp.linear_model import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLogisticRegression,
)
from skdp.linear_model._descent import advice as _descent_advice
from skdp.linear_model._descent import solve as _descent_solve
from skdp.linear_model._objective import advice as _rules
from skdp.linear_model._objective import solve as _clipping

FloatArray = NDArray[np.float64]
MODULES = (_descent_advice, _descent_solve, _clipping, _rules)
KINDS: dict[str, Any] = {
    "classification": DPCoordinateDescentClassifier,
    "regression": DPCoordinateDescentRegressor,
}
MEASURES = {"classification": ("likelihood", "accuracy", "AUROC"), "regression": ("R^2",)}
DELTAS = ["1/n^2", "0"]
FACTORS = (0.3, 0.6, 1.0, 1.7, 3.0)
N_TEST, N_BEST, MOST_LOSS = 4000, 20000, 1.5
# The skew of a column, and the shape of one that is -1 or 1.
SKEW, FLAG = 0.8, 3


@dataclass(frozen=True)
class Population:
    """Numbers and levels with a target, all drawn from a seed."""

    task: str
    centre: FloatArray
    spread: FloatArray
    shape: NDArray[np.int64]
    mixing: FloatArray
    shares: tuple[FloatArray, ...]
    beta: FloatArray
    effects: tuple[FloatArray, ...]
    facts: dict[str, float]

    @classmethod
    def draw(
        cls, task: str, seed: int, numbers: Sequence[int] = (1, 3, 6, 8, 12, 20, 40)
    ) -> Population:
        """Draw one, with as many numbers as one of ``numbers``."""
        rng = np.random.default_rng([seed, 7])
        p, blocks = int(rng.choice(numbers)), int(rng.choice([0, 0, 2, 6, 15]))
        mixing = rng.normal(size=(p, rng.integers(1, 5))) * rng.choice([0.2, 0.7, 1.5])
        mixing = np.hstack([mixing, np.eye(p)])
        centre = rng.uniform(-0.9, 0.6, p)
        spread = np.exp(rng.uniform(np.log(0.07), np.log(0.7), p))
        shape, share = rng.choice([0, 0, 0, 1, 2], p), rng.beta(0.8, 1.5, p).clip(0.01, 0.99)
        is_flag = rng.random(p) < rng.choice([0.0, 0.0, 0.5])
        sizes = rng.integers(2, rng.choice([3, 5, 13]), blocks)
        beta = rng.normal(size=p) * (rng.random(p) < rng.choice([0.2, 0.6, 1.0]))
        beta[rng.integers(p)] += 1
        facts = {
            "signal": rng.choice([0.5, 1.0, 2.0, 3.0]),
            "intercept": rng.normal(),
            "explained": rng.uniform(0.15, 0.9),
            "deviation": np.exp(rng.uniform(np.log(0.1), np.log(0.7))),
            "mean": rng.uniform(-0.6, 0.3),
            "residuals": rng.choice([0, 0, 1, 2]),
        }
        spread = np.where(
            is_flag,
            2 * np.sqrt(share * (1 - share)),
            np.minimum(spread, 1.02 - 0.95 * np.abs(centre)),
        )
        return cls(
            task,
            np.where(is_flag, 2 * share - 1, centre),
            spread,
            np.where(is_flag, FLAG, shape),
            mixing / np.linalg.norm(mixing, axis=1)[:, None],
            tuple(rng.dirichlet(np.full(m, rng.choice([0.7, 3.0]))) for m in sizes),
            beta * spread ** rng.choice([0.0, 0.0, 1.0]),
            tuple(rng.normal(size=m) * rng.choice([0.3, 1.0]) for m in sizes),
            facts,
        ).standardised()

    def standardised(self) -> Population:
        """Return it with a predictor of variance 1 and mean 0."""
        u = self._rows(N_BEST, np.random.default_rng(0))[2]
        effects = tuple(effect / u.std() for effect in self.effects)
        facts = self.facts | {"shift": -u.mean() / u.std()}
        return replace(self, beta=self.beta / u.std(), effects=effects, facts=facts)

    def sample(self, n: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return encoded rows, levels as numbers, and targets."""
        X, levels, u = self._rows(n, rng)
        return np.column_stack([X, *levels]), self._targets(u, rng)

    def _rows(self, n: int, rng: Generator) -> tuple[FloatArray, list[Any], FloatArray]:
        z = rng.normal(size=(n, self.mixing.shape[1])) @ self.mixing.T
        skew = self.facts.get("skew", SKEW)
        skewed = (np.exp(skew * z) - np.exp(skew**2 / 2)) / np.exp(skew**2 / 2)
        flat = np.sqrt(12) * (ndtr(z) - 0.5)
        share = ((self.centre + 1) / 2).clip(0.01, 0.99)
        flag = ((ndtr(z) > 1 - share) - share) / np.sqrt(share * (1 - share))
        z = np.choose(self.shape, [z, skewed, flat, flag])
        X = (self.centre + self.spread * z).clip(-1, 1)
        levels = [rng.choice(len(share), n, p=share) for share in self.shares]
        of_levels = sum((e[v] for e, v in zip(self.effects, levels, strict=True)), np.zeros(n))
        return X, levels, z @ self.beta + of_levels + self.facts.get("shift", 0.0)

    def _targets(self, u: FloatArray, rng: Generator) -> FloatArray:
        f, n = self.facts, len(u)
        if self.task == "classification":
            return (rng.random(n) < expit(f["signal"] * u + f["intercept"])).astype(float)
        noise = [rng.normal(size=n), rng.standard_t(3, n) / 3**0.5, rng.exponential(size=n) - 1]
        # Of infinite variance, and lognormal: only where a population says so.
        noise += [rng.standard_t(1.8, n), np.exp(1.3 * rng.normal(size=n)) / 5 - 0.47]
        e = np.sqrt(1 - f["explained"]) * noise[int(f["residuals"])]
        y = f["mean"] + f["deviation"] * (np.sqrt(f["explained"]) * u + e)
        return np.asarray(y.clip(-1, 1))

    @property
    def domain(self) -> Domain:
        """All that is public."""
        columns = {f"x{j}": (-1.0, 1.0) for j in range(len(self.beta))}
        levels = {f"c{k}": list(range(len(s))) for k, s in enumerate(self.shares)}
        target = [0.0, 1.0] if self.task == "classification" else (-1.0, 1.0)
        return Domain(columns | levels, target=target)


@dataclass(frozen=True)
class Problem:
    """A population with test records, and what the best linear model loses on them."""

    population: Population
    seed: int

    def loss(self, n: int, settings: dict[str, Any]) -> FloatArray:
        """Return what a private model of n records loses against the best linear one."""
        population = self.population
        X, y = population.sample(n, np.random.default_rng([self.seed, n]))
        model: Any = KINDS[population.task](
            domain=population.domain, random_state=self.seed, **settings
        ).fit(X, y)
        test, target = population.sample(N_TEST, np.random.default_rng([self.seed, 1]))
        best, null = best_scores(population.task, self.seed)
        if population.task == "regression":
            return np.minimum([best[0] - model.score(test, target)], MOST_LOSS)
        u = model.decision_function(test).clip(-30, 30)
        lost = (best[0] - likelihood(u, target)) / max(best[0] - null[0], 0.02)
        ranks = 1 - (roc_auc_score(target, u) - 0.5) / (best[2] - 0.5)
        return np.array([min(lost, MOST_LOSS), best[1] - np.mean((u > 0) == target), ranks])


@cache
def problem(task: str, seed: int) -> Problem:
    """Return a problem, made once."""
    return Problem(Population.draw(task, seed), seed)


@cache
def best_scores(task: str, seed: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return what the best linear model and the mean reach on the test records."""
    population = problem(task, seed).population
    encode = population.domain.encode
    X, y = population.sample(N_BEST, np.random.default_rng([seed, 0]))
    test, target = population.sample(N_TEST, np.random.default_rng([seed, 1]))
    if task == "regression":
        return (LinearRegression().fit(encode(X), y).score(encode(test), target),), (0.0,)
    model: Any = LogisticRegression(C=1e4, max_iter=1000).fit(encode(X), y)
    u, share = model.decision_function(encode(test)), target.mean()
    best = likelihood(u, target), float(np.mean((u > 0) == target)), roc_auc_score(target, u)
    null = np.full(N_TEST, np.log(share / (1 - share)))
    return best, (likelihood(null, target), max(share, 1 - share))


def likelihood(u: FloatArray, target: FloatArray) -> float:
    """Return the mean log-likelihood of log-odds."""
    return float(np.mean(target * u - np.logaddexp(0, u)))


@contextmanager
def changed(name: str | None, factor: float) -> Iterator[None]:
    """Multiply a constant of the rules, or what they take for granted, while this lasts."""
    places: list[tuple[Any, str, Any]] = []
    for place in MODULES if name else ():
        if hasattr(place, str(name)):
            places.append((place, str(name), getattr(place, str(name)) * factor))
    for kind in KINDS.values():
        key = "_kind" if hasattr(kind, "_kind") else "_reference"
        known = getattr(kind, key)
        if name and hasattr(known, name):
            places.append((kind, key, replace(known, **{name: getattr(known, name) * factor})))
    kept = [(place, key, getattr(place, key)) for place, key, _ in places]
    for place, key, value in places:
        setattr(place, key, value)
    try:
        yield
    finally:
        for place, key, value in kept:
            setattr(place, key, value)


def rows_of(
    task: str, n: int, arguments: argparse.Namespace, factor: float = 1.0
) -> list[dict[str, Any]]:
    """Return a row for each delta, share of the scaling stage and measure."""
    rows: list[dict[str, Any]] = []
    for delta, scaling in product(arguments.deltas, arguments.scaling):
        settings = {
            "epsilon": arguments.epsilon,
            "delta": 0.0 if delta == "0" else 1 / n**2,
            "neighbors": arguments.neighbors,
            "scaling_share": scaling if scaling == "auto" else float(scaling),
        }
        with changed(arguments.constant, factor):
            seeds = range(arguments.first, arguments.first + arguments.problems)
            found = [problem(task, seed).loss(n, settings) for seed in seeds]
        lost = np.array(found)
        errors = lost.std(axis=0, ddof=1) / len(lost) ** 0.5
        facts = {"delta": delta, "scaling": scaling, "records": n, "factor": factor}
        for name, mean, error in zip(MEASURES[task], lost.mean(axis=0), errors, strict=True):
            rows.append({"measure": name, **facts, "lost": float(mean), "error": float(error)})
    return rows


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["regression", "classification"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 1000, 3000, 10000, 30000])
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="the first seed; rules: 0 to 99")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--deltas", nargs="+", choices=DELTAS, default=DELTAS)
    parser.add_argument("--scaling", nargs="+", default=["auto"], help="values of scaling_share")
    parser.add_argument("--neighbors", default="replace_one")
    parser.add_argument("--constant", help="name of a number of the rules, a Kind or a Reference")
    parser.add_argument("--objective", action="store_true", help="objective perturbation")
    return parser.parse_args(argv)


def main() -> None:
    arguments = parse()
    if arguments.objective:
        KINDS.update(classification=DPLogisticRegression, regression=DPHuberRegressor)
    warnings.simplefilter("ignore")
    rows = [
        row
        for task, n in product(arguments.tasks, arguments.sizes)
        for factor in (FACTORS if arguments.constant else (1.0,))
        for row in rows_of(task, n, arguments, factor)
    ]
    report.publish("descent_rules", rows, arguments)


if __name__ == "__main__":
    main()
