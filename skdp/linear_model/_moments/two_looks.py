"""Moments in two looks: first where the records are, then their moments around there.

Bounds that hold for everybody are wide, and most records lie close together. The first look
spends a part of epsilon on the sums and squares of the numbers and the target alone. Its release
gives a frame: a centre and a scale for every column. The second look takes the moments of the rows
z = (1, (x - centre) / scale) in that frame, each row z shrunk to z'Lz <= bound if it sticks out.
That is a map of single records, so what a record can change is bounded by construction, by far
less than the domain's corners would. Statement and proof: ``docs/proofs/moment_release.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._shared.gram import (
    GRAM_BITS,
    NUMBER_BITS,
    exact_gram,
    exact_statistic,
    exact_sums,
)
from skdp.mechanisms import GaussianNoise, KNorm, KNormNoise, MatrixLaplaceNoise, Sensitivity
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.matrix.noise import MatrixGaussianNoise, MatrixNoise
from skdp.mechanisms.noise import publication, release_integers
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.privacy import Guarantee
from skdp.privacy.losses.losses import GaussianLoss

Noises = tuple[KNormNoise | GaussianNoise, MatrixNoise]

# Share of epsilon for the first look: what gives its means noise of FIRST_NOISE, within these.
LEAST_FIRST, MOST_FIRST, FIRST_NOISE = 0.05, 0.2, 0.01
# The same for Gaussian noise, as a share of the shift, whose squares add up: at the most it takes
# as much from the second look, sqrt(1 - .6^2) = 1 - .2.
LEAST_SHIFT, MOST_SHIFT = 0.2, 0.6
# A scale is no less than this, and its square no less than so many deviations of the noise.
LEAST_SCALE, NOISE_IN_SCALE = 0.03, 2.0
# The variance of a column, where it is to be guessed.
USUAL_SQUARE = 0.1
# Rows are shrunk beyond so many scales of each number, and of the target, in the root mean square.
REACH, TARGET_REACH = 2.0, 4.5


@dataclass(frozen=True, eq=False)
class Frame:
    """Where the first look found the columns of (1, x, y), and how far rows may stick out.

    Attributes
    ----------
    centre, scale : ndarray of shape (q + 2,)
        Of the encoded columns; 0 and 1 for the ones and for indicators.
    factor : ndarray of shape (q + 2,)
        What z is multiplied by so that rows that are kept as they are have length at most 1.
    """

    centre: FloatArray
    scale: FloatArray
    factor: FloatArray

    def place(self, rows: FloatArray) -> None:
        """Put rows (1, x, y) into the frame, in place; each then has length at most 1."""
        rows *= self.factor / self.scale
        rows -= self.factor * self.centre / self.scale
        length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        outside = np.flatnonzero(length > 1)
        rows[outside] /= length[outside, None]


@dataclass(frozen=True, eq=False)
class TwoLooks:
    """A plan of two looks; public things only.

    Attributes
    ----------
    layout : MomentLayout
        The second look's moments, of rows (1, z) of length at most 1; their weight is one.
    first : KNormNoise or GaussianNoise
        The noise of the first look.
    noise : MatrixNoise
        That of the second, in the units of ``Frame.factor``.
    factor : ndarray of shape (q + 2,)
    n : int or None
        The public number of records; None under add/remove.
    """

    layout: MomentLayout
    first: KNormNoise | GaussianNoise
    noise: MatrixNoise
    factor: FloatArray
    n: int | None

    @classmethod
    def plan(
        cls,
        domain: Domain,
        epsilon: float,
        neighbors: str,
        n: int | None,
        n_public: int | None = None,
        reach: float = 1.0,
        delta: float = 0.0,
    ) -> TwoLooks:
        """Calibrate both looks; ``reach`` >= 1 shrinks fewer rows, for more noise."""
        blocks = tuple(tuple(range(b.start, b.stop)) for b in domain.blocks)
        numbers = tuple(int(j) for j in domain.number_index)
        # The weight of a row is private, as the count is under add_remove: it is an entry.
        layout = MomentLayout(
            domain.n_encoded, numbers, blocks, True, True, "add_remove", shifted=False
        )
        strength = float(n or n_public or 1)
        looks: Noises = _pure_looks(layout, epsilon, neighbors, strength)
        if delta > 0:
            gaussian = _gaussian_looks(layout, epsilon, delta, neighbors, strength)
            looks = min(looks, gaussian, key=lambda pair: _usual_noise(pair, strength))
        return cls(layout, *looks, _factor(layout, reach), n)

    @property
    def mechanism(self) -> str:
        """What a guarantee says of it."""
        return (
            f"estimated centres and scales ({self.first.dim} sums,"
            f" {type(self.first).__name__}), then"
            f" {self.layout.dim} moments around them with {type(self.noise).__name__}"
        )

    @property
    def losses(self) -> tuple[Any, ...]:
        """What is known of the privacy of both looks beyond epsilon: losses and counts."""
        parts = [self.first.guarantee.losses, self.noise.guarantee.losses]
        return sum(parts, ()) if all(parts) else ()

    @cached_property
    def variables(self) -> NDArray[np.intp]:
        """Columns of (1, x, y) that the first look sees: the numbers and the target."""
        return self.layout.variables

    def first_deviation(self, n: float) -> float:
        """Return the noise's standard deviation in a mean of the first look."""
        return float(np.sqrt(self.first.variance()[0])) / n

    def check_published(self) -> None:
        """Raise where 53 bits cannot keep the guarantee."""
        publication(self.first)
        publication(self.noise)

    def look(self, domain: Domain, X: Any, target: FloatArray) -> NDArray[Any]:
        """Return what the first look releases, before its noise: integers in units of 2^-40."""
        sums, squares, n = exact_sums(domain, X, target)
        unit, numbers = 2**GRAM_BITS, self.variables - 1
        if self.n is not None:
            return np.concatenate([sums[numbers], 2 * squares[numbers]])
        count = np.array([n * unit], dtype=object)
        return np.concatenate([count, sums[numbers], 2 * squares[numbers] - n * unit])

    def frame(self, sums: NDArray[Any], rng: Generator) -> Frame:
        """Release the first look, and make a frame of it."""
        seen = release_integers(self.first, sums, -GRAM_BITS, rng)
        if self.n is None:  # a count comes first, and was taken off the squares
            n = max(1.0, float(seen[0]))
            first, second = np.split(seen[1:] / n, 2)
            square = (second + 1) / 2
        else:
            n = float(self.n)
            first, second = np.split(seen / n, 2)
            square = second / 2
        centre = first.clip(-1, 1)
        least = max(LEAST_SCALE**2, NOISE_IN_SCALE * self.first_deviation(n))
        own_scale = np.sqrt((square - centre**2).clip(min(least, 1.0), 1.0))
        centres, scales = np.zeros(self.layout.n_rows), np.ones(self.layout.n_rows)
        centres[self.variables], scales[self.variables] = centre, own_scale
        return Frame(centres, scales, self.factor)

    def release(
        self, domain: Domain, X: Any, target: FloatArray, frame: Frame, rng: Generator
    ) -> FloatArray:
        """Return the noisy moments in the frame, (dim,)."""
        gram = exact_gram(domain, X, target, frame.place)
        return release_integers(self.noise, exact_statistic(self.layout, gram), -GRAM_BITS, rng)


def _pure_looks(
    layout: MomentLayout, epsilon: float, neighbors: str, n: float
) -> tuple[KNormNoise, MatrixLaplaceNoise]:
    """Return noises of both looks whose epsilons add up."""
    records, dim = _records(neighbors), _first_dim(layout, neighbors)
    # Numbers and 2 x^2, or 2 x^2 - 1: a record moves each entry by at most so much.
    box = LpBall(dim, p=math.inf, radius=float(records))
    # The standard deviation of a coordinate of K-norm noise on a box.
    needed = records * math.sqrt((dim + 1) * (dim + 2) / 3) / (FIRST_NOISE * n * epsilon)
    spent = epsilon * min(max(needed, LEAST_FIRST), MOST_FIRST)
    first = KNorm(box).calibrate(Sensitivity(box, neighbors=neighbors), epsilon=spent)
    rest = epsilon - spent
    pure = Guarantee(rest, neighbors=neighbors, mechanism=f"Laplace {_SECOND}")
    precision = np.full(layout.n_rows, rest / (records * _greatest_square(layout)))
    return first, MatrixLaplaceNoise(layout, precision, pure)


def _gaussian_looks(
    layout: MomentLayout, epsilon: float, delta: float, neighbors: str, n: float
) -> tuple[GaussianNoise, MatrixGaussianNoise]:
    """Return Gaussian noises of both looks, whose squared shifts add up to the whole one's."""
    records, dim = _records(neighbors), _first_dim(layout, neighbors)
    whole = 1 / gaussian_scale(epsilon, delta)
    variables = len(layout.variables)
    # (x - x')^2 + 4 (x^2 - x'^2)^2 is at most 5.15; x^2 + (2 x^2 - 1)^2 is at most 2.
    length = math.sqrt(5.15 * variables if records == 2 else 2 * variables + 1) * ROUND_UP
    share = min(max(length / (FIRST_NOISE * n * whole), LEAST_SHIFT), MOST_SHIFT)
    shifts = whole * share, whole * math.sqrt(1 - share**2)
    seen, moments = (
        Guarantee(epsilon, delta, neighbors, what, losses=((GaussianLoss(shift), 1),))
        for what, shift in zip(
            ("Gaussian noise on sums", f"Gaussian {_SECOND}"), shifts, strict=True
        )
    )
    first = GaussianNoise(dim, length / shifts[0] * ROUND_UP, seen)
    # |zz' - z'z'| of two rows of length at most 1 is at most sqrt(2).
    reach = math.sqrt(records) * _greatest_square(layout)
    return first, MatrixGaussianNoise(layout, reach / shifts[1] * ROUND_UP, moments)


def _usual_noise(looks: Noises, n: float) -> float:
    """Return the noise of a moment of two columns that spread as usual, in their own units.

    In units of the scales it is the second look's; the scales cannot fall below the first's.
    """
    first, second = looks
    least = NOISE_IN_SCALE * float(np.sqrt(first.variance()[0])) / n
    return float(np.sqrt(second.entry_variance(0, 1))) * max(USUAL_SQUARE, min(least, 1.0))


_SECOND = "noise on a matrix of moments in a frame"


def _records(neighbors: str) -> int:
    return 2 if neighbors == "replace_one" else 1


def _first_dim(layout: MomentLayout, neighbors: str) -> int:
    """Return how many sums the first look releases: also a count, where it is private."""
    return 2 * len(layout.variables) + (neighbors == "add_remove")


def _greatest_square(layout: MomentLayout) -> float:
    """Return the greatest |z|^2 of a row in the frame: rounding to the grid may lengthen it."""
    return (1 + math.sqrt(layout.n_rows) * 2.0**-NUMBER_BITS) ** 2 * ROUND_UP


def _factor(layout: MomentLayout, reach: float) -> FloatArray:
    """Return sqrt(L / bound): all but the numbers weigh more where there are many of these."""
    numbers = len(layout.number_index)
    heavy = max(1.0, math.sqrt(numbers) / 1.5)
    weights = np.full(layout.n_rows, heavy)
    weights[layout.numbers] = 1.0
    for columns in layout.block_columns:
        # Of many levels each is rare; but only one can be 1 at a time, so this costs little.
        weights[columns] = heavy * math.sqrt(len(columns))
    blocks = sum(float(weights[columns[0]]) for columns in layout.block_columns)
    bound = heavy + blocks + reach * (heavy * TARGET_REACH + REACH * numbers)
    return np.asarray(np.sqrt(weights / bound))
