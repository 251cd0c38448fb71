"""Families of laws with a shape parameter, and the shape of least variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq, minimize_scalar

from skdp.noise.flipped_huber import FlippedHuber
from skdp.noise.gaussian import Gaussian
from skdp.noise.laplace import Laplace
from skdp.noise.logistic import Logistic
from skdp.noise.offset_gaussian import OffsetGaussian
from skdp.noise.subbotin import Subbotin
from skdp.noise.truncated_laplace import TruncatedLaplace

# From a law and a relative tolerance to log(variance) of its calibrated noise.
LogVariance = Callable[[Any, float], float]

# Logs of the shape, finest near the optima for common (epsilon, delta). At either end a family is
# within 1e-3 of its limit.
_GRID = (-8.0, -5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.5, 6.0)


@dataclass(frozen=True)
class Family:
    """Laws of one shape parameter.

    Attributes
    ----------
    law : callable
        From the log of the shape to a law of any scale.
    grid : tuple of float
        Logs of the first shapes, increasing.
    plateau : callable or None
        From a log shape to the constant slope of the log-density near the centre. A shift of
        epsilon over this slope has a loss of epsilon there. At the shape for which this is the
        calibrated shift the variance has a corner, which is often its minimum.
    """

    law: Callable[[float], Any]
    grid: tuple[float, ...] = _GRID
    plateau: Callable[[float], float] | None = None


# Laws without a shape parameter.
PLAIN: dict[str, Any] = {"laplace": Laplace(), "gaussian": Gaussian(), "logistic": Logistic()}
FAMILIES = {
    "flipped_huber": Family(lambda t: FlippedHuber(math.exp(t), 1.0), plateau=math.exp),
    # At r = 1 the law is Laplace's; beyond r = 400 it is uniform for all purposes.
    "subbotin": Family(lambda t: Subbotin(1 + (math.exp(t) if t > -20 else 0)), (-30.0, *_GRID)),
    "truncated_laplace": Family(
        lambda t: TruncatedLaplace(math.exp(t), 1.0), (*_GRID, 7.5), plateau=lambda t: 1.0
    ),
    "offset_gaussian": Family(lambda t: OffsetGaussian(math.exp(t), 1.0), (*_GRID, 8.0)),
}


def best_law(
    family: Family,
    log_variance: LogVariance,
    corner: tuple[float, float] | None = None,
    *,
    known: float = 1e-5,
) -> tuple[Any, float]:
    """Return the law of a family with the least variance after calibration, and its log.

    Parameters
    ----------
    family : Family
    log_variance : callable
        ``log_variance(law, tolerance)``.
    corner : pair of float or None
        Log of a shape at which the variance may have a corner, and the log of the variance there.
    known : float > 0
        Accuracy of ``log_variance``.

    Notes
    -----
    The best shape of the grid and the corner is refined between its neighbours. If the variance
    has one local minimum there, the result is about as accurate as ``known``. Privacy does not
    depend on it.
    """
    tight, loose, width = known / 100, known, 3e-3
    every = 2 if corner is not None else 1
    points = {t: log_variance(family.law(t), loose) for t in family.grid[::every]}
    if corner is not None:
        # If both neighbours of the corner are worse, it is the minimum and is not refined.
        aside = (corner[0] - width, corner[0] + width)
        points |= {t: log_variance(family.law(t), loose) for t in aside}
        points[corner[0]] = corner[1]
    shapes = sorted(points)
    best = min(range(len(shapes)), key=lambda k: points[shapes[k]])
    ends = shapes[max(best - 1, 0)], shapes[min(best + 1, len(shapes) - 1)]
    least = points[shapes[best]]
    at_corner = corner is not None and shapes[best] == corner[0]
    if at_corner or max(points[t] for t in ends) - least < 5 * loose:
        return family.law(shapes[best]), least
    found = minimize_scalar(
        lambda t: log_variance(family.law(float(t)), tight),
        bounds=ends,
        method="bounded",
        options={"xatol": 4 * width},
    )
    # The search never tries the ends, but a limit of a family may be its best law.
    shape, least = min((float(found.fun), float(found.x)), (least, shapes[best]))[::-1]
    return family.law(shape), least


def corner_of(
    family: Family, excess: Callable[[Any, float], float], total: float, epsilon: float
) -> tuple[float, float] | None:
    """Return the log shape at which calibrated noise has a loss of epsilon near its centre.

    The log of its variance is returned too, or None if the grid has no such shape.
    ``excess(law, x)`` is log delta less its target for noise of scale 1 / x and shifts that add
    up to ``total``.
    """
    if family.plateau is None:
        return None
    slope = family.plateau

    def at(t: float) -> float:
        return max(excess(family.law(t), epsilon / slope(t) / total), -1e3)

    low, high = family.grid[0], family.grid[-1]
    if not at(low) > 0 > at(high):
        return None
    t = float(brentq(at, low, high, xtol=1e-9))
    return t, math.log(family.law(t).var()) + 2 * math.log(total * slope(t) / epsilon)
