"""Trusted. The rules by which a ledger composes spends: what was spent, what fits, what is left.

Each rule keeps running totals, so that a further spend costs the same after any number of spends.
Besides epsilon and delta, a spend has amounts for which it counts in Gaussian DP.

docs/proofs/adaptive_spending.md proves that each rule keeps the guarantee of the ceiling.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, Self, TypeAlias

from skdp.privacy.composition import Running
from skdp.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    mixed_delta,
    mixed_epsilon,
    mu_of_pure,
    pure_of_mu,
)
from skdp.privacy.profile import composed_epsilon, equivalents, joint, squared, total
from skdp.trusted.arrays import add, as_decimal, float_above, float_below, subtract
from skdp.trusted.checks import remembered
from skdp.trusted.composition import finite_part, finite_parts, infinity_mass, with_infinity
from skdp.trusted.losses import Losses, PairLoss, counted

# Shares of delta of the rules of a divided ledger, and of the infinity mass beside all rules but
# the first. They add up to 1. With a quarter, spends of usual deltas fit basic composition.
_BASIC_SHARE = 0.25
_INFINITY_SHARE = 0.05
_GAUSSIAN_SHARE = 0.694
_ASIDE = (0.25, 0.5, 0.75)
_ASIDE_SHARE = 0.002
# A spend with a known profile has a tenth of its delta as infinity mass.
_OWN_SHARE = 0.1
# More than the relative error of a sum that is rounded to a float.
_ROUND_UP = 1 + 1e-15
# A spend with known losses may use this much more mu^2 than its epsilon, for less infinity mass.
_DEARER = 2.0


@dataclass(frozen=True)
class Budget:
    """An amount of privacy loss: ``epsilon`` in [0, inf] and ``delta`` in [0, inf)."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"epsilon={self.epsilon!r}, delta={self.delta!r}"


class Counted(NamedTuple):
    """A spend as a release with an infinity mass, and otherwise bounded or Gaussian losses."""

    pure: float  # sum of the greatest values of the losses that do not count as Gaussian
    gaussian: float  # sum of mu^2 over the losses that do
    square: float  # sum of mu^2 over all losses
    infinity_mass: float  # probability with which the release may reveal everything


class RecordGroup(NamedTuple):
    """A group of records: those with one level of a public column."""

    column: str
    levels: str  # all that have a group, as a list in their order
    unit: str  # of what each has one group: "row" or "person"
    level: str


@dataclass(frozen=True)
class Entry:
    """One spend: its guarantee, the spender's note, and whether the guarantee holds."""

    epsilon: float
    delta: float
    neighbors: str
    mechanism: str
    note: str
    holds: bool
    losses: Losses = ()
    unit: str = "row"
    group: RecordGroup | None = None  # whose records the release reads; None if it reads all
    author: str = ""
    date: str = ""  # the day, in UTC; a time would tell how long the table was read
    table: str = ""
    part: str = ""  # of the ledger, "2026" or "2026/march"; "" for none

    def counts_in(self, part: str) -> bool:
        """Return whether the spend is charged to a part, or to a part of it; "" is the ledger."""
        return not part or f"{self.part}/".startswith(f"{part}/")

    @cached_property
    def counted(self) -> Counted:
        """The amounts that count in Gaussian DP. They depend on this spend only."""
        return _counted(self.epsilon, self.delta, self.losses)


@remembered(maxsize=1024)
def _counted(epsilon: float, delta: float, losses: Losses) -> Counted:
    """Return the spend with its infinity mass split off, in the same way for all rules."""
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
    """Return the sums over the losses, infinity masses split off.

    Losses without a known mu get ``share`` of the remaining delta as infinity mass.
    """
    masses = (n * as_decimal(loss.delta) for loss, n in losses if type(loss) is PairLoss)
    mass = sum(masses, Decimal(0))
    pieces = [(finite_part(loss), n) for loss, n in losses]
    # At delta = 1 only the losses give bounds.
    rows = [(piece, equivalents(0.0, 1.0, (piece,))) for piece in pieces]
    bounded = [row for _, row in rows if row.square < math.inf]
    others = counted(piece for piece, row in rows if row.square == math.inf)
    epsilon = 0.0
    if others:
        allowed = float_below(max(subtract(delta, mass), Decimal(0)) * as_decimal(share))
        epsilon = composed_epsilon(others, allowed) if 0 < allowed < 1 else math.inf
        mass += as_decimal(allowed)
    return Counted(
        total(row.pure for row in bounded) + epsilon,
        total(row.gaussian for row in bounded),
        total(row.square for row in bounded) + _square(epsilon),
        float_above(mass),
    )


def _square(epsilon: float) -> float:
    return squared(mu_of_pure(epsilon)) if epsilon < math.inf else math.inf


@dataclass(frozen=True)
class CountedSums:
    """Running sums of `Counted` amounts, which are exact: their order does not matter."""

    pure: Fraction | float = Fraction(0)
    gaussian: Fraction | float = Fraction(0)
    square: Fraction | float = Fraction(0)
    infinity_mass: Decimal = Decimal(0)

    def after(self, rows: Iterable[Counted]) -> CountedSums:
        sums: list[Fraction | float] = [self.pure, self.gaussian, self.square]
        mass = self.infinity_mass
        for *amounts, infinite in rows:
            exact = (Fraction(x) if x < math.inf else x for x in amounts)
            sums = [x + more for x, more in zip(sums, exact, strict=True)]
            mass = add([infinite], mass) if infinite else mass
        pure, gaussian, square = sums
        return CountedSums(pure, gaussian, square, mass)

    def above(self) -> tuple[float, float, float]:
        """Return the sums of ``pure``, ``gaussian`` and ``square``, rounded up."""
        return _above(self.pure), _above(self.gaussian), _above(self.square)


def _above(x: Fraction | float) -> float:
    try:
        return float(x) * _ROUND_UP
    except OverflowError:  # a fraction beyond all floats
        return math.inf


class Account(ABC):
    """The running totals of spends, compared with a ceiling by one rule. It never changes."""

    ceiling: Budget

    @abstractmethod
    def after(self, *spends: Entry) -> Self:
        """Return the account with further spends, in order, whether they fit or not."""

    @abstractmethod
    def fits(self) -> bool:
        """Return whether all spends together keep the guarantee of the ceiling."""

    def takes(self, spend: Entry) -> bool:
        """Return whether a further spend fits."""
        return self.after(spend).fits()

    def repeats(self, spend: Entry, most: int) -> int:
        """Return how often a further spend fits, up to ``most`` times."""
        counts = range(1, most + 1)
        return bisect_left(counts, True, key=lambda n: not self.after(*[spend] * n).fits())

    @abstractmethod
    def spent(self) -> Budget:
        """Return an amount that covers all spends."""

    @abstractmethod
    def remaining(self) -> Budget:
        """Return an amount that fits beside the spends."""

    def why_not(self, spend: Entry) -> str:
        """Return a further explanation for a spend that does not fit."""
        return ""


@dataclass(frozen=True)
class Basic(Account):
    """Basic composition: epsilons add, deltas add. An infinite ceiling takes everything."""

    ceiling: Budget
    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)

    def after(self, *spends: Entry) -> Basic:
        epsilon = add((spend.epsilon for spend in spends), self.epsilon)
        return Basic(self.ceiling, epsilon, add((spend.delta for spend in spends), self.delta))

    def fits(self) -> bool:
        return math.isinf(self.ceiling.epsilon) or (
            self.epsilon <= as_decimal(self.ceiling.epsilon)
            and self.delta <= as_decimal(self.ceiling.delta)
        )

    def spent(self) -> Budget:
        """Return the sums, rounded up."""
        return Budget(float_above(self.epsilon), float_above(self.delta))

    def remaining(self) -> Budget:
        """Return the ceiling less the sums, rounded down."""
        epsilon, delta = self.ceiling.epsilon, self.ceiling.delta
        if math.isinf(epsilon):
            return Budget(math.inf, 1.0)
        return Budget(_left(epsilon, self.epsilon), _left(delta, self.delta))


class GaussianDP(Account):
    """Basic composition up to the first spend of Gaussian noise; the rest is `Divided`.

    A first spend counts in basic composition, and divides nothing, if it would fit a divided rest
    by basic composition only, or not at all. ``basic`` has the sums of all spends, and ``before``
    those of the spends before the first that divides the ledger.
    """

    def __init__(
        self,
        ceiling: Budget,
        basic: Basic | None = None,
        before: Basic | None = None,
        rest: Divided | None = None,
    ) -> None:
        self.ceiling = ceiling
        self._basic = basic or Basic(ceiling)
        self._before = before or self._basic
        self._rest = rest

    def after(self, *spends: Entry) -> GaussianDP:
        """Return the account with further spends; the first Gaussian one divides it."""
        basic, before, rest = self._basic, self._before, self._rest
        for spend in spends:
            if rest is None:
                before, rest = basic, Divided.by(spend, basic)
            else:
                rest = rest.after(spend)
            basic = basic.after(spend)
        return GaussianDP(self.ceiling, basic, before, rest)

    def fits(self) -> bool:
        """Return whether the spends fit, those from the first Gaussian one on `Divided`."""
        return self._basic.fits() if self._rest is None else self._rest.fits()

    def spent(self) -> Budget:
        """Return the sums, or the ceiling's delta with a lesser epsilon."""
        sums = self._basic.spent()
        if self._rest is None:
            return sums
        total = add([self._before.spent().epsilon, self._rest.least_epsilon()])
        epsilon = min(float_above(total), self.ceiling.epsilon)
        summed = sums.epsilon <= epsilon and self._basic.fits()
        return sums if summed else Budget(epsilon, self.ceiling.delta)

    def remaining(self) -> Budget:
        """Return the amount with the greatest epsilon that is known to fit."""
        if self._rest is None:
            return self._basic.remaining()
        fitting = []
        for room in self._rest.rooms():  # its epsilon is lowered until a spend of it fits
            lower = (room.epsilon * (1 - 10.0**k) for k in range(-15, 0))
            fits = (e for e in lower if self.takes(Entry(e, room.delta, "", "", "", True)))
            epsilon = next(fits, None)
            fitting.append(Budget(0.0, 0.0) if epsilon is None else Budget(epsilon, room.delta))
        return max(fitting, key=attrgetter("epsilon"))

    def why_not(self, spend: Entry) -> str:
        """Return the mu of the spend, and its infinity mass, if the ledger is divided."""
        if self._rest is None:
            return ""
        mu, infinity_mass = math.sqrt(spend.counted.square), spend.counted.infinity_mass
        more = (
            f" and an infinity mass of {infinity_mass:.3g}; infinity masses may add up to a "
            "twentieth of the delta that was left at that time, and "
            f"{self._rest.infinity_mass_left():.3g} of this is left"
        )
        return (
            " Since its first release of Gaussian noise this ledger adds deltas only up to a "
            "quarter of the delta that was left, and otherwise uses Gaussian-DP composition, where "
            f"this release has mu={mu:.3g}{more if infinity_mass else ''}. A ledger made with "
            "composition='sums' uses basic composition only."
        )


class Divided:
    """Several rules, each with a share of delta. All spends must fit one of them.

    The first is basic composition. The second is Gaussian-DP composition of all spends. Each of
    the others reserves a part of epsilon for losses that are not Gaussian, and composes only
    Gaussian noise in Gaussian DP. Except in the first rule, infinity masses add up in a share of
    their own.
    """

    def __init__(
        self, ceiling: Budget, basic: Basic | None = None, counted: CountedSums | None = None
    ) -> None:
        self.ceiling = ceiling
        self.basic = basic or Basic(Budget(ceiling.epsilon, _share(ceiling.delta, _BASIC_SHARE)))
        self.counted = counted or CountedSums()

    @classmethod
    def by(cls, spend: Entry, before: Basic) -> Divided | None:
        """Return the rules with a spend that divides a ledger. It depends on no output."""
        if before.ceiling.delta == 0 or math.isinf(before.ceiling.epsilon) or not before.fits():
            return None
        if spend.delta == 0 or spend.counted.gaussian == 0 or spend.counted.infinity_mass > 0:
            return None
        rest = cls(before.remaining()).after(spend)
        return rest if rest.fits_without_basic() else None

    def after(self, *spends: Entry) -> Divided:
        counted = self.counted.after(spend.counted for spend in spends)
        return Divided(self.ceiling, self.basic.after(*spends), counted)

    def fits(self) -> bool:
        return self.basic.fits() or self.fits_without_basic()

    def fits_without_basic(self) -> bool:
        """Return whether the spends fit one of the rules other than the first."""
        pure, gaussian, square = self.counted.above()
        e, d = self.ceiling.epsilon, self.ceiling.delta
        if self.infinity_mass_left() < 0:
            return False
        if square < math.inf and gaussian_delta(math.sqrt(square), e) <= _GAUSSIAN_SHARE * d:
            return True
        mu = math.sqrt(gaussian)
        return any(
            pure <= aside and mixed_delta(mu, aside, e) <= _ASIDE_SHARE * d
            for aside in (share * e for share in _ASIDE)
        )

    def least_epsilon(self) -> float:
        """Return the least epsilon at the ceiling's delta by one of the rules."""
        pure, gaussian, square = self.counted.above()
        d, least = self.ceiling.delta, self.ceiling.epsilon
        if self.basic.fits():
            least = min(least, self.basic.spent().epsilon)
        if self.infinity_mass_left() < 0:
            return least
        if square < math.inf:
            least = min(least, gaussian_epsilon(math.sqrt(square), _GAUSSIAN_SHARE * d))
        if pure <= max(_ASIDE) * self.ceiling.epsilon:
            least = min(least, mixed_epsilon(math.sqrt(gaussian), pure, _ASIDE_SHARE * d))
        return least

    def rooms(self) -> list[Budget]:
        """Return amounts that about fit: by the first rule, and by the others."""
        pure, gaussian, square = self.counted.above()
        e, d, mu = self.ceiling.epsilon, self.ceiling.delta, math.sqrt(gaussian)
        left = squared(gaussian_mu(e, _GAUSSIAN_SHARE * d)) - square
        epsilon = pure_of_mu(math.sqrt(left)) if left > 0 else 0.0
        for aside in (share * e for share in _ASIDE):
            if mixed_delta(mu, aside, e) <= _ASIDE_SHARE * d:
                epsilon = max(epsilon, aside - pure)
        room = Budget(epsilon, float_below(max(self.infinity_mass_left(), Decimal(0))))
        return [self.basic.remaining(), room] if self.basic.fits() else [room]

    def infinity_mass_left(self) -> Decimal:
        """Return the infinity mass left for all rules but the first; negative if exceeded."""
        share = _share(self.ceiling.delta, _INFINITY_SHARE)
        return subtract(share, self.counted.infinity_mass)


class Exact(Account):
    """Basic or exact composition, for spends whose guarantees were fixed in advance."""

    def __init__(
        self,
        ceiling: Budget,
        basic: Basic | None = None,
        losses: Losses | None = (),
        running: Running | None = None,
    ) -> None:
        self.ceiling = ceiling
        self._basic = basic or Basic(ceiling)
        self._losses = losses
        self._running = running or Running(ceiling.epsilon)
        # The last spends that were added, and the account after them: a handle reads its spends.
        self._next: tuple[tuple[Entry, ...], Exact] | None = None

    def after(self, *spends: Entry) -> Exact:
        """Return the account with further spends; it is kept for those that are asked again."""
        kept = self._next  # read once: another thread may replace it
        if kept is not None and kept[0] == spends:
            return kept[1]
        basic, parts = self._basic.after(*spends), joint(spends)
        account = Exact(self.ceiling, basic, None)
        if self._losses is not None and parts is not None:
            losses = counted([*self._losses, *parts])
            account = Exact(self.ceiling, basic, losses, self._running.after(finite_parts(parts)))
        self._next = spends, account
        return account

    def fits(self) -> bool:
        """Return whether the sums, or the exact composition, are within the ceiling."""
        if self._basic.fits():
            return True
        if self._losses is None or self.ceiling.delta == 0:
            return False
        losses = self._losses
        mass = infinity_mass(losses)
        bounds = self._running.bounds(lambda: finite_parts(losses))
        return any(with_infinity(mass, delta) <= self.ceiling.delta for delta in bounds)

    def takes(self, spend: Entry) -> bool:
        """Return whether a further spend fits, or has delta = 0 and fits on top of the epsilon."""
        if self.after(spend).fits():
            return True
        if spend.delta > 0:
            return False
        return add([self.spent().epsilon, spend.epsilon]) <= as_decimal(self.ceiling.epsilon)

    def spent(self) -> Budget:
        """Return the sums, or the ceiling's delta with a lesser epsilon."""
        return self._spent

    def remaining(self) -> Budget:
        """Return the ceiling less the amount spent, rounded down."""
        spent = self.spent()
        if spent == self._basic.spent():
            return self._basic.remaining()
        return Budget(_left(self.ceiling.epsilon, as_decimal(spent.epsilon)), 0.0)

    @cached_property
    def _spent(self) -> Budget:
        sums, ceiling = self._basic.spent(), self.ceiling
        if not self._losses or not 0 < ceiling.delta < 1 or math.isinf(ceiling.epsilon):
            return sums
        epsilon = composed_epsilon(self._losses, ceiling.delta)
        if sums.epsilon <= epsilon and sums.delta <= ceiling.delta:
            return sums
        return Budget(min(epsilon, ceiling.epsilon), ceiling.delta)


Accounts: TypeAlias = dict[RecordGroup | None, Account]
RULES: dict[str, Callable[[Budget], Account]] = {
    "adaptive": GaussianDP,
    "fixed": Exact,
    "sums": Basic,
}


def accounts_after(accounts: Accounts, *spends: Entry) -> Accounts:
    """Return the account of each group, of the spends that read its records.

    That of None has the spends that read all records, like that of each group without spends.
    """
    groups = dict.fromkeys([*accounts, *(spend.group for spend in spends)])
    read = {group: [own for own in spends if own.group in (None, group)] for group in groups}
    return {group: accounts.get(group, accounts[None]).after(*read[group]) for group in groups}


def _share(delta: float, share: float) -> float:
    return float_below(as_decimal(delta) * as_decimal(share))


def _left(ceiling: float, spent: Decimal) -> float:
    # If losses of a file can no longer be read, its spends may exceed its ceiling.
    return float_below(max(subtract(ceiling, spent), Decimal(0)))
