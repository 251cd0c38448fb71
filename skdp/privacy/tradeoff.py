"""Trade-off functions of two laws (f-DP).

The trade-off function of two laws P and Q is f(alpha), the least type II error (Q is taken for
P) of any test whose type I error (P is taken for Q) is at most alpha. A release is f-private if
f is a lower bound for all neighbours (Dong, Roth & Su 2022). Proofs: docs/proofs/tradeoff.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from numpy.typing import ArrayLike

from skdp.privacy.curves import (
    AlongProfile,
    Approximate,
    NormalShift,
    Points,
    Shifted,
    StandardLaplace,
    TradeOff,
)
from skdp.privacy.shift import ShiftedLaw
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_interval, check_positive, fail

__all__ = [
    "TradeOff",
    "approximate",
    "from_law",
    "from_profile",
    "gaussian",
    "laplace",
    "total_variation",
]


def approximate(epsilon: float, delta: float = 0.0) -> TradeOff:
    """Return max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)).

    Parameters
    ----------
    epsilon : float in [0, inf)
    delta : float in [0, 1]

    Examples
    --------
    >>> float(approximate(0.0, 0.25)(0.5))
    0.25
    """
    return Approximate(epsilon, delta)


def total_variation(delta: float) -> TradeOff:
    """Return max(0, 1 - delta - alpha), the trade-off function of (0, delta).

    Parameters
    ----------
    delta : float in [0, 1]

    Examples
    --------
    >>> float(total_variation(0.25)(0.5))
    0.25
    """
    return approximate(0.0, delta)


def gaussian(mu: float) -> TradeOff:
    """Return the trade-off function of N(0, 1) and N(mu, 1).

    Parameters
    ----------
    mu : float in (0, inf)

    Examples
    --------
    >>> round(float(gaussian(1.0)(0.05)), 4)  # 5 % of false alarms, 74 % of misses
    0.7405
    """
    return NormalShift(mu)


def laplace(epsilon: float) -> TradeOff:
    """Return the trade-off function of a Laplace variable of scale 1 / epsilon and shift 1.

    Parameters
    ----------
    epsilon : float in (0, inf)

    Examples
    --------
    >>> round(float(laplace(1.0)(0.05)), 4)
    0.8641
    """
    return Shifted(StandardLaplace(), check_positive("epsilon", epsilon))


def from_law(law: ShiftedLaw, shift: float = 1.0) -> TradeOff:
    """Return F(isf(alpha) - shift), the function of X and X + shift, X even and log-concave.

    Parameters
    ----------
    law : even, log-concave law with ``logpdf``, ``logsf`` and ``isf``
    shift : float in (0, inf), units of the law

    Examples
    --------
    >>> from skdp.noise import Gaussian
    >>> round(float(from_law(Gaussian(), shift=1.0)(0.05)), 4)
    0.7405
    """
    return Shifted(law, shift)


def from_profile(
    profile: Callable[[FloatArray], ArrayLike] | Iterable[tuple[float, float]],
) -> TradeOff:
    """Return the greatest of the (epsilon, delta) functions along a privacy profile.

    Parameters
    ----------
    profile : callable, or pairs (epsilon, delta)
        A function of an array of epsilon >= 0 that returns log delta of the same shape, or points
        of the profile. Points may be any valid pairs. A callable must return a delta that is
        decreasing and convex in e^epsilon, as every profile is.

    Examples
    --------
    >>> f = from_profile([(1.0, 1e-6), (0.0, 0.4)])
    >>> round(float(f(0.5)), 6)
    0.183939
    """
    if callable(profile):
        return AlongProfile(profile)
    points = [(check_interval("epsilon", e, 0, math.inf, closed="left"), d) for e, d in profile]
    if not points:
        raise fail("profile", "have at least one point")
    deltas = [check_interval("delta", d, 0, 1) for _, d in points]
    logs = tuple(math.log(d) if d > 0 else -math.inf for d in deltas)
    return Points(tuple(e for e, _ in points), logs)
