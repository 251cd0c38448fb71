"""The worst shift of independent noise over a sensitivity.

For noise with independent coordinates of one even log-concave law, the least delta is a symmetric
and quasi-convex function of the shift. It grows with the size of every coordinate and in the order
of weak majorisation, that is with the sums of the k greatest sizes, for every k. Shifts are
therefore represented by these sums (docs/proofs/worst_shift.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._arrays import FloatArray
from skdp.geometry import LpBall, NormBall
from skdp.geometry.ball import ask, known
from skdp.mechanisms.gaussian.ellipsoid import greatest_square
from skdp.mechanisms.sensitivity.base import ROUND_UP, Sensitivity

# Sizes and the number of coordinates of each, in falling order.
Shift = tuple[tuple[float, int], ...]

MOST_CHECKED = 16
MOST_GROUPS = 8


@dataclass(frozen=True)
class WorstShift:
    """Shifts of which one is the worst, and a shift that majorises all of them.

    Attributes
    ----------
    vertices : tuple of Shift
        Noise that is private for each of these is private for every difference.
    above : Shift
        Weakly majorises every difference. It is the vertex if there is only one.
    length : float
        Greatest Euclidean length of a difference.
    """

    vertices: tuple[Shift, ...]
    above: Shift
    length: float

    @property
    def is_single(self) -> bool:
        """Whether only one coordinate is shifted."""
        return len(self.above) == 1 and self.above[0][1] == 1

    def of_equal_sizes(self) -> WorstShift:
        """Return equal sizes of the same length and nearly the same sum, to compare laws by."""
        length = length_of(self.above)
        count = max(1, round((self.total / length) ** 2))
        alike = ((length / math.sqrt(count), count),)
        return WorstShift((alike,), alike, self.length)

    @property
    def total(self) -> float:
        """Greatest sum of absolute values of a difference."""
        return sum(size * count for size, count in self.above)


def length_of(shift: Shift) -> float:
    """Return the Euclidean length of a shift."""
    return math.sqrt(math.fsum(count * size**2 for size, count in shift))


def worst_shift(sensitivity: Sensitivity, proportions: FloatArray) -> WorstShift:
    """Return the worst shifts for noise whose coordinate j has scale proportions[j].

    Parameters
    ----------
    sensitivity : Sensitivity
    proportions : array of shape (dim,), entries > 0
        Coordinates of differences are divided by these.
    """
    ball, radius = sensitivity.ball, sensitivity.radius * ROUND_UP
    length = radius * math.sqrt(greatest_square(ball, proportions**-2.0))
    curves = _curves_of_vertices(ball, proportions)
    if curves is None:
        above = _grouped(radius * _curve_of_ball(ball, proportions))
        return WorstShift((above,), above, length)
    highest = radius * _concave(curves.max(axis=0))
    above = _grouped(highest)
    if len(curves) > MOST_CHECKED or (radius * curves[0] >= highest * (1 - 1e-13)).all():
        return WorstShift((above,), above, length)
    return WorstShift(tuple(_grouped(radius * curve) for curve in curves), above, length)


def _curves_of_vertices(ball: NormBall, proportions: FloatArray) -> FloatArray | None:
    """Return the sums of the k greatest sizes of the vertices that count, (m, dim), or None."""
    points = None if type(ball) is LpBall else known(ball, "extreme_points")
    if points is None:
        return None
    sizes = -np.sort(-np.abs(points) / proportions, axis=1)
    return _highest(np.cumsum(sizes, axis=1)) if len(sizes) else None


def _highest(curves: FloatArray) -> FloatArray:
    """Return the curves that are not below another one, or all if more than a few remain."""
    kept: list[FloatArray] = []
    rest = curves
    while len(rest) and len(kept) <= MOST_CHECKED:
        top = rest[np.argmax(rest.sum(axis=1))]
        kept.append(top)
        rest = rest[(rest > top * (1 + 1e-12)).any(axis=1)]
    return curves if len(rest) else np.array(kept)


def _curve_of_ball(ball: NormBall, proportions: FloatArray) -> FloatArray:
    """Return bounds on the sum of the k greatest sizes over the ball, k = 1, ..., dim; concave."""
    if type(ball) is LpBall:
        widths = -np.sort(-ball.bounding_box() / proportions)
        dual = math.inf if ball.p == 1 else 1 / (1 - 1 / ball.p)
        return _running_norm(widths, dual)
    box = np.cumsum(-np.sort(-ask(ball, "bounding_box") / proportions))
    k = np.arange(1, ball.dim + 1)
    square = math.sqrt(greatest_square(ball, proportions**-2.0))
    plain = bool((proportions == proportions[0]).all())
    around = LpBall(ball.dim, 1, weights=None if plain else tuple(1 / proportions))
    total = Sensitivity(ball).radius_in(around) / (proportions[0] if plain else 1.0)
    return np.asarray(np.minimum(np.minimum(box, total), np.sqrt(k) * square))


def _running_norm(x: FloatArray, p: float) -> FloatArray:
    """Return |(x_1, ..., x_k)|_p for every k, x > 0 falling."""
    if math.isinf(p):
        return np.full(len(x), x[0])
    return np.asarray(x[0] * np.cumsum((x / x[0]) ** p) ** (1 / p))


def _concave(curve: FloatArray) -> FloatArray:
    """Return the least concave majorant of a curve through (0, 0), at k = 1, ..., dim."""
    heights = np.concatenate([[0.0], curve])
    corners = [0]
    for k in range(1, len(heights)):
        while len(corners) > 1 and _below_chord(heights, corners[-2], corners[-1], k):
            corners.pop()
        corners.append(k)
    return np.asarray(np.interp(np.arange(1, len(heights)), corners, heights[corners]))


def _below_chord(heights: FloatArray, left: int, middle: int, right: int) -> bool:
    rise = (heights[right] - heights[left]) / (right - left)
    return bool(heights[middle] - heights[left] <= rise * (middle - left))


def _grouped(curve: FloatArray) -> Shift:
    """Return the shift with these sums, where nearly equal sizes are rounded up to one."""
    groups = _runs(np.diff(curve, prepend=0.0))
    return groups if len(groups) <= MOST_GROUPS else _runs(_coarse(curve))


def _runs(sizes: FloatArray) -> Shift:
    falling = np.maximum.accumulate(np.maximum(sizes, 0.0)[::-1])[::-1]
    # Negligible sizes are added to the greatest size, which is on the safe side.
    small = falling < 1e-12 * falling[0]
    falling[0] += falling[small].sum()
    groups: list[tuple[float, int]] = []
    for size in falling[~small].tolist():
        if groups and size >= groups[-1][0] * (1 - 1e-12):
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((size, 1))
    return tuple(groups)


def _coarse(curve: FloatArray) -> FloatArray:
    """Return the steps of a concave curve above this one, the minimum of a few tangents."""
    slopes = np.diff(curve, prepend=0.0)
    touch = np.unique(np.geomspace(1, len(curve), MOST_GROUPS // 2).round().astype(int)) - 1
    k = np.arange(len(curve))
    lines = curve[touch, None] + slopes[touch, None] * (k - touch[:, None])
    return np.diff(lines.min(axis=0), prepend=0.0)
