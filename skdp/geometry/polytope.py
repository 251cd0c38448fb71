"""Trusted. Symmetric polytopes in few dimensions: corners, facets, draws by triangulation.

K = conv(points, -points) = {v : |normals v| <= 1}. The two descriptions are one computation: the
facets of a symmetric body are its polar's corners, so `polar` turns either into the other. Proofs:
docs/proofs/hulls.md, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, KDTree, QhullError
from scipy.special import gammaln

from skdp.geometry.programs import least_sum
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import as_points, listable
from skdp.trusted.checks import fail
from skdp.trusted.randomness import exponentials

# Greatest number of pairs of points for a hull, by dimension: below a second and 200,000 facets.
MOST_PAIRS = {1: 2**15, 2: 2**15, 3: 2**14, 4: 2**11, 5: 512, 6: 256, 7: 128, 8: 64}
# Relative width below which a body counts as flat.
FLAT = 1e-9


def is_small(points: FloatArray) -> bool:
    """Return whether the hull of (n, d) points and their negatives may be computed."""
    return len(points) <= MOST_PAIRS.get(points.shape[1], 0)


def null_direction(points: FloatArray) -> FloatArray | None:
    """Return w with <w, p> = 0 for all (n, d) points and greatest entry 1, or None."""
    scale = np.abs(points).max(axis=0)
    # The triangle of a QR factorisation has the same singular values and few rows.
    triangle = np.linalg.qr(points / np.where(scale > 0, scale, 1.0), mode="r")
    _, sizes, rows = np.linalg.svd(triangle)
    if len(sizes) == points.shape[1] and sizes[-1] > FLAT * sizes[0]:
        return None
    w = rows[-1] / np.where(scale > 0, scale, 1.0)
    w = np.where(np.abs(w) > FLAT * np.abs(w).max(), w, 0.0)
    return np.asarray(w / w[np.argmax(np.abs(w))])


class _HasPoints:
    """Support and extreme points of the hull of ``points`` and their negatives."""

    points: FloatArray

    @property
    def dim(self) -> int:
        return int(self.points.shape[1])

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the body, (..., dim) to (...)."""
        return _greatest_product(self.points, as_points(w, self.dim, "w"))

    def extreme_points(self) -> FloatArray:
        """Return the points and their negatives, (count, dim); some may be no corners."""
        listable(2 * len(self.points))
        return np.concatenate([self.points, -self.points])


class _HasNormals:
    """Gauge and facets of {v : |normals v| <= 1}."""

    normals: FloatArray
    decided: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        return int(self.normals.shape[1])

    def gauge(self, v: ArrayLike) -> FloatArray:
        return _greatest_product(self.normals, as_points(v, self.dim))

    def facets(self) -> FloatArray:
        """Return the normals, one of each pair, (count, dim); some may be redundant."""
        return self.normals.copy()


@dataclass(frozen=True, eq=False)
class Corners(_HasPoints):
    """The hull of (n, dim) points and their negatives, its facets unknown.

    The gauge is the value of a linear program and no closed form, hence ``decided`` is False.
    """

    points: FloatArray
    decided: ClassVar[bool] = False

    def gauge(self, v: ArrayLike) -> FloatArray:
        return _each(self.points, as_points(v, self.dim))


@dataclass(frozen=True, eq=False)
class Facets(_HasNormals):
    """The body {v : |normals v| <= 1}, its corners unknown: the support is a linear program."""

    normals: FloatArray

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the body, (..., dim) to (...)."""
        return _each(self.normals, as_points(w, self.dim, "w"))


def _each(points: FloatArray, v: FloatArray) -> FloatArray:
    """Return the gauge of each v in the hull of points and their negatives."""
    return by_size(lambda u: np.array([least_sum(points, x) for x in u]), v)


def polar(points: FloatArray) -> FloatArray:
    """Return the normals n of the facets |<n, v>| = 1 of conv(points, -points), one of each pair.

    The points, (n, d), span R^d. The greatest |<n, p>| over them is 1 for every normal.
    """
    scale = np.abs(points).max(axis=0)
    if points.shape[1] == 1:
        return np.asarray(1 / scale[None, :])
    plane = _hull(points / scale).equations
    # Of normals that are the same up to rounding, one is kept.
    found = one_of_each_pair(-plane[:, :-1] / plane[:, -1:])
    tree = KDTree(found / np.abs(found).max(axis=0))
    pairs = tree.query_pairs(1e-12 * math.sqrt(found.shape[1]), output_type="ndarray")
    normals = np.delete(found, pairs.max(axis=1), axis=0) / scale
    # Rounded so that no point lies outside its own facets.
    return np.asarray(normals / np.abs(points @ normals.T).max(axis=0)[:, None])


def _corners_of(points: FloatArray) -> FloatArray:
    """Return the corners of the symmetric hull of (n, d) points, one of each pair."""
    points = one_of_each_pair(points)
    scale = np.abs(points).max(axis=0)
    if points.shape[1] == 1:
        return np.asarray(scale[None, :])
    return np.asarray(points[np.unique(_hull(points / scale).vertices % len(points))])


@dataclass(frozen=True, eq=False)
class SymmetricPolytope(_HasPoints, _HasNormals):
    """A symmetric polytope with its corners and its normals, one of each pair +-."""

    points: FloatArray
    normals: FloatArray

    @classmethod
    def of_points(cls, points: FloatArray) -> SymmetricPolytope:
        """Return the hull of (n, d) points and their negatives, which span R^d."""
        corners = _corners_of(points)
        normals = polar(corners)
        # Facets are moved outwards so that no given point is outside by rounding.
        return cls(corners, normals / _greatest_product(points, normals).clip(min=1.0)[:, None])

    @classmethod
    def of_normals(cls, normals: FloatArray) -> SymmetricPolytope:
        """Return {v : |normals v| <= 1} for (m, d) normals that span R^d."""
        return cls(polar(normals), _corners_of(normals))

    @cached_property
    def is_triangulated(self) -> bool:
        """Whether there is a triangulation that is small enough and correct.

        Its computation can fail for corners very close to each other. It is correct if the middle
        of the outer face of each simplex is on the boundary, as its corners then share a facet.
        """
        if is_small(self.points):
            with suppress(ValueError):
                return bool((self.gauge(self._simplices.mean(axis=1)) > 1 - FLAT).all())
        return False

    @cached_property
    def _simplices(self) -> FloatArray:
        """The facets' corners, (count, dim, dim): each makes a simplex with 0."""
        both = np.concatenate([self.points, -self.points])
        if self.dim == 1:
            return both[:, None, :]
        return np.asarray(both[_hull(self.points / self._scale).simplices])

    @cached_property
    def _scale(self) -> FloatArray:
        return np.asarray(np.abs(self.points).max(axis=0))

    @cached_property
    def _volumes(self) -> FloatArray:
        """Volumes of the simplices in units of ``_scale``, times dim!."""
        return np.asarray(np.abs(np.linalg.det(self._simplices / self._scale)))

    @cached_property
    def _cdf(self) -> FloatArray:
        cdf = np.cumsum(self._volumes)
        return np.asarray(cdf / cdf[-1])

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim): a simplex by its volume, then a point of it."""
        which = np.searchsorted(self._cdf, rng.random(n), side="right")
        # Exponentials over their sum are uniform weights; the first belongs to 0.
        weights = exponentials((n, self.dim + 1), rng)
        weights /= weights.sum(axis=1, keepdims=True)
        return np.asarray(np.einsum("nk,nkd->nd", weights[:, 1:], self._simplices[which]))

    def log_volume(self) -> float:
        logs = math.log(self._volumes.sum()) + np.log(self._scale).sum()
        return float(logs - gammaln(self.dim + 1))

    def covariance(self) -> FloatArray:
        # Uniform weights l on a simplex of d + 1 corners have
        # E l_i l_j = (1 + [i = j]) / ((d + 1)(d + 2)).
        shares, corners = self._volumes / self._volumes.sum(), self._simplices
        middle = corners.sum(axis=1)
        second = np.einsum("f,fki,fkj->ij", shares, corners, corners, optimize=True)
        second += np.einsum("f,fi,fj->ij", shares, middle, middle, optimize=True)
        return np.asarray(second / ((self.dim + 1) * (self.dim + 2)))


def by_size(
    norm: Callable[[FloatArray], FloatArray], v: FloatArray, block: int = 2048
) -> FloatArray:
    """Return a norm of v, (..., dim) to (...), from its values at vectors of greatest entry 1.

    This avoids overflow. Vectors with greatest entry 0, infinity or NaN have this norm. It is
    computed for at most ``block`` vectors at once, (n, dim) to (n,).
    """
    flat = v.reshape(-1, v.shape[-1])
    sizes = np.abs(flat).max(axis=1, initial=0.0)
    usable = np.flatnonzero((sizes > 0) & np.isfinite(sizes))
    for some in np.split(usable, range(block, len(usable), block)):
        if len(some):
            with np.errstate(over="ignore"):
                sizes[some] *= norm(flat[some] / sizes[some, None])
    return np.asarray(sizes.reshape(v.shape[:-1]))


def _greatest_product(rows: FloatArray, v: FloatArray) -> FloatArray:
    """Return the greatest |<r, v>| over the rows, (..., dim) to (...)."""
    block = max(1, 2**22 // len(rows))
    return by_size(lambda u: np.asarray(np.abs(u @ rows.T).max(axis=1)), v, block)


def _hull(points: FloatArray) -> ConvexHull:
    try:
        return ConvexHull(np.concatenate([points, -points]))
    except QhullError as error:
        rule = "span a body that is not too thin for its hull to be computed"
        raise fail("points", rule, None, "Rescale or drop coordinates.") from error


def one_of_each_pair(points: FloatArray) -> FloatArray:
    """Return the points without repetitions, one of each pair of opposite points."""
    # The sign along a direction that is unlikely to be orthogonal to a point.
    direction = np.cos(np.arange(1, points.shape[1] + 1) ** 2)
    sides = points / np.abs(points).max(axis=0) @ direction
    return np.asarray(np.unique(points * np.where(sides < 0, -1.0, 1.0)[:, None], axis=0))
