"""What a release promises: a Guarantee, its conversions, and basic composition.

Conversions use the pair of distributions that dominates every (epsilon, delta)-private
release (Kairouz, Oh & Viswanath 2015, Theorem 2): with probability delta it tells the two
data sets apart, else it answers a yes-no question truthfully with odds e^epsilon.
"""

from __future__ import annotations

import decimal
import math
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._checks import check_choice, check_interval, fail
from skdp.privacy._decimal import add, float_above

NEIGHBORS = {
    "replace_one": "any one record replaced by any other; the number of records is public",
    "add_remove": "any one record added or removed; the number of records is private",
}
_ODDS = {
    "replace_one": "between any two values of this record",
    "add_remove": "on this record being in the data",
}
_WIDTH, _INDENT = 78, 12
# Every conversion makes fewer than ten roundings of half this size; the rest is spare.
_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True)
class Guarantee:
    """A statement of differential privacy about one release, or several composed.

    Parameters
    ----------
    epsilon : float in [0, inf)
        Bound on the log of the factor by which the odds between neighbouring data sets change.
    delta : float in [0, 1]
        Probability with which that bound may fail.
    neighbors : {"replace_one", "add_remove"}
        Which data sets are to look alike: those where one record is replaced by another,
        the number of records being public; or those where one record is added or removed,
        the number of records being private.
    mechanism : str
        What drew the noise.
    assumptions : tuple of str
        What must be true of the world for the statement to hold.
    void_because : tuple of str
        Why the statement does not hold for this release; empty if it does.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skdp.privacy import Guarantee
    >>> guarantee = Guarantee(epsilon=1.0, delta=1e-6, mechanism="gaussian")
    >>> guarantee.holds
    True
    >>> guarantee.delta_at(1.0)
    1e-06
    >>> round(guarantee.epsilon_at(0.1), 4)
    0.8529
    >>> print(Guarantee(epsilon=0.5, mechanism="laplace", assumptions=("Bounds are public.",)))
    Differential privacy guarantee
    ------------------------------
    epsilon     0.5
    delta       0.0
    neighbours  any one record replaced by any other; the number of records is
                public
    mechanism   laplace
    assumes     - Bounds are public.
    means       To somebody who knows every other record, the release changes the
                odds between any two values of this record by a factor of at most
                e^epsilon = 1.65.
                Any test between the two cases has rates of false alarms and of
                misses that add up to at least 0.755; blind guessing gives 1.
    """

    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    mechanism: str = ""
    assumptions: tuple[str, ...] = ()
    void_because: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("neighbors", self.neighbors, NEIGHBORS)
        if not isinstance(self.mechanism, str):
            raise fail("mechanism", "be a string", type(self.mechanism))
        checked = {
            "epsilon": check_interval("epsilon", self.epsilon, 0, math.inf, closed="left"),
            "delta": check_interval("delta", self.delta, 0, 1),
            "assumptions": _check_sentences("assumptions", self.assumptions),
            "void_because": _check_sentences("void_because", self.void_because),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def holds(self) -> bool:
        """Whether nothing makes the statement void."""
        return not self.void_because

    def delta_at(self, epsilon: float) -> float:
        """Return the least delta known to hold at another epsilon, rounded up.

        Parameters
        ----------
        epsilon : float in [0, inf]

        Returns
        -------
        float in [0, 1]
            ``delta + (1-delta) (e^self.epsilon - e^epsilon) / (1 + e^self.epsilon)`` below
            ``self.epsilon``, and ``delta`` from there on.

        Raises
        ------
        ValueError
            If ``epsilon`` is out of range.
        """
        excess = check_interval("epsilon", epsilon, 0, math.inf) - self.epsilon
        if excess >= 0:
            return self.delta
        # Both exponentials are divided by e^self.epsilon, so that none overflows.
        distinguished = -math.expm1(excess) / (1 + math.exp(-self.epsilon))
        delta = self.delta + (1 - self.delta) * distinguished
        return min(1.0, math.nextafter(delta * (1 + _ROUNDING), math.inf))

    def epsilon_at(self, delta: float) -> float:
        """Return the least epsilon known to hold at another delta, rounded up.

        Parameters
        ----------
        delta : float in [0, 1]

        Returns
        -------
        float in [0, inf]
            The inverse of `delta_at`; inf where ``delta`` is less than ``self.delta``,
            since this guarantee then promises nothing.

        Raises
        ------
        ValueError
            If ``delta`` is out of range.
        """
        delta = check_interval("delta", delta, 0, 1)
        if delta < self.delta:
            return math.inf
        if delta >= self.delta_at(0.0):
            return 0.0
        lo, hi = 0.0, self.epsilon
        # Among subnormals the midpoint is an end before the relative width is reached.
        while hi - lo > _ROUNDING * hi and lo < (mid := (lo + hi) / 2) < hi:
            lo, hi = (lo, mid) if self.delta_at(mid) <= delta else (mid, hi)
        return hi  # hi has always passed

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64] | np.float64:
        """Return the least type II error of any test between neighbouring data sets.

        Parameters
        ----------
        alpha : float or array of any shape, entries in [0, 1]
            Type I error of the test.

        Returns
        -------
        float or array of the same shape, entries in [0, 1]
            ``max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha))``.

        Raises
        ------
        ValueError
            If an entry of ``alpha`` is out of range.
        """
        alpha = np.asarray(alpha, dtype=np.float64)
        if not np.all((alpha >= 0) & (alpha <= 1)):
            raise fail("alpha", "lie in [0, 1]")
        with np.errstate(divide="ignore", over="ignore"):
            steep = 1 - self.delta - np.exp(self.epsilon + np.log(alpha))
        flat = np.exp(-self.epsilon) * (1 - self.delta - alpha)
        least: NDArray[np.float64] = np.maximum(0.0, np.maximum(steep, flat))
        return least[()]

    def __str__(self) -> str:
        loud = [("VOID", f"THIS GUARANTEE DOES NOT HOLD: {why}") for why in self.void_because]
        rows = [
            *loud,
            ("epsilon", repr(self.epsilon)),
            ("delta", repr(self.delta)),
            ("neighbours", NEIGHBORS[self.neighbors]),
            ("mechanism", self.mechanism or "not stated"),
            *(("assumes", f"- {sentence}") for sentence in self.assumptions),
            *(("means", sentence) for sentence in self._meaning() if self.holds),
        ]
        title = "Differential privacy guarantee"
        return "\n".join([title, "-" * len(title), *_table(rows)])

    def _meaning(self) -> tuple[str, str]:
        """Say what the numbers mean; true to the letter for the dominating pair."""
        odds = f"the odds {_ODDS[self.neighbors]} by a factor of at most {self._odds_factor()}"
        told = (
            f"the release changes {odds}"
            if self.delta == 0
            else "the release tells no more than one that reveals this record with "
            f"probability delta and otherwise changes {odds}"
        )
        errors = _digits(1 - self.delta_at(0.0), decimal.ROUND_FLOOR)
        return (
            f"To somebody who knows every other record, {told}.",
            "Any test between the two cases has rates of false alarms and of misses that "
            f"add up to at least {errors}; blind guessing gives 1.",
        )

    def _odds_factor(self) -> str:
        if self.epsilon > 700:  # e^709.8 is the greatest float
            return "e^epsilon"
        return f"e^epsilon = {_digits(math.exp(self.epsilon), decimal.ROUND_CEILING)}"


def compose(*guarantees: Guarantee) -> Guarantee:
    """Return what holds for all the releases together: epsilons and deltas add.

    Basic composition (Dwork, McSherry, Nissim & Smith 2006): it holds also where a later
    release was chosen in view of earlier ones.

    Parameters
    ----------
    *guarantees : Guarantee
        At least one, all under the same neighbouring relation.

    Returns
    -------
    Guarantee
        Sums are those of a `Ledger`: of the shortest decimals, exact, and rounded up where
        they are no float's. So the whole fits a ledger just when its parts do. Assumptions
        and reasons for being void are those of all parts, in order, each once.

    Raises
    ------
    ValueError
        If there is no guarantee, or they do not share one neighbouring relation.

    Examples
    --------
    >>> from skdp.privacy import Guarantee, compose
    >>> both = compose(Guarantee(0.1, mechanism="laplace"), Guarantee(0.2, 1e-9))
    >>> both.epsilon, both.delta
    (0.3, 1e-09)
    """
    if not guarantees or not all(isinstance(part, Guarantee) for part in guarantees):
        kinds = [type(part).__name__ for part in guarantees]
        raise fail("guarantees", "be one or more Guarantee objects", kinds)
    relations = sorted({part.neighbors for part in guarantees})
    if len(relations) > 1:
        raise fail(
            "guarantees",
            "share one neighbouring relation",
            relations,
            "Release everything under the same `neighbors`, or state the parts separately.",
        )
    return Guarantee(
        epsilon=float_above(add(part.epsilon for part in guarantees)),
        delta=min(1.0, float_above(add(part.delta for part in guarantees))),
        neighbors=relations[0],
        mechanism=_join(part.mechanism for part in guarantees),
        assumptions=_merge(part.assumptions for part in guarantees),
        void_because=_merge(part.void_because for part in guarantees),
    )


def _join(mechanisms: Iterable[str]) -> str:
    counts = Counter(name for name in mechanisms if name)
    return " + ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())


def _merge(sentences: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(sentences)))


def _check_sentences(name: str, value: Any) -> tuple[str, ...]:
    # A lone string is iterable too, and would become a tuple of letters.
    if not isinstance(value, tuple | list) or not all(isinstance(item, str) for item in value):
        raise fail(name, "be a tuple of strings", type(value), f"Write {name}=('...',).")
    return tuple(value)


def _digits(value: float, rounding: str) -> str:
    context = decimal.Context(prec=3, rounding=rounding)
    return f"{float(context.create_decimal_from_float(value)):g}"


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Wrap each text beside its label; a label that repeats is written once."""
    lines, last = [], ""
    for label, text in rows:
        head = "" if label == last else label
        bullet = 2 if text.startswith("- ") else 0
        lines += textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=head.ljust(_INDENT),
            subsequent_indent=" " * (_INDENT + bullet),
        )
        last = label
    return lines
