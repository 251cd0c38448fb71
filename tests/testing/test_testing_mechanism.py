"""The public check of mechanisms, and audits: each has a twin that it catches."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from own_parts import Cylinder
from scipy.stats import binom

from skdp.mechanisms import KNorm, Sensitivity
from skdp.privacy import Guarantee
from skdp.testing import check_mechanism, epsilon_lower_bound
from skdp.testing.audit import _best_event, _with_features, ratio_bound
from skdp.testing.examples import BoxNoise, LaplaceInTheBox

# Mechanisms


@pytest.mark.parametrize("mechanism", [LaplaceInTheBox(), KNorm("l2"), "hull"], ids=repr)
def test_a_mechanism_of_somebody_elses_passes(mechanism):
    """False alarms: 14 means at 8 standard errors and an audit at 1e-8, below 1e-7 for all."""
    check_mechanism(mechanism, draws=2000)
    check_mechanism(mechanism, Sensitivity(Cylinder(), 0.5, "add_remove"), draws=1000)


def twin(name, **members):
    """Return a class of noise with other members, which can be pickled."""
    globals()[name] = kind = type(name, (BoxNoise,), {"__module__": __name__, **members})
    return kind


def off_centre(self, rng):
    return BoxNoise.rvs(self, rng) + 0.3 * np.array(self.scales)


OffCentre = twin("OffCentre", rvs=off_centre)
WrongSpread = twin("WrongSpread", covariance=lambda self: 1.5 * BoxNoise.covariance(self))
WrongNorm = twin("WrongNorm", expected_norm=lambda self, b: 0.7 * BoxNoise.expected_norm(self, b))
OneNumber = twin("OneNumber", rvs=lambda self, rng: BoxNoise.rvs(self, rng)[:1])
Fixed = twin("Fixed", rvs=lambda self, rng: BoxNoise.rvs(self, np.random.default_rng(3)))


@dataclass(frozen=True)
class NoNoise:
    scales: tuple
    guarantee: Guarantee


def scaled(factor):
    """Noise times a factor of sensitivity and epsilon, which may be one for each coordinate."""

    def change(noise, sensitivity, epsilon):
        scales = np.array(noise.scales) * factor(sensitivity.radius, epsilon)
        return replace(noise, scales=tuple(scales))

    return change


def claiming(**facts):
    def change(noise, *_):
        return replace(noise, guarantee=replace(noise.guarantee, **facts))

    return change


def as_kind(kind):
    return lambda noise, *_: kind(noise.scales, noise.guarantee)


BAD_MECHANISMS = [
    (scaled(lambda radius, epsilon: 0.5), "audit must not show more"),
    (scaled(lambda radius, epsilon: np.array([0.125, 1, 1])), "audit must not show more"),
    (scaled(lambda radius, epsilon: epsilon**2), "more noise for half of epsilon"),
    (scaled(lambda radius, epsilon: 1 / radius), "twice the noise for twice the sensitivity"),
    (claiming(epsilon=1.1), "claim epsilon <= 1"),
    (claiming(delta=1e-3), "claim delta <= 0"),
    (claiming(neighbors="add_remove"), "be under neighbors='replace_one'"),
    (claiming(void_because=("seeded",)), "guarantee must hold without a seed"),
    (as_kind(OffCentre), "rvs must be centred"),
    (as_kind(WrongSpread), "covariance must be that of the draws"),
    (as_kind(WrongNorm), "expected_norm must be the mean gauge"),
    (as_kind(OneNumber), "rvs must draw 3 numbers"),
    (as_kind(Fixed), "rvs must draw from the bits of rng"),
    (as_kind(NoNoise), "must have the members"),
]


@dataclass(frozen=True)
class Bad(LaplaceInTheBox):
    """Somebody's mechanism whose noise is changed."""

    change: object = None

    def calibrate(self, sensitivity, *, epsilon, delta=0.0):
        noise = super().calibrate(sensitivity, epsilon=epsilon, delta=delta)
        return self.change(noise, sensitivity, epsilon)


@pytest.mark.parametrize(("change", "rule"), BAD_MECHANISMS, ids=[m for _, m in BAD_MECHANISMS])
def test_a_mechanism_that_is_none_is_caught(change, rule):
    with pytest.raises(AssertionError, match=rule):
        check_mechanism(Bad(change=change))


# Audits


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_an_audit_stays_below_the_truth(epsilon):
    """At its alarm, 1e-8; and it shows more than half of it from 20,000 outputs each."""
    rng = np.random.default_rng(0)
    x, y = rng.laplace(size=(2, 20_000)) / epsilon + [[0.0], [1.0]]
    assert 0.6 * epsilon < epsilon_lower_bound(x, y) <= epsilon
    assert 0.6 * epsilon < epsilon_lower_bound(y, x) <= epsilon


def test_an_audit_that_chose_its_event_on_the_same_outputs_would_be_wrong():
    """The twin: one event out of hundreds, counted where it was chosen, is found by chance."""
    rng, alarms = np.random.default_rng(2), 0
    for _ in range(50):
        x, y = rng.normal(size=(2, 100, 4))
        x, y = _with_features(x), _with_features(y)
        direction, threshold, swapped = _best_event((x, y), 4, 0.0, 0.05)
        sure, unsure = np.array((y, x) if swapped else (x, y)) @ direction > threshold
        alarms += ratio_bound(sure, unsure, 0.0, 0.05) > 0
    assert alarms > 20


def worst_false_alarm(n, m, delta, alarm):
    """The greatest exact probability of a bound above the truth, over laws of an event."""
    k, j = np.arange(n + 1), np.arange(m + 1)
    first, second = ([np.arange(size) < hits for hits in range(size + 1)] for size in (n, m))
    bounds = np.array([[ratio_bound(a, b, delta, alarm) for b in second] for a in first])
    found = 0.0
    for q in np.linspace(0.005, 0.5, 60):
        for p in np.linspace(q + delta, 1.0, 60):
            chances = np.multiply.outer(binom.pmf(k, n, p), binom.pmf(j, m, q))
            found = max(found, chances[bounds > np.log((p - delta) / q)].sum())
    return found


@pytest.mark.parametrize(("n", "m", "delta"), [(12, 12, 0.0), (15, 8, 0.1), (6, 20, 0.0)])
def test_the_bound_of_an_audit_is_too_large_as_rarely_as_it_says(n, m, delta):
    """All outcomes of both binomial laws are summed; no draws."""
    assert worst_false_alarm(n, m, delta, 0.05) <= 0.05


def test_a_bound_without_fishers_term_would_be_too_large_too_often():
    """The twin: the limit of A B is the alarm itself, and not c with c (1 - log c) = alarm."""
    assert worst_false_alarm(12, 12, 0.0, 0.05 * (1 - np.log(0.05))) > 0.05


@pytest.mark.parametrize(("alarm", "least"), [(1e-8, 0.95), (1e-3, 1.65), (0.05, 2.3)])
def test_an_audit_sees_that_few_outputs_are_apart(alarm, least):
    """60 outputs each, of which 45 are counted. No bound can be above log(1 / (1 - a^(1/60)))."""
    shown = epsilon_lower_bound(np.zeros(60), np.ones(60), alarm=alarm)
    assert least < shown < -np.log1p(-(alarm ** (1 / 60)))


def test_an_audit_sees_what_only_a_delta_allows():
    """One output in ten tells which data set it came from: nothing at delta = .1, much at 0."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 4000))
    x[rng.random(4000) < 0.1] = 50.0
    assert epsilon_lower_bound(x, y) > 1
    assert epsilon_lower_bound(x, y, delta=0.12) < 0.5


def test_an_audit_needs_no_straight_line():
    """Outputs that differ in size alone, and in a coordinate that matters when another is small."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 4000))
    assert epsilon_lower_bound(5 * x, y) > 1
    u = rng.normal(size=(2, 4000, 2))
    u[0, :, 0] += 3.0 * (np.abs(u[0, :, 1]) < 0.3)
    assert epsilon_lower_bound(*u) > 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros(39), np.zeros(50)), "first must be finite numbers"),
        ((np.zeros(50), np.full(50, np.nan)), "second must be finite numbers"),
        ((np.zeros((50, 2)), np.zeros((50, 3))), "second must have 2 statistics"),
    ],
)
def test_outputs_that_cannot_be_audited_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        epsilon_lower_bound(*arguments)
