"""Gaussian noise with a covariance fitted to the differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_epsilon, check_numbers, fail
from skdp.mechanisms.gaussian.ellipsoid import greatest_square, least_cover, trace
from skdp.mechanisms.gaussian.noise import GaussianNoise, gaussian_guarantee, gaussian_scale
from skdp.mechanisms.sensitivity.base import ROUND_UP, Sensitivity

_REMEDY = "Greater weights mean less noise in a coordinate."


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class EllipticGaussian:
    """Gaussian noise of the least weighted mean squared error, the name "elliptic".

    If u' S^-1 u <= 1 for every difference u, noise N(0, s^2 S) is as private as N(0, s^2) in one
    dimension for differences of length 1. Among these S the one of least tr(W S) is taken, and
    s is the least that is (epsilon, delta)-private (Balle & Wang 2018).

    Parameters
    ----------
    weights : array-like of shape (dim,), entries > 0, or (dim, dim), positive definite, or None
        W: the error of a draw v is E v' W v. Greater weights mean less noise. None stands for
        ones.

    Notes
    -----
    For weights of shape (dim,) the least trace is reached, to a relative error of about 1e-5, for
    l_p balls, for balls whose extreme points can be listed, and for products, sums and multiples
    of such balls. For a ball with ``orbits()`` and ``greatest_square()``, and for hulls of
    rows with too many corners to list, the trace is the least among covariances that are
    diagonal and equal on orbits. Other balls are replaced by the box around them. The noise is
    never worse than that of the mechanism "gaussian", and its guarantee holds in all cases.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> box = Sensitivity(LpBall(2, p=float("inf"), weights=(1.0, 0.1)))  # [-1, 1] x [-10, 10]
    >>> noise = EllipticGaussian().calibrate(box, epsilon=1.0, delta=1e-6)
    >>> noise.covariance().round()
    array([[ 196.,    0.],
           [   0., 1963.]])
    """

    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            weights = _checked(check_numbers("weights", self.weights))
            weights.setflags(write=False)
            object.__setattr__(self, "weights", weights)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> GaussianNoise:
        """Return such noise that is (epsilon, delta)-private, for delta > 0."""
        epsilon = check_epsilon(epsilon)
        scale = sensitivity.radius * gaussian_scale(epsilon, delta) * ROUND_UP
        factor = scale * self.cover(sensitivity) * ROUND_UP
        guarantee = gaussian_guarantee(sensitivity, epsilon, delta, "elliptic Gaussian")
        return GaussianNoise(sensitivity.ball.dim, factor, guarantee)

    def cover(self, sensitivity: Sensitivity) -> FloatArray:
        """Return A, (dim,) or (dim, dim), with S = A A' for a sensitivity of radius 1.

        It is the better of the fitted and the round cover.
        """
        ball, weights = sensitivity.ball, self._weights_of(sensitivity.ball.dim)
        length = np.sqrt(greatest_square(ball, np.ones(ball.dim))) * ROUND_UP
        round_cover, fitted = np.full(ball.dim, length), least_cover(ball, weights)
        better = trace(fitted, weights) < trace(round_cover, weights)
        return fitted if better else round_cover  # also if a number has overflowed

    def _weights_of(self, dim: int) -> FloatArray:
        check_weights_for(self.weights, dim)
        if self.weights is None:
            return np.ones(dim)
        weights = np.asarray(self.weights)
        return np.asarray(weights / weights.max())  # only their ratios matter


def check_weights_for(weights: ArrayLike | None, dim: int) -> None:
    """Raise unless weights are None or have ``dim`` entries."""
    if weights is not None and (count := len(np.asarray(weights))) != dim:
        raise fail("weights", f"have {dim} entries, one for each coordinate", count)


def _checked(weights: FloatArray) -> FloatArray:
    """Return W, or raise if an eigenvalue is not finite and positive."""
    if weights.ndim == 2 and weights.shape[0] == weights.shape[1]:
        if np.array_equal(weights, weights.T) and _is_positive(weights):
            return weights
        raise fail("weights", "be symmetric and positive definite, if a matrix", remedy=_REMEDY)
    if weights.ndim != 1 or not len(weights):
        raise fail("weights", "have shape (dim,) or (dim, dim)", weights.shape, _REMEDY)
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise fail("weights", "be finite numbers > 0", weights.tolist(), _REMEDY)
    return weights


def _is_positive(matrix: FloatArray) -> bool:
    return bool(np.isfinite(matrix).all()) and bool(np.linalg.eigvalsh(matrix)[0] > 0)
