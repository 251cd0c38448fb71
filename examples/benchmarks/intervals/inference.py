"""Coverage and length of the confidence intervals of ``infer``, on simulated tables.

A budget is that of the fit and of ``infer`` together: a fifth of epsilon is for the fit.

Every repetition draws rows, errors and noise. Lengths are medians, over that of an oracle, which
knows the law of the errors of the estimates: its intervals have the length with which 95 % of the
intervals around the estimates hold the true slope. An unbounded interval covers, and its slope is
unusable. A false alarm is an interval of a slope of 0 that does not hold 0: every design of two
columns or more has one. Needs no data files.

A cell whose first FEW repetitions have no bounded interval is ended there. Cells that have ended
are kept in ``results/inference.jsonl`` until all have, so that a run that was stopped goes on where
it was. ``--page`` has the cells of docs/figures/inference_figures.md and both tables.

"clipped target" and "clipped columns" have bounds of the target or of the columns beyond which 5 %
of the values lie; these are clipped. The true slopes are those of the model without clipping.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)
from skdp.linear_model import Inference

ESTIMATORS: dict[str, Any] = {
    "linear": DPLinearRegression,
    "huber": DPHuberRegressor,
    "logistic": DPLogisticRegression,
    "descent regressor": DPCoordinateDescentRegressor,
    "descent classifier": DPCoordinateDescentClassifier,
}
SIZES, EPSILONS, COLUMNS = [500, 2000, 20_000, 200_000], [0.1, 0.5, 1.0, 4.0], [1, 5, 20]
RELATIONS, UNITS = ["replace_one", "add_remove"], ["row", "person"]
LEVEL, SHARE = 0.95, 0.8
# Of the rare level, of the correlated columns, and of the clipped values of one column.
RARE, CORRELATION, CLIPPED = 0.05, 0.9, 1.96
# Repetitions without a bounded interval that end a cell; greatest unbounded share of a usable cell;
# the band of coverages; and where lengths are compared, the least number of records times epsilon.
FEW, MOST_UNBOUNDED, BAND, LONG = 20, 0.15, (0.94, 0.975), 20_000
KEPT = report.RESULTS / "inference.jsonl"
# A person has so many rows on average; this share of the variance is common to them.
ROWS, COMMON = 4, 0.5


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
CLIPPED_DESIGNS = {"clipped target": normal, "clipped columns": normal}


class Cell(NamedTuple):
    """The settings of a row of the table. ``n`` is the number of records: rows or persons."""

    estimator: str
    unit: str
    neighbors: str
    design: str
    n: int
    p: int
    epsilon: float
    delta: float
    share: float

    @property
    def has_labels(self) -> bool:
        """Whether the target is a label."""
        return self.estimator in ("logistic", "descent classifier")

    def domain(self) -> Domain:
        """Return bounds of 4 standard deviations; the column of the rare level has two levels."""
        bound = CLIPPED if self.design == "clipped columns" else 4.0
        columns: dict[str, Any] = {f"x{j}": (-bound, bound) for j in range(self.p)}
        if self.design == "rare level":
            columns["x0"] = [0.0, 1.0]
        if self.has_labels:
            return Domain(columns, target=[0, 1])
        # The target's variance is 1 + |slopes|^2.
        size = CLIPPED * np.sqrt(1 + np.sum(self.slopes() ** 2))
        target = size if self.design == "clipped target" else 8.0
        return Domain(columns, target=(-target, target))

    def slopes(self) -> FloatArray:
        """Return slopes with a sum of squares of about 1; the last one of several is 0."""
        signs = np.where(np.arange(self.p) % 2, -1.0, 1.0) / np.sqrt(self.p)
        signs[self.p - 1 if self.p > 1 else self.p :] = 0
        return signs

    def draw(self, rng: Generator) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return rows, targets and the persons of rows."""
        if self.unit == "row":
            X = self._rows(self.n, rng)
            return X, self._targets(X, rng.standard_normal(self.n), rng), None
        ids = np.repeat(np.arange(self.n), rng.integers(1, 2 * ROWS, size=self.n))
        own, shared = self._rows(len(ids), rng), self._rows(self.n, rng)[ids]
        X = np.where(rng.uniform(size=own.shape) < COMMON, shared, own)
        common = rng.standard_normal(self.n)[ids]
        errors = np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * rng.standard_normal(len(ids))
        return X, self._targets(X, errors, rng), ids

    def _rows(self, n: int, rng: Generator) -> FloatArray:
        draw = (DESIGNS | CLIPPED_DESIGNS)[self.design]
        return draw(n, self.p, rng).clip(-4, 4)

    def _targets(self, X: FloatArray, errors: FloatArray, rng: Generator) -> FloatArray:
        z = X @ self.slopes()
        if self.has_labels:
            return (rng.uniform(size=len(z)) < 1 / (1 + np.exp(-z))).astype(float)
        if self.design == "heteroskedastic":
            errors = errors * np.sqrt(0.4 + 0.6 * X[:, 0] ** 2)
        return z + errors


def inferred(
    model: Any, share: float, seed: int, X: ArrayLike, y: ArrayLike, groups: Any = None
) -> Inference:
    """Fit a model and return its inference, which together spend the budget that the model has.

    The inference has the share of epsilon, and what the fit leaves of delta, at least half of it.
    """
    epsilon, delta, rng = model.epsilon, model.delta, np.random.default_rng(seed)
    first = {"epsilon": (1 - share) * epsilon, "delta": delta / 2, "random_state": rng}
    model.set_params(**first).fit(X, y, groups=groups)
    rest = {"epsilon": share * epsilon, "delta": delta - model.guarantee_.delta}
    found: Inference = model.infer(X, y, groups=groups, **rest, random_state=rng)
    return found


def repetition(cell: Cell, seed: int, r: int) -> dict[str, FloatArray]:
    """Return what one release tells of each slope: the interval, the error and false alarms."""
    rng = np.random.default_rng([seed, r, cell.n, cell.p])
    X, y, ids = cell.draw(rng)
    model = ESTIMATORS[cell.estimator](
        epsilon=cell.epsilon,
        delta=cell.delta,
        domain=cell.domain(),
        neighbors=cell.neighbors,
        n_public=None if cell.neighbors == "replace_one" else cell.n,
    )
    table = inferred(model, cell.share, report.noise_seed(seed, r), X, y, ids)
    (low, high), truth = table.conf_int(level=LEVEL)[-cell.p :].T, cell.slopes()
    return {
        "covered": (low <= truth) & (truth <= high),
        "length": high - low,
        "error": table.coef[-cell.p :] - truth,
        "alarm": (low > 0) | (high < 0),
    }


def row_of(cell: Cell, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of a cell; the coverage is the mean over the slopes, and the least."""
    calls = [(cell, arguments.seed, r) for r in range(arguments.repeats)]
    runs = report.run(repetition, calls[:FEW], arguments.jobs, str(tuple(cell)))
    if any(np.isfinite(run["length"]).any() for run in runs):
        runs += report.run(repetition, calls[FEW:], arguments.jobs, str(tuple(cell)))
    found = report.stacked(runs)
    covered, bounded = found["covered"].mean(axis=0), np.isfinite(found["length"])
    usable = found["covered"][bounded]
    oracle = 2 * np.quantile(np.abs(found["error"]), LEVEL, axis=0)
    return {
        **cell._asdict(),
        "repeats": len(runs),
        "coverage": float(covered.mean()),
        "least": float(covered.min()),
        "bounded coverage": float(usable.mean()) if usable.size else None,
        "length": float(np.median(np.median(found["length"], axis=0) / oracle)),
        "median length": float(np.median(found["length"])),
        "unusable": float(1 - bounded.mean()),
        "false alarms": float(found["alarm"][:, -1].mean()) if cell.p > 1 else None,
    }


def kept_row(cell: Cell, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of a cell, run once for a seed and a number of repetitions."""
    key = [*cell, arguments.seed, arguments.repeats]
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    for line in lines:
        known = json.loads(line)
        if known["key"] == key:
            return dict(known["row"])
    row = row_of(cell, arguments)
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "row": row}) + "\n")
    return row


def cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells that are asked for; errors of labels have no variance of their own."""
    names = ("estimators", "units", "neighbors", "designs", "sizes", "columns", "epsilons")
    for facts in product(*(getattr(arguments, name) for name in names)):
        cell = Cell(*facts, arguments.delta, arguments.share)
        if not (cell.has_labels and cell.design in ("heteroskedastic", "clipped target")):
            yield cell


# The page


def page_cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells of the page: a grid of rows, and some cells of other units and relations."""
    asked = vars(arguments) | {"sizes": SIZES[:3], "units": ["row"], "neighbors": ["replace_one"]}
    yield from cells(argparse.Namespace(**asked))
    easy = {"designs": list(DESIGNS)[:3], "columns": COLUMNS[:2]}
    for unit, relation in (("row", "add_remove"), ("person", "replace_one")):
        for n, epsilon in ((2000, 4.0), (20_000, 1.0)):
            facts = {"units": [unit], "neighbors": [relation], "sizes": [n], "epsilons": [epsilon]}
            yield from cells(argparse.Namespace(**asked | easy | facts))


def unbounded(rows: Sequence[dict[str, Any]]) -> list[report.Row]:
    """Return the shares of unbounded intervals by records and epsilon, in percent."""
    found = []
    for n, epsilon in product(SIZES[:3], EPSILONS):
        facts: dict[str, Any] = {"n": n, "epsilon": epsilon}
        for p, name in product(COLUMNS, ("", "correlated")):
            own = [
                row["unusable"]
                for row in rows
                if (row["n"], row["epsilon"], row["p"]) == (n, epsilon, p)
                and (row["unit"], row["neighbors"]) == ("row", "replace_one")
                and (row["design"] == "collinear") == (name == "correlated")
            ]
            if p > 1 or not name:
                facts[f"{p} {name}".strip()] = 100 * float(np.mean(own))
        found.append(facts)
    return found


def covered(rows: Sequence[dict[str, Any]]) -> list[report.Row]:
    """Return a row for each estimator, unit and relation, over the usable cells."""
    found: list[report.Row] = []
    keys = [(row["unit"], row["neighbors"], row["estimator"]) for row in rows]
    for unit, relation, estimator in dict.fromkeys(keys):
        own = [
            row for key, row in zip(keys, rows, strict=True) if key == (unit, relation, estimator)
        ]
        good = [row for row in own if row["unusable"] <= MOST_UNBOUNDED]
        share = np.array([row["coverage"] for row in good])
        lengths = [row["length"] for row in good if row["n"] * row["epsilon"] >= LONG]
        alarms = [row["false alarms"] for row in good if row["false alarms"] is not None]
        found.append(
            {
                "estimator": estimator,
                "unit": unit,
                "relation": relation,
                "cells": len(own),
                "usable": len(good),
                "in band": int(((share >= BAND[0]) & (share <= BAND[1])).sum()),
                "least": float(share.min()),
                "median": float(np.median(share)),
                "greatest": float(share.max()),
                "median length": float(np.median(lengths)),
                "greatest length": max(lengths),
                "false alarms": float(np.mean(alarms)),
            }
        )
    return found


def main() -> None:
    parser = report.parser_for(__doc__, repeats=1000)
    estimators, designs = list(ESTIMATORS), list(DESIGNS)
    every = [*designs, *CLIPPED_DESIGNS]
    parser.add_argument("--estimators", nargs="+", choices=estimators, default=estimators[:3])
    parser.add_argument("--units", nargs="+", choices=UNITS, default=UNITS)
    parser.add_argument("--neighbors", nargs="+", choices=RELATIONS, default=RELATIONS)
    parser.add_argument("--designs", nargs="+", choices=every, default=designs)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--columns", nargs="+", type=int, default=COLUMNS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--page", action="store_true", help="the cells and tables of the page")
    arguments = parser.parse_args()
    asked = page_cells if arguments.page else cells
    rows = [kept_row(cell, arguments) for cell in asked(arguments)]
    report.publish("inference", rows, arguments)
    if arguments.page:
        report.publish("inference_unbounded", unbounded(rows), arguments)
        report.publish("inference_coverage", covered(rows), arguments)
    KEPT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
