"""Releases: exact integers on a public lattice, whose exact cell probabilities keep the guarantee.

``docs/proofs/lattice_release.md``: Theorem 1 is checked by enumeration with a coarse sampler,
Lemma 2 by privacy profiles, and the low bits of every noise by chi-square tests that catch the
releases as they once were.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from low_bits import check_release

from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.mechanisms import Independent, MatrixLaplace, Sensitivity, calibrate
from skdp.mechanisms.independent import calibrate_releases
from skdp.noise import Gaussian, Laplace, Logistic, Staircase, Tulap
from skdp.noise.matrix import MatrixGaussianNoise
from skdp.privacy import Guarantee
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.ball import _generalised_normal
from skdp.trusted.losses import GaussianLoss
from skdp.trusted.noise import paid_in_full, release
from skdp.trusted.randomness import Lattice, publish_near

# Theorem 1, exactly


def dithered(masses, scale, bound):
    """Exact masses of k + D for k of given masses and discrete Laplace D, |k + D| <= bound."""
    ratio = math.exp(-1 / scale)
    own = (1 - ratio) / (1 + ratio)
    out = np.zeros(2 * bound + 1)
    for k, mass in masses.items():
        out += mass * own * ratio ** np.abs(np.arange(-bound, bound + 1) - k)
    return out


def laplace_on_grid(width, grid, offset):
    """Masses of Laplace noise rounded to grid points, and moved: a sampler with a coarse grid."""

    def below(x):
        return 0.5 * math.exp(x / width) if x < 0 else 1 - 0.5 * math.exp(-x / width)

    points = range(-60 * width // grid, 60 * width // grid + 1)
    return {k * grid + offset: below((k + 0.5) * grid) - below((k - 0.5) * grid) for k in points}


@pytest.mark.parametrize("move", [1, 2, 7])
def test_dither_bounds_every_likelihood_ratio_of_a_coarse_sampler(move):
    """A sampler that reaches every fourth point only, off by at most 2 from the exact law.

    Sums of all masses, in floats of 16 digits: the log-ratio of any outcome is at most that of
    the exact law, move / 40, and 2 times 2 / scale (Theorem 1, a = 2). The twin without dither
    has outcomes that one data set cannot give; a twin with too little of it exceeds the bound.
    """
    sampler, scale, bound = laplace_on_grid(40, 4, 0), 50, 400
    moved = {k + move: mass for k, mass in sampler.items()}

    def worst(scale):
        one, two = dithered(sampler, scale, bound), dithered(moved, scale, bound)
        return float(np.max(np.abs(np.log(one / two))))

    assert worst(scale) <= move / 40 + 2 * 2 / scale
    assert set(sampler) != set(moved)
    assert worst(1) > move / 40 + 2 * 2 / scale


def test_the_sampled_masses_are_those_of_the_theorem():
    """Lattice.release with the coarse sampler, 60,000 draws: chi-square at 1e-8, and its twin.

    Cells of the lattice hold four points of the finer grid, which a tie of rounding would show.
    """
    lattice = Lattice(np.zeros(1, int) + 2, np.zeros(1, int), 5)
    sampler = laplace_on_grid(8, 2, 0)
    rng, n, bound = np.random.default_rng(0), 60_000, 200
    shares = np.array(list(sampler.values()))
    draws = rng.choice(np.array(list(sampler)), n, p=shares / shares.sum()).astype(float)
    many = Lattice(np.full(n, 2), np.zeros(n, int), 5)
    for exact in (0, 3):
        found = many.release([exact] * n, 0, draws, rng) / 4
        fine = dithered({k + exact: m for k, m in sampler.items()}, 5, bound)
        masses = np.add.reduceat(fine, np.arange(0, 2 * bound + 1, 4))  # floor((k) / 4)
        counts = np.bincount(found.astype(int) + bound // 4, minlength=len(masses))
        kept = masses * n > 10
        off = ((counts[: len(masses)] - n * masses) ** 2 / (n * masses))[kept].sum()
        assert off < 60 + kept.sum() * 3
        twin = np.roll(masses, 1)
        off = ((counts[: len(masses)] - n * twin) ** 2 / (n * twin + 1e-9))[kept].sum()
        assert off > 1000
    assert lattice.cost == 1 / 5


@settings(deadline=None, max_examples=200)
@given(
    st.integers(-(2**70), 2**70), st.integers(-60, 20), st.floats(-1e12, 1e12), st.integers(-12, 12)
)
def test_a_release_is_the_exact_sum_rounded_down(exact, unit, noise, size):
    """In rational arithmetic: with the dither known, floor(floor(T + X) + D) on both grids."""
    lattice = Lattice.of([math.ldexp(1.0, size)])
    seeded = [np.random.default_rng(5) for _ in range(2)]
    found = lattice.release([exact], unit, np.array([noise]), seeded[0])[0]
    fine, top = Fraction(2) ** int(lattice.fine[0]), Fraction(2) ** int(lattice.spacing[0])
    dither = publish_near(np.zeros(1), 0, lattice.dither, seeded[1])[0]
    total = exact * Fraction(2) ** unit + Fraction(noise)
    cell = (total // fine + int(dither)) * fine // top
    if abs(cell) < 2**53:
        assert Fraction(found) == cell * top
    assert Fraction(found) % top == 0


def test_halves_are_rounded_down_and_zero_has_no_sign():
    """Round-half-even would send 2.5 and 3.5 to even neighbours."""
    lattice = Lattice(np.zeros(4, int), np.full(4, -1), 1)
    found = lattice.add([5, 7, -5, 0], -1, [0, 0, 0, 0])
    assert found.tolist() == [2.0, 3.0, -3.0, 0.0]
    assert not np.signbit(found[3])


def test_numbers_beyond_floats_end_at_the_greatest():
    lattice = Lattice(np.zeros(2, int), np.zeros(2, int), 1)
    top = np.finfo(float).max
    assert lattice.add([2**1030, -(2**1030)], 0, [0, 0]).tolist() == [top, -top]


# Lemma 2: what pays


@pytest.mark.parametrize("loss", [GaussianLoss(0.2), GaussianLoss(3.0), ShiftLoss(Laplace(), 0.3)])
def test_a_shorter_shift_pays_for_the_dither_at_every_epsilon(loss):
    """e^t delta_(lambda mu)(epsilon - 2 t) <= delta_mu(epsilon), t = 1e-4 of the distance.

    A twin that pays a tenth is found out.
    """
    distance = math.exp(float(loss.log_delta(0.0)))
    cost = 1e-4 * distance

    def shrunk(share):
        if isinstance(loss, GaussianLoss):
            return GaussianLoss(loss.mu * (1 - share))
        return ShiftLoss(loss.law, loss.shift * (1 - share))

    def excess(share):
        worst = -math.inf
        for epsilon in np.concatenate([[0.0], np.geomspace(1e-6, 20, 400)]):
            shorter = shrunk(share)
            # Either end of the bound: on what is odd, and on what is usual.
            paid = 1 - math.exp(-cost) * (1 - math.exp(float(shorter.log_delta(epsilon))))
            if epsilon >= 2 * cost:
                odd = math.exp(cost + float(shorter.log_delta(epsilon - 2 * cost)))
                paid = min(paid, odd)
            claimed = math.exp(float(loss.log_delta(epsilon)))
            worst = max(worst, paid - claimed * (1 + 1e-12))
        return worst

    assert excess(paid_in_full(cost, distance)) <= 0
    assert excess(0.1 * paid_in_full(cost, distance)) > 0


def test_pure_noise_pays_twice_the_cost():
    """lambda epsilon + 2 t = epsilon: for Laplace noise the loss of the stretched law, exactly."""
    noise = calibrate("l1", Sensitivity(LpBall(1)), epsilon=0.5)
    lattice, stretch = noise.publication
    assert 0.5 / stretch + 2 * lattice.cost <= 0.5
    assert stretch < 1 + 1e-8


# Every noise


def balls(name, radius):
    return calibrate(
        name,
        Sensitivity(LpBall(2), radius),
        epsilon=0.05,
        delta=1e-6 if name in ("gaussian", "elliptic") else 0.0,
    )


def moments(rows, epsilon=1.0):
    ball = MomentBall(MomentLayout(rows, range(rows)), level=0)
    return MatrixLaplace().calibrate(Sensitivity(ball), epsilon=epsilon)


NOISES = {
    "gaussian, sd 3e-3": lambda: balls("gaussian", 1e-4),
    "gaussian, sd 3e8": lambda: balls("gaussian", 1e7),
    "l1": lambda: balls("l1", 1.0),
    "l2, sd 1e8": lambda: balls("l2", 1e6),
    "linf, sd 1e-3": lambda: balls("linf", 1e-5),
    "elliptic": lambda: balls("elliptic", 1.0),
    "elliptic l2, sd 1e-3": lambda: balls("elliptic_l2", 1e-5),
    "hull": lambda: balls("hull", 1e6),
    "logistic": lambda: balls("logistic", 1e3),
    "matrix Laplace, 20 columns": lambda: moments(20),
    "matrix Gaussian": lambda: MatrixGaussianNoise(
        MomentLayout(20, range(20)), 1e5, Guarantee(1.0, 1e-6)
    ),
}


@pytest.mark.parametrize("make", NOISES.values(), ids=NOISES)
def test_no_noise_shows_low_bits(make):
    check_release(make(), numbers=1280)


@pytest.mark.parametrize(
    "law", [Gaussian(1e4), Laplace(1e-3), Logistic(), Tulap(1.0), Staircase(1.0)]
)
def test_laws_publish_too(law):
    """Each number with a draw of its own; Tulap noise, too, hides the fraction of the value."""
    check_release(OfLaw(law), numbers=1280)


def test_repeated_noise_publishes_any_count():
    noise = calibrate_releases(
        "gaussian", [(0.1, 100)], neighbors="replace_one", epsilon=1.0, delta=1e-6
    )
    found = noise.release([1.0, 2.0, 3.0], 0)
    assert found.shape == (3,)
    check_release(OfLaw(noise), numbers=1280)


@dataclass
class OfLaw:
    """Forty numbers with draws of one law."""

    law: Any

    def variance(self):
        return np.full(40, self.law.var())

    def release(self, value, rng):
        return self.law.release(value, rng)


class Once:
    """The twin: the releases as they once were, multiples of 2^-40 with missing bits drawn."""

    def __init__(self, noise):
        self.noise = noise

    def variance(self):
        return self.noise.variance()

    def release(self, value, rng):
        noise = self.noise.rvs(rng)
        units = [math.floor(v) for v in np.ldexp(value, 40).tolist()]
        missing = np.maximum(np.frexp(noise)[1] - 13, 0).tolist()
        coarse = [math.floor(v) for v in np.ldexp(noise, 40).tolist()]
        rows = zip(units, coarse, missing, strict=True)
        return np.array([(u + c + int(rng.integers(2**m))) / 2**40 for u, c, m in rows])


class Added(Once):
    """The twin: a float and a draw."""

    def release(self, value, rng):
        return value + self.noise.rvs(rng)


class Showing(Once):
    """The twin: a lattice that starts at the value."""

    def release(self, value, rng):
        step = 2.0 ** np.floor(np.log2(np.sqrt(self.variance())) - 30)
        return value + np.floor(self.noise.rvs(rng) / step) * step


class Signed(Once):
    """The twin: zeros with a sign."""

    def release(self, value, rng):
        return -np.zeros_like(value)


def wishart_product(self, rng):
    """Wishart matrices as they were once multiplied, of which small differences stay."""
    rows = self.layout.n_rows
    plus, minus = rng.standard_normal((2, rows, rows + 1)) * np.sqrt(0.5 / self.precision)[:, None]
    return self.layout.statistic(plus @ plus.T - minus @ minus.T)


@pytest.mark.parametrize("twin", [Once, Added, Showing, Signed])
def test_twins_are_caught(twin, monkeypatch):
    noise = moments(40)
    monkeypatch.setattr(type(noise), "rvs", wishart_product)
    with pytest.raises(AssertionError, match="release must"):
        check_release(twin(noise), numbers=20_000)


# What a user may pass


BAD = [
    [1.0], [1.0, math.nan], [1.0, math.inf], "ab", [1.0, "7919.5x"], [[1.0, 2.0]], None, [1, 2, 3],
]  # fmt: skip


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_value_that_cannot_be_published_is_refused_before_anything_is_drawn(value):
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    with pytest.raises(ValueError, match="value must be 2 finite numbers") as caught:
        balls("l1", 1.0).release(value, rng)
    assert "7919" not in str(caught.value)
    assert rng.bit_generator.state == before


def test_noise_of_somebody_elses_is_published_by_the_function():
    """It needs guarantee, rvs and covariance; what it draws must be finite."""

    @dataclass
    class Own:
        bad: bool = False
        guarantee = Guarantee(1.0)

        def rvs(self, rng):
            return rng.laplace(size=2) * (math.nan if self.bad else 1.0)

        def covariance(self):
            return 2 * np.eye(2)

    check_release(Own(), numbers=1280)
    assert release(Own(), [0.5, 1e300], 0)[1] == pytest.approx(1e300)
    with pytest.raises(ValueError, match="noise must draw finite numbers"):
        release(Own(bad=True), [0.0, 0.0])


@pytest.mark.parametrize("epsilon", [1e-11, 2e-12])
def test_an_epsilon_that_53_bits_cannot_keep_is_refused(epsilon):
    """The dither of one number takes some 1e-10 of epsilon; it is said before anything is drawn."""
    noise = calibrate("l1", Sensitivity(LpBall(1)), epsilon=epsilon)
    with pytest.raises(ValueError, match="epsilon must be great enough for 1 numbers"):
        noise.release([1.0])


def test_noise_without_size_has_no_lattice():
    with pytest.raises(ValueError, match="standard deviations from"):
        Lattice.of([1.0, 0.0])
    with pytest.raises(ValueError, match="granularity"):
        Lattice.of([1.0], 0.5)


def test_integers_are_not_rounded_to_floats():
    """2^53 + 1 is no float, and as one it is 2 apart from the next: a release keeps it 1 apart."""
    law = Laplace(2.0**40)
    for start in (2**53, 2**60 + 128, 2**70):
        values = [[start + k] for k in (0, 1, 2)]
        if start < 2**62:
            values += [np.array([start + 1]), np.array([start + 1], dtype=object)]
        found = [law.release(v, 7)[0] for v in values]
        # The lattice's spacing is about 2^10, and the noise is the same: all but a few agree.
        assert len(set(found)) <= 2
    fine = Laplace(2.0**-10)
    one, two = (fine.release([2**40 + k], 7)[0] for k in (1, 2))
    assert two - one == 1.0
    odd, even = (Laplace(1e-3).release([2**53 + k], 7)[0] - 2.0**53 for k in (1, 2))
    assert {odd, even} <= {0.0, 2.0, -2.0}  # as floats, rounded down after the noise
    assert law.release([True, np.int64(3), np.float32(0.5), 0.1], 0).shape == (4,)


ODD = [np.ma.array([1.0, 2.0]), np.array([1j, 2.0]), np.array(["1", "2"]), np.longdouble([1, 2])]
ODD += [np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), [1.0, 2j], [1.0, "2"]]


@pytest.mark.parametrize("value", ODD, ids=lambda v: type(v).__name__ + str(np.asarray(v).dtype))
def test_what_is_no_plain_number_is_not_published(value):
    with pytest.raises(ValueError, match="value must be 2 finite numbers"):
        balls("l1", 1.0).release(value)


@pytest.mark.parametrize("granularity", [2.0**-20, 2.0**-31, 2.0**-42, 2.0**-69])
def test_the_lattice_is_no_finer_than_what_is_dithered(granularity):
    """Else low bits would pass by the dither, and great values would raise an error."""
    lattice = Lattice.of([3.0, 1e-5], granularity)
    assert (lattice.spacing >= lattice.fine).all()
    assert (lattice.fine >= np.log2([3.0, 1e-5]) - 57).all()
    for value in (0.0, 1e30, -1e-30):
        found = lattice.publish([value, value], lambda rng: rng.standard_normal(2), 0)
        assert np.isfinite(found).all()


class Coarse(Laplace):
    """A law whose draws are off by more than usual, and that says so."""

    granularity = 2.0**-25


def test_what_a_law_says_of_its_draws_is_heard_by_every_noise():
    alone = Independent(Coarse()).calibrate(Sensitivity(LpBall(1)), epsilon=1.0, delta=1e-6)
    budget = {"neighbors": "replace_one", "epsilon": 1.0, "delta": 1e-6}
    repeated = calibrate_releases(Coarse(), [(1.0, 1)], **budget)
    for noise in (alone, repeated):
        lattice = noise.publication.lattice
        deviation = math.sqrt(float(np.ravel(noise.covariance())[0]))
        assert lattice.fine[0] >= math.log2(deviation * 2.0**-25)
        assert noise.publication.stretch > 1 + 1e-6


def test_the_function_publishes_with_repeated_noise_as_its_method_does():
    """A thousand releases share the budget: one release pays by the distance of one."""
    noise = calibrate_releases("laplace", [(1.0, 1000)], neighbors="replace_one", epsilon=1.0)
    assert noise.publication.stretch > 1 + 1e-7
    assert release(noise, [0.5], 3) == noise.release([0.5], 3)
    assert noise.release([], 3).shape == (0,)

    class Odd:
        publication = "mine"

    with pytest.raises(ValueError, match="noise must have a publication"):
        release(Odd(), [0.5])


def test_sampled_laplace_coordinates_have_a_whole_tail():
    """numpy's Laplace sampler ends at 36 scales, with cells as wide as a tenth of a scale there."""

    class Low:
        """Uniform numbers below 1/4 forty times, one above, a coin and a sign."""

        def __init__(self):
            self.numbers = iter([1e-17] * 40 + [0.6, 0.1, 0.6])

        def random(self, size=None):
            return np.full(size, next(self.numbers))

    x = _generalised_normal((1, 1), 1.0, Low())
    assert 55 < abs(float(x[0, 0])) < 60


def test_no_sampler_is_taken_for_finer_than_usual():
    """A class with draws of its own inherits what its parent says of others."""

    class Fine(Laplace):
        granularity = 2.0**-50

    budget = {"neighbors": "replace_one", "epsilon": 1.0, "delta": 1e-6}
    noise = calibrate_releases(Fine(), [(1.0, 1)], **budget)
    usual = calibrate_releases(Laplace(), [(1.0, 1)], **budget)
    assert noise.publication.lattice.fine == usual.publication.lattice.fine


def test_the_size_of_matrix_noise_stays_as_its_lattice_knows_it():
    with pytest.raises(ValueError, match="read-only"):
        moments(3).precision[0] = 1.0
