"""Records of a small domain, frames for them, and the sums of what they add."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from skdp import Domain
from skdp.linear_model._descent.first_look import Rows, plain_frame
from skdp.linear_model._descent.records import Predictors, Records
from skdp.linear_model._descent.slopes import ResidualSlope, logistic_slope
from skdp.linear_model._shared.gram import GRAM_BITS, NUMBER_BITS

ONE = 2**GRAM_BITS
STEP = 2.0**-NUMBER_BITS
MIXED = Domain({"a": (-1, 1), "b": (-1, 1), "job": ["x", "y", "z"]})
SLOPES = {"logistic": logistic_slope, "residual": ResidualSlope(0.3)}


def plain(slots, bound=None):
    """The frame of the domain itself; ``bound`` is on the square of a record's length."""
    return plain_frame(slots, 100.0, Rows(np.ones(len(slots)), bound))


def framed(slots, centre=0.0, scale=1.0, bound=None):
    """A frame of one centre and one scale, or of one for each number."""
    ones = np.ones(len(slots.numbers))
    return replace(plain(slots, bound), centre=centre * ones, scale=scale * ones)


def table(n, seed=0):
    """Rows of MIXED, and targets 0 or 1."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), dtype=object)
    X[:, :2] = rng.uniform(-1.2, 1.2, (n, 2))
    X[:, 2] = rng.choice(["x", "y", "z", "?"], n)
    return X, rng.integers(0, 2, n).astype(float)


def moved(slots, seed, size=1.0):
    """Moves along all slots."""
    rng = np.random.default_rng(seed)
    return [(k, size * rng.uniform(-1, 1, count)) for k, count in enumerate(slots.sizes)]


def sums(slots, frame, X, y, slope, moves=(), clips=None):
    """The sums for all coordinates: one slot after the other while predictors move."""
    predictors = Predictors(Records(slots, frame, X, len(y)), y, slope, clips)
    found = [predictors.gradients()]
    for slot, change in moves:
        predictors.move(slot, change)
        found.append(predictors.gradient(slot))
    found.append(predictors.gradients())
    return np.concatenate(found)


def on_grid(value):
    return float(round(Fraction(value) * 2**NUMBER_BITS)) / 2**NUMBER_BITS
