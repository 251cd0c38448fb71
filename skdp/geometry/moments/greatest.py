"""The greatest weighted sum of squares of what one record can change in its moments.

For numbers put d = |z - z'| and s = |z + z'|, d + s <= 2. A product changes by at most
(s_i d_j + d_i s_j) / 2 and a square by s d, so the sum is greatest at s = 2 - d; with d = 1 - e,
-1 <= e <= 1, it is

    phi(e) = sum_i a_i (1 - e_i)^2 + sum_i 4 b_i (1 - e_i^2)^2 + sum_{i<j} c_ij (1 - e_i e_j)^2.

Without the squares it is convex in each e_i alone, hence greatest where all e_i are 1 or -1.
docs/proofs/moment_balls.md proves this and the bounds below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from skdp._checks import fail
from skdp.geometry.ball import FloatArray, as_points
from skdp.geometry.moments.layout import MomentLayout

# Sums are computed in floats; the bound is raised by more than their error.
ROUND_UP = 1 + 1e-12
# Cells of [-1, 1] for each number, by how many numbers there are.
CELLS = {1: 512, 2: 48, 3: 12}
TARGET_CELLS = 16
MOST_CHOICES = 4096


@dataclass(frozen=True)
class Weights:
    """Weights of the entries of ``count`` numbers and of a target, one for each sort."""

    count: int
    linear: float = 0.0
    square: float = 0.0
    product: float = 0.0
    target: float = 0.0
    target_square: float = 0.0
    target_product: float = 0.0


def greatest_square(layout: MomentLayout, weights: ArrayLike) -> float:
    """Return an upper bound on sum_i weights[i] u_i^2 over the changes u one record can make.

    Parameters
    ----------
    layout : MomentLayout
    weights : array-like of shape (dim,), >= 0
        Equal on entries of one orbit.

    Returns
    -------
    float
        Under add_remove, and without squares and blocks under replace_one, the maximum itself.
    """
    w = _checked(layout, weights)
    if layout.adds:
        return _added(layout, w) * ROUND_UP
    return _replaced(layout, w) * ROUND_UP


def greatest_of_numbers(w: Weights) -> float:
    """Return an upper bound on the sum for numbers and a target, one record replaced."""
    return max(_greatest_beside(w, e, own) for e, own in _targets(w))


def _targets(w: Weights) -> list[tuple[float, float]]:
    """Return values e of the target, one of which is worst, and bounds on its own terms."""
    if not w.target_square:
        return [(1.0, 0.0), (-1.0, 4 * w.target)]
    edges = np.linspace(-1, 1, TARGET_CELLS + 1)
    ends = np.column_stack([edges[:-1], edges[1:]])
    own = w.target * (1 - ends) ** 2 + 4 * w.target_square * _squares(ends, ends.mean(1)[:, None])
    return list(zip(ends.ravel().tolist(), own.ravel().tolist(), strict=True))


def _greatest_beside(w: Weights, e: float, own: float) -> float:
    """Return an upper bound on the sum when the target has the value e and the terms ``own``."""
    corners = _at_corners(w, e)
    if w.linear + e**2 * w.target_product >= 4 * w.square:
        # 4 b (1 - e^2)^2 <= 4 b (1 - e^2), and the sum is still convex in each e.
        return corners + own
    bound = _by_cells(w, CELLS[w.count], e) if w.count in CELLS else _by_sums(w, e)
    return own + min(bound, corners + 4 * w.count * w.square)


def _squares(e: FloatArray, middle: FloatArray) -> FloatArray:
    """Return a bound on (1 - e^2)^2, convex in e, that touches it where e is ``middle``."""
    return np.asarray(1 + e**4 - 2 * (2 * middle * e - middle**2))


def _checked(layout: MomentLayout, weights: ArrayLike) -> FloatArray:
    w = as_points(weights, layout.dim, "weights")
    if w.ndim != 1 or not (np.isfinite(w) & (w >= 0)).all():
        raise fail("weights", "be finite numbers >= 0, one for each entry")
    first = np.unique(layout.orbits, return_index=True)[1]
    if not np.allclose(w, w[first][layout.orbits], rtol=1e-9, atol=0):
        raise fail("weights", "be equal on entries with one label in orbits()")
    # The greatest of each orbit: what rounding left unequal is rounded up.
    tops = np.zeros(len(first))
    np.maximum.at(tops, layout.orbits, w)
    return np.asarray(tops[layout.orbits])


def _at(layout: MomentLayout, w: FloatArray, i: int, j: int) -> float:
    place = int(layout.place[i, j])
    return float(w[place]) if place >= 0 else 0.0


def _weights_of_numbers(layout: MomentLayout, w: FloatArray) -> Weights:
    numbers, last = layout.numbers.tolist(), layout.n_rows - 1
    found = Weights(len(numbers))
    if layout.target:
        target, square = _at(layout, w, 0, last), _at(layout, w, last, last)
        found = replace(found, target=target, target_square=square)
    if numbers:
        first = numbers[0]
        linear, square = _at(layout, w, 0, first), _at(layout, w, first, first)
        found = replace(found, linear=linear, square=square)
    if numbers and layout.target:
        found = replace(found, target_product=_at(layout, w, numbers[0], last))
    if len(numbers) > 1:
        found = replace(found, product=_at(layout, w, numbers[0], numbers[1]))
    return found


def _at_corners(w: Weights, e: float) -> float:
    """Return the maximum over e_i in {-1, 1}: k numbers change their sign."""
    k = np.arange(w.count + 1)
    same = 4 * w.linear * k + 4 * w.product * k * (w.count - k)
    return float((same + w.target_product * (k * (1 + e) ** 2 + k[::-1] * (1 - e) ** 2)).max())


def _by_sums(w: Weights, e: float) -> float:
    """Return the bound in which sum(e) is free of the e_i^2, all of them then 0 or 1.

    With S = sum(e) and x_i = e_i^2, phi is convex in each x_i at fixed S.
    """
    p, n = w.count, np.arange(w.count + 1)
    pull = w.linear + e * w.target_product
    s = float(np.clip(-pull / w.product, -p, p)) if w.product else -math.copysign(p, pull)
    linear = w.linear * (p - 2 * s + n) + w.target_product * (p - 2 * e * s + e**2 * n)
    pairs = w.product * (p * (p - 1) / 2 - s**2 + n * (n + 1) / 2)
    return float((linear + pairs + 4 * w.square * (p - n)).max())


def _by_cells(w: Weights, cells: int, target: float) -> float:
    """Return the greatest bound over a grid of cells of [-1, 1]^count.

    In a cell -2 e^2 is below its tangent at the middle, which leaves phi convex in each e: the
    greatest value at the cell's corners is a bound.
    """
    p = w.count
    edges = np.linspace(-1, 1, cells + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(*[np.arange(cells)] * p, indexing="ij"), axis=-1).reshape(-1, p)
    grid = grid[(np.diff(grid, axis=1) >= 0).all(axis=1)]  # numbers may be permuted
    i, j = np.triu_indices(p, 1)
    best = -math.inf
    for corner in product((0, 1), repeat=p):
        e = edges[grid + np.array(corner)]
        own = w.linear * (1 - e) ** 2 + 4 * w.square * _squares(e, middle[grid])
        own += w.target_product * (1 - target * e) ** 2
        pairs = w.product * (1 - e[:, i] * e[:, j]) ** 2
        best = max(best, float((own.sum(axis=1) + pairs.sum(axis=1)).max()))
    return best


def _added(layout: MomentLayout, w: FloatArray) -> float:
    """Return the sum at numbers +-1 and at one indicator in each block, where it is greatest."""
    shown = [0, *layout.variables.tolist(), *(int(block[0]) for block in layout.block_columns)]
    i, j = layout.pairs.T
    return float(w[np.isin(i, shown) & np.isin(j, shown)].sum())


@dataclass(frozen=True)
class _Blocks:
    """Blocks of one size: their columns, and the weights of their entries."""

    columns: list[list[int]]
    alone: float
    number: float
    target: float

    @property
    def count(self) -> int:
        return len(self.columns)

    @property
    def size(self) -> int:
        return len(self.columns[0])


def _replaced(layout: MomentLayout, w: FloatArray) -> float:
    """Return the greatest bound over which blocks change: how many of each size."""
    numbers, groups = _weights_of_numbers(layout, w), _groups(layout, w)

    def bound(changed: list[int], shown: list[int]) -> float:
        return _changed(layout, w, groups, changed) + greatest_of_numbers(
            _beside(numbers, groups, shown)
        )

    counts = [group.count for group in groups]
    if math.prod(count + 1 for count in counts) > MOST_CHOICES:
        # Each part at its greatest: all blocks have changed, and all still show the numbers.
        return bound(counts, counts)
    choices = map(list, product(*(range(count + 1) for count in counts)))
    return max(bound(k, [n - m for n, m in zip(counts, k, strict=True)]) for k in choices)


def _groups(layout: MomentLayout, w: FloatArray) -> list[_Blocks]:
    sizes: dict[int, list[list[int]]] = {}
    for block in layout.block_columns:
        sizes.setdefault(len(block), []).append(block.tolist())
    found = []
    for blocks in sizes.values():
        column = blocks[0][0]
        by_number = _at(layout, w, column, int(layout.numbers[0])) if len(layout.numbers) else 0.0
        by_target = _at(layout, w, column, layout.n_rows - 1) if layout.target else 0.0
        found.append(_Blocks(blocks, _at(layout, w, 0, column), by_number, by_target))
    return found


def _changed(layout: MomentLayout, w: FloatArray, groups: list[_Blocks], k: list[int]) -> float:
    """Return the greatest sum over the entries of k changed blocks of each size.

    In a block, and in a product of two, two entries of size 1 at most, one where there is but
    one. In a block e times a number x, |e x - e' x'|_2^2 = x^2 + x'^2 where e and e' differ, and
    the zero block leaves one of the two.
    """
    total, p = 0.0, len(layout.numbers)
    for g, (one, n) in enumerate(zip(groups, k, strict=True)):
        total += min(one.size, 2) * n * (one.alone + p * one.number + one.target)
        for other, m in zip(groups[g:], k[g:], strict=True):
            pairs = _pairs(one.count, other.count, one is other)
            kept = _pairs(one.count - n, other.count - m, one is other)
            weight = _both(layout, w, one, other) if pairs else 0.0
            total += min(one.size * other.size, 2) * weight * (pairs - kept)
    return total


def _pairs(n: int, m: int, same: bool) -> int:
    return math.comb(n, 2) if same else n * m


def _both(layout: MomentLayout, w: FloatArray, one: _Blocks, other: _Blocks) -> float:
    """Return the weight of the product of two indicators, of two blocks of these sizes."""
    return _at(layout, w, one.columns[0][0], other.columns[-1][0])


def _beside(numbers: Weights, groups: list[_Blocks], shown: list[int]) -> Weights:
    """Return the numbers' weights when unchanged blocks show |x - x'| once more each."""
    linear = sum(n * group.number for n, group in zip(shown, groups, strict=True))
    target = sum(n * group.target for n, group in zip(shown, groups, strict=True))
    return replace(numbers, linear=numbers.linear + linear, target=numbers.target + target)
