"""The ball of the changes that one record can make in the moments of a regression."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._identity import remembered
from skdp.geometry._direct_sum import ProductBall
from skdp.geometry.ball import as_points
from skdp.geometry.lp import LpBall
from skdp.geometry.moments._added import AddedBall
from skdp.geometry.moments._bodies import DifferenceBall, NumbersBall
from skdp.geometry.moments._greatest import (
    Sorts,
    greatest_squares,
    greatest_sum,
    sorts_of,
    weights_of_orbits,
)
from skdp.geometry.moments._pair_hull import PairHull
from skdp.geometry.moments._spins import SpinMap
from skdp.geometry.moments._triangle_law import MOST_VARIABLES
from skdp.geometry.moments.layout import IntArray, MomentLayout

LEVELS = (0, 1, 2, "exact")
# Members of a ball whose parts all have them.
OPTIONAL = ("log_volume", "support", "covariance", "variance", "extreme_points")
# Entries drawn for an estimate of mean squares, enough for an error of one or two percent.
_MEAN_ENTRIES = 20_000
Part = tuple[Any, IntArray]


@dataclass(frozen=True)
class MomentBall:
    """A norm ball around the changes that one record can make in the moments.

    Under replace_one it contains every t(v) - t(v'), under add_remove every t(v) and -t(v), with
    v and v' records and t as in the layout. A smaller ball means less noise.

    Parameters
    ----------
    layout : MomentLayout
        Entries of t.
    level : {"auto", 0, 1, 2, "exact"}, default="auto"
        0: the least box. 1: also constraints on an entry and its square, on two entries and their
        product (Awan & Slavkovic 2020, section 5.1), and on the sums of the indicators of a
        block, also times another column. 2: under replace_one also constraints on products with
        squares and on triples of products; all of them for up to 12 numbers, columns of two
        levels and target together, and some triples for up to 100. With some triples the level-2
        ball need not lie in the level-1 ball. "exact": the hull of the differences, known for
        one number with or without a target. "auto": the smallest of them whose sampler takes
        seconds at most.

    Notes
    -----
    Draws are exact at every level. ``log_volume()``, ``support(w)`` and ``covariance()`` exist at
    level 0 and if all parts of the ball have them. Proofs are in docs/proofs/moment_balls.md.

    Examples
    --------
    >>> from skdp.geometry.moments import MomentBall, MomentLayout
    >>> ball = MomentBall(MomentLayout(2, (0, 1)), level=1)
    >>> ball.dim, float(ball.gauge([2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0]))
    (8, 1.5)
    """

    layout: MomentLayout
    level: int | str = "auto"

    def __post_init__(self) -> None:
        if self.level == "auto":
            object.__setattr__(self, "level", _best_level(self.layout))
        known = not isinstance(self.level, bool) and self.level in LEVELS
        if not known:
            raise fail("level", "be 'auto', 0, 1, 2 or 'exact'", self.level)
        if self.layout.curves:
            rule = "have no curves: their columns must be numbers"
            raise fail("layout", rule, self.layout.curves)
        if self.layout.adds and not self.layout.shifted:
            raise fail("layout", "have shifted squares under add_remove", False)
        if self.layout.adds and self.level not in (0, 1):
            raise fail("level", "be 0 or 1 under add_remove", self.level)
        if self.level == "exact" and not _has_exact(self.layout):
            rule = "be 0, 1 or 2 unless there is one number and no square of a target"
            raise fail("level", rule, self.level)
        _ = self._parts  # raises if a part is not possible

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.layout.dim

    @property
    def exact(self) -> bool:
        """Whether ``sample`` draws from exactly the uniform law."""
        return all(part.exact for part, _ in self._parts)

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v = as_points(v, self.dim)
        return self._product.gauge(self._spins.forward(v) if self.level else v)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        draws = self._product.sample(n, rng)
        return self._spins.back(draws) if self.level else draws

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return self._box.copy()

    def orbits(self) -> IntArray:
        """Return labels of the entries, (dim,), equal if a symmetry of records swaps them."""
        return self.layout.orbits.copy()

    def greatest_square(self, weights: ArrayLike) -> float:
        """Return an upper bound on sum_i weights[i] u_i^2 over the changes u of one record.

        It need not hold for other points of the ball.

        Parameters
        ----------
        weights : array-like of shape (dim,), >= 0
            Equal on entries with one label in ``orbits()``.
        """
        return self.greatest_square_of_orbits(weights_of_orbits(self.layout, weights))

    def greatest_square_of_orbits(self, weights: ArrayLike) -> float:
        """Return ``greatest_square`` for one weight per label in ``orbits()``, in their order."""
        return float(self.greatest_squares_of_orbits(np.asarray(weights, dtype=float)[None])[0])

    def greatest_squares_of_orbits(self, weights: ArrayLike) -> FloatArray:
        """Return ``greatest_square_of_orbits`` for rows of weights, (rows, orbits) to (rows,)."""
        return greatest_squares(self._sorts, np.asarray(weights, dtype=float))

    def greatest_sum(self) -> float:
        """Return the greatest sum_i |u_i| over the changes u of one record.

        It is inf for layouts with too many choices of what changes.
        """
        return greatest_sum(self.layout)

    def estimate_log_volume(self, n: int, rng: Generator) -> tuple[float, float]:
        """Return an estimate of the log volume and its standard error, 0 if it is exact.

        Parameters
        ----------
        n : int
            Number of random proposals.
        rng : Generator
        """
        total, error = -self._log_det, 0.0
        for part, _ in self._parts:
            if hasattr(part, "log_volume"):
                total += part.log_volume()
            else:
                value, own = part.estimate_log_volume(n, rng)
                total, error = total + value, math.hypot(error, own)
        return total, error

    def mean_squares(self) -> FloatArray:
        """Return an estimate of the mean square of each entry of a uniform draw, (dim,).

        It is computed from fixed draws and averaged over ``orbits()``, so few draws are enough
        for many entries. The result is remembered for equal balls.
        """
        return _mean_squares(self).copy()

    def estimate_covariance(self, n: int, rng: Generator) -> FloatArray:
        """Return an estimate of the covariance of the uniform law, (dim, dim).

        Parameters
        ----------
        n : int
            Draws of each part without a known covariance. A few hundred are enough for numbers,
            as entries that a symmetry swaps are averaged.
        rng : Generator
        """
        out = np.zeros((self.dim, self.dim))
        for part, places in self._parts:
            known = hasattr(part, "covariance")
            block = part.covariance() if known else part.estimate_covariance(n, rng)
            out[np.ix_(places, places)] = block
        return self._spins.back(self._spins.back(out).T) if self.level else out

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,).

        It is an estimate from 256 fixed draws unless the level is 0.
        """
        if self.level == 0:
            return np.append(self.variance()[:1], np.zeros(self.dim - 1))
        return _first_covariance(self).copy()

    def __getattr__(self, name: str) -> Any:
        if name in OPTIONAL and all(hasattr(part, name) for part, _ in self._parts):
            # A part with numbers at level 1 or 2 has none of them, so there are no spins here.
            return getattr(self._product, name)
        raise AttributeError(f"{type(self).__name__} has no {name} at this level")

    @cached_property
    def _spins(self) -> SpinMap:
        return SpinMap(self.layout)

    @property
    def _log_det(self) -> float:
        return self._spins.log_det if self.level else 0.0

    @cached_property
    def _product(self) -> ProductBall:
        balls, index = zip(*self._parts, strict=True)
        return ProductBall(balls, tuple(tuple(places.tolist()) for places in index))

    @cached_property
    def _parts(self) -> list[Part]:
        """Independent parts of the ball, each with its entries."""
        if self.level == 0:
            weights = tuple((1 / self._box).tolist())
            return [(LpBall(self.dim, p=math.inf, weights=weights), np.arange(self.dim))]
        radius = 1.0 if self.layout.adds else 2.0
        parts = [_added_part(self.layout)] if self.layout.adds else list(self._replaced_parts())
        for block, j in product(self.layout.wide_blocks, self.layout.variables):
            # |e x - e' x'|_1 <= |x| + |x'| <= 2 for a block's e and a variable's x.
            parts.append((LpBall(len(block), p=1, radius=radius), self.layout.entry(block, j)))
        return parts

    def _replaced_parts(self) -> Iterator[Part]:
        layout, n_plain = self.layout, len(_variables(self.layout)) - self.layout.n_squares
        places = np.concatenate([layout.entry(0, _variables(layout)), _second_places(layout)])
        if self.level == "exact" and layout.target:
            yield PairHull(), places
        elif len(places):
            level = 2 if self.level == 2 else 1
            yield NumbersBall(layout.n_squares, n_plain, level), places
        for block in _block_places(layout):
            yield DifferenceBall(len(block)), block

    @cached_property
    def _sorts(self) -> Sorts:
        return sorts_of(self.layout)

    @cached_property
    def _box(self) -> FloatArray:
        if self.layout.adds:
            return np.ones(self.dim)
        box = np.full(self.dim, 2.0)
        i, j = self.layout.pairs.T
        coded = [0, *(int(k) for block in self.layout.block_columns for k in block)]
        box[np.isin(i, coded) & np.isin(j, coded)] = 1.0
        return box


@remembered(maxsize=32)
def _mean_squares(ball: MomentBall) -> FloatArray:
    draws = min(max(_MEAN_ENTRIES // ball.dim, 16), 1024)
    squares = np.mean(ball.sample(draws, np.random.default_rng(0)) ** 2, axis=0)
    orbits = ball.layout.orbits
    return np.asarray((np.bincount(orbits, squares) / np.bincount(orbits))[orbits])


@remembered(maxsize=32)
def _first_covariance(ball: MomentBall) -> FloatArray:
    draws = ball.sample(256, np.random.default_rng(0))
    return np.asarray(draws[:, 0] @ draws / len(draws))


def _best_level(layout: MomentLayout) -> int | str:
    if layout.adds:
        return 1
    if _has_exact(layout):
        return "exact"
    return 2 if len(_variables(layout)) <= MOST_VARIABLES else 1


def _has_exact(layout: MomentLayout) -> bool:
    return not layout.adds and layout.n_encoded == layout.n_squares == len(layout.numbers) == 1


def _variables(layout: MomentLayout) -> IntArray:
    """Return the Gram columns treated as numbers, those with a square first."""
    return np.concatenate([layout.variables, layout.two_level])


def _second_places(layout: MomentLayout) -> IntArray:
    """Return the entries of the variables' squares and of their products, i < j."""
    names = _variables(layout)
    squares = names[: layout.n_squares]
    i, j = np.triu_indices(len(names), 1)
    return np.concatenate([layout.entry(squares, squares), layout.entry(names[i], names[j])])


def _block_places(layout: MomentLayout) -> list[IntArray]:
    """Return the entries of each larger block, and of each product of it with another block."""
    blocks = layout.wide_blocks
    single = [layout.entry(0, block) for block in blocks]
    single += [layout.entry(block, j) for block in blocks for j in layout.two_level]
    pairs = combinations(blocks, 2)
    return single + [layout.entry(block[:, None], other).ravel() for block, other in pairs]


def _added_part(layout: MomentLayout) -> Part:
    blocks = _block_places(layout)
    ball = AddedBall(
        layout.n_squares, len(_variables(layout)) - layout.n_squares, tuple(map(len, blocks))
    )
    linear, second = layout.entry(0, _variables(layout)), _second_places(layout)
    return ball, np.concatenate([np.zeros(1, np.intp), linear, *blocks, second])
