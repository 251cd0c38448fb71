"""One noise multiplier for many releases: brute force, certainty, choice, and what it refuses."""

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from exact_profile import exact_delta, facts
from own_parts import HyperbolicSecant
from scipy.stats import kstest

from skdp import noise as laws
from skdp.mechanisms import Independent
from skdp.mechanisms.independent import MECHANISMS, calibrate_releases, choice_width, least_scale
from skdp.noise.independent import MOST_SIZES, Releases, fewer, length_of
from skdp.noise.laws import FlippedHuber, Gaussian, Laplace, Logistic, OffsetGaussian, Subbotin
from skdp.privacy.composition import Composition
from skdp.privacy.shift import ShiftLoss, log_delta, log_ratio
from skdp.trusted.losses import GaussianLoss, SelectionLoss

NAMED = [
    pytest.param(name, marks=pytest.mark.slow("more cases of the same grid"))
    if name == "subbotin"
    else name
    for name in MECHANISMS
    if name != "auto"
]
LAWS = [
    Laplace(), Logistic(), FlippedHuber(1.0, 1.0), OffsetGaussian(1.0), Subbotin(1.5),
    laws.TruncatedLaplace(20.0),
]  # fmt: skip
MIXED = [(1.0, 20), (0.4, 300), (2.0, 3)]


def calibrated(mechanism, shifts, epsilon=1.0, delta=1e-5, neighbors="replace_one"):
    return calibrate_releases(mechanism, shifts, neighbors=neighbors, epsilon=epsilon, delta=delta)


def composed(law, shifts, scale=1.0):
    """The composition of the releases, with losses that are made here."""
    return Composition([(ShiftLoss(law, size / scale), count) for size, count in shifts])


# Against brute force


def exact_delta_of_two(law, first, second, epsilon, digits=15):
    """delta of two shifts as an integral over the first output, the rest in many digits.

    Given the first output x the second has to make up for epsilon minus the first loss.
    """
    potential, tail, _, _ = facts(law)
    # Between -first and 0 the first loss rises, and the second's profile has kinks of its own.
    kinks = np.linspace(-first, 0.0, 25).tolist()
    if isinstance(law, FlippedHuber):
        kinks += [s * law.alpha - t for s in (-1, 1) for t in (0.0, first)]
    inner = [*np.arange(-6, 0, 0.5), *np.arange(0, 3, 0.1), *np.arange(3, 6.1, 0.5)]
    ends = np.unique([-30.0, -12.0, *kinks, *inner, 12.0, 30.0]).tolist()
    nodes, lengths = np.polynomial.legendre.leggauss(3)
    total = mp.mpf(0)
    with mp.workdps(digits):
        # The density at 0 from the tail: P(0 < X < h) = f(0) h up to h^2 or, at a cusp, less.
        h = mp.mpf("1e-9")
        peak = (mp.mpf(1) / 2 - tail(h)) / h
        for left, right in pairwise(ends):
            for t, w in zip(nodes, lengths, strict=True):
                x = mp.mpf((left + right) / 2 + (right - left) / 2 * t)
                rest = epsilon - (potential(abs(x + first)) - potential(abs(x)))
                # H(gamma) = 1 - gamma + gamma H(1 / gamma), as the pair is symmetric.
                value = exact_delta(law, second, abs(rest), digits)[0]
                if rest < 0:
                    value = 1 - mp.exp(rest) + mp.exp(rest) * value
                total += peak * mp.exp(-potential(abs(x))) * value * w * (right - left) / 2
    return float(total)


@pytest.mark.parametrize("law", [Laplace(), FlippedHuber(1.0, 1.0)], ids=repr)
def test_two_releases_against_an_integral_in_many_digits(law):
    """The scale is private for two different shifts, and 2 in 1000 less is not."""
    noise = calibrated(law, [(1.0, 1), (0.5, 1)], 1.0, 0.02)
    first, second = (loss.shift for loss, _ in noise.guarantee.losses)
    assert (first, second) == pytest.approx((2 * second, second), rel=1e-12)
    # The rule of points is good to 1e-4 or so.
    assert (
        0.02 * (1 - 2e-3) < exact_delta_of_two(noise.law, first, second, 1.0) <= 0.02 * (1 + 2e-4)
    )
    assert exact_delta_of_two(noise.law, first / 0.998, second / 0.998, 1.0) > 0.02 * (1 + 2e-3)


def delta_of_three(law, shifts, epsilon, nodes=300):
    """delta of three shifts: two outputs by a rule of points, the third by its exact profile."""
    u, w = np.polynomial.legendre.leggauss(nodes // 6)
    log_p, losses = [], []
    for shift in shifts[:2]:
        ends = np.array([-40.0, -6.0, -shift, 0.0, 6.0, 40.0])
        x = (ends[:-1, None] + np.diff(ends)[:, None] * (1 + u) / 2).ravel()
        log_p.append(law.logpdf(x) + np.log((np.diff(ends)[:, None] * w / 2).ravel()))
        losses.append(log_ratio(law, x, shift))
    chances = np.exp(np.add.outer(*log_p))
    rest = epsilon - np.add.outer(*losses)
    return float(np.sum(chances * np.exp(log_delta(law, shifts[2], rest))))


@pytest.mark.parametrize("law", [Laplace(), Logistic(), OffsetGaussian(1.0)], ids=repr)
def test_three_releases_against_a_double_sum(law):
    """No grid, no transform: and 1 % less noise is too little."""
    noise = calibrated(law, [(1.0, 2), (0.3, 1)], 1.0, 1e-3)
    losses, counts = zip(*noise.guarantee.losses, strict=True)
    shifts = np.repeat([loss.shift for loss in losses], counts)
    assert 0.99e-3 < delta_of_three(noise.law, shifts, 1.0) <= 1e-3 * (1 + 1e-4)
    assert delta_of_three(noise.law, shifts / 0.99, 1.0) > 1e-3 * (1 + 1e-2)


# What is certain


COUNTS = [
    3,
    *(
        pytest.param(n, marks=pytest.mark.slow("more cases of the same grid"))
        for n in (2, 30, 1000)
    ),
    10_000,
]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_it_is_private_and_5_percent_less_is_not(law, count):
    """By bounds of a composition that plans for itself: the upper one, and the lower one."""
    epsilon, delta = (1.0, 1e-3) if count < 100 else (0.5, 1e-6)
    scale = float(np.sqrt(calibrated(law, [(2.0, count)], epsilon, delta).var() / law.var()))
    assert composed(law, [(2.0, count)], scale).delta_at(epsilon).upper <= delta * (1 + 1e-3)
    assert composed(law, [(2.0, count)], 0.95 * scale).delta_at(epsilon).lower > delta


@pytest.mark.parametrize("name", NAMED)
def test_mixed_sizes_exhaust_delta(name):
    """Within 2 % of it, in the losses that the guarantee carries; the twin has 5 % less noise."""
    noise = calibrated(name, MIXED)
    said = noise.guarantee
    assert (said.epsilon, said.delta, said.neighbors) == (1.0, 1e-5, "replace_one")
    assert 0.98e-5 < Composition(noise.guarantee.losses).delta_at(1.0).upper <= 1e-5 * (1 + 1e-3)
    assert said.delta_at(1.5) < 1e-5
    assert 0 < said.epsilon_at(1e-4) < 1.0
    less = [(type(loss)(*parts_of(loss, 0.95)), n) for loss, n in noise.guarantee.losses]
    assert Composition(less).delta_at(1.0).lower > 1e-5


def parts_of(loss, share):
    """The parts of a loss with a share of the noise."""
    return [loss.mu / share] if isinstance(loss, GaussianLoss) else [loss.law, loss.shift / share]


def test_losses_belong_to_the_shifts_and_the_noise():
    """Each has the size over the scale of what is drawn; Gaussian ones are one."""
    noise = calibrated("logistic", MIXED)
    scale = noise.law.scale
    assert noise.shifts == ((2.0, 3), (1.0, 20), (0.4, 300))
    assert [n for _, n in noise.guarantee.losses] == [3, 20, 300]
    for (loss, _), (size, _) in zip(noise.guarantee.losses, noise.shifts, strict=True):
        assert loss.shift / loss.law.scale == pytest.approx(size / scale, rel=1e-11)
    gaussian = calibrated("gaussian", MIXED)
    ((loss, count),) = gaussian.guarantee.losses
    length = math.sqrt(sum(n * s * s for s, n in MIXED))
    assert count == 1
    assert loss.mu == pytest.approx(length / gaussian.law.scale, rel=1e-11)


WIDE = [(1e-3, 1e-12), (1e-3, 0.1), (100.0, 1e-12), (100.0, 0.1), (0.1, 1e-6)]
MANY = [3, 1000, pytest.param(100_000, marks=pytest.mark.slow("more cases of the same grid"))]


@pytest.mark.parametrize(("epsilon", "delta"), WIDE)
@pytest.mark.parametrize("count", MANY)
def test_wide_ranges(epsilon, delta, count):
    """Private, and no more than 1 % more noise than is certain to be too little."""
    for law in (Laplace(), Logistic(), FlippedHuber(1.0, 1.0)):
        noise = calibrated(law, [(1e-3, count)], epsilon, delta)
        scale = float(np.sqrt(noise.var() / law.var()))
        # Either the composition is within delta, or the greatest losses add up to epsilon.
        pure = epsilon / 1e-3 / count * scale >= 1
        upper = composed(law, [(1e-3, count)], scale).delta_at(epsilon).upper
        assert pure or upper <= delta * (1 + 1e-4)
        assert composed(law, [(1e-3, count)], scale / 1.01).delta_at(epsilon).lower > delta


def test_many_sizes_are_majorised():
    """Sums of the k greatest are nowhere below, and sixteen sizes cost less than 1 %."""
    rng = np.random.default_rng(0)
    for sizes in (rng.uniform(0, 1, 60), rng.exponential(1.0, 40), np.linspace(0.5, 1, 100)):
        counts = rng.integers(1, 200, len(sizes))
        pairs = list(zip(sizes.tolist(), counts.tolist(), strict=True))
        shifts = Releases(pairs, "add_remove").shifts
        found = fewer(shifts, MOST_SIZES)
        before, after = (
            np.cumsum(np.repeat([s for s, _ in pairs], [n for _, n in pairs]))
            for pairs in (shifts, found)
        )
        assert len(found) <= MOST_SIZES
        assert len(after) == len(before)
        assert (after >= before * (1 - 1e-12)).all()
        assert 1 <= length_of(found) / length_of(shifts) < 1.01


def test_many_sizes_are_private_one_by_one():
    """Forty sizes, composed as they are, for noise that was calibrated for fewer."""
    shifts = [(0.1 * k, 5) for k in range(1, 41)]
    noise = calibrated("laplace", shifts, 1.0, 1e-6)
    assert len(noise.shifts) == 40
    assert len(noise.guarantee.losses) <= MOST_SIZES
    bounds = composed(noise.law, shifts).delta_at(1.0)
    assert 0.7e-6 < bounds.lower <= bounds.upper <= 1e-6


# What follows from the theory


@pytest.mark.parametrize("name", NAMED)
def test_one_release_is_calibrated_as_such(name):
    """To the last digit as `least_scale` and `Independent` do it."""
    noise = calibrated(name, [(3.0, 1)], 1.0, 1e-3)
    (loss, count), *rest = noise.guarantee.losses
    assert (count, rest) == (1, [])
    law = Gaussian() if name == "gaussian" else loss.law
    scale = float(np.sqrt(noise.law.var() / law.var()))
    assert scale == pytest.approx(least_scale(law, 3.0, epsilon=1.0, delta=1e-3), rel=1e-11)
    other = calibrated(Independent(law), [(3.0, 1)], 1.0, 1e-3)
    assert other.var() == pytest.approx(noise.var(), rel=1e-12)


@pytest.mark.parametrize("law", [Laplace(2.0), Logistic(3.0), Subbotin(1.0)], ids=repr)
def test_delta_0_is_the_sum_of_the_greatest_losses(law):
    """It is exact: the greatest losses of all releases add up to epsilon."""
    noise = calibrated(law, MIXED, 0.7, 0.0)
    slope = 1 / law.scale
    scale = float(np.sqrt(noise.var() / law.var()))
    assert sum(n * s for s, n in MIXED) * slope / scale == pytest.approx(0.7, rel=1e-11)
    assert noise.guarantee.delta == 0.0
    whole = Composition(noise.guarantee.losses)
    assert whole.epsilon_at(0.0).upper == pytest.approx(0.7, rel=1e-10)


@pytest.mark.parametrize("name", ["laplace", "flipped_huber", "gaussian"])
def test_more_is_asked_more_is_drawn(name):
    """The variance grows with counts and sizes, and falls with epsilon and delta."""
    base = calibrated(name, [(1.0, 40), (0.5, 10)], 1.0, 1e-4).var()
    for shifts, epsilon, delta in (
        ([(1.0, 44), (0.5, 10)], 1.0, 1e-4),
        ([(1.05, 40), (0.5, 10)], 1.0, 1e-4),
        ([(1.0, 40), (0.6, 10)], 1.0, 1e-4),
        ([(1.0, 40), (0.5, 10)], 0.95, 1e-4),
        ([(1.0, 40), (0.5, 10)], 1.0, 5e-5),
    ):
        assert calibrated(name, shifts, epsilon, delta).var() > base * 1.002


@pytest.mark.parametrize("name", NAMED)
def test_units_do_not_matter(name):
    """Sizes times 1000 need 1000 times the noise."""
    few = calibrated(name, MIXED)
    scaled = calibrated(name, [(1000 * size, n) for size, n in MIXED])
    assert scaled.law.std() == pytest.approx(1000 * few.law.std(), rel=5e-5)


def test_a_law_of_any_scale_is_the_same():
    """Only the shape counts of a law that is given; `Independent` of it is the law."""
    for law in (FlippedHuber(3.0, 2.0), Laplace(0.01)):
        one = calibrated(law, MIXED)
        assert calibrated(law.scaled(77.0), MIXED).var() == pytest.approx(one.var(), rel=5e-5)
        assert calibrated(Independent(law), MIXED).var() == one.var()


def test_somebody_elses_law():
    """The six members are enough, for one size and several; 5 % less is caught."""
    for shifts in ([(1.0, 2000)], [(1.0, 5), (0.3, 5)]):
        noise = calibrated(HyperbolicSecant(), shifts)
        scale = noise.law.scale
        whole = composed(HyperbolicSecant(), shifts, scale).delta_at(1.0)
        assert 0.98e-5 < whole.upper <= 1e-5 * (1 + 1e-3)
        assert composed(HyperbolicSecant(), shifts, 0.95 * scale).delta_at(1.0).lower > 1e-5
    with pytest.raises(ValueError, match="delta must be > 0"):
        calibrated(HyperbolicSecant(), MIXED, 1.0, 0.0)


def test_many_releases_need_the_variance_of_the_gaussian_times_the_information():
    """Theorem 2 of the proof: 2 for Laplace, pi^2 / 9 for logistic noise, to 0.3 %.

    Subbotin noise has the information r^(1 - 2/r) Gamma(2 - 1/r) / Gamma(1 + 1/r).
    """
    gaussian = calibrated("gaussian", [(1.0, 100_000)]).var()
    information = math.pow(1.5, -1 / 3) * math.gamma(4 / 3) / math.gamma(5 / 3)
    subbotin = information * Subbotin(1.5).var()
    for law, factor in ((Laplace(), 2.0), (Logistic(), math.pi**2 / 9), (Subbotin(1.5), subbotin)):
        found = calibrated(law, [(1.0, 100_000)]).var() / gaussian
        assert found == pytest.approx(factor, rel=3e-3)


# Names


@pytest.mark.parametrize(
    ("shifts", "epsilon", "delta", "best"),
    [
        ([(1.0, 1)], 1.0, 1e-6, "Laplace"),
        ([(1.0, 3), (0.2, 4)], 3.0, 1e-9, "Laplace"),
        ([(1.0, 8)], 1.0, 1e-6, "Laplace"),
        ([(1.0, 12)], 1.0, 1e-6, "Gaussian"),
        (MIXED, 1.0, 1e-5, "Gaussian"),
        ([(1.0, 10_000)], 1.0, 1e-6, "Gaussian"),
        (MIXED, 1.0, 0.0, "Laplace"),
    ],
)
def test_auto_is_the_better_of_laplace_and_gaussian(shifts, epsilon, delta, best):
    noise = calibrated("auto", shifts, epsilon, delta)
    names = ["laplace", "gaussian"] if delta else ["laplace"]
    assert noise.var() == min(calibrated(name, shifts, epsilon, delta).var() for name in names)
    assert type(noise.law).__name__ == best


@pytest.mark.parametrize("shifts", [[(1.0, 1)], [(1.0, 8)], MIXED])
@pytest.mark.parametrize("name", ["flipped_huber", "offset_gaussian"])
def test_the_shape_of_a_name_has_about_the_least_variance_of_its_family(name, shifts):
    """Whatever the shape is, the noise is private: this is about its size alone."""
    noise = calibrated(name, shifts, 1.0, 1e-4)
    family = {"flipped_huber": FlippedHuber, "offset_gaussian": OffsetGaussian}[name]
    shapes = np.geomspace(1e-3, 400, 12)
    others = [calibrated(family(shape, 1.0), shifts, 1.0, 1e-4).var() for shape in shapes]
    assert noise.var() <= min(others) * (1 + 1e-2)


def test_a_calibration_is_remembered():
    """The same object comes back, whichever order the sizes are given in."""
    assert calibrated("laplace", MIXED) is calibrated("laplace", tuple(MIXED[::-1]))
    assert hash(calibrated("laplace", MIXED)) == hash(calibrated("laplace", MIXED))


# Beside private choices


@pytest.mark.rest_is_slow(3)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "flipped_huber"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(1.0, 1e-6, 20), (10.0, 1e-6, 5), (0.1, 1e-9, 100)]
)
def test_choices_and_releases_keep_the_budget_together(mechanism, epsilon, delta, count):
    """Certified from above; with 5 % less noise the lower bound breaks it."""
    budget = {"epsilon": epsilon, "delta": delta, "neighbors": "replace_one"}
    choices = choice_width(count, epsilon=epsilon, delta=delta), count
    shifts = [(2.0, count), (0.5, 3)]
    noise = calibrate_releases(mechanism, shifts, choices=choices, **budget)
    assert Composition(noise.guarantee.losses).delta_at(epsilon).upper <= delta
    assert noise.guarantee.delta_at(epsilon) <= delta
    # Computed anew, from the law that is drawn from.
    fixed = (SelectionLoss(choices[0]), count)
    for factor, kept in ((1.0, True), (0.95, False)):
        law = noise.law.scaled(factor)
        parts = [*((ShiftLoss(law, size), n) for size, n in shifts), fixed]
        bounds = Composition(parts).delta_at(epsilon)
        assert bounds.upper <= delta * (1 + 1e-3) if kept else bounds.lower > delta


def test_without_a_delta_greatest_losses_add_up():
    """Half for the choices, half for the releases."""
    width = choice_width(10, epsilon=2.0)
    assert width == pytest.approx(0.1)
    noise = calibrate_releases(
        "auto", [(2.0, 10)], choices=(width, 10), neighbors="replace_one", epsilon=2.0
    )
    assert noise.law.scale == pytest.approx(2.0 * 10 / 1.0)
    assert isinstance(noise.law, Laplace)
    total = Composition(noise.guarantee.losses).epsilon_at(0.0).upper
    assert total == pytest.approx(2.0)
    assert noise.guarantee.epsilon == 2.0


def test_choices_get_about_half_of_what_there_is():
    """Twice as many choices are half as telling in variance; a hopeless width is refused."""
    one, four = (choice_width(n, epsilon=1.0, delta=1e-6) for n in (1, 4))
    assert one / four == pytest.approx(2.0)
    assert 0 < four < one < math.inf
    with pytest.raises(ValueError, match="choices"):
        calibrate_releases(
            "laplace", [(1.0, 1)], choices=(2.0, 1), neighbors="replace_one", epsilon=1
        )


# Drawing


def test_draws_have_the_law_and_the_shape():
    """Kolmogorov and Smirnov at 1e-7; 5 % less noise is caught. The default is one draw."""
    noise = calibrated("logistic", MIXED)
    rng = np.random.default_rng(0)
    x = noise.rvs(rng, (200, 300))
    assert x.shape == (200, 300)
    assert noise.rvs(rng).shape == (1,)
    assert noise.rvs(rng, 7).shape == (7,)
    assert kstest(x.ravel(), noise.law.cdf).pvalue > 1e-7
    assert kstest(x.ravel() * 0.95, noise.law.cdf).pvalue < 1e-7
    assert noise.covariance() == pytest.approx(np.array([[noise.var()]]))
    # The mean of 60,000 squares has a standard error of 0.7 %: 5.5 of them are 4 %.
    assert float(np.mean(x**2)) == pytest.approx(noise.var(), rel=0.04)


BAD = [
    (lambda: calibrated("cauchy", MIXED), "mechanism must be one of .*'auto'.*Or give a law"),
    (lambda: calibrated(3, MIXED), "mechanism must have the members of a law"),
    (lambda: calibrated(Independent("laplace", [1.0]), MIXED), "have no proportions"),
    (lambda: calibrated("laplace", []), "shifts must be one or more pairs"),
    (lambda: calibrated("laplace", [1.0, 2.0]), "shifts must be one or more pairs.*Write"),
    (lambda: calibrated("laplace", [(0.0, 2)]), "size in shifts must be a finite number > 0"),
    (lambda: calibrated("laplace", [(1.0, 0)]), "count in shifts must be an integer >= 1"),
    (lambda: calibrated("laplace", [(1.0, 1.5)]), "count in shifts must be an integer"),
    (lambda: calibrated("laplace", MIXED, 0.0), "epsilon must be a finite number > 0"),
    (lambda: calibrated("laplace", MIXED, 1.0, 1.0), r"delta must be a number in \[0, 1\)"),
    (lambda: calibrated("laplace", MIXED, neighbors="both"), "neighbors must be one of"),
    (lambda: calibrated("gaussian", MIXED, 1.0, 0.0), "delta must be > 0"),
    (lambda: calibrated("flipped_huber", MIXED, 1.0, 0.0), "delta must be > 0"),
    (lambda: calibrated("truncated_laplace", MIXED, 1.0, 0.0), "delta must be > 0"),
]


@pytest.mark.parametrize(("make", "text"), BAD, ids=[text for _, text in BAD])
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=text):
        make()
