"""Rows of a design matrix, kept compactly during a fit.

Numbers are divided by their unit, a power of two. They are then multiples of 2^-20 in [-1, 1],
which floats of 32 bits hold exactly. Columns of levels are positions. A centred indicator of level
k of m + 1 is e_k - (1, ..., 1) / (m + 1) without any rounding: the shift is part of the constant of
the predictor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray, size_of_arrays, squared_lengths
from skdp._checks import fail
from skdp._compiled import kernels
from skdp.domain import Domain
from skdp.domain.columns import Number
from skdp.domain.splines import STEPS
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import NUMBER_BITS, row_unit
from skdp.rows import Block, KeptBlocks
from skdp.rows.block import MOST_ROWS, block_rows
from skdp.rows.persons import WHOLE

Singles = NDArray[np.float32]

# Numbers are multiples of it.
STEP = 2.0**-NUMBER_BITS


@dataclass(frozen=True, eq=False)
class DesignRows:
    """Some rows of a design matrix.

    Attributes
    ----------
    numbers : ndarray of float32, shape (numbers, n)
        In units of the coordinates.
    levels : ndarray of unsigned integers, shape (columns, n)
        Positions of levels.
    target : ndarray of shape (n,)
        Of a regression, or the positions of labels.
    weight : ndarray of shape (n,) or None
        None if every row has weight 1.
    share : int or None
        As in `skdp.rows.Block`. It is a part of the weight.
    """

    numbers: Singles
    levels: NDArray[Any]
    target: NDArray[Any]
    weight: FloatArray | None = None
    share: int | None = None

    def __len__(self) -> int:
        return len(self.target)

    def __sizeof__(self) -> int:
        return size_of_arrays(self)

    def weighted(self, values: FloatArray) -> FloatArray:
        return values if self.weight is None else self.weight * values

    def chosen(self, rows: NDArray[np.intp] | slice) -> DesignRows:
        weight = None if self.weight is None else self.weight[rows]
        # Compiled functions exist for arrays whose entries lie next to each other.
        numbers, levels = (
            np.ascontiguousarray(own[:, rows]) for own in (self.numbers, self.levels)
        )
        return DesignRows(numbers, levels, self.target[rows], weight)


def joined(parts: Sequence[DesignRows]) -> KeptBlocks:
    """Return the same rows in blocks that fit in the cache."""
    whole = DesignRows(
        np.concatenate([rows.numbers for rows in parts], axis=1),
        np.concatenate([rows.levels for rows in parts], axis=1),
        np.concatenate([rows.target for rows in parts]),
        None
        if parts[0].weight is None
        else np.concatenate([rows.weight for rows in parts if rows.weight is not None]),
    )
    step = block_rows(len(whole.numbers) + len(whole.levels) + 1)
    return KeptBlocks([whole.chosen(slice(at, at + step)) for at in range(0, len(whole), step)])


class Terms(NamedTuple):
    """A linear predictor: slopes @ numbers + constant + the sum of table[level] over columns."""

    slopes: NDArray[Any]
    constant: float
    tables: tuple[NDArray[Any], ...]

    def of(self, numbers: NDArray[Any], levels: NDArray[Any]) -> NDArray[Any]:
        """Return the predictor of rows, (n,), in the precision of the numbers."""
        found: NDArray[Any] = self.slopes @ numbers
        found += self.constant
        for table, codes in zip(self.tables, levels, strict=True):
            found += table.take(codes)
        return found

    def single(self) -> Terms:
        tables = tuple(table.astype(np.float32) for table in self.tables)
        return Terms(self.slopes.astype(np.float32), self.constant, tables)


class Sums(NamedTuple):
    """Sums over rows of a value: times the numbers, by itself, and of each level."""

    numbers: Any
    total: Any
    levels: tuple[Any, ...]


def sums_over(
    rows: DesignRows, numbers: NDArray[Any], values: FloatArray, coordinates: Coordinates
) -> Sums:
    """Return the sums of ``values`` over rows; ``numbers`` are those of the rows."""
    levels = tuple(
        np.bincount(codes, values, count)
        for codes, count in zip(rows.levels, coordinates.positions, strict=True)
    )
    product = numbers @ values.astype(numbers.dtype, copy=False)
    return Sums(product.astype(np.float64, copy=False), np.array([values.sum()]), levels)


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a design: the intercept, the numbers, the columns of levels."""

    design: Design

    @property
    def dim(self) -> int:
        return self.design.dim

    @cached_property
    def unit(self) -> float:
        """The unit of the numbers, a power of two: their bound, or nearly twice it."""
        return row_unit(self.design.domain)

    @cached_property
    def numbers(self) -> NDArray[np.intp] | slice:
        """Coordinates of the numbers; adjacent ones as a slice, which numpy does not copy."""
        columns = np.array(self.design.numbers, dtype=np.intp) + int(self.design.intercept)
        if len(columns) and columns[-1] - columns[0] == len(columns) - 1:
            return slice(int(columns[0]), int(columns[-1]) + 1)
        return columns

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of each column of levels, or of B-splines with the first."""
        return tuple(block.stop - block.start + 1 for block in self.design.blocks)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Number of positions of each column of levels or B-splines."""
        pairs = zip(self.sizes, self.design.tables, strict=True)
        return tuple(size if table is None else len(table) for size, table in pairs)

    def row_table(self, column: int) -> FloatArray:
        """Return the entries of rows for each position of a column, (size - 1, positions)."""
        size, table = self.sizes[column], self.design.tables[column]
        own = np.eye(size, size - 1, k=-1) if table is None else table
        return np.asarray((own - (1 / size if self.design.intercept else 0.0)).T)

    def terms(self, theta: FloatArray) -> Terms:
        tables = tuple(
            np.append(0.0, theta[block]) if table is None else table @ theta[block]
            for block, table in zip(self.design.blocks, self.design.tables, strict=True)
        )
        constants = self.constants(theta)
        constant = math.nan if None in constants else float(sum(constants))
        return Terms(theta[self.numbers] * self.unit, constant, tables)

    def constants(self, theta: FloatArray) -> list[Any]:
        """Return the intercept, and the shift of each centred column of levels, as fractions.

        The relative error of a shift is at most 2^-105. An entry is None if it is not finite.
        """
        if not self.design.intercept:
            return []
        pairs = zip(self.design.blocks, self.sizes, strict=True)
        return [_fraction(theta[:1]), *(_fraction(-theta[block], m) for block, m in pairs)]

    def gradient(self, sums: Sums) -> FloatArray:
        """Return the sum over rows of a value times the row, (dim,)."""
        found = np.empty(self.dim)
        found[self.numbers] = sums.numbers * self.unit
        share = 0.0
        if self.design.intercept:
            found[0] = share = sums.total[0]
        facts = self.design.blocks, self.design.tables, self.sizes, sums.levels
        for block, table, size, own in zip(*facts, strict=True):
            found[block] = (own[1:] if table is None else own @ table) - share / size
        return found


def row_builder(
    design: Design, label_weights: FloatArray | None = None
) -> Callable[[Block], DesignRows]:
    """Return the map from encoded rows to rows of a design matrix, before they are scaled.

    ``label_weights`` in [0, 1], one for each label, multiply the weights of rows.
    """
    unit = row_unit(design.domain)

    def built(rows: Block) -> DesignRows:
        numbers = rows.numbers
        if design.domain.is_ball:
            # Towards 0: rows stay in the ball.
            numbers = np.trunc(numbers / unit / STEP) * STEP
        levels = np.array(rows.levels) if len(rows.levels) else np.empty((0, len(rows)), np.uint8)
        columns = np.ascontiguousarray(numbers.T, np.float32)
        weight = None if rows.share is None else np.full(len(rows), rows.share / WHOLE)
        found = DesignRows(columns, levels, rows.target, weight, rows.share)
        if label_weights is None:
            return found
        return replace(found, weight=found.weighted(label_weights.take(rows.target)))

    return built


def weigher(
    coordinates: Coordinates, ridge: FloatArray, leverage: float
) -> Callable[[DesignRows], DesignRows]:
    """Return the map that multiplies weights by w(x) = min(1, leverage / l(x)), l(x) = x'M^-1 x.

    M is the penalty: diagonal with the ridges, and the ridge times the matrix of a smoothness
    penalty for the columns of a spline. The score l(x) depends on no other row, bit for bit.
    """
    design, numbers_ridge = coordinates.design, ridge[coordinates.numbers] / coordinates.unit**2
    by_level = _scores_of_levels(coordinates, ridge)

    def weighed(rows: DesignRows) -> DesignRows:
        scores = _scores_of_numbers(rows.numbers, numbers_ridge)
        if design.intercept:
            scores += 1 / ridge[0]
        for own, codes in zip(by_level, rows.levels, strict=True):
            scores += own.take(codes)
        # Rounded down by more than the error of the sum, so that w l <= leverage holds.
        np.maximum(scores, leverage, out=scores)
        np.divide(leverage * (1 - 1e-9), scores, out=scores)
        return replace(rows, weight=rows.weighted(scores))

    return weighed


def _scores_of_levels(coordinates: Coordinates, ridge: FloatArray) -> list[FloatArray]:
    """Return the part of the score of each level, for each column of levels."""
    found, design = [], coordinates.design
    groups = [group for group in design.groups if group.kind == "levels"]
    facts = design.blocks, design.tables, coordinates.sizes, groups
    for block, table, size, group in zip(*facts, strict=True):
        share = 1 / size if design.intercept else 0.0
        inverse = 1 / ridge[block]
        if table is not None and group.roughness is not None:
            parts = table - share  # with one ridge for all columns
            scores = np.vecdot(parts @ group.roughness.inverse, parts)
            found.append(scores * inverse.max())
            continue
        others = share**2 * (inverse.sum() - inverse)  # of the other indicators
        own = (1 - share) ** 2 * inverse + others
        found.append(np.append(share**2 * inverse.sum(), own))
    return found


def _scores_of_numbers(numbers: Singles, ridge: FloatArray) -> FloatArray:
    scores, step = np.zeros(numbers.shape[1]), block_rows(2 * len(numbers))
    is_equal = bool((ridge == ridge[:1]).all())
    # Sums of so many squares, multiples of 2^-40, are exact in any order.
    is_exact, compiled = ridge.size <= MOST_ROWS, kernels()
    if compiled is not None and is_equal and ridge.size and is_exact:
        compiled.add_squares(numbers, scores)
        scores /= ridge[0]
        return scores
    for at in range(0, len(scores), step):
        # In one order, so that a row's sum does not depend on the number of rows.
        x = numbers[:, at : at + step].T.astype(np.float64, order="C")
        if is_equal and ridge.size:
            squares = np.vecdot(x, x) if is_exact else squared_lengths(x)
            scores[at : at + step] = squares / ridge[0]
        else:
            # The last bits of a matrix product would depend on the position of a row.
            scores[at : at + step] = (np.square(x) / ridge).sum(axis=1)
    return scores


def _fraction(values: FloatArray, divisor: int = 1) -> Fraction | None:
    """Return the sum of values over a divisor, or None if it is not finite."""
    entries = values.tolist()
    if not np.isfinite(values).all() or not math.isfinite(high := math.fsum(entries)):
        return None
    return (Fraction(high) + Fraction(math.fsum([*entries, -high]))) / divisor


@dataclass(frozen=True)
class Curves:
    """The curves of all numbers of a design; public information only.

    Attributes
    ----------
    origin : Design
        The design with numbers.
    knots, degree : int >= 1
        Of each curve.
    """

    origin: Design
    knots: int
    degree: int

    @cached_property
    def design(self) -> Design:
        domain = self.origin.domain.additive(knots=self.knots, degree=self.degree)
        return Design(domain, self.origin.intercept)

    def check_room(self, share: float) -> None:
        """Raise an error unless there is room for knots in this share of the declared bounds."""
        own = self.origin.domain
        for column, read, _ in own._layout.placed:
            if isinstance(column, Number):
                step = (column.upper / 2 - column.lower / 2) * share / (self.knots + 1)
                if step < 64 * math.ulp(max(abs(column.lower), abs(column.upper))):
                    name, rule = own._labels[read.start], "be farther apart to have a curve"
                    remedy = "Subtract a constant from the column, or give additive=None."
                    raise fail(f"bounds of {name}", rule, (column.lower, column.upper), remedy)

    def domain(self, bounds: FloatArray) -> Domain:
        """Return the domain of curves on knots between bounds in units, (numbers, 2)."""
        own = self.origin.domain
        columns = [own._labels[r.start] for c, r, _ in own._layout.placed if isinstance(c, Number)]
        pairs = dict(zip(columns, map(tuple, bounds.tolist()), strict=True))
        found: Domain = own.additive(knots=self.knots, degree=self.degree, bounds=pairs)
        return found

    def __call__(self, rows: DesignRows) -> DesignRows:
        """Return rows of the design with curves; numbers are multiples of 2^-20 in [-1, 1]."""
        levels = np.empty((len(self._places), len(rows)), self._kind)
        for own, (number, level) in zip(levels, self._places, strict=True):
            if number is None:
                own[:] = rows.levels[level]
                continue
            # The nearest of the equally spaced nodes; x + 1 is rounded, in a public way.
            steps = (self.knots + 1) * STEPS
            np.rint((rows.numbers[number] + 1) * np.float32(steps / 2), out=own, casting="unsafe")
            if level is not None:  # the position of a missing number is the last
                own[rows.levels[level] > 0] = steps + 1
        return replace(rows, numbers=np.empty((0, len(rows)), np.float32), levels=levels)

    @cached_property
    def _kind(self) -> np.dtype[Any]:
        return np.min_scalar_type(max(Coordinates(self.design).positions))

    @cached_property
    def _places(self) -> list[tuple[int | None, int | None]]:
        """For each column of positions, the number and the column of levels it is made of."""
        found: list[tuple[int | None, int | None]] = []
        numbers, levels = count(), count()
        for column, _, write in self.origin.domain._layout.placed:
            width = write.stop - write.start
            if not isinstance(column, Number):
                found += [(None, next(levels))] * (width > 0)
            else:  # one more encoded column indicates missing cells
                found.append((next(numbers), next(levels) if width > 1 else None))
        return found
