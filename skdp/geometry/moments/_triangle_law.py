"""The exact law of the level-2 body, drawn by coupling from the past.

Number the constant 0 and the variables 1, ..., P; write w_ij = 1 - |u_ij| / 2 for the edges of
the complete graph on them, u_0j the linear entries, and c_i = 1 - |u_ii| / 2 for the squares. The
body is: all in [0, 1], w_ij + w_ik + w_jk >= 1 in its triangles, c_i >= 1 - 4 w (1 - w) for
w = min(w_ij, 1/2) at its edges of i. Given all others, each of them is uniform on some [L, 1],
with L falling in the others. That makes a Gibbs sampler with one draw from the past:

* A draw from [L, 1] is the first number above L in a rising sequence v_1 < v_2 < ..., v_1 uniform
  on [L_0, 1] and v_(m+1) uniform on [v_m, 1], for any L_0 <= L. If it is only known that L is in
  [L_0, L_1], the draw lies between v_1 and the first v_m > L_1; it is known if v_1 > L_1.
* A box that contains the state is updated so, entry by entry, until it is a single point. From
  then on the state does not depend on its start.
* A block is a fixed number of sweeps. A block that takes the whole body to a point is a hit. The
  state just before a hit, in a run of blocks that had a hit before, is uniform on the body
  (Wilson 2000, read-once coupling from the past).

Two edges without a common end are in no triangle together, so a sweep takes the perfect
matchings of the graph one by one, each in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.geometry.moments.layout import IntArray

# With more variables a single draw takes many seconds.
MOST_VARIABLES = 100
# With more variables exact draws with all triples take too long.
MOST_WITH_ALL = 12
# Then each entry is in so many triples, and each square in so many pairs.
TRIPLES, PAIRS = 5, 6


# Triples of entries, and pairs of an entry and a square, that are constrained


@lru_cache(maxsize=16)
def third_nodes(n_variables: int, level: int) -> IntArray:
    """Return the k of all triples (ij, ik, jk), (V, V, count) for V nodes 0, ..., n_variables.

    If there are fewer than count, i itself fills the places.
    """
    n_nodes = n_variables + 1
    if level == 1:
        return np.zeros((n_nodes, n_nodes, 1), dtype=np.intp)
    if n_variables <= MOST_WITH_ALL:
        return np.tile(np.arange(n_nodes), (n_nodes, n_nodes, 1))
    nodes = np.arange(n_nodes)
    out = np.tile(nodes[:, None, None], (1, n_nodes, TRIPLES))
    used = np.zeros((n_nodes, n_nodes), dtype=np.intp)
    for first, second in _steps(n_nodes):
        corners = (nodes, (nodes + first) % n_nodes, (nodes + first + second) % n_nodes)
        for turn in range(3):
            i, j, k = (corners[(turn + step) % 3] for step in range(3))
            out[i, j, used[i, j]] = out[j, i, used[j, i]] = k
            used[i, j] += 1
            used[j, i] += 1
    return out


@lru_cache(maxsize=16)
def squares_held(n_variables: int, level: int) -> NDArray[np.bool_]:
    """Return whether (u_ij, u_ii) is constrained, (V, V): always for j = 0."""
    n_nodes = n_variables + 1
    if level == 2 and n_variables <= MOST_WITH_ALL:
        return np.ones((n_nodes, n_nodes), dtype=np.bool_)
    held = np.zeros((n_nodes, n_nodes), dtype=np.bool_)
    held[:, 0] = True
    nodes = np.arange(n_nodes)
    for step in range(1, PAIRS if level == 2 else 1):
        held[nodes, (nodes + step) % n_nodes] = True
    return held


def _steps(n_nodes: int) -> Iterator[tuple[int, int]]:
    """Yield (a, b); the triples x, x + a, x + a + b modulo n_nodes are taken for each x.

    The three differences are distinct up to sign, so each pair of nodes of such a difference is
    in one triple of the step.
    """
    half = (n_nodes - 1) // 2
    free = np.full(half + 1, TRIPLES)
    sizes = range(1, half + 1)
    # The steps (a, b, c), (b, c, a), (c, a, b) with a + b + c = V give the same triples.
    steps = [(a, b, n_nodes - a - b) for a in sizes for b in sizes]
    rounds = {min((a, b, c), (b, c, a), (c, a, b)) for a, b, c in steps}
    # Any order is valid. Neighbouring steps share triples, which a mixed order avoids.
    for a, b, c in sorted(rounds, key=lambda step: (7919 * step[0] + 104729 * step[1]) % 1009):
        differences = [min(step, n_nodes - step) for step in (a, b, c)]
        distinct = len(set(differences)) == 3 and max(differences) <= half
        if distinct and free[differences].all():
            free[differences] -= 1
            yield a, b


# The law


@dataclass
class Box:
    """Bounds on the state of n chains: edges (n, V, V), symmetric, and squares (n, n_squares)."""

    edges: FloatArray
    squares: FloatArray


@dataclass(frozen=True)
class TriangleLaw:
    """Uniform law of (w, c), all pairs and triangles of P variables and the constant.

    Parameters
    ----------
    n_squares : int, >= 0
        The first n_squares variables have a square.
    n_plain : int, >= 0
        Number of the others.
    """

    n_squares: int
    n_plain: int

    @property
    def n_nodes(self) -> int:
        """Number of the variables and the constant, V."""
        return 1 + self.n_squares + self.n_plain

    def sample(self, n: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return n draws of w, (n, V, V) with ones on the diagonal, and of c, (n, n_squares)."""
        state = self._after_a_hit(n, rng)
        out, running = self._whole(n, 0.0), np.arange(n)
        while len(running):
            before = state
            state, hit = self._block(state, rng)
            out.edges[running[hit]] = before.edges[hit]
            out.squares[running[hit]] = before.squares[hit]
            state, running = _keep(state, ~hit), running[~hit]
        return out.edges, out.squares

    def _after_a_hit(self, n: int, rng: Generator) -> Box:
        out, running = self._whole(n, 0.0), np.arange(n)
        while len(running):
            state, hit = self._block(self._whole(len(running), 1.0), rng)
            out.edges[running[hit]] = state.edges[hit]
            out.squares[running[hit]] = state.squares[hit]
            running = running[~hit]
        return out

    @property
    def _held(self) -> NDArray[np.bool_]:
        return squares_held(self.n_nodes - 1, 2)

    @property
    def _sweeps(self) -> int:
        """Sweeps in a block, found by trial so that a hit is likely."""
        if self.n_nodes <= MOST_WITH_ALL + 1:
            return 4 + self.n_nodes**2 // 3
        return 40 + self.n_nodes // 3

    @cached_property
    def _matchings(self) -> list[tuple[IntArray, IntArray]]:
        """The edges in rounds of a tournament, in each of which a node has at most one."""
        size = self.n_nodes + self.n_nodes % 2
        ring, rounds = list(range(size)), []
        for _ in range(size - 1):
            games = [(ring[k], ring[-1 - k]) for k in range(size // 2)]
            i, j = np.array([g for g in games if max(g) < self.n_nodes], dtype=np.intp).T
            rounds.append((i, j))
            ring = [ring[0], ring[-1], *ring[1:-1]]
        return rounds

    def _whole(self, n: int, value: float) -> Box:
        """Return n boxes' lower corners (0) or upper ones (1)."""
        edges = np.full((n, self.n_nodes, self.n_nodes), value)
        nodes = np.arange(self.n_nodes)
        edges[:, nodes, nodes] = 1.0
        return Box(edges, np.full((n, self.n_squares), value))

    def _block(self, state: Box, rng: Generator) -> tuple[Box, IntArray]:
        """Move states through a block; return them and whether it was a hit."""
        n = len(state.edges)
        low, high = self._whole(n, 0.0), self._whole(n, 1.0)
        state = Box(state.edges.copy(), state.squares.copy())
        for _ in range(self._sweeps):
            self._sweep(low, high, state, rng)
        hit = (low.edges == high.edges).all(axis=(1, 2)) & (low.squares == high.squares).all(axis=1)
        return state, hit

    def _sweep(self, low: Box, high: Box, state: Box, rng: Generator) -> None:
        for i, j in self._matchings:
            # L falls in the others, hence high and low change places.
            least, greatest, own = (self._edge_ends(box, i, j) for box in (high, low, state))
            drawn = _draw(least, greatest, own, rng)
            for box, value in zip((low, high, state), drawn, strict=True):
                box.edges[:, i, j] = box.edges[:, j, i] = value
        if self.n_squares:
            least, greatest, own = map(self._square_ends, (high, low, state))
            drawn = _draw(least, greatest, own, rng)
            low.squares, high.squares, state.squares = drawn

    def _edge_ends(self, box: Box, i: IntArray, j: IntArray) -> FloatArray:
        """Return L of the edges (i, j)."""
        # For k = i or j the sum is at least 1, as the diagonal is 1, and gives no constraint.
        k, rows, columns = third_nodes(self.n_nodes - 1, 2)[i, j], i[:, None], j[:, None]
        ends = 1 - (box.edges[:, rows, k] + box.edges[:, columns, k]).min(axis=2)
        squares = np.ones((len(ends), self.n_nodes))
        squares[:, 1 : 1 + self.n_squares] = box.squares
        first = np.where(self._held[i, j], squares[:, i], 1.0)
        least = np.minimum(first, np.where(self._held[j, i], squares[:, j], 1.0))
        return np.asarray(np.maximum(np.maximum(ends, 0.0), (1 - np.sqrt(least)) / 2))

    def _square_ends(self, box: Box) -> FloatArray:
        """Return L of the squares."""
        own = slice(1, 1 + self.n_squares)
        least = np.where(self._held[own], box.edges[:, own], 0.5).min(axis=2).clip(max=0.5)
        return np.asarray(1 - 4 * least * (1 - least))


def _keep(box: Box, chosen: IntArray) -> Box:
    return Box(box.edges[chosen], box.squares[chosen])


def _draw(
    least: FloatArray, greatest: FloatArray, own: FloatArray, rng: Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw from [L, 1] by one sequence; return its bounds over [least, greatest], and it at own."""
    low = least + (1 - least) * rng.random(least.shape)
    high, value = low.copy(), low.copy()
    while (missing := high < greatest).any():
        high[missing] += (1 - high[missing]) * rng.random(int(missing.sum()))
        # The sequence goes on for all; the draw of the state stops at its own L.
        value = np.where(missing & (value < own), high, value)
    return low, high, value
