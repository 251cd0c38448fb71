"""The entries of a ledger, and the amounts for which they count in Gaussian DP."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from skdp._identity import counted, remembered
from skdp.privacy.conversions import mu_of_pure
from skdp.privacy.rounding import add, as_decimal, float_above, float_below, subtract
from skdp.privacy.profile import (
    Losses,
    bounded_part,
    composition,
    equivalents,
    squared,
    total,
)
from skdp.privacy.losses import PairLoss, Profile

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

    @property
    def relation(self) -> str:
        """The neighbouring relation with its unit, which all entries of a ledger share."""
        return self.neighbors if self.unit == "row" else f"{self.neighbors} {self.unit}"

    @cached_property
    def counted(self) -> Counted:
        """The amounts that count in Gaussian DP. They depend on this spend only."""
        return _counted(self.epsilon, self.delta, self.losses)


class Counted(NamedTuple):
    """A spend as a release with an infinity mass, and otherwise bounded or Gaussian losses.

    Attributes
    ----------
    pure : float
        Sum of the greatest values of the losses that do not count as Gaussian.
    gaussian : float
        Sum of mu^2 over the losses that do.
    square : float
        Sum of mu^2 over all losses.
    infinity_mass : float
        Probability with which the release may reveal everything.
    """

    pure: float
    gaussian: float
    square: float
    infinity_mass: float


@dataclass(frozen=True)
class CountedSums:
    """Running sums of `Counted` amounts, which are exact: their order does not matter."""

    pure: Fraction | float = Fraction(0)
    gaussian: Fraction | float = Fraction(0)
    square: Fraction | float = Fraction(0)
    infinity_mass: Decimal = Decimal(0)

    def after(self, rows: Iterable[Counted]) -> CountedSums:
        """Return the sums with further rows."""
        pure, gaussian, square, mass = self.pure, self.gaussian, self.square, self.infinity_mass
        for row in rows:
            pure += _exact(row.pure)
            gaussian += _exact(row.gaussian)
            square += _exact(row.square)
            mass = add([row.infinity_mass], mass) if row.infinity_mass else mass
        return CountedSums(pure, gaussian, square, mass)

    def above(self) -> tuple[float, float, float]:
        """Return the sums of ``pure``, ``gaussian`` and ``square``, rounded up."""
        return _above(self.pure), _above(self.gaussian), _above(self.square)


def _above(x: Fraction | float) -> float:
    try:
        return float(x) * _ROUND_UP
    except OverflowError:  # a fraction beyond all floats
        return math.inf


def _exact(x: float) -> Fraction | float:
    return Fraction(x) if x < math.inf else x


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
    infinity_mass = sum((n * as_decimal(_delta(loss)) for loss, n in losses), Decimal(0))
    pieces = [(bounded_part(loss), n) for loss, n in losses]
    # At delta = 1 only the losses give bounds.
    rows = [(piece, equivalents(0.0, 1.0, (piece,))) for piece in pieces]
    known = [row for _, row in rows if row.square < math.inf]
    unknown = counted(piece for piece, row in rows if row.square == math.inf)
    epsilon = 0.0
    if unknown:
        allowed = float_below(max(subtract(delta, infinity_mass), Decimal(0)) * as_decimal(share))
        epsilon = composition(unknown).epsilon_at(allowed) if 0 < allowed < 1 else math.inf
        infinity_mass += as_decimal(allowed)
    return Counted(
        total(row.pure for row in known) + epsilon,
        total(row.gaussian for row in known),
        total(row.square for row in known) + _square(epsilon),
        float_above(infinity_mass),
    )


def _square(epsilon: float) -> float:
    return squared(mu_of_pure(epsilon)) if epsilon < math.inf else math.inf


def _delta(loss: Profile) -> float:
    return loss.delta if type(loss) is PairLoss else 0.0
