"""The coordinates of a descent in blocks, scaled rows, and exact gradients of all records.

A block is the intercept, one number, or all levels of one column. Of two levels the second one is
a number, 1 or 0. A record has one level of a column, so that it contributes to one coordinate of
the gradient of the block. All levels together have the privacy cost of one number. So have all
B-splines of one column: a record's contributions to their coordinates add up to at most 1.

The contribution of a record to the gradient of a coordinate is a multiple of 2^-40 of size at most
1. Sums over 2^13 contributions are exact in floats in any order, and are added as integers. So no
rounding error depends on other records. The predictors of all records are kept: a step along a
block reads only the column of the block.

All other operations are done for each record by itself, by additions, products and quotients,
which IEEE 754 defines to the last bit. The exponential of a library may differ in the last bit
between the middle and the end of an array. So the contribution of a record depends on the record
and on released numbers, not on its position nor on other records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.linear_model._descent.theorem import RowBound
from skdp.linear_model._shared.design import RowLayout
from skdp.linear_model._shared.gram import (
    GRAM_BITS,
    NUMBER_BITS,
    exact_sum,
    in_units,
    on_grid,
    row_unit,
)
from skdp.linear_model._shared.scaling import Scaler
from skdp.linear_model._shared.task import target_of
from skdp.rows import Block, Kept, Rows
from skdp.rows.memory import CELLS, MOST_ROWS
from skdp.trusted.arrays import FloatArray, row_products, size_of_arrays
from skdp.trusted.checks import fail


@dataclass(frozen=True)
class Blocks(RowLayout):
    """The coordinates of a model in blocks: the intercept, the numbers, the columns of levels.

    With ``all_levels`` the first level of a column has a coefficient too. The set of models is the
    same, and a penalty then treats all levels alike.
    """

    all_levels: bool = False

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of coordinates of each block, including first levels that are not free."""
        return (1,) * self.first_levels + tuple(b.stop - b.start + 1 for b in self.wide)

    @cached_property
    def is_flag(self) -> tuple[bool, ...]:
        """Which columns of levels have two of them."""
        pairs = zip(self.level_columns, self.tables, strict=True)
        return tuple(table is None and b.stop - b.start == 1 for b, table in pairs)

    @cached_property
    def scaled(self) -> tuple[int, ...]:
        """Encoded columns of the numbers, and of columns of two levels, which are numbers too."""
        return self.numbers + tuple(b.start for b in compress(self.level_columns, self.is_flag))

    @cached_property
    def wide(self) -> tuple[slice, ...]:
        """Encoded columns of the other columns of levels."""
        return tuple(b for b in self.level_columns if b.start not in self.scaled)

    @cached_property
    def levels_of(self) -> tuple[int, ...]:
        """The position of each of these among all columns of levels."""
        return tuple(k for k, flag in enumerate(self.is_flag) if not flag)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        stops = np.cumsum(self.sizes)
        return tuple(slice(int(e) - s, int(e)) for e, s in zip(stops, self.sizes, strict=True))

    @cached_property
    def whole_tables(self) -> tuple[FloatArray | None, ...]:
        """For each wide column its table with the first level or B-spline; None for levels."""
        tables = (self.tables[k] for k in self.levels_of)
        return tuple(
            None if table is None else np.column_stack([1 - table.sum(axis=1), table])
            for table in tables
        )

    @cached_property
    def differences(self) -> dict[int, FloatArray]:
        """For each block of a spline the penalty on differences of coefficients, (size, size).

        It is that of the domain for coefficients minus the first one.
        """
        matrices = {}
        for block, k in enumerate(self.levels_of, start=self.first_levels):
            penalty = self.penalties[k]
            size = 0 if penalty is None else len(penalty)
            if penalty is not None and (penalty != np.eye(size)).any():
                minus_first = np.eye(size, size + 1, k=1)
                minus_first[:, 0] = -1.0
                matrices[block] = minus_first.T @ (penalty - np.eye(size)) @ minus_first
        return matrices

    @property
    def first_levels(self) -> int:
        return int(self.intercept) + len(self.scaled)

    @property
    def dim(self) -> int:
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def number_places(self) -> slice:
        return slice(int(self.intercept), self.first_levels)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Which coordinates may move. First levels do if ``all_levels``."""
        free = np.ones(self.dim, dtype=np.bool_)
        if not self.all_levels:
            free[[place.start for place in self.places[self.first_levels :]]] = False
        return free

    def of_columns(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of the encoded columns and the intercept.

        The last axis of all are the classes of a joint model.
        """
        coef = np.zeros((self.domain.n_encoded, *theta.shape[1:]))
        coef[list(self.scaled)] = theta[self.number_places]
        intercept = np.array(theta[0]) if self.intercept else np.zeros(theta.shape[1:])
        for block, place in zip(self.wide, self.places[self.first_levels :], strict=True):
            first, *others = theta[place]
            coef[block] = np.array(others) - first
            intercept = intercept + first
        return coef, intercept

    def of_model(self, coef: FloatArray, intercept: FloatArray) -> FloatArray:
        """Return the coordinates of a model; first levels have 0."""
        theta = np.zeros((self.dim, *coef.shape[1:]))
        if self.intercept:
            theta[0] = intercept
        theta[self.number_places] = coef[list(self.scaled)]
        for block, place in zip(self.wide, self.places[self.first_levels :], strict=True):
            theta[place.start + 1 : place.stop] = coef[block]
        return theta


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public information on the columns at the start of the descent.

    ``n`` is the number of records, a public guess of it, or a noisy count. A number x becomes
    (x - centre) / scale. ``square`` is the mean square of each scaled coordinate, (dim,): an
    estimate on the high side or, without a scaling stage (``is_estimated``), a bound.
    """

    n: float
    centre: FloatArray
    scale: FloatArray
    square: FloatArray
    target_centre: float
    target_deviation: float
    is_estimated: bool
    rows: RowBound

    def scaler(self, blocks: Blocks) -> Scaler:
        """Return the map of the columns; the target is not scaled."""
        return Scaler.of(blocks.domain.n_encoded, list(blocks.scaled), self.centre, self.scale)


# Gradients

# At larger log-odds the probability differs from 0 or 1 by less than half a grid step, 2^-21.
# Classes that are less probable than the most probable one by more count as this.
_FAR = 16.0
_SQUARINGS = 5

# The derivative of a loss by the predictor, divided by its bound, from predictors and targets. It
# makes a new array and treats each record by itself, by IEEE 754 operations.
Slope = Callable[[FloatArray, FloatArray], FloatArray]


def logistic_slope(predictor: FloatArray, target: FloatArray) -> FloatArray:
    """Return p - y, in [-1, 1], for log-odds and targets in [0, 1], within 2^-23."""
    odds = _decay(np.clip(predictor, -_FAR, _FAR))
    odds += 1.0
    np.divide(1.0, odds, out=odds)
    odds -= target
    return odds


@dataclass(frozen=True)
class SoftmaxSlope:
    """The derivatives of a log(sum_k e^(z_k)) - z_y by the z_k, plus a constant: a p - e_y + c.

    The ``normalizer`` is a. For ``power`` 1 the constant c is 0, which keeps the sum of the sizes
    small. For 2 it is (1 - a) / n_classes, which keeps the length small: the derivatives add up
    to 0.
    """

    n_classes: int
    normalizer: float
    power: int

    @property
    def shift(self) -> float:
        return 0.0 if self.power == 1 else (1 - self.normalizer) / self.n_classes

    @property
    def size(self) -> float:
        """Bound on the sum of the sizes of a record's derivatives, or on their length."""
        a, k = self.normalizer, self.n_classes
        exact = 1 + a if self.power == 1 else math.sqrt(1 + a**2 - (1 - a) ** 2 / k)
        # The rounding errors of derivatives are less (Theorem 8).
        return exact * (1 + (k + 16) * 2.0**-50)

    def __call__(self, predictor: FloatArray, target: NDArray[Any]) -> FloatArray:
        """Return the derivatives in [-1, 1], (n_classes, n), for positions of labels."""
        odds = _decay(np.clip(predictor.max(axis=0) - predictor, 0.0, _FAR))
        total = odds[0].copy()
        for each in odds[1:]:  # numpy's own order of a sum depends on the shape
            total += each
        odds /= total
        odds *= self.normalizer
        odds += self.shift
        for k, each in enumerate(odds):
            each -= target == k
        return odds


def _decay(u: FloatArray) -> FloatArray:
    """Return a new array with e^-u, for u in [-16, 16]; it is 1 at 0."""
    # With x = u / 32, e^-x is 1 - x / (x^2/12 + x/2 + 1) up to about x^5/720 (Pade). Its 32nd
    # power is e^-u.
    odds: FloatArray = u * (1 / (12 * 2**_SQUARINGS))
    odds += 0.5
    odds *= u
    odds += 2**_SQUARINGS
    np.divide(u, odds, out=odds)
    np.subtract(1.0, odds, out=odds)
    for _ in range(_SQUARINGS):
        np.square(odds, out=odds)
    return odds


def residual(predictor: FloatArray, target: FloatArray) -> FloatArray:
    """Return the derivative of the squared loss, which is unbounded."""
    return np.asarray(predictor - target)


def clipped_residual(bound: float) -> Slope:
    """Return the scaled derivative of Huber's loss: residuals over a bound > 0, in [-1, 1]."""

    def slope(predictor: FloatArray, target: FloatArray) -> FloatArray:
        slopes = residual(predictor, target)
        slopes /= bound
        return np.clip(slopes, -1.0, 1.0, out=slopes)

    return slope


# Weights are multiples of its inverse.
_STEPS = 2.0**NUMBER_BITS
# Adding and subtracting this rounds numbers in [-1, 1] to multiples of 2^-40.
_FINE_ROUNDER = 1.5 * 2.0 ** (52 - GRAM_BITS)


@dataclass(frozen=True, eq=False)
class Moves:
    """All moves of the coordinates of one model so far, in their order."""

    model: int  # a number that other models do not have
    changes: list[tuple[int, FloatArray]]  # blocks, and the changes of their coordinates
    classes: tuple[int, ...] = ()  # the number of classes of a joint model

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
    """Scaled rows, by columns; ``levels``, ``target`` and ``share`` are those of a `Block`.

    ``numbers``, (numbers, n), are multiples of 2^-20. The ``weight`` of a record, (n,), is the
    greatest multiple of 2^-20 in [0, 1] with which no number of the record exceeds 1 and its length
    is at most the bound of ``scaling.rows``.
    """

    def __init__(self, blocks: Blocks, scaling: Scaling, rows: Block) -> None:
        self.blocks, self.levels, self.target = blocks, rows.levels, rows.target
        self.share = rows.share
        # 24 bits hold a multiple of 2^-20 below 16. Greater numbers, which are at most 100 because
        # estimated variances have a lower limit (`SpreadRule`), are rounded to a coarser grid.
        self.numbers = np.empty((len(blocks.scaled), len(rows)), dtype=np.float32)
        at, q = 0, len(blocks.numbers)
        flags = (-scaling.centre[q:] + [[0.0], [1.0]]) / scaling.scale[q:]
        on_grid(flags)
        of_flags = compress(rows.levels, blocks.is_flag)
        for own, values, levels in zip(self.numbers[q:], flags.T, of_flags, strict=True):
            own[:] = values[levels]
        for part in rows.parts(2 * q):
            # On the grid before and after they are scaled.
            numbers = part.numbers / row_unit(blocks.domain)
            on_grid(numbers)
            numbers -= scaling.centre[:q]
            numbers /= scaling.scale[:q]
            on_grid(numbers)
            self.numbers[:q, at : at + len(part)] = numbers.T
            at += len(part)
        self.weight = self._weights(scaling).astype(np.float32)
        # The model of the predictors, the number of moves that they contain, and the predictors.
        self._moved: tuple[int, int, FloatArray] | None = None

    def __sizeof__(self) -> int:
        return size_of_arrays(self)

    def _weights(self, scaling: Scaling) -> FloatArray:
        greatest = np.abs(self.numbers).max(axis=0, initial=1.0).astype(np.float64)
        # The quotient is 2^40 over an integer: no integer lies between it and its rounded value.
        weights: FloatArray = np.floor(_STEPS / greatest)
        if scaling.rows.bound is not None:
            # The factor exceeds the rounding errors of sums of up to 2^20 squares.
            longest = scaling.rows.bound / self._powers(scaling)
            longest = (np.sqrt(longest) if scaling.rows.power == 2 else longest) * (1 - 2.0**-30)
            weights = np.minimum(weights, np.floor(longest * _STEPS))
        return weights / _STEPS

    def _powers(self, scaling: Scaling) -> FloatArray:
        """Return sum_g |a_g z_g|^power of the rows, added up in the same order for all."""
        power, first = scaling.rows.power, int(self.blocks.intercept)
        unit = scaling.rows.precision**power
        total = np.full(len(self.target), unit[:first].sum())
        total += unit[self.blocks.first_levels :].sum()
        for factor, numbers in zip(unit[first:], self.numbers, strict=False):
            sizes = np.abs(numbers.astype(np.float64))
            total += factor * (sizes * sizes if power == 2 else sizes)
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

    def sums(self, block: int, bounds: FloatArray | None, rows: slice, slopes: FloatArray) -> Any:
        """Return the sums over some rows of the contributions to a block's coordinates.

        With bounds contributions are clipped to them, and sums are in units of the bounds.
        """
        if block < self.blocks.first_levels:
            column = self._column(block)[rows]
            if bounds is None:
                return column.astype(np.float64) @ slopes.T
            # The product first: it is finite, and a quotient may not be.
            return _clipped(column * slopes / bounds[0]).sum()
        levels, table = self._levels(block)
        levels, size = levels[rows], self.blocks.sizes[block] if table is None else len(table)
        shares = slopes if bounds is None else _clipped(slopes / bounds.take(levels))
        if shares.ndim == 1:
            counts = np.bincount(levels, weights=shares, minlength=size)
        else:
            each = [np.bincount(levels, weights=share, minlength=size) for share in shares]
            counts = np.array(each).T
        # Products of multiples of 2^-20, whose sums are exact in any order.
        return counts if table is None else table.T @ counts

    def all_sums(self, rows: slice, slopes: FloatArray) -> FloatArray:
        some = max(1, CELLS // max(1, len(slopes)))
        strips = range(0, len(self.numbers), some)
        numbers = [self.numbers[j : j + some, rows] @ slopes for j in strips]
        others = [*range(self.blocks.intercept), *range(self.blocks.first_levels, len(self.blocks))]
        sums = [np.atleast_1d(self.sums(block, None, rows, slopes)) for block in others]
        sums[self.blocks.intercept : self.blocks.intercept] = numbers
        return np.concatenate(sums)

    def along(self, block: int, change: FloatArray) -> FloatArray:
        """Return the change of predictors for a change of a block's coordinates."""
        if block < self.blocks.first_levels:
            column = self._column(block)
            return np.asarray(np.multiply.outer(change[0], column, dtype=np.float64))
        terms, (levels, table) = change.T, self._levels(block)
        if table is not None:  # a matrix product does not define the last bits
            terms = row_products(table, np.atleast_2d(terms)).T.reshape(*terms.shape[:-1], -1)
        return terms.take(levels, axis=-1)

    def _column(self, block: int) -> NDArray[np.float32]:
        if block < self.blocks.intercept:
            return np.broadcast_to(np.float32(1.0), len(self.target))
        return np.asarray(self.numbers[block - self.blocks.intercept])

    def _levels(self, block: int) -> tuple[NDArray[Any], FloatArray | None]:
        column = block - self.blocks.first_levels
        return self.levels[self.blocks.levels_of[column]], self.blocks.whole_tables[column]


def _clipped(shares: FloatArray) -> FloatArray:
    """Clip numbers to [-1, 1] and round them to multiples of 2^-40, in place."""
    np.clip(shares, -1.0, 1.0, out=shares)
    shares += _FINE_ROUNDER
    shares -= _FINE_ROUNDER
    return shares


# Integers, or fractions where rows have shares in persons.
Exact = NDArray[Any]

# Number of blocks whose slopes are computed at once: few calls, and arrays that fit in the cache.
SLOPE_BLOCKS = 4
# Coordinates in the box of half-width 2^20 move by at most this, and scaled numbers are below
# MOST_NUMBER: then no predictor is infinite or NaN (Theorem 4, (i)).
MOST_MOVE, MOST_NUMBER = 2.0**21, 2.0**20
_NUMBERS = count()


def keep_scaled(rows: Rows, blocks: Blocks, scaling: Scaling) -> Kept:
    """Return the scaled rows, kept where they are; `ScaledRows` is the state of a block."""
    with np.errstate(all="ignore"):
        greatest = (1 + np.abs(scaling.centre)) / scaling.scale
    if not ((scaling.scale > 0) & (greatest < MOST_NUMBER)).all():
        raise fail("scaling", "have centres and scales that keep numbers below 2^20")
    bound = scaling.rows.bound
    if bound is not None and not (bound > 0 and np.isfinite(scaling.rows.precision).all()):
        raise fail("scaling", "bound the length of rows by a number > 0", bound)
    return rows.keep(partial(ScaledRows, blocks, scaling), SLOPE_BLOCKS, caches=True)


@dataclass(eq=False)
class Gradients:
    """The gradients of one model, from what `keep_scaled` returns.

    The ``label`` is the position of that which the model predicts, and None for a regression.
    ``clips``, (dim,), bound the contribution of a record to the gradient of each coordinate, in
    units of the slope, which may be unbounded. Gradients are in units of these bounds. They are
    None if the slope is bounded by 1. Then records are weighted, which bounds their numbers too.
    ``label_weights``, (n_labels,), are factors in [0, 1] on the slopes of records with each label.
    Slopes of a joint model have the shape (n_classes, n), and gradients have the classes in their
    last axis.

    Replacing one record changes each sum by at most 2, and the sums of a block of levels by at
    most 1 in each of two coordinates or 2 in one. Adding or removing one changes one coordinate of
    a block, by at most 1. For B-splines the sizes of all changes of a block add up to at most 2,
    or 1. For a joint model this holds for each class, and Theorem 8 bounds the changes of all
    classes together. Statement and proof: ``docs/proofs/coordinate_descent.md``.
    """

    kept: Kept
    blocks: Blocks
    label: int | None
    slope: Slope
    clips: FloatArray | None = None
    label_weights: FloatArray | None = None
    classes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.clips is not None and not ((self.clips > 0) & (self.clips < np.inf)).all():
            raise fail("clips", "be finite and > 0", self.clips.tolist())
        self.moves = Moves(next(_NUMBERS), [], self.classes)

    def move(self, block: int, change: FloatArray) -> None:
        """Add ``change`` to the coordinates of a block, from the next gradient on."""
        if not np.abs(change).max() <= MOST_MOVE:  # NaN is refused, too
            raise fail("a change", f"be at most {MOST_MOVE:g}", change.tolist())
        if change.any():
            self.moves.changes.append((block, change.copy()))

    def of_block(self, block: int) -> Exact:
        """Return the sums over all records for a block's coordinates, in units of 2^-40."""
        clips, size = self._clips_of(block), self.blocks.sizes[block]

        def sums(state: ScaledRows, rows: slice, slopes: FloatArray) -> FloatArray:
            return np.reshape(state.sums(block, clips, rows, slopes), (size, *slopes.shape[:-1]))

        return self._sum(sums)

    def of_all(self) -> Exact:
        """Return the sums for all coordinates of one class, (dim,), by reading rows once."""
        if self.clips is None:
            return self._sum(ScaledRows.all_sums)
        clips = [*enumerate(map(self._clips_of, range(len(self.blocks))))]

        def sums(state: ScaledRows, rows: slice, slopes: FloatArray) -> FloatArray:
            return np.hstack([state.sums(block, clip, rows, slopes) for block, clip in clips])

        return self._sum(sums)

    def _clips_of(self, block: int) -> FloatArray | None:
        return None if self.clips is None else self.clips[self.blocks.places[block]]

    def _sum(self, sums: Callable[[ScaledRows, slice, FloatArray], FloatArray]) -> Exact:
        # The function is sent to workers: it must not hold the rows.
        moves, label, slope, label_weights = self.moves, self.label, self.slope, self.label_weights
        is_weighted = self.clips is None

        def part(state: ScaledRows) -> NDArray[np.int64]:
            values = state.predictors(moves)
            slopes = slope(values, target_of(state.target, label))
            if label_weights is not None:
                slopes *= label_weights.take(state.target)
            if is_weighted:
                slopes *= state.weight
                # Entries of joint slopes are rounded towards 0: no norm of them becomes greater.
                to_grid = on_grid if slopes.ndim == 1 else _truncate
                to_grid(slopes)
            # Sums over more rows would not be exact in floats.
            starts = range(0, max(slopes.shape[-1], 1), MOST_ROWS)
            slices = [slice(at, at + MOST_ROWS) for at in starts]
            each = [in_units(sums(state, rows, slopes[..., rows])) for rows in slices]
            return np.asarray(np.sum(each, axis=0))

        return np.asarray(exact_sum(self.kept, part))


def _truncate(slopes: FloatArray) -> None:
    """Round numbers towards 0 to multiples of 2^-20, in place."""
    slopes *= 2.0**NUMBER_BITS
    np.trunc(slopes, out=slopes)
    slopes *= 2.0**-NUMBER_BITS
