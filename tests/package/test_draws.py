"""Draws are near draws of the exact law: for every word of the generator, in both tails."""

import itertools
import math
from fractions import Fraction

import inner_package
import mpmath
import numpy as np
import pytest
from exact_law import exact
from inner_package import discrete_laplace, exponentials, gamma, gammas, gumbels, normals, uniforms
from mpmath import mpf
from scipy.stats import binom, chi2, kstest

from skdp import noise
from skdp.geometry import LpBall
from skdp.noise import FlippedHuber, Gaussian, Laplace, Logistic, OffsetGaussian, Subbotin

ULP = mpf(2) ** -53


class Words:
    """A generator that gives the uniform numbers k 2^-53 that it was told, one after the other."""

    def __init__(self, *words):
        self.words = list(words)

    def random(self, size=None):
        count = 1 if size is None else int(np.prod(size))
        taken, self.words = self.words[:count], self.words[count:]
        assert len(taken) == count
        x = np.array(taken, dtype=float) * 2.0**-53
        return x[0] if size is None else x.reshape(size)


def ends(*words):
    """The least and the greatest real uniform variable that has these words, by `uniforms`."""
    factor = mpf(1)
    for word in words[:-1]:
        assert word < 2**51
        factor /= 4
    return factor * words[-1] * ULP, factor * (words[-1] + 1) * ULP


FEW = [(2**53 - 1,), (2**51,), (2**52 + 12345,), (0, 2**51), (0,) * 9 + (2**53 - 1,)]
FEW += [(2**51 - 1, 2**52 - 1), (5, 0, 2**51 + 1), (0,) * 400 + (2**52,)]


@pytest.mark.parametrize("words", FEW, ids=lambda w: f"{len(w)} words")
def test_a_draw_is_near_all_real_draws_with_its_words(words):
    """The real variable lies in a cell of the grid: its image is within the stated distance.

    Computed with 50 digits at both ends of the cell; log is monotone between them. The last case
    is 2^-800: a sampler with one word would have ended at 2^-53.
    """
    with mpmath.workdps(50):
        low, high = ends(*words)
        u = mpf(float(uniforms(1, Words(*words))[0]))
        for real in (low, high):
            assert abs(u - real) <= mpf(2) ** -51 * real
            for coin, value in levels(real):
                drawn = mpf(float(exponentials(1, Words(*words, coin))[0]))
                assert abs(drawn - value) <= mpf(2) ** -50 * value
                gumbel = mpf(float(gumbels(1, Words(*words, coin))[0]))
                off = abs(gumbel + mpmath.log(value))
                assert off <= mpf(2) ** -49 * (1 + abs(mpmath.log(value)))


def levels(real):
    """What real exponential variables are made of: both outcomes of the coin."""
    if real > 0:
        yield 2**53 - 1, -mpmath.log1p(-real / 2)
        yield 0, mpmath.log(2) - mpmath.log(real)


def test_normal_draws_are_near_real_ones():
    """Box and Muller's method at 50 digits: radius and angle at the ends of their cells."""
    with mpmath.workdps(50):
        for words in FEW[:7]:
            for turn in (0, 1, 2**51, 2**52 - 1, 2**53 - 1, 123456789):
                for real, end in itertools.product(ends(*words), (turn * ULP, (turn + 1) * ULP)):
                    for coin, level in levels(real):
                        pair = normals(2, Words(*words, coin, turn))
                        radius, angle = mpmath.sqrt(2 * level), 2 * mpmath.pi * end
                        units = mpmath.cos(angle), mpmath.sin(angle)
                        for drawn, unit in zip(pair, units, strict=True):
                            off = abs(mpf(float(drawn)) - radius * unit)
                            assert off <= mpf(2) ** -49 * radius


@pytest.mark.parametrize(
    "sampler", ["uniforms", "exponentials", "normals", "gumbels", "gamma", "gammas"]
)
def test_draws_have_their_law(sampler):
    """60,000 draws against scipy's distribution function; a false alarm below 1e-8."""
    rng, n = np.random.default_rng(1), 60_000
    draws, law = {
        "uniforms": (lambda: uniforms((n // 2, 2), rng).ravel(), "uniform"),
        "exponentials": (lambda: exponentials(n, rng), "expon"),
        "normals": (lambda: normals((n // 3, 3), rng).ravel(), "norm"),
        "gumbels": (lambda: gumbels(n, rng), "gumbel_r"),
        "gamma": (lambda: np.array([gamma(3, rng) for _ in range(n // 10)]), "gamma"),
        "gammas": (lambda: gammas(3, n, rng), "gamma"),
    }[sampler]
    args = (3,) if sampler.startswith("gamma") else ()
    x = draws()
    assert kstest(x, law, args=args).pvalue > 1e-8
    assert kstest(0.95 * x + 0.05, law, args=args).pvalue < 1e-8 or sampler == "gamma"  # 6000 draws


@pytest.mark.parametrize("shape", [1.0, 1.2, 50.0, 3000.0])
def test_gamma_draws_of_any_shape(shape):
    """20,000 draws against scipy, a false alarm below 1e-8; a shape of 10 % more is caught."""
    rng = np.random.default_rng(2)
    x = gammas([shape] * 20_000, 20_000, rng)
    assert kstest(x, "gamma", args=(shape,)).pvalue > 1e-8
    assert kstest(x, "gamma", args=(1.1 * shape,)).pvalue < 1e-8


def test_normals_of_any_shape():
    rng = np.random.default_rng(0)
    assert normals(None, rng).shape == ()
    assert normals(0, rng).shape == (0,)
    assert normals((2, 3), rng).shape == (2, 3)
    # A pair of one radius is as good as two: the product has no correlation.
    x = normals(60_000, rng)
    assert abs(np.mean(x[:30_000] * x[30_000:])) < 6 / math.sqrt(30_000)


def some_at_once(scale, n, at_once, rng):
    return np.concatenate([discrete_laplace(scale, at_once, rng) for _ in range(n // at_once)])


@pytest.mark.parametrize(
    ("scale", "at_once"),
    [(1, 100_000), (2, 50), (7, 2), (7, 100_000), (2**35, 100_000), (2**35, 50), (2**35, 2)],
)
def test_discrete_laplace_noise_has_exactly_its_law(scale, at_once):
    """100,000 draws: chi-square of cells of the exact masses, a false alarm below 1e-8.

    Few draws are made in another way than many. The twin, noise of 5 % less scale, is caught.
    """
    rng, n = np.random.default_rng(scale), 100_000 if at_once > 2 else 20_000
    with mpmath.workdps(40):
        ratio = mpmath.exp(-mpf(1) / scale)
        edges = sorted({round(k * scale / 4) for k in range(-12, 13)})

        def below(k):  # P(D <= k), k >= 0, and P(D < -k) by symmetry
            return 1 - ratio ** (k + 1) / (1 + ratio) if k >= 0 else ratio**-k / (1 + ratio)

        masses = np.diff([0.0, *(float(below(k)) for k in edges), 1.0])
    kept = masses * n > 5

    def chance(draws):
        counts = np.bincount(np.searchsorted(edges, draws), minlength=len(masses))
        statistic = (((counts - n * masses) ** 2) / (n * masses))[kept].sum()
        return chi2(kept.sum()).sf(statistic)

    assert chance(some_at_once(scale, n, at_once, rng)) > 1e-8
    if scale > 100 and at_once > 2:
        assert chance(some_at_once(round(scale * 0.95), n, at_once, rng)) < 1e-8


@pytest.mark.parametrize("at_once", [50_000, 50])
def test_the_lowest_bit_of_discrete_laplace_noise_is_fair(at_once):
    """Binomial limits at 1e-8: the exact share of even numbers is 1/2 + 2^-73 at this scale."""
    draws = some_at_once(2**35, 50_000, at_once, np.random.default_rng(3))
    low, high = binom(50_000, 0.5).ppf([1e-8, 1 - 1e-8])
    assert low <= (draws % 2 == 0).sum() <= high


DRAWN = [Laplace(0.7), Logistic(1.3), Gaussian(2.0), FlippedHuber(0.55, 1.1), FlippedHuber(3.0)]
DRAWN += [OffsetGaussian(0.5), OffsetGaussian(30.0), Subbotin(1.0), Subbotin(6.0)]
DRAWN += [noise.TruncatedLaplace(3.0, 1.0)]


@pytest.mark.parametrize("law", DRAWN, ids=repr)
def test_a_law_follows_its_exponential_draw_to_its_granularity(law):
    """The inverse of the hazard against 50 digits: a tenth of the granularity that is stated.

    Levels up to 90: beyond, a draw of the law has probability e^-90.
    """
    truth, within = exact(law), 0.1 * float(law.granularity) * law.std()
    for level in (1e-9, 1e-3, 0.2, 0.7, 3.0, 20.0, 90.0):
        x = float(law._inverse_hazard(np.asarray(level)))
        if law.support() - x <= within:
            continue
        with mpmath.workdps(50):
            if level < 0.5:
                found = -mpmath.log1p(-2 * truth.share_within(mpf(x)))
            else:
                found = -mpmath.log(2) - truth.log_tail(mpf(x))
            # The hazard rate: density over tail.
            rate = mpmath.exp(truth.log_density(mpf(x)) + mpmath.log(2) + found)
            assert abs(found - mpf(level)) / rate <= within


@pytest.mark.parametrize("shape", [1.0, 1.25, 4.0])
def test_gamma_draws_have_their_mean_and_variance(shape):
    """A shape that is wrong by a sixtieth moves the mean by ten standard errors or more."""
    n = 4_000_000
    x = gammas(shape, n, np.random.default_rng(5))
    assert abs(x.mean() - shape) < 6 * math.sqrt(shape / n)
    assert kstest(x[:1_000_000], "gamma", args=(shape,)).pvalue > 1e-8
    fourth = 3 * shape**2 + 6 * shape
    assert abs(((x - shape) ** 2).mean() - shape) < 6 * math.sqrt((fourth - shape**2) / n)


@pytest.mark.parametrize(("rows", "degrees"), [(1, 2), (3, 4), (12, 13)])
def test_a_wishart_matrix_is_near_the_exact_product(rows, degrees):
    factor = normals((rows, degrees), np.random.default_rng(6))
    found = inner_package.wishart(rows, degrees, np.random.default_rng(6))
    exact = [[Fraction(x) for x in row] for row in factor.tolist()]
    for i in range(rows):
        for j in range(rows):
            product = sum(x * y for x, y in zip(exact[i], exact[j], strict=True))
            assert abs(Fraction(float(found[i, j])) - product) <= Fraction(2) ** -48 * degrees


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_the_length_of_a_draw_from_an_lp_ball_has_its_mean(p):
    """|U|_p^d is uniform: its mean is 1/2, with a standard error of .0003."""
    for dim in (1, 3):
        points = LpBall(dim, p).sample(1_000_000, np.random.default_rng(7))
        assert abs((LpBall(dim, p).gauge(points) ** dim).mean() - 0.5) < 6 / math.sqrt(12e6)
