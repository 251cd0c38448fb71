"""Objective perturbation with Gaussian noise: the privacy profile of gradient and curvature.

The objective is that of `perturbation` with a normal V. Let S be the covariance of V, c the slope
bound, mu the greatest Euclidean norm of c S^(-1/2) x over rows x, L the leverage, and kappa(s) the
curvature at slope s c. Given the record that differs, the log of the ratio of densities is at most

    l(Z) = max_{0 <= s <= 1}  max(0, s mu Z + s^2 mu^2 / 2) + log(1 + kappa(s) L)

with Z standard normal if the slope of a record does not change its sign. Otherwise |Z| replaces Z.
The release has the profile delta(epsilon) <= E (1 - exp(epsilon - l(Z)))_+. Statement and proof:
docs/proofs/gaussian_objective.md, Theorems 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from skdp._arrays import FloatArray
from skdp._checks import check_choice, fail
from skdp._identity import remembered
from skdp._search import halved, passing_below_root
from skdp.linear_model._objective.persons import RecordLoss, added, removed, rough_excess
from skdp.linear_model.losses import Bounded, is_one_sided
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.privacy.composition.composition import Composition
from skdp.privacy.guarantee import NEIGHBORS
from skdp.privacy.losses.losses import ProfileLoss
from skdp.privacy.losses.mills import fall_of_mills_ratio, mills_ratio
from skdp.privacy.losses.normal_profile import log_delta

# Number of cells of slopes. They are narrower near full slope, which determines the noise.
_CELLS = 400
_NEAREST = 1e-7
# Below this threshold of Z a profile is nearly 1, and 1 is returned.
_LOWEST = -30.0
# With more values of epsilon the best split of a replacement is interpolated.
_SEARCHED = 64
# Covers the rounding errors of a profile.
_SLACK = 1 + 1e-10
# Greatest logarithm of the factor by which the curvature may divide a shift.
_MOST_FALL = 12.0
# Approximate shifts: their usual relative error, and a quadrature of [0, 1].
_ROUGH = 2e-3
_POINTS, _WEIGHTS = (roots_legendre(16)[0] + 1) / 2, roots_legendre(16)[1] / 2
_LOG_ROOT = math.log(2 * math.pi) / 2


@dataclass(frozen=True)
class JointProfile:
    """An upper bound on the profile delta(epsilon) of one Gaussian objective perturbation.

    ``shift`` is mu, the greatest length of a record's gradient in units of the noise; ``leverage``
    is L, the bound that the weights enforce.
    """

    loss: Bounded
    shift: float
    leverage: float
    neighbors: str = "add_remove"

    def __post_init__(self) -> None:
        check_choice("neighbors", self.neighbors, tuple(NEIGHBORS))

    def __call__(self, epsilon: FloatArray | float) -> FloatArray:
        """Return an upper bound on log delta for epsilon >= 0, of its shape."""
        eps = np.asarray(epsilon, dtype=float)
        if self.neighbors == "add_remove":
            return self._removed(eps)
        if eps.size <= _SEARCHED:
            return self._replaced(eps, self._split(eps))
        # The best split is a smooth function of epsilon, and every split gives an upper bound.
        knots = np.unique(np.quantile(eps, np.linspace(0, 1, _SEARCHED)))
        return self._replaced(eps, np.interp(eps, knots, self._split(knots)))

    def _removed(self, epsilon: FloatArray) -> FloatArray:
        if isinstance(self.loss, RecordLoss):
            return removed(self.loss, self.shift, self.leverage, epsilon)
        with np.errstate(divide="ignore"):
            return np.log(_pieces(self.loss, self.shift, self.leverage).delta(epsilon))

    def _replaced(self, epsilon: FloatArray, split: FloatArray) -> FloatArray:
        """Return the log of delta_2(a) + e^a delta_1(epsilon - a), a bound for 0 <= a <= epsilon.

        A replacement adds one record, which only shifts, and removes another one, which also
        changes the curvature.
        """
        a = np.clip(split, 0.0, epsilon)
        both = np.logaddexp(self._added(a), a + self._removed(epsilon - a)) + math.log(_SLACK)
        return np.asarray(np.minimum(0.0, both))

    def _added(self, epsilon: FloatArray) -> FloatArray:
        if isinstance(self.loss, RecordLoss):
            return added(self.loss, self.shift, epsilon)
        sides = 1 if is_one_sided(self.loss) else 2
        return np.asarray(log_delta(self.shift, epsilon) + math.log(sides))

    def _split(self, epsilon: FloatArray) -> FloatArray:
        """Return an approximation of the best a for every epsilon."""
        eps = epsilon[..., None]
        # Start at the best split of Gaussian noise without curvature.
        center, width = np.clip((eps - self.shift**2) / 2, 0.0, eps), eps / 2
        for _ in range(3):
            a = np.clip(center + width * np.linspace(-1, 1, 13), 0.0, eps)
            best = np.argmin(self._replaced(eps, a), axis=-1)[..., None]
            center, width = np.take_along_axis(a, best, axis=-1), width / 6
        return np.asarray(center[..., 0])


@dataclass(frozen=True)
class ReleasedProfile:
    """The profile of a release that spends ``hidden`` epsilon on the solver's inexactness.

    By Theorem 4 of docs/proofs/objective_perturbation.md, applied to (epsilon, delta),
    delta(epsilon) <= e^(hidden / 2) delta_p(epsilon - hidden).
    """

    profile: JointProfile
    hidden: float

    def __call__(self, epsilon: FloatArray | float) -> FloatArray:
        """Return log delta for epsilon >= 0, of its shape."""
        eps = np.asarray(epsilon, dtype=float)
        shifted = self.hidden / 2 + self.profile(np.maximum(eps - self.hidden, 0.0))
        # e^hidden p' + delta is at most e^epsilon p' + delta + e^hidden - e^epsilon.
        excess = np.exp(np.minimum(eps, self.hidden)) * np.expm1(np.maximum(self.hidden - eps, 0.0))
        with np.errstate(divide="ignore"):
            return np.asarray(np.minimum(0.0, np.logaddexp(shifted, np.log(excess))))


@dataclass(frozen=True, eq=False)
class _Pieces:
    """l as the upper envelope of lines: slope[k] z + height[k] from start[k] on, (lines,).

    ``sides`` is 1 if l is a function of Z and 2 if it is one of |Z|. ``exp(log_rest[k])`` times
    e^epsilon is the contribution of the lines after the k-th to delta(epsilon).
    """

    slope: FloatArray
    height: FloatArray
    start: FloatArray
    log_rest: FloatArray
    sides: int

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Return E (1 - exp(epsilon - l(Z)))_+, of the shape of ``epsilon`` >= 0."""
        at_start = self.slope * self.start + self.height
        k = np.searchsorted(at_start[1:], epsilon, side="right")
        a, b = self.slope[k], self.height[k]
        # The point at which l exceeds epsilon. The first line is flat.
        z = np.where(a > 0, (epsilon - b) / np.where(a > 0, a, 1.0), -np.inf)
        z = np.maximum(z, self.start[k])
        if self.sides == 2:
            z = np.maximum(z, 0.0)
        low = np.maximum(z, _LOWEST)
        above = np.maximum(a * low + b - epsilon, 0.0)
        mills = mills_ratio(low + a)
        # mills(z) - e^(epsilon - l) mills(z + a), as a sum of two positive terms.
        first = fall_of_mills_ratio(low, a) - np.expm1(-above) * mills
        out = self.sides * (_density(low) * first + np.exp(epsilon + self.log_rest[k])) * _SLACK
        return np.asarray(np.where(z < _LOWEST, 1.0, np.minimum(out, 1.0)))


@remembered(maxsize=256)
def _pieces(loss: Bounded, shift: float, leverage: float) -> _Pieces:
    slope, height = _envelope(*_lines(loss, shift, leverage))
    start = np.concatenate([[-np.inf], (height[:-1] - height[1:]) / np.diff(slope)])
    sides = 1 if is_one_sided(loss) else 2
    if sides == 2:
        kept = np.append(start[1:], np.inf) > 0
        slope, height, start = slope[kept], height[kept], np.maximum(start[kept], 0.0)
    z = np.maximum(start[1:], _LOWEST)
    at = slope[1:] * z + height[1:]
    # The decrease of e^-l density(z) mills(z + slope) from one line to the next.
    with np.errstate(divide="ignore"):
        falls = np.log(_density(z) * fall_of_mills_ratio(z + slope[:-1], np.diff(slope))) - at
    log_rest = np.append(np.logaddexp.accumulate(falls[::-1])[::-1], -np.inf)
    return _Pieces(slope, height, np.maximum(start, _LOWEST), log_rest, sides)


@remembered(maxsize=64)
def _cells(loss: Bounded) -> tuple[FloatArray, FloatArray]:
    """Return the upper ends of cells of slopes, as shares of the bound, and their curvatures."""
    low = 1 - np.geomspace(1.0, _NEAREST, _CELLS)
    high, c = np.append(low[1:], 1.0), loss.slope_bound
    curvature = np.asarray(loss.curvature_bound(c * low, c * high), dtype=float)
    if not np.all(curvature >= 0):  # also catches NaN
        raise fail("loss", "have a curvature_bound that is >= 0 and never NaN", loss)
    return high, curvature


def _lines(
    loss: Bounded, shift: FloatArray | float, leverage: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return lines above l, one per cell: the shift at its upper end and its curvature bound.

    The shape is (..., lines) for shifts and leverages of shape (..., 1).
    """
    high, curvature = _cells(loss)
    cost, length = np.log1p(curvature * leverage), shift * high
    # l is convex in the length: the maximum over [0, length] is at one of the ends.
    top = cost.max(axis=-1, keepdims=True)
    slope = np.concatenate([0.0 * top, length], axis=-1)
    return slope, np.concatenate([top, length**2 / 2 + cost], axis=-1)


def _envelope(slope: FloatArray, height: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lines, of increasing slope, that are greatest at some point."""
    kept: list[tuple[float, float]] = []
    for a, b in zip(slope.tolist(), height.tolist(), strict=True):
        if kept and kept[-1][0] == a:  # slopes underflow if the shift is very small
            b = max(b, kept.pop()[1])
        while _hidden(kept, a, b):
            kept.pop()
        kept.append((a, b))
    return np.array([a for a, _ in kept]), np.array([b for _, b in kept])


def _hidden(kept: list[tuple[float, float]], a: float, b: float) -> bool:
    """Return whether the last line is nowhere above both the previous and a steeper line."""
    if len(kept) < 2:
        return False
    (a0, b0), (a1, b1) = kept[-2:]
    return (b0 - b) * (a1 - a0) <= (b0 - b1) * (a - a0)


def _density(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-z * z / 2) / math.sqrt(2 * math.pi))


def corners(loss: Bounded, neighbors: str) -> int:
    """Return the number of shifts for which log-concave noise must be private (Theorem 4).

    They are the nonzero corners of the segment or parallelogram of differences of gradients.
    """
    one_sided = is_one_sided(loss)
    if neighbors == "add_remove":
        return 1 if one_sided else 2
    return 3 if one_sided else 4


@remembered(maxsize=4096)
def greatest_shift(
    loss: Bounded, leverage: float, epsilon: float, delta: float, neighbors: str, models: int = 1
) -> float:
    """Return the greatest shift mu for which ``models`` releases are (epsilon, delta)-private.

    The models have independent noise. The result is within a relative 1e-9 of the greatest, or
    1e-3 for several models, and never above it; 0 if the curvature alone spends more than epsilon.
    """
    top = _log_gaussian_shift(epsilon, delta, neighbors) - math.log(models) / 2
    least = top - _MOST_FALL

    @cache
    def excess(log_shift: float) -> float:
        profile = JointProfile(loss, math.exp(log_shift), leverage, neighbors)
        return _composed(profile, models, epsilon) - math.log(delta)

    if excess(top) <= 0:
        return math.exp(top) / ROUND_UP
    # The bracket is narrow around an approximate value, which is less accurate for several models.
    (guess,) = rough_shifts(loss, (leverage,), epsilon, delta, neighbors)
    low = max(math.log(guess / math.sqrt(models)), least) if guess > 0 else least
    step = _ROUGH if models == 1 else 0.05
    while low + step < top and excess(low + step) <= 0:
        low, step = low + step, 4 * step
    top = min(low + step, top)
    while excess(low) > 0:
        if low == least:
            return 0.0
        low, top, step = max(low - step, least), low, 4 * step
    # A composition takes a thousand times as long as a single profile.
    tolerance = 1e-9 if models == 1 else 1e-3
    found = passing_below_root(
        excess, low, top, xtol=tolerance / 8, back=tolerance / 4, floor=-50.0
    )
    return math.exp(found) / ROUND_UP


def _log_gaussian_shift(epsilon: float, delta: float, neighbors: str) -> float:
    """Return the log of the greatest shift of Gaussian noise without curvature."""
    records = 2 if neighbors == "replace_one" else 1
    return -math.log(records * gaussian_scale(epsilon, delta))


@remembered(maxsize=1024)
def rough_shifts(
    loss: Bounded, leverages: tuple[float, ...], epsilon: float, delta: float, neighbors: str
) -> FloatArray:
    """Return the greatest shifts for several leverages, (n,), usually within one percent.

    They can be above the greatest shifts: compare candidates by them, but do not calibrate. 0 if
    the curvature alone spends more than epsilon. In the bound delta_2(a) + e^a delta_1(epsilon - a)
    of a replacement each term is set to delta / 2.
    """
    bounds = np.array(leverages)
    top = _log_gaussian_shift(epsilon, delta, neighbors)
    low, high = np.full((2, len(leverages)), [[top - _MOST_FALL], [top]])
    if neighbors == "add_remove":

        def is_high(log_shift: FloatArray) -> NDArray[np.bool_]:
            left = np.full(len(log_shift), epsilon)
            return np.asarray(_rough_removed(loss, log_shift, bounds, left) > math.log(delta))

    else:
        half = math.log(delta) - math.log(2)
        shifts, splits = _rough_splits(epsilon, delta, 1 if is_one_sided(loss) else 2)

        def is_high(log_shift: FloatArray) -> NDArray[np.bool_]:
            a = np.interp(log_shift, shifts, splits)
            return np.asarray(a + _rough_removed(loss, log_shift, bounds, epsilon - a) > half)

    found = np.exp(halved(is_high, low, high, _ROUGH / 4)) / rough_excess(loss)
    return np.where(is_high(low), 0.0, found)


@remembered(maxsize=256)
def _rough_splits(epsilon: float, delta: float, sides: int) -> tuple[FloatArray, FloatArray]:
    """Return log shifts, and the shares a of epsilon at which their delta_2(a) is delta / 2."""
    splits, half = epsilon * np.linspace(0.0, 1.0, 65), math.log(delta) - math.log(2)

    def is_high(log_shift: FloatArray) -> NDArray[np.bool_]:
        shift = np.exp(log_shift)
        t = np.maximum(splits / shift - shift / 2, _LOWEST)
        with np.errstate(divide="ignore"):
            found = np.log(sides * fall_of_mills_ratio(t, shift)) - t * t / 2 - _LOG_ROOT
        return np.asarray(found > half)

    top = -math.log(gaussian_scale(epsilon, delta))
    ends = np.full(65, half - 1), np.full(65, top)
    return halved(is_high, *ends, _ROUGH / 4), splits


def _rough_removed(
    loss: Bounded, log_shift: FloatArray, leverage: FloatArray, epsilon: FloatArray
) -> FloatArray:
    """Return the log of delta_1 for shifts, leverages and epsilons, (n,) each, by quadrature."""
    sides = 1 if is_one_sided(loss) else 2
    slope, height = _lines(loss, np.exp(log_shift)[:, None], leverage[:, None])
    # Where the first line exceeds epsilon, and the length in which the density falls by 1 / e.
    start = ((epsilon[:, None] - height[:, 1:]) / slope[:, 1:]).min(axis=1)
    start = np.maximum(start, -8.0 if sides == 1 else 0.0)
    length = np.minimum(24 / (start + np.sqrt(start * start + 4)), 8 - np.minimum(start, 0.0))
    z = length[:, None] * _POINTS
    lines = slope[:, None, :] * (start[:, None] + z)[:, :, None] + height[:, None, :]
    gain = -np.expm1(np.minimum(epsilon[:, None] - lines.max(axis=2), 0.0))
    total = length * ((np.exp(-z * (start[:, None] + z / 2)) * gain) @ _WEIGHTS)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sides * total) - start * start / 2 - _LOG_ROOT)


def _composed(profile: JointProfile, models: int, epsilon: float) -> float:
    """Return the log of delta(epsilon) for a number of independent releases."""
    if models == 1:
        return float(profile(epsilon))
    delta = Composition(((ProfileLoss(profile), models),)).delta_at(epsilon).upper
    return math.log(delta) if delta > 0 else -math.inf
