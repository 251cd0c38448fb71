"""The plug: any mechanism, a sensitivity and a guarantee make noise."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._checks import fail
from skdp.geometry import NormBall
from skdp.mechanisms.knorm import NAMES, KNorm
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.privacy.guarantee import Guarantee


class Noise(Protocol):
    """What :func:`calibrate` returns: a law that is ready to draw."""

    @property
    def guarantee(self) -> Guarantee:
        """What adding one draw gives."""

    def rvs(self, rng: Generator) -> NDArray[np.float64]:
        """Return one draw, (dim,)."""

    def covariance(self) -> NDArray[np.float64]:
        """Return the covariance of a draw, (dim, dim)."""

    def expected_norm(self, ball: NormBall) -> float:
        """Return the mean gauge of a draw in a ball's norm."""


def calibrate(
    mechanism: Any, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
) -> Noise:
    """Return the noise of a mechanism that makes a release (epsilon, delta)-private.

    Parameters
    ----------
    mechanism : {"l1", "l2", "linf", "hull"}, NormBall, or object with ``calibrate``
        A name or a ball means the K-norm mechanism on it. Any other object is asked for
        ``mechanism.calibrate(sensitivity, epsilon=epsilon, delta=delta)``.
    sensitivity : Sensitivity
        What one record can change.
    epsilon : float > 0
    delta : float in [0, 1)

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = calibrate("l1", Sensitivity(LpBall(2, p=1), radius=3.0), epsilon=1.5)
    >>> round(noise.scale, 6)
    2.0
    """
    if isinstance(mechanism, str | NormBall):
        mechanism = KNorm(mechanism)
    if not hasattr(mechanism, "calibrate"):
        remedy = "Or give an object with calibrate(sensitivity, *, epsilon, delta)."
        raise fail("mechanism", f"be one of {sorted(NAMES)} or a norm ball", mechanism, remedy)
    noise: Noise = mechanism.calibrate(sensitivity, epsilon=epsilon, delta=delta)
    return noise
