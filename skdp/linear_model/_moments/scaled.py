"""Moments of scaled columns: a scaling stage, then products with the target and all moments.

Bounds that hold for all records are wide, and most records lie close together. A scaling stage
spends a part of epsilon on means and mean squares. Centres and scales are computed from it, and
two releases follow. The *cross* release has the sums of the target and of its products with the
features. Each number is clipped to a box around its centre. The *moments* release has all moments
of the rows z = (1, (x - centre) / scale). A row with z'Lz > bound is shrunk to z'Lz = bound. Each
record is mapped by itself, so that one record changes both by a bounded amount.

The share of the cross release is a continuous function of n epsilon: with few records nearly all,
as the noise in all moments hides the data, and with many records about a third. Statement and
proof: ``docs/proofs/moment_release.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.geometry.moment_layout import IntArray
from skdp.linear_model._moments.moments import MomentPlan, Moments, names_of
from skdp.linear_model._moments.parts import Parts, Radii
from skdp.linear_model._shared.gram import exact_both, exact_sums, release_exact
from skdp.linear_model._shared.task import Stage, losses_of_all
from skdp.linear_model._standardize.column_sums import Estimates
from skdp.linear_model._standardize.rules import MOMENTS
from skdp.linear_model._standardize.scaler import RowScaler, Scaler
from skdp.linear_model._standardize.stage import ScalingStage
from skdp.mechanisms.noise import first_covariance, publication, variances
from skdp.rows import Rows

# Centres and scales of the columns of (1, x, y).
Units = tuple[FloatArray, FloatArray]

# Upper bound on the square of a scale.
MOST_VARIANCE = 0.5
# Of the mean weight of a row: the usual square of its distance from 1, and a lower limit.
WEIGHT_VARIANCE, LEAST_WEIGHT = 0.01, 0.2


@dataclass(frozen=True, eq=False)
class ScaledMoments(MomentPlan):
    """A plan of the three releases; public information only.

    Attributes
    ----------
    layout : MomentLayout
        The moments of rows (1, z) of length at most 1. The weight of a row is private. Hence the
        sum of the weights is an entry, as the count under "add_remove".
    noise : noise of the moments
    first : ScalingStage
    cross : noise of the cross release
    radii : Radii
    """

    first: ScalingStage
    cross: Any
    radii: Radii

    @classmethod
    def of(cls, parts: Parts, n: int | None) -> ScaledMoments:
        """Return the plan with calibrated noises."""
        return cls(parts.layout, parts.noise, n, parts.first, parts.cross, parts.radii)

    @property
    def noises(self) -> tuple[Any, Any, Any]:
        """The noises of the releases, in their order."""
        return self.first.noise, self.cross, self.noise

    @property
    def mechanism(self) -> str:
        """The sentence of a guarantee."""
        return (
            f"estimated centres and scales {self.first.description}, then {self.cross.dim} products"
            f" with the target with {type(self.cross).__name__} and"
            f" {self.layout.dim} moments around them with {type(self.noise).__name__}"
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the fit. Those with Gaussian noise are composed jointly."""
        names = zip(("scaling", "cross", "moments"), self.noises, strict=True)
        if self.delta > 0:
            return tuple(Stage.of(name, noise) for name, noise in names)
        return tuple(Stage.of(name, noise, noise.guarantee.epsilon, 0.0) for name, noise in names)

    @property
    def losses(self) -> tuple[Any, ...]:
        """Privacy losses of all releases with counts; empty if one of them has none."""
        return losses_of_all(noise.guarantee.losses for noise in self.noises)

    def check_published(self) -> None:
        """Raise an error if 53-bit floats cannot keep the guarantee."""
        for noise in self.noises:
            publication(noise)

    def sums(self, rows: Rows) -> NDArray[Any]:
        """Return the exact sums of the scaling stage, in units of 2^-40."""
        return self.first.sums.exact(*exact_sums(rows))

    def release(self, exact: NDArray[Any], rows: Rows, rng: Generator) -> Moments:
        """Release all stages."""
        seen = self.first.release(exact, rng)
        box, scaler = self.scalers(seen)
        cross, statistic = exact_both(rows, box.place, self.layout, scaler.place)
        crossed = release_exact(self.cross, cross, rng)
        released = release_exact(self.noise, statistic, rng)
        return self.moments(seen, box, scaler, crossed, released, names_of(rows.domain))

    def first_deviations(self, n: float) -> tuple[FloatArray, FloatArray]:
        """Return the standard deviations of the scaling stage: of means and of mean squares.

        The means are those of (1, x, y), and the first mean square is that of y.
        """
        sizes, adds, width = self.first.deviations(n), int(self.first.sums.is_counted), self.width
        count = sizes[0] if adds else 0.0
        means = np.append(count, sizes[adds : adds + width - 1])
        # Under add/remove the count was subtracted from the squares. The noisy count is added.
        return means, np.hypot(sizes[adds + width - 1 :], count) / 2

    @property
    def width(self) -> int:
        """Number of columns of (1, x, y)."""
        return self.layout.n_rows

    def scalers(self, seen: Estimates) -> tuple[RowScaler, RowScaler]:
        """Return the box of the cross release, and the map of the rows whose moments follow."""
        numbers, last = self.layout.numbers, self.width - 1
        columns = np.append(numbers, last)
        centre = seen.mean[columns - 1].clip(-1, 1)
        squares = centre**2
        if len(numbers) and len(seen.square) == 2:  # one mean square of all numbers
            squares[:-1] = squares[:-1].mean()
        variance = np.append(np.broadcast_to(seen.square[1:], len(numbers)), seen.square[0])
        noise = self.first_deviations(seen.n)[0][columns]
        scale = np.sqrt(MOMENTS.variance(variance - squares, noise).clip(max=MOST_VARIANCE))
        scaler = Scaler.of(self.layout.n_encoded, columns - 1, centre, scale)
        radius = np.append(np.full(len(numbers), self.radii.number), self.radii.target)
        factor = np.ones(self.width)
        # No column is further from its centre than the bounds of the domain.
        factor[columns] = 1 / np.minimum(radius, (1 + np.abs(centre)) / scale)
        return RowScaler(scaler, factor, clips=True), RowScaler(scaler, self.radii.factor)

    def moments(
        self,
        seen: Estimates,
        box: RowScaler,
        scaler: RowScaler,
        crossed: FloatArray,
        released: FloatArray,
        names: tuple[str, ...],
    ) -> Moments:
        """Return the moments that all releases estimate, weighted by their precisions."""
        own = Moments.of(self, released, names, scaler)
        units = self._units(own)
        pooled = _in_units(own, units, seen.n)
        self._add_first(pooled, seen, units)
        self._add_cross(pooled, seen.n, box, crossed, units)
        return replace(
            own,
            gram=seen.n * pooled.matrix,
            deviation=seen.n * np.sqrt(pooled.variance),
            own_square=np.zeros_like(own.own_square),
            centre=units[0],
            scale=units[1],
            is_scaled=True,
            released=released,
        )

    def _units(self, own: Moments) -> Units:
        """Return the units of the posterior mean; indicators have those of equally frequent levels.

        The others are those of the release.
        """
        centre, scale = own.centre.copy(), own.scale.copy()
        for columns in self.layout.block_columns:
            share = 1 / (len(columns) + 1)
            centre[columns], scale[columns] = share, math.sqrt(share * (1 - share))
        return centre, scale

    def _add_first(self, pooled: _Pooled, seen: Estimates, units: Units) -> None:
        """Add the means, and the mean square of the target, of the scaling stage."""
        (centre, scale), last = units, self.width - 1
        deviation, squares = self.first_deviations(seen.n)
        mean = (np.append(1.0, seen.mean) - centre) / scale
        noise = (deviation / scale) ** 2 + (centre * deviation[0] / scale) ** 2
        pooled.add(0, np.arange(1, self.width), mean[1:], noise[1:])
        middle = centre[-1]
        square = (seen.square[0] - 2 * middle * seen.mean[-1] + middle**2) / scale[-1] ** 2
        noise = np.hypot(squares[:1], 2 * middle * deviation[-1]) / scale[-1] ** 2
        pooled.add(last, np.array([last]), square, noise**2)
        pooled.matrix[0, 0], pooled.variance[0, 0] = 1.0, deviation[0] ** 2

    def _add_cross(
        self, pooled: _Pooled, n: float, box: RowScaler, crossed: FloatArray, units: Units
    ) -> None:
        """Add the means of the target and of its products with the features."""
        centre, scale = units
        moved = np.where(box.scale != scale, centre, 0.0)[:-1]
        unit = n * box.factor[-1] * box.factor[:-1] * scale[:-1] / box.scale[:-1]
        own, shared = variances(self.cross), first_covariance(self.cross) * moved
        variance = (own - 2 * shared + moved**2 * own[0]) / unit**2
        means = (crossed - moved * crossed[0]) / unit
        pooled.add(self.width - 1, np.arange(self.width - 1), means, variance)


def _in_units(own: Moments, units: Units, n: float) -> _Pooled:
    """Return the means of products of the third release, and their variances, in some units."""
    (centre, scale), weight = units, n * _mean_weight(own, n)
    guessed = own.scale != scale
    step = np.diag(np.where(guessed, 1 / scale, 1.0))
    step[guessed, 0] = -centre[guessed] / scale[guessed]
    matrix = step @ (own.gram / weight) @ step.T
    return _Pooled(matrix, step**2 @ (own.deviation / weight) ** 2 @ step.T**2)


def _mean_weight(own: Moments, n: float) -> float:
    """Return the mean weight of a row, with a noisy one shrunk towards 1."""
    variance = (float(own.deviation[0, 0]) / n) ** 2
    kept = WEIGHT_VARIANCE / (WEIGHT_VARIANCE + variance)
    return min(1.0, max(LEAST_WEIGHT, 1 + kept * (float(own.gram[0, 0]) / n - 1)))


@dataclass(frozen=True, eq=False)
class _Pooled:
    """Estimates of a symmetric matrix, and their variances, to which further ones are added."""

    matrix: FloatArray
    variance: FloatArray

    def add(self, i: int, j: IntArray, values: FloatArray, variances: FloatArray) -> None:
        """Add independent estimates of entries (i, j), j without repetition."""
        own = self.variance[i, j]
        total = own + variances
        kept = np.divide(variances, total, out=np.ones(len(j)), where=total > 0)
        self.matrix[i, j] = self.matrix[j, i] = kept * self.matrix[i, j] + (1 - kept) * values
        self.variance[i, j] = self.variance[j, i] = own * kept
