"""Checks of noise laws: `check_law` and its parts.

False alarms. For each law there are two p-values, of a Kolmogorov-Smirnov test and of the signs,
with threshold ALARM = 1e-9, and one mean of squares with a threshold of SIGMAS = 8 standard
errors, which has a false-alarm rate below 1e-12 for the tails of log-concave laws at DRAWS draws.
Together this is 2e-9 for one law, and below 1e-7 for fifty.

Power. Draws that are 5 % too narrow have a distance of sup |F(x) - F(1.05 x)| >= .009, and
.009 sqrt(DRAWS) = 5.7. ALARM needs 3.28. The difference, 2.4, is 4.8 of the greatest standard
deviations of an empirical distribution function: the fault is missed once in a million runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import roots_legendre
from scipy.stats import binomtest, kstwobign

from skdp.noise.law import Law
from skdp.testing._require import agree, members_of, pickled, require
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_count, check_positive
from skdp.trusted.randomness import RandomStateLike, as_generator

ALARM = 1e-9
SIGMAS = 8.0
DRAWS = 400_000
# From near the centre to the smallest float, on both sides of every switch of formulas.
TAILS = np.concatenate(
    [
        np.geomspace(1e-320, 1e-3, 40),
        np.linspace(0.002, 0.49, 60),
        0.5 - np.geomspace(1e-16, 1e-3, 14),
    ]
)
MEMBERS = ("logpdf", "logsf", "isf", "rvs", "var", "scaled")
_NODES, _LENGTHS = roots_legendre(20)


def check_law(
    law: Law, *, random_state: RandomStateLike = 0, draws: int = DRAWS, slack: float = 1.0
) -> None:
    """Raise AssertionError unless an object is a law of noise that mechanisms can use.

    It must have the members of `skdp.noise.Law`; optional members are checked if they exist. Its
    density must be even and log-concave, and its integral must agree with the tail. The tail must
    be accurate down to the smallest float. Draws must have the law's distribution.

    Parameters
    ----------
    law : object
        Any law, of this package or a third-party one.
    random_state : None, int, Generator or RandomState, default=0
        Source of the draws.
    draws : int >= 1000, default=400_000
        Number of draws. With fewer, only faults greater than 5 % are detected.
    slack : float > 0, default=1.0
        Factor on the tolerances for rounding, which are those of this package's laws.

    Raises
    ------
    AssertionError
        If a rule is broken; the message gives the member and the rule.

    Examples
    --------
    >>> from skdp.noise import Laplace
    >>> from skdp.testing import check_law
    >>> check_law(Laplace(), draws=10_000)
    >>> check_law("laplace")
    Traceback (most recent call last):
        ...
    AssertionError: str must have the members ['logpdf', ..., 'scaled'], got ...
    """
    members_of(law, MEMBERS)
    draws, slack = check_count("draws", draws, 1000), check_positive("slack", slack)
    check_protocol(law)
    for check in (check_density, check_tails, check_shift, check_scaled):
        check(law, slack)
    check_draws(law, as_generator(random_state), draws)


def _name(law: Law, member: str) -> str:
    return f"{type(law).__name__}.{member}"


def _std(law: Law) -> float:
    """Return the standard deviation, also if the variance under- or overflows."""
    return float(law.std()) if hasattr(law, "std") else math.sqrt(law.var())


def _support(law: Law) -> float:
    return float(law.support() if hasattr(law, "support") else law.isf(0.0))


def _log_ratio(law: Law, x: ArrayLike, shift: float) -> FloatArray:
    if hasattr(law, "log_ratio"):
        return np.asarray(law.log_ratio(x, shift))
    with np.errstate(invalid="ignore"):
        return np.asarray(law.logpdf(x) - law.logpdf(np.asarray(x) + shift))


def check_protocol(law: Law) -> None:
    """Check that the law is hashable and picklable, and that its members broadcast like numpy."""
    name = type(law).__name__
    copy = pickled(law, name, rule := "be hashable and picklable")
    try:
        same = hash(law) == hash(law) and (copy != law or hash(copy) == hash(law))
    except Exception as error:
        require(False, name, rule, repr(error))
    require(same, _name(law, "__hash__"), "be the same for equal laws")
    agree(copy.logpdf(TAILS), law.logpdf(TAILS), 0.0, _name(law, "logpdf"), "survive a pickle")
    table = np.array([[0.1, 0.2, math.nan], [0.5, 0.8, 0.9]])
    for member in ("logpdf", "pdf", "logsf", "sf", "cdf", "isf", "ppf"):
        if hasattr(law, member):
            method, name = getattr(law, member), _name(law, member)
            single = [[float(method(x)) for x in row] for row in table]
            rule = "give for a table what it gives for its entries"
            agree(method(table), single, 1e-13, name, rule)
            require(np.shape(method(0.25)) == (), name, "give a number for a number")
            require(np.shape(method(np.zeros(0))) == (0,), name, "take an empty array")
            require(np.isnan(method(math.nan)), name, "give NaN for NaN")
    if hasattr(law, "log_ratio"):
        found = np.shape(law.log_ratio(np.zeros((4, 1)), np.ones(3)))
        require(found == (4, 3), _name(law, "log_ratio"), "broadcast x and shift", found)


def check_density(law: Law, slack: float = 1.0) -> None:
    """Check that the density is even, log-concave, 0 beyond the support, and fits the tail."""
    name, x = _name(law, "logpdf"), law.isf(TAILS)
    agree(law.logpdf(-x), law.logpdf(x), 1e-14 * slack, name, "be even: f(-x) = f(x)", 1e-14)
    inside = np.linspace(0, float(law.isf(1e-300)) * (1 - 1e-9), 2001)
    slopes = np.diff(law.logpdf(inside))
    require(slopes <= 1e-13 * slack, name, "not grow away from 0")
    rule = "be concave: privacy losses are then monotone, which all calibrations use"
    require(np.diff(slopes) <= slack * (1e-10 * np.abs(slopes[1:]) + 1e-13), name, rule)
    beyond = _support(law) * (1 + 1e-12)
    outside = math.isinf(beyond) or law.logpdf(beyond) == -math.inf
    require(outside, name, "be -inf outside the support")
    ends = law.isf(np.concatenate([np.linspace(0.5, 0.01, 50), 0.75 ** np.arange(17.0, 100)]))
    widths = np.diff(ends)
    nodes = ends[:-1, None] + widths[:, None] * (1 + _NODES) / 2
    steps = np.exp(law.logpdf(nodes)) @ _LENGTHS * widths / 2
    gaps = -np.diff(np.exp(law.logsf(ends)))
    # The interval with a kink is less accurate.
    off = (np.abs(steps / gaps - 1) > 1e-10 * slack).sum()
    rule = "integrate to the differences of the tail"
    require(off <= 1, name, rule, f"{off} of {len(gaps)} intervals off")
    agree(steps, gaps, 1e-2, name, rule)


def check_inverse(law: Law, slack: float = 1.0) -> None:
    """Check that the tail is even, the inverse of isf, and that other members follow from it."""
    name, x = _name(law, "isf"), law.isf(TAILS)
    require(np.diff(x[np.argsort(-TAILS)]) >= 0, name, "fall as q grows")
    inner = x < _support(law) * (1 - 1e-12)  # near an end the spacing of x is too coarse
    q, x = TAILS[inner], x[inner]
    # A rounding error of x changes the log of the tail by x times the hazard rate, relatively.
    rate, tail = np.exp(law.logpdf(x) - law.logsf(x)), law.logsf(x)
    error = np.abs(tail - np.log(q))
    allowed = slack * (3e-14 + 1e-15 * np.abs(np.log(q)) + 1e-15 * x * rate)
    allowed += 2.0**-1073 / q  # below the least normal float, q itself has few digits
    with np.errstate(invalid="ignore"):
        worst = int(np.argmax(np.where(np.isfinite(error), error - allowed, np.inf)))
    rule = "be the inverse of isf to full precision of the tail, not of its distance to 1"
    seen = f"an error of {float(error[worst]):.2g} in the log of {float(q[worst]):.2g}"
    require(error <= allowed, _name(law, "logsf"), rule, seen)
    rule = "be that of an even law: P(X > -x) = 1 - P(X > x)"
    below = np.log1p(-np.exp(tail))
    # With slack 1 - P may be rounded.
    agree(law.logsf(-x), below, 3e-13 * slack, _name(law, "logsf"), rule, 1e-16 * (slack - 1))
    follows = {
        "sf": (x, np.exp(tail), 3e-13 * slack),
        "pdf": (x, np.exp(law.logpdf(x)), 3e-13 * slack),
        "cdf": (-x, np.exp(tail), 3e-13 * slack),
        "ppf": (q, -law.isf(q), 1e-15 * slack),
    }
    for member, (at, expected, rtol) in follows.items():
        if hasattr(law, member):
            found = getattr(law, member)(at)
            agree(found, expected, rtol, _name(law, member), "follow from logpdf, logsf and isf")


def check_tails(law: Law, slack: float = 1.0) -> None:
    """Check the tail, its log, its mirror image and its inverse to full precision."""
    check_inverse(law, slack)
    name = _name(law, "isf")
    high = TAILS[TAILS > 1e-15]
    mirrored = law.isf(1 - (1 - high))
    agree(law.isf(1 - high), -mirrored, 1e-13 * slack, name, "be odd about 1/2", 1e-300)
    agree(law.isf(0.5), 0.0, 0.0, name, "be 0 at 1/2", 1e-15 * _std(law))
    agree(law.isf(0.0), _support(law), 1e-15, name, "be the end of the support at 0")
    require(law.logsf(math.inf) == -math.inf, _name(law, "logsf"), "be -inf at infinity")
    agree(law.logsf(0.0), -math.log(2), 1e-15, _name(law, "logsf"), "be log(1/2) at 0")
    centre = 0.5 - np.array([2.0**-54, 2.0**-40, 2.0**-30])
    height = math.exp(float(law.logpdf(0.0)))
    rule = "be accurate near 0"
    agree(law.isf(centre) * height, 0.5 - centre, 1e-8 * slack, name, rule)


def check_shift(law: Law, slack: float = 1.0) -> None:
    """Check the log-ratio: a difference of log-densities, odd about the middle, increasing."""
    name = _name(law, "log_ratio" if hasattr(law, "log_ratio") else "logpdf")
    for shift in _std(law) * np.array([1e-12, 1e-3, 0.4, 1.0, 2.5, 8.0]):
        x = np.concatenate([-law.isf(TAILS), -shift / 2 + _std(law) * np.linspace(-4, 4, 41)])
        x = np.sort(x)
        ratio = _log_ratio(law, x, shift)
        here, there = law.logpdf(x), law.logpdf(x + shift)
        seen = np.isfinite(here) & np.isfinite(there)
        if hasattr(law, "log_ratio"):
            finite = ratio[np.isfinite(ratio)]
            require(np.diff(finite) >= -slack * 1e-12 * np.abs(finite[1:]), name, "grow with x")
            agree(_log_ratio(law, -x, -shift), ratio, 1e-14, name, "be odd about -shift / 2")
        impossible = np.isfinite(here) & np.isinf(there)
        rule = "be infinite where the shifted density is 0"
        require(ratio[impossible] > 1e300, name, rule)
        here, there = here[seen], there[seen]
        error = np.abs(ratio[seen] - (here - there))
        allowed = slack * 3e-13 * (1 + np.abs(here) + np.abs(there))
        require(error <= allowed, name, "be logpdf(x) - logpdf(x + shift)")
        if hasattr(law, "greatest_slope") and shift > 1e-4 * _std(law):
            most, member = float(law.greatest_slope()), _name(law, "greatest_slope")
            require(0 < most < math.inf, member, "be a finite number > 0")
            rule = "be no less than the slope of logpdf"
            require(np.abs(ratio[seen]) <= most * shift * (1 + 1e-6) + allowed, member, rule)
        if hasattr(law, "crossing"):
            _check_crossing(law, law.crossing, shift)


def _check_crossing(
    law: Law, crossing: Callable[[float, ArrayLike], FloatArray], shift: float
) -> None:
    """Check that the log-ratio is at most epsilon up to the crossing, and more beyond."""
    name, std, ratio = _name(law, "crossing"), _std(law), partial(_log_ratio, law)
    middle = ratio(std * np.linspace(-3, 3, 25), shift)
    steps = np.geomspace(1e-9, 60, 25)
    levels = np.concatenate([-steps, [0.0], steps, 0.999 * middle[np.isfinite(middle)]])
    at = crossing(shift, levels)
    never, always = at == -math.inf, at == math.inf
    above = ratio(-1e100 * std, shift) > levels * (1 - 1e-9)
    below = ratio(1e100 * std, shift) <= levels * (1 + 1e-9)
    require(above[never] if never.any() else True, name, "be -inf only where no x has the level")
    require(below[always] if always.any() else True, name, "be inf only where every x has it")
    at, levels = at[np.isfinite(at)], levels[np.isfinite(at)]
    step, size = 1e-10 * (np.abs(at) + shift + std), 1e-9 * np.abs(levels)
    require(ratio(at - step, shift) <= levels + size, name, "lie where the level is reached")
    require(ratio(at + step, shift) >= levels - size, name, "lie where the level is left")
    require(crossing(shift, math.inf) == math.inf, name, "be inf for the level inf")
    require(crossing(shift, -math.inf) == -math.inf, name, "be -inf for the level -inf")
    require(np.isnan(crossing(shift, math.nan)), name, "be NaN for the level NaN")


def check_scaled(law: Law, slack: float = 1.0) -> None:
    """Check that the law of s X has the scaled moments and tail of X."""
    rtol, name = 1e-13 * slack, _name(law, "scaled")
    for s in (2.0**-10, 2.5, 2.0**20):
        wide, x = law.scaled(s), law.isf(TAILS)
        agree(wide.isf(TAILS), s * x, rtol, name, "have s times the quantiles")
        if s != 2.5:  # else s x is rounded
            agree(wide.logsf(s * x), law.logsf(x), rtol, name, "have the same tail at s x")
        for member, factor, rule in (
            ("var", s * s, "have s^2 times the variance"),
            ("std", s, "have s times the deviation"),
        ):
            if hasattr(law, member):
                found, own = (getattr(one, member)() for one in (wide, law))
                agree(found, factor * own, rtol, name, rule)
    if hasattr(law, "std"):
        agree(law.std() ** 2, law.var(), 1e-14, _name(law, "std"), "be the root of var()")


def check_draws(law: Law, rng: Generator, draws: int = DRAWS) -> None:
    """Check that draws have the distribution and the variance of the law."""
    name = _name(law, "rvs")
    x = np.asarray(law.rvs(draws, rng), dtype=float)
    held = x.shape == (draws,) and np.isfinite(x).all()
    require(held, name, "draw finite numbers of the shape that is asked for", x.shape)
    x = np.sort(x)
    p = kolmogorov_smirnov(np.asarray(np.exp(law.logsf(-x))))
    require(p > ALARM, name, "draw from the law whose tail logsf gives", f"p = {p:.2g}")
    square = (x / _std(law)) ** 2
    off = abs(square.mean() - 1) / (square.std() / math.sqrt(draws))
    require(off <= SIGMAS, name, "draw with the variance var()", f"{off:.2g} deviations off")
    p = binomtest(int((x > 0).sum()), draws).pvalue
    require(p > ALARM, name, "draw either sign as often", f"p = {p:.2g}")
    for size in (None, (), 3, (2, 0), (2, 3)):
        one, two = (law.rvs(size, np.random.default_rng(1)) for _ in "ab")
        agree(one, two, 0.0, name, "draw from the bits of rng alone")
        shape = () if size is None else np.empty(size).shape
        require(np.shape(one) == shape, name, f"give the shape {shape} for size={size}")


def kolmogorov_smirnov(probabilities: FloatArray) -> float:
    """Return the p-value of uniformity of sorted values of the distribution function."""
    n = len(probabilities)
    above = (np.arange(1, n + 1) / n - probabilities).max()
    below = (probabilities - np.arange(n) / n).max()
    return float(kstwobign.sf(math.sqrt(n) * max(above, below)))
