"""The weighted l_p balls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from skdp._arrays import FloatArray
from skdp._checks import (
    check_count,
    check_interval,
    check_positive,
    check_positives,
    fail,
)
from skdp._draws import exponentials, gammas, normals, signed
from skdp.geometry.ball import as_points

_MOST_CORNER_DIMS = 20


@dataclass(frozen=True)
class LpBall:
    """The ball {v : |weights * v|_p <= radius}.

    Parameters
    ----------
    dim : int, >= 1
        Number of coordinates.
    p : float in [1, inf], default=2.0
        Exponent of the norm; ``math.inf`` gives a box.
    radius : float in (0, inf), default=1.0
        The gauge is |weights * v|_p / radius.
    weights : sequence of float in (0, inf), (dim,), or None for ones
        Factors of the coordinates; the half-width along axis j is radius / weights[j].

    Notes
    -----
    The sampler is that of Barthe, Guedon, Mendelson & Naor (2005): g_i independent with
    density proportional to exp(-|g|^p), E ~ Exp(1), U = g / (|g|_p^p + E)^(1/p).

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> float(LpBall(2, p=1, weights=(1.0, 2.0)).gauge([1.0, 1.0]))
    3.0
    """

    dim: int
    p: float = 2.0
    radius: float = 1.0
    weights: Sequence[float] | FloatArray | None = None
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count("dim", self.dim))
        object.__setattr__(self, "p", check_interval("p", self.p, 1, math.inf))
        object.__setattr__(self, "radius", check_positive("radius", self.radius))
        if self.weights is not None:
            weights = check_positives("weights", self.weights)
            if len(weights) != self.dim:
                raise fail("weights", f"have one entry for each of {self.dim} dims", len(weights))
            object.__setattr__(self, "weights", weights)

    @cached_property
    def _half_widths(self) -> FloatArray:
        """Half-widths of the ball along the axes."""
        ones = np.ones(self.dim)
        return self.radius / (ones if self.weights is None else np.asarray(self.weights))

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        return _norm(as_points(v, self.dim) / self._half_widths, self.p)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        if math.isinf(self.p):
            return np.asarray(self._half_widths * rng.uniform(-1, 1, (n, self.dim)))
        g = _generalised_normal((n, self.dim), self.p, rng)
        total = (np.abs(g) ** self.p).sum(axis=1) + exponentials(n, rng)
        return np.asarray(self._half_widths * (g / total[:, None] ** (1 / self.p)))

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        d, inverse = self.dim, 1 / self.p
        unit = d * math.log(2) + d * gammaln(1 + inverse) - gammaln(1 + d * inverse)
        return float(unit + np.log(self._half_widths).sum())

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...): the dual norm."""
        dual = math.inf if self.p == 1 else 1 / (1 - 1 / self.p)
        return _norm(as_points(w, self.dim, "w") * self._half_widths, dual)

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return self._half_widths.copy()

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        return np.diag(self.variance())

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        return np.append(self.variance()[:1], np.zeros(self.dim - 1))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        # In U = g / T^(1/p), T ~ Gamma(1 + d/p) is independent of U: E U^2 = E g^2 / E T^(2/p).
        d, inverse = self.dim, 1 / self.p
        log_g = gammaln(1 + 3 * inverse) - gammaln(1 + inverse) - math.log(3)
        log_t = gammaln(1 + (d + 2) * inverse) - gammaln(1 + d * inverse)
        return np.asarray(math.exp(log_g - log_t) * self._half_widths**2)

    def extreme_points(self) -> FloatArray:
        """Return the corners, (2 * dim, dim) for p = 1 and (2**dim, dim) for p = inf."""
        if self.p == 1 or self.dim == 1:
            half = np.diag(self._half_widths)
            return np.concatenate([half, -half])
        if not math.isinf(self.p):
            raise fail("p", "be 1 or inf to have finitely many corners", self.p, "Use support(w).")
        if self.dim > _MOST_CORNER_DIMS:
            rule = f"be at most {_MOST_CORNER_DIMS} to list the corners of a box"
            raise fail("dim", rule, self.dim, "Use support(w).")
        return self._half_widths * sign_patterns(self.dim)


def sign_patterns(dim: int) -> FloatArray:
    """Return all vectors of +1 and -1, (2**dim, dim)."""
    bits: NDArray[np.int64] = np.arange(2**dim)[:, None] >> np.arange(dim) & 1
    return np.asarray(1.0 - 2.0 * bits, dtype=float)


def _norm(x: FloatArray, p: float) -> FloatArray:
    """Return |x|_p over the last axis, with no overflow on the way."""
    size = np.abs(x)
    top = size.max(axis=-1, keepdims=True)
    if not math.isinf(p):
        # Entries are divided by the greatest one, so their powers lie in [0, 1].
        share = size / np.where((top > 0) & np.isfinite(top), top, 1.0)
        with np.errstate(over="ignore"):
            top = top * (share**p).sum(axis=-1, keepdims=True) ** (1 / p)
    return np.asarray(top[..., 0])


def _generalised_normal(shape: tuple[int, int], p: float, rng: Generator) -> FloatArray:
    """Draw numbers with density proportional to exp(-|g|^p)."""
    if p == 1:
        return signed(exponentials(shape, rng), rng)
    if p == 2:
        return normals(shape, rng) * math.sqrt(0.5)
    # |g| = Gamma(1/p)^(1/p), which underflows for great p; Gamma(1/p) is Gamma(1 + 1/p)
    # times the p-th power of a uniform number.
    return rng.uniform(-1, 1, shape) * gammas(1 + 1 / p, shape, rng) ** (1 / p)
