"""Norm balls, and the greatest change of a statistic by one record, measured in their norms.

A ball is a convex body K = -K with interior. Its gauge |v|_K = min {t >= 0 : v in tK} is a
norm, and every norm is the gauge of its unit ball. With d the dimension and U uniform on K,
|U|_K^d is uniform on (0, 1) and does not depend on the direction U / |U|_K. The K-norm law,
density proportional to exp(-|v|_K), is that of r U with r ~ Gamma(d + 1) independent of U.

A ball may have further optional members. ``greatest_square(w)`` is an upper bound on the
greatest sum_i w_i u_i^2 over the differences u, convex, positively homogeneous and nondecreasing
in w >= 0. ``orbits()`` returns a label for each coordinate, (dim,); coordinates with one label
are exchangeable, so w may be taken equal on them. Proofs: docs/proofs/gaussian.md and
docs/proofs/certify.md.
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

from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.checks import (
    check_choice,
    check_count,
    check_interval,
    check_numbers,
    check_positive,
    check_positives,
    fail,
    is_our_class,
    is_ours,
)
from skdp.trusted.randomness import exponentials, gammas, normals, signed
from skdp.trusted.statement import NEIGHBORS

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


# Beyond this an inverse keeps fewer than four digits.
WORST_CONDITION = 1e12


@dataclass(frozen=True)
class Change:
    """Every difference f(D) - f(D') of neighbours D, D' has gauge at most ``radius``.

    Attributes
    ----------
    ball : NormBall
    radius : float > 0
    neighbors : {"replace_one", "add_remove"}
    """

    ball: NormBall
    radius: float = 1.0
    neighbors: str = "replace_one"

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check_positive("radius", self.radius))
        check_choice("neighbors", self.neighbors, tuple(NEIGHBORS))

    def radius_in(self, ball: NormBall) -> float:
        """Return a bound on the gauge of any difference in another ball's norm.

        It is exact for the ball itself, for l_p balls without weights, for bodies with at most
        65,536 extreme points, and for balls with facets if the support of the body is exact. The
        l_1 gauge of moments of bounded columns is exact too. Otherwise it follows from the box
        around the body or its greatest sum of squares, and may be too great.
        """
        if ball.dim != self.ball.dim:
            raise fail("ball", f"have dimension {self.ball.dim}", ball.dim)
        return self.radius * greatest_gauge(ball, self.ball)


def greatest_gauge(ball: NormBall, over: NormBall) -> float:
    """Return an upper bound on the gauge of ``ball`` over the body ``over``."""
    if ball is over or ball == over:
        return 1.0
    of_class, is_least = math.inf, False
    if (bound := member_of(ball, "gauge_over")) is not None:
        of_class, is_least = bound(over)
        if is_least:
            return float(of_class)
    # The body holds the differences, and may be larger than their hull.
    of_differences = _through_sums(ball, over) if type(ball) is LpBall else math.inf
    try:
        of_body = _over_body(ball, over)
    except ValueError:  # no box is known
        if math.isinf(of_class):
            raise
        of_body = math.inf
    return min(of_differences * ROUND_UP, of_class, of_body) * (1 + gauge_error(ball))


def gauge_error(ball: NormBall) -> float:
    """Return a bound on the relative error of a gauge, beyond that of sums, from linear maps."""
    inner = max(map(gauge_error, parts_of(ball)), default=0.0)
    return (1 + float(getattr(ball, "gauge_error", 0.0))) * (1 + inner) - 1


def projection(body: NormBall, places: list[int]) -> NormBall | None:
    """Return a body that holds the projection to some coordinates, in their order, or None."""
    if places == list(range(body.dim)):
        return body
    project = member_of(body, "projection")
    found: NormBall | None = None if project is None else project(places)
    return found


def _over_body(ball: NormBall, over: NormBall) -> float:
    """Return an upper bound on the gauge over all points of a body."""
    both: Any = ball, over
    if all(type(own) is LpBall and own.weights is None for own in both):
        # |v|_r <= d^(1/r - 1/p) |v|_p for r < p, and |v|_r <= |v|_p otherwise.
        inner, outer = both
        power = max(0.0, 1 / inner.p - 1 / outer.p)
        return float(outer.radius / inner.radius * math.pow(ball.dim, power) * ROUND_UP)
    if type(ball) is LpBall and math.isinf(ball.p):
        return _through_the_box(ball, over)
    greatest_norm = member_of(over, "greatest_norm")
    if type(ball) is LpBall and ball.weights is None and greatest_norm is not None:
        return float(greatest_norm(ball)) * ROUND_UP
    corners = known(over, "extreme_points")
    if corners is not None:
        return float(np.max(ball.gauge(corners))) * ROUND_UP
    normals, support = known(ball, "facets"), member_of(over, "support")
    if normals is not None and support is not None:
        return float(np.max(support(normals))) * ROUND_UP
    return _through_the_box(ball, over)


def _through_the_box(ball: NormBall, over: NormBall) -> float:
    """Bound a convex function over a body by the triangle inequality over its box."""
    widths = half_widths(over)
    if type(ball) is LpBall:
        # Such a norm grows with the size of every coordinate, so a corner is the farthest point.
        return float(ball.gauge(widths)) * ROUND_UP
    return float(np.sum(ball.gauge(np.diag(widths)))) * ROUND_UP


def _through_sums(ball: Any, over: Any) -> float:
    """Bound w |v|_p by the greatest |v|_1, or by Hoelder's inequality through the greatest |v|_2.

    It is inf if neither is known.
    """
    widths = ball.bounding_box()
    if np.ptp(widths) > 0:
        return math.inf
    if ball.p == 1 and (greatest_sum := member_of(over, "greatest_sum")) is not None:
        total = float(greatest_sum()) / widths[0]
        if math.isfinite(total):
            return float(total)
    if member_of(over, "greatest_square") is None:
        return math.inf
    square = greatest_square(over, 1 / widths**2)
    return math.sqrt(square) * math.pow(ball.dim, max(0.0, 1 / ball.p - 1 / 2))


def greatest_square(ball: NormBall, weights: FloatArray) -> float:
    """Return an upper bound on the greatest sum_i weights_i u_i^2, all weights > 0.

    It is exact for l_p balls, hulls of encoded or centred rows, balls with listable extreme
    points, and products, sums and multiples of them. It is not exact for full maps of balls with
    too many extreme points. It is an error if the ball has none of ``greatest_square``,
    ``extreme_points`` and ``bounding_box``.
    """
    own = member_of(ball, "greatest_square")
    if own is not None:
        if hasattr(ball, "orbits"):  # with the greatest weight of each orbit the bound only grows
            orbit = orbits_of(ball)
            weights = greatest_of_each(orbit, weights)[orbit]
        return positive_square(float(own(weights)))
    return greatest_listed_square(ball, weights)


def greatest_listed_square(ball: NormBall, weights: FloatArray) -> float:
    """Return `greatest_square` from the extreme points, or through the box and the image."""
    points = known(ball, "extreme_points")
    if points is not None:
        return float((points**2 @ weights).max()) * ROUND_UP
    box = float(weights @ (half_widths(ball) * ROUND_UP) ** 2) * ROUND_UP
    if member_of(ball, "greatest_image") is not None:
        return min(box, greatest_image(np.diag(np.sqrt(weights)), ball) * ROUND_UP)
    return box


def greatest_image(matrix: FloatArray, ball: NormBall) -> float:
    """Return an upper bound on the greatest |R z|_2^2 over the points z of a ball."""
    own = member_of(ball, "greatest_image")
    if own is not None:
        return float(own(matrix))
    points = known(ball, "extreme_points")
    if points is not None:
        return float(np.square(points @ matrix.T).sum(axis=1).max()) * ROUND_UP
    # |R z|^2 <= |R D^(-1/2)|^2 z'D z for any diagonal D > 0.
    sizes = np.square(matrix).sum(axis=0)
    bounds = []
    for d in (np.ones(ball.dim), np.maximum(sizes, sizes.max() * 1e-12)):
        norm = float(np.linalg.norm(matrix / np.sqrt(d), 2)) * (1 + 1e-14 * ball.dim)
        bounds.append(norm**2 * greatest_square(ball, d))
    return float(min(bounds)) * ROUND_UP


def greatest_length(factor: ArrayLike, ball: NormBall) -> float:
    """Return a bound on |A^-1 u|_2 over the points u of a ball; A may be a number or a vector."""
    a, dim = np.asarray(factor), ball.dim
    if a.ndim < 2:
        return math.sqrt(greatest_square(ball, np.broadcast_to(a, (dim,)) ** -2.0))
    # The error of an inverse grows with the condition number, and beyond this it is no inverse.
    condition = float(np.linalg.cond(a))
    if not condition < WORST_CONDITION:
        return math.inf
    error = float(dim**2 * np.finfo(float).eps * condition)
    return math.sqrt(greatest_image(np.linalg.inv(a), ball)) * (1 + error)


def length_in(factor: Any, change: Any) -> float:
    """Return a bound on |A^-1 u|_2 over all changes u, for noise A Z."""
    if not isinstance(change, Change):
        return float(change.length_in(factor))
    return change.radius * greatest_length(factor, change.ball)


def orbits_of(ball: NormBall) -> NDArray[np.intp]:
    """Return 0, 1, ... in place of the labels of the ball's orbits, (dim,)."""
    labels = np.asarray(ball.orbits())  # type: ignore[attr-defined]
    if labels.shape != (ball.dim,):
        raise fail("orbits", f"have one label for each of {ball.dim} coordinates", labels.shape)
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def greatest_of_each(orbit: NDArray[np.intp], weights: FloatArray) -> FloatArray:
    """Return the greatest weight of each orbit."""
    greatest = np.zeros(orbit.max() + 1)
    np.maximum.at(greatest, orbit, weights)
    return greatest


def positive_square(square: float) -> float:
    """Return a greatest square if it is a finite number > 0."""
    if not 0 < square < math.inf:
        raise fail("greatest_square", "return a finite number > 0 for positive weights", square)
    return square
