"""Replays of random fits on random neighbouring tables: violations, and the greatest losses.

    python -m examples.benchmarks.upkeep.replay --cases 10000 --seed 0

A case has an estimator with random public parameters, a random domain (numbers, levels, splines,
interactions, missing cells with rules), a small table from it, and a neighbour that differs in one
record, or one person of 1 to 50 rows, and its weights: with cells at their bounds or far beyond,
missing cells, unknown levels, another label, or no such record. Where the number of records is
private, a table may have none. The tables are in memory, in batches, in files or a dask collection.
Half of the cases use compiled functions, as after a fit to a large table. Published values are
those that were drawn, those without noise, or far out. Cases of "infer" have a random model that
was fitted to other records.

For each estimator the table has the cases, those that were refused by an error (the same for both
tables), those with violations, the published values, and the greatest realised loss over epsilon
without a delta. Every violation is printed with the number of its case, which
``--cases 1 --seed <number>`` repeats.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import skdp
from examples.benchmarks.shared import report
from skdp import Domain, Spline, _compiled, estimate_domain
from skdp.linear_model.losses import PseudoHuber, SharpLogistic, Softmax
from skdp.model_selection import PrivateSearchCV
from skdp.testing import replay
from skdp.testing.recording import Replay

CLASSIFIERS = ("DPLogisticRegression", "DPCoordinateDescentClassifier")
REGRESSORS = ("DPHuberRegressor", "DPLinearRegression", "DPCoordinateDescentRegressor")
# Targets of counts start at 0.
COUNTS = ("DPPoissonRegressor",)
ESTIMATORS = (*CLASSIFIERS, *REGRESSORS, *COUNTS, "DPQuantileRegressor")
KINDS = (*ESTIMATORS, "infer", "PrivateSearchCV", "estimate_domain")
SOURCES = ("frame", "dict", "polars", "arrow", "batches", "pairs", "csv", "feather")
SOURCES += ("parquet", "folder", "dask")
TARGET, PERSON, WEIGHT = "target", "person", "weight"
WEIGHTS = [0.0, 1e-300, 0.2, 1.0, 1.7, 7.0, 1e300]
BOUNDS = [(-1, 1), (0, 1), (17, 90), (-1e6, 1e5), (1e-3, 2e-3)]
LEVELS = [["f", "m"], ["a", "b", "c"], [f"job {k}" for k in range(7)], [1, 2.5, 7]]
FAR = 1e300


@dataclass(frozen=True)
class Case:
    """Two neighbouring tables and an estimator for them."""

    number: int
    kind: str
    estimator: Any
    table: Any
    neighbour: Any
    choose: Callable[[Any], Any] | None = None

    def run(self) -> Replay:
        """Return the replay, with the violations of both steps."""
        return replay(
            self.estimator, self.table, self.neighbour, seed=self.number, choose=self.choose
        )


def case(number: int, folder: str, kinds: tuple[str, ...] = KINDS) -> Case:
    """Return a case by its number; files are written to the folder."""
    rng = np.random.default_rng([number, 1])
    kind = kinds[number % len(kinds)]
    fits_classes = kind in CLASSIFIERS
    if kind in ("infer", "PrivateSearchCV"):
        fits_classes = bool(rng.random() < 0.5)
    declared = random_columns(rng, fits_classes)
    if kind in COUNTS or (kind == "infer" and not fits_classes and number % 3 == 0):
        declared = replace(declared, target=(0, float(np.ptp(declared.target))))
    if kind == "infer" and fits_classes:  # of two labels
        declared = replace(declared, target=declared.target[:2])
    neighbors = str(rng.choice(["replace_one", "add_remove"]))
    are_persons = rng.random() < 0.3
    tables = neighbouring(rng, declared, neighbors, are_persons, kind)
    named, weights = _named(number, kind, are_persons)
    far = partial(far_out, float(rng.choice([-30.0, 8.0])))
    choose = (None, None, without_noise, far)[rng.integers(4)]
    in_memory = [_in_memory(table, named) for table in tables]
    if kind == "estimate_domain":
        return Case(number, kind, *_of_bounds(rng, declared, neighbors, in_memory))
    facts = {"domain": declared.domain(rng), "neighbors": neighbors, **budget(rng, kind), **weights}
    if fits_classes and rng.random() < 0.2:
        facts["domain"], facts["classes"] = replace_target(declared), declared.target
    if are_persons and rng.random() < 0.5:
        facts["rows_per_person"] = int(rng.choice([2, 3, 50]))
    # Linear regression has one release of these small tables, and three if their size is said to be
    # large.
    if neighbors == "add_remove" and rng.random() < (0.9 if kind == "DPLinearRegression" else 0.5):
        facts["n_public"] = int(rng.choice([1, 50, 5000, 10**6]))
    if kind == "PrivateSearchCV":
        return Case(number, kind, _search(rng, declared, facts), *in_memory)
    if kind == "infer":
        model, own = _fitted(rng, declared, facts, named), budget(rng, kind)
        estimator = partial(model.infer, **own, **_estimated(rng, declared))
    else:
        estimator = getattr(skdp, kind)(**facts, **parameters(rng, kind, declared, facts))
    source = str(rng.choice(SOURCES))
    calls = [
        call(table, source, named, Path(folder) / f"{number}-{k}") for k, table in enumerate(tables)
    ]
    return Case(number, kind, estimator, *calls, choose)


def _named(number: int, kind: str, are_persons: bool) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the columns that are no features, by their parameters, and the greatest weight."""
    rng, named = np.random.default_rng([number, 2]), {"groups": PERSON} if are_persons else {}
    if kind == "estimate_domain" or rng.random() > 0.25:
        return named, {}
    weight = float(rng.choice([1.0, 3.0, 1e-3, 5000.0]))
    return named | {"sample_weight": WEIGHT}, {"max_weight": weight}


@dataclass(frozen=True)
class Declared:
    """What is declared of a table."""

    columns: dict[str, Any]
    target: Any
    missing: Any = None
    other: dict[str, Any] | None = None

    def domain(self, rng: np.random.Generator) -> Domain:
        """Return the domain, of some with interactions."""
        found = self.whole()
        apart = [name for name, own in self.columns.items() if not isinstance(own, tuple)]
        for pair in [*combinations(apart, 2)][: rng.choice([0, 0, 1, 3])]:
            found = found.interact(*pair)
        return found

    def whole(self) -> Domain:
        """Return the domain without interactions."""
        return Domain(self.columns, self.target, self.other, self.missing)

    def bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a column of numbers, or of the target."""
        own = self.columns.get(name, self.target)
        low, high = (own.lower, own.upper) if isinstance(own, Spline) else own
        return float(low), float(high)

    def types(self) -> dict[str, str]:
        """Return the types of columns of levels, which do not depend on cells."""
        kinds = {name: own for name, own in self.columns.items() if isinstance(own, list)}
        return {n: "string" if isinstance(own[0], str) else "float" for n, own in kinds.items()}

    def may_miss(self, name: str) -> bool:
        """Return whether there is a rule for missing cells of a column."""
        own = self.columns.get(name)
        rule = self.missing.get(name) if isinstance(self.missing, dict) else self.missing
        return own is not None and (rule is not None or getattr(own, "missing", None) is not None)


def replace_target(declared: Declared) -> Domain:
    """Return the domain without the labels."""
    return replace(declared, target=None).whole()


def random_columns(rng: np.random.Generator, fits_classes: bool) -> Declared:
    """Return one to four columns and a target."""
    columns: dict[str, Any] = {}
    for name in "pqrs"[: rng.integers(1, 5)]:
        low, high = bounds = BOUNDS[rng.integers(len(BOUNDS))]
        knots = (low + (high - low) / 3, low + (high - low) / 2)
        spline = Spline(
            *bounds,
            knots=knots if rng.random() < 0.3 else int(rng.integers(1, 5)),
            degree=int(rng.integers(0, 4)),
            missing=[None, None, "indicator", "middle", (low + high) / 2][rng.integers(5)],
        )
        levels = LEVELS[rng.integers(len(LEVELS))]
        columns[name] = [bounds, bounds, levels, spline][rng.integers(4)]
    target: Any = BOUNDS[rng.integers(len(BOUNDS))]
    if fits_classes:
        target = [["no", "yes"], ["no", "yes"], ["a", "b", "c"], [0, 1]][rng.integers(4)]
    numbers = [name for name, own in columns.items() if not isinstance(own, list)]
    rules = [None, None, None, "indicator", dict.fromkeys(numbers, "middle")]
    other = {name: own[-1] for name, own in columns.items() if isinstance(own, list)}
    return Declared(columns, target, rules[rng.integers(5)], other if rng.random() < 0.3 else None)


def budget(rng: np.random.Generator, kind: str) -> dict[str, float]:
    """Return an epsilon, and a delta for some."""
    least = 1.0 if kind == "PrivateSearchCV" else 0.05
    found = {"epsilon": max(float(rng.choice([0.05, 0.3, 1.0, 3.0, 20.0])), least)}
    return found | ({"delta": 1e-6} if rng.random() < 0.35 else {})


def options_of(kind: str, declared: Declared, has_delta: bool) -> dict[str, list[Any]]:
    """Return values of public parameters, one of which is drawn for each."""
    options: dict[str, list[Any]] = {"fit_intercept": [True, True, False]}
    gaussian = ["gaussian", "elliptic"] * has_delta
    laws = ["laplace", "logistic"] + ["gaussian", "subbotin", "flipped_huber"] * has_delta
    auto = "auto"
    if kind in ("DPLogisticRegression", "DPHuberRegressor", "DPQuantileRegressor", *COUNTS):
        options |= {
            "mechanism": [auto, auto, auto, "l1", "l2", "linf", "hull", *laws[:2], *gaussian],
            "regularization": [auto, auto, 0.0, 1.0, 1000.0],
            "scaling_share": [auto, 0, 0.2, 0.7],
            "additive": [None, None, None, auto, 1, 3],
        }
    if kind == "DPLogisticRegression":
        options["loss"] = [auto, auto, "sharp", "logistic", SharpLogistic(0.6)]
        if len(declared.target) > 2:
            options["loss"] = [auto, auto, "sharp", "logistic", Softmax(len(declared.target), 0.5)]
    if kind == "DPHuberRegressor":
        low, high = declared.bounds(TARGET)
        options["threshold"] = [auto, auto, (high - low) / 3, (high - low) / 1000]
        options["loss"] = ["pseudo_huber", "pseudo_huber", PseudoHuber(0.1)]
        options["mean_share"] = [auto, auto, 0, 0.2]
    if kind == "DPQuantileRegressor":
        options["quantile"] = [0.5, 0.001, [0.1, 0.9], [0.2, 0.3, 0.5, 0.8]]
        options["bandwidth"] = [auto, auto, float(np.ptp(declared.bounds(TARGET))) / 10]
    if kind in COUNTS:
        options["threshold"] = [auto, auto, 0.125, 5.0]
    if kind == "DPLinearRegression":
        named = [auto] * 30 + ["l1", "l2", "linf", "hull", "matrix"] * 2
        options["mechanism"] = [*named, "laplace", *gaussian]
        options["postprocess"] = [auto, auto, "ridge", "psd", "pinv"]
    if "Descent" in kind:
        width = 1.0 if kind in CLASSIFIERS else float(np.ptp(declared.bounds(TARGET)))
        options |= {
            "mechanism": [auto] * 6 + [*laws[:2], *laws],
            "penalty": [auto, auto, "l1", "l2", "elasticnet", None],
            "alpha": [auto, auto, 0.0, 0.01, 100.0],
            "l1_ratio": [0.5, 0.0, 1.0],
            "n_passes": [auto, auto, 1, 3, 12],
            "step_size": [auto, auto, 0.1, 3.0, 1e30],
            "order": ["cyclic", "cyclic", "random", "greedy"],
            "clip": [auto, auto, None, width / 2, width / 100],
            "average": [True, False],
            "scaling_share": [auto, 0, 0.3],
            "callback": [None, None, stops],
        }
    if kind in CLASSIFIERS:
        options["class_weight"] = [None, None, {declared.target[0]: 0.3}]
    return options


def parameters(
    rng: np.random.Generator, kind: str, declared: Declared, facts: dict[str, Any]
) -> dict[str, Any]:
    """Return random public parameters of an estimator, many of them the defaults."""
    options = options_of(kind, declared, "delta" in facts)
    found = {name: values[rng.integers(len(values))] for name, values in options.items()}
    # Some values exclude others.
    has_splines = any(isinstance(own, Spline) for own in declared.columns.values())
    if has_splines and isinstance(found.get("clip"), float):
        found["clip"] = None
    if "Descent" in kind and rng.random() < 0.2:
        rows = () if kind in REGRESSORS else (max(1, len(declared.target) % 2 * 3),)
        coef = rng.normal(size=(*rows, len(facts["domain"].encoded_names())))
        found["start"] = coef, rng.normal(size=rows)
    return found


def _fitted(
    rng: np.random.Generator, declared: Declared, facts: dict[str, Any], named: dict[str, str]
) -> Any:
    """Return a public model: its records are others, and ``infer`` may be called."""
    kinds = COUNTS if declared.target[0] == 0 else REGRESSORS
    kinds = CLASSIFIERS if isinstance(declared.target, list) else kinds
    kind = kinds[rng.integers(len(kinds))]
    table = records(rng, declared, int(rng.choice([1, 20, 500])), False).astype(declared.types())
    own = {PERSON: np.arange(len(table)) // 2, WEIGHT: 1.0}
    table = table.assign(**{column: own[column] for column in named.values()})
    for _ in range(99):  # parameters that do not go together are drawn again
        own = parameters(rng, kind, declared, facts) | {"random_state": int(rng.integers(2**31))}
        own.pop("class_weight", None)
        with suppress(ValueError):
            model = getattr(skdp, kind)(**facts, **own)
            return model.fit(table, target=TARGET, **named)
    raise AssertionError(f"no fit with {facts}")


def _estimated(rng: np.random.Generator, declared: Declared) -> dict[str, Any]:
    """Return what ``infer`` estimates: all coefficients, or those of some columns."""
    chosen = [name for name in declared.columns if rng.random() < 0.5]
    effects = chosen if chosen and rng.random() < 0.4 else None
    return {"effects": effects, "estimand": str(rng.choice(["ols", "ols", "weighted"]))}


def stops(progress: Any) -> bool:
    """Return whether the first two passes are made."""
    return bool(progress.n_pass > 1)


def neighbouring(
    rng: np.random.Generator, declared: Declared, neighbors: str, are_persons: bool, kind: str
) -> list[pd.DataFrame]:
    """Return two tables that differ in one row or person, in either order."""
    units = int(rng.choice([0, 1, 2, 5, 20, 60, 600]))
    if neighbors == "replace_one":
        units = max(units, 20 if kind == "PrivateSearchCV" else 1)
    sizes = rng.choice([1, 1, 2, 7, 50], units) if are_persons else np.ones(units, int)
    base = records(rng, declared, int(sizes.sum()), rng.random() < 0.3)
    base[PERSON] = np.repeat(np.arange(units), sizes)
    other = records(rng, declared, int(rng.choice([1, 3, 50])) if are_persons else 1, True)
    at = units if neighbors == "add_remove" else int(rng.integers(units))
    other[PERSON] = at
    for table in (base, other):
        table[WEIGHT] = rng.choice(WEIGHTS, len(table))
    before, after = base[base[PERSON] < at], base[base[PERSON] > at]
    found = [base, pd.concat([before, other, after], ignore_index=True)]
    return [found[k].astype(declared.types()) for k in rng.permutation(2)]


def records(rng: np.random.Generator, declared: Declared, n: int, extreme: bool) -> pd.DataFrame:
    """Return records, some cells of which are at bounds, far beyond, missing or not declared."""
    X, y = declared.whole().sample(max(n, 1), int(rng.integers(2**31)), with_target=True)
    table = pd.DataFrame(X).assign(**{TARGET: y})[:n]
    if not extreme or n == 0:
        return table
    is_far = bool(rng.random() < 0.5)
    for name in table:
        levels = declared.columns.get(name, declared.target)
        if isinstance(levels, list):
            if name != TARGET and rng.random() < 0.2:
                table[name] = "not declared" if isinstance(levels[0], str) else 999.0
            elif name != TARGET or rng.random() < 0.5:
                table[name] = table[name].iloc[0]
            if declared.may_miss(name) and rng.random() < 0.3:
                table[name] = None
        else:
            low, high = declared.bounds(str(name))
            ends = [low, high, -FAR, FAR] if is_far else [low, high]
            cells = rng.choice(ends, n) if rng.random() < 0.5 else np.full(n, rng.choice(ends))
            if declared.may_miss(name):
                cells[rng.random(n) < 0.5] = np.nan
            table[name] = cells
    return table


# How tables are given to a fit


def call(table: pd.DataFrame, source: str, named: dict[str, str], path: Path) -> dict[str, Any]:
    """Return the arguments of ``fit`` for a table from a source; some are ``named`` columns."""
    table = table.drop(columns=[*{PERSON, WEIGHT} - {*named.values()}])
    if source == "pairs":
        return {"X": lambda: [(t.drop(columns=TARGET), t[TARGET]) for t in cut(table)], **named}
    return {"X": _source(table, source, path), "target": TARGET, **named}


def cut(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield batches of a table; the last one has no rows."""
    return (table[at : at + 7] for at in range(0, len(table) + 7, 7))


def _source(table: pd.DataFrame, source: str, path: Path) -> Any:
    if source == "batches":
        return lambda: cut(table)
    if source == "folder":
        path.mkdir()
        for k, part in enumerate((table[:9], table[9:])):
            part.to_parquet(path / f"{k}.parquet", index=False)
        return path
    if source in ("csv", "feather", "parquet"):
        path = path.with_suffix(f".{source}")
        write = getattr(table, f"to_{source}")
        write(path) if source == "feather" else write(path, index=False)
        return str(path)
    if source == "dask":
        import dask.dataframe as dd

        return dd.from_pandas(table, npartitions=2)
    if source == "polars":
        import polars as pl

        return pl.from_pandas(table)
    if source == "arrow":
        import pyarrow as pa

        return pa.Table.from_pandas(table, preserve_index=False)
    return {str(name): table[name].to_numpy() for name in table} if source == "dict" else table


def _in_memory(table: pd.DataFrame, named: dict[str, str]) -> dict[str, Any]:
    given = {name: table[column].to_numpy() for name, column in named.items()}
    return {"X": table.drop(columns=[TARGET, PERSON, WEIGHT]), "y": table[TARGET], **given}


GRIDS: dict[str, dict[str, list[Any]]] = {
    "DPLogisticRegression": {"regularization": [0.0, "auto"], "loss": ["logistic", "sharp"]},
    "DPHuberRegressor": {"regularization": [1.0, "auto"], "additive": [None, 2]},
    "DPLinearRegression": {"mechanism": ["auto", "l1", "l2"]},
    "DPCoordinateDescentClassifier": {"n_passes": [1, 3], "order": ["cyclic", "greedy"]},
    "DPCoordinateDescentRegressor": {"penalty": ["auto", "l1"], "scaling_share": ["auto", 0]},
}
SCORES = {
    True: [None, "balanced_accuracy", "neg_log_loss"],
    False: [None, "neg_mean_squared_error", "neg_mean_absolute_error"],
}


def _search(rng: np.random.Generator, declared: Declared, facts: dict[str, Any]) -> PrivateSearchCV:
    own = {name: facts.pop(name) for name in ("epsilon", "delta") if name in facts}
    fits_classes = isinstance(declared.target, list)
    kinds = CLASSIFIERS if fits_classes else REGRESSORS
    kind = kinds[rng.integers(len(kinds))]
    intercepts = {"fit_intercept": [True, False]}
    scores = SCORES[fits_classes]
    return PrivateSearchCV(
        getattr(skdp, kind)(**facts),
        intercepts if rng.random() < 0.5 else GRIDS[kind],
        scoring=scores[rng.integers(len(scores))],
        held_out=float(rng.choice([0.2, 0.5])),
        refit_share=["auto", 0.0, 0.3][rng.integers(3)],
        **own,
    )


def _of_bounds(
    rng: np.random.Generator, declared: Declared, neighbors: str, tables: list[dict[str, Any]]
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the estimation of a domain, and its arguments for both tables."""
    columns = {
        name: own
        if isinstance(own, Spline) or rng.random() < 0.2
        else ("bounds" if isinstance(own, tuple) else "levels" if str(own[0]) > "f" else own)
        for name, own in declared.columns.items()
    }
    apart = [name for name, own in columns.items() if not isinstance(own, Spline)]
    if apart and not {"bounds", "levels"} & {*map(str, columns.values())}:
        columns[apart[0]] = "levels" if isinstance(columns[apart[0]], list) else "bounds"
    targets = [None, declared.target, "bounds" if isinstance(declared.target, tuple) else None]
    facts: dict[str, Any] = {"columns": columns, "missing": declared.missing}
    facts |= {"neighbors": neighbors, "target": targets[rng.integers(3)]}
    facts |= {"epsilon": float(rng.choice([0.3, 1.0, 5.0]))}
    facts["limit"] = [1e6, 1e-2, {"p": 1e100}][rng.integers(3)]
    facts["delta"] = 1e-6 if "levels" in columns.values() or rng.random() < 0.5 else 0.0
    if facts["target"] != "bounds":
        tables = [{name: own for name, own in t.items() if name != "y"} for t in tables]
    return partial(estimate_domain, **facts), tables[0], tables[1]


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
    """Replay cases, log violations, and return the sums by kind.

    Half of them use compiled functions, which a process has loaded after a fit to a large table.
    """
    sums = {kind: Found() for kind in kinds}
    before = [*_compiled._KERNELS]
    _compiled.load_kernels(math.inf)
    loaded = [*_compiled._KERNELS]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(_compiled._KERNELS.__setitem__, slice(None), before)
        for number in numbers:
            _compiled._KERNELS[:] = loaded if number // len(kinds) % 2 else [None]
            own = case(number, folder, kinds)
            found = own.run()
            sums[own.kind].add(found)
            if found.violations:
                log(f"case {number}, {own.estimator!r}: {found}")
            for path in Path(folder).iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
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
