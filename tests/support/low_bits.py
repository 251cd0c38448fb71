"""A check of releases: they are points of a lattice, and their low bits tell nothing.

The low bits of a float depend on all its summands. Released numbers are examined as integers in
units of their lattice, and so are their differences from values that an attacker knows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from inner_package import require
from scipy.stats import chi2

from skdp.mechanisms import release
from skdp.trusted.noise import variances

# Number of patterns of low bits, and the false-alarm rate of one check.
_PATTERNS, RELEASE_ALARM = 64, 1e-7
# Among so many multiples of a spacing, one is almost surely no multiple of twice the spacing.
_FEWEST = 64
# The spacing is at least 2^-_FINEST standard deviations.
_FINEST = 34
# In place of the last bit of 0.
_NO_BIT = 1100


def check_release(noise: Any, numbers: int = 6400) -> None:
    """Raise AssertionError unless releases are lattice points that disclose no low bits.

    Two values without short binary expansions are released many times. In each coordinate all
    released numbers must be multiples of one public power of two, at least 2^-34 standard
    deviations, and never -0.0. In units of that power, the six lowest bits of the released integer
    and of its differences from both values must be uniform: three chi-square tests for each value.
    The noise of a correct release spans about 2^30 units, so that the exact frequencies differ from
    1/64 by less than 1e-7.

    ``numbers`` is that of released numbers for each value, in all coordinates together. A correct
    release fails with a probability below 1e-6. Noise without ``release`` is published by
    `skdp.mechanisms.release`.
    """
    name, deviation = f"{type(noise).__name__}.release", np.sqrt(variances(noise))
    roots = np.sqrt(np.arange(len(deviation)) % 7) / 11
    values = deviation * (1 / 3 + roots), deviation * (-2 / 7 + roots)
    rng = np.random.default_rng(0)
    repeats = max(_FEWEST, -(-numbers // len(deviation)))
    own = getattr(noise, "release", None) or partial(release, noise)
    outputs = [np.array([own(v, rng) for _ in range(repeats)]) for v in values]
    for found in outputs:
        require(found.shape[1:] == deviation.shape, name, f"give {len(deviation)} numbers")
        require(np.isfinite(found).all(), name, "give finite numbers")
        require(not np.signbit(found[found == 0]).any(), name, "never give -0.0")
    # The last bit of each number that is 1, and of each coordinate.
    share, exponent = np.frexp(np.vstack(outputs))
    mantissa = np.ldexp(share, 53).astype(np.int64)
    last = exponent - 54 + np.frexp((mantissa & -mantissa).astype(float))[1]
    spacing = np.where(mantissa == 0, _NO_BIT, last).min(axis=0).astype(np.int64)
    fine = spacing < np.floor(np.log2(deviation)) - _FINEST
    require(not fine.any(), name, f"end at most {_FINEST} halvings below the standard deviation")
    for found in outputs:
        units = np.ldexp(found, -spacing)
        for start in (np.zeros(len(deviation)), *values):
            # Both are far below 2^53 units: the difference of the floors is exact.
            steps = units - np.floor(np.ldexp(start, -spacing))
            counts = np.bincount(steps.astype(np.int64).ravel() % _PATTERNS, minlength=_PATTERNS)
            expected = steps.size / _PATTERNS
            p = float(chi2(_PATTERNS - 1).sf(((counts - expected) ** 2).sum() / expected))
            require(p > RELEASE_ALARM, name, "have uniform low bits", f"p = {p:.1g}")
