"""The guarantee of a release, its conversions, and the composition of several.

Conversions use the pair of distributions that dominates every (epsilon, delta)-private release
(Kairouz, Oh & Viswanath 2015, Theorem 2). With probability delta it tells the two data sets apart.
Otherwise it answers a yes-no question truthfully with odds e^epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._checks import check_choice, check_count, check_interval, fail
from skdp._search import narrowed
from skdp.privacy._rounding import tested
from skdp.privacy.conversions import gaussian_delta, gaussian_epsilon, zcdp_delta, zcdp_epsilon
from skdp.privacy.decimals import add, as_decimal, float_above
from skdp.privacy.guarantee import profile as _profile
from skdp.privacy.guarantee._card import NEIGHBORS, card
from skdp.privacy.guarantee._export import from_dict, to_dict, to_html
from skdp.privacy.guarantee.profile import Losses

__all__ = ["NEIGHBORS", "Guarantee", "compose"]

# Every conversion has fewer than ten roundings of half this size.
_ROUNDING = 16 * np.finfo(float).eps
PLANNED = "the guarantee of each part was fixed before the first part was released"


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
        Privacy losses (see `skdp.privacy.losses.losses`), each with a number of releases. Their
        composition is a second upper bound on the privacy loss of this release. Conversions use
        both bounds.

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

    def __post_init__(self) -> None:
        check_choice("neighbors", self.neighbors, NEIGHBORS)
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
        alpha = np.asarray(alpha, dtype=np.float64)
        if not np.all((alpha >= 0) & (alpha <= 1)):
            raise fail("alpha", "lie in [0, 1]")
        least = tested(self.epsilon, self.delta, alpha)
        if self.losses:
            least = np.maximum(least, _profile.tradeoff(self.losses, alpha))
        return least[()]

    def __str__(self) -> str:
        return card(self)

    to_dict, to_html, _repr_html_ = to_dict, to_html, to_html
    from_dict = classmethod(from_dict)

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


def compose(*guarantees: Guarantee, delta: float | None = None) -> Guarantee:
    """Return the guarantee of several releases together.

    By default this is basic composition: epsilons and deltas add (Dwork, McSherry, Nissim & Smith
    2006). If ``delta`` is given, or if parts have losses and a delta, epsilon is the least that
    basic, exact, Gaussian-DP or zCDP composition gives.

    Basic composition always holds. The other three hold if the guarantees of all parts were fixed
    before the first release; otherwise use a `Ledger`. For trade-off functions the composition of
    releases is `TradeOff.tensor`.

    Parameters
    ----------
    *guarantees : Guarantee
        At least one, all under the same neighbouring relation. A guarantee without losses counts
        as the worst release with its epsilon and delta.
    delta : float in [0, 1), optional
        The delta of the whole. By default it is the sum of the deltas.

    Returns
    -------
    Guarantee
        Sums are exact sums of shortest decimals, rounded up, as in a `Ledger`: under basic
        composition the whole fits a ledger if and only if its parts do. Assumptions and reasons
        for being void are those of all parts. If a part has losses or ``delta`` is given, the
        whole has losses, and assumes that all guarantees were fixed in advance.

    Raises
    ------
    ValueError
        If there is no guarantee, they do not share one neighbouring relation, or no epsilon is
        known to hold at ``delta``.

    Examples
    --------
    >>> from skdp.privacy import Guarantee, compose
    >>> from skdp.privacy import GaussianLoss
    >>> both = compose(Guarantee(0.1, mechanism="laplace"), Guarantee(0.2, 1e-9))
    >>> both.epsilon, both.delta
    (0.3, 1e-09)
    >>> step = Guarantee(0.04, 1e-6, losses=((GaussianLoss(0.01), 1),))
    >>> round(compose(*[step] * 10_000, delta=1e-6).epsilon, 5)
    4.88655
    """
    relation = _check_parts(guarantees)
    if len(guarantees) == 1 and delta is None:
        return guarantees[0]
    asked = None if delta is None else check_interval("delta", delta, 0, 1, closed="left")
    losses = _joint_losses(guarantees, asked)
    planned = ((PLANNED,),) if losses and len(guarantees) > 1 else ()
    epsilon, total = _amounts(guarantees, asked, losses)
    return Guarantee(
        epsilon=epsilon,
        delta=total,
        neighbors=relation,
        mechanism=_join(part.mechanism for part in guarantees),
        assumptions=_merge([*(part.assumptions for part in guarantees), *planned]),
        void_because=_merge(part.void_because for part in guarantees),
        losses=losses,
    )


def _check_parts(guarantees: tuple[Guarantee, ...]) -> str:
    """Return the neighbouring relation that the parts share."""
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
    return relations[0]


def _joint_losses(guarantees: tuple[Guarantee, ...], asked: float | None) -> Losses:
    """Return the losses of all parts; none if they are not needed, or a part has delta = 1."""
    if asked is None and not any(part.losses for part in guarantees):
        return ()
    return _profile.joint(guarantees) or ()


def _amounts(
    guarantees: tuple[Guarantee, ...], asked: float | None, losses: Losses
) -> tuple[float, float]:
    """Return epsilon and delta of the whole: their sums, or the least epsilon known at delta."""
    epsilon = float_above(add(part.epsilon for part in guarantees))
    total = min(1.0, float_above(add(part.delta for part in guarantees)))
    if asked is None and (not losses or total in (0, 1)):
        return epsilon, total
    delta = total if asked is None else asked
    known = [epsilon] if as_decimal(total) <= as_decimal(delta) else []
    if losses and delta > 0:
        equal = _profile.equivalents(epsilon, total, losses)
        least = min([*known, _profile.composition(losses).epsilon_at(delta)])
        # The other two are computed only if they give less.
        mu = math.sqrt(equal.square)
        if mu < math.inf and (math.isinf(least) or gaussian_delta(mu, least) <= delta):
            least = min(least, gaussian_epsilon(mu, delta))
        if equal.rho < math.inf and (math.isinf(least) or zcdp_delta(equal.rho, least) <= delta):
            least = min(least, zcdp_epsilon(equal.rho, delta))
        known = [least]
    least = min(known, default=math.inf)
    if math.isinf(least):
        remedy = f"The deltas of the parts add up to {total!r}."
        raise fail("delta", "be large enough for some epsilon to be known", delta, remedy)
    return least, delta


def _join(mechanisms: Iterable[str]) -> str:
    counts = Counter(name for name in mechanisms if name)
    return " + ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())


def _merge(sentences: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(sentences)))


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
