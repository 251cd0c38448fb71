"""Attacks 1: which of two neighbouring tables was fitted, by the low bits of released moments.

The attacker knows both tables and reads ``moments_`` alone. What a table would release without
noise is an exact multiple of 2^-40. Taken off what was released, it leaves the noise if it is the
true table's: then any regularity of the sampler's own grid, such as trailing zeros, shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.benchmarks.attacks.attack_report import (
    MOST_ZEROS,
    Data,
    FloatArray,
    Verdict,
    guesses,
    zeros,
)
from skdp import Domain, DPLinearRegression
from skdp.linear_model._moments.advice import ScaledMoments
from skdp.linear_model._moments.theorem import RowScaler
from skdp.linear_model._shared.gram import GRAM_BITS, exact_gram
from skdp.rows import MemoryRows


@dataclass(frozen=True)
class Target:
    """A model to attack, and the size of its tables."""

    name: str
    records: int
    columns: int
    options: dict[str, Any] = field(default_factory=dict)

    def model(self) -> DPLinearRegression:
        """Return the model, not fitted."""
        domain = Domain.unit_box(self.columns, target=(-1.0, 1.0))
        return DPLinearRegression(**{"epsilon": 1.0, **self.options, "domain": domain})

    def tables(self, rng: np.random.Generator) -> tuple[Data, Data]:
        """Return two tables that differ in one record, whose square has all of its bits."""
        X = rng.uniform(-1, 1, (self.records, self.columns))
        y = rng.uniform(-1, 1, self.records)
        other = X.copy()
        X[0], other[0] = (2 * rng.integers(2**18, size=self.columns) + 1) / 2.0**20, 0.0
        if self.options.get("neighbors") == "add_remove":
            return (X, y), (X[1:], y[1:])
        return (X, y), (other, y)


# Public facts under which automatic choices scale the columns, however many records there are.
MANY = {"neighbors": "add_remove", "n_public": 10_000_000}
KINDS = ["count", "square", "target", "linear", "product"]
LESSONS = 10
Zeros = tuple[NDArray[np.intp], NDArray[np.int64]]
TARGETS = (
    Target("matrix, 100 columns", 500, 100, {"mechanism": "matrix"}),
    Target("defaults, 100 columns", 20_000, 100, {"fit_intercept": False}),
    Target("scaled, epsilon .004", 500, 100, {"epsilon": 0.004, **MANY}),
    Target("scaled, delta 1e-6", 500, 20, {"delta": 1e-6, **MANY}),
    Target("hull, epsilon .004", 500, 3, {"epsilon": 0.004, "mechanism": "hull"}),
    Target("gaussian, delta 1e-6", 500, 3, {"mechanism": "gaussian", "delta": 1e-6}),
)


def attacks(fits: int, seed: int) -> Iterator[Verdict]:
    """Attack each model in ``fits`` fits."""
    for number, target in enumerate(TARGETS):
        rng = np.random.default_rng([seed, 1, number])
        yield attack(target, fits, rng)


def attack(target: Target, fits: int, rng: np.random.Generator) -> Verdict:
    """Guess which table was fitted, as often as asked, after fits of the attacker's own."""
    tables, right, model = target.tables(rng), 0, target.model()
    odds = Odds.learnt([rests(model.fit(*tables[k % 2]), tables) for k in range(LESSONS)])
    for truth in rng.integers(2, size=fits):
        right += odds.guess(rests(model.fit(*tables[truth]), tables), rng) == truth
    return guesses(f"low bits: {target.name}", right, fits, model.guarantee_)


@dataclass(frozen=True)
class Odds:
    """How much likelier each number of trailing zeros is under the true table.

    Entries count by kind: squares of the noise have another grid than products.
    """

    table: FloatArray

    @classmethod
    def learnt(cls, lessons: list[tuple[Zeros, Zeros]]) -> Odds:
        """Learn from fits to the first and the second table by turns."""
        count = np.ones((2, len(KINDS), MOST_ZEROS + 1))
        for k, pair in enumerate(lessons):
            for wrong, (kinds, found) in enumerate((pair[k % 2], pair[1 - k % 2])):
                np.add.at(count[wrong], (kinds, found), 1)
        share = count / count.sum(axis=-1, keepdims=True)
        return cls(np.log(share[0] / share[1]))

    def guess(self, pair: tuple[Zeros, Zeros], rng: np.random.Generator) -> int:
        """Return the likelier table."""
        first, second = (self.table[found].sum() for found in pair)
        return int(second > first) if first != second else int(rng.integers(2))


def rests(model: DPLinearRegression, tables: tuple[Data, Data]) -> tuple[Zeros, Zeros]:
    """Return the trailing zeros of the noise, with kinds, if each of the tables was fitted."""
    released, scaler = released_units(model, len(tables[0][1]))
    kinds = np.array([KINDS.index(kind) for kind in model.moments_.layout.kinds])
    first, second = (
        (kinds, zeros(released - exact_units(model, table, scaler))) for table in tables
    )
    return first, second


def released_units(model: DPLinearRegression, n: int) -> tuple[NDArray[Any], RowScaler | None]:
    """Return what was released, in units of 2^-40, and the centres and scales."""
    # Anybody can make the plan: it is of public things.
    moments, plan = model.moments_, model._plan(model._design, n, 1)
    scaler = None
    found = moments.layout.statistic(moments.gram)
    if isinstance(plan, ScaledMoments):
        scaler = RowScaler(moments.centre, moments.scale, plan.factor)
        found = moments.released
    units = [round(v * 2.0**GRAM_BITS) for v in found.tolist()]
    return np.array(units, dtype=object), scaler


def exact_units(model: DPLinearRegression, table: Data, scaler: RowScaler | None) -> NDArray[Any]:
    """Return what a table would release without noise."""
    layout = model.moments_.layout
    gram = exact_gram(MemoryRows(model.domain, *table), scaler.place if scaler else None)
    i, j = layout.pairs.T
    scale, shift = (v.astype(np.int64) for v in (layout.scale, layout.shift))
    exact: NDArray[Any] = scale * gram[i, j] - shift * gram[0, 0]
    return exact
