"""The least scale of one-dimensional noise, rounded up.

A law scaled by s is as private for a shift v as the law itself for v / s, so the greatest shift
for which the law is private is sought. The proofs are in docs/proofs/one_release.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from skdp._checks import check_interval, check_positive, fail
from skdp._search import last_passing
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.knorm.radial import shift_in_any_norm
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.noise.gaussian import Gaussian
from skdp.noise.laplace import Laplace
from skdp.noise.logistic import Logistic
from skdp.noise.subbotin import Subbotin
from skdp.privacy.losses.shift import log_delta, log_spared

_REMEDY = "Give 1e-6, say, or take noise whose loss is bounded, such as Laplace or Logistic."


def least_scale(
    law: Any,
    shift: float,
    *,
    epsilon: float,
    delta: float = 0.0,
    tolerance: float = 1e-14,
    near: float | None = None,
) -> float:
    """Return the least s for which s X is private for a shift, rounded up.

    Parameters
    ----------
    law : Law
        The law of X, even and log-concave.
    shift : float in (0, inf), units of the released value
        Greatest difference between neighbours.
    epsilon : float in (0, inf)
    delta : float in [0, 1)
        0 is possible only for a law with a bounded privacy loss: Laplace, Logistic, and any law
        with ``greatest_slope()``, a bound on the slope of its log-density.
    tolerance : float > 0
        Greatest relative distance of the result above the least, beyond 1e-12.
    near : float or None
        A scale close to the result, to save time.

    Returns
    -------
    float
        If the functions of the law are right, never below the least and within a few 1e-12 of it
        (docs/proofs/one_release.md, Theorem 3).

    Raises
    ------
    ValueError
        If a parameter is out of range, or delta = 0 and the loss of the law is not bounded.

    Examples
    --------
    >>> from skdp.noise.laplace import Laplace
    >>> round(least_scale(Laplace(), 2.0, epsilon=1.0, delta=0.1), 6)
    1.651908
    """
    shift = check_positive("shift", shift)
    start = None if near is None else shift / near
    hidden = greatest_shift(law, epsilon, delta, tolerance=tolerance, near=start)
    scale = shift / hidden * ROUND_UP
    if not 0 < scale < math.inf:
        raise fail("delta", "be so great that the noise is a finite number", delta)
    return scale


def greatest_shift(
    law: Any,
    epsilon: float,
    delta: float = 0.0,
    *,
    tolerance: float = 1e-14,
    near: float | None = None,
) -> float:
    """Return the greatest shift for which noise of this law is private, rounded down.

    Parameters are those of `least_scale`.
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    if type(law) in _CLOSED:
        return float(law.scale) * _CLOSED[type(law)](epsilon, delta)
    if delta == 0:
        return epsilon / greatest_slope(law)
    start = math.sqrt(law.var() / 2) * shift_in_any_norm(epsilon, delta)

    # False position works best on a power of delta, as log delta may be -inf on one side.
    def excess(shift: float) -> float:
        return math.expm1(min(excess_of(law, shift, epsilon, delta), 500.0) / 10)

    if near is not None:
        return last_passing(excess, near, tolerance=tolerance, factor=1 + 1e-12)
    return last_passing(excess, start, tolerance=tolerance)


def pure_scale(law: Any, total: float, epsilon: float, *, required: bool) -> float:
    """Return the least scale at delta = 0 for a sum of absolute shifts, inf if there is none.

    With ``required`` a law without a known bound on its loss is refused instead.
    """
    slope = greatest_slope(law, required=required)
    return total * slope / epsilon * ROUND_UP


def excess_of(law: Any, shift: float, epsilon: float, delta: float) -> float:
    """Return log delta of a shift less log delta: the noise is private if and only if <= 0."""
    if delta < 0.5:
        return float(log_delta(law, shift, epsilon)) - math.log(delta)
    # Near 1 the digits of delta are in its distance to 1.
    return math.log1p(-delta) - float(log_spared(law, shift, epsilon))


def greatest_slope(law: Any, *, required: bool = True) -> float:
    """Return sup |(log f)'|, by which v times bounds the loss of a shift v; inf if unknown."""
    if type(law) in (Laplace, Logistic) or (type(law) is Subbotin and law.r == 1):
        return 1 / float(law.scale)  # Subbotin's law at r = 1 is Laplace's
    if hasattr(law, "greatest_slope"):
        return float(law.greatest_slope())
    if required:
        rule = "be > 0 for noise that is not known to be pure DP"
        raise fail("delta", rule, 0.0, _REMEDY)
    return math.inf


def _logistic_shift(epsilon: float, delta: float) -> float:
    """Return Vinterbo's Theorem 4 solved for the shift, with no e^epsilon in it."""
    root = math.sqrt(-delta * math.expm1(math.log1p(-delta) - epsilon))
    return epsilon + 2 * math.log1p(root) - 2 * math.log1p(-delta)


def _gaussian_shift(epsilon: float, delta: float) -> float:
    return 1 / gaussian_scale(epsilon, delta)


_CLOSED: dict[type, Callable[[float, float], float]] = {
    Laplace: shift_in_any_norm,
    Logistic: _logistic_shift,
    Gaussian: _gaussian_shift,
}
