"""Trusted. The released moments of one record: their order, scale and greatest changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations_with_replacement, product
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._search import halved
from skdp.geometry.encoded_rows import EncodedDomain, columns_of
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.ball import as_points
from skdp.trusted.checks import check_choice, check_count, fail

IntArray = NDArray[np.intp]
_Frozen = TypeVar("_Frozen", bound=Array)
NEIGHBORS = ("replace_one", "add_remove")
# The bound is raised by more than the rounding of sums.
ROUND_UP = 1 + 1e-12
# Cells of [-1, 1] for each number, by the number of numbers.
CELLS = {1: 512, 2: 48, 3: 12}
TARGET_CELLS = 16
MOST_CHOICES = 4096
# Bounds by cells are computed for so many choices at once.
_AT_ONCE = 64
# Other bounds are computed for at most so many pairs of a row and a choice at once.
_MOST_PAIRS = 1024
# The greatest sum is computed for at most so many choices of blocks and signs.
_MOST_SUMS = 2**17


@dataclass(frozen=True)
class MomentLayout:
    """The distinct entries of the moments of the rows (1, x_1, ..., x_q, y).

    Entry k is ``scale[k] G[i, j] - shift[k] G[0, 0]`` with (i, j) = ``pairs[k]`` and G the
    Gram matrix of the rows. The order is: the count, under add_remove only; (0, j) for every
    column, the target last; (j, j) for the numbers and for curves; (i, j), i < j, for the features,
    except within a block of indicators, where it is 0; (j, q + 1), feature by target. An indicator
    equals its square.

    Parameters
    ----------
    n_encoded : int, >= 0
        Feature columns q: numbers in [-1, 1] and indicators.
    number_index : sequence of int
        The columns among 0, ..., q - 1 that are numbers.
    blocks : sequence of sequences of int
        Columns of each block of indicators, at most one of which is 1. Together with the numbers
        they contain each column once.
    curves : sequence of int, default=()
        Positions of the blocks whose columns are B-splines: at least 0, with a sum of at most 1.
        Blocks without columns do not count. A `MomentBall` has no curves: give it numbers instead.
    target : bool, default=True
        Whether there is a target y in [-1, 1].
    target_square : bool, default=False
        Whether its square is an entry, after those of the numbers.
    neighbors : {"replace_one", "add_remove"}, default="replace_one"
        Squares are released as 2 x^2, which one replaced record moves by at most 2 like all
        entries of numbers; under add_remove as 2 x^2 - 1, which one record moves by at most 1.
    shifted : bool, default=True
        False releases squares as 2 x^2 under add_remove too. This is better if rows are bounded
        in length, as many squares are then small.

    Examples
    --------
    >>> from skdp.geometry.moments import MomentLayout
    >>> layout = MomentLayout(2, (0, 1))  # two numbers and a target
    >>> layout.pairs.tolist()
    [[0, 1], [0, 2], [0, 3], [1, 1], [2, 2], [1, 2], [1, 3], [2, 3]]
    """

    n_encoded: int
    number_index: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...] = ()
    target: bool = True
    target_square: bool = False
    neighbors: str = "replace_one"
    shifted: bool = True
    curves: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_encoded", check_count("n_encoded", self.n_encoded, 0))
        numbers = tuple(int(j) for j in self.number_index)
        blocks = tuple(tuple(int(j) for j in block) for block in self.blocks)
        blocks = tuple(block for block in blocks if block)  # a column of one level has none
        if sorted([*numbers, *(j for b in blocks for j in b)]) != list(range(self.n_encoded)):
            rule = f"contain each of 0, ..., {self.n_encoded - 1} once"
            raise fail("number_index and blocks", rule, (numbers, blocks))
        object.__setattr__(self, "number_index", tuple(sorted(numbers)))
        object.__setattr__(self, "blocks", blocks)
        for name in ("target", "target_square", "shifted"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        object.__setattr__(self, "curves", tuple(sorted({int(k) for k in self.curves})))
        if not set(self.curves) <= set(range(len(blocks))):
            raise fail("curves", f"be positions of the {len(blocks)} blocks", self.curves)
        check_choice("neighbors", self.neighbors, NEIGHBORS)
        if self.target_square and not self.target:
            raise fail("target_square", "be False where there is no target", self.target_square)
        if not self.n_encoded and not self.target:
            raise fail("n_encoded", "be > 0 where there is no target", 0)

    @classmethod
    def of(
        cls,
        domain: EncodedDomain,
        target: bool = True,
        target_square: bool = False,
        neighbors: str = "replace_one",
        shifted: bool = True,
        with_curves: bool = False,
    ) -> MomentLayout:
        """Return the layout of a domain's encoded rows.

        Parameters
        ----------
        domain : object with n_encoded, number_index and blocks
            Bounded numbers and levels, not a ball of rows.
        target, target_square, neighbors, shifted
            As in the class.
        with_curves : bool, default=False
            Whether blocks of B-splines are blocks of the layout. Otherwise they count as numbers.
        """
        if getattr(domain, "is_ball", False):
            raise fail("domain", "bound every column, not the length of a row")
        numbers, blocks = columns_of(domain)
        tables = getattr(domain, "block_tables", (None,) * len(domain.blocks))
        pairs = zip(domain.blocks, tables, strict=True)
        is_curve = [table is not None for block, table in pairs if block.stop > block.start]
        curves = tuple(np.flatnonzero(is_curve).tolist())
        if not with_curves:
            numbers += tuple(j for k in curves for j in blocks[k])
            blocks = [block for k, block in enumerate(blocks) if not is_curve[k]]
            curves = ()
        facts = target, target_square, neighbors, shifted, curves
        return cls(domain.n_encoded, numbers, tuple(blocks), *facts)

    @property
    def adds(self) -> bool:
        """Whether neighbours differ by one record added or removed, not replaced."""
        return self.neighbors == "add_remove"

    @property
    def n_rows(self) -> int:
        """Number of columns of the Gram matrix: the ones, the features and the target, if any."""
        return 1 + self.n_encoded + int(self.target)

    @property
    def dim(self) -> int:
        """Number of entries."""
        return len(self.pairs)

    @cached_property
    def numbers(self) -> IntArray:
        """Gram columns of the numbers."""
        return np.asarray(self.number_index, dtype=np.intp) + 1

    @cached_property
    def variables(self) -> IntArray:
        """Gram columns with values in [-1, 1]: those with a square first, then the others."""
        last = [self.n_encoded + 1] if self.target else []
        return np.concatenate([self.numbers, np.asarray(last, dtype=np.intp)])

    @property
    def n_squares(self) -> int:
        """Number of variables with a square: the numbers, and the target if ``target_square``."""
        return len(self.number_index) + int(self.target_square)

    @cached_property
    def block_columns(self) -> tuple[IntArray, ...]:
        """Gram columns of each block."""
        return tuple(np.asarray(block, dtype=np.intp) + 1 for block in self.blocks)

    @cached_property
    def indicators(self) -> IntArray:
        """Gram columns of all indicators, each of which is its own square."""
        own = [block for k, block in enumerate(self.block_columns) if k not in self.curves]
        return np.concatenate([np.empty(0, np.intp), *own])

    @cached_property
    def pairs(self) -> IntArray:
        """Columns (i, j), i <= j, of each entry: (dim, 2)."""
        last = np.array([self.n_encoded + 1] * self.target_square, dtype=np.intp)
        curves = [self.block_columns[k] for k in self.curves]
        squared = np.sort(np.concatenate([self.numbers, *curves]))
        # Products are those of features i < j that are not in one block of indicators.
        features, block = np.arange(1, self.n_encoded + 1), np.full(self.n_rows, -1)
        for k, own in enumerate(self.block_columns):
            block[own] = k
        # For a number all features, for an indicator those outside its block.
        free = {-1, *self.curves}
        others = [features[block[features] != k] for k in range(len(self.blocks))]
        later = [
            beside[np.searchsorted(beside, k, side="right") :]
            for k in features
            for beside in [features if block[k] in free else others[block[k]]]
        ]
        i = np.repeat(features, list(map(len, later)))
        j = np.concatenate(later) if later else features
        columns, squares = np.arange(self.n_rows), np.concatenate([squared, last])
        aimed = features if self.target else last[:0]
        first = [columns[: self.adds], np.zeros(self.n_rows - 1, np.intp), squares, i, aimed]
        second = [columns[: self.adds], columns[1:], squares, j, aimed * 0 + self.n_encoded + 1]
        return _frozen(np.column_stack([np.concatenate(first), np.concatenate(second)]))

    def entry(self, i: ArrayLike, j: ArrayLike) -> IntArray:
        """Return the entry of pairs of columns (i, j), of any shape; -1 if there is none."""
        low, high = np.minimum(i, j), np.maximum(i, j)
        found = np.full(low.shape, -1, dtype=np.intp)
        codes, order = self._codes
        code = low * self.n_rows + high
        at = np.searchsorted(codes, code).clip(max=len(codes) - 1)
        known = codes[at] == code
        found[known] = order[at[known]]
        return found

    @cached_property
    def _codes(self) -> tuple[IntArray, IntArray]:
        i, j = self.pairs.T
        codes = i * self.n_rows + j
        order = np.argsort(codes, kind="stable")
        return codes[order], order

    @cached_property
    def scale(self) -> FloatArray:
        """Factor of the entry of the Gram matrix: 2 for squares, else 1, (dim,)."""
        return _frozen(np.where(self._is_square, 2.0, 1.0))

    @cached_property
    def shift(self) -> FloatArray:
        """Multiple of the count that is subtracted: 1 for shifted squares, else 0, (dim,)."""
        return _frozen(np.where(self._is_square & self.adds & self.shifted, 1.0, 0.0))

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """Kind of each entry: "count", "linear", "square", "product" or "target", (dim,)."""
        i, j = self.pairs.T
        names = np.array(["product", "linear", "target", "square", "count"])
        code = (i == 0).astype(np.int8)
        code[j == self.n_encoded + 1] = 2
        code[self._is_square] = 3
        code[j == 0] = 4
        return _frozen(names[code])

    @cached_property
    def orbits(self) -> IntArray:
        """Labels of the entries, (dim,), equal if a symmetry of the records swaps them.

        Symmetries permute numbers, blocks of one size, and the indicators within a block.
        """
        return _frozen(self._orbits[0])

    @cached_property
    def first_of_orbit(self) -> IntArray:
        """The first entry with each label of ``orbits``."""
        return _frozen(self._orbits[1])

    @cached_property
    def _orbits(self) -> tuple[IntArray, IntArray]:
        i, j = self.pairs.T
        sort = self.column_sorts
        most = int(sort.max()) + 1
        # A square and a product of two columns of one sort are different entries.
        keys = (np.minimum(sort[i], sort[j]) * 2 + (i == j)) * most + np.maximum(sort[i], sort[j])
        first = np.full(2 * most**2, self.dim)
        first[keys[::-1]] = np.arange(self.dim)[::-1]  # the last to be written is the first entry
        found = np.argsort(first)[: np.count_nonzero(first < self.dim)]
        label = np.empty(len(first), dtype=np.intp)
        label[found] = np.arange(len(found))
        return label[keys], first[found]

    @cached_property
    def sorts(self) -> Sorts:
        """The parts of the bounds of `greatest_squares` that do not depend on the weights."""
        return sorts_of(self)

    def statistic(self, gram: ArrayLike) -> FloatArray:
        """Return the entries, (..., dim), of Gram matrices (..., n_rows, n_rows)."""
        gram = np.asarray(gram, dtype=float)
        if gram.shape[-2:] != (self.n_rows, self.n_rows):
            rule = f"have shape (..., {self.n_rows}, {self.n_rows})"
            raise fail("gram", rule, gram.shape[-2:])
        i, j = self.pairs.T
        return np.asarray(self.scale * gram[..., i, j] - self.shift * gram[..., :1, 0])

    def gram(self, statistic: ArrayLike, n: float | None = None) -> FloatArray:
        """Return the symmetric Gram matrix of entries (dim,), or of their noisy release.

        Parameters
        ----------
        statistic : array-like of shape (..., dim)
        n : float or None
            Public number of records; None under add_remove, where the statistic contains it.

        Returns
        -------
        ndarray of shape (..., n_rows, n_rows)
            The square of the target is nan if it is no entry.
        """
        entries = as_points(statistic, self.dim, "statistic")
        if self.adds != (n is None):
            rule = "be None under add_remove" if self.adds else "be given under replace_one"
            raise fail("n", rule, n)
        count = entries[..., 0] if n is None else np.full(entries.shape[:-1], float(n))
        out = np.zeros((*entries.shape[:-1], self.n_rows, self.n_rows))
        i, j = self.pairs.T
        out[..., i, j] = out[..., j, i] = (entries + self.shift * count[..., None]) / self.scale
        out[..., 0, 0] = count
        out[..., self.indicators, self.indicators] = out[..., 0, self.indicators]
        if self.target and not self.target_square:
            out[..., -1, -1] = np.nan
        return out

    def row_square(self, weights: ArrayLike) -> float:
        """Return the greatest sum of weights times squares over the rows (1, x, y).

        At most one indicator of a block is 1, so a block counts once.
        """
        w = as_points(weights, self.n_rows, "weights")
        # The ones, the numbers and the target can all have square 1 at once.
        others = float(w[0] + w[self.variables].sum())
        return others + sum(float(w[block].max()) for block in self.block_columns)

    @cached_property
    def _is_square(self) -> NDArray[np.bool_]:
        i, j = self.pairs.T
        return np.asarray((i == j) & (j > 0))

    @cached_property
    def column_sorts(self) -> IntArray:
        """Label of each Gram column, the same where a symmetry of the records swaps columns.

        The ones and the target have labels of their own, numbers share one, and so do the
        columns of blocks of one size.
        """
        sorts = np.full(self.n_rows, 2)
        sorts[0] = 0
        if self.target:
            sorts[-1] = 1
        for columns in self.block_columns:
            sorts[columns] = 2 + len(columns)
        return np.asarray(np.unique(sorts, return_inverse=True)[1], dtype=np.intp)


def _frozen(array: _Frozen) -> _Frozen:
    array.setflags(write=False)
    return array


# The greatest weighted sum of squares of the changes of the moments by one record.
#
# For numbers put d = |z - z'| and s = |z + z'|, d + s <= 2. A product changes by at most
# (s_i d_j + d_i s_j) / 2 and a square by s d, so the sum is greatest at s = 2 - d; with d = 1 - e,
# -1 <= e <= 1, it is
#
#     phi(e) = sum_i a_i (1 - e_i)^2 + sum_i 4 b_i (1 - e_i^2)^2 + sum_{i<j} c_ij (1 - e_i e_j)^2.
#
# Without the squares it is convex in each e_i alone, hence greatest where all e_i are 1 or -1.
# docs/proofs/moment_balls.md proves this and the bounds below.
#
# A plan computes hundreds of these sums. The parts that do not depend on the weights are stored for
# each layout; the rest is a few sums over the choices of the blocks that change.


@dataclass(frozen=True)
class Weights:
    """Weights of the entries of ``count`` numbers and of a target, (rows, 1, 1).

    Weights of linear entries, ``linear`` and ``target``, are given for each choice of blocks,
    (rows, choices, 1), as blocks that do not change add to them.
    """

    count: int
    linear: FloatArray
    target: FloatArray
    square: FloatArray
    product: FloatArray
    target_square: FloatArray
    target_product: FloatArray


def greatest_squares(layout: MomentLayout, weights: FloatArray) -> FloatArray:
    """Return upper bounds on sum_i weights[:, i] u_i^2 over the changes u one record can make.

    There is one weight >= 0 for each label in ``orbits`` of the layout, (rows, orbits). The bound
    is exact under add_remove, and under replace_one without squares and blocks.
    """
    sorts = layout.sorts
    if layout.adds:
        # Greatest at numbers +-1 and at one indicator in each block.
        return np.asarray(weights @ sorts.shown * ROUND_UP)
    # Missing entries have the label -1 and the weight 0.
    padded = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
    bounds = []
    # Bounds by cells are computed for one row at a time.
    step = 1 if sorts.count in CELLS else max(1, _MOST_PAIRS // len(sorts.still))
    for rows in np.split(padded, range(step, len(padded), step)):
        own = rows.T[sorts.own][:, :, None, None]
        # Each block that does not change adds a term in x - x' and in y - y'.
        linear, target = (
            own[k] + (rows[:, sorts.beside[k]] @ sorts.still.T)[:, :, None] for k in (0, 1)
        )
        changed = rows[:, sorts.changing] @ sorts.changes.T
        w = Weights(sorts.count, linear, target, *own[2:])
        bounds.append(_greatest_beside_blocks(w, changed))
    return np.concatenate(bounds) * ROUND_UP


def greatest_sum(layout: MomentLayout) -> float:
    """Return the maximum of sum_i |u_i| over the changes u one record can make, rounded up.

    It is inf if there are too many choices of what changes. See docs/proofs/moment_balls.md,
    Theorem 4.
    """
    if layout.adds:
        return float(layout.sorts.shown.sum()) * ROUND_UP
    single = sum(len(block) == 1 for block in layout.block_columns)
    wide = len(layout.block_columns) - single
    p, others = layout.n_squares, len(layout.variables) - layout.n_squares
    if (single + 1) * (wide + 1) * (p + 1) > _MOST_SUMS:
        return math.inf
    # k and m blocks change, ``up`` of the e_i are >= 0, and t is that of a target without a square.
    counts = [np.arange(n + 1.0) for n in (single, wide, p)]
    k, m, up, t = np.meshgrid(*counts, [-1.0, 1.0] if others else [0.0], indexing="ij")
    pull, n = 1 + single + wide - k - m, p + others
    fixed = (k + 2 * m) * pull + k * (k - 1) / 2 + k * m + m * (m - 1) + n * (k + m + pull)
    fixed += n * (n - 1) / 2 + 2 * p - pull * t + (m + 0.5) * np.abs(t)

    def is_high(s: FloatArray) -> NDArray[np.bool_]:
        plus, minus = ((m + sign * (pull + s)).clip(0, 3) / 3 for sign in (-1, 1))
        return np.asarray(up * plus - (p - up) * minus + t < s)

    s = halved(is_high, np.full(k.shape, -float(n)), np.full(k.shape, float(n)), 1e-12 * n)
    # Any s gives an upper bound; the sum of the maximal e is the best.
    rooms = [(m + sign * (pull + s)).clip(0, None) for sign in (-1, 1)]
    plus, minus = (np.minimum(x / 3, 1) * (x - 1.5 * np.minimum(x / 3, 1)) for x in rooms)
    return float((fixed + s**2 / 2 - s * t + up * plus + (p - up) * minus).max()) * ROUND_UP


# Parts that do not depend on the weights


@dataclass(frozen=True, eq=False)
class Sorts:
    """Labels of the sorts of entries, -1 if there is none, and choices of blocks that change."""

    count: int  # of numbers
    own: IntArray  # labels of x, y, x^2, x x', y^2 and x y, x and x' numbers and y the target
    beside: IntArray  # labels of products of an indicator with x and y, (2, sizes of blocks)
    still: FloatArray  # number of blocks that do not change, (choices, sizes of blocks)
    changing: IntArray  # labels of the entries that change with blocks
    changes: FloatArray  # their greatest sums of squares, (choices, len(changing))
    # Number of entries of each label that are 1 if one indicator of each block is 1, (labels,).
    shown: FloatArray


def sorts_of(layout: MomentLayout) -> Sorts:
    """Return the parts of the bounds that depend on the layout only."""
    numbers, last = layout.numbers[:2].tolist(), layout.n_rows - 1
    first, second = (numbers + [-1, -1])[:2]
    goal = last if layout.target else -1

    def label(i: int, j: int) -> int:
        entry = int(layout.entry(i, j)) if min(i, j) >= 0 else -1
        return int(layout.orbits[entry]) if entry >= 0 else -1

    sizes: dict[int, list[IntArray]] = {}
    for block in layout.block_columns:
        sizes.setdefault(len(block), []).append(block)
    counts = np.array([len(blocks) for blocks in sizes.values()], dtype=float)
    if math.prod(len(blocks) + 1 for blocks in sizes.values()) > MOST_CHOICES:
        # An upper bound: all blocks count as changed, and all as unchanged.
        changed = still = counts[None]
    else:
        every = product(*(range(len(blocks) + 1) for blocks in sizes.values()))
        changed = np.array(list(every), dtype=float)
        still = counts - changed
    ends = [(int(blocks[0][0]), int(blocks[-1][0])) for blocks in sizes.values()]
    single = [(label(0, one), label(one, first), label(one, goal)) for one, _ in ends]
    pairs = list(combinations_with_replacement(range(len(ends)), 2))
    both = [label(ends[g][0], ends[h][1]) for g, h in pairs]
    columns = [(0, first), (0, goal), (first, first), (first, second), (goal, goal), (first, goal)]
    shown = np.zeros(layout.n_rows, dtype=np.bool_)
    shown[[0, *layout.variables, *(block[0] for block in layout.block_columns)]] = True
    i, j = layout.pairs.T
    labels = layout.orbits[shown[i] & shown[j]]
    groups = [(size, len(blocks)) for size, blocks in sizes.items()]
    return Sorts(
        count=len(layout.numbers),
        own=np.array([label(*pair) for pair in columns], dtype=np.intp),
        beside=np.array(single, dtype=np.intp).reshape(-1, 3).T[1:],
        still=still,
        changing=np.array([*chain(*single), *both], dtype=np.intp),
        changes=_changes(groups, pairs, (changed, still), len(layout.numbers)),
        shown=np.bincount(labels, minlength=len(layout.first_of_orbit)).astype(float),
    )


def _changes(
    groups: list[tuple[int, int]],
    pairs: list[tuple[int, int]],
    choices: tuple[FloatArray, FloatArray],
    numbers: int,
) -> FloatArray:
    """Return the greatest sums of squares of the entries of changed blocks, (choices, entries).

    In a block, and in a product of two, at most two entries have size 1, or one if there is only
    one. In a block e times a number x, |e x - e' x'|_2^2 = x^2 + x'^2 if e and e' differ; if one
    of them is the zero block, only one term is left.
    """
    parts, (changed, still) = [], choices
    for (size, _), k in zip(groups, changed.T, strict=True):
        own = min(size, 2) * k
        parts += [own, numbers * own, own]
    for g, h in pairs:
        (size, n), (other, m) = groups[g], groups[h]
        kept = _pairs(n - changed[:, g], m - changed[:, h], g == h)
        moved = _pairs(float(n), float(m), g == h) - kept
        # If the only indicator of a block changes, a product of it is 0 before or after.
        single = sum(
            (i - still[:, at]) * j for at, i, j in ((g, n, m), (h, m, n)) if groups[at][0] == 1
        )
        parts.append(moved + (moved - single if size * other > 1 else 0.0))
    return np.array(parts).reshape(-1, len(changed)).T


def _pairs(n: FloatArray | float, m: FloatArray | float, same: bool) -> FloatArray:
    return np.asarray(n * (n - 1) / 2 if same else n * m)


# Numbers and a target beside blocks


def _greatest_beside_blocks(w: Weights, changed: FloatArray) -> FloatArray:
    """Return an upper bound on the sum, over the choices of blocks and values e of the target.

    ``changed`` has the sums of the changed blocks, (rows, choices).
    """
    # One of the values e is the worst, and ``own`` bounds the terms of the target.
    if w.target_square.any():
        edges = np.linspace(-1, 1, TARGET_CELLS + 1)
        ends = np.column_stack([edges[:-1], edges[1:]])
        e, squares = ends.ravel(), _squares(ends, ends.mean(1)[:, None]).ravel()
        own = w.target * (1 - e) ** 2 + 4 * w.target_square * squares
    else:
        e, own = np.array([1.0, -1.0]), np.concatenate([0.0 * w.target, 4 * w.target], axis=2)
    fixed = own + changed[:, :, None]
    corners = fixed + _at_corners(w, e)
    # As 4 b (1 - e^2)^2 <= 4 b (1 - e^2), the bound is still convex in each e here.
    convex = w.linear + e**2 * w.target_product >= 4 * w.square
    bound = np.where(convex, corners, corners + 4 * w.count * w.square)
    if w.count not in CELLS:
        bound = np.where(convex, bound, np.minimum(bound, fixed + _by_sums(w, e)))
        return np.asarray(bound.max(axis=(1, 2)))
    bound, convex, fixed = bound[0], convex[0], fixed[0]
    best = float(bound[convex].max(initial=0.0))
    c, t = np.nonzero(~convex)
    order = np.argsort(-bound[c, t])
    for some in np.split(order, range(_AT_ONCE, len(order), _AT_ONCE)):
        # Later bounds are no greater.
        if not len(some) or bound[c[some[0]], t[some[0]]] <= best:
            break
        by_cells = fixed[c[some], t[some]] + _by_cells(w, w.linear[0, c[some], 0], e[t[some]])
        best = max(best, float(np.minimum(bound[c[some], t[some]], by_cells).max()))
    return np.array([best])


def _squares(e: FloatArray, middle: FloatArray) -> FloatArray:
    """Return a bound on (1 - e^2)^2, convex in e, that touches it where e is ``middle``."""
    return np.asarray(1 + e**4 - 2 * (2 * middle * e - middle**2))


def _at_corners(w: Weights, e: FloatArray) -> FloatArray:
    """Return the maximum over e_i in {-1, 1}, k of them -1, (rows, choices, targets)."""
    p, rise = w.count, 4 * w.linear + w.target_product * ((1 + e) ** 2 - (1 - e) ** 2)
    with np.errstate(all="ignore"):
        # It is concave in k, so the maximum is next to the root of the slope or at an end.
        top = np.nan_to_num(p / 2 + rise / (8 * w.product), nan=0.0, posinf=p, neginf=0.0)
    low = np.floor(top).clip(0, p)
    found = np.full(rise.shape, -math.inf)
    for k in (0.0 * low, low, np.minimum(low + 1, p), 0.0 * low + p):
        products = 4 * w.product * k * (p - k)
        with_target = w.target_product * (k * (1 + e) ** 2 + (p - k) * (1 - e) ** 2)
        found = np.maximum(found, 4 * w.linear * k + products + with_target)
    return found


def _by_sums(w: Weights, e: FloatArray) -> FloatArray:
    """Return the bound in which sum(e) and the e_i^2 vary independently, (rows, choices, targets).

    With S = sum(e) and x_i = e_i^2, phi is convex in each x_i at fixed S, so all are 0 or 1, and
    it is convex in the number of ones.
    """
    p, pull = w.count, w.linear + e * w.target_product
    with np.errstate(all="ignore"):
        s = np.where(w.product > 0, (-pull / w.product).clip(-p, p), -np.copysign(p, pull))
    found = np.full(pull.shape, -math.inf)
    for n in (0, p):
        own = w.linear * (p - 2 * s + n) + w.target_product * (p - 2 * e * s + e**2 * n)
        pairs = w.product * (p * (p - 1) / 2 - s**2 + n * (n + 1) / 2)
        found = np.maximum(found, own + pairs + 4 * w.square * (p - n))
    return found


def _by_cells(w: Weights, linear: FloatArray, e: FloatArray) -> FloatArray:
    """Return the greatest bound over cells of [-1, 1]^count, for each (linear, e) and one row.

    In a cell -2 e^2 is below its tangent at the middle, which leaves phi convex in each e: the
    greatest value at the cell's corners is a bound.
    """
    square, product, beside = (float(x[0, 0, 0]) for x in (w.square, w.product, w.target_product))
    first, second = linear + e * beside, linear + e**2 * beside
    fixed, ones = w.count * (linear + beside), np.ones(len(e))
    terms = np.array([fixed, -2 * first, second, 4 * square * ones, product * ones])
    return np.asarray((_cells(w.count, CELLS[w.count]) @ terms).max(axis=0))


@lru_cache(maxsize=8)
def _cells(p: int, cells: int) -> FloatArray:
    """Return 1, sum(e), sum(e^2), the bounds on squares and the products at the cells' corners."""
    edges = np.linspace(-1, 1, cells + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(*[np.arange(cells)] * p, indexing="ij"), axis=-1).reshape(-1, p)
    grid = grid[(np.diff(grid, axis=1) >= 0).all(axis=1)]  # numbers may be permuted
    i, j = np.triu_indices(p, 1)
    rows = []
    for corner in product((0, 1), repeat=p):
        e = edges[grid + np.array(corner)]
        squares = _squares(e, middle[grid]).sum(axis=1)
        pairs = ((1 - e[:, i] * e[:, j]) ** 2).sum(axis=1)
        rows.append(np.column_stack([np.ones(len(e)), e.sum(1), (e**2).sum(1), squares, pairs]))
    return np.concatenate(rows)
