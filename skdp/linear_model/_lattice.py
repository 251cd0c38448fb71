"""Integers with noise: a release on the lattice of multiples of 2^-40."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.geometry.moments import MomentLayout
from skdp.linear_model._gram import GRAM_BITS
from skdp.mechanisms.noise import Noise

FloatArray = NDArray[np.float64]


def noisy_statistic(
    layout: MomentLayout, gram: NDArray[Any], noise: Noise, rng: Generator
) -> FloatArray:
    """Return the noisy entries, (dim,), of an exact Gram matrix in units of 2^-40."""
    i, j = layout.pairs.T
    scale, shift = (v.astype(np.int64) for v in (layout.scale, layout.shift))
    exact = scale * gram[i, j] - shift * gram[0, 0]
    return noisy_integers(exact, noise.rvs(rng), rng)


def noisy_integers(exact: NDArray[Any], noise: FloatArray, rng: Generator) -> FloatArray:
    """Return integers in units of 2^-40 with noise, as floats.

    Sum and noise are integers in that unit, so that the result is a lattice point whatever the
    data, and the data themselves were not rounded: nothing has to be paid for.
    """
    return as_floats(exact + on_lattice(noise, rng))


def as_floats(units: NDArray[Any]) -> FloatArray:
    """Return integers in units of 2^-40 as floats."""
    return np.array([int(m) / 2**GRAM_BITS for m in units])


def on_lattice(noise: FloatArray, rng: Generator) -> NDArray[Any]:
    """Return noise in units of 2^-40, as integers.

    A float beyond 2^13 has no bits that fine. They are drawn: else the data's own would show.
    """
    missing = np.frexp(noise)[1] - (53 - GRAM_BITS)
    # Rounding down commutes with adding whole units: the sum is that of exact noise, rounded.
    coarse = [math.floor(v) for v in np.ldexp(noise, GRAM_BITS).tolist()]
    pairs = zip(coarse, missing.tolist(), strict=True)
    return np.array([c + _random_bits(m, rng) for c, m in pairs], dtype=object)


def _random_bits(count: int, rng: Generator) -> int:
    """Return a number drawn from 0, ..., 2^count - 1."""
    if count <= 0:
        return 0
    return int.from_bytes(rng.bytes(-(-count // 8)), "little") >> (-count % 8)
