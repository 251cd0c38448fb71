"""Greatest shift of a K-norm law for an (epsilon, delta), in any norm and in round norms."""

from __future__ import annotations

import math

from skdp._search import passing_below_root
from skdp.geometry import LpBall, MappedBall, NormBall, ScaledBall
from skdp.noise.laplace import Laplace
from skdp.privacy.losses.losses import PrivacyLoss, ShiftLoss
from skdp.privacy.losses.radial import MOST_SHIFT, RadialLoss

# Above this epsilon the Laplace bound is taken: it is safe, and the exact sums take long.
_MOST_EPSILON = 1e4


def greatest_shift(ball: NormBall, epsilon: float, delta: float) -> float:
    """Return the greatest gauge of a difference for which noise of scale 1 is private."""
    if delta > 0 and is_round(ball):
        return shift_in_round_norm(ball.dim, epsilon, delta)
    return shift_in_any_norm(epsilon, delta)


def losses_of(ball: NormBall, shift: float) -> tuple[tuple[PrivacyLoss, int], ...]:
    """Return a privacy loss that dominates that of noise of scale 1 for such a difference."""
    if ball.dim > 1 and is_round(ball) and shift <= MOST_SHIFT:
        return ((RadialLoss(ball.dim, shift), 1),)
    return ((ShiftLoss(Laplace(), shift), 1),)


def shift_in_any_norm(epsilon: float, delta: float) -> float:
    """Return a difference, in units of the scale, for which every K-norm law is private.

    It is epsilon - 2 log(1 - delta), as for one Laplace variable
    (``docs/proofs/knorm_delta.md``, Theorem 1).

    Examples
    --------
    >>> round(shift_in_any_norm(1.0, 0.1), 6)
    1.210721
    """
    return epsilon - 2 * math.log1p(-delta)


def shift_in_round_norm(dim: int, epsilon: float, delta: float) -> float:
    """Return the greatest length for which noise with density exp(-|x|_2) is private, rounded down.

    Parameters
    ----------
    dim : int, >= 1
    epsilon : float in (0, inf)
    delta : float in (0, 1)

    Returns
    -------
    float
        A length that has passed, within 1e-11 of the greatest and at least
        `shift_in_any_norm`.

    Examples
    --------
    >>> round(shift_in_round_norm(1, 1.0, 0.1), 6), round(shift_in_round_norm(50, 1.0, 0.1), 6)
    (1.210721, 6.525321)
    """
    safe, target = shift_in_any_norm(epsilon, delta), math.log(delta)
    if dim == 1 or epsilon > _MOST_EPSILON:
        return safe

    def excess(log_shift: float) -> float:
        found = float(RadialLoss(dim, math.exp(log_shift)).log_delta(epsilon))
        return found - target

    low = math.log(safe)
    if excess(low) > 0:
        return safe  # no float lies between epsilon and the greatest length
    high = low + math.log(2)
    while excess(high) <= 0:
        low, high = high, high + math.log(2)
    # The result has passed, or the Laplace bound holds.
    return max(safe, math.exp(passing_below_root(excess, low, high, xtol=1e-13)))


def is_round(ball: NormBall) -> bool:
    """Return whether a ball is known to be a linear image of the Euclidean ball."""
    while type(ball) in (ScaledBall, MappedBall):  # a subclass may have another gauge
        ball = ball.ball  # type: ignore[attr-defined]
    return type(ball) is LpBall and (ball.p == 2 or ball.dim == 1)
