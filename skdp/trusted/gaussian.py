"""Gaussian noise A Z, which is as private as N(0, 1) and N(mu, 1), mu = |A^-1 u|_2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import check_numbers, fail
from skdp._draws import normals
from skdp.privacy.guarantee import Guarantee
from skdp.randomness import GRANULARITY
from skdp.trusted.noise import BaseNoise


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
    guarantee: Guarantee = None  # type: ignore[assignment]  # stated by `certified`
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        factor = check_numbers("factor", self.factor)
        if factor.shape not in ((), (self.dim,), (self.dim, self.dim)):
            raise fail("factor", f"be a number or have {self.dim} rows", factor.shape)
        if not np.isfinite(factor).all():
            remedy = "Measure the released values in greater units."
            raise fail("factor", "hold finite numbers", remedy=remedy)
        if factor.ndim < 2 and not (factor != 0).all():
            raise fail("factor", "hold no 0: without noise nothing is private")
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
