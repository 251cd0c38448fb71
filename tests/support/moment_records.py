"""Records of a moment layout, drawn at random or climbed to where a function is greatest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp.geometry.moments import MomentLayout

Array = np.ndarray[Any, np.dtype[np.float64]]
GRID = np.linspace(-1, 1, 9)

# Numbers with and without target, blocks of one size and of several, columns in any order.
# Arguments: columns, numbers, blocks, whether there is a target, and its square.
LAYOUTS: dict[str, tuple[Any, ...]] = {
    "one number": (1, (0,)),
    "one number alone": (1, (0,), (), False),
    "two numbers": (2, (0, 1)),
    "three numbers, all squares": (3, (0, 1, 2), (), True, True),
    "three numbers alone": (3, (0, 1, 2), (), False),
    "one block": (3, (), ((0, 1, 2),)),
    "one block alone": (2, (), ((0, 1),), False),
    "two columns of two levels": (2, (), ((0,), (1,))),
    "mixed": (4, (1,), ((0, 2), (3,))),
    "mixed, twin blocks": (6, (0, 3), ((1, 2), (4, 5))),
}


def draw_rows(layout: MomentLayout, n: int, rng: Generator) -> Array:
    """Return n rows (1, x, y): half of the numbers at -1, 0 or 1, blocks at any level."""
    rows = np.zeros((n, layout.n_rows))
    rows[:, 0] = 1
    shape = (n, len(layout.variables))
    corner = rng.integers(-1, 2, shape)
    rows[:, layout.variables] = np.where(rng.random(shape) < 0.5, corner, rng.uniform(-1, 1, shape))
    for block in layout.block_columns:
        rows[:, block] = levels(len(block))[rng.integers(0, len(block) + 1, n)]
    return rows


def levels(m: int) -> Array:
    return np.eye(m + 1, m, k=-1)


def moments(layout: MomentLayout, rows: Array) -> Array:
    """Return the statistic of each single row."""
    return layout.statistic(rows[:, :, None] * rows[:, None, :])


def changes(layout: MomentLayout, rows: Array, others: Array) -> Array:
    """Return what changes when a row is replaced by the other, or when it is added."""
    if layout.adds:
        return moments(layout, rows)
    return moments(layout, rows) - moments(layout, others)


def moves(layout: MomentLayout, rows: Array, width: float, rng: Generator) -> Iterator[Array]:
    """Yield the rows with one column of numbers or one block set anew, in every way."""
    for j in layout.variables.tolist():
        for value in GRID:
            yield with_columns(rows, [j], np.full((len(rows), 1), value))
        for _ in range(4):
            near = rows[:, [j]] + width * rng.normal(size=(len(rows), 1))
            yield with_columns(rows, [j], near.clip(-1, 1))
    for block in layout.block_columns:
        for level in levels(len(block)):
            yield with_columns(rows, block.tolist(), np.tile(level, (len(rows), 1)))


def with_columns(rows: Array, columns: list[int], values: Array) -> Array:
    out = rows.copy()
    out[:, columns] = values
    return out


def greatest(
    layout: MomentLayout,
    function: Callable[[Array], Array],
    rng: Generator,
    starts: int = 60,
    rounds: int = 6,
) -> float:
    """Return the greatest value of a function of the change that a local search has found."""
    pair = [draw_rows(layout, starts, rng), draw_rows(layout, starts, rng)]
    best = function(changes(layout, *pair))
    for step in range(rounds):
        for side in (0,) if layout.adds else (0, 1):
            for moved in moves(layout, pair[side].copy(), 0.3 / 3**step, rng):
                new = [moved, pair[1]] if side == 0 else [pair[0], moved]
                value = function(changes(layout, *new))
                better = value > best
                pair[side] = np.where(better[:, None], moved, pair[side])
                best = np.maximum(value, best)
    return float(best.max())
