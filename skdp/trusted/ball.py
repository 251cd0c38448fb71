"""Norm balls: their protocol, what is asked of a ball, and the weighted l_p balls.

A ball is a convex body K = -K with interior. Its gauge |v|_K = min {t >= 0 : v in tK} is a
norm, and every norm is the gauge of its unit ball. With d the dimension and U uniform on K,
|U|_K^d is uniform on (0, 1) and does not depend on the direction U / |U|_K. The K-norm law,
density proportional to exp(-|v|_K), is that of r U with r ~ Gamma(d + 1) independent of U.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import (
    check_count,
    check_interval,
    check_numbers,
    check_positive,
    check_positives,
    fail,
)
from skdp.trusted.draws import exponentials, gammas, normals, signed
from skdp.trusted.identity import is_our_class, is_ours
from skdp.trusted.rounding import ROUND_UP

# Greatest number of extreme points that are listed.
MOST_POINTS = 2**16
# Variances are estimated from arrays of at most so many entries, but at least so many draws.
_MOST_ENTRIES, _FEWEST_DRAWS = 2**23, 64
_MOST_CORNER_DIMS = 20


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
    method = member_of(ball, member)
    if method is None:
        kind = type(ball).__name__
        raise AttributeError(f"{kind} must have {member}() for this. Add it to the class {kind}.")
    return method(*args)


def member_of(ball: Any, member: str) -> Any:
    """Return an optional member that fits the gauge of a ball, or None.

    A class of another package may inherit the member from a class of this package, and have
    another gauge.
    """
    method = getattr(ball, member, None)
    if method is None or is_ours(ball):
        return method
    gauge, kind = (
        next((kind for kind in type(ball).__mro__ if own in vars(kind)), type(ball))
        for own in ("gauge", member)
    )
    return method if is_our_class(gauge) or not is_our_class(kind) else None


def known(ball: NormBall, member: str) -> FloatArray | None:
    """Return the value of an optional member, or None if it is missing or raises ValueError."""
    try:
        return np.asarray(ask(ball, member), dtype=float)
    except (AttributeError, ValueError):
        return None


def half_widths(ball: NormBall) -> FloatArray:
    """Return ``bounding_box()``, or ``support()`` along the axes, or raise if there is neither."""
    try:
        support = member_of(ball, "support")
        if member_of(ball, "bounding_box") is None and support is not None:
            return np.asarray(support(np.eye(ball.dim)))
        return np.asarray(ask(ball, "bounding_box"))
    except AttributeError:
        remedy = "Add bounding_box() to its class, or measure the differences in another ball."
        raise fail("ball", "have extreme_points() or bounding_box()", type(ball), remedy) from None


def parts_of(ball: NormBall) -> list[NormBall]:
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

    @property
    def is_round(self) -> bool:
        """Whether it is a linear image of the Euclidean ball."""
        return self.p == 2 or self.dim == 1

    def greatest_square(self, weights: FloatArray) -> float:
        """Return a bound on the greatest sum_i weights_i u_i^2."""
        return norm_of(weights * self._half_widths**2, dual_exponent(self.p)) * ROUND_UP

    def projection(self, places: list[int]) -> LpBall | None:
        """Return the projection to some coordinates, or None."""
        return LpBall(len(places), self.p, self.radius) if self.weights is None else None

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


def dual_exponent(p: float) -> float:
    """Return r such that the greatest sum c_i t_i^2 over |t|_p <= 1 is |c|_r."""
    return math.inf if p <= 2 else 1.0 if math.isinf(p) else p / (p - 2)


def norm_of(x: FloatArray, r: float) -> float:
    """Return the l_r norm of numbers >= 0."""
    top = float(x.max())
    return top if math.isinf(r) else top * float(((x / top) ** r).sum()) ** (1 / r)
