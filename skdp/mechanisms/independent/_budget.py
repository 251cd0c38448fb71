"""The scale that a law needs for an (epsilon, delta), and the best law of a family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from skdp.mechanisms.independent._composed import Composed, Root
from skdp.mechanisms.independent._scale import excess_of, least_scale, pure_scale
from skdp.mechanisms.independent._shapes import FAMILIES, PLAIN, Family, best_law, corner_of
from skdp.mechanisms.independent._worst_shift import WorstShift
from skdp.noise.gaussian import Gaussian

# The best shape is sought for equal sizes of the same length if there are more sizes than the
# first number, or at least so many releases of the greatest size.
_MOST_SIZES, _MANY = 3, 30
# Greatest error of a sketched log delta that is assumed when laws are compared.
_CLEAR = 0.005


@dataclass(frozen=True)
class Budget:
    """The (epsilon, delta) of independent noise of one law."""

    epsilon: float
    delta: float

    def scale(self, law: Any, worst: WorstShift, near: Root | None = None) -> float:
        """Return the scale that is private for all differences; ``near`` is a first guess."""
        if self.is_closed(law, worst):
            return self._closed(law, worst, 1e-14, near)
        scale = 0.0
        for vertex in self._composed(law, worst):
            if scale == 0 or vertex.excess(1 / scale) > 0:
                # Bounds are sharp to a few digits, so this vertex may need a lesser scale.
                scale = max(scale, vertex.least_scale(near))
        return min(scale, self._pure(law, worst))

    def sketched(
        self, law: Any, worst: WorstShift, tolerance: float, near: Root | None = None
    ) -> Root:
        """Return an approximate scale for all differences.

        In one coordinate it is calibrated to the tolerance.
        """
        if self.is_closed(law, worst):
            return Root(self._closed(law, worst, tolerance, near), math.nan)
        found = max(c.sketched(near, tolerance) for c in self._composed(law, worst))
        return Root(min(found.scale, self._pure(law, worst)), found.slope)

    def law_of(self, mechanism: Any, worst: WorstShift) -> tuple[Any, Root | None]:
        """Return a law, or the best law of a family that is named, and about its scale if known."""
        if not isinstance(mechanism, str):
            return mechanism, None
        if mechanism in PLAIN:
            return PLAIN[mechanism], None
        return self._best_law(FAMILIES[mechanism], worst)

    def _best_law(self, family: Family, worst: WorstShift) -> tuple[Any, Root]:
        """Return the law of least variance of a family, and about the scale that it needs."""
        # Many sizes take long to compose, and equal sizes have about the same best shape.
        is_many = len(worst.above) > 1 and worst.above[0][1] >= _MANY
        alike = worst.rounded() if is_many or len(worst.above) > _MOST_SIZES else worst
        known: list[tuple[float, Root]] = []

        def log_variance(law: Any, tolerance: float) -> float:
            spread = math.sqrt(law.var())
            near = _of_variance(*known[-1], spread) if known else None
            root = self.sketched(law, alike, tolerance, near)
            known.append((2 * math.log(spread * root.scale), root))
            return known[-1][0]

        sharp = 1e-5 if worst.is_single else 1e-4
        law, least = best_law(family, log_variance, self._corner(family, alike), known=sharp)
        return law, _of_variance(least, known[-1][1], math.sqrt(law.var()))

    def is_too_small(self, law: Any, worst: WorstShift, scale: float) -> bool:
        """Return whether noise of a scale is not private for the single vertex.

        A sketch decides if it is far enough from delta, otherwise a certified bound: this chooses
        laws, and privacy does not depend on it.
        """
        (composed,) = self._composed(law, worst)
        excess = composed.sketched_excess(1 / scale)
        return excess > 0 if abs(excess) > _CLEAR else composed.surely_shown(1 / scale)

    def is_closed(self, law: Any, worst: WorstShift) -> bool:
        """Return whether the scale follows without composition."""
        return self.delta == 0 or worst.is_single or type(law) is Gaussian

    def _closed(self, law: Any, worst: WorstShift, tolerance: float, near: Root | None) -> float:
        shift = worst.length if type(law) is Gaussian else worst.total
        if self.delta == 0 and not worst.is_single and type(law) is not Gaussian:
            return self._pure(law, worst)
        return least_scale(
            law,
            shift,
            epsilon=self.epsilon,
            delta=self.delta,
            tolerance=tolerance,
            near=near.scale if near else None,
        )

    def _pure(self, law: Any, worst: WorstShift) -> float:
        return pure_scale(law, worst.total, self.epsilon, required=self.delta == 0)

    def _composed(self, law: Any, worst: WorstShift) -> list[Composed]:
        return [Composed(law, vertex, self.epsilon, self.delta) for vertex in worst.vertices]

    def _corner(self, family: Family, worst: WorstShift) -> tuple[float, float] | None:
        """Return the log shape at which the variance may have a corner, and its log there."""
        if self.delta == 0 or len(worst.vertices) > 1:
            return None

        def excess(law: Any, x: float) -> float:
            if worst.is_single:
                return excess_of(law, worst.total * x, self.epsilon, self.delta)
            (composed,) = self._composed(law, worst)
            return composed.sketched_excess(x)

        return corner_of(family, excess, worst.total, self.epsilon)


def _of_variance(log_variance: float, root: Root, spread: float) -> Root:
    """Return the scale that gives a law of standard deviation ``spread`` a variance."""
    return Root(math.exp(log_variance / 2) / spread, root.slope)
