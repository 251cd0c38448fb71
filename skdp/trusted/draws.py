"""Random numbers with a bounded distance from draws of real-valued laws.

A sampler that works with floats draws from a discrete law. For the functions of this module, the
distance to a draw of the exact law has a bound for every draw, also in both tails. The proofs of
the releases need such a bound (docs/proofs/lattice_release.md, Lemma 3), but no regular grid of
floats. `discrete_laplace` uses integers only and is exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.trusted.arrays import FloatArray

IntArray = NDArray[np.int64]
Size = int | tuple[int, ...] | None

# A draw of 128 scales, which has probability e^-128, still fits 64 bits.
MOST_SCALE = 2**55
_LOG_2 = math.log(2)
# For fewer draws the number of calls determines the time, not the number of draws.
_FEW = 4096
# Adding and subtracting this rounds to a multiple of 2^-18.
_SPLIT = 1.5 * 2.0 ** (52 - 18)


def uniforms(size: Size, rng: Generator) -> FloatArray:
    """Return draws from (0, 1), each within a factor 1 +- 2^-51 of a draw of the real law."""
    # The midpoint of a cell of the generator's grid is never 0.
    u = np.asarray(rng.random(size) + 2.0**-54)
    # Below 1/4 the grid is too coarse. The law given u < 1/4 is the uniform law divided by 4.
    flat, factor = u.reshape(-1), 1.0
    low = np.flatnonzero(flat < 0.25)
    while len(low):
        factor /= 4
        fresh = rng.random(len(low)) + 2.0**-54
        flat[low] = factor * fresh
        low = low[fresh < 0.25]
    return u


def exponentials(size: Size, rng: Generator) -> FloatArray:
    """Return standard exponential draws, each within a factor 1 +- 2^-50 of a draw of the law."""
    u = uniforms(size, rng)
    # A fair coin chooses the side of log 2. Both sides keep their relative precision.
    far = rng.random(size) < 0.5
    return np.asarray(-np.where(far, np.log(u) - _LOG_2, np.log1p(-u / 2)))


def gumbels(size: Size, rng: Generator) -> FloatArray:
    """Return standard Gumbel draws, each within 2^-49 (1 + |G|) of a draw G of the real law."""
    return np.asarray(-np.log(exponentials(size, rng)))


def normals(size: Size, rng: Generator) -> FloatArray:
    """Return standard normal draws, each within 2^-49 R of a draw of the real law.

    R is the radius of Box and Muller's method, which is at least the absolute value of the draw.
    """
    shape = () if size is None else (size,) if isinstance(size, int | np.integer) else size
    count = math.prod(shape)
    pairs = (count + 1) // 2
    radius = np.sqrt(2 * exponentials(pairs, rng))
    angle = 2 * math.pi * rng.random(pairs)
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return np.asarray(both[:count].reshape(shape))


def gamma(shape: int, rng: Generator) -> float:
    """Return one draw of a Gamma variable of integer shape: a sum of exponential draws."""
    return float(exponentials(shape, rng).sum())


def gammas(
    shape: float | FloatArray | IntArray, size: int | tuple[int, ...], rng: Generator
) -> FloatArray:
    """Return Gamma draws of shapes >= 1, by the method of Marsaglia & Tsang (2000).

    An accepted draw is computed by a few operations from a normal one, and a comparison of floats
    decides on acceptance. A few draws of one integer shape are sums of exponential draws.
    """
    wanted = (size,) if isinstance(size, int | np.integer) else tuple(size)
    if isinstance(shape, int) and shape * math.prod(wanted) <= _FEW:
        return np.asarray(exponentials((*wanted, shape), rng).sum(axis=-1))
    shapes = np.broadcast_to(np.asarray(shape, dtype=float), wanted).ravel()
    out, open_ = np.empty(len(shapes)), np.arange(len(shapes))
    while len(open_):
        d = shapes[open_] - 1 / 3
        x, u = normals(len(open_), rng), uniforms(len(open_), rng)
        v = np.maximum(1 + x / np.sqrt(9 * d), 0.0) ** 3
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = (v > 0) & (np.log(u) < x * x / 2 + d * (1 - v + np.log(v)))
        out[open_[kept]] = (d * v)[kept]
        open_ = open_[~kept]
    return out.reshape(wanted)


def signed(x: FloatArray, rng: Generator) -> FloatArray:
    """Return x >= 0 with fair signs."""
    return np.copysign(x, rng.random(np.shape(x)) - 0.5)


def discrete_laplace(scale: int, size: int, rng: Generator) -> IntArray:
    """Return integers k of probability proportional to exp(-|k| / scale), exactly.

    This is the method of Canonne, Kamath & Steinke (2020, Algorithms 1 and 2) for arrays. It
    compares uniform integers and uses no float. ``scale`` is an integer from 1 to 2^55.
    """
    # The difference of two geometric variables has this law.
    first, second = np.split(_geometric(scale, 2 * size, rng), 2)
    return first - second


def _geometric(scale: int, size: int, rng: Generator) -> IntArray:
    """Return integers k >= 0 of probability proportional to exp(-k / scale)."""
    return scale * _whole(scale, size, rng) + _rest(scale, size, rng)


def _whole(scale: int, size: int, rng: Generator) -> IntArray:
    """Return the numbers of events of probability 1 / e before one fails, (size,)."""
    events = np.empty(0, dtype=np.bool_)
    while np.count_nonzero(~events) < size:
        more = _happens(np.full(_enough(size), scale), scale, rng)
        events = np.concatenate([events, more])
    failures = np.flatnonzero(~events)[:size]
    return np.diff(failures, prepend=-1) - 1


def _rest(scale: int, size: int, rng: Generator) -> IntArray:
    """Return integers from 0 to scale - 1, of probability proportional to exp(-k / scale)."""
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < size:
        tried = rng.integers(0, scale, _enough(size))
        kept = np.concatenate([kept, tried[_happens(tried, scale, rng)]])
    return kept[:size]


def _enough(size: int) -> int:
    """Return a number of tries, each kept with probability 1 - 1 / e, of which ``size`` are kept.

    Rarely fewer are kept; then more tries follow.
    """
    return math.ceil(1.6 * size + 4 * math.sqrt(size) + 4)


def _happens(part: IntArray, scale: int, rng: Generator) -> NDArray[np.bool_]:
    """Return events of probability exp(-part / scale), for 0 <= part <= scale."""
    # The first k at which an event of probability part / (scale k) fails is odd so often.
    odd = np.ones(len(part), dtype=np.bool_)
    open_, k = np.arange(len(part)), 1
    if len(part) < _FEW:  # more draws, but fewer calls
        bounds = scale * np.arange(1, 5)
        happened = rng.integers(0, bounds, (len(part), 4)) < part[:, None]
        failed = np.where(happened.all(axis=1), 4, np.argmin(happened, axis=1))
        odd, open_, k = failed % 2 == 0, np.flatnonzero(failed == 4), 5
    while len(open_):
        open_ = open_[rng.integers(0, scale * k, len(open_)) < part[open_]]
        odd[open_] ^= True
        k += 1
    return odd


def wishart(rows: int, degrees: int, rng: Generator) -> FloatArray:
    """Return G G' for a matrix G of standard normal draws, (rows, rows).

    Each entry is within about sqrt(degrees) 2^-48 of sqrt(degrees) from one of the real law. A
    product of matrices of floats rounds once for each term. Here multiples of 2^-18 are multiplied
    first, and their products add up exactly. The rest is 2^-18 of the whole.
    """
    factor = normals((rows, degrees), rng)
    coarse = factor + _SPLIT
    coarse -= _SPLIT
    rest = factor - coarse
    cross = rest @ (factor + coarse).T  # its symmetric part is the contribution of the rest
    return np.asarray(coarse @ coarse.T + (cross + cross.T) / 2)
