"""Norm balls: their protocol, and images of a ball under linear maps.

A ball is a convex body K = -K with interior. Its gauge |v|_K = min {t >= 0 : v in tK} is a
norm, and every norm is the gauge of its unit ball. With d the dimension and U uniform on K,
|U|_K^d is uniform on (0, 1) and does not depend on the direction U / |U|_K. The K-norm law,
density proportional to exp(-|v|_K), is that of r U with r ~ Gamma(d + 1) independent of U.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.linalg import lu_factor, lu_solve

from skdp._arrays import FloatArray
from skdp._checks import check_positive, fail

# Greatest number of extreme points that are listed.
MOST_POINTS = 2**16
# Beyond this a linear map's inverse keeps fewer than four digits.
_WORST_CONDITION = 1e12
# Variances are estimated from arrays of at most so many entries, but at least so many draws.
_MOST_ENTRIES, _FEWEST_DRAWS = 2**23, 64


@runtime_checkable
class NormBall(Protocol):
    """The unit ball of a norm on R^dim, with a sampler.

    Optional members: ``log_volume()``; ``support(w)``, the greatest <w, u> over u in K, for w of
    shape (..., dim); ``bounding_box()``, half-widths of shape (dim,); ``covariance()`` of the
    uniform law, (dim, dim), ``variance()``, its diagonal, and ``first_covariance()``, its first
    row, (dim,); ``extreme_points()`` of shape (count, dim). Balls built from balls support the
    members that all parts support.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.geometry import LpBall, NormBall
    >>> ball: NormBall = LpBall(2, p=1)
    >>> float(ball.gauge([0.5, -0.25]))
    0.75
    >>> points = ball.sample(1000, np.random.default_rng(0))
    >>> bool((ball.gauge(points) <= 1).all())
    True
    """

    @property
    def dim(self) -> int:
        """Number of coordinates, >= 1."""

    @property
    def exact(self) -> bool:
        """Whether ``sample`` draws from exactly the uniform law."""

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return |v|_K for v of shape (..., dim), of shape (...)."""

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n independent draws, (n, dim), uniform on K."""


def as_points(v: ArrayLike, dim: int, name: str = "v") -> FloatArray:
    """Return ``v`` as floats of shape (..., dim)."""
    points = np.asarray(v, dtype=float)
    if points.ndim == 0 or points.shape[-1] != dim:
        raise fail(name, f"have {dim} numbers on its last axis", points.shape[-1:])
    return points


def ask(ball: NormBall, member: str, *args: Any) -> Any:
    """Call an optional member of a ball; if it is missing, AttributeError names the ball."""
    method = getattr(ball, member, None)
    if method is None:
        kind = type(ball).__name__
        raise AttributeError(f"{kind} must have {member}() for this. Add it to the class {kind}.")
    return method(*args)


def known(ball: Any, member: str, *args: Any) -> FloatArray | None:
    """Return the value of an optional member, or None if it is missing or raises ValueError."""
    try:
        return np.asarray(ask(ball, member, *args), dtype=float)
    except (AttributeError, ValueError):
        return None


def half_widths(ball: NormBall) -> FloatArray:
    """Return ``bounding_box()``, or raise if the ball has neither it nor extreme points."""
    try:
        return np.asarray(ask(ball, "bounding_box"))
    except AttributeError:
        remedy = "Add bounding_box() to its class, or measure the differences in another ball."
        raise fail("ball", "have extreme_points() or bounding_box()", type(ball), remedy) from None


def parts_of(ball: Any) -> list[NormBall]:
    """Return the balls in the attributes ``balls`` and ``ball`` of a ball."""
    return [*getattr(ball, "balls", ()), *([ball.ball] if hasattr(ball, "ball") else [])]


def uniform_covariance(ball: NormBall, *, draws: int = 4096) -> tuple[FloatArray, bool]:
    """Return the covariance of the uniform law, (dim, dim), and whether it is an estimate."""
    with suppress(AttributeError):
        return np.asarray(ask(ball, "covariance")), False
    points = ball.sample(draws, np.random.default_rng(0))
    return np.asarray(points.T @ points / draws), True


def exact_variance(ball: NormBall) -> FloatArray:
    """Return ``variance()``, (dim,), or the diagonal of ``covariance()``; else AttributeError."""
    if hasattr(ball, "variance"):
        with suppress(AttributeError):  # a part may lack it
            return np.asarray(ask(ball, "variance"))
    return np.diagonal(ask(ball, "covariance")).copy()


def uniform_variance(ball: NormBall, *, draws: int = 4096) -> FloatArray:
    """Return the variance of each coordinate of the uniform law, (dim,).

    It is exact if the ball has ``variance()`` or ``covariance()``. Otherwise it is an estimate
    from fixed draws: ``mean_squares()`` of the ball, or the mean over at most ``draws`` samples.
    """
    with suppress(AttributeError):
        return exact_variance(ball)
    with suppress(AttributeError):
        return np.asarray(ask(ball, "mean_squares"))
    few = max(_FEWEST_DRAWS, _MOST_ENTRIES // ball.dim)
    points = ball.sample(min(draws, few), np.random.default_rng(0))
    return np.asarray(np.mean(points**2, axis=0))


def uniform_first_covariance(ball: NormBall) -> FloatArray:
    """Return the covariance of each coordinate of the uniform law with the first one, (dim,).

    It is an estimate for the balls for which `uniform_covariance` is one.
    """
    with suppress(AttributeError):
        return np.asarray(ask(ball, "first_covariance"))
    return np.asarray(uniform_covariance(ball)[0][0])


def listable(count: int) -> int:
    """Return ``count``, or raise if so many extreme points are too many to list."""
    if count > MOST_POINTS:
        raise fail("extreme_points", f"number at most {MOST_POINTS}", count, "Use support(w).")
    return count


class BallImage:
    """The part that images of a ball K under linear maps share."""

    ball: NormBall

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.ball.dim

    @property
    def exact(self) -> bool:
        """Whether K's sampler is exact."""
        return self.ball.exact


@dataclass(frozen=True)
class ScaledBall(BallImage):
    """The ball ``factor * K``.

    Parameters
    ----------
    ball : NormBall
        The ball K.
    factor : float in (0, inf)
        Its gauge is that of K divided by this.

    Examples
    --------
    >>> from skdp.geometry import LpBall, ScaledBall
    >>> float(ScaledBall(LpBall(2), 2.0).gauge([3.0, 4.0]))
    2.5
    """

    ball: NormBall
    factor: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", check_positive("factor", self.factor))

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        return self.ball.gauge(v) / self.factor

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        return self.factor * self.ball.sample(n, rng)

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        return float(ask(self.ball, "log_volume") + self.dim * math.log(self.factor))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        return np.asarray(self.factor * ask(self.ball, "support", w))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return np.asarray(self.factor * ask(self.ball, "bounding_box"))

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        return np.asarray(self.factor**2 * ask(self.ball, "covariance"))

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        return np.asarray(self.factor**2 * uniform_first_covariance(self.ball))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        return np.asarray(self.factor**2 * exact_variance(self.ball))

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim)."""
        return np.asarray(self.factor * ask(self.ball, "extreme_points"))


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class MappedBall(BallImage):
    """The image of the ball K under an invertible linear map.

    Parameters
    ----------
    ball : NormBall
        The ball K.
    matrix : array-like of shape (dim, dim), or (dim,) for a diagonal map
        The map A: the image is {A u : u in K}, its gauge |A^-1 v|_K.

    Examples
    --------
    >>> from skdp.geometry import LpBall, MappedBall
    >>> float(MappedBall(LpBall(2), [2.0, 1.0]).gauge([2.0, 0.0]))
    1.0
    """

    ball: NormBall
    matrix: ArrayLike

    def __post_init__(self) -> None:
        matrix, d = np.array(self.matrix, dtype=float), self.ball.dim
        if matrix.shape not in ((d,), (d, d)):
            raise fail("matrix", f"have shape ({d},) or ({d}, {d})", matrix.shape)
        if not _is_invertible(matrix):
            rule = f"be invertible, a full one with condition number < {_WORST_CONDITION:g}"
            raise fail("matrix", rule)
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @cached_property
    def _factors(self) -> Any:
        return lu_factor(np.asarray(self.matrix))

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        v, matrix = as_points(v, self.dim), np.asarray(self.matrix)
        if matrix.ndim == 1:
            return self.ball.gauge(v / matrix)
        columns = v.reshape(-1, self.dim).T
        return self.ball.gauge(
            lu_solve(self._factors, columns, check_finite=False).T.reshape(v.shape)
        )

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        return self._image(self.ball.sample(n, rng))

    def log_volume(self) -> float:
        """Return the natural logarithm of the volume."""
        matrix = np.asarray(self.matrix)
        diagonal = matrix.ndim == 1
        log_det = np.log(np.abs(matrix)).sum() if diagonal else np.linalg.slogdet(matrix)[1]
        return float(ask(self.ball, "log_volume") + log_det)

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        w, matrix = as_points(w, self.dim, "w"), np.asarray(self.matrix)
        return np.asarray(ask(self.ball, "support", w * matrix if matrix.ndim == 1 else w @ matrix))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(np.abs(matrix) * ask(self.ball, "bounding_box"))
        return np.asarray(ask(self.ball, "support", matrix))

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law, (dim, dim)."""
        covariance, matrix = ask(self.ball, "covariance"), np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(matrix[:, None] * covariance * matrix)
        return np.asarray(matrix @ covariance @ matrix.T)

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,)."""
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(matrix[0] * matrix * uniform_first_covariance(self.ball))
        return np.asarray(matrix @ (uniform_covariance(self.ball)[0] @ matrix[0]))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the uniform law, (dim,)."""
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            return np.asarray(matrix**2 * exact_variance(self.ball))
        return np.asarray(((matrix @ ask(self.ball, "covariance")) * matrix).sum(axis=1))

    def extreme_points(self) -> FloatArray:
        """Return the extreme points, (count, dim)."""
        return self._image(ask(self.ball, "extreme_points"))

    def _image(self, points: FloatArray) -> FloatArray:
        matrix = np.asarray(self.matrix)
        return np.asarray(points * matrix if matrix.ndim == 1 else points @ matrix.T)


def _is_invertible(matrix: FloatArray) -> bool:
    if not np.isfinite(matrix).all():
        return False
    if matrix.ndim == 1:
        return bool((matrix != 0).all())
    return bool(np.linalg.cond(matrix) < _WORST_CONDITION)
