"""The page of the benchmark of everything, its picture and its two files of figures.

Shares, verdicts and losses are computed from the stored runs, whatever is there. The method and the
peers are described on a page that is written by hand.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from examples.benchmarks.peers.contenders import (
    AIM,
    CURVES,
    DESCENT,
    DIFFPRIVLIB,
    EBM,
    EPSILONS,
    ESTIMATORS,
    HUBER,
    LINEAR,
    LOGISTIC,
    NONE,
    OPPONENTS,
    SMALL,
    TRIVIAL,
    UNIT_ROWS,
    Run,
    contenders,
)
from examples.benchmarks.peers.everything_pictures import draw
from examples.benchmarks.peers.verdicts import (
    AHEAD,
    BEHIND,
    LEVEL,
    Outcome,
    Scores,
    counts,
    epsilon_text,
    outcomes,
)
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import names_of
from examples.benchmarks.shared.measures import AUROC, MEASURES, R2, SHARED

ByMeasure = Mapping[str, Scores]
# Peers with the guarantee SMALL; and those with delta = 0, for ours that have it.
STRONG = {task: (*OPPONENTS[task], EBM, AIM, TRIVIAL) for task in OPPONENTS}
PURE = (DIFFPRIVLIB,)
PICTURE = "benchmark_shares.png"
SHORT = {LOGISTIC: "logistic", LINEAR: "linear", HUBER: "Huber"}
SHORT |= {own: f"{SHORT[name]}, curves" for name, own in CURVES.items()}
SHORT |= dict.fromkeys(DESCENT.values(), "descent")
TITLES = {AUROC: "AUROC", R2: "R²"}
# Losses by less are counted, and not listed.
LEAST_LOSS = 0.005

HEAD = """\
# Comparison with peers

This page compares the estimators of skdp with other private models and with the trivial one, on all
data sets of `skdp.datasets` with one label or one number as the target, at epsilon = .1, .5, 1
and 4. All methods have delta = 1e-6, and neighbours differ by one added or removed record;
diffprivlib has delta = 0 and is compared with skdp at delta = 0, where one record is replaced.
Every estimator of skdp has its default parameters. [The method and the
peers](benchmark_method.md) are described on a page of their own.

A *share* is the way from the trivial model to the model without privacy:
(score - trivial) / (without privacy - trivial), in AUROC for classifiers and in R² for regressors.
The picture shows the mean over the data sets on which all methods were run: {classification} with
labels and {regression} with numbers.

<!-- figure: benchmark-picture -->
![Mean share against epsilon, a panel for labels and one for numbers](benchmark_shares.png)
"""

VERDICTS = """\
## Ahead, level, behind

The scores of two methods are compared on the same random splits. A method is *ahead* in a cell, a
data set at one epsilon, if the 95 % interval of the mean difference is above zero, *behind* if it
is below, and *level* otherwise. The tables count cells: ahead / level / behind. Columns are the
estimators of skdp. A peer with several settings is represented by the setting with the best median.
The last line counts the cells in which a method is ahead of every peer, behind at least one, or
neither.
"""

LOSSES = """\
## Where skdp is behind, and why

The table counts the cells in which a method of skdp is behind a peer by more than {least} in the
mean, and has the greatest difference of each data set. {others}
"""

NUMBERS = """\
## All figures

Medians and quartiles of every method, setting, data set and measure are in
[benchmark.csv](benchmark.csv), and the differences with their intervals are in
[benchmark_differences.csv](benchmark_differences.csv). Here is the first file; a click on a heading
sorts it, and a text in the field below a heading selects lines. Below it are the
shares of the picture.

<div class="sortable" data-source="benchmark.csv" data-select="adult||1e-6|1|auroc"></div>

<details>
<summary>Shares</summary>
"""

# Why skdp is behind a peer: the first one that holds.
ESTIMATOR, EFFECTS, LENGTHS, OTHER = "estimator", "effects", "row lengths", "other"
REASONS = {
    ESTIMATOR: """\
- *Estimator.* `DPLogisticRegression` or `DPHuberRegressor` is not behind. Objective perturbation
  needs fewer records than moments or coordinate descent, and the Huber loss suits long tails.
""",
    EFFECTS: """\
- *Effects.* With `additive="auto"` skdp is not behind: effects are not lines.
""",
    LENGTHS: """\
- *Row lengths.* skdp is not behind if each row is divided by its own length. Then the noise is that
  of rows of length 1, and not of the longest row that the domain allows. It is a model of other
  features and can be better than the model without privacy. The estimators of skdp keep the
  features, so that coefficients have a meaning. [The guide](../guide/low_accuracy.md) says how to
  divide the rows.
""",
    OTHER: "- *Other.* None of the reasons above.\n",
}


def reason_of(scores: Scores, task: str, lost: Outcome) -> str:
    """Return why ours is behind: what else in the same cell is not."""
    lines = LOGISTIC if task == "classification" else HUBER
    others = {ESTIMATOR: lines, EFFECTS: CURVES[lines], LENGTHS: UNIT_ROWS[lines]}
    for why, method in others.items():
        other = lost.own._replace(method=method)
        if other in scores.by_cell and scores.difference(other, lost.peer).verdict != BEHIND:
            return why
    return OTHER


def write(runs: Iterable[Run], docs: Path) -> None:
    """Write the page, both files and the picture into a folder, and print the tables."""
    runs = list(runs)
    by_measure = {name: Scores.of(runs, name) for known in MEASURES.values() for name in known}
    docs.mkdir(exist_ok=True)
    write_figures(by_measure, docs / "benchmark.csv")
    write_differences(by_measure, docs / "benchmark_differences.csv")
    curves = {task: dict(mean_shares(by_measure[SHARED[task]], task)) for task in SHARED}
    draw(curves, docs / PICTURE)
    (docs / "benchmark.md").write_text("\n".join(page(by_measure)), encoding="utf-8")
    print(f"Shares\n{report.table(list(share_rows(by_measure)))}\n")


def page(by_measure: ByMeasure) -> Iterator[str]:
    """Yield the page part by part."""
    common = {task: len(common_sets(by_measure[SHARED[task]], task)) for task in SHARED}
    yield HEAD.format(**common)
    yield VERDICTS
    found = {task: list(all_outcomes(by_measure, task)) for task in SHARED}
    for task, own in found.items():
        if own:
            yield f"{task.capitalize()}, {TITLES[SHARED[task]]}:\n"
            yield _table(f"verdicts-{task}", verdict_rows(own, task))
    lost = [(t, o) for t in found for o in found[t] if o.difference.verdict == BEHIND]
    listed = [(t, o) for t, o in lost if o.difference.mean < -LEAST_LOSS]
    others = f"In {len(lost) - len(listed)} more cells skdp is behind by less."
    yield LOSSES.format(least=number(LEAST_LOSS), others=others)
    if listed:
        reasons = [(reason_of(by_measure[SHARED[t]], t, o), o) for t, o in listed]
        yield _table("losses", loss_rows(reasons))
        yield "".join(REASONS[why] for why in REASONS if why in dict(reasons))
    yield NUMBERS
    yield _table("shares", share_rows(by_measure))
    yield "</details>\n"


def _table(name: str, rows: Iterable[report.Row]) -> str:
    return f"<!-- figure: benchmark-{name} -->\n{report.table(list(rows))}\n"


# Shares


def share_rows(by_measure: ByMeasure) -> Iterator[report.Row]:
    """Yield a row for each method: its mean shares by epsilon."""
    for task, measure in SHARED.items():
        for method, means in mean_shares(by_measure[measure], task):
            cells = {
                epsilon_text(e): f"{100 * m:.0f} %" for e, m in zip(EPSILONS, means, strict=True)
            }
            yield {"method": method, "of": TITLES[measure], **cells}


def mean_shares(scores: Scores, task: str) -> Iterator[tuple[str, list[float]]]:
    """Yield the methods that were run, ours first, and their mean shares over the common sets."""
    sets = common_sets(scores, task)
    for method in compared(scores, task) if sets else ():
        found = [[scores.share(name, method, SMALL, e) for name in sets] for e in EPSILONS]
        yield method, np.mean(found, axis=1).tolist()


def common_sets(scores: Scores, task: str) -> list[str]:
    """Return the sets on which all methods were run at each epsilon and have a share."""
    return [
        name
        for name in sets_of(scores, task)
        if all(
            scores.share(name, method, SMALL, epsilon) is not None
            for method in compared(scores, task)
            for epsilon in EPSILONS
        )
    ]


def compared(scores: Scores, task: str) -> list[str]:
    """Return the methods of a task with the guarantee SMALL that were run; ours first."""
    sets = sets_of(scores, task)
    return [
        method
        for method in (*ESTIMATORS[task], *OPPONENTS[task], EBM)
        if any(scores.best(name, method, SMALL, e) for name in sets for e in EPSILONS)
    ]


def sets_of(scores: Scores, task: str) -> list[str]:
    """Return the sets of a task that were run, smallest first."""
    run = {cell.set for cell in scores.by_cell}
    return [name for name in names_of(task) if name in run]


# Differences


def all_outcomes(by_measure: ByMeasure, task: str) -> Iterator[Outcome]:
    """Yield each of ours against each peer."""
    scores = by_measure[SHARED[task]]
    sets = sets_of(scores, task)
    for own in ESTIMATORS[task]:
        for peer in STRONG[task]:
            yield from outcomes(scores, sets, own, peer, SMALL)
        for peer in PURE:
            yield from outcomes(scores, sets, own, peer, NONE)


def verdict_rows(found: Sequence[Outcome], task: str) -> Iterator[report.Row]:
    """Yield a row for each peer, and one for all of them; a column for each of ours."""
    for peer in (*STRONG[task], *PURE):
        row: report.Row = {"peer": peer, "delta": NONE if peer in PURE else "1e-6"}
        for own in ESTIMATORS[task]:
            cells = [
                o.difference.verdict
                for o in found
                if o.own.method == own and o.peer.method.partition(", ")[0] == peer
            ]
            row[SHORT[own]] = counts(cells) if cells else ""
        if any(row[SHORT[own]] for own in ESTIMATORS[task]):
            yield row
    row = {"peer": "all", "delta": ""}
    for own in ESTIMATORS[task]:
        by_cell = defaultdict(list)
        for o in found:
            if o.own.method == own and o.own.delta == SMALL:
                by_cell[o.own].append(o.difference.verdict)
        row[SHORT[own]] = counts(map(worst, by_cell.values())) if by_cell else ""
    yield row


def worst(verdicts: Sequence[str]) -> str:
    """Return the verdict against all of some peers."""
    return next(v for v in (BEHIND, LEVEL, AHEAD) if v in verdicts)


def loss_rows(lost: Iterable[tuple[str, Outcome]]) -> Iterator[report.Row]:
    """Yield a line for each reason: how many cells of ours, and the greatest difference of sets."""
    by_reason = defaultdict[str, list[Outcome]](list)
    for why, o in sorted(lost, key=lambda pair: pair[1].difference.mean):
        by_reason[why].append(o)
    for why in REASONS:
        if found := by_reason[why]:
            cells, most = Counter(SHORT[o.own.method] for o in found), dict[str, str]()
            for o in found:
                most.setdefault(o.set, number(-o.difference.mean))
            parts = ["; ".join(f"{k} {v}" for k, v in own.items()) for own in (cells, most)]
            yield {"why": why, "cells": parts[0], "data sets": parts[1]}


def write_differences(by_measure: ByMeasure, path: Path) -> None:
    """Write every difference, its interval and its verdict, as comma-separated values."""
    heads = ["task", "set", "epsilon", "skdp", "peer", "delta", "measure", "splits"]
    heads += ["difference", "lower", "upper", "verdict"]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(heads)
        for task, measure in SHARED.items():
            for o in all_outcomes(by_measure, task):
                facts = [task, o.set, epsilon_text(o.epsilon), o.own.method, o.peer.method]
                mean, lower, upper, splits, verdict = o.difference
                values = [f"{value:.4g}" for value in (mean, lower, upper)]
                table.writerow([*facts, o.own.delta, measure, splits, *values, verdict])


# Figures


def number(value: float) -> str:
    """Return a score with three decimals and no zero before the point."""
    text = f"{value:.3f}".replace("-0.000", "0.000")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def write_figures(by_measure: ByMeasure, path: Path) -> None:
    """Write all figures, settings of the peers apart, as comma-separated values."""
    heads = ["set", "method", "delta", "epsilon", "measure"]
    heads += ["median", "lower quartile", "upper quartile", "splits", "task"]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(heads)
        for task, names in MEASURES.items():
            for name in names:
                table.writerows(figure_rows(by_measure[name], task, name))


def figure_rows(scores: Scores, task: str, measure: str) -> Iterator[list[object]]:
    """Yield the lines of the table of all figures for one measure."""
    order = {(c.method, c.delta): k for k, c in enumerate(contenders())}
    sets = sets_of(scores, task)
    cells = [cell for cell in scores.by_cell if cell.set in sets]
    cells.sort(key=lambda c: (sets.index(c.set), order[c.method, c.delta], c.epsilon))
    for cell in cells:
        figure = scores.figure(cell)
        quartiles = [f"{v:.5g}" for v in (figure.median, figure.lower, figure.upper)]
        facts = [cell.set, cell.method, cell.delta, epsilon_text(cell.epsilon), measure]
        yield [*facts, *quartiles, figure.repeats, task]
