"""Where the numbers are: a first look at them, and the windows that they are clipped to.

Bounds that hold for everybody are wide, and most records lie close together. A share of epsilon
goes to the sums of the numbers and of their squares; what is made of them, a window for each
number inside its bounds, is public by then. A regression's target is one of them. Statement and
proof: ``docs/proofs/objective_perturbation.md``, Theorem 5; where the constants come from:
``docs/automatic_choices.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_interval, fail
from skdp.domain import Domain
from skdp.geometry import LpBall
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import CELLS, GRAM_BITS, MOST_ROWS, sums_of
from skdp.mechanisms import KNorm, KNormNoise, Sensitivity
from skdp.mechanisms.noise import release_integers

# Share of epsilon for the look: what gives its means noise of GOOD_NOISE, within these. Where it
# is above MOST_NOISE nothing is looked at.
LEAST_SHARE, MOST_SHARE, GOOD_NOISE, MOST_NOISE = 0.05, 0.2, 0.01, 0.5
# A window reaches so many deviations to both sides, and farther beyond so many records per
# dimension and unit of 1 / epsilon: the less noise, the less it is worth to clip anything.
REACH, TARGET_REACH, FARTHER_FROM, FARTHER = 1.3, 2.0, 100.0, 0.2
# A number's variance where noise hides it, and the least that one is taken to have.
USUAL_SQUARE, LEAST_SQUARE = 0.04, 1e-4
REMEDY = '0 uses the bounds of the domain. Or give "auto".'
# Prior variance of a mean: one that is mostly noise is drawn towards the middle of its bounds.
CENTRE = 0.25


@dataclass(frozen=True, eq=False)
class Window:
    """Bounds within [-1, 1] to which encoded numbers are clipped.

    Attributes
    ----------
    columns : ndarray of int, shape (numbers,)
        The encoded columns that hold numbers.
    lower, upper : ndarray of shape (numbers,)
    target : pair of floats
        The bounds of the encoded target.
    """

    columns: NDArray[np.intp]
    lower: FloatArray
    upper: FloatArray
    target: tuple[float, float] = (-1.0, 1.0)

    @classmethod
    def whole(cls, design: Design) -> Window:
        """Return the one that clips nothing."""
        columns = np.asarray(design.domain.number_index, dtype=np.intp)
        return cls(columns, np.full(len(columns), -1.0), np.ones(len(columns)))

    @property
    def centre(self) -> FloatArray:
        return (self.lower + self.upper) / 2

    @property
    def half(self) -> FloatArray:
        return (self.upper - self.lower) / 2

    @property
    def is_whole(self) -> bool:
        """Whether nothing is clipped."""
        return bool((self.lower == -1).all() and (self.upper == 1).all())

    @property
    def target_half(self) -> float:
        return (self.target[1] - self.target[0]) / 2

    def clip(self, encoded: FloatArray) -> None:
        """Clip encoded rows, (n, n_encoded), in place."""
        if not self.is_whole:
            for rows in _blocks(encoded):
                rows[:, self.columns] = rows[:, self.columns].clip(self.lower, self.upper)

    def place(self, design: Design, matrix: FloatArray) -> None:
        """Clip the numbers of a design matrix and scale them back to [-1, 1], in place."""
        if self.is_whole:
            return
        columns, centre, half = self.columns + int(design.intercept), self.centre, self.half
        for rows in _blocks(matrix):
            numbers = rows[:, as_slice(columns)] - centre
            numbers /= half
            rows[:, as_slice(columns)] = np.clip(numbers, -1.0, 1.0, out=numbers)

    def place_target(self, target: FloatArray) -> FloatArray:
        """Return a target in [-1, 1], clipped and scaled back to that; labels stay labels."""
        if self.target == (-1.0, 1.0):
            return target
        lower, upper = self.target
        return ((target - (lower + upper) / 2) / self.target_half).clip(-1.0, 1.0)

    def encoded(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return models of what was placed as models of what is encoded, (models, ...)."""
        if not self.is_whole:
            coef = coef.copy()
            coef[:, self.columns] /= self.half
            intercept = intercept - coef[:, self.columns] @ self.centre
        if self.target == (-1.0, 1.0):
            return coef, intercept
        return coef * self.target_half, intercept * self.target_half + sum(self.target) / 2


@dataclass(frozen=True, eq=False)
class Narrowing:
    """A first look at the numbers: what is released, with which noise; public things only.

    Attributes
    ----------
    design : Design
    noise : KNormNoise
    epsilon : float
        What the look spends.
    n : int or None
        The number of records; None where it is private, and counted too.
    farther : float
        By how much windows reach farther than usual.
    with_target : bool
        Whether the target is a number to look at.
    """

    design: Design
    noise: KNormNoise
    epsilon: float
    n: int | None
    farther: float
    with_target: bool

    @classmethod
    def plan(
        cls,
        design: Design,
        n: int | None,
        known: float,
        epsilon: float,
        share: float | None,
        with_target: bool = False,
    ) -> Narrowing | None:
        """Calibrate a look; None where it would see too little, or there is no number.

        Parameters
        ----------
        design : Design
        n : int or None
            The number of records where it is public.
        known : float
            Their number, or a public guess of it.
        epsilon : float
            Of the whole fit.
        share : float or None
            The share of it for the look; None leaves it to the rules.
        with_target : bool

        Raises
        ------
        ValueError
            If a share is asked for where the domain bounds the length of rows.
        """
        numbers = design.domain.n_numbers + with_target
        if design.domain.is_ball and share is not None:
            rule = 'be "auto" or 0 where the domain bounds the length of rows'
            raise fail(
                "scaling_share", rule, share, "Or declare a bound for each column: Domain.box."
            )
        if design.domain.is_ball or not numbers:
            return None
        counted = n is None
        dim, moved = 2 * numbers + counted, 1.0 if counted else 2.0
        # The standard deviation of a coordinate of K-norm noise on a box.
        whole = moved * math.sqrt((dim + 1) * (dim + 2) / 3) / (epsilon * known)
        if share is None:
            share = min(max(whole / GOOD_NOISE, LEAST_SHARE), MOST_SHARE)
            if whole > MOST_NOISE * share:
                return None
        box = LpBall(dim, p=math.inf, radius=moved)
        neighbors = "add_remove" if counted else "replace_one"
        spent = share * epsilon
        noise = KNorm(box).calibrate(Sensitivity(box, neighbors=neighbors), epsilon=spent)
        weight = known * (epsilon - spent) / design.dim
        farther = max(1.0, weight / FARTHER_FROM) ** FARTHER
        return cls(design, noise, spent, n, farther, with_target)

    @property
    def mechanism(self) -> str:
        """What a guarantee says of it."""
        return f"estimated clipping bounds ({self.noise.dim} sums, {type(self.noise).__name__})"

    def sums(self, matrix: FloatArray, target: FloatArray) -> NDArray[Any]:
        """Return what is released, before its noise: integers in units of 2^-40, (dim,).

        Sums of x and of 2 x^2, by each of which a replaced record moves by at most 2; or, where
        records are counted, the count with sums of x and of 2 x^2 - 1.
        """
        width = self.design.domain.n_numbers + self.with_target
        sums, squares = sums_of(self._numbers(matrix, target), width)
        if self.n is not None:
            return np.concatenate([sums, 2 * squares])
        count = len(matrix) * 2**GRAM_BITS
        return np.concatenate([np.array([count], dtype=object), sums, 2 * squares - count])

    def _numbers(self, matrix: FloatArray, target: FloatArray) -> Iterator[FloatArray]:
        columns = as_slice(Window.whole(self.design).columns + int(self.design.intercept))
        start = 0
        for rows in _blocks(matrix):
            numbers, y = rows[:, columns], target[start : start + len(rows), None]
            yield np.hstack([numbers, y]) if self.with_target else numbers
            start += len(rows)

    def window(self, sums: NDArray[Any], rng: Generator) -> Window:
        """Release the sums, and make a window of what is seen."""
        seen, n = release_integers(self.noise, sums, -GRAM_BITS, rng), float(self.n or 0)
        if self.n is None:
            n = max(1.0, float(seen[0]))
            seen = seen[1:]
            seen[len(seen) // 2 :] += n
        mean, square = np.split(seen / n, 2)
        deviation = float(np.sqrt(self.noise.variance()[0])) / n
        lower, upper = self._around(mean.clip(-1, 1), (square / 2).clip(0, 1), deviation)
        columns = Window.whole(self.design).columns
        if not self.with_target:
            return Window(columns, lower, upper)
        return Window(columns, lower[:-1], upper[:-1], (float(lower[-1]), float(upper[-1])))

    def _around(
        self, mean: FloatArray, square: FloatArray, deviation: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the windows, of means with noise of that standard deviation."""
        if not self.design.intercept:  # a model through 0 cannot be moved
            mean = np.zeros_like(mean)
        least = min(USUAL_SQUARE, max(LEAST_SQUARE, deviation / 2))
        reach = np.full(len(mean), REACH)
        if self.with_target:
            reach[-1] = TARGET_REACH
        half = self.farther * reach * np.sqrt((square - mean**2).clip(least, 1.0))
        # James & Stein: what is mostly noise is no better a centre than the middle.
        centre = mean * (CENTRE / (CENTRE + deviation**2))
        return np.maximum(centre - half, -1.0), np.minimum(centre + half, 1.0)


def as_slice(columns: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Return neighbouring columns as a slice, of which numpy makes no copy."""
    if len(columns) and columns[-1] - columns[0] == len(columns) - 1:
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns


def check_scaling_share(share: Any) -> None:
    """Raise unless it is "auto", 0 or a share of the budget."""
    is_auto = isinstance(share, str) and share == "auto"
    if not is_auto and (isinstance(share, str) or share != 0):
        check_interval("scaling_share", share, 1e-6, 1.0, "left", REMEDY)


def bounds_of(window: Window, domain: Domain) -> FloatArray:
    """Return a window's bounds in the user's units, (numbers, 2); a ball's are its box's."""
    bounds = np.column_stack([window.lower, window.upper])
    if domain.is_ball:
        return np.asarray(bounds * float(domain.radius or 0.0))
    q, columns = domain.n_encoded, window.columns
    # An encoded column is slope x + shift.
    slopes, shifts = domain.decode_coef(np.eye(q), np.zeros(q))
    slope, shift = np.diag(slopes)[columns], shifts[columns]
    return np.asarray((bounds - shift[:, None]) / slope[:, None])


def _blocks(rows: FloatArray) -> Iterator[FloatArray]:
    step = min(MOST_ROWS, max(256, CELLS // rows.shape[1]))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]
