"""Trusted. Balls made of balls: images under linear maps, products, and weighted sums.

The ball of a `SumBall` is the hull of its parts. A sum of gauges is at most the sum of their
greatest values, and a maximum at most the greatest of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.special import gammaln

from skdp.trusted.arrays import ROUND_UP, Array, FloatArray
from skdp.trusted.ball import (
    WORST_CONDITION,
    LpBall,
    NormBall,
    as_points,
    ask,
    exact_variance,
    greatest_gauge,
    greatest_image,
    greatest_length,
    greatest_listed_square,
    greatest_square,
    half_widths,
    listable,
    member_of,
    projection,
    uniform_covariance,
    uniform_first_covariance,
)
from skdp.trusted.checks import check_entries, check_numbers, check_positives, fail, is_ours
from skdp.trusted.randomness import exponentials, gammas

# With longer shifts the map's condition number exceeds about 1e12, as in `MappedBall`.
_LONGEST = 1e6
# Images of Euclidean balls of so many numbers are compared with a body in every way.
_MOST_COMPARED = 64
# Supports are computed for arrays of at most so many entries.
_ENTRIES = 2**20


# Images under linear maps


def _axes(dim: int) -> Iterator[FloatArray]:
    """Yield the unit vectors, some rows at a time."""
    step = max(1, _ENTRIES // dim)
    for first in range(0, dim, step):
        yield np.eye(min(step, dim - first), dim, k=first)


class BallImage(NormBall, ABC):
    """The part that images of a ball K under linear maps share."""

    ball: NormBall

    @abstractmethod
    def _image(self, points: FloatArray) -> FloatArray: ...

    @property
    @abstractmethod
    def _log_det(self) -> float: ...

    @property
    def dim(self) -> int:
        return self.ball.dim

    @property
    def exact(self) -> bool:
        """Whether K's sampler is exact."""
        return self.ball.exact

    @property
    def is_round(self) -> bool:
        """Whether it is a linear image of the Euclidean ball."""
        return is_ours(self.ball) and bool(getattr(self.ball, "is_round", False))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        return self._image(self.ball.sample(n, rng))

    def _error_of_gauge(self, errors: FloatArray) -> float:
        """Return the relative error of the gauge from errors of x in K, |x|_K times ``errors``."""
        # The gauge of a vector is at most the sum of its sizes times the gauges of the axes.
        gauges = (self.ball.gauge(rows) for rows in _axes(self.dim))
        return float(np.concatenate(list(gauges)) @ errors)

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        return float(ask(self.ball, "log_volume") + self._log_det)

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim)."""
        return self._image(ask(self.ball, "extreme_points"))


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class MappedBall(BallImage):
    """The image of the ball K under an invertible linear map.

    Parameters
    ----------
    ball : NormBall
        The ball K.
    matrix : array-like of shape (dim, dim), or (dim,) for a diagonal map
        The map A: the image is {A u : u in K}, its gauge |A^-1 v|_K.

    Examples
    --------
    >>> from skdp.geometry import LpBall, MappedBall
    >>> float(MappedBall(LpBall(2), [2.0, 1.0]).gauge([2.0, 0.0]))
    1.0
    """

    ball: NormBall
    matrix: ArrayLike

    def __post_init__(self) -> None:
        matrix, d = check_numbers("matrix", self.matrix), self.ball.dim
        if matrix.shape not in ((d,), (d, d)):
            raise fail("matrix", f"have shape ({d},) or ({d}, {d})", matrix.shape)
        full = matrix.ndim == 2
        if not np.isfinite(matrix).all() or not (
            np.linalg.cond(matrix) < WORST_CONDITION if full else (matrix != 0).all()
        ):
            rule = f"be invertible, a full one with condition number < {WORST_CONDITION:g}"
            raise fail("matrix", rule)
        object.__setattr__(self, "matrix", matrix)

    @cached_property
    def _factors(self) -> tuple[FloatArray, Array]:
        return lu_factor(np.asarray(self.matrix))

    def gauge(self, v: ArrayLike) -> FloatArray:
        v, matrix = as_points(v, self.dim), np.asarray(self.matrix)
        if matrix.ndim == 1:
            return self.ball.gauge(v / matrix)
        columns = lu_solve(self._factors, v.reshape(-1, self.dim).T, check_finite=False)
        return self.ball.gauge(columns.T.reshape(v.shape))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        w, matrix = as_points(w, self.dim, "w"), np.asarray(self.matrix)
        return np.asarray(ask(self.ball, "support", w * matrix if matrix.ndim == 1 else w @ matrix))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(np.abs(matrix) * ask(self.ball, "bounding_box"))
        return np.asarray(ask(self.ball, "support", matrix))

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        covariance, matrix = ask(self.ball, "covariance"), np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(matrix[:, None] * covariance * matrix)
        return np.asarray(matrix @ covariance @ matrix.T)

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(matrix[0] * matrix * uniform_first_covariance(self.ball))
        return np.asarray(matrix @ (uniform_covariance(self.ball)[0] @ matrix[0]))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(matrix**2 * exact_variance(self.ball))
        return np.asarray(((matrix @ ask(self.ball, "covariance")) * matrix).sum(axis=1))

    def greatest_square(self, weights: FloatArray) -> float:
        """Return a bound on the greatest sum_i weights_i u_i^2."""
        if np.ndim(self.matrix) == 1:
            return greatest_square(self.ball, weights * np.square(self.matrix)) * ROUND_UP
        return greatest_listed_square(self, weights)

    def greatest_image(self, matrix: FloatArray) -> float:
        """Return a bound on the greatest |R u|_2^2, for R of shape (k, dim)."""
        return _image_of(matrix, np.asarray(self.matrix), self.ball)

    def gauge_over(self, body: NormBall) -> tuple[float, bool]:
        """Return a bound on the gauge over a body, and whether no closer one is tried."""
        inner = self.ball
        if type(inner) is LpBall and inner.p == 2 and inner.weights is None:
            # With many numbers the corners of a body or its box take much memory.
            is_last = self.dim > _MOST_COMPARED
            return greatest_length(self.matrix, body) / inner.radius * ROUND_UP, is_last
        return math.inf, False

    @property
    def mixes(self) -> bool:
        """Whether a coordinate of an image is a sum of several."""
        return np.ndim(self.matrix) == 2

    @cached_property
    def gauge_error(self) -> float:
        """Bound on the relative error of the gauge, from the solution of a linear system."""
        if not self.mixes:
            return 0.0
        # The error of x = A^-1 v is at most this share of |x|_2.
        share = self.dim**2 * 2.0**-52 * float(np.linalg.cond(np.asarray(self.matrix)))
        length = float(np.linalg.norm(half_widths(self.ball)))
        return self._error_of_gauge(np.full(self.dim, share * length))

    def absolute_image(self, sizes: FloatArray) -> FloatArray:
        """Return the sums of the absolute terms of a full map's rows, (dim,)."""
        return np.asarray(np.abs(self.matrix) @ sizes)

    @property
    def _log_det(self) -> float:
        matrix = np.asarray(self.matrix)
        return float(np.linalg.slogdet(matrix)[1] if self.mixes else np.log(np.abs(matrix)).sum())

    def _image(self, points: FloatArray) -> FloatArray:
        matrix = np.asarray(self.matrix)
        return np.asarray(points * matrix if matrix.ndim == 1 else points @ matrix.T)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class ShearedBall(BallImage):
    """The image of the ball K under the map (u_0, u) -> (u_0, u + shift u_0).

    It is a `MappedBall` whose memory is linear in the dimension, and whose time is, too, except
    that of the first ``bounding_box()``.

    Parameters
    ----------
    ball : NormBall
        The ball K.
    shift : array-like of shape (dim,)
        The first entry is 0.

    Examples
    --------
    >>> from skdp.geometry import LpBall, ShearedBall
    >>> float(ShearedBall(LpBall(2, p=1), [0.0, 0.5]).gauge([1.0, 0.5]))
    1.0
    """

    ball: NormBall
    shift: FloatArray
    mixes = True

    def __post_init__(self) -> None:
        shift = check_numbers("shift", self.shift)
        if shift.shape != (self.ball.dim,) or shift[0] != 0:
            rule = f"have shape ({self.ball.dim},) and a first entry of 0"
            raise fail("shift", rule, shift.shape)
        if not np.linalg.norm(shift) < _LONGEST:
            raise fail("shift", f"be shorter than {_LONGEST:g}")
        object.__setattr__(self, "shift", shift)

    @property
    def matrix(self) -> FloatArray:
        """The matrix of the map, (dim, dim), made anew each time."""
        matrix = np.eye(self.dim)
        matrix[:, 0] += self.shift
        return matrix

    def gauge(self, v: ArrayLike) -> FloatArray:
        v = as_points(v, self.dim)
        return self.ball.gauge(v - v[..., :1] * self.shift)

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        w = np.array(as_points(w, self.dim, "w"))
        w[..., 0] += w @ self.shift
        return np.asarray(ask(self.ball, "support", w))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return self._box.copy()

    @cached_property
    def _box(self) -> FloatArray:
        return np.concatenate([self.support(rows) for rows in _axes(self.dim)])

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        return self._image(self._image(ask(self.ball, "covariance")).T)

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        return self._image(uniform_first_covariance(self.ball))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        own, first = exact_variance(self.ball), uniform_first_covariance(self.ball)
        return np.asarray(own + self.shift * (2 * first + self.shift * first[0]))

    def greatest_square(self, weights: FloatArray) -> float:
        """Return a bound on the greatest sum_i weights_i u_i^2."""
        sheared = member_of(self.ball, "sheared_square")
        found = None if sheared is None else sheared(self.shift, weights)
        return greatest_listed_square(self, weights) if found is None else float(found)

    def greatest_image(self, matrix: FloatArray) -> float:
        """Return a bound on the greatest |R u|_2^2, for R of shape (k, dim)."""
        return _image_of(matrix, self.matrix, self.ball)

    @cached_property
    def gauge_error(self) -> float:
        """Bound on the relative error of the gauge, from differences that cancel."""
        widths = half_widths(self.ball)
        return self._error_of_gauge(2.0**-52 * (widths + 3 * widths[0] * np.abs(self.shift)))

    def absolute_image(self, sizes: FloatArray) -> FloatArray:
        """Return the sums of the absolute terms of the map's rows, (dim,)."""
        return np.asarray(sizes + np.abs(self.shift) * sizes[0])

    def _image(self, points: FloatArray) -> FloatArray:
        return np.asarray(points + points[..., :1] * self.shift)

    @property
    def _log_det(self) -> float:
        return 0.0


def _image_of(matrix: FloatArray, own: FloatArray, ball: NormBall) -> float:
    """Return a bound on the greatest |R A u|_2^2 over a ball."""
    if own.ndim == 1:
        return greatest_image(matrix * own, ball)
    # A product of matrices has an error of at most dim units times that of the absolute values.
    error = len(own) * 2.0**-52 * float(np.linalg.norm(matrix) * np.linalg.norm(own))
    try:
        size = math.sqrt(greatest_square(ball, np.ones(ball.dim)))
    except ValueError:  # no box is known
        size = math.sqrt(greatest_image(np.eye(ball.dim), ball))
    return (math.sqrt(greatest_image(matrix @ own, ball)) + error * size) ** 2 * ROUND_UP


# Balls on separate coordinates

Index = tuple[tuple[int, ...], ...]


class _Parts(NormBall):
    balls: tuple[NormBall, ...]
    index: Index | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "balls", check_entries("balls", self.balls))
        if not self.balls:
            raise fail("balls", "have at least one ball", 0)
        if self.index is not None:
            dims = [ball.dim for ball in self.balls]
            index = tuple(tuple(map(int, part)) for part in self.index)
            if [len(part) for part in index] != dims:
                raise fail("index", f"have parts of lengths {dims}", [len(part) for part in index])
            if sorted(chain.from_iterable(index)) != list(range(self.dim)):
                raise fail("index", f"contain each of 0, ..., {self.dim - 1} once", index)
            object.__setattr__(self, "index", index)

    @property
    def dim(self) -> int:
        """Number of coordinates of all parts together."""
        return sum(ball.dim for ball in self.balls)

    @property
    def exact(self) -> bool:
        """Whether every part's sampler is exact."""
        return all(ball.exact for ball in self.balls)

    @cached_property
    def places(self) -> list[NDArray[np.intp]]:
        """Coordinates of each part."""
        if self.index is not None:
            return [np.array(part, dtype=np.intp) for part in self.index]
        return np.split(np.arange(self.dim), np.cumsum([ball.dim for ball in self.balls])[:-1])

    def _split(self, v: ArrayLike, name: str = "v") -> list[tuple[NormBall, FloatArray]]:
        points = as_points(v, self.dim, name)
        return [(b, points[..., place]) for b, place in zip(self.balls, self.places, strict=True)]

    def _join(self, parts: Sequence[FloatArray]) -> FloatArray:
        out = np.empty((*parts[0].shape[:-1], self.dim))
        for place, part in zip(self.places, parts, strict=True):
            out[..., place] = part
        return out

    def _greatest_gauges(self, body: NormBall) -> tuple[list[float], bool]:
        """Return bounds on the gauges of the parts over a body, and whether all are reached.

        They are if the body is the product of its projections. The list is empty if a projection
        is not known.
        """
        inside = [projection(body, places.tolist()) for places in self.places]
        shadows = [part for part in inside if part is not None]
        if len(shadows) < len(inside):
            return [], False
        gauges = [greatest_gauge(*pair) for pair in zip(self.balls, shadows, strict=True)]
        return gauges, type(body) is ProductBall and all(
            any(set(part) <= set(places) for places in self.places) for part in body.places
        )

    def _squares(self, weights: FloatArray) -> list[float]:
        pairs = zip(self.balls, self.places, strict=True)
        return [greatest_square(part, weights[at]) for part, at in pairs]

    def _first_covariance(self, factors: Sequence[float]) -> FloatArray:
        """Return the covariance with the first coordinate, given factors on those of the parts."""
        out = np.zeros(self.dim)
        for ball, place, factor in zip(self.balls, self.places, factors, strict=True):
            at = int(np.argmin(place))
            if place[at] == 0:
                own = uniform_covariance(ball)[0][at] if at else uniform_first_covariance(ball)
                out[place] = factor * own
        return out

    def _block_diagonal(self, parts: Sequence[FloatArray]) -> FloatArray:
        out = np.zeros((self.dim, self.dim))
        for place, part in zip(self.places, parts, strict=True):
            out[np.ix_(place, place)] = part
        return out


@dataclass(frozen=True)
class ProductBall(_Parts):
    """The product of balls on separate coordinates; its gauge is the greatest of their gauges.

    Parameters
    ----------
    balls : sequence of NormBall
        The parts.
    index : sequence of sequences of int, or None
        Coordinates of each part, together 0, ..., dim - 1 without repetition; None puts the
        parts one after the other.

    Examples
    --------
    >>> from skdp.geometry import LpBall, ProductBall
    >>> float(ProductBall((LpBall(1), LpBall(2))).gauge([1.0, 3.0, 4.0]))
    5.0
    """

    balls: tuple[NormBall, ...]
    index: Index | None = None

    def gauge(self, v: ArrayLike) -> FloatArray:
        return np.asarray(np.max([b.gauge(x) for b, x in self._split(v)], axis=0))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        return self._join([ball.sample(n, rng) for ball in self.balls])

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        return float(sum(ask(ball, "log_volume") for ball in self.balls))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        return np.asarray(np.sum([ask(b, "support", x) for b, x in self._split(w, "w")], axis=0))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return self._join([ask(ball, "bounding_box") for ball in self.balls])

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        return self._block_diagonal([ask(ball, "covariance") for ball in self.balls])

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        return self._first_covariance([1.0] * len(self.balls))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        return self._join([exact_variance(ball) for ball in self.balls])

    def gauge_over(self, body: NormBall) -> tuple[float, bool]:
        """Return a bound on the gauge over a body, and whether it is reached."""
        gauges, is_product = self._greatest_gauges(body)
        return max(gauges, default=math.inf), is_product

    def greatest_norm(self, ball: LpBall) -> float:
        """Return a bound on an l_p norm: that of the norms of the parts, greatest together."""
        norms = [greatest_gauge(LpBall(own.dim, ball.p, ball.radius), own) for own in self.balls]
        return float(np.linalg.norm(norms, ord=ball.p))

    def greatest_square(self, weights: FloatArray) -> float:
        """Return a bound on the greatest sum_i weights_i u_i^2."""
        return sum(self._squares(weights)) * ROUND_UP

    def projection(self, places: list[int]) -> NormBall | None:
        """Return the projection to some coordinates, in their order, or None."""
        position = {place: k for k, place in enumerate(places)}
        balls, index = [], []
        for own, at in zip(self.balls, self.places, strict=True):
            kept = [k for k, place in enumerate(at.tolist()) if place in position]
            if not kept:
                continue
            if (part := projection(own, kept)) is None:
                return None
            balls.append(part)
            index.append(tuple(position[int(at[k])] for k in kept))
        if len(balls) == 1 and list(index[0]) == sorted(index[0]):
            return balls[0]
        return ProductBall(tuple(balls), tuple(index))

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim): one of each part, in every combination."""
        points = [ask(ball, "extreme_points") for ball in self.balls]
        counts = [len(p) for p in points]
        count = listable(math.prod(counts))  # before an array of all choices is made
        choices = np.indices(counts).reshape(len(counts), count)
        return self._join([p[c] for p, c in zip(points, choices, strict=True)])


@dataclass(frozen=True)
class SumBall(_Parts):
    """The ball whose gauge is the weighted sum of gauges on separate coordinates.

    Parameters
    ----------
    balls : sequence of NormBall
        The parts.
    weights : sequence of float in (0, inf), one per part
        The gauge is sum_i weights[i] |v_i|_i, so part i has radius 1 / weights[i].
    index : sequence of sequences of int, or None
        As in `ProductBall`.

    Examples
    --------
    >>> from skdp.geometry import LpBall, SumBall
    >>> float(SumBall((LpBall(1), LpBall(2)), (1.0, 2.0)).gauge([1.0, 3.0, 4.0]))
    11.0
    """

    balls: tuple[NormBall, ...]
    weights: tuple[float, ...]
    index: Index | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = check_positives("weights", self.weights)
        if len(weights) != len(self.balls):
            rule = f"have one entry for each of {len(self.balls)} balls"
            raise fail("weights", rule, len(weights))
        object.__setattr__(self, "weights", weights)

    def gauge(self, v: ArrayLike) -> FloatArray:
        parts = zip(self.weights, self._split(v), strict=True)
        return np.asarray(sum(w * b.gauge(x) for w, (b, x) in parts))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        # exp(-gauge) is a product over the parts, so its law X is drawn part by part. |X| is
        # Gamma(d), independent of the direction; with E ~ Exp(1), |X| / (|X| + E) is Beta(d, 1).
        parts = [
            ball.sample(n, rng) * (gammas(ball.dim + 1, n, rng) / weight)[:, None]
            for ball, weight in zip(self.balls, self.weights, strict=True)
        ]
        x = self._join(parts)
        return x / (self.gauge(x) + exponentials(n, rng))[:, None]

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        # The integral of exp(-gauge) is d! vol K, and the product of the parts' integrals.
        integrals = sum(
            ask(ball, "log_volume") + gammaln(ball.dim + 1) - ball.dim * math.log(weight)
            for ball, weight in zip(self.balls, self.weights, strict=True)
        )
        return float(integrals - gammaln(self.dim + 1))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        parts = zip(self.weights, self._split(w, "w"), strict=True)
        return np.asarray(np.max([ask(b, "support", x) / c for c, (b, x) in parts], axis=0))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return self._join(self._each("bounding_box"))

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        parts = [ask(ball, "covariance") for ball in self.balls]
        return self._block_diagonal(self._second_moments(parts))

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        ones = [np.ones(()) for _ in self.balls]
        return self._first_covariance([float(own) for own in self._second_moments(ones)])

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        return self._join(self._second_moments([exact_variance(ball) for ball in self.balls]))

    def gauge_over(self, body: NormBall) -> tuple[float, bool]:
        """Return a bound on the gauge over a body, and whether it is reached."""
        gauges, is_product = self._greatest_gauges(body)
        if not gauges:
            return math.inf, False
        # Each product rounds by half a unit in the last place, and so does their sum.
        weighted = math.fsum(w * gauge for w, gauge in zip(self.weights, gauges, strict=True))
        return weighted * (1 + 2**-50), is_product

    def greatest_square(self, weights: FloatArray) -> float:
        """Return a bound on the greatest sum_i weights_i u_i^2."""
        shares = zip(self._squares(weights), self.weights, strict=True)
        return max(square / weight**2 for square, weight in shares) * ROUND_UP

    def greatest_image(self, matrix: FloatArray) -> float:
        """Return a bound on the greatest |R u|_2^2, for R of shape (k, dim)."""
        # The ball is the hull of its parts, and a convex function is greatest on one.
        parts = zip(self.balls, self.places, self.weights, strict=True)
        return max(greatest_image(matrix[:, at] / w, part) for part, at, w in parts)

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim): those of one part, the others at 0."""
        points = self._each("extreme_points")
        out = np.zeros((listable(sum(map(len, points))), self.dim))
        first = 0
        for place, part in zip(self.places, points, strict=True):
            out[first : first + len(part), place] = part
            first += len(part)
        return out

    def _second_moments(self, of_parts: list[FloatArray]) -> list[FloatArray]:
        # A K-norm law has (d + 1)(d + 2) times the covariance of the uniform one.
        whole, *factors = ((d + 1) * (d + 2) for d in (self.dim, *(b.dim for b in self.balls)))
        parts = zip(factors, self.weights, of_parts, strict=True)
        return [factor / (weight**2 * whole) * of_part for factor, weight, of_part in parts]

    def _each(self, member: str) -> list[FloatArray]:
        pairs = zip(self.balls, self.weights, strict=True)
        return [ask(ball, member) / weight for ball, weight in pairs]
