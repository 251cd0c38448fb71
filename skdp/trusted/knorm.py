"""K-norm noise, of density exp(-|v|_K / scale), and its privacy losses.

The log-density changes by at most the gauge of a change over the scale (docs/proofs/knorm.md).
With a delta the losses are those of one Laplace variable or, for Euclidean balls and their linear
images, those of their radial law (docs/proofs/knorm_delta.md, Theorems 1 and 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import check_positive
from skdp._draws import gamma
from skdp._identity import is_ours
from skdp.geometry import Hull, LpBall, MappedBall, NormBall, ScaledBall, ShearedBall
from skdp.geometry.ball import (
    parts_of,
    uniform_covariance,
    uniform_first_covariance,
    uniform_variance,
)
from skdp.noise.laws import Laplace
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses import Losses, ShiftLoss
from skdp.privacy.radial import MOST_SHIFT, RadialLoss
from skdp.randomness import GRANULARITY
from skdp.trusted.noise import BaseNoise


def losses_of(ball: NormBall, shift: float) -> Losses:
    """Return a privacy loss that dominates that of noise of scale 1 for such a difference."""
    if ball.dim > 1 and is_round(ball) and shift <= MOST_SHIFT:
        return ((RadialLoss(ball.dim, shift), 1),)
    return ((ShiftLoss(Laplace(), shift), 1),)


def is_round(ball: NormBall) -> bool:
    """Return whether a ball is known to be a linear image of the Euclidean ball."""
    while type(ball) in (ScaledBall, MappedBall, ShearedBall):  # a subclass may have another gauge
        ball = ball.ball  # type: ignore[attr-defined]
    return type(ball) is LpBall and (ball.p == 2 or ball.dim == 1)


@dataclass(frozen=True)
class KNormNoise(BaseNoise):
    """Noise with density proportional to exp(-|v|_K / scale).

    Attributes
    ----------
    ball : NormBall
        K.
    scale : float > 0, units of the released value
    guarantee : Guarantee
        Guarantee of one release.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> from skdp.mechanisms import Sensitivity, calibrate
    >>> noise = calibrate("l2", Sensitivity(LpBall(3)), epsilon=1.0)
    >>> type(noise).__name__, noise.guarantee.delta
    ('KNormNoise', 0.0)
    >>> noise.covariance().diagonal().round(6).tolist()
    [4.0, 4.0, 4.0]
    """

    ball: NormBall
    scale: float
    guarantee: Guarantee = None  # type: ignore[assignment]  # stated by `certified`
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.ball.dim

    @property
    def granularity(self) -> float:
        """Greatest distance of a draw from one of the exact law, in standard deviations."""
        return _granularity(self.ball)

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,), for simulations; use ``release`` to publish a value."""
        # The direction is uniform in K, not on its boundary, hence dim + 1 and not dim.
        radius = self.scale * gamma(self.dim + 1, rng)
        return np.asarray(radius * self.ball.sample(1, rng)[0])

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate, (dim,), an estimate if the ball has none."""
        return np.asarray(self._second_moment * uniform_variance(self.ball))

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw, (dim, dim), an estimate if the ball has none."""
        return np.asarray(self._second_moment * uniform_covariance(self.ball)[0])

    def first_covariance(self) -> FloatArray:
        """Return the covariance of each coordinate with the first one, (dim,), or an estimate."""
        return np.asarray(self._second_moment * uniform_first_covariance(self.ball))

    @property
    def _second_moment(self) -> float:
        """Covariance of a draw over that of a uniform draw from the ball."""
        return (self.dim + 1) * (self.dim + 2) * self.scale**2

    def expected_norm(self, ball: NormBall, *, draws: int = 4096) -> float:
        """Return the mean gauge of a draw, exact in K itself, else from ``draws`` draws."""
        if ball is self.ball or ball == self.ball:
            return self.dim * self.scale
        directions = self.ball.sample(draws, np.random.default_rng(0))
        return float((self.dim + 1) * self.scale * np.mean(ball.gauge(directions)))


def _granularity(ball: NormBall) -> float:
    """Return the granularity of a K-norm law (docs/proofs/lattice_release.md, Lemma 3)."""
    found = max([GRANULARITY, *map(_granularity, parts_of(ball))])
    # A sum of ``dim`` terms may round once for each of them.
    summed = 2.0**-50 * ball.dim**2
    if isinstance(ball, ShearedBall) or np.ndim(getattr(ball, "matrix", 0.0)) == 2:
        inner, outer = (np.sqrt(uniform_variance(k)) for k in (ball.ball, ball))  # type: ignore[attr-defined]
        # The sums of the absolute terms of the map's rows.
        if isinstance(ball, ShearedBall):
            added = inner + np.abs(ball.shift) * inner[0]
        else:
            added = np.abs(ball.matrix) @ inner  # type: ignore[attr-defined]
        found = (found + summed) * float(np.max(added / outer))
    elif isinstance(ball, Hull) or not is_ours(ball):
        found = max(found, summed)
    return min(2.0**-20, found)
