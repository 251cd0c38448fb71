"""Cells of a page from few runs, in seconds and without data files.

The simulation has fewer repetitions than the page. Its medians lie within bands, except with a
chance of ``ALARM`` for each; see `rank`. The benchmark repeats all splits of the two sets that come
with scikit-learn, so its cells are those of the page to the digits shown.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import betabinom

from examples.benchmarks.accuracy import simulation
from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from examples.figures.manifest import Figure
from examples.figures.outputs import Output
from examples.figures.pages import NUMBER, ROOT, Item, Table, unit_of, value_of

# Chance that the stored median of one cell, which is right, is outside of its band.
ALARM = 1e-4
FEW, STORED, EPSILONS = 25, 100, [1 / 16, 1 / 4, 1.0]
SPLITS, SETS = 20, {"classification": "breast_cancer_wdbc", "regression": "diabetes"}

Found = tuple[int, list[str]]


def compared(figure: Figure, item: Item) -> Found:
    """Return how many cells were compared, and texts about those that are wrong."""
    if item.table is None:
        raise ValueError(f"{figure.name} must be a table.")
    count, wrong = SAMPLES[figure.sample](figure, item.table)
    return count, [f"{figure.name} ({item.page}:{item.line + 1}), {text}" for text in wrong]


# Bands


def rank(few: int, stored: int, alarm: float) -> int:
    """Return r: the stored median is between the r-th least and the r-th greatest of a few runs.

    If the few runs and the stored ones are independent draws of one law, the number of the few
    below the k-th least of N stored values is beta-binomial with k and N - k + 1, for every
    continuous law. The median of an even N is not below its lower middle, k = N / 2. If the few
    runs are some of the stored ones, the chance of an alarm is smaller.
    """
    k = (stored + 1) // 2
    r = int(betabinom.ppf(alarm / 2, few, k, stored - k + 1))
    if r < 1:
        raise ValueError(f"{few} runs are too few for a chance of {alarm:g}.")
    return r


def bands(found: Mapping[str, FloatArray]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Return the lower and the upper ends, for runs along the first axis."""
    r = rank(FEW, STORED, ALARM)
    ordered = {name: np.sort(values, axis=0) for name, values in found.items()}
    return {n: v[r - 1] for n, v in ordered.items()}, {n: v[-r] for n, v in ordered.items()}


def of_simulation(figure: Figure, table: Table) -> Found:
    """Compare the medians of the simulation with bands from fewer repetitions."""
    if figure.layout is None:
        raise ValueError(f"{figure.name} must have a layout.")
    ends = bands(_simulated())
    lower, upper = (list(figure.layout.values(table, [Output("", rows_of(end))])) for end in ends)
    wrong = []
    for (row, column, (low,)), (_, _, (high,)) in zip(lower, upper, strict=True):
        shown = NUMBER.findall(table.rows[row][column])[0]
        margin = unit_of(shown) / 2
        if not low - margin <= value_of(shown) <= high + margin:
            place = f"row {row + 1}, column {table.headings[column]!r}"
            wrong.append(f"{place}: the page has {shown}, the band is {low:.4g} to {high:.4g}")
    return len(lower), wrong


@cache
def _simulated() -> dict[str, FloatArray]:
    return report.stacked([simulation.errors(EPSILONS, 0, r) for r in range(FEW)])


def rows_of(ends: Mapping[str, FloatArray]) -> list[dict[str, Any]]:
    """Return the rows of the command's table for one end of the bands."""
    return [
        {"epsilon": epsilon, **{name: float(values[k]) for name, values in ends.items()}}
        for k, epsilon in enumerate(EPSILONS)
    ]


# The benchmark


def of_benchmark_file(figure: Figure, table: Table) -> Found:
    """Compare quartiles in benchmark.csv, in every measure and at every epsilon, on two sets."""
    from examples.benchmarks.peers.everything_page import figure_rows
    from examples.benchmarks.peers.verdicts import Scores
    from examples.benchmarks.shared.measures import MEASURES

    with (ROOT / figure.page).with_suffix(".csv").open(encoding="utf-8") as file:
        stored = {tuple(line[:5]): line[5:9] for line in csv.reader(file)}
    count, wrong = 0, []
    for task, measures in MEASURES.items():
        for measure in measures:
            for line in figure_rows(Scores.of(_runs(task), measure), task, measure):
                texts = [str(cell) for cell in line]
                found = stored.get(tuple(texts[:5]))
                count += 1
                if found is None or not all(map(_is_near, found, texts[5:9])):
                    place = ", ".join(texts[:5])
                    wrong.append(f"{place}: the file has {found}, computed: {texts[5:9]}")
    return count, wrong


def _is_near(stored: str, computed: str) -> bool:
    """Whether two numbers differ by a unit of their fifth digit at most."""
    return math.isclose(float(stored), float(computed), rel_tol=2e-4, abs_tol=1e-9)


@cache
def _runs(task: str) -> Sequence[Any]:
    from examples.benchmarks.peers import contenders as field

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise from a seed, which is meant
        for contender in field.contenders():
            if (
                contender.task == task
                and not contender.peer
                and contender.method not in field.SETTINGS
            ):
                wanted = [(r, contender.epsilons) for r in range(SPLITS)]
                found += field.runs(contender, SETS[task], wanted)
    return found


SAMPLES: dict[str, Callable[[Figure, Table], Found]] = {
    "simulation": of_simulation,
    "benchmark_file": of_benchmark_file,
}
