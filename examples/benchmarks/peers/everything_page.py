"""The page of the benchmark of everything: tables, verdicts and pictures of what is stored."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from examples.benchmarks.peers.contenders import (
    ADASSP,
    BOOSTED,
    CURVES,
    DESCENT,
    DIFFPRIVLIB,
    EBM,
    EPSILONS,
    ESTIMATORS,
    HUBER,
    INVERSE_SQUARE,
    LINEAR,
    LOGISTIC,
    NO_EPSILON,
    NONE,
    OPPONENTS,
    PLAIN,
    SMALL,
    TRIVIAL,
    Run,
    contenders,
)
from examples.benchmarks.peers.everything_pictures import draw
from examples.benchmarks.peers.verdicts import (
    BEHIND,
    LEVEL,
    Outcome,
    Rival,
    Scores,
    counts,
    epsilon_text,
    outcomes,
)
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import names_of
from examples.benchmarks.shared.measures import ACCURACY, AUROC, LOG_LOSS, MEASURES, R2, SHARED

Columns = Mapping[str, Sequence[tuple[str, str]]]
Rivals = Mapping[str, Sequence[Rival]]
CLASSIFIER, REGRESSOR = DESCENT["classification"], DESCENT["regression"]
# Columns of the tables: method and delta; (name, NONE) with NO_EPSILON for the references.
COLUMNS = {
    "classification": [
        (LOGISTIC, NONE),
        (CURVES[LOGISTIC], NONE),
        (LOGISTIC, INVERSE_SQUARE),
        (CLASSIFIER, INVERSE_SQUARE),
        (DIFFPRIVLIB, NONE),
    ],
    "regression": [
        (LINEAR, NONE),
        (HUBER, NONE),
        (CURVES[HUBER], NONE),
        (HUBER, INVERSE_SQUARE),
        (REGRESSOR, INVERSE_SQUARE),
        (DIFFPRIVLIB, NONE),
        (ADASSP, INVERSE_SQUARE),
        (BOOSTED, INVERSE_SQUARE),
    ],
}
STRONG = {task: (*OPPONENTS[task], EBM) for task in OPPONENTS}
# Columns of the tables of the guarantee SMALL.
SMALL_COLUMNS = {
    task: [(name, SMALL) for name in (*own, *STRONG[task])] for task, own in ESTIMATORS.items()
}
OWN = {
    "classification": [
        (LOGISTIC, NONE),
        (LOGISTIC, INVERSE_SQUARE),
        (CLASSIFIER, INVERSE_SQUARE),
    ],
    "regression": [
        (LINEAR, NONE),
        (HUBER, NONE),
        (HUBER, INVERSE_SQUARE),
        (REGRESSOR, INVERSE_SQUARE),
    ],
}
RIVALS = {
    task: [Rival(*own, peer, NONE, EPSILONS) for peer in (DIFFPRIVLIB, TRIVIAL) for own in owned]
    for task, owned in OWN.items()
}
RIVALS["regression"] += [
    Rival(name, INVERSE_SQUARE, peer, INVERSE_SQUARE, EPSILONS)
    for peer in (ADASSP, BOOSTED)
    for name in (HUBER, REGRESSOR)
]
SMALL_RIVALS = {
    task: [Rival(own, SMALL, peer, SMALL, EPSILONS) for peer in STRONG[task] for own in owned]
    for task, owned in ESTIMATORS.items()
}
for task, name in (("classification", LOGISTIC), ("regression", HUBER)):
    SMALL_RIVALS[task].append(Rival(CURVES[name], SMALL, name, SMALL, EPSILONS))
SHORT = {CLASSIFIER: "DPCoordinateDescent", REGRESSOR: "DPCoordinateDescent"}
# The measure of verdicts.
FIRST = {task: names[0] for task, names in MEASURES.items()}
TITLES = {ACCURACY: "Accuracy", AUROC: "AUROC", LOG_LOSS: "Log-loss", R2: "R²"}

HEAD = """\
# Everything against the peers

This page compares every estimator of skdp with the peers, on every data set of `skdp.datasets`
with one label or one number as the target, at epsilon = .1, .5, 1 and 4. The page, the pictures
and [the table with quartiles and seconds](benchmark.csv) are written by

```
SKDP_DATA=path/to/datasets make benchmark
```

The command stores each run, continues where it was stopped, and creates an environment for each
peer that is a package.

**Figures.** A figure is the median over {repeats} of the accuracy, or R², on the fifth of
the rows that was left out. Every method gets the same splits and the same encoded columns
(numbers scaled to [-1, 1] by public bounds, indicators of levels). One record is replaced; the
number of records is public. Every estimator of skdp has its default parameters; nothing is tuned
for a set. delta is 0, or 1/n², where n is the number of training rows rounded to its first digit.
Coordinate descent and all peers but diffprivlib need a delta. *Curves* is the same estimator with
`additive="auto"`, and DP-EBM is an additive model too: both are given the columns as they are, with
the same bounds. A second group of tables has delta = 1e-6 and the neighbouring relation of most
peers: a record is added or removed.

For classifiers there are also the AUROC, that of each label against all others and then the mean
where there are several, and the log-loss: the mean of -log p, where p is the probability that the
model gives to the true label, at least 1e-15. R² below -1e12, or of predictions that are not
finite, counts as -1e12.

**Shares.** The summary is the share of the way from the trivial model to the model without
privacy, (score - trivial) / (without privacy - trivial), in AUROC or R². It is computed from the
medians of a set; the table shows the mean over the sets. A share below -100 % counts as -100 %.
Sets where the two models differ by less than .02 are left out.

**Rules.** Rules of automatic choices are set on simulated populations only, and the sets of this
page confirm them. Earlier versions did not keep to this: some older constants were set with
knowledge of some of these sets ([automatic choices](../mathematics/automatic_choices.md)).

**The peers.** Where a peer has settings, a figure is the better median, chosen after the fact. All
have the bounds of the domain and epsilon at face value.

- diffprivlib 0.6: `LogisticRegression`, with C = 1 and C = .1, and `LinearRegression`.
- DP-EBM (Nori et al. 2021), the boosted additive models of interpret 0.7 with their default
  parameters. Levels are nominal. Its noise is that of one record more or less.
- AdaSSP (Wang 2018), in a version that releases the least eigenvalue and one that computes it from
  the noisy matrix; Boosted AdaSSP (Tang et al. 2023), ten rounds; Hessian mixing (Lev et al. 2026),
  three rounds.
- DP-GD, gradient descent with all records in each step, clipped gradients, step 1 / (greatest
  curvature), 30 and 300 steps; DP-Newton (Ganesh et al. 2023), the double noise method with the
  quadratic upper bound and clipped eigenvalues, 15 steps.

The last two groups are written for this page, with the least noise for which all their releases are
private together; Hessian mixing with the calibration of its authors. They divide rows by the
greatest length that the domain allows or each row by its own (two settings), clip predictions to
the bounds of the target, and use the number of training rows as a public figure. *Without privacy*
is scikit-learn's model with its default penalty, *trivial* is the most common label, or the mean.

**Verdicts.** An estimator of skdp is *ahead* where its median is at least the peer's. It is
*behind* where its median is lower and it loses on so many of the splits that chance explains it
in at most 5 % of cases (sign test). It is *level* where its median is lower without this
significance. So *level* means only that a loss is not shown; with fewer than six splits a loss is
never shown.
"""

TAIL = """\
## Peers that are not run

BinAgg (Lin & Slavković 2026) is not on the package index. On simulated data of 10,000 rows, at
epsilon = 1 and delta = 1e-6, the l2 error of its coefficients was .139, and of two estimators of
skdp .027 and .007; its 95 % intervals covered in 92 % of cases. Its public code, run once with the
encoded columns and their bounds, had R² = .58 on california_housing, .20 on protein_casp and .00 on
bike_sharing_hour (medians of three splits). Its intervals are compared in
[confidence intervals in figures](inference_figures.md). DD-SSP (Ferrando & Sheldon 2025), objective
perturbation with delta (Redberg et al. 2023) and TukeyEM (Amin et al. 2023) are not run.

## Limitations

These are public sets, and some of the bounds are *informed* ([data sets](../datasets.md)), for all
methods alike. Among many verdicts at 5 % some are due to chance. Medians hide the spread; the
quartiles are in the table. A guarantee with delta > 0 is weaker than one with delta = 0. A model
that is ahead of a peer need not be useful: the comparison with the trivial model shows where
epsilon is too small for a set.
"""


def write(runs: Iterable[Run], docs: Path) -> None:
    """Write benchmark.md, benchmark.csv and two pictures into a folder, and print summaries."""
    runs = list(runs)
    by_measure = {name: Scores.of(runs, name) for known in MEASURES.values() for name in known}
    scores = Scores.of(runs)
    docs.mkdir(exist_ok=True)
    write_table(by_measure, docs / "benchmark.csv")
    for task, columns in COLUMNS.items():
        draw(scores, task, columns, docs / f"benchmark_{task}.png")
    (docs / "benchmark.md").write_text("\n".join(page(scores, by_measure)), encoding="utf-8")
    for title, rows in (
        ("Verdicts", verdict_rows(by_measure, FIRST, RIVALS)),
        ("Shares", share_rows(by_measure, COLUMNS)),
        ("Shares, smaller guarantee", share_rows(by_measure, SMALL_COLUMNS)),
    ):
        print(f"{title}\n{report.table(list(rows))}\n")


def page(scores: Scores, by_measure: Mapping[str, Scores]) -> Iterator[str]:
    """Yield the page part by part; ``scores`` are in the first measure of each task."""
    yield HEAD.format(repeats=repeats_text(scores))
    yield "## Share of the way from trivial to without privacy\n"
    yield _table("shares", share_rows(by_measure, COLUMNS))
    yield "## Who is ahead\n"
    yield "In accuracy and R².\n"
    yield _table("verdicts", verdict_rows(by_measure, FIRST, RIVALS))
    yield from behind_lists(by_measure, FIRST, RIVALS)
    for task in [task for task in COLUMNS if sets_of(scores, task)]:
        yield f"## {task.capitalize()}\n"
        for name in MEASURES[task]:
            if name == MEASURES[task][0]:
                picture = f"benchmark_{task}.png"
                yield f"<!-- figure: benchmark-{task} -->"
                yield f"![{TITLES[name]} against epsilon, a panel for each set]({picture})\n"
                yield f"{TITLES[name]}, medians. A dagger: behind diffprivlib.\n"
            else:
                yield f"{TITLES[name]}, medians.\n"
            yield _table(f"{task}-{name}", task_rows(by_measure[name], task, name))
    if any(cell.delta == SMALL for cell in scores.by_cell):
        yield from small_parts(by_measure)
    yield TAIL


def small_parts(by_measure: Mapping[str, Scores]) -> Iterator[str]:
    """Yield what is said of the guarantee SMALL: shares, verdicts, and medians."""
    yield "## One record added or removed, delta = 1e-6\n"
    yield "Shares of the way from trivial to without privacy, and verdicts in AUROC and R².\n"
    yield _table("small-shares", share_rows(by_measure, SMALL_COLUMNS))
    yield _table("small-verdicts", verdict_rows(by_measure, SHARED, SMALL_RIVALS))
    yield from behind_lists(by_measure, SHARED, SMALL_RIVALS)
    for task, columns in SMALL_COLUMNS.items():
        against = [rival for rival in SMALL_RIVALS[task] if rival.peer == EBM]
        if found := list(rows_of(by_measure[SHARED[task]], task, columns, against)):
            yield f"{TITLES[SHARED[task]]}, medians. A dagger: behind DP-EBM.\n"
            yield _table(f"small-{task}", found)


def _table(name: str, rows: Iterable[report.Row]) -> str:
    return f"<!-- figure: benchmark-{name} -->\n{report.table(list(rows))}\n"


def sets_of(scores: Scores, task: str) -> list[str]:
    """Return the sets of a task that were run, smallest first."""
    run = {cell.set for cell in scores.by_cell}
    return [name for name in names_of(task) if name in run]


def repeats_text(scores: Scores) -> str:
    """Return over how many splits the medians are, and where there are fewer."""
    repeats = {cell: len(found) for cell, found in scores.by_cell.items()}
    most = max(repeats.values(), default=0)
    fewer: dict[str, dict[str, int]] = {}  # by set and by method without its settings
    for cell, count in repeats.items():
        if count < most:
            own, name = fewer.setdefault(cell.set, {}), cell.method.partition(", ")[0]
            own[name] = min(count, own.get(name, most))
    listed = "; ".join(
        f"at least {min(own.values())} for {', '.join(own)} on {name}"
        for name, own in fewer.items()
    )
    return f"{most} random splits" + (f" ({listed})" if fewer else "")


# Shares


def share_rows(by_measure: Mapping[str, Scores], columns: Columns) -> Iterator[report.Row]:
    """Yield a row for each method and delta: the mean share over the sets, by epsilon."""
    for task, own_columns in columns.items():
        scores = by_measure[SHARED[task]]
        for method, delta in own_columns:
            found = {epsilon: shares(scores, task, method, delta, epsilon) for epsilon in EPSILONS}
            if not any(found.values()):
                continue
            cells = {
                epsilon_text(epsilon): f"{100 * float(np.mean(own)):.0f} %" if own else ""
                for epsilon, own in found.items()
            }
            facts = {"method": method, "delta": delta, "of": TITLES[SHARED[task]]}
            yield {**facts, **cells, "sets": max(map(len, found.values()))}


def shares(scores: Scores, task: str, method: str, delta: str, epsilon: float) -> list[float]:
    """Return the shares of the sets that have one."""
    found = (scores.share(name, method, delta, epsilon) for name in sets_of(scores, task))
    return [share for share in found if share is not None]


# Verdicts


def verdict_rows(
    by_measure: Mapping[str, Scores], measures: Mapping[str, str], rivals: Rivals
) -> Iterator[report.Row]:
    """Yield a row for each of our estimators and its peers."""
    for task, own_rivals in rivals.items():
        scores = by_measure[measures[task]]
        for rival in own_rivals:
            ahead, level, behind = counts(outcomes(scores, rival, sets_of(scores, task)))
            yield {
                "ours": rival.own,
                "delta": rival.own_delta,
                "peer": rival.peer,
                "its delta": rival.peer_delta,
                "epsilon": ", ".join(epsilon_text(e) for e in rival.epsilons),
                "ahead": ahead,
                "level": level,
                "behind": behind,
                "not run": len(names_of(task)) * len(rival.epsilons) - ahead - level - behind,
            }


def behind_lists(
    by_measure: Mapping[str, Scores], measures: Mapping[str, str], rivals: Rivals
) -> Iterator[str]:
    """Yield where ours is lower, a paragraph for each pair of which there is something to say."""
    for task, own_rivals in rivals.items():
        scores = by_measure[measures[task]]
        for rival in own_rivals:
            found = outcomes(scores, rival, sets_of(scores, task))
            title = f"**{rival.own} (delta = {rival.own_delta}) against {rival.peer}"
            for verdict in (BEHIND, LEVEL):
                if those := [outcome for outcome in found if outcome.verdict == verdict]:
                    yield f"{title}, {verdict}:** {'; '.join(map(outcome_text, those))}.\n"


def outcome_text(outcome: Outcome) -> str:
    """Return set, epsilon, and both medians."""
    figures = f"{number(outcome.own)} to {number(outcome.peer)}"
    return f"{outcome.set} at {epsilon_text(outcome.epsilon)} ({figures})"


# Tables


def task_rows(scores: Scores, task: str, measure: str) -> Iterator[report.Row]:
    """Yield a row for each set and epsilon; verdicts are marked in the first measure of a task."""
    is_first = measure == MEASURES[task][0]
    against = [rival for rival in RIVALS[task] if is_first and rival.peer == DIFFPRIVLIB]
    yield from rows_of(scores, task, COLUMNS[task], against)


def rows_of(
    scores: Scores,
    task: str,
    columns: Sequence[tuple[str, str]],
    against: Sequence[Rival],
) -> Iterator[report.Row]:
    """Yield a row for each set and epsilon, with marks where ours is behind some rivals."""
    sets = sets_of(scores, task)
    marked = {
        (rival.own, rival.own_delta, outcome.set, outcome.epsilon)
        for rival in against
        for outcome in outcomes(scores, rival, sets)
        if outcome.verdict == BEHIND
    }
    for name in sets:
        ends = {key: number(scores.median(name, key, NONE, NO_EPSILON)) for key in (PLAIN, TRIVIAL)}
        for epsilon in EPSILONS:
            medians = {
                _column_name(method, delta): number(scores.median(name, method, delta, epsilon))
                + ("†" if (method, delta, name, epsilon) in marked else "")
                for method, delta in columns
            }
            yield {"set": name, "epsilon": epsilon_text(epsilon), **medians, **ends}


def _column_name(method: str, delta: str) -> str:
    return SHORT.get(method, method) + (f" ({delta})" if delta == INVERSE_SQUARE else "")


def number(value: float | None) -> str:
    """Return a score with three decimals and no zero before the point; large ones as powers."""
    if value is None:
        return ""
    if value < -9.9995:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    text = f"{value:.3f}".replace("-0.000", "0.000")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def write_table(by_measure: Mapping[str, Scores], path: Path) -> None:
    """Write all figures, settings of the peers apart, as comma-separated values."""
    heads = ["task", "set", "method", "delta", "epsilon", "measure", "repeats"]
    heads += ["lower quartile", "median", "upper quartile", "seconds per fit"]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(heads)
        for task, names in MEASURES.items():
            for name in names:
                table.writerows(_figure_rows(by_measure[name], task, name))


def _figure_rows(scores: Scores, task: str, measure: str) -> Iterator[list[object]]:
    order = {(c.method, c.delta): k for k, c in enumerate(contenders())}
    sets = sets_of(scores, task)
    cells = [cell for cell in scores.by_cell if cell.set in sets]
    cells.sort(key=lambda c: (sets.index(c.set), order[c.method, c.delta], c.epsilon))
    for cell in cells:
        figure = scores.figure(cell)
        quartiles = [f"{v:.5g}" for v in (figure.lower, figure.median, figure.upper)]
        facts = [task, cell.set, cell.method, cell.delta, epsilon_text(cell.epsilon), measure]
        yield [*facts, figure.repeats, *quartiles, f"{figure.seconds:.3f}"]
