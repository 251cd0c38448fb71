"""Independent noise of one law: in each coordinate of a release, or for many scalar releases.

An iterative method releases numbers one after the other, each with fresh noise of one law and
one scale. One record changes each number by at most a size that is known in advance, so the
privacy losses are known in advance and add up (``docs/proofs/repeated_releases.md``).

A law scaled by s is as private for a shift v as the law itself for v / s. For one coordinate the
least delta is a function of the law; for several it is a certified bound on a composition. Either
way the returned scale has passed, so a search that ends early costs noise and no privacy
(``docs/proofs/one_release.md`` and ``docs/proofs/repeated_releases.md``, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from skdp._first_use import check_at_first_use
from skdp._search import last_passing
from skdp.mechanisms.knorm import check_budget, gaussian_scale, shift_in_any_norm, spendable
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.noise.independent import (
    MOST_SIZES,
    IndependentNoise,
    Releases,
    RepeatedNoise,
    Shift,
    WorstShift,
    fewer,
    greatest_slope,
    length_of,
    losses_of,
    worst_shift,
)
from skdp.noise.law import EvenLaw, Law, ScaleLaw
from skdp.noise.laws import (
    FlippedHuber,
    Gaussian,
    Laplace,
    Logistic,
    OffsetGaussian,
    Subbotin,
    TruncatedLaplace,
)
from skdp.privacy.guarantee import certified, guarantee_of
from skdp.privacy.shift import log_delta, log_spared, require_log_concave
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import ask
from skdp.trusted.certify import NoisySum, PrivateChoice, Release
from skdp.trusted.checks import (
    check_choice,
    check_count,
    check_interval,
    check_positive,
    check_positives,
    fail,
    is_ours,
    remembered,
)
from skdp.trusted.composition import delta_above
from skdp.trusted.losses import Losses, SelectionLoss
from skdp.trusted.statement import NotPrivate, Public

Made = TypeVar("Made")

# Relative tolerance of a composed scale: certified bounds are about as sharp.
_SHARP = 1e-5
# Tolerance and gap of the bounds by which shapes of a law are compared.
_COARSE, _COARSE_GAP = 1e-3, 1e-3

# Laws without a shape parameter.
PLAIN: dict[str, EvenLaw] = {"laplace": Laplace(), "gaussian": Gaussian(), "logistic": Logistic()}
# Laws of one shape parameter, from its log, and the range of the log. At either end a family is
# within 1e-3 of its limit. Subbotin's law at r = 1 is Laplace's.
FAMILIES: dict[str, tuple[Callable[[float], EvenLaw], float, float]] = {
    "flipped_huber": (lambda t: FlippedHuber(math.exp(t), 1.0), -8.0, 6.0),
    "subbotin": (lambda t: Subbotin(1 + (math.exp(t) if t > -9 else 0)), -9.0, 6.0),
    "truncated_laplace": (lambda t: TruncatedLaplace(math.exp(t), 1.0), -8.0, 7.5),
    "offset_gaussian": (lambda t: OffsetGaussian(math.exp(t), 1.0), -8.0, 8.0),
}
NAMES = (*PLAIN, *FAMILIES)
# Shapes that are compared first, of several sizes and of one.
_GRID, _FINE_GRID = 15, 45


def check_law(law: object, name: str = "law") -> None:
    """Raise ValueError unless an object is a law, and one of others passes its checks."""
    if isinstance(law, type) or not isinstance(law, Law):
        remedy = "Pass a law of skdp.noise, or an object with logpdf, logsf, isf, rvs, var, scaled."
        raise fail(name, "have the members of a law", type(law), remedy)
    if not isinstance(law, Hashable):
        raise fail(name, "be hashable", type(law), "Make it a frozen dataclass of numbers.")
    require_log_concave(law, name)
    check_at_first_use(law, "law")


def scaled(law: Law, s: float) -> Law:
    """Return the law of s X; that of another package is checked at this scale."""
    wide = law.scaled(s)
    if not is_ours(law):
        check_at_first_use(wide, "law")
        tails = np.geomspace(1e-12, 0.4, 20)
        if not np.allclose(wide.isf(tails), s * law.isf(tails), rtol=1e-6, atol=0):
            raise fail("law", "have a scaled(s) that is the law of s X", type(law))
    return wide


# One coordinate


def least_scale(law: Law, shift: float, *, epsilon: float, delta: float = 0.0) -> float:
    """Return the least s for which s X is private for a shift, rounded up.

    The law of X is even and log-concave. delta = 0 is possible only for a law with a bounded
    privacy loss: Laplace, Logistic, and any law with ``greatest_slope()``, a bound on the slope of
    its log-density. If the functions of the law are right, the result is never below the least and
    within a few 1e-12 of it (docs/proofs/one_release.md, Theorem 3).
    """
    shift = check_positive("shift", shift)
    scale = shift / greatest_shift(law, epsilon, delta) * ROUND_UP
    if not 0 < scale < math.inf:
        raise fail("delta", "be so great that the noise is a finite number", delta)
    return scale


def greatest_shift(law: Law, epsilon: float, delta: float = 0.0) -> float:
    """Return the greatest shift for which noise of this law is private, rounded down."""
    epsilon = check_positive("epsilon", epsilon)
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    if type(law) in _CLOSED and isinstance(law, ScaleLaw):
        return float(law.scale) * _CLOSED[type(law)](epsilon, delta)
    if delta == 0:
        return epsilon / _slope(law, required=True)

    def excess(shift: float) -> float:
        if delta < 0.5:
            more = float(log_delta(law, shift, epsilon)) - math.log(delta)
        else:  # the digits of a delta near 1 are in its distance to 1
            more = math.log1p(-delta) - float(log_spared(law, shift, epsilon))
        # False position works best on a power of delta, as log delta may be -inf on one side.
        return math.expm1(min(more, 500.0) / 10)

    return last_passing(excess, math.sqrt(law.var() / 2) * shift_in_any_norm(epsilon, delta))


def _logistic_shift(epsilon: float, delta: float) -> float:
    """Return Vinterbo's Theorem 4 solved for the shift, with no e^epsilon in it."""
    root = math.sqrt(-delta * math.expm1(math.log1p(-delta) - epsilon))
    return epsilon + 2 * math.log1p(root) - 2 * math.log1p(-delta)


_CLOSED: dict[type, Callable[[float, float], float]] = {
    Laplace: shift_in_any_norm,
    Logistic: _logistic_shift,
    Gaussian: lambda epsilon, delta: 1 / gaussian_scale(epsilon, delta),
}


# Several coordinates, or several releases


def _slope(law: Law, *, required: bool) -> float:
    """Return `greatest_slope`, or raise an error if it is required and not known."""
    slope = greatest_slope(law)
    if required and slope == math.inf:
        remedy = "Pass 1e-6, say, or take noise whose loss is bounded, such as Laplace or Logistic."
        raise fail("delta", "be > 0 for noise that is not known to be pure DP", 0.0, remedy)
    return slope


def pure_scale(law: Law, total: float, epsilon: float, *, required: bool) -> float:
    """Return the least scale at delta = 0 for a sum of absolute shifts, inf if there is none.

    With ``required`` a law without a known bound on its loss is refused instead.
    """
    return total * _slope(law, required=required) / epsilon * ROUND_UP


def worst_scale(
    law: Law, worst: WorstShift, epsilon: float, delta: float, *, is_rough: bool = False
) -> float:
    """Return nearly the least scale that is private for a shift that majorises all changes.

    It is never below the least. A rough one may be above it by some thousandths.
    """
    if type(law) is Gaussian:
        return least_scale(law, worst.length, epsilon=epsilon, delta=delta)
    if worst.is_single:
        return least_scale(law, worst.total, epsilon=epsilon, delta=delta)
    pure = pure_scale(law, worst.total, epsilon, required=delta == 0)
    if delta == 0:
        return pure
    return min(composed_scale(law, worst.above, epsilon, delta, is_rough=is_rough), pure)


def certified_at_first(make: Callable[[float], Made]) -> Made:
    """Return noise with the first of some factors on its scale that the checker accepts.

    The search for a scale and the checker bound a composition on different grids, whose bounds
    differ by up to 1e-4.
    """
    for excess in (0.0, 1e-6, 1e-5, 1e-4):
        with suppress(NotPrivate):
            return make(1 + excess)
    return make(1 + 1e-3)


def composed_scale(
    law: Law,
    shift: Shift,
    epsilon: float,
    delta: float,
    beside: Losses = (),
    *,
    is_rough: bool = False,
) -> float:
    """Return nearly the least scale that is private for a shift of several sizes, delta > 0.

    ``beside`` has further losses of the same budget. A rough scale is for comparisons; it is
    private all the same.
    """
    # The scale at which the variance is that of Gaussian noise, or the loss is bounded.
    gaussian = length_of(shift) * gaussian_scale(epsilon, delta) / math.sqrt(law.var())
    total = sum(count * size for size, count in shift)
    # Bounds are wide for noise whose greatest loss is hardly above epsilon: begin below it.
    start = 0.98 * min(gaussian, pure_scale(law, total, epsilon, required=False))
    gap, tolerance = (_COARSE_GAP, _COARSE) if is_rough else (None, _SHARP)

    def excess(x: float) -> float:
        return excess_at(law, shift, beside, epsilon, delta, x, gap)

    return 1 / last_passing(excess, 1 / start, tolerance=tolerance, factor=1.02)


def excess_at(
    law: Law,
    shift: Shift,
    beside: Losses,
    epsilon: float,
    delta: float,
    x: float,
    gap: float | None = None,
) -> float:
    """Return a number that is > 0 unless noise of scale 1 / x is certainly private."""
    losses = (*losses_of(law, shift, length_of(shift), 1 / x), *beside)
    upper = delta_above(losses, epsilon, gap)
    return math.expm1(min(math.log(upper / delta), 500.0) / 10) if upper > 0 else -1.0


# Shapes


def law_of(mechanism: str | Law, worst: WorstShift, epsilon: float, delta: float) -> Law:
    """Return a law, or the law of a name: of a family the shape of least variance.

    Privacy does not depend on the shape. Over several sizes it is sought for equal sizes of the
    same length and sum, which have about the same best shape.
    """
    if not isinstance(mechanism, str):
        return mechanism
    if mechanism in PLAIN:
        return PLAIN[mechanism]
    make, low, high = FAMILIES[mechanism]
    if delta == 0:  # refused later, as the loss of these laws is not bounded
        return make(high)
    if worst.is_single:

        def log_variance(t: float) -> float:
            law = make(t)
            return math.log(law.std() * least_scale(law, 1.0, epsilon=epsilon, delta=delta))

        return make(_lowest(log_variance, low, high, _FINE_GRID, 1e-8)[0])
    # Of all shapes with one variance the one with the least delta needs the least variance for a
    # given delta, if this variance is about the least that is private.
    alike = worst.of_equal_sizes()
    best, spread = (math.inf, make(low)), worst.length * gaussian_scale(epsilon, delta)
    for points in (_GRID, 7, 7, 7):

        def excess(t: float, spread: float = spread) -> float:
            law = make(t)
            return excess_at(law, alike.above, (), epsilon, delta, law.std() / spread, _COARSE_GAP)

        t, low, high = _lowest(excess, low, high, points, 1e-2)
        before, law = spread, make(t)
        spread = law.std() * worst_scale(law, alike, epsilon, delta, is_rough=True)
        best = min(best, (spread, law), key=itemgetter(0))
        if abs(spread / before - 1) < _COARSE / 10:
            break
    return best[1]


def _lowest(
    f: Callable[[float], float], low: float, high: float, points: int, xatol: float
) -> tuple[float, float, float]:
    """Return about the minimum, and the ends of the cells of a grid beside it."""
    grid = np.linspace(low, high, points).tolist()
    heights = [f(t) for t in grid]
    k = heights.index(min(heights))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, points - 1)]
    found = minimize_scalar(
        lambda t: f(float(t)), bounds=(low, high), method="bounded", options={"xatol": xatol}
    )
    # An end of the range, which the search does not try, may be the minimum.
    return float(found.x) if found.fun < heights[k] else grid[k], low, high


# Delta is spent only if it reduces the scale by more than this share.
LEAST_GAIN = 1e-3
# Proportions half-width^a are tried for these a: 1/2 is best for Gaussian noise on a box, 1/3 for
# pure Laplace noise on a box, and 1 for a ball whose corners lie on the axes.
_EXPONENTS = (0.0, 1 / 3, 1 / 2, 1.0)


@dataclass(frozen=True)
class Independent:
    """Independent noise of one even log-concave law in every coordinate.

    The scale is calibrated at the worst difference: an extreme point of the sensitivity's ball,
    or a shift that majorises all of them (``docs/proofs/worst_shift.md``). The calibration of
    one coordinate is exact (``docs/proofs/one_release.md``); several coordinates are composed
    with certified bounds.

    Parameters
    ----------
    law : Law or str
        A law of `skdp.noise`, or any object with logpdf, logsf, isf, rvs, var and scaled whose
        density is even and log-concave. Its scale is calibrated. Alternatively a name: "laplace",
        "gaussian", "logistic", or, with the shape of least variance, "flipped_huber", "subbotin",
        "truncated_laplace" or "offset_gaussian".
    proportions : array-like of shape (dim,), entries > 0, or None
        Scales of the coordinates up to a factor; they must be public. None tries the powers 0, 1/3,
        1/2 and 1 of the half-widths of the box around the differences, and chooses the power with
        the least total variance.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = Independent("flipped_huber").calibrate(
    ...     Sensitivity(LpBall(1)), epsilon=1.0, delta=0.01
    ... )
    >>> noise.covariance().round(4)
    array([[1.7038]])
    """

    law: str | Law
    proportions: ArrayLike | None = None

    def __post_init__(self) -> None:
        if isinstance(self.law, str):
            check_choice("law", self.law, NAMES, "Or give a law, such as Laplace().")
        else:
            check_law(self.law)
        if self.proportions is not None:
            proportions = check_positives("proportions", self.proportions)
            object.__setattr__(self, "proportions", proportions)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> IndependentNoise:
        """Return such noise that is (epsilon, delta)-private.

        delta = 0 is possible for laws with a bounded privacy loss: Laplace, Logistic, Subbotin(1).
        If delta reduces their scale by less than a thousandth, as for a Laplace variable and a
        small delta, it is not spent and the guarantee has delta = 0.
        """
        epsilon, delta = check_budget(epsilon, delta)
        law, proportions, worst = self._best(sensitivity, epsilon, delta)
        scale = worst_scale(law, worst, epsilon, spendable(delta))
        pure = pure_scale(law, worst.total, epsilon, required=False)
        if delta > 0 and pure <= scale * (1 + LEAST_GAIN):
            scale, delta = pure, 0.0
        said = f"independent {law!r} noise for differences in {sensitivity.ball!r}"

        def made(factor: float) -> IndependentNoise:
            noise = IndependentNoise(law, factor * scale * proportions)
            return certified(noise, sensitivity, epsilon, delta, said)

        return certified_at_first(made)

    def _best(
        self, sensitivity: Sensitivity, epsilon: float, delta: float
    ) -> tuple[Law, FloatArray, WorstShift]:
        """Return law, proportions and worst shift of least total variance."""
        ball = sensitivity.ball
        if self.proportions is not None:
            given = np.asarray(self.proportions)
            if len(given) != ball.dim:
                rule = f"have {ball.dim} entries, one for each coordinate"
                raise fail("proportions", rule, len(given))
            tried = [given / given.max()]
        else:
            widths = ask(ball, "bounding_box")
            widths = widths / widths.max()
            even = widths.min() > 1 - 1e-9
            tried = [np.ones(ball.dim)] if even else [widths**a for a in _EXPONENTS]
        choices = _promising([(p, worst_shift(sensitivity, p)) for p in tried])
        proportions, worst = choices[0]
        if len(choices) > 1:
            law = self.law
            if isinstance(law, str):  # of a family any law will do
                law = FAMILIES[law][0](1.0) if law in FAMILIES else PLAIN[law]
            totals = [
                2 * math.log(worst_scale(law, w, epsilon, delta, is_rough=True)) + _log_square(p)
                for p, w in choices
            ]
            proportions, worst = choices[int(np.argmin(totals))]
        return law_of(self.law, worst, epsilon, delta), proportions, worst


def _promising(choices: list[tuple[FloatArray, WorstShift]]) -> list[tuple[FloatArray, WorstShift]]:
    """Return the choices that are best for pure Laplace noise and for Gaussian noise."""
    pure = [_log_square(p) + 2 * math.log(w.total) for p, w in choices]
    normal = [_log_square(p) + 2 * math.log(w.length) for p, w in choices]
    return [choices[k] for k in sorted({int(np.argmin(pure)), int(np.argmin(normal))})]


def _log_square(proportions: FloatArray) -> float:
    return math.log(float(np.sum(proportions**2)))


MECHANISMS = ("auto", *NAMES)
# Share of private choices in the budget: in epsilon, or in the variance of the privacy loss.
SHARE = 0.5


def calibrate_releases(
    mechanism: str | Law | Independent,
    shifts: Sequence[tuple[float, int]],
    *,
    neighbors: str,
    epsilon: float,
    delta: float = 0.0,
    choices: tuple[float, int] | None = None,
) -> RepeatedNoise:
    """Return the noise of least variance for which all releases together are private.

    Parameters
    ----------
    mechanism : str, Law or Independent
        A law, or the name of one, as in `Independent`, or an `Independent` without proportions.
        "auto" is the better of "laplace" and "gaussian", and "laplace" if delta = 0. Other laws
        have less variance in a few settings, by at most a sixth.
    shifts, neighbors
        As in `Releases`. The sizes must be public, and known in advance.
    epsilon : float in (0, inf)
    delta : float in [0, 1)
        0 is possible only for a law with a bounded privacy loss: "laplace", "logistic",
        `Subbotin(1)`, and any law with ``greatest_slope()``.
    choices : (float, int), optional
        Width and number of private choices that the guarantee also covers; see `choice_width`.

    Returns
    -------
    RepeatedNoise
        Each number needs a new draw. The released values, the order of the sizes and the time to
        stop may depend on earlier results. The greatest number of releases and their sizes must not
        (docs/proofs/repeated_releases.md, Theorem 1).

    Raises
    ------
    ValueError
        If a parameter is out of range, or the mechanism is not a law.

    Examples
    --------
    >>> noise = calibrate_releases(
    ...     "auto", [(0.1, 10_000)], neighbors="replace_one", epsilon=1.0, delta=1e-6
    ... )
    >>> type(noise.law).__name__, round(noise.law.std(), 2)
    ('Gaussian', 42.25)

    Twenty numbers, and twenty choices of what to release:

    >>> budget = {"epsilon": 1.0, "delta": 1e-6}
    >>> choices = (choice_width(20, **budget), 20)
    >>> noise = calibrate_releases(
    ...     "gaussian", [(2.0, 20)], neighbors="replace_one", choices=choices, **budget
    ... )
    >>> round(noise.law.std() / 2.0, 1)
    26.2
    """
    releases = Releases(shifts, neighbors)
    epsilon, delta = check_budget(epsilon, delta)
    if type(mechanism) is Independent:
        if mechanism.proportions is not None:
            raise fail("mechanism", "have no proportions: there is one scale for all releases")
        mechanism = mechanism.law
    elif isinstance(mechanism, str):
        check_choice("mechanism", mechanism, MECHANISMS, "Or give a law, as Laplace().")
    else:
        check_law(mechanism, "mechanism")
    return _calibrated(cast("str | Law", mechanism), releases, epsilon, delta, choices)


@remembered(maxsize=256)
def _calibrated(
    mechanism: str | Law,
    releases: Releases,
    epsilon: float,
    delta: float,
    choices: tuple[float, int] | None,
) -> RepeatedNoise:
    few = fewer(releases.shifts, MOST_SIZES) if delta > 0 else releases.shifts
    worst, rest = WorstShift(few, length_of(releases.shifts)), epsilon
    beside: Losses = () if choices is None else ((SelectionLoss(choices[0]), choices[1]),)
    if choices is not None and delta == 0:
        cost = choices[0] * choices[1]
        rest = (epsilon - cost) * (1 - 1e-12)
        if not rest > 0:
            raise fail("choices", f"cost less than epsilon = {epsilon:g}", cost)

    def scale_of(law: Law) -> float:
        if beside and delta > 0:
            return composed_scale(law, few, epsilon, spendable(delta), beside)
        return worst_scale(law, worst, rest, spendable(delta))

    law = law_of("laplace" if mechanism == "auto" else mechanism, worst, rest, delta)
    if mechanism == "auto" and delta > 0:
        # The scale at which Laplace noise has the variance that Gaussian noise needs.
        limit = scale_of(PLAIN["gaussian"]) / math.sqrt(2)
        is_pure = not beside and pure_scale(law, worst.total, epsilon, required=True) <= limit
        if not is_pure and excess_at(law, few, beside, epsilon, delta, 1 / limit) > 0:
            law = PLAIN["gaussian"]
    scale = scale_of(law)

    shifts = [f"{count} x {size:.6g}" for size, count in releases.shifts]
    if len(shifts) > 4:
        shifts[2:-1] = ["..."]
    plan = f"noise in each of {releases.count} releases with shifts {', '.join(shifts)}"
    choice = [] if choices is None else [PrivateChoice("choices", *choices)]
    plan += f", and {choices[1]} private choices" if choices is not None else ""

    def made(factor: float) -> RepeatedNoise:
        noise = RepeatedNoise(scaled(law, factor * scale), releases.shifts)
        planned: list[Release] = [NoisySum("releases", releases, noise), *choice]
        public = Public(epsilon, delta, releases.neighbors)
        return replace(noise, guarantee=guarantee_of(planned, public, f"{noise.law!r} {plan}"))

    return certified_at_first(made)


def choice_width(count: int, *, epsilon: float, delta: float = 0.0) -> float:
    """Return the width of the losses of ``count`` choices with `SHARE` of a budget.

    It is for `SelectionLoss`. The maximum of scores with Gumbel noise of scale 2 D / width has this
    loss, if one record changes a score by at most D.
    """
    count, epsilon = check_count("count", count), check_positive("epsilon", epsilon)
    if delta == 0:
        return SHARE * epsilon / count
    # The loss of a choice of width w, uniform on [-w, w] for small w, has the variance w^2 / 3.
    return math.sqrt(SHARE * 3 / count) / gaussian_scale(epsilon, delta)
