"""The noise laws: one battery for all, their limits, their errors, and that they can fail."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from law_battery import DRAWS, check_draws, check_law, check_tails

from skdp import noise
from skdp.noise import FlippedHuber, Gaussian, Laplace, OffsetGaussian, Subbotin, TruncatedLaplace
from skdp.noise import law as noise_law

KINDS = [
    Laplace(0.7), Gaussian(), noise.Logistic(), Subbotin(7.5), FlippedHuber(0.55, 1.1),
    TruncatedLaplace(3.0), OffsetGaussian(0.5),
]  # fmt: skip
SHAPES = [
    Laplace(1e-5),
    Gaussian(1e5),
    noise.Logistic(1e-5),
    *(Subbotin(r) for r in (1.0, 2.0, 100.0)),
    *(FlippedHuber(alpha, 1.1) for alpha in (0.0, 1e-6, 0.4, 2.0, 20.0, 1e6)),
    FlippedHuber(3.0, 1e-6),
    *(TruncatedLaplace(bound) for bound in (1e-6, 0.7, 80.0)),
    *(OffsetGaussian(offset) for offset in (0.0, 3.0, 1e6)),
]
LAWS = KINDS + SHAPES
MORE = [
    *(Subbotin(r, 0.3) for r in (1.01, 3.0, 1e3)),
    *(FlippedHuber(alpha, 0.9) for alpha in np.geomspace(1e-5, 1e5, 9).round(12)),
    *(TruncatedLaplace(bound, 1.3) for bound in (1e-50, 0.9, 700.0)),
    *(OffsetGaussian(offset, 2.0) for offset in (1e-6, 3.99, 50.0, 1e100)),
]


ELSEWHERE = pytest.mark.slow("the battery at parameters far from the usual ones")
CASES = [(law, DRAWS) for law in KINDS]
CASES += [(law, 50_000) for law in SHAPES]  # too few draws for the twin
CASES += [pytest.param(law, DRAWS, marks=ELSEWHERE) for law in MORE]


@pytest.mark.parametrize(("law", "draws"), CASES, ids=repr)
def test_law(law, draws):
    check_law(law, np.random.default_rng(7), draws=draws)


@dataclass(frozen=True)
class NarrowDraws(Laplace):
    """A twin whose draws are 5 % too small."""

    def rvs(self, size, rng):
        return 0.95 * super().rvs(size, rng)


@dataclass(frozen=True)
class LostTail(Gaussian):
    """A twin whose tail is one minus a distribution function."""

    def logsf(self, x):
        with np.errstate(divide="ignore"):
            return np.log(1 - self.cdf(x))


def test_the_battery_sees_twins():
    with pytest.raises(AssertionError):
        check_draws(NarrowDraws(), np.random.default_rng(7), DRAWS)
    with pytest.raises(AssertionError):
        check_tails(LostTail())


class Positive(np.random.Generator):
    """A generator whose numbers make every sign positive."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))

    def random(self, size=None):
        return np.full(() if size is None else size, 0.75)


BY_INVERSION = [law for law in LAWS if not isinstance(law, Gaussian | Subbotin)]


@pytest.mark.parametrize("law", BY_INVERSION, ids=repr)
@pytest.mark.parametrize("level", [1e-12, 0.3, 2.0, 36.0, 37.5, 100.0, 690.0])
def test_draws_reach_all_of_the_tail(law, level, monkeypatch):
    """36 is where a uniform variable with 53 bits would end: a law follows its exponential draw."""
    monkeypatch.setattr(noise_law, "exponentials", lambda size, rng: np.full(size, level))
    x = law.rvs(3, Positive())
    if level < 0.5:
        expected = law.isf(0.5 - 0.5 * -math.expm1(-level))
        np.testing.assert_allclose(x, expected, rtol=1e-4)
    else:
        np.testing.assert_allclose(x, law.isf(math.exp(-level) / 2), rtol=1e-12)


def test_a_law_of_ones_own_needs_six_members():
    class Own:
        logpdf = logsf = isf = rvs = var = scaled = abs

    class NoTail:
        logpdf = isf = rvs = var = scaled = abs

    assert isinstance(Own(), noise.Law)
    assert not isinstance(NoTail(), noise.Law)


QUANTILES = np.concatenate([np.geomspace(1e-300, 0.4, 200), 0.5 - np.geomspace(1e-15, 0.1, 40)])


# Laws that are nearly others, the relative error, and that of the moments.
LIMITS = [
    (Subbotin(1.0, 0.3), Laplace(0.3), 4e-14, None),
    (Subbotin(2.0, 0.3), Gaussian(0.3), 4e-14, None),
    (FlippedHuber(0.0, 3.0), Gaussian(3.0), 4e-15, None),
    (OffsetGaussian(0.0, 3.0), Gaussian(3.0), 4e-15, None),
    # f(0) grows by bend^2 / 2 of itself, the tails by less, the information by .8 bend.
    *(
        (FlippedHuber(2 * bend, 2.0), Gaussian(2.0), bend**2 + 1e-14, bend + 1e-14)
        for bend in (1e-8, 1e-6, 1e-4, 1e-2)
    ),
    # All that is beyond the bend has probability exp(-bend^2) < 1e-340.
    *((FlippedHuber(2 * b, 2.0), Laplace(2.0 / b), 4e-15, None) for b in (28.0, 100.0, 1e6, 1e100)),
    # The potential is off by its square over 2 offset^2, and log f(0) by 1 / offset^2.
    *(
        (OffsetGaussian(offset), Laplace(1 / offset), 700 / offset**2 + 1e-14, None)
        for offset in (1e5, 1e6, 1e8, 1e100)
    ),
]


@pytest.mark.parametrize(("law", "other", "rtol", "moments"), LIMITS)
def test_laws_that_are_nearly_others(law, other, rtol, moments):
    """Both have the same tails, quantiles and moments."""
    x = law.isf(QUANTILES)
    np.testing.assert_allclose(x, other.isf(QUANTILES), rtol=rtol)
    np.testing.assert_allclose(law.logsf(x), other.logsf(x), rtol=rtol)
    np.testing.assert_allclose(law.logsf(-x), other.logsf(-x), rtol=1000 * rtol)
    np.testing.assert_allclose(law.logpdf(x), other.logpdf(x), rtol=rtol, atol=rtol)
    moments = moments or rtol
    assert law.var() == pytest.approx(other.var(), rel=moments)


@pytest.mark.parametrize("law", [TruncatedLaplace(1.0, 1e12), Subbotin(1e12)], ids=repr)
def test_flat_laws_are_nearly_uniform(law):
    x = np.array([1e-9, 0.1, 0.5, 0.9])
    np.testing.assert_allclose(law.sf(x), (1 - x) / 2, rtol=1e-9)
    np.testing.assert_allclose(law.isf((1 - x) / 2), x, rtol=1e-6)
    assert law.var() == pytest.approx(1 / 3, rel=1e-10)


@pytest.mark.parametrize("shape", ["alpha", "offset", "r", "bound"])
def test_no_formula_jumps_where_another_takes_over(shape):
    """Neighbouring shapes, 1e-7 apart, have tails and moments that are no further apart."""
    make = {
        "alpha": lambda a: FlippedHuber(a, 1.0),
        "offset": lambda o: OffsetGaussian(o, 1.0),
        "r": lambda r: Subbotin(1 + r, 1.0),
        "bound": lambda b: TruncatedLaplace(b, 1.0),
    }[shape]
    q = np.array([1e-300, 1e-10, 0.1, 0.3, 0.49])
    for value in np.geomspace(1e-7, 50, 150):
        one, two = make(value), make(value * (1 + 1e-7))
        np.testing.assert_allclose(one.isf(q), two.isf(q), rtol=3e-7)
        assert one.var() == pytest.approx(two.var(), rel=4e-7)


def test_the_bound_of_a_truncated_law_is_hard():
    law = TruncatedLaplace(2.0)
    assert law.support() == 2.0
    assert law.sf(2.0) == law.cdf(-2.0) == law.pdf(2.1) == 0
    assert law.logsf(2.0) == -math.inf
    assert np.abs(law.rvs(10_000, np.random.default_rng(0))).max() < 2
    just = np.nextafter(2.0, 0.0)
    left = (2.0 - just) * math.exp(-2) / (2 * -math.expm1(-2))
    assert law.sf(just) == pytest.approx(left, rel=1e-14)
    # Inside, outside on the right, outside on the left; beyond both, the middle.
    assert law.log_ratio([0.0, 1.5, -3.0, -0.5], 1.0).tolist() == [1.0, math.inf, -math.inf, 0.0]
    assert law.crossing(1.0, [0.5, 1.0, 50.0]).tolist() == [-0.25, 1.0, 1.0]


def test_the_crossing_of_a_level_loss_is_its_far_end():
    """Laplace losses are level at +- shift / scale outside [-shift, 0]."""
    law = Laplace(2.0)
    at = law.crossing(1.0, [-0.51, -0.5, 0.0, 0.49, 0.5])
    np.testing.assert_allclose(at, [-np.inf, -1.0, -0.5, -0.01, np.inf], atol=1e-15)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Laplace(0.0), "scale must be a finite number > 0, got 0.0"),
        (lambda: Gaussian(math.nan), "scale must be a finite number > 0, got nan"),
        (lambda: noise.Logistic("1"), "scale must be a finite number > 0, got '1'"),
        (lambda: Subbotin(0.99), "r must be a number in .1, inf., got 0.99. For r < 1"),
        (lambda: Subbotin(math.inf), "r must be"),
        (lambda: FlippedHuber(-1.0), "alpha must be a number in"),
        (lambda: FlippedHuber(1.0, 0.0), "gamma must be a finite number > 0"),
        (lambda: FlippedHuber(1.0, 1e-200), "alpha / gamma must be .* Take Laplace"),
        (lambda: TruncatedLaplace(0.0), "bound must be a finite number > 0"),
        (lambda: TruncatedLaplace(1e-200), "bound / scale must be"),
        (lambda: OffsetGaussian(-0.1), "offset must be a number in"),
        (lambda: OffsetGaussian(1e200), "offset / scale must be .* Take Laplace"),
        (lambda: Laplace().scaled(0.0), "s must be a finite number > 0"),
        (lambda: Gaussian(1e300).scaled(1e300), "scale must be a finite number > 0, got inf"),
    ],
)
def test_parameters_out_of_range_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@pytest.mark.parametrize(
    "law", [Laplace(), Gaussian(), FlippedHuber(), OffsetGaussian(), Subbotin(6)]
)
def test_scales_next_to_the_ends_of_the_floats(law, scale):
    """Nothing raises; a variance may be 0 or inf, a standard deviation is not."""
    wide = law.scaled(scale)
    np.testing.assert_allclose(wide.isf([1e-300, 0.1]), scale * law.isf([1e-300, 0.1]), rtol=1e-13)
    assert wide.std() == pytest.approx(scale * law.std())
    assert wide.var() in (0.0, math.inf)
    assert wide.log_ratio(scale, scale) == pytest.approx(law.log_ratio(1.0, 1.0))
