"""A check that what a noise releases lies on a public lattice and shows no low bits of the value.

A float carries low bits of everything that was added to make it. The check looks at the integers
that released numbers are in units of their lattice, and at their differences from the values that
an attacker knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from skdp._checks import check_count, fail
from skdp.mechanisms.noise import release, variances
from skdp.randomness import RandomStateLike, as_generator
from skdp.testing._require import require

Array = NDArray[np.float64]

# What is looked at of each integer, and the false-alarm rate of one check.
_PATTERNS, ALARM = 64, 1e-7
# Of so many multiples hardly ever all are multiples of twice the distance, too.
_FEWEST = 64
# About so many halvings below the standard deviation is where the lattice must end at the latest.
_FINEST = 34


def check_release(
    noise: Any,
    value: ArrayLike | None = None,
    other: ArrayLike | None = None,
    *,
    numbers: int = 6400,
    random_state: RandomStateLike = 0,
) -> None:
    """Check that a noise releases lattice points that tell no low bits of the value.

    Both values are released many times. All released numbers must be multiples of one public
    power of two for each coordinate, at most 34 halvings below the standard deviation, and never
    -0.0. In units of that power, the six lowest bits of the released integer, and of its
    distances from both values, must be uniform: three chi-square tests for each value. The noise
    of a correct release spans some 2^30 units, so that the exact shares differ from 1/64 by less
    than 1e-7.

    Parameters
    ----------
    noise : Noise
        With ``release(value, rng)``, or with guarantee, rvs and covariance only: then
        `skdp.mechanisms.noise.release` is checked with its draws.
    value, other : array-like of shape (dim,), or None
        Two values that an attacker knows. None takes numbers without short binary expansions,
        less than a standard deviation apart.
    numbers : int >= 1280
        How many numbers are released of each value, all coordinates together; 64 of each
        coordinate at least.
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState

    Raises
    ------
    AssertionError
        If a rule does not hold. A correct release fails with a probability below 1e-6.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("gaussian", Sensitivity(LpBall(3)), epsilon=0.01, delta=1e-6)
    >>> check_release(noise)
    """
    numbers = check_count("numbers", numbers, 20 * _PATTERNS)
    name, deviation = f"{type(noise).__name__}.release", np.sqrt(variances(noise))
    values = _values(value, deviation, 1 / 3), _values(other, deviation, -2 / 7)
    rng = as_generator(random_state)
    repeats = max(_FEWEST, -(-numbers // len(deviation)))
    outputs = [np.array([_released(noise, v, rng) for _ in range(repeats)]) for v in values]
    spacing = _lattice_of(outputs, deviation, name)
    for found in outputs:
        units = np.ldexp(found, -spacing)
        for start in (np.zeros(len(deviation)), *values):
            # Both are far below 2^53 units: the difference of the floors is exact.
            steps = units - np.floor(np.ldexp(start, -spacing))
            share = _uniformity(steps.astype(np.int64) % _PATTERNS)
            require(share > ALARM, name, "have uniform low bits", f"p = {share:.1g}")


def _lattice_of(outputs: list[Array], deviation: Array, name: str) -> NDArray[np.int64]:
    """Return the logarithms of the spacings that all released numbers are multiples of."""
    for found in outputs:
        require(found.shape[1:] == deviation.shape, name, f"give {len(deviation)} numbers")
        require(bool(np.isfinite(found).all()), name, "give finite numbers")
        require(not np.signbit(found[found == 0]).any(), name, "never give -0.0")
    spacing = np.min([_spacing(np.abs(found)) for found in outputs], axis=0)
    fine = spacing < np.floor(np.log2(deviation)) - _FINEST
    require(not fine.any(), name, f"end at most {_FINEST} halvings below the standard deviation")
    return np.asarray(spacing)


def _released(noise: Any, value: Array, rng: Generator) -> Array:
    own = getattr(noise, "release", None)
    return np.asarray(own(value, rng) if own else release(noise, value, rng))


def _values(value: ArrayLike | None, deviation: Array, start: float) -> Array:
    if value is None:
        return np.asarray(deviation * (start + np.sqrt(np.arange(len(deviation)) % 7) / 11))
    numbers = np.asarray(value, dtype=float)
    if numbers.shape != deviation.shape or not (np.abs(numbers) < 2.0**15 * deviation).all():
        rule = f"be {len(deviation)} numbers below 2^15 standard deviations of the noise"
        raise fail("value", rule)
    return numbers


def _spacing(sizes: Array) -> NDArray[np.int64]:
    """Return for each column the greatest k such that all entries are multiples of 2^k."""
    share, exponent = np.frexp(sizes)
    whole = np.ldexp(share, 53).astype(np.int64)
    low = np.log2(np.where(whole > 0, whole & -whole, 1)).astype(np.int64)
    trailing = np.where(whole > 0, exponent - 53 + low, 1100)
    return np.asarray(trailing.min(axis=0), dtype=np.int64)


def _uniformity(patterns: NDArray[np.int64]) -> float:
    """Return the p-value of equal shares of all patterns."""
    counts = np.bincount(patterns.ravel(), minlength=_PATTERNS)
    expected = patterns.size / _PATTERNS
    return float(chi2(_PATTERNS - 1).sf(((counts - expected) ** 2).sum() / expected))
