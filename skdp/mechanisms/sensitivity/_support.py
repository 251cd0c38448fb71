"""From a set of one-record statistics to a ball that holds every difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp.geometry import LpBall, NormBall
from skdp.geometry.conic import check_body, compiled, flat
from skdp.geometry.hull import Hull, PolytopeHull, polytope_around
from skdp.geometry.polytope import MOST_PAIRS
from skdp.mechanisms.sensitivity._statistics import Quadratic

# Greatest number of corners of an affine statistic for which the hull is computed.
MOST_CORNERS = 1024
SLACK = 1e-12

Support = Callable[[FloatArray], FloatArray]


def support_of_set(
    variable: Any, constraints: Sequence[Any], differences: bool
) -> tuple[Support, int]:
    """Return support bounds of the differences of a convex set, or of it and its negative."""
    cone_set = compiled(variable, constraints)
    check_body(cone_set, differences)
    return two_sided(cone_set.bound, differences), cone_set.dim


def two_sided(bound: Callable[[FloatArray], float], differences: bool) -> Support:
    """Return bounds on |<w, d>| over the differences of a set, or over it and its negative."""

    def support(rows: FloatArray) -> FloatArray:
        both = np.array([[bound(w), bound(-w)] for w in rows])
        return np.asarray(both.sum(axis=1) if differences else np.abs(both).max(axis=1))

    return support


def ball_of_maps(
    maps: Quadratic, differences: bool, directions: ArrayLike | int | None
) -> NormBall:
    """Return a ball that holds all f(z) - f(z'), or all f(z) and -f(z)."""
    if (w := maps.null_direction(differences)) is not None:
        raise flat(w)
    if directions is None and (hull := _affine_hull(maps, differences)) is not None:
        return hull
    support = two_sided(maps.bound, differences)
    if directions is None and maps.dim not in MOST_PAIRS:
        return LpBall(maps.dim, p=np.inf, weights=1 / (support(np.eye(maps.dim)) * (1 + SLACK)))
    support = support if maps.is_affine else _rounded_up(support)
    return polytope_around(support, maps.dim, directions)


def _rounded_up(support: Support) -> Support:
    """Return bounds that are greater by 1e-7 and rounded to seven digits, never below.

    Bounds from a solver have errors of 1e-9. Without rounding, facets that share a corner would
    meet in many corners that are too close to each other.
    """

    def rounded(rows: FloatArray) -> FloatArray:
        values = support(rows)
        unit = 2 ** np.floor(np.log2(np.maximum(values, np.finfo(float).tiny)))
        return np.asarray(np.maximum(values, np.round(values / unit, 7) * unit * (1 + 1e-7)))

    return rounded


def _affine_hull(maps: Quadratic, differences: bool) -> Hull | None:
    """Return the hull of the differences of an affine statistic, if it is small."""
    n_corners = len(maps.constant) * 2.0**maps.n_numbers
    if not maps.is_affine or maps.radius is not None or n_corners > MOST_CORNERS:
        return None
    hull = (Hull.difference_of if differences else Hull.from_points)(maps.corners())
    if not isinstance(hull, PolytopeHull):
        return None
    # Room for the rounding of two statistics, along each axis.
    room = float(hull.gauge(np.diag(2 * (maps.rounding + maps.own_rounding))).sum())
    return Hull.from_points(hull.extreme_points() * (1 + room + SLACK))
