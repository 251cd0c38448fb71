"""The K-norm mechanism with density exp(-|v| / scale), and the Gaussian mechanism.

Two normal laws with one covariance S and a shift u have the trade-off function of N(0, 1) and
N(mu, 1), mu^2 = u' S^-1 u. For these the least delta at epsilon is Phi(-a) - e^epsilon Phi(-b),
a = epsilon / mu - mu / 2, b = epsilon / mu + mu / 2 (Balle & Wang 2018, Theorem 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skdp._first_use import check_ball
from skdp._search import last_passing
from skdp.geometry import LpBall, MappedBall, NormBall
from skdp.mechanisms.ellipsoid import least_cover, trace
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.privacy.conversions import gaussian_mu
from skdp.privacy.guarantee import certified
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.ball import greatest_square, length_in
from skdp.trusted.checks import (
    check_choice,
    check_epsilon,
    check_interval,
    check_numbers,
    check_positive,
    fail,
    remembered,
)
from skdp.trusted.noise import GaussianNoise, KNormNoise, is_round
from skdp.trusted.radial import MOST_SHIFT, RadialLoss


def check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return both as floats, and raise unless a calibration can be accurate and delta is < 1."""
    return check_epsilon(epsilon), check_interval("delta", delta, 0.0, 1.0, closed="left")


def gaussian_scale(epsilon: float, delta: float) -> float:
    """Return the least standard deviation for differences of length 1, rounded up.

    The result is never below the least value, and within a few 1e-12 of it for delta <= 0.9. For
    delta closer to 1 it is greater: by 4e-8 at 1 - 1e-6, and by 2.6e-5 at 1 - 1e-9, for epsilon =
    1. delta must be > 0.
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_interval("delta", delta, 0.0, 1.0, closed="left")
    if delta == 0:
        rule = "be > 0 for Gaussian noise, which is not pure DP"
        raise fail("delta", rule, delta, 'Pass 1e-6, say, or take a mechanism such as "l2".')
    scale = ROUND_UP / max(_greatest_mu(epsilon, delta), 5e-324)
    if not scale < math.inf:
        raise fail("delta", "be so great that the noise is a finite number", delta)
    return scale


def spendable(delta: float) -> float:
    """Return the delta for which noise is calibrated: bounds of the checker round by 1e-12."""
    return delta * (1 - 2e-12)


_greatest_mu = remembered(maxsize=1024)(gaussian_mu)


@dataclass(frozen=True)
class IsotropicGaussian:
    """Independent normal noise with one variance in every coordinate, named "gaussian".

    The standard deviation is the greatest length of a difference times the least standard deviation
    that is (epsilon, delta)-private for length 1 (Balle & Wang 2018).

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> noise = IsotropicGaussian().calibrate(
    ...     Sensitivity(LpBall(2), radius=3.0), epsilon=1.0, delta=1e-6
    ... )
    >>> round(noise.factor, 3)
    12.674
    """

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> GaussianNoise:
        """Return the least such noise that is (epsilon, delta)-private, for delta > 0."""
        (epsilon, delta), ball = check_budget(epsilon, delta), sensitivity.ball
        length = sensitivity.radius * math.sqrt(greatest_square(ball, np.ones(ball.dim)))
        scale = length * gaussian_scale(epsilon, spendable(delta)) * ROUND_UP
        said = f"Gaussian noise for differences in {ball!r}"
        return certified(GaussianNoise(ball.dim, scale), sensitivity, epsilon, delta, said)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class EllipticGaussian:
    """Gaussian noise with the least weighted mean squared error, named "elliptic".

    If u' S^-1 u <= 1 for every difference u, noise N(0, s^2 S) is as private as N(0, s^2) in one
    dimension for differences of length 1. The S with the least tr(W S) is used, and the least s
    that is (epsilon, delta)-private (Balle & Wang 2018).

    Parameters
    ----------
    weights : array-like of shape (dim,), entries > 0, or (dim, dim), positive definite, or None
        W: the error of a draw v is E v' W v. Greater weights mean less noise. None stands for
        ones.

    Notes
    -----
    For weights of shape (dim,) the least trace is reached, to a relative error of about 1e-5, for
    l_p balls, for balls whose extreme points can be listed, and for products, sums and multiples
    of such balls. For a ball with ``orbits()`` and ``greatest_square()``, and for hulls of
    rows with too many corners to list, the trace is the least among covariances that are
    diagonal and equal on orbits. Other balls are replaced by the box around them. The noise is
    never worse than that of the mechanism "gaussian", and its guarantee holds in all cases.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> box = Sensitivity(LpBall(2, p=float("inf"), weights=(1.0, 0.1)))  # [-1, 1] x [-10, 10]
    >>> noise = EllipticGaussian().calibrate(box, epsilon=1.0, delta=1e-6)
    >>> noise.covariance().round()
    array([[ 196.,    0.],
           [   0., 1963.]])
    """

    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        weights = check_numbers("weights", self.weights)
        remedy = "Greater weights mean less noise in a coordinate."
        if weights.ndim == 2 and weights.shape[0] == weights.shape[1]:
            symmetric = np.array_equal(weights, weights.T) and np.isfinite(weights).all()
            if not symmetric or not np.linalg.eigvalsh(weights)[0] > 0:
                rule = "be symmetric and positive definite, if a matrix"
                raise fail("weights", rule, remedy=remedy)
        elif weights.ndim != 1 or not len(weights):
            raise fail("weights", "have shape (dim,) or (dim, dim)", weights.shape, remedy)
        elif not (np.isfinite(weights) & (weights > 0)).all():
            raise fail("weights", "be finite numbers > 0", weights.tolist(), remedy)
        object.__setattr__(self, "weights", weights)

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> GaussianNoise:
        """Return such noise that is (epsilon, delta)-private, for delta > 0."""
        epsilon, delta = check_budget(epsilon, delta)
        scale = gaussian_scale(epsilon, spendable(delta)) * ROUND_UP
        noise = GaussianNoise(sensitivity.ball.dim, scale * self.cover(sensitivity))
        said = f"elliptic Gaussian noise for differences in {sensitivity.ball!r}"
        return certified(noise, sensitivity, epsilon, delta, said)

    def cover(self, sensitivity: Sensitivity) -> FloatArray:
        """Return A, (dim,) or (dim, dim), with S = A A' and u' S^-1 u <= 1 for all differences u.

        It is the better of the fitted and the round cover.
        """
        ball, weights = sensitivity.ball, np.ones(sensitivity.ball.dim)
        check_weights_for(self.weights, ball.dim)
        if self.weights is not None:
            weights = np.asarray(self.weights)
            weights = np.asarray(weights / weights.max())  # only their ratios matter
        length = np.sqrt(greatest_square(ball, np.ones(ball.dim))) * ROUND_UP
        round_cover, fitted = np.full(ball.dim, length), least_cover(ball, weights)
        better = trace(fitted, weights) < trace(round_cover, weights)
        cover = fitted if better else round_cover  # also if a number has overflowed
        return np.asarray(cover * length_in(cover, sensitivity) * ROUND_UP)


def check_weights_for(weights: ArrayLike | None, dim: int) -> None:
    if weights is not None and (count := len(np.asarray(weights))) != dim:
        raise fail("weights", f"have {dim} entries, one for each coordinate", count)


# Above this epsilon the Laplace bound is taken: it is safe, and the exact sums take long.
_MOST_EPSILON = 1e4


def greatest_shift(ball: NormBall, epsilon: float, delta: float) -> float:
    """Return the greatest gauge of a difference for which noise of scale 1 is private."""
    if delta > 0 and is_round(ball):
        return shift_in_round_norm(ball.dim, epsilon, delta)
    return shift_in_any_norm(epsilon, delta)


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


NAMES = {"l1": 1.0, "l2": 2.0, "linf": math.inf, "hull": None}


@dataclass(frozen=True)
class KNorm:
    """K-norm mechanism (Hardt & Talwar 2010; Awan & Slavkovic 2020, Definition 2.9).

    Noise with density proportional to exp(-(epsilon / radius) |v|_K) is epsilon-private if the
    statistics of any two neighbours differ by at most ``radius`` in |.|_K: the triangle inequality
    bounds the log-density ratio. With delta > 0 the rate may be (epsilon - 2 log(1 - delta)) /
    radius, as for one Laplace variable, and more in l_2 (``docs/proofs/knorm_delta.md``, Theorems 1
    and 2).

    Parameters
    ----------
    ball : NormBall or {"l1", "l2", "linf", "hull"}
        K; "hull" stands for the ball of the sensitivity. For "l1" the noise is an independent
        Laplace variable in each coordinate. If delta > 0, ``Independent("laplace")`` composes the
        coordinates and needs less variance for most sensitivities.

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

        The scale is the least for delta = 0, for l_1 and l_inf, and for l_2 and its linear images.
        Other norms use the scale of l_1 and l_inf, which is sufficient for every norm.
        """
        noise = self.noise(sensitivity, epsilon, delta)
        return certified(noise, sensitivity, epsilon, delta, f"K-norm noise on {noise.ball!r}")

    def noise(self, sensitivity: Sensitivity, epsilon: float, delta: float = 0.0) -> KNormNoise:
        """Return the noise of `calibrate` without its guarantee, where the release proves one."""
        epsilon, delta = check_budget(epsilon, delta)
        ball = self.for_dim(sensitivity.ball)
        if not ball.exact:
            remedy = "Take a ball whose sampler is exact."
            raise fail("ball", "be sampled exactly for the guarantee to be true", ball, remedy)
        scale = sensitivity.radius_in(ball) / greatest_shift(ball, epsilon, spendable(delta))
        # The division rounds, so the scale is raised by more than its error.
        return KNormNoise(ball, scale * ROUND_UP)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class EllipticKNorm:
    """K-norm noise on the ellipsoid of the least weighted trace, named "elliptic_l2".

    Every difference u satisfies u' S^-1 u <= 1 for the S of `EllipticGaussian`. The noise is
    S^(1/2) times Euclidean K-norm noise for differences of length 1. It is as private as the
    latter, and its covariance is a multiple of S. If "l2" has less variance than Gaussian noise for
    a Euclidean ball, then this noise has less variance than elliptic Gaussian noise for any body
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
        epsilon, delta = check_budget(epsilon, delta)
        round_ball = LpBall(sensitivity.ball.dim)
        ellipsoid = MappedBall(round_ball, EllipticGaussian(self.weights).cover(sensitivity))
        scale = ROUND_UP / greatest_shift(round_ball, epsilon, spendable(delta))
        said = f"K-norm noise on an ellipsoid around {sensitivity.ball!r}"
        return certified(KNormNoise(ellipsoid, scale), sensitivity, epsilon, delta, said)


@remembered(maxsize=1024)
def knorm_is_less(dim: int, epsilon: float, delta: float) -> bool:
    """Return whether K-norm noise on an ellipsoid has less variance than Gaussian noise."""
    if delta == 0:
        return True
    # With r = |v|_2 / scale, E r^2 = d (d + 1); both covariances are multiples of one matrix. So
    # the noise is less if it is private for differences of at least this length.
    needed = math.sqrt(dim + 1) / gaussian_scale(epsilon, delta)
    if needed <= shift_in_any_norm(epsilon, delta):
        return True
    if dim == 1 or epsilon > _MOST_EPSILON or needed > MOST_SHIFT:
        return needed <= shift_in_round_norm(dim, epsilon, delta)
    return bool(RadialLoss(dim, needed).log_delta(epsilon) <= math.log(delta))
