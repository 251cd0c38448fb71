"""Gaussian objective perturbation: exact densities of the minimiser against the joint profile."""

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import inner_objective
import numpy as np
import pytest
from inner_objective import JointProfile, _worst_cells, corners, greatest_shift
from inner_objective import profiles_module as gaussian_objective
from scipy.special import expit
from scipy.stats import norm

from skdp import DPHuberRegressor, DPLogisticRegression, Guarantee, Ledger
from skdp.linear_model.losses import (
    CappedPoisson,
    LogisticLoss,
    PseudoHuber,
    SharpLogistic,
    SmoothedQuantile,
)
from skdp.mechanisms.knorm import gaussian_scale
from skdp.trusted.arrays import ROUND_UP
from skdp.trusted.losses import gaussian_log_delta

LOSSES = [LogisticLoss(), SharpLogistic(0.75), PseudoHuber(0.3)]
LOSSES += [CappedPoisson(0.25, 0.3), SmoothedQuantile(0.9, 0.2)]
RELATIONS = ["add_remove", "replace_one"]
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES, ids=repr)
GRID = np.linspace(-1, 1, 60_001)


def log_density(loss, records, *, deviation, ridge, radius):
    """Of the minimiser in one dimension, on a grid of outputs: (log density, step)."""
    a = radius * GRID
    gradient, hessian = ridge * a, np.full(len(a), ridge)
    for x, y in records:
        gradient = gradient + loss.slope(x * a, np.full(len(a), y)) * x
        hessian = hessian + loss.curvature(x * a, np.full(len(a), y)) * x * x
    return norm.logpdf(gradient, scale=deviation) + np.log(hessian), a[1] - a[0]


def true_delta(loss, data, other, epsilon, **law):
    """The least delta of one data set against another, at a number or an array of epsilons."""
    law["radius"] = 12 * law["deviation"] / law["ridge"] + 5
    (p, step), (q, _) = (log_density(loss, d, **law) for d in (data, other))
    assert np.exp(p).sum() * step == pytest.approx(1, abs=1e-6)
    p, q = np.exp(p), np.exp(q)
    return np.sum(np.maximum(p - np.multiply.outer(np.exp(epsilon), q), 0.0), axis=-1) * step


def pairs(neighbors):
    """Neighbouring data sets of records (x, y) with |x| <= 1."""
    changed = [(1.0, 0.0), (1.0, 1.0), (-0.6, 1.0)]
    for others in ([], [(0.8, 1.0)], [(1.0, 1.0)] * 3):
        if neighbors == "add_remove":
            for record in changed:
                yield [*others, record], others
                yield others, [*others, record]
        else:
            for record in changed:
                yield [*others, record], [*others, (-1.0, 0.0)]
                yield [*others, record], [*others, (1.0, 0.0)]
                yield [*others, (-1.0, 1.0)], [*others, record]


@pytest.mark.rest_is_slow(4)
@EACH_LOSS
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta", "room"), [(0.5, 1e-3, 0.5), (2.0, 1e-5, 0.3)])
def test_no_pair_of_data_sets_exceeds_the_profile(loss, neighbors, epsilon, delta, room):
    """By the exact densities in one dimension, at the epsilon asked for and elsewhere."""
    leverage = inner_objective.leverage_apart(loss, room, epsilon)
    shift = greatest_shift(loss, leverage, epsilon, delta, neighbors)
    profile = JointProfile(loss, shift, leverage, neighbors)
    law = {"deviation": loss.slope_bound / shift, "ridge": 1 / leverage}
    at = np.array([0.5, 1.0, 1.3]) * epsilon
    most = np.exp(profile(at)) * (1 + 1e-6) + 1e-14
    for data, other in pairs(neighbors):
        found = true_delta(loss, data, other, at, **law)
        assert np.all(found <= most)
        assert found[1] <= delta * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (1.0, 1e-6)])
def test_the_calibration_is_tight_and_five_percent_less_noise_is_caught(epsilon, delta):
    """None against one record: a tail of V makes its slope full, and the bound is reached."""
    loss, leverage = LogisticLoss(), 0.5 * epsilon
    shift = greatest_shift(loss, leverage, epsilon, delta, "add_remove")
    one = {"ridge": 1 / leverage, "deviation": 1 / shift}
    data, other = [], [(1.0, 0.0)]
    reached = true_delta(loss, data, other, epsilon, **one)
    assert 0.9 * delta <= reached <= delta * (1 + 1e-6)
    less = one | {"deviation": 0.95 / shift}
    assert true_delta(loss, data, other, epsilon, **less) > 1.1 * delta


def test_a_determinant_that_is_not_paid_for_is_caught():
    """Noise of the Gaussian mechanism alone, where the ridge is small: delta is exceeded."""
    loss, epsilon, delta, leverage = LogisticLoss(), 0.5, 1e-4, 6.0
    data, other = [(1.0, 0.0)], []
    free = {"ridge": 1 / leverage, "deviation": gaussian_scale(epsilon, delta)}
    assert true_delta(loss, data, other, epsilon, **free) > 10 * delta
    assert greatest_shift(loss, leverage, epsilon, delta, "add_remove") == 0
    assert greatest_shift(loss, 0.3 * leverage, epsilon, delta, "add_remove") > 0


def expectation(tau, cost, epsilon, z):
    """E (1 - exp(epsilon - tau(Z) Z - tau(Z)^2 / 2 - cost))_+ by brute force over Z."""
    worst = tau * z + tau**2 / 2 + cost
    return np.maximum(-np.expm1(epsilon - worst), 0.0) @ masses(z[0], z[-1], len(z))


@functools.cache
def masses(low, high, n):
    """Simpson's weights of an odd number of points, times the normal density."""
    z, step = np.linspace(low, high, n, retstep=True)
    rule = np.where(np.arange(n) % 2 == 1, 4.0, 2.0)
    rule[[0, -1]] = 1.0
    return rule * step / 3 * norm.pdf(z)


def cost_at(loss, share, leverage):
    c = loss.slope_bound
    return np.log1p(loss.curvature_bound(c * share, c * share) * leverage)


@EACH_LOSS
@pytest.mark.parametrize(
    ("shift", "leverage", "epsilon"), [(0.25, 0.5, 1.0), (0.5, 0.9, 0.3), (1.5, 3.0, 3.0)]
)
def test_the_profile_of_a_removed_record_is_that_of_the_worst_constant_slope(
    loss, shift, leverage, epsilon
):
    """By brute force over slopes and Z. Cells cost up to 2 percent, for quantiles up to a fifth."""
    most = 1.2 if isinstance(loss, SmoothedQuantile) else 1.02
    z = np.linspace(-9, 12, 20_001)
    share = 1 - np.geomspace(1, 1e-9, 1000)
    cost = cost_at(loss, share, leverage)
    exact = max(expectation(s * shift, k, epsilon, z) for s, k in zip(share, cost, strict=True))
    profile = math.exp(JointProfile(loss, shift, leverage)._removed(np.array(epsilon)))
    assert exact * (1 - 1e-5) <= profile <= exact * most


@EACH_LOSS
def test_no_falling_slope_is_worse_than_the_best_constant_one(loss):
    """Steps of random heights at random places, of both signs if the loss has two sides.

    The twin: slopes of two signs that rise exceed the bound.
    """
    rng, z = np.random.default_rng(0), np.linspace(-9, 9, 4001)
    least = 0.0 if getattr(loss, "one_sided", False) else -1.0
    caught = 0
    for shift, leverage, epsilon in [(0.25, 0.5, 0.3), (0.6, 0.9, 0.3), (1.5, 3.0, 1.0)]:
        bound = math.exp(JointProfile(loss, shift, leverage)._removed(np.array(epsilon)))
        for _ in range(150):
            count = rng.integers(2, 5)
            heights = np.sort(rng.uniform(least, 1, count))[::-1]
            heights[0] = rng.choice([1.0, heights[0]])
            places = np.sort(rng.normal(size=count - 1) * 2)
            for order in (1, -1):
                share = heights[::order][np.searchsorted(places, z)]
                cost = cost_at(loss, np.abs(share), leverage)
                found = expectation(share * shift, cost, epsilon, z)
                if order == 1:
                    assert found <= bound * (1 + 1e-6)
                else:
                    caught += found > 1.02 * bound
    assert caught > 10 or least == 0.0


@EACH_LOSS
@pytest.mark.parametrize("shift", [0.01, 0.3, 2.0])
def test_the_worst_cells_are_the_greatest_of_all(loss, shift):
    """At epsilons within the grid and beyond its end."""
    rng = np.random.default_rng(0)
    for leverage in (0.0, 0.05, 1.0, 40.0):
        shifts, costs, grid, *_ = _worst_cells(loss, shift, leverage)
        epsilon = np.append(rng.uniform(0, 8, 300), [0.0, 1e-9, 50.0, 2 * grid[-1]])
        whole = gaussian_log_delta(shifts, epsilon[:, None] - costs).max(axis=1)
        found = inner_objective._worst_removed(loss, shift, leverage, epsilon)
        np.testing.assert_allclose(found, whole, rtol=1e-9, atol=2e-10)


@EACH_LOSS
def test_the_greatest_shift_passes_and_a_little_more_does_not(loss):
    for neighbors in RELATIONS:
        for epsilon, delta, leverage in [(0.3, 1e-6, 0.5), (1.0, 1e-12, 1.0), (8.0, 1e-3, 20.0)]:
            shift = greatest_shift(loss, leverage, epsilon, delta, neighbors)
            if shift == 0:
                continue
            assert JointProfile(loss, shift, leverage, neighbors)(epsilon) <= math.log(delta)
            more = JointProfile(loss, shift * (1 + 1e-7), leverage, neighbors)
            assert more(epsilon) > math.log(delta)


@pytest.mark.parametrize(("leverage", "delta"), [(0.5, 1e-6), (0.0, 1e-300)])
@pytest.mark.parametrize("loss", [LogisticLoss(), PseudoHuber(0.3)], ids=repr)
def test_the_shift_is_rounded_down_from_one_that_passed(loss, leverage, delta, monkeypatch):
    """By ROUND_UP, in fractions: noise is made of it in floats.

    Without curvature, and so small a delta that roundings matter less, the greatest of all passes.
    """
    passed, composed = [], gaussian_objective._composed
    epsilon = 0.7

    def watched(profile, models, at):
        value = composed(profile, models, at)
        if value <= math.log(delta):
            passed.append(Fraction(profile.shift))
        return value

    monkeypatch.setattr(gaussian_objective, "_composed", watched)
    for neighbors in RELATIONS:
        passed.clear()
        shift = Fraction(greatest_shift(loss, leverage, epsilon, delta, neighbors))
        rounded = shift * Fraction(ROUND_UP)
        assert max(passed) * (1 - Fraction(1, 10**8)) < rounded
        assert rounded < max(passed) * (1 + Fraction(1, 10**14))


def test_hiding_the_solver_moves_the_profile_by_what_the_theorem_says():
    inner = JointProfile(LogisticLoss(), 0.3, 0.5)
    outer = replace(inner, hidden=0.01)
    assert float(outer(1.01)) == pytest.approx(float(inner(1.0)) + 0.005, abs=1e-12)
    at_zero = math.exp(inner(0.0) + 0.005) + math.expm1(0.01)
    assert float(outer(0.0)) == pytest.approx(math.log(at_zero), abs=1e-12)


def data(n=400, labels=2):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.floor(labels * expit(4 * (X[:, 0] - X[:, 1]))).astype(int)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("mechanism", ["gaussian", "elliptic"])
def test_estimators_use_delta_and_say_so(mechanism, neighbors):
    """The noise is c R / mu for rows of norm R; the guarantee and the ledger have the delta.

    With a ridge of the user every row has weight 1.
    """
    X, y = data()
    ledger = Ledger(2.0, 1e-4)
    asked = {"epsilon": 1.0, "delta": 1e-5, "neighbors": neighbors, "mechanism": mechanism}
    asked |= {"regularization": 0.0}
    model = DPLogisticRegression(classes=[0, 1], ledger=ledger, **asked).fit(X, y)
    assert model.score(X, y) > 0.8
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-5)
    assert ledger.spent.delta == 1e-5
    variance = np.diag(model.noise_.covariance())
    # Rows (1, x1, x2): sum over rows' squares in units of the noise is mu^2 at most.
    square = (1 / variance).sum()
    records = 2 if neighbors == "replace_one" else 1
    assert math.sqrt(square) * records <= 1 / gaussian_scale(1.0, 1e-5)
    assert math.sqrt(square) * records >= 0.8 / gaussian_scale(1.0, 1e-5)
    huber = DPHuberRegressor(ledger=ledger, **asked).fit(X, X @ [0.4, -0.4])
    assert huber.guarantee_.delta == 1e-5
    assert huber.score(X, X @ [0.4, -0.4]) > 0.2


def test_several_labels_share_epsilon_and_delta_by_their_losses():
    """Three models: each gets more than a third, and the whole stays within what was asked."""
    X, y = data(labels=3)
    asked = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian", "classes": [0, 1, 2]}
    model = DPLogisticRegression(**asked, loss="sharp", regularization=0.0).fit(X, y)
    assert model.guarantee_.delta == 1e-6
    found = math.sqrt(np.diag(model.noise_.covariance())[0])
    third = 2 * math.sqrt(3) * gaussian_scale(1 / 3, 1e-6 / 3)
    together = 2 * math.sqrt(3) * math.sqrt(3) * gaussian_scale(1.0, 1e-6)
    assert together * (1 - 1e-9) <= found <= 0.8 * third


@pytest.mark.parametrize("mechanism", ["gaussian", "elliptic", "flipped_huber", "subbotin"])
def test_noise_without_a_bound_needs_delta(mechanism):
    X, y = data(20)
    ledger = Ledger(1.0)
    model = DPLogisticRegression(classes=[0, 1], mechanism=mechanism, ledger=ledger)
    with pytest.raises(ValueError, match=r"delta must be > 0 for mechanism=.*Pass 1e-6"):
        model.fit(X, y)
    assert ledger.entries == ()


@dataclass(frozen=True)
class PlainGaussianNoise:
    """Somebody else's normal noise."""

    log_concave: ClassVar[bool] = True
    deviation: float
    dim: int
    guarantee: Guarantee

    def rvs(self, rng):
        return self.deviation * rng.standard_normal(self.dim)

    def covariance(self):
        return self.deviation**2 * np.eye(self.dim)


class PlainGaussian:
    def calibrate(self, sensitivity, *, epsilon, delta=0.0):
        corner = sensitivity.radius * np.linalg.norm(sensitivity.ball.bounding_box())
        guarantee = Guarantee(epsilon, delta, neighbors=sensitivity.neighbors)
        deviation = corner * gaussian_scale(epsilon, delta)
        return PlainGaussianNoise(deviation, sensitivity.ball.dim, guarantee)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_somebody_elses_noise_is_asked_for_a_share_of_delta(neighbors):
    """By as many corners as the differences span (Theorem 4)."""
    X, y = data()
    asked = {"epsilon": 1.0, "delta": 1e-5, "neighbors": neighbors, "classes": [0, 1]}
    model = DPLogisticRegression(mechanism=PlainGaussian(), **asked).fit(X, y)
    share = corners(LogisticLoss(), neighbors)
    assert share == (1 if neighbors == "add_remove" else 3)
    assert corners(PseudoHuber(1.0), neighbors) == (2 if neighbors == "add_remove" else 4)
    part = model.releases_[-1].noise.guarantee
    assert part.delta == pytest.approx(1e-5 / share, rel=1e-3)
    assert model.guarantee_.delta == 1e-5


def test_a_wrong_guess_changes_no_greatest_shift(monkeypatch):
    """The search widens its bracket until a shift has passed and a greater one has not."""
    asked = (LogisticLoss(), 0.5, 1.0, 1e-6, "replace_one")
    found = greatest_shift(*asked)
    for wrong in (0.0, 1e-4 * found, 0.9 * found, 1.1 * found, 1e4 * found):
        monkeypatch.setattr(
            gaussian_objective, "rough_shifts", lambda *_, wrong=wrong: np.array([wrong])
        )
        greatest_shift.cache_clear()
        assert greatest_shift(*asked) == pytest.approx(found, rel=2e-9)
