"""Privately estimated clipping bounds for objective perturbation.

A share of epsilon is spent on means and mean squares of the numbers and of a regression's target.
Bounds are computed from them. Numbers are clipped to their bounds and scaled to [-1, 1]. A target
is scaled and not clipped, because the slope of the loss is bounded for every target. Statement and
proof: ``docs/proofs/objective_perturbation.md``, Theorem 5. The origin of the constants:
``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._compiled import kernels
from skdp.domain import Domain
from skdp.domain.layout import number_units
from skdp.linear_model._objective.problem import STEP, Coordinates, Curves, DesignRows
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import ROUNDER, in_units, of_shares, shared, sums_of
from skdp.linear_model._shared.task import Task
from skdp.linear_model._standardize.stage import (
    CLIPPING,
    Scaler,
    ScalingStage,
    sums_deviation,
    sums_noise,
    usual_share,
)
from skdp.linear_model._standardize.theorem import ColumnSums
from skdp.trusted.arrays import FloatArray, repeated, wide_rows
from skdp.trusted.checks import fail
from skdp.trusted.releases import NoisySum

# There is no release if the noise of its means would exceed this. If numbers are at least MAINLY of
# the coefficients, the average of their means may have the noise MOST_POOLED instead; all numbers
# then have the same bounds.
MOST_NOISE, MOST_POOLED, MAINLY = 0.5, 0.4, 0.6
# Without a share of the user only the target of a regression is scaled: clipped numbers would bias
# its coefficients. The share of epsilon, the greatest noise of the mean, and the distance of the
# bounds from the centre in standard deviations.
TARGET_SHARE, TARGET_NOISE, TARGET_ALONE = 0.05, 0.1, 3.0
# Distance of the bounds from the centre in standard deviations, for numbers and for a target that
# is scaled with them. With more than FARTHER_FROM records per dimension and unit of 1 / epsilon it
# increases with the power FARTHER: clipping reduces the noise, and little noise needs less.
RADIUS, TARGET_RADIUS, FARTHER_FROM, FARTHER = 1.3, 2.0, 100.0, 0.2
# The distance of the outermost knots of curves, for which wide bounds cost no noise. Few distant
# numbers determine the R^2 of a regression: with many records, and so many knots, it increases with
# the power CURVE_FARTHER of the increase of the others. The share of epsilon is at most
# CURVE_SHARE, and there is no release if the noise of a mean would exceed CURVE_NOISE.
CURVE_RADIUS, CURVE_FARTHER, CURVE_SHARE, CURVE_NOISE = 3.0, 1.5, 0.1, 0.1
# Estimated bounds are at least so far apart, as a share of the distance of the declared ones.
LEAST_WIDTH = 0.01


@dataclass(frozen=True, eq=False)
class ClippingBounds:
    """Bounds within [-1, 1] to which encoded numbers and the encoded target are clipped.

    ``columns`` are the encoded columns of the numbers; ``lower`` and ``upper`` have its shape.
    """

    columns: NDArray[np.intp]
    lower: FloatArray
    upper: FloatArray
    target: tuple[float, float] = (-1.0, 1.0)

    @classmethod
    def whole(cls, design: Design) -> ClippingBounds:
        columns = design.domain.number_index
        return cls(columns, np.full(len(columns), -1.0), np.ones(len(columns)))

    @cached_property
    def is_whole(self) -> bool:
        return bool((self.lower == -1).all() and (self.upper == 1).all())

    @cached_property
    def _wide(self) -> tuple[FloatArray, FloatArray]:
        return repeated(self.lower), repeated(self.upper)

    def scaler(self, n_encoded: int) -> Scaler:
        """Return the scaler that maps the bounds to [-1, 1]."""
        lower, upper = np.append(self.lower, self.target[0]), np.append(self.upper, self.target[1])
        columns = [*self.columns.tolist(), n_encoded]
        return Scaler.of(n_encoded, columns, (lower + upper) / 2, (upper - lower) / 2)

    def clip(self, numbers: FloatArray) -> None:
        """Clip encoded numbers, (n, n_numbers), in place."""
        if not self.is_whole:
            for rows in wide_rows(numbers):
                lower, upper = (bound[: rows.shape[1]] for bound in self._wide)
                # np.clip takes twice as long with arrays of bounds.
                np.maximum(rows, lower, out=rows)
                np.minimum(rows, upper, out=rows)

    def scale_target(self, target: NDArray[Any]) -> NDArray[Any]:
        """Return a target in units of its bounds; labels are not changed.

        It is not clipped: the slope of the loss is bounded for every target.
        """
        if self.target == (-1.0, 1.0):
            return target
        lower, upper = self.target
        return np.asarray((target - (lower + upper) / 2) / ((upper - lower) / 2))

    def in_units(self, domain: Domain) -> FloatArray:
        """Return the bounds in the user's units, (numbers, 2); for a ball those of its box."""
        half, centre = number_units(domain)
        return np.column_stack([self.lower * half + centre, self.upper * half + centre])

    def target_in_units(self, domain: Domain) -> tuple[float, float]:
        lower, upper = domain.decode_target(np.array(self.target)).tolist()
        return lower, upper


@dataclass(frozen=True, eq=False)
class ClippingStage(ScalingStage):
    """The release from which clipping bounds are computed; public information only.

    ``epsilon`` is that of the stage, ``radius`` a factor on RADIUS and TARGET_RADIUS. If > 0,
    ``curve_radius`` is the distance of the bounds of numbers with curves in standard deviations.
    """

    design: Design
    epsilon: float
    radius: float
    with_target: bool
    curve_radius: float = 0.0

    @cached_property
    def noisy_sum(self) -> NoisySum:
        """The release of the sums."""
        change = self.sums.change("add_remove" if self.sums.is_counted else "replace_one")
        return NoisySum("scaling", change, self.noise, "objective_perturbation.md, Theorem 5")

    @property
    def part(self) -> Callable[[DesignRows], Any]:
        """The function whose sums over rows of a design are released."""
        return shared(
            partial(_column_sums, with_target=self.with_target, with_numbers=self._with_numbers)
        )

    @property
    def _with_numbers(self) -> bool:
        return len(self.sums.columns) > self.with_target

    def exact(self, found: Any) -> NDArray[Any]:
        """Return the sums of `part` in the order of the release, (dim,)."""
        *sums, count = of_shares(found)
        placed = np.zeros((2, self.design.domain.n_encoded + 1), dtype=object)
        placed[:, list(self.sums.columns)] = sums
        return self.sums.exact(placed[0], placed[1], count[0])

    def bounds(self, exact: NDArray[Any], rng: Generator) -> ClippingBounds:
        """Release the sums and return clipping bounds."""
        seen = self.release(self.noisy_sum, exact, rng)
        noise = self.mean_deviations(seen.n)
        # Without an intercept the centres must be 0.
        means, squares = seen.mean, seen.square
        if noise[0] > MOST_NOISE and not self.with_target:
            # All numbers as one column: its mean and its mean square have less noise.
            noise = noise / math.sqrt(len(means))
            means, squares = (np.full(len(means), values.mean()) for values in (means, squares))
        mean = means.clip(-1, 1) if self.design.intercept else np.zeros_like(means)
        variance = CLIPPING.variance(squares.clip(0, 1) - mean**2, noise)
        radius = np.full(len(mean), self.curve_radius or self.radius * RADIUS)
        if self.with_target:
            radius[-1] = self.radius * (TARGET_RADIUS if self._with_numbers else TARGET_ALONE)
        half, centre = radius * np.sqrt(variance), CLIPPING.centre(mean, noise)
        lower, upper = np.maximum(centre - half, -1.0), np.minimum(centre + half, 1.0)
        whole, ends = ClippingBounds.whole(self.design), (-1.0, 1.0)
        if self.with_target:
            ends, lower, upper = (float(lower[-1]), float(upper[-1])), lower[:-1], upper[:-1]
        if not self._with_numbers:
            return replace(whole, target=ends)
        return ClippingBounds(whole.columns, lower, upper, ends)


def plan_clipping(
    task: Task,
    known: float,
    share: float | None,
    with_target: bool = False,
    curves: str | None = None,
) -> ClippingStage | None:
    """Return a calibrated stage, or None if its means would be too noisy or there is no number.

    ``known`` is the number of records or a public guess of it, and ``share`` the share of epsilon.
    If ``share`` is None, the rules choose it. ``curves`` is "chosen" or "given" if numbers have
    curves with a number of knots that the rules or the user chose.
    """
    design, epsilon = task.design, task.epsilon
    domain = design.domain
    if domain.is_ball and share is not None:
        rule = 'be "auto" or 0 where the domain bounds the length of rows'
        remedy = "Or declare a bound for each column: Domain.box."
        raise fail("scaling_share", rule, share, remedy)
    numbers = tuple(map(int, domain.number_index))
    columns = (*numbers, *(domain.n_encoded,) * with_target)
    if domain.is_ball or not columns:
        return None

    def sums_of_columns(columns: tuple[int, ...]) -> ColumnSums:
        return ColumnSums(columns, task.n, tuple((j,) for j in columns))

    def noise_of(columns: tuple[int, ...]) -> float:
        """Return the noise of the means if all of epsilon is spent on them."""
        return sums_deviation(sums_of_columns(columns), task.moved) / (epsilon * known)

    apart = 0.0
    if share is None:
        own = target = 0.0
        if numbers and (curves or not with_target):
            own = _number_share(noise_of(numbers), len(numbers), design.dim, bool(curves))
        if with_target and noise_of(columns[-1:]) <= TARGET_NOISE * TARGET_SHARE:
            target = TARGET_SHARE
        share, apart = own + target, target if own else 0.0
        if not share:
            return None
        columns = columns if own and target else numbers if own else columns[-1:]
        apart, with_target = apart / share, target > 0
    sums = sums_of_columns(columns)
    spent = share * epsilon
    noise = sums_noise(sums, task.moved, task.neighbors, spent, apart)
    weight = known * (epsilon - spent) / design.dim
    radius = max(1.0, weight / FARTHER_FROM) ** FARTHER
    is_farther = with_target and curves == "chosen"
    curve_radius = CURVE_RADIUS * (radius**CURVE_FARTHER if is_farther else 1.0) if curves else 0.0
    return ClippingStage(sums, noise, design, spent, radius, with_target, curve_radius)


def _number_share(noise: float, n_numbers: int, dim: int, curved: bool) -> float:
    """Return the share of epsilon for bounds of the numbers; 0 if they would be too noisy.

    ``noise`` is that of the means if all of epsilon is spent on them.
    """
    share, most = usual_share(noise), MOST_NOISE
    if curved:
        share, most = min(share, CURVE_SHARE), CURVE_NOISE
    elif n_numbers >= MAINLY * dim:
        most = max(most, MOST_POOLED * math.sqrt(n_numbers))
    return 0.0 if noise > most * share else share


def _column_sums(
    rows: DesignRows, with_target: bool, with_numbers: bool = True
) -> tuple[NDArray[np.int64], ...]:
    """Return the sums of the columns and of their squares, and the number of rows."""
    compiled, count = kernels(), np.array([len(rows)])
    numbers = rows.numbers if with_numbers else rows.numbers[:0]
    if compiled is None:
        found = sums_of(numbers.T.astype(np.float64))
    else:
        sums = np.empty((2, len(numbers)))
        compiled.sums_of_columns(numbers, ROUNDER, sums)
        found = in_units(sums[0]), in_units(sums[1])
    if not with_target:
        return *found, count
    own = sums_of(rows.target[:, None].copy())
    return *(np.append(*pair) for pair in zip(found, own, strict=True)), count


def finisher(
    bounds: ClippingBounds,
    coordinates: Coordinates,
    weigh: Callable[[DesignRows], DesignRows] | None,
    in_place: bool = False,
    curves: Curves | None = None,
) -> Callable[[DesignRows], DesignRows]:
    """Return the map that clips rows to bounds, scales them to [-1, 1], rounds and weighs them.

    With ``curves`` scaled numbers become positions. ``weigh`` returns rows with weights; None if
    every row has weight 1. If ``in_place``, the scaled numbers replace those of the rows in their
    array.
    """
    scaler = bounds.scaler(coordinates.design.domain.n_encoded)
    # 0 and 1 for the bounds of the domain.
    centre = scaler.centre[bounds.columns].astype(np.float32)
    factor = (1 / scaler.scale[bounds.columns]).astype(np.float32)
    # Adding and subtracting this rounds to multiples of the step.
    rounder = np.float32(1.5 * 2.0**23 * STEP)

    def finished(rows: DesignRows) -> DesignRows:
        numbers, compiled = rows.numbers if in_place else rows.numbers.copy(), kernels()
        if compiled is not None:
            compiled.scale_singles(numbers, centre, factor, rounder)
        else:
            numbers -= centre[:, None]
            numbers *= factor[:, None]
            np.clip(numbers, -1.0, 1.0, out=numbers)
            numbers += rounder
            numbers -= rounder
        # Rows of persons have weights already, which are kept.
        scaled = replace(rows, numbers=numbers, target=bounds.scale_target(rows.target))
        if curves:
            scaled = curves(scaled)
        return scaled if weigh is None else weigh(scaled)

    return finished
