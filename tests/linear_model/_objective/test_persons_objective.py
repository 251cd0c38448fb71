"""Objective perturbation for persons: densities are computed exactly and held against epsilon."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from exact_minimiser import Weighted, noise_scale
from inner_fits import Design
from inner_objective import (
    JointProfile,
    RecordLoss,
    greatest_leverage,
    lines_above,
    log_delta_of_line,
    shift_share,
)
from scipy import integrate
from scipy.special import expit, logit
from scipy.stats import norm

from examples.benchmarks.shared.report import with_share
from skdp import Domain, DPHuberRegressor, DPLogisticRegression
from skdp.linear_model.losses import CappedPoisson, LogisticLoss, PseudoHuber, SharpLogistic
from skdp.trusted import Public

LOSSES = [
    LogisticLoss(),
    SharpLogistic(0.75),
    PseudoHuber(0.3),
    PseudoHuber(2.0),
    CappedPoisson(0.25, 0.3),
]


@pytest.mark.parametrize("curvature", [-1.0, math.nan])
def test_a_bound_on_curvatures_that_is_none_is_refused(curvature):
    class Broken(LogisticLoss):
        def curvature_bound(self, low, high):
            return np.where(np.asarray(low) > 0.5, curvature, super().curvature_bound(low, high))

    with pytest.raises(ValueError, match="curvature_bound that is >= 0 and never NaN"):
        RecordLoss(Broken(), 2).curvature_bound(0.0, 1.0)
    with pytest.raises(ValueError, match="curvature_bound that is >= 0 and never NaN"):
        JointProfile(Broken(), 0.3, 0.5)(1.0)


def worst_of_two_rows(slopes, epsilon, q, ridge, far=60.0):
    """The largest log-ratio where a person with two rows is replaced, in three dimensions.

    The rows (1, 1, 1) and (1, -1, 1) with target 0 have one slope. Those of the other person,
    (1, 1, -1) and (1, -1, -1) with target 1, are as steep as can be. Saturated records (1, 0, 0)
    make the first coordinate of V the greatest. With ridges (2, 1, 2) t both eigenvalues of the
    first person's curvature are equal.
    """
    loss, ridge = LogisticLoss(), np.array([2.0, 1.0, 2.0]) * ridge
    scale = noise_scale(loss, q, epsilon, "replace_one")
    far_row, n_far = [1, 0, 0], int(4 * far * ridge.max()) + 100
    z, law = logit(slopes), {"weights": [n_far, 0.5, 0.5], "scale": scale, "ridge": ridge}
    a = np.stack([(z - far) / 2, 0 * z, (z + far) / 2], axis=1)
    one = Weighted(loss, [far_row, [1, 1, 1], [1, -1, 1]], [1, 0, 0], **law)
    other = Weighted(loss, [far_row, [1, 1, -1], [1, -1, -1]], [1, 1, 1], **law)
    return np.abs(one.log_density(a) - other.log_density(a)).max()


SLOPES = expit(np.linspace(-6, 12, 361))


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_the_bound_for_a_person_of_two_rows_is_exact(epsilon, q):
    """The loss reaches epsilon to three digits, and exceeds it with 5 % less ridge or noise.

    x' diag(1 / ridge) x = 2 / t for every row, and the rank is 2.
    """
    ridge = 2 / greatest_leverage(RecordLoss(LogisticLoss(), 2), q, epsilon, "replace_one")
    assert worst_of_two_rows(SLOPES, epsilon, q, ridge) == pytest.approx(epsilon, rel=1e-3)
    assert worst_of_two_rows(SLOPES, epsilon, q, ridge) <= epsilon
    assert worst_of_two_rows(SLOPES, epsilon, q, 0.95 * ridge) > 1.003 * epsilon
    assert worst_of_two_rows(SLOPES, epsilon / 0.95, q, ridge) > 1.01 * epsilon


@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_the_bound_for_rows_does_not_hold_for_persons_of_two_rows(epsilon):
    """The twin: with rank 1 two dimensions of curvature are not covered."""
    ridge = 2 / greatest_leverage(LogisticLoss(), 0.5, epsilon, "replace_one")
    assert worst_of_two_rows(SLOPES, epsilon, 0.5, ridge) > 1.002 * epsilon


def reached_in_one_dimension(loss, leverage, epsilon, q):
    """The greatest loss found where a person with two rows 1 is replaced, from exact densities.

    One row is saturated, the other one has any slope. Further saturated rows fix the sign of V.
    """
    ridge, c = 1 / leverage, loss.slope_bound
    law = {"scale": noise_scale(loss, q, epsilon, "replace_one"), "ridge": [ridge]}
    share, u = np.meshgrid(np.linspace(0, 1, 200), np.linspace(0, 0.999, 400))
    bend = (1 - share) * (1 - u**2) ** 1.5 * leverage
    cost = epsilon * q * (1 + share + (1 - share) * u) / 2 + np.log1p(bend)
    at = np.unravel_index(np.argmax(cost), cost.shape)
    weight, slope = share[at], u[at]
    residual = c * slope / math.sqrt(1 - slope**2)
    far = [[1.0]] * 10, [1e9] * 10, [1.0] * 10
    one = Weighted(
        loss, [*far[0], [1], [1]], [*far[1], -1e9, -residual], [*far[2], weight, 1 - weight], **law
    )
    other = Weighted(loss, [*far[0], [1]], [*far[1], 1e9], [*far[2], 1], **law)
    return abs(one.log_density(np.zeros(1)) - other.log_density(np.zeros(1)))


def test_the_envelope_is_needed_where_the_curvature_is_not_concave():
    """A person with one saturated row and one at the peak: the condition for rows fails."""
    loss, epsilon, q = PseudoHuber(1.0), 1.0, 0.99
    for_rows = greatest_leverage(loss, q, epsilon, "replace_one")
    for_persons = greatest_leverage(RecordLoss(loss, 1), q, epsilon, "replace_one")
    assert reached_in_one_dimension(loss, for_rows, epsilon, q) == pytest.approx(1.003, abs=1e-4)
    assert 0.999 < reached_in_one_dimension(loss, for_persons, epsilon, q) <= 1.0


def test_a_fit_with_one_coefficient_does_not_take_a_person_for_a_row():
    """The ridge of a fit is the least one, so it shows which condition was used."""
    loss, X = PseudoHuber(1.0), np.linspace(-1, 1, 40)[:, None]
    domain = Domain.unit_box(1, target=(-1.0, 1.0))
    facts = {"mechanism": "l2", "regularization": 0.0, "loss": loss}
    kind = with_share(DPHuberRegressor, 0.99)
    model = kind(domain=domain, fit_intercept=False, random_state=0, **facts)
    model.fit(X, X[:, 0], groups=np.arange(40) // 2)
    leverage = greatest_leverage(RecordLoss(loss, 1), model.q_, 1.0, "replace_one")
    rows = greatest_leverage(loss, model.q_, 1.0, "replace_one")
    assert 1 / model.ridge_[0] == pytest.approx(leverage, rel=5e-3)
    assert 1 / model.ridge_[0] < 0.99 * rows


@pytest.mark.parametrize("rank", [1, 2, 7])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_leverage_keeps_the_condition_for_random_persons(loss, neighbors, rank):
    """Of persons with 1 to 50 rows at any slopes the bound on both terms is at most epsilon."""
    rng = np.random.default_rng(0)
    for epsilon, q in ((0.1, 0.5), (1.0, 0.9), (4.0, 0.99)):
        leverage = greatest_leverage(RecordLoss(loss, rank), q, epsilon, neighbors)
        for m in (1, 2, 3, 50):
            z = rng.normal(size=(200, m)) * np.exp(rng.normal(size=(200, 1)) * 3)
            weights = rng.dirichlet(np.full(m, 0.3), size=200)
            tau = (weights * np.abs(loss.slope(z, 0 * z))).sum(axis=1) / loss.slope_bound
            trace = leverage * (weights * loss.curvature(z, 0 * z)).sum(axis=1)
            cost = epsilon * q * shift_share(tau, neighbors) + rank * np.log1p(trace / rank)
            assert (cost <= epsilon).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_envelope_is_concave_above_the_curvature_and_near_it(loss):
    joint, c = RecordLoss(loss, 1), loss.slope_bound
    u = np.append(np.linspace(0, 0.999, 400), 1 - np.geomspace(1e-3, 1e-8, 50))
    found = joint.curvature_bound(c * u, c * u)
    assert (found >= loss.curvature_bound(c * u, c * u) * (1 - 1e-12)).all()
    middle = joint.curvature_bound(c * (u[:-1] + u[1:]) / 2, c * (u[:-1] + u[1:]) / 2)
    assert (middle >= (found[:-1] + found[1:]) / 2 * (1 - 1e-6)).all()
    if isinstance(loss, LogisticLoss):
        assert found == pytest.approx(u * (1 - u), rel=2e-2, abs=2e-3)


# Gaussian noise


@pytest.mark.parametrize("rank", [1, 5])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_lines_are_above_the_cost_of_the_curvature(loss, rank):
    joint, c = RecordLoss(loss, rank), loss.slope_bound
    u = np.linspace(0, 1, 2001)
    for leverage in (0.1, 1.0, 30.0):
        cost = rank * np.log1p(joint.curvature_bound(c * u, c * u) * leverage / rank)
        slopes, heights = lines_above(joint, leverage)
        over = heights[:, None] + slopes[:, None] * u - cost
        assert over.min() >= -1e-12
        assert over.min() < 0.01 * cost.max() + 1e-9


@pytest.mark.parametrize("sides", [1, 2])
def test_the_closed_form_is_the_mean(sides):
    """E (e^l - e^epsilon)_+ by quadrature, for lines that rise and fall."""

    for slope, height, shift, epsilon in itertools.product(
        (-0.6, 0.0, 0.3), (0.0, 0.4, 0.9), (0.2, 0.7), (0.1, 0.5, 2.0)
    ):

        def value(z, s=slope, h=height, m=shift, e=epsilon):
            z = abs(z) if sides == 2 else z
            return max(math.exp(h + max(m * z + s, 0.0)) - math.exp(e), 0.0) * norm.pdf(z)

        ends = sorted({-12.0, -slope / shift, (epsilon - height - slope) / shift, 0.0, 12.0})
        ends += [] if sides == 1 else [-e for e in ends]
        ends = [e for e in sorted(set(ends)) if -12 <= e <= 12]
        pairs = itertools.pairwise(ends)
        total = sum(integrate.quad(value, a, b, epsabs=1e-14)[0] for a, b in pairs)
        if total < 1e-9:
            continue
        found = float(log_delta_of_line(slope, height, shift, np.array(epsilon), sides))
        assert found == pytest.approx(math.log(total), abs=1e-6)


def exact_delta(loss, weights, epsilon, shift, leverage, targets, with_rows, centre):
    """The hockey-stick divergence of a person with rows 1 in one dimension, by quadrature.

    The public penalty is least at ``centre``; far from 0 the slopes are full.
    """
    law = {"scale": 1.0, "ridge": [1 / leverage], "deviation": loss.slope_bound / shift}
    ones = np.ones((len(weights), 1))
    person = Weighted(loss, ones, targets, weights, **law)
    without = Weighted(loss, ones, targets, 0 * np.array(weights), **law)
    first, second = (person, without) if with_rows else (without, person)
    a = centre + np.linspace(-40, 40, 160_001) * leverage * max(1.0, law["deviation"])
    logs = []
    for own in (first, second):
        z = a
        slope = sum(
            w * loss.slope(z, np.full_like(z, y))
            for w, y in zip(own.weight, own.targets, strict=True)
        )
        bend = sum(
            w * loss.curvature(z, 0 * z + y) for w, y in zip(own.weight, own.targets, strict=True)
        )
        v = slope + (a - centre) / leverage
        logs.append(-(v**2) / law["deviation"] ** 2 / 2 + np.log(bend + 1 / leverage))
    p, other = (np.exp(own) / math.sqrt(2 * math.pi) / law["deviation"] for own in logs)
    step = a[1] - a[0]
    assert p.sum() * step == pytest.approx(1, abs=1e-3)
    return np.maximum(p - math.exp(epsilon) * other, 0).sum() * step


@pytest.mark.parametrize("with_rows", [True, False])
@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_profiles_bound_the_exact_divergence_of_a_person_with_rows_at_several_slopes(
    shift, with_rows
):
    """Rows with both labels, so that the slopes of a person have two signs."""
    loss, leverage = LogisticLoss(), 0.2
    bound = RecordLoss(loss, 1).removed(shift, leverage, np.array([0.3, 0.7]))
    if not with_rows:
        bound = RecordLoss(loss, 1).added(shift, np.array([0.3, 0.7]))
    reached = 0.0
    persons = ([1.0], [0]), ([0.5, 0.5], [0, 0]), ([0.7, 0.3], [0, 1])
    for (weights, targets), centre in itertools.product(persons, (0.0, 500.0)):
        for epsilon, log_bound in zip((0.3, 0.7), bound, strict=True):
            facts = shift, leverage, targets, with_rows, centre
            found = exact_delta(loss, weights, epsilon, *facts)
            assert found <= math.exp(log_bound) * (1 + 1e-6)
            reached = max(reached, found / math.exp(log_bound))
    assert reached > 0.3


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPHuberRegressor])
def test_the_rank_is_the_number_of_coefficients(kind):
    """The leverage of a fit shows it: one for another rank differs."""
    for d in (1, 3):
        domain = Domain.unit_box(d, target=[0, 1] if kind is DPLogisticRegression else (-1.0, 1.0))
        model = kind(epsilon=1.0, scaling_share=0)
        plan = model._plan(Design(domain, True), 1000, 1, "person").minimisers[0]
        asked = plan.q, 1.0, "replace_one"
        ranks = [greatest_leverage(RecordLoss(plan.loss, r), *asked) for r in (d + 1, d, d + 2)]
        assert plan.leverage == pytest.approx(ranks[0], rel=2e-3)
        assert ranks[1] > 1.004 * ranks[0] > 1.008 * ranks[2]


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPHuberRegressor])
def test_gaussian_noise_of_a_fit_for_persons_is_that_of_the_theorem(kind, neighbors):
    """The plan has the profile of Theorem 3 and its greatest shift: more noise than for rows."""
    domain = Domain.unit_box(3, target=[0, 1] if kind is DPLogisticRegression else (-1.0, 1.0))
    settings = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian"}
    settings |= {"regularization": 0.0}  # every row has weight 1
    model = kind(**settings, scaling_share=0, neighbors=neighbors, n_public=1000)
    plans = {
        unit: model._plan(Design(domain, True), 1000, 1, unit).minimisers[0]
        for unit in ("row", "person")
    }
    public = Public(1.0, 1e-6, neighbors, "person")
    ((loss, _),) = plans["person"].spent(public).losses
    profile = replace(loss.profile, hidden=0.0)
    assert profile.loss == RecordLoss(plans["person"].loss, 4)
    budget = plans["person"].epsilon - plans["person"].output_epsilon
    reached = float(profile(budget)) + plans["person"].output_epsilon / 2
    assert reached == pytest.approx(math.log(1e-6), abs=1e-6)
    # 5 % more shift, which is 5 % less noise, exceeds delta.
    less = JointProfile(profile.loss, 1.05 * profile.shift, profile.leverage, neighbors)
    assert float(less(budget)) > math.log(1.2e-6)
    noise = {unit: plan.noise.variance() for unit, plan in plans.items()}
    assert (noise["person"] > noise["row"]).all()
    # The longest row has the length of the shift in units of the noise.
    rows = np.array(list(itertools.product([1.0], *[[-1.0, 1.0]] * 3)))
    lengths = np.sqrt((rows**2 / noise["person"]).sum(axis=1)) * plans["person"].loss.slope_bound
    assert lengths.max() == pytest.approx(profile.shift, rel=1e-6)
    assert lengths.max() <= profile.shift
