"""The level-1 body of the changes by one added or removed record.

The first coordinate is the count: K is around {+-t(v)}, t(v) = (1, ...). With c the first
coordinate, a = (1 + c) / 2 and b = (1 - c) / 2, a point of conv(D, -D) is a p - b p' with
p, p' in D. For three kinds of D the range of the last entry is, given the others:

* (1, x, y, x y): z from -min(1, 2 - c - |x + y|, 2 + c - |x - y|) to
  min(1, 2 + c - |x + y|, 2 - c - |x - y|);
* (1, x, 2 x^2 - 1): from -1 + 2 (|x| - b)_+^2 / a to 1 - 2 (|x| - a)_+^2 / b;
* (1, block): positive parts of sum at most a, negative ones of sum at most b.

The ranges of the first two are longest at c = 0, where they are those of `LinearLaw` with
w = 1 - |x|. So c and the blocks are drawn as in `EncodedRowsBall`, w from `LinearLaw`, and kept
with the product of (range at c) / (range at 0) as probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_count
from skdp.geometry._gauges import (
    counted_product_gauge,
    counted_square_ends,
    counted_square_gauge,
)
from skdp.geometry.ball import as_points
from skdp.geometry.encoded_rows import EncodedRowsBall
from skdp.geometry.moments._bodies import VariablesBall, rooms
from skdp.geometry.moments._linear_law import MOST_ENTRIES

Ends = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class AddedBall(VariablesBall):
    """An outer body of {+-t(v)} for moments that begin with the count.

    Coordinates: the count; P variables in [-1, 1]; the blocks; 2 z^2 - 1 of the first n_squares
    variables; z_i z_j, i < j, in lexicographic order.

    Parameters
    ----------
    n_squares : int, >= 0
        Number of variables with a square.
    n_plain : int, >= 0
        Number of variables without a square.
    block_sizes : sequence of int, >= 1
        Lengths of the blocks; each block is 0 or a unit vector.

    Examples
    --------
    >>> from skdp.geometry.moments import AddedBall
    >>> float(AddedBall(0, 2).gauge([1.0, -1.0, 0.5, -0.5]))  # (1, x, y, x y)
    1.0
    """

    n_squares: int
    n_plain: int
    block_sizes: tuple[int, ...] = ()
    exact = True

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = tuple(check_count("block_sizes", m) for m in self.block_sizes)
        object.__setattr__(self, "block_sizes", sizes)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self._rows.dim + self.n_squares + len(self._pairs[0])

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v = as_points(v, self.dim)
        rows, squares, products = np.split(
            v, [self._rows.dim, self._rows.dim + self.n_squares], axis=-1
        )
        count, x = rows[..., :1], rows[..., 1 : 1 + self.n_variables]
        i, j = self._pairs
        parts = [
            counted_square_gauge(count, x[..., : self.n_squares], squares),
            counted_product_gauge(count, x[..., i], x[..., j], products),
        ]
        tops = [part.max(axis=-1, initial=0.0) for part in parts]
        return np.asarray(np.max([self._rows.gauge(rows), *tops], axis=0))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        kept, missing, rate = [np.empty((0, self.dim))], n, 0.5
        batch = max(16, MOST_ENTRIES // self.dim)
        while missing > 0:
            tries = min(batch, math.ceil(1.1 * missing / rate) + 4)
            rows, ends, share = self._propose(tries, rng)
            chosen = np.flatnonzero(rng.random(tries) < share)[:missing]
            low, high = ends[0][chosen], ends[1][chosen]
            last = low + (high - low) * rng.random(low.shape)
            kept.append(np.concatenate([rows[chosen], last], axis=1))
            rate = max(0.25 * rate, (len(chosen) + 1) / (tries + 1))
            missing -= len(chosen)
        return np.concatenate(kept)

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,): ones."""
        return np.ones(self.dim)

    def estimate_log_volume(self, n: int, rng: Generator) -> tuple[float, float]:
        """Return an estimate of the log volume from n proposals, and its standard error."""
        means, error = [], 0.0
        for share in (self._law.propose(n, rng)[1], self._propose(n, rng)[2]):
            means.append(math.log(share.mean()))
            error = math.hypot(error, float(share.std() / share.mean()) / math.sqrt(n))
        free = self.dim - EncodedRowsBall(0, self.block_sizes).dim
        known = EncodedRowsBall(0, self.block_sizes).log_volume() + self._law.log_envelope
        return known + free * math.log(2) + sum(means), error

    def estimate_covariance(self, n: int, rng: Generator) -> FloatArray:
        """Return an estimate from n draws of the covariance of the uniform law, (dim, dim)."""
        u = self.sample(n, rng)
        return np.asarray(u.T @ u / n)

    @cached_property
    def _rows(self) -> EncodedRowsBall:
        return EncodedRowsBall(self.n_variables, self.block_sizes)

    def _propose(self, n: int, rng: Generator) -> tuple[FloatArray, Ends, FloatArray]:
        """Return count, variables and blocks, the ends of the rest, and their acceptance."""
        blocks = EncodedRowsBall(0, self.block_sizes).sample(n, rng)
        count = blocks[:, :1]
        w = self._law.sample(n, rng)
        x = (1 - w) * rng.choice([-1.0, 1.0], w.shape)
        ends = self._ends(count, x)
        longest = 2 * np.concatenate(rooms(w, self.n_squares), axis=1)
        share = np.divide(ends[1] - ends[0], longest, out=np.ones(longest.shape), where=longest > 0)
        rows = np.concatenate([count, x, blocks[:, 1:]], axis=1)
        return rows, ends, share.clip(0, 1).prod(axis=1)

    def _ends(self, count: FloatArray, x: FloatArray) -> Ends:
        """Return the least and greatest squares and products, given the others."""
        i, j = self._pairs
        same, other = np.abs(x[:, i] + x[:, j]), np.abs(x[:, i] - x[:, j])
        high = np.minimum(1, np.minimum(2 + count - same, 2 - count - other))
        low = -np.minimum(1, np.minimum(2 - count - same, 2 + count - other))
        squares = counted_square_ends(count, np.abs(x[:, : self.n_squares]))
        return np.hstack([squares[0], low]), np.hstack([squares[1], high])
