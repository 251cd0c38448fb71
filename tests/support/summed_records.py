"""Records of a small domain, scalings for them, and the sums of what they add."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import inner_descent
import numpy as np
from inner_descent import Gradients, RowBound, clipped_residual, keep_scaled, logistic_slope
from inner_fits import GRAM_BITS, NUMBER_BITS

from skdp import Domain
from skdp.rows import MemoryRows

ONE = 2**GRAM_BITS
STEP = 2.0**-NUMBER_BITS
# Two levels come before the column of more, so that positions among columns differ.
MIXED = Domain({"a": (-1, 1), "sex": ["f", "m"], "b": (-1, 1), "job": ["x", "y", "z"]})
SLOPES = {"logistic": logistic_slope, "residual": clipped_residual(0.3)}


def plain(blocks, bound=None):
    """The scaling of the domain itself; ``bound`` is on the square of a record's length."""
    return inner_descent.plain_scaling(blocks, 100.0, RowBound(np.ones(len(blocks)), bound))


def scaled(blocks, centre=0.0, scale=1.0, bound=None):
    """A scaling of one centre and one scale, or of one for each number, two levels being one."""
    ones = np.ones(len(blocks.scaled))
    return replace(plain(blocks, bound), centre=centre * ones, scale=scale * ones)


def table(n, seed=0):
    """Rows of MIXED, and targets 0 or 1."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, 4), dtype=object)
    X[:, [0, 2]] = rng.uniform(-1.2, 1.2, (n, 2))
    X[:, 1] = rng.choice(["f", "m", "?"], n)
    X[:, 3] = rng.choice(["x", "y", "z", "?"], n)
    return X, rng.integers(0, 2, n).astype(float)


def moved(blocks, seed, size=1.0):
    rng = np.random.default_rng(seed)
    return [(k, size * rng.uniform(-1, 1, count)) for k, count in enumerate(blocks.sizes)]


def kept(blocks, scaling, X, y=None):
    """Scaled rows of a table; y is a target or positions of labels."""
    target = np.zeros(len(X)) if y is None else y
    return keep_scaled(MemoryRows(blocks.domain, X, target), blocks, scaling)


def one_state(blocks, scaling, X):
    (state,) = kept(blocks, scaling, X).states
    return state


def gradients(blocks, scaling, X, y, slope, clips=None):
    return Gradients(kept(blocks, scaling, X, y), blocks, None, slope, clips)


def sums(blocks, scaling, X, y, slope, moves=(), clips=None):
    """The sums for all coordinates: one block after the other while predictors move."""
    return sums_along(gradients(blocks, scaling, X, y, slope, clips), moves)


def sums_along(model, moves):
    """The sums of a model for all coordinates, of each block after its move, and of all."""
    found = [model.of_all()]
    for block, change in moves:
        model.move(block, change)
        found.append(model.of_block(block))
    found.append(model.of_all())
    return np.concatenate(found)


def on_grid(value):
    return float(round(Fraction(value) * 2**NUMBER_BITS)) / 2**NUMBER_BITS
