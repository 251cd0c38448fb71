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
from scipy.stats import binom

from examples.benchmarks.peers.contenders import (
    NO_EPSILON,
    NONE,
    OURS,
    PLAIN,
    TRIVIAL,
    Run,
    contenders,
)
from examples.benchmarks.shared.measures import LOG_LOSS, MEASURES
from examples.benchmarks.shared.report import FloatArray

AHEAD, LEVEL, BEHIND = "ahead", "level", "behind"
# Chance with which a method that is as good on a split as the other one is said to be behind.
FALSE_ALARM = 0.05
# Sets where the model without privacy is ahead of the trivial one by less have no share. A share
# is at least LEAST_SHARE.
LEAST_RANGE, LEAST_SHARE = 0.02, -1.0


class Cell(NamedTuple):
    """What one figure belongs to."""

    set: str
    method: str
    delta: str
    epsilon: float


class Figure(NamedTuple):
    """Quartiles of the scores over the splits, how many there are, and seconds per fit."""

    lower: float
    median: float
    upper: float
    repeats: int
    seconds: float


@dataclass
class Scores:
    """Scores of one measure by cell and repetition; later runs of the same replace earlier ones.

    ``is_loss``: whether lower scores are better.
    """

    by_cell: dict[Cell, dict[int, float]] = field(default_factory=dict)
    seconds: dict[Cell, dict[int, float]] = field(default_factory=dict)
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
                each = run.seconds / len(run.scores)
                scores.seconds.setdefault(cell, {})[run.repetition] = each
        return scores

    def figure(self, cell: Cell) -> Figure:
        """Return the figure of a cell that has runs."""
        values = list(self.by_cell[cell].values())
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
        seconds = float(np.median(list(self.seconds[cell].values())))
        return Figure(low, middle, high, len(values), seconds)

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

    def paired(self, one: Cell, other: Cell) -> FloatArray:
        """Return the differences of the scores on the splits that both have."""
        a, b = self.by_cell[one], self.by_cell[other]
        return np.array([a[r] - b[r] for r in sorted(set(a) & set(b))])

    def verdict(self, own: Cell, peer: Cell) -> str:
        """Say whether the median is at least the peer's, below it within noise, or below it.

        The noise is that of the splits: below is what loses on so many of them that a fair coin
        would with a chance of at most FALSE_ALARM, two-sided. Ties count for neither.
        """
        if self.figure(own).median >= self.figure(peer).median:
            return AHEAD
        differences = self.paired(own, peer)
        lost, won = int((differences < 0).sum()), int((differences > 0).sum())
        return BEHIND if 2 * binom.cdf(won, won + lost, 0.5) <= FALSE_ALARM else LEVEL


class Rival(NamedTuple):
    """One of ours and a peer, each with its delta, on the sets of a task."""

    own: str
    own_delta: str
    peer: str
    peer_delta: str
    epsilons: tuple[float, ...]


class Outcome(NamedTuple):
    """The verdict on one set at one epsilon."""

    set: str
    epsilon: float
    verdict: str
    own: float
    peer: float


def outcomes(scores: Scores, rival: Rival, sets: Sequence[str]) -> list[Outcome]:
    """Return the verdicts wherever both have runs."""
    found = []
    for name in sets:
        for epsilon in rival.epsilons:
            own = scores.best(name, rival.own, rival.own_delta, epsilon)
            at = NO_EPSILON if rival.peer == TRIVIAL else epsilon
            peer = scores.best(name, rival.peer, rival.peer_delta, at)
            if own and peer:
                medians = scores.figure(own).median, scores.figure(peer).median
                found.append(Outcome(name, epsilon, scores.verdict(own, peer), *medians))
    return found


def counts(found: Iterable[Outcome]) -> tuple[int, int, int]:
    """Return how often ours is ahead, level and behind."""
    tally = Counter(outcome.verdict for outcome in found)
    return tally[AHEAD], tally[LEVEL], tally[BEHIND]


def settings_of(method: str) -> list[str]:
    """Return the names under which a method was run; one if it is ours."""
    names = dict.fromkeys(c.method for c in contenders())
    if method in OURS:
        return [method]
    return [name for name in names if name == method or name.startswith(f"{method}, ")]


def epsilon_text(epsilon: float) -> str:
    """Return epsilon as it is written in the tables; nothing where there is none."""
    return "" if math.isinf(epsilon) else f"{epsilon:g}"
