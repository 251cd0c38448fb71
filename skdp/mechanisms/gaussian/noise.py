"""Gaussian noise: the analytic calibration, the law, and the isotropic mechanism.

Two normal laws with one covariance S and a shift u have the trade-off function of N(0, 1) and
N(mu, 1), mu^2 = u' S^-1 u. For these the least delta at epsilon is Phi(-a) - e^epsilon Phi(-b),
a = epsilon / mu - mu / 2, b = epsilon / mu + mu / 2 (Balle & Wang 2018, Theorem 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import check_epsilon, check_interval, check_numbers, check_positive, fail
from skdp._draws import normals
from skdp._identity import remembered
from skdp.mechanisms.gaussian.ellipsoid import greatest_square
from skdp.mechanisms.noise import BaseNoise
from skdp.mechanisms.sensitivity.base import ROUND_UP, Sensitivity
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses import GaussianLoss
from skdp.privacy.normal import log_delta
from skdp.randomness import GRANULARITY


def gaussian_scale(epsilon: float, delta: float) -> float:
    """Return the least standard deviation for differences of length 1, rounded up.

    Parameters
    ----------
    epsilon : float in (0, inf)
    delta : float in (0, 1)

    Returns
    -------
    float
        Within a few 1e-12 of the least, and never below it.

    Raises
    ------
    ValueError
        If a parameter is out of range. No Gaussian noise has delta = 0.

    Examples
    --------
    >>> round(gaussian_scale(1.0, 1e-6), 4)
    4.2247
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    if delta == 0:
        rule = "be > 0 for Gaussian noise, which is not pure DP"
        raise fail("delta", rule, delta, 'Give 1e-6, say, or take a mechanism such as "l2".')
    return _least_scale(epsilon, delta)


@remembered(maxsize=1024)
def _least_scale(epsilon: float, delta: float) -> float:
    def is_private(shift: float) -> bool:
        return bool(log_delta(shift, epsilon) <= math.log(delta))

    low = 1.0
    while not is_private(low):
        low /= 2
    high = 2 * low
    while is_private(high):
        low, high = high, 2 * high
    # For subnormal numbers the midpoint equals an end before the relative width is reached.
    while high - low > 1e-15 * low and low < (middle := low / 2 + high / 2) < high:
        low, high = (middle, high) if is_private(middle) else (low, middle)
    scale = ROUND_UP / low  # low has always passed
    if not math.isfinite(scale):
        raise fail("delta", "be so great that the noise is a finite number", delta)
    return scale


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class GaussianNoise(BaseNoise):
    """Centred Gaussian noise A Z, with Z standard normal.

    Attributes
    ----------
    dim : int, >= 1
        Number of coordinates.
    factor : float, or array of shape (dim,) or (dim, dim), units of the released value
        A; a number stands for a multiple of the identity, a vector for a diagonal matrix.
    guarantee : Guarantee
        Guarantee of one release.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("gaussian", Sensitivity(LpBall(2)), epsilon=1.0, delta=1e-6)
    >>> type(noise).__name__, noise.guarantee.delta
    ('GaussianNoise', 1e-06)
    >>> noise.covariance().diagonal().round(1).tolist()
    [17.8, 17.8]
    >>> noise.release([12.0, -3.0]).shape
    (2,)
    """

    dim: int
    factor: float | FloatArray
    guarantee: Guarantee
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        factor = check_numbers("factor", self.factor)
        if factor.shape not in ((), (self.dim,), (self.dim, self.dim)):
            raise fail("factor", f"be a number or have {self.dim} rows", factor.shape)
        if not np.isfinite(factor).all():
            remedy = "Measure the released values in greater units."
            raise fail("factor", "hold finite numbers", remedy=remedy)
        factor.setflags(write=False)
        object.__setattr__(self, "factor", factor if factor.ndim else float(factor))

    @property
    def granularity(self) -> float:
        """Greatest distance of a draw from one of the exact law, in standard deviations."""
        # A product with a matrix rounds once for each term.
        mixed = np.ndim(self.factor) == 2
        return float(min(2.0**-20, max(GRANULARITY, mixed * 2.0**-48 * self.dim**1.5)))

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,), for simulations; use ``release`` to publish a value."""
        return self._spread(normals(self.dim, rng))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of a draw, (dim,)."""
        factor = np.asarray(self.factor)
        squares = factor**2
        return squares.sum(axis=1) if factor.ndim == 2 else np.full(self.dim, squares)

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim)."""
        root = self._spread(np.eye(self.dim))
        return np.asarray(root.T @ root)

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        factor = np.asarray(self.factor)
        if factor.ndim == 2:
            return np.asarray(factor @ factor[0])
        return np.append(self.variance()[:1], np.zeros(self.dim - 1))

    def _draws(self, n: int, rng: Generator) -> FloatArray:
        return self._spread(rng.standard_normal((n, self.dim)))

    def _spread(self, z: FloatArray) -> FloatArray:
        """Return A z for z of shape (..., dim)."""
        factor = np.asarray(self.factor)
        return np.asarray(z @ factor.T if factor.ndim == 2 else z * factor)


@dataclass(frozen=True)
class IsotropicGaussian:
    """Independent normal noise of one variance in every coordinate, the name "gaussian".

    The standard deviation is the greatest length of a difference times the least that is
    (epsilon, delta)-private for length 1 (Balle & Wang 2018).

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = IsotropicGaussian().calibrate(
    ...     Sensitivity(LpBall(2), radius=3.0), epsilon=1.0, delta=1e-6
    ... )
    >>> round(noise.factor, 3)
    12.674
    """

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> GaussianNoise:
        """Return the least such noise that is (epsilon, delta)-private, for delta > 0."""
        epsilon, ball = check_epsilon(epsilon), sensitivity.ball
        length = sensitivity.radius * math.sqrt(greatest_square(ball, np.ones(ball.dim)))
        scale = length * gaussian_scale(epsilon, delta) * ROUND_UP
        guarantee = gaussian_guarantee(sensitivity, epsilon, delta, "Gaussian")
        return GaussianNoise(ball.dim, scale, guarantee)


def gaussian_guarantee(
    sensitivity: Sensitivity, epsilon: float, delta: float, kind: str
) -> Guarantee:
    """Return the guarantee of Gaussian noise calibrated to a sensitivity."""
    return Guarantee(
        float(epsilon),
        float(delta),
        neighbors=sensitivity.neighbors,
        mechanism=f"{kind} noise for differences in {sensitivity.ball!r}",
        losses=((GaussianLoss(1 / gaussian_scale(epsilon, delta)), 1),),
    )
