"""K-norm noise on an ellipsoid fitted to the differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from skdp.geometry import LpBall, MappedBall
from skdp.mechanisms.gaussian.elliptic import EllipticGaussian
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.knorm.noise import KNorm, KNormNoise
from skdp.mechanisms.knorm.radial import is_private_in_round_norm
from skdp.mechanisms.sensitivity.base import ROUND_UP, Sensitivity


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class EllipticKNorm:
    """K-norm noise on the ellipsoid of the least weighted trace, the name "elliptic_l2".

    Every difference u has u' S^-1 u <= 1 for the S of `EllipticGaussian`. The noise is S^(1/2)
    times Euclidean K-norm noise for differences of length 1. It is as private as the latter, and
    its covariance is a multiple of S. If "l2" has less variance than Gaussian noise for a
    Euclidean ball, then this noise has less variance than elliptic Gaussian noise for any body
    (docs/proofs/knorm_delta.md, Proposition 3).

    Parameters
    ----------
    weights : array-like of shape (dim,), entries > 0, or (dim, dim), positive definite, or None
        As in `EllipticGaussian`.

    Examples
    --------
    >>> box = Sensitivity(LpBall(2, p=float("inf"), weights=(1.0, 0.1)))  # [-1, 1] x [-10, 10]
    >>> EllipticKNorm().calibrate(box, epsilon=1.0, delta=1e-6).covariance().round()
    array([[ 33.,   0.],
           [  0., 330.]])
    """

    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", EllipticGaussian(self.weights).weights)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> KNormNoise:
        """Return such noise that is (epsilon, delta)-private."""
        cover = EllipticGaussian(self.weights).cover(sensitivity)
        factor = sensitivity.radius * ROUND_UP * cover * ROUND_UP
        ellipsoid = MappedBall(LpBall(sensitivity.ball.dim), factor * ROUND_UP)
        around = Sensitivity(ellipsoid, neighbors=sensitivity.neighbors)
        noise = KNorm("hull").calibrate(around, epsilon=epsilon, delta=delta)
        said = f"K-norm noise on an ellipsoid around {sensitivity.ball!r}"
        return replace(noise, guarantee=replace(noise.guarantee, mechanism=said))


def knorm_is_less(dim: int, epsilon: float, delta: float) -> bool:
    """Return whether K-norm noise on an ellipsoid has less variance than Gaussian noise."""
    if delta == 0:
        return True
    # With r = |v|_2 / scale, E r^2 = d (d + 1); both covariances are multiples of one matrix. So
    # the noise is less if it is private for differences of at least this length.
    needed = math.sqrt(dim + 1) / gaussian_scale(epsilon, delta)
    return is_private_in_round_norm(dim, needed, epsilon, delta)
