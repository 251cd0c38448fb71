"""Trusted. The privacy loss of a record in objective perturbation: bounds, Gaussian profiles.

*A row.* The objective is that of `perturbation` with a normal V. Let S be the covariance of V, c
the slope bound, mu the greatest Euclidean norm of c w(x) S^(-1/2) x over rows x, L the leverage,
and kappa(s) the curvature at slope s c. Let delta_m be the profile of N(0, 1) against N(m, 1). The
data set with a record, compared with that without, has the profile

    max_{0 <= s <= 1}  delta_{s mu}(epsilon - log(1 + kappa(s) L)),

and delta_mu in the opposite order if the slope of a record does not change its sign, otherwise
2 delta_mu. Statements and proofs: docs/proofs/gaussian_objective.md, Theorems 1 to 3.

*A person.* The rows of a person enter an objective with weights that add up to at most 1. Let u be
the size of a row's slope as a share of its bound c, tau the weighted mean of u over the rows of a
person, and k the concave envelope of the curvature as a function of u. By Jensen's inequality the
weighted mean of the curvatures is at most k(tau), and a person whose rows span r dimensions changes
the log of a determinant by at most h(tau) = r log(1 + k(tau) L / r), with the leverage L.
Statements and proofs: docs/proofs/persons.md.

*Several classes.* With u = 1 - p_y and a normalizer a, the absolute slopes of a row for K classes
add up to at most (1 - a) + 2 a u, the trace of its second derivative is bounded by a concave
function of u, and its rank is K - 1. The direction of the gradient depends on the linear term V, so
that profiles need the law of the greatest of several normal numbers. Statements and proofs:
docs/proofs/softmax.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from skdp._search import halved, passing_below_root
from skdp.linear_model.losses import AnyLoss, Bounded, Softmax, is_one_sided
from skdp.mechanisms.knorm import gaussian_scale
from skdp.trusted.arrays import ROUND_UP, Array, FloatArray
from skdp.trusted.checks import fail, remembered
from skdp.trusted.composition import delta_above
from skdp.trusted.losses import ProfileLoss, fall_of_mills_ratio, gaussian_log_delta, mills_ratio

# Slopes at which envelopes are computed: evenly spaced ones, and some that are denser near full
# slope, which determines the noise.
_KNOTS = np.unique(np.concatenate([np.linspace(0, 1, 8001), 1 - np.geomspace(1e-3, 1e-9, 200)]))
# Number of lines above h among which the profile takes the best.
_LINES = 48
_LOWEST = -30.0
# Covers rounding errors.
ROUNDING = 1 + 1e-10
_LOG_ROOT = math.log(2 * math.pi) / 2


@dataclass(frozen=True)
class RecordLoss:
    """The bounds of the weighted losses of a record's rows: their joint slope is c tau.

    ``loss`` is that of one row, ``rank`` the greatest rank of the second derivative of a record's.
    """

    loss: AnyLoss
    rank: int

    @property
    def slope_bound(self) -> float:
        return self.loss.slope_bound

    @property
    def one_sided(self) -> bool:
        return is_one_sided(self.loss)

    @property
    def least_share(self) -> float:
        """The size of a row's slopes for u = 0, as a share of the greatest size."""
        return 0.0

    @property
    def rough_excess(self) -> float:
        """About the Gaussian noise over that of a row with the same bounds."""
        return 1.0

    def curvature_bound(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return the greatest value of the concave envelope between two slopes."""
        knots, heights = _envelope(self.loss)
        peak = knots[np.argmax(heights)]
        c = self.slope_bound
        at = np.clip(peak, np.asarray(low) / c, np.asarray(high) / c)
        return np.asarray(np.interp(at, knots, heights) * ROUNDING)

    def removed(self, shift: float, leverage: float, epsilon: FloatArray) -> FloatArray:
        """Return an upper bound on log delta for a removed person, of the shape of ``epsilon``.

        The data set with the person is compared with that without (Theorem 3).
        """
        # One line for each entry of the first axis.
        shape = (-1, *np.ones(epsilon.ndim, dtype=int))
        slopes, heights = (own.reshape(shape) for own in lines_above(self, leverage))
        found = log_delta_of_line(slopes, heights, shift, epsilon, sides_of(self)).min(axis=0)
        return np.asarray(np.minimum(found, 0.0))

    def added(self, shift: float, epsilon: FloatArray) -> FloatArray:
        """Return an upper bound on log delta for an added person, of the shape of ``epsilon``."""
        found = log_delta_of_line(0.0, 0.0, shift, epsilon, sides_of(self))
        return np.asarray(np.minimum(found, 0.0))


def sides_of(loss: Bounded) -> int:
    """Return 1 if the slope of a record does not change its sign, otherwise 2."""
    return 1 if is_one_sided(loss) else 2


def rank_of(loss: Bounded) -> int:
    """Return the greatest rank of the second derivative of the loss of one record."""
    return loss.rank if isinstance(loss, RecordLoss) else 1


def least_share_of(loss: Bounded) -> float:
    """Return the size of a record's slopes for u = 0, as a share of the greatest size."""
    return loss.least_share if isinstance(loss, RecordLoss) else 0.0


@remembered(maxsize=64)
def _envelope(loss: AnyLoss) -> tuple[FloatArray, FloatArray]:
    """Return knots in [0, 1] and heights of a concave function above the curvature.

    It is linear between knots. At a knot a bound for both adjacent cells is at most its height, so
    the function is above the curvature everywhere.
    """
    knots, c = _KNOTS, loss.slope_bound
    cells = np.asarray(loss.curvature_bound(c * knots[:-1], c * knots[1:]), dtype=float)
    if not np.all(cells >= 0):  # also catches NaN
        raise fail("loss", "have a curvature_bound that is >= 0 and never NaN", loss)
    heights = np.maximum(np.append(cells[0], cells), np.append(cells, cells[-1]))
    kept: list[int] = []
    for k in range(len(knots)):
        while len(kept) > 1:
            (a, b), x, y = kept[-2:], knots, heights
            # Whether b is above the line through a and k.
            if (y[b] - y[a]) * (x[k] - x[a]) > (y[k] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(k)
    return knots[kept], heights[kept]


@remembered(maxsize=256)
def lines_above(loss: RecordLoss, leverage: float) -> tuple[FloatArray, FloatArray]:
    """Return slopes and heights at 0 of lines above h on [0, 1], (lines,) each."""
    u, c, r = _KNOTS, loss.slope_bound, loss.rank
    h = r * np.log1p(loss.curvature_bound(c * u[:-1], c * u[1:]) * leverage / r)
    # Any slope gives a line; those of h are best.
    ends = np.linspace(0, len(h) - 1, _LINES).astype(int)
    slopes = np.unique(np.append(np.gradient(h, (u[:-1] + u[1:]) / 2)[ends], 0.0))
    nearest = np.where(slopes[:, None] > 0, u[:-1], u[1:])
    return slopes, (h - slopes[:, None] * nearest).max(axis=1)


def log_delta_of_line(
    slope: FloatArray | float,
    height: FloatArray | float,
    shift: float,
    epsilon: FloatArray,
    sides: int,
) -> FloatArray:
    """Return log E (exp(l(Z)) - e^epsilon)_+, l(z) = height + (shift z + slope)_+.

    Z is standard normal; for two sides |Z| takes its place. Where the formula fails, it is the log
    of E exp(l(Z)).
    """
    least = -math.inf if sides == 1 else 0.0
    corner = np.maximum(least, -np.asarray(slope) / shift)  # beyond it l rises
    z = np.maximum(np.maximum(corner, _LOWEST), (epsilon - height - slope) / shift)
    above = np.maximum(height + slope + shift * z - epsilon, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        rise = fall_of_mills_ratio(z - shift, np.full_like(z, shift))
        rise = rise + np.expm1(above) * mills_ratio(z - shift)
        tail = epsilon - z * z / 2 - _LOG_ROOT + np.log(rise)
        flat = ndtr(corner) - ndtr(least)
        # Where l is flat above epsilon.
        excess = height + np.log(-np.expm1(np.minimum(epsilon - height, 0.0)) * flat)
        found = np.logaddexp(tail, excess) + math.log(sides * ROUNDING)
        whole = height + np.logaddexp(0.0, slope + shift**2 / 2) + math.log(sides)
    return np.asarray(np.where(np.isnan(found) | (z <= _LOWEST), whole, found))


# Among the lines of `persons` every so many: a profile takes longer with several classes.
_FEW_LINES = 6


@dataclass(frozen=True)
class SoftmaxRecord(RecordLoss):
    """The same for a loss of several classes.

    ``is_row`` says whether every record is one row. Theorem 4 has a smaller profile for them.
    """

    loss: Softmax
    is_row: bool = False

    @property
    def least_share(self) -> float:
        """The sum of a row's absolute slopes for u = 0, as a share of the greatest sum."""
        a = self.loss.normalizer
        return (1 - a) / (1 + a)

    @property
    def rough_excess(self) -> float:
        """About the Gaussian noise over that of one class with the same bounds."""
        a = self.loss.normalizer
        return math.hypot(1, a) * (1 + 0.08 * a * math.log(self.loss.n_classes))

    def removed(self, shift: float, leverage: float, epsilon: FloatArray) -> FloatArray:
        slopes, heights = lines_above(self, leverage)
        rising = np.flatnonzero(slopes >= 0)[::_FEW_LINES]  # with the flat line first
        pairs = zip(slopes[rising].tolist(), heights[rising].tolist(), strict=True)
        return np.asarray(np.min([self._log_delta(*own, shift, epsilon) for own in pairs], axis=0))

    def added(self, shift: float, epsilon: FloatArray) -> FloatArray:
        return self._log_delta(0.0, 0.0, shift, epsilon)

    def _log_delta(
        self, slope: float, height: float, shift: float, epsilon: FloatArray
    ) -> FloatArray:
        """Return the log of Delta of Theorem 4 for rows, else of Theorem 3. At most 0."""
        epsilon, n_classes = np.asarray(epsilon, dtype=float), self.loss.n_classes
        at, log_mass = _greatest_normal(n_classes)
        moved = shift * self.loss.normalizer
        if self.is_row:
            moved_by = slope + moved * at + moved**2 / 2
            left = epsilon[..., None] - height
            parts = np.where(left < 0, 0.0, gaussian_log_delta(shift, left - moved_by))
            rest = log_ndtr(-at[-1])
        else:
            # Given M a mean may be above 1: only that over M is at most 1.
            parts = log_delta_of_line(slope + moved * at, height, shift, epsilon[..., None], 1)
            # Beyond the last point: e^(height + l) <= e^height (1 + e^(slope + shift Z + moved M)).
            rest = slope + (shift**2 + moved**2) / 2 + log_ndtr(moved - at[-1])
            rest = height + np.logaddexp(rest, log_ndtr(-at[-1]))
        found = np.logaddexp.reduce(parts + log_mass, axis=-1)
        found = np.logaddexp(found, rest + math.log(n_classes)) + math.log(ROUNDING)
        return np.asarray(np.minimum(found, 0.0))


def record_of(loss: AnyLoss, dim: int, are_persons: bool) -> Bounded:
    """Return the bounds of the loss of one record: a row, or all rows of a person.

    Several rows in one dimension are not one row, as their slopes differ.
    """
    rank = dim if are_persons else 1
    if isinstance(loss, Softmax):
        return SoftmaxRecord(loss, rank * (loss.n_classes - 1), not are_persons)
    return RecordLoss(loss, rank) if are_persons else loss


@remembered(maxsize=64)
def _greatest_normal(n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return points, and log probabilities that M of Theorem 3 is in the cells that end there."""
    # The far points matter for epsilons of a million, where e^epsilon multiplies the tail.
    at = np.concatenate([np.linspace(0, 8, 65), 8 * 1.5 ** np.arange(1, 30)])
    # Above = 1 - P(M <= t) is computed without cancellation.
    above = -np.expm1((n_classes - 1) * log_ndtr(at))
    below = math.exp((n_classes - 1) * math.log(0.5))
    with np.errstate(divide="ignore"):
        return at, np.log(np.concatenate([[below], (above[:-1] - above[1:]) * ROUNDING]))


# Number of cells of slopes. They are narrower near full slope, which determines the noise.
_CELLS = 400
_NEAREST = 1e-7
# Positions whose logs differ by less, relative to one plus their size, may both be best.
_TIE = 1e-9
# The best positions are bounded at 2^_LEVELS - 1 values of epsilon.
_LEVELS = 8
# An approximation takes one cell out of so many.
_EACH = 4
# With more values of epsilon the best split of a replacement is interpolated.
_SEARCHED = 64
# Covers the rounding errors of a profile.
_SLACK = 1 + 1e-10
# Greatest logarithm of the factor by which the curvature may divide a shift.
_MOST_FALL = 12.0
# The usual relative error of approximate shifts.
_ROUGH = 2e-3


@dataclass(frozen=True)
class JointProfile:
    """An upper bound on the profile delta(epsilon) of one Gaussian objective perturbation.

    ``shift`` is mu, the greatest length of a record's gradient in units of the noise; ``leverage``
    is L, the bound that the weights enforce; ``hidden`` is the epsilon that hides the inexactness
    of the solver. By Theorem 4 of docs/proofs/objective_perturbation.md, applied to
    (epsilon, delta), delta(epsilon) <= e^(hidden / 2) delta_exact(epsilon - hidden).
    """

    loss: Bounded
    shift: float
    leverage: float
    neighbors: str = "add_remove"
    hidden: float = 0.0

    def __call__(self, epsilon: FloatArray | float) -> FloatArray:
        """Return an upper bound on log delta for epsilon >= 0, of its shape."""
        eps, hidden = np.asarray(epsilon, dtype=float), self.hidden
        if not hidden:
            return self._exact(eps)
        shifted = hidden / 2 + self._exact(np.maximum(eps - hidden, 0.0))
        # e^hidden p' + delta is at most e^epsilon p' + delta + e^hidden - e^epsilon.
        excess = np.exp(np.minimum(eps, hidden)) * np.expm1(np.maximum(hidden - eps, 0.0))
        with np.errstate(divide="ignore"):
            return np.asarray(np.minimum(0.0, np.logaddexp(shifted, np.log(excess))))

    def _exact(self, eps: FloatArray) -> FloatArray:
        """Return an upper bound on log delta of the exact minimiser."""
        if self.neighbors == "add_remove":
            return np.minimum(0.0, np.maximum(self._removed(eps), self._added(eps)))
        if eps.size <= _SEARCHED:
            return self._replaced(eps, self._split(eps))
        # The best split is a smooth function of epsilon, and every split gives an upper bound.
        knots = np.unique(np.quantile(eps, np.linspace(0, 1, _SEARCHED)))
        return self._replaced(eps, np.interp(eps, knots, self._split(knots)))

    def _removed(self, epsilon: FloatArray) -> FloatArray:
        if isinstance(self.loss, RecordLoss):
            return self.loss.removed(self.shift, self.leverage, epsilon)
        return _worst_removed(self.loss, self.shift, self.leverage, epsilon)

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
            return self.loss.added(self.shift, epsilon)
        return np.asarray(gaussian_log_delta(self.shift, epsilon) + math.log(sides_of(self.loss)))

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


@remembered(maxsize=64)
def _cells(loss: Bounded) -> tuple[FloatArray, FloatArray]:
    """Return the upper ends of cells of slopes, as shares of the bound, and their curvatures."""
    low = 1 - np.geomspace(1.0, _NEAREST, _CELLS)
    high, c = np.append(low[1:], 1.0), loss.slope_bound
    curvature = np.asarray(loss.curvature_bound(c * low, c * high), dtype=float)
    if not np.all(curvature >= 0):  # also catches NaN
        raise fail("loss", "have a curvature_bound that is >= 0 and never NaN", loss)
    return high, curvature


def _cells_of(
    loss: Bounded, shift: FloatArray | float, leverage: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return for each cell the shift at its upper end, and the log of the determinants' ratio.

    The shape is (..., cells) for shifts and leverages of shape (..., 1).
    """
    high, curvature = _cells(loss)
    # Without curvature any leverage is allowed, also an infinite one.
    with np.errstate(invalid="ignore"):
        costs = np.where(curvature > 0, np.log1p(curvature * leverage), 0.0)
    return shift * high, costs


def _worst_removed(loss: Bounded, shift: float, leverage: float, epsilon: FloatArray) -> FloatArray:
    """Return the log of the greatest delta_m(epsilon - k) over the cells, of epsilon's shape."""
    shifts, costs, grid, first, last = _worst_cells(loss, shift, leverage)
    values = epsilon.ravel()
    k = np.searchsorted(grid, values, side="right")
    found, *_ = _over(shifts, costs, values, first[k], last[k + 1])
    return np.asarray(np.minimum(0.0, found.reshape(epsilon.shape) + math.log(_SLACK)))


@remembered(maxsize=256)
def _worst_cells(loss: Bounded, shift: float, leverage: float) -> tuple[Array, ...]:
    """Return shifts and costs, (cells,), a grid, and bounds on the positions of the worst cells.

    The shifts increase. The position of the greatest delta then does not decrease with epsilon
    (docs/proofs/gaussian_objective.md). So its first and last possible positions at the points of
    the grid, and beyond its ends, bound it between these points.
    """
    shifts, costs = _cells_of(loss, shift, leverage)
    size, n = float(costs.max()) + shift + shift**2, 2**_LEVELS - 1
    grid = size * np.append(0.0, np.geomspace(1e-3, 1e3, n - 1))
    # Entries 1 to n are those of the grid. Each level is between points whose pairs are known.
    first = np.zeros(n + 2, dtype=np.intp)
    last = np.full(n + 2, len(shifts) - 1, dtype=np.intp)
    for level in reversed(range(_LEVELS)):
        step = 2**level
        at = np.arange(step, n + 1, 2 * step)
        between = first[at - step], last[at + step]
        _, first[at], last[at] = _over(shifts, costs, grid[at - 1], *between)
    return shifts, costs, grid, first, last


def _over(
    shifts: FloatArray,
    costs: FloatArray,
    epsilon: FloatArray,
    first: NDArray[np.intp],
    last: NDArray[np.intp],
) -> tuple[FloatArray, NDArray[np.intp], NDArray[np.intp]]:
    """Return the log of the greatest delta over the pairs from ``first`` to ``last``, (n,) each.

    Also the first and the last pair that may have it, with room for rounding errors.
    """
    count = last - first + 1
    start = np.cumsum(count) - count
    own = np.repeat(np.arange(len(epsilon)), count)
    at = np.arange(len(own)) - (start - first)[own]
    logs = gaussian_log_delta(shifts[at], epsilon[own] - costs[at])
    greatest = np.maximum.reduceat(logs, start)
    may_be = logs >= (greatest - _TIE * (1 - greatest))[own]
    lowest = np.minimum.reduceat(np.where(may_be, at, len(shifts)), start)
    return greatest, lowest, np.maximum.reduceat(np.where(may_be, at, 0), start)


def corners(loss: Bounded, neighbors: str) -> int:
    """Return the number of shifts for which log-concave noise must be private (Theorem 4).

    They are the nonzero corners of the segment or parallelogram of differences of gradients.
    """
    return sides_of(loss) + (0 if neighbors == "add_remove" else 2)


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
    bounds, sides = np.array(leverages), sides_of(loss)
    top = _log_gaussian_shift(epsilon, delta, neighbors)
    low, high = np.full((2, len(leverages)), [[top - _MOST_FALL], [top]])
    if neighbors == "add_remove":

        def is_high(log_shift: FloatArray) -> NDArray[np.bool_]:
            removed = _rough_removed(loss, log_shift, bounds, np.full(len(log_shift), epsilon))
            added = gaussian_log_delta(np.exp(log_shift), epsilon) + math.log(sides)
            return np.asarray(np.maximum(removed, added) > math.log(delta))

    else:
        half = math.log(delta) - math.log(2)
        shifts, splits = _rough_splits(epsilon, delta, sides)

        def is_high(log_shift: FloatArray) -> NDArray[np.bool_]:
            a = np.interp(log_shift, shifts, splits)
            return np.asarray(a + _rough_removed(loss, log_shift, bounds, epsilon - a) > half)

    found = np.exp(halved(is_high, low, high, _ROUGH / 4))
    if isinstance(loss, RecordLoss):
        found /= loss.rough_excess
    return np.where(is_high(low), 0.0, found)


@remembered(maxsize=256)
def _rough_splits(epsilon: float, delta: float, sides: int) -> tuple[FloatArray, FloatArray]:
    """Return log shifts, and the shares a of epsilon at which their delta_2(a) is delta / 2."""
    splits, half = epsilon * np.linspace(0.0, 1.0, 65), math.log(delta) - math.log(2)

    def is_high(log_shift: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(gaussian_log_delta(np.exp(log_shift), splits) + math.log(sides) > half)

    top = -math.log(gaussian_scale(epsilon, delta))
    ends = np.full(65, half - 1), np.full(65, top)
    return halved(is_high, *ends, _ROUGH / 4), splits


def _rough_removed(
    loss: Bounded, log_shift: FloatArray, leverage: FloatArray, epsilon: FloatArray
) -> FloatArray:
    """Return the log of delta_1 for shifts, leverages and epsilons, (n,) each, from some cells."""
    shifts, costs = _cells_of(loss, np.exp(log_shift)[:, None], leverage[:, None])
    some = slice(_EACH - 1, None, _EACH)
    found = gaussian_log_delta(shifts[:, some], epsilon[:, None] - costs[:, some])
    return np.asarray(found.max(axis=1))


def _composed(profile: JointProfile, models: int, epsilon: float) -> float:
    """Return the log of delta(epsilon) for a number of independent releases."""
    if models == 1:
        return float(profile(epsilon))
    delta = delta_above(((ProfileLoss(profile), models),), epsilon)
    return math.log(delta) if delta > 0 else -math.inf
