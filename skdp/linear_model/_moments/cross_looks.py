"""Two short looks for few records: where the columns lie, then their products with the target.

Noise in all products of two features drowns small data. Here the first look releases the means
of all columns, the mean square of the target and one mean square for all numbers together; the
second releases the sums of the products of the target with the features, and of the target, each
number clipped to a box around where the first look found it. That is some 2 q sums in place of
q^2 / 2. What features have to do with each other stays unknown, and is guessed after the release
(``postprocess.py``). Statement and proof: ``docs/proofs/moment_release.md``, "Cross looks".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.geometry import LpBall, NormBall, ProductBall
from skdp.geometry.encoded_rows import rows_ball
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._moments.moments import Moments
from skdp.linear_model._moments.two_looks import Frame
from skdp.linear_model._shared.gram import GRAM_BITS, exact_gram, exact_sums
from skdp.mechanisms import GaussianNoise, KNormNoise, Sensitivity, calibrate
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.noise import publication, release_integers, variances
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.privacy import Guarantee
from skdp.privacy.losses.losses import GaussianLoss

Noises = tuple[KNormNoise | GaussianNoise, KNormNoise | GaussianNoise]

# Share of epsilon for the first look; of the shift where noise is Gaussian, whose squares add up.
FIRST, FIRST_SHIFT = 0.35, 0.6
# Numbers and the target are clipped to so many scales.
REACH = 1.5
# A variance is no less than so many deviations of the noise of a mean, nor than the other says.
NOISE_IN_SQUARE, MOST_FLOOR = 0.7, 0.3**2
LEAST_SCALE, MOST_SCALE = 0.03, 0.5**0.5


@dataclass(frozen=True, eq=False)
class Box(Frame):
    """A frame in which every entry of a row is clipped by itself, to [-1, 1]."""

    def place(self, rows: FloatArray) -> None:
        """Put rows (1, x, y) into the frame, in place."""
        rows *= self.factor / self.scale
        rows -= self.factor * self.centre / self.scale
        np.clip(rows, -1.0, 1.0, out=rows)


@dataclass(frozen=True, eq=False)
class FirstLook:
    """What the first look tells; the columns are those of (1, x, y).

    Attributes
    ----------
    n : float
        The number of records: public, or noisy and at least 1.
    means, deviation : ndarray of shape (q + 2,)
        Noisy means, and the standard deviation of their noise: of the ones that in the count.
    target_square, number_square : float
        Noisy mean squares, the second the mean over all numbers.
    square_deviation : float
        Of the noise in the target's mean square.
    """

    n: float
    means: FloatArray
    deviation: FloatArray
    target_square: float
    number_square: float
    square_deviation: float


@dataclass(frozen=True, eq=False)
class CrossLooks:
    """A plan of both looks; public things only.

    Attributes
    ----------
    layout : MomentLayout
        All the moments of the rows (1, x, y), most of which are not released.
    first, noise : KNormNoise or GaussianNoise
        The noise of both looks.
    n : int or None
        The public number of records; None under add/remove.
    """

    layout: MomentLayout
    first: KNormNoise | GaussianNoise
    noise: KNormNoise | GaussianNoise
    n: int | None

    @classmethod
    def plan(
        cls, domain: Domain, epsilon: float, delta: float, neighbors: str, n: int | None
    ) -> CrossLooks:
        """Calibrate both looks, with K-norm noise or where that is less with Gaussian noise."""
        layout = MomentLayout.of(domain, target_square=True, neighbors=neighbors)
        balls = _first_ball(domain, layout), rows_ball(domain)
        looks: Noises = _pure_looks(balls, epsilon, neighbors)
        if delta > 0:
            gaussian = _gaussian_looks(layout, balls, epsilon, delta, neighbors)
            looks = min(looks, gaussian, key=lambda pair: float(variances(pair[1]).mean()))
        return cls(layout, *looks, n)

    @property
    def mechanism(self) -> str:
        """What a guarantee says of it."""
        return (
            f"estimated means and scales ({self.first.dim} sums,"
            f" {type(self.first).__name__}), then {self.noise.dim} products with the target"
            f" around them with {type(self.noise).__name__}"
        )

    @property
    def losses(self) -> tuple[Any, ...]:
        """What is known of the privacy of both looks beyond epsilon: losses and counts."""
        parts = [self.first.guarantee.losses, self.noise.guarantee.losses]
        return sum(parts, ()) if all(parts) else ()

    def first_deviation(self, n: float) -> float:
        """Return the noise's standard deviation in the target's mean in the first look."""
        target = self.layout.n_rows - 2 + self.layout.adds
        return float(np.sqrt(variances(self.first)[target])) / n

    def noise_length(self, n: float) -> float:
        """Return the noise's length in the root mean square, in the means of the second look."""
        return float(np.sqrt(variances(self.noise).sum())) / n

    def check_published(self) -> None:
        """Raise where 53 bits cannot keep the guarantee."""
        publication(self.first)
        publication(self.noise)

    def look(self, domain: Domain, X: Any, target: FloatArray) -> NDArray[Any]:
        """Return what the first look releases, before its noise: integers in units of 2^-40."""
        sums, squares, n = exact_sums(domain, X, target)
        numbers = np.asarray(self.layout.number_index, dtype=np.intp)
        count = n * 2**GRAM_BITS
        shift = count if self.layout.adds else 0
        own = [2 * squares[-1] - shift]
        if numbers.size:
            own.append(2 * squares[numbers].sum() - len(numbers) * shift)
        head = [count] if self.layout.adds else []
        return np.array([*head, *sums, *own], dtype=object)

    def first_look(self, seen: NDArray[Any], rng: Generator) -> FirstLook:
        """Release the first look."""
        entries = release_integers(self.first, seen, -GRAM_BITS, rng)
        sizes, adds, width = np.sqrt(variances(self.first)), self.layout.adds, self.layout.n_rows
        count = float(entries[0]) if adds else float(self.n or 1)
        n, shift = max(1.0, count), float(adds)
        own, spread = entries[adds:] / n, sizes[adds:] / n
        means, deviation = np.ones(width), np.zeros(width)
        means[1:], deviation[1:] = own[: width - 1], spread[: width - 1]
        deviation[0] = adds * sizes[0] / n
        numbers = len(self.layout.number_index)
        number_square = (own[-1] / numbers + shift) / 2 if numbers else 1.0
        target_square = (own[width - 1] + shift) / 2
        # Under add/remove the count was taken off the squares, and comes back with its noise.
        square_deviation = math.hypot(spread[width - 1], deviation[0]) / 2
        return FirstLook(
            n, means, deviation, float(target_square), float(number_square), square_deviation
        )

    def frame(self, first: FirstLook) -> Box:
        """Return a box around where the first look found numbers and the target."""
        numbers, width = self.layout.numbers, self.layout.n_rows
        centre, scale, factor = np.zeros(width), np.ones(width), np.ones(width)
        own, noise = first.means[numbers].clip(-1, 1), first.deviation[numbers]
        size = float(own @ own)
        # James and Stein's factor: where means are mostly noise, 0 is as good a centre.
        kept = max(0.0, 1 - float(noise @ noise) / size) if size > 0 else 0.0
        centre[numbers], centre[-1] = kept * own, first.means[-1].clip(-1, 1)
        within = first.number_square - kept * size / max(1, len(numbers))
        scale[numbers] = _scale(within, first.deviation[-1])
        scale[-1] = _scale(first.target_square - centre[-1] ** 2, first.deviation[-1])
        factor[numbers] = factor[-1] = 1 / REACH
        return Box(centre, scale, factor)

    def release(
        self, domain: Domain, X: Any, target: FloatArray, names: tuple[str, ...],
        seen: NDArray[Any], rng: Generator,
    ) -> Moments:  # fmt: skip
        """Release both looks, and return what they tell."""
        first = self.first_look(seen, rng)
        box = self.frame(first)
        exact = exact_gram(domain, X, target, box.place)[:-1, -1]
        found = release_integers(self.noise, exact, -GRAM_BITS, rng)
        return self._moments(first, box, found, names)

    def _moments(
        self, first: FirstLook, box: Box, found: FloatArray, names: tuple[str, ...]
    ) -> Moments:
        """Return the moments in a frame in which indicators too have a guessed mean and scale."""
        centre, scale, n = box.centre.copy(), box.scale.copy(), first.n
        for columns in self.layout.block_columns:
            share = 1 / (len(columns) + 1)
            centre[columns], scale[columns] = share, math.sqrt(share * (1 - share))
        moved = np.where(box.scale != scale, centre, 0.0)[:-1]
        unit = box.factor[-1] * box.factor[:-1] * scale[:-1] / box.scale[:-1]
        cross = (found - moved * found[0]) / unit
        noise = self.noise.covariance()
        spread = np.sqrt(np.diag(noise) - 2 * moved * noise[0] + moved**2 * noise[0, 0]) / unit
        width = self.layout.n_rows
        gram, deviation = np.full((width, width), np.nan), np.full((width, width), np.inf)
        gram[0] = n * (first.means - centre) / scale
        deviation[0] = n * np.hypot(first.deviation, centre * first.deviation[0]) / scale
        gram[1:-1, -1], deviation[1:-1, -1] = cross[1:], spread[1:]
        middle = centre[-1]
        square = first.target_square - 2 * middle * first.means[-1] + middle**2
        gram[-1, -1] = n * square / scale[-1] ** 2
        moves = first.square_deviation, 2 * middle * first.deviation[-1]
        deviation[-1, -1] = n * math.hypot(*moves) / scale[-1] ** 2
        # Both looks tell of the target's mean: weighted by their precisions.
        both = np.array([deviation[0, -1], spread[0]]) ** -2.0
        gram[0, -1] = (both @ [gram[0, -1], cross[0]]) / both.sum()
        deviation[0, -1] = both.sum() ** -0.5
        gram[:, 0], deviation[:, 0] = gram[0], deviation[0]
        gram[-1], deviation[-1] = gram[:, -1], deviation[:, -1]
        own = np.zeros(width, dtype=np.bool_)
        return Moments(names, gram, deviation, own, centre, scale, self.layout, self.noise)


def _scale(variance: float, noise: float) -> float:
    """Return a scale that noise has not made too small."""
    least = max(LEAST_SCALE**2, min(MOST_FLOOR, NOISE_IN_SQUARE * noise))
    return math.sqrt(min(max(variance, least), MOST_SCALE**2))


def _first_ball(domain: Domain, layout: MomentLayout) -> NormBall:
    """Return a ball of what one record adds to the first look: twice it holds differences."""
    # Numbers, the target, 2 y^2 or 2 y^2 - 1, and the same of the numbers' squares together.
    parts: list[NormBall] = [rows_ball(domain, intercept=False), LpBall(2, p=math.inf)]
    if layout.number_index:
        parts.append(LpBall(1, p=math.inf, radius=float(len(layout.number_index))))
    return ProductBall(tuple([LpBall(1)] * layout.adds + parts))


def _pure_looks(
    balls: tuple[NormBall, NormBall], epsilon: float, neighbors: str
) -> tuple[KNormNoise, KNormNoise]:
    """Return noises of both looks whose epsilons add up."""
    spent = FIRST * epsilon
    first, second = (
        calibrate("hull", Sensitivity(ball, _records(neighbors), neighbors), epsilon=part)
        for ball, part in zip(balls, (spent, epsilon - spent), strict=True)
    )
    assert isinstance(first, KNormNoise)
    assert isinstance(second, KNormNoise)
    return first, second


def _gaussian_looks(
    layout: MomentLayout, balls: tuple[NormBall, NormBall], epsilon: float, delta: float,
    neighbors: str,
) -> tuple[GaussianNoise, GaussianNoise]:  # fmt: skip
    """Return Gaussian noises of both looks, whose squared shifts add up to the whole one's."""
    whole = 1 / gaussian_scale(epsilon, delta)
    shifts = whole * FIRST_SHIFT, whole * math.sqrt(1 - FIRST_SHIFT**2)
    # The numbers' squares together, which come last, count in units of their number.
    units = np.ones(balls[0].dim)
    units[-1] = max(1, len(layout.number_index))
    first, second = (
        length / shift * ROUND_UP for length, shift in zip(_lengths(layout), shifts, strict=True)
    )
    seen, products = (
        Guarantee(
            epsilon, delta, neighbors, "Gaussian noise on sums", losses=((GaussianLoss(shift), 1),)
        )
        for shift in shifts
    )
    return (
        GaussianNoise(balls[0].dim, first * units, seen),
        GaussianNoise(balls[1].dim, second, products),
    )


def _lengths(layout: MomentLayout) -> tuple[float, float]:
    """Return the greatest length of what one record changes in each look."""
    numbers, blocks = len(layout.number_index), len(layout.block_columns)
    second = 1 + numbers + blocks
    if layout.adds:
        first = float(1 + numbers + (numbers > 0) + blocks + 2)
        return math.sqrt(first) * ROUND_UP, math.sqrt(second) * ROUND_UP
    # (y - y')^2 + 4 (y^2 - y'^2)^2 is at most 5.15; of two numbers or more, the squares taken
    # together, at most 4 for each; two levels of a block are sqrt(2) apart.
    first = (5.15 if numbers == 1 else 4.0 * numbers) + 2 * blocks + 5.15
    return math.sqrt(first) * ROUND_UP, 2 * math.sqrt(second) * ROUND_UP


def _records(neighbors: str) -> float:
    return 2.0 if neighbors == "replace_one" else 1.0
