"""What is done to one block of rows, in place; each row's result depends on that row alone.

Each projection holds its promise in floating point too, rounding included, and repeats itself:
applied to its own result it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.domain.columns import FloatArray


@dataclass(frozen=True)
class Box:
    """Clip to [lower, upper], then map onto [-1, 1]; neighbouring columns share one call."""

    lower: FloatArray
    upper: FloatArray
    is_unit: bool

    def __call__(self, block: FloatArray) -> None:
        """Project the rows of ``block`` in place."""
        if self.is_unit:
            np.clip(block, -1.0, 1.0, out=block)
            return
        np.clip(block, self.lower, self.upper, out=block)
        # Halves, because upper - lower may overflow. Rounding is monotone, so that the quotient
        # lies in [0, 2] exactly, its ends are the bounds' own images, and no guard is needed.
        block *= 0.5
        block -= self.lower / 2
        block /= (self.upper / 2 - self.lower / 2) / 2
        block -= 1.0


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
