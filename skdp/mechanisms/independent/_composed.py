"""The scale of noise of one law that is private for several shifts together.

A shift is a tuple of sizes and counts: coordinates of one release, or numbers that are released
one after the other. A sketch finds the approximate scale, and a certified bound decides
(``docs/proofs/repeated_releases.md``, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from skdp._search import last_passing
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.independent._scale import greatest_slope
from skdp.mechanisms.independent._sketch import Sketch
from skdp.mechanisms.independent._worst_shift import Shift
from skdp.mechanisms.sensitivity.base import ROUND_UP
from skdp.noise.gaussian import Gaussian
from skdp.privacy.composition.composition import Composition, log_delta_as_planned
from skdp.privacy.composition.plan import Estimate, planned
from skdp.privacy.losses.losses import GaussianLoss, PrivacyLoss, ShiftLoss

Losses = tuple[tuple[PrivacyLoss, int], ...]

# Relative tolerance of the inverse of a scale; certified bounds are about as sharp.
_TOLERANCE = 1e-5
# Relative accuracy of a sketched root, and the usual error of the sketched log delta there.
_SKETCH, _SKETCH_OFF = 1e-6, 0.02
# A certified bound far from the sketch is accepted if a shift greater by this is not private.
_WIDE = 1e-3
_MOST_STEPS = 6


class Root(NamedTuple):
    """A scale, and the derivative of log delta in the log of the inverse scale."""

    scale: float
    slope: float


@dataclass(frozen=True)
class Composed:
    """One law, one shift of several sizes and an (epsilon, delta) with delta > 0.

    The variable is x = 1 / scale: noise of scale 1 / x is as private for a size as the law itself
    is for x times that size.
    """

    law: Any
    shift: Shift
    epsilon: float
    delta: float

    def least_scale(self, near: Root | None = None) -> float:
        """Return nearly the least scale that is certainly private; ``near`` is a first guess."""
        root = self.sketched(near)
        x, excess = self._certified(1 / root.scale, root.slope)
        off = abs(excess - self.sketched_excess(x))
        if not off < _SKETCH_OFF and not self.surely_shown(x * (1 + _WIDE)):
            # The sketch was wrong, and so was the grid planned from it.
            x = last_passing(self._excess_without_sketch, x, tolerance=_WIDE / 4, factor=1 + _WIDE)
        return ROUND_UP / x

    def sketched(self, near: Root | None = None, tolerance: float = _SKETCH) -> Root:
        """Return about the least scale, without a certified bound."""
        start = near or self._start()
        tolerance = max(tolerance, _SKETCH)
        found = _secant(self.sketched_excess, 1 / start.scale, start.slope, tolerance)
        if found is None:
            first = self._start()
            x = last_passing(self.sketched_excess, 1 / first.scale, tolerance=tolerance)
            step = 100 * tolerance
            rise = self.sketched_excess(x * math.exp(step)) - self.sketched_excess(x)
            found = x, rise / step
        return Root(1 / found[0], found[1])

    def excess(self, x: float) -> float:
        """Return an upper bound on log delta less its target: private if it is <= 0."""
        return self._bound(self._sketch(x), "upper") - self._target

    def sketched_excess(self, x: float) -> float:
        """Return about log delta less its target."""
        return self._sketch(x).log_delta - self._target

    def surely_shown(self, x: float) -> bool:
        """Return whether the noise is certainly not private."""
        return self._bound(self._sketch(x), "lower") > self._target

    @property
    def _target(self) -> float:
        return math.log(self.delta)

    def _sketch(self, x: float) -> Sketch:
        return Sketch(self.law, self.shift, x, self.epsilon, self.delta)

    def _parts(self, x: float) -> tuple[tuple[ShiftLoss, int], ...]:
        return tuple((ShiftLoss(self.law, size * x), count) for size, count in self.shift)

    def _bound(self, sketch: Sketch, side: str) -> float:
        """Return a bound on log delta, on the grid planned from a sketch."""
        if sketch.is_singular:
            return 0.0 if side == "upper" else -math.inf
        seen = Estimate(
            self.epsilon, sketch.log_delta, sketch.theta, sketch.width, sketch.extents()
        )
        parts = self._parts(sketch.x)
        return log_delta_as_planned(parts, planned(parts, seen), side)

    def _excess_without_sketch(self, x: float) -> float:
        upper = Composition(self._parts(x)).delta_above(self.epsilon)
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
        """Return an x near the given one and its excess <= 0, by Newton's method."""
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
    """Return an approximate root of an increasing function of log x and its slope, or None."""
    x, value, last = start, excess(start), 1.0
    for _ in range(_MOST_STEPS):
        step = -value / slope if slope > 0 else math.nan
        if not abs(step) < 1:
            return None
        # The relative error of the slope, and of this step, is about the size of the last step.
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
