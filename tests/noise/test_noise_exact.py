"""The noise laws against fifty digits got by quadrature of their densities."""

import math

import mpmath
import numpy as np
import pytest
from exact_law import DIGITS, exact
from mpmath import mpf

from skdp import noise
from skdp.noise import FlippedHuber, Gaussian, Laplace, OffsetGaussian, Subbotin, TruncatedLaplace

FEW = [
    Laplace(0.7), Gaussian(2.0), noise.Logistic(0.3), Subbotin(3.5, 2.0), Subbotin(100.0),
    FlippedHuber(0.1, 1.3), FlippedHuber(1e-3, 1.1), FlippedHuber(2.0, 1.0), FlippedHuber(1e6, 1.0),
    TruncatedLaplace(3.0, 1.0), TruncatedLaplace(80.0, 1.1), OffsetGaussian(0.3, 1.0),
    OffsetGaussian(30.0, 1.0),
]  # fmt: skip
MANY = [
    *(Subbotin(r) for r in (1.0, 1.5, 20.0)),
    *(FlippedHuber(a, 1.1) for a in (0.0, 0.55, 5.0, 30.0)),
    *(TruncatedLaplace(b) for b in (1e-6, 0.7)),
    *(OffsetGaussian(o) for o in (0.0, 2.0, 1e6)),
]
LAWS = FEW + [
    pytest.param(law, marks=pytest.mark.slow("more cases, in fifty digits")) for law in MANY
]
TAILS = [1e-320, 1e-300, 1e-30, 0.01, 0.24, 0.26, 0.4999999, 0.5 - 2.0**-54]


@pytest.mark.rest_is_slow(5)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_tails_and_quantiles_have_fourteen_digits(law):
    """Of log P(X > x), on both sides of 0, of log f(x), and of x at a given tail."""
    truth = exact(law)
    with mpmath.workdps(DIGITS):
        for q, x in zip(TAILS, law.isf(TAILS), strict=True):
            t = mpf(float(x))
            if t >= truth.end * (1 - 1e-9):
                continue  # the floats next to the end are too coarse to tell such tails apart
            log_tail, log_density = truth.log_tail(t), truth.log_density(t)
            assert off(law.logsf(x), log_tail) < 4e-14
            # exp(log_tail) has the roundings of log_tail, up to 690.
            below = mpmath.log1p(-mpmath.exp(log_tail))
            assert abs(law.logsf(-x) - below) < 6e-13 * abs(below) + 1e-323
            assert off(law.logpdf(x), log_density) < 3e-15 * max(1, 1 / abs(log_density))
            # Digits of x: from the tail's by its hazard rate, near 0 from the mass within x.
            if q > 0.25:
                error = truth.share_within(t) / (mpf(0.5) - mpf(q)) - 1
            else:
                error = (log_tail - mpmath.log(mpf(q))) / (t * mpmath.exp(log_density - log_tail))
            assert abs(error) < 2e-14


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_variance_has_fourteen_digits(law):
    truth = exact(law)
    with mpmath.workdps(DIGITS):
        assert off(law.var(), truth.variance()) < 4e-15


@pytest.mark.parametrize("law", FEW, ids=repr)
@pytest.mark.parametrize("shift", [1e-12, 0.3, 4.0, 500.0])
def test_the_log_ratio_cancels_nothing(law, shift):
    """Also next to the middle, where both densities agree, and a 1e-12 apart."""
    truth = exact(law)
    x = -shift / 2 + np.array([1e-9, 1e-3, 0.4, 2.0, 30.0, 1e4]) * shift
    with mpmath.workdps(DIGITS):
        for here in x:
            ends = abs(mpf(float(here))), abs(mpf(float(here)) + mpf(shift))
            if max(ends) > truth.end:
                assert law.log_ratio(here, shift) == math.inf
            else:
                expected = truth.potential(ends[1]) - truth.potential(ends[0])
                found = law.log_ratio(here, shift)
                if 1e-300 < expected < 1e300:
                    assert off(found, expected) < 2e-14
                else:
                    assert (found < 1e-299) == (expected < 1)


@pytest.mark.parametrize("z", [1e-3, 0.05, 0.3, 0.49, 0.51, 2.0, 99.0, 101.0])
def test_great_powers_keep_the_tail_where_almost_all_is_within(z):
    """P(|X| > x) is some 1 / r there: one minus the rest would have lost three digits."""
    law = Subbotin(1000.0)
    x = float((law.r * z) ** (1 / law.r))
    with mpmath.workdps(DIGITS):
        exactly = mpf(x) ** 1000 / 1000
        log_tail = mpmath.log(mpmath.gammainc(mpf(1) / 1000, exactly, regularized=True) / 2)
        assert off(law.logsf(x), log_tail) < 5e-15


def test_a_tail_with_one_digit_less_is_seen():
    """The comparison itself can fail: a tail taken as 1 - cdf loses everything."""
    truth = exact(Gaussian())
    with mpmath.workdps(DIGITS):
        assert off(math.log(1 - float(Gaussian().cdf(5.0))), truth.log_tail(mpf(5))) > 1e-13


def off(found, expected):
    """The relative error."""
    return abs(mpf(float(found)) / expected - 1)
