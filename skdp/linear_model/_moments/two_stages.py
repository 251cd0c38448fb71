"""Moments in two stages: a scaling stage, and then moments of the scaled rows.

Bounds that hold for all records are wide, and most records lie close together. A scaling stage
spends a part of epsilon on the sums and squares of the numbers and of the target. It gives a
centre and a scale for each column. The second stage releases the moments of the rows
z = (1, (x - centre) / scale). A row with z'Lz > bound is shrunk to z'Lz = bound. Each record is
mapped by itself, so that one record changes the moments by a bounded amount. The bound is far
below the change between two corners of the domain. Statement and proof:
``docs/proofs/moment_release.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._moments.moments import TwoReleases
from skdp.linear_model._shared.gram import NUMBER_BITS
from skdp.linear_model._shared.task import Task
from skdp.linear_model._standardize.column_sums import ColumnSums, Estimates
from skdp.linear_model._standardize.independent import independent
from skdp.linear_model._standardize.rules import MOMENTS
from skdp.linear_model._standardize.scaler import RowScaler, Scaler
from skdp.linear_model._standardize.stage import (
    GOOD_NOISE,
    GaussianSplit,
    ScalingStage,
    rest_of,
    sums_deviation,
    sums_noise,
    usual_share,
)
from skdp.mechanisms import MatrixLaplaceNoise
from skdp.mechanisms.matrix.knorm import least_beside
from skdp.mechanisms.matrix.noise import MatrixGaussianNoise, MatrixNoise
from skdp.mechanisms.matrix.profile import losses_of_trace
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.privacy import Guarantee

Stages = tuple[ScalingStage, MatrixNoise]

# Limits of the scaling stage's share of the shift with Gaussian noise. Squared shifts add up: the
# upper limit leaves the second stage sqrt(1 - .6^2) = 1 - .2, as the share of epsilon does.
LEAST_SHIFT, MOST_SHIFT = 0.2, 0.6
# The assumed variance of a column when two noises are compared.
USUAL_SQUARE = 0.1
# Rows are shrunk at so many scales, in the root mean square, of each number and of the target.
RADIUS, TARGET_RADIUS = 2.0, 4.5


@dataclass(frozen=True, eq=False)
class TwoStages(TwoReleases):
    """A plan of two stages; public information only.

    Attributes
    ----------
    layout : MomentLayout
        The moments of the second stage, of rows (1, z) of length at most 1. The weight of a row
        is private. Hence the sum of the weights is an entry, as the count under "add_remove".
    factor : ndarray of shape (q + 2,)
        Factor on z with which rows that are not shrunk have length at most 1.
    """

    factor: FloatArray

    @classmethod
    def plan(cls, task: Task, radius: float = 1.0) -> TwoStages:
        """Calibrate both stages; a ``radius`` above 1 shrinks fewer rows and has more noise."""
        domain = task.design.domain
        blocks = tuple(tuple(range(b.start, b.stop)) for b in domain.blocks)
        numbers = tuple(int(j) for j in domain.number_index)
        layout = MomentLayout(
            domain.n_encoded, numbers, blocks, True, True, "add_remove", shifted=False
        )
        columns = (*numbers, domain.n_encoded)
        sums = ColumnSums(columns, task.n, tuple((j,) for j in columns))
        stages: Stages = _pure_stages(layout, sums, task)
        if task.delta > 0:
            first, second = _gaussian_stages(layout, sums, task)
            lesser = (first, least_beside(second, first.noise.guarantee))
            stages = min(stages, lesser, key=lambda pair: _usual_noise(pair, task))
        first, noise = stages
        return cls(layout, noise, task.n, first, _factor(layout, radius))

    @property
    def mechanism(self) -> str:
        """The sentence of a guarantee."""
        return (
            f"estimated centres and scales {self.first.description}, then"
            f" {self.layout.dim} moments around them with {type(self.noise).__name__}"
        )

    def first_deviation(self, n: float) -> float:
        """Return the standard deviation of the noise in a mean of the scaling stage."""
        return self.first.mean_deviation(n)

    def scaler(self, seen: Estimates) -> RowScaler:
        """Return the centres and scales of the numbers and of the target."""
        centre = seen.mean.clip(-1, 1)
        variance = MOMENTS.variance(seen.square - centre**2, self.first_deviation(seen.n))
        columns = self.layout.variables - 1
        scaler = Scaler.of(self.layout.n_encoded, columns, centre, np.sqrt(variance))
        return RowScaler(scaler, self.factor)


_SECOND = "noise on a matrix of moments of scaled rows"


def _pure_stages(
    layout: MomentLayout, sums: ColumnSums, task: Task
) -> tuple[ScalingStage, MatrixLaplaceNoise]:
    """Return noises of both stages whose epsilons add up."""
    moved, known = task.moved, float(task.known or 1)
    share = usual_share(sums_deviation(sums, moved) / (task.epsilon * known))
    spent = share * task.epsilon
    first = ScalingStage(sums, sums_noise(sums, moved, task.neighbors, spent))
    rest = task.epsilon - spent
    losses = losses_of_trace(rest, moved)
    pure = Guarantee(rest, 0.0, task.neighbors, f"Laplace {_SECOND}", losses=losses)
    precision = np.full(layout.n_rows, rest / (moved * _greatest_square(layout)))
    return first, MatrixLaplaceNoise(layout, precision, pure)


def _gaussian_stages(
    layout: MomentLayout, sums: ColumnSums, task: Task
) -> tuple[ScalingStage, MatrixGaussianNoise]:
    """Return Gaussian noises whose squared shifts add up to that of the whole release."""
    split = GaussianSplit(task.epsilon, task.delta, task.neighbors)
    found = independent(sums, gaussian=True)
    needed = found.length / (GOOD_NOISE * float(task.known or 1) * split.shift)
    share = min(max(needed, LEAST_SHIFT), MOST_SHIFT)
    noise = split.noise(sums.dim, found.length, share, "Gaussian noise on sums", found.units)
    shift, guarantee = split.part(rest_of(share), f"Gaussian {_SECOND}")
    # |zz' - z'z'| of two rows of length at most 1 is at most sqrt(2).
    distance = math.sqrt(task.moved) * _greatest_square(layout)
    second = MatrixGaussianNoise(layout, distance / shift * ROUND_UP, guarantee)
    return ScalingStage(found.sums, noise), second


def _usual_noise(stages: Stages, task: Task) -> float:
    """Return the noise of a moment of two columns of the usual variance, in their own units.

    The noise of the second stage is in units of the scales. The noise of the first stage bounds
    the scales from below.
    """
    first, second = stages
    least = MOMENTS.per_noise * first.mean_deviation(float(task.known or 1))
    return float(np.sqrt(second.entry_variance(0, 1))) * max(USUAL_SQUARE, min(least, 1.0))


def _greatest_square(layout: MomentLayout) -> float:
    """Return the greatest |z|^2 of a scaled row that was rounded to the grid."""
    return (1 + math.sqrt(layout.n_rows) * 2.0**-NUMBER_BITS) ** 2 * ROUND_UP


def _factor(layout: MomentLayout, radius: float) -> FloatArray:
    """Return sqrt(L / bound). With many numbers the other columns have greater weights."""
    numbers = len(layout.number_index)
    heavy = max(1.0, math.sqrt(numbers) / 1.5)
    weights = np.full(layout.n_rows, heavy)
    weights[layout.numbers] = 1.0
    for columns in layout.block_columns:
        # Each of many levels is rare. At most one indicator is 1, so that this costs little.
        weights[columns] = heavy * math.sqrt(len(columns))
    blocks = sum(float(weights[columns[0]]) for columns in layout.block_columns)
    bound = heavy + blocks + radius * (heavy * TARGET_RADIUS + RADIUS * numbers)
    return np.asarray(np.sqrt(weights / bound))
