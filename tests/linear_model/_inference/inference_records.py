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
    Influences,
    ScoreRows,
    Scores,
    at_bounds,
    exact_squares,
    plan_inference,
    with_residuals,
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
UNIT = Fraction(1, 2**40)


def domain_of(name: str, regression: bool) -> Domain:
    target = (-2.0, 5.0) if regression else ["no", "yes"]
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
    """The plan of the stage with maps of rows that depend on public numbers."""

    task: Task
    plan: InferencePlan
    places: ScoreRows
    influences: Influences
    are_persons: bool

    @classmethod
    def of(
        cls,
        domain: Domain,
        rng: np.random.Generator,
        *,
        neighbors: str = "replace_one",
        delta: float = 0.0,
        intercept: bool = True,
        are_persons: bool = False,
        bound: float = 0.5,
        n: int = 50,
    ) -> Releases:
        regression, q = domain.target_labels is None, domain.n_encoded
        public = n if neighbors == "replace_one" else None
        design = Design(domain, intercept)
        task = Task(design, public, 1.0, delta, neighbors, n_public=n, are_persons=are_persons)
        plan = plan_inference(task, regression)
        label = None if regression else 1
        scores = Scores(domain, rng.normal(size=q), float(rng.normal()), label, bound)
        numbers = domain.number_index
        centre, scale = rng.uniform(-0.5, 0.5, len(numbers)), rng.uniform(0.2, 1, len(numbers))
        scaler = Scaler.of(q, numbers, centre * intercept, scale)
        places = ScoreRows(scores, scaler, plan.factor)
        k = q + intercept
        matrix = np.zeros((k, q + 1))
        matrix[:, q + 1 - k :] = 2 * rng.normal(size=(k, k))
        return cls(task, plan, places, Influences(places, matrix), are_persons)

    def rows(self, X: Any, y: Any, ids: Any = None, cap: int = 1) -> MemoryRows:
        members: Members | None = None
        if ids is not None:
            members = Shares(Persons.of([ids]), cap).members(ids)
        return MemoryRows(self.task.design.domain, X, y, members)

    def statistics(self, rows: MemoryRows) -> dict[str, Any]:
        """Return the exact statistics, in units of 2^-40; curvatures as a matrix."""
        found, scales = {}, self.plan.scales
        if scales is not None:
            is_number = self.places.scores.label is None
            residuals = partial(with_residuals, self.places.scores) if is_number else None
            found["scales"] = scales.sums.exact(*exact_sums(rows, residuals))
        if self.plan.limits is not None:
            found["limits"] = exact_sum(rows, partial(at_bounds, self.plan.limits.ends))
        found["scores"] = exact_cross(rows, self.places.cross)
        found["curvatures"] = exact_gram(rows, self.places.square)[:-1, :-1]
        found["squares"] = exact_squares(rows, self.influences, self.are_persons)
        return found

    def with_scores(self, scale: Any, matrix: Any = None, **facts: Any) -> Releases:
        """Return the releases at another model, with centres 0 and one scale of all numbers."""
        scores, plan = replace(self.places.scores, **facts), self.plan
        columns = scores.domain.number_index
        scaler = Scaler.of(scores.domain.n_encoded, columns, np.zeros(len(columns)), scale)
        places = ScoreRows(scores, scaler, plan.factor)
        own = self.influences.matrix if matrix is None else matrix
        return replace(self, places=places, influences=Influences(places, own))

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
    if name == "curvatures":  # trace norms of both records
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
