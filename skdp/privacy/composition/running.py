"""A composition to which further losses are added: upper bounds near one epsilon.

A further loss is discretised on the grid of an earlier plan, and its transform is multiplied by
that of the others. Every plan gives valid bounds, but an old one gives less close ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from skdp.privacy.fold import Folded
from skdp.privacy.composition import Composition, delta_of, folded, outlines
from skdp.privacy.composition import sides as sides_of
from skdp.privacy.grid import upper
from skdp.privacy.composition import Parts, ends_on


class Running:
    """Upper bounds on delta at one epsilon, for a growing list of losses.

    Parameters
    ----------
    epsilon : float in [0, inf)
    count : int
        The number of losses.
    sides : sequence of Folded, optional
        The sums of the losses, for each order of the pair, on grids of earlier plans.
    """

    def __init__(
        self, epsilon: float, count: int = 0, sides: Sequence[Folded] | None = None
    ) -> None:
        self.epsilon, self.count, self._sides = epsilon, count, sides

    def after(self, parts: Parts) -> Running:
        """Return the composition with further losses."""
        count = self.count + sum(n for _, n in parts)
        return Running(self.epsilon, count, self._extended(parts, count))

    def bounds(self, parts: Callable[[], Parts]) -> Iterator[float]:
        """Return upper bounds on delta, the last one from a new plan and as close as is known.

        Parameters
        ----------
        parts : callable
            Function that returns all losses.
        """
        if self._sides is not None:
            yield self._bound(self._sides, parts)
        whole = parts()
        planned = outlines(whole, self.epsilon)
        if planned is None:
            yield Composition(whole).delta_above(self.epsilon) if whole else 0.0
        else:
            # Kept for the losses that follow; the bounds stay valid.
            self._sides = sides = [folded(side, outline) for side, outline in planned]
            yield self._bound(sides, parts)

    def _bound(self, sides: Sequence[Folded], parts: Callable[[], Parts]) -> float:
        log = min(max(side.sum().log_upper(self.epsilon) for side in sides), 0.0)
        return delta_of(parts() if math.isinf(log) else (), log)

    def _extended(self, parts: Parts, count: int) -> Sequence[Folded] | None:
        """Return the sums with further losses, or None without a sum or if its grid is too fine."""
        if self._sides is None:
            return None
        further = sides_of(parts)
        if len(further) > len(self._sides):
            return None
        found = []
        for k, side in enumerate(self._sides):
            for loss, n in further[min(k, len(further) - 1)]:
                first, last = ends_on(loss, side.step, count)
                if last - first > side.spectrum.size:
                    return None
                side = side.plus(upper(loss, side.step, first, last), n)
            found.append(side)
        return found
