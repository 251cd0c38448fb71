"""One battery for every noise law: `check_law(law, rng)` raises AssertionError where it is wrong.

False alarms. A law meets one p-value of Kolmogorov and Smirnov's and one of the signs, held
against ALARM = 1e-9, and one mean of squares held against SIGMAS = 8 standard errors, which is
below 1e-12 for the tails of log-concave laws at DRAWS draws: 2e-9 a law, below 1e-7 for fifty.
The twin, 5 % too narrow, is caught at the same ALARM. It is off by sup |F(x) - F(1.05 x)| >= .009,
.009 sqrt(DRAWS) = 5.7; ALARM needs 3.28, and what is left, 2.4, is 4.8 of the greatest standard
deviation that an empirical distribution function has: it is missed once in a million runs.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import roots_legendre
from scipy.stats import binomtest, kstwobign

from skdp.noise import Law

ALARM = 1e-9
SIGMAS = 8.0
DRAWS = 400_000
# On both sides of every switch of a formula, from next to the centre to the last float.
TAILS = np.concatenate(
    [
        np.geomspace(1e-320, 1e-3, 40),
        np.linspace(0.002, 0.49, 60),
        0.5 - np.geomspace(1e-16, 1e-3, 14),
    ]
)
_NODES, _LENGTHS = roots_legendre(20)


def check_law(law: Any, rng: Generator, draws: int = DRAWS) -> None:
    """Everything a law promises that can be seen without knowing which law it is."""
    for check in (check_protocol, check_density, check_tails, check_shift, check_scaled):
        check(law)
    check_draws(law, rng, draws)


def check_protocol(law: Any) -> None:
    """It is a Law, hashable and picklable, written as it is made, and broadcasts like numpy."""
    assert isinstance(law, Law)
    copy = pickle.loads(pickle.dumps(law))
    assert copy == law == eval(repr(law), vars(__import__("skdp.noise", fromlist=["noise"])))
    assert hash(copy) == hash(law)
    for name in ("logpdf", "pdf", "logsf", "sf", "logcdf", "cdf", "isf", "ppf"):
        method = getattr(law, name)
        assert isinstance(method(0.25), float)
        assert math.isnan(method(math.nan))
        table = np.array([[0.1, 0.2, math.nan], [0.5, 0.8, 0.9]])
        single = [[method(x) for x in row] for row in table]
        np.testing.assert_allclose(method(table), single, rtol=1e-13)
        assert method([]).shape == (0,)
    assert isinstance(law.log_ratio(0.1, 1.0), float)
    assert np.shape(law.log_ratio(np.zeros((4, 1)), np.ones(3))) == (4, 3)
    assert math.isnan(law.log_ratio(math.nan, 1.0))
    assert math.isnan(law.isf(-0.1))
    assert math.isnan(law.isf(1.1))


def check_density(law: Any) -> None:
    """It is even and log-concave, 0 outside the support, and integrates to the tail's steps."""
    x = law.isf(TAILS)
    np.testing.assert_array_equal(law.logpdf(x), law.logpdf(-x))
    inside = np.linspace(0, float(law.isf(1e-300)) * (1 - 1e-9), 2001)
    slopes = np.diff(law.logpdf(inside))
    assert (slopes <= 0).all()
    assert (np.diff(slopes) <= 1e-10 * np.abs(slopes[1:]) + 1e-13).all()
    beyond = law.support() * (1 + 1e-12)
    assert math.isinf(beyond) or law.logpdf(beyond) == -math.inf
    ends = law.isf(np.concatenate([np.linspace(0.5, 0.01, 50), 0.75 ** np.arange(17.0, 100)]))
    widths = np.diff(ends)
    nodes = ends[:-1, None] + widths[:, None] * (1 + _NODES) / 2
    steps, gaps = law.pdf(nodes) @ _LENGTHS * widths / 2, -np.diff(law.sf(ends))
    # A kink costs digits in the one interval that holds it.
    assert (np.abs(steps / gaps - 1) > 1e-10).sum() <= 1
    np.testing.assert_allclose(steps, gaps, rtol=1e-2)


def check_tails(law: Any) -> None:
    """The tail, its log, its mirror image and its inverse agree to the last digits."""
    x = law.isf(TAILS)
    assert (np.diff(x[np.argsort(-TAILS)]) >= 0).all()
    inner = x < law.support() * (1 - 1e-12)  # next to an end the floats of x are too coarse
    q, x = TAILS[inner], x[inner]
    # An error of one rounding in x moves the log of the tail by x times the hazard rate of it.
    rate = np.exp(law.logpdf(x) - law.logsf(x))
    error = np.abs(law.logsf(x) - np.log(q))
    assert (error <= 3e-14 + 1e-15 * np.abs(np.log(q)) + 1e-15 * x * rate).all()
    np.testing.assert_allclose(law.sf(x), np.exp(law.logsf(x)), rtol=3e-13)
    np.testing.assert_array_equal(law.logcdf(-x), law.logsf(x))
    np.testing.assert_array_equal(law.cdf(-x), law.sf(x))
    np.testing.assert_array_equal(law.ppf(q), -law.isf(q))
    np.testing.assert_allclose(law.logsf(-x), np.log1p(-law.sf(x)), rtol=3e-13)
    high = q[q > 1e-15]
    np.testing.assert_array_equal(law.isf(1 - high), -law.isf(1 - (1 - high)))
    assert law.isf(0.5) == 0
    assert law.isf(0.0) == law.support() == -law.isf(1.0)
    assert law.sf(math.inf) == 0
    assert law.sf(-math.inf) == 1
    assert law.sf(0.0) == 0.5
    centre = 0.5 - np.array([2.0**-54, 2.0**-40, 2.0**-30])
    np.testing.assert_allclose(law.isf(centre) * law.pdf(0.0), 0.5 - centre, rtol=1e-8)


def check_shift(law: Any) -> None:
    """The log-ratio is the difference of log-densities, odd about the middle, and increasing."""
    for shift in law.std() * np.array([1e-12, 1e-3, 0.4, 1.0, 2.5, 8.0]):
        x = np.concatenate([-law.isf(TAILS), -shift / 2 + law.std() * np.linspace(-4, 4, 41)])
        x = np.sort(x)
        ratio = law.log_ratio(x, shift)
        here, there = law.logpdf(x), law.logpdf(x + shift)
        seen = np.isfinite(here) & np.isfinite(there)
        finite = ratio[np.isfinite(ratio)]
        assert (np.diff(finite) >= -1e-12 * np.abs(finite[1:])).all()
        assert (ratio[np.isfinite(here) & np.isinf(there)] > 1e300).all()
        here, there = here[seen], there[seen]
        error = np.abs(ratio[seen] - (here - there))
        assert (error <= 3e-13 * (1 + np.abs(here) + np.abs(there))).all()
        np.testing.assert_array_equal(law.log_ratio(-x, -shift), ratio)
        if hasattr(law, "crossing"):
            check_crossing(law, shift)


def check_crossing(law: Any, shift: float) -> None:
    """The log-ratio is at most epsilon up to the crossing, and more beyond."""
    middle = law.log_ratio(law.std() * np.linspace(-3, 3, 25), shift)
    steps = np.geomspace(1e-9, 60, 25)
    levels = np.concatenate([-steps, [0.0], steps, 0.999 * middle[np.isfinite(middle)]])
    at = law.crossing(shift, levels)
    never, always = at == -math.inf, at == math.inf
    assert (law.log_ratio(-1e100 * law.std(), shift) > levels * (1 - 1e-9))[never].all()
    assert (law.log_ratio(1e100 * law.std(), shift) <= levels * (1 + 1e-9))[always].all()
    at, levels = at[np.isfinite(at)], levels[np.isfinite(at)]
    step, size = 1e-10 * (np.abs(at) + shift + law.std()), 1e-9 * np.abs(levels)
    assert (law.log_ratio(at - step, shift) <= levels + size).all()
    assert (law.log_ratio(at + step, shift) >= levels - size).all()
    assert law.crossing(shift, math.inf) == math.inf
    assert law.crossing(shift, -math.inf) == -math.inf
    assert math.isnan(law.crossing(shift, math.nan))
    assert isinstance(law.crossing(shift, 0.5), float)


def check_scaled(law: Any) -> None:
    """s X has the moments of X and its tail, s times as wide."""
    for s in (2.0**-10, 2.5, 2.0**20):
        wide, x = law.scaled(s), law.isf(TAILS)
        np.testing.assert_allclose(wide.isf(TAILS), s * x, rtol=1e-13)
        if s != 2.5:  # else s x is rounded
            np.testing.assert_allclose(wide.logsf(s * x), law.logsf(x), rtol=1e-13)
        assert math.isclose(wide.var(), s * s * law.var(), rel_tol=1e-13)
        assert math.isclose(wide.std(), s * law.std(), rel_tol=1e-13)
        assert math.isclose(wide.entropy(), law.entropy() + math.log(s), abs_tol=1e-13)
        informations = wide.fisher_information(), law.fisher_information() / s**2
        assert math.isclose(*informations, rel_tol=1e-13)
    assert math.isclose(law.std() ** 2, law.var(), rel_tol=1e-14)
    # Cramer and Rao; the Gaussian law has equality.
    assert law.fisher_information() * law.var() >= 1 - 1e-14


def check_draws(law: Any, rng: Generator, draws: int) -> None:
    """Draws have the law's distribution, and a law 5 % narrower is seen to be another."""
    x = np.sort(law.rvs(draws, rng))
    assert kolmogorov_smirnov(law.cdf(x)) > ALARM
    if draws >= DRAWS:
        assert kolmogorov_smirnov(law.cdf(1.05 * x)) < ALARM
    square = (x / law.std()) ** 2
    assert abs(square.mean() - 1) <= SIGMAS * square.std() / math.sqrt(draws)
    assert binomtest(int((x > 0).sum()), draws).pvalue > ALARM
    for size in (None, (), 3, (2, 0), (2, 3)):
        one, two = (law.rvs(size, np.random.default_rng(1)) for _ in "ab")
        np.testing.assert_array_equal(one, two)
        assert np.shape(one) == (() if size is None else np.empty(size).shape)
    assert isinstance(law.rvs(None, rng), float)


def kolmogorov_smirnov(probabilities: np.ndarray) -> float:
    """The p-value of sorted draws' distribution function values under uniformity."""
    n = len(probabilities)
    above = (np.arange(1, n + 1) / n - probabilities).max()
    below = (probabilities - np.arange(n) / n).max()
    return float(kstwobign.sf(math.sqrt(n) * max(above, below)))
