"""What is done to one block of rows, in place; each row's result depends on that row alone.

Each projection holds its promise in floating point too, rounding included, and repeats itself:
applied to its own result it changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp._arrays import FloatArray

# Within this and its inverse a width is divided by without a thought of overflow.
SMALLEST_WIDTH = 1e-290


@dataclass(frozen=True)
class Box:
    """Clip to [lower, upper], then map onto [-1, 1]; neighbouring columns share one call."""

    lower: FloatArray
    upper: FloatArray
    is_unit: bool

    def __call__(self, block: FloatArray) -> None:
        """Project the rows of ``block`` in place."""
        if self.is_unit:
            pass
        elif self._per_width is not None:
            # Each step is monotone, rounding included.
            block -= self.lower
            block *= self._per_width
            block -= 1.0
        else:
            # Halves, because upper - lower may overflow. Its inverse may, too.
            np.clip(block, self.lower, self.upper, out=block)
            block *= 0.5
            block -= self.lower / 2
            block /= (self.upper / 2 - self.lower / 2) / 2
            block -= 1.0
        np.clip(block, -1.0, 1.0, out=block)

    @cached_property
    def _per_width(self) -> FloatArray | None:
        """Return what takes the width to 2, or a rounding above: the bound's image is 1."""
        with np.errstate(over="ignore"):
            width = np.atleast_1d(self.upper - self.lower)
        if width.min() < SMALLEST_WIDTH or width.max() > 1 / SMALLEST_WIDTH:
            return None
        factor = 2 / width
        return np.where(factor * width < 2, np.nextafter(factor, np.inf), factor)


def keep_largest_indicator(block: FloatArray) -> None:
    """Make the largest entry of each row 1 if above 1/2 (the first of ties), all others 0."""
    if not block.shape[1]:
        return
    largest = block.argmax(axis=1)
    rows = np.flatnonzero(block.max(axis=1) > 0.5)
    block[...] = 0.0
    block[rows, largest[rows]] = 1.0


@dataclass(frozen=True)
class Ball:
    """Scale rows of Euclidean norm above ``radius`` back to the sphere."""

    radius: float

    def __call__(self, block: FloatArray) -> None:
        """Project the rows of ``block`` in place."""
        peak = np.abs(block).max(axis=1)
        peak[peak == 0.0] = 1.0
        unit = block / peak[:, None]  # squares of the raw entries may overflow
        norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))
        # A norm of d terms is computed to d + 4 units of rounding, in whatever order it is
        # summed. Rows are kept only if no such sum can exceed the radius, and scaled ones end a
        # little further inside, so that they are kept when they come again.
        rounding = (block.shape[1] + 4) * np.finfo(np.float64).eps
        outside = norm > self.radius * (1 - 2 * rounding) / peak
        scale = self.radius * (1 - 4 * rounding) / norm[outside]
        block[outside] = unit[outside] * scale[:, None]


# Greatest norms of a projected row, rounded up: sensitivities are built on them


def box_norm(n_ones: int, p: float) -> float:
    """Return the greatest l_p norm of rows with at most ``n_ones`` entries in [-1, 1], others 0."""
    return _root_up(n_ones, 1 / p) if n_ones else 0.0


def ball_norm(d: int, radius: float, p: float, intercept: bool) -> float:
    """Return the greatest l_p norm over a Euclidean ball of R^d, maybe next to a column of ones."""
    # The l_p norm is at most d^(1/p - 1/2) times the Euclidean one if p < 2, else at most it.
    widest = radius * _root_up(d, max(0.0, 1 / p - 0.5))
    if not intercept or p == math.inf:
        return max(widest, float(intercept))
    larger, smaller = max(1.0, widest), min(1.0, widest)
    return _up(larger * (1 + (smaller / larger) ** p) ** (1 / p))


def _root_up(count: int, exponent: float) -> float:
    root = float(count**exponent)
    return root if count == 1 or exponent in (0.0, 1.0) else _up(root)


def _up(value: float) -> float:
    # Sixteen units of rounding: more than two roots, a product and the rounding of 1/p can lose.
    return value * (1 + 2.0**-48)
