"""Coverage and length of the confidence intervals of DPLinearRegression, on simulated tables.

Every repetition draws rows, errors and noise. The lengths are compared with those of an oracle,
which knows the moments of the population, the variance of the errors and that of the noise: its
intervals are 2 * 1.96 standard deviations of the solution of the normal equations to first order.
An unbounded interval covers, and its slope is unusable. A false alarm is an interval of a slope of
0 that does not hold 0: every design of two columns or more has one. Needs no data files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import report
from numpy.random import Generator
from report import FloatArray
from scipy.stats import norm

from skdp import Domain, DPLinearRegression
from skdp.linear_model._inference.estimate import NoisyEquations, estimate
from skdp.linear_model._moments.moments import Moments

SIZES, EPSILONS, COLUMNS = [500, 2000, 20_000, 200_000], [0.1, 0.5, 1.0, 4.0], [1, 5, 20]
RELATIONS = ["replace_one", "add_remove"]
LEVEL = 0.95
# Rows behind the oracle's moments of the population.
POPULATION = 100_000
# Of the rare level, and of the correlated columns.
RARE, CORRELATION = 0.05, 0.9


def normal(n: int, p: int, rng: Generator) -> FloatArray:
    return rng.standard_normal((n, p))


def skewed(n: int, p: int, rng: Generator) -> FloatArray:
    return rng.exponential(size=(n, p)).clip(max=8) - 4


def rare(n: int, p: int, rng: Generator) -> FloatArray:
    X = normal(n, p, rng)
    X[:, 0] = rng.uniform(size=n) < RARE
    return X


def collinear(n: int, p: int, rng: Generator) -> FloatArray:
    shared = rng.standard_normal((n, 1))
    return np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * normal(n, p, rng)


DESIGNS: dict[str, Callable[..., FloatArray]] = {
    "normal": normal,
    "skewed": skewed,
    "rare level": rare,
    "collinear": collinear,
    "heteroskedastic": normal,
}


def domain_of(design: str, p: int) -> Domain:
    """Return bounds of 4 standard deviations; the column of the rare level has two levels."""
    columns: dict[str, Any] = {f"x{j}": (-4, 4) for j in range(p)}
    if design == "rare level":
        columns["x0"] = [0.0, 1.0]
    return Domain(columns, target=(-8, 8))


def slopes_of(p: int) -> FloatArray:
    """Return slopes with a sum of squares of about 1; the last one of several is 0."""
    signs = np.where(np.arange(p) % 2, -1.0, 1.0) / np.sqrt(p)
    signs[p - 1 if p > 1 else p :] = 0
    return signs


def draw(design: str, n: int, p: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """Return rows within the bounds, and targets with errors of variance 1."""
    X = DESIGNS[design](n, p, rng).clip(-4, 4)
    errors = rng.standard_normal(n)
    if design == "heteroskedastic":
        errors *= np.sqrt(0.4 + 0.6 * X[:, 0] ** 2)
    return X, X @ slopes_of(p) + errors


@report.remembered
def population(design: str, p: int) -> FloatArray:
    """Return the means of products of the encoded (1, x, y)."""
    X, y = draw(design, POPULATION, p, np.random.default_rng(0))
    X = X / 4 if design != "rare level" else np.column_stack([X[:, 0], X[:, 1:] / 4])
    rows = np.column_stack([np.ones(POPULATION), X, y / 8])
    return np.asarray(rows.T @ rows / POPULATION)


def oracle(moments: Moments, design: str, n: int, p: int) -> FloatArray:
    """Return the lengths of the oracle's intervals of the slopes."""
    own = NoisyEquations(population(design, p), (moments.deviation / n) ** 2, moments.own_square, n)
    found = estimate(own)
    # The errors have variance 1 and the target's bound is 8.
    errors = np.sqrt(np.diag(found.inverse / (64 * n) + found.privacy))[1:]
    units = np.full(p, 8 / 4.0)
    if design == "rare level":
        units[0] = 8
    return np.asarray(2 * norm.isf((1 - LEVEL) / 2) * errors * units)


def repetition(cell: tuple[str, int, int, float, str], seed: int, r: int) -> dict[str, FloatArray]:
    """Return what one release tells: hits, lengths against the oracle's, alarms, for each slope."""
    design, n, p, epsilon, neighbors = cell
    rng = np.random.default_rng([seed, r, n, p])
    X, y = draw(design, n, p, rng)
    model = DPLinearRegression(
        epsilon=epsilon,
        domain=domain_of(design, p),
        neighbors=neighbors,
        n_public=None if neighbors == "replace_one" else n,
        mechanism="matrix",
        random_state=report.noise_seed(seed, r),
    ).fit(X, y)
    low, high = model.conf_int(LEVEL).T
    truth = slopes_of(p)
    return {
        "covered": (low <= truth) & (truth <= high),
        "length": (high - low) / oracle(model.moments_, design, n, p),
        "alarm": np.where(truth == 0, (low > 0) | (high < 0), np.nan),
    }


def row_of(cell: tuple[str, int, int, float, str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of a cell; the coverage is the mean over the slopes, and the least."""
    calls = [(cell, arguments.seed, r) for r in range(arguments.repeats)]
    found = report.stacked(report.run(repetition, calls, arguments.jobs, str(cell)))
    covered, bounded = found["covered"].mean(axis=0), np.isfinite(found["length"])
    usable = found["covered"][bounded]
    return {
        **dict(zip(("design", "n", "p", "epsilon", "neighbors"), cell, strict=True)),
        "coverage": float(covered.mean()),
        "least": float(covered.min()),
        "bounded coverage": float(usable.mean()) if usable.size else None,
        "length": float(np.median(found["length"])),
        "unusable": float(1 - bounded.mean()),
        "false alarms": float(found["alarm"][:, -1].mean()) if cell[2] > 1 else None,
    }


def cells(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int, float, str]]:
    """Yield the cells that are asked for."""
    for neighbors in arguments.neighbors:
        for design in arguments.designs:
            for p in arguments.columns:
                for n in arguments.sizes:
                    for epsilon in arguments.epsilons:
                        yield design, n, p, epsilon, neighbors


def main() -> None:
    parser = report.parser_for(__doc__, repeats=1000)
    parser.add_argument("--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--columns", nargs="+", type=int, default=COLUMNS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--neighbors", nargs="+", choices=RELATIONS, default=RELATIONS)
    arguments = parser.parse_args()
    report.publish("inference", [row_of(cell, arguments) for cell in cells(arguments)], arguments)


if __name__ == "__main__":
    main()
