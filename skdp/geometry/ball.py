"""Norm balls: their protocol, and what is asked of a ball.

A ball is a convex body K = -K with interior. Its gauge |v|_K = min {t >= 0 : v in tK} is a
norm, and every norm is the gauge of its unit ball. With d the dimension and U uniform on K,
|U|_K^d is uniform on (0, 1) and does not depend on the direction U / |U|_K. The K-norm law,
density proportional to exp(-|v|_K), is that of r U with r ~ Gamma(d + 1) independent of U.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_numbers, fail

# Greatest number of extreme points that are listed.
MOST_POINTS = 2**16
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
    points = v if isinstance(v, np.ndarray) and v.dtype == np.float64 else check_numbers(name, v)
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
