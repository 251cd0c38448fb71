"""Greatest shift of a K-norm law for an (epsilon, delta), in any norm and in round norms."""

from __future__ import annotations

import math

from skdp._identity import remembered
from skdp._search import last_passing
from skdp.geometry import LpBall, MappedBall, NormBall, ScaledBall, ShearedBall
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.noise.laplace import Laplace
from skdp.privacy.losses import PrivacyLoss, ShiftLoss
from skdp.privacy.radial import MOST_SHIFT, RadialLoss

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


@remembered(maxsize=1024)
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

    def excess(shift: float) -> float:
        return float(RadialLoss(dim, shift).log_delta(epsilon)) - target

    # In many dimensions each coordinate is nearly normal, with variance dim + 1.
    start = max(safe, math.sqrt(dim + 1) / gaussian_scale(epsilon, delta))
    # The result has passed, or the Laplace bound holds.
    return max(safe, last_passing(excess, start, tolerance=1e-12, factor=1.01))


@remembered(maxsize=1024)
def is_private_in_round_norm(dim: int, length: float, epsilon: float, delta: float) -> bool:
    """Return whether noise with density exp(-|x|_2) is private for differences of this length."""
    if length <= shift_in_any_norm(epsilon, delta):
        return True
    if dim == 1 or epsilon > _MOST_EPSILON or length > MOST_SHIFT:
        return length <= shift_in_round_norm(dim, epsilon, delta)
    return bool(RadialLoss(dim, length).log_delta(epsilon) <= math.log(delta))


def is_round(ball: NormBall) -> bool:
    """Return whether a ball is known to be a linear image of the Euclidean ball."""
    while type(ball) in (ScaledBall, MappedBall, ShearedBall):  # a subclass may have another gauge
        ball = ball.ball  # type: ignore[attr-defined]
    return type(ball) is LpBall and (ball.p == 2 or ball.dim == 1)
