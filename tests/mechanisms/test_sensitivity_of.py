"""Sensitivities of a user's own statistic: they hold every difference, and little more."""

import math
from fractions import Fraction
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize

from skdp.domain import Domain
from skdp.geometry import EncodedRowsBall, LpBall
from skdp.geometry.hull import Hull, PolytopeHull
from skdp.mechanisms import Sensitivity, calibrate
from skdp.mechanisms.statistics import NotPolynomial, Polynomial, Quadratic, quadratic_of
from skdp.trusted.ball import sign_patterns

MIXED = Domain({"a": (0.0, 1.0), "b": ["x", "y", "z"], "c": (-5.0, 7.0)}, target=(0.0, 3.0))
LABELLED = Domain({"a": (0.0, 1.0)}, target=["no", "yes"])


def moments(x):
    return np.concatenate([x, np.outer(x, x)[np.triu_indices(len(x))]])


# name: function, domain, is the ball's every facet touched (the hull as far as facets tell)?
STATISTICS = {
    "a number and its square": (lambda x: np.append(x, 2 * x**2), Domain.unit_box(1), True),
    "moments of two": (moments, Domain.unit_box(2), True),
    "affine": (lambda x: [3 * x[0] - x[1] + 1, x[1] - x[2] / 2], Domain.unit_box(3), True),
    "a sum squared": (lambda x: (x.sum() + 1) ** 2, Domain.unit_box(4), True),
    "products of three": (
        lambda x: [x[0] * x[1] - x[2], x[1] * x[2] + x[0] ** 2, x @ x],
        Domain.unit_box(3),
        True,
    ),
    "levels and a target": (
        lambda x, y: [x[0] * y, x[1] * y + x[2] * x[3], x[1] - x[2], y],
        MIXED,
        True,
    ),
    "labels by comparison": (
        lambda x, y: [x[0], x[0] ** 2] if y == "yes" else [-x[0], 0.5],
        LABELLED,
        True,
    ),
    "a ball of rows": (lambda x: [x[0] * x[1] + x[2], x @ x], Domain.l2_ball(3, 2.0), True),
    "affine in a ball": (lambda x: 2 * x + 1, Domain.l2_ball(2, 0.5), True),
}


def records(domain):
    """Every choice of levels and label: what is fixed, and where the numbers go."""
    labels = domain.target_labels or (None,)
    for *levels, label in product(*(range(m + 1) for m in domain.block_sizes), labels):
        x = np.zeros(domain.n_encoded)
        for block, level in zip(domain.blocks, levels, strict=True):
            if level:
                x[block.start + level - 1] = 1.0
        yield x, label


def greatest(function, domain, w, rng):
    """The greatest <w, f> over records that a search finds: uphill from corners and draws."""
    n = domain.n_numbers + (domain.target_bounds is not None)
    starts = np.vstack([sign_patterns(n) * 0.999, rng.uniform(-1, 1, (6, n)), np.zeros((1, n))])
    best = -math.inf
    for fixed, label in records(domain):

        def value(z, fixed=fixed, label=label):
            if domain.is_ball:
                z = z * domain.radius / max(np.linalg.norm(z), 1.0)
            x = fixed.copy()
            x[domain.number_index] = z[: domain.n_numbers]
            y = () if domain.target is None else (z[-1] if label is None else label,)
            return -float(np.ravel(np.asarray(function(x, *y), dtype=float)) @ w)

        for start in sorted(starts, key=value)[:4]:
            found = minimize(value, start, method="L-BFGS-B", bounds=[(-1, 1)] * n)
            best = max(best, -value(start), -value(np.clip(found.x, -1, 1)))
    return best


@pytest.mark.rest_is_slow(6)
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", STATISTICS)
def test_no_difference_is_out_of_reach(name, neighbors):
    """Along every facet of the ball; a search uphill reaches 1 there and never more."""
    function, domain, touched = STATISTICS[name]
    sensitivity = Sensitivity.of(function, domain, neighbors=neighbors)
    assert (sensitivity.radius, sensitivity.neighbors) == (1.0, neighbors)
    assert sensitivity.ball.exact
    rng = np.random.default_rng(0)
    facets = sensitivity.ball.facets()
    reached = []
    for n in facets[rng.permutation(len(facets))[:5]]:
        ends = [greatest(function, domain, s * n, rng) for s in (1, -1)]
        reached.append(sum(ends) if neighbors == "replace_one" else max(ends))
    assert max(reached) <= 1
    if touched:
        assert min(reached) > 1 - 2e-3


def test_a_ball_that_forgets_the_products_is_caught():
    """The twin: squares and products taken for 0, or one sign of them for both."""
    function, domain, _ = STATISTICS["moments of two"]
    rng, axes = np.random.default_rng(0), np.eye(5)
    box = Sensitivity.of(function, domain).ball.bounding_box()
    np.testing.assert_allclose(box, [2, 2, 1, 2, 1], rtol=1e-6)
    for wrong in ([2, 2, 1, 1, 1], [2, 2, 0.99, 2, 1]):
        reach = [greatest(function, domain, s * w, rng) for w in axes for s in (1, -1)]
        assert (np.reshape(reach, (5, 2)).sum(axis=1) > wrong).any()


def test_example_2_10_has_the_hull_of_the_paper():
    """{|u1| <= 2, |u2| <= 2 if |u1| <= 1, else 2 - 2 (|u1| - 1)^2}: inside, and 0.2 % less."""
    ball = Sensitivity.of(lambda x: [x[0], 2 * x[0] ** 2], Domain.unit_box(1)).ball
    u1 = np.linspace(-2, 2, 401)
    u2 = np.where(np.abs(u1) <= 1, 2.0, 2 - 2 * (np.abs(u1) - 1) ** 2)
    gauges = ball.gauge(np.column_stack([u1, u2]))
    assert gauges.max() <= 1
    assert gauges.min() > 0.995
    assert 40 / 3 < math.exp(ball.log_volume()) < 40 / 3 * 1.002
    # With more directions it is closer; the differences themselves are as they are.
    fine = Sensitivity.of(lambda x: [x[0], 2 * x[0] ** 2], Domain.unit_box(1), directions=400).ball
    assert 40 / 3 < math.exp(fine.log_volume()) < 40 / 3 * 1.0001
    assert fine.gauge(np.column_stack([u1, u2])).max() <= 1
    x = np.random.default_rng(0).uniform(-1, 1, (2, 1000))
    assert ball.gauge(np.column_stack([x[0] - x[1], 2 * x[0] ** 2 - 2 * x[1] ** 2])).max() <= 1


def test_an_affine_statistic_has_its_exact_hull():
    """From all corners: of the rows of a domain with an intercept, twice the known ball."""
    domain = Domain({"a": (0.0, 1.0), "b": ["x", "y", "z"]})
    known = EncodedRowsBall(1, (2,))
    v = np.random.default_rng(0).normal(size=(40, 4))
    ball = Sensitivity.of(lambda x: np.append(1.0, x), domain, neighbors="add_remove").ball
    np.testing.assert_allclose(ball.gauge(v), known.gauge(v), rtol=1e-10)
    differences = Sensitivity.of(lambda x: x, domain).ball
    points = [[a, *b] for a in (-1, 1) for b in ([0, 0], [1, 0], [0, 1])]
    np.testing.assert_allclose(
        differences.gauge(v[:, :3]), Hull.difference_of(points).gauge(v[:, :3]), rtol=1e-10
    )


def test_many_coordinates_have_a_box():
    """The exact box of the moments of three numbers, sampled in closed form."""
    ball = Sensitivity.of(moments, Domain.unit_box(3)).ball
    assert isinstance(ball, LpBall)
    truth = [2, 2, 2, 1, 2, 2, 1, 2, 1]
    assert (ball.bounding_box() >= truth).all()
    np.testing.assert_allclose(ball.bounding_box(), truth, rtol=1e-6)
    small = Domain.unit_box(2)
    few, many = (Sensitivity.of(moments, small, directions=k).ball for k in (None, 60))
    volume, rejected = few.log_volume(), Hull(few.body)
    assert many.exact
    logs = [np.log(2 * b.bounding_box()).sum() + math.log(b.acceptance()) for b in (rejected, many)]
    assert logs[1] < volume - 0.05
    assert volume == pytest.approx(logs[0], abs=0.1)


def test_the_noise_is_calibrated_on_it():
    sensitivity = Sensitivity.of(lambda x: x, Domain.unit_box(2), neighbors="add_remove")
    noise = calibrate("hull", sensitivity, epsilon=2.0)
    assert noise.scale == pytest.approx(0.5)
    assert noise.guarantee.neighbors == "add_remove"
    assert noise.rvs(np.random.default_rng(0)).shape == (2,)


def test_bounds_of_random_quadratics_hold_and_are_near():
    """Over a fine grid of two numbers, and over the ball, for indefinite forms as well."""
    rng = np.random.default_rng(3)
    axis = np.linspace(-1, 1, 161)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    angle = np.linspace(0, 2 * np.pi, 300)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    disc = 1.5 * (np.linspace(0, 1, 60)[:, None, None] * circle).reshape(-1, 2)
    for points, domain in ((grid, Domain.unit_box(2)), (disc, Domain.l2_ball(2, 1.5))):
        for _ in range(8):
            a, b, c = rng.normal(size=3)
            A = rng.normal(size=(2, 2))
            maps = quadratic_of(lambda x, A=A, a=a, b=b, c=c: x @ A @ x + a * x[0] + b * x[1] + c, domain)  # fmt: skip  # noqa: E501
            values = ((points @ A) * points).sum(axis=1) + points @ [a, b] + c
            for sign in (1.0, -1.0):
                bound = maps.bound(np.array([sign]))
                assert (sign * values).max() <= bound
                assert bound - (sign * values).max() < 0.02 * (1 + abs(bound))


def test_polynomials_compute_like_numbers():
    """Values at rational points, in rationals: not one bit is lost."""
    x, y = Polynomial.variable(0, 1.0), Polynomial.variable(1, 1.0)
    at = {0: Fraction(1, 3), 1: Fraction(-2, 7)}
    f = lambda a, b: (a - 2 * b + 0.1) * (3 - a) / 4 - (-b) ** 2 + (+a) ** 1 - b**0  # noqa: E731
    value = sum(c * math.prod(at[i] for i in t) for t, c in f(x, y).terms.items())
    a, b = at.values()
    assert value == (a - 2 * b + Fraction(0.1)) * (3 - a) / 4 - b**2 + a - 1
    assert ((x + y) ** 2 - x * x - y * y - 2 * x * y).terms == {}
    assert (np.int64(2**62) * x * 4 + np.float32(0.5)).terms == {(0,): 2**64, (): Fraction(1, 2)}
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert [p.terms for p in matrix @ np.array([x, y])] == [{(0,): 1, (1,): 2}, {(0,): 3, (1,): 4}]


def test_rounding_of_the_statistic_itself_is_paid_for():
    """1e8 + x - 1e8 loses eight digits; the ball leaves room for what the computer computes."""

    def function(x):
        return (1e8 + x[0] / 3) * 1.0 - 1e8

    ball = Sensitivity.of(function, Domain.unit_box(1)).ball
    x = np.random.default_rng(0).uniform(-1, 1, 2000)
    computed = np.array([function([t]) for t in x])
    assert np.abs(computed - x / 3).max() > 5e-9
    assert ball.gauge(np.array([[np.ptp(computed)]])).max() <= 1
    assert 2 / 3 + 1e-8 < ball.bounding_box()[0] < 2 / 3 + 1e-6


def test_room_is_left_for_a_rounding_of_every_term():
    """Of 30 numbers a quadratic has 931 terms: no fewer roundings, each of the whole size."""
    p = 30
    ones = Quadratic(np.ones((1, 1)), np.ones((1, 1, p)), np.ones((1, 1, p, p)), np.zeros(1), None)
    terms = 1 + p + p**2
    assert ones.own_rounding[0] >= terms * 2.0**-53 * terms
    assert ones.own_rounding[0] < 3 * terms * 2.0**-53 * terms


BAD = {
    "an exponential": (lambda x: np.exp(x), "TypeError.*exp method.*from_points"),
    "a cube": (lambda x: x**3, "degree at most two.*not a power 3.*from_points"),
    "a cube by products": (lambda x: x[0] * x[1] * x[0], "not a product of degree above two"),
    "a root": (lambda x: np.sqrt(x), "sums and products"),
    "a norm": (lambda x: np.linalg.norm(x), "sums and products"),
    "a maximum": (lambda x: np.maximum(x, 0), "not a comparison"),
    "a clip": (lambda x: np.clip(x, -0.5, 0.5), "not a comparison"),
    "a branch": (lambda x: x if x[0] > 0 else -x, "not a comparison"),
    "an equality": (lambda x: [1.0 * (x[0] == 0)], "not a comparison"),
    "a truth value": (lambda x: x if x[0] else -x, "not a comparison"),
    "a size": (lambda x: abs(x[0]), "not a comparison"),
    "a rounding": (lambda x: round(x[0], 1), "not a comparison"),
    "a float": (lambda x: [float(x[0])], "not a comparison"),
    "a cast": (lambda x: np.asarray(x, dtype=float), "not a comparison"),
    "an index": (lambda x: np.eye(2)[x[0]], "sums and products"),
    "a remainder": (lambda x: x % 1, "not a comparison"),
    "a sort": (lambda x: np.sort(x), "not a comparison"),
    "a quotient": (lambda x: x[0] / x[1], "not a division"),
    "a reciprocal": (lambda x: 1 / x[0], "not a division"),
    "a division by zero": (lambda x: x[0] / 0, "not a division"),
    "an infinity": (lambda x: x * math.inf, "no finite number"),
    "a word": (lambda x: "mean", "kind str"),
    "an entry too many": (lambda x: x[2], "IndexError: index 2 is out of bounds"),
    "nothing": (lambda x: [], "return as many numbers, at least one"),
    "a constant": (lambda x: [x[0], 1.0], r"v\[1\] = 0 on all of it. Drop coordinate 1"),
    "a repetition": (lambda x: [x[0], 2 * x[0] - 1], "Drop coordinate 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_refused_with_the_reason(name):
    function, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        Sensitivity.of(function, Domain.unit_box(2))


def test_wrong_domains_and_relations():
    with pytest.raises(ValueError, match="domain must be a Domain"):
        Sensitivity.of(lambda x: x, 3)
    with pytest.raises(ValueError, match="at most 4096 choices of levels, got 7776"):
        Sensitivity.of(lambda x: x, Domain({name: list("abcdef") for name in "ABCDE"}))
    with pytest.raises(ValueError, match="no target of numbers where rows are in a ball"):
        Sensitivity.of(lambda x, y: x * y, Domain.l2_ball(2, 1.0, target=(0, 1)))
    with pytest.raises(ValueError, match="as many numbers"):
        Sensitivity.of(lambda x, y: x[0] if y == "yes" else [x[0], 1], LABELLED)
    for make in (
        lambda: Sensitivity.of(lambda x: x, Domain.unit_box(2), neighbors="swap"),
        lambda: Sensitivity.from_points([[1.0]], neighbors="swap"),
        lambda: Sensitivity.from_constraints(cp.Variable(2), [], neighbors="swap"),
    ):
        with pytest.raises(ValueError, match="neighbors must be one of"):
            make()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Polynomial.variable(0, 1.0))
    with pytest.raises(NotPolynomial):
        Polynomial.of("a")


def test_a_statistic_of_finitely_many_values():
    """Replacing takes differences, adding the points and their negatives."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    replace = Sensitivity.from_points(points)
    add = Sensitivity.from_points(points, neighbors="add_remove")
    assert (replace.neighbors, add.neighbors) == ("replace_one", "add_remove")
    assert replace.ball.gauge([1.0, -1.0]) == 1.0
    assert add.ball.gauge([1.0, -1.0]) == 2.0
    assert add.ball.gauge(points).max() == 1.0
    assert isinstance(replace.ball, PolytopeHull)


def test_a_statistic_in_a_convex_set():
    """Round: no difference is out of reach, by programs; a polytope: its exact hull."""
    v = cp.Variable(2)
    constraints = [cp.norm(v, 2) <= 1, v >= 0]
    angle = np.linspace(0, np.pi / 2, 200)
    arc = np.vstack([np.zeros(2), np.column_stack([np.cos(angle), np.sin(angle)])])
    for neighbors, truth in (("replace_one", arc[:, None] - arc), ("add_remove", arc)):
        ball = Sensitivity.from_constraints(v, constraints, neighbors=neighbors).ball
        assert ball.exact
        assert ball.gauge(truth).max() <= 1
        assert ball.gauge(truth).max() > 0.9999
        reach = np.abs(truth.reshape(-1, 2) @ ball.facets().T).max(axis=0)
        assert reach.min() > 0.9999
    w = cp.Variable(3)
    simplex = Sensitivity.from_constraints(w, [w >= 0, cp.sum(w) <= 1], neighbors="add_remove")
    looks = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(
        simplex.ball.gauge(looks), LpBall(3, p=1.0).gauge(looks).clip(0), rtol=1e-9
    )
    # A flat set has differences without interior, and room enough once a record may be absent.
    shares = [w >= 0, cp.sum(w) == 1]
    with pytest.raises(ValueError, match=r"v\[0\] \+1 \* v\[1\] \+1 \* v\[2\] = 1"):
        Sensitivity.from_constraints(w, shares)
    ball = Sensitivity.from_constraints(w, shares, neighbors="add_remove").ball
    assert ball.gauge(np.eye(3)).max() <= 1


def test_radii_in_balls_with_facets_are_exact():
    """By the support of a body that has no corners; without it the box would be taken."""
    cross = Hull.from_points(np.eye(3))
    assert Sensitivity(LpBall(3)).radius_in(cross) == pytest.approx(3**0.5, rel=1e-11)
    assert Sensitivity(LpBall(3, p=3.0)).radius_in(LpBall(3, p=math.inf, weights=(1, 2, 4))) == (
        pytest.approx(4, rel=1e-11)
    )
    for over in (LpBall(3), LpBall(3, p=math.inf)):
        for ball in (cross, LpBall(3, p=math.inf)):
            u = over.sample(2000, np.random.default_rng(0))
            u = u / over.gauge(u)[:, None]
            assert ball.gauge(u).max() <= Sensitivity(over).radius_in(ball)
