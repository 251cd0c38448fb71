"""Trusted. Any symmetric convex body as a norm ball, from points or half-spaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp.geometry.conic import differences_of, even_normals, flat
from skdp.geometry.polytope import (
    MOST_PAIRS,
    Corners,
    Facets,
    SymmetricPolytope,
    is_small,
    null_direction,
)
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import NormBall, as_points
from skdp.trusted.checks import check_numbers, fail

# Least share of kept points for which rejection is used.
LEAST_ACCEPTANCE = 1e-3
# Pairs of facets in two and three dimensions, for which the polytope around a round body is about
# one percent greater.
ROUND = {2: 30, 3: 128}
Body: TypeAlias = Corners | Facets | SymmetricPolytope
KNOWN_FOR_POLYTOPES = ("log_volume", "covariance", "extreme_points", "facets")


@dataclass(frozen=True, eq=False)
class Hull(NormBall):
    """A symmetric convex body as a norm ball, built by one of the constructors.

    Parameters
    ----------
    body : object with dim, decided, gauge and support
        Made by `from_points`, `from_halfspaces` or `difference_of`.

    Notes
    -----
    *Draws.* In up to about eight dimensions a polytope is triangulated and sampled through its
    simplices. Other bodies are sampled by rejection from the least box, if the gauge is a closed
    form and `acceptance` is at least 0.001. Otherwise ``exact`` is False and there are no draws
    and no K-norm noise: take another ball.

    *Gauges.* If ``decided`` is True they are closed forms, exact up to rounding. The gauge in the
    hull of many points in many dimensions is the value of a linear program, raised to a bound
    proved by its solution.

    *Supports.* They are never too small by more than rounding, as values of programs are replaced
    by the bounds that dual solutions prove.

    Examples
    --------
    >>> from skdp.geometry import Hull
    >>> ball = Hull.from_points([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> float(ball.gauge([1.0, -1.0])), ball.exact
    (2.0, True)
    """

    body: Body
    # A coordinate of a draw is a sum of terms, each of which rounds.
    sums_terms: ClassVar[bool] = True
    # Members of the body that the hull has too, if the body has them.
    _known: ClassVar[tuple[str, ...]] = ("extreme_points", "facets")

    @classmethod
    def from_points(cls, points: ArrayLike) -> Hull:
        """Return the hull of points and their negatives.

        Parameters
        ----------
        points : array-like of shape (n, dim)
            They must span the space.

        Examples
        --------
        >>> Hull.from_points([[3.0, 1.0], [1.0, 2.0]]).bounding_box()
        array([3., 2.])
        """
        rows = _rows("points", points)
        if (w := null_direction(rows)) is not None:
            raise flat(w)
        return _polytope(_computed(SymmetricPolytope.of_points, rows) or Corners(rows))

    @classmethod
    def from_halfspaces(cls, A: ArrayLike, b: ArrayLike) -> Hull:
        """Return the ball {v : A v <= b}, which must be bounded and symmetric.

        Parameters
        ----------
        A : array-like of shape (m, dim)
            It contains both half-spaces of a pair, or others that imply the second.
        b : array-like of shape (m,), > 0

        Examples
        --------
        >>> Hull.from_halfspaces([[1, 1], [-1, -1], [1, -1], [-1, 1]], [1, 1, 1, 1]).gauge([1, 2])
        array(3.)
        """
        normals = even_normals(_rows("A", A), b)
        return _polytope(_computed(SymmetricPolytope.of_normals, normals) or Facets(normals))

    @classmethod
    def difference_of(cls, statistics: ArrayLike) -> Hull:
        """Return the hull of {a - b}, a and b one-record statistics.

        Parameters
        ----------
        statistics : array-like of shape (n, dim)
            All possible values of the statistic of one record.

        Examples
        --------
        >>> Hull.difference_of([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).gauge([1.0, 1.0])
        array(2.)
        """
        return cls.from_points(differences_of(_rows("statistics", statistics)))

    @property
    def dim(self) -> int:
        return self.body.dim

    @property
    def decided(self) -> bool:
        """Whether the gauge is a closed form, exact up to rounding."""
        return self.body.decided

    @property
    def exact(self) -> bool:
        """Whether draws are exactly uniform."""
        return self.acceptance() >= LEAST_ACCEPTANCE

    def gauge(self, v: ArrayLike) -> FloatArray:
        return self.body.gauge(as_points(v, self.dim))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball, (..., dim) to (...)."""
        return self.body.support(as_points(w, self.dim, "w"))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths of the least box around the ball, (dim,)."""
        return self._half_widths.copy()

    def acceptance(self) -> float:
        """Return about the share of points that rejection keeps: 0 if a program decides it."""
        return self._share if self.decided else 0.0

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim); ValueError unless the ball is ``exact``."""
        if not self.exact:
            rule = f"have an acceptance of at least {LEAST_ACCEPTANCE:g} to be sampled"
            raise fail("ball", rule, self.acceptance(), "Take another, such as LpBall(dim).")
        return reject(self.body, self._half_widths, self._share, n, rng)

    @cached_property
    def _half_widths(self) -> FloatArray:
        return self.body.support(np.eye(self.dim))

    @cached_property
    def _share(self) -> float:
        # The ray of a point u of the box L is shorter in K by |u|_L / |u|_K. A fixed seed makes the
        # sampler of a ball reproducible.
        unit = np.random.default_rng(0).uniform(-1, 1, (1024, self.dim))
        lengths = np.abs(unit).max(axis=1) / self.gauge(unit * self._half_widths)
        return float(np.mean(lengths**self.dim))

    def __copy__(self) -> Hull:
        return self

    def __deepcopy__(self, memo: object) -> Hull:
        return self

    def __getattr__(self, name: str) -> Any:
        if name in self._known and hasattr(self.body, name):
            return getattr(self.body, name)
        if name in KNOWN_FOR_POLYTOPES:
            raise AttributeError(f"This Hull has no exact {name}().")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {type(self.body).__name__}, dim {self.dim}>"


@dataclass(frozen=True, eq=False, repr=False)
class PolytopeHull(Hull):
    """A Hull with known corners, triangulated: draws are exact.

    It also has ``log_volume()``, ``covariance()``, ``extreme_points()`` and ``facets()``.
    """

    body: SymmetricPolytope
    _known: ClassVar[tuple[str, ...]] = KNOWN_FOR_POLYTOPES

    def acceptance(self) -> float:
        """Return 1: nothing is rejected."""
        return 1.0

    def sample(self, n: int, rng: Generator) -> FloatArray:
        return self.body.sample(n, rng)


def polytope_around(
    support: Callable[[FloatArray], FloatArray], dim: int, directions: ArrayLike | int | None = None
) -> Hull:
    """Return a polytope around a body, from upper bounds on |<w, u>| over it; (m, dim) to (m,).

    ``directions`` are normals of facets, or their number, the axes included.
    """
    if directions is None or isinstance(directions, int):
        # Directions are scaled to the box of the body, as coordinates have units of their own, by
        # powers of two, so that round numbers stay round.
        rows = spread(dim, directions) / 2 ** np.round(np.log2(_positive(support(np.eye(dim)))))
    else:
        rows = _rows("directions", directions, dim)
    # Bounds are raised by more than the rounding of products with the normals.
    normals = rows / (_positive(support(rows)) * (1 + 1e-12))[:, None]
    return Hull.from_halfspaces(np.concatenate([normals, -normals]), np.ones(2 * len(rows)))


def _positive(support: FloatArray) -> FloatArray:
    if not np.isfinite(support).all():
        remedy = "Bound the auxiliary variables too, however loosely."
        raise fail("constraints", "bound every variable in them", None, remedy)
    if not (support > 0).all():
        raise fail("directions", "be nonzero, and the body not flat along any of them")
    return support


def _computed(
    make: Callable[[FloatArray], SymmetricPolytope], rows: FloatArray
) -> SymmetricPolytope | None:
    if not is_small(rows):
        return None
    try:
        return make(rows)
    except ValueError:  # too thin for floats; linear programs are used
        return None


def _polytope(body: SymmetricPolytope | Corners | Facets) -> Hull:
    if isinstance(body, SymmetricPolytope) and body.is_triangulated:
        return PolytopeHull(body)
    return Hull(body)


def _rows(name: str, rows: ArrayLike, dim: int | None = None) -> FloatArray:
    """Return finite rows of shape (n, dim), n and dim >= 1."""
    out = check_numbers(name, rows)
    if out.ndim != 2 or not out.size or (dim is not None and out.shape[1] != dim):
        raise fail(name, f"have shape (n, {'dim' if dim is None else dim})", out.shape)
    if not np.isfinite(out).all():
        raise fail(name, "be finite numbers", None, "Drop or bound the others.")
    return out


def spread(dim: int, count: int | None = None) -> FloatArray:
    """Return directions, one of each pair +-, of shape (about count, dim), the axes among them.

    Without a count there are enough for a round body in two or three dimensions, in up to eight
    dimensions the axes and the diagonals of two axes, and in more dimensions only the axes.
    """
    axes = np.eye(dim)
    if count is None and dim not in ROUND:
        return np.concatenate([axes, _diagonals(dim)]) if dim in MOST_PAIRS else axes
    rest = max(0, ROUND.get(dim, 0) if count is None else count - dim)
    if dim == 2:
        angles = np.pi * np.arange(rest + 2) / (rest + 2)
        further = np.column_stack([np.cos(angles), np.sin(angles)])
        return np.concatenate([axes, further[np.abs(further).min(axis=1) > 1e-9]])
    if dim == 3:  # nearly evenly spread points of the upper half sphere, on a spiral
        height = (np.arange(rest) + 0.5) / max(rest, 1)
        turn, width = 2 * np.pi * np.arange(rest) / ((1 + 5**0.5) / 2), np.sqrt(1 - height**2)
        spiral = np.column_stack([width * np.cos(turn), width * np.sin(turn), height])
        return np.concatenate([axes, spiral])
    further = np.random.default_rng(0).standard_normal((rest, dim))
    further /= np.linalg.norm(further, axis=1, keepdims=True)
    return np.concatenate([axes, np.concatenate([_diagonals(dim), further])[:rest]])


def _diagonals(dim: int) -> FloatArray:
    axes, (i, j) = np.eye(dim), np.triu_indices(dim, 1)
    return np.stack([axes[i] + axes[j], axes[i] - axes[j]], axis=1).reshape(-1, dim)


# Draws (docs/proofs/hulls.md, section 4)


def reject(body: Body, box: FloatArray, share: float, n: int, rng: Generator) -> FloatArray:
    """Return n uniform draws, (n, dim), by rejection from the box with these half-widths."""
    kept, count = [np.empty((0, body.dim))], 0
    while count < n:
        tries = int(min(2**15, 16 + 1.2 * (n - count) / share))
        tried = rng.uniform(-1, 1, (tries, body.dim)) * box
        inside = tried[body.gauge(tried) <= 1]
        kept.append(inside)
        count += len(inside)
    return np.concatenate(kept)[:n]
