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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import roots_legendre
from scipy.stats import binomtest, kstwobign

from skdp.noise.law import Law
from skdp.testing._require import agree, members_of, pickled, require
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


@dataclass(frozen=True)
class View:
    """Optional members of a law, computed from the required ones if they are missing."""

    law: Any

    def name(self, member: str) -> str:
        """Return the name of a member in messages."""
        return f"{type(self.law).__name__}.{member}"

    def has(self, member: str) -> bool:
        """Return whether the law has a member."""
        return hasattr(self.law, member)

    def cdf(self, x: Any) -> NDArray[np.float64]:
        """Return P(X <= x), from the tail, which is accurate for small probabilities."""
        return np.asarray(np.exp(self.law.logsf(-np.asarray(x))))

    def std(self) -> float:
        """Return the standard deviation, also if the variance under- or overflows."""
        return float(self.law.std()) if self.has("std") else math.sqrt(self.law.var())

    def support(self) -> float:
        """Return the half-width of the support."""
        return float(self.law.support() if self.has("support") else self.law.isf(0.0))

    def log_ratio(self, x: Any, shift: float) -> NDArray[np.float64]:
        """Return the log of f(x) / f(x + shift)."""
        if self.has("log_ratio"):
            return np.asarray(self.law.log_ratio(x, shift))
        with np.errstate(invalid="ignore"):
            return np.asarray(self.law.logpdf(x) - self.law.logpdf(np.asarray(x) + shift))


def check_protocol(law: Any) -> None:
    """Check that the law is hashable and picklable, and that its members broadcast like numpy."""
    view, name = View(law), type(law).__name__
    copy = pickled(law, name, rule := "be hashable and picklable")
    try:
        same = hash(law) == hash(law) and (copy != law or hash(copy) == hash(law))
    except Exception as error:
        require(False, name, rule, repr(error))
    require(same, view.name("__hash__"), "be the same for equal laws")
    agree(copy.logpdf(TAILS), law.logpdf(TAILS), 0.0, view.name("logpdf"), "survive a pickle")
    for member in ("logpdf", "pdf", "logsf", "sf", "logcdf", "cdf", "isf", "ppf"):
        if view.has(member):
            _check_shapes(getattr(law, member), view.name(member))
    if view.has("log_ratio"):
        found = np.shape(law.log_ratio(np.zeros((4, 1)), np.ones(3)))
        require(found == (4, 3), view.name("log_ratio"), "broadcast x and shift", found)


def _check_shapes(method: Callable[[Any], Any], name: str) -> None:
    table = np.array([[0.1, 0.2, math.nan], [0.5, 0.8, 0.9]])
    single = [[float(method(x)) for x in row] for row in table]
    agree(method(table), single, 1e-13, name, "give for a table what it gives for its entries")
    require(np.shape(method(0.25)) == (), name, "give a number for a number")
    require(np.shape(method(np.zeros(0))) == (0,), name, "take an empty array")
    require(np.isnan(method(math.nan)), name, "give NaN for NaN")


def check_density(law: Any, slack: float = 1.0) -> None:
    """Check that the density is even, log-concave, 0 beyond the support, and fits the tail."""
    view = View(law)
    name, x = view.name("logpdf"), law.isf(TAILS)
    agree(law.logpdf(-x), law.logpdf(x), 1e-14 * slack, name, "be even: f(-x) = f(x)", 1e-14)
    inside = np.linspace(0, float(law.isf(1e-300)) * (1 - 1e-9), 2001)
    slopes = np.diff(law.logpdf(inside))
    require(slopes <= 1e-13 * slack, name, "not grow away from 0")
    rule = "be concave: privacy losses are then monotone, which all calibrations use"
    require(np.diff(slopes) <= slack * (1e-10 * np.abs(slopes[1:]) + 1e-13), name, rule)
    beyond = view.support() * (1 + 1e-12)
    outside = math.isinf(beyond) or law.logpdf(beyond) == -math.inf
    require(outside, name, "be -inf outside the support")
    _check_integral(law, slack)


def _check_integral(law: Any, slack: float) -> None:
    ends = law.isf(np.concatenate([np.linspace(0.5, 0.01, 50), 0.75 ** np.arange(17.0, 100)]))
    widths = np.diff(ends)
    nodes = ends[:-1, None] + widths[:, None] * (1 + _NODES) / 2
    steps = np.exp(law.logpdf(nodes)) @ _LENGTHS * widths / 2
    gaps = -np.diff(np.exp(law.logsf(ends)))
    name = View(law).name("logpdf")
    # The interval with a kink is less accurate.
    off = (np.abs(steps / gaps - 1) > 1e-10 * slack).sum()
    rule = "integrate to the differences of the tail"
    require(off <= 1, name, rule, f"{off} of {len(gaps)} intervals off")
    agree(steps, gaps, 1e-2, name, rule)


def check_inverse(law: Any, slack: float = 1.0) -> None:
    """Check that the tail is even, the inverse of isf, and that other members follow from it."""
    view, x = View(law), law.isf(TAILS)
    name = view.name("isf")
    require(np.diff(x[np.argsort(-TAILS)]) >= 0, name, "fall as q grows")
    inner = x < view.support() * (1 - 1e-12)  # near an end the spacing of x is too coarse
    q, x = TAILS[inner], x[inner]
    _check_digits(law, q, x, slack)
    rule = "be that of an even law: P(X > -x) = 1 - P(X > x)"
    below = np.log1p(-np.exp(law.logsf(x)))
    # With slack 1 - P may be rounded.
    agree(law.logsf(-x), below, 3e-13 * slack, view.name("logsf"), rule, 1e-16 * (slack - 1))
    _check_named_tails(law, q, x, slack)


def check_tails(law: Any, slack: float = 1.0) -> None:
    """Check the tail, its log, its mirror image and its inverse to full precision."""
    check_inverse(law, slack)
    view, name = View(law), View(law).name("isf")
    high = TAILS[TAILS > 1e-15]
    mirrored = law.isf(1 - (1 - high))
    agree(law.isf(1 - high), -mirrored, 1e-13 * slack, name, "be odd about 1/2", 1e-300)
    agree(law.isf(0.5), 0.0, 0.0, name, "be 0 at 1/2", 1e-15 * view.std())
    agree(law.isf(0.0), view.support(), 1e-15, name, "be the end of the support at 0")
    require(law.logsf(math.inf) == -math.inf, view.name("logsf"), "be -inf at infinity")
    agree(law.logsf(0.0), -math.log(2), 1e-15, view.name("logsf"), "be log(1/2) at 0")
    centre = 0.5 - np.array([2.0**-54, 2.0**-40, 2.0**-30])
    height = math.exp(float(law.logpdf(0.0)))
    rule = "be accurate near 0"
    agree(law.isf(centre) * height, 0.5 - centre, 1e-8 * slack, name, rule)


def _check_digits(law: Any, q: NDArray[np.float64], x: NDArray[np.float64], slack: float) -> None:
    # A rounding error of x changes the log of the tail by x times the hazard rate, relatively.
    rate = np.exp(law.logpdf(x) - law.logsf(x))
    error = np.abs(law.logsf(x) - np.log(q))
    allowed = slack * (3e-14 + 1e-15 * np.abs(np.log(q)) + 1e-15 * x * rate)
    allowed += 2.0**-1073 / q  # below the least normal float, q itself has few digits
    with np.errstate(invalid="ignore"):
        worst = int(np.argmax(np.where(np.isfinite(error), error - allowed, np.inf)))
    rule = "be the inverse of isf to full precision of the tail, not of its distance to 1"
    seen = f"an error of {float(error[worst]):.2g} in the log of {float(q[worst]):.2g}"
    require(error <= allowed, View(law).name("logsf"), rule, seen)


def _check_named_tails(
    law: Any, q: NDArray[np.float64], x: NDArray[np.float64], slack: float
) -> None:
    """Check that optional members follow from the required ones."""
    view = View(law)
    tail = law.logsf(x)
    follows: dict[str, tuple[Any, Any, float]] = {
        "sf": (x, np.exp(tail), 3e-13 * slack),
        "pdf": (x, np.exp(law.logpdf(x)), 3e-13 * slack),
        "logcdf": (-x, tail, 1e-15 * slack),
        "cdf": (-x, np.exp(tail), 3e-13 * slack),
        "ppf": (q, -law.isf(q), 1e-15 * slack),
    }
    for member, (at, expected, rtol) in follows.items():
        if view.has(member):
            found = getattr(law, member)(at)
            agree(found, expected, rtol, view.name(member), "follow from logpdf, logsf and isf")


def check_shift(law: Any, slack: float = 1.0) -> None:
    """Check the log-ratio: a difference of log-densities, odd about the middle, increasing."""
    view = View(law)
    name = view.name("log_ratio" if view.has("log_ratio") else "logpdf")
    for shift in view.std() * np.array([1e-12, 1e-3, 0.4, 1.0, 2.5, 8.0]):
        x = np.concatenate([-law.isf(TAILS), -shift / 2 + view.std() * np.linspace(-4, 4, 41)])
        x = np.sort(x)
        ratio = view.log_ratio(x, shift)
        here, there = law.logpdf(x), law.logpdf(x + shift)
        seen = np.isfinite(here) & np.isfinite(there)
        if view.has("log_ratio"):
            finite = ratio[np.isfinite(ratio)]
            require(np.diff(finite) >= -slack * 1e-12 * np.abs(finite[1:]), name, "grow with x")
            agree(view.log_ratio(-x, -shift), ratio, 1e-14, name, "be odd about -shift / 2")
        impossible = np.isfinite(here) & np.isinf(there)
        rule = "be infinite where the shifted density is 0"
        require(ratio[impossible] > 1e300, name, rule)
        here, there = here[seen], there[seen]
        error = np.abs(ratio[seen] - (here - there))
        allowed = slack * 3e-13 * (1 + np.abs(here) + np.abs(there))
        require(error <= allowed, name, "be logpdf(x) - logpdf(x + shift)")
        if view.has("greatest_slope") and shift > 1e-4 * view.std():
            most, told = float(law.greatest_slope()), view.name("greatest_slope")
            require(0 < most < math.inf, told, "be a finite number > 0")
            rule = "be no less than the slope of logpdf"
            require(np.abs(ratio[seen]) <= most * shift * (1 + 1e-6) + allowed, told, rule)
        if view.has("crossing"):
            _check_crossing(law, shift)


def _check_crossing(law: Any, shift: float) -> None:
    """Check that the log-ratio is at most epsilon up to the crossing, and more beyond."""
    view = View(law)
    name, std, ratio = view.name("crossing"), view.std(), view.log_ratio
    middle = ratio(std * np.linspace(-3, 3, 25), shift)
    steps = np.geomspace(1e-9, 60, 25)
    levels = np.concatenate([-steps, [0.0], steps, 0.999 * middle[np.isfinite(middle)]])
    at = law.crossing(shift, levels)
    never, always = at == -math.inf, at == math.inf
    above = ratio(-1e100 * std, shift) > levels * (1 - 1e-9)
    below = ratio(1e100 * std, shift) <= levels * (1 + 1e-9)
    require(above[never] if never.any() else True, name, "be -inf only where no x has the level")
    require(below[always] if always.any() else True, name, "be inf only where every x has it")
    at, levels = at[np.isfinite(at)], levels[np.isfinite(at)]
    step, size = 1e-10 * (np.abs(at) + shift + std), 1e-9 * np.abs(levels)
    require(ratio(at - step, shift) <= levels + size, name, "lie where the level is reached")
    require(ratio(at + step, shift) >= levels - size, name, "lie where the level is left")
    require(law.crossing(shift, math.inf) == math.inf, name, "be inf for the level inf")
    require(law.crossing(shift, -math.inf) == -math.inf, name, "be -inf for the level -inf")
    require(np.isnan(law.crossing(shift, math.nan)), name, "be NaN for the level NaN")


def check_scaled(law: Any, slack: float = 1.0) -> None:
    """Check that the law of s X has the scaled moments and tail of X."""
    view, rtol = View(law), 1e-13 * slack
    name = view.name("scaled")
    for s in (2.0**-10, 2.5, 2.0**20):
        wide, x = law.scaled(s), law.isf(TAILS)
        agree(wide.isf(TAILS), s * x, rtol, name, "have s times the quantiles")
        if s != 2.5:  # else s x is rounded
            agree(wide.logsf(s * x), law.logsf(x), rtol, name, "have the same tail at s x")
        agree(wide.var(), s * s * law.var(), rtol, name, "have s^2 times the variance")
        if view.has("std"):
            agree(wide.std(), s * law.std(), rtol, name, "have s times the deviation")
        if view.has("entropy"):
            more = law.entropy() + math.log(s)
            agree(wide.entropy(), more, 0.0, name, "have log s more entropy", rtol)
        if view.has("fisher_information"):
            less = law.fisher_information() / s**2
            agree(wide.fisher_information(), less, rtol, name, "have 1/s^2 of the information")
    if view.has("std"):
        agree(law.std() ** 2, law.var(), 1e-14, view.name("std"), "be the root of var()")
    if view.has("fisher_information"):
        # Cramer and Rao; the Gaussian law has equality.
        product = law.fisher_information() * law.var()
        require(product >= 1 - 1e-14, view.name("fisher_information"), "be at least 1 / var()")


def check_draws(law: Any, rng: Generator, draws: int = DRAWS) -> None:
    """Check that draws have the distribution and the variance of the law."""
    view = View(law)
    name = view.name("rvs")
    x = np.asarray(law.rvs(draws, rng), dtype=float)
    held = x.shape == (draws,) and np.isfinite(x).all()
    require(held, name, "draw finite numbers of the shape that is asked for", x.shape)
    x = np.sort(x)
    p = kolmogorov_smirnov(view.cdf(x))
    require(p > ALARM, name, "draw from the law whose tail logsf gives", f"p = {p:.2g}")
    square = (x / view.std()) ** 2
    off = abs(square.mean() - 1) / (square.std() / math.sqrt(draws))
    require(off <= SIGMAS, name, "draw with the variance var()", f"{off:.2g} deviations off")
    p = binomtest(int((x > 0).sum()), draws).pvalue
    require(p > ALARM, name, "draw either sign as often", f"p = {p:.2g}")
    for size in (None, (), 3, (2, 0), (2, 3)):
        one, two = (law.rvs(size, np.random.default_rng(1)) for _ in "ab")
        agree(one, two, 0.0, name, "draw from the bits of rng alone")
        shape = () if size is None else np.empty(size).shape
        require(np.shape(one) == shape, name, f"give the shape {shape} for size={size}")


def kolmogorov_smirnov(probabilities: NDArray[np.float64]) -> float:
    """Return the p-value of uniformity of sorted values of the distribution function."""
    n = len(probabilities)
    above = (np.arange(1, n + 1) / n - probabilities).max()
    below = (probabilities - np.arange(n) / n).max()
    return float(kstwobign.sf(math.sqrt(n) * max(above, below)))
