"""One shifted pair: crossings and least deltas against sixty digits."""

import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from exact_profile import Bare, exact_delta

from skdp import noise
from skdp.noise.laws import FlippedHuber, Gaussian, Laplace, Logistic, Subbotin, TruncatedLaplace
from skdp.privacy.shift import crossing, log_delta, log_ratio, log_spared

LAWS = [
    Laplace(0.7),
    Gaussian(2.0),
    Logistic(0.4),
    Subbotin(1.5),
    Subbotin(20.0, 3.0),
    FlippedHuber(0.1, 1.0),
    FlippedHuber(3.0, 1.0),
    TruncatedLaplace(3.0, 1.0),
    noise.OffsetGaussian(0.5, 1.0),
]


@dataclass(frozen=True)
class Uniform:
    """Somebody else's law of bounded support, which does not say where it ends."""

    def logpdf(self, x):
        with np.errstate(divide="ignore"):
            return np.log(np.where(np.abs(x) <= 1, 0.5, 0.0))

    def logsf(self, x):
        with np.errstate(divide="ignore"):
            return np.log(np.clip((1 - np.asarray(x)) / 2, 0, 1))

    def isf(self, q):
        return 1 - 2 * np.asarray(q)


def agreed(found, law, v, epsilon):
    """How far a log delta is from the exact one, as a relative error of the shift.

    The derivative of delta in the log of the shift is v f(c), and no smaller one is to be seen.
    """
    exact, spared = exact_delta(law, v, epsilon)
    if exact == 0 or float(mp.log(exact)) < -600:
        return 0.0 if found < -590 else math.inf
    if exact > 0.5:
        off = abs(math.expm1(found - float(mp.log1p(-spared))))
        return off / float(spared) if spared > 1e-300 else off
    c = float(crossing(law, v, epsilon))
    slope = v * math.exp(float(law.logpdf(c))) / float(exact)
    return abs(math.expm1(found - float(mp.log(exact)))) / max(slope, 1e-3)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_log_delta_is_exact_to_its_last_digits(law):
    """Within 1e-12 of a relative error in the shift or in epsilon, from the centre to 1e-260."""
    for epsilon in (0.0, 1e-4, 0.01, 0.3, 1.0, 5.0, 30.0, 700.0):
        for v in np.geomspace(0.05, 20, 7) * law.var() ** 0.5 * (epsilon / (1 + epsilon) or 1):
            found = float(log_delta(law, v, epsilon))
            assert agreed(found, law, v, epsilon) < 1e-12 * (1 + epsilon)


@pytest.mark.parametrize("law", LAWS[:4] + LAWS[5:7] + LAWS[8:], ids=repr)
def test_a_law_with_the_required_members_alone_is_nearly_as_exact(law):
    """Differences of log-densities lose digits of epsilon, and no more than these."""
    for epsilon in (0.01, 1.0, 30.0):
        for v in np.array([0.1, 0.5, 2.0]) * law.var() ** 0.5:
            own, bare = log_delta(law, v, epsilon), log_delta(Bare(law), v, epsilon)
            assert bare == pytest.approx(own, rel=1e-10, abs=1e-10) or own < -600


def test_a_uniform_law_needs_no_support():
    """It is told apart with probability v / 2 at any epsilon; e^700 weighs no rounding error."""
    for v in (0.3, 1e-3, 1.0, 2.5):
        for epsilon in (0.0, 1.0, 700.0):
            found = np.exp(log_delta(Uniform(), v, epsilon))
            assert found == pytest.approx(min(v / 2, 1), rel=1e-11)


def test_the_end_of_a_support_is_kept_apart_from_its_bound():
    """A shift of 1e-15 of the support: bound minus shift alone would lose all of its digits."""
    law, v = TruncatedLaplace(3.0, 1.0), 3e-15
    exact = mp.expm1(mp.mpf(v)) * mp.exp(-3) / (1 - mp.exp(-3)) / 2
    assert log_delta(law, v, 1.0) == pytest.approx(float(mp.log(exact)), abs=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_crossing_is_where_the_loss_crosses(law):
    """Just below it the loss is at most epsilon, just above it is more; also for epsilon < 0."""
    v = 0.5 * law.var() ** 0.5
    levels = np.linspace(-1.5, 1.5, 31) * float(log_ratio(law, 1.0 * v, v))
    for subject in (law, Bare(law)):
        c = crossing(subject, v, levels)
        inside = np.isfinite(c)
        assert inside.any()
        assert (c[1:] >= c[:-1]).all()
        step = 1e-9 * (np.abs(c[inside]) + v)
        slack = 1e-12 * (1 + np.abs(levels[inside]))
        assert (log_ratio(law, c[inside] - step, v) <= levels[inside] + slack).all()
        assert (log_ratio(law, c[inside] + step, v) >= levels[inside] - slack).all()


def test_a_bounded_loss_is_crossed_nowhere():
    for law in (Laplace(2.0), Bare(Laplace(2.0))):
        assert crossing(law, 1.0, [0.6, -0.6]).tolist() == [np.inf, -np.inf]
        assert log_delta(law, 1.0, 0.6) == -np.inf
        # Beyond the least loss every outcome tells P from e^epsilon Q.
        assert log_delta(law, 1.0, -0.6) == pytest.approx(math.log(1 - math.exp(-0.6)))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_profile_of_negative_epsilon_mirrors_the_other(law):
    """delta(-e) = 1 - e^-e (1 - delta(e)), since the two laws are mirror images."""
    v, epsilon = 0.8 * law.var() ** 0.5, np.array([0.01, 0.5, 3.0])
    left = np.exp(log_delta(law, v, -epsilon))
    right = 1 - np.exp(-epsilon) * (1 - np.exp(log_delta(law, v, epsilon)))
    assert left == pytest.approx(right, rel=1e-12)
    assert log_spared(law, v, epsilon) == pytest.approx(
        np.log1p(-np.exp(log_delta(law, v, epsilon)))
    )


@pytest.mark.parametrize("v", [1e-6, 1e-3, 0.3])
def test_tiny_shifts_cancel_nothing_and_end(v):
    """The interval's own probability is integrated there; its halving has an end."""
    for epsilon in (0.0, v, 30 * v):
        exact = exact_delta(Gaussian(), v, epsilon)[0]
        found = log_delta(Bare(Gaussian()), v, np.array([epsilon]))
        assert found[0] == pytest.approx(float(mp.log(exact)), abs=1e-5 if epsilon else 1e-10)


def test_at_infinity_only_what_reveals_the_shift_is_left():
    """A law with bounded support has outputs that the shifted one cannot give."""
    law = TruncatedLaplace(3.0, 1.0)
    revealing = float(law.sf(2.5))
    assert math.exp(log_delta(law, 0.5, math.inf)) == pytest.approx(revealing, rel=1e-12)
    assert log_delta(Laplace(1.0), 0.5, math.inf) == -math.inf
    assert log_delta(Gaussian(1.0), 0.5, math.inf) == -math.inf
