"""Which triples of entries, and which pairs of an entry and a square, a body of moments holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skdp.geometry.moments.layout import IntArray

# With more variables than this, all triples together cannot be drawn exactly any more.
MOST_WITH_ALL = 12
# Then each entry takes part in so many triples, each square in so many pairs.
TRIPLES, PAIRS = 5, 6


@lru_cache(maxsize=16)
def third_nodes(n_variables: int, level: int) -> IntArray:
    """Return the k of all triples (ij, ik, jk), (V, V, count) for V nodes 0, ..., n_variables.

    Where there are fewer than count, i itself takes the place.
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
    """Return whether (u_ij, u_ii) is held, (V, V): always for j = 0."""
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
    """Yield (a, b): the triples x, x + a, x + a + b modulo n_nodes, each x, are taken.

    The three differences are distinct up to sign, so each pair of nodes of such a difference is
    in one triple of the step.
    """
    half = (n_nodes - 1) // 2
    free = np.full(half + 1, TRIPLES)
    sizes = range(1, half + 1)
    # Going round, the same triples have the steps (a, b, c), (b, c, a), (c, a, b), a + b + c = V.
    steps = [(a, b, n_nodes - a - b) for a in sizes for b in sizes]
    rounds = {min((a, b, c), (b, c, a), (c, a, b)) for a, b, c in steps}
    # Any order would do. Neighbouring steps share triples, which a mixed order avoids.
    for a, b, c in sorted(rounds, key=lambda step: (7919 * step[0] + 104729 * step[1]) % 1009):
        differences = [min(step, n_nodes - step) for step in (a, b, c)]
        distinct = len(set(differences)) == 3 and max(differences) <= half
        if distinct and free[differences].all():
            free[differences] -= 1
            yield a, b
