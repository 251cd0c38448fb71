"""The exact hull of one number and the target: (x, y, 2 x^2, x y).

With D = conv{(x, y, x^2, x y) : x, y in [-1, 1]} the hull of the differences is K = D - D. A
point of D is a mean over x and over y = 1 or -1 given x. Let a = (1 + Y) / 2 be the share of
y = 1 and f = (X + Z) / 2, g = (X - Z) / 2 the parts of the mean X that y = 1 and y = -1
contribute. Then |f| <= a, |g| <= 1 - a, and the mean square is any number in
[f^2 / a + g^2 / (1 - a), 1].

Let (X, Y, Z) differ by (u_x, u_y, u_z), and v = u_y / 2. The mean squares then differ by at most
1 - F, F the least f^2 / a + g^2 / (1 - a) over the points of D that may be moved so. At given a
the least |f| is (|u_x + u_z| / 2 - v - a)_+ and the least |g| is (|u_x - u_z| / 2 + v - (1 - a))_+.
With A = |u_x + u_z| / 2 - v and B = |u_x - u_z| / 2 + v, F is the least over a of
(A - a)_+^2 / a + (B - (1 - a))_+^2 / (1 - a), convex in a, over max(0, -v, A / 2) <= a <=
min(1, 1 - v, 1 - B / 2). Free of these ends a = A / (A + B) is best where A + B > 1; otherwise any
a in [A, 1 - B], where F = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp.geometry._gauges import product_gauge, square_gauge
from skdp.geometry.ball import as_points
from skdp.geometry.moments._bodies import NumbersBall

HALVINGS = 54


@dataclass(frozen=True)
class PairHull:
    """The hull of the differences of (x, y, 2 x^2, x y), x and y in [-1, 1].

    Examples
    --------
    >>> from skdp.geometry.moments import NumbersBall, PairHull
    >>> u = [1.0, 1.0, 1.0, 2.0]
    >>> round(float(PairHull().gauge(u)), 6), float(NumbersBall(1, 1).gauge(u))
    (1.142857, 1.0)
    """

    dim: ClassVar[int] = 4
    exact = True

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., 4) to (...), rounded up in its last digits."""
        v = as_points(v, self.dim)
        low = _outer_gauge(v)
        top = np.where((low > 0) & np.isfinite(low), low, 1.0)
        scaled = v / top[..., None]
        factor = np.ones(low.shape)
        beyond = ~_holds(scaled)
        factor[beyond] = _factor(scaled[beyond])
        return np.asarray(low * factor)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, 4), by rejection from `NumbersBall`."""
        kept, missing = [np.empty((0, 4))], n
        while missing > 0:
            tried = NumbersBall(1, 1).sample(missing + missing // 3 + 4, rng)
            chosen = tried[_holds(tried)][:missing]
            kept.append(chosen)
            missing -= len(chosen)
        return np.concatenate(kept)

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the hull, (..., 4) to (...)."""
        w = as_points(w, self.dim, "w")
        return _greatest(w) + _greatest(-w)

    def estimate_log_volume(self, n: int, rng: Generator) -> tuple[float, float]:
        """Return an estimate of the log volume from n draws, and its standard error."""
        outer = NumbersBall(1, 1)
        value, error = outer.estimate_log_volume(n, rng)
        kept = float(_holds(outer.sample(n, rng)).mean())
        return value + math.log(kept), math.hypot(error, math.sqrt((1 - kept) / kept / n))

    def estimate_covariance(self, n: int, rng: Generator) -> FloatArray:
        """Return an estimate from n draws of the covariance of the uniform law, (4, 4)."""
        u = self.sample(n, rng)
        return np.asarray(u.T @ u / n)

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the hull, (4,): twos."""
        return np.full(self.dim, 2.0)


def _factor(u: FloatArray) -> FloatArray:
    """Return the gauge of points on the boundary of the level-1 body, (n, 4) to (n,)."""
    # At twice the outer gauge the only condition on the mean squares is |u_xx| <= 2.
    outside, inside = np.ones(len(u)), np.full(len(u), 2.0)
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        holds = _holds(u / middle[:, None])
        inside, outside = np.where(holds, middle, inside), np.where(holds, outside, middle)
    return inside


def _holds(u: FloatArray) -> NDArray[np.bool_]:
    """Return whether u is in K, for u in the level-1 body."""
    square = u[..., 2] / 2
    upper = 1 - _least_square(u[..., 0], u[..., 1], u[..., 3])
    lower = 1 - _least_square(u[..., 0], -u[..., 1], u[..., 3])
    return np.asarray((square <= upper) & (-square <= lower))


def _outer_gauge(u: FloatArray) -> FloatArray:
    x, y, square, product = np.moveaxis(u, -1, 0)
    return np.asarray(np.maximum(product_gauge(x, y, product), square_gauge(x, square)))


def _least_square(x: FloatArray, y: FloatArray, product: FloatArray) -> FloatArray:
    """Return F of differences (x, y, product) in K_3."""
    v = y / 2
    plus, minus = np.abs(x + product) / 2 - v, np.abs(x - product) / 2 + v
    total = plus + minus
    free = np.where(total > 1, plus / np.where(total > 1, total, 1.0), plus)
    low = np.maximum(np.maximum(-v, plus / 2), 0.0)
    high = np.minimum(np.minimum(1 - v, 1 - minus / 2), 1.0)
    a = np.clip(free, low, np.maximum(high, low))
    return _excess(plus, a) + _excess(minus, 1 - a)


def _excess(need: FloatArray, share: FloatArray) -> FloatArray:
    short = np.maximum(need - share, 0.0)
    # short <= share, as need / 2 <= share; so short is 0 if the share is 0.
    out = np.zeros(short.shape)
    return np.asarray(np.divide(short**2, share, out=out, where=share > 0))


def _greatest(w: FloatArray) -> FloatArray:
    """Return the greatest w_1 x + w_2 y + 2 w_3 x^2 + w_4 x y over x, y in [-1, 1]."""
    values = []
    for sign in (1.0, -1.0):
        # With y = 1 or -1 the form is a quadratic in x.
        constant, slope, curve = sign * w[..., 1], w[..., 0] + sign * w[..., 3], 2 * w[..., 2]
        ends = curve + np.abs(slope)
        bowl = -4 * curve > 0
        inner = np.divide(-slope, 2 * curve, out=np.zeros(ends.shape), where=bowl).clip(-1, 1)
        values.append(constant + np.maximum(ends, slope * inner + curve * inner**2))
    return np.asarray(np.maximum(*values))
