"""The guarantee of a release and its conversions.

Conversions use the pair of distributions that dominates every (epsilon, delta)-private release
(Kairouz, Oh & Viswanath 2015, Theorem 2). With probability delta it tells the two data sets apart.
Otherwise it answers a yes-no question truthfully with odds e^epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._checks import check_choice, check_count, check_interval, check_numbers, fail
from skdp._search import narrowed
from skdp.privacy.rounding import tested
from skdp.privacy.rounding import add_multiples, float_above
from skdp.privacy.guarantee import profile as _profile
from skdp.privacy.guarantee import NEIGHBORS, UNITS, card
from skdp.privacy.guarantee import Exported
from skdp.privacy.profile import Losses

__all__ = ["NEIGHBORS", "Guarantee"]

# Every conversion has fewer than ten roundings of half this size.
_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True)
class Guarantee(Exported):
    """A statement of differential privacy about one release, or several composed.

    Parameters
    ----------
    epsilon : float in [0, inf)
        Bound on the log of the factor by which the odds between neighbouring data sets change.
    delta : float in [0, 1]
        Probability with which that bound may fail.
    neighbors : {"replace_one", "add_remove"}
        Neighbouring data sets. "replace_one": one record is replaced by another, and the number
        of records is public. "add_remove": one record is added or removed, and the number of
        records is private.
    mechanism : str
        Name of the noise or mechanism.
    assumptions : tuple of str
        Conditions under which the statement holds.
    void_because : tuple of str
        Reasons why the statement does not hold for this release; empty if it holds.
    losses : tuple of pairs (loss, count)
        Privacy losses (see `skdp.privacy.losses`), each with a number of releases. Their
        composition is a second upper bound on the privacy loss of this release. Conversions use
        both bounds.
    unit : {"row", "person"}
        What a record is: one row, or all rows of one person.

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
    also        Gaussian DP with mu = 0.624: no easier to tell than two normal
                laws of variance 1 whose means differ by 0.624.
                Zero-concentrated DP (zCDP) with rho = 0.123.
    """

    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    mechanism: str = ""
    assumptions: tuple[str, ...] = ()
    void_because: tuple[str, ...] = ()
    losses: Losses = ()
    unit: str = "row"

    def __post_init__(self) -> None:
        check_choice("neighbors", self.neighbors, NEIGHBORS)
        check_choice("unit", self.unit, UNITS)
        if not isinstance(self.mechanism, str):
            raise fail("mechanism", "be a string", type(self.mechanism))
        checked = {
            "epsilon": check_interval("epsilon", self.epsilon, 0, math.inf, closed="left"),
            "delta": check_interval("delta", self.delta, 0, 1),
            "assumptions": _check_sentences("assumptions", self.assumptions),
            "void_because": _check_sentences("void_because", self.void_because),
            "losses": _check_losses(self.losses),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def holds(self) -> bool:
        """Whether the statement holds, that is, ``void_because`` is empty."""
        return not self.void_because

    @property
    def mu(self) -> float:
        """Least mu known such that the release is mu-Gaussian-DP; inf if none is."""
        return math.sqrt(self._equivalents.square) * (1 + _ROUNDING)

    @property
    def rho(self) -> float:
        """Least rho known such that the release is rho-zCDP; inf if none is."""
        return self._equivalents.rho

    def delta_at(self, epsilon: float) -> float:
        """Return the least delta known to hold at another epsilon, rounded up.

        Parameters
        ----------
        epsilon : float in [0, inf]

        Returns
        -------
        float in [0, 1]
            The lesser of two bounds. One is ``delta + (1-delta) (e^self.epsilon - e^epsilon) /
            (1 + e^self.epsilon)`` below ``self.epsilon``, and ``delta`` from there on. The other
            follows from the losses.

        Raises
        ------
        ValueError
            If ``epsilon`` is out of range.
        """
        epsilon = check_interval("epsilon", epsilon, 0, math.inf)
        known = self._delta_of_pair(epsilon)
        if not self.losses or known == 0 or math.isinf(epsilon):
            return known
        return min(known, _profile.composition(self.losses).delta_at(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the least epsilon known to hold at another delta, rounded up.

        Parameters
        ----------
        delta : float in [0, 1]

        Returns
        -------
        float in [0, inf]
            The inverse of `delta_at`. It is inf if no epsilon is known to hold, for instance
            without losses for a ``delta`` below ``self.delta``.

        Raises
        ------
        ValueError
            If ``delta`` is out of range.
        """
        delta = check_interval("delta", delta, 0, 1)
        known = self._epsilon_of_pair(delta)
        if not self.losses or known == 0:
            return known
        if delta == 0:
            equal = self._equivalents
            return min(known, equal.pure) if equal.gaussian == 0 else known
        return min(known, _profile.composition(self.losses).epsilon_at(delta))

    def group(self, k: int, unit: str | None = None) -> Guarantee:
        """Return the guarantee for any k records together.

        Parameters
        ----------
        k : int >= 1
        unit : {"row", "person"}, default=None
            The unit of the new guarantee; None keeps it. Under "add_remove",
            ``group(k, unit="person")`` of a guarantee for rows protects persons with at most k
            rows each. Under "replace_one" the number of rows is public, so that a person with
            another number of rows is not covered.

        Returns
        -------
        Guarantee
            Its epsilon is k times this epsilon, its delta at most delta times
            ``(e^(k epsilon) - 1) / (e^epsilon - 1)`` (Vadhan 2017, Lemma 2.2). The losses are not
            kept.

        Raises
        ------
        ValueError
            If an argument is out of range or the unit cannot be converted.

        Examples
        --------
        >>> Guarantee(0.1, neighbors="add_remove").group(20, unit="person").epsilon
        2.0
        """
        k = check_count("k", k)
        unit = check_choice("unit", self.unit if unit is None else unit, UNITS)
        if unit != self.unit and (unit == "row" or self.neighbors == "replace_one"):
            rule = f"be {self.unit!r} for this guarantee under neighbors={self.neighbors!r}"
            remedy = "A guarantee for rows under 'add_remove' can become one for persons."
            raise fail("unit", rule, unit, remedy)
        if k == 1 and unit == self.unit:
            return self
        epsilon = float_above(add_multiples([(self.epsilon, k)]))
        delta = min(1.0, self.delta * _sum_of_powers(self.epsilon, k)) if self.delta else 0.0
        most = f"at most {k} {self.unit}s differ between neighbouring data sets"
        return replace(
            self,
            epsilon=epsilon,
            delta=delta,
            assumptions=(*self.assumptions, most),
            losses=(),
            unit=unit,
        )

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64] | np.float64:
        """Return a lower bound on the type II error of tests between neighbouring data sets.

        Parameters
        ----------
        alpha : float or array of any shape, entries in [0, 1]
            Type I error of the test.

        Returns
        -------
        float or array of the same shape, entries in [0, 1]
            ``max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha))``, or a greater
            bound from the losses, rounded down.

        Raises
        ------
        ValueError
            If an entry of ``alpha`` is out of range.
        """
        alpha = check_numbers("alpha", alpha)
        if not np.all((alpha >= 0) & (alpha <= 1)):
            raise fail("alpha", "lie in [0, 1]")
        least = tested(self.epsilon, self.delta, alpha)
        if self.losses:
            least = np.maximum(least, _profile.tradeoff(self.losses, alpha))
        return least[()]

    def __str__(self) -> str:
        return card(self)

    @property
    def _equivalents(self) -> _profile.Equivalents:
        return _profile.equivalents(self.epsilon, self.delta, self.losses)

    def _delta_of_pair(self, epsilon: float) -> float:
        excess = epsilon - self.epsilon
        if excess >= 0:
            return self.delta
        # Both exponentials are divided by e^self.epsilon, so none overflows.
        distinguished = -math.expm1(excess) / (1 + math.exp(-self.epsilon))
        delta = self.delta + (1 - self.delta) * distinguished
        return min(1.0, math.nextafter(delta * (1 + _ROUNDING), math.inf))

    def _epsilon_of_pair(self, delta: float) -> float:
        if delta < self.delta:
            return math.inf
        if delta >= self._delta_of_pair(0.0):
            return 0.0
        return narrowed(lambda e: self._delta_of_pair(e) <= delta, 0.0, self.epsilon, _ROUNDING)[1]


def _check_sentences(name: str, value: Any) -> tuple[str, ...]:
    # A single string is iterable too, and would become a tuple of letters.
    if not isinstance(value, tuple | list) or not all(isinstance(item, str) for item in value):
        raise fail(name, "be a tuple of strings", type(value), f"Write {name}=('...',).")
    return tuple(value)


def _check_losses(value: Any) -> Losses:
    pairs = isinstance(value, tuple | list) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 and hasattr(pair[0], "log_delta")
        for pair in value
    )
    if not pairs:
        rule = "be a tuple of pairs of a privacy loss and a count"
        raise fail("losses", rule, type(value), "Write losses=((GaussianLoss(0.1), 1),), say.")
    return tuple((loss, check_count("count in losses", count)) for loss, count in value)


def _sum_of_powers(epsilon: float, k: int) -> float:
    """Return 1 + e^epsilon + ... + e^((k - 1) epsilon), rounded up; inf if it overflows."""
    if k * epsilon > 700:
        return math.inf
    if epsilon == 0:
        return float(k)
    return math.expm1(k * epsilon) / math.expm1(epsilon) * (1 + _ROUNDING)
