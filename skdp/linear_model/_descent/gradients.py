"""Exact gradients of all records during a descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.scaled_rows import Moves, ScaledRows, check_scaling
from skdp.linear_model._descent.scaling import Scaling
from skdp.linear_model._shared.gram import NUMBER_BITS, ROUNDER, exact_sum, in_units
from skdp.linear_model._shared.task import target_of
from skdp.rows import Kept, Rows
from skdp.rows.block import MOST_ROWS

# Integers, or fractions where rows have shares in persons.
Exact = NDArray[Any]

# Number of blocks whose slopes are computed at once: few calls, and arrays that fit in the cache.
SLOPE_BLOCKS = 4
# Twice the greatest coefficient, so that predictors are finite.
_MOST_MOVE = 2.0**21
_NUMBERS = count()


class Slope(Protocol):
    """The derivative of a loss by the predictor, divided by its bound.

    It treats each record by itself, by IEEE 754 operations. Values are in [-1, 1].
    """

    def __call__(self, predictor: FloatArray, target: FloatArray) -> FloatArray:
        """Return a new array of slopes; the arguments are not changed."""


def keep_scaled(rows: Rows, blocks: Blocks, scaling: Scaling) -> Kept:
    """Return the scaled rows, kept where they are; `ScaledRows` is the state of a block.

    Raises
    ------
    ValueError
        If scaled numbers could leave the grid, or the bound on rows is not > 0.
    """
    check_scaling(scaling)
    return rows.keep(_Build(blocks, scaling), SLOPE_BLOCKS, caches=True)


class Gradients:
    """The gradients of one model.

    Parameters
    ----------
    kept : Kept
        As `keep_scaled` returns it.
    blocks : Blocks
    label : int or None
        The position of the label that the model predicts; None for a regression.
    slope : Slope
        It may be unbounded if ``clips`` is given.
    clips : ndarray of shape (dim,) or None
        Bounds on the contribution of a record to the gradient of each coordinate, in units of the
        slope. Gradients are in units of these bounds. None if the slope is bounded by 1. Then
        records are weighted, which bounds their numbers too.
    label_weights : ndarray of shape (n_labels,) or None
        Factors in [0, 1] on the slopes of records with each label. None if all are 1.
    classes : tuple of int
        The number of classes of a joint model, or nothing. Slopes of a joint model have the shape
        (n_classes, n), and gradients have the classes in their last axis.

    Notes
    -----
    Replacing one record changes each sum by at most 2, and the sums of a block of levels by at
    most 1 in each of two coordinates or 2 in one. Adding or removing one changes one coordinate of
    a block, by at most 1. For B-splines the sizes of all changes of a block add up to at most 2,
    or 1. For a joint model this holds for each class, and Theorem 8 bounds the changes of all
    classes together. Statement and proof: ``docs/proofs/coordinate_descent.md``.
    """

    def __init__(
        self,
        kept: Kept,
        blocks: Blocks,
        label: int | None,
        slope: Slope,
        clips: FloatArray | None = None,
        label_weights: FloatArray | None = None,
        classes: tuple[int, ...] = (),
    ) -> None:
        if clips is not None and not np.all((clips > 0) & (clips < np.inf)):
            raise fail("clips", "be finite and > 0", clips.tolist())
        self.kept, self.blocks, self.label = kept, blocks, label
        self.slope, self.clips, self.label_weights = slope, clips, label_weights
        self.moves = Moves(next(_NUMBERS), [], classes)

    def move(self, block: int, change: FloatArray) -> None:
        """Add ``change`` to the coordinates of a block, from the next gradient on."""
        if not np.abs(change).max() <= _MOST_MOVE:  # also catches NaN
            raise fail("step", f"be at most {_MOST_MOVE:g}", change.tolist())
        if change.any():
            self.moves.changes.append((block, change.copy()))

    def of_block(self, block: int) -> Exact:
        """Return the sums over all records for a block's coordinates, in units of 2^-40."""
        return self._sum(_BlockSums(block, self._clips_of(block)))

    def of_all(self) -> Exact:
        """Return the sums for all coordinates of one class, (dim,), by reading rows once."""
        if self.clips is None:
            return self._sum(ScaledRows.all_sums)
        each = [_BlockSums(block, self._clips_of(block)) for block in range(len(self.blocks))]
        return self._sum(_AllSums(each))

    def _clips_of(self, block: int) -> FloatArray | None:
        return None if self.clips is None else self.clips[self.blocks.places[block]]

    def _sum(self, sums: Any) -> Exact:
        facts = self.label_weights, self.clips is None
        part = _Part(self.moves, self.label, self.slope, *facts, sums)
        total: Exact = exact_sum(self.kept, part)
        return total


@dataclass(frozen=True, eq=False)
class _Build:
    blocks: Blocks
    scaling: Scaling

    def __call__(self, rows: Any) -> ScaledRows:
        return ScaledRows(self.blocks, self.scaling, rows)


@dataclass(frozen=True, eq=False)
class _BlockSums:
    """Sums over some of the rows for the coordinates of a block."""

    block: int
    clips: FloatArray | None

    def __call__(self, state: ScaledRows, rows: slice, slopes: FloatArray) -> FloatArray:
        found = state.sums(self.block, self.clips)(rows, slopes)
        return np.reshape(found, (state.blocks.sizes[self.block], *slopes.shape[:-1]))


@dataclass(frozen=True, eq=False)
class _AllSums:
    blocks: list[_BlockSums]

    def __call__(self, state: ScaledRows, rows: slice, slopes: FloatArray) -> FloatArray:
        return np.hstack([sums(state, rows, slopes) for sums in self.blocks])


@dataclass(frozen=True, eq=False)
class _Part:
    """The exact sums of a state, in units of 2^-40."""

    moves: Moves
    label: int | None
    slope: Slope
    label_weights: FloatArray | None
    is_weighted: bool
    sums: Callable[[ScaledRows, slice, FloatArray], FloatArray]

    def __call__(self, state: ScaledRows) -> NDArray[np.int64]:
        values = state.predictors(self.moves)
        slopes = self.slope(values, target_of(state.target, self.label))
        if self.label_weights is not None:
            slopes *= self.label_weights.take(state.target)
        if self.is_weighted:
            slopes *= state.weight
            # Entries of joint slopes are rounded towards 0: no norm of them becomes greater.
            to_grid = _round if slopes.ndim == 1 else _truncate
            to_grid(slopes)
        # Sums over more rows would not be exact in floats.
        n = slopes.shape[-1]
        slices = [slice(at, min(at + MOST_ROWS, n)) for at in range(0, max(n, 1), MOST_ROWS)]
        found = [in_units(self.sums(state, rows, slopes[..., rows])) for rows in slices]
        return np.asarray(np.sum(found, axis=0))


def _round(slopes: FloatArray) -> None:
    """Round numbers in [-1, 1] to multiples of 2^-20, in place."""
    slopes += ROUNDER
    slopes -= ROUNDER


def _truncate(slopes: FloatArray) -> None:
    """Round numbers towards 0 to multiples of 2^-20, in place."""
    slopes *= 2.0**NUMBER_BITS
    np.trunc(slopes, out=slopes)
    slopes *= 2.0**-NUMBER_BITS
