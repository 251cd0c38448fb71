"""Trusted. Balls of the changes that one record can make in the moments of a regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import roots_legendre

from skdp.geometry.combined import MappedBall, ProductBall
from skdp.geometry.moment_layout import IntArray, MomentLayout, greatest_squares, greatest_sum
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import LpBall, NormBall, as_points, greatest_of_each, uniform_variance
from skdp.trusted.checks import check_count, check_positive, fail, remembered
from skdp.trusted.randomness import signed, uniforms

__all__ = ["MomentBall", "MomentLayout", "NumbersBall", "RadialMomentBall", "SquaresBall"]

# With more numbers, the target among them, draws from the body of the paper take too long: with
# 13 one proposal in 200 is kept, with 20 one in 10,000.
MOST_VARIABLES = 13
# Proposals are made for at most so many products at once.
_MOST_ENTRIES = 2**20
# Entries drawn for an estimate of mean squares, enough for an error of one or two percent.
_MEAN_ENTRIES = 20_000
_NODES = 256
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class NumbersBall(NormBall):
    """The body K_T of Awan & Slavkovic (2020, section 5.1) for numbers in [-1, 1].

    It contains t(z) - t(z') for all z, z', and is not their hull. Coordinates of t: z_1, ..., z_P;
    2 z_i^2 of the first ``n_squares``; z_i z_j, i < j, in lexicographic order. A point u is in
    the body if (u_i, u_ii) is in K_2 and (u_i, u_j, u_ij) is in K_3 = {|a|, |b|, |c| <= 2,
    |a| + |b| + |c| <= 4}. Proof: docs/proofs/moment_balls.md, Theorems 1 and 2.
    """

    n_squares: int
    n_plain: int
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_squares", check_count("n_squares", self.n_squares, 0))
        object.__setattr__(self, "n_plain", check_count("n_plain", self.n_plain, 0))
        if not 1 <= self.n_variables <= MOST_VARIABLES:
            rule = f"be 1 to {MOST_VARIABLES} together"
            raise fail("n_squares and n_plain", rule, self.n_variables)

    @property
    def n_variables(self) -> int:
        """Number of numbers P."""
        return self.n_squares + self.n_plain

    @property
    def dim(self) -> int:
        return self.n_variables * (self.n_variables + 1) // 2 + self.n_squares

    def gauge(self, v: ArrayLike) -> FloatArray:
        u = np.abs(as_points(v, self.dim))
        ends = [self.n_variables, self.n_variables + self.n_squares]
        linear, squares, products = np.split(u, ends, axis=-1)
        i, j = self._pairs
        sums = (linear[..., i] + linear[..., j] + products).max(axis=-1, initial=0.0) / 4
        curved = square_gauge(linear[..., : self.n_squares], squares).max(axis=-1, initial=0.0)
        return np.asarray(np.maximum(np.maximum(u.max(axis=-1) / 2, sums), curved))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim).

        Given the linear entries the others are independent. So w_i = 1 - |u_i| / 2 is drawn from
        the cube and kept with the product of the lengths that the others may have.
        """
        kept, missing, rate = [np.empty((0, self.dim))], n, 0.5
        batch = max(16, _MOST_ENTRIES // self.dim)
        while missing > 0:
            tries = min(batch, math.ceil(1.1 * missing / rate) + 4)
            w = rng.random((tries, self.n_variables))
            rooms = self._rooms(w)
            chosen = np.flatnonzero(rng.random(tries) < rooms.prod(axis=1))[:missing]
            others = rooms[chosen] * rng.random((len(chosen), rooms.shape[1]))
            kept.append(np.concatenate([1 - w[chosen], others], axis=1))
            rate = max(0.25 * rate, (len(chosen) + 1) / (tries + 1))
            missing -= len(chosen)
        sizes = np.concatenate(kept)
        return np.asarray(sizes * rng.choice([-2.0, 2.0], sizes.shape))

    def mean_squares(self) -> FloatArray:
        """Return an estimate of the mean square of each coordinate of a uniform draw, (dim,).

        It is computed from fixed draws and averaged over coordinates of one kind. All signs are
        independent, so the coordinates are not correlated.
        """
        return _mean_squares(self).copy()

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,): twos."""
        return np.full(self.dim, 2.0)

    def _rooms(self, w: FloatArray) -> FloatArray:
        """Return the greatest |u_ii| / 2 and |u_ij| / 2, given the linear entries."""
        i, j = self._pairs
        least = np.minimum(w[:, : self.n_squares], 0.5)
        products = np.minimum(1.0, w[:, i] + w[:, j])
        return np.concatenate([4 * least * (1 - least), products], axis=1)

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        i, j = np.triu_indices(self.n_variables, 1)
        return i, j


@remembered(maxsize=32)
def _mean_squares(ball: NumbersBall) -> FloatArray:
    draws = min(max(_MEAN_ENTRIES // ball.dim, 256), 4096)
    squares = np.mean(ball.sample(draws, np.random.default_rng(0)) ** 2, axis=0)
    i, j = ball._pairs
    own = np.arange(ball.n_variables) < ball.n_squares
    kinds = np.concatenate([own, np.full(ball.n_squares, 2), 3 + own[i] + own[j]])
    means = np.bincount(kinds, squares) / np.maximum(np.bincount(kinds), 1)
    return np.asarray(means[kinds])


@dataclass(frozen=True)
class MomentBall(NormBall):
    """A norm ball around the changes that one record can make in the moments.

    Under replace_one it contains every t(v) - t(v'), under add_remove every t(v) and -t(v), with
    v and v' records and t as in the layout. A smaller ball means less noise.

    Parameters
    ----------
    layout : MomentLayout
        Entries of t.
    level : {0, 1}, default=1
        0: the least box. 1: under replace_one also the constraints on a number and its square,
        and on two numbers and their product (Awan & Slavkovic 2020, section 5.1), for at most 13
        numbers, the target among them. With more, and under add_remove, it is the least box.

    Notes
    -----
    Draws are exact. A ball that is a box has ``log_volume()``, ``support(w)``, ``covariance()``
    and ``variance()``. Proofs are in docs/proofs/moment_balls.md.

    Examples
    --------
    >>> from skdp.geometry.moments import MomentBall, MomentLayout
    >>> ball = MomentBall(MomentLayout(2, (0, 1)), level=1)
    >>> ball.dim, float(ball.gauge([2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0]))
    (8, 1.5)
    """

    layout: MomentLayout
    level: int = 1
    exact = True

    def __post_init__(self) -> None:
        if isinstance(self.level, bool) or self.level not in (0, 1):
            raise fail("level", "be 0 or 1", self.level)
        if self.layout.curves:
            rule = "have no curves: their columns must be numbers"
            raise fail("layout", rule, self.layout.curves)
        if self.layout.adds and not self.layout.shifted:
            raise fail("layout", "have shifted squares under add_remove", False)

    @property
    def dim(self) -> int:
        return self.layout.dim

    def gauge(self, v: ArrayLike) -> FloatArray:
        return self._body.gauge(v)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        return self._body.sample(n, rng)

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
        w = as_points(weights, self.dim, "weights")
        if w.ndim != 1 or not (np.isfinite(w) & (w >= 0)).all():
            raise fail("weights", "be finite numbers >= 0, one for each entry")
        first, orbits = self.layout.first_of_orbit, self.layout.orbits
        if not np.allclose(w, w[first][orbits], rtol=1e-9, atol=0):
            raise fail("weights", "be equal on entries with one label in orbits()")
        # The greatest of each orbit, in case they differ by rounding.
        return self.greatest_square_of_orbits(greatest_of_each(orbits, w))

    def greatest_square_of_orbits(self, weights: ArrayLike) -> float:
        """Return ``greatest_square`` for one weight per label in ``orbits()``, in their order."""
        return float(self.greatest_squares_of_orbits(np.asarray(weights, dtype=float)[None])[0])

    def greatest_squares_of_orbits(self, weights: ArrayLike) -> FloatArray:
        """Return ``greatest_square_of_orbits`` for rows of weights, (rows, orbits) to (rows,)."""
        return greatest_squares(self.layout, np.asarray(weights, dtype=float))

    def gauge_over(self, body: NormBall) -> tuple[float, bool]:
        """Return 1 for a ball of the same differences, and inf for others."""
        is_same = type(body) is MomentBall and body.layout == self.layout
        return (1.0, True) if is_same else (math.inf, False)

    def greatest_sum(self) -> float:
        """Return the greatest sum_i |u_i| over the changes u of one record.

        It is inf for layouts with too many choices of what changes.
        """
        return greatest_sum(self.layout)

    def mean_squares(self) -> FloatArray:
        """Return the mean square of each entry of a uniform draw, (dim,).

        Those of the numbers at level 1 are estimates.
        """
        out = np.empty(self.dim)
        for part, places in zip(self._body.balls, self._body.places, strict=True):
            out[places] = uniform_variance(part)
        return out

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        return np.append(self.mean_squares()[:1], np.zeros(self.dim - 1))

    def __getattr__(self, name: str) -> Any:
        of_boxes = ("log_volume", "support", "covariance", "variance", "extreme_points")
        if name in of_boxes and self._is_box:
            return getattr(self._body, name)
        raise AttributeError(f"{type(self).__name__} has no {name} at this level")

    @property
    def _is_box(self) -> bool:
        few = 0 < len(self.layout.variables) <= MOST_VARIABLES
        return self.level == 0 or self.layout.adds or not few

    @cached_property
    def _body(self) -> ProductBall:
        layout, places = self.layout, np.empty(0, dtype=np.intp)
        balls: list[tuple[NormBall, IntArray]] = []
        if not self._is_box:
            numbers, squares = layout.variables, layout.variables[: layout.n_squares]
            i, j = np.triu_indices(len(numbers), 1)
            entries = [layout.entry(0, numbers), layout.entry(squares, squares)]
            places = np.concatenate([*entries, layout.entry(numbers[i], numbers[j])])
            balls.append((NumbersBall(len(squares), len(numbers) - len(squares)), places))
        rest = np.delete(np.arange(self.dim), places)
        if len(rest):
            weights = tuple((1 / self._box[rest]).tolist())
            balls.append((LpBall(len(rest), p=math.inf, weights=weights), rest))
        parts, index = zip(*balls, strict=True)
        return ProductBall(parts, tuple(tuple(place.tolist()) for place in index))

    @cached_property
    def _box(self) -> FloatArray:
        if self.layout.adds:
            return np.ones(self.dim)
        box = np.full(self.dim, 2.0)
        i, j = self.layout.pairs.T
        coded = [0, *(int(k) for block in self.layout.block_columns for k in block)]
        box[np.isin(i, coded) & np.isin(j, coded)] = 1.0
        return box


@dataclass(frozen=True)
class RadialMomentBall(NormBall):
    """An ellipsoid around the moments' differences for rows |x|_2 <= radius and |y| <= 1.

    In the moments of order two it is a ball of the Frobenius norm, which is invariant under
    rotations of the rows, as the domain is. Lemma 3 of ``docs/proofs/matrix_laplace.md`` gives
    the greatest weighted sum of squares.

    Parameters
    ----------
    layout : MomentLayout
        A layout of numbers only, with a target.
    radius : float > 0
        Bound on |x|_2.

    Examples
    --------
    >>> from skdp.geometry.moments import MomentLayout
    >>> ball = RadialMomentBall(MomentLayout(2, range(2)), radius=1.0)
    >>> x, u = np.array([0.6, 0.8, 1.0]), np.array([-0.6, 0.8, 1.0])
    >>> moments = [np.outer(v, v) for v in (np.append(1, x), np.append(1, u))]
    >>> bool(ball.gauge(ball.layout.statistic(moments[0] - moments[1])) <= 1)
    True
    """

    layout: MomentLayout
    radius: float
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check_positive("radius", self.radius))
        if self.layout.blocks or not self.layout.target:
            raise fail("layout", "be of numbers and a target", self.layout)

    @property
    def dim(self) -> int:
        return self.layout.dim

    def gauge(self, v: ArrayLike) -> FloatArray:
        return self._ellipsoid.gauge(v)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        return self._ellipsoid.sample(n, rng)

    def __getattr__(self, name: str) -> Any:
        if name in ("log_volume", "support", "bounding_box", "covariance", "variance"):
            return getattr(self._ellipsoid, name)
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def orbits(self) -> IntArray:
        """Return labels of the entries, (dim,), equal if a symmetry of records swaps them."""
        return self.layout.orbits

    def row_square(self, weights: ArrayLike) -> float:
        """Return the greatest sum of weights times squares over the rows (1, x, y)."""
        w = as_points(weights, self.layout.n_rows, "weights")
        return float(w[0] + self.radius**2 * w[1:-1].max(initial=0.0) + w[-1])

    def greatest_square(self, weights: ArrayLike) -> float:
        """Return an upper bound on the sum of weights times squares over all differences."""
        w = as_points(weights, self.dim, "weights")
        return self.greatest_square_of_orbits(greatest_of_each(self.layout.orbits, w))

    def greatest_square_of_orbits(self, weights: ArrayLike) -> float:
        """Return ``greatest_square`` for one weight per label in ``orbits()``, in their order."""
        w, square, layout = np.asarray(weights, dtype=float), self.radius**2, self.layout
        kinds, (i, j) = layout.kinds[layout.first_of_orbit], layout.pairs[layout.first_of_orbit].T
        if layout.n_encoded == 1 and not layout.adds:
            # The domain is a box: x / radius is a number in [-1, 1], with a power in each entry.
            degree = 2.0 * ((i == 1).astype(int) + (j == 1))
            return float(greatest_squares(layout, (w * self.radius**degree)[None])[0])
        last = layout.n_rows - 1

        def top(where: FloatArray, factor: float = 1.0) -> float:
            return factor * float(w[where].max(initial=0.0))

        # The weights of |x|^2, y^2, |xx'|^2, |xy|^2, y^4 and of the count.
        a, b = top((kinds == "linear") & (j != last)), top((i == 0) & (j == last))
        # A shifted square 2 z^2 - 1 is in [-1, 1] only if z^2 <= 1; it is bounded with the count.
        c = max(top((kinds == "square") & (i != last), 4.0), top(kinds == "product", 0.5))
        d, e = top((kinds == "target") & (i > 0)), top((kinds == "square") & (i == last), 4.0)
        if layout.adds:
            counted = top(kinds == "count") + float(w @ np.bincount(layout.orbits, layout.shift**2))
            return (counted + a * square + b + c * square**2 + d * square + e) * ROUND_UP
        return _greatest_of_rows((a, b, c, d, e), square) * ROUND_UP

    @cached_property
    def _ellipsoid(self) -> MappedBall:
        natural = np.where(self.layout.kinds == "product", 2.0, 1 / self.layout.scale**2)
        bound = math.sqrt(self.greatest_square(natural)) * ROUND_UP
        return MappedBall(LpBall(self.dim, p=2.0), bound / np.sqrt(natural))


def _greatest_of_rows(coefficients: tuple[float, ...], square: float) -> float:
    """Return the maximum over x, x' with squared length ``square`` and y = 1, y' = t in [-1, 1].

    With s = <x, x'> in [-square, square] the sum is

        2 a (square - s) + 2 c (square^2 - s^2) + b (1 - t)^2
        + d (square (1 + t^2) - 2 s t) + e (1 - t^2)^2.

    It is concave in s, and for the best s it is a polynomial in t, piece by piece.
    """
    a, b, c, d, e = coefficients
    curved = 2 * (b + d * square - 2 * e)
    tops = [_top(e, curved, -2 * (b + d * s)) for s in (-square, square)]
    # The best s, if it is inside, is -(a + d t) / (2 c).
    is_curved = c * square > 1e-14 * d
    if is_curved:
        tops.append(_top(e, curved + d * d / c, a * d / c - 2 * b))
    best = 0.0
    for t in (-1.0, 1.0, *tops):
        inside = min(max(-(a + d * t) / (2 * c), -square), square) if is_curved else square
        fixed = b * (1 - t) ** 2 + d * square * (1 + t**2) + e * (1 - t**2) ** 2
        for s in (-square, square, inside):
            own = 2 * a * (square - s) + 2 * c * (square**2 - s**2) - 2 * d * s * t
            best = max(best, fixed + own)
    return best


def _top(e: float, slope: float, constant: float) -> float:
    """Return the t in [-1, 1] at which 4 e t^3 + slope t + constant falls through 0, or 1.

    A polynomial with this derivative has its only local maximum at t, or none inside.
    """
    if slope >= 0:
        return 1.0
    # The root in the middle of t^3 - linear t + scaled = 0. It is constant / -slope for e = 0.
    t = constant / -slope
    if -slope < 1e8 * e:
        linear = -slope / (4 * e)
        sine = 1.5 * math.sqrt(3 / linear) * t
        t = 2 * math.sqrt(linear / 3) * math.sin(math.asin(min(max(sine, -1.0), 1.0)) / 3)
    return min(max(t, -1.0), 1.0)


# The hull of the changes that one record can make in sums of numbers and of their squares, with
# x = z and s = 2 z^2 - 1 for a number z. Given the count c, which is 0 without one, the numbers are
# independent and their pairs (x, s) uniform between two ends, on an area in proportion to
# 1 - c^2 / 5. Statement and proof: ``docs/proofs/moment_balls.md``, Theorem 5.


@dataclass(frozen=True)
class SquaresBall(NormBall):
    """The hull of the changes of one record in sums of numbers and of their squares.

    Parameters
    ----------
    n_numbers : int, >= 1
        Numbers z in [-1, 1].
    counted : bool, default=False
        Coordinates: z_1, ..., z_k, 2 z_1^2, ..., 2 z_k^2, of which the ball holds half of the
        difference of any two records. If True: 1, z_1, ..., z_k, 2 z_1^2 - 1, ..., 2 z_k^2 - 1, and
        the ball holds plus or minus any record.

    Examples
    --------
    >>> from skdp.geometry import SquaresBall
    >>> float(SquaresBall(1).gauge([2.0, 0.0])), float(SquaresBall(1).gauge([1.0, 2.0]))
    (2.0, 2.0)
    >>> float(SquaresBall(1, counted=True).gauge([1.0, 0.5, -0.5]))
    1.0
    """

    n_numbers: int
    counted: bool = False
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_numbers", check_count("n_numbers", self.n_numbers))
        object.__setattr__(self, "counted", bool(self.counted))

    @property
    def dim(self) -> int:
        return 2 * self.n_numbers + self.counted

    def projection(self, places: list[int]) -> NormBall:
        """Return a body that holds the projection to some coordinates, in their order."""
        k, first = self.n_numbers, int(self.counted)
        numbers = [place for place in places if first <= place < first + k]
        # The count and some numbers with their squares, in this order.
        if numbers and places == [*range(first), *numbers, *(place + k for place in numbers)]:
            return SquaresBall(len(numbers), self.counted)
        return LpBall(len(places), p=math.inf)  # every coordinate is in [-1, 1]

    def gauge(self, v: ArrayLike) -> FloatArray:
        v = as_points(v, self.dim)
        count, x, s = np.split(v, [self.counted, self.counted + self.n_numbers], axis=-1)
        gauges = counted_square_gauge(count, x, s) if self.counted else 2 * square_gauge(x, s)
        return np.asarray(gauges.max(axis=-1))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        count = np.zeros(n)
        missing = np.arange(n if self.counted else 0)
        while len(missing):
            tried = uniforms(len(missing), rng)
            kept = rng.random(len(missing)) < (1 - tried**2 / 5) ** self.n_numbers
            count[missing[kept]] = signed(tried[kept], rng)
            missing = missing[~kept]
        x, s = np.empty((2, n, self.n_numbers))
        row, column = np.indices(x.shape).reshape(2, -1)
        while len(row):
            size, height = uniforms(len(row), rng), 2 * uniforms(len(row), rng) - 1
            low, high = self._ends(size, count[row])
            kept = (low <= height) & (height <= high)
            at = row[kept], column[kept]
            x[at], s[at] = signed(size[kept], rng), height[kept]
            row, column = row[~kept], column[~kept]
        return np.hstack([count[:, None]] * self.counted + [x, s])

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        if not self.counted:
            return np.repeat([49 / 200, 51 / 175], self.n_numbers)
        count, x, s = self._moments
        return np.concatenate([[count], np.repeat([x, s], self.n_numbers)])

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,): ones."""
        return np.ones(self.dim)

    def _ends(self, size: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the greatest s at |x| = size."""
        if not self.counted:
            high = 1 - np.maximum(2 * size - 1, 0.0) ** 2
            return -high, high
        low, high = (
            2 * np.maximum(size - (1 - c) / 2, 0.0) ** 2 / np.maximum((1 + c) / 2, _TINY)
            for c in (count, -count)
        )
        return -1 + low, 1 - high

    @cached_property
    def _moments(self) -> tuple[float, float, float]:
        """Mean squares of the count, of x and of s."""
        nodes, weights = roots_legendre(_NODES)
        # The density of c is below e^-40 of its maximum beyond this distance.
        c = min(1.0, math.sqrt(200 / self.n_numbers)) * nodes
        a, b, area = (1 + c) / 2, (1 - c) / 2, 10 / 3 - 2 * c**2 / 3
        weights = weights * (1 - c**2 / 5) ** self.n_numbers
        x = 4 / 3 - _lost_of_x(a, b) - _lost_of_x(b, a)
        s = _cubes(a, b) + _cubes(b, a)
        means = [weights @ m / weights.sum() for m in (c**2, x / area, s / area)]
        return float(means[0]), float(means[1]), float(means[2])


def _lost_of_x(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the integral of x^2 2 (|x| - a)_+^2 / b over [-1, 1], b = 1 - a."""
    return np.asarray(4 * (b**4 / 5 + a * b**3 / 2 + a**2 * b**2 / 3))


def _cubes(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the integral of (1 - 2 (|x| - a)_+^2 / b)^3 / 3 over [-1, 1], b = 1 - a."""
    return np.asarray(2 / 3 * (a + b * (1 - 2 * b + 12 * b**2 / 5 - 8 * b**3 / 7)))


# Gauges of one number and its square


def square_gauge(u: FloatArray, square: FloatArray) -> FloatArray:
    """Return the gauge of the hull of {(z - z', 2 z^2 - 2 z'^2) : z, z' in [-1, 1]}, elementwise.

    The hull K_2 is |u| <= 2, |s| <= 2, and |s| <= 2 - 2 (|u| - 1)^2 where |u| > 1.
    """
    a, b = np.abs(u), np.abs(square)
    # On the curved part b / t = 4 a / t - 2 (a / t)^2. It applies only if b < 2 a.
    share = np.divide(b, a, out=np.full(np.broadcast(a, b).shape, 2.0), where=b < 2 * a)
    return np.maximum(b / 2, np.where(share < 2, 2 * a / (4 - share), 0.0))


def counted_square_gauge(count: FloatArray, u: FloatArray, square: FloatArray) -> FloatArray:
    """Return the gauge of the hull of {+-(1, z, 2 z^2 - 1) : z in [-1, 1]}, elementwise."""
    flat = np.maximum(np.maximum(np.abs(count), np.abs(u)), np.abs(square))
    upper = _curved(count, np.abs(u), square, flat)
    return np.maximum(upper, _curved(-count, np.abs(u), -square, flat))


def _curved(count: FloatArray, u: FloatArray, square: FloatArray, flat: FloatArray) -> FloatArray:
    """Return the least t >= flat with (t - s)(t - c) >= (2 u - c - t)_+^2."""
    short = np.maximum(2 * u - count - flat, 0.0)
    above, beyond = flat - square, flat - count
    active = above * beyond < short**2
    # With t = flat + r the squares of r drop out: r (above + beyond + 2 short) is the difference of
    # both sides at flat. Solved for t itself the equation would cancel near a corner of the hull.
    slope = np.where(active, above + beyond + 2 * short, 1.0)
    return np.where(active, flat + (short / slope * short - above / slope * beyond), flat)
