"""Losses for objective perturbation.

A loss is a function phi(z, y) of the linear predictor z = theta'x and the target y of one record.
The privacy proof (docs/proofs/objective_perturbation.md) requires three properties:

1. phi is convex in z and has two bounded derivatives; the second one is piecewise continuous;
2. |phi'| <= c, the ``slope_bound``;
3. phi'' is at most ``curvature_bound(low, high)`` wherever low <= |phi'| <= high.

They must hold for all values of ``target``: "labels" are 0 and 1, a "number" is any number in
[-1, 1], a "count" any number >= -1. A new loss is a class with the members of :class:`Loss`;
:class:`PseudoHuber` is the shortest example.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from skdp._first_use import check_at_first_use
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_count, check_interval, fail, remembered

__all__ = [
    "CappedPoisson",
    "LogisticLoss",
    "Loss",
    "PseudoHuber",
    "SharpLogistic",
    "SmoothedQuantile",
    "Softmax",
]

# Bounds the rounding error of a slope, and the error of solving for a slope, for slopes up to 1.
_SLOPE_ERROR = 32 * float(np.finfo(float).eps)
_LOG_2 = math.log(2)
# Kinds of targets.
TARGETS = {
    "labels": "a label, 0 or 1",
    "number": "a number in [-1, 1]",
    "count": "a number >= -1, where -1 stands for 0 and 1 for the cap of the mean",
}


class Bounded(Protocol):
    """The bounds on slope and curvature from which noise is calibrated."""

    @property
    def slope_bound(self) -> float:
        """The bound c on |phi'|, as small as known."""

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return a bound on phi'' where low <= |phi'| <= high, for 0 <= low <= high <= c."""


class Loss(Bounded, Protocol):
    """A convex loss phi(z, y). Every method takes arrays of one shape and returns that shape.

    Make it a frozen dataclass: a loss must not change, and its ``==`` must compare all that decides
    its results, because calibrations are cached. `skdp.testing.check_loss` checks a loss from
    outside this package at its first use. A loss may have a further member, ``one_sided = True``,
    if phi'(., y) never changes its sign for any y. With delta > 0 it then needs a little less
    noise. For any other loss this statement invalidates the guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model.losses import Loss, PseudoHuber
    >>> loss: Loss = PseudoHuber(0.5)
    >>> slope = loss.slope(np.array([-3.0, 0.0, 3.0]), np.zeros(3))
    >>> bool(np.abs(slope).max() <= loss.slope_bound)
    True
    """

    @property
    def target(self) -> str:
        """The kind of y: "labels" (0, 1), "number" (in [-1, 1]) or "count" (at least -1)."""

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return phi(z, y)."""

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return phi'(z, y), with an error below 16 units in the last place of c."""

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return phi''(z, y)."""


def is_one_sided(loss: Bounded) -> bool:
    return bool(getattr(loss, "one_sided", False))


def require_loss(loss: Any, target: str) -> None:
    """Raise ValueError unless an object is a loss for a kind of targets."""
    if type(loss) is Softmax and target == loss.target:
        return
    members = ("slope_bound", "value", "slope", "curvature", "curvature_bound")
    if isinstance(loss, type) or not all(hasattr(loss, name) for name in members):
        rule = f"have the members of a Loss, {', '.join(members)}"
        raise fail("loss", rule, loss, "See skdp.linear_model.losses.")
    stated = getattr(loss, "target", None)
    if stated not in TARGETS:
        remedy = "Set it in the class of the loss, whose bounds must hold for all such targets."
        raise fail("loss", f"have a target, one of {sorted(TARGETS)}", stated, remedy)
    if stated != target:
        remedy = f"This model's target is {TARGETS[target]}."
        raise fail("loss", f'be for target = "{target}"', f'{loss!r}, for "{stated}"', remedy)
    check_at_first_use(loss, "loss")


@remembered(maxsize=64)
def greatest_curvature(loss: Bounded) -> float:
    return float(loss.curvature_bound(0.0, loss.slope_bound))


@dataclass(frozen=True)
class LogisticLoss:
    """The negative log-likelihood of a 0/1 target, log(1 + e^z) - y z.

    With s = |phi'| the curvature is exactly s (1 - s), and c = 1.

    Examples
    --------
    >>> float(LogisticLoss().curvature_bound(0.9, 1.0).round(12))
    0.09
    """

    target: ClassVar[str] = "labels"
    # The label determines the sign of the slope.
    one_sided: ClassVar[bool] = True
    slope_bound: ClassVar[float] = 1.0

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
    s(z) / expit(z) between 1 and 2 m. At the same slope bound the expected curvature is up to 2 m
    times that of the logistic loss, so noise and ridge change the coefficients less. The sampling
    error is slightly larger. With k = m / (2 (1 - m)) the slope has a continuous derivative; it is
    increasing, since h' <= h / 2 < h, so the loss is convex.

    Parameters
    ----------
    middle : float in [0.5, 1)
        m, the slope at z = 0. The logistic loss has 1/2.

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
    slope_bound: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        middle = check_interval("middle", self.middle, 0.5, 1.0, closed="left")
        object.__setattr__(self, "middle", middle)

    @property
    def rate(self) -> float:
        """The rate k at which the slope approaches its bound."""
        return self.middle / (2 * (1 - self.middle))

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the integral of s up to z for y = 0, and up to -z for y = 1."""
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
        """Return the greatest curvature, which increases with the slope up to a peak."""
        # If m is close to 1, the curvature changes much within the rounding error of a slope.
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
        """Return the curvature at slope s, rounded up."""
        m, k = self.middle, self.rate
        # u - (1-m) u^(k+1) = s: the left side is increasing and concave, so Newton's method from
        # u = s increases to the root and converges quadratically.
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

    With s = |phi'| / c the curvature is (1 - s^2)^(3/2). The bounds hold for all real targets.

    Parameters
    ----------
    threshold : float > 0, units of the target
        c, the residual at which the loss turns from quadratic to linear.

    Examples
    --------
    >>> float(PseudoHuber(0.5).curvature_bound(0.3, 0.5).round(12))
    0.512
    """

    threshold: float = 1.0
    target: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        remedy = "It is in half-ranges of the target."
        threshold = check_interval("threshold", self.threshold, 0.0, 1e100, "right", remedy)
        object.__setattr__(self, "threshold", threshold)

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
        """Return the curvature at ``low``; it decreases with the slope."""
        s = np.asarray(low, dtype=float) / self.threshold
        return np.asarray(np.maximum(1 - s * s, 0.0) ** 1.5)


@dataclass(frozen=True)
class CappedPoisson:
    r"""A loss for counts and costs, whose predictor is the logarithm of the mean below a cap.

    The unit of the mean is its cap C. With v = z + log(start) the mean is

        h(v) = e^v for v <= -log 2,   h(v) = 1 - e^{-v} / 4 above,

    so h' = min(h, 1 - h) <= 1/2. The slope is psi(h(v) - t), where t = (y + 1) / 2 is the target as
    a share of C, which may exceed 1, and psi(r) = c r / sqrt(c^2 + r^2). For a large c it is the
    score of the Poisson likelihood, up to its sign. Since psi and h increase, the loss is convex.
    Its curvature is psi'(r) h'. With s = |phi'| / c it is at most (1 - s^2)^(3/2) / 2.

    Parameters
    ----------
    start : float in (0, 1/2]
        The mean for the predictor 0, as a share of the cap.
    threshold : float in [1/8, 1e6], in units of the cap
        c, the residual at which the slope turns from linear to constant. For smaller ones the
        rounding of h would be visible in the slope.

    Examples
    --------
    >>> loss = CappedPoisson(start=0.25, threshold=0.5)
    >>> loss.mean(np.array([-1.0, 0.0, 9.0])).round(3).tolist()
    [0.092, 0.25, 1.0]
    >>> float(loss.curvature_bound(0.3, 0.5).round(12))
    0.256
    """

    start: float = 0.2
    threshold: float = 1.0
    target: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        start = check_interval("start", self.start, 0.0, 0.5, "right")
        threshold = check_interval("threshold", self.threshold, 0.125, 1e6)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "threshold", threshold)

    @property
    def slope_bound(self) -> float:
        """The slope is c r / sqrt(c^2 + r^2)."""
        return self.threshold

    @property
    def shift(self) -> float:
        """The number u - z, where u = v + log 2 is 0 for the mean 1/2."""
        return math.log(2 * self.start)

    def _parts(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return u, and h' = min(h, 1 - h) = e^-|u| / 2."""
        u = z + self.shift
        return u, np.exp(-np.abs(u)) / 2

    def mean(self, z: FloatArray) -> FloatArray:
        """Return h, in units of the cap."""
        u, rise = self._parts(z)
        return np.where(u <= 0, rise, 1 - rise)

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return an integral of the slope over v, where dv = dh / min(h, 1 - h)."""
        (u, rise), t, half = self._parts(z), (y + 1) / 2, np.full_like(z, 0.5)
        log_rise, of_half = -np.abs(u) - _LOG_2, np.full_like(z, -_LOG_2)
        joint = self._part(half, of_half, t) - self._part(half, of_half, 1 - t)
        right = self._part(rise, log_rise, 1 - t) + joint
        return np.where(u <= 0, self._part(rise, log_rise, t), right)

    def _part(self, h: FloatArray, log_h: FloatArray, t: FloatArray) -> FloatArray:
        """Return an integral of psi(h - t) / h over h in (0, 1/2]."""
        c, size = self.threshold, np.hypot(self.threshold, t)
        near = np.maximum(log_h, -600.0)  # arcsinh(x) is log(2 x) for large x
        inner = np.arcsinh((size**2 - t * h) / (c * np.exp(near))) - (log_h - near)
        return np.asarray(c * (np.arcsinh((h - t) / c) + t / size * inner))

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return psi(h - t)."""
        c, r = self.threshold, self.mean(z) - (y + 1) / 2
        return np.asarray(c * (r / np.hypot(c, r)))

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return psi'(h - t) h'."""
        c = self.threshold
        return np.asarray((c / np.hypot(c, self.mean(z) - (y + 1) / 2)) ** 3 * self._parts(z)[1])

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return half of (1 - s^2)^(3/2) at ``low``; it decreases with the slope."""
        return PseudoHuber(self.threshold).curvature_bound(low, high) / 2


@dataclass(frozen=True)
class SmoothedQuantile:
    """The check loss of a quantile, smoothed by a logistic law.

    With the residual r = z - y and F = 1 / (1 + e^(-r/b)) the slope is F - level and the curvature
    F (1 - F) / b. In expectation the slope is P(y + b L <= z) - level for a standard logistic L, so
    the minimiser is a quantile of y, up to a bias of order b^2. The bounds hold for all real
    targets.

    Parameters
    ----------
    level : float in (0, 1)
    bandwidth : float in [1e-4, 1e6], units of the target
        b. The loss approaches the check loss as b decreases. For smaller ones a fit may end in an
        error, because slopes change too fast for its solver.

    Examples
    --------
    >>> loss = SmoothedQuantile(0.9, 0.1)
    >>> loss.slope(np.array([-5.0, 0.0, 5.0]), np.zeros(3)).round(12).tolist()
    [-0.9, -0.4, 0.1]
    >>> float(loss.curvature_bound(0.8, 0.9).round(12))
    0.9
    """

    level: float
    bandwidth: float
    target: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        level = check_interval("level", self.level, 0.0, 1.0, "neither")
        remedy = "It is in half-ranges of the target."
        bandwidth = check_interval("bandwidth", self.bandwidth, 1e-4, 1e6, remedy=remedy)
        object.__setattr__(self, "level", level)
        object.__setattr__(self, "bandwidth", bandwidth)

    @property
    def slope_bound(self) -> float:
        """The slope is between -level and 1 - level."""
        return max(self.level, 1 - self.level)

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return b log(1 + e^(r/b)) - level r."""
        b, r = self.bandwidth, z - y
        return np.asarray(b * np.logaddexp(0.0, r / b) - self.level * r)

    def slope(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return F - level."""
        return np.asarray(expit((z - y) / self.bandwidth) - self.level)

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return F (1 - F) / b."""
        r = (z - y) / self.bandwidth
        return np.asarray(expit(r) * expit(-r) / self.bandwidth)

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return the greater parabola F (1 - F) / b, for slopes of either sign."""
        low = np.asarray(low, dtype=float) - _SLOPE_ERROR
        high = np.asarray(high, dtype=float) + _SLOPE_ERROR
        ends = (self.level + low, self.level + high), (self.level - high, self.level - low)
        # Where no F in [0, 1] has such a slope, the bound is 0.
        F = np.array([np.clip(np.clip(0.5, *pair), 0.0, 1.0) for pair in ends])
        return np.asarray((F * (1 - F)).max(axis=0) / self.bandwidth)


@dataclass(frozen=True)
class Softmax:
    """A joint loss of several classes, a log(sum_k e^(z_k)) - z_y.

    With p = softmax(z) the gradient is a p - e_y, and the second derivative a (diag(p) - p p'). For
    a = 1 it is the negative log-likelihood of the multinomial logistic model. For a smaller a the
    gradient of a record is smaller: its entries add up to at most 1 + a in absolute value, so less
    noise is needed. The minimiser in expectation then has a p + (1 - a) / n_classes as the
    probabilities of the classes, as far as possible: see :meth:`log_probabilities`.

    Parameters
    ----------
    n_classes : int >= 2
    normalizer : float in [1e-6, 1], default=1.0
        The weight a of the normalizing term.

    Examples
    --------
    >>> loss = Softmax(3, normalizer=0.5)
    >>> z = np.zeros((3, 1))
    >>> loss.slopes(z, np.array([2])).round(6).ravel().tolist()
    [0.333333, 0.333333, -0.666667]
    >>> np.exp(loss.log_probabilities([[9.0, 0.0, 0.0]])).round(3).tolist()
    [[0.667, 0.167, 0.167]]
    """

    n_classes: int
    normalizer: float = 1.0
    # The size of a record's slopes is described by s = 1 - p_y, between 0 and 1.
    slope_bound: ClassVar[float] = 1.0
    target: ClassVar[str] = "labels"
    one_sided: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("n_classes", self.n_classes, 2)
        found = check_interval("normalizer", self.normalizer, 1e-6, 1.0)
        object.__setattr__(self, "normalizer", found)

    def slopes(self, z: FloatArray, y: Array) -> FloatArray:
        """Return the gradient less its mean over the classes, a p - e_y + (1 - a) / n_classes.

        Predictors z and the result have the shape (n_classes, n), labels y the shape (n,). The mean
        changes the mean of the coefficients of all classes only, and so no prediction.
        """
        found = self.normalizer * shares(z) + (1 - self.normalizer) / self.n_classes
        found[np.asarray(y, dtype=np.intp), np.arange(len(y))] -= 1
        return found

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return a bound on the trace of the second derivative where low <= 1 - p_y <= high."""
        # For fixed p_y it is greatest if the other classes are equally probable.
        others = self.n_classes - 1
        s = np.clip(others / self.n_classes, low, high)
        return np.asarray(self.normalizer * s * (2 - s * self.n_classes / others))

    def log_probabilities(self, z: ArrayLike) -> FloatArray:
        """Return log(a p + (1 - a) / n_classes), (n, n_classes), for predictors of that shape."""
        z = np.asarray(z, dtype=float)
        log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            rest = np.log((1 - self.normalizer) / self.n_classes)
        return np.asarray(np.logaddexp(math.log(self.normalizer) + log_p, rest))


AnyLoss = Loss | Softmax


def count_predictors(loss: AnyLoss) -> int:
    """Return the number of predictors of a row, which is 1 for a `Loss`."""
    return loss.n_classes if isinstance(loss, Softmax) else 1


def size_of_slopes(loss: AnyLoss) -> float:
    """Return the greatest sum of the absolute slopes of a row."""
    return 1 + loss.normalizer if isinstance(loss, Softmax) else loss.slope_bound


def slopes_of(loss: AnyLoss, z: FloatArray, y: Array) -> FloatArray:
    """Return the slopes for predictors z, (models, n); a `Loss` has one model."""
    return loss.slopes(z, y) if isinstance(loss, Softmax) else loss.slope(z[0], y)[None]


def shares(z: FloatArray) -> FloatArray:
    """Return e^z / sum_k e^(z_k), (n_classes, n)."""
    found = np.exp(z - z.max(axis=0))
    found /= found.sum(axis=0)
    return np.asarray(found)


def _power(e: FloatArray, k: float) -> FloatArray:
    """Return e^k, by square roots for the usual k: they are many times faster."""
    quarters = 4 * k
    # A difference of 1e-14 changes the slope by less than the error that `Loss` allows.
    if abs(quarters - round(quarters)) > 1e-14 or quarters > 8:
        return np.asarray(e**k)
    root = np.sqrt(e)
    fast: dict[int, Callable[[], FloatArray]]
    fast = {3: lambda: root * np.sqrt(root), 6: lambda: e * root, 8: lambda: e * e}
    return np.asarray(fast.get(round(quarters), lambda: e**k)())
