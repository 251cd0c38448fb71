"""The rules by which a ledger composes spends: what was spent, what fits, what is left.

docs/proofs/adaptive_spending.md proves that each rule keeps the guarantee of the ceiling.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter

from skdp.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    mixed_delta,
    mixed_epsilon,
    pure_of_mu,
)
from skdp.privacy.decimals import add, as_decimal, float_above, float_below, subtract
from skdp.privacy.guarantee.profile import composition, joint
from skdp.privacy.ledger._entries import Budget, Entry

# Shares of delta of the rules of a divided ledger, and of the infinity mass beside all rules but
# the first. They add up to 1. With a quarter, spends of usual deltas fit basic composition.
_BASIC_SHARE = 0.25
_INFINITY_SHARE = 0.05
_GAUSSIAN_SHARE = 0.694
_ASIDE = (0.25, 0.5, 0.75)
_ASIDE_SHARE = 0.002
# More than the relative error of sums of positive floats.
_ROUND_UP = 1 + 1e-15


@dataclass(frozen=True)
class Rule(ABC):
    """A rule that composes spends and compares them with a ceiling."""

    ceiling: Budget

    @abstractmethod
    def fits(self, spends: Sequence[Entry]) -> bool:
        """Return whether all spends together keep the guarantee of the ceiling."""

    @abstractmethod
    def spent(self, spends: Sequence[Entry]) -> Budget:
        """Return an amount that covers all spends."""

    @abstractmethod
    def remaining(self, spends: Sequence[Entry]) -> Budget:
        """Return an amount that fits beside the spends."""

    def why_not(self, spend: Entry, spends: Sequence[Entry]) -> str:
        """Return a further explanation for a spend that does not fit."""
        return ""


class Basic(Rule):
    """Basic composition: epsilons add, deltas add. An infinite ceiling takes everything."""

    def fits(self, spends: Sequence[Entry]) -> bool:
        """Return whether the sums are within the ceiling."""
        epsilon, delta = _totals(spends)
        endless = math.isinf(self.ceiling.epsilon)
        return endless or (
            epsilon <= as_decimal(self.ceiling.epsilon) and delta <= as_decimal(self.ceiling.delta)
        )

    def spent(self, spends: Sequence[Entry]) -> Budget:
        """Return the sums, rounded up."""
        epsilon, delta = _totals(spends)
        return Budget(float_above(epsilon), float_above(delta))

    def remaining(self, spends: Sequence[Entry]) -> Budget:
        """Return the ceiling less the sums, rounded down."""
        if math.isinf(self.ceiling.epsilon):
            return Budget(math.inf, 1.0)
        epsilon, delta = _totals(spends)
        return Budget(_left(self.ceiling.epsilon, epsilon), _left(self.ceiling.delta, delta))


class GaussianDP(Rule):
    """Basic composition up to the first spend of Gaussian noise; the rest is `Divided`.

    A first spend counts in basic composition, and divides nothing, if it would fit a divided rest
    by basic composition only, or not at all.
    """

    def fits(self, spends: Sequence[Entry]) -> bool:
        """Return whether the spends fit, those from the first Gaussian one on `Divided`."""
        place = self._division(spends)
        if place is None:
            return self._basic.fits(spends)
        return self._rest(spends[:place]).fits(spends[place:])

    def spent(self, spends: Sequence[Entry]) -> Budget:
        """Return the sums, or the ceiling's delta with a lesser epsilon."""
        sums, place = self._basic.spent(spends), self._division(spends)
        if place is None:
            return sums
        before = self._basic.spent(spends[:place]).epsilon
        least = self._rest(spends[:place]).epsilon(spends[place:])
        epsilon = min(float_above(add([before, least])), self.ceiling.epsilon)
        summed = sums.epsilon <= epsilon and self._basic.fits(spends)
        return sums if summed else Budget(epsilon, self.ceiling.delta)

    def remaining(self, spends: Sequence[Entry]) -> Budget:
        """Return the amount with the greatest epsilon that is known to fit."""
        place = self._division(spends)
        if place is None:
            return self._basic.remaining(spends)
        rest = self._rest(spends[:place])
        rooms = rest.rooms(spends[place:])
        return max((_that_fits(self, spends, room) for room in rooms), key=attrgetter("epsilon"))

    def why_not(self, spend: Entry, spends: Sequence[Entry]) -> str:
        """Return the mu of the spend, and its infinity mass, if the ledger is divided."""
        place = self._division(spends)
        if place is None:
            return ""
        left = self._rest(spends[:place]).infinity_mass_left(spends[place:])
        mu, infinity_mass = math.sqrt(spend.counted.square), spend.counted.infinity_mass
        apart = (
            f" and an infinity mass of {infinity_mass:.3g}; infinity masses may add up to a "
            f"twentieth of the delta that was left at that time, and {left:.3g} of this is left"
        )
        return (
            " Since its first release of Gaussian noise this ledger adds deltas only up to a "
            "quarter of the delta that was left, and otherwise uses Gaussian-DP composition, where "
            f"this release has mu={mu:.3g}{apart if infinity_mass else ''}. A ledger made with "
            "composition='sums' uses basic composition only."
        )

    @property
    def _basic(self) -> Basic:
        return Basic(self.ceiling)

    def _rest(self, before: Sequence[Entry]) -> Divided:
        return Divided(self._basic.remaining(before))

    def _division(self, spends: Sequence[Entry]) -> int | None:
        """Return which spend divides the ledger. It depends on no later spend and no output."""
        if self.ceiling.delta == 0 or math.isinf(self.ceiling.epsilon):
            return None
        for place, spend in enumerate(spends):
            if spend.delta > 0 and spend.counted.gaussian > 0 and not spend.counted.infinity_mass:
                before = spends[:place]
                if self._basic.fits(before) and self._rest(before).fits_without_basic([spend]):
                    return place
        return None


@dataclass(frozen=True)
class Divided:
    """Several rules, each with a share of delta. All spends must fit one of them.

    The first is basic composition. The second is Gaussian-DP composition of all spends. Each of
    the others reserves a part of epsilon for losses that are not Gaussian, and composes only
    Gaussian noise in Gaussian DP. Except in the first rule, infinity masses add up in a share of
    their own.
    """

    ceiling: Budget

    def fits(self, spends: Sequence[Entry]) -> bool:
        """Return whether the spends fit one of the rules."""
        return self._basic.fits(spends) or self.fits_without_basic(spends)

    def fits_without_basic(self, spends: Sequence[Entry]) -> bool:
        """Return whether the spends fit one of the rules other than the first."""
        pure, gaussian, square = _sums_of(spends)
        e, d = self.ceiling.epsilon, self.ceiling.delta
        if self.infinity_mass_left(spends) < 0:
            return False
        if square < math.inf and gaussian_delta(math.sqrt(square), e) <= _GAUSSIAN_SHARE * d:
            return True
        mu = math.sqrt(gaussian)
        return any(
            pure <= aside and mixed_delta(mu, aside, e) <= _ASIDE_SHARE * d
            for aside in self._asides()
        )

    def epsilon(self, spends: Sequence[Entry]) -> float:
        """Return the least epsilon at the ceiling's delta by one of the rules."""
        pure, gaussian, square = _sums_of(spends)
        d = self.ceiling.delta
        known = [self.ceiling.epsilon]
        if self._basic.fits(spends):
            known.append(self._basic.spent(spends).epsilon)
        if self.infinity_mass_left(spends) < 0:
            return min(known)
        if square < math.inf:
            known.append(gaussian_epsilon(math.sqrt(square), _GAUSSIAN_SHARE * d))
        if pure <= max(self._asides()):
            known.append(mixed_epsilon(math.sqrt(gaussian), pure, _ASIDE_SHARE * d))
        return min(known)

    def rooms(self, spends: Sequence[Entry]) -> list[Budget]:
        """Return amounts that about fit: by the first rule, and by the others."""
        summed = [self._basic.remaining(spends)] if self._basic.fits(spends) else []
        return [*summed, self._room_without_basic(spends)]

    def _room_without_basic(self, spends: Sequence[Entry]) -> Budget:
        pure, gaussian, square = _sums_of(spends)
        e, d = self.ceiling.epsilon, self.ceiling.delta
        left = gaussian_mu(e, _GAUSSIAN_SHARE * d) ** 2 - square
        known = [0.0, pure_of_mu(math.sqrt(left)) if left > 0 else 0.0]
        mu = math.sqrt(gaussian)
        for aside in self._asides():
            if mixed_delta(mu, aside, e) <= _ASIDE_SHARE * d:
                known.append(aside - pure)
        infinity_mass = float_below(max(self.infinity_mass_left(spends), Decimal(0)))
        return Budget(max(known), infinity_mass)

    @property
    def _basic(self) -> Basic:
        share = float_below(as_decimal(self.ceiling.delta) * as_decimal(_BASIC_SHARE))
        return Basic(Budget(self.ceiling.epsilon, share))

    def infinity_mass_left(self, spends: Sequence[Entry]) -> Decimal:
        """Return the infinity mass left for all rules but the first; negative if exceeded."""
        share = float_below(as_decimal(self.ceiling.delta) * as_decimal(_INFINITY_SHARE))
        return subtract(
            share,
            add(spend.counted.infinity_mass for spend in spends if spend.counted.infinity_mass),
        )

    def _asides(self) -> Iterator[float]:
        return (share * self.ceiling.epsilon for share in _ASIDE)


class Exact(Rule):
    """Basic or exact composition, for spends whose guarantees were fixed in advance."""

    def fits(self, spends: Sequence[Entry]) -> bool:
        """Return whether the sums, or the exact composition, are within the ceiling."""
        if Basic(self.ceiling).fits(spends) or self._fits_on_top(spends):
            return True
        losses = joint(spends)
        if losses is None or self.ceiling.delta == 0:
            return False
        return composition(losses).delta_at(self.ceiling.epsilon) <= self.ceiling.delta

    def spent(self, spends: Sequence[Entry]) -> Budget:
        """Return the sums, or the ceiling's delta with a lesser epsilon."""
        sums, losses = Basic(self.ceiling).spent(spends), joint(spends)
        if not losses or not 0 < self.ceiling.delta < 1 or math.isinf(self.ceiling.epsilon):
            return sums
        epsilon = composition(losses).epsilon_at(self.ceiling.delta)
        summed = sums.epsilon <= epsilon and sums.delta <= self.ceiling.delta
        return sums if summed else Budget(min(epsilon, self.ceiling.epsilon), self.ceiling.delta)

    def remaining(self, spends: Sequence[Entry]) -> Budget:
        """Return the ceiling less the amount spent, rounded down."""
        spent = self.spent(spends)
        if spent == Basic(self.ceiling).spent(spends):
            return Basic(self.ceiling).remaining(spends)
        return Budget(_left(self.ceiling.epsilon, as_decimal(spent.epsilon)), 0.0)

    def _fits_on_top(self, spends: Sequence[Entry]) -> bool:
        """Return whether the last spend has delta = 0 and its epsilon fits on top of the others."""
        *before, last = spends
        if last.delta > 0 or not before:
            return False
        total = add([self.spent(before).epsilon, last.epsilon])
        return total <= as_decimal(self.ceiling.epsilon)


RULES: dict[str, Callable[[Budget], Rule]] = {
    "adaptive": GaussianDP,
    "fixed": Exact,
    "sums": Basic,
}


def _that_fits(rule: Rule, spends: Sequence[Entry], room: Budget) -> Budget:
    """Return the room, with its epsilon lowered until a spend of it fits."""
    for exponent in range(-15, 0):
        tried = room.epsilon * (1 - 10.0**exponent)
        if rule.fits([*spends, Entry(tried, room.delta, "", "", "", True)]):
            return Budget(tried, room.delta)
    return Budget(0.0, 0.0)


def _sums_of(spends: Sequence[Entry]) -> tuple[float, float, float]:
    """Return the sums of ``pure``, ``gaussian`` and ``square``, rounded up."""
    rows = [spend.counted for spend in spends]
    return (
        math.fsum(row.pure for row in rows) * _ROUND_UP,
        math.fsum(row.gaussian for row in rows) * _ROUND_UP,
        math.fsum(row.square for row in rows) * _ROUND_UP,
    )


def _totals(spends: Sequence[Entry]) -> tuple[Decimal, Decimal]:
    return add(spend.epsilon for spend in spends), add(spend.delta for spend in spends)


def _left(ceiling: float, spent: Decimal) -> float:
    # If losses of a file can no longer be read, its spends may exceed its ceiling.
    return float_below(max(subtract(ceiling, spent), Decimal(0)))
