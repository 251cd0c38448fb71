"""The scale that hides several shifts at once, each with noise of its own of one law.

A shift is a tuple of sizes and counts: coordinates of one release, or numbers that are released
one after the other. A look finds about the scale, a certified bound decides
(``docs/proofs/repeated_releases.md``, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.independent.scale import greatest_slope, last_passing
from skdp.mechanisms.independent.sketch import Sketch
from skdp.mechanisms.independent.worst_shift import Shift
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.noise.gaussian import Gaussian
from skdp.privacy.composition.composition import Composition, log_delta_as_planned
from skdp.privacy.composition.plan import Estimate, planned
from skdp.privacy.losses.losses import GaussianLoss, PrivacyLoss, ShiftLoss

Losses = tuple[tuple[PrivacyLoss, int], ...]

# How close to the least the inverse of a scale is sought: certified bounds are about as sharp.
_TOLERANCE = 1e-5
# How well a look knows its root, relatively, and about how much the logs of delta at a root.
_LOOK, _LOOK_OFF = 1e-6, 0.02
# Where it is certain that so little more is not hidden, a bound far from the look is believed.
_WIDE = 1e-3
_MOST_STEPS = 6


class Root(NamedTuple):
    """A scale, and by how much log delta grows there with the log of its inverse."""

    scale: float
    slope: float


@dataclass(frozen=True)
class Composed:
    """One law and one shift of several sizes, to be hidden at (epsilon, delta), delta > 0.

    The scale is told as x = 1 / scale: noise of scale 1 / x hides a size as the law itself hides
    x times that size.
    """

    law: Any
    shift: Shift
    epsilon: float
    delta: float

    def least_scale(self, near: Root | None = None) -> float:
        """Return a scale that is certain to hide the shift, about the least; ``near`` one close."""
        root = self.sketched(near)
        x, excess = self._certified(1 / root.scale, root.slope)
        off = abs(excess - self.sketched_excess(x))
        if not off < _LOOK_OFF and not self.surely_shown(x * (1 + _WIDE)):
            # The look was wrong, and the grid that it has suggested is a bad one.
            x = last_passing(self._excess_without_look, x, tolerance=_WIDE / 4, factor=1 + _WIDE)
        return ROUND_UP / x

    def sketched(self, near: Root | None = None, tolerance: float = _LOOK) -> Root:
        """Return about the least scale, with no certainty."""
        start = near or self._start()
        tolerance = max(tolerance, _LOOK)
        found = _secant(self.sketched_excess, 1 / start.scale, start.slope, tolerance)
        if found is None:
            first = self._start()
            x = last_passing(self.sketched_excess, 1 / first.scale, tolerance=tolerance)
            step = 100 * tolerance
            rise = self.sketched_excess(x * math.exp(step)) - self.sketched_excess(x)
            found = x, rise / step
        return Root(1 / found[0], found[1])

    def excess(self, x: float) -> float:
        """Return a bound for how much is not hidden, in logs: private if it is <= 0."""
        return self._bound(self._look(x), "upper") - self._target

    def sketched_excess(self, x: float) -> float:
        """Return about how much is not hidden, in logs."""
        return self._look(x).log_delta - self._target

    def surely_shown(self, x: float) -> bool:
        """Return whether it is certain that the shift is not hidden."""
        return self._bound(self._look(x), "lower") > self._target

    @property
    def _target(self) -> float:
        return math.log(self.delta)

    def _look(self, x: float) -> Sketch:
        return Sketch(self.law, self.shift, x, self.epsilon, self.delta)

    def _parts(self, x: float) -> tuple[tuple[ShiftLoss, int], ...]:
        return tuple((ShiftLoss(self.law, size * x), count) for size, count in self.shift)

    def _bound(self, look: Sketch, side: str) -> float:
        """Return a bound for log delta, on the grid that a look suggests."""
        if look.tells_apart:
            return 0.0 if side == "upper" else -math.inf
        seen = Estimate(self.epsilon, look.log_delta, look.theta, look.width, look.reaches())
        parts = self._parts(look.x)
        return log_delta_as_planned(parts, planned(parts, seen), side)

    def _excess_without_look(self, x: float) -> float:
        upper = Composition(self._parts(x)).delta_at(self.epsilon).upper
        return math.log(upper) - self._target if upper > 0 else -math.inf

    def _start(self) -> Root:
        """Return the scale of the law's variance that Gaussian noise needs, or a bounded loss."""
        length = math.sqrt(sum(count * size**2 for size, count in self.shift))
        total = sum(count * size for size, count in self.shift)
        pure = total * greatest_slope(self.law, required=False) / self.epsilon
        mu = 1 / gaussian_scale(self.epsilon, self.delta)
        log_density = -((self.epsilon / mu - mu / 2) ** 2 + math.log(2 * math.pi)) / 2
        slope = mu * math.exp(log_density - self._target)
        return Root(min(length / mu / math.sqrt(self.law.var()), pure), slope)

    def _certified(self, x: float, slope: float) -> tuple[float, float]:
        """Return an x near the given one, with its excess, known to be <= 0: Newton's method."""
        for _ in range(_MOST_STEPS):
            excess = self.excess(x)
            if not (slope > 0 and math.isfinite(excess)):
                break
            if -2 * _TOLERANCE * slope <= excess <= 0:
                return x, excess
            x *= math.exp(-max(min(excess / slope + _TOLERANCE, 0.1), -0.1))
        x = last_passing(self.excess, x, tolerance=_TOLERANCE, factor=1 + 10 * _TOLERANCE)
        return x, self.excess(x)


def _secant(
    excess: Callable[[float], float], start: float, slope: float, tolerance: float
) -> tuple[float, float] | None:
    """Return about where an increasing function of log x is 0, and its slope there.

    None where that is not found.
    """
    x, value, last = start, excess(start), 1.0
    for _ in range(_MOST_STEPS):
        step = -value / slope if slope > 0 else math.nan
        if not abs(step) < 1:
            return None
        # The slope is off by a share of about the size of the last step, and so is this step.
        if abs(step * last) < tolerance / 4 and abs(value) < 1:
            return x * math.exp(step), slope
        x, before, last = x * math.exp(step), value, step
        value = excess(x)
        slope = (value - before) / step if step else math.nan
    return None


def losses_of(law: Any, shift: Shift, length: float, scale: float) -> Losses:
    """Return the privacy losses of noise of a scale for a shift of this Euclidean length."""
    up = math.nextafter(1 / scale, math.inf)
    if type(law) is Gaussian:
        return ((GaussianLoss(math.nextafter(length * up / law.scale, math.inf)), 1),)
    return tuple(
        (ShiftLoss(law, math.nextafter(size * up, math.inf)), count) for size, count in shift
    )
