"""Trusted. Sets given by cvxpy constraints, half-spaces or points: checks and symmetric forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection, KDTree, QhullError

from skdp.geometry.polytope import (
    MOST_PAIRS,
    SymmetricPolytope,
    is_small,
    null_direction,
    one_of_each_pair,
)
from skdp.geometry.programs import TURN, ConeSet, Expression, load_cvxpy
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import MOST_POINTS
from skdp.trusted.checks import check_numbers, fail

# Relative widths below this are attributed to the solver.
_NOTICED = 1e-5
# Relative distance within which a row counts as the negative of another.
CLOSE = 1e-12
# Difference of opposite widths above which a set is not symmetric.
FARTHER = 1e-7


def compiled(variable: Expression, constraints: Sequence[Expression]) -> ConeSet:
    """Check the form of a set given by cvxpy objects, and compile it."""
    cp = load_cvxpy()
    if not isinstance(variable, cp.Variable) or variable.ndim > 1:
        rule = "be a cvxpy Variable with one axis"
        raise fail("variable", rule, type(variable), "Use cp.Variable(dim).")
    if any(bool(value) for value in variable.attributes.values()):
        raise fail("variable", "be free of attributes", None, "Put them into the constraints.")
    constraints, kind = list(constraints), cp.constraints.constraint.Constraint
    if not constraints or not all(isinstance(c, kind) for c in constraints):
        kinds = sorted({type(c).__name__ for c in constraints})
        raise fail("constraints", "be a list of cvxpy constraints, not empty", kinds)
    problem = cp.Problem(cp.Minimize(0), constraints)
    if variable.id not in {leaf.id for leaf in problem.variables()}:
        raise fail("constraints", "contain the variable", None, "They do not restrict it.")
    if problem.parameters():
        raise fail("constraints", "have no cvxpy Parameter in them", None, "Put numbers instead.")
    discrete = any(type(c).__name__ == "FiniteSet" for c in constraints)
    if not problem.is_dcp() or problem.is_mixed_integer() or discrete:
        remedy = "cvxpy's page on disciplined convex programming says how to write them."
        raise fail("constraints", "be convex by cvxpy's rules", None, remedy)
    return ConeSet.compiled(variable, constraints)


def check_body(cone_set: ConeSet, differences: bool = True) -> FloatArray:
    """Return points that span a set; raise if it is unbounded or flat.

    Without ``differences`` the set together with its negative must have an interior.
    """
    points = [_farthest(cone_set, s * axis) for axis in np.eye(cone_set.dim) for s in (1, -1)]
    while True:
        rows = np.array(points)
        w = null_direction(rows - rows[0] if differences else rows)
        if w is None:
            return rows
        ends = [_farthest(cone_set, s * w) for s in (1, -1)]
        width = np.ptp([w @ p for p in ends]) if differences else max(abs(w @ p) for p in ends)
        size = _NOTICED * float(np.abs(points).max(axis=0) @ np.abs(w))
        if not width > size:
            raise flat(w, float(w @ ends[0]), size)
        points += ends


def flat(w: FloatArray, constant: float = 0.0, noticed: float = 0.0) -> ValueError:
    """Return an error that names the linear relation over a flat set and a remedy."""
    terms = [f"{c:+.4g} * v[{j}]" for j, c in enumerate(w) if c]
    value = constant if abs(constant) > noticed else 0.0
    last = int(np.flatnonzero(w)[-1])
    relation = f"{' '.join(terms).removeprefix('+')} = {value:.4g}"
    remedy = f"Drop coordinate {last}: it follows from the others."
    return fail("the set", f"have an interior, but {relation} on all of it", None, remedy)


def asymmetric(witness: FloatArray) -> ValueError:
    """Return an error that names a point of a set whose negative is outside."""
    shown = np.array2string(witness, precision=4, separator=", ")
    remedy = "For the differences of a set of statistics use Hull.difference_of."
    return fail("the set", f"be symmetric, but it has {shown} and not its negative", None, remedy)


def _farthest(cone_set: ConeSet, w: FloatArray) -> FloatArray:
    status, point = cone_set.farthest(w)
    if status == "infeasible":
        raise fail("constraints", "be met by some point", None, "No point meets all of them.")
    if status == "unbounded":
        shown = np.array2string(w, precision=4, separator=", ")
        raise fail("the set", f"be bounded, but it reaches infinitely far along {shown}")
    return point


# Given half-spaces and points


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
    # Where the negative of a row is no row, it must follow from the others.
    scaled = normals / np.abs(normals).max(axis=0)
    distance, _ = KDTree(scaled).query(-scaled)
    for n in normals[distance > CLOSE * np.abs(scaled).max(axis=1)]:
        # The bound 2 makes the program bounded if the set is not.
        rows, most = np.vstack([normals, -n]), np.append(np.ones(len(normals)), 2.0)
        found = linprog(n, A_ub=rows, b_ub=most, bounds=(None, None))
        if found.x is None:
            raise fail("A", "describe a set whose symmetry a linear program can check")
        if -n @ found.x > 1 + FARTHER:
            raise asymmetric(found.x)
    return one_of_each_pair(normals)


def differences_of(points: FloatArray) -> FloatArray:
    """Return the differences of any two of (n, d) points, one of each opposite pair."""
    if len(points) > 64:
        points = np.unique(points, axis=0)
        if points.shape[1] == 1:
            points = points[[0, -1]]
        elif len(points) <= 2 * MOST_PAIRS.get(points.shape[1], 0):
            with suppress(QhullError):  # flat; later checks name the relation
                points = points[ConvexHull(points).vertices]
    first, second = np.triu_indices(len(points), k=1)
    if not 0 < len(first) <= MOST_POINTS:
        remedy = "Pass the corners of their hull, or the set by constraints."
        raise fail("statistics", f"have 1 to {MOST_POINTS} differences", len(first), remedy)
    return np.asarray(points[first] - points[second])


def facet_directions(
    variable: Expression, constraints: Sequence[Expression], differences: bool
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
    normals = SymmetricPolytope.of_points(rows).normals
    return normals if len(normals) <= 256 else None  # a solver finds the support of each


def _corners(variable: Expression, constraints: Sequence[Expression]) -> FloatArray | None:
    """Return the corners of {variable : constraints} = {v : A v <= b} if it is a small polytope."""
    rows = []
    for constraint in constraints:
        sides = _sides(constraint)
        if sides is None or [leaf.id for leaf in constraint.variables()] != [variable.id]:
            return None
        gap = sides[0] - sides[1]
        if not gap.is_affine():
            return None
        constant, slope = _affine(variable, gap)
        rows.append((slope, -constant))
    A, b = (np.concatenate(part) for part in zip(*rows, strict=True))
    if len(b) > 2 * MOST_PAIRS.get(variable.size, 0) or variable.size < 2:
        return None
    # The centre of the greatest Euclidean ball inside.
    aim = np.append(np.zeros(A.shape[1]), -1.0)
    widths = np.linalg.norm(A, axis=1)
    found = linprog(aim, np.column_stack([A, widths]), b, bounds=(None, None))
    if found.x is None or not found.x[-1] > CLOSE * np.abs(found.x).max():
        return None
    try:
        corners = HalfspaceIntersection(np.column_stack([A, -b]), found.x[:-1]).intersections
    except QhullError:
        return None
    return np.unique(corners, axis=0) if np.isfinite(corners).all() else None


def _sides(constraint: Expression) -> tuple[Expression, Expression] | None:
    """Return the sides of lower <= upper, or None for another kind of constraint."""
    cp = load_cvxpy()
    if isinstance(constraint, cp.constraints.Inequality):
        return constraint.args[0], constraint.args[1]
    if isinstance(constraint, cp.constraints.NonNeg):
        return cp.Constant(0), constraint.args[0]
    is_upper = isinstance(constraint, cp.constraints.NonPos)
    return (constraint.args[0], cp.Constant(0)) if is_upper else None


def _affine(variable: Expression, expression: Expression) -> tuple[FloatArray, FloatArray]:
    """Return the constant, (m,), and slope, (m, dim), of an affine expression's entries."""
    points = np.vstack([np.zeros(variable.size), np.eye(variable.size)])
    values = np.array([np.ravel(_value(variable, expression, v)) for v in points], dtype=float)
    return values[0], (values[1:] - values[0]).T


def _value(variable: Expression, expression: Expression, v: FloatArray) -> FloatArray | float:
    """Return an expression's value where the variable is v."""
    with TURN:
        kept = variable.value
        try:
            variable.save_value(v.reshape(variable.shape, order="F"))
            with np.errstate(all="ignore"):
                value = expression.value
        finally:
            variable.save_value(kept)
    return math.inf if value is None else np.nan_to_num(np.asarray(value, float), nan=math.inf)
