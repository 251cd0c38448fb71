"""The released moments of one record, their order and scale."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, fail
from skdp.geometry.ball import as_points
from skdp.geometry.encoded_rows import EncodedDomain, columns_of

IntArray = NDArray[np.intp]
_Frozen = TypeVar("_Frozen", bound=NDArray[Any])
NEIGHBORS = ("replace_one", "add_remove")


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
            rule = f"hold each of 0, ..., {self.n_encoded - 1} once"
            raise fail("number_index and blocks", rule, (numbers, blocks))
        object.__setattr__(self, "number_index", tuple(sorted(numbers)))
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "target", bool(self.target))
        object.__setattr__(self, "target_square", bool(self.target_square))
        object.__setattr__(self, "shifted", bool(self.shifted))
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
    def _squared(self) -> IntArray:
        """Gram columns of the numbers and of curves."""
        own = [self.block_columns[k] for k in self.curves]
        return np.sort(np.concatenate([self.numbers, *own]))

    @cached_property
    def pairs(self) -> IntArray:
        """Columns (i, j), i <= j, of each entry: (dim, 2)."""
        last = np.array([self.n_encoded + 1] * self.target_square, dtype=np.intp)
        columns, squares = np.arange(self.n_rows), np.concatenate([self._squared, last])
        i, j = self._products
        features = np.arange(1, self.n_encoded + 1) if self.target else last[:0]
        first = [columns[: self.adds], np.zeros(self.n_rows - 1, np.intp), squares, i, features]
        second = [columns[: self.adds], columns[1:], squares, j, features * 0 + self.n_encoded + 1]
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
        """Sorted codes of the pairs of columns, and their entries."""
        i, j = self.pairs.T
        codes = i * self.n_rows + j
        order = np.argsort(codes, kind="stable")
        return codes[order], order

    @cached_property
    def _products(self) -> tuple[IntArray, IntArray]:
        """Pairs i < j of features that are not in one block of indicators."""
        columns, block = np.arange(1, self.n_encoded + 1), np.asarray(self._block_of, dtype=np.intp)
        # For a number all features, for an indicator those outside its block.
        free = {-1, *self.curves}
        others = [columns[block[columns] != own] for own in range(len(self.blocks))]
        second = [
            own[np.searchsorted(own, k, side="right") :]
            for k in columns
            for own in [columns if block[k] in free else others[block[k]]]
        ]
        i = np.repeat(columns, list(map(len, second)))
        j = np.concatenate(second) if second else columns
        return i, j

    @cached_property
    def place(self) -> IntArray:
        """Entry of each pair of columns, (n_rows, n_rows), symmetric; -1 if there is none."""
        table = np.full((self.n_rows, self.n_rows), -1, dtype=np.intp)
        i, j = self.pairs.T
        table[i, j] = table[j, i] = np.arange(self.dim)
        return _frozen(table)

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

    @cached_property
    def _block_of(self) -> list[int]:
        found = [-1] * self.n_rows
        for block, columns in enumerate(self.block_columns):
            for j in columns:
                found[j] = block
        return found


def _frozen(array: _Frozen) -> _Frozen:
    array.setflags(write=False)
    return array
