"""The perturbed objective of one fit and its rows, evaluated in blocks that fit in the cache.

Numbers of rows are divided by their unit, a power of two. They are then multiples of 2^-20 in
[-1, 1], which floats of 32 bits hold exactly. Columns of levels are positions. A centred indicator
of level k of m + 1 is e_k - (1, ..., 1) / (m + 1) without any rounding: the shift is part of the
constant of the predictor.

The second derivative has no dense indicators: sums over levels and over pairs of levels are
counted. A column with many levels is left out of the matrix: of its coordinates only the diagonal
is computed, so that time and memory grow with the number of levels and not with its square. With a
softmax of many classes products of different classes are left out, too. The solver needs an
approximation only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, count, pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from skdp._compiled import kernels, load_kernels
from skdp.domain import Domain
from skdp.domain.columns import Number
from skdp.domain.splines import STEPS
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import NUMBER_BITS, narrow_gram
from skdp.linear_model._shared.task import target_of
from skdp.linear_model.losses import (
    AnyLoss,
    CappedPoisson,
    LogisticLoss,
    PseudoHuber,
    SharpLogistic,
    SmoothedQuantile,
    Softmax,
    count_predictors,
    greatest_curvature,
    shares,
    slopes_of,
)
from skdp.rows import Block, Kept, KeptBlocks
from skdp.rows.memory import MOST_ROWS, block_rows
from skdp.rows.persons import WHOLE
from skdp.trusted.arrays import FloatArray, level_sums, size_of_arrays, squared_lengths
from skdp.trusted.checks import fail

Singles = NDArray[np.float32]

# Numbers are multiples of it.
STEP = 2.0**-NUMBER_BITS


@dataclass(frozen=True, eq=False)
class DesignRows:
    """Some rows of a design matrix.

    ``numbers``, (numbers, n), are in units of the design, and ``levels``, (columns, n), are
    positions. ``target`` is that of a regression, or the positions of labels. Without a ``weight``
    every row has weight 1. ``share`` is that of `skdp.rows.Block`, and a part of the weight.
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
        weight, at = None if self.weight is None else self.weight[rows], np.arange(len(self))[rows]
        numbers, levels = (own.take(at, axis=1) for own in (self.numbers, self.levels))
        return DesignRows(numbers, levels, self.target[rows], weight)


def joined(parts: Sequence[DesignRows]) -> KeptBlocks:
    """Return the same rows in blocks of several parts, which fit in the cache."""
    step = block_rows(len(parts[0].numbers) + len(parts[0].levels) + 1)
    count = max(1, step * len(parts) // sum(map(len, parts)))
    arrays = [(rows.numbers, rows.levels, rows.target, rows.weight) for rows in parts]
    groups = (zip(*arrays[at : at + count], strict=True) for at in range(0, len(parts), count))

    def whole(own: Sequence[Any]) -> Any:
        return None if own[0] is None else np.concatenate(own, axis=-1)

    return KeptBlocks([DesignRows(*map(whole, group)) for group in groups])


class Terms(NamedTuple):
    """A linear predictor: slopes @ numbers + constant + the sum of table[level] over columns."""

    slopes: FloatArray
    constant: float
    tables: tuple[FloatArray, ...]


class Sums(NamedTuple):
    """Sums over rows of a value: times the numbers, by itself, and of each level."""

    numbers: Any
    total: Any
    levels: tuple[Any, ...]


def sums_over(rows: DesignRows, numbers: NDArray[Any], values: FloatArray, design: Design) -> Sums:
    """Return the sums of ``values`` over rows; ``numbers`` are those of the rows."""
    levels = tuple(
        level_sums(codes, values, count)
        for codes, count in zip(rows.levels, design.positions, strict=True)
    )
    return Sums(numbers @ values, np.array([values.sum()]), levels)


def predictor(terms: Terms, numbers: FloatArray, levels: NDArray[Any]) -> FloatArray:
    found: FloatArray = terms.slopes @ numbers
    found += terms.constant
    for table, codes in zip(terms.tables, levels, strict=True):
        found += table.take(codes)
    return found


def predictors_apart(terms: Terms, rows: DesignRows) -> FloatArray:
    """Return the predictors of rows, (n,), each computed from its row alone, to the last bit.

    The last bits of a matrix product depend on other rows.
    """
    found = np.full(len(rows), terms.constant)
    for slope, numbers in zip(terms.slopes, rows.numbers, strict=True):
        found += slope * numbers.astype(np.float64)
    for table, codes in zip(terms.tables, rows.levels, strict=True):
        found += table.take(codes)
    return found


def terms_of(design: Design, theta: FloatArray) -> Terms:
    tables = tuple(
        np.append(0.0, theta[block]) if table is None else table @ theta[block]
        for block, table in zip(design.blocks, design.tables, strict=True)
    )
    parts = constants_of(design, theta)
    constant = math.nan if None in parts else float(sum(parts))
    return Terms(theta[design.number_coordinates] * design.unit, constant, tables)


def constants_of(design: Design, theta: FloatArray) -> list[Any]:
    """Return the intercept, and the shift of each centred column of levels, as fractions.

    The relative error of a shift is at most 2^-105. An entry is None if it is not finite.
    """
    if not design.intercept:
        return []
    pairs = zip(design.blocks, design.sizes, strict=True)
    intercept = Fraction(theta[0]) if math.isfinite(theta[0]) else None
    return [intercept, *(_fraction(-theta[block], m) for block, m in pairs)]


def gradient_of(design: Design, sums: Sums) -> FloatArray:
    """Return the sum over rows of a value times the row, (dim,)."""
    found = np.empty(design.dim)
    found[design.number_coordinates] = sums.numbers * design.unit
    share = 0.0
    if design.intercept:
        found[0] = share = sums.total[0]
    facts = design.blocks, design.tables, design.sizes, sums.levels
    for block, table, size, own in zip(*facts, strict=True):
        found[block] = (own[1:] if table is None else own @ table) - share / size
    return found


def row_builder(
    design: Design, label_weights: FloatArray | None = None
) -> Callable[[Block], DesignRows]:
    """Return the map from encoded rows to rows of a design matrix, before they are scaled.

    ``label_weights`` in [0, 1], one for each label, multiply the weights of rows.
    """

    def built(rows: Block) -> DesignRows:
        numbers = rows.numbers
        if design.domain.is_ball:
            # Towards 0: rows stay in the ball.
            numbers = np.trunc(numbers / design.unit / STEP) * STEP
        levels = np.array(rows.levels) if len(rows.levels) else np.empty((0, len(rows)), np.uint8)
        columns = np.ascontiguousarray(numbers.T, np.float32)
        weight = None if rows.share is None else np.full(len(rows), rows.share / WHOLE)
        found = DesignRows(columns, levels, rows.target, weight, rows.share)
        if label_weights is None:
            return found
        return replace(found, weight=found.weighted(label_weights.take(rows.target)))

    return built


def weigher(
    design: Design, ridge: FloatArray, leverage: float
) -> Callable[[DesignRows], DesignRows]:
    """Return the map that multiplies weights by w(x) = min(1, leverage / l(x)), l(x) = x'M^-1 x.

    M is the matrix of the penalty, as in `Objective`. The score l(x) depends on no other row, bit
    for bit.
    """
    numbers_ridge = ridge[design.number_coordinates] / design.unit**2
    by_level = []  # the part of the score of each level, for each column
    groups = [group for group in design.groups if group.kind == "levels"]
    facts = design.blocks, design.tables, design.sizes, groups
    for block, table, size, group in zip(*facts, strict=True):
        share = 1 / size if design.intercept else 0.0
        inverse = 1 / ridge[block]
        if table is not None and group.roughness is not None:
            parts = table - share  # with one ridge for all columns
            scores = np.vecdot(parts @ group.roughness.inverse, parts)
            by_level.append(scores * inverse.max())
            continue
        others = share**2 * (inverse.sum() - inverse)  # of the other indicators
        own = (1 - share) ** 2 * inverse + others
        by_level.append(np.append(share**2 * inverse.sum(), own))

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


def _fraction(values: FloatArray, divisor: int) -> Fraction | None:
    """Return the sum of values over a divisor, or None if it is not finite."""
    entries = values.tolist()
    if not np.isfinite(values).all() or not math.isfinite(high := math.fsum(entries)):
        return None
    return (Fraction(high) + Fraction(math.fsum([*entries, -high]))) / divisor


@dataclass(frozen=True)
class Curves:
    """The curves of all numbers of a design, ``origin``; public information only."""

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
        kind = np.min_scalar_type(max(self.design.positions))
        levels = np.empty((len(self._places), len(rows)), kind)
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


# The objective

# Rounding errors of gradients: an estimate without proof.
ERRORS = 2.0**-48
# A sample takes groups of so many adjacent rows from a block, which is faster than single rows, if
# there are so many groups.
GROUP, LEAST_GROUPS = 4, 16
# A sample of rows that are read again has about so many numbers, or the share of this stride.
SAMPLE_CELLS, LEAST_STRIDE = 2**24, 4
# Columns of levels are part of the matrix, the smallest first, while it has so many rows at most.
MOST_CORE = 1024
# Products of different classes are part of the matrix while it has so many rows at most.
MOST_JOINT = 2048


@dataclass(frozen=True)
class Objective:
    """J(theta) = sum_i w_i phi(x_i'theta, y_i) + theta'M theta / 2 + linear_term'theta.

    The penalty M is diagonal with the ridges. For the coefficients of a spline it is their ridge
    times the matrix of the smoothness penalty. With a `Softmax` phi is a function of the predictors
    of all classes. Then theta, ridge and linear_term hold the coordinates of the first class, then
    those of the second, and so on.

    The ``loss`` is phi. ``rows`` are the n rows x_i with their targets and weights; a state is a
    `DesignRows`. `Design.row_norm` bounds |x_i|_2. Rounding may increase the norm of a row beyond
    it by a relative 10^-7 at most: the certificate relies on this. ``label`` is the position of the
    label that the model predicts; None for a regression or a softmax. ``sample`` holds some of the
    rows, in memory, for `subsample`. If it is None, that takes some.
    """

    loss: AnyLoss
    rows: Kept
    design: Design
    ridge: FloatArray
    linear_term: FloatArray
    n: int
    label: int | None = None
    sample: KeptBlocks | None = None

    @property
    def dim(self) -> int:
        return self.design.dim * self.n_models

    @property
    def n_models(self) -> int:
        return count_predictors(self.loss)

    def models_of(self, theta: FloatArray) -> FloatArray:
        return theta.reshape(self.n_models, -1)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return grad J(theta), (d,), with the rounding errors of plain arithmetic."""
        return self._gradient(theta, self.rows.sum(self._slopes(theta)))

    def noise(self, theta: FloatArray) -> float:
        """Return an estimate, without proof, of the rounding errors in the gradient's norm."""
        norm = self.design.row_norm
        change = greatest_curvature(self.loss) * norm * euclidean(theta)
        slopes = self.loss.slope_bound + change
        rest = euclidean(self.penalty(theta)) + euclidean(self.linear_term)
        return ERRORS * (self.n * norm * slopes + rest)

    def hessian(self, theta: FloatArray, stride: int = 1) -> Hessian:
        """Return the second derivative of J at theta, with the errors of `curvature_sums`.

        With a ``stride`` it is divided by it, and estimated from one row out of so many.
        """
        curvatures, every = self._curvatures(theta), slice(0, None, stride)
        sums = self.rows.sum(lambda rows: curvatures(rows.chosen(every) if stride > 1 else rows))
        return assembled(self.design, self.models_of(self.ridge) / stride, sums)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, Hessian]:
        """Return the gradient and the second derivative of J at theta, from one pass."""
        slopes, curvatures = self._slopes(theta), self._curvatures(theta)
        found, second = self.rows.sum(lambda rows: (slopes(rows), curvatures(rows)))
        hessian = assembled(self.design, self.models_of(self.ridge), second)
        return self._gradient(theta, found), hessian

    def subsample(self, stride: int) -> Objective | None:
        """Return J on about one row out of each ``stride``, or on the sample in memory.

        It is divided by the share of the rows; None if no row was chosen. A fixed generator picks
        rows of each run, so that sorted and periodic data are sampled well. The choice needs no
        secrecy, because every result is certified on all rows.
        """
        sample = self.sample
        if sample is None:
            parts = self.rows.sum(_chooser(stride))
            if not parts:
                return None
            sample = joined(parts)
        m = sample.sum(len)
        ridge, linear_term = self.ridge * (m / self.n), self.linear_term * (m / self.n)
        return replace(self, rows=sample, sample=None, ridge=ridge, linear_term=linear_term, n=m)

    def _slopes(self, theta: FloatArray) -> Callable[[DesignRows], tuple[Sums, ...]]:
        """Return the function from rows to sums of weighted slopes times the rows, by predictor."""
        loss, label, design = self.loss, self.label, self.design
        terms = [terms_of(design, own) for own in self.models_of(theta)]
        compiled = self.compiled(terms[0])

        def slopes(rows: DesignRows) -> tuple[Sums, ...]:
            y = target_of(rows.target, label)
            found = None if compiled is None else compiled(rows, y)
            if found is not None:
                return (found[0],)
            numbers = rows.numbers.astype(np.float64)
            z = np.array([predictor(own, numbers, rows.levels) for own in terms])
            target = y if isinstance(loss, Softmax) else y.astype(np.float64, copy=False)
            each = slopes_of(loss, z, target)
            return tuple(sums_over(rows, numbers, rows.weighted(own), design) for own in each)

        return slopes

    def _curvatures(self, theta: FloatArray) -> Callable[[DesignRows], tuple[Any, ...]]:
        """Return the function from rows to `curvature_sums` for each pair of `pairs_of`."""
        loss, label, design = self.loss, self.label, self.design
        # Newton's method for streams has no other curvature: with errors above the ridge it fails.
        precise = self.rows.is_read_again
        terms = [terms_of(design, own) for own in self.models_of(theta)]
        compiled = self.compiled(terms[0])

        def second(rows: DesignRows) -> Iterator[FloatArray]:
            y = target_of(rows.target, label)
            found = None if compiled is None else compiled.curvatures(rows, y)
            if found is not None:
                yield found
                return
            numbers = rows.numbers.astype(np.float64)
            z = np.array([predictor(own, numbers, rows.levels) for own in terms])
            if not isinstance(loss, Softmax):
                yield rows.weighted(loss.curvature(z[0], y))
                return
            p = shares(z)
            for k, m in pairs_of(design, len(p)):
                # For two classes it is the absolute value.
                own = p[k] * ((1 - p[k]) if k == m else p[m])
                yield rows.weighted(loss.normalizer * own)

        return lambda rows: tuple(
            curvature_sums(design, rows, own, precise) for own in second(rows)
        )

    def _gradient(self, theta: FloatArray, sums: tuple[Any, ...]) -> FloatArray:
        found = np.concatenate([gradient_of(self.design, Sums(*own)) for own in sums])
        return np.asarray(found + self.penalty(theta) + self.linear_term)

    def penalty(self, theta: FloatArray) -> FloatArray:
        penalised = self.design.penalised
        found = np.concatenate([penalised(own) for own in self.models_of(theta)])
        return np.asarray(self.ridge * found)

    def compiled(
        self, high: Terms, low: Terms | None = None, grid: float = 0.0
    ) -> CompiledSums | None:
        """Return `CompiledSums` of a predictor; None if compiled functions are not used."""
        known = is_compiled(self.loss, self.n * self.design.domain.n_columns)
        return CompiledSums(self.loss, self.design, high, low, grid) if known else None


def is_compiled(loss: AnyLoss, entries: float) -> bool:
    """Return whether compiled functions save time for so many entries of rows."""
    known = LogisticLoss, SharpLogistic, PseudoHuber, SmoothedQuantile, CappedPoisson
    return type(loss) in known and load_kernels(entries) is not None


class CompiledSums:
    """The results of `skdp._kernels` for rows and their targets.

    ``high`` and ``low`` are the leading parts and the rests of a predictor.
    """

    def __init__(
        self,
        loss: AnyLoss,
        design: Design,
        high: Terms,
        low: Terms | None = None,
        grid: float = 0.0,
    ) -> None:
        self.loss, self.grid = loss, grid
        # The entries of each column of levels in the tables.
        stops = (1 + np.cumsum([0, *design.positions])).tolist()
        self.places = [slice(a, b) for a, b in pairwise(stops)]
        slopes, tables = np.zeros((2, len(high.slopes))), np.zeros((2, stops[-1]))
        for k, terms in enumerate((high, low)):
            if terms is not None:
                slopes[k] = terms.slopes
                tables[k] = np.concatenate([[terms.constant], *terms.tables])
        self.parts = slopes, tables, np.array(stops[:-1], dtype=np.uint64)

    def __call__(self, rows: DesignRows, y: FloatArray) -> tuple[Sums, Sums, float, float] | None:
        """Return the leading and the remaining sums; None without numba in this process."""
        compiled = load_kernels(math.inf)
        if compiled is None:
            return None
        known = self._known(compiled, rows, y)
        sums, counts, weights, sizes = compiled.slope_sums(*known, self.grid)
        high, low = (
            Sums(numbers, own[:1], tuple(own[place] for place in self.places))
            for numbers, own in zip(sums, counts, strict=True)
        )
        return high, low, weights, sizes

    def curvatures(self, rows: DesignRows, y: FloatArray) -> FloatArray | None:
        """Return the weighted curvatures, (n,); None without numba in this process."""
        compiled = load_kernels(math.inf)
        if compiled is None:
            return None
        found: FloatArray = compiled.curvatures(*self._known(compiled, rows, y))
        return found

    def _known(self, compiled: Any, rows: DesignRows, y: FloatArray) -> tuple[Any, ...]:
        weight = np.empty(0) if rows.weight is None else rows.weight
        return (rows.numbers, rows.levels), y, weight, self.formula(compiled), self.parts

    def formula(self, compiled: Any) -> tuple[int, float, float]:
        loss = self.loss
        if isinstance(loss, PseudoHuber):
            return compiled.PSEUDO_HUBER, loss.threshold, 0.0
        if isinstance(loss, CappedPoisson):
            return compiled.COUNT, loss.threshold, loss.shift
        if isinstance(loss, SmoothedQuantile):
            return compiled.QUANTILE, loss.bandwidth, loss.level
        if isinstance(loss, SharpLogistic):
            return compiled.SHARP_LOGISTIC, loss.middle, loss.rate
        return compiled.LOGISTIC, 0.0, 0.0


def sample_of(n: int, dim: int) -> Callable[[DesignRows], list[DesignRows]]:
    """Return a function whose sum over n rows is a sample that is kept in memory."""
    return _chooser(max(LEAST_STRIDE, n * dim // SAMPLE_CELLS))


def _chooser(stride: int) -> Callable[[DesignRows], list[DesignRows]]:
    """Choose about one row out of each ``stride``, in groups of adjacent rows if there are many."""

    def chosen(rows: DesignRows) -> list[DesignRows]:
        n = len(rows)
        if n < stride:
            # One row with the probability of its share. The generators of small blocks differ.
            first = rows.numbers[:, :1].tobytes() + rows.target.tobytes()
            rng = np.random.default_rng(crc32(first))
            if rng.random() * stride >= n:
                return []
        group = min(GROUP, max(1, n // (LEAST_GROUPS * stride)))
        count = max(1, n // (group * stride))
        start = np.arange(count) * (n // count)
        offset = np.random.default_rng(0).integers(0, n // count - group + 1, count)
        return [rows.chosen(((start + offset)[:, None] + np.arange(group)).ravel())]

    return chosen


def euclidean(v: FloatArray) -> float:
    return math.sqrt(v @ v)


def power_above(size: float) -> float:
    """Return the power of two in (size, 2 size]."""
    return math.ldexp(1.0, math.frexp(size)[1]) if size < math.inf else math.nan


# The second derivative


class Hessian(NamedTuple):
    """Matrices, (blocks, k, k), over coordinates, (blocks, k), and the diagonal for all, (d,)."""

    core: NDArray[np.intp]
    matrix: FloatArray
    diagonal: FloatArray


def _core_columns(design: Design) -> tuple[int, ...]:
    """Return the columns of levels and B-splines that are part of the matrix.

    Columns of B-splines come first: their products with each other matter most.
    """
    sizes, tables = design.sizes, design.tables
    room = MOST_CORE - (design.dim - sum(sizes) + len(sizes))
    chosen: list[int] = []
    for column in sorted(range(len(sizes)), key=lambda c: (tables[c] is None, sizes[c])):
        room -= sizes[column]
        if room < 0:
            break
        chosen.append(column)
    return tuple(sorted(chosen))


def _core(design: Design) -> NDArray[np.intp]:
    """Return the coordinates of the matrix: the intercept, the numbers, the core columns."""
    every = np.arange(design.dim)
    blocks = [every[design.blocks[c]] for c in _core_columns(design)]
    numbers = every[design.number_coordinates]
    return np.concatenate([every[: int(design.intercept)], numbers, *blocks])


def pairs_of(design: Design, n_models: int) -> list[tuple[int, int]]:
    """Return the pairs of classes whose products are part of the second derivative."""
    every = range(n_models)
    if n_models > 1 and n_models * len(_core(design)) > MOST_JOINT:
        return [(k, k) for k in every]
    return [(k, m) for k in every for m in range(k, n_models)]


def curvature_sums(
    design: Design, rows: DesignRows, second: FloatArray, precise: bool
) -> tuple[Any, ...]:
    """Return sums over rows of ``second``, (n,), times products of two entries of a row.

    The entries are 1, the numbers and uncentred indicators of all levels. There are the sums for
    (1, numbers), for each column of levels, for the numbers and the levels of core columns, and for
    pairs of levels of core columns. Numbers are multiplied in single precision unless the sums are
    ``precise``. With B-splines, whose products with their neighbours are not 0, there are the sums
    of products of the columns of the matrix, and those for the diagonal of the other columns.
    """
    core, sizes = _core_columns(design), design.sizes
    dtype: Any = np.float64 if precise else np.float32
    if any(table is not None for table in design.tables):
        tables = [design.row_table(c).astype(dtype) for c in core]
        found = np.zeros((len(_core(design)),) * 2)
        step = block_rows(len(found))
        for at in range(0, len(second), step):
            part = slice(at, at + step)
            numbers = rows.numbers[:, part].astype(dtype) * dtype(design.unit)
            ones = np.ones((int(design.intercept), numbers.shape[1]), dtype)
            levels = [table[:, rows.levels[c, part]] for c, table in zip(core, tables, strict=True)]
            dense = np.concatenate([ones, numbers, *levels])
            dense *= np.sqrt(second[part]).astype(dtype)
            found += dense @ dense.T
        others = (c for c in range(len(sizes)) if c not in core)
        counts = [level_sums(rows.levels[c], second, design.positions[c]) for c in others]
        return found, tuple(counts)
    counts = [level_sums(codes, second, m) for codes, m in zip(rows.levels, sizes, strict=True)]
    by_level = []
    for c in core:  # the indicators of levels, times the curvatures, times the numbers
        place = second, rows.levels[c], np.arange(len(rows) + 1)
        indicators = csc_array(place, shape=(sizes[c], len(rows)))
        by_level.append(np.asarray(indicators @ rows.numbers.T.astype(np.float64)))
    pairs = [
        level_sums(rows.levels[a].astype(np.intp) * sizes[b] + rows.levels[b], second,
                   sizes[a] * sizes[b])
        for a, b in combinations(core, 2)
    ]  # fmt: skip
    return _gram(rows.numbers, second, dtype), tuple(counts), tuple(by_level), tuple(pairs)


def _gram(numbers: NDArray[np.float32], second: FloatArray, dtype: Any) -> FloatArray:
    narrow = narrow_gram(numbers, np.empty(0), second, 0.0)
    if narrow is not None:
        return narrow
    found = np.zeros((len(numbers) + 1,) * 2)
    found[0, 0] = second.sum()
    step = block_rows(len(numbers))
    for at in range(0, len(second), step):
        x: NDArray[Any] = numbers[:, at : at + step].astype(dtype, copy=False)
        s = second[at : at + step].astype(dtype)
        scaled = x * np.sqrt(s)
        found[1:, 1:] += scaled @ scaled.T
        found[0, 1:] += x @ s
    found[1:, 0] = found[0, 1:]
    return found


def assembled(design: Design, ridge: FloatArray, sums: tuple[Any, ...]) -> Hessian:
    """Return the Hessian from `curvature_sums` of pairs and the ridge, (models, coordinates)."""
    n_models, pairs = len(ridge), pairs_of(design, len(ridge))
    found = {pair: _assembled(design, own) for pair, own in zip(pairs, sums, strict=True)}
    core = _core(design)
    matrix = np.array([found[k, k][0] for k in range(n_models)])
    diagonal = np.array([found[k, k][1] for k in range(n_models)])
    penalised, place = ridge.copy(), np.full(design.dim, -1)
    place[core] = np.arange(len(core))
    for block, penalty in zip(design.blocks, design.penalties, strict=True):
        if penalty is not None:  # the smoothness penalty
            penalised[:, block] *= penalty.diagonal()
            if place[block.start] >= 0:
                own = place[block]
                matrix[:, own[:, None], own] += ridge[:, block, None] * penalty
    diagonal += penalised
    matrix[:, np.arange(len(core)), np.arange(len(core))] = diagonal[:, core]
    cores = core + design.dim * np.arange(n_models)[:, None]
    if len(pairs) > n_models:  # one matrix, with the products of different classes
        whole = np.empty((n_models, len(core), n_models, len(core)))
        for (k, m), pair in found.items():
            whole[k, :, m] = matrix[k] if k == m else -pair[0]
            whole[m, :, k] = matrix[k] if k == m else -pair[0].T
        matrix, cores = whole.reshape(1, n_models * len(core), -1), cores.reshape(1, -1)
    return Hessian(cores, matrix, diagonal.ravel())


def _assembled(design: Design, sums: tuple[Any, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the matrix over the core, and the diagonal, without a ridge."""
    columns, sizes = _core_columns(design), design.sizes
    if len(sums) == 2:
        matrix, counts = sums
        counted = [c for c in range(len(sizes)) if c not in columns]
    else:
        matrix, counts = _centred(design, columns, *sums), sums[1]
        counted = list(range(len(sizes)))
    diagonal = np.zeros(design.dim)
    for c, own in zip(counted, counts, strict=True):
        if design.tables[c] is None:  # of the indicators, less a share of 1
            share = 1 / sizes[c] if design.intercept else 0.0
            diagonal[design.blocks[c]] = own[1:] * (1 - 2 * share) + own.sum() * share**2
        else:
            diagonal[design.blocks[c]] = design.row_table(c) ** 2 @ own
    diagonal[_core(design)] = matrix.diagonal()
    return matrix, diagonal


def _centred(
    design: Design,
    columns: tuple[int, ...],
    gram: FloatArray,
    counts: tuple[FloatArray, ...],
    by_level: tuple[FloatArray, ...],
    pairs: tuple[FloatArray, ...],
) -> FloatArray:
    """Return the matrix over the core from sums for uncentred indicators of all levels."""
    sizes, unit = design.sizes, design.unit
    units = np.append(1.0, np.full(len(gram) - 1, unit))
    gram = gram * np.outer(units, units)
    if not columns:
        return np.asarray(gram[int(not design.intercept) :, int(not design.intercept) :])
    p, width = len(gram) - 1, len(gram) + sum(sizes[c] for c in columns)
    whole = np.zeros((width, width))  # over (1, numbers, all levels of core columns)
    whole[: p + 1, : p + 1] = gram
    stops = p + 1 + np.cumsum([0, *(sizes[c] for c in columns)])
    places = [slice(int(a), int(b)) for a, b in pairwise(stops)]
    for c, place, own in zip(columns, places, by_level, strict=True):
        whole[place, place] = np.diag(counts[c])
        whole[0, place] = counts[c]
        whole[1 : p + 1, place] = (own * unit).T
    for (a, b), own in zip(combinations(range(len(columns)), 2), pairs, strict=True):
        whole[places[a], places[b]] = own.reshape(-1, sizes[columns[b]])
    whole = np.triu(whole) + np.triu(whole, 1).T
    if design.intercept:  # centred: the share of the column of ones is subtracted
        shares = np.zeros(width)
        for c, place in zip(columns, places, strict=True):
            shares[place] = 1 / sizes[c]
        whole -= np.outer(shares, whole[0])
        whole -= np.outer(whole[:, 0], shares)
    others = [np.arange(place.start + 1, place.stop) for place in places]
    kept = np.concatenate([np.arange(not design.intercept, p + 1), *others])
    return np.asarray(whole[np.ix_(kept, kept)])
