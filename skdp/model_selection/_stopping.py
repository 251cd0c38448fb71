"""The distribution of the number of runs in random stopping, and the cost of the best run.

Let f be the generating function of the number of runs, and e the epsilon of one run. Then the best
run is private at ``e + sup log f'(t) / f'(t')``: private_selection.md, Theorems 3 to 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from skdp._checks import check_count, check_interval, check_positive
from skdp.model_selection._exact_draws import bernoulli

# Far greater than the rounding errors of the formula.
_SLACK = 1e-12


@dataclass(frozen=True)
class StoppingLaw:
    """The negative binomial distribution of the number of runs, conditional on at least one run.

    ``P(K = k)`` is proportional to ``C(k + shape - 1, k) (1 - gamma)^k`` for k >= 1. Shape 1 is
    the geometric distribution. gamma is in (0, 1).

    Examples
    --------
    The best of ten runs on average, of epsilon 0.5 each, costs 1.31 and not 5:

    >>> law = StoppingLaw.of_mean(10.0)
    >>> round(law.epsilon_of(0.5), 4)
    1.3125
    """

    gamma: float
    shape: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "gamma", check_interval("gamma", self.gamma, 0.0, 1.0, closed="neither")
        )
        object.__setattr__(self, "shape", check_count("shape", self.shape))

    @classmethod
    def of_mean(cls, mean: float, shape: int = 1) -> StoppingLaw:
        """Return the distribution with this mean, > 1."""
        mean = check_interval("mean", mean, 1.0, math.inf, closed="neither")
        if shape == 1:
            return cls(1 / mean)
        found = brentq(lambda x: cls(math.exp(x), shape).mean - mean, -100.0, -1e-9)
        return cls(math.exp(found), shape)

    @property
    def mean(self) -> float:
        """Average number of runs."""
        some = -math.expm1(self.shape * math.log(self.gamma))
        return self.shape * (1 - self.gamma) / (self.gamma * some)

    def epsilon_of(self, base: float) -> float:
        """Return the epsilon of the best run, rounded up, if one run has epsilon ``base``."""
        # log of (e^b + g) / (1 + g e^b), with both terms divided by e^b against overflow, and by
        # log1p because the quotient is near 1 for small b.
        small, rest = math.exp(-base), -math.expm1(-base)
        spread = math.log1p((1 - self.gamma) * rest / (self.gamma + small))
        return (base + (1 + self.shape) * spread) * (1 + _SLACK)

    def base_of(self, epsilon: float) -> float:
        """Return the greatest epsilon of one run so that the best run costs at most ``epsilon``."""
        low, high = 0.0, check_positive("epsilon", epsilon)
        while high - low > _SLACK * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.epsilon_of(middle) <= epsilon else (low, middle)
        return low  # the bound holds at low

    def rvs(self, rng: np.random.Generator) -> int:
        """Return a number of runs, drawn exactly and without an upper limit."""
        gamma = Fraction(self.gamma)
        while True:
            runs = failures = 0
            while failures < self.shape:
                if bernoulli(gamma, rng):
                    failures += 1
                else:
                    runs += 1
            if runs:
                return runs
