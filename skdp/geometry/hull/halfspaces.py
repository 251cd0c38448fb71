"""Checks of given half-spaces and points, and their symmetric form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection, KDTree, QhullError

from skdp._arrays import FloatArray
from skdp._checks import check_numbers, fail
from skdp.geometry.ball import MOST_POINTS
from skdp.geometry.hull._cells import linear_rows
from skdp.geometry.hull.conic import asymmetric, flat
from skdp.geometry.hull.polytope import (
    MOST_PAIRS,
    Polytope,
    is_small,
    null_direction,
    one_of_each_pair,
)

# Relative distance within which a row counts as the negative of another.
CLOSE = 1e-12
# Difference of opposite widths above which a set is not symmetric.
FARTHER = 1e-7
# Greatest number of facets whose support is found by a solver.
_MOST_DIRECTIONS = 256


def even_normals(A: FloatArray, b: ArrayLike) -> FloatArray:
    """Return normals with {v : A v <= b} = {v : |normals v| <= 1}; raise if there are none."""
    right = check_numbers("b", b)
    if right.shape != (len(A),) or not np.isfinite(right).all():
        raise fail("b", f"be {len(A)} finite numbers, one for each row of A", right.shape)
    zero = ~A.any(axis=1)
    if (right[zero] < 0).any():
        raise fail("A", "allow some point", None, "A row of zeros has a negative bound.")
    A, right = A[~zero], right[~zero]
    if (right < 0).any():
        raise fail("b", "be > 0", None, "A symmetric ball has 0 in its interior.")
    if (right == 0).any():
        row = A[np.argmin(right)]
        raise flat(row / row[np.argmax(np.abs(row))])
    normals = A / right[:, None]
    if not len(normals):
        raise fail("A", "have a row that is not zero")
    if (way := null_direction(normals)) is not None:
        shown = np.array2string(way, precision=4, separator=", ")
        raise fail("A", f"bound the set, but it reaches infinitely far along {shown}")
    for n in _unpaired(normals):
        _check_other_side(normals, n)
    return one_of_each_pair(normals)


def differences_of(points: FloatArray) -> FloatArray:
    """Return the differences of any two of (n, d) points, one of each opposite pair."""
    if len(points) > 64:
        points = _hull_corners(points)
    first, second = np.triu_indices(len(points), k=1)
    if not 0 < len(first) <= MOST_POINTS:
        remedy = "Give the corners of their hull, or the set by constraints."
        raise fail("statistics", f"have 1 to {MOST_POINTS} differences", len(first), remedy)
    return np.asarray(points[first] - points[second])


def facet_directions(
    variable: Any, constraints: Sequence[Any], differences: bool
) -> FloatArray | None:
    """Return the normals of the hull of differences of a small polytope, or of it and its negative.

    They are computed in floats and are not exact, but the support of a body in these directions
    gives a valid polytope. None if the constraints are not linear or the polytope is not small.
    """
    corners = _corners(variable, constraints)
    if corners is None:
        return None
    rows = differences_of(corners) if differences else corners
    if null_direction(rows) is not None or not is_small(rows):
        return None
    normals = Polytope.of_points(rows).normals
    return normals if len(normals) <= _MOST_DIRECTIONS else None


def _corners(variable: Any, constraints: Sequence[Any]) -> FloatArray | None:
    rows = linear_rows(variable, constraints)
    if rows is None or len(rows[1]) > 2 * MOST_PAIRS.get(variable.size, 0) or variable.size < 2:
        return None
    A, b = rows
    # The centre of the greatest Euclidean ball inside.
    aim = np.append(np.zeros(A.shape[1]), -1.0)
    widths = np.linalg.norm(A, axis=1)
    found: Any = linprog(aim, np.column_stack([A, widths]), b, bounds=(None, None))
    if found.x is None or not found.x[-1] > CLOSE * np.abs(found.x).max():
        return None
    try:
        corners = HalfspaceIntersection(np.column_stack([A, -b]), found.x[:-1]).intersections
    except QhullError:
        return None
    return np.unique(corners, axis=0) if np.isfinite(corners).all() else None


def _hull_corners(points: FloatArray) -> FloatArray:
    """Return the corners of the hull of points, or all points if this takes too long."""
    points = np.unique(points, axis=0)
    d = points.shape[1]
    if d == 1:
        return points[[0, -1]]
    if len(points) > 2 * MOST_PAIRS.get(d, 0):
        return points
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:  # flat; later checks name the relation
        return points


def _unpaired(normals: FloatArray) -> FloatArray:
    """Return the rows whose negatives are not rows."""
    scale = np.abs(normals).max(axis=0)
    tree = KDTree(normals / scale)
    distance, _ = tree.query(-normals / scale)
    return np.asarray(normals[distance > CLOSE * np.abs(normals / scale).max(axis=1)])


def _check_other_side(normals: FloatArray, n: FloatArray) -> None:
    """Raise unless <-n, v> <= 1 where all <normals, v> <= 1."""
    # The bound 2 makes the program bounded if the set is not.
    rows = np.vstack([normals, -n])
    right = np.append(np.ones(len(normals)), 2.0)
    found = linprog(n, A_ub=rows, b_ub=right, bounds=(None, None))
    if found.x is None:
        raise fail("A", "describe a set whose symmetry a linear program can check")
    if -n @ found.x > 1 + FARTHER:
        raise asymmetric(found.x)
