"""What the privacy losses of a release say: its profile, and equivalents in other terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from skdp._arrays import FloatArray
from skdp._identity import counted, remembered, same
from skdp.privacy._rounding import tested
from skdp.privacy.composition.composition import Composition
from skdp.privacy.conversions import mu_of_pure, rho_of_mu, rho_of_pure
from skdp.privacy.losses.losses import FiniteLoss, GaussianLoss, PairLoss, Profile, ShiftLoss
from skdp.privacy.losses.radial import RadialLoss
from skdp.privacy.losses.shift import log_ratio

Losses = tuple[tuple[Profile, int], ...]

# Sums of squares make fewer roundings than this share of them.
_ROUND_UP = 1 + 1e-12
# The loss of a shifted law grows with x: where it is the same at both, it has reached its bound.
_FAR = (1e50, 1e150)
_GREATEST, _TINY = 700.0, 1e-300
_CORNERS, _PIECES = 49, 4000
# How far a quantile and a tail of the normal law may be off, as a share.
_ARGUMENT = 4e-15


class Equivalents(NamedTuple):
    """What a release is in other terms; inf where nothing is known."""

    pure: float
    """Sum of the greatest values of the losses that are not counted as Gaussian."""
    gaussian: float
    """Sum of mu^2 over the losses that are: Gaussian ones, and others that are nearly so."""
    square: float
    """Sum of mu^2 over all losses, the others through the epsilon that they never exceed."""
    rho: float
    """Sum of rho in zCDP."""


def merged(parts: Iterable[tuple[Profile, int]]) -> Losses:
    """Return the losses with equal ones counted together."""
    return counted(parts)


@remembered(maxsize=1024)
def equivalents(epsilon: float, delta: float, losses: Losses) -> Equivalents:
    """Return the equivalents of a release with this guarantee."""
    parts = losses or worst(epsilon, delta)
    if not parts:
        return Equivalents(math.inf, math.inf, math.inf, math.inf)
    pure = _total((_bound(loss), count) for loss, count in parts if not _nearly_gaussian(loss))
    gaussian = _total((_square(loss), count) for loss, count in parts if _nearly_gaussian(loss))
    square = _total((_square(loss), count) for loss, count in parts)
    rho = _total((_rho(loss), count) for loss, count in parts)
    if delta == 0:
        square, rho = min(square, mu_of_pure(epsilon) ** 2), min(rho, rho_of_pure(epsilon))
        pure = min(pure, epsilon)
    square *= _ROUND_UP
    return Equivalents(pure, gaussian, square, min(rho, _known(rho_of_mu, math.sqrt(square))))


def worst(epsilon: float, delta: float) -> Losses:
    """Return the loss of the worst (epsilon, delta)-private release; none bounds delta = 1."""
    return ((PairLoss(epsilon, delta), 1),) if delta < 1 else ()


def _total(amounts: Iterable[tuple[float, int]]) -> float:
    return math.fsum(amount * count for amount, count in amounts)


def _nearly_gaussian(loss: Profile) -> bool:
    # The least mu of a yes-no answer is 1.25 times its loss, or more where this is great.
    return math.sqrt(_square(loss)) < _bound(loss) / 2


def _square(loss: Profile) -> float:
    if type(loss) is GaussianLoss:
        # Raised where it would be no float, or one of few digits.
        return max(loss.mu * loss.mu, _TINY)  # a power would raise beyond the floats
    bound = _bound(loss)
    by_bound = _known(mu_of_pure, bound)
    if type(loss) is not RadialLoss or loss.dim == 1 or bound > _GREATEST:
        return by_bound**2
    return _dominating_mu(loss, by_bound) ** 2


@remembered(maxsize=256)
def _dominating_mu(loss: RadialLoss, greatest: float) -> float:
    """Return a mu, at most the greatest, whose profile lies above that of a bounded loss.

    Both profiles fall, so that it is enough to compare the one at the left end of a piece with
    the other at its right end; beyond the bound the loss has delta 0. The pair is symmetric, so
    that epsilon >= 0 is enough.
    """
    ends = np.linspace(0.0, loss.shift, _PIECES + 1)
    left = loss.log_delta(ends[:-1]) + 1e-9

    def dominates(mu: float) -> bool:
        return bool((left <= GaussianLoss(mu).log_delta(ends[1:])).all())

    low, high = 0.0, greatest
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if dominates(middle) else (middle, high)
    return high


def _rho(loss: Profile) -> float:
    by_mu = _known(rho_of_mu, math.sqrt(_square(loss)))
    return min(by_mu, _known(rho_of_pure, _bound(loss)))


def _known(convert: Callable[[float], float], amount: float) -> float:
    return convert(amount) if amount < math.inf else math.inf


def _bound(loss: Profile) -> float:
    """Return a value that the loss never exceeds, inf if none is known."""
    if type(loss) is PairLoss:
        return loss.epsilon if loss.delta == 0 else math.inf
    if type(loss) is RadialLoss:
        return loss.shift
    if type(loss) is FiniteLoss:
        alone = max(loss.log_p_alone, loss.log_q_alone)
        values = loss.losses or (0.0,)
        return math.inf if alone > -math.inf else max(abs(values[0]), abs(values[-1]))
    if type(loss) is ShiftLoss and hasattr(loss.law, "log_ratio"):
        near, far = log_ratio(loss.law, _FAR, loss.shift).tolist()
        return far * _ROUND_UP if near == far < _GREATEST else math.inf
    return math.inf


@dataclass(frozen=True)
class Whole:
    """Several releases together; what some reveal with a probability is counted apart.

    A pair with delta is one that reveals everything with probability delta and else is the
    pair of epsilon alone; revealed by one or more is revealed.
    """

    leak: float
    rest: Composition | None

    def delta_at(self, epsilon: float) -> float:
        """Return the least delta known at epsilon in [0, inf)."""
        rest = self.rest.delta_at(epsilon).upper if self.rest else 0.0
        if self.leak == 0:
            return rest
        whole = (self.leak + (1 - self.leak) * rest) * _ROUND_UP
        return min(1.0, math.nextafter(whole, math.inf))

    def epsilon_at(self, delta: float) -> float:
        """Return the least epsilon known at delta in (0, 1); inf if there is none."""
        left = delta
        if self.leak > 0:
            left = (delta / _ROUND_UP - self.leak) / max(1 - self.leak, _TINY) / _ROUND_UP
        if delta < self.leak:  # which is rounded up: at this delta nothing is left, but no less
            return math.inf
        return self.rest.epsilon_at(max(left, 0.0)).upper if self.rest else 0.0


@remembered(maxsize=64)
def composition(losses: Losses) -> Whole:
    """Return the composition of the losses."""
    leaks = [(-math.log1p(-loss.delta), n) for loss, n in losses if type(loss) is PairLoss]
    leak = -math.expm1(-_total(leaks)) * _ROUND_UP
    rest = merged((_unleaking(loss), n) for loss, n in losses)
    rest = tuple((loss, n) for loss, n in rest if not same(loss, PairLoss(0.0)))
    return Whole(min(leak, 1.0), Composition(rest) if rest else None)


def _unleaking(loss: Profile) -> Profile:
    return PairLoss(loss.epsilon) if type(loss) is PairLoss else loss


def tradeoff(losses: Losses, alpha: FloatArray) -> FloatArray:
    """Return type II errors that no test at level alpha goes below."""
    if all(type(loss) is GaussianLoss for loss, _ in losses):
        mu = math.sqrt(_total((_square(loss), count) for loss, count in losses))
        return _normal_tested(mu, alpha)
    least = np.zeros(alpha.shape)
    for epsilon, delta in _corners(losses):
        least = np.maximum(least, tested(epsilon, delta, alpha))
    return least


def _normal_tested(mu: float, alpha: FloatArray) -> FloatArray:
    """Return Phi(-Phi^-1(alpha) - mu), rounded down."""
    inside = (alpha > 0) & (alpha < 1)
    place = ndtri(np.where(inside, alpha, 0.5))
    # Phi is off by a few roundings times the square of its argument, as its argument is.
    argument = -place - mu
    found = ndtr(argument - _ARGUMENT * (1 + np.abs(place) + mu))
    found *= 1 - _ARGUMENT * (1 + argument**2)
    found = np.nextafter(np.maximum(found, 0.0), 0.0)
    return np.where(inside, found, np.where(alpha > 0, 0.0, 1.0))


@remembered(maxsize=64)
def _corners(losses: Losses) -> tuple[tuple[float, float], ...]:
    """Return points of the profile; any are valid, and these are where it bends."""
    whole = composition(losses)
    farthest = min(whole.epsilon_at(min(whole.leak + 1e-9, 0.5)), _GREATEST)
    grid = np.linspace(0.0, farthest, _CORNERS)
    return tuple((float(e), whole.delta_at(float(e))) for e in grid)
