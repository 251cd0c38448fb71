"""The K-norm mechanism: noise shaped like what one record can change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._checks import check_choice, check_interval, check_positive, fail
from skdp.geometry import LpBall, NormBall
from skdp.geometry.ball import uniform_covariance
from skdp.mechanisms.sensitivity import ROUND_UP, Sensitivity, require_ball
from skdp.privacy.guarantee import Guarantee

NAMES = {"laplace": 1.0, "l1": 1.0, "l2": 2.0, "linf": math.inf, "hull": None}


@dataclass(frozen=True)
class KNormNoise:
    """A K-norm law, ready to draw: density proportional to exp(-|v|_K / scale).

    Attributes
    ----------
    ball : NormBall
        K.
    scale : float > 0, units of the released value
    guarantee : Guarantee
        What adding one draw to the value it was calibrated for gives.
    """

    ball: NormBall
    scale: float
    guarantee: Guarantee

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.ball.dim

    def rvs(self, rng: Generator) -> NDArray[np.float64]:
        """Return one draw, (dim,)."""
        # The direction is uniform in K, not on its boundary: hence dim + 1 and not dim.
        radius = self.scale * rng.gamma(self.dim + 1)
        return np.asarray(radius * self.ball.sample(1, rng)[0])

    def covariance(self) -> NDArray[np.float64]:
        """Return the covariance of a draw, (dim, dim): estimated where the ball has none."""
        d = self.dim
        return np.asarray((d + 1) * (d + 2) * self.scale**2 * uniform_covariance(self.ball)[0])

    def expected_norm(self, ball: NormBall, *, draws: int = 4096) -> float:
        """Return the mean gauge of a draw: exact in K itself, else a mean of ``draws``."""
        if ball is self.ball or (type(ball) is type(self.ball) and ball == self.ball):
            return self.dim * self.scale
        directions = self.ball.sample(draws, np.random.default_rng(0))
        return float((self.dim + 1) * self.scale * np.mean(ball.gauge(directions)))


@dataclass(frozen=True)
class KNorm:
    """K-norm mechanism (Hardt & Talwar 2010; Awan & Slavkovic 2020, Definition 2.9).

    Adding noise with density proportional to exp(-(epsilon / radius) |v|_K) is
    epsilon-private when no two neighbours differ by more than ``radius`` in |.|_K: the
    triangle inequality bounds the log-density ratio.

    Parameters
    ----------
    ball : NormBall or {"laplace", "l1", "l2", "linf", "hull"}
        K; "hull" is the ball in which the sensitivity is given. In "l1" the noise is an
        independent Laplace variable in each coordinate, hence its other name.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = KNorm("linf").calibrate(Sensitivity(LpBall(2, p=2)), epsilon=0.5)
    >>> round(noise.scale, 6)
    2.0
    """

    ball: NormBall | str = "hull"

    def __post_init__(self) -> None:
        if isinstance(self.ball, str):
            check_choice("ball", self.ball, NAMES)
        else:
            require_ball(self.ball)

    def for_dim(self, hull: NormBall) -> NormBall:
        """Return K itself, where a name stands for it."""
        if not isinstance(self.ball, str):
            return self.ball
        p = NAMES[self.ball]
        return hull if p is None else LpBall(hull.dim, p=p)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> KNormNoise:
        """Return the least noise of this shape that is epsilon-private.

        ``delta`` > 0 is allowed and not made use of: the guarantee is the pure one.
        """
        epsilon = check_positive("epsilon", epsilon)
        check_interval("delta", delta, 0.0, 1.0, closed="left")
        ball = self.for_dim(sensitivity.ball)
        if not ball.exact:
            remedy = "Take a ball whose sampler is exact."
            raise fail("ball", "be sampled exactly for a guarantee with delta = 0", ball, remedy)
        guarantee = Guarantee(
            epsilon, neighbors=sensitivity.neighbors, mechanism=f"K-norm noise on {ball!r}"
        )
        # The division rounds; the last bits go to the safe side.
        return KNormNoise(ball, sensitivity.radius_in(ball) / epsilon * ROUND_UP, guarantee)
