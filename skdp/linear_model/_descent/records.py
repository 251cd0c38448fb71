"""Scaled records, exact sums of gradients, and the predictors of a descent.

The contribution of a record to the gradient of a coordinate is a multiple of 2^-40 of size at most
1. Sums over 2^13 contributions are exact in floats in any order, and are added as integers. So no
rounding error depends on other records. The predictors of all records are kept: a step along a
block reads only the column of the block.

All other operations are done for each record by itself and are defined to the last bit by IEEE 754.
So the contribution of a record depends on the record and on released numbers, not on its position
nor on other records.
"""

from __future__ import annotations

from collections.abc import Callable
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
# From rows and their slopes to sums: one sum, or one for each coordinate of a block.
Sums = Callable[[slice, FloatArray], Any]

# Number of rows whose slopes are computed at once: few calls, and arrays that fit in the cache.
BLOCK = 4 * MOST_ROWS
# Bound on scaled numbers. Below it floats represent multiples of 2^-20.
_MOST_NUMBER = 2.0**NUMBER_BITS
# Twice the greatest coefficient, so that predictors are finite.
_MOST_MOVE = 2.0**21
# Adding and subtracting this rounds numbers in [-1, 1] to multiples of 2^-40.
_FINE_ROUNDER = 1.5 * 2.0 ** (52 - GRAM_BITS)


class Slope(Protocol):
    """The derivative of a loss by the predictor, divided by its bound.

    It treats each record by itself, by IEEE 754 operations. Values are in [-1, 1].
    """

    def __call__(self, predictor: FloatArray, target: FloatArray) -> FloatArray:
        """Return a new array of slopes; the arguments are not changed."""


class Records:
    """All scaled records, by columns.

    Parameters
    ----------
    blocks : Blocks
    scaling : Scaling
        Public: it was computed from released numbers.
    X : DataFrame or array-like of shape (n, n_columns)
        Read once, in blocks of rows.
    n : int

    Attributes
    ----------
    numbers : ndarray of float32, shape (numbers, n)
        Scaled numbers: multiples of 2^-20.
    levels : tuple of ndarray of shape (n,), of the smallest unsigned integers that fit
        The level of each record, for each column of levels.
    weight : ndarray of float32, shape (n,)
        The weight of each record: the greatest multiple of 2^-20 in [0, 1] with which no number
        of the record exceeds 1 and its length is at most the bound of ``scaling.rows``.

    Raises
    ------
    ValueError
        If scaled numbers could leave the grid, or the bound on rows is not > 0.
    """

    def __init__(self, blocks: Blocks, scaling: Scaling, X: Any, n: int) -> None:
        _check_scaling(scaling)
        self.blocks = blocks
        # 24 bits hold a multiple of 2^-20 below 16. Greater numbers are rounded to a coarser grid.
        self.numbers = np.empty((len(blocks.numbers), n), dtype=np.float32)
        sizes = blocks.sizes[blocks.first_levels :]
        self.levels = tuple(np.empty(n, dtype=np.min_scalar_type(size - 1)) for size in sizes)
        self.weight = np.empty(n, dtype=np.float32)
        at = 0
        with np.errstate(all="ignore"):  # a warning would depend on the data
            # The rows include a target. A broadcast zero takes no memory.
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
        # The quotient is 2^40 over an integer: no integer lies between it and its rounded value.
        weights: FloatArray = np.floor(_MOST_NUMBER / greatest)
        if scaling.rows.bound is not None:
            # The factor exceeds the rounding errors of sums of up to 2^20 squares.
            longest = scaling.rows.bound / self._powers(rows, scaling)
            longest = (np.sqrt(longest) if scaling.rows.power == 2 else longest) * (1 - 2.0**-30)
            weights = np.minimum(weights, np.floor(longest * _MOST_NUMBER))
        return weights / _MOST_NUMBER

    def _powers(self, rows: slice, scaling: Scaling) -> FloatArray:
        """Return sum_g |a_g z_g|^power of some records, added up in the same order for all."""
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

    def sums(self, block: int, bounds: FloatArray | None = None) -> Sums:
        """Return the function that sums the contributions to a block's coordinates.

        With bounds contributions are clipped to them, and sums are in units of the bounds.
        """
        if block < self.blocks.first_levels:
            column = self._column(block)
            if bounds is None:
                return lambda rows, slopes: column[rows].astype(np.float64) @ slopes
            # The product first: it is finite, and a quotient may not be.
            return lambda rows, slopes: _clipped(column[rows] * slopes / bounds[0]).sum()
        levels, size = self._levels(block), self.blocks.sizes[block]

        def sums(rows: slice, slopes: FloatArray) -> Any:
            own = levels[rows]
            shares = slopes if bounds is None else _clipped(slopes / bounds.take(own))
            return np.bincount(own, weights=shares, minlength=size)

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
        """Return the change of predictors for a change of a block's coordinates, (rows,)."""
        if block >= self.blocks.first_levels:
            return change.take(self._levels(block)[rows])
        return np.asarray(np.multiply(self._column(block)[rows], change[0], dtype=np.float64))

    def _column(self, block: int) -> NDArray[np.float32]:
        """Return the numbers of a block, or ones for the intercept, (n,)."""
        if block < self.blocks.intercept:
            return np.broadcast_to(np.float32(1.0), self.n)
        column: NDArray[np.float32] = self.numbers[block - self.blocks.intercept]
        return column

    def _levels(self, block: int) -> NDArray[Any]:
        return self.levels[block - self.blocks.first_levels]


class Predictors:
    """The predictors of all records during a descent, and the gradients.

    Parameters
    ----------
    records : Records
    target : ndarray of shape (n,)
    slope : Slope
        It may be unbounded if ``clips`` is given.
    clips : ndarray of shape (dim,) or None
        Bounds on the contribution of a record to the gradient of each coordinate, in units of the
        slope. Gradients are in units of these bounds. None if the slope is bounded by 1. Then
        records are weighted, which bounds their numbers too.

    Notes
    -----
    Replacing one record changes each sum by at most 2, and the sums of a block of levels by at
    most 1 in each of two coordinates or 2 in one. Adding or removing one changes one coordinate of
    a block, by at most 1. Statement and proof: ``docs/proofs/coordinate_descent.md``.
    """

    def __init__(
        self, records: Records, target: FloatArray, slope: Slope, clips: FloatArray | None = None
    ) -> None:
        if clips is not None and not np.all((clips > 0) & (clips < np.inf)):
            raise fail("clips", "be finite and > 0", clips.tolist())
        self.records, self.target, self.slope, self.clips = records, target, slope, clips
        self.values = np.zeros(records.n)
        self._pending: list[tuple[int, FloatArray]] = []

    def move(self, block: int, change: FloatArray) -> None:
        """Add ``change`` to the coordinates of a block, from the next gradient on."""
        if not np.abs(change).max() <= _MOST_MOVE:  # also catches NaN
            raise fail("step", f"be at most {_MOST_MOVE:g}", change.tolist())
        if change.any():
            self._pending.append((block, change))

    def gradient(self, block: int) -> Integers:
        """Return the sums over all records for a block's coordinates, in units of 2^-40."""
        return self._summed(self._sums_of(block))

    def gradients(self) -> Integers:
        """Return the sums for all coordinates, (dim,), in units of 2^-40, by reading rows once."""
        if self.clips is None:
            return self._summed(self.records.all_sums)
        each = [self._sums_of(block) for block in range(len(self.records.blocks))]
        return self._summed(lambda rows, slopes: np.hstack([sums(rows, slopes) for sums in each]))

    def _sums_of(self, block: int) -> Sums:
        place = self.records.blocks.places[block]
        return self.records.sums(block, None if self.clips is None else self.clips[place])

    def _summed(self, sums: Sums) -> Integers:
        """Return the sums over all records of sums that are exact over each slice."""
        parts: list[Any] = []
        with np.errstate(all="ignore"):
            for start in range(0, self.records.n, BLOCK):
                slopes = self._slopes(slice(start, min(start + BLOCK, self.records.n)))
                for at in range(0, len(slopes), MOST_ROWS):
                    own = slopes[at : at + MOST_ROWS]
                    parts.append(sums(slice(start + at, start + at + len(own)), own))
        self._pending.clear()
        return _folded(parts)

    def _slopes(self, rows: slice) -> FloatArray:
        """Apply pending moves to the predictors, and return the slopes."""
        values = self.values[rows]
        for block, change in self._pending:
            values += self.records.along(block, rows, change)
        slopes = self.slope(values, self.target[rows])
        if self.clips is None:
            slopes *= self.records.weight[rows]
            slopes += ROUNDER
            slopes -= ROUNDER
        return slopes


def _check_scaling(scaling: Scaling) -> None:
    """Raise an error unless scaled numbers stay on the grid, for numbers in [-1, 1]."""
    with np.errstate(all="ignore"):
        greatest = (1 + np.abs(scaling.centre)) / scaling.scale
    if not ((scaling.scale > 0) & (greatest < _MOST_NUMBER)).all():
        raise fail("scaling", "have centres and scales that keep numbers below 2^20")
    bound = scaling.rows.bound
    if bound is not None and not (bound > 0 and np.isfinite(scaling.rows.precision).all()):
        raise fail("scaling", "bound the length of rows by a number > 0", bound)


def _clipped(shares: FloatArray) -> FloatArray:
    """Clip numbers to [-1, 1] and round them to multiples of 2^-40, in place."""
    np.clip(shares, -1.0, 1.0, out=shares)
    shares += _FINE_ROUNDER
    shares -= _FINE_ROUNDER
    return shares


def _folded(parts: list[Any]) -> Integers:
    """Return the sum of exact sums in units of 2^-40, as Python integers."""
    # Beyond 2^23 records int64 is too small for the sum.
    whole = (np.array(parts).reshape(len(parts), -1) * 2.0**GRAM_BITS).astype(np.int64)
    total: Integers = whole.astype(object).sum(axis=0)
    return total
