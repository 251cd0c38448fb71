"""Noise for scalar releases that share their budget with private choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from skdp._checks import check_count, check_positive
from skdp._identity import one_call
from skdp._search import last_passing
from skdp.mechanisms.auto import TIE, first_of_least
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.mechanisms.independent._composed import losses_of
from skdp.mechanisms.independent._law import scaled_law
from skdp.mechanisms.independent._releases import CANDIDATES, length_of
from skdp.mechanisms.independent.repeated import RepeatedNoise, calibrate_releases
from skdp.privacy.composition.composition import Composition
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses.selection import SelectionLoss

# A privacy loss, and its count.
Part = tuple[Any, int]

# Share of the choices in the budget: in epsilon, or in the variance of the privacy loss.
SHARE = 0.5
# The loss of a choice of width w, uniform on [-w, w] for small w, has the variance w^2 / 3.
_VARIANCE = 3.0
# Certified bounds are about this sharp.
_TOLERANCE = 1e-5


def choice_width(count: int, *, epsilon: float, delta: float = 0.0) -> float:
    """Return the width of the losses of ``count`` choices with `SHARE` of a budget.

    Parameters
    ----------
    count : int >= 1
    epsilon : float in (0, inf)
    delta : float in [0, 1)

    Returns
    -------
    float
        For `SelectionLoss`. The maximum of scores with Gumbel noise of scale 2 D / width has this
        loss, if one record changes a score by at most D.
    """
    count, epsilon = check_count("count", count), check_positive("epsilon", epsilon)
    if delta == 0:
        return SHARE * epsilon / count
    return math.sqrt(SHARE * _VARIANCE / count) / gaussian_scale(epsilon, delta)


@one_call()
def calibrate_with_choices(
    mechanism: Any,
    shifts: Sequence[tuple[float, int]],
    choices: tuple[float, int],
    *,
    neighbors: str,
    epsilon: float,
    delta: float = 0.0,
) -> RepeatedNoise:
    """Return the noise of scalar releases that are private together with some choices.

    Parameters
    ----------
    mechanism, shifts, neighbors, epsilon, delta
        As for `calibrate_releases`.
    choices : (float, int)
        Width and count of choices, as from `choice_width`.

    Returns
    -------
    RepeatedNoise
        Its guarantee covers the choices too.

    Examples
    --------
    >>> budget = {"epsilon": 1.0, "delta": 1e-6, "neighbors": "replace_one"}
    >>> choices = (choice_width(20, epsilon=1.0, delta=1e-6), 20)
    >>> noise = calibrate_with_choices("gaussian", [(2.0, 20)], choices, **budget)
    >>> round(noise.law.std() / 2.0, 1)
    26.2
    """
    width, count = choices
    fixed = (SelectionLoss(width), count)
    if delta == 0:
        rest = (epsilon - count * width) * (1 - 1e-12)
        noise, scale = calibrate_releases(mechanism, shifts, neighbors=neighbors, epsilon=rest), 1.0
    else:
        any_law = isinstance(mechanism, str) and mechanism == "auto"
        names = CANDIDATES if any_law else (mechanism,)
        noises = [
            calibrate_releases(name, shifts, epsilon=epsilon, delta=delta, neighbors=neighbors)
            for name in names
        ]
        noise, scale = _least_beside(noises, fixed, epsilon, delta)
    losses = (*_losses_of(noise, scale), fixed)
    law = scaled_law(noise.law, scale, "mechanism")
    releases = sum(n for _, n in noise.shifts)
    guarantee = Guarantee(
        epsilon,
        delta,
        neighbors=neighbors,
        mechanism=f"{law!r} noise in each of {releases} releases, and {count} private choices",
        losses=losses,
    )
    return replace(noise, law=law, guarantee=guarantee, losses=losses)


def _least_beside(
    noises: list[RepeatedNoise], fixed: Part, epsilon: float, delta: float
) -> tuple[RepeatedNoise, float]:
    """Return the noise of least variance beside the choices, up to `TIE`, and its scale.

    The noise of least variance without choices may be another. Each noise is tested once at a
    variance just below that of the best so far.
    """
    noise = noises[int(first_of_least([each.var() for each in noises]))]
    scale = _scale_beside(noise, fixed, epsilon, delta)
    for other in sorted(noises, key=RepeatedNoise.var):
        less = math.sqrt(noise.var() * scale**2 / (1 + TIE) / other.var())
        if less > 1 and _excess(other, fixed, epsilon, delta, less) <= 0:
            noise, scale = other, _scale_beside(other, fixed, epsilon, delta)
    return noise, scale


def _losses_of(noise: RepeatedNoise, scale: float) -> tuple[Part, ...]:
    return losses_of(noise.law, noise.shifts, length_of(noise.shifts), scale)


def _excess(noise: RepeatedNoise, fixed: Part, epsilon: float, delta: float, scale: float) -> float:
    """Return a number that is > 0 if the noise times ``scale`` is not private."""
    upper = Composition([*_losses_of(noise, scale), fixed]).delta_above(epsilon)
    return math.expm1(min(math.log(upper / delta), 500.0) / 10) if upper > 0 else -1.0


def _scale_beside(noise: RepeatedNoise, fixed: Part, epsilon: float, delta: float) -> float:
    """Return the factor of the noise that makes room for the choices, rounded up."""

    def excess(x: float) -> float:
        return _excess(noise, fixed, epsilon, delta, 1 / x)

    # losses_of rounds up its arguments, and gets the same arguments again.
    return 1 / last_passing(excess, math.sqrt(1 - SHARE), tolerance=_TOLERANCE)
