"""The staircase law of least error among all epsilon-private noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp.noise.law import EvenLaw
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_choice, check_interval, check_positive


@dataclass(frozen=True)
class Staircase(EvenLaw):
    """Density that falls by e^-epsilon at scale (gamma + j), j = 0, 1, 2, ..., on either side.

    It is (epsilon, 0)-private for values that change by at most ``scale``. With the best gamma,
    no noise with this guarantee has less variance, or less mean absolute error (Geng & Viswanath
    2016). It is canonical only for gamma = 1/2, where it is the Tulap law (Awan & Dong 2022,
    Proposition 3.1).

    Parameters
    ----------
    epsilon : float in (0, inf)
    gamma : float in [0, 1], or {"variance", "absolute_error"}
        Width of the first step on either side, in scales. A name chooses the width with the
        least such error.
    scale : float in (0, inf), units of the released value
        Greatest change of the value between neighbouring data sets.

    Examples
    --------
    >>> round(Staircase(1.0).var(), 4), round(Staircase(1.0, gamma=0.5).var(), 4)
    (1.9181, 1.9247)
    """

    epsilon: float
    gamma: float | str = "variance"
    scale: float = 1.0
    log_concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        epsilon = check_positive("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "scale", check_positive("scale", self.scale))
        if isinstance(self.gamma, str):
            check_choice("gamma", self.gamma, ("variance", "absolute_error"))
            root = math.exp(-epsilon / 2)
            best = _least_variance(epsilon) if self.gamma == "variance" else root / (1 + root)
            object.__setattr__(self, "gamma", best)
        object.__setattr__(self, "gamma", check_interval("gamma", self.gamma, 0, 1))

    @property
    def _step(self) -> float:
        return float(self.gamma)

    @property
    def _lower(self) -> float:  # the factor of the density at a step
        return math.exp(-self.epsilon)

    @property
    def _breadth(self) -> float:
        """Return the mass of a cell over the density of its first part, in scales."""
        return self._step + self._lower * (1 - self._step)

    @property
    def _log_peak(self) -> float:
        cell = -math.expm1(-self.epsilon) / self._breadth
        return math.log(cell / 2) - math.log(self.scale)

    def _potential(self, x: FloatArray) -> FloatArray:
        cell = np.floor(x / self.scale)
        return self.epsilon * (cell + (x / self.scale - cell > self._step))

    def _climb(self, near: FloatArray, far: FloatArray, apart: FloatArray) -> FloatArray:
        return self._potential(far) - self._potential(near)

    def _hazard(self, x: FloatArray) -> FloatArray:
        cell = np.floor(x / self.scale)
        part = x / self.scale - cell
        breadth = np.minimum(part, self._step) + self._lower * np.maximum(part - self._step, 0.0)
        inside = math.expm1(-self.epsilon) * breadth / self._breadth
        return np.where(np.isposinf(x), np.inf, self.epsilon * cell - np.log1p(inside))

    def _inverse_hazard(self, level: FloatArray) -> FloatArray:
        cell = np.floor(level / self.epsilon)
        inside = np.expm1(self.epsilon * cell - level) / math.expm1(-self.epsilon)
        breadth = np.clip(inside, 0.0, 1.0) * self._breadth
        beyond = np.maximum(breadth - self._step, 0.0) * math.exp(self.epsilon)
        part = np.minimum(breadth, self._step) + np.minimum(beyond, 1 - self._step)
        return self.scale * np.where(np.isposinf(level), np.inf, cell + part)

    def mean_absolute(self) -> float:
        """Return E |X|."""
        return self.scale * (self._cell_mean() + self._part_moment(1))

    def _unit_variance(self) -> float:
        cell = self._cell_mean()
        return cell * (1 + 2 * cell + 2 * self._part_moment(1)) + self._part_moment(2)

    def _cell_mean(self) -> float:
        """Return the mean of floor(|X|): geometric with ratio e^-epsilon."""
        return self._lower / -math.expm1(-self.epsilon)

    def _part_moment(self, power: int) -> float:
        """Return the moment of the fractional part of |X|."""
        first = self._step ** (power + 1)
        return (first + self._lower * (1 - first)) / ((power + 1) * self._breadth)


def _least_variance(epsilon: float) -> float:
    """Return ((b (1 + b) / 2)^(1/3) - b) / (1 - b), b = e^-epsilon."""
    b = math.exp(-epsilon)
    log_middle = math.log1p(math.expm1(-epsilon) / 2)
    if epsilon > 1:
        return (math.exp((log_middle - epsilon) / 3) - b) / (1 - b)
    # The root is b times the cube root of (1 + b) / (2 b^2), which is near 1.
    return b * math.expm1((log_middle + 2 * epsilon) / 3) / -math.expm1(-epsilon)
