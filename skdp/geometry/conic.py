"""Trusted. Sets given by cvxpy constraints or half-spaces: checks, gauge, support, symmetric forms.

A constraint on one variable alone is a cell, a closed convex set with 0 in its interior. The gauge
of a cell, the least t >= 0 with v in t times the cell, is a closed form for linear, second-order
and semidefinite constraints and for norms. For other constraints it is the root of their value
along the ray. No solver is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import brentq, linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection, KDTree, QhullError

from skdp.geometry.polytope import (
    MOST_PAIRS,
    SymmetricPolytope,
    by_size,
    is_small,
    null_direction,
    one_of_each_pair,
)
from skdp.geometry.programs import STEPS, TURN, ConeSet, Expression, load_cvxpy
from skdp.trusted.arrays import FloatArray
from skdp.trusted.ball import MOST_POINTS, as_points, sign_patterns
from skdp.trusted.checks import check_numbers, fail

# A cell counts as unbounded along a ray beyond this multiple of the given point.
FARTHEST = 1e12
# Solvers stop within about 1e-8 of the optimum; gauges from a solver are raised by this share.
MARGIN = 1e-6
# Relative widths and differences of widths below this are attributed to the solver.
_NOTICED = 1e-5
# Relative distance within which a row counts as the negative of another.
CLOSE = 1e-12
# Difference of opposite widths above which a set is not symmetric.
FARTHER = 1e-7


# Cells


class Cell(Protocol):
    """One constraint, a closed convex set with 0 inside."""

    def gauge(self, v: FloatArray) -> FloatArray:
        """Return the least t >= 0 with v in t times the cell, (n, dim) to (n,)."""


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """The cell where normals v <= 1, normals of shape (m, dim)."""

    normals: FloatArray

    def gauge(self, v: FloatArray) -> FloatArray:
        return np.asarray((v @ self.normals.T).max(axis=1).clip(min=0.0))


@dataclass(frozen=True, eq=False)
class NormCell:
    """The cell where |matrix v|_p <= 1."""

    matrix: FloatArray
    p: float

    def gauge(self, v: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(v @ self.matrix.T, ord=self.p, axis=1))


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """The cell where |centre + matrix v|_2 <= height + slope v, with |centre|_2 < height."""

    height: float
    slope: FloatArray
    centre: FloatArray
    matrix: FloatArray

    def gauge(self, v: FloatArray) -> FloatArray:
        # The greater root of a t^2 + 2 b t + c: for greater t the point t (height, centre) + (x, y)
        # is in the cone. It is written without cancellation.
        x, y = v @ self.slope, v @ self.matrix.T
        a = self.height**2 - self.centre @ self.centre
        b = self.height * x - y @ self.centre
        c = x**2 - (y**2).sum(axis=1)
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        small = np.divide(-c, b + root, out=np.zeros_like(b), where=b + root > 0)
        return np.asarray(np.where(b > 0, small, (root - b) / a).clip(min=0.0))


@dataclass(frozen=True, eq=False)
class Semidefinite:
    """The cell where 1 + sum_j v_j parts_j is positive semidefinite, parts of (dim, k, k)."""

    parts: FloatArray

    def gauge(self, v: FloatArray) -> FloatArray:
        least = np.linalg.eigvalsh(np.tensordot(v, self.parts, axes=1))[:, 0]
        return np.asarray((-least).clip(min=0.0))


@dataclass(frozen=True, eq=False)
class Level:
    """The cell where a convex cvxpy expression of one variable is <= 0 in all its entries."""

    variable: Expression
    expression: Expression

    def gauge(self, v: FloatArray) -> FloatArray:
        return np.array([self._factor(x) for x in v])

    def contains(self, v: FloatArray) -> NDArray[np.bool_]:
        """Return whether v is in the cell, (n, dim) to (n,), from one value each."""
        return np.array([self._at(x) <= 0 for x in v], dtype=bool)

    def _factor(self, v: FloatArray) -> float:
        low, high = 0.0, 1.0
        while self._at(high * v) < 0:
            low, high = high, 2 * high
            if high > FARTHEST:
                return 0.0
        root = brentq(lambda s: self._at(s * v), low, high, xtol=1e-300, rtol=1e-15)
        return float("inf") if root == 0 else 1 / float(root)

    def _at(self, v: FloatArray) -> float:
        value = np.max(_value(self.variable, self.expression, v))
        # Points outside the domain of the expression are outside the cell.
        return float(value) if math.isfinite(value) else 1e300


def cells_of(variable: Expression, constraints: Sequence[Expression]) -> tuple[Cell, ...] | None:
    """Return cells whose intersection is {variable : constraints}, or None.

    There are none if a constraint has other variables or is of an unknown kind.
    """
    cells = []
    for constraint in constraints:
        # A problem inside the constraint has hidden variables.
        names = {type(a).__name__ for a in _tree(constraint)} if constraint.args else set()
        hides = names & {"PartialProblem", "SupportFunctionAtom", "SuppFuncAtom"}
        alone = [leaf.id for leaf in constraint.variables()] == [variable.id]
        cell = _cell_of(variable, constraint) if alone and not hides else None
        if cell is None:
            return None
        cells.append(cell)
    return tuple(cells)


def _sides(constraint: Expression) -> tuple[Expression, Expression] | None:
    """Return the sides of lower <= upper, or None for another kind of constraint."""
    cp = load_cvxpy()
    if isinstance(constraint, cp.constraints.Inequality):
        return constraint.args[0], constraint.args[1]
    if isinstance(constraint, cp.constraints.NonNeg):
        return cp.Constant(0), constraint.args[0]
    is_upper = isinstance(constraint, cp.constraints.NonPos)
    return (constraint.args[0], cp.Constant(0)) if is_upper else None


def _tree(node: Expression) -> list[Expression]:
    return [node, *(leaf for arg in node.args for leaf in _tree(arg))]


def _cell_of(variable: Expression, constraint: Expression) -> Cell | None:
    cp = load_cvxpy()
    if isinstance(constraint, cp.SOC):
        height, body = constraint.args
        return _below(variable, body, height) if height.size == 1 and body.ndim == 1 else None
    if isinstance(constraint, cp.constraints.PSD):
        return _semidefinite(variable, constraint.args[0])
    if (sides := _sides(constraint)) is None:
        return None
    lower, upper = sides
    gap = lower - upper
    if gap.is_affine():
        constant, slope = _affine(variable, gap)
        if not (constant < 0).all():
            raise _not_inside()
        return HalfSpaces(-slope / constant[:, None])
    if not np.max(_value(variable, gap, np.zeros(variable.size))) < 0:
        raise _not_inside()
    return _norm(variable, lower, upper) or Level(variable, gap)


def _norm(variable: Expression, lower: Expression, upper: Expression) -> Cell | None:
    """Recognise a norm of an affine expression, or its square, below a bound."""
    cp = load_cvxpy()
    if not lower.args or not lower.args[0].is_affine() or not upper.is_affine():
        return None
    name, body = type(lower).__name__, lower.args[0]
    if isinstance(lower, cp.Pnorm) and lower.p == 2 and lower.axis is None and upper.size == 1:
        return _below(variable, body, upper)
    if not upper.is_constant():
        return None
    constant, slope = _affine(variable, body)
    if name == "abs" and np.broadcast_shapes(body.shape, upper.shape) == body.shape:
        top = np.broadcast_to(upper.value, body.shape).ravel()
        normals = [slope / (top - constant)[:, None], -slope / (top + constant)[:, None]]
        return HalfSpaces(np.concatenate(normals))
    if upper.size > 1 or constant.any():
        return None
    return _even_norm(lower, name, slope, float(np.max(upper.value)))


def _even_norm(lower: Expression, name: str, matrix: FloatArray, top: float) -> Cell | None:
    """Return the cell of |matrix v| <= top for a norm or a square of one, if it is known."""
    # quad_over_lin has an axis since cvxpy 1.7.
    whole = getattr(lower, "axis", None) is None
    if name == "norm_inf" and whole:
        return HalfSpaces(np.concatenate([matrix, -matrix]) / top)
    if name == "norm1" and whole:
        if len(matrix) > 8:
            return NormCell(matrix / top, 1.0)
        return HalfSpaces(sign_patterns(len(matrix)) @ matrix / top)
    if name == "quad_over_lin" and lower.args[1].is_constant() and whole:
        return NormCell(matrix / math.sqrt(top * float(np.max(lower.args[1].value))), 2.0)
    if name == "QuadForm" and lower.args[1].is_constant():
        sizes, axes = np.linalg.eigh(np.asarray(lower.args[1].value, dtype=float))
        root = np.sqrt(sizes.clip(min=0.0))[:, None] * axes.T
        return NormCell(root @ matrix / math.sqrt(top), 2.0)
    return None


def _below(variable: Expression, body: Expression, height: Expression) -> SecondOrder:
    """Return the cell where |body|_2 <= height, both affine."""
    (tall,), (slope,) = _affine(variable, height)
    centre, matrix = _affine(variable, body)
    if not np.linalg.norm(centre) < tall:
        raise _not_inside()
    return SecondOrder(float(tall), slope, centre, matrix)


def _semidefinite(variable: Expression, expression: Expression) -> Cell:
    constant, slope = _affine(variable, expression)
    order = expression.shape[0]
    matrix = constant.reshape(order, order)
    parts = slope.T.reshape(-1, order, order)
    try:
        root = np.linalg.cholesky((matrix + matrix.T) / 2)
    except np.linalg.LinAlgError:
        raise _not_inside() from None
    even = (parts + parts.transpose(0, 2, 1)) / 2
    half = np.array([solve_triangular(root, part, lower=True) for part in even])
    return Semidefinite(np.array([solve_triangular(root, part.T, lower=True) for part in half]))


def _affine(variable: Expression, expression: Expression) -> tuple[FloatArray, FloatArray]:
    """Return the constant, (m,), and slope, (m, dim), of an affine expression's entries."""
    points = np.vstack([np.zeros(variable.size), np.eye(variable.size)])
    values = np.array([np.ravel(_value(variable, expression, v)) for v in points], dtype=float)
    return values[0], (values[1:] - values[0]).T


def _value(variable: Expression, expression: Expression, v: FloatArray) -> FloatArray | float:
    """Return an expression's value where the variable is v."""
    STEPS.count += 1
    with TURN:
        kept = variable.value
        try:
            variable.save_value(v.reshape(variable.shape, order="F"))
            with np.errstate(all="ignore"):
                value = expression.value
        finally:
            variable.save_value(kept)
    return math.inf if value is None else np.nan_to_num(np.asarray(value, float), nan=math.inf)


def _not_inside() -> ValueError:
    remedy = "Every constraint must leave room around 0; a flat set has fewer coordinates."
    return fail("constraints", "describe a symmetric set with 0 in its interior", None, remedy)


# Sets


@dataclass(frozen=True, eq=False)
class ConeBody:
    """The symmetric body K = C and -C, C a compiled set.

    It has cells if each constraint can be checked without a solver. It is ``even`` if C is -C by
    construction.
    """

    cone_set: ConeSet
    cells: tuple[Cell, ...] | None = None
    even: bool = False

    @property
    def dim(self) -> int:
        return self.cone_set.dim

    @property
    def decided(self) -> bool:
        """Whether the gauge is exact up to rounding."""
        return self.cells is not None

    def gauge(self, v: ArrayLike) -> FloatArray:
        return by_size(self._block, as_points(v, self.dim))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return certified upper bounds on the greatest <w, u>, (..., dim) to (...)."""
        w = as_points(w, self.dim, "w")
        values = [self._support(x) for x in w.reshape(-1, self.dim)]
        return np.array(values, dtype=float).reshape(w.shape[:-1])

    def contains(self, v: ArrayLike) -> NDArray[np.bool_]:
        if self.cells is None:
            return np.asarray(self.gauge(v) <= 1)
        v = as_points(v, self.dim)
        flat, inside = v.reshape(-1, self.dim), np.ones(v[..., 0].size, dtype=bool)
        for cell, side in product(self.cells, (1.0, -1.0)):
            some = side * flat[inside]
            held = cell.contains(some) if isinstance(cell, Level) else cell.gauge(some) <= 1
            inside[inside] = held
        return inside.reshape(v.shape[:-1])

    def _block(self, v: FloatArray) -> FloatArray:
        if self.cells is None:
            sides = (1,) if self.even else (1, -1)
            factors = [max(self.cone_set.least_factor(s * x) for s in sides) for x in v]
            return np.array(factors, dtype=float) * (1 + MARGIN)
        both = np.concatenate([v, -v])
        greatest = np.max([cell.gauge(both) for cell in self.cells], axis=0)
        return np.asarray(np.maximum(*np.split(greatest, 2)))

    def _support(self, w: FloatArray) -> float:
        if not w.any():
            return 0.0
        size = float(np.abs(w).max())
        # K is symmetric, so opposite directions get the same bound.
        w = w / size if w[np.flatnonzero(w)[0]] > 0 else -w / size
        bound = self.cone_set.bound(w)
        if not math.isfinite(bound):
            remedy = "Bound the auxiliary variables too, however loosely."
            raise fail("constraints", "bound every variable in them", None, remedy)
        return size * bound


def cone_body(variable: Expression, constraints: Sequence[Expression]) -> ConeBody:
    """Return the body {variable : constraints}, or raise if it is not a norm ball."""
    cone_set = compiled(variable, constraints)
    scale = np.abs(check_body(cone_set)).max(axis=0)
    # A symmetric set has the same width along any direction and its opposite.
    d = cone_set.dim
    directions = np.vstack([np.eye(d), np.random.default_rng(0).standard_normal((2 * d, d))])
    for w in directions / scale:
        ends = [_farthest(cone_set, s * w) for s in (1, -1)]
        widths = [float(w @ ends[0]), float(-w @ ends[1])]
        if abs(widths[0] - widths[1]) > _NOTICED * max(map(abs, widths)):
            raise asymmetric(ends[int(widths[1] > widths[0])])
    return ConeBody(cone_set, cells_of(variable, constraints))


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
