"""Moments with the target only, for few records: a scaling stage, then cross products.

With few records the noise in all products of two features hides the data. The scaling stage
releases the means of all columns, the mean square of the target and one mean square of all
numbers together. The second stage releases the sums of the target and of its products with the
features. Each number is clipped to a box around its estimated centre. These are about 2 q sums in
place of q^2 / 2. The products of features are not released. They are guessed after the release
(``postprocess.py``). Statement and proof: ``docs/proofs/moment_release.md``, "Cross moments".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.geometry import LpBall, NormBall, ProductBall
from skdp.geometry.encoded_rows import rows_ball
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._moments.moments import Moments, TwoReleases
from skdp.linear_model._shared.gram import Place, exact_cross
from skdp.linear_model._shared.task import Task
from skdp.linear_model._standardize.column_sums import ColumnSums, Estimates
from skdp.linear_model._standardize.independent import REPLACED_WEIGHT
from skdp.linear_model._standardize.rules import CROSS
from skdp.linear_model._standardize.scaler import RowScaler, Scaler
from skdp.linear_model._standardize.stage import GaussianSplit, ScalingStage, rest_of
from skdp.mechanisms import GaussianNoise, KNormNoise, Sensitivity, calibrate
from skdp.mechanisms.noise import variances
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.rows import Rows

Stages = tuple[ScalingStage, KNormNoise | GaussianNoise]

# Share of epsilon for the scaling stage, and of the shift with Gaussian noise (squares add up).
FIRST, FIRST_SHIFT = 0.35, 0.6
# Numbers and the target are clipped at so many scales from their centres.
RADIUS = 1.5
# Upper bound on the square of a scale.
MOST_VARIANCE = 0.5


@dataclass(frozen=True, eq=False)
class CrossMoments(TwoReleases):
    """A plan of both stages; public information only.

    ``layout`` describes all moments of the rows (1, x, y), most of which are not released.
    """

    @classmethod
    def plan(cls, task: Task) -> CrossMoments:
        """Calibrate both stages, with the noise of less variance if delta > 0."""
        domain = task.design.domain
        layout = MomentLayout.of(domain, target_square=True, neighbors=task.neighbors)
        target, numbers = (domain.n_encoded,), layout.number_index
        squares = (target, numbers) if numbers else (target,)
        sums = ColumnSums(tuple(range(domain.n_encoded + 1)), task.n, squares)
        stages: Stages = _pure_stages(domain, layout, sums, task)
        if task.delta > 0:
            gaussian = _gaussian_stages(layout, sums, stages[1].dim, task)
            stages = min(stages, gaussian, key=lambda pair: float(variances(pair[1]).mean()))
        first, noise = stages
        return cls(layout, noise, task.n, first)

    @property
    def mechanism(self) -> str:
        """The sentence of a guarantee."""
        return (
            f"estimated means and scales {self.first.description}, then {self.noise.dim} products"
            f" with the target around them with {type(self.noise).__name__}"
        )

    def first_deviation(self, n: float) -> float:
        """Return the standard deviation of the noise in the target's mean, in the scaling stage."""
        return float(self.first.deviations(n)[self.layout.n_encoded + self.layout.adds])

    def noise_length(self, n: float) -> float:
        """Return the root mean square length of the noise in the means of the second stage."""
        return float(np.sqrt(variances(self.noise).sum())) / n

    def mean_deviations(self, n: float) -> FloatArray:
        """Return the standard deviation of the noise in the means of (1, x, y).

        The first entry is that of the count over n.
        """
        sizes, adds = self.first.deviations(n), int(self.layout.adds)
        head = sizes[:adds] if adds else [0.0]
        return np.concatenate([head, sizes[adds : adds + self.layout.n_rows - 1]])

    def scaler(self, seen: Estimates) -> RowScaler:
        """Return a box around the estimated centres of the numbers and of the target."""
        numbers, width = self.layout.numbers, self.layout.n_rows
        factor, deviation = np.ones(width), self.mean_deviations(seen.n)
        own, noise, spread = seen.mean[numbers - 1].clip(-1, 1), deviation[numbers], deviation[-1]
        size = float(own @ own)
        # James and Stein's factor: means that are mostly noise are shrunk to 0.
        kept = max(0.0, 1 - float(noise @ noise) / size) if size > 0 else 0.0
        centre = np.append(kept * own, seen.mean[-1].clip(-1, 1))
        within = seen.square[-1] - kept * size / max(1, len(numbers))
        variance = np.full(len(centre), within)
        variance[-1] = seen.square[0] - centre[-1] ** 2
        scale = np.sqrt(CROSS.variance(variance, spread).clip(max=MOST_VARIANCE))
        factor[numbers] = factor[-1] = 1 / RADIUS
        columns = np.append(numbers - 1, self.layout.n_encoded)
        return RowScaler(Scaler.of(self.layout.n_encoded, columns, centre, scale), factor, True)

    def exact_moments(self, rows: Rows, place: Place | None = None) -> NDArray[Any]:
        """Return the sums of the target and of its products, in units of 2^-40."""
        return exact_cross(rows, place)

    def moments(
        self, seen: Estimates, box: RowScaler, released: FloatArray, names: tuple[str, ...]
    ) -> Moments:
        """Return the moments of rows whose indicators have a guessed mean and scale."""
        centre, scale, n = box.centre.copy(), box.scale.copy(), seen.n
        for columns in self.layout.block_columns:
            share = 1 / (len(columns) + 1)
            centre[columns], scale[columns] = share, math.sqrt(share * (1 - share))
        moved = np.where(box.scale != scale, centre, 0.0)[:-1]
        unit = box.factor[-1] * box.factor[:-1] * scale[:-1] / box.scale[:-1]
        cross = (released - moved * released[0]) / unit
        noise = self.noise.covariance()
        spread = np.sqrt(np.diag(noise) - 2 * moved * noise[0] + moved**2 * noise[0, 0]) / unit
        width, means, own = self.layout.n_rows, np.append(1.0, seen.mean), self.mean_deviations(n)
        gram, deviation = np.full((width, width), np.nan), np.full((width, width), np.inf)
        gram[0] = n * (means - centre) / scale
        deviation[0] = n * np.hypot(own, centre * own[0]) / scale
        gram[1:-1, -1], deviation[1:-1, -1] = cross[1:], spread[1:]
        middle = centre[-1]
        square = seen.square[0] - 2 * middle * means[-1] + middle**2
        gram[-1, -1] = n * square / scale[-1] ** 2
        # Under add/remove the count was subtracted from the squares. The noisy count is added.
        first = math.hypot(self.first.deviations(n)[width - 1 + self.layout.adds], own[0]) / 2
        deviation[-1, -1] = n * math.hypot(first, 2 * middle * own[-1]) / scale[-1] ** 2
        # Both stages estimate the target's mean. The estimates are weighted by their precisions.
        both = np.array([deviation[0, -1], spread[0]]) ** -2.0
        gram[0, -1] = (both @ [gram[0, -1], cross[0]]) / both.sum()
        deviation[0, -1] = both.sum() ** -0.5
        gram[:, 0], deviation[:, 0] = gram[0], deviation[0]
        gram[-1], deviation[-1] = gram[:, -1], deviation[:, -1]
        squares = np.zeros(width, dtype=np.bool_)
        return Moments(names, gram, deviation, squares, centre, scale, self.layout, self.noise)


def _pure_stages(
    domain: Domain, layout: MomentLayout, sums: ColumnSums, task: Task
) -> tuple[ScalingStage, KNormNoise]:
    """Return noises of both stages whose epsilons add up."""
    spent = FIRST * task.epsilon
    parts = ((_first_ball(domain, layout), spent), (rows_ball(domain), task.epsilon - spent))
    first, second = (
        calibrate("hull", Sensitivity(ball, task.moved, task.neighbors), epsilon=part)
        for ball, part in parts
    )
    assert isinstance(first, KNormNoise)
    assert isinstance(second, KNormNoise)
    return ScalingStage(sums, first), second


def _first_ball(domain: Domain, layout: MomentLayout) -> NormBall:
    """Return a ball that holds the contribution of one record; twice it holds differences."""
    # The numbers, the target with 2 y^2 or 2 y^2 - 1, and the same sum for the numbers' squares.
    parts: list[NormBall] = [rows_ball(domain, intercept=False), LpBall(2, p=math.inf)]
    if layout.number_index:
        parts.append(LpBall(1, p=math.inf, radius=float(len(layout.number_index))))
    return ProductBall(tuple([LpBall(1)] * layout.adds + parts))


def _gaussian_stages(
    layout: MomentLayout, sums: ColumnSums, dim: int, task: Task
) -> tuple[ScalingStage, GaussianNoise]:
    """Return Gaussian noises whose squared shifts add up to that of the whole release."""
    split, what = GaussianSplit(task.epsilon, task.delta, task.neighbors), "Gaussian noise on sums"
    first, second = lengths(layout)
    noise = split.noise(sums.dim, first, FIRST_SHIFT, what, first_units(layout, sums))
    return ScalingStage(sums, noise), split.noise(dim, second, rest_of(FIRST_SHIFT), what)


def first_units(layout: MomentLayout, sums: ColumnSums) -> FloatArray:
    """Return the units of the scaling stage's sums in which changes are bounded, (dim,)."""
    numbers, units = len(layout.number_index), np.ones(sums.dim)
    if layout.adds:
        units[-1] = max(1, numbers)
        return units
    # The last sum is that of all numbers' squares.
    units[-2 if numbers else -1] = 2 / REPLACED_WEIGHT
    if numbers:
        units[-1] = 2 * math.sqrt(numbers) / REPLACED_WEIGHT
    return units


def lengths(layout: MomentLayout) -> tuple[float, float]:
    """Return the greatest length of the change that one record makes in each stage."""
    numbers, blocks = len(layout.number_index), len(layout.block_columns)
    second = 1 + numbers + blocks
    if layout.adds:
        first = float(1 + numbers + (numbers > 0) + blocks + 2)
        return math.sqrt(first) * ROUND_UP, math.sqrt(second) * ROUND_UP
    # With this weight of a square the bound is 4 for each number and for the target. Two levels
    # of a block are sqrt(2) apart.
    first = 4.0 * (numbers + 1) + 2 * blocks
    return math.sqrt(first) * ROUND_UP, 2 * math.sqrt(second) * ROUND_UP
