"""Projections of a block of rows, in place; each row is projected independently of all others.

The results of each projection are within its bounds in floating point, rounding included. A
second projection changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray, repeated, squared_lengths, wide_rows
from skdp._compiled import kernels

# Division by a width between this and its inverse cannot overflow.
SMALLEST_WIDTH = 1e-290


@dataclass(frozen=True)
class Box:
    """Clipping to [lower, upper] and scaling to [-1, 1], for neighbouring columns.

    Attributes
    ----------
    lower, upper : ndarrays of shape (columns,)
    is_unit : bool
        Whether all bounds are -1 and 1.
    fills : ndarray of shape (columns,), default=None
        Numbers in [-1, 1] that replace NaN; NaN for columns without any.
    """

    lower: FloatArray
    upper: FloatArray
    is_unit: bool
    fills: FloatArray | None = None

    def __call__(self, block: FloatArray) -> None:
        """Project the rows of ``block``, of shape (n, columns), in place."""
        if self.write(block, block) is not None:
            return
        if self.is_unit:
            pass
        elif self._wide is not None:
            # Each step is monotone, rounding included.
            lower, per_width = self._wide
            for rows in wide_rows(block):
                rows -= lower[: rows.shape[1]]
                rows *= per_width[: rows.shape[1]]
            block -= 1.0
        else:
            # Halves, because upper - lower and its inverse may overflow.
            np.clip(block, self.lower, self.upper, out=block)
            block *= 0.5
            block -= self.lower / 2
            block /= (self.upper / 2 - self.lower / 2) / 2
            block -= 1.0
        np.clip(block, -1.0, 1.0, out=block)
        if self.fills is not None:
            np.copyto(block, self.fills, where=np.isnan(block))

    def write(self, cells: NDArray[Any], out: FloatArray) -> bool | None:
        """Write the projected rows of ``cells`` into ``out``, by a compiled function.

        Returns whether all cells are finite, or NaN with a fill. Returns None, without a result,
        if there is no such function for the type of the cells.
        """
        compiled = kernels()
        is_float = cells.dtype in (np.float64, np.float32)
        if compiled is None or not is_float or self._factor is None:
            return None
        own = self._lower, self._factor, self.is_unit, self._fill
        is_valid: bool
        if out.flags.f_contiguous and out.shape[1] > 1:
            is_valid = compiled.scale_to_columns(cells, *own, out.T)
        else:
            is_valid = compiled.scale_rows(cells, *own, out)
        return is_valid

    def write_columns(self, columns: list[NDArray[Any]], out: FloatArray) -> bool | None:
        """Write the projected cells of columns into ``out``; see `write`."""
        compiled = kernels()
        types = all(cells.dtype in (np.float64, np.float32) for cells in columns)
        if compiled is None or not types or self._factor is None:
            return None
        facts = (numbers.tolist() for numbers in (self._lower, self._factor, self._fill))
        found = [
            compiled.scale_column(cells, lower, factor, self.is_unit, fill, own)
            for cells, lower, factor, fill, own in zip(columns, *facts, out.T, strict=True)
        ]
        return all(found)

    @cached_property
    def _lower(self) -> FloatArray:
        # Compiled code is faster for entries that lie next to each other.
        return np.ascontiguousarray(self.lower)

    @cached_property
    def _fill(self) -> FloatArray:
        return np.full(len(self.lower), np.nan) if self.fills is None else self.fills

    @cached_property
    def _wide(self) -> tuple[FloatArray, FloatArray] | None:
        """Lower bounds and 2 / width of wide rows, or None if a width is out of range."""
        factor = self._factor
        return None if factor is None else (repeated(self.lower), repeated(factor))

    @cached_property
    def _factor(self) -> FloatArray | None:
        """2 / width, or None if a width is out of range."""
        with np.errstate(over="ignore"):
            width = self.upper - self.lower
        if width.min() < SMALLEST_WIDTH or width.max() > 1 / SMALLEST_WIDTH:
            return None
        factor = 2 / width
        # Rounded up, so that the upper bound is mapped to 1 or above.
        factor = np.where(factor * width < 2, np.nextafter(factor, np.inf), factor)
        return factor


def largest_indicators(block: FloatArray) -> NDArray[np.intp]:
    """Return 1 + the position of the largest entry of each row if above 1/2, otherwise 0.

    Of ties, the first entry counts.
    """
    if not block.shape[1]:
        return np.zeros(len(block), dtype=np.intp)
    return np.where(block.max(axis=1) > 0.5, block.argmax(axis=1) + 1, 0)


def write_indicators(positions: NDArray[Any], out: FloatArray) -> None:
    """Write the ones among indicators into zeros, (n, levels - 1); level 0 has none."""
    rows = np.flatnonzero(positions)
    out[rows, positions[rows].astype(np.intp) - 1] = 1.0


@dataclass(frozen=True)
class Ball:
    """Scaling of rows of Euclidean norm above ``radius`` back to the sphere."""

    radius: float

    def __call__(self, block: FloatArray) -> None:
        """Project the rows of ``block`` in place."""
        peak = np.abs(block).max(axis=1)
        peak[peak == 0.0] = 1.0
        unit = block / peak[:, None]  # squares of the raw entries may overflow
        norm = np.sqrt(squared_lengths(unit))
        # A norm of d terms has an error of at most d + 4 units of rounding, in any order of
        # summation. Rows are kept only if no such sum can exceed the radius. Scaled rows end
        # slightly further inside, so that a second projection keeps them.
        rounding = (block.shape[1] + 4) * np.finfo(np.float64).eps
        outside = norm > self.radius * (1 - 2 * rounding) / peak
        scale = self.radius * (1 - 4 * rounding) / norm[outside]
        block[outside] = unit[outside] * scale[:, None]


# Greatest norms of a projected row, rounded up: sensitivities follow from them


def box_norm(n_ones: int, p: float) -> float:
    """Return the greatest l_p norm of rows with at most ``n_ones`` entries in [-1, 1], others 0."""
    return _root_up(n_ones, 1 / p) if n_ones else 0.0


def ball_norm(d: int, radius: float, p: float, intercept: bool) -> float:
    """Return the greatest l_p norm over a Euclidean ball of R^d, with or without an intercept."""
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
    # Sixteen units of rounding: more than the error of two roots, a product and 1/p.
    return value * (1 + 2.0**-48)
