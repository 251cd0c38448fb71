"""The checker, which proves the guarantees of fits and of estimated domains.

It evaluates the theorem of each release from the release itself, and composes the losses. Changes
and laws of noise are fixed before the data are read, and a release depends on earlier results
through the statistic that it sums alone. Then losses add up (docs/proofs/certify.md).

Three bounds are tried, all of them sums of losses. Pure losses add up. Pure losses are taken off
epsilon, and the other ones are composed at what is left. All of them are composed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from skdp.trusted.composition import composed_delta
from skdp.trusted.identity import relied_on
from skdp.trusted.losses import Losses, PairLoss, ProfileLoss
from skdp.trusted.releases import Release
from skdp.trusted.rounding import add, add_multiples, exp_up, float_above, float_below, subtract
from skdp.trusted.statement import NotPrivate, Public, Statement


def certify(releases: Sequence[Release], public: Public, mechanism: str = "") -> Statement:
    """Return what holds for releases together, or raise `NotPrivate`.

    No other function makes a `Statement`. `skdp.privacy.guarantee_of` returns it as a `Guarantee`,
    with conversions and a card.

    Parameters
    ----------
    releases : sequence of Release
        In their order. Each is fixed before the data are read.
    public : Public
        The guarantee that is asked for, with the relation and the unit for which it is stated.
    mechanism : str, default=""
        The releases in words. By default it is made of their descriptions.

    Returns
    -------
    Statement
        Its epsilon is ``public.epsilon``. Its delta is 0 if pure losses add up to at most epsilon,
        and ``public.delta`` otherwise.

    Raises
    ------
    NotPrivate
        With the inequality that fails, and by how much.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> from skdp.trusted import NoisySum, Public, certify
    >>> three = Sensitivity(LpBall(3, p=1))  # a record moves three sums by at most 1 in all
    >>> noise = calibrate("l1", three, epsilon=0.5)
    >>> release = NoisySum("sums", three, noise)
    >>> certify([release, release], Public(epsilon=1.0, delta=1e-6)).delta
    0.0
    >>> certify([release] * 3, Public(epsilon=1.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    skdp.trusted.statement.NotPrivate: sums, sums, sums: epsilons add up to 1.5, and ...
    """
    epsilon, delta = public.epsilon, public.delta
    if public.in_two_steps:
        # (e, d) for a removal and for an addition is (2 e, d (1 + e^e)) for both.
        epsilon /= 2
        delta = math.nextafter(delta / (1 + math.exp(epsilon)), 0.0) if epsilon < 700 else 0.0
        delta = max(delta * (1 - 1e-15), 0.0)  # the exponential and the sum round
    spent = [release.spent(public) for release in releases]
    for release, own in zip(releases, spent, strict=True):
        known = own.epsilon < math.inf or own.losses
        if not (own.epsilon >= 0 and known) or any(count < 1 for _, count in own.losses):
            raise NotPrivate(f"{release.name}: its privacy loss is not known, or not a number")
    pure = [own.epsilon for own in spent if own.epsilon < math.inf]
    mixed = [own.losses for own in spent if own.epsilon == math.inf]
    losses: Losses = sum((own.losses for own in spent), ()) if all(o.losses for o in spent) else ()
    exact = add(pure)
    total = float_above(exact)
    is_pure = not mixed and total <= epsilon
    if not is_pure:
        left = float_below(subtract(epsilon, exact)) if total <= epsilon else -1.0
        reached = _composed(sum(mixed, ()), left)
        if not reached <= delta:  # NaN is no bound
            reached = min(_composed(losses, epsilon), reached)
        if not reached <= delta:
            names = ", ".join(release.name for release in releases)
            words = f"delta at epsilon = {epsilon:.9g} is {reached:.9g}, and {delta:.9g} is stated"
            if delta == 0:
                words = f"epsilons add up to {total:.9g}, and epsilon = {epsilon:.9g} is stated"
            raise NotPrivate(f"{names}: {words}")
    if public.in_two_steps or (is_pure and any(type(loss) is PairLoss for loss, _ in losses)):
        losses = ()  # they are those of one step, or say no more than epsilon
    return Statement(
        public.epsilon,
        0.0 if is_pure else public.delta,
        neighbors=public.neighbors,
        mechanism=mechanism or ", then ".join(release.description for release in releases),
        assumptions=tuple(dict.fromkeys((*public.assumptions, *relied_on(*releases)))),
        void_because=public.void_because,
        losses=losses,
        unit=public.unit,
    )


def _composed(losses: Losses, epsilon: float) -> float:
    """Return an upper bound on delta at ``epsilon``, or 1 if nothing is known."""
    if not losses or epsilon < 0:
        return 1.0
    if all(type(loss) is PairLoss for loss, _ in losses):
        # Epsilons and deltas add up, as exact decimals.
        sums = [[(getattr(o, name), n) for o, n in losses] for name in ("epsilon", "delta")]
        whole, delta = (float_above(add_multiples(pairs)) for pairs in sums)
        if whole <= epsilon:
            return delta
    if len(losses) == 1 and losses[0][1] == 1 and type(losses[0][0]) is ProfileLoss:
        # Its function is never below the truth, at this very epsilon.
        orders = losses[0][0], losses[0][0].reversed()
        logs = [float(loss.log_delta(epsilon)) for loss in orders]
        return 1.0 if any(map(math.isnan, logs)) else exp_up(max(logs))
    return composed_delta(losses, epsilon)
