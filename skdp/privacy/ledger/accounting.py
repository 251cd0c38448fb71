"""The rules by which a ledger counts: what was spent, what fits, what is left.

Why each rule keeps the ceiling's promise, and which would not, is proved in
docs/proofs/adaptive_spending.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, Protocol

from skdp._identity import remembered
from skdp.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    mixed_delta,
    mixed_epsilon,
    mu_of_pure,
    pure_of_mu,
)
from skdp.privacy.decimals import add, as_decimal, float_above, float_below, subtract
from skdp.privacy.guarantee.profile import Losses, composition, equivalents, merged, worst
from skdp.privacy.losses.losses import PairLoss, Profile

# Shares of delta of the rules between which a ledger is divided, and of the leaks beside all but
# the first. They add up to 1. A quarter, so that spends of usual deltas still fit as sums.
_SUMS_SHARE = 0.25
_LEAK_SHARE = 0.05
_GAUSSIAN_SHARE = 0.694
_ASIDE = (0.25, 0.5, 0.75)
_ASIDE_SHARE = 0.002
# Of the delta of a spend whose curve is known a tenth leaks.
_OWN_SHARE = 0.1
# A spend whose losses are known may take this much more mu^2 than its epsilon, if it leaks less.
_DEARER = 2.0
# Sums of positive floats are off by less.
_ROUND_UP = 1 + 1e-15


@dataclass(frozen=True)
class Budget:
    """An amount of privacy loss: ``epsilon`` in [0, inf] and ``delta`` in [0, inf)."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon={self.epsilon!r}, delta={self.delta!r}"


@dataclass(frozen=True)
class Entry:
    """One spend: what its guarantee said, the spender's note, and whether it held."""

    epsilon: float
    delta: float
    neighbors: str
    mechanism: str
    note: str
    holds: bool
    losses: Losses = ()

    @cached_property
    def counted(self) -> Counted:
        """What it is beside Gaussian noise. It depends on nothing but the spend."""
        return _counted(self.epsilon, self.delta, self.losses)


class Counted(NamedTuple):
    """A spend that reveals everything with probability ``leak``, and otherwise is the rest."""

    pure: float
    """Sum of the greatest values of the rest's losses that are not counted as Gaussian."""
    gaussian: float
    """Sum of mu^2 over those that are."""
    square: float
    """Sum of mu^2 over all losses of the rest."""
    leak: float


class Rule(Protocol):
    """How spends are counted against a ceiling."""

    def fits(self, spends: Sequence[Entry]) -> bool:
        """Return whether all these together keep the ceiling's promise."""

    def spent(self, spends: Sequence[Entry]) -> Budget:
        """Return an amount that covers all these."""

    def remaining(self, spends: Sequence[Entry]) -> Budget:
        """Return an amount that fits beside these."""

    def why_not(self, spend: Entry, spends: Sequence[Entry]) -> str:
        """Return what to say of a spend that does not fit, beyond the amounts."""


@dataclass(frozen=True)
class Sums:
    """Epsilons add, deltas add; an infinite ceiling takes everything."""

    ceiling: Budget

    def fits(self, spends: Sequence[Entry]) -> bool:
        epsilon, delta = _totals(spends)
        endless = math.isinf(self.ceiling.epsilon)
        return endless or (
            epsilon <= as_decimal(self.ceiling.epsilon) and delta <= as_decimal(self.ceiling.delta)
        )

    def spent(self, spends: Sequence[Entry]) -> Budget:
        epsilon, delta = _totals(spends)
        return Budget(float_above(epsilon), float_above(delta))

    def remaining(self, spends: Sequence[Entry]) -> Budget:
        if math.isinf(self.ceiling.epsilon):
            return Budget(math.inf, 1.0)
        epsilon, delta = _totals(spends)
        return Budget(_left(self.ceiling.epsilon, epsilon), _left(self.ceiling.delta, delta))

    def why_not(self, spend: Entry, spends: Sequence[Entry]) -> str:
        return ""


@dataclass(frozen=True)
class Adaptive:
    """Sums up to the first spend of Gaussian noise; what is left then is `Divided`.

    A first spend that would fit a divided rest as a sum alone is a sum like those before, and so
    is one that would not fit it.
    """

    ceiling: Budget

    def fits(self, spends: Sequence[Entry]) -> bool:
        place = self._division(spends)
        if place is None:
            return self._sums.fits(spends)
        return self._rest(spends[:place]).fits(spends[place:])

    def spent(self, spends: Sequence[Entry]) -> Budget:
        sums, place = self._sums.spent(spends), self._division(spends)
        if place is None:
            return sums
        before = self._sums.spent(spends[:place]).epsilon
        least = self._rest(spends[:place]).epsilon(spends[place:])
        epsilon = min(float_above(add([before, least])), self.ceiling.epsilon)
        summed = sums.epsilon <= epsilon and self._sums.fits(spends)
        return sums if summed else Budget(epsilon, self.ceiling.delta)

    def remaining(self, spends: Sequence[Entry]) -> Budget:
        place = self._division(spends)
        if place is None:
            return self._sums.remaining(spends)
        rest = self._rest(spends[:place])
        rooms = rest.rooms(spends[place:])
        return max((_that_fits(self, spends, room) for room in rooms), key=attrgetter("epsilon"))

    def why_not(self, spend: Entry, spends: Sequence[Entry]) -> str:
        place = self._division(spends)
        if place is None:
            return ""
        left = self._rest(spends[:place]).leak_left(spends[place:])
        mu, leak = math.sqrt(spend.counted.square), spend.counted.leak
        apart = (
            f", apart from a probability of {leak:.3g} that it says nothing; such probabilities "
            "may add up to a twentieth of the delta that was left at that time, and "
            f"{left:.3g} of this is left"
        )
        return (
            " Since its first release of Gaussian noise this ledger adds deltas only up to a "
            "quarter of what was left, and otherwise counts in Gaussian DP, where this release has "
            f"mu={mu:.3g}{apart if leak else ''}. A ledger made with composition='sums' adds "
            "epsilons and deltas of all kinds."
        )

    @property
    def _sums(self) -> Sums:
        return Sums(self.ceiling)

    def _rest(self, before: Sequence[Entry]) -> Divided:
        return Divided(self._sums.remaining(before))

    def _division(self, spends: Sequence[Entry]) -> int | None:
        """Return which spend divides; it depends on no later spend, nor on its own output."""
        if self.ceiling.delta == 0 or math.isinf(self.ceiling.epsilon):
            return None
        for place, spend in enumerate(spends):
            if spend.delta > 0 and spend.counted.gaussian > 0 and not spend.counted.leak:
                before = spends[:place]
                if self._sums.fits(before) and self._rest(before).fits_beside_sums([spend]):
                    return place
        return None


@dataclass(frozen=True)
class Divided:
    """Several rules, each with its share of delta; all spends must fit one and the same.

    The first adds epsilons and deltas. The second counts everything in Gaussian DP. Each of the
    others sets a part of epsilon aside for what is not Gaussian, and counts only Gaussian noise
    in Gaussian DP. But for the first rule leaks add up in a share of their own.
    """

    ceiling: Budget

    def fits(self, spends: Sequence[Entry]) -> bool:
        return self._sums.fits(spends) or self.fits_beside_sums(spends)

    def fits_beside_sums(self, spends: Sequence[Entry]) -> bool:
        """Return whether one of the rules but the first takes these."""
        pure, gaussian, square = _sums_of(spends)
        e, d = self.ceiling.epsilon, self.ceiling.delta
        if self.leak_left(spends) < 0:
            return False
        if square < math.inf and gaussian_delta(math.sqrt(square), e) <= _GAUSSIAN_SHARE * d:
            return True
        mu = math.sqrt(gaussian)
        return any(
            pure <= aside and mixed_delta(mu, aside, e) <= _ASIDE_SHARE * d
            for aside in self._asides()
        )

    def epsilon(self, spends: Sequence[Entry]) -> float:
        """Return the least epsilon at the ceiling's delta that one of the rules knows."""
        pure, gaussian, square = _sums_of(spends)
        d = self.ceiling.delta
        known = [self.ceiling.epsilon]
        if self._sums.fits(spends):
            known.append(self._sums.spent(spends).epsilon)
        if self.leak_left(spends) < 0:
            return min(known)
        if square < math.inf:
            known.append(gaussian_epsilon(math.sqrt(square), _GAUSSIAN_SHARE * d))
        if pure <= max(self._asides()):
            known.append(mixed_epsilon(math.sqrt(gaussian), pure, _ASIDE_SHARE * d))
        return min(known)

    def rooms(self, spends: Sequence[Entry]) -> list[Budget]:
        """Return about what more fits: as a sum, and by the greatest epsilon of the others."""
        summed = [self._sums.remaining(spends)] if self._sums.fits(spends) else []
        return [*summed, self._room_beside_sums(spends)]

    def _room_beside_sums(self, spends: Sequence[Entry]) -> Budget:
        pure, gaussian, square = _sums_of(spends)
        e, d = self.ceiling.epsilon, self.ceiling.delta
        left = gaussian_mu(e, _GAUSSIAN_SHARE * d) ** 2 - square
        known = [0.0, pure_of_mu(math.sqrt(left)) if left > 0 else 0.0]
        mu = math.sqrt(gaussian)
        for aside in self._asides():
            if mixed_delta(mu, aside, e) <= _ASIDE_SHARE * d:
                known.append(aside - pure)
        leak = float_below(max(self.leak_left(spends), Decimal(0)))
        return Budget(max(known), leak)

    @property
    def _sums(self) -> Sums:
        share = float_below(as_decimal(self.ceiling.delta) * as_decimal(_SUMS_SHARE))
        return Sums(Budget(self.ceiling.epsilon, share))

    def leak_left(self, spends: Sequence[Entry]) -> Decimal:
        """Return how much more may leak beside all rules but the first; below 0 if too much did."""
        share = float_below(as_decimal(self.ceiling.delta) * as_decimal(_LEAK_SHARE))
        return subtract(share, add(spend.counted.leak for spend in spends if spend.counted.leak))

    def _asides(self) -> Iterator[float]:
        return (share * self.ceiling.epsilon for share in _ASIDE)


@dataclass(frozen=True)
class Fixed:
    """Sums, or the composition of all losses; for spends whose sizes were planned before."""

    ceiling: Budget

    def fits(self, spends: Sequence[Entry]) -> bool:
        if Sums(self.ceiling).fits(spends) or self._fits_on_top(spends):
            return True
        losses = _joint(spends)
        if losses is None or self.ceiling.delta == 0:
            return False
        return composition(losses).delta_at(self.ceiling.epsilon) <= self.ceiling.delta

    def spent(self, spends: Sequence[Entry]) -> Budget:
        sums, losses = Sums(self.ceiling).spent(spends), _joint(spends)
        if not losses or not 0 < self.ceiling.delta < 1 or math.isinf(self.ceiling.epsilon):
            return sums
        epsilon = composition(losses).epsilon_at(self.ceiling.delta)
        summed = sums.epsilon <= epsilon and sums.delta <= self.ceiling.delta
        return sums if summed else Budget(min(epsilon, self.ceiling.epsilon), self.ceiling.delta)

    def remaining(self, spends: Sequence[Entry]) -> Budget:
        spent = self.spent(spends)
        if spent == Sums(self.ceiling).spent(spends):
            return Sums(self.ceiling).remaining(spends)
        return Budget(_left(self.ceiling.epsilon, as_decimal(spent.epsilon)), 0.0)

    def why_not(self, spend: Entry, spends: Sequence[Entry]) -> str:
        return ""

    def _fits_on_top(self, spends: Sequence[Entry]) -> bool:
        """Return whether the last is an epsilon alone, and fits when added to what was spent."""
        *before, last = spends
        if last.delta > 0 or not before:
            return False
        total = add([self.spent(before).epsilon, last.epsilon])
        return total <= as_decimal(self.ceiling.epsilon)


RULES: dict[str, Callable[[Budget], Rule]] = {
    "adaptive": Adaptive,
    "fixed": Fixed,
    "sums": Sums,
}


def _that_fits(rule: Rule, spends: Sequence[Entry], room: Budget) -> Budget:
    """Return the room, its epsilon lowered until a spend of it fits."""
    for exponent in range(-15, 0):
        tried = room.epsilon * (1 - 10.0**exponent)
        if rule.fits([*spends, Entry(tried, room.delta, "", "", "", True)]):
            return Budget(tried, room.delta)
    return Budget(0.0, 0.0)


@remembered(maxsize=1024)
def _counted(epsilon: float, delta: float, losses: Losses) -> Counted:
    """Return one way to split off a leak; the same one for all rules."""
    equal = equivalents(epsilon, delta, losses)
    if equal.square < math.inf:
        return Counted(equal.pure, equal.gaussian, equal.square, 0.0)
    stated = Counted(epsilon, 0.0, _square(epsilon), delta)
    for share in (_OWN_SHARE, 1.0) if losses else ():
        found = _by_pieces(delta, losses, share)
        if found.square <= _DEARER * stated.square:
            return found
    return stated


def _by_pieces(delta: float, losses: Losses, share: float) -> Counted:
    """Return the sums over the pieces; those of no known mu leak ``share`` of what is left."""
    leak = sum((n * as_decimal(_leak(loss)) for loss, n in losses), Decimal(0))
    pieces = [(PairLoss(loss.epsilon) if type(loss) is PairLoss else loss, n) for loss, n in losses]
    # At delta = 1 nothing is said but by the losses.
    rows = [(piece, equivalents(0.0, 1.0, (piece,))) for piece in pieces]
    known = [row for _, row in rows if row.square < math.inf]
    unknown = merged(piece for piece, row in rows if row.square == math.inf)
    epsilon = 0.0
    if unknown:
        allowed = float_below(max(subtract(delta, leak), Decimal(0)) * as_decimal(share))
        epsilon = composition(unknown).epsilon_at(allowed) if 0 < allowed < 1 else math.inf
        leak += as_decimal(allowed)
    return Counted(
        math.fsum(row.pure for row in known) + epsilon,
        math.fsum(row.gaussian for row in known),
        math.fsum(row.square for row in known) + _square(epsilon),
        float_above(leak),
    )


def _square(epsilon: float) -> float:
    return mu_of_pure(epsilon) ** 2 if epsilon < math.inf else math.inf


def _leak(loss: Profile) -> float:
    return loss.delta if type(loss) is PairLoss else 0.0


def _joint(spends: Sequence[Entry]) -> Losses | None:
    """Return the losses of all spends, None where one promises nothing."""
    parts = [spend.losses or worst(spend.epsilon, spend.delta) for spend in spends]
    return merged(chain.from_iterable(parts)) if all(parts) else None


def _sums_of(spends: Sequence[Entry]) -> tuple[float, float, float]:
    """Return the sums of the epsilons that are not Gaussian, and of mu^2 of these and of all."""
    rows = [spend.counted for spend in spends]
    return (
        math.fsum(row.pure for row in rows) * _ROUND_UP,
        math.fsum(row.gaussian for row in rows) * _ROUND_UP,
        math.fsum(row.square for row in rows) * _ROUND_UP,
    )


def _totals(spends: Sequence[Entry]) -> tuple[Decimal, Decimal]:
    return add(spend.epsilon for spend in spends), add(spend.delta for spend in spends)


def _left(ceiling: float, spent: Decimal) -> float:
    # A file whose losses cannot be read any more may count for more than its ceiling.
    return float_below(max(subtract(ceiling, spent), Decimal(0)))
