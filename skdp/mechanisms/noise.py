"""What every mechanism makes."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.geometry import NormBall
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
