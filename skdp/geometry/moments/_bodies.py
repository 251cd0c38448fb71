"""Bodies around the changes by one replaced record: moments of numbers, sums over blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammaln
from scipy.stats import hypergeom

from skdp._arrays import FloatArray
from skdp._checks import check_count, fail
from skdp._draws import exponentials
from skdp.geometry._gauges import square_gauge
from skdp.geometry.ball import as_points
from skdp.geometry.moments._linear_law import MOST_ENTRIES, LinearLaw
from skdp.geometry.moments._triangle_law import (
    MOST_VARIABLES,
    TriangleLaw,
    squares_held,
    third_nodes,
)
from skdp.geometry.moments.layout import IntArray


class VariablesBall:
    """Base class of bodies of the moments of variables, the first of which have a square."""

    n_squares: int
    n_plain: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_squares", check_count("n_squares", self.n_squares, 0))
        object.__setattr__(self, "n_plain", check_count("n_plain", self.n_plain, 0))

    @property
    def n_variables(self) -> int:
        """Number of variables P."""
        return self.n_squares + self.n_plain

    @cached_property
    def _law(self) -> LinearLaw:
        return LinearLaw(self.n_squares, self.n_plain)

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        i, j = np.triu_indices(self.n_variables, 1)
        return i, j


@dataclass(frozen=True)
class NumbersBall(VariablesBall):
    """An outer body of the moments' differences of P variables in [-1, 1].

    Coordinates: u_0i, i = 1, ..., P; u_ii = 2 (z_i^2 - z_i'^2) of the first n_squares
    variables; u_ij, i < j, in lexicographic order.

    Parameters
    ----------
    n_squares : int, >= 0
        Number of variables with a square.
    n_plain : int, >= 0
        Number of variables without a square.
    level : {1, 2}, default=1
        1: (u_0i, u_ii) in K_2 and (u_0i, u_0j, u_ij) in K_3 (Awan & Slavkovic 2020, section
        5.1). 2: also (u_ij, u_ii) in K_2 and (u_ij, u_ik, u_jk) in K_3; with more than 12
        variables at most five such triples for each entry, and six pairs for each square.

    Examples
    --------
    >>> from skdp.geometry.moments import NumbersBall
    >>> float(NumbersBall(0, 2).gauge([2.0, 1.0, 2.0]))  # (x, y, x y)
    1.25
    """

    n_squares: int
    n_plain: int
    level: int = 1
    exact = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.n_variables:
            raise fail("n_squares", "be > 0 where n_plain is 0", 0)
        if self.level not in (1, 2):
            raise fail("level", "be 1 or 2", self.level)
        if self.level == 2 and self.n_variables > MOST_VARIABLES:
            rule = f"be 1 for more than {MOST_VARIABLES} numbers and target together"
            raise fail("level", rule, self.level)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.n_variables * (self.n_variables + 1) // 2 + self.n_squares

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        sizes, squares = self._sizes(np.abs(as_points(v, self.dim)))
        out = sizes.max(axis=(-2, -1)) / 2
        i, j = np.indices(sizes.shape[-2:])
        for k in np.moveaxis(third_nodes(self.n_variables, self.level), -1, 0):
            # With k = i or k = j this is 2 |u_ij| / 4, which is included already.
            triangles = sizes + sizes[..., i, k] + sizes[..., j, k]
            out = np.maximum(out, triangles.max(axis=(-2, -1)) / 4)
        own = slice(1, 1 + self.n_squares)
        held = squares_held(self.n_variables, self.level)[own]
        beside = np.where(held, sizes[..., own, :], 0.0).max(axis=-1)
        return np.asarray(np.maximum(out, square_gauge(beside, squares).max(axis=-1, initial=0.0)))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        sizes = self._draw_given_linear(n, rng) if self.level == 1 else self._draw_at_once(n, rng)
        return np.asarray(sizes * rng.choice([-2.0, 2.0], sizes.shape))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,): twos."""
        return np.full(self.dim, 2.0)

    def estimate_log_volume(self, n: int, rng: Generator) -> tuple[float, float]:
        """Return an estimate of the log volume from n proposals, and its standard error.

        At level 2 it uses the share of n draws of level 1 inside the ball; inf, inf if it is 0.
        """
        _, share = self._law.propose(n, rng)
        error = float(share.std() / share.mean()) / math.sqrt(n)
        value = self.dim * math.log(4) + self._law.log_envelope + math.log(share.mean())
        if self.level == 1:
            return value, error
        outer = NumbersBall(self.n_squares, self.n_plain)
        kept = float((self.gauge(outer.sample(n, rng)) <= 1).mean())
        if not kept:
            return math.inf, math.inf
        return value + math.log(kept), math.hypot(error, math.sqrt((1 - kept) / kept / n))

    def estimate_covariance(self, n: int, rng: Generator) -> FloatArray:
        """Return an estimate from n draws of the covariance of the uniform law, (dim, dim).

        It is diagonal, as all signs are independent, with one value for each kind of coordinate.
        """
        squares = (self.sample(n, rng) ** 2).mean(axis=0)
        i, j = self._pairs
        own = np.arange(self.n_variables) < self.n_squares
        kinds = np.concatenate([own, np.full(self.n_squares, 2), 3 + own[i] + own[j]])
        means = np.bincount(kinds, squares) / np.maximum(np.bincount(kinds), 1)
        return np.diag(means[kinds])

    def _sizes(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return symmetric matrices of u_ij over 0, ..., P, 0 on the diagonal, and the u_ii."""
        first, second = self.n_variables, self.n_variables + self.n_squares
        out = np.zeros((*v.shape[:-1], first + 1, first + 1))
        i, j = self._pairs
        out[..., 0, 1:] = out[..., 1:, 0] = v[..., :first]
        out[..., i + 1, j + 1] = out[..., j + 1, i + 1] = v[..., second:]
        return out, v[..., first:second]

    def _draw_given_linear(self, n: int, rng: Generator) -> FloatArray:
        """Draw |u| / 2 at level 1; given the linear entries the others are independent."""
        w = self._law.sample(n, rng)
        squares, products = rooms(w, self.n_squares)
        room = np.concatenate([squares, products], axis=1)
        return np.concatenate([1 - w, room * rng.random(room.shape)], axis=1)

    def _draw_at_once(self, n: int, rng: Generator) -> FloatArray:
        """Draw |u| / 2 at level 2, in batches that keep the states of the chains small."""
        law, (i, j) = TriangleLaw(self.n_squares, self.n_plain), self._pairs
        most, out = max(16, MOST_ENTRIES // law.n_nodes**2), np.empty((n, self.dim))
        for first in range(0, n, most):
            part = out[first : first + most]
            w, c = law.sample(len(part), rng)
            part[:] = 1 - np.concatenate([w[:, 0, 1:], c, w[:, i + 1, j + 1]], axis=1)
        return out


def rooms(w: FloatArray, n_squares: int) -> tuple[FloatArray, FloatArray]:
    """Return the greatest |u_ii| / 2 and |u_ij| / 2, i < j, for |u_0i| / 2 = 1 - w_i."""
    i, j = np.triu_indices(w.shape[1], 1)
    least = np.minimum(w[:, :n_squares], 0.5)
    return 4 * least * (1 - least), np.minimum(1.0, w[:, i] + w[:, j])


@dataclass(frozen=True)
class DifferenceBall:
    """The hull of the differences of two vectors that are 0 or a unit vector.

    It is sum(u^+) <= 1, sum(u^-) <= 1: the changes of the indicators of a column, without its
    first level, if a record is replaced.

    Parameters
    ----------
    dim : int, >= 1
        Number of indicators m.

    Notes
    -----
    Uniform draws have k positive coordinates with probability C(m, k)^2 / C(2 m, m), as the
    part of the ball with given signs has volume 1 / (k! (m - k)!).

    Examples
    --------
    >>> from skdp.geometry.moments import DifferenceBall
    >>> float(DifferenceBall(3).gauge([1.0, 1.0, -1.0]))
    2.0
    """

    dim: int
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count("dim", self.dim))

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v = as_points(v, self.dim)
        return np.asarray(np.maximum(v.clip(0).sum(axis=-1), (-v).clip(0).sum(axis=-1)))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        m = self.dim
        positive = np.arange(m) < rng.hypergeometric(m, m, m, n)[:, None]
        # Uniform on {x >= 0, sum x <= 1}: exponentials over their sum with one more.
        sizes, spare = exponentials((n, m), rng), exponentials((2, n), rng)
        up = (sizes * positive).sum(axis=1) + spare[0]
        down = (sizes * ~positive).sum(axis=1) + spare[1]
        block = sizes / np.where(positive, up[:, None], -down[:, None])
        return rng.permuted(block, axis=1, out=block)

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume, C(2 m, m) / m!."""
        m = self.dim
        return float(gammaln(2 * m + 1) - 3 * gammaln(m + 1))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        w = as_points(w, self.dim, "w")
        return np.asarray(w.max(axis=-1).clip(0) + (-w).max(axis=-1).clip(0))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,): ones."""
        return np.ones(self.dim)

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        m = self.dim
        square, cross = self._mean_products
        return np.asarray((square - cross) * np.eye(m) + cross)

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        return np.full(self.dim, self._mean_products[0])

    @cached_property
    def _mean_products(self) -> tuple[float, float]:
        """Means of u_j^2 and of u_i u_j."""
        m, k = self.dim, np.arange(self.dim + 1)
        law, j = hypergeom(2 * m, m, m).pmf(k), m - k
        # Given k positive coordinates, E u_i^2 = 2 / ((k + 1)(k + 2)) and E u_i u_j is half of it.
        square = law @ (k / ((k + 1) * (k + 2)) + j / ((j + 1) * (j + 2))) * 2 / m
        same = k * (k - 1) / ((k + 1) * (k + 2)) + j * (j - 1) / ((j + 1) * (j + 2))
        cross = law @ (same - 2 * k * j / ((k + 1) * (j + 1))) / max(m * (m - 1), 1)
        return float(square), float(cross)

    def extreme_points(self) -> FloatArray:
        """Return the differences other than 0, (count, dim)."""
        rows = np.eye(self.dim + 1, self.dim, k=-1)
        i, j = np.nonzero(~np.eye(self.dim + 1, dtype=bool))
        return rows[i] - rows[j]
