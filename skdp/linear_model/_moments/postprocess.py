"""From noisy moments to coefficients: computed from the release alone, so it costs no privacy.

M is the released matrix of means of (1, x, y)(1, x, y)'. Its entries carry noise of standard
deviation close to sigma / (r_i r_j) for a public r, so that in the metric of r the noise is
alike in every direction. Two things are known of the true M: it is positive semidefinite, and
directions in which it is smaller than the noise say nothing about the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from skdp._arrays import FloatArray
from skdp._checks import fail

# In units of the noise's spectral norm: eigenvalues below it are shrunk. Chosen on simulated
# regressions (docs/automatic_choices.md), and flat around there. Where rows are bounded in length
# eigenvalues are small from the outset, and more of what the noise shows is noise.
SHRINK, SHRINK_IN_BALL = 0.5, 1.0
# The part of the target's variance that the features are taken to explain, where their products
# were not released.
EXPLAINED = 0.6
# A ridge of this many spectral norms is what postprocess="ridge" adds.
RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Means of (1, x, y)(1, x, y)' with noise, and how large the noise is.

    Attributes
    ----------
    matrix : ndarray of shape (q + 2, q + 2)
        Symmetric; its first entry is 1.
    sigma : float
        The noise of entry (i, j) has standard deviation about sigma / (r_i r_j).
    r : ndarray of shape (q + 2,)
    intercept : bool
        Whether the model has one.
    shrink : float
        The part of the noise's size below which eigenvalues are shrunk.
    guessed : bool
        Whether the features' own products were not released: those of the unit matrix stand there.
    """

    matrix: FloatArray
    sigma: float
    r: FloatArray
    intercept: bool
    shrink: float = SHRINK
    guessed: bool = False

    @property
    def spectral(self) -> float:
        """About half the spectral norm of the noise, in the metric of r."""
        return self.sigma * float(np.sqrt(len(self.r)))

    def semidefinite(self) -> NoisyMoments:
        """Return the nearest positive semidefinite moments, in the metric of r."""
        values, vectors = eigh(self.matrix * np.outer(self.r, self.r))
        matrix = (vectors * values.clip(min=0)) @ vectors.T / np.outer(self.r, self.r)
        return replace(self, matrix=matrix)

    def steadied(self) -> NoisyMoments:
        """Return them with means drawn towards 0, the middle of the bounds, as noise asks for.

        By James and Stein's factor, for the features together and for the target: where a mean
        is mostly noise, taking it out would only add that noise to everything else.
        """
        matrix = self.matrix.copy()
        noise = (self.sigma / (self.r[0] * self.r)) ** 2
        parts = (slice(1, -1), slice(-1, None))
        # Without products both stages estimate the target's mean, with less noise than a feature's.
        for part in parts[:1] if self.guessed else parts:
            size = float(np.sum((matrix[0, part] / max(matrix[0, 0], 1e-300)) ** 2))
            kept = max(0.0, 1 - float(np.sum(noise[part])) / size) if size > 0 else 1.0
            matrix[0, part] *= kept
            matrix[part, 0] *= kept
        return replace(self, matrix=matrix)

    def normal_equations(self) -> tuple[FloatArray, FloatArray]:
        """Return A and b of A theta = b, the means taken out where there is an intercept."""
        m = self.matrix
        if not self.intercept or m[0, 0] <= 0:
            return m[1:-1, 1:-1], m[1:-1, -1]
        mean = m[1:, 0] / m[0, 0]
        centred = m[1:, 1:] - m[0, 0] * np.outer(mean, mean)
        return centred[:-1, :-1], centred[:-1, -1]

    def complete(self, theta: FloatArray) -> FloatArray:
        """Return (intercept, theta): the plane goes through the means."""
        m = self.matrix
        if not self.intercept or m[0, 0] <= 0:
            return np.concatenate([[0.0], theta])
        mean = m[1:, 0] / m[0, 0]
        return np.concatenate([[mean[-1] - mean[:-1] @ theta], theta])


@dataclass(frozen=True)
class Recipe:
    """How coefficients are made: project and steady the means or not, and what is for 1 / w.

    ``inverse(w, moments)`` is given the eigenvalues of A in the metric of r.
    """

    project: bool
    steady: bool
    inverse: Callable[[FloatArray, NoisyMoments], FloatArray]


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, and the matrix that made them of b.

    Attributes
    ----------
    theta : ndarray of shape (q + 1,)
        The intercept, then the coefficients.
    inverse : ndarray of shape (q, q)
        What stood for the inverse of A.
    """

    theta: FloatArray
    inverse: FloatArray


def solve(postprocess: Any, moments: NoisyMoments) -> Solution:
    """Solve by a name of ``RECIPES``, or by a function from ``NoisyMoments`` to coefficients."""
    if moments.guessed and isinstance(postprocess, str) and postprocess == "auto":
        return _marginal(moments)
    recipe = RECIPES[postprocess if isinstance(postprocess, str) else "auto"]
    moments_used = moments.semidefinite() if recipe.project else moments
    if recipe.steady and len(moments.r) > 2:  # a mean alone is what was asked for
        moments_used = moments_used.steadied()
    A, b = moments_used.normal_equations()
    r = moments.r[1:-1]
    values, vectors = eigh(A * np.outer(r, r)) if len(r) else (r, np.empty((0, 0)))
    scaled = r[:, None] * vectors
    inverse = scaled * recipe.inverse(values, moments) @ scaled.T
    if isinstance(postprocess, str):
        return Solution(moments_used.complete(inverse @ b), inverse)
    return Solution(_own(postprocess, moments), inverse)


def _marginal(moments: NoisyMoments) -> Solution:
    """Solve without the features' products: every feature by itself, and all shrunk together.

    James and Stein's factor for the noise. And then, as b'A^-1 b is at most the variance that is
    explained, A is at least bb' over that: features that say the same must not say it twice.
    """
    used = moments.steadied()
    b = used.normal_equations()[1]
    size = float(b @ b)
    signal = max(0.0, size - len(b) * (moments.sigma / moments.r[-1]) ** 2)
    kept = signal / size / (1 + signal / EXPLAINED) if size > 0 else 0.0
    return Solution(used.complete(kept * b), kept * np.eye(len(b)))


def _own(postprocess: Any, moments: NoisyMoments) -> FloatArray:
    theta = np.asarray(postprocess(moments), dtype=float)
    if theta.shape != (len(moments.r) - 1,) or not np.all(np.isfinite(theta)):
        rule = f"return {len(moments.r) - 1} finite numbers: the intercept, the coefficients"
        raise fail("postprocess", rule)
    return theta


def _drowned(w: FloatArray, moments: NoisyMoments) -> FloatArray:
    """Return 1 / w far above the noise, and less the more the noise drowns w."""
    level = moments.shrink * moments.spectral
    shifted = w.clip(min=0) + level / 2
    # Below the level this falls again: b is small where w is.
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
