"""K-norm noise in the Frobenius norm, as noise for a matrix of moments.

Its density is proportional to exp(-|N|_F / scale) on the symmetric matrices. Matrices of one
record replaced by another differ by at most sqrt(2) in the Frobenius norm and by at most 2 in the
trace norm, for rows of length at most 1. So with delta > 0 this noise has less variance than
matrix Laplace noise for most matrices, and less than Gaussian noise for all. Statement and proof:
``docs/proofs/matrix_laplace.md``, Proposition 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from skdp._arrays import FloatArray
from skdp._draws import gamma, normals
from skdp._identity import remembered
from skdp._search import last_passing
from skdp.geometry.moments import MomentLayout
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.knorm.radial import shift_in_round_norm
from skdp.mechanisms.matrix.noise import MatrixGaussianNoise, MatrixNoise
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses.losses import GaussianLoss
from skdp.privacy.losses.radial import RadialLoss

# K-norm noise is considered if it may save more than this share of the variance. With more
# dimensions it saves so much only for an epsilon near 100 or a tiny delta, and is left out.
LEAST_GAIN, _MOST_DIM = 0.04, 1000
# The sums below are computed within these limits.
_MOST_EPSILON, _LEAST_DELTA = 1e3, 1e-200
# Relative accuracy of the shift.
_TOLERANCE = 1e-3
# Cells of the loss of the Gaussian release, and the share of delta outside of them.
_CELLS, _CUT = 1000, 1e-4
# Raises sums by more than the error of their terms.
_ROUND_UP = 1 + 1e-9
# The search starts at this share of the shift that two Gaussian releases would have.
_NEAR = 0.97


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class MatrixKNormNoise(MatrixNoise):
    """K-norm noise in the Frobenius norm, with the same law in all directions.

    Attributes
    ----------
    layout : MomentLayout
        Released entries of the matrix.
    scale : float > 0
        Scale of the norm, whose law is a Gamma law.
    guarantee : Guarantee
    """

    layout: MomentLayout
    scale: float
    guarantee: Guarantee

    @property
    def dim_of_matrix(self) -> int:
        """Number of free entries of the symmetric matrix."""
        return matrix_dim(self.layout)

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,)."""
        square = normals((self.layout.n_rows,) * 2, rng)
        square = square + square.T
        radius = self.scale * gamma(self.dim_of_matrix, rng)
        return self.layout.statistic(square * (radius / math.sqrt(float(np.sum(square**2)))))

    def entry_variance(self, i: ArrayLike, j: ArrayLike) -> FloatArray:
        """Return the variance of entries (i, j) of the matrix, of any shape."""
        own = (self.dim_of_matrix + 1) * self.scale**2
        return np.asarray(own / 2 * (1.0 + np.equal(i, j)))


def matrix_dim(layout: MomentLayout) -> int:
    """Return the number of free entries of a symmetric matrix of a layout."""
    return layout.n_rows * (layout.n_rows + 1) // 2


def least_beside(
    gaussian: MatrixGaussianNoise, other: Guarantee
) -> MatrixGaussianNoise | MatrixKNormNoise:
    """Return K-norm noise in place of Gaussian noise if it has less variance.

    Parameters
    ----------
    gaussian : MatrixGaussianNoise
        Its guarantee states the (epsilon, delta) of the whole release, that is of this noise and
        of another Gaussian release together, and the loss of this noise.
    other : Guarantee
        That of the other release, with its loss.
    """
    said, dim = gaussian.guarantee, matrix_dim(gaussian.layout)
    if dim > _MOST_DIM or said.epsilon > _MOST_EPSILON or said.delta < _LEAST_DELTA:
        return gaussian
    alone = shift_in_round_norm(dim, said.epsilon, said.delta)
    if (dim + 1) / (alone * gaussian_scale(said.epsilon, said.delta)) ** 2 > 1 - LEAST_GAIN:
        return gaussian
    shift = shift_beside_gaussian(dim, _mu(other), said.epsilon, said.delta)
    # The Gaussian noise hides differences of this Frobenius norm.
    scale = gaussian.deviation * _mu(said) / shift * ROUND_UP
    if (dim + 1) * scale**2 >= gaussian.deviation**2:
        return gaussian
    losses = ((RadialLoss(dim, shift), 1),)
    mechanism = said.mechanism.replace("Gaussian", "K-norm")
    known = Guarantee(said.epsilon, said.delta, said.neighbors, mechanism, losses=losses)
    return MatrixKNormNoise(gaussian.layout, scale, known)


def _mu(guarantee: Guarantee) -> float:
    """Return the shift of a Gaussian release, in standard deviations."""
    ((loss, _),) = guarantee.losses
    assert isinstance(loss, GaussianLoss)
    return loss.mu


@remembered(maxsize=64)
def shift_beside_gaussian(dim: int, first: float, epsilon: float, delta: float) -> float:
    """Return the greatest length for which noise of scale 1 is private beside a Gaussian release.

    Parameters
    ----------
    dim : int >= 2
    first : float > 0
        Shift of the Gaussian release, less than that of (epsilon, delta).
    epsilon : float in (0, inf)
    delta : float in (0, 1)

    Returns
    -------
    float
        A length for which an upper bound on the composed delta has been computed and passes
        (Proposition 5). It is within 1 % of the greatest.
    """
    # Beyond this many standard deviations of its loss, the Gaussian release counts as delta.
    reach = -float(ndtri(_CUT * delta))
    z = np.linspace(-reach, reach, _CELLS + 1)
    # Each probability is computed in the shorter tail.
    ends = np.where(z[1:] > 0, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1]))
    left = epsilon - first * (z[1:] + first / 2)

    def excess(shift: float) -> float:
        # The delta of the other release grows with the loss: it is greatest at the cell's end.
        deltas = np.exp(RadialLoss(dim, shift).log_delta(left))
        found = float(ends @ deltas + ndtr(-reach) * (1 + deltas[0])) * _ROUND_UP
        return math.log(found / delta)

    share = first * gaussian_scale(epsilon, delta)
    start = shift_in_round_norm(dim, epsilon, delta) * math.sqrt(max(1 - share**2, 0.01))
    return last_passing(excess, start * _NEAR, tolerance=_TOLERANCE, factor=1.02)
