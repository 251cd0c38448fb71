"""Trusted. The profile of a release with known privacy losses, and its equivalents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfinv, ndtr, ndtri, ndtri_exp

from skdp._search import narrowed
from skdp.privacy.composition import Composition
from skdp.privacy.conversions import mu_of_pure, rho_of_mu, rho_of_pure
from skdp.privacy.shift import ShiftLoss, log_ratio
from skdp.trusted.arrays import FloatArray, tested
from skdp.trusted.checks import is_ours, optional_module, remembered
from skdp.trusted.composition import composed_delta, finite_parts, infinity_mass
from skdp.trusted.losses import (
    FiniteLoss,
    GaussianLoss,
    Losses,
    PairLoss,
    Profile,
    SelectionLoss,
    counted,
)
from skdp.trusted.radial import RadialLoss

# More than the relative rounding error of sums of squares.
_ROUND_UP, _ROUND_DOWN = 1 + 1e-12, 1 - 1e-12
# The loss of a shifted law grows with x: if it is the same at both, this is its upper bound.
_FAR = (1e50, 1e150)
_GREATEST, _TINY = 700.0, 1e-300
_CORNERS, _PIECES = 49, 4000
# Bound on the relative error of a quantile and a tail of the normal law.
_ARGUMENT = 4e-15


class Equivalents(NamedTuple):
    """A release in terms of pure DP, Gaussian DP and zCDP; inf if nothing is known."""

    pure: float  # sum of the greatest values of the losses that do not count as Gaussian
    gaussian: float  # sum of mu^2 over the losses that do: Gaussian ones and nearly Gaussian ones
    square: float  # sum of mu^2 over all losses; others have the mu of their greatest value
    rho: float  # sum of rho in zCDP


def joint(releases: Sequence[Any]) -> Losses | None:
    """Return the losses of guarantees or entries; None if one has delta = 1 and no losses."""
    parts = [release.losses or worst(release.epsilon, release.delta) for release in releases]
    return counted(chain.from_iterable(parts)) if all(parts) else None


@remembered(maxsize=1024)
def equivalents(epsilon: float, delta: float, losses: Losses) -> Equivalents:
    """Return the equivalents of a release with this guarantee."""
    parts = losses or worst(epsilon, delta)
    if not parts:
        return Equivalents(math.inf, math.inf, math.inf, math.inf)
    pure = total(_bound(loss) * count for loss, count in parts if not _nearly_gaussian(loss))
    gaussian = total(_square(loss) * count for loss, count in parts if _nearly_gaussian(loss))
    square = total(_square(loss) * count for loss, count in parts)
    by_mu = (_finite(rho_of_mu, math.sqrt(_square(loss))) for loss, _ in parts)
    by_bound = (_finite(rho_of_pure, _bound(loss)) for loss, _ in parts)
    rho = total(n * min(one) for (_, n), *one in zip(parts, by_mu, by_bound, strict=True))
    if delta == 0:
        square, rho = min(square, squared(mu_of_pure(epsilon))), min(rho, rho_of_pure(epsilon))
        pure = min(pure, epsilon)
    square *= _ROUND_UP
    return Equivalents(pure, gaussian, square, min(rho, _finite(rho_of_mu, math.sqrt(square))))


def worst(epsilon: float, delta: float) -> Losses:
    """Return the loss of the worst (epsilon, delta)-private release; none at delta = 1."""
    return ((PairLoss(epsilon, delta), 1),) if delta < 1 else ()


def total(amounts: Iterable[float]) -> float:
    """Return the sum of amounts >= 0; inf beyond all floats, where fsum raises an error."""
    try:
        return math.fsum(amounts)
    except OverflowError:
        return math.inf


def squared(x: float) -> float:
    """Return the square; inf beyond all floats, where a power raises an error."""
    return x * x


def _nearly_gaussian(loss: Profile) -> bool:
    # The least mu of a yes-no answer is at least 1.25 times its loss. Of a choice it is half of
    # that, 9 % more than of the normal law that many choices together have.
    return type(loss) is SelectionLoss or math.sqrt(_square(loss)) < _bound(loss) / 2


def _square(loss: Profile) -> float:
    if type(loss) is GaussianLoss:
        # Raised if it underflows or is subnormal.
        return max(squared(loss.mu), _TINY)
    if type(loss) is SelectionLoss:  # docs/proofs/conversions.md, 6
        return max(squared(mu_of_pure(loss.width / 2)), _TINY)
    tail = 0.0
    if type(loss) is ShiftLoss and is_ours(loss.law) and getattr(loss.law, "peaked", False):
        tail = float(np.asarray(loss.law.logsf(loss.shift / 2)))
    elif type(loss) is RadialLoss and loss.dim == 1:  # of Laplace noise
        tail = -loss.shift / 2 - math.log(2)
    if tail < 0:
        # 2 Phi^-1(F(v / 2)), rounded up (docs/proofs/conversions.md, 7).
        near = 2 * math.sqrt(2) * float(erfinv(-math.expm1(math.log(2) + tail)))
        # The rounding of the tail matters near the centre only.
        mu = near * _ROUND_UP + 1e-14 if tail > -2 else -2 * float(ndtri_exp(tail)) * _ROUND_UP
        return max(squared(mu), _TINY)
    bound = _bound(loss)
    mu = _finite(mu_of_pure, bound)
    if type(loss) is RadialLoss and bound <= _GREATEST:
        mu = _dominating_mu(loss, mu)
    return squared(mu)


@remembered(maxsize=256)
def _dominating_mu(loss: RadialLoss, greatest: float) -> float:
    """Return a mu, at most the greatest, whose profile lies above that of a bounded loss.

    Both profiles decrease, so it suffices to compare the one at the left end of a piece with the
    other at its right end. Beyond the bound the loss has delta 0. The pair is symmetric, so
    epsilon >= 0 suffices.
    """
    ends = np.linspace(0.0, loss.shift, _PIECES + 1)
    left = loss.log_delta(ends[:-1]) + 1e-9

    def dominates(mu: float) -> bool:
        return bool((left <= GaussianLoss(mu).log_delta(ends[1:])).all())

    return narrowed(dominates, 0.0, greatest, 1e-4)[1]


def _finite(convert: Callable[[float], float], amount: float) -> float:
    return convert(amount) if amount < math.inf else math.inf


def _bound(loss: Profile) -> float:
    """Return an upper bound of the loss, inf if none is known."""
    if type(loss) is PairLoss:
        return loss.epsilon if loss.delta == 0 else math.inf
    if type(loss) is RadialLoss:
        return loss.shift
    if type(loss) is SelectionLoss:
        return loss.width
    if type(loss) is FiniteLoss:
        infinite = max(loss.log_p_infinity_mass, loss.log_q_infinity_mass)
        values = loss.losses or (0.0,)
        return math.inf if infinite > -math.inf else max(abs(values[0]), abs(values[-1]))
    if type(loss) is ShiftLoss and hasattr(loss.law, "log_ratio"):
        near, far = log_ratio(loss.law, _FAR, loss.shift).tolist()
        return far * _ROUND_UP if near == far < _GREATEST else math.inf
    return math.inf


def dp_event(epsilon: float, delta: float, losses: Losses) -> Any:
    """Return the event of dp-accounting for a release, which is never better than the release."""
    events = optional_module("dp_accounting.dp_event", "to make its events", "oracle")
    parts = losses or worst(epsilon, delta)
    if not parts:
        return events.NonPrivateDpEvent()
    found = [
        event if n == 1 else events.SelfComposedDpEvent(event, n)
        for event, n in ((_event(loss, events), n) for loss, n in parts)
    ]
    return found[0] if len(found) == 1 else events.ComposedDpEvent(found)


def _event(loss: Profile, events: Any) -> Any:
    """Return the event of a loss; noise is reduced by more than the quotients round."""
    if type(loss) is GaussianLoss:
        return events.GaussianDpEvent(_ROUND_DOWN / loss.mu)
    if type(loss) is RadialLoss and loss.dim == 1:
        return events.LaplaceDpEvent(_ROUND_DOWN / loss.shift)
    if type(loss) is ShiftLoss and is_ours(loss.law) and type(loss.law).__name__ == "Laplace":
        scale: float = getattr(loss.law, "scale")  # noqa: B009
        return events.LaplaceDpEvent(scale / loss.shift * _ROUND_DOWN)
    bound, square = _bound(loss), _square(loss)
    if square < math.inf and _nearly_gaussian(loss):
        return events.GaussianDpEvent(_ROUND_DOWN / math.sqrt(square * _ROUND_UP))
    # Discrete Laplace noise on a sum that changes by 1 has the losses +-bound, and no others.
    if bound < math.inf:
        return events.DiscreteLaplaceDpEvent(bound * _ROUND_UP, 1)
    return events.UnsupportedDpEvent()


def composed_epsilon(losses: Losses, delta: float) -> float:
    """Return the least epsilon known at delta in (0, 1); inf if there is none."""
    mass, rest = infinity_mass(losses), finite_parts(losses)
    if delta < mass:  # at equality no delta is left for the rest
        return math.inf
    left = delta if mass == 0 else (delta / _ROUND_UP - mass) / max(1 - mass, _TINY) / _ROUND_UP
    return Composition(rest).epsilon_above(max(left, 0.0)) if rest else 0.0


def tradeoff(losses: Losses, alpha: FloatArray) -> FloatArray:
    """Return lower bounds on the type II errors of tests of level alpha."""
    least = np.zeros(alpha.shape)
    if not all(type(loss) is GaussianLoss for loss, _ in losses):
        for epsilon, delta in _corners(losses):
            least = np.maximum(least, tested(epsilon, delta, alpha))
        return least
    mu = math.sqrt(total(_square(loss) * count for loss, count in losses))
    # Phi(-Phi^-1(alpha) - mu), rounded down.
    inside = (alpha > 0) & (alpha < 1)
    place = ndtri(np.where(inside, alpha, 0.5))
    # The relative error of Phi is a few roundings times the square of its argument.
    argument = -place - mu
    least = ndtr(argument - _ARGUMENT * (1 + np.abs(place) + mu))
    least = np.maximum(least * (1 - _ARGUMENT * (1 + argument**2)), 0.0)
    return np.where(inside, np.nextafter(least, 0.0), np.where(alpha > 0, 0.0, 1.0))


@remembered(maxsize=64)
def _corners(losses: Losses) -> tuple[tuple[float, float], ...]:
    """Return points of the profile; all points are valid, and these cover its curved part."""
    farthest = min(composed_epsilon(losses, min(infinity_mass(losses) + 1e-9, 0.5)), _GREATEST)
    grid = np.linspace(0.0, farthest, _CORNERS)
    return tuple((float(e), composed_delta(losses, float(e))) for e in grid)
