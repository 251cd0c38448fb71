"""How often a search by random stopping runs, and what the best of these runs costs.

With generating function f of the number of runs, and runs of base budget e, the best of them is
private at ``e + sup log f'(t) / f'(t')``: private_selection.md, Theorems 3 to 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from skdp._checks import check_count, check_interval, check_positive
from skdp.model_selection._choice import coin

# Far more than the roundings of the formula take away.
_SLACK = 1e-12


@dataclass(frozen=True)
class StoppingLaw:
    """The negative binomial law of the number of runs, given that there is at least one.

    ``P(K = k)`` is proportional to ``C(k + shape - 1, k) (1 - gamma)^k`` for k >= 1; shape 1 is
    the geometric law.

    Parameters
    ----------
    gamma : float in (0, 1)
    shape : int >= 1

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    Ten runs on average of 0.5 each cost 1.31 together, and not 5:

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
        """Return the law with this mean, > 1."""
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
        """Return what the best of the runs costs, rounded up: the least number that holds.

        Parameters
        ----------
        base : float >= 0
            Pure epsilon of one run.
        """
        # (e^b + g) / (1 + g e^b), divided by e^b so that nothing overflows, and less the 1 that
        # the digits of its logarithm would be lost in where b is small.
        small, rest = math.exp(-base), -math.expm1(-base)
        spread = math.log1p((1 - self.gamma) * rest / (self.gamma + small))
        return (base + (1 + self.shape) * spread) * (1 + _SLACK)

    def base_of(self, epsilon: float) -> float:
        """Return the greatest budget of one run so that the best costs at most ``epsilon``."""
        low, high = 0.0, check_positive("epsilon", epsilon)
        while high - low > _SLACK * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.epsilon_of(middle) <= epsilon else (low, middle)
        return low  # it has always passed

    def missed(self, share: float) -> float:
        """Return the probability that no run tries any of this share of the candidates."""
        found = ((1 - (1 - self.gamma) * (1 - share)) ** -self.shape - 1) / (
            self.gamma**-self.shape - 1
        )
        return float(found)

    def rvs(self, rng: np.random.Generator) -> int:
        """Return a number of runs; the law is exact, and its longest runs are not cut off."""
        gamma = Fraction(self.gamma)
        while True:
            runs = failures = 0
            while failures < self.shape:
                if coin(gamma, rng):
                    failures += 1
                else:
                    runs += 1
            if runs:
                return runs
