"""Hulls of points and of half-spaces: against linear programs, against each other, and drawn."""

import math

import ball_battery
import numpy as np
import pytest
from ball_battery import BATTERY, check_covariance, check_rejection, check_stationary
from scipy.optimize import linprog

from skdp.geometry import EncodedRowsBall, LpBall, SimplexBall
from skdp.geometry import polytope as polytope_module
from skdp.geometry.hull import Hull, PolytopeHull, polytope_around
from skdp.geometry.polytope import Corners, Facets, SymmetricPolytope
from skdp.mechanisms import KNorm, Sensitivity
from skdp.trusted.ball import sign_patterns


def random_points(n, dim, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim))


def both_sides(normals):
    """A and b of {v : |normals v| <= 1}."""
    return np.concatenate([normals, -normals]), np.ones(2 * len(normals))


NINE = np.vstack([np.eye(9), np.full((1, 9), 0.5)])
BALLS = {
    "an interval": Hull.from_points([[2.0], [-3.0]]),
    "a polygon": Hull.from_points(random_points(12, 2)),
    "random corners": Hull.from_points(random_points(8, 3)),
    "corners, edges and inner points": Hull.from_points(
        np.vstack([np.eye(3), np.eye(3) / 2, [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]])
    ),
    "a cube": Hull.from_points(sign_patterns(4)),
    "units far apart": Hull.from_points(random_points(9, 2) * [1e-6, 1e6]),
    "random half-spaces": Hull.from_halfspaces(*both_sides(random_points(7, 4))),
    "redundant half-spaces": Hull.from_halfspaces(
        *both_sides(np.vstack([np.eye(3), np.eye(3) / 2, [[0.5, 0.5, 0.0]]]))
    ),
    "too many dimensions to triangulate": Hull.from_halfspaces(*both_sides(NINE)),
    "a hexagon of differences": Hull.difference_of([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
}


REDUNDANT = ("a cube", "redundant half-spaces", "a hexagon of differences")


@pytest.mark.parametrize("name", [name for name in BALLS if name not in REDUNDANT])
def test_the_battery(name):
    """False alarms: as derived there."""
    for check in BATTERY:
        if name == "units far apart" and check.__name__ == "check_support":
            continue  # it moves all coordinates by the same step
        check(BALLS[name], np.random.default_rng(70))


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_points_and_half_spaces_describe_one_ball(dim):
    """Built from its corners, from its facets and from programs alone, it has the same norms."""
    points, rng = random_points(dim + 4, dim), np.random.default_rng(1)
    hull = Hull.from_points(points)
    again = Hull.from_halfspaces(*both_sides(hull.facets()))
    v = rng.normal(size=(30, dim))
    truth = [ball_battery.lp_gauge(np.vstack([points, -points]), x) for x in v]
    for ball in (hull, again, Hull(Corners(points)), Hull(Facets(hull.facets()))):
        np.testing.assert_allclose(ball.gauge(v), truth, rtol=1e-8)
        np.testing.assert_allclose(ball.support(v), np.abs(v @ points.T).max(axis=1), rtol=1e-8)
        np.testing.assert_allclose(ball.bounding_box(), np.abs(points).max(axis=0), rtol=1e-8)
    np.testing.assert_allclose(hull.log_volume(), again.log_volume(), atol=1e-10)
    np.testing.assert_allclose(hull.covariance(), again.covariance(), rtol=1e-9, atol=1e-12)


KNOWN = [LpBall(3, p=1.0, weights=(1.0, 0.5, 3.0)), LpBall(4, p=math.inf, radius=2.0)]
KNOWN += [SimplexBall(4), EncodedRowsBall(1, (2, 2))]


@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_balls_with_closed_forms_are_found_again(known):
    """Gauge, support, volume, covariance and corners, from the corners alone."""
    hull, v = Hull.from_points(known.extreme_points()), random_points(50, known.dim)
    np.testing.assert_allclose(hull.gauge(v), known.gauge(v), rtol=1e-11)
    np.testing.assert_allclose(hull.support(v), known.support(v), rtol=1e-12)
    assert hull.log_volume() == pytest.approx(known.log_volume(), abs=1e-10)
    np.testing.assert_allclose(hull.covariance(), known.covariance(), rtol=1e-10, atol=1e-12)
    ours, theirs = (np.round(b.extreme_points(), 9) + 0.0 for b in (hull, known))
    assert {*map(tuple, ours)} == {*map(tuple, theirs)}
    assert hull.exact
    assert isinstance(hull, PolytopeHull)


def test_every_given_point_is_inside():
    """Rounding included: a difference that was declared may not be left out."""
    for seed in range(40):
        dim = 2 + seed % 5
        points = random_points(30, dim, seed) * 10.0 ** np.arange(-3, dim - 3)
        assert Hull.from_points(points).gauge(points).max() <= 1 + 1e-14


def test_the_gauge_of_a_program_is_never_below_the_truth():
    """Its weights reproduce the point: an upper bound, and for corners attained."""
    points = random_points(40, 9)
    ball, v = Hull.from_points(points), random_points(20, 9, 5)
    assert isinstance(ball.body, Corners)
    for x, found in zip(v, ball.gauge(v), strict=True):
        # The polar program bounds the gauge from below, whatever its solver's tolerance.
        w = linprog(-x, np.vstack([points, -points]), np.ones(80), bounds=(None, None)).x
        assert found >= w @ x / np.abs(points @ w).max() * (1 - 1e-12)
        assert found == pytest.approx(w @ x / np.abs(points @ w).max(), rel=1e-7)
    assert ball.gauge(np.zeros(9)) == 0


def test_draws_by_triangulation_and_by_rejection_have_one_law():
    """Each is checked by the battery; the twin that forgets the simplices' volumes is caught."""
    hull = BALLS["random corners"]
    by_rejection = Hull(hull.body)
    for check in (check_rejection, check_covariance, check_stationary):
        check(by_rejection, np.random.default_rng(3))

    class Even(SymmetricPolytope):
        @property
        def _cdf(self):
            return np.arange(1, len(self._simplices) + 1) / len(self._simplices)

    # Thin simplices beside thick ones: cut evenly, the law is visibly wrong.
    points = np.vstack([np.eye(3), [[0.9, 0.9, 0.9]]])
    right = Hull.from_points(points)
    wrong = PolytopeHull(Even(right.body.points, right.body.normals))
    check_covariance(right, np.random.default_rng(4))
    with pytest.raises(AssertionError):
        check_covariance(wrong, np.random.default_rng(4))


def test_the_acceptance_is_the_share_of_the_box():
    """Of 40,000 points tried, within six standard errors (false alarm below 1e-8)."""
    cut = BALLS["too many dimensions to triangulate"], Hull(BALLS["random corners"].body)
    for seed, ball in enumerate(cut):
        unit = np.random.default_rng(seed).uniform(-1, 1, (40_000, ball.dim))
        tried, share = unit * ball.bounding_box(), ball.acceptance()
        sizes = ball.gauge(tried)
        spread = ((np.abs(unit).max(axis=1) / sizes) ** ball.dim).std()
        kept = (sizes <= 1).mean()
        error = math.sqrt(kept * (1 - kept) / 40_000 + spread**2 / 1024)
        assert abs(kept - share) < 6 * error
        assert abs(1.3 * kept - share) > 6 * error


def test_where_rejection_is_hopeless_there_are_no_draws():
    """A cross-polytope in a cube of 14 dimensions, and a hull of a linear program."""
    axes = np.linalg.qr(random_points(14, 14))[0]
    cross = np.vstack([axes, sign_patterns(9) @ axes[:9]])
    thin = Hull.from_halfspaces(*both_sides(cross))
    assert thin.decided
    assert thin.acceptance() < 1e-3
    for ball in (thin, Hull(Corners(np.eye(3)))):
        assert not ball.exact
        with pytest.raises(ValueError, match="have an acceptance of at least"):
            ball.sample(1, np.random.default_rng(0))
        with pytest.raises(ValueError, match="sampled exactly"):
            KNorm("hull").calibrate(Sensitivity(ball), epsilon=1.0)


def test_sizes_out_of_the_ordinary():
    """Nothing overflows on the way, and infinity and NaN are not taken for a size."""
    for ball in (BALLS["a polygon"], Hull(Corners(np.eye(2))), Hull(Facets(np.eye(2)))):
        one = ball.gauge([0.3, -0.7])
        for size in (1e-300, 1e-30, 1e300):
            assert ball.gauge(size * np.array([0.3, -0.7])) == pytest.approx(size * one, rel=1e-9)
        assert ball.gauge([math.inf, 0.0]) == math.inf
        assert np.isnan(ball.gauge([math.nan, 1.0]))
        assert ball.gauge(np.zeros((0, 2))).shape == (0,)
        assert ball.gauge(np.zeros((3, 1, 2))).tolist() == [[0.0]] * 3


def test_what_is_not_known_is_not_there():
    """Volume and the like are missing members, and never a guess."""
    ball = BALLS["too many dimensions to triangulate"]
    for member in ("log_volume", "covariance", "extreme_points"):
        with pytest.raises(AttributeError, match=rf"no exact {member}\(\)"):
            getattr(ball, member)
    assert ball.facets().shape == (10, 9)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        ball.colour  # noqa: B018


def test_a_linear_program_that_fails_is_tried_by_another_method(monkeypatch):
    """And is an error with a remedy when none can."""
    from skdp.geometry import programs as _programs

    used, real = [], linprog

    def failing(*args, method, **kwargs):
        used.append(method)
        found = real(*args, method=method, **kwargs)
        found.status = 4 if method != works else 0
        return found

    monkeypatch.setattr(_programs, "linprog", failing)
    ball, works = Hull(Corners(np.eye(3))), "highs-ipm"
    assert ball.gauge([1.0, 1.0, -1.0]) == pytest.approx(3.0, rel=1e-7)
    assert used == ["highs", "highs-ds", "highs-ipm"]
    works = None
    with pytest.raises(ValueError, match=r"the gauge must be found .* Rescale"):
        ball.gauge([1.0, 1.0, -1.0])


BAD_POINTS = {
    "a plane": (
        [[1.0, 2.0, 0.0], [2.0, 4.0, 1.0]],
        r"v\[0\] -0.5 \* v\[1\] = 0.*Drop coordinate 1",
    ),
    "a zero column": ([[1.0, 0.0], [2.0, 0.0]], r"1 \* v\[1\] = 0.*Drop coordinate 1"),
    "nan": ([[1.0, math.nan]], "points must be finite"),
    "infinite": ([[1.0, math.inf]], "points must be finite"),
    "one axis": ([1.0, 2.0], r"points must have shape \(n, dim\), got \(2,\)"),
    "none": (np.zeros((0, 2)), "points must have shape"),
    "words": ([["a", "b"]], "points must be a number or an array of numbers"),
    "ragged": ([[1.0], [1.0, 2.0]], "points must be a number or an array of numbers"),
}
SQUARE = [[1, 0], [0, 1], [-1, 0], [0, -1]]
BAD_HALFSPACES = {
    "one side only": ([[1, 0], [0, 1]], [1, 1], "symmetric, but it has"),
    "unequal sides": (SQUARE, [1, 1, 2, 1], r"symmetric, but it has \[-2"),
    "a strip": ([[1, 0], [-1, 0]], [1, 1], r"infinitely far along \[0., 1.\]"),
    "flat": (SQUARE, [1, 1, 1, 0], r"v\[1\] = 0 on all of it"),
    "0 outside": (SQUARE, [1, 1, 1, -1], "b must be > 0"),
    "no point": ([*SQUARE, [0, 0]], [1, 1, 1, 1, -1], "allow some point"),
    "only zeros": ([[0, 0]], [1], "row that is not zero"),
    "b too short": (SQUARE, [1, 1], "b must be 4 finite numbers"),
    "b infinite": (SQUARE, [1, 1, 1, math.inf], "b must be 4 finite numbers"),
}


@pytest.mark.parametrize("name", [*BAD_POINTS, *BAD_HALFSPACES])
def test_what_makes_no_ball(name):
    *given, message = BAD_POINTS.get(name) or BAD_HALFSPACES[name]
    with pytest.raises(ValueError, match=message):
        (Hull.from_points if len(given) == 1 else Hull.from_halfspaces)(*given)


def test_half_spaces_that_only_together_are_symmetric():
    """A redundant row needs no partner."""
    ball = Hull.from_halfspaces([*SQUARE, [1, 1], [0, 0]], [1, 1, 1, 1, 5, 3])
    assert ball.gauge([1.0, 1.0]) == 1


def test_other_wrong_arguments():
    ball = BALLS["a polygon"]
    with pytest.raises(ValueError, match="1 to 65536 differences, got 0"):
        Hull.difference_of([[1.0, 2.0]])
    with pytest.raises(ValueError, match="2 numbers on its last axis"):
        ball.gauge([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="directions must be nonzero"):
        polytope_around(ball.support, 2, [[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="directions must have shape"):
        polytope_around(ball.support, 2, [[1.0, 0.0, 0.0]])


def test_a_hull_that_floats_cannot_compute_is_a_program(monkeypatch):
    """Where the hull's computation gives up, gauge, support and draws do without."""

    def give_up(points):
        raise ValueError

    monkeypatch.setattr(polytope_module, "_hull", give_up)
    points, v = random_points(6, 3), random_points(5, 3, 1)
    ball = Hull.from_points(points)
    assert isinstance(ball.body, Corners)
    again = Hull.from_halfspaces(*both_sides(points))
    assert isinstance(again.body, Facets)
    assert again.exact
    np.testing.assert_allclose(again.support(v), ball.gauge(v), rtol=1e-9)
    assert not SymmetricPolytope(points, points).is_triangulated
