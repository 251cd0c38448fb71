"""The K-norm mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_epsilon, check_interval, fail
from skdp._draws import gamma
from skdp._identity import is_ours, same
from skdp.geometry import Hull, LpBall, NormBall, ShearedBall
from skdp.geometry.ball import (
    parts_of,
    uniform_covariance,
    uniform_first_covariance,
    uniform_variance,
)
from skdp.mechanisms.knorm.radial import greatest_shift, losses_of
from skdp.mechanisms.noise import BaseNoise
from skdp.mechanisms.sensitivity.ball import require_ball
from skdp.mechanisms.sensitivity.base import ROUND_UP, Sensitivity
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses import PrivacyLoss
from skdp.randomness import GRANULARITY

NAMES = {"laplace": 1.0, "l1": 1.0, "l2": 2.0, "linf": math.inf, "hull": None}


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
    losses : tuple of (PrivacyLoss, int)
        They dominate the privacy loss of the release, and so bound its privacy profile; empty if
        only the guarantee is known. They are exact for l_1, l_2 and l_inf.

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
    guarantee: Guarantee
    losses: tuple[tuple[PrivacyLoss, int], ...] = ()
    log_concave: ClassVar[bool] = True

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
        if same(ball, self.ball):
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
        found = (found + summed) * float(np.max(_added(ball, inner) / outer))
    elif isinstance(ball, Hull) or not is_ours(ball):
        found = max(found, summed)
    return min(2.0**-20, found)


def _added(ball: Any, deviation: FloatArray) -> FloatArray:
    """Return the sums of the absolute terms of a linear map's rows, (dim,)."""
    if isinstance(ball, ShearedBall):
        return np.asarray(deviation + np.abs(ball.shift) * deviation[0])
    return np.asarray(np.abs(ball.matrix) @ deviation)


@dataclass(frozen=True)
class KNorm:
    """K-norm mechanism (Hardt & Talwar 2010; Awan & Slavkovic 2020, Definition 2.9).

    Noise with density proportional to exp(-(epsilon / radius) |v|_K) is epsilon-private if no
    two neighbours differ by more than ``radius`` in |.|_K: the triangle inequality bounds the
    log-density ratio. With delta > 0 the rate may be (epsilon - 2 log(1 - delta)) / radius, as
    for one Laplace variable, and more in l_2 (``docs/proofs/knorm_delta.md``, Theorems 1 and 2).

    Parameters
    ----------
    ball : NormBall or {"laplace", "l1", "l2", "linf", "hull"}
        K; "hull" stands for the ball of the sensitivity. With "l1", also named "laplace", the
        noise is an independent Laplace variable in each coordinate.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = KNorm("linf").calibrate(Sensitivity(LpBall(2, p=2)), epsilon=0.5)
    >>> round(noise.scale, 6)
    2.0
    >>> twenty = Sensitivity(LpBall(20, p=2))
    >>> round(KNorm("l2").calibrate(twenty, epsilon=0.5, delta=1e-6).scale, 6)
    1.500565
    """

    ball: NormBall | str = "hull"

    def __post_init__(self) -> None:
        if isinstance(self.ball, str):
            check_choice("ball", self.ball, NAMES)
        else:
            require_ball(self.ball)

    def for_dim(self, hull: NormBall) -> NormBall:
        """Return K, given the ball of the sensitivity."""
        if not isinstance(self.ball, str):
            return self.ball
        p = NAMES[self.ball]
        return hull if p is None else LpBall(hull.dim, p=p)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> KNormNoise:
        """Return the noise of this shape that is (epsilon, delta)-private.

        The scale is the least for delta = 0, for l_1 and l_inf, and for l_2 and its linear
        images. Other norms take the scale of l_1 and l_inf, which is sufficient for every norm.
        """
        epsilon = check_epsilon(epsilon)
        delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
        ball = self.for_dim(sensitivity.ball)
        if not ball.exact:
            remedy = "Take a ball whose sampler is exact."
            raise fail("ball", "be sampled exactly for the guarantee to be true", ball, remedy)
        radius = sensitivity.radius_in(ball)
        # The division rounds, so the scale is raised by more than its error.
        scale = radius / greatest_shift(ball, epsilon, delta) * ROUND_UP
        losses = losses_of(ball, math.nextafter(radius / scale, math.inf))
        guarantee = Guarantee(
            epsilon,
            delta,
            neighbors=sensitivity.neighbors,
            mechanism=f"K-norm noise on {ball!r}",
            losses=losses,
        )
        return KNormNoise(ball, scale, guarantee, losses)
