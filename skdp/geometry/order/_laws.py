"""Orders on K-norm mechanisms by containment and volume, and properties of the noise.

A K-norm mechanism of sensitivity Delta and budget epsilon has density proportional to
exp(-(epsilon / Delta) |v|_K). That is exp(-|v|_B) for the ball B = (Delta / epsilon) K, so a law
is given here by B, ``ScaledBall(K, Delta / epsilon)``. With d the dimension, |V|_B is Gamma(d)
and independent of the direction of V (Awan & Slavkovic 2020, section 3).
Proofs: docs/proofs/orders.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc, gammaincinv, gammaln

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_interval, fail
from skdp.geometry.ball import (
    NormBall,
    ScaledBall,
    as_points,
    ask,
    uniform_covariance,
)
from skdp.geometry.order.containment import contains

# Draws for the covariance of a ball without a closed form. The mean square of a coordinate then
# has an error of about 1 %.
DRAWS = 2**14
GIVEN = ("direction", "line")


def entropy(ball: NormBall) -> float:
    """Return the entropy, in nats, of the law with density proportional to exp(-|v|_B).

    Parameters
    ----------
    ball : NormBall with log_volume()
        B, the ball of the mechanism times sensitivity over epsilon.

    Returns
    -------
    float
        log(e^d d! vol B) (Proposition 3.14). It orders laws by the volumes of their balls.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> round(entropy(LpBall(1)), 6)  # a Laplace law of scale 1: 1 + log 2
    1.693147
    """
    return float(ball.dim + gammaln(ball.dim + 1) + ask(ball, "log_volume"))


def depth(ball: NormBall, v: ArrayLike) -> FloatArray:
    """Return the depth of points in the law exp(-|v|_B), (..., dim) to (...).

    This is the depth of Theorem 3.11: one minus the mass of the least region of highest density
    that contains v, P(|V|_B > |v|_B). It is 1 at 0.

    Parameters
    ----------
    ball : NormBall
        B, the ball of the mechanism times sensitivity over epsilon.
    v : array-like of shape (..., dim)

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> depth(LpBall(1), [[0.0], [1.0]]).round(6).tolist()
    [1.0, 0.367879]
    """
    return np.asarray(gammaincc(ball.dim, ball.gauge(as_points(v, ball.dim))))


def concentration_set(ball: NormBall, mass: float) -> ScaledBall:
    """Return the least set in which the law exp(-|v|_B) has the given mass (Lemma 3.5).

    Parameters
    ----------
    ball : NormBall
        B, the ball of the mechanism times sensitivity over epsilon.
    mass : float in (0, 1)

    Returns
    -------
    ScaledBall
        t B with t the ``mass`` quantile of Gamma(dim).

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> round(concentration_set(LpBall(1), 0.95).factor, 6)
    2.995732
    """
    mass = check_interval("mass", mass, 0.0, 1.0, closed="neither")
    return ScaledBall(ball, float(gammaincinv(ball.dim, mass)))


def is_tighter(ball: NormBall, than: NormBall) -> bool | None:
    """Return whether the law of ``ball`` is stochastically tighter than that of ``than``.

    This is so if each concentration set of the first law lies in that of the second of equal mass.
    By Theorem 3.6 this means containment of the balls, each times sensitivity over epsilon.

    Returns
    -------
    bool or None
        None if it is not decided, as for :func:`contains`.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> is_tighter(LpBall(2, p=1), LpBall(2, p=2))
    True
    """
    return contains(than, ball)


def conditional_variance(
    ball: NormBall, direction: ArrayLike, *, given: str = "direction"
) -> FloatArray:
    """Return the variance of the law exp(-|v|_B) along a direction.

    Parameters
    ----------
    ball : NormBall
        B, the ball of the mechanism times sensitivity over epsilon.
    direction : array-like of shape (..., dim)
        Any multiple of the unit vector e.
    given : {"direction", "line"}, default="direction"
        The event on which the law is conditioned. "direction": the limit of narrow double cones
        around e, as in Lemma 3.16. "line": the limit of narrow cylinders around the line of e.

    Returns
    -------
    ndarray of shape (...)
        Variance of <V, e>: d (d + 1) / |e|_B^2 or 2 / |e|_B^2. In both cases it is less in every
        direction if and only if the ball is inside the other (Theorem 3.17).

    Notes
    -----
    Given the direction, |<V, e>| is Gamma(d) with rate |e|_B. Its variance d / |e|_B^2 is the
    number in the proof of Theorem 3.17; that of <V, e>, which has mean 0, is d + 1 times it.
    The event has probability 0, so ``given`` states which limit is meant.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> ball = LpBall(2, p=1)
    >>> conditional_variance(ball, [[1, 0], [3, 3]]).round(9).tolist()
    [6.0, 3.0]
    >>> float(conditional_variance(ball, [1, 0], given="line"))  # a Laplace law
    2.0
    """
    check_choice("given", given, GIVEN)
    e = as_points(direction, ball.dim, "direction")
    length = np.linalg.norm(e, axis=-1)
    if not (np.isfinite(length) & (length > 0)).all():
        raise fail("direction", "be finite and not 0")
    second_moment = ball.dim * (ball.dim + 1) if given == "direction" else 2
    return np.asarray(second_moment * (length / ball.gauge(e)) ** 2)


def knorm_covariance(ball: NormBall) -> FloatArray:
    """Return the covariance of the law exp(-|v|_B), (dim, dim).

    It is (d + 1)(d + 2) times that of the uniform law on B, which is estimated from a fixed
    number of draws if the ball has no ``covariance()``.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> knorm_covariance(LpBall(2, p=1, weights=(1.0, 0.5))).round(9).tolist()
    [[2.0, 0.0], [0.0, 8.0]]
    """
    return covariance_or_estimate(ball)[0]


def covariance_or_estimate(ball: NormBall) -> tuple[FloatArray, bool]:
    """Return the covariance of the law exp(-|v|_B), and whether it is an estimate."""
    d = ball.dim
    uniform, estimated = uniform_covariance(ball, draws=DRAWS)
    return np.asarray((d + 1) * (d + 2) * uniform), estimated
