"""The law and the scale of the noise of several scalar releases."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skdp._arrays import FloatArray
from skdp._identity import one_call
from skdp.mechanisms.auto import TIE, first_of_least, reason_of
from skdp.mechanisms.independent._budget import Budget
from skdp.mechanisms.independent._composed import Losses, losses_of
from skdp.mechanisms.independent._law import scaled_law
from skdp.mechanisms.independent._worst_shift import Shift, WorstShift

# The preferred first; with delta = 0 those with a bounded loss. Truncated Laplace and Subbotin
# noise are taken only if they are named; docs/mathematics/automatic_choices.md explains why.
CANDIDATES = ("laplace", "gaussian", "logistic", "flipped_huber", "offset_gaussian")
PURE_CANDIDATES = ("laplace", "logistic")
# Up to so many sizes are composed one by one; more are replaced by a few that are worse.
MOST_SIZES = 16


class Found(NamedTuple):
    """A law of any scale, the scale that it needs, and the reason of the choice."""

    law: Any
    scale: float
    told: str

    @property
    def variance(self) -> float:
        """Variance of the noise of one release."""
        return float(self.law.var()) * self.scale**2


@one_call()
def calibrated(mechanism: Any, shifts: Shift, budget: Budget) -> tuple[Any, Losses, str]:
    """Return the law of the noise of one release, its losses, and a description.

    Parameters
    ----------
    mechanism : law, or name of one, or "auto"
    shifts : tuple of (float, int)
        Sizes in falling order, with counts.
    budget : Budget
    """
    worst = worst_of(shifts, budget.delta)
    is_free = isinstance(mechanism, str) and mechanism == "auto"
    found = _best(worst, budget) if is_free else _named(mechanism, worst, budget)
    law = scaled_law(found.law, found.scale, "mechanism")
    losses = losses_of(found.law, worst.above, worst.length, found.scale)
    count = sum(n for _, n in shifts)
    told = f"{law!r} noise in each of {count} releases with shifts {_shortened(shifts)}"
    return law, losses, f"{told}{found.told}"


def worst_of(shifts: Shift, delta: float) -> WorstShift:
    """Return the shift of all releases; many sizes are replaced by a few that are worse."""
    few = shifts if delta == 0 or len(shifts) <= MOST_SIZES else fewer(shifts, MOST_SIZES)
    return WorstShift((few,), few, length_of(shifts))


def length_of(shift: Shift) -> float:
    """Return the Euclidean length of a shift."""
    return math.sqrt(math.fsum(count * size**2 for size, count in shift))


def fewer(shifts: Shift, most: int) -> Shift:
    """Return at most ``most`` sizes whose k greatest have no lesser sum, for every k.

    The sum of the k greatest sizes is a concave function of k. Tangents lie above it, and so does
    the polygon that leaves each tangent at an integer k, at or after the crossing with the next.
    """
    sizes, counts = (np.array(column, dtype=float) for column in zip(*shifts, strict=True))
    ends = np.cumsum(counts)
    at = np.searchsorted(ends, np.linspace(0, ends[-1], most))
    touched = np.unique(np.minimum(at, len(sizes) - 1))
    slopes, heights = sizes[touched], (np.cumsum(sizes * counts) - sizes * ends)[touched]
    crossed = np.floor(np.diff(heights) / -np.diff(slopes)) + 1
    places = np.maximum.accumulate(np.minimum(np.append(crossed, ends[-1]), ends[-1]))
    steps = np.diff(places, prepend=0.0)
    return tuple((float(s), int(n)) for s, n in zip(slopes, steps, strict=True) if n > 0)


def _named(mechanism: Any, worst: WorstShift, budget: Budget) -> Found:
    """Return one law, or the best law of a family that is named."""
    law, near = budget.law_of(mechanism, worst)
    return Found(law, budget.scale(law, worst, near), "")


def _best(worst: WorstShift, budget: Budget) -> Found:
    """Return the first candidate whose variance is the least, up to `TIE`.

    Sketches give approximate variances. Every candidate is calibrated, in their order, unless it
    would not be chosen.
    """
    names = CANDIDATES if budget.delta > 0 else PURE_CANDIDATES
    shaped = [budget.law_of(name, worst) for name in names]
    roots = [near or budget.sketched(law, worst, 1e-5) for law, near in shaped]
    found = [Found(law, root.scale, "") for (law, _), root in zip(shaped, roots, strict=True)]
    known = np.full(len(names), math.inf)
    # Closed forms first, and then by approximate variance.
    order = sorted(range(len(names)), key=lambda k: found[k].variance)
    order.sort(key=lambda k: not budget.is_closed(found[k].law, worst))
    for k in order:
        if not _is_out(k, found[k].law, known, worst, budget):
            scale = budget.scale(found[k].law, worst, roots[k])
            found[k] = found[k]._replace(scale=scale)
            known[k] = found[k].variance
    best = found[int(first_of_least(known))]
    variances = [(name, each.variance) for name, each in zip(names, found, strict=True)]
    least = float(known.min())
    told = reason_of("laws", "variance", best.variance, least, variances, beyond=best.variance)
    return best._replace(told=f", {told}")


def _is_out(k: int, law: Any, known: FloatArray, worst: WorstShift, budget: Budget) -> bool:
    """Return whether candidate k is not the first of the least."""
    if budget.is_closed(law, worst) or math.isinf(known.min()):
        return False
    # A preferred candidate is out if it is worse by `TIE`, others unless they are better by it.
    preferred = k < int(np.argmin(known))
    needed = known.min() * (1 + TIE) ** (1 if preferred else -1)
    return budget.is_too_small(law, worst, math.sqrt(needed / law.var()))


def _shortened(shifts: Shift) -> str:
    """Return the shifts in words, abbreviated if there are many."""
    told = [f"{count} x {size:.6g}" for size, count in shifts]
    return ", ".join(told if len(told) <= 4 else [*told[:2], "...", told[-1]])
