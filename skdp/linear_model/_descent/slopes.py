"""Slopes of losses, record by record, to the same bits wherever a record stands.

They are made of additions, products and quotients, which IEEE 754 defines to the last bit. A
library's exponential is not: it may differ in the last bit between the middle and the end of an
array, and what a record adds would then depend on how many others there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray

# Log-odds beyond this differ from certainty by less than half a unit of the grid, 2^-21.
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
    # With x = u / 32, e^-x is 1 - x / (x^2/12 + x/2 + 1) up to about x^5/720 (Pade), and
    # e^-u its 32nd power.
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
    """Residuals over a bound and clipped there: the slope of Huber's loss, over its bound.

    Parameters
    ----------
    bound : float > 0
        Of the residual, in units of the scaled target.
    """

    bound: float

    def __call__(self, predictor: FloatArray, target: FloatArray) -> FloatArray:
        """Return slopes in [-1, 1], (n,)."""
        slopes = residual(predictor, target)
        slopes /= self.bound
        return np.clip(slopes, -1.0, 1.0, out=slopes)


def residual(predictor: FloatArray, target: FloatArray) -> FloatArray:
    """Return the slope of the squared loss, which has no bound, (n,)."""
    return np.asarray(predictor - target)
