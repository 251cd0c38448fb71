"""Trusted. Convex programs: runs of several solvers, and compilation of cvxpy sets to arrays.

A compiled set {C x : b - A x in a product of cones} has no cvxpy objects and can be pickled. The
programs over it are built once, when they are first needed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array, csr_array

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import fail

Expression: TypeAlias = Any  # a variable, constraint or problem of cvxpy, which has no types
# Order of trial; solvers that are not installed are skipped.
_CONE_SOLVERS = ("CLARABEL", "SCS", "MOSEK", "ECOS", "CVXOPT")
_LINEAR_METHODS: tuple[Any, ...] = ("highs", "highs-ds", "highs-ipm")
# More than a unit of rounding.
UNIT = 1e-15
# Compiled programs are shared, so one thread at a time sets parameters and solves.
TURN = threading.RLock()


def load_cvxpy() -> Any:
    """Import cvxpy when it is first needed, as this takes a second."""
    import cvxpy

    return cvxpy


def solve(problem: Expression, what: str) -> str:
    """Solve a cvxpy problem with the first solver that succeeds; return its status."""
    for name in _installed():
        try:
            problem.solve(solver=name)
        except Exception:  # solvers raise errors of any class of their own
            continue
        if problem.status in ("optimal", "unbounded", "infeasible"):
            return str(problem.status)
    rule = f"be solved by one of {list(_installed())}"
    raise fail(what, rule, problem.status, "Rescale the set.")


@cache
def _installed() -> tuple[str, ...]:
    # The query takes longer than a small program.
    installed = load_cvxpy().installed_solvers()
    return tuple(name for name in _CONE_SOLVERS if name in installed)


def least_sum(points: FloatArray, v: FloatArray) -> float:
    """Return the least |c|_1 over c with points' c = v, up to rounding and never below it.

    It is the gauge of v in the hull of (n, d) points and their negatives. Weights of the
    solver's residual are added to its weights.
    """
    columns = np.concatenate([points, -points]).T
    for method in _LINEAR_METHODS:
        result: Any = linprog(np.ones(columns.shape[1]), A_eq=columns, b_eq=v, method=method)
        if result.status == 0:
            weights = np.subtract(*np.split(result.x, 2))
            weights += np.linalg.lstsq(points.T, v - points.T @ weights)[0]
            return float(np.abs(weights).sum())
    rule = f"be found by one of {list(_LINEAR_METHODS)}"
    raise fail("the gauge", rule, None, "Rescale the body.")


@dataclass(frozen=True, eq=False)
class ConeSet:
    """The set {C x : b - A x in the cones}; C is (dim, n), A (m, n) and b (m,).

    Cones are "zero", "nonneg", "second" order and positive semidefinite "matrix". Matrices are
    given by their upper triangles, column by column, off-diagonal entries times the root of 2.
    """

    C: FloatArray
    A: csc_array
    b: FloatArray
    cones: tuple[tuple[str, int], ...]  # kind and number of rows

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.C, self.A, self.b, self.cones)

    @classmethod
    def compiled(cls, variable: Expression, constraints: Sequence[Expression]) -> ConeSet:
        """Compile {variable : constraints}, which must be a valid convex set."""
        cp = load_cvxpy()
        flat = cp.reshape(variable, (variable.size,), order="F")
        w = cp.Parameter(variable.size)
        problem = cp.Problem(cp.Maximize(w @ flat), list(constraints))
        rows = []
        for axis in np.eye(variable.size):
            w.value = axis
            try:
                data = problem.get_problem_data(cp.CLARABEL)[0]
            except Exception as error:  # atoms of cvxpy raise errors of any class
                rule = f"be compiled by cvxpy, which raises {type(error).__name__}"
                raise fail("constraints", rule, None, "Write them with other atoms.") from None
            rows.append(-data["c"])
        dims = data["dims"]
        if dims.exp or dims.p3d or getattr(dims, "pnd", ()):
            remedy = "Powers, logarithms and exponentials are not; use a polytope around the set."
            raise fail("constraints", "be linear, second-order or semidefinite", None, remedy)
        cones = [("zero", dims.zero), ("nonneg", dims.nonneg), *(("second", k) for k in dims.soc)]
        cones += [("matrix", k * (k + 1) // 2) for k in dims.psd]
        A, b = csc_array(data["A"]), np.asarray(data["b"], float)
        return cls(np.array(rows), A, b, tuple(cone for cone in cones if cone[1]))

    @property
    def dim(self) -> int:
        return int(self.C.shape[0])

    @cached_property
    def _farthest(self) -> tuple[Expression, ...]:  # in a direction q of x
        cp = load_cvxpy()
        x, q = cp.Variable(self.A.shape[1]), cp.Parameter(self.A.shape[1])
        constraints = list(self._within(x))
        return cp.Problem(cp.Minimize(-q @ x), constraints), x, q, constraints

    def _within(self, x: Expression) -> Iterator[Expression]:
        cp = load_cvxpy()
        for kind, A, b in self._rows:
            slack = b - A @ x
            if kind == "zero":
                yield A @ x == b
            elif kind == "nonneg":
                yield A @ x <= b
            elif kind == "second":
                yield cp.SOC(slack[0], slack[1:])
            else:
                order = (math.isqrt(8 * len(b) + 1) - 1) // 2
                yield cp.reshape(_unpack(order) @ slack, (order, order), order="F") >> 0

    @cached_property
    def _rows(self) -> list[tuple[str, csr_array, FloatArray]]:
        """The kind of each cone, and its rows of A and b."""
        A, ends = self.A.tocsr(), np.cumsum([size for _, size in self.cones])
        cuts = [slice(end - size, end) for end, (_, size) in zip(ends, self.cones, strict=True)]
        return [(kind, A[at], self.b[at]) for (kind, _), at in zip(self.cones, cuts, strict=True)]

    def farthest(self, w: FloatArray) -> tuple[str, FloatArray]:
        """Return the status and a point of the set, (dim,), where <w, .> is greatest."""
        with TURN:
            problem, x, q, _ = self._farthest
            q.value = w @ self.C
            status = solve(problem, "the support function")
            return status, np.zeros(self.dim) if x.value is None else self.C @ x.value

    def bound(self, w: FloatArray) -> float:
        """Return a certified upper bound of <w, .> over the set; inf if there is none.

        For any y in the dual cone <q, x> <= <b, y> + <q - A' y, x>. The residual q - A' y of
        the solver's y is covered by bounds on |x|.
        """
        value, left = self._dual(w @ self.C)
        paid = left > 0  # entries without a residual need no bound on |x|
        return float(value + left[paid] @ self._extent[paid])

    @cached_property
    def _extent(self) -> FloatArray:
        """Bounds on |x_j|, inf for all of them if one has none."""
        n = self.A.shape[1]
        pairs = [self._dual(q) for q in np.concatenate([np.eye(n), -np.eye(n)])]
        values, left = (np.array(part) for part in zip(*pairs, strict=True))
        shares = left.sum(axis=1)
        if not np.isfinite(values).all() or shares.max() > 0.5:
            return np.full(n, math.inf)
        # With M = |x|_inf, attained at some x_j, M <= max value + max |left|_1 M.
        most = max(values.max(), 0.0) / (1 - shares.max())
        return np.asarray(np.maximum(values + shares * most, 0.0).reshape(2, n).max(axis=0))

    def _dual(self, q: FloatArray) -> tuple[float, FloatArray]:
        """Return <b, y> and |q - A' y|, both rounded up, for a y of the dual cone near the best."""
        with TURN:
            problem, _, right, constraints = self._farthest
            right.value = q
            if solve(problem, "the support function") != "optimal":
                return math.inf, np.abs(q)
            rows = zip(self._rows, constraints, strict=True)
            duals = [_dual_point(kind, constraint) for (kind, *_), constraint in rows]
        value, left, error = 0.0, q.astype(float), np.abs(q) * UNIT
        for y, (_, A, b) in zip(self._polished(q, duals), self._rows, strict=True):
            # The error of a sum of n products is below n units of rounding of their sizes.
            value += float(b @ y) + UNIT * len(b) * float(np.abs(b) @ np.abs(y))
            left = left - A.T @ y
            error = error + UNIT * len(b) * (abs(A).T @ np.abs(y))
        return value, np.abs(left) + error

    def _polished(self, q: FloatArray, y: list[FloatArray]) -> list[FloatArray]:
        """Solve A' y = q on the rows that bind, if all cones are zeros and numbers >= 0."""
        if {kind for kind, _ in self.cones} & {"second", "matrix"}:
            return y
        sizes, is_zero = (
            [size for _, size in self.cones],
            [kind == "zero" for kind, _ in self.cones],
        )
        whole, free = np.concatenate(y), np.repeat(is_zero, sizes)
        binding = free | (whole > 1e-5 * np.abs(whole).max())
        exact = np.zeros(len(whole))
        exact[binding] = np.linalg.lstsq(self.A.toarray()[binding].T, q)[0]
        if (exact[~free] < 0).any():
            return y
        return np.split(exact, np.cumsum([len(part) for part in y])[:-1])


def _unpack(order: int) -> csc_array:
    """Return the map from a packed upper triangle to the whole matrix, column by column."""
    full = np.zeros((order * order, order * (order + 1) // 2))
    (j, i), k = np.tril_indices(order), np.arange(full.shape[1])
    full[j * order + i, k] = full[i * order + j, k] = np.where(i == j, 1.0, math.sqrt(0.5))
    return csc_array(full)


def _dual_point(kind: str, constraint: Expression) -> FloatArray:
    """Return the dual value of a constraint, projected into the dual cone."""
    if kind == "zero":
        return np.atleast_1d(np.asarray(constraint.dual_value, dtype=float))
    if kind == "nonneg":
        return np.asarray(np.maximum(np.atleast_1d(constraint.dual_value), 0.0))
    if kind == "second":
        head, tail = (np.ravel(part) for part in constraint.dual_value)
        length = np.linalg.norm(tail) * (1 + UNIT * (len(tail) + 1))
        return np.concatenate([[max(float(head[0]), float(length))], tail])
    Z = np.atleast_2d(constraint.dual_value)
    Z = (Z + Z.T) / 2
    least = np.linalg.eigvalsh(Z)[0] - 10 * UNIT * len(Z) * np.abs(Z).sum()
    Z = Z + max(0.0, -least) * np.eye(len(Z))
    return np.asarray(_unpack(len(Z)).T @ Z.ravel(order="F"))
