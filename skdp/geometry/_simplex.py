"""The hull of one categorical column's rows and their negatives, centred on its levels.

A column of m + 1 levels, coded by indicators without the first level and centred at the even
average c = (1, ..., 1) / (m + 1) of the levels, has the rows p_0 = -c and p_k = e_k - c. They
are the corners of a simplex around 0 with sum_k p_k = 0 and no other relation, so
v = sum_k lam_k p_k fixes lam up to a constant. As v_k = lam_k - mean(lam), the lam of mean 0 is
(-sum(v), v), and the gauge is the least of sum_k |lam_k - t| over t, attained at a median.

Triangulation. A generic lam has one median (m even) or an interval of them (m odd); shifted by
the median, or by the upper end of the interval, it has one zero, f = floor(m / 2) positive
entries and m - f negative ones. So K is cut into the simplices conv(0, s_k p_k : k != j), one
for each j and each choice s of f signs + and m - f signs -: (m + 1) C(m, f) of them, each of
volume |det(p_k : k != j)| / m! = 1 / ((m + 1) m!). Together that is C(m, f) / m!.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammaln

from skdp._arrays import FloatArray
from skdp._checks import check_count
from skdp._draws import exponentials
from skdp.geometry.ball import as_points


@dataclass(frozen=True)
class SimplexBall:
    """The hull of a centred categorical column's rows and their negatives.

    Parameters
    ----------
    dim : int, >= 1
        Number of indicators: the levels of the column without the first.

    Notes
    -----
    With m = dim the rows are p_0 = -c and p_k = e_k - c, k = 1, ..., m, where
    c = (1, ..., 1) / (m + 1); the ball is conv{p_k, -p_k}. For m = 1 it is [-1/2, 1/2].

    Examples
    --------
    >>> from skdp.geometry import SimplexBall
    >>> ball = SimplexBall(3)  # a column of four levels
    >>> float(ball.gauge([0.75, -0.25, -0.25]))  # its second level
    1.0
    >>> float(ball.gauge([1.0, -1.0, 0.0]))  # a difference of two levels
    2.0
    """

    dim: int
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count("dim", self.dim))

    @cached_property
    def _signs(self) -> FloatArray:
        """The signs of lam, up to their order: 0 once, then + and - as in the triangulation."""
        half = self.dim // 2
        return np.repeat([0.0, 1.0, -1.0], [1, half, self.dim - half])

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v = as_points(v, self.dim)
        top = np.abs(v).max(axis=-1, keepdims=True)
        # Divided by the greatest entry nothing overflows. Where that is 0, inf or nan it is the
        # answer itself: it stays so when multiplied by the gauge of ones, which is positive.
        usable = (top > 0) & np.isfinite(top)
        share = np.divide(v, top, out=np.ones_like(v), where=usable)
        lam = np.concatenate([-share.sum(axis=-1, keepdims=True), share], axis=-1)
        middle = (self.dim + 1) // 2
        median = np.partition(lam, middle, axis=-1)[..., middle, None]
        with np.errstate(over="ignore"):
            return np.asarray(top[..., 0] * np.abs(lam - median).sum(axis=-1))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        # Exponentials over their sum are uniform weights; the one with sign 0 stays with 0.
        sizes = exponentials((n, self.dim + 1), rng)
        weights = self._signs * (sizes / sizes.sum(axis=1, keepdims=True))
        lam = rng.permuted(weights, axis=1, out=weights)
        return np.asarray(lam[:, 1:] - lam.mean(axis=1, keepdims=True))

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        half = self.dim // 2
        return float(-gammaln(half + 1) - gammaln(self.dim - half + 1))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        w = as_points(w, self.dim, "w")
        # Division before the sum avoids overflow.
        centre = (w / (self.dim + 1)).sum(axis=-1)
        others = np.abs(w - centre[..., None]).max(axis=-1)
        return np.asarray(np.maximum(np.abs(centre), others))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return np.full(self.dim, self.dim / (self.dim + 1))

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        # U = sum_k lam_k p_k, E lam_k^2 = A and E lam_k lam_l = B, and sum_k p_k = 0: the
        # covariance is (A - B) sum_k p_k p_k', the sum being 1 - 11' / (m + 1). The m weights
        # have mean square 2 / ((m + 1)(m + 2)), mean product half of it, and signs of sum 0 or
        # -1, which leaves (A - B)(m + 1)^2 (m + 2) = 2 m + 1, less 1 / m for odd m.
        m = self.dim
        return np.asarray(self._second_moment * (np.eye(m) - 1 / (m + 1)))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        return np.full(self.dim, self._second_moment * self.dim / (self.dim + 1))

    @property
    def _second_moment(self) -> float:
        m = self.dim
        return (2 * m + 1 - m % 2 / m) / ((m + 1) ** 2 * (m + 2))

    def extreme_points(self) -> FloatArray:
        """Return the rows and their negatives, (2 * dim + 2, dim), for dim 1 only (2, 1)."""
        rows = np.eye(self.dim + 1, self.dim, k=-1) - 1 / (self.dim + 1)
        # With two levels each row is the negative of the other.
        return rows if self.dim == 1 else np.concatenate([rows, -rows])
