"""Exact composition: bounds on epsilon and delta of several releases from their privacy losses.

The losses of independent releases add. The product of the pairs that dominate each release
dominates all of them, also if each mechanism depends on earlier outputs (Zhu, Dong & Wang 2022,
Theorem 10). The pairs, and the number of each, must be fixed before the first output is seen. A
release whose scale or existence depends on earlier outputs is not covered
(docs/proofs/loss_distributions.md, Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from skdp._checks import check_count, check_entries, check_interval, fail
from skdp._identity import counted, remembered
from skdp.privacy.rounding import LEAST_LOG, exp_up
from skdp.privacy.fold import Folded, Sum, fold
from skdp.privacy.grid import (
    ACCURACY,
    extent,
    log_infinity_mass,
    lower,
    moved_log_delta,
    upper,
)
from skdp.privacy.composition import Parts, Plan, plan
from skdp.privacy.rounding import add_multiples, float_above
from skdp.privacy.losses import GaussianLoss, PairLoss, Profile

# Greater epsilons count as infinite.
_FARTHEST = 1e9


class Bounds(NamedTuple):
    """Two numbers with the truth between them.

    Attributes
    ----------
    lower, upper : float

    Examples
    --------
    >>> from skdp.privacy import Composition, GaussianLoss
    >>> lower, upper = Composition([(GaussianLoss(0.1), 10)]).delta_at(1.0)
    >>> lower <= upper
    True
    """

    lower: float
    upper: float


# Kinds of bounds.
Kinds = Sequence[str]
_BOTH: Kinds = ("lower", "upper")


@dataclass(frozen=True)
class Composition:
    """Exact composition of several releases about the same records.

    Parameters
    ----------
    parts : sequence of (loss, count)
        Privacy losses (`skdp.privacy.losses`), each with its number of releases, an
        int >= 1.

    Raises
    ------
    ValueError
        If a part is not such a pair, or a count is out of range.

    Examples
    --------
    >>> from skdp.noise import Laplace
    >>> from skdp.privacy import PairLoss, ShiftLoss
    >>> both = Composition([(ShiftLoss(Laplace(10.0), 1.0), 100), (PairLoss(0.5), 2)])
    >>> bounds = both.epsilon_at(1e-6)
    >>> round(bounds.upper, 2), bounds.upper - bounds.lower < 1e-3
    (5.51, True)
    """

    parts: Parts

    def __init__(self, parts: Sequence[tuple[Profile, int]]) -> None:
        object.__setattr__(self, "parts", _merged(parts))

    def delta_at(self, epsilon: float) -> Bounds:
        """Return the least delta at ``epsilon``, between two bounds.

        Parameters
        ----------
        epsilon : float in [0, inf)

        Returns
        -------
        Bounds

        Raises
        ------
        ValueError
            If ``epsilon`` is out of range.
        """
        epsilon = check_interval("epsilon", epsilon, 0.0, math.inf, closed="left")
        parts = _gaussians_merged(self.parts)
        low, high = log_delta_bounds(parts, epsilon)
        return Bounds(min(1.0, math.exp(low)), delta_of(parts, high))

    def delta_above(self, epsilon: float, gap: float | None = None) -> float:
        """Return the upper bound of `delta_at` alone, in less time.

        With a ``gap`` the bound may be wider by about it in epsilon, and takes less time.
        """
        epsilon = check_interval("epsilon", epsilon, 0.0, math.inf, closed="left")
        parts = _gaussians_merged(self.parts)
        found = [_log_delta_of(side, epsilon, ("upper",), gap) for side in sides(parts)]
        return delta_of(parts, max(bounds[0] for bounds in found))

    def epsilon_at(self, delta: float) -> Bounds:
        """Return the least epsilon at ``delta``, between two bounds.

        Parameters
        ----------
        delta : float in [0, 1]

        Returns
        -------
        Bounds
            inf if no epsilon has this delta. For several releases without a closed form the
            upper bound is also inf for delta < 1e-300.

        Raises
        ------
        ValueError
            If ``delta`` is out of range.
        """
        delta = check_interval("delta", delta, 0.0, 1.0)
        return epsilon_bounds(_gaussians_merged(self.parts), delta)

    def epsilon_above(self, delta: float) -> float:
        """Return the upper bound of `epsilon_at` alone, in less time."""
        delta = check_interval("delta", delta, 0.0, 1.0)
        parts = _gaussians_merged(self.parts)
        return max(_epsilon_of(side, delta, ("upper",))[0] for side in sides(parts))


def _merged(parts: Sequence[tuple[Profile, int]]) -> Parts:
    parts = check_entries("parts", parts)
    for part in parts:
        if not (
            isinstance(part, tuple | list) and len(part) == 2 and hasattr(part[0], "log_delta")
        ):
            raise fail("parts", "hold pairs of a privacy loss and a count", part)
    return counted((loss, check_count("count", n)) for loss, n in parts)


def _gaussians_merged(parts: Parts) -> Parts:
    """Return the parts with all Gaussian ones merged: their product is Gaussian."""
    gaussian = [(loss.mu, n) for loss, n in parts if type(loss) is GaussianLoss]
    if sum(n for _, n in gaussian) < 2:
        return parts
    top = max(mu for mu, _ in gaussian)  # squares of ratios to it do not all underflow
    mu = top * math.sqrt(math.fsum(n * (mu / top) ** 2 for mu, n in gaussian))
    rest = tuple((loss, n) for loss, n in parts if type(loss) is not GaussianLoss)
    return ((GaussianLoss(mu), 1), *rest)


def _is_unbounded(loss: Profile) -> bool:
    """Return whether no upper bound of the loss is known."""
    return math.isinf(_greatest(((loss, 1),)).upper)


def delta_of(parts: Parts, log_delta: float) -> float:
    """Return an upper bound on delta, rounded up, from one on its log."""
    if log_delta == -math.inf and any(_is_unbounded(loss) for loss, _ in parts):
        log_delta = LEAST_LOG  # below every positive float, but the truth is not 0
    return exp_up(log_delta)


def log_delta_bounds(parts: Parts, epsilon: float) -> Bounds:
    """Return bounds on the log of the least delta, without merging Gaussian parts."""
    found = [_log_delta_of(side, epsilon) for side in sides(parts)]
    return Bounds(max(low for low, _ in found), max(high for _, high in found))


def epsilon_bounds(parts: Parts, delta: float) -> Bounds:
    """Return bounds on the least epsilon, without merging Gaussian parts."""
    found = [_epsilon_of(side, delta) for side in sides(parts)]
    return Bounds(max(low for low, _ in found), max(high for _, high in found))


def outlines(parts: Parts, epsilon: float) -> list[tuple[Parts, Plan]] | None:
    """Return the plans by which delta at epsilon is bounded, for each order of the pair.

    None if a closed form is used.
    """
    found = [side for side in sides(_gaussians_merged(parts)) if side]
    closed = any(len(side) == side[0][1] == 1 or epsilon >= _end(side) for side in found)
    if closed or not found:
        return None
    return [(side, plan(side, epsilon=epsilon)) for side in found]


def sides(parts: Parts) -> list[Parts]:
    """Return the parts, and those of (Q, P) if they differ, without parts with zero loss."""
    telling = tuple((loss, n) for loss, n in parts if _tells(loss))
    if all(loss.symmetric for loss, _ in telling):
        return [telling]
    return [telling, tuple((loss.reversed(), n) for loss, n in telling)]


@remembered(maxsize=1024)
def _tells(loss: Profile) -> bool:
    """Return whether a loss is not 0."""
    return bool(loss.log_delta(0.0) > -np.inf)


def _log_delta_of(
    parts: Parts, epsilon: float, bounds: Kinds = _BOTH, gap: float | None = None
) -> list[float]:
    """Return the bounds of the given kinds on log delta."""
    if epsilon >= _end(parts):
        return [getattr(_log_infinite(parts), kind) for kind in bounds]
    curves = _curves(parts, bounds, epsilon=epsilon, gap=gap)
    return [min(curve.at(epsilon), 0.0) for curve in curves]


def _epsilon_of(parts: Parts, delta: float, bounds: Kinds = _BOTH) -> list[float]:
    """Return the bounds of the given kinds on epsilon."""
    if not parts or delta == 1:
        return [0.0 for _ in bounds]
    if delta == 0:
        return [getattr(_greatest(parts), kind) for kind in bounds]
    target = math.log(delta)
    curves = _curves(parts, bounds, log_delta=target)
    crossed = [_crossed(curve, target) for curve in curves]
    most = _end(parts) if _log_infinite(parts).upper <= target else math.inf
    return [
        min(high, most) if kind == "upper" else low
        for kind, (low, high) in zip(bounds, crossed, strict=True)
    ]


class Curve(NamedTuple):
    """A bound on log delta as a function of epsilon, with a start and a step for searches."""

    at: Callable[[float], float]
    start: float = 0.0
    step: float = 1.0


def _nothing(epsilon: float) -> float:
    """Return the log delta of no release."""
    return -math.inf


def _curves(
    parts: Parts,
    bounds: Kinds,
    *,
    epsilon: float | None = None,
    log_delta: float = 0.0,
    gap: float | None = None,
) -> list[Curve]:
    """Return bounds of the given kinds, close near the given epsilon or log delta."""
    if len(parts) == 1 and parts[0][1] == 1:
        return [_own_curve(parts[0][0], 1 if kind == "upper" else -1) for kind in bounds]
    outline = plan(parts, epsilon=epsilon, log_delta=log_delta, gap=gap)
    return [_curve(parts, outline, kind) for kind in bounds]


def _own_curve(loss: Profile, sign: int) -> Curve:
    """Return the loss's own log delta, moved up or down by a bound on its error."""
    if sign < 0 and not hasattr(loss, "log_tails"):
        return Curve(_nothing)
    return Curve(lambda epsilon: float(moved_log_delta(loss, epsilon, sign)))


def _curve(parts: Parts, outline: Plan, kind: str) -> Curve:
    """Return the curve of the sum of the losses as discretised for a kind of bound."""
    if kind == "upper":
        total = folded(parts, outline).sum()
        return _curve_of(total, total.log_upper, outline)
    found = [(lower(loss, outline.step, *ends), n) for loss, n, ends in _with_ends(parts, outline)]
    known = [(masses, n) for masses, n in found if masses is not None]
    if not known:
        return Curve(_nothing)
    total = fold(known, outline.theta, outline.size)
    return _curve_of(total, total.log_lower, outline)


def folded(parts: Parts, outline: Plan) -> Folded:
    """Return the sum of losses that dominate the parts, on the grid of a plan."""
    found = [(upper(loss, outline.step, *ends), n) for loss, n, ends in _with_ends(parts, outline)]
    return Folded.of(found, outline.theta, outline.size)


def _with_ends(parts: Parts, outline: Plan) -> list[tuple[Profile, int, tuple[int, int]]]:
    return [(loss, n, ends) for (loss, n), ends in zip(parts, outline.ends, strict=True)]


def _curve_of(total: Sum, at: Callable[[float], float], outline: Plan) -> Curve:
    return Curve(at, min(outline.epsilon, total.greatest), 1 / outline.theta)


def _crossed(curve: Curve, target: float) -> tuple[float, float]:
    """Return two close epsilons: the curve is above the target at the first only.

    Both are 0 if the curve is never above the target, and inf if it always is.
    """
    high, width = max(curve.start, 0.0), curve.step
    while curve.at(high) > target:
        high, width = high + width, 1.5 * width
        if high > _FARTHEST:
            return math.inf, math.inf
    low, width = high, curve.step
    while curve.at(low) <= target:
        if low == 0:
            return 0.0, 0.0
        low, width = max(low - width, 0.0), 1.5 * width
    # brentq needs finite numbers; far below the target the value does not matter.
    root = brentq(lambda x: max(curve.at(x) - target, -50.0), low, high, xtol=1e-14, rtol=1e-12)
    return _moved(curve, target, root, -1), _moved(curve, target, root, 1)


def _moved(curve: Curve, target: float, root: float, sign: int) -> float:
    """Return a point next to the root that is certainly below it, or above it for sign = 1."""
    width = 1e-12 * root + 1e-300
    while (curve.at(root) <= target) == (sign < 0) and (root > 0 or sign > 0):
        root, width = max(root + sign * width, 0.0), 2 * width
    return root


def _greatest(parts: Parts) -> Bounds:
    """Return bounds on epsilon at delta = 0, which is the sum of the greatest losses."""
    ends = [extent(loss, -700.0, -700.0)[1] * (1 + ACCURACY) for loss, _ in parts]
    ended = all(
        loss.log_delta(end) == -math.inf for end, (loss, _) in zip(ends, parts, strict=True)
    )
    if _log_infinite(parts).upper > -math.inf:
        return Bounds(math.inf, math.inf)
    counted = [(n * end, loss) for end, (loss, n) in zip(ends, parts, strict=True)]
    least = sum(end for end, loss in counted if hasattr(loss, "log_tails"))
    most = sum(end for end, _ in counted)
    return Bounds(least * (1 - 4 * ACCURACY), min(most if ended else math.inf, _end(parts)))


def _end(parts: Parts) -> float:
    """Return the sum of the epsilons of pair losses, as in basic composition; inf for others."""
    pairs = [(loss.epsilon, n) for loss, n in parts if type(loss) is PairLoss]
    return float_above(add_multiples(pairs)) if len(pairs) == len(parts) else math.inf


def _log_infinite(parts: Parts) -> Bounds:
    """Return bounds on the log of the probability that a loss is infinite."""
    masses = [(math.exp(log_infinity_mass(loss)), n) for loss, n in parts]
    spared = math.fsum(n * math.log1p(-mass) if mass < 1 else -math.inf for mass, n in masses)
    found = math.log(-math.expm1(spared)) if spared else -math.inf
    return Bounds(found - ACCURACY, min(found + ACCURACY, 0.0))
