"""What the measuring commands share: splits and seeds, runs on two cores, tables and verdicts.

Every command is repeatable: splits and noise follow from --seed alone. Noise from a seed can be
predicted and protects nobody; it is for figures about public data only.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binom

FloatArray = NDArray[np.float64]
Row = Mapping[str, Any]

RESULTS = Path(__file__).resolve().parents[3] / "results"
TEST_SHARE = 0.2
# Chance that a curve without any rise is said to have one.
FALSE_ALARM = 0.01
# Where a rise of the error with epsilon is looked for, and in which sets (rows).
FINE, SMALL = np.geomspace(0.01, 1000, 26).tolist(), 5000

Settings = dict[str, Any]


# Arguments


def parser_for(description: str | None, repeats: int, seed: int = 0) -> argparse.ArgumentParser:
    """Return a parser with the options that every command has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=repeats, help="runs behind each figure")
    parser.add_argument("--seed", type=int, default=seed, help="what splits and noise follow from")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser


def add_sets(parser: argparse.ArgumentParser, epsilons: Sequence[float]) -> None:
    """Add the options of the commands that run on real data sets."""
    parser.add_argument("--sets", nargs="+", help="data sets; all that the mode is for if left out")
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(epsilons))
    parser.add_argument("--neighbors", choices=["replace_one", "add_remove"], default="replace_one")
    parser.add_argument("--approximate", action="store_true", help="delta = 1/n^2 in place of 0")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--cliff", action="store_true", help="look for rises of the error")
    modes.add_argument("--sweep", action="store_true", help="automatic rule against fixed choices")


def mode_of(arguments: argparse.Namespace) -> str:
    """Return what the command is to do: "figures", "cliff" or "sweep"."""
    return "cliff" if arguments.cliff else "sweep" if arguments.sweep else "figures"


# Randomness


def split(n: int, seed: int, repetition: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of the training and of the test rows, four to one."""
    order = np.random.default_rng([seed, repetition]).permutation(n)
    n_test = round(TEST_SHARE * n)
    return order[n_test:], order[:n_test]


def noise_seed(seed: int, repetition: int) -> int:
    """Return the seed of the noise: other than the split's, and the same for all settings.

    Settings are compared on the same splits and the same random bits, which sharpens their
    differences and leaves every single figure what it is.
    """
    return int(np.random.default_rng([seed, repetition, 1]).integers(2**31))


# Runs


class remembered:
    """Keep a function's results, as functools.cache does; sent to workers without them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.results: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the function's result, computed once."""
        key = (*arguments, *sorted(named.items()))
        if key not in self.results:
            self.results[key] = self.function(*arguments, **named)
        return self.results[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function,)


def run(function: Callable[..., Any], calls: Iterable[tuple], jobs: int, label: str) -> list[Any]:
    """Call ``function`` with each tuple of arguments, on several cores, and report progress."""
    calls, results = list(calls), []
    work = Parallel(n_jobs=jobs, return_as="generator")(delayed(function)(*call) for call in calls)
    for result in work:
        results.append(result)
        end = "\n" if len(results) == len(calls) else ""
        print(f"\r{label}: {len(results)}/{len(calls)} runs", end=end, file=sys.stderr, flush=True)
    return results


def stacked(results: Sequence[Mapping[str, Any]]) -> dict[str, FloatArray]:
    """Turn dictionaries of numbers or arrays, one a run, into one of arrays, runs first."""
    return {key: np.array([result[key] for result in results]) for key in results[0]}


def measure(
    function: Callable[..., Any], name: str, settings: list[Settings], arguments: argparse.Namespace
) -> dict[str, FloatArray]:
    """Call ``function(name, settings, seed, repetition)`` for each repetition and stack it."""
    calls = [(name, settings, arguments.seed, r) for r in range(arguments.repeats)]
    return stacked(run(function, calls, arguments.jobs, name))


def kind_of(arguments: argparse.Namespace) -> str:
    """Return the neighbouring relation, and whether delta is used."""
    return str(arguments.neighbors) + (", approximate" if arguments.approximate else "")


def facts_of_fit(
    n_rows: int, epsilon: float, neighbors: str, approximate: bool = False
) -> Settings:
    """Return what is publicly asked of a fit to four fifths of a table of ``n_rows`` rows.

    An approximate guarantee has delta = 1 / n^2.
    """
    # One significant digit: what an owner might tell about the size of a table.
    n_public = int(float(f"{(1 - TEST_SHARE) * n_rows:.0e}"))
    settings: Settings = {"epsilon": epsilon, "neighbors": neighbors}
    if approximate:
        settings["delta"] = 1 / n_public**2
    return settings if neighbors == "replace_one" else settings | {"n_public": n_public}


# Figures


def quartiles(values: Any) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def verdict(value: float, target: float | None, goal: float | None, higher: bool) -> str:
    """Say whether a figure reaches its goal, at least its target, or neither."""
    sign = 1 if higher else -1
    for name, bound in (("goal", goal), ("target", target)):
        if bound is not None and sign * value >= sign * bound:
            return name
    return "" if target is None and goal is None else "missed"


def judged(value: float, bounds: Sequence[float] | None, higher: bool) -> dict[str, Any]:
    """Return the columns target, goal and reached; ``bounds`` is (target,) or (target, goal)."""
    target, goal = [*(bounds or ()), None, None][:2]
    return {"target": target, "goal": goal, "reached": verdict(value, target, goal, higher)}


def rises(errors: FloatArray, epsilons: Sequence[float]) -> dict[str, Any]:
    """Look for a rise of the median error along a grid of epsilon.

    Parameters
    ----------
    errors : ndarray of shape (n_runs, n_epsilons)
        Runs are independent; the columns need not be.
    epsilons : sequence of float, increasing

    Returns
    -------
    dict
        The greatest rise of the sample median above an earlier one, where it is, and what of it
        noise explains; and how far some median certainly lies above an earlier one, or 0.

    Notes
    -----
    The r-th least of n runs exceeds the median with a chance of at most P(Bin(n, 1/2) < r), and
    likewise from above: this holds for every law. Of the 2 n_epsilons bounds none fails, but
    with a chance of FALSE_ALARM. A lower bound above an earlier upper bound is a true rise then.
    """
    runs, n_epsilons = errors.shape
    ordered, medians = np.sort(errors, axis=0), np.median(errors, axis=0)
    rank = int(binom.ppf(FALSE_ALARM / (2 * n_epsilons), runs, 0.5))
    if rank < 1:
        raise SystemExit(f"--repeats must be larger than {runs} to bound {n_epsilons} medians.")
    lower, upper = ordered[rank - 1], ordered[runs - rank]
    certain = float((lower - np.minimum.accumulate(upper)).max())
    climbs = medians - np.minimum.accumulate(medians)
    top = int(climbs.argmax())
    bottom = int(medians[: top + 1].argmin())
    return {
        "greatest rise": float(climbs[top]),
        "tolerance": float(medians[top] - lower[top] + upper[bottom] - medians[bottom]),
        "from epsilon": float(epsilons[bottom]),
        "to epsilon": float(epsilons[top]),
        "certain rise": max(0.0, certain),
        "reached": "no cliff" if certain <= 0 else "CLIFF",
    }


def loss_of_first(scores: FloatArray) -> dict[str, float]:
    """Return what the first column loses against the best of the others, in medians.

    ``loss`` takes the best of all the noisy medians and so errs against the first column;
    ``fair loss`` picks the best on one half of the runs and compares on the other half.
    """
    medians = np.median(scores, axis=0)
    halves = [(scores[::2], scores[1::2]), (scores[1::2], scores[::2])]
    fair = [_loss(other, 1 + int(np.median(one, axis=0)[1:].argmax())) for one, other in halves]
    best = 1 + int(medians[1:].argmax())
    return {"best": best, "loss": _loss(scores, best), "fair loss": float(np.mean(fair))}


def cliff_row(name: str, scores: FloatArray) -> Row:
    """Return how far the median of 1 - score rises along the grid FINE, and its two ends."""
    errors = 1 - scores
    first, *_, last = np.median(errors, axis=0).tolist()
    ends = {f"error at {FINE[0]:g}": first, f"error at {FINE[-1]:g}": last}
    return {"set": name, **ends, **rises(errors, FINE)}


def sweep_row(
    facts: Row, scores: FloatArray, choices: Sequence[Row], most_lost: float
) -> dict[str, Any]:
    """Return what the automatic rule, first column, loses against the best of the choices."""
    lost = loss_of_first(scores)
    best = choices[int(lost.pop("best")) - 1]
    return {
        **facts,
        "automatic": float(np.median(scores[:, 0])),
        **{f"best {key}": value for key, value in best.items()},
        **lost,
        **judged(lost["loss"], (most_lost,), higher=False),
    }


def _loss(scores: FloatArray, column: int) -> float:
    return float(np.median(scores[:, column]) - np.median(scores[:, 0]))


# Output


def table(rows: Sequence[Row]) -> str:
    """Return the rows as an aligned table in Markdown."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [heads, *([_cell(row.get(head)) for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(_aligned(row, widths)) + " |" for row in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def publish(name: str, rows: Sequence[Row], arguments: argparse.Namespace) -> None:
    """Print the table, and save rows and settings in the folder ``results``."""
    print(table(rows))
    RESULTS.mkdir(exist_ok=True)
    record = {"settings": vars(arguments), "versions": _versions(), "rows": list(rows)}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"\nSaved {path.relative_to(RESULTS.parent)}.", file=sys.stderr)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]


def _versions() -> dict[str, str]:
    import scipy
    import sklearn

    found = {module.__name__: module.__version__ for module in (np, scipy, sklearn)}
    return {"python": platform.python_version(), **found}


def estimator_of(kind: Any, q: float | None = None, **settings: Any) -> Any:
    """Return an estimator of a class, or of `with_share` of it."""
    return (kind if q is None else with_share(kind, q))(**settings)


def with_share(kind: Any, q: float) -> Any:
    """Return a class whose share q of epsilon for the linear term is not chosen by the rules."""
    assumed = replace(kind._reference, usual_q=(q, q))
    return type(kind.__name__, (kind,), {"_reference": assumed, "__module__": kind.__module__})
