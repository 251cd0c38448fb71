"""Derivatives of losses, bit for bit independent of the other records.

They use additions, products and quotients, which IEEE 754 defines to the last bit. The exponential
of a library may differ in the last bit between the middle and the end of an array. Then the
contribution of a record would depend on the number of records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray

# At larger log-odds the probability differs from 0 or 1 by less than half a grid step, 2^-21.
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
    # With x = u / 32, e^-x is 1 - x / (x^2/12 + x/2 + 1) up to about x^5/720 (Pade). Its 32nd
    # power is e^-u.
    u = np.clip(predictor, -_FAR, _FAR)
    odds: FloatArray = u * (1 / (12 * 2**_SQUARINGS))
    odds += 0.5
    odds *= u
    odds += 2**_SQUARINGS
    np.divide(u, odds, out=odds)
    np.subtract(1.0, odds, out=odds)
    for _ in range(_SQUARINGS):
        np.square(odds, out=odds)
    odds += 1.0
    np.divide(1.0, odds, out=odds)
    odds -= target
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
