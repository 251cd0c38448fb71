"""Images of a ball under linear maps that shift all coordinates by multiples of the first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_numbers, fail
from skdp.geometry.ball import (
    BallImage,
    NormBall,
    as_points,
    ask,
    exact_variance,
    uniform_first_covariance,
)

# With longer shifts the map's condition number exceeds about 1e12, as in `MappedBall`.
_LONGEST = 1e6
# Supports are computed for arrays of at most so many entries.
_ENTRIES = 2**20


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class ShearedBall(BallImage):
    """The image of the ball K under the map (u_0, u) -> (u_0, u + shift u_0).

    It is a `MappedBall` whose memory is linear in the dimension, and whose time is, too, except
    that of the first ``bounding_box()``.

    Parameters
    ----------
    ball : NormBall
        The ball K.
    shift : array-like of shape (dim,)
        The first entry is 0.

    Examples
    --------
    >>> from skdp.geometry import LpBall, ShearedBall
    >>> float(ShearedBall(LpBall(2, p=1), [0.0, 0.5]).gauge([1.0, 0.5]))
    1.0
    """

    ball: NormBall
    shift: FloatArray

    def __post_init__(self) -> None:
        shift = check_numbers("shift", self.shift)
        if shift.shape != (self.ball.dim,) or shift[0] != 0:
            rule = f"have shape ({self.ball.dim},) and a first entry of 0"
            raise fail("shift", rule, shift.shape)
        if not np.linalg.norm(shift) < _LONGEST:
            raise fail("shift", f"be shorter than {_LONGEST:g}")
        shift.setflags(write=False)
        object.__setattr__(self, "shift", shift)

    @property
    def matrix(self) -> FloatArray:
        """The matrix of the map, (dim, dim), made anew each time."""
        matrix = np.eye(self.dim)
        matrix[:, 0] += self.shift
        return matrix

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v = as_points(v, self.dim)
        return self.ball.gauge(v - v[..., :1] * self.shift)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        return self._image(self.ball.sample(n, rng))

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume, which is that of K."""
        return float(ask(self.ball, "log_volume"))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        w = np.array(as_points(w, self.dim, "w"))
        w[..., 0] += w @ self.shift
        return np.asarray(ask(self.ball, "support", w))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return self._box.copy()

    @cached_property
    def _box(self) -> FloatArray:
        step = max(1, _ENTRIES // self.dim)
        starts = range(0, self.dim, step)
        rows = (np.eye(min(step, self.dim - first), self.dim, k=first) for first in starts)
        return np.concatenate([self.support(part) for part in rows])

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        return self._image(self._image(ask(self.ball, "covariance")).T)

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        return self._image(uniform_first_covariance(self.ball))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        own, first = exact_variance(self.ball), uniform_first_covariance(self.ball)
        return np.asarray(own + self.shift * (2 * first + self.shift * first[0]))

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim)."""
        return self._image(ask(self.ball, "extreme_points"))

    def _image(self, points: FloatArray) -> FloatArray:
        return np.asarray(points + points[..., :1] * self.shift)
