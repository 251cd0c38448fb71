"""Hulls of cvxpy constraints: against closed forms, certified from outside, or refused."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy

import cvxpy as cp
import numpy as np
import pytest
from ball_battery import BATTERY, check_covariance, check_norm, check_radius, check_stationary
from programs import output_of
from ray_volume import log_volume

from skdp.geometry import LpBall
from skdp.geometry.conic import Level, SecondOrder
from skdp.geometry.hull import Hull
from skdp.geometry.programs import ConeSet
from skdp.mechanisms import KNorm, Sensitivity

V = cp.Variable(3)
W = cp.Variable(2)
MIX = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.5]])
COV = MIX @ MIX.T


def looks(dim, n=40, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim))


def arrow(variable):
    """The matrix that is positive semidefinite where |variable|_2 <= 1."""
    row = cp.reshape(variable, (1, variable.size), order="C")
    return cp.bmat([[np.ones((1, 1)), row], [row.T, np.eye(variable.size)]])


# A description, what it is, and the greatest relative error of gauges: rounding.
KNOWN = {
    "l_2 by norm": ([cp.norm(V, 2) <= 2], LpBall(3, radius=2.0)),
    "l_2 by squares": ([cp.sum_squares(V) <= 4], LpBall(3, radius=2.0)),
    "l_2 by a cone": ([cp.SOC(cp.Constant(2.0), V)], LpBall(3, radius=2.0)),
    "l_2 by a matrix": ([arrow(V) >> 0], LpBall(3)),
    "l_2 by a power": ([cp.quad_form(V, np.eye(3)) <= 1], LpBall(3)),
    "l_2 by an unknown atom": ([cp.norm(V, 2) + cp.norm(2 * V, 2) <= 3], LpBall(3)),
    "l_1": ([cp.norm(V, 1) <= 3], LpBall(3, p=1.0, radius=3.0)),
    "l_1 by sums": ([cp.sum(cp.abs(V)) <= 3], LpBall(3, p=1.0, radius=3.0)),
    "l_inf": ([cp.norm(V, "inf") <= 0.5], LpBall(3, p=math.inf, radius=0.5)),
    "l_inf by entries": ([cp.abs(V) <= 0.5], LpBall(3, p=math.inf, radius=0.5)),
    "l_inf by half-spaces": ([V <= 0.5, V >= -0.5], LpBall(3, p=math.inf, radius=0.5)),
    "l_3": ([cp.pnorm(V, 3) <= 1], LpBall(3, p=3.0)),
}


@pytest.mark.rest_is_slow(4)
@pytest.mark.parametrize("name", KNOWN)
def test_a_known_ball_is_found_again(name):
    """Gauges but for rounding; supports from above, by no more than a solver's tolerance."""
    constraints, known = KNOWN[name]
    ball, v = Hull.from_constraints(V, constraints), looks(3, 15)
    assert ball.decided
    assert ball.exact
    np.testing.assert_allclose(ball.gauge(v), known.gauge(v), rtol=1e-12)
    np.testing.assert_allclose(ball.gauge(1e-80 * v), 1e-80 * known.gauge(v), rtol=1e-12)
    np.testing.assert_array_equal(ball.contains(v), known.gauge(v) <= 1)
    assert ball.gauge([math.inf, 0.0, 0.0]) == math.inf
    assert np.isnan(ball.gauge([math.nan, 1.0, 0.0]))
    found, truth = ball.support(v[:5]), known.support(v[:5])
    assert (found >= truth * (1 - 1e-14)).all()
    np.testing.assert_allclose(found, truth, rtol=1e-6)
    np.testing.assert_allclose(ball.bounding_box(), known.bounding_box(), rtol=1e-6)


SHAPES = {
    "second-order cones off the centre": [
        cp.SOC(2 + 0.5 * V[0], V),
        cp.SOC(2 - 0.5 * V[0], V),
        cp.abs(V[1]) <= 0.5,
    ],
    "matrices": [
        cp.bmat([[1, V[0], V[1]], [V[0], 1, 0], [V[1], 0, 1]]) >> 0,
        cp.bmat([[1, V[2] / 2], [V[2] / 2, 1]]) >> 0,
    ],
    "an ellipsoid and a slab": [cp.quad_form(V, COV) <= 1, cp.abs(cp.sum(V)) <= 0.4],
}


@pytest.mark.parametrize("name", [*SHAPES][:2])
def test_the_battery(name):
    """As of any ball whose gauge is a closed form; only the gradient of a support is a solver's."""
    ball = Hull.from_constraints(V, SHAPES[name])
    for check in BATTERY:
        if check.__name__ not in ("check_support", "check_box"):
            check(ball, np.random.default_rng(80))


@pytest.mark.parametrize("name", SHAPES)
def test_gauges_agree_with_a_solver(name):
    """The closed forms against the largest multiple that a conic program finds inside."""
    ball = Hull.from_constraints(V, SHAPES[name])
    for v in looks(3, 6):
        s = cp.Variable()
        problem = cp.Problem(cp.Maximize(s), [*SHAPES[name], s * v == V])
        assert ball.gauge(v) == pytest.approx(1 / problem.solve(solver="CLARABEL"), rel=1e-6)


@pytest.mark.parametrize("name", SHAPES)
def test_supports_are_never_below_a_point_of_the_ball(name):
    """Points of the border, found by moving uphill from many draws, and the twin that is less."""
    ball, rng = Hull.from_constraints(V, SHAPES[name]), np.random.default_rng(5)
    for w, top in zip(looks(3, 8), ball.support(looks(3, 8)), strict=True):
        points = ball.sample(500, rng)
        for width in (0.5, 0.1, 0.02, 0.004, 0.001):
            points = points / ball.gauge(points)[:, None]
            best = points[np.argsort(points @ w)[-5:]]
            points = np.vstack([best, *(b + width * rng.normal(size=(100, 3)) for b in best)])
        points = points / ball.gauge(points)[:, None]
        assert (points @ w).max() <= top * (1 + 1e-14)
        assert (points @ w).max() > 0.999 * top


def test_an_expression_of_no_known_kind_is_its_own_level_set():
    """The root along the ray, and what is inside by its value: the same ball."""
    ball = Hull.from_constraints(W, [cp.maximum(cp.norm(W, 2), cp.sum_squares(2 * W[0])) <= 1])
    assert isinstance(ball.body.cells[0], Level)
    check_norm(ball, np.random.default_rng(0))
    v = looks(2, 100)
    np.testing.assert_array_equal(ball.contains(v), ball.gauge(v) <= 1)
    np.testing.assert_allclose(
        ball.gauge(v), np.maximum(np.linalg.norm(v, axis=1), 2 * np.abs(v[:, 0])), rtol=1e-12
    )
    assert ball.gauge(v / ball.gauge(v)[:, None]) == pytest.approx(1, rel=1e-13)


PROJECTED = np.random.default_rng(3).normal(size=(6, 2))
WEIGHTS = cp.Variable(6)
SHADOW = [W == PROJECTED.T @ WEIGHTS, cp.norm(WEIGHTS, 1) <= 1]


def test_a_projection_has_the_right_norm_and_is_not_called_exact():
    """The hull of six points, written with weights: a solver decides, raised by a millionth."""
    ball, known = Hull.from_constraints(W, SHADOW), Hull.from_points(PROJECTED)
    assert not ball.decided
    assert not ball.exact
    v = looks(2, 30)
    assert (ball.gauge(v) >= known.gauge(v)).all()
    np.testing.assert_allclose(ball.gauge(v), known.gauge(v), rtol=3e-6)
    np.testing.assert_allclose(ball.support(v), known.support(v), rtol=1e-6)
    assert (ball.support(v) >= known.support(v) * (1 - 1e-14)).all()
    assert ball.gauge(np.zeros(2)) == 0
    u = known.gauge(ball.sample(100, np.random.default_rng(1)))
    assert u.max() <= 1 + 1e-5
    assert abs((u**2).mean() - 0.5) < 7 * 0.0289  # |U|^2 is uniform: seven standard errors
    with pytest.raises(ValueError, match="sampled exactly"):
        KNorm("hull").calibrate(Sensitivity(ball), epsilon=1.0)


@pytest.mark.parametrize(
    ("variable", "constraints"),
    [(W, SHADOW), (V, [cp.norm(V, 2) <= 1]), (V, SHAPES["matrices"])],
    ids=["shadow", "round", "matrices"],
)
def test_the_outer_polytope_is_exact_and_holds_the_ball(variable, constraints):
    """The support in the direction of every facet is at most 1; a program of its own says so."""
    ball = Hull.from_constraints(variable, constraints)
    outer = ball.outer_polytope()
    assert outer.exact
    n = cp.Parameter(variable.size)
    farthest = cp.Problem(cp.Maximize(n @ variable), constraints)
    for n.value in outer.facets()[::4]:
        # Up to the tolerance of this program of its own.
        assert 1 - 1e-6 < farthest.solve(solver="CLARABEL") <= 1 + 1e-7
    assert KNorm("hull").calibrate(Sensitivity(outer), epsilon=1.0).scale < 1 + 1e-9
    inside, error = log_volume(ball, 100)
    assert 0 < outer.log_volume() - inside + 6 * error < 0.5


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

    for name, known in (("l_2 by norm", 2.0), ("l_2 by a cone", 2.0), ("l_2 by a matrix", 1.0)):
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
    ball = Hull.from_constraints(W, SHADOW)
    truth, used, real = Hull.from_points(PROJECTED).gauge([1.0, 1.0]), [], cp.Problem.solve

    def failing(problem, solver=None, **kwargs):
        used.append(solver)
        if solver not in works:
            raise cp.SolverError("inside the solver")
        return real(problem, solver=solver, **kwargs)

    monkeypatch.setattr(cp.Problem, "solve", failing)
    works = {"SCS"}
    assert ball.gauge([1.0, 1.0]) == pytest.approx(float(truth), rel=1e-3)
    assert used[:2] == ["CLARABEL", "SCS"]
    works = set()
    with pytest.raises(ValueError, match=r"the gauge must be solved by one of \['CLARABEL', 'SCS'"):
        ball.gauge([1.0, 2.0])


def test_differences_of_a_small_polytope_are_exact():
    """Of the simplex {v >= 0, sum v <= 1}: the cuboctahedron, 12 corners, volume 10/3."""
    ball = Hull.difference_of((V, [V >= 0, cp.sum(V) <= 1]))
    assert ball.exact
    assert len(ball.extreme_points()) == 12
    assert math.exp(ball.log_volume()) == pytest.approx(10 / 3, rel=1e-9)
    corners = np.vstack([np.zeros(3), np.eye(3)])
    assert ball.gauge(corners[:, None] - corners).max() <= 1
    known = Hull.difference_of(corners)
    np.testing.assert_allclose(ball.gauge(looks(3)), known.gauge(looks(3)), rtol=1e-9)


def test_pickled_it_is_the_same_in_another_process(tmp_path):
    """Where cvxpy numbers its variables anew; a program, a closed form and a level set."""
    balls = [
        Hull.from_constraints(W, SHADOW),
        Hull.from_constraints(W, [cp.norm(W, 2) <= 1]),
        Hull.from_constraints(W, [cp.norm(W, 2) + cp.norm(W, 1) <= 1]),
    ]
    v = looks(2, 3)
    (tmp_path / "balls").write_bytes(pickle.dumps((balls, v)))
    code = """
import pickle, sys
balls, v = pickle.load(open(sys.argv[1], "rb"))
print([[float(x) for x in [*ball.gauge(v), *ball.support(v)]] for ball in balls])
"""
    said = output_of(code, str(tmp_path / "balls"))
    ours = [[*ball.gauge(v), *ball.support(v)] for ball in balls]
    np.testing.assert_allclose(eval(said), ours, rtol=1e-7)


def test_threads_do_not_mix_up_their_programs():
    """Four at once, on a level set and on a projection, agree with one after the other."""
    level = Hull.from_constraints(W, [cp.norm(W, 2) + cp.norm(W, 1) <= 1])
    for ball in (level, Hull.from_constraints(W, SHADOW)):
        v = looks(2, 48)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(ball.gauge, v))
        np.testing.assert_allclose(found, ball.gauge(v), rtol=1e-7)
        assert deepcopy(ball) is copy(ball) is ball


def test_the_users_variable_keeps_its_value():
    variable = cp.Variable(2)
    variable.value = np.array([3.0, 4.0])
    Hull.from_constraints(variable, [cp.norm(variable, 2) <= 1]).gauge([1.0, 2.0])
    np.testing.assert_array_equal(variable.value, [3.0, 4.0])


def test_a_set_with_an_unseen_fault_of_symmetry_is_met_with_its_mirror_image():
    """|centre| = 1e-7 is below what is noticed: the norm is even all the same."""
    shifted = W + np.array([1e-7, 0.0])
    ball, v = Hull.from_constraints(W, [cp.norm(shifted, 2) <= 1]), looks(2)
    assert isinstance(ball.body.cells[0], SecondOrder)
    np.testing.assert_array_equal(ball.gauge(v), ball.gauge(-v))
    assert ball.gauge([1.0, 0.0]) > 1
    assert ball.gauge([-1.0, 0.0]) > 1


HIDDEN = cp.Variable()
BAD = {
    "unbounded": (V, [cp.abs(V[:2]) <= 1], r"infinitely far along \[0., 0., 1.\]"),
    "unbounded aslant": (W, [cp.abs(W[0] - W[1]) <= 1], "infinitely far"),
    "flat": (W, [cp.norm(W, 2) <= 1, W[0] == 2 * W[1]], r"v\[1\] = 0 on all of it. Drop coord"),
    "empty": (W, [W <= -1, W >= 1], "met by some point"),
    "not symmetric": (W, [W <= 1, W >= -2], r"symmetric, but it has \[-2"),
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
        Hull.from_constraints(variable, constraints).bounding_box()


def test_a_conic_gauge_with_a_wrong_root_is_caught():
    """The twin: a cone's other root, which is the right one only for centred cones."""
    ball = Hull.from_constraints(V, SHAPES["second-order cones off the centre"])

    class Centred:
        dim, exact = 3, True
        sample = ball.sample

        def gauge(self, v):
            return np.maximum(np.linalg.norm(v, axis=-1) / 2, 2 * np.abs(np.asarray(v)[..., 1]))

    check_radius(ball, np.random.default_rng(0))
    with pytest.raises(AssertionError):
        check_radius(Centred(), np.random.default_rng(0))
    with pytest.raises(AssertionError):
        check_stationary(Centred(), np.random.default_rng(0))
    assert not hasattr(ball, "covariance")
    check_covariance(ball, np.random.default_rng(0))
