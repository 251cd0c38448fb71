"""Noise drawn as a symmetric matrix, of which some entries are released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._draws import normals
from skdp.geometry import NormBall
from skdp.geometry.moments import MomentLayout
from skdp.mechanisms.noise import BaseNoise
from skdp.privacy.guarantee import Guarantee


class MatrixNoise(BaseNoise):
    """Base class of noises of moments, whose matrix entries are uncorrelated.

    A subclass adds ``guarantee``, ``rvs`` and ``entry_variance``.
    """

    layout: MomentLayout

    def entry_variance(self, i: ArrayLike, j: ArrayLike) -> FloatArray:
        """Return the variance of entries (i, j) of the matrix, of any shape."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """Number of released entries."""
        return self.layout.dim

    def variance(self) -> FloatArray:
        """Return the variance of each entry of a draw, (dim,)."""
        layout = self.layout
        own = layout.scale**2 * self.entry_variance(*layout.pairs.T)
        return np.asarray(own + layout.shift**2 * self.entry_variance(0, 0))

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each entry with the first, the count, (dim,)."""
        counted = np.where(self.layout.kinds == "count", self.layout.scale, -self.layout.shift)
        return np.asarray(self.entry_variance(0, 0) * counted)

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim); it is 0 but for entries with the count."""
        layout = self.layout
        i, j = layout.pairs.T
        counted = np.where(i + j == 0, layout.scale, 0.0) - layout.shift
        own = np.where(i + j == 0, 0.0, layout.scale**2 * self.entry_variance(i, j))
        return np.asarray(np.diag(own) + self.entry_variance(0, 0) * np.outer(counted, counted))

    def expected_norm(self, ball: NormBall, *, draws: int = 256) -> float:
        """Return the mean gauge of a draw in a ball's norm, estimated from ``draws`` draws."""
        return super().expected_norm(ball, draws=draws)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class MatrixGaussianNoise(MatrixNoise):
    """Gaussian noise with the same law in all directions of the symmetric matrices.

    It is the Gaussian mechanism in the Frobenius norm. For rows of length at most 1 the matrices
    of two records differ by at most sqrt(2), and one matrix has norm at most 1
    (``docs/proofs/matrix_laplace.md``, Lemma 4).

    Attributes
    ----------
    layout : MomentLayout
        Released entries of the matrix.
    deviation : float > 0
        Standard deviation on the diagonal; off the diagonal it is divided by sqrt(2).
    guarantee : Guarantee

    Examples
    --------
    >>> from skdp import Guarantee
    >>> from skdp.geometry import MomentLayout
    >>> from skdp.mechanisms import MatrixGaussianNoise
    >>> layout = MomentLayout(2, range(2))
    >>> noise = MatrixGaussianNoise(layout, 3.0, Guarantee(1.0, 1e-6))
    >>> noise.release([0.0] * noise.dim).shape == (noise.dim,)
    True
    """

    layout: MomentLayout
    deviation: float
    guarantee: Guarantee

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,)."""
        square = normals((self.layout.n_rows,) * 2, rng)
        return self.layout.statistic(self.deviation / 2 * (square + square.T))

    def entry_variance(self, i: ArrayLike, j: ArrayLike) -> FloatArray:
        """Return the variance of entries (i, j) of the matrix, of any shape."""
        return np.asarray(self.deviation**2 / 2 * (1.0 + np.equal(i, j)))
