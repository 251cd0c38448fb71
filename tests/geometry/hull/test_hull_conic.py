"""Sets of cvxpy constraints: certified from outside, or refused."""

import cvxpy as cp
import numpy as np
import pytest

from skdp.geometry.programs import ConeSet
from skdp.mechanisms import Sensitivity

V = cp.Variable(3)
W = cp.Variable(2)


def looks(dim, n=40, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim))


def arrow(variable):
    """The matrix that is positive semidefinite where |variable|_2 <= 1."""
    row = cp.reshape(variable, (1, variable.size), order="C")
    return cp.bmat([[np.ones((1, 1)), row], [row.T, np.eye(variable.size)]])


# Constraints, and the radius of the Euclidean ball that they describe.
KNOWN = {
    "by norm": ([cp.norm(V, 2) <= 2], 2.0),
    "by squares": ([cp.sum_squares(V) <= 4], 2.0),
    "by a cone": ([cp.SOC(cp.Constant(2.0), V)], 2.0),
    "by a matrix": ([arrow(V) >> 0], 1.0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_bounds_are_above_the_truth_and_close(name):
    constraints, radius = KNOWN[name]
    compiled, w = ConeSet.compiled(V, constraints), looks(3, 10)
    bounds, truth = np.array([compiled.bound(x) for x in w]), radius * np.linalg.norm(w, axis=1)
    assert (bounds >= truth * (1 - 1e-14)).all()
    np.testing.assert_allclose(bounds, truth, rtol=1e-6)


def test_a_projection_is_held():
    """The hull of six points, written with weights."""
    points, weights = looks(2, 6, 3), cp.Variable(6)
    shadow = [points.T @ weights == W, cp.norm(weights, 1) <= 1]
    ball = Sensitivity.from_constraints(W, shadow, neighbors="add_remove", directions=300).ball
    assert 0.99 < ball.gauge(points).max() <= 1
    assert ball.exact


def test_dual_bounds_hold_whatever_the_solver_returns(monkeypatch):
    """Duals spoiled by noise prove weaker bounds, and none below the truth."""
    from skdp.geometry import programs as _programs

    rng, real = np.random.default_rng(0), _programs._dual_point

    def spoiled(kind, constraint):
        with_noise = type("Spoiled", (), {})()
        y = constraint.dual_value
        noisy = [1e-3 * rng.normal(size=np.shape(part)) + part for part in y] if (
            kind == "second"
        ) else y + 1e-3 * rng.normal(size=np.shape(y))  # fmt: skip
        with_noise.dual_value = noisy
        return real(kind, with_noise)

    for name, known in [(name, KNOWN[name][1]) for name in ("by norm", "by a cone", "by a matrix")]:
        clean = ConeSet.compiled(V, KNOWN[name][0])
        w = looks(3, 5)
        truth = known * np.linalg.norm(w, axis=1)
        bounds = np.array([clean.bound(x) for x in w])
        monkeypatch.setattr(_programs, "_dual_point", spoiled)
        worse = np.array([ConeSet.compiled(V, KNOWN[name][0]).bound(x) for x in w])
        monkeypatch.setattr(_programs, "_dual_point", real)
        assert (bounds >= truth * (1 - 1e-14)).all()
        assert (worse >= truth).all()
        assert (worse > bounds).all()
        assert (worse < 1.5 * truth + 0.5).all()


def test_a_solver_that_fails_is_followed_by_another(monkeypatch):
    """By its exception or by its status; the error that is left is one of ours."""
    used, real = [], cp.Problem.solve

    def failing(problem, solver=None, **kwargs):
        used.append(solver)
        if solver not in works:
            raise cp.SolverError("inside the solver")
        return real(problem, solver=solver, **kwargs)

    monkeypatch.setattr(cp.Problem, "solve", failing)
    works = {"SCS"}
    found = ConeSet.compiled(W, [cp.norm(W, 2) <= 1]).bound(np.array([3.0, 4.0]))
    assert 5 <= found < 5.1
    assert used[:2] == ["CLARABEL", "SCS"]
    works = set()
    with pytest.raises(ValueError, match=r"must be solved by one of .*'CLARABEL', 'SCS'"):
        ConeSet.compiled(W, [cp.norm(W, 2) <= 1]).bound(np.array([3.0, 4.0]))


def test_differences_of_a_small_polytope_are_exact():
    """Of the simplex {v >= 0, sum v <= 1}: the cuboctahedron, 12 corners, volume 10/3."""
    ball = Sensitivity.from_constraints(V, [V >= 0, cp.sum(V) <= 1]).ball
    assert ball.exact
    assert len(ball.extreme_points()) == 12
    assert ball.log_volume() == pytest.approx(np.log(10 / 3), rel=1e-9)
    corners = np.vstack([np.zeros(3), np.eye(3)])
    assert ball.gauge(corners[:, None] - corners).max() <= 1


def test_the_users_variable_keeps_its_value():
    variable = cp.Variable(2)
    variable.value = np.array([3.0, 4.0])
    Sensitivity.from_constraints(variable, [variable >= 0, cp.sum(variable) <= 1])
    np.testing.assert_array_equal(variable.value, [3.0, 4.0])


HIDDEN = cp.Variable()
BAD = {
    "unbounded": (V, [cp.abs(V[:2]) <= 1], r"infinitely far along \[0., 0., 1.\]"),
    "unbounded aslant": (W, [cp.abs(W[0] - W[1]) <= 1], "infinitely far"),
    "flat": (W, [cp.norm(W, 2) <= 1, W[0] == 2 * W[1]], r"v\[1\] = 0 on all of it. Drop coord"),
    "empty": (W, [W <= -1, W >= 1], "met by some point"),
    "a free auxiliary": (W, [cp.norm(W, 2) <= 1, W[0] <= HIDDEN], "bound every variable"),
    "not convex": (W, [cp.norm(W, 2) >= 1], "convex by cvxpy's rules"),
    "exponential": (W, [cp.sum(cp.exp(W) + cp.exp(-W)) <= 9], "linear, second-order or semi"),
    "nothing": (W, [], "list of cvxpy constraints, not empty"),
    "a truth value": (W, [True], r"list of cvxpy constraints, not empty, got \['bool'\]"),
    "another variable": (cp.Variable(2), [W <= 1], "contain the variable"),
    "no variable": (3, [W <= 1], "cvxpy Variable with one axis"),
    "a matrix": (cp.Variable((2, 2)), [W <= 1], "cvxpy Variable with one axis"),
    "attributes": (cp.Variable(2, nonneg=True), [W <= 1], "free of attributes"),
    "a parameter": (W, [cp.Parameter() >= W], "no cvxpy Parameter"),
    "integers": (W, [cp.abs(W) <= 1, cp.Variable(integer=True) <= W[0]], "convex by cvxpy's"),
}


@pytest.mark.parametrize("name", BAD)
def test_sets_that_make_no_ball(name):
    """Each is told by its own sentence, and no error comes from inside cvxpy."""
    variable, constraints, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        Sensitivity.from_constraints(variable, constraints)
