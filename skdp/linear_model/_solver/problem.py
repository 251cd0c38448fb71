"""The perturbed objective of one fit, evaluated in blocks of rows that fit in the cache.

The second derivative has no dense indicators: sums over levels and over pairs of levels are
counted. A column with many levels is left out of the matrix: of its coordinates only the diagonal
is computed, so that time and memory grow with the number of levels and not with its square. With a
softmax of many classes products of different classes are left out, too. The solver needs an
approximation only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.linalg import norm
from numpy.typing import NDArray
from scipy.sparse import csc_array

from skdp._arrays import FloatArray
from skdp._compiled import load_kernels
from skdp._identity import is_ours
from skdp.linear_model._shared.gram import narrow_gram
from skdp.linear_model._shared.task import target_of
from skdp.linear_model._solver.design_rows import (
    Coordinates,
    DesignRows,
    Sums,
    Terms,
    joined,
    sums_over,
)
from skdp.linear_model.losses import (
    AnyLoss,
    Logistic,
    PseudoHuber,
    SharpLogistic,
    Softmax,
    count_predictors,
    greatest_curvature,
    shares,
    slopes_of,
)
from skdp.rows import Kept, KeptBlocks
from skdp.rows.block import block_rows

# Rounding errors of gradients in single and in double precision: an estimate without proof.
SINGLE, DOUBLE = 2.0**-22, 2.0**-48
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
    times the matrix of the smoothness penalty.
    With a `Softmax` phi is a function of the predictors of all classes. Then theta, ridge and
    linear_term hold the coordinates of the first class, then those of the second, and so on.

    Parameters
    ----------
    loss : Loss or Softmax
        phi.
    rows : Kept
        The rows x_i with their targets and weights; a state is a `DesignRows`.
    coordinates : Coordinates
        The coordinates of the rows.
    ridge, linear_term : (d,) float64 arrays, ridge > 0
        For K classes of a softmax d is K times the number of coordinates of a row.
    row_norm : float in (0, inf)
        Public bound on |x_i|_2. Rounding may increase the norm of a row beyond it by a relative
        10^-7 at most: the certificate relies on this.
    n : int
        The number of rows.
    label : int or None
        The position of the label that the model predicts; None for a regression or a softmax.
    sample : KeptBlocks or None
        Some of the rows, which are in memory, for `subsample`. None if it shall take some.
    """

    loss: AnyLoss
    rows: Kept
    coordinates: Coordinates
    ridge: FloatArray
    linear_term: FloatArray
    row_norm: float
    n: int
    label: int | None = None
    sample: KeptBlocks | None = None

    @property
    def dim(self) -> int:
        return self.coordinates.dim * self.n_models

    @property
    def n_models(self) -> int:
        return count_predictors(self.loss)

    @property
    def has_whole_hessian(self) -> bool:
        """Whether products of different classes are part of the second derivative."""
        return len(pairs_of(self.coordinates, self.n_models)) > self.n_models or self.n_models == 1

    def models_of(self, theta: FloatArray) -> FloatArray:
        return theta.reshape(self.n_models, -1)

    def gradient(self, theta: FloatArray, *, single: bool = False) -> FloatArray:
        """Return grad J(theta), (d,), with the rounding errors of plain arithmetic.

        ``single`` multiplies numbers in single precision, unless a compiled function does it.
        """
        return self._gradient(theta, self.rows.sum(self._slopes(theta, single)))

    def noise(self, theta: FloatArray, unit: float) -> float:
        """Return an estimate, without proof, of the rounding errors in the gradient's norm."""
        slopes = self.loss.slope_bound + self.smoothness * self.row_norm * euclidean(theta)
        rest = euclidean(self.penalty(theta)) + euclidean(self.linear_term)
        return unit * (self.n * self.row_norm * slopes + rest)

    def hessian(self, theta: FloatArray) -> Hessian:
        """Return the second derivative of J at theta, with the errors of `curvature_sums`."""
        sums = self.rows.sum(self._curvatures(theta))
        return assembled(self.coordinates, self.models_of(self.ridge), sums)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, Hessian]:
        """Return the gradient and the second derivative of J at theta, from one pass."""
        slopes, curvatures = self._slopes(theta), self._curvatures(theta)
        found, second = self.rows.sum(lambda rows: (slopes(rows), curvatures(rows)))
        hessian = assembled(self.coordinates, self.models_of(self.ridge), second)
        return self._gradient(theta, found), hessian

    def subsample(self, stride: int) -> Objective | None:
        """Return J on about one row out of each ``stride``, divided by the share of the rows.

        If there is a sample in memory, J is that on the sample. None if no row was chosen.
        A fixed generator picks rows of each run, so that sorted and periodic data are sampled well.
        The choice needs no secrecy, because every result is certified on all rows.
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

    def _slopes(
        self, theta: FloatArray, single: bool = False
    ) -> Callable[[DesignRows], tuple[Sums, ...]]:
        """Return the function from rows to sums of weighted slopes times the rows.

        There are sums for each predictor, in the precision of the terms.
        """
        loss, label, coordinates = self.loss, self.label, self.coordinates
        terms = [coordinates.terms(own) for own in self.models_of(theta)]
        compiled = self.compiled(terms[0])
        if single and compiled is None:
            terms = [own.single() for own in terms]

        def slopes(rows: DesignRows) -> tuple[Sums, ...]:
            y = target_of(rows.target, label)
            found = None if compiled is None else compiled(rows, y)
            if found is not None:
                return (found[0],)
            numbers = rows.numbers.astype(terms[0].slopes.dtype, copy=False)
            z = np.array([own.of(numbers, rows.levels) for own in terms])
            # The package's losses keep the precision; others may expect that of float.
            kind = z.dtype if is_ours(loss) else np.dtype(np.float64)
            target = y if isinstance(loss, Softmax) else y.astype(kind, copy=False)
            each = slopes_of(loss, z.astype(kind, copy=False), target)
            return tuple(sums_over(rows, numbers, rows.weighted(own), coordinates) for own in each)

        return slopes

    def _curvatures(self, theta: FloatArray) -> Callable[[DesignRows], tuple[Any, ...]]:
        """Return the function from rows to `curvature_sums` for each pair of `pairs_of`."""
        loss, label, coordinates = self.loss, self.label, self.coordinates
        # Newton's method for streams has no other curvature: with errors above the ridge it fails.
        precise = self.rows.is_read_again
        terms = [coordinates.terms(own) for own in self.models_of(theta)]
        compiled = self.compiled(terms[0])

        def second(rows: DesignRows) -> Iterator[FloatArray]:
            y = target_of(rows.target, label)
            found = None if compiled is None else compiled.curvatures(rows, y)
            if found is not None:
                yield found
                return
            numbers = rows.numbers.astype(np.float64)
            z = np.array([own.of(numbers, rows.levels) for own in terms])
            if not isinstance(loss, Softmax):
                yield rows.weighted(loss.curvature(z[0], y))
                return
            p = shares(z)
            for k, m in pairs_of(coordinates, len(p)):
                # For two classes it is the absolute value.
                own = p[k] * ((1 - p[k]) if k == m else p[m])
                yield rows.weighted(loss.normalizer * own)

        return lambda rows: tuple(
            curvature_sums(coordinates, rows, own, precise) for own in second(rows)
        )

    def _gradient(self, theta: FloatArray, sums: tuple[Any, ...]) -> FloatArray:
        found = np.concatenate([self.coordinates.gradient(Sums(*own)) for own in sums])
        return np.asarray(found + self.penalty(theta) + self.linear_term)

    def penalty(self, theta: FloatArray) -> FloatArray:
        penalised = self.coordinates.design.penalised
        found = np.concatenate([penalised(own) for own in self.models_of(theta)])
        return np.asarray(self.ridge * found)

    def compiled(
        self, high: Terms, low: Terms | None = None, grid: float = 0.0
    ) -> CompiledSums | None:
        """Return `CompiledSums` of a predictor; None if compiled functions are not used."""
        known = self.loss, self.coordinates, high, low, grid
        return CompiledSums(*known) if self.is_compiled else None

    @property
    def cells(self) -> int:
        return self.n * self.coordinates.design.domain.n_columns

    @cached_property
    def is_compiled(self) -> bool:
        return is_compiled(self.loss, self.cells)

    @cached_property
    def smoothness(self) -> float:
        return greatest_curvature(self.loss)


def is_compiled(loss: AnyLoss, entries: float) -> bool:
    """Return whether compiled functions save time for so many entries of rows."""
    is_known = type(loss) in (Logistic, SharpLogistic, PseudoHuber)
    return is_known and load_kernels(entries) is not None


class CompiledSums:
    """The results of `skdp._kernels` for rows and their targets.

    ``high`` and ``low`` are the leading parts and the rests of a predictor.
    """

    def __init__(
        self,
        loss: AnyLoss,
        coordinates: Coordinates,
        high: Terms,
        low: Terms | None = None,
        grid: float = 0.0,
    ) -> None:
        self.loss, self.grid = loss, grid
        # The entries of each column of levels in the tables.
        stops = (1 + np.cumsum([0, *coordinates.positions])).tolist()
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
        """Return the arguments that compiled functions share."""
        weight = np.empty(0) if rows.weight is None else rows.weight
        return (rows.numbers, rows.levels), y, weight, self.formula(compiled), self.parts

    def formula(self, compiled: Any) -> tuple[int, float, float]:
        """Return the kind of the loss and its parameters."""
        loss = self.loss
        if isinstance(loss, PseudoHuber):
            return compiled.PSEUDO_HUBER, loss.threshold, 0.0
        if isinstance(loss, SharpLogistic):
            return compiled.SHARP_LOGISTIC, loss.middle, loss.rate
        return compiled.LOGISTIC, 0.0, 0.0


def sample_of(n: int, dim: int) -> Callable[[DesignRows], list[DesignRows]]:
    """Return a function whose sum over n rows is a sample that is kept in memory."""
    return _chooser(max(LEAST_STRIDE, n * dim // SAMPLE_CELLS))


def _chooser(stride: int) -> Callable[[DesignRows], list[DesignRows]]:
    """Return a function that chooses about one row out of each ``stride``.

    Rows are chosen in groups of adjacent rows where there are many.
    """

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
    return float(norm(v))


def power_above(size: float) -> float:
    """Return the power of two in (size, 2 size]."""
    return math.ldexp(1.0, math.frexp(size)[1]) if size < math.inf else math.nan


# The second derivative


class Hessian(NamedTuple):
    """Matrices over some coordinates, and a diagonal for all others.

    Attributes
    ----------
    core : ndarray of int, shape (blocks, k)
        The coordinates of each matrix.
    matrix : ndarray of shape (blocks, k, k)
    diagonal : ndarray of shape (d,)
        The diagonal for all coordinates.
    """

    core: NDArray[np.intp]
    matrix: FloatArray
    diagonal: FloatArray


def _core_columns(coordinates: Coordinates) -> tuple[int, ...]:
    """Return the columns of levels and B-splines that are part of the matrix.

    Columns of B-splines come first: their products with each other matter most.
    """
    sizes, tables = coordinates.sizes, coordinates.design.tables
    room = MOST_CORE - (coordinates.dim - sum(sizes) + len(sizes))
    chosen: list[int] = []
    for column in sorted(range(len(sizes)), key=lambda c: (tables[c] is None, sizes[c])):
        room -= sizes[column]
        if room < 0:
            break
        chosen.append(column)
    return tuple(sorted(chosen))


def _core(coordinates: Coordinates) -> NDArray[np.intp]:
    """Return the coordinates of the matrix: the intercept, the numbers, the core columns."""
    every, design = np.arange(coordinates.dim), coordinates.design
    blocks = [every[design.blocks[c]] for c in _core_columns(coordinates)]
    return np.concatenate([every[: int(design.intercept)], every[coordinates.numbers], *blocks])


def pairs_of(coordinates: Coordinates, n_models: int) -> list[tuple[int, int]]:
    """Return the pairs of classes whose products are part of the second derivative."""
    every = range(n_models)
    if n_models > 1 and n_models * len(_core(coordinates)) > MOST_JOINT:
        return [(k, k) for k in every]
    return [(k, m) for k in every for m in range(k, n_models)]


def curvature_sums(
    coordinates: Coordinates, rows: DesignRows, second: FloatArray, precise: bool
) -> tuple[Any, ...]:
    """Return sums over rows of ``second``, (n,), times products of two entries of a row.

    The entries are 1, the numbers and uncentred indicators of all levels. There are the sums for
    (1, numbers), for each column of levels, for the numbers and the levels of core columns, and for
    pairs of levels of core columns. Numbers are multiplied in single precision unless the sums are
    ``precise``. With B-splines, whose products with their neighbours are not 0, there are the sums
    of products of the columns of the matrix, and those for the diagonal of the other columns.
    """
    core, sizes = _core_columns(coordinates), coordinates.sizes
    dtype: Any = np.float64 if precise else np.float32
    if any(table is not None for table in coordinates.design.tables):
        tables = [coordinates.row_table(c).astype(dtype) for c in core]
        found = np.zeros((len(_core(coordinates)),) * 2)
        step = block_rows(len(found))
        for at in range(0, len(second), step):
            part = slice(at, at + step)
            numbers = rows.numbers[:, part].astype(dtype) * dtype(coordinates.unit)
            ones = np.ones((int(coordinates.design.intercept), numbers.shape[1]), dtype)
            levels = [table[:, rows.levels[c, part]] for c, table in zip(core, tables, strict=True)]
            dense = np.concatenate([ones, numbers, *levels])
            dense *= np.sqrt(second[part]).astype(dtype)
            found += dense @ dense.T
        others = (c for c in range(len(sizes)) if c not in core)
        counts = [np.bincount(rows.levels[c], second, coordinates.positions[c]) for c in others]
        return found, tuple(counts)
    counts = [np.bincount(codes, second, m) for codes, m in zip(rows.levels, sizes, strict=True)]
    by_level = []
    for c in core:  # the indicators of levels, times the curvatures, times the numbers
        place = second, rows.levels[c], np.arange(len(rows) + 1)
        indicators = csc_array(place, shape=(sizes[c], len(rows)))
        by_level.append(np.asarray(indicators @ rows.numbers.T.astype(np.float64)))
    pairs = [
        np.bincount(rows.levels[a].astype(np.intp) * sizes[b] + rows.levels[b], second,
                    sizes[a] * sizes[b])
        for a, b in combinations(core, 2)
    ]  # fmt: skip
    return _gram(rows.numbers, second, dtype), tuple(counts), tuple(by_level), tuple(pairs)


def _gram(numbers: NDArray[np.float32], second: FloatArray, dtype: Any) -> FloatArray:
    narrow = narrow_gram(numbers, weight=second)
    if narrow is not None:
        return narrow
    found = np.zeros((len(numbers) + 1,) * 2)
    found[0, 0] = second.sum()
    step = block_rows(len(numbers))
    for at in range(0, len(second), step):
        x: NDArray[Any] = numbers[:, at : at + step].astype(dtype, copy=False)
        s: NDArray[Any] = second[at : at + step].astype(dtype)
        scaled = x * np.sqrt(s)
        found[1:, 1:] += scaled @ scaled.T
        found[0, 1:] += x @ s
    found[1:, 0] = found[0, 1:]
    return found


def assembled(coordinates: Coordinates, ridge: FloatArray, sums: tuple[Any, ...]) -> Hessian:
    """Return the Hessian from `curvature_sums` of pairs and the ridge, (models, coordinates)."""
    n_models, pairs = len(ridge), pairs_of(coordinates, len(ridge))
    found = {pair: _assembled(coordinates, own) for pair, own in zip(pairs, sums, strict=True)}
    core, design = _core(coordinates), coordinates.design
    matrix = np.array([found[k, k][0] for k in range(n_models)])
    diagonal = np.array([found[k, k][1] for k in range(n_models)])
    penalised, place = ridge.copy(), np.full(coordinates.dim, -1)
    place[core] = np.arange(len(core))
    for block, penalty in zip(design.blocks, design.penalties, strict=True):
        if penalty is not None:  # the smoothness penalty
            penalised[:, block] *= penalty.diagonal()
            if place[block.start] >= 0:
                own = place[block]
                matrix[:, own[:, None], own] += ridge[:, block, None] * penalty
    diagonal += penalised
    matrix[:, np.arange(len(core)), np.arange(len(core))] = diagonal[:, core]
    cores = core + coordinates.dim * np.arange(n_models)[:, None]
    if len(pairs) > n_models:  # one matrix, with the products of different classes
        whole = np.empty((n_models, len(core), n_models, len(core)))
        for (k, m), pair in found.items():
            whole[k, :, m] = matrix[k] if k == m else -pair[0]
            whole[m, :, k] = matrix[k] if k == m else -pair[0].T
        matrix, cores = whole.reshape(1, n_models * len(core), -1), cores.reshape(1, -1)
    return Hessian(cores, matrix, diagonal.ravel())


def _assembled(coordinates: Coordinates, sums: tuple[Any, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the matrix over the core, and the diagonal, without a ridge."""
    columns, sizes, design = _core_columns(coordinates), coordinates.sizes, coordinates.design
    if len(sums) == 2:
        matrix, counts = sums
        counted = [c for c in range(len(sizes)) if c not in columns]
    else:
        matrix, counts = _centred(coordinates, columns, *sums), sums[1]
        counted = list(range(len(sizes)))
    diagonal = np.zeros(coordinates.dim)
    for c, own in zip(counted, counts, strict=True):
        if design.tables[c] is None:  # of the indicators, less a share of 1
            share = 1 / sizes[c] if design.intercept else 0.0
            diagonal[design.blocks[c]] = own[1:] * (1 - 2 * share) + own.sum() * share**2
        else:
            diagonal[design.blocks[c]] = coordinates.row_table(c) ** 2 @ own
    diagonal[_core(coordinates)] = matrix.diagonal()
    return matrix, diagonal


def _centred(
    coordinates: Coordinates,
    columns: tuple[int, ...],
    gram: FloatArray,
    counts: tuple[FloatArray, ...],
    by_level: tuple[FloatArray, ...],
    pairs: tuple[FloatArray, ...],
) -> FloatArray:
    """Return the matrix over the core from sums for uncentred indicators of all levels."""
    sizes, design, unit = coordinates.sizes, coordinates.design, coordinates.unit
    units = np.append(1.0, np.full(len(gram) - 1, unit))
    gram = gram * np.outer(units, units)
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
