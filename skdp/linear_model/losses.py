"""Losses for objective perturbation: convex, of bounded slope, flat where they are steep.

A loss is a function phi(z, y) of one record's linear predictor z = theta'x and target y. What
the privacy proof (docs/proofs/objective_perturbation.md) asks of it, and all it asks, is

1. convexity and two bounded derivatives in z, the second one piecewise continuous;
2. ``slope_bound`` c with |phi'| <= c;
3. ``curvature_bound(low, high)``: an upper bound on phi'' wherever low <= |phi'| <= high.

All of it must hold for every target that the loss is for, which it says by ``target``: "labels"
are 0 and 1, a "number" is any in [-1, 1]. A new loss is one small class with these members;
:class:`PseudoHuber` is the shortest example.
One whose slope never changes its sign for a given target may say so by ``one_sided = True``: with
delta > 0 it then needs a little less noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from skdp._arrays import FloatArray
from skdp._checks import check_interval, check_positive
from skdp._identity import claims

# What a computed slope may be off by, and more than the error of solving for one: slopes up to 1.
_SLOPE_ERROR = 32 * float(np.finfo(float).eps)
# What losses are for.
TARGETS = {"labels": "a label, 0 or 1", "number": "a number in [-1, 1]"}


class Loss(Protocol):
    """A convex loss phi(z, y); every method takes arrays of one shape and returns that shape.

    Make it a frozen dataclass: its calibration is then remembered while a fit lasts, and that of
    any other class is computed anew whenever it is asked for. It may have a further member,
    ``one_sided = True``, if phi'(., y) never changes its sign whatever y is: noise for delta > 0
    then protects against one tail only, which is wrong for any other loss.
    """

    @property
    def target(self) -> str:
        """What y is: "labels", 0 or 1, or "number", any in [-1, 1]."""

    @property
    def slope_bound(self) -> float:
        """Return c, the least known bound on |phi'|."""

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return phi(z, y)."""

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return phi'(z, y), with an error below 16 units in the last place of c."""

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return phi''(z, y)."""

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return a bound on phi'' where low <= |phi'| <= high, for 0 <= low <= high <= c."""


def is_one_sided(loss: Loss) -> bool:
    """Whether a loss says that its slope keeps its sign: in the class that has the slope."""
    return claims(loss, "one_sided", about=("slope",))


@dataclass(frozen=True)
class Logistic:
    """The negative log-likelihood of a 0/1 target, log(1 + e^z) - y z.

    With s = |phi'| the curvature is exactly s (1 - s), so c = 1 and the steepest records have
    none.

    >>> float(Logistic().curvature_bound(0.9, 1.0).round(12))
    0.09
    """

    target: ClassVar[str] = "labels"
    # The slope of a record keeps the sign that its label gives it.
    one_sided: ClassVar[bool] = True

    @property
    def slope_bound(self) -> float:
        """The slope is p - y, between -1 and 1."""
        return 1.0

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return log(1 + e^z) - y z."""
        return np.asarray(np.logaddexp(0.0, z) - y * z)

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return p - y."""
        return np.asarray(expit(z) - y)

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return p (1 - p)."""
        p = expit(z)
        return np.asarray(p * (1 - p))

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return max s (1 - s): the parabola at the point of [low, high] nearest to 1/2."""
        s = np.clip(0.5, low, high)
        return np.asarray(s * (1 - s))


@dataclass(frozen=True)
class SharpLogistic:
    r"""A loss whose minimiser in expectation is the logistic model, with more curvature.

    For y = 0 the slope is

        s(z) = h(z) for z >= 0,   s(z) = e^z h(-z) for z < 0,   h(a) = 1 - (1 - m) e^{-k a},

    and for y = 1 it is -s(-z). Since s(z) / s(-z) = e^z, its mean is zero where
    P(y = 1) = 1 / (1 + e^{-z}): the score of the logistic likelihood, times a weight
    s(z) / expit(z) between 1 and 2 m. At equal slope bound the data count for up to 2 m times
    as much against noise and ridge, at the price of a slightly larger sampling error.
    With k = m / (2 (1 - m)) the slope has a continuous derivative; it is increasing, since
    h' <= h / 2 < h, so the loss is convex.

    Parameters
    ----------
    middle : float in [0.5, 1)
        m, the slope at z = 0; that of the logistic loss is 1/2.

    Examples
    --------
    >>> sharp = SharpLogistic(0.75)
    >>> float(sharp.slope(np.array(0.0), np.array(0.0)))
    0.75
    >>> float(sharp.curvature_bound(0.9, 1.0).round(6))
    0.15
    """

    middle: float = 0.75
    target: ClassVar[str] = "labels"
    one_sided: ClassVar[bool] = True

    def __post_init__(self) -> None:
        middle = check_interval("middle", self.middle, 0.5, 1.0, closed="left")
        object.__setattr__(self, "middle", middle)

    @property
    def rate(self) -> float:
        """The rate k at which the slope approaches its bound."""
        return self.middle / (2 * (1 - self.middle))

    @property
    def slope_bound(self) -> float:
        """The slope is below 1 and comes as near as one likes."""
        return 1.0

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the integral of the slope, from where it vanishes."""
        t = (1 - 2 * y) * z
        m, k, a = self.middle, self.rate, np.abs(t)
        e = np.exp(-a)
        f = _power(e, k)
        at_zero = 1 - (1 - m) / (1 + k)
        right = at_zero + a - (1 - m) / k * (1 - f)
        return np.where(t < 0, e - (1 - m) / (1 + k) * e * f, right)

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return s(z) for y = 0 and -s(-z) for y = 1."""
        sign = 1 - 2 * y
        t = sign * z
        e = np.exp(-np.abs(t))
        s = 1 - (1 - self.middle) * _power(e, self.rate)
        return np.asarray(sign * np.where(t < 0, e * s, s))

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return s'(z) for y = 0 and s'(-z) for y = 1."""
        t = (1 - 2 * y) * z
        k, e = self.rate, np.exp(-np.abs(t))
        f = (1 - self.middle) * _power(e, k)
        return np.where(t < 0, e * (1 - (1 + k) * f), k * f)

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return the greatest curvature: it rises with the slope to one peak and then falls."""
        # Where m is close to 1, the curvature changes much within the rounding error of a slope.
        low = np.asarray(low, dtype=float) - _SLOPE_ERROR
        high = np.minimum(np.asarray(high, dtype=float) + _SLOPE_ERROR, 1.0)
        peak_slope, peak = self._peak
        rising = np.where(high < peak_slope, self._curvature_at(high), peak)
        return np.where(low > peak_slope, np.minimum(self._curvature_at(low), peak), rising)

    @cached_property
    def _peak(self) -> tuple[float, float]:
        m, k = self.middle, self.rate
        # On z < 0, with u = e^z: s = u (1 - (1-m) u^k) and s' = u (1 - (1-m)(1+k) u^k).
        u = min(1.0, ((1 - m) * (1 + k) ** 2) ** (-1 / k))
        return u * (1 - (1 - m) * u**k), u * (1 - (1 - m) * (1 + k) * u**k) * (1 + 1e-9)

    def _curvature_at(self, s: FloatArray) -> FloatArray:
        """Return the curvature where the slope is s, a hair above the exact value."""
        m, k = self.middle, self.rate
        # u - (1-m) u^(k+1) = s: increasing and concave, so that Newton's method rises to the
        # root from u = s, twice as many digits a step.
        u = s = np.clip(s, 0.0, 1.0)
        for _ in range(7):
            power = (1 - m) * u**k
            u = u + (s - u * (1 - power)) / (1 - (1 + k) * power)
            u = np.clip(u, 0.0, 1.0)
        left = u * (1 - (1 - m) * (1 + k) * u**k)
        return np.where(s < m, left, k * (1 - s)) * (1 + 1e-9) + 1e-15


@dataclass(frozen=True)
class PseudoHuber:
    """A smooth absolute value, c^2 (sqrt(1 + (r/c)^2) - 1) of the residual r = z - y.

    With s = |phi'| / c the curvature is (1 - s^2)^(3/2): quadratic for small residuals, and
    no curvature left where the slope reaches c.

    Parameters
    ----------
    threshold : float > 0, units of the target
        c: the residual at which the loss turns from quadratic to linear.

    Examples
    --------
    >>> float(PseudoHuber(0.5).curvature_bound(0.3, 0.5).round(12))
    0.512
    """

    threshold: float = 1.0
    target: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", check_positive("threshold", self.threshold))

    @property
    def slope_bound(self) -> float:
        """The slope is c r / sqrt(c^2 + r^2)."""
        return self.threshold

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return c (sqrt(c^2 + r^2) - c), without cancellation at small residuals."""
        c, r = self.threshold, z - y
        return np.asarray(c * r * (r / (np.hypot(c, r) + c)))

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return c r / sqrt(c^2 + r^2)."""
        c, r = self.threshold, z - y
        return np.asarray(c * (r / np.hypot(c, r)))

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return (c / sqrt(c^2 + r^2))^3."""
        c = self.threshold
        return np.asarray((c / np.hypot(c, z - y)) ** 3)

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return the curvature at ``low``: it falls as the slope grows."""
        s = np.asarray(low, dtype=float) / self.threshold
        return np.asarray(np.maximum(1 - s * s, 0.0) ** 1.5)


def _power(e: FloatArray, k: float) -> FloatArray:
    """Return e^k; roots are many times faster than powers, and the usual k need no others."""
    quarters = 4 * k
    if abs(quarters - round(quarters)) > 1e-12 or quarters > 8:
        return np.asarray(e**k)
    root = np.sqrt(e)
    fast = {3: lambda: root * np.sqrt(root), 6: lambda: e * root, 8: lambda: e * e}
    return np.asarray(fast.get(round(quarters), lambda: e**k)())
