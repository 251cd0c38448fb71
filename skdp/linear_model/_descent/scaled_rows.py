"""Scaled rows of a block, kept during a descent, with their predictors and exact sums.

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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray, size_of_arrays
from skdp._checks import fail
from skdp.linear_model._descent.blocks import Blocks
from skdp.linear_model._descent.scaling import Scaling
from skdp.linear_model._shared.gram import GRAM_BITS, NUMBER_BITS, ROUNDER, row_unit
from skdp.linear_model._shared.predict import row_products
from skdp.rows import Block
from skdp.rows.block import CELLS

# From rows and their slopes to sums: one sum, or one for each coordinate of a block.
Sums = Callable[[slice, FloatArray], Any]

# Bound on scaled numbers. Below it floats represent multiples of 2^-20.
_MOST_NUMBER = 2.0**NUMBER_BITS
# Adding and subtracting this rounds numbers in [-1, 1] to multiples of 2^-40.
_FINE_ROUNDER = 1.5 * 2.0 ** (52 - GRAM_BITS)


@dataclass(frozen=True, eq=False)
class Moves:
    """All moves of the coordinates of one model so far, in their order.

    Attributes
    ----------
    model : int
        A number that other models do not have.
    changes : list of (int, ndarray)
        Blocks of coordinates, and the changes of their coordinates, (size, *classes).
    classes : tuple of int
        The number of classes of a joint model, or nothing.
    """

    model: int
    changes: list[tuple[int, FloatArray]]
    classes: tuple[int, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # One long array is sent to workers faster than many short ones.
        blocks = [block for block, _ in self.changes]
        parts = [change for _, change in self.changes]
        whole = np.concatenate(parts) if parts else np.empty(0)
        lengths = [len(part) for part in parts]
        return _joined_moves, (self.model, blocks, whole, lengths, self.classes)


def _joined_moves(
    model: int, blocks: list[int], whole: FloatArray, lengths: list[int], classes: tuple[int, ...]
) -> Moves:
    parts = np.split(whole, np.cumsum(lengths)[:-1]) if lengths else []
    return Moves(model, list(zip(blocks, parts, strict=True)), classes)


class ScaledRows:
    """Scaled rows, by columns.

    Parameters
    ----------
    blocks : Blocks
    scaling : Scaling
        Public: it was computed from released numbers.
    rows : Block

    Attributes
    ----------
    numbers : ndarray of float32, shape (numbers, n)
        Scaled numbers: multiples of 2^-20.
    levels : tuple of ndarray of shape (n,), of the smallest unsigned integers that fit
        The level of each record, for each column of levels.
    weight : ndarray of float32, shape (n,)
        The weight of each record: the greatest multiple of 2^-20 in [0, 1] with which no number
        of the record exceeds 1 and its length is at most the bound of ``scaling.rows``.
    target : ndarray of shape (n,)
    share : int or None
        As in `skdp.rows.Block`.
    """

    def __init__(self, blocks: Blocks, scaling: Scaling, rows: Block) -> None:
        self.blocks, self.levels, self.target = blocks, rows.levels, rows.target
        self.share = rows.share
        # 24 bits hold a multiple of 2^-20 below 16. Greater numbers are rounded to a coarser grid.
        self.numbers = np.empty((len(blocks.numbers), len(rows)), dtype=np.float32)
        at = 0
        for part in rows.parts(2 * len(blocks.numbers)):
            self.numbers[:, at : at + len(part)] = _scaled(part.numbers, blocks, scaling).T
            at += len(part)
        self.weight = self._weights(scaling).astype(np.float32)
        # The model of the predictors, the number of moves that they contain, and the predictors.
        self._moved: tuple[int, int, FloatArray] | None = None

    def __sizeof__(self) -> int:
        return size_of_arrays(self)

    def _weights(self, scaling: Scaling) -> FloatArray:
        greatest = np.abs(self.numbers).max(axis=0, initial=1.0).astype(np.float64)
        # The quotient is 2^40 over an integer: no integer lies between it and its rounded value.
        weights: FloatArray = np.floor(_MOST_NUMBER / greatest)
        if scaling.rows.bound is not None:
            # The factor exceeds the rounding errors of sums of up to 2^20 squares.
            longest = scaling.rows.bound / self._powers(scaling)
            longest = (np.sqrt(longest) if scaling.rows.power == 2 else longest) * (1 - 2.0**-30)
            weights = np.minimum(weights, np.floor(longest * _MOST_NUMBER))
        return weights / _MOST_NUMBER

    def _powers(self, scaling: Scaling) -> FloatArray:
        """Return sum_g |a_g z_g|^power of the rows, added up in the same order for all."""
        power, first = scaling.rows.power, int(self.blocks.intercept)
        unit = scaling.rows.precision**power
        total = np.full(len(self.target), unit[:first].sum())
        total += unit[self.blocks.first_levels :].sum()
        for own, numbers in zip(unit[first:], self.numbers, strict=False):
            sizes = np.abs(numbers.astype(np.float64))
            total += own * (sizes * sizes if power == 2 else sizes)
        return total

    def predictors(self, moves: Moves) -> FloatArray:
        """Return the predictors after all moves, (n,), or (classes, n) of a joint model.

        Predictors are kept with the number of moves that they contain. If they are lost, all moves
        are made again, with the same result to the last bit.
        """
        model, done, values = self._moved or (None, 0, None)
        if model != moves.model or values is None:
            done, values = 0, np.zeros((*moves.classes, len(self.target)))
        for block, change in moves.changes[done:]:
            values = values + self.along(block, change)
        self._moved = moves.model, len(moves.changes), values
        return values

    def sums(self, block: int, bounds: FloatArray | None = None) -> Sums:
        """Return the function that sums the contributions to a block's coordinates.

        With bounds contributions are clipped to them, and sums are in units of the bounds.
        """
        if block < self.blocks.first_levels:
            column = self._column(block)
            if bounds is None:
                return lambda rows, slopes: column[rows].astype(np.float64) @ slopes.T
            # The product first: it is finite, and a quotient may not be.
            return lambda rows, slopes: _clipped(column[rows] * slopes / bounds[0]).sum()
        levels, size = self._levels(block), self.blocks.sizes[block]
        table = self.blocks.whole_tables[block - self.blocks.first_levels]
        size = size if table is None else len(table)

        def sums(rows: slice, slopes: FloatArray) -> Any:
            own = levels[rows]
            shares = slopes if bounds is None else _clipped(slopes / bounds.take(own))
            if shares.ndim == 1:
                found = np.bincount(own, weights=shares, minlength=size)
            else:
                each = [np.bincount(own, weights=share, minlength=size) for share in shares]
                found = np.array(each).T
            # Products of multiples of 2^-20, whose sums are exact in any order.
            return found if table is None else table.T @ found

        return sums

    def all_sums(self, rows: slice, slopes: FloatArray) -> FloatArray:
        """Return the sums for all coordinates, (dim,)."""
        some = max(1, CELLS // max(1, len(slopes)))
        strips = range(0, len(self.numbers), some)
        numbers = [self.numbers[j : j + some, rows] @ slopes for j in strips]
        others = [*range(self.blocks.intercept), *range(self.blocks.first_levels, len(self.blocks))]
        sums = [np.atleast_1d(self.sums(block)(rows, slopes)) for block in others]
        sums[self.blocks.intercept : self.blocks.intercept] = numbers
        return np.concatenate(sums)

    def along(self, block: int, change: FloatArray) -> FloatArray:
        """Return the change of predictors for a change of a block's coordinates."""
        if block >= self.blocks.first_levels:
            table = self.blocks.whole_tables[block - self.blocks.first_levels]
            terms = change.T
            if table is not None:  # a matrix product does not define the last bits
                terms = row_products(table, np.atleast_2d(terms)).T.reshape(*terms.shape[:-1], -1)
            return terms.take(self._levels(block), axis=-1)
        column = self._column(block)
        return np.asarray(np.multiply.outer(change[0], column, dtype=np.float64))

    def _column(self, block: int) -> NDArray[np.float32]:
        """Return the numbers of a block, or ones for the intercept, (n,)."""
        if block < self.blocks.intercept:
            return np.broadcast_to(np.float32(1.0), len(self.target))
        column: NDArray[np.float32] = self.numbers[block - self.blocks.intercept]
        return column

    def _levels(self, block: int) -> NDArray[Any]:
        return self.levels[block - self.blocks.first_levels]


def _scaled(numbers: FloatArray, blocks: Blocks, scaling: Scaling) -> FloatArray:
    """Return numbers on the grid, before and after they are scaled."""
    found = numbers / row_unit(blocks.domain)
    found += ROUNDER
    found -= ROUNDER
    found -= scaling.centre
    found /= scaling.scale
    found += ROUNDER
    found -= ROUNDER
    return found


def check_scaling(scaling: Scaling) -> None:
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
