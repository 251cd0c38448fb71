"""The second derivative of an objective, without dense indicators.

Sums over levels and over pairs of levels are counted. A column with many levels is left out of the
matrix: of its coordinates only the diagonal is computed, so that time and memory grow with the
number of levels and not with its square. With a softmax of many classes products of different
classes are left out, too. The solver needs an approximation only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from skdp._arrays import FloatArray
from skdp.linear_model._shared.gram import narrow_gram
from skdp.linear_model._shared.task import target_of
from skdp.linear_model._solver.compiled import CompiledSums
from skdp.linear_model._solver.design_rows import Coordinates, DesignRows, Terms
from skdp.linear_model.losses import AnyLoss, Softmax, shares
from skdp.rows.block import block_rows

# Columns of levels are part of the matrix, the smallest first, while it has so many rows at most.
MOST_CORE = 1024
# Products of different classes are part of the matrix while it has so many rows at most.
MOST_JOINT = 2048


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


def core_columns(coordinates: Coordinates) -> tuple[int, ...]:
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


@dataclass(frozen=True, eq=False)
class CurvatureSums:
    """Sums over rows of weighted curvatures times products of two entries of a row.

    The entries are 1, the numbers and uncentred indicators of all levels. Called with rows, it
    returns for each pair of `pairs_of` the sums for (1, numbers), for each column of levels, for
    the numbers and the levels of core columns, and for pairs of levels of core columns. Numbers are
    multiplied in single precision unless the sums are ``precise``. For two classes the curvature is
    its absolute value.
    """

    loss: AnyLoss
    label: int | None
    coordinates: Coordinates
    terms: list[Terms]
    compiled: CompiledSums | None
    precise: bool = False

    def __call__(self, rows: DesignRows) -> tuple[Any, ...]:
        return tuple(self._products(rows, second) for second in self._second(rows))

    def _products(self, rows: DesignRows, second: FloatArray) -> tuple[Any, ...]:
        if any(table is not None for table in self.coordinates.design.tables):
            return self._dense_products(rows, second)
        core, sizes = core_columns(self.coordinates), self.coordinates.sizes
        counts = [
            np.bincount(codes, second, m) for codes, m in zip(rows.levels, sizes, strict=True)
        ]
        numbers = [_by_level(rows, second, c, sizes[c]) for c in core]
        pairs = [
            np.bincount(rows.levels[a].astype(np.intp) * sizes[b] + rows.levels[b], second,
                        sizes[a] * sizes[b])
            for a, b in combinations(core, 2)
        ]  # fmt: skip
        gram = _gram(rows.numbers, second, np.float64 if self.precise else np.float32)
        return gram, tuple(counts), tuple(numbers), tuple(pairs)

    def _dense_products(self, rows: DesignRows, second: FloatArray) -> tuple[Any, ...]:
        """Return the sums of products of the columns of the matrix, and for the diagonal of others.

        The products of neighbouring B-splines of one column are not 0.
        """
        coordinates, core = self.coordinates, core_columns(self.coordinates)
        dtype: Any = np.float64 if self.precise else np.float32
        tables = [coordinates.row_table(c).astype(dtype) for c in core]
        found = np.zeros((len(_core(coordinates, core)),) * 2)
        step = block_rows(len(found))
        for at in range(0, len(second), step):
            part = slice(at, at + step)
            numbers = rows.numbers[:, part].astype(dtype) * dtype(coordinates.unit)
            ones = np.ones((int(coordinates.design.intercept), numbers.shape[1]), dtype)
            levels = [table[:, rows.levels[c, part]] for c, table in zip(core, tables, strict=True)]
            dense = np.concatenate([ones, numbers, *levels])
            dense *= np.sqrt(second[part]).astype(dtype)
            found += dense @ dense.T
        others = (c for c in range(len(rows.levels)) if c not in core)
        counts = [np.bincount(rows.levels[c], second, coordinates.positions[c]) for c in others]
        return found, tuple(counts)

    def _second(self, rows: DesignRows) -> Iterator[FloatArray]:
        """Yield weighted curvatures, (n,)."""
        y = target_of(rows.target, self.label)
        found = None if self.compiled is None else self.compiled.curvatures(rows, y)
        if found is not None:
            yield found
            return
        numbers = rows.numbers.astype(np.float64)
        z = np.array([own.of(numbers, rows.levels) for own in self.terms])
        if not isinstance(self.loss, Softmax):
            yield rows.weighted(self.loss.curvature(z[0], y))
            return
        p = shares(z)
        for k, m in pairs_of(self.coordinates, len(p)):
            own = p[k] * ((1 - p[k]) if k == m else p[m])
            yield rows.weighted(self.loss.normalizer * own)


def pairs_of(coordinates: Coordinates, n_models: int) -> list[tuple[int, int]]:
    """Return the pairs of classes whose products are part of the second derivative."""
    size = coordinates.dim - sum(coordinates.sizes) + len(coordinates.sizes)
    size += sum(coordinates.sizes[c] - 1 for c in core_columns(coordinates))
    every = range(n_models)
    if n_models * size > MOST_JOINT:
        return [(k, k) for k in every]
    return [(k, m) for k in every for m in range(k, n_models)]


def assembled(coordinates: Coordinates, ridge: FloatArray, sums: tuple[Any, ...]) -> Hessian:
    """Return the Hessian from the sums of `CurvatureSums` and the ridge, (models, coordinates)."""
    n_models, pairs = len(ridge), pairs_of(coordinates, len(ridge))
    found = {pair: _assembled(coordinates, own) for pair, own in zip(pairs, sums, strict=True)}
    core, size = _core(coordinates, core_columns(coordinates)), coordinates.dim
    diagonal = np.array([found[k, k][1] for k in range(n_models)])
    matrix = np.array([found[k, k][0] for k in range(n_models)])
    diagonal += _add_penalty(coordinates, ridge, core, matrix)
    matrix[:, np.arange(len(core)), np.arange(len(core))] = diagonal[:, core]
    cores = core + size * np.arange(n_models)[:, None]
    if len(pairs) > n_models:
        matrix = _whole(matrix, {pair: -own[0] for pair, own in found.items()})
        cores = cores.reshape(1, -1)
    return Hessian(cores, matrix, diagonal.ravel())


def _add_penalty(
    coordinates: Coordinates, ridge: FloatArray, core: NDArray[np.intp], matrix: FloatArray
) -> FloatArray:
    """Add the smoothness penalty to the matrices over the core, and return the diagonal of all."""
    diagonal, design = ridge.copy(), coordinates.design
    place = np.full(coordinates.dim, -1)
    place[core] = np.arange(len(core))
    for block, penalty in zip(design.blocks, design.penalties, strict=True):
        if penalty is not None:
            diagonal[:, block] *= penalty.diagonal()
            if place[block.start] >= 0:
                own = place[block]
                matrix[:, own[:, None], own] += ridge[:, block, None] * penalty
    return diagonal


def _whole(own: FloatArray, pairs: dict[tuple[int, int], FloatArray]) -> FloatArray:
    """Return one matrix, (1, k, k), from those of each class and of pairs of classes."""
    count, width = own.shape[:2]
    whole = np.empty((count, width, count, width))
    for (k, m), matrix in pairs.items():
        whole[k, :, m] = own[k] if k == m else matrix
        whole[m, :, k] = own[k] if k == m else matrix.T
    return whole.reshape(1, count * width, -1)


def _assembled(coordinates: Coordinates, sums: tuple[Any, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the matrix over the core, and the diagonal, without a ridge."""
    if len(sums) == 2:
        return sums[0], _diagonal_of_dense(coordinates, *sums)
    gram, counts, numbers, pairs = sums
    units = np.append(1.0, np.full(len(gram) - 1, coordinates.unit))
    gram = gram * np.outer(units, units)
    numbers = [own * coordinates.unit for own in numbers]
    design, columns = coordinates.design, core_columns(coordinates)
    p, width = len(gram) - 1, len(gram) + sum(coordinates.sizes[c] for c in columns)
    whole = np.zeros((width, width))  # over (1, numbers, all levels of core columns)
    whole[: p + 1, : p + 1] = gram
    stops = p + 1 + np.cumsum([0, *(coordinates.sizes[c] for c in columns)])
    places = [slice(int(a), int(b)) for a, b in pairwise(stops)]
    for k, (c, place) in enumerate(zip(columns, places, strict=True)):
        whole[place, place] = np.diag(counts[c])
        whole[0, place] = counts[c]
        whole[1 : p + 1, place] = numbers[k].T
    for (a, b), own in zip(combinations(range(len(columns)), 2), pairs, strict=True):
        whole[places[a], places[b]] = own.reshape(-1, coordinates.sizes[columns[b]])
    whole = np.triu(whole) + np.triu(whole, 1).T
    kept = np.concatenate([np.arange(not design.intercept, p + 1)] + [
        np.arange(place.start + 1, place.stop) for place in places
    ])  # fmt: skip
    if design.intercept:  # centred: the share of the column of ones is subtracted
        shares = np.zeros(width)
        for c, place in zip(columns, places, strict=True):
            shares[place] = 1 / coordinates.sizes[c]
        whole -= np.outer(shares, whole[0])
        whole -= np.outer(whole[:, 0], shares)
    matrix = whole[np.ix_(kept, kept)]
    diagonal = _diagonal(coordinates, counts)
    diagonal[_core(coordinates, columns)] = matrix.diagonal()
    return matrix, diagonal


def _diagonal_of_dense(
    coordinates: Coordinates, matrix: FloatArray, counts: tuple[FloatArray, ...]
) -> FloatArray:
    """Return the diagonal of all coordinates."""
    found, core = np.zeros(coordinates.dim), core_columns(coordinates)
    found[_core(coordinates, core)] = matrix.diagonal()
    design, sizes = coordinates.design, coordinates.sizes
    others = (c for c in range(len(sizes)) if c not in core)
    for c, own in zip(others, counts, strict=True):
        if design.tables[c] is None:
            found[design.blocks[c]] = _of_levels(own, 1 / sizes[c] if design.intercept else 0.0)
        else:
            found[design.blocks[c]] = coordinates.row_table(c) ** 2 @ own
    return found


def _of_levels(counts: FloatArray, share: float) -> FloatArray:
    """Return the diagonal for the indicators of a column, less a share of 1."""
    return np.asarray(counts[1:] * (1 - 2 * share) + counts.sum() * share**2)


def _core(coordinates: Coordinates, columns: tuple[int, ...]) -> NDArray[np.intp]:
    """Return the coordinates of the matrix: the intercept, the numbers, the core columns."""
    every = np.arange(coordinates.dim)
    blocks = [every[coordinates.design.blocks[c]] for c in columns]
    return np.concatenate(
        [every[: int(coordinates.design.intercept)], every[coordinates.numbers], *blocks]
    )


def _diagonal(coordinates: Coordinates, counts: tuple[Any, ...]) -> FloatArray:
    """Return the diagonal for the columns of levels; 0 for other coordinates."""
    found = np.zeros(coordinates.dim)
    for block, size, own in zip(coordinates.design.blocks, coordinates.sizes, counts, strict=True):
        share = 1 / size if coordinates.design.intercept else 0.0
        found[block] = _of_levels(own, share)
    return found


def _gram(numbers: NDArray[np.float32], second: FloatArray, dtype: Any) -> FloatArray:
    """Return the weighted Gram matrix of (1, numbers), from products in a precision."""
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


def _by_level(rows: DesignRows, second: FloatArray, column: int, size: int) -> FloatArray:
    """Return the weighted sums of the numbers of each level, (size, numbers)."""
    n = len(rows)
    # The indicators of levels, times the curvatures.
    indicators = csc_array((second, rows.levels[column], np.arange(n + 1)), shape=(size, n))
    return np.asarray(indicators @ rows.numbers.T.astype(np.float64))
