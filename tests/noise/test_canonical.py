"""Canonical noise in one dimension: its defining properties, its digits, its draws."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from skdp.noise.canonical import CanonicalNoise, Tulap
from skdp.noise.laws import Logistic
from skdp.noise.steps import Staircase
from skdp.privacy import tradeoff

FUNCTIONS = {
    "gaussian": tradeoff.gaussian(1.0),
    "far gaussian": tradeoff.gaussian(5.0),
    "laplace": tradeoff.laplace(0.7),
    "logistic": tradeoff.from_law(Logistic(), 2.0),
    "pure": tradeoff.approximate(1.0),
    "approximate": tradeoff.approximate(0.5, 0.01),
    "uniform": tradeoff.approximate(0.0, 0.15),
}
NOISES = {name: CanonicalNoise(f) for name, f in FUNCTIONS.items()}
every = pytest.mark.parametrize("name", list(FUNCTIONS))
DRAWS = 20_000


def jumps(*shifts):
    """Half-integers, and the same moved, out to 12: where densities of cells may jump."""
    halves = np.arange(-12.5, 13)
    return np.unique(np.concatenate([halves + shift for shift in shifts]))


def least_delta(noise, shift, epsilon, parts=40):
    """The integral of (g(x - shift) - e^epsilon g(x))_+ by quadrature between the jumps.

    What lies beyond 12 is the difference of tails at most: it is left out, and is below 1e-3.
    """
    nodes, lengths = np.polynomial.legendre.leggauss(6)
    ends = jumps(0.0, shift % 1.0)
    ends = np.concatenate([np.linspace(a, b, parts + 1)[:-1] for a, b in pairwise(ends)])
    half = np.diff(ends)[:, None] / 2
    x = ends[:-1, None] + half * (1 + nodes)
    gain = np.maximum(noise.pdf(x - shift) - math.exp(epsilon) * noise.pdf(x), 0.0)
    return float((half * gain * lengths).sum())


@every
def test_a_move_of_one_is_told_apart_exactly_as_it_says(name):
    """f(alpha) = F(F^-1(1 - alpha) - 1), from 1e-300 up."""
    f, noise = FUNCTIONS[name], NOISES[name]
    alpha = np.array([1e-300, 1e-30, 1e-9, 1e-3, 0.02, 0.2, 0.31, 0.5, 0.8, 0.97, 1 - 1e-9])
    assert noise.cdf(noise.isf(alpha) - 1) == pytest.approx(f(alpha), rel=1e-9, abs=1e-13)


@every
def test_the_tail_recursion_holds(name):
    """log S(x + 1) = log f(1 - S(x)), far out too."""
    f, noise = FUNCTIONS[name], NOISES[name]
    x = np.array([-7.3, -2.2, -0.7, -0.1, 0.4, 1.3, 3.9, 8.6])
    x = x[x > -noise.support()]  # the upper tail cannot tell where below it there is nothing
    exact = f.log_miss(noise.logsf(x))
    finite = np.isfinite(exact)
    assert noise.logsf(x + 1)[finite] == pytest.approx(exact[finite], rel=1e-9, abs=1e-9)
    assert np.isneginf(noise.logsf(x + 1)[~finite]).all()


@pytest.mark.rest_is_slow(9)
@every
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
def test_no_smaller_move_is_told_apart_better(name, epsilon):
    """T(N, N + m) >= f for 0 < m < 1, by the profile; a twin with 5 % less noise is seen."""
    f, noise = FUNCTIONS[name], NOISES[name]
    allowed = f.delta_at(epsilon)
    for shift in (0.2, 0.5, 0.93):
        assert least_delta(noise, shift, epsilon) <= allowed + 1e-6
    assert least_delta(noise, 1.0, epsilon) == pytest.approx(allowed, abs=2e-4)
    if allowed > 1e-3:
        twin = noise.scaled(0.95)
        reached = max(least_delta(twin, s, epsilon, parts=400) for s in (0.97, 1.0))
        assert reached > allowed + 1e-4


@every
def test_the_quantile_undoes_the_tail(name):
    noise = NOISES[name]
    edge = min(noise.support(), 40.0)
    x = np.concatenate([[1e-300, 1e-12], np.linspace(0, edge, 64, endpoint=False)[1:]])
    q = noise.sf(x)
    back = noise.isf(q)
    seen = q > 1e-307
    assert back[seen] == pytest.approx(x[seen], rel=1e-9, abs=1e-15)
    assert noise.ppf(q)[seen] == pytest.approx(-x[seen], rel=1e-9, abs=1e-15)
    assert noise.isf(0.5) == 0
    assert noise.isf([0.0, 1.0]) == pytest.approx([noise.support(), -noise.support()])
    assert np.isnan(noise.isf([-0.1, 1.1, math.nan])).all()
    assert np.isnan(noise.logsf(math.nan))


@every
def test_the_variance_is_that_of_the_tail(name):
    """E X^2 = 4 int x S(x) dx, by a fine midpoint rule."""
    noise, fine = NOISES[name], 1000
    edge = min(noise.support(), 60.0)
    x = (np.arange(int(edge * fine)) + 0.5) / fine
    assert noise.var() == pytest.approx(4 * (x * noise.sf(x)).sum() / fine, rel=2e-5)
    assert noise.scaled(3.0).var() == pytest.approx(9 * noise.var())


def test_the_gaussian_tail_has_its_digits_at_fifty():
    """Recursion at fifty digits: k steps of the normal law, from a linear centre."""
    mu, noise = 0.25, CanonicalNoise(tradeoff.gaussian(0.25))
    with mpmath.workdps(50):
        c = mpmath.ncdf(-mpmath.mpf(mu) / 2)
        for x in (0.3, 0.75, 3.2, 20.0, 90.4, 140.0):
            k = math.ceil(x - 0.5)
            s = c + (1 - 2 * c) * (mpmath.mpf(0.5) - (mpmath.mpf(x) - k))
            z = mpmath.findroot(lambda t, s=s: mpmath.ncdf(-t) - s, 0.0)
            exact = mpmath.log(mpmath.ncdf(-(z + k * mpmath.mpf(mu))))
            assert float(noise.logsf(x)) == pytest.approx(float(exact), rel=1e-13)


@every
@pytest.mark.parametrize("scale", [1.0, 0.95])
def test_draws_follow_the_law(name, scale):
    """Kolmogorov-Smirnov: a false alarm at 1e-7 in each of seven; the 5 % twin is caught.

    The twin's distance is about .009 or more; at 150,000 draws the limit for 1e-7 is .0075.
    """
    noise = NOISES[name]
    n = 150_000 if scale < 1 else DRAWS
    x = scale * noise.rvs(n, np.random.default_rng(5))
    assert (kstest(x, noise.cdf).pvalue > 1e-7) == (scale == 1)


def tulap_cdf(x, epsilon, delta):
    """Awan & Slavkovic (2018), Definition 5.1, at the working precision."""
    b = mpmath.exp(-mpmath.mpf(epsilon))
    q = 2 * mpmath.mpf(delta) * b / (1 - b + 2 * mpmath.mpf(delta) * b)
    x = mpmath.mpf(x)
    if x > 0:
        return 1 - tulap_cdf(-x, epsilon, delta)
    near = mpmath.floor(x + mpmath.mpf(0.5))
    free = b ** (-near) / (1 + b) * (b + (x - near + mpmath.mpf(0.5)) * (1 - b))
    return max(mpmath.mpf(0), (free - q / 2) / (1 - q))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1.0, 0.0), (0.1, 0.0), (1.0, 1e-6), (0.01, 1e-3), (3.0, 0.2), (1e-7, 0.05), (30.0, 1e-9)],
)
def test_tulap_is_the_truncated_law_of_its_definition(epsilon, delta):
    """At fifty digits, to the digits that the argument has."""
    noise = Tulap(epsilon, delta)
    edge = min(noise.support(), 40 / epsilon)
    with mpmath.workdps(50):
        for x in (0.0, 0.2, 0.49, 0.51, 1.4, *(edge * np.array([0.3, 0.7, 0.97]))):
            exact = float(tulap_cdf(-x, epsilon, delta))
            assert noise.sf(x) == pytest.approx(exact, rel=1e-11, abs=1e-14 * (delta > 0))
        if delta:
            assert noise.support() == pytest.approx(tulap_edge(epsilon, delta), rel=1e-10)


def tulap_edge(epsilon, delta):
    low, high = mpmath.mpf(0), mpmath.mpf(1) / delta + 1
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if tulap_cdf(-middle, epsilon, delta) > 0 else (low, middle)
    return float(high)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.2, 0.01), (0.0, 0.3), (4.0, 0.1)])
def test_tulap_is_canonical(epsilon, delta):
    """The closed variance is the quadrature's; the laws agree; 5 % more is seen."""
    noise, canonical = Tulap(epsilon, delta), CanonicalNoise(tradeoff.approximate(epsilon, delta))
    x = np.linspace(-6, 6, 101)
    assert noise.cdf(x) == pytest.approx(canonical.cdf(x), rel=1e-14)
    assert noise.var() == pytest.approx(canonical.var(), rel=1e-12)
    assert Tulap(epsilon, delta, scale=2.0).var() == pytest.approx(4 * noise.var())


@pytest.mark.parametrize("noise", [Tulap(0.3), Tulap(2.0, scale=3.0), Staircase(1.0)], ids=repr)
@pytest.mark.parametrize("scale", [1.0, 0.95])
def test_draws_of_tulap_and_staircase(noise, scale):
    """As above."""
    x = scale * noise.rvs(150_000, np.random.default_rng(11))
    assert (kstest(x, noise.cdf).pvalue > 1e-7) == (scale == 1)


@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.5, 1.0])
def test_the_staircase_is_a_law_and_private(gamma):
    """Total mass, quantile, moments by the midpoint rule, and a ratio of e^epsilon at most."""
    noise = Staircase(0.8, gamma, scale=2.0)
    x = (np.arange(200_000) + 0.5) / 2000
    density = noise.pdf(x)
    assert 2 * density.sum() / 2000 == pytest.approx(1.0, abs=1e-3)
    assert 2 * (x * density).sum() / 2000 == pytest.approx(noise.mean_absolute(), rel=1e-3)
    assert 2 * (x**2 * density).sum() / 2000 == pytest.approx(noise.var(), rel=1e-3)
    tail = 1 - np.cumsum(density) / 2000 - 0.5
    assert noise.sf(x[:9000] + 1 / 4000) == pytest.approx(tail[:9000], abs=1e-3)
    points = np.linspace(0.01, 60, 777)
    assert noise.isf(noise.sf(points)) == pytest.approx(points, rel=1e-9)
    for shift in (0.3, 1.1, 2.0):
        assert np.abs(noise.logpdf(x) - noise.logpdf(x - shift)).max() <= 0.8 + 1e-12
    assert np.abs(noise.logpdf(x) - noise.logpdf(x - 2.3)).max() > 1.5


def divided(root, n):
    """The canonical noise of the 2^n-th root of root(1), at scale 2^-n."""
    return CanonicalNoise(root(2.0**-n), 2.0**-n)


def test_every_root_is_canonical_for_the_same_function():
    """Theorem 3.3: the stretched noise of a root hides a move of 1 exactly as f says."""
    f, alpha = tradeoff.gaussian(1.0), np.array([1e-9, 0.01, 0.3, 0.6, 0.99])
    for n in range(5):
        noise = divided(tradeoff.gaussian, n)
        assert noise.cdf(noise.isf(alpha) - 1) == pytest.approx(f(alpha), rel=1e-10)


BAD = [
    (lambda: CanonicalNoise(tradeoff.approximate(0.0)), "tradeoff must be non-trivial"),
    (lambda: CanonicalNoise(1.0), "tradeoff must be a trade-off function"),
    (lambda: CanonicalNoise(tradeoff.approximate(1.0), 0.0), "scale must be a finite number > 0"),
    (lambda: Tulap(0.0), "epsilon must be > 0 if delta is 0"),
    (lambda: Tulap(1.0, 1.5), r"delta must be a number in \[0, 1\]"),
    (lambda: Tulap(math.inf), r"epsilon must be a number in \[0, inf\)"),
    (lambda: Staircase(0.0), "epsilon must be a finite number > 0"),
    (lambda: Staircase(1.0, "best"), "gamma must be one of"),
    (lambda: Staircase(1.0, 1.1), r"gamma must be a number in \[0, 1\]"),
]


@pytest.mark.parametrize(("make", "text"), BAD, ids=[text for _, text in BAD])
def test_errors_name_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=text):
        make()
