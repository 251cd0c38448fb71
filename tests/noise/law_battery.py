"""The battery for this package's own laws: `skdp.testing.check_law`, and what only they promise.

False alarms are derived in skdp/testing/law.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp import noise, testing
from skdp.testing.law import ALARM, DRAWS, check_draws, check_tails, kolmogorov_smirnov

__all__ = ["DRAWS", "check_draws", "check_law", "check_tails"]

OPTIONAL = ("pdf", "cdf", "sf", "ppf", "std", "support", "log_ratio")


def check_law(law: Any, rng: Generator, draws: int = DRAWS) -> None:
    """Everything a law promises that can be seen without knowing which law it is."""
    testing.check_law(law, random_state=rng, draws=draws)
    check_own(law)
    if draws >= DRAWS:  # the twin, 5 % too narrow, is seen to be another
        x = np.sort(law.rvs(draws, rng))
        assert kolmogorov_smirnov(law.cdf(1.05 * x)) < ALARM


def check_own(law: Any) -> None:
    """All optional members, numbers that are floats, exact symmetry, and a repr that makes it."""
    assert isinstance(law, noise.Law)
    assert all(hasattr(law, member) for member in OPTIONAL)
    assert law == eval(repr(law), vars(noise))
    for name in ("logpdf", "pdf", "logsf", "sf", "cdf", "isf", "ppf"):
        assert isinstance(getattr(law, name)(0.25), float)
    x = law.isf(np.linspace(0.01, 0.49, 40))
    np.testing.assert_array_equal(law.logpdf(x), law.logpdf(-x))
    np.testing.assert_array_equal(law.cdf(-x), law.sf(x))
    assert isinstance(law.log_ratio(0.1, 1.0), float)
    assert math.isnan(law.log_ratio(math.nan, 1.0))
    assert math.isnan(law.isf(-0.1))
    assert math.isnan(law.isf(1.1))
    assert law.sf(math.inf) == 0
    assert law.sf(-math.inf) == 1
    assert law.isf(0.0) == law.support() == -law.isf(1.0)
    assert isinstance(law.rvs(None, np.random.default_rng(0)), float)
