"""The least scale of independent noise that is private for a shift, rounded up.

A law scaled by s is as private for a shift v as the law itself for v / s. For one coordinate the
least delta is a function of the law; for several it is a certified bound on a composition. Either
way the returned scale has passed, so a search that ends early costs noise and no privacy. Proofs:
docs/proofs/one_release.md and docs/proofs/repeated_releases.md, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from operator import itemgetter
from typing import TypeVar

import numpy as np
from scipy.optimize import minimize_scalar

from skdp._first_use import check_at_first_use
from skdp._search import last_passing
from skdp.mechanisms.gaussian import gaussian_scale
from skdp.mechanisms.knorm import shift_in_any_norm
from skdp.noise.independent import Shift, WorstShift, greatest_slope, length_of, losses_of
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
from skdp.privacy.shift import log_delta, log_spared, require_log_concave
from skdp.trusted.checks import check_interval, check_positive, fail
from skdp.trusted.composition import delta_above
from skdp.trusted.identity import is_ours
from skdp.trusted.losses import Losses
from skdp.trusted.rounding import ROUND_UP
from skdp.trusted.statement import NotPrivate

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

_REMEDY = "Pass 1e-6, say, or take noise whose loss is bounded, such as Laplace or Logistic."


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

    Examples
    --------
    >>> from skdp.noise.laws import Laplace
    >>> round(least_scale(Laplace(), 2.0, epsilon=1.0, delta=0.1), 6)
    1.651908
    """
    shift = check_positive("shift", shift)
    scale = shift / greatest_shift(law, epsilon, delta) * ROUND_UP
    if not 0 < scale < math.inf:
        raise fail("delta", "be so great that the noise is a finite number", delta)
    return scale


def greatest_shift(law: Law, epsilon: float, delta: float = 0.0) -> float:
    """Return the greatest shift for which noise of this law is private, rounded down.

    Parameters are those of `least_scale`.
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    if type(law) in _CLOSED and isinstance(law, ScaleLaw):
        return float(law.scale) * _CLOSED[type(law)](epsilon, delta)
    if delta == 0:
        return epsilon / _slope(law, required=True)

    # False position works best on a power of delta, as log delta may be -inf on one side.
    def excess(shift: float) -> float:
        return math.expm1(min(excess_of(law, shift, epsilon, delta), 500.0) / 10)

    return last_passing(excess, math.sqrt(law.var() / 2) * shift_in_any_norm(epsilon, delta))


def excess_of(law: Law, shift: float, epsilon: float, delta: float) -> float:
    """Return log delta of a shift less log delta: the noise is private if and only if <= 0."""
    if delta < 0.5:
        return float(log_delta(law, shift, epsilon)) - math.log(delta)
    # Near 1 the digits of delta are in its distance to 1.
    return math.log1p(-delta) - float(log_spared(law, shift, epsilon))


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
    found = greatest_slope(law)
    if required and found == math.inf:
        rule = "be > 0 for noise that is not known to be pure DP"
        raise fail("delta", rule, 0.0, _REMEDY)
    return found


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
    return 1 / last_passing(
        lambda x: excess_at(law, shift, beside, epsilon, delta, x, gap),
        1 / start,
        tolerance=tolerance,
        factor=1.02,
    )


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
