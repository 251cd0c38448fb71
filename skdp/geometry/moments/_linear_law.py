"""The exact law of the linear entries of the level-1 body.

Write w_i = 1 - |u_i| / 2 for P linear entries. Given them, a square has room in proportion to
h(w) = 1 for w >= 1/2 and 1 - (1 - 2w)^2 below, a product in proportion to min(1, w_i + w_j), all
independent. So w has the density prod h(w_i) prod_{i<j} min(1, w_i + w_j) on [0, 1]^P.

Let B, of size k, be the w_i = 1/2 - d_i below one half; the others are 1/2 + e_j. Between two of
the others the factor is 1, so given the d_i the e_j are independent, each with a density in
proportion to prod_i f(d_i, e), f(d, e) = min(1, 1 - d + e), on [0, 1/2]. With E the mean over e
uniform, the d_i have the density prod h(1/2 - d_i) prod_{i<j} (1 - d_i - d_j) E[prod_i f(d_i,
e)]^(P - k), and by Hoelder's inequality and 1 - d - d' <= (1 - d)(1 - d') this is at most
prod_i q_k(d_i), q_k(d) = h (1 - d)^(k - 1) E[f(d, e)^k]^((P - k) / k). Each q_k falls in d, so its
value at the left end of a cell is a bound in the cell. Proposals are drawn from this bound, and
kept with the quotient of the two densities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.special import comb, roots_legendre

from skdp._arrays import FloatArray
from skdp.geometry.moments.layout import IntArray

CELLS = 256
# Arrays of draws by variables by variables stay near 30 MB.
MOST_ENTRIES = 4_000_000


@dataclass(frozen=True)
class LinearLaw:
    """Density proportional to prod h(w_i) prod_{i<j} min(1, w_i + w_j) on [0, 1]^P.

    Parameters
    ----------
    n_squares : int, >= 0
        The first n_squares variables have the factor h.
    n_plain : int, >= 0
        Number of the others.
    """

    n_squares: int
    n_plain: int

    @property
    def dim(self) -> int:
        """Number of variables P."""
        return self.n_squares + self.n_plain

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n independent draws of w, (n, dim)."""
        kept = [np.empty((0, self.dim))]
        missing, rate, batch = n, 0.5, max(16, MOST_ENTRIES // (self.dim + 1) ** 2)
        while missing > 0:
            tries = min(batch, math.ceil(1.1 * missing / rate) + 4)
            below, share = self.propose(tries, rng)
            chosen = below[rng.random(tries) < share][:missing]
            rate = max(0.5 * rate, (len(chosen) + 1) / (tries + 1))
            missing -= len(chosen)
            kept.append(self._fill(chosen, rng))
        return np.concatenate(kept)

    def propose(self, n: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return n proposals d, (n, dim), nan for w > 1/2, and their acceptance, (n,)."""
        choice = rng.choice(len(self._counts), n, p=self._weights)
        n_square, n_plain = self._counts[choice].T
        k = n_square + n_plain
        square = rng.permuted(np.arange(self.n_squares) < n_square[:, None], axis=1)
        plain = rng.permuted(np.arange(self.n_plain) < n_plain[:, None], axis=1)
        below = np.concatenate([square, plain], axis=1)
        row, column = np.nonzero(below)
        kind = (column >= self.n_squares).astype(np.intp)
        level = rng.random(len(row))
        cell = self._cells(k[row], kind, level)
        d = np.full(below.shape, np.nan)
        d[row, column] = (cell + rng.random(len(row))) / (2 * CELLS)
        bound = np.zeros(n)
        np.add.at(bound, row, np.log(self._tops[k[row], kind, cell]))
        return d, np.exp(self._log_density(d, k) - bound)

    @property
    def log_envelope(self) -> float:
        """Log mass of the proposals; times the mean acceptance it is the volume."""
        return self._log_total[1]

    @cached_property
    def _counts(self) -> IntArray:
        """All numbers of entries of each kind below one half, (count, 2)."""
        grid = np.indices((self.n_squares + 1, self.n_plain + 1))
        return grid.reshape(2, -1).T

    @cached_property
    def _tops(self) -> FloatArray:
        """Bound on q_k in every cell, (k, kind, cell); kind 0 has a square."""
        left = np.arange(CELLS) / (2 * CELLS)
        k = np.arange(1, self.dim + 1)[:, None]
        mean = 1 - 2 * left + 2 * (1 - (1 - left) ** (k + 1)) / (k + 1)
        plain = (1 - left) ** (k - 1) * mean ** ((self.dim - k) / k)
        tops = np.stack([plain * (1 - 4 * left**2), plain], axis=1)
        return np.concatenate([np.ones((1, 2, CELLS)), tops])

    @cached_property
    def _cumulated(self) -> FloatArray:
        sums = np.cumsum(self._tops, axis=2)
        return np.asarray(sums / sums[..., -1:])

    @cached_property
    def _log_total(self) -> tuple[FloatArray, float]:
        """Log masses of the counts below one half, and of all of them together."""
        a, b = self._counts.T
        k = a + b
        masses = np.log(self._tops.mean(axis=2) / 2)
        ways = comb(self.n_squares, a) * comb(self.n_plain, b)
        logs = np.log(ways) + (k - self.dim) * math.log(2) + a * masses[k, 0] + b * masses[k, 1]
        top = logs.max()
        return logs, float(top + np.log(np.exp(logs - top).sum()))

    @cached_property
    def _weights(self) -> FloatArray:
        logs, total = self._log_total
        weights = np.exp(logs - total)
        return np.asarray(weights / weights.sum())

    def _cells(self, k: IntArray, kind: IntArray, level: FloatArray) -> IntArray:
        # One search for all: the cumulative law of each (k, kind) has a range of its own.
        row = 2 * k + kind
        table = (self._cumulated.reshape(-1, CELLS) + np.arange(2 * self.dim + 2)[:, None]).ravel()
        cell = np.searchsorted(table, row + level, side="right") - CELLS * row
        return np.asarray(np.clip(cell, 0, CELLS - 1))

    def _log_density(self, d: FloatArray, k: IntArray) -> FloatArray:
        """Return the log density of the entries below one half, the others integrated out."""
        outside = np.isnan(d)
        filled = np.where(outside, 0.0, d)
        square = np.log1p(-4 * filled[:, : self.n_squares] ** 2).sum(axis=1)
        # Missing entries are 0, and their pairs are left out below.
        packed = -np.sort(-np.where(outside, 0.0, d), axis=1)[:, : int(k.max(initial=0))]
        present = np.arange(packed.shape[1]) < k[:, None]
        i, j = np.triu_indices(packed.shape[1], 1)
        pairs = np.where(present[:, j], packed[:, i] + packed[:, j], 0.0)
        mean = _mean_product(packed)
        return np.asarray(square + np.log1p(-pairs).sum(axis=1) + (self.dim - k) * np.log(mean))

    def _fill(self, d: FloatArray, rng: Generator) -> FloatArray:
        """Draw the entries above one half, given those below: (n, dim) w."""
        outside = np.isnan(d)
        k = int((~outside).sum(axis=1).max(initial=0))
        packed = -np.sort(-np.where(outside, 0.0, d), axis=1)[:, :k]
        w = 0.5 - d
        row, column = np.nonzero(outside)
        while len(row):
            e = rng.random(len(row)) / 2
            share = np.minimum(1.0, 1.0 - packed[row] + e[:, None]).prod(axis=1)
            kept = rng.random(len(row)) < share
            w[row[kept], column[kept]] = 0.5 + e[kept]
            row, column = row[~kept], column[~kept]
        return np.asarray(w)


def _mean_product(d: FloatArray) -> FloatArray:
    """Return the mean over e uniform on [0, 1/2] of prod_i min(1, 1 - d_i + e), (n,).

    The rows of d fall. Between neighbouring d_i the product is a polynomial of degree at most
    k, which the nodes integrate exactly.
    """
    n, k = d.shape
    nodes, lengths = roots_legendre(k // 2 + 1)
    total = np.ones(n)
    for piece in range(k):
        top = d[:, piece]
        low = d[:, piece + 1] if piece + 1 < k else np.zeros(n)
        e = (top + low)[:, None] / 2 + (top - low)[:, None] / 2 * nodes
        product = np.ones_like(e)
        for i in range(piece + 1):
            product *= 1 - d[:, i : i + 1] + e
        total += (top - low) * ((product - 1) @ lengths)
    return total
