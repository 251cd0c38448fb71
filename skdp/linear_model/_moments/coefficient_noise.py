"""The covariance of coefficients that is due to the noise of the moments, to first order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.linear_model._moments.postprocess import NoisyMoments, Solution


def coefficient_covariance(
    noisy: NoisyMoments, deviation: FloatArray, own_square: NDArray[np.bool_], found: Solution
) -> FloatArray:
    """Return the covariance of (intercept, coefficients) under the noise: the delta method.

    The normal equations are G theta = g. Noise dG and dg moves theta by K e, with
    e = dg - dG theta and the matrix K that replaced the inverse of G. The result describes the
    effect of the noise, not the distance from coefficients without privacy: K is held fixed.

    Parameters
    ----------
    deviation : ndarray of shape (q + 2, q + 2)
        Standard deviation of the noise in each mean.
    own_square : ndarray of bool, shape (q + 2,)
        Which columns are their own squares: their sum and their sum of squares have one noise.
    """
    variance, theta = deviation**2, found.theta
    within = variance[:-1, :-1]
    # An entry off the diagonal is in two equations, with the coefficient of the other column.
    e = within * np.outer(theta, theta)
    np.fill_diagonal(e, variance[:-1, -1] + within @ theta**2)
    # The noise of an indicator's mean and of its square is the same: add their covariance.
    shared = np.flatnonzero(own_square[:-1])
    e[shared, shared] += 2 * theta[0] * theta[shared] * within[0, shared]
    e[0, shared] += theta[shared] ** 2 * within[0, shared]
    e[shared, 0] = e[0, shared]
    K = _inverse(noisy, found.inverse)
    return np.asarray(K @ e @ K.T)


def _inverse(noisy: NoisyMoments, inverse: FloatArray) -> FloatArray:
    """Return the matrix that replaces the inverse of G, (q + 1, q + 1)."""
    q = len(inverse)
    K = np.zeros((q + 1, q + 1))
    K[1:, 1:] = inverse
    if noisy.intercept:
        mean = noisy.matrix[0, 1:-1] / noisy.matrix[0, 0]
        K[0, 1:] = K[1:, 0] = -inverse @ mean
        K[0, 0] = 1 + mean @ inverse @ mean
    return K
