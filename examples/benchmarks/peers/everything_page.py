"""The pages of the benchmark of everything: tables, verdicts and pictures of what is stored."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from examples.benchmarks.peers.contenders import (
    ADASSP,
    AIM,
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
STRONG = {task: (*OPPONENTS[task], EBM, AIM) for task in OPPONENTS}
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
SHOWN_MEASURES = {"classification": (ACCURACY, AUROC), "regression": (R2,)}
TITLES = {ACCURACY: "Accuracy", AUROC: "AUROC", LOG_LOSS: "Log-loss", R2: "R²"}

HEAD = """\
# Comparison with peers

This page compares the estimators of skdp with other private models, on all data sets of
`skdp.datasets` with one label or one number as the target, at epsilon = .1, .5, 1 and 4.
[By data set](benchmark_sets.md) has the scores of each set.
The [table of all figures](benchmark.csv) adds the quartiles, the other epsilons and the seconds.

A *share* is the way from the trivial model to the model without privacy:
(score - trivial) / (without privacy - trivial), in AUROC for classifiers and in R² for regressors.
The tables show its mean over the sets.
"""

METHOD = """\
## How it is measured

A score is the median over {repeats}. A fifth of the rows is left out for the score. Every method
gets the same splits and the same encoded columns: numbers are scaled to [-1, 1] by public bounds,
and levels are indicators. Every estimator of skdp has its default parameters, and nothing is tuned
for a set.

- *delta* is 0, 1/n², or 1e-6. Here n is the number of training rows, rounded to its first digit.
  Coordinate descent and all peers but diffprivlib need a delta.
- *Neighbours.* With delta = 0 and 1/n² one record is replaced, and the number of records is public.
  With delta = 1e-6 one record is added or removed, as in most of the peers.
- *Curves* is the same estimator with `additive="auto"`. These models and DP-EBM get the columns as
  they are, with the same bounds.
- *AUROC* compares each label with all others; with several labels it is the mean. *Log-loss* is the
  mean of -log p, where p is the probability of the true label, at least 1e-15.
- *Without privacy* is scikit-learn's model with its default penalty. *Trivial* is the most common
  label, or the mean.
- *Shares* are computed from the medians of a set. A share below -100 % counts as -100 %, and so
  does R² below -1e12 or of predictions that are not finite. Sets where the trivial model and the
  model without privacy differ by less than .02 are left out.
- *Ahead, level, behind.* An estimator is *ahead* if its median is at least that of the peer. It is
  *behind* if its median is lower and a sign test over the splits rejects chance at 5 %. Otherwise
  it is *level*. With fewer than six splits the test never rejects, so *level* means that the median
  is lower.

The rules of the automatic choices are set on simulated populations only, and the sets of this page
confirm them. Some older constants were set with knowledge of some of these sets
([automatic choices](../mathematics/automatic_choices.md)).

The command stores each run, continues where it was stopped, and creates an environment for each
peer that is a package. It writes both pages, the pictures and the table:

```
SKDP_DATA=path/to/datasets make benchmark
```

## The peers

All peers get the bounds of the domain, and their epsilon is taken at face value. If a peer has
settings, the better median is shown, although this choice is made after the fact.

- diffprivlib 0.6: `LogisticRegression` with C = 1 and C = .1, and `LinearRegression`.
- DP-EBM (Nori et al. 2021): the boosted additive models of interpret 0.7 with their default
  parameters. Levels are nominal. One record is added or removed.
- AIM (McKenna et al. 2022): the models of scikit-learn, fitted to synthetic rows. Numbers have 32
  bins within their bounds. The package mbi 2.0 estimates the graphical model, of at most 2 MB; the
  authors advise 80 MB. The selection of marginals was written for this page. A run takes minutes,
  so that AIM runs at epsilon = 1 on two splits of five sets.
- AdaSSP (Wang 2018): one version releases the least eigenvalue, the other computes it from the
  noisy matrix. Boosted AdaSSP (Tang et al. 2023) has ten rounds. Hessian mixing (Lev et al. 2026)
  has three.
- DP-GD: gradient descent with all records in each step, clipped gradients and the step
  1 / (greatest curvature), for 30 and 300 steps.
- DP-Newton (Ganesh et al. 2023): the double noise method with the quadratic upper bound and clipped
  eigenvalues, for 15 steps.
- Objective perturbation (Redberg et al. 2023): the noise is 1.06 or 1.3 times that of a Gaussian
  release, and the penalty is the least that their bound allows. The authors' code has 1.3.
- Gaussian mixing (Lev et al. 2025): least squares for a parabola in the place of the logistic loss,
  on a noisy sketch of 6.5 or 40 rows per coefficient. The authors' code has 4 to 6.5.

The last five entries were written for this page. Their noise is the least for which all
their releases together are private; both kinds of mixing have the calibration of their authors.
They divide the rows by the greatest length that the domain allows, or each row by its length (two
settings).
Their predictions are clipped to the bounds of the target. They treat the number of training rows as
public.
"""

TAIL = """\
## First figures of new peers

The new peers were first run on two splits, with delta = 1e-6 and one record added or removed. Mean
shares in AUROC over 14 sets at epsilon = .1, .5, 1 and 4:

- `DPLogisticRegression` 82 %, 93 %, 93 % and 99 %; with curves 83 %, 96 %, 97 % and 103 %
- `DPCoordinateDescentClassifier` 69 %, 88 %, 93 % and 98 %
- Objective perturbation 58 %, 86 %, 93 % and 98 %
- Gaussian mixing 48 %, 72 %, 79 % and 89 %

The factor 1.06 of objective perturbation and the 40 rows of Gaussian mixing were chosen on some of
these sets, which favours the peers.

AIM on the first split at epsilon = 1, against the plain and the curved model of skdp, and the model
without privacy:

- magic_gamma_telescope: AUROC .832; `DPLogisticRegression` .840 and .900; without privacy .836
- california_housing: R² .446; `DPHuberRegressor` .687 and .723; without privacy .676
- bike_sharing_hour: R² .278; `DPHuberRegressor` .391 and .601; without privacy .399

These three runs of AIM took 104 to 542 seconds on a machine in use.

## Peers that are not run

BinAgg (Lin & Slavković 2026) is not on the package index. On simulated data of 10,000 rows, at
epsilon = 1 and delta = 1e-6, the l2 error of its coefficients was .139; the errors of two
estimators of skdp were .027 and .007. Its 95 % intervals covered in 92 % of cases. Its public code
was run once with the encoded columns and their bounds: R² was .58 on california_housing, .20 on
protein_casp and .00 on bike_sharing_hour (medians of three splits).
[Confidence intervals in figures](inference_figures.md) compares its intervals. DD-SSP (Ferrando &
Sheldon 2025) and TukeyEM (Amin et al. 2023) are not run.

## Limitations

- The sets are public, and some of the bounds are *informed* ([data sets](../datasets.md)), for all
  methods alike.
- Among many verdicts at 5 % some are due to chance. Medians hide the spread; the quartiles are in
  the table.
- A guarantee with delta > 0 is weaker than one with delta = 0.
- A model that is ahead of a peer need not be useful. The comparison with the trivial model shows
  where epsilon is too small for a set.
"""

SETS_HEAD = """\
# Comparison by data set

This page has the scores of each data set at epsilon = 1, and lists where the median of a peer is
higher. [Comparison with peers](benchmark.md) describes the methods and has the means over the sets.
The [table of all figures](benchmark.csv) has the other epsilons and the quartiles.

The scores are medians. Sets are in the order of their sizes. Where one record is replaced, the
methods marked (1/n^2) have this delta and the others have delta = 0. Where one record is added or
removed, delta is 1e-6.
"""
# The epsilon of the tables by set.
SHOWN = 1.0


def write(runs: Iterable[Run], docs: Path) -> None:
    """Write two pages, benchmark.csv and two pictures into a folder, and print summaries."""
    runs = list(runs)
    by_measure = {name: Scores.of(runs, name) for known in MEASURES.values() for name in known}
    scores = Scores.of(runs)
    docs.mkdir(exist_ok=True)
    write_table(by_measure, docs / "benchmark.csv")
    for task, columns in COLUMNS.items():
        draw(scores, task, columns, docs / f"benchmark_{task}.png")
    for name, parts in (
        ("benchmark", page(scores, by_measure)),
        ("benchmark_sets", sets_page(scores, by_measure)),
    ):
        (docs / f"{name}.md").write_text("\n".join(parts), encoding="utf-8")
    for title, rows in (
        ("Verdicts", verdict_rows(by_measure, FIRST, RIVALS)),
        ("Shares", share_rows(by_measure, COLUMNS)),
        ("Shares, smaller guarantee", share_rows(by_measure, SMALL_COLUMNS)),
    ):
        print(f"{title}\n{report.table(list(rows))}\n")


def page(scores: Scores, by_measure: Mapping[str, Scores]) -> Iterator[str]:
    """Yield the summary part by part; ``scores`` are in the first measure of each task."""
    has_small = any(cell.delta == SMALL for cell in scores.by_cell)
    yield HEAD
    if has_small:
        yield "## Shares with delta = 1e-6, one record added or removed\n"
        yield _table("small-shares", share_rows(by_measure, SMALL_COLUMNS))
    yield "## Shares with delta = 0 or 1/n², one record replaced\n"
    yield _table("shares", share_rows(by_measure, COLUMNS))
    for task in [task for task in COLUMNS if sets_of(scores, task)]:
        yield f"<!-- figure: benchmark-{task} -->"
        title = TITLES[MEASURES[task][0]]
        yield f"![{title} against epsilon, a panel for each set](benchmark_{task}.png)\n"
    yield "## Who is ahead\n"
    yield "The tables count sets and epsilons. In accuracy and R², one record replaced:\n"
    yield _table("verdicts", verdict_rows(by_measure, FIRST, RIVALS))
    if has_small:
        yield "In AUROC and R², one record added or removed:\n"
        yield _table("small-verdicts", verdict_rows(by_measure, SHARED, SMALL_RIVALS))
    yield METHOD.format(repeats=repeats_text(scores))
    yield TAIL


def sets_page(scores: Scores, by_measure: Mapping[str, Scores]) -> Iterator[str]:
    """Yield the page of the sets: medians at one epsilon, and where a peer is higher."""
    yield SETS_HEAD
    for task, names in SHOWN_MEASURES.items():
        if not sets_of(scores, task):
            continue
        yield f"## {task.capitalize()}\n"
        for name in names:
            dagger = " A dagger: behind diffprivlib." if name == MEASURES[task][0] else ""
            yield f"{TITLES[name]}, one record replaced.{dagger}\n"
            yield _table(f"{task}-{name}", shown(task_rows(by_measure[name], task, name)))
        measure = SHARED[task]
        against = [rival for rival in SMALL_RIVALS[task] if rival.peer == EBM]
        if any(cell.delta == SMALL for cell in scores.by_cell):
            rows = rows_of(by_measure[measure], task, SMALL_COLUMNS[task], against)
            yield f"{TITLES[measure]}, one record added or removed. A dagger: behind DP-EBM.\n"
            yield _table(f"small-{task}", shown(rows))
    yield "## Where a peer has the higher median\n"
    yield "For each pair: the set, the epsilon, and both medians. In accuracy and R²:\n"
    yield from behind_lists(by_measure, FIRST, RIVALS)
    if found := list(behind_lists(by_measure, SHARED, SMALL_RIVALS)):
        yield "In AUROC and R², with one record added or removed:\n"
        yield from found


def shown(rows: Iterable[report.Row]) -> Iterator[report.Row]:
    """Yield the rows of the epsilon that is shown, without its column."""
    for row in rows:
        if row["epsilon"] == epsilon_text(SHOWN):
            yield {name: cell for name, cell in row.items() if name != "epsilon"}


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
                table.writerows(figure_rows(by_measure[name], task, name))


def figure_rows(scores: Scores, task: str, measure: str) -> Iterator[list[object]]:
    """Yield the lines of the table of all figures for one measure."""
    order = {(c.method, c.delta): k for k, c in enumerate(contenders())}
    sets = sets_of(scores, task)
    cells = [cell for cell in scores.by_cell if cell.set in sets]
    cells.sort(key=lambda c: (sets.index(c.set), order[c.method, c.delta], c.epsilon))
    for cell in cells:
        figure = scores.figure(cell)
        quartiles = [f"{v:.5g}" for v in (figure.lower, figure.median, figure.upper)]
        facts = [task, cell.set, cell.method, cell.delta, epsilon_text(cell.epsilon), measure]
        yield [*facts, figure.repeats, *quartiles, f"{figure.seconds:.3f}"]
