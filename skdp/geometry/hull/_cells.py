"""Exact gauges of single constraints on one variable.

Each cell is a closed convex set with 0 in its interior. Its gauge, the least t >= 0 with v in t
times the cell, is a closed form for linear, second-order and semidefinite constraints and for
norms. For other constraints it is the root of their value along the ray. No solver is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import brentq

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.geometry.hull.programs import STEPS, TURN, load_cvxpy
from skdp.geometry.lp import sign_patterns

# A cell counts as unbounded along a ray beyond this multiple of the given point.
FARTHEST = 1e12
# An l_1 norm of at most so many entries is written as half-spaces.
MOST_SIGNED = 8


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

    variable: Any
    expression: Any

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


def cells_of(variable: Any, constraints: Sequence[Any]) -> tuple[Cell, ...] | None:
    """Return cells whose intersection is {variable : constraints}, or None.

    There are none if a constraint has other variables or is of an unknown kind.
    """
    cells = []
    for constraint in constraints:
        if [leaf.id for leaf in constraint.variables()] != [variable.id] or _is_nested(constraint):
            return None
        cell = _cell_of(variable, constraint)
        if cell is None:
            return None
        cells.append(cell)
    return tuple(cells)


def linear_rows(variable: Any, constraints: Sequence[Any]) -> tuple[FloatArray, FloatArray] | None:
    """Return A, b of {variable : constraints} = {v : A v <= b}, or None if there are none."""
    kinds = load_cvxpy().constraints
    rows = []
    for constraint in constraints:
        known = isinstance(constraint, kinds.Inequality | kinds.NonNeg | kinds.NonPos)
        if not known or [leaf.id for leaf in constraint.variables()] != [variable.id]:
            return None
        body = constraint.args[0] - (constraint.args[1] if len(constraint.args) > 1 else 0)
        if not body.is_affine():
            return None
        constant, slope = _affine(variable, body)
        sign = -1.0 if isinstance(constraint, kinds.NonNeg) else 1.0
        rows.append((sign * slope, -sign * constant))
    A, b = (np.concatenate(part) for part in zip(*rows, strict=True))
    return A, b


def _is_nested(constraint: Any) -> bool:
    """Return whether the constraint contains a problem with hidden variables."""
    names = {type(a).__name__ for a in _tree(constraint)} if constraint.args else set()
    return bool(names & {"PartialProblem", "SupportFunctionAtom", "SuppFuncAtom"})


def _tree(node: Any) -> list[Any]:
    return [node, *(leaf for arg in node.args for leaf in _tree(arg))]


def _cell_of(variable: Any, constraint: Any) -> Cell | None:
    cp = load_cvxpy()

    kinds = cp.constraints

    if isinstance(constraint, kinds.Inequality):
        lower, upper = constraint.args
        return _inequality(variable, lower, upper)
    if isinstance(constraint, kinds.NonNeg):
        return _inequality(variable, cp.Constant(0), constraint.args[0])
    if isinstance(constraint, kinds.NonPos):
        return _inequality(variable, constraint.args[0], cp.Constant(0))
    if isinstance(constraint, cp.SOC):
        return _second_order(variable, constraint)
    if isinstance(constraint, kinds.PSD):
        return _semidefinite(variable, constraint.args[0])
    return None


def _inequality(variable: Any, lower: Any, upper: Any) -> Cell:
    gap = lower - upper
    if gap.is_affine():
        constant, slope = _affine(variable, gap)
        if not (constant < 0).all():
            raise _not_inside()
        return HalfSpaces(-slope / constant[:, None])
    if not np.max(_value(variable, gap, np.zeros(variable.size))) < 0:
        raise _not_inside()
    return _norm(variable, lower, upper) or Level(variable, gap)


def _norm(variable: Any, lower: Any, upper: Any) -> Cell | None:
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


def _has_axis(lower: Any) -> bool:
    return getattr(lower, "axis", None) is not None  # quad_over_lin has one since cvxpy 1.7


def _even_norm(lower: Any, name: str, matrix: FloatArray, top: float) -> Cell | None:
    """Return the cell of |matrix v| <= top for a norm or a square of one, if it is known."""
    if name == "norm_inf" and lower.axis is None:
        return HalfSpaces(np.concatenate([matrix, -matrix]) / top)
    if name == "norm1" and lower.axis is None:
        if len(matrix) > MOST_SIGNED:
            return NormCell(matrix / top, 1.0)
        return HalfSpaces(sign_patterns(len(matrix)) @ matrix / top)
    if name == "quad_over_lin" and lower.args[1].is_constant() and not _has_axis(lower):
        return NormCell(matrix / math.sqrt(top * float(np.max(lower.args[1].value))), 2.0)
    if name == "QuadForm" and lower.args[1].is_constant():
        sizes, axes = np.linalg.eigh(np.asarray(lower.args[1].value, dtype=float))
        root = np.sqrt(sizes.clip(min=0.0))[:, None] * axes.T
        return NormCell(root @ matrix / math.sqrt(top), 2.0)
    return None


def _second_order(variable: Any, constraint: Any) -> Cell | None:
    height, body = constraint.args
    return _below(variable, body, height) if height.size == 1 and body.ndim == 1 else None


def _below(variable: Any, body: Any, height: Any) -> SecondOrder:
    """Return the cell where |body|_2 <= height, both affine."""
    (tall,), (slope,) = _affine(variable, height)
    centre, matrix = _affine(variable, body)
    if not np.linalg.norm(centre) < tall:
        raise _not_inside()
    return SecondOrder(float(tall), slope, centre, matrix)


def _semidefinite(variable: Any, expression: Any) -> Cell:
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


def _affine(variable: Any, expression: Any) -> tuple[FloatArray, FloatArray]:
    """Return the constant, (m,), and slope, (m, dim), of an affine expression's entries."""
    points = np.vstack([np.zeros(variable.size), np.eye(variable.size)])
    values = np.array([np.ravel(_value(variable, expression, v)) for v in points], dtype=float)
    return values[0], (values[1:] - values[0]).T


def _value(variable: Any, expression: Any, v: FloatArray) -> Any:
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
