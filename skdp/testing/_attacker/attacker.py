"""A strong attacker: all that is seen of fits to two tables, and the best guess between them.

A quarter of the fits of each table are for learning: which feature and which threshold, or which
value, tells the tables apart. The other fits are guessed. Guesses of independent releases,
one table as likely as the other, are right with a mean probability of at most (1 + delta(0)) / 2,
delta(0) the total variation that the promise allows; the number of right ones is then above each
k beyond its mean no more often than a binomial variable (Hoeffding 1956, Theorem 4). Events that
are rare under both tables are held against e^epsilon and delta by Clopper-Pearson limits. Few
guesses are tried, and the alarm is divided by their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from skdp.testing.audit import ratio_bound

Array = NDArray[np.float64]
Features = dict[str, float]
# One fit in so many is for learning.
LEARNT = 4
# False alarms of one attack.
ALARM = 1e-6
# How many single features, and how many sums of many, are tried on the fits that are guessed.
SINGLE, RARE, SUMS = 6, 2, 8
_THRESHOLDS, _VALUES = 24, 6
# A sum is over at least so many features, none of them beyond this size.
FEW, _UNUSUAL = 6, 1e100
# Stands for what a fit does not have at all.
_ABSENT = -2e300


@dataclass(frozen=True)
class Finding:
    """A feature that tells tables apart better than the promise allows."""

    feature: str
    right: int
    of: int
    allowed: int

    def __str__(self) -> str:
        return (
            f"{self.feature} tells which of two neighbours was fitted in {self.right} of"
            f" {self.of} fits, where {self.allowed} are possible by chance"
        )


def attack(
    first: Sequence[Features], second: Sequence[Features], promise: Any, alarm: float = ALARM
) -> Finding | None:
    """Return the best feature if it breaks the promise, or None.

    Parameters
    ----------
    first, second : sequences of dict of float
        Features of independent fits to each of two neighbouring tables.
    promise : Guarantee
    alarm : float in (0, 1)
        Probability of a finding where the promise holds.
    """
    names = sorted({name for fit in (*first, *second) for name in fit})
    tables = [
        np.array([[fit.get(n, _ABSENT) for n in names] for fit in t]) for t in (first, second)
    ]
    both = np.vstack(tables)
    moves = (both != both[0]).any(axis=0)
    names = [name for name, moved in zip(names, moves, strict=True) if moved]
    tables = [table[:, moves] for table in tables]
    if not names:
        return None
    learnt, seen = (
        [t[::LEARNT] for t in tables],
        [np.delete(t, np.s_[::LEARNT], axis=0) for t in tables],
    )
    tried = list(_guesses(names, learnt))
    for feature, weights, event in tried:
        x, y = (event.holds(table @ weights) for table in seen)
        found = _judged(feature, x, y, promise, alarm / len(tried))
        if found is not None:
            return found
    return None


def _judged(
    feature: str, x: NDArray[np.bool_], y: NDArray[np.bool_], promise: Any, alarm: float
) -> Finding | None:
    """Return a finding if an event is likelier under the first table than it may be."""
    right, of = int(x.sum() + (~y).sum()), len(x) + len(y)
    share = (1 + promise.delta_at(0.0)) / 2
    allowed = max(int(binom.isf(alarm / 2, of, share)), int(np.ceil(of * share)))
    for one, other in ((x, y), (~y, ~x)):
        bound = ratio_bound(one, other, promise.delta, alarm / 4)
        if right > allowed or bound > promise.epsilon:
            return Finding(feature, right, of, min(allowed, right))
    return None


@dataclass(frozen=True)
class Event:
    """Numbers above a threshold, or equal to it, or the others."""

    at: float
    equal: bool
    turned: bool

    def holds(self, values: Array) -> NDArray[np.bool_]:
        """Return in which fits it holds."""
        inside = values == self.at if self.equal else values > self.at
        return np.asarray(inside != self.turned)


def _guesses(names: list[str], learnt: list[Array]) -> Iterator[tuple[str, Array, Event]]:
    """Yield features, what they weigh, and the event that speaks for the first table."""
    x, y = learnt
    scored = [_best_events(x[:, k], y[:, k]) for k in range(len(names))]
    for kind, most in ((0, SINGLE), (1, RARE)):
        best = sorted(range(len(names)), key=lambda k: -scored[k][kind][0])[:most]
        for k in best:
            weights = np.zeros(len(names))
            weights[k] = 1.0
            yield names[k], weights, scored[k][kind][1]
    yield from _sums_of_many(names, x, y)


def _best_events(x: Array, y: Array) -> tuple[tuple[float, Event], tuple[float, Event]]:
    """Return the events whose shares are farthest apart, by difference and by ratio."""
    levels, counts = np.unique(np.concatenate([x, y]), return_counts=True)
    steps = np.linspace(0, max(len(levels) - 2, 0), _THRESHOLDS)
    at, common = levels[np.unique(steps.astype(int))], levels[np.argsort(-counts)[:_VALUES]]
    places = np.concatenate([at, common])
    p, q = (
        np.concatenate([(v[:, None] > at).mean(axis=0), (v[:, None] == common).mean(axis=0)])
        for v in (x, y)
    )
    gap, spare = p - q, 0.5 / len(x)
    # Either table may have the event that the other one lacks.
    ratio = np.maximum((p + spare) / (q + spare), (1 - q + spare) / (1 - p + spare))
    inverse = np.maximum((q + spare) / (p + spare), (1 - p + spare) / (1 - q + spare))
    found = []
    for score, turned in ((np.abs(gap), gap < 0), (np.maximum(ratio, inverse), inverse > ratio)):
        k = int(np.argmax(score))
        event = Event(float(places[k]), k >= len(at), bool(turned[k]))
        found.append((float(score[k]), event))
    return found[0], found[1]


def _sums_of_many(names: list[str], x: Array, y: Array) -> Iterator[tuple[str, Array, Event]]:
    """Yield weighted sums over features of one kind: much weak evidence is strong together."""
    groups: dict[str, list[int]] = {}
    usual = (np.abs(np.vstack([x, y])) < _UNUSUAL).all(axis=0)
    for k in np.flatnonzero(usual).tolist():
        groups.setdefault(re.sub(r"\[\d+\]|table \d", "[]", names[k]), []).append(k)
    wide = [name for name, members in groups.items() if len(members) >= FEW]
    for name in sorted(wide, key=lambda name: (not name.startswith("outputs"), name))[:SUMS]:
        own = groups[name]
        spread = np.sqrt((x[:, own].var(axis=0) + y[:, own].var(axis=0)) / 2)
        # What hardly moves must not outweigh all the rest.
        apart = (x[:, own].mean(axis=0) - y[:, own].mean(axis=0)) / (spread + spread.mean() / 4)
        weights = np.zeros(len(names))
        weights[own] = apart / (spread + spread.mean() / 4)
        middle = ((x @ weights).mean() + (y @ weights).mean()) / 2
        yield f"{name}, weighted,", weights, Event(float(middle), False, False)
