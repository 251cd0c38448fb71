"""Check that released numbers are on a public lattice and disclose no low bits of the value.

The low bits of a float depend on all its summands. The check examines released numbers as
integers in units of their lattice, and their differences from values that an attacker knows.
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

# Number of patterns of low bits, and the false-alarm rate of one check.
_PATTERNS, ALARM = 64, 1e-7
# Among so many multiples of a spacing, one is almost surely no multiple of twice the spacing.
_FEWEST = 64
# The spacing is at least 2^-_FINEST standard deviations.
_FINEST = 34
# Last bit of 0, which has no bit that is 1.
NO_BIT = 1100.0


def check_release(
    noise: Any,
    value: ArrayLike | None = None,
    other: ArrayLike | None = None,
    *,
    numbers: int = 6400,
    random_state: RandomStateLike = 0,
) -> None:
    """Raise AssertionError unless releases are lattice points that disclose no low bits.

    Two values are released many times. In each coordinate all released numbers must be multiples
    of one public power of two, at least 2^-34 standard deviations, and never -0.0. In units of
    that power, the six lowest bits of the released integer and of its differences from both
    values must be uniform: three chi-square tests for each value. The noise of a correct release
    spans about 2^30 units, so that the exact frequencies differ from 1/64 by less than 1e-7.

    Parameters
    ----------
    noise : Noise
        Noise with ``release(value, rng)``. For noise with guarantee, rvs and covariance only,
        `skdp.mechanisms.noise.release` is checked with its draws.
    value, other : array-like of shape (dim,) or None, default=None
        Two values that an attacker knows. None takes numbers without short binary expansions,
        less than a standard deviation apart.
    numbers : int >= 1280, default=6400
        Number of released numbers for each value, in all coordinates together; at least 64 in
        each coordinate.
    random_state : None, int, Generator or RandomState, default=0
        Source of the noise.

    Raises
    ------
    AssertionError
        If a rule is broken. A correct release fails with a probability below 1e-6.

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
    """Return the binary logarithm of the spacing of each coordinate."""
    for found in outputs:
        require(found.shape[1:] == deviation.shape, name, f"give {len(deviation)} numbers")
        require(bool(np.isfinite(found).all()), name, "give finite numbers")
        require(not np.signbit(found[found == 0]).any(), name, "never give -0.0")
    spacing = last_bits(np.vstack(outputs)).min(axis=0).astype(np.int64)
    fine = spacing < np.floor(np.log2(deviation)) - _FINEST
    require(not fine.any(), name, f"end at most {_FINEST} halvings below the standard deviation")
    return np.asarray(spacing, dtype=np.int64)


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


def last_bits(values: Array) -> Array:
    """Return k such that 2^k is the last nonzero bit of each float; NO_BIT if there is none."""
    with np.errstate(invalid="ignore"):
        share, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    mantissa = np.ldexp(share, 53).astype(np.int64)
    last = np.frexp((mantissa & -mantissa).astype(float))[1] - 1
    return np.where(mantissa == 0, NO_BIT, exponent - 53 + last).astype(float)


def _uniformity(patterns: NDArray[np.int64]) -> float:
    """Return the p-value of equal frequencies of all patterns."""
    counts = np.bincount(patterns.ravel(), minlength=_PATTERNS)
    expected = patterns.size / _PATTERNS
    return float(chi2(_PATTERNS - 1).sf(((counts - expected) ** 2).sum() / expected))
