"""Medians over splits, who is ahead, and shares of the way from trivial to without privacy.

All are computed from the stored runs of the benchmark of everything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from examples.benchmarks.peers.contenders import (
    EPSILONS,
    NO_EPSILON,
    NONE,
    OURS,
    PLAIN,
    TRIVIAL,
    Run,
    contenders,
)
from examples.benchmarks.shared.measures import LOG_LOSS, MEASURES

AHEAD, LEVEL, BEHIND = "ahead", "level", "behind"
LEVEL_OF_INTERVALS = 0.95
# Sets where the model without privacy is ahead of the trivial one by less have no share. Shares,
# and scores whose difference is taken, are at least LEAST_SHARE.
LEAST_RANGE, LEAST_SHARE = 0.02, -1.0


class Cell(NamedTuple):
    """What one figure belongs to."""

    set: str
    method: str
    delta: str
    epsilon: float


class Figure(NamedTuple):
    """Quartiles of the scores over the splits, and how many there are."""

    lower: float
    median: float
    upper: float
    repeats: int


class Difference(NamedTuple):
    """A mean difference of scores, its interval, the number of splits, and the verdict."""

    mean: float
    lower: float
    upper: float
    splits: int
    verdict: str


@dataclass
class Scores:
    """Scores of one measure by cell and repetition; later runs of the same replace earlier ones.

    ``is_loss``: whether lower scores are better.
    """

    by_cell: dict[Cell, dict[int, float]] = field(default_factory=dict)
    is_loss: bool = False

    @classmethod
    def of(cls, runs: Iterable[Run], *measures: str) -> Scores:
        """Return the scores of runs in the measures, or in the first one of each task."""
        wanted = measures or [known[0] for known in MEASURES.values()]
        scores = cls(is_loss=LOG_LOSS in measures)
        for run in runs:
            for epsilon, found in run.scores.items():
                own = [found[name] for name in wanted if name in found]
                if not own:
                    continue
                cell = Cell(run.set, run.method, run.delta, epsilon)
                scores.by_cell.setdefault(cell, {})[run.repetition] = own[0]
        return scores

    def figure(self, cell: Cell) -> Figure:
        """Return the figure of a cell that has runs."""
        values = list(self.by_cell[cell].values())
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
        return Figure(low, middle, high, len(values))

    def best(self, name: str, method: str, delta: str, epsilon: float) -> Cell | None:
        """Return the cell of a method, of its settings that with the best median, or None.

        A choice made after the fact favours the peers, who alone have settings.
        """
        cells = [Cell(name, setting, delta, epsilon) for setting in settings_of(method)]
        found = [cell for cell in cells if cell in self.by_cell]
        sign = -1 if self.is_loss else 1
        return max(found, key=lambda cell: sign * self.figure(cell).median, default=None)

    def median(self, name: str, method: str, delta: str, epsilon: float) -> float | None:
        """Return the median of the best setting, or None where nothing was run."""
        cell = self.best(name, method, delta, epsilon)
        return None if cell is None else self.figure(cell).median

    def share(self, name: str, method: str, delta: str, epsilon: float) -> float | None:
        """Return the share of the way from the trivial model to the one without privacy.

        None where one of them was not run, or where they differ by less than LEAST_RANGE.
        """
        low, high = (self.median(name, m, NONE, NO_EPSILON) for m in (TRIVIAL, PLAIN))
        own = self.median(name, method, delta, epsilon)
        if low is None or high is None or own is None or high - low < LEAST_RANGE:
            return None
        return max(LEAST_SHARE, (own - low) / (high - low))

    def difference(self, own: Cell, peer: Cell) -> Difference:
        """Return by how much ours is better on the same splits.

        The interval is Student's for the mean over random splits of this set, and over noise.
        """
        ours, theirs = self.by_cell[own], self.by_cell[peer]
        splits = sorted(set(ours) & set(theirs))
        # A score far below the trivial one would hide all others in a mean.
        pairs = np.array([[ours[r], theirs[r]] for r in splits]).reshape(-1, 2)
        found = (-1 if self.is_loss else 1) * np.diff(-pairs.clip(LEAST_SHARE), axis=1).ravel()
        mean, half = float(found.mean()), math.inf
        if len(found) > 1:
            half = t(len(found) - 1).ppf((1 + LEVEL_OF_INTERVALS) / 2) * found.std(ddof=1)
            half /= math.sqrt(len(found))
        verdict = AHEAD if mean > half else BEHIND if mean < -half else LEVEL
        return Difference(mean, mean - half, mean + half, len(found), verdict)


class Outcome(NamedTuple):
    """Ours against the better setting of a peer, on one set at one epsilon."""

    set: str
    epsilon: float
    own: Cell
    peer: Cell
    difference: Difference


def outcomes(scores: Scores, sets: Sequence[str], own: str, peer: str, delta: str) -> list[Outcome]:
    """Return the outcomes wherever both have runs."""
    found = []
    for name in sets:
        for epsilon in EPSILONS:
            ours = scores.best(name, own, delta, epsilon)
            where = (NONE, NO_EPSILON) if peer == TRIVIAL else (delta, epsilon)
            theirs = scores.best(name, peer, *where)
            if ours and theirs:
                difference = scores.difference(ours, theirs)
                found.append(Outcome(name, epsilon, ours, theirs, difference))
    return found


def counts(found: Iterable[str]) -> str:
    """Return how many verdicts are ahead, level and behind, as a cell of a table."""
    tally = Counter(found)
    return " / ".join(str(tally[verdict]) for verdict in (AHEAD, LEVEL, BEHIND))


def settings_of(method: str) -> list[str]:
    """Return the names under which a method was run; one if it is ours."""
    names = dict.fromkeys(c.method for c in contenders())
    if method in OURS:
        return [method]
    return [name for name in names if name == method or name.startswith(f"{method}, ")]


def epsilon_text(epsilon: float) -> str:
    """Return epsilon as it is written in the tables; nothing where there is none."""
    return "" if math.isinf(epsilon) else f"{epsilon:g}"
