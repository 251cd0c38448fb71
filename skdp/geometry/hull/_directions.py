"""Directions spread over a sphere, for the support of a body."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from skdp._arrays import FloatArray
from skdp.geometry.hull.polytope import MOST_PAIRS

# Pairs of facets in two and three dimensions, for which the polytope around a round body is about
# one percent greater.
ROUND = {2: 30, 3: 128}
GOLDEN = (1 + 5**0.5) / 2


def spread(dim: int, count: int | None = None) -> FloatArray:
    """Return directions, one of each pair +-, of shape (about count, dim), the axes among them.

    Without a count there are enough for a round body in two or three dimensions, in up to eight
    dimensions the axes and the diagonals of two axes, and in more dimensions only the axes.
    """
    axes = np.eye(dim)
    if count is None and dim not in ROUND:
        return np.concatenate([axes, _diagonals(dim)]) if dim in MOST_PAIRS else axes
    rest = max(0, ROUND.get(dim, 0) if count is None else count - dim)
    if dim == 2:
        angles = np.pi * np.arange(rest + 2) / (rest + 2)
        further = np.column_stack([np.cos(angles), np.sin(angles)])
        return np.concatenate([axes, further[np.abs(further).min(axis=1) > 1e-9]])
    if dim == 3:
        return np.concatenate([axes, _spiral(rest)])
    further = np.random.default_rng(0).standard_normal((rest, dim))
    further /= np.linalg.norm(further, axis=1, keepdims=True)
    return np.concatenate([axes, np.concatenate([_diagonals(dim), further])[:rest]])


def _diagonals(dim: int) -> FloatArray:
    rows = np.zeros((dim * (dim - 1), dim))
    for k, (i, j) in enumerate(combinations(range(dim), 2)):
        rows[2 * k : 2 * k + 2, [i, j]] = (1.0, 1.0), (1.0, -1.0)
    return rows


def _spiral(count: int) -> FloatArray:
    """Return nearly evenly spread points of the upper half sphere."""
    height = (np.arange(count) + 0.5) / max(count, 1)
    turn, width = 2 * np.pi * np.arange(count) / GOLDEN, np.sqrt(1 - height**2)
    return np.column_stack([width * np.cos(turn), width * np.sin(turn), height])
