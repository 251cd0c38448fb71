"""The composition of several guarantees."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import chain

from skdp._checks import check_interval, fail
from skdp.privacy.conversions import gaussian_delta, gaussian_epsilon, zcdp_delta, zcdp_epsilon
from skdp.privacy.rounding import add, as_decimal, float_above
from skdp.privacy.guarantee import profile as _profile
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.profile import Losses

PLANNED = "the guarantee of each part was fixed before the first part was released"


def compose(*guarantees: Guarantee, delta: float | None = None) -> Guarantee:
    """Return the guarantee of several releases together.

    By default this is basic composition: epsilons and deltas add (Dwork, McSherry, Nissim & Smith
    2006). If ``delta`` is given, or if parts have losses and a delta, epsilon is the least that
    basic, exact, Gaussian-DP or zCDP composition gives.

    Basic composition always holds. The other three hold if the guarantees of all parts were fixed
    before the first release; otherwise use a `Ledger`. See also `TradeOff.tensor`.

    Parameters
    ----------
    *guarantees : Guarantee
        At least one, all under one neighbouring relation and of one unit. Without losses a
        guarantee counts as the worst release with its epsilon and delta.
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
        If there is no guarantee, they differ in relation or unit, or no epsilon is known to hold
        at ``delta``.

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
    relation, unit = _check_parts(guarantees)
    if len(guarantees) == 1 and delta is None:
        return guarantees[0]
    asked = None if delta is None else check_interval("delta", delta, 0, 1, closed="left")
    losses = _joint_losses(guarantees, asked)
    planned = ((PLANNED,),) if losses and guarantees[1:] else ()
    epsilon, total = _amounts(guarantees, asked, losses)
    return Guarantee(
        epsilon=epsilon,
        delta=total,
        neighbors=relation,
        mechanism=_join(part.mechanism for part in guarantees),
        assumptions=_merge([*(part.assumptions for part in guarantees), *planned]),
        void_because=_merge(part.void_because for part in guarantees),
        losses=losses,
        unit=unit,
    )


def _check_parts(guarantees: tuple[Guarantee, ...]) -> tuple[str, str]:
    """Return the neighbouring relation and the unit that the parts share."""
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
    units = sorted({part.unit for part in guarantees})
    if len(units) > 1:
        remedy = "Convert those for rows: guarantee.group(k, unit='person') for at most k rows."
        raise fail("guarantees", "share one unit", units, remedy)
    return relations[0], units[0]


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
