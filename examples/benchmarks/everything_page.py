"""The page of the benchmark of everything: tables, verdicts and pictures of what is stored."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import report
from contenders import (
    ADASSP,
    DESCENT,
    DIFFPRIVLIB,
    EPSILONS,
    HUBER,
    INVERSE_SQUARE,
    LINEAR,
    LOGISTIC,
    NO_EPSILON,
    NONE,
    PLAIN,
    SMALL,
    TRIVIAL,
    Run,
    contenders,
)
from data import names_of
from everything_pictures import draw
from measures import ACCURACY, AUROC, LOG_LOSS, MEASURES, R2, SHARED
from verdicts import BEHIND, LEVEL, Outcome, Rival, Scores, counts, epsilon_text, outcomes

CLASSIFIER, REGRESSOR = DESCENT["classification"], DESCENT["regression"]
# Columns of the tables: method and delta; (name, NONE) with NO_EPSILON for the references.
COLUMNS = {
    "classification": [
        (LOGISTIC, NONE),
        (LOGISTIC, INVERSE_SQUARE),
        (CLASSIFIER, INVERSE_SQUARE),
        (DIFFPRIVLIB, NONE),
    ],
    "regression": [
        (LINEAR, NONE),
        (HUBER, NONE),
        (HUBER, INVERSE_SQUARE),
        (REGRESSOR, INVERSE_SQUARE),
        (DIFFPRIVLIB, NONE),
        (ADASSP, INVERSE_SQUARE),
    ],
}
SMALL_COLUMNS = [(name, SMALL) for name in (LINEAR, HUBER, REGRESSOR, ADASSP)]
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
    *(Rival(name, INVERSE_SQUARE, ADASSP, INVERSE_SQUARE, EPSILONS) for name in (HUBER, REGRESSOR)),
    *(Rival(name, SMALL, ADASSP, SMALL, (1.0,)) for name in (LINEAR, HUBER, REGRESSOR)),
]
SHORT = {CLASSIFIER: "DPCoordinateDescent", REGRESSOR: "DPCoordinateDescent"}
TITLES = {ACCURACY: "Accuracy", AUROC: "AUROC", LOG_LOSS: "Log-loss", R2: "R²"}

HEAD = """\
# Everything against the peers

This page compares every estimator of skdp with the peers, on every data set of `skdp.datasets`
with one label or one number as the target, at epsilon = .1, .5, 1 and 4. The page, the pictures
and [the table with quartiles and seconds](benchmark.csv) are written by

```
SKDP_DATA=path/to/datasets make benchmark
```

The command stores each run, continues where it was stopped, and creates a second environment for
diffprivlib, in which scikit-learn is 1.7.

**Figures.** A figure is the median over {repeats} of the accuracy, or R², on the fifth of
the rows that was left out. Every method gets the same splits and the same encoded columns
(numbers scaled to [-1, 1] by public bounds, indicators of levels). One record is replaced; the
number of records is public. Every estimator of skdp has its default parameters; nothing is tuned
for a set. delta is 0, or 1/n², where n is the number of training rows rounded to its first digit.
Coordinate descent and AdaSSP need a delta.

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
knowledge of some of these sets ([automatic choices](automatic_choices.md)).

**The peers.** diffprivlib 0.6 (`LogisticRegression` and `LinearRegression`, bounds from the
domain, epsilon at face value; the logistic one with C = 1 and with C = .1, of which the table
shows the better median, chosen after the fact). AdaSSP (Wang 2018) with the least noise for which
its releases are private together, rows divided by the greatest length that the domain allows; of
its two versions, one that releases the least eigenvalue and one that computes it from the noisy
matrix, again the better median. *Without privacy* is scikit-learn's model with its default
penalty, *trivial* is the most common label, or the mean.

**Verdicts.** An estimator of skdp is *ahead* where its median is at least the peer's. It is
*behind* where its median is lower and it loses on so many of the splits that chance explains it
in at most 5 % of cases (sign test). It is *level* where its median is lower without this
significance. So *level* means only that a loss is not shown; with fewer than six splits a loss is
never shown.
"""

TAIL = """\
## Limitations

These are public sets, and some of the bounds are *informed* ([data sets](datasets.md)), for all
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
    print(report.table(list(verdict_rows(scores))))
    print(report.table(list(share_rows(by_measure))))


def page(scores: Scores, by_measure: Mapping[str, Scores]) -> Iterator[str]:
    """Yield the page part by part; ``scores`` are in the first measure of each task."""
    yield HEAD.format(repeats=repeats_text(scores))
    yield "## Share of the way from trivial to without privacy\n"
    yield report.table(list(share_rows(by_measure))) + "\n"
    yield "## Who is ahead\n"
    yield "In accuracy and R².\n"
    yield report.table(list(verdict_rows(scores))) + "\n"
    yield from behind_lists(scores)
    for task in [task for task in COLUMNS if sets_of(scores, task)]:
        yield f"## {task.capitalize()}\n"
        for name in MEASURES[task]:
            if name == MEASURES[task][0]:
                picture = f"benchmark_{task}.png"
                yield f"![{TITLES[name]} against epsilon, a panel for each set]({picture})\n"
                yield f"{TITLES[name]}, medians. A dagger: behind diffprivlib.\n"
            else:
                yield f"{TITLES[name]}, medians.\n"
            yield report.table(list(task_rows(by_measure[name], task, name))) + "\n"
    if small := list(small_rows(scores)):
        yield "## AdaSSP at (1, 1e-6)\n"
        yield "R², medians, all at epsilon = 1 and delta = 1e-6. A dagger: behind AdaSSP.\n"
        yield report.table(small) + "\n"
    yield TAIL


def sets_of(scores: Scores, task: str) -> list[str]:
    """Return the sets of a task that were run, smallest first."""
    run = {cell.set for cell in scores.by_cell}
    return [name for name in names_of(task) if name in run]


def repeats_text(scores: Scores) -> str:
    """Return over how many splits the medians are, and where there are fewer."""
    repeats = {cell: len(found) for cell, found in scores.by_cell.items()}
    most = max(repeats.values(), default=0)
    fewer: dict[str, int] = {}
    for cell, count in repeats.items():
        if count < most:
            key = f"{cell.method} on {cell.set}"
            fewer[key] = min(count, fewer.get(key, most))
    listed = "; ".join(f"{count} for {key}" for key, count in fewer.items())
    return f"{most} random splits" + (f" ({listed})" if fewer else "")


# Shares


def share_rows(by_measure: Mapping[str, Scores]) -> Iterator[report.Row]:
    """Yield a row for each method and delta: the mean share over the sets, by epsilon."""
    for task, columns in COLUMNS.items():
        scores = by_measure[SHARED[task]]
        for method, delta in columns:
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


def verdict_rows(scores: Scores) -> Iterator[report.Row]:
    """Yield a row for each of our estimators and its peers."""
    for task, rivals in RIVALS.items():
        for rival in rivals:
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


def behind_lists(scores: Scores) -> Iterator[str]:
    """Yield where ours is lower, a paragraph for each pair of which there is something to say."""
    for task, rivals in RIVALS.items():
        for rival in rivals:
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
    yield from _rows(scores, task, COLUMNS[task], EPSILONS, against)


def small_rows(scores: Scores) -> Iterator[report.Row]:
    """Yield a row for each regression set, all at (1, 1e-6)."""
    against = [rival for rival in RIVALS["regression"] if rival.peer_delta == SMALL]
    yield from _rows(scores, "regression", SMALL_COLUMNS, (1.0,), against)


def _rows(
    scores: Scores,
    task: str,
    columns: Sequence[tuple[str, str]],
    epsilons: Sequence[float],
    against: Sequence[Rival],
) -> Iterator[report.Row]:
    sets = sets_of(scores, task)
    marked = {
        (rival.own, rival.own_delta, outcome.set, outcome.epsilon)
        for rival in against
        for outcome in outcomes(scores, rival, sets)
        if outcome.verdict == BEHIND
    }
    for name in sets:
        ends = {key: number(scores.median(name, key, NONE, NO_EPSILON)) for key in (PLAIN, TRIVIAL)}
        for epsilon in epsilons:
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
