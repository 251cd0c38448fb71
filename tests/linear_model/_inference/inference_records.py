"""The releases of the inference stage for small tables, and what a change costs in their noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from inner_fits import Design, Task, exact_cross, exact_gram, exact_sum, exact_sums
from inner_inference import (
    InferencePlan,
    Products,
    ScoreRows,
    Scores,
    at_bounds,
    counts_of_sizes,
    exact_squares,
    plan_inference,
)
from inner_moments import Scaler
from spent import mu, part

from skdp import Domain, Spline
from skdp.mechanisms import GaussianNoise, KNormNoise
from skdp.noise.matrix import MatrixGaussianNoise
from skdp.rows import MemoryRows
from skdp.rows.persons import Members, Persons, Shares

COLUMNS = {
    "numbers": {"a": (-1, 1), "b": (0, 3), "c": (-1, 1)},
    "one number": {"a": (-1, 1)},
    "mixed": {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1), "sex": ["f", "m"]},
    "levels": {"job": ["x", "y", "z"], "sex": ["f", "m"]},
    "curve": {"a": (0, 3), "age": Spline(17, 90), "sex": ["f", "m"]},
}
NAMES = [*COLUMNS, "ball"]
MATRICES = "coordinates", "curvatures"
UNIT = Fraction(1, 2**40)


TARGETS = {"labels": ["no", "yes"], "numbers": (-2.0, 5.0), "counts": (0.0, 40.0)}


def domain_of(name: str, kind: str) -> Domain:
    """Return a domain of columns, with a target of a kind."""
    target: Any = TARGETS[kind]
    if name == "ball":
        return Domain.l2_ball(3, 2.5, target=target)
    return Domain(COLUMNS[name], target=target)


def records(domain: Domain, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a table of n rows, many at their bounds, and their encoded targets."""
    if domain.is_ball:
        X = rng.normal(size=(n, domain.n_columns)) * rng.choice([0.3, 5.0], (n, 1))
    else:
        X = domain.sample(n, random_state=int(rng.integers(2**31)))
        for name in X.columns[[kind.kind in "fi" for kind in X.dtypes]]:
            ends = [X[name].min() - 1e3, X[name].max() + 1e3]  # the encoder clips them
            X[name] = np.where(rng.random(n) < 0.5, rng.choice(ends, n), X[name])
    if domain.target_labels is not None:
        return X, rng.integers(0, 2, n).astype(np.uint8)
    return X, np.where(rng.random(n) < 0.5, rng.choice([-1.0, 1.0], n), rng.uniform(-1, 1, n))


@dataclass(frozen=True, eq=False)
class Releases:
    """The plan of the stage, with maps of rows that depend on public numbers."""

    task: Task
    plan: InferencePlan
    first: ScoreRows  # in the coordinates of the first curvatures
    places: ScoreRows
    products: Products
    units: Any  # of the columns in the denominators

    @classmethod
    def of(
        cls,
        domain: Domain,
        rng: np.random.Generator,
        *,
        neighbors: str = "replace_one",
        epsilon: float = 1.0,
        delta: float = 0.0,
        intercept: bool = True,
        are_persons: bool = False,
        targets: tuple[int, ...] | None = None,
        n: int = 50,
    ) -> Releases:
        kind = next(own for own in TARGETS if TARGETS[own] in (domain.target, domain.target_labels))
        q = domain.n_encoded
        public = n if neighbors == "replace_one" else None
        design = Design(domain, intercept)
        facts = {"n_public": n, "are_persons": are_persons}
        task = Task(design, public, epsilon, delta, neighbors, **facts)
        targets = targets or tuple(range(int(not intercept), q + 1))
        plan = plan_inference(task, [*TARGETS].index(kind), targets, True)
        label, model = 1 if kind == "labels" else None, (rng.normal(size=q), float(rng.normal()))
        scores = Scores(domain, *model, label, kind == "counts", 1.0 if label else 0.5)
        numbers, m = domain.number_index, len(targets)
        scale = rng.uniform(0.2, 1, len(numbers))
        scaler = Scaler.of(q, numbers, rng.uniform(-0.5, 0.5, len(numbers)) * intercept, scale)
        first = ScoreRows(scores, scaler, np.diag(plan.factor))
        places = replace(first, matrix=rng.normal(size=(q + 1, q + 1)))
        products = Products(places, 4 * rng.normal(size=(m, q + 1)))
        return cls(task, plan, first, places, products, rng.uniform(1, 2, m))

    def at(self, scale: float = 1.0, matrix: Any = None, **facts: Any) -> Releases:
        """Return the releases at another model, with centres 0 and one scale of all numbers.

        ``matrix`` has the directions of the products. All coordinates are those of the first
        curvatures.
        """
        scores = replace(self.first.scores, **facts)
        columns, q = scores.domain.number_index, scores.domain.n_encoded
        scaler = Scaler.of(q, columns, np.zeros(len(columns)), np.full(len(columns), scale))
        first = replace(self.first, scores=scores, scaler=scaler)
        matrix = self.products.matrix if matrix is None else matrix
        products = Products(first, matrix)
        return replace(self, first=first, places=first, products=products)

    def rows(self, X: Any, y: Any, ids: Any = None, cap: int = 1) -> MemoryRows:
        members: Members | None = None
        if ids is not None:
            members = Shares(Persons.of([ids]), cap).members(ids)
        return MemoryRows(self.task.design.domain, X, y, members)

    def statistics(self, rows: MemoryRows) -> dict[str, Any]:
        """Return the exact statistics, in units of 2^-40; curvatures as matrices."""
        found, plan, scores = {}, self.plan, self.places.scores
        if plan.scales is not None:
            found["scales"] = plan.scales.sums.exact(*exact_sums(rows))
        if plan.limits is not None:
            found["limits"] = exact_sum(rows, partial(at_bounds, plan.limits.ends))
        for own in plan.sizes:
            centre = np.append(self.places.scaler.centre, 0.0)
            counts = partial(counts_of_sizes, scores, own.columns, centre)
            found[own.name] = exact_sum(rows, counts)
        found["coordinates"] = exact_gram(rows, self.first.square)[:-1, :-1]
        found["scores"] = exact_cross(rows, self.places.cross)
        found["curvatures"] = exact_gram(rows, self.places.square)[:-1, :-1]
        found["squares"] = exact_squares(rows, self.products, self.task.are_persons)
        sums = partial(self.products.both, np.array(plan.targets), self.units)
        found["numerators"], found["denominators"] = exact_sum(rows, sums)
        assert [*found] == [own.name for own in plan.releases]
        return found

    @property
    def named(self) -> dict[str, Any]:
        return {own.name: own for own in self.plan.releases}

    @property
    def moved(self) -> int:
        return int(self.task.records_changed)


def share_of(release: Any, one: Any, other: Any = None) -> Fraction:
    """Return the cost of a change over what the checker says that the release spends.

    It is exact but for scales, whose gauge is computed in floats. ``other`` is the statistic of
    the record that takes the place; none is added or removed.
    """
    change, name, noise = one if other is None else one - other, release.name, release.noise
    if isinstance(noise, MatrixGaussianNoise):
        return root(squares(change)) / Fraction(noise.deviation) / Fraction(mu(release))
    if name in MATRICES:  # trace norms of both records
        traces = [np.trace(own) for own in (one, other) if own is not None]
        size = Fraction(float(noise.precision[0])) * sum(map(Fraction, traces)) * UNIT
        return size / Fraction(part(release))
    if isinstance(noise, GaussianNoise):
        scale = Fraction(float(noise.factor))
        return root(squares(change)) / scale / Fraction(mu(release))
    assert isinstance(noise, KNormNoise)
    calibrated = Fraction(noise.scale) * Fraction(part(release))
    if name == "scales":
        own = noise.ball.gauge(np.array([float(Fraction(v) * UNIT) for v in change]))
        return Fraction(float(own) * (1 - 1e-12)) / calibrated
    if name == "limits":
        return max(abs(Fraction(v)) for v in change) * UNIT / calibrated
    if noise.ball.p == 1:  # type: ignore[attr-defined]
        return sum((abs(Fraction(v)) for v in change), Fraction(0)) * UNIT / calibrated
    return root(squares(change)) / calibrated


def squares(change: Any) -> Fraction:
    return sum((Fraction(v) ** 2 for v in np.ravel(change)), Fraction(0)) * UNIT**2


def root(value: Fraction) -> Fraction:
    """Return the square root, rounded up by less than 2^-80."""
    return Fraction(math.isqrt(int(value * 2**200)) + 1, 2**100)
