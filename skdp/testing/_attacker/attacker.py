"""A strong attacker: features of fits to two tables, and the best guess between the tables.

A quarter of the fits to each table are used to learn which features, thresholds and values
distinguish the tables. The attacker then guesses the table of each other fit. For independent
releases and equally likely tables a guess is right with a mean probability of at most
(1 + delta(0)) / 2, where delta(0) is the total variation that the guarantee allows. The number of
right guesses exceeds each k above its mean at most as often as a binomial variable (Hoeffding
1956, Theorem 4). Events that are rare under both tables are compared with e^epsilon and delta by
Clopper-Pearson limits. Few guesses are tried, and the false-alarm rate is divided by their number.
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
# One fit in LEARNT is used for learning.
LEARNT = 4
# False-alarm rate of one attack.
ALARM = 1e-6
# Number of single features, of rare events and of sums that are tried.
SINGLE, RARE, SUMS = 6, 2, 8
_THRESHOLDS, _VALUES = 24, 6
# A sum has at least FEW features, and none of a greater absolute value than _UNUSUAL.
FEW, _UNUSUAL = 6, 1e100
# Value of a feature that a fit does not have.
_ABSENT = -2e300


@dataclass(frozen=True)
class Finding:
    """A feature that distinguishes tables better than the guarantee allows."""

    feature: str
    right: int
    of: int
    allowed: int

    def __str__(self) -> str:
        return (
            f"{self.feature} shows which of two neighbours was fitted in {self.right} of"
            f" {self.of} fits, and {self.allowed} are possible by chance"
        )


def attack(
    first: Sequence[Features], second: Sequence[Features], claim: Any, alarm: float = ALARM
) -> Finding | None:
    """Return a feature that violates the guarantee, or None.

    Parameters
    ----------
    first, second : sequences of dict of float
        Features of independent fits to each of two neighbouring tables.
    claim : Guarantee
    alarm : float in (0, 1)
        Probability of a finding if the guarantee holds.
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
        found = _judged(feature, x, y, claim, alarm / len(tried))
        if found is not None:
            return found
    return None


def _judged(
    feature: str, x: NDArray[np.bool_], y: NDArray[np.bool_], claim: Any, alarm: float
) -> Finding | None:
    """Return a finding if an event is more likely under the first table than allowed."""
    right, of = int(x.sum() + (~y).sum()), len(x) + len(y)
    share = (1 + claim.delta_at(0.0)) / 2
    allowed = max(int(binom.isf(alarm / 2, of, share)), int(np.ceil(of * share)))
    for one, other in ((x, y), (~y, ~x)):
        bound = ratio_bound(one, other, claim.delta, alarm / 4)
        if right > allowed or bound > claim.epsilon:
            return Finding(feature, right, of, min(allowed, right))
    return None


@dataclass(frozen=True)
class Event:
    """Event that a number is above a threshold, or equal to it, or the complement."""

    at: float
    equal: bool
    turned: bool

    def holds(self, values: Array) -> NDArray[np.bool_]:
        """Return for each value whether the event occurs."""
        inside = values == self.at if self.equal else values > self.at
        return np.asarray(inside != self.turned)


def _guesses(names: list[str], learnt: list[Array]) -> Iterator[tuple[str, Array, Event]]:
    """Yield names, weights of the features, and the event that indicates the first table."""
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
    """Return the events with the greatest difference and the greatest ratio of frequencies."""
    levels, counts = np.unique(np.concatenate([x, y]), return_counts=True)
    steps = np.linspace(0, max(len(levels) - 2, 0), _THRESHOLDS)
    at, common = levels[np.unique(steps.astype(int))], levels[np.argsort(-counts)[:_VALUES]]
    places = np.concatenate([at, common])
    p, q = (
        np.concatenate([(v[:, None] > at).mean(axis=0), (v[:, None] == common).mean(axis=0)])
        for v in (x, y)
    )
    gap, spare = p - q, 0.5 / len(x)
    # The event may be missing under either table.
    ratio = np.maximum((p + spare) / (q + spare), (1 - q + spare) / (1 - p + spare))
    inverse = np.maximum((q + spare) / (p + spare), (1 - p + spare) / (1 - q + spare))
    found = []
    for score, turned in ((np.abs(gap), gap < 0), (np.maximum(ratio, inverse), inverse > ratio)):
        k = int(np.argmax(score))
        event = Event(float(places[k]), k >= len(at), bool(turned[k]))
        found.append((float(score[k]), event))
    return found[0], found[1]


def _sums_of_many(names: list[str], x: Array, y: Array) -> Iterator[tuple[str, Array, Event]]:
    """Yield weighted sums over features of one kind, which combine weak evidence."""
    groups: dict[str, list[int]] = {}
    usual = (np.abs(np.vstack([x, y])) < _UNUSUAL).all(axis=0)
    for k in np.flatnonzero(usual).tolist():
        groups.setdefault(re.sub(r"\[\d+\]|table \d", "[]", names[k]), []).append(k)
    wide = [name for name, members in groups.items() if len(members) >= FEW]
    for name in sorted(wide, key=lambda name: (not name.startswith("outputs"), name))[:SUMS]:
        own = groups[name]
        spread = np.sqrt((x[:, own].var(axis=0) + y[:, own].var(axis=0)) / 2)
        # Features with a small spread must not dominate.
        apart = (x[:, own].mean(axis=0) - y[:, own].mean(axis=0)) / (spread + spread.mean() / 4)
        weights = np.zeros(len(names))
        weights[own] = apart / (spread + spread.mean() / 4)
        middle = ((x @ weights).mean() + (y @ weights).mean()) / 2
        yield f"{name}, weighted,", weights, Event(float(middle), False, False)
