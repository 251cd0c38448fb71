"""Coefficients from noisy moments of scaled columns: a posterior mean.

Scaled columns have means near 0 and mean squares near 1. So before the release a matrix S of the
features' moments is expected near the unit matrix, and a coefficient is as likely positive as
negative. Each moment is shrunk towards this expectation by the share of noise in its variance.
Without any products of features the result is a regression on each feature alone, and with exact
ones it is least squares: the change between them is continuous. The factor on the products with
the target is an unbiased estimate of the share of signal in their square (James and Stein), so
that a table without signal gives the mean of the target.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from skdp._arrays import FloatArray

# Variances of the products of two features and of their squares, before the release. The first is
# DIRECTIONS over the number of columns if that is less.
PRODUCT_VARIANCE, SQUARE_VARIANCE, DIRECTIONS = 0.3, 1.0, 3.0
# The part of the target's variance that features are expected to explain. b'S^-1 b is this part,
# so that products b with the target make S larger in their direction.
EXPLAINED = 0.65
# Half of the spectral norm of the noise that is left in S.
SHRINK = 0.5
# So many times the expected square of the noise is subtracted from a square, as sums of squares
# vary.
CAUTION = 1.2


def posterior(
    matrix: FloatArray, deviation: FloatArray, prior: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the intercept with the coefficients, and the matrix that maps b to coefficients.

    Parameters
    ----------
    matrix : ndarray of shape (q + 2, q + 2)
        Noisy means of products of (1, x, y).
    deviation : ndarray of shape (q + 2, q + 2)
        Standard deviation of the noise in each entry.
    prior : ndarray of shape (q, q) or None
        The covariance of the coefficients before the release, in the unit of their usual variance;
        None stands for the unit matrix.
    """
    variance = deviation**2
    mean, target = matrix[0, 1:-1], float(matrix[0, -1])
    centre = _kept(mean, variance[0, 1:-1]) * mean
    b = matrix[1:-1, -1] - centre * target
    noise = variance[1:-1, -1] + centre**2 * variance[0, -1] + target**2 * variance[0, 1:-1]
    size = float(b @ b)
    signal = max(0.0, size - CAUTION * float(noise.sum()))
    if signal == 0:
        return np.append(target, np.zeros(len(b))), np.zeros((len(b), len(b)))
    products = matrix[1:-1, 1:-1] - np.outer(centre, centre)
    expected = np.eye(len(b)) + np.outer(b, b) * (signal / size / EXPLAINED)
    found = _inverse(products, variance[1:-1, 1:-1], expected, variance[0, 1:-1], prior)
    inverse = signal / size * found
    theta = inverse @ b
    # No coefficients explain more than the target's variance, which is 1 or less.
    theta /= max(1.0, float(theta @ b))
    return np.append(target - mean @ theta, theta), inverse


def _kept(mean: FloatArray, variance: FloatArray) -> float:
    """Return James and Stein's factor: centring by means that are noise would add this noise."""
    ratio = float(np.sum(mean**2 / np.maximum(variance, 1e-300)))
    return max(0.0, 1 - len(mean) / ratio) if ratio > 0 else 0.0


def _inverse(
    products: FloatArray,
    variance: FloatArray,
    expected: FloatArray,
    ridge: FloatArray,
    prior: FloatArray | None,
) -> FloatArray:
    """Return the inverse of the posterior mean of S, without directions below the noise.

    The plane goes through noisy means. This adds the squared coefficients times the ``ridge``, the
    variances of the means, to the squared error.
    """
    before = np.full(products.shape, min(PRODUCT_VARIANCE, DIRECTIONS / len(products)))
    np.fill_diagonal(before, SQUARE_VARIANCE)
    weight = before / (before + variance)
    mean = weight * products + (1 - weight) * expected + np.diag(ridge)
    # In coordinates whose prior covariance is the unit matrix.
    root = None if prior is None else np.linalg.cholesky(prior)
    values, vectors = eigh(mean if root is None else root.T @ mean @ root)
    level = SHRINK * float(np.sqrt(len(values) * np.mean(weight**2 * variance)))
    shifted = values.clip(min=0) + level / 2
    # Far above the level this is 1 / value; below it decreases, as b is small there.
    inverse = shifted / np.maximum(shifted**2 + level**2, 1e-300)
    vectors = vectors if root is None else root @ vectors
    return np.asarray((vectors * inverse) @ vectors.T)
