"""Sets given by cvxpy constraints: their checks, gauge and support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.geometry.ball import as_points
from skdp.geometry.hull._cells import Cell, Level, cells_of
from skdp.geometry.hull.polytope import by_size, null_direction
from skdp.geometry.hull.programs import ConeSet, load_cvxpy

# Solvers stop within about 1e-8 of the optimum; gauges from a solver are raised by this share.
MARGIN = 1e-6
# Relative widths and differences of widths below this are attributed to the solver.
_NOTICED = 1e-5


@dataclass(frozen=True, eq=False)
class ConeBody:
    """The symmetric body K = C and -C, C a compiled set.

    Parameters
    ----------
    cone_set : ConeSet
        C.
    cells : tuple of Cell, or None
        The constraints, if each can be checked without a solver.
    even : bool
        Whether C is -C by construction.
    """

    cone_set: ConeSet
    cells: tuple[Cell, ...] | None = None
    even: bool = False

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.cone_set.dim

    @property
    def decided(self) -> bool:
        """Whether the gauge is exact up to rounding."""
        return self.cells is not None

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        return by_size(self._block, as_points(v, self.dim))

    def support(self, w: ArrayLike) -> FloatArray:
        """Return certified upper bounds on the greatest <w, u>, (..., dim) to (...)."""
        w = as_points(w, self.dim, "w")
        values = [self._support(x) for x in w.reshape(-1, self.dim)]
        return np.array(values, dtype=float).reshape(w.shape[:-1])

    def contains(self, v: ArrayLike) -> NDArray[np.bool_]:
        """Return whether v is in the body, (..., dim) to (...)."""
        if self.cells is None:
            return np.asarray(self.gauge(v) <= 1)
        v = as_points(v, self.dim)
        flat, inside = v.reshape(-1, self.dim), np.ones(v[..., 0].size, dtype=bool)
        for cell, side in product(self.cells, (1.0, -1.0)):
            inside[inside] = _contains(cell, side * flat[inside])
        return inside.reshape(v.shape[:-1])

    def _block(self, v: FloatArray) -> FloatArray:
        if self.cells is None:
            return np.array([self._solved(x) for x in v], dtype=float)
        both = np.concatenate([v, -v])
        greatest = np.max([cell.gauge(both) for cell in self.cells], axis=0)
        return np.asarray(np.maximum(*np.split(greatest, 2)))

    def _solved(self, v: FloatArray) -> float:
        sides = (1,) if self.even else (1, -1)
        return max(self.cone_set.least_factor(side * v) for side in sides) * (1 + MARGIN)

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


def _contains(cell: Cell, v: FloatArray) -> NDArray[np.bool_]:
    return cell.contains(v) if isinstance(cell, Level) else np.asarray(cell.gauge(v) <= 1)


def cone_body(variable: Any, constraints: Sequence[Any]) -> ConeBody:
    """Return the body {variable : constraints}, or raise if it is not a norm ball."""
    cone_set = compiled(variable, constraints)
    points = check_body(cone_set)
    _check_symmetric(cone_set, points)
    return ConeBody(cone_set, cells_of(variable, constraints))


def difference_body(variable: Any, constraints: Sequence[Any]) -> ConeBody:
    """Return the body {a - b : a, b in {variable : constraints}}."""
    cone_set = compiled(variable, constraints)
    check_body(cone_set)
    return ConeBody(cone_set.minus(), even=True)


def compiled(variable: Any, constraints: Sequence[Any]) -> ConeSet:
    """Check the form of a set given by cvxpy objects, and compile it."""
    cp = load_cvxpy()

    if not isinstance(variable, cp.Variable) or variable.ndim > 1:
        rule = "be a cvxpy Variable with one axis"
        raise fail("variable", rule, type(variable), "Use cp.Variable(dim).")
    if any(bool(value) for value in variable.attributes.values()):
        raise fail("variable", "be free of attributes", None, "Put them into the constraints.")
    constraints = list(constraints)
    if not constraints or not all(
        isinstance(c, cp.constraints.constraint.Constraint) for c in constraints
    ):
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
    while (w := _null(points, differences)) is not None:
        ends = [_farthest(cone_set, s * w) for s in (1, -1)]
        width = np.ptp([w @ p for p in ends]) if differences else max(abs(w @ p) for p in ends)
        size = _NOTICED * float(np.abs(points).max(axis=0) @ np.abs(w))
        if not width > size:
            raise flat(w, float(w @ ends[0]), size)
        points += ends
    return np.array(points)


def _null(points: list[FloatArray], differences: bool) -> FloatArray | None:
    rows = np.array(points)
    return null_direction(rows - rows[0] if differences else rows)


def flat(w: FloatArray, constant: float = 0.0, noticed: float = 0.0) -> ValueError:
    """Return an error that names the linear relation over a flat set and a remedy."""
    terms = [f"{c:+.4g} * v[{j}]" for j, c in enumerate(w) if c]
    value = constant if abs(constant) > noticed else 0.0
    last = int(np.flatnonzero(w)[-1])
    relation = f"{' '.join(terms).removeprefix('+')} = {value:.4g}"
    remedy = f"Drop coordinate {last}: it follows from the others."
    return fail("the set", f"have an interior, but {relation} on all of it", None, remedy)


def _check_symmetric(cone_set: ConeSet, points: FloatArray) -> None:
    """Raise unless the set has the same width along fixed directions and their opposites."""
    d = cone_set.dim
    directions = np.vstack([np.eye(d), np.random.default_rng(0).standard_normal((2 * d, d))])
    scale = np.abs(points).max(axis=0)
    for w in directions / scale:
        ends = [_farthest(cone_set, s * w) for s in (1, -1)]
        widths = [float(w @ ends[0]), float(-w @ ends[1])]
        if abs(widths[0] - widths[1]) > _NOTICED * max(map(abs, widths)):
            raise asymmetric(ends[int(widths[1] > widths[0])])


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
