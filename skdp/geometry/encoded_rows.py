"""Trusted. Hulls of the encoded rows of a domain.

One is the hull of c x, |c| <= 1, over the encoded rows x of a table of numbers and categories.

A row is x = (1, z, e): an intercept, numbers z in [-1, 1], and for each categorical column a
block of m coordinates holding an indicator, or zeros for the first level. With D the hull of
all rows, K = conv(D, -D) = {a x - b y : x, y in D, a + b = 1}. Write A_g, N_g for the sums of
the positive and of the negative parts in block g. As the blocks of x and y move freely, u is
in K if and only if |z| <= 1 and A_g <= a, N_g <= b for every g, where a = (1 + u_0) / 2 is
fixed by the intercept, or free to choose when there is none.

Volumes. The part of block g with A_g <= a, N_g <= b has volume
vol_g(a, b) = sum_k C(m, k) a^k / k! b^(m - k) / (m - k)! = (1 / m!) sum_k C(m, k)^2 a^k b^(m - k),
k of its coordinates being positive. The product over the blocks, M coordinates in all, is
sum_k c_k a^k b^(M - k) with c_k > 0: along the intercept K is a mixture of Beta laws, and is
drawn as one, exactly. Without an intercept K is the projection of that body, whose fibres have
length 2 (1 - G), G = max A_g + max N_g. The density 1 - G changes G and leaves the direction
uniform, so a new G, Beta(M, 1), makes the draw uniform.

The other is the hull of one categorical column's rows and their negatives, centred on its levels.
A column of m + 1 levels, coded by indicators without the first level and centred at the even
average c = (1, ..., 1) / (m + 1) of the levels, has the rows p_0 = -c and p_k = e_k - c. They
are the corners of a simplex around 0 with sum_k p_k = 0 and no other relation, so
v = sum_k lam_k p_k fixes lam up to a constant. As v_k = lam_k - mean(lam), the lam of mean 0 is
(-sum(v), v), and the gauge is the least of sum_k |lam_k - t| over t, attained at a median.

Triangulation. A generic lam has one median (m even) or an interval of them (m odd); shifted by
the median, or by the upper end of the interval, it has one zero, f = floor(m / 2) positive
entries and m - f negative ones. So K is cut into the simplices conv(0, s_k p_k : k != j), one
for each j and each choice s of f signs + and m - f signs -: (m + 1) C(m, f) of them, each of
volume |det(p_k : k != j)| / m! = 1 / ((m + 1) m!). Together that is C(m, f) / m!.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln, logsumexp, roots_legendre, softmax

from skdp._search import narrowed
from skdp.geometry.combined import ProductBall
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import LpBall, NormBall, as_points, greatest_of_each, listable, sign_patterns
from skdp.trusted.checks import check_count, fail
from skdp.trusted.randomness import exponentials, gammas, uniforms

# Integrals over the intercept's coordinate are exact up to so many nodes. Beyond, so many nodes on
# the interval where the density is at least this share of its maximum are exact to rounding.
_MOST_NODES, _NEGLIGIBLE = 256, 1e-35
# Moments are computed from arrays of about so many entries.
_MOST_ENTRIES = 2**18


class EncodedDomain(Protocol):
    """The members of a domain used here: the layout of its encoded matrix, or a ball of rows."""

    @property
    def n_encoded(self) -> int:
        """Number of encoded columns."""

    @property
    def number_index(self) -> ArrayLike:
        """Positions of the columns of numbers, each in [-1, 1]."""

    @property
    def blocks(self) -> Sequence[Any]:
        """Positions (indices or a slice) of each categorical column's indicators."""

    @property
    def is_ball(self) -> bool:
        """Whether rows are bounded by |x|_2 <= radius and not column by column."""

    @property
    def radius(self) -> float | None:
        """The bound on |x|_2, if rows have one."""


@dataclass(frozen=True)
class EncodedRowsBall(NormBall):
    """The hull of {c x : |c| <= 1, x an encoded row}.

    Parameters
    ----------
    n_numbers : int, >= 0
        Columns of numbers, each in [-1, 1].
    block_sizes : sequence of int, >= 1
        Indicators of each categorical column, its levels without the first.
    intercept : bool, default=True
        Whether every row begins with a 1.
    index : sequence of int, (dim,), or None
        Positions of the intercept, the numbers and the blocks, in this order, in the vectors.
        None keeps this order.

    Notes
    -----
    With u_0 the intercept's coordinate and u_g a block, the gauge is the greatest of |u_0|,
    of |u_j| over the numbers, and of 2 sum(u_g^+) - u_0 and 2 sum(u_g^-) + u_0 over the
    blocks. Without an intercept: the greatest of |u_j| and of
    max_g sum(u_g^+) + max_g sum(u_g^-).

    Examples
    --------
    >>> from skdp.geometry import EncodedRowsBall
    >>> ball = EncodedRowsBall(1, (2,))  # one number, one column of three levels
    >>> float(ball.gauge([1.0, 0.3, 0.0, 1.0]))  # a row
    1.0
    >>> float(ball.gauge([0.0, 0.3, -1.0, 1.0]))  # a difference of two rows
    2.0
    """

    n_numbers: int
    block_sizes: tuple[int, ...] = ()
    intercept: bool = True
    index: tuple[int, ...] | None = None
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_numbers", check_count("n_numbers", self.n_numbers, 0))
        sizes = tuple(check_count("block_sizes", m) for m in self.block_sizes)
        object.__setattr__(self, "block_sizes", sizes)
        object.__setattr__(self, "intercept", bool(self.intercept))
        if self.dim == 0:
            raise fail("n_numbers", "be > 0 where there is no block and no intercept", 0)
        if self.index is not None:
            index = tuple(int(i) for i in self.index)
            if sorted(index) != list(range(self.dim)):
                raise fail("index", f"contain each of 0, ..., {self.dim - 1} once", index)
            object.__setattr__(self, "index", index)

    @classmethod
    def of(cls, domain: EncodedDomain, intercept: bool = True) -> EncodedRowsBall:
        """Return the ball of a domain, coordinates as in its encoded matrix, intercept first.

        Parameters
        ----------
        domain : object with n_encoded, number_index and blocks
            Bounded numbers and levels, not a ball of rows.
        intercept : bool, default=True
            Whether a column of ones stands before the encoded matrix.
        """
        numbers, blocks = columns_of(domain)
        places = [*numbers, *chain.from_iterable(blocks)]
        index = (0,) * int(intercept) + tuple(place + int(intercept) for place in places)
        sizes = tuple(len(block) for block in blocks)
        in_order = index == tuple(range(len(index)))
        return cls(len(numbers), sizes, intercept, None if in_order else index)

    @property
    def dim(self) -> int:
        return int(self.intercept) + self.n_numbers + self._n_levels

    def greatest_square(self, weights: FloatArray) -> float:
        """Return a bound on the greatest sum_i weights_i u_i^2."""
        # A row has at most one indicator of a block.
        return float(greatest_of_each(orbits_of_rows(self), weights).sum()) * ROUND_UP

    def sheared_square(self, shift: FloatArray, weights: FloatArray) -> float | None:
        """Return such a bound for the rows + shift, or None if they do not begin with a 1."""
        if not self.intercept or (self.index is not None and self.index[0] != 0):
            return None
        # Over rows (1, z, e) + shift, in which each number and each block is free. A number at the
        # better end, or an indicator, adds this to the square of the shift.
        orbit = orbits_of_rows(self)
        sides = np.where(orbit < 1 + self.n_numbers, np.abs(shift), shift)
        added = greatest_of_each(orbit, weights * (1 + 2 * sides)).sum()
        return float(weights @ shift**2 + added) * ROUND_UP

    def gauge(self, v: ArrayLike) -> FloatArray:
        head, numbers, *blocks = self._split(v)
        up, down = greatest_sums(blocks, numbers.shape[:-1])
        need = np.maximum(2 * up - head, 2 * down + head) if self.intercept else up + down
        return np.asarray(np.maximum(need, np.abs(numbers).max(axis=-1, initial=0.0)))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        # a = (1 + u_0) / 2 and b = 1 - a, neither rounded to 0, u_0 as with an intercept.
        k = np.searchsorted(self._mixture_cdf, rng.random(n), side="right")
        shapes = np.stack([k + 1, self._n_levels - k + 1])
        up, down = gammas(shapes, np.shape(shapes), rng)
        a, b = up / (up + down), down / (up + down)
        numbers = rng.uniform(-1, 1, (n, self.n_numbers))
        blocks = [draw_block(m, a, b, rng) for m in self.block_sizes]
        if self.intercept:
            return self._join((a - b)[:, None], numbers, *blocks)
        if blocks:
            up, down = greatest_sums(blocks, (n,))
            factor = uniforms(n, rng) ** (1 / self._n_levels) / (up + down)
            blocks = [factor[:, None] * block for block in blocks]
        return self._join(numbers, *blocks)

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        log_length = math.log(2) if self.intercept else math.log(self._n_levels + 1)
        return float(self.n_numbers * math.log(2) + log_length + logsumexp(self._log_mixture))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        head, numbers, *blocks = self._split(w, "w")
        up = sum((b.max(axis=-1).clip(0) for b in blocks), start=np.zeros(head.shape))
        down = sum(((-b).max(axis=-1).clip(0) for b in blocks), start=np.zeros(head.shape))
        return np.asarray(np.abs(numbers).sum(axis=-1) + np.maximum(up + head, down - head))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,): ones."""
        return np.ones(self.dim)

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        # That of (u_0, blocks) with an intercept: given a = (1 + u_0) / 2 blocks are independent.
        a, b, weights = self._nodes
        moments = [(m, *self._moments[m]) for m in self.block_sizes]
        means = [np.repeat(mean[:, None], m, axis=1) for m, mean, _, _ in moments]
        centre = np.concatenate([(a - b)[:, None], *means], axis=1)
        inner, first = np.asarray(centre.T @ (weights[:, None] * centre)), 1
        for m, _, square, cross in moments:
            block = np.full((m, m), weights @ cross)
            np.fill_diagonal(block, weights @ square)
            inner[first : first + m, first : first + m] = block
            first += m
        out = np.eye(self.dim) / 3
        rest = np.r_[0 : int(self.intercept), self.dim - self._n_levels : self.dim]
        if not self.intercept:
            inner = inner[1:, 1:]
        inner = inner * self._without_intercept
        out[np.ix_(rest, rest)] = inner
        places = np.argsort(self._places)
        return out[np.ix_(places, places)]

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        if not self.intercept or self._places[0]:
            return np.asarray(self.covariance()[0])
        a, b, weights = self._nodes
        head = weights * (a - b)
        means = [head @ self._moments[m][0] for m in self.block_sizes]
        blocks = np.repeat(means, self.block_sizes)
        parts = (np.array([head @ (a - b)]), np.zeros(self.n_numbers), blocks)
        out = np.empty(self.dim)
        out[self._places] = np.concatenate(parts)
        return out

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        out = np.full(self.dim, 1 / 3)
        if not self.block_sizes:
            return out
        a, b, weights = self._nodes
        squares = [weights @ self._moments[m][1] for m in self.block_sizes]
        blocks = np.repeat(squares, self.block_sizes)
        out[self._places[-self._n_levels :]] = blocks * self._without_intercept
        if self.intercept:
            out[self._places[0]] = weights @ (a - b) ** 2
        return out

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim): c x over c = 1, -1 and the rows at corners."""
        n_rows = 2**self.n_numbers * math.prod(m + 1 for m in self.block_sizes)
        listable(2 * n_rows)
        vertices = [np.eye(m + 1, m, k=-1) for m in self.block_sizes]
        parts = [sign_patterns(self.n_numbers), *vertices]
        choices = np.indices([len(p) for p in parts]).reshape(len(parts), n_rows)
        rows = [part[choice] for part, choice in zip(parts, choices, strict=True)]
        if self.intercept:
            half = self._join(np.ones((n_rows, 1)), *rows)
        else:
            if not self.block_sizes:
                return self._join(*rows)
            # A row with no indicator lies between two rows with one.
            half = self._join(*rows)[choices[1:].any(axis=0)]
        return np.concatenate([half, -half])

    @cached_property
    def _n_levels(self) -> int:
        return sum(self.block_sizes)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        return np.arange(self.dim) if self.index is None else np.array(self.index, dtype=np.intp)

    def _split(self, v: ArrayLike, name: str = "v") -> list[FloatArray]:
        """Return the intercept's coordinate (0 if there is none), the numbers, and each block."""
        v = as_points(v, self.dim, name)[..., self._places]
        head = v[..., 0] if self.intercept else np.zeros(v.shape[:-1])
        cuts = np.cumsum([int(self.intercept), self.n_numbers, *self.block_sizes])[:-1]
        return [head, *np.split(v, cuts, axis=-1)[1:]]

    def _join(self, *parts: FloatArray) -> FloatArray:
        out = np.empty((len(parts[0]), self.dim))
        out[:, self._places] = np.concatenate(parts, axis=1)
        return out

    @cached_property
    def _log_mixture(self) -> FloatArray:
        """The log of the integral of each term of sum_k c_k a^k b^(M - k) over a in (0, 1)."""
        # The product of the blocks' polynomials, whose coefficients are in logs.
        total = np.zeros(1)
        for m in self.block_sizes:
            longer = np.full(len(total) + m, -np.inf)
            for k, coefficient in enumerate(2 * log_binomials(m) - gammaln(m + 1)):
                part = slice(k, k + len(total))
                longer[part] = np.logaddexp(longer[part], total + coefficient)
            total = longer
        powers = np.arange(self._n_levels + 1)
        return np.asarray(total + betaln(powers + 1, powers[::-1] + 1))

    @cached_property
    def _mixture_cdf(self) -> FloatArray:
        cdf = np.cumsum(softmax(self._log_mixture))
        return np.asarray(cdf / cdf[-1])

    @property
    def _without_intercept(self) -> float:
        """Factor of the blocks' second moments: E G^2 of Beta(M, 1) over that of Beta(M, 2)."""
        return 1.0 if self.intercept else (self._n_levels + 3) / (self._n_levels + 1)

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return values of a = (1 + u_0) / 2, b = 1 - a and their weights in a mean over u_0."""
        # The moments of the blocks times the density of a are polynomials of degree M + 2, which
        # so many nodes integrate exactly. The density is symmetric and log-concave: it is
        # negligible beyond ``width``, and a fixed number of nodes resolves it within.
        few, width = self._n_levels <= 2 * _MOST_NODES - 4, 1.0
        if not few:
            least = self._log_density(0.0)[0] + math.log(_NEGLIGIBLE)
            width = narrowed(lambda x: bool(self._log_density(x)[0] <= least), 0.0, 1.0, 1e-6)[1]
        nodes, lengths = roots_legendre(self._n_levels // 2 + 2 if few else _MOST_NODES)
        a, b = (1 + width * nodes) / 2, (1 - width * nodes) / 2
        return a, b, softmax(self._log_density(width * nodes) + np.log(lengths))

    @cached_property
    def _moments(self) -> dict[int, FloatArray]:
        """The moments of a block of each size at the nodes, (3, nodes)."""
        a, b, _ = self._nodes
        moments = {}
        for m in set(self.block_sizes):
            at = range(0, len(a), 1 + _MOST_ENTRIES // m)
            parts = [slice(first, first + at.step) for first in at]
            moments[m] = np.hstack([block_moments(m, a[part], b[part]) for part in parts])
        return moments

    def _log_density(self, u: ArrayLike) -> FloatArray:
        """Return the log density of u_0, (n,), up to a constant, when there is an intercept."""
        u = np.atleast_1d(u)
        log_a, log_b = np.log1p(u), np.log1p(-u)
        out = np.zeros(len(u))
        for m, count in Counter(self.block_sizes).items():
            k = np.arange(m + 1)
            terms = 2 * log_binomials(m) - gammaln(m + 1) + np.outer(log_a, k)
            out += count * logsumexp(terms + np.outer(log_b, m - k), axis=1)
        return out


def rows_ball(domain: EncodedDomain, intercept: bool = True) -> NormBall:
    """Return the hull of {c x : |c| <= 1, x a row of the domain}.

    Parameters
    ----------
    domain : object with n_encoded, is_ball, and radius or number_index and blocks
        Public bounds of the rows.
    intercept : bool, default=True
        Whether every row begins with a 1.

    Returns
    -------
    NormBall
        Its coordinates are the intercept, if any, and then the encoded columns.

    Examples
    --------
    >>> from skdp import Domain
    >>> rows_ball(Domain({"age": (17, 90), "sex": ["f", "m"]})).dim  # and the intercept
    3
    """
    if domain.is_ball and domain.radius is not None:
        rows = LpBall(domain.n_encoded, radius=domain.radius)
        return ProductBall((LpBall(1), rows)) if intercept else rows
    hull = EncodedRowsBall.of(domain, intercept)
    return hull if hull.block_sizes else LpBall(hull.dim, p=math.inf)


def columns_of(domain: EncodedDomain) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the encoded columns of the numbers, and of each block that has any."""
    columns = np.arange(domain.n_encoded)

    def chosen(where: object) -> tuple[int, ...]:
        # An empty tuple of positions would become an array of floats.
        picked = where if isinstance(where, slice) else np.asarray(where, dtype=np.intp)
        return tuple(columns[picked].tolist())

    return chosen(domain.number_index), [block for block in map(chosen, domain.blocks) if block]


# The law of one block. Given the bounds a and b, a block u of m coordinates is uniform on
# sum(u^+) <= a, sum(u^-) <= b.


def log_binomials(m: int) -> FloatArray:
    k = np.arange(m + 1)
    return np.asarray(gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1))


def positive_count_law(m: int, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the probabilities of k = 0..m positive coordinates in a block, (n, m + 1)."""
    log_odds = np.log(a) - np.log(b)
    return np.asarray(softmax(2 * log_binomials(m) + np.arange(m + 1) * log_odds[:, None], axis=1))


def draw_block(m: int, a: FloatArray, b: FloatArray, rng: Generator) -> FloatArray:
    """Draw a block uniform on {A <= a, N <= b}: (n, m)."""
    cdf = np.cumsum(positive_count_law(m, a, b), axis=1)
    level = rng.random(len(a)) * cdf[:, -1]
    n_positive = (cdf[:, :-1] <= level[:, None]).sum(axis=1)
    positive = np.arange(m) < n_positive[:, None]
    # Uniform on {x >= 0, sum x <= 1}: exponentials over their sum with one more.
    sizes = exponentials((len(a), m), rng)
    spare_up, spare_down = exponentials((2, len(a)), rng)
    up = a / (np.where(positive, sizes, 0).sum(axis=1) + spare_up)
    down = b / (np.where(positive, 0, sizes).sum(axis=1) + spare_down)
    block = sizes * np.where(positive, up[:, None], -down[:, None])
    return rng.permuted(block, axis=1, out=block)


def block_moments(m: int, a: FloatArray, b: FloatArray) -> tuple[FloatArray, ...]:
    """Return E u_j, E u_j^2 and E u_i u_j within a block, given a: each (n,)."""
    law, k = positive_count_law(m, a, b), np.arange(m + 1)
    j, up, down = m - k, a[:, None] / (k + 1), b[:, None] / (m - k + 1)
    # up and down are the means of one positive and of one negative coordinate's size.
    mean = (k * up - j * down) / m
    up_2, down_2 = up * a[:, None] / (k + 2), down * b[:, None] / (j + 2)
    square = 2 * (k * up_2 + j * down_2) / m
    pairs = k * (k - 1) * up_2 + j * (j - 1) * down_2 - 2 * k * j * up * down
    cross = pairs / max(m * (m - 1), 1)
    return (law * mean).sum(axis=1), (law * square).sum(axis=1), (law * cross).sum(axis=1)


def greatest_sums(blocks: list[FloatArray], shape: tuple[int, ...]) -> list[FloatArray]:
    """Return the greatest sum of positive parts over the blocks, and of negative parts."""
    ends = [np.zeros(shape), np.zeros(shape)]
    for block in blocks:
        parts = (side.clip(min=0).sum(axis=-1) for side in (block, -block))
        ends = [np.maximum(end, part) for end, part in zip(ends, parts, strict=True)]
    return ends


# One centred column of levels


@dataclass(frozen=True)
class SimplexBall:
    """The hull of a centred categorical column's rows and their negatives.

    Parameters
    ----------
    dim : int, >= 1
        Number of indicators: the levels of the column without the first.

    Notes
    -----
    With m = dim the rows are p_0 = -c and p_k = e_k - c, k = 1, ..., m, where
    c = (1, ..., 1) / (m + 1); the ball is conv{p_k, -p_k}. For m = 1 it is [-1/2, 1/2].

    Examples
    --------
    >>> from skdp.geometry import SimplexBall
    >>> ball = SimplexBall(3)  # a column of four levels
    >>> float(ball.gauge([0.75, -0.25, -0.25]))  # its second level
    1.0
    >>> float(ball.gauge([1.0, -1.0, 0.0]))  # a difference of two levels
    2.0
    """

    dim: int
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count("dim", self.dim))

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v = as_points(v, self.dim)
        top = np.abs(v).max(axis=-1, keepdims=True)
        # Divided by the greatest entry nothing overflows. Where that is 0, inf or nan it is the
        # answer itself: it stays so when multiplied by the gauge of ones, which is positive.
        usable = (top > 0) & np.isfinite(top)
        share = np.divide(v, top, out=np.ones_like(v), where=usable)
        lam = np.concatenate([-share.sum(axis=-1, keepdims=True), share], axis=-1)
        middle = (self.dim + 1) // 2
        median = np.partition(lam, middle, axis=-1)[..., middle, None]
        with np.errstate(over="ignore"):
            return np.asarray(top[..., 0] * np.abs(lam - median).sum(axis=-1))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        # Exponentials over their sum are uniform weights; the one with sign 0 stays with 0.
        sizes = exponentials((n, self.dim + 1), rng)
        # The signs of lam, up to their order: 0 once, then + and - as in the triangulation.
        half = self.dim // 2
        signs = np.repeat([0.0, 1.0, -1.0], [1, half, self.dim - half])
        weights = signs * (sizes / sizes.sum(axis=1, keepdims=True))
        lam = rng.permuted(weights, axis=1, out=weights)
        return np.asarray(lam[:, 1:] - lam.mean(axis=1, keepdims=True))

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        half = self.dim // 2
        return float(-gammaln(half + 1) - gammaln(self.dim - half + 1))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        w = as_points(w, self.dim, "w")
        # Division before the sum avoids overflow.
        centre = (w / (self.dim + 1)).sum(axis=-1)
        others = np.abs(w - centre[..., None]).max(axis=-1)
        return np.asarray(np.maximum(np.abs(centre), others))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return np.full(self.dim, self.dim / (self.dim + 1))

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        # U = sum_k lam_k p_k, E lam_k^2 = A and E lam_k lam_l = B, and sum_k p_k = 0: the
        # covariance is (A - B) sum_k p_k p_k', the sum being 1 - 11' / (m + 1). The m weights
        # have mean square 2 / ((m + 1)(m + 2)), mean product half of it, and signs of sum 0 or
        # -1, which leaves (A - B)(m + 1)^2 (m + 2) = 2 m + 1, less 1 / m for odd m.
        m = self.dim
        return np.asarray(self._second_moment * (np.eye(m) - 1 / (m + 1)))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        return np.full(self.dim, self._second_moment * self.dim / (self.dim + 1))

    @property
    def _second_moment(self) -> float:
        m = self.dim
        return (2 * m + 1 - m % 2 / m) / ((m + 1) ** 2 * (m + 2))

    def extreme_points(self) -> FloatArray:
        """Return the rows and their negatives, (2 * dim + 2, dim), for dim 1 only (2, 1)."""
        rows = np.eye(self.dim + 1, self.dim, k=-1) - 1 / (self.dim + 1)
        # With two levels each row is the negative of the other.
        return rows if self.dim == 1 else np.concatenate([rows, -rows])


def orbits_of_rows(ball: EncodedRowsBall) -> NDArray[np.intp]:
    """Return labels: each block has one, and the intercept and every number one of its own."""
    before = int(ball.intercept) + ball.n_numbers
    blocks = np.repeat(np.arange(len(ball.block_sizes)), ball.block_sizes)
    labels = np.concatenate([np.arange(before), before + blocks]).astype(np.intp)
    out = np.empty_like(labels)
    out[slice(None) if ball.index is None else list(ball.index)] = labels
    return out
