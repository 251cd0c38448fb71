"""Replays of random fits on random neighbouring tables: violations, and the greatest losses.

    python -m examples.benchmarks.upkeep.replay --cases 10000 --seed 0

A case has an estimator with random public parameters, a random domain (numbers, levels, splines,
interactions, missing cells with rules), a small table from it, and a neighbour that differs in one
record, or one person of 1 to 50 rows: with cells at their bounds or far beyond, missing cells,
unknown levels, another label, or no such record. The tables are in memory, in batches, in a Parquet
file or a dask collection. Published values are those that were drawn, those without noise, or far
out. For each estimator the table has the cases, those that were refused by an error (the same for
both tables), those with violations, the published values, and the greatest realised loss over
epsilon without a delta. Every violation is printed with the number of its case, which
``--cases 1 --seed <number>`` repeats.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import skdp
from examples.benchmarks.shared import report
from skdp import Domain, Spline, estimate_domain
from skdp.model_selection import PrivateSearchCV
from skdp.testing import replay
from skdp.testing.recording import Replay

CLASSIFIERS = ("DPLogisticRegression", "DPCoordinateDescentClassifier")
REGRESSORS = ("DPHuberRegressor", "DPLinearRegression", "DPCoordinateDescentRegressor")
ESTIMATORS = (*CLASSIFIERS, *REGRESSORS)
KINDS = (*ESTIMATORS, "PrivateSearchCV", "estimate_domain")
SOURCES = ("memory", "memory", "batches", "parquet", "dask", "polars")
TARGET, PERSON = "target", "person"
BOUNDS = [(-1, 1), (0, 1), (17, 90), (-1e6, 1e5), (1e-3, 2e-3)]
LEVELS = [["f", "m"], ["a", "b", "c"], [f"job {k}" for k in range(7)]]
FAR = 1e300


@dataclass(frozen=True)
class Case:
    """Two neighbouring tables and an estimator for them."""

    number: int
    kind: str
    estimator: Any
    table: Any
    neighbour: Any
    choose: Callable[[Any], Any] | None

    def run(self) -> Replay:
        """Return the replay."""
        return replay(
            self.estimator, self.table, self.neighbour, seed=self.number, choose=self.choose
        )


def case(number: int, folder: str, kinds: tuple[str, ...] = KINDS) -> Case:
    """Return a case by its number; files are written to the folder."""
    rng = np.random.default_rng([number, 1])
    kind = kinds[number % len(kinds)]
    fits_classes = kind in CLASSIFIERS or (kind == "PrivateSearchCV" and rng.random() < 0.5)
    declared = random_columns(rng, fits_classes)
    domain = declared.domain(rng)
    neighbors = str(rng.choice(["replace_one", "add_remove"]))
    are_persons = rng.random() < 0.3
    tables = neighbouring(rng, declared, neighbors, are_persons, kind)
    far = partial(far_out, float(rng.choice([-30.0, 8.0])))
    choose = (None, None, without_noise, far)[rng.integers(4)]
    if kind == "estimate_domain":
        return Case(number, kind, *_of_bounds(rng, declared, neighbors, are_persons, tables), None)
    facts = {"domain": domain, "neighbors": neighbors, **budget(rng, kind)}
    if are_persons and kind != "PrivateSearchCV" and rng.random() < 0.5:
        facts["rows_per_person"] = 3
    if kind == "PrivateSearchCV":
        estimator, choose = _search(rng, fits_classes, facts), None
        calls = [_in_memory(table, are_persons) for table in tables]
        return Case(number, kind, estimator, *calls, choose)
    if neighbors == "add_remove" and rng.random() < 0.5:
        facts["n_public"] = int(rng.choice([50, 5000, 10**6]))
    estimator = getattr(skdp, kind)(**facts, **parameters(rng, kind, declared, "delta" in facts))
    source = str(rng.choice(SOURCES))
    calls = [
        call(table, source, are_persons, Path(folder) / f"{number}-{k}.parquet")
        for k, table in enumerate(tables)
    ]
    return Case(number, kind, estimator, *calls, choose)


@dataclass(frozen=True)
class Declared:
    """What is declared of a table."""

    columns: dict[str, Any]
    target: Any
    missing: str | None

    def domain(self, rng: np.random.Generator) -> Domain:
        """Return the domain, of some with an interaction."""
        found = Domain(self.columns, self.target, missing=self.missing)
        apart = [name for name, own in self.columns.items() if not isinstance(own, tuple)]
        return found.interact(*apart[:2]) if len(apart) > 1 and rng.random() < 0.3 else found

    def bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a column of numbers, or of the target."""
        own = self.columns.get(name, self.target)
        low, high = (own.lower, own.upper) if isinstance(own, Spline) else own
        return float(low), float(high)


def random_columns(rng: np.random.Generator, fits_classes: bool) -> Declared:
    """Return one to four columns and a target."""
    columns: dict[str, Any] = {}
    for name in "pqrs"[: rng.integers(1, 5)]:
        bounds = BOUNDS[rng.integers(len(BOUNDS))]
        spline = Spline(*bounds, knots=int(rng.integers(1, 4)), degree=int(rng.integers(0, 4)))
        levels = LEVELS[rng.integers(len(LEVELS))]
        columns[name] = [bounds, bounds, levels, spline][rng.integers(4)]
    target: Any = BOUNDS[rng.integers(len(BOUNDS))]
    if fits_classes:
        target = ["no", "yes"] if rng.random() < 0.7 else ["a", "b", "c"]
    return Declared(columns, target, "indicator" if rng.random() < 0.3 else None)


def budget(rng: np.random.Generator, kind: str) -> dict[str, float]:
    """Return an epsilon, and a delta for some."""
    least = 1.0 if kind == "PrivateSearchCV" else 0.05
    found = {"epsilon": float(rng.choice([least, 0.3, 1.0, 3.0, 20.0]))}
    found["epsilon"] = max(found["epsilon"], least)
    return found | ({"delta": 1e-6} if rng.random() < 0.35 else {})


def parameters(
    rng: np.random.Generator, kind: str, declared: Declared, has_delta: bool
) -> dict[str, Any]:
    """Return random public parameters of an estimator, most of them the defaults."""
    options: dict[str, list[Any]] = {"fit_intercept": [True, True, False]}
    gaussian = ["gaussian", "elliptic"] if has_delta else []
    if kind in ("DPLogisticRegression", "DPHuberRegressor"):
        options |= {
            "mechanism": ["auto", "auto", "auto", "l1", "l2", "linf", "hull", *gaussian],
            "q": ["auto", "auto", 0.5],
            "regularization": ["auto", "auto", 1.0],
            "scaling_share": ["auto", 0, 0.2],
            "additive": [None, None, None, "auto", 2],
        }
    if kind == "DPLogisticRegression":
        options["loss"] = ["auto", "auto", "sharp", "logistic"]
    if kind == "DPHuberRegressor":
        options["threshold"] = ["auto", "auto", 0.5]
    if kind == "DPLinearRegression":
        options["mechanism"] = ["auto"] * 4 + ["l1", "l2", "linf", "matrix", *gaussian]
        options["postprocess"] = ["auto", "ridge", "psd"]
    if "Descent" in kind:
        options |= {
            "penalty": ["auto", "l1", "l2", None],
            "alpha": ["auto", 0.01],
            "n_passes": ["auto", 1, 3],
            "order": ["cyclic", "random", "greedy"],
            "clip": ["auto", "auto", None],
            "average": [True, False],
            "scaling_share": ["auto", 0, 0.3],
        }
        options["mechanism"] = ["auto", "auto", "laplace", "logistic", *gaussian[:1]]
    if kind in CLASSIFIERS:
        options["class_weight"] = [None, None, {declared.target[0]: 0.3}]
    found = {name: values[rng.integers(len(values))] for name, values in options.items()}
    is_plain = found.get("class_weight") is None and found.get("additive") is None
    if is_plain and len(declared.target) == 2 and rng.random() < 0.2:
        found["inference_share"] = 0.5
    return found


def neighbouring(
    rng: np.random.Generator, declared: Declared, neighbors: str, are_persons: bool, kind: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two tables that differ in one row or person, in either order."""
    units = int(rng.choice([1, 2, 5, 20, 60, 600])) + 20 * (kind == "PrivateSearchCV")
    sizes = rng.choice([1, 1, 2, 7, 50], units) if are_persons else np.ones(units, int)
    base = records(rng, declared, int(sizes.sum()), rng.random() < 0.3)
    base[PERSON] = np.repeat(np.arange(units), sizes)
    other = records(rng, declared, int(rng.choice([1, 3, 50])) if are_persons else 1, True)
    at = int(rng.integers(units))
    before, after = base[base[PERSON] < at], base[base[PERSON] > at]
    if neighbors == "replace_one":
        other[PERSON] = at
        found = [base, pd.concat([before, other, after], ignore_index=True)]
    else:
        other[PERSON] = units
        found = [base, pd.concat([base, other], ignore_index=True)]
    levels = {name: "string" for name, own in declared.columns.items() if isinstance(own, list)}
    first, second = (found[k].astype(levels) for k in rng.permutation(2))
    return first, second


def records(rng: np.random.Generator, declared: Declared, n: int, extreme: bool) -> pd.DataFrame:
    """Return records, some cells of which are at bounds, far beyond, missing or not declared."""
    domain = Domain(declared.columns, declared.target, missing=declared.missing)
    X, y = domain.sample(n, int(rng.integers(2**31)), with_target=True)
    table = pd.DataFrame(X).assign(**{TARGET: y})
    if not extreme:
        return table
    is_far = bool(rng.random() < 0.5)
    for name in table:
        if isinstance(declared.columns.get(name, declared.target), list):
            if name != TARGET and rng.random() < 0.2:
                table[name] = "not declared"
            elif name != TARGET or rng.random() < 0.5:
                table[name] = table[name].iloc[0]
            if name != TARGET and declared.missing is not None and rng.random() < 0.3:
                table[name] = None
        else:
            low, high = declared.bounds(str(name))
            ends = [low, high, -FAR, FAR] if is_far else [low, high]
            cells = rng.choice(ends, n) if rng.random() < 0.5 else np.full(n, rng.choice(ends))
            if name != TARGET and declared.missing is not None:
                cells[rng.random(n) < 0.5] = np.nan
            table[name] = cells
    return table


# How tables are given to a fit


def call(table: pd.DataFrame, source: str, are_persons: bool, path: Path) -> dict[str, Any]:
    """Return the arguments of ``fit`` for a table from a source."""
    if not are_persons:
        table = table.drop(columns=PERSON)
    given: dict[str, Any] = {"target": TARGET} | ({"groups": PERSON} if are_persons else {})
    return {"X": _source(table, source, path), **given}


def _source(table: pd.DataFrame, source: str, path: Path) -> Any:
    if source == "batches":
        return lambda: (table[at : at + 7] for at in range(0, len(table), 7))
    if source == "parquet":
        table.to_parquet(path, index=False)
        return str(path)
    if source == "dask":
        import dask.dataframe as dd

        return dd.from_pandas(table, npartitions=2)
    if source == "polars":
        import polars as pl

        return pl.from_pandas(table)
    return table


def _in_memory(table: pd.DataFrame, are_persons: bool) -> dict[str, Any]:
    groups = {"groups": table[PERSON].to_numpy()} if are_persons else {}
    return {"X": table.drop(columns=[TARGET, PERSON]), "y": table[TARGET], **groups}


def _search(rng: np.random.Generator, fits_classes: bool, facts: dict[str, Any]) -> PrivateSearchCV:
    own = {name: facts.pop(name) for name in ("epsilon", "delta") if name in facts}
    if fits_classes:
        kind, grid = CLASSIFIERS[rng.integers(2)], {"fit_intercept": [True, False]}
    else:
        kind, grid = REGRESSORS[rng.integers(3)], {"fit_intercept": [True, False]}
    share = ["auto", 0.0, 0.3][rng.integers(3)]
    return PrivateSearchCV(getattr(skdp, kind)(**facts), grid, refit_share=share, **own)


def _of_bounds(
    rng: np.random.Generator, declared: Declared, neighbors: str, are_persons: bool, tables: Any
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the estimation of a domain, and its arguments for both tables."""
    columns = {
        name: "levels" if isinstance(own, list) else "bounds"
        for name, own in declared.columns.items()
    }
    facts: dict[str, Any] = {"columns": columns, "missing": declared.missing}
    facts["neighbors"] = neighbors
    facts |= {"epsilon": float(rng.choice([0.3, 1.0, 5.0])), "limit": 1e6}
    facts["delta"] = 1e-6 if "levels" in columns.values() or rng.random() < 0.5 else 0.0
    own = [_in_memory(table, are_persons) for table in tables]
    for arguments in own:
        arguments.pop("y")
    return partial(estimate_domain, **facts), own[0], own[1]


# Values that are published in the place of those that were drawn


def without_noise(entry: Any) -> Any:
    """Return the exact statistic of a sum."""
    if not entry.is_sum:
        return None
    return np.array([float(own) for own in entry.exact]) * np.ldexp(1.0, entry.facts["unit"])


def far_out(factor: float, entry: Any) -> Any:
    """Return the exact statistic plus a multiple of the noise that was drawn."""
    if not entry.is_sum:
        return None if isinstance(entry.value, int | list) else factor * entry.value
    exact = without_noise(entry)
    return exact + factor * (entry.value - exact)


# The table


@dataclass
class Found:
    """The sums of a row of the table."""

    cases: int = 0
    refused: int = 0
    violations: int = 0
    published: int = 0
    greatest: float = 0.0

    def add(self, found: Replay) -> None:
        """Add a replay."""
        self.cases += 1
        self.refused += not found.n_published
        self.violations += bool(found.violations)
        self.published += found.n_published
        if found.delta == 0 and found.n_published:
            self.greatest = max(self.greatest, found.loss / found.epsilon)


def run(numbers: range, kinds: tuple[str, ...] = KINDS, log: Any = print) -> dict[str, Found]:
    """Replay cases, log violations, and return the sums by kind."""
    sums = {kind: Found() for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            own = case(number, folder, kinds)
            found = own.run()
            sums[own.kind].add(found)
            if found.violations:
                log(f"case {number}, {own.estimator!r}: {found}")
            for path in Path(folder).iterdir():
                path.unlink()
    return sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    arguments = parser.parse_args()
    sums = run(range(arguments.seed, arguments.seed + arguments.cases))
    rows = [
        {
            "estimator": kind,
            "cases": own.cases,
            "refused": own.refused,
            "violations": own.violations,
            "published values": own.published,
            "greatest loss / epsilon": f"{own.greatest:.4f}",
        }
        for kind, own in sums.items()
    ]
    print(report.table(rows))


if __name__ == "__main__":
    main()
