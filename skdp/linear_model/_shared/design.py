"""The design matrix and public bounds on its rows.

A row is z = (1, numbers in [-1, 1], one block per column of levels). With an intercept the blocks
are centred: level k of m + 1 is e_k - c with c = (1, ..., 1) / (m + 1), and the first level is -c.
The set of models is the same. Centring minimises the contribution of a block to the intercept and
to the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Spline
from skdp.geometry import LpBall, NormBall, ProductBall, ShearedBall, SimplexBall, SumBall
from skdp.geometry.encoded_rows import rows_ball
from skdp.linear_model._shared.gram import row_unit
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import exact_variance
from skdp.trusted.checks import fail

LISTABLE = 4096
# Gauges of rows are computed for arrays of at most so many entries.
_CELLS = 2**20


@dataclass(frozen=True, eq=False)
class Roughness:
    """A public penalty ridge / 2 t'P t on the coefficients t of a column of B-splines."""

    penalty: FloatArray  # the matrix P of whole numbers; P - I is positive semidefinite
    inverse: FloatArray  # to rounding
    leverage: float  # the greatest x'P^-1 x of the parts x of rows
    resistance: float  # the least x'P^-1 x / |x|_2^2
    stiffness: float  # number of coefficients divided by the trace of the inverse
    norm: float  # the greatest absolute sum of a row of P

    @classmethod
    def of(cls, penalty: FloatArray, parts: FloatArray) -> Roughness:
        """Return the penalty with its bounds for parts of rows, (n, size)."""
        inverse: FloatArray = np.linalg.inv(penalty).astype(np.float64)
        scores, squares = np.vecdot(parts @ inverse, parts), np.vecdot(parts, parts)
        least = np.divide(scores, squares, out=np.ones(len(parts)), where=squares > 0).min()
        stiffness = len(penalty) / float(np.trace(inverse))
        norm = float(np.abs(penalty).sum(axis=1).max())
        # The factors cover the errors of the inverse.
        leverage = float(scores.max()) * (1 + 1e-9)
        return cls(penalty, inverse, leverage, float(least) * (1 - 1e-9), stiffness, norm)


@dataclass(frozen=True)
class Group:
    """The coordinates of one column of levels, or of all numbers together."""

    kind: str  # "intercept", "numbers", "levels", or "vector", a row of a ``Domain.l2_ball``
    index: tuple[int, ...]  # the coordinates
    ball: NormBall  # holds the group's part of every row
    square: float  # the greatest |part|_2^2 of a row, to rounding
    least: float = 0.0  # the least
    roughness: Roughness | None = None  # None stands for the squared length of coefficients

    @property
    def size(self) -> int:
        return len(self.index)

    @property
    def leverage(self) -> float:
        """The greatest part'P^-1 part of a row for the penalty matrix P, to rounding."""
        return self.square if self.roughness is None else self.roughness.leverage

    @property
    def resistance(self) -> float:
        """A lower bound on part'P^-1 part / |part|_2^2."""
        return 1.0 if self.roughness is None else self.roughness.resistance

    @property
    def stiffness(self) -> float:
        """The multiple of the ridge that penalises the mean coefficient as much as P does."""
        return 1.0 if self.roughness is None else self.roughness.stiffness

    @cached_property
    def variance(self) -> float:
        """Mean variance of a coordinate under the uniform law on the ball."""
        return float(np.mean(exact_variance(self.ball)))

    def corners(self) -> FloatArray:
        """Return parts of rows whose convex hull, with its mirror image, holds all parts."""
        if self.kind == "levels":
            return np.vstack([self.level_rows(0, self.n_levels), np.zeros((1, self.size))])
        return np.asarray(self.ball.extreme_points())  # type: ignore[attr-defined]

    def norm(self, p: float) -> float:
        """Return the greatest l_p norm of the group's part of a row."""
        if self.kind == "levels":
            # Rows of other levels are permutations of this one; that of the first level is shorter.
            return float(np.linalg.norm(self.level_rows(0, 1), ord=p, axis=1)[0])
        if self.kind == "vector":
            factor = self.size ** max(0.0, 1 / p - 1 / 2)
            return float(math.sqrt(self.square) * factor)
        return float(self.size ** (1 / p))

    @property
    def n_levels(self) -> int:
        """Number of levels with a row of their own: without centring the first has zeros."""
        return self.size + isinstance(self.ball, SimplexBall)

    def level_rows(self, start: int, stop: int) -> FloatArray:
        """Return the rows of some levels, (levels, size); that of the first level is the last."""
        centre = 1 / (self.size + 1) if isinstance(self.ball, SimplexBall) else 0.0
        return np.eye(min(stop, self.n_levels) - start, self.size, k=start) - centre


@dataclass(frozen=True)
class RowLayout:
    """The positions of the columns of a domain among the encoded columns."""

    domain: Domain
    intercept: bool  # whether a column of ones comes first

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Encoded columns that hold numbers."""
        return tuple(int(j) for j in self.domain.number_index)

    @cached_property
    def level_columns(self) -> tuple[slice, ...]:
        """Encoded columns of each column of levels, without the first level."""
        return tuple(b for b in self.domain.blocks if b.stop > b.start)

    @cached_property
    def tables(self) -> tuple[FloatArray | None, ...]:
        """For each of these, the encoded values of the positions of B-splines; None for levels."""
        pairs = zip(self.domain.blocks, self.domain.block_tables, strict=True)
        return tuple(table for block, table in pairs if block.stop > block.start)

    @cached_property
    def penalties(self) -> tuple[FloatArray | None, ...]:
        """For each of these, the matrix of the penalty on coefficients; None for levels."""
        pairs = zip(self.domain.blocks, self.domain.block_penalties, strict=True)
        return tuple(penalty for block, penalty in pairs if block.stop > block.start)


@dataclass(frozen=True)
class Design(RowLayout):
    """The public side of a design matrix: its layout and a bound on its rows."""

    def __post_init__(self) -> None:
        if self.dim == 0:
            rule = "have a number or a column of two levels: there must be something to fit"
            raise fail("domain", rule, self.domain, "Or give fit_intercept=True.")

    @property
    def dim(self) -> int:
        return self.domain.n_encoded + self.intercept

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """The indicator columns of each column of levels with at least two levels."""
        shift = int(self.intercept)
        return tuple(slice(b.start + shift, b.stop + shift) for b in self.level_columns)

    @cached_property
    def unit(self) -> float:
        """The unit of the numbers, a power of two: their bound, or nearly twice it."""
        return row_unit(self.domain)

    @cached_property
    def number_coordinates(self) -> NDArray[np.intp] | slice:
        """Coordinates of the numbers; adjacent ones as a slice, which numpy does not copy."""
        columns = np.array(self.numbers, dtype=np.intp) + int(self.intercept)
        if len(columns) and columns[-1] - columns[0] == len(columns) - 1:
            return slice(int(columns[0]), int(columns[-1]) + 1)
        return columns

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of each column of levels, or of B-splines with the first."""
        return tuple(block.stop - block.start + 1 for block in self.blocks)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Number of positions of each column of levels or B-splines."""
        pairs = zip(self.sizes, self.tables, strict=True)
        return tuple(size if table is None else len(table) for size, table in pairs)

    def row_table(self, column: int) -> FloatArray:
        """Return the entries of rows for each position of a column, (size - 1, positions)."""
        size, table = self.sizes[column], self.tables[column]
        own = np.eye(size, size - 1, k=-1) if table is None else table
        return np.asarray((own - (1 / size if self.intercept else 0.0)).T)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of coordinates. Every coordinate is in exactly one."""
        groups = []
        if self.intercept:
            groups.append(Group("intercept", (0,), LpBall(1), 1.0, 1.0))
        if self.domain.is_ball:
            d, radius = self.domain.n_encoded, float(self.domain.radius or 0.0)
            places = tuple(range(int(self.intercept), d + int(self.intercept)))
            vectors = LpBall(d, p=2.0, radius=radius)
            groups.append(Group("vector", places, vectors, radius**2))
        elif self.domain.n_numbers:
            places = tuple(j + self.intercept for j in self.numbers)
            ball = LpBall(len(places), p=math.inf)
            groups.append(Group("numbers", places, ball, float(len(places))))
        return (*groups, *map(self._level_group, self.blocks, self.tables, self.penalties))

    def _level_group(
        self, block: slice, table: FloatArray | None, penalty: FloatArray | None
    ) -> Group:
        m = block.stop - block.start
        places = tuple(range(block.start, block.stop))
        if self.intercept:
            # (m / (m + 1))^2 of the own indicator and 1 / (m + 1)^2 of each of m - 1 others. The
            # first level has 1 / (m + 1)^2 in all m coordinates.
            square, least = (m * m + m - 1) / (m + 1) ** 2, m / (m + 1) ** 2
            ball: NormBall = SimplexBall(m)
        else:
            square, least, ball = 1.0, 0.0, LpBall(m, p=1.0)
        roughness = None
        if table is not None and penalty is not None:
            centred = table - self.intercept / (m + 1)
            squares = np.vecdot(centred, centred)  # a rounded sum may be above the least one
            square, least = float(squares.max()), float(squares.min()) * (1 - 1e-12)
            roughness = Roughness.of(penalty, centred)
        return Group("levels", places, ball, square, least, roughness)

    def penalised(self, theta: FloatArray) -> FloatArray:
        """Return the matrix of the penalty for ridges of 1, times theta, (dim,)."""
        found = theta
        for block, penalty in zip(self.blocks, self.penalties, strict=True):
            if penalty is not None:
                found = theta.copy() if found is theta else found
                found[block] = penalty @ theta[block]
        return found

    @property
    def stiffest(self) -> float:
        """The greatest absolute sum of a row of the penalty matrix."""
        return max(1.0 if g.roughness is None else g.roughness.norm for g in self.groups)

    @property
    def row_norm(self) -> float:
        """Bound on the Euclidean norm of a row."""
        return math.sqrt(sum(group.square for group in self.groups)) * ROUND_UP

    def matrix(self, X: Any, n: int) -> FloatArray:
        """Return the (n, dim) matrix of a table with n rows; every row is in the domain."""
        z = np.empty((n, self.dim))
        if self.intercept:
            z[:, 0] = 1.0
        self.domain.encode(X, out=z[:, int(self.intercept) :])
        if self.intercept:
            for block in self.blocks:
                z[:, block] -= 1 / (block.stop - block.start + 1)
        return z

    def coefficients(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts of the encoded (uncentred) columns.

        ``theta`` has the shape (models, dim).
        """
        if not self.intercept:
            return theta, np.zeros(len(theta))
        shift = sum(theta[:, b].sum(axis=1) / (b.stop - b.start + 1) for b in self.blocks)
        return theta[:, 1:], theta[:, 0] - shift

    @cached_property
    def monotone(self) -> list[tuple[Spline, slice]]:
        """The curves that are declared monotone, and their encoded columns."""
        placed: Any = [(getattr(c, "spline", c), own) for c, _, own in self.domain._layout.placed]
        return [pair for pair in placed if getattr(pair[0], "monotone", None)]

    def ordered(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return released models of the encoded columns whose declared curves are monotone."""
        for spline, own in self.monotone:
            pairs = [
                spline.ordered(slopes[own], float(one) if self.intercept else None)
                for slopes, one in zip(coef, intercept, strict=True)
            ]
            coef, intercept = coef.copy(), np.array([one for _, one in pairs])
            coef[:, own] = [slopes for slopes, _ in pairs]
        return coef, intercept

    @cached_property
    def hull(self) -> NormBall:
        """The hull of all rows and their mirror images: the smallest ball that holds them."""
        ball = rows_ball(self.domain, self.intercept)
        if not (self.intercept and self.blocks):
            return ball
        shift = np.zeros(self.dim)
        for block in self.blocks:
            shift[block] = -1 / (block.stop - block.start + 1)
        return ShearedBall(ball, shift)

    def clustered(self, clusters: Sequence[Sequence[int]], weights: Sequence[float]) -> NormBall:
        """Return {v : sum_c w_c max_{g in c} |v_g| <= 1}, which holds all rows if the w_c sum to 1.

        ``clusters`` lists groups by their position in ``groups``.
        """
        groups = [[self.groups[g] for g in cluster] for cluster in clusters]
        parts = [
            own[0].ball if len(own) == 1 else ProductBall(tuple(group.ball for group in own))
            for own in groups
        ]
        index = tuple(tuple(i for group in own for i in group.index) for own in groups)
        if len(parts) == 1:
            return ProductBall((parts[0],), index)
        return SumBall(tuple(parts), tuple(weights), index)

    def radius_in(self, ball: NormBall) -> float:
        """Return an upper bound on the gauge of any row in a ball's norm.

        It is exact for the hull, for unweighted l_p balls and for domains with few corners.
        Otherwise it is the triangle inequality over the groups.
        """
        own = self.hull
        if ball is own or (type(ball) is type(own) and _same(ball, own)):
            return 1.0
        if type(ball) is LpBall and ball.weights is None:
            norms = np.array([group.norm(ball.p) for group in self.groups])
            return float(np.linalg.norm(norms, ord=ball.p)) / ball.radius * ROUND_UP
        corners = self._corners()
        if corners is not None:
            return float(np.max(ball.gauge(corners))) * ROUND_UP
        return sum(self._part_radius(group, ball) for group in self.groups) * ROUND_UP

    def _corners(self) -> FloatArray | None:
        """Return every corner of the set of rows; None if there are too many."""
        if 2**self.domain.n_numbers * math.prod(b.stop - b.start for b in self.blocks) > LISTABLE:
            return None
        try:
            parts = [group.corners() for group in self.groups]
        except ValueError:
            return None
        if math.prod(len(part) for part in parts) > LISTABLE:
            return None
        grids = np.meshgrid(*(np.arange(len(part)) for part in parts), indexing="ij")
        corners = np.empty((grids[0].size, self.dim))
        for group, part, grid in zip(self.groups, parts, grids, strict=True):
            corners[:, list(group.index)] = part[grid.ravel()]
        return corners

    def _part_radius(self, group: Group, ball: NormBall) -> float:
        """Return the greatest gauge of the levels of a group, or the sum over its axes' bounds."""
        is_levels, gauges = group.kind == "levels", []
        box = group.ball.bounding_box()  # type: ignore[attr-defined]
        count, step = group.n_levels if is_levels else group.size, max(1, _CELLS // self.dim)
        for start in range(0, count, step):
            stop = min(start + step, count)
            axes = np.eye(stop - start, group.size, k=start) * box
            rows = np.zeros((stop - start, self.dim))
            rows[:, list(group.index)] = group.level_rows(start, stop) if is_levels else axes
            gauges.append(ball.gauge(rows))
        found = np.concatenate(gauges)
        return float(np.max(found) if is_levels else np.sum(found))


def _same(ball: Any, other: Any) -> bool:
    """Return whether two balls of one class are equal; one may have been read from a file."""
    if isinstance(ball, ShearedBall):
        return ball.ball == other.ball and np.array_equal(ball.shift, other.shift)
    return bool(ball == other)
