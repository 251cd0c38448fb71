"""Records in blocks: gradients that are exact sums, and predictors that are kept.

What a record adds to the gradient of a coordinate is a multiple of 2^-40 of size at most 1. Sums
over 2^13 of them are exact in floats, whatever their order, and these add up as integers: no
rounding error of one record's depends on the others. A step along a block costs one pass over its
column, as the predictors of all records are kept.

All else is done record by record, by operations that IEEE 754 defines to the last bit: a record's
share depends on the record and on what was released, not on its place nor on who else is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.scaling import Scaling
from skdp.linear_model._shared.gram import (
    CELLS,
    GRAM_BITS,
    MOST_ROWS,
    NUMBER_BITS,
    ROUNDER,
    blocks_of,
)

Integers = NDArray[Any]
# From some rows and their slopes to sums over them: one, or as many as a block has coordinates.
Sums = Callable[[slice, FloatArray], Any]

# Slopes are made for so many rows at once: few calls, and the arrays stay in the cache.
BLOCK = 4 * MOST_ROWS
# Numbers in a scaling stay below 2^20, where their grid of 2^-20 is fine for floats.
_MOST_NUMBER = 2.0**NUMBER_BITS
# Twice what a coefficient can be: predictors stay finite.
_MOST_MOVE = 2.0**21
# Adding and subtracting this rounds numbers in [-1, 1] to multiples of 2^-40.
_FINE_ROUNDER = 1.5 * 2.0 ** (52 - GRAM_BITS)


class Slope(Protocol):
    """The derivative of a loss by its predictor, over a bound on it: between -1 and 1.

    It treats each record by itself, by IEEE 754 operations.
    """

    def __call__(self, predictor: FloatArray, target: FloatArray) -> FloatArray:
        """Return a new array of slopes; neither argument is changed."""


class Records:
    """All records in a scaling, by columns.

    Parameters
    ----------
    blocks : Blocks
    scaling : Scaling
        Public by now: it was released.
    X : DataFrame or array-like of shape (n, n_columns)
        Read once, block by block.
    n : int

    Attributes
    ----------
    numbers : ndarray of float32, shape (numbers, n)
        Numbers in the scaling: multiples of 2^-20.
    levels : tuple of ndarray of shape (n,), of the smallest unsigned integers that fit
        For each column of levels, which one a record has.
    weight : ndarray of float32, shape (n,)
        What a record counts: the greatest multiple of 2^-20 that is at most 1, with which no
        number of the record exceeds 1 and the record is no longer than ``scaling.rows`` says.

    Raises
    ------
    ValueError
        If the scaling is so narrow that numbers in it leave the grid, or its bound is not > 0.
    """

    def __init__(self, blocks: Blocks, scaling: Scaling, X: Any, n: int) -> None:
        _check_scaling(scaling)
        self.blocks = blocks
        # 24 bits hold a multiple of 2^-20 below 16, and of greater numbers round to a coarser grid.
        self.numbers = np.empty((len(blocks.numbers), n), dtype=np.float32)
        sizes = blocks.sizes[blocks.first_levels :]
        self.levels = tuple(np.empty(n, dtype=np.min_scalar_type(size - 1)) for size in sizes)
        self.weight = np.empty(n, dtype=np.float32)
        at = 0
        with np.errstate(all="ignore"):  # a warning would be about the data
            # The rows come with a target: here with one that takes no memory.
            for rows in blocks_of(blocks.domain, X, np.broadcast_to(0.0, n)):
                self._place(slice(at, at + len(rows)), rows[:, 1:-1].T, scaling)
                at += len(rows)

    def _place(self, rows: slice, columns: FloatArray, scaling: Scaling) -> None:
        numbers = columns[list(self.blocks.numbers)]
        numbers -= scaling.centre[:, None]
        numbers /= scaling.scale[:, None]
        numbers += ROUNDER
        numbers -= ROUNDER
        self.numbers[:, rows] = numbers
        self.weight[rows] = self._weights(rows, scaling)
        for levels, block in zip(self.levels, self.blocks.level_columns, strict=True):
            # At most one indicator is 1; the first level has none.
            levels[rows] = np.arange(1, block.stop - block.start + 1) @ columns[block]

    def _weights(self, rows: slice, scaling: Scaling) -> FloatArray:
        greatest = np.abs(self.numbers[:, rows]).max(axis=0, initial=1.0).astype(np.float64)
        # The quotient is 2^40 over an integer: no integer lies between it and its float.
        weights: FloatArray = np.floor(_MOST_NUMBER / greatest)
        if scaling.rows.bound is not None:
            # Less by more than rounding can add to sums of 2^20 squares.
            longest = scaling.rows.bound / self._powers(rows, scaling)
            longest = (np.sqrt(longest) if scaling.rows.power == 2 else longest) * (1 - 2.0**-30)
            weights = np.minimum(weights, np.floor(longest * _MOST_NUMBER))
        return weights / _MOST_NUMBER

    def _powers(self, rows: slice, scaling: Scaling) -> FloatArray:
        """Return sum_g |a_g z_g|^power of some records, all added up in the same order."""
        power, first = scaling.rows.power, int(self.blocks.intercept)
        unit = scaling.rows.precision**power
        total = np.full(rows.stop - rows.start, unit[:first].sum())
        total += unit[self.blocks.first_levels :].sum()
        for own, numbers in zip(unit[first:], self.numbers[:, rows], strict=False):
            sizes = np.abs(numbers.astype(np.float64))
            total += own * (sizes * sizes if power == 2 else sizes)
        return total

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.weight)

    def sums(self, block: int) -> Sums:
        """Return how shares of a block's coordinates are summed."""
        if block < self.blocks.first_levels:
            column = self._column(block)
            return lambda rows, slopes: column[rows].astype(np.float64) @ slopes
        levels, size = self._levels(block), self.blocks.sizes[block]
        return lambda rows, slopes: np.bincount(levels[rows], weights=slopes, minlength=size)

    def clipped_sums(self, block: int, bounds: FloatArray) -> Sums:
        """Return how shares are summed that are clipped one by one, in units of their bounds."""
        if block < self.blocks.first_levels:
            column, bound = self._column(block), bounds[0]
            # The product first: it is finite, as a quotient need not be.
            return lambda rows, slopes: _clipped(column[rows] * slopes / bound).sum()
        levels, size = self._levels(block), self.blocks.sizes[block]

        def sums(rows: slice, slopes: FloatArray) -> Any:
            shares = _clipped(slopes / bounds.take(levels[rows]))
            return np.bincount(levels[rows], weights=shares, minlength=size)

        return sums

    def all_sums(self, rows: slice, slopes: FloatArray) -> FloatArray:
        """Return the sums for all coordinates, (dim,)."""
        some = max(1, CELLS // len(slopes))
        strips = range(0, len(self.numbers), some)
        numbers = [self.numbers[j : j + some, rows] @ slopes for j in strips]
        others = [*range(self.blocks.intercept), *range(self.blocks.first_levels, len(self.blocks))]
        sums = [np.atleast_1d(self.sums(block)(rows, slopes)) for block in others]
        sums[self.blocks.intercept : self.blocks.intercept] = numbers
        return np.concatenate(sums)

    def along(self, block: int, rows: slice, change: FloatArray) -> FloatArray:
        """Return what a change of a block's coordinates adds to predictors, (rows,)."""
        if block >= self.blocks.first_levels:
            return change.take(self._levels(block)[rows])
        return np.asarray(np.multiply(self._column(block)[rows], change[0], dtype=np.float64))

    def _column(self, block: int) -> NDArray[np.float32]:
        """Return the numbers of a block, (n,); for the intercept ones, which take no memory."""
        if block < self.blocks.intercept:
            return np.broadcast_to(np.float32(1.0), self.n)
        column: NDArray[np.float32] = self.numbers[block - self.blocks.intercept]
        return column

    def _levels(self, block: int) -> NDArray[Any]:
        return self.levels[block - self.blocks.first_levels]


class Predictors:
    """The predictors of all records along a descent, and the gradients there.

    Parameters
    ----------
    records : Records
    target : ndarray of shape (n,)
    slope : Slope
        With ``clips`` it need not be bounded.
    clips : ndarray of shape (dim,) or None
        Bounds on what a record adds to the gradient of each coordinate, in units of the slope;
        gradients are in units of these bounds. None where the slope itself is bounded by 1:
        then records are weighted, which bounds their numbers too.

    Notes
    -----
    Replacing one record moves each sum by at most 2, and the sums of a block of levels by at most
    1 in each of two coordinates or 2 in one; adding or removing one moves one coordinate of a
    block, by at most 1. Statement and proof: ``docs/proofs/coordinate_descent.md``.
    """

    def __init__(
        self, records: Records, target: FloatArray, slope: Slope, clips: FloatArray | None = None
    ) -> None:
        if clips is not None and not np.all((clips > 0) & (clips < np.inf)):
            raise fail("clips", "be finite and > 0", clips.tolist())
        self.records, self.target, self.slope, self.clips = records, target, slope, clips
        self.values = np.zeros(records.n)
        self._pending: list[tuple[int, FloatArray]] = []
        self._blocks = [(rows, _parts(rows)) for rows in _slices(0, records.n, BLOCK)]

    def move(self, block: int, change: FloatArray) -> None:
        """Add ``change`` to the coordinates of a block; predictors follow at the next gradient."""
        if not np.abs(change).max() <= _MOST_MOVE:  # also catches NaN
            raise fail("step", f"be at most {_MOST_MOVE:g}", change.tolist())
        if change.any():
            self._pending.append((block, change))

    def gradient(self, block: int) -> Integers:
        """Return the sums over all records for a block's coordinates, in units of 2^-40."""
        return self._summed(self._sums_of(block))

    def gradients(self) -> Integers:
        """Return the sums for all coordinates, (dim,), in units of 2^-40, from one pass."""
        if self.clips is None:
            return self._summed(self.records.all_sums)
        each = [self._sums_of(block) for block in range(len(self.records.blocks))]
        return self._summed(lambda rows, slopes: np.hstack([sums(rows, slopes) for sums in each]))

    def _sums_of(self, block: int) -> Sums:
        if self.clips is None:
            return self.records.sums(block)
        return self.records.clipped_sums(block, self.clips[self.records.blocks.places[block]])

    def _summed(self, sums: Sums) -> Integers:
        """Return the sums over all records of what is exact over each slice."""
        parts: list[Any] = []
        with np.errstate(all="ignore"):
            for block, slices in self._blocks:
                slopes = self._slopes(block)
                parts += [sums(rows, slopes[own]) for rows, own in slices]
        self._pending.clear()
        return _folded(parts)

    def _slopes(self, rows: slice) -> FloatArray:
        """Return slopes after the moves that the predictors have not followed yet."""
        values = self.values[rows]
        for block, change in self._pending:
            values += self.records.along(block, rows, change)
        slopes = self.slope(values, self.target[rows])
        if self.clips is None:
            slopes *= self.records.weight[rows]
            slopes += ROUNDER
            slopes -= ROUNDER
        return slopes


def _slices(start: int, stop: int, most: int) -> Iterator[slice]:
    """Yield slices of at most ``most`` rows."""
    return (slice(at, min(stop, at + most)) for at in range(start, stop, most))


def _parts(block: slice) -> list[tuple[slice, slice]]:
    """Return slices over which sums are exact, and where they are in the block."""
    parts = _slices(block.start, block.stop, MOST_ROWS)
    return [(rows, slice(rows.start - block.start, rows.stop - block.start)) for rows in parts]


def _check_scaling(scaling: Scaling) -> None:
    """Raise unless numbers in the scaling are on the grid; numbers and centres are in [-1, 1]."""
    with np.errstate(all="ignore"):
        greatest = (1 + np.abs(scaling.centre)) / scaling.scale
    if not ((scaling.scale > 0) & (greatest < _MOST_NUMBER)).all():
        raise fail("scaling", "have centres and scales that keep numbers below 2^20")
    bound = scaling.rows.bound
    if bound is not None and not (bound > 0 and np.isfinite(scaling.rows.precision).all()):
        raise fail("scaling", "bound the length of rows by a number > 0", bound)


def _clipped(shares: FloatArray) -> FloatArray:
    """Return numbers clipped to [-1, 1] and rounded to multiples of 2^-40, in place."""
    np.clip(shares, -1.0, 1.0, out=shares)
    shares += _FINE_ROUNDER
    shares -= _FINE_ROUNDER
    return shares


def _folded(parts: list[Any]) -> Integers:
    """Return the sum of exact sums in units of 2^-40: beyond 2^23 records int64 is too small."""
    whole = (np.array(parts).reshape(len(parts), -1) * 2.0**GRAM_BITS).astype(np.int64)
    total: Integers = whole.astype(object).sum(axis=0)
    return total
