"""Directions spread about a sphere: where a body's support is asked for."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from skdp._arrays import FloatArray
from skdp.geometry.hull.polytope import MOST_PAIRS

# Pairs of facets around a body in two and three dimensions: the polytope is about one percent
# greater than a round body.
ROUND = {2: 30, 3: 128}
GOLDEN = (1 + 5**0.5) / 2


def spread(dim: int, count: int | None = None) -> FloatArray:
    """Return directions, one of each pair +-, of shape (about count, dim), the axes among them.

    Without a count: enough for a round body in up to three dimensions, then the axes and the
    diagonals of two axes, and above eight dimensions the axes alone.
    """
    axes = np.eye(dim)
    if count is None and dim not in ROUND:
        return np.concatenate([axes, _diagonals(dim)]) if dim in MOST_PAIRS else axes
    rest = max(0, ROUND.get(dim, 0) if count is None else count - dim)
    if dim == 2:
        angles = np.pi * np.arange(rest + 2) / (rest + 2)
        looks = np.column_stack([np.cos(angles), np.sin(angles)])
        return np.concatenate([axes, looks[np.abs(looks).min(axis=1) > 1e-9]])
    if dim == 3:
        return np.concatenate([axes, _spiral(rest)])
    looks = np.random.default_rng(0).standard_normal((rest, dim))
    looks /= np.linalg.norm(looks, axis=1, keepdims=True)
    return np.concatenate([axes, np.concatenate([_diagonals(dim), looks])[:rest]])


def _diagonals(dim: int) -> FloatArray:
    rows = np.zeros((dim * (dim - 1), dim))
    for k, (i, j) in enumerate(combinations(range(dim), 2)):
        rows[2 * k : 2 * k + 2, [i, j]] = (1.0, 1.0), (1.0, -1.0)
    return rows


def _spiral(count: int) -> FloatArray:
    """Return points of the upper half sphere, each with about the same room around it."""
    height = (np.arange(count) + 0.5) / max(count, 1)
    turn, width = 2 * np.pi * np.arange(count) / GOLDEN, np.sqrt(1 - height**2)
    return np.column_stack([width * np.cos(turn), width * np.sin(turn), height])
