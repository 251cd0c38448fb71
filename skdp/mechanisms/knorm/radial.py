"""How far apart K-norm laws may be for an (epsilon, delta): in any norm, and in a round one."""

from __future__ import annotations

import math

from skdp._search import passing_below_root
from skdp.geometry import LpBall, MappedBall, NormBall, ScaledBall
from skdp.noise.laplace import Laplace
from skdp.privacy.losses.losses import PrivacyLoss, ShiftLoss
from skdp.privacy.losses.radial import MOST_SHIFT, RadialLoss

# Above this the Laplace bound is taken, which is safe: sums over so many pieces take their time.
_MOST_EPSILON = 1e4


def greatest_shift(ball: NormBall, epsilon: float, delta: float) -> float:
    """Return the greatest gauge of a difference that noise of scale 1 on a ball covers."""
    if delta > 0 and is_round(ball):
        return shift_in_round_norm(ball.dim, epsilon, delta)
    return shift_in_any_norm(epsilon, delta)


def losses_of(ball: NormBall, shift: float) -> tuple[tuple[PrivacyLoss, int], ...]:
    """Return the privacy loss that dominates noise of scale 1 on a ball for such a difference."""
    if ball.dim > 1 and is_round(ball) and shift <= MOST_SHIFT:
        return ((RadialLoss(ball.dim, shift), 1),)
    return ((ShiftLoss(Laplace(), shift), 1),)


def shift_in_any_norm(epsilon: float, delta: float) -> float:
    """Return the greatest difference, in units of the scale, that any K-norm law covers.

    epsilon - 2 log(1 - delta), as for one Laplace variable: ``docs/proofs/knorm_delta.md``,
    Theorem 1.

    Examples
    --------
    >>> round(shift_in_any_norm(1.0, 0.1), 6)
    1.210721
    """
    return epsilon - 2 * math.log1p(-delta)


def shift_in_round_norm(dim: int, epsilon: float, delta: float) -> float:
    """Return the greatest length that noise with density exp(-|x|_2) covers, rounded down.

    Parameters
    ----------
    dim : int, >= 1
    epsilon : float in (0, inf)
    delta : float in (0, 1)

    Returns
    -------
    float
        A length that has passed, within 1e-11 of the greatest; at least that of any norm.

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
        return safe  # no float lies between epsilon and what is sought
    high = low + math.log(2)
    while excess(high) <= 0:
        low, high = high, high + math.log(2)
    # The result has passed, or the Laplace bound holds.
    return max(safe, math.exp(passing_below_root(excess, low, high, xtol=1e-13)))


def is_round(ball: NormBall) -> bool:
    """Return whether a ball is a linear image of the Euclidean one, as far as is known."""
    while type(ball) in (ScaledBall, MappedBall):  # a subclass may have another gauge
        ball = ball.ball  # type: ignore[attr-defined]
    return type(ball) is LpBall and (ball.p == 2 or ball.dim == 1)
