"""The releases of the inference stage, calibrated from public information only.

Releases follow the fitted model, each with a share of the stage's budget: *scales* (sums and
squares of the numbers), *sizes* (how many deviations and residuals have which size), *limits* (how
many values are at bounds), *coordinates* (curvatures of scaled columns), *scores* and *curvatures*
in these coordinates, and in the directions that follow *squares*, *numerators* and *denominators*.
Statement and proof: ``docs/proofs/inference.md``.

A value beyond a bound is clipped to it. Then coefficients are those of clipped values, and no
interval contains the difference. So *limits* counts the records with a number, and with a target,
at a bound after the encoding. It sees encoded rows only, in which a value beyond a bound and one
that is the bound are the same. A lower bound of 0 is not counted: values such as counts and amounts
often are 0, and are not changed by this bound. Bounds of 0 and 1 are those of an indicator or a
share, and are not counted either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._search import narrowed
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._inference.theorem import (
    NUMBERS,
    TARGET,
    bounded_sums,
    changes,
    counted_ends,
    curvature_layout,
    longest_row,
    size_counts,
    squares_of_gaussian,
    whole_layout,
)
from skdp.linear_model._shared.gram import GRAM_BITS, ColumnSums, exact_sum, release_exact
from skdp.linear_model._shared.scaling import ScalingStage, sums_noise
from skdp.linear_model._shared.task import Task
from skdp.mechanisms import GaussianNoise, KNorm, KNormNoise, MatrixLaplaceNoise, Sensitivity
from skdp.mechanisms.knorm import gaussian_scale
from skdp.noise.matrix import MatrixGaussianNoise, MatrixNoise
from skdp.rows import Block, Rows
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.certify import NoisySum, certify
from skdp.trusted.noise import variances
from skdp.trusted.statement import NotPrivate, Public


@dataclass(frozen=True, eq=False)
class Limits:
    """The release of the counts; public information only.

    ``ends`` has the ends that are counted for `NUMBERS`, `TARGET` or both.
    """

    noise: KNormNoise
    ends: dict[str, FloatArray]

    @classmethod
    def plan(cls, task: Task, is_regression: bool, epsilon: float) -> Limits | None:
        """Return the calibrated release, or None if there is nothing to count."""
        if not (ends := counted_ends(task.design.domain, is_regression)):
            return None
        # A replaced record changes each count by at most 1, too.
        moved = Sensitivity(LpBall(len(ends), p=math.inf), 1.0, task.neighbors)
        return cls(KNorm().calibrate(moved, epsilon=epsilon), ends)

    def release(self, release: NoisySum, rows: Rows, n: float, rng: Generator) -> str:
        """Release the counts, and return a sentence on their shares of n records."""
        found = release_exact(release, exact_sum(rows, partial(at_bounds, self.ends)), rng)
        error = 2 * math.sqrt(float(variances(self.noise)[0]))
        ends = 100 * np.clip([(found - error) / n, (found + error) / n], 0.0, 1.0)
        facts = zip(*ends, self.ends, strict=True)
        parts = [f"{low:.1f} to {high:.1f} % have {what}" for low, high, what in facts]
        return (
            f"Of the records, {' and '.join(parts)} (two standard deviations of the noise;"
            " a lower bound of 0 is not counted, nor are bounds of 0 and 1)."
            " Values beyond a bound were clipped to it. If they are many, the coefficients are"
            " others than those without bounds, and the intervals do not contain the difference."
        )


def at_bounds(ends: dict[str, FloatArray], block: Block) -> NDArray[np.int64]:
    """Return the numbers of rows with a value at a bound, in units of 2^-40."""
    values = {NUMBERS: block.numbers, TARGET: block.target[:, None]}
    found = [
        ((values[what] <= low) | (values[what] >= high)).any(axis=1).sum()
        for what, (low, high) in ends.items()
    ]
    return np.asarray(np.array(found, dtype=np.int64) * 2**GRAM_BITS)


# Shares of the stage's budget: of the scales, the limits and the sizes, and of the other releases
# in what is left, for one coefficient and for many.
SCALES, LIMITS, SIZES = 0.05, 0.03, 0.08
MATRICES = "coordinates", "curvatures"
PARTS = "coordinates", "scores", "curvatures", "numerators", "denominators", "squares"
GAUSSIAN = PARTS[:3]
ONE = dict(zip(PARTS, (0.18, 0.24, 0.35, 0.0, 0.05, 0.06), strict=True))
ALL = dict(zip(PARTS, (0.12, 0.12, 0.22, 0.0, 0.05, 0.06), strict=True))
# The share of the numerators of one coefficient grows with n epsilon / columns^(3/2), from FEW to
# MANY, and is greater for many coefficients.
LEAST_SHARE, MOST_SHARE, WHOLE_SHARE, FEW, MANY = 0.15, 0.25, 0.4, 500.0, 3000.0
# The assumed n epsilon / columns^(3/2) if no number of records is public.
UNKNOWN = 300.0
# The same for the first curvatures, whose rows are shrunk where the sum of the squares of p scaled
# numbers and the 1 exceeds p + 1 times the near reach.
NEAR_REACH, NEAR_AT, LEAST_NEAR, MOST_NEAR = 0.5, 60.0, 0.4, 4.0
# The reach is REACH n epsilon / columns^(3/2), from LEAST_REACH to MOST_REACH.
REACH, LEAST_REACH, MOST_REACH = 1 / 400, 0.5, 10.0


VectorNoise = KNormNoise | GaussianNoise


class Sizes(NamedTuple):
    """The release of the numbers of deviations by size of some of (x, residual, mean)."""

    name: str
    columns: tuple[int, ...]
    noise: KNormNoise


@dataclass(frozen=True, eq=False)
class InferencePlan:
    """The calibrated releases; public information only."""

    scales: ScalingStage | None  # None if no column is scaled
    limits: Limits | None
    sizes: tuple[Sizes, ...]
    coordinates: MatrixNoise
    scores: VectorNoise
    curvatures: MatrixNoise
    numerators: VectorNoise
    denominators: VectorNoise
    squares: VectorNoise
    targets: tuple[int, ...]  # the encoded coefficients of the table, 0 for the intercept
    factor: FloatArray  # the coordinates of the first curvatures over z, (n_encoded + 1,)
    reach: float  # weights fall below 1 where the leverage of a row exceeds this times its mean
    neighbors: str

    def noise(self) -> float:
        """Return the product of the variances in the curvatures and the numerators."""
        parts = variances(self.curvatures), variances(self.numerators)
        return math.prod(float(own.mean()) for own in parts)

    @cached_property
    def releases(self) -> tuple[NoisySum, ...]:
        page, neighbors = "inference.md, Theorem 1", self.neighbors
        found = []
        if self.scales is not None:
            change = self.scales.sums.change(neighbors)
            found.append(NoisySum("scales", change, self.scales.noise, page))
        if self.limits is not None:
            # A replaced record changes each count by at most 1, too.
            counts = Sensitivity(LpBall(len(self.limits.ends), p=math.inf), 1.0, neighbors)
            found.append(NoisySum("limits", counts, self.limits.noise, page))
        for own in self.sizes:
            found.append(
                NoisySum(own.name, size_counts(len(own.columns), neighbors), own.noise, page)
            )
        m = len(self.targets)
        scores, rows, squares = changes(self.curvatures.layout, m, neighbors)
        first = changes(self.coordinates.layout, m, neighbors)[1]
        if isinstance(self.squares, GaussianNoise):
            squares = squares_of_gaussian(m, neighbors)
        sums = bounded_sums(m, neighbors)
        return (
            *found,
            NoisySum("coordinates", first, self.coordinates, page),
            NoisySum("scores", scores, self.scores, page),
            NoisySum("curvatures", rows, self.curvatures, page),
            NoisySum("squares", squares, self.squares, page),
            NoisySum("numerators", sums, self.numerators, page),
            NoisySum("denominators", sums, self.denominators, page),
        )


# The greatest epsilon with which Gaussian noise is planned, over that of the task, and how closely
# the accepted one is found.
MOST_GAIN, NEAR = 2.0, 0.01


def plan_inference(
    task: Task, n_scores: int, targets: tuple[int, ...], is_ols: bool
) -> InferencePlan:
    """Return the plan with the least noise.

    ``task`` has the budget of the stage. ``n_scores`` is 0 for labels; for numbers the sizes of
    residuals are counted, 1, and for counts those of the means, too, 2.
    """
    layouts = curvature_layout(task.design.domain), whole_layout(task.design.domain)
    weights, reach = factors(layouts[0], task, is_ols)

    def planned(epsilon: float, noises_of: Callable[..., Noises]) -> InferencePlan:
        scales = _scales(task, SCALES * epsilon)
        limits = Limits.plan(task, n_scores > 0, LIMITS * epsilon)
        sizes = _sizes(task, n_scores, targets, SIZES * epsilon)
        spent = SCALES * (scales is not None) + LIMITS * (limits is not None)
        spent += SIZES * bool(sizes)
        noises = noises_of(task, layouts, len(targets), epsilon * (1 - spent) * (1 - 1e-15))
        return InferencePlan(
            scales, limits, sizes, *noises, targets, weights, reach, task.neighbors
        )

    plan = planned(task.epsilon, _pure)
    if task.delta > 0:
        unit = "person" if task.are_persons else "row"
        public = Public(task.epsilon, task.delta, task.neighbors, unit)

        def is_refused(noises_of: Callable[..., Noises], gain: float) -> bool:
            try:
                certify(planned(gain * task.epsilon, noises_of).releases, public)
            except NotPrivate:
                return True
            return False

        # Composed, the releases spend less than the sum of their parts: the checker says how much.
        plans = [plan]
        for noises_of in (_gaussian, _mixed):
            gain, _ = narrowed(partial(is_refused, noises_of), 1.0, MOST_GAIN, NEAR)
            plans.append(planned(gain * task.epsilon, noises_of))
        plan = min(plans, key=InferencePlan.noise)
    return plan


def factors(layout: MomentLayout, task: Task, is_ols: bool) -> tuple[FloatArray, float]:
    """Return the factors f and the reach: rows of the first curvatures are f z."""
    weights = np.ones(layout.n_rows)
    # At most one indicator of a block is 1. Each of many levels is rare.
    for columns in layout.block_columns:
        weights[columns] = math.sqrt(len(columns))
    blocks = sum(math.sqrt(len(columns)) for columns in layout.block_columns)
    per = per_column(task)
    near = min(max(NEAR_REACH * (per / NEAR_AT) ** (1 / 3), LEAST_NEAR), MOST_NEAR)
    bound = near * (1 + len(layout.number_index) + blocks)
    reach = min(max(per * REACH, LEAST_REACH), MOST_REACH if is_ols else LEAST_REACH)
    return np.asarray(np.sqrt(weights / bound)), reach


def per_column(task: Task) -> float:
    """Return n epsilon / columns^(3/2), or what is assumed of it."""
    domain = task.design.domain
    size = 1.0 + domain.n_numbers + len(domain.blocks)
    return UNKNOWN if task.n_assumed is None else task.n_assumed * task.epsilon / size**1.5


def _scales(task: Task, epsilon: float) -> ScalingStage | None:
    columns = (*map(int, task.design.domain.number_index),)
    if not columns:
        return None
    sums = ColumnSums(columns, task.n, columns)
    noise = sums_noise(sums, task.records_changed, task.neighbors, epsilon)
    return ScalingStage(sums, noise)


def _sizes(task: Task, n_scores: int, targets: Sequence[int], epsilon: float) -> tuple[Sizes, ...]:
    """Return releases of the sizes of what few estimates need, and of other numbers."""
    numbers = [*map(int, task.design.domain.number_index)]
    near = [j for j in numbers if j + 1 in targets]
    q = task.design.domain.n_encoded
    near += [q, q + 1][:n_scores]
    parts = {"sizes": near, "other sizes": [j for j in numbers if j not in near]}
    shared = epsilon / max(sum(map(bool, parts.values())), 1)
    return tuple(
        Sizes(
            name, (*own,), KNorm().calibrate(size_counts(len(own), task.neighbors), epsilon=shared)
        )
        for name, own in parts.items()
        if own
    )


Layouts = tuple[MomentLayout, MomentLayout]
Noises = tuple[MatrixNoise, VectorNoise, MatrixNoise, VectorNoise, VectorNoise, VectorNoise]


def _shares(task: Task, m: int) -> dict[str, float]:
    """Return the shares of the releases; those of few coefficients are between both."""
    grown = math.log(per_column(task) / FEW) / math.log(MANY / FEW)
    one = LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * min(max(grown, 0.0), 1.0)
    own = WHOLE_SHARE + (one - WHOLE_SHARE) / m
    part = {name: ALL[name] + (ONE[name] - ALL[name]) / m for name in PARTS}
    left = (1 - own) / sum(part.values())
    return {name: share * left for name, share in part.items()} | {"numerators": own}


def _pure(task: Task, layouts: Layouts, m: int, epsilon: float) -> Noises:
    """Return noises whose epsilons add up to at most ``epsilon``."""
    part, layout = {name: share * epsilon for name, share in _shares(task, m).items()}, layouts[1]
    scores, rows, squares = changes(layout, m, task.neighbors)
    sums = bounded_sums(m, task.neighbors)
    # The quotient and the product of a proof round.
    precision = 1 / (task.records_changed * rows.square * ROUND_UP)
    coarse, fine = (np.full(layout.n_rows, part[name] * precision) for name in MATRICES)
    return (
        MatrixLaplaceNoise(layouts[0], coarse),
        KNorm().calibrate(scores, epsilon=part["scores"]),
        MatrixLaplaceNoise(layout, fine),
        KNorm().calibrate(sums, epsilon=part["numerators"]),
        KNorm().calibrate(sums, epsilon=part["denominators"]),
        KNorm().calibrate(squares, epsilon=part["squares"]),
    )


def _mixed(task: Task, layouts: Layouts, m: int, epsilon: float) -> Noises:
    """Return K-norm noise in the sums of m numbers, and Gaussian noise in the others."""
    shares = _shares(task, m)
    left = epsilon * sum(shares[name] for name in GAUSSIAN)
    coordinates, scores, curvatures, *_ = _gaussian(task, layouts, m, left, GAUSSIAN)
    return (coordinates, scores, curvatures, *_pure(task, layouts, m, epsilon)[3:])


def _gaussian(
    task: Task, layouts: Layouts, m: int, epsilon: float, parts: Sequence[str] = PARTS
) -> Noises:
    """Return Gaussian noises; the squared shifts of some add up to that of the whole release."""
    layout, shares = layouts[1], _shares(task, m)
    k, moved, longest = layout.n_rows, task.records_changed, longest_row(layout.n_rows)
    mu = 1 / gaussian_scale(epsilon, task.delta) / math.sqrt(sum(shares[name] for name in parts))
    # With a share s of epsilon a part would have the share s^(1/2) of the shift.
    part = {name: mu * math.sqrt(share) for name, share in shares.items()}
    # |zz' - z'z'| of two rows, and the distance of two vectors of squares, are at most sqrt(2).
    distance = math.sqrt(moved) * longest**2 * ROUND_UP
    sums = bounded_sums(m, task.neighbors).radius * ROUND_UP
    return (
        MatrixGaussianNoise(layouts[0], distance / part["coordinates"] * ROUND_UP),
        GaussianNoise(k, moved * longest / part["scores"] * ROUND_UP),
        MatrixGaussianNoise(layout, distance / part["curvatures"] * ROUND_UP),
        GaussianNoise(m, sums / part["numerators"]),
        GaussianNoise(m, sums / part["denominators"]),
        GaussianNoise(m, math.sqrt(moved) * longest_row(m) ** 2 * ROUND_UP / part["squares"]),
    )
