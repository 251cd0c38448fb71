"""Coefficients from noisy moments. This uses only released numbers and costs no privacy.

M is the released matrix of means of (1, x, y)(1, x, y)'. Its entries have noise of standard
deviation about sigma / (r_i r_j) for a public r. In the metric of r the noise has the same size in
every direction. The true M is positive semidefinite. Directions in which it is smaller than the
noise contain no information on the coefficients.

Of scaled columns a posterior mean is computed. Scaled columns have means near 0 and mean squares
near 1. So before the release a matrix S of the features' moments is expected near the unit matrix,
and a coefficient is as likely positive as negative. Each moment is shrunk towards this expectation
by the share of noise in its variance. Without any products of features the result is a regression
on each feature alone, and with exact ones it is least squares: the change between them is
continuous. The factor on the products with the target is an unbiased estimate of the share of
signal in their square (James and Stein), so that a table without signal gives the mean of the
target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from skdp.linear_model._inference.estimate import noise_covariance
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import fail

# Variances of the products of two features and of their squares, before the release. The first is
# DIRECTIONS over the number of columns if that is less.
PRODUCT_VARIANCE, SQUARE_VARIANCE, DIRECTIONS = 0.3, 1.0, 3.0
# The part of the target's variance that features are expected to explain. b'S^-1 b is this part,
# so that products b with the target make S larger in their direction.
EXPLAINED = 0.65
# Half of the spectral norm of the noise that is left in S.
LEFT = 0.5
# So many times the expected square of the noise is subtracted from a square, as sums of squares
# vary.
CAUTION = 1.2


def posterior(
    matrix: FloatArray, deviation: FloatArray, prior: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the intercept with the coefficients, and the matrix that maps b to coefficients.

    ``matrix`` has noisy means of products of (1, x, y), and ``deviation`` the standard deviation of
    the noise in each entry. ``prior`` is the covariance of the coefficients before the release, in
    the unit of their usual variance; None stands for the unit matrix.
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
    products, spread = matrix[1:-1, 1:-1] - np.outer(centre, centre), variance[1:-1, 1:-1]
    expected = np.eye(len(b)) + np.outer(b, b) * (signal / size / EXPLAINED)
    before = np.full(products.shape, min(PRODUCT_VARIANCE, DIRECTIONS / len(products)))
    np.fill_diagonal(before, SQUARE_VARIANCE)
    weight = before / (before + spread)
    # The plane goes through noisy means. This adds the squared coefficients times the variances of
    # the means to the squared error.
    S = weight * products + (1 - weight) * expected + np.diag(variance[0, 1:-1])
    # The inverse without directions below the noise, in coordinates whose prior covariance is the
    # unit matrix. Far above the level it is 1 / value; below it decreases, as b is small there.
    root = None if prior is None else np.linalg.cholesky(prior)
    values, vectors = eigh(S if root is None else root.T @ S @ root)
    level = LEFT * float(np.sqrt(len(values) * np.mean(weight**2 * spread)))
    shifted = values.clip(min=0) + level / 2
    inverse = shifted / np.maximum(shifted**2 + level**2, 1e-300)
    vectors = vectors if root is None else root @ vectors
    inverse = signal / size * ((vectors * inverse) @ vectors.T)
    theta = inverse @ b
    # No coefficients explain more than the target's variance, which is 1 or less.
    theta /= max(1.0, float(theta @ b))
    return np.append(target - mean @ theta, theta), inverse


def _kept(mean: FloatArray, variance: FloatArray) -> float:
    """Return James and Stein's factor: centring by means that are noise would add this noise."""
    ratio = float(np.sum(mean**2 / np.maximum(variance, 1e-300)))
    return max(0.0, 1 - len(mean) / ratio) if ratio > 0 else 0.0


# Eigenvalues below this many spectral norms of the noise are shrunk. Chosen on simulated
# regressions (docs/mathematics/automatic_choices.md); results hardly change nearby. Rows of bounded
# length have small eigenvalues, of which noise is a larger part.
SHRINK, SHRINK_IN_BALL = 0.5, 1.0
# The ridge of postprocess="ridge", in spectral norms of the noise.
RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy means of (1, x, y)(1, x, y)', and the size of the noise.

    Attributes
    ----------
    matrix : ndarray of shape (q + 2, q + 2)
        Symmetric; its first entry is 1.
    sigma : float
        The noise of entry (i, j) has standard deviation about sigma / (r_i r_j).
    r : ndarray of shape (q + 2,)
    intercept : bool
        Whether the model has an intercept.
    shrink : float
        Eigenvalues below this times ``spectral`` are shrunk.
    deviation, prior : ndarray of shape (q + 2, q + 2), ndarray of shape (q, q), or None
        As for `posterior`, if the columns were scaled so that mean squares are near 1.
    """

    matrix: FloatArray
    sigma: float
    r: FloatArray
    intercept: bool
    shrink: float = SHRINK
    deviation: FloatArray | None = None
    prior: FloatArray | None = None

    @property
    def spectral(self) -> float:
        """About half of the spectral norm of the noise, in the metric of r."""
        return self.sigma * float(np.sqrt(len(self.r)))

    def semidefinite(self) -> NoisyMoments:
        """Return the nearest positive semidefinite moments, in the metric of r."""
        values, vectors = eigh(self.matrix * np.outer(self.r, self.r))
        matrix = (vectors * values.clip(min=0)) @ vectors.T / np.outer(self.r, self.r)
        return replace(self, matrix=matrix)

    def steadied(self) -> NoisyMoments:
        """Return the moments with means shrunk towards 0, the middle of the bounds.

        The factors are James and Stein's, one for all features and one for the target. Centring by
        a mean that is mostly noise would add this noise to all other moments.
        """
        matrix = self.matrix.copy()
        noise = (self.sigma / (self.r[0] * self.r)) ** 2
        parts = (slice(1, -1), slice(-1, None))
        for part in parts:
            size = float(np.sum((matrix[0, part] / max(matrix[0, 0], 1e-300)) ** 2))
            kept = max(0.0, 1 - float(np.sum(noise[part])) / size) if size > 0 else 1.0
            matrix[0, part] *= kept
            matrix[part, 0] *= kept
        return replace(self, matrix=matrix)

    def normal_equations(self) -> tuple[FloatArray, FloatArray]:
        """Return A and b of A theta = b, centred if there is an intercept."""
        m = self.matrix
        if not self.intercept or m[0, 0] <= 0:
            return m[1:-1, 1:-1], m[1:-1, -1]
        mean = m[1:, 0] / m[0, 0]
        centred = m[1:, 1:] - m[0, 0] * np.outer(mean, mean)
        return centred[:-1, :-1], centred[:-1, -1]

    def complete(self, theta: FloatArray) -> FloatArray:
        """Return (intercept, theta) such that the plane goes through the means."""
        m = self.matrix
        if not self.intercept or m[0, 0] <= 0:
            return np.concatenate([[0.0], theta])
        mean = m[1:, 0] / m[0, 0]
        return np.concatenate([[mean[-1] - mean[:-1] @ theta], theta])


@dataclass(frozen=True)
class Recipe:
    """A way to compute coefficients.

    ``project`` makes the moments positive semidefinite, ``steady`` shrinks the means, and
    ``inverse(w, moments)`` replaces 1 / w for the eigenvalues w of A in the metric of r.
    """

    project: bool
    steady: bool
    inverse: Callable[[FloatArray, NoisyMoments], FloatArray]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The intercept with the coefficients, (q + 1,), and what replaces the inverse of A, (q, q)."""

    theta: FloatArray
    inverse: FloatArray

    def whole_inverse(self, noisy: NoisyMoments) -> FloatArray:
        """Return the matrix that replaces the inverse of the uncentred moments, (q + 1, q + 1)."""
        q = len(self.inverse)
        K = np.zeros((q + 1, q + 1))
        K[1:, 1:] = self.inverse
        if noisy.intercept:
            mean = noisy.matrix[0, 1:-1] / noisy.matrix[0, 0]
            K[0, 1:] = K[1:, 0] = -self.inverse @ mean
            K[0, 0] = 1 + mean @ self.inverse @ mean
        return K


def solve(postprocess: Any, moments: NoisyMoments) -> Coefficients:
    """Return the solution by a name of ``RECIPES``, or by a function of ``NoisyMoments``."""
    scaled = moments.deviation
    if scaled is not None and isinstance(postprocess, str) and postprocess == "auto":
        return Coefficients(*posterior(moments.matrix, scaled, moments.prior))
    recipe = RECIPES[postprocess if isinstance(postprocess, str) else "auto"]
    moments_used = moments.semidefinite() if recipe.project else moments
    if recipe.steady and len(moments.r) > 2:  # without features the mean is the result
        moments_used = moments_used.steadied()
    A, b = moments_used.normal_equations()
    r = moments.r[1:-1]
    values, vectors = eigh(A * np.outer(r, r)) if len(r) else (r, np.empty((0, 0)))
    scaled = r[:, None] * vectors
    inverse = scaled * recipe.inverse(values, moments) @ scaled.T
    if isinstance(postprocess, str):
        return Coefficients(moments_used.complete(inverse @ b), inverse)
    theta = np.asarray(postprocess(moments), dtype=float)
    if theta.shape != (len(r) + 1,) or not np.all(np.isfinite(theta)):
        rule = f"return {len(r) + 1} finite numbers: the intercept, the coefficients"
        raise fail("postprocess", rule)
    return Coefficients(theta, inverse)


def _drowned(w: FloatArray, moments: NoisyMoments) -> FloatArray:
    """Return 1 / w for w far above the noise, and smaller values for w near the noise."""
    level = moments.shrink * moments.spectral
    shifted = w.clip(min=0) + level / 2
    # Below the level this decreases: b is small where w is small.
    return np.asarray(shifted / (shifted**2 + level**2))


def _with_ridge(w: FloatArray, moments: NoisyMoments) -> FloatArray:
    return np.asarray(1 / (w.clip(min=0) + RIDGE * moments.spectral))


def _pseudo_inverse(w: FloatArray, moments: NoisyMoments) -> FloatArray:
    cut = len(w) * np.finfo(float).eps * float(np.abs(w).max(initial=1e-300))
    return np.divide(1.0, w, out=np.zeros_like(w), where=np.abs(w) > cut)


# "pinv" is Awan & Slavkovic 2020, Equation 4.
RECIPES = {
    "auto": Recipe(True, True, _drowned),
    "psd": Recipe(True, False, _pseudo_inverse),
    "ridge": Recipe(False, False, _with_ridge),
    "pinv": Recipe(False, False, _pseudo_inverse),
}


def coefficient_covariance(
    noisy: NoisyMoments,
    deviation: FloatArray,
    own_square: NDArray[np.bool_],
    found: Coefficients,
) -> FloatArray:
    """Return the covariance of (intercept, coefficients) under the noise: the delta method.

    The normal equations are G theta = g. Noise dG and dg moves theta by K e, with
    e = dg - dG theta and the matrix K that replaced the inverse of G. The result describes the
    effect of the noise, not the distance from coefficients without privacy: K is held fixed.
    ``deviation`` is the standard deviation of the noise in each mean, (q + 2, q + 2). Columns that
    are their ``own_square``, (q + 2,), have one noise in their sum and in their sum of squares.
    """
    u = np.append(-found.theta, 1.0)
    e = noise_covariance(deviation**2, own_square, u, u)
    K = found.whole_inverse(noisy)
    return np.asarray(K @ e @ K.T)
