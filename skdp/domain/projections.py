"""What is done to one block of rows, in place; each row's result depends on that row alone.

Each projection holds its promise in floating point too, rounding included, and repeats itself:
applied to its own result it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp.domain.columns import FloatArray

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
