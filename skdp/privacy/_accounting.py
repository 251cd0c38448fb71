"""The rules by which a ledger counts: what was spent, what fits, what is left.

Why each rule keeps the ceiling's promise, and which would not, is proved in
docs/proofs/adaptive_spending.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Protocol

from skdp.privacy._decimal import add, as_decimal, float_above, float_below, subtract
from skdp.privacy._profile import Equivalents, Losses, composition, equivalents, merged, worst
from skdp.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    mixed_delta,
    mixed_epsilon,
    pure_of_mu,
)

# Shares of delta of the rules between which a ledger is divided. They add up to 1.
_GAUSSIAN_SHARE = 31 / 32
_ASIDE = (0.25, 0.5, 0.75)
_ASIDE_SHARE = 1 / 32 / len(_ASIDE)
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

    @property
    def equivalents(self) -> Equivalents:
        """What it is in Gaussian DP and in epsilon alone."""
        return equivalents(self.epsilon, self.delta, self.losses)


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

    A first spend that is itself too large for a divided rest is a sum like those before.
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
        return _that_fits(self, spends, rest.room(spends[place:]))

    def why_not(self, spend: Entry, spends: Sequence[Entry]) -> str:
        if self._division(spends) is None:
            return ""
        mu = math.sqrt(spend.equivalents.square)
        known = f"has mu={mu:.3g}" if mu < math.inf else "has a delta and no known mu"
        return (
            " Since its first release of Gaussian noise this ledger counts in Gaussian DP, where "
            f"this release {known}. A ledger made with composition='sums' adds epsilons and "
            "deltas of all kinds."
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
            if spend.delta > 0 and spend.equivalents.gaussian > 0:
                before = spends[:place]
                if self._sums.fits(before) and self._rest(before).fits([spend]):
                    return place
        return None


@dataclass(frozen=True)
class Divided:
    """Several rules, each with its share of delta; all spends must fit one and the same.

    The first counts everything in Gaussian DP. Each of the others sets a part of epsilon aside
    for what is not Gaussian, and counts only Gaussian noise in Gaussian DP.
    """

    ceiling: Budget

    def fits(self, spends: Sequence[Entry]) -> bool:
        pure, gaussian, square = _sums_of(spends)
        e, d = self.ceiling.epsilon, self.ceiling.delta
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
        if square < math.inf:
            known.append(gaussian_epsilon(math.sqrt(square), _GAUSSIAN_SHARE * d))
        if pure <= max(self._asides()):
            known.append(mixed_epsilon(math.sqrt(gaussian), pure, _ASIDE_SHARE * d))
        return min(known)

    def room(self, spends: Sequence[Entry]) -> float:
        """Return about the greatest further epsilon, with delta 0, that fits."""
        pure, gaussian, square = _sums_of(spends)
        e, d = self.ceiling.epsilon, self.ceiling.delta
        left = gaussian_mu(e, _GAUSSIAN_SHARE * d) ** 2 - square
        known = [0.0, pure_of_mu(math.sqrt(left)) if left > 0 else 0.0]
        mu = math.sqrt(gaussian)
        for aside in self._asides():
            if mixed_delta(mu, aside, e) <= _ASIDE_SHARE * d:
                known.append(aside - pure)
        return max(known)

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


def _that_fits(rule: Rule, spends: Sequence[Entry], epsilon: float) -> Budget:
    """Return about epsilon with delta 0, lowered until a spend of it fits."""
    for exponent in range(-15, 0):
        tried = epsilon * (1 - 10.0**exponent)
        if rule.fits([*spends, Entry(tried, 0.0, "", "", "", True)]):
            return Budget(tried, 0.0)
    return Budget(0.0, 0.0)


def _joint(spends: Sequence[Entry]) -> Losses | None:
    """Return the losses of all spends, None where one promises nothing."""
    parts = [spend.losses or worst(spend.epsilon, spend.delta) for spend in spends]
    return merged(chain.from_iterable(parts)) if all(parts) else None


def _sums_of(spends: Sequence[Entry]) -> tuple[float, float, float]:
    """Return the sums of the epsilons that are not Gaussian, and of mu^2 of these and of all."""
    rows = [spend.equivalents for spend in spends]
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
