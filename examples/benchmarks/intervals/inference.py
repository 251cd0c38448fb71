"""Coverage and length of the confidence intervals of ``infer``, on simulated tables.

A budget is that of the fit and of ``infer`` together: a fifth of epsilon is for the fit.

Every repetition draws rows, errors and noise, and makes three tables of one model: with the effect
of one column, of three, and with all. The truth are the coefficients of least squares in the
population, and lengths are medians over those of least squares with robust errors (HC1) on the same
records. An unbounded interval covers, and its slope is unusable. A false alarm is an interval of a
slope of 0 that does not hold 0: the last of two columns or more has one. Needs no data files.

A cell whose first FEW repetitions have no bounded interval is ended there. Cells that have ended
are kept in ``results/inference.jsonl`` until all have, so that a run that was stopped goes on where
it was. ``--page`` has the cells of docs/figures/inference_figures.md and both tables.

In the kinds "clipped target" and "clipped columns" 5 % of the values of the target, or of a column,
lie beyond bounds. The true slopes are those of the model without clipping.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import expit

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    DPPoissonRegressor,
)
from skdp.linear_model import Inference

ESTIMATORS: dict[str, Any] = {
    "linear": DPLinearRegression,
    "huber": DPHuberRegressor,
    "logistic": DPLogisticRegression,
    "poisson": DPPoissonRegressor,
    "descent regressor": DPCoordinateDescentRegressor,
    "descent classifier": DPCoordinateDescentClassifier,
}
LEVEL, NORMAL, SHARE = 0.95, 1.959964, 0.8
# Repetitions without a bounded interval that end a cell; greatest unbounded share of a usable cell;
# the band of coverages; and lengths over those of least squares that have no number.
FEW, MOST_UNBOUNDED, BAND, USELESS = 20, 0.15, (0.94, 0.975), 100.0
KEPT = report.RESULTS / "inference.jsonl"
# A person has so many rows on average; this share of the variance is common to them.
ROWS, COMMON = 4, 0.5
# Bounds beyond which 5 % of normal values lie, and those beyond which hardly any value lies.
CLIPPED, LOWER, UPPER, TARGET = 1.96, -8.0, 12.0, 30.0
# The part of a target that no line fits: BENT (x^2 - 1) of an x of variance 1.
BENT = 0.3
# The bound of counts over their mean at columns of 0, and the variance of the factor of a Poisson
# mean that makes them overdispersed.
COUNTED, SPREAD = 30.0, 1.0


class Kind(NamedTuple):
    """What the tables of a kind of cells have in common."""

    design: str = ""
    correlation: float = 0.5
    estimator: str = "linear"
    unit: str = "row"
    neighbors: str = "replace_one"
    delta: float = 0.0


# Errors have a t law with 5 degrees of freedom, unless another one is named.
KINDS = {
    "correlation .3": Kind(correlation=0.3),
    "correlation .5": Kind(),
    "correlation .9": Kind(correlation=0.9),
    "skewed errors": Kind("skewed errors"),
    "unequal errors": Kind("unequal errors"),
    "skewed columns": Kind("skewed columns"),
    "level .05": Kind("0.05"),
    "level .01": Kind("0.01"),
    "bent line": Kind("bent line"),
    "bent skewed column": Kind("bent skewed column"),
    "labels": Kind(estimator="logistic"),
    "labels and level .05": Kind("0.05", estimator="logistic"),
    "Huber's model": Kind(estimator="huber"),
    "added or removed": Kind(neighbors="add_remove"),
    "persons": Kind(unit="person"),
    "delta 1e-6": Kind(delta=1e-6),
    "counts, mean .3": Kind("counts 0.3", estimator="poisson"),
    "counts, mean 3": Kind("counts 3", estimator="poisson"),
    "counts, mean 10": Kind("counts 10", estimator="poisson"),
    "overdispersed counts, mean 3": Kind("overdispersed counts 3", estimator="poisson"),
    "clipped target": Kind("clipped target", 0.0, "huber"),
    "clipped columns": Kind("clipped columns", 0.0, "huber"),
    "clipped columns of labels": Kind("clipped columns", 0.0, "logistic"),
}
PLAIN = [name for name in KINDS if "clipped" not in name and "counts" not in name]
# Records, columns and epsilon on the page.
PAGE = [(20_000, 5, 1.0), (20_000, 5, 4.0), (2000, 5, 4.0), (20_000, 25, 4.0), (20_000, 5, 0.5)]
PAGE += [(2000, 5, 1.0), (200_000, 5, 0.5)]


class Cell(NamedTuple):
    """The settings of a cell. ``n`` is the number of records: rows or persons."""

    kind: str
    n: int
    p: int
    epsilon: float

    @property
    def facts(self) -> Kind:
        """What the kind stands for."""
        return KINDS[self.kind]

    @property
    def rare(self) -> float:
        """The share of the rarer level of the first column; 0 if it is a number."""
        return float(self.facts.design) if self.facts.design.startswith("0") else 0.0

    @property
    def is_label(self) -> bool:
        """Whether the target is a label."""
        return self.facts.estimator in ("logistic", "descent classifier")

    @property
    def mean(self) -> float:
        """The mean of counts at columns of 0; 0 if the target is not a count."""
        return float(self.facts.design.split()[-1]) if "counts" in self.facts.design else 0.0

    @property
    def link(self) -> str:
        """What the linear predictor is: the log-odds, the logarithm of the mean, or the mean."""
        return "log-odds" if self.is_label else "log" if self.mean else "mean"

    @property
    def tables(self) -> dict[str, list[int]]:
        """The columns whose effects are in each table."""
        three = sorted({0, min(1, self.p - 1), self.p - 1})
        return {"one": [0], "three": three, "all": list(range(self.p))}

    def domain(self) -> Domain:
        """Return the bounds; a rare level is one of two."""
        design = self.facts.design
        bounds = (-CLIPPED, CLIPPED) if design == "clipped columns" else (LOWER, UPPER)
        columns: dict[str, Any] = {f"x{j}": bounds for j in range(self.p)}
        if self.rare:
            columns["x0"] = [0.0, 1.0]
        # The clipped target's variance is 1 + |slopes|^2.
        size = CLIPPED * np.sqrt(1 + np.sum(self.slopes() ** 2))
        target = size if design == "clipped target" else TARGET
        if self.mean:
            return Domain(columns, target=(0, COUNTED * self.mean))
        return Domain(columns, target=[0, 1] if self.is_label else (-target, target))

    def slopes(self) -> FloatArray:
        """Return slopes with a sum of squares of about 1; the last one of several is 0.

        Those of counts are half of them.
        """
        signs = np.where(np.arange(self.p) % 2, -1.0, 1.0) / np.sqrt(self.p)
        signs /= 2 if self.mean else 1
        signs[self.p - 1 if self.p > 1 else self.p :] = 0
        return signs

    def truth(self) -> FloatArray:
        """Return the slopes of least squares in the population."""
        found = self.slopes()
        # The regression of x^2 on a normal x has the slope 0, and on an exponential x of variance 1
        # the slope E x^3 = 2. The means of others are linear in x, so their slopes do not change.
        found[0] += 2 * BENT * (self.facts.design == "bent skewed column")
        return found

    def draw(self, rng: Generator) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return rows, targets and the persons of rows."""
        if self.facts.unit == "row":
            X = self._rows(self.n, rng)
            return X, self._targets(X, self._errors(self.n, rng), rng), None
        ids = np.repeat(np.arange(self.n), rng.integers(1, 2 * ROWS, size=self.n))
        own, shared = self._rows(len(ids), rng), self._rows(self.n, rng)[ids]
        X = np.where(rng.uniform(size=own.shape) < COMMON, shared, own)
        common, errors = self._errors(self.n, rng)[ids], self._errors(len(ids), rng)
        errors = np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * errors
        return X, self._targets(X, errors, rng), ids

    def _rows(self, n: int, rng: Generator) -> FloatArray:
        share, design = self.facts.correlation, self.facts.design
        common, own = rng.standard_normal((n, 1)), rng.standard_normal((n, self.p))
        if design == "bent skewed column":
            common = rng.exponential(size=(n, 1)) - 1
        X = np.sqrt(share) * common + np.sqrt(1 - share) * own
        if design == "bent skewed column":
            X[:, :1] = common
        elif design == "skewed columns":
            X = (np.exp(0.6 * X) - np.exp(0.18)) / np.sqrt(np.exp(0.36) * np.expm1(0.36))
        elif self.rare:
            X[:, 0] = rng.uniform(size=n) < self.rare
        return X.clip(LOWER, UPPER)

    def _errors(self, n: int, rng: Generator) -> FloatArray:
        if "clipped" in self.kind:
            return rng.standard_normal(n)
        if self.facts.design == "skewed errors":
            return rng.exponential(size=n) - 1
        return rng.standard_t(5, size=n) / np.sqrt(5 / 3)

    def _targets(self, X: FloatArray, errors: FloatArray, rng: Generator) -> FloatArray:
        z = X @ self.slopes()
        if self.is_label:
            return (rng.uniform(size=len(z)) < expit(z)).astype(float)
        if self.mean:
            spread = "overdispersed" in self.kind
            factor = rng.gamma(1 / SPREAD, SPREAD, len(z)) if spread else 1.0
            return rng.poisson(self.mean * np.exp(z) * factor).astype(float)
        if self.facts.design == "unequal errors":
            errors = errors * np.sqrt(0.4 + 0.6 * X[:, 0] ** 2)
        if "bent" in self.facts.design:
            z = z + BENT * (X[:, 0] ** 2 - 1)
        return z + errors


def least_squares(
    X: FloatArray, y: FloatArray, ids: FloatArray | None = None, link: str = "mean"
) -> tuple[FloatArray, FloatArray]:
    """Return slopes and robust standard errors (HC1).

    They are those of least squares, or of the logistic or the Poisson likelihood. With ``ids``
    errors are clustered by person, and a person counts once.
    """
    Z, theta = np.column_stack([np.ones(len(X)), X]), np.zeros(X.shape[1] + 1)
    theta[0] = np.log(y.mean()) if link == "log" else 0.0
    weight = np.ones(len(X)) if ids is None else 1 / np.bincount(ids)[ids]
    for _ in range(1 if link == "mean" else 12):
        mean, slope = mean_of(Z @ theta, link)
        inverse = np.linalg.inv((Z.T * (weight * slope)) @ Z)
        theta = theta + inverse @ (Z.T @ (weight * (y - mean)))
    scores = Z * (weight * (y - mean_of(Z @ theta, link)[0]))[:, None]
    if ids is not None:
        scores = np.column_stack([np.bincount(ids, own) for own in scores.T])
    factor = len(scores) / (len(scores) - len(theta))
    covariance = factor * inverse @ (scores.T @ scores) @ inverse
    return theta[1:], np.sqrt(np.diag(covariance))[1:]


def mean_of(eta: FloatArray, link: str) -> tuple[FloatArray, FloatArray]:
    """Return means and their slopes for linear predictors."""
    if link == "log-odds":
        p = expit(eta)
        return p, p * (1 - p)
    return (np.exp(eta), np.exp(eta)) if link == "log" else (eta, np.ones(len(eta)))


def inferred(
    model: Any,
    share: float,
    seed: int,
    X: ArrayLike,
    y: ArrayLike,
    groups: Any = None,
    effects: Sequence[list[str] | None] = (None,),
) -> list[Inference]:
    """Fit a model and return a table for each of the effects.

    The model and one table spend the budget that the model has. The table has the share of epsilon,
    and what the fit leaves of delta, at least half of it.
    """
    epsilon, delta, rng = model.epsilon, model.delta, np.random.default_rng(seed)
    first = {"epsilon": (1 - share) * epsilon, "delta": delta / 2, "random_state": rng}
    model.set_params(**first).fit(X, y, groups=groups)
    rest = {"epsilon": share * epsilon, "delta": delta - model.guarantee_.delta}
    rest |= {"groups": groups, "random_state": rng}
    return [model.infer(X, y, effects=own, **rest) for own in effects]


def repetition(cell: Cell, seed: int, r: int) -> dict[str, FloatArray]:
    """Return what one table of each kind tells of the slopes, (tables, p)."""
    rng, kind = np.random.default_rng([seed, r, crc32(repr(cell).encode())]), cell.facts
    X, y, ids = cell.draw(rng)
    model = ESTIMATORS[kind.estimator](
        epsilon=cell.epsilon,
        delta=kind.delta,
        domain=cell.domain(),
        neighbors=kind.neighbors,
        n_public=None if kind.neighbors == "replace_one" else cell.n,
    )
    effects = [[f"x{j}" for j in at] for at in cell.tables.values()][:2]
    tables = inferred(model, SHARE, int(rng.integers(2**31)), X, y, ids, [*effects, None])
    found, errors = np.full((5, 3, cell.p), np.nan), least_squares(X, y, ids, cell.link)[1]
    truth = cell.truth()
    for k, (table, at) in enumerate(zip(tables, cell.tables.values(), strict=True)):
        (low, high), own = table.conf_int(level=LEVEL)[-len(at) :].T, truth[at]
        away, error = (part[-len(at) :] for part in (table.coef, table.std_error))
        found[:, k, at] = (
            (low <= own) & (own <= high),
            (high - low) / (2 * NORMAL * errors[at]),
            (away - own) / errors[at],
            (away - own) / error,
            (low > 0) | (high < 0),
        )
    return dict(zip(("covered", "length", "error", "z", "alarm"), found, strict=True))


def rows_of(cell: Cell, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the figures of each table of a cell.

    The coverage is the mean over the slopes, "least" that of one of them. "bias" is the greatest
    mean error of a slope in standard errors of least squares, and "z" the median of the standard
    deviations of errors over their standard errors.
    """
    calls = [(cell, arguments.seed, r) for r in range(arguments.repeats)]
    runs = report.run(repetition, calls[:FEW], arguments.jobs, str(tuple(cell)))
    if any(np.isfinite(run["length"]).any() for run in runs):
        runs += report.run(repetition, calls[FEW:], arguments.jobs, str(tuple(cell)))
    found, rows = report.stacked(runs), []
    for k, (name, at) in enumerate(cell.tables.items()):
        covered, length, error, z, alarm = (own[:, k, at] for own in found.values())
        bounded = np.isfinite(length)
        usable = covered[bounded]
        rows.append(
            {
                **cell._asdict(),
                "effects": name,
                "repeats": len(runs),
                "coverage": float(covered.mean()),
                "least": float(covered.mean(axis=0).min()),
                "bounded coverage": float(usable.mean()) if usable.size else None,
                "length": float(np.median(length)),
                "unusable": float(1 - bounded.mean()),
                "bias": float(np.abs(error.mean(axis=0)).max()),
                "z": float(np.median(z.std(axis=0))),
                "false alarms": float(alarm[:, -1].mean()) if cell.truth()[at[-1]] == 0 else None,
            }
        )
    return rows


def kept_rows(cell: Cell, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the figures of a cell, run once for a seed and a number of repetitions."""
    key = [*cell, arguments.seed, arguments.repeats]
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    for line in lines:
        known = json.loads(line)
        if known["key"] == key:
            return list(known["rows"])
    rows = rows_of(cell, arguments)
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "rows": rows}) + "\n")
    return rows


def cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells that are asked for, of each size in all kinds."""
    sizes = product(arguments.sizes, arguments.columns, arguments.epsilons)
    for size, kind in product(PAGE if arguments.page else sizes, arguments.kinds):
        yield Cell(kind, *size)


# The page


def by_size(rows: Sequence[dict[str, Any]]) -> list[report.Row]:
    """Return lengths and unbounded shares, in percent, by size: medians and means over kinds.

    Those of correlations of .9 are apart.
    """
    found: list[report.Row] = []
    for n, p, epsilon in dict.fromkeys((row["n"], row["p"], row["epsilon"]) for row in rows):
        facts: dict[str, Any] = {"n": n, "columns": p, "epsilon": epsilon, "ratio": n * epsilon / p}
        for name, apart in product(("one", "three", "all"), (False, True)):
            own = [
                row
                for row in rows
                if (row["n"], row["p"], row["epsilon"], row["effects"]) == (n, p, epsilon, name)
                and (row["kind"] == "correlation .9") == apart
            ]
            label = name + ", .9" * apart
            length = np.median([row["length"] for row in own])
            facts[label] = float(length) if length < USELESS else None
            facts[f"{label}, unbounded"] = 100 * float(np.mean([row["unusable"] for row in own]))
        found.append(facts)
    return found


def by_kind(rows: Sequence[dict[str, Any]]) -> list[report.Row]:
    """Return the coverage over the usable cells of each kind: of few effects, and of all."""
    found: list[report.Row] = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        good = [row for row in rows if row["kind"] == kind and row["unusable"] <= MOST_UNBOUNDED]
        alarms = [row["false alarms"] for row in good if row["false alarms"] is not None]
        facts: dict[str, Any] = {"kind": kind}
        for name, tables in (("few", ("one", "three")), ("all", ("all",))):
            share = np.array([row["coverage"] for row in good if row["effects"] in tables])
            facts |= {
                f"{name}, usable": len(share),
                f"{name}, in band": int(((share >= BAND[0]) & (share <= BAND[1])).sum()),
                f"{name}, least": float(share.min()) if len(share) else None,
                f"{name}, median": float(np.median(share)) if len(share) else None,
            }
        found.append(facts | {"false alarms": float(np.mean(alarms)) if alarms else None})
    return found


def main() -> None:
    parser = report.parser_for(__doc__, repeats=1000)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=PLAIN)
    parser.add_argument("--sizes", nargs="+", type=int, default=[2000, 20_000, 200_000])
    parser.add_argument("--columns", nargs="+", type=int, default=[5, 10, 25])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 4.0])
    parser.add_argument("--page", action="store_true", help="the cells and tables of the page")
    arguments = parser.parse_args()
    rows = [row for cell in cells(arguments) for row in kept_rows(cell, arguments)]
    report.publish("inference", rows, arguments)
    report.publish("inference_sizes", by_size(rows), arguments)
    report.publish("inference_kinds", by_kind(rows), arguments)
    KEPT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
