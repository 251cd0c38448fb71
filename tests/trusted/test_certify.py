"""The checker accepts the noise of every mechanism, and refuses it with 2 % less.

Mechanisms calibrate noise by their own rules. Here `certify` evaluates the theorems from the noise
and the body of changes alone.
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from examples.benchmarks.upkeep.certified import weaker
from skdp import Domain, DPCoordinateDescentClassifier, geometry
from skdp.geometry import Hull, LpBall, MappedBall, ProductBall, ShearedBall, SquaresBall, SumBall
from skdp.geometry.moments import MomentLayout
from skdp.mechanisms import (
    GaussianNoise,
    MatrixLaplace,
    MatrixLaplaceNoise,
    Sensitivity,
    calibrate,
    calibrate_releases,
)
from skdp.mechanisms.independent import certified_at_first
from skdp.noise.independent import Releases
from skdp.noise.matrix import RowsWithin
from skdp.privacy import Guarantee
from skdp.trusted.ball import gauge_error, greatest_gauge, greatest_square
from skdp.trusted.certify import NoisySum, PrivateChoice, certify
from skdp.trusted.losses import GaussianLoss, PairLoss, ProfileLoss
from skdp.trusted.statement import NotPrivate, Public, Spent

BALLS = [
    LpBall(1),
    LpBall(3, p=1),
    LpBall(3, p=2),
    LpBall(4, p=math.inf),
    LpBall(2, p=math.inf, weights=(1.0, 0.1)),
    SquaresBall(2),
    SquaresBall(2, counted=True),
    Hull.from_points([[1, 0], [0.5, 0.5], [0, 1.0]]),
    ProductBall((LpBall(2), LpBall(2, p=1))),
    SumBall((LpBall(2), LpBall(2, p=1)), (0.3, 0.7)),
    MappedBall(LpBall(2), [[2.0, 1.0], [0.0, 1.0]]),
    geometry.MomentBall(MomentLayout(2, range(2))),
]
PURE = ("auto", "l1", "l2", "linf", "hull", "laplace", "elliptic_l2")
MIXED = (*PURE, "gaussian", "elliptic")


def released(noise, sensitivity):
    return NoisySum("sums", sensitivity, noise)


def refused(releases, public):
    with pytest.raises(NotPrivate):
        certify(releases, public)
    return True


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("ball", BALLS, ids=lambda ball: type(ball).__name__)
def test_calibrated_noise_is_accepted_and_noise_of_2_percent_less_is_refused(
    ball, neighbors, delta
):
    own = hasattr(ball, "layout")
    if own and ball.layout.neighbors != neighbors:
        pytest.skip("the moments are those of replaced records")
    sensitivity = Sensitivity(ball, 1.0 if own else 1.7, neighbors)
    public = Public(0.8, delta, neighbors)
    for mechanism in (*(MIXED if delta else PURE), *[MatrixLaplace()] * own):
        noise = calibrate(mechanism, sensitivity, epsilon=0.8, delta=delta)
        spent = certify([released(noise, sensitivity)], public)
        assert spent.epsilon <= 0.8 or delta
        assert refused([released(weaker(noise), sensitivity)], public)


def test_a_relation_other_than_the_stated_one_is_refused():
    sensitivity = Sensitivity(LpBall(2), neighbors="add_remove")
    noise = calibrate("l2", sensitivity, epsilon=1.0)
    assert refused([NoisySum("sums", sensitivity, noise)], Public(1.0, neighbors="replace_one"))


def test_noise_of_an_unknown_class_is_refused():
    assert refused([NoisySum("sums", Sensitivity(LpBall(2)), object())], Public(1.0))


def test_epsilons_add_up_exactly():
    """Three thirds of a budget, rounded up, are more than the budget."""
    third = calibrate("l1", Sensitivity(LpBall(2, p=1)), epsilon=1 / 3)
    parts = [NoisySum(name, Sensitivity(LpBall(2, p=1)), third) for name in "abc"]
    certify(parts, Public(1.0))
    assert refused([*parts, PrivateChoice("choice", 1e-9)], Public(1.0))


def test_pure_noise_before_gaussian_noise_is_taken_off_epsilon_or_composed():
    first = calibrate("l1", Sensitivity(LpBall(1)), epsilon=0.3)
    second = calibrate("gaussian", Sensitivity(LpBall(3)), epsilon=0.7, delta=1e-6)
    releases = [
        NoisySum("first", Sensitivity(LpBall(1)), first),
        NoisySum("second", Sensitivity(LpBall(3)), second),
    ]
    certify(releases, Public(1.0, 1e-6))
    assert refused(releases, Public(0.9, 1e-6))
    assert refused(releases, Public(1.0))


def test_repeated_noise_and_choices():
    shifts = [(1.0, 20), (0.5, 3)]
    facts = {"neighbors": "replace_one", "epsilon": 1.0, "delta": 1e-6, "choices": (0.01, 20)}
    for mechanism in ("laplace", "gaussian", "flipped_huber"):
        noise = calibrate_releases(mechanism, shifts, **facts)

        def parts(noise):
            steps = NoisySum("steps", Releases(noise.shifts, "replace_one"), noise)
            return [steps, PrivateChoice("choices", 0.01, times=20)]

        certify(parts(noise), Public(1.0, 1e-6))
        assert refused(parts(weaker(noise)), Public(1.0, 1e-6))


def test_scaled_rows_with_matrix_noise():
    """The moments of rows of length at most 1 change by a matrix of trace norm at most 2."""
    layout = MomentLayout(3, range(3), neighbors="add_remove", shifted=False)
    equal = MatrixLaplaceNoise(layout, np.ones(layout.n_rows), Guarantee(1.0))
    rows = RowsWithin(layout, 1.0, "add_remove")
    certify([NoisySum("moments", rows, equal)], Public(1.000001, neighbors="add_remove"))
    assert refused([NoisySum("moments", rows, equal)], Public(0.98, neighbors="add_remove"))


def test_a_replacement_in_two_steps_needs_half_of_epsilon_for_each():
    sensitivity = Sensitivity(LpBall(2, p=1), neighbors="add_remove")
    noise = calibrate("l1", sensitivity, epsilon=0.5)
    release = [NoisySum("sums", sensitivity, noise)]
    certify(release, Public(1.0, in_two_steps=True))
    assert refused(release, Public(0.98, in_two_steps=True))
    gaussian = calibrate(
        "gaussian", sensitivity, epsilon=0.5, delta=1e-6 / (1 + math.exp(0.5)) * (1 - 1e-9)
    )
    release = [NoisySum("sums", sensitivity, gaussian)]
    certify(release, Public(1.0, 1e-6, in_two_steps=True))
    assert refused(release, Public(1.0, 1e-6 / 1.1, in_two_steps=True))


class Unknown:
    """A release of which nothing is known, or something that is no number."""

    name = theorem = description = "unknown"

    def __init__(self, *spent):
        self.known = Spent(*spent)

    def spent(self, public):
        return self.known


@pytest.mark.parametrize("spent", [(math.inf,), (math.nan,), (-1.0,)], ids=repr)
def test_a_release_of_which_nothing_is_known_is_refused_beside_others(spent):
    change = Sensitivity(LpBall(3))
    noise = calibrate("gaussian", change, epsilon=0.5, delta=1e-6)
    assert refused([Unknown(*spent), NoisySum("sums", change, noise)], Public(1.0, 1e-6))
    assert refused([Unknown(*spent)], Public(1.0))


def test_the_weights_of_a_mapped_ball_count():
    change, ball = Sensitivity(LpBall(2)), LpBall(2, weights=(10.0, 10.0))
    noise = calibrate("l2", change, epsilon=1.0)
    weighted = replace(noise, ball=MappedBall(ball, np.eye(2)), scale=1.0)
    assert refused([NoisySum("sums", change, weighted)], Public(5.0))


def test_a_stated_guarantee_has_the_relation_and_holds():
    class Stated:
        def __init__(self, **facts):
            self.guarantee = Guarantee(0.5, **facts)

    change = Sensitivity(LpBall(2))
    certify([NoisySum("sums", change, Stated())], Public(0.5))
    for facts in ({"neighbors": "add_remove"}, {"void_because": ("a seed",)}):
        assert refused([NoisySum("sums", change, Stated(**facts))], Public(0.5))


def test_noise_for_other_numbers_is_refused():
    """Of another dimension, or for the moments of another layout with as many rows."""
    noise = calibrate("gaussian", Sensitivity(LpBall(2)), epsilon=1.0, delta=1e-6)
    assert refused([NoisySum("sums", Sensitivity(LpBall(3)), noise)], Public(1.0, 1e-6))
    one, other = (
        geometry.MomentBall(MomentLayout(2, range(2), shifted=s), level=0) for s in (True, False)
    )
    matrix = calibrate(MatrixLaplace(), Sensitivity(one), epsilon=1.0)
    certify([NoisySum("moments", Sensitivity(one), matrix)], Public(1.0))
    assert refused([NoisySum("moments", Sensitivity(other), matrix)], Public(1.0))


@pytest.mark.parametrize("wrong", [{"neighbors": "other"}, {"delta": 1.0}, {"unit": "household"}])
def test_public_facts_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Public(1.0, **wrong)
    with pytest.raises(ValueError, match="times"):
        PrivateChoice("choice", 1.0, times=0)


class TestGauges:
    """The greatest gauge of a body in a ball of parts, against points of the body."""

    BODIES = (
        SquaresBall(3),
        SquaresBall(3, counted=True),
        ProductBall((SquaresBall(2), LpBall(3, p=1), LpBall(2))),
    )

    @pytest.mark.parametrize("body", BODIES, ids=repr)
    def test_no_point_of_the_body_is_beyond(self, body):
        rng = np.random.default_rng(0)
        points = body.sample(4000, rng)
        points /= body.gauge(points)[:, None]
        for ball in self.balls_of(body):
            bound = Sensitivity(body, 2.0).radius_in(ball)
            reached = 2.0 * float(ball.gauge(points).max())
            assert 0.4 * bound < reached <= bound * (1 + 1e-12)

    @staticmethod
    def balls_of(body):
        yield LpBall(body.dim, p=math.inf)
        yield body
        if type(body) is SquaresBall:
            k, first = body.n_numbers, body.counted
            last = (*range(first), first + k - 1, first + 2 * k - 1)
            rest = tuple(j for j in range(body.dim) if j not in last)
            inner = LpBall(len(rest), p=math.inf) if first else SquaresBall(k - 1)
            yield SumBall((SquaresBall(1, body.counted), inner), (0.4, 0.6), (last, rest))
        else:
            index = ((*range(4), 7, 8), (4, 5, 6))
            parts = ProductBall((SquaresBall(2), LpBall(2))), LpBall(3, p=1)
            yield SumBall(parts, (0.5, 0.5), index)


def test_a_norm_over_a_product_of_bodies_is_that_of_their_norms():
    """Six l1 balls of eight coordinates have 16^6 corners; the greatest norms are known."""
    over = ProductBall((LpBall(8, p=1),) * 6)
    corner = np.tile(np.eye(8)[0], 6)
    for p in (1.0, 1.5, 2.0, 3.0, math.inf):
        ball = LpBall(48, p=p)
        found = Sensitivity(over).radius_in(ball)
        exact = float(ball.gauge(corner))
        assert exact <= found <= exact * (1 + 1e-11)


def test_a_descent_on_many_columns_of_levels_is_certified():
    """Its scaling stage has counts of all levels, with l1 noise over the columns together."""
    columns = {f"x{i}": (0, 1) for i in range(9)} | {f"l{i}": [*"abcdefgh"] for i in range(6)}
    domain = Domain(columns, target=[0, 1])
    X, y = domain.sample(20_000, random_state=0, with_target=True)
    model = DPCoordinateDescentClassifier(domain=domain).fit(X, y)
    assert model.releases_[0].name == "scaling"


def test_claimed_losses_add_up_as_decimals():
    """Three tenths of delta and of epsilon are the whole, and a little less is not enough."""
    parts = [Unknown(math.inf, ((PairLoss(0.1, 1e-7), 1),))] * 3
    assert certify(parts, Public(0.3, 3e-7), "claims").delta == 3e-7
    for epsilon, delta in ((0.3, 2.99e-7), (0.29, 3e-7)):
        refused(parts, Public(epsilon, delta))


def test_the_first_factor_that_the_checker_accepts_is_taken():
    seen = []

    def needing(least):
        def make(factor):
            seen.append(factor)
            if factor < least:
                raise NotPrivate("too little noise")
            return factor

        return make

    assert certified_at_first(needing(1.0)) == 1.0
    assert certified_at_first(needing(1 + 5e-6)) == 1 + 1e-5
    with pytest.raises(NotPrivate):
        certified_at_first(needing(1.1))
    assert seen[1:4] == [1.0, 1 + 1e-6, 1 + 1e-5]


def test_a_sum_that_is_published_several_times_counts_as_often():
    change = Sensitivity(LpBall(3))
    for mechanism, delta in (("l2", 0.0), ("gaussian", 1e-6)):
        noise = calibrate(mechanism, change, epsilon=0.3, delta=delta)
        thrice = NoisySum("sums", change, noise, times=3)
        apart = [replace(thrice, times=1)] * 3
        assert thrice.spent(Public(1.0)).losses[0][1] == 3
        for epsilon in (0.31, 0.899):
            accepted = [is_accepted(own, Public(epsilon, delta)) for own in ([thrice], apart)]
            assert accepted[0] == accepted[1]
        assert refused([thrice], Public(0.31, delta))


def is_accepted(releases, public):
    try:
        certify(releases, public)
    except NotPrivate:
        return False
    return True


def test_the_checker_names_foreign_parts_itself():
    class Stated:
        guarantee = Guarantee(0.5)

    own = NoisySum("sums", Sensitivity(LpBall(2)), Stated())
    (sentence,) = certify([own], Public(0.5)).assumptions
    assert "Stated" in sentence


def test_a_loss_that_is_no_number_is_refused():
    class Nothing:
        symmetric = True

        def log_delta(self, epsilon):
            return np.full(np.shape(epsilon), np.nan)

        def reversed(self):
            return self

    one = Unknown(math.inf, ((Nothing(), 1),))
    assert refused([one], Public(1.0, 0.5))


def test_members_of_a_class_with_another_gauge_are_not_used():
    """A subclass from outside has corners and squares of its own, or none."""

    class Wider(LpBall):
        def gauge(self, v):
            return super().gauge(v) / 2

        def bounding_box(self):
            return 2 * super().bounding_box()

    wide = Wider(2, p=1)
    assert greatest_square(wide, np.ones(2)) >= 4
    assert greatest_gauge(LpBall(2), ProductBall((wide,))) >= 2
    assert greatest_square(LpBall(2, p=1), np.ones(2)) < 1.1


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 4.0, 10.0, math.inf])
@pytest.mark.parametrize("facts", [{}, {"radius": 3.0}, {"weights": (1.0, 0.5, 4.0)}], ids=str)
def test_the_greatest_square_of_an_lp_ball_is_reached(p, facts):
    """Against a search over its sphere (docs/proofs/gaussian.md, Theorem 4 (1))."""
    rng, weights, ball = np.random.default_rng(0), np.array([1.0, 0.5, 0.2]), LpBall(3, p, **facts)
    points = np.abs(rng.standard_normal((200_000, 3))) ** rng.uniform(0.2, 3.0, (200_000, 1))
    points = np.concatenate([points, np.eye(3), np.ones((1, 3))]) * ball.bounding_box()
    points /= ball.gauge(points)[:, None]
    found, bound = float((points**2 @ weights).max()), greatest_square(ball, weights)
    assert found <= bound <= found * 1.001


@pytest.mark.parametrize("p", [1.0, math.inf])
def test_corners_of_weighted_balls_lie_on_their_spheres(p):
    ball = LpBall(3, p=p, radius=2.0, weights=(1.0, 0.5, 4.0))
    assert ball.gauge(ball.extreme_points()) == pytest.approx(1)


def test_what_is_not_known_is_refused_at_every_delta():
    known = NoisySum(
        "sums", Sensitivity(LpBall(1)), calibrate("l2", Sensitivity(LpBall(1)), epsilon=2)
    )
    assert refused([PrivateChoice("choice", 1.0), Unknown(0.5)], Public(1.0, 0.999))
    assert refused([known, Unknown(0.5)], Public(2.0, 0.999))


def test_both_orders_of_a_profile_count():
    """Also if they are two functions, in either place, alone and beside others."""

    def small(epsilon):
        return GaussianLoss(0.1).log_delta(epsilon)

    def great(epsilon):
        return GaussianLoss(3.0).log_delta(epsilon)

    other = Unknown(math.inf, ((GaussianLoss(0.1), 1),))
    for functions in ((small, great), (great, small)):
        one = Unknown(math.inf, ((ProfileLoss(*functions), 1),))
        assert refused([one], Public(1.0, 1e-3))
        assert refused([one, other], Public(1.0, 1e-3))
    certify([Unknown(math.inf, ((ProfileLoss(small), 1),)), other], Public(1.0, 1e-3))


def test_gaussian_noise_without_an_inverse_is_refused():
    """Of three rows one is a sum of the others; the factor is inverted to rounding errors."""
    factor = np.array([[35.0, -51, 23], [-56, 75, -17], [63, -66, -36]]) * 2.0**60
    assert refused(
        [NoisySum("x", Sensitivity(LpBall(3)), GaussianNoise(3, factor))], Public(0.1, 1e-9)
    )


def test_the_gauge_of_a_map_counts_its_rounding():
    """A map of condition 1e9 and a ball of widths 1e3 and 1e-8: eight digits are not enough."""
    a = 42 / 401
    matrix = np.array([[0.9, a], [0.7, a * 7 / 9 + 2.0**-30]])
    point = matrix @ [1, 1e-8]
    ball = MappedBall(LpBall(2, 1, weights=(1e-3, 1e8)), matrix)
    corners = [[point[0], -point[1]], [point[1], point[0]]]
    body = MappedBall(LpBall(2, 1, weights=(1, 1e40)), corners)
    assert greatest_gauge(ball, body) > 8
    inner = MappedBall(LpBall(2, 1), matrix)
    assert gauge_error(MappedBall(inner, matrix)) > gauge_error(inner) > 1e-7


def test_maps_of_bodies_without_a_box_are_certified():
    ball = ShearedBall(MappedBall(SquaresBall(1), [[1.0, 0.5], [0, 1.0]]), [0, 0.3])
    noise = GaussianNoise(2, [[20.0, 1], [0, 20.0]])
    certify([NoisySum("x", Sensitivity(ball), noise)], Public(1.0, 1e-3))


def test_a_closer_bound_than_the_length_is_taken():
    rng = np.random.default_rng(0)
    ball = MappedBall(LpBall(4), np.eye(4) + 0.3 * rng.standard_normal((4, 4)))
    body = LpBall(4, p=1)
    assert greatest_gauge(ball, body) == pytest.approx(ball.gauge(body.extreme_points()).max())


@pytest.mark.parametrize("kind", ["change", "release", "layout"])
def test_every_foreign_part_is_named(kind):
    class Narrow(Sensitivity):
        def radius_in(self, ball):
            return 0.001

    class Quiet(NamedTuple):
        name: str = "quiet"
        theorem: str = ""
        description: str = "quiet"

        def spent(self, public):
            return Spent(0.0)

    class Layout(MomentLayout):
        def row_square(self, weights):
            return 0.001

    noise = calibrate("l2", Sensitivity(LpBall(2)), epsilon=1.0)
    layout = Layout(2, range(2))
    rows, matrix = RowsWithin(layout, 1.0, "replace_one"), MatrixLaplaceNoise(layout, np.ones(3))
    parts = {
        "change": NoisySum("x", Narrow(LpBall(2, p=1)), noise),
        "release": Quiet(),
        "layout": NoisySum("x", rows, matrix),
    }
    (sentence,) = certify([parts[kind]], Public(10.0)).assumptions
    assert {"change": "Narrow", "release": "Quiet", "layout": "Layout"}[kind] in sentence


def test_only_noise_of_planned_releases_spends_for_all():
    class Planned(Sensitivity):
        shifts = ()

    noise = calibrate("l2", Sensitivity(LpBall(2)), epsilon=1.0)
    assert refused([NoisySum("x", Planned(LpBall(2)), noise, times=50)], Public(2.0))


def test_a_profile_that_is_no_number_in_one_order_is_refused():
    def known(epsilon):
        return np.full(np.shape(epsilon), -50.0)

    def unknown(epsilon):
        return np.full(np.shape(epsilon), np.nan)

    for functions in ((known, unknown), (unknown, known)):
        one = Unknown(math.inf, ((ProfileLoss(*functions), 1),))
        assert refused([one], Public(1.0, 1e-6))


def test_the_gauge_of_a_sheared_ball_counts_its_rounding():
    """A product whose rounding counts 1e8 times: the gauge in floats is too small."""
    ball = ShearedBall(LpBall(2, 1, weights=(1.0, 1e8)), [0.0, 1e5 / 3])
    point = np.array([0.7, 0.7 * (1e5 / 3)])
    rest = Fraction(point[1]) - Fraction(0.7) * Fraction(1e5 / 3)
    exact = 0.7 + 1e8 * abs(float(rest))
    assert ball.gauge(point) < exact / (1 + 1e-6)
    corners = [[point[0], 0.0], [point[1], 1.0]]  # the point, and a short vector
    body = MappedBall(LpBall(2, 1, weights=(1.0, 1e20)), corners)
    assert exact <= greatest_gauge(ball, body) < exact * 1.01
    assert gauge_error(ShearedBall(LpBall(2), [0.0, 1.0])) < 1e-14
