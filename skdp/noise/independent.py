"""Trusted. Independent noise of one law: in each coordinate, or for many scalar releases.

For noise with independent coordinates of one even log-concave law, the least delta is a symmetric
and quasi-convex function of the shift. It grows with the size of every coordinate and in the order
of weak majorisation, that is with the sums of the k greatest sizes, for every k. Changes are
therefore represented by these sums (docs/proofs/worst_shift.md). An iterative method releases
numbers one after the other. One record changes each number by at most a size that is fixed in
advance, so the losses add up (docs/proofs/repeated_releases.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp.noise.law import Law, Size
from skdp.noise.laws import Gaussian, Laplace, Logistic, Subbotin
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import Change, LpBall, NormBall, ask, greatest_square, known
from skdp.trusted.checks import check_choice, check_count, check_numbers, check_positive, fail
from skdp.trusted.losses import GaussianLoss, Losses
from skdp.trusted.noise import BaseNoise, Publication, paid_in_full, published
from skdp.trusted.randomness import Lattice, RandomStateLike, as_generator, granularity_of
from skdp.trusted.statement import NEIGHBORS, Public, Spent, up

# Sizes and the number of coordinates of each, in falling order.
Shift = tuple[tuple[float, int], ...]


MOST_GROUPS = 8


@dataclass(frozen=True)
class WorstShift:
    """A shift ``above`` that weakly majorises all changes, whose greatest length is ``length``."""

    above: Shift
    length: float

    @property
    def is_single(self) -> bool:
        return len(self.above) == 1 and self.above[0][1] == 1

    def of_equal_sizes(self) -> WorstShift:
        """Return equal sizes of the same length and nearly the same sum, to compare laws by."""
        length = length_of(self.above)
        count = max(1, round((self.total / length) ** 2))
        return WorstShift(((length / math.sqrt(count), count),), self.length)

    @property
    def total(self) -> float:
        """Greatest sum of absolute values of a difference."""
        return sum(size * count for size, count in self.above)


def length_of(shift: Shift) -> float:
    return math.sqrt(math.fsum(count * size**2 for size, count in shift))


def worst_shift(change: Change, proportions: FloatArray) -> WorstShift:
    """Return the worst shift for noise whose coordinate j has scale proportions[j] > 0.

    Coordinates of differences are divided by the proportions.
    """
    ball, radius = change.ball, change.radius * ROUND_UP
    length = radius * math.sqrt(greatest_square(ball, proportions**-2.0))
    points = None if type(ball) is LpBall else known(ball, "extreme_points")
    if points is None or not len(points):
        return WorstShift(_grouped(radius * _curve_of_ball(ball, proportions)), length)
    # The sums of the k greatest sizes of the extreme points, (m, dim).
    curves = np.cumsum(-np.sort(-np.abs(points) / proportions, axis=1), axis=1)
    return WorstShift(_grouped(radius * _concave(curves.max(axis=0))), length)


def _curve_of_ball(ball: NormBall, proportions: FloatArray) -> FloatArray:
    """Return bounds on the sum of the k greatest sizes over the ball, k = 1, ..., dim; concave."""
    if type(ball) is LpBall:
        widths = -np.sort(-ball.bounding_box() / proportions)
        if ball.p == 1:
            return np.full(ball.dim, widths[0])
        dual = 1 / (1 - 1 / ball.p)
        return np.asarray(widths[0] * np.cumsum((widths / widths[0]) ** dual) ** (1 / dual))
    box = np.cumsum(-np.sort(-ask(ball, "bounding_box") / proportions))
    k = np.arange(1, ball.dim + 1)
    square = math.sqrt(greatest_square(ball, proportions**-2.0))
    plain = bool((proportions == proportions[0]).all())
    around = LpBall(ball.dim, 1, weights=None if plain else tuple(1 / proportions))
    total = Change(ball).radius_in(around) / (proportions[0] if plain else 1.0)
    return np.asarray(np.minimum(np.minimum(box, total), np.sqrt(k) * square))


def _concave(curve: FloatArray) -> FloatArray:
    """Return the least concave majorant of a curve through (0, 0), at k = 1, ..., dim."""
    heights = np.concatenate([[0.0], curve])
    corners = [0]
    for k in range(1, len(heights)):
        while len(corners) > 1:
            left, middle = corners[-2:]
            chord = (heights[k] - heights[left]) / (k - left) * (middle - left)
            if heights[middle] - heights[left] > chord:
                break
            corners.pop()
        corners.append(k)
    return np.asarray(np.interp(np.arange(1, len(heights)), corners, heights[corners]))


def _grouped(curve: FloatArray) -> Shift:
    """Return the shift with these sums, where nearly equal sizes are rounded up to one."""
    sizes = np.diff(curve, prepend=0.0)
    groups = _runs(sizes)
    if len(groups) <= MOST_GROUPS:
        return groups
    # The steps of a concave curve above this one, the minimum of a few tangents.
    touch = np.unique(np.geomspace(1, len(curve), MOST_GROUPS // 2).round().astype(int)) - 1
    k = np.arange(len(curve))
    lines = curve[touch, None] + sizes[touch, None] * (k - touch[:, None])
    return _runs(np.diff(lines.min(axis=0), prepend=0.0))


def _runs(sizes: FloatArray) -> Shift:
    falling = np.maximum.accumulate(np.maximum(sizes, 0.0)[::-1])[::-1]
    # Negligible sizes are added to the greatest size, which is on the safe side.
    small = falling < 1e-12 * falling[0]
    falling[0] += falling[small].sum()
    groups: list[tuple[float, int]] = []
    for size in falling[~small].tolist():
        if groups and size >= groups[-1][0] * (1 - 1e-12):
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((size, 1))
    return tuple(groups)


def greatest_slope(law: Any) -> float:
    """Return sup |(log f)'|, by which v times bounds the loss of a shift v; inf if unknown."""
    if type(law) in (Laplace, Logistic) or (type(law) is Subbotin and law.r == 1):
        return 1 / float(law.scale)  # Subbotin's law at r = 1 is Laplace's
    return float(law.greatest_slope()) if hasattr(law, "greatest_slope") else math.inf


def losses_of(law: Law, shift: Shift, length: float, scale: float) -> Losses:
    """Return the privacy losses of noise of a scale for a shift of this Euclidean length."""
    rate = up(1 / scale)
    if type(law) is Gaussian:
        return ((GaussianLoss(up(length * rate / law.scale)), 1),)
    return tuple((ShiftLoss(law, up(size * rate)), count) for size, count in shift)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class IndependentNoise(BaseNoise):
    """Independent noise: coordinate j is scale[j] X_j, all X_j of one law.

    Attributes
    ----------
    law : Law
        The law of every X_j.
    scale : array of shape (dim,), units of the released value
    guarantee : Guarantee
        Guarantee of one release.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("flipped_huber", Sensitivity(LpBall(1)), epsilon=1.0, delta=0.01)
    >>> type(noise).__name__, float(noise.covariance()[0, 0].round(3))
    ('IndependentNoise', 1.704)
    >>> noise.release([412.0]).shape
    (1,)
    """

    law: Law
    scale: FloatArray
    guarantee: Any = None  # stated by `certified`
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scale = check_numbers("scale", self.scale)
        if scale.ndim != 1 or not (np.isfinite(scale) & (scale > 0)).all():
            raise fail("scale", "contain one finite number > 0 for each coordinate", scale.shape)
        object.__setattr__(self, "scale", scale)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.scale)

    def coordinate(self, j: int = 0) -> Law:
        """Return the law of the noise in coordinate j."""
        return self.law.scaled(float(self.scale[j]))

    def spent(self, change: Change, public: Public) -> Spent:
        """Return the privacy loss for a shift that majorises all changes."""
        worst = worst_shift(change, self.scale)
        losses = losses_of(self.law, worst.above, worst.length, 1.0)
        return Spent(up(worst.total * greatest_slope(self.law)), losses)

    @property
    def granularity(self) -> float:
        return granularity_of(self.law)

    def _draw(self, rng: Generator) -> FloatArray:
        return np.asarray(self.scale * self.law.rvs(self.dim, rng))

    def variance(self) -> FloatArray:
        return np.asarray(self.law.var() * self.scale**2)

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        return np.asarray(self.scale * self.law.rvs((n, self.dim), rng))


@dataclass(frozen=True)
class Releases:
    """Planned scalar releases, and how much one record changes each of them.

    Parameters
    ----------
    shifts : sequence of (size, count)
        ``count`` releases, an int >= 1, that one record changes by at most ``size``, a float in
        (0, inf) in units of the released value. Stored in falling order, equal sizes together.
    neighbors : {"replace_one", "add_remove"}
        Relation for which the sizes hold.

    Raises
    ------
    ValueError
        If there is no pair, or one is out of range.

    Examples
    --------
    >>> Releases([(0.5, 10), (2.0, 3), (0.5, 2)], "replace_one").shifts
    ((2.0, 3), (0.5, 12))
    """

    shifts: Shift
    neighbors: str

    def __init__(self, shifts: Sequence[tuple[float, int]], neighbors: str) -> None:
        remedy = "Write shifts=[(2.0, 100)], say: 100 numbers that one record moves by at most 2."
        pairs = isinstance(shifts, tuple | list) and all(
            isinstance(pair, tuple | list) and len(pair) == 2 for pair in shifts
        )
        if not pairs or not shifts:
            raise fail("shifts", "be one or more pairs of a size and a count", remedy=remedy)
        counts: Counter[float] = Counter()
        for size, count in shifts:
            counts[check_positive("size in shifts", size)] += check_count("count in shifts", count)
        object.__setattr__(self, "shifts", tuple(sorted(counts.items(), reverse=True)))
        object.__setattr__(self, "neighbors", check_choice("neighbors", neighbors, NEIGHBORS))

    @property
    def count(self) -> int:
        """Number of releases."""
        return sum(count for _, count in self.shifts)


@dataclass(frozen=True)
class RepeatedNoise(BaseNoise):
    """Noise for each of several scalar releases.

    Attributes
    ----------
    law : Law
        The law of the noise of one release, in units of the released value.
    shifts : tuple of (float, int)
        The releases of the calibration, as in `Releases`.
    guarantee : Guarantee
        Guarantee of all releases together, each with a draw of its own.

    Examples
    --------
    >>> from skdp.mechanisms import calibrate_releases
    >>> noise = calibrate_releases(
    ...     "auto", [(1.0, 100)], neighbors="add_remove", epsilon=1.0, delta=1e-6
    ... )
    >>> type(noise).__name__, noise.guarantee.epsilon
    ('RepeatedNoise', 1.0)
    >>> daily = [noise.release([float(count)]) for count in (12, 15, 11)]
    >>> len(daily)
    3
    """

    law: Law
    shifts: Shift
    guarantee: Any = None  # stated by `certified`
    dim: ClassVar[int] = 1
    log_concave: ClassVar[bool] = True
    spends_all: ClassVar[bool] = True

    def spent(self, change: Releases, public: Public) -> Spent:
        """Return the privacy loss of all releases together."""
        length, total = length_of(change.shifts), math.fsum(n * v for v, n in change.shifts)
        few = fewer(change.shifts, MOST_SIZES)  # they majorise all of them
        losses = losses_of(self.law, few, length, 1.0)
        return Spent(up(total * greatest_slope(self.law)), losses)

    @property
    def granularity(self) -> float:
        return granularity_of(self.law)

    def rvs(self, rng: RandomStateLike = None, size: Size = None) -> FloatArray:
        """Return independent draws of shape ``size``, (1,) if None, for simulations."""
        return np.asarray(self.law.rvs(1 if size is None else size, as_generator(rng)))

    @cached_property
    def publication(self) -> Publication:
        return self.publication_for(np.ones(1), 1)

    def publication_for(self, factors: FloatArray, numbers: int) -> Publication:
        """Return the lattice and stretch of draws, each times a public factor.

        Parameters
        ----------
        factors : ndarray of shape (k,), entries > 0
        numbers : int
            Greatest number of values that one of the ``shifts`` pays for together.
        """
        halves = np.array([size / 2 for size, _ in self.shifts])
        distance = float(np.min(-np.expm1(math.log(2) + np.asarray(self.law.logsf(halves)))))
        count = sum(count for _, count in self.shifts)
        whole = max(math.exp(float(loss.log_delta(0.0))) for loss, _ in self.guarantee.losses)

        def shrink(lattice: Lattice) -> float:
            # Each release is paid by its own distance, or all by that of the composition.
            cost = numbers / lattice.dither
            return min(paid_in_full(cost, distance), paid_in_full(cost * count, whole))

        return published(factors * math.sqrt(self.var()), self.granularity, shrink)

    def release(self, value: ArrayLike, rng: RandomStateLike = None) -> FloatArray:
        """Return numbers, (k,), with a draw each, on a lattice; see `KNormNoise.release`.

        Each number is one of the releases for which the noise was calibrated.
        """
        count = np.size(value)
        lattice, stretch = self.publication_for(np.ones(count), 1)
        return lattice.publish(value, lambda g: stretch * self.rvs(g, count), rng, self, stretch)

    def var(self) -> float:
        """Return the variance of the noise of one release."""
        return float(self.law.var())

    def variance(self) -> FloatArray:
        """Return the variance of one draw, (1,)."""
        return np.array([self.var()])

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        return self.rvs(rng, (n, 1))


# Up to so many sizes are composed one by one; more are replaced by a few that are worse.
MOST_SIZES = 16


def fewer(shifts: Shift, most: int) -> Shift:
    """Return at most ``most`` sizes whose k greatest have no lesser sum, for every k.

    The sum of the k greatest sizes is a concave function of k. Tangents lie above it, and so does
    the polygon that leaves each tangent at an integer k, at or after the crossing with the next.
    """
    if len(shifts) <= most:
        return shifts
    sizes, counts = (np.array(column, dtype=float) for column in zip(*shifts, strict=True))
    ends = np.cumsum(counts)
    at = np.searchsorted(ends, np.linspace(0, ends[-1], most))
    touched = np.unique(np.minimum(at, len(sizes) - 1))
    slopes, heights = sizes[touched], (np.cumsum(sizes * counts) - sizes * ends)[touched]
    crossed = np.floor(np.diff(heights) / -np.diff(slopes)) + 1
    places = np.maximum.accumulate(np.minimum(np.append(crossed, ends[-1]), ends[-1]))
    steps = np.diff(places, prepend=0.0)
    return tuple((float(s), int(n)) for s, n in zip(slopes, steps, strict=True) if n > 0)
