"""Products and weighted sums of balls on separate coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from skdp._arrays import FloatArray
from skdp._checks import check_entries, check_positives, fail
from skdp._draws import exponentials, gammas
from skdp.geometry.ball import (
    NormBall,
    as_points,
    ask,
    exact_variance,
    listable,
    uniform_covariance,
    uniform_first_covariance,
)

Index = tuple[tuple[int, ...], ...]


class _Parts:
    """Base class of balls made of balls on separate coordinates."""

    balls: tuple[NormBall, ...]
    index: Index | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "balls", check_entries("balls", self.balls))
        if not self.balls:
            raise fail("balls", "have at least one ball", 0)
        if self.index is not None:
            dims = [ball.dim for ball in self.balls]
            object.__setattr__(self, "index", _checked_index(self.index, dims))

    @property
    def dim(self) -> int:
        """Number of coordinates of all parts together."""
        return sum(ball.dim for ball in self.balls)

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


def _checked_index(index: Index, dims: list[int]) -> Index:
    parts = tuple(tuple(map(int, part)) for part in index)
    if [len(part) for part in parts] != dims:
        raise fail("index", f"have parts of lengths {dims}", [len(part) for part in parts])
    if sorted(chain.from_iterable(parts)) != list(range(sum(dims))):
        raise fail("index", f"hold each of 0, ..., {sum(dims) - 1} once", parts)
    return parts


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

    @property
    def exact(self) -> bool:
        """Whether every part's sampler is exact."""
        return all(ball.exact for ball in self.balls)

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        return np.asarray(np.max([b.gauge(x) for b, x in self._split(v)], axis=0))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
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

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim): one of each part, in every combination."""
        points = [ask(ball, "extreme_points") for ball in self.balls]
        counts = [len(p) for p in points]
        choices = np.indices(counts).reshape(len(counts), listable(math.prod(counts)))
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
            raise fail(
                "weights", f"have one entry for each of {len(self.balls)} balls", len(weights)
            )
        object.__setattr__(self, "weights", weights)

    @property
    def exact(self) -> bool:
        """Whether every part's sampler is exact."""
        return all(ball.exact for ball in self.balls)

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        parts = self._split(v)
        return np.asarray(
            sum(w * b.gauge(x) for w, (b, x) in zip(self.weights, parts, strict=True))
        )

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
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
        return self._block_diagonal(
            self._second_moments([ask(ball, "covariance") for ball in self.balls])
        )

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        ones = [np.ones(()) for _ in self.balls]
        return self._first_covariance([float(own) for own in self._second_moments(ones)])

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        return self._join(self._second_moments([exact_variance(ball) for ball in self.balls]))

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
        # A K-norm law has (d + 1)(d + 2) times the covariance of the uniform one, here and
        # in every part.
        own = (self.dim + 1) * (self.dim + 2)
        return [
            (ball.dim + 1) * (ball.dim + 2) / (weight**2 * own) * of_part
            for ball, weight, of_part in zip(self.balls, self.weights, of_parts, strict=True)
        ]

    def _each(self, member: str) -> list[FloatArray]:
        pairs = zip(self.balls, self.weights, strict=True)
        return [ask(ball, member) / weight for ball, weight in pairs]
