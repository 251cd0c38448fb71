"""The K-norm mechanism: noise with the density exp(-|v| / scale) in a norm, or on an ellipsoid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_epsilon, check_interval, fail
from skdp._draws import gamma
from skdp._identity import is_ours, relied_on, remembered
from skdp._search import last_passing
from skdp.geometry import Hull, LpBall, MappedBall, NormBall, ScaledBall, ShearedBall
from skdp.geometry.ball import (
    parts_of,
    uniform_covariance,
    uniform_first_covariance,
    uniform_variance,
)
from skdp.mechanisms.gaussian import EllipticGaussian, gaussian_scale
from skdp.mechanisms.noise import BaseNoise
from skdp.mechanisms.sensitivity import ROUND_UP, Sensitivity, check_ball
from skdp.noise.laws import Laplace
from skdp.privacy.guarantee import Guarantee
from skdp.privacy.losses import PrivacyLoss, ShiftLoss
from skdp.privacy.radial import MOST_SHIFT, RadialLoss
from skdp.randomness import GRANULARITY

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
    """
    return epsilon - 2 * math.log1p(-delta)


@remembered(maxsize=1024)
def shift_in_round_norm(dim: int, epsilon: float, delta: float) -> float:
    """Return the greatest length for which noise with density exp(-|x|_2) is private, rounded down.

    It has passed, and is within 1e-11 of the greatest and at least `shift_in_any_norm`; delta > 0.

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


NAMES = {"l1": 1.0, "l2": 2.0, "linf": math.inf, "hull": None}


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


@dataclass(frozen=True)
class KNorm:
    """K-norm mechanism (Hardt & Talwar 2010; Awan & Slavkovic 2020, Definition 2.9).

    Noise with density proportional to exp(-(epsilon / radius) |v|_K) is epsilon-private if no
    two neighbours differ by more than ``radius`` in |.|_K: the triangle inequality bounds the
    log-density ratio. With delta > 0 the rate may be (epsilon - 2 log(1 - delta)) / radius, as
    for one Laplace variable, and more in l_2 (``docs/proofs/knorm_delta.md``, Theorems 1 and 2).

    Parameters
    ----------
    ball : NormBall or {"l1", "l2", "linf", "hull"}
        K; "hull" stands for the ball of the sensitivity. With "l1" the noise is an independent
        Laplace variable in each coordinate. With delta > 0 ``Independent("laplace")`` composes
        the coordinates, which needs less variance for most sensitivities.

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
            check_ball(self.ball)

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
            assumptions=relied_on(ball, sensitivity.ball),
            losses=losses,
        )
        return KNormNoise(ball, scale, guarantee, losses)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class EllipticKNorm:
    """K-norm noise on the ellipsoid of the least weighted trace, the name "elliptic_l2".

    Every difference u has u' S^-1 u <= 1 for the S of `EllipticGaussian`. The noise is S^(1/2)
    times Euclidean K-norm noise for differences of length 1. It is as private as the latter, and
    its covariance is a multiple of S. If "l2" has less variance than Gaussian noise for a
    Euclidean ball, then this noise has less variance than elliptic Gaussian noise for any body
    (docs/proofs/knorm_delta.md, Proposition 3).

    Parameters
    ----------
    weights : array-like of shape (dim,), entries > 0, or (dim, dim), positive definite, or None
        As in `EllipticGaussian`.

    Examples
    --------
    >>> box = Sensitivity(LpBall(2, p=float("inf"), weights=(1.0, 0.1)))  # [-1, 1] x [-10, 10]
    >>> EllipticKNorm().calibrate(box, epsilon=1.0, delta=1e-6).covariance().round()
    array([[ 33.,   0.],
           [  0., 330.]])
    """

    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", EllipticGaussian(self.weights).weights)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> KNormNoise:
        """Return such noise that is (epsilon, delta)-private."""
        cover = EllipticGaussian(self.weights).cover(sensitivity)
        factor = sensitivity.radius * ROUND_UP * cover * ROUND_UP
        ellipsoid = MappedBall(LpBall(sensitivity.ball.dim), factor * ROUND_UP)
        around = Sensitivity(ellipsoid, neighbors=sensitivity.neighbors)
        noise = KNorm("hull").calibrate(around, epsilon=epsilon, delta=delta)
        said = f"K-norm noise on an ellipsoid around {sensitivity.ball!r}"
        own = relied_on(sensitivity.ball)
        return replace(noise, guarantee=replace(noise.guarantee, mechanism=said, assumptions=own))


def knorm_is_less(dim: int, epsilon: float, delta: float) -> bool:
    """Return whether K-norm noise on an ellipsoid has less variance than Gaussian noise."""
    if delta == 0:
        return True
    # With r = |v|_2 / scale, E r^2 = d (d + 1); both covariances are multiples of one matrix. So
    # the noise is less if it is private for differences of at least this length.
    needed = math.sqrt(dim + 1) / gaussian_scale(epsilon, delta)
    return is_private_in_round_norm(dim, needed, epsilon, delta)
