"""Derivatives of losses, bit for bit independent of the other records.

They use additions, products and quotients, which IEEE 754 defines to the last bit. The exponential
of a library may differ in the last bit between the middle and the end of an array. Then the
contribution of a record would depend on the number of records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray

# At larger log-odds the probability differs from 0 or 1 by less than half a grid step, 2^-21.
# Classes that are less probable than the most probable one by more count as this.
_FAR = 16.0
_SQUARINGS = 5


def logistic_slope(predictor: FloatArray, target: FloatArray) -> FloatArray:
    """Return p - y, in [-1, 1], for log-odds and targets in [0, 1].

    Parameters
    ----------
    predictor, target : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n,)
        Within 2^-23 of the exact value.
    """
    odds = _decay(np.clip(predictor, -_FAR, _FAR))
    odds += 1.0
    np.divide(1.0, odds, out=odds)
    odds -= target
    return odds


@dataclass(frozen=True)
class SoftmaxSlope:
    """The derivatives of a log(sum_k e^(z_k)) - z_y by the z_k, plus a constant: a p - e_y + c.

    Parameters
    ----------
    n_classes : int >= 2
    normalizer : float in (0, 1]
        The weight a.
    power : {1, 2}
        The constant c that keeps the sum of the sizes small, or the length: 0 for 1, and for 2
        (1 - a) / n_classes, with which the derivatives add up to 0.
    """

    n_classes: int
    normalizer: float
    power: int

    @property
    def shift(self) -> float:
        """The constant c."""
        return 0.0 if self.power == 1 else (1 - self.normalizer) / self.n_classes

    @property
    def size(self) -> float:
        """Bound on the sum of the sizes of a record's derivatives, or on their length."""
        a, k = self.normalizer, self.n_classes
        exact = 1 + a if self.power == 1 else math.sqrt(1 + a**2 - (1 - a) ** 2 / k)
        # The rounding errors of derivatives are less (Theorem 8).
        return exact * (1 + (k + 16) * 2.0**-50)

    def __call__(self, predictor: FloatArray, target: NDArray[Any]) -> FloatArray:
        """Return the derivatives in [-1, 1], (n_classes, n), for positions of labels."""
        odds = _decay(np.clip(predictor.max(axis=0) - predictor, 0.0, _FAR))
        total = odds[0].copy()
        for each in odds[1:]:  # numpy's own order of a sum depends on the shape
            total += each
        odds /= total
        odds *= self.normalizer
        odds += self.shift
        for k, each in enumerate(odds):
            each -= target == k
        return odds


def _decay(u: FloatArray) -> FloatArray:
    """Return a new array with e^-u, for u in [-16, 16]; it is 1 at 0."""
    # With x = u / 32, e^-x is 1 - x / (x^2/12 + x/2 + 1) up to about x^5/720 (Pade). Its 32nd
    # power is e^-u.
    odds: FloatArray = u * (1 / (12 * 2**_SQUARINGS))
    odds += 0.5
    odds *= u
    odds += 2**_SQUARINGS
    np.divide(u, odds, out=odds)
    np.subtract(1.0, odds, out=odds)
    for _ in range(_SQUARINGS):
        np.square(odds, out=odds)
    return odds


@dataclass(frozen=True)
class ResidualSlope:
    """Residuals divided by a bound and clipped to [-1, 1]: the scaled derivative of Huber's loss.

    Parameters
    ----------
    bound : float > 0
        Bound on the residual, in units of the scaled target.
    """

    bound: float

    def __call__(self, predictor: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivatives in [-1, 1], (n,)."""
        slopes = residual(predictor, target)
        slopes /= self.bound
        return np.clip(slopes, -1.0, 1.0, out=slopes)


def residual(predictor: FloatArray, target: FloatArray) -> FloatArray:
    """Return the derivative of the squared loss, which is unbounded, (n,)."""
    return np.asarray(predictor - target)
