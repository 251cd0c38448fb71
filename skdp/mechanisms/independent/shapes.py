"""Families of laws with a shape, and the shape whose noise has the least variance."""

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

# Returns log(variance) of the calibrated noise of a law, to a relative tolerance.
LogVariance = Callable[[Any, float], float]

# Logs of the shape, finest where optima lie for common (epsilon, delta). At either end a family
# is within 1e-3 of the law that it tends to.
_GRID = (-8.0, -5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.5, 6.0)


@dataclass(frozen=True)
class Family:
    """Laws of one shape parameter.

    Attributes
    ----------
    law : callable
        From the log of the shape to a law of any scale.
    grid : tuple of float
        Logs of shapes to begin with, increasing.
    plateau : callable or None
        Slope of the log-density next to the centre, where it is constant, of the law of a log
        shape. A shift of epsilon over it has a loss of epsilon there: at that shape the variance
        has a corner, which is often its least.
    """

    law: Callable[[float], Any]
    grid: tuple[float, ...] = _GRID
    plateau: Callable[[float], float] | None = None


# What has no shape to optimise.
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
        Log of a shape where the variance may have a corner, and the log of the variance there.
    known : float > 0
        How well ``log_variance`` knows it.

    Notes
    -----
    The least of the grid and the corner, refined between its neighbours: the variance is found
    about as well as it is known where it has one local minimum between neighbours of the grid.
    Privacy does not depend on that.
    """
    tight, loose, width = known / 100, known, 3e-3
    every = 2 if corner is not None else 1
    points = {t: log_variance(family.law(t), loose) for t in family.grid[::every]}
    if corner is not None:
        # Where both its neighbours are worse the corner is the least, and refining adds nothing.
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
    # The search never tries the ends, where a family's limit may be the best of it.
    shape, least = min((float(found.fun), float(found.x)), (least, shapes[best]))[::-1]
    return family.law(shape), least


def corner_of(
    family: Family, excess: Callable[[Any, float], float], total: float, epsilon: float
) -> tuple[float, float] | None:
    """Return the log shape at which the least noise has a loss of epsilon at its centre.

    With the log of its variance. ``excess(law, x)`` is by how much noise of scale 1 / x does not
    hide shifts that add up to ``total``. None where there is no such shape, or none in the grid.
    """
    if family.plateau is None:
        return None
    slope = family.plateau

    def at(t: float) -> float:
        return max(excess(family.law(t), epsilon / slope(t) / total), -1e3)

    low, high = family.grid[0], family.grid[-1]
    if not at(low) > 0 > at(high):
        return None
    t = float(brentq(at, low, high, xtol=1e-13))
    return t, math.log(family.law(t).var()) + 2 * math.log(total * slope(t) / epsilon)
